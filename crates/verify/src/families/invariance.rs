//! Families of vectors: frequency invariance on x86.

use opplab_kernel::freq_invariance::{
    AmdPerfCaps, HybridCpuScale, IntelMsrs, IntelTurboModel, arch_max_freq_ratio, scale_freq_tick,
};

use crate::{Family, Row, Source, Tally, VerifyError};

/// The families of this module.
pub const FAMILIES: &[Family] = &[
    Family { name: "x86_intel_max_freq_ratio", run: intel_max_freq_ratio },
    Family { name: "x86_amd_max_freq_ratio", run: amd_max_freq_ratio },
    Family { name: "x86_scale_freq_tick", run: freq_tick },
    Family { name: "x86_hybrid_capacity", run: hybrid_capacity },
];

fn intel_max_freq_ratio(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_row(tally, |row, diff| {
        let msr = |value: &str, error: &str| -> Result<Option<u64>, VerifyError> {
            Ok(if row.flag(error)? { None } else { Some(row.num(value)?) })
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
        diff.eq("ret", row.flag("ret")?, turbo.is_some())
            .eq("turbo_freq_ratio", row.num("turbo_freq_ratio")?, turbo.unwrap_or(1024))
            .eq("max_freq_ratio", row.num("max_freq_ratio")?, max);
        Ok(())
    })
}

fn list(row: &Row<'_>, column: &str) -> Result<Vec<u32>, VerifyError> {
    let items = row.str(column)?.split(';').filter(|item| !item.is_empty());
    items.map(|item| item.parse().map_err(|error| row.error(format!("column {column:?}: {item:?}: {error}")))).collect()
}

fn amd_max_freq_ratio(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_row(tally, |row, diff| {
        let readable = row.num::<i64>("caps_rc")? == 0;
        let highest_perfs = list(row, "highest_perfs")?;
        let caps = AmdPerfCaps {
            nominal_perf: if readable { Some(row.num("nominal_perf")?) } else { None },
            highest_perfs: &highest_perfs,
            zen4: row.flag("zen4")?,
            model: row.num("model")?,
        };
        let ratio = caps.max_freq_ratio();
        diff.eq("prefcore", row.flag("prefcore")?, caps.prefcore())
            .eq("numerator", row.num("numerator")?, caps.boost_ratio_numerator())
            .eq("max_freq_ratio", row.num("max_freq_ratio")?, ratio.unwrap_or(0))
            .eq("set", row.flag("set")?, ratio.is_some());
        Ok(())
    })
}

fn freq_tick(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_row(tally, |row, diff| {
        let ratio = if row.flag("hybrid")? { row.num("hybrid_freq_ratio")? } else { row.num("max_freq_ratio")? };
        let scale = scale_freq_tick(row.num("acnt")?, row.num("mcnt")?, ratio);
        diff.eq("freq_scale_after", row.num("freq_scale_after")?, scale.unwrap_or(row.num("freq_scale_before")?)).eq(
            "disabled",
            row.flag("disabled")?,
            scale.is_none(),
        );
        Ok(())
    })
}

fn hybrid_capacity(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_row(tally, |row, diff| {
        let expected = HybridCpuScale { capacity: row.num("capacity")?, freq_ratio: row.num("freq_ratio")? };
        let got =
            HybridCpuScale::new(row.num("cap")?, row.num("max_cap")?, row.num("cap_freq")?, row.num("base_freq")?);
        diff.eq("scale", Some(expected), got);
        Ok(())
    })
}
