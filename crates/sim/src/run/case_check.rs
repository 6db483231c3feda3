//! Refuses cases that the engine would stumble over.

use opplab_kernel::sched::dl_entity::checkparam_dl;
use opplab_model::error::Pos;
use opplab_model::policy::Policy;
use opplab_model::workload::{Op, SchedPolicy, TaskSpec, Workload};

use crate::cpufreq::freq_policy::driver_of;
use crate::{Case, CaseError};

/// Whether `case` can run at all.
///
/// # Errors
/// [`CaseError`] with what is impossible in it.
pub(crate) fn check_case(case: &Case) -> Result<(), CaseError> {
    let nr_cpus = case.machine.nr_cpus();
    if nr_cpus == 0 {
        return Err(CaseError(String::from("the machine has no CPU")));
    }
    if case.duration_ns == 0 || case.duration_ns > 1 << 52 {
        return Err(CaseError(format!("a run of {} ns is not possible", case.duration_ns)));
    }
    if let Some(message) = case.workload.ends_in_warmup(case.duration_ns) {
        return Err(CaseError(message));
    }
    case.policy.check_on(&case.machine, Pos::default()).map_err(|fault| fault.about("the policy"))?;
    if !(24..=10_000).contains(&case.policy.hz) {
        return Err(CaseError(format!("hz is {}; a kernel has 100, 250, 300 or 1000", case.policy.hz)));
    }
    let classes = &case.machine.program_classes;
    for task in case.workload.tasks.iter().filter(|task| !task.class.is_empty()) {
        if !classes.iter().any(|class| class.name == task.class) {
            let names: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
            let known = if names.is_empty() { String::from("none") } else { names.join(", ") };
            return Err(CaseError(format!(
                "task {:?} is of program class `{}`, which machine {} does not have (it has {known})",
                task.name, task.class, case.machine.name
            )));
        }
    }
    check_workload(&case.workload, nr_cpus as u32)?;
    check_changes(case)?;
    let isolated = case.workload.isolated_cpus();
    if (0..nr_cpus as u32).all(|cpu| isolated.contains(&cpu) || !case.policy.runs_tasks(&case.machine, cpu)) {
        return Err(CaseError(String::from("isolated partitions leave no CPU to other tasks")));
    }
    let online = |cpu: u32| case.policy.is_online(&case.machine, cpu);
    match case.workload.cpu_sets.iter().find(|set| !set.iter().any(|&cpu| online(cpu))) {
        None => Ok(()),
        Some(set) => Err(CaseError(format!("the workload has tasks for CPUs {set:?}, which are offline"))),
    }
}

/// What is changed while the run goes on leaves the driver as it is.
fn check_changes(case: &Case) -> Result<(), CaseError> {
    let driver = driver_of(&case.machine, &case.policy).driver;
    for change in &case.policy.changes {
        let other = driver_of(&case.machine, &change.policy).driver;
        if other.name != driver.name {
            let (ms, governor) = (change.at_ms, &change.policy.governor);
            return Err(CaseError(format!(
                "the change at {ms} ms to governor {governor} needs driver {}; the run has {}",
                other.name, driver.name
            )));
        }
        let online = |policy: &Policy| {
            (0..case.machine.nr_cpus() as u32).map(|cpu| policy.is_online(&case.machine, cpu)).collect::<Vec<_>>()
        };
        if online(&change.policy) != online(&case.policy) {
            can_hotplug(case)?;
        }
    }
    Ok(())
}

/// CPUs come and go under fair tasks only, without groups.
fn can_hotplug(case: &Case) -> Result<(), CaseError> {
    let is_fair = |task: &TaskSpec| {
        let sets = |op: &Op| matches!(op, Op::SetPolicy { policy } if !policy.is_fair());
        task.policy.is_fair() && !task.ops.iter().any(sets)
    };
    match case.workload.tasks.iter().find(|task| !is_fair(task)) {
        Some(task) => Err(CaseError(format!(
            "task {:?} is of another class than the fair one: CPUs cannot go offline during its run",
            task.name
        ))),
        None if !case.workload.groups.is_empty() => {
            Err(CaseError(String::from("CPUs cannot go offline during a run with control groups")))
        }
        None if case.machine.shared_stream => {
            Err(CaseError(String::from("CPUs cannot go offline during a run of an emulated machine")))
        }
        None => Ok(()),
    }
}

fn check_workload(workload: &Workload, nr_cpus: u32) -> Result<(), CaseError> {
    let main = workload.tasks.get(..workload.nr_main as usize);
    if main.is_none_or(|tasks| tasks.iter().any(|task| !task.initial)) {
        return Err(CaseError(format!("{} tasks of workload {:?} are to end it", workload.nr_main, workload.name)));
    }
    for (index, set) in workload.cpu_sets.iter().enumerate() {
        if set.is_empty() {
            return Err(CaseError(format!("CPU set {index} of workload {:?} is empty", workload.name)));
        }
        if let Some(cpu) = set.iter().find(|&&cpu| cpu >= nr_cpus) {
            return Err(CaseError(format!(
                "workload {:?} wants CPU {cpu}, the machine has CPUs 0 to {}",
                workload.name,
                nr_cpus - 1
            )));
        }
    }
    for task in &workload.tasks {
        check_deadlines(task)?;
        let missing = |what: &str| CaseError(format!("task {:?} refers to {what} that does not exist", task.name));
        if task.cpus.is_some_and(|set| set as usize >= workload.cpu_sets.len()) {
            return Err(missing("a CPU set"));
        }
        if let Some(cpu) = task.spawn_cpu.filter(|&cpu| cpu >= nr_cpus) {
            return Err(CaseError(format!("task {:?} starts on CPU {cpu}, which does not exist", task.name)));
        }
        if let Some(op) = task.ops.iter().find(|&&op| !exists(op, task, workload)) {
            return Err(missing(&format!("something ({op:?})")));
        }
    }
    Ok(())
}

/// Whether sched_setattr() takes the deadline parameters that `task` ever asks for.
fn check_deadlines(task: &TaskSpec) -> Result<(), CaseError> {
    let set = task.ops.iter().filter_map(|op| if let Op::SetPolicy { policy } = *op { Some(policy) } else { None });
    for policy in set.chain([task.policy]) {
        if let SchedPolicy::Deadline { runtime_ns, deadline_ns, period_ns, .. } = policy
            && !checkparam_dl(runtime_ns, deadline_ns, period_ns)
        {
            return Err(CaseError(format!(
                "task {:?} asks for SCHED_DEADLINE with a runtime of {runtime_ns} ns, a deadline of {deadline_ns} ns and a period of \
                 {period_ns} ns: needed are 1024 ns <= runtime <= deadline <= period, and a period of 100 us to 4.19 s",
                task.name
            )));
        }
    }
    Ok(())
}

/// Whether all that `op` of `task` names is there.
fn exists(op: Op, task: &TaskSpec, workload: &Workload) -> bool {
    let draw_exists = |draw: u32| workload.draws.get(draw as usize).is_some_and(|draw| !draw.is_empty());
    match op {
        Op::Lock { mutex } | Op::Unlock { mutex } | Op::HandOver { mutex } => mutex < workload.nr_mutexes,
        Op::Contend { line, .. } | Op::Share { line, .. } => line < workload.nr_lines,
        Op::Wait { cond, mutex } => cond < workload.nr_conds && mutex < workload.nr_mutexes,
        Op::Signal { cond } | Op::Broadcast { cond } | Op::Suspend { cond } | Op::Resume { cond } => {
            cond < workload.nr_conds
        }
        Op::Barrier { barrier } | Op::SpinBarrier { barrier, .. } => (barrier as usize) < workload.barriers.len(),
        Op::RunListed { draw, slot, .. } => slot < task.loop_slots && draw_exists(draw),
        Op::RunDraw { draw, .. } => draw_exists(draw),
        Op::Call { service, .. } | Op::Accept { service, .. } => service < workload.nr_services,
        Op::SemPost { sem } | Op::SemWait { sem } => (sem as usize) < workload.semaphores.len(),
        Op::Timer { timer, own, .. } => timer < if own { task.nr_own_timers } else { workload.nr_timers },
        Op::Send { channel, .. } | Op::TrySend { channel, .. } | Op::Recv { channel } => {
            (channel as usize) < workload.channels.len()
        }
        Op::SendFrom { channel, back, .. } => (channel.max(back) as usize) < workload.channels.len(),
        Op::Io { device, .. } | Op::IoWork { device, .. } => (device as usize) < workload.devices.len(),
        Op::IoEnd { device, service, .. } => {
            (device as usize) < workload.devices.len() && service < workload.nr_services
        }
        Op::Fork { task } => (task as usize) < workload.tasks.len(),
        Op::SetCpus { set: Some(set) } => (set as usize) < workload.cpu_sets.len(),
        Op::SetGroupCpus { group, set } => {
            workload.groups.get(group as usize).is_some_and(|group| !group.isolated)
                && set.is_none_or(|set| (set as usize) < workload.cpu_sets.len())
        }
        Op::SetGroup { task, group } => {
            task.is_none_or(|task| (task as usize) < workload.tasks.len())
                && group.is_none_or(|group| (group as usize) < workload.groups.len())
        }
        Op::LoopBegin { slot, .. } => slot < task.loop_slots,
        Op::LoopEnd { slot, begin } => slot < task.loop_slots && (begin as usize) < task.ops.len(),
        _ => true,
    }
}
