//! Goal: `show` says what a host says, with the file, on whatever tree it is given. Method: small trees made here, and
//! the recordings' snapshots and machine dumps beside the repository where they are.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use opplab_host::Root;
use opplab_host::cli::main;
use opplab_host::command::Env;
use opplab_host::show::{Report, report};
use opplab_testdata::shared;

fn tree(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&root);
    for (path, text) in files {
        let file = root.join(path);
        fs::create_dir_all(file.parent().expect("has one")).expect("writable");
        fs::write(file, format!("{text}\n")).expect("writable");
    }
    root
}

fn show(path: &Path) -> Report {
    report(&Root::open(path).expect("is a host"), path)
}

fn run(words: &[&str]) -> (i32, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut env = Env { out: &mut out, err: &mut err, again: Vec::new(), name: "opplab host".to_owned() };
    let code = main(words.iter().map(OsString::from), &mut env);
    (code, String::from_utf8(out).expect("text"), String::from_utf8(err).expect("text"))
}

#[test]
fn a_virtual_machine_without_cpufreq_is_no_error() {
    let root = tree(
        "vm",
        &[("sys/devices/system/cpu/online", "0-1"), ("proc/cpuinfo", "vendor_id : GenuineIntel\nflags : fpu msr")],
    );
    let report = show(&root);
    let cpufreq = report.sections.iter().find(|section| section.name == "cpufreq").expect("is there");
    assert!(cpufreq.note.as_ref().expect("said").contains("no cpufreq"));
    assert!(report.verdicts.iter().all(|verdict| verdict.holds == Some(false)));
    assert!(report.text().contains("no aperfmperf flag"));
}

#[test]
fn a_number_that_is_a_cpus_own_is_equal_to_that_of_others() {
    let mut files = vec![("sys/devices/system/cpu/online".to_owned(), "0-1")];
    for cpu in 0..2 {
        for (state, latency) in ["0", "1"].into_iter().enumerate() {
            let folder = format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}");
            files.push((format!("{folder}/latency"), latency));
        }
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let report = show(&tree("latencies", &files));
    let cpuidle = report.sections.iter().find(|section| section.name == "cpuidle").expect("is there");
    let rows: Vec<_> =
        cpuidle.items.iter().map(|item| (item.name.as_str(), item.value.clone(), item.of.len())).collect();
    assert_eq!(rows, [("state0/latency", Ok("0".to_owned()), 2), ("state1/latency", Ok("1".to_owned()), 2)]);
}

#[test]
fn equal_values_are_one_row_with_the_files() {
    let mut files = vec![("sys/devices/system/cpu/online".to_owned(), "0-2")];
    for policy in 0..3 {
        let folder = format!("sys/devices/system/cpu/cpufreq/policy{policy}");
        files.push((format!("{folder}/scaling_driver"), "acpi-cpufreq"));
        files.push((format!("{folder}/scaling_governor"), if policy == 1 { "ondemand" } else { "schedutil" }));
        files.push((format!("{folder}/related_cpus"), ["0", "1", "2"][policy]));
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let report = show(&tree("policies", &files));
    let cpufreq = report.sections.iter().find(|section| section.name == "cpufreq").expect("is there");
    let rows = |name: &str| cpufreq.items.iter().filter(|item| item.name == name).collect::<Vec<_>>();
    assert_eq!(rows("scaling_driver")[0].of, [0, 1, 2]);
    assert_eq!(rows("related_cpus")[0].value, Ok("(its own number)".to_owned()));
    let governors = rows("scaling_governor");
    assert_eq!(governors[0].file, "/sys/devices/system/cpu/cpufreq/policy{0,2}/scaling_governor");
    assert_eq!(governors[1].value, Ok("ondemand".to_owned()));
    // What must be there and is not is said.
    assert_eq!(rows("cpuinfo_max_freq")[0].value.as_ref().expect_err("missing").words(), "not there");
    let eas = &report.verdicts[1];
    assert!(eas.reasons.iter().any(|(met, words, _)| *met == Some(false) && words.contains("ondemand")), "{eas:?}");
}

#[test]
fn wrong_usage_is_one_line() {
    for (words, part) in [
        (&["shwo"][..], "did you mean `show`"),
        (&["show", "--jsn"], "--jsn"),
        (&["show", "--root", "/no/such/folder"], "No such file"),
        (&["show", "--root", "/usr"], "neither sys nor proc"),
        (&["show", "--root", "/etc/hostname"], "neither a folder"),
    ] {
        let (code, out, err) = run(words);
        assert!(code == 2 || code == 3, "{words:?}: {code}");
        assert!(out.is_empty() && err.lines().count() == 1 && err.contains(part), "{words:?}: {err}");
    }
}

#[test]
fn recordings_and_dumps_are_hosts() {
    let Some(traces) = shared("traces") else { return };
    let arm = show(&traces.join("arm64-612-juno-eas-homog6/sysfs_before.txt"));
    assert!(arm.verdicts.iter().all(|verdict| verdict.holds == Some(true)), "{:?}", arm.verdicts);
    let noem = show(&traces.join("arm64-612-juno-noEM-sameclass-homog4/sysfs_before.txt"));
    assert_eq!(noem.verdicts[1].holds, Some(false), "{:?}", noem.verdicts);
    let x86 = show(&traces.join("x86-612-xeon16-any2-schedutil-hetero9/sysfs_before.txt"));
    assert!(x86.verdicts.iter().all(|verdict| verdict.holds == Some(false)));
    assert!(x86.text().contains("schedutil/rate_limit_us"));
    let Some(dumps) = shared("data/pepc") else { return };
    let mut n_dumps = 0;
    for entry in fs::read_dir(dumps).expect("readable").flatten() {
        if entry.path().extension().is_some_and(|ending| ending == "xz") {
            let report = show(&entry.path());
            assert!(report.sections.iter().any(|section| section.name == "cpufreq" && !section.items.is_empty()));
            assert!(report.json().starts_with('{'));
            n_dumps += 1;
        }
    }
    assert!(n_dumps > 0);
}
