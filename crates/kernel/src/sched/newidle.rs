//! When balancing happens: at intervals, and before a CPU becomes idle if that is likely to pay
//! (kernel/sched/fair.c: `sched_balance_domains()`, `sched_balance_newidle()`, v6.12).
//!
//! A pass itself is [`super::balance`]; here it is a step that the [`NewidleHost`] does. Times are in jiffies, compared as signed
//! distances; costs are in ns. The balance that one idle CPU does for others is [`super::nohz`].

use super::balance::PassState;
use super::balance_env::IdleType;
use super::sd_flags::{SD_BALANCE_NEWIDLE, SD_SERIALIZE};
use crate::profile::{BalanceThresholds, NewidleLeast, NewidleSkip};

/// `sysctl_sched_migration_cost` (500 us, v6.12), ns: a CPU that expects to idle for less does nothing for others.
pub const MIGRATION_COST_NS: u64 = 500_000;

/// The state of one domain of one CPU that balancing changes (`struct sched_domain`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DomainBalance {
    /// What a pass changes; its interval is in ms.
    pub pass: PassState,
    /// The domain's `SD_*` flags.
    pub flags: u32,
    /// By how much a busy CPU stretches the interval.
    pub busy_factor: u32,
    /// When the domain was balanced last, in jiffies.
    pub last_balance: u64,
    /// Newly idle passes, halved from time to time.
    pub newidle_call: u32,
    /// Those that found a task, weighted.
    pub newidle_success: u32,
    /// Successes of 1024 calls.
    pub newidle_ratio: u32,
    /// The longest recent newly idle pass, ns.
    pub max_newidle_lb_cost: u64,
    /// When that changed last, in jiffies.
    pub last_decay_max_lb_cost: u64,
}

/// `a` is after `b` (`time_after()`).
#[inline]
pub(super) fn is_after(a: u64, b: u64) -> bool {
    (b.wrapping_sub(a) as i64) < 0
}

/// Milliseconds in jiffies, rounded up; a number that is negative as `int` is forever (`msecs_to_jiffies()`).
#[inline]
pub fn msecs_to_jiffies(msecs: u32, hz: u64) -> u64 {
    if (msecs as i32) < 0 {
        return (i64::MAX as u64 >> 1) - 1;
    }
    u64::from(msecs).wrapping_mul(hz).div_ceil(1000)
}

/// The most jiffies between two passes (`max_load_balance_interval`): a tenth of a second for each CPU.
#[inline]
pub fn max_load_balance_interval(hz: u64, n_cpus: u64) -> u64 {
    hz.wrapping_mul(n_cpus) / 10
}

/// What is the same for all CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalanceClock {
    /// Ticks a second.
    pub hz: u64,
    /// The time in jiffies.
    pub jiffies: u64,
    /// [`max_load_balance_interval`].
    pub max_interval: u64,
    /// What the kernel's version has.
    pub thresholds: BalanceThresholds,
}

impl BalanceClock {
    /// The time between two passes in jiffies: at least 1, longer on a busy CPU, and then one less than a multiple so that levels
    /// do not meet.
    ///
    /// kernel/sched/fair.c:`get_sd_balance_interval()`, v6.12.
    #[inline]
    pub fn balance_interval(&self, interval_ms: u64, busy_factor: u32, cpu_busy: bool) -> u64 {
        let mut interval = interval_ms;
        if cpu_busy {
            interval = interval.wrapping_mul(busy_factor.into());
        }
        interval = msecs_to_jiffies(interval as u32, self.hz);
        if cpu_busy && self.thresholds == BalanceThresholds::Narrow {
            interval = interval.wrapping_sub(1);
        }
        // `clamp()`: the upper end wins where the ends cross.
        if interval >= self.max_interval { self.max_interval } else { interval.max(1) }
    }

    #[inline]
    fn domain_interval(&self, domain: &DomainBalance, cpu_busy: bool) -> u64 {
        self.balance_interval(domain.pass.balance_interval, domain.busy_factor, cpu_busy)
    }

    /// kernel/sched/fair.c:`update_next_balance()`, v6.12.
    #[inline]
    fn update_next_balance(&self, domain: &DomainBalance, next_balance: &mut u64) {
        let next = domain.last_balance.wrapping_add(self.domain_interval(domain, false));
        if is_after(*next_balance, next) {
            *next_balance = next;
        }
    }
}

impl DomainBalance {
    /// kernel/sched/fair.c:`update_newidle_stats()`, v6.12.117 (not in 6.12.0).
    #[inline]
    pub fn update_newidle_stats(&mut self, success: u32) {
        self.newidle_call = self.newidle_call.wrapping_add(1);
        self.newidle_success = self.newidle_success.wrapping_add(success);
        if self.newidle_call >= 1024 {
            self.newidle_ratio = self.newidle_success;
            self.newidle_call /= 2;
            self.newidle_success /= 2;
        }
    }

    /// Notes what a newly idle pass cost, or with a cost of 0 lets the largest cost fade by 1 % a second; true if it did.
    ///
    /// kernel/sched/fair.c:`update_newidle_cost()`, v6.12.117.
    #[inline]
    pub fn update_newidle_cost(&mut self, cost_ns: u64, success: u32, jiffies: u64, hz: u64) -> bool {
        if cost_ns != 0 {
            self.update_newidle_stats(success);
        }
        if cost_ns > self.max_newidle_lb_cost {
            self.max_newidle_lb_cost = cost_ns;
            self.last_decay_max_lb_cost = jiffies;
        } else if is_after(jiffies, self.last_decay_max_lb_cost.wrapping_add(hz)) {
            self.max_newidle_lb_cost = self.max_newidle_lb_cost.wrapping_mul(253) / 256;
            self.last_decay_max_lb_cost = jiffies;
            return true;
        }
        false
    }
}

/// What a pass reports to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// Tasks moved.
    pub ld_moved: u32,
    /// Balancing goes on in the next domain.
    pub continue_balancing: bool,
}

/// The CPU that balances.
pub trait NewidleHost {
    /// One pass over the domain at `level`, 0 the lowest.
    fn balance(&mut self, level: usize, domain: &mut DomainBalance, idle: IdleType) -> Pulled;
    /// The scheduler's clock in ns; what it moves on during a pass is the pass's cost.
    fn sched_clock(&mut self) -> u64;
    /// Updates the averages of sleeping tasks (`sched_balance_update_blocked_averages()`).
    fn update_blocked_averages(&mut self);
    /// A random number (`sched_rng()`).
    fn sched_rng(&mut self) -> u32;
    /// Runnable tasks of all classes.
    fn nr_running(&self) -> u32;
    /// Queued fair tasks.
    fn h_nr_queued(&self) -> u32;
    /// Nothing but `SCHED_IDLE` tasks are runnable (`sched_idle_cpu()`).
    fn is_sched_idle(&self) -> bool;
    /// Nothing is runnable or on its way (`idle_cpu()`).
    fn is_idle(&self) -> bool;
    /// Takes the machine's one token for the widest domains; false if another CPU has it (`sched_balance_running`).
    fn try_serialize(&mut self) -> bool;
    /// Gives the token back.
    fn end_serialize(&mut self);
    /// Energy decides in the domain at `level`: no periodic pass looks there (`!sd_overutilized()`, Android before v5.0).
    fn leaves_to_energy(&self, level: usize) -> bool {
        let _ = level;
        false
    }
}

/// The state of a run queue that balancing changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RqBalance {
    /// When the next periodic pass is due, in jiffies.
    pub next_balance: u64,
    /// When the CPU became idle, in ns of its clock; 0 if it is not idle.
    pub idle_stamp: u64,
    /// How long idle periods are on average, ns.
    pub avg_idle: u64,
    /// The most that balancing before idle has cost, ns.
    pub max_idle_balance_cost: u64,
}

impl RqBalance {
    /// An idle period ended after `delta_ns`: the average moves by an eighth of the difference, at most to twice what balancing
    /// costs.
    ///
    /// kernel/sched/core.c:`ttwu_do_activate()`, `update_avg()`, v6.12.
    #[inline]
    pub fn update_avg_idle(&mut self, delta_ns: u64) {
        let max = self.max_idle_balance_cost.wrapping_mul(2);
        let diff = delta_ns.wrapping_sub(self.avg_idle) as i64;
        self.avg_idle = self.avg_idle.wrapping_add((diff / 8) as u64).min(max);
        self.idle_stamp = 0;
    }
}

/// What decides whether balancing before idle is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewidleFacts {
    /// A wake-up is on its way here.
    pub ttwu_pending: bool,
    /// The CPU takes part in balancing.
    pub cpu_active: bool,
    /// Some CPU of the root domain has more than one task.
    pub rd_overloaded: bool,
    /// The CPU's clock (`rq_clock()`).
    pub rq_clock: u64,
    /// What the CPU must expect to idle for.
    pub least: NewidleLeast,
    /// What makes the CPU pass over levels, beside their cost.
    pub skip: NewidleSkip,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Newidle {
    /// Tasks that are there now; -1 if one of a higher class is.
    pub pulled: i32,
    /// The CPU goes idle and should see to the nohz state (`nohz_newidle_balance()`).
    pub nohz_newidle: bool,
}

/// A CPU looks for work before it becomes idle, as long as it expects to be idle for longer than looking costs.
///
/// kernel/sched/fair.c:`sched_balance_newidle()`, v6.12.117; `domains` are the CPU's, the lowest first.
pub fn sched_balance_newidle<H: NewidleHost>(
    host: &mut H,
    rq: &mut RqBalance,
    domains: &mut [DomainBalance],
    facts: &NewidleFacts,
    clock: &BalanceClock,
) -> Newidle {
    if facts.ttwu_pending {
        return Newidle::default();
    }
    rq.idle_stamp = facts.rq_clock;
    if !facts.cpu_active {
        return Newidle::default();
    }
    let mut next_balance = clock.jiffies.wrapping_add(clock.hz);
    let mut pulled = 0;
    match domains.first() {
        None => {}
        Some(lowest)
            if !facts.rd_overloaded
                || rq.avg_idle
                    < match facts.least {
                        NewidleLeast::MigrationCost => MIGRATION_COST_NS,
                        NewidleLeast::LowestLevel => lowest.max_newidle_lb_cost,
                    } =>
        {
            clock.update_next_balance(lowest, &mut next_balance);
        }
        Some(_) => {
            let mut found = walk_newidle(host, rq, domains, facts, clock, &mut next_balance) as i32;
            let queued = host.h_nr_queued();
            if queued != 0 && found == 0 {
                found = 1;
            }
            pulled = if host.nr_running() == queued { found } else { -1 };
        }
    }
    if is_after(rq.next_balance, next_balance) {
        rq.next_balance = next_balance;
    }
    if pulled != 0 {
        rq.idle_stamp = 0;
    }
    Newidle { pulled, nohz_newidle: pulled == 0 }
}

/// The walk up the domains; the tasks that the last pass moved.
fn walk_newidle<H: NewidleHost>(
    host: &mut H,
    rq: &mut RqBalance,
    domains: &mut [DomainBalance],
    facts: &NewidleFacts,
    clock: &BalanceClock,
    next_balance: &mut u64,
) -> u32 {
    let mut t0 = host.sched_clock();
    host.update_blocked_averages();
    let (mut curr_cost, mut moved, mut goes_on) = (0u64, 0, true);
    for (level, domain) in domains.iter_mut().enumerate() {
        clock.update_next_balance(domain, next_balance);
        if rq.avg_idle < curr_cost.wrapping_add(domain.max_newidle_lb_cost) {
            break;
        }
        if domain.flags & SD_BALANCE_NEWIDLE != 0 {
            let mut weight = 1;
            if facts.skip == NewidleSkip::CostAndChance {
                let dice = host.sched_rng() % 1024;
                weight = domain.newidle_ratio.wrapping_add(1);
                if dice > weight {
                    domain.update_newidle_stats(0);
                    continue;
                }
                weight = (weight / 2).wrapping_add(1024).checked_div(weight).unwrap_or(0);
            }
            let pass = host.balance(level, domain, IdleType::NewlyIdle);
            (moved, goes_on) = (pass.ld_moved, pass.continue_balancing);
            let t1 = host.sched_clock();
            let cost = t1.wrapping_sub(t0);
            curr_cost = curr_cost.wrapping_add(cost);
            t0 = t1;
            let success = if moved == 0 { 0 } else { weight };
            // A pass that found nothing was not worth it: it counts as longer than any before (v6.17 and v6.18).
            let failed = moved == 0 && facts.skip == NewidleSkip::CostOfFailure;
            let cost = if failed { domain.max_newidle_lb_cost.saturating_mul(3) / 2 } else { cost };
            domain.update_newidle_cost(cost, success, clock.jiffies, clock.hz);
        }
        if moved != 0 || !goes_on {
            break;
        }
    }
    rq.max_idle_balance_cost = rq.max_idle_balance_cost.max(curr_cost);
    moved
}

/// The periodic balance of a CPU: a pass over every domain whose interval has passed.
///
/// `migration_cost_ns` is the floor of what balancing before idle is taken to cost.
/// kernel/sched/fair.c:`sched_balance_domains()`, v6.12; `domains` are the CPU's, the lowest first.
pub fn sched_balance_domains<H: NewidleHost>(
    host: &mut H,
    rq: &mut RqBalance,
    domains: &mut [DomainBalance],
    idle: IdleType,
    clock: &BalanceClock,
    migration_cost_ns: u64,
) {
    let mut idle = idle;
    let mut busy = idle != IdleType::Idle && !host.is_sched_idle();
    let mut next_balance = clock.jiffies.wrapping_add(60u64.wrapping_mul(clock.hz));
    let (mut is_earlier, mut need_decay, mut goes_on, mut max_cost) = (false, false, true, 0u64);
    for (level, domain) in domains.iter_mut().enumerate() {
        need_decay = domain.update_newidle_cost(0, 0, clock.jiffies, clock.hz);
        max_cost = max_cost.wrapping_add(domain.max_newidle_lb_cost);
        if host.leaves_to_energy(level) {
            continue;
        }
        if !goes_on {
            // Somebody else balances from here on; the costs of the levels above only fade.
            if need_decay {
                continue;
            }
            break;
        }
        let mut interval = clock.domain_interval(domain, busy);
        let serialize = domain.flags & SD_SERIALIZE != 0;
        if !serialize || host.try_serialize() {
            if !is_after(domain.last_balance.wrapping_add(interval), clock.jiffies) {
                let pass = host.balance(level, domain, idle);
                goes_on = pass.continue_balancing;
                if pass.ld_moved != 0 {
                    idle = if host.is_idle() { IdleType::Idle } else { IdleType::NotIdle };
                    busy = idle == IdleType::NotIdle && !host.is_sched_idle();
                }
                domain.last_balance = clock.jiffies;
                interval = clock.domain_interval(domain, busy);
            }
            if serialize {
                host.end_serialize();
            }
        }
        let next = domain.last_balance.wrapping_add(interval);
        if is_after(next_balance, next) {
            next_balance = next;
            is_earlier = true;
        }
    }
    if need_decay {
        rq.max_idle_balance_cost = migration_cost_ns.max(max_cost);
    }
    if is_earlier {
        rq.next_balance = next_balance;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn intervals_are_rounded_up_and_bounded() {
        let clock = BalanceClock {
            hz: 250,
            jiffies: 0,
            max_interval: max_load_balance_interval(250, 4),
            thresholds: BalanceThresholds::Narrow,
        };
        assert_eq!(clock.balance_interval(8, 16, false), 2);
        assert_eq!(clock.balance_interval(9, 16, false), 3);
        assert_eq!(clock.balance_interval(8, 16, true), 31);
        assert_eq!(clock.balance_interval(8000, 16, true), 100);
        assert_eq!(clock.balance_interval(0, 16, false), 1);
    }

    #[test]
    fn idle_average_moves_by_an_eighth() {
        let mut rq = RqBalance { avg_idle: 1000, max_idle_balance_cost: 10_000, idle_stamp: 5, ..RqBalance::default() };
        rq.update_avg_idle(1800);
        assert_eq!((rq.avg_idle, rq.idle_stamp), (1100, 0));
        rq.update_avg_idle(0);
        assert_eq!(rq.avg_idle, 963, "the signed division truncates");
        rq.update_avg_idle(1_000_000);
        assert_eq!(rq.avg_idle, 20_000);
    }

    proptest! {
        /// A longer interval never balances sooner, and no input panics.
        #[test]
        fn longer_is_not_sooner(ms in 0u64..100_000, more in 0u64..100_000, factor in 1u32..64, busy: bool, hz in 1u64..2000) {
            let clock = BalanceClock { hz, jiffies: 0, max_interval: hz * 8, thresholds: BalanceThresholds::Narrow };
            let short = clock.balance_interval(ms, factor, busy);
            // A busy interval of 0 wraps to the longest, as in the kernel.
            prop_assume!(!(busy && ms == 0));
            prop_assert!(short <= clock.balance_interval(ms + more, factor, busy));
        }
    }
}
