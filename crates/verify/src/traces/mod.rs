//! Agreement with recordings of real kernels: every decision whose inputs a recording holds is computed anew with crate
//! `kernel` and compared with what the kernel did.
//!
//! A recording is a folder: `trace.dat` with the kernel's tracepoints and probes at the entry and exit of the functions
//! that matter, and snapshots of sysfs and debugfs. One pass over the events keeps the state that the records
//! show (run queues, tasks, policies) and counts, kind by kind, how many recomputed results are equal. What cannot be compared
//! because an input was not recorded is counted apart, with the reason; what differs is counted by cause.
//! Nothing here knows a recording by its name.

mod clock;
mod freq;
pub mod input;
mod load;
mod place;
mod report;
pub mod signals;
mod state;

use std::collections::BTreeMap;
use std::path::Path;

pub use freq::RecordedFreq;
pub use place::{RecordedChoice, RecordedPlacement};
pub use report::{BIT_EXACT, KindCount, RecordingReport};

use crate::VerifyError;
use input::Recording;
use opplab_trace::{ReadOptions, RecordingFiles};

/// How near a rebuilt `util_avg` is to be, in units of 1024.
pub const SIGNAL_LIMIT: u64 = 8;

/// Recomputes every decision of the recording at `dir`, a folder or an archive.
///
/// # Errors
/// [`VerifyError`] if the folder has no readable trace or no snapshot of the machine.
pub fn verify_recording(dir: &Path) -> Result<RecordingReport, VerifyError> {
    Ok(verify(&Recording::read(dir)?))
}

/// As [`verify_recording`], of a recording in memory.
pub fn verify(recording: &Recording) -> RecordingReport {
    let mut clock = clock::Clock::new(&recording.machine);
    let mut freq = freq::Freq::new(&recording.machine);
    let mut place = place::Place::new(&recording.machine);
    let (mut report, state) = walk(recording, |event, state, report| {
        clock.event(event, state, report);
        freq.event(event, state, report);
        place.event(event, state, report);
    });
    let signals = signals::compare(recording, &state.group_queues);
    report.signal("signal_tasks", &signals.tasks, SIGNAL_LIMIT);
    report.signal("signal_queues", &signals.queues, SIGNAL_LIMIT);
    report
}

/// One pass over the events; `parts` see each with the state before it.
fn walk<'a>(
    recording: &'a Recording,
    mut parts: impl FnMut(&input::Ev<'_>, &state::State<'a>, &mut RecordingReport),
) -> (RecordingReport, state::State<'a>) {
    let mut report = RecordingReport::new(recording);
    let mut state = state::State::new(recording);
    for event in recording.events.iter() {
        parts(&event, &state, &mut report);
        load::event(&event, &mut state, &mut report);
    }
    (report, state)
}

/// What a recording holds of its kernel's decisions.
pub struct Decisions<T> {
    /// In order of time.
    pub list: Vec<T>,
    /// The machine.
    pub machine: input::Machine,
    /// The tasks' names by pid.
    pub names: BTreeMap<i64, String>,
    /// What of the trace is damaged.
    pub damage: Vec<String>,
}

impl<T> Decisions<T> {
    fn of(recording: Recording, list: Option<Vec<T>>) -> Self {
        let Recording { machine, events, .. } = recording;
        Self { list: list.unwrap_or_default(), machine, names: events.names, damage: events.damage }
    }
}

/// The frequency decisions of the recorded kernel's schedutil with what went into them.
///
/// # Errors
/// As [`verify_recording`].
pub fn frequency_decisions(dir: &Path) -> Result<Decisions<RecordedFreq>, VerifyError> {
    let recording = Recording::read(dir)?;
    let mut freq = freq::Freq::new(&recording.machine);
    freq.seen = Some(Vec::new());
    walk(&recording, |event, state, report| freq.event(event, state, report));
    let seen = freq.seen.take();
    Ok(Decisions::of(recording, seen))
}

/// The placements of wake-ups in the recorded kernel with what went into them; those whose inputs the recording does not hold
/// are not among them.
///
/// # Errors
/// As [`verify_recording`].
pub fn placements(dir: &Path) -> Result<Decisions<RecordedPlacement>, VerifyError> {
    let recording = Recording::read(dir)?;
    let mut place = place::Place::new(&recording.machine);
    place.seen = Some(Vec::new());
    walk(&recording, |event, state, report| place.event(event, state, report));
    let seen = place.seen.take();
    Ok(Decisions::of(recording, seen))
}

/// The recordings at `path`: itself, if it is one's folder or an archive, or the folders in it that hold one, by name.
///
/// # Errors
/// [`VerifyError::Read`] if `path` cannot be listed or holds no recording.
pub fn find_recordings(path: &Path) -> Result<Vec<std::path::PathBuf>, VerifyError> {
    let is_recording = |dir: &Path| dir.join("trace.dat").is_file();
    let fail = |reason: String| VerifyError::Read { path: path.to_owned(), reason };
    let is_trace = || {
        let Ok(files) = RecordingFiles::open(path) else { return false };
        files.text(input::SYSFS).is_some() && files.trace.reader(&ReadOptions::default()).is_ok()
    };
    if is_recording(path) || path.is_file() && is_trace() {
        return Ok(vec![path.to_owned()]);
    }
    if path.is_file() {
        return Err(fail(format!("no recording: no trace, or no {} in it or beside it", input::SYSFS)));
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(|error| fail(error.to_string()))? {
        let dir = entry.map_err(|error| fail(error.to_string()))?.path();
        if is_recording(&dir) {
            found.push(dir);
        }
    }
    if found.is_empty() {
        return Err(fail("no recording: neither it nor a folder in it has a trace.dat".into()));
    }
    found.sort();
    Ok(found)
}
