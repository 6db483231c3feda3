//! Recordings of real kernels: what follows from recorded integers must be equal bit by bit, placements almost always.

use std::path::Path;

use opplab_verify::traces::{RecordingReport, find_recordings, verify_recording};

/// What must hold for any recording.
fn check(report: &RecordingReport) -> Vec<String> {
    let mut wrong: Vec<String> = report
        .failures()
        .map(|(kind, count)| {
            format!("{}: {kind} {} of {}: {:?}", report.recording, count.exact, count.total, count.first)
        })
        .collect();
    for (kind, count) in report.rows() {
        if kind.starts_with("placement_") && count.exact * 100 < count.total * 95 {
            wrong.push(format!("{}: {kind} {} of {}: {}", report.recording, count.exact, count.total, count.remark()));
        }
    }
    wrong
}

fn total(report: &RecordingReport, kind: &str) -> u64 {
    report.kinds.get(kind).map_or(0, |count| count.total)
}

#[test]
fn recordings_in_the_repository_agree() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/traces");
    let (mut energies, mut frequencies) = (0, 0);
    for dir in find_recordings(&folder).expect("the recordings are part of the repository") {
        let report = verify_recording(&dir).expect("the recording is readable");
        assert_eq!(check(&report), Vec::<String>::new());
        for kind in ["pelt_se", "pelt_cfs", "util_est_se", "sugov_util", "next_freq", "attach"] {
            assert!(total(&report, kind) > 0, "{}: {kind} was not compared", report.recording);
        }
        energies += total(&report, "compute_energy");
        frequencies += total(&report, "freq_table");
    }
    assert!(energies > 500 && frequencies > 50, "{energies} energies, {frequencies} frequencies");
}

#[test]
fn all_recordings_agree() {
    let Some(folder) = opplab_testdata::shared("traces") else { return };
    let mut wrong = Vec::new();
    for dir in find_recordings(&folder).expect("the folder can be listed") {
        let report = verify_recording(&dir).expect("the recording is readable");
        for (kind, count) in report.rows() {
            println!("{} {kind} {} {} {}", report.recording, count.exact, count.total, count.remark());
        }
        wrong.extend(check(&report));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_folder_without_a_recording_is_an_error() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let error = find_recordings(&folder).expect_err("no trace there");
    assert!(error.to_string().contains("trace.dat"), "{error}");
}
