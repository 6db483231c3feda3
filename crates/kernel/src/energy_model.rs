//! Energy model tables (kernel/power/energy_model.c, include/linux/energy_model.h, v6.12).
