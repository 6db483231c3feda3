//! turbostat's table, in its own text format (tools/power/x86/turbostat/turbostat.c, v6.12: format_counters()).
//!
//! One block an interval: a line of column names, the summary, a line a CPU; columns by tabs. Values of a core or a
//! package stand on its first CPU only. The columns that a run can fill are there: no IRQ, SMI, IPC, temperatures.

use std::fmt::Write;

use opplab_model::counters::Sample;
use opplab_model::machine::Machine;

use crate::rapl::{RaplConfig, rapl, rapl_watts};
use crate::watts;

/// The derived columns of one CPU, or of several together, over an interval.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Derived {
    /// APERF a second, in MHz.
    pub avg_mhz: f64,
    /// MPERF to TSC, in percent.
    pub busy_pct: f64,
    /// Mean clock while busy: TSC rate x APERF / MPERF, in MHz; 0 if the CPU was never busy.
    pub bzy_mhz: f64,
    /// TSC a second, in MHz.
    pub tsc_mhz: f64,
}

/// The formulas of turbostat(8) on differences of counters over `seconds`, for `cpus` CPUs that were added up.
pub fn derive(aperf: u64, mperf: u64, tsc: u64, seconds: f64, cpus: usize) -> Derived {
    let (aperf, mperf, tsc) = (aperf as f64, mperf as f64, tsc as f64);
    let ratio = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
    let cpu_seconds = seconds * cpus.max(1) as f64;
    let tsc_mhz = ratio(tsc, cpu_seconds) / 1e6;
    Derived {
        avg_mhz: ratio(aperf, cpu_seconds) / 1e6,
        busy_pct: 100.0 * ratio(mperf, tsc),
        bzy_mhz: ratio(aperf, mperf) * tsc_mhz,
        tsc_mhz,
    }
}

/// The CPUs in turbostat's order: package, core, thread.
fn order(machine: &Machine) -> Vec<usize> {
    let mut cpus: Vec<usize> = (0..machine.nr_cpus()).collect();
    cpus.sort_by_key(|&cpu| (machine.cpus[cpu].package, machine.cpus[cpu].core, cpu));
    cpus
}

/// Names of the idle states that any cluster has, in order of appearance.
fn state_names(machine: &Machine) -> Vec<&str> {
    let mut names = Vec::new();
    for state in machine.clusters.iter().flat_map(|cluster| &cluster.idle) {
        if !names.contains(&state.name.as_str()) {
            names.push(state.name.as_str());
        }
    }
    names
}

/// The table of all intervals between neighbouring samples; without watts where the power of some cluster is not known. `begin_s` is the time of day of the first sample in s.
pub fn turbostat(machine: &Machine, samples: &[Sample], begin_s: f64) -> String {
    let names = state_names(machine);
    let config = RaplConfig::of(machine);
    let readings = rapl(machine, samples, config);
    let cpus = order(machine);
    let mut text = String::from("Time_Of_Day_Seconds\tPackage\tCore\tCPU\tAvg_MHz\tBusy%\tBzy_MHz\tTSC_MHz");
    for name in &names {
        let _ = write!(text, "\t{name}");
    }
    for name in &names {
        let _ = write!(text, "\t{name}%");
    }
    // As turbostat leaves out what a machine has no counter for.
    let has_power = machine.unknown_power().is_empty();
    let has_gpu = has_power && !machine.consumers.is_empty();
    text.push_str(if has_power { "\tCorWatt\tPkgWatt" } else { "" });
    text.push_str(if has_gpu { "\tGFXWatt\n" } else { "\n" });
    let head = text.clone();
    for (index, pair) in samples.windows(2).enumerate() {
        if index > 0 {
            text.push_str(&head);
        }
        let span_ns = pair[1].time_ns - pair[0].time_ns;
        let package_w = rapl_watts(&readings[index], &readings[index + 1], config);
        let stamp = begin_s + pair[1].time_ns as f64 * 1e-9;
        let line = |text: &mut String,
                    place: &str,
                    members: &[usize],
                    core_w: Option<f64>,
                    package_w: Option<f64>,
                    gpu_w: Option<f64>| {
            row(text, machine, &names, pair, (stamp, place), members);
            let gpu_w = gpu_w.filter(|_| has_gpu);
            for value in [core_w, package_w, gpu_w].into_iter().flatten().filter(|_| has_power) {
                let _ = write!(text, "\t{value:.2}");
            }
            text.push('\n');
        };
        let energy = |cpu: usize| watts(pair[1].cpus[cpu].energy_fj - pair[0].cpus[cpu].energy_fj, span_ns);
        let gpu_of = |package: Option<u32>| -> f64 {
            let of = |index: &usize| package.is_none_or(|package| machine.consumers[*index].package == package);
            let energy = |index: usize| pair[1].consumer_energy_fj[index] - pair[0].consumer_energy_fj[index];
            (0..machine.consumers.len()).filter(of).map(|index| watts(energy(index), span_ns)).sum()
        };
        let all_w = cpus.iter().map(|&cpu| energy(cpu)).sum();
        line(&mut text, "-\t-\t-", &cpus, Some(all_w), Some(package_w.iter().sum()), Some(gpu_of(None)));
        let (mut last_core, mut last_package) = (None, None);
        for &cpu in &cpus {
            let place = machine.cpus[cpu];
            let label = format!("{}\t{}\t{cpu}", place.package, place.core);
            let first_of_core = last_core.replace(place.core) != Some(place.core);
            let first_of_package = last_package.replace(place.package) != Some(place.package);
            let siblings = cpus.iter().filter(|&&other| machine.cpus[other].core == place.core);
            let core_w = first_of_core.then(|| siblings.map(|&other| energy(other)).sum());
            let package_w = first_of_package.then(|| package_w[place.package as usize]);
            let gpu_w = first_of_package.then(|| gpu_of(Some(place.package)));
            line(&mut text, &label, &[cpu], core_w, package_w, gpu_w);
        }
    }
    text
}

/// The columns of `members` together, up to the idle states.
fn row(
    text: &mut String,
    machine: &Machine,
    names: &[&str],
    pair: &[Sample],
    (stamp, place): (f64, &str),
    members: &[usize],
) {
    let seconds = (pair[1].time_ns - pair[0].time_ns) as f64 * 1e-9;
    let sum = |value: fn(&opplab_model::counters::CpuCounters) -> u64| -> u64 {
        members.iter().map(|&cpu| value(&pair[1].cpus[cpu]) - value(&pair[0].cpus[cpu])).sum()
    };
    // The CPUs of a machine have one TSC; counters here go at each CPU's own base clock.
    let tsc_of = |cpu: usize| pair[1].cpus[cpu].tsc - pair[0].cpus[cpu].tsc;
    let highest = (0..pair[1].cpus.len()).map(tsc_of).max().unwrap_or(0);
    let span_ns = pair[1].time_ns - pair[0].time_ns;
    let told = (u128::from(machine.tsc_khz) * u128::from(span_ns) / 1_000_000) as u64;
    let tsc = if told == 0 { highest } else { told };
    let mperf = |cpu: usize| {
        let own = u128::from(pair[1].cpus[cpu].mperf - pair[0].cpus[cpu].mperf) * u128::from(tsc);
        own.checked_div(u128::from(tsc_of(cpu))).unwrap_or(0) as u64
    };
    let mperf = members.iter().map(|&cpu| mperf(cpu)).sum();
    let derived = derive(sum(|cpu| cpu.aperf), mperf, tsc * members.len() as u64, seconds, members.len());
    let _ = write!(
        text,
        "{stamp:.6}\t{place}\t{:.0}\t{:.2}\t{:.0}\t{:.0}",
        derived.avg_mhz, derived.busy_pct, derived.bzy_mhz, derived.tsc_mhz
    );
    // Of each name: entries and ns over the members whose cluster has that state.
    let mut totals = vec![(0_u64, 0_u64); names.len()];
    for &cpu in members {
        for (state, described) in machine.cluster_of(cpu as u32).idle.iter().enumerate() {
            let Some(column) = names.iter().position(|name| *name == described.name) else { continue };
            let (begin, end) = (&pair[0].cpus[cpu], &pair[1].cpus[cpu]);
            totals[column].0 += end.idle_entries[state] - begin.idle_entries[state];
            totals[column].1 += end.idle_ns[state] - begin.idle_ns[state];
        }
    }
    for (entries, _) in &totals {
        let _ = write!(text, "\t{entries}");
    }
    for (_, ns) in &totals {
        let percent = *ns as f64 * 1e-9 / seconds.max(1e-9) / members.len() as f64 * 100.0;
        let _ = write!(text, "\t{percent:.2}");
    }
}
