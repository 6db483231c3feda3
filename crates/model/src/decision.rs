//! Decision records: what went into the placement of a task, the choice of a frequency, a balance pass.
//!
//! A run tells them only to a [`Sink`](crate::event::Sink) that asks for them (`DECISIONS`); they are no events and are
//! in no fingerprint, so that a run with records is the same run. All fields are plain integers, because they become
//! columns; what the small numbers mean is in [`CODES`]. Utilisations and capacities are on the kernel's scale of 1024.

use crate::ids::{CpuIdx, PlacementRule, TaskIdx};

/// Stands for "there was none" in a small number.
pub const NONE: u8 = u8::MAX;

/// Why the hardware runs slower than it was asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum GrantLimit {
    /// It does not: the request was granted, rounded up to an operating point.
    None = 0,
    /// The table of operating points ends below the request.
    OppTable = 1,
    /// The turbo bin for so many active cores.
    TurboBin = 2,
    /// The power budget of the package.
    PowerBudget = 3,
    /// Temperature.
    Thermal = 4,
    /// The firmware's own choice within the limits (HWP and its energy-performance preference).
    Firmware = 5,
}

/// One decision, or one line of what it was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each variant documents its fields")]
pub enum Decision {
    /// schedutil looked at a policy: `cpu` reported (flag `iowait`), `deciding_cpu` had the highest utilisation, on
    /// scale `max_cap`, of the parts `util_*`. `iowait_boost` is what the boost for I/O asked for, `runnable_boost`
    /// says that the runnable signal stood in for `util_cfs`. Together they are `util_sum`, which becomes `util` by the
    /// headroom of 1.25 and the bounds (wherever the kernel's version applies them). The bandwidth of the deadline class,
    /// `bw_dl`, is such a lower bound from v6.8 on; before, it is the class's part of the sum, `util_dl`. `ref_khz * util / max_cap` is
    /// `raw_khz`, which resolves to `wanted_khz`; the policy asked for `prev_khz` before and for `next_khz` after. If
    /// the rate limit was in the way, `wait_ns` of it were left, and `wanted_khz` is what would have been asked for.
    Freq {
        policy_cpu: CpuIdx,
        cpu: CpuIdx,
        deciding_cpu: CpuIdx,
        iowait: bool,
        outcome: u8,
        util_cfs: u32,
        runnable_boost: bool,
        util_rt: u32,
        util_dl: u32,
        util_irq: u32,
        bw_dl: u32,
        iowait_boost: u32,
        uclamp_min: u32,
        uclamp_max: u32,
        rt_runnable: bool,
        util_sum: u32,
        util: u32,
        max_cap: u32,
        ref_khz: u32,
        raw_khz: u32,
        wanted_khz: u32,
        prev_khz: u32,
        next_khz: u32,
        wait_ns: u64,
    },
    /// ondemand, conservative or intel_pstate without HWP took a sample of a policy: `load` is the busiest CPU's in percent.
    Sample { policy_cpu: CpuIdx, cpu: CpuIdx, load: u32, prev_khz: u32, next_khz: u32 },
    /// The hardware of a policy answered: it was asked for `requested_khz` and runs at `granted_khz`.
    Grant { policy_cpu: CpuIdx, requested_khz: u32, granted_khz: u32, limit: GrantLimit },
    /// A task was placed at a wake-up (`fork`: at its birth) by `rule`. `waker_cpu` ran the wake-up, on behalf of
    /// `waker` or in an interrupt. `overutilized` switches energy-aware placement off; `eas_rule` is that placement's
    /// reason. Without it the search for an idle CPU starts at `target`: `prev_cpu`, or the waking CPU if `wake_wide`
    /// did not forbid it, the domain of `imbalance_pct` holds both (0: none does), and `affine_rule` said so.
    /// `sibling_rule` says what was found there, among `nr_idle` idle CPUs of the target's last-level cache.
    Placement {
        decision: u64,
        task: TaskIdx,
        fork: bool,
        prev_cpu: CpuIdx,
        cpu: CpuIdx,
        rule: PlacementRule,
        waker_cpu: CpuIdx,
        waker: TaskIdx,
        in_interrupt: bool,
        sync: bool,
        nr_allowed: u32,
        util_avg: u32,
        util_est: u32,
        overutilized: bool,
        eas_rule: u8,
        wake_wide: bool,
        imbalance_pct: u32,
        affine_rule: u8,
        this_load: u64,
        prev_load: u64,
        task_load: u64,
        target: CpuIdx,
        sibling_rule: u8,
        nr_idle: u32,
    },
    /// Energy-aware placement `decision` weighed `cpu`: `util` with the task, of `capacity`, leaves `spare_cap`; `fits`
    /// is 1 if the task fits, -1 if only its lower clamp can not be granted.
    Candidate { decision: u64, cpu: CpuIdx, domain: u32, util: u32, capacity: u32, spare_cap: u32, fits: i32 },
    /// The energy of performance domain `domain` in placement `decision` with the task on `dst_cpu` (-1: without it), in
    /// the energy model's unit: its frequency follows `max_util`, its CPUs are busy for `busy_time` in all.
    Energy { decision: u64, dst_cpu: i32, domain: u32, energy: u64, max_util: u64, busy_time: u64 },
    /// A balance pass of `dst_cpu` over its domain at `level` (of `span_weight` CPUs) found an imbalance against
    /// `src_cpu` and moved `moved` tasks (`pushed`: had the running one pushed). The moves are placement events.
    Balance {
        dst_cpu: CpuIdx,
        src_cpu: CpuIdx,
        level: u32,
        span_weight: u32,
        idle: u8,
        migration: u8,
        imbalance: i64,
        moved: u32,
        pushed: bool,
    },
}

/// What the small numbers of a column mean, by the column's name: the words in the order of the numbers, from 0.
/// [`NONE`] is not listed.
pub const CODES: [(&str, &[&str]); 8] = [
    ("outcome", &["cannot-update", "rate-limited", "unchanged", "held", "requested"]),
    (
        "rule",
        &["eas", "idle-sibling", "target", "idlest", "pinned", "balance", "misfit", "custom", "deadline", "real-time"],
    ),
    (
        "eas_rule",
        &[
            "no-domain",
            "overutilized",
            "no-utilisation",
            "changed",
            "better-fit",
            "less-energy",
            "more-capacity",
            "prev-does-not-fit",
            "stay",
        ],
    ),
    ("affine_rule", &["this-idle", "sync-alone", "prev-idle", "sync-load", "weight"]),
    (
        "sibling_rule",
        &[
            "target-idle",
            "prev-idle",
            "per-cpu-kthread",
            "recent-idle",
            "capacity",
            "idle-smt",
            "idle-core",
            "idle-cpu",
            "target",
        ],
    ),
    ("limit", &["none", "opp-table", "turbo-bin", "power-budget", "thermal", "firmware"]),
    ("idle", &["not-idle", "idle", "newly-idle"]),
    ("migration", &["load", "util", "task", "misfit"]),
];

/// What `code` means in a column; `None` if it means nothing there.
pub fn word(column: &str, code: u8) -> Option<&'static str> {
    let (_, words) = CODES.iter().find(|(name, _)| *name == column)?;
    words.get(usize::from(code)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use opplab_kernel::cpufreq::schedutil::SugovOutcome;
    use opplab_kernel::eas::EasRule;
    use opplab_kernel::sched::balance::{IdleType, MigrationType};
    use opplab_kernel::sched::placement::{SiblingRule, WakeAffineRule};

    fn word(column: &str, code: u8) -> &'static str {
        super::word(column, code).expect("a column with codes")
    }

    /// Goal: the words stay in the order of the enumerations that they stand for.
    #[test]
    fn codes_mean_what_they_say() {
        assert_eq!(word("outcome", SugovOutcome::CannotUpdate as u8), "cannot-update");
        assert_eq!(word("outcome", SugovOutcome::RateLimited as u8), "rate-limited");
        assert_eq!(word("outcome", SugovOutcome::Unchanged as u8), "unchanged");
        assert_eq!(word("outcome", SugovOutcome::Held as u8), "held");
        assert_eq!(word("outcome", SugovOutcome::Requested as u8), "requested");
        assert_eq!(word("rule", PlacementRule::IdleSibling as u8), "idle-sibling");
        assert_eq!(word("rule", PlacementRule::Idlest as u8), "idlest");
        assert_eq!(word("rule", PlacementRule::RealTime as u8), "real-time");
        assert_eq!(word("eas_rule", EasRule::Overutilized as u8), "overutilized");
        assert_eq!(word("eas_rule", EasRule::BetterFit as u8), "better-fit");
        assert_eq!(word("eas_rule", EasRule::Stay as u8), "stay");
        assert_eq!(word("affine_rule", WakeAffineRule::PrevIdle as u8), "prev-idle");
        assert_eq!(word("affine_rule", WakeAffineRule::Weight as u8), "weight");
        assert_eq!(word("sibling_rule", SiblingRule::RecentIdle as u8), "recent-idle");
        assert_eq!(word("sibling_rule", SiblingRule::IdleCpu as u8), "idle-cpu");
        assert_eq!(word("sibling_rule", SiblingRule::Target as u8), "target");
        assert_eq!(word("limit", GrantLimit::Firmware as u8), "firmware");
        assert_eq!(word("idle", IdleType::NotIdle as u8), "not-idle");
        assert_eq!(word("idle", IdleType::NewlyIdle as u8), "newly-idle");
        assert_eq!(word("idle", IdleType::Idle as u8), "idle");
        assert_eq!(word("migration", MigrationType::Misfit as u8), "misfit");
    }
}
