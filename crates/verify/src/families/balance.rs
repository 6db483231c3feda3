//! Families of vectors: load balance and the slow path of fork and exec.

use opplab_kernel::profile::IdlestGroup;
use opplab_kernel::profile::{BalanceThresholds, NewidleLeast, NewidleSkip};
use opplab_kernel::sched::balance::{
    BalanceScratch, PassState, detach_one_task, detach_tasks, need_active_balance, sched_balance_find_src_group,
    sched_balance_find_src_rq, sched_balance_rq, should_we_balance, update_idle_cpu_scan, update_sd_lb_stats,
};
use opplab_kernel::sched::balance_env::{
    BalanceFacts, BalanceHost, BalanceTask, BalanceTunables, IdleType, Jiffies, LbEnv, LbFlags, MigrationType,
    RootDomain,
};
use opplab_kernel::sched::cpumask::{CpuMask, CpuSet};
use opplab_kernel::sched::find_idlest::{
    sched_balance_find_dst_cpu, sched_balance_find_dst_group, sched_balance_find_dst_group_cpu, top_level,
    update_sg_wakeup_stats,
};
use opplab_kernel::sched::group::{CpuLoad, DomainView, GroupCapacity, SchedGroup, SgLbStats, scale_rt_capacity};
use opplab_kernel::sched::idlest_facts::{IdleInfo, IdlestFacts, IdlestTask};
use opplab_kernel::sched::newidle::{
    BalanceClock, DomainBalance, Newidle, NewidleFacts, NewidleHost, Pulled, RqBalance, sched_balance_domains,
    sched_balance_newidle,
};
use opplab_kernel::sched::placement::CpuCapacity;
use opplab_kernel::sched::task_list::TaskLists;

use crate::fields::{Fields, Raw, Value, families, numbers, read, same, take};
use crate::json::Json;
use crate::{Compared, Diff, Row, Source, Tally, VerifyError};

families! {
    Lines lb_pass, Lines lb_detach, Rows lb_interval, Rows lb_idle_scan, File lb_newidle_cost,
    Lines lb_newidle: |line, diff| compare_when(line, true, diff),
    Lines lb_domains: |line, diff| compare_when(line, false, diff), Lines find_idlest,
}

/// The CPU numbers of a bitmask.
impl Value for CpuMask {
    fn of(raw: Raw<'_>) -> Option<Self> {
        let bits = u64::of(raw)?;
        Some((0..64).filter(|cpu| bits >> cpu & 1 != 0).collect())
    }
}

/// One task of a line.
#[derive(Clone)]
struct TaskLine {
    h_load: u64,
    util: u64,
    exec_start: u64,
    affinity: [u64; 1],
    is_running: bool,
    policy: u64,
    is_per_cpu_kthread: bool,
    is_fair: bool,
}

impl TaskLine {
    fn read(task: Json<'_>, has_class: bool) -> Result<Self, VerifyError> {
        Ok(read!(task => Self {
            h_load: 0, util = task.field::<u64>(1)?.max(task.field(2)?), exec_start: 3, affinity = [task.field(4)?],
            is_running: 5, policy: 6, is_per_cpu_kthread: 7, is_fair = !has_class || task.field::<bool>(8)?,
        }))
    }
}

/// The machine of a line of family C: bitmasks of at most 64 CPUs.
#[derive(Clone)]
struct PassMachine {
    cpus: Vec<CpuLine>,
    idle: [u64; 1],
    tasks: Vec<TaskLine>,
    lists: TaskLists,
    smt_active: bool,
    eas: bool,
    llc_size: u32,
    next_buddy: Option<u32>,
    active_balance: u64,
    active_balance_cpus: Vec<[usize; 2]>,
    nr_idle_scan: Option<u32>,
}

impl PassMachine {
    fn new(cpus: Vec<CpuLine>, tasks: Vec<TaskLine>) -> Self {
        let mut lists = TaskLists::new(cpus.len());
        for (number, cpu) in cpus.iter().enumerate() {
            for &task in cpu.tasks.iter().rev() {
                lists.add(number, task);
            }
        }
        let mut machine = Self {
            cpus,
            idle: [0],
            tasks,
            lists,
            smt_active: false,
            eas: false,
            llc_size: 0,
            next_buddy: None,
            active_balance: 0,
            active_balance_cpus: Vec::new(),
            nr_idle_scan: None,
        };
        machine.refresh_idle();
        machine
    }

    fn refresh_idle(&mut self) {
        let idle = self.cpus.iter().enumerate().filter(|(_, cpu)| cpu.is_idle());
        self.idle = [idle.fold(0, |mask, (cpu, _)| mask | 1 << cpu)];
    }

    fn change_nr_running(&mut self, cpu: usize, change: i32) {
        let load = &mut self.cpus[cpu].load;
        load.nr_running = load.nr_running.wrapping_add_signed(change);
        load.h_nr_queued = load.h_nr_queued.wrapping_add_signed(change);
        self.refresh_idle();
    }
}

impl BalanceFacts for PassMachine {
    fn cpu(&self, cpu: usize) -> CpuLoad {
        self.cpus[cpu].load
    }
    fn idle(&self) -> CpuSet<'_> {
        CpuSet::new(&self.idle)
    }
    fn ttwu_pending(&self, cpu: usize) -> bool {
        self.cpus[cpu].ttwu_pending
    }
    fn smt_mask(&self, cpu: usize) -> CpuSet<'_> {
        CpuSet::new(&self.cpus[cpu].smt)
    }
    fn smt_active(&self) -> bool {
        self.smt_active
    }
    fn asym_priority(&self, cpu: usize) -> i32 {
        self.cpus[cpu].prio
    }
    fn energy_aware(&self) -> bool {
        self.eas
    }
    fn llc_size(&self, _cpu: usize) -> Option<u32> {
        Some(self.llc_size)
    }
}

impl BalanceHost for PassMachine {
    fn task(&self, task: u32, _dst: usize) -> BalanceTask<'_> {
        let line = &self.tasks[task as usize];
        BalanceTask {
            h_load: line.h_load,
            util: line.util,
            clamps: None,
            exec_start: line.exec_start,
            allowed: CpuSet::new(&line.affinity),
            is_running: line.is_running,
            is_idle_policy: line.policy == 5,
            is_fair: line.is_fair,
            is_per_cpu_kthread: line.is_per_cpu_kthread,
            is_next_buddy: self.next_buddy == Some(task),
        }
    }
    fn last_task(&self, cpu: usize) -> Option<u32> {
        self.lists.last(cpu)
    }
    fn task_before(&self, task: u32) -> Option<u32> {
        self.lists.before(task)
    }
    fn move_to_head(&mut self, cpu: usize, task: u32) {
        self.lists.move_to_head(cpu, task);
    }
    fn clock_task(&mut self, cpu: usize) -> u64 {
        self.cpus[cpu].clock_task
    }
    fn detach_task(&mut self, task: u32, src: usize, _dst: usize) {
        self.lists.remove(src, task);
        self.change_nr_running(src, -1);
    }
    fn attach_task(&mut self, task: u32, dst: usize) {
        self.lists.add(dst, task);
        self.change_nr_running(dst, 1);
    }
    fn curr_may_run_on(&self, src: usize, dst: usize) -> bool {
        match usize::try_from(self.cpus[src].curr) {
            Ok(task) => CpuSet::new(&self.tasks[task].affinity).contains(dst),
            Err(_) => true,
        }
    }
    fn start_active_balance(&mut self, src: usize, dst: usize) -> bool {
        let is_new = self.active_balance >> src & 1 == 0;
        self.active_balance |= 1 << src;
        if is_new {
            self.active_balance_cpus.push([src, dst]);
        }
        is_new
    }
    fn update_cpu_capacity(&mut self, cpu: usize) -> u64 {
        let line = &mut self.cpus[cpu];
        line.load.capacity.of = scale_rt_capacity(&line.load.capacity, line.rt, line.dl, line.irq);
        line.load.capacity.of
    }
    fn set_nr_idle_scan(&mut self, _cpu: usize, nr_idle_scan: u32) {
        self.nr_idle_scan = Some(nr_idle_scan);
    }
}

impl Value for IdleType {
    fn of(raw: Raw<'_>) -> Option<Self> {
        Some(match u64::of(raw)? {
            0 => Self::NotIdle,
            1 => Self::Idle,
            _ => Self::NewlyIdle,
        })
    }
}

impl Value for MigrationType {
    fn of(raw: Raw<'_>) -> Option<Self> {
        Some(match u64::of(raw)? {
            0 => Self::Load,
            1 => Self::Util,
            2 => Self::Task,
            _ => Self::Misfit,
        })
    }
}

impl Value for LbFlags {
    fn of(raw: Raw<'_>) -> Option<Self> {
        let bits = u64::of(raw)?;
        Some(Self {
            all_pinned: bits & 1 != 0,
            need_break: bits & 2 != 0,
            dst_pinned: bits & 4 != 0,
            some_pinned: bits & 8 != 0,
            active_lb: bits & 16 != 0,
        })
    }
}

/// The domain of a line of `lb_pass` with its groups, the groups of its child, and the capacities of all.
struct PassDomain {
    span: [u64; 1],
    flags: u32,
    imbalance_pct: u32,
    cache_nice_tries: u32,
    imb_numa_nr: u32,
    groups: Vec<SchedGroup>,
    child: Option<Vec<SchedGroup>>,
    sgc: Vec<GroupCapacity>,
    parent_sgc: Option<usize>,
    state: PassState,
}

impl PassDomain {
    fn read(line: Json<'_>, machine: &PassMachine) -> Result<Self, VerifyError> {
        let sd = line.get("sd")?;
        let span: u64 = sd.field("span")?;
        let mut sgc = Vec::new();
        let mut groups = Vec::new();
        for group in sd.get("groups")?.items()? {
            groups.push(read!(group => SchedGroup {
                span: 0, balance_mask: 0, flags: 1, weight: 2, cores: 3, asym_prefer_cpu: 4, sgc = sgc.len(),
            }));
            sgc.push(GroupCapacity {
                capacity: group.field(5)?,
                min_capacity: group.field(6)?,
                max_capacity: group.field(7)?,
                imbalance: group.field::<bool>(8)?,
                // Only a newly idle CPU asks: the time is 0, so 1 is not due.
                next_update: 1 - line.field::<u64>("local_group_update_due")?.min(1),
            });
        }
        let child = line.field::<bool>("has_child")?.then(|| {
            let cpus = groups[0].span.as_set().iter();
            let of_cpu = |cpu: usize| {
                let capacity = machine.cpus[cpu].load.capacity.of;
                let (min_capacity, max_capacity) = (capacity, capacity);
                sgc.push(GroupCapacity { capacity, min_capacity, max_capacity, ..GroupCapacity::default() });
                let mask = CpuMask::one(cpu);
                let (balance_mask, sgc) = (mask.clone(), sgc.len() - 1);
                SchedGroup { span: mask, balance_mask, flags: 0, weight: 1, cores: 1, asym_prefer_cpu: cpu, sgc }
            };
            cpus.map(of_cpu).collect()
        });
        let parent_sgc = line.field::<bool>("has_parent")?.then_some(sgc.len());
        let imbalance = line.field("parent_group_imbalance")?;
        sgc.push(GroupCapacity { imbalance, ..GroupCapacity::default() });
        Ok(read!(sd => Self {
            span = [span], flags, imbalance_pct, cache_nice_tries, imb_numa_nr, groups = groups, child = child,
            sgc = sgc, parent_sgc = parent_sgc,
            state = read!(sd => PassState { nr_balance_failed, balance_interval, min_interval, max_interval }),
        }))
    }

    fn view(&self) -> DomainView<'_> {
        DomainView {
            span: CpuSet::new(&self.span),
            span_weight: self.span[0].count_ones(),
            flags: self.flags,
            imbalance_pct: self.imbalance_pct,
            cache_nice_tries: self.cache_nice_tries,
            imb_numa_nr: self.imb_numa_nr,
            groups: &self.groups,
            local: 0,
            child: self.child.as_deref().map(|groups| (groups, 0)),
            parent_sgc: self.parent_sgc,
        }
    }
}

fn pass_stats(stats: &SgLbStats, overloaded: bool, overutilized: bool) -> [u64; 14] {
    numbers!(u64:
        stats.avg_load, stats.group_load, stats.group_capacity, stats.group_util, stats.group_runnable,
        stats.sum_nr_running, stats.sum_h_nr_running, stats.idle_cpus, stats.group_type, stats.group_asym_packing,
        stats.group_smt_balance, stats.group_misfit_task_load, overloaded, overutilized,
    )
}

fn lb_pass(line: Json<'_>, diff: &mut Diff) -> Compared {
    let cpus = line.get("cpus")?.items()?.map(|cpu| CpuLine::read(cpu)).collect::<Result<_, _>>()?;
    let tasks = line.get("tasks")?.items()?.map(|task| TaskLine::read(task, false)).collect::<Result<_, _>>()?;
    let mut machine = PassMachine::new(cpus, tasks);
    machine.smt_active = line.field("smt_active")?;
    machine.eas = line.field("eas")?;
    machine.llc_size = line.field("llc_size")?;
    for cpu in line.field::<Vec<u32>>("active_balance_set")? {
        machine.active_balance |= 1 << cpu;
    }
    let domain = PassDomain::read(line, &machine)?;
    let rd = read!(line => RootDomain { overloaded: "rd_overloaded_before", overutilized: "rd_overutilized" });
    let dst_cpu = line.field("dst_cpu")?;
    let idle: IdleType = line.field("idle")?;
    let active = [line.field::<u64>("active")?];
    let cpus = [active[0] & domain.span[0]];

    compare_decisions(line, machine.clone(), &domain, rd, CpuSet::new(&cpus), dst_cpu, idle, diff)?;

    let (mut state, mut sgc, mut rd) = (domain.state, domain.sgc.clone(), rd);
    let pass = sched_balance_rq(
        &mut machine,
        domain.view(),
        &mut state,
        &mut sgc,
        &mut rd,
        CpuSet::new(&active),
        dst_cpu,
        idle,
        Jiffies::default(),
        &BalanceTunables::default(),
        &mut BalanceScratch::default(),
    );
    let expected = line.get("pass")?;
    same!(diff, expected => {
        ld_moved: pass.ld_moved, continue_balancing: pass.continue_balancing,
        nr_balance_failed: state.nr_balance_failed, balance_interval: state.balance_interval,
        parent_group_imbalance: sgc[sgc.len() - 1].imbalance, active_balance_cpus: machine.active_balance_cpus,
    });
    for (cpu, list) in expected.get("lists")?.items()?.enumerate() {
        diff.eq(&format!("list of CPU {cpu}"), list.value()?, machine.lists.iter(cpu).collect::<Vec<_>>());
    }
    Ok(())
}

/// The decisions on the way, computed whether or not it is the CPU's turn.
#[expect(clippy::too_many_arguments, reason = "one line of the family, taken apart")]
fn compare_decisions(
    line: Json<'_>,
    mut machine: PassMachine,
    domain: &PassDomain,
    mut rd: RootDomain,
    cpus: CpuSet<'_>,
    dst_cpu: usize,
    idle: IdleType,
    diff: &mut Diff,
) -> Compared {
    let mut sgc = domain.sgc.clone();
    let mut env = LbEnv::new(domain.view(), dst_cpu, idle, domain.state.nr_balance_failed, 32);
    same!(diff, line => { should_we_balance: should_we_balance(&machine, &env, cpus) });
    let mut groups_stats = Vec::new();
    let mut sds = update_sd_lb_stats(
        &mut machine,
        &mut env,
        cpus,
        &mut sgc,
        &mut rd,
        Jiffies::default(),
        |_, stats, overloaded, overutilized| groups_stats.push(pass_stats(stats, overloaded, overutilized)),
    );
    for (index, (expected, got)) in line.get("groups_stats")?.items()?.zip(&groups_stats).enumerate() {
        diff.eq(&format!("stats of group {index}"), expected.value()?, got.to_vec());
    }
    let scan = line.get("nr_idle_scan")?;
    diff.eq("nr_idle_scan", scan.field(1)?, machine.nr_idle_scan.unwrap_or(scan.field(0)?));
    same!(diff, line => {
        rd_after: [rd.overloaded, rd.overutilized], dst_core_idle: env.dst_core_idle, prefer_sibling: sds.prefer_sibling,
        total: [sds.total_load, sds.total_capacity],
    });
    let index_of = |group: Option<&SchedGroup>| {
        group.and_then(|group| domain.groups.iter().position(|other| std::ptr::eq(other, group)))
    };
    same!(diff, line => { busiest_candidate: index_of(sds.busiest.map(|(group, _)| group)) });
    let group = sched_balance_find_src_group(&mut env, &mut sds, &rd, machine.eas);
    let src = group.and_then(|group| sched_balance_find_src_rq(&machine, &env, cpus, group));
    let needs_active = src.map(|src| {
        env.src_cpu = src;
        need_active_balance(&machine, &env)
    });
    same!(diff, line => {
        src_group: index_of(group), migration_type: env.migration_type, imbalance: env.imbalance, src_cpu: src,
        need_active_balance: needs_active,
    });
    let local = &sgc[domain.groups[0].sgc];
    same!(diff, line => { local_sgc_after: [local.capacity, local.min_capacity, local.max_capacity] });
    Ok(())
}

fn lb_detach(line: Json<'_>, diff: &mut Diff) -> Compared {
    const SRC: usize = 0;
    const DST: usize = 4;
    let tasks = line.get("tasks")?.items()?.map(|task| TaskLine::read(task, true)).collect::<Result<_, _>>()?;
    let mut cpus = vec![CpuLine::default(); 8];
    cpus[SRC].tasks = line.field("list")?;
    cpus[SRC].clock_task = line.field("src_clock_task")?;
    cpus[SRC].load.nr_running = line.field("src_nr_running")?;
    cpus[SRC].load.capacity =
        read!(line => CpuCapacity { orig: "src_cap_orig", of: "src_capacity", ..CpuCapacity::default() });
    cpus[DST].load.nr_running = line.field("dst_nr_running")?;
    let mut machine = PassMachine::new(cpus, tasks);
    machine.next_buddy = line.field("next_buddy")?;
    let tunables = read!(line => BalanceTunables {
        migration_cost_ns: "migration_cost", preemption, ..BalanceTunables::default()
    });
    let span = [u64::MAX];
    let groups = [read!(line => SchedGroup {
        span: "dst_grpmask", balance_mask: "dst_grpmask", flags = 0, weight = 1, cores = 1, asym_prefer_cpu = DST, sgc = 0,
    })];
    let sd = read!(line => DomainView {
        span = CpuSet::new(&span), span_weight = 64, flags: "sd_flags", imbalance_pct = 117, cache_nice_tries,
        imb_numa_nr = 0, groups = &groups, local = 0, child = None, parent_sgc = None,
    });
    let (idle, failed) = (line.field("idle")?, line.field("nr_balance_failed")?);
    let mut env = LbEnv::new(sd, DST, idle, failed, line.field("loop_break")?);
    env.src_cpu = SRC;
    env.loop_max = line.field("loop_max")?;
    env.imbalance = line.field("imbalance")?;
    env.migration_type = line.field("migration_type")?;
    env.flags = line.field("flags")?;
    let cpus = [line.field::<u64>("cpus")?];
    let cpus = CpuSet::new(&cpus);
    let mut detached = Vec::new();
    let function = if env.flags.active_lb {
        detached.extend(detach_one_task(&mut machine, &mut env, cpus, &tunables));
        "detach_one_task"
    } else {
        detach_tasks(&mut machine, &mut env, cpus, &tunables, &mut detached);
        "detach_tasks"
    };
    let out = line.get("out")?;
    diff.eq("fn", out.get("fn")?.text()?, function);
    same!(diff, out => {
        detached: detached.len(), order: detached, list: machine.lists.iter(SRC).collect::<Vec<_>>(),
        imbalance: env.imbalance, flags: env.flags, loop: env.loop_nr, loop_break: env.loop_break,
        new_dst_cpu: env.new_dst_cpu,
    });
    Ok(())
}

/// One CPU of a line, as families C and D describe it.
#[derive(Clone, Default)]
struct CpuLine {
    load: CpuLoad,
    rt: u64,
    dl: u64,
    irq: u64,
    smt: [u64; 1],
    prio: i32,
    idle_h_nr: u32,
    /// A task, or -1 the idle task, -2 an RT task, -4 the task that is placed.
    curr: i64,
    ttwu_pending: bool,
    clock_task: u64,
    tasks: Vec<u32>,
}

impl CpuLine {
    fn read(cpu: Json<'_>) -> Result<Self, VerifyError> {
        let capacity = read!(cpu => CpuCapacity {
            orig: "cap_orig", of: "capacity", hw_pressure: "hw", cpufreq_pressure,
        });
        let load = read!(cpu => CpuLoad {
            load: "load_avg", util: "util_avg", runnable: "runnable_avg", util_est, nr_running, h_nr_queued: "h_nr",
            capacity = capacity, misfit_task_load: "misfit_load", clamps = None,
        });
        Ok(read!(cpu => Self {
            load = load, rt, dl, irq, smt = [cpu.field("smt")?], prio, idle_h_nr, curr, ttwu_pending, clock_task,
            tasks,
        }))
    }

    fn is_idle(&self) -> bool {
        self.curr == -1 && self.load.nr_running == 0 && !self.ttwu_pending
    }
}

/// One domain of a `find_idlest` line.
struct IdlestDomain {
    span: [u64; 1],
    flags: u32,
    imbalance_pct: u32,
    imb_numa_nr: u32,
    groups: Vec<SchedGroup>,
}

struct IdlestLine {
    cpus: Vec<CpuLine>,
    idle_info: Vec<IdleInfo>,
    levels: Vec<Vec<IdlestDomain>>,
    capacities: Vec<GroupCapacity>,
}

impl IdlestLine {
    fn read(line: Json<'_>) -> Result<Self, VerifyError> {
        let mut capacities = Vec::new();
        let mut levels = Vec::new();
        for level in line.get("levels")?.items()? {
            let mut domains = Vec::new();
            for domain in level.get("domains")?.items()? {
                let mut groups = Vec::new();
                for group in domain.get("groups")?.items()? {
                    groups.push(read!(group => SchedGroup {
                        span: 0, balance_mask: 0, flags = 0, weight: 1, cores = 0, asym_prefer_cpu = 0,
                        sgc = capacities.len(),
                    }));
                    capacities.push(read!(group => GroupCapacity {
                        capacity: 2, min_capacity: 3, max_capacity: 4, ..GroupCapacity::default()
                    }));
                }
                domains.push(read!(domain => IdlestDomain {
                    span = [domain.field("span")?], flags, imbalance_pct, imb_numa_nr, groups = groups,
                }));
            }
            levels.push(domains);
        }
        let idle_info = line.get("idle_info")?.items()?;
        let idle_info = idle_info.map(|info| Ok(read!(info => IdleInfo { idle_stamp: 0, exit_latency_us: 1 })));
        Ok(Self {
            cpus: line.get("cpus")?.items()?.map(|cpu| CpuLine::read(cpu)).collect::<Result<_, _>>()?,
            idle_info: idle_info.collect::<Result<_, _>>()?,
            levels,
            capacities,
        })
    }
}

impl IdlestFacts for IdlestLine {
    fn cpu(&self, cpu: usize) -> CpuLoad {
        self.cpus[cpu].load
    }
    fn runnable_load(&self, cpu: usize) -> u64 {
        self.cpus[cpu].load.load
    }
    fn is_idle(&self, cpu: usize) -> bool {
        self.cpus[cpu].is_idle()
    }
    fn is_sched_idle(&self, cpu: usize) -> bool {
        let cpu = &self.cpus[cpu];
        cpu.load.nr_running != 0 && cpu.load.nr_running == cpu.idle_h_nr
    }
    fn is_idle_without_task(&self, cpu: usize) -> bool {
        let cpu = &self.cpus[cpu];
        matches!(cpu.curr, -1 | -4) && !cpu.ttwu_pending
    }
    fn idle_info(&self, cpu: usize) -> IdleInfo {
        self.idle_info[cpu]
    }
    fn group_capacity(&self, sgc: usize) -> GroupCapacity {
        self.capacities[sgc]
    }
    fn domain(&self, cpu: usize, level: usize) -> Option<DomainView<'_>> {
        let domain = self.levels.get(level)?.iter().find(|domain| CpuSet::new(&domain.span).contains(cpu))?;
        Some(DomainView {
            span: CpuSet::new(&domain.span),
            span_weight: domain.span[0].count_ones(),
            flags: domain.flags,
            imbalance_pct: domain.imbalance_pct,
            cache_nice_tries: 0,
            imb_numa_nr: domain.imb_numa_nr,
            groups: &domain.groups,
            local: domain.groups.iter().position(|group| group.span.as_set().contains(cpu))?,
            child: None,
            parent_sgc: None,
        })
    }
    fn n_levels(&self) -> usize {
        self.levels.len()
    }
}

fn wakeup_stats(stats: &SgLbStats) -> [u64; 9] {
    numbers!(u64:
        stats.avg_load, stats.group_load, stats.group_util, stats.group_runnable, stats.sum_nr_running,
        stats.sum_h_nr_running, stats.idle_cpus, stats.group_type, stats.group_misfit_task_load,
    )
}

fn find_idlest(line: Json<'_>, diff: &mut Diff) -> Compared {
    let machine = IdlestLine::read(line)?;
    let fields = line.get("task")?;
    let affinity = [fields.field::<u64>("affinity")?];
    let task = read!(fields => IdlestTask {
        cpu, on_rq, is_current, is_attached = fields.field::<u64>("last_update_time")? != 0, util_avg, util_est,
        runnable_avg, h_load, allowed = CpuSet::new(&affinity),
        is_unrestricted = fields.field::<u64>("nr_cpus_allowed")? == 64, clamps = None,
    });
    let (this_cpu, prev_cpu) = (line.field::<usize>("this_cpu")?, line.field("prev_cpu")?);
    let sd_flag = line.field("sd_flag")?;
    for (level, expected) in line.get("per_level")?.items()?.enumerate() {
        let Some(expected_stats) = expected.find("stats") else { continue };
        let Some(domain) = machine.domain(this_cpu, level) else { continue };
        for (index, (group, expected)) in domain.ring().zip(expected_stats.items()?).enumerate() {
            let stats = wakeup_stats(&update_sg_wakeup_stats(&machine, &domain, group, &task));
            diff.eq(&format!("level {level} stats of group {index}"), expected.value()?, stats.to_vec());
        }
        let group = sched_balance_find_dst_group(&machine, &domain, &task, this_cpu, IdlestGroup::NumaImbalance);
        let bits = group.map_or(-1, |group| group.span.as_set().word(0) as i64);
        diff.eq(&format!("level {level} group"), expected.field("group")?, bits);
        let cpu = group.map(|group| {
            sched_balance_find_dst_group_cpu(&machine, group, &task, this_cpu, IdlestGroup::NumaImbalance) as i64
        });
        diff.eq(&format!("level {level} cpu_in_group"), expected.field("cpu_in_group")?, cpu.unwrap_or(-1));
        let local = &domain.groups[domain.local];
        let cpu = sched_balance_find_dst_group_cpu(&machine, local, &task, this_cpu, IdlestGroup::NumaImbalance);
        diff.eq(&format!("level {level} cpu_in_local_group"), expected.field("cpu_in_local_group")?, cpu);
    }
    let top = line.field("top_level")?;
    let dst_cpu =
        sched_balance_find_dst_cpu(&machine, &task, top, this_cpu, prev_cpu, sd_flag, IdlestGroup::NumaImbalance);
    same!(diff, line => { top_level: top_level(&machine, this_cpu, sd_flag), dst_cpu });
    Ok(())
}

fn lb_interval(row: &Row<'_>, diff: &mut Diff) -> Compared {
    take!(row => hz, nr_cpus_online, balance_interval_ms, busy_factor, cpu_busy);
    let max_interval = opplab_kernel::sched::newidle::max_load_balance_interval(hz, nr_cpus_online);
    let clock = BalanceClock { hz, jiffies: 0, max_interval, thresholds: BalanceThresholds::Narrow };
    let interval = clock.balance_interval(balance_interval_ms, busy_factor, cpu_busy);
    same!(diff, row => { max_load_balance_interval: max_interval, jiffies_out: interval });
    Ok(())
}

fn lb_idle_scan(row: &Row<'_>, diff: &mut Diff) -> Compared {
    take!(row => idle_type, llc_size, sd_span_weight, imbalance_pct, sum_util);
    let nr = update_idle_cpu_scan(idle_type, llc_size, sd_span_weight, imbalance_pct, sum_util);
    same!(diff, row => { after: nr.unwrap_or(row.field("before")?) });
    Ok(())
}

fn lb_newidle_cost(source: &Source, tally: &mut Tally) -> Compared {
    let mut domain = DomainBalance::default();
    source.each_row(tally, |row, diff| {
        let expected = read!(row => DomainBalance {
            newidle_call, newidle_success, newidle_ratio, max_newidle_lb_cost, last_decay_max_lb_cost: "last_decay",
            ..DomainBalance::default()
        });
        if row.field::<i64>("step")? < 0 {
            domain = expected;
        } else {
            take!(row => cost, success, jiffies, hz);
            same!(diff, row => { ret: domain.update_newidle_cost(cost, success, jiffies, hz) });
        }
        diff.eq("domain", expected, domain);
        Ok(())
    })
}

/// The CPU of a line of `lb_newidle` or `lb_domains`: each pass does what the line holds.
struct NewidleLine {
    clock: u64,
    update_blocked_cost: u64,
    results: Vec<[u64; 5]>,
    rng: Vec<u32>,
    rng_used: usize,
    levels_balanced: Vec<usize>,
    nr_running: u32,
    h_nr_queued: u32,
    idle_h_nr: u32,
    is_idle: bool,
    serialize_busy: bool,
}

impl NewidleHost for NewidleLine {
    fn balance(&mut self, level: usize, _domain: &mut DomainBalance, _idle: IdleType) -> Pulled {
        let [pulled, continue_balancing, cost, other, rt] = self.results[level];
        self.levels_balanced.push(level);
        self.clock += cost;
        // The vectors leave the tasks that a pass pulled out of the counts.
        self.h_nr_queued += other as u32;
        self.nr_running += other as u32 + rt as u32;
        self.is_idle &= self.nr_running == 0;
        Pulled { ld_moved: pulled as u32, continue_balancing: continue_balancing != 0 }
    }
    fn sched_clock(&mut self) -> u64 {
        self.clock
    }
    fn update_blocked_averages(&mut self) {
        self.clock += self.update_blocked_cost;
    }
    fn sched_rng(&mut self) -> u32 {
        let number = self.rng.get(self.rng_used).copied().unwrap_or(0);
        self.rng_used += 1;
        number
    }
    fn nr_running(&self) -> u32 {
        self.nr_running
    }
    fn h_nr_queued(&self) -> u32 {
        self.h_nr_queued
    }
    fn is_sched_idle(&self) -> bool {
        self.nr_running != 0 && self.nr_running == self.idle_h_nr
    }
    fn is_idle(&self) -> bool {
        self.is_idle
    }
    fn try_serialize(&mut self) -> bool {
        !self.serialize_busy
    }
    fn end_serialize(&mut self) {}
}

/// The fields of a domain in the order of the vectors.
fn domain_fields(domain: &DomainBalance) -> [u64; 9] {
    numbers!(u64:
        domain.pass.balance_interval, domain.busy_factor, domain.last_balance, domain.flags, domain.newidle_call,
        domain.newidle_success, domain.newidle_ratio, domain.max_newidle_lb_cost, domain.last_decay_max_lb_cost,
    )
}

fn compare_when(line: Json<'_>, newidle: bool, diff: &mut Diff) -> Compared {
    const UNTOUCHED: u64 = 123;
    let mut domains = Vec::new();
    for domain in line.get("domains")?.items()? {
        domains.push(read!(domain => DomainBalance {
            pass = PassState { balance_interval: domain.field(0)?, ..PassState::default() }, busy_factor: 1,
            last_balance: 2, flags: 3, newidle_call: 4, newidle_success: 5, newidle_ratio: 6, max_newidle_lb_cost: 7,
            last_decay_max_lb_cost: 8,
        }));
    }
    let mut results = Vec::new();
    for result in line.get("balance_result")?.items()? {
        let mut fields = [0; 5];
        for (place, field) in result.items()?.take(5).enumerate() {
            fields[place] = field.value()?;
        }
        results.push(fields);
    }
    let nr_running = line.field("nr_running")?;
    let mut host = read!(line => NewidleLine {
        clock, update_blocked_cost, results = results, rng, rng_used = 0, levels_balanced = Vec::new(),
        nr_running = nr_running, h_nr_queued = nr_running, idle_h_nr, is_idle = nr_running == 0, serialize_busy,
    });
    let mut rq = read!(line => RqBalance { next_balance, idle_stamp = UNTOUCHED, avg_idle, max_idle_balance_cost });
    let clock = read!(line => BalanceClock {
        hz, jiffies, max_interval: "max_lb_interval", thresholds = BalanceThresholds::Narrow,
    });
    let result = if newidle {
        let facts = read!(line => NewidleFacts {
            ttwu_pending, cpu_active, rd_overloaded, rq_clock = host.clock, least = NewidleLeast::LowestLevel,
            skip = NewidleSkip::CostAndChance,
        });
        sched_balance_newidle(&mut host, &mut rq, &mut domains, &facts, &clock)
    } else {
        let idle: IdleType = line.field("idle")?;
        sched_balance_domains(&mut host, &mut rq, &mut domains, idle, &clock, line.field("migration_cost")?);
        Newidle::default()
    };
    let out = line.get("out")?;
    same!(diff, out => {
        ret: result.pulled, levels_balanced: host.levels_balanced, rng_used: host.rng_used,
        next_balance: rq.next_balance, idle_stamp: rq.idle_stamp, max_idle_balance_cost: rq.max_idle_balance_cost,
        nohz_newidle: result.nohz_newidle,
    });
    for (level, (expected, got)) in out.get("domains")?.items()?.zip(&domains).enumerate() {
        diff.eq(&format!("domain {level}"), expected.value()?, domain_fields(got).to_vec());
    }
    Ok(())
}
