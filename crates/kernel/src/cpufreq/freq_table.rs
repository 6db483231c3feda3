//! Frequency tables (drivers/cpufreq/freq_table.c, include/linux/cpufreq.h, v6.12).
