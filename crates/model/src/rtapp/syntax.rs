//! The syntax tree of an rt-app file: global settings, tasks, phases and events in file order.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::{ParseOptions, Repeats, SuspendOn};
use crate::cpus::CpuList;
use crate::cpus::cpus_from;
use crate::error::{Fault, Pos, nearest, shorten};
use crate::groups::{GROUP_KEYS, GroupEntry, settings_of};
use crate::tree::{Key, Node, Value};

/// A value and the place at which it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Where.
    pub at: Pos,
}

/// Something in the file that rt-app reads over without a word, or that has no effect in a simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Where.
    pub at: Pos,
    /// What.
    pub message: String,
}

/// How often a phase or a task is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loop {
    /// As often as this.
    Times(u32),
    /// For ever.
    Forever,
}

/// A scheduling policy by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are what they are called")]
pub enum PolicyName {
    Other,
    Batch,
    Idle,
    RoundRobin,
    Fifo,
    Deadline,
}

const POLICIES: &[(&str, PolicyName)] = &[
    ("SCHED_OTHER", PolicyName::Other),
    ("SCHED_BATCH", PolicyName::Batch),
    ("SCHED_IDLE", PolicyName::Idle),
    ("SCHED_RR", PolicyName::RoundRobin),
    ("SCHED_FIFO", PolicyName::Fifo),
    ("SCHED_DEADLINE", PolicyName::Deadline),
];

impl PolicyName {
    /// As rt-app spells it.
    pub fn name(self) -> &'static str {
        POLICIES.iter().find(|(_, policy)| *policy == self).map_or("", |(name, _)| name)
    }
}

/// What a us of `run` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calibration {
    /// A us on this CPU.
    Cpu(u32),
    /// A us on a biggest CPU, whichever these are: `CPU1 (biggest)`, of which rt-app reads `CPU1`.
    Biggest,
    /// A given number of ns a loop, of a machine that is not known.
    NsPerLoop(u64),
}

/// The `global` table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Global {
    /// Duration in s; `None`: until all tasks have ended.
    pub duration_s: Option<u64>,
    /// Calibration.
    pub calibration: Spanned<Calibration>,
    /// Policy of tasks that name none.
    pub default_policy: PolicyName,
    /// Mutexes inherit priorities; the place if so.
    pub pi_enabled: Option<Pos>,
    /// Folder of the logs.
    pub logdir: String,
    /// Beginning of the names of the logs.
    pub log_basename: String,
    /// What `iorun` writes to.
    pub io_device: Spanned<String>,
    /// Size of the buffer of `mem` and `iorun` in bytes.
    pub mem_buffer_size: u64,
    /// Slack is the sum over the timers of a loop.
    pub cumulative_slack: bool,
}

impl Default for Global {
    fn default() -> Self {
        Self {
            duration_s: None,
            calibration: Spanned { value: Calibration::Cpu(0), at: Pos::default() },
            default_policy: PolicyName::Other,
            pi_enabled: None,
            logdir: String::from("./"),
            log_basename: String::from("rt-app"),
            io_device: Spanned { value: String::from("/dev/null"), at: Pos::default() },
            mem_buffer_size: 4 << 20,
            cumulative_slack: false,
        }
    }
}

/// Scheduling attributes of a task or of a phase; `None`: as before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attributes {
    /// Allowed CPUs.
    pub cpus: Option<Spanned<CpuList>>,
    /// Nodes that memory is bound to.
    pub nodes_membind: Option<Spanned<Vec<u32>>>,
    /// Policy.
    pub policy: Option<Spanned<PolicyName>>,
    /// Nice value or real-time priority.
    pub priority: Option<Spanned<i32>>,
    /// Runtime of a deadline task, or slice of a fair one, in us.
    pub dl_runtime_us: Option<Spanned<u64>>,
    /// Period of a deadline task in us.
    pub dl_period_us: Option<Spanned<u64>>,
    /// Deadline of a deadline task in us.
    pub dl_deadline_us: Option<Spanned<u64>>,
    /// Bandwidth that others leave unused stretches its runtime (`SCHED_FLAG_RECLAIM`); our own key, rt-app has none.
    pub dl_reclaim: bool,
    /// Lower utilisation clamp.
    pub util_min: Option<Spanned<u16>>,
    /// Upper utilisation clamp.
    pub util_max: Option<Spanned<u16>>,
    /// Control group.
    pub taskgroup: Option<Spanned<String>>,
}

/// What `memrun` does with its buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemRunKind {
    /// Reads bytes.
    Read,
    /// Writes bytes.
    Write,
    /// Follows pointers, `stride` bytes apart, in an order that defeats prefetching (`random`) or not.
    Chase {
        /// Distance of the pointers in bytes.
        stride: u64,
        /// Whether the order is random.
        random: bool,
    },
}

/// What an event does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are named after rt-app's properties, with the unit")]
pub enum EventKind {
    Lock { mutex: String },
    Unlock { mutex: String },
    Wait { cond: String, mutex: String },
    Signal { cond: String },
    Broadcast { cond: String },
    Sync { cond: String, mutex: String },
    Sleep { us: u64 },
    Run { us: u64 },
    Runtime { us: u64 },
    Timer { timer: String, unique: bool, period_us: u64, absolute: bool },
    Suspend { cond: String },
    Resume { cond: String },
    MemRun { kind: MemRunKind, size: u64, count: u64 },
    Mem { bytes: u64 },
    IoRun { bytes: u64 },
    Yield,
    Barrier { barrier: String },
    Fork { task: String },
    SemPost { sem: String },
    SemWait { sem: String },
}

/// An event of a phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventNode {
    /// Its key as written.
    pub key: String,
    /// Where.
    pub at: Pos,
    /// What it does.
    pub kind: EventKind,
}

/// A phase of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    /// Its name; empty if the task has no `phases`.
    pub name: String,
    /// Where.
    pub at: Pos,
    /// How often it is repeated.
    pub repeat: Loop,
    /// What it changes. Empty if the task has no `phases`.
    pub attributes: Attributes,
    /// Its events in file order.
    pub events: Vec<EventNode>,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// Where.
    pub at: Pos,
    /// How many threads of it start with the run.
    pub instances: u32,
    /// How often all its phases are repeated.
    pub repeat: Loop,
    /// Its class of programs (`program_class`, which rt-app itself does not know); empty: none.
    pub class: String,
    /// Start delay in us.
    pub delay_us: u64,
    /// Its attributes.
    pub attributes: Attributes,
    /// Its phases in file order.
    pub phases: Vec<Phase>,
}

/// An rt-app file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RtApp {
    /// Global settings.
    pub global: Global,
    /// Tasks in file order.
    pub tasks: Vec<Task>,
    /// Settings of task groups, which rt-app itself does not read (`groups`).
    pub groups: Vec<GroupEntry>,
    /// What was read over.
    pub notes: Vec<Note>,
}

/// Most threads that a file may start.
const NR_THREADS_MAX: u64 = 100_000;
/// Longest time in us (a year), so that sums of times stay far from overflow.
const TIME_US_MAX: i128 = 366 * 86_400 * 1_000_000;

/// Event names in the order in which rt-app looks for them as a prefix of a key (src/rt-app_parse_config.c:events[],
/// and parse_task_event_data() for which of two prefixes wins).
const EVENTS: &[&str] = &[
    "runtime", "run", "sleep", "memrun", "mem", "iorun", "lock", "unlock", "signal", "broad", "wait", "sync",
    "barrier", "timer", "resume", "suspend", "yield", "fork", "sem_post", "sem_wait",
];

const TASK_KEYS: &[&str] = &[
    "instance",
    "delay",
    "loop",
    "phases",
    "cpus",
    "nodes_membind",
    "policy",
    "priority",
    "dl-runtime",
    "dl-period",
    "dl-deadline",
    "dl-reclaim",
    "runtime",
    "period",
    "deadline",
    "util_min",
    "util_max",
    "taskgroup",
    "program_class",
];
const PHASE_KEYS: &[&str] = &[
    "loop",
    "cpus",
    "nodes_membind",
    "policy",
    "priority",
    "dl-runtime",
    "dl-period",
    "dl-deadline",
    "dl-reclaim",
    "util_min",
    "util_max",
    "taskgroup",
];
const GLOBAL_KEYS: &[&str] = &[
    "duration",
    "gnuplot",
    "default_policy",
    "calibration",
    "log_size",
    "logdir",
    "log_basename",
    "ftrace",
    "lock_pages",
    "pi_enabled",
    "io_device",
    "mem_buffer_size",
    "cumulative_slack",
];

fn event_prefix(key: &str) -> Option<&'static str> {
    EVENTS.iter().copied().find(|prefix| key.starts_with(prefix))
}

/// A table as rt-app sees it: repeats resolved.
struct Entries<'a> {
    at: Pos,
    /// Name that rt-app sees, the key as written, the value.
    list: Vec<(String, &'a Key, &'a Node)>,
}

impl<'a> Entries<'a> {
    fn get(&self, name: &str) -> Option<&'a Node> {
        self.list.iter().find(|(seen, _, _)| seen == name).map(|&(_, _, node)| node)
    }
}

struct Reader {
    options: ParseOptions,
    notes: Vec<Note>,
}

/// Builds the syntax tree.
pub(super) fn rtapp_from(root: &Node, options: ParseOptions) -> Result<RtApp, Fault> {
    let mut reader = Reader { options, notes: Vec::new() };
    let entries = reader.entries(root, "the file")?;
    reader.note_unknown(&entries, &["tasks", "global", "resources", "groups"], "the file");
    let global = match entries.get("global") {
        Some(node) => reader.global(node)?,
        None => Global::default(),
    };
    if let Some(node) = entries.get("resources") {
        reader.resources(node)?;
    }
    let tasks_node = entries.get("tasks").ok_or_else(|| {
        Fault::new(entries.at, "there is no `tasks` table, so there is nothing to run (a part for merge.py?)")
    })?;
    let task_entries = reader.entries(tasks_node, "tasks")?;
    let tasks = task_entries
        .list
        .iter()
        .map(|(name, key, node)| reader.task(name, key, node))
        .collect::<Result<Vec<_>, _>>()?;
    if tasks.is_empty() {
        return Err(Fault::new(tasks_node.at, "`tasks` is empty, so there is nothing to run"));
    }
    let nr_threads: u64 = tasks.iter().map(|task| u64::from(task.instances)).sum();
    if nr_threads == 0 {
        return Err(Fault::new(tasks_node.at, "each task has an `instance` of 0, so there is nothing to run"));
    }
    if nr_threads > NR_THREADS_MAX {
        let message = format!("{nr_threads} threads; at most {NR_THREADS_MAX} can be simulated");
        return Err(Fault::new(tasks_node.at, message));
    }
    let groups = match entries.get("groups") {
        None => Vec::new(),
        Some(node) => {
            let Value::Table(list) = &node.value else {
                return Err(Fault::new(node.at, format!("`groups` must be a table, not {}", node.value.kind())));
            };
            let settings = &GROUP_KEYS[1..];
            list.iter()
                .map(|(key, node)| GroupEntry::from_table(&settings_of(node, "a group", settings)?, &key.name))
                .collect::<Result<Vec<_>, Fault>>()?
        }
    };
    let names: BTreeSet<&str> = tasks.iter().map(|task| task.name.as_str()).collect();
    for event in tasks.iter().flat_map(|task| &task.phases).flat_map(|phase| &phase.events) {
        if let EventKind::Fork { task: name } = &event.kind
            && !names.contains(name.as_str())
        {
            return Err(Fault::unknown(event.at, "task to fork", name, tasks.iter().map(|task| task.name.as_str())));
        }
    }
    Ok(RtApp { global, tasks, groups, notes: reader.notes })
}

impl Reader {
    fn note(&mut self, at: Pos, message: String) {
        self.notes.push(Note { at, message });
    }

    fn entries<'a>(&mut self, node: &'a Node, what: &str) -> Result<Entries<'a>, Fault> {
        let Value::Table(raw) = &node.value else {
            return Err(Fault::new(node.at, format!("`{what}` must be a table, not {}", node.value.kind())));
        };
        let mut list: Vec<(String, &Key, &Node)> = Vec::with_capacity(raw.len());
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        // doc/workgen:check_unikid_json() keeps one counter for all keys of a table.
        let mut suffix = 1u32;
        for (key, node) in raw {
            let missing = node.value == Value::Missing;
            if missing && (self.options.repeats == Repeats::JsonC || !is_valueless(&key.name)) {
                let message = format!("key `{}` has no value", shorten(&key.name));
                return Err(Fault::new(key.at, message));
            }
            let Some(&earlier) = places.get(&key.name) else {
                places.insert(key.name.clone(), list.len());
                list.push((key.name.clone(), key, node));
                continue;
            };
            match self.options.repeats {
                Repeats::JsonC => {
                    let message = format!(
                        "`{}` is repeated: rt-app takes this value and drops that of {}",
                        shorten(&key.name),
                        list[earlier].1.at
                    );
                    self.note(key.at, message);
                    list[earlier].1 = key;
                    list[earlier].2 = node;
                }
                Repeats::Workgen => {
                    let mut name = format!("{}{suffix}", key.name);
                    while places.contains_key(&name) {
                        suffix += 1;
                        name = format!("{}{suffix}", key.name);
                    }
                    places.insert(name.clone(), list.len());
                    list.push((name, key, node));
                }
            }
        }
        Ok(Entries { at: node.at, list })
    }

    /// Notes keys that rt-app does not read. Events are none of this function's business.
    fn note_unknown(&mut self, entries: &Entries<'_>, known: &[&str], what: &str) {
        for (seen, key, _) in &entries.list {
            if known.contains(&seen.as_str()) {
                continue;
            }
            let message = if known.contains(&key.name.as_str()) {
                format!("`{}` is repeated: the first one counts, this one is not read", key.name)
            } else {
                let hint = nearest(seen, known.iter().copied())
                    .map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
                format!("rt-app reads no `{}` in {what}: it has no effect{hint}", shorten(seen))
            };
            self.note(key.at, message);
        }
    }

    fn global(&mut self, node: &Node) -> Result<Global, Fault> {
        let entries = self.entries(node, "global")?;
        self.note_unknown(&entries, GLOBAL_KEYS, "`global`");
        let mut global = Global::default();
        let bool_of = |key: &str, default: bool| entries.get(key).map_or(Ok(default), |node| node.as_bool(key));
        let string_of = |key: &str, default: String| {
            entries.get(key).map_or(Ok(default), |node| node.as_str(key).map(str::to_owned))
        };
        if let Some(node) = entries.get("duration") {
            let seconds: i64 = node.as_int("duration", -1, TIME_US_MAX / 1_000_000)?;
            global.duration_s = u64::try_from(seconds).ok();
        }
        if let Some(node) = entries.get("default_policy") {
            global.default_policy = policy_from(node, "default_policy")?;
        }
        if let Some(node) = entries.get("calibration") {
            global.calibration = Spanned { value: calibration_from(node)?, at: node.at };
        }
        if bool_of("pi_enabled", false)? {
            global.pi_enabled = entries.get("pi_enabled").map(|node| node.at);
        }
        global.logdir = string_of("logdir", global.logdir)?;
        global.log_basename = string_of("log_basename", global.log_basename)?;
        if let Some(node) = entries.get("io_device") {
            global.io_device = Spanned { value: node.as_str("io_device")?.to_owned(), at: node.at };
        }
        if let Some(node) = entries.get("mem_buffer_size") {
            global.mem_buffer_size = node.as_int("mem_buffer_size", 1, i128::from(i32::MAX))?;
        }
        global.cumulative_slack = bool_of("cumulative_slack", false)?;
        bool_of("gnuplot", false)?;
        bool_of("lock_pages", true)?;
        if let Some(node) = entries.get("log_size") {
            match &node.value {
                Value::Int(_) => {}
                Value::Str(mode) if ["disable", "file", "auto"].contains(&mode.as_str()) => {}
                Value::Str(mode) => {
                    return Err(Fault::unknown(node.at, "log_size", mode, ["disable", "file", "auto"]));
                }
                other => {
                    let message = format!("`log_size` must be a size in MB or a string, not {}", other.kind());
                    return Err(Fault::new(node.at, message));
                }
            }
        }
        if let Some(node) = entries.get("ftrace")
            && !matches!(node.value, Value::Bool(_))
        {
            for category in node.as_str("ftrace")?.split(',').filter(|category| !category.is_empty()) {
                let known = ["main", "task", "loop", "event", "stats", "none", "run", "attrs"];
                if !known.contains(&category.to_ascii_lowercase().as_str()) {
                    return Err(Fault::unknown(node.at, "ftrace category", category, known));
                }
            }
        }
        Ok(global)
    }

    /// The `resources` table only declares names; all of them are also made on first use.
    fn resources(&mut self, node: &Node) -> Result<(), Fault> {
        const TYPES: [&str; 8] = ["mutex", "signal", "wait", "broadcast", "sync", "sleep", "run", "timer"];
        let entries = self.entries(node, "resources")?;
        for (name, _, node) in &entries.list {
            let resource = self.entries(node, name)?;
            if let Some(node) = resource.get("type") {
                let text = node.as_str("type")?;
                if !TYPES.contains(&text) {
                    return Err(Fault::unknown(node.at, "type of resource", text, TYPES));
                }
            }
        }
        Ok(())
    }

    fn task(&mut self, name: &str, key: &Key, node: &Node) -> Result<Task, Fault> {
        let entries = self.entries(node, name)?;
        let attributes = self.attributes(&entries, true)?;
        let repeat = entries.get("loop").map(loop_from).transpose()?;
        let (phases, repeat) = match entries.get("phases") {
            Some(phases_node) => {
                let phase_entries = self.entries(phases_node, "phases")?;
                let phases = phase_entries
                    .list
                    .iter()
                    .map(|(name, key, node)| self.phase(name, key.at, node))
                    .collect::<Result<Vec<_>, _>>()?;
                if phases.is_empty() {
                    return Err(Fault::new(phases_node.at, format!("task `{}` has no phases", shorten(name))));
                }
                self.note_unknown(&entries, TASK_KEYS, "a task with `phases`");
                // Unlike a phase, a task that loops 0 times does nothing at all.
                let zero = entries.get("loop").is_some_and(|node| node.value == Value::Int(0));
                (phases, if zero { Loop::Times(0) } else { repeat.unwrap_or(Loop::Forever) })
            }
            None => {
                // The task is its own phase: `loop` is the phase's, and without one the task runs for ever.
                let events = self.events(&entries, name, name, TASK_KEYS)?;
                let phase = Phase {
                    name: String::new(),
                    at: key.at,
                    repeat: repeat.unwrap_or(Loop::Times(1)),
                    attributes: Attributes::default(),
                    events,
                };
                (vec![phase], if repeat.is_some() { Loop::Times(1) } else { Loop::Forever })
            }
        };
        // Events of phases were distinguished from the task's name only here, because `suspend` may mean it.
        let phases = phases
            .into_iter()
            .map(|mut phase| {
                for event in &mut phase.events {
                    if let EventKind::Suspend { cond } = &mut event.kind
                        && (cond.is_empty() || self.options.suspend == SuspendOn::OwnName)
                    {
                        if !cond.is_empty() && cond != name {
                            let message = format!("`suspend` waits for `{name}`, not for `{}`", shorten(cond));
                            self.notes.push(Note { at: event.at, message });
                        }
                        name.clone_into(cond);
                    }
                }
                phase
            })
            .collect();
        Ok(Task {
            name: name.to_owned(),
            at: key.at,
            instances: entries
                .get("instance")
                .map_or(Ok(1), |node| node.as_int("instance", 0, NR_THREADS_MAX as i128))?,
            repeat,
            class: entries
                .get("program_class")
                .map_or(Ok(String::new()), |node| node.as_str("program_class").map(str::to_owned))?,
            delay_us: entries.get("delay").map_or(Ok(0), |node| node.as_int("delay", 0, TIME_US_MAX))?,
            attributes,
            phases,
        })
    }

    fn phase(&mut self, name: &str, at: Pos, node: &Node) -> Result<Phase, Fault> {
        let entries = self.entries(node, name)?;
        Ok(Phase {
            name: name.to_owned(),
            at,
            repeat: entries.get("loop").map_or(Ok(Loop::Times(1)), loop_from)?,
            attributes: self.attributes(&entries, false)?,
            events: self.events(&entries, "", name, PHASE_KEYS)?,
        })
    }

    fn events(
        &mut self,
        entries: &Entries<'_>,
        task: &str,
        what: &str,
        known: &[&str],
    ) -> Result<Vec<EventNode>, Fault> {
        let mut events = Vec::new();
        let mut others = Entries { at: entries.at, list: Vec::new() };
        for (seen, key, node) in &entries.list {
            match event_prefix(seen) {
                Some(prefix) => {
                    let kind = self.event(prefix, key, node)?;
                    events.push(EventNode { key: seen.clone(), at: key.at, kind });
                    if seen == "runtime" && !task.is_empty() {
                        let message = "`runtime` of a task is also rt-app's old name for `dl-runtime`; only the event is simulated";
                        self.note(key.at, message.to_owned());
                    }
                }
                None => others.list.push((seen.clone(), key, node)),
            }
        }
        self.note_unknown(&others, known, if task.is_empty() { "a phase" } else { "a task" });
        if events.is_empty() {
            let old = others.list.iter().find(|(seen, _, _)| seen == "exec");
            let hint = if old.is_some() { " (`exec` is of a grammar that rt-app dropped)" } else { "" };
            let at = old.map_or(entries.at, |(_, key, _)| key.at);
            return Err(Fault::new(at, format!("`{}` has no events{hint}", shorten(what))));
        }
        Ok(events)
    }

    fn event(&mut self, prefix: &'static str, key: &Key, node: &Node) -> Result<EventKind, Fault> {
        let time = || node.as_int(&key.name, 0, TIME_US_MAX);
        let count = || node.as_int(&key.name, 0, i128::from(i32::MAX));
        let name = || -> Result<String, Fault> {
            match &node.value {
                Value::Str(text) => Ok(text.clone()),
                other => {
                    let old = if key.name == "lock_order" {
                        " (`lock_order` is of a grammar that rt-app dropped)"
                    } else {
                        ""
                    };
                    let message =
                        format!("event `{}` (`{prefix}`) needs a name in quotes, not {}{old}", key.name, other.kind());
                    Err(Fault::new(node.at, message))
                }
            }
        };
        Ok(match prefix {
            "run" => EventKind::Run { us: time()? },
            "runtime" => EventKind::Runtime { us: time()? },
            "sleep" => EventKind::Sleep { us: time()? },
            "mem" => EventKind::Mem { bytes: count()? },
            "iorun" => EventKind::IoRun { bytes: count()? },
            "lock" => EventKind::Lock { mutex: name()? },
            "unlock" => EventKind::Unlock { mutex: name()? },
            "signal" => EventKind::Signal { cond: name()? },
            "broad" => EventKind::Broadcast { cond: name()? },
            "barrier" => EventKind::Barrier { barrier: name()? },
            "resume" => EventKind::Resume { cond: name()? },
            "fork" => EventKind::Fork { task: name()? },
            "sem_post" => EventKind::SemPost { sem: name()? },
            "sem_wait" => EventKind::SemWait { sem: name()? },
            "yield" => EventKind::Yield,
            "suspend" => EventKind::Suspend {
                cond: match &node.value {
                    Value::Str(text) => text.clone(),
                    _ => String::new(),
                },
            },
            "wait" | "sync" => {
                let entries = self.entries(node, &key.name)?;
                self.note_unknown(&entries, &["ref", "mutex"], prefix);
                // "unknown" is rt-app's own default.
                let part = |what: &str| {
                    entries.get(what).map_or(Ok(String::from("unknown")), |node| node.as_str(what).map(str::to_owned))
                };
                let (cond, mutex) = (part("ref")?, part("mutex")?);
                if prefix == "wait" { EventKind::Wait { cond, mutex } } else { EventKind::Sync { cond, mutex } }
            }
            "timer" => {
                let entries = self.entries(node, &key.name)?;
                self.note_unknown(&entries, &["ref", "period", "mode"], "a timer");
                let timer = entries.get("ref").map_or(Ok("unknown"), |node| node.as_str("ref"))?.to_owned();
                let period_us = entries.get("period").map_or(Ok(0), |node| node.as_int("period", 0, TIME_US_MAX))?;
                let mode = entries.get("mode").map_or(Ok("relative"), |node| node.as_str("mode"))?;
                let absolute = mode.starts_with("absolute");
                if !absolute && mode != "relative" {
                    let at = entries.get("mode").map_or(entries.at, |node| node.at);
                    return Err(Fault::unknown(at, "mode of a timer", mode, ["relative", "absolute"]));
                }
                EventKind::Timer { unique: timer.starts_with("unique"), timer, period_us, absolute }
            }
            "memrun" => self.memrun(key, node)?,
            _ => unreachable!("EVENTS holds no other name"),
        })
    }

    fn memrun(&mut self, key: &Key, node: &Node) -> Result<EventKind, Fault> {
        let entries = self.entries(node, &key.name)?;
        self.note_unknown(&entries, &["type", "size", "count", "pattern", "stride", "ref"], "a memrun");
        let need = |what: &str| {
            entries.get(what).ok_or_else(|| Fault::new(entries.at, format!("`{what}` of `{}` is missing", key.name)))
        };
        let size: u64 = need("size")?.as_int("size", 1, i128::from(i32::MAX))?;
        let count = need("count")?.as_int("count", 0, i128::from(i32::MAX))?;
        let type_node = need("type")?;
        let kind = match type_node.as_str("type")? {
            "read" => MemRunKind::Read,
            "write" => MemRunKind::Write,
            "chase" => {
                let stride =
                    entries.get("stride").map_or(Ok(64), |node| node.as_int("stride", 8, i128::from(i32::MAX)))?;
                let pattern = entries.get("pattern").map_or(Ok("random"), |node| node.as_str("pattern"))?;
                if size < 2 * stride {
                    return Err(Fault::new(entries.at, "`memrun` needs a `size` of at least twice its `stride`"));
                }
                MemRunKind::Chase { stride, random: pattern != "sequential" }
            }
            other => {
                return Err(Fault::unknown(type_node.at, "type of memrun", other, ["read", "write", "chase"]));
            }
        };
        Ok(EventKind::MemRun { kind, size, count })
    }

    fn attributes(&mut self, entries: &Entries<'_>, of_task: bool) -> Result<Attributes, Fault> {
        let time = |keys: &[&str]| -> Result<Option<Spanned<u64>>, Fault> {
            for key in keys {
                if let Some(node) = entries.get(key) {
                    return Ok(Some(Spanned { value: node.as_int(key, 0, TIME_US_MAX)?, at: node.at }));
                }
            }
            Ok(None)
        };
        let clamp = |key: &str| -> Result<Option<Spanned<u16>>, Fault> {
            let Some(node) = entries.get(key) else { return Ok(None) };
            let value: i32 = node.as_int(key, -1, 1024)?;
            Ok(u16::try_from(value).ok().map(|value| Spanned { value, at: node.at }))
        };
        // The old names of the parameters of deadline tasks are read at task level only. Without phases `runtime` is an
        // event as well, see `events`.
        let old = of_task && entries.get("phases").is_some();
        Ok(Attributes {
            cpus: entries
                .get("cpus")
                .map(|node| {
                    node.as_list("cpus")?;
                    Ok::<_, Fault>(Spanned { value: cpus_from(node, "cpus")?, at: node.at })
                })
                .transpose()?,
            nodes_membind: entries
                .get("nodes_membind")
                .map(|node| {
                    let nodes = node.as_list("nodes_membind")?;
                    let value =
                        nodes.iter().map(|node| node.as_int("nodes_membind", 0, 1023)).collect::<Result<_, _>>()?;
                    Ok::<_, Fault>(Spanned { value, at: node.at })
                })
                .transpose()?,
            policy: entries
                .get("policy")
                .map(|node| Ok::<_, Fault>(Spanned { value: policy_from(node, "policy")?, at: node.at }))
                .transpose()?,
            priority: entries
                .get("priority")
                .map(|node| Ok::<_, Fault>(Spanned { value: node.as_int("priority", -20, 99)?, at: node.at }))
                .transpose()?,
            dl_runtime_us: time(if old { &["dl-runtime", "runtime"] } else { &["dl-runtime"] })?,
            dl_period_us: time(if of_task { &["dl-period", "period"] } else { &["dl-period"] })?,
            dl_deadline_us: time(if of_task { &["dl-deadline", "deadline"] } else { &["dl-deadline"] })?,
            dl_reclaim: entries.get("dl-reclaim").map_or(Ok(false), |node| node.as_bool("dl-reclaim"))?,
            util_min: clamp("util_min")?,
            util_max: clamp("util_max")?,
            taskgroup: entries
                .get("taskgroup")
                .map(|node| {
                    let group = node.as_str("taskgroup")?;
                    if !group.is_empty() && !group.starts_with('/') {
                        return Err(Fault::new(node.at, "`taskgroup` must start with `/`"));
                    }
                    Ok((!group.is_empty()).then(|| Spanned { value: group.to_owned(), at: node.at }))
                })
                .transpose()?
                .flatten(),
        })
    }
}

/// Whether workgen gives the key a value (`suspend`), or rt-app does not look at it (`yield`).
fn is_valueless(key: &str) -> bool {
    key.starts_with("suspend") || key.starts_with("yield")
}

fn loop_from(node: &Node) -> Result<Loop, Fault> {
    let times: i64 = node.as_int("loop", i128::from(i32::MIN), i128::from(i32::MAX))?;
    Ok(match u32::try_from(times) {
        Ok(times) if times > 0 => Loop::Times(times),
        // rt-app counts up until it meets the number, which it never does from 0 or below.
        _ => Loop::Forever,
    })
}

fn policy_from(node: &Node, what: &str) -> Result<PolicyName, Fault> {
    let text = node.as_str(what)?;
    POLICIES
        .iter()
        .find(|(name, _)| *name == text)
        .map(|&(_, policy)| policy)
        .ok_or_else(|| Fault::unknown(node.at, "scheduling policy", text, POLICIES.iter().map(|&(name, _)| name)))
}

/// What follows the CPU where any biggest one is meant. rt-app reads up to the number
/// (src/rt-app_parse_config.c:parse_global(), `sscanf()` of `CPU%d`).
pub const BIGGEST: &str = " (biggest)";

fn calibration_from(node: &Node) -> Result<Calibration, Fault> {
    match &node.value {
        Value::Int(_) => Ok(Calibration::NsPerLoop(node.as_int("calibration", 0, i128::from(i32::MAX))?)),
        Value::Str(text) => {
            let (name, is_biggest) = text.strip_suffix(BIGGEST).map_or((text.as_str(), false), |name| (name, true));
            let cpu = name.strip_prefix("CPU").and_then(|digits| digits.parse().ok());
            let found = cpu.map(|cpu| if is_biggest { Calibration::Biggest } else { Calibration::Cpu(cpu) });
            found.ok_or_else(|| {
                Fault::new(node.at, format!("`calibration` must be like `CPU0`, not `{}`", shorten(text)))
            })
        }
        other => {
            let message = format!("`calibration` must be like \"CPU0\" or ns a loop, not {}", other.kind());
            Err(Fault::new(node.at, message))
        }
    }
}

impl RtApp {
    /// Number of events.
    pub fn nr_events(&self) -> usize {
        self.tasks.iter().flat_map(|task| &task.phases).map(|phase| phase.events.len()).sum()
    }

    /// The tree for people: one event a line, in file order, with its place; notes at the end.
    pub fn describe(&self) -> String {
        let mut out = String::new();
        let global = &self.global;
        let duration = global.duration_s.map_or_else(|| "until all tasks end".to_owned(), |s| format!("{s} s"));
        let calibration = match global.calibration.value {
            Calibration::Cpu(cpu) => format!("on CPU {cpu}"),
            Calibration::Biggest => "on a biggest CPU".to_owned(),
            Calibration::NsPerLoop(ns) => format!("{ns} ns a loop"),
        };
        let policy = global.default_policy.name();
        line(&mut out, format_args!("duration {duration}, default policy {policy}, calibrated {calibration}"));
        for task in &self.tasks {
            let nr = task.instances;
            line(
                &mut out,
                format_args!(
                    "task {} x{nr}, loop {}{}{}",
                    task.name,
                    loop_text(task.repeat),
                    if task.delay_us > 0 { format!(", delay {} us", task.delay_us) } else { String::new() },
                    attributes_text(&task.attributes),
                ),
            );
            for phase in &task.phases {
                let name = if phase.name.is_empty() { "(the task itself)" } else { &phase.name };
                let attributes = attributes_text(&phase.attributes);
                line(&mut out, format_args!("  phase {name}, loop {}{attributes}", loop_text(phase.repeat)));
                for event in &phase.events {
                    line(&mut out, format_args!("    {:<8} {}", event.at.to_string(), event.kind.describe()));
                }
            }
        }
        for note in &self.notes {
            line(&mut out, format_args!("note {}: {}", note.at, note.message));
        }
        out
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("writing to a string cannot fail");
}

fn loop_text(repeat: Loop) -> String {
    match repeat {
        Loop::Times(times) => times.to_string(),
        Loop::Forever => "for ever".to_owned(),
    }
}

fn attributes_text(attributes: &Attributes) -> String {
    let mut out = String::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            write!(out, ", {name} {value}").expect("writing to a string cannot fail");
        }
    };
    add("cpus", attributes.cpus.as_ref().map(|cpus| crate::cpus::format_cpu_list(&cpus.value)));
    add("nodes_membind", attributes.nodes_membind.as_ref().map(|nodes| crate::cpus::format_cpu_list(&nodes.value)));
    add("policy", attributes.policy.as_ref().map(|policy| policy.value.name().to_owned()));
    add("priority", attributes.priority.as_ref().map(|priority| priority.value.to_string()));
    add("dl-runtime", attributes.dl_runtime_us.as_ref().map(|us| format!("{} us", us.value)));
    add("dl-period", attributes.dl_period_us.as_ref().map(|us| format!("{} us", us.value)));
    add("dl-deadline", attributes.dl_deadline_us.as_ref().map(|us| format!("{} us", us.value)));
    add("dl-reclaim", attributes.dl_reclaim.then(|| String::from("true")));
    add("util_min", attributes.util_min.as_ref().map(|clamp| clamp.value.to_string()));
    add("util_max", attributes.util_max.as_ref().map(|clamp| clamp.value.to_string()));
    add("taskgroup", attributes.taskgroup.as_ref().map(|group| group.value.clone()));
    out
}

impl EventKind {
    /// The event for people.
    pub fn describe(&self) -> String {
        match self {
            Self::Lock { mutex } => format!("lock {mutex}"),
            Self::Unlock { mutex } => format!("unlock {mutex}"),
            Self::Wait { cond, mutex } => format!("wait {cond}, mutex {mutex}"),
            Self::Signal { cond } => format!("signal {cond}"),
            Self::Broadcast { cond } => format!("broadcast {cond}"),
            Self::Sync { cond, mutex } => format!("sync {cond}, mutex {mutex}"),
            Self::Sleep { us } => format!("sleep {us} us"),
            Self::Run { us } => format!("run {us} us of work"),
            Self::Runtime { us } => format!("runtime {us} us of time"),
            Self::Timer { timer, unique, period_us, absolute } => format!(
                "timer {timer}, period {period_us} us{}{}",
                if *absolute { ", absolute" } else { "" },
                if *unique { ", own to each thread" } else { "" },
            ),
            Self::Suspend { cond } => format!("suspend {cond}"),
            Self::Resume { cond } => format!("resume {cond}"),
            Self::MemRun { kind: MemRunKind::Read, size, count } => format!("memrun read {count} bytes of {size}"),
            Self::MemRun { kind: MemRunKind::Write, size, count } => format!("memrun write {count} bytes of {size}"),
            Self::MemRun { kind: MemRunKind::Chase { stride, random }, size, count } => {
                let pattern = if *random { "random" } else { "sequential" };
                format!("memrun chase {count} pointers in {size} bytes, stride {stride}, {pattern}")
            }
            Self::Mem { bytes } => format!("mem {bytes} bytes"),
            Self::IoRun { bytes } => format!("iorun {bytes} bytes"),
            Self::Yield => "yield".to_owned(),
            Self::Barrier { barrier } => format!("barrier {barrier}"),
            Self::Fork { task } => format!("fork {task}"),
            Self::SemPost { sem } => format!("sem_post {sem}"),
            Self::SemWait { sem } => format!("sem_wait {sem}"),
        }
    }
}
