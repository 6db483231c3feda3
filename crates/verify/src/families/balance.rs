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

use crate::json::Json;
use crate::{Diff, Family, Source, Tally, VerifyError};

/// The families of this module.
pub const FAMILIES: &[Family] = &[
    Family { name: "lb_pass", run: run_pass },
    Family { name: "lb_detach", run: run_detach },
    Family { name: "lb_interval", run: run_interval },
    Family { name: "lb_idle_scan", run: run_idle_scan },
    Family { name: "lb_newidle_cost", run: run_newidle_cost },
    Family { name: "lb_newidle", run: run_newidle },
    Family { name: "lb_domains", run: run_domains },
    Family { name: "find_idlest", run: run_find_idlest },
];

/// The CPU numbers of a bitmask.
fn mask_of(bits: u64) -> CpuMask {
    (0..64).filter(|cpu| bits >> cpu & 1 != 0).collect()
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
        Ok(Self {
            h_load: task.nth(0)?,
            util: task.nth::<u64>(1)?.max(task.nth(2)?),
            exec_start: task.nth(3)?,
            affinity: [task.nth(4)?],
            is_running: task.nth::<u64>(5)? != 0,
            policy: task.nth(6)?,
            is_per_cpu_kthread: task.nth::<u64>(7)? != 0,
            is_fair: !has_class || task.nth::<u64>(8)? != 0,
        })
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
    fn task(&self, task: u32) -> BalanceTask<'_> {
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

fn idle_type(number: u64) -> IdleType {
    match number {
        0 => IdleType::NotIdle,
        1 => IdleType::Idle,
        _ => IdleType::NewlyIdle,
    }
}

fn migration_type(number: u64) -> MigrationType {
    match number {
        0 => MigrationType::Load,
        1 => MigrationType::Util,
        2 => MigrationType::Task,
        _ => MigrationType::Misfit,
    }
}

fn lb_flags(bits: u64) -> LbFlags {
    LbFlags {
        all_pinned: bits & 1 != 0,
        need_break: bits & 2 != 0,
        dst_pinned: bits & 4 != 0,
        some_pinned: bits & 8 != 0,
        active_lb: bits & 16 != 0,
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
        let span: u64 = sd.num("span")?;
        let mut sgc = Vec::new();
        let mut groups = Vec::new();
        for group in sd.get("groups")?.items()? {
            let mask = mask_of(group.nth(0)?);
            groups.push(SchedGroup {
                balance_mask: mask.clone(),
                span: mask,
                flags: group.nth(1)?,
                weight: group.nth(2)?,
                cores: group.nth(3)?,
                asym_prefer_cpu: group.nth(4)?,
                sgc: sgc.len(),
            });
            sgc.push(GroupCapacity {
                capacity: group.nth(5)?,
                min_capacity: group.nth(6)?,
                max_capacity: group.nth(7)?,
                imbalance: group.nth::<u64>(8)? != 0,
                // Only a newly idle CPU asks: the time is 0, so 1 is not due.
                next_update: 1 - line.num::<u64>("local_group_update_due")?.min(1),
            });
        }
        let child = line.flag("has_child")?.then(|| {
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
        let parent_sgc = line.flag("has_parent")?.then_some(sgc.len());
        let imbalance = line.flag("parent_group_imbalance")?;
        sgc.push(GroupCapacity { imbalance, ..GroupCapacity::default() });
        Ok(Self {
            span: [span],
            flags: sd.num("flags")?,
            imbalance_pct: sd.num("imbalance_pct")?,
            cache_nice_tries: sd.num("cache_nice_tries")?,
            imb_numa_nr: sd.num("imb_numa_nr")?,
            groups,
            child,
            sgc,
            parent_sgc,
            state: PassState {
                nr_balance_failed: sd.num("nr_balance_failed")?,
                balance_interval: sd.num("balance_interval")?,
                min_interval: sd.num("min_interval")?,
                max_interval: sd.num("max_interval")?,
            },
        })
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
    [
        stats.avg_load,
        stats.group_load,
        stats.group_capacity,
        stats.group_util,
        stats.group_runnable,
        stats.sum_nr_running.into(),
        stats.sum_h_nr_running.into(),
        stats.idle_cpus.into(),
        stats.group_type as u64,
        stats.group_asym_packing.into(),
        stats.group_smt_balance.into(),
        stats.group_misfit_task_load,
        overloaded.into(),
        overutilized.into(),
    ]
}

fn run_pass(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_line(tally, compare_pass)
}

fn compare_pass(line: Json<'_>, diff: &mut Diff) -> Result<(), VerifyError> {
    let cpus = line.get("cpus")?.items()?.map(|cpu| CpuLine::read(cpu)).collect::<Result<_, _>>()?;
    let tasks = line.get("tasks")?.items()?.map(|task| TaskLine::read(task, false)).collect::<Result<_, _>>()?;
    let mut machine = PassMachine::new(cpus, tasks);
    machine.smt_active = line.flag("smt_active")?;
    machine.eas = line.flag("eas")?;
    machine.llc_size = line.num("llc_size")?;
    for cpu in line.nums::<u32>("active_balance_set")? {
        machine.active_balance |= 1 << cpu;
    }
    let domain = PassDomain::read(line, &machine)?;
    let rd = RootDomain { overloaded: line.flag("rd_overloaded_before")?, overutilized: line.flag("rd_overutilized")? };
    let dst_cpu = line.num("dst_cpu")?;
    let idle = idle_type(line.num("idle")?);
    let active = [line.num::<u64>("active")?];
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
    diff.eq("ld_moved", expected.num("ld_moved")?, pass.ld_moved);
    diff.eq("continue_balancing", expected.flag("continue_balancing")?, pass.continue_balancing);
    diff.eq("nr_balance_failed", expected.num("nr_balance_failed")?, state.nr_balance_failed);
    diff.eq("balance_interval", expected.num("balance_interval")?, state.balance_interval);
    let imbalance = sgc[sgc.len() - 1].imbalance;
    diff.eq("parent_group_imbalance", expected.flag("parent_group_imbalance")?, imbalance);
    for (cpu, list) in expected.get("lists")?.items()?.enumerate() {
        diff.eq(&format!("list of CPU {cpu}"), list.ints()?, machine.lists.iter(cpu).collect::<Vec<_>>());
    }
    let pairs = expected.get("active_balance_cpus")?.items()?.map(|pair| pair.ints());
    let pushed = pairs.collect::<Result<Vec<Vec<usize>>, _>>()?.concat();
    diff.eq("active_balance_cpus", pushed, machine.active_balance_cpus.concat());
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
) -> Result<(), VerifyError> {
    let mut sgc = domain.sgc.clone();
    let mut env = LbEnv::new(domain.view(), dst_cpu, idle, domain.state.nr_balance_failed, 32);
    let balances = should_we_balance(&machine, &env, cpus);
    diff.eq("should_we_balance", line.flag("should_we_balance")?, balances);
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
        diff.eq(&format!("stats of group {index}"), expected.ints()?, got.to_vec());
    }
    let scan = line.get("nr_idle_scan")?;
    diff.eq("nr_idle_scan", scan.nth(1)?, machine.nr_idle_scan.unwrap_or(scan.nth(0)?));
    let rd_after = line.nums::<u64>("rd_after")?;
    diff.eq("rd_after", rd_after, vec![rd.overloaded.into(), rd.overutilized.into()]);
    diff.eq("dst_core_idle", line.flag("dst_core_idle")?, env.dst_core_idle);
    diff.eq("prefer_sibling", line.flag("prefer_sibling")?, sds.prefer_sibling);
    diff.eq("total", line.nums("total")?, vec![sds.total_load, sds.total_capacity]);
    let index_of = |group: Option<&SchedGroup>| {
        let index = group.and_then(|group| domain.groups.iter().position(|other| std::ptr::eq(other, group)));
        index.map_or(-1, |index| index as i64)
    };
    diff.eq("busiest_candidate", line.num("busiest_candidate")?, index_of(sds.busiest.map(|(group, _)| group)));
    let group = sched_balance_find_src_group(&mut env, &mut sds, &rd, machine.eas);
    diff.eq("src_group", line.num("src_group")?, index_of(group));
    diff.eq("migration_type", migration_type(line.num("migration_type")?), env.migration_type);
    diff.eq("imbalance", line.num("imbalance")?, env.imbalance);
    let src = group.and_then(|group| sched_balance_find_src_rq(&machine, &env, cpus, group));
    diff.eq("src_cpu", line.num("src_cpu")?, src.map_or(-1, |src| src as i64));
    let needs_active = src.map(|src| {
        env.src_cpu = src;
        need_active_balance(&machine, &env)
    });
    diff.eq("need_active_balance", line.num("need_active_balance")?, needs_active.map_or(-1, i64::from));
    let local = &sgc[domain.groups[0].sgc];
    let local = vec![local.capacity, local.min_capacity, local.max_capacity];
    diff.eq("local_sgc_after", line.nums("local_sgc_after")?, local);
    Ok(())
}

fn run_detach(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_line(tally, compare_detach)
}

fn compare_detach(line: Json<'_>, diff: &mut Diff) -> Result<(), VerifyError> {
    const SRC: usize = 0;
    const DST: usize = 4;
    let tasks = line.get("tasks")?.items()?.map(|task| TaskLine::read(task, true)).collect::<Result<_, _>>()?;
    let mut cpus = vec![CpuLine::default(); 8];
    cpus[SRC].tasks = line.nums("list")?;
    cpus[SRC].clock_task = line.num("src_clock_task")?;
    cpus[SRC].load.nr_running = line.num("src_nr_running")?;
    cpus[SRC].load.capacity =
        CpuCapacity { orig: line.num("src_cap_orig")?, of: line.num("src_capacity")?, ..CpuCapacity::default() };
    cpus[DST].load.nr_running = line.num("dst_nr_running")?;
    let mut machine = PassMachine::new(cpus, tasks);
    machine.next_buddy = u32::try_from(line.num::<i64>("next_buddy")?).ok();
    let tunables = BalanceTunables {
        migration_cost_ns: line.num("migration_cost")?,
        preemption: line.flag("preemption")?,
        ..BalanceTunables::default()
    };
    let (mask, span) = (mask_of(line.num("dst_grpmask")?), [u64::MAX]);
    let groups = [SchedGroup {
        span: mask.clone(),
        balance_mask: mask,
        flags: 0,
        weight: 1,
        cores: 1,
        asym_prefer_cpu: DST,
        sgc: 0,
    }];
    let sd = DomainView {
        span: CpuSet::new(&span),
        span_weight: 64,
        flags: line.num("sd_flags")?,
        imbalance_pct: 117,
        cache_nice_tries: line.num("cache_nice_tries")?,
        imb_numa_nr: 0,
        groups: &groups,
        local: 0,
        child: None,
        parent_sgc: None,
    };
    let (idle, failed) = (idle_type(line.num("idle")?), line.num("nr_balance_failed")?);
    let mut env = LbEnv::new(sd, DST, idle, failed, line.num("loop_break")?);
    env.src_cpu = SRC;
    env.loop_max = line.num("loop_max")?;
    env.imbalance = line.num("imbalance")?;
    env.migration_type = migration_type(line.num("migration_type")?);
    env.flags = lb_flags(line.num("flags")?);
    let cpus = [line.num::<u64>("cpus")?];
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
    diff.eq("detached", out.num("detached")?, detached.len());
    diff.eq("order", out.nums("order")?, detached);
    diff.eq("list", out.nums("list")?, machine.lists.iter(SRC).collect::<Vec<_>>());
    diff.eq("imbalance", out.num("imbalance")?, env.imbalance);
    diff.eq("flags", lb_flags(out.num("flags")?), env.flags);
    diff.eq("loop", out.num("loop")?, env.loop_nr);
    diff.eq("loop_break", out.num("loop_break")?, env.loop_break);
    diff.eq("new_dst_cpu", out.num("new_dst_cpu")?, env.new_dst_cpu.map_or(-1, |cpu| cpu as i64));
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
        let capacity = CpuCapacity {
            orig: cpu.num("cap_orig")?,
            of: cpu.num("capacity")?,
            hw_pressure: cpu.num("hw")?,
            cpufreq_pressure: cpu.num("cpufreq_pressure")?,
        };
        let load = CpuLoad {
            load: cpu.num("load_avg")?,
            util: cpu.num("util_avg")?,
            runnable: cpu.num("runnable_avg")?,
            util_est: cpu.num("util_est")?,
            nr_running: cpu.num("nr_running")?,
            h_nr_queued: cpu.num("h_nr")?,
            capacity,
            misfit_task_load: cpu.num("misfit_load")?,
            clamps: None,
        };
        Ok(Self {
            load,
            rt: cpu.num("rt")?,
            dl: cpu.num("dl")?,
            irq: cpu.num("irq")?,
            smt: [cpu.num("smt")?],
            prio: cpu.num("prio")?,
            idle_h_nr: cpu.num("idle_h_nr")?,
            curr: cpu.num("curr")?,
            ttwu_pending: cpu.flag("ttwu_pending")?,
            clock_task: cpu.num("clock_task")?,
            tasks: cpu.nums("tasks")?,
        })
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
                    let span = mask_of(group.nth(0)?);
                    groups.push(SchedGroup {
                        balance_mask: span.clone(),
                        span,
                        flags: 0,
                        weight: group.nth(1)?,
                        cores: 0,
                        asym_prefer_cpu: 0,
                        sgc: capacities.len(),
                    });
                    capacities.push(GroupCapacity {
                        capacity: group.nth(2)?,
                        min_capacity: group.nth(3)?,
                        max_capacity: group.nth(4)?,
                        ..GroupCapacity::default()
                    });
                }
                domains.push(IdlestDomain {
                    span: [domain.num("span")?],
                    flags: domain.num("flags")?,
                    imbalance_pct: domain.num("imbalance_pct")?,
                    imb_numa_nr: domain.num("imb_numa_nr")?,
                    groups,
                });
            }
            levels.push(domains);
        }
        let idle_info = line.get("idle_info")?.items()?.map(|info| {
            Ok(IdleInfo { idle_stamp: info.nth(0)?, exit_latency_us: u32::try_from(info.nth::<i64>(1)?).ok() })
        });
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
    [
        stats.avg_load,
        stats.group_load,
        stats.group_util,
        stats.group_runnable,
        stats.sum_nr_running.into(),
        stats.sum_h_nr_running.into(),
        stats.idle_cpus.into(),
        stats.group_type as u64,
        stats.group_misfit_task_load,
    ]
}

fn run_find_idlest(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_line(tally, |line, diff| {
        let machine = IdlestLine::read(line)?;
        let fields = line.get("task")?;
        let affinity = [fields.num::<u64>("affinity")?];
        let task = IdlestTask {
            cpu: fields.num("cpu")?,
            on_rq: fields.flag("on_rq")?,
            is_current: fields.flag("is_current")?,
            is_attached: fields.num::<u64>("last_update_time")? != 0,
            util_avg: fields.num("util_avg")?,
            util_est: fields.num("util_est")?,
            runnable_avg: fields.num("runnable_avg")?,
            h_load: fields.num("h_load")?,
            allowed: CpuSet::new(&affinity),
            is_unrestricted: fields.num::<u64>("nr_cpus_allowed")? == 64,
            clamps: None,
        };
        let (this_cpu, prev_cpu) = (line.num::<usize>("this_cpu")?, line.num("prev_cpu")?);
        let sd_flag = line.num("sd_flag")?;
        for (level, expected) in line.get("per_level")?.items()?.enumerate() {
            let Some(expected_stats) = expected.find("stats") else { continue };
            let Some(domain) = machine.domain(this_cpu, level) else { continue };
            for (index, (group, expected)) in domain.ring().zip(expected_stats.items()?).enumerate() {
                let stats = wakeup_stats(&update_sg_wakeup_stats(&machine, &domain, group, &task));
                diff.eq(&format!("level {level} stats of group {index}"), expected.ints()?, stats.to_vec());
            }
            let group = sched_balance_find_dst_group(&machine, &domain, &task, this_cpu, IdlestGroup::NumaImbalance);
            let bits = group.map_or(-1, |group| group.span.as_set().word(0) as i64);
            diff.eq(&format!("level {level} group"), expected.num("group")?, bits);
            let cpu = group.map(|group| {
                sched_balance_find_dst_group_cpu(&machine, group, &task, this_cpu, IdlestGroup::NumaImbalance) as i64
            });
            diff.eq(&format!("level {level} cpu_in_group"), expected.num("cpu_in_group")?, cpu.unwrap_or(-1));
            let local = &domain.groups[domain.local];
            let cpu = sched_balance_find_dst_group_cpu(&machine, local, &task, this_cpu, IdlestGroup::NumaImbalance);
            diff.eq(&format!("level {level} cpu_in_local_group"), expected.num("cpu_in_local_group")?, cpu);
        }
        let top: usize = line.num("top_level")?;
        diff.eq("top_level", Some(top), top_level(&machine, this_cpu, sd_flag));
        let dst_cpu =
            sched_balance_find_dst_cpu(&machine, &task, top, this_cpu, prev_cpu, sd_flag, IdlestGroup::NumaImbalance);
        diff.eq("dst_cpu", line.num("dst_cpu")?, dst_cpu);
        Ok(())
    })
}

fn run_interval(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_row(tally, |row, diff| {
        let (hz, n_cpus) = (row.num("hz")?, row.num("nr_cpus_online")?);
        let max_interval = opplab_kernel::sched::newidle::max_load_balance_interval(hz, n_cpus);
        let clock = BalanceClock { hz, jiffies: 0, max_interval, thresholds: BalanceThresholds::Narrow };
        let interval =
            clock.balance_interval(row.num("balance_interval_ms")?, row.num("busy_factor")?, row.flag("cpu_busy")?);
        diff.eq("max_load_balance_interval", row.num("max_load_balance_interval")?, max_interval);
        diff.eq("jiffies_out", row.num("jiffies_out")?, interval);
        Ok(())
    })
}

fn run_idle_scan(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_row(tally, |row, diff| {
        let nr = update_idle_cpu_scan(
            idle_type(row.num("idle_type")?),
            row.num("llc_size")?,
            row.num("sd_span_weight")?,
            row.num("imbalance_pct")?,
            row.num("sum_util")?,
        );
        diff.eq("after", row.num("after")?, nr.unwrap_or(row.num("before")?));
        Ok(())
    })
}

fn run_newidle_cost(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    let mut domain = DomainBalance::default();
    source.each_row(tally, |row, diff| {
        let expected = DomainBalance {
            newidle_call: row.num("newidle_call")?,
            newidle_success: row.num("newidle_success")?,
            newidle_ratio: row.num("newidle_ratio")?,
            max_newidle_lb_cost: row.num("max_newidle_lb_cost")?,
            last_decay_max_lb_cost: row.num("last_decay")?,
            ..DomainBalance::default()
        };
        if row.num::<i64>("step")? < 0 {
            domain = expected;
        } else {
            let (cost, success) = (row.num("cost")?, row.num("success")?);
            let decayed = domain.update_newidle_cost(cost, success, row.num("jiffies")?, row.num("hz")?);
            diff.eq("ret", row.flag("ret")?, decayed);
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
    [
        domain.pass.balance_interval,
        domain.busy_factor.into(),
        domain.last_balance,
        domain.flags.into(),
        domain.newidle_call.into(),
        domain.newidle_success.into(),
        domain.newidle_ratio.into(),
        domain.max_newidle_lb_cost,
        domain.last_decay_max_lb_cost,
    ]
}

fn run_newidle(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    run_when(source, tally, true)
}

fn run_domains(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    run_when(source, tally, false)
}

fn run_when(source: &Source, tally: &mut Tally, newidle: bool) -> Result<(), VerifyError> {
    source.each_line(tally, |line, diff| compare_when(line, newidle, diff))
}

fn compare_when(line: Json<'_>, newidle: bool, diff: &mut Diff) -> Result<(), VerifyError> {
    const UNTOUCHED: u64 = 123;
    let mut domains = Vec::new();
    for domain in line.get("domains")?.items()? {
        domains.push(DomainBalance {
            pass: PassState { balance_interval: domain.nth(0)?, ..PassState::default() },
            busy_factor: domain.nth(1)?,
            last_balance: domain.nth(2)?,
            flags: domain.nth(3)?,
            newidle_call: domain.nth(4)?,
            newidle_success: domain.nth(5)?,
            newidle_ratio: domain.nth(6)?,
            max_newidle_lb_cost: domain.nth(7)?,
            last_decay_max_lb_cost: domain.nth(8)?,
        });
    }
    let mut results = Vec::new();
    for result in line.get("balance_result")?.items()? {
        let mut fields = [0; 5];
        for (place, field) in result.items()?.take(5).enumerate() {
            fields[place] = field.int()?;
        }
        results.push(fields);
    }
    let nr_running = line.num("nr_running")?;
    let mut host = NewidleLine {
        clock: line.num("clock")?,
        update_blocked_cost: line.num("update_blocked_cost")?,
        results,
        rng: line.nums("rng")?,
        rng_used: 0,
        levels_balanced: Vec::new(),
        nr_running,
        h_nr_queued: nr_running,
        idle_h_nr: line.num("idle_h_nr")?,
        is_idle: nr_running == 0,
        serialize_busy: line.flag("serialize_busy")?,
    };
    let mut rq = RqBalance {
        next_balance: line.num("next_balance")?,
        idle_stamp: UNTOUCHED,
        avg_idle: line.num("avg_idle")?,
        max_idle_balance_cost: line.num("max_idle_balance_cost")?,
    };
    let clock = BalanceClock {
        hz: line.num("hz")?,
        jiffies: line.num("jiffies")?,
        max_interval: line.num("max_lb_interval")?,
        thresholds: BalanceThresholds::Narrow,
    };
    let result = if newidle {
        let facts = NewidleFacts {
            ttwu_pending: line.flag("ttwu_pending")?,
            cpu_active: line.flag("cpu_active")?,
            rd_overloaded: line.flag("rd_overloaded")?,
            rq_clock: host.clock,
            least: NewidleLeast::LowestLevel,
            skip: NewidleSkip::CostAndChance,
        };
        sched_balance_newidle(&mut host, &mut rq, &mut domains, &facts, &clock)
    } else {
        let idle = idle_type(line.num("idle")?);
        sched_balance_domains(&mut host, &mut rq, &mut domains, idle, &clock, line.num("migration_cost")?);
        Newidle::default()
    };
    let out = line.get("out")?;
    diff.eq("ret", out.num("ret")?, result.pulled);
    diff.eq("levels_balanced", out.nums("levels_balanced")?, host.levels_balanced);
    diff.eq("rng_used", out.num("rng_used")?, host.rng_used);
    diff.eq("next_balance", out.num("next_balance")?, rq.next_balance);
    diff.eq("idle_stamp", out.num("idle_stamp")?, rq.idle_stamp);
    diff.eq("max_idle_balance_cost", out.num("max_idle_balance_cost")?, rq.max_idle_balance_cost);
    diff.eq("nohz_newidle", out.flag("nohz_newidle")?, result.nohz_newidle);
    for (level, (expected, got)) in out.get("domains")?.items()?.zip(&domains).enumerate() {
        diff.eq(&format!("domain {level}"), expected.ints()?, domain_fields(got).to_vec());
    }
    Ok(())
}
