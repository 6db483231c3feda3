//! amd-pstate: active, passive and guided basics (drivers/cpufreq/amd-pstate.c, v6.12).
