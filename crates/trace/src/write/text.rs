//! ftrace text, in the form of the kernel's own `trace` file.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::{HEAD_FIELDS, Row, head_value, rows_in_time};
use crate::{Table, Trace, clock, render};

const HEADER: &str = "#\n\
    #                                _-----=> irqs-off\n\
    #                               / _----=> need-resched\n\
    #                              | / _---=> hardirq/softirq\n\
    #                              || / _--=> preempt-depth\n\
    #                              ||| /     delay\n\
    #           TASK-PID     CPU#  ||||   TIMESTAMP  FUNCTION\n\
    #              | |         |   ||||      |         |\n";
/// The same where contexts are not known, as the kernel has it without `irq-info`.
const PLAIN_HEADER: &str = "#\n\
    #           TASK-PID     CPU#     TIMESTAMP  FUNCTION\n\
    #              | |         |         |         |\n";

/// Writes `trace` as ftrace text. Times keep all nine digits, as `trace-cmd report -t` prints them.
pub fn ftrace_text(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let rows: usize = trace.tables.iter().map(Table::len).sum();
    ftrace_head(trace, rows as u64, out)?;
    ftrace_piece(trace, out)
}

/// Writes the head of ftrace text with so many events.
pub fn ftrace_head(trace: &Trace, events: u64, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "# tracer: nop\n#\n# entries-in-buffer/entries-written: {events}/{events}   #P:{}", trace.meta.cpus)?;
    if clock::unit_of(&trace.meta.clock).is_some() {
        writeln!(out, "#\n# clock: {}", trace.meta.clock)?;
    }
    let knows_contexts = trace.tables.iter().any(|table| table.field(HEAD_FIELDS[0]).is_some());
    out.write_all(if knows_contexts { HEADER } else { PLAIN_HEADER }.as_bytes())
}

/// Writes ftrace text without its head: a piece of a longer one.
pub fn ftrace_piece(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let mut missed = trace.missed.iter().peekable();
    let tasks = super::all_tasks(trace);
    let mut line = Vec::new();
    for (place, time) in rows_in_time(trace) {
        while let Some(gap) = missed.next_if(|gap| gap.time_ns <= time) {
            match gap.count {
                Some(count) => writeln!(out, "CPU:{} [LOST {count} EVENTS]", gap.cpu)?,
                None => writeln!(out, "CPU:{} [LOST EVENTS]", gap.cpu)?,
            }
        }
        line.clear();
        event_line(trace, &tasks, place, time, &mut line);
        out.write_all(&line)?;
    }
    Ok(())
}

/// The events of `rows`, one line each, in the form of [`ftrace_text`] without its head.
pub fn ftrace_lines(trace: &Trace, rows: &[Row]) -> Vec<u8> {
    let tasks = super::all_tasks(trace);
    let mut out = Vec::new();
    for place in rows {
        event_line(trace, &tasks, *place, trace.tables[place.table].time_ns[place.row], &mut out);
    }
    out
}

/// Appends one event of this time and a line end.
fn event_line(trace: &Trace, tasks: &BTreeMap<i32, Vec<u8>>, place: Row, time: u64, out: &mut Vec<u8>) {
    const MEMORY: &str = "writing to memory does not fail";
    let table = &trace.tables[place.table];
    let (cpu, pid) = (table.cpu.get(place.row), table.pid.get(place.row));
    let comm = match (&table.comm, tasks.get(&(pid as i32))) {
        (Some(numbers), _) => trace.strings.text(numbers[place.row]),
        (None, Some(name)) => String::from_utf8_lossy(name),
        (None, None) if pid == 0 => "<idle>".into(),
        (None, None) => "<...>".into(),
    };
    // A printed text is shown under the name of the function that takes it.
    let event = if table.name == "print" { "tracing_mark_write" } else { &table.name };
    let (seconds, ns) = (time / 1_000_000_000, time % 1_000_000_000);
    write!(out, "{comm:>16}-{pid:<7} [{cpu:03}] ").expect(MEMORY);
    if let Some(flags) = head_value(table, HEAD_FIELDS[0], place.row) {
        let depth = head_value(table, HEAD_FIELDS[1], place.row).unwrap_or(0);
        out.extend_from_slice(&crate::text::context_word(flags, depth));
        out.push(b' ');
    }
    write!(out, "{seconds:>5}.{ns:09}: {event}: ").expect(MEMORY);
    let start = out.len();
    render::fields(trace, table, place.row, out);
    // A line end inside of a text would start a new line that is no event.
    out[start..].iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
    out.push(b'\n');
}
