//! Drivers that are little more than a table that the firmware or the device tree gives them: cpufreq-dt, exynos-acme,
//! qcom-cpufreq-hw, scmi, scpi (drivers/cpufreq/cpufreq-dt.c, qcom-cpufreq-hw.c, scmi-cpufreq.c, scpi-cpufreq.c, v6.12).

use crate::cpufreq::driver::{DriverEntry, FastSwitch};
use crate::cpufreq::freq_table::TableOrder;

const fn entry(name: &'static str, what: &'static str, any_cpu: bool, zero_is_unknown: bool) -> DriverEntry {
    let table = DriverEntry::of_table(name, what, TableOrder::Ascending);
    DriverEntry { any_cpu, zero_is_unknown, registers_em: true, ..table }
}

/// The drivers.
pub static DRIVERS: &[DriverEntry] = &[
    entry("cpufreq-dt", "clocks and regulators of the device tree", true, true),
    entry("exynos-acme", "Samsung's firmware", false, false),
    DriverEntry {
        fast_switch: FastSwitch::Yes,
        ..entry("qcom-cpufreq-hw", "Qualcomm's frequency hardware", true, false)
    },
    entry("scmi", "Arm's firmware by SCMI", true, true),
    entry("scpi", "Arm's firmware by SCPI", true, true),
];
