//! Families of vectors: the intel_pstate driver.

use opplab_kernel::cpufreq::intel_pstate::{
    ActiveCpu, Counters, EnergyPerfPreference, EnergyPref, EppMemory, EppSetting, Globals, HwpBoost, HwpCapabilities,
    HwpRequest, IntelHwpTarget, PassiveCpu, PerfLimits, PstateData, PstatePolicy, hwp_set, perf_ctl,
    update_perf_limits,
};

use crate::fields::{Fields, Raw, Value, families, newtypes, read, same, take};
use crate::{Compared, Diff, Row, Source, Tally};

families! {
    File intel_pstate_hwp_boost: hwp_boost, File intel_pstate_core: core, Rows intel_pstate_perf_limits: perf_limits,
    Rows intel_cpufreq_adjust_perf: adjust_perf, Rows intel_pstate_epp: epp, Rows intel_pstate_hwp_set: hwp_set_rows,
}

fn hwp_boost(source: &Source, tally: &mut Tally) -> Compared {
    let mut boost = HwpBoost::default();
    let mut sequence = None;
    source.each_row(tally, |row, diff| {
        let seq: u64 = row.field("seq")?;
        if sequence.replace(seq) != Some(seq) {
            boost = HwpBoost::default();
        }
        take!(row => time, flags, local_cpu, tick_ns, hwp_req_cached, hwp_cap_cached);
        let written = boost.update_util(time, flags, local_cpu, tick_ns, hwp_req_cached, hwp_cap_cached);
        same!(diff, row => {
            msr_written: written.is_some(), msr_value: written.unwrap_or_default().0,
            hwp_boost_min: boost.hwp_boost_min, last_update: boost.last_update_ns,
            last_io_update: boost.last_io_update_ns, sched_flags: boost.sched_flags,
            sample_time: boost.sample_time_ns,
        });
        Ok(())
    })
}

fn core(source: &Source, tally: &mut Tally) -> Compared {
    let mut cpu = None;
    let mut sequence = None;
    source.each_row(tally, |row, diff| {
        let seq: u64 = row.field("seq")?;
        take!(row => min_pstate, max_pstate, turbo_pstate, max_pstate_physical);
        let pstate = PstateData { max_pstate_physical, ..PstateData::core(min_pstate, max_pstate, turbo_pstate) };
        let limits = read!(row => PerfLimits { min_perf_ratio, max_perf_ratio });
        if sequence.replace(seq) != Some(seq) {
            cpu = None;
        }
        let cpu = cpu.get_or_insert_with(|| ActiveCpu::new(pstate, limits));
        cpu.pstate = pstate;
        cpu.limits = limits;
        cpu.aperf_mperf_shift = row.field("aperf_mperf_shift")?;
        let globals = read!(row => Globals { no_turbo, turbo_disabled, ..Globals::default() });
        let counters = read!(row => Counters { aperf, mperf, tsc });
        take!(row => time, flags, tick_ns);
        let update = cpu.update_util(time, flags, tick_ns, counters, &globals);
        let msr_value = update.pstate.map_or(0, |pstate| perf_ctl(pstate, &globals));
        same!(diff, row => {
            iowait_boost: cpu.iowait_boost, sampled: update.sampled, core_avg_perf: cpu.core_avg_perf,
            busy_scaled: cpu.busy_scaled, current_pstate: cpu.current_pstate, msr_written: update.pstate.is_some(),
            msr_value, sample_time: cpu.sample_time_ns, last_update: cpu.last_update_ns,
        });
        Ok(())
    })
}

fn perf_limits(row: &Row<'_>, diff: &mut Diff) -> Compared {
    let scaling = row.field("perf_ctl_scaling")?;
    let pstate =
        PstateData { scaling, perf_ctl_scaling: scaling, ..PstateData::core(0, 0, row.field("turbo_pstate")?) };
    let globals = read!(row => Globals { max_perf_pct, min_perf_pct, per_cpu_limits, ..Globals::default() });
    take!(row => policy_min_khz, policy_max_khz);
    let limits = update_perf_limits(&pstate, &globals, policy_min_khz, policy_max_khz, false);
    same!(diff, row => { min_perf_ratio, max_perf_ratio } of limits);
    Ok(())
}

fn adjust_perf(row: &Row<'_>, diff: &mut Diff) -> Compared {
    let mut cpu = PassiveCpu {
        pstate: PstateData::core(row.field("min_pstate")?, 0, 0),
        limits: read!(row => PerfLimits { min_perf_ratio, max_perf_ratio }),
        current_pstate: 0,
        hwp: Some(row.field("hwp_req_before")?),
        form: IntelHwpTarget::Desired,
    };
    take!(row => hwp_cap, no_turbo, min_perf, target_perf, capacity);
    let msr_written = cpu.adjust_perf(hwp_cap, no_turbo, min_perf, target_perf, capacity);
    same!(diff, row => { hwp_req_after: cpu.hwp, msr_written, current_pstate: cpu.current_pstate });
    Ok(())
}

newtypes!(HwpRequest, HwpCapabilities);

impl Value for PstatePolicy {
    fn of(raw: Raw<'_>) -> Option<Self> {
        match u32::of(raw)? {
            1 => Some(Self::Powersave),
            2 => Some(Self::Performance),
            _ => None,
        }
    }
}

/// A policy as the vectors number it; 0 is none.
pub(super) fn number_of(policy: Option<PstatePolicy>) -> u32 {
    match policy {
        None => 0,
        Some(PstatePolicy::Powersave) => 1,
        Some(PstatePolicy::Performance) => 2,
    }
}

fn epp(row: &Row<'_>, diff: &mut Diff) -> Compared {
    let mut preference = EnergyPerfPreference::new(row.field("epp_default")?);
    preference.epp_values[2] = row.field("balance_perf_value")?;
    let before = row.field("hwp_req_before")?;
    let epb_before: u64 = row.field("epb_before")?;
    let pref = if row.field("has_epp")? { EnergyPref::Epp } else { EnergyPref::Epb(epb_before) };
    let setting = if row.field("use_raw")? && pref == EnergyPref::Epp {
        EppSetting::Raw(row.field("raw_epp")?)
    } else {
        EppSetting::Index(row.field("in_index")?)
    };
    let result = preference.set(setting, row.field("policy")?, before, pref);
    let (after, pref_after) = result.unwrap_or((before, pref));
    let (index, raw) = match preference.get(after, pref_after) {
        EppSetting::Index(index) => (index, 0),
        EppSetting::Raw(raw) => (0, raw),
    };
    let epb_after = match pref_after {
        EnergyPref::Epp => epb_before,
        EnergyPref::Epb(epb) => epb,
    };
    same!(diff, row => {
        ret: if result.is_ok() { 0 } else { -16 }, hwp_req_after: after, epb_after, get_index: index, get_raw: raw,
    });
    Ok(())
}

fn hwp_set_rows(row: &Row<'_>, diff: &mut Diff) -> Compared {
    let mut memory = EppMemory {
        epp_powersave: row.field("epp_powersave_before")?,
        epp_policy: match row.field("epp_policy_before")? {
            1 => Some(PstatePolicy::Powersave),
            2 => Some(PstatePolicy::Performance),
            _ => None,
        },
    };
    let limits = read!(row => PerfLimits { min_perf_ratio, max_perf_ratio });
    let before = row.field("hwp_req_before")?;
    let (after, _) = hwp_set(before, EnergyPref::Epp, &limits, row.field("policy")?, &mut memory);
    diff.eq("hwp_req_after", row.field("hwp_req_after")?, after);
    same!(diff, row => { epp_powersave_after: memory.epp_powersave, epp_policy_after: number_of(memory.epp_policy) });
    Ok(())
}
