//! acpi-cpufreq: P-states of ACPI's _PSS (drivers/cpufreq/acpi-cpufreq.c, v6.12).

use crate::cpufreq::driver::{CpuinfoFacts, DriverEntry, DriverKind, FastSwitch};
use crate::cpufreq::freq_table::TableOrder;
use crate::freq_invariance::FreqRatio;
use crate::profile::{AcpiCpuinfoMax, Platform};

/// The driver. Its table begins with P0: of two frequencies that are equally near, [`Relation::C`] takes the higher one.
///
/// [`Relation::C`]: crate::cpufreq::freq_table::Relation::C
pub static DRIVERS: &[DriverEntry] = &[DriverEntry {
    kind: DriverKind::Acpi,
    p_states: true,
    fast_switch: FastSwitch::OwnPolicy,
    cpuinfo_max_khz,
    ..DriverEntry::of_table("acpi-cpufreq", "P-states of ACPI", TableOrder::Descending)
}];

/// Above the table where CPPC reports a boost (acpi_cpufreq_cpu_init(), v6.12).
fn cpuinfo_max_khz(facts: &CpuinfoFacts<'_>) -> u32 {
    let (AcpiCpuinfoMax::Boost, Some(cppc)) = (facts.profile.acpi_cpuinfo_max, facts.cppc) else {
        return facts.p0_khz;
    };
    let highest_perf = match facts.platform {
        Platform::Amd => facts.profile.amd_boost_numerator(cppc.highest_perf, cppc.highest_perfs, cppc.family_model),
        _ => cppc.highest_perf.into(),
    };
    let boost_khz = acpi_max_boost_khz(facts.p0_khz, cppc.nominal_freq_mhz, highest_perf, cppc.nominal_perf);
    boost_khz.unwrap_or(facts.p0_khz).max(facts.p0_khz)
}

/// The boost frequency over the nominal one, in 1/1024; `None` without boost, as where the nominal performance is above
/// the highest (acpi-cpufreq.c:get_max_boost_ratio(), v6.12).
pub fn acpi_max_boost_ratio(highest_perf: u64, nominal_perf: u32) -> Option<FreqRatio> {
    let nominal_perf = u64::from(nominal_perf);
    if highest_perf < nominal_perf || highest_perf > u64::from(u32::MAX) {
        return None;
    }
    (highest_perf << 10).checked_div(nominal_perf)
}

/// `cpuinfo_max_freq` as acpi-cpufreq forms it: `freq * (highest_perf * 1024 / nominal_perf) >> 10`, where `freq` is
/// CPPC's nominal frequency, or P0 of the table if the firmware leaves that out (0) (drivers/cpufreq/acpi-cpufreq.c:
/// acpi_cpufreq_cpu_init(), v6.12; older kernels take P0 always). `highest_perf` is, on AMD,
/// [`KernelProfile::amd_boost_numerator`]. `None` without boost.
///
/// [`KernelProfile::amd_boost_numerator`]: crate::profile::KernelProfile::amd_boost_numerator
pub fn acpi_max_boost_khz(p0_khz: u32, nominal_freq_mhz: u32, highest_perf: u64, nominal_perf: u32) -> Option<u32> {
    let ratio = acpi_max_boost_ratio(highest_perf, nominal_perf)?;
    let nominal_khz = u64::from(nominal_freq_mhz) * 1000;
    let khz = if nominal_khz != 0 { nominal_khz } else { u64::from(p0_khz) };
    u32::try_from(khz.checked_mul(ratio)? >> 10).ok()
}
