//! Replay of runs whose truth is known, and of the recordings beside the repository.

use std::path::{Path, PathBuf};

use opplab_kernel::cpuidle::IdleState;
use opplab_model::event::IDLE_TASK;
use opplab_model::experiment::capacities;
use opplab_model::file::parse_machine;
use opplab_model::machine::Machine;
use opplab_model::policy::Policy;
use opplab_model::policy_values::EnergyModelSource;
use opplab_model::rtapp::{CompileOptions, ParseOptions, load};
use opplab_model::workload::{Op, SchedPolicy, Workload};
use opplab_replay::events::{Simulated, What};
use opplab_replay::fit::TracedMachine;
use opplab_replay::idle::{Decider, Stays, decide};
use opplab_replay::idle_states::{BY_NUMBER, IdleStates};
use opplab_replay::metrics::{Verdict, Whole, metrics};
use opplab_replay::records::Records;
use opplab_replay::{Change, Events, Mode, Recorded, Replay, Setup};
use opplab_signals::pelt::CpuUtil;
use opplab_sim::{Case, Start, Wakes, run_from};
use opplab_testdata::shared;

const SECOND_NS: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn machine(name: &str) -> Machine {
    let path = root().join(format!("python/opplab/data/machines/{name}.toml"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse_machine(name, &text).unwrap_or_else(|error| panic!("{error}"))
}

fn juno() -> Machine {
    machine("juno-r2")
}

/// Three periodic tasks, a pair that wakes each other, and one that sleeps for a time.
const WORKLOAD: &str = r#"{"tasks": {
    "small": {"instance": 2, "loop": -1, "phases": {"p": {"run": 400, "timer": {"ref": "unique", "period": 16000}}}},
    "big": {"loop": -1, "phases": {"p": {"run": 5000, "timer": {"ref": "unique", "period": 20000}}}},
    "ping": {"loop": -1, "phases": {"p": {"run": 300, "sem_post": "a", "sem_wait": "b", "sleep": 5000}}},
    "pong": {"loop": -1, "phases": {"p": {"sem_wait": "a", "run": 500, "sem_post": "b"}}}},
    "global": {"duration": 3, "calibration": 1}}"#;

fn setup(governor: &str) -> (Setup, Workload) {
    let policy = Policy { governor: governor.into(), energy_model: EnergyModelSource::Registered, ..Policy::default() };
    setup_of(juno(), WORKLOAD, policy)
}

/// A workload, as files give it for the machine.
fn loaded(machine: &Machine, text: &str) -> Workload {
    let options = CompileOptions { name: "known", machine: "", capacities: &capacities(machine) };
    load("known.json", text, ParseOptions::default(), &options).unwrap_or_else(|error| panic!("{error}"))
}

fn setup_of(machine: Machine, workload: &str, policy: Policy) -> (Setup, Workload) {
    let workload = loaded(&machine, workload);
    let start_khz = machine.policies().iter().map(|(c, _)| machine.clusters[*c as usize].opps[0].khz).collect();
    let switch_ns = machine.costs.context_switch_ns;
    let known_from_ns = vec![Some(0); machine.policies().len()];
    let run_per_100k = 100_000;
    let (wakes, notes) = (Wakes::default(), Vec::new());
    (
        Setup {
            machine,
            policy,
            start_khz,
            known_from_ns,
            run_per_100k,
            switch_ns,
            governor_known: true,
            wakes,
            notes,
        },
        workload,
    )
}

/// A run as a trace would show it.
fn recorded(setup: &Setup, workload: &Workload) -> Events {
    let case = Case {
        machine: setup.machine.clone(),
        workload: workload.clone(),
        policy: setup.policy.clone(),
        seed: 1,
        duration_ns: 3 * SECOND_NS,
    };
    let mut sink = Simulated::new(case.machine.nr_cpus(), !case.machine.cpufreq.freq_table);
    let start = Start { khz: setup.start_khz.clone(), ..Start::default() };
    let outcome = run_from(&case, &start, &mut sink).unwrap_or_else(|error| panic!("{error:?}"));
    sink.finish(&outcome.task_names, case.duration_ns)
}

fn replay(governor: &str) -> Replay {
    let (setup, workload) = setup(governor);
    let events = recorded(&setup, &workload);
    Replay::of(events, setup).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_run_of_known_policy_replays_as_it_was() {
    for governor in ["schedutil", "performance", "powersave"] {
        let replay = replay(governor);
        let found = replay.compare(None, Mode::Closed).unwrap_or_else(|error| panic!("{error}"));
        assert!(
            found.is_near(),
            "{governor}: residency {:?}, energy {} per 100 000, mean {:?} {:?}",
            found.freq_distance,
            found.energy_distance,
            found.recorded.policies.iter().map(|policy| policy.mean_khz()).collect::<Vec<_>>(),
            found.check.policies.iter().map(|policy| policy.mean_khz()).collect::<Vec<_>>(),
        );
    }
}

#[test]
fn an_open_loop_under_its_own_governor_gives_the_same_frequencies() {
    let found = replay("schedutil").compare(None, Mode::Open).unwrap_or_else(|error| panic!("{error}"));
    assert!(found.is_near(), "residency {:?}, energy {}", found.freq_distance, found.energy_distance);
    assert_eq!(found.recorded.latencies_ns, found.check.latencies_ns);
}

#[test]
fn the_closed_loop_answers_where_it_comes_near() {
    let (mode, found, closed) = replay("schedutil").compare_nearer(None).unwrap_or_else(|error| panic!("{error}"));
    assert!(mode == Mode::Closed && found.is_near() && closed.is_none());
    let Some(recording) = shared("traces/x86-612-fast-xeon16-any1-schedutil-iodd") else { return };
    // Shells of milliseconds, of which a closed loop makes other ones.
    let replay = Replay::read(&recording, None).unwrap_or_else(|error| panic!("{error}"));
    let change = Change { governor: Some("performance".into()), ..Change::default() };
    let (mode, found, closed) = replay.compare_nearer(Some(&change)).unwrap_or_else(|error| panic!("{error}"));
    assert!(mode == Mode::Open && found.is_near() && found.changed.is_some());
    assert!(!closed.expect("it was tried").is_near());
}

/// Goal: an open loop does not answer that nothing changes where it keeps what would. Method: a recording whose closed loop is not near.
#[test]
fn an_open_loop_refuses_what_it_keeps() {
    let Some(recording) = shared("traces/x86-612-fast-xeon16-any1-schedutil-iodd") else { return };
    let replay = Replay::read(&recording, None).unwrap_or_else(|error| panic!("{error}"));
    for change in [
        Change { energy_model: Some(EnergyModelSource::Registered), ..Change::default() },
        Change { freq_max: Some("turbo-4-cores".into()), ..Change::default() },
    ] {
        let (mode, ..) = replay.compare_nearer(Some(&change)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(mode, Mode::Closed);
        let error = replay.compare(Some(&change), Mode::Open).expect_err("another placement, or another f_max");
        assert!(error.to_string().contains("--mode closed"), "{error}");
    }
    // The kworkers that sample wait for tasks, and schedutil would count them.
    let Some(recording) = shared("traces/x86-612-xeon16-any1-ondemand-ramp_up") else { return };
    let replay = Replay::read(&recording, None).unwrap_or_else(|error| panic!("{error}"));
    for (governor, open) in [("schedutil", false), ("conservative", false), ("performance", true)] {
        let change = Change { governor: Some(governor.into()), ..Change::default() };
        assert_eq!(replay.compare(Some(&change), Mode::Open).is_ok(), open, "{governor}");
    }
}

#[test]
fn another_governor_costs_more() {
    let change = Change { governor: Some("performance".into()), ..Change::default() };
    for mode in [Mode::Open, Mode::Closed] {
        let found = replay("schedutil").compare(Some(&change), mode).unwrap_or_else(|error| panic!("{error}"));
        let changed = found.changed.clone().expect("something was changed");
        assert!(changed.total_energy_fj() > found.check.total_energy_fj(), "{mode:?}");
        let busy = |times: &opplab_replay::Measured| times.policies.iter().flat_map(|p| &p.busy_ns).sum::<u64>();
        let rows = metrics(&found, mode);
        let energy = rows.iter().find(|row| row.name == "energy").expect("a row");
        // Where busy times stay, higher clocks do more work than was recorded.
        match mode {
            Mode::Open => {
                assert_eq!(busy(&changed), busy(&found.check));
                // A cycle of a little CPU is less work than one of a big CPU.
                let machine = juno();
                let work = |times: &opplab_replay::Measured| -> f64 {
                    let pairs =
                        times.policies.iter().zip(&machine.clusters).inspect(|(p, c)| assert_eq!(p.cpus, c.cpus));
                    let done = pairs.flat_map(|(policy, cluster)| {
                        let top_khz = f64::from(*policy.freq_khz.last().unwrap());
                        let speeds = policy.freq_khz.iter().map(move |&khz| f64::from(khz) / top_khz);
                        speeds.zip(&policy.busy_ns).map(|(speed, &ns)| speed * ns as f64 * f64::from(cluster.capacity))
                    });
                    done.sum()
                };
                let share = found.work_share.expect("something was changed") as f64;
                let by_hand = 100_000.0 * work(&changed) / work(&found.check);
                assert!(share > 130_000.0 && (share - by_hand).abs() < 2.0, "{share} {by_hand}");
                assert_eq!((energy.verdict, energy.change_counts), (Verdict::OtherWork, Some(false)));
            }
            Mode::Closed => {
                assert!(busy(&changed) < busy(&found.check));
                assert_eq!((energy.verdict, energy.change_counts), (Verdict::Near, Some(true)));
            }
        }
    }
}

/// Goal: work that is not done is not saved energy. Method: tasks with time to spare, and one that is busy
/// all the time, at the lowest clocks: the recording ends long before its work does.
#[test]
fn a_closed_loop_that_does_not_end_its_work_saves_nothing() {
    let powersave = |replay: Replay| {
        let change = Change { governor: Some("powersave".into()), ..Change::default() };
        let found = replay.compare(Some(&change), Mode::Closed).unwrap_or_else(|error| panic!("{error}"));
        let energy = metrics(&found, Mode::Closed).into_iter().find(|row| row.name == "energy").expect("a row");
        (found.work_share.expect("something was changed"), energy.verdict, energy.change_counts)
    };
    let (share, verdict, counts) = powersave(replay("schedutil"));
    assert!((99_000..101_000).contains(&share), "{share}");
    assert_eq!((verdict, counts), (Verdict::Near, Some(true)), "its work is done at any clock");
    let (setup, mut workload) = setup("performance");
    let mut spin = workload.tasks.swap_remove(0);
    spin.ops = vec![Op::Run { work_ns: 2 * SECOND_NS, fixed: 0 }, Op::Exit];
    workload.tasks = vec![spin];
    let (share, verdict, counts) =
        powersave(Replay::of(recorded(&setup, &workload), setup).unwrap_or_else(|error| panic!("{error}")));
    assert!((20_000..80_000).contains(&share), "{share}");
    assert_eq!((verdict, counts), (Verdict::OtherWork, Some(false)));
}

#[test]
fn the_wake_up_graph_is_recovered() {
    let replay = replay("schedutil");
    let ops = |name: &str| {
        let task = replay.workload.tasks.iter().find(|task| task.name.starts_with(name));
        &task.unwrap_or_else(|| panic!("{name} was not recovered")).ops
    };
    let count = |name: &str, wanted: fn(&Op) -> bool| ops(name).iter().filter(|op| wanted(op)).count();
    assert!(count("pong", |op| matches!(op, Op::SemWait { .. })) > 150);
    assert!(count("ping", |op| matches!(op, Op::SemPost { .. })) > 150);
    assert!(count("big", |op| matches!(op, Op::Timer { absolute: true, .. })) > 140);
    let work: u64 = ops("big").iter().map(|op| if let Op::Run { work_ns, .. } = op { *work_ns } else { 0 }).sum();
    // 150 loops of 5 ms.
    assert!(work.abs_diff(750_000_000) < 15_000_000, "{work}");
}

#[test]
fn a_change_that_does_not_exist_is_an_error() {
    let replay = replay("performance");
    let change = Change { governor: Some("schedutl".into()), ..Change::default() };
    for mode in [Mode::Open, Mode::Closed] {
        let error = replay.compare(Some(&change), mode).expect_err("there is no such governor");
        assert!(error.to_string().contains("schedutl"), "{error}");
    }
}

#[test]
fn a_recorded_workload_becomes_an_rtapp_file_that_our_reader_takes() {
    let text = replay("schedutil").to_rtapp(None, 50).unwrap_or_else(|error| panic!("{error}"));
    let back = loaded(&juno(), &text);
    assert_eq!(back.tasks.iter().filter(|task| task.initial).count(), 5, "{:?}", back.tasks[0].name);
}

/// Goal: work that is recovered is the work that was given, and an rt-app file of it gives it again: where CPUs boost, and beside a busy
/// thread of the core, which makes both slower. Method: two tasks of 20 ms on two CPUs that share a core, or do not.
#[test]
fn work_comes_back_from_clocks_that_boost_and_cores_that_are_shared() {
    for (name, cpus) in [("kaby-lake-i7-7500u", [0, 1]), ("kaby-lake-i7-7500u", [0, 2])] {
        let task = |name: &str, cpu: u32| {
            format!(
                r#""{name}": {{"loop": -1, "cpus": [{cpu}], "run": 20000, "timer": {{"ref": "{name}", "period": 100000}}}}"#
            )
        };
        let text = format!(r#"{{"tasks": {{{}, {}}}}}"#, task("a", cpus[0]), task("b", cpus[1]));
        let policy = Policy { governor: "performance".into(), ..Policy::default() };
        let (setup, workload) = setup_of(machine(name), &text, policy);
        let events = recorded(&setup, &workload);
        let machine = setup.machine.clone();
        let given_ns = capacities(&machine)[0] as u64 * 20_000_000 / 1024;
        let replay = Replay::of(events, setup).unwrap_or_else(|error| panic!("{error}"));
        let again = loaded(&machine, &replay.to_rtapp(None, 50).unwrap_or_else(|error| panic!("{error}")));
        for (what, workload) in [("recovered", &replay.workload), ("written", &again)] {
            for task in &workload.tasks {
                let work = task
                    .ops
                    .iter()
                    .filter_map(|op| if let Op::Run { work_ns, .. } = op { Some(*work_ns) } else { None });
                let off_us: Vec<u64> = work.map(|ns| ns.abs_diff(given_ns) / 1000).collect();
                // The first activation may begin at a clock that rises, the last one is cut.
                let whole = &off_us[off_us.len().min(2) - 1..off_us.len().max(2) - 1];
                assert!(whole.iter().all(|&us| us < 300), "{name} {cpus:?} {}, {what}: {off_us:?} us", task.name);
            }
        }
    }
}

#[test]
fn recordings_are_read_and_replayed() {
    let Some(recording) = shared("traces/x86-612-rome3-any1-performance-periodic3") else { return };
    let replay = Replay::read(&recording, None).unwrap_or_else(|error| panic!("{error}"));
    // CPUs that shared a stream run apart, as fast at any clock.
    assert!(replay.setup.machine.constant_speed && !replay.setup.machine.shared_stream);
    assert_eq!(replay.setup.policy.governor, "performance");
    for mode in [Mode::Open, Mode::Closed] {
        let found = replay.compare(None, mode).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(found.freq_distance, [0, 0], "{mode:?}");
    }
    // One archive of the same files is the same recording.
    let name = "x86-612-rome3-any1-performance-periodic3";
    let archive = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.tar"));
    let files = ["trace.dat", "sysfs_before.txt", "debugfs_before.txt", "uname.txt", "cpuinfo.txt", "threads.txt"];
    let mut tar = tar::Builder::new(Vec::new());
    for file in files.iter().chain(&["qemu_cmdline.txt", "dmesg0.txt"]) {
        tar.append_path_with_name(recording.join(file), file).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
    tar.append_dir_all("rtlog", recording.join("rtlog")).unwrap_or_else(|error| panic!("{error}"));
    std::fs::write(&archive, tar.into_inner().expect("memory")).expect("writable");
    let packed = Replay::read(&archive, None).unwrap_or_else(|error| panic!("{error}"));
    assert!(packed.events == replay.events, "the same events");
    let (one, other) = (&packed.setup, &replay.setup);
    assert_eq!((&one.policy, &one.start_khz, &one.notes), (&other.policy, &other.start_khz, &other.notes));
    assert_eq!((&one.machine.clusters, &one.machine.costs), (&other.machine.clusters, &other.machine.costs));
    assert_eq!((&one.machine.name, one.machine.constant_speed), (&other.machine.name, true));
    let agreement = opplab_replay::agree::agree(&recording).unwrap_or_else(|error| panic!("{error}"));
    assert!(agreement.expect("it has a workload file").is_near());
}

/// The self-check of a loop: distances of residency and of energy, in parts of 100 000.
fn self_check(replay: &Replay, mode: Mode) -> (u64, u64) {
    let found = replay.compare(None, mode).unwrap_or_else(|error| panic!("{error}"));
    (found.freq_distance.iter().copied().max().unwrap_or(0), found.energy_distance)
}

#[test]
fn a_closed_loop_comes_near_what_was_recorded() {
    let Some(traces) = shared("traces") else { return };
    let check = |name: &str, residency: u64, energy: u64| {
        let replay = Replay::read(&traces.join(name), None).unwrap_or_else(|error| panic!("{error}"));
        let told = self_check(&replay, Mode::Closed);
        assert!(told.0 <= residency && told.1 <= energy, "{name}: {told:?}");
    };
    // One task, on a governor whose frequency feeds back into utilisation.
    check("x86-612-fast-xeon16-any1-schedutil-ramp_up", 1_000, 1_000);
    check("x86-612-xeon16-any1-schedutil-ramp_up", 3_000, 2_000);
    // A calibration of seconds on one CPU while timers of the kernel take the others out of idle.
    check("arm64-612-juno-eas-fiectr-ramp_up", 4_000, 5_000);
    // Three tasks whose timers expire together on CPUs that share one instruction stream.
    check("x86-612-rome3-any1-performance-periodic3", 0, 4_000);
}

/// Goal: both loops are near as a whole (frequency, energy, busy time and the 95th percentile of latency within 15 %): the open one on every
/// given recording, the closed one on 5 of the 6 whose CPUs ran in parallel and on 19 of the 24 others.
#[test]
fn both_loops_are_near_as_a_whole() {
    let Some(traces) = shared("traces") else { return };
    let mut folders: Vec<PathBuf> = std::fs::read_dir(traces).expect("a folder").flatten().map(|e| e.path()).collect();
    folders.retain(|folder| folder.join("trace.dat").is_file());
    folders.sort();
    let (mut parallel, mut others) = ((0, 0), (0, 0));
    for folder in folders {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let replay = Replay::read(&folder, None).unwrap_or_else(|error| panic!("{error}"));
        let whole = |mode| Whole::of(&replay.compare(None, mode).unwrap_or_else(|error| panic!("{error}")));
        assert!(whole(Mode::Open).is_near(), "{name}");
        let emulator = std::fs::read_to_string(folder.join("qemu_cmdline.txt")).unwrap_or_default();
        let counts = if emulator.contains("thread=multi") { &mut parallel } else { &mut others };
        counts.0 += u32::from(whole(Mode::Closed).is_near());
        counts.1 += 1;
    }
    assert!(parallel.0 * 6 >= parallel.1 * 5 && others.0 * 24 >= others.1 * 19, "{parallel:?} {others:?}");
}

/// Goal: CPUs share the recorded stream where that alone is near, and a change runs the way that the self-check took. Method: a recording of
/// either way, whose runs as the engine takes them have the energies of the comparison.
#[test]
fn cpus_of_a_shared_stream_run_in_the_nearer_way() {
    let Some(traces) = shared("traces") else { return };
    let change = Change { governor: Some("performance".into()), ..Change::default() };
    for (name, shares) in [("conservative-ramp_up", true), ("schedutil-iodd", false)] {
        let folder = traces.join(format!("x86-612-xeon16-any1-{name}"));
        let replay = Replay::read(&folder, None).unwrap_or_else(|error| panic!("{error}"));
        let found = replay.compare(Some(&change), Mode::Closed).unwrap_or_else(|error| panic!("{error}"));
        let other = found.streams.expect("CPUs apart are not near").other;
        assert_eq!((found.shares_stream(), Whole::of(&found).is_near(), other.is_near()), (shares, shares, false));
        for (is_changed, runs) in [(false, &found.runs.0), (true, &found.runs.1)] {
            let closed = replay.on_stream_of(shares).compared_case(Some(&change), is_changed, 1);
            let closed = closed.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(closed.case.machine.shared_stream, shares);
            let mut sink = Simulated::new(closed.case.machine.nr_cpus(), false);
            let outcome = run_from(&closed.case, &closed.start, &mut sink).unwrap_or_else(|error| panic!("{error:?}"));
            assert_eq!(outcome.work_done, runs[1].work_done, "{name} {is_changed}");
        }
        let again = replay.compare(Some(&change), Mode::Closed).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(found, again);
    }
    let parallel = traces.join("x86-612-fast-mttcg-xeon16-any1-schedutil-ramp_up");
    let replay = Replay::read(&parallel, None).unwrap_or_else(|error| panic!("{error}"));
    let found = replay.compare(None, Mode::Closed).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        (found.streams, replay.held_out().is_ok_and(|held| held.is_none())),
        (None, true),
        "its CPUs ran in parallel"
    );
}

#[test]
fn an_open_loop_decides_as_the_recorded_kernel_did() {
    let Some(traces) = shared("traces") else { return };
    let read = |name: &str| Replay::read(&traces.join(name), None).unwrap_or_else(|error| panic!("{error}"));
    let check = |name: &str, residency: u64, energy: u64| {
        let mut replay = read(name);
        let told = self_check(&replay, Mode::Open);
        assert!(told.0 <= residency && told.1 <= energy, "{name}: {told:?}");
        // Most traces do not tell when the governor was called, and no averages.
        replay.events.list.retain(|ev| !matches!(ev.what, What::UpdateUtil { .. }));
        replay.events.records = Records::default();
        let plain = self_check(&replay, Mode::Open);
        assert!(plain.0 <= residency && plain.1 <= energy, "{name} without the calls: {plain:?}");
    };
    check("x86-612-fast-xeon16-any1-schedutil-ramp_up", 500, 500);
    check("x86-612-rome3-any1-schedutil-periodic3", 1_000, 500);
    check("x86-612-xeon16-any1-schedutil-pingpong", 500, 500);
    check("arm64-612-juno-eas-rqclock-shbusy", 3_000, 500);
    // Its requests are made by a kthread.
    check("x86-612-xeon16-any1-schedutil-ramp_up", 3_000, 2_000);
    // It samples.
    check("x86-612-xeon16-any1-conservative-ramp_up", 3_000, 3_000);
    // Shells of milliseconds: what a new task begins with is only in the kernel's own records.
    for name in ["x86-612-fast-xeon16-any1-schedutil-iodd", "x86-612-xeon16-hw1-schedutil-burst"] {
        let told = self_check(&read(name), Mode::Open);
        assert!(told.0 <= 200 && told.1 <= 200, "{name}: {told:?}");
    }
}

/// Goal: schedutil in an open loop goes by the utilisation of the kernel's own records, whichever governor was recorded. Method: the
/// trace's utilisation, runnable utilisation and estimate at each event, with the headroom of 1.25, rounded up to a table entry; the
/// energy by the cube of the clock in the time that the CPUs ran. The formula has no rate limit and no hold.
#[test]
fn schedutil_goes_by_the_records_of_a_recording_of_any_governor() {
    let Some(traces) = shared("traces") else { return };
    for name in ["conservative-burst", "ondemand-pipeline", "schedutil-periodic3"] {
        let folder = traces.join(format!("x86-612-fast-mttcg-xeon16-any1-{name}"));
        let replay = Replay::read(&folder, None).unwrap_or_else(|error| panic!("{error}"));
        let change = Change { governor: Some("schedutil".into()), ..Change::default() };
        let events = replay.open_events(&change.apply(&replay.setup.policy)).unwrap_or_else(|error| panic!("{error}"));
        let table: Vec<u32> = replay.setup.machine.clusters[0].opps.iter().map(|opp| opp.khz).collect();
        let top_khz = table[table.len() - 1];
        let by_records = |cpu: u32, time_ns: u64| {
            let mut util = CpuUtil::default();
            events.records.correct(cpu, time_ns, &mut util);
            let most = util.util_avg.max(util.runnable_avg).max(util.util_est.into()).min(1024);
            let wanted_khz = (u64::from(top_khz) * (most + most / 4) / 1024) as u32;
            table.iter().copied().find(|&khz| khz >= wanted_khz).unwrap_or(top_khz)
        };
        let nr = replay.setup.machine.nr_cpus();
        let (mut replayed_khz, mut runs, mut last_ns) = (vec![0; nr], vec![false; nr], 0);
        let mut energies = [0_u128; 2];
        for ev in &events.list {
            for cpu in (0..nr as u32).filter(|&cpu| last_ns >= SECOND_NS / 5 && runs[cpu as usize]) {
                for (energy, khz) in energies.iter_mut().zip([replayed_khz[cpu as usize], by_records(cpu, last_ns)]) {
                    *energy += u128::from(ev.time_ns - last_ns) * u128::from(khz / 1000).pow(3);
                }
            }
            last_ns = ev.time_ns;
            match ev.what {
                What::Frequency { cpu, freq_khz } => replayed_khz[cpu as usize] = freq_khz,
                What::Switch { next, .. } => runs[ev.cpu as usize] = next != IDLE_TASK,
                _ => {}
            }
        }
        let [replayed, by_hand] = energies;
        assert!(
            replayed.abs_diff(by_hand) * 100 < by_hand * 6,
            "{name}: {replayed} by the open loop, {by_hand} by hand"
        );
    }
}

/// A trace of one CPU with these lines: seconds, event and fields.
fn text_trace(name: &str, lines: &[&str]) -> Events {
    let line = |line: &&str| {
        let (time, event) = line.split_once(' ').expect("time and event");
        format!("  <idle>-0  [000]  {time}: {event}\n")
    };
    let switch = "sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=9 next_prio=120";
    let text: String = std::iter::once(&format!("1.000000 {switch}").as_str()).chain(lines).map(line).collect();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, format!("# tracer: nop\n{text}")).unwrap_or_else(|error| panic!("{error}"));
    Events::read(&path).unwrap_or_else(|error| panic!("{error}"))
}

/// Goal: a recorded sample is one, also where its kworker was woken less than a sampling period after a late one; samples by another
/// period are not. Method: a busy CPU, whose clock conservative raises by a point after so many samples, with even and uneven wake-ups.
#[test]
fn a_sample_after_one_that_was_woken_late_counts() {
    let reached_after = |name: &str, tunables: &[(&str, &str)], late_us: u64| {
        let mut lines = Vec::new();
        for nth in 1..150_u64 {
            let woken_us = nth * 8_000 + if nth % 2 == 1 { late_us } else { 0 };
            let at = |us: u64| format!("{}.{:06}", 1 + (woken_us + us) / 1_000_000, (woken_us + us) % 1_000_000);
            let (task, worker) = (("a", 9), ("kworker/0:1", 50));
            let switch = |(from, pid): (&str, u32), state: char, (to, next): (&str, u32)| {
                let prev = format!("prev_comm={from} prev_pid={pid} prev_prio=120 prev_state={state}");
                format!("sched_switch: {prev} ==> next_comm={to} next_pid={next} next_prio=120")
            };
            lines.push(format!("{} sched_waking: comm=kworker/0:1 pid=50 prio=120 target_cpu=000", at(0)));
            lines.push(format!("{} {}", at(20), switch(task, 'R', worker)));
            lines.push(format!("{} {}", at(40), switch(worker, 'I', task)));
        }
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let (mut setup, _) = setup("conservative");
        setup.policy.tunables = tunables.iter().map(|&(name, value)| (name.into(), value.into())).collect();
        let replay = Replay::of(text_trace(name, &lines), setup).unwrap_or_else(|error| panic!("{error}"));
        let replayed = replay.open_events(&replay.setup.policy).unwrap_or_else(|error| panic!("{error}"));
        let at_top = What::Frequency { cpu: 0, freq_khz: 950_000 };
        replayed.list.iter().find(|ev| ev.what == at_top).map(|ev| ev.time_ns / (8 * MS))
    };
    let even = reached_after("even.txt", &[("freq_step", "1")], 0);
    assert!(even.is_some_and(|samples| (50..60).contains(&samples)), "{even:?}");
    assert_eq!(reached_after("uneven.txt", &[("freq_step", "1")], 1_000), even);
    let slower = reached_after("slower.txt", &[("freq_step", "1"), ("sampling_rate", "16000")], 1_000);
    assert!(slower.is_some_and(|samples| (100..115).contains(&samples)), "{slower:?}");
}

/// Goal: a trace of which one event's time is damaged is refused or its damage is named, and one whose events are a little out of order is put in order. Method:
/// the bytes of a recording's time stamps, and a trace from the reader's own text form.
#[test]
fn times_that_go_back_are_refused_or_named() {
    let file = root().join("crates/verify/tests/data/traces/x86-612-xeon16-hw1-schedutil-burst/trace.dat");
    let mut bytes = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let whole = Events::read(&file).unwrap_or_else(|error| panic!("{error}"));
    assert!(whole.list.is_sorted_by_key(|ev| ev.time_ns));
    let damaged = Path::new(env!("CARGO_TARGET_TMPDIR")).join("damaged.dat");
    let mut told = 0;
    // Bits in the higher half of each word, one word at a time: those of time stamps and of extended times among them.
    for place in (60_000..bytes.len() - 8).step_by(388) {
        bytes[place] ^= 0x44;
        std::fs::write(&damaged, &bytes).unwrap_or_else(|error| panic!("{error}"));
        match Events::read(&damaged) {
            Ok(events) => {
                assert!(events.list.is_sorted_by_key(|ev| ev.time_ns), "byte {place}");
                told += u32::from(events.damage.iter().any(|what| what.contains("goes back")));
            }
            Err(error) => told += u32::from(error.to_string().contains("go back")),
        }
        bytes[place] ^= 0x44;
    }
    assert!(told > 0);
}

/// Goal: a task that becomes a real-time task and ends as another one is recovered so, and written so for rt-app.
#[test]
fn changes_of_priority_are_recovered() {
    let mut lines = Vec::new();
    for nth in 0..20_u64 {
        // Its first run makes it a real-time task, its last one a fair one.
        let (woken, ran) = (if nth == 0 { 120 } else { 89 }, if nth == 19 { 120 } else { 89 });
        let at = |us: u64| format!("{}.{:06}", 1 + (nth * 10_000 + us) / 1_000_000, (nth * 10_000 + us) % 1_000_000);
        let idle = "swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=b next_pid=8";
        lines.push(format!("{} sched_waking: comm=b pid=8 prio={woken} target_cpu=000", at(1_000)));
        lines.push(format!("{} sched_switch: prev_comm={idle} next_prio={woken}", at(1_010)));
        let done = "prev_comm=b prev_pid=8 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120";
        lines.push(format!("{} sched_switch: {done} prev_prio={ran}", at(4_000)));
    }
    lines.push("1.300000 cpu_idle: state=1 cpu_id=0".into());
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let events = text_trace("prios.txt", &lines);
    let task = events.tasks.iter().find(|task| task.pid == 8).expect("it ran");
    assert_eq!((task.prio_at(0), task.prio_at(100 * MS), task.prio_at(SECOND_NS)), (120, 89, 120));
    let replay = Replay::of(events, setup("performance").0).unwrap_or_else(|error| panic!("{error}"));
    let spec = replay.workload.tasks.iter().find(|task| task.name == "b").expect("it was recovered");
    assert_eq!(spec.policy, SchedPolicy::default());
    let fifo = SchedPolicy::Fifo { priority: 10 };
    let changes: Vec<(usize, SchedPolicy)> = spec
        .ops
        .iter()
        .filter(|op| !matches!(op, Op::TimersFrom { .. } | Op::TimersByTick))
        .enumerate()
        .filter_map(|(place, op)| if let Op::SetPolicy { policy } = op { Some((place, *policy)) } else { None })
        .collect();
    assert_eq!(changes.first(), Some(&(0, fifo)), "before its first run");
    assert_eq!(changes.last().map(|change| change.1), Some(SchedPolicy::default()));
    assert_eq!(changes.len(), 2);
    let text = replay.to_rtapp(None, 50).unwrap_or_else(|error| panic!("{error}"));
    assert!(text.contains(r#""p0":{"loop":"#) && text.contains(r#""policy":"SCHED_FIFO","priority":10"#), "{text}");
    assert!(text.contains(r#""policy":"SCHED_OTHER","priority":0"#), "{text}");
}

/// Goal: what governors read is the last record of the root queue, from the call on that a joining task makes before it is written.
#[test]
fn records_of_averages_replace_what_was_rebuilt() {
    let events = text_trace(
        "records.txt",
        &[
            "1.001000 upd_cfs: cpu=0 cfs=0xff01 util_avg=90",
            "1.001001 pelt_cfs: cpu=0 cfs=0xff01 util_avg=100 runnable_avg=120 load_avg=80",
            "1.001002 util_est_cfs: cpu=0 util_est=33",
            "1.002000 sg_single: time=1002000000 flags=0 hook=0xa0",
            "1.002010 pelt_cfs: cpu=0 cfs=0xff01 util_avg=612 runnable_avg=632 load_avg=1104",
            "1.002500 upd_cfs: cpu=0 cfs=0xff01 util_avg=612",
            "1.002502 sg_single: time=1002500000 flags=0 hook=0xa0",
            "1.002510 pelt_cfs: cpu=0 cfs=0xff01 util_avg=700 runnable_avg=720 load_avg=1200",
            "1.003000 upd_se: cpu=0 se=0xee01 myq=0xff02",
            "1.003001 pelt_cfs: cpu=0 cfs=0xff02 util_avg=5",
            "1.004000 pelt_rt: cpu=0 util_avg=7",
            "1.005000 sg_single: time=1005000000 flags=0 hook=0xa0",
            "1.005002 sg_util: cpu=0 boost=0 util=300 bw_min=215 iowait=0",
            "1.006000 sg_single: time=1006000000 flags=0 hook=0xa0",
            "1.006002 sg_util: cpu=0 boost=0 util=1024 bw_min=1024 iowait=0",
        ],
    );
    let at = |us: u64| {
        let mut util = CpuUtil { util_avg: 1, runnable_avg: 2, util_est: 3, util_rt: 4, ..CpuUtil::default() };
        events.records.correct(0, us * 1000, &mut util);
        [util.util_avg, util.runnable_avg, util.util_est.into(), util.util_rt]
    };
    assert_eq!(at(999), [1, 2, 3, 4], "before the first record");
    assert_eq!(at(1_500), [100, 120, 33, 4]);
    assert_eq!(at(1_999), [100, 120, 33, 4]);
    assert_eq!(at(2_000), [612, 632, 33, 4], "the task joined at the call");
    assert_eq!(at(2_501), [612, 632, 33, 4]);
    assert_eq!(at(2_502), [700, 720, 33, 4], "an update that changed nothing, then a task joined");
    assert_eq!(at(4_000), [700, 720, 33, 7], "the group's queue does not count");
    let bandwidths = [4_999, 5_000, 6_000].map(|us| events.records.bw_dl(0, us * 1000));
    assert_eq!(bandwidths, [None, Some(215), Some(215)], "a real-time task asks for all, not for bandwidth");
}

/// Goal: what a trace does not tell is blank and has a reason, and does not count for "near". Method: a recorded run without the clock of
/// the second policy and without wake-ups.
#[test]
fn what_a_trace_does_not_tell_is_not_compared() {
    let (mut setup, workload) = setup("schedutil");
    let mut events = recorded(&setup, &workload);
    let machine = setup.machine.clone();
    let silent: Vec<u32> = machine.policies()[1].1.clone();
    events.list.retain(|ev| match ev.what {
        What::Frequency { cpu, .. } => !silent.contains(&cpu),
        What::Waking { .. } | What::Wakeup { .. } | What::WakeupNew { .. } => false,
        _ => true,
    });
    events.start_khz.retain(|cpu, _| !silent.contains(cpu));
    setup.known_from_ns[1] = None;
    let replay = Replay::of(events, setup).unwrap_or_else(|error| panic!("{error}"));
    let change = Change { governor: Some("performance".into()), ..Change::default() };
    let found = replay.compare(Some(&change), Mode::Open).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(found.freq_distance.len(), 1, "only the first policy is compared");
    let rows = metrics(&found, Mode::Open);
    let row = |name: &str| rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no {name}"));
    let (told, blank) = (format!("policy{}", machine.policies()[0].1[0]), format!("policy{}", silent[0]));
    let known = row(&format!("{told} mean frequency"));
    assert!(
        known.recorded.is_some() && known.verdict != Verdict::Unknown && known.change_counts.is_some(),
        "{known:?}"
    );
    assert_eq!(row("energy").recorded.is_none(), found.energy_is_silent());
    for name in [format!("{blank} mean frequency"), format!("{blank} changes")] {
        let row = row(&name);
        assert_eq!((row.recorded, row.verdict, row.change_counts), (None, Verdict::Unknown, None), "{name}");
        assert!(row.replayed.is_some() && row.changed.is_some(), "{name}");
    }
    for name in ["wake-up latency p99".to_owned(), format!("{told} busy")] {
        let row = row(&name);
        assert_eq!((row.verdict, row.change_counts.unwrap_or(false)), (Verdict::Unchanging, false), "{name}");
    }
    assert_eq!(row("wake-up latency p99").recorded, None);
    let reasons = found.silence.reasons(&machine, &found.recorded);
    let first = format!("no cpu_frequency event of CPU {}", silent[0]);
    assert!(reasons.len() == 2 && reasons[0].1.contains(&first), "{reasons:?}");
}

#[test]
fn a_machine_that_cannot_be_the_traces_is_refused() {
    let traced = TracedMachine { nr_cpus: Some(6), architecture: Some("arm64") };
    assert_eq!(traced.misfit(&juno()), None);
    let other = TracedMachine { nr_cpus: Some(8), ..traced };
    assert_eq!(other.misfit(&juno()).as_deref(), Some("the trace is of 8 CPUs, machine juno-r2 has 6"));
    let x86 = TracedMachine { nr_cpus: None, architecture: Some("x86") };
    assert!(x86.misfit(&juno()).is_some_and(|why| why.contains("x86")));
}

/// Goal: a recorded idle state is the machine's of its name, or of the nearest exit latency, and not of its number. Method: a kernel with a
/// state of its own between the machine's first and last, which it does not have.
#[test]
fn idle_states_of_a_recording_are_those_of_their_names() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("idle-states");
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{error}"));
    let write = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).unwrap_or_else(|error| panic!("{error}"));
    };
    let mut machine = juno();
    for cluster in &mut machine.clusters {
        cluster.idle.remove(1);
        cluster.cluster_idle.clear();
    }
    let trace = "# tracer: nop
  a-9  [000] d..2  1.000000: sched_switch: prev_comm=a prev_pid=9 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
  <idle>-0  [000] d..2  1.000001: cpu_idle: state=2 cpu_id=0
  <idle>-0  [000] d..2  1.100000: cpu_idle: state=4294967295 cpu_id=0
  <idle>-0  [000] d..2  1.100001: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=9 next_prio=120
";
    write("trace.dat", trace);
    let _ = std::fs::remove_file(folder.join("sysfs_before.txt"));
    let read = || Replay::read(&folder, Some(machine.clone())).unwrap_or_else(|error| panic!("{error}"));
    let entered = |replay: &Replay| {
        let of = |what: &What| if let What::Idle { state, .. } = *what { state } else { None };
        replay.events.list.iter().find_map(|ev| of(&ev.what))
    };
    let unnamed = read();
    assert_eq!(entered(&unnamed), Some(2));
    assert!(unnamed.setup.notes.iter().any(|note| note == BY_NUMBER), "{:?}", unnamed.setup.notes);
    let states = [("WFI", 1, 1), ("retention", 1_550, 2_000), ("CLUSTER-sleep-0", 1_600, 2_500)];
    let lines = states.iter().enumerate().map(|(nth, (name, latency, residency))| {
        let of = format!("/sys/devices/system/cpu/cpu0/cpuidle/state{nth}");
        format!("{of}/name: {name}|\n{of}/latency: {latency}|\n{of}/residency: {residency}|\n")
    });
    let cpus = "/sys/devices/system/cpu/present: 0|\n/sys/devices/system/cpu/online: 0|\n";
    write("sysfs_before.txt", &format!("{cpus}{}", lines.collect::<String>()));
    let states = IdleStates::of(&folder, &machine);
    assert!(states.are_named());
    assert_eq!([0, 1, 2, 7].map(|state| states.number(0, state)), [0, 1, 1, 7]);
    let named = read();
    assert_eq!(entered(&named), Some(1));
    assert!(!named.setup.notes.iter().any(|note| note == BY_NUMBER), "{:?}", named.setup.notes);
}

/// Goal: a kernel without a cpuidle driver reports state 1 for the idle instruction, which is the machine's first state. Method: a snapshot
/// of CPUs that shows no state, and traces that enter state 1 only, or another one too; the energy of a recording.
#[test]
fn a_recording_without_a_cpuidle_driver_has_the_idle_instruction_only() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-idle-driver");
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{error}"));
    let write = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).unwrap_or_else(|error| panic!("{error}"));
    };
    let line = |us: u32, state: u32| format!("  <idle>-0  [000] d..2  1.00{us:04}: cpu_idle: state={state} cpu_id=0\n");
    let trace = |state: u32| {
        let switch = "  a-9  [000] d..2  1.000000: sched_switch: prev_comm=a prev_pid=9 prev_prio=120 prev_state=S ==> \
                      next_comm=swapper/0 next_pid=0 next_prio=120\n";
        format!("# tracer: nop\n{switch}{}{}{}{}", line(1, 1), line(2, u32::MAX), line(3, state), line(4, u32::MAX))
    };
    write("sysfs_before.txt", "/sys/devices/system/cpu/possible: 0-5|\n/sys/devices/system/cpu/cpu0/online: 1|\n");
    write("trace.dat", &trace(1));
    let epyc = machine("epyc-7742-2s");
    let of = |machine: &Machine| IdleStates::of(&folder, machine);
    assert_eq!([0, 1].map(|state| of(&juno()).number(0, state)), [0, 0]);
    let polls = epyc.clusters[0].polls(0);
    assert_eq!(of(&epyc).number(0, 1), usize::from(polls), "the first that does not poll");
    let note = of(&juno()).note().unwrap_or_default();
    assert!(note.contains("no cpuidle driver") && note.contains("WFI"), "{note}");
    write("trace.dat", &trace(2));
    assert_eq!([0, 1, 2].map(|state| of(&juno()).number(0, state)), [0, 1, 2], "a driver's states, by their numbers");
    assert_eq!(of(&juno()).note().as_deref(), Some(BY_NUMBER));
    std::fs::remove_file(folder.join("sysfs_before.txt")).unwrap_or_else(|error| panic!("{error}"));
    write("trace.dat", &trace(1));
    assert_eq!(of(&juno()).note().as_deref(), Some(BY_NUMBER), "nothing shows what the kernel had");
}

/// Goal: the governor of a run that is asked and told what it was in the run decides as in the run. Method: all governors, with a latency
/// that is asked for, a state that is disabled, and a kernel that stops the tick first.
#[test]
fn the_governor_of_a_run_equals_itself() {
    for (name, policy) in [
        ("juno-r2", Policy::default()),
        ("juno-r2", Policy { idle_disable: vec!["cpu-sleep-0".into()], ..Policy::default() }),
        ("skylake-8x-uma", Policy { cpu_dma_latency_us: 100, ..Policy::default() }),
        ("skylake-8x-uma", Policy { kernel: "4.14".into(), ..Policy::default() }),
    ] {
        let machine = machine(name);
        for governor in ["menu", "teo", "ladder", "haltpoll"] {
            let policy = Policy { idle_governor: governor.into(), ..policy.clone() };
            let profile = policy.profile().unwrap_or_else(|error| panic!("{error}"));
            let tick_ns = SECOND_NS / u64::from(policy.hz);
            let case = Case {
                machine: machine.clone(),
                workload: loaded(&machine, WORKLOAD),
                policy,
                seed: 1,
                duration_ns: 2 * SECOND_NS,
            };
            let mut stays = Stays::default();
            opplab_sim::run(&case, &mut stays).unwrap_or_else(|error| panic!("{error:?}"));
            let mut decisions = 0;
            for (cpu, of_cpu) in (0..).zip(&stays.cpus) {
                let states: Vec<IdleState> = machine.cluster_of(cpu).idle.iter().map(governed).collect();
                let score =
                    decide(of_cpu, &states, Decider::Governor(governor), &profile, tick_ns).expect("a governor");
                assert_eq!(score.equal, score.decisions, "{name} {governor} CPU {cpu}");
                decisions += score.decisions;
            }
            assert!(decisions > 500, "{name} {governor}: {decisions}");
        }
    }
}

/// A machine's idle state as governors know it: the exit latency holds the entry.
fn governed(state: &opplab_model::machine::IdleState) -> IdleState {
    IdleState {
        exit_latency_ns: state.entry_latency_ns + state.exit_latency_ns,
        target_residency_ns: state.target_residency_ns,
        polling: state.name == "POLL",
    }
}

#[test]
fn what_somebody_knows_of_a_recording_goes_before_what_is_assumed() {
    let (setup, workload) = setup("schedutil");
    let events = recorded(&setup, &workload);
    let said = Recorded { governor: Some("ondemand".into()), kernel: Some("6.6".into()), ..Recorded::default() };
    let taken = Setup::of_machine(juno(), &events, &said).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((taken.policy.governor.as_str(), taken.policy.kernel.as_str()), ("ondemand", "6.6"));
    assert!(!taken.notes.iter().any(|note| note.contains("kernel") || note.contains("governor")), "{:?}", taken.notes);
    let assumed = Setup::of_machine(juno(), &events, &Recorded::default()).unwrap_or_else(|error| panic!("{error}"));
    assert!(assumed.notes.iter().any(|note| note.contains("--recorded-governor")));
    for said in [
        Recorded { driver: Some("intel_pstate".into()), ..Recorded::default() },
        Recorded { kernel: Some("9.9".into()), ..Recorded::default() },
    ] {
        assert!(Setup::of_machine(juno(), &events, &said).is_err(), "{said:?}");
    }
}

/// Goal: what `taskset` bound to a CPU is bound when it was, and nothing else is: an `insmod` and a `sleep` of the shell are not.
#[test]
fn affinities_by_taskset_are_recovered() {
    for name in
        ["x86-612-xeon16-any2-strict-slow-sugov_on_cpu2-iopin0", "x86-612-xeon16-any2-strict-slow-sugovdefault-iopin0"]
    {
        let Some(folder) = shared(&format!("traces/{name}")) else { return };
        let replay = Replay::read(&folder, None).unwrap_or_else(|error| panic!("{name}: {error}"));
        let workload = &replay.workload;
        let sets = |ops: &[Op]| -> Vec<u32> {
            let set = |op: &Op| if let Op::SetCpus { set } = op { *set } else { None };
            ops.iter().filter_map(set).collect()
        };
        let mut bound = 0;
        for task in &workload.tasks {
            let found = sets(&task.ops);
            assert!(found.is_empty() || task.name.starts_with("dd"), "{name}: {}", task.name);
            assert!(found.iter().all(|&set| workload.cpu_sets[set as usize] == [0]), "{name}: taskset 1 is CPU 0");
            bound += found.len();
        }
        println!("{name}: {bound} bound");
        assert!(bound >= 3, "{name}: {bound} of 5 were moved");
    }
}

/// Goal: what changes between two point releases is predicted from a recording of one. Method: 6.12.74 and 6.12.85, recorded after the
/// prediction was written down (docs/journal/2026-11-25-point-releases.md); the newer one keeps the tick of a CPU without an idle driver, so
/// that schedutil lowers frequencies less often. A snapshot's clock that was stale by the trace's start put the self-check 34 points off.
#[test]
fn a_point_release_is_predicted_from_another() {
    let read = |release: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/point-releases").join(release);
        Replay::read(&folder, None).unwrap_or_else(|error| panic!("{error}"))
    };
    let changes = |times: &opplab_replay::Measured| times.policies.iter().map(|policy| policy.changes).sum::<u64>();
    let predicted = |from: &str, to: &str| {
        let change = Change { kernel: Some(to.into()), ..Change::default() };
        let found = read(from).compare(Some(&change), Mode::Closed).unwrap_or_else(|error| panic!("{error}"));
        assert!(found.is_near(), "{from}: {:?} {}", found.freq_distance, found.energy_distance);
        let after = changes(&found.changed.expect("something was changed"));
        (changes(&found.recorded), after * 100 / changes(&found.check))
    };
    let (older, fewer_percent) = predicted("6.12.74", "6.12.85");
    let (newer, more_percent) = predicted("6.12.85", "6.12.74");
    assert_eq!((older, newer), (31, 19));
    // Recorded: 61 % of the changes, and 163 %.
    assert!(
        (40..=70).contains(&fewer_percent) && (140..=200).contains(&more_percent),
        "{fewer_percent} {more_percent}"
    );
}

/// Goal: recordings without real times are refused. Method: the snapshots of two CPUs, of which one is left, whose TSC is not constant.
#[test]
fn an_emulated_clock_that_runs_with_the_frequency_is_refused() {
    let given = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/point-releases/6.12.74");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("one-cpu");
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{error}"));
    let text = |name: &str| std::fs::read_to_string(given.join(name)).unwrap_or_else(|error| panic!("{error}"));
    let write = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).unwrap_or_else(|error| panic!("{error}"));
    };
    let of_one = |line: &&str| !line.contains("/cpu1/") && !line.contains("policy1");
    let snapshot = text("sysfs_before.txt").replace(": 0-1|", ": 0|");
    write("sysfs_before.txt", &snapshot.lines().filter(of_one).map(|line| format!("{line}\n")).collect::<String>());
    let cpuinfo = text("cpuinfo.txt");
    let one = cpuinfo.split("\n\n").next().unwrap_or_default();
    write("qemu_cmdline.txt", &text("qemu_cmdline.txt"));
    let line = "  a-9  [000] d..2  1.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=9 next_prio=120\n";
    write("trace.dat", &format!("# tracer: nop\n{line}{}", line.replace("1.000000", "1.001000")));
    write("cpuinfo.txt", one);
    Replay::read(&folder, None).unwrap_or_else(|error| panic!("{error}"));
    write("cpuinfo.txt", &one.replace("constant_tsc", ""));
    let error = Replay::read(&folder, None).expect_err("its times are not real times").to_string();
    assert!(error.contains("trace.dat: its times are not real times"), "{error}");
}

/// Goal: a closed loop of intel_pstate's active mode has the clocks that the firmware grants, since nobody asks for one, and so
/// comes near the run that it was recorded from.
#[test]
fn the_firmware_chooses_the_clocks_of_a_closed_loop() {
    let path = root().join("python/opplab/data/machines/alder-lake-i7-1260p.toml");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let machine = parse_machine("alder-lake-i7-1260p.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let capacities: Vec<u32> = (0..machine.nr_cpus() as u32).map(|cpu| machine.cluster_of(cpu).capacity).collect();
    let options = CompileOptions { name: "known", machine: "", capacities: &capacities };
    let workload =
        load("known.json", WORKLOAD, ParseOptions::default(), &options).unwrap_or_else(|error| panic!("{error}"));
    let policy = Policy { governor: "powersave".into(), driver: "intel_pstate".into(), ..Policy::default() };
    let case = Case { machine: machine.clone(), workload, policy, seed: 1, duration_ns: 3 * SECOND_NS };
    let mut sink = Simulated::new(case.machine.nr_cpus(), false);
    let outcome = run_from(&case, &Start::default(), &mut sink).unwrap_or_else(|error| panic!("{error:?}"));
    let events = sink.finish(&outcome.task_names, case.duration_ns);
    let said = Recorded {
        governor: Some("powersave".into()),
        driver: Some("intel_pstate".into()),
        kernel: Some(case.policy.kernel.clone()),
        ..Recorded::default()
    };
    let setup = Setup::of_machine(machine, &events, &said).unwrap_or_else(|error| panic!("{error}"));
    let replay = Replay::of(events, setup).unwrap_or_else(|error| panic!("{error}"));
    let (_, energy) = self_check(&replay, Mode::Closed);
    assert!(energy < 5_000, "{energy}");
}
