//! When the scheduler's ticks are: not in a trace, but a task that is preempted without anybody waking up is preempted by a tick, and
//! an idle CPU that wakes for nobody mostly wakes for a tick.
//!
//! All CPUs tick at the same phase of the same period (unless the kernel has `skew_tick`), so a few such switches show both.
//! The first pass over a trace collects them; [`crate::pelt`] uses the result in a second one.

use crate::decode::{SchedEvent, SchedSink, sleeps};
use opplab_trace::Event;

/// Periods of CONFIG_HZ 100, 250, 300 and 1000, the longest first.
const PERIODS_NS: [u64; 4] = [10_000_000, 4_000_000, 3_333_333, 1_000_000];
/// Width of a bin of phases.
const BIN_NS: u64 = 50_000;
/// What [`Ticks::phase_ns`] is before most of the events that showed the ticks: it is on the safe side.
pub const EARLY_NS: u64 = BIN_NS;
/// Neighbouring bins that count as one phase.
const NEAR_BINS: usize = 3;
/// A switch this soon after a wake-up on the CPU may be due to it.
const WAKEUP_NS: u64 = 300_000;
/// So many switches must agree, one of so many, and so many times as many as chance would have.
const AGREE_MIN: usize = 4;
const AGREE_ONE_OF: usize = 4;
const AGREE_TIMES: u64 = 5;
/// From the tick to the switch that it causes, at the most.
const TICK_TO_SWITCH_NS: u64 = 200_000;

/// When ticks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// Time between two.
    pub period_ns: u64,
    /// Time of any of them, modulo the period.
    pub phase_ns: u64,
}

impl Ticks {
    /// The last tick at or before `time_ns`.
    pub fn last_before(&self, time_ns: u64) -> u64 {
        let period = self.period_ns.max(1);
        time_ns.saturating_sub((time_ns % period + period - self.phase_ns % period) % period)
    }

    /// True if a tick may have caused what is seen at `time_ns`.
    pub fn caused(&self, time_ns: u64) -> bool {
        time_ns - self.last_before(time_ns) <= TICK_TO_SWITCH_NS
    }
}

/// Collects preemptions; feed it with events in time order as a [`SchedSink`] or by its methods.
#[derive(Clone, Debug, Default)]
pub struct TickFinder {
    preempted_ns: Vec<u64>,
    /// When idle CPUs were woken without anybody to run.
    blips_ns: Vec<u64>,
    /// When ticks came that the trace shows.
    told_ns: Vec<u64>,
    /// By CPU: when it left an idle state last, if nothing was seen there since.
    left_idle_ns: Vec<Option<u64>>,
    /// By CPU: when a task joined its queue last.
    joined_ns: Vec<u64>,
}

impl TickFinder {
    /// A task joins the queue of a CPU: `sched_wakeup`, `sched_wakeup_new`, `sched_migrate_task`.
    pub fn joins(&mut self, time_ns: u64, cpu: u32) {
        let cpu = (cpu & 0xffff) as usize;
        if self.joined_ns.len() <= cpu {
            self.joined_ns.resize(cpu + 1, 0);
        }
        self.joined_ns[cpu] = time_ns;
    }

    /// `sched_switch`.
    pub fn switch(&mut self, time_ns: u64, cpu: u32, prev: (i32, i64), prev_state: u64, next: (i32, i64)) {
        if let Some(left) = self.left_idle_ns.get_mut((cpu & 0xffff) as usize) {
            *left = None;
        }
        let fair = |(pid, prio): (i32, i64)| pid != 0 && prio >= 100;
        let joined = self.joined_ns.get((cpu & 0xffff) as usize).copied().unwrap_or(0);
        if fair(prev) && fair(next) && !sleeps(prev_state) && time_ns.saturating_sub(joined) > WAKEUP_NS {
            keep(&mut self.preempted_ns, time_ns);
        }
    }

    /// `cpu_idle`: a CPU enters or leaves an idle state.
    pub fn idle(&mut self, time_ns: u64, cpu: u32, entered: bool) {
        let cpu = (cpu & 0xffff) as usize;
        if self.left_idle_ns.len() <= cpu {
            self.left_idle_ns.resize(cpu + 1, None);
        }
        let left = std::mem::replace(&mut self.left_idle_ns[cpu], (!entered).then_some(time_ns));
        if entered && let Some(left) = left.filter(|&left| time_ns.saturating_sub(left) < BIN_NS) {
            keep(&mut self.blips_ns, left);
        }
    }

    /// The ticks, if what may be due to them agrees on a phase.
    pub fn ticks(&self) -> Option<Ticks> {
        if self.told_ns.len() >= AGREE_MIN {
            return agreed(&self.told_ns);
        }
        let all: Vec<u64> = self.preempted_ns.iter().chain(&self.blips_ns).copied().collect();
        agreed(&all).or_else(|| agreed(&self.preempted_ns))
    }
}

/// The first so many show the phase as well as all.
const TIMES_MAX: usize = 1 << 20;

fn keep(times_ns: &mut Vec<u64>, time_ns: u64) {
    if times_ns.len() < TIMES_MAX {
        times_ns.push(time_ns);
    }
}

/// The ticks that cause a large part of what happened at these times, if there are such.
fn agreed(times_ns: &[u64]) -> Option<Ticks> {
    let fullest = |period: u64| {
        let mut bins = vec![0usize; period.div_ceil(BIN_NS) as usize];
        times_ns.iter().for_each(|time| bins[(time % period / BIN_NS) as usize] += 1);
        let near = |start: usize| (0..NEAR_BINS).map(|n| bins[(start + n) % bins.len()]).sum::<usize>();
        (0..bins.len()).map(|start| (near(start), start)).max_by_key(|&(count, start)| (count, bins.len() - start))
    };
    let found: Vec<(u64, usize, usize)> = PERIODS_NS
        .iter()
        .filter_map(|&period| fullest(period).map(|(count, start)| (period, count, start)))
        .filter(|&(period, count, _)| {
            let chance = times_ns.len() as u64 * NEAR_BINS as u64 * BIN_NS * AGREE_TIMES;
            count >= AGREE_MIN && count * AGREE_ONE_OF >= times_ns.len() && count as u64 * period >= chance
        })
        .collect();
    let most = found.iter().map(|&(_, count, _)| count).max()?;
    // A multiple of the period has at most half as many at one phase, a fraction as many and those of other timers.
    let (period_ns, _, start) = found.into_iter().find(|&(_, count, _)| count * 3 >= most * 2)?;
    let origin = start as u64 * BIN_NS;
    let since = |time: &u64| (time % period_ns + period_ns - origin) % period_ns;
    let mut phases: Vec<u64> = times_ns.iter().map(since).filter(|&phase| phase < NEAR_BINS as u64 * BIN_NS).collect();
    phases.sort_unstable();
    // The switch comes some microseconds later than the tick.
    let first = phases.get(phases.len() / 5)?;
    Some(Ticks { period_ns, phase_ns: (origin + first + period_ns - EARLY_NS) % period_ns })
}

impl SchedSink for TickFinder {
    fn event(&mut self, event: &Event<'_>, what: &SchedEvent<'_>) {
        match *what {
            SchedEvent::Wakeup { target_cpu: cpu, .. } | SchedEvent::Migrate { dest_cpu: cpu, .. } => {
                self.joins(event.time_ns, cpu);
            }
            SchedEvent::Timer { tick: true } => keep(&mut self.told_ns, event.time_ns),
            SchedEvent::Idle { cpu, state } => self.idle(event.time_ns, cpu, state.is_some()),
            SchedEvent::Switch { prev, prev_state, next } => {
                self.switch(event.time_ns, event.cpu, prev.with_prio(0), prev_state, next.with_prio(0));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Preemptions `late_ns` after ticks of a period and phase, and some at odd times.
    fn found(period_ns: u64, phase_ns: u64, n: u64) -> Option<Ticks> {
        let mut finder = TickFinder::default();
        for tick in 0..n {
            finder.switch(
                (tick * 7 + 3) * period_ns + phase_ns + 40_000 + tick * 997 % 20_000,
                0,
                (1, 120),
                0,
                (2, 120),
            );
        }
        for odd in 0..n / 3 {
            finder.switch(odd * odd * 1_234_567 + 11, 0, (1, 120), 0, (2, 120));
        }
        finder.ticks()
    }

    #[test]
    fn preemptions_tell_period_and_phase() {
        for (period, phase) in [(4_000_000, 1_700_000), (1_000_000, 990_000), (10_000_000, 20_000), (3_333_333, 0)] {
            let ticks = found(period, phase, 12).unwrap();
            assert_eq!(ticks.period_ns, period);
            let off = (ticks.phase_ns + period - phase) % period;
            assert!(off < 60_000 || off > period - 60_000, "{ticks:?} for {period} {phase}");
            assert!(ticks.caused(5 * period + phase + 50_000));
            assert!(!ticks.caused(5 * period + phase + period / 2));
        }
    }

    #[test]
    fn few_or_scattered_preemptions_tell_nothing() {
        assert_eq!(found(4_000_000, 0, 3), None);
        let mut finder = TickFinder::default();
        (0..40u64).for_each(|n| finder.switch(n * n * 1_313_131 + 7, 0, (1, 120), 0, (2, 120)));
        assert_eq!(finder.ticks(), None);
    }

    #[test]
    fn wake_ups_and_other_classes_are_no_ticks() {
        let mut finder = TickFinder::default();
        for n in 1..20u64 {
            finder.joins(n * 4_000_000, 0);
            finder.switch(n * 4_000_000 + 10_000, 0, (1, 120), 0, (2, 120));
            finder.switch(n * 4_000_000 + 2_000_000, 0, (1, 120), 0, (2, 50));
            finder.switch(n * 4_000_000 + 2_100_000, 0, (1, 120), 1, (2, 120));
        }
        assert_eq!(finder.ticks(), None);
    }

    #[test]
    fn idle_cpus_that_wake_for_nobody_tell_ticks() {
        let mut finder = TickFinder::default();
        for n in 1..12u64 {
            let tick = n * 7 * 4_000_000 + 1_300_000 + n * 3_000;
            finder.idle(tick, 2, false);
            finder.idle(tick + 2_000, 2, true);
            // It wakes for a task.
            finder.idle(tick + 700_000, 2, false);
            finder.switch(tick + 701_000, 2, (0, 120), 0, (1, 120));
            finder.idle(tick + 900_000, 2, true);
        }
        let ticks = finder.ticks().unwrap();
        assert_eq!(ticks.period_ns, 4_000_000);
        assert!(ticks.phase_ns.abs_diff(1_300_000) < 60_000, "{ticks:?}");
    }
}
