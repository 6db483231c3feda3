//! Rules of the rebuilt load tracking, each in a few events: what a switch, a dead task, a move and an unknown history mean.

use opplab_kernel::profile::KernelProfile;
use opplab_signals::groups::{GroupFinder, Groups};
use opplab_signals::pelt::{CpuFacts, PeltReplay, Sample};
use opplab_signals::ticks::Ticks;

type Replay = PeltReplay<fn(&Sample)>;

const MS: u64 = 1_000_000;
const NONE: (i32, i64) = (0, 120);

fn replay(cpus: usize) -> Replay {
    let mut replay: Replay = PeltReplay::new(&vec![CpuFacts::default(); cpus], 0, |_| {});
    // The clocks start.
    (0..cpus as u32).for_each(|cpu| replay.switch(MS, cpu, NONE, 0, NONE));
    replay
}

fn task(pid: i32) -> (i32, i64) {
    (pid, 120)
}

/// A new task that runs on CPU 0 from `from` to `to`, then sleeps.
fn run(replay: &mut Replay, pid: i32, from: u64, to: u64) {
    replay.wakeup(from, pid, 120, 0, true);
    replay.switch(from, 0, NONE, 0, task(pid));
    replay.switch(to, 0, task(pid), 1, NONE);
}

#[test]
fn an_idle_cpu_counts_a_task_from_its_wake_up_on() {
    let util = |switched: u64| {
        let mut replay = replay(1);
        run(&mut replay, 7, 2 * MS, 20 * MS);
        replay.wakeup(900 * MS, 7, 120, 0, false);
        replay.switch(switched, 0, NONE, 0, task(7));
        let sample = replay.peek_task(7, 910 * MS).unwrap();
        (sample.util_avg, sample.error_bound)
    };
    let (at_once, bound) = util(900 * MS);
    assert!(bound == 0 && (180..220).contains(&at_once), "{at_once} {bound}");
    // The same with a late switch; that the tick might have come in between is in the bound.
    let (late, bound) = util(903 * MS);
    assert_eq!(late, at_once);
    assert!((50..70).contains(&bound), "{bound}");
}

#[test]
fn ticks_tell_what_preempted_a_task() {
    let util = |ticks: Option<Ticks>| {
        let mut replay = replay(1);
        replay.set_ticks(ticks);
        run(&mut replay, 7, 2 * MS, 20 * MS);
        run(&mut replay, 8, 30 * MS, 40 * MS);
        replay.wakeup(900 * MS, 7, 120, 0, false);
        replay.switch(900 * MS, 0, NONE, 0, task(7));
        replay.wakeup(905 * MS, 8, 120, 0, false);
        replay.switch(908 * MS + 50_000, 0, task(7), 0, task(8));
        let sample = replay.peek_task(7, 908 * MS + 60_000).unwrap();
        (sample.util_avg, sample.error_bound)
    };
    let at = |phase_ns| Some(Ticks { period_ns: 4 * MS, phase_ns });
    let (by_tick, by_wakeup, unknown) = (util(at(0)), util(at(2 * MS)), util(None));
    // Three more milliseconds at full speed.
    assert!(by_tick.0 > by_wakeup.0 + 40, "{by_tick:?} {by_wakeup:?}");
    assert_eq!(by_tick.1, 0);
    assert!(unknown.1 > 40 && unknown.0.abs_diff(by_wakeup.0) <= unknown.1 + 4, "{unknown:?} {by_wakeup:?}");
}

#[test]
fn a_dead_task_leaves_its_queue() {
    let queue = |state: u64| {
        let mut replay = replay(1);
        replay.wakeup(2 * MS, 7, 120, 0, true);
        replay.switch(2 * MS, 0, NONE, 0, task(7));
        replay.switch(50 * MS, 0, task(7), state, NONE);
        // The queue learns of it at its next update.
        replay.switch(51 * MS, 0, NONE, 0, NONE);
        replay.peek_cpu(0, 52 * MS).unwrap().util_avg
    };
    assert!(queue(1) > 500, "a sleeping task stays: {}", queue(1));
    assert!(queue(0x20) < 10, "a dead one does not: {}", queue(0x20));
}

/// Goal: a task whose switch to the CPU is missing ran from its wake-up on at most, and from the CPU's last switch; the bound holds the
/// case that it did not. It counted as running from its own sleep on.
#[test]
fn a_task_that_came_unseen_ran_from_its_wake_up_at_most() {
    let util = |woken_us: Option<u64>, gone_us: u64, seen: bool| {
        let mut replay = replay(1);
        run(&mut replay, 7, 2 * MS, 3 * MS);
        run(&mut replay, 8, 50 * MS, 51 * MS);
        if let Some(us) = woken_us {
            replay.waking(us * 1000, 7);
        }
        if seen {
            replay.switch(woken_us.unwrap_or(51_000) * 1000, 0, NONE, 0, task(7));
        }
        replay.switch(gone_us * 1000, 0, task(7), 1, NONE);
        let sample = replay.peek_task(7, gone_us * 1000).unwrap();
        (sample.util_avg, sample.error_bound)
    };
    for (woken_us, gone_us) in [(Some(130_000), 130_173), (Some(40_000), 60_000), (None, 60_000)] {
        let (whole, unseen) = (util(woken_us.filter(|&us| us > 51_000), gone_us, true), util(woken_us, gone_us, false));
        assert!(unseen.0.abs_diff(whole.0) <= 4, "{woken_us:?}: {unseen:?} {whole:?}");
        // It may have come just before it left.
        let ran_ms = (gone_us - woken_us.unwrap_or(0).max(51_000)) as f64 / 1000.0;
        let most = 1024.0 * (1.0 - 0.5_f64.powf(ran_ms / 32.0));
        assert!(unseen.1 as f64 >= whole.1 as f64 + most - 1.0, "{woken_us:?}: {unseen:?} {whole:?} {most}");
        assert!((unseen.1 as f64) < whole.1 as f64 + most * 1.3 + 10.0, "{woken_us:?}: {unseen:?} {whole:?} {most}");
    }
}

#[test]
fn a_sleeping_task_moves_with_its_wake_up_or_at_once() {
    let queues = |waking: bool| {
        let mut replay = replay(2);
        replay.waking(0, 99);
        run(&mut replay, 7, 2 * MS, 50 * MS);
        if waking {
            replay.waking(60 * MS, 7);
        }
        replay.migrate(60 * MS, 7, 120, 1);
        let now = 61 * MS;
        (replay.peek_cpu(0, now).unwrap().util_avg, replay.peek_cpu(1, now).unwrap().util_avg)
    };
    // A load balance moves a task whose dequeue was delayed, with its utilisation.
    let (from, to) = queues(false);
    assert!(from < 10 && to > 400, "{from} {to}");
    // What a wake-up moves is attached when it is queued.
    let (_, to) = queues(true);
    assert!(to < 10, "{to}");
}

/// Goal: a task that becomes a real-time one leaves nothing with the fair class, and comes back with what it had, aged.
#[test]
fn a_task_of_another_class_takes_its_part_along() {
    let mut replay = replay(1);
    let fair = |replay: &Replay| replay.cpu_util(0);
    replay.wakeup(2 * MS, 7, 120, 0, false);
    replay.switch(2 * MS, 0, NONE, 0, task(7));
    replay.switch(62 * MS, 0, task(7), 1, NONE);
    replay.wakeup(64 * MS, 7, 120, 0, false);
    let before = fair(&replay);
    assert!(before.util_avg > 650 && before.util_est > 600, "{before:?}");
    replay.switch(64 * MS, 0, NONE, 0, (7, 89));
    let without = fair(&replay);
    assert!(without.util_avg < 5 && without.util_est == 0 && without.rt_runnable, "{without:?}");
    replay.switch(96 * MS, 0, (7, 120), 0, NONE);
    let again = fair(&replay);
    assert!((300..400).contains(&again.util_avg) && again.util_est == before.util_est, "{again:?}");
    assert!(!again.rt_runnable);
}

/// Goal: no time passes for a task that its group's quota stops; its queue gets back what it has.
#[test]
fn a_throttled_task_keeps_its_signal() {
    let mut replay = replay(1);
    replay.wakeup(2 * MS, 7, 120, 0, false);
    replay.switch(2 * MS, 0, NONE, 0, task(7));
    let stopped = 34 * MS;
    replay.switch(stopped, 0, task(7), 0, NONE);
    let before = replay.peek_task(7, stopped).unwrap().util_avg;
    assert!(before > 450 && replay.runnable(0) == 0, "{before}");
    assert_eq!(replay.peek_task(7, 98 * MS).unwrap().util_avg, before);
    let idle = replay.peek_cpu(0, 98 * MS).unwrap().util_avg;
    assert!(idle * 3 < before, "{idle}");
    replay.switch(98 * MS, 0, NONE, 0, task(7));
    assert!(replay.peek_task(7, 98 * MS).unwrap().util_avg.abs_diff(before) <= 2);
    assert!(replay.cpu_util(0).util_avg.abs_diff(before) <= 2 && replay.runnable(0) == 1, "{:?}", replay.cpu_util(0));
    // It sleeps as any other task.
    replay.switch(99 * MS, 0, task(7), 1, NONE);
    assert!(replay.peek_task(7, 131 * MS).unwrap().util_avg * 2 < before + 40);
}

/// Groups as a snapshot shows them; task 7 is in `/web/app`.
const GROUPS: &str = "\
/sys/fs/cgroup/cgroup.procs: 1|
/sys/fs/cgroup/web/cpu.weight: 100|
/sys/fs/cgroup/web/cpu.max: 20000 100000|
/sys/fs/cgroup/web/app/cpu.weight: 300|
/sys/fs/cgroup/other/cpu.weight: 200|
7 7 web: 0::/web/app|
";

fn in_groups(finder: GroupFinder) -> Replay {
    let mut all = replay(2);
    all.set_groups(Groups::new(&finder, [GROUPS], []), finder);
    all
}

/// Goal: a task in a group counts in the root queue as one without; its group's entity weighs by the group's shares. A move to
/// another group takes the signal along.
#[test]
fn a_group_carries_what_its_tasks_do() {
    let (mut plain, mut grouped) = (replay(2), in_groups(GroupFinder::default()));
    for all in [&mut plain, &mut grouped] {
        all.wakeup(2 * MS, 7, 120, 0, false);
        all.switch(2 * MS, 0, NONE, 0, task(7));
        all.update(30 * MS, 0);
        all.switch(34 * MS, 0, task(7), 1, NONE);
        all.wakeup(50 * MS, 7, 120, 0, false);
        all.switch(50 * MS, 0, NONE, 0, task(7));
        all.update(60 * MS, 0);
    }
    let (one, other) = (plain.peek_cpu(0, 60 * MS).unwrap(), grouped.peek_cpu(0, 60 * MS).unwrap());
    assert!(one.util_avg.abs_diff(other.util_avg) <= 2 && other.util_avg > 400, "{one:?} {other:?}");
    assert_eq!(plain.peek_task(7, 60 * MS).unwrap().util_avg, grouped.peek_task(7, 60 * MS).unwrap().util_avg);
    let paths = |all: &Replay| all.group_queues(0).into_iter().map(|(path, ..)| path).collect::<Vec<_>>();
    assert_eq!(paths(&grouped), ["/web", "/web/app"]);
    // Alone on the machine, the group has all of its shares; the one in it, too.
    let weights: Vec<u64> = grouped.group_queues(0).into_iter().map(|(.., weight)| weight >> 10).collect();
    assert_eq!(weights, [1024, 3072]);
    let before = grouped.peek_task(7, 60 * MS).unwrap().util_avg;
    grouped.attach_group(60 * MS, 0, 9, "/other", 7);
    let (task, root) = (grouped.peek_task(7, 60 * MS).unwrap(), grouped.peek_cpu(0, 60 * MS).unwrap());
    assert!(task.util_avg.abs_diff(before) <= 1 && root.util_avg.abs_diff(other.util_avg) <= 2, "{task:?} {root:?}");
    assert_eq!(paths(&grouped), ["/web", "/web/app", "/other"]);
    let queues = grouped.group_queues(0);
    assert!(queues[0].1.util_avg <= 1 && queues[2].1.util_avg.abs_diff(before) <= 1, "{queues:?}");
}

/// Goal: a quota that stops a group lets its tasks' signals stand still, those of all levels, while the root queue's decays; where the
/// CPU has other work, the count of runnable tasks shows it.
#[test]
fn a_quota_stops_a_group() {
    for other_work in [false, true] {
        let next = if other_work { task(8) } else { NONE };
        let mut finder = GroupFinder::default();
        finder.wakeup(2 * MS, 7, 120, 0);
        finder.switch(2 * MS, 0, NONE, 0, 7);
        if other_work {
            finder.nr_running(20 * MS, 0, 1, Some(2));
            finder.wakeup(20 * MS, 8, 120, 0);
            finder.nr_running(34 * MS, 0, -1, Some(1));
        }
        finder.switch(34 * MS, 0, task(7), 0x100, next.0);
        assert!(finder.is_stopped(7, 34 * MS), "{other_work}");
        let mut all = in_groups(finder);
        all.wakeup(2 * MS, 7, 120, 0, false);
        all.switch(2 * MS, 0, NONE, 0, task(7));
        if other_work {
            all.wakeup(20 * MS, 8, 120, 0, false);
        }
        all.switch(34 * MS, 0, task(7), 0x100, next);
        let before = all.peek_task(7, 34 * MS).unwrap();
        assert_eq!(all.peek_task(7, 98 * MS).unwrap().util_avg, before.util_avg);
        assert_eq!(all.runnable(0), u64::from(other_work));
        all.switch(98 * MS, 0, next, 1, task(7));
        let after = all.peek_task(7, 98 * MS).unwrap();
        assert!(after.util_avg.abs_diff(before.util_avg) <= 2, "{before:?} {after:?}");
        assert_eq!(all.runnable(0), 1);
        // Who waited for a busy CPU may have been let go on before.
        assert_eq!(after.error_bound > before.error_bound + 20, other_work, "{before:?} {after:?}");
    }
}

/// Goal: each run's end may be told late, which the bounds of task and queue hold.
#[test]
fn late_events_are_in_the_bound() {
    let bounds = |late_ns: u64| {
        let mut replay = replay(1);
        replay.set_late_ns(late_ns);
        run(&mut replay, 7, 900 * MS, 2 * MS);
        (replay.peek_task(7, 902 * MS).unwrap().error_bound, replay.peek_cpu(0, 902 * MS).unwrap().error_bound)
    };
    let (none, late) = (bounds(0), bounds(2 * MS));
    // 2 ms of 1024 units, of which half decays in 32 ms.
    assert!((42..46).contains(&(late.0 - none.0)), "{none:?} {late:?}");
    assert!((42..46).contains(&(late.1 - none.1)), "{none:?} {late:?}");
}

/// Goal: what follows the dequeue of the last task, until the switch, is nobody's running time, even if a tick comes in between.
#[test]
fn the_time_of_a_new_idle_balance_is_nobodys() {
    let utils = |left_ns: Option<u64>, tick_ns: u64| {
        let mut replay = replay(1);
        replay.set_ticks(Some(Ticks { period_ns: 40 * MS, phase_ns: tick_ns }));
        replay.wakeup(2 * MS, 7, 120, 0, true);
        replay.switch(2 * MS, 0, NONE, 0, task(7));
        if let Some(left_ns) = left_ns {
            replay.nr_running(left_ns, 0, 0, -1, 0);
        }
        replay.switch(14 * MS, 0, task(7), 1, NONE);
        (replay.peek_task(7, 14 * MS).unwrap().util_avg, replay.peek_cpu(0, 14 * MS).unwrap().util_avg)
    };
    let ((task, queue), (task_untold, queue_untold)) = (utils(Some(10 * MS), 30 * MS), utils(None, 30 * MS));
    assert!(task + 50 < task_untold, "{task} {task_untold}");
    assert!(queue + 50 < queue_untold, "{queue} {queue_untold}");
    assert_eq!(utils(Some(10 * MS), 12 * MS), (task, queue));
}

#[test]
fn the_bound_holds_for_a_history_that_is_not_known() {
    // The same events with and without 300 ms before them.
    let mut whole = replay(1);
    run(&mut whole, 7, 2 * MS, 200 * MS);
    let mut late: Replay = PeltReplay::new(&[CpuFacts::default()], 0, |_| {});
    late.switch(250 * MS, 0, NONE, 0, NONE);
    for replay in [&mut whole, &mut late] {
        replay.wakeup(260 * MS, 7, 120, 0, false);
        replay.switch(260 * MS, 0, NONE, 0, task(7));
    }
    for ms in [261, 300, 350, 500] {
        let (whole, late) = (whole.peek_task(7, ms * MS).unwrap(), late.peek_task(7, ms * MS).unwrap());
        let off = whole.util_avg.abs_diff(late.util_avg);
        assert!(off <= late.error_bound + 1, "at {ms} ms: {off}, bound {}", late.error_bound);
    }
}

#[test]
fn a_frequency_counts_from_the_last_update_on() {
    let cpus = [CpuFacts { freq_max_khz: 1000, ..CpuFacts::default() }; 2];
    let util = |by_cpu: u32| {
        let mut replay: Replay = PeltReplay::new(&cpus, 0, |_| {});
        replay.set_ticks(Some(Ticks { period_ns: 10 * MS, phase_ns: 0 }));
        replay.switch(MS, 0, NONE, 0, NONE);
        run(&mut replay, 7, 2 * MS, 4 * MS);
        replay.wakeup(900 * MS, 7, 120, 0, false);
        replay.switch(900 * MS, 0, NONE, 0, task(7));
        // Half way from the switch, and from the last tick.
        replay.frequency(904 * MS, by_cpu, 0, 500);
        replay.switch(908 * MS, 0, task(7), 1, NONE);
        replay.peek_task(7, 908 * MS).unwrap().util_avg
    };
    // Another CPU's change: all 8 ms count half. Its own: it was up to date.
    let (others, own) = (util(1), util(0));
    assert!((60..95).contains(&others), "{others}");
    assert!((100..135).contains(&own), "{own}");
}

#[test]
fn a_sleeping_tasks_estimate_is_that_of_its_last_tick_since_v6_12() {
    let estimate = |version: (u16, u16)| {
        let mut replay = replay(1);
        replay.set_kernel(&KernelProfile::at(version));
        replay.set_ticks(Some(Ticks { period_ns: 10 * MS, phase_ns: 0 }));
        run(&mut replay, 7, 2 * MS, 3 * MS);
        replay.wakeup(900 * MS, 7, 120, 0, false);
        replay.switch(900 * MS, 0, NONE, 0, task(7));
        replay.switch(918 * MS, 0, task(7), 1, NONE);
        replay.peek_task(7, 918 * MS).unwrap().util_est
    };
    // A quarter of what it ran since the tick, 8 of 18 ms.
    let (before, after) = (estimate((6, 11)), estimate((6, 12)));
    assert!((20..60).contains(&(before - after)), "{before} {after}");
}

#[test]
fn a_stopper_is_no_real_time_task() {
    let real_time = |stoppers: &[i32]| {
        let mut replay = replay(1);
        replay.set_stoppers(stoppers.iter().copied());
        replay.wakeup(10 * MS, 9, 0, 0, false);
        replay.switch(10 * MS, 0, NONE, 0, (9, 0));
        replay.update(30 * MS, 0);
        let util = replay.cpu_util(0);
        (util.rt_runnable, util.util_rt > 0)
    };
    assert_eq!(real_time(&[]), (true, true));
    assert_eq!(real_time(&[9]), (false, false));
}

#[test]
fn a_governor_hears_of_a_queue_when_its_periods_end() {
    let mut replay = replay(1);
    run(&mut replay, 7, 2 * MS, 3 * MS);
    assert!(replay.take_changed(0));
    // Periods are 1.048576 ms long and end at multiples of that.
    replay.update(3 * MS + 20_000, 0);
    assert!(!replay.take_changed(0));
    replay.update(5 * MS, 0);
    assert!(replay.take_changed(0));
    assert!(!replay.take_changed(0));
}
