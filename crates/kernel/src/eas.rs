//! Energy-aware placement of a waking task (kernel/sched/fair.c: find_energy_efficient_cpu() and below; v6.12, with
//! v6.0 to v6.7 as gates, and the older one with its margin of 6 %: v5.10, and v5.14 to v5.19).
//!
//! For each performance domain two CPUs are looked at: the one that the task ran on, and the one with the most spare
//! capacity. What either would cost is the difference of the domain's energies with and without the task.
//!
//! Facts come in through [`EasFacts`], which an engine implements over its own state; nothing is allocated. A domain's
//! CPUs are walked twice, whatever the number of candidates: once for room, once for the utilisation without the task;
//! with the task only one CPU's share differs. Whether energy-aware placement is on at all (an asymmetric domain, no
//! SMT, schedutil everywhere, a model for every CPU) and what happens if it gives no answer is the caller's.

use crate::cpufreq::facts::RqFacts;
use crate::cpufreq::perf_margin::PerfMargin;
use crate::cpufreq::schedutil::{
    UtilType, effective_cpu_util, scale_irq_capacity, schedutil_cpu_util_of, schedutil_cpu_utils_of,
};
use crate::energy_model::EmPerfDomain;
use crate::profile::{
    Eas, FeecEnergy, FeecFullCpus, FeecMargin, FeecRunnable, KernelProfile, RunnableBoost, UclampFit,
};
use crate::sched::fitness::{Clamps, CpuCapacity, util_fits_cpu};
use crate::util_est::UTIL_AVG_UNCHANGED;

/// What is known of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EasCpu {
    /// The other classes, interrupts, clamps and the capacity (`rq.capacity` equals `capacity.orig`).
    pub rq: RqFacts,
    /// The capacity and what takes it away.
    pub capacity: CpuCapacity,
    /// The fair run queue's `util_avg`.
    pub util_avg: u64,
    /// The fair run queue's `runnable_avg`.
    pub runnable_avg: u64,
    /// The fair run queue's `util_est` (before v6.8 `util_est.enqueued`).
    pub util_est: u64,
    /// `uclamp_rq_is_idle()`: the run queue's clamps are those of a task that left.
    pub uclamp_idle: bool,
}

/// The task that wakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EasTask {
    /// The CPU that it ran on.
    pub prev_cpu: usize,
    /// Its `util_avg`, brought up to date.
    pub util_avg: u64,
    /// Its `runnable_avg`, brought up to date.
    pub runnable_avg: u64,
    /// Its estimate; the mark in bit 31 is not looked at. Before v6.8 the larger one of the pair
    /// ([`crate::util_est::UtilEstPair::task_util_est_masked`]).
    pub util_est: u32,
    /// `uclamp_eff_value(p, UCLAMP_MIN)`; 0 without clamps.
    pub uclamp_min: u64,
    /// `uclamp_eff_value(p, UCLAMP_MAX)`; 1024 without clamps.
    pub uclamp_max: u64,
    /// It is queued or running, so that its run queue's estimate holds its own; not so at a wake-up.
    pub queued: bool,
}

impl EasTask {
    #[inline]
    fn util_est_masked(&self) -> u64 {
        (self.util_est & !UTIL_AVG_UNCHANGED) as u64
    }

    /// fair.c:task_util_est(), v6.12.
    #[inline]
    fn task_util_est(&self) -> u64 {
        self.util_avg.max(self.util_est_masked())
    }
}

/// Where the placement finds its facts. They must not change during a call.
pub trait EasFacts {
    /// The facts of a CPU.
    fn cpu(&self, cpu: usize) -> EasCpu;
    /// The task may run on the CPU (`p->cpus_ptr`), and the CPU is in the scheduling domain that is searched.
    fn allowed(&self, cpu: usize) -> bool;
    /// The CPU is online; others cost nothing.
    #[inline]
    fn online(&self, cpu: usize) -> bool {
        let _ = cpu;
        true
    }
    /// `uclamp_is_used()`: some task of the system has a request.
    fn uclamp_used(&self) -> bool {
        false
    }
}

/// Why a CPU was chosen, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EasRule {
    /// There is no performance domain.
    NoDomain,
    /// Some CPU is overutilised: loads are to be balanced instead.
    Overutilized,
    /// The task uses nothing and asks for nothing; it stays.
    NoUtilisation,
    /// The energy fell when the task was added, so it stays: utilisation moved meanwhile, its upper clamp lowers the clock, or a
    /// higher operating point costs less per work.
    Changed,
    /// The best CPU fits better than the previous one.
    BetterFit,
    /// The best CPU costs less (with a margin where the version has one).
    LessEnergy,
    /// Neither can grant the lowest performance asked for; the best CPU has more capacity.
    MoreCapacity,
    /// The previous CPU cannot take the task.
    PrevDoesNotFit,
    /// Nothing is better than the previous CPU, or not by the margin.
    Stay,
    /// A CPU whose domain's energy fell with the task was passed over: the unsigned difference wraps (before v5.14).
    Wrapped,
    /// No CPU that the task may use fits it, so that none was weighed: it stays.
    NoneFits,
}

/// A CPU that was weighed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EasCandidate {
    /// Which CPU.
    pub cpu: usize,
    /// Index of its performance domain.
    pub domain: usize,
    /// What it would have left with the task.
    pub spare_cap: u64,
    /// 1 if the task fits, -1 if only the lowest performance asked for cannot be granted.
    pub fits: i32,
}

/// An energy that was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EasEnergy {
    /// With the task on this CPU; `None` without it.
    pub dst_cpu: Option<usize>,
    /// Index of the performance domain.
    pub domain: usize,
    /// The domain's energy, in the model's unit.
    pub energy: u64,
    /// The utilisation that decided the domain's frequency.
    pub max_util: u64,
    /// The sum of the CPUs' busy time.
    pub busy_time: u64,
}

/// Takes note of how a placement came about; `()` takes none and costs nothing.
pub trait EasRecorder {
    /// A CPU is weighed as a candidate of its domain.
    fn candidate(&mut self, candidate: &EasCandidate);
    /// An energy was computed.
    fn energy(&mut self, energy: &EasEnergy);
    /// The placement ended; `None` falls back to the placement without energy.
    fn decided(&mut self, target: Option<usize>, rule: EasRule);
}

impl EasRecorder for () {
    #[inline]
    fn candidate(&mut self, _candidate: &EasCandidate) {}
    #[inline]
    fn energy(&mut self, _energy: &EasEnergy) {}
    #[inline]
    fn decided(&mut self, _target: Option<usize>, _rule: EasRule) {}
}

/// All that a placement looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EasExplanation {
    /// The candidates in the order in which they were weighed.
    pub candidates: Vec<EasCandidate>,
    /// The energies in the order in which they were computed.
    pub energies: Vec<EasEnergy>,
    /// The choice and why.
    pub decided: Option<(Option<usize>, EasRule)>,
}

impl EasRecorder for EasExplanation {
    fn candidate(&mut self, candidate: &EasCandidate) {
        self.candidates.push(*candidate);
    }
    fn energy(&mut self, energy: &EasEnergy) {
        self.energies.push(*energy);
    }
    fn decided(&mut self, target: Option<usize>, rule: EasRule) {
        self.decided = Some((target, rule));
    }
}

/// Which generation decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EasForm {
    /// v5.4 to v5.12: the base energy of all domains, deltas that may wrap, the margin (vectors: 5.10).
    V5_10,
    /// v5.14 to v5.19: the base energy of the domains with a candidate, busy time apart from frequency, the margin. From
    /// the notes and public history, without vectors.
    V5_14,
    /// v6.0 to v6.7: no margin; the frequency follows the clamped utilisation (vectors: 6.1.192).
    V6_0,
    /// v6.8 and later (vectors: 6.12).
    V6_8,
}

impl EasForm {
    /// How the generation computes energies.
    fn energy(self) -> FeecEnergy {
        match self {
            Self::V5_10 => FeecEnergy::AllDomains,
            Self::V5_14 => FeecEnergy::BusyTime,
            Self::V6_0 => FeecEnergy::Clamped,
            Self::V6_8 => FeecEnergy::Bounded,
        }
    }
}

/// What differs between kernel versions in the placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EasGates {
    /// The generation.
    pub form: EasForm,
    /// The frequency follows the runnable signal where it is larger (v6.5).
    pub runnable_boost: bool,
    /// A CPU's runnable signal moves with the task, as its utilisation does (v7.2, v6.12.97).
    pub runnable_moves: bool,
    /// A CPU without spare capacity is a candidate where the task fits all the same, by its cap (v6.7).
    pub full_cpus: bool,
    /// How clamps count where it is asked which CPUs the task fits.
    pub fit: UclampFit,
    /// What a utilisation is multiplied by on its way to a frequency (v6.8 and later).
    pub margin: PerfMargin,
}

impl EasGates {
    /// v7.2 and v6.12.97.
    pub const V6_12: Self = Self {
        form: EasForm::V6_8,
        runnable_boost: true,
        runnable_moves: true,
        full_cpus: true,
        fit: UclampFit::LowerApart,
        margin: PerfMargin::QUARTER,
    };
    /// v6.8 to v7.1.
    pub const V6_18: Self = Self { runnable_moves: false, ..Self::V6_12 };
    /// v6.7.
    pub const V6_6: Self = Self { form: EasForm::V6_0, ..Self::V6_18 };
    /// v6.1.63 to v6.1.192.
    pub const V6_1: Self = Self { runnable_boost: false, ..Self::V6_6 };
    /// v5.14 to v5.19.
    pub const V5_18: Self = Self { form: EasForm::V5_14, full_cpus: false, fit: UclampFit::ClampedUtil, ..Self::V6_1 };
    /// v5.4 to v5.12.
    pub const V5_10: Self = Self { form: EasForm::V5_10, ..Self::V5_18 };

    /// How the runnable signal counts for the frequency.
    fn boost(&self) -> Boost {
        match (self.runnable_boost, self.runnable_moves) {
            (false, _) => Boost::None,
            (true, false) => Boost::Whole,
            (true, true) => Boost::Moved,
        }
    }
}

impl Default for EasGates {
    fn default() -> Self {
        Self::V6_12
    }
}

/// How the runnable signal of a CPU counts in [`cpu_util`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boost {
    /// Not at all.
    None,
    /// Whole, where it is larger; the task's utilisation is then taken off it, or added to it (v6.5 to v6.18).
    Whole,
    /// The task's own runnable signal is taken off it, or added to it, before it is compared (v6.12.117).
    Moved,
}

/// The fair utilisation of `cpu` if the task ran on `dst_cpu` (`None`: nowhere), at most its capacity
/// (fair.c:cpu_util(), v6.12). With `boost` the runnable signal counts where it is larger.
#[inline(always)]
pub fn cpu_util(cpu: usize, facts: &EasCpu, task: Option<&EasTask>, dst_cpu: Option<usize>, boost: Boost) -> u64 {
    let (mut util, mut runnable) = (facts.util_avg, facts.runnable_avg);
    if boost == Boost::Whole {
        util = util.max(runnable);
    }
    let mut util_est = facts.util_est;
    if let Some(task) = task {
        let here = dst_cpu == Some(cpu);
        if task.prev_cpu == cpu && !here {
            util = util.saturating_sub(task.util_avg);
            runnable = runnable.saturating_sub(task.runnable_avg);
        } else if task.prev_cpu != cpu && here {
            util = util.wrapping_add(task.util_avg);
            runnable = runnable.wrapping_add(task.runnable_avg);
        }
        // A waking task is in no run queue's estimate. That of a queued one is taken off everywhere, as in the kernel,
        // not only where it is.
        if here {
            util_est = util_est.wrapping_add(task.util_est_masked());
        } else if task.queued {
            util_est = util_est.saturating_sub(task.util_est_masked());
        }
    }
    if boost == Boost::Moved {
        util = util.max(runnable);
    }
    util.max(util_est).min(facts.rq.capacity)
}

/// The CPU has no room left for its fair tasks, so that loads must be balanced rather than energy
/// (fair.c:cpu_overutilized(), v6.12).
#[inline]
pub fn cpu_overutilized(facts: &EasCpu, uclamp_used: bool, fit: UclampFit) -> bool {
    let util = cpu_util(0, facts, None, None, Boost::None);
    let clamps = Clamps { min: facts.rq.uclamp_min, max: facts.rq.uclamp_max, fit };
    util_fits_cpu(util, clamps.of_queue(fit).filter(|_| uclamp_used), &facts.capacity) == 0
}

/// What a CPU adds to its domain.
#[derive(Debug, Clone, Copy)]
struct CpuShare {
    busy_time: u64,
    perf: u64,
}

/// A domain without the task.
#[derive(Debug, Clone, Copy)]
struct DomainShare {
    busy_time: u64,
    /// The largest performance, the CPU that wants it, and the largest of the others.
    max_perf: u64,
    max_cpu: usize,
    second_perf: u64,
}

impl DomainShare {
    const NONE: Self = Self { busy_time: 0, max_perf: 0, max_cpu: usize::MAX, second_perf: 0 };

    #[inline]
    fn add(&mut self, cpu: usize, share: CpuShare) {
        self.busy_time = self.busy_time.wrapping_add(share.busy_time);
        if share.perf > self.max_perf {
            self.second_perf = self.max_perf;
            self.max_perf = share.perf;
            self.max_cpu = cpu;
        } else {
            self.second_perf = self.second_perf.max(share.perf);
        }
    }

    /// The largest performance of all CPUs but one.
    #[inline]
    fn max_perf_without(&self, cpu: usize) -> u64 {
        if self.max_cpu == cpu { self.second_perf } else { self.max_perf }
    }
}

/// One call's unchanging facts.
struct Call<'a, F: ?Sized> {
    facts: &'a F,
    task: &'a EasTask,
    gates: EasGates,
    uclamp_used: bool,
}

/// Chooses the CPU on which the waking task costs the least energy (fair.c:find_energy_efficient_cpu()).
///
/// `domains` are the root domain's performance domains in the kernel's order. `rd_overutilized` is the root domain's
/// flag. `None` (the kernel's -1): no answer, the task is placed as without energy. The kernel gives none either where no
/// asymmetric scheduling domain holds the previous CPU; the caller sees to that, as it knows the domains.
pub fn find_energy_efficient_cpu<F: EasFacts + ?Sized, R: EasRecorder>(
    domains: &[EmPerfDomain],
    task: &EasTask,
    rd_overutilized: bool,
    facts: &F,
    gates: EasGates,
    recorder: &mut R,
) -> Option<usize> {
    if domains.is_empty() {
        recorder.decided(None, EasRule::NoDomain);
        return None;
    }
    if rd_overutilized {
        recorder.decided(None, EasRule::Overutilized);
        return None;
    }
    let call = Call { facts, task, gates, uclamp_used: facts.uclamp_used() };
    let (target, rule) = match gates.form {
        EasForm::V5_10 => call.least_energy_v5_10(domains, recorder),
        EasForm::V5_14 => call.least_energy_v5_14(domains, recorder),
        EasForm::V6_0 | EasForm::V6_8 => call.least_energy(domains, recorder),
    };
    recorder.decided(Some(target), rule);
    Some(target)
}

/// A task's clamps beside those of a run queue that it joins: the larger of each.
#[inline]
fn with_queue(p_clamps: Clamps, rq: &RqFacts) -> Clamps {
    Clamps { min: rq.uclamp_min.max(p_clamps.min), max: rq.uclamp_max.max(p_clamps.max), ..p_clamps }
}

impl<F: EasFacts + ?Sized> Call<'_, F> {
    /// The task's clamps; without clamps in the system they do nothing.
    #[inline]
    fn p_clamps(&self) -> Clamps {
        let Self { task, gates, .. } = self;
        let asked = if self.uclamp_used { (task.uclamp_min, task.uclamp_max) } else { (0, Clamps::NONE.max) };
        Clamps { min: asked.0, max: asked.1, fit: gates.fit }
    }

    /// The task uses nothing; since v6.2 a lower clamp is a reason to look all the same.
    fn asks_nothing(&self) -> bool {
        let p_clamps = self.p_clamps();
        self.task.task_util_est() == 0 && (p_clamps.min == 0 || p_clamps.fit == UclampFit::ClampedUtil)
    }

    /// v6.0 and later: no margin, candidates ranked by fit.
    fn least_energy<R: EasRecorder>(&self, domains: &[EmPerfDomain], recorder: &mut R) -> (usize, EasRule) {
        let task = self.task;
        let prev_cpu = task.prev_cpu;
        if self.asks_nothing() {
            return (prev_cpu, EasRule::NoUtilisation);
        }
        let p_clamps = self.p_clamps();
        let task_busy_time = self.eenv_task_busy_time();
        let (mut prev_delta, mut best_delta) = (u64::MAX, u64::MAX);
        let (mut prev_fits, mut best_fits) = (-1, -1);
        let (mut prev_actual_cap, mut best_actual_cap) = (0, 0);
        // The spare capacity that is no candidate's.
        let none = if self.gates.full_cpus { -1 } else { 0 };
        let mut best_cpu = prev_cpu;

        for (domain, pd) in domains.iter().enumerate() {
            let Some(first) = pd.cpus.iter().copied().find(|&cpu| self.facts.online(cpu)) else { continue };
            let actual_cap = self.facts.cpu(first).capacity.actual();
            let mut pd_cap = 0u64;
            let mut prev_spare_cap = none;
            let mut max_spare: Option<usize> = None;
            let (mut max_spare_cap, mut max_fits) = (none, -1);
            // Since v6.2 these persist from CPU to CPU of the domain where a run queue is idle, as in the kernel.
            let mut clamps = p_clamps;
            let mut without = DomainShare::NONE;
            for &cpu in pd.cpus.iter().filter(|&&cpu| self.facts.online(cpu)) {
                pd_cap = pd_cap.wrapping_add(actual_cap);
                let own = self.facts.cpu(cpu);
                without.add(cpu, self.cpu_share(cpu, &own, None));
                if !self.facts.allowed(cpu) {
                    continue;
                }
                let util = cpu_util(cpu, &own, Some(task), Some(cpu), Boost::None);
                if self.uclamp_used && !own.uclamp_idle {
                    clamps = with_queue(p_clamps, &own.rq);
                } else if p_clamps.fit == UclampFit::ClampedUtil {
                    clamps = p_clamps;
                }
                let fits = util_fits_cpu(util, self.uclamp_used.then_some(clamps), &own.capacity);
                if fits == 0 {
                    continue;
                }
                let spare_cap = own.capacity.of.saturating_sub(util) as i64;
                if cpu == prev_cpu {
                    prev_spare_cap = spare_cap;
                    prev_fits = fits;
                } else if fits > max_fits || (fits == max_fits && spare_cap > max_spare_cap) {
                    max_spare_cap = spare_cap;
                    max_spare = Some(cpu);
                    max_fits = fits;
                }
            }
            if max_spare.is_none() && prev_spare_cap <= none {
                continue;
            }

            without.busy_time = without.busy_time.min(pd_cap);
            let scale_cpu = self.facts.cpu(first).rq.capacity;
            let energy = |dst_cpu: Option<usize>, recorder: &mut R| {
                let (mut max_util, mut busy_time) = (without.max_perf, without.busy_time);
                if let Some(dst_cpu) = dst_cpu {
                    max_util = without.max_perf_without(dst_cpu).max(self.perf(dst_cpu, Some(dst_cpu), None));
                    busy_time = busy_time.wrapping_add(task_busy_time).min(pd_cap);
                }
                let max_util = max_util.min(actual_cap);
                let energy = pd.em_cpu_energy(max_util, busy_time, actual_cap, scale_cpu, self.gates.form.energy());
                recorder.energy(&EasEnergy { dst_cpu, domain, energy, max_util, busy_time });
                energy
            };
            let base_energy = energy(None, recorder);
            if prev_spare_cap > none {
                let candidate =
                    EasCandidate { cpu: prev_cpu, domain, spare_cap: prev_spare_cap as u64, fits: prev_fits };
                recorder.candidate(&candidate);
                let energy = energy(Some(prev_cpu), recorder);
                if energy < base_energy {
                    return (prev_cpu, EasRule::Changed);
                }
                prev_delta = energy - base_energy;
                prev_actual_cap = actual_cap;
                best_delta = best_delta.min(prev_delta);
            }
            let Some(cpu) = max_spare.filter(|_| max_spare_cap > prev_spare_cap) else { continue };
            recorder.candidate(&EasCandidate { cpu, domain, spare_cap: max_spare_cap as u64, fits: max_fits });
            if max_fits < best_fits || (max_fits < 0 && actual_cap <= best_actual_cap) {
                continue;
            }
            let energy = energy(Some(cpu), recorder);
            if energy < base_energy {
                return (prev_cpu, EasRule::Changed);
            }
            let delta = energy - base_energy;
            if max_fits > 0 && best_fits > 0 && delta >= best_delta {
                continue;
            }
            best_delta = delta;
            best_cpu = cpu;
            best_fits = max_fits;
            best_actual_cap = actual_cap;
        }

        if best_fits > prev_fits {
            (best_cpu, if prev_delta == u64::MAX { EasRule::PrevDoesNotFit } else { EasRule::BetterFit })
        } else if best_fits > 0 && best_delta < prev_delta {
            (best_cpu, EasRule::LessEnergy)
        } else if best_fits < 0 && best_actual_cap > prev_actual_cap {
            (best_cpu, EasRule::MoreCapacity)
        } else if best_delta == u64::MAX {
            (prev_cpu, EasRule::NoneFits)
        } else {
            (prev_cpu, EasRule::Stay)
        }
    }

    /// v5.4 to v5.12 (vectors: 5.10).
    fn least_energy_v5_10<R: EasRecorder>(&self, domains: &[EmPerfDomain], recorder: &mut R) -> (usize, EasRule) {
        let mut margin = WrappingMargin::new(self.task);
        if self.asks_nothing() {
            return (self.task.prev_cpu, EasRule::NoUtilisation);
        }
        for (domain, pd) in domains.iter().enumerate() {
            let Some(scale) = self.scale_of(pd) else { continue };
            let without = self.domain_share(pd, Some(scale));
            let base = self.energy_v5(domain, pd, scale, &without, None, recorder);
            margin.add(base);
            let mut room = self.room_v5(pd, domain, true, recorder);
            if room.prev_fits {
                let energy = self.energy_v5(domain, pd, scale, &without, Some(self.task.prev_cpu), recorder);
                margin.prev(energy.wrapping_sub(base));
            }
            // The previous CPU may be its domain's roomiest; it was weighed already.
            room.max_spare = room.max_spare.filter(|&cpu| cpu != self.task.prev_cpu);
            if let Some(cpu) = room.max_spare {
                let energy = self.energy_v5(domain, pd, scale, &without, Some(cpu), recorder);
                margin.best(cpu, energy.wrapping_sub(base));
            }
        }
        margin.decide()
    }

    /// v5.14 to v5.19.
    fn least_energy_v5_14<R: EasRecorder>(&self, domains: &[EmPerfDomain], recorder: &mut R) -> (usize, EasRule) {
        let prev_cpu = self.task.prev_cpu;
        let mut margin = Margin::new(self.task);
        if self.asks_nothing() {
            return (prev_cpu, EasRule::NoUtilisation);
        }
        for (domain, pd) in domains.iter().enumerate() {
            let Some(scale) = self.scale_of(pd) else { continue };
            let room = self.room_v5(pd, domain, false, recorder);
            if room.max_spare.is_none() && !room.prev_fits {
                continue;
            }
            let without = self.domain_share(pd, Some(scale));
            let base = self.energy_v5(domain, pd, scale, &without, None, recorder);
            margin.base_energy = margin.base_energy.wrapping_add(base);
            if room.prev_fits {
                let energy = self.energy_v5(domain, pd, scale, &without, Some(prev_cpu), recorder);
                if energy < base {
                    return (prev_cpu, EasRule::Changed);
                }
                margin.prev((energy - base).into());
            }
            if let Some(cpu) = room.max_spare {
                let energy = self.energy_v5(domain, pd, scale, &without, Some(cpu), recorder);
                if energy < base {
                    return (prev_cpu, EasRule::Changed);
                }
                margin.best(cpu, (energy - base).into());
            }
        }
        margin.decide()
    }

    /// The CPUs of a domain that have room for the task, before v6.0.
    fn room_v5<R: EasRecorder>(
        &self,
        pd: &EmPerfDomain,
        domain: usize,
        prev_competes: bool,
        recorder: &mut R,
    ) -> RoomV5 {
        let task = self.task;
        let mut room = RoomV5 { prev_fits: false, max_spare: None };
        let mut max_spare_cap = 0;
        for &cpu in pd.cpus.iter().filter(|&&cpu| self.facts.allowed(cpu)) {
            let own = self.facts.cpu(cpu);
            let util = cpu_util(cpu, &own, Some(task), Some(cpu), Boost::None);
            let spare_cap = own.capacity.of.saturating_sub(util);
            let clamps = with_queue(self.p_clamps(), &self.uclamp_rq_util_with(&own));
            if util_fits_cpu(util, self.uclamp_used.then_some(clamps), &own.capacity) == 0 {
                continue;
            }
            if cpu == task.prev_cpu {
                room.prev_fits = true;
                recorder.candidate(&EasCandidate { cpu, domain, spare_cap, fits: 1 });
                if !prev_competes {
                    continue;
                }
            }
            if spare_cap > max_spare_cap {
                max_spare_cap = spare_cap;
                room.max_spare = Some(cpu);
            }
        }
        if let Some(cpu) = room.max_spare.filter(|&cpu| cpu != task.prev_cpu) {
            recorder.candidate(&EasCandidate { cpu, domain, spare_cap: max_spare_cap, fits: 1 });
        }
        room
    }

    /// The energy of a domain before v6.0 (fair.c:compute_energy(), v5.10 and v5.14).
    fn energy_v5<R: EasRecorder>(
        &self,
        domain: usize,
        pd: &EmPerfDomain,
        scale: Scale,
        without: &DomainShare,
        dst_cpu: Option<usize>,
        recorder: &mut R,
    ) -> u64 {
        let (mut max_util, mut busy_time) = (without.max_perf, without.busy_time);
        if let Some(cpu) = dst_cpu.filter(|&cpu| self.facts.online(cpu)) {
            let own = self.facts.cpu(cpu);
            let before = self.eenv_pd_busy_time(cpu, &own, None, Some(scale));
            busy_time =
                busy_time.wrapping_sub(before).wrapping_add(self.eenv_pd_busy_time(cpu, &own, dst_cpu, Some(scale)));
            max_util = without.max_perf_without(cpu).max(self.perf_of(cpu, &own, dst_cpu, Some(scale)));
        }
        let energy = pd.em_cpu_energy(max_util, busy_time, scale.allowed, scale.capacity, self.gates.form.energy());
        recorder.energy(&EasEnergy { dst_cpu, domain, energy, max_util, busy_time });
        energy
    }

    /// The domain without the task.
    #[inline]
    fn domain_share(&self, pd: &EmPerfDomain, scale: Option<Scale>) -> DomainShare {
        let mut share = DomainShare::NONE;
        for &cpu in pd.cpus.iter().filter(|&&cpu| self.facts.online(cpu)) {
            share.add(cpu, self.cpu_share(cpu, &self.facts.cpu(cpu), scale));
        }
        share
    }

    /// A CPU without the task.
    #[inline(always)]
    fn cpu_share(&self, cpu: usize, own: &EasCpu, scale: Option<Scale>) -> CpuShare {
        if let Some(scale) = scale
            && self.gates.boost() == Boost::None
        {
            // Busy time and performance follow from the same utilisation.
            let util = cpu_util(cpu, own, Some(self.task), None, Boost::None);
            let (busy, asks) = schedutil_cpu_utils_of(&own.rq, scale.capacity, util);
            return CpuShare { busy_time: busy.min(scale.allowed), perf: asks.min(scale.allowed) };
        }
        if self.gates.form != EasForm::V6_8 {
            let busy_time = self.eenv_pd_busy_time(cpu, own, None, scale);
            return CpuShare { busy_time, perf: self.perf_of(cpu, own, None, scale) };
        }
        // The runnable signal rarely makes a difference: the same utilisation is computed once.
        let busy = cpu_util(cpu, own, Some(self.task), None, Boost::None);
        let boosted = cpu_util(cpu, own, Some(self.task), None, self.gates.boost());
        let effective = effective_cpu_util(&own.rq, busy);
        let asks = if boosted == busy { effective } else { effective_cpu_util(&own.rq, boosted) };
        CpuShare {
            busy_time: effective.util,
            perf: self.gates.margin.effective_cpu_perf(asks.util, asks.min, asks.max),
        }
    }

    /// How long the CPU will be busy (eenv_pd_busy_time(), v6.12; the sum of compute_energy(), v5.10).
    #[inline(always)]
    fn eenv_pd_busy_time(&self, cpu: usize, own: &EasCpu, dst_cpu: Option<usize>, scale: Option<Scale>) -> u64 {
        let Some(scale) = scale else {
            let util = cpu_util(cpu, own, Some(self.task), dst_cpu, Boost::None);
            return effective_cpu_util(&own.rq, util).util;
        };
        let util = if self.gates.form == EasForm::V5_14 && dst_cpu == Some(cpu) {
            // The task's own peak, not that of the sum.
            cpu_util(cpu, own, Some(self.task), None, Boost::None).wrapping_add(self.task.task_util_est())
        } else {
            cpu_util(cpu, own, Some(self.task), dst_cpu, Boost::None)
        };
        schedutil_cpu_util_of(&own.rq, scale.capacity, util, UtilType::Energy, None).min(scale.allowed)
    }

    fn perf(&self, cpu: usize, dst_cpu: Option<usize>, scale: Option<Scale>) -> u64 {
        self.perf_of(cpu, &self.facts.cpu(cpu), dst_cpu, scale)
    }

    /// The performance that the CPU asks for (eenv_pd_max_util(), v6.12; the maximum of compute_energy(), v5.10).
    #[inline(always)]
    fn perf_of(&self, cpu: usize, own: &EasCpu, dst_cpu: Option<usize>, scale: Option<Scale>) -> u64 {
        let task = self.task;
        let util = cpu_util(cpu, own, Some(task), dst_cpu, self.gates.boost());
        let with_task = dst_cpu == Some(cpu);
        if self.gates.form == EasForm::V6_8 {
            let mut effective = effective_cpu_util(&own.rq, util);
            if with_task && self.uclamp_used {
                effective.min = effective.min.max(task.uclamp_min);
                effective.max = if own.uclamp_idle { task.uclamp_max } else { effective.max.max(task.uclamp_max) };
            }
            return self.gates.margin.effective_cpu_perf(effective.util, effective.min, effective.max);
        }
        let scale = scale.unwrap_or(Scale { capacity: own.rq.capacity, allowed: u64::MAX });
        let util = if with_task {
            let (rq, p_uclamp) = (self.uclamp_rq_util_with(own), Some((task.uclamp_min, task.uclamp_max)));
            schedutil_cpu_util_of(&rq, scale.capacity, util, UtilType::Frequency, p_uclamp)
        } else {
            schedutil_cpu_util_of(&own.rq, scale.capacity, util, UtilType::Frequency, None)
        };
        util.min(scale.allowed)
    }

    /// The run queue's facts as a task that joins it sees them: since v5.14 the clamps that an idle run queue kept do
    /// not count (sched.h:uclamp_rq_util_with()).
    #[inline(always)]
    fn uclamp_rq_util_with(&self, own: &EasCpu) -> RqFacts {
        if own.uclamp_idle && self.gates.form != EasForm::V5_10 {
            RqFacts { uclamp_min: 0, uclamp_max: 0, ..own.rq }
        } else {
            own.rq
        }
    }

    /// How long the task will be busy, on the scale of the CPU that it ran on (fair.c:eenv_task_busy_time(), v6.12).
    fn eenv_task_busy_time(&self) -> u64 {
        let rq = self.facts.cpu(self.task.prev_cpu).rq;
        if rq.util_irq >= rq.capacity {
            rq.capacity
        } else {
            scale_irq_capacity(self.task.task_util_est(), rq.util_irq, rq.capacity)
        }
    }

    /// The capacity of a domain's first CPU, before v6.0.
    fn scale_of(&self, pd: &EmPerfDomain) -> Option<Scale> {
        let capacity = self.facts.cpu(*pd.cpus.first()?).capacity;
        let allowed = if self.gates.form == EasForm::V5_10 { u64::MAX } else { capacity.actual() };
        Some(Scale { capacity: capacity.orig, allowed })
    }
}

/// The capacity that stands for all of a domain's CPUs, and what limits leave of it.
#[derive(Debug, Clone, Copy)]
struct Scale {
    capacity: u64,
    allowed: u64,
}

struct RoomV5 {
    prev_fits: bool,
    max_spare: Option<usize>,
}

/// The decision before v6.0: a move must save more than 1/16 of what all would cost with the task where it was.
struct Margin {
    prev_cpu: usize,
    best_cpu: usize,
    prev_delta: i128,
    best_delta: i128,
    base_energy: u64,
}

impl Margin {
    /// The kernel's `ULONG_MAX`: a CPU that was not weighed.
    const NONE: i128 = u64::MAX as i128;

    fn new(task: &EasTask) -> Self {
        let prev_cpu = task.prev_cpu;
        Self { prev_cpu, best_cpu: prev_cpu, prev_delta: Self::NONE, best_delta: Self::NONE, base_energy: 0 }
    }

    fn prev(&mut self, delta: i128) {
        self.prev_delta = delta;
        self.best_delta = self.best_delta.min(delta);
    }

    fn best(&mut self, cpu: usize, delta: i128) {
        if delta < self.best_delta {
            self.best_delta = delta;
            self.best_cpu = cpu;
        }
    }

    fn decide(&self) -> (usize, EasRule) {
        let needed = (self.prev_delta as u64).wrapping_add(self.base_energy) >> 4;
        if self.prev_delta == Self::NONE && self.best_cpu != self.prev_cpu {
            (self.best_cpu, EasRule::PrevDoesNotFit)
        } else if self.prev_delta != Self::NONE && self.prev_delta - self.best_delta > needed.into() {
            (self.best_cpu, EasRule::LessEnergy)
        } else if self.best_delta == Self::NONE {
            (self.prev_cpu, EasRule::NoneFits)
        } else {
            (self.prev_cpu, EasRule::Stay)
        }
    }
}

/// The same before v5.14: deltas are unsigned, so that a fall of the energy becomes a huge one. What they stand for is
/// compared, too, as only that gives the choice's reason.
struct WrappingMargin {
    unsigned: Margin,
    signed: Margin,
}

impl WrappingMargin {
    fn new(task: &EasTask) -> Self {
        Self { unsigned: Margin::new(task), signed: Margin::new(task) }
    }

    fn add(&mut self, base: u64) {
        for margin in [&mut self.unsigned, &mut self.signed] {
            margin.base_energy = margin.base_energy.wrapping_add(base);
        }
    }

    fn prev(&mut self, delta: u64) {
        self.unsigned.prev(delta.into());
        self.signed.prev((delta as i64).into());
    }

    fn best(&mut self, cpu: usize, delta: u64) {
        self.unsigned.best(cpu, delta.into());
        self.signed.best(cpu, (delta as i64).into());
    }

    fn decide(&self) -> (usize, EasRule) {
        let ((cpu, _), (meant, rule)) = (self.unsigned.decide(), self.signed.decide());
        (cpu, if cpu == meant { rule } else { EasRule::Wrapped })
    }
}

impl KernelProfile {
    /// The gates of find_energy_efficient_cpu(), if the kernel has energy-aware placement.
    pub fn eas_gates(&self) -> Option<EasGates> {
        let form = match (self.feec_margin, self.feec_energy) {
            (FeecMargin::None, FeecEnergy::Bounded) => EasForm::V6_8,
            (FeecMargin::None, _) => EasForm::V6_0,
            (_, FeecEnergy::AllDomains) => EasForm::V5_10,
            _ => EasForm::V5_14,
        };
        let runnable_boost = self.runnable_boost == RunnableBoost::On;
        let runnable_moves = self.feec_runnable == FeecRunnable::Moved;
        let full_cpus = self.feec_full_cpus == FeecFullCpus::Capped;
        let (fit, margin) = (self.uclamp_fit, self.proposals.margin);
        let gates = EasGates { form, runnable_boost, runnable_moves, full_cpus, fit, margin };
        (self.eas != Eas::Absent).then_some(gates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy_model::em_create_perf_table;
    use crate::profile::EmCost;
    use proptest::prelude::*;

    struct Cpus {
        cpus: Vec<EasCpu>,
        forbidden: u64,
        uclamp_used: bool,
    }

    impl EasFacts for Cpus {
        fn cpu(&self, cpu: usize) -> EasCpu {
            self.cpus[cpu]
        }
        fn allowed(&self, cpu: usize) -> bool {
            self.forbidden >> cpu & 1 == 0
        }
        fn uclamp_used(&self) -> bool {
            self.uclamp_used
        }
    }

    fn cpu(capacity: u64, util_avg: u64) -> EasCpu {
        EasCpu {
            rq: RqFacts { capacity, ..RqFacts::default() },
            capacity: CpuCapacity { orig: capacity, of: capacity, hw_pressure: 0, cpufreq_pressure: 0 },
            util_avg,
            runnable_avg: util_avg,
            util_est: 0,
            uclamp_idle: false,
        }
    }

    fn task(prev_cpu: usize, util: u64) -> EasTask {
        EasTask {
            prev_cpu,
            util_avg: util,
            runnable_avg: util,
            util_est: util as u32,
            uclamp_min: 0,
            uclamp_max: 1024,
            queued: false,
        }
    }

    /// Two little CPUs (0, 1) at a third of the energy of two big ones (2, 3).
    fn big_little(form: EmCost) -> Vec<EmPerfDomain> {
        let table = |uw: u64, cap| {
            em_create_perf_table(&[(500_000, uw), (1_000_000, 3 * uw)], cap, form).expect("a valid table")
        };
        vec![
            EmPerfDomain { states: table(300_000, 1024), cpus: vec![2, 3], skip_inefficient: false, form },
            EmPerfDomain { states: table(40_000, 400), cpus: vec![0, 1], skip_inefficient: false, form },
        ]
    }

    fn choose(cpus: Vec<EasCpu>, task: &EasTask, gates: EasGates, form: EmCost) -> (Option<usize>, EasExplanation) {
        let facts = Cpus { cpus, forbidden: 0, uclamp_used: false };
        let mut seen = EasExplanation::default();
        let target = find_energy_efficient_cpu(&big_little(form), task, false, &facts, gates, &mut seen);
        (target, seen)
    }

    /// Goal: a small task goes from big to the emptier little CPU, one that does not fit there stays big.
    #[test]
    fn small_tasks_go_little() {
        let cpus = || vec![cpu(400, 100), cpu(400, 50), cpu(1024, 60), cpu(1024, 0)];
        for (gates, form) in [
            (EasGates::V6_12, EmCost::Performance),
            (EasGates::V6_6, EmCost::MicroWatt),
            (EasGates::V5_18, EmCost::MilliWattEfficient),
            (EasGates::V5_10, EmCost::MilliWatt),
        ] {
            let (target, seen) = choose(cpus(), &task(2, 50), gates, form);
            assert_eq!((target, seen.decided), (Some(1), Some((Some(1), EasRule::LessEnergy))), "{gates:?}");
            assert_eq!(seen.candidates.iter().map(|seen| seen.cpu).collect::<Vec<_>>(), [2, 3, 1]);
            let (target, _) = choose(cpus(), &task(2, 500), gates, form);
            assert!(matches!(target, Some(2 | 3)), "{gates:?}");
        }
    }

    #[test]
    fn no_answer_when_overutilized_or_without_a_model() {
        let facts = Cpus { cpus: vec![cpu(1024, 0); 4], forbidden: 0, uclamp_used: false };
        let domains = big_little(EmCost::Performance);
        let waking = task(0, 10);
        assert_eq!(find_energy_efficient_cpu(&domains, &waking, true, &facts, EasGates::V6_12, &mut ()), None);
        assert_eq!(find_energy_efficient_cpu(&[], &waking, false, &facts, EasGates::V6_12, &mut ()), None);
        let nothing = task(0, 0);
        assert_eq!(find_energy_efficient_cpu(&domains, &nothing, false, &facts, EasGates::V6_12, &mut ()), Some(0));
    }

    /// Goal: the margin keeps a task where the saving is small and lets it go where it is large.
    #[test]
    fn the_margin_needs_more_than_a_sixteenth() {
        let mut margin = Margin::new(&task(0, 100));
        margin.base_energy = 1_500;
        margin.prev(100);
        margin.best(1, 1);
        assert_eq!(margin.decide(), (0, EasRule::Stay));
        margin.base_energy = 1_483;
        assert_eq!(margin.decide(), (1, EasRule::LessEnergy));
    }

    /// Goal: a choice that a wrapped difference made is named so, and only that; by hand over (CPU, energy with - without), the
    /// previous CPU 0. With a base of 1600 a move must save more than 100.
    #[test]
    fn differences_that_wrap_are_told() {
        let check = |deltas: &[(usize, i64)], expected| {
            let mut margin = WrappingMargin::new(&task(0, 100));
            margin.add(1_600);
            for &(cpu, delta) in deltas {
                match cpu {
                    0 => margin.prev(delta as u64),
                    _ => margin.best(cpu, delta as u64),
                }
            }
            assert_eq!(margin.decide(), expected, "{deltas:?}");
        };
        // Never kept beside a CPU that costs something; -1 is what stands for "does not fit".
        check(&[(0, -4), (1, 53)], (1, EasRule::Wrapped));
        check(&[(0, -1), (1, 53)], (1, EasRule::Wrapped));
        check(&[(1, 53), (0, -1)], (1, EasRule::Wrapped));
        // Alone, or as the least of those that all wrap, it is compared as it should be.
        check(&[(0, -1)], (0, EasRule::Stay));
        check(&[(0, -4), (1, -20)], (0, EasRule::Stay));
        check(&[(0, -4), (1, -200)], (1, EasRule::LessEnergy));
        // Another CPU's fall is passed over: for a third, or for the previous.
        check(&[(0, 400), (1, -5), (2, 53)], (2, EasRule::Wrapped));
        check(&[(0, 120), (1, -5)], (0, EasRule::Wrapped));
        check(&[(0, 20), (1, -5)], (0, EasRule::Stay));
        // The previous CPU does not fit.
        check(&[(1, 53), (2, 60)], (1, EasRule::PrevDoesNotFit));
        check(&[(1, -5), (2, 60)], (2, EasRule::Wrapped));
        check(&[(1, -1)], (0, EasRule::Wrapped));
        check(&[], (0, EasRule::NoneFits));
    }

    fn any_cpu() -> impl Strategy<Value = EasCpu> {
        (0..1100u64, any::<[u16; 10]>(), any::<[bool; 2]>(), any::<u64>(), 0..3u32).prop_map(
            |(capacity, n, flags, wide, kind)| {
                let n = n.map(|n| (n >> 5) as u64);
                let wild = |n: u64| if kind == 0 { wide.rotate_left(n as u32) } else { n };
                EasCpu {
                    rq: RqFacts {
                        capacity,
                        util_rt: wild(n[0] / 8),
                        util_dl: n[1] / 8,
                        util_irq: n[2] / 8,
                        dl_running_bw: wild(n[3]),
                        uclamp_min: n[4],
                        uclamp_max: n[5],
                        uclamp_used: true,
                        rt_runnable: flags[0],
                    },
                    capacity: CpuCapacity {
                        orig: capacity,
                        of: capacity.saturating_sub(n[6] / 16),
                        hw_pressure: wild(n[7] / 32),
                        cpufreq_pressure: 0,
                    },
                    util_avg: wild(n[8] / 2),
                    runnable_avg: wild(n[8]),
                    util_est: n[9] / 2,
                    uclamp_idle: flags[1],
                }
            },
        )
    }

    proptest! {
        /// Goal: any facts have an answer, which the task may use or is where it was.
        #[test]
        fn any_facts_have_a_choice(
            cpus in proptest::collection::vec(any_cpu(), 4), forbidden in 0..16u64, uclamp_used: bool,
            prev_cpu in 0..4usize, numbers: [u16; 5], queued: bool, wild: bool, wide: u64,
            version in prop_oneof![
                Just((EasGates::V6_12, EmCost::Performance)), Just((EasGates::V6_1, EmCost::MicroWatt)),
                Just((EasGates::V5_18, EmCost::MilliWattEfficient)), Just((EasGates::V5_10, EmCost::MilliWatt)),
            ],
        ) {
            let n = numbers.map(|n| (n >> 5) as u64);
            let task = EasTask {
                prev_cpu, util_avg: if wild { wide } else { n[0] }, runnable_avg: n[1], util_est: n[2] as u32,
                uclamp_min: n[3], uclamp_max: n[4], queued,
            };
            let facts = Cpus { cpus, forbidden, uclamp_used };
            let domains = big_little(version.1);
            let target = find_energy_efficient_cpu(&domains, &task, false, &facts, version.0, &mut ());
            prop_assert!(target.is_some_and(|cpu| cpu == prev_cpu || facts.allowed(cpu)));
        }

        /// Goal: the utilisation without the task, looked at once, and one CPU's change are what a walk over all gives.
        #[test]
        fn one_share_differs(cpus in proptest::collection::vec(any_cpu(), 1..9), dst in 0..9usize, prev_cpu in 0..9usize) {
            let count = cpus.len();
            let (dst, prev_cpu) = (dst % count, prev_cpu % count);
            let facts = Cpus { cpus, forbidden: 0, uclamp_used: true };
            let task = task(prev_cpu, 120);
            let call = Call { facts: &facts, task: &task, gates: EasGates::V6_12, uclamp_used: true };
            let mut domain = big_little(EmCost::Performance).remove(0);
            domain.cpus = (0..count).collect();
            let without = call.domain_share(&domain, None);
            let walked = (0..count).map(|cpu| call.perf(cpu, Some(dst), None)).max();
            let composed = without.max_perf_without(dst).max(call.perf(dst, Some(dst), None));
            prop_assert_eq!(walked, Some(composed));
        }
    }
}
