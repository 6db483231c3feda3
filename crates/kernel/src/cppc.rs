//! CPPC conversions and the artificial energy model (drivers/cpufreq/cppc_cpufreq.c, drivers/acpi/cppc_acpi.c, v6.12).
