//! Goal: whatever is killed, the settings are as before; and a log can be verified by the command line. Method: a tree
//! of files stands for the host, the real binary governs it, and its processes are killed in turn.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const AGENT: &str = env!("CARGO_BIN_EXE_opplab-agent");

/// Longer than any loaded machine needs.
const PATIENCE: Duration = Duration::from_secs(60);

/// What both kinds of host have in common.
const POLICY: [(&str, &str); 6] = [
    ("cpuinfo_min_freq", "1500000"),
    ("cpuinfo_max_freq", "2250000"),
    ("scaling_min_freq", "1500000"),
    ("scaling_max_freq", "2250000"),
    ("scaling_cur_freq", "1500000"),
    ("scaling_setspeed", "<unsupported>"),
];

fn host_of(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&root);
    let put = |path: String, text: &str| {
        let file = root.join(path);
        fs::create_dir_all(file.parent().expect("has one")).expect("writable");
        fs::write(file, format!("{text}\n")).expect("writable");
    };
    put("sys/devices/system/cpu/online".into(), "0-1");
    put("proc/stat".into(), "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 100 0 0 50 0 0 0 0 0 0\ncpu1 0 0 0 100 0 0 0 0 0 0");
    for policy in 0..2 {
        let own = policy.to_string();
        for (file, text) in POLICY.iter().chain(files).chain(&[("affected_cpus", own.as_str())]) {
            put(format!("sys/devices/system/cpu/cpufreq/policy{policy}/{file}"), text);
        }
    }
    root
}

/// A host with acpi-cpufreq.
fn host(name: &str) -> PathBuf {
    host_of(
        name,
        &[
            ("scaling_governor", "schedutil"),
            ("scaling_driver", "acpi-cpufreq"),
            ("scaling_available_governors", "userspace schedutil"),
            ("scaling_available_frequencies", "2250000 2000000 1500000"),
            ("cpuinfo_transition_latency", "10000"),
        ],
    )
}

/// A host with intel_pstate in active mode under HWP: no table, no governor `userspace`, preferences.
fn hwp_host(name: &str) -> PathBuf {
    host_of(
        name,
        &[
            ("scaling_governor", "powersave"),
            ("scaling_driver", "intel_pstate"),
            ("scaling_available_governors", "performance powersave"),
            ("energy_performance_available_preferences", "default performance balance_performance balance_power power"),
            ("energy_performance_preference", "balance_performance"),
            ("base_frequency", "2000000"),
            ("cpuinfo_transition_latency", "0"),
        ],
    )
}

/// Every file of the policies, with its content; a setting is written without a line end, as `echo -n` would.
fn files_of(root: &Path) -> Vec<(PathBuf, String)> {
    let mut files: Vec<(PathBuf, String)> = (0..2)
        .flat_map(|policy| fs::read_dir(root.join(format!("sys/devices/system/cpu/cpufreq/policy{policy}"))))
        .flatten()
        .map(|entry| entry.expect("readable").path())
        .map(|path| (path.clone(), fs::read_to_string(path).expect("text").trim().to_owned()))
        .collect();
    files.sort();
    files
}

fn setting(root: &Path, policy: u32, name: &str) -> String {
    let path = root.join(format!("sys/devices/system/cpu/cpufreq/policy{policy}/{name}"));
    fs::read_to_string(path).expect("is there").trim().to_owned()
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what} did not happen");
        sleep(Duration::from_millis(2));
    }
}

/// Starts a run; gives the supervisor and the worker's pid.
fn start(root: &Path, more: &[&str]) -> (Child, String) {
    let mut child = Command::new(AGENT)
        .args(["govern", "--governor", "schedutil", "--util", "stat", "--interval", "5ms", "--root"])
        .arg(root)
        .args(more)
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().expect("piped")).read_line(&mut line).expect("text");
    let worker = line.trim().rsplit(' ').next().expect("has words").to_owned();
    assert!(worker.parse::<u32>().is_ok(), "{line}");
    (child, worker)
}

fn is_as_before(root: &Path) -> bool {
    (0..2).all(|policy| {
        setting(root, policy, "scaling_governor") == "schedutil"
            && setting(root, policy, "scaling_min_freq") == "1500000"
            && setting(root, policy, "scaling_max_freq") == "2250000"
    }) && !root.join("run/opplab-govern.json").exists()
}

/// Sends a signal; `kill` is the shell's own, as not every system has the program.
fn signal(name: &str, pid: &str) {
    let done = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status();
    assert!(done.expect("is there").success());
}

fn kill(pid: &str) {
    signal("KILL", pid);
}

#[test]
fn killed_processes_leave_no_trace() {
    for (round, via) in ["setspeed", "limits", "setspeed", "limits"].into_iter().enumerate() {
        let root = host(&format!("kill{round}"));
        let (mut child, worker) = start(&root, &["--via", via]);
        let changed = |root: &Path| match via {
            "setspeed" => setting(root, 1, "scaling_governor") == "userspace",
            _ => setting(root, 0, "scaling_min_freq") == setting(root, 0, "scaling_max_freq"),
        };
        wait_for("the governor", || changed(&root));
        let supervisor = child.id().to_string();
        kill(if round < 2 { &worker } else { &supervisor });
        let status = child.wait().expect("ends");
        assert!(!status.success());
        wait_for("restoring", || is_as_before(&root));
    }
}

/// Goal: EPP comes back, too, and nothing else is touched. Method: a host under HWP, whose every file is compared.
#[test]
fn the_preference_comes_back_whoever_is_killed() {
    let state = |root: &Path| root.join("run/opplab-govern.json");
    for (round, who) in ["worker", "supervisor", "both", "stopped"].into_iter().enumerate() {
        let root = hwp_host(&format!("epp{round}"));
        let before = files_of(&root);
        let (mut child, worker) = start(&root, &["--epp", "power"]);
        wait_for("the governor", || {
            (0..2).all(|policy| setting(&root, policy, "energy_performance_preference") == "power")
                && setting(&root, 1, "scaling_min_freq") == setting(&root, 1, "scaling_max_freq")
        });
        let supervisor = child.id().to_string();
        match who {
            "worker" => kill(&worker),
            "supervisor" => kill(&supervisor),
            "stopped" => signal("TERM", &supervisor),
            _ => {
                signal("STOP", &worker);
                kill(&supervisor);
                kill(&worker);
            }
        }
        child.wait().expect("ends");
        if who == "both" {
            assert!(state(&root).exists());
            let out = Command::new(AGENT).args(["govern", "--restore", "--root"]).arg(&root).output().expect("starts");
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        }
        wait_for("restoring", || !state(&root).exists());
        assert_eq!(files_of(&root), before, "{who}");
    }
}

#[test]
fn a_preference_that_the_host_lacks_changes_nothing() {
    let (hwp, none) = (hwp_host("epp-wrong"), host("epp-none"));
    for (root, epp, code, part) in [
        (&hwp, "balance_preformance", 2, "did you mean `balance_performance`?"),
        (&hwp, "300", 2, "0 to 255"),
        (&none, "power", 3, "no energy_performance_preference"),
    ] {
        let before = files_of(root);
        let words = ["govern", "--governor", "performance", "--epp", epp, "--root"];
        let out = Command::new(AGENT).args(words).arg(root).output().expect("starts");
        let err = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(code), "{err}");
        assert!(err.contains(part), "{err}");
        assert_eq!(files_of(root), before);
    }
}

#[test]
fn both_killed_is_put_back_by_hand() {
    let root = host("both");
    let (mut child, worker) = start(&root, &["--via", "limits"]);
    wait_for("the governor", || setting(&root, 0, "scaling_min_freq") == setting(&root, 0, "scaling_max_freq"));
    // Stopped, it cannot see that the supervisor is gone.
    signal("STOP", &worker);
    kill(&child.id().to_string());
    kill(&worker);
    child.wait().expect("ends");
    assert!(root.join("run/opplab-govern.json").exists());
    let out = Command::new(AGENT).args(["govern", "--restore", "--root"]).arg(&root).output().expect("starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(is_as_before(&root));
}

/// Goal: the settings of before are those of before both. Method: a second run begins while the first one governs.
#[test]
fn a_second_run_is_refused_and_changes_nothing() {
    let root = host("two");
    let (mut child, _) = start(&root, &["--via", "limits"]);
    wait_for("the governor", || setting(&root, 0, "scaling_min_freq") == setting(&root, 0, "scaling_max_freq"));
    let second = ["govern", "--governor", "performance", "--via", "setspeed", "--for", "50ms", "--root"];
    let out = Command::new(AGENT).args(second).arg(&root).output().expect("starts");
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success());
    assert!(told.contains(&format!("a run is under way on this host (process {})", child.id())), "{told}");
    assert_eq!(setting(&root, 0, "scaling_governor"), "schedutil");
    assert!(child.try_wait().expect("ours").is_none());
    signal("TERM", &child.id().to_string());
    child.wait().expect("ends");
    assert!(is_as_before(&root));
}

/// Goal: a policy that refuses to be read and written, as that of an offline CPU does, is remembered until it answers.
/// Method: its files become folders while it is governed.
#[test]
fn a_policy_that_went_offline_is_put_back_later() {
    let root = host("offline");
    let before = files_of(&root);
    let (mut child, _) = start(&root, &["--for", "500ms"]);
    wait_for("the governor", || setting(&root, 1, "scaling_governor") == "userspace");
    let folder = root.join("sys/devices/system/cpu/cpufreq/policy1");
    let aside = root.join("aside");
    fs::rename(&folder, &aside).expect("writable");
    for file in fs::read_dir(&aside).expect("is there").flatten() {
        fs::create_dir_all(folder.join(file.file_name())).expect("writable");
    }
    assert_eq!(child.wait().expect("ends").code(), Some(3));
    assert_eq!(setting(&root, 0, "scaling_governor"), "schedutil");
    fs::remove_dir_all(&folder).expect("ours");
    fs::rename(&aside, &folder).expect("writable");
    assert_eq!(setting(&root, 1, "scaling_governor"), "userspace");
    let out = Command::new(AGENT).args(["govern", "--restore", "--root"]).arg(&root).output().expect("starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let changed = |name: &Path| name.ends_with("scaling_setspeed");
    let same =
        |files: Vec<(PathBuf, String)>| -> Vec<_> { files.into_iter().filter(|(name, _)| !changed(name)).collect() };
    assert_eq!(same(files_of(&root)), same(before));
}

/// Goal: a policy whose folder is away at the end is not called restored, and is put back by whoever comes next. Method:
/// its folder is moved aside while it is governed, and stays away over a second run.
#[test]
fn a_policy_that_is_away_at_the_end_is_remembered() {
    let root = host("away");
    let state = root.join("run/opplab-govern.json");
    let (child, _) = start(&root, &["--via", "limits", "--for", "300ms"]);
    wait_for("the governor", || setting(&root, 1, "scaling_max_freq") == setting(&root, 1, "scaling_min_freq"));
    let folder = root.join("sys/devices/system/cpu/cpufreq/policy1");
    fs::rename(&folder, root.join("aside")).expect("writable");
    let out = child.wait_with_output().expect("ends");
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(3), "{told}");
    assert!(told.contains("policy1/scaling_max_freq is not there") && !told.contains("restored 2"), "{told}");
    assert!(!told.contains("policy0/scaling"), "{told}");
    assert_eq!(setting(&root, 0, "scaling_max_freq"), "2250000");
    // A run of the other policy keeps it in mind, and says so.
    let words = ["govern", "--governor", "performance", "--for", "50ms", "--util", "stat", "--root"];
    let out = Command::new(AGENT).args(words).arg(&root).output().expect("starts");
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(3), "{told}");
    assert!(told.contains("policy1") && state.exists(), "{told}");
    fs::rename(root.join("aside"), &folder).expect("writable");
    let out = Command::new(AGENT).args(["govern", "--restore", "--root"]).arg(&root).output().expect("starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(is_as_before(&root));
}

/// Goal: what one run remembers holds for every run of the host, wherever each has its `--state`. Method: a second run
/// with another file while the first one governs; then a third one after the first one's processes were killed.
#[test]
fn runs_with_other_state_files_know_of_each_other() {
    let root = host("states");
    let place = |name: &str| root.join(name).to_str().expect("text").to_owned();
    let (mut child, worker) = start(&root, &["--via", "limits", "--state", &place("a.json")]);
    wait_for("the governor", || setting(&root, 0, "scaling_min_freq") == setting(&root, 0, "scaling_max_freq"));
    let b = place("b.json");
    let other = ["govern", "--governor", "performance", "--for", "50ms", "--util", "stat", "--state", &b, "--root"];
    let again = || Command::new(AGENT).args(other).arg(&root).output().expect("starts");
    let out = again();
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(3), "{told}");
    assert!(told.contains(&format!("a run is under way on this host (process {})", child.id())), "{told}");
    signal("STOP", &worker);
    kill(&child.id().to_string());
    kill(&worker);
    child.wait().expect("ends");
    assert!(!is_as_before(&root));
    let out = again();
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success() && told.contains("putting back what the run of process"), "{told}");
    assert!(is_as_before(&root));
    let rest: Vec<String> = fs::read_dir(&root)
        .expect("is there")
        .chain(fs::read_dir(root.join("run")).expect("is there"))
        .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
        .filter(|name| name.contains("json") || name.contains("lock"))
        .collect();
    assert_eq!(rest, Vec::<String>::new());
    // A folder that is not there is a slip of the finger.
    let (wrong, before) = (place("none/c.json"), files_of(&root));
    let out = Command::new(AGENT)
        .args(["govern", "--governor", "performance", "--for", "50ms", "--state", &wrong, "--root"])
        .arg(&root)
        .output()
        .expect("starts");
    assert_eq!(out.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&out.stderr).contains("none/c.json"));
    assert!(!root.join("none").exists() && files_of(&root) == before);
}

/// Goal: a reading that cannot be read is no reading: nothing is decided of it, and it is told. Method: `/proc/stat` is
/// of words at the start, then while a run is under way.
#[test]
fn readings_that_cannot_be_read_decide_nothing() {
    let root = host("garbage");
    let stat = root.join("proc/stat");
    let good = fs::read_to_string(&stat).expect("is there");
    for bad in ["", "garbage\n", "cpu0 x y z\ncpu1 0 0 0 100 0 0 0\n", "cpu0 1 2\ncpu1 0 0 0 100 0 0 0\n"] {
        fs::write(&stat, bad).expect("writable");
        let before = files_of(&root);
        let words = ["govern", "--governor", "schedutil", "--util", "stat", "--for", "50ms", "--root"];
        let out = Command::new(AGENT).args(words).arg(&root).output().expect("starts");
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(3), "{bad:?}: {told}");
        assert!(told.contains("/proc/stat"), "{bad:?}: {told}");
        assert_eq!(files_of(&root), before);
    }
    fs::write(&stat, &good).expect("writable");
    let log = root.join("log.jsonl");
    let lines =
        || fs::read_to_string(&log).unwrap_or_default().lines().filter(|line| line.contains("decision")).count();
    let (child, _) = start(&root, &["--for", "3s", "--log", log.to_str().expect("text")]);
    wait_for("decisions", || lines() > 4);
    let fresh = root.join("fresh");
    fs::write(&fresh, "garbage\n").expect("writable");
    fs::rename(&fresh, &stat).expect("writable");
    wait_for("a note", || fs::read_to_string(&log).is_ok_and(|text| text.contains("no reading")));
    let (then, now) = (lines(), || fs::read_to_string(&log).unwrap_or_default().matches("no reading").count());
    wait_for("more of it", || now() > 10);
    assert_eq!(lines(), then);
    fs::write(&fresh, &good).expect("writable");
    fs::rename(&fresh, &stat).expect("writable");
    wait_for("decisions again", || lines() > then);
    let out = child.wait_with_output().expect("ends");
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(told.contains("no reading") && out.status.success(), "{told}");
    let out = Command::new(AGENT).args(["govern", "--verify"]).arg(&log).output().expect("starts");
    let words = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(words.contains("looks without a reading"), "{words}");
    assert!(is_as_before(&root));
}

#[test]
fn a_run_is_logged_and_verified() {
    let root = host("log");
    let log = root.join("log.jsonl");
    let (mut child, _) = start(&root, &["--for", "200ms", "--log", log.to_str().expect("text")]);
    assert!(child.wait().expect("ends").success());
    assert!(is_as_before(&root));
    let verify = || Command::new(AGENT).args(["govern", "--verify"]).arg(&log).output().expect("starts");
    let out = verify();
    let words = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success() && words.contains("(100.00 %)") && !words.starts_with("0 "), "{words}");
    let text = fs::read_to_string(&log).expect("is there");
    fs::write(&log, text.replace("\"next_khz\":", "\"next_khz\":1")).expect("writable");
    assert_eq!(verify().status.code(), Some(1));
}

#[test]
fn a_dry_run_changes_nothing() {
    let root = host("dry");
    let (mut child, _) = start(&root, &["--for", "100ms", "--dry-run"]);
    assert!(child.wait().expect("ends").success());
    assert!(is_as_before(&root) && setting(&root, 0, "scaling_setspeed") == "<unsupported>");
}

#[test]
fn wrong_words_change_nothing() {
    let root = host("wrong");
    for (words, code, part) in [
        (&["--governor", "schedutl"][..], 2, "did you mean `schedutil`"),
        (&["--governor", "schedutil", "--policies", "7"], 2, "no policy7 (there are 0, 1)"),
        (&["--governor", "schedutil", "--interval", "5"], 2, "needs a unit"),
        (&["--governor", "schedutil", "--f-max", "turbo"], 2, "no candidate `turbo`"),
        (&["--governor", "schedutil", "--util", "counters"], 3, "APERF"),
        (&["--governor", "schedutil", "--vai", "limits"], 2, "did you mean --via"),
        (&["--governor", "schedutil", "--kernel", "9.9"], 2, "no profile `9.9`"),
    ] {
        let out = Command::new(AGENT).arg("govern").args(words).arg("--root").arg(&root).output().expect("starts");
        let err = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(code), "{words:?}: {err}");
        assert!(err.contains(part) && !err.contains("panicked"), "{words:?}: {err}");
        assert!(is_as_before(&root), "{words:?}");
    }
}

/// Goal: a time has the same units in each command.
#[test]
fn calibrate_takes_times_as_govern_does() {
    let root = host("times");
    let calibrate = |time: &str| {
        let words = ["calibrate", "--dry-run", "--for", time, "--root"];
        let out = Command::new(AGENT).args(words).arg(&root).output().expect("starts");
        let (done, err) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        (out.status.code(), format!("{done}{err}"))
    };
    assert_eq!(calibrate("10m"), calibrate("600"));
    assert_eq!(calibrate("10m"), calibrate("600000ms"));
    let (code, words) = calibrate("10ms");
    assert!(code == Some(0) && words.starts_with("5 rounds of ") && words.contains(", 5 ms each:"), "{words}");
    let (code, words) = calibrate("10d");
    assert_eq!(code, Some(2));
    assert!(words.contains("--for: `10d` needs a unit: 100ms, 2s, 10m, 1h"), "{words}");
}

#[test]
fn files_that_are_none_of_ours_are_named() {
    let root = host("files");
    let (log, snapshot) = (root.join("log"), root.join("sysfs.txt"));
    fs::write(&log, "root:x:0\n").expect("writable");
    fs::write(&snapshot, "/sys/devices/system/cpu/cpufreq/policy0/scaling_driver: x|\n").expect("writable");
    let empty = root.join("empty");
    fs::write(&empty, "").expect("writable");
    let empty = empty.to_str().expect("text");
    let (log, snapshot) = (log.to_str().expect("text"), snapshot.to_str().expect("text"));
    for (words, code, part) in [
        (&["govern", "--explain", log][..], 2, "log:1:1: each line must be a JSON object"),
        (&["govern", "--verify", empty], 2, "no decision in it"),
        (&["govern", "--verify", "/dev/zero"], 3, "is a device"),
        (&["govern", "--governor", "schedutil", "--root", snapshot], 3, "a snapshot, which cannot be governed"),
        (&["affinity", "--root", snapshot], 3, "no threads in /proc"),
        (&["affinity", "set", "--cpus", "x", "--threads", "*"], 2, "--cpus: `x` is not a CPU list"),
    ] {
        let out = Command::new(AGENT).args(words).output().expect("starts");
        let err = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(code), "{words:?}: {err}");
        assert!(err.contains(part), "{words:?}: {err}");
    }
}
