//! Compiles a syntax tree to a [`Workload`]: one program a thread.
//!
//! What rt-app does at run time is expressed here by [`Op`]s: `suspend` and `resume` are its mutex and condition of
//! the same name, a task's timers whose name begins with `unique` belong to each thread, a barrier counts all
//! references to it times the instances of the task (src/rt-app_parse_config.c).
//!
//! Memory and I/O events are work with round costs of a core of about 1 GHz (see the constants); the caches themselves,
//! NUMA placement of memory, control groups and priority inheritance are not modelled, and refused where a file needs
//! them to be correct.

use std::collections::{BTreeMap, BTreeSet};

use opplab_kernel::unit::SCHED_CAPACITY_SCALE;

use super::syntax::{Attributes, Calibration, EventKind, Loop, MemRunKind, PolicyName, RtApp, Spanned, Task};
use crate::error::{Fault, ModelError, Pos, shorten};
use crate::groups::{GroupSpec, is_path};
use crate::workload::{Op, PhaseSpec, SchedPolicy, TaskSpec, Workload};

/// Work of one `write()` call of `iorun`, apart from the copy.
pub const IO_WRITE_WORK_NS: u64 = 500;
/// Work of one loop of a phase that would otherwise take no time at all (rt-app's own calls between the events).
const LOOP_WORK_NS: u64 = 1000;
/// Buffers up to this size are taken to stay in a core's own caches.
const CACHE_BYTES: u64 = 1 << 20;
/// Buffers up to this size are taken to stay in the first-level cache.
const L1_BYTES: u64 = 32 << 10;
/// Bytes that memset() or a copy moves in a ns, within the caches and beyond them.
const BULK_BYTES_PER_NS: [u64; 2] = [8, 4];
/// Time of a dependent load in ns: first level, caches, memory in order (prefetched), memory in random order.
const LOAD_NS: [u64; 4] = [2, 8, 10, 100];
/// Share of the time of memory-bound work that does not scale with the core's clock, in 1/1024.
const MEMORY_FIXED: u16 = 768;
/// Longest work of one event, so that sums stay far from overflow.
const WORK_NS_MAX: u64 = 1 << 60;

/// What a file is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompileOptions<'a> {
    /// Name of the workload.
    pub name: &'a str,
    /// Name of the machine, for messages; empty if it has none.
    pub machine: &'a str,
    /// Capacity of each CPU of the machine; empty if it is not known. Then CPU numbers are not checked, and work is
    /// taken to be calibrated on the biggest CPU.
    pub capacities: &'a [u32],
}

/// The numbers of names, in the order of their first use.
#[derive(Default)]
struct Names<'a>(BTreeMap<&'a str, u32>);

impl<'a> Names<'a> {
    fn index(&mut self, name: &'a str) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(name).or_insert(next)
    }
}

#[derive(Default)]
struct Compiler<'a> {
    machine: &'a str,
    capacities: &'a [u32],
    mutexes: Names<'a>,
    conds: Names<'a>,
    barriers: Names<'a>,
    sems: Names<'a>,
    timers: Names<'a>,
    absolute_timers: BTreeSet<&'a str>,
    cpu_sets: Vec<Vec<u32>>,
    /// Groups that phases name.
    groups: Vec<GroupSpec>,
    /// Index of the template of each task that is forked, by its name.
    templates: BTreeMap<&'a str, u32>,
}

impl RtApp {
    /// Compiles the file to a workload. `file` is its name for messages.
    ///
    /// # Errors
    /// What the simulator does not model, and what does not fit the machine, with its place.
    pub fn compile(&self, file: &str, options: &CompileOptions<'_>) -> Result<Workload, ModelError> {
        self.compile_inner(options).map_err(|fault| fault.in_file(file))
    }

    fn compile_inner(&self, options: &CompileOptions<'_>) -> Result<Workload, Fault> {
        let CompileOptions { machine, capacities, .. } = *options;
        let mut compiler = Compiler { machine, capacities, ..Compiler::default() };
        let events = || self.tasks.iter().flat_map(|task| &task.phases).flat_map(|phase| &phase.events);
        for event in events() {
            if let EventKind::Timer { timer, unique: false, absolute: true, .. } = &event.kind {
                compiler.absolute_timers.insert(timer);
            }
        }
        if let Some(at) = self.global.pi_enabled
            && events().any(|event| matches!(event.kind, EventKind::Lock { .. }))
        {
            return Err(Fault::new(at, "priority inheritance (`pi_enabled`) is not modelled"));
        }
        // Threads that start with the run come first, in file order; templates of forks after them.
        let nr_initial: u32 = self.tasks.iter().map(|task| task.instances).sum();
        let forked: BTreeSet<&str> = events()
            .filter_map(|event| if let EventKind::Fork { task } = &event.kind { Some(task.as_str()) } else { None })
            .collect();
        let templates = self.tasks.iter().map(|task| task.name.as_str()).filter(|name| forked.contains(*name));
        compiler.templates = templates.zip(nr_initial..).collect();
        let specs = self.tasks.iter().map(|task| compiler.task(self, task)).collect::<Result<Vec<_>, _>>()?;
        let mut tasks: Vec<TaskSpec> = Vec::new();
        for (task, spec) in self.tasks.iter().zip(&specs) {
            for _ in 0..task.instances {
                tasks.push(TaskSpec { name: format!("{}-{}", task.name, tasks.len()), ..spec.clone() });
            }
        }
        for (spec, task) in specs.into_iter().zip(&self.tasks) {
            if compiler.templates.contains_key(task.name.as_str()) {
                tasks.push(TaskSpec { initial: false, ..spec });
            }
        }
        let mut barriers = vec![0; compiler.barriers.0.len()];
        for task in &self.tasks {
            for event in task.phases.iter().flat_map(|phase| &phase.events) {
                if let EventKind::Barrier { barrier } = &event.kind
                    && let Some(&index) = compiler.barriers.0.get(barrier.as_str())
                {
                    barriers[index as usize] += task.instances;
                }
            }
        }
        let instances = self.tasks.iter().flat_map(|task| (0..task.instances).map(move |_| task));
        let templates = self.tasks.iter().filter(|task| compiler.templates.contains_key(task.name.as_str()));
        let mut of_tasks: Vec<(u32, String)> = Vec::new();
        for (index, task) in (0..).zip(instances.chain(templates)) {
            if let Some(group) = task.attributes.taskgroup.as_ref().filter(|group| group.value != "/") {
                let name = group_path(group)?;
                of_tasks.push((index, name));
            }
        }
        let mut workload = Workload {
            name: options.name.to_owned(),
            tasks,
            cpu_sets: compiler.cpu_sets,
            groups: compiler.groups,
            nr_mutexes: compiler.mutexes.0.len() as u32,
            nr_conds: compiler.conds.0.len() as u32,
            barriers,
            semaphores: vec![0; compiler.sems.0.len()],
            nr_timers: compiler.timers.0.len() as u32,
            cumulative_slack: self.global.cumulative_slack,
            duration_ns: self.global.duration_s.map(|seconds| seconds * 1_000_000_000),
            ..Workload::default()
        };
        workload.add_groups(&self.groups, &of_tasks)?;
        Ok(workload)
    }
}

impl<'a> Compiler<'a> {
    fn task(&mut self, rtapp: &'a RtApp, task: &'a Task) -> Result<TaskSpec, Fault> {
        refuse_unmodelled(task)?;
        let mut policy_name =
            task.attributes.policy.as_ref().map_or(rtapp.global.default_policy, |policy| policy.value);
        let policy = sched_policy(policy_name, &task.attributes, task.at)?;
        let cpus = task.attributes.cpus.as_ref().map(|cpus| self.cpu_set(cpus)).transpose()?;
        let phases_move = task.phases.iter().any(|phase| phase.attributes.cpus.is_some());
        let mut own_timers = Names::default();
        let own_absolute: Vec<&str> = task
            .phases
            .iter()
            .flat_map(|phase| &phase.events)
            .filter_map(|event| match &event.kind {
                EventKind::Timer { timer, unique: true, absolute: true, .. } => Some(timer.as_str()),
                _ => None,
            })
            .collect();

        let mut ops: Vec<Op> = Vec::new();
        let mut specs: Vec<PhaseSpec> = Vec::new();
        let mut clamps = (0, SCHED_CAPACITY_SCALE as u16);
        set_uclamp(&mut ops, &task.attributes, &mut clamps)?;
        if task.repeat != Loop::Times(0) {
            let task_loop = begin_loop(&mut ops, 0, task.repeat);
            for (index, phase) in task.phases.iter().enumerate() {
                if phases_move {
                    let set = phase.attributes.cpus.as_ref().map(|cpus| self.cpu_set(cpus)).transpose()?.or(cpus);
                    ops.push(Op::SetCpus { set });
                }
                let attributes = &phase.attributes;
                // A phase that names none goes on in the group of the one before it.
                if let Some(group) = &attributes.taskgroup {
                    ops.push(Op::SetGroup { task: None, group: self.group(group)? });
                }
                if let Some(policy) = &attributes.policy {
                    policy_name = policy.value;
                }
                let changes = attributes.policy.is_some()
                    || attributes.priority.is_some()
                    || attributes.dl_runtime_us.is_some()
                    || attributes.dl_period_us.is_some()
                    || attributes.dl_deadline_us.is_some();
                if changes {
                    ops.push(Op::SetPolicy { policy: sched_policy(policy_name, attributes, phase.at)? });
                }
                set_uclamp(&mut ops, attributes, &mut clamps)?;
                let phase_loop = begin_loop(&mut ops, 1, phase.repeat);
                let mut spec = PhaseSpec { name: phase.name.clone(), run_ns: 0, period_ns: 0 };
                let mut takes_time = false;
                let mut timed = false;
                for event in &phase.events {
                    if let EventKind::Timer { timer, unique, period_us, .. } = &event.kind {
                        let period_ns = period_us * 1000;
                        spec.period_ns += period_ns;
                        timed = true;
                        takes_time |= period_ns > 0;
                        ops.push(if *unique {
                            let absolute = own_absolute.contains(&timer.as_str());
                            Op::Timer { timer: own_timers.index(timer), period_ns, absolute, own: true }
                        } else {
                            let absolute = self.absolute_timers.contains(timer.as_str());
                            Op::Timer { timer: self.timers.index(timer), period_ns, absolute, own: false }
                        });
                        continue;
                    }
                    if let EventKind::Run { us } | EventKind::Runtime { us } = event.kind {
                        spec.run_ns = spec.run_ns.saturating_add(us * 1000);
                    }
                    takes_time |= self.event(&mut ops, rtapp, event.at, &event.kind)?;
                }
                if !takes_time {
                    ops.push(Op::Run { work_ns: LOOP_WORK_NS, fixed: 0 });
                }
                specs.push(spec);
                let phase_index = u16::try_from(index)
                    .map_err(|_| Fault::new(phase.at, "a task with more than 65536 phases is not supported"))?;
                ops.push(Op::Activation { phase: phase_index, timed });
                end_loop(&mut ops, 1, phase_loop);
            }
            end_loop(&mut ops, 0, task_loop);
        }
        ops.push(Op::Exit);
        Ok(TaskSpec {
            name: task.name.clone(),
            initial: true,
            delay_ns: task.delay_us * 1000,
            policy,
            class: task.class.clone(),
            cpus,
            spawn_cpu: None,
            seasoned: false,
            workqueue: None,
            assumed_bandwidth: false,
            ops,
            loop_slots: 2,
            nr_own_timers: own_timers.0.len() as u32,
            phases: specs,
        })
    }

    /// The group of a `taskgroup`; `None`: the root.
    fn group(&mut self, group: &Spanned<String>) -> Result<Option<u32>, Fault> {
        if group.value == "/" {
            return Ok(None);
        }
        let path = group_path(group)?;
        let index = self.groups.iter().position(|known| known.name == path).unwrap_or_else(|| {
            self.groups.push(GroupSpec::new(path));
            self.groups.len() - 1
        });
        Ok(Some(index as u32))
    }

    /// Which CPUs the machine has, in words.
    fn cpus(&self) -> String {
        let nr = self.capacities.len();
        let machine =
            if self.machine.is_empty() { "the machine".to_owned() } else { format!("machine {}", self.machine) };
        format!("{machine} has {nr} CPUs, 0-{}", nr - 1)
    }

    fn cpu_set(&mut self, cpus: &Spanned<Vec<u32>>) -> Result<u32, Fault> {
        if let Some(&last) = cpus.value.last()
            && !self.capacities.is_empty()
            && last as usize >= self.capacities.len()
        {
            return Err(Fault::new(cpus.at, format!("CPU {last} does not exist: {}", self.cpus())));
        }
        let index = self.cpu_sets.iter().position(|set| *set == cpus.value).unwrap_or_else(|| {
            self.cpu_sets.push(cpus.value.clone());
            self.cpu_sets.len() - 1
        });
        Ok(index as u32)
    }

    /// Work of `us` of `run`, which was calibrated on one of the CPUs.
    fn work_ns(&self, rtapp: &RtApp, us: u64) -> Result<u64, Fault> {
        let ns = u128::from(us) * 1000;
        let ns = match rtapp.global.calibration.value {
            Calibration::NsPerLoop(_) | Calibration::Biggest => {
                ns * u128::from(self.capacities.iter().copied().max().unwrap_or(1024)) / 1024
            }
            Calibration::Cpu(_) if self.capacities.is_empty() => ns,
            Calibration::Cpu(cpu) => {
                let capacity = self.capacities.get(cpu as usize).ok_or_else(|| {
                    let message = format!("`calibration` on CPU {cpu}, but {}", self.cpus());
                    Fault::new(rtapp.global.calibration.at, message)
                })?;
                ns * u128::from(*capacity) / 1024
            }
        };
        Ok(u64::try_from(ns).unwrap_or(WORK_NS_MAX).min(WORK_NS_MAX))
    }

    /// Compiles an event that is no timer; whether it takes time for sure.
    fn event(&mut self, ops: &mut Vec<Op>, rtapp: &RtApp, at: Pos, kind: &'a EventKind) -> Result<bool, Fault> {
        match kind {
            EventKind::Lock { mutex } => ops.push(Op::Lock { mutex: self.mutexes.index(mutex) }),
            EventKind::Unlock { mutex } => ops.push(Op::Unlock { mutex: self.mutexes.index(mutex) }),
            EventKind::Wait { cond, mutex } => {
                ops.push(Op::Wait { cond: self.conds.index(cond), mutex: self.mutexes.index(mutex) });
            }
            EventKind::Signal { cond } => ops.push(Op::Signal { cond: self.conds.index(cond) }),
            EventKind::Broadcast { cond } => ops.push(Op::Broadcast { cond: self.conds.index(cond) }),
            EventKind::Sync { cond, mutex } => {
                let (cond, mutex) = (self.conds.index(cond), self.mutexes.index(mutex));
                ops.extend([Op::Signal { cond }, Op::Wait { cond, mutex }]);
            }
            EventKind::Suspend { cond } => {
                let (cond, mutex) = (self.conds.index(cond), self.mutexes.index(cond));
                ops.extend([Op::Lock { mutex }, Op::Wait { cond, mutex }, Op::Unlock { mutex }]);
            }
            EventKind::Resume { cond } => {
                let (cond, mutex) = (self.conds.index(cond), self.mutexes.index(cond));
                ops.extend([Op::Lock { mutex }, Op::Resume { cond }, Op::Unlock { mutex }]);
            }
            EventKind::Barrier { barrier } => ops.push(Op::Barrier { barrier: self.barriers.index(barrier) }),
            EventKind::SemPost { sem } => ops.push(Op::SemPost { sem: self.sems.index(sem) }),
            EventKind::SemWait { sem } => ops.push(Op::SemWait { sem: self.sems.index(sem) }),
            EventKind::Yield => ops.push(Op::Yield),
            EventKind::Fork { task } => {
                let template = self.templates.get(task.as_str()).expect("every forked task has a template");
                ops.push(Op::Fork { task: *template });
            }
            EventKind::Sleep { us } => {
                ops.push(Op::Sleep { ns: us * 1000 });
                return Ok(*us > 0);
            }
            EventKind::Run { us } => {
                let work_ns = self.work_ns(rtapp, *us)?;
                ops.push(Op::Run { work_ns, fixed: 0 });
                return Ok(work_ns > 0);
            }
            EventKind::Runtime { us } => {
                ops.push(Op::Runtime { wall_ns: us * 1000 });
                return Ok(*us > 0);
            }
            EventKind::Mem { bytes } => return Ok(push_work(ops, bulk_work(*bytes, rtapp.global.mem_buffer_size))),
            EventKind::IoRun { bytes } => {
                let device = &rtapp.global.io_device;
                if device.value.starts_with("/dev/") && device.value != "/dev/null" {
                    let at = if device.at == Pos::default() { at } else { device.at };
                    let message = format!(
                        "`io_device` {} is not modelled; `/dev/null` and plain files are",
                        shorten(&device.value)
                    );
                    return Err(Fault::new(at, message));
                }
                let buffer = rtapp.global.mem_buffer_size;
                let calls_ns = bytes.div_ceil(buffer) * IO_WRITE_WORK_NS;
                // A write to a plain file ends in the page cache: a copy. /dev/null takes no data.
                let (copy_ns, fixed) = if device.value == "/dev/null" { (0, 0) } else { bulk_work(*bytes, buffer) };
                let calls = push_work(ops, (calls_ns, 0));
                return Ok(push_work(ops, (copy_ns, fixed)) || calls);
            }
            EventKind::MemRun { kind, size, count } => return Ok(push_work(ops, memrun_work(*kind, *size, *count))),
            EventKind::Timer { .. } => unreachable!("timers are compiled by their caller"),
        }
        Ok(false)
    }
}

/// The path of a `taskgroup`, without a `/` at its end.
fn group_path(group: &Spanned<String>) -> Result<String, Fault> {
    let path = group.value.trim_end_matches('/');
    if is_path(path) {
        return Ok(path.to_owned());
    }
    Err(Fault::new(group.at, format!("`taskgroup` {} is no path of a group", shorten(&group.value))))
}

/// Refuses attributes that would change the run and are not modelled.
fn refuse_unmodelled(task: &Task) -> Result<(), Fault> {
    let all = std::iter::once(&task.attributes).chain(task.phases.iter().map(|phase| &phase.attributes));
    for attributes in all {
        if let Some(nodes) = &attributes.nodes_membind {
            return Err(Fault::new(nodes.at, "placement of memory on nodes (`nodes_membind`) is not modelled"));
        }
    }
    Ok(())
}

fn push_work(ops: &mut Vec<Op>, (work_ns, fixed): (u64, u16)) -> bool {
    if work_ns > 0 {
        ops.push(Op::Run { work_ns, fixed });
    }
    work_ns > 0
}

/// Work of memset() or a copy of `bytes` through a buffer of `size` bytes.
fn bulk_work(bytes: u64, size: u64) -> (u64, u16) {
    if bytes.min(size) <= CACHE_BYTES {
        (bytes / BULK_BYTES_PER_NS[0], 0)
    } else {
        (bytes / BULK_BYTES_PER_NS[1], MEMORY_FIXED)
    }
}

/// Work of `memrun`. rt-app reads and writes byte by byte, about one a ns wherever the buffer is, because the hardware
/// fetches ahead; following pointers takes the time of a load each.
fn memrun_work(kind: MemRunKind, size: u64, count: u64) -> (u64, u16) {
    match kind {
        MemRunKind::Read | MemRunKind::Write => (count, 0),
        MemRunKind::Chase { .. } if size <= L1_BYTES => (count * LOAD_NS[0], 0),
        MemRunKind::Chase { .. } if size <= CACHE_BYTES => (count * LOAD_NS[1], 0),
        MemRunKind::Chase { random: false, .. } => (count * LOAD_NS[2], MEMORY_FIXED),
        MemRunKind::Chase { random: true, .. } => (count * LOAD_NS[3], MEMORY_FIXED),
    }
}

/// Opens a loop; `None` if it runs once.
fn begin_loop(ops: &mut Vec<Op>, slot: u16, repeat: Loop) -> Option<u32> {
    let count = match repeat {
        Loop::Times(1) => return None,
        Loop::Times(times) => Some(times),
        Loop::Forever => None,
    };
    ops.push(Op::LoopBegin { slot, count });
    Some(ops.len() as u32 - 1)
}

fn end_loop(ops: &mut Vec<Op>, slot: u16, begin: Option<u32>) {
    if let Some(begin) = begin {
        ops.push(Op::LoopEnd { slot, begin });
    }
}

/// Sets clamps of utilisation, which are `before` so far. The kernel refuses a lower one above the upper one, and rt-app ends
/// (core.c:uclamp_validate(), v6.12).
fn set_uclamp(ops: &mut Vec<Op>, attributes: &Attributes, before: &mut (u16, u16)) -> Result<(), Fault> {
    let min = attributes.util_min.as_ref().map(|clamp| clamp.value);
    let max = attributes.util_max.as_ref().map(|clamp| clamp.value);
    let Some(clamp) = attributes.util_min.as_ref().or(attributes.util_max.as_ref()) else { return Ok(()) };
    *before = (min.unwrap_or(before.0), max.unwrap_or(before.1));
    if before.0 > before.1 {
        let message = format!("`util_min` {} is above `util_max` {}, which the kernel refuses", before.0, before.1);
        return Err(Fault::new(clamp.at, message));
    }
    ops.push(Op::SetUclamp { min, max });
    Ok(())
}

/// The policy that rt-app would set, with its defaults (nice 0, priority 10).
fn sched_policy(name: PolicyName, attributes: &Attributes, at: Pos) -> Result<SchedPolicy, Fault> {
    let priority = attributes.priority.as_ref();
    let nice = || -> Result<i8, Fault> {
        let Some(priority) = priority else { return Ok(0) };
        i8::try_from(priority.value)
            .ok()
            .filter(|nice| (-20..20).contains(nice))
            .ok_or_else(|| Fault::new(priority.at, format!("nice value {} is not -20..19", priority.value)))
    };
    let rt_priority = || -> Result<u8, Fault> {
        let Some(priority) = priority else { return Ok(10) };
        u8::try_from(priority.value)
            .ok()
            .filter(|priority| (1..100).contains(priority))
            .ok_or_else(|| Fault::new(priority.at, format!("real-time priority {} is not 1..99", priority.value)))
    };
    if matches!(name, PolicyName::Other | PolicyName::Batch | PolicyName::Idle)
        && let Some(runtime) = &attributes.dl_runtime_us
    {
        let message = format!("a slice of its own for a {} task (`dl-runtime`) is not modelled", name.name());
        return Err(Fault::new(runtime.at, message));
    }
    Ok(match name {
        PolicyName::Other => SchedPolicy::Other { nice: nice()? },
        PolicyName::Batch => SchedPolicy::Batch { nice: nice()? },
        PolicyName::Idle => SchedPolicy::Idle,
        PolicyName::Fifo => SchedPolicy::Fifo { priority: rt_priority()? },
        PolicyName::RoundRobin => SchedPolicy::RoundRobin { priority: rt_priority()? },
        PolicyName::Deadline => {
            let runtime_us = attributes.dl_runtime_us.as_ref().map_or(0, |us| us.value);
            let period_us = attributes.dl_period_us.as_ref().map_or(runtime_us, |us| us.value);
            let deadline_us = attributes.dl_deadline_us.as_ref().map_or(period_us, |us| us.value);
            if runtime_us == 0 {
                return Err(Fault::new(at, "a SCHED_DEADLINE task needs `dl-runtime`"));
            }
            if runtime_us > deadline_us || deadline_us > period_us {
                let message = "a SCHED_DEADLINE task needs `dl-runtime` <= `dl-deadline` <= `dl-period`";
                return Err(Fault::new(at, message));
            }
            SchedPolicy::Deadline {
                runtime_ns: runtime_us * 1000,
                deadline_ns: deadline_us * 1000,
                period_ns: period_us * 1000,
                reclaim: attributes.dl_reclaim,
            }
        }
    })
}
