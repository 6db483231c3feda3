//! `calibrate` on a made machine, whose truth is known: numbers hold it, what is not there is unknown with a reason, and
//! every setting is as before.

use std::collections::BTreeMap;

use opplab_host::HostError;
use opplab_host::calibrate::loops::Class;
use opplab_host::calibrate::measure::{Finding, Findings, Lab, measure};
use opplab_host::calibrate::plan::{Plan, What};
use opplab_host::clock::Moment;
use opplab_host::compare::measure::Meters;
use opplab_host::compare::settings::Settings;
use opplab_host::compare::variants::Variant;
use opplab_host::root::{Made, Root};

const CPU: &str = "/sys/devices/system/cpu";
const ZONE: &str = "/sys/class/powercap/intel-rapl:0";
/// kHz that the machine has, and what each core draws at each, W; beside them the package's 10 W.
const CLOCKS: [(u32, f64); 3] = [(1_000_000, 2.0), (2_000_000, 5.0), (3_000_000, 11.0)];
const PACKAGE_W: f64 = 10.0;
/// Share of a memory loop's time at 3 GHz that does not hang on the clock.
const MEMORY: f64 = 0.6;
/// A change of the clock, and wake-ups by state, ns.
const CHANGE_NS: u64 = 700_000;
const WAKES_NS: [u64; 3] = [2_000, 30_000, 400_000];
/// Speed of a thread beside its sibling.
const BESIDE: f64 = 0.6;

/// Two cores of two threads.
struct Machine {
    root: Root,
    now_ns: u64,
    energy_uj: f64,
    turn: u64,
}

impl Machine {
    fn new(has_cpufreq: bool, has_meter: bool) -> Self {
        let made = Made::default();
        made.put(format!("{CPU}/online"), "0-3");
        for cpu in 0..4 {
            let threads = if cpu % 2 == 0 { "0,2" } else { "1,3" };
            made.put(format!("{CPU}/cpu{cpu}/topology/thread_siblings_list"), threads);
            made.put(format!("{CPU}/cpu{cpu}/topology/package_cpus_list"), "0-3");
            made.put(format!("{CPU}/cpu{cpu}/cache/index3/shared_cpu_list"), "0-3");
            for (state, name) in ["POLL", "C1", "C6"].iter().enumerate() {
                let folder = format!("{CPU}/cpu{cpu}/cpuidle/state{state}");
                made.put(format!("{folder}/name"), *name);
                made.put(format!("{folder}/residency"), (state * 100).to_string());
                made.put(format!("{folder}/disable"), "0");
                made.put(format!("{folder}/time"), "0");
            }
        }
        if has_cpufreq {
            for policy in 0..4 {
                let folder = format!("{CPU}/cpufreq/policy{policy}");
                made.put(format!("{folder}/scaling_governor"), "schedutil");
                made.put(format!("{folder}/scaling_available_frequencies"), "1000000 2000000 3000000");
                made.put(format!("{folder}/scaling_min_freq"), "1000000");
                made.put(format!("{folder}/scaling_max_freq"), "3000000");
                made.put(format!("{folder}/affected_cpus"), policy.to_string());
            }
        }
        if has_meter {
            made.put(format!("{ZONE}/name"), "package-0");
            made.put(format!("{ZONE}/energy_uj"), "0");
            made.put(format!("{ZONE}/max_energy_range_uj"), (1u64 << 40).to_string());
        }
        Self { root: Root::Made(made), now_ns: 1, energy_uj: 0.0, turn: 0 }
    }

    fn made(&self) -> &Made {
        let Root::Made(made) = &self.root else { unreachable!("it was made so") };
        made
    }

    /// All files, to be compared; counters go on.
    fn settings(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let mut folders = vec![CPU.to_owned()];
        while let Some(folder) = folders.pop() {
            for name in self.root.children(&folder) {
                let path = format!("{folder}/{name}");
                match self.root.text(&path) {
                    Ok(text) => drop(found.insert(path, text)),
                    Err(_) => folders.push(path),
                }
            }
        }
        found
    }

    /// The clock that the limits allow; without cpufreq the highest.
    fn khz(&self) -> u32 {
        let limit = self.root.number(&format!("{CPU}/cpufreq/policy0/scaling_max_freq"));
        limit.map_or(3_000_000, |khz| khz as u32)
    }

    /// Up to 1 % of noise, the same at each run of the test.
    fn noise(&mut self) -> f64 {
        self.turn += 1;
        1.0 + 0.01 * ((self.turn * 7_919 % 201) as f64 / 100.0 - 1.0)
    }

    fn pass(&mut self, ns: u64, watts: f64) {
        self.now_ns += ns;
        self.energy_uj += watts * ns as f64 / 1e3;
        if self.root.has(ZONE) {
            self.made().put(format!("{ZONE}/energy_uj"), (self.energy_uj as u64).to_string());
        }
    }
}

fn speed(class: Class, khz: u32) -> f64 {
    let share = if class == Class::Memory { MEMORY } else { 0.0 };
    let (ghz, top) = (f64::from(khz) / 1e6, 3.0);
    // At the highest clock an iteration takes 6 cycles' time.
    1.0 / (2e-9 * (share + (1.0 - share) * top / ghz))
}

impl Lab for Machine {
    fn root(&self) -> &Root {
        &self.root
    }

    fn now(&self) -> Moment {
        Moment { time_ns: self.now_ns, slept_ns: 0 }
    }

    fn is_ended(&self) -> bool {
        false
    }

    fn rest(&mut self, ns: u64, poll: &mut dyn FnMut(&Root, Moment)) {
        self.pass(ns, PACKAGE_W);
        poll(&self.root, self.now());
    }

    fn busy(
        &mut self,
        class: Class,
        cpus: &[u32],
        ns: u64,
        poll: &mut dyn FnMut(&Root, Moment),
    ) -> Result<Vec<f64>, HostError> {
        let khz = self.khz();
        let core_w = CLOCKS.iter().find(|(clock, _)| *clock == khz).map_or(0.0, |(_, watts)| *watts);
        self.pass(ns, PACKAGE_W + core_w * cpus.len() as f64);
        poll(&self.root, self.now());
        let shares = |cpu: &u32| cpus.iter().any(|other| other != cpu && other % 2 == cpu % 2);
        let beside: Vec<f64> = cpus.iter().map(|cpu| if shares(cpu) { BESIDE } else { 1.0 }).collect();
        Ok(beside.into_iter().map(|share| share * speed(class, khz) * self.noise()).collect())
    }

    fn wake(&mut self, cpu: u32, sleep_ns: u64, count: u32) -> Result<Vec<u64>, HostError> {
        self.now_ns += sleep_ns * u64::from(count);
        let off = |state: &usize| self.root.number(&format!("{CPU}/cpu{cpu}/cpuidle/state{state}/disable")) == Some(1);
        let state = (0..3).rev().find(|state| !off(state)).unwrap_or(0);
        Ok((0..count).map(|_| (5_000.0 + WAKES_NS[state] as f64 * self.noise()) as u64).collect())
    }

    fn exchange(&mut self, a: u32, b: u32) -> Result<Vec<f64>, HostError> {
        let ns = if a % 2 == b % 2 { 8.0 } else { 40.0 };
        Ok((0..20).map(|_| ns * self.noise()).collect())
    }

    fn watch(&mut self, _cpu: u32, writes: &[(String, String)], _ns: u64) -> Result<Vec<(u64, f64)>, HostError> {
        let before = self.khz();
        for (path, value) in writes {
            self.root.write(path, value)?;
        }
        let after = self.khz();
        let at = |ns: u64| if ns < CHANGE_NS { before } else { after };
        Ok((0..800u64).map(|window| (window * 5_000, speed(Class::Integer, at(window * 5_000)))).collect())
    }

    fn flush(&mut self, count: u32) -> Result<Vec<u64>, HostError> {
        Ok((0..count).map(|_| (120_000.0 * self.noise()) as u64).collect())
    }
}

fn run(machine: &mut Machine) -> (Plan, Findings) {
    let plan = Plan::of(&machine.root, &Meters::open(&machine.root).lacking);
    let variants: Vec<Variant> = plan.steps.iter().map(|step| step.variant.clone()).collect();
    let before = machine.settings();
    let mut settings = Settings::of(&machine.root, &variants, 1).expect("readable");
    let found = measure(&plan, machine, &mut settings, 5, 100_000_000, &mut Vec::new()).expect("possible");
    settings.saved.restore(&machine.root);
    assert_eq!(machine.settings(), before, "every setting is as before");
    (plan, found)
}

fn one<'a>(found: &'a Findings, what: &str, of: &[(&str, &str)]) -> &'a Finding {
    let is_it = |finding: &&Finding| {
        finding.what == what
            && of.iter().all(|(name, value)| finding.of.iter().any(|(key, is)| key == name && is == value))
            && (of.iter().any(|(name, _)| *name == "khz") || !finding.of.iter().any(|(key, _)| *key == "khz"))
    };
    found.known.iter().find(is_it).unwrap_or_else(|| panic!("no {what} of {of:?}"))
}

#[test]
fn what_is_measured_is_the_truth() {
    let mut machine = Machine::new(true, true);
    let (_, found) = run(&mut machine);
    let check = |what: &str, of: &[(&str, &str)], truth: f64, within: f64| {
        let finding = one(&found, what, of);
        assert!((finding.value / truth - 1.0).abs() < within, "{what} {of:?}: {} for {truth}", finding.value);
        let (low, high) = finding.interval.expect("five rounds");
        assert!(low <= finding.value && finding.value <= high, "{what}");
        assert_eq!(finding.rounds, 5);
    };
    for (khz, core_w) in CLOCKS {
        for cores in [1u32, 2] {
            let of = [("class", "integer"), ("cores", &*cores.to_string()), ("khz", &*khz.to_string())];
            check("power", &of, PACKAGE_W + f64::from(cores) * core_w, 1e-3);
            check("speed", &of, f64::from(cores) * speed(Class::Integer, khz), 0.01);
        }
    }
    check("memory's share", &[("class", "memory")], MEMORY, 0.05);
    assert!(one(&found, "memory's share", &[("class", "integer")]).value.abs() < 0.03);
    check("thread's share", &[("class", "vector")], BESIDE, 0.02);
    for (state, ns) in ["POLL", "C1", "C6"].iter().zip(WAKES_NS) {
        check("wake-up", &[("state", state)], 5_000.0 + ns as f64, 0.01);
    }
    check("idle power", &[("up to", "C6")], PACKAGE_W, 1e-3);
    check("frequency change", &[("from khz", "1000000")], CHANGE_NS as f64, 0.01);
    check("frequency change", &[("from khz", "3000000")], CHANGE_NS as f64, 0.01);
    check("shared line", &[("shared", "one core")], 8.0, 0.02);
    check("shared line", &[("shared", "one last-level cache")], 40.0, 0.02);
    check("flush", &[], 120_000.0, 0.01);
    assert!(found.unknown.is_empty(), "{:?}", found.unknown);
}

#[test]
fn what_is_not_there_is_unknown_with_a_reason() {
    let mut machine = Machine::new(false, false);
    let (plan, found) = run(&mut machine);
    let why = |what: &str| found.unknown.iter().find(|(known, _)| known == what).map(|(_, why)| why.as_str());
    for what in ["power by clock and cores", "idle power by state"] {
        assert!(why(what).is_some_and(|why| why.contains("no powercap zone")), "{what}: {:?}", why(what));
    }
    for what in ["loops by clock", "share that memory takes", "time of a frequency change"] {
        assert!(why(what).is_some_and(|why| why.contains("no cpufreq policy")), "{what}: {:?}", why(what));
    }
    assert!(!found.known.iter().any(|finding| ["power", "memory's share"].contains(&finding.what)));
    assert!(!plan.steps.iter().any(|step| matches!(step.what, What::Change { .. } | What::Idle(_))));
    let text = found.text();
    assert!(text.contains("unknown: idle power by state\n  no powercap zone"), "{text}");
    assert!(text.contains("flush"), "{text}");
}

#[test]
fn a_read_only_plan_writes_nothing_and_says_so() {
    let machine = Machine::new(true, true);
    let mut plan = Plan::of(&machine.root, &[]);
    plan.read_only("needs root");
    assert!(plan.steps.iter().all(|step| step.variant.writes.is_empty()));
    assert!(plan.steps.iter().any(|step| matches!(step.what, What::Busy { .. })));
    for what in ["loops by clock", "wake-up latency by state", "idle power by state", "time of a frequency change"] {
        let whys: Vec<&str> = plan.unknown.iter().filter(|(one, _)| one == what).map(|(_, why)| why.as_str()).collect();
        assert_eq!(whys, ["needs root"], "{what}");
    }
}

#[test]
fn what_is_written_is_limits_and_idle_states_only() {
    let machine = Machine::new(true, true);
    let plan = Plan::of(&machine.root, &[]);
    for (path, _) in plan.steps.iter().flat_map(|step| &step.variant.writes) {
        let is_limit = path.ends_with("/scaling_min_freq") || path.ends_with("/scaling_max_freq");
        assert!(is_limit || path.ends_with("/disable"), "{path}");
    }
}

/// Goal: of one core, "one" and "all" busy cores are one step, which is measured once.
#[test]
fn one_core_is_measured_once_at_each_clock() {
    let machine = Machine::new(true, true);
    machine.made().put(format!("{CPU}/online"), "0");
    let plan = Plan::of(&machine.root, &[]);
    for (index, step) in plan.steps.iter().enumerate() {
        let twice = plan.steps.iter().skip(index + 1).find(|other| other.what == step.what);
        assert!(twice.is_none(), "{twice:?}");
    }
}
