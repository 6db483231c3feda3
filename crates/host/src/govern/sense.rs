//! What a user-space governor can know: each CPU's utilisation and times.
//!
//! Three sources of utilisation, best first: APERF and MPERF (invariant by the chosen f_max), the scheduler's own
//! signals in debugfs (invariant if the kernel is), `/proc/stat` with cpufreq's frequency. Real-time, deadline and
//! interrupt utilisation are not to be had from outside; with the first and the last they are part of the busy time.

use opplab_kernel::cpufreq::facts::CpuTimes;
use opplab_kernel::cpufreq::facts::{CpuFacts, RqFacts};

use crate::clock::Moment;
use crate::counters::{CpuCounters, Hardware, StatTimes, USER_TICK_NS, read_stat};
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
    is_online: bool,
    /// What could not be read at the last look.
    unread: Option<String>,
    /// How long nothing could be read.
    unread_ns: u64,
    stat: StatTimes,
    util: CpuUtil,
    facts: CpuFacts,
    times: CpuTimes,
}

/// A CPU's capacity; where the kernel has no such file, all are the biggest.
fn capacity_of(root: &Root, cpu: u32) -> Result<u64, HostError> {
    let path = format!("{CPU}/cpu{cpu}/cpu_capacity");
    match root.number(&path) {
        Some(capacity @ 1..=1024) => Ok(capacity),
        None if !root.has(&path) => Ok(1024),
        _ => Err(HostError::Lacking(format!("{path}: no capacity, which is 1 to 1024"))),
    }
}

/// The senses for a set of CPUs.
pub struct Senses {
    source: Source,
    debug_file: Option<&'static str>,
    cpus: Vec<Sensed>,
    last: Moment,
}

impl Senses {
    /// Opens a source for `cpus`.
    ///
    /// # Errors
    /// If the host does not have it.
    pub fn open(root: &Root, source: Source, cpus: &[u32], now: Moment) -> Result<Self, HostError> {
        let debug_file = scheddebug::find(root);
        if source == Source::SchedDebug && debug_file.is_none() {
            let words = "no readable sched/debug (mount debugfs, be root; CONFIG_SCHED_DEBUG)";
            return Err(HostError::Lacking(words.to_owned()));
        }
        let mut senses = Self { source, debug_file, cpus: Vec::new(), last: now };
        for &cpu in cpus {
            let counters = match source {
                Source::Counters => Some(CpuCounters::open(root, cpu).map_err(|why| {
                    HostError::Lacking(format!("APERF and MPERF of CPU {cpu} cannot be read: {why}"))
                })?),
                _ => None,
            };
            senses.cpus.push(Sensed {
                cpu,
                capacity: capacity_of(root, cpu)?,
                counters,
                before: None,
                is_online: false,
                unread: None,
                unread_ns: 0,
                stat: StatTimes::default(),
                util: CpuUtil::default(),
                facts: CpuFacts::default(),
                times: CpuTimes::default(),
            });
        }
        senses.look(root, now, &|_| Some(Clock::default()));
        if let Some(what) = senses.unread(cpus) {
            return Err(HostError::Lacking(format!("{what} cannot be read")));
        }
        for sensed in &mut senses.cpus {
            sensed.times.idle_us = sensed.stat.idle * (USER_TICK_NS / 1000);
            sensed.times.iowait_us = sensed.stat.iowait * (USER_TICK_NS / 1000);
            sensed.times.nice_ns = sensed.stat.nice * USER_TICK_NS;
        }
        Ok(senses)
    }

    /// Looks at all CPUs; afterwards [`Senses::facts`] and [`Senses::times`] are of now. `clock` gives a CPU's; its
    /// present frequency counts only for the source without counters. A CPU that is offline counts as idle. What was
    /// counted while the machine slept is left out. A CPU that is online and cannot be read stays as it was at the last
    /// look, and [`Senses::unread`] is set; the next reading is of the whole time since.
    pub fn look(&mut self, root: &Root, now: Moment, clock: &dyn Fn(u32) -> Option<Clock>) {
        let awake_ns = now.since(&self.last);
        self.last = now;
        let cpus: Vec<u32> = self.cpus.iter().map(|sensed| sensed.cpu).collect();
        let (stat, no_stat) = read_stat(root, &cpus);
        let signals = match (self.source, self.debug_file) {
            (Source::SchedDebug, Some(file)) => scheddebug::parse(&root.raw(file).unwrap_or_default()),
            _ => Vec::new(),
        };
        for sensed in &mut self.cpus {
            let own = signals.iter().find(|(cpu, _)| *cpu == sensed.cpu);
            let read = sensed.counters.as_mut().and_then(CpuCounters::read);
            let now_clock = clock(sensed.cpu);
            let is_counted = stat.iter().any(|(cpu, _)| *cpu == sensed.cpu);
            sensed.unread = match self.source {
                _ if no_stat.contains(&sensed.cpu) => Some(format!("/proc/stat of CPU {}", sensed.cpu)),
                Source::SchedDebug if is_counted && own.is_none() => {
                    Some(format!("{} of CPU {}", self.debug_file.unwrap_or_default(), sensed.cpu))
                }
                Source::Counters if is_counted && read.is_none() => {
                    Some(format!("APERF and MPERF of CPU {}", sensed.cpu))
                }
                Source::Stat if is_counted && now_clock.is_none() => {
                    Some(format!("scaling_cur_freq of CPU {}", sensed.cpu))
                }
                _ => None,
            };
            if sensed.unread.is_some() {
                sensed.unread_ns = awake_ns.map_or(0, |ns| sensed.unread_ns.saturating_add(ns));
                continue;
            }
            let unread_ns = std::mem::take(&mut sensed.unread_ns);
            let awake_ns = awake_ns.map(|ns| ns.saturating_add(unread_ns));
            let interval_ns = awake_ns.unwrap_or(0);
            let before = std::mem::replace(&mut sensed.is_online, false).then_some(sensed.stat);
            if let Some((_, times)) = stat.iter().find(|(cpu, _)| *cpu == sensed.cpu) {
                sensed.stat = *times;
                sensed.is_online = true;
            }
            let [idle_ns, iowait_ns, nice_ns] = match before.filter(|_| sensed.is_online) {
                // The kernel's sums may go back a little, and begin anew when a CPU comes back.
                Some(before) => [
                    sensed.stat.idle.saturating_sub(before.idle),
                    sensed.stat.iowait.saturating_sub(before.iowait),
                    sensed.stat.nice.saturating_sub(before.nice),
                ]
                .map(|ticks| ticks * USER_TICK_NS),
                None => [interval_ns, 0, 0],
            };
            sensed.times = CpuTimes {
                wall_us: now.time_ns / 1000,
                idle_us: sensed.times.idle_us.saturating_add(idle_ns / 1000),
                iowait_us: sensed.times.iowait_us.saturating_add(iowait_ns / 1000),
                nice_ns: sensed.times.nice_ns.saturating_add(nice_ns),
            };
            let idle_ns = idle_ns + iowait_ns;
            let mut idled = idle_ns > 0;
            let Clock { cur_khz, ref_khz } = now_clock.unwrap_or_default();
            let scale = |khz: u64| (khz * 1024).checked_div(u64::from(ref_khz)).map_or(1024, |scale| scale.min(1024));
            let (util, runnable) = match self.source {
                Source::SchedDebug => {
                    let own = own.map_or_else(Default::default, |(_, signals)| *signals);
                    idled |= own.nr_running == 0;
                    (own.util_avg.max(own.util_est), own.runnable_avg)
                }
                Source::Counters => {
                    if read.is_none() && interval_ns > 0 {
                        sensed.util.add(interval_ns, 0, 0);
                    }
                    if let (Some(now), Some(before), Some(interval_ns)) = (read, sensed.before, awake_ns) {
                        let tsc = now.tsc.wrapping_sub(before.tsc).max(1);
                        let mperf = now.mperf.wrapping_sub(before.mperf).min(tsc);
                        let aperf = now.aperf.wrapping_sub(before.aperf);
                        let busy_ns = (u128::from(interval_ns) * u128::from(mperf) / u128::from(tsc)) as u64;
                        idled |= mperf < tsc;
                        // The base clock is the TSC's.
                        let base_khz = u128::from(tsc) * 1_000_000 / u128::from(interval_ns);
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

    /// What of these CPUs could not be read at the last look, if anything.
    pub fn unread(&self, cpus: &[u32]) -> Option<&str> {
        self.cpus.iter().filter(|sensed| cpus.contains(&sensed.cpu)).find_map(|sensed| sensed.unread.as_deref())
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn put_stat(folder: &std::path::Path, cpus: &[(u32, u64, u64)]) {
        let line = |&(cpu, busy, idle): &(u32, u64, u64)| format!("cpu{cpu} {busy} 0 0 {idle} 0 0 0 0 0 0\n");
        fs::create_dir_all(folder.join("proc")).expect("writable");
        fs::write(folder.join("proc/stat"), cpus.iter().map(line).collect::<String>()).expect("writable");
    }

    /// Goal: a CPU that went offline is idle, not busy, and its sums never go back, so that nobody keeps its policy's clock
    /// up. Method: two CPUs; the second is busy, leaves, and comes back with sums that began anew.
    #[test]
    fn a_cpu_that_is_offline_is_idle() {
        let folder = std::env::temp_dir().join(format!("opplab-sense-{}", std::process::id()));
        put_stat(&folder, &[(0, 0, 0), (1, 0, 500)]);
        let root = Root::open(&folder).expect("a copy");
        let mut now = Moment { time_ns: SECOND_NS, slept_ns: 0 };
        let mut senses = Senses::open(&root, Source::Stat, &[0, 1], now).expect("has /proc/stat");
        let clock = |_| Some(Clock { cur_khz: 1000, ref_khz: 1000 });
        let mut look = |step_ns: u64, slept_ns: u64, cpus: &[(u32, u64, u64)]| {
            put_stat(&folder, cpus);
            now = Moment { time_ns: now.time_ns + step_ns, slept_ns: now.slept_ns + slept_ns };
            senses.look(&root, now, &clock);
            (senses.facts(&[0, 1])[1].util_cfs, senses.times(&[0, 1])[1])
        };
        let (util, busy) = look(SECOND_NS, 0, &[(0, 100, 0), (1, 100, 500)]);
        assert!(util > 1000, "{util}");
        let (util, away) = look(SECOND_NS, 0, &[(0, 200, 0)]);
        assert!(util < 10, "{util}");
        assert_eq!(away.idle_us - busy.idle_us, 1_000_000);
        let (_, back) = look(SECOND_NS, 0, &[(0, 300, 0), (1, 3, 4)]);
        assert!(back.idle_us >= away.idle_us && back.nice_ns >= away.nice_ns);
        let (util, busy) = look(SECOND_NS, 0, &[(0, 400, 0), (1, 103, 4)]);
        assert!(util > 1000 && busy.idle_us == back.idle_us, "{util}");
        // An hour of sleep is no hour of work, and a clock that jumps back no work at all.
        let (util, _) = look(SECOND_NS / 10, 3600 * SECOND_NS, &[(0, 410, 0), (1, 104, 13)]);
        assert!(util > 1000, "{util}");
        fs::remove_dir_all(&folder).expect("ours");
    }
}
