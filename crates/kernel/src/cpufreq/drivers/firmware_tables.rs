//! Drivers that are little more than a table that the firmware or the device tree gives them: cpufreq-dt, exynos-acme,
//! qcom-cpufreq-hw, scmi, scpi (drivers/cpufreq/cpufreq-dt.c, qcom-cpufreq-hw.c, scmi-cpufreq.c, scpi-cpufreq.c, v6.12).

use crate::cpufreq::driver::{DriverEntry, FastSwitch};
use crate::cpufreq::freq_table::TableOrder;

const fn entry(name: &'static str, what: &'static str, any_cpu: bool) -> DriverEntry {
    DriverEntry { any_cpu, registers_em: true, ..DriverEntry::of_table(name, what, TableOrder::Ascending) }
}

/// The drivers.
pub static DRIVERS: &[DriverEntry] = &[
    entry("cpufreq-dt", "clocks and regulators of the device tree", true),
    entry("exynos-acme", "Samsung's firmware", false),
    DriverEntry { fast_switch: FastSwitch::Yes, ..entry("qcom-cpufreq-hw", "Qualcomm's frequency hardware", true) },
    entry("scmi", "Arm's firmware by SCMI", true),
    entry("scpi", "Arm's firmware by SCPI", true),
];
