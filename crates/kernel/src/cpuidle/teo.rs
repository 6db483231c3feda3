//! The timer-events-oriented idle governor (drivers/cpuidle/governors/teo.c, v6.12).
