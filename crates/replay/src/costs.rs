//! What the recorded machine's own actions cost, measured from the recording.
//!
//! A kernel with probes on an emulator needs tens of microseconds for what a processor does in one. Its own events show
//! how long: events of one CPU that follow each other closely are one piece of kernel code (a *train*). Nothing here looks at
//! what the workload does or how long it runs; only medians are taken.

use std::collections::BTreeMap;

use opplab_model::event::{IDLE_TASK, TaskIdx};
use opplab_model::machine::Costs;
use opplab_model::policy::Policy;
use opplab_sim::Wakes;
use opplab_trace::RecordingFiles;

use crate::calls::takes_samples;
use crate::events::{Context, Ev, Events, Left, What, is_kernel_thread};
use crate::rtlog;

/// Events of one CPU that are no further apart belong to one train, ns.
pub(crate) const TRAIN_GAP_NS: u64 = 25_000;

/// What was measured; `None` where the recording does not show it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Measured {
    /// From the first sign of a task's going to sleep to the switch, ns.
    pub(crate) sleep_ns: Option<u64>,
    /// From `sched_waking` to the end of the wake-up, by a task, ns.
    pub(crate) wakeup_ns: Option<u64>,
    /// An interrupt's visible part on a busy CPU, ns.
    pub(crate) tick_ns: Option<u64>,
    /// From `sched_waking` in an interrupt of an idle CPU to the switch to the woken task there, ns.
    pub(crate) idle_exit_ns: Option<u64>,
    /// A run of a governor's kthread, or of a kworker that takes its samples, ns.
    pub(crate) sugov_ns: Option<u64>,
    /// How long wake-ups on idle CPUs take.
    pub(crate) wakes: Wakes,
}

pub(crate) fn median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

/// Measures the costs that `events` show.
pub(crate) fn measure(events: &Events, policy: &Policy) -> Measured {
    let nr = events.nr_cpus;
    let (mut sleeps, mut wakeups, mut ticks, mut exits, mut sugov) =
        <(Vec<_>, Vec<_>, Vec<_>, Vec<_>, Vec<_>)>::default();
    // Of each CPU: start and last time of the train, the event before, the waking under way, the start of the task.
    let mut train: Vec<Option<(u64, Ev)>> = vec![None; nr];
    let mut waking: Vec<Option<(u32, Ev)>> = vec![None; nr];
    let mut began = vec![0; nr];
    for ev in &events.list {
        let c = ev.cpu as usize;
        let joined = train[c].filter(|(_, last)| {
            ev.time_ns - last.time_ns <= TRAIN_GAP_NS && last.current == ev.current && last.context == ev.context
        });
        if joined.is_none()
            && let Some((start, last)) = train[c]
            && last.context == Context::Interrupt
            && last.current != IDLE_TASK
        {
            ticks.push(last.time_ns - start);
        }
        let start = joined.map_or(ev.time_ns, |(start, _)| start);
        train[c] = Some((start, *ev));
        match ev.what {
            What::Switch { prev, left, next } => {
                if matches!(left, Left::Asleep | Left::Uninterruptible) && prev != IDLE_TASK {
                    if events.name(prev).starts_with("sugov:") || takes_samples(events, policy, prev) {
                        sugov.push(ev.time_ns - began[c]);
                    } else {
                        sleeps.push(ev.time_ns - start);
                    }
                }
                if let Some((task, first)) = waking[c].take()
                    && prev == IDLE_TASK
                    && task == next
                    && first.current == IDLE_TASK
                {
                    exits.push(ev.time_ns - first.time_ns);
                }
                began[c] = ev.time_ns;
                train[c] = None;
            }
            What::Waking { task } if waking[c].is_none() || ev.current != IDLE_TASK => waking[c] = Some((task, *ev)),
            What::Wakeup { task, .. } => {
                if let Some((woken, first)) = waking[c].filter(|(woken, _)| *woken == task)
                    && first.current != IDLE_TASK
                    && first.context != Context::Interrupt
                    && woken == task
                {
                    wakeups.push(ev.time_ns - first.time_ns);
                }
            }
            _ => {}
        }
    }
    Measured {
        sleep_ns: median(sleeps),
        wakeup_ns: median(wakeups),
        tick_ns: median(ticks),
        idle_exit_ns: median(exits),
        sugov_ns: median(sugov),
        wakes: wakes(events),
    }
}

/// A preemption that takes longer is not the wake-up's own, but a later tick's, ns.
const PREEMPT_NS_MAX: u64 = 1_000_000;
/// Fewer wake-ups of a kind than this give no cost of their own.
const WAKES_MIN: usize = 8;

/// From each wake-up on an idle CPU to the switch to the woken task, where the CPU switches to nobody else first, by kind. A kind of few
/// is like all together.
fn wakes(events: &Events) -> Wakes {
    // Of each woken task: when, and the CPU of the task that did it.
    let mut woken: BTreeMap<TaskIdx, (u64, Option<u32>)> = BTreeMap::new();
    // Of each CPU: when it last became idle.
    let mut idle_since: Vec<Option<u64>> = vec![None; events.nr_cpus];
    let mut wakes = Wakes::default();
    let mut all = Vec::new();
    for ev in &events.list {
        match ev.what {
            What::Waking { task } | What::WakeupNew { task, .. } => {
                let by_task = ev.current != IDLE_TASK && ev.context != Context::Interrupt;
                woken.entry(task).or_insert((ev.time_ns, by_task.then_some(ev.cpu)));
            }
            What::Switch { prev, left, next } => {
                let c = ev.cpu as usize;
                if prev != IDLE_TASK && left != Left::Runnable {
                    woken.remove(&prev);
                }
                if next == IDLE_TASK {
                    idle_since[c] = Some(ev.time_ns);
                    continue;
                }
                let Some((since_ns, by)) = woken.remove(&next) else { continue };
                let took_ns = ev.time_ns - since_ns;
                if prev != IDLE_TASK && left == Left::Runnable && took_ns < PREEMPT_NS_MAX {
                    wakes.preempt_ns.push(took_ns);
                } else if prev == IDLE_TASK && idle_since[c].is_some_and(|idle_ns| idle_ns <= since_ns) {
                    let times_ns = match is_kernel_thread(events.name(next)) {
                        true => &mut wakes.kernel_ns,
                        false => &mut wakes.user_ns,
                    };
                    times_ns[usize::from(by.is_some_and(|by| by != ev.cpu))].push(took_ns);
                    all.push(took_ns);
                }
            }
            _ => {}
        }
    }
    all.sort_unstable();
    wakes.preempt_ns.sort_unstable();
    if wakes.preempt_ns.len() < WAKES_MIN {
        wakes.preempt_ns.clear();
    }
    for times_ns in wakes.kernel_ns.iter_mut().chain(&mut wakes.user_ns) {
        times_ns.sort_unstable();
        if times_ns.len() < WAKES_MIN {
            times_ns.clone_from(&all);
        }
    }
    wakes
}

impl Measured {
    /// Each cost that a recording may show: its name for readers, its path in machine files, and what is shown of it.
    fn table(&self) -> [(&'static str, &'static str, Option<u64>); 4] {
        [
            ("context switch", "costs.context_switch_ns", self.sleep_ns),
            ("wake-up", "costs.wakeup_ns", self.wakeup_ns),
            ("tick", "costs.tick_ns", self.tick_ns),
            ("slow switch of the clock", "costs.sugov_work_ns", self.sugov_ns),
        ]
    }

    /// With what the workload's own logs show of a context switch: between its probes the kernel is not seen.
    pub(crate) fn with_logs(self, files: &RecordingFiles, events: &Events) -> Self {
        Self { sleep_ns: rtlog::around_run_ns(&files.texts("rtlog", "log"), events).or(self.sleep_ns), ..self }
    }

    /// The machine's costs: what was measured, else what `base` has.
    pub(crate) fn over(&self, base: Costs) -> Costs {
        Costs {
            context_switch_ns: self.sleep_ns.unwrap_or(base.context_switch_ns),
            wakeup_ns: self.wakeup_ns.unwrap_or(base.wakeup_ns),
            // Part of the times above.
            ipi_ns: 0,
            tick_ns: self.tick_ns.unwrap_or(base.tick_ns),
            sugov_work_ns: self.sugov_ns.unwrap_or(base.sugov_work_ns),
        }
    }

    /// Whether the number at this path of a machine file is of the recording, and so has no range.
    pub(crate) fn covers(&self, path: &str) -> bool {
        path == "costs.ipi_ns" || self.table().iter().any(|&(_, of, ns)| of == path && ns.is_some())
    }

    /// Where the costs of a machine called `name` are not those that the recording shows, for readers: they are of another machine, or
    /// of this one without probes.
    pub(crate) fn unlike(&self, name: &str, costs: Costs) -> Option<String> {
        let Costs { context_switch_ns, wakeup_ns, tick_ns, sugov_work_ns, .. } = costs;
        let values = [context_switch_ns, wakeup_ns, tick_ns, sugov_work_ns];
        let both = self.table().map(|(name, _, measured)| (name, measured)).into_iter().zip(values);
        // Half as much again is beyond what single runs differ by.
        let others = both.filter_map(|((name, measured), ns)| {
            let shown = measured.filter(|&shown| shown.max(ns) > shown.min(ns).saturating_mul(3) / 2)?;
            Some(format!("{name} {ns} ns, not {shown}"))
        });
        let others: Vec<String> = others.collect();
        (!others.is_empty()).then(|| {
            format!(
                "costs are those of {name}, not those that the recording shows: {}; a closed loop's latencies follow them \
                 (without --machine they are the recording's)",
                others.join(", ")
            )
        })
    }

    /// What the machine's own actions cost, for readers: what was measured, and what the recording does not show. `exit_ns` is the idle
    /// exit where the machine has no other.
    pub(crate) fn texts(&self, costs: Costs, exit_ns: Option<u64>) -> Vec<String> {
        let Costs { context_switch_ns, wakeup_ns, ipi_ns: _, tick_ns, sugov_work_ns } = costs;
        let values = [context_switch_ns, wakeup_ns, tick_ns, sugov_work_ns];
        let all = self.table().map(|(name, _, measured)| (name, measured.is_some())).into_iter().zip(values);
        let all = all.chain(exit_ns.map(|ns| (("idle exit", self.idle_exit_ns.is_some()), ns)));
        let (shown, others): (Vec<_>, Vec<_>) = all.partition(|((_, is_measured), _)| *is_measured);
        let list = |costs: Vec<((&str, bool), u64)>| {
            costs.iter().map(|((name, _), ns)| format!("{name} {ns} ns")).collect::<Vec<_>>().join(", ")
        };
        let heads =
            ["costs measured from the recording, with interrupts between CPUs", "costs that it does not show, assumed"];
        let both = heads.into_iter().zip([shown, others]).filter(|(_, costs)| !costs.is_empty());
        both.map(|(head, costs)| format!("{head}: {}", list(costs))).collect()
    }
}
