//! Run-queue clocks and PELT's time dilation (kernel/sched/pelt.h, core.c, v6.12).
