//! Placement: the performance asked for, the energies, the choice by energy and the choice without.

use opplab_kernel::cpufreq::schedutil::sugov_effective_cpu_perf;
use opplab_kernel::eas::{EasCpu, EasExplanation, EasFacts, EasTask, find_energy_efficient_cpu};
use opplab_kernel::energy_model::EmPerfDomain;
use opplab_kernel::pelt::SchedAvg;
use opplab_kernel::sched::cpumask::{CpuMask, CpuSet};
use opplab_kernel::sched::placement::{
    CpuCapacity, SiblingFacts, SiblingQuery, SiblingRule, WakeAffineFacts, WakeAffineRule, WakeFlips,
    select_idle_sibling, wake_affine, wake_wide,
};
use opplab_kernel::util_est::UTIL_AVG_UNCHANGED;
use std::collections::{BTreeMap, BTreeSet};

use super::freq::rq_facts;
use super::input::{Ev, Kind, Machine};
use super::report::{RecordingReport, UNEXPLAINED};
use super::state::State;

/// A wake-up of a task that waited (`WF_TTWU`).
const WF_TTWU: i64 = 8;
/// The waker is about to sleep (`WF_SYNC`).
const WF_SYNC: i64 = 16;

/// A recorded energy: with the task on this CPU (-1: nowhere), the energy, the deciding utilisation, the busy time.
type Energy = (i64, u64, u64, u64);

/// A placement that is under way.
#[derive(Debug, Clone, Default)]
struct Call {
    pid: i64,
    prev: usize,
    flags: i64,
    overutilized: Option<bool>,
    energies: Vec<Energy>,
    /// Performances asked for since the last energy, and the CPUs asked.
    perfs: Vec<(usize, u64)>,
    /// The performances are recorded.
    performance_known: bool,
    /// Another CPU changed what the placement looks at meanwhile.
    disturbed: bool,
}

/// How a recorded placement comes about, computed from the recorded inputs.
#[derive(Debug, Clone)]
pub enum RecordedChoice {
    /// By energy, with all that was weighed.
    Energy(EasExplanation),
    /// By idleness: whether the waker wakes many, the affine rule if it was asked, where the search began, what it found
    /// and among how many idle CPUs of the cache.
    Idleness {
        /// wake_wide() forbade the waking CPU.
        wide: bool,
        /// The rule of wake_affine() and whether it took the waking CPU.
        affine: Option<(bool, WakeAffineRule)>,
        /// Where the search began.
        target: usize,
        /// Why the search ended.
        rule: SiblingRule,
        /// Idle CPUs that share the target's last-level cache.
        nr_idle: u32,
    },
}

/// A wake-up's placement in a recorded kernel, for those who explain it.
#[derive(Debug, Clone)]
pub struct RecordedPlacement {
    /// The recording's time of the decision, in ns.
    pub time_ns: u64,
    /// The task.
    pub pid: i64,
    /// The CPU that woke it up.
    pub waker_cpu: usize,
    /// What ran there: 0 is the idle task, in whose time interrupts come.
    pub waker: i64,
    /// Where the task was before.
    pub prev_cpu: usize,
    /// What the kernel chose.
    pub cpu: usize,
    /// What comes out of the recorded inputs; `None`: the energy-aware search has no answer.
    pub computed: Option<usize>,
    /// The waker is about to sleep.
    pub sync: bool,
    /// Some CPU was overutilised, as far as the records show it.
    pub overutilized: bool,
    /// `util_avg` and `util_est` of the task, if they are known.
    pub utils: Option<(u64, u64)>,
    /// Why.
    pub choice: RecordedChoice,
}

impl Call {
    fn placement(
        &self,
        ev: &Ev<'_>,
        (cpu, computed): (usize, Option<usize>),
        utils: Option<(u64, u64)>,
        choice: RecordedChoice,
    ) -> RecordedPlacement {
        RecordedPlacement {
            time_ns: ev.time_ns(),
            pid: self.pid,
            waker_cpu: ev.cpu(),
            waker: ev.current(),
            prev_cpu: self.prev,
            cpu,
            computed,
            sync: self.flags & WF_SYNC != 0,
            overutilized: self.overutilized == Some(true),
            utils,
            choice,
        }
    }
}

/// Whom each task wakes since the start of the recording; each CPU's idle task by itself.
#[derive(Default)]
struct Flips(BTreeMap<(i64, usize), WakeFlips>);

impl Flips {
    /// Those of the task that runs on, or is woken from, `cpu`.
    fn of(&mut self, pid: i64, cpu: usize) -> &mut WakeFlips {
        self.0.entry((pid, if pid == 0 { cpu } else { 0 })).or_default()
    }
}

/// What was seen of the decisions.
pub(super) struct Place {
    /// The placements, if somebody wants them.
    pub(super) seen: Option<Vec<RecordedPlacement>>,
    calls: Vec<Option<Call>>,
    eff: Vec<Option<(usize, u64, u64, u64)>>,
    flips: Flips,
    recent: BTreeMap<i64, usize>,
    /// Wake-ups on their way: by task, the CPU that was chosen.
    pending: BTreeMap<i64, usize>,
    exiting: BTreeSet<i64>,
    eas: bool,
    asymmetric: bool,
    all: CpuMask,
}

impl Place {
    /// Nothing yet.
    pub(super) fn new(machine: &Machine) -> Self {
        let asymmetric = machine.capacity.iter().any(|&capacity| capacity != machine.capacity[0]);
        Self {
            seen: None,
            calls: vec![None; machine.n_cpus],
            eff: vec![None; machine.n_cpus],
            flips: Flips::default(),
            recent: BTreeMap::new(),
            pending: BTreeMap::new(),
            exiting: BTreeSet::new(),
            eas: machine.energy_aware && !machine.domains.is_empty() && asymmetric,
            asymmetric,
            all: CpuMask::all(machine.n_cpus),
        }
    }

    /// Looks at one event.
    pub(super) fn event(&mut self, ev: &Ev<'_>, state: &State<'_>, report: &mut RecordingReport) {
        if ev.cpu() >= self.calls.len() {
            return;
        }
        let known = match ev.kind() {
            Kind::SgEffIn => self.eff_in(ev),
            Kind::SgEffRet => self.eff_ret(ev, report),
            Kind::StrfIn => self.begin(ev, state),
            Kind::Cenergy => self.energy(ev, state, report),
            Kind::StrfRet => self.end(ev, state, report),
            Kind::PeltCfs | Kind::UtilEstCfs | Kind::PeltRt | Kind::PeltDl | Kind::SchedSwitch | Kind::NrRunning => {
                if let Some(next) = ev.get("next_pid") {
                    self.pending.remove(&next);
                }
                for (cpu, call) in self.calls.iter_mut().enumerate() {
                    if let Some(call) = call.as_mut().filter(|_| cpu != ev.cpu()) {
                        call.disturbed = true;
                    }
                }
                Some(())
            }
            Kind::SchedWakeup | Kind::SchedWakeupNew => {
                if let Some(pid) = ev.get("pid") {
                    self.pending.remove(&pid);
                }
                Some(())
            }
            Kind::SchedProcessExit => {
                self.exiting.extend(ev.get("pid"));
                Some(())
            }
            Kind::SchedProcessFork => {
                if let Some(pid) = ev.get("child_pid") {
                    self.exiting.remove(&pid);
                    self.recent.remove(&pid);
                    self.flips.0.remove(&(pid, 0));
                }
                Some(())
            }
            _ => Some(()),
        };
        if known.is_none() {
            report.without_input("placement", "a field that the probe does not have");
        }
    }

    fn eff_in(&mut self, ev: &Ev<'_>) -> Option<()> {
        self.eff[ev.cpu()] = Some((ev.cpu_field("cpu")?, ev.u("actual")?, ev.u("min")?, ev.u("max")?));
        Some(())
    }

    fn eff_ret(&mut self, ev: &Ev<'_>, report: &mut RecordingReport) -> Option<()> {
        let Some((cpu, actual, min, max)) = self.eff[ev.cpu()].take() else {
            report.without_input("effective_perf", "the entry record");
            return Some(());
        };
        let ret = ev.u("ret")?;
        report.compare("effective_perf", ev.time_ns(), ret, sugov_effective_cpu_perf(actual, min, max), UNEXPLAINED);
        if let Some(call) = &mut self.calls[ev.cpu()] {
            call.perfs.push((cpu, ret));
        }
        Some(())
    }

    fn begin(&mut self, ev: &Ev<'_>, state: &State<'_>) -> Option<()> {
        let (pid, flags) = (ev.get("pid")?, ev.get("wf")?);
        self.calls[ev.cpu()] =
            Some(Call { pid, prev: ev.cpu_field("prev")?, flags, overutilized: state.overutilized, ..Call::default() });
        if flags & WF_TTWU != 0 {
            let jiffies = ev.time_ns() / (1_000_000_000 / state.machine.hz);
            self.flips.of(ev.current(), ev.cpu()).record_wakee(pid as u32, jiffies, state.machine.hz);
        }
        Some(())
    }

    /// The energy of a domain: from the recorded utilisation and busy time, and the utilisation from the recorded performances.
    fn energy(&mut self, ev: &Ev<'_>, state: &State<'_>, report: &mut RecordingReport) -> Option<()> {
        let (energy, max_util, busy) = (ev.u("energy")?, ev.u("max_util")?, ev.u("busy")?);
        let Some(call) = &mut self.calls[ev.cpu()] else {
            report.without_input("compute_energy", "the entry record of the placement");
            return Some(());
        };
        call.overutilized = call.overutilized.or(Some(false));
        call.energies.push((ev.get("dst")?, energy, max_util, busy));
        let perfs = std::mem::take(&mut call.perfs);
        if perfs.is_empty() {
            return Some(());
        }
        call.performance_known = true;
        let domain = perfs.first().and_then(|&(cpu, _)| state.machine.domain(cpu));
        let Some(domain) = domain else {
            report.without_input("compute_energy", "the performance domain");
            return Some(());
        };
        let capacity = state.machine.capacity[domain.cpus[0]];
        let asked = perfs.iter().map(|&(_, perf)| perf).max().unwrap_or(0).min(capacity);
        report.compare("pd_max_util", ev.time_ns(), max_util, asked, UNEXPLAINED);
        let computed = domain.em_cpu_energy(max_util, busy, capacity, capacity, state.machine.feec_energy());
        report.compare("compute_energy", ev.time_ns(), energy, computed, UNEXPLAINED);
        Some(())
    }

    fn end(&mut self, ev: &Ev<'_>, state: &State<'_>, report: &mut RecordingReport) -> Option<()> {
        let Some(call) = self.calls[ev.cpu()].take() else {
            report.without_input("placement", "the entry record");
            return Some(());
        };
        let chosen = ev.cpu_field("cpu")?;
        self.energies_without_performance(ev, state, report, &call);
        self.decide(ev, state, report, &call, chosen);
        if call.flags & WF_TTWU != 0 {
            self.pending.insert(call.pid, chosen);
        }
        Some(())
    }

    /// Where the performances were not probed, the domain of an energy is that of the CPU that it is for; without the task, that of
    /// the next one.
    fn energies_without_performance(&self, ev: &Ev<'_>, state: &State<'_>, report: &mut RecordingReport, call: &Call) {
        if call.performance_known {
            return;
        }
        for (at, &(_, energy, max_util, busy)) in call.energies.iter().enumerate() {
            let cpu = call.energies[at..].iter().find_map(|&(dst, ..)| usize::try_from(dst).ok());
            let Some(domain) = cpu.and_then(|cpu| state.machine.domain(cpu)) else {
                report.without_input("compute_energy", "the performance domain");
                continue;
            };
            let capacity = state.machine.capacity[domain.cpus[0]];
            let computed = domain.em_cpu_energy(max_util, busy, capacity, capacity, state.machine.feec_energy());
            report.compare("compute_energy", ev.time_ns(), energy, computed, UNEXPLAINED);
        }
    }

    fn decide(&mut self, ev: &Ev<'_>, state: &State<'_>, report: &mut RecordingReport, call: &Call, chosen: usize) {
        if call.flags & WF_TTWU == 0 {
            report.without_input("placement_slow", "statistics of the groups (fork or exec)");
            return;
        }
        if self.eas {
            match call.overutilized {
                None => {
                    report.without_input("placement_eas", "whether a CPU was overutilised, before the first record");
                    return;
                }
                Some(false) => return self.by_energy(ev, state, report, call, chosen),
                Some(true) => {}
            }
        }
        self.by_idleness(ev, state, report, call, chosen);
    }

    fn by_energy(&mut self, ev: &Ev<'_>, state: &State<'_>, report: &mut RecordingReport, call: &Call, chosen: usize) {
        let facts = match EnergyFacts::new(state, state.machine) {
            Ok(facts) => facts,
            Err(reason) => {
                report.without_input("placement_eas", reason);
                return;
            }
        };
        let Some(task) = state.task(call.pid).filter(|task| task.averages_known) else {
            report.without_input("placement_eas", "the task's averages before their first record");
            return;
        };
        let utils = utils_of(&task.avg);
        let task = EasTask {
            prev_cpu: call.prev,
            util_avg: task.avg.util_avg,
            runnable_avg: task.avg.runnable_avg,
            util_est: task.avg.util_est,
            uclamp_min: 0,
            uclamp_max: 1024,
            queued: false,
        };
        let mut explanation = EasExplanation::default();
        let domains: &[EmPerfDomain] = &state.machine.domains;
        let computed =
            find_energy_efficient_cpu(domains, &task, false, &facts, state.machine.eas_gates(), &mut explanation);
        let energies: Vec<Energy> = explanation
            .energies
            .iter()
            .map(|e| (e.dst_cpu.map_or(-1, |cpu| cpu as i64), e.energy, e.max_util, e.busy_time))
            .collect();
        let cause = if call.disturbed { "another CPU's state changed during the placement" } else { UNEXPLAINED };
        report.compare("feec_energies", ev.time_ns(), call.energies.clone(), energies, cause);
        report.compare("placement_eas", ev.time_ns(), Some(chosen), computed, cause);
        if let Some(seen) = &mut self.seen {
            seen.push(call.placement(ev, (chosen, computed), Some(utils), RecordedChoice::Energy(explanation)));
        }
    }

    fn by_idleness(
        &mut self,
        ev: &Ev<'_>,
        state: &State<'_>,
        report: &mut RecordingReport,
        call: &Call,
        chosen: usize,
    ) {
        let this = ev.cpu();
        let facts = match IdleFacts::new(state, self) {
            Ok(facts) => facts,
            Err(reason) => {
                report.without_input("placement_idle", reason);
                return;
            }
        };
        let task = state.task(call.pid).filter(|task| task.averages_known);
        let llc_size = state.machine.llc[this].count_ones();
        let mut flips = |pid: i64| self.flips.of(pid, this).flips;
        let wide = wake_wide(flips(ev.current()), flips(call.pid), llc_size);
        let mut target = call.prev;
        let mut affinity = None;
        if !wide && call.prev != this {
            let sync = call.flags & WF_SYNC != 0 && !self.exiting.contains(&ev.current());
            let load =
                |cpu: usize| state.root(cpu).filter(|queue| queue.averages_known).map(|queue| queue.avg.avg.load_avg);
            let (Some(this_load), Some(prev_load)) = (load(this), load(call.prev)) else {
                report.without_input("placement_idle", "a run queue's averages before their first record");
                return;
            };
            let affine = WakeAffineFacts {
                this_idle: facts.idle.as_set().contains(this),
                prev_idle: facts.idle.as_set().contains(call.prev),
                share_cache: state.machine.llc[this] >> call.prev & 1 != 0,
                sync,
                nr_running_this: state.cpus[this].nr_running.unwrap_or(0) as u32,
                nr_delayed_this: state.root(this).map_or(0, |queue| queue.h_nr_delayed) as u32,
                this_load,
                prev_load,
                task_load: task.map_or(0, |task| task.avg.load_avg),
                current_load: state.task(ev.current()).map_or(0, |task| task.avg.load_avg),
                this_capacity: facts.capacity(this).of,
                prev_capacity: facts.capacity(call.prev).of,
                imbalance_pct: state.machine.imbalance_pct,
                stays_on_idle_prev: true,
            };
            let found = wake_affine(&affine);
            if found.0 {
                target = this;
            }
            affinity = Some(found);
        }
        let recent = self.recent.get(&call.pid).copied();
        let bound = !ev.in_interrupt() && ev.name_of(ev.current()).is_some_and(is_per_cpu_kthread);
        let query = SiblingQuery {
            prev: call.prev,
            target,
            recent_used_cpu: recent.unwrap_or(call.prev),
            allowed: self.all.as_set(),
            util: task.map_or(0, |task| opplab_kernel::util_est::task_util_est(&task.avg)),
            clamps: None,
            this_cpu: this,
            this_is_per_cpu_kthread: bound,
            this_nr_running: state.cpus[this].nr_running.unwrap_or(0) as u32,
        };
        let choice = select_idle_sibling(&facts, &query);
        if self.seen.is_some() {
            let utils = task.map(|task| utils_of(&task.avg));
            let shared = state.machine.llc[target];
            let nr_idle =
                (0..state.machine.n_cpus).filter(|&cpu| shared >> cpu & 1 != 0 && facts.idle.as_set().contains(cpu));
            let (nr_idle, rule) = (nr_idle.count() as u32, choice.rule);
            let why = RecordedChoice::Idleness { wide, affine: affinity, target, rule, nr_idle };
            let row = call.placement(ev, (chosen, Some(choice.cpu)), utils, why);
            if let Some(seen) = &mut self.seen {
                seen.push(row);
            }
        }
        self.recent.insert(call.pid, choice.recent_used_cpu);
        if recent.is_none() && choice.cpu != chosen {
            report.without_input("placement_idle", "recent_used_cpu before the first wake-up");
            return;
        }
        // A chosen CPU is idle until the waker marks it (ttwu_pending), which is not recorded.
        let unmarked = select_idle_sibling(&facts.before_wakeups(), &query).cpu;
        let cause = match call.disturbed {
            true => "another CPU's state changed during the placement",
            false if unmarked == chosen => "a wake-up under way had not marked its CPU yet",
            false => UNEXPLAINED,
        };
        report.compare("placement_idle", ev.time_ns(), chosen, choice.cpu, cause);
    }
}

/// `util_avg` and `util_est` without its flag.
fn utils_of(avg: &SchedAvg) -> (u64, u64) {
    (avg.util_avg, u64::from(avg.util_est & !UTIL_AVG_UNCHANGED))
}

/// A kernel thread that is bound to one CPU, by its name.
fn is_per_cpu_kthread(name: &str) -> bool {
    let Some((kind, rest)) = name.split_once('/') else { return false };
    match kind {
        "kworker" => rest.split(':').next().is_some_and(|cpu| cpu.parse::<usize>().is_ok()),
        "ksoftirqd" | "migration" | "cpuhp" | "idle_inject" | "rcuc" | "watchdog" => true,
        _ => false,
    }
}

struct EnergyFacts {
    cpus: Vec<EasCpu>,
}

impl EnergyFacts {
    fn new(state: &State<'_>, machine: &Machine) -> Result<Self, &'static str> {
        let cpus = (0..machine.n_cpus).map(|cpu| {
            let queue = state.root(cpu).filter(|queue| queue.averages_known && queue.util_est_known);
            let Some(queue) = queue else { return Err("a run queue's averages before their first record") };
            let rq = rq_facts(state, cpu, state.cpus[cpu].bw_min)?;
            Ok(EasCpu {
                rq,
                capacity: capacity(state, cpu),
                util_avg: queue.avg.avg.util_avg,
                runnable_avg: queue.avg.avg.runnable_avg,
                util_est: queue.avg.avg.util_est.into(),
                uclamp_idle: false,
            })
        });
        Ok(Self { cpus: cpus.collect::<Result<_, _>>()? })
    }
}

impl EasFacts for EnergyFacts {
    fn cpu(&self, cpu: usize) -> EasCpu {
        self.cpus[cpu]
    }
    fn allowed(&self, _cpu: usize) -> bool {
        true
    }
}

fn capacity(state: &State<'_>, cpu: usize) -> CpuCapacity {
    let orig = state.machine.capacity[cpu];
    let of = state.cpus[cpu].capacity_of.unwrap_or(orig);
    CpuCapacity { orig, of, hw_pressure: 0, cpufreq_pressure: state.machine.cpufreq_pressure[cpu] }
}

#[derive(Clone)]
struct IdleFacts {
    idle: CpuMask,
    /// With those that wake-ups under way have chosen.
    idle_before_wakeups: CpuMask,
    llc: Vec<CpuMask>,
    one: Vec<CpuMask>,
    all: CpuMask,
    capacities: Vec<CpuCapacity>,
    asymmetric: bool,
    llc_masks: Vec<u64>,
}

impl IdleFacts {
    fn new(state: &State<'_>, place: &Place) -> Result<Self, &'static str> {
        let machine = state.machine;
        let mut idle = CpuMask::with_room(machine.n_cpus);
        let mut idle_before_wakeups = CpuMask::with_room(machine.n_cpus);
        for (cpu, of) in state.cpus.iter().enumerate() {
            let Some(curr) = of.curr else { return Err("what runs on a CPU, before its first switch") };
            let coming = place.pending.values().any(|&target| target == cpu);
            let empty = curr == 0 && of.nr_running.unwrap_or(0) == 0;
            idle.set(cpu, empty && !coming);
            idle_before_wakeups.set(cpu, empty);
        }
        let mask = |bits: u64| {
            let mut mask = CpuMask::with_room(machine.n_cpus);
            (0..machine.n_cpus).filter(|cpu| bits >> cpu & 1 != 0).for_each(|cpu| mask.insert(cpu));
            mask
        };
        Ok(Self {
            idle,
            idle_before_wakeups,
            llc: machine.llc.iter().map(|&bits| mask(bits)).collect(),
            one: (0..machine.n_cpus).map(CpuMask::one).collect(),
            all: CpuMask::all(machine.n_cpus),
            capacities: (0..machine.n_cpus).map(|cpu| capacity(state, cpu)).collect(),
            asymmetric: place.asymmetric,
            llc_masks: machine.llc.clone(),
        })
    }
}

impl IdleFacts {
    /// The same before the wake-ups under way marked their CPUs.
    fn before_wakeups(&self) -> Self {
        Self { idle: self.idle_before_wakeups.clone(), ..self.clone() }
    }
}

impl SiblingFacts for IdleFacts {
    fn idle(&self) -> CpuSet<'_> {
        self.idle.as_set()
    }
    fn idle_or_sched_idle(&self) -> CpuSet<'_> {
        self.idle.as_set()
    }
    fn llc_span(&self, cpu: usize) -> Option<CpuSet<'_>> {
        Some(self.llc[cpu].as_set())
    }
    fn share_cache(&self, one: usize, other: usize) -> bool {
        self.llc_masks[one] >> other & 1 != 0
    }
    fn smt_mask(&self, cpu: usize) -> CpuSet<'_> {
        self.one[cpu].as_set()
    }
    fn smt_active(&self) -> bool {
        false
    }
    fn has_idle_cores(&self, _cpu: usize) -> bool {
        false
    }
    fn nr_idle_scan(&self, _cpu: usize) -> Option<u32> {
        None
    }
    fn asym_span(&self, _cpu: usize) -> Option<CpuSet<'_>> {
        self.asymmetric.then(|| self.all.as_set())
    }
    fn asym_active(&self) -> bool {
        self.asymmetric
    }
    fn capacity(&self, cpu: usize) -> CpuCapacity {
        self.capacities[cpu]
    }
}

#[cfg(test)]
mod tests {
    use super::Flips;

    /// Pid 0 is a task of each CPU: six of them that wake two tasks in turn are no one who wakes all.
    #[test]
    fn idle_tasks_wake_by_themselves() {
        let mut flips = Flips::default();
        for (wakee, cpu) in (0..12).map(|at| (100 + at, at as usize % 6)) {
            flips.of(0, cpu).record_wakee(wakee, 300, 250);
            flips.of(7, cpu).record_wakee(wakee, 300, 250);
        }
        assert_eq!((0..6).map(|cpu| flips.of(0, cpu).flips).collect::<Vec<_>>(), [2; 6]);
        assert_eq!(flips.of(7, 3).flips, 12);
    }
}
