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

/// CPU time of this process, ns.
pub(crate) fn own_cpu_ns() -> u64 {
    read(ClockId::ProcessCPUTime)
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
