//! Keeps the decision records of a run as columns: one table a kind of record, as [`crate::observe::sink`] does for events.
//!
//! A run without this sink makes no records.

use opplab_model::decision::Decision;
use opplab_model::event::{Event, Sink};

use crate::observe::sink::{Of, Table, Value, tables};

tables! {
    /// Names of the tables, in the order of [`Decision`]'s variants.
    DECISION_TABLES;
    /// Keeps decision records as columns.
    DecisionColumns(Decision);
    Freq = sugov_decision {
        policy_cpu: u32, cpu: u32, deciding_cpu: u32, iowait: u8, outcome: u8, util_cfs: u32, runnable_boost: u8,
        util_rt: u32, util_dl: u32, util_irq: u32, bw_dl: u32, iowait_boost: u32, uclamp_min: u32, uclamp_max: u32, rt_runnable: u8,
        util_sum: u32, util: u32, max_cap: u32, ref_khz: u32, raw_khz: u32, wanted_khz: u32, prev_khz: u32, next_khz: u32, wait_ns: u64,
    }
    Sample = dbs_decision { policy_cpu: u32, cpu: u32, load: u32, prev_khz: u32, next_khz: u32 }
    Grant = freq_grant { policy_cpu: u32, requested_khz: u32, granted_khz: u32, limit: u8 }
    Placement = placement_decision {
        decision: u64, task: u32, fork: u8, prev_cpu: u32, cpu: u32, rule: u8, waker_cpu: u32, waker: u32,
        in_interrupt: u8, sync: u8, nr_allowed: u32, util_avg: u32, util_est: u32, overutilized: u8, eas_rule: u8,
        wake_wide: u8, imbalance_pct: u32, affine_rule: u8, this_load: u64, prev_load: u64, task_load: u64, target: u32,
        sibling_rule: u8, nr_idle: u32,
    }
    Candidate = eas_candidate {
        decision: u64, cpu: u32, domain: u32, util: u32, capacity: u32, spare_cap: u32, fits: i32,
    }
    Energy = eas_energy { decision: u64, dst_cpu: i32, domain: u32, energy: u64, max_util: u64, busy_time: u64 }
    Balance = balance_pass {
        dst_cpu: u32, src_cpu: u32, level: u32, span_weight: u32, idle: u8, migration: u8, imbalance: i64, moved: u32,
        pushed: u8,
    }
}

impl Sink for DecisionColumns {
    const ENABLED: bool = false;
    const DECISIONS: bool = true;

    fn event(&mut self, _now_ns: u64, _event: &Event) {}

    fn decision(&mut self, now_ns: u64, decision: &Decision) {
        self.keep(now_ns, decision);
    }
}
