//! Energy-aware placement (kernel/sched/fair.c:find_energy_efficient_cpu(), v6.12 and the 5.x form with a margin).
