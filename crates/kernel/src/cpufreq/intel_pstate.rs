//! intel_pstate: HWP boost, non-HWP active mode, limits, EPP, adjust_perf (drivers/cpufreq/intel_pstate.c, v6.12).
