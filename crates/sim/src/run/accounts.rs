//! What a CPU's time adds up to: as the kernel counts idle time, in idle states, at operating points. Who adds and who reads are in the
//! rooms; what they add to is nobody's business.

use opplab_kernel::cpufreq::facts::CpuTimes;

/// kHz x ns in a cycle.
const CYCLE: u128 = 1_000_000;

/// Cycles of a clock of `khz` in `ns`.
pub(crate) fn cycles(khz: u32, ns: u64) -> u64 {
    (u128::from(khz) * u128::from(ns) / CYCLE) as u64
}

/// Idle time and niced time as the kernel counts them (`struct tick_sched`, `struct kernel_cpustat`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdleTimes {
    /// Idle time without I/O wait up to `since_ns` (`idle_sleeptime`).
    idle_ns: u64,
    /// Idle time that ended while a task waited for I/O (`iowait_sleeptime`).
    iowait_ns: u64,
    /// When the idle task started last, or an interrupt came last (`idle_entrytime`).
    since_ns: u64,
    /// Ticks in tasks of positive nice values (`CPUTIME_NICE`), ns.
    nice_ns: u64,
}

impl IdleTimes {
    /// Those of a CPU that idles from `now_ns` on.
    pub(crate) fn new(now_ns: u64) -> Self {
        Self { idle_ns: 0, iowait_ns: 0, since_ns: now_ns, nice_ns: 0 }
    }

    /// The idle task starts.
    pub(crate) fn start(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
    }

    /// tick-sched.c:tick_nohz_stop_idle(), v6.12: what was idle counts as I/O wait if a task still waits for I/O.
    pub(crate) fn stop(&mut self, now_ns: u64, waits_for_io: bool) {
        let total_ns = if waits_for_io { &mut self.iowait_ns } else { &mut self.idle_ns };
        *total_ns += now_ns - self.since_ns;
        self.since_ns = now_ns;
    }

    /// A tick came in a task of a positive nice value: kernel/sched/cputime.c:account_user_time() counts whole ticks.
    pub(crate) fn niced(&mut self, tick_ns: u64) {
        self.nice_ns += tick_ns;
    }

    /// tick-sched.c:get_cpu_sleep_time_us(), v6.12, of a CPU that counts idle time exactly, and its time in niced tasks.
    pub(crate) fn times(&self, now_ns: u64, is_idle: bool, waits_for_io: bool) -> CpuTimes {
        let lasting_ns = if is_idle { now_ns - self.since_ns } else { 0 };
        let (idle_ns, iowait_ns) = if waits_for_io { (0, lasting_ns) } else { (lasting_ns, 0) };
        CpuTimes {
            wall_us: now_ns / 1000,
            idle_us: (self.idle_ns + idle_ns) / 1000,
            iowait_us: (self.iowait_ns + iowait_ns) / 1000,
            nice_ns: self.nice_ns,
        }
    }
}

/// How often and for how long a CPU was in its idle states.
#[derive(Debug)]
pub(crate) struct Residency {
    /// Residencies without exits; the last is the time between idle states and tasks.
    ns: Vec<u64>,
    /// Entries into each state, and ns until the exit was complete.
    usage: Vec<(u64, u64)>,
}

impl Residency {
    pub(crate) fn new(nr_states: usize) -> Self {
        Self { ns: vec![0; nr_states + 1], usage: vec![(0, 0); nr_states] }
    }

    /// The place of the time between idle states and tasks.
    pub(crate) fn outside(&self) -> usize {
        self.usage.len()
    }

    /// The CPU was between idle states and tasks.
    pub(crate) fn add_outside(&mut self, ns: u64) {
        let outside = self.outside();
        self.ns[outside] += ns;
    }

    /// The CPU enters an idle state.
    pub(crate) fn enter(&mut self, state: usize) {
        self.usage[state].0 += 1;
    }

    /// Its exit begins after `ns`.
    pub(crate) fn leave(&mut self, state: usize, ns: u64) {
        self.ns[state] += ns;
    }

    /// Its exit, which took `exit_ns` of the `ns`, is complete.
    pub(crate) fn left(&mut self, state: usize, ns: u64, exit_ns: u64) {
        self.usage[state].1 += ns;
        self.add_outside(exit_ns);
    }

    /// Residencies by state, then the time outside.
    pub(crate) fn ns(&self) -> &[u64] {
        &self.ns
    }

    /// Time in the states from `first` on, ns.
    pub(crate) fn ns_from(&self, first: usize) -> u64 {
        self.ns[..self.outside()].iter().skip(first).sum()
    }

    /// Entries and time by state, as cpuidle's `usage` and `time` are.
    pub(crate) fn usage(&self) -> &[(u64, u64)] {
        &self.usage
    }
}

/// What passes at operating points: time, busy time, and the counters of a CPU's cycles while it executes.
#[derive(Debug)]
pub(crate) struct PointTimes {
    busy_ns: Vec<u64>,
    time_ns: Vec<u64>,
    /// Since when the present point holds.
    since_ns: u64,
    /// APERF and MPERF in kHz x ns.
    counters: (u128, u128),
    /// How much of the time in POLL they have counted.
    polled_ns: u64,
    /// Their values at the last tick that read them.
    last: (u128, u128),
}

impl PointTimes {
    /// Those of a CPU with this many points, from `now_ns` on.
    pub(crate) fn new(nr_points: usize, now_ns: u64) -> Self {
        Self {
            busy_ns: vec![0; nr_points],
            time_ns: vec![0; nr_points],
            since_ns: now_ns,
            counters: (0, 0),
            polled_ns: 0,
            last: (0, 0),
        }
    }

    /// The CPU was busy for `ns` at point `opp`, whose clock is `khz`.
    pub(crate) fn busy(&mut self, opp: u32, ns: u64, khz: u32, reference_khz: u32) {
        self.busy_ns[opp as usize] += ns;
        self.executes(ns, khz, reference_khz);
    }

    /// The CPU has polled for `polled_ns` in all, lately at a clock of `khz`: idle to the kernel, it executes (C0).
    pub(crate) fn polled(&mut self, polled_ns: u64, khz: u32, reference_khz: u32) {
        let ns = polled_ns - std::mem::replace(&mut self.polled_ns, polled_ns);
        self.executes(ns, khz, reference_khz);
    }

    fn executes(&mut self, ns: u64, khz: u32, reference_khz: u32) {
        self.counters.0 += u128::from(khz) * u128::from(ns);
        self.counters.1 += u128::from(reference_khz) * u128::from(ns);
    }

    /// The CPU leaves point `opp`.
    pub(crate) fn leave(&mut self, opp: u32, now_ns: u64) {
        self.time_ns[opp as usize] += now_ns - self.since_ns;
        self.since_ns = now_ns;
    }

    /// Busy time by point.
    pub(crate) fn busy_ns(&self) -> &[u64] {
        &self.busy_ns
    }

    /// Time by point of a CPU that is at `opp`.
    pub(crate) fn time_ns(&self, opp: u32, now_ns: u64) -> Vec<u64> {
        let mut times_ns = self.time_ns.clone();
        times_ns[opp as usize] += now_ns - self.since_ns;
        times_ns
    }

    /// APERF and MPERF in cycles.
    pub(crate) fn counters(&self) -> (u64, u64) {
        let (aperf, mperf) = self.counters;
        ((aperf / CYCLE) as u64, (mperf / CYCLE) as u64)
    }

    /// By how many cycles they moved since a tick read them last.
    pub(crate) fn counters_at_tick(&mut self) -> (u64, u64) {
        let ((aperf, mperf), last) = (self.counters, std::mem::replace(&mut self.last, self.counters));
        (((aperf - last.0) / CYCLE) as u64, ((mperf - last.1) / CYCLE) as u64)
    }

    /// For how long the CPU has executed, by MPERF, which counts `reference_khz`.
    pub(crate) fn executed_ns(&self, reference_khz: u32) -> u64 {
        (self.counters.1 / u128::from(reference_khz)) as u64
    }
}
