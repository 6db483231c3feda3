//! Units of the benchmark's metric that tasks do, with the parts of those that are under way when the measurement starts and ends.
//!
//! ```text
//!          end of warm-up                           end
//!   ----x--------|----x--------x--------x--------x---|      x: a unit is done
//!                |part|   1    |   1    |   1    |part      the mean unit stands for the one that has not ended
//! ```

use opplab_model::metric::UNIT_SHIFT;

use crate::ids::TaskId;

/// What one task has done, in ns of the run; times are 0 where there is none.
#[derive(Debug, Clone, Copy, Default)]
struct Done {
    /// The last unit in the warm-up.
    before_ns: u64,
    /// The first one after it, and the last.
    first_ns: u64,
    last_ns: u64,
    /// How many after it.
    nr: u64,
}

impl Done {
    /// Its units from `start_ns` to `end_ns`, the end of the run; one that lives has another one under way.
    fn units(&self, start_ns: u64, end_ns: u64, lives: bool) -> u128 {
        let Self { before_ns, first_ns, last_ns, nr } = *self;
        if nr == 0 {
            return 0;
        }
        let part = |ns: u64, whole_ns: u64| (u128::from(ns) << UNIT_SHIFT) / u128::from(whole_ns.max(1));
        // Without an earlier one it began when its task did: it counts as a whole.
        let (at_start, from_ns, nr_known) = match before_ns {
            0 => (1 << UNIT_SHIFT, first_ns, nr - 1),
            _ => (part(first_ns - start_ns, first_ns - before_ns), before_ns, nr),
        };
        let under_way = u128::from(end_ns - last_ns) * u128::from(nr_known);
        let at_end = (under_way << UNIT_SHIFT).checked_div(u128::from(last_ns - from_ns)).unwrap_or(0);
        let at_end = if lives { at_end.min(1 << UNIT_SHIFT) } else { 0 };
        (u128::from(nr - 1) << UNIT_SHIFT) + at_start + at_end
    }
}

/// When tasks did units.
#[derive(Debug, Default)]
pub(crate) struct Counted(Vec<Done>);

impl Counted {
    /// `task` does a unit now; up to `start_ns` it belongs to the warm-up.
    #[inline]
    pub(crate) fn note(&mut self, task: TaskId, now_ns: u64, start_ns: u64) {
        if self.0.len() <= task.index() {
            self.grow(task);
        }
        let done = &mut self.0[task.index()];
        if start_ns > 0 && now_ns <= start_ns {
            done.before_ns = now_ns;
            return;
        }
        if done.nr == 0 {
            done.first_ns = now_ns;
        }
        done.last_ns = now_ns;
        done.nr += 1;
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, task: TaskId) {
        self.0.resize(task.index() + 1, Done::default());
    }

    /// The units of all tasks from `start_ns` to `end_ns`, << [`UNIT_SHIFT`].
    pub(crate) fn units(&self, start_ns: u64, end_ns: u64, lives: impl Fn(TaskId) -> bool) -> u128 {
        let tasks = self.0.iter().enumerate();
        tasks.map(|(task, done)| done.units(start_ns, end_ns, lives(TaskId::of(task)))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Units of one task that did some at these times, measured from `start_ns` to `end_ns`.
    fn units(times: impl IntoIterator<Item = u64>, start_ns: u64, end_ns: u64, lives: bool) -> f64 {
        let mut counted = Counted::default();
        times.into_iter().for_each(|ns| counted.note(TaskId(3), ns, start_ns));
        opplab_model::metric::units(counted.units(start_ns, end_ns, |_| lives))
    }

    #[test]
    fn equal_units_are_time_by_period_wherever_the_window_falls() {
        for period_ns in [43_070_000, 43_440_000, 43_760_000] {
            for phase_ns in (0..period_ns).step_by(7_000_000) {
                let times = (0..).map(|unit| phase_ns + unit * period_ns).take_while(|&ns| ns <= 3_000_000_000);
                let of_all = units(times, 1_000_000_000, 3_000_000_000, true);
                assert!((of_all - 2e9 / period_ns as f64).abs() < 1e-4, "{period_ns} {phase_ns}: {of_all}");
            }
        }
    }

    #[test]
    fn a_task_that_has_stopped_has_at_most_one_more() {
        assert_eq!(units([10, 20, 30, 40], 0, 1_000_000, true), 5.0);
        assert_eq!(units([10, 20, 30, 40], 0, 1_000_000, false), 4.0);
        assert_eq!(units([10, 20, 30, 40], 35, 45, true), 1.0);
        assert_eq!(units([40], 0, 50, true), 1.0, "how long one takes is not known");
        assert_eq!(units([10, 20], 30, 60, true), 0.0);
        assert_eq!(units([], 0, 50, true), 0.0);
    }
}
