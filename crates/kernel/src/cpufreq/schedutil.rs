//! The schedutil governor (kernel/sched/cpufreq_schedutil.c, v6.12 and v5.10).
