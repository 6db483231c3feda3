//! Clocks, sleeping, and the signals that end a command.

use std::io::{IsTerminal as _, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::error::HostError;

fn read(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CLOCK_MONOTONIC, ns.
pub(crate) fn monotonic_ns() -> u64 {
    read(ClockId::Monotonic)
}

/// A moment by the clocks that nobody can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moment {
    /// CLOCK_MONOTONIC, which stands still while the machine sleeps.
    pub time_ns: u64,
    /// How long the machine has slept since it was started: CLOCK_BOOTTIME is so far ahead.
    pub slept_ns: u64,
}

/// The two clocks are read one after the other; what they differ by meanwhile is no sleep.
const SLEEP_MIN_NS: u64 = 50_000_000;

impl Moment {
    /// Now.
    pub fn now() -> Self {
        let time_ns = monotonic_ns();
        Self { time_ns, slept_ns: read(ClockId::Boottime).saturating_sub(time_ns) }
    }

    /// How long it is since `before`; `None` if the machine slept meanwhile or the clock did not go on, so that what was
    /// counted meanwhile has no duration that it could be divided by.
    pub fn since(&self, before: &Self) -> Option<u64> {
        let awake = self.slept_since(before).is_none();
        self.time_ns.checked_sub(before.time_ns).filter(|&ns| ns > 0 && awake)
    }

    /// How long the machine slept since `before`, if it did.
    pub fn slept_since(&self, before: &Self) -> Option<u64> {
        self.slept_ns.checked_sub(before.slept_ns).filter(|&ns| ns >= SLEEP_MIN_NS)
    }

    /// How long it is since `before`, asleep or not.
    pub fn lived_since(&self, before: &Self) -> u64 {
        let lived = |moment: &Self| moment.time_ns.saturating_add(moment.slept_ns);
        lived(self).saturating_sub(lived(before))
    }
}

/// CPU time of this process, ns.
pub(crate) fn own_cpu_ns() -> u64 {
    read(ClockId::ProcessCPUTime)
}

/// CPU time of this thread, ns.
pub(crate) fn thread_cpu_ns() -> u64 {
    read(ClockId::ThreadCPUTime)
}

/// Seconds since 1970.
pub(crate) fn time_of_day_s() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Whether standard output is a terminal.
pub(crate) fn is_terminal_out() -> bool {
    stdout().is_terminal()
}

/// A flag that SIGINT, SIGTERM, SIGHUP and SIGQUIT raise.
pub(crate) struct Stop {
    flag: Arc<AtomicBool>,
}

impl Stop {
    /// Takes the signals over.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn on_signals() -> Result<Self, HostError> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            signal_hook::flag::register(signal, Arc::clone(&flag))
                .map_err(|error| HostError::io("catching signals", error))?;
        }
        Ok(Self { flag })
    }

    /// Whether a signal came.
    pub(crate) fn is_raised(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// Sleeps until the monotonic time; false if a signal ended it.
    pub(crate) fn sleep_until(&self, until_ns: u64) -> bool {
        // A signal interrupts no std sleep, so that the flag is looked at twenty times a second.
        const STEP_NS: u64 = 50_000_000;
        loop {
            if self.is_raised() {
                return false;
            }
            let now_ns = monotonic_ns();
            if now_ns >= until_ns {
                return true;
            }
            std::thread::sleep(Duration::from_nanos((until_ns - now_ns).min(STEP_NS)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: no interval contains sleep, none is empty or negative. Method: moments before and after, jumps to both sides.
    #[test]
    fn intervals_are_of_time_awake() {
        let at = |time_ns, slept_ns| Moment { time_ns, slept_ns };
        let before = at(1_000_000_000, 7);
        assert_eq!(at(1_500_000_000, 900).since(&before), Some(500_000_000));
        assert_eq!(at(1_500_000_000, 0).since(&before), Some(500_000_000));
        for after in [at(1_500_000_000, 5_000_000_007), at(1_000_000_000, 7), at(999_999_999, 7), at(0, u64::MAX)] {
            assert_eq!(after.since(&before), None, "{after:?}");
        }
        assert_eq!(at(1_500_000_000, 5_000_000_007).slept_since(&before), Some(5_000_000_000));
        assert_eq!(at(1_500_000_000, 5_000_000_007).lived_since(&before), 5_500_000_000);
        assert_eq!(at(u64::MAX, u64::MAX).lived_since(&at(u64::MAX, 3)), 0);
        let (now, then) = (Moment::now(), Moment::now());
        assert!(then.time_ns >= now.time_ns && then.slept_since(&now).is_none());
    }
}
