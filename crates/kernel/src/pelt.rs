//! Per-entity load tracking (kernel/sched/pelt.c, pelt.h, v6.12).
