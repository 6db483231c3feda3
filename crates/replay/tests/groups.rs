//! A recording of a stock kernel with quotas that throttle: what is recovered has its groups, and runs again as the recording did.

use std::path::{Path, PathBuf};

use opplab_replay::metrics::Whole;
use opplab_replay::{Mode, Replay};

const FILES: [&str; 8] = [
    "trace.dat",
    "sysfs_before.txt",
    "debugfs_before.txt",
    "uname.txt",
    "cmdline.txt",
    "qemu_cmdline.txt",
    "cgroup_before.txt",
    "proc_cgroup_before.txt",
];

fn recording() -> PathBuf {
    folder("quota3")
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../verify/tests/data/groups/x86-612-groups-{name}"))
}

/// Distance of the closed loop's 95th percentile of wake-up latencies, in parts of 100 000.
fn latency_off(replay: &Replay) -> u64 {
    Whole::of(&replay.compare(None, Mode::Closed).unwrap()).latency_p95.expect("tasks were woken")
}

#[test]
fn quotas_stop_a_replay_as_they_stopped_the_recording() {
    let replay = Replay::read(&recording(), None).unwrap();
    let workload = &replay.workload;
    let groups: Vec<(&str, u32, Option<u64>)> = workload
        .groups
        .iter()
        .map(|group| (group.name.as_str(), group.shares, group.quota.map(|quota| quota.quota_ns / 1_000_000)))
        .collect();
    let expected = [
        ("/q1", 1024, Some(10)),
        ("/q2", 1024, Some(30)),
        ("/q2/a", 1024, None),
        ("/q2/b", 4096, None),
        ("/q3", 1024, Some(80)),
    ];
    let mut sorted = groups.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, expected);
    let of = |task: &str| {
        let place = workload.tasks.iter().position(|spec| spec.name == task).expect("it ran") as u32;
        workload.groups.iter().find(|group| group.tasks.contains(&place)).map(|group| group.name.as_str())
    };
    assert_eq!(
        [of("web0"), of("web1"), of("db"), of("hog"), of("bg0"), of("lat")],
        [Some("/q1"), Some("/q1"), Some("/q2/a"), Some("/q2/b"), Some("/q3"), None]
    );
    workload.check(replay.setup.machine.nr_cpus()).unwrap();
    assert!(!replay.setup.notes.iter().any(|note| note.contains("control groups")), "{:?}", replay.setup.notes);
    let with = latency_off(&replay);
    // Where no snapshot shows the quotas, that is noted, and nothing stops the tasks.
    let bare = std::env::temp_dir().join(format!("opplab-replay-groups-{}", std::process::id()));
    std::fs::create_dir_all(&bare).unwrap();
    for file in FILES.iter().filter(|file| !file.contains("cgroup")) {
        std::fs::copy(recording().join(file), bare.join(file)).unwrap();
    }
    let untold = Replay::read(&bare, None).unwrap();
    assert!(untold.setup.notes.iter().any(|note| note.contains("quotas and clamps are not known")));
    let without = latency_off(&untold);
    assert!(with < 20_000 && without > 60_000, "{with} with quotas, {without} without");
    std::fs::remove_dir_all(&bare).unwrap();
}

/// No event shows that a group's CPUs were changed, but where its tasks ran does: on 0 and 2 for a part of the recording, then on 1.
#[test]
fn groups_change_their_cpus_when_their_tasks_went() {
    use opplab_model::workload::Op;
    let workload = Replay::read(&folder("mixed"), None).unwrap().workload;
    let place = workload.groups.iter().position(|group| group.name == "/batch").unwrap() as u32;
    let cpus = |set: Option<u32>| workload.cpu_sets[set.unwrap() as usize].as_slice();
    assert_eq!(cpus(workload.groups[place as usize].cpus), [0, 2]);
    let changes = workload.tasks.iter().flat_map(|task| &task.ops).filter_map(|op| match *op {
        Op::SetGroupCpus { group, set } if group == place => Some(set),
        _ => None,
    });
    let changes: Vec<Option<u32>> = changes.collect();
    assert_eq!(changes.len(), 1);
    assert_eq!(cpus(changes[0]), [1]);
}

/// Who is moved in the recording is moved in the replay, by the same hand: without that the workers stay where a quota holds them.
#[test]
fn tasks_move_between_groups_as_they_did() {
    use opplab_model::workload::Op;
    let replay = Replay::read(&folder("mixed"), None).unwrap();
    let workload = &replay.workload;
    workload.check(replay.setup.machine.nr_cpus()).unwrap();
    let moves = workload.tasks.iter().flat_map(|task| &task.ops).filter(|op| matches!(op, Op::SetGroup { .. }));
    assert!(moves.count() > 5);
    // 30 % less energy where they stay in the groups where they are for longest. By its latencies CPUs share the stream; apart it is 1.5 % off.
    let closed = replay.compare(None, Mode::Closed).unwrap();
    assert!(closed.energy_distance < 7_000, "{}", closed.energy_distance);
}

/// A recording that was cut after its tasks had come into their groups: who is where is not known, and that is noted.
#[test]
fn tasks_older_than_the_snapshots_are_named() {
    let notes = Replay::read(&folder("nested"), None).unwrap().setup.notes;
    let note = notes.iter().find(|note| note.contains("control groups of")).expect("a note");
    assert!(note.contains("are not known") && note.contains("hog"), "{note}");
    let notes = Replay::read(&folder("mixed"), None).unwrap().setup.notes;
    assert!(!notes.iter().any(|note| note.contains("are not known")), "{notes:?}");
}
