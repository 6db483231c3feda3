//! A recovered workload as an rt-app file: JSON that rt-app and our own reader take.
//!
//! Times are us, as rt-app's; what is rounded off one event goes to the next. Activations in a row that are alike become one phase
//! with a loop count and their mean. A sleep of a fair task is shorter than recorded by the slack of its timer, which comes anew.
//! rt-app has no device: a request becomes a sleep of its length. A task that another one forks is a task of its own that `fork`
//! starts.

use opplab_model::rtapp::BIGGEST;
use opplab_model::tree::{Node, to_json};
use opplab_model::variation::TIMER_SLACK_NS;
use opplab_model::workload::{Op, SchedPolicy, TaskSpec, Workload};

/// One activation: what runs, and how it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Activation {
    /// From here on the task has this policy.
    policy: Option<SchedPolicy>,
    events: Vec<Event>,
    /// How many like it came in a row.
    count: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Event {
    Run(u64),
    Timer(u64),
    Sleep(u64),
    Post(u32),
    Wait(u32),
    Fork(u32),
}

impl Event {
    /// Its time in ns, if it has one.
    fn ns(&mut self) -> Option<&mut u64> {
        match self {
            Self::Run(ns) | Self::Timer(ns) | Self::Sleep(ns) => Some(ns),
            _ => None,
        }
    }

    fn is_alike(&self, other: &Self, tolerance_permille: u64) -> bool {
        match (self, other) {
            (Self::Run(a), Self::Run(b)) | (Self::Timer(a), Self::Timer(b)) | (Self::Sleep(a), Self::Sleep(b)) => {
                // They are whole us, whose last one is chance.
                let alike_ns = u128::from(*a.max(b)) * u128::from(tolerance_permille) / 1000;
                tolerance_permille > 0 && u128::from(a.abs_diff(*b)) <= alike_ns.max(1000)
            }
            (a, b) => a == b,
        }
    }
}

/// Writes `workload` as an rt-app file. Activations whose times differ by no more than `tolerance_permille` become loops.
/// `duration_s` is the file's duration.
///
/// `capacities` are those that readers of the file take (`opplab_model::experiment::capacities()`): work is us of the first of the
/// fastest CPUs at its highest clock, boosted where it boosts, and that CPU is the calibration: on another machine, its biggest.
pub fn to_rtapp(workload: &Workload, capacities: &[u32], duration_s: u64, tolerance_permille: u64) -> String {
    let fastest = capacities.iter().enumerate().rev().max_by_key(|&(_, &capacity)| capacity);
    let (calibration_cpu, capacity) = fastest.map_or((0, 1024), |(cpu, &capacity)| (cpu as u64, capacity));
    let names: Vec<String> = workload.tasks.iter().map(|task| file_name(&task.name)).collect();
    let tasks = workload.tasks.iter().zip(&names).map(|(task, name)| {
        let phases = merge(activations(task, capacity), tolerance_permille);
        let mut entries: Vec<(String, Option<Node>)> = vec![("loop".into(), Some(Node::from(1)))];
        if !task.initial {
            // Only `fork` starts it.
            entries.push(("instance".into(), Some(Node::from(0))));
        }
        if task.delay_ns >= 1000 {
            entries.push(("delay".into(), Some(Node::from(task.delay_ns / 1000))));
        }
        if let Some(set) = task.cpus {
            let cpus = workload.cpu_sets[set as usize].iter().map(|&cpu| Node::from(cpu));
            entries.push(("cpus".into(), Some(Node::list(cpus))));
        }
        if task.policy != SchedPolicy::default() {
            policy(task.policy, &mut entries);
        }
        let mut asked = task.ops.iter().filter_map(|op| match *op {
            Op::SetUclamp { min, max } => Some((min, max)),
            _ => None,
        });
        // rt-app sets the clamps of a task before its first event.
        if let Some((min, max)) = asked.next()
            && asked.all(|other| other == (min, max))
        {
            let clamps = [("util_min", min), ("util_max", max)];
            entries.extend(clamps.into_iter().filter_map(|(key, of)| Some((key.into(), Some(Node::from(of?))))));
        }
        let phases =
            phases.iter().enumerate().map(|(index, phase)| (format!("p{index}"), Some(phase_node(phase, &names))));
        entries.push(("phases".into(), Some(Node::table(phases))));
        (name.clone(), Some(Node::table(entries)))
    });
    let tasks = Node::table(tasks.collect::<Vec<_>>());
    let global = Node::table([
        ("duration", Some(Node::from(duration_s.max(1)))),
        ("calibration", Some(Node::str(format!("CPU{calibration_cpu}{BIGGEST}")))),
        ("default_policy", Some(Node::str("SCHED_OTHER"))),
        ("pi_enabled", Some(Node::bool(false))),
        ("lock_pages", Some(Node::bool(false))),
        ("logdir", Some(Node::str("./"))),
        ("log_basename", Some(Node::str("recovered"))),
        ("gnuplot", Some(Node::bool(false))),
    ]);
    let mut text = to_json(&Node::table([("tasks", Some(tasks)), ("global", Some(global))]));
    text.push('\n');
    text
}

/// A task's name as rt-app can use it in the name of a log file.
fn file_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect()
}

fn policy(policy: SchedPolicy, entries: &mut Vec<(String, Option<Node>)>) {
    let mut put = |key: &str, node: Node| entries.push((key.into(), Some(node)));
    match policy {
        SchedPolicy::Other { nice } => {
            put("policy", Node::str("SCHED_OTHER"));
            put("priority", Node::from(nice));
        }
        SchedPolicy::Batch { nice } => {
            put("policy", Node::str("SCHED_BATCH"));
            put("priority", Node::from(nice));
        }
        SchedPolicy::Idle => put("policy", Node::str("SCHED_IDLE")),
        SchedPolicy::Fifo { priority } => {
            put("policy", Node::str("SCHED_FIFO"));
            put("priority", Node::from(priority));
        }
        SchedPolicy::RoundRobin { priority } => {
            put("policy", Node::str("SCHED_RR"));
            put("priority", Node::from(priority));
        }
        SchedPolicy::Deadline { runtime_ns, deadline_ns, period_ns, reclaim } => {
            put("policy", Node::str("SCHED_DEADLINE"));
            put("dl-runtime", Node::from(runtime_ns / 1000));
            put("dl-period", Node::from(period_ns / 1000));
            put("dl-deadline", Node::from(deadline_ns / 1000));
            if reclaim {
                put("dl-reclaim", Node::from(true));
            }
        }
    }
}

/// The activations of a program; `capacity` is that of the CPU that its work is calibrated on.
fn activations(task: &TaskSpec, capacity: u32) -> Vec<Activation> {
    let mut all = Vec::new();
    let mut events: Vec<Event> = Vec::new();
    let mut policy = None;
    let mut is_fair = task.policy.is_fair();
    for op in &task.ops {
        let slack_ns = if is_fair { TIMER_SLACK_NS } else { 0 };
        let asleep = |ns: u64| Event::Sleep(ns.saturating_sub(slack_ns).max(1000));
        let (event, ends) = match *op {
            Op::SetPolicy { policy: new } => {
                if !events.is_empty() {
                    all.push(Activation { policy: policy.take(), events: std::mem::take(&mut events), count: 1 });
                }
                policy = Some(new);
                is_fair = new.is_fair();
                continue;
            }
            Op::Run { work_ns, .. } => {
                let ns = u128::from(work_ns) * 1024 / u128::from(capacity.max(1));
                (Event::Run(u64::try_from(ns).unwrap_or(u64::MAX)), false)
            }
            Op::SemPost { sem } => (Event::Post(sem), false),
            Op::Fork { task } => (Event::Fork(task), false),
            Op::SemWait { sem } => (Event::Wait(sem), true),
            Op::Timer { period_ns, .. } => (Event::Timer(period_ns), true),
            Op::Sleep { ns } => (asleep(ns), true),
            Op::Io { bytes, .. } => (asleep(u64::from(bytes / 1024) * 1000), true),
            _ => continue,
        };
        events.push(event);
        if ends {
            all.push(Activation { policy: policy.take(), events: std::mem::take(&mut events), count: 1 });
        }
    }
    if !events.is_empty() || all.is_empty() {
        all.push(Activation { policy, events, count: 1 });
    }
    round(&mut all);
    all
}

/// Rounds all times to us; what is rounded off goes to the next event of its kind.
fn round(all: &mut [Activation]) {
    let mut carry = [0_u64; 3];
    for event in all.iter_mut().flat_map(|activation| &mut activation.events) {
        let kind = match event {
            Event::Run(_) => 0,
            Event::Timer(_) => 1,
            _ => 2,
        };
        if let Some(ns) = event.ns() {
            let sum = *ns + carry[kind];
            (*ns, carry[kind]) = (sum / 1000 * 1000, sum % 1000);
        }
    }
}

/// Joins activations in a row that are alike to their first one; their times become means.
fn merge(all: Vec<Activation>, tolerance_permille: u64) -> Vec<Activation> {
    let mut merged: Vec<(Activation, Vec<u64>)> = Vec::new();
    for mut activation in all {
        let times: Vec<u64> = activation.events.iter_mut().filter_map(|event| event.ns().copied()).collect();
        if let Some((last, sums)) = merged.last_mut()
            && activation.policy.is_none()
            && last.events.len() == activation.events.len()
            && last.events.iter().zip(&activation.events).all(|(a, b)| a.is_alike(b, tolerance_permille))
        {
            last.count += 1;
            sums.iter_mut().zip(&times).for_each(|(sum, time)| *sum += time);
        } else {
            merged.push((activation, times));
        }
    }
    merged
        .into_iter()
        .map(|(mut activation, sums)| {
            let count = u64::from(activation.count);
            for (ns, sum) in activation.events.iter_mut().filter_map(Event::ns).zip(sums) {
                *ns = sum / count;
            }
            activation
        })
        .collect()
}

fn phase_node(phase: &Activation, names: &[String]) -> Node {
    let mut entries: Vec<(String, Option<Node>)> = vec![("loop".into(), Some(Node::from(phase.count)))];
    if let Some(changed) = phase.policy {
        policy(changed, &mut entries);
    }
    for (nth, event) in phase.events.iter().enumerate() {
        let (key, node) = match event {
            Event::Run(ns) => ("run", Node::from(ns / 1000)),
            Event::Sleep(ns) => ("sleep", Node::from(ns / 1000)),
            Event::Timer(ns) => {
                let timer = [
                    ("ref", Some(Node::str("unique"))),
                    ("period", Some(Node::from(ns / 1000))),
                    ("mode", Some(Node::str("absolute"))),
                ];
                ("timer", Node::table(timer))
            }
            Event::Post(sem) => ("sem_post", Node::str(format!("s{sem}"))),
            Event::Wait(sem) => ("sem_wait", Node::str(format!("s{sem}"))),
            Event::Fork(task) => ("fork", Node::str(names.get(*task as usize).map_or("", String::as_str))),
        };
        entries.push((format!("{key}{nth}"), Some(node)));
    }
    Node::table(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use opplab_model::rtapp::{CompileOptions, ParseOptions, load};

    fn workload() -> Workload {
        let mut ops = Vec::new();
        for _ in 0..5 {
            ops.push(Op::Run { work_ns: 800_400, fixed: 0 });
            ops.push(Op::Timer { timer: 0, period_ns: 16_000_000, absolute: true, own: true });
        }
        ops.extend([Op::Run { work_ns: 5_000_000, fixed: 0 }, Op::SemPost { sem: 1 }, Op::Exit]);
        let first = TaskSpec {
            name: "a/0".into(),
            initial: true,
            delay_ns: 7_000,
            ops,
            nr_own_timers: 1,
            ..TaskSpec::default()
        };
        let ops = vec![Op::SemWait { sem: 1 }, Op::Run { work_ns: 1_000_000, fixed: 0 }, Op::Exit];
        let second = TaskSpec { name: "b".into(), initial: true, ops, ..TaskSpec::default() };
        Workload { tasks: vec![first, second], semaphores: vec![0, 0], ..Workload::default() }
    }

    #[test]
    fn our_reader_takes_what_is_written() {
        let text = to_rtapp(&workload(), &[1024, 1024], 2, 50);
        let options = CompileOptions { name: "back", machine: "", capacities: &[1024, 1024] };
        let back = load("out.json", &text, ParseOptions::default(), &options).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(back.tasks.len(), 2);
        assert_eq!(back.tasks[0].delay_ns, 7_000);
        let ops = &back.tasks[0].ops;
        assert!(ops.contains(&Op::LoopBegin { slot: 1, count: Some(5) }), "{ops:?}");
        assert!(ops.contains(&Op::Run { work_ns: 800_000, fixed: 0 }), "{ops:?}");
        assert!(ops.contains(&Op::Timer { timer: 0, period_ns: 16_000_000, absolute: true, own: true }), "{ops:?}");
        assert!(matches!(back.tasks[1].ops[..], [Op::SemWait { .. }, ..]), "{:?}", back.tasks[1].ops);
        assert_eq!(back.duration_ns, Some(2_000_000_000));
    }

    /// Goal: work that is written is the work that is read, on any machine. Method: capacities of boosted and of small CPUs, and the
    /// same file on a machine whose CPU of that number is small.
    #[test]
    fn work_comes_back_where_cpus_boost() {
        for capacities in [vec![1024], vec![1327, 1327], vec![512, 1024, 2292], vec![446]] {
            let text = to_rtapp(&workload(), &capacities, 2, 50);
            let options = CompileOptions { name: "back", machine: "", capacities: &capacities };
            let back =
                load("out.json", &text, ParseOptions::default(), &options).unwrap_or_else(|error| panic!("{error}"));
            let work = back.tasks[1]
                .ops
                .iter()
                .filter_map(|op| if let Op::Run { work_ns, .. } = op { Some(*work_ns) } else { None });
            // The reader adds what a loop itself takes.
            let off_ns = work.max().unwrap_or_default().abs_diff(1_000_000);
            assert!(off_ns <= 3000, "{capacities:?}: {off_ns} ns");
            let most = u64::from(*capacities.iter().max().unwrap_or(&1024));
            let other = CompileOptions { name: "other", machine: "", capacities: &[160, 160, 160, 1024] };
            let there =
                load("out.json", &text, ParseOptions::default(), &other).unwrap_or_else(|error| panic!("{error}"));
            let work = there.tasks[1].ops.iter().filter_map(|op| match op {
                Op::Run { work_ns, .. } => Some(*work_ns),
                _ => None,
            });
            let off_ns = work.max().unwrap_or_default().abs_diff(1_000_000 * 1024 / most);
            assert!(off_ns <= 3000, "{capacities:?} on another machine: {off_ns} ns");
        }
    }

    /// rt-app sleeps as long again as the recorded task: the slack of its timer is not in the file. Real-time tasks have none.
    #[test]
    fn slack_is_left_out_of_sleeps() {
        let ops = vec![Op::Run { work_ns: 1_000_000, fixed: 0 }, Op::Sleep { ns: 1_050_000 }, Op::Exit];
        let task =
            |policy| TaskSpec { name: "a".into(), initial: true, ops: ops.clone(), policy, ..TaskSpec::default() };
        let tasks = vec![task(SchedPolicy::Idle), task(SchedPolicy::Fifo { priority: 1 })];
        let text = to_rtapp(&Workload { tasks, ..Workload::default() }, &[1024], 2, 50);
        assert!(text.contains("\"sleep1\":1000}") && text.contains("\"sleep1\":1050}"), "{text}");
    }

    /// A recorded post takes 0 or 1 us, by what is rounded: that is one phase.
    #[test]
    fn the_last_microsecond_parts_nothing() {
        let mut ops = Vec::new();
        for posts_ns in [400, 700, 900, 400, 300] {
            let posts = [Op::Run { work_ns: 500_000, fixed: 0 }, Op::SemPost { sem: 0 }];
            ops.extend(posts.into_iter().chain([Op::Run { work_ns: posts_ns, fixed: 0 }, Op::SemWait { sem: 1 }]));
        }
        let task = TaskSpec { name: "a".into(), initial: true, ops, ..TaskSpec::default() };
        let workload = Workload { tasks: vec![task], semaphores: vec![0, 0], ..Workload::default() };
        let phases = |tolerance| to_rtapp(&workload, &[1024], 2, tolerance).matches("\"run0\"").count();
        assert_eq!((phases(50), phases(0) > 1), (1, true));
    }

    #[test]
    fn what_is_not_alike_is_not_joined() {
        let mut other = workload();
        other.tasks[0].ops[2] = Op::Run { work_ns: 1_600_000, fixed: 0 };
        let runs = |text: &str| text.matches("\"run0\"").count();
        assert_eq!(runs(&to_rtapp(&workload(), &[1024, 1024], 2, 50)), 3);
        assert_eq!(runs(&to_rtapp(&other, &[1024], 2, 50)), 5);
    }
}
