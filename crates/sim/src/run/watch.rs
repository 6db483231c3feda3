//! Which engines are compiled: one for runs that nobody watches, and those that report to a sink of any type, by reference.
//!
//! The engine is generic over its sink, so that an unwatched run has no trace of events. Were it compiled anew for each
//! sink of each caller, every crate above would compile most of this one again, once for each half-life.
//!
//! A debug build, which tests wait for, has fewer: rare half-lives are always watched, and decisions always gathered.

use opplab_kernel::pelt::{HalfLife, HalfLife8, HalfLife16, HalfLife32};
use opplab_model::counters::Sample;
use opplab_model::decision::Decision;
use opplab_model::event::{Event, ExpiredTimer, IdleCall, Metered, NullSink, QueueChange, Sink, UtilReport};
use opplab_model::workload::SchedPolicy;

use crate::run::engine::Engine;
use crate::run::hooks::Hooks;
use crate::{Case, CaseError, Outcome, Start};

/// [`Sink`] without its constants, for a reference to any.
trait Watcher {
    fn event(&mut self, now_ns: u64, event: &Event);
    fn sample_period_ns(&self) -> u64;
    fn sample(&mut self, sample: Sample);
    fn decision(&mut self, now_ns: u64, decision: &Decision);
    fn power(&mut self, now_ns: u64, metered: Metered, power_uw: u64);
    fn queued(&mut self, now_ns: u64, cpu: u32, task: u32, group: Option<u32>, change: QueueChange);
    fn policy(&mut self, now_ns: u64, task: u32, policy: SchedPolicy);
    fn clamps(&mut self, now_ns: u64, task: u32, min: Option<u16>, max: u16);
    fn affinity(&mut self, now_ns: u64, task: u32, cpus: Option<&[u32]>);
    fn timer_due(&mut self, task: u32, due_ns: u64);
    fn activation_left(&mut self, now_ns: u64, task: u32, slack_ns: i64, response_ns: u64);
    fn timer(&mut self, now_ns: u64, cpu: u32, timer: ExpiredTimer);
    fn idle_call(&mut self, cpu: u32, call: IdleCall<'_>);
    fn freq_scale(&mut self, now_ns: u64, cpu: u32, scale: u64, open_ns: u64);
    fn wants_reports(&self) -> bool;
    fn report(&mut self, now_ns: u64, report: &UtilReport<'_>);
}

impl<S: Sink> Watcher for S {
    fn event(&mut self, now_ns: u64, event: &Event) {
        Sink::event(self, now_ns, event);
    }

    fn sample_period_ns(&self) -> u64 {
        Sink::sample_period_ns(self)
    }

    fn sample(&mut self, sample: Sample) {
        Sink::sample(self, sample);
    }

    fn decision(&mut self, now_ns: u64, decision: &Decision) {
        Sink::decision(self, now_ns, decision);
    }

    fn power(&mut self, now_ns: u64, metered: Metered, power_uw: u64) {
        Sink::power(self, now_ns, metered, power_uw);
    }

    fn queued(&mut self, now_ns: u64, cpu: u32, task: u32, group: Option<u32>, change: QueueChange) {
        Sink::queued(self, now_ns, cpu, task, group, change);
    }

    fn policy(&mut self, now_ns: u64, task: u32, policy: SchedPolicy) {
        Sink::policy(self, now_ns, task, policy);
    }

    fn clamps(&mut self, now_ns: u64, task: u32, min: Option<u16>, max: u16) {
        Sink::clamps(self, now_ns, task, min, max);
    }

    fn affinity(&mut self, now_ns: u64, task: u32, cpus: Option<&[u32]>) {
        Sink::affinity(self, now_ns, task, cpus);
    }

    fn timer_due(&mut self, task: u32, due_ns: u64) {
        Sink::timer_due(self, task, due_ns);
    }

    fn activation_left(&mut self, now_ns: u64, task: u32, slack_ns: i64, response_ns: u64) {
        Sink::activation_left(self, now_ns, task, slack_ns, response_ns);
    }

    fn timer(&mut self, now_ns: u64, cpu: u32, timer: ExpiredTimer) {
        Sink::timer(self, now_ns, cpu, timer);
    }

    fn idle_call(&mut self, cpu: u32, call: IdleCall<'_>) {
        Sink::idle_call(self, cpu, call);
    }

    fn freq_scale(&mut self, now_ns: u64, cpu: u32, scale: u64, open_ns: u64) {
        Sink::freq_scale(self, now_ns, cpu, scale, open_ns);
    }

    fn wants_reports(&self) -> bool {
        Sink::wants_reports(self)
    }

    fn report(&mut self, now_ns: u64, report: &UtilReport<'_>) {
        Sink::report(self, now_ns, report);
    }
}

/// A sink of any type; `DECISIONS` is whether it gets what went into decisions.
struct Watched<'s, const DECISIONS: bool>(&'s mut dyn Watcher);

impl<const DECISIONS: bool> Sink for Watched<'_, DECISIONS> {
    const DECISIONS: bool = DECISIONS;

    fn event(&mut self, now_ns: u64, event: &Event) {
        self.0.event(now_ns, event);
    }

    fn sample_period_ns(&self) -> u64 {
        self.0.sample_period_ns()
    }

    fn sample(&mut self, sample: Sample) {
        self.0.sample(sample);
    }

    fn decision(&mut self, now_ns: u64, decision: &Decision) {
        self.0.decision(now_ns, decision);
    }

    fn power(&mut self, now_ns: u64, metered: Metered, power_uw: u64) {
        self.0.power(now_ns, metered, power_uw);
    }

    fn queued(&mut self, now_ns: u64, cpu: u32, task: u32, group: Option<u32>, change: QueueChange) {
        self.0.queued(now_ns, cpu, task, group, change);
    }

    fn policy(&mut self, now_ns: u64, task: u32, policy: SchedPolicy) {
        self.0.policy(now_ns, task, policy);
    }

    fn clamps(&mut self, now_ns: u64, task: u32, min: Option<u16>, max: u16) {
        self.0.clamps(now_ns, task, min, max);
    }

    fn affinity(&mut self, now_ns: u64, task: u32, cpus: Option<&[u32]>) {
        self.0.affinity(now_ns, task, cpus);
    }

    fn timer_due(&mut self, task: u32, due_ns: u64) {
        self.0.timer_due(task, due_ns);
    }

    fn activation_left(&mut self, now_ns: u64, task: u32, slack_ns: i64, response_ns: u64) {
        self.0.activation_left(now_ns, task, slack_ns, response_ns);
    }

    fn timer(&mut self, now_ns: u64, cpu: u32, timer: ExpiredTimer) {
        self.0.timer(now_ns, cpu, timer);
    }

    fn idle_call(&mut self, cpu: u32, call: IdleCall<'_>) {
        self.0.idle_call(cpu, call);
    }

    fn freq_scale(&mut self, now_ns: u64, cpu: u32, scale: u64, open_ns: u64) {
        self.0.freq_scale(now_ns, cpu, scale, open_ns);
    }

    fn wants_reports(&self) -> bool {
        self.0.wants_reports()
    }

    fn report(&mut self, now_ns: u64, report: &UtilReport<'_>) {
        self.0.report(now_ns, report);
    }
}

/// Runs `case` from `start` by the engine that fits `sink`.
///
/// # Errors
/// As [`crate::run`].
pub(crate) fn run_watched<S: Sink>(
    case: &Case,
    start: &Start,
    sink: &mut S,
    hooks: Option<&mut dyn Hooks>,
) -> Result<Outcome, CaseError> {
    match (S::ENABLED, S::DECISIONS) {
        (false, false) => run_unseen(case, start, hooks),
        (_, decisions) => run_seen(case, start, sink, decisions, hooks),
    }
}

fn run_unseen(case: &Case, start: &Start, hooks: Option<&mut dyn Hooks>) -> Result<Outcome, CaseError> {
    match case.policy.half_life_ms() {
        #[cfg(not(debug_assertions))]
        8 => run_engine::<_, HalfLife8>(case, start, &mut NullSink, hooks),
        #[cfg(not(debug_assertions))]
        16 => run_engine::<_, HalfLife16>(case, start, &mut NullSink, hooks),
        32 => run_engine::<_, HalfLife32>(case, start, &mut NullSink, hooks),
        _ => run_seen(case, start, &mut NullSink, true, hooks),
    }
}

/// At the rare half-lives decisions are gathered whether the sink wants them or not.
fn run_seen(
    case: &Case,
    start: &Start,
    watcher: &mut dyn Watcher,
    decisions: bool,
    hooks: Option<&mut dyn Hooks>,
) -> Result<Outcome, CaseError> {
    match (case.policy.half_life_ms(), decisions) {
        (8, _) => run_engine::<_, HalfLife8>(case, start, &mut Watched::<true>(watcher), hooks),
        (16, _) => run_engine::<_, HalfLife16>(case, start, &mut Watched::<true>(watcher), hooks),
        #[cfg(not(debug_assertions))]
        (32, false) => run_engine::<_, HalfLife32>(case, start, &mut Watched::<false>(watcher), hooks),
        (32, _) => run_engine::<_, HalfLife32>(case, start, &mut Watched::<true>(watcher), hooks),
        (other, _) => Err(CaseError(format!("pelt_half_life_ms is {other}; the kernel has 8, 16 and 32"))),
    }
}

fn run_engine<S: Sink, H: HalfLife>(
    case: &Case,
    start: &Start,
    sink: &mut S,
    hooks: Option<&mut dyn Hooks>,
) -> Result<Outcome, CaseError> {
    // The map shortens the life of what the reference refers to, as the engine has one lifetime for all that it borrows.
    let hooks = hooks.map(|hooks| hooks as &mut dyn Hooks);
    Engine::<S, H>::new(case, sink, hooks)?.start_at(start).run()
}
