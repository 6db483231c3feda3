//! Families of vectors: load tracking.

use opplab_kernel::clock_pelt::RqClock;
use opplab_kernel::pelt::{self, HalfLife, HalfLife8, HalfLife16, HalfLife32, SchedAvg, SeFacts};
use opplab_kernel::util_est::{self, UtilEstForm, UtilEstPair};

use crate::fields::{Fields, families, read, same, take};
use crate::{Compared, Diff, Row, Source, Tally, VerifyError};

families! {
    Rows pelt_tables, Rows pelt_decay_hl8: pelt_decay, Rows pelt_decay_hl16: pelt_decay,
    Rows pelt_decay_hl32: pelt_decay, Rows pelt_segments_hl8: pelt_segments, Rows pelt_segments_hl16: pelt_segments,
    Rows pelt_segments_hl32: pelt_segments,
    File pelt_se_hl8: |source, tally| each_step(source, tally, pelt_se),
    File pelt_se_hl16: |source, tally| each_step(source, tally, pelt_se),
    File pelt_se_hl32: |source, tally| each_step(source, tally, pelt_se),
    File pelt_cfs_hl8: |source, tally| each_step(source, tally, pelt_cfs),
    File pelt_cfs_hl16: |source, tally| each_step(source, tally, pelt_cfs),
    File pelt_cfs_hl32: |source, tally| each_step(source, tally, pelt_cfs),
    File pelt_rt_dl_hw_irq: |source, tally| each_step(source, tally, pelt_rt_dl_hw_irq),
    File clock_pelt, File util_est,
    File v510_util_est: |source, tally| util_est_pair(source, tally, UtilEstForm::V5_5),
    File util_est_v61: |source, tally| util_est_pair(source, tally, UtilEstForm::V5_12),
}

/// Calls a generic function with the half-life of a row's column `half_life`.
macro_rules! with_half_life {
    ($row:expr, $function:ident :: <H> ( $($argument:expr),* )) => {
        match $row.field::<u32>("half_life")? {
            8 => $function::<HalfLife8>($($argument),*),
            16 => $function::<HalfLife16>($($argument),*),
            32 => $function::<HalfLife32>($($argument),*),
            other => return Err($row.error(format!("half_life {other} is not 8, 16 or 32"))),
        }
    };
}

fn pelt_tables(row: &Row<'_>, diff: &mut Diff) -> Compared {
    fn table<H: HalfLife>(name: &str, index: usize) -> Option<u64> {
        match name {
            "yN_inv" if index < H::PERIOD as usize => Some(H::INV[index] as u64),
            "LOAD_AVG_PERIOD" => Some(H::PERIOD as u64),
            "LOAD_AVG_MAX" => Some(H::MAX as u64),
            _ => None,
        }
    }
    let (name, index) = (row.str("name")?, row.field("index")?);
    same!(diff, row => { value: with_half_life!(row, table::<H>(name, index)) });
    Ok(())
}

fn pelt_decay(row: &Row<'_>, diff: &mut Diff) -> Compared {
    use pelt::decay_load;
    take!(row => val, n);
    same!(diff, row => { out: with_half_life!(row, decay_load::<H>(val, n)) });
    Ok(())
}

fn pelt_segments(row: &Row<'_>, diff: &mut Diff) -> Compared {
    use pelt::accumulate_pelt_segments;
    take!(row => periods, d1, d3);
    same!(diff, row => { out: with_half_life!(row, accumulate_pelt_segments::<H>(periods, d1, d3)) });
    Ok(())
}

/// Replays rows that change one state; those before the first step set it.
fn each_step(source: &Source, tally: &mut Tally, step: fn(&Row<'_>, &mut SchedAvg, &mut Diff) -> Compared) -> Compared {
    let mut sa = SchedAvg::default();
    source.rows(|row| {
        if row.field::<i64>("step")? < 0 {
            sa = read!(row => SchedAvg {
                last_update_time, load_sum, runnable_sum, util_sum, period_contrib, load_avg, runnable_avg, util_avg,
                util_est = 0,
            });
            return Ok(());
        }
        row.case(tally, |diff| {
            step(&row, &mut sa, diff)?;
            same!(diff, row => {
                last_update_time, load_sum, runnable_sum, util_sum, period_contrib, load_avg, runnable_avg, util_avg,
            } of sa);
            Ok(())
        })
    })
}

fn pelt_se(row: &Row<'_>, sa: &mut SchedAvg, diff: &mut Diff) -> Compared {
    fn step<H: HalfLife>(row: &Row<'_>, sa: &mut SchedAvg) -> Result<bool, VerifyError> {
        take!(row => now, weight);
        if row.field("blocked")? {
            return Ok(pelt::update_load_avg_blocked_se::<H>(now, sa, weight));
        }
        take!(row => on_rq, is_task, sched_delayed, runnable_weight);
        let runnable = pelt::se_runnable(is_task, on_rq, sched_delayed, runnable_weight);
        let facts = SeFacts { weight, on_rq, runnable, running: row.field("is_curr")? };
        Ok(pelt::update_load_avg_se::<H>(now, sa, facts))
    }
    sa.util_est = row.field("util_est_in")?;
    let ret = with_half_life!(row, step::<H>(row, sa))?;
    same!(diff, row => { ret, util_est_out: sa.util_est });
    Ok(())
}

fn pelt_cfs(row: &Row<'_>, sa: &mut SchedAvg, diff: &mut Diff) -> Compared {
    use pelt::update_load_avg_cfs_rq;
    take!(row => now, load_weight, has_curr);
    let nr_runnable = row.field::<u32>("h_nr_queued")?.wrapping_sub(row.field("h_nr_delayed")?) as u64;
    same!(diff, row => {
        ret: with_half_life!(row, update_load_avg_cfs_rq::<H>(now, sa, load_weight, nr_runnable, has_curr)),
    });
    Ok(())
}

fn pelt_rt_dl_hw_irq(row: &Row<'_>, sa: &mut SchedAvg, diff: &mut Diff) -> Compared {
    fn step<H: HalfLife>(row: &Row<'_>, sa: &mut SchedAvg) -> Result<u32, VerifyError> {
        let (now, arg) = (row.field("now")?, row.field::<u64>("arg")?);
        Ok(match row.str("kind")? {
            "rt" => pelt::update_rt_rq_load_avg::<H>(now, sa, arg != 0) as u32,
            "dl" => pelt::update_dl_rq_load_avg::<H>(now, sa, arg != 0) as u32,
            "hw" => pelt::update_hw_load_avg::<H>(now, sa, arg) as u32,
            "irq" => pelt::update_irq_load_avg::<H>(now, sa, arg, row.field("freq_scale")?, row.field("cpu_cap")?),
            other => return Err(row.error(format!("unknown kind {other:?}"))),
        })
    }
    same!(diff, row => { ret: with_half_life!(row, step::<H>(row, sa))? });
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

fn clock_pelt(source: &Source, tally: &mut Tally) -> Compared {
    type H = HalfLife32;
    /// The weight of the one task, by the family's README.
    const WEIGHT: u64 = 1024 << 10;
    let mut cpu = ClockCpu::default();
    source.rows(|row| {
        let op = row.str("op")?;
        take!(row => is_rt, now, irq_time);
        if op == "S" {
            let expected = read!(row => RqClock {
                clock, clock_task, clock_pelt, lost_idle_time, clock_idle, clock_pelt_idle, prev_irq_time = irq_time,
            });
            let started =
                SchedAvg { last_update_time: expected.clock_pelt - expected.lost_idle_time, ..SchedAvg::default() };
            cpu = ClockCpu { clock: expected, cfs: started, rt: started, irq: started, busy: false };
            cpu.irq.last_update_time = expected.clock;
            return Ok(());
        }
        let (capacity, freq_scale) = (row.field("cpu_cap")?, row.field("freq_scale")?);
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
        row.case(tally, |diff| {
            let clock = &cpu.clock;
            same!(diff, row => {
                clock, clock_task, clock_pelt, lost_idle_time, clock_idle, clock_pelt_idle,
            } of clock);
            same!(diff, row => {
                rq_clock_pelt: clock.rq_clock_pelt(), cfs_util_sum: cpu.cfs.util_sum,
                cfs_util_avg: cpu.cfs.util_avg, cfs_load_sum: cpu.cfs.load_sum,
                cfs_period_contrib: cpu.cfs.period_contrib, rt_util_sum: cpu.rt.util_sum,
                irq_util_avg: cpu.irq.util_avg,
            });
            Ok(())
        })
    })
}

/// The tasks that a util_est family numbers.
const TASKS: usize = 3;

fn task_of(row: &Row<'_>) -> Result<usize, VerifyError> {
    let task: usize = row.field("task")?;
    if task < TASKS { Ok(task) } else { Err(row.error(format!("task {task} is not below {TASKS}"))) }
}

fn util_est(source: &Source, tally: &mut Tally) -> Compared {
    let mut tasks = [SchedAvg::default(); TASKS];
    let mut cfs = SchedAvg::default();
    source.each_row(tally, |row, diff| {
        if row.field::<i64>("step")? == 0 {
            tasks = Default::default();
            cfs = SchedAvg::default();
        }
        let task = &mut tasks[task_of(row)?];
        let capacity = row.field("cpu_cap")?;
        task.util_avg = row.field("util_avg")?;
        task.runnable_avg = row.field("runnable_avg")?;
        match row.str("op")? {
            "pelt" => task.util_est &= !util_est::UTIL_AVG_UNCHANGED,
            "enqueue" => util_est::util_est_enqueue(&mut cfs, task),
            op @ ("dequeue_sleep" | "dequeue_nosleep") => {
                util_est::util_est_dequeue(&mut cfs, task);
                util_est::util_est_update(task, op == "dequeue_sleep", capacity);
            }
            "set_cfs" => cfs.util_est = row.field("cfs_util_est_out")?,
            other => return Err(row.error(format!("unknown op {other:?}"))),
        }
        same!(diff, row => {
            task_util_est_raw_out: task.util_est, task_util_est_masked: util_est::task_util_est_masked(task),
            task_util_est_max: util_est::task_util_est(task), cfs_util_est_out: cfs.util_est,
        });
        Ok(())
    })
}

/// The estimate as a pair of values, before v6.8.
fn util_est_pair(source: &Source, tally: &mut Tally, form: UtilEstForm) -> Compared {
    let mut tasks = [UtilEstPair::default(); TASKS];
    let mut cfs = UtilEstPair::default();
    source.each_row(tally, |row, diff| {
        if row.field::<i64>("step")? == 0 {
            tasks = Default::default();
            cfs = UtilEstPair::default();
        }
        let task = &mut tasks[task_of(row)?];
        let (util_avg, capacity) = (row.field("util_avg")?, row.field("cpu_cap")?);
        match row.str("op")? {
            "pelt" => task.util_change(form),
            "enqueue" => cfs.enqueue(form, task),
            op @ ("dequeue_sleep" | "dequeue_nosleep") => {
                cfs.dequeue(form, task);
                task.update(form, op == "dequeue_sleep", util_avg, 0, capacity);
            }
            "set_cfs" => cfs.enqueued = row.field("cfs_enqueued_out")?,
            other => return Err(row.error(format!("unknown op {other:?}"))),
        }
        same!(diff, row => {
            enqueued_raw_out: task.enqueued, ewma_out: task.ewma,
            task_est_out: task.task_util_est_masked(form) as u64, cfs_enqueued_out: cfs.enqueued,
        });
        Ok(())
    })
}
