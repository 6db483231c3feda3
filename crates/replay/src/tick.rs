//! When the recorded kernel's ticks came.

use opplab_kernel::unit::tick_nsec;
use opplab_model::event::IDLE_TASK;
use opplab_sim::first_tick_ns;

use crate::events::{Context, Events, What};

/// Interrupts whose first events are no further apart than this count as one phase, ns.
const SHARP_NS: u64 = 4_000;
/// An event that follows the one before on its CPU by less belongs to the same interrupt, ns.
const JOINED_NS: u64 = 25_000;

/// The phase of the tick: time of one tick modulo the `tick_ns` between ticks, which most interrupts share that woke nobody. `None` if
/// there are too few. The clock of a simulated run starts with it.
pub(crate) fn phase_ns(events: &Events, tick_ns: u64) -> Option<u64> {
    if events.is_simulated() {
        return Some((first_tick_ns(tick_ns) + tick_ns - events.first_ns % tick_ns) % tick_ns);
    }
    // Of each CPU: the interrupt under way (start, whether it woke somebody) and its last event.
    let mut under_way: Vec<Option<(u64, bool)>> = vec![None; events.nr_cpus];
    let mut last_ns = vec![0; events.nr_cpus];
    let mut phases: Vec<u64> = Vec::new();
    for ev in &events.list {
        let c = ev.cpu as usize;
        let begins = ev.context == Context::Interrupt || matches!(ev.what, What::Idle { state: None, .. });
        let joined = ev.time_ns - last_ns[c] < JOINED_NS;
        last_ns[c] = ev.time_ns;
        if let (Some((_, woke)), What::Waking { .. }) = (&mut under_way[c], ev.what) {
            *woke = true;
        }
        if joined && under_way[c].is_some() {
            continue;
        }
        if let Some((start, false)) = under_way[c].take() {
            phases.push(start % tick_ns);
        }
        under_way[c] = begins.then_some((ev.time_ns, false));
    }
    phases.sort_unstable();
    // The most phases within SHARP_NS, around the end of the circle, too.
    let wrapped: Vec<u64> = phases.iter().copied().chain(phases.iter().map(|phase| phase + tick_ns)).collect();
    let count = |&start: &u64| {
        wrapped.partition_point(|&phase| phase <= start + SHARP_NS) - wrapped.partition_point(|&phase| phase < start)
    };
    let start = phases.iter().max_by_key(|&start| (count(start), u64::MAX - start))?;
    if count(start) * SHARP_SHARE < phases.len()
        && let Some((phase_ns, _)) = late_ticks(events, tick_ns)
    {
        return Some(phase_ns);
    }
    (count(start) >= 8).then_some(*start)
}

/// Ticks are sharp if one in so many interrupts is one of them.
const SHARP_SHARE: usize = 8;
/// After so long without any event of its CPU an interrupt begins by itself, ns.
const ALONE_NS: u64 = 700_000;
/// Ticks come no later than this, ns.
const LATE_NS_MAX: u64 = 600_000;
/// Fewer interrupts show nothing.
const LATE_MIN: usize = 32;

/// The phase of ticks, and by how much each was seen to come after it, ascending: of the interrupts that came alone those within
/// [`LATE_NS_MAX`] that most are within. `None` if that is less than half of them. Ticks of a simulated run are the engine's own.
pub(crate) fn late_ticks(events: &Events, tick_ns: u64) -> Option<(u64, Vec<u64>)> {
    if events.is_simulated() {
        return None;
    }
    let mut last_ns = vec![0; events.nr_cpus];
    let mut phases: Vec<u64> = Vec::new();
    for ev in &events.list {
        let begins = ev.context == Context::Interrupt || matches!(ev.what, What::Idle { state: None, .. });
        let before_ns = std::mem::replace(&mut last_ns[ev.cpu as usize], ev.time_ns);
        if begins && ev.time_ns - before_ns > ALONE_NS {
            phases.push(ev.time_ns % tick_ns);
        }
    }
    phases.sort_unstable();
    let nr = phases.len();
    let wrapped: Vec<u64> = phases.iter().copied().chain(phases.iter().map(|phase| phase + tick_ns)).collect();
    let end = |first: usize| wrapped.partition_point(|&phase| phase <= wrapped[first] + LATE_NS_MAX);
    let first = (0..nr).max_by_key(|&first| (end(first) - first, nr - first))?;
    let ticks = &wrapped[first..end(first)];
    if ticks.len() < LATE_MIN || ticks.len() * 2 < nr {
        return None;
    }
    // Some interrupts of other kinds are among them: one in fifty comes before the tick.
    let phase_ns = ticks[ticks.len() / 50];
    Some((phase_ns % tick_ns, ticks.iter().map(|&at| at.saturating_sub(phase_ns)).collect()))
}

/// So long before a tick a timer of the wheel is due, ns: ticks of a run come when those of the trace came, to some ns.
pub(crate) const DUE_NS: u64 = 1_000;
/// So long after a tick what it does is still seen to begin, ns.
pub(crate) const TICK_NS_MAX: u64 = 400_000;

/// Since when the last tick was, or is about to be, before `time_ns`; `None` if `time_ns` is not near one.
pub(crate) fn since_tick_ns(time_ns: u64, phase_ns: u64, tick_ns: u64) -> Option<u64> {
    let since_ns = (time_ns + tick_ns - phase_ns % tick_ns) % tick_ns;
    (since_ns <= TICK_NS_MAX).then_some(since_ns)
}

/// Ticks that took idle CPUs out of idle, and the CPUs: when the timer wheel's timers were due that they came for, ns after `from_ns`. The
/// first tick after a CPU ran a task is none of them: it comes before the tick stops. A simulated run has no timers but its tasks' and
/// the engine's own.
pub(crate) fn idle_ticks(events: &Events, hz: u32, from_ns: u64) -> Vec<(u64, u32)> {
    if events.is_simulated() {
        return Vec::new();
    }
    let tick_ns = tick_nsec(hz.into());
    let Some(phase_ns) = phase_ns(events, tick_ns) else { return Vec::new() };
    let mut last_ns = vec![0; events.nr_cpus];
    let mut left_ns = vec![0; events.nr_cpus];
    let mut ticks = Vec::new();
    for ev in &events.list {
        let c = ev.cpu as usize;
        if matches!(ev.what, What::Switch { .. }) {
            left_ns[c] = ev.time_ns;
        }
        let entered = matches!(ev.what, What::Idle { state: Some(_), .. });
        // What follows an entry closely is an interrupt of its own.
        let joined = ev.time_ns - std::mem::replace(&mut last_ns[c], if entered { 0 } else { ev.time_ns }) < JOINED_NS;
        let exits = ev.context == Context::Interrupt || matches!(ev.what, What::Idle { state: None, .. });
        let first = ev.time_ns - left_ns[c] <= tick_ns + TICK_NS_MAX;
        if joined || !exits || first || ev.current != IDLE_TASK || ev.time_ns < from_ns {
            continue;
        }
        if let Some(since_ns) = since_tick_ns(ev.time_ns, phase_ns, tick_ns) {
            ticks.push(((ev.time_ns - from_ns).saturating_sub(since_ns + DUE_NS), ev.cpu));
        }
    }
    ticks
}
