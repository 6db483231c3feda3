//! PELT of new, migrating and grouped tasks: attach, detach, propagate (kernel/sched/fair.c, v6.12).
