//! The half-life of load tracking that a trace shows: upstream compiles 32 ms, Android's `sched_pelt_multiplier` makes 16 or 8 of it.
//!
//! A run of the engine writes it as a mark. Where the kernel's own records of tasks (`pelt_se_tp`) are in a trace, that half-life whose
//! rebuilt averages are nearest to them is the kernel's.

use opplab_kernel::pelt::HalfLife;
pub use opplab_kernel::pelt::{HalfLife8, HalfLife16, HalfLife32};
use opplab_trace::{BySchema, Event, HALF_LIFE_MARK, Schema};

use crate::Places;
use crate::decode::{SchedEvent, SchedSink};
use crate::pelt::{PeltReplay, Samples};

/// Names of the kernel's records of a task's averages, in modules and probes.
pub const RECORDS: [&str; 5] = ["pelt_se", "pelt_se_tp", "sched_pelt_se", "sched_pelt_se_tp", "lisa__sched_pelt_se"];
/// What is taken where nothing shows another: upstream's.
pub const ASSUMED_MS: u32 = 32;
/// The kernel's half-lives, ms.
pub const KNOWN_MS: [u32; 3] = [8, 16, 32];
/// So many records of tasks must show it; more than the most show no more.
const RECORDS_MIN: u32 = 20;
const RECORDS_MAX: u32 = 4000;
/// A rebuilt average whose bound is above this is not compared.
const BOUND_MAX: u64 = 16;

/// Evaluates an expression with the type of a half-life of so many ms.
#[macro_export]
macro_rules! with_half_life {
    ($ms:expr, $H:ident => $call:expr) => {
        match $ms {
            8 => {
                type $H = $crate::half_life::HalfLife8;
                $call
            }
            16 => {
                type $H = $crate::half_life::HalfLife16;
                $call
            }
            _ => {
                type $H = $crate::half_life::HalfLife32;
                $call
            }
        }
    };
}

/// A half-life that a trace shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// 8, 16 or 32.
    pub ms: u32,
    /// The records that show it; `None`: the trace states it.
    pub records: Option<u32>,
}

/// The half-life to rebuild with, and a note on where it is from. `given`: by the caller; `snapshot`: beside the trace.
pub fn choose(given: Option<u32>, shown: Option<Shown>, snapshot: Option<u32>) -> (u32, Option<String>) {
    let ms = given.or(shown.map(|shown| shown.ms)).or(snapshot);
    let Some(ms) = ms else {
        let text =
            "PELT half-life of 32 ms is assumed: neither the trace nor a snapshot shows it (--pelt-half-life-ms)";
        return (ASSUMED_MS, Some(text.into()));
    };
    let by = |records: Option<u32>| records.map_or("the trace states".into(), |n| format!("{n} records of tasks show"));
    let note = match (shown, snapshot) {
        (Some(shown), _) if shown.ms != ms => {
            Some(format!("PELT half-life of {ms} ms is taken, but {} {} ms", by(shown.records), shown.ms))
        }
        (None, Some(snapped)) if snapped != ms => {
            Some(format!("PELT half-life of {ms} ms is taken, but the snapshot beside the trace has {snapped} ms"))
        }
        (Some(shown), Some(snapped)) if snapped != ms => Some(format!(
            "PELT half-life of {ms} ms is taken, as {}; the snapshot beside the trace has {snapped} ms",
            by(shown.records)
        )),
        _ => None,
    };
    (ms, note)
}

/// The distance of rebuilt averages from the kernel's records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fit {
    sum: u64,
    records: u32,
}

/// The half-life, of [`KNOWN_MS`], whose averages are clearly nearest to the records.
pub fn nearest(fits: &[Fit]) -> Option<Shown> {
    let mean = |fit: &Fit| fit.sum as f64 / f64::from(fit.records.max(1));
    let mut order: Vec<(f64, u32, u32)> =
        KNOWN_MS.into_iter().zip(fits).map(|(ms, fit)| (mean(fit), ms, fit.records)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (&(near, ms, records), &(next, ..)) = (order.first()?, order.get(1)?);
    (records >= RECORDS_MIN && next > 2.0 * near + 1.0).then_some(Shown { ms, records: Some(records) })
}

/// Load tracking whose averages of tasks are compared with the kernel's records.
pub struct Checked<S, H> {
    pelt: PeltReplay<S, H>,
    places: BySchema<Option<Places<3>>>,
    /// What is found.
    pub fit: Fit,
}

impl<S: Samples, H: HalfLife> Checked<S, H> {
    /// Of load tracking before its first event.
    pub fn new(pelt: PeltReplay<S, H>) -> Self {
        Self { pelt, places: BySchema::default(), fit: Fit::default() }
    }

    /// Whether so many records are compared that more add nothing.
    pub fn is_enough(&self) -> bool {
        self.fit.records >= RECORDS_MAX
    }
}

impl<S: Samples, H: HalfLife> SchedSink for Checked<S, H> {
    fn event(&mut self, event: &Event<'_>, what: &SchedEvent<'_>) {
        self.pelt.event(event, what);
        if !matches!(what, SchedEvent::Other) {
            return;
        }
        let Some((pid, util)) = record_of(&mut self.places, event) else { return };
        if let Some(sample) = self.pelt.peek_task(pid, event.time_ns).filter(|sample| sample.error_bound <= BOUND_MAX) {
            self.fit.sum += sample.util_avg.abs_diff(util);
            self.fit.records += 1;
        }
    }
}

/// Finds what half-life a trace states, and whether it has records that show it.
#[derive(Debug, Clone, Default)]
pub struct HalfLifeFinder {
    stated: Option<u32>,
    records: u32,
    places: BySchema<Option<Places<3>>>,
}

impl HalfLifeFinder {
    /// What the trace states.
    pub fn stated(&self) -> Option<Shown> {
        self.stated.map(|ms| Shown { ms, records: None })
    }

    /// Whether the trace has records of tasks.
    pub fn has_records(&self) -> bool {
        self.records >= RECORDS_MIN
    }
}

/// The task of a record, and its `util_avg`.
fn record_of(places: &mut BySchema<Option<Places<3>>>, event: &Event<'_>) -> Option<(i32, u64)> {
    let places = places.get(event.schema, places_of).as_ref()?;
    let util = places.find(event, 1).or_else(|| places.find(event, 2))?;
    let pid = places.find(event, 0).filter(|&pid| pid > 0)?;
    Some((pid as i32, u64::try_from(util).ok()?))
}

fn places_of(schema: &Schema) -> Option<Places<3>> {
    RECORDS.contains(&schema.name.as_str()).then(|| Places::new(schema, &["pid", "util_avg", "util"]))
}

impl SchedSink for HalfLifeFinder {
    fn event(&mut self, event: &Event<'_>, what: &SchedEvent<'_>) {
        match *what {
            SchedEvent::Mark { text } if self.stated.is_none() => {
                let ms = String::from_utf8_lossy(text)
                    .trim_end()
                    .strip_prefix(HALF_LIFE_MARK)
                    .and_then(|ms| ms.parse().ok());
                self.stated = ms.filter(|ms| KNOWN_MS.contains(ms));
            }
            SchedEvent::Other if record_of(&mut self.places, event).is_some() => {
                self.records = self.records.saturating_add(1);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn the_nearest_must_be_clear() {
        let fit = |mean: u64| Fit { sum: mean * 100, records: 100 };
        assert_eq!(nearest(&[fit(2), fit(30), fit(70)]), Some(Shown { ms: 8, records: Some(100) }));
        assert_eq!(nearest(&[fit(70), fit(30), fit(0)]).map(|shown| shown.ms), Some(32));
        assert_eq!(nearest(&[fit(20), fit(25), fit(30)]), None);
        assert_eq!(nearest(&[Fit { sum: 0, records: 9 }, fit(30), fit(30)]), None);
    }

    #[test]
    fn what_is_assumed_or_contradicted_is_said() {
        let shown = Some(Shown { ms: 8, records: Some(9) });
        assert_eq!(choose(None, shown, None), (8, None));
        assert_eq!(choose(Some(8), shown, Some(8)), (8, None));
        assert_eq!(choose(None, None, Some(16)), (16, None));
        let (ms, note) = choose(None, None, None);
        assert_eq!((ms, note.is_some_and(|note| note.contains("assumed"))), (32, true));
        let (ms, note) = choose(Some(32), shown, None);
        assert_eq!((ms, note.is_some_and(|note| note.contains("9 records of tasks show 8 ms"))), (32, true));
        assert!(choose(None, shown, Some(32)).1.is_some_and(|note| note.contains("snapshot")));
    }
}
