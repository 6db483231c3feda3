//! Wake-up placement: util_fits_cpu, wake_wide, wake_affine, select_idle_sibling (kernel/sched/fair.c, v6.12).
