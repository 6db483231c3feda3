//! When the averages of sleeping tasks decay: by the balancing of ticks and of idle CPUs, which no event shows.
//!
//! ```text
//!  tick of a CPU          its own, if a balance is due                          fair.c:sched_balance_softirq()
//!  tick of a busy CPU     those of CPUs without a tick, by the first of them    fair.c:nohz_balancer_kick(), _nohz_idle_balance()
//!  a CPU goes idle        the same, by itself                                   fair.c:nohz_newidle_balance()
//! ```
//! When a balance is due is the kernel's arithmetic ([`opplab_kernel::sched::newidle`]); what it moves is in the trace.

use opplab_kernel::sched::balance::{IdleType, PassState};
use opplab_kernel::sched::domains::{SD_ASYM_CPUCAPACITY, SD_SHARE_LLC, SchedDomains};
use opplab_kernel::sched::newidle::{
    BalanceClock, DomainBalance, NewidleFacts, NewidleHost, Pulled, RqBalance, max_load_balance_interval,
    msecs_to_jiffies, sched_balance_domains, sched_balance_newidle,
};
use opplab_model::machine::Machine;

/// What the machine does when it is told to.
pub(crate) trait Host {
    /// CPU `here` updates the averages of `cpu`; whether a load is left there.
    fn update_blocked(&mut self, here: u32, cpu: u32) -> bool;
    /// Nothing runs on `cpu`.
    fn is_idle(&self, cpu: u32) -> bool;
    /// Runnable tasks of `cpu`.
    fn nr_running(&self, cpu: u32) -> u64;
    /// What runs on `cpu` does not fit there.
    fn is_misfit(&self, cpu: u32) -> bool;
}

/// `LOAD_AVG_PERIOD`, ms: the time between two updates of idle CPUs.
const LOAD_AVG_PERIOD: u32 = 32;
/// `sysctl_sched_migration_cost`, ns: a CPU that expects to idle for less leaves the updates to others.
const MIGRATION_COST_NS: u64 = 500_000;

#[derive(Debug)]
struct Cpu {
    /// Its tick is stopped (`rq->nohz_tick_stopped`): it is one of `nohz.idle_cpus_mask`.
    tickless: bool,
    has_blocked: bool,
    updated_jiffies: u64,
    balance: RqBalance,
    domains: Vec<DomainBalance>,
    /// The last-level cache that it shares, as its lowest CPU.
    llc: Option<u32>,
    asymmetric: bool,
}

/// The kernel's `nohz` and what each run queue has of it.
#[derive(Debug)]
pub(crate) struct Nohz {
    cpus: Vec<Cpu>,
    has_blocked: bool,
    next_blocked: u64,
    next_balance: u64,
    /// A CPU stopped its tick since `next_balance` was computed.
    needs_update: bool,
    next_kick: bool,
    /// Some CPU had more than a task (`rd->overloaded`): CPUs look for work before they idle.
    overloaded: bool,
    /// Most of them only say that they do (`NI_RANDOM`).
    newidle_random: bool,
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

impl Nohz {
    /// Of a machine that ran for long under a kernel of this version, which looks anew when a CPU stops its tick since v5.15.
    pub(crate) fn new(machine: &Machine, hz: u64, version: (u16, u16)) -> Self {
        let domains = opplab_sim::sched_domains(machine);
        let cpu = |cpu: usize| {
            let levels = || (0..domains.n_levels(cpu)).filter_map(|level| domains.domain(cpu, level));
            let balance = |domain| {
                let mut state = SchedDomains::initial_balance(domain, 0);
                state.pass.balance_interval = state.pass.max_interval;
                state
            };
            let llc = levels().rfind(|domain| domain.flags & SD_SHARE_LLC != 0);
            Cpu {
                tickless: false,
                has_blocked: false,
                updated_jiffies: 0,
                balance: RqBalance {
                    avg_idle: 2 * MIGRATION_COST_NS,
                    max_idle_balance_cost: MIGRATION_COST_NS,
                    ..RqBalance::default()
                },
                domains: levels().map(balance).collect(),
                llc: llc.and_then(|domain| domain.span.as_set().first()).map(|first| first as u32),
                asymmetric: levels().any(|domain| domain.flags & SD_ASYM_CPUCAPACITY != 0),
            }
        };
        let cpus = (0..machine.nr_cpus()).map(cpu).collect();
        Self {
            cpus,
            has_blocked: false,
            next_blocked: 0,
            next_balance: 0,
            needs_update: false,
            next_kick: version >= (5, 15),
            overloaded: false,
            newidle_random: version >= (6, 12),
            hz,
        }
    }

    fn clock(&self, jiffies: u64) -> BalanceClock {
        BalanceClock { hz: self.hz, jiffies, max_interval: max_load_balance_interval(self.hz, self.cpus.len() as u64) }
    }

    fn balance<H: Host>(&mut self, host: &H, cpu: u32, idle: bool, jiffies: u64) {
        let clock = self.clock(jiffies);
        let Cpu { balance, domains, .. } = &mut self.cpus[cpu as usize];
        let mut passes = Passes { idle, levels: domains.len(), ..Passes::default() };
        let why = if idle { IdleType::Idle } else { IdleType::NotIdle };
        sched_balance_domains(&mut passes, balance, domains, why, &clock, MIGRATION_COST_NS);
        self.passed(host, &passes);
    }

    /// A pass over all CPUs saw whether one has more than a task (fair.c:update_sd_lb_stats()).
    fn passed<H: Host>(&mut self, host: &H, passes: &Passes) {
        if passes.whole {
            self.overloaded = (0..self.cpus.len() as u32).any(|cpu| host.nr_running(cpu) >= 2);
        }
    }

    /// A task joined the queue of `cpu` (sched.h:add_nr_running()).
    pub(crate) fn joined<H: Host>(&mut self, host: &H, cpu: u32) {
        self.overloaded |= host.nr_running(cpu) >= 2;
    }

    fn update<H: Host>(&mut self, host: &mut H, here: u32, cpu: u32, jiffies: u64) {
        let left = host.update_blocked(here, cpu);
        let state = &mut self.cpus[cpu as usize];
        state.updated_jiffies = jiffies;
        state.has_blocked &= left;
    }

    /// A CPU stops its tick (fair.c:nohz_balance_enter_idle()).
    pub(crate) fn enter_idle(&mut self, cpu: u32) {
        let state = &mut self.cpus[cpu as usize];
        state.has_blocked = true;
        self.needs_update |= !std::mem::replace(&mut state.tickless, true);
        self.has_blocked = true;
    }

    /// A task wakes up on `cpu`, whose clock shows `clock_ns`.
    pub(crate) fn wakes(&mut self, cpu: u32, clock_ns: u64) {
        let balance = &mut self.cpus[cpu as usize].balance;
        if balance.idle_stamp != 0 {
            balance.update_avg_idle(clock_ns.saturating_sub(balance.idle_stamp));
        }
    }

    /// A CPU finds nothing more to run.
    pub(crate) fn new_idle<H: Host>(&mut self, host: &mut H, cpu: u32, clock_ns: u64, jiffies: u64) {
        let clock = self.clock(jiffies);
        let facts = NewidleFacts {
            ttwu_pending: false,
            cpu_active: true,
            rd_overloaded: self.overloaded,
            rq_clock: clock_ns,
            ni_random: self.newidle_random,
        };
        let Cpu { balance, domains, .. } = &mut self.cpus[cpu as usize];
        let mut passes = Passes { idle: true, levels: domains.len(), ..Passes::default() };
        sched_balance_newidle(&mut passes, balance, domains, &facts, &clock);
        let expects_idle = balance.avg_idle >= MIGRATION_COST_NS;
        if passes.updates {
            self.update(host, cpu, cpu, jiffies);
        }
        self.passed(host, &passes);
        if expects_idle && self.has_blocked && jiffies >= self.next_blocked {
            self.idle_balance(host, cpu, jiffies, Kick { stats: true, ..Kick::default() });
        }
    }

    /// The tick of a CPU (fair.c:sched_balance_trigger()).
    pub(crate) fn tick<H: Host>(&mut self, host: &mut H, cpu: u32, jiffies: u64) {
        let idle = host.is_idle(cpu);
        if jiffies >= self.cpus[cpu as usize].balance.next_balance {
            self.update(host, cpu, cpu, jiffies);
            self.balance(host, cpu, idle, jiffies);
        }
        if !idle {
            self.kick(host, cpu, jiffies);
        }
    }

    /// fair.c:nohz_balancer_kick(), kick_ilb().
    fn kick<H: Host>(&mut self, host: &mut H, cpu: u32, jiffies: u64) {
        self.cpus[cpu as usize].tickless = false;
        if !self.cpus.iter().any(|other| other.tickless) {
            return;
        }
        let mut kick = Kick { stats: self.has_blocked && jiffies > self.next_blocked, ..Kick::default() };
        if jiffies >= self.next_balance && self.wants_balance(host, cpu) {
            (kick.stats, kick.balance) = (true, true);
            self.next_balance = jiffies + 1;
        }
        kick.next = self.next_kick && self.needs_update;
        let first = (0..self.cpus.len() as u32)
            .find(|&other| other != cpu && self.cpus[other as usize].tickless && host.is_idle(other));
        if let Some(ilb) = first.filter(|_| kick != Kick::default()) {
            self.idle_balance(host, ilb, jiffies, kick);
        }
    }

    fn wants_balance<H: Host>(&self, host: &H, cpu: u32) -> bool {
        let state = &self.cpus[cpu as usize];
        if host.nr_running(cpu) >= 2 {
            return true;
        }
        if state.asymmetric {
            return host.is_misfit(cpu);
        }
        let busy = self.cpus.iter().filter(|other| other.llc == state.llc && !other.tickless).count();
        state.llc.is_some() && busy > 1
    }

    /// fair.c:_nohz_idle_balance() by CPU `here`.
    fn idle_balance<H: Host>(&mut self, host: &mut H, here: u32, jiffies: u64, kick: Kick) {
        let nr = self.cpus.len() as u32;
        let mut next_balance = None;
        let mut has_blocked = false;
        if kick.stats {
            self.has_blocked = false;
        }
        self.needs_update &= !kick.next;
        for cpu in (here + 1..nr).chain(0..=here) {
            if !self.cpus[cpu as usize].tickless || !host.is_idle(cpu) {
                continue;
            }
            if kick.stats && self.cpus[cpu as usize].has_blocked {
                if jiffies > self.cpus[cpu as usize].updated_jiffies {
                    self.update(host, here, cpu, jiffies);
                }
                has_blocked |= self.cpus[cpu as usize].has_blocked;
            }
            if kick.balance && jiffies >= self.cpus[cpu as usize].balance.next_balance {
                self.balance(host, cpu, true, jiffies);
            }
            let next = self.cpus[cpu as usize].balance.next_balance;
            next_balance = Some(next_balance.map_or(next, |least: u64| least.min(next)));
        }
        self.next_balance = next_balance.unwrap_or(self.next_balance);
        if kick.stats {
            self.next_blocked = jiffies + msecs_to_jiffies(LOAD_AVG_PERIOD, self.hz);
        }
        self.has_blocked |= has_blocked;
    }
}

/// What an idle CPU is asked for: `NOHZ_STATS_KICK`, `NOHZ_BALANCE_KICK`, `NOHZ_NEXT_KICK`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Kick {
    stats: bool,
    balance: bool,
    next: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four CPUs that share a cache: who runs how many, and what was updated, by whom.
    #[derive(Default)]
    struct Log {
        running: [u64; 4],
        blocked: [bool; 4],
        updated: Vec<(u32, u32)>,
    }

    impl Host for Log {
        fn update_blocked(&mut self, here: u32, cpu: u32) -> bool {
            self.updated.push((here, cpu));
            self.blocked[cpu as usize]
        }
        fn is_idle(&self, cpu: u32) -> bool {
            self.running[cpu as usize] == 0
        }
        fn nr_running(&self, cpu: u32) -> u64 {
            self.running[cpu as usize]
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
        let mut nohz = Nohz::new(&machine, 250, (6, 12));
        // The CPUs' own balances are not due.
        nohz.cpus.iter_mut().for_each(|cpu| cpu.balance.next_balance = 1_000);
        nohz.next_balance = 1_000;
        nohz
    }

    fn ticks(nohz: &mut Nohz, log: &mut Log, jiffies: std::ops::Range<u64>) -> Vec<(u64, Vec<(u32, u32)>)> {
        jiffies
            .map(|now| {
                nohz.tick(log, 2, now);
                (now, std::mem::take(&mut log.updated))
            })
            .filter(|(_, updated)| !updated.is_empty())
            .collect()
    }

    /// Goal: idle CPUs decay after more than 32 ms, by the first of them, which is the last to be updated, as long as they have a load.
    #[test]
    fn the_first_idle_cpu_lets_the_others_decay() {
        let (mut nohz, mut log) = (nohz(), Log { running: [0, 0, 1, 0], blocked: [true; 4], ..Log::default() });
        [1, 3].into_iter().for_each(|cpu| nohz.enter_idle(cpu));
        let both = vec![(1, 3), (1, 1)];
        assert_eq!(ticks(&mut nohz, &mut log, 1..20), [(1, both.clone()), (10, both.clone()), (19, both.clone())]);
        log.blocked = [false; 4];
        assert_eq!(ticks(&mut nohz, &mut log, 20..60), [(28, both)]);
    }

    /// Goal: a CPU that goes idle does it itself at 32 ms, not for itself, and not if it is to wake soon.
    #[test]
    fn a_cpu_that_goes_idle_does_it_itself() {
        let (mut nohz, mut log) = (nohz(), Log { running: [0, 0, 1, 0], blocked: [true; 4], ..Log::default() });
        nohz.enter_idle(1);
        nohz.new_idle(&mut log, 0, 4_000_000, 1);
        assert_eq!(std::mem::take(&mut log.updated), [(0, 1)]);
        nohz.new_idle(&mut log, 0, 32_000_000, 8);
        assert_eq!(log.updated, []);
        nohz.new_idle(&mut log, 0, 36_000_000, 9);
        assert_eq!(std::mem::take(&mut log.updated), [(0, 1)]);
        (0..20).for_each(|n| {
            nohz.new_idle(&mut log, 0, 40_000_000 + n * 100_000, 10);
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
}
