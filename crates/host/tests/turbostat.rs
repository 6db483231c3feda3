//! Goal: the formulas are turbostat's. Method: from each row of the recorded turbostat runs beside the repository,
//! take the counters' rates that three columns give (APERF = Avg_MHz, TSC = TSC_MHz, MPERF = Busy% of the TSC), derive
//! the columns, and compare the fourth, Bzy_MHz, which was not used, within what the printed digits allow.

use std::fs;

use opplab_host::counters::Hardware;
use opplab_host::observe::derive;

#[test]
fn columns_of_recorded_runs_follow_from_their_counters() {
    let Some(folder) = opplab_testdata::shared("data/stats-collect/tests/data/results/good") else { return };
    let machines = fs::read_dir(&folder).expect("it can be listed");
    let (mut n_rows, mut n_files) = (0u64, 0);
    for machine in machines.flatten() {
        for file in ["stats/turbostat.raw.txt", "logs/discovery-stats/turbostat.raw.txt"] {
            let Ok(text) = fs::read_to_string(machine.path().join(file)) else { continue };
            n_files += 1;
            n_rows += check(&text, &format!("{} {file}", machine.path().display()));
        }
    }
    println!("{n_rows} rows of {n_files} files");
    assert!(n_files > 0 && n_rows > 500);
}

fn check(text: &str, file: &str) -> u64 {
    let mut columns: Vec<&str> = Vec::new();
    let mut n_rows = 0;
    // turbostat scales by base clock over measured TSC rate; its summary row's TSC_MHz is a mean over CPUs that were
    // read at different times, so that only rows of one CPU are exact.
    for line in text.lines() {
        let cells: Vec<&str> = line.split('\t').collect();
        if cells.contains(&"Avg_MHz") {
            columns = cells;
            continue;
        }
        let cell = |name: &str| -> Option<f64> { cells.get(columns.iter().position(|c| *c == name)?)?.parse().ok() };
        let Some(_cpu) = cell("CPU") else { continue };
        let (Some(avg), Some(busy), Some(bzy), Some(tsc)) =
            (cell("Avg_MHz"), cell("Busy%"), cell("Bzy_MHz"), cell("TSC_MHz"))
        else {
            continue;
        };
        let counters = |avg: f64, busy: f64| Hardware {
            tsc: (tsc * 1e6) as u64,
            mperf: (busy / 100.0 * tsc * 1e6) as u64,
            aperf: (avg * 1e6) as u64,
        };
        let derived = derive(counters(avg, busy), 1.0);
        assert!((derived.avg_mhz - avg).abs() < 0.01 && (derived.tsc_mhz - tsc).abs() < 0.01, "{file}: {line}");
        assert!((derived.busy_pct - busy).abs() < 0.001, "{file}: {line}");
        if busy < 0.05 {
            continue;
        }
        // The printed digits' room, and 1 % between the base clock and the measured rate of the TSC.
        let low = derive(counters((avg - 0.5).max(0.0), busy + 0.005), 1.0).bzy_mhz * 0.99 - 1.0;
        let high = derive(counters(avg + 0.5, busy - 0.005), 1.0).bzy_mhz * 1.01 + 1.0;
        assert!((low..=high).contains(&bzy), "{file}: Bzy_MHz {bzy} is not in {low}..{high}: {line}");
        n_rows += 1;
    }
    n_rows
}
