//! An external meter: a log of watts by time, which somebody else writes while runs go on.
//!
//! ```text
//! time,watts
//! 1764066000.0,41.2
//! ```
//! Time is in seconds since 1970, as `date +%s.%N` has it; a column of `mw` is in mW.

use std::path::{Path, PathBuf};

use opplab_import::read_whole_text;

use crate::error::HostError;
use crate::whole::LOG_MAX;

/// Longest wait for the rows of a run that has just ended, and the time between two looks, ns.
pub const WAIT_NS: u64 = 5_000_000_000;
/// See [`WAIT_NS`].
pub const LOOK_NS: u64 = 200_000_000;

/// Where the log is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meter {
    path: PathBuf,
}

impl Meter {
    /// The log at a path, which must be one.
    ///
    /// # Errors
    /// It cannot be read, or has no columns of time and watts.
    pub fn open(path: &Path) -> Result<Self, HostError> {
        let meter = Self { path: path.to_path_buf() };
        meter.rows()?;
        Ok(meter)
    }

    /// (seconds since 1970, W) of each whole row.
    fn rows(&self) -> Result<Vec<(f64, f64)>, HostError> {
        let file = self.path.display().to_string();
        let text = read_whole_text(&self.path, LOG_MAX).map_err(|error| HostError::io(file.clone(), error))?;
        rows(&file, &text)
    }

    /// J from one time to another; `None` where the log does not reach from before the one to after the other.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn joules(&self, from_s: f64, to_s: f64) -> Result<Option<f64>, HostError> {
        Ok(joules(&self.rows()?, from_s, to_s))
    }
}

fn rows(file: &str, text: &str) -> Result<Vec<(f64, f64)>, HostError> {
    let fault = |line: usize, message: String| HostError::Input { file: file.to_owned(), line, column: 1, message };
    let mut lines = text.lines().enumerate();
    let head = lines.next().map_or("", |(_, line)| line).trim_start_matches('\u{feff}').to_ascii_lowercase();
    let names: Vec<&str> = head.split(',').map(str::trim).collect();
    let time = names.iter().position(|name| ["time", "time_s", "seconds", "t"].contains(name));
    let watts = names.iter().position(|name| ["watts", "w", "power_w", "mw", "power_mw"].contains(name));
    let (Some(time), Some(watts)) = (time, watts) else {
        let words = "the head must name columns `time` and `watts` (or `mw`)".to_owned();
        return Err(fault(1, words));
    };
    let scale = if names.get(watts).is_some_and(|name| name.ends_with("mw")) { 1e-3 } else { 1.0 };
    // The last line may be half written.
    let n_whole = text.matches('\n').count();
    let mut found: Vec<(f64, f64)> = Vec::new();
    for (index, line) in lines.filter(|(index, line)| *index < n_whole && !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split(',').collect();
        let cell = |at: usize| cells.get(at).and_then(|cell| cell.trim().parse::<f64>().ok());
        let (Some(at_s), Some(value)) = (cell(time), cell(watts).filter(|value| value.is_finite())) else {
            return Err(fault(index + 1, format!("`{line}` has no number of time or of watts")));
        };
        if found.last().is_some_and(|(last_s, _)| at_s < *last_s) {
            return Err(fault(index + 1, format!("time goes back to {at_s}")));
        }
        found.push((at_s, value * scale));
    }
    Ok(found)
}

/// The integral of the line through the rows.
fn joules(rows: &[(f64, f64)], from_s: f64, to_s: f64) -> Option<f64> {
    let (first, last) = (rows.first()?, rows.last()?);
    if first.0 > from_s || last.0 < to_s || to_s <= from_s {
        return None;
    }
    let parts = rows.windows(2).filter_map(|pair| {
        let [(a_s, a_w), (b_s, b_w)] = pair else { return None };
        let (low_s, high_s) = (a_s.max(from_s), b_s.min(to_s));
        if high_s <= low_s {
            return None;
        }
        let at = |s: f64| a_w + (b_w - a_w) * (s - a_s) / (b_s - a_s);
        Some((at(low_s) + at(high_s)) / 2.0 * (high_s - low_s))
    });
    Some(parts.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joules_are_the_integral_of_what_the_log_reaches() {
        let log = rows("m.csv", "time,watts\n10,20\n11,40\n12,40\n13,0\n14,").expect("fine");
        assert_eq!(log.len(), 4);
        assert_eq!(joules(&log, 10.0, 12.0), Some(70.0));
        assert_eq!(joules(&log, 10.5, 12.5), Some(17.5 + 40.0 + 15.0));
        for (from_s, to_s) in [(9.0, 11.0), (11.0, 13.5), (12.0, 12.0)] {
            assert_eq!(joules(&log, from_s, to_s), None, "{from_s} {to_s}");
        }
        let milli = rows("m.csv", "mW,Time\n500,1\n500,3\n").expect("fine");
        assert_eq!(joules(&milli, 1.0, 3.0), Some(1.0));
    }

    #[test]
    fn what_is_wrong_is_refused_with_its_line() {
        for (text, words) in [
            ("a,b\n1,2\n", "m.csv:1:1: the head must name"),
            ("time,watts\n1,x\n", "m.csv:2:1: `1,x` has no number"),
            ("time,watts\n2,1\n1,1\n", "m.csv:3:1: time goes back to 1"),
        ] {
            let error = rows("m.csv", text).expect_err("wrong").to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
