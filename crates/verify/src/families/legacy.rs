//! Families of vectors: load tracking before v5.1.

use opplab_kernel::pelt::HalfLife32;
use opplab_kernel::pelt_scaled::{Scales, SchedAvgScaled, update_load_avg, update_load_sum};

use crate::fields::{Fields, families, read, same, take};
use crate::{Compared, Row, Source, Tally, VerifyError};

families! { File oldpelt_se: oldpelt, File oldpelt_cfs: oldpelt }

fn state(row: &Row<'_>) -> Result<SchedAvgScaled, VerifyError> {
    Ok(read!(row => SchedAvgScaled {
        last_update_time, load_sum, runnable_load_sum, util_sum, period_contrib, load_avg, runnable_load_avg,
        util_avg,
    }))
}

fn oldpelt(source: &Source, tally: &mut Tally) -> Compared {
    let mut sa = SchedAvgScaled::default();
    source.rows(|row| {
        if row.field::<Option<u64>>("step")?.is_none() {
            sa = state(&row)?;
            return Ok(());
        }
        take!(row => now, load, runnable, running);
        let scales = read!(row => Scales { freq_scale, cpu_capacity: "cpu_cap" });
        let decayed = update_load_sum::<HalfLife32>(now, &mut sa, scales, load, runnable, running);
        if decayed {
            update_load_avg::<HalfLife32>(&mut sa, row.field("avg_load_factor")?, row.field("avg_runnable_factor")?);
        }
        row.case(tally, |diff| {
            same!(diff, row => { ret: decayed });
            diff.eq("state", state(&row)?, sa);
            Ok(())
        })
    })
}
