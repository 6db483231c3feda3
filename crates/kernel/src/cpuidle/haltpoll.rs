//! The haltpoll idle governor (drivers/cpuidle/governors/haltpoll.c, v6.12).
