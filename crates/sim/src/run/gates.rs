//! What the kernel profile and the policy mean for the engine, decided once.

use opplab_kernel::cpufreq::schedutil::SugovGates;
use opplab_kernel::cpuidle::{IDLE_GOVERNORS, IdleStart, idle_governor};
use opplab_kernel::eas::EasGates;
use opplab_kernel::profile::EmCost;
use opplab_kernel::profile::{
    BlockedUpdate, CfsThrottle, DelayDequeue, DlRtTask, DlUtil, Eas, FairClass, FairServer, IdleSibling, Invariance,
    IrqAvg, KernelProfile, MigratePeltLag, NewidleSkip, Overutilized, Platform, RtCapacity, RtThrottling, SchedIdleCpu,
    SelectIdleScan, SingleStateTick, TgLoad, ThrottledTime, Uclamp, UclampInc, UtilEstDequeue, WakeAffineSync,
};
use opplab_kernel::proposals::Proposals;
use opplab_kernel::sched::eevdf::EevdfFeatures;
use opplab_kernel::util_est::UtilEstForm;
use opplab_model::machine::{InvarianceSource, Machine};
use opplab_model::policy::Policy;

use crate::CaseError;

/// How a task's utilisation is estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UtilEst {
    /// One value a task (from v6.8).
    Single,
    /// Last activation and average (before v6.8).
    Pair(UtilEstForm),
}

/// The profile's gates in the forms that the engine asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gates {
    pub(crate) profile: KernelProfile,
    /// Some proposal was added to the kernel.
    pub(crate) proposes: bool,
    /// An idle governor of the kernel looks at the utilisation; the run's own may be another.
    pub(crate) idle_looks_at_util: bool,
    /// What the idle governor's states are like after boot.
    pub(crate) idle_start: IdleStart,
    /// The longest exit latency that PM QoS allows, ns.
    pub(crate) latency_req_ns: u64,
    /// How the machine reports its speed.
    pub(crate) platform: Platform,
    /// EEVDF (from v6.6) instead of CFS.
    pub(crate) eevdf: bool,
    pub(crate) util_est: UtilEst,
    /// The feature `UTIL_EST` is on.
    pub(crate) estimates_util: bool,
    /// What else is switched in debugfs.
    pub(crate) features: EevdfFeatures,
    pub(crate) sugov: SugovGates,
    /// Which find_energy_efficient_cpu(), if the kernel has one.
    pub(crate) eas: Option<EasGates>,
    /// Energies are those of scheduling groups (Android before v5.0).
    pub(crate) eas_groups: bool,
    /// Each scheduling domain has its overutilised flag (Android before v5.0).
    pub(crate) sd_overutilized: bool,
    /// A wake-up without energy looks for an idle CPU.
    pub(crate) idle_sibling: bool,
    /// A CPU with nothing but tasks of SCHED_IDLE counts as idle for others (sched_idle_cpu(), v5.4).
    pub(crate) sched_idle_cpu: bool,
    /// A task that sleeps while not eligible stays queued (DELAY_DEQUEUE, v6.12).
    pub(crate) delay_dequeue: bool,
    /// Such tasks do not count for a waker that is about to sleep (v6.16).
    pub(crate) sync_leaves_out_delayed: bool,
    /// A group's queues report their load at most once a millisecond (v6.7).
    pub(crate) tg_load_ratelimit: bool,
    /// A group without quota stops its tasks one by one, as they return to user space (v6.18).
    pub(crate) throttle_tasks: bool,
    /// A stopped queue is throttled time only from its first task on (v6.6).
    pub(crate) throttled_with_task: bool,
    /// How energies are computed.
    pub(crate) em: EmCost,
    /// What limits the CPUs that a wake-up looks at.
    pub(crate) select_idle_scan: SelectIdleScan,
    /// The feature `SIS_UTIL`, which limits them by utilisation, is on.
    pub(crate) sis_util: bool,
    /// Newidle balance skips levels by chance (v6.12.117).
    pub(crate) newidle_skip: NewidleSkip,
    /// Time in interrupts is not the running task's (CONFIG_IRQ_TIME_ACCOUNTING).
    pub(crate) irq_time: bool,
    /// It has a utilisation of its own (v4.19).
    pub(crate) irq_avg: bool,
    /// A deadline task is no real-time task for a wake-up of that class (rt_task(), v6.12).
    pub(crate) dl_is_no_rt: bool,
    /// When the averages of sleeping tasks decay, those of the other classes do first, and the governor hears of it
    /// (fair.c:update_blocked_averages(), v5.5, from memory).
    pub(crate) blocked_others_first: bool,
    /// Fair tasks have a deadline server (v6.12).
    pub(crate) fair_server: bool,
    /// What keeps fair tasks from starving behind real-time tasks.
    pub(crate) rt_throttling: RtThrottling,
    /// By what the clock follows deadline tasks.
    pub(crate) dl_util: DlUtil,
    /// A CPU with at most one idle state stops its tick only after a tick that found it idle (v6.12.117).
    pub(crate) single_state_tick: SingleStateTick,
    /// A task that falls asleep is estimated as of its last update (v6.12).
    pub(crate) estimates_before_dequeue: bool,
    /// A task's clamps count only after its class has queued it, since that may end a delayed dequeue (v6.12).
    pub(crate) uclamp_after_enqueue: bool,
    /// Real-time tasks avoid CPUs below their lower clamp, whether or not somebody asked for one (CONFIG_UCLAMP_TASK, v5.6).
    pub(crate) rt_by_clamp: bool,
    /// A task that leaves an idle CPU decays for the time that its queue was not updated (v5.19).
    pub(crate) migrate_pelt_lag: bool,
    /// Whether the kernel knows the frequency's share of the highest (arch_scale_freq_invariant()).
    pub(crate) freq_invariant: bool,
    /// Invariance scales each contribution of time, on a clock that is not slowed down (before v5.1).
    pub(crate) scaled_contribution: bool,
}

impl Gates {
    pub(crate) fn new(policy: &Policy, machine: &Machine) -> Result<Self, CaseError> {
        let profile = policy.profile()?;
        let platform = machine.platform();
        // Who names an f_max has a kernel that knows it.
        let knows_freq_max = match policy.freq_max.is_empty() {
            true => machine.knows_freq_max(),
            false => machine.invariance != InvarianceSource::Absent,
        };
        let invariant = profile.freq_invariant(platform) && knows_freq_max;
        let (freq_invariant, scaled_contribution) = match policy.invariance.as_str() {
            "" => (invariant, invariant && profile.invariance == Invariance::ScaledContribution),
            "none" => (false, false),
            "time-dilated" => (true, false),
            "scaled-contribution" => (true, true),
            other => return Err(CaseError(format!("unknown invariance {other:?}"))),
        };
        let idle = idle_governor(&policy.idle_governor);
        Ok(Self {
            proposes: profile.proposals != Proposals::NONE,
            idle_looks_at_util: IDLE_GOVERNORS.iter().any(|governor| (governor.looks_at_util)(&profile)),
            idle_start: idle.map_or(IdleStart::AsLater, |governor| governor.start),
            latency_req_ns: u64::from(policy.cpu_dma_latency_us) * 1_000,
            platform,
            eevdf: profile.fair_class == FairClass::Eevdf,
            util_est: profile.util_est_form().map_or(UtilEst::Single, UtilEst::Pair),
            estimates_util: policy.has_feature("UTIL_EST") && profile.estimates_util(),
            features: EevdfFeatures {
                run_to_parity: policy.has_feature("RUN_TO_PARITY"),
                next_buddy: policy.has_feature("NEXT_BUDDY"),
                wakeup_preemption: policy.has_feature("WAKEUP_PREEMPTION"),
            },
            sis_util: policy.has_feature("SIS_UTIL"),
            sugov: profile.sugov_gates(),
            eas: profile.eas_gates(),
            eas_groups: profile.eas == Eas::Groups,
            sd_overutilized: profile.overutilized == Overutilized::EachDomain,
            idle_sibling: profile.idle_sibling == IdleSibling::Search,
            sched_idle_cpu: profile.sched_idle_cpu == SchedIdleCpu::Idle,
            delay_dequeue: profile.delay_dequeue == DelayDequeue::On && policy.has_feature("DELAY_DEQUEUE"),
            sync_leaves_out_delayed: profile.wake_affine_sync == WakeAffineSync::LeftOut,
            tg_load_ratelimit: profile.tg_load == TgLoad::OncePerMs,
            throttle_tasks: profile.cfs_throttle == CfsThrottle::Task,
            throttled_with_task: profile.throttled_time == ThrottledTime::WithTask,
            em: profile.em_cost,
            select_idle_scan: profile.select_idle_scan,
            newidle_skip: profile.newidle_skip,
            irq_time: policy.irq_time_accounting,
            irq_avg: policy.irq_time_accounting && profile.irq_avg == IrqAvg::Tracked,
            dl_is_no_rt: profile.dl_rt_task == DlRtTask::Apart,
            blocked_others_first: profile.blocked_update == BlockedUpdate::OthersFirst,
            fair_server: profile.fair_server == FairServer::Present,
            rt_throttling: profile.rt_throttling,
            dl_util: profile.dl_util,
            single_state_tick: profile.single_state_tick,
            estimates_before_dequeue: profile.util_est_dequeue == UtilEstDequeue::BeforeUpdate,
            rt_by_clamp: profile.rt_capacity == RtCapacity::ByClamp && profile.uclamp == Uclamp::Present,
            uclamp_after_enqueue: profile.uclamp_inc == UclampInc::AfterEnqueue,
            migrate_pelt_lag: profile.migrate_pelt_lag == MigratePeltLag::Estimated,
            freq_invariant,
            scaled_contribution,
            profile,
        })
    }
}
