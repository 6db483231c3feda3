//! The conservative governor (drivers/cpufreq/cpufreq_conservative.c, v6.12).
