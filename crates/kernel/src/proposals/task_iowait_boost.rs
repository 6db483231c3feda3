//! A boost for I/O that belongs to a task, and grows only while it brings more requests.

use super::proposal::{ProposalEntry, ProposalParam, TaskBoost};
use crate::unit::SCHED_CAPACITY_SCALE;

/// Intervals for which a task stays at its level after a higher one brought nothing.
const HOLD: u32 = 8;

/// The boost of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IoBoost {
    level: u32,
    /// The level before the last climb.
    level_before: u32,
    since_us: u64,
    /// Wake-ups from I/O in this interval, and in the last one.
    count: u32,
    count_before: u32,
    /// This interval is the first at its level, which was reached from below.
    climbed: bool,
    /// Intervals until a higher level is tried again.
    hold: u32,
    last_us: u64,
}

impl IoBoost {
    /// The task wakes from waiting for I/O; `own_util` is what it is estimated to use without a boost.
    pub fn wake(&mut self, now_us: u64, own_util: u64, boost: TaskBoost) {
        if now_us - self.last_us > 4 * boost.interval_us {
            *self = Self { since_us: now_us, ..Self::default() };
        }
        self.last_us = now_us;
        self.count += 1;
        if now_us - self.since_us < boost.interval_us {
            return;
        }
        // Up while a level brings an eighth more requests than the one below, else down again, to stay there for a while.
        if self.climbed && self.count <= self.count_before + self.count_before / 8 {
            self.level = self.level_before;
            (self.climbed, self.hold) = (false, HOLD);
        } else if self.hold == 0 && self.level < boost.levels {
            // Levels that ask for no more than the task does by itself would bring nothing.
            let own_level = own_util * u64::from(boost.levels) / SCHED_CAPACITY_SCALE;
            let own_level = u32::try_from(own_level).unwrap_or(0).min(boost.levels - 1);
            self.level_before = self.level;
            self.level = (self.level + 1).max(own_level + 1);
            self.climbed = true;
        } else {
            (self.climbed, self.hold) = (false, self.hold.saturating_sub(1));
        }
        (self.since_us, self.count_before, self.count) = (now_us, self.count, 0);
    }

    /// The utilisation that the task asks for at least.
    pub fn util(&self, now_us: u64, boost: TaskBoost) -> u64 {
        if now_us - self.last_us > 4 * boost.interval_us {
            return 0;
        }
        u64::from(self.level) * SCHED_CAPACITY_SCALE / u64::from(boost.levels)
    }
}

/// The proposal.
pub static PROPOSAL: ProposalEntry = ProposalEntry {
    name: "task-iowait-boost",
    what: "Each task has a boost for I/O of its own, which grows by levels only while it brings more requests.",
    thread: "C. Loehle, Introduce per-task io utilization boost, 2024-03, \
             https://lore.kernel.org/lkml/20240304201625.100619-1-christian.loehle@arm.com/",
    differs: "It begins with the first level above the task's own estimate. Three numbers are assumed: an eighth more \
              requests are worth a level, a level stays for eight intervals, and a boost without requests for four. \
              The boost raises the clock, not the choice of a CPU.",
    params: &[
        ProposalParam { name: "levels", what: "levels from none to the whole capacity", min: 1, max: 32, default: 8 },
        ProposalParam { name: "interval_ms", what: "how long requests are counted", min: 1, max: 1000, default: 25 },
    ],
    excludes: &["no-iowait-boost"],
    needs: None,
    within: None,
    apply: |proposals, values| {
        proposals.sugov_iowait_boost = false;
        let (levels, interval_us) = (values.get("levels"), u64::from(values.get("interval_ms")) * 1000);
        proposals.task_iowait_boost = Some(TaskBoost { levels, interval_us });
    },
};

#[cfg(test)]
mod tests {
    use super::*;

    const BOOST: TaskBoost = TaskBoost { levels: 8, interval_us: 25_000 };

    /// Goal: a task whose requests get faster with each level climbs; one that a device holds back stays low.
    #[test]
    fn climbs_while_it_helps() {
        let run = |own_util: u64, gap_us: fn(u64) -> u64| {
            let (mut boost, mut now_us) = (IoBoost::default(), 1_000_000);
            for _ in 0..4000 {
                now_us += gap_us(boost.util(now_us, BOOST));
                boost.wake(now_us, own_util, BOOST);
            }
            boost.util(now_us, BOOST)
        };
        assert!(run(0, |util| 50 + 100_000 / (util + 50)) >= 512);
        assert!(run(0, |_| 100) <= 256);
        // The clock is that of its own utilisation until the boost is above it.
        assert!(run(300, |util| 50 + 100_000 / (util.max(300) + 50)) >= 512);
    }

    #[test]
    fn a_pause_ends_it() {
        let mut boost = IoBoost::default();
        (0..400).for_each(|step| boost.wake(1_000_000 + step * 100, 0, BOOST));
        (0..1000).for_each(|step| boost.wake(1_040_000 + step * 40, 0, BOOST));
        assert!(boost.util(1_080_000, BOOST) > 0);
        assert_eq!(boost.util(1_300_000, BOOST), 0);
    }
}
