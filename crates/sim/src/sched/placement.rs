//! Wake-up placement (fair.c:select_task_rq_fair()).

use opplab_kernel::pelt::HalfLife;
use opplab_kernel::profile::{
    AsymWakes, BoundKworkerWakes, IdlestGroup, Misfit, RecentUsedCpu, SelectIdleScan, WakeAffineIdle, WakeAffinePrev,
};
use opplab_kernel::sched::cpumask::CpuSet;
use opplab_kernel::sched::domains::{SD_BALANCE_EXEC, SD_BALANCE_FORK, SD_BALANCE_WAKE};
use opplab_kernel::sched::find_idlest::{sched_balance_find_dst_cpu, top_level};
use opplab_kernel::sched::group::{CpuLoad, DomainView, GroupCapacity};
use opplab_kernel::sched::group_sums::GroupSum;
use opplab_kernel::sched::idlest_facts::{IdleInfo, IdlestFacts, IdlestTask};
use opplab_kernel::sched::placement::{
    CpuCapacity, SiblingFacts, SiblingQuery, SiblingRule, WakeAffineFacts, affine_domain, fits_capacity,
    select_idle_sibling, select_idle_sibling_v510, util_fits_cpu, wake_affine, wake_wide,
};
use opplab_model::decision::{Decision, NONE};
use opplab_model::event::{Event, PlacementRule, Sink};
use opplab_model::policy_values::Placement;
use rand_core::Rng;

use crate::ids::{CpuId, CpuSetId, TaskId};
use crate::run::engine::Engine;
use crate::run::task::{Class, Life};
use crate::sched::balance::{LOOK_COST_NS, cpu_load};
use crate::sched::fair_rq::FairRq;
use crate::sched::overutilized::Change;

/// What the fair class's placement looked at, kept for the record of it.
#[derive(Debug, Clone, Copy)]
struct Note {
    sync: bool,
    eas_rule: u8,
    wake_wide: bool,
    imbalance_pct: u32,
    affine_rule: u8,
    /// Of the waking CPU, the previous CPU and the task.
    loads: [u64; 3],
    target: CpuId,
    sibling_rule: u8,
}

impl Note {
    fn of(prev: CpuId, sync: bool) -> Self {
        Self {
            sync,
            eas_rule: NONE,
            wake_wide: false,
            imbalance_pct: 0,
            affine_rule: NONE,
            loads: [0; 3],
            target: prev,
            sibling_rule: NONE,
        }
    }
}

/// The engine as select_idle_sibling() sees it.
struct Siblings<'a, 'c, S: Sink, H: HalfLife>(&'a Engine<'c, S, H>);

impl<S: Sink, H: HalfLife> SiblingFacts for Siblings<'_, '_, S, H> {
    fn idle(&self) -> CpuSet<'_> {
        self.0.idle_cpus.idle()
    }
    fn idle_or_sched_idle(&self) -> CpuSet<'_> {
        self.0.idle_cpus.idle_like()
    }
    fn llc_span(&self, cpu: usize) -> Option<CpuSet<'_>> {
        let topology = &self.0.topology;
        let llc = topology.llc_of[cpu];
        (topology.llc_size[llc] > 1).then(|| topology.llc_masks[llc].as_set())
    }
    fn share_cache(&self, one: usize, other: usize) -> bool {
        self.0.topology.share_cache(CpuId::of(one), CpuId::of(other))
    }
    fn smt_mask(&self, cpu: usize) -> CpuSet<'_> {
        self.0.topology.smt_masks[cpu].as_set()
    }
    fn smt_active(&self) -> bool {
        self.0.topology.smt_active
    }
    fn has_idle_cores(&self, cpu: usize) -> bool {
        self.0.idle_cpus.has_idle_cores(self.0.topology.llc_of[cpu])
    }
    fn nr_idle_scan(&self, cpu: usize) -> Option<u32> {
        let llc = self.0.topology.llc_of[cpu];
        let here = &self.0.cpus[self.0.here];
        let span_weight = self.0.topology.llc_size[llc];
        match self.0.gates.select_idle_scan {
            SelectIdleScan::SisUtil if !self.0.gates.sis_util => None,
            SelectIdleScan::SisUtil => self.0.idle_cpus.nr_idle_scan(llc),
            SelectIdleScan::SisProp => Some(here.sis_prop.limit(span_weight, here.balance.avg_idle)),
            SelectIdleScan::SisPropAged => Some(here.sis_prop.limit_aged(span_weight)),
        }
    }
    fn asym_span(&self, cpu: usize) -> Option<CpuSet<'_>> {
        let is_in = |mask: &CpuSet<'_>| mask.contains(cpu);
        self.0.topology.asym.as_ref().map(|mask| mask.as_set()).filter(is_in).filter(|_| self.asym_active())
    }
    fn asym_active(&self) -> bool {
        self.0.topology.asym.is_some() && self.0.gates.profile.asym_wakes == AsymWakes::Search
    }
    fn capacity(&self, cpu: usize) -> CpuCapacity {
        let state = &self.0.cpus[cpu];
        state.capacities()
    }
}

/// The engine as the slow path sees it.
struct Idlest<'a, 'c, S: Sink, H: HalfLife> {
    engine: &'a Engine<'c, S, H>,
    /// Who is placed.
    task: TaskId,
}

impl<S: Sink, H: HalfLife> IdlestFacts for Idlest<'_, '_, S, H> {
    fn cpu(&self, cpu: usize) -> CpuLoad {
        cpu_load(self.engine, cpu)
    }
    fn runnable_load(&self, cpu: usize) -> u64 {
        self.engine.queued_load(CpuId::of(cpu))
    }
    fn is_idle(&self, cpu: usize) -> bool {
        self.engine.cpus[cpu].is_idle()
    }
    fn is_sched_idle(&self, cpu: usize) -> bool {
        self.engine.cpus[cpu].is_sched_idle()
    }
    fn is_idle_without_task(&self, cpu: usize) -> bool {
        let state = &self.engine.cpus[cpu];
        (state.curr == TaskId::IDLE || state.curr == self.task) && state.wake_list.is_empty()
    }
    fn idle_info(&self, cpu: usize) -> IdleInfo {
        let state = &self.engine.cpus[cpu];
        let states = &self.engine.clusters[state.cluster].idle_states;
        let resident = !state.idle.is_awake();
        let exit = states.get(state.idle.state).filter(|_| resident);
        IdleInfo {
            idle_stamp: state.balance.idle_stamp,
            exit_latency_us: exit.map(|idle| (idle.exit_latency_ns / 1000) as u32),
        }
    }
    fn group_sum(&self, sgc: usize) -> Option<&GroupSum> {
        self.engine.balancer.sums.as_ref()?.of(sgc)
    }
    fn group_capacity(&self, sgc: usize) -> GroupCapacity {
        self.engine.balancer.sgc[sgc]
    }
    fn domain(&self, cpu: usize, level: usize) -> Option<DomainView<'_>> {
        self.engine.topology.domains.view(cpu, level)
    }
    fn n_levels(&self) -> usize {
        self.engine.topology.domains.max_levels()
    }
}

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// core.c:select_task_rq() on a wake-up: where, and by which rule. Not inlined, so that its instructions are counted.
    #[inline(never)]
    pub(crate) fn select_task_rq(&mut self, task: TaskId, prev: CpuId, sync: bool) -> (CpuId, PlacementRule) {
        let mut note = Note::of(prev, sync);
        let (cpu, rule) = self.select_task_rq_noted(task, prev, sync, &mut note);
        if S::DECISIONS {
            self.record_placement(task, false, (prev, cpu, rule), &note);
        }
        (cpu, rule)
    }

    fn record_placement(&mut self, task: TaskId, fork: bool, moved: (CpuId, CpuId, PlacementRule), note: &Note) {
        let (prev_cpu, cpu, rule) = moved;
        let state = &self.tasks[task];
        let llc = &self.topology.llc_masks[self.topology.llc_of[note.target]];
        let decision = Decision::Placement {
            decision: self.journal.placement(),
            task: task.0,
            fork,
            prev_cpu: prev_cpu.0,
            cpu: cpu.0,
            rule,
            waker_cpu: self.here.0,
            waker: self.cpus[self.here].curr.0,
            in_interrupt: self.in_interrupt,
            sync: note.sync,
            nr_allowed: self.cpu_sets.cpus(state.allowed).weight(),
            util_avg: state.sa.util_avg as u32,
            util_est: self.task_util_est(task) as u32,
            overutilized: self.overutilized.is_set(),
            eas_rule: note.eas_rule,
            wake_wide: note.wake_wide,
            imbalance_pct: note.imbalance_pct,
            affine_rule: note.affine_rule,
            this_load: note.loads[0],
            prev_load: note.loads[1],
            task_load: note.loads[2],
            target: note.target.0,
            sibling_rule: note.sibling_rule,
            nr_idle: llc.as_set().weight_and(self.idle_cpus.idle()),
        };
        self.journal.placement_ends();
        self.record(decision);
    }

    /// Records where a new task goes: where its template puts it, the only CPU that it may use, or the idlest.
    pub(crate) fn record_fork(&mut self, task: TaskId, parent_cpu: CpuId, cpu: CpuId) {
        let state = &self.tasks[task];
        let spawn_cpu = self.case.workload.tasks.get(state.spec as usize).and_then(|spec| spec.spawn_cpu).map(CpuId);
        let rule = if spawn_cpu == Some(cpu) || self.cpu_sets.is_single(state.allowed) {
            PlacementRule::Pinned
        } else {
            PlacementRule::Idlest
        };
        let note = Note::of(parent_cpu, false);
        self.record_placement(task, true, (parent_cpu, cpu, rule), &note);
    }

    fn select_task_rq_noted(
        &mut self,
        task: TaskId,
        prev: CpuId,
        sync: bool,
        note: &mut Note,
    ) -> (CpuId, PlacementRule) {
        match self.tasks[task].class {
            Class::Deadline => return (self.select_task_rq_dl(task, prev), PlacementRule::Deadline),
            Class::RealTime => return (self.select_task_rq_rt(task, prev), PlacementRule::RealTime),
            Class::Fair => {}
        }
        let allowed_idx = self.tasks[task].allowed;
        if self.cpu_sets.is_single(allowed_idx) {
            return (self.cpu_sets.cpus(allowed_idx).first().map_or(CpuId(0), CpuId::of), PlacementRule::Pinned);
        }
        if let Some(chosen) = self.select_task_rq_custom(task, prev, sync, false) {
            return chosen;
        }
        if self.case.policy.placement == Placement::Random {
            let allowed = self.cpu_sets.cpus(allowed_idx);
            let nth = self.rng.next_u32() % allowed.weight();
            let cpu = allowed.iter().nth(nth as usize).unwrap_or(0);
            return (CpuId::of(cpu), PlacementRule::Custom);
        }
        let (cpu, rule) = self.select_task_rq_fair(task, prev, sync, note);
        let allowed = self.cpu_sets.cpus(allowed_idx);
        if allowed.contains(cpu.index()) {
            (cpu, rule)
        } else {
            // select_fallback_rq().
            (allowed.first().map_or(CpuId(0), CpuId::of), PlacementRule::Pinned)
        }
    }

    fn select_task_rq_fair(
        &mut self,
        task: TaskId,
        prev: CpuId,
        sync: bool,
        note: &mut Note,
    ) -> (CpuId, PlacementRule) {
        let here = self.here;
        let waker = self.cpus[here].curr;
        // sync is only believed from a task that is about to sleep, not from an interrupt or a task that exits (PF_EXITING).
        let exits = waker != TaskId::IDLE && self.tasks[waker].life == Life::Dead;
        let sync = sync && !self.in_interrupt && !exits;
        let (jiffies, hz) = (self.jiffies(), u64::from(self.case.policy.hz));
        // An interrupt wakes in the name of what it interrupts; the idle task of a CPU is a waker as others are.
        let flips = match self.tasks.get_mut(waker) {
            Some(waker) => &mut waker.flips,
            None => &mut self.cpus[here].idle_flips,
        };
        flips.record_wakee(task.0, jiffies, hz);
        let waker_flips = flips.flips;
        if self.topology.asym.is_some()
            || (self.eas.is_some() && (self.gates.eas_groups || !self.overutilized.is_set()))
        {
            // Others know only what the task was when it was enqueued or ticked last.
            self.sync_entity_load_avg(task, prev);
        }
        if self.gates.eas_groups {
            if self.eas.is_some()
                && let Some(chosen) = self.place_by_groups(task, prev)
            {
                return chosen;
            }
        } else if self.eas.is_some()
            && !self.overutilized.is_set()
            && let Some(cpu) = self.find_energy_efficient_cpu(task, prev, &mut note.eas_rule)
        {
            return (cpu, PlacementRule::Eas);
        }
        let allowed = self.cpu_sets.cpus(self.tasks[task].allowed);
        let wakee_flips = self.tasks[task].flips.flips;
        let llc_size = self.topology.llc_size[self.topology.llc_of[here]];
        note.sync = sync;
        note.wake_wide = wake_wide(waker_flips, wakee_flips, llc_size);
        let by_capacity = self.gates.profile.asym_wakes == AsymWakes::SlowPath && self.topology.asym.is_some();
        let want_affine =
            !note.wake_wide && allowed.contains(here.index()) && !(by_capacity && self.wake_cap(task, here, prev));
        if by_capacity && !want_affine && self.gates.idle_sibling {
            return (self.find_idlest(task, here, SD_BALANCE_WAKE), PlacementRule::Idlest);
        }
        let mut target = prev;
        // The lowest domain with SD_WAKE_AFFINE that holds both CPUs decides; without one the task stays near its CPU.
        let domain_pct = if want_affine && here != prev { self.affine_imbalance_pct(here, prev) } else { None };
        if let Some(imbalance_pct) = domain_pct
            && self.wake_affine_to_here(task, here, prev, (sync, imbalance_pct), note)
        {
            target = here;
        }
        if !self.gates.idle_sibling {
            note.target = target;
            return (target, PlacementRule::Target);
        }
        let scan = self.gates.select_idle_scan;
        if scan == SelectIdleScan::SisPropAged {
            self.cpus[here].sis_prop.age(jiffies);
        }
        let allowed = self.cpu_sets.cpus(self.tasks[task].allowed);
        let (util, clamps) = (self.task_util_est(task), self.task_clamps(task));
        let this_is_per_cpu_kthread = self.gates.profile.bound_kworker_wakes == BoundKworkerWakes::Stacks
            && !self.in_interrupt
            && waker != TaskId::IDLE
            && self.tasks[waker].is_bound_worker;
        let query = SiblingQuery {
            prev: prev.index(),
            target: target.index(),
            recent_used_cpu: match self.gates.profile.recent_used_cpu {
                RecentUsedCpu::Tried => self.tasks[task].recent_used_cpu.index(),
                RecentUsedCpu::Ignored => prev.index(),
            },
            allowed,
            util,
            clamps,
            this_cpu: here.index(),
            this_is_per_cpu_kthread,
            this_nr_running: self.cpus[here].nr_running,
        };
        let choice = if scan == SelectIdleScan::SisProp {
            select_idle_sibling_v510(&Siblings(self), &query)
        } else {
            select_idle_sibling(&Siblings(self), &query)
        };
        if scan == SelectIdleScan::SisProp
            && want_affine
            && let Some(waker) = self.tasks.get_mut(waker)
        {
            // v4.17 to v5.13: the waker's next search may come back here.
            waker.recent_used_cpu = here;
        }
        if scan != SelectIdleScan::SisUtil && choice.nr_scanned > 0 {
            self.cpus[here].sis_prop.scanned(u64::from(choice.nr_scanned) * LOOK_COST_NS);
        }
        note.target = target;
        note.sibling_rule = choice.rule as u8;
        self.tasks[task].recent_used_cpu = CpuId::of(choice.recent_used_cpu);
        if choice.clear_idle_cores {
            self.idle_cpus.set_idle_cores(self.topology.llc_of[target], false);
        }
        let rule = if choice.rule == SiblingRule::Target { PlacementRule::Target } else { PlacementRule::IdleSibling };
        (CpuId::of(choice.cpu), rule)
    }

    /// fair.c:wake_cap(), v5.6: the smaller of both CPUs is too small for the task.
    fn wake_cap(&self, task: TaskId, here: CpuId, prev: CpuId) -> bool {
        let smallest = self.cpus[here].capacity.min(self.cpus[prev].capacity);
        let largest = self.cpus.iter().map(|cpu| cpu.capacity).max().unwrap_or(smallest);
        largest - smallest >= largest >> 3 && !fits_capacity(self.task_util_est(task), smallest)
    }

    /// `imbalance_pct` of the domain that lets `here` pull a task from `prev`.
    fn affine_imbalance_pct(&self, here: CpuId, prev: CpuId) -> Option<u32> {
        let domains = &self.topology.domains;
        let views = (0..domains.n_levels(here.index())).filter_map(|level| domains.view(here.index(), level));
        affine_domain(views, prev.index()).map(|domain| domain.imbalance_pct)
    }

    /// fair.c:cpu_runnable_load(), v5.4: the load of the tasks that are queued.
    pub(crate) fn queued_load(&self, cpu: CpuId) -> u64 {
        let state = &self.cpus[cpu];
        match &state.fair {
            FairRq::Cfs(rq) => {
                let queued = rq.waiting().chain(rq.curr);
                let load = |entity: u32| match self.entities.task(entity) {
                    Some(task) => self.tasks[task].sa.load_avg,
                    None => self.groups.queue(self.groups.of_entity(entity), cpu).sa.load_avg,
                };
                queued.map(load).sum()
            }
            FairRq::Eevdf(_) => state.cfs.avg.load_avg,
        }
    }

    /// The load of a CPU that wake_affine_weight() compares.
    fn wake_load(&self, cpu: CpuId) -> u64 {
        match self.gates.profile.idlest_group {
            IdlestGroup::Loads => self.queued_load(cpu),
            _ => self.cpus[cpu].cfs.avg.load_avg,
        }
    }

    fn wake_affine_to_here(
        &self,
        task: TaskId,
        here: CpuId,
        prev: CpuId,
        (sync, imbalance_pct): (bool, u32),
        note: &mut Note,
    ) -> bool {
        let (this, old) = (&self.cpus[here], &self.cpus[prev]);
        let curr_load = if this.curr == TaskId::IDLE { 0 } else { self.task_h_load(this.curr) };
        let asks_cache = self.gates.profile.wake_affine_idle == WakeAffineIdle::Shared;
        let facts = WakeAffineFacts {
            this_idle: this.is_idle(),
            prev_idle: old.is_idle() && asks_cache,
            share_cache: !asks_cache || self.topology.share_cache(here, prev),
            sync,
            // The kernel's nr_running counts tasks whose dequeue is delayed; the engine's does not.
            nr_running_this: this.nr_running + this.fair.nr_delayed(),
            nr_delayed_this: if self.gates.sync_leaves_out_delayed { this.fair.nr_delayed() } else { 0 },
            this_load: self.wake_load(here),
            prev_load: self.wake_load(prev),
            task_load: self.task_h_load(task),
            current_load: curr_load,
            this_capacity: this.capacity_of,
            prev_capacity: old.capacity_of,
            imbalance_pct,
            stays_on_idle_prev: self.gates.profile.wake_affine_prev == WakeAffinePrev::Idle,
        };
        let (pull, rule) = wake_affine(&facts);
        note.imbalance_pct = imbalance_pct;
        note.affine_rule = rule as u8;
        note.loads = [facts.this_load, facts.prev_load, facts.task_load];
        pull
    }

    /// Placement of a new task (fair.c:select_task_rq_fair() with SD_BALANCE_FORK): the slow path.
    pub(crate) fn select_task_rq_fork(&mut self, task: TaskId, parent_cpu: CpuId) -> CpuId {
        let state = &self.tasks[task];
        if state.class == Class::RealTime {
            return self.select_task_rq_rt(task, parent_cpu);
        }
        let allowed = self.cpu_sets.cpus(state.allowed);
        if self.cpu_sets.is_single(state.allowed) || state.class != Class::Fair {
            let stay = allowed.contains(parent_cpu.index());
            return if stay { parent_cpu } else { allowed.first().map_or(CpuId(0), CpuId::of) };
        }
        self.find_idlest(task, parent_cpu, SD_BALANCE_FORK)
    }

    /// Placement of the running task when it loads a new program (fair.c:select_task_rq_fair() with SD_BALANCE_EXEC).
    pub(crate) fn select_task_rq_exec(&mut self, task: TaskId, cpu: CpuId) -> CpuId {
        let state = &self.tasks[task];
        if self.cpu_sets.is_single(state.allowed) || state.class != Class::Fair {
            return cpu;
        }
        self.find_idlest(task, cpu, SD_BALANCE_EXEC)
    }

    /// fair.c:sched_balance_find_dst_cpu() for a new task, an exec or a wake-up on `this_cpu`.
    pub(crate) fn find_idlest(&mut self, task: TaskId, this_cpu: CpuId, sd_flag: u32) -> CpuId {
        self.update_group_sums();
        let state = &self.tasks[task];
        let allowed = self.cpu_sets.cpus(state.allowed);
        let is_current = sd_flag == SD_BALANCE_EXEC;
        let is_attached = sd_flag != SD_BALANCE_FORK;
        // SD_BALANCE_WAKE is set where CPUs differ, in the domains that an exec is balanced in (topology.c:sd_init(), v5.6).
        let balanced = if sd_flag == SD_BALANCE_WAKE { SD_BALANCE_EXEC } else { sd_flag };
        let prev = if is_attached { state.cpu } else { this_cpu };
        let facts = Idlest { engine: self, task };
        let idlest = IdlestTask {
            cpu: prev.index(),
            on_rq: is_current,
            is_current,
            is_attached,
            util_avg: state.sa.util_avg,
            util_est: if is_attached { self.task_util_est(task) } else { 0 },
            runnable_avg: state.sa.runnable_avg,
            h_load: state.sa.load_avg,
            allowed,
            is_unrestricted: state.allowed == CpuSetId::ALL,
            clamps: self.task_clamps(task),
        };
        let this = this_cpu.index();
        let cpu = match top_level(&facts, this, balanced) {
            Some(level) => {
                let form = self.gates.profile.idlest_group;
                sched_balance_find_dst_cpu(&facts, &idlest, level, this, prev.index(), balanced, form)
            }
            None => this,
        };
        self.allowed_or_first(task, cpu)
    }

    /// `cpu`, or the first one that the task may use if that is not (core.c:select_fallback_rq(), in short).
    pub(crate) fn allowed_or_first(&self, task: TaskId, cpu: usize) -> CpuId {
        let allowed = self.cpu_sets.cpus(self.tasks[task].allowed);
        if allowed.contains(cpu) { CpuId::of(cpu) } else { allowed.first().map_or(CpuId(0), CpuId::of) }
    }

    /// fair.c:check_update_overutilized_status(): sets the state of the root domain, never clears it.
    #[inline]
    pub(crate) fn check_update_overutilized(&mut self, cpu: CpuId) {
        if self.eas.is_none() {
            return;
        }
        if self.gates.sd_overutilized {
            self.check_update_sd_overutilized(cpu);
        } else if !self.overutilized.is_set() && !self.topology.excluded[cpu] && self.cpu_overutilized(cpu) {
            self.set_overutilized(true);
        }
    }

    pub(crate) fn set_overutilized(&mut self, overutilized: bool) {
        let linger_ns = u64::from(self.gates.profile.proposals.overutilized_linger_ticks) * self.tick_ns;
        let ignored = self.case.policy.no_overutilized;
        let Some(change) = self.overutilized.note(overutilized, self.now, linger_ns, ignored) else { return };
        self.outcome.overutilized_changes += 1;
        if let Change::Cleared(lasted_ns) = change {
            self.outcome.overutilized_ns += lasted_ns;
        }
        self.emit(Event::SchedOverutilized { overutilized });
    }

    /// fair.c:update_misfit_status().
    #[inline]
    pub(crate) fn update_misfit_status(&mut self, cpu: CpuId, task: Option<TaskId>) {
        if self.topology.asym.is_some() && self.gates.profile.misfit != Misfit::Absent {
            self.note_misfit(cpu, task);
        }
    }

    #[inline(never)]
    fn note_misfit(&mut self, cpu: CpuId, task: Option<TaskId>) {
        let load = match task {
            Some(task) => {
                let util = self.task_util_est(task);
                let state = &self.cpus[cpu];
                let allowed = self.cpu_sets.cpus(self.tasks[task].allowed);
                let has_bigger = || allowed.iter().any(|other| self.cpus[other].capacity > state.capacity);
                let fits = util_fits_cpu(util, self.task_clamps(task), &state.capacities()) > 0;
                if fits || !has_bigger() { 0 } else { self.tasks[task].sa.load_avg.max(1) }
            }
            None => 0,
        };
        self.cpus[cpu].misfit_task_load = load;
    }
}
