//! The ondemand governor (drivers/cpufreq/cpufreq_ondemand.c, v6.12).
