//! Misfit migration (LISA misfit.py, StaggeredFinishes): one busy task a CPU; they end one after the other, and the
//! tasks of the smallest CPUs have to move up as bigger CPUs become free.

use std::collections::BTreeMap;

use opplab_model::event::{Event, IDLE_TASK, Sink, TaskState};
use opplab_model::machine::Machine;
use opplab_model::policy::Policy;
use opplab_model::workload::{Op, SchedPolicy, TaskSpec, Workload};
use opplab_sim::{Case, run};

use crate::eas_cases::faithful;
use crate::eas_cases::machines::{classes, first_task, machines};

/// Each task of the case is pinned and idle until then, in ns.
const START_NS: u64 = 1_000_000_000;

/// How long bigger CPUs idled while a task was on one of the smallest, and how long tasks waited for a CPU.
#[derive(Debug)]
struct Misfit {
    capacity: Vec<u32>,
    least: u32,
    first_task: u32,
    nr_tasks: u32,
    running: Vec<Option<u32>>,
    idle_since_ns: Vec<Option<u64>>,
    longest_idle_ns: u64,
    waits_since_ns: BTreeMap<u32, u64>,
    waited_ns: BTreeMap<u32, u64>,
    started_ns: u64,
    ended_ns: u64,
}

impl Misfit {
    fn new(machine: &Machine, nr_tasks: u32) -> Self {
        let nr = machine.nr_cpus();
        Self {
            capacity: (0..nr as u32).map(|cpu| machine.cluster_of(cpu).capacity).collect(),
            least: classes(machine)[0],
            first_task: first_task(machine, &faithful().governor),
            nr_tasks,
            running: vec![None; nr],
            idle_since_ns: vec![None; nr],
            longest_idle_ns: 0,
            waits_since_ns: BTreeMap::new(),
            waited_ns: BTreeMap::new(),
            started_ns: 0,
            ended_ns: 0,
        }
    }

    fn ours(&self, task: u32) -> bool {
        task != IDLE_TASK && task >= self.first_task && task < self.first_task + self.nr_tasks
    }

    /// Idle times count while one of the smallest CPUs runs a task of ours.
    fn look(&mut self, now_ns: u64) {
        let some_small = (0..self.running.len())
            .any(|cpu| self.capacity[cpu] == self.least && self.running[cpu].is_some_and(|task| self.ours(task)));
        for cpu in 0..self.running.len() {
            let counts = some_small && self.capacity[cpu] > self.least && self.running[cpu].is_none();
            match (counts, self.idle_since_ns[cpu]) {
                (true, None) => self.idle_since_ns[cpu] = Some(now_ns),
                (false, Some(since)) => {
                    self.longest_idle_ns = self.longest_idle_ns.max(now_ns - since);
                    self.idle_since_ns[cpu] = None;
                }
                _ => {}
            }
        }
    }
}

impl Sink for Misfit {
    fn event(&mut self, now_ns: u64, event: &Event) {
        // The tasks have run once, pinned, by then.
        if now_ns < START_NS + 5_000_000 {
            if let Event::SchedSwitch { cpu, next, .. } = *event {
                self.running[cpu as usize] = (next != IDLE_TASK).then_some(next);
            }
            self.started_ns = now_ns;
            return;
        }
        let Event::SchedSwitch { cpu, prev, prev_state, next } = *event else { return };
        if self.ours(prev) && prev_state == TaskState::Running {
            self.waits_since_ns.insert(prev, now_ns);
        }
        if prev_state == TaskState::Dead && self.ours(prev) {
            self.ended_ns = now_ns;
        }
        if let Some(since) = self.waits_since_ns.remove(&next) {
            *self.waited_ns.entry(next).or_default() += now_ns - since;
        }
        self.running[cpu as usize] = (next != IDLE_TASK).then_some(next);
        self.look(now_ns);
    }
}

/// Goal: no bigger CPU idles for longer than a balance interval while a task is stuck on one of the smallest, and misfit
/// tasks do not preempt each other.
#[test]
fn misfit_tasks_move_to_bigger_cpus_that_become_free() {
    let policy = faithful();
    let hz = u64::from(policy.hz);
    let jiffy_ns = 1_000_000_000 / hz;
    let mut failures = Vec::new();
    for machine in machines() {
        if classes(&machine).len() < 2 {
            println!("StaggeredFinishes {:11} skipped: the machine has one class of CPUs", machine.name);
            continue;
        }
        let nr = machine.nr_cpus() as u64;
        let interval_ns = (nr * 1_000_000).div_ceil(jiffy_ns) * jiffy_ns;
        let free_ns = (hz * nr / 10) * jiffy_ns * 11 / 10;
        let spec = |cpu: u64| TaskSpec {
            name: format!("misfit-{cpu}"),
            initial: true,
            cpus: Some(cpu as u32),
            spawn_cpu: Some(cpu as u32),
            ops: vec![
                Op::Sleep { ns: START_NS },
                Op::Run { work_ns: 1_000_000, fixed: 0 },
                Op::SetCpus { set: None },
                Op::Run { work_ns: free_ns + cpu * interval_ns * 3 / 2, fixed: 0 },
                Op::Exit,
            ],
            ..TaskSpec::default()
        };
        let workload = Workload {
            name: String::from("StaggeredFinishes"),
            tasks: (0..nr).map(spec).collect(),
            cpu_sets: (0..nr as u32).map(|cpu| vec![cpu]).collect(),
            ..Workload::default()
        };
        let mut misfit = Misfit::new(&machine, nr as u32);
        let case =
            Case { machine: machine.clone(), workload, policy: policy.clone(), seed: 1, duration_ns: 8_000_000_000 };
        run(&case, &mut misfit).unwrap_or_else(|error| panic!("{error:?}"));
        assert!(misfit.ended_ns > 0, "{}: no task ended", machine.name);
        let ran_ns = misfit.ended_ns - misfit.started_ns;
        let waited_ns = misfit.waited_ns.values().max().copied().unwrap_or(0);
        println!(
            "StaggeredFinishes {:11} idle {} us of {} allowed; waited {} us of {} us",
            machine.name,
            misfit.longest_idle_ns / 1000,
            interval_ns / 1000,
            waited_ns / 1000,
            ran_ns / 1000,
        );
        if misfit.longest_idle_ns > interval_ns {
            failures.push(format!("{}: a bigger CPU idled {} ns", machine.name, misfit.longest_idle_ns));
        }
        if waited_ns * 100 > ran_ns {
            failures.push(format!("{}: a task waited {waited_ns} ns of {ran_ns} ns", machine.name));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// When the system became overutilised first.
#[derive(Debug, Default)]
struct Overutilized(Option<u64>);

impl Sink for Overutilized {
    fn event(&mut self, now_ns: u64, event: &Event) {
        if matches!(event, Event::SchedOverutilized { overutilized: true }) {
            self.0.get_or_insert(now_ns);
        }
    }
}

/// Goal: a task that is put back on its queue, here since its nice value is set, does not make the system overutilised, as
/// its birth does not; the tick and wake-ups do (fair.c:enqueue_task_fair(), `task_new`). Method: four tasks are born on a
/// small CPU, where what each is given at birth adds up to more than four fifths of the capacity. The CPU does not idle until
/// then, and its next tick is 2 ms away.
#[test]
fn tasks_that_are_put_back_do_not_make_the_system_overutilised() {
    let task = |index: u64| TaskSpec {
        name: format!("task-{index}"),
        initial: true,
        delay_ns: START_NS + index * 100_000,
        spawn_cpu: Some(0),
        cpus: Some(0),
        ops: vec![
            Op::Runtime { wall_ns: 400_000 },
            Op::SetPolicy { policy: SchedPolicy::Other { nice: 1 } },
            Op::Runtime { wall_ns: 1_000_000 },
        ],
        ..TaskSpec::default()
    };
    for machine in machines().into_iter().filter(|machine| classes(machine).len() > 1) {
        let least = classes(&machine)[0];
        let small = (0..machine.nr_cpus() as u32).find(|&cpu| machine.cluster_of(cpu).capacity == least).unwrap_or(0);
        let tasks = (0..4).map(|index| TaskSpec { spawn_cpu: Some(small), ..task(index) }).collect();
        let workload =
            Workload { name: String::from("born"), tasks, cpu_sets: vec![vec![small]], ..Workload::default() };
        for hz in [100, 250] {
            let policy = Policy { hz, ..faithful() };
            let case = Case {
                machine: machine.clone(),
                workload: workload.clone(),
                policy,
                seed: 1,
                duration_ns: START_NS * 3 / 2,
            };
            let mut seen = Overutilized::default();
            run(&case, &mut seen).unwrap_or_else(|error| panic!("{error:?}"));
            let later = seen.0.is_none_or(|ns| ns > START_NS + 1_000_000);
            assert!(later, "{} at {hz} Hz: {:?}", machine.name, seen.0);
        }
    }
}
