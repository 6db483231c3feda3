//! Load balance: when the engine calls the kernel's balancer, and what the balancer may do to the engine.
//!
//! The passes themselves are crate `kernel`'s (`sched::balance`, `sched::newidle`). A pass takes no simulated time of its
//! own; its modelled cost only enters the kernel's own bookkeeping of what balancing costs.

use std::rc::Rc;

use opplab_kernel::pelt::HalfLife;
use opplab_kernel::profile::SelectIdleScan;
use opplab_kernel::sched::balance::{Pass, sched_balance_rq};
use opplab_kernel::sched::balance_env::{BalanceFacts, BalanceHost, BalanceTask, IdleType, Jiffies, RootDomain};
use opplab_kernel::sched::cpumask::CpuSet;
use opplab_kernel::sched::group::{CpuLoad, scale_rt_capacity};
use opplab_kernel::sched::group_sums::GroupSum;
use opplab_kernel::sched::newidle::{
    DomainBalance, MIGRATION_COST_NS, NewidleFacts, NewidleHost, Pulled, RqBalance, msecs_to_jiffies,
    sched_balance_domains, sched_balance_newidle,
};
use opplab_kernel::sched::nohz::{Nohz, NohzHost, nohz_newidle_balance, sched_balance_trigger};
use opplab_model::decision::Decision;
use opplab_model::event::{PlacementRule, Sink};
use rand_core::Rng;

use crate::ids::{CpuId, TaskId};
use crate::run::cpu::Interrupt;
use crate::run::engine::Engine;
use crate::run::task::Class;
use crate::sched::balancer::Balancer;

/// Modelled cost of one pass in ns.
const PASS_COST_NS: u64 = 300;
/// Modelled cost of each CPU that a pass or a wake-up looks at, in ns.
pub(crate) const LOOK_COST_NS: u64 = 40;

/// The engine as the balancer sees it, while `cpu` balances.
struct Host<'e, 'c, S: Sink, H: HalfLife> {
    engine: &'e mut Engine<'c, S, H>,
    cpu: CpuId,
    /// The modelled clock that passes move on.
    clock_ns: u64,
}

/// What the balancer knows of a CPU.
pub(crate) fn cpu_load<S: Sink, H: HalfLife>(engine: &Engine<'_, S, H>, cpu: usize) -> CpuLoad {
    let state = &engine.cpus[cpu];
    CpuLoad {
        load: state.cfs.avg.load_avg,
        util: state.cfs.avg.util_avg,
        runnable: state.cfs.avg.runnable_avg,
        util_est: crate::sched::rq_facts::cfs_util_est(state, &engine.gates),
        nr_running: state.rq_nr_running(),
        h_nr_queued: state.fair.nr_queued(),
        capacity: state.capacities(),
        misfit_task_load: state.misfit_task_load,
        clamps: if engine.uclamp_used { state.clamps.value().of_queue(engine.gates.profile.uclamp_fit) } else { None },
    }
}

impl<S: Sink, H: HalfLife> BalanceFacts for Host<'_, '_, S, H> {
    fn cpu(&self, cpu: usize) -> CpuLoad {
        cpu_load(self.engine, cpu)
    }
    fn queued_load(&self, cpu: usize) -> u64 {
        self.engine.queued_load(CpuId::of(cpu))
    }
    fn group_sum(&self, sgc: usize) -> Option<&GroupSum> {
        self.engine.balancer.sums.as_ref()?.of(sgc)
    }
    fn idle(&self) -> CpuSet<'_> {
        self.engine.idle_cpus.idle()
    }
    fn ttwu_pending(&self, cpu: usize) -> bool {
        !self.engine.cpus[cpu].wake_list.is_empty()
    }
    fn smt_mask(&self, cpu: usize) -> CpuSet<'_> {
        self.engine.topology.smt_masks[cpu].as_set()
    }
    fn smt_active(&self) -> bool {
        self.engine.topology.smt_active
    }
    fn asym_priority(&self, cpu: usize) -> i32 {
        self.engine.topology.asym_priority.as_ref().map_or(0, |priority| priority[cpu])
    }
    fn energy_aware(&self) -> bool {
        self.engine.eas.is_some()
    }
    #[inline(always)]
    fn is_overutilized(&self, cpu: usize, rq: &CpuLoad) -> bool {
        let proposed = match self.engine.gates.proposes {
            true => self.engine.proposed_overutilized(CpuId::of(cpu), rq.util_cfs()),
            false => None,
        };
        proposed.unwrap_or_else(|| rq.is_overutilized())
    }
    fn notices_overutilized(&self) -> bool {
        !self.engine.case.policy.no_overutilized && !self.engine.gates.sd_overutilized
    }
    fn llc_size(&self, cpu: usize) -> Option<u32> {
        Some(self.engine.topology.llc_size[self.engine.topology.llc_of[cpu]])
    }
}

impl<S: Sink, H: HalfLife> BalanceHost for Host<'_, '_, S, H> {
    fn update_group_sums(&mut self) {
        self.engine.update_group_sums();
    }
    fn task(&self, task: u32, dst: usize) -> BalanceTask<'_> {
        let task = TaskId(task);
        let state = &self.engine.tasks[task];
        BalanceTask {
            h_load: self.engine.task_h_load(task),
            util: self.engine.task_util_est(task),
            clamps: self.engine.task_clamps(task),
            exec_start: self.engine.entities[task].exec_start,
            allowed: self.engine.cpu_sets.cpus(state.allowed),
            is_running: state.on_cpu,
            is_idle_policy: self.engine.entities[task].is_idle_policy(),
            is_fair: state.class == Class::Fair,
            // Nor do tasks of throttled groups move.
            is_per_cpu_kthread: self.engine.throttled_lb_pair(state.group, state.cpu, CpuId::of(dst)),
            is_next_buddy: false,
        }
    }
    fn last_task(&self, cpu: usize) -> Option<u32> {
        self.engine.balancer.lists.last(cpu)
    }
    fn task_before(&self, task: u32) -> Option<u32> {
        self.engine.balancer.lists.before(task)
    }
    fn move_to_head(&mut self, cpu: usize, task: u32) {
        self.engine.balancer.lists.move_to_head(cpu, task);
    }
    fn clock_task(&mut self, cpu: usize) -> u64 {
        self.engine.update_rq_clock(CpuId::of(cpu));
        self.engine.cpus[cpu].clk.clock_task
    }
    fn detach_task(&mut self, task: u32, src: usize, _dst: usize) {
        let (task, src) = (TaskId(task), CpuId::of(src));
        if self.engine.cpus[src].idle.is_awake() {
            self.engine.account(src);
        }
        self.engine.update_rq_clock(src);
        if self.engine.entities[task].sched_delayed {
            self.engine.detach_delayed(src, task);
        } else {
            self.engine.detach_queued(src, task);
        }
    }
    fn attach_task(&mut self, task: u32, dst: usize) {
        let task = TaskId(task);
        let src = self.engine.tasks[task].cpu;
        self.engine.move_queued(task, src, CpuId::of(dst), PlacementRule::Balance);
    }
    fn curr_may_run_on(&self, src: usize, dst: usize) -> bool {
        let curr = self.engine.cpus[src].curr;
        curr != TaskId::IDLE && self.engine.cpu_sets.cpus(self.engine.tasks[curr].allowed).contains(dst)
    }
    fn start_active_balance(&mut self, src: usize, dst: usize) -> bool {
        let (curr, now) = (self.engine.cpus[src].curr, self.engine.now);
        let Balancer { pushes, pushed, .. } = &mut self.engine.balancer;
        // Stoppers take time, here none: two CPUs that shrink would hand a task to and fro for ever.
        if pushes.iter().any(|&(from, _)| from == CpuId::of(src)) || pushed.contains(&(now, curr)) {
            return false;
        }
        pushes.push((CpuId::of(src), CpuId::of(dst)));
        true
    }
    fn update_cpu_capacity(&mut self, cpu: usize) -> u64 {
        self.engine.update_cpu_capacity(CpuId::of(cpu));
        self.engine.cpus[cpu].capacity_of
    }
    fn set_nr_idle_scan(&mut self, cpu: usize, nr_idle_scan: u32) {
        if self.engine.gates.select_idle_scan == SelectIdleScan::SisUtil {
            let llc = self.engine.topology.llc_of[cpu];
            self.engine.idle_cpus.set_nr_idle_scan(llc, nr_idle_scan);
        }
    }
}

impl<S: Sink, H: HalfLife> Host<'_, '_, S, H> {
    fn record_pass(&mut self, level: usize, span_weight: u32, idle: IdleType, src: usize, pass: &Pass) {
        let pushed = !self.engine.balancer.pushes.is_empty();
        if pass.ld_moved == 0 && !pushed {
            return;
        }
        self.engine.record(Decision::Balance {
            dst_cpu: self.cpu.0,
            src_cpu: src as u32,
            level: level as u32,
            span_weight,
            idle: idle as u8,
            migration: pass.migration_type as u8,
            imbalance: pass.imbalance,
            moved: pass.ld_moved,
            pushed,
        });
    }
}

impl<S: Sink, H: HalfLife> NewidleHost for Host<'_, '_, S, H> {
    fn balance(&mut self, level: usize, domain: &mut DomainBalance, idle: IdleType) -> Pulled {
        let domains = Rc::clone(&self.engine.balancer.domains);
        let Some(view) = domains.view(self.cpu.index(), level) else {
            return Pulled { ld_moved: 0, continue_balancing: false };
        };
        self.clock_ns += PASS_COST_NS + LOOK_COST_NS * u64::from(view.span_weight);
        let each_domain = self.engine.has_domain_flags();
        let sd_balances = each_domain && self.engine.sd_balances(self.cpu, level, idle);
        let balancer = &mut self.engine.balancer;
        let mut sgc = std::mem::take(&mut balancer.sgc);
        let mut scratch = std::mem::take(&mut balancer.scratch);
        let active = std::mem::take(&mut balancer.active);
        let tunables = balancer.tunables;
        let was_overutilized = self.engine.overutilized.is_set();
        let overutilized = if each_domain { sd_balances } else { was_overutilized };
        let mut rd = RootDomain { overloaded: balancer.rd_overloaded, overutilized };
        let interval = msecs_to_jiffies(domain.pass.balance_interval as u32, balancer.hz);
        let jiffies = Jiffies {
            now: self.engine.jiffies(),
            interval: interval.clamp(1, self.engine.balancer.clock_max_interval),
        };
        let cpu = self.cpu.index();
        let pass = sched_balance_rq(
            self,
            view,
            &mut domain.pass,
            &mut sgc,
            &mut rd,
            active.as_set(),
            cpu,
            idle,
            jiffies,
            &tunables,
            &mut scratch,
        );
        let balancer = &mut self.engine.balancer;
        (balancer.sgc, balancer.scratch, balancer.active) = (sgc, scratch, active);
        balancer.rd_overloaded = rd.overloaded;
        if S::DECISIONS
            && let Some(src) = pass.src_cpu
        {
            self.record_pass(level, view.span_weight, idle, src, &pass);
        }
        // A task that arrived in this pass may have set the state again.
        if !each_domain && (was_overutilized || !self.engine.overutilized.is_set()) {
            self.engine.set_overutilized(rd.overutilized);
        }
        self.engine.run_pushes();
        Pulled { ld_moved: pass.ld_moved, continue_balancing: pass.continue_balancing }
    }
    fn sched_clock(&mut self) -> u64 {
        self.clock_ns
    }
    fn update_blocked_averages(&mut self) {
        let is_left = self.engine.update_blocked_averages(self.cpu);
        let jiffies = self.engine.jiffies();
        self.engine.balancer.nohz.blocked_averages_updated(self.cpu.index(), jiffies, is_left);
    }
    fn sched_rng(&mut self) -> u32 {
        self.engine.rng.next_u32()
    }
    fn nr_running(&self) -> u32 {
        self.engine.cpus[self.cpu].rq_nr_running()
    }
    fn h_nr_queued(&self) -> u32 {
        self.engine.cpus[self.cpu].fair.nr_queued()
    }
    fn is_sched_idle(&self) -> bool {
        self.engine.cpus[self.cpu].is_sched_idle()
    }
    fn is_idle(&self) -> bool {
        self.engine.cpus[self.cpu].is_idle()
    }
    fn try_serialize(&mut self) -> bool {
        !std::mem::replace(&mut self.engine.balancer.serialized, true)
    }
    fn end_serialize(&mut self) {
        self.engine.balancer.serialized = false;
    }
    fn leaves_to_energy(&self, level: usize) -> bool {
        self.engine.leaves_to_energy(self.cpu, level)
    }
}

impl<S: Sink, H: HalfLife> NohzHost for Engine<'_, S, H> {
    fn nohz(&self) -> &Nohz {
        &self.balancer.nohz
    }
    fn nohz_mut(&mut self) -> &mut Nohz {
        &mut self.balancer.nohz
    }
    fn jiffies(&self) -> u64 {
        self.now / self.tick_ns
    }
    fn rq_balance(&self, cpu: usize) -> &RqBalance {
        &self.cpus[cpu].balance
    }
    fn is_idle(&self, cpu: usize) -> bool {
        self.cpus[cpu].is_idle()
    }
    fn need_resched(&self, cpu: usize) -> bool {
        self.cpus[cpu].need_resched
    }
    fn nr_running(&self, cpu: usize) -> u32 {
        self.cpus[cpu].rq_nr_running()
    }
    fn has_reduced_capacity(&self, cpu: usize, imbalance_pct: u32) -> bool {
        self.cpus[cpu].fair.nr_queued() > 0 && cpu_load(self, cpu).has_reduced_capacity(imbalance_pct)
    }
    fn has_misfit(&self, cpu: usize) -> bool {
        self.cpus[cpu].misfit_task_load > 0
    }
    fn asym_packing(&self) -> bool {
        self.topology.asym_priority.is_some()
    }
    fn sched_asym(&self, dst: usize, src: usize) -> bool {
        let core_idles = || self.topology.smt_masks[dst].as_set().is_subset(self.idle_cpus.idle());
        let ranks = self.topology.asym_priority.as_ref();
        ranks.is_some_and(|ranks| ranks[dst] > ranks[src]) && (!self.topology.smt_active || core_idles())
    }
    fn update_rq_clock(&mut self, cpu: usize) {
        Engine::update_rq_clock(self, CpuId::of(cpu));
    }
    fn update_averages(&mut self, this_cpu: usize, cpu: usize) -> bool {
        debug_assert_eq!(self.here.index(), this_cpu);
        let is_left = self.update_blocked_averages(CpuId::of(cpu));
        // Softirqs and the idle task let interrupts in, so that what a governor raised on its CPU comes at once. A CPU that it
        // wakes without delay executes inside of it, and then this one goes on.
        self.run_irq_work();
        self.here = CpuId::of(this_cpu);
        is_left
    }
    /// fair.c:sched_balance_domains().
    fn balance_domains(&mut self, this_cpu: usize, cpu: usize, idle: bool) {
        let clock = self.balancer.clock(self.jiffies());
        let mut rq = self.cpus[cpu].balance;
        let mut domains = std::mem::take(&mut self.balancer.state[cpu]);
        let clock_ns = self.now;
        let mut host = Host { engine: self, cpu: CpuId::of(cpu), clock_ns };
        let idle = if idle { IdleType::Idle } else { IdleType::NotIdle };
        sched_balance_domains(&mut host, &mut rq, &mut domains, idle, &clock, MIGRATION_COST_NS);
        self.balancer.state[cpu] = domains;
        // A push may have ended an idle period meanwhile.
        let state = &mut self.cpus[cpu].balance;
        (state.next_balance, state.max_idle_balance_cost) = (rq.next_balance, rq.max_idle_balance_cost);
        self.here = CpuId::of(this_cpu);
    }
}

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// [`Cpu::note_change`].
    #[inline]
    pub(crate) fn note_change(&mut self, cpu: CpuId) {
        self.cpus[cpu].note_change(cpu, &mut self.balancer.changed);
    }

    /// Brings the sums over groups up to date.
    pub(crate) fn update_group_sums(&mut self) {
        if self.balancer.sums.is_none() {
            return;
        }
        while let Some(cpu) = self.balancer.changed.pop() {
            self.cpus[cpu].changed = false;
            let state = &self.cpus[cpu];
            let is_idle = self.idle_cpus.idle().contains(cpu.index());
            let is_idle_without = state.curr == TaskId::IDLE && state.wake_list.is_empty();
            let part = GroupSum::of(&cpu_load(self, cpu.index()), is_idle, is_idle_without);
            if let Some(sums) = &mut self.balancer.sums {
                sums.set(cpu.index(), part);
            }
        }
    }

    /// fair.c:update_cpu_capacity().
    pub(crate) fn update_cpu_capacity(&mut self, cpu: CpuId) {
        self.note_change(cpu);
        let state = &mut self.cpus[cpu];
        let capacity = state.capacities();
        state.capacity_of =
            scale_rt_capacity(&capacity, state.rt.util_avg, state.dl.util_avg, state.irq.util_avg).max(1);
    }

    /// fair.c:sched_balance_newidle(): pulls a task for a CPU that runs out of work; returns whether to pick again. Not inlined, so that
    /// its instructions are counted.
    #[inline(never)]
    pub(crate) fn newidle_balance(&mut self, cpu: CpuId) -> bool {
        self.update_misfit_status(cpu, None);
        let facts = NewidleFacts {
            ttwu_pending: !self.cpus[cpu].wake_list.is_empty(),
            cpu_active: true,
            rd_overloaded: self.balancer.rd_overloaded,
            rq_clock: self.cpus[cpu].clk.clock,
            least: self.gates.profile.newidle_least,
            skip: self.gates.newidle_skip,
        };
        let clock = self.balancer.clock(self.jiffies());
        let mut rq = self.cpus[cpu].balance;
        let mut domains = std::mem::take(&mut self.balancer.state[cpu]);
        let clock_ns = self.now;
        let mut host = Host { engine: self, cpu, clock_ns };
        let newidle = sched_balance_newidle(&mut host, &mut rq, &mut domains, &facts, &clock);
        self.balancer.state[cpu] = domains;
        self.cpus[cpu].balance = rq;
        if newidle.nohz_newidle {
            nohz_newidle_balance(self, cpu.index());
        }
        // The CPU is still within schedule().
        self.note_change(cpu);
        newidle.pulled != 0 || self.cpus[cpu].nr_running > 0
    }

    /// What each tick of `cpu` makes the balancer do.
    pub(crate) fn trigger_load_balance(&mut self, cpu: CpuId) {
        if let Some(ilb) = sched_balance_trigger(self, cpu.index()) {
            let here = self.here;
            self.interrupt(CpuId::of(ilb), Interrupt::NohzBalance);
            self.here = here;
        }
    }

    /// The stopper threads' work: pushes running tasks that a pass asked for (active_load_balance_cpu_stop()).
    fn run_pushes(&mut self) {
        for (src, dst) in std::mem::take(&mut self.balancer.pushes) {
            let now = self.now;
            self.balancer.pushed.retain(|&(then, _)| then == now);
            self.balancer.pushed.push((now, self.cpus[src].curr));
            self.push_running(src, dst);
        }
    }

    pub(crate) fn push_running(&mut self, src: CpuId, dst: CpuId) {
        let curr = self.cpus[src].curr;
        if curr == TaskId::IDLE || self.tasks[curr].class != Class::Fair {
            return;
        }
        let allowed = self.cpu_sets.cpus(self.tasks[curr].allowed);
        let is_throttled = self.throttled_lb_pair(self.tasks[curr].group, src, dst);
        if is_throttled || !allowed.contains(dst.index()) || !self.entities[curr].on_rq {
            return;
        }
        self.account(src);
        self.update_rq_clock(src);
        self.put_prev_task_fair(src, curr);
        self.detach_queued(src, curr);
        self.detached_current(src);
        self.move_queued(curr, src, dst, PlacementRule::ActiveBalance);
    }
}
