//! What a kernel itself records of its run queues' averages: `pelt_cfs_tp` and the like, under the names that modules and probes gave them.
//!
//! ```text
//!  ..pelt_cfs, ..load_cfs_rq   util_avg, load_avg, runnable_avg of the fair class     each time that they change
//!  ..upd_cfs                   the same                                               before an update
//!  ..util_est_cfs              the sum of the queued tasks' estimates
//!  ..pelt_rt, ..pelt_dl        of the other classes
//!  cpu, util, bw_min           what schedutil took of a CPU (its lower bound: bandwidth of deadline tasks)
//! ```
//! A simulated run records all that its governors see at each call (`cpu_facts`).
//!
//! Only root queues count: those of a group are recognised by their `path`, or by an entity's `myq`.

use std::collections::{BTreeMap, BTreeSet};

use opplab_kernel::cpufreq::facts::CpuFacts;
use opplab_signals::pelt::CpuUtil;
use opplab_trace::{CPU_FACTS, Event, Schema};

/// The fair class's averages of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fair {
    /// Since when it holds: time since the first event, ns.
    pub time_ns: u64,
    /// 0..1024.
    pub util_avg: u32,
    /// In units of load weight, if it is recorded.
    pub load_avg: Option<u32>,
    /// 1024 for each task that is always runnable, if it is recorded.
    runnable_avg: Option<u32>,
    /// As of the beginning of an update, not of its end.
    before: bool,
    /// The queue's address; 0 if it is not recorded.
    queue: i64,
}

/// What was recorded of one CPU, each in time order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Cpu {
    fair: Vec<Fair>,
    util_est: Vec<(u64, u32)>,
    util_rt: Vec<(u64, u32)>,
    util_dl: Vec<(u64, u32)>,
    bw_min: Vec<(u64, u32)>,
    /// With the number of calls before.
    facts: Vec<(u64, u32, CpuFacts)>,
}

/// All records of a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    cpus: BTreeMap<u32, Cpu>,
}

/// Takes the records of a trace as they come.
#[derive(Debug, Default)]
pub(crate) struct RecordReader {
    records: Records,
    /// Queues that belong to a group.
    groups: BTreeSet<i64>,
    /// By queue, where the beginnings of updates are recorded: when one began that has not ended.
    updates: BTreeMap<i64, Option<u64>>,
    /// By executing CPU: its last call of a governor.
    called_ns: BTreeMap<u32, u64>,
    nr_calls: u32,
}

/// A task that joins or leaves a queue's averages lets the governor be called first, then the record be written, within this time
/// (fair.c:attach_entity_load_avg(), v6.12).
const RECORD_FOLLOWS_NS: u64 = 100_000;

/// The last of the values up to `time_ns`.
fn last<T: Copy>(list: &[T], time_ns: u64, time: impl Fn(&T) -> u64) -> Option<T> {
    list.partition_point(|entry| time(entry) <= time_ns).checked_sub(1).map(|at| list[at])
}

impl Records {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.cpus.values().all(|cpu| cpu.fair.is_empty())
    }

    /// The fair class's averages of `cpu`: the last record up to `time_ns`, or the first one after.
    pub fn fair(&self, cpu: u32, time_ns: u64) -> Option<Fair> {
        let list = &self.cpus.get(&cpu)?.fair;
        last(list, time_ns, |fair| fair.time_ns).or_else(|| list.first().copied())
    }

    /// `util`, as of `time_ns`, with what was recorded up to then in place of what was rebuilt.
    pub fn correct(&self, cpu: u32, time_ns: u64, util: &mut CpuUtil) {
        let Some(records) = self.cpus.get(&cpu) else { return };
        // Of a trace that only records averages before an update it is not known when they changed.
        let fair = last(&records.fair, time_ns, |fair| fair.time_ns).filter(|fair| !fair.before);
        if let Some(fair) = fair {
            util.util_avg = fair.util_avg.into();
            util.runnable_avg = fair.runnable_avg.map_or(util.runnable_avg, u64::from);
        }
        let value = |list: &[(u64, u32)]| last(list, time_ns, |entry| entry.0).map(|(_, value)| value);
        util.util_est = value(&records.util_est).unwrap_or(util.util_est);
        util.util_rt = value(&records.util_rt).map_or(util.util_rt, u64::from);
        util.util_dl = value(&records.util_dl).map_or(util.util_dl, u64::from);
    }

    /// The bandwidth of `cpu`'s deadline tasks in parts of 1024 that its governor took in a call at `time_ns`, if it was recorded.
    pub fn bw_dl(&self, cpu: u32, time_ns: u64) -> Option<u32> {
        last(&self.cpus.get(&cpu)?.bw_min, time_ns, |entry| entry.0).map(|(_, bw)| bw)
    }

    /// All that the governor of `cpu` saw of it in call number `call`, else at `time_ns`, if it was recorded; without the capacity.
    pub fn facts(&self, cpu: u32, call: Option<u32>, time_ns: u64) -> Option<CpuFacts> {
        let list = &self.cpus.get(&cpu)?.facts;
        let seen = match call {
            Some(call) => last(list, call.into(), |entry| entry.1.into()),
            None => last(list, time_ns, |entry| entry.0),
        };
        seen.map(|(_, _, facts)| facts)
    }
}

impl RecordReader {
    /// `by_cpu` calls a governor; the call's number.
    pub(crate) fn called(&mut self, time_ns: u64, by_cpu: u32) -> u32 {
        self.called_ns.insert(by_cpu, time_ns);
        self.nr_calls += 1;
        self.nr_calls - 1
    }

    /// The last call of a governor by `cpu`, if a record at `time_ns` follows it.
    fn just_called_ns(&self, cpu: u32, time_ns: u64) -> Option<u64> {
        let called_ns = self.called_ns.get(&cpu).copied();
        called_ns.filter(|since| since.saturating_add(RECORD_FOLLOWS_NS) > time_ns)
    }

    /// Takes a record.
    pub(crate) fn take(&mut self, time_ns: u64, role: &Role, event: &Event<'_>) -> Option<()> {
        let value = |place: Option<usize>| event.int(place?);
        let average = |place: Option<usize>| value(place).and_then(|value| u32::try_from(value).ok());
        if let Role::Entity { group } = *role {
            self.groups.extend(event.int(group).filter(|&group| group != 0));
            return Some(());
        }
        if let Role::Facts { cpu, fields } = *role {
            let mut numbers = [0; CpuFacts::FIELDS.len()];
            for (number, place) in numbers.iter_mut().zip(fields) {
                *number = event.int(place)? as u64;
            }
            let facts = &mut self.records.cpus.entry((event.int(cpu)? as u32) & 0xffff).or_default().facts;
            facts.push((time_ns, self.nr_calls, CpuFacts::of_numbers(numbers)));
            return Some(());
        }
        let Role::Queue { of, cpu, util, runnable, load, queue, path } = *role else { return None };
        if let Some(path) = path.and_then(|path| event.str(path))
            && !matches!(path, b"/" | b"" | b"(null)")
        {
            return None;
        }
        let called_ns = self.just_called_ns(event.cpu & 0xffff, time_ns);
        let cpu = self.records.cpus.entry((event.int(cpu)? as u32) & 0xffff).or_default();
        let util_avg = average(Some(util))?;
        let list = match of {
            Of::FairAfter | Of::FairBefore if util_avg <= 1024 => {
                let before = of == Of::FairBefore;
                let (load_avg, runnable_avg) = (average(load), average(runnable));
                let queue = value(queue).unwrap_or(0);
                let moved = if before {
                    self.updates.insert(queue, Some(time_ns));
                    false
                } else {
                    // An update calls the governor after its own record, if it has one.
                    let update = self.updates.get_mut(&queue).map(Option::take);
                    update.is_some_and(|begun_ns| begun_ns.is_none_or(|begun_ns| called_ns > Some(begun_ns)))
                };
                let time_ns = called_ns.filter(|_| moved).unwrap_or(time_ns);
                cpu.fair.push(Fair { time_ns, util_avg, load_avg, runnable_avg, before, queue });
                return Some(());
            }
            Of::FairAfter | Of::FairBefore => return None,
            Of::UtilEst => &mut cpu.util_est,
            Of::RealTime => &mut cpu.util_rt,
            Of::Deadline => &mut cpu.util_dl,
            Of::Bandwidth => {
                // It is written in the midst of the call. All of the CPU is what a real-time task asks for.
                if util_avg < 1024 {
                    cpu.bw_min.push((called_ns.unwrap_or(time_ns), util_avg));
                }
                return Some(());
            }
        };
        list.push((time_ns, util_avg));
        Some(())
    }

    /// The records of root queues; those before updates only where there are no others.
    pub(crate) fn finish(mut self) -> Records {
        for cpu in self.records.cpus.values_mut() {
            cpu.fair.retain(|fair| !self.groups.contains(&fair.queue));
            if cpu.fair.iter().any(|fair| !fair.before) {
                cpu.fair.retain(|fair| !fair.before);
            }
            cpu.fair.sort_by_key(|fair| fair.time_ns);
            cpu.bw_min.sort_by_key(|&(time_ns, _)| time_ns);
        }
        self.records
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    FairAfter,
    FairBefore,
    UtilEst,
    RealTime,
    Deadline,
    Bandwidth,
}

/// What an event is to the records, with the places of its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Other,
    /// Of a simulated run: the places of [`CpuFacts::FIELDS`].
    Facts {
        cpu: usize,
        fields: [usize; CpuFacts::FIELDS.len()],
    },
    /// Of an entity: the place of the queue that it owns.
    Entity {
        group: usize,
    },
    Queue {
        of: Of,
        cpu: usize,
        util: usize,
        runnable: Option<usize>,
        load: Option<usize>,
        queue: Option<usize>,
        path: Option<usize>,
    },
}

impl Role {
    pub(crate) fn of(schema: &Schema) -> Self {
        let place = |names: &[&str]| names.iter().find_map(|name| schema.field_index(name));
        if schema.name == CPU_FACTS {
            let fields = CpuFacts::FIELDS.map(|name| schema.field_index(name));
            let cpu = schema.field_index("cpu_id").filter(|_| fields.iter().all(Option::is_some));
            return cpu.map_or(Role::Other, |cpu| Role::Facts { cpu, fields: fields.map(Option::unwrap_or_default) });
        }
        if let Some(group) = place(&["myq"]) {
            return Role::Entity { group };
        }
        // The fair class's probes give the queue's address, whatever they are called.
        let named = |names: &[&str]| names.iter().any(|name| schema.name.ends_with(name));
        let of = if named(&["pelt_rt", "load_rt_rq"]) {
            Of::RealTime
        } else if named(&["pelt_dl", "load_dl_rq"]) {
            Of::Deadline
        } else if named(&["util_est_cfs", "util_est_cfs_unified"]) {
            Of::UtilEst
        } else if named(&["pelt_cfs", "load_cfs_rq"]) {
            Of::FairAfter
        } else if schema.field_index("cfs").is_some() {
            Of::FairBefore
        } else if schema.field_index("bw_min").is_some() {
            Of::Bandwidth
        } else {
            return Role::Other;
        };
        let util = match of {
            Of::UtilEst => place(&["util_est", "enqueued", "est_enqueued"]),
            Of::Bandwidth => place(&["bw_min"]),
            _ => place(&["util_avg", "util"]),
        };
        let Some((cpu, util)) = place(&["pcpu", "cpu"]).zip(util) else { return Role::Other };
        let [runnable, load] = [&["runnable_avg", "runnable"], &["load_avg", "load"]].map(|names| place(names));
        Role::Queue { of, cpu, util, runnable, load, queue: place(&["cfs"]), path: place(&["path"]) }
    }
}
