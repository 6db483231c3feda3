//! The one decoding of a trace's scheduling events. A format's name and the places of its fields are looked up once, and a pass
//! decodes each event once for all that take it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use crate::Places;
use opplab_trace::render::task_state_bits;
use opplab_trace::{BySchema, Event, Missed, SETTINGS_MARK, Schema, Sink, TICK_TIMER};

mod sights;

use sights::Sights;

/// Events that move tasks between groups.
pub const MOVES: [&str; 2] = ["cgroup_attach_task", "cgroup_transfer_tasks"];

/// `cpu_idle` states from here on mean "left" (`PWR_EVENT_EXIT`, -1), with or without a sign.
const IDLE_EXIT: i64 = 0xffff_ffff;

/// The state that an idle event enters; `None`: left.
pub fn entered(state: i64) -> Option<usize> {
    (0..IDLE_EXIT).contains(&state).then_some(state as usize)
}

/// A task in an event; what the format does not have is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskFields<'e> {
    /// Thread id.
    pub pid: i32,
    /// The kernel's priority: 120 + nice, below 100 real-time, below 0 deadline.
    pub prio: Option<i32>,
    /// Its name.
    pub comm: Option<&'e [u8]>,
}

impl TaskFields<'_> {
    /// Its pid and priority, `prio` where the trace has none.
    #[inline]
    pub(crate) fn with_prio(&self, prio: i32) -> (i32, i64) {
        (self.pid, self.prio.unwrap_or(prio).into())
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the kernel's event of the same name; fields are named as there")]
pub enum SchedEvent<'e> {
    Switch {
        prev: TaskFields<'e>,
        prev_state: u64,
        next: TaskFields<'e>,
    },
    Waking {
        task: TaskFields<'e>,
    },
    /// `sched_wakeup`, or `sched_wakeup_new` of a new task.
    Wakeup {
        task: TaskFields<'e>,
        target_cpu: u32,
        new: bool,
    },
    Migrate {
        pid: i32,
        prio: Option<i32>,
        orig_cpu: Option<u32>,
        dest_cpu: u32,
    },
    Fork {
        parent_pid: i32,
        child_pid: i32,
        child_comm: Option<&'e [u8]>,
    },
    /// `task_newtask`, which the parent writes.
    NewTask {
        pid: i32,
        clone_flags: Option<i64>,
    },
    Exec {
        pid: i32,
    },
    Exit {
        pid: i32,
        comm: Option<&'e [u8]>,
    },
    Free {
        pid: i32,
    },
    /// `sched_update_nr_running_tp` and what it is called elsewhere; `nr`: also called `nr_running`.
    NrRunning {
        cpu: u32,
        change: i64,
        nr: Option<i64>,
    },
    /// One of [`MOVES`].
    Attach {
        dst_root: i64,
        dst_id: u64,
        dst_path: &'e [u8],
        pid: i32,
    },
    /// `cgroup_mkdir`, `cgroup_rename`.
    Group {
        root: i64,
        id: u64,
        path: &'e [u8],
    },
    Frequency {
        cpu: u32,
        khz: u32,
    },
    /// Of simulated runs: the kernel's frequency scale, which counts for the last `open_ns` already.
    FreqScale {
        cpu: u32,
        scale: u64,
        open_ns: u64,
    },
    /// The idle state that was entered; `None`: left.
    Idle {
        cpu: u32,
        state: Option<usize>,
    },
    IdleMiss {
        cpu: u32,
        below: bool,
    },
    /// Of simulated runs: `cpu` begins to leave its idle state.
    IdleExit {
        cpu: u32,
    },
    /// Of simulated runs: the state that a cluster entered; `None`: left.
    ClusterIdle {
        cluster: u32,
        state: Option<usize>,
    },
    /// Of simulated runs: `pid` ends an activation so long after the next one was due, and goes on with that.
    Late {
        pid: i32,
        late_ns: u64,
    },
    /// A probe on a governor's `update_util_data` hook: its arguments under the kernel's names; `cpu`: of simulated runs, whose it is.
    UpdateUtil {
        cpu: Option<u32>,
        hook: i64,
        flags: u32,
        time: u64,
    },
    /// `irq_handler_entry`.
    Irq {
        name: &'e [u8],
    },
    /// `local_timer_entry`, `hrtimer_expire_entry`; `tick`: it is known to be the tick of the CPU that writes it.
    Timer {
        tick: bool,
    },
    Rail {
        name: &'e [u8],
        energy_uj: u64,
    },
    /// `cpuhp_enter`: whether `cpu` is taken down; `None`: a step of its way down or up is done (`cpuhp_exit`).
    Hotplug {
        cpu: u32,
        goes: Option<bool>,
    },
    /// Of [`decoded_threads`], before the event that shows it: `pid`, which had come to `cpu`, is there no more, or `cpu` is offline.
    /// What the CPU does from here on is not known. `woken_ns`: when the task was woken, if it was.
    Lost {
        cpu: u32,
        pid: i32,
        woken_ns: Option<u64>,
    },
    /// Of [`decoded_threads`], before the first switch of `cpu`: `pid`, which leaves it then, did not run there before `since_ns`.
    NotBefore {
        cpu: u32,
        pid: i32,
        since_ns: u64,
    },
    /// A line that was printed into the trace.
    Mark {
        text: &'e [u8],
    },
    Other,
}

/// An event with the places of the fields that its decoding wants.
struct Fields<'a, 'e> {
    event: &'a Event<'e>,
    places: &'a Places<7>,
}

impl<'e> Fields<'_, 'e> {
    #[inline]
    fn int(&self, nth: usize) -> Option<i64> {
        self.places.find(self.event, nth)
    }

    /// A thread id, or a priority: some formats show that without its sign.
    #[inline]
    fn id(&self, nth: usize) -> Option<i32> {
        self.int(nth).map(|id| id as i32)
    }

    #[inline]
    fn cpu(&self, nth: usize) -> Option<u32> {
        self.int(nth).map(|cpu| cpu as u32)
    }

    #[inline]
    fn text(&self, nth: usize) -> Option<&'e [u8]> {
        self.places.text(self.event, nth)
    }

    /// A task, whose pid, prio and comm begin at `first`.
    #[inline]
    fn task(&self, first: usize) -> Option<TaskFields<'e>> {
        Some(TaskFields { pid: self.id(first)?, prio: self.id(first + 1), comm: self.text(first + 2) })
    }

    /// Whether a timer is the tick's: by its function's name, or in a simulated run by its address.
    fn is_tick(&self) -> bool {
        match self.text(1) {
            Some(name) => name.starts_with(b"tick_nohz_handler") || name.starts_with(b"tick_sched_timer"),
            None => self.int(1) == Some(0) && self.int(0).is_some_and(|timer| timer as u64 >= TICK_TIMER),
        }
    }

    fn wakeup(&self, new: bool) -> Option<SchedEvent<'e>> {
        let target_cpu = self.cpu(3).unwrap_or(self.event.cpu);
        Some(SchedEvent::Wakeup { task: self.task(0)?, target_cpu, new })
    }

    /// A task's state, as a number or in letters; an unknown letter is some sleep.
    #[inline]
    fn state(&self, nth: usize) -> u64 {
        match self.text(nth) {
            Some(text) => task_state_bits(&String::from_utf8_lossy(text)).unwrap_or(1),
            None => self.int(nth).unwrap_or(0) as u64,
        }
    }
}

/// Makes a [`SchedEvent`] of an event, unless fields are missing that it must have.
type Decode = for<'a, 'e> fn(&Fields<'a, 'e>) -> Option<SchedEvent<'e>>;

#[cold]
fn look_up(schema: &Schema) -> (Decode, Places<7>) {
    use SchedEvent as E;
    let is_hook = || ["hook", "time", "flags"].iter().all(|field| schema.field_index(field).is_some());
    let (fields, decode): (&[&str], Decode) = match schema.name.as_str() {
        "sched_switch" => {
            (&["prev_pid", "prev_prio", "prev_comm", "next_pid", "next_prio", "next_comm", "prev_state"], |f| {
                Some(E::Switch { prev: f.task(0)?, prev_state: f.state(6), next: f.task(3)? })
            })
        }
        "sched_waking" => (&["pid", "prio", "comm"], |f| Some(E::Waking { task: f.task(0)? })),
        "sched_wakeup" => (&["pid", "prio", "comm", "target_cpu"], |f| f.wakeup(false)),
        "sched_wakeup_new" => (&["pid", "prio", "comm", "target_cpu"], |f| f.wakeup(true)),
        "sched_migrate_task" => (&["pid", "prio", "orig_cpu", "dest_cpu"], |f| {
            Some(E::Migrate { pid: f.id(0)?, prio: f.id(1), orig_cpu: f.cpu(2), dest_cpu: f.cpu(3)? })
        }),
        "sched_process_fork" => (&["parent_pid", "child_pid", "child_comm"], |f| {
            let parent_pid = f.id(0).unwrap_or(f.event.pid);
            Some(E::Fork { parent_pid, child_pid: f.id(1)?, child_comm: f.text(2) })
        }),
        "task_newtask" => (&["pid", "clone_flags"], |f| Some(E::NewTask { pid: f.id(0)?, clone_flags: f.int(1) })),
        "sched_process_exec" => (&["pid"], |f| Some(E::Exec { pid: f.id(0).unwrap_or(f.event.pid) })),
        "sched_process_exit" => (&["pid", "comm"], |f| Some(E::Exit { pid: f.id(0)?, comm: f.text(1) })),
        "sched_process_free" => (&["pid"], |f| Some(E::Free { pid: f.id(0)? })),
        "nr_running" | "sched_update_nr_running" | "sched_update_nr_running_tp" | "lisa__sched_update_nr_running" => {
            (&["cpu", "change", "nr", "nr_running"], |f| {
                Some(E::NrRunning { cpu: f.cpu(0)?, change: f.int(1)?, nr: f.int(2).or_else(|| f.int(3)) })
            })
        }
        name if MOVES.contains(&name) => (&["dst_root", "dst_id", "dst_path", "pid"], |f| {
            let (dst_id, dst_path) = (f.int(1).unwrap_or(0) as u64, f.text(2).unwrap_or_default());
            Some(E::Attach { dst_root: f.int(0)?, dst_id, dst_path, pid: f.id(3)? })
        }),
        "cgroup_mkdir" | "cgroup_rename" => (&["root", "id", "path"], |f| {
            let (id, path) = (f.int(1).unwrap_or(0) as u64, f.text(2).unwrap_or_default());
            Some(E::Group { root: f.int(0)?, id, path })
        }),
        "cpu_frequency" => {
            (&["cpu_id", "state"], |f| Some(E::Frequency { cpu: f.cpu(0)?, khz: u32::try_from(f.int(1)?).ok()? }))
        }
        "arch_set_freq_scale" => (&["cpu_id", "scale", "open_ns"], |f| {
            Some(E::FreqScale { cpu: f.cpu(0)?, scale: f.int(1)? as u64, open_ns: f.int(2)? as u64 })
        }),
        "cpu_idle" => (&["cpu_id", "state"], |f| Some(E::Idle { cpu: f.cpu(0)?, state: entered(f.int(1)?) })),
        "cpu_idle_miss" => (&["cpu_id", "below"], |f| Some(E::IdleMiss { cpu: f.cpu(0)?, below: f.int(1)? != 0 })),
        "idle_exit" => (&["cpu_id"], |f| Some(E::IdleExit { cpu: f.cpu(0)? })),
        "cluster_idle" => {
            (&["cluster", "state"], |f| Some(E::ClusterIdle { cluster: f.cpu(0)?, state: entered(f.int(1)?) }))
        }
        "activation" => (&["pid", "slack"], |f| {
            let slack_ns = f.int(1)?;
            (slack_ns < 0).then_some(E::Late { pid: f.id(0)?, late_ns: slack_ns.unsigned_abs() })
        }),
        "irq_handler_entry" => (&["name"], |f| Some(E::Irq { name: f.text(0)? })),
        "local_timer_entry" => (&[], |_| Some(E::Timer { tick: false })),
        "hrtimer_expire_entry" => (&["hrtimer", "function"], |f| Some(E::Timer { tick: f.is_tick() })),
        "power_rail" => (&["name", "energy_uj"], |f| Some(E::Rail { name: f.text(0)?, energy_uj: f.int(1)? as u64 })),
        // The steps of a kernel have numbers of their own; which one stops the CPU is in its function's name.
        "cpuhp_enter" | "cpuhp_multi_enter" => (&["cpu", "target", "fun"], |f| {
            let goes = f.int(1)? == 0;
            let stops = f.text(2).is_none_or(|name| name.starts_with(b"takedown_cpu"));
            (stops || !goes).then_some(E::Hotplug { cpu: f.cpu(0)?, goes: Some(goes) })
        }),
        "cpuhp_exit" => (&["cpu"], |f| Some(E::Hotplug { cpu: f.cpu(0)?, goes: None })),
        "print" | "tracing_mark_write" => (&["buf"], |f| Some(E::Mark { text: f.text(0).unwrap_or_default() })),
        _ if is_hook() => (&["hook", "flags", "time", "cpu_id"], |f| {
            let (hook, flags, time) = (f.int(0)?, f.int(1)? as u32, f.int(2)? as u64);
            Some(E::UpdateUtil { hook, flags, time, cpu: f.cpu(3) })
        }),
        _ => (&[], |_| None),
    };
    (decode, Places::new(schema, fields))
}

/// Decodes the events of one pass.
#[derive(Debug, Default)]
pub struct Decoder(BySchema<(Decode, Places<7>)>);

impl Decoder {
    /// What an event is.
    #[inline]
    pub fn decode<'e>(&mut self, event: &Event<'e>) -> SchedEvent<'e> {
        let (decode, places) = self.0.get(event.schema, look_up);
        decode(&Fields { event, places }).unwrap_or(SchedEvent::Other)
    }
}

/// The thread that a mark of a simulated run is about, and the value of its setting `key` ([`SETTINGS_MARK`]).
pub fn setting<'t>(mark: &'t [u8], key: &str) -> Option<(i32, &'t str)> {
    let (pid, settings) = std::str::from_utf8(mark).ok()?.strip_prefix(SETTINGS_MARK)?.split_once(' ')?;
    let mut pairs = settings.split_whitespace().filter_map(|pair| pair.split_once('='));
    Some((pid.parse().ok()?, pairs.find(|(name, _)| *name == key)?.1))
}

/// Whether a task that leaves its CPU in this state does not want to run (`TASK_REPORT`); the bits above are marks, as that it was
/// preempted.
pub fn sleeps(prev_state: u64) -> bool {
    prev_state & 0xff != 0
}

/// Whether a task that leaves its CPU in this state has ended (`EXIT_DEAD`, `EXIT_ZOMBIE`).
pub fn has_ended(prev_state: u64) -> bool {
    prev_state & 0x30 != 0
}

/// No pid is as large (`PID_MAX_LIMIT`, include/linux/threads.h).
const PID_LIMIT: i32 = 1 << 22;
/// So many threads of one pid are kept apart.
const REUSES_MAX: u16 = 511;

/// How far the thread that has a pid is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Life {
    #[default]
    Unseen,
    Born,
    Seen,
    Ended,
}

/// Keeps threads apart that had the same pid, one after the other: the `n`th further one has the number `pid + (n << 22)`.
///
/// Another one begins with a birth after the last one was seen, or with an event of it after that one left its CPU for good.
#[derive(Debug, Default)]
pub struct Threads {
    by_pid: Vec<(Life, u16)>,
    /// The last names of threads that ended, and of those that came after, by number.
    names: BTreeMap<i32, Vec<u8>>,
    reused: BTreeSet<i32>,
    sights: Sights,
    /// What the switches show of events that are missing.
    pub chain: Chain,
}

/// Whether the task that leaves a CPU is the one that came there. Where it is another, switches are missing that nothing marks as lost:
/// lines were cut out of a text, or a buffer was full. Also the longest time without an event while a task ran.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    /// Who came last, by CPU.
    came: Vec<Option<i32>>,
    switches: u64,
    breaks: u64,
    /// Times of the first and the last event, ns.
    span_ns: Option<(u64, u64)>,
    /// The longest silence: how long, since when, and a CPU that ran a task then.
    silence: Option<(u64, u64, usize)>,
    /// When a task was first woken on, or moved to each CPU, ns.
    sent_ns: BTreeMap<u32, u64>,
    /// Tasks that sleep.
    asleep: BTreeSet<i32>,
}

/// A silence is noted if it is longer than this, ns, and than this part of the trace.
const SILENCE_NS: u64 = 1_000_000_000;
const SILENCE_PART: u64 = 20;
/// A task that was sent to a CPU begins to run there within this time, ns, or the CPU's switches are missing.
const SENT_NS: u64 = 10_000_000;

impl Chain {
    /// Takes an event of `cpu`, with the pids of the trace.
    pub fn event(&mut self, now_ns: u64, cpu: u32, what: &SchedEvent<'_>) {
        let (first_ns, last_ns) = self.span_ns.unwrap_or((now_ns, now_ns));
        let silent_ns = now_ns.saturating_sub(last_ns);
        if silent_ns > SILENCE_NS.max(self.silence.map_or(0, |(longest_ns, ..)| longest_ns))
            && let Some(running) = self.came.iter().position(|came| came.is_some_and(|pid| pid != 0))
        {
            self.silence = Some((silent_ns, last_ns, running));
        }
        self.span_ns = Some((first_ns, last_ns.max(now_ns)));
        let sent = match what {
            SchedEvent::Waking { task } => {
                self.asleep.remove(&task.pid);
                None
            }
            SchedEvent::Wakeup { task, target_cpu, .. } => {
                self.asleep.remove(&task.pid);
                Some(*target_cpu)
            }
            // Load balance also moves tasks that sleep and are still queued (fair.c:dequeue_entities(), v6.12): these do not run.
            SchedEvent::Migrate { pid, dest_cpu, .. } => (!self.asleep.contains(pid)).then_some(*dest_cpu),
            _ => None,
        };
        if let Some(cpu) = sent {
            self.sent_ns.entry(cpu).or_insert(now_ns);
        }
        let SchedEvent::Switch { prev, prev_state, next } = what else { return };
        self.asleep.remove(&next.pid);
        if sleeps(*prev_state) && prev.pid != 0 {
            self.asleep.insert(prev.pid);
        }
        let cpu = (cpu & 0xffff) as usize;
        self.came.resize(self.came.len().max(cpu + 1), None);
        self.switches += 1;
        self.breaks += u64::from(self.came[cpu].replace(next.pid).is_some_and(|came| came != prev.pid));
    }

    /// What it means for all that is made of a trace's events, beside the gaps that the kernel reported.
    pub fn notes(&self, gaps: &[Missed]) -> Vec<String> {
        let Self { switches, breaks, .. } = self;
        let missing = Missed::note(gaps).or_else(|| {
            let text = format!(
                "before {breaks} of {switches} sched_switch events others are missing: the task that leaves a CPU is not the one \
                 that came there. The time between counts for the latter until that is seen elsewhere"
            );
            (*breaks > 0).then_some(text)
        });
        let (first_ns, last_ns) = self.span_ns.unwrap_or_default();
        let long = self.silence.filter(|(ns, ..)| *ns > (last_ns - first_ns) / SILENCE_PART);
        let silence = long.map(|(ns, since_ns, cpu)| {
            format!(
                "no event in {:.3} s from {:.6} s on, while CPU {cpu} ran a task: the time counts as running. A suspend or \
                 a clock that jumped looks like this",
                ns as f64 / 1e9,
                since_ns as f64 / 1e9
            )
        });
        let has_switches = |cpu: u32| self.came.get(cpu as usize).is_some_and(Option::is_some);
        let unseen =
            self.sent_ns.iter().filter(|&(&cpu, &ns)| !has_switches(cpu) && last_ns.saturating_sub(ns) > SENT_NS);
        let unseen: Vec<String> = unseen.map(|(cpu, _)| cpu.to_string()).collect();
        let elsewhere = (*switches > 0 && !unseen.is_empty()).then(|| {
            let (cpus, have) = if unseen.len() == 1 { ("CPU", "has") } else { ("CPUs", "have") };
            format!(
                "{cpus} {} {have} no sched_switch event, although tasks were woken on or moved to there: what ran there is \
                 not in the trace, and its time counts as waiting",
                unseen.join(", ")
            )
        });
        missing.into_iter().chain(silence).chain(elsewhere).collect()
    }
}

/// A thread whose pid others have, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reused {
    /// Its number.
    pub number: i32,
    /// Its pid.
    pub pid: i32,
    /// Its last name; `None` of a pid's first thread whose end is not in the trace.
    pub name: Option<String>,
    /// No later one has the pid.
    pub is_last: bool,
}

/// The pid of a thread by its number ([`Threads`]).
pub fn pid_of(number: i32) -> i32 {
    number % PID_LIMIT
}

impl Threads {
    fn number(pid: i32, nth: u16) -> i32 {
        pid + i32::from(nth) * PID_LIMIT
    }

    /// The state of a pid; `None` of the idle task and of what is no pid.
    fn of(&mut self, pid: i32) -> Option<&mut (Life, u16)> {
        let place = usize::try_from(pid).ok().filter(|_| (1..PID_LIMIT).contains(&pid))?;
        if self.by_pid.len() <= place {
            self.by_pid.resize(place + 1, (Life::Unseen, 0));
        }
        self.by_pid.get_mut(place)
    }

    /// The thread of a pid as it is.
    fn now(&mut self, pid: i32) -> i32 {
        self.of(pid).map_or(pid, |&mut (_, nth)| Self::number(pid, nth))
    }

    /// The thread of a pid that becomes `life`; in place of one that was in one of `before` comes another.
    fn becomes(&mut self, pid: i32, life: Life, before: &[Life]) -> i32 {
        let Some(state) = self.of(pid) else { return pid };
        let is_other = before.contains(&state.0) && state.1 < REUSES_MAX;
        *state = (life, state.1 + u16::from(is_other));
        let number = Self::number(pid, state.1);
        if is_other {
            self.reused.insert(pid);
        }
        number
    }

    fn born(&mut self, pid: i32) -> i32 {
        self.becomes(pid, Life::Born, &[Life::Seen, Life::Ended])
    }

    fn seen(&mut self, pid: i32) -> i32 {
        self.becomes(pid, Life::Seen, &[Life::Ended])
    }

    fn name(&mut self, number: i32, comm: Option<&[u8]>) {
        if let Some(comm) = comm {
            let name = self.names.entry(number).or_default();
            if name != comm {
                comm.clone_into(name);
            }
        }
    }

    /// An event names the thread of a pid, which has not ended.
    fn sees(&mut self, task: &mut TaskFields<'_>) {
        task.pid = self.seen(task.pid);
        if task.pid >= PID_LIMIT {
            self.name(task.pid, task.comm);
        }
    }

    /// An event with numbers of threads in place of pids.
    #[inline]
    fn numbered<'e>(&mut self, what: SchedEvent<'e>) -> SchedEvent<'e> {
        use SchedEvent as E;
        match what {
            E::Switch { mut prev, prev_state, mut next } => {
                self.sees(&mut prev);
                if has_ended(prev_state) {
                    self.name(prev.pid, prev.comm);
                    self.becomes(pid_of(prev.pid), Life::Ended, &[]);
                }
                self.sees(&mut next);
                E::Switch { prev, prev_state, next }
            }
            E::Waking { mut task } => {
                self.sees(&mut task);
                E::Waking { task }
            }
            E::Wakeup { mut task, target_cpu, new } => {
                if new {
                    task.pid = self.born(task.pid);
                } else {
                    self.sees(&mut task);
                }
                E::Wakeup { task, target_cpu, new }
            }
            E::Migrate { pid, prio, orig_cpu, dest_cpu } => E::Migrate { pid: self.now(pid), prio, orig_cpu, dest_cpu },
            E::Fork { parent_pid, child_pid, child_comm } => {
                let (parent_pid, child_pid) = (self.now(parent_pid), self.born(child_pid));
                E::Fork { parent_pid, child_pid, child_comm }
            }
            E::NewTask { pid, clone_flags } => E::NewTask { pid: self.born(pid), clone_flags },
            E::Exec { pid } => E::Exec { pid: self.now(pid) },
            E::Exit { pid, comm } => {
                let pid = self.now(pid);
                self.name(pid, comm);
                E::Exit { pid, comm }
            }
            E::Free { pid } => E::Free { pid: self.now(pid) },
            E::Late { pid, late_ns } => E::Late { pid: self.now(pid), late_ns },
            E::Attach { dst_root, dst_id, dst_path, pid } => {
                E::Attach { dst_root, dst_id, dst_path, pid: self.now(pid) }
            }
            other => other,
        }
    }

    /// The threads of all pids that more than one had.
    pub fn reused(&self) -> Vec<Reused> {
        let of = |&pid: &i32| {
            let last = self.by_pid.get(pid as usize).map_or(0, |state| state.1);
            (0..=last).map(move |nth| {
                let (number, is_last) = (Self::number(pid, nth), nth == last);
                let name = self.names.get(&number);
                Reused { number, pid, name: name.map(|name| String::from_utf8_lossy(name).into_owned()), is_last }
            })
        };
        self.reused.iter().flat_map(of).collect()
    }
}

/// Takes events in time order, each with what it is.
pub trait SchedSink {
    /// One event.
    fn event(&mut self, event: &Event<'_>, what: &SchedEvent<'_>);
}

/// Several take the events of one reading.
impl<S: SchedSink> SchedSink for Vec<S> {
    fn event(&mut self, event: &Event<'_>, what: &SchedEvent<'_>) {
        self.iter_mut().for_each(|sink| sink.event(event, what));
    }
}

/// A reader's sink that decodes for one of scheduling events.
pub fn decoded(sink: &mut impl SchedSink) -> impl Sink {
    let mut decoder = Decoder::default();
    move |event: &Event<'_>| {
        sink.event(event, &decoder.decode(event));
        ControlFlow::Continue(())
    }
}

/// The same of a trace that may be read whole: an event with none of `names` is [`SchedEvent::Other`].
///
/// Threads of one pid are kept apart by numbers of their own, of which `threads` then has those that are no pid. All of
/// [`BIRTHS_AND_ENDS`] have to be among `names`.
pub fn decoded_threads(names: &[&str], sink: &mut impl SchedSink, threads: &mut Threads) -> impl Sink {
    let (mut decoder, mut is_named) = (Decoder::default(), BySchema::default());
    move |event: &Event<'_>| {
        let is_named = *is_named.get(event.schema, |schema| names.contains(&schema.name.as_str()));
        let what = if is_named { decoder.decode(event) } else { SchedEvent::Other };
        threads.chain.event(event.time_ns, event.cpu, &what);
        let (what, mut shown) = (threads.numbered(what), Vec::new());
        threads.sights.event(event.time_ns, event.cpu, &what, &mut shown);
        shown.iter().for_each(|shown| sink.event(event, shown));
        sink.event(event, &what);
        ControlFlow::Continue(())
    }
}

/// Events by which [`Threads`] finds that a pid is another thread's, and that a task runs on a CPU no more.
pub const BIRTHS_AND_ENDS: [&str; 13] = [
    "sched_switch",
    "task_newtask",
    "sched_process_fork",
    "sched_wakeup_new",
    "sched_process_exit",
    "sched_process_free",
    "sched_waking",
    "sched_wakeup",
    "sched_migrate_task",
    "cpu_idle",
    "cpuhp_enter",
    "cpuhp_multi_enter",
    "cpuhp_exit",
];

/// [`BIRTHS_AND_ENDS`], and `own` events; `N` is the number of both.
pub const fn with_births_and_ends<const N: usize>(own: &[&'static str]) -> [&'static str; N] {
    assert!(N == BIRTHS_AND_ENDS.len() + own.len(), "the number of both");
    let (mut all, mut place) = ([""; N], 0);
    while place < N {
        let left = place < BIRTHS_AND_ENDS.len();
        all[place] = if left { BIRTHS_AND_ENDS[place] } else { own[place - BIRTHS_AND_ENDS.len()] };
        place += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use opplab_trace::{ReadOptions, TraceFile};

    /// Goal: what a format does not have is not there, what it must have makes another event of it, and what it learns counts.
    #[test]
    fn events_are_what_their_fields_make_them() {
        let text = "\
            x-7 [002] 0.000001: sched_wakeup: comm=a pid=8\n\
            x-7 [002] 0.000002: cpu_idle_miss: cpu_id=2\n\
            x-7 [002] 0.000003: sched_wakeup_new: comm=a pid=9 prio=4294967295 target_cpu=001\n\
            x-7 [002] 0.000004: sched_wakeup: comm=a pid=8 prio=120 target_cpu=001\n\
            x-7 [002] 0.000005: cpu_idle: state=4294967295 cpu_id=2\n\
            x-7 [002] 0.000006: sched_process_fork: comm=x child_comm=c child_pid=10\n\
            x-7 [002] 0.000007: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=? ==> next_comm=b next_pid=8 next_prio=120\n";
        struct All(Vec<String>);
        impl SchedSink for All {
            fn event(&mut self, _: &Event<'_>, what: &SchedEvent<'_>) {
                let said = match *what {
                    SchedEvent::Wakeup { task, target_cpu, new } => {
                        format!("{} {:?} on {target_cpu}, new: {new}", task.pid, task.prio)
                    }
                    SchedEvent::Switch { prev, prev_state, next } => format!("{} {prev_state} {}", prev.pid, next.pid),
                    SchedEvent::Fork { parent_pid, child_pid, .. } => format!("{parent_pid} {child_pid}"),
                    _ => format!("{what:?}"),
                };
                self.0.push(said);
            }
        }
        let (options, mut all) = (ReadOptions::default(), All(Vec::new()));
        let file = TraceFile::from_bytes(text.as_bytes().to_vec(), &options).unwrap();
        file.stream(&options, &mut decoded(&mut all)).unwrap();
        let expected = [
            "8 None on 2, new: false",
            "Other",
            "9 Some(-1) on 1, new: true",
            "8 Some(120) on 1, new: false",
            "Idle { cpu: 2, state: None }",
            "7 10",
            "7 1 8",
        ];
        assert_eq!(all.0, expected);
    }

    /// Goal: a task that leaves a CPU without having come there shows that events are missing; the first switch shows nothing.
    #[test]
    fn a_chain_of_switches_has_no_gaps() {
        let task = |pid: i32| TaskFields { pid, prio: None, comm: None };
        let mut chain = Chain::default();
        let mut switches = |pairs: &[(u32, i32, i32)]| {
            for &(cpu, prev, next) in pairs {
                chain.event(0, cpu, &SchedEvent::Switch { prev: task(prev), prev_state: 0, next: task(next) });
            }
            let of = |text: &String| text.split(": ").next().unwrap_or_default().to_owned();
            chain.notes(&[]).iter().map(of).collect::<Vec<_>>()
        };
        assert!(switches(&[(0, 7, 0), (1, 0, 8), (0, 0, 9), (1, 8, 0), (0, 9, 7)]).is_empty());
        let notes = switches(&[(0, 9, 0), (1, 0, 8), (1, 0, 9)]);
        assert_eq!(notes, ["before 2 of 8 sched_switch events others are missing"]);
        // What the kernel reported explains it.
        let gap = Missed { cpu: 1, time_ns: 5, count: Some(3) };
        assert!(chain.notes(&[gap])[0].starts_with("3 events are lost"));
    }

    /// Goal: a long time without an event is noted where a task seems to run in it, and where all CPUs were idle it is not.
    #[test]
    fn a_silence_in_which_a_task_runs_is_noted() {
        let task = |pid: i32| TaskFields { pid, prio: None, comm: None };
        let notes = |next: i32, silent_s: u64, more_s: u64| {
            let mut chain = Chain::default();
            let switch = SchedEvent::Switch { prev: task(0), prev_state: 0, next: task(next) };
            for (at_s, what) in [(5, switch), (5 + silent_s, SchedEvent::Other)] {
                chain.event(at_s * 1_000_000_000, 2, &what);
            }
            (0..=2 * more_s).for_each(|half_s| {
                chain.event((5 + silent_s) * 1_000_000_000 + half_s * 500_000_000, 2, &SchedEvent::Other);
            });
            chain.notes(&[])
        };
        let [note] = &notes(7, 60, 0)[..] else { panic!("a jump of a minute") };
        assert!(note.starts_with("no event in 60.000 s from 5.000000 s on, while CPU 2 ran a task: "), "{note}");
        assert!(notes(0, 60, 0).is_empty());
        assert!(notes(7, 1, 0).is_empty());
        // Less than a twentieth of the trace.
        assert!(notes(7, 2, 60).is_empty());
    }

    /// Goal: a CPU that a task was sent to shows its switches, or they are missing. A task that sleeps and was moved does not run there.
    #[test]
    fn a_sleeping_task_that_was_moved_leaves_no_switch() {
        let task = |pid: i32| TaskFields { pid, prio: None, comm: None };
        let notes = |prev_state: u64, is_woken: bool| {
            let mut chain = Chain::default();
            let events = [
                Some(SchedEvent::Switch { prev: task(0), prev_state: 0, next: task(7) }),
                Some(SchedEvent::Switch { prev: task(7), prev_state, next: task(0) }),
                is_woken.then_some(SchedEvent::Waking { task: task(7) }),
                Some(SchedEvent::Migrate { pid: 7, prio: None, orig_cpu: Some(1), dest_cpu: 5 }),
                Some(SchedEvent::Other),
            ];
            for (at, what) in (1..).zip(events.iter().flatten()) {
                chain.event(at * 2 * SENT_NS, 1, what);
            }
            chain.notes(&[]).join(" ")
        };
        let unseen = "CPU 5 has no sched_switch event, although tasks were woken on or moved to there";
        assert_eq!(notes(1, false), "");
        assert!(notes(1, true).starts_with(unseen));
        // Preempted, it wants to run.
        assert!(notes(0x100, false).starts_with(unseen) && notes(0, false).starts_with(unseen));
    }

    #[test]
    fn a_mark_has_the_settings_of_a_task() {
        let check = |mark: &str, key: &str, value: Option<(i32, &str)>| {
            assert_eq!(setting(mark.as_bytes(), key), value, "{mark}");
        };
        check("opplab: task 7 dl_runtime_ns=1 dl_deadline_ns=20\n", "dl_deadline_ns", Some((7, "20")));
        check("opplab: task 7 util_min=- util_max=5", "dl_deadline_ns", None);
        check("opplab: task x dl_deadline_ns=20", "dl_deadline_ns", None);
        check("rtapp: task 7 dl_deadline_ns=20", "dl_deadline_ns", None);
    }

    /// Goal: a pid that is used again is another thread, with the name that the first one had at its end; one birth is one thread.
    #[test]
    fn threads_of_one_pid_are_kept_apart() {
        let switch = |us: u32, prev: (&str, u32, &str), next: (&str, u32)| {
            format!(
                "x-0 [000] 0.{us:06}: sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={} ==> next_comm={} \
                 next_pid={} next_prio=120\n",
                prev.0, prev.1, prev.2, next.0, next.1
            )
        };
        let born = |us: u32, pid: u32| {
            format!(
                "x-1 [000] 0.{us:06}: task_newtask: pid={pid} comm=sh clone_flags=1200000 oom_score_adj=0\n\
                 x-1 [000] 0.{us:06}: sched_process_fork: comm=sh pid=1 child_comm=sh child_pid={pid}\n\
                 x-1 [000] 0.{us:06}: sched_wakeup_new: comm=sh pid={pid} prio=120 target_cpu=000\n"
            )
        };
        let text = [
            born(1, 7),
            switch(2, ("idle", 0, "R"), ("sh", 7)),
            switch(3, ("sh", 7, "S"), ("idle", 0)),
            switch(4, ("idle", 0, "R"), ("ls", 7)),
            switch(5, ("ls", 7, "X"), ("idle", 0)),
            // By its birth, although the end is known; then by its events alone; then by a birth without an end.
            born(6, 7),
            switch(7, ("idle", 0, "R"), ("cat", 7)),
            switch(8, ("cat", 7, "Z"), ("idle", 0)),
            switch(9, ("idle", 0, "R"), ("tr", 7)),
            switch(10, ("tr", 7, "S"), ("idle", 0)),
            born(11, 7),
            switch(12, ("idle", 0, "R"), ("wc", 7)),
            switch(13, ("wc", 7, "S"), ("idle", 0)),
        ];
        struct Ran(Vec<i32>);
        impl SchedSink for Ran {
            fn event(&mut self, _: &Event<'_>, what: &SchedEvent<'_>) {
                if let SchedEvent::Switch { next, .. } = what
                    && next.pid != 0
                {
                    self.0.push(next.pid);
                }
            }
        }
        let (options, mut ran, mut threads) = (ReadOptions::default(), Ran(Vec::new()), Threads::default());
        let file = TraceFile::from_bytes(text.concat().into_bytes(), &options).unwrap();
        file.stream(&options, &mut decoded_threads(&BIRTHS_AND_ENDS, &mut ran, &mut threads)).unwrap();
        let nth = |nth: i32| 7 + nth * PID_LIMIT;
        assert_eq!(ran.0, [7, 7, nth(1), nth(2), nth(3)]);
        let reused = |nth_of: i32, name: Option<&str>| Reused {
            number: nth(nth_of),
            pid: 7,
            name: name.map(str::to_owned),
            is_last: nth_of == 3,
        };
        let names = ["ls", "cat", "tr", "wc"];
        assert_eq!(threads.reused(), [0, 1, 2, 3].map(|nth| reused(nth, Some(names[nth as usize]))));
    }
}
