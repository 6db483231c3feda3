//! Families of vectors: load tracking before v5.1.

use opplab_kernel::pelt::HalfLife32;
use opplab_kernel::pelt_scaled::{Scales, SchedAvgScaled, update_load_avg, update_load_sum};

use crate::{Diff, Family, Row, Source, Tally, VerifyError};

/// The families of this module.
pub const FAMILIES: &[Family] =
    &[Family { name: "oldpelt_se", run: oldpelt }, Family { name: "oldpelt_cfs", run: oldpelt }];

fn state(row: &Row<'_>) -> Result<SchedAvgScaled, VerifyError> {
    Ok(SchedAvgScaled {
        last_update_time: row.num("last_update_time")?,
        load_sum: row.num("load_sum")?,
        runnable_load_sum: row.num("runnable_load_sum")?,
        util_sum: row.num("util_sum")?,
        period_contrib: row.num("period_contrib")?,
        load_avg: row.num("load_avg")?,
        runnable_load_avg: row.num("runnable_load_avg")?,
        util_avg: row.num("util_avg")?,
    })
}

fn oldpelt(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    let mut sa = SchedAvgScaled::default();
    for row in source.table()?.rows() {
        if row.num::<i64>("step")? == -1 {
            sa = state(&row)?;
            continue;
        }
        let scales = Scales { freq_scale: row.num("freq_scale")?, cpu_capacity: row.num("cpu_cap")? };
        let (load, runnable, running) = (row.num("load")?, row.num("runnable")?, row.flag("running")?);
        let decayed = update_load_sum::<HalfLife32>(row.num("now")?, &mut sa, scales, load, runnable, running);
        if decayed {
            update_load_avg::<HalfLife32>(&mut sa, row.num("avg_load_factor")?, row.num("avg_runnable_factor")?);
        }
        let mut diff = Diff::default();
        diff.eq("ret", row.flag("ret")?, decayed).eq("state", state(&row)?, sa);
        tally.case(|| row.place(), diff.finish());
    }
    Ok(())
}
