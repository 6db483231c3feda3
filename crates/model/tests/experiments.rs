//! Experiments expand to the cases of their matrix; cases are canonical, complete and named by their hash.

use std::collections::BTreeMap;
use std::path::PathBuf;

use opplab_model::benchmark::background::{Background, BackgroundTask, moved_off_offline};
use opplab_model::case::{CaseFile, hash_text};
use opplab_model::error::Pos;
use opplab_model::experiment::{Experiment, SourceText, parse_duration, parse_experiment, parse_policy};
use opplab_model::start::{Start, Wakes};
use opplab_model::workload::{Op, TaskSpec, Workload};
use proptest::prelude::*;

fn data(name: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../python/opplab/data", name].iter().collect();
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn machines() -> BTreeMap<String, SourceText> {
    let file = "machines/juno-r2.toml";
    BTreeMap::from([("juno-r2".to_owned(), SourceText { file: file.to_owned(), text: data(file) })])
}

fn juno_eas() -> Experiment {
    parse_experiment("juno-eas.toml", &data("experiments/juno-eas.toml")).unwrap_or_else(|error| panic!("{error}"))
}

fn cases(experiment: &Experiment) -> Vec<CaseFile> {
    experiment.expand(&machines(), &BTreeMap::new()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn juno_eas_is_the_matrix_of_the_text() {
    let experiment = juno_eas();
    assert_eq!(experiment.labels, ["no-EAS", "EAS", "CPPC-no-EAS", "CPPC-EAS"]);
    assert_eq!(experiment.machines().collect::<Vec<_>>(), ["juno-r2"]);
    let cases = cases(&experiment);
    assert_eq!(cases.len(), (5 + 4) * 4 * 20);
    // Every published energy of the board has its cases, found by table, parameter and variant.
    let published = data(&format!("published/{}.csv", experiment.published));
    let mut cells = 0;
    for row in published.lines().skip(1) {
        let columns: Vec<&str> = row.split(',').collect();
        if columns[1].starts_with("juno-energy-") {
            let matching = cases.iter().filter(|case| {
                (case.benchmark.as_str(), case.param.as_str(), case.policy.label.as_str())
                    == (columns[1], columns[8], columns[9])
            });
            assert_eq!(matching.count(), 20, "{row}");
            cells += 1;
        }
    }
    assert_eq!(cells, 36);
    let hashes: std::collections::BTreeSet<String> = cases.iter().map(|case| hash_text(&case.to_json())).collect();
    assert_eq!(hashes.len(), cases.len());
}

/// Goal: the background is the last tasks of every case, as often on each CPU as recorded, in cycles, and starts by the seed.
/// Method: two threads on two recorded CPUs, a Juno of six.
#[test]
fn a_background_runs_beside_the_workload() {
    let mut experiment = juno_eas();
    let plain = cases(&experiment);
    let task = |name: &str, cpu| BackgroundTask {
        name: name.to_owned(),
        cpu,
        wait_ns: vec![50_000_000, 150_000_000],
        cycles: vec![1_100, 2_200],
    };
    experiment.beside = Background { nr_cpus: 2, tasks: vec![task("kworker/1", Some(1)), task("cron", None)] };
    let beside = cases(&experiment);
    assert_eq!(plain.len(), beside.len());
    for (plain, beside) in plain.iter().zip(&beside) {
        let own = plain.workload.tasks.len();
        let all = &beside.workload;
        assert_eq!(all.tasks[..own], plain.workload.tasks);
        assert_eq!((all.tasks.len() - own, all.nr_background), (6, 6));
        let cpus = |task: &TaskSpec| task.cpus.map(|set| all.cpu_sets[set as usize].clone());
        let found: Vec<_> = all.tasks[own..].iter().map(cpus).collect();
        assert_eq!(found, [Some(vec![1]), Some(vec![2]), Some(vec![3]), Some(vec![4]), Some(vec![5]), None]);
        let reference = u64::from(beside.machine.reference_khz());
        assert_eq!(all.draws[all.draws.len() - 1], [1_100_000_000 / reference, 2_200_000_000 / reference]);
        assert!(all.tasks[own..].iter().all(|task| task.delay_ns < 100_000_000));
        assert_eq!(CaseFile::from_json("case", &beside.to_json()).as_ref(), Ok(beside));
    }
    let rest = moved_off_offline(&beside[0].workload, &beside[0].machine, |cpu| cpu != 3).expect("one is off");
    let sets = |workload: &Workload| workload.cpu_sets[workload.cpu_sets.len() - 3..].to_vec();
    assert_eq!(sets(&rest), [vec![0, 1, 2, 4, 5], vec![4], vec![5]]);
    assert_eq!(moved_off_offline(&beside[0].workload, &beside[0].machine, |_| true), None);
    assert_ne!(beside[0].workload.tasks.last(), beside[1].workload.tasks.last(), "two seeds");
}

/// Goal: an experiment that is too large says so before it takes the machine's memory. Method: iterations that nobody can
/// run, of few and of many tasks, from the file and from the command line.
#[test]
fn an_experiment_that_is_too_large_is_refused() {
    let text = data("experiments/juno-hackbench.toml");
    let told = |text: &str, iterations: Option<u32>| {
        let mut experiment = parse_experiment("x.toml", text).expect("whole");
        experiment.adjust(iterations, None, None);
        experiment.expand(&machines(), &BTreeMap::new()).map(|cases| cases.len()).map_err(|error| error.to_string())
    };
    assert_eq!(told(&text, None), Ok(2 * (40 + 3 * 2)));
    let many = text.replace("iterations = 2\n", "iterations = 100000\n");
    assert_ne!(many, text);
    let message = told(&many, None).expect_err("60 GB");
    assert!(
        message.starts_with("failed to read x.toml:14:14: the programs of its 600080 cases take more than 512 MiB"),
        "{message}"
    );
    let message = told(&text, Some(4_000_000_000)).expect_err("too many");
    assert!(message.contains("32000000000 cases; at most 1000000 are expanded"), "{message}");
}

/// Goal: `runs` is a workload's own number of iterations, with the seeds that others have, too; who asks for another number
/// than the file's gets it for all. Method: cases counted by hand.
#[test]
fn a_workload_may_have_iterations_of_its_own() {
    let mut experiment = parse_experiment("x.toml", &data("experiments/juno-hackbench.toml")).expect("whole");
    let seeds = |experiment: &Experiment, groups: &str| -> Vec<u64> {
        let is_one = |case: &CaseFile| case.param == groups && case.policy.label == "CPPC-EAS";
        cases(experiment).into_iter().filter(is_one).map(|case| case.seed).collect()
    };
    assert_eq!(seeds(&experiment, "groups=1"), (1..=40).collect::<Vec<_>>());
    assert_eq!(seeds(&experiment, "groups=8"), [1, 2]);
    experiment.adjust(Some(2), Some(7), None);
    assert_eq!(seeds(&experiment, "groups=1"), (7..=46).collect::<Vec<_>>());
    experiment.adjust(Some(3), None, None);
    assert_eq!(seeds(&experiment, "groups=1"), [7, 8, 9]);
    assert_eq!(seeds(&experiment, "groups=8"), [7, 8, 9]);
    let none = data("experiments/juno-hackbench.toml").replace("runs = 40 ", "runs = 0 ");
    let message = parse_experiment("x.toml", &none).map(|_| ()).expect_err("none").to_string();
    assert!(message.contains("`runs`"), "{message}");
}

#[test]
fn policies_share_their_workloads_and_iterations_differ() {
    let cases = cases(&juno_eas());
    let of = |label: &str, iteration: u32| {
        let found = cases
            .iter()
            .find(|case| case.policy.label == label && case.iteration == iteration && case.param == "tasks=30");
        found.expect("it is in the matrix")
    };
    let first = of("no-EAS", 0);
    assert_eq!(first.workload, of("CPPC-EAS", 0).workload);
    assert_eq!(first.seed, of("CPPC-EAS", 0).seed);
    assert_ne!(first.workload, of("no-EAS", 1).workload);
    assert_eq!(first.workload.tasks.len(), 30);
    let task = &first.workload.tasks[1];
    assert_eq!(task.spawn_cpu, Some(2));
    assert_eq!(task.ops[1], Op::Run { work_ns: 800_000, fixed: 0 });
    assert!(first.workload.tasks.iter().all(|task| task.delay_ns < 16_000_000));
    // One more task does not move the others.
    let twenty = cases.iter().find(|case| case.param == "tasks=20").expect("it is in the matrix");
    assert_eq!(twenty.workload.tasks[..], first.workload.tasks[..20]);
    // The heterogeneous set takes its duties one after the other.
    let mixed = cases.iter().find(|case| case.benchmark == "juno-energy-heterogeneous").expect("it is in the matrix");
    let work: Vec<u64> = mixed.workload.tasks.iter().map(|task| task.phases[0].run_ns).collect();
    assert_eq!(work, [800_000, 1_600_000, 2_400_000]);
}

#[test]
fn cases_survive_the_trip_as_json() {
    // Those of hackbench have a metric with marks.
    let hackbench = data("experiments/juno-hackbench.toml");
    let hackbench = parse_experiment("juno-hackbench.toml", &hackbench).unwrap_or_else(|error| panic!("{error}"));
    for case in cases(&juno_eas()).iter().step_by(17).chain(cases(&hackbench).first()) {
        let text = case.to_json();
        let back = CaseFile::from_json("case.json", &text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(*case, back);
        assert_eq!(back.to_json(), text);
        assert_eq!(hash_text(&text).len(), 32);
    }
}

#[test]
fn every_kind_of_step_survives_the_trip() {
    let mut case = cases(&juno_eas()).swap_remove(0);
    let text = r#"{ "tasks": {
        "a": { "instance": 2, "delay": 5, "cpus": [1, 0], "priority": -5, "phases": {
            "p": { "loop": 3, "run": 1000, "runtime": 5, "mem": 100, "timer": { "ref": "x", "period": 16000, "mode": "absolute" } },
            "q": { "cpus": [2], "util_min": 100, "policy": "SCHED_DEADLINE", "dl-runtime": 5, "dl-period": 9, "sleep": 7 } } },
        "b": { "policy": "SCHED_RR", "lock": "m", "sync": { "ref": "c", "mutex": "m" }, "unlock": "m", "resume": "c", "yield": "",
               "broadcast": "c", "sem_post": "s", "sem_wait": "s", "barrier": "x", "fork": "a", "timer": { "ref": "unique" } }
    }, "global": { "duration": 2, "cumulative_slack": true } }"#;
    let options = opplab_model::rtapp::CompileOptions { name: "w", machine: "", capacities: &[1024; 6] };
    let mut workload = opplab_model::rtapp::load("w.json", text, Default::default(), &options)
        .unwrap_or_else(|error| panic!("{error}"));
    workload.channels.push(opplab_model::workload::ChannelSpec { capacity_bytes: 65536, sync_wakeup: true });
    workload.devices.push(opplab_model::workload::DeviceSpec {
        service_ns: 100,
        per_kib_ns: 3,
        bus_per_kib_ns: 0,
        queue_depth: 32,
        irq_cpu: None,
        irq_ns: 7,
        rq_affinity: true,
    });
    let more = [
        Op::Suspend { cond: 0 },
        Op::Resume { cond: 0 },
        Op::WaitChild,
        Op::SetCpus { set: None },
        Op::Send { channel: 0, bytes: 10 },
        Op::Recv { channel: 0 },
        Op::Io { device: 0, bytes: 4096 },
        Op::Count,
    ];
    workload.tasks[0].ops.splice(0..0, more);
    for op in &mut workload.tasks[0].ops {
        if let Op::LoopEnd { begin, .. } = op {
            *begin += more.len() as u32;
        }
    }
    workload.check(6).unwrap_or_else(|why| panic!("{why}"));
    case.workload = workload.into();
    case.policy.tunables.push(("rate_limit_us".to_owned(), "1000".to_owned()));
    case.policy.sugov_cpus = vec![0, 3];
    assert!(!case.to_json().contains("\"start\""), "cases of experiments keep their names");
    case.start = Start {
        khz: vec![450_000, 1_100_000],
        blocked: vec![(100, 200), (0, 7)],
        wheel: vec![(5_000_000_000, 3)],
        wakes: Wakes {
            kernel_ns: [vec![1], vec![2, 3]],
            user_ns: [vec![], vec![4]],
            preempt_ns: vec![5],
            by_op_ns: vec![vec![], vec![0, 6]],
            kernel_tasks: vec![false, true],
        },
        tick_late_ns: vec![7, 8],
        takes_turns: true,
    };
    let back = CaseFile::from_json("case.json", &case.to_json()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(case, back);
}

const SMALL: &str = r#"format = 1
name = "small"
machine = "juno-r2"
baseline = "a"
duration = "2s"
[defaults]
kernel = "5.18"
[[policy]]
label = "a"
tunables = { rate_limit_us = 500 }
[[policy]]
label = "b"
driver = "cppc_cpufreq"
[[workload]]
benchmark = "periodic"
tasks = [2, 4]
duty = [[50], [50, 100]]
[[workload]]
rtapp = "w.json"
"#;

fn small_files() -> BTreeMap<String, SourceText> {
    let text = r#"{ "tasks": { "t": { "run": 1000, "sleep": 1000, "cpus": [1] } }, "global": { "duration": 6 } }"#;
    BTreeMap::from([("w.json".to_owned(), SourceText { file: "dir/w.json".to_owned(), text: text.to_owned() })])
}

#[test]
fn a_change_of_the_defaults_leaves_each_policy_what_it_does_not_set() {
    let text = SMALL
        .replace("kernel = \"5.18\"\n", "changes = [{ at_ms = 1000, scaling_max_freq = 800000 }]\n")
        .replace("label = \"a\"\ntunables = { rate_limit_us = 500 }", "label = \"a\"\ngovernor = \"performance\"")
        .replace("label = \"b\"", "label = \"b\"\nchanges = [{ at_ms = 7, governor = \"powersave\" }]");
    let experiment = parse_experiment("e.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let cases = experiment.expand(&machines(), &small_files()).unwrap_or_else(|error| panic!("{error}"));
    let changes: Vec<_> = cases[..2]
        .iter()
        .map(|case| case.policy.changes.iter().map(|one| (one.at_ms, &*one.policy.governor)).collect::<Vec<_>>())
        .collect();
    assert_eq!(changes, [vec![(1000, "performance")], vec![(7, "powersave")]]);
}

#[test]
fn axes_are_lists_and_defaults_are_shared() {
    let experiment = parse_experiment("e.toml", SMALL).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(experiment.rtapp_files().collect::<Vec<_>>(), ["w.json"]);
    let cases = experiment.expand(&machines(), &small_files()).unwrap_or_else(|error| panic!("{error}"));
    let labels: Vec<String> =
        cases.iter().map(|case| format!("{} {} {}", case.benchmark, case.param, case.policy.label)).collect();
    assert_eq!(
        labels,
        [
            "periodic tasks=2 duty=50 a",
            "periodic tasks=2 duty=50 b",
            "periodic tasks=2 duty=50|100 a",
            "periodic tasks=2 duty=50|100 b",
            "periodic tasks=4 duty=50 a",
            "periodic tasks=4 duty=50 b",
            "periodic tasks=4 duty=50|100 a",
            "periodic tasks=4 duty=50|100 b",
            "w  a",
            "w  b",
        ]
    );
    assert!(cases.iter().all(|case| case.policy.kernel == "5.18"));
    assert_eq!(cases[0].policy.tunables, [("rate_limit_us".to_owned(), "500".to_owned())]);
    assert!(cases.iter().all(|case| case.duration_ns == 2_000_000_000));
    let own = SMALL.replacen("duration = \"2s\"\n", "", 1).replacen("duty = [", "duration = \"1s\"\nduty = [", 1);
    let cases = parse_experiment("e.toml", &own)
        .and_then(|experiment| experiment.expand(&machines(), &small_files()))
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(cases[0].duration_ns, 1_000_000_000);
    assert_eq!(cases[9].duration_ns, 6_000_000_000);
}

#[test]
fn errors_name_the_place_and_the_nearest_name() {
    let check = |old: &str, new: &str, expected: &str| {
        assert!(SMALL.contains(old), "{old}");
        let text = SMALL.replacen(old, new, 1);
        let error = parse_experiment("e.toml", &text)
            .and_then(|experiment| experiment.expand(&machines(), &small_files()))
            .expect_err(expected);
        assert_eq!(error.to_string(), format!("failed to read {expected}"));
    };
    check("\"juno-r2\"", "\"juno-r3\"", "e.toml:3:11: unknown machine `juno-r3`; did you mean `juno-r2`?");
    check("baseline = \"a\"", "baseline = \"c\"", "e.toml:4:12: unknown policy `c`; did you mean `a`?");
    for (given, whole) in [("0.2s", "200ms"), ("1.5min", "90s"), (".25 ms", "250us")] {
        let words =
            format!("e.toml:5:12: `{given}` is no duration: fractions are not accepted: write it like `{whole}`");
        check("\"2s\"", &format!("\"{given}\""), &words);
    }
    check("\"2s\"", "\"2sec\"", "e.toml:5:12: `2sec` is no duration: write it like `10s` or `250ms`");
    check("\"2s\"", "\"0s\"", "e.toml:5:12: `0s` is no duration: it must be longer than nothing");
    check("kernel =", "kernal =", "e.toml:7:1: unknown key `kernal`; did you mean `kernel`?");
    check("label = \"b\"", "label = \"a\"", "e.toml:11:1: two policies are called `a`");
    check("label = \"b\"\n", "", "e.toml:11:1: `label` is missing");
    check(
        "label = \"b\"",
        "label = \"b\"\ngovernor = \"schedutl\"",
        "e.toml:13:12: unknown governor `schedutl`; did you mean `schedutil`?",
    );
    check("label = \"b\"", "label = \"b\"\nhz = 42", "e.toml:13:6: `hz` must be 100, 250, 300 or 1000, not 42");
    check(
        "label = \"b\"",
        "label = \"b\"\nenergy_model = \"artifical\"",
        "e.toml:13:16: unknown energy_model `artifical`; did you mean `artificial`?",
    );
    check(
        "label = \"b\"",
        "label = \"b\"\nsugov_cpus = \"6\"",
        "e.toml:14:10: `sugov_cpus`: CPU 6 does not exist: machine juno-r2 has 6 CPUs",
    );
    check(
        "\"cppc_cpufreq\"",
        "\"cppc\"",
        "e.toml:13:10: unknown driver `cppc` (known: acpi-cpufreq, amd-pstate-epp, amd-pstate, amd-pstate-guided, cppc_cpufreq, cpufreq-dt, exynos-acme, qcom-cpufreq-hw, scmi, scpi, intel_pstate, intel_cpufreq)",
    );
    check(
        "\"cppc_cpufreq\"",
        "\"intel_pstate\"",
        "e.toml:13:10: unknown driver of machine juno-r2 `intel_pstate` (known: scmi, cppc_cpufreq)",
    );
    check("\"5.18\"", "\"5.1x\"", "e.toml:7:10: unknown kernel profile `5.1x`; did you mean `5.0`?");
    check(
        "label = \"b\"",
        "label = \"b\"\ngates = { feec_margn = \"none\" }",
        "e.toml:13:11: unknown gate `feec_margn`; did you mean `feec_margin`?",
    );
    check(
        "label = \"b\"",
        "label = \"b\"\ngates = { feec_margin = \"non\" }",
        "e.toml:13:25: unknown value of gate feec_margin `non`; did you mean `none`?",
    );
    check(
        "label = \"b\"",
        "label = \"b\"\nfreq_max = \"max_p\"",
        "e.toml:13:12: unknown freq_max `max_p`; did you mean `max_P`?",
    );
    check("\"periodic\"", "\"periodc\"", "e.toml:15:13: unknown benchmark `periodc`; did you mean `periodic`?");
    check("tasks = [2, 4]", "task = [2, 4]", "e.toml:16:1: unknown key `task`; did you mean `tasks`?");
    check("tasks = [2, 4]\n", "", "e.toml:14:1: `tasks` (number of tasks) is missing");
    check("tasks = [2, 4]", "tasks = [2, 0]", "e.toml:16:13: `tasks` must be at least 1, not 0");
    check("[[50], [50, 100]]", "[2000]", "e.toml:17:9: `duty` must be at most 1000, not 2000");
    check("rtapp = \"w.json\"", "rtapp = \"v.json\"", "e.toml:19:9: there is no file `v.json`");
    check("rtapp = \"w.json\"", "label = \"x\"", "e.toml:18:1: the workload has neither `benchmark` nor `rtapp`");
    check(
        "tasks = [2, 4]",
        "tasks = 2\nspawn = \"biggest\"",
        "e.toml:17:9: unknown spawn `biggest` (known: biggest-cpus-alternating, first-cpu)",
    );
    let error = parse_policy("--policy", "governor = 1\n").expect_err("a number is no governor");
    assert_eq!(error.to_string(), "failed to read --policy:1:12: `governor` must be a string, not a whole number");
    assert_eq!(parse_duration("250 ms", Pos::default()), Ok(250_000_000));
}

#[test]
fn wrong_cases_are_refused() {
    let text = cases(&juno_eas())[0].to_json();
    let check = |old: &str, new: &str, expected: &str| {
        assert!(text.contains(old), "{old}");
        let error = CaseFile::from_json("c.json", &text.replacen(old, new, 1)).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    };
    check("[\"run\",", "[\"runn\",", "unknown op `runn`; did you mean `run`?");
    check("[\"exit\"]", "[\"yield\"]", "the program does not end in an exit");
    check("[\"exit\"]", "[\"exit\",1]", "`exit` has a value too many");
    check("[\"loop_end\",0,0]", "[\"loop_end\",0,1]", "closes a loop that is not the innermost");
    check("\"spawn_cpu\":1", "\"spawn_cpu\":6", "spawn CPU 6 of 6");
    check("\"seed\":1", "\"seed\":-1", "`seed` must be at least 0, not -1");
    check("\"format\":1", "\"format\":2", "`format` is 2; this version reads 1");
}

proptest! {
    /// Cut and mangled experiments and cases are read or refused, and never panic.
    #[test]
    fn mangled_files_do_not_panic(cut in 0usize..6000, at in 0usize..6000, junk in "\\PC{0,5}|[\\[\\]{}\":=,.0-9-]{1,5}") {
        let case = cases(&juno_eas())[0].to_json();
        for text in [SMALL, case.as_str()] {
            let floor = |index: usize| (0..=index % (text.len() + 1)).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
            let (cut, at) = (floor(cut), floor(at));
            for text in [text[..cut].to_owned(), [&text[..at], &junk, &text[at..]].concat()] {
                if let Ok(experiment) = parse_experiment("e.toml", &text) {
                    drop(experiment.expand(&machines(), &small_files()));
                }
                drop(CaseFile::from_json("c.json", &text));
            }
        }
    }
}

#[test]
fn until_is_a_share_in_percent() {
    let text = data("experiments/juno-eas.toml");
    assert_eq!(juno_eas().until, None);
    let with = |until: &str| {
        let text = text.replace("baseline =", &format!("until = {until}\nbaseline ="));
        parse_experiment("juno-eas.toml", &text)
    };
    let until = with("{ ci = \"0.25%\" }").unwrap().until.unwrap();
    assert_eq!((until.ci_ppm, until.metric.as_str(), until.min), (2500, "energy", 5));
    let until = with("{ ci = \"100 %\", metric = \"rate\", min = 5 }").unwrap().until.unwrap();
    assert_eq!((until.ci_ppm, until.metric.as_str(), until.min), (1_000_000, "rate", 5));
    let line = text.lines().position(|line| line.starts_with("baseline =")).unwrap() + 1;
    for wrong in ["1", "0%", "100.1%", "%", ".5%", "-1%", "1e1%", "0.00001%", "\u{0661}%"] {
        let message = with(&format!("{{ ci = \"{wrong}\" }}")).unwrap_err().to_string();
        assert!(
            message.contains(&format!("juno-eas.toml:{line}:16: ")) && message.contains("is no share"),
            "{message}"
        );
    }
    assert!(with("{ cii = \"1%\" }").unwrap_err().to_string().contains("did you mean `ci`"));
    assert!(with("{ metric = \"energy\" }").unwrap_err().to_string().contains("`ci` is missing"));
}

#[test]
fn compare_names_workloads_and_policies_that_exist() {
    let experiment = juno_eas();
    assert_eq!(experiment.compare.len(), 2);
    assert_eq!(experiment.compare[0].simulated, ["energy"]);
    assert_eq!(experiment.quick[0], ("juno-energy-homogeneous".to_owned(), String::new()));
    let text = data("experiments/juno-eas.toml");
    let with = |from: &str, to: &str| parse_experiment("juno-eas.toml", &text.replacen(from, to, 1));
    let wrong = |from: &str, to: &str| with(from, to).unwrap_err().to_string();
    let message = wrong("workload = \"juno-energy-homogeneous\"", "workload = \"juno-energy-homogenous\"");
    assert!(message.contains("did you mean `juno-energy-homogeneous`"), "{message}");
    let message = wrong("simulated = \"energy\"", "simulated = []");
    assert!(message.contains("`simulated` is an empty list"), "{message}");
    let message = wrong("simulated = \"energy\"", "simulated = \"energy\"\nvariants = { EAZ = \"EAS\" }");
    assert!(message.contains("juno-eas.toml:") && message.contains("did you mean `EAS`"), "{message}");
    let named = with("simulated = \"energy\"", "simulated = [\"energy\", \"energy:rest\"]\nvariants = { EAS = \"x\" }");
    let named = &named.unwrap().compare[0];
    assert_eq!(named.variants, [("EAS".to_owned(), "x".to_owned())]);
    assert_eq!(named.simulated.len(), 2);
}
