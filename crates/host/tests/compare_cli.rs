//! Goal: each run sees its variant's settings, whoever is killed everything is put back, and an experiment goes on where it
//! was cut off. Method: a tree of files stands for the host, the real binary writes it, its processes are killed in turn.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const AGENT: &str = env!("CARGO_BIN_EXE_opplab-agent");
const GOVERNOR: &str = "sys/devices/system/cpu/cpufreq/policy0/scaling_governor";

fn host(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&root);
    for (path, text) in [
        ("sys/devices/system/cpu/online", "0"),
        ("sys/devices/system/cpu/cpufreq/policy0/affected_cpus", "0"),
        (GOVERNOR, "schedutil"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors", "performance schedutil"),
        ("sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq", "3000000"),
    ] {
        let file = root.join(path);
        fs::create_dir_all(file.parent().expect("has one")).expect("writable");
        fs::write(file, format!("{text}\n")).expect("writable");
    }
    root
}

fn compare(root: &Path, more: &[&str], line: &str) -> Command {
    let mut command = Command::new(AGENT);
    let output = root.join("out");
    command.arg("compare").arg("--root").arg(root).arg("-o").arg(output).args(["--governor", "schedutil,performance"]);
    command.args(["--same", "3", "--pilot", "3", "--within", "50"]).args(more).args(["--", "/bin/sh", "-c", line]);
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn is_as_before(root: &Path) -> bool {
    fs::read_to_string(root.join(GOVERNOR)).is_ok_and(|text| text.trim() == "schedutil")
        && !root.join("run/opplab-govern.json").exists()
}

fn wait_for(what: &str, is: impl Fn() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what} does not come");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn each_run_has_its_settings_and_all_is_put_back() {
    let root = host("compare-runs");
    // The program's own figure is 10 under one governor, 30 under the other.
    let line = format!("grep -q performance {} && echo rate 30 req || echo rate 10 req", root.join(GOVERNOR).display());
    let metric = ["--metric", "rate=/rate ([0-9]+) req/"];
    let output = compare(&root, &metric, &line).output().expect("starts");
    assert!(output.status.success(), "{}", said(&output));
    assert!(is_as_before(&root));
    let text = said(&output);
    assert!(text.contains("performance: rate +200.0 % [+200.0, +200.0]*, clear."), "{text}");
    // The same again has nothing left to do; another experiment is refused.
    let runs = fs::read(root.join("out/runs.jsonl")).expect("there");
    let again = compare(&root, &metric, &line).output().expect("starts");
    assert!(again.status.success() && fs::read(root.join("out/runs.jsonl")).expect("there") == runs);
    let other = compare(&root, &[&metric[..], &["--seed", "2"]].concat(), &line).output().expect("starts");
    assert_eq!(other.status.code(), Some(2));
    assert!(said(&other).contains("its seed is `1`, not `2`"), "{}", said(&other));
    // A line that was cut off is measured again.
    fs::write(root.join("out/runs.jsonl"), runs.get(..runs.len() - 20).expect("longer")).expect("writable");
    let rest = compare(&root, &metric, &line).output().expect("starts");
    assert!(rest.status.success(), "{}", said(&rest));
    let lines = |bytes: &[u8]| bytes.iter().filter(|&&byte| byte == b'\n').count();
    assert_eq!(lines(&fs::read(root.join("out/runs.jsonl")).expect("there")), lines(&runs));
}

#[test]
fn a_dry_run_names_each_write_and_does_none() {
    let root = host("compare-dry");
    let output = compare(&root, &["--set", "policy*/scaling_max_freq=2000000", "--set", "", "--dry-run"], "true");
    let mut output = output;
    let output = output.output().expect("starts");
    let text = said(&output);
    assert!(text.contains("performance policy*/scaling_max_freq=2000000:\n  /sys/devices/system/cpu/cpufreq/policy0/scaling_governor = performance\n"), "{text}");
    assert!(text.contains("put back:\n") && text.contains("scaling_max_freq = 3000000"), "{text}");
    assert!(is_as_before(&root) && !root.join("out").exists());
}

#[test]
fn whoever_is_killed_the_settings_come_back_and_nothing_runs_on() {
    for who in ["worker", "supervisor", "TERM"] {
        let root = host(&format!("compare-kill-{who}"));
        let pid_file = root.join("pid");
        let line = format!(
            "grep -q performance {} || exit 0; echo $$ $PPID > {}; sleep 100",
            root.join(GOVERNOR).display(),
            pid_file.display()
        );
        let mut child = compare(&root, &[], &line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
        wait_for("the run", || fs::read_to_string(&pid_file).is_ok_and(|text| text.ends_with('\n')));
        let pids = fs::read_to_string(&pid_file).expect("there");
        let (program, worker) = pids.trim().split_once(' ').expect("two");
        let supervisor = child.id().to_string();
        let (name, pid) = match who {
            "worker" => ("KILL", worker),
            "supervisor" => ("KILL", supervisor.as_str()),
            _ => ("TERM", supervisor.as_str()),
        };
        let done = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status();
        assert!(done.expect("is there").success());
        let status = child.wait().expect("ends");
        assert!(!status.success(), "{who}");
        wait_for("restoring", || is_as_before(&root));
        wait_for("the program's end", || {
            fs::read_to_string(format!("/proc/{program}/stat")).map_or(true, |stat| stat.contains(") Z "))
        });
    }
}

/// The children of a process.
fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

fn kill(pids: &[u32]) {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    // Some may have ended meanwhile.
    let _ = Command::new("kill").arg("-9").args(&pids).stderr(Stdio::null()).status();
}

/// Goal: kills of the worker, of the supervisor and of the power at random moments lose no run and no setting. Method: the
/// moments are drawn; a loss of power ends everything, gives the host its own settings again and leaves half a line behind.
/// `OPPLAB_KILLS` says how many (`make kill-test`: 50).
#[test]
fn kills_at_random_moments_lose_nothing() {
    let kills: u32 = std::env::var("OPPLAB_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(9);
    let root = host("compare-kills");
    let runs = root.join("out/runs.jsonl");
    let blocks = "400";
    let more = ["--within", "0.01", "--pilot", blocks, "--blocks", blocks, "--others", "10000", "--same", "0"];
    let start = || compare(&root, &more, "true").stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
    let mut draw = 0x2545_f491_4f6c_dd1d_u64;
    let mut done = [0u32; 3];
    while done.iter().sum::<u32>() < kills {
        draw ^= draw << 13;
        draw ^= draw >> 7;
        draw ^= draw << 17;
        let who = (draw >> 20) as usize % 3;
        let mut child = start();
        sleep(Duration::from_millis(20 + (draw >> 40) % 250));
        let workers = children(child.id());
        if child.try_wait().expect("is there").is_some() {
            break;
        }
        match who {
            0 if !workers.is_empty() => kill(&workers),
            0 | 1 => kill(&[child.id()]),
            _ => {
                let programs: Vec<u32> = workers.iter().flat_map(|&pid| children(pid)).collect();
                kill(&[&[child.id()][..], &workers, &programs].concat());
            }
        }
        let _ = child.wait();
        done[who] += 1;
        if who == 2 {
            // What is in /run is gone, and the kernel's own settings are there.
            let _ = fs::remove_dir_all(root.join("run"));
            fs::write(root.join(GOVERNOR), "schedutil\n").expect("writable");
            let mut text = fs::read(&runs).unwrap_or_default();
            text.extend(b"{\"kind\":\"blo");
            if runs.exists() {
                fs::write(&runs, text).expect("writable");
            }
        } else if !workers.is_empty() {
            wait_for("restoring", || is_as_before(&root));
        }
        // Before there was a worker nothing was written; what was remembered is for the next one.
    }
    let output = compare(&root, &more, "true").output().expect("starts");
    assert!(output.status.success(), "{}", said(&output));
    assert!(is_as_before(&root));
    let text = fs::read_to_string(&runs).expect("there");
    let mut seen = std::collections::BTreeSet::new();
    for line in text.lines().filter(|line| line.contains("\"kind\":\"block\"")) {
        let number = |key: &str| {
            let (_, rest) = line.split_once(&format!("\"{key}\":")).expect("has it");
            rest.split([',', '}']).next().map(str::to_owned)
        };
        assert!(seen.insert((number("block"), number("variant"))), "twice: {line}");
    }
    assert_eq!(seen.len(), 800);
    println!("{done:?} kills of worker, supervisor, power: 800 runs, each once, settings as before");
}
