//! When to balance: intervals, newidle cost control, idle-scan depth (kernel/sched/fair.c, v6.12).
