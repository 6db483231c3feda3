//! Slow-path placement on fork and exec (kernel/sched/fair.c:sched_balance_find_dst_cpu(), v6.12).
