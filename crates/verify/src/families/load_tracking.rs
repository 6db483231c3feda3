//! Families of vectors: load tracking.

use opplab_kernel::clock_pelt::RqClock;
use opplab_kernel::pelt::{self, HalfLife, HalfLife8, HalfLife16, HalfLife32, SchedAvg, SeFacts};
use opplab_kernel::util_est::{self, UtilEstForm, UtilEstPair};

use crate::{Diff, Family, Row, Source, Tally, VerifyError};

/// The families of this module.
pub const FAMILIES: &[Family] = &[
    Family { name: "pelt_tables", run: pelt_tables },
    Family { name: "pelt_decay_hl8", run: pelt_decay },
    Family { name: "pelt_decay_hl16", run: pelt_decay },
    Family { name: "pelt_decay_hl32", run: pelt_decay },
    Family { name: "pelt_segments_hl8", run: pelt_segments },
    Family { name: "pelt_segments_hl16", run: pelt_segments },
    Family { name: "pelt_segments_hl32", run: pelt_segments },
    Family { name: "pelt_se_hl8", run: pelt_se },
    Family { name: "pelt_se_hl16", run: pelt_se },
    Family { name: "pelt_se_hl32", run: pelt_se },
    Family { name: "pelt_cfs_hl8", run: pelt_cfs },
    Family { name: "pelt_cfs_hl16", run: pelt_cfs },
    Family { name: "pelt_cfs_hl32", run: pelt_cfs },
    Family { name: "pelt_rt_dl_hw_irq", run: pelt_rt_dl_hw_irq },
    Family { name: "clock_pelt", run: clock_pelt },
    Family { name: "util_est", run: util_est },
    Family { name: "v510_util_est", run: |source, tally| util_est_pair(source, tally, UtilEstForm::V5_5) },
    Family { name: "util_est_v61", run: |source, tally| util_est_pair(source, tally, UtilEstForm::V5_12) },
];

/// Calls a generic function with the half-life of a row's column `half_life`.
macro_rules! with_half_life {
    ($row:expr, $function:ident :: <H> ( $($argument:expr),* )) => {
        match $row.num::<u32>("half_life")? {
            8 => $function::<HalfLife8>($($argument),*),
            16 => $function::<HalfLife16>($($argument),*),
            32 => $function::<HalfLife32>($($argument),*),
            other => return Err($row.error(format!("half_life {other} is not 8, 16 or 32"))),
        }
    };
}

fn pelt_tables(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    fn table<H: HalfLife>(name: &str, index: usize) -> Option<u64> {
        match name {
            "yN_inv" if index < H::PERIOD as usize => Some(H::INV[index] as u64),
            "LOAD_AVG_PERIOD" => Some(H::PERIOD as u64),
            "LOAD_AVG_MAX" => Some(H::MAX as u64),
            _ => None,
        }
    }
    source.each_row(tally, |row, diff| {
        let (name, index) = (row.str("name")?, row.num("index")?);
        let got = with_half_life!(row, table::<H>(name, index));
        diff.eq(name, Some(row.num::<u64>("value")?), got);
        Ok(())
    })
}

fn pelt_decay(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    use pelt::decay_load;
    source.each_row(tally, |row, diff| {
        let (val, n) = (row.num("val")?, row.num("n")?);
        let got = with_half_life!(row, decay_load::<H>(val, n));
        diff.eq("out", row.num::<u64>("out")?, got);
        Ok(())
    })
}

fn pelt_segments(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    use pelt::accumulate_pelt_segments;
    source.each_row(tally, |row, diff| {
        let (periods, d1, d3) = (row.num("periods")?, row.num("d1")?, row.num("d3")?);
        let got = with_half_life!(row, accumulate_pelt_segments::<H>(periods, d1, d3));
        diff.eq("out", row.num::<u32>("out")?, got);
        Ok(())
    })
}

/// The state columns that the PELT families share.
fn state(row: &Row<'_>) -> Result<SchedAvg, VerifyError> {
    Ok(SchedAvg {
        last_update_time: row.num("last_update_time")?,
        load_sum: row.num("load_sum")?,
        runnable_sum: row.num("runnable_sum")?,
        util_sum: row.num("util_sum")?,
        period_contrib: row.num("period_contrib")?,
        load_avg: row.num("load_avg")?,
        runnable_avg: row.num("runnable_avg")?,
        util_avg: row.num("util_avg")?,
        util_est: 0,
    })
}

fn diff_state(diff: &mut Diff, expected: &SchedAvg, got: &SchedAvg) {
    diff.eq("last_update_time", expected.last_update_time, got.last_update_time)
        .eq("load_sum", expected.load_sum, got.load_sum)
        .eq("runnable_sum", expected.runnable_sum, got.runnable_sum)
        .eq("util_sum", expected.util_sum, got.util_sum)
        .eq("period_contrib", expected.period_contrib, got.period_contrib)
        .eq("load_avg", expected.load_avg, got.load_avg)
        .eq("runnable_avg", expected.runnable_avg, got.runnable_avg)
        .eq("util_avg", expected.util_avg, got.util_avg);
}

fn pelt_se(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    fn step<H: HalfLife>(row: &Row<'_>, sa: &mut SchedAvg) -> Result<bool, VerifyError> {
        let (now, weight) = (row.num("now")?, row.num("weight")?);
        if row.flag("blocked")? {
            return Ok(pelt::update_load_avg_blocked_se::<H>(now, sa, weight));
        }
        let on_rq = row.flag("on_rq")?;
        let runnable =
            pelt::se_runnable(row.flag("is_task")?, on_rq, row.flag("sched_delayed")?, row.num("runnable_weight")?);
        let facts = SeFacts { weight, on_rq, runnable, running: row.flag("is_curr")? };
        Ok(pelt::update_load_avg_se::<H>(now, sa, facts))
    }
    let mut sa = SchedAvg::default();
    for row in source.table()?.rows() {
        let expected = state(&row)?;
        if row.num::<i64>("step")? < 0 {
            sa = expected;
            continue;
        }
        sa.util_est = row.num("util_est_in")?;
        let ret = with_half_life!(row, step::<H>(&row, &mut sa))?;
        let mut diff = Diff::default();
        diff.eq("ret", row.flag("ret")?, ret).eq("util_est_out", row.num("util_est_out")?, sa.util_est);
        diff_state(&mut diff, &expected, &sa);
        tally.case(|| row.place(), diff.finish());
    }
    Ok(())
}

fn pelt_cfs(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    use pelt::update_load_avg_cfs_rq;
    let mut sa = SchedAvg::default();
    for row in source.table()?.rows() {
        let expected = state(&row)?;
        if row.num::<i64>("step")? < 0 {
            sa = expected;
            continue;
        }
        let (now, weight, has_curr) = (row.num("now")?, row.num("load_weight")?, row.flag("has_curr")?);
        let nr_runnable = row.num::<u32>("h_nr_queued")?.wrapping_sub(row.num("h_nr_delayed")?) as u64;
        let ret = with_half_life!(row, update_load_avg_cfs_rq::<H>(now, &mut sa, weight, nr_runnable, has_curr));
        let mut diff = Diff::default();
        diff.eq("ret", row.flag("ret")?, ret);
        diff_state(&mut diff, &expected, &sa);
        tally.case(|| row.place(), diff.finish());
    }
    Ok(())
}

fn pelt_rt_dl_hw_irq(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    fn step<H: HalfLife>(row: &Row<'_>, sa: &mut SchedAvg) -> Result<u32, VerifyError> {
        let (now, arg) = (row.num("now")?, row.num::<u64>("arg")?);
        Ok(match row.str("kind")? {
            "rt" => pelt::update_rt_rq_load_avg::<H>(now, sa, arg != 0) as u32,
            "dl" => pelt::update_dl_rq_load_avg::<H>(now, sa, arg != 0) as u32,
            "hw" => pelt::update_hw_load_avg::<H>(now, sa, arg) as u32,
            "irq" => pelt::update_irq_load_avg::<H>(now, sa, arg, row.num("freq_scale")?, row.num("cpu_cap")?),
            other => return Err(row.error(format!("unknown kind {other:?}"))),
        })
    }
    let mut sa = SchedAvg::default();
    for row in source.table()?.rows() {
        let expected = state(&row)?;
        if row.num::<i64>("step")? < 0 {
            sa = expected;
            continue;
        }
        let ret = with_half_life!(row, step::<H>(&row, &mut sa))?;
        let mut diff = Diff::default();
        diff.eq("ret", row.num("ret")?, ret);
        diff_state(&mut diff, &expected, &sa);
        tally.case(|| row.place(), diff.finish());
    }
    Ok(())
}

/// One CPU of the family `clock_pelt`.
#[derive(Default)]
struct ClockCpu {
    clock: RqClock,
    cfs: SchedAvg,
    rt: SchedAvg,
    irq: SchedAvg,
    busy: bool,
}

fn clock_pelt(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    type H = HalfLife32;
    /// The weight of the one task, by the family's README.
    const WEIGHT: u64 = 1024 << 10;
    let mut cpu = ClockCpu::default();
    for row in source.table()?.rows() {
        let (op, is_rt) = (row.str("op")?, row.flag("is_rt")?);
        let (now, irq_time) = (row.num("now")?, row.num("irq_time")?);
        let expected = RqClock {
            clock: row.num("clock")?,
            clock_task: row.num("clock_task")?,
            clock_pelt: row.num("clock_pelt")?,
            lost_idle_time: row.num("lost_idle_time")?,
            clock_idle: row.num("clock_idle")?,
            clock_pelt_idle: row.num("clock_pelt_idle")?,
            prev_irq_time: irq_time,
        };
        if op == "S" {
            let started =
                SchedAvg { last_update_time: expected.clock_pelt - expected.lost_idle_time, ..SchedAvg::default() };
            cpu = ClockCpu { clock: expected, cfs: started, rt: started, irq: started, busy: false };
            cpu.irq.last_update_time = expected.clock;
            continue;
        }
        let (capacity, freq_scale) = (row.num("cpu_cap")?, row.num("freq_scale")?);
        let irq_delta = cpu.clock.update_rq_clock(now, irq_time, !cpu.busy, capacity, freq_scale);
        if irq_delta != 0 {
            pelt::update_irq_load_avg::<H>(cpu.clock.clock, &mut cpu.irq, irq_delta as u64, freq_scale, capacity);
        }
        let pelt_now = cpu.clock.rq_clock_pelt();
        let weight = if cpu.busy { WEIGHT } else { 0 };
        match op {
            "T" | "W" => {
                pelt::update_load_avg_cfs_rq::<H>(pelt_now, &mut cpu.cfs, weight, cpu.busy as u64, cpu.busy);
                pelt::update_rt_rq_load_avg::<H>(pelt_now, &mut cpu.rt, false);
                cpu.busy |= op == "W";
            }
            "I" => {
                pelt::update_load_avg_cfs_rq::<H>(pelt_now, &mut cpu.cfs, weight, 1, true);
                pelt::update_rt_rq_load_avg::<H>(pelt_now, &mut cpu.rt, is_rt);
                cpu.clock.update_idle_rq_clock_pelt::<H>(cpu.cfs.util_sum, cpu.rt.util_sum, 0);
                cpu.busy = false;
            }
            other => return Err(row.error(format!("unknown op {other:?}"))),
        }
        let mut diff = Diff::default();
        diff.eq("clock", expected.clock, cpu.clock.clock)
            .eq("clock_task", expected.clock_task, cpu.clock.clock_task)
            .eq("clock_pelt", expected.clock_pelt, cpu.clock.clock_pelt)
            .eq("lost_idle_time", expected.lost_idle_time, cpu.clock.lost_idle_time)
            .eq("clock_idle", expected.clock_idle, cpu.clock.clock_idle)
            .eq("clock_pelt_idle", expected.clock_pelt_idle, cpu.clock.clock_pelt_idle)
            .eq("rq_clock_pelt", row.num("rq_clock_pelt")?, cpu.clock.rq_clock_pelt())
            .eq("cfs_util_sum", row.num("cfs_util_sum")?, cpu.cfs.util_sum)
            .eq("cfs_util_avg", row.num("cfs_util_avg")?, cpu.cfs.util_avg)
            .eq("cfs_load_sum", row.num("cfs_load_sum")?, cpu.cfs.load_sum)
            .eq("cfs_period_contrib", row.num("cfs_period_contrib")?, cpu.cfs.period_contrib)
            .eq("rt_util_sum", row.num("rt_util_sum")?, cpu.rt.util_sum)
            .eq("irq_util_avg", row.num("irq_util_avg")?, cpu.irq.util_avg);
        tally.case(|| row.place(), diff.finish());
    }
    Ok(())
}

/// The tasks that a util_est family numbers.
const TASKS: usize = 3;

fn task_of(row: &Row<'_>) -> Result<usize, VerifyError> {
    let task: usize = row.num("task")?;
    if task < TASKS { Ok(task) } else { Err(row.error(format!("task {task} is not below {TASKS}"))) }
}

fn util_est(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    let mut tasks = [SchedAvg::default(); TASKS];
    let mut cfs = SchedAvg::default();
    source.each_row(tally, |row, diff| {
        if row.num::<i64>("step")? == 0 {
            tasks = Default::default();
            cfs = SchedAvg::default();
        }
        let task = &mut tasks[task_of(row)?];
        let capacity = row.num("cpu_cap")?;
        task.util_avg = row.num("util_avg")?;
        task.runnable_avg = row.num("runnable_avg")?;
        match row.str("op")? {
            "pelt" => task.util_est &= !util_est::UTIL_AVG_UNCHANGED,
            "enqueue" => util_est::util_est_enqueue(&mut cfs, task),
            "dequeue_sleep" => {
                util_est::util_est_dequeue(&mut cfs, task);
                util_est::util_est_update(task, true, capacity);
            }
            "dequeue_nosleep" => {
                util_est::util_est_dequeue(&mut cfs, task);
                util_est::util_est_update(task, false, capacity);
            }
            "set_cfs" => cfs.util_est = row.num("cfs_util_est_out")?,
            other => return Err(row.error(format!("unknown op {other:?}"))),
        }
        diff.eq("task_util_est_raw_out", row.num("task_util_est_raw_out")?, task.util_est)
            .eq("task_util_est_masked", row.num("task_util_est_masked")?, util_est::task_util_est_masked(task))
            .eq("task_util_est_max", row.num("task_util_est_max")?, util_est::task_util_est(task))
            .eq("cfs_util_est_out", row.num("cfs_util_est_out")?, cfs.util_est);
        Ok(())
    })
}

/// The estimate as a pair of values, before v6.8.
fn util_est_pair(source: &Source, tally: &mut Tally, form: UtilEstForm) -> Result<(), VerifyError> {
    let mut tasks = [UtilEstPair::default(); TASKS];
    let mut cfs = UtilEstPair::default();
    source.each_row(tally, |row, diff| {
        if row.num::<i64>("step")? == 0 {
            tasks = Default::default();
            cfs = UtilEstPair::default();
        }
        let task = &mut tasks[task_of(row)?];
        let (util_avg, capacity) = (row.num("util_avg")?, row.num("cpu_cap")?);
        match row.str("op")? {
            "pelt" => task.util_change(form),
            "enqueue" => cfs.enqueue(form, task),
            op @ ("dequeue_sleep" | "dequeue_nosleep") => {
                cfs.dequeue(form, task);
                task.update(form, op == "dequeue_sleep", util_avg, 0, capacity);
            }
            "set_cfs" => cfs.enqueued = row.num("cfs_enqueued_out")?,
            other => return Err(row.error(format!("unknown op {other:?}"))),
        }
        diff.eq("enqueued_raw_out", row.num("enqueued_raw_out")?, task.enqueued)
            .eq("ewma_out", row.num("ewma_out")?, task.ewma)
            .eq("task_est_out", row.num("task_est_out")?, task.task_util_est_masked(form) as u64)
            .eq("cfs_enqueued_out", row.num("cfs_enqueued_out")?, cfs.enqueued);
        Ok(())
    })
}
