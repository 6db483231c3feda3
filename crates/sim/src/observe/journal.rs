//! What a run reports: its events to the fingerprint and the sink, what else the sink wants to the sink.

use opplab_model::counters::Sample;
use opplab_model::decision::Decision;
use opplab_model::event::{Event, ExpiredTimer, Fingerprint, IdleCall, Metered, QueueChange, Sink, UtilReport};
use opplab_model::workload::SchedPolicy;

use crate::ids::{CpuId, GroupId, TaskId};

/// Where the events of a run go. Times are ns since the start of the run.
pub(crate) struct Journal<'c, S> {
    sink: &'c mut S,
    fingerprint: Fingerprint,
    /// When the sink wants the counters next; `None`: never.
    next_sample_ns: Option<u64>,
    wants_reports: bool,
    nr_placements: u64,
}

impl<'c, S: Sink> Journal<'c, S> {
    pub(crate) fn new(sink: &'c mut S) -> Self {
        let samples = S::ENABLED && sink.sample_period_ns() > 0;
        let next_sample_ns = samples.then_some(0);
        let wants_reports = S::ENABLED && sink.wants_reports();
        Self { sink, fingerprint: Fingerprint::default(), next_sample_ns, wants_reports, nr_placements: 0 }
    }

    /// An event of the run.
    #[inline]
    pub(crate) fn event(&mut self, time_ns: u64, event: &Event) {
        self.fingerprint.event(time_ns, event);
        self.signal(time_ns, event);
    }

    /// An event that follows from others, for the sink only.
    #[inline]
    pub(crate) fn signal(&mut self, time_ns: u64, event: &Event) {
        if S::ENABLED {
            self.sink.event(time_ns, event);
        }
    }

    /// What went into a decision.
    #[inline]
    pub(crate) fn decision(&mut self, time_ns: u64, decision: &Decision) {
        if S::DECISIONS {
            self.sink.decision(time_ns, decision);
        }
    }

    /// A meter shows another power.
    #[inline]
    pub(crate) fn power(&mut self, time_ns: u64, metered: Metered, power_uw: u64) {
        if S::ENABLED {
            self.sink.power(time_ns, metered, power_uw);
        }
    }

    /// A task came to or left a queue.
    #[inline]
    pub(crate) fn queued(&mut self, time_ns: u64, cpu: CpuId, task: TaskId, group: GroupId, change: QueueChange) {
        if S::ENABLED {
            self.sink.queued(time_ns, cpu.0, task.0, group.0.checked_sub(1), change);
        }
    }

    /// A task is made, or its policy changes.
    #[inline]
    pub(crate) fn policy(&mut self, time_ns: u64, task: TaskId, policy: SchedPolicy) {
        if S::ENABLED {
            self.sink.policy(time_ns, task.0, policy);
        }
    }

    /// `task` asks for these clamps of utilisation.
    pub(crate) fn clamps(&mut self, time_ns: u64, task: TaskId, min: Option<u16>, max: u16) {
        if S::ENABLED {
            self.sink.clamps(time_ns, task.0, min, max);
        }
    }

    /// `task` may use these CPUs.
    pub(crate) fn affinity(&mut self, time_ns: u64, task: TaskId, cpus: Option<&[u32]>) {
        self.sink.affinity(time_ns, task.0, cpus);
    }

    /// The timer that wakes `task` was due.
    #[inline]
    pub(crate) fn timer_due(&mut self, task: TaskId, due_ns: u64) {
        if S::ENABLED {
            self.sink.timer_due(task.0, due_ns);
        }
    }

    /// An activation of `task` was due, and the run ends before its event.
    pub(crate) fn activation_left(&mut self, time_ns: u64, task: TaskId, slack_ns: i64, response_ns: u64) {
        if S::ENABLED {
            self.sink.activation_left(time_ns, task.0, slack_ns, response_ns);
        }
    }

    /// A timer expires in an interrupt.
    #[inline]
    pub(crate) fn timer(&mut self, time_ns: u64, cpu: CpuId, timer: ExpiredTimer) {
        if S::ENABLED {
            self.sink.timer(time_ns, cpu.0, timer);
        }
    }

    /// The idle governor of a CPU is asked, or learns.
    #[inline]
    pub(crate) fn idle_call(&mut self, cpu: CpuId, call: IdleCall<'_>) {
        if S::ENABLED {
            self.sink.idle_call(cpu.0, call);
        }
    }

    /// The kernel's frequency scale of a CPU, which counts for the last `open_ns` already.
    #[inline]
    pub(crate) fn freq_scale(&mut self, time_ns: u64, cpu: CpuId, scale: u64, open_ns: u64) {
        if S::ENABLED {
            self.sink.freq_scale(time_ns, cpu.0, scale, open_ns);
        }
    }

    /// Whether reports of the scheduler to governors are wanted.
    #[inline(always)]
    pub(crate) fn wants_reports(&self) -> bool {
        S::ENABLED && self.wants_reports
    }

    /// The scheduler reports to a governor.
    pub(crate) fn report(&mut self, time_ns: u64, report: &UtilReport<'_>) {
        self.sink.report(time_ns, report);
    }

    /// The time of the next sample, if the sink wants one up to `time_ns`; the one after it is next then.
    #[inline]
    pub(crate) fn next_sample(&mut self, time_ns: u64) -> Option<u64> {
        let next_ns = self.next_sample_ns.filter(|&next_ns| next_ns <= time_ns)?;
        self.next_sample_ns = Some(next_ns + self.sink.sample_period_ns().max(1));
        Some(next_ns)
    }

    /// The counters of the machine.
    pub(crate) fn sample(&mut self, sample: Sample) {
        self.sink.sample(sample);
    }

    /// The number of the placement that is recorded now.
    pub(crate) fn placement(&self) -> u64 {
        self.nr_placements
    }

    /// A placement was recorded.
    pub(crate) fn placement_ends(&mut self) {
        self.nr_placements += 1;
    }

    /// The hash of all events.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint.value()
    }
}
