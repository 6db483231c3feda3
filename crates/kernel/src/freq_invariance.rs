//! Frequency invariance from APERF/MPERF and CPPC (arch/x86/kernel/cpu/aperfmperf.c, arch/x86/kernel/acpi/cppc.c, v6.12).
