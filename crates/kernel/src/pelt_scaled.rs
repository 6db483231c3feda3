//! PELT before v5.1: contributions scaled by frequency and capacity (kernel/sched/pelt.c, v4.19).
