//! A simulated run as a kernel trace, in the forms of crate `trace`: Perfetto, `trace.dat`, ftrace text.
//!
//! Events have the kernel's names and fields (include/trace/events/sched.h and power.h, v6.12). The kernel's bare
//! tracepoints (`pelt_se_tp`, ...) and our own decisions have no format there; they are written with the fields of
//! [`Event`] to `trace.dat` and text, and become counter tracks in Perfetto.

use std::collections::BTreeMap;

use opplab_model::event::{Event, IDLE_TASK, Sink};
use opplab_trace::write::{EventId, PerfettoWriter, TraceBuilder};
use opplab_trace::{Kind, Trace, Value};

/// Task `n` has the pid `FIRST_PID + n`.
pub(crate) const FIRST_PID: i32 = 1001;
/// Priority of a task of nice 0 as trace events print it.
const PRIO: i64 = 120;

const SIGNED: Kind = Kind::Int { signed: true, hex: false };
const UNSIGNED: Kind = Kind::Int { signed: false, hex: false };

/// A counter of a CPU, task, policy or cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Track {
    Overutilized,
    Request,
    ClusterIdle,
    CpuUtil,
    TaskUtil,
    TaskUtilEst,
}

struct Ids {
    switch: EventId,
    waking: EventId,
    wakeup_new: EventId,
    migrate: EventId,
    exit: EventId,
    frequency: EventId,
    idle: EventId,
}

/// Events that have no format in the kernel.
struct InternalIds {
    pelt_se: EventId,
    pelt_cfs: EventId,
    util_est_se: EventId,
    overutilized: EventId,
    request: EventId,
    placement: EventId,
    activation: EventId,
}

/// A sink that makes a [`Trace`].
pub(crate) struct SimTrace {
    builder: TraceBuilder,
    ids: Ids,
    internal: Option<InternalIds>,
    names: Vec<String>,
    curr: Vec<i32>,
    counters: BTreeMap<(Track, u32), Vec<(u64, i64)>>,
}

fn pid(task: u32) -> i32 {
    if task == IDLE_TASK { 0 } else { FIRST_PID + task as i32 }
}

impl SimTrace {
    /// A trace of a machine with `nr_cpus` CPUs and the tasks of these names, by index. With `internal` the events that
    /// have no format in the kernel are part of it.
    pub(crate) fn new(nr_cpus: usize, names: Vec<String>, internal: bool) -> Self {
        let mut builder = TraceBuilder::new(nr_cpus as u32);
        for (task, name) in names.iter().enumerate() {
            builder.task(pid(task as u32), name);
        }
        let task = [("comm", Kind::Str), ("pid", SIGNED), ("prio", SIGNED)];
        let wake = [task[0], task[1], task[2], ("target_cpu", SIGNED)];
        let migrate = [task[0], task[1], task[2], ("orig_cpu", SIGNED), ("dest_cpu", SIGNED)];
        let switch = [
            ("prev_comm", Kind::Str),
            ("prev_pid", SIGNED),
            ("prev_prio", SIGNED),
            ("prev_state", SIGNED),
            ("next_comm", Kind::Str),
            ("next_pid", SIGNED),
            ("next_prio", SIGNED),
        ];
        let power = [("state", UNSIGNED), ("cpu_id", UNSIGNED)];
        let ids = Ids {
            switch: builder.event("sched", "sched_switch", &switch),
            waking: builder.event("sched", "sched_waking", &wake),
            wakeup_new: builder.event("sched", "sched_wakeup_new", &wake),
            migrate: builder.event("sched", "sched_migrate_task", &migrate),
            exit: builder.event("sched", "sched_process_exit", &task),
            frequency: builder.event("power", "cpu_frequency", &power),
            idle: builder.event("power", "cpu_idle", &power),
        };
        let internal = internal.then(|| Self::declare_internal(&mut builder));
        Self { builder, ids, internal, names, curr: vec![0; nr_cpus], counters: BTreeMap::new() }
    }

    fn declare_internal(builder: &mut TraceBuilder) -> InternalIds {
        let (cpu, comm, pid) = (("cpu", SIGNED), ("comm", Kind::Str), ("pid", SIGNED));
        let load = [("load", UNSIGNED), ("runnable", UNSIGNED), ("util", UNSIGNED)];
        InternalIds {
            pelt_se: builder.event("opplab", "pelt_se_tp", &[cpu, comm, pid, load[0], load[1], load[2]]),
            pelt_cfs: builder.event("opplab", "pelt_cfs_tp", &[cpu, load[0], load[1], load[2]]),
            util_est_se: builder.event(
                "opplab",
                "sched_util_est_se_tp",
                &[cpu, comm, pid, ("enqueued", UNSIGNED), ("util", UNSIGNED)],
            ),
            overutilized: builder.event("opplab", "sched_overutilized_tp", &[("overutilized", SIGNED)]),
            request: builder.event(
                "opplab",
                "freq_request",
                &[("state", UNSIGNED), ("cpu_id", UNSIGNED), ("util", UNSIGNED), ("max", UNSIGNED)],
            ),
            placement: builder.event(
                "opplab",
                "placement",
                &[comm, pid, ("prev_cpu", SIGNED), ("cpu", SIGNED), ("rule", UNSIGNED)],
            ),
            activation: builder.event(
                "opplab",
                "activation",
                &[
                    comm,
                    pid,
                    ("phase", UNSIGNED),
                    ("period", UNSIGNED),
                    ("run", UNSIGNED),
                    ("wu_lat", UNSIGNED),
                    ("slack", SIGNED),
                ],
            ),
        }
    }

    /// The trace.
    pub(crate) fn into_trace(self) -> Trace {
        self.builder.finish()
    }

    /// The trace as Perfetto protobuf, with counter tracks.
    pub(crate) fn into_perfetto(self) -> Vec<u8> {
        let mut writer = PerfettoWriter::new();
        let (names, counters) = (self.names, self.counters);
        writer.add_trace(&self.builder.finish());
        for ((track, index), values) in counters {
            let name = |task: u32| names.get(task as usize).map_or_else(|| task.to_string(), Clone::clone);
            let (text, unit) = match track {
                Track::Overutilized => (String::from("overutilized"), ""),
                Track::Request => (format!("requested frequency, policy of cpu {index}"), "kHz"),
                Track::ClusterIdle => (format!("cluster {index} idle state"), ""),
                Track::CpuUtil => (format!("util_avg cpu {index}"), ""),
                Track::TaskUtil => (format!("util_avg {} {}", name(index), pid(index)), ""),
                Track::TaskUtilEst => (format!("util_est {} {}", name(index), pid(index)), ""),
            };
            let id = writer.counter_track(&text, unit, None);
            for (time_ns, value) in values {
                writer.counter(id, time_ns, value);
            }
        }
        writer.finish()
    }

    fn push(&mut self, id: EventId, now_ns: u64, cpu: u32, values: &[Value<'_>]) {
        let context = self.curr.get(cpu as usize).copied().unwrap_or(0);
        self.builder.push(id, now_ns, cpu, context, values);
    }

    fn count(&mut self, track: Track, index: u32, now_ns: u64, value: i64) {
        self.counters.entry((track, index)).or_default().push((now_ns, value));
    }

    fn comm(&self, cpu: u32, task: u32) -> String {
        match self.names.get(task as usize) {
            Some(name) => name.clone(),
            None => format!("swapper/{cpu}"),
        }
    }
}

fn int(value: impl Into<i64>) -> Value<'static> {
    Value::I64(value.into())
}

fn uint(value: impl Into<u64>) -> Value<'static> {
    Value::U64(value.into())
}

impl Sink for SimTrace {
    fn event(&mut self, now_ns: u64, event: &Event) {
        match *event {
            Event::SchedSwitch { cpu, prev, prev_state, next } => {
                let (from, to) = (self.comm(cpu, prev), self.comm(cpu, next));
                let values = [
                    Value::Str(from.as_bytes()),
                    int(pid(prev)),
                    int(PRIO),
                    int(prev_state as u8),
                    Value::Str(to.as_bytes()),
                    int(pid(next)),
                    int(PRIO),
                ];
                self.push(self.ids.switch, now_ns, cpu, &values);
                self.curr[cpu as usize] = pid(next);
            }
            Event::SchedWaking { cpu, task, target_cpu } | Event::SchedWakeupNew { cpu, task, target_cpu } => {
                let waking = matches!(event, Event::SchedWaking { .. });
                let id = if waking { self.ids.waking } else { self.ids.wakeup_new };
                let comm = self.comm(cpu, task);
                let values = [Value::Str(comm.as_bytes()), int(pid(task)), int(PRIO), int(target_cpu)];
                self.push(id, now_ns, cpu, &values);
            }
            Event::SchedMigrateTask { task, orig_cpu, dest_cpu } => {
                let comm = self.comm(orig_cpu, task);
                let values = [Value::Str(comm.as_bytes()), int(pid(task)), int(PRIO), int(orig_cpu), int(dest_cpu)];
                self.push(self.ids.migrate, now_ns, dest_cpu, &values);
            }
            Event::SchedProcessExit { task } => {
                let cpu = self.curr.iter().position(|&curr| curr == pid(task)).unwrap_or(0) as u32;
                let comm = self.comm(cpu, task);
                self.push(self.ids.exit, now_ns, cpu, &[Value::Str(comm.as_bytes()), int(pid(task)), int(PRIO)]);
            }
            Event::CpuFrequency { cpu, khz } => self.push(self.ids.frequency, now_ns, cpu, &[uint(khz), uint(cpu)]),
            // Leaving is the 32-bit -1, as the kernel prints it.
            Event::CpuIdle { cpu, state } => {
                self.push(self.ids.idle, now_ns, cpu, &[uint(state as u32), uint(cpu)]);
            }
            Event::ClusterIdle { cluster, state } => self.count(Track::ClusterIdle, cluster, now_ns, state.into()),
            Event::PeltCfs { cpu, load_avg, runnable_avg, util_avg } => {
                self.count(Track::CpuUtil, cpu, now_ns, util_avg.into());
                if let Some(ids) = &self.internal {
                    let id = ids.pelt_cfs;
                    self.push(id, now_ns, cpu, &[int(cpu), uint(load_avg), uint(runnable_avg), uint(util_avg)]);
                }
            }
            Event::PeltSe { cpu, task, load_avg, runnable_avg, util_avg } => {
                self.count(Track::TaskUtil, task, now_ns, util_avg.into());
                if let Some(ids) = &self.internal {
                    let (id, comm) = (ids.pelt_se, self.comm(cpu, task));
                    let task = [int(cpu), Value::Str(comm.as_bytes()), int(pid(task))];
                    let values = [task[0], task[1], task[2], uint(load_avg), uint(runnable_avg), uint(util_avg)];
                    self.push(id, now_ns, cpu, &values);
                }
            }
            Event::UtilEstSe { cpu, task, util_est, util_avg } => {
                self.count(Track::TaskUtilEst, task, now_ns, util_est.into());
                if let Some(ids) = &self.internal {
                    let (id, comm) = (ids.util_est_se, self.comm(cpu, task));
                    let values =
                        [int(cpu), Value::Str(comm.as_bytes()), int(pid(task)), uint(util_est), uint(util_avg)];
                    self.push(id, now_ns, cpu, &values);
                }
            }
            Event::FreqRequest { cpu, khz, util, max } => {
                self.count(Track::Request, cpu, now_ns, khz.into());
                if let Some(ids) = &self.internal {
                    let id = ids.request;
                    self.push(id, now_ns, cpu, &[uint(khz), uint(cpu), uint(util), uint(max)]);
                }
            }
            Event::SchedOverutilized { overutilized } => {
                self.count(Track::Overutilized, 0, now_ns, overutilized.into());
                if let Some(ids) = &self.internal {
                    let id = ids.overutilized;
                    self.push(id, now_ns, 0, &[int(overutilized)]);
                }
            }
            Event::Placement { task, prev_cpu, cpu, rule } => {
                if let Some(ids) = &self.internal {
                    let (id, comm) = (ids.placement, self.comm(cpu, task));
                    let values =
                        [Value::Str(comm.as_bytes()), int(pid(task)), int(prev_cpu), int(cpu), uint(rule as u8)];
                    self.push(id, now_ns, cpu, &values);
                }
            }
            Event::Activation { task, phase, period_ns, run_ns, wu_lat_ns, slack_ns } => {
                if let Some(ids) = &self.internal {
                    let id = ids.activation;
                    let cpu = self.curr.iter().position(|&curr| curr == pid(task)).unwrap_or(0) as u32;
                    let comm = self.comm(cpu, task);
                    let head = [Value::Str(comm.as_bytes()), int(pid(task)), uint(phase)];
                    let values =
                        [head[0], head[1], head[2], uint(period_ns), uint(run_ns), uint(wu_lat_ns), int(slack_ns)];
                    self.push(id, now_ns, cpu, &values);
                }
            }
        }
    }
}
