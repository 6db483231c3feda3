//! Signals against what the kernels themselves recorded in the shared traces.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use opplab_signals::decode::{SchedEvent, SchedSink, decoded};
use opplab_signals::pelt::{CpuFacts, PeltReplay, Sample};
use opplab_signals::residency::Residency;
use opplab_signals::samples::KernelSamples;
use opplab_trace::{Event, ReadOptions, Sink, TraceFile};

fn kernel_traces() -> Vec<PathBuf> {
    opplab_testdata::shared("traces").map_or_else(Vec::new, |traces| opplab_testdata::trace_dats(&traces))
}

fn stream(path: &Path, sink: &mut dyn Sink) {
    let outcome = TraceFile::open(path).unwrap().stream(&ReadOptions::default(), sink).unwrap();
    assert!(outcome.problems.is_empty());
}

#[test]
fn every_recorded_update_comes_out_as_the_kernel_had_it() {
    let (mut exact, mut total, mut traces) = (0, 0, 0);
    for path in kernel_traces() {
        let mut samples = KernelSamples::default();
        stream(&path, &mut samples);
        let all = samples.all();
        let name = path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(all.exact, all.total, "{name}: {:?}", samples.first_difference);
        // Kernel 6.1 was recorded without the tracepoints' side.
        let without = all.total == 0 && name.starts_with("x86-61-");
        assert!(all.total > 0 || without, "{name}");
        assert!(samples.crossing_without_event == 0 || without, "{name}");
        exact += all.exact;
        total += all.total;
        traces += usize::from(all.total > 0);
    }
    println!("{exact} of {total} updates exact, in {traces} traces");
}

/// Capacities and highest frequencies from the sysfs dump beside a trace; frequencies count only where the kernel follows them.
fn machine(trace: &Path) -> Vec<CpuFacts> {
    let dir = trace.parent().unwrap();
    let text = std::fs::read_to_string(dir.join("sysfs_before.txt")).unwrap_or_default();
    let arm = dir.file_name().unwrap().to_string_lossy().starts_with("arm64");
    let value = |key: &str| {
        let line = text.lines().find(|line| line.starts_with(key))?;
        line.split(": ").nth(1)?.trim_end_matches('|').split('|').next()?.trim().parse::<u32>().ok()
    };
    let cpus: Vec<u32> = (0..64).filter(|cpu| text.contains(&format!("/cpu{cpu}/"))).collect();
    let mut facts = vec![CpuFacts::default(); cpus.len().max(1)];
    for (place, cpu) in cpus.into_iter().enumerate() {
        let base = "/sys/devices/system/cpu";
        facts[place].capacity = value(&format!("{base}/cpu{cpu}/cpu_capacity: ")).unwrap_or(1024).into();
        if arm {
            // The policy that the CPU is in.
            let policy = (0..=cpu).rev().find(|p| {
                text.lines().any(|l| {
                    l.starts_with(&format!("{base}/cpufreq/policy{p}/affected_cpus: "))
                        && l.split(": ").nth(1).is_some_and(|list| {
                            list.trim_end_matches('|').split_whitespace().any(|c| c == cpu.to_string())
                        })
                })
            });
            if let Some(policy) = policy {
                facts[place].freq_max_khz =
                    value(&format!("{base}/cpufreq/policy{policy}/cpuinfo_max_freq: ")).unwrap_or(0);
                facts[place].freq_khz =
                    value(&format!("{base}/cpufreq/policy{policy}/scaling_cur_freq: ")).unwrap_or(0);
            }
        }
    }
    facts
}

/// Feeds the replay and compares it with each of the kernel's samples of tasks.
struct Compare {
    replay: PeltReplay<fn(&Sample)>,
    /// Number of samples by difference, where nothing before the trace matters any more.
    known: BTreeMap<u64, u64>,
    worst: (u64, String),
}

impl SchedSink for Compare {
    fn event(&mut self, event: &Event<'_>, what: &SchedEvent<'_>) {
        if event.schema.name == "pelt_se" {
            let get = |name| event.schema.field_index(name).and_then(|place| event.int(place)).unwrap_or(0);
            let pid = get("pid") as i32;
            if pid > 0
                && get("on_rq") != 0
                && let Some(ours) = self.replay.peek_task(pid, event.time_ns)
            {
                let kernel = get("util_avg") as u64;
                let difference = ours.util_avg.abs_diff(kernel);
                if ours.error_bound <= 2 {
                    *self.known.entry(difference).or_default() += 1;
                    if difference > self.worst.0 {
                        self.worst = (difference, format!("pid {pid} at {}: kernel {kernel}, {ours:?}", event.time_ns));
                    }
                }
            }
        }
        self.replay.event(event, what);
    }
}

/// The difference that `share` percent of the samples do not exceed.
fn percentile(differences: &BTreeMap<u64, u64>, share: u64) -> u64 {
    let total: u64 = differences.values().sum();
    let mut seen = 0;
    for (&difference, &count) in differences {
        seen += count;
        if seen * 100 >= total * share {
            return difference;
        }
    }
    0
}

#[test]
fn replayed_utilisation_is_near_the_kernels() {
    let (mut all, mut traces) = (BTreeMap::new(), 0);
    for path in kernel_traces() {
        let reader = TraceFile::open(&path).unwrap();
        let offset = reader.reader(&ReadOptions::default()).unwrap().meta().time_offset_ns;
        let replay = PeltReplay::new(&machine(&path), offset, (|_| {}) as fn(&Sample));
        let mut compare = Compare { replay, known: BTreeMap::new(), worst: (0, String::new()) };
        stream(&path, &mut decoded(&mut compare));
        let name = path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        let Compare { known, worst, .. } = compare;
        let total: u64 = known.values().sum();
        if total == 0 {
            continue;
        }
        let (half, most) = (percentile(&known, 50), percentile(&known, 95));
        println!("{name}: {total} samples, p50 {half} p95 {most} max {}", worst.0);
        // Of 1024. The rest are hundreds of switches, each told some microseconds late, virtual CPUs that were stopped between the
        // reading of a clock and the event, and tasks that a shell makes for milliseconds.
        assert!(half <= 13 && most <= 36, "{name}: p50 {half} p95 {most}: {}", worst.1);
        for (difference, count) in known {
            *all.entry(difference).or_default() += count;
        }
        traces += 1;
    }
    if traces > 0 {
        let total: u64 = all.values().sum();
        let within = |limit: u64| all.range(..=limit).map(|(_, count)| count).sum::<u64>() * 100 / total;
        println!(
            "{traces} traces, {total} samples of tasks with known history: {} % within 1 of 1024, {} % within 10, {} % within 32",
            within(1),
            within(10),
            within(32),
        );
        assert!(within(1) >= 88 && within(10) >= 98);
    }
}

#[test]
fn times_add_up() {
    for path in kernel_traces().into_iter().step_by(4) {
        let mut residency = Residency::default();
        stream(&path, &mut decoded(&mut residency));
        residency.finish();
        let mut by_cpu: BTreeMap<u32, u64> = BTreeMap::new();
        residency.running_ns.iter().for_each(|((_, cpu, _), ns)| *by_cpu.entry(*cpu).or_default() += ns);
        let mut idle: BTreeMap<u32, u64> = BTreeMap::new();
        residency.idle_ns.iter().for_each(|((cpu, _), ns)| *idle.entry(*cpu).or_default() += ns);
        let info = TraceFile::open(&path).unwrap().info(&ReadOptions::default()).unwrap();
        for (cpu, running) in &by_cpu {
            let both = running + idle.get(cpu).unwrap_or(&0);
            assert!(both <= info.duration_ns, "{}: CPU {cpu} {both} of {}", path.display(), info.duration_ns);
        }
        assert!(residency.waits.iter().any(|wait| wait.woken));
    }
}
