//! The EEVDF run queue (kernel/sched/fair.c, v6.12).
