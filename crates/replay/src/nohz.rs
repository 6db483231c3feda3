//! When the averages of sleeping tasks decay: by the balancing of ticks and of idle CPUs, which no event shows.
//!
//! When a balance is due and who makes it is the kernel's arithmetic ([`opplab_kernel::sched::newidle`],
//! [`opplab_kernel::sched::nohz`]); what it moves is in the trace, so that each pass here finds nothing.

use opplab_kernel::profile::{KernelProfile, NohzNextKick};
use opplab_kernel::sched::balance::PassState;
use opplab_kernel::sched::balance_env::IdleType;
use opplab_kernel::sched::domains::SchedDomains;
use opplab_kernel::sched::newidle::{
    BalanceClock, DomainBalance, MIGRATION_COST_NS, NewidleFacts, NewidleHost, Pulled, RqBalance,
    max_load_balance_interval, sched_balance_domains, sched_balance_newidle,
};
use opplab_kernel::sched::nohz::{self, NohzHost};
use opplab_model::machine::Machine;

/// What the machine does on request.
pub(crate) trait Host {
    /// CPU `here` updates the averages of `cpu`; whether a load is left there.
    fn update_blocked(&mut self, here: u32, cpu: u32) -> bool;
    /// Nothing runs on `cpu`.
    fn is_idle(&self, cpu: u32) -> bool;
    /// Runnable tasks of `cpu`.
    fn nr_running(&self, cpu: u32) -> u64;
    /// A fair task is queued on `cpu`, and other classes leave it little.
    fn has_reduced_capacity(&self, cpu: u32, imbalance_pct: u32) -> bool;
    /// What runs on `cpu` does not fit there.
    fn is_misfit(&self, cpu: u32) -> bool;
}

#[derive(Debug)]
struct Cpu {
    balance: RqBalance,
    domains: Vec<DomainBalance>,
}

/// What the kernel keeps of balancing.
#[derive(Debug)]
pub(crate) struct Nohz {
    nohz: nohz::Nohz,
    cpus: Vec<Cpu>,
    /// Some CPU had more than a task (`rd->overloaded`): CPUs look for work before they idle.
    overloaded: bool,
    /// Most of them only state that they do (`NI_RANDOM`).
    profile: KernelProfile,
    hz: u64,
}

/// Passes that find nothing: what tasks do is recorded.
#[derive(Default)]
struct Passes {
    idle: bool,
    /// The number of levels.
    levels: usize,
    /// There was one at the highest level.
    whole: bool,
    /// The CPU's averages are to be updated.
    updates: bool,
}

impl NewidleHost for Passes {
    fn balance(&mut self, level: usize, domain: &mut DomainBalance, _idle: IdleType) -> Pulled {
        let PassState { balance_interval, max_interval, .. } = &mut domain.pass;
        if *balance_interval < *max_interval {
            *balance_interval *= 2;
        }
        self.whole |= level + 1 == self.levels;
        Pulled { ld_moved: 0, continue_balancing: true }
    }
    fn sched_clock(&mut self) -> u64 {
        0
    }
    fn update_blocked_averages(&mut self) {
        self.updates = true;
    }
    fn sched_rng(&mut self) -> u32 {
        u32::MAX
    }
    fn nr_running(&self) -> u32 {
        0
    }
    fn h_nr_queued(&self) -> u32 {
        0
    }
    fn is_sched_idle(&self) -> bool {
        false
    }
    fn is_idle(&self) -> bool {
        self.idle
    }
    fn try_serialize(&mut self) -> bool {
        true
    }
    fn end_serialize(&mut self) {}
}

/// The machine in a jiffy, as the kernel's functions see it.
struct At<'a, H> {
    state: &'a mut Nohz,
    host: &'a mut H,
    jiffies: u64,
}

impl<H: Host> NohzHost for At<'_, H> {
    fn nohz(&self) -> &nohz::Nohz {
        &self.state.nohz
    }
    fn nohz_mut(&mut self) -> &mut nohz::Nohz {
        &mut self.state.nohz
    }
    fn jiffies(&self) -> u64 {
        self.jiffies
    }
    fn rq_balance(&self, cpu: usize) -> &RqBalance {
        &self.state.cpus[cpu].balance
    }
    fn is_idle(&self, cpu: usize) -> bool {
        self.host.is_idle(cpu as u32)
    }
    // What a governor's kthread makes of a call is recorded.
    fn need_resched(&self, _cpu: usize) -> bool {
        false
    }
    fn nr_running(&self, cpu: usize) -> u32 {
        self.host.nr_running(cpu as u32) as u32
    }
    fn has_reduced_capacity(&self, cpu: usize, imbalance_pct: u32) -> bool {
        self.host.has_reduced_capacity(cpu as u32, imbalance_pct)
    }
    fn has_misfit(&self, cpu: usize) -> bool {
        self.host.is_misfit(cpu as u32)
    }
    // The signals are brought up to date when they are read.
    fn update_rq_clock(&mut self, _cpu: usize) {}
    fn update_averages(&mut self, this_cpu: usize, cpu: usize) -> bool {
        self.host.update_blocked(this_cpu as u32, cpu as u32)
    }
    fn balance_domains(&mut self, _this_cpu: usize, cpu: usize, idle: bool) {
        let clock = self.clock();
        let Cpu { balance, domains } = &mut self.state.cpus[cpu];
        let mut passes = Passes { idle, levels: domains.len(), ..Passes::default() };
        let why = if idle { IdleType::Idle } else { IdleType::NotIdle };
        sched_balance_domains(&mut passes, balance, domains, why, &clock, MIGRATION_COST_NS);
        self.passed(&passes);
    }
}

impl<H: Host> At<'_, H> {
    fn clock(&self) -> BalanceClock {
        let hz = self.state.hz;
        let max_interval = max_load_balance_interval(hz, self.state.cpus.len() as u64);
        BalanceClock { hz, jiffies: self.jiffies, max_interval, thresholds: self.state.profile.balance_thresholds }
    }

    /// A pass over all CPUs saw whether one has more than a task (fair.c:update_sd_lb_stats()).
    fn passed(&mut self, passes: &Passes) {
        if passes.whole {
            self.state.overloaded = (0..self.state.cpus.len() as u32).any(|cpu| self.host.nr_running(cpu) >= 2);
        }
    }
}

impl Nohz {
    /// Of a machine that ran for long under such a kernel.
    pub(crate) fn new(machine: &Machine, hz: u64, profile: &KernelProfile) -> Self {
        let domains = opplab_sim::sched_domains(machine, profile);
        let cpu = |cpu: usize| {
            let levels = (0..domains.n_levels(cpu)).filter_map(|level| domains.domain(cpu, level));
            let balance = |domain| {
                let mut state = SchedDomains::initial_balance(domain, 0, profile.balance_thresholds);
                state.pass.balance_interval = state.pass.max_interval;
                state
            };
            let rq = RqBalance {
                avg_idle: 2 * MIGRATION_COST_NS,
                max_idle_balance_cost: MIGRATION_COST_NS,
                ..RqBalance::default()
            };
            Cpu { balance: rq, domains: levels.map(balance).collect() }
        };
        Self {
            nohz: nohz::Nohz::new(&domains, hz, 0, profile.nohz_next_kick == NohzNextKick::Recomputed),
            cpus: (0..machine.nr_cpus()).map(cpu).collect(),
            overloaded: false,
            profile: *profile,
            hz,
        }
    }

    fn at<'a, H: Host>(&'a mut self, host: &'a mut H, jiffies: u64) -> At<'a, H> {
        At { state: self, host, jiffies }
    }

    /// A task joined the queue of `cpu` (sched.h:add_nr_running()).
    pub(crate) fn joined<H: Host>(&mut self, host: &H, cpu: u32) {
        self.overloaded |= host.nr_running(cpu) >= 2;
    }

    /// A CPU stops its tick.
    pub(crate) fn enter_idle(&mut self, cpu: u32) {
        self.nohz.nohz_balance_enter_idle(cpu as usize);
    }

    /// A task wakes up on `cpu`, whose clock shows `clock_ns`.
    pub(crate) fn wakes(&mut self, cpu: u32, clock_ns: u64) {
        let balance = &mut self.cpus[cpu as usize].balance;
        if balance.idle_stamp != 0 {
            balance.update_avg_idle(clock_ns.saturating_sub(balance.idle_stamp));
        }
    }

    /// A CPU finds nothing more to run: it looks for work, then its idle task starts.
    pub(crate) fn new_idle<H: Host>(&mut self, host: &mut H, cpu: u32, clock_ns: u64, jiffies: u64) {
        let facts = NewidleFacts {
            ttwu_pending: false,
            cpu_active: true,
            rd_overloaded: self.overloaded,
            rq_clock: clock_ns,
            least: self.profile.newidle_least,
            skip: self.profile.newidle_skip,
        };
        let mut at = self.at(host, jiffies);
        let (clock, cpu) = (at.clock(), cpu as usize);
        let Cpu { balance, domains } = &mut at.state.cpus[cpu];
        let mut passes = Passes { idle: true, levels: domains.len(), ..Passes::default() };
        sched_balance_newidle(&mut passes, balance, domains, &facts, &clock);
        if passes.updates {
            nohz::sched_balance_update_blocked_averages(&mut at, cpu, cpu);
        }
        at.passed(&passes);
        nohz::nohz_newidle_balance(&mut at, cpu);
        nohz::nohz_run_idle_balance(&mut at, cpu);
    }

    /// The tick of a CPU; whom it asks to balance is interrupted at once.
    pub(crate) fn tick<H: Host>(&mut self, host: &mut H, cpu: u32, jiffies: u64) {
        let mut at = self.at(host, jiffies);
        if let Some(ilb) = nohz::sched_balance_trigger(&mut at, cpu as usize) {
            nohz::nohz_idle_balance(&mut at, ilb);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four CPUs that share a cache: who runs how many, and what was updated, by whom.
    #[derive(Default)]
    struct Log {
        running: [u64; 4],
        updated: Vec<(u32, u32)>,
    }

    impl Host for Log {
        fn update_blocked(&mut self, here: u32, cpu: u32) -> bool {
            self.updated.push((here, cpu));
            true
        }
        fn is_idle(&self, cpu: u32) -> bool {
            self.running[cpu as usize] == 0
        }
        fn nr_running(&self, cpu: u32) -> u64 {
            self.running[cpu as usize]
        }
        fn has_reduced_capacity(&self, _cpu: u32, _imbalance_pct: u32) -> bool {
            false
        }
        fn is_misfit(&self, _cpu: u32) -> bool {
            false
        }
    }

    fn nohz() -> Nohz {
        let text = r#"format = 1
name = "m"
[[driver]]
name = "scmi"
transition_latency_us = 100
fast_switch = true
[[cluster]]
name = "c"
cpus = "0-3"
capacity = 1024
opp = [{ khz = 1000000, mw = 10 }]
idle = [{ name = "WFI", exit_latency_us = 1, target_residency_us = 1 }]
"#;
        let machine = opplab_model::file::parse_machine("m.toml", text).unwrap_or_else(|error| panic!("{error}"));
        let mut nohz = Nohz::new(&machine, 250, &KernelProfile::of((6, 12), 117));
        // The CPUs' own balances are not due.
        nohz.cpus.iter_mut().for_each(|cpu| cpu.balance.next_balance = 1_000);
        nohz
    }

    /// Goal: a CPU that goes idle lets the others decay, if it expects to idle for long.
    #[test]
    fn a_cpu_that_goes_idle_updates_the_others() {
        let (mut nohz, mut log) = (nohz(), Log { running: [0, 0, 1, 0], ..Log::default() });
        nohz.enter_idle(1);
        nohz.new_idle(&mut log, 0, 4_000_000, 1);
        assert_eq!(std::mem::take(&mut log.updated), [(0, 1)]);
        (0..20).for_each(|n| {
            nohz.new_idle(&mut log, 0, 40_000_000 + n * 100_000, 2);
            nohz.wakes(0, 40_000_000 + n * 100_000 + 50_000);
        });
        nohz.new_idle(&mut log, 0, 80_000_000, 20);
        assert_eq!(log.updated, []);
    }

    /// Goal: before they idle, CPUs look for work if some CPU had more than one task, and a tick balances when it is due.
    #[test]
    fn balances_update_the_cpu_that_makes_them() {
        let (mut nohz, mut log) = (nohz(), Log { running: [0, 0, 2, 0], ..Log::default() });
        nohz.new_idle(&mut log, 0, 4_000_000, 1);
        assert_eq!(log.updated, []);
        nohz.joined(&log, 2);
        nohz.new_idle(&mut log, 0, 4_000_000, 1);
        assert_eq!(std::mem::take(&mut log.updated), [(0, 0)]);
        nohz.cpus[3].balance.next_balance = 5;
        nohz.tick(&mut log, 3, 5);
        assert_eq!(log.updated, [(3, 3)]);
        // Twice the weight of the domain, 8 ms.
        assert_eq!(nohz.cpus[3].balance.next_balance, 7);
    }

    /// Goal: a busy CPU's tick has the first idle CPU do it.
    #[test]
    fn a_busy_tick_has_an_idle_cpu_update() {
        let (mut nohz, mut log) = (nohz(), Log { running: [0, 0, 1, 0], ..Log::default() });
        [1, 3].into_iter().for_each(|cpu| nohz.enter_idle(cpu));
        nohz.tick(&mut log, 2, 1);
        assert_eq!(log.updated, [(1, 3), (1, 1)]);
    }
}
