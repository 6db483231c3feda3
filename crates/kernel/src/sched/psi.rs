//! Pressure stall information of CPUs: `cpu.pressure` of a control group, `/proc/pressure/cpu` (kernel/sched/psi.c, v6.12). From
//! public source, without vectors.
//!
//! ```text
//!   on each CPU:   tasks that could run, one of them does ──► some: a task waits; full: all that could run wait
//!                        │ times since the last sample
//!   every 2 s:     mean of the CPUs, each weighted with the time in which it had a task ──► total, avg10, avg60, avg300
//! ```
//!
//! Here are states, times, samples and averages. What tasks do, and when the work is due that samples, is the caller's.
//! Not here: pressure of memory, of I/O and of interrupts, triggers.

use crate::profile::CpuPressure;

/// `FIXED_1` of the averages has this many bits below the point (`FSHIFT`).
pub const FSHIFT: u32 = 11;
const FIXED_1: u64 = 1 << FSHIFT;
/// What of an average is left after a sample of 2 s: of 10 s, 60 s and 300 s (`EXP_10s`, `EXP_60s`, `EXP_300s`).
const EXP: [u64; 3] = [1677, 1981, 2034];
const NSEC_PER_SEC: u64 = 1_000_000_000;

/// Some of the tasks wait, or all do.
const SOME: usize = 0;
const FULL: usize = 1;
const NONIDLE: usize = 2;

/// How often averages are sampled, jiffies (`PSI_FREQ`).
pub fn psi_freq(hz: u64) -> u64 {
    2 * hz + 1
}

/// kernel/time/time.c:`nsecs_to_jiffies()`, v6.12, for the HZ that the kernel's configuration offers.
pub fn nsecs_to_jiffies(ns: u64, hz: u64) -> u64 {
    if NSEC_PER_SEC.is_multiple_of(hz) { ns / (NSEC_PER_SEC / hz) } else { ns * 9 / ((9 * NSEC_PER_SEC + hz / 2) / hz) }
}

/// `jiffies_to_nsecs(PSI_FREQ)`, by way of microseconds.
fn psi_period_ns(hz: u64) -> u64 {
    psi_freq(hz) * 1_000_000 / hz * 1000
}

/// kernel/sched/loadavg.c:`calc_load()`, v6.12 (include/linux/sched/loadavg.h).
fn calc_load(load: u64, exp: u64, active: u64) -> u64 {
    let round_up = if active >= load { FIXED_1 - 1 } else { 0 };
    (load * exp + active * (FIXED_1 - exp) + round_up) / FIXED_1
}

/// kernel/sched/loadavg.c:`fixed_power_int()`, v6.12.
fn fixed_power_int(mut x: u64, mut n: u64) -> u64 {
    let times = |a: u64, b: u64| (a * b + FIXED_1 / 2) >> FSHIFT;
    let mut result = FIXED_1;
    while n > 0 {
        if n & 1 == 1 {
            result = times(result, x);
        }
        n >>= 1;
        x = times(x, x);
    }
    result
}

/// What happens to a task of the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Tasks that came to be able to run (1), or no longer are (-1).
    pub running: i32,
    /// Tasks that begin (1) or end (-1) to wait for I/O.
    pub iowait: i32,
    /// The CPU begins, or ends, to run a task of the group.
    pub oncpu: Option<bool>,
}

/// The group's tasks on one CPU, and for how long they were in which state (`struct psi_group_cpu`).
#[derive(Clone, Copy, Debug, Default)]
struct PsiGroupCpu {
    nr_running: u32,
    nr_iowait: u32,
    oncpu: bool,
    states: [bool; 3],
    state_start: u64,
    times: [u32; 3],
    times_prev: [u32; 3],
}

impl PsiGroupCpu {
    /// kernel/sched/psi.c:`test_states()`, v6.12.
    fn test_states(&self, rule: CpuPressure) -> [bool; 3] {
        let running = self.nr_running;
        let some = match rule {
            CpuPressure::Absent => false,
            CpuPressure::MoreThanOne => running > 1,
            CpuPressure::Waiting | CpuPressure::WithFull => running > u32::from(self.oncpu),
        };
        let full = rule == CpuPressure::WithFull && running > 0 && !self.oncpu;
        [some, full, running > 0 || self.nr_iowait > 0]
    }

    /// kernel/sched/psi.c:`get_recent_times()`, v6.12: what was added since it was asked last.
    fn recent_times(&mut self, now: u64) -> [u32; 3] {
        let mut deltas = [0; 3];
        for (state, delta) in deltas.iter_mut().enumerate() {
            let mut time = self.times[state];
            if self.states[state] {
                time = time.wrapping_add(now.saturating_sub(self.state_start) as u32);
            }
            *delta = time.wrapping_sub(self.times_prev[state]);
            self.times_prev[state] = time;
        }
        deltas
    }
}

/// One line of `cpu.pressure`: averages of 10 s, 60 s and 300 s in percent with [`FSHIFT`] bits below the point, and the sum in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PsiLine {
    /// avg10, avg60, avg300.
    pub avg: [u64; 3],
    /// total, ns.
    pub total_ns: u64,
}

impl PsiLine {
    /// An average as the file has it, in hundredths of a percent (`LOAD_INT()`, `LOAD_FRAC()`).
    pub fn hundredths(avg: u64) -> u64 {
        (avg >> FSHIFT) * 100 + (((avg & (FIXED_1 - 1)) * 100) >> FSHIFT)
    }
}

/// The pressure of a group (`struct psi_group`).
#[derive(Clone, Debug)]
pub struct PsiGroup {
    rule: CpuPressure,
    hz: u64,
    cpus: Vec<PsiGroupCpu>,
    total: [u64; 2],
    avg_total: [u64; 2],
    avg: [[u64; 3]; 2],
    avg_last_update: u64,
    avg_next_update: u64,
}

impl PsiGroup {
    /// A group without tasks (`group_init()`).
    pub fn new(rule: CpuPressure, hz: u64, nr_cpus: usize, now: u64) -> Self {
        Self {
            rule,
            hz,
            cpus: vec![PsiGroupCpu { state_start: now, ..PsiGroupCpu::default() }; nr_cpus],
            total: [0; 2],
            avg_total: [0; 2],
            avg: [[0; 3]; 2],
            avg_last_update: now,
            avg_next_update: now + psi_period_ns(hz),
        }
    }

    /// Something changes on `cpu` (kernel/sched/psi.c:`psi_group_change()`, v6.12).
    pub fn change(&mut self, cpu: usize, now: u64, change: Change) {
        let own = &mut self.cpus[cpu];
        let delta = now.saturating_sub(own.state_start) as u32;
        own.state_start = now;
        for (time, _) in own.times.iter_mut().zip(own.states).filter(|(_, is_in)| *is_in) {
            *time = time.wrapping_add(delta);
        }
        own.nr_running = own.nr_running.saturating_add_signed(change.running);
        own.nr_iowait = own.nr_iowait.saturating_add_signed(change.iowait);
        own.oncpu = change.oncpu.unwrap_or(own.oncpu);
        own.states = own.test_states(self.rule);
    }

    /// kernel/sched/psi.c:`collect_percpu_times()`, v6.12; whether some CPU had a task.
    fn collect(&mut self, now: u64) -> bool {
        let mut deltas = [0u64; 2];
        let (mut nonidle_total, mut any) = (0, false);
        for own in &mut self.cpus {
            let times = own.recent_times(now);
            let nonidle = nsecs_to_jiffies(times[NONIDLE].into(), self.hz);
            nonidle_total += nonidle;
            any |= times[NONIDLE] > 0;
            for state in [SOME, FULL] {
                deltas[state] += u64::from(times[state]) * nonidle;
            }
        }
        for (total, delta) in self.total.iter_mut().zip(deltas) {
            *total += delta / nonidle_total.max(1);
        }
        any
    }

    /// kernel/sched/psi.c:`update_averages()` and `calc_avgs()`, v6.12.
    fn update_averages(&mut self, now: u64) {
        if now < self.avg_next_update {
            return;
        }
        let period_ns = psi_period_ns(self.hz);
        let missed = (now - self.avg_next_update) / period_ns;
        self.avg_next_update += (1 + missed) * period_ns;
        let period = now.saturating_sub(self.avg_last_update + missed * period_ns).max(1);
        self.avg_last_update = now;
        for state in [SOME, FULL] {
            let sample = (self.total[state] - self.avg_total[state]).min(period);
            self.avg_total[state] += sample;
            let active = sample * 100 / period * FIXED_1;
            for (avg, exp) in self.avg[state].iter_mut().zip(EXP) {
                if missed > 0 {
                    *avg = calc_load(*avg, fixed_power_int(exp, missed), 0);
                }
                *avg = calc_load(*avg, exp, active);
            }
        }
    }

    /// The periodic work; in how many jiffies it is due again, if a CPU had a task (kernel/sched/psi.c:`psi_avgs_work()`, v6.12).
    pub fn work(&mut self, now: u64) -> Option<u64> {
        let any = self.collect(now);
        self.update_averages(now);
        any.then(|| nsecs_to_jiffies(self.avg_next_update.saturating_sub(now), self.hz) + 1)
    }

    /// The lines `some` and `full` of the file (kernel/sched/psi.c:`psi_show()`, v6.12). Reading samples, too.
    pub fn show(&mut self, now: u64) -> [PsiLine; 2] {
        self.collect(now);
        self.update_averages(now);
        [SOME, FULL].map(|state| PsiLine { avg: self.avg[state], total_ns: self.total[state] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const PERIOD_NS: u64 = 2_004 * MS;
    const WAKES: Change = Change { running: 1, iowait: 0, oncpu: None };
    const RUNS: Change = Change { running: 0, iowait: 0, oncpu: Some(true) };

    fn group(rule: CpuPressure) -> PsiGroup {
        PsiGroup::new(rule, 250, 2, 0)
    }

    #[test]
    fn a_period_is_two_seconds_and_a_jiffy() {
        assert_eq!(psi_period_ns(250), PERIOD_NS);
        assert_eq!(psi_period_ns(1000), 2_001 * MS);
        assert_eq!(psi_period_ns(300), 2_003_333_000);
        assert_eq!(nsecs_to_jiffies(19_999_999, 250), 4);
        assert_eq!(nsecs_to_jiffies(1_000_000_000, 300), 300);
    }

    /// Two tasks on one CPU, one of which runs, for a whole period: 100 % of some; by hand the averages are
    /// ceil(100 * (2048 - exp)), and a second period adds to what is left.
    #[test]
    fn a_task_that_waits_is_some_pressure() {
        let mut group = group(CpuPressure::WithFull);
        group.change(0, 0, WAKES);
        group.change(0, 0, RUNS);
        group.change(0, 0, WAKES);
        assert_eq!(group.work(PERIOD_NS), Some(502));
        let [some, full] = group.show(PERIOD_NS);
        assert_eq!(some, PsiLine { avg: [37_100, 6_700, 1_400], total_ns: PERIOD_NS });
        assert_eq!(full, PsiLine::default());
        assert_eq!(some.avg.map(PsiLine::hundredths), [1_811, 327, 68]);
        group.work(2 * PERIOD_NS);
        // 37100 * 1677 + 204800 * 371 + 2047 = 138,199,547; / 2048 = 67480.2.
        assert_eq!(group.show(2 * PERIOD_NS)[0].avg[0], 67_480);
    }

    /// A throttled group has tasks that could run and runs none: full. Before v5.13 there was no such state.
    #[test]
    fn who_may_not_run_is_full_pressure() {
        for (rule, some_ns, full_ns) in [
            (CpuPressure::WithFull, 300 * MS, 300 * MS),
            (CpuPressure::Waiting, 300 * MS, 0),
            (CpuPressure::MoreThanOne, 0, 0),
            (CpuPressure::Absent, 0, 0),
        ] {
            let mut group = group(rule);
            group.change(1, 0, WAKES);
            group.change(1, 300 * MS, RUNS);
            group.change(1, 1_000 * MS, Change { running: -1, iowait: 0, oncpu: Some(false) });
            let [some, full] = group.show(1_500 * MS);
            assert_eq!((some.total_ns, full.total_ns), (some_ns, full_ns), "{rule:?}");
        }
    }

    /// CPU 0 waits for 400 ms of its 1,200; CPU 1 runs alone for 400 ms: (400 * 1200 + 0 * 400) / 1600 = 300.
    #[test]
    fn cpus_count_by_the_time_that_they_had_a_task() {
        let mut group = group(CpuPressure::WithFull);
        group.change(0, 0, WAKES);
        group.change(0, 0, RUNS);
        group.change(0, 800 * MS, WAKES);
        group.change(1, 0, WAKES);
        group.change(1, 0, RUNS);
        group.change(1, 400 * MS, Change { running: -1, iowait: 0, oncpu: Some(false) });
        assert_eq!(group.show(1_200 * MS)[0].total_ns, 300 * MS);
    }

    /// Waiting for I/O makes a CPU count, and is no pressure of CPUs.
    #[test]
    fn who_waits_for_io_makes_the_cpu_count() {
        let mut group = group(CpuPressure::WithFull);
        group.change(1, 0, Change { running: 0, iowait: 1, oncpu: None });
        group.change(0, 0, WAKES);
        assert_eq!(group.show(1_000 * MS)[0].total_ns, 500 * MS);
    }

    /// Periods in which nothing was asked for count as idle: three of them leave exp^3 of the averages.
    #[test]
    fn missed_periods_decay() {
        let mut group = group(CpuPressure::WithFull);
        group.change(0, 0, WAKES);
        group.work(PERIOD_NS);
        group.change(0, PERIOD_NS, Change { running: -1, iowait: 0, oncpu: None });
        assert_eq!(group.work(PERIOD_NS + MS), None);
        let before = group.show(PERIOD_NS + MS)[0].avg[0];
        // By hand: 1677^2 = 1373 (of 2048, rounded), * 1677 = 1124; 37100 * 1124 / 2048 = 20361; * 1677 / 2048 = 16672.
        assert_eq!((before, group.show(5 * PERIOD_NS)[0].avg[0]), (37_100, 16_672));
    }
}
