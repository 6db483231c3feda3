//! rt-app's own log: one line a loop of a phase, so that scripts that read rt-app's files read a simulated run.
//!
//! The columns are those of rt-app (src/rt-app_utils.c:log_timing(), commit 55cb0c0); times are in us.

use std::fmt::Write as _;

/// First line of a log: the names of the columns, in the widths in which rt-app prints them.
pub const LOG_HEADER: &str = "#idx     perf      run   period           start             end          rel_st      slack c_duration   c_period     wu_lat";

/// What is logged of one loop of a phase. Times are ns; the log rounds them to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoopRecord {
    /// Index of the thread.
    pub idx: u32,
    /// Work that its run events are configured with, in ns (the log gives it in calibration loops).
    pub run_config_ns: u64,
    /// Time that its run events took.
    pub run_ns: u64,
    /// Time from start to end.
    pub period_ns: u64,
    /// When it began.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// When it began, since rt-app started.
    pub rel_start_ns: u64,
    /// Slack at its last timer, or the sum over its timers.
    pub slack_ns: i64,
    /// Sum of the periods of its timers.
    pub period_config_ns: u64,
    /// Lateness of the wake-ups by its timers.
    pub wu_lat_ns: u64,
}

/// Name of the log file of a thread, without the folder.
pub fn log_file_name(log_basename: &str, thread: &str) -> String {
    format!("{log_basename}-{thread}.log")
}

/// Whole us nearest to `ns`, halves away from zero, as rt-app rounds.
fn us(ns: u64) -> u64 {
    ns / 1000 + u64::from(ns % 1000 >= 500)
}

/// One line, with its line feed. `ns_per_loop` is the calibration (pLoad); `perf` is the configured us divided by it.
/// 0 counts as 1.
pub fn log_line(record: &LoopRecord, ns_per_loop: u32) -> String {
    let mut line = String::with_capacity(128);
    let perf = us(record.run_config_ns) / u64::from(ns_per_loop.max(1));
    let slack = i64::try_from(us(record.slack_ns.unsigned_abs())).unwrap_or(i64::MAX) * record.slack_ns.signum();
    writeln!(
        line,
        "{:4} {:8} {:8} {:8} {:15} {:15} {:15} {:10} {:10} {:10} {:10}",
        record.idx,
        perf,
        us(record.run_ns),
        us(record.period_ns),
        us(record.start_ns),
        us(record.end_ns),
        us(record.rel_start_ns),
        slack,
        us(record.run_config_ns),
        us(record.period_config_ns),
        us(record.wu_lat_ns),
    )
    .expect("writing to a string cannot fail");
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_columns_of_rt_app() {
        let record = LoopRecord {
            idx: 3,
            run_config_ns: 800_000,
            run_ns: 812_999,
            period_ns: 16_000_400,
            start_ns: 5_000_000_000,
            end_ns: 5_016_000_400,
            rel_start_ns: 16_000_000,
            slack_ns: -1_500,
            period_config_ns: 16_000_000,
            wu_lat_ns: 52_000,
        };
        assert_eq!(
            log_line(&record, 100),
            "   3        8      813    16000         5000000         5016000           16000         -2        800      16000         52\n"
        );
        assert_eq!(log_file_name("rt-app", "thread0-0"), "rt-app-thread0-0.log");
        // The header as rt-app's own format builds it: "%s %8s %8s %8s %15s %15s %15s %10s %10s %10s %10s".
        let names = ["perf", "run", "period", "start", "end", "rel_st", "slack", "c_duration", "c_period", "wu_lat"];
        let widths = [8, 8, 8, 15, 15, 15, 10, 10, 10, 10];
        let mut header = String::from("#idx");
        for (name, width) in names.iter().zip(widths) {
            header.push_str(&format!(" {name:>width$}"));
        }
        assert_eq!(LOG_HEADER, header);
    }
}
