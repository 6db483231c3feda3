//! The closed loop of load tracking and schedutil on one CPU with one task, exact and small enough to see through.
//!
//! The engine answers what a machine does; this answers what the formula does. A task is given work at set times, the
//! work takes as long as the current frequency makes it, load tracking sees that, and schedutil sets the frequency at once:
//!
//! ```text
//!   activations --> busy time --> PELT clock --> util_avg --> schedutil --> frequency --.
//!                      ^                                                                |
//!                      '------------------------ work / frequency <--------------------'
//! ```
//! As in the kernel, load tracking is updated when the task wakes, sleeps and at each tick while it runs, and schedutil is
//! called when an update recomputed the averages (fair.c:cfs_rq_util_change()). Waking and switching the frequency take no
//! time; the tick stops while the CPU idles. Other tasks, classes and interrupts are not here.

use opplab_kernel::clock_pelt::RqClock;
use opplab_kernel::cpufreq::facts::{CpuFacts, PolicyFacts, Request, RqFacts};
use opplab_kernel::cpufreq::freq_table::{FreqLimits, FreqTable, FreqTableError};
use opplab_kernel::cpufreq::schedutil::{SugovConfig, SugovGates, SugovPolicy};
use opplab_kernel::pelt::{HalfLife, SchedAvg, SeFacts, get_pelt_divider, update_load_avg_cfs_rq, update_load_avg_se};
use opplab_kernel::unit::{SCHED_CAPACITY_SCALE, SCHED_CAPACITY_SHIFT};
use opplab_kernel::util_est::{util_est_dequeue, util_est_enqueue, util_est_update};

const NICE_0_WEIGHT: u64 = 1024 << 10;

/// What is studied.
#[derive(Debug, Clone)]
pub struct LoopConfig {
    /// The P-states, ascending, in kHz; work is counted at the last.
    pub freqs_khz: Vec<u32>,
    /// The frequency at the start.
    pub cur_khz: u32,
    /// Utilisation is relative to the highest frequency (time dilation), or busy time as it is.
    pub freq_invariant: bool,
    /// The kernel's version of schedutil.
    pub gates: SugovGates,
    /// schedutil's tunable.
    pub rate_limit_us: u32,
    /// The length of a tick.
    pub tick_ns: u64,
    /// `sched_feat(UTIL_EST)`: the task's last activations count, too.
    pub util_est: bool,
    /// The task's `util_avg` when it arrives, at time 0: what it had on the CPU that it came from.
    pub start_util: u64,
    /// When to end.
    pub duration_ns: u64,
}

/// Work that the task is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activation {
    /// When; ascending.
    pub time_ns: u64,
    /// How long it takes at the highest frequency.
    pub work_ns: u64,
}

/// What the loop did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoopTrace {
    /// The times at which schedutil was called.
    pub time_ns: Vec<u64>,
    /// The utilisation that it saw, 0..1024.
    pub util: Vec<u32>,
    /// The frequency that it left.
    pub freq_khz: Vec<u32>,
    /// When each activation's work was done; those that were not are missing.
    pub end_ns: Vec<u64>,
    /// Busy time at each P-state.
    pub busy_ns: Vec<u64>,
    /// When a span at one frequency began: busy or idle, see `span_busy`.
    pub span_ns: Vec<u64>,
    /// The frequency of each span.
    pub span_khz: Vec<u32>,
    /// Whether the CPU was busy in each span.
    pub span_busy: Vec<bool>,
}

struct Loop<'a, H> {
    config: &'a LoopConfig,
    governor: SugovPolicy,
    max_khz: u32,
    cur_khz: u32,
    now: u64,
    clock: RqClock,
    se: SchedAvg,
    cfs: SchedAvg,
    facts: CpuFacts,
    /// Work of the activations that are not done, in ns x kHz.
    backlog: std::collections::VecDeque<u128>,
    trace: LoopTrace,
    half_life: std::marker::PhantomData<H>,
}

impl<H: HalfLife> Loop<'_, H> {
    fn busy(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// When the first of the backlog is done at the current frequency.
    fn done_ns(&self) -> Option<u64> {
        let work = *self.backlog.front()?;
        let ns = work.div_ceil(u128::from(self.cur_khz.max(1)));
        Some(self.now.saturating_add(u64::try_from(ns).unwrap_or(u64::MAX)))
    }

    /// Time passes, busy or idle as it is; the averages follow.
    fn advance(&mut self, to: u64) -> bool {
        let busy = self.busy();
        if let Some(work) = self.backlog.front_mut() {
            *work = work.saturating_sub(u128::from(to - self.now) * u128::from(self.cur_khz));
            if let Some(at) = self.config.freqs_khz.iter().position(|&khz| khz == self.cur_khz) {
                self.trace.busy_ns[at] += to - self.now;
            }
        }
        self.now = to;
        let scale = if self.config.freq_invariant {
            u64::from(self.cur_khz) * SCHED_CAPACITY_SCALE / u64::from(self.max_khz)
        } else {
            SCHED_CAPACITY_SCALE
        };
        self.clock.update_rq_clock(to, 0, !busy, SCHED_CAPACITY_SCALE, scale);
        let now = self.clock.rq_clock_pelt();
        update_load_avg_se::<H>(now, &mut self.se, SeFacts::task(NICE_0_WEIGHT, busy, busy));
        let weight = if busy { NICE_0_WEIGHT } else { 0 };
        update_load_avg_cfs_rq::<H>(now, &mut self.cfs, weight, u64::from(busy), busy)
    }

    fn govern(&mut self) {
        self.facts.util_cfs = self.cfs.util_avg.max(u64::from(self.cfs.util_est)).min(SCHED_CAPACITY_SCALE);
        self.facts.util_cfs_boost = self.facts.util_cfs.max(self.cfs.runnable_avg).min(SCHED_CAPACITY_SCALE);
        let policy = PolicyFacts {
            cur_khz: self.cur_khz,
            freq_ref_khz: 0,
            freq_invariant: self.config.freq_invariant,
            can_update: true,
        };
        let request = self.governor.update(self.now, 0, 0, &policy, std::slice::from_ref(&self.facts));
        if let Some(Request::FastSwitch { freq_khz }) = request
            && freq_khz != self.cur_khz
        {
            self.cur_khz = freq_khz;
            self.span();
        }
        self.trace.time_ns.push(self.now);
        self.trace.util.push(self.facts.util_cfs as u32);
        self.trace.freq_khz.push(self.cur_khz);
    }

    fn span(&mut self) {
        self.trace.span_ns.push(self.now);
        self.trace.span_khz.push(self.cur_khz);
        self.trace.span_busy.push(self.busy());
    }

    /// The averages were brought up to now; `decayed` is set if they moved.
    fn wake(&mut self, decayed: bool, work_ns: u64) {
        let was_busy = self.busy();
        self.backlog.push_back(u128::from(work_ns.max(1)) * u128::from(self.max_khz));
        if !was_busy {
            if self.config.util_est {
                util_est_enqueue(&mut self.cfs, &self.se);
            }
            self.span();
        }
        if decayed {
            self.govern();
        }
    }

    /// The first of the backlog is done.
    fn sleep(&mut self, decayed: bool) {
        self.backlog.pop_front();
        self.trace.end_ns.push(self.now);
        if self.busy() {
            return;
        }
        if decayed {
            self.govern();
        }
        if self.config.util_est {
            util_est_dequeue(&mut self.cfs, &self.se);
            util_est_update(&mut self.se, true, SCHED_CAPACITY_SCALE);
        }
        self.clock.update_idle_rq_clock_pelt::<H>(self.cfs.util_sum, 0, 0);
        self.facts.idle_calls += 1;
        self.span();
    }
}

/// Runs the loop.
///
/// # Errors
/// A table of P-states that the kernel would refuse.
///
/// # Panics
/// If `tick_ns` is 0.
pub fn closed_loop<H: HalfLife>(config: &LoopConfig, activations: &[Activation]) -> Result<LoopTrace, FreqTableError> {
    assert!(config.tick_ns > 0, "a tick takes time");
    let table = FreqTable::from_khz(&config.freqs_khz)?;
    let max_khz = config.freqs_khz.iter().copied().max().unwrap_or(1).max(1);
    let min_khz = config.freqs_khz.iter().copied().min().unwrap_or(1);
    let limits = FreqLimits { min_khz, max_khz };
    let governor = SugovPolicy::new(SugovConfig {
        n_cpus: 1,
        cpuinfo: limits,
        limits,
        table: Some(table),
        fast_switch: true,
        need_update_limits: false,
        adjust_perf: false,
        rate_limit_us: config.rate_limit_us,
        tick_ns: config.tick_ns,
        gates: config.gates,
    });
    let mut sa = SchedAvg { util_avg: config.start_util.min(SCHED_CAPACITY_SCALE), ..SchedAvg::default() };
    sa.runnable_avg = sa.util_avg;
    sa.util_sum = (sa.util_avg * u64::from(get_pelt_divider::<H>(&sa))) as u32;
    sa.runnable_sum = u64::from(sa.util_sum);
    sa.load_sum = sa.runnable_sum >> SCHED_CAPACITY_SHIFT;
    let mut state = Loop::<H> {
        config,
        governor,
        max_khz,
        cur_khz: limits.clamp(config.cur_khz),
        now: 0,
        clock: RqClock::new(0, 0),
        se: sa,
        cfs: sa,
        facts: CpuFacts { rq: RqFacts::default(), ..CpuFacts::default() },
        backlog: std::collections::VecDeque::new(),
        trace: LoopTrace { busy_ns: vec![0; config.freqs_khz.len()], ..LoopTrace::default() },
        half_life: std::marker::PhantomData,
    };
    state.span();
    let mut coming = activations.iter().copied().peekable();
    loop {
        let wake = coming.peek().map(|activation| activation.time_ns.max(state.now));
        let done = state.done_ns();
        let tick = state.busy().then(|| (state.now / config.tick_ns + 1).saturating_mul(config.tick_ns));
        let next = [wake, done, tick].into_iter().flatten().min().unwrap_or(config.duration_ns);
        if next >= config.duration_ns {
            state.advance(config.duration_ns);
            return Ok(state.trace);
        }
        let decayed = state.advance(next);
        // At one time: first what ends, then what begins, then the tick.
        if done == Some(next) {
            state.sleep(decayed);
        } else if wake == Some(next) {
            let work_ns = coming.next().map_or(0, |activation| activation.work_ns);
            state.wake(decayed, work_ns);
        } else if decayed {
            state.govern();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opplab_kernel::pelt::HalfLife32;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn config(freq_invariant: bool) -> LoopConfig {
        LoopConfig {
            freqs_khz: (8..=30).map(|step| step * 100_000).collect(),
            cur_khz: 800_000,
            freq_invariant,
            gates: SugovGates::V5_10,
            rate_limit_us: 500,
            tick_ns: 4 * MS,
            util_est: false,
            start_util: 0,
            duration_ns: 1_000 * MS,
        }
    }

    fn periodic(period_ns: u64, work_ns: u64) -> Vec<Activation> {
        (0..1_000 * MS / period_ns).map(|k| Activation { time_ns: k * period_ns, work_ns }).collect()
    }

    /// A task that never sleeps drives either formula to the highest frequency.
    #[test]
    fn saturation_ends_at_the_top() {
        for freq_invariant in [false, true] {
            let trace = closed_loop::<HalfLife32>(&config(freq_invariant), &periodic(1_000 * MS, 5_000 * MS));
            assert_eq!(trace.expect("a valid table").freq_khz.last(), Some(&3_000_000));
        }
    }

    /// With invariance the frequency of a steady half load is 1.25 * 0.5 * f_max, within the ripple of the signal.
    #[test]
    fn invariant_steady_state() {
        let trace = closed_loop::<HalfLife32>(&config(true), &periodic(10 * MS, 5 * MS)).expect("a valid table");
        let last = &trace.freq_khz[trace.freq_khz.len() / 2..];
        let mean: u64 = last.iter().map(|&khz| u64::from(khz)).sum::<u64>() / last.len() as u64;
        assert!((1_700_000..2_200_000).contains(&mean), "{mean}");
    }

    proptest! {
        /// Goal: work is neither lost nor invented, and time does not go back.
        #[test]
        fn work_is_conserved(
            gaps in proptest::collection::vec((1..40 * MS, 1..30 * MS), 1..30), freq_invariant: bool, util_est: bool,
            start_util in 0..1025u64,
        ) {
            let mut now = 0;
            let activations: Vec<_> =
                gaps.iter().map(|&(gap, work_ns)| { now += gap; Activation { time_ns: now, work_ns } }).collect();
            let config = LoopConfig { util_est, start_util, duration_ns: 20_000 * MS, ..config(freq_invariant) };
            let trace = closed_loop::<HalfLife32>(&config, &activations).expect("a valid table");
            prop_assert_eq!(trace.end_ns.len(), activations.len());
            prop_assert!(trace.time_ns.is_sorted() && trace.span_ns.is_sorted() && trace.end_ns.is_sorted());
            let done: u128 = trace.busy_ns.iter().zip(&config.freqs_khz)
                .map(|(&ns, &khz)| u128::from(ns) * u128::from(khz)).sum();
            let given: u128 = activations.iter().map(|one| u128::from(one.work_ns) * 3_000_000).sum();
            // Each activation ends at a whole ns.
            prop_assert!(done >= given && done - given <= activations.len() as u128 * 3_000_000);
            prop_assert!(trace.freq_khz.iter().all(|khz| config.freqs_khz.contains(khz)));
        }
    }
}
