//! Load tracking: updates of entities and run queues, attaching and detaching, estimated utilisation, the other classes.
//!
//! This check also keeps [`State`] up to date; it runs last for every event.

use opplab_kernel::pelt::{
    HalfLife32, SchedAvg, SeFacts, se_runnable, update_dl_rq_load_avg, update_load_avg_blocked_se,
    update_load_avg_cfs_rq, update_load_avg_se, update_rt_rq_load_avg,
};
use opplab_kernel::sched::attach::{CfsAvg, init_entity_runnable_average, post_init_entity_util_avg};
use opplab_kernel::sched::weight::NICE_0_LOAD;
use opplab_kernel::util_est::{UTIL_AVG_UNCHANGED, task_util_est_masked, util_est_update};

use super::input::{Ev, Kind};
use super::report::{RecordingReport, UNEXPLAINED};
use super::state::{ClassAvg, Pending, State, Task, UpdateFacts};

const MISSING: &str = "a field that the probe does not have";

/// Looks at one event.
pub(super) fn event(ev: &Ev<'_>, state: &mut State<'_>, report: &mut RecordingReport) {
    if ev.cpu() >= state.cpus.len() {
        return;
    }
    let handled = match ev.kind() {
        Kind::UpdSe => upd_se(ev, state, report),
        Kind::UpdBlk => upd_blk(ev, state, report),
        Kind::UpdCfs => upd_cfs(ev, state, report),
        Kind::PeltSe => pelt_se(ev, state, report),
        Kind::PeltCfs => pelt_cfs(ev, state, report),
        Kind::PeltRt => class_avg(ev, state, report, "pelt_rt"),
        Kind::PeltDl => class_avg(ev, state, report, "pelt_dl"),
        Kind::PeltHw => pelt_hw(ev, report),
        Kind::UtilEstSe => util_est_se(ev, state, report),
        Kind::UtilEstCfs => util_est_cfs(ev, state, report),
        kind => {
            if kind == Kind::SchedWakeupNew {
                // A new task has no estimate yet.
                queue_estimate(ev, state, report, Some(0), false);
            }
            other(ev, state)
        }
    };
    if handled.is_none() {
        report.without_input("records", MISSING);
    }
}

/// The sums that every record shows.
fn sums(ev: &Ev<'_>) -> Option<SchedAvg> {
    Some(SchedAvg {
        last_update_time: ev.u("lut")?,
        load_sum: ev.u("load_sum")?,
        runnable_sum: ev.u("runnable_sum")?,
        util_sum: ev.get("util_sum")? as u32,
        period_contrib: ev.get("pc")? as u32,
        ..SchedAvg::default()
    })
}

/// The sums and averages that a `pelt_*` record shows.
fn averages(ev: &Ev<'_>) -> Option<SchedAvg> {
    Some(SchedAvg {
        load_avg: ev.u("load_avg")?,
        runnable_avg: ev.u("runnable_avg")?,
        util_avg: ev.u("util_avg")?,
        util_est: ev.get("util_est").unwrap_or(0) as u32,
        ..sums(ev)?
    })
}

/// What an update's record and the state left by the one before have in common.
fn carried(avg: &SchedAvg) -> (u64, u64, u64, u32, u32, u64) {
    (avg.last_update_time, avg.load_sum, avg.runnable_sum, avg.util_sum, avg.period_contrib, avg.util_avg)
}

/// Why two states of a queue or an entity differ where no record explains it.
fn load_cause(found: &SchedAvg, known: &SchedAvg, otherwise: &'static str) -> &'static str {
    let but_load = |avg: &SchedAvg| SchedAvg { load_sum: 0, load_avg: 0, ..*avg };
    let (mut found, known) = (but_load(found), but_load(known));
    found.runnable_avg = known.runnable_avg;
    found.util_est = known.util_est;
    if found == known {
        "only the load: a task's attributes or a group's share were set, which renews an entity's load_avg (no probe)"
    } else {
        otherwise
    }
}

fn run(from: Kind, avg: &mut SchedAvg, facts: &UpdateFacts) -> bool {
    match from {
        Kind::UpdSe => {
            let UpdateFacts { now, weight, on_rq, runnable, running } = *facts;
            update_load_avg_se::<HalfLife32>(now, avg, SeFacts { weight, on_rq, runnable, running })
        }
        Kind::UpdBlk => update_load_avg_blocked_se::<HalfLife32>(facts.now, avg, facts.weight),
        _ => update_load_avg_cfs_rq::<HalfLife32>(facts.now, avg, facts.weight, facts.runnable, facts.running),
    }
}

/// An update begins: a crossing that was predicted before must have been recorded by now.
fn begin(ev: &Ev<'_>, state: &mut State<'_>, report: &mut RecordingReport, pending: Option<Pending>) {
    // Without `pelt_*` probes (6.1) there is nothing to wait for.
    let old = std::mem::replace(&mut state.cpus[ev.cpu()].context.pending, pending);
    if let Some(old) = old
        && state.has_pelt_events
    {
        report.miss(kind_of(old.from), UNEXPLAINED, || format!("at {} ns: a crossing was not recorded", ev.time_ns()));
    }
}

fn kind_of(from: Kind) -> &'static str {
    match from {
        Kind::UpdSe => "pelt_se",
        Kind::UpdBlk => "pelt_blocked_se",
        _ => "pelt_cfs",
    }
}

fn upd_se(ev: &Ev<'_>, state: &mut State<'_>, report: &mut RecordingReport) -> Option<()> {
    let (addr, pid) = (ev.u("se")?, ev.get("pid")?);
    let myq = ev.u("myq").filter(|&myq| myq != 0);
    let group = myq.is_some();
    state.queue_of_group.extend(myq.map(|myq| (addr, myq)));
    let on_rq = ev.get("on_rq")? != 0;
    let delayed = ev.get("sd").unwrap_or(0) != 0;
    let facts = UpdateFacts {
        now: ev.u("now")?,
        weight: ev.u("w")?,
        on_rq,
        runnable: se_runnable(!group, on_rq, delayed, ev.u("rw").unwrap_or(0)),
        running: ev.u("cur")? == addr,
    };
    let mut found = SchedAvg { util_avg: ev.u("util_avg")?, ..sums(ev)? };
    found.util_est = ev.get("util_est").unwrap_or(0) as u32;
    let cpu = ev.cpu_field("cpu")?;
    // The estimate of the run queue that was changed just before belongs to this task: an enqueue, or a dequeue of a
    // task that stays runnable.
    let leaves = on_rq && !delayed;
    let masked = task_util_est_masked(&found);
    queue_estimate(ev, state, report, Some(masked), leaves);

    let newborn = !group && state.newborn.remove(&pid);
    if !group && let Some((avg, cpu, cfs)) = state.new_tasks.remove(&pid) {
        let weight = facts.weight;
        let cfs = Some(cfs);
        state.tasks.insert(addr, Task { pid, weight, avg, averages_known: true, group, cfs, cpu, ..Task::default() });
    }
    if group {
        // Its weight was changed after its last update.
        let old = state.tasks.get(&addr).map(|task| (task.cfs, task.weight));
        if let Some((Some(cfs), old)) = old.filter(|(_, old)| *old != facts.weight)
            && let (Some(queue), Some(task)) = (state.queues.get_mut(&cfs), state.tasks.get_mut(&addr))
        {
            queue.avg.reweight::<HalfLife32>(&mut task.avg, old, facts.weight);
            task.weight = facts.weight;
        }
    }
    let known = state.tasks.get(&addr).filter(|task| task.pid == pid && task.group == group);
    if let Some(task) = known {
        let cause = if task.weight != 0 && task.weight != facts.weight {
            "its weight was changed in between"
        } else if group {
            "a group's entity: changes in the group were propagated"
        } else if state.stale.contains(&pid) {
            "it joined a queue whose averages were not known yet"
        } else if !state.has_pelt_events {
            "it joined another queue, which was not recorded (no probe)"
        } else {
            UNEXPLAINED
        };
        let cause = load_cause(&found, &task.avg, cause);
        report.compare("carry_se", ev.time_ns(), carried(&found), carried(&task.avg), cause);
        found.load_avg = task.avg.load_avg;
        found.runnable_avg = task.avg.runnable_avg;
    } else if newborn {
        // What it was born with: post_init_entity_util_avg() gives both averages one value.
        found.load_avg = init_entity_runnable_average(facts.weight, true).load_avg;
        found.runnable_avg = found.util_avg;
    }
    let averages_known = known.map_or(newborn, |task| task.averages_known);
    // Out of its queue and into it at once, as __sched_setscheduler() does, or a change of its CPUs or its group.
    let requeued = |task: &Task| task.on_rq && !on_rq && task.avg.last_update_time == found.last_update_time;
    let mut renewed = known.map(|task| task.renewed.clone()).unwrap_or_default();
    if known.is_some_and(requeued) {
        let mut reweighted = found;
        CfsAvg::default().reweight::<HalfLife32>(&mut reweighted, facts.weight, facts.weight);
        renewed.push(reweighted.load_avg);
    }
    let mut avg = found;
    let crossed = run(Kind::UpdSe, &mut avg, &facts);
    let pending = crossed.then_some(Pending { from: Kind::UpdSe, addr, before: found, facts });
    begin(ev, state, report, pending);
    let cfs = known_cfs(state, addr);
    if crossed {
        renewed.clear();
    }
    let averages_known = averages_known || crossed;
    let task = Task { pid, weight: facts.weight, avg, averages_known, on_rq, renewed, group, cfs, cpu };
    state.tasks.insert(addr, task);
    if !group {
        state.by_pid.insert(pid, addr);
        state.migrating.remove(&pid);
        state.stale.remove(&pid);
    }
    state.cpus[ev.cpu()].context.last_se = Some(addr);
    Some(())
}

fn known_cfs(state: &State<'_>, addr: u64) -> Option<u64> {
    state.tasks.get(&addr).and_then(|task| task.cfs)
}

fn upd_blk(ev: &Ev<'_>, state: &mut State<'_>, report: &mut RecordingReport) -> Option<()> {
    let (addr, pid) = (ev.u("se")?, ev.get("pid")?);
    let group = ev.u("myq").is_some_and(|myq| myq != 0);
    let mut found = SchedAvg { util_avg: ev.u("util_avg")?, ..sums(ev)? };
    let known = state.tasks.get(&addr).filter(|task| task.pid == pid && task.group == group);
    let left = state.cpus[ev.cpu()].context.left_cpu;
    let (mut weight, mut averages_known, mut cpu) = (0, false, left.unwrap_or(ev.cpu()));
    if let Some(task) = known {
        report.compare("carry_se", ev.time_ns(), carried(&found), carried(&task.avg), UNEXPLAINED);
        found = SchedAvg { load_avg: task.avg.load_avg, runnable_avg: task.avg.runnable_avg, ..found };
        found.util_est = task.avg.util_est;
        (weight, averages_known, cpu) = (task.weight, task.averages_known, left.unwrap_or(task.cpu));
    } else if let Some(&first) = state.first_weight.get(&pid) {
        weight = first;
    }
    let facts = UpdateFacts { now: ev.u("now")?, weight, ..UpdateFacts::default() };
    let mut avg = found;
    let crossed = run(Kind::UpdBlk, &mut avg, &facts);
    let pending = crossed.then_some(Pending { from: Kind::UpdBlk, addr, before: found, facts });
    begin(ev, state, report, pending);
    let cfs = known_cfs(state, addr);
    let averages_known = averages_known || crossed && weight != 0;
    state.tasks.insert(addr, Task { pid, weight, avg, averages_known, group, cfs, cpu, ..Task::default() });
    if !group {
        state.by_pid.insert(pid, addr);
    }
    // A task that sleeps and is to wake elsewhere: what it leaves is taken out at the old queue's next update.
    // So is what a task that died leaves. A look before the placement (sync_entity_load_avg()) removes nothing.
    let context = &mut state.cpus[ev.cpu()].context;
    if context.removing == Some(pid) || context.waking != Some(pid) && !context.placing && ev.current() != pid {
        context.removing = None;
        let cfs = cfs.or_else(|| state.root.get(cpu).copied().flatten());
        if let Some(queue) = cfs.and_then(|cfs| state.queues.get_mut(&cfs)) {
            let removed = &mut queue.avg.removed;
            removed.nr += 1;
            removed.util_avg = removed.util_avg.wrapping_add(avg.util_avg);
            removed.load_avg = removed.load_avg.wrapping_add(avg.load_avg);
            removed.runnable_avg = removed.runnable_avg.wrapping_add(avg.runnable_avg);
            if !averages_known {
                queue.averages_known = false;
            }
        }
    }
    Some(())
}

/// Queued tasks that sleep: recorded, or what the count of runnable ones (v6.14 and later) leaves.
fn nr_delayed(ev: &Ev<'_>, queued: u64) -> u64 {
    let left = ev.u("hr").map(|runnable| queued.wrapping_sub(runnable));
    ev.u("hd").or(left).unwrap_or(0)
}

fn upd_cfs(ev: &Ev<'_>, state: &mut State<'_>, report: &mut RecordingReport) -> Option<()> {
    let addr = ev.u("cfs")?;
    let cpu = ev.cpu_field("cpu")?;
    state.cpus.get_mut(cpu)?.clamps = ev.u("umin").zip(ev.u("umax"));
    let queued = ev.u("hq")?;
    let delayed = nr_delayed(ev, queued);
    let facts = UpdateFacts {
        now: ev.u("now")?,
        weight: ev.u("w")?,
        runnable: queued.wrapping_sub(delayed),
        running: ev.u("cur")? != 0,
        ..UpdateFacts::default()
    };
    let mut found = SchedAvg { util_avg: ev.u("util_avg")?, ..sums(ev)? };
    let root = state.group_queues.binary_search(&addr).is_err();
    state.reweight_groups(addr, ev.time_ns(), state.cpus[ev.cpu()].context.last_se);
    let mut before_update = found;
    let mut queue = state.queues.remove(&addr).unwrap_or_default();
    if queue.avg.avg.last_update_time != 0 {
        before_update = SchedAvg { ..queue.avg.avg };
        // Takes out what left, without any time passing.
        let facts = opplab_kernel::sched::attach::CfsFacts::default();
        let now = queue.avg.avg.last_update_time;
        queue.avg.update::<HalfLife32>(now, facts);
        if carried(&found) != carried(&queue.avg.avg)
            && let Some(se) = state.cpus[ev.cpu()].context.last_se
            && let Some(task) = state.tasks.get_mut(&se).filter(|task| !task.renewed.is_empty())
        {
            // What its renewal takes out and puts back is rounded.
            let (mut avg, mut renewed) = (task.avg, queue.avg);
            renewed.reweight::<HalfLife32>(&mut avg, task.weight, task.weight);
            if carried(&found) == carried(&renewed.avg) {
                (queue.avg, task.avg) = (renewed, avg);
            }
        }
        let cause = if !state.has_pelt_events {
            "what joined or left was not recorded (no probe)"
        } else if !queue.averages_known || !root {
            "what joined or left is not known"
        } else {
            UNEXPLAINED
        };
        let cause = load_cause(&found, &queue.avg.avg, cause);
        report.compare("carry_cfs", ev.time_ns(), carried(&found), carried(&queue.avg.avg), cause);
    }
    found.load_avg = queue.avg.avg.load_avg;
    found.runnable_avg = queue.avg.avg.runnable_avg;
    found.util_est = queue.avg.avg.util_est;
    let mut avg = found;
    let crossed = run(Kind::UpdCfs, &mut avg, &facts);
    queue.before_update = before_update;
    queue.before_known = queue.averages_known;
    queue.avg.avg = avg;
    queue.averages_known |= crossed;
    queue.h_nr_queued = queued;
    queue.h_nr_delayed = delayed;
    if root && let Some(place) = state.root.get_mut(cpu) {
        *place = Some(addr);
    }
    state.queues.insert(addr, queue);
    let pending = crossed.then_some(Pending { from: Kind::UpdCfs, addr, before: found, facts });
    begin(ev, state, report, pending);
    // update_load_avg(): first the entity, then its queue.
    if let Some(se) = state.cpus[ev.cpu()].context.last_se.take()
        && let Some(task) = state.tasks.get_mut(&se)
    {
        task.cfs = Some(addr);
    }
    Some(())
}

/// The recorded outcome of the update that is pending on this CPU; `None` if there is none for `addr`.
fn outcome(ev: &Ev<'_>, state: &mut State<'_>, addr: u64, got: &SchedAvg, report: &mut RecordingReport) -> Option<()> {
    let pending = state.cpus[ev.cpu()].context.pending.take_if(|pending| pending.addr == addr)?;
    let mut facts = pending.facts;
    if pending.from == Kind::UpdBlk {
        // The weight is no field of that probe; the update does not change it.
        facts.weight = ev.u("w")?;
    }
    let mut computed = pending.before;
    run(pending.from, &mut computed, &facts);
    let mut expected = *got;
    if pending.from != Kind::UpdSe {
        // Only an entity's own update touches its estimate.
        expected.util_est = computed.util_est;
    }
    report.compare(kind_of(pending.from), ev.time_ns(), expected, computed, UNEXPLAINED);
    Some(())
}

fn pelt_se(ev: &Ev<'_>, state: &mut State<'_>, report: &mut RecordingReport) -> Option<()> {
    let (addr, got) = (ev.u("se")?, averages(ev)?);
    if outcome(ev, state, addr, &got, report).is_none() {
        propagated(ev, "propagate_se", state.propagate(addr).map(|(avg, _)| avg), &got, report);
    }
    if let Some(task) = state.tasks.get_mut(&addr) {
        task.avg = got;
        task.averages_known = true;
        task.renewed.clear();
        task.weight = ev.u("w")?;
    }
    Some(())
}

/// A group's entity or the queue above took what changed in the group. Their loads depend on sums that no record shows.
fn propagated(
    ev: &Ev<'_>,
    kind: &'static str,
    computed: Option<SchedAvg>,
    got: &SchedAvg,
    report: &mut RecordingReport,
) {
    let Some(computed) = computed else {
        report.without_input(kind, "averages before");
        return;
    };
    let SchedAvg { load_sum, load_avg, util_est, .. } = *got;
    report.compare(kind, ev.time_ns(), *got, SchedAvg { load_sum, load_avg, util_est, ..computed }, UNEXPLAINED);
}

fn pelt_cfs(ev: &Ev<'_>, state: &mut State<'_>, report: &mut RecordingReport) -> Option<()> {
    let (addr, got) = (ev.u("cfs")?, averages(ev)?);
    let cpu = ev.cpu_field("cpu")?;
    let updated = outcome(ev, state, addr, &got, report).is_some();
    if let Some(se) = state.propagated(ev).filter(|_| !updated) {
        let in_queue = |se| state.tasks.get(&se).is_some_and(|task| task.cfs == Some(addr));
        let computed = Some(se).filter(|&se| in_queue(se)).and_then(|se| state.propagate(se));
        propagated(ev, "propagate_cfs", computed.map(|(_, above)| above), &got, report);
    } else if !updated {
        state.reweight_groups(addr, ev.time_ns(), None);
        moved(ev, state, report, addr, cpu, &got);
    }
    let root = state.group_queues.binary_search(&addr).is_err();
    let queue = state.queues.entry(addr).or_default();
    queue.avg.avg = got;
    queue.averages_known = true;
    queue.util_est_known = true;
    queue.h_nr_queued = ev.u("hq")?;
    queue.h_nr_delayed = nr_delayed(ev, queue.h_nr_queued);
    if root && let Some(place) = state.root.get_mut(cpu) {
        *place = Some(addr);
    }
    Some(())
}

/// A queue changed without an update of its own: an entity joined or left, or a group propagated.
fn moved(ev: &Ev<'_>, state: &mut State<'_>, report: &mut RecordingReport, addr: u64, cpu: usize, got: &SchedAvg) {
    let Some(queue) = state.queues.get(&addr).filter(|queue| queue.averages_known).cloned() else {
        report.without_input("attach", "the averages of the queue before");
        let joining: Vec<i64> = state.migrating.iter().filter(|(_, d)| **d == cpu).map(|(&pid, _)| pid).collect();
        state.stale.extend(joining.into_iter().chain(state.cpus[ev.cpu()].context.forking));
        return;
    };
    let context = &state.cpus[ev.cpu()].context;
    let joins = got.util_avg > queue.avg.avg.util_avg
        || got.runnable_sum > queue.avg.avg.runnable_sum
        || got.load_sum > queue.avg.avg.load_sum;
    let fork = context.forking;
    let compare = |report: &mut RecordingReport, kind, computed: &SchedAvg| {
        let computed = SchedAvg { util_est: got.util_est, ..*computed };
        let cause = load_cause(got, &computed, UNEXPLAINED);
        report.compare(kind, ev.time_ns(), *got, computed, cause);
    };
    if let Some(child) = fork.filter(|_| joins) {
        let Some(&weight) = state.first_weight.get(&child) else {
            report.without_input("attach_new", "the weight of a task that was never updated");
            return;
        };
        let mut avg = init_entity_runnable_average(weight, true);
        // wake_up_new_task() looks at the queue before it is brought up to date for the newcomer.
        if !queue.before_known {
            report.without_input("attach_new", "the averages of the queue before");
            state.stale.insert(child);
            return;
        }
        post_init_entity_util_avg(&mut avg, weight, &queue.before_update, state.machine.capacity[cpu]);
        let mut after = queue.avg;
        after.attach::<HalfLife32>(&mut avg, weight);
        compare(report, "attach_new", &after.avg);
        state.new_tasks.insert(child, (avg, cpu, addr));
        return;
    }
    let sums = |avg: &SchedAvg| (avg.load_sum, avg.runnable_sum, avg.util_sum);
    if joins {
        // The task that is on its way to this CPU.
        let mut candidates = state.migrating.iter().filter(|(_, dest)| **dest == cpu).map(|(&pid, _)| pid);
        let (first, second) = (candidates.next(), candidates.next());
        let of_waking = state.cpus[ev.cpu()].context.waking.filter(|pid| state.migrating.get(pid) == Some(&cpu));
        // Several may be under way: the one whose averages explain the change.
        let fits = |pid: &i64| {
            state.task(*pid).is_some_and(|task| {
                queue.avg.avg.util_avg.wrapping_add(task.avg.util_avg) == got.util_avg
                    && queue.avg.avg.runnable_avg.wrapping_add(task.avg.runnable_avg) == got.runnable_avg
            })
        };
        let matching = state.migrating.iter().filter(|(_, d)| **d == cpu).map(|(&pid, _)| pid).find(fits);
        // The last resort is sched_move_task(): out of one group and into another, on the spot.
        let pid = match (first, second) {
            (Some(pid), None) => Some(pid),
            (Some(_), Some(_)) => matching.or(of_waking),
            (None, _) => state.cpus[ev.cpu()].context.detached,
        };
        // online_fair_sched_group(): the entity of a new group, which has nothing yet.
        let mut with_group = queue.avg;
        with_group.attach::<HalfLife32>(&mut SchedAvg::default(), NICE_0_LOAD);
        let of_task = pid.and_then(|pid| state.task(pid)).map(|task| {
            let mut after = queue.avg;
            after.attach::<HalfLife32>(&mut task.avg.clone(), task.weight);
            after.avg
        });
        if sums(got) == sums(&with_group.avg) && of_task.is_none_or(|after| sums(&after) != sums(got)) {
            compare(report, "attach_group", &with_group.avg);
            return;
        }
        let Some(pid) = pid else {
            report.without_input("attach", "which task joined");
            return;
        };
        let Some((&se, task)) = state.by_pid.get(&pid).and_then(|se| state.tasks.get_key_value(se)) else {
            report.without_input("attach", "the averages of a task that was not updated before");
            return;
        };
        if !task.averages_known || task.group {
            report.without_input("attach", "the averages of a task that was not updated before");
            return;
        }
        let masked = task_util_est_masked(&task.avg);
        let attached = |load_avg: u64| {
            let (mut avg, mut after) = (SchedAvg { load_avg, ..task.avg }, queue.avg);
            after.attach::<HalfLife32>(&mut avg, task.weight);
            (avg, after)
        };
        let renewed =
            task.renewed.iter().map(|&load_avg| attached(load_avg)).find(|(_, after)| sums(&after.avg) == sums(got));
        let (avg, after) = renewed.unwrap_or_else(|| attached(task.avg.load_avg));
        compare(report, "attach", &after.avg);
        if let Some(task) = state.tasks.get_mut(&se) {
            task.avg = avg;
            task.cfs = Some(addr);
            task.cpu = cpu;
        }
        queue_estimate(ev, state, report, Some(masked), false);
        state.migrating.remove(&pid);
        return;
    }
    // Leaving: right after its own update.
    let leaver = state.tasks.iter().find(|(_, task)| {
        task.cfs == Some(addr)
            && !task.group
            && task.averages_known
            && task.avg.last_update_time == queue.avg.avg.last_update_time
            && queue.avg.avg.util_avg.saturating_sub(task.avg.util_avg) == got.util_avg
            && queue.avg.avg.runnable_avg.saturating_sub(task.avg.runnable_avg) == got.runnable_avg
            && queue.avg.avg.load_avg.saturating_sub(task.avg.load_avg) == got.load_avg
    });
    match leaver {
        Some((_, task)) => {
            let mut after = queue.avg;
            after.detach::<HalfLife32>(&task.avg, task.weight);
            compare(report, "detach", &after.avg);
            state.cpus[ev.cpu()].context.detached = Some(task.pid);
        }
        None => report.without_input("detach", "which entity left"),
    }
}

/// A run queue's estimate was changed on this CPU just before; the task is known by now.
fn queue_estimate(
    ev: &Ev<'_>,
    state: &mut State<'_>,
    report: &mut RecordingReport,
    util_est: Option<u32>,
    leaves: bool,
) {
    let Some((cpu, old, new)) = state.cpus[ev.cpu()].context.util_est.take() else { return };
    let Some(util_est) = util_est else {
        report.without_input("util_est_cfs", "which task");
        return;
    };
    let Some(queue) = state.root.get(cpu).copied().flatten().and_then(|addr| state.queues.get_mut(&addr)) else {
        report.without_input("util_est_cfs", "the estimate before");
        return;
    };
    queue.avg.avg.util_est = new;
    queue.util_est_known = true;
    let Some(old) = old else {
        report.without_input("util_est_cfs", "the estimate before");
        return;
    };
    let computed = if leaves { old.saturating_sub(util_est) } else { old.wrapping_add(util_est) };
    report.compare("util_est_cfs", ev.time_ns(), new, computed, UNEXPLAINED);
}

fn util_est_cfs(ev: &Ev<'_>, state: &mut State<'_>, report: &mut RecordingReport) -> Option<()> {
    queue_estimate(ev, state, report, None, false);
    let (cpu, new) = (ev.cpu_field("cpu")?, ev.get("util_est")? as u32);
    let mut old = None;
    if let Some(queue) = state.root.get(cpu).copied().flatten().and_then(|addr| state.queues.get_mut(&addr)) {
        let before = std::mem::replace(&mut queue.avg.avg.util_est, new);
        old = queue.util_est_known.then_some(before);
    }
    state.cpus[ev.cpu()].context.util_est = Some((cpu, old, new));
    Some(())
}

fn util_est_se(ev: &Ev<'_>, state: &mut State<'_>, report: &mut RecordingReport) -> Option<()> {
    let (addr, pid) = (ev.u("se")?, ev.get("pid")?);
    let expected = (ev.get("util_est")? as u32, ev.u("util_avg")?);
    let Some(task) = state.tasks.get_mut(&addr).filter(|task| task.pid == pid) else {
        queue_estimate(ev, state, report, None, false);
        report.without_input("util_est_se", "the task before");
        return Some(());
    };
    let masked = task_util_est_masked(&task.avg);
    let mut avg = task.avg;
    util_est_update(&mut avg, true, state.machine.capacity[task.cpu]);
    task.avg.util_est = expected.0;
    // Without its averages only an estimate that does not depend on them is known.
    if task.averages_known || avg.util_avg as u32 >= masked {
        report.compare("util_est_se", ev.time_ns(), expected, (avg.util_est, avg.util_avg), UNEXPLAINED);
    } else {
        report.without_input("util_est_se", "the task's runnable_avg");
    }
    if expected.0 & UTIL_AVG_UNCHANGED == 0 && expected.0 > 1024 {
        report.without_input("util_est_se", "an estimate that is a utilisation");
        return Some(());
    }
    queue_estimate(ev, state, report, Some(masked), true);
    Some(())
}

/// `pelt_rt`, `pelt_dl`: only the state after a crossing is recorded; the one before is that of the last record, as long as the
/// class ran all the time or not at all.
fn class_avg(ev: &Ev<'_>, state: &mut State<'_>, report: &mut RecordingReport, kind: &'static str) -> Option<()> {
    let cpu = ev.cpu_field("cpu")?;
    let changes = state.changes_class(cpu, ev.time_ns());
    let got = SchedAvg {
        last_update_time: ev.u("lut")?,
        util_sum: ev.get("util_sum")? as u32,
        period_contrib: ev.get("pc")? as u32,
        util_avg: ev.u("util_avg")?,
        ..SchedAvg::default()
    };
    let cpu = state.cpus.get_mut(cpu)?;
    let (class, running) = if kind == "pelt_rt" { (&mut cpu.rt, cpu.curr_rt) } else { (&mut cpu.dl, cpu.curr_dl) };
    let old = std::mem::replace(class, ClassAvg { avg: got, known: true, mixed: changes });
    if changes {
        report.without_input(kind, "when the running task changed its class (no probe)");
    } else if !old.known {
        report.without_input(kind, "the state before");
    } else if old.mixed {
        report.without_input(kind, "when a task of the class began or ended (that update crossed no period)");
    } else {
        let mut avg = old.avg;
        if kind == "pelt_rt" {
            update_rt_rq_load_avg::<HalfLife32>(got.last_update_time, &mut avg, running);
        } else {
            update_dl_rq_load_avg::<HalfLife32>(got.last_update_time, &mut avg, running);
        }
        let shown = |avg: &SchedAvg| (avg.last_update_time, avg.util_sum, avg.period_contrib, avg.util_avg);
        // What an update in the midst of a period adds is rounded once more when the period ends.
        let rounded = running && got.util_sum.abs_diff(avg.util_sum) <= 1024;
        let cause =
            if rounded { "an update that crossed no period came in between (it is not recorded)" } else { UNEXPLAINED };
        report.compare(kind, ev.time_ns(), shown(&got), shown(&avg), cause);
    }
    Some(())
}

/// No machine here loses capacity to hardware: its average stays 0.
fn pelt_hw(ev: &Ev<'_>, report: &mut RecordingReport) -> Option<()> {
    report.compare("pelt_hw", ev.time_ns(), ev.u("load_avg")?, 0, UNEXPLAINED);
    Some(())
}

/// A real-time task; those of the stop class show a priority of 0 too.
fn is_rt(ev: &Ev<'_>, pid: i64, prio: i64) -> bool {
    (0..100).contains(&prio) && !ev.name_of(pid).is_some_and(|name| name.starts_with("migration/"))
}

/// Scheduling events: who runs where.
fn other(ev: &Ev<'_>, state: &mut State<'_>) -> Option<()> {
    match ev.kind() {
        Kind::SchedSwitch => {
            let (next, prio) = (ev.get("next_pid")?, ev.get("next_prio")?);
            let (prev, prev_state) = (ev.get("prev_pid")?, ev.get("prev_state")?);
            state.deadline_tasks |= prio < 0 && !ev.name_of(next).is_some_and(|name| name.starts_with("sugov:"));
            let cpu = &mut state.cpus[ev.cpu()];
            let (rt, dl) = (is_rt(ev, next, prio), prio < 0);
            cpu.rt.mixed |= rt != cpu.curr_rt || cpu.curr.is_none();
            cpu.dl.mixed |= dl != cpu.curr_dl || cpu.curr.is_none();
            cpu.curr = Some(next);
            cpu.curr_rt = rt;
            cpu.curr_dl = dl;
            if prev_state & 0xff != 0 {
                cpu.rt_queued.retain(|&pid| pid != prev);
            }
            if rt && !cpu.rt_queued.contains(&next) {
                cpu.rt_queued.push(next);
            }
            cpu.context.forking = None;
            cpu.context.last_se = None;
            cpu.context.left_cpu = None;
        }
        Kind::SchedWaking => state.cpus[ev.cpu()].context.waking = ev.get("pid"),
        Kind::SchedWakeup | Kind::SchedWakeupNew => {
            let (pid, prio) = (ev.get("pid")?, ev.get("prio")?);
            let target = ev.cpu_field("target_cpu")?;
            if is_rt(ev, pid, prio)
                && let Some(cpu) = state.cpus.get_mut(target)
                && !cpu.rt_queued.contains(&pid)
            {
                cpu.rt_queued.push(pid);
            }
            state.migrating.remove(&pid);
            let context = &mut state.cpus[ev.cpu()].context;
            context.waking = None;
            context.forking = None;
            context.left_cpu = None;
        }
        Kind::SchedProcessFork => {
            let child = ev.get("child_pid")?;
            state.cpus[ev.cpu()].context.forking = Some(child);
            state.newborn.insert(child);
            // A number that is used again is another task.
            if let Some(old) = state.by_pid.remove(&child) {
                state.tasks.remove(&old);
            }
        }
        Kind::SchedMigrateTask => {
            let (pid, dest) = (ev.get("pid")?, ev.cpu_field("dest_cpu")?);
            state.migrating.insert(pid, dest);
            let sleeping = state.cpus[ev.cpu()].context.waking == Some(pid);
            let orig = ev.cpu_field("orig_cpu");
            let context = &mut state.cpus[ev.cpu()].context;
            context.removing = sleeping.then_some(pid);
            context.left_cpu = orig.filter(|_| sleeping);
        }
        Kind::StrfIn => state.cpus[ev.cpu()].context.placing = true,
        Kind::StrfRet => state.cpus[ev.cpu()].context.placing = false,
        Kind::Cap => state.cpus.get_mut(ev.cpu_field("cpu")?)?.capacity_of = ev.u("cap"),
        Kind::NrRunning => state.cpus.get_mut(ev.cpu_field("cpu")?)?.nr_running = ev.u("nr"),
        Kind::Overutil => state.overutilized = Some(ev.get("over")? != 0),
        Kind::Cenergy => state.overutilized = state.overutilized.or(Some(false)),
        Kind::SgUtil => state.cpus.get_mut(ev.cpu_field("cpu")?)?.bw_min = ev.u("bw_min"),
        Kind::SgEffIn | Kind::SgEff => state.cpus.get_mut(ev.cpu_field("cpu")?)?.bw_min = ev.u("min"),
        Kind::Setscale => {
            let (mask, cur, max) = (ev.u("cpus")?, ev.u("cur")?, ev.u("max")?);
            for (number, cpu) in state.cpus.iter_mut().enumerate().take(64) {
                if mask >> number & 1 != 0 {
                    cpu.freq_scale = (cur << 10).checked_div(max);
                }
            }
        }
        _ => {}
    }
    Some(())
}
