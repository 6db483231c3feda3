//! The scheduler's clock and the trace clock `local`: both are `sched_clock()`, but on machines whose clock was found to be stable
//! at boot (x86) the scheduler adds a constant to it.
//!
//! Load tracking's periods of 1024 us end at multiples of its clock, so it matters which clock a trace has.

/// What the scheduler's clock is ahead of the trace clock `local`, in ns, by the first of the kernel's logs that has it: 0 if
/// none does (kernel/sched/clock.c:__set_sched_clock_stable(), v6.12).
///
/// ```
/// let log = "[ 1.1] sched_clock: Marking stable (1122167104, -11611850)->(939093678, 171461576)\n";
/// assert_eq!(opplab_signals::clock::sched_clock_offset_ns([log.to_owned()]), 171_461_576);
/// ```
pub fn sched_clock_offset_ns(logs: impl IntoIterator<Item = String>) -> i64 {
    logs.into_iter().find_map(|log| log.lines().find_map(offset_of)).unwrap_or(0)
}

/// The last of the four numbers of the line.
fn offset_of(line: &str) -> Option<i64> {
    let (_, numbers) = line.split_once("sched_clock: Marking stable (")?;
    numbers.trim_end().strip_suffix(')')?.rsplit_once(", ")?.1.parse().ok()
}
