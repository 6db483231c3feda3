//! What a user-space governor can know: each CPU's utilisation and times.
//!
//! Three sources of utilisation, best first: APERF and MPERF (invariant by the chosen f_max), the scheduler's own
//! signals in debugfs (invariant if the kernel is), `/proc/stat` with cpufreq's frequency. Real-time, deadline and
//! interrupt utilisation are not to be had from outside; with the first and the last they are part of the busy time.

use opplab_kernel::cpufreq::sampling::CpuTimes;
use opplab_kernel::cpufreq::schedutil::{CpuFacts, RqFacts};

use crate::counters::{CpuCounters, Hardware, StatTimes, USER_TICK_NS, parse_stat};
use crate::error::HostError;
use crate::root::{CPU, Root};
use crate::scheddebug;
use crate::util::CpuUtil;

/// Where utilisation comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// APERF, MPERF and TSC.
    Counters,
    /// debugfs `sched/debug`.
    SchedDebug,
    /// `/proc/stat` and `scaling_cur_freq`.
    Stat,
}

impl Source {
    /// Names on the command line.
    pub const NAMES: &[(&str, Source)] =
        &[("counters", Self::Counters), ("sched-debug", Self::SchedDebug), ("stat", Self::Stat)];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, source)| *source == self).map_or("", |(name, _)| name)
    }

    /// The best one that the host offers.
    pub fn best(root: &Root, cpu: u32) -> Self {
        if CpuCounters::open(root, cpu).is_ok() {
            Self::Counters
        } else if scheddebug::find(root).is_some() {
            Self::SchedDebug
        } else {
            Self::Stat
        }
    }
}

/// The clock of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clock {
    /// Its frequency, kHz.
    pub cur_khz: u32,
    /// The reference of invariance, kHz; 0: none.
    pub ref_khz: u32,
}

struct Sensed {
    cpu: u32,
    capacity: u64,
    counters: Option<CpuCounters>,
    before: Option<Hardware>,
    stat: StatTimes,
    util: CpuUtil,
    facts: CpuFacts,
    times: CpuTimes,
}

/// The senses for a set of CPUs.
pub struct Senses {
    source: Source,
    debug_file: Option<&'static str>,
    cpus: Vec<Sensed>,
    last_ns: u64,
}

impl Senses {
    /// Opens a source for `cpus`.
    ///
    /// # Errors
    /// If the host does not have it.
    pub fn open(root: &Root, source: Source, cpus: &[u32], now_ns: u64) -> Result<Self, HostError> {
        let debug_file = scheddebug::find(root);
        if source == Source::SchedDebug && debug_file.is_none() {
            let words = "no readable sched/debug (mount debugfs, be root; CONFIG_SCHED_DEBUG)";
            return Err(HostError::Lacking(words.to_owned()));
        }
        let mut senses = Self { source, debug_file, cpus: Vec::new(), last_ns: now_ns };
        for &cpu in cpus {
            let counters = match source {
                Source::Counters => Some(CpuCounters::open(root, cpu).map_err(|why| {
                    HostError::Lacking(format!("APERF and MPERF of CPU {cpu} cannot be read: {why}"))
                })?),
                _ => None,
            };
            senses.cpus.push(Sensed {
                cpu,
                capacity: root.number(&format!("{CPU}/cpu{cpu}/cpu_capacity")).unwrap_or(1024).clamp(1, 1024),
                counters,
                before: None,
                stat: StatTimes::default(),
                util: CpuUtil::default(),
                facts: CpuFacts::default(),
                times: CpuTimes::default(),
            });
        }
        senses.look(root, now_ns, &|_| Clock::default());
        Ok(senses)
    }

    /// Looks at all CPUs; afterwards [`Senses::facts`] and [`Senses::times`] are of now. `clock` tells a CPU's; its
    /// present frequency counts only for the source without counters.
    pub fn look(&mut self, root: &Root, now_ns: u64, clock: &dyn Fn(u32) -> Clock) {
        let interval_ns = now_ns.saturating_sub(self.last_ns);
        self.last_ns = now_ns;
        let stat = parse_stat(&root.raw("/proc/stat").unwrap_or_default());
        let signals = match (self.source, self.debug_file) {
            (Source::SchedDebug, Some(file)) => scheddebug::parse(&root.raw(file).unwrap_or_default()),
            _ => Vec::new(),
        };
        for sensed in &mut self.cpus {
            let before = sensed.stat;
            if let Some((_, now)) = stat.iter().find(|(cpu, _)| *cpu == sensed.cpu) {
                sensed.stat = *now;
            }
            let now = sensed.stat;
            let idle_ticks = now.idle + now.iowait;
            let idle_ns = idle_ticks.saturating_sub(before.idle + before.iowait) * USER_TICK_NS;
            sensed.times = CpuTimes {
                wall_us: now_ns / 1000,
                idle_us: idle_ticks * (USER_TICK_NS / 1000),
                nice_ns: now.nice * USER_TICK_NS,
            };
            let mut idled = idle_ns > 0;
            let Clock { cur_khz, ref_khz } = clock(sensed.cpu);
            let scale = |khz: u64| (khz * 1024).checked_div(u64::from(ref_khz)).map_or(1024, |scale| scale.min(1024));
            let (util, runnable) = match self.source {
                Source::SchedDebug => {
                    let own = signals.iter().find(|(cpu, _)| *cpu == sensed.cpu);
                    let own = own.map_or_else(Default::default, |(_, signals)| *signals);
                    idled |= own.nr_running == 0;
                    (own.util_avg.max(own.util_est), own.runnable_avg)
                }
                Source::Counters => {
                    let read = sensed.counters.as_mut().and_then(CpuCounters::read);
                    if let (Some(now), Some(before)) = (read, sensed.before) {
                        let tsc = now.tsc.wrapping_sub(before.tsc).max(1);
                        let mperf = now.mperf.wrapping_sub(before.mperf).min(tsc);
                        let aperf = now.aperf.wrapping_sub(before.aperf);
                        let busy_ns = (u128::from(interval_ns) * u128::from(mperf) / u128::from(tsc)) as u64;
                        idled |= mperf < tsc;
                        // The base clock is the TSC's.
                        let base_khz = u128::from(tsc) * 1_000_000 / u128::from(interval_ns.max(1));
                        let khz = (base_khz * u128::from(aperf) / u128::from(mperf.max(1))) as u64;
                        let both = (scale(khz) * sensed.capacity) >> 10;
                        sensed.util.add(interval_ns, busy_ns, both);
                    }
                    sensed.before = read;
                    (sensed.util.util_avg(), 0)
                }
                Source::Stat => {
                    let busy_ns = interval_ns.saturating_sub(idle_ns);
                    let both = (scale(u64::from(cur_khz)) * sensed.capacity) >> 10;
                    if interval_ns > 0 {
                        sensed.util.add(interval_ns, busy_ns, both);
                    }
                    (sensed.util.util_avg(), 0)
                }
            };
            let util = util.min(sensed.capacity);
            sensed.facts = CpuFacts {
                rq: RqFacts { capacity: sensed.capacity, ..RqFacts::default() },
                util_cfs: util,
                util_cfs_boost: util.max(runnable.min(sensed.capacity)),
                // It grows when the CPU idled since the last look, which is all that is asked of it.
                idle_calls: sensed.facts.idle_calls + u64::from(idled),
            };
        }
    }

    /// The facts of these CPUs, in their order.
    pub fn facts(&self, cpus: &[u32]) -> Vec<CpuFacts> {
        self.of(cpus, |sensed| sensed.facts)
    }

    /// The times of these CPUs, in their order.
    pub fn times(&self, cpus: &[u32]) -> Vec<CpuTimes> {
        self.of(cpus, |sensed| sensed.times)
    }

    fn of<T: Default>(&self, cpus: &[u32], pick: impl Fn(&Sensed) -> T) -> Vec<T> {
        let one = |cpu: &u32| self.cpus.iter().find(|sensed| sensed.cpu == *cpu).map_or_else(T::default, &pick);
        cpus.iter().map(one).collect()
    }
}
