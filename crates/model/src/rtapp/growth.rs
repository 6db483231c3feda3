//! How many threads a workload has: what starts more than a run is quick with, and what starts threads without end.

use std::collections::{BTreeMap, BTreeSet};

use super::syntax::{EventKind, Note, Task};

/// From so many threads a user should know that they are many: the kernel's `pid_max` is 32768 on small machines.
const MANY: u64 = 4096;

/// Words about many threads and about tasks that fork themselves, also by way of others.
pub(super) fn notes(tasks: &[Task]) -> Vec<Note> {
    let mut notes = Vec::new();
    let nr_threads: u64 = tasks.iter().map(|task| u64::from(task.instances)).sum();
    if let Some(first) = tasks.first().filter(|_| nr_threads > MANY) {
        let message = format!("{nr_threads} threads: a run takes long, and so do its pages");
        notes.push(Note { at: first.at, message });
    }
    // Of each task that forks, what it forks; of equal names the first one is meant.
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, task) in tasks.iter().enumerate() {
        places.entry(&task.name).or_insert(index);
    }
    let mut forked: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (index, task) in tasks.iter().enumerate() {
        for event in task.phases.iter().flat_map(|phase| &phase.events) {
            if let EventKind::Fork { task: name } = &event.kind
                && let Some(&child) = places.get(name.as_str())
            {
                forked.entry(index).or_default().insert(child);
            }
        }
    }
    for (&index, children) in &forked {
        let task = &tasks[index];
        let mut seen = children.clone();
        let mut open: Vec<usize> = children.iter().copied().collect();
        while let Some(here) = open.pop() {
            open.extend(forked.get(&here).into_iter().flatten().copied().filter(|&next| seen.insert(next)));
        }
        if seen.contains(&index) {
            let message = format!(
                "task `{}` forks itself: its threads may grow until the run ends, or until fork fails as the kernel's does",
                task.name
            );
            notes.push(Note { at: task.at, message });
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use crate::rtapp::{ParseOptions, parse};

    fn notes(text: &str) -> Vec<String> {
        let parsed = parse("w.json", text, ParseOptions::default()).expect("a workload");
        parsed.notes.into_iter().map(|note| note.message).collect()
    }

    #[test]
    fn many_threads_and_forks_without_end_are_told() {
        assert_eq!(notes(r#"{"tasks": {"a": {"run": 1, "fork": "b"}, "b": {"run": 1}}}"#), [""; 0]);
        let many = notes(r#"{"tasks": {"a": {"instance": 100000, "run": 1}}}"#);
        assert!(many[0].starts_with("100000 threads"), "{many:?}");
        let cycle = notes(r#"{"tasks": {"a": {"fork": "b"}, "b": {"run": 1, "fork": "c"}, "c": {"fork": "b"}}}"#);
        assert_eq!(cycle.len(), 2, "{cycle:?}");
        assert!(cycle[0].starts_with("task `b` forks itself"), "{cycle:?}");
    }
}
