//! Load sampling for demand-based switching (drivers/cpufreq/cpufreq_governor.c, v6.12).
