//! The keys of a policy, each declared once: what it is, its values and default, how files and cases have it. Structs, readers,
//! writers, lists and Python's `Policy` come from the declaration.

use opplab_kernel::cpufreq::drivers::DriverId;
use opplab_kernel::cpufreq::governors::GovernorId;
use opplab_kernel::cpufreq::intel_pstate::ENERGY_PERF_STRINGS;
use opplab_kernel::cpuidle::IDLE_GOVERNORS;
use opplab_kernel::freq_invariance::FreqMax;
use opplab_kernel::profile::{GATES, Invariance, KernelProfile, gate_names, profile_names};
use opplab_kernel::proposals::proposal::{Proposals, canonical};
use opplab_kernel::unit::SCHED_CAPACITY_SCALE;

use crate::cpus::cpus_from;
use crate::error::{Fault, Pos, proposal_fault, unknown_kernel};
use crate::policy_values::{CHANGEABLE, EnergyModelSource, HwpDynamicBoost, Placement, SCHED_FEATURES, SetLimit};
use crate::tree::{Node, Table, Value};
use crate::variation::{VARIATIONS, Variation};

/// The values that a key may have.
#[derive(Clone, Copy)]
pub enum PolicyValue {
    /// Any text.
    Text,
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Int {
        /// The lowest.
        min: u32,
        /// The highest.
        max: u32,
    },
    /// One of some whole numbers.
    OneOf(&'static [u32]),
    /// One of some names.
    Name(fn() -> Vec<&'static str>),
    /// One of some names, or empty for what the machine or the profile has.
    NameOrEmpty(fn() -> Vec<&'static str>),
    /// A kernel: one of the profiles' names, or a version that stands for one.
    Kernel,
    /// A way to f_max, or empty.
    FreqMax,
    /// A preference: a name of sysfs, a number, or empty.
    Epp,
    /// A governor's tunables.
    Tunables,
    /// Gates of the profile.
    Gates,
    /// A limit in kHz, for all or by cluster.
    Limit,
    /// A list of CPUs.
    Cpus,
    /// A list of tables, each `at_ms` and keys of a policy.
    Changes,
    /// A list of proposals, each `NAME` or `NAME:key=value,...`.
    Proposals,
    /// A list of features of the scheduler, each `NAME` or `NO_NAME`.
    Features,
    /// A list of idle states of the machine, by name.
    IdleStates,
}

impl PolicyValue {
    /// The names that it may have.
    pub fn names(self) -> Vec<&'static str> {
        match self {
            Self::Name(names) | Self::NameOrEmpty(names) => names(),
            Self::Kernel => profile_names().collect(),
            Self::FreqMax => FreqMax::ALL.map(FreqMax::name).to_vec(),
            Self::Epp => ENERGY_PERF_STRINGS.to_vec(),
            _ => Vec::new(),
        }
    }

    /// In words, e.g. `true or false`.
    pub fn words(self) -> String {
        match self {
            Self::Text | Self::Epp => "text".to_owned(),
            Self::Bool => "true or false".to_owned(),
            Self::Int { min, max } => format!("{min} to {max}"),
            Self::OneOf(numbers) => numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
            Self::Name(_) | Self::NameOrEmpty(_) | Self::Kernel | Self::FreqMax => self.names().join(", "),
            Self::Tunables | Self::Gates => "a table".to_owned(),
            Self::Limit => "kHz, or a table of clusters and kHz".to_owned(),
            Self::Cpus => "a list of CPUs".to_owned(),
            Self::Changes => format!("a list of tables with at_ms and some of {}", CHANGEABLE.join(", ")),
            Self::Features => {
                let names: Vec<_> = SCHED_FEATURES.iter().map(|feature| feature.name).collect();
                format!("NAME or NO_NAME, a list or with commas, of {}", names.join(", "))
            }
            Self::IdleStates => "a list of names of the machine's idle states, or one name".to_owned(),
            Self::Proposals => "a list of proposals, each NAME or NAME:key=value,...".to_owned(),
        }
    }

    /// Whether a text may be its value.
    fn allows(self, text: &str) -> bool {
        match self {
            Self::Kernel => KernelProfile::named(text).is_some(),
            Self::NameOrEmpty(_) | Self::FreqMax | Self::Epp if text.is_empty() => true,
            Self::FreqMax => FreqMax::from_name(text).is_some(),
            Self::Epp => text.parse::<u8>().is_ok() || ENERGY_PERF_STRINGS.contains(&text),
            Self::Name(names) | Self::NameOrEmpty(names) => names().contains(&text),
            _ => true,
        }
    }
}

/// A key of a policy.
pub struct PolicyKey {
    /// Its name in files, in Python and on the command line.
    pub name: &'static str,
    /// The values that it may have.
    pub values: PolicyValue,
    /// What it is.
    pub about: &'static str,
    /// Whether a case states it even where it is the default. (What came later is left out, so that old cases keep their
    /// bytes.)
    is_always_written: bool,
    /// Its value in a policy.
    value: fn(&Policy) -> Node,
    /// Puts a file's value into a policy.
    read: fn(&mut Policy, &Self, &Node) -> Result<(), Fault>,
}

impl PolicyKey {
    /// Its value in a policy as a file has it.
    pub fn value_in(&self, policy: &Policy) -> Node {
        (self.value)(policy)
    }

    /// The same, or nothing where a case does not state it.
    fn written(&self, policy: &Policy) -> Option<Node> {
        let value = (self.value)(policy);
        (self.is_always_written || value.value != (self.value)(&Policy::default()).value).then_some(value)
    }
}

/// Timer frequencies that kernels are configured with.
pub const HZ: &[u32] = &[100, 250, 300, 1000];
/// Half-lives that PELT can be configured with, in ms.
pub const PELT_HALF_LIVES_MS: &[u32] = &[8, 16, 32];
/// The longest `watchdog_thresh` of the kernel, in s.
const WATCHDOG_THRESH_MAX_S: u32 = 60;
/// The longest exit latency that PM QoS asks for (PM_QOS_CPU_LATENCY_DEFAULT_VALUE, v6.12), us.
const CPU_LATENCY_MAX_US: u32 = 2_000_000_000;
/// The highest utilisation clamp.
const CLAMP_MAX: u32 = SCHED_CAPACITY_SCALE as u32;
/// Every case states the key.
const ALWAYS: bool = true;
/// Cases state the key where it is not the default.
const CHANGED: bool = false;

macro_rules! policy {
    ($($name:ident: $type:ty = $default:expr, $always:expr, $values:expr, $about:literal;)*) => {
        /// A policy: everything that the user may change on a given machine.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Policy {
            $(#[doc = $about] pub $name: $type,)*
        }

        impl Default for Policy {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        /// All keys of a policy, in the order of files.
        pub const POLICY_KEYS: &[PolicyKey] = {
            use PolicyValue::*;
            &[$(PolicyKey {
                name: stringify!($name),
                values: $values,
                about: $about,
                is_always_written: $always,
                value: |policy| policy.$name.write(policy),
                read: |policy, key, node| policy.$name.read(key, node),
            },)*]
        };

        /// The names of all keys of a policy.
        pub(crate) const POLICY_KEY_NAMES: &[&str] = &[$(stringify!($name),)*];
    };
}

policy! {
    label: String = String::from("schedutil"), ALWAYS, Text,
        "what tables call the policy";
    kernel: String = String::from("6.12.117"), ALWAYS, Kernel,
        "kernel profile";
    driver: String = String::new(), ALWAYS, NameOrEmpty(|| DriverId::all().map(|driver| driver.entry().name).collect()),
        "cpufreq driver; empty: the machine's own";
    governor: String = String::from("schedutil"), ALWAYS, Name(|| GovernorId::all().map(|governor| governor.entry().name).collect()),
        "cpufreq governor";
    tunables: Vec<(String, String)> = Vec::new(), ALWAYS, Tunables,
        "the governor's tunables by their names in sysfs";
    idle_governor: String = String::from("menu"), ALWAYS, Name(|| IDLE_GOVERNORS.iter().map(|entry| entry.name).collect()),
        "cpuidle governor";
    idle_disable: Vec<String> = Vec::new(), CHANGED, IdleStates,
        "idle states that are disabled, as by 1 in cpuidle/stateN/disable of each CPU that has them";
    cpu_dma_latency_us: u32 = CPU_LATENCY_MAX_US, CHANGED, Int { min: 0, max: CPU_LATENCY_MAX_US },
        "PM QoS by /dev/cpu_dma_latency in us: idle states with a longer exit latency are not used (tuned's force_latency)";
    eas: bool = true, ALWAYS, Bool,
        "energy-aware scheduling is switched on; it still needs an energy model";
    energy_model: EnergyModelSource = EnergyModelSource::Registered, ALWAYS, Name(EnergyModelSource::names),
        "the energy model that the kernel is given: the machine file's, as firmware or device tree registers it (cppc_cpufreq registers the artificial one if the file has no powers); the artificial one of CPPC; none";
    freq_max: String = String::new(), ALWAYS, FreqMax,
        "f_max of frequency invariance on x86, also turbo-N-cores of any N (rapl, recent and search are estimated while it runs); empty: the profile's choice";
    invariance: String = String::new(), ALWAYS, NameOrEmpty(|| Invariance::ALL.iter().map(|value| value.name()).collect()),
        "how utilisation is made invariant to frequency; empty: the profile's choice";
    gates: Vec<(String, String)> = Vec::new(), ALWAYS, Gates,
        "gates of the kernel profile that are overridden, by name";
    proposals: Vec<String> = Vec::new(), CHANGED, Proposals,
        "what was posted for the kernel and not merged, and is added to it";
    hz: u32 = 250, ALWAYS, OneOf(HZ),
        "frequency of the tick, CONFIG_HZ";
    pelt_half_life_ms: u32 = 32, ALWAYS, OneOf(PELT_HALF_LIVES_MS),
        "half-life of load tracking in ms";
    watchdog_thresh_s: u32 = 10, CHANGED, Int { min: 0, max: WATCHDOG_THRESH_MAX_S },
        "kernel.watchdog_thresh in s; 0: no timer of the soft lockup detector";
    irq_time_accounting: bool = false, CHANGED, Bool,
        "CONFIG_IRQ_TIME_ACCOUNTING: time in interrupts has a utilisation of its own";
    sugov_cpus: Vec<u32> = Vec::new(), ALWAYS, Cpus,
        "where schedutil's kthreads may run; empty: where the kernel puts them";
    epp: String = String::new(), CHANGED, Epp,
        "energy_performance_preference under HWP, a name or 0 to 255; empty: the firmware's";
    hwp_dynamic_boost: HwpDynamicBoost = HwpDynamicBoost::Auto, CHANGED, Name(HwpDynamicBoost::names),
        "whether intel_pstate raises HWP's lower limit after I/O; auto: as the kernel decides";
    idle_boost: bool = false, CHANGED, Bool,
        "SLE 15's boost of tasks placed on an idle CPU, in intel_pstate's own governor";
    no_hwp: bool = false, CHANGED, Bool,
        "intel_pstate=no_hwp: hardware P-states are not used";
    no_turbo: bool = false, CHANGED, Bool,
        "turbo and boost are not used";
    scaling_min_freq: SetLimit = SetLimit::default(), CHANGED, Limit,
        "scaling_min_freq of each policy in kHz, or by cluster; 0: the hardware's";
    scaling_max_freq: SetLimit = SetLimit::default(), CHANGED, Limit,
        "scaling_max_freq of each policy in kHz, or by cluster; 0: the hardware's";
    min_perf_pct: u32 = 0, CHANGED, Int { min: 0, max: 100 },
        "intel_pstate/min_perf_pct: lowest P-state in percent of the highest";
    max_perf_pct: u32 = 100, CHANGED, Int { min: 1, max: 100 },
        "intel_pstate/max_perf_pct: highest P-state in percent of the highest";
    nosmt: bool = false, CHANGED, Bool,
        "nosmt: of each core only the first thread is online";
    offline_cpus: Vec<u32> = Vec::new(), CHANGED, Cpus,
        "CPUs that are offline";
    isolcpus: Vec<u32> = Vec::new(), CHANGED, Cpus,
        "isolcpus: CPUs without scheduling domains, for tasks only whose affinity names them";
    nohz_full: Vec<u32> = Vec::new(), CHANGED, Cpus,
        "nohz_full: CPUs whose tick stops while one task runs";
    sched_util_clamp_min: u32 = CLAMP_MAX, CHANGED, Int { min: 0, max: CLAMP_MAX },
        "kernel.sched_util_clamp_min: the highest lower clamp that a task may have";
    sched_util_clamp_max: u32 = CLAMP_MAX, CHANGED, Int { min: 0, max: CLAMP_MAX },
        "kernel.sched_util_clamp_max: the highest upper clamp that a task may have";
    sched_util_clamp_min_rt_default: u32 = CLAMP_MAX, CHANGED, Int { min: 0, max: CLAMP_MAX },
        "kernel.sched_util_clamp_min_rt_default: the lower clamp of real-time tasks that asked for none";
    sched_features: Vec<String> = Vec::new(), CHANGED, Features,
        "the scheduler's features in debugfs that are not as the kernel has them, e.g. NO_UTIL_EST";
    changes: Vec<PolicyChange> = Vec::new(), CHANGED, Changes,
        "what is changed while the run goes on: at_ms from its start, and the keys that change then";
    variation: Variation = Variation::None, CHANGED, Name(Variation::names),
        "how programs vary from run to run: not at all, as rt-app does on a board, as in a virtual machine on a busy host";
    no_overutilized: bool = false, ALWAYS, Bool,
        "test switch: the overutilised state is never set";
    reversed_energy_model: bool = false, ALWAYS, Bool,
        "test switch: costs of the energy model are reversed";
    placement: Placement = Placement::Kernel, ALWAYS, Name(Placement::names),
        "test switch: where tasks wake: as the kernel decides, or anywhere";
}

/// What somebody changes while a run goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyChange {
    /// When, from the start of the run.
    pub at_ms: u32,
    /// The policy from then on.
    pub policy: Policy,
}

/// Reads a policy; what it leaves out is as in `base`.
pub(crate) fn policy_from(node: &Node, base: &Policy) -> Result<Policy, Fault> {
    let table = node.as_table("policy", POLICY_KEY_NAMES)?;
    let mut policy = base.clone();
    if let Some(governor) = table.get("governor") {
        // Another governor's tunables are not its own.
        policy.tunables.retain(|_| governor.as_str("governor").is_ok_and(|name| name == base.governor));
    }
    for key in POLICY_KEYS {
        if let Some(node) = table.get(key.name) {
            (key.read)(&mut policy, key, node)?;
        }
    }
    policy.check_tunables(tunables_at(&table))?;
    if let Some(node) = table.get("changes") {
        policy.changes.clear();
        policy.changes = changes_from(node, &policy)?;
    }
    if !PELT_HALF_LIVES_MS.contains(&policy.half_life_ms()) {
        let at = table.get("proposals").or(table.get("pelt_half_life_ms")).map_or(table.at, |node| node.at);
        let ms = policy.half_life_ms();
        return Err(Fault::new(
            at,
            format!("proposal pelt-multiplier leaves a half-life of {ms} ms; 8 is the shortest"),
        ));
    }
    Ok(policy)
}

/// The tree of a policy.
pub(crate) fn policy_node(policy: &Policy) -> Node {
    Node::table(POLICY_KEYS.iter().map(|key| (key.name, key.written(policy))))
}

/// What is changed in a run that starts with `policy`.
pub(crate) fn changes_from(node: &Node, policy: &Policy) -> Result<Vec<PolicyChange>, Fault> {
    let mut changes: Vec<PolicyChange> = Vec::new();
    for item in node.as_list("changes")? {
        let Value::Table(entries) = &item.value else {
            return Err(Fault::new(item.at, format!("`changes` holds tables, not {}", item.value.kind())));
        };
        let (when, keys): (Vec<_>, Vec<_>) = entries.iter().cloned().partition(|(key, _)| key.name == "at_ms");
        let Some((_, when)) = when.first() else {
            return Err(Fault::new(
                item.at,
                String::from("a change needs `at_ms`, its time from the start of the run"),
            ));
        };
        let at_ms = when.as_int("at_ms", 0, i128::from(u32::MAX))?;
        if let Some((key, _)) = keys.iter().find(|(key, _)| !CHANGEABLE.contains(&key.name.as_str())) {
            let known = CHANGEABLE.iter().copied();
            return Err(Fault::unknown(key.at, "key that changes while a run goes on", &key.name, known));
        }
        if changes.last().is_some_and(|last| last.at_ms >= at_ms) {
            return Err(Fault::new(when.at, format!("`at_ms` {at_ms} is not after the change before it")));
        }
        let before = changes.last().map_or(policy, |change| &change.policy);
        let policy = policy_from(&Node { value: Value::Table(keys), at: item.at }, before)?;
        changes.push(PolicyChange { at_ms, policy });
    }
    Ok(changes)
}

/// Where the policy's own tunables stand; the base's are not in this file.
fn tunables_at(table: &Table<'_>) -> Pos {
    table.get("tunables").map_or(table.at, |node| node.at)
}

/// How a field of a policy stands in files.
trait Field {
    /// Takes what a file sets.
    fn read(&mut self, key: &PolicyKey, node: &Node) -> Result<(), Fault>;
    /// The file's form of it, in the policy that has it.
    fn write(&self, of: &Policy) -> Node;
}

/// One of some names.
trait Named: Copy + PartialEq + 'static {
    const NAMES: &'static [(&'static str, Self)];

    fn names() -> Vec<&'static str> {
        Self::NAMES.iter().map(|(name, _)| *name).collect()
    }
}

impl Named for EnergyModelSource {
    const NAMES: &'static [(&'static str, Self)] =
        &[("none", Self::None), ("registered", Self::Registered), ("artificial", Self::Artificial)];
}

impl Named for HwpDynamicBoost {
    const NAMES: &'static [(&'static str, Self)] = &[("auto", Self::Auto), ("on", Self::On), ("off", Self::Off)];
}

impl Named for Placement {
    const NAMES: &'static [(&'static str, Self)] = &[("kernel", Self::Kernel), ("random", Self::Random)];
}

impl Named for Variation {
    const NAMES: &'static [(&'static str, Self)] = VARIATIONS;
}

impl<T: Named> Field for T {
    fn read(&mut self, key: &PolicyKey, node: &Node) -> Result<(), Fault> {
        let text = node.as_str(key.name)?;
        let found = T::NAMES.iter().find(|(name, _)| *name == text);
        *self = found.ok_or_else(|| Fault::unknown(node.at, key.name, text, T::names()))?.1;
        Ok(())
    }

    fn write(&self, _of: &Policy) -> Node {
        Node::str(T::NAMES.iter().find(|(_, value)| value == self).map_or("", |(name, _)| name))
    }
}

impl Field for bool {
    fn read(&mut self, key: &PolicyKey, node: &Node) -> Result<(), Fault> {
        *self = node.as_bool(key.name)?;
        Ok(())
    }

    fn write(&self, _of: &Policy) -> Node {
        Node::bool(*self)
    }
}

impl Field for u32 {
    fn read(&mut self, key: &PolicyKey, node: &Node) -> Result<(), Fault> {
        let (min, max) = if let PolicyValue::Int { min, max } = key.values { (min, max) } else { (1, Self::MAX) };
        let number = node.as_int(key.name, min.into(), max.into())?;
        if let PolicyValue::OneOf(known) = key.values
            && !known.contains(&number)
        {
            let words = key.values.words();
            let words = words.rsplit_once(", ").map_or(words.clone(), |(most, last)| format!("{most} or {last}"));
            return Err(Fault::new(node.at, format!("`{}` must be {words}, not {number}", key.name)));
        }
        *self = number;
        Ok(())
    }

    fn write(&self, _of: &Policy) -> Node {
        Node::from(*self)
    }
}

impl Field for String {
    fn read(&mut self, key: &PolicyKey, node: &Node) -> Result<(), Fault> {
        *self = match (key.values, &node.value) {
            (PolicyValue::Epp, Value::Int(_)) => node.as_int::<u32>(key.name, 0, 255)?.to_string(),
            _ => node.as_str(key.name)?.to_owned(),
        };
        if key.values.allows(self) {
            return Ok(());
        }
        Err(match key.values {
            PolicyValue::Kernel => unknown_kernel(node.at, self),
            PolicyValue::Epp => Fault::unknown(node.at, "energy performance preference", self, ENERGY_PERF_STRINGS),
            values => Fault::unknown(node.at, key.name, self, values.names()),
        })
    }

    fn write(&self, _of: &Policy) -> Node {
        Node::str(self)
    }
}

impl Field for Vec<u32> {
    fn read(&mut self, key: &PolicyKey, node: &Node) -> Result<(), Fault> {
        let is_empty = matches!(&node.value, Value::List(items) if items.is_empty());
        *self = if is_empty { Self::new() } else { cpus_from(node, key.name)? };
        Ok(())
    }

    fn write(&self, _of: &Policy) -> Node {
        Node::list(self.iter().map(|&cpu| Node::from(cpu)))
    }
}

impl Field for Vec<String> {
    fn read(&mut self, key: &PolicyKey, node: &Node) -> Result<(), Fault> {
        *self = match key.values {
            PolicyValue::Features => features_from(node)?,
            // Whether there are such is known with the machine.
            PolicyValue::IdleStates => {
                names_from(key.name, node)?.into_iter().map(|(_, name)| name.to_owned()).collect()
            }
            _ => proposals_from(node)?,
        };
        Ok(())
    }

    fn write(&self, _of: &Policy) -> Node {
        Node::list(self.iter().map(Node::str))
    }
}

/// A table on top of that of the base.
impl Field for Vec<(String, String)> {
    fn read(&mut self, key: &PolicyKey, node: &Node) -> Result<(), Fault> {
        let Value::Table(entries) = &node.value else {
            return Err(Fault::new(node.at, format!("`{}` must be a table, not {}", key.name, node.value.kind())));
        };
        if matches!(key.values, PolicyValue::Gates) {
            check_gates(node)?;
        }
        for (name, node) in entries {
            let value = match &node.value {
                Value::Str(text) => text.clone(),
                Value::Int(number) => number.to_string(),
                Value::Bool(value) => u8::from(*value).to_string(),
                other => {
                    let message = format!("`{}` must be a string or a whole number, not {}", name.name, other.kind());
                    return Err(Fault::new(node.at, message));
                }
            };
            match self.iter_mut().find(|(known, _)| *known == name.name) {
                Some(pair) => pair.1 = value,
                None => self.push((name.name.clone(), value)),
            }
        }
        Ok(())
    }

    fn write(&self, _of: &Policy) -> Node {
        Node::table(self.iter().map(|(name, value)| (name.clone(), Some(Node::str(value)))))
    }
}

impl Field for Vec<PolicyChange> {
    /// Read when the rest of the policy is known ([`changes_from`]).
    fn read(&mut self, _key: &PolicyKey, _node: &Node) -> Result<(), Fault> {
        Ok(())
    }

    /// Each change as what it makes otherwise than the one before it.
    fn write(&self, of: &Policy) -> Node {
        let mut before = of;
        let mut list = Vec::new();
        for change in self {
            let at = (String::from("at_ms"), Some(Node::from(change.at_ms)));
            let changed = POLICY_KEYS.iter().filter(|key| CHANGEABLE.contains(&key.name)).filter_map(|key| {
                let value = (key.value)(&change.policy);
                (value.value != (key.value)(before).value).then(|| (key.name.to_owned(), Some(value)))
            });
            list.push(Node::table(std::iter::once(at).chain(changed)));
            before = &change.policy;
        }
        Node::list(list)
    }
}

impl Field for SetLimit {
    /// A number, or a table by cluster (`all`: the clusters that it does not name).
    fn read(&mut self, key: &PolicyKey, node: &Node) -> Result<(), Fault> {
        /// Ten GHz: nobody means kHz who writes more.
        const MOST_KHZ: i128 = 10_000_000;
        *self = Self::default();
        let Value::Table(entries) = &node.value else {
            self.all_khz = node.as_int(key.name, 0, MOST_KHZ)?;
            return Ok(());
        };
        for (name, node) in entries {
            let khz = node.as_int(&name.name, 1, MOST_KHZ)?;
            match name.name.as_str() {
                "all" => self.all_khz = khz,
                cluster => self.by_cluster.push((cluster.to_owned(), khz)),
            }
        }
        self.by_cluster.sort();
        Ok(())
    }

    fn write(&self, _of: &Policy) -> Node {
        if self.by_cluster.is_empty() {
            return Node::from(self.all_khz);
        }
        let all = (self.all_khz > 0).then(|| ("all", Some(Node::from(self.all_khz))));
        let by_cluster = self.by_cluster.iter().map(|(name, khz)| (name.as_str(), Some(Node::from(*khz))));
        Node::table(all.into_iter().chain(by_cluster))
    }
}

/// The proposals of a list, each in the one form that all its writings have.
fn proposals_from(node: &Node) -> Result<Vec<String>, Fault> {
    let items = node.as_list("proposals")?;
    let mut list: Vec<String> = Vec::new();
    for item in items {
        let fault = |error| proposal_fault(item.at, &error);
        list.push(canonical(item.as_str("proposals")?).map_err(fault)?);
        Proposals::of(list.iter().map(String::as_str)).map_err(fault)?;
    }
    Ok(list)
}

/// Features of the scheduler: names of debugfs, each perhaps after `NO_`.
fn features_from(node: &Node) -> Result<Vec<String>, Fault> {
    let mut names = Vec::new();
    for (at, name) in names_from("sched_features", node)? {
        let plain = name.strip_prefix("NO_").unwrap_or(name);
        if !SCHED_FEATURES.iter().any(|feature| feature.name == plain) {
            let known = SCHED_FEATURES.iter().map(|feature| feature.name);
            return Err(Fault::unknown(at, "feature of the scheduler", name, known));
        }
        names.push(name.to_owned());
    }
    Ok(names)
}

/// Names and where they are: of a list, or of a text with commas, as a command line has it.
fn names_from<'n>(key: &str, node: &'n Node) -> Result<Vec<(Pos, &'n str)>, Fault> {
    match &node.value {
        Value::Str(text) => {
            Ok(text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(|name| (node.at, name)).collect())
        }
        _ => node.as_list(key)?.iter().map(|item| Ok((item.at, item.as_str(key)?))).collect(),
    }
}

/// Refuses gates and values that the kernel profiles do not have.
fn check_gates(node: &Node) -> Result<(), Fault> {
    // Whatever is no table is refused by the caller.
    let Value::Table(entries) = &node.value else { return Ok(()) };
    for (key, node) in entries {
        let gate = GATES
            .iter()
            .find(|gate| gate.name == key.name)
            .ok_or_else(|| Fault::unknown(key.at, "gate", &key.name, gate_names()))?;
        let value = node.as_str(&key.name)?;
        if !gate.values.iter().any(|known| known.name == value) {
            let known = gate.values.iter().map(|known| known.name);
            return Err(Fault::unknown(node.at, &format!("value of gate {}", gate.name), value, known));
        }
    }
    Ok(())
}
