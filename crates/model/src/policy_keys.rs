//! The keys of a policy: one list for reading, writing and explaining them, and for every other form of a policy.

use opplab_kernel::cpufreq::driver::DriverId;
use opplab_kernel::cpufreq::governor::GovernorId;
use opplab_kernel::cpuidle::IDLE_GOVERNORS;
use opplab_kernel::freq_invariance::FreqMax;
use opplab_kernel::profile::{Invariance, profile_names};
use opplab_kernel::unit::SCHED_CAPACITY_SCALE;

use crate::policy::{CHANGEABLE, EnergyModelSource, HwpDynamicBoost, Placement, Policy, SCHED_FEATURES, SetLimit};
use crate::tree::Node;
use crate::variation::VARIATIONS;

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
    /// A table of names and values.
    Table,
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
}

impl PolicyValue {
    /// In words, e.g. `true or false`.
    pub fn words(self) -> String {
        let either = |names: Vec<String>| names.join(", ");
        match self {
            Self::Text => "text".to_owned(),
            Self::Bool => "true or false".to_owned(),
            Self::Int { min, max } => format!("{min} to {max}"),
            Self::OneOf(numbers) => either(numbers.iter().map(u32::to_string).collect()),
            Self::Name(names) | Self::NameOrEmpty(names) => either(names().into_iter().map(str::to_owned).collect()),
            Self::Table => "a table".to_owned(),
            Self::Limit => "kHz, or a table of clusters and kHz".to_owned(),
            Self::Cpus => "a list of CPUs".to_owned(),
            Self::Changes => format!("a list of tables with at_ms and some of {}", CHANGEABLE.join(", ")),
            Self::Features => {
                let names = SCHED_FEATURES.iter().map(|feature| feature.name.to_owned()).collect();
                format!("a list of NAME or NO_NAME of {}", either(names))
            }
            Self::Proposals => "a list of proposals, each NAME or NAME:key=value,...".to_owned(),
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
    /// Whether a case says it even where it is the default. (What came later is left out, so that old cases keep their
    /// bytes.)
    is_always_written: bool,
    /// Its value in a policy.
    value: fn(&Policy) -> Node,
}

impl PolicyKey {
    /// Its value in a policy as a file has it.
    pub fn value_in(&self, policy: &Policy) -> Node {
        (self.value)(policy)
    }

    /// The same, or nothing where a case does not say it.
    pub(crate) fn written(&self, policy: &Policy) -> Option<Node> {
        let value = (self.value)(policy);
        (self.is_always_written || value.value != (self.value)(&Policy::default()).value).then_some(value)
    }
}

/// The names of energy models.
pub const ENERGY_MODELS: &[(&str, EnergyModelSource)] = &[
    ("none", EnergyModelSource::None),
    ("registered", EnergyModelSource::Registered),
    ("artificial", EnergyModelSource::Artificial),
];
pub(crate) const HWP_BOOST: &[(&str, HwpDynamicBoost)] =
    &[("auto", HwpDynamicBoost::Auto), ("on", HwpDynamicBoost::On), ("off", HwpDynamicBoost::Off)];
pub(crate) const PLACEMENTS: &[(&str, Placement)] = &[("kernel", Placement::Kernel), ("random", Placement::Random)];
/// Timer frequencies that kernels are configured with.
pub const HZ: &[u32] = &[100, 250, 300, 1000];
/// Half-lives that PELT can be configured with, in ms.
pub const PELT_HALF_LIVES_MS: &[u32] = &[8, 16, 32];
/// The longest `watchdog_thresh` of the kernel, in s.
pub(crate) const WATCHDOG_THRESH_MAX_S: u32 = 60;

fn names_of<T>(names: &[(&'static str, T)]) -> Vec<&'static str> {
    names.iter().map(|(name, _)| *name).collect()
}

fn name_of<T: PartialEq>(names: &[(&str, T)], value: &T) -> Node {
    Node::str(names.iter().find(|(_, candidate)| candidate == value).map_or("", |(name, _)| name))
}

fn pairs(pairs: &[(String, String)]) -> Node {
    Node::table(pairs.iter().map(|(name, value)| (name.clone(), Some(Node::str(value)))))
}

fn limit(limit: &SetLimit) -> Node {
    if limit.by_cluster.is_empty() {
        return Node::from(limit.all_khz);
    }
    let all = (limit.all_khz > 0).then(|| ("all", Some(Node::from(limit.all_khz))));
    let by_cluster = limit.by_cluster.iter().map(|(name, khz)| (name.as_str(), Some(Node::from(*khz))));
    Node::table(all.into_iter().chain(by_cluster))
}

/// Each change as what it makes otherwise than the one before it.
fn changes(policy: &Policy) -> Node {
    let mut before = policy;
    let mut list = Vec::new();
    for change in &policy.changes {
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

fn cpus(cpus: &[u32]) -> Node {
    Node::list(cpus.iter().map(|&cpu| Node::from(cpu)))
}

/// A utilisation clamp.
const CLAMP: PolicyValue = PolicyValue::Int { min: 0, max: SCHED_CAPACITY_SCALE as u32 };

/// A key that every case says.
const fn key(name: &'static str, values: PolicyValue, about: &'static str, value: fn(&Policy) -> Node) -> PolicyKey {
    PolicyKey { name, values, about, is_always_written: true, value }
}

/// A key that cases say where it is not the default.
const fn later_key(
    name: &'static str,
    values: PolicyValue,
    about: &'static str,
    value: fn(&Policy) -> Node,
) -> PolicyKey {
    PolicyKey { name, values, about, is_always_written: false, value }
}

/// All keys of a policy, in the order of files.
pub const POLICY_KEYS: &[PolicyKey] = &[
    key("label", PolicyValue::Text, "what tables call the policy", |policy| Node::str(&policy.label)),
    key("kernel", PolicyValue::Name(|| profile_names().collect()), "kernel profile", |policy| {
        Node::str(&policy.kernel)
    }),
    key(
        "driver",
        PolicyValue::NameOrEmpty(|| DriverId::all().map(|driver| driver.entry().name).collect()),
        "cpufreq driver; empty: the machine's own",
        |policy| Node::str(&policy.driver),
    ),
    key(
        "governor",
        PolicyValue::Name(|| GovernorId::all().map(|governor| governor.entry().name).collect()),
        "cpufreq governor",
        |policy| Node::str(&policy.governor),
    ),
    key("tunables", PolicyValue::Table, "the governor's tunables by their names in sysfs", |policy| {
        pairs(&policy.tunables)
    }),
    key(
        "idle_governor",
        PolicyValue::Name(|| IDLE_GOVERNORS.iter().map(|entry| entry.name).collect()),
        "cpuidle governor",
        |policy| Node::str(&policy.idle_governor),
    ),
    key("eas", PolicyValue::Bool, "energy-aware scheduling is switched on; it still needs an energy model", |policy| {
        Node::bool(policy.eas)
    }),
    key(
        "energy_model",
        PolicyValue::Name(|| names_of(ENERGY_MODELS)),
        "the energy model that the kernel is given: that of firmware or device tree, the artificial one of CPPC, none",
        |policy| name_of(ENERGY_MODELS, &policy.energy_model),
    ),
    key(
        "freq_max",
        PolicyValue::NameOrEmpty(|| FreqMax::ALL.map(FreqMax::name).to_vec()),
        "f_max of frequency invariance on x86, also turbo-N-cores of any N (rapl, recent and search are estimated while it runs); empty: the profile's choice",
        |policy| Node::str(&policy.freq_max),
    ),
    key(
        "invariance",
        PolicyValue::NameOrEmpty(|| Invariance::ALL.iter().map(|value| value.name()).collect()),
        "how utilisation is made invariant to frequency; empty: the profile's choice",
        |policy| Node::str(&policy.invariance),
    ),
    key("gates", PolicyValue::Table, "gates of the kernel profile that are overridden, by name", |policy| {
        pairs(&policy.gates)
    }),
    later_key(
        "proposals",
        PolicyValue::Proposals,
        "what was posted for the kernel and not merged, and is added to it",
        |policy| Node::list(policy.proposals.iter().map(Node::str)),
    ),
    key("hz", PolicyValue::OneOf(HZ), "frequency of the tick, CONFIG_HZ", |policy| Node::from(policy.hz)),
    key("pelt_half_life_ms", PolicyValue::OneOf(PELT_HALF_LIVES_MS), "half-life of load tracking in ms", |policy| {
        Node::from(policy.pelt_half_life_ms)
    }),
    later_key(
        "watchdog_thresh_s",
        PolicyValue::Int { min: 0, max: WATCHDOG_THRESH_MAX_S },
        "kernel.watchdog_thresh in s; 0: no timer of the soft lockup detector",
        |policy| Node::from(policy.watchdog_thresh_s),
    ),
    later_key(
        "irq_time_accounting",
        PolicyValue::Bool,
        "CONFIG_IRQ_TIME_ACCOUNTING: time in interrupts has a utilisation of its own",
        |policy| Node::bool(policy.irq_time_accounting),
    ),
    key(
        "sugov_cpus",
        PolicyValue::Cpus,
        "where schedutil's kthreads may run; empty: where the kernel puts them",
        |policy| cpus(&policy.sugov_cpus),
    ),
    later_key(
        "epp",
        PolicyValue::Text,
        "energy_performance_preference under HWP, a name or 0 to 255; empty: the firmware's",
        |policy| Node::str(&policy.epp),
    ),
    later_key(
        "hwp_dynamic_boost",
        PolicyValue::Name(|| names_of(HWP_BOOST)),
        "whether intel_pstate raises HWP's lower limit after I/O; auto: as the kernel decides",
        |policy| name_of(HWP_BOOST, &policy.hwp_dynamic_boost),
    ),
    later_key(
        "idle_boost",
        PolicyValue::Bool,
        "SLE 15's boost of tasks placed on an idle CPU, in intel_pstate's own governor",
        |policy| Node::bool(policy.idle_boost),
    ),
    later_key("no_hwp", PolicyValue::Bool, "intel_pstate=no_hwp: hardware P-states are not used", |policy| {
        Node::bool(policy.no_hwp)
    }),
    later_key("no_turbo", PolicyValue::Bool, "turbo and boost are not used", |policy| Node::bool(policy.no_turbo)),
    later_key(
        "scaling_min_freq",
        PolicyValue::Limit,
        "scaling_min_freq of each policy in kHz, or by cluster; 0: the hardware's",
        |policy| limit(&policy.scaling_min_freq),
    ),
    later_key(
        "scaling_max_freq",
        PolicyValue::Limit,
        "scaling_max_freq of each policy in kHz, or by cluster; 0: the hardware's",
        |policy| limit(&policy.scaling_max_freq),
    ),
    later_key(
        "min_perf_pct",
        PolicyValue::Int { min: 0, max: 100 },
        "intel_pstate/min_perf_pct: lowest P-state in percent of the highest",
        |policy| Node::from(policy.min_perf_pct),
    ),
    later_key(
        "max_perf_pct",
        PolicyValue::Int { min: 1, max: 100 },
        "intel_pstate/max_perf_pct: highest P-state in percent of the highest",
        |policy| Node::from(policy.max_perf_pct),
    ),
    later_key("nosmt", PolicyValue::Bool, "nosmt: of each core only the first thread is online", |policy| {
        Node::bool(policy.nosmt)
    }),
    later_key("offline_cpus", PolicyValue::Cpus, "CPUs that are offline", |policy| cpus(&policy.offline_cpus)),
    later_key(
        "isolcpus",
        PolicyValue::Cpus,
        "isolcpus: CPUs without scheduling domains, for tasks only whose affinity names them",
        |policy| cpus(&policy.isolcpus),
    ),
    later_key("nohz_full", PolicyValue::Cpus, "nohz_full: CPUs whose tick stops while one task runs", |policy| {
        cpus(&policy.nohz_full)
    }),
    later_key(
        "sched_util_clamp_min",
        CLAMP,
        "kernel.sched_util_clamp_min: the highest lower clamp that a task may have",
        |policy| Node::from(policy.sched_util_clamp_min),
    ),
    later_key(
        "sched_util_clamp_max",
        CLAMP,
        "kernel.sched_util_clamp_max: the highest upper clamp that a task may have",
        |policy| Node::from(policy.sched_util_clamp_max),
    ),
    later_key(
        "sched_util_clamp_min_rt_default",
        CLAMP,
        "kernel.sched_util_clamp_min_rt_default: the lower clamp of real-time tasks that asked for none",
        |policy| Node::from(policy.sched_util_clamp_min_rt_default),
    ),
    later_key(
        "sched_features",
        PolicyValue::Features,
        "the scheduler's features in debugfs that are not as the kernel has them, e.g. NO_UTIL_EST",
        |policy| Node::list(policy.sched_features.iter().map(Node::str)),
    ),
    later_key(
        "changes",
        PolicyValue::Changes,
        "what is changed while the run goes on: at_ms from its start, and the keys that change then",
        changes,
    ),
    later_key(
        "variation",
        PolicyValue::Name(|| names_of(VARIATIONS)),
        "how programs vary from run to run: not at all, as rt-app does on a board, as in a virtual machine on a busy host",
        |policy| name_of(VARIATIONS, &policy.variation),
    ),
    key("no_overutilized", PolicyValue::Bool, "test switch: the overutilised state is never set", |policy| {
        Node::bool(policy.no_overutilized)
    }),
    key("reversed_energy_model", PolicyValue::Bool, "test switch: costs of the energy model are reversed", |policy| {
        Node::bool(policy.reversed_energy_model)
    }),
    key(
        "placement",
        PolicyValue::Name(|| names_of(PLACEMENTS)),
        "test switch: where tasks wake: as the kernel decides, or anywhere",
        |policy| name_of(PLACEMENTS, &policy.placement),
    ),
];

/// The names of all keys of a policy.
pub(crate) const POLICY_KEY_NAMES: &[&str] = &{
    let mut names = [""; POLICY_KEYS.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = POLICY_KEYS[index].name;
        index += 1;
    }
    names
};
