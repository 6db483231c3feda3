//! What one idle CPU does for those whose tick is stopped: it balances for them and lets the averages of their sleeping tasks decay.
//!
//! ```text
//!  tick of any CPU        its own balance, if it is due                          sched_balance_trigger(), the softirq
//!  tick of a busy CPU     asks the first idle CPU to serve all without a tick    nohz_balancer_kick(), nohz_idle_balance()
//!  a CPU goes idle        lets the others decay itself                           nohz_newidle_balance(), nohz_run_idle_balance()
//! ```
//! Averages decay once in 32 ms (`LOAD_AVG_PERIOD`) as long as some CPU has any left. A CPU counts as one without a tick until
//! its first tick with something to run.
//!
//! Whose state is where: [`Nohz`] has the kernel's `nohz` and what each run queue has of it; all else is the host's
//! ([`NohzHost`]). Times are in jiffies, compared as signed distances. Not followed: priorities of CPUs (`SD_ASYM_PACKING`),
//! housekeeping CPUs, CPUs that are not active, and before v5.13 the newly idle CPU's order. The functions are those of
//! kernel/sched/fair.c, v6.12.117; that averages of idle CPUs decay without a balance came in v4.17.

use super::cpumask::CpuMask;
use super::domains::SchedDomains;
use super::newidle::{MIGRATION_COST_NS, RqBalance, is_after, msecs_to_jiffies};

/// Balance for the idle CPUs (kernel/sched/sched.h).
const NOHZ_BALANCE_KICK: u8 = 1 << 0;
/// Let the averages of the idle CPUs decay.
const NOHZ_STATS_KICK: u8 = 1 << 1;
/// The CPU that goes idle lets them decay before it sleeps.
const NOHZ_NEWILB_KICK: u8 = 1 << 2;
/// Look when the next balance is due.
const NOHZ_NEXT_KICK: u8 = 1 << 3;
/// What another CPU asks for.
const NOHZ_KICK_MASK: u8 = NOHZ_BALANCE_KICK | NOHZ_STATS_KICK | NOHZ_NEXT_KICK;

/// ms between two decays of the averages of idle CPUs.
const LOAD_AVG_PERIOD: u32 = 32;

/// What a run queue has of it.
#[derive(Clone, Debug, Default)]
struct RqNohz {
    /// Its averages may not have decayed to 0 (`rq->has_blocked_load`).
    has_blocked_load: bool,
    /// The jiffy of its last update (`rq->last_blocked_load_update_tick`).
    last_update: u64,
    /// What it was asked for (`nohz_flags()`).
    flags: u8,
    /// The first CPU of those with which it shares the last-level cache, if it does.
    llc: Option<u32>,
    /// [`super::domains::Domain::imbalance_pct`] of its lowest domain, if it has any.
    imbalance_pct: Option<u32>,
    /// It is in a domain of different capacities (`sd_asym_cpucapacity`).
    asym: bool,
}

/// The kernel's `nohz`.
#[derive(Clone, Debug, Default)]
pub struct Nohz {
    /// CPUs whose tick was stopped, and that had none since with something to run (`idle_cpus_mask`).
    idle_cpus: CpuMask,
    /// How many these are.
    nr_cpus: u32,
    /// Some of them may have averages left.
    has_blocked: bool,
    /// When these are to decay.
    next_blocked: u64,
    /// When some of them has a balance due.
    next_balance: u64,
    /// A CPU stopped its tick since that was computed.
    needs_update: bool,
    /// The kernel looks anew then (v5.15).
    next_kick: bool,
    rqs: Vec<RqNohz>,
    /// How many of them have `NOHZ_NEWILB_KICK`: mostly none, and then no queue is looked at.
    nr_newilb: u32,
    /// By a cache's first CPU, how many of its CPUs are not in `idle_cpus` (`sd_llc_shared->nr_busy_cpus`).
    nr_busy: Vec<u32>,
    hz: u64,
}

impl Nohz {
    /// At the start all CPUs tick; `next_kick`: the kernel knows `NOHZ_NEXT_KICK` (from v5.15 on). `hz` is of ticks a second.
    pub fn new(domains: &SchedDomains, hz: u64, jiffies: u64, next_kick: bool) -> Self {
        let nr = domains.n_cpus();
        let mut nr_busy = vec![0; nr];
        let mut rqs = Vec::with_capacity(nr);
        for cpu in 0..nr {
            let llc = domains.llc(cpu).map(|_| domains.llc_id(cpu));
            if let Some(llc) = llc {
                nr_busy[llc] += 1;
            }
            rqs.push(RqNohz {
                last_update: jiffies,
                llc: llc.map(|llc| llc as u32),
                imbalance_pct: domains.domain(cpu, 0).map(|domain| domain.imbalance_pct),
                asym: domains.asym_cpucapacity(cpu).is_some(),
                ..RqNohz::default()
            });
        }
        Self {
            idle_cpus: CpuMask::with_room(nr),
            nr_cpus: 0,
            has_blocked: false,
            next_blocked: jiffies,
            next_balance: jiffies,
            needs_update: false,
            next_kick,
            rqs,
            nr_newilb: 0,
            nr_busy,
            hz,
        }
    }

    /// `cpu` stops its tick (`nohz_balance_enter_idle()`); one that is in no domain takes no part.
    pub fn nohz_balance_enter_idle(&mut self, cpu: usize) {
        let rq = &mut self.rqs[cpu];
        rq.has_blocked_load = true;
        if rq.imbalance_pct.is_none() {
            return;
        }
        if !self.idle_cpus.as_set().contains(cpu) {
            self.idle_cpus.insert(cpu);
            self.nr_cpus += 1;
            if let Some(llc) = rq.llc {
                self.nr_busy[llc as usize] -= 1;
            }
            self.needs_update = true;
        }
        self.has_blocked = true;
    }

    /// All averages of `cpu` were brought up to date in this jiffy; whether anything is left (`update_blocked_load_tick()`,
    /// `update_blocked_load_status()`).
    #[inline]
    pub fn blocked_averages_updated(&mut self, cpu: usize, jiffies: u64, is_left: bool) {
        let rq = &mut self.rqs[cpu];
        rq.last_update = jiffies;
        rq.has_blocked_load &= is_left;
    }

    /// What `cpu` was asked for; it is no longer asked for what is in `of`.
    #[inline]
    fn take_flags(&mut self, cpu: usize, of: u8) -> u8 {
        let flags = &mut self.rqs[cpu].flags;
        let asked = *flags;
        *flags &= !of;
        self.nr_newilb -= u32::from(asked & of & NOHZ_NEWILB_KICK != 0);
        asked
    }

    /// `cpu` has a tick with something to run (`nohz_balance_exit_idle()`).
    #[inline]
    pub fn nohz_balance_exit_idle(&mut self, cpu: usize) {
        if !self.idle_cpus.as_set().contains(cpu) {
            return;
        }
        self.idle_cpus.remove(cpu);
        self.nr_cpus -= 1;
        if let Some(llc) = self.rqs[cpu].llc {
            self.nr_busy[llc as usize] += 1;
        }
    }
}

/// The machine, and what it does on request. A CPU of the machine is 0 or more and below the number of CPUs.
pub trait NohzHost {
    /// The state.
    fn nohz(&self) -> &Nohz;
    /// The state.
    fn nohz_mut(&mut self) -> &mut Nohz;
    /// The time in jiffies.
    fn jiffies(&self) -> u64;
    /// What balancing knows of the queue of `cpu`.
    fn rq_balance(&self, cpu: usize) -> &RqBalance;
    /// Nothing is runnable on `cpu` or on its way there (`idle_cpu()`).
    fn is_idle(&self, cpu: usize) -> bool;
    /// `cpu`, which executes this, is to reschedule (`need_resched()`).
    fn need_resched(&self, cpu: usize) -> bool;
    /// Runnable tasks of all classes on `cpu` (`rq->nr_running`).
    fn nr_running(&self, cpu: usize) -> u32;
    /// A fair task is queued on `cpu`, and other classes take so much of its capacity that it may do better elsewhere
    /// ([`super::group::CpuLoad::has_reduced_capacity`]).
    fn has_reduced_capacity(&self, cpu: usize, imbalance_pct: u32) -> bool;
    /// What runs on `cpu` does not fit there (`check_misfit_status()`).
    fn has_misfit(&self, cpu: usize) -> bool;
    /// Tasks are packed on CPUs of higher priority (`SD_ASYM_PACKING`).
    #[inline]
    fn asym_packing(&self) -> bool {
        false
    }
    /// `dst` is to have what runs on `src`, for its priority; its core must be idle (`sched_asym()` of a domain of cores).
    fn sched_asym(&self, dst: usize, src: usize) -> bool {
        let _ = (dst, src);
        false
    }
    /// Brings the clock of `cpu`'s queue up to date.
    fn update_rq_clock(&mut self, cpu: usize);
    /// CPU `this_cpu` brings all averages of `cpu` up to date and calls the governor; returns whether anything is left.
    fn update_averages(&mut self, this_cpu: usize, cpu: usize) -> bool;
    /// CPU `this_cpu` makes the periodic balance of `cpu` ([`super::newidle::sched_balance_domains`]).
    fn balance_domains(&mut self, this_cpu: usize, cpu: usize, idle: bool);
}

/// CPU `this_cpu` lets the averages of what sleeps on `cpu` decay (`sched_balance_update_blocked_averages()`); returns whether
/// anything is left.
pub fn sched_balance_update_blocked_averages<T: NohzHost>(host: &mut T, this_cpu: usize, cpu: usize) -> bool {
    let is_left = host.update_averages(this_cpu, cpu);
    let jiffies = host.jiffies();
    host.nohz_mut().blocked_averages_updated(cpu, jiffies, is_left);
    is_left
}

/// The tick of `cpu`, and the softirq that it raises: its own balance, if that is due and the CPU is in any domain. Returns the CPU that is to be interrupted for
/// [`nohz_idle_balance`].
///
/// kernel/sched/fair.c:`sched_balance_trigger()`, `sched_balance_softirq()`, v6.12.
#[inline]
pub fn sched_balance_trigger<T: NohzHost>(host: &mut T, cpu: usize) -> Option<usize> {
    host.nohz().rqs[cpu].imbalance_pct?;
    let idle = host.is_idle(cpu);
    let is_due = !is_after(host.rq_balance(cpu).next_balance, host.jiffies());
    let kicked = if idle { None } else { nohz_balancer_kick(host, cpu) };
    if is_due {
        sched_balance_update_blocked_averages(host, cpu, cpu);
        host.balance_domains(cpu, cpu, idle);
    }
    kicked
}

/// What `cpu`, which ticks with something to run, asks for; the CPU that is to be interrupted for it.
///
/// kernel/sched/fair.c:`nohz_balancer_kick()`, v6.12.
#[inline]
fn nohz_balancer_kick<T: NohzHost>(host: &mut T, cpu: usize) -> Option<usize> {
    let now = host.jiffies();
    host.nohz_mut().nohz_balance_exit_idle(cpu);
    let nohz = host.nohz();
    if nohz.nr_cpus == 0 {
        return None;
    }
    let mut flags = 0;
    if nohz.has_blocked && is_after(now, nohz.next_blocked) {
        flags = NOHZ_STATS_KICK;
    }
    if !is_after(nohz.next_balance, now) && wants_balance(host, cpu) {
        flags = NOHZ_STATS_KICK | NOHZ_BALANCE_KICK;
    }
    if nohz.next_kick && nohz.needs_update {
        flags |= NOHZ_NEXT_KICK;
    }
    if flags == 0 { None } else { kick_ilb(host, cpu, now, flags) }
}

/// Whether another CPU may have to take something from `cpu`.
fn wants_balance<T: NohzHost>(host: &T, cpu: usize) -> bool {
    let nohz = host.nohz();
    let rq = &nohz.rqs[cpu];
    if host.nr_running(cpu) >= 2 || rq.imbalance_pct.is_some_and(|pct| host.has_reduced_capacity(cpu, pct)) {
        return true;
    }
    if host.asym_packing() && nohz.idle_cpus.as_set().iter().any(|idle| host.sched_asym(idle, cpu)) {
        return true;
    }
    if rq.asym {
        return host.has_misfit(cpu);
    }
    rq.llc.is_some_and(|llc| nohz.nr_busy[llc as usize] > 1)
}

/// Asks the first CPU that idles without a tick; returns it if it is to be interrupted (`kick_ilb()`, `find_new_ilb()`).
fn kick_ilb<T: NohzHost>(host: &mut T, this_cpu: usize, now: u64, flags: u8) -> Option<usize> {
    if flags & NOHZ_BALANCE_KICK != 0 {
        host.nohz_mut().next_balance = now.wrapping_add(1);
    }
    let ilb = host.nohz().idle_cpus.as_set().iter().find(|&cpu| cpu != this_cpu && host.is_idle(cpu))?;
    let asked = &mut host.nohz_mut().rqs[ilb].flags;
    let is_first = *asked & NOHZ_KICK_MASK == 0;
    *asked |= flags;
    is_first.then_some(ilb)
}

/// The interrupt that another CPU sent to `cpu`, and the softirq that it raises, if `cpu` idles.
///
/// kernel/sched/core.c:`nohz_csd_func()`, kernel/sched/fair.c:`nohz_idle_balance()`, v6.12.
pub fn nohz_idle_balance<T: NohzHost>(host: &mut T, cpu: usize) {
    let flags = host.nohz_mut().take_flags(cpu, NOHZ_KICK_MASK | NOHZ_NEWILB_KICK);
    if flags & NOHZ_KICK_MASK != 0 && host.is_idle(cpu) {
        idle_balance(host, cpu, flags);
    }
}

/// `cpu` has found nothing more to run: it lets the averages of the others decay before it sleeps, if they are to, unless it is to
/// wake up soon.
///
/// kernel/sched/fair.c:`nohz_newidle_balance()`, v6.12.
#[inline]
pub fn nohz_newidle_balance<T: NohzHost>(host: &mut T, cpu: usize) {
    let nohz = host.nohz();
    if !nohz.has_blocked
        || is_after(nohz.next_blocked, host.jiffies())
        || host.rq_balance(cpu).avg_idle < MIGRATION_COST_NS
    {
        return;
    }
    let nohz = host.nohz_mut();
    let flags = &mut nohz.rqs[cpu].flags;
    nohz.nr_newilb += u32::from(*flags & NOHZ_NEWILB_KICK == 0);
    *flags |= NOHZ_NEWILB_KICK;
}

/// The idle task of `cpu` starts (kernel/sched/fair.c:`nohz_run_idle_balance()`, v6.12).
#[inline]
pub fn nohz_run_idle_balance<T: NohzHost>(host: &mut T, cpu: usize) {
    if host.nohz().nr_newilb == 0 {
        return;
    }
    let asked = host.nohz_mut().take_flags(cpu, NOHZ_NEWILB_KICK);
    if asked == NOHZ_NEWILB_KICK && !host.need_resched(cpu) {
        idle_balance(host, cpu, NOHZ_STATS_KICK);
    }
}

/// `this_cpu` serves all CPUs without a tick: from the one after it on, itself last (`_nohz_idle_balance()`).
fn idle_balance<T: NohzHost>(host: &mut T, this_cpu: usize, flags: u8) {
    let now = host.jiffies();
    let nohz = host.nohz_mut();
    let nr = nohz.rqs.len();
    let far = now.wrapping_add(60u64.wrapping_mul(nohz.hz));
    let mut next_balance = far;
    let mut has_blocked = false;
    // A CPU that stops its tick meanwhile sets them again.
    nohz.has_blocked &= flags & NOHZ_STATS_KICK == 0;
    nohz.needs_update &= flags & NOHZ_NEXT_KICK == 0;
    for (from, until) in [(this_cpu + 1, nr), (0, this_cpu + 1)] {
        let mut start = from;
        while let Some(cpu) = host.nohz().idle_cpus.as_set().first_from(start).filter(|&cpu| cpu < until) {
            start = cpu + 1;
            if !host.is_idle(cpu) {
                continue;
            }
            if !host.is_idle(this_cpu) && host.need_resched(this_cpu) {
                // It has something to do itself: whoever is asked next goes on.
                let nohz = host.nohz_mut();
                nohz.has_blocked |= flags & NOHZ_STATS_KICK != 0;
                nohz.needs_update |= flags & NOHZ_NEXT_KICK != 0;
                return;
            }
            if flags & NOHZ_STATS_KICK != 0 {
                has_blocked |= update_nohz_stats(host, this_cpu, cpu);
            }
            if !is_after(host.rq_balance(cpu).next_balance, now) {
                host.update_rq_clock(cpu);
                if flags & NOHZ_BALANCE_KICK != 0 {
                    host.balance_domains(this_cpu, cpu, true);
                }
            }
            let next = host.rq_balance(cpu).next_balance;
            if is_after(next_balance, next) {
                next_balance = next;
            }
        }
    }
    let nohz = host.nohz_mut();
    if next_balance != far {
        nohz.next_balance = next_balance;
    }
    if flags & NOHZ_STATS_KICK != 0 {
        nohz.next_blocked = now.wrapping_add(msecs_to_jiffies(LOAD_AVG_PERIOD, nohz.hz));
    }
    nohz.has_blocked |= has_blocked;
}

/// Lets `cpu` decay, at most once in a jiffy; returns whether anything is left (`update_nohz_stats()`).
fn update_nohz_stats<T: NohzHost>(host: &mut T, this_cpu: usize, cpu: usize) -> bool {
    let rq = &host.nohz().rqs[cpu];
    if !rq.has_blocked_load {
        return false;
    }
    if is_after(host.jiffies(), rq.last_update) {
        sched_balance_update_blocked_averages(host, this_cpu, cpu);
    }
    host.nohz().rqs[cpu].has_blocked_load
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::domains::Topology;
    use proptest::prelude::*;

    const N: usize = 4;

    /// Four CPUs: who runs how many, and what was done, by whom, for whom.
    struct Log {
        nohz: Nohz,
        jiffies: u64,
        rq: [RqBalance; N],
        running: [u32; N],
        is_left: [bool; N],
        misfit: bool,
        /// An update on behalf of this CPU gives the CPU that makes it something to do.
        wakes_at: Option<usize>,
        need_resched: bool,
        updated: Vec<(usize, usize)>,
        balanced: Vec<(usize, usize)>,
    }

    impl NohzHost for Log {
        fn nohz(&self) -> &Nohz {
            &self.nohz
        }
        fn nohz_mut(&mut self) -> &mut Nohz {
            &mut self.nohz
        }
        fn jiffies(&self) -> u64 {
            self.jiffies
        }
        fn rq_balance(&self, cpu: usize) -> &RqBalance {
            &self.rq[cpu]
        }
        fn is_idle(&self, cpu: usize) -> bool {
            self.running[cpu] == 0
        }
        fn need_resched(&self, _cpu: usize) -> bool {
            self.need_resched
        }
        fn nr_running(&self, cpu: usize) -> u32 {
            self.running[cpu]
        }
        fn has_reduced_capacity(&self, _cpu: usize, imbalance_pct: u32) -> bool {
            imbalance_pct == 0
        }
        fn has_misfit(&self, _cpu: usize) -> bool {
            self.misfit
        }
        fn update_rq_clock(&mut self, _cpu: usize) {}
        fn update_averages(&mut self, this_cpu: usize, cpu: usize) -> bool {
            self.updated.push((this_cpu, cpu));
            if self.wakes_at == Some(cpu) {
                (self.running[this_cpu], self.need_resched) = (1, true);
            }
            self.is_left[cpu]
        }
        fn balance_domains(&mut self, this_cpu: usize, cpu: usize, idle: bool) {
            assert_eq!(idle, self.is_idle(cpu));
            self.balanced.push((this_cpu, cpu));
            self.rq[cpu].next_balance = self.jiffies + 2;
        }
    }

    /// CPU 2 runs a task; the CPUs' own balances are not due.
    fn log_of(topology: &Topology, next_kick: bool) -> Log {
        let mut nohz = Nohz::new(&SchedDomains::build(topology), 250, 0, next_kick);
        nohz.next_balance = 1_000;
        Log {
            nohz,
            jiffies: 0,
            rq: [RqBalance { next_balance: 1_000, avg_idle: 2 * MIGRATION_COST_NS, ..RqBalance::default() }; N],
            running: [0, 0, 1, 0],
            is_left: [true; N],
            misfit: false,
            wakes_at: None,
            need_resched: false,
            updated: Vec::new(),
            balanced: Vec::new(),
        }
    }

    fn log() -> Log {
        log_of(&Topology::flat(N), false)
    }

    impl Log {
        /// The tick of `cpu` at `jiffies`, with the interrupt that it sends.
        fn tick(&mut self, cpu: usize, jiffies: u64) -> Option<usize> {
            self.jiffies = jiffies;
            let kicked = sched_balance_trigger(self, cpu);
            if let Some(ilb) = kicked {
                nohz_idle_balance(self, ilb);
            }
            kicked
        }
        /// The busy CPU's ticks at which averages were updated.
        fn ticks(&mut self, jiffies: std::ops::Range<u64>) -> Vec<(u64, Vec<(usize, usize)>)> {
            let step = |now| {
                self.tick(2, now);
                (now, std::mem::take(&mut self.updated))
            };
            jiffies.map(step).filter(|(_, updated)| !updated.is_empty()).collect()
        }
        /// `cpu` finds nothing more to run at `jiffies`.
        fn goes_idle(&mut self, cpu: usize, jiffies: u64) -> Vec<(usize, usize)> {
            self.jiffies = jiffies;
            nohz_newidle_balance(self, cpu);
            nohz_run_idle_balance(self, cpu);
            std::mem::take(&mut self.updated)
        }
    }

    /// Goal: idle CPUs decay after more than 32 ms, by the first of them, which is the last to be updated, as long as they have a load.
    #[test]
    fn the_first_idle_cpu_lets_the_others_decay() {
        let mut log = log();
        [1, 3].into_iter().for_each(|cpu| log.nohz.nohz_balance_enter_idle(cpu));
        let both = vec![(1, 3), (1, 1)];
        assert_eq!(log.ticks(1..20), [(1, both.clone()), (10, both.clone()), (19, both.clone())]);
        log.is_left = [false; N];
        assert_eq!(log.ticks(20..60), [(28, both)]);
    }

    /// Goal: a CPU that goes idle does it itself at 32 ms, not for itself unless it is known to be without a tick, and not if it is to wake soon.
    #[test]
    fn a_cpu_that_goes_idle_does_it_itself() {
        let mut log = log();
        log.nohz.nohz_balance_enter_idle(1);
        assert_eq!(log.goes_idle(0, 1), [(0, 1)]);
        assert_eq!(log.goes_idle(0, 8), []);
        assert_eq!(log.goes_idle(0, 9), [(0, 1)]);
        log.rq[0].avg_idle = MIGRATION_COST_NS - 1;
        assert_eq!(log.goes_idle(0, 20), []);
        log.rq[0].avg_idle = MIGRATION_COST_NS;
        log.nohz.nohz_balance_enter_idle(0);
        assert_eq!(log.goes_idle(0, 20), [(0, 1), (0, 0)]);
        log.need_resched = true;
        assert_eq!(log.goes_idle(0, 40), []);
    }

    /// Goal: averages are updated at most once a jiffy.
    #[test]
    fn once_in_a_jiffy_is_enough() {
        let mut log = log();
        [0, 1, 3].into_iter().for_each(|cpu| log.nohz.nohz_balance_enter_idle(cpu));
        log.jiffies = 1;
        sched_balance_update_blocked_averages(&mut log, 3, 3);
        log.updated.clear();
        log.tick(2, 1);
        assert_eq!(log.updated, [(0, 1), (0, 0)]);
        assert!(log.nohz.has_blocked);
    }

    /// Goal: a CPU stays among those without a tick until its first tick with something to run; until then the cache counts it as idle.
    #[test]
    fn a_busy_tick_ends_it() {
        let mut log = log();
        [0, 1].into_iter().for_each(|cpu| log.nohz.nohz_balance_enter_idle(cpu));
        assert_eq!((log.nohz.nr_busy[0], log.nohz.nr_cpus), (2, 2));
        log.tick(1, 1);
        assert!(log.nohz.idle_cpus.as_set().contains(1), "an idle tick");
        log.running[1] = 1;
        assert_eq!(log.tick(1, 2), Some(0));
        assert!(!log.nohz.idle_cpus.as_set().contains(1));
        assert_eq!((log.nohz.nr_busy[0], log.nohz.nr_cpus), (3, 1));
    }

    /// Goal: a CPU is asked to balance where one has two tasks, where two of a cache are busy, or where capacities differ and a task does not
    /// fit; once in a jiffy; and the next time is the earliest of the idle CPUs'.
    #[test]
    fn who_asks_for_balance() {
        let check = |log: &mut Log, expected: &[(usize, usize)]| {
            [0, 1].into_iter().for_each(|cpu| log.nohz.nohz_balance_enter_idle(cpu));
            (log.rq[0].next_balance, log.rq[1].next_balance) = (5, 5);
            (log.nohz.next_balance, log.nohz.has_blocked) = (5, false);
            log.tick(2, 5);
            assert_eq!(std::mem::take(&mut log.balanced), expected);
            assert_eq!(log.nohz.next_balance, if expected.is_empty() { 5 } else { 7 });
        };
        let both = [(0, 1), (0, 0)];
        check(&mut log(), &both);
        let mut caches = Topology::flat(N);
        caches.llc = vec![0, 0, 1, 1];
        // CPU 3 counts as busy while it ticks.
        check(&mut log_of(&caches, false), &both);
        let mut alone = log_of(&caches, false);
        alone.nohz.nohz_balance_enter_idle(3);
        alone.rq[3].next_balance = 9;
        check(&mut alone, &[]);
        alone.running[2] = 2;
        check(&mut alone, &both);
        let mut asym = Topology::flat(N);
        asym.capacity = vec![512, 512, 1024, 1024];
        let mut asym = log_of(&asym, false);
        check(&mut asym, &[]);
        asym.misfit = true;
        check(&mut asym, &both);
    }

    /// Goal: who asks first interrupts, later wishes join, and one that is busy when it is interrupted does nothing.
    #[test]
    fn wishes_join_until_the_interrupt_comes() {
        let mut log = log();
        [0, 1].into_iter().for_each(|cpu| log.nohz.nohz_balance_enter_idle(cpu));
        log.jiffies = 1;
        assert_eq!(sched_balance_trigger(&mut log, 2), Some(0));
        (log.nohz.next_balance, log.rq[1].next_balance) = (1, 1);
        assert_eq!(sched_balance_trigger(&mut log, 2), None);
        nohz_idle_balance(&mut log, 0);
        assert_eq!((&log.updated[..], &log.balanced[..]), (&[(0, 1), (0, 0)][..], &[(0, 1)][..]));
        log.jiffies = 20;
        assert_eq!(sched_balance_trigger(&mut log, 2), Some(0));
        log.running[0] = 1;
        nohz_idle_balance(&mut log, 0);
        assert_eq!(log.updated.len(), 2);
        assert_eq!(sched_balance_trigger(&mut log, 2), Some(1));
    }

    /// Goal: a CPU that gets something to do leaves the rest to the next.
    #[test]
    fn a_cpu_that_becomes_busy_stops() {
        let mut log = log();
        [0, 1, 3].into_iter().for_each(|cpu| log.nohz.nohz_balance_enter_idle(cpu));
        (log.is_left, log.wakes_at) = ([false; N], Some(1));
        log.tick(2, 1);
        assert_eq!(std::mem::take(&mut log.updated), [(0, 1)]);
        log.wakes_at = None;
        assert_eq!(log.tick(2, 2), Some(1));
        assert_eq!(log.updated, [(1, 3)]);
    }

    /// Goal: from v5.15 on a CPU that stops its tick has the next balance computed anew, which balances nothing.
    #[test]
    fn a_stopped_tick_has_the_next_balance_looked_for() {
        for (next_kick, expected) in [(false, 1_000), (true, 7)] {
            let mut log = log_of(&Topology::flat(N), next_kick);
            log.nohz.nohz_balance_enter_idle(0);
            (log.rq[0].next_balance, log.nohz.has_blocked) = (7, false);
            log.tick(2, 1);
            assert_eq!(log.nohz.next_balance, expected);
            assert_eq!((log.updated.len(), log.balanced.len()), (0, 0));
            assert_eq!(log.nohz.needs_update, !next_kick);
        }
    }

    /// Goal: a tick makes its CPU's own balance when that is due; the only CPU of a machine makes none.
    #[test]
    fn a_tick_balances_its_own_cpu() {
        let mut log = log();
        log.rq[3].next_balance = 5;
        [4, 5, 6].into_iter().for_each(|now| assert_eq!(log.tick(3, now), None));
        assert_eq!((&log.updated[..], &log.balanced[..]), (&[(3, 3)][..], &[(3, 3)][..]));
        let mut single = log_of(&Topology::flat(1), true);
        single.nohz.nohz_balance_enter_idle(0);
        (single.rq[0].next_balance, single.running[0]) = (0, 1);
        single.tick(0, 5);
        assert_eq!((single.updated.len(), single.nohz.nr_cpus), (0, 0));
    }

    proptest! {
        /// What is counted is what is there, each CPU is served at most once and only while it idles, and no order of things panics.
        #[test]
        fn counts_hold(steps in proptest::collection::vec((0usize..N, 0u8..5, 0u64..20, any::<bool>()), 1..200)) {
            let mut log = log_of(&Topology::flat(N), true);
            for (cpu, what, jiffies, yes) in steps {
                log.jiffies += jiffies;
                log.is_left[cpu] = yes;
                match what {
                    0 => log.running[cpu] = u32::from(yes),
                    1 if log.running[cpu] == 0 => log.nohz.nohz_balance_enter_idle(cpu),
                    2 => {
                        sched_balance_trigger(&mut log, cpu);
                    }
                    3 => nohz_idle_balance(&mut log, cpu),
                    _ => {
                        nohz_newidle_balance(&mut log, cpu);
                        if yes {
                            nohz_run_idle_balance(&mut log, cpu);
                        }
                    }
                }
                let nohz = &log.nohz;
                prop_assert_eq!(nohz.nr_cpus, nohz.idle_cpus.as_set().weight());
                prop_assert_eq!(nohz.nr_busy[0] + nohz.nr_cpus, N as u32);
                let asked = nohz.rqs.iter().filter(|rq| rq.flags & NOHZ_NEWILB_KICK != 0).count();
                prop_assert_eq!(nohz.nr_newilb as usize, asked);
                let mut served = std::mem::take(&mut log.updated);
                prop_assert!(served.iter().all(|&(this_cpu, cpu)| this_cpu == cpu || log.running[cpu] == 0));
                let nr = served.len();
                served.sort_unstable();
                served.dedup();
                prop_assert_eq!(nr, served.len());
                prop_assert!(log.balanced.len() <= N);
                log.balanced.clear();
            }
        }
    }
}
