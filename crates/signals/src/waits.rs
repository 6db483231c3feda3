//! Waits for a CPU: the one definition of wake-up latency.
//!
//! A wake-up latency is counted from the first event of a wake-up to the `sched_switch` to the task. The first event is
//! `sched_waking`, or `sched_wakeup` or `sched_wakeup_new` where no `sched_waking` comes before. A wake-up of a task that runs
//! counts nothing: it only resets the task's state. A task that was preempted waits, too, but not for its wake-up. A task that goes to
//! sleep waits no more, whether or not a switch to it was seen.

use std::collections::HashMap;
use std::hash::Hash;

pub use opplab_stats::quantile::nearest_rank;

/// Who is runnable without running, and who runs; by default the idle task is 0.
#[derive(Debug, Default)]
pub struct Waits<T> {
    /// Since when, and whether by a wake-up.
    runnable: HashMap<T, (u64, bool)>,
    running: HashMap<u32, T>,
    idle: T,
}

impl<T: Copy + Eq + Hash> Waits<T> {
    /// Of tasks of which `idle` is the idle one.
    pub fn new(idle: T) -> Self {
        Self { runnable: HashMap::new(), running: HashMap::new(), idle }
    }

    /// `task` runs on `cpu`: what a caller knows before the first switch there.
    pub fn runs(&mut self, cpu: u32, task: T) {
        self.running.insert(cpu, task);
    }

    /// An event of a wake-up of `task`.
    pub fn woken(&mut self, task: T, now_ns: u64) {
        if !self.running.values().any(|&running| running == task) {
            self.runnable.entry(task).or_insert((now_ns, true));
        }
    }

    /// `task` runs on `cpu` no more, although no switch shows it; `woken_ns`: when it was woken, if it was.
    pub fn lost(&mut self, cpu: u32, task: T, woken_ns: Option<u64>) {
        if self.running.get(&cpu) == Some(&task) {
            self.running.remove(&cpu);
        }
        if let Some(woken_ns) = woken_ns {
            self.runnable.insert(task, (woken_ns, true));
        }
    }

    /// `cpu` changes from `prev`, which is still runnable or not, to `next`: how long that had waited, ns, and whether since a
    /// wake-up; `None` if it is not known.
    pub fn switch(&mut self, cpu: u32, now_ns: u64, (prev, is_runnable): (T, bool), next: T) -> Option<(u64, bool)> {
        let idle = self.idle;
        if prev != idle && is_runnable {
            self.runnable.insert(prev, (now_ns, false));
        } else {
            self.runnable.remove(&prev);
        }
        self.running.insert(cpu, next);
        let (since_ns, woken) = self.runnable.remove(&next).filter(|_| next != idle)?;
        Some((now_ns.saturating_sub(since_ns), woken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_event_of_a_wake_up_counts() {
        let mut waits = Waits::<i32>::default();
        waits.woken(7, 10);
        waits.woken(7, 14);
        assert_eq!(waits.switch(0, 30, (0, true), 7), Some((20, true)));
        // It runs: no wake-up.
        waits.woken(7, 35);
        assert_eq!(waits.switch(0, 40, (7, true), 8), None);
        assert_eq!(waits.switch(0, 55, (8, false), 7), Some((15, false)));
    }
}
