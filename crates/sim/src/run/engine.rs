//! The engine: all that is known of a run at an instant.
//!
//! What happens next is in `main_loop`; what the parts of the machine do is in the rooms (`sched`, `cpufreq`, `hardware`), each of which
//! adds its methods to the engine.

use std::collections::VecDeque;

use opplab_kernel::pelt::HalfLife;
use opplab_model::decision::Decision;
use opplab_model::event::{Event, QueueChange, Sink};
use opplab_model::machine::Cpufreq;
use opplab_model::policy::Policy;
use rand_pcg::Pcg64;

use crate::cpufreq::freq_max::FreqMaxRatios;
use crate::cpufreq::freq_policy::FreqPolicy;
use crate::cpufreq::intel::IntelSetup;
use crate::hardware::packages::Hardware;
use crate::ids::{ClusterId, CpuId, CpuSetId, DeviceId, IdVec, PackageId, PolicyId, TaskId};
use crate::observe::journal::Journal;
use crate::run::agenda::{Agenda, Wait, Waiter};
use crate::run::counted::Counted;
use crate::run::cpu::{BOOT_NS, ClusterRun, Cpu};
use crate::run::cpu_sets::CpuSets;
use crate::run::gates::Gates;
use crate::run::hooks::Hooks;
use crate::run::objects::Objects;
use crate::run::resched::Resched;
use crate::run::stream::Stream;
use crate::run::task::Task;
use crate::sched::balancer::Balancer;
use crate::sched::eas_model::EasState;
use crate::sched::groups::{Entities, Groups};
use crate::sched::idle_cpus::IdleCpus;
use crate::sched::overutilized::OverutilizedState;
use crate::sched::root_domain::RootDomain;
use crate::sched::topology::Topology;
use crate::{Case, CaseError, Outcome, Wakes};

/// A run in progress.
pub(crate) struct Engine<'c, S: Sink, H: HalfLife> {
    pub(crate) case: &'c Case,
    pub(crate) journal: Journal<'c, S>,
    pub(crate) hooks: Option<&'c mut dyn Hooks>,
    pub(crate) gates: Gates,
    pub(crate) topology: Topology,
    pub(crate) hardware: Hardware,
    /// intel_pstate's setup, if it is the driver.
    pub(crate) intel: Option<IntelSetup>,
    pub(crate) now: u64,
    /// When the first period of real-time tasks began; 0 before.
    pub(crate) rt_period_start_ns: u64,
    pub(crate) tick_ns: u64,
    /// [`crate::Start::wakes`].
    pub(crate) wakes: Wakes,
    /// There are such wakes.
    pub(crate) wakes_late: bool,
    /// [`crate::Start::tick_late_ns`].
    pub(crate) tick_late_ns: Vec<u64>,
    /// [`crate::Start::takes_turns`].
    pub(crate) takes_turns: bool,
    pub(crate) agenda: Agenda,
    /// CPU on which the code that runs at this instant runs.
    pub(crate) here: CpuId,
    /// Whether that code is an interrupt (not the current task's own doing).
    pub(crate) in_interrupt: bool,
    pub(crate) cpus: IdVec<CpuId, Cpu>,
    pub(crate) clusters: IdVec<ClusterId, ClusterRun>,
    /// Since when all CPUs are in their deepest states, if they are.
    pub(crate) all_down_since_ns: u64,
    /// The clock that shared logic follows while no CPU is awake, where it follows the machine's, in kHz; 0 is the lowest.
    pub(crate) kept_khz: u32,
    pub(crate) policies: IdVec<PolicyId, FreqPolicy>,
    pub(crate) tasks: IdVec<TaskId, Task<'c>>,
    /// The loop counters of all tasks.
    pub(crate) loops: Vec<u32>,
    /// The fair class's view of each task, and of groups' queues.
    pub(crate) entities: Entities,
    pub(crate) groups: Groups,
    pub(crate) cpu_sets: CpuSets,
    /// The cpufreq driver of the policy.
    pub(crate) driver: Cpufreq,
    pub(crate) objects: Objects,
    pub(crate) resched: Resched,
    /// Work of interrupts that CPUs have raised on themselves: (CPU, frequency policy).
    pub(crate) irq_work: VecDeque<(CpuId, PolicyId)>,
    /// Timers that were armed, to order those of one instant.
    pub(crate) timer_seq: u64,
    pub(crate) rng: Pcg64,
    pub(crate) rd: RootDomain,
    pub(crate) idle_cpus: IdleCpus,
    /// f_max of frequency invariance (x86).
    pub(crate) freq_max: FreqMaxRatios,
    pub(crate) stream: Stream,
    pub(crate) overutilized: OverutilizedState,
    /// Overutilised scheduling domains (first CPU, number of CPUs), where the kernel notes it of each.
    pub(crate) sd_overutilized: Vec<(usize, u32)>,
    /// uclamp_is_used().
    pub(crate) uclamp_used: bool,
    /// The policy in force: the case's, or that of the last change.
    pub(super) policy: &'c Policy,
    /// How many of the policy's changes were made.
    pub(super) changes_done: usize,
    pub(crate) eas: Option<EasState>,
    pub(crate) balancer: Balancer,
    /// The benchmark's own tasks that have not ended.
    pub(crate) nr_main_left: u32,
    /// When tasks did units of the benchmark's metric.
    pub(crate) counted: Counted,
    pub(crate) outcome: Outcome,
    pub(crate) error: Option<CaseError>,
    pub(crate) half_life: std::marker::PhantomData<H>,
}

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// Something happens.
    #[inline(always)]
    pub(crate) fn emit(&mut self, event: Event) {
        self.journal.event(self.now - BOOT_NS, &event);
    }

    /// Reports to the sink only: events that follow from others.
    pub(crate) fn emit_signal(&mut self, event: Event) {
        self.journal.signal(self.now - BOOT_NS, &event);
    }

    /// Reports to the sink how the queues of `cpu` change.
    #[inline]
    pub(crate) fn tell_queued(&mut self, cpu: CpuId, task: TaskId, change: QueueChange) {
        if S::ENABLED {
            let group = self.tasks[task].group;
            self.journal.queued(self.now - BOOT_NS, cpu, task, group, change);
        }
    }

    /// Reports to the sink where `task` may run.
    pub(crate) fn tell_affinity(&mut self, task: TaskId) {
        if S::ENABLED {
            let set = self.tasks[task].allowed;
            let cpus: Vec<u32> = self.cpu_sets.cpus(set).iter().map(|cpu| cpu as u32).collect();
            self.journal.affinity(self.now - BOOT_NS, task, (set != CpuSetId::ALL).then_some(&cpus));
        }
    }

    /// Reports to the sink what went into a decision; callers ask `S::DECISIONS` before they gather it.
    pub(crate) fn record(&mut self, decision: Decision) {
        self.journal.decision(self.now - BOOT_NS, &decision);
    }

    /// Sets (or moves) what `cpu` waits for.
    pub(crate) fn arm(&mut self, cpu: CpuId, wait: Wait, time_ns: u64) {
        self.agenda.set(Waiter::Cpu(cpu, wait), time_ns);
    }

    pub(crate) fn disarm(&mut self, cpu: CpuId, wait: Wait) {
        self.agenda.clear(Waiter::Cpu(cpu, wait));
    }

    pub(crate) fn arm_switch(&mut self, policy: PolicyId, time_ns: u64) {
        self.agenda.set(Waiter::Switch(policy), time_ns);
    }

    pub(crate) fn arm_device(&mut self, device: DeviceId, time_ns: u64) {
        self.agenda.set(Waiter::Device(device), time_ns);
    }

    pub(crate) fn arm_package(&mut self, package: PackageId, time_ns: u64) {
        self.agenda.set(Waiter::Package(package), time_ns);
    }

    /// When what `cpu` waits for is due.
    pub(crate) fn armed_ns(&self, cpu: CpuId, wait: Wait) -> Option<u64> {
        self.agenda.time_of(Waiter::Cpu(cpu, wait))
    }

    /// Time since the start of the run.
    pub(crate) fn wall_ns(&self) -> u64 {
        self.now - BOOT_NS
    }

    /// Emits a fatal error of the case: the run stops after this event.
    pub(crate) fn fail(&mut self, message: String) {
        if self.error.is_none() {
            self.error = Some(CaseError(message));
        }
    }
}
