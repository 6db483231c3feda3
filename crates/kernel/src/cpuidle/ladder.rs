//! The ladder idle governor (drivers/cpuidle/governors/ladder.c, v6.12).
