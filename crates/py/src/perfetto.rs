//! Writes the events of a run as a Perfetto trace (protobuf), as ui.perfetto.dev and trace_processor read it.
//!
//! What becomes what: `sched_switch`, `sched_waking`, `sched_wakeup_new`, `cpu_frequency` and `cpu_idle` become ftrace
//! events, from which Perfetto makes a track of task slices, a frequency counter and an idle counter for each CPU;
//! `util_avg` of CPUs and tasks, what governors asked for, and the overutilised state become counter tracks of their own.
//! Message and field numbers are those of Perfetto's public `trace_packet.proto`, `ftrace_event.proto`,
//! `track_event.proto` and `track_descriptor.proto`. Does not read, and compresses nothing.

use opplab_model::event::{Event, IDLE_TASK, Sink};

/// Pid of the process that all simulated tasks belong to; task `n` has the tid `PROCESS + 1 + n`.
const PROCESS: u64 = 1000;
/// The one packet sequence of the file.
const SEQUENCE: u64 = 1;
/// A bundle of ftrace events is written when it is this long.
const BUNDLE_BYTES: usize = 16 << 10;

/// Tracks of our own: the kind, then the index of the CPU or task.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Track {
    CpuUtil = 1,
    TaskUtil = 2,
    TaskUtilEst = 3,
    Request = 4,
    Overutilized = 5,
    ClusterIdle = 6,
}

/// A protobuf message under construction.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// An integer field (wire type 0); negative values as their two's complement, as int32 and int64 want.
    fn int(&mut self, field: u64, value: u64) -> &mut Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    /// A string or message field (wire type 2).
    fn bytes(&mut self, field: u64, bytes: &[u8]) -> &mut Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn message(&mut self, field: u64, fill: impl FnOnce(&mut Message)) -> &mut Self {
        let mut inner = Message::default();
        fill(&mut inner);
        self.bytes(field, &inner.0)
    }
}

/// A sink that writes a Perfetto trace.
pub(crate) struct Perfetto {
    out: Message,
    task_names: Vec<String>,
    /// One unfinished `FtraceEventBundle` a CPU.
    bundles: Vec<Message>,
    /// Tracks that have a descriptor already.
    described: Vec<u64>,
}

impl Perfetto {
    /// A trace of a machine with `nr_cpus` CPUs and the tasks of these names, by index.
    pub(crate) fn new(process: &str, nr_cpus: usize, task_names: Vec<String>) -> Self {
        let mut out = Message::default();
        out.message(1, |packet| {
            packet.int(10, SEQUENCE).int(13, 1).int(8, 0);
            // ProcessTree: one process, one thread a task.
            packet.message(2, |tree| {
                tree.message(1, |entry| {
                    entry.int(1, PROCESS).bytes(3, process.as_bytes());
                });
                for (index, name) in task_names.iter().enumerate() {
                    tree.message(2, |thread| {
                        thread.int(1, tid(index as u32)).bytes(2, name.as_bytes()).int(3, PROCESS);
                    });
                }
            });
        });
        Self { out, task_names, bundles: (0..nr_cpus).map(|_| Message::default()).collect(), described: Vec::new() }
    }

    /// The whole file.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        for cpu in 0..self.bundles.len() {
            self.flush(cpu);
        }
        self.out.0
    }

    fn flush(&mut self, cpu: usize) {
        let bundle = std::mem::take(&mut self.bundles[cpu]);
        if bundle.0.is_empty() {
            return;
        }
        self.out.message(1, |packet| {
            packet.int(10, SEQUENCE);
            packet.message(1, |message| {
                message.int(1, cpu as u64);
                message.0.extend_from_slice(&bundle.0);
            });
        });
    }

    fn comm(&self, cpu: u32, task: u32) -> String {
        match self.task_names.get(task as usize) {
            Some(name) => name.clone(),
            None if task == IDLE_TASK => format!("swapper/{cpu}"),
            None => format!("task {task}"),
        }
    }

    /// Adds one ftrace event of oneof number `kind`, recorded on `cpu` while thread `pid` ran there.
    fn ftrace(&mut self, now_ns: u64, cpu: u32, pid: u64, kind: u64, fill: impl FnOnce(&mut Message)) {
        let cpu = cpu as usize;
        self.bundles[cpu].message(2, |event| {
            event.int(1, now_ns).int(2, pid).message(kind, fill);
        });
        if self.bundles[cpu].0.len() >= BUNDLE_BYTES {
            self.flush(cpu);
        }
    }

    /// Adds a value to a counter track of ours.
    fn counter(&mut self, now_ns: u64, track: Track, index: u32, value: i64) {
        let uuid = (track as u64) << 32 | u64::from(index);
        if let Err(place) = self.described.binary_search(&uuid) {
            self.described.insert(place, uuid);
            let name = match track {
                Track::CpuUtil => format!("util_avg cpu{index}"),
                Track::TaskUtil => format!("util_avg {} [{}]", self.comm(0, index), tid(index)),
                Track::TaskUtilEst => format!("util_est {} [{}]", self.comm(0, index), tid(index)),
                Track::Request => format!("requested kHz policy{index}"),
                Track::Overutilized => String::from("overutilized"),
                Track::ClusterIdle => format!("cluster {index} idle state"),
            };
            self.out.message(1, |packet| {
                packet.int(10, SEQUENCE).message(60, |descriptor| {
                    descriptor.int(1, uuid).bytes(2, name.as_bytes()).message(8, |_| {});
                });
            });
        }
        self.out.message(1, |packet| {
            packet.int(8, now_ns).int(10, SEQUENCE).message(11, |event| {
                event.int(9, 4).int(11, uuid).int(30, value as u64);
            });
        });
    }
}

fn tid(task: u32) -> u64 {
    if task == IDLE_TASK { 0 } else { PROCESS + 1 + u64::from(task) }
}

/// Priority as ftrace prints it for a task of nice 0.
const PRIO: u64 = 120;

impl Sink for Perfetto {
    fn event(&mut self, now_ns: u64, event: &Event) {
        match *event {
            Event::SchedSwitch { cpu, prev, prev_state, next } => {
                let (from, to) = (self.comm(cpu, prev), self.comm(cpu, next));
                self.ftrace(now_ns, cpu, tid(prev), 4, |message| {
                    message.bytes(1, from.as_bytes()).int(2, tid(prev)).int(3, PRIO).int(4, prev_state as u64);
                    message.bytes(5, to.as_bytes()).int(6, tid(next)).int(7, PRIO);
                });
            }
            Event::SchedWaking { cpu, task, target_cpu } | Event::SchedWakeupNew { cpu, task, target_cpu } => {
                let kind = if matches!(event, Event::SchedWaking { .. }) { 20 } else { 114 };
                let comm = self.comm(cpu, task);
                self.ftrace(now_ns, cpu, 0, kind, |message| {
                    message.bytes(1, comm.as_bytes()).int(2, tid(task)).int(3, PRIO).int(4, 1);
                    message.int(5, target_cpu.into());
                });
            }
            Event::CpuFrequency { cpu, khz } => self.ftrace(now_ns, cpu, 0, 11, |message| {
                message.int(1, khz.into()).int(2, cpu.into());
            }),
            // Leaving is the 32-bit -1, as the kernel prints it.
            Event::CpuIdle { cpu, state } => self.ftrace(now_ns, cpu, 0, 13, |message| {
                message.int(1, u64::from(state as u32)).int(2, cpu.into());
            }),
            Event::ClusterIdle { cluster, state } => self.counter(now_ns, Track::ClusterIdle, cluster, state.into()),
            Event::PeltCfs { cpu, util_avg, .. } => self.counter(now_ns, Track::CpuUtil, cpu, util_avg.into()),
            Event::PeltSe { task, util_avg, .. } => self.counter(now_ns, Track::TaskUtil, task, util_avg.into()),
            Event::UtilEstSe { task, util_est, .. } => self.counter(now_ns, Track::TaskUtilEst, task, util_est.into()),
            Event::FreqRequest { cpu, khz, .. } => self.counter(now_ns, Track::Request, cpu, khz.into()),
            Event::SchedOverutilized { overutilized } => {
                self.counter(now_ns, Track::Overutilized, 0, overutilized.into());
            }
            Event::SchedMigrateTask { .. }
            | Event::SchedProcessExit { .. }
            | Event::Placement { .. }
            | Event::Activation { .. } => {}
        }
    }
}
