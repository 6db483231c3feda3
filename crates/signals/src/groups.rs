//! Signs of control groups in a trace. Nothing here follows groups, so that whatever depends on them has to name that.
//!
//! ```text
//!  cgroup_attach_task, cgroup_transfer_tasks   a task moves into a group
//!  records with `myq`, or a `path` below "/"   a group's entity or queue
//!  a throttle probe (`throttle_cfs_rq`)        a quota stops a group
//!  sched_switch: a runnable task -> idle       the same: no CPU idles while its queue has a task that may run
//! ```

use std::ops::ControlFlow;

use crate::{Places, prev_state};
use opplab_trace::{Event, Schema, Sink};

/// Events that move tasks between groups.
pub const MOVES: [&str; 2] = ["cgroup_attach_task", "cgroup_transfer_tasks"];

#[derive(Clone, Debug)]
enum Role {
    Other,
    Switch(Places<3>),
    Move,
    Stop,
    /// Place of the queue that an entity owns, and of a queue's path.
    Record(Option<usize>, Option<usize>),
}

impl Role {
    fn of(schema: &Schema) -> Self {
        let name = schema.name.as_str();
        if name == "sched_switch" {
            return Role::Switch(Places::new(schema, ["prev_pid", "prev_state", "next_pid"]));
        }
        if MOVES.contains(&name) {
            return Role::Move;
        }
        // Both are called so: `throttle_cfs_rq` and what ends it.
        if name.contains("throttle_cfs_rq") && !name.contains("unthrottle") {
            return Role::Stop;
        }
        let (owned, path) =
            (schema.field_index("myq"), schema.field_index("path").filter(|_| schema.field_index("cpu").is_some()));
        if owned.is_some() || path.is_some() { Role::Record(owned, path) } else { Role::Other }
    }
}

/// Counts the signs; feed it with events as a [`Sink`].
#[derive(Clone, Debug, Default)]
pub struct GroupFinder {
    roles: Vec<Option<Role>>,
    moves: u64,
    records: u64,
    stops: u64,
}

impl GroupFinder {
    /// What the trace shows of groups and what does not follow from it, in words; `None` if it shows none.
    pub fn words(&self) -> Option<String> {
        let counted = |n: u64, what: &str| (n > 0).then(|| format!("{n} {what}"));
        let stops = "times a runnable task left its CPU idle, as a quota that stops its group does";
        let signs = [
            counted(self.moves, "moves into groups"),
            counted(self.records, "records of groups' queues"),
            counted(self.stops, stops),
        ];
        let signs: Vec<String> = signs.into_iter().flatten().collect();
        (!signs.is_empty()).then(|| {
            format!(
                "control groups are not followed (the trace has {}): each task counts in its CPU's root queue, and weights, quotas and clamps of groups are not known",
                signs.join(", ")
            )
        })
    }

    fn record(&mut self, event: &Event<'_>, owned: Option<usize>, path: Option<usize>) {
        let of_entity = owned.and_then(|place| event.int(place)).is_some_and(|queue| queue != 0);
        let below =
            path.and_then(|place| event.str(place)).is_some_and(|path| path.len() > 1 && path.starts_with(b"/"));
        self.records += u64::from(of_entity || below);
    }
}

impl Sink for GroupFinder {
    fn event(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        let index = event.schema.index;
        if self.roles.len() <= index {
            self.roles.resize(index + 1, None);
        }
        match self.roles[index].get_or_insert_with(|| Role::of(event.schema)) {
            Role::Other => {}
            // Formats without format files learn their fields as they go.
            Role::Switch(places) if !places.has(3) => self.roles[index] = None,
            Role::Switch(places) => {
                if places.get(event, 2) == 0 && places.get(event, 0) != 0 && prev_state(places, event, 1) & 0xff == 0 {
                    self.stops += 1;
                }
            }
            Role::Move => self.moves += 1,
            Role::Stop => self.stops += 1,
            &mut Role::Record(owned, path) => self.record(event, owned, path),
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opplab_trace::{ReadOptions, TraceFile};

    fn words(lines: &[&str]) -> Option<String> {
        let text: String =
            lines.iter().zip(1..).map(|(line, at)| format!("  a-7 [000] ..... 1.{at:06}: {line}\n")).collect();
        let mut finder = GroupFinder::default();
        let file = TraceFile::from_bytes(text.into_bytes(), &ReadOptions::default()).unwrap();
        file.stream(&ReadOptions::default(), &mut finder).unwrap();
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
}
