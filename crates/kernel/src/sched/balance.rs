//! One load-balance pass: group statistics to detached tasks (kernel/sched/fair.c, v6.12).
