//! What times events can have: what no kernel's clock can show is damage, not a value.

/// No clock reads more: 292 years since the boot or since 1970.
pub(crate) const TIME_MAX_NS: u64 = i64::MAX as u64;

/// No two events that follow each other are further apart: a year.
const STEP_MAX_NS: u64 = 366 * 24 * 3600 * 1_000_000_000;

/// The clock of a text whose times are whole numbers: the kernel prints those that count ns as seconds with a point
/// (kernel/trace/trace_output.c:trace_print_context(), v6.12).
pub(crate) const NO_NS: &str = "counter, uptime or x86-tsc";

/// What a trace clock counts, if it is no ns (kernel/trace/trace.c:trace_clocks, arch/x86/include/asm/trace_clock.h and
/// arch/powerpc/include/asm/trace_clock.h, v6.12).
pub(crate) fn unit_of(clock: &str) -> Option<&'static str> {
    match clock {
        "counter" => Some("events"),
        "uptime" => Some("ticks of the clock"),
        "x86-tsc" | "ppc-tb" => Some("cycles of a counter"),
        NO_NS => Some("events, ticks or cycles"),
        _ => None,
    }
}

/// The times of the events that a reader delivers.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    last_ns: u64,
    started: bool,
}

/// A time that cannot be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OddTime {
    /// What the event's time is to be; `None` leaves the event out.
    pub(crate) time_ns: Option<u64>,
    /// What is wrong.
    pub(crate) what: String,
}

impl Clock {
    /// Takes the time of the next event. What goes back is taken as no time later than the event before, so that no span of
    /// time is negative; a step of years is kept, as either end of it may be right.
    #[inline]
    pub(crate) fn odd(&mut self, time_ns: u64) -> Option<OddTime> {
        if self.started && time_ns.wrapping_sub(self.last_ns) <= STEP_MAX_NS {
            self.last_ns = time_ns;
            return None;
        }
        self.odd_slowly(time_ns)
    }

    #[cold]
    fn odd_slowly(&mut self, time_ns: u64) -> Option<OddTime> {
        if time_ns > TIME_MAX_NS {
            return Some(OddTime { time_ns: None, what: too_late(time_ns) });
        }
        let last_ns = self.last_ns;
        if !std::mem::replace(&mut self.started, true) {
            self.last_ns = time_ns;
            return None;
        }
        if time_ns < last_ns {
            let what = format!("an event's time goes back by {} ns, to {time_ns} ns", last_ns - time_ns);
            return Some(OddTime { time_ns: Some(last_ns), what });
        }
        self.last_ns = time_ns;
        let years = (time_ns - last_ns) / STEP_MAX_NS;
        let what = format!("an event's time is {time_ns} ns, more than {years} years after the one before");
        Some(OddTime { time_ns: Some(time_ns), what })
    }
}

/// What is wrong with a time that no clock shows.
pub(crate) fn too_late(time_ns: u64) -> String {
    format!("an event's time is {time_ns} ns, which no clock shows; it is left out")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_times_are_named() {
        let mut clock = Clock::default();
        let mut check = |time_ns, taken: Option<Option<u64>>| {
            assert_eq!(clock.odd(time_ns).map(|odd| odd.time_ns), taken, "{time_ns}");
        };
        check(u64::MAX, Some(None));
        // A clock that counts from 1970.
        check(1_700_000_000_000_000_000, None);
        check(1_700_000_000_000_000_000, None);
        check(1_699_999_999_999_999_994, Some(Some(1_700_000_000_000_000_000)));
        check(1_700_000_000_000_000_005, None);
        check(u64::MAX - 5, Some(None));
        check(TIME_MAX_NS, Some(Some(TIME_MAX_NS)));
    }
}
