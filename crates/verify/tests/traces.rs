//! Recordings of real kernels: what follows from recorded integers must be equal bit by bit, placements almost always.

use std::collections::BTreeMap;
use std::path::Path;

use opplab_kernel::cpufreq::facts::SugovOutcome;
use opplab_verify::traces::{RecordedFreq, RecordingReport, find_recordings, frequency_decisions, verify_recording};

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

/// Goal: a kernel with utilisation clamps of nested groups, which change, of tasks, and of the real-time class: what schedutil
/// makes of a run queue's clamps is equal. Method: a 6.12.117 that was built with them, whose probes have `rq->uclamp[].value`.
#[test]
fn a_recording_with_clamps_agrees() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/groups/x86-612-groups-uclamp");
    let report = verify_recording(&folder).expect("the recording is readable");
    for kind in ["sugov_util", "raw_freq", "next_freq", "pelt_se", "pelt_cfs", "propagate_se", "propagate_cfs"] {
        let count = &report.kinds[kind];
        assert_eq!((count.exact, count.total > 100), (count.total, true), "{kind} {:?}", count.first);
    }
}

/// Goal: kernels with nested groups, quotas and moves: what follows from recorded integers is equal, or the cause is known, and nearly
/// all rebuilt signals are within their bound.
#[test]
fn recordings_with_groups_agree() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/groups");
    for (name, outside_per_1000) in
        [("x86-612-groups-nested", 10), ("x86-612-groups-quota3", 15), ("x86-612-groups-mixed", 10)]
    {
        let report = verify_recording(&folder.join(name)).expect("the recording is readable");
        for (kind, count) in report.rows().filter(|(kind, _)| !kind.starts_with("signal_")) {
            println!("{name} {kind} {} of {} {}", count.exact, count.total, count.remark());
            assert_eq!(count.misses.get("unexplained"), None, "{name}: {kind} {:?}", count.first);
        }
        for kind in [
            "pelt_se",
            "pelt_cfs",
            "pelt_blocked_se",
            "attach",
            "attach_new",
            "detach",
            "carry_se",
            "carry_cfs",
            "propagate_se",
            "propagate_cfs",
        ] {
            let count = &report.kinds[kind];
            assert_eq!((count.exact, count.total > 0), (count.total, true), "{name}: {kind}");
        }
        let (mut all, mut outside) = (0, 0);
        for kind in ["signal_tasks", "signal_queues"] {
            let note = report.kinds[kind].note.as_deref().expect("signals have one");
            assert!(!note.contains("not proven"), "{name}: {note}");
            println!("{name} {kind} {} of {}; {note}", report.kinds[kind].exact, report.kinds[kind].total);
            // "within 8 of 1024; p50 A p99 B max C; D not compared ...; E outside of their bound, F of them by stops"
            let numbers = note.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse::<u64>().ok());
            let numbers: Vec<u64> = numbers.collect();
            all += report.kinds[kind].total + numbers[7];
            outside += numbers[8] - numbers.get(9).copied().unwrap_or(0);
        }
        assert!(all > 500 && outside * 1000 <= all * outside_per_1000, "{name}: {outside} of {all}");
    }
}

#[test]
fn all_recordings_agree() {
    let Some(folder) = opplab_testdata::shared("traces") else { return };
    let mut wrong = Vec::new();
    let (mut idle, mut idle_all) = (0, 0);
    for dir in find_recordings(&folder).expect("the folder can be listed") {
        let report = verify_recording(&dir).expect("the recording is readable");
        for (kind, count) in report.rows() {
            println!("{} {kind} {} {} {}", report.recording, count.exact, count.total, count.remark());
        }
        if let Some(count) = report.kinds.get("placement_idle") {
            (idle, idle_all) = (idle + count.exact, idle_all + count.total);
        }
        wrong.extend(check(&report));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(idle_all > 0 && idle * 1000 >= idle_all * 995, "placement_idle {idle} of {idle_all}");
}

/// What a decision left as `next_freq` is what the next one of its policy finds there.
#[test]
fn outcomes_of_decisions_lead_to_the_next_ones() {
    let Some(folder) = opplab_testdata::shared("traces") else { return };
    let (mut held, mut all) = (0, 0);
    for dir in find_recordings(&folder).expect("the folder can be listed") {
        let mut left: BTreeMap<Vec<usize>, u32> = BTreeMap::new();
        for row in frequency_decisions(&dir).expect("the recording is readable").list {
            let kept = row.decision.outcome == SugovOutcome::Held;
            if let Some(khz) = left.insert(row.members.clone(), if kept { row.prev_khz } else { row.ret_khz }) {
                assert_eq!(khz, row.prev_khz, "{} at {} ns", dir.display(), row.time_ns);
            }
            (held, all) = (held + u64::from(kept), all + 1);
        }
    }
    assert!(held > 50 && all > 1000, "{held} of {all}");
}

/// Goal: what the boost of I/O waits made of a decision is among its parts, as the kernel's record has it.
#[test]
fn decisions_have_the_recorded_boost() {
    let Some(folder) = opplab_testdata::shared("traces") else { return };
    let found = frequency_decisions(&folder.join("x86-612-xeon16-any1-schedutil-iodd")).expect("it is readable");
    let boosted = |row: &&RecordedFreq| row.decision.steps.is_some_and(|steps| steps.iowait > steps.util_cfs);
    let boosted: Vec<&RecordedFreq> = found.list.iter().filter(boosted).collect();
    let exact = boosted.iter().filter(|row| row.exact).count();
    assert!(boosted.len() > 10 && exact == boosted.len(), "{exact} of {}", boosted.len());
    assert!(boosted.iter().any(|row| row.iowait && row.decision.util == 1024));
}

/// Goal: who reported is a CPU of the policy, also where another CPU executed the governor for it.
#[test]
fn the_run_queue_s_cpu_reported() {
    let Some(folder) = opplab_testdata::shared("traces") else { return };
    let found = frequency_decisions(&folder.join("arm64-612-juno-eas-one_heavy")).expect("it is readable").list;
    let own = found.iter().filter(|row| row.cpu.is_some_and(|cpu| row.members.contains(&cpu))).count();
    assert!(own > 1000 && own == found.len(), "{own} of {}", found.len());
    // The balancer of CPU 4 looked at CPU 2's queue.
    let row = found.iter().find(|row| (row.time_ns + 500) / 1_000 == 1_767_225_619_300_470).expect("a decision");
    assert_eq!((row.cpu, &row.members[..]), (Some(2), &[1, 2][..]));
}

#[test]
fn a_folder_without_a_recording_is_an_error() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let error = find_recordings(&folder).expect_err("no trace there");
    assert!(error.to_string().contains("trace.dat"), "{error}");
}
