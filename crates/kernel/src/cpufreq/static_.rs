//! performance, powersave and userspace (drivers/cpufreq/cpufreq_{performance,powersave,userspace}.c, v6.12).
