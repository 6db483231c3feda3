//! Families of vectors: the intel_pstate driver.

use opplab_kernel::cpufreq::intel_pstate::{
    ActiveCpu, Counters, EnergyPerfPreference, EnergyPref, EppMemory, EppSetting, Globals, HwpBoost, HwpCapabilities,
    HwpRequest, IntelHwpTarget, PassiveCpu, PerfLimits, PstateData, PstatePolicy, hwp_set, perf_ctl,
    update_perf_limits,
};

use crate::{Family, Row, Source, Tally, VerifyError};

/// The families of this module.
pub const FAMILIES: &[Family] = &[
    Family { name: "intel_pstate_hwp_boost", run: hwp_boost },
    Family { name: "intel_pstate_core", run: core },
    Family { name: "intel_pstate_perf_limits", run: perf_limits },
    Family { name: "intel_cpufreq_adjust_perf", run: adjust_perf },
    Family { name: "intel_pstate_epp", run: epp },
    Family { name: "intel_pstate_hwp_set", run: hwp_set_rows },
];

fn hwp_boost(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    let mut boost = HwpBoost::default();
    let mut sequence = None;
    source.each_row(tally, |row, diff| {
        let seq: u64 = row.num("seq")?;
        if sequence.replace(seq) != Some(seq) {
            boost = HwpBoost::default();
        }
        let written = boost.update_util(
            row.num("time")?,
            row.num("flags")?,
            row.flag("local_cpu")?,
            row.num("tick_ns")?,
            HwpRequest(row.num("hwp_req_cached")?),
            HwpCapabilities(row.num("hwp_cap_cached")?),
        );
        diff.eq("msr_written", row.flag("msr_written")?, written.is_some())
            .eq("msr_value", row.num("msr_value")?, written.unwrap_or_default().0)
            .eq("hwp_boost_min", row.num("hwp_boost_min")?, boost.hwp_boost_min)
            .eq("last_update", row.num("last_update")?, boost.last_update_ns)
            .eq("last_io_update", row.num("last_io_update")?, boost.last_io_update_ns)
            .eq("sched_flags", row.num("sched_flags")?, boost.sched_flags)
            .eq("sample_time", row.num("sample_time")?, boost.sample_time_ns);
        Ok(())
    })
}

fn core(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    let mut cpu = None;
    let mut sequence = None;
    source.each_row(tally, |row, diff| {
        let seq: u64 = row.num("seq")?;
        let pstate = PstateData {
            max_pstate_physical: row.num("max_pstate_physical")?,
            ..PstateData::core(row.num("min_pstate")?, row.num("max_pstate")?, row.num("turbo_pstate")?)
        };
        let limits =
            PerfLimits { min_perf_ratio: row.num("min_perf_ratio")?, max_perf_ratio: row.num("max_perf_ratio")? };
        if sequence.replace(seq) != Some(seq) {
            cpu = None;
        }
        let cpu = cpu.get_or_insert_with(|| ActiveCpu::new(pstate, limits));
        cpu.pstate = pstate;
        cpu.limits = limits;
        cpu.aperf_mperf_shift = row.num("aperf_mperf_shift")?;
        let globals = Globals {
            no_turbo: row.flag("no_turbo")?,
            turbo_disabled: row.flag("turbo_disabled")?,
            ..Globals::default()
        };
        let counters = Counters { aperf: row.num("aperf")?, mperf: row.num("mperf")?, tsc: row.num("tsc")? };
        let update = cpu.update_util(row.num("time")?, row.num("flags")?, row.num("tick_ns")?, counters, &globals);
        let msr_value = update.pstate.map_or(0, |pstate| perf_ctl(pstate, &globals));
        diff.eq("iowait_boost", row.num("iowait_boost")?, cpu.iowait_boost)
            .eq("sampled", row.flag("sampled")?, update.sampled)
            .eq("core_avg_perf", row.num("core_avg_perf")?, cpu.core_avg_perf)
            .eq("busy_scaled", row.num("busy_scaled")?, cpu.busy_scaled)
            .eq("current_pstate", row.num("current_pstate")?, cpu.current_pstate)
            .eq("msr_written", row.flag("msr_written")?, update.pstate.is_some())
            .eq("msr_value", row.num("msr_value")?, msr_value)
            .eq("sample_time", row.num("sample_time")?, cpu.sample_time_ns)
            .eq("last_update", row.num("last_update")?, cpu.last_update_ns);
        Ok(())
    })
}

fn perf_limits(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_row(tally, |row, diff| {
        let scaling = row.num("perf_ctl_scaling")?;
        let pstate =
            PstateData { scaling, perf_ctl_scaling: scaling, ..PstateData::core(0, 0, row.num("turbo_pstate")?) };
        let globals = Globals {
            max_perf_pct: row.num("max_perf_pct")?,
            min_perf_pct: row.num("min_perf_pct")?,
            per_cpu_limits: row.flag("per_cpu_limits")?,
            ..Globals::default()
        };
        let limits =
            update_perf_limits(&pstate, &globals, row.num("policy_min_khz")?, row.num("policy_max_khz")?, false);
        diff.eq("min_perf_ratio", row.num("min_perf_ratio")?, limits.min_perf_ratio).eq(
            "max_perf_ratio",
            row.num("max_perf_ratio")?,
            limits.max_perf_ratio,
        );
        Ok(())
    })
}

fn adjust_perf(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_row(tally, |row, diff| {
        let mut cpu = PassiveCpu {
            pstate: PstateData::core(row.num("min_pstate")?, 0, 0),
            limits: PerfLimits {
                min_perf_ratio: row.num("min_perf_ratio")?,
                max_perf_ratio: row.num("max_perf_ratio")?,
            },
            current_pstate: 0,
            hwp: Some(HwpRequest(row.num("hwp_req_before")?)),
            form: IntelHwpTarget::Desired,
        };
        let written = cpu.adjust_perf(
            HwpCapabilities(row.num("hwp_cap")?),
            row.flag("no_turbo")?,
            row.num("min_perf")?,
            row.num("target_perf")?,
            row.num("capacity")?,
        );
        diff.eq("hwp_req_after", Some(HwpRequest(row.num("hwp_req_after")?)), cpu.hwp)
            .eq("msr_written", row.flag("msr_written")?, written)
            .eq("current_pstate", row.num("current_pstate")?, cpu.current_pstate);
        Ok(())
    })
}

fn policy(row: &Row<'_>) -> Result<PstatePolicy, VerifyError> {
    match row.num("policy")? {
        1 => Ok(PstatePolicy::Powersave),
        2 => Ok(PstatePolicy::Performance),
        other => Err(row.error(format!("unknown policy {other}"))),
    }
}

fn epp(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_row(tally, |row, diff| {
        let mut preference = EnergyPerfPreference::new(row.num("epp_default")?);
        preference.epp_values[2] = row.num("balance_perf_value")?;
        let before = HwpRequest(row.num("hwp_req_before")?);
        let epb_before: u64 = row.num("epb_before")?;
        let pref = if row.flag("has_epp")? { EnergyPref::Epp } else { EnergyPref::Epb(epb_before) };
        let setting = if row.flag("use_raw")? && pref == EnergyPref::Epp {
            EppSetting::Raw(row.num("raw_epp")?)
        } else {
            EppSetting::Index(row.num("in_index")?)
        };
        let result = preference.set(setting, policy(row)?, before, pref);
        let (after, pref_after) = result.unwrap_or((before, pref));
        let (index, raw) = match preference.get(after, pref_after) {
            EppSetting::Index(index) => (index, 0),
            EppSetting::Raw(raw) => (0, raw),
        };
        let epb_after = match pref_after {
            EnergyPref::Epp => epb_before,
            EnergyPref::Epb(epb) => epb,
        };
        diff.eq("ret", row.num("ret")?, if result.is_ok() { 0 } else { -16 })
            .eq("hwp_req_after", HwpRequest(row.num("hwp_req_after")?), after)
            .eq("epb_after", row.num("epb_after")?, epb_after)
            .eq("get_index", row.num("get_index")?, index)
            .eq("get_raw", row.num("get_raw")?, raw);
        Ok(())
    })
}

fn hwp_set_rows(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_row(tally, |row, diff| {
        let number = |policy: Option<PstatePolicy>| match policy {
            None => 0,
            Some(PstatePolicy::Powersave) => 1,
            Some(PstatePolicy::Performance) => 2,
        };
        let mut memory = EppMemory {
            epp_powersave: row.num("epp_powersave_before")?,
            epp_policy: match row.num("epp_policy_before")? {
                1 => Some(PstatePolicy::Powersave),
                2 => Some(PstatePolicy::Performance),
                _ => None,
            },
        };
        let limits =
            PerfLimits { min_perf_ratio: row.num("min_perf_ratio")?, max_perf_ratio: row.num("max_perf_ratio")? };
        let before = HwpRequest(row.num("hwp_req_before")?);
        let (after, _) = hwp_set(before, EnergyPref::Epp, &limits, policy(row)?, &mut memory);
        diff.eq("hwp_req_after", HwpRequest(row.num("hwp_req_after")?), after)
            .eq("epp_powersave_after", row.num("epp_powersave_after")?, memory.epp_powersave)
            .eq("epp_policy_after", row.num("epp_policy_after")?, number(memory.epp_policy));
        Ok(())
    })
}
