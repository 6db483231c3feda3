//! The metrics of every run. To add one, add an entry.

use crate::Better::{Higher, Lower, Neither};
use crate::Kind::{Detail, Part, Whole};
use opplab_model::metric::units;

use crate::{FULL, Metric, SOME, at, average, by_percentile, percent};
use opplab_sim::Consumed;

macro_rules! metrics {
    ($($name:literal, $unit:literal, $better:ident, $kind:ident, $about:literal, $values:expr;)*) => {
        /// Every metric, in the order of rows.
        pub const METRICS: &[Metric] = &[$(Metric {
            name: $name,
            unit: $unit,
            better: $better,
            kind: $kind,
            about: $about,
            values: $values,
        }),*];
    };
}

metrics! {
    "energy", "J", Lower, Whole, "energy of all clusters after the warm-up",
        |r| r.one(r.energy_fj().map(|fj| fj as f64 / 1e15));
    "energy_low", "J", Neither, Detail, "energy at the low ends of the ranges of the machine's powers",
        |r| r.energy_at(|(low, _)| low);
    "energy_high", "J", Neither, Detail, "energy at the high ends of the ranges of the machine's powers",
        |r| r.energy_at(|(_, high)| high);
    "energy:CLUSTER", "J", Lower, Part, "energy of a cluster", |r| r.by_energy(|fj| fj as f64 / 1e15);
    "energy:rest", "J", Lower, Part, "energy of the rest of the machine", |r| r.one(r.outcome.floor_energy_fj as f64 / 1e15);
    "energy:CONSUMER", "J", Lower, Part, "energy of a consumer that is no CPU, such as a GPU",
        |r| r.by_consumer(|one| one.energy_fj as f64 / 1e15);
    "frames:CONSUMER", "1/s", Higher, Whole, "frames of a GPU a second", |r| r.by_consumer(|one| frames(one) * 1e9 / r.wall_ns());
    "power", "W", Lower, Whole, "mean power of all clusters", |r| r.one(r.energy_fj().map(|fj| r.watts(fj)));
    "power_at_pace", "W", Lower, Detail, "mean power of all clusters while loops ran whose pace the rest of the benchmark takes (hackbench)",
        |r| r.power_at_pace();
    "power:CLUSTER", "W", Lower, Part, "mean power of a cluster", |r| r.by_energy(|fj| r.watts(fj));
    "power:rest", "W", Lower, Part, "mean power of the rest of the machine", |r| r.one(r.watts(r.outcome.floor_energy_fj));
    "activations", "1", Higher, Detail, "activations of periodic tasks that were finished, or were due before the end of the run",
        |r| r.one(r.outcome.activations as f64);
    "missed_activations", "%", Lower, Whole, "share of activations that were not finished in their period, or by the earlier deadline of a SCHED_DEADLINE task; those that were due and never finished are among them",
        |r| r.one(percent(r.outcome.missed_activations, r.outcome.activations));
    "missed_at_start", "%", Neither, Detail, "share of activations that were not finished in their period and ended in the run's first 0.2 s",
        |r| r.share(r.outcome.missed_at_start, r.outcome.activations);
    "unfinished_activations", "%", Lower, Detail, "share of activations that were due before the end of the run and did not finish: their responses count up to there",
        |r| r.share(r.outcome.unfinished_activations, r.outcome.activations);
    "first_idle", "%", Neither, Detail, "share of CPU time in idle states that governors chose as at boot, where there is a deeper one",
        |r| r.share(r.outcome.first_idle_ns, r.outcome.wall_ns * r.outcome.busy_ns_by_opp.len() as u64);
    "resumes", "1", Higher, Detail, "rt-app's resumes",
        |r| if r.outcome.resumes == 0 { Vec::new() } else { r.one(r.outcome.resumes as f64) };
    "lost_resumes", "%", Lower, Whole, "share of rt-app's resumes that found no task suspended: work that is not done",
        |r| r.share(r.outcome.lost_resumes, r.outcome.resumes);
    "rate", "1/s", Higher, Whole, "what the workload counts, a second",
        |r| if r.outcome.counts == 0 { Vec::new() } else { r.one(units(r.outcome.units_fp) * 1e9 / r.wall_ns()) };
    "freq_residency:CLUSTER@KHZ", "%", Neither, Detail, "share of a cluster's CPU time at a frequency",
        |r| r.by_opp(&r.outcome.time_ns_by_opp);
    "busy:CLUSTER@KHZ", "%", Neither, Detail, "share of a cluster's CPU time that it was busy at a frequency",
        |r| r.by_opp(&r.outcome.busy_ns_by_opp);
    "idle_residency:CLUSTER@STATE", "%", Neither, Detail, "share of a cluster's CPU time in an idle state; none: awake without a task",
        |r| r.shares(&r.outcome.idle_ns_by_state, |_, cluster| {
            cluster.idle.iter().map(|state| state.name.clone()).chain(["none".to_owned()]).collect()
        });
    "task_time:CLUSTER", "s", Neither, Detail, "time that tasks ran on a cluster",
        |r| r.by_cluster(|index, _| {
            Some(r.outcome.task_ns_by_cluster.iter().map(|times| times[index]).sum::<u64>() as f64 / 1e9)
        });
    "freq_changes:POLICY", "1", Neither, Detail, "changes of a cpufreq policy's frequency; policies have the number of their first CPU, as in sysfs",
        |r| {
            let changes = r.case.machine.policies().into_iter().zip(&r.outcome.freq_changes);
            changes.map(|((_, cpus), &count)| (format!("policy{}", cpus[0]), Some(count as f64))).collect()
        };
    "overutilized", "%", Lower, Whole, "share of the time in which energy-aware placement was off for overload",
        |r| r.one(r.percent_of_time(r.outcome.overutilized_ns));
    "overutilized_changes", "1", Neither, Detail, "how often energy-aware placement went off or on again",
        |r| r.one(r.outcome.overutilized_changes as f64);
    "migrations", "1", Neither, Whole, "moves of tasks to another CPU", |r| r.one(r.outcome.migrations as f64);
    "switches", "1", Neither, Detail, "context switches", |r| r.one(r.outcome.switches as f64);
    "work_done", "s", Higher, Detail, "work that was done, in seconds of the biggest CPU at its highest frequency without boost",
        |r| r.one((r.outcome.work_done - r.outcome.background_work) as f64 / f64::from(1 << 20) / 1e9);
    "engine_events", "1", Neither, Detail, "events that the simulator handled", |r| r.one(r.outcome.engine_events as f64);
    "latency_PERCENTILE", "ms", Lower, Whole, "from the due time of the timer that wakes a task of the workload, of other wake-ups from sched_waking, to its running; of a benchmark where somebody asks for it (choose)",
        |r| by_percentile(r.waits.0);
    "response_PERCENTILE", "ms", Lower, Whole, "from an activation's timer to its end, or to the end of the run if it was due and did not end; of a benchmark where somebody asks for it (choose)",
        |r| by_percentile(r.waits.1);
    "group_energy:GROUP", "J", Lower, Part, "energy of a control group's tasks and of the groups in it, with equal parts of what awake clusters and packages share",
        |r| r.by_group(|group| Some(r.energy_fj().map(|_| group.figures.energy_fj as f64 / 1e15)));
    "group_usage:GROUP", "s", Neither, Detail, "CPU time of a control group (cpu.stat: usage_usec)",
        |r| r.by_group(|group| Some(Some(group.stat.usage_ns as f64 / 1e9)));
    "group_periods:GROUP", "1", Neither, Detail, "periods of a control group's quota (cpu.stat: nr_periods)",
        |r| r.by_quota(|stat| stat.nr_periods as f64);
    "group_throttled_periods:GROUP", "%", Lower, Whole, "share of these in which it was throttled (nr_throttled)",
        |r| r.by_quota(|stat| percent(stat.nr_throttled, stat.nr_periods));
    "group_throttled:GROUP", "s", Lower, Whole, "time that its queues were throttled, over all CPUs (throttled_usec)",
        |r| r.by_quota(|stat| stat.throttled_ns as f64 / 1e9);
    "group_bursts:GROUP", "1", Neither, Detail, "periods that used saved runtime (cpu.stat: nr_bursts)",
        |r| r.by_quota(|stat| stat.nr_bursts as f64);
    "group_burst:GROUP", "s", Neither, Detail, "runtime beyond the quota that was used (cpu.stat: burst_usec)",
        |r| r.by_quota(|stat| stat.burst_ns as f64 / 1e9);
    "group_activations:GROUP", "1", Neither, Detail, "activations of a control group's tasks that were finished, or were due before the end of the run",
        |r| r.by_group(|group| (group.figures.activations > 0).then_some(Some(group.figures.activations as f64)));
    "group_missed:GROUP", "%", Lower, Whole, "share of a control group's activations that were not finished in time, or not at all",
        |r| r.by_group(|group| {
            let figures = group.figures;
            (figures.activations > 0).then(|| Some(percent(figures.missed_activations, figures.activations)))
        });
    "group_latency_p50:GROUP", "ms", Lower, Whole, "from the due time of a timer or another wake-up of its tasks to running, median",
        |r| r.by_group(|group| at(group.figures.latency_ns, 50).map(Some));
    "group_latency_p99:GROUP", "ms", Lower, Whole, "the same, 99th percentile",
        |r| r.by_group(|group| at(group.figures.latency_ns, 99).map(Some));
    "group_response_p95:GROUP", "ms", Lower, Whole, "from timers of its tasks to the end of activations, or of the run if they were due and did not end, 95th percentile",
        |r| r.by_group(|group| at(group.figures.response_ns, 95).map(Some));
    "group_response_p99:GROUP", "ms", Lower, Whole, "the same, 99th percentile",
        |r| r.by_group(|group| at(group.figures.response_ns, 99).map(Some));
    "group_pressure_some:GROUP", "%", Lower, Whole, "time in which one of its tasks waited, a mean over CPUs by their time that is not idle (cpu.pressure: some total)",
        |r| r.by_pressure(SOME, |line| r.percent_of_time(line.total_ns));
    "group_pressure_full:GROUP", "%", Lower, Whole, "the same of all its tasks that could run (cpu.pressure: full total)",
        |r| r.by_pressure(FULL, |line| r.percent_of_time(line.total_ns));
    "group_pressure_some_avg10:GROUP", "%", Lower, Detail, "some avg10 of cpu.pressure at the end; 0 in runs of up to 2 s",
        |r| r.by_pressure(SOME, |line| average(line, 0));
    "group_pressure_some_avg60:GROUP", "%", Lower, Detail, "some avg60 of cpu.pressure at the end; 0 in runs of up to 2 s",
        |r| r.by_pressure(SOME, |line| average(line, 1));
    "group_pressure_some_avg300:GROUP", "%", Lower, Detail, "some avg300 of cpu.pressure at the end; 0 in runs of up to 2 s",
        |r| r.by_pressure(SOME, |line| average(line, 2));
    "group_pressure_full_avg10:GROUP", "%", Lower, Detail, "full avg10 of cpu.pressure at the end; 0 in runs of up to 2 s",
        |r| r.by_pressure(FULL, |line| average(line, 0));
    "group_pressure_full_avg60:GROUP", "%", Lower, Detail, "full avg60 of cpu.pressure at the end; 0 in runs of up to 2 s",
        |r| r.by_pressure(FULL, |line| average(line, 1));
    "group_pressure_full_avg300:GROUP", "%", Lower, Detail, "full avg300 of cpu.pressure at the end; 0 in runs of up to 2 s",
        |r| r.by_pressure(FULL, |line| average(line, 2));
    "pressure_some", "%", Lower, Detail, "time in which a task waited, a mean over CPUs by their time that is not idle (/proc/pressure/cpu: some total)",
        |r| r.pressure(|line| r.percent_of_time(line.total_ns));
    "pressure_some_avg10", "%", Lower, Detail, "some avg10 of /proc/pressure/cpu at the end; 0 in runs of up to 2 s",
        |r| r.pressure(|line| average(line, 0));
    "pressure_some_avg60", "%", Lower, Detail, "some avg60 of /proc/pressure/cpu at the end; 0 in runs of up to 2 s",
        |r| r.pressure(|line| average(line, 1));
    "pressure_some_avg300", "%", Lower, Detail, "some avg300 of /proc/pressure/cpu at the end; 0 in runs of up to 2 s",
        |r| r.pressure(|line| average(line, 2));
}

/// Units of a consumer's work that were done; the last one in part.
fn frames(one: &Consumed) -> f64 {
    if one.frame_fj == 0 { 0.0 } else { one.energy_fj as f64 / one.frame_fj as f64 }
}
