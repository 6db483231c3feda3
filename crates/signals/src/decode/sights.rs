//! Where tasks are seen, and what this shows of CPUs whose own events are missing. [`super::decoded_threads`] hands it on to
//! all that take a trace's events.
//!
//! A task runs on one CPU at a time. One that came to a CPU and is then seen on another ran on the first no later than that, even if no
//! switch there shows it; one that is seen elsewhere did not run before that on the CPU whose first switch it leaves. A CPU that
//! enters or leaves an idle state runs no task, and neither does one that is taken down.

use std::collections::{BTreeSet, HashMap};

use super::{SchedEvent, pid_of};

/// A task as it was seen last.
#[derive(Clone, Copy, Debug)]
struct Sight {
    /// Its number ([`super::Threads`]).
    number: i32,
    cpu: u32,
    /// When it was seen last, and since when it can have been on this CPU, ns.
    seen_ns: u64,
    since_ns: u64,
    runs: bool,
    /// A `sched_waking` while it ran: a wake-up of a task that runs, unless it turns out to have left.
    waking_ns: Option<u64>,
}

/// Where each task was seen last, and who runs where.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sights {
    /// By pid.
    tasks: HashMap<i32, Sight>,
    /// Pid of the task that runs, by CPU.
    running: Vec<Option<i32>>,
    /// CPUs with a switch or an idle event.
    has_come: Vec<bool>,
    /// CPUs that are taken down.
    going: BTreeSet<u32>,
}

impl Sights {
    fn place(&mut self, cpu: u32) -> usize {
        let place = (cpu & 0xffff) as usize;
        if self.running.len() <= place {
            self.running.resize(place + 1, None);
            self.has_come.resize(place + 1, false);
        }
        place
    }

    /// The running task of a CPU is there no more, without a word about it.
    fn leave(&mut self, place: usize) -> Option<Sight> {
        let sight = self.tasks.get_mut(&self.running[place].take()?)?;
        sight.runs = false;
        Some(*sight)
    }

    /// Task `number` is seen on `cpu`; `is_move`: it came there just now.
    fn sees(&mut self, now_ns: u64, number: i32, cpu: u32, is_move: bool, shown: &mut Vec<SchedEvent<'_>>) {
        let fresh = Sight { number, cpu, seen_ns: now_ns, since_ns: 0, runs: false, waking_ns: None };
        let sight = self.tasks.entry(pid_of(number)).or_insert(fresh);
        let (is_other, before) = ((sight.number, sight.cpu) != (number, cpu), *sight);
        sight.seen_ns = now_ns;
        if is_other || (is_move && !before.runs) {
            *sight = Sight { since_ns: now_ns, ..fresh };
        }
        if is_other && before.runs {
            shown.push(SchedEvent::Lost { cpu: before.cpu, pid: before.number, woken_ns: before.waking_ns });
            let place = self.place(before.cpu);
            self.running[place] = None;
        }
    }

    /// `cpu` runs no task.
    fn runs_nobody(&mut self, cpu: u32, shown: &mut Vec<SchedEvent<'_>>) {
        let place = self.place(cpu);
        if let Some(Sight { number: pid, waking_ns: woken_ns, .. }) = self.leave(place) {
            shown.push(SchedEvent::Lost { cpu, pid, woken_ns });
        }
    }

    /// Takes an event that `by_cpu` wrote, with numbers of threads; puts what it shows beside itself into `shown`.
    pub(crate) fn event(&mut self, now_ns: u64, by_cpu: u32, what: &SchedEvent<'_>, shown: &mut Vec<SchedEvent<'_>>) {
        use SchedEvent as E;
        match *what {
            E::Switch { prev, next, .. } => {
                let place = self.place(by_cpu);
                let is_first = !std::mem::replace(&mut self.has_come[place], true);
                if prev.pid != 0 {
                    let before =
                        self.tasks.get(&pid_of(prev.pid)).filter(|before| is_first && before.number == prev.pid);
                    let until = before.map(|one| if one.cpu == by_cpu { one.since_ns } else { one.seen_ns });
                    if let Some(until_ns) = until.filter(|&until_ns| until_ns > 0) {
                        shown.push(E::NotBefore { cpu: by_cpu, pid: prev.pid, since_ns: until_ns });
                    }
                    self.sees(now_ns, prev.pid, by_cpu, false, shown);
                    if let Some(sight) = self.tasks.get_mut(&pid_of(prev.pid)) {
                        sight.waking_ns = None;
                    }
                }
                self.leave(place);
                if next.pid != 0 {
                    self.sees(now_ns, next.pid, by_cpu, true, shown);
                    self.running[place] = Some(pid_of(next.pid));
                    if let Some(sight) = self.tasks.get_mut(&pid_of(next.pid)) {
                        sight.runs = true;
                    }
                }
            }
            E::Waking { task } => {
                if let Some(sight) = self.tasks.get_mut(&pid_of(task.pid)).filter(|sight| sight.runs) {
                    sight.waking_ns = Some(now_ns);
                }
            }
            E::Wakeup { task, target_cpu, new } => {
                self.sees(now_ns, task.pid, target_cpu, new, shown);
                if let Some(sight) = self.tasks.get_mut(&pid_of(task.pid)) {
                    sight.waking_ns = None;
                }
            }
            E::Migrate { pid, dest_cpu, .. } => self.sees(now_ns, pid, dest_cpu, true, shown),
            E::Exit { pid, .. } => self.sees(now_ns, pid, by_cpu, false, shown),
            E::Fork { child_pid: pid, .. } | E::NewTask { pid, .. } => {
                // Another task has the pid.
                if let Some(&Sight { number, cpu, .. }) = self.tasks.get(&pid_of(pid)).filter(|one| one.number != pid) {
                    let place = self.place(cpu);
                    if self.running[place] == Some(pid_of(number)) {
                        self.runs_nobody(cpu, shown);
                    }
                }
            }
            E::Free { pid } => {
                if let Some(&Sight { cpu, .. }) =
                    self.tasks.get(&pid_of(pid)).filter(|one| one.runs && one.number == pid)
                {
                    self.runs_nobody(cpu, shown);
                }
            }
            E::Idle { cpu, .. } => {
                let place = self.place(cpu);
                self.has_come[place] = true;
                self.runs_nobody(cpu, shown);
            }
            E::Hotplug { cpu, goes } => {
                match goes {
                    Some(true) => drop(self.going.insert(cpu)),
                    Some(false) => drop(self.going.remove(&cpu)),
                    // What it does itself shows that it is still there.
                    None if by_cpu != cpu && self.going.contains(&cpu) => {
                        let place = self.place(cpu);
                        let left = self.leave(place);
                        let (pid, woken_ns) = left.map_or((0, None), |one| (one.number, one.waking_ns));
                        shown.push(E::Lost { cpu, pid, woken_ns });
                    }
                    None => {}
                }
            }
            _ => {}
        }
    }
}
