//! Demand-based switching: the load sampling that ondemand and conservative share
//! (drivers/cpufreq/cpufreq_governor.c, v6.12).
//!
//! From time to time a policy compares, for each of its CPUs, how much time passed and how much of it was idle. The
//! load is the busiest CPU's share in percent. It is *not* frequency invariant: 50% at half the frequency is the same
//! as 50% at full speed.
//!
//! ```text
//!   scheduler ── update_util ──► (sample_delay passed?) ──► work ──► dbs_update: load ──► governor ──► request
//!                                     ^                                                       │
//!                                     └──────────────── next delay ───────────────────────────┘
//! ```
//!
//! Not here: where the idle and nice times come from, the work queue's latency, and the decisions.

use super::freq_table::{FreqLimits, FreqTable, Relation};
use super::governor::{Governor, GovernorEntry, GovernorError, GovernorSetup, Report, Tunable, TunableKind, View};
use super::request::FreqRequest;
use crate::cpufreq::facts::Request;
use crate::cpufreq::facts::SugovDecision;
use crate::cpufreq::facts::{CpuTimes, SampleNote};
use crate::unit::NSEC_PER_USEC;

/// When it samples.
pub(super) const SAMPLING_RATE: Tunable = Tunable::new(
    "sampling_rate",
    TunableKind::Number { min: 0, max: u32::MAX },
    "two ticks, or the driver's transition delay if that is longer; without one, the kernel's (gate rate_limit)",
    "time between samples, us; at least two ticks",
);
/// What counts as busy.
pub(super) const IGNORE_NICE_LOAD: Tunable =
    Tunable::new("ignore_nice_load", TunableKind::Switch, "0", "count niced tasks as idle time");

/// What a demand-based governor sees of its policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DbsPolicy<'a> {
    /// Present frequency, kHz.
    pub cur_khz: u32,
    /// The policy's limits.
    pub limits: FreqLimits,
    /// The hardware's limits.
    pub cpuinfo: FreqLimits,
    /// The frequency table, if the driver has one.
    pub table: Option<&'a FreqTable>,
}

/// Tunables that both governors have (`struct dbs_data`), by their sysfs names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DbsTunables {
    /// Time between samples, us; at least two ticks (`CPUFREQ_DBS_MIN_SAMPLING_INTERVAL`).
    pub sampling_rate: u32,
    /// Load in percent above which the frequency is raised.
    pub up_threshold: u32,
    /// ondemand: at the highest frequency, sample so many times less often. conservative: go down only at every so
    /// many-th sample.
    pub sampling_down_factor: u32,
    /// Count niced tasks as idle time.
    pub ignore_nice_load: bool,
    /// Count I/O wait as busy; whoever fills [`CpuTimes::idle_us`] has to obey.
    pub io_is_busy: bool,
}

impl DbsTunables {
    /// Sets the tunable of this sysfs name to a value that its entry takes.
    pub(super) fn store(&mut self, name: &str, value: u32) {
        match name {
            "sampling_rate" => self.sampling_rate = value,
            "up_threshold" => self.up_threshold = value,
            "sampling_down_factor" => self.sampling_down_factor = value,
            "ignore_nice_load" => self.ignore_nice_load = value != 0,
            _ => self.io_is_busy = value != 0,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct CpuDbs {
    prev: CpuTimes,
    prev_load: u32,
}

/// The sampling state of one policy (`struct policy_dbs_info` and each CPU's `struct cpu_dbs_info`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PolicyDbs {
    cpus: Vec<CpuDbs>,
    /// Factor on the sampling rate; above 1 only while ondemand stays at the highest frequency.
    pub rate_mult: u32,
    /// The fewest whole sampling periods that a CPU was idle for, of those idle for more than two; `None` if none was.
    pub idle_periods: Option<u32>,
    /// What the last sample was decided by.
    pub note: SampleNote,
    /// The highest load of this sample in percent, without the loads that were carried over a long idle time.
    pub max_sample_load: u32,
    /// Time to the next sample, ns.
    pub sample_delay_ns: i64,
    last_sample_time_ns: u64,
    work_in_progress: bool,
}

impl PolicyDbs {
    /// Takes up work (cpufreq_governor.c:cpufreq_dbs_governor_start(), v6.12): one `times` a CPU.
    pub fn start(times: &[CpuTimes], sampling_rate_us: u32) -> Self {
        let mut policy = Self {
            cpus: times.iter().map(|&prev| CpuDbs { prev, prev_load: 0 }).collect(),
            rate_mult: 1,
            ..Self::default()
        };
        policy.set_sample_delay(sampling_rate_us);
        policy
    }

    /// The load that CPU `index` of the policy was last found to have, percent; 0 once it was carried over.
    pub fn prev_load(&self, index: usize) -> u32 {
        self.cpus.get(index).map_or(0, |cpu| cpu.prev_load)
    }

    /// Schedules the next sample (cpufreq_governor.c:gov_update_sample_delay(), v6.12).
    pub fn set_sample_delay(&mut self, delay_us: u32) {
        self.sample_delay_ns = i64::from(delay_us) * NSEC_PER_USEC as i64;
    }

    /// Tunables were `before` and are `now`: what follows at once (cpufreq_governor.c:sampling_rate_store(),
    /// gov_update_cpu_data(), v6.12).
    pub fn retune(&mut self, before: &DbsTunables, now: &DbsTunables, times: &[CpuTimes]) {
        if before.sampling_rate != now.sampling_rate {
            self.set_sample_delay(0);
        }
        if (before.ignore_nice_load, before.io_is_busy) != (now.ignore_nice_load, now.io_is_busy) {
            for (cpu, &times) in self.cpus.iter_mut().zip(times) {
                let nice_ns = if now.ignore_nice_load { times.nice_ns } else { cpu.prev.nice_ns };
                cpu.prev = CpuTimes { nice_ns, ..times };
            }
        }
    }

    /// The scheduler reports: is it time for a sample? If so, whoever asked runs the governor in process context (after
    /// the work queue's latency) and calls [`Self::sampled`].
    ///
    /// cpufreq_governor.c:dbs_update_util_handler(), v6.12; the caller has checked `cpufreq_this_cpu_can_update()`.
    pub fn update_util(&mut self, time_ns: u64) -> bool {
        let since_ns = time_ns.wrapping_sub(self.last_sample_time_ns) as i64;
        if self.work_in_progress || since_ns < self.sample_delay_ns {
            return false;
        }
        self.last_sample_time_ns = time_ns;
        self.work_in_progress = true;
        true
    }

    /// From when on a sample is due, by the clock of [`Self::update_util`].
    pub fn due_ns(&self) -> u64 {
        self.last_sample_time_ns.wrapping_add_signed(self.sample_delay_ns)
    }

    /// Ends a sample (cpufreq_governor.c:dbs_work_handler(), v6.12) with the delay that the governor returned.
    pub fn sampled(&mut self, delay_us: u32) {
        self.set_sample_delay(delay_us);
        self.work_in_progress = false;
    }

    /// Takes a sample and returns the policy's load in percent (cpufreq_governor.c:dbs_update(), v6.12).
    ///
    /// Times are `unsigned int` us: elapsed times beyond 2^32 us wrap, and 100 times a busy time beyond 42.9 s does.
    /// CPUs without an entry in `times` keep their state and do not count.
    pub fn update(&mut self, tunables: &DbsTunables, times: &[CpuTimes]) -> u32 {
        let sampling_rate = tunables.sampling_rate.wrapping_mul(self.rate_mult);
        let long_idle = sampling_rate.wrapping_mul(2);
        let mut max_load = 0;
        self.max_sample_load = 0;
        self.idle_periods = None;
        for (cpu, now) in self.cpus.iter_mut().zip(times) {
            let elapsed = now.wall_us.wrapping_sub(cpu.prev.wall_us) as u32;
            // A jiffies-based idle time may go back a little; that counts as no idle time.
            let [idle_us, prev_us] = [now, &cpu.prev].map(|times| times.idle_us(tunables.io_is_busy));
            let mut idle = if idle_us > prev_us { (idle_us - prev_us) as u32 } else { 0 };
            let mut nice_ns = cpu.prev.nice_ns;
            if tunables.ignore_nice_load {
                idle = idle.wrapping_add((now.nice_ns.wrapping_sub(nice_ns) / NSEC_PER_USEC) as u32);
                nice_ns = now.nice_ns;
            }
            cpu.prev = CpuTimes { nice_ns, ..*now };

            let sample_load = if elapsed == 0 {
                cpu.prev_load
            } else if elapsed > idle {
                (elapsed - idle).wrapping_mul(100) / elapsed
            } else {
                0
            };
            let load = if elapsed != 0 && idle > long_idle && cpu.prev_load != 0 {
                // Just woken up after a long idle time: carry the load from before over, once.
                std::mem::take(&mut cpu.prev_load)
            } else {
                cpu.prev_load = sample_load;
                sample_load
            };
            if idle > long_idle {
                // A rate that wrapped to 0 makes the kernel trap; here it has no effect.
                let periods = idle.checked_div(sampling_rate).unwrap_or(u32::MAX);
                self.idle_periods = Some(self.idle_periods.unwrap_or(u32::MAX).min(periods)).filter(|&p| p != u32::MAX);
            }
            max_load = max_load.max(load);
            self.max_sample_load = self.max_sample_load.max(sample_load);
        }
        max_load
    }
}

/// What differs between governors that sample (`struct dbs_governor`).
pub trait SamplingGovernor: core::fmt::Debug + Send {
    /// Takes up work with each CPU's cumulative times and the tunables as they are (`->start()`).
    fn restart(&mut self, cur_khz: u32, times: &[CpuTimes]);
    /// Takes a sample: the request, and the time to the next sample in us, for [`PolicyDbs::sampled`] (`->gov_dbs_update()`).
    fn update(&mut self, policy: &DbsPolicy<'_>, times: &[CpuTimes]) -> (Option<FreqRequest>, u32);
    /// The limits changed: what to ask for at once; the next scheduler report takes a sample
    /// (cpufreq_governor.c:cpufreq_dbs_governor_limits(), v6.12).
    fn limits(&mut self, policy: &DbsPolicy<'_>) -> Option<FreqRequest> {
        self.policy_dbs_mut().set_sample_delay(0);
        FreqRequest::apply_limits(policy.cur_khz, policy.limits)
    }
    /// The driver has set `cur_khz`.
    fn limits_applied(&mut self, cur_khz: u32) {
        let _ = cur_khz;
    }
    /// Takes the tunables of `fresh`, which somebody wrote, with what each of them does at once; `times` are those of now.
    fn retune(&mut self, fresh: &Self, times: &[CpuTimes]);
    /// Sets the tunable of this sysfs name to a value that its entry takes; false if the other tunables rule it out.
    fn store(&mut self, name: &str, value: u32) -> bool;
    /// The sampling state.
    fn policy_dbs(&self) -> &PolicyDbs;
    /// The sampling state.
    fn policy_dbs_mut(&mut self) -> &mut PolicyDbs;
}

/// A governor that samples, of one policy: the steps that cpufreq_governor.c calls through `struct dbs_governor`.
#[derive(Debug)]
pub struct Sampling<G> {
    entry: &'static GovernorEntry,
    governor: G,
    cpuinfo: FreqLimits,
    limits: FreqLimits,
    table: Option<FreqTable>,
    times: Vec<CpuTimes>,
    /// It has times to compare with.
    started: bool,
    wanted_khz: u32,
    relation: Relation,
}

impl<G: SamplingGovernor + 'static> Sampling<G> {
    /// Makes one of `governor`, which is given the times between samples in us and zero times, and its tunables.
    ///
    /// # Errors
    /// [`GovernorError::BadValue`] if the governor refuses the value of a tunable, with what it has been set to before.
    pub fn start(
        entry: &'static GovernorEntry,
        setup: &GovernorSetup,
        governor: impl FnOnce(u32, &[CpuTimes]) -> G,
    ) -> Result<Box<dyn Governor>, GovernorError> {
        // cpufreq_governor.c:cpufreq_dbs_governor_init(), v6.12; before v4.12 max(10 ms, 1000 * transition latency).
        let least_us = (2 * setup.tick_ns / NSEC_PER_USEC) as u32;
        let times = vec![CpuTimes::default(); setup.n_cpus];
        let mut governor = governor(least_us.max(setup.rate_limit_us()), &times);
        for (name, value) in &setup.tunables {
            let number = entry.check_tunable(&setup.profile, name, value)?;
            // EINVAL, so that the default stays (cpufreq_governor.c:sampling_rate_store(), v6.12).
            if name == "sampling_rate" && number < least_us {
                continue;
            }
            if !governor.store(name, number) {
                let why = "none that the other tunables rule out".into();
                return Err(GovernorError::BadValue {
                    governor: entry.name,
                    name: name.clone(),
                    value: value.clone(),
                    why,
                });
            }
        }
        Ok(Box::new(Self {
            entry,
            governor,
            cpuinfo: setup.cpuinfo,
            limits: setup.limits,
            table: setup.table.clone(),
            times,
            started: false,
            wanted_khz: 0,
            relation: Relation::L,
        }))
    }

    fn look(&mut self, view: &dyn View) {
        for (index, times) in self.times.iter_mut().enumerate() {
            *times = view.times(index);
        }
    }
}

impl<G: SamplingGovernor + 'static> Governor for Sampling<G> {
    fn entry(&self) -> &'static GovernorEntry {
        self.entry
    }

    /// cpufreq_governor.c:cpufreq_dbs_governor_start(), v6.12.
    fn start(&mut self, cur_khz: u32, view: &dyn View) {
        self.look(view);
        self.governor.restart(cur_khz, &self.times);
        self.started = true;
    }

    /// cpufreq_governor.c:dbs_update_util_handler(), v6.12.
    fn update_util(&mut self, report: &Report, _: &dyn View, _: Option<&mut Option<SugovDecision>>) -> Option<Request> {
        let due = report.policy.can_update && self.governor.policy_dbs_mut().update_util(report.time_ns);
        due.then_some(Request::QueueWork)
    }

    /// Takes the sample that is due and schedules the next one (cpufreq_governor.c:dbs_work_handler(), v6.12).
    fn work(&mut self, cur_khz: u32, view: &dyn View) -> Option<u32> {
        if !self.started {
            self.start(cur_khz, view);
            return None;
        }
        self.look(view);
        let policy = DbsPolicy { cur_khz, limits: self.limits, cpuinfo: self.cpuinfo, table: self.table.as_ref() };
        let (request, delay_us) = self.governor.update(&policy, &self.times);
        self.governor.policy_dbs_mut().sampled(delay_us);
        let request = request?;
        let khz = request.resolve(self.table.as_ref(), self.limits);
        (self.wanted_khz, self.relation) = (khz, request.relation);
        (khz != cur_khz).then_some(khz)
    }

    /// What is asked for is taken as carried out (cpufreq_governor.c:cpufreq_dbs_governor_limits(), v6.12).
    fn limits(&mut self, limits: FreqLimits, cur_khz: u32) -> Option<u32> {
        self.limits = limits;
        let policy = DbsPolicy { cur_khz, limits, cpuinfo: self.cpuinfo, table: self.table.as_ref() };
        let request = self.governor.limits(&policy);
        let khz = request.map(|request| request.resolve(self.table.as_ref(), limits));
        self.governor.limits_applied(khz.unwrap_or(cur_khz));
        self.wanted_khz = khz.unwrap_or(self.wanted_khz);
        self.relation = request.map_or(self.relation, |request| request.relation);
        khz
    }

    fn retune(&mut self, fresh: &dyn Governor, view: &dyn View) -> Option<u32> {
        let fresh: &Self = (fresh as &dyn core::any::Any).downcast_ref()?;
        self.look(view);
        self.governor.retune(&fresh.governor, &self.times);
        None
    }

    fn set_cpuinfo(&mut self, cpuinfo: FreqLimits) {
        self.cpuinfo = cpuinfo;
    }

    /// Steps continue from the frequency that the driver has.
    fn follow(&mut self, cur_khz: u32) {
        self.governor.limits_applied(cur_khz);
        self.wanted_khz = cur_khz;
    }

    fn wanted_khz(&self) -> u32 {
        self.wanted_khz
    }

    fn relation(&self) -> Relation {
        self.relation
    }

    fn sample(&self) -> Option<SampleNote> {
        // A threshold is at least 1: without one no sample was taken yet.
        Some(self.governor.policy_dbs().note).filter(|note| note.threshold > 0)
    }

    fn next_change_ns(&self, _: u32) -> u64 {
        self.governor.policy_dbs().due_ns()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TUNABLES: DbsTunables = DbsTunables {
        sampling_rate: 10_000,
        up_threshold: 95,
        sampling_down_factor: 1,
        ignore_nice_load: false,
        io_is_busy: false,
    };

    fn at(wall_us: u64, idle_us: u64) -> [CpuTimes; 1] {
        [CpuTimes { wall_us, idle_us, ..CpuTimes::default() }]
    }

    /// A long idle time carries the last load over once, then counts.
    #[test]
    fn load_survives_one_long_idle_time() {
        let mut policy = PolicyDbs::start(&at(0, 0), 10_000);
        let mut check = |times: [CpuTimes; 1], load, sample_load, periods| {
            assert_eq!(policy.update(&TUNABLES, &times), load);
            assert_eq!((policy.max_sample_load, policy.idle_periods), (sample_load, periods));
        };
        check(at(10_000, 2_000), 80, 80, None);
        check(at(110_000, 97_000), 80, 5, Some(9));
        check(at(210_000, 195_000), 2, 2, Some(9));
        check(at(210_000, 195_000), 2, 2, None);
    }

    /// Samples are due when the delay has passed, and not while one is being taken.
    #[test]
    fn one_sample_at_a_time() {
        let mut policy = PolicyDbs::start(&at(0, 0), 10_000);
        assert!(!policy.update_util(9_999_999));
        assert!(policy.update_util(10_000_000));
        assert!(!policy.update_util(30_000_000));
        policy.sampled(20_000);
        assert_eq!(policy.due_ns(), 30_000_000);
        assert!(!policy.update_util(29_999_999));
        assert!(policy.update_util(30_000_000));
    }

    /// A written rate takes a sample at once, another idea of busy compares from now on, and the rest goes on.
    #[test]
    fn written_tunables_do_at_once_what_the_kernel_does() {
        let mut policy = PolicyDbs::start(&at(0, 0), 10_000);
        let now = at(5_000, 1_000);
        policy.retune(&TUNABLES, &DbsTunables { up_threshold: 50, ..TUNABLES }, &now);
        assert_eq!((policy.due_ns(), policy.cpus[0].prev), (10_000_000, at(0, 0)[0]));
        policy.retune(&TUNABLES, &DbsTunables { sampling_rate: 40_000, ..TUNABLES }, &now);
        assert_eq!((policy.due_ns(), policy.cpus[0].prev), (0, at(0, 0)[0]));
        policy.retune(&TUNABLES, &DbsTunables { io_is_busy: true, ..TUNABLES }, &now);
        assert_eq!(policy.cpus[0].prev, now[0]);
    }

    /// Every tunable of a governor that samples changes one of its settings.
    #[test]
    fn every_tunable_is_stored() {
        use crate::cpufreq::{conservative::*, ondemand::*};
        fn changes<G: SamplingGovernor>(entry: &GovernorEntry, new: impl Fn() -> G) {
            for tunable in entry.tunables {
                let mut governor = new();
                assert!(governor.store(tunable.name, 33), "{}", tunable.name);
                assert_ne!(format!("{governor:?}"), format!("{:?}", new()), "{}", tunable.name);
            }
        }
        changes(&crate::cpufreq::ondemand::GOVERNOR, || Ondemand::start(OndemandTunables::new(8_000, false), &[]));
        let conservative = || Conservative::start(ConservativeTunables::new(8_000), 1_500_000, &[]);
        changes(&crate::cpufreq::conservative::GOVERNOR, conservative);
    }

    proptest! {
        /// No times panic; loads are percentages unless 100 times the busy time wraps, idle time never raises a load.
        #[test]
        fn any_times(
            rate in any::<u32>(), mult in any::<u32>(), nice: bool,
            samples in proptest::collection::vec(proptest::array::uniform2(any::<(u64, u64, u64)>()), 0..20),
        ) {
            let tunables = DbsTunables { sampling_rate: rate, ignore_nice_load: nice, ..TUNABLES };
            let mut policy = PolicyDbs::start(&[CpuTimes::default(); 2], rate);
            policy.rate_mult = mult;
            for sample in samples {
                let times = sample.map(|(wall_us, idle_us, nice_ns)| CpuTimes { wall_us, idle_us, iowait_us: 0, nice_ns });
                policy.update(&tunables, &times);
                policy.update_util(times[0].nice_ns);
                policy.sampled(rate);
            }
        }

        #[test]
        fn idle_lowers_load(elapsed in 1..40_000_000u64, idle in 0..40_000_000u64, more in 0..40_000_000u64) {
            let load = |idle| PolicyDbs::start(&at(0, 0), 10_000).update(&TUNABLES, &at(elapsed, idle));
            prop_assert!(load(idle) <= 100);
            prop_assert!(load(idle + more) <= load(idle));
        }
    }
}
