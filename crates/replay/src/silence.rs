//! What a trace does not record, which is neither shown nor compared.

use opplab_model::machine::Machine;

use crate::measure::{Measured, PolicyTimes, seconds};

/// What a trace does not record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Silence {
    /// By cpufreq policy of the machine: its frequency.
    pub frequency: Vec<bool>,
    /// When anything was woken.
    pub wakeups: bool,
}

impl Silence {
    /// Whether the frequency of the policy with this first CPU is not known.
    pub(crate) fn covers(&self, measured: &Measured, policy: &PolicyTimes) -> bool {
        let index = measured.policies.iter().position(|known| known.cpus == policy.cpus);
        index.and_then(|index| self.frequency.get(index)).copied().unwrap_or(false)
    }

    /// The policies whose unknown clock leaves the energy of `recorded` unknown, by number: those that ran something.
    pub(crate) fn of_energy(&self, recorded: &Measured) -> Vec<usize> {
        let busy = |nth: usize| recorded.policies.get(nth).is_some_and(|policy| policy.all_busy_ns() > 0);
        let silent = self.frequency.iter().enumerate().filter(|&(_, &silent)| silent);
        silent.map(|(nth, _)| nth).filter(|&nth| busy(nth)).collect()
    }

    /// What of `recorded` is blank for it, and why.
    pub fn reasons(&self, machine: &Machine, recorded: &Measured) -> Vec<(String, String)> {
        let (mut reasons, of_energy) = (Vec::new(), self.of_energy(recorded));
        let silent =
            machine.policies().into_iter().zip(&self.frequency).enumerate().filter(|(_, (_, silent))| **silent);
        for (nth, ((_, cpus), _)) in silent {
            let list = cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            let energy = if of_energy.contains(&nth) { ", energy" } else { "" };
            reasons.push((
                format!("policy{} frequency and changes{energy}", cpus[0]),
                format!(
                    "no cpu_frequency event of CPU {list} is in the trace, and no clock of it in a snapshot beside it"
                ),
            ));
        }
        for (nth, policy) in recorded.policies.iter().enumerate() {
            let Some(from_ns) = policy.from_ns else { continue };
            let is_equal = |(other, times): (usize, &PolicyTimes)| {
                other != nth && (times.from_ns, &times.freq_khz) == (policy.from_ns, &policy.freq_khz)
            };
            let pairs = recorded.policies.iter().enumerate().any(is_equal);
            reasons.push((
                format!("policy{} frequency, changes and energy before {}", policy.cpus[0], seconds(from_ns)),
                format!(
                    "no cpu_frequency event and no snapshot shows its clock there{}; in every column they are of the {} \
                     after it",
                    if pairs { ", or that of an equal policy" } else { "" },
                    seconds(policy.time_ns.iter().sum())
                ),
            ));
        }
        if self.wakeups {
            let reason = "no sched_waking, sched_wakeup or sched_wakeup_new event is in the trace";
            reasons.push(("wake-up latencies".into(), reason.into()));
        }
        reasons
    }
}
