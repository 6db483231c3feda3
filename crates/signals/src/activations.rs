//! Activations: from a task's wake-up to its next sleep, how long it waited, ran, and took.
//!
//! A wake-up of a task that has not slept yet belongs to the activation that is under way; a simulated run marks where one that
//! is late ends, and the next begins there. What a task's period or deadline is, is not decided here.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::decode::{SchedEvent, SchedSink, setting, sleeps};
use opplab_trace::Event;

/// One activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activation {
    /// Whose.
    pub pid: i32,
    /// The first event of its wake-up, as of [`crate::waits`].
    pub woken_ns: u64,
    /// When it ran first.
    pub start_ns: u64,
    /// When it slept again.
    pub end_ns: u64,
    /// How long it ran.
    pub running_ns: u64,
    /// Where it ran last.
    pub cpu: u32,
    /// How often it was taken off its CPU while it could have run on.
    pub preemptions: u32,
    /// By a mark of the run it ended after the next one was due.
    pub late: bool,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    activation: Activation,
    started: bool,
    running_since: Option<u64>,
    /// It began where a late one ended.
    follows: bool,
}

impl Open {
    fn new(pid: i32, now: u64) -> Self {
        let (start_ns, end_ns) = (now, now);
        let activation =
            Activation { pid, woken_ns: now, start_ns, end_ns, running_ns: 0, cpu: 0, preemptions: 0, late: false };
        Self { activation, started: false, running_since: None, follows: false }
    }
}

/// Collects the activations that begin and end within the trace; feed it with events in time order as a [`SchedSink`].
#[derive(Debug, Default)]
pub struct Activations {
    /// In order of their ends.
    pub all: Vec<Activation>,
    open: HashMap<i32, Open>,
    /// Who runs without an activation, since when.
    running: HashMap<i32, u64>,
    /// By pid: since when it has been awake, and how long it was before, ns.
    awake: HashMap<i32, (Option<u64>, u64)>,
    /// Those whose priority is that of the deadline class.
    pub of_deadline_class: BTreeSet<i32>,
    /// The deadlines that marks of a simulated run state, by pid, ns.
    pub stated_ns: BTreeMap<i32, u64>,
    /// Time of the first event.
    first_ns: Option<u64>,
    /// Time of the last event.
    last_ns: u64,
}

impl Activations {
    /// The trace goes on until `now`.
    pub fn until(&mut self, now: u64) {
        self.first_ns.get_or_insert(now);
        self.last_ns = now;
    }

    /// The tasks that were awake for more than half of the trace, by pid: of their work it does not show what was due when.
    pub fn mostly_awake(&self) -> BTreeSet<i32> {
        let span_ns = self.last_ns.saturating_sub(self.first_ns.unwrap_or(0));
        let total = |&(since, before_ns): &(Option<u64>, u64)| {
            before_ns.saturating_add(since.map_or(0, |since| self.last_ns.saturating_sub(since)))
        };
        let mostly = self.awake.iter().filter(|(pid, times)| **pid != 0 && total(times) > span_ns / 2);
        mostly.map(|(pid, _)| *pid).collect()
    }

    /// It is awake from `since` on, if it was not before.
    fn wakes(&mut self, pid: i32, since: u64) {
        self.awake.entry(pid).or_default().0.get_or_insert(since);
    }

    /// The activations that are under way, by pid, as if they ended now; one that has not run yet begins to run now.
    pub fn under_way(&self) -> Vec<Activation> {
        let now = self.last_ns;
        let so_far = |open: &Open| Activation {
            start_ns: if open.started { open.activation.start_ns } else { now },
            end_ns: now,
            running_ns: open.activation.running_ns + open.running_since.map_or(0, |since| now.saturating_sub(since)),
            ..open.activation
        };
        let mut all: Vec<Activation> = self.open.values().map(so_far).collect();
        all.sort_unstable_by_key(|one| one.pid);
        all
    }

    /// A task is woken.
    pub fn wakeup(&mut self, pid: i32, now: u64) {
        self.until(now);
        self.opens(pid, now);
    }

    fn opens(&mut self, pid: i32, now: u64) {
        self.wakes(pid, now);
        let open = self.open.entry(pid).or_insert(Open::new(pid, now));
        // Simulated switches happen at the instant of the wake-up; which is written first depends on the CPUs.
        if self.running.remove(&pid) == Some(now) {
            (open.started, open.running_since) = (true, Some(now));
        }
    }

    /// A CPU switches from a task in this state (0: it could run on) to another.
    pub fn switch(&mut self, cpu: u32, now: u64, prev: i32, state: u64, next: i32) {
        self.until(now);
        // What ran at the beginning has been awake from then on.
        let first_ns = self.first_ns.unwrap_or(now);
        let (since, before_ns) = self.awake.entry(prev).or_insert((Some(first_ns), 0));
        if sleeps(state) {
            *before_ns = before_ns.saturating_add(since.take().map_or(0, |since| now.saturating_sub(since)));
        }
        self.wakes(next, now);
        if let Some(open) = self.open.get_mut(&prev) {
            if let Some(since) = open.running_since.take() {
                open.activation.running_ns += now.saturating_sub(since);
            }
            open.activation.cpu = cpu;
            if !sleeps(state) {
                open.activation.preemptions += 1;
            } else if let Some(open) = self.open.remove(&prev) {
                // One that was never seen to start began before its events did.
                if open.started {
                    self.all.push(Activation { end_ns: now, ..open.activation });
                }
            }
        }
        self.running.remove(&prev);
        if !self.open.contains_key(&next) {
            self.running.insert(next, now);
        }
        if let Some(open) = self.open.get_mut(&next) {
            if !open.started {
                open.started = true;
                open.activation.start_ns = now;
            }
            open.running_since = Some(now);
            open.activation.cpu = cpu;
        }
    }
}

impl Activations {
    /// The running task ends an activation so long after the next one was due. Where it slept since then, the sleep ended it.
    pub fn late(&mut self, pid: i32, now: u64, late_ns: u64) {
        let goes_on = |open: &&mut Open| open.follows || open.activation.woken_ns < now.saturating_sub(late_ns);
        let Some(open) = self.open.get_mut(&pid).filter(goes_on) else { return };
        let Some(since) = open.running_since.replace(now) else { return };
        let ran_ns = open.activation.running_ns + now.saturating_sub(since);
        self.all.push(Activation { end_ns: now, running_ns: ran_ns, late: true, ..open.activation });
        let cpu = open.activation.cpu;
        (open.activation, open.follows) = (Activation { cpu, ..Open::new(pid, now).activation }, true);
    }

    /// A task runs on its CPU no more, although no switch shows it: when the activation under way ended is not known.
    fn lost(&mut self, pid: i32, woken_ns: Option<u64>) {
        self.open.remove(&pid);
        self.running.remove(&pid);
        if let Some(woken_ns) = woken_ns {
            self.opens(pid, woken_ns);
        }
    }
}

impl SchedSink for Activations {
    fn event(&mut self, event: &Event<'_>, what: &SchedEvent<'_>) {
        self.until(event.time_ns);
        match *what {
            SchedEvent::Switch { prev, prev_state, next } => {
                if prev.prio.is_some_and(|prio| prio < 0) {
                    self.of_deadline_class.insert(prev.pid);
                }
                self.switch(event.cpu, event.time_ns, prev.pid, prev_state, next.pid);
            }
            SchedEvent::Waking { task } | SchedEvent::Wakeup { task, .. } => self.wakeup(task.pid, event.time_ns),
            SchedEvent::Lost { pid, woken_ns, .. } => self.lost(pid, woken_ns),
            SchedEvent::Late { pid, late_ns } => self.late(pid, event.time_ns, late_ns),
            SchedEvent::Mark { text } => {
                let stated = setting(text, "dl_deadline_ns").and_then(|(pid, ns)| Some((pid, ns.parse().ok()?)));
                self.stated_ns.extend(stated);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::decoded;
    use opplab_trace::{ReadOptions, TraceFile};

    const TEXT: &str = "\
        x-0 [000] 0.000010: sched_waking: comm=a pid=7 prio=120 target_cpu=000\n\
        x-0 [000] 0.000012: sched_wakeup: comm=a pid=7 prio=120 target_cpu=000\n\
        x-0 [000] 0.000020: sched_switch: prev_comm=x prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=7 next_prio=120\n\
        a-7 [000] 0.000050: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=R+ ==> next_comm=b next_pid=8 next_prio=120\n\
        b-8 [000] 0.000060: sched_switch: prev_comm=b prev_pid=8 prev_prio=120 prev_state=S ==> next_comm=a next_pid=7 next_prio=120\n\
        a-7 [000] 0.000065: sched_waking: comm=a pid=7 prio=120 target_cpu=000\n\
        a-7 [000] 0.000070: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=x next_pid=0 next_prio=120\n\
        x-0 [000] 0.000090: sched_waking: comm=a pid=7 prio=120 target_cpu=000\n";

    #[test]
    fn an_activation_lasts_from_wake_up_to_sleep() {
        let (options, mut activations) = (ReadOptions::default(), Activations::default());
        let file = TraceFile::from_bytes(TEXT.as_bytes().to_vec(), &options).unwrap();
        file.stream(&options, &mut decoded(&mut activations)).unwrap();
        let expected = Activation {
            pid: 7,
            woken_ns: 10_000,
            start_ns: 20_000,
            end_ns: 70_000,
            running_ns: 40_000,
            cpu: 0,
            preemptions: 1,
            late: false,
        };
        // Task 8's wake-up is not in the trace; the second of task 7 does not end.
        assert_eq!(activations.all, [expected]);
        // Awake from 10 to 70 us and at the end.
        assert_eq!(activations.mostly_awake(), BTreeSet::from([7]));
        let [left] = activations.under_way()[..] else { panic!("the last wake-up") };
        assert_eq!((left.pid, left.woken_ns, left.end_ns, left.running_ns), (7, 90_000, 90_000, 0));
    }
}
