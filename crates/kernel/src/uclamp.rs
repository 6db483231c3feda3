//! Utilisation clamps (kernel/sched/core.c, sched.h, v6.12).
