//! Scheduling domains: levels, flags, degeneration (kernel/sched/topology.c, v6.12).
