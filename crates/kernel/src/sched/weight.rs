//! Load weights and virtual time (kernel/sched/core.c, fair.c:__calc_delta(), v6.12).
