//! rt-app files as they are in the wild are read with their events in file order, or refused for a true reason; what
//! they compile to is what rt-app would do.

use std::path::{Path, PathBuf};

use opplab_model::ModelError;
use opplab_model::rtapp::{CompileOptions, EventKind, ParseOptions, Repeats, RtApp, SuspendOn, load, parse};
use opplab_model::workload::{Op, SchedPolicy, Workload};
use proptest::prelude::*;

fn shared_files() -> Vec<PathBuf> {
    fn walk(folder: &Path, out: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, out);
            } else if path.extension().is_some_and(|extension| extension == "json") {
                out.push(path);
            }
        }
    }
    let Some(data) = opplab_testdata::shared("data") else { return Vec::new() };
    let mut files = Vec::new();
    for folder in ["rt-app", "workload-automation", "myci-sched-tests", "lisa"] {
        walk(&data.join(folder), &mut files);
    }
    files.sort();
    files
}

/// The event keys of a file, found by looking at its text only: (key, line), in file order.
fn event_keys(text: &str) -> Vec<(String, u32)> {
    let events = [
        "lock", "unlock", "wait", "signal", "broad", "sync", "sleep", "run", "timer", "suspend", "resume", "mem",
        "iorun", "yield", "barrier", "fork", "sem_post", "sem_wait",
    ];
    let mut keys = Vec::new();
    let mut line = 1;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("/*") {
            let end = rest.find("*/").expect("comments end") + 2;
            line += rest[..end].matches('\n').count() as u32;
            rest = &rest[end..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        if c == '\n' {
            line += 1;
        }
        if c != '"' {
            continue;
        }
        let end = rest.find('"').expect("strings end");
        let (name, after) = (&rest[..end], rest[end + 1..].trim_start());
        rest = &rest[end + 1..];
        let value = after.strip_prefix(':').map(str::trim_start);
        let is_key = (value.is_some() || name == "suspend") && !["lock_pages", "mem_buffer_size"].contains(&name);
        // A phase may be called `run`; its value is a table, which few events take.
        let is_table = value.is_some_and(|value| value.starts_with('{'));
        let takes_table = ["timer", "wait", "sync", "memrun"].iter().any(|event| name.starts_with(event));
        if is_key && events.iter().any(|event| name.starts_with(event)) && (!is_table || takes_table) {
            keys.push((name.to_owned(), line));
        }
    }
    keys
}

fn events_of(rtapp: &RtApp) -> Vec<(&str, u32)> {
    let phases = rtapp.tasks.iter().flat_map(|task| &task.phases);
    phases.flat_map(|phase| &phase.events).map(|event| (event.key.as_str(), event.at.line)).collect()
}

#[test]
fn every_shared_file_is_read_in_order_or_refused_for_a_reason() {
    let files = shared_files();
    if files.is_empty() {
        return;
    }
    let (mut read, mut refused, mut compiled) = (0, 0, 0);
    for path in &files {
        let text = std::fs::read_to_string(path).expect("it is text");
        let name = path.components().rev().take(3).collect::<PathBuf>();
        let name: PathBuf = name.components().rev().collect();
        let name = name.display().to_string();
        match parse(&name, &text, ParseOptions::default()) {
            Ok(rtapp) => {
                read += 1;
                let expected = event_keys(&text);
                let got = events_of(&rtapp);
                assert_eq!(got.len(), expected.len(), "{name}: {got:?} {expected:?}");
                for ((key, line), (expected_key, expected_line)) in got.iter().zip(&expected) {
                    // workgen appends a number to repeats.
                    assert!(key.starts_with(expected_key.as_str()), "{name}:{line}: {key} {expected_key}");
                    assert_eq!(line, expected_line, "{name}: {key}");
                }
                assert!(!rtapp.describe().is_empty());
                match rtapp.compile(&name, &CompileOptions { name: &name, machine: "", capacities: &[1024; 8] }) {
                    Ok(workload) => {
                        compiled += 1;
                        check_workload(&workload, 8);
                        println!("read     {name}: {} events, {} notes", got.len(), rtapp.notes.len());
                    }
                    Err(error) => println!("read     {name}: {} events; cannot run: {error}", got.len()),
                }
            }
            Err(error) => {
                refused += 1;
                let ModelError::Input { line, column, .. } = &error else { panic!("{error}") };
                assert!(*line >= 1 && *column >= 1, "{error}");
                println!("refused  {error}");
            }
        }
    }
    println!("{} files: {read} read ({compiled} of them can run), {refused} refused", files.len());
    assert_eq!(read + refused, files.len());
    // Templates, parts for merge.py and the grammar that rt-app dropped are the only reasons known.
    assert!(read >= files.len() / 2);
}

/// What every compiled workload keeps to.
fn check_workload(workload: &Workload, nr_cpus: usize) {
    workload.check(nr_cpus).unwrap_or_else(|why| panic!("{}: {why}", workload.name));
    for op in workload.tasks.iter().flat_map(|task| &task.ops) {
        if let Op::Fork { task } = op {
            assert!(!workload.tasks[*task as usize].initial);
        }
    }
}

fn read(text: &str, options: ParseOptions) -> RtApp {
    parse("w.json", text, options).unwrap_or_else(|error| panic!("{error}"))
}

fn compile(text: &str, capacities: &[u32]) -> Workload {
    let options = CompileOptions { name: "w", machine: "", capacities };
    let workload = load("w.json", text, ParseOptions::default(), &options).unwrap_or_else(|error| panic!("{error}"));
    check_workload(&workload, capacities.len());
    workload
}

#[test]
fn repeats_are_treated_as_json_c_or_as_workgen() {
    let text = r#"{ "tasks": { "t": { "run": 1, "sleep": 2, "run": 3, "suspend", "run": 4 } } }"#;
    let workgen = read(text, ParseOptions::default());
    let keys: Vec<&str> = events_of(&workgen).iter().map(|&(key, _)| key).collect();
    assert_eq!(keys, ["run", "sleep", "run1", "suspend", "run2"]);
    let suspend = &workgen.tasks[0].phases[0].events[3].kind;
    assert_eq!(*suspend, EventKind::Suspend { cond: "t".to_owned() });

    let json_c = ParseOptions { repeats: Repeats::JsonC, ..ParseOptions::default() };
    let error = parse("w.json", text, json_c).expect_err("json-c knows no key without a value");
    assert_eq!(error.to_string(), "failed to read w.json:1:53: key `suspend` has no value");
    let rtapp = read(&text.replace("\"suspend\",", ""), json_c);
    let events: Vec<&EventKind> = rtapp.tasks[0].phases[0].events.iter().map(|event| &event.kind).collect();
    assert_eq!(events, [&EventKind::Run { us: 4 }, &EventKind::Sleep { us: 2 }]);
    assert_eq!(rtapp.notes.len(), 2, "{:?}", rtapp.notes);
}

#[test]
fn event_names_are_prefixes() {
    let text = r#"{ "tasks": { "t": { "running": 5, "runtime1": 6, "broadcast": "q", "memory": 7, "memrun0":
        { "type": "chase", "size": 65536, "count": 9 }, "sleepy": 8, "yield": "", "timer9": { "ref": "unique", "period": 10 } } } }"#;
    let rtapp = read(text, ParseOptions::default());
    let described: Vec<String> = rtapp.tasks[0].phases[0].events.iter().map(|event| event.kind.describe()).collect();
    assert_eq!(
        described,
        [
            "run 5 us of work",
            "runtime 6 us of time",
            "broadcast q",
            "mem 7 bytes",
            "memrun chase 9 pointers in 65536 bytes, stride 64, random",
            "sleep 8 us",
            "yield",
            "timer unique, period 10 us, own to each thread",
        ]
    );
}

/// A phase goes into its `taskgroup`; one that names none goes on where the one before it was (set_thread_taskgroup(), rt-app 1.0).
#[test]
fn phases_change_their_groups() {
    let workload = compile(
        r#"{ "tasks": { "a": { "taskgroup": "/z", "phases": {
                "p": { "loop": 1, "run": 1, "taskgroup": "/b/c" },
                "q": { "loop": 1, "run": 2 },
                "r": { "loop": 1, "run": 3, "taskgroup": "/" },
                "s": { "loop": 1, "run": 4, "taskgroup": "/a" } } } },
            "groups": { "/b": { "weight": 200 } }, "global": { "duration": 1, "calibration": "CPU0" } }"#,
        &[1024],
    );
    let groups: Vec<(&str, Option<u32>, &[u32])> =
        workload.groups.iter().map(|group| (group.name.as_str(), group.parent, group.tasks.as_slice())).collect();
    assert_eq!(groups, [("/a", None, &[][..]), ("/b", None, &[]), ("/b/c", Some(1), &[]), ("/z", None, &[0])]);
    let steps: Vec<Op> =
        workload.tasks[0].ops.iter().filter(|op| matches!(op, Op::SetGroup { .. } | Op::Run { .. })).copied().collect();
    let run = |us: u64| Op::Run { work_ns: us * 1000, fixed: 0 };
    let to = |group| Op::SetGroup { task: None, group };
    assert_eq!(steps, [to(Some(2)), run(1), run(2), to(None), run(3), to(Some(0)), run(4)]);
}

#[test]
fn programs_are_what_rt_app_would_do() {
    let workload = compile(
        r#"{ "tasks": {
            "a": { "instance": 2, "delay": 5, "cpus": [1, 0], "priority": -5, "phases": {
                "p": { "loop": 3, "run": 1000, "timer": { "ref": "unique", "period": 16000 } },
                "q": { "cpus": [2], "util_min": 100, "priority": 3, "sleep": 7 } } },
            "b": { "loop": 2, "lock": "m", "sync": { "ref": "c", "mutex": "m" }, "unlock": "m", "resume": "c" },
            "c": { "instance": 0, "policy": "SCHED_FIFO", "loop": 1, "run": 1, "barrier": "x", "fork": "c" }
        }, "global": { "duration": 2, "calibration": "CPU0" } }"#,
        &[512, 1024, 1024],
    );
    let names: Vec<(&str, bool)> = workload.tasks.iter().map(|task| (task.name.as_str(), task.initial)).collect();
    assert_eq!(names, [("a-0", true), ("a-1", true), ("b-2", true), ("c", false)]);
    assert_eq!(workload.duration_ns, Some(2_000_000_000));
    assert_eq!(workload.cpu_sets, [vec![0, 1], vec![2]]);
    let a = &workload.tasks[0];
    assert_eq!(a.delay_ns, 5000);
    assert_eq!(a.policy, SchedPolicy::Other { nice: -5 });
    assert_eq!(a.phases[0].period_ns, 16_000_000);
    assert_eq!(
        a.ops,
        [
            Op::LoopBegin { slot: 0, count: None },
            Op::SetCpus { set: Some(0) },
            Op::LoopBegin { slot: 1, count: Some(3) },
            // Calibrated on CPU 0, which has half the capacity of the biggest.
            Op::Run { work_ns: 500_000, fixed: 0 },
            Op::Timer { timer: 0, period_ns: 16_000_000, absolute: false, own: true },
            Op::Activation { phase: 0, timed: true },
            Op::LoopEnd { slot: 1, begin: 2 },
            Op::SetCpus { set: Some(1) },
            Op::SetPolicy { policy: SchedPolicy::Other { nice: 3 } },
            Op::SetUclamp { min: Some(100), max: None },
            Op::Sleep { ns: 7000 },
            Op::Activation { phase: 1, timed: false },
            Op::LoopEnd { slot: 0, begin: 0 },
            Op::Exit,
        ]
    );
    // `loop` without `phases` is the phase's: the task itself runs once.
    let lock = |mutex| Op::Lock { mutex };
    assert_eq!(
        workload.tasks[2].ops,
        [
            Op::LoopBegin { slot: 1, count: Some(2) },
            lock(0),
            Op::Signal { cond: 0 },
            Op::Wait { cond: 0, mutex: 0 },
            Op::Unlock { mutex: 0 },
            lock(1),
            Op::Resume { cond: 0 },
            Op::Unlock { mutex: 1 },
            // Nothing in the loop takes time for sure, so rt-app's own calls count.
            Op::Run { work_ns: 1000, fixed: 0 },
            Op::Activation { phase: 0, timed: false },
            Op::LoopEnd { slot: 1, begin: 0 },
            Op::Exit,
        ]
    );
    // A task with no instances does not count at a barrier, as in rt-app.
    assert_eq!(workload.barriers, [0]);
    let c = &workload.tasks[3];
    assert_eq!(c.policy, SchedPolicy::Fifo { priority: 10 });
    assert!(c.ops.contains(&Op::Fork { task: 3 }));
}

#[test]
fn suspend_has_two_meanings() {
    let text = r#"{ "tasks": { "t": { "suspend": "other", "run": 1 } } }"#;
    let cond = |suspend| {
        let rtapp = read(text, ParseOptions { suspend, ..ParseOptions::default() });
        (rtapp.tasks[0].phases[0].events[0].kind.describe(), rtapp.notes.len())
    };
    assert_eq!(cond(SuspendOn::Value), ("suspend other".to_owned(), 0));
    assert_eq!(cond(SuspendOn::OwnName), ("suspend t".to_owned(), 1));
}

#[test]
fn what_rt_app_reads_over_is_noted() {
    let text = r#"{ "tasks": { "t": { "run": 1, "prioriy": 3, "loop": 1, "loop": 2 } }, "global": { "frag": 1 } }"#;
    let notes: Vec<String> =
        read(text, ParseOptions::default()).notes.iter().map(|note| format!("{}: {}", note.at, note.message)).collect();
    assert_eq!(
        notes,
        [
            "1:31: rt-app reads no `prioriy` in a task: it has no effect; did you mean `priority`?",
            "1:56: `loop` is repeated: the first one counts, this one is not read",
            "1:83: rt-app reads no `frag` in `global`: it has no effect",
        ]
    );
}

#[test]
fn a_missing_cpu_names_the_machine() {
    let options = CompileOptions { name: "w", machine: "board", capacities: &[1024, 1024] };
    for (text, expected) in [
        (
            "{ \"tasks\": { \"t\": { \"cpus\": [2], \"run\": 1 } } }",
            "CPU 2 does not exist: machine board has 2 CPUs, 0-1",
        ),
        (
            "{ \"tasks\": { \"t\": { \"run\": 1 } }, \"global\": { \"calibration\": \"CPU7\" } }",
            "`calibration` on CPU 7, but machine board has 2 CPUs, 0-1",
        ),
    ] {
        let error = load("w.json", text, ParseOptions::default(), &options).expect_err(expected).to_string();
        assert!(error.ends_with(expected), "{error}");
    }
}

#[test]
fn refusals_say_where_and_why() {
    let check = |tasks: &str, expected: &str| {
        let text = format!("{{ \"tasks\": {{\n{tasks}\n}} }}");
        let options = CompileOptions { name: "w", machine: "", capacities: &[1024, 1024] };
        let error = load("w.json", &text, ParseOptions::default(), &options).expect_err(expected);
        assert_eq!(error.to_string(), format!("failed to read w.json:{expected}"));
    };
    check("\"t\": { \"run\": -5 }", "2:15: `run` must be at least 0, not -5");
    check("\"t\": { \"run\": \"5\" }", "2:15: `run` must be a whole number, not a string");
    check("\"t\": { \"run\": 1.5 }", "2:15: `run` must be a whole number, not a number with a fraction");
    check("\"t\": { \"timer\": { \"period\": -1 } }", "2:29: `period` must be at least 0, not -1");
    check(
        "\"t\": { \"timer\": { \"mode\": \"absolut\" } }",
        "2:27: unknown mode of a timer `absolut`; did you mean `absolute`?",
    );
    check("\"t\": { \"lock\": 1 }", "2:16: event `lock` (`lock`) needs a name in quotes, not a whole number");
    check(
        "\"t\": { \"lock_order\": [\"a\"] }",
        "2:22: event `lock_order` (`lock`) needs a name in quotes, not a list (`lock_order` is of a grammar that rt-app dropped)",
    );
    check("\"t\": { \"exec\": 1 }", "2:8: `t` has no events (`exec` is of a grammar that rt-app dropped)");
    check("\"t\": { \"cpus\": [0, 2], \"run\": 1 }", "2:16: CPU 2 does not exist: the machine has 2 CPUs, 0-1");
    check("\"t\": { \"cpus\": [], \"run\": 1 }", "2:16: `cpus` is empty");
    check("\"t\": { \"fork\": \"u\", \"run\": 1 }", "2:8: unknown task to fork `u`; did you mean `t`?");
    check(
        "\"t\": { \"run\": 1, \"policy\": \"SCHED_FIF\" }",
        "2:28: unknown scheduling policy `SCHED_FIF`; did you mean `SCHED_FIFO`?",
    );
    check(
        "\"t\": { \"run\": 1, \"policy\": \"SCHED_FIFO\", \"priority\": 0 }",
        "2:54: real-time priority 0 is not 1..99",
    );
    check("\"t\": { \"run\": 1, \"priority\": 20 }", "2:30: nice value 20 is not -20..19");
    check("\"t\": { \"run\": 1, \"policy\": \"SCHED_DEADLINE\" }", "2:1: a SCHED_DEADLINE task needs `dl-runtime`");
    check("\"t\": { \"run\": 1, \"taskgroup\": \"/tg1//a\" }", "2:31: `taskgroup` /tg1//a is no path of a group");
    check(
        "\"t\": { \"run\": 1, \"nodes_membind\": [0] }",
        "2:35: placement of memory on nodes (`nodes_membind`) is not modelled",
    );
    check(
        "\"t\": { \"run\": 1, \"dl-runtime\": 9 }",
        "2:32: a slice of its own for a SCHED_OTHER task (`dl-runtime`) is not modelled",
    );
    check("\"t\": { \"run\": X }", "2:15: this is a template: placeholder `X` is not filled in");
    check("\"t\": { \"run\": 1, ", "1:1: a table that does not end");
    check("", "1:12: `tasks` is empty, so there is nothing to run");
    check(
        "\"t\": { \"run\": 1, \"instance\": 0 }",
        "1:12: each task has an `instance` of 0, so there is nothing to run",
    );
    check(
        "\"t\": { \"run\": 1, \"util_min\": 600, \"util_max\": 500 }",
        "2:30: `util_min` 600 is above `util_max` 500, which the kernel refuses",
    );
    check(
        "\"t\": { \"util_min\": 600, \"phases\": { \"p\": { \"run\": 1, \"util_max\": 500 } } }",
        "2:66: `util_min` 600 is above `util_max` 500, which the kernel refuses",
    );
}

proptest! {
    /// Cut and mangled files are read or refused with a place inside the text, and never panic.
    #[test]
    fn mangled_files_do_not_panic(
        cut in 0usize..600,
        at in 0usize..600,
        junk in "\\PC{0,5}|[\\[\\]{}\":,.0-9-]{1,5}|(run|loop|fork|cpus|timer)",
    ) {
        let text = r#"{ "tasks": { "a": { "instance": 2, "phases": { "p": { "loop": 3, "run": 1000, "cpus": [0],
            "timer": { "ref": "unique", "period": 16000, "mode": "absolute" }, "barrier": "x" }, /* é */
            "q": { "policy": "SCHED_RR", "util_min": 100, "memrun": { "type": "read", "size": 9, "count": 1 } } } },
            "b": { "suspend", "run": 5, "fork": "a", "iorun": 10 } }, "global": { "duration": 3 } }"#;
        let floor = |index: usize| (0..=index.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
        let (cut, at) = (floor(cut), floor(at));
        for text in [text[..cut].to_owned(), [&text[..at], &junk, &text[at..]].concat()] {
            for repeats in [Repeats::JsonC, Repeats::Workgen] {
                let options = CompileOptions { name: "w", machine: "", capacities: &[512, 1024] };
                match load("w.json", &text, ParseOptions { repeats, ..ParseOptions::default() }, &options) {
                    Ok(workload) => check_workload(&workload, 2),
                    Err(error) => {
                        let ModelError::Input { line, column, message, .. } = error else { panic!("{error}") };
                        prop_assert!(line >= 1);
                        prop_assert!(column >= 1);
                        prop_assert!(line as usize <= text.lines().count() + 1);
                        prop_assert!(!message.contains('\n'));
                    }
                }
            }
        }
    }
}
