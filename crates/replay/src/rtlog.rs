//! How fast the recorded machine was, from rt-app's own logs.
//!
//! rt-app runs a loop as often as its calibration gives; an integer number of ns a loop is up to half a percent off. Its log has
//! both times: what was wanted (`c_duration`) and what it took (`run`).

use opplab_kernel::unit::tick_nsec;

use crate::events::{Events, Left, What};

/// Shorter runs than this show little, as the log counts in us.
const RUN_US_MIN: u64 = 400;

/// Parts of 100 000.
const ONE: u64 = 100_000;

/// The logs of a recording: names of the files, and their texts.
pub(crate) type Logs = [(String, String)];

/// Names of the threads whose logs these are, from `BASENAME-THREAD-NUMBER.log`.
fn thread_names(logs: &Logs) -> Vec<&str> {
    let mut names: Vec<&str> = logs
        .iter()
        .filter_map(|(file, _)| {
            let (rest, _) = file.rsplit_once('-')?;
            Some(rest.rsplit_once('-').map_or(rest, |(_, name)| name))
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The value that a quarter of `values` does not exceed.
fn lower_quartile(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len() / 4).copied()
}

/// What an activation takes beyond the running time that rt-app measures, from the switch to the thread to the switch away, ns:
/// the difference of the lower quartiles of both. `None` if there are no logs.
pub(crate) fn around_run_ns(logs: &Logs, events: &Events) -> Option<u64> {
    let names = thread_names(logs);
    let mut began: Vec<Option<u64>> = vec![None; events.tasks.len()];
    let mut took = Vec::new();
    for ev in &events.list {
        let What::Switch { prev, left, next } = ev.what else { continue };
        if left != Left::Runnable
            && let Some(since_ns) = began.get_mut(prev as usize).and_then(Option::take)
            && names.contains(&events.name(prev))
        {
            took.push(ev.time_ns - since_ns);
        }
        if let Some(began) = began.get_mut(next as usize) {
            began.get_or_insert(ev.time_ns);
        }
    }
    let runs: Vec<u64> = rows(logs).map(|row| row.run_us * 1000).collect();
    lower_quartile(took)?.checked_sub(lower_quartile(runs)?)
}

/// A line of a log, us.
struct LogRow {
    run_us: u64,
    start_us: u64,
    wanted_us: u64,
}

/// All lines of the logs.
fn rows(logs: &Logs) -> impl Iterator<Item = LogRow> {
    logs.iter().flat_map(|(_, text)| text.lines()).filter_map(|line| {
        // Index, loops, run, period, start, end, start relative, slack, wanted run.
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |nth: usize| words.get(nth).and_then(|word| word.parse::<u64>().ok());
        let row = LogRow { run_us: number(2)?, start_us: number(4)?, wanted_us: number(8)? };
        (row.run_us < u64::from(u32::MAX)).then_some(row)
    })
}

/// The time that wanted running time takes on the recorded machine, in parts of 100 000 of it: the median of the runs without
/// a tick, else the least. `None` if there are no logs.
pub(crate) fn run_per_100k(logs: &Logs, hz: u32) -> Option<u64> {
    let tick_us = tick_nsec(hz.into()) / 1000;
    let mut undisturbed = Vec::new();
    let mut least = None;
    for LogRow { run_us, start_us, wanted_us } in rows(logs) {
        if wanted_us < RUN_US_MIN {
            continue;
        }
        let ratio = run_us * ONE / wanted_us;
        least = Some(least.map_or(ratio, |least: u64| least.min(ratio)));
        // The tick is aligned to the clock that the log shows (kernel/time/tick-common.c:tick_setup_device(), v6.12).
        if start_us / tick_us == (start_us + run_us) / tick_us {
            undisturbed.push(ratio);
        }
    }
    undisturbed.sort_unstable();
    undisturbed.get(undisturbed.len() / 2).copied().or(least)
}
