//! The CFS run queue before EEVDF (kernel/sched/fair.c, v5.10).
