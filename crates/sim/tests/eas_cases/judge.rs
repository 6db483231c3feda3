//! The judge of placements: which task sat where in which phase, and what that costs against the best map of all.
//!
//! Both sides come from the same energy model and the same ideal choice of OPPs, so that only the placement counts.
//! The best map is found by trying all.

use std::collections::BTreeMap;

use opplab_model::event::{Event, IDLE_TASK, Sink};
use opplab_model::machine::Machine;

use crate::eas_cases::recipes::{EasCase, swing_above};

/// Share of a domain's capacity that its tasks may use, in percent.
const ROOM: f64 = 80.0;

#[derive(Debug, Clone, Default)]
struct Watched {
    phase: usize,
    loops: u32,
    cpu: Option<usize>,
    /// Of the phases that are judged.
    activations: u32,
    late: u32,
}

/// Sums the time spent in each combination of phases and CPUs.
pub(crate) struct Judge<'a> {
    case: &'a EasCase,
    first_task: u32,
    tasks: Vec<Watched>,
    last_ns: u64,
    /// (phase and CPU of each task, ns).
    time: BTreeMap<Vec<(usize, usize)>, u64>,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(case: &'a EasCase, first_task: u32) -> Self {
        let tasks = vec![Watched::default(); case.tasks.len()];
        Self { case, first_task, tasks, last_ns: 0, time: BTreeMap::new() }
    }

    fn watched(&mut self, task: u32) -> Option<usize> {
        let index = task.checked_sub(self.first_task)? as usize;
        (task != IDLE_TASK && index < self.tasks.len()).then_some(index)
    }

    fn advance(&mut self, now_ns: u64) {
        let passed = now_ns - self.last_ns;
        self.last_ns = now_ns;
        if passed == 0 {
            return;
        }
        let mut key = Vec::with_capacity(self.tasks.len());
        for (task, phases) in self.tasks.iter().zip(&self.case.tasks) {
            match (task.cpu, phases.get(task.phase)) {
                (Some(cpu), Some(phase)) if phase.judged => key.push((task.phase, cpu)),
                _ => return,
            }
        }
        *self.time.entry(key).or_default() += passed;
    }

    /// Energy of the placements seen and of the best ones; `None`: there is a time at which no map fits.
    pub(crate) fn energies(&self, machine: &Machine) -> Option<(f64, f64)> {
        let domains = domains(machine);
        let mut best: BTreeMap<Vec<usize>, Option<f64>> = BTreeMap::new();
        let (mut seen, mut least) = (0.0, 0.0);
        for (key, &ns) in &self.time {
            let utils: Vec<f64> =
                key.iter().zip(&self.case.tasks).map(|(&(at, _), task)| util(task[at].duty)).collect();
            let map: Vec<usize> = key.iter().map(|&(_, cpu)| cpu).collect();
            let phases: Vec<usize> = key.iter().map(|&(phase, _)| phase).collect();
            let optimum = *best.entry(phases).or_insert_with(|| optimum(&domains, machine.nr_cpus(), &utils));
            let seconds = ns as f64 / 1e9;
            seen += power(&domains, &load(machine.nr_cpus(), &utils, &map)).0 * seconds;
            least += optimum? * seconds;
        }
        Some((seen, least))
    }

    /// The largest share of late activations of a task, in percent.
    pub(crate) fn late_share(&self) -> f64 {
        let share = |task: &Watched| 100.0 * f64::from(task.late) / f64::from(task.activations.max(1));
        self.tasks.iter().map(share).fold(0.0, f64::max)
    }

    /// Fewest activations of a task that were judged.
    pub(crate) fn activations(&self) -> u32 {
        self.tasks.iter().map(|task| task.activations).min().unwrap_or(0)
    }

    /// Where the time went, for the reader: the five longest combinations.
    pub(crate) fn longest(&self) -> String {
        let mut times: Vec<_> = self.time.iter().collect();
        times.sort_by_key(|&(_, ns)| std::cmp::Reverse(*ns));
        let text = |(key, ns): &(&Vec<(usize, usize)>, &u64)| format!("{key:?} {} ms", *ns / 1_000_000);
        times.iter().take(5).map(text).collect::<Vec<_>>().join("; ")
    }
}

impl Sink for Judge<'_> {
    fn event(&mut self, now_ns: u64, event: &Event) {
        match *event {
            Event::SchedSwitch { cpu, next, .. } => {
                if let Some(index) = self.watched(next) {
                    self.advance(now_ns);
                    self.tasks[index].cpu = Some(cpu as usize);
                }
            }
            Event::Activation { task, phase, slack_ns, .. } => {
                let Some(index) = self.watched(task) else { return };
                self.advance(now_ns);
                let described = self.case.tasks[index][usize::from(phase)];
                let task = &mut self.tasks[index];
                if described.judged {
                    task.activations += 1;
                    task.late += u32::from(slack_ns < 0);
                }
                task.loops += 1;
                if task.loops == described.loops {
                    (task.phase, task.loops) = (task.phase + 1, 0);
                }
            }
            _ => {}
        }
    }
}

/// Utilisation to expect of a duty cycle: the top of its swing, 1024 scale.
fn util(duty: f64) -> f64 {
    (duty + swing_above(duty)) * 10.24
}

struct Domain {
    cpus: Vec<usize>,
    /// (capacity, uW).
    opps: Vec<(f64, f64)>,
}

fn domains(machine: &Machine) -> Vec<Domain> {
    let domain = |cluster: &opplab_model::machine::Cluster| {
        let most = f64::from(cluster.opps[cluster.opps.len() - 1].khz);
        let capacity = |khz: u32| f64::from(cluster.capacity) * f64::from(khz) / most;
        Domain {
            cpus: cluster.cpus.iter().map(|&cpu| cpu as usize).collect(),
            opps: cluster.opps.iter().map(|opp| (capacity(opp.khz), opp.power_uw as f64)).collect(),
        }
    };
    machine.clusters.iter().map(domain).collect()
}

/// Utilisation of each CPU under a map.
fn load(nr_cpus: usize, utils: &[f64], map: &[usize]) -> Vec<f64> {
    let mut load = vec![0.0; nr_cpus];
    for (&util, &cpu) in utils.iter().zip(map) {
        load[cpu] += util;
    }
    load
}

/// Power in uW at the ideal OPPs, and whether every CPU has room.
fn power(domains: &[Domain], load: &[f64]) -> (f64, bool) {
    let (mut sum, mut fits) = (0.0, true);
    for domain in domains {
        let most = domain.cpus.iter().map(|&cpu| load[cpu]).fold(0.0, f64::max);
        let opp = domain.opps.iter().find(|opp| opp.0 >= most * 100.0 / ROOM);
        fits &= opp.is_some();
        let opp = opp.unwrap_or(&domain.opps[domain.opps.len() - 1]);
        let busy: f64 = domain.cpus.iter().map(|&cpu| load[cpu] / opp.0).sum();
        sum += busy * opp.1;
    }
    (sum, fits)
}

/// The cheapest power of all maps of tasks to CPUs, in uW.
fn optimum(domains: &[Domain], nr_cpus: usize, utils: &[f64]) -> Option<f64> {
    let mut least: Option<f64> = None;
    let mut map = vec![0; utils.len()];
    loop {
        let (power, fits) = power(domains, &load(nr_cpus, utils, &map));
        if fits && least.is_none_or(|least| power < least) {
            least = Some(power);
        }
        let Some(place) = map.iter().position(|&cpu| cpu + 1 < nr_cpus) else { return least };
        map[place] += 1;
        map[..place].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eas_cases::machines::machines;

    /// Goal: two tasks that fill a little CPU each are not packed, one that does not fit there goes to a big one.
    #[test]
    fn the_optimum_is_that_of_hand_arithmetic() {
        let machine = &machines()[0];
        let domains = domains(machine);
        let best = |utils: &[f64]| optimum(&domains, machine.nr_cpus(), utils).unwrap_or(0.0);
        // 100 of 1024 at 450 MHz (236.1, 42.361 mW): 17.94 mW, twice for two tasks.
        let one = 100.0 / (446.0 * 450.0 / 850.0) * 42_361.0;
        assert!((best(&[100.0]) - one).abs() < 1.0);
        assert!((best(&[100.0, 80.0]) - one * 1.8).abs() < 1.0);
        // 360 needs 450 > 446: the big CPU at 625 MHz (581.8).
        let big = 360.0 / (1024.0 * 625.0 / 1100.0) * 239_328.0;
        assert!((best(&[360.0]) - big).abs() < 1.0);
        assert_eq!(optimum(&domains, machine.nr_cpus(), &[820.0]), None);
    }
}
