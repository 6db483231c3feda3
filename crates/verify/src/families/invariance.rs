//! Families of vectors: frequency invariance on x86.

use opplab_kernel::freq_invariance::{
    AmdPerfCaps, HybridCpuScale, IntelMsrs, IntelTurboModel, arch_max_freq_ratio, scale_freq_tick,
};

use crate::fields::{Fields, families, read, same, take};
use crate::{Compared, Diff, Row, VerifyError};

families! {
    Rows x86_intel_max_freq_ratio: intel_max_freq_ratio, Rows x86_amd_max_freq_ratio: amd_max_freq_ratio,
    Rows x86_scale_freq_tick: freq_tick, Rows x86_hybrid_capacity: hybrid_capacity,
}

fn intel_max_freq_ratio(row: &Row<'_>, diff: &mut Diff) -> Compared {
    let msr = |value: &str, error: &str| -> Result<Option<u64>, VerifyError> {
        Ok(if row.field(error)? { None } else { Some(row.field(value)?) })
    };
    let model = match row.str("model")? {
        "other" => IntelTurboModel::Other,
        "knl" => IntelTurboModel::Knl,
        "skx" => IntelTurboModel::Skx,
        "glm" => IntelTurboModel::Glm,
        other => return Err(row.error(format!("unknown model {other:?}"))),
    };
    let msrs = IntelMsrs {
        misc_enable: msr("misc_enable", "misc_err")?,
        atom_core_ratios: msr("atom_ratios", "atom_ratios_err")?,
        atom_core_turbo_ratios: msr("atom_turbo", "atom_turbo_err")?,
        platform_info: msr("platform_info", "platform_info_err")?,
        turbo_ratio_limit: msr("turbo_limit", "turbo_limit_err")?,
        turbo_ratio_limit1: msr("turbo_limit1", "turbo_limit1_err")?,
    };
    let turbo = msrs.turbo_freq_ratio(model);
    let max = turbo.map_or(1024, |ratio| arch_max_freq_ratio(ratio, msrs.turbo_disabled()));
    same!(diff, row => { ret: turbo.is_some(), turbo_freq_ratio: turbo.unwrap_or(1024), max_freq_ratio: max });
    Ok(())
}

fn amd_max_freq_ratio(row: &Row<'_>, diff: &mut Diff) -> Compared {
    let readable = row.field::<i64>("caps_rc")? == 0;
    let highest_perfs = row.field::<Vec<u32>>("highest_perfs")?;
    let caps = read!(row => AmdPerfCaps {
        nominal_perf = if readable { Some(row.field("nominal_perf")?) } else { None },
        highest_perfs = &highest_perfs, zen4, model,
    });
    let ratio = caps.max_freq_ratio();
    same!(diff, row => {
        prefcore: caps.prefcore(), numerator: caps.boost_ratio_numerator(), max_freq_ratio: ratio.unwrap_or(0),
        set: ratio.is_some(),
    });
    Ok(())
}

fn freq_tick(row: &Row<'_>, diff: &mut Diff) -> Compared {
    let ratio = if row.field("hybrid")? { row.field("hybrid_freq_ratio")? } else { row.field("max_freq_ratio")? };
    let scale = scale_freq_tick(row.field("acnt")?, row.field("mcnt")?, ratio);
    same!(diff, row => {
        freq_scale_after: scale.unwrap_or(row.field("freq_scale_before")?), disabled: scale.is_none(),
    });
    Ok(())
}

fn hybrid_capacity(row: &Row<'_>, diff: &mut Diff) -> Compared {
    let expected = read!(row => HybridCpuScale { capacity, freq_ratio });
    take!(row => cap, max_cap, cap_freq, base_freq);
    diff.eq("scale", Some(expected), HybridCpuScale::new(cap, max_cap, cap_freq, base_freq));
    Ok(())
}
