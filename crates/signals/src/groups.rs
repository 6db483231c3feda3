//! Control groups of a trace: which there are, who is in them, and what stops them.
//!
//! ```text
//!  cgroup_mkdir, cgroup_rename                 a group comes, changes its name
//!  cgroup_attach_task, cgroup_transfer_tasks   a task, with the threads of its process, moves into a group
//!  sched_process_fork, task_newtask            a child begins in its parent's group
//!  a snapshot beside the trace                 settings, and who was in which group when it began ([`Groups::snapshot`])
//! ```
//! Two passes: [`GroupFinder`] collects what only the whole trace shows (which children are threads, which runnable tasks a quota
//! stopped), [`Groups`] follows membership in the order of events.
//!
//! # Where a quota stops a task
//! A CPU does not idle while its queue has a task that may run. So each fair task that is runnable on a CPU as that goes idle
//! was stopped by the quota of a group that it is in: since it was switched out, or since its wake-up. Where the CPU has other
//! work instead, the count of runnable tasks shows it (`sched_update_nr_running_tp`), if the trace has that: it falls as a task
//! that stays runnable is switched out.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::decode::{SchedEvent, SchedSink, has_ended, sleeps};
use opplab_trace::{BySchema, Event, RecordingFiles, Schema};

/// The group that all tasks are in that no other one is known of.
pub const ROOT: usize = 0;

/// More groups than this are not followed one by one: each has a queue on each CPU. Tasks of further ones count in the group above.
const GROUPS_MAX: usize = 2048;

/// The quota of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// `cpu.max`, first number, ns.
    pub quota_ns: u64,
    /// Second number, ns.
    pub period_ns: u64,
    /// `cpu.max.burst`, ns.
    pub burst_ns: u64,
}

/// What a snapshot shows of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `cpu.weight`, 1 to 10000.
    pub weight: Option<u32>,
    /// `cpu.shares` (v1), 2 to 262144.
    pub shares: Option<u32>,
    /// `cpu.idle`.
    pub idle: bool,
    /// `cpu.max`; `None`: none, or not known.
    pub quota: Option<Quota>,
    /// `cpuset.cpus.effective`, in ascending order; `None`: not known.
    pub cpus: Option<Vec<u32>>,
    /// The same at the end, if it is another.
    pub cpus_after: Option<Vec<u32>>,
    /// `cpu.uclamp.min` and `.max` as they are written: percent, or `max`.
    pub uclamp: [Option<String>; 2],
    /// The cpu controller is on there, so that the kernel has a task group of it.
    pub has_cpu: bool,
}

impl Settings {
    /// `tg->shares`, without its scale (kernel/sched/core.c:`sched_weight_from_cgroup()`, `sched_group_set_idle()`, v6.12).
    pub fn shares(&self) -> u64 {
        match (self.idle, self.shares, self.weight) {
            (true, ..) => 3,
            (_, Some(shares), _) => u64::from(shares),
            (_, None, Some(weight)) => ((u64::from(weight) * 1024 + 50) / 100).clamp(2, 1 << 18),
            _ => 1024,
        }
    }
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its path from the root of its hierarchy: `/system.slice/web`.
    pub path: String,
    /// The group that it is in.
    pub parent: usize,
    /// What is known of it.
    pub settings: Settings,
}

/// The groups of a trace, and who is in them at the time of the last event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    list: Vec<Group>,
    by_path: HashMap<String, usize>,
    /// By the number that events have for it.
    by_id: HashMap<u64, usize>,
    /// Group of a thread.
    of: HashMap<i32, usize>,
    /// Process of a thread, where it is not the thread itself.
    leader: HashMap<i32, i32>,
    threads: HashMap<i32, BTreeSet<i32>>,
    /// The number of the hierarchy that has the cpu controller, if it is known.
    hierarchy: Option<i64>,
    /// A snapshot shows in which groups the cpu controller is.
    told: bool,
    /// A snapshot shows the groups' settings.
    has_settings: bool,
    /// Names of tasks that are older than the trace, and in no snapshot.
    unknown: Vec<String>,
    /// Settings that snapshots show and nothing here follows, with their groups.
    not_followed: BTreeSet<String>,
    /// So many moves were of other hierarchies.
    pub moves_elsewhere: u64,
    /// So many were followed.
    pub moves: u64,
}

impl Default for Groups {
    fn default() -> Self {
        let root = Group { path: "/".into(), parent: ROOT, settings: Settings::default() };
        Self {
            list: vec![root],
            by_path: HashMap::from([("/".to_owned(), ROOT)]),
            by_id: HashMap::new(),
            of: HashMap::new(),
            leader: HashMap::new(),
            threads: HashMap::new(),
            hierarchy: None,
            told: false,
            has_settings: false,
            unknown: Vec::new(),
            not_followed: BTreeSet::new(),
            moves_elsewhere: 0,
            moves: 0,
        }
    }
}

impl Groups {
    /// All groups that were seen, the root first, each after the one that it is in.
    pub fn list(&self) -> &[Group] {
        &self.list
    }

    /// Whether any group below the root is known.
    pub fn any(&self) -> bool {
        self.list.len() > 1
    }

    /// Whether a snapshot shows weights and quotas.
    pub fn has_settings(&self) -> bool {
        self.has_settings
    }

    /// The group whose queue a thread is in.
    pub fn of(&self, tid: i32) -> usize {
        self.of.get(&tid).copied().unwrap_or(ROOT)
    }

    /// The nearest group with a quota, from `group` up.
    pub fn with_quota(&self, mut group: usize) -> Option<usize> {
        while group != ROOT {
            if self.list[group].settings.quota.is_some() {
                return Some(group);
            }
            group = self.list[group].parent;
        }
        None
    }

    /// The group of a path, made with those above it if it was never seen. The root if the path is none.
    fn group(&mut self, path: &str) -> usize {
        if let Some(&known) = self.by_path.get(path) {
            return known;
        }
        let plain = path.trim_end_matches('/');
        let is_path = plain.starts_with('/') && plain.len() <= 4096 && plain.matches('/').count() <= 256;
        if !is_path || plain.split('/').skip(1).any(|part| part.is_empty() || part == "." || part == "..") {
            return ROOT;
        }
        let above = plain.rsplit_once('/').map_or("/", |(above, _)| if above.is_empty() { "/" } else { above });
        let parent = self.group(above);
        if self.list.len() >= GROUPS_MAX {
            return parent;
        }
        let place = self.list.len();
        // One that no snapshot shows gets the controllers that its siblings have.
        let has_cpu = self.list.iter().any(|one| one.parent == parent && one.settings.has_cpu);
        let settings = Settings { has_cpu, ..Settings::default() };
        self.list.push(Group { path: plain.to_owned(), parent, settings });
        self.by_path.insert(plain.to_owned(), place);
        place
    }

    /// The group in whose queues the tasks of `group` are: without the cpu controller, those of the one above.
    fn effective(&self, mut group: usize) -> usize {
        while self.told && group != ROOT && !self.list[group].settings.has_cpu {
            group = self.list[group].parent;
        }
        group
    }

    fn set_leader(&mut self, tid: i32, leader: i32) {
        if tid != leader {
            self.leader.insert(tid, leader);
            self.threads.entry(leader).or_default().insert(tid);
        }
    }

    /// A child of `parent` begins, as a thread of the same process or as a process.
    pub fn fork(&mut self, parent: i32, child: i32, is_thread: bool) {
        if let Some(leader) = self.leader.remove(&child) {
            // The number belonged to another thread before.
            self.threads.entry(leader).or_default().remove(&child);
        }
        self.threads.remove(&child);
        match self.of.get(&parent).copied() {
            Some(group) => self.of.insert(child, group),
            None => self.of.remove(&child),
        };
        if is_thread {
            let leader = self.leader.get(&parent).copied().unwrap_or(parent);
            self.set_leader(child, leader);
        }
    }

    /// A group is made, or gets another name.
    pub fn name(&mut self, hierarchy: i64, id: u64, path: &str) {
        if !self.is_ours(hierarchy) {
            return;
        }
        match self.by_id.get(&id).copied().filter(|&place| place != ROOT && self.list[place].path != path) {
            Some(place) => {
                self.by_path.remove(&self.list[place].path);
                path.clone_into(&mut self.list[place].path);
                self.by_path.insert(path.to_owned(), place);
            }
            None => {
                let place = self.group(path);
                self.by_id.insert(id, place);
            }
        }
    }

    fn is_ours(&self, hierarchy: i64) -> bool {
        self.hierarchy.is_none_or(|ours| ours == hierarchy)
    }

    /// The task `pid` moves to the group at `path`, the threads of its process with it: each with its new group.
    pub fn attach(&mut self, hierarchy: i64, id: u64, path: &str, pid: i32) -> Vec<(i32, usize)> {
        if !self.is_ours(hierarchy) {
            self.moves_elsewhere += 1;
            return Vec::new();
        }
        self.moves += 1;
        self.name(hierarchy, id, path);
        let place = self.group(path);
        let group = self.effective(place);
        let moved: Vec<i32> =
            std::iter::once(pid).chain(self.threads.get(&pid).into_iter().flatten().copied()).collect();
        let moved: Vec<(i32, usize)> = moved.into_iter().map(|tid| (tid, group)).collect();
        self.of.extend(moved.iter().copied());
        moved
    }

    /// The groups of a trace: what a first pass over it found out, and snapshots of before it, with those of after it, which count
    /// for groups and tasks that nothing else shows.
    pub fn new<'t>(
        finder: &GroupFinder,
        before: impl IntoIterator<Item = &'t str>,
        after: impl IntoIterator<Item = &'t str>,
    ) -> Self {
        let mut groups = Self::default();
        before.into_iter().for_each(|text| groups.snapshot(text));
        let mut late = Self::default();
        after.into_iter().for_each(|text| late.snapshot(text));
        for group in late.list.iter().skip(1) {
            if !groups.by_path.contains_key(&group.path) {
                let place = groups.group(&group.path);
                groups.list[place].settings.clone_from(&group.settings);
            } else if let Some(&place) = groups.by_path.get(&group.path) {
                // What was set in between.
                let settings = &mut groups.list[place].settings;
                settings.quota = settings.quota.or(group.settings.quota);
                settings.cpus_after = group.settings.cpus.clone().filter(|cpus| settings.cpus.as_ref() != Some(cpus));
            }
        }
        groups.not_followed.append(&mut late.not_followed);
        (groups.told, groups.has_settings) = (groups.told | late.told, groups.has_settings | late.has_settings);
        groups.hierarchy = groups.hierarchy.or(late.hierarchy).or_else(|| finder.hierarchy());
        for (&tid, &group) in &late.of {
            let is_in_root = groups.of.get(&tid).is_none_or(|&group| group == ROOT);
            if is_in_root && !finder.moved.contains(&tid) {
                let place = groups.group(&late.list[group].path);
                groups.of.insert(tid, place);
            }
        }
        let unseen = |pid: &i32| !finder.parents.contains_key(pid) && !groups.of.contains_key(pid);
        // What hardly runs, such as the recorder, changes nothing.
        let counts = |ran_ns: u64| ran_ns.saturating_mul(100) >= finder.last_ns - finder.first_ns.unwrap_or(0);
        let unknown = finder.names.iter().filter(|(pid, (_, ran_ns))| unseen(pid) && counts(*ran_ns));
        groups.unknown = unknown.map(|(_, (name, _))| name.clone()).collect();
        for (&tid, &leader) in late.leader.iter().chain(&finder.leader) {
            if !groups.leader.contains_key(&tid) {
                groups.set_leader(tid, leader);
            }
        }
        groups
    }

    /// The groups of a recording: what a first pass found out, and the snapshots beside its trace. Those are all files whose names
    /// have `cgroup` in them, in the forms of [`Groups::snapshot`], and copied trees of the same name or at `sys/fs/cgroup`.
    /// One whose name has `after` in it is of the end.
    pub fn of_recording(files: &RecordingFiles, finder: &GroupFinder) -> Self {
        let (mut before, mut after) = (vec![files.text("sysfs_before.txt").unwrap_or_default()], Vec::new());
        for (name, text) in files.texts_about("cgroup", "sys/fs/cgroup") {
            let file = name.rsplit_once('/').map_or("", |(_, file)| file);
            let text = if file == "cgroup" || is_group_file(file) {
                // A file of a copied tree.
                let below = name.split_once('/').map_or("", |(_, below)| below);
                let below = below.strip_prefix("fs/cgroup/").unwrap_or(below);
                format!("/sys/fs/cgroup/{below}: {}|\n", text.trim().replace('\n', "|"))
            } else {
                text
            };
            if name.contains("after") { after.push(text) } else { before.push(text) }
        }
        // One snapshot is one text: what its mount point is shows only all of it.
        Self::new(finder, [before.join("\n").as_str()], [after.join("\n").as_str()])
    }

    /// Takes a snapshot: texts of files, each with its path before it.
    ///
    /// ```text
    ///  /sys/fs/cgroup/web/cpu.max: 20000 50000|             a file of a group, under any mount point; a new line is `|`
    ///  /sys/fs/cgroup/web/cpu.max:20000 50000               the same as grep writes it
    ///  == /proc/12/cgroup                                   a process; the lines that follow are the file's
    ///  /proc/12/task/13/cgroup: 0::/web|                    a thread
    ///  13 12 name: 0::/web|                                 a thread, its process and its name
    /// ```
    pub fn snapshot(&mut self, text: &str) {
        let mut members: Vec<(i32, Option<i32>, String)> = Vec::new();
        let mut files: Vec<(String, String)> = Vec::new();
        let mut add = |key: &str, content: &str| match thread_of(key) {
            Some((tid, leader)) => members.push((tid, leader, content.to_owned())),
            None => files.push((key.to_owned(), content.trim_matches('|').to_owned())),
        };
        let mut open: Option<(String, String)> = None;
        for line in text.lines() {
            if let Some(path) = line.strip_prefix("==").map(|rest| rest.trim_matches(['=', '<', '>', ' ', '\t'])) {
                if let Some((path, content)) = open.replace((path.to_owned(), String::new())) {
                    add(&path, &content);
                }
            } else if let Some((_, content)) = &mut open {
                content.push_str(line);
                content.push('|');
            } else if let Some((key, content)) = key_and_content(line) {
                add(key, content.trim());
            }
        }
        if let Some((path, content)) = open {
            add(&path, &content);
        }
        let files: Vec<(&str, &str, &str)> = files
            .iter()
            .filter_map(|(key, content)| {
                let (folder, file) = key.rsplit_once('/')?;
                (folder.starts_with('/') && is_group_file(file)).then_some((folder, file, content.as_str()))
            })
            .collect();
        self.take_files(&files);
        for (tid, leader, content) in members {
            self.take_member(tid, leader, &content);
        }
    }

    fn take_files(&mut self, files: &[(&str, &str, &str)]) {
        // The mount point is the shortest folder; of v1 each controller has its own, and that of `cpu` counts.
        let v1 = files.iter().find(|(_, file, _)| *file == "cpu.shares").map(|_| "cpu.shares");
        let of_cpu = |file: &str| file.starts_with("cpu.") || file.starts_with("cgroup.") || file == "tasks";
        let folders = |wanted: &dyn Fn(&str) -> bool| {
            let all: BTreeSet<&str> =
                files.iter().filter(|(_, file, _)| wanted(file)).map(|(folder, ..)| *folder).collect();
            all
        };
        let marked = v1.map(|mark| folders(&|file| file == mark));
        let trees = marked.unwrap_or_else(|| folders(&of_cpu));
        let Some(root) = trees.iter().min_by_key(|folder| folder.len()).copied() else {
            return;
        };
        // A snapshot of one group only has no root: groups are below what is a mount point by its name.
        let root = mount_of(root).unwrap_or(root);
        let sets = folders(&|file| file.starts_with("cpuset."));
        let set_root = sets.iter().min_by_key(|folder| folder.len()).copied().unwrap_or(root);
        let set_root = mount_of(set_root).unwrap_or(set_root);
        for &(folder, file, content) in files {
            let is_set = file.starts_with("cpuset.");
            let Some(path) = folder.strip_prefix(if is_set { set_root } else { root }) else { continue };
            let group = if path.is_empty() { ROOT } else { self.group(path) };
            let words: Vec<&str> = content.split(['|', ' ', '\t']).filter(|word| !word.is_empty()).collect();
            let is_default = match file {
                "cpuset.cpus.partition" => words.first() == Some(&"member"),
                "cpuset.sched_load_balance" => words.first() != Some(&"0"),
                "cpu.rt_runtime_us" => path.is_empty() || words.first() == Some(&"0"),
                _ => true,
            };
            if let (false, Some(word)) = (is_default, words.first()) {
                self.not_followed.insert(format!("{file} {word} of {}", if path.is_empty() { "/" } else { path }));
            }
            if group == ROOT && (!path.is_empty() || !is_member_file(file)) {
                continue;
            }
            let number = |nth: usize| words.get(nth).and_then(|word| word.parse::<u64>().ok());
            let settings = &mut self.list[group].settings;
            match file {
                "cpu.weight" => settings.weight = number(0).and_then(|n| u32::try_from(n).ok()),
                "cpu.shares" => settings.shares = number(0).and_then(|n| u32::try_from(n).ok()),
                "cpu.idle" => settings.idle = number(0) == Some(1),
                "cpu.max" => {
                    let period_us = number(1).unwrap_or(100_000);
                    let burst_ns = settings.quota.map_or(0, |quota| quota.burst_ns);
                    settings.quota = number(0).map(|us| Quota {
                        quota_ns: us.saturating_mul(1000),
                        period_ns: period_us.saturating_mul(1000),
                        burst_ns,
                    });
                }
                "cpu.cfs_quota_us" | "cpu.cfs_period_us" => {
                    // -1 is no number here: no quota.
                    let before = settings.quota.unwrap_or(Quota { quota_ns: 0, period_ns: 100_000_000, burst_ns: 0 });
                    let ns = number(0).unwrap_or(0).saturating_mul(1000);
                    settings.quota = Some(match file {
                        "cpu.cfs_quota_us" => Quota { quota_ns: ns, ..before },
                        _ => Quota { period_ns: ns, ..before },
                    });
                }
                "cpu.max.burst" | "cpu.cfs_burst_us" => {
                    if let (Some(quota), Some(us)) = (settings.quota.as_mut(), number(0)) {
                        quota.burst_ns = us.saturating_mul(1000);
                    }
                }
                "cpu.uclamp.min" => settings.uclamp[0] = words.first().map(|&word| word.to_owned()),
                "cpu.uclamp.max" => settings.uclamp[1] = words.first().map(|&word| word.to_owned()),
                "cpuset.cpus.effective" | "cpuset.effective_cpus" => {
                    settings.cpus = words.first().and_then(|list| cpu_list(list));
                }
                file if is_member_file(file) => {
                    let is_thread = file != "cgroup.procs";
                    for tid in words.iter().filter_map(|word| word.parse::<i32>().ok()) {
                        if is_thread || !self.of.contains_key(&tid) {
                            self.of.insert(tid, group);
                        }
                    }
                }
                _ => {}
            }
            let settings = &mut self.list[group].settings;
            settings.has_cpu |= matches!(file, "cpu.weight" | "cpu.shares" | "cpu.max" | "cpu.cfs_quota_us");
        }
        for group in &mut self.list {
            let quota = &mut group.settings.quota;
            *quota = quota.filter(|quota| quota.quota_ns > 0 && (1_000_000..=1_000_000_000).contains(&quota.period_ns));
        }
        if self.list.iter().any(|group| group.settings.has_cpu) {
            (self.told, self.has_settings) = (true, true);
        }
        let placed: Vec<(i32, usize)> = self.of.iter().map(|(&tid, &group)| (tid, self.effective(group))).collect();
        self.of.extend(placed);
    }

    /// A thread's `/proc/PID/cgroup`: lines `NUMBER:CONTROLLERS:PATH`.
    fn take_member(&mut self, tid: i32, leader: Option<i32>, content: &str) {
        if let Some(leader) = leader {
            self.set_leader(tid, leader);
        }
        let mut found: Option<(i64, &str)> = None;
        for line in content.split('|') {
            let mut parts = line.splitn(3, ':');
            let (Some(number), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
                continue;
            };
            let Ok(number) = number.trim().parse::<i64>() else { continue };
            let has_cpu = controllers.split(',').any(|one| one == "cpu");
            // That of v1 goes before the one of v2, whose controllers are not named.
            if has_cpu || (controllers.is_empty() && found.is_none()) {
                found = Some((number, path));
                if has_cpu {
                    self.hierarchy = Some(number);
                }
            }
        }
        if let Some((_, path)) = found {
            let path = path.strip_suffix(" (deleted)").unwrap_or(path);
            let place = self.group(path);
            let group = self.effective(place);
            self.of.insert(tid, group);
        }
    }

    /// What of the trace's groups is followed and what is not, in words; `None` if it has none.
    pub fn words(&self, finder: &GroupFinder) -> Option<String> {
        let signs = finder.signs()?;
        if !self.any() {
            return Some(format!(
                "control groups are not followed (the trace has {signs}): each task counts in its CPU's root queue, and weights, quotas and clamps of groups are not known"
            ));
        }
        let others = match self.moves_elsewhere {
            0 => String::new(),
            n => format!("; {n} moves in other hierarchies are left out"),
        };
        if !self.has_settings {
            return Some(format!(
                "control groups are followed by events only (the trace has {signs}): their weights, quotas and clamps are not known, because no snapshot of them lies beside it{others}"
            ));
        }
        let first = |all: Vec<&str>| {
            let more = if all.len() > 5 { ", ..." } else { "" };
            (all.len(), all[..all.len().min(5)].join(", ") + more)
        };
        let mut parts = Vec::new();
        if !self.unknown.is_empty() {
            let (nr, names) = first(self.unknown.iter().map(String::as_str).collect());
            parts.push(format!(
                "the control groups of {nr} tasks are not known ({names}): they are older than the trace, and the snapshots beside it do not have them; until an event moves them they count in their CPUs' root queues"
            ));
        }
        if !self.not_followed.is_empty() {
            let (nr, names) = first(self.not_followed.iter().map(String::as_str).collect());
            parts.push(format!(
                "{nr} settings of control groups are not followed ({names}): partitions count as CPU sets, and each CPU has one queue of real-time tasks"
            ));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Whether a group's file of this name has who is in it.
fn is_member_file(name: &str) -> bool {
    matches!(name, "cgroup.procs" | "cgroup.threads" | "tasks")
}

fn is_group_file(name: &str) -> bool {
    ["cpu.", "cpuset.", "cgroup."].iter().any(|start| name.starts_with(start)) || name == "tasks"
}

/// The path of a file and its content, or a thread and its groups. A path may have colons in it.
fn key_and_content(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    if line.starts_with('/') {
        return line.match_indices(':').map(|(at, _)| (&line[..at], &line[at + 1..])).find(|(key, _)| {
            let file = key.rsplit_once('/').map_or("", |(_, file)| file);
            file == "cgroup" || is_group_file(file)
        });
    }
    // A thread: its groups begin where a word is `NUMBER:CONTROLLERS:/`.
    line.starts_with(|first: char| first.is_ascii_digit()).then_some(())?;
    let is_groups = |word: &str| {
        let mut parts = word.splitn(3, ':');
        parts.next().is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
            && parts.next().is_some()
            && parts.next().is_some_and(|path| path.starts_with('/'))
    };
    let starts = line.match_indices(' ').map(|(at, _)| at);
    starts
        .map(|at| (line[..at].trim_end_matches(':'), &line[at + 1..]))
        .find(|(_, rest)| is_groups(rest.split([' ', '|']).next().unwrap_or("")))
}

/// The thread, and its process if that is known, of a line of a snapshot.
fn thread_of(key: &str) -> Option<(i32, Option<i32>)> {
    if let Some(rest) = key.strip_prefix("/proc/") {
        let parts: Vec<&str> = rest.split('/').collect();
        return match parts[..] {
            [pid, "cgroup"] => Some((pid.parse().ok()?, None)),
            [pid, "task", tid, "cgroup"] => Some((tid.parse().ok()?, Some(pid.parse().ok()?))),
            _ => None,
        };
    }
    let mut words = key.split(' ');
    let tid = words.next()?.parse().ok()?;
    Some((tid, words.next().and_then(|word| word.parse().ok())))
}

/// Where a hierarchy is mounted, by the usual names.
fn mount_of(folder: &str) -> Option<&str> {
    const PLACES: [&str; 8] = [
        "/sys/fs/cgroup/cpu,cpuacct",
        "/sys/fs/cgroup/cpuacct,cpu",
        "/sys/fs/cgroup/cpuset",
        "/sys/fs/cgroup/cpu",
        "/sys/fs/cgroup/unified",
        "/sys/fs/cgroup",
        "/dev/cpuctl",
        "/dev/cpuset",
    ];
    let below =
        |place: &&&str| folder.strip_prefix(**place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    PLACES.iter().find(below).map(|place| &folder[..place.len()])
}

/// "0,3-5" as numbers; `None` if it is no such list, or an empty one.
fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if first > last || last > 0xffff {
            return None;
        }
        cpus.extend(first..=last);
    }
    (!cpus.is_empty()).then(|| cpus.into_iter().collect())
}

/// What an event that is none of the scheduler's shows of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Stop,
    /// Place of the queue that an entity owns, and of a queue's path.
    Record(Option<usize>, Option<usize>),
}

impl Role {
    fn of(schema: &Schema) -> Self {
        // Both are called so: `throttle_cfs_rq` and what ends it.
        if schema.name.contains("throttle_cfs_rq") && !schema.name.contains("unthrottle") {
            return Role::Stop;
        }
        let path = schema.field_index("path").filter(|_| schema.field_index("cpu").is_some());
        Role::Record(schema.field_index("myq"), path)
    }
}

/// CLONE_THREAD (include/uapi/linux/sched.h).
const CLONE_THREAD: i64 = 0x10000;

/// Whether `task_newtask` of these flags is of a thread.
pub fn is_thread_clone(flags: i64) -> bool {
    flags & CLONE_THREAD != 0
}

/// EXIT_DEAD: a thread, whose end nobody waits for, or a process that nobody waits for.
const EXIT_DEAD: u64 = 0x10;
/// A woken task runs on an idle CPU within this time, unless a quota stops it.
const WAKE_TO_RUN_NS: u64 = 2_000_000;

/// A CPU in the first pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct FinderCpu {
    current: i32,
    /// When it switched last.
    switched_ns: Option<u64>,
    /// Fair tasks that wait there, and since when.
    waiting: BTreeMap<i32, u64>,
    /// By how much the count of its runnable tasks fell since the last switch, so far as no migration explains it.
    fell: i64,
    /// The count, and how many of those who wait are stopped, so that they are not in it.
    count: Option<i64>,
    out: BTreeSet<i32>,
    /// When the count rose, and by how much, so far as no task that came explains it.
    rose: Option<(u64, i64)>,
    /// A task comes that moves, which is counted next.
    coming: bool,
    /// One was counted that came, since the last wake-up or switch.
    came: bool,
    /// When groups went on of which no task ran yet.
    open: Vec<u64>,
    /// Sleeping tasks whose dequeue is delayed (v6.12): they are in the count still.
    delayed: BTreeSet<i32>,
}

/// Collects what the whole trace shows; feed it with events in time order as a [`SchedSink`] or by its methods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupFinder {
    roles: BySchema<Role>,
    nr_moves: u64,
    records: u64,
    /// Times that a runnable fair task left its CPU idle.
    stops: u64,
    cpus: Vec<FinderCpu>,
    /// Where a fair task waits.
    waits_on: HashMap<i32, usize>,
    /// Tasks that a quota stopped, with the time since when.
    stopped: BTreeSet<(i32, u64)>,
    /// CPUs whose count of runnable tasks rose though no task came: groups go on; with the time, and by how much.
    resumed: BTreeMap<(usize, u64), (i64, Option<i32>)>,
    /// By hierarchy: moves into groups below its root.
    hierarchies: BTreeMap<i64, u64>,
    moved: BTreeSet<i32>,
    parents: BTreeMap<i32, i32>,
    execed: BTreeSet<i32>,
    /// Of tasks that ran: the first name, and for how long, ns.
    names: BTreeMap<i32, (String, u64)>,
    /// Times of the first and the last switch.
    first_ns: Option<u64>,
    last_ns: u64,
    /// Process of a thread.
    leader: BTreeMap<i32, i32>,
    /// Their last switch shows a thread, or a process.
    ended: BTreeMap<i32, bool>,
    /// The trace has the count of runnable tasks.
    counts: bool,
}

impl GroupFinder {
    fn cpu(&mut self, cpu: u32) -> usize {
        let cpu = (cpu & 0xffff) as usize;
        if self.cpus.len() <= cpu {
            self.cpus.resize_with(cpu + 1, FinderCpu::default);
        }
        cpu
    }

    fn wait(&mut self, pid: i32, cpu: usize, since_ns: u64) {
        self.run(pid);
        self.cpus[cpu].waiting.insert(pid, since_ns);
        self.waits_on.insert(pid, cpu);
    }

    /// It waits no longer: where it waited.
    fn run(&mut self, pid: i32) -> Option<usize> {
        let cpu = self.waits_on.remove(&pid)?;
        self.cpus[cpu].out.remove(&pid);
        self.cpus[cpu].waiting.remove(&pid).map(|_| cpu)
    }

    /// No event showed a task that came.
    fn settle_rise(&mut self, cpu: usize) {
        if let Some((time_ns, change)) = self.cpus[cpu].rose.take() {
            self.resumed.insert((cpu, time_ns), (change, None));
            self.cpus[cpu].open.push(time_ns);
        }
    }

    /// `sched_switch`.
    pub fn switch(&mut self, time_ns: u64, cpu: u32, prev: (i32, i64), prev_state: u64, next: i32) {
        let cpu = self.cpu(cpu);
        self.settle_rise(cpu);
        let runnable = !sleeps(prev_state);
        if prev.0 != 0 && runnable && prev.1 >= 100 {
            self.wait(prev.0, cpu, time_ns);
            // A task leaves the count, and this one is runnable: its group leaves, unless it is one that sleeps already. Those who wait
            // are in the count.
            let one = &mut self.cpus[cpu];
            let waiting = one.waiting.keys().filter(|pid| !one.out.contains(pid)).count() as i64;
            let fewer = one.count.is_some_and(|count| count < waiting);
            if one.fell > 0 && (fewer || (0..one.fell).all(|_| one.delayed.pop_first().is_none())) {
                one.out.insert(prev.0);
                self.stopped.insert((prev.0, time_ns));
            }
        } else if prev.0 != 0 {
            if self.counts && self.cpus[cpu].fell == 0 {
                self.cpus[cpu].delayed.insert(prev.0);
            }
            if has_ended(prev_state) {
                self.ended.insert(prev.0, prev_state & EXIT_DEAD != 0);
            }
        }
        if prev.0 == 0 {
            // It idled while they waited.
            let one = &mut self.cpus[cpu];
            let long = one.waiting.iter().filter(|(_, since_ns)| time_ns.saturating_sub(**since_ns) > WAKE_TO_RUN_NS);
            let long: Vec<(i32, u64)> = long.map(|(&pid, &since_ns)| (pid, since_ns)).collect();
            one.out.extend(long.iter().map(|(pid, _)| *pid));
            self.stopped.extend(long);
        }
        if let Some(since_ns) = self.cpus[cpu].waiting.get(&next).copied()
            && self.cpus[cpu].out.contains(&next)
        {
            // An idle CPU runs at once who may go on; a busy one has let its group go on at the first time since then that it did so.
            let open = &mut self.cpus[cpu].open;
            let later = |resumed_ns: &u64| *resumed_ns >= since_ns;
            let at = if prev.0 == 0 { open.iter().rposition(later) } else { open.iter().position(later) };
            if let Some(at) = at {
                let resumed_ns = open.remove(at);
                self.resumed.entry((cpu, resumed_ns)).and_modify(|(_, pid)| *pid = Some(next));
            }
        }
        self.run(next);
        (self.cpus[cpu].fell, self.cpus[cpu].coming, self.cpus[cpu].came) = (0, false, false);
        self.cpus[cpu].current = next;
        if next == 0 {
            self.cpus[cpu].delayed.clear();
            let waiting = &self.cpus[cpu].waiting;
            // A deadline task stops at the end of its own budget, a real-time one at that of its class.
            self.stops += u64::from(prev.0 != 0 && runnable && prev.1 >= 100);
            self.stopped.extend(waiting.iter().map(|(&pid, &since_ns)| (pid, since_ns)));
            let all = waiting.keys().copied().collect();
            self.cpus[cpu].out = all;
        }
    }

    /// A task ran there up to now. Workers come and go, all of them in the root.
    fn ran(&mut self, time_ns: u64, cpu: u32, pid: i32, name: &[u8]) {
        let first_ns = *self.first_ns.get_or_insert(time_ns);
        self.last_ns = self.last_ns.max(time_ns);
        let cpu = self.cpu(cpu);
        let since_ns = self.cpus[cpu].switched_ns.replace(time_ns).unwrap_or(first_ns);
        if pid != 0 && !name.starts_with(b"kworker/") {
            let known = self.names.entry(pid).or_insert_with(|| (String::from_utf8_lossy(name).into_owned(), 0));
            known.1 += time_ns.saturating_sub(since_ns);
        }
    }

    /// `sched_wakeup` or `sched_wakeup_new`.
    pub fn wakeup(&mut self, time_ns: u64, pid: i32, prio: i64, cpu: u32) {
        let cpu = self.cpu(cpu);
        let delayed = self.cpus.iter_mut().map(|one| one.delayed.remove(&pid)).fold(false, |any, one| any | one);
        let one = &mut self.cpus[cpu];
        let came = std::mem::take(&mut one.came);
        (one.rose, one.coming) = (None, false);
        if prio >= 100 && one.current != pid {
            self.wait(pid, cpu, time_ns);
            // It is not in the count: neither did it come now, nor was it still there.
            if self.counts && !came && !delayed {
                self.cpus[cpu].out.insert(pid);
                self.stopped.insert((pid, time_ns));
            }
        }
    }

    /// `sched_migrate_task`, written by `by_cpu`.
    pub fn migrate(&mut self, time_ns: u64, by_cpu: u32, pid: i32, dest: u32) {
        let (dest, by_cpu) = (self.cpu(dest), self.cpu(by_cpu));
        self.cpus[dest].rose = None;
        // One that wakes is counted with its wake-up.
        let queued =
            |one: &FinderCpu| one.current == pid || one.delayed.contains(&pid) || one.waiting.contains_key(&pid);
        self.cpus[dest].coming = self.cpus.iter().any(queued);
        if let Some(from) = self.run(pid) {
            self.wait(pid, dest, time_ns);
            self.cpus[from].fell = (self.cpus[from].fell - 1).max(0);
        } else {
            // Who runs there moves itself, or is moved: its leaving was counted on the CPU that writes.
            self.cpus[by_cpu].fell = (self.cpus[by_cpu].fell - 1).max(0);
        }
    }

    /// `sched_update_nr_running_tp` of `cpu`.
    pub fn nr_running(&mut self, time_ns: u64, cpu: u32, change: i64, count: Option<i64>) {
        let cpu = self.cpu(cpu);
        self.cpus[cpu].count = count;
        self.settle_rise(cpu);
        // What comes at the place of what just left is the same task, with other attributes.
        self.cpus[cpu].came |= change > 0;
        if change > 0 && !std::mem::take(&mut self.cpus[cpu].coming) && self.cpus[cpu].fell == 0 {
            self.cpus[cpu].rose = Some((time_ns, change));
        }
        self.cpus[cpu].fell = self.cpus[cpu].fell.saturating_add(change.min(0).saturating_neg());
        self.counts = true;
    }

    /// A child is born. `is_thread`: `None` if the event does not show it.
    pub fn fork(&mut self, parent: i32, child: i32, is_thread: Option<bool>) {
        self.parents.insert(child, parent);
        self.execed.remove(&child);
        self.ended.remove(&child);
        match is_thread {
            Some(true) => {
                let leader = self.leader.get(&parent).copied().unwrap_or(parent);
                self.leader.insert(child, leader);
            }
            Some(false) => {
                self.leader.insert(child, child);
            }
            None => {}
        }
    }

    /// `sched_process_exec`: a process.
    pub fn exec(&mut self, pid: i32) {
        self.execed.insert(pid);
    }

    /// A move of `pid` into a group of a hierarchy.
    pub fn moves(&mut self, hierarchy: i64, pid: i32) {
        self.nr_moves += 1;
        *self.hierarchies.entry(hierarchy).or_default() += 1;
        self.moved.insert(pid);
    }

    /// Whether the child of a fork is a thread of its parent's process: known, or it ended like one, or it runs its parent's program
    /// to the end of the trace.
    pub fn is_thread(&self, child: i32) -> bool {
        match self.leader.get(&child) {
            Some(&leader) => leader != child,
            None if self.execed.contains(&child) => false,
            None => self.ended.get(&child).copied().unwrap_or(true) && self.parents.contains_key(&child),
        }
    }

    /// Whether a quota stopped the task that was switched out, or woken, at that time.
    pub fn is_stopped(&self, pid: i32, since_ns: u64) -> bool {
        self.stopped.contains(&(pid, since_ns))
    }

    /// So many runnable tasks came back to a CPU's queues at that time with their groups; one of them, if it ran later.
    pub fn resumed(&self, cpu: usize, time_ns: u64) -> Option<(u64, Option<i32>)> {
        self.resumed.get(&(cpu, time_ns)).map(|&(tasks, pid)| (tasks as u64, pid))
    }

    /// The same with all times moved by `by_ns`.
    pub fn shifted(mut self, by_ns: i64) -> Self {
        let moved = |time_ns: u64| time_ns.wrapping_add(by_ns as u64);
        self.stopped = self.stopped.iter().map(|&(pid, since_ns)| (pid, moved(since_ns))).collect();
        self.resumed = self.resumed.iter().map(|(&(cpu, time_ns), &tasks)| ((cpu, moved(time_ns)), tasks)).collect();
        self
    }

    /// The hierarchy that is followed where no snapshot shows which one has the cpu controller: that of v2, whose number is 0. Those of
    /// v1 may be of other controllers, such as Android's cpusets.
    fn hierarchy(&self) -> Option<i64> {
        (!self.hierarchies.is_empty()).then_some(0)
    }

    /// What the trace shows of groups; `None` if nothing.
    fn signs(&self) -> Option<String> {
        let counted = |n: u64, what: &str| (n > 0).then(|| format!("{n} {what}"));
        let stops = "times a runnable task left its CPU idle, as a quota that stops its group does";
        let signs = [
            counted(self.nr_moves, "moves into groups"),
            counted(self.records, "records of groups' queues"),
            counted(self.stops, stops),
        ];
        let signs: Vec<String> = signs.into_iter().flatten().collect();
        (!signs.is_empty()).then(|| signs.join(", "))
    }

    /// What the trace shows of groups and what does not follow from it, in words, where nothing else is known of them; `None` if
    /// it shows none.
    pub fn words(&self) -> Option<String> {
        Groups::default().words(self)
    }

    fn record(&mut self, event: &Event<'_>, owned: Option<usize>, path: Option<usize>) {
        let of_entity = owned.and_then(|place| event.int(place)).is_some_and(|queue| queue != 0);
        let below =
            path.and_then(|place| event.str(place)).is_some_and(|path| path.len() > 1 && path.starts_with(b"/"));
        self.records += u64::from(of_entity || below);
    }
}

impl SchedSink for GroupFinder {
    fn event(&mut self, event: &Event<'_>, what: &SchedEvent<'_>) {
        match *what {
            SchedEvent::Switch { prev, prev_state, next } => {
                if let Some(name) = prev.comm {
                    self.ran(event.time_ns, event.cpu, prev.pid, name);
                }
                self.switch(event.time_ns, event.cpu, prev.with_prio(120), prev_state, next.pid);
            }
            SchedEvent::Wakeup { task, target_cpu, .. } => {
                let (pid, prio) = task.with_prio(120);
                self.wakeup(event.time_ns, pid, prio, target_cpu);
            }
            SchedEvent::Migrate { pid, dest_cpu, .. } => self.migrate(event.time_ns, event.cpu, pid, dest_cpu),
            SchedEvent::Attach { dst_root, pid, .. } => self.moves(dst_root, pid),
            SchedEvent::Fork { parent_pid, child_pid, .. } => self.fork(parent_pid, child_pid, None),
            SchedEvent::NewTask { pid, clone_flags } => {
                self.fork(event.pid, pid, clone_flags.map(is_thread_clone));
            }
            SchedEvent::Exec { pid } => self.exec(pid),
            SchedEvent::NrRunning { cpu, change, nr } => self.nr_running(event.time_ns, cpu, change, nr),
            SchedEvent::Other => match *self.roles.get(event.schema, Role::of) {
                Role::Stop => self.stops += 1,
                Role::Record(owned, path) => self.record(event, owned, path),
            },
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::decoded;
    use opplab_trace::{ReadOptions, TraceFile};

    fn words(lines: &[&str]) -> Option<String> {
        let text: String =
            lines.iter().zip(1..).map(|(line, at)| format!("  a-7 [000] ..... 1.{at:06}: {line}\n")).collect();
        let mut finder = GroupFinder::default();
        let file = TraceFile::from_bytes(text.into_bytes(), &ReadOptions::default()).unwrap();
        file.stream(&ReadOptions::default(), &mut decoded(&mut finder)).unwrap();
        finder.words()
    }

    /// `sched_switch` of a task in that state to the task of that pid.
    fn switch(state: &str, next: u32) -> String {
        format!(
            "sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state={state} ==> next_comm=b next_pid={next} next_prio=120"
        )
    }

    #[test]
    fn a_trace_without_signs_has_no_words() {
        assert_eq!(words(&[&switch("S", 0), &switch("R", 8), &switch("R+", 9), &switch("D", 0)]), None);
    }

    #[test]
    fn signs_are_counted() {
        // A deadline task whose budget is used up is no sign of a group.
        assert_eq!(words(&[&switch("R", 0).replace("prev_prio=120", "prev_prio=-1")]), None);
        let stopped = words(&[&switch("R", 0), &switch("R+", 0), &switch("S", 0)]).unwrap();
        assert!(stopped.contains("2 times a runnable task left its CPU idle"), "{stopped}");
        let moved =
            words(&["cgroup_attach_task: dst_root=1 dst_id=5 dst_level=1 dst_path=/top-app pid=7 comm=a"]).unwrap();
        assert!(moved.starts_with("control groups are not followed (the trace has 1 moves into groups)"), "{moved}");
        let recorded =
            words(&["pelt_cfs: cpu=0 path=/system.slice load=1 util=2", "pelt_cfs: cpu=0 path=/ load=1 util=2"])
                .unwrap();
        assert!(recorded.contains("1 records of groups' queues"), "{recorded}");
    }

    /// Goal: who is older than the trace and in no snapshot is named; who was born in it, or is in the root's own file, is not.
    #[test]
    fn tasks_whose_groups_nobody_shows_are_named() {
        let mut finder = GroupFinder::default();
        finder.fork(7, 9, None);
        let all = [(7, "sh"), (8, "hog"), (9, "child"), (10, "kworker/0:1"), (11, "web"), (12, "recorder")];
        for (pid, name) in all {
            finder.ran(1000 + if pid == 12 { 1101 } else { 100 * pid as u64 }, 0, pid, name.as_bytes());
        }
        finder.moves(0, 11);
        let before = "/sys/fs/cgroup/cgroup.procs: 1|7|\n/sys/fs/cgroup/a/cpu.max: 1000 20000|\n";
        let words = |after: &str| Groups::new(&finder, [before], [after]).words(&finder);
        let said = words("").unwrap();
        assert!(said.starts_with("the control groups of 2 tasks are not known (hog, web)"), "{said}");
        // What the end shows holds for who no event moves.
        let said = words("/proc/8/cgroup: 0::/a|\n/proc/11/cgroup: 0::/a|").unwrap();
        assert!(said.starts_with("the control groups of 1 tasks are not known (web)"), "{said}");
    }

    /// Goal: settings that nothing follows are named with their groups; what a kernel starts with is not.
    #[test]
    fn settings_that_nothing_follows_are_named() {
        let mut finder = GroupFinder::default();
        finder.moves(0, 11);
        let words = |before: &str, after: &str| Groups::new(&finder, [before], [after]).words(&finder);
        let plain = "/sys/fs/cgroup/a/cpu.weight: 50|\n/sys/fs/cgroup/a/cpuset.cpus.partition: member|\n";
        assert_eq!(words(plain, plain), None);
        let named = words(plain, &plain.replace("member", "root invalid (Cpu list in cpuset.cpus not exclusive)"));
        let named = named.expect("a partition");
        assert!(named.starts_with("1 settings of control groups are not followed (cpuset.cpus.partition root of /a):"));
        let v1 = "/sys/fs/cgroup/cpu,cpuacct/cpu.shares:1024\n/sys/fs/cgroup/cpu,cpuacct/cpu.rt_runtime_us:950000\n\
                  /sys/fs/cgroup/cpu,cpuacct/a/cpu.shares:1024\n/sys/fs/cgroup/cpu,cpuacct/a/cpu.rt_runtime_us:0\n\
                  /sys/fs/cgroup/cpuset/cpuset.sched_load_balance:1\n";
        assert_eq!(words(v1, ""), None);
        let named = words(&v1.replace("us:0", "us:-1").replace("balance:1", "balance:0"), "").expect("two of them");
        assert!(named.contains("(cpu.rt_runtime_us -1 of /a, cpuset.sched_load_balance 0 of /)"), "{named}");
    }

    /// Goal: the forms of snapshots have the same groups; a group without the cpu controller has none of its own.
    #[test]
    fn snapshots_have_many_forms() {
        let groups = |text: &str| Groups::new(&GroupFinder::default(), [text], []);
        let lines = groups(
            "/sys/fs/cgroup/cgroup.procs: 1|\n/sys/fs/cgroup/a/cpu.weight: 50|\n/sys/fs/cgroup/a/cpu.max: 5000 20000|\n\
             /sys/fs/cgroup/a/cpu.max.burst: 100|\n/sys/fs/cgroup/a/cpu.uclamp.max: 50.00|\n\
             /sys/fs/cgroup/a/cpuset.cpus.effective: 0-1,3|\n/sys/fs/cgroup/a/b/cgroup.procs: 12|13|\n\
             14 12 a name: 0::/a/b|\n/proc/15/cgroup: 0::/a|\n",
        );
        let paths: Vec<&str> = lines.list().iter().map(|group| group.path.as_str()).collect();
        assert_eq!(paths, ["/", "/a", "/a/b"]);
        let settings = &lines.list()[1].settings;
        let quota = Quota { quota_ns: 5_000_000, period_ns: 20_000_000, burst_ns: 100_000 };
        assert_eq!((settings.shares(), settings.quota), (512, Some(quota)));
        assert_eq!(settings.cpus.as_deref(), Some([0, 1, 3].as_slice()));
        assert_eq!(settings.uclamp[1].as_deref(), Some("50.00"));
        assert_eq!([12, 13, 14, 15, 16].map(|tid| lines.of(tid)), [1, 1, 1, 1, ROOT]);
        let headed = groups(
            "== /cg/a/cpu.max\nmax 100000\n== /cg/a/cpu.weight\n200\n== /cg/cgroup.procs\n== /proc/9/cgroup\n0::/a\n",
        );
        assert_eq!((headed.list()[1].settings.shares(), headed.list()[1].settings.quota), (2048, None));
        assert_eq!(headed.of(9), 1);
        let v1 = groups(
            "/sys/fs/cgroup/cpu,cpuacct/cpu.shares:1024\n/sys/fs/cgroup/cpu,cpuacct/a/cpu.shares:2048\n\
             /sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us:-1\n/sys/fs/cgroup/cpuset/a/cpuset.effective_cpus:0\n\
             /proc/9/cgroup: 4:memory:/x|3:cpu,cpuacct:/a|0::/y|\n",
        );
        assert_eq!((v1.list()[1].settings.shares(), v1.list()[1].settings.quota), (2048, None));
        assert_eq!((v1.list()[1].settings.cpus.as_deref(), v1.of(9)), (Some([0].as_slice()), 1));
        // Moves in its other hierarchies are none of the scheduler's.
        let mut v1 = v1;
        assert!(v1.attach(4, 7, "/x", 9).is_empty());
        assert_eq!((v1.attach(3, 8, "/z", 9), v1.moves_elsewhere), (vec![(9, 2)], 1));
        // Nonsense has no groups.
        for text in
            ["", ": |", "/a/cpu.max", "/../cpu.max: 1 2|", "12 : 0::/|", "== ==", "/sys/fs/cgroup/a/cpu.max: x y|"]
        {
            assert!(groups(text).list().len() <= 2, "{text}");
        }
    }

    /// Goal: threads move with their process, its children do not; who begins is in the parent's group.
    #[test]
    fn membership_follows_events() {
        let mut finder = GroupFinder::default();
        finder.fork(1, 2, None);
        finder.fork(2, 3, None);
        finder.fork(2, 4, None);
        finder.exec(2);
        finder.exec(4);
        let mut groups = Groups::new(&finder, [], []);
        for (parent, child) in [(1, 2), (2, 3), (2, 4)] {
            groups.fork(parent, child, finder.is_thread(child));
        }
        assert_eq!(groups.attach(0, 5, "/a", 2), [(2, 1), (3, 1)]);
        groups.name(0, 5, "/b");
        assert_eq!((groups.list()[1].path.as_str(), groups.of(3), groups.of(4)), ("/b", 1, ROOT));
        groups.fork(3, 6, true);
        assert_eq!(groups.of(6), 1);
        // A number that is used again.
        groups.fork(1, 3, false);
        assert_eq!(groups.attach(0, 7, "/c/d", 2).len(), 2, "2 and 6");
        assert_eq!(groups.of(3), ROOT);
    }
}
