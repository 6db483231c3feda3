//! The overutilised state of the root domain: whether loads are balanced rather than energy, and for how long.

/// Nobody sets it without its times.
#[derive(Debug)]
pub(crate) struct OverutilizedState {
    is_set: bool,
    since_ns: u64,
    /// When a CPU was last seen to be overutilised.
    noted_ns: u64,
}

/// How a note changed the state.
pub(super) enum Change {
    /// It is set now.
    Set,
    /// It is not set any more after this time, ns.
    Cleared(u64),
}

impl OverutilizedState {
    /// Not set, at the start of a run.
    pub(crate) fn new(start_ns: u64) -> Self {
        Self { is_set: false, since_ns: start_ns, noted_ns: 0 }
    }

    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.is_set
    }

    /// For how long it is set, ns.
    pub(crate) fn lasts_ns(&self, now_ns: u64) -> u64 {
        if self.is_set { now_ns - self.since_ns } else { 0 }
    }

    /// Some CPU is overutilised, or none any more: then the state stays for `linger_ns` after the last that was. If
    /// it is ignored it is never set.
    pub(super) fn note(&mut self, overutilized: bool, now_ns: u64, linger_ns: u64, ignored: bool) -> Option<Change> {
        if overutilized {
            self.noted_ns = now_ns;
        } else if now_ns - self.noted_ns < linger_ns {
            return None;
        }
        if overutilized == self.is_set || (overutilized && ignored) {
            return None;
        }
        let lasted_ns = self.lasts_ns(now_ns);
        (self.is_set, self.since_ns) = (overutilized, now_ns);
        Some(if overutilized { Change::Set } else { Change::Cleared(lasted_ns) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lingers_after_the_last_note_and_counts_from_the_first() {
        let mut state = OverutilizedState::new(100);
        assert!(state.note(true, 200, 50, true).is_none() && !state.is_set(), "ignored");
        assert!(matches!(state.note(true, 300, 50, false), Some(Change::Set)));
        assert!(state.note(true, 320, 50, false).is_none() && state.note(false, 360, 50, false).is_none());
        assert_eq!(state.lasts_ns(360), 60);
        assert!(matches!(state.note(false, 370, 50, false), Some(Change::Cleared(70))));
        assert_eq!(state.lasts_ns(400), 0);
    }
}
