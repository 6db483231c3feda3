//! Task groups (control groups with the cpu controller): their settings as cgroup files have them, and their form in files.
//!
//! ```toml
//! [[group]]
//! name = "/web"            # a path; groups above it that no entry names have default settings
//! weight = 200             # cpu.weight, 1 to 10000; or weight_nice, -20 to 19; or shares (v1), 2 to 262144
//! max = "20000 100000"     # cpu.max: quota and period in us; "max": no limit
//! burst_us = 5000          # cpu.max.burst
//! idle = false             # cpu.idle
//! cpus = "0-3"             # cpuset.cpus
//! partition = "isolated"   # cpuset.cpus.partition: nobody else has these CPUs, and no load balance; "member": as its parent's
//! uclamp_min = 10          # cpu.uclamp.min, percent; also "12.5" or "max"
//! uclamp_max = "max"       # cpu.uclamp.max
//! tasks = ["nginx*"]       # names of tasks, or their beginnings
//! ```

use opplab_kernel::sched::weight::SCHED_PRIO_TO_WEIGHT;

use crate::cpus::cpus_from;
use crate::error::{Fault, shorten};
use crate::file_table::file_table;
use crate::tree::{Node, Table, Value};

/// A quota (`cpu.max`, `cpu.max.burst`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Runtime of a period, ns.
    pub quota_ns: u64,
    /// The period, ns.
    pub period_ns: u64,
    /// Runtime that may be saved beyond the quota, ns.
    pub burst_ns: u64,
}

file_table! {
    /// A task group below the root.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct GroupSpec(this) {
        /// Its path, e.g. `/system.slice/web`.
        name: String = text(),
        /// The group that it is in, an index into [`crate::workload::Workload::groups`] below its own; `None`: the root.
        parent: Option<u32> = by("parent", index_from, |group| group.map(Node::from)),
        /// What its tasks share with its siblings (`cpu.shares`; 1024 is `cpu.weight` 100).
        shares: u32 = int(1, 1 << 18),
        /// It yields to everything that is not idle (`cpu.idle`).
        idle: bool = flag(),
        /// How long its tasks may run; `None`: no limit.
        quota: Option<Quota> = by("quota_ns", Quota::read, |quota| quota.map(Quota::node)),
        /// CPUs of its tasks, an index into [`crate::workload::Workload::cpu_sets`]; `None`: its parent's.
        cpus: Option<u32> = by("cpus", index_from, |set| set.map(Node::from)),
        /// These CPUs are its own, and no load is balanced on them (`cpuset.cpus.partition` is `isolated`).
        isolated: bool = flag(),
        /// Clamps of its tasks' utilisation, of 1024.
        uclamp_min: u16 = int(0, 1024).or(0),
        /// The upper one.
        uclamp_max: u16 = int(0, 1024).or(1024),
        /// Its tasks' templates, indices into [`crate::workload::Workload::tasks`]. A forked task is in its parent's group.
        tasks: Vec<u32> = list_by("tasks", |node, key| node.as_int(key, 0, u32::MAX.into()), |&task| Node::from(task)).needed(),
    }
}

fn index_from(table: &Table<'_>, key: &str) -> Result<Option<u32>, Fault> {
    table.get(key).map(|node| node.as_int(key, 0, u32::MAX.into())).transpose()
}

impl Quota {
    fn node(self) -> Node {
        Node::list([self.quota_ns, self.period_ns, self.burst_ns].into_iter().map(Node::from))
    }

    fn read(table: &Table<'_>, key: &str) -> Result<Option<Self>, Fault> {
        let Some(node) = table.get(key) else { return Ok(None) };
        let [quota, period, burst] = node.as_list(key)? else {
            return Err(Fault::new(node.at, "`quota_ns` is quota, period and burst"));
        };
        Ok(Some(Self {
            quota_ns: quota.as_int(key, 1, QUOTA_US_MAX * 1000)?,
            period_ns: period.as_int(key, 1_000_000, 1_000_000_000)?,
            burst_ns: burst.as_int(key, 0, QUOTA_US_MAX * 1000)?,
        }))
    }
}

/// An entry of a file: settings, and which tasks they are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupEntry {
    /// The group; its parent, CPU set and tasks are not resolved.
    pub spec: GroupSpec,
    /// `cpuset.cpus`.
    pub cpus: Option<Vec<u32>>,
    /// Names of tasks; with `*` at the end: beginnings of names.
    pub tasks: Vec<String>,
    /// Where the entry is.
    pub at: crate::error::Pos,
}

/// The keys of an entry.
pub const GROUP_KEYS: &[&str] = &[
    "name",
    "weight",
    "weight_nice",
    "shares",
    "max",
    "burst_us",
    "idle",
    "cpus",
    "partition",
    "uclamp_min",
    "uclamp_max",
    "tasks",
];

/// Shares of a group of default weight (`NICE_0_LOAD` without its scale).
const DEFAULT_SHARES: u32 = 1024;
/// Shares of an idle group (`WEIGHT_IDLEPRIO`).
const IDLE_SHARES: u32 = 3;
/// `min_cfs_quota_period` and `max_cfs_quota_period`, us.
const PERIOD_US: (u64, u64) = (1_000, 1_000_000);
/// The longest quota that a file may ask for, us (`max_cfs_runtime`, cut to what a run may last).
const QUOTA_US_MAX: i128 = 1 << 40;

/// `cpu.shares` of a `cpu.weight` (kernel/sched/core.c:`sched_weight_from_cgroup()`, v6.12).
pub fn shares_of_weight(weight: u32) -> u32 {
    ((u64::from(weight) * 1024 + 50) / 100).clamp(2, 1 << 18) as u32
}

impl GroupSpec {
    /// A group with default settings.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), shares: DEFAULT_SHARES, ..Self::default() }
    }

    /// The clamps that count, within those of the group above (kernel/sched/core.c:`cpu_util_update_eff()`, v5.4): what is above limits,
    /// and the maximum limits the minimum.
    pub fn clamps_within(&self, above: Option<(u16, u16)>) -> (u16, u16) {
        let (above_min, above_max) = above.unwrap_or((1024, 1024));
        let max = above_max.min(self.uclamp_max);
        (above_min.min(self.uclamp_min).min(max), max)
    }
}

/// Whether `name` is a group's path.
pub(crate) fn is_path(name: &str) -> bool {
    let parts = name.strip_prefix('/').map(|rest| rest.split('/'));
    name.len() <= 4096
        && parts.is_some_and(|mut parts| {
            parts.all(|part| !part.is_empty() && part != "." && part != ".." && !part.contains(char::is_control))
        })
}

impl GroupEntry {
    /// Reads an entry with the keys of [`GROUP_KEYS`], and `more` that are the caller's.
    ///
    /// # Errors
    /// What is wrong with it, with its place.
    pub(crate) fn from_node(node: &Node, more: &[&str]) -> Result<Self, Fault> {
        let keys: Vec<&str> = GROUP_KEYS.iter().chain(more).copied().collect();
        let table = settings_of(node, "group", &keys)?;
        Self::from_table(&table, table.need_str("name")?)
    }

    /// The same, with a name from elsewhere.
    pub(crate) fn from_table(table: &Table<'_>, name: &str) -> Result<Self, Fault> {
        if !is_path(name) {
            let message = format!("`{}` is no group: write its path, like `/system.slice/web`", shorten(name));
            return Err(Fault::new(table.get("name").map_or(table.at, |node| node.at), message));
        }
        let mut spec = GroupSpec::new(name);
        spec.idle = table.bool_or("idle", false)?;
        spec.shares = shares_from(table, spec.idle)?;
        spec.quota = quota_from(table)?;
        spec.isolated = partition_from(table, name)?;
        spec.uclamp_min = table.get("uclamp_min").map_or(Ok(0), |node| clamp_from(node, "uclamp_min"))?;
        spec.uclamp_max = table.get("uclamp_max").map_or(Ok(1024), |node| clamp_from(node, "uclamp_max"))?;
        let tasks = match table.get("tasks") {
            None => Vec::new(),
            Some(node) => match &node.value {
                Value::List(items) => {
                    items.iter().map(|item| item.as_str("tasks").map(str::to_owned)).collect::<Result<_, _>>()?
                }
                _ => vec![node.as_str("tasks")?.to_owned()],
            },
        };
        Ok(Self { spec, cpus: table.get("cpus").map(|node| cpus_from(node, "cpus")).transpose()?, tasks, at: table.at })
    }
}

/// The settings of a group. Those of real-time groups, which v1 has, are refused for what they are.
pub(crate) fn settings_of<'n>(node: &'n Node, what: &str, keys: &[&str]) -> Result<Table<'n>, Fault> {
    let Value::Table(entries) = &node.value else { return node.as_table(what, keys) };
    match entries.iter().find(|(key, _)| matches!(key.name.as_str(), "rt_runtime_us" | "rt_period_us")) {
        Some((key, _)) => Err(Fault::new(
            key.at,
            format!("`{}`: real-time groups are not simulated; each CPU has one queue of real-time tasks", key.name),
        )),
        None => node.as_table(what, keys),
    }
}

fn shares_from(table: &Table<'_>, idle: bool) -> Result<u32, Fault> {
    let given: Vec<&str> =
        ["weight", "weight_nice", "shares"].into_iter().filter(|key| table.get(key).is_some()).collect();
    if let [_, second, ..] = given[..] {
        let at = table.get(second).map_or(table.at, |node| node.at);
        return Err(Fault::new(at, format!("`{}` and `{second}` both set the group's weight", given[0])));
    }
    if let (true, Some(&key)) = (idle, given.first()) {
        let at = table.get(key).map_or(table.at, |node| node.at);
        return Err(Fault::new(at, format!("an idle group has no `{key}`: its weight is that of SCHED_IDLE")));
    }
    match given.first() {
        None => Ok(if idle { IDLE_SHARES } else { DEFAULT_SHARES }),
        Some(&"weight") => Ok(shares_of_weight(table.need_int("weight", 1, 10_000)?)),
        Some(&"weight_nice") => {
            let nice: i32 = table.need_int("weight_nice", -20, 19)?;
            Ok(SCHED_PRIO_TO_WEIGHT[(nice + 20) as usize])
        }
        Some(_) => table.need_int("shares", 2, 1 << 18),
    }
}

/// Quota and period as `cpu.max` has them.
fn quota_from(table: &Table<'_>) -> Result<Option<Quota>, Fault> {
    let burst_us: u64 = table.int_or("burst_us", 0, 0, QUOTA_US_MAX)?;
    let Some(node) = table.get("max") else {
        return match table.get("burst_us") {
            Some(node) if burst_us > 0 => {
                Err(Fault::new(node.at, "`burst_us` needs `max`: nothing else limits the group"))
            }
            _ => Ok(None),
        };
    };
    let text = match &node.value {
        Value::Int(us) => us.to_string(),
        _ => node.as_str("max")?.to_owned(),
    };
    let bad = |why: String| Fault::new(node.at, format!("`{}` is no limit: {why}", shorten(&text)));
    let form =
        || bad(String::from("write quota and period in us as cpu.max has them, like \"20000 100000\" or \"max\""));
    let mut words = text.split_ascii_whitespace();
    let quota = words.next().ok_or_else(form)?;
    let period_us: u64 = words.next().map_or(Ok(100_000), |word| word.parse().map_err(|_| form()))?;
    if words.next().is_some() {
        return Err(form());
    }
    let (least, most) = PERIOD_US;
    if !(least..=most).contains(&period_us) {
        return Err(bad(format!("the period is {least} to {most} us")));
    }
    if quota == "max" {
        return Ok(None);
    }
    let quota_us: u64 = quota.parse().map_err(|_| form())?;
    if quota_us < least || i128::from(quota_us) > QUOTA_US_MAX {
        return Err(bad(format!("the quota is at least {least} us")));
    }
    if burst_us > quota_us {
        return Err(bad(format!("the burst of {burst_us} us is more than the quota")));
    }
    Ok(Some(Quota { quota_ns: quota_us * 1000, period_ns: period_us * 1000, burst_ns: burst_us * 1000 }))
}

/// Whether `cpuset.cpus.partition` makes the group's CPUs its own (Documentation/admin-guide/cgroup-v2.rst, v6.12).
fn partition_from(table: &Table<'_>, name: &str) -> Result<bool, Fault> {
    let Some(node) = table.get("partition") else { return Ok(false) };
    let why = match node.as_str("partition")? {
        "member" => return Ok(false),
        "isolated" if table.get("cpus").is_none() => "an isolated partition needs `cpus`".to_owned(),
        "isolated" if name.rfind('/') != Some(0) => {
            "an isolated partition lies below the root: a partition's parent is one, too".to_owned()
        }
        "isolated" => return Ok(true),
        "root" => "partitions with scheduling domains of their own (`root`) are not simulated".to_owned(),
        other => return Err(Fault::unknown(node.at, "partition", other, ["isolated", "member"])),
    };
    Err(Fault::new(node.at, why))
}

/// A share in percent with up to two digits after the point, as cpu.uclamp.min has it, of 1024
/// (kernel/sched/core.c:`capacity_from_percent()`, v6.12).
fn clamp_from(node: &Node, what: &str) -> Result<u16, Fault> {
    let text = match &node.value {
        Value::Int(percent) => percent.to_string(),
        Value::Float(percent) => percent.to_string(),
        _ => node.as_str(what)?.to_owned(),
    };
    if text == "max" {
        return Ok(1024);
    }
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = !whole.is_empty() && whole.len() <= 3 && part.len() <= 2 && digits(whole) && digits(part);
    let hundredths = is_number.then(|| format!("{whole}{part:0<2}").parse::<u32>().ok()).flatten();
    let hundredths = hundredths.filter(|&value| value <= 10_000).ok_or_else(|| {
        Fault::new(node.at, format!("`{what}` is {}: percent, 0 to 100.00, or \"max\" are right", shorten(&text)))
    })?;
    Ok(((hundredths * 1024 + 5_000) / 10_000) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::parse_toml;

    fn entry(text: &str) -> Result<GroupEntry, String> {
        let root = parse_toml(text).map_err(|fault| fault.message)?;
        GroupEntry::from_node(&root, &[]).map_err(|fault| fault.message)
    }

    #[test]
    fn settings_are_those_of_cgroup_files() {
        let read = entry("name = \"/a\"\nweight = 200\nmax = \"20000 50000\"\nburst_us = 7\nuclamp_min = \"12.5\"")
            .expect("an entry");
        assert_eq!(read.spec.shares, 2048);
        assert_eq!(read.spec.quota, Some(Quota { quota_ns: 20_000_000, period_ns: 50_000_000, burst_ns: 7_000 }));
        assert_eq!((read.spec.uclamp_min, read.spec.uclamp_max), (128, 1024));
        assert_eq!(entry("name = \"/a\"\nmax = \"max 50000\"").expect("no limit").spec.quota, None);
        assert_eq!(entry("name = \"/a\"\nweight_nice = -20").expect("nice").spec.shares, 88761);
        assert_eq!(entry("name = \"/a\"\nidle = true").expect("idle").spec.shares, 3);
    }

    /// Goal: what a kernel has and the engine has not is refused by its name, not as a misspelt key.
    #[test]
    fn real_time_groups_and_root_partitions_are_refused_by_name() {
        for (text, why) in [
            ("name = \"/a\"\nrt_runtime_us = 950000", "`rt_runtime_us`: real-time groups are not simulated"),
            ("name = \"/a\"\nrt_period_us = 1000000", "`rt_period_us`: real-time groups are not simulated"),
            ("name = \"/a\"\ncpus = \"1\"\npartition = \"root\"", "(`root`) are not simulated"),
        ] {
            let message = entry(text).expect_err(text);
            assert!(message.contains(why), "{message}");
        }
    }

    #[test]
    fn what_the_kernel_would_refuse_is_refused() {
        for text in [
            "name = \"a\"",
            "name = \"/a//b\"",
            "name = \"/a\"\nweight = 0",
            "name = \"/a\"\nweight = 10001",
            "name = \"/a\"\nweight = 1\nshares = 2",
            "name = \"/a\"\nmax = \"500\"",
            "name = \"/a\"\nmax = \"10000 2000000\"",
            "name = \"/a\"\nmax = \"10000 100000 1\"",
            "name = \"/a\"\nmax = \"2000\"\nburst_us = 2001",
            "name = \"/a\"\nuclamp_max = 101",
            "name = \"/a\"\nwieght = 1",
            "name = \"/a\"\npartition = \"isolated\"",
            "name = \"/a/b\"\ncpus = \"1\"\npartition = \"isolated\"",
            "name = \"/a\"\ncpus = \"1\"\npartition = \"root\"",
            "name = \"/a\"\ncpus = \"1\"\npartition = \"isolate\"",
        ] {
            entry(text).expect_err(text);
        }
    }
}
