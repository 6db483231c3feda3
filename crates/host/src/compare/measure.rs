//! What a run took, by the machine's own counters: energy with its wrap, clock, idle states, switches, interrupts,
//! pressure, throttling, and the load of others.
//!
//! Everything is read through [`Root`]. What a machine lacks is named with the reason and has no value; it is not 0.

use crate::clock::Moment;
use crate::counters::{CpuCounters, Hardware, USER_TICK_NS, parse_stat};
use crate::root::{CPU, Root};

/// A measured quantity.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantity {
    /// Its name, as the column `metric` has it.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// `higher`, `lower` or empty.
    pub better: String,
    /// The value.
    pub value: f64,
}

impl Quantity {
    /// One.
    pub fn new(name: impl Into<String>, unit: &str, better: &str, value: f64) -> Self {
        Self { name: name.into(), unit: unit.to_owned(), better: better.to_owned(), value }
    }
}

/// A file that counts up.
#[derive(Debug)]
struct Counter {
    path: String,
    name: String,
    unit: &'static str,
    better: &'static str,
    scale: f64,
    /// What the counter wraps at.
    range: Option<u64>,
    last: Option<u64>,
    total: u64,
}

/// A file that gives a power (uW) or a clock (kHz) of the moment, or two whose product is a power.
#[derive(Debug)]
struct Gauge {
    path: String,
    /// A second file, and what the product is multiplied with to be in uW.
    times: Option<(String, f64)>,
    name: String,
    /// Sum of value x ns, and the ns.
    sum: f64,
    ns: f64,
}

/// Totals of the machine in `/proc/stat`.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    busy_ticks: u64,
    n_cpus: u64,
    switches: Option<u64>,
    interrupts: Option<u64>,
}

/// The machine's counters over one run.
pub struct Meters {
    counters: Vec<Counter>,
    power: Vec<Gauge>,
    clocks: Vec<Gauge>,
    hardware: Vec<(CpuCounters, Option<Hardware>)>,
    idle: Vec<Counter>,
    /// States of cooling devices: above 0 while clocks are taken away.
    throttles: Vec<String>,
    is_throttled: bool,
    before: Totals,
    begin: Moment,
    last: Moment,
    /// What this machine cannot measure, and why.
    pub lacking: Vec<(String, String)>,
}

/// The longest time between two looks: an energy counter of 32 bits in units of 15.3 uJ wraps after 65 kJ, four minutes
/// of 270 W.
pub const POLL_NS: u64 = 1_000_000_000;

impl Meters {
    /// Opens what there is.
    pub fn open(root: &Root) -> Self {
        let mut lacking = Vec::new();
        let mut counters = energy_counters(root, &mut lacking);
        let mut throttles = Vec::new();
        for (file, name) in [("cpu", "pressure:cpu"), ("memory", "pressure:memory"), ("io", "pressure:io")] {
            counters.push(Counter::of(format!("/proc/pressure/{file}"), name, "s", "lower", 1e-6));
        }
        for cpu in root.online() {
            // One file a core and one a package; siblings repeat the count, and only whether it rises matters.
            let path = format!("{CPU}/cpu{cpu}/thermal_throttle/core_throttle_count");
            counters.push(Counter::of(path, "throttled", "", "", 1.0));
        }
        let mut idle = Vec::new();
        let mut hardware = Vec::new();
        let mut no_clock = None;
        for cpu in root.online() {
            let folder = format!("{CPU}/cpu{cpu}/cpuidle");
            for state in root.numbered(&folder, "state") {
                let name = root.text(&format!("{folder}/state{state}/name")).unwrap_or_else(|_| format!("{state}"));
                idle.push(Counter::of(format!("{folder}/state{state}/time"), &format!("idle:{name}"), "%", "", 1.0));
            }
            match CpuCounters::open(root, cpu) {
                Ok(counters) => hardware.push((counters, None)),
                Err(why) => no_clock = no_clock.or(Some(why)),
            }
        }
        let clock = |policy: &u32| {
            let path = format!("{CPU}/cpufreq/policy{policy}/scaling_cur_freq");
            root.number(&path).map(|_| Gauge { path, times: None, name: "clock".to_owned(), sum: 0.0, ns: 0.0 })
        };
        let clocks: Vec<Gauge> =
            if hardware.is_empty() { root.policies().iter().filter_map(clock).collect() } else { Vec::new() };
        if let Some(why) = no_clock.filter(|_| hardware.is_empty() && clocks.is_empty()) {
            lacking.push(("clock".to_owned(), format!("{why}; no scaling_cur_freq")));
        }
        if idle.is_empty() {
            lacking.push(("idle states".to_owned(), format!("{CPU}/cpu*/cpuidle: not there")));
        }
        counters.retain(|counter| {
            let is_there = counter.read(root).is_some();
            if !is_there && counter.name.starts_with("pressure") {
                lacking.push((counter.name.clone(), format!("{}: not there", counter.path)));
            }
            is_there
        });
        for device in root.numbered("/sys/class/thermal", "cooling_device") {
            let folder = format!("/sys/class/thermal/cooling_device{device}");
            // What a thermal zone takes from the CPUs' clocks; fans are others.
            let kind = root.text(&format!("{folder}/type")).unwrap_or_default().to_ascii_lowercase();
            if kind.contains("cpu") || kind == "processor" {
                throttles.push(format!("{folder}/cur_state"));
            }
        }
        throttles.retain(|path| root.number(path).is_some());
        if throttles.is_empty() && !counters.iter().any(|counter| counter.name == "throttled") {
            lacking.push((
                "throttling".to_owned(),
                format!("{CPU}/cpu*/thermal_throttle: not there, and no cooling device of CPUs"),
            ));
        }
        let power = power_gauges(root);
        let begin = Moment::default();
        let before = Totals::default();
        Self {
            counters,
            power,
            clocks,
            hardware,
            idle,
            throttles,
            is_throttled: false,
            before,
            begin,
            last: begin,
            lacking,
        }
    }

    /// When the run began.
    pub fn began(&self) -> Moment {
        self.begin
    }

    /// Begins a run.
    pub fn begin(&mut self, root: &Root, now: Moment) {
        for counter in self.counters.iter_mut().chain(&mut self.idle) {
            (counter.last, counter.total) = (counter.read(root), 0);
        }
        for gauge in self.power.iter_mut().chain(&mut self.clocks) {
            (gauge.sum, gauge.ns) = (0.0, 0.0);
        }
        for (counters, before) in &mut self.hardware {
            *before = counters.read();
        }
        self.is_throttled = false;
        self.before = totals(root);
        (self.begin, self.last) = (now, now);
    }

    /// Looks at counters that wrap and at gauges; to be called at least each [`POLL_NS`].
    pub fn poll(&mut self, root: &Root, now: Moment) {
        let since_ns = now.time_ns.saturating_sub(self.last.time_ns) as f64;
        self.last = now;
        for counter in &mut self.counters {
            counter.advance(root);
        }
        self.is_throttled |= self.throttles.iter().any(|path| root.number(path).is_some_and(|state| state > 0));
        for gauge in self.power.iter_mut().chain(&mut self.clocks) {
            if let Some(value) = gauge.read(root) {
                gauge.sum += value * since_ns;
                gauge.ns += since_ns;
            }
        }
    }

    /// Ends a run that took `cpu_s` of CPU time itself. Gives what was measured and what spoilt it.
    pub fn end(&mut self, root: &Root, now: Moment, cpu_s: f64, others_cpus: f64) -> (Vec<Quantity>, Vec<String>) {
        self.poll(root, now);
        for counter in &mut self.idle {
            counter.advance(root);
        }
        let wall_s = now.time_ns.saturating_sub(self.begin.time_ns) as f64 / 1e9;
        let (mut found, mut spoilt) = (Vec::new(), Vec::new());
        let mut add = |name: &str, unit: &str, better: &str, value: f64| match found
            .iter_mut()
            .find(|known: &&mut Quantity| known.name == name)
        {
            Some(known) => known.value += value,
            None => found.push(Quantity::new(name, unit, better, value)),
        };
        for counter in &self.counters {
            add(&counter.name, counter.unit, counter.better, counter.total as f64 * counter.scale);
        }
        for gauge in self.power.iter().filter(|gauge| gauge.ns > 0.0) {
            add(&gauge.name, "J", "lower", gauge.sum / gauge.ns / 1e6 * wall_s);
        }
        let n_cpus = self.before.n_cpus.max(1) as f64;
        for counter in &self.idle {
            add(&counter.name, "%", "", counter.total as f64 / 1e6 / wall_s.max(1e-9) / n_cpus * 100.0);
        }
        let clocks: Vec<f64> =
            self.clocks.iter().filter(|gauge| gauge.ns > 0.0).map(|gauge| gauge.sum / gauge.ns / 1e3).collect();
        if !clocks.is_empty() {
            add("clock", "MHz", "", clocks.iter().sum::<f64>() / clocks.len() as f64);
        }
        if let Some(mhz) = self.mean_clock(wall_s) {
            add("clock", "MHz", "", mhz);
        }
        let after = totals(root);
        let since = |new: Option<u64>, old: Option<u64>| Some(new?.saturating_sub(old?) as f64);
        if let Some(count) = since(after.switches, self.before.switches) {
            add("switches", "", "lower", count);
        }
        if let Some(count) = since(after.interrupts, self.before.interrupts) {
            add("interrupts", "", "lower", count);
        }
        if after.n_cpus > 0 && after.n_cpus == self.before.n_cpus {
            let tick_s = USER_TICK_NS as f64 / 1e9;
            let busy_s = after.busy_ticks.saturating_sub(self.before.busy_ticks) as f64 * tick_s;
            // Each CPU's ticks are rounded to 10 ms.
            let others = (busy_s - cpu_s).max(0.0) / wall_s.max(tick_s);
            add("others", "CPUs", "", others);
            let rounding = tick_s * n_cpus / wall_s.max(tick_s);
            if others > others_cpus + rounding {
                spoilt.push(format!("others used {others:.2} CPUs"));
            }
        }
        if self.is_throttled || found.iter().any(|quantity| quantity.name == "throttled" && quantity.value > 0.0) {
            spoilt.push("throttled".to_owned());
        }
        if let Some(slept_ns) = now.slept_since(&self.begin) {
            spoilt.push(format!("the machine slept {:.1} s", slept_ns as f64 / 1e9));
        }
        found.retain(|quantity| quantity.name != "throttled");
        (found, spoilt)
    }

    /// Clock while busy, MHz, over all CPUs: cycles by cycles of the base clock.
    fn mean_clock(&mut self, wall_s: f64) -> Option<f64> {
        let (mut aperf, mut mperf, mut tsc, mut n_cpus) = (0.0, 0.0, 0.0, 0.0);
        for (counters, before) in &mut self.hardware {
            if let (Some(now), Some(before)) = (counters.read(), *before) {
                aperf += now.aperf.wrapping_sub(before.aperf) as f64;
                mperf += now.mperf.wrapping_sub(before.mperf) as f64;
                tsc += now.tsc.wrapping_sub(before.tsc) as f64;
                n_cpus += 1.0;
            }
        }
        let mhz = aperf / mperf * tsc / n_cpus / wall_s / 1e6;
        mhz.is_finite().then_some(mhz)
    }
}

impl Gauge {
    fn read(&self, root: &Root) -> Option<f64> {
        // A current is negative while a battery loads.
        let number = |path: &str| root.text(path).ok()?.parse::<f64>().ok();
        let value = number(&self.path)?;
        match &self.times {
            Some((other, scale)) => Some((value * number(other)? * scale).abs()),
            None => Some(value),
        }
    }
}

impl Counter {
    fn of(path: String, name: &str, unit: &'static str, better: &'static str, scale: f64) -> Self {
        Self { path, name: name.to_owned(), unit, better, scale, range: None, last: None, total: 0 }
    }

    fn read(&self, root: &Root) -> Option<u64> {
        if self.path.starts_with("/proc/pressure/") {
            let text = root.raw(&self.path).ok()?;
            let some = text.lines().find(|line| line.starts_with("some "))?;
            return some.rsplit_once("total=")?.1.trim().parse().ok();
        }
        root.number(&self.path)
    }

    fn advance(&mut self, root: &Root) {
        let now = self.read(root);
        if let (Some(now), Some(last)) = (now, self.last) {
            // A counter without a range that goes back began anew: what it counted meanwhile is not known.
            let step =
                if now >= last { now - last } else { self.range.map_or(0, |range| now + range.saturating_sub(last)) };
            self.total = self.total.saturating_add(step);
        }
        self.last = now.or(self.last);
    }
}

/// RAPL's packages (or the whole platform) and what hwmon counts.
fn energy_counters(root: &Root, lacking: &mut Vec<(String, String)>) -> Vec<Counter> {
    let mut found = Vec::new();
    let mut refused = None;
    let folder = "/sys/class/powercap";
    for zone in root.children(folder).iter().filter(|name| name.contains(':')) {
        let path = format!("{folder}/{zone}/energy_uj");
        let name = root.text(&format!("{folder}/{zone}/name")).unwrap_or_else(|_| zone.clone());
        // `intel-rapl-mmio` counts the same package again.
        if zone.starts_with("intel-rapl-mmio") || !root.has(&path) {
            continue;
        }
        if let Err(why) = root.text(&path) {
            refused = Some(format!("{path}: {}", why.words()));
            continue;
        }
        // Packages are summed; cores and memory are parts of them or beside them.
        let metric = if name.starts_with("package") { "energy".to_owned() } else { format!("energy:{name}") };
        let range = root.number(&format!("{folder}/{zone}/max_energy_range_uj"));
        found.push(Counter { range, ..Counter::of(path, &metric, "J", "lower", 1e-6) });
    }
    let folder = "/sys/class/hwmon";
    for chip in root.children(folder) {
        let chip_name = root.text(&format!("{folder}/{chip}/name")).unwrap_or_else(|_| chip.clone());
        for file in root.children(&format!("{folder}/{chip}")) {
            let Some(stem) = file.strip_suffix("_input").filter(|stem| stem.starts_with("energy")) else { continue };
            let label = root.text(&format!("{folder}/{chip}/{stem}_label")).unwrap_or_else(|_| stem.to_owned());
            let path = format!("{folder}/{chip}/{file}");
            found.push(Counter::of(path, &format!("energy:{chip_name}:{label}"), "J", "lower", 1e-6));
        }
    }
    if found.is_empty() && power_gauges(root).is_empty() {
        let why = refused.unwrap_or_else(|| "no powercap zone, no hwmon energy or power, no battery".to_owned());
        lacking.push(("energy".to_owned(), why));
    }
    found
}

/// Sensors of power: hwmon's, INA's rails (an INA3221 has volts and amperes only), a battery.
fn power_gauges(root: &Root) -> Vec<Gauge> {
    let mut found: Vec<Gauge> = Vec::new();
    let mut add = |path: String, times: Option<(String, f64)>, name: String| {
        let gauge = Gauge { path, times, name, sum: 0.0, ns: 0.0 };
        if gauge.read(root).is_some() {
            found.push(gauge);
        }
    };
    let folder = "/sys/class/hwmon";
    for chip in root.children(folder) {
        let chip_name = root.text(&format!("{folder}/{chip}/name")).unwrap_or_else(|_| chip.clone());
        for number in root.numbered(&format!("{folder}/{chip}"), "power").iter().copied().chain(1..=4) {
            for what in ["average", "input"] {
                let path = format!("{folder}/{chip}/power{number}_{what}");
                if root.has(&path) {
                    let label = root.text(&format!("{folder}/{chip}/power{number}_label"));
                    add(path, None, format!("energy:{chip_name}:{}", label.unwrap_or_else(|_| number.to_string())));
                    break;
                }
            }
        }
        let folder = format!("{folder}/{chip}");
        for number in 1..=8 {
            // mA and mV; what has a power of its own is read there.
            let amperes = format!("{folder}/curr{number}_input");
            if root.has(&amperes) && !root.has(&format!("{folder}/power{number}_input")) {
                let label = root.text(&format!("{folder}/in{number}_label"));
                let name = format!("energy:{chip_name}:{}", label.unwrap_or_else(|_| number.to_string()));
                add(amperes, Some((format!("{folder}/in{number}_input"), 1.0)), name);
            }
        }
    }
    let folder = "/sys/class/power_supply";
    for supply in root.children(folder) {
        let file = |name: &str| format!("{folder}/{supply}/{name}");
        if root.has(&file("power_now")) {
            add(file("power_now"), None, format!("energy:{supply}"));
        } else {
            // uA and uV.
            add(file("current_now"), Some((file("voltage_now"), 1e-6)), format!("energy:{supply}"));
        }
    }
    found
}

fn totals(root: &Root) -> Totals {
    let text = root.raw("/proc/stat").unwrap_or_default();
    let cpus = parse_stat(&text);
    let after = |word: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(word))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    };
    Totals {
        busy_ticks: cpus.iter().map(|(_, times)| times.total.saturating_sub(times.idle + times.iowait)).sum(),
        n_cpus: cpus.len() as u64,
        switches: after("ctxt "),
        interrupts: after("intr "),
    }
}

/// The hottest zone, millidegrees.
pub fn temperature(root: &Root) -> Option<i64> {
    let folder = "/sys/class/thermal";
    let zones = root.numbered(folder, "thermal_zone");
    zones.iter().filter_map(|zone| root.text(&format!("{folder}/thermal_zone{zone}/temp")).ok()?.parse().ok()).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Made;

    /// Goal: rails and batteries that have volts and amperes only are meters, and a cooling device that slows CPUs spoils a
    /// run. Method: by hand, 5 V x 2 A over 3 s are 30 J.
    #[test]
    fn volts_and_amperes_are_a_meter_and_cooling_is_throttling() {
        let made = Made::default();
        for (path, text) in [
            ("/sys/class/hwmon/hwmon0/name", "ina3221"),
            ("/sys/class/hwmon/hwmon0/in1_label", "VDD_CPU"),
            ("/sys/class/hwmon/hwmon0/in1_input", "5000"),
            ("/sys/class/hwmon/hwmon0/curr1_input", "2000"),
            ("/sys/class/power_supply/BAT0/current_now", "-1000000"),
            ("/sys/class/power_supply/BAT0/voltage_now", "12000000"),
            ("/sys/class/power_supply/AC/online", "1"),
            ("/sys/class/thermal/cooling_device0/type", "fan"),
            ("/sys/class/thermal/cooling_device0/cur_state", "3"),
            ("/sys/class/thermal/cooling_device1/type", "cpufreq-cpu0"),
            ("/sys/class/thermal/cooling_device1/cur_state", "0"),
            ("/sys/devices/system/cpu/online", "0"),
        ] {
            made.put(path, text);
        }
        let root = Root::Made(made);
        let mut meters = Meters::open(&root);
        assert!(
            !meters.lacking.iter().any(|(what, _)| ["energy", "throttling"].contains(&&**what)),
            "{:?}",
            meters.lacking
        );
        let at = |second: u64| Moment { time_ns: second * 1_000_000_000, slept_ns: 0 };
        let mut run = |throttle: bool| {
            meters.begin(&root, at(1));
            if throttle && let Root::Made(made) = &root {
                made.put("/sys/class/thermal/cooling_device1/cur_state", "2");
            }
            meters.poll(&root, at(2));
            meters.end(&root, at(4), 0.0, 1.0)
        };
        let (found, spoilt) = run(false);
        let value = |name: &str| found.iter().find(|one| one.name == name).map(|one| (one.value, one.unit.clone()));
        assert_eq!(value("energy:ina3221:VDD_CPU"), Some((30.0, "J".to_owned())));
        assert_eq!(value("energy:BAT0"), Some((36.0, "J".to_owned())));
        assert_eq!(value("energy:AC"), None);
        assert!(spoilt.is_empty(), "{spoilt:?}");
        assert_eq!(run(true).1, ["throttled"]);
    }
}
