//! The menu idle governor (drivers/cpuidle/governors/menu.c, v6.12).
