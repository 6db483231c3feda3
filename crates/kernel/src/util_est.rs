//! Estimated utilisation of tasks (kernel/sched/fair.c, v6.12 and v5.10).
