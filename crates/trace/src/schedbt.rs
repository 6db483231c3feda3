//! SchedViz's bpftrace log: a line an event, all numbers in base 16, times since the start.
//!
//! ```text
//!  ST:0:start                          when the log started
//!  P:time:pid:prio:comm                what a task is called, before its first event
//!  S:time:cpu:prev_pid:prev_state:next_pid
//!  W:time:cpu:target_cpu:pid           also for new tasks
//!  M:time:cpu:orig_cpu:dest_cpu:pid
//! ```
//! They become `sched_switch`, `sched_wakeup` and `sched_migrate_task` with the fields of the kernel's own events.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::clock::{Clock, TIME_MAX_NS};
use crate::error::{Error, Result};
use crate::event::{Body, Event, FieldDef, Kind, Loc, Schema, Sink, Value};
use crate::reader::{About, MAX_CPUS, Meta, Outcome, ReadOptions, Reader};
use crate::ring::MAX_PROBLEMS;
use crate::text::hex_number;

/// True if an `ST:` line stands in one of the first lines.
pub(crate) fn sniff(data: &[u8]) -> bool {
    let head = &data[..data.len().min(4096)];
    head.split(|&b| b == b'\n').take(5).any(|line| matches!(parse(line), Some(Entry { kind: Mark::Start, .. })))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Start,
    Task,
    Switch,
    Wakeup,
    Migrate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry<'a> {
    kind: Mark,
    time: u64,
    numbers: [u64; 4],
    comm: &'a [u8],
}

fn parse(line: &[u8]) -> Option<Entry<'_>> {
    let mut parts = line.splitn(6, |&b| b == b':');
    let (kind, count) = match parts.next()? {
        b"ST" => (Mark::Start, 1),
        b"P" => (Mark::Task, 2),
        b"S" => (Mark::Switch, 4),
        b"W" => (Mark::Wakeup, 3),
        b"M" => (Mark::Migrate, 4),
        _ => return None,
    };
    let time = hex_number(parts.next()?).filter(|&time| time <= TIME_MAX_NS)?;
    let mut numbers = [0; 4];
    for number in &mut numbers[..count] {
        *number = hex_number(parts.next()?)?;
    }
    // Events begin with their CPU.
    if matches!(kind, Mark::Switch | Mark::Wakeup | Mark::Migrate) && numbers[0] >= u64::from(MAX_CPUS) {
        return None;
    }
    // A name may hold colons.
    let comm = if kind == Mark::Task { line.splitn(5, |&b| b == b':').nth(4)? } else { &line[..0] };
    Some(Entry { kind, time, numbers, comm })
}

const INT: Kind = Kind::Int { signed: true, hex: false };

fn schema(index: usize, name: &str, fields: &[(&str, Kind)]) -> Schema {
    let fields = fields.iter().map(|&(name, kind)| FieldDef { name: name.into(), kind, loc: Loc::Value }).collect();
    Schema { index, name: name.into(), system: "sched".into(), fields, fixed_size: 0 }
}

/// A log that is open for reading.
pub(crate) struct SchedBt<'a> {
    data: &'a [u8],
    meta: Meta,
    schemas: Vec<Schema>,
    tasks: BTreeMap<i32, Vec<u8>>,
}

impl<'a> SchedBt<'a> {
    pub(crate) fn open(data: &'a [u8]) -> Self {
        let meta = Meta { format: "bpftrace log", buffers: vec![String::new()], ..Meta::default() };
        let task = [("comm", Kind::Str), ("pid", INT), ("prio", INT)];
        let schemas = vec![
            schema(
                0,
                "sched_switch",
                &[
                    ("prev_comm", Kind::Str),
                    ("prev_pid", INT),
                    ("prev_prio", INT),
                    ("prev_state", INT),
                    ("next_comm", Kind::Str),
                    ("next_pid", INT),
                    ("next_prio", INT),
                ],
            ),
            schema(1, "sched_wakeup", &[&task[..], &[("target_cpu", INT)]].concat()),
            schema(2, "sched_migrate_task", &[&task[..], &[("orig_cpu", INT), ("dest_cpu", INT)]].concat()),
        ];
        Self { data, meta, schemas, tasks: BTreeMap::new() }
    }
}

impl Reader for SchedBt<'_> {
    fn about(&self) -> About<'_> {
        About { meta: &self.meta, schemas: &self.schemas, tasks: &self.tasks }
    }

    fn stream(&mut self, options: &ReadOptions, sink: &mut dyn Sink) -> Result<Outcome> {
        options.check_names(&self.schemas)?;
        let mut outcome = Outcome::default();
        let mut entries = Vec::new();
        for (nth, line) in self.data.split(|&b| b == b'\n').enumerate() {
            match parse(line.trim_ascii_end()) {
                Some(entry) => entries.push((nth as u64 + 1, entry)),
                None if line.trim_ascii().is_empty() || line.starts_with(b"Attaching ") => {}
                None if outcome.problems.len() < MAX_PROBLEMS => {
                    let shown = String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned();
                    let what = format!("neither an event nor a task: {shown:?}");
                    outcome.problems.push(Error::Line { line: nth as u64 + 1, what });
                }
                None => {}
            }
        }
        // CPUs print as they come: the order of times is not the order of lines.
        let start = entries.iter().find(|(_, e)| e.kind == Mark::Start).map_or(0, |(_, e)| e.numbers[0]);
        entries.sort_by_key(|(_, e)| e.time);
        let mut clock = Clock::default();
        let mut known: BTreeMap<u64, (u64, &[u8])> = BTreeMap::new();
        for &(line, ref entry) in &entries {
            let [a, b, c, d] = entry.numbers;
            let task = |pid: u64| {
                let (prio, comm) = known.get(&pid).copied().unzip();
                (comm.map_or(Value::Null, Value::Str), prio.map_or(Value::Null, |prio| Value::I64(prio as i64)))
            };
            let number = |value: u64| Value::I64(value as i64);
            let (index, values, pid) = match entry.kind {
                Mark::Start => continue,
                Mark::Task => {
                    known.insert(a, (b, entry.comm));
                    if a != 0 {
                        self.tasks.insert(a as i32, entry.comm.to_vec());
                    }
                    continue;
                }
                Mark::Switch => {
                    let ((prev, prev_prio), (next, next_prio)) = (task(b), task(d));
                    (0, vec![prev, number(b), prev_prio, number(c), next, number(d), next_prio], b as i32)
                }
                Mark::Wakeup => {
                    let (comm, prio) = task(c);
                    (1, vec![comm, number(c), prio, number(b)], 0)
                }
                Mark::Migrate => {
                    let (comm, prio) = task(d);
                    (2, vec![comm, number(d), prio, number(b), number(c)], 0)
                }
            };
            let mut time_ns = start.saturating_add(entry.time);
            if let Some(odd) = clock.odd(time_ns) {
                if outcome.problems.len() < MAX_PROBLEMS {
                    outcome.problems.push(Error::Line { line, what: odd.what });
                }
                match odd.time_ns {
                    Some(taken_ns) => time_ns = taken_ns,
                    None => continue,
                }
            }
            let cpu = a as u32;
            self.meta.cpus = self.meta.cpus.max(cpu + 1);
            let schema = &self.schemas[index];
            if !options.wants(schema) || !options.in_range(time_ns) {
                continue;
            }
            let body = Body::Values(&values);
            let event = Event { schema, time_ns, cpu, pid, comm: None, buffer: 0, text: &[], body };
            if sink.event(&event) == ControlFlow::Break(()) {
                outcome.stopped = true;
                break;
            }
        }
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed() {
        let entry = |kind, time, numbers, comm| Some(Entry { kind, time, numbers, comm });
        assert_eq!(parse(b"ST:0:cc6b0587"), entry(Mark::Start, 0, [0xcc6b_0587, 0, 0, 0], b""));
        assert_eq!(parse(b"P:12:29f0:78:a:b"), entry(Mark::Task, 0x12, [0x29f0, 0x78, 0, 0], b"a:b"));
        assert_eq!(parse(b"S:a:3:29f0:1:0"), entry(Mark::Switch, 10, [3, 0x29f0, 1, 0], b""));
        assert_eq!(parse(b"M:a:3:1:2:7"), entry(Mark::Migrate, 10, [3, 1, 2, 7], b""));
        for line in [&b"S:a:3:29f0:1"[..], b"X:1:2", b"S::3:1:1:1", b"", b"W:zz:1:1:1", b"S:a:10000:1:1:1"] {
            assert_eq!(parse(line), None);
        }
    }
}
