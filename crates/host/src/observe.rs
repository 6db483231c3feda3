//! What the CPUs do: turbostat's columns, frequency scale, utilisation, idle residency, power; once an interval.
//!
//! The formulas are those of the seeds' text 002. APERF counts at the actual clock and MPERF at the base clock, both
//! stop when the CPU idles; the TSC counts at the base clock and never stops:
//! ```text
//!   Avg_MHz = dAPERF / dt        Busy% = dMPERF / dTSC        Bzy_MHz = dAPERF / dMPERF * base        TSC_MHz = dTSC / dt
//! ```
//! where base is the TSC's own rate. Without the counters `scaling_cur_freq` and `/proc/stat` must do: then Bzy_MHz is
//! what the driver reports at the end of the interval, and Busy% comes in steps of 10 ms. Not here: changing anything.

use std::fmt::Write as _;
use std::path::Path;

use opplab_import::fmax::{FmaxInput, fmax};
use opplab_import::{import, to_machine};
use opplab_meter::turbostat::{self, Derived};

use crate::clock::Moment;
use crate::counters::{CpuCounters, Hardware, IdleCounters, StatTimes, USER_TICK_NS, Watched, read_stat};
use crate::root::{CPU, Root};
use crate::util::CpuUtil;

/// turbostat's columns from the counters' differences over `interval_s`.
pub fn derive(delta: Hardware, interval_s: f64) -> Derived {
    turbostat::derive(delta.aperf, delta.mperf, delta.tsc, interval_s, 1)
}

fn delta(now: Hardware, before: Hardware) -> Hardware {
    Hardware {
        tsc: now.tsc.wrapping_sub(before.tsc),
        mperf: now.mperf.wrapping_sub(before.mperf),
        aperf: now.aperf.wrapping_sub(before.aperf),
    }
}

/// One row of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The CPU; `None`: all CPUs.
    pub cpu: Option<u32>,
    /// Package and core, as sysfs numbers them.
    pub place: [u32; 2],
    /// Avg_MHz, Busy%, Bzy_MHz, TSC_MHz; `None` where it is unknown.
    pub numbers: [Option<f64>; 4],
    /// The frequency scale against each candidate for f_max, 1024 = f_max.
    pub scales: Vec<Option<f64>>,
    /// Utilisation, frequency and capacity invariant where f_max is known.
    pub util_avg: u64,
    /// Share of the interval in each idle state, percent.
    pub idle_percent: Vec<Option<f64>>,
    /// Power of each source in W; only in the row of all CPUs.
    pub watts: Vec<Option<f64>>,
}

struct CpuState {
    place: [u32; 2],
    counters: Option<CpuCounters>,
    before: Option<Hardware>,
    idle: IdleCounters,
    idle_before: Vec<u64>,
    freq: Option<Watched>,
    /// The highest frequency of its policy, kHz; 0: not known.
    max_khz: u32,
    capacity: u64,
    util: CpuUtil,
    stat_before: Option<StatTimes>,
}

impl CpuState {
    /// Opens what a CPU offers; why its counters cannot be read, if so.
    fn open(root: &Root, cpu: u32) -> (Self, Option<String>) {
        let (counters, why) = match CpuCounters::open(root, cpu) {
            Ok(counters) => (Some(counters), None),
            Err(why) => (None, Some(why)),
        };
        let topology = |name: &str| root.number(&format!("{CPU}/cpu{cpu}/topology/{name}")).unwrap_or(0) as u32;
        let idle = IdleCounters::open(root, cpu);
        let state = Self {
            place: [topology("physical_package_id"), topology("core_id")],
            counters,
            before: None,
            idle_before: idle.read_us(),
            idle,
            freq: Watched::open(root, &format!("{CPU}/cpu{cpu}/cpufreq/scaling_cur_freq")),
            max_khz: root.number(&format!("{CPU}/cpu{cpu}/cpufreq/cpuinfo_max_freq")).unwrap_or(0) as u32,
            capacity: root.number(&format!("{CPU}/cpu{cpu}/cpu_capacity")).unwrap_or(1024).clamp(1, 1024),
            util: CpuUtil::default(),
            stat_before: None,
        };
        (state, why)
    }
}

/// A source of energy or power.
struct PowerSource {
    name: String,
    kind: PowerKind,
}

enum PowerKind {
    /// Energy in uJ, the last reading, and the range after which it wraps.
    Energy(Watched, u64, u64),
    /// Power in uW.
    Power(Watched),
    /// Current in uA and voltage in uV.
    Battery(Watched, Watched),
}

/// Observes a host; each call of [`Observer::sample`] ends an interval.
pub struct Observer {
    cpus: Vec<(u32, CpuState)>,
    /// Names of the candidates for f_max, and each in kHz; 0: the highest frequency of each CPU's own policy.
    pub candidates: Vec<(String, u32)>,
    /// Names of all idle states.
    pub idle_names: Vec<String>,
    power: Vec<PowerSource>,
    /// What is lost and why, for the reader.
    pub notes: Vec<String>,
    /// CPUs that are online and had no reading in `/proc/stat` at the last look; they have no row.
    pub unread: Vec<u32>,
    last: Moment,
    /// As [`Observer::candidates`]: the one that the kernel takes.
    reference_khz: u32,
}

impl Observer {
    /// Opens what there is. The first [`Observer::sample`] begins the first interval; what it gives counts for nothing.
    pub fn open(root: &Root, path: &Path) -> Self {
        let mut notes = Vec::new();
        let mut cpus = Vec::new();
        for cpu in root.online() {
            let (state, why) = CpuState::open(root, cpu);
            if let Some(why) = why
                && notes.is_empty()
            {
                notes.push(format!(
                    "no APERF/MPERF ({why}): Bzy_MHz is scaling_cur_freq, Busy% comes from /proc/stat in steps of 10 ms, \
                     TSC_MHz is not known"
                ));
            }
            cpus.push((cpu, state));
        }
        if cpus.iter().all(|(_, state)| state.counters.is_none() && state.freq.is_none()) {
            notes.push("no cpufreq either: frequencies are not known, and utilisation is not invariant".to_owned());
        }
        let (candidates, reference_khz) = candidates(root, path);
        if candidates.is_empty() {
            notes.push("no candidate for f_max is known: utilisation is not frequency invariant".to_owned());
        }
        let mut idle_names: Vec<String> = Vec::new();
        for (_, state) in &cpus {
            for name in &state.idle.names {
                if !idle_names.contains(name) {
                    idle_names.push(name.clone());
                }
            }
        }
        Self {
            cpus,
            candidates,
            idle_names,
            power: power_sources(root),
            notes,
            unread: Vec::new(),
            last: Moment::default(),
            reference_khz,
        }
    }

    /// Names of the power columns.
    pub fn power_names(&self) -> Vec<String> {
        self.power.iter().map(|source| source.name.clone()).collect()
    }

    /// Ends the interval at `now`: the row of all CPUs, then one a CPU. CPUs that went offline have no row. An interval
    /// that the machine slept in has no rows: its counters stood still, went on or began anew, each as it likes.
    pub fn sample(&mut self, root: &Root, now: Moment) -> Vec<Row> {
        let interval_ns = now.since(&self.last);
        self.last = now;
        let (stat, unread) = read_stat(root, &self.cpus.iter().map(|(cpu, _)| *cpu).collect::<Vec<_>>());
        self.unread = unread;
        // CPUs that went offline are forgotten, those that came are opened.
        self.cpus.retain(|(cpu, _)| self.unread.contains(cpu) || stat.iter().any(|(known, _)| known == cpu));
        for (cpu, _) in &stat {
            if let Err(place) = self.cpus.binary_search_by_key(cpu, |(known, _)| *known) {
                self.cpus.insert(place, (*cpu, CpuState::open(root, *cpu).0));
            }
        }
        // Without an interval this is a beginning: what it gives is forgotten.
        let counted_ns = interval_ns.unwrap_or(1);
        let mut rows = Vec::with_capacity(self.cpus.len() + 1);
        for (cpu, state) in &mut self.cpus {
            let times = stat.iter().find(|(number, _)| number == cpu).map(|(_, times)| *times);
            let Some(stat) = times else {
                (state.before, state.stat_before) = (None, None);
                continue;
            };
            rows.push(sample_cpu(
                *cpu,
                state,
                stat,
                counted_ns,
                &self.candidates,
                self.reference_khz,
                &self.idle_names,
            ));
        }
        let watts = self.power.iter_mut().map(|source| source.watts(counted_ns)).collect();
        if interval_ns.is_none() || rows.is_empty() {
            return Vec::new();
        }
        let all = summary(&rows, watts, self.candidates.len(), self.idle_names.len());
        rows.insert(0, all);
        rows
    }
}

fn sample_cpu(
    cpu: u32,
    state: &mut CpuState,
    stat: StatTimes,
    interval_ns: u64,
    candidates: &[(String, u32)],
    reference_khz: u32,
    idle_names: &[String],
) -> Row {
    let now = state.counters.as_mut().and_then(CpuCounters::read);
    let hardware = now.zip(state.before).map(|(now, before)| derive(delta(now, before), interval_ns as f64 / 1e9));
    state.before = now;
    let stat_share = state.stat_before.map(|before| {
        let idle = (stat.idle + stat.iowait).saturating_sub(before.idle + before.iowait) * USER_TICK_NS;
        1.0 - (idle as f64 / interval_ns as f64).min(1.0)
    });
    state.stat_before = Some(stat);
    let cur_mhz = state.freq.as_ref().and_then(Watched::number).map(|khz| khz as f64 / 1e3);
    let numbers = match hardware {
        Some(d) => [Some(d.avg_mhz), Some(d.busy_pct), Some(d.bzy_mhz), Some(d.tsc_mhz)],
        None => {
            let avg = cur_mhz.zip(stat_share).map(|(mhz, share)| mhz * share);
            [avg, stat_share.map(|share| 100.0 * share), cur_mhz, None]
        }
    };
    let bzy_mhz = numbers[2].filter(|&mhz| mhz > 0.0);
    let scale = |khz: u32| {
        let khz = if khz == 0 { state.max_khz } else { khz };
        let mhz = bzy_mhz.filter(|_| khz > 0)?;
        Some((mhz * 1e3 / f64::from(khz) * 1024.0).min(1024.0))
    };
    let scales: Vec<Option<f64>> = candidates.iter().map(|(_, khz)| scale(*khz)).collect();
    if let Some(percent) = numbers[1] {
        let share = (percent / 100.0).clamp(0.0, 1.0);
        let freq_scale = scale(reference_khz).unwrap_or(1024.0);
        let both = (freq_scale as u64 * state.capacity) >> 10;
        state.util.add(interval_ns, (share * interval_ns as f64) as u64, both);
    }
    let times = state.idle.read_us();
    let percent = |name: &String| {
        let at = state.idle.names.iter().position(|known| known == name)?;
        let us = times.get(at)?.saturating_sub(*state.idle_before.get(at)?);
        Some(us as f64 * 1e5 / interval_ns as f64)
    };
    let idle_percent = idle_names.iter().map(percent).collect();
    state.idle_before = times;
    Row {
        cpu: Some(cpu),
        place: state.place,
        numbers,
        scales,
        util_avg: state.util.util_avg(),
        idle_percent,
        watts: Vec::new(),
    }
}

/// The row of all CPUs: means, except Bzy_MHz, which is over busy time only.
fn summary(rows: &[Row], watts: Vec<Option<f64>>, n_scales: usize, n_idle: usize) -> Row {
    let mean = |pick: &dyn Fn(&Row) -> Option<f64>| -> Option<f64> {
        let values: Vec<f64> = rows.iter().filter_map(pick).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let avg = mean(&|row| row.numbers[0]);
    let busy = mean(&|row| row.numbers[1]);
    let bzy = avg.zip(busy).map(|(avg, busy)| if busy > 0.0 { avg * 100.0 / busy } else { 0.0 });
    Row {
        cpu: None,
        place: [0; 2],
        numbers: [avg, busy, bzy.or_else(|| mean(&|row| row.numbers[2])), mean(&|row| row.numbers[3])],
        scales: (0..n_scales).map(|index| mean(&|row| row.scales[index])).collect(),
        util_avg: rows.iter().map(|row| row.util_avg).sum(),
        idle_percent: (0..n_idle).map(|index| mean(&|row| row.idle_percent[index])).collect(),
        watts,
    }
}

/// The candidates for f_max by the import crate's report, and the one that this kernel takes; 0 is the highest frequency
/// of each CPU's own policy, which everything but x86 takes.
fn candidates(root: &Root, path: &Path) -> (Vec<(String, u32)>, u32) {
    let report = import(path).ok().and_then(|facts| {
        let imported = to_machine(&facts).ok()?;
        let input = FmaxInput::of_facts(&facts, &imported);
        input.processor.is_some().then(|| fmax(&input, None))
    });
    let mut list: Vec<(String, u32)> = Vec::new();
    let mut taken = 0;
    if let Some(report) = report {
        list = report.candidates.iter().map(|candidate| (candidate.name.clone(), candidate.khz)).collect();
        list.retain(|(_, khz)| *khz > 0);
        taken = report.kernels.last().and_then(|choice| choice.khz).unwrap_or(0);
    }
    let policies = root.policies();
    let highest = |id: &u32| root.number(&format!("{CPU}/cpufreq/policy{id}/cpuinfo_max_freq"));
    let mut highest: Vec<u64> = policies.iter().filter_map(highest).filter(|khz| *khz > 0).collect();
    highest.dedup();
    let is_listed = match highest.as_slice() {
        [] => true,
        [khz] => list.iter().any(|(_, known)| u64::from(*known) == *khz),
        _ => false,
    };
    if !is_listed {
        list.push(("cpuinfo_max_freq".to_owned(), 0));
    }
    (list, taken)
}

fn power_sources(root: &Root) -> Vec<PowerSource> {
    let mut sources: Vec<PowerSource> = Vec::new();
    let mut add = |name: String, kind: PowerKind| {
        let same =
            sources.iter().filter(|known| known.name == name || known.name.starts_with(&format!("{name}_"))).count();
        let name = if same == 0 { name } else { format!("{name}_{same}") };
        sources.push(PowerSource { name, kind });
    };
    let folder = "/sys/class/powercap";
    for zone in root.children(folder).iter().filter(|name| name.contains(':')) {
        let path = |name: &str| format!("{folder}/{zone}/{name}");
        if let Some(energy) = Watched::open(root, &path("energy_uj")) {
            let Some(before) = energy.number() else { continue };
            let range = root.number(&path("max_energy_range_uj")).unwrap_or(u64::MAX);
            // turbostat's words for the zones that it knows.
            let name = root.text(&path("name")).unwrap_or_else(|_| zone.clone());
            let name = match name.as_str() {
                name if name.starts_with("package") => "PkgWatt".to_owned(),
                "core" => "CorWatt".to_owned(),
                "uncore" => "GFXWatt".to_owned(),
                "dram" => "RAMWatt".to_owned(),
                "psys" => "SysWatt".to_owned(),
                other => format!("{other}Watt"),
            };
            add(name, PowerKind::Energy(energy, before, range));
        }
    }
    let folder = "/sys/class/hwmon";
    for chip in root.children(folder) {
        let chip_name = root.text(&format!("{folder}/{chip}/name")).unwrap_or_else(|_| chip.clone());
        for number in 1..=4 {
            for what in ["input", "average"] {
                let path = format!("{folder}/{chip}/power{number}_{what}");
                if let Some(file) = Watched::open(root, &path) {
                    add(format!("{chip_name}{number}Watt"), PowerKind::Power(file));
                    break;
                }
            }
        }
    }
    let folder = "/sys/class/power_supply";
    for supply in root.children(folder) {
        let path = |name: &str| format!("{folder}/{supply}/{name}");
        if let Some(power) = Watched::open(root, &path("power_now")) {
            add(format!("{supply}Watt"), PowerKind::Power(power));
        } else if let (Some(current), Some(voltage)) =
            (Watched::open(root, &path("current_now")), Watched::open(root, &path("voltage_now")))
        {
            add(format!("{supply}Watt"), PowerKind::Battery(current, voltage));
        }
    }
    sources
}

impl PowerSource {
    fn watts(&mut self, interval_ns: u64) -> Option<f64> {
        match &mut self.kind {
            PowerKind::Energy(file, before, range) => {
                let now = file.number()?;
                let uj = if now >= *before { now - *before } else { now + range.saturating_sub(*before) };
                *before = now;
                Some(uj as f64 * 1e3 / interval_ns as f64)
            }
            PowerKind::Power(file) => Some(file.number()? as f64 / 1e6),
            PowerKind::Battery(current, voltage) => Some(current.number()? as f64 * voltage.number()? as f64 / 1e12),
        }
    }
}

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Comma-separated, the head once; an empty cell where there is nothing.
    Csv,
    /// As turbostat writes: tabs, the head before each interval.
    Turbostat,
    /// For a terminal: columns in line.
    Table,
}

/// The names of the columns.
pub fn head(observer: &Observer) -> Vec<String> {
    let fixed = ["Time_Of_Day_Seconds", "Package", "Core", "CPU", "Avg_MHz", "Busy%", "Bzy_MHz", "TSC_MHz", "util_avg"];
    let mut names: Vec<String> = fixed.iter().map(|name| (*name).to_owned()).collect();
    names.extend(observer.candidates.iter().map(|(name, _)| format!("scale:{name}")));
    names.extend(observer.idle_names.iter().map(|name| format!("{name}%")));
    names.extend(observer.power_names());
    names
}

/// The cells of one row, as turbostat rounds them; `None` where there is nothing to report.
pub fn cells(row: &Row, time_s: f64) -> Vec<Option<String>> {
    let whole = |value: Option<f64>| value.map(|value| format!("{value:.0}"));
    let hundredths = |value: Option<f64>| value.map(|value| format!("{value:.2}"));
    let place = |index: usize| Some(row.cpu.map_or_else(|| "-".to_owned(), |_| row.place[index].to_string()));
    let mut cells = vec![
        Some(format!("{time_s:.6}")),
        place(0),
        place(1),
        Some(row.cpu.map_or_else(|| "-".to_owned(), |cpu| cpu.to_string())),
        whole(row.numbers[0]),
        hundredths(row.numbers[1]),
        whole(row.numbers[2]),
        whole(row.numbers[3]),
        Some(row.util_avg.to_string()),
    ];
    cells.extend(row.scales.iter().map(|&scale| whole(scale)));
    cells.extend(row.idle_percent.iter().map(|&percent| hundredths(percent)));
    cells.extend(row.watts.iter().map(|&watts| hundredths(watts)));
    cells
}

/// One interval in a form.
pub fn render(form: Form, head: &[String], rows: &[Row], time_s: f64, first: bool) -> String {
    let mut out = String::new();
    let rows = rows.iter().map(|row| cells(row, time_s));
    match form {
        Form::Csv => {
            if first {
                writeln!(out, "{}", head.join(",")).expect("memory");
            }
            for mut row in rows {
                row.resize(head.len(), None);
                let row: Vec<String> = row.into_iter().map(Option::unwrap_or_default).collect();
                writeln!(out, "{}", row.join(",")).expect("memory");
            }
        }
        Form::Turbostat => {
            writeln!(out, "{}", head.join("\t")).expect("memory");
            for row in rows {
                // A cell in the middle that is not known stands as 0, as where turbostat lacks a counter.
                let row: Vec<String> = row.into_iter().map(|cell| cell.unwrap_or_else(|| "0".to_owned())).collect();
                writeln!(out, "{}", row.join("\t")).expect("memory");
            }
        }
        Form::Table => {
            let rows: Vec<Vec<Option<String>>> = rows.collect();
            let width = |column: usize| {
                let cells = rows.iter().filter_map(|row| row.get(column)?.as_ref()).map(|cell| cell.len());
                cells.chain([head[column].len()]).max().unwrap_or(0)
            };
            // The time of day is in the line above.
            let widths: Vec<usize> = (0..head.len()).map(width).collect();
            writeln!(out, "{time_s:.3}").expect("memory");
            let mut line = |cells: &mut dyn Iterator<Item = &str>| {
                for (cell, width) in cells.zip(&widths).skip(1) {
                    write!(out, "{cell:>width$} ").expect("memory");
                }
                out.push('\n');
            };
            line(&mut head.iter().map(String::as_str));
            for row in &rows {
                line(&mut row.iter().map(|cell| cell.as_deref().unwrap_or("-")));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the formulas of text 002. Method: a CPU of 2 GHz base that is busy a quarter of a second at 3 GHz.
    #[test]
    fn derived_columns() {
        let delta = Hardware { tsc: 2_000_000_000, mperf: 500_000_000, aperf: 750_000_000 };
        let derived = derive(delta, 1.0);
        assert_eq!(derived, Derived { avg_mhz: 750.0, busy_pct: 25.0, bzy_mhz: 3000.0, tsc_mhz: 2000.0 });
        let idle = derive(Hardware { tsc: 1000, mperf: 0, aperf: 0 }, 1.0);
        assert_eq!((idle.busy_pct, idle.bzy_mhz), (0.0, 0.0));
    }

    #[test]
    fn counters_wrap() {
        let before = Hardware { tsc: u64::MAX - 9, mperf: u64::MAX, aperf: 5 };
        let now = Hardware { tsc: 10, mperf: 4, aperf: 6 };
        assert_eq!(delta(now, before), Hardware { tsc: 20, mperf: 5, aperf: 1 });
    }

    /// Goal: on arm64 a CPU's scale is relative to its own policy's highest frequency. Method: two policies at theirs.
    #[test]
    fn each_kind_of_cpu_has_its_own_reference() {
        let folder = std::env::temp_dir().join(format!("opplab-observe-{}", std::process::id()));
        let put = |path: String, text: &str| {
            let file = folder.join(path);
            std::fs::create_dir_all(file.parent().expect("has one")).expect("writable");
            std::fs::write(file, text).expect("writable");
        };
        put("sys/devices/system/cpu/online".into(), "0-1");
        put("proc/stat".into(), "cpu0 1 0 0 0 0 0 0 0 0 0\ncpu1 1 0 0 0 0 0 0 0 0 0\n");
        for (cpu, khz, capacity) in [(0, "950000", "383"), (1, "1200000", "1024")] {
            put(format!("sys/devices/system/cpu/cpu{cpu}/cpu_capacity"), capacity);
            for file in [format!("cpu{cpu}/cpufreq"), format!("cpufreq/policy{cpu}")] {
                put(format!("sys/devices/system/cpu/{file}/cpuinfo_max_freq"), khz);
                put(format!("sys/devices/system/cpu/{file}/scaling_cur_freq"), khz);
            }
        }
        let root = Root::open(&folder).expect("is a host");
        let mut observer = Observer::open(&root, &folder);
        assert_eq!(observer.candidates, [("cpuinfo_max_freq".to_owned(), 0)]);
        let at = |seconds: u64| Moment { time_ns: seconds * 1_000_000_000, slept_ns: 0 };
        observer.sample(&root, at(1));
        let rows = observer.sample(&root, at(2));
        let of = |at: usize| (rows[at].cpu, rows[at].scales[0]);
        assert_eq!([of(1), of(2)], [(Some(0), Some(1024.0)), (Some(1), Some(1024.0))]);
        std::fs::remove_dir_all(folder).expect("ours");
    }

    /// Goal: what was counted while the machine slept, or while a clock jumped back, is in no row. Method: the same counts of
    /// /proc/stat at moments on both sides of a sleep.
    #[test]
    fn a_sleep_and_a_jump_back_have_no_row() {
        let folder = std::env::temp_dir().join(format!("opplab-observe-sleep-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("proc")).expect("writable");
        let stat = |busy: u64| {
            std::fs::write(folder.join("proc/stat"), format!("cpu0 {busy} 0 0 {busy} 0 0 0 0 0 0\n"))
                .expect("writable");
        };
        stat(0);
        let root = Root::open(&folder).expect("a copy");
        let mut observer = Observer::open(&root, &folder);
        let mut sample = |time_ms: u64, slept_ms: u64, busy: u64| {
            stat(busy);
            let now = Moment { time_ns: time_ms * 1_000_000, slept_ns: slept_ms * 1_000_000 };
            observer.sample(&root, now).get(1).map(|row| row.numbers[1])
        };
        sample(1000, 0, 0);
        assert_eq!(sample(2000, 0, 50), Some(Some(50.0)));
        assert_eq!(sample(3000, 60_000, 100), None);
        assert_eq!(sample(4000, 60_000, 150), Some(Some(50.0)));
        assert_eq!(sample(3500, 60_000, 160), None);
        assert_eq!(sample(4500, 60_000, 210), Some(Some(50.0)));
        std::fs::remove_dir_all(folder).expect("ours");
    }

    fn row(cpu: Option<u32>) -> Row {
        Row {
            cpu,
            place: [0, 1],
            numbers: [Some(5.4), Some(0.207), None, None],
            scales: vec![None],
            util_avg: 7,
            idle_percent: Vec::new(),
            watts: if cpu.is_none() { vec![Some(1.5)] } else { Vec::new() },
        }
    }

    #[test]
    fn forms() {
        let head: Vec<String> =
            "Time_Of_Day_Seconds,Package,Core,CPU,Avg_MHz,Busy%,Bzy_MHz,TSC_MHz,util_avg,scale:max_P,PkgWatt"
                .split(',')
                .map(str::to_owned)
                .collect();
        let rows = [row(None), row(Some(3))];
        let csv = render(Form::Csv, &head, &rows, 1.0, true);
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines[1], "1.000000,-,-,-,5,0.21,,,7,,1.50");
        assert_eq!(lines[2], "1.000000,0,1,3,5,0.21,,,7,,");
        let turbostat = render(Form::Turbostat, &head, &rows, 1.0, false);
        assert!(turbostat.ends_with("1.000000\t0\t1\t3\t5\t0.21\t0\t0\t7\t0\n"), "{turbostat}");
        assert!(render(Form::Table, &head, &rows, 1.0, true).lines().count() == 4);
    }
}
