//! What can be measured on a machine, in which steps, what each step writes, and what cannot be measured and why.

use super::loops::Class;
use crate::compare::variants::Variant;
use crate::root::{CPU, Root};

/// One step; each round has all of them once.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// A class of loops on CPUs, one a core.
    Busy {
        /// The loops.
        class: Class,
        /// Where.
        cpus: Vec<u32>,
        /// The clock that all policies are held at; `None` leaves it to the machine.
        khz: Option<u32>,
    },
    /// Both threads of a core; alone the first of them.
    Siblings(Class, Vec<u32>),
    /// Nothing runs; the deepest idle state that is allowed.
    Idle(String),
    /// Timers on a CPU whose only allowed idle state is this, with their length.
    Wake {
        /// Where.
        cpu: u32,
        /// The state's name.
        state: String,
        /// Length of a sleep.
        sleep_ns: u64,
    },
    /// A policy's limits are moved; the CPU's speed is watched.
    Change {
        /// A CPU of it.
        cpu: u32,
        /// Its number.
        policy: u32,
        /// From and to, kHz.
        khz: [u32; 2],
    },
    /// A cache line goes back and forth between two CPUs, which share this.
    Line(u32, u32, &'static str),
    /// 4 KiB to the disk of the results.
    Flush,
}

/// A step with its settings.
#[derive(Debug, Clone)]
pub struct Step {
    /// What is measured.
    pub what: What,
    /// What is written before it.
    pub variant: Variant,
}

/// All that is measured, and what is not.
#[derive(Debug, Default)]
pub struct Plan {
    /// In the order in which they are shown.
    pub steps: Vec<Step>,
    /// What this machine cannot measure, and why.
    pub unknown: Vec<(String, String)>,
}

/// First CPUs of the cores, and the threads of the first core that has several.
fn cores(root: &Root) -> (Vec<u32>, Vec<u32>) {
    let online = root.online();
    let (mut firsts, mut siblings) = (Vec::new(), Vec::new());
    for &cpu in &online {
        let threads = root.cpus(&format!("{CPU}/cpu{cpu}/topology/thread_siblings_list")).unwrap_or_else(|| vec![cpu]);
        let threads: Vec<u32> = threads.into_iter().filter(|thread| online.contains(thread)).collect();
        if threads.first().is_none_or(|&first| first == cpu) {
            firsts.push(cpu);
        }
        if threads.len() > 1 && siblings.is_empty() {
            siblings = threads;
        }
    }
    (firsts, siblings)
}

/// Numbers of busy cores: one, doubled, all.
fn counts(n_cores: usize) -> Vec<usize> {
    let mut found: Vec<usize> = (0..).map(|power| 1 << power).take_while(|count| *count < n_cores).collect();
    found.push(n_cores);
    found
}

/// Lowest, middle and highest clock of the machine's policies, kHz; empty without cpufreq.
fn clocks(root: &Root, policies: &[u32]) -> Vec<u32> {
    let Some(first) = policies.first() else { return Vec::new() };
    let folder = format!("{CPU}/cpufreq/policy{first}");
    let listed = root.text(&format!("{folder}/scaling_available_frequencies")).unwrap_or_default();
    let mut khz: Vec<u32> = listed.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    if khz.len() < 2 {
        let end =
            |name: &str| root.number(&format!("{folder}/cpuinfo_{name}_freq")).and_then(|khz| khz.try_into().ok());
        let (Some(low), Some(high)) = (end("min"), end("max")) else { return Vec::new() };
        khz = vec![low, low / 2 + high / 2, high];
    }
    khz.sort_unstable();
    khz.dedup();
    match khz.as_slice() {
        [] | [_] => Vec::new(),
        [low, .., high] => {
            let mut found = vec![*low, khz.get(khz.len() / 2).copied().unwrap_or(*high), *high];
            found.dedup();
            found
        }
    }
}

/// What holds all policies at a clock; `None` where a limit cannot be written.
fn held_at(root: &Root, policies: &[u32], khz: u32) -> Option<Variant> {
    let mut variant = Variant { name: format!("{} MHz", khz / 1000), ..Variant::default() };
    for policy in policies {
        for limit in ["min", "max"] {
            let path = format!("{CPU}/cpufreq/policy{policy}/scaling_{limit}_freq");
            root.number(&path)?;
            variant.writes.push((path, khz.to_string()));
        }
    }
    Some(variant)
}

/// Idle states of a CPU: (number, name, target residency in ns).
fn states(root: &Root, cpu: u32) -> Vec<(u32, String, u64)> {
    let folder = format!("{CPU}/cpu{cpu}/cpuidle");
    let one = |state: u32| {
        let folder = format!("{folder}/state{state}");
        let name = root.text(&format!("{folder}/name")).unwrap_or_else(|_| state.to_string());
        (state, name, root.number(&format!("{folder}/residency")).unwrap_or(0) * 1000)
    };
    root.numbered(&folder, "state").into_iter().map(one).collect()
}

/// What leaves CPUs one idle state (`only`), or none that is deeper; `None` where that cannot be written.
fn allowed(root: &Root, cpus: &[u32], state: u32, only: bool) -> Option<Variant> {
    let mut variant = Variant::default();
    for &cpu in cpus {
        for (other, _, _) in states(root, cpu) {
            let path = format!("{CPU}/cpu{cpu}/cpuidle/state{other}/disable");
            root.number(&path)?;
            let is_off = other > state || (only && other != state);
            variant.writes.push((path, u8::from(is_off).to_string()));
        }
    }
    Some(variant)
}

/// Pairs of CPUs, one for each thing that two CPUs may share at most.
fn pairs(root: &Root) -> Vec<(u32, u32, &'static str)> {
    let online = root.online();
    let Some(&first) = online.first() else { return Vec::new() };
    let with = |path: &str| root.cpus(&format!("{CPU}/cpu{first}/{path}")).unwrap_or_default();
    let caches = root.numbered(&format!("{CPU}/cpu{first}/cache"), "index");
    let last = caches.last().map(|index| with(&format!("cache/index{index}/shared_cpu_list"))).unwrap_or_default();
    let (threads, package) = (with("topology/thread_siblings_list"), with("topology/package_cpus_list"));
    let package = if package.is_empty() { with("topology/core_siblings_list") } else { package };
    let shares = |cpu: &u32| {
        if threads.contains(cpu) {
            "one core"
        } else if last.contains(cpu) {
            "one last-level cache"
        } else if package.contains(cpu) {
            "one package"
        } else {
            "no package"
        }
    };
    let mut found: Vec<(u32, u32, &'static str)> = Vec::new();
    for cpu in online.iter().filter(|&&cpu| cpu != first) {
        let words = shares(cpu);
        if !found.iter().any(|(_, _, known)| *known == words) {
            found.push((first, *cpu, words));
        }
    }
    found
}

impl Plan {
    /// For a machine; `lacking` is what its meters lack.
    pub fn of(root: &Root, lacking: &[(String, String)]) -> Self {
        let mut plan = Self::default();
        let (cores, siblings) = cores(root);
        let policies = root.policies();
        let no_meter = lacking.iter().find(|(what, _)| what == "energy").map(|(_, why)| why.clone());
        if let Some(why) = &no_meter {
            plan.unknown("power by clock and cores", why);
            plan.unknown("idle power by state", why);
        }
        plan.busy(root, &cores, &policies);
        if siblings.is_empty() {
            plan.unknown("speed of a thread beside a busy sibling", "cores of one thread");
        } else {
            for class in Class::ALL {
                plan.add(What::Siblings(class, siblings.clone()), Variant::default());
            }
        }
        plan.idle(root, &cores, no_meter.is_none());
        plan.change(root, &policies);
        let pairs = pairs(root);
        if pairs.is_empty() {
            plan.unknown("cost of a shared line", "one CPU");
        }
        for (a, b, words) in pairs {
            plan.add(What::Line(a, b, words), Variant::default());
        }
        plan.add(What::Flush, Variant::default());
        plan
    }

    /// Leaves out what writes a setting, and notes why.
    pub fn read_only(&mut self, why: &str) {
        let (kept, left): (Vec<Step>, Vec<Step>) =
            std::mem::take(&mut self.steps).into_iter().partition(|step| step.variant.writes.is_empty());
        self.steps = kept;
        let mut whats: Vec<&str> = Vec::new();
        for step in &left {
            let what = match step.what {
                What::Wake { .. } => "wake-up latency by state",
                What::Idle(_) => "idle power by state",
                What::Change { .. } => "time of a frequency change",
                _ => "loops by clock",
            };
            if !whats.contains(&what) {
                whats.push(what);
                self.unknown(what, why);
            }
        }
    }

    fn unknown(&mut self, what: &str, why: &str) {
        self.unknown.push((what.to_owned(), why.to_owned()));
    }

    fn add(&mut self, what: What, variant: Variant) {
        self.steps.push(Step { what, variant });
    }

    /// Loops by clock and cores; the machine's own clock by cores.
    fn busy(&mut self, root: &Root, cores: &[u32], policies: &[u32]) {
        for count in counts(cores.len()) {
            let cpus = cores.get(..count).unwrap_or(cores).to_vec();
            for class in Class::ALL {
                self.add(What::Busy { class, cpus: cpus.clone(), khz: None }, Variant::default());
            }
        }
        let clocks = clocks(root, policies);
        if clocks.is_empty() {
            let why = if policies.is_empty() { "no cpufreq policy (normal in a virtual machine)" } else { "one clock" };
            self.unknown("loops by clock", why);
            self.unknown("share that memory takes", &format!("{why}: it shows between two clocks"));
            return;
        }
        for khz in clocks {
            let Some(variant) = held_at(root, policies, khz) else {
                self.unknown(&format!("loops at {} MHz", khz / 1000), "the policies' limits cannot be read");
                continue;
            };
            let mut counts = vec![1, cores.len()];
            counts.dedup();
            for count in counts {
                let cpus = cores.get(..count).unwrap_or(cores).to_vec();
                for class in Class::ALL {
                    self.add(What::Busy { class, cpus: cpus.clone(), khz: Some(khz) }, variant.clone());
                }
            }
        }
    }

    /// Idle states: wake-ups, and power if there is a meter.
    fn idle(&mut self, root: &Root, cores: &[u32], has_meter: bool) {
        let Some(&cpu) = cores.last() else { return };
        let found = states(root, cpu);
        if found.is_empty() {
            self.unknown("wake-up latency by state", &format!("{CPU}/cpu{cpu}/cpuidle: not there"));
        }
        for (state, name, residency_ns) in found {
            let Some(variant) = allowed(root, &[cpu], state, true) else {
                self.unknown(&format!("wake-up latency of {name}"), "its `disable` cannot be read");
                continue;
            };
            let sleep_ns = (10 * residency_ns).clamp(1_000_000, 50_000_000);
            let what = What::Wake { cpu, state: name.clone(), sleep_ns };
            self.add(what, Variant { name: format!("only {name}"), ..variant });
            if let Some(variant) = has_meter.then(|| allowed(root, &root.online(), state, false)).flatten() {
                self.add(What::Idle(name.clone()), Variant { name: format!("up to {name}"), ..variant });
            }
        }
    }

    /// Time of a frequency change, both ways.
    fn change(&mut self, root: &Root, policies: &[u32]) {
        let clocks = clocks(root, policies);
        let (Some(&policy), [low, .., high]) = (policies.first(), clocks.as_slice()) else {
            self.unknown("time of a frequency change", "no cpufreq policy (normal in a virtual machine)");
            return;
        };
        let cpu =
            root.cpus(&format!("{CPU}/cpufreq/policy{policy}/affected_cpus")).and_then(|cpus| cpus.first().copied());
        for khz in [[*low, *high], [*high, *low]] {
            if let Some(variant) = held_at(root, policies, khz[0]) {
                self.add(What::Change { cpu: cpu.unwrap_or(policy), policy, khz }, variant);
            }
        }
    }
}
