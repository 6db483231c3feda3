//! CPU selection of deadline tasks and sugov entities (kernel/sched/deadline.c, cpudeadline.c, v6.12).
