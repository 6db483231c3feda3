//! The reports to governors of an open loop, and how their requests are carried out.

use opplab_kernel::cpufreq::facts::Request;
use opplab_kernel::cpufreq::facts::{PolicyFacts, SugovDecision};
use opplab_kernel::cpufreq::governor::{Report, Worker};
use opplab_kernel::cpufreq::schedutil::SCHED_CPUFREQ_IOWAIT;
use opplab_kernel::pelt::HalfLife;
use opplab_model::decision::{Decision, FreqContext};
use opplab_model::event::IDLE_TASK;
use opplab_model::machine::InvarianceSource;

use super::state::{FreqPolicy, View};
use super::{OpenDecision, PASS_NS, Run};
use crate::events::{Context, Ev, What};

/// A call at a tick has no such event, unless the tick preempts.
const TICK_PASS_NS: u64 = 100_000;
/// A recorded sample that comes so much too early by the time of its kworker's wake-up was due: the one before was woken so
/// late, as the kernel counts from call to call, and emulated CPUs may stand still between a call and the wake-up.
const WOKEN_LATE_NS: u64 = 2_000_000;

/// The scheduler calls the governor of `cpu`.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub(super) time_ns: u64,
    /// Who executes.
    pub(super) here: u32,
    pub(super) cpu: u32,
    pub(super) flags: u32,
    /// What was recorded of it: the scheduler's clock that it was given, and its number.
    pub(super) told: Option<(u64, u32)>,
}

impl<H: HalfLife> Run<'_, H> {
    /// How long the event of a call's cause may take to come.
    pub(super) fn waits_ns(&self, call: &Call) -> u64 {
        let tick = self.ticks.is_none_or(|ticks| ticks.caused(self.clock(call.time_ns)));
        if tick { TICK_PASS_NS } else { PASS_NS }
    }

    /// Calls the governors of all CPUs whose averages changed.
    pub(super) fn changed(&mut self, time_ns: u64, here: u32) {
        for cpu in 0..self.cpus.len() as u32 {
            if self.signals.take_changed(cpu) {
                self.call(Call { time_ns, here, cpu, flags: 0, told: None });
            }
        }
    }

    /// A governor is called for a CPU.
    pub(super) fn call(&mut self, call: Call) {
        let Call { time_ns, here, cpu, flags, told } = call;
        self.signals.update(self.clock(time_ns), cpu);
        let now_ns = told.map_or(self.clock(time_ns), |(clock_ns, _)| clock_ns);
        let index = self.policy_of[cpu as usize];
        let FreqPolicy { cpus: members, governor, worker, limits, cur_khz, kthread, due_ns, sets } =
            &mut self.policies[index];
        match worker {
            Worker::Nobody => return,
            // The recorded ones are called when they sampled.
            Worker::Kworker if !self.kworkers.is_empty() => return,
            Worker::Kworker => return self.sample(time_ns, here, cpu, time_ns),
            Worker::Kthread => {}
        }
        let facts = PolicyFacts {
            cur_khz: *cur_khz,
            freq_ref_khz: match self.machine.invariance {
                InvarianceSource::FreqChange => limits.max_khz,
                InvarianceSource::CountersAtTick | InvarianceSource::Absent => 0,
            },
            freq_invariant: self.freq_invariant,
            can_update: self.machine.cpufreq.dvfs_possible_from_any_cpu || members.contains(&here),
        };
        let view = View {
            signals: &self.signals,
            cpus: &self.cpus,
            members,
            kernels: self.kernels,
            records: self.records,
            time_ns,
            call: told.map(|(_, call)| call),
        };
        let member = members.iter().position(|&other| other == cpu).unwrap_or(0);
        let report = Report { time_ns: now_ns, cpu: member, flags, policy: facts };
        if time_ns < self.settled_ns {
            governor.update_util(&report, &view, None);
            governor.follow(*cur_khz);
            return;
        }
        let mut made: Option<SugovDecision> = None;
        let request = governor.update_util(&report, &view, Some(&mut made));
        let computed = made.filter(|made| made.max_cap != 0);
        if let (Some(decisions), Some(decision)) = (&mut self.decisions, computed) {
            let iowait = flags & SCHED_CPUFREQ_IOWAIT != 0;
            let context = FreqContext { members, form: self.util_form, iowait, prev_khz: *cur_khz, wait_ns: 0 };
            decisions.push(OpenDecision { time_ns, decision: Decision::freq(&context, &decision, &decision) });
        }
        match request {
            Some(Request::FastSwitch { freq_khz }) if self.granted_ns > 0 => {
                *sets = Some((time_ns.saturating_add(self.granted_ns), freq_khz));
            }
            Some(Request::FastSwitch { freq_khz }) if freq_khz != *cur_khz => {
                *cur_khz = freq_khz;
                self.set(index, time_ns);
            }
            Some(Request::QueueWork) => {
                let work_ns = self.machine.costs.sugov_work_ns + self.machine.cpufreq.switch_ns;
                *due_ns = Some(kthread.work_ns(time_ns, work_ns, sets.map_or(0, |(done_ns, _)| done_ns)));
            }
            _ => {}
        }
    }

    /// A sampling governor is called for `cpu` by `here`; the sample that may be due is taken at `began_ns`.
    pub(super) fn sample(&mut self, time_ns: u64, here: u32, cpu: u32, began_ns: u64) {
        let woken_ns = self.clock(time_ns);
        let FreqPolicy { cpus: members, governor, due_ns, cur_khz, .. } =
            &mut self.policies[self.policy_of[cpu as usize]];
        let wait_ns = governor.next_change_ns(*cur_khz).saturating_sub(woken_ns);
        let now_ns = if wait_ns < WOKEN_LATE_NS { woken_ns + wait_ns } else { woken_ns };
        let policy = PolicyFacts {
            cur_khz: *cur_khz,
            freq_ref_khz: 0,
            freq_invariant: self.freq_invariant,
            can_update: self.machine.cpufreq.dvfs_possible_from_any_cpu || members.contains(&here),
        };
        let view = View {
            signals: &self.signals,
            cpus: &self.cpus,
            members,
            kernels: self.kernels,
            records: self.records,
            time_ns: began_ns,
            call: None,
        };
        let report = Report { time_ns: now_ns, cpu: 0, flags: 0, policy };
        if governor.update_util(&report, &view, None) == Some(Request::QueueWork) {
            *due_ns = Some((began_ns, began_ns));
            self.work_until(time_ns);
        }
    }

    /// The recorded frequency holds, as if the governor had asked for it; where it has, what it keeps beside the frequency
    /// (conservative's request, between two points of the table) stays.
    pub(super) fn follow(&mut self, index: usize, freq_khz: u32, time_ns: u64) {
        let policy = &mut self.policies[index];
        if policy.worker == Worker::Nobody {
            return;
        }
        if policy.governor.wanted_khz() != freq_khz {
            policy.governor.follow(freq_khz);
        }
        policy.cur_khz = freq_khz;
        self.set(index, time_ns);
    }

    /// The works up to `time_ns`: a kthread takes what its governor wants and sets it, a sample is taken.
    pub(super) fn work_until(&mut self, time_ns: u64) {
        for index in 0..self.policies.len() {
            loop {
                let FreqPolicy { due_ns, sets, .. } = &mut self.policies[index];
                if let Some((done_ns, khz)) = sets.take_if(|(done_ns, _)| *done_ns <= time_ns) {
                    self.sets(index, done_ns, khz);
                } else if let Some((began_ns, done_ns)) = due_ns.take_if(|(began_ns, _)| *began_ns <= time_ns) {
                    self.work(index, began_ns, done_ns);
                } else {
                    break;
                }
            }
        }
    }

    fn work(&mut self, index: usize, began_ns: u64, done_ns: u64) {
        let FreqPolicy { cpus: members, governor, cur_khz, .. } = &mut self.policies[index];
        let view = View {
            signals: &self.signals,
            cpus: &self.cpus,
            members,
            kernels: self.kernels,
            records: self.records,
            time_ns: began_ns,
            call: None,
        };
        self.policies[index].sets = governor.work(*cur_khz, &view).map(|khz| (done_ns, khz));
    }

    fn sets(&mut self, index: usize, time_ns: u64, khz: u32) {
        if time_ns >= self.settled_ns && khz != self.policies[index].cur_khz {
            self.policies[index].cur_khz = khz;
            self.set(index, time_ns);
        }
    }

    /// The policy's frequency holds from `time_ns` on.
    pub(super) fn set(&mut self, index: usize, time_ns: u64) {
        let FreqPolicy { cpus, cur_khz, .. } = &self.policies[index];
        let what = What::Frequency { cpu: cpus[0], freq_khz: *cur_khz };
        self.out.push(Ev { time_ns, cpu: cpus[0], current: IDLE_TASK, context: Context::Unknown, what });
    }
}
