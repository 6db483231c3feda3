//! How programs vary from run to run: the length of each activation, when tasks start, how late timers may be.
//!
//! A real program does not do the same work twice to the nanosecond, and the threads of a workload do not start at the same
//! instants twice. A workload file states neither, so without this a run has no variation at all and no interval. What varies is
//! drawn here from the case's seed, so that all policies of one seed see the same program.
//!
//! Benchmark models draw their own lengths; they are left as they are.

use rand_core::Rng;
use rand_pcg::Pcg64;

use crate::workload::{Op, Workload};

/// A named way in which programs vary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variation {
    /// Not at all.
    None,
    /// As rt-app does on a board of its own.
    RtApp,
    /// As rt-app does in a virtual machine whose host has other work.
    NoisyHost,
}

/// The names of the ways in which programs vary.
pub const VARIATIONS: &[(&str, Variation)] =
    &[("none", Variation::None), ("rt-app", Variation::RtApp), ("noisy-host", Variation::NoisyHost)];

/// Lengths of activations against their median, in parts of 10000, from the shortest to the longest at equal steps of
/// probability: ten activations of 25 ms of an rt-app task on a Juno at one clock (LISA's `trace_txt/trace.txt`, task
/// `task_r20_5-60`), without what preempted them. Alone on an emulated CPU rt-app spreads as little or less (0.0 to 0.7 %).
const JUNO_LENGTHS: &[u64] = &[9941, 9947, 9983, 9986, 9994, 10006, 10009, 10017, 10074, 10087];

/// The same for 722 activations of the two tasks of `x86-612-fast-mttcg-xeon16-any1-conservative-burst` and the three of
/// `...-ondemand-pipeline`, whose virtual CPUs share a host with others (`run` of rt-app's own logs), against their mean.
const NOISY_LENGTHS: &[u64] = &[4972, 6504, 8289, 9141, 9657, 9915, 10192, 10847, 11570, 13583, 20768];

/// Time from the first activation of one task of a workload to that of the next, in us, from the shortest to the longest at equal
/// steps of probability: 51 pairs in the eleven recordings of rt-app on `arm64-612-*` and `x86-61*` whose tasks have no delay.
const START_GAPS_US: &[u64] = &[138, 858, 903, 934, 1006, 1244, 1681, 1852, 2482, 2773, 4087];

/// How late a timer of a fair task may be: what Linux gives every process (include/linux/init_task.h:timer_slack_ns, v6.12), which
/// rt-app leaves as it is.
pub const TIMER_SLACK_NS: u64 = 50_000;

/// Lengths that are drawn for a step in a loop, before they come again in another order.
const DRAWS: usize = 64;

/// The random streams of this module.
const STREAM: u128 = 0x7661_7269 << 64;

/// Draws from the distribution that `quantiles` describe.
fn draw(quantiles: &[u64], rng: &mut Pcg64) -> u64 {
    const STEP: u64 = 1 << 16;
    let place = rng.next_u64() % ((quantiles.len() as u64 - 1) * STEP);
    let (index, part) = ((place / STEP) as usize, place % STEP);
    // Quantiles ascend.
    quantiles[index] + (quantiles[index + 1] - quantiles[index]) * part / STEP
}

impl Variation {
    fn lengths(self) -> &'static [u64] {
        match self {
            Self::None => &[],
            Self::RtApp => JUNO_LENGTHS,
            Self::NoisyHost => NOISY_LENGTHS,
        }
    }

    /// The workload as it is in the run of `seed`. Workloads with a metric of their own are left as they are: their models vary by
    /// themselves. Of work that was `recorded`, or counts its timers from times of a recording, only lengths vary.
    #[must_use]
    pub fn applied(self, mut workload: Workload, recorded: bool, seed: u64) -> Workload {
        if self == Self::None || workload.metric.is_some() {
            return workload;
        }
        let is_recorded =
            recorded || workload.tasks.iter().any(|task| task.ops.iter().any(|op| matches!(op, Op::TimersFrom { .. })));
        let mut rng = Pcg64::new(seed.into(), STREAM);
        // What the models' tables hold is drawn from them, and varies already; recorded lists come in their order.
        let mut listed: Vec<u32> = Vec::new();
        let mut start_ns = 0;
        for task in &mut workload.tasks {
            if task.initial && !is_recorded {
                task.delay_ns += start_ns;
                start_ns += draw(START_GAPS_US, &mut rng) * 1000;
            }
            let mut depth = 0;
            for op in &mut task.ops {
                match *op {
                    Op::LoopBegin { .. } => depth += 1,
                    Op::LoopEnd { .. } => depth -= 1,
                    Op::Run { work_ns, fixed } if depth > 0 => {
                        workload.draws.push((0..DRAWS).map(|_| self.varied(work_ns, &mut rng)).collect());
                        *op = Op::RunDraw { draw: workload.draws.len() as u32 - 1, fixed };
                    }
                    Op::Run { work_ns, fixed } => *op = Op::Run { work_ns: self.varied(work_ns, &mut rng), fixed },
                    Op::RunListed { draw, .. } if !listed.contains(&draw) => listed.push(draw),
                    _ => {}
                }
            }
            if task.policy.is_fair()
                && !is_recorded
                && !task.ops.iter().any(|op| matches!(op, Op::SetTimerSlack { .. }))
            {
                for op in &mut task.ops {
                    if let Op::LoopEnd { begin, .. } = op {
                        *begin += 1;
                    }
                }
                task.ops.insert(0, Op::SetTimerSlack { ns: TIMER_SLACK_NS });
            }
        }
        for table in listed {
            for work_ns in &mut workload.draws[table as usize] {
                *work_ns = self.varied(*work_ns, &mut rng);
            }
        }
        workload
    }

    /// A length of this activation.
    fn varied(self, work_ns: u64, rng: &mut Pcg64) -> u64 {
        let varied = u128::from(work_ns) * u128::from(draw(self.lengths(), rng)) / 10_000;
        u64::try_from(varied).unwrap_or(work_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::TaskSpec;

    fn periodic() -> Workload {
        let ops = vec![
            Op::Run { work_ns: 1_000_000, fixed: 0 },
            Op::LoopBegin { slot: 0, count: None },
            Op::Run { work_ns: 800_000, fixed: 3 },
            Op::Sleep { ns: 5 },
            Op::LoopEnd { slot: 0, begin: 1 },
            Op::Exit,
        ];
        let task = TaskSpec { name: "t".into(), initial: true, ops, loop_slots: 1, ..TaskSpec::default() };
        Workload { tasks: vec![task.clone(), task], ..Workload::default() }
    }

    #[test]
    fn a_seed_gives_one_program_and_another_seed_another() {
        let varied = |seed| Variation::RtApp.applied(periodic(), false, seed);
        assert_eq!(varied(1), varied(1));
        assert_ne!(varied(1), varied(2));
        assert_eq!(Variation::None.applied(periodic(), false, 1), periodic());
        varied(1).check(1).expect("what varies is still a program");
    }

    #[test]
    fn lengths_are_those_that_were_measured_and_starts_are_apart() {
        let varied = Variation::RtApp.applied(periodic(), false, 7);
        assert_eq!(varied.tasks[0].delay_ns, 0);
        assert!((138_000..=4_087_000).contains(&varied.tasks[1].delay_ns));
        assert_eq!(varied.tasks[0].ops[0], Op::SetTimerSlack { ns: TIMER_SLACK_NS });
        let Op::RunDraw { draw, fixed: 3 } = varied.tasks[0].ops[3] else { panic!("the loop's work is drawn") };
        let lengths = &varied.draws[draw as usize];
        let mean = lengths.iter().sum::<u64>() / lengths.len() as u64;
        assert!(lengths.iter().all(|length| (795_000..=807_000).contains(length)), "{lengths:?}");
        assert!((798_000..=803_000).contains(&mean), "{mean}");
    }

    #[test]
    fn a_noisy_host_spreads_more_and_keeps_the_mean() {
        let mut rng = Pcg64::new(1, 1);
        let lengths: Vec<u64> = (0..20_000).map(|_| Variation::NoisyHost.varied(1_000_000, &mut rng)).collect();
        let mean = lengths.iter().sum::<u64>() / 20_000;
        assert!((985_000..=1_035_000).contains(&mean), "{mean}");
        assert!(lengths.iter().any(|&length| length < 700_000) && lengths.iter().any(|&length| length > 1_300_000));
    }
}
