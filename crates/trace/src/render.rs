//! Events as the text that the kernel and `trace-cmd report` print.
//!
//! Known events get their own form; all others are `field=value` pairs in the order of their format file.
//! The kernel's `print fmt` programs are not interpreted.

use std::io::Write;

use crate::event::{Kind, Value};
use crate::order::{HEAD_FIELDS, value_at};
use crate::table::Column;
use crate::{Table, Trace};

/// Letters of task states, lowest bit first (`include/trace/events/sched.h:sched_switch, v6.12`).
const STATES: &[u8] = b"SDTtXZPI";
/// The bit behind the states: the task was preempted.
const PREEMPTED: u64 = 0x100;

/// A task state as the kernel prints it: `R`, `S`, `D|T`, `R+`; bits of other kernels as a number.
pub fn task_state(bits: u64) -> String {
    if bits & !(PREEMPTED | 0xff) != 0 {
        return bits.to_string();
    }
    let letters: Vec<String> = STATES
        .iter()
        .enumerate()
        .filter(|(bit, _)| bits >> bit & 1 != 0)
        .map(|(_, &c)| char::from(c).to_string())
        .collect();
    let plus = if bits & PREEMPTED != 0 { "+" } else { "" };
    if letters.is_empty() { format!("R{plus}") } else { format!("{}{plus}", letters.join("|")) }
}

/// The bits of a task state as the kernel prints it; `None` if it holds an unknown letter.
pub fn task_state_bits(text: &str) -> Option<u64> {
    let (letters, plus) = match text.strip_suffix('+') {
        Some(letters) => (letters, PREEMPTED),
        None => (text, 0),
    };
    let bits = letters.split('|').try_fold(0, |bits, letter| match letter.as_bytes() {
        b"R" => Some(bits),
        // Kernels up to 4.13 had `x`, `W`, `K`, `N`; only that the task left the run queue matters then.
        [letter] => STATES.iter().position(|s| s == letter).map(|bit| bits | 1 << bit),
        _ => None,
    });
    bits.or_else(|| letters.parse().ok()).map(|bits| bits | plus)
}

/// Separator and name in front of a value, for fields that are not printed as ` name=`.
fn label<'f>(event: &str, field: &'f str) -> (&'static str, &'f str) {
    match (event, field) {
        ("sched_switch", "next_comm") => (" ==> ", field),
        ("sched_process_fork", "parent_comm") => (" ", "comm"),
        ("sched_process_fork", "parent_pid") => (" ", "pid"),
        ("cpu_frequency_limits", "min_freq") => (" ", "min"),
        ("cpu_frequency_limits", "max_freq") => (" ", "max"),
        _ => (" ", field),
    }
}

/// Appends the fields of `row`, as the text behind `event: `.
pub fn fields(trace: &Trace, table: &Table, row: usize, out: &mut Vec<u8>) {
    let printed = ["buf", "text"].iter().find_map(|name| {
        let place = table.fields.iter().position(|field| field.name == **name && matches!(field.kind, Kind::Text))?;
        if let Value::Str(text) = value_at(trace, table, place, row) { Some(text) } else { None }
    });
    match (table.name.as_str(), printed) {
        ("print" | "tracing_mark_write", Some(text)) => out.extend_from_slice(text),
        ("bprint" | "bputs", Some(text)) => {
            if let Some(place) = table.fields.iter().position(|field| field.name == "ip") {
                value(trace, table, place, row, out);
                out.extend_from_slice(b": ");
            }
            out.extend_from_slice(text);
        }
        _ => {
            let mut first = true;
            for (place, field) in table.fields.iter().enumerate() {
                if !field.is_valid(row) || HEAD_FIELDS.contains(&field.name.as_str()) {
                    continue;
                }
                let (separator, name) = label(&table.name, &field.name);
                out.extend_from_slice(if first { separator.trim_start() } else { separator }.as_bytes());
                first = false;
                out.extend_from_slice(name.as_bytes());
                out.push(b'=');
                value(trace, table, place, row, out);
            }
        }
    }
}

/// Appends one value.
pub fn value(trace: &Trace, table: &Table, place: usize, row: usize, out: &mut Vec<u8>) {
    const MEMORY: &str = "writing to memory does not fail";
    let field = &table.fields[place];
    let hex = matches!(field.kind, Kind::Int { hex: true, .. });
    match value_at(trace, table, place, row) {
        Value::I64(bits) if field.name == "prev_state" => out.extend_from_slice(task_state(bits as u64).as_bytes()),
        Value::U64(bits) if field.name == "prev_state" => out.extend_from_slice(task_state(bits).as_bytes()),
        Value::I64(cpu) if field.name == "target_cpu" => write!(out, "{cpu:03}").expect(MEMORY),
        Value::I64(number) if hex => write!(out, "{number:#x}").expect(MEMORY),
        Value::U64(number) if hex => write!(out, "{number:#x}").expect(MEMORY),
        Value::I64(number) => write!(out, "{number}").expect(MEMORY),
        Value::U64(number) => write!(out, "{number}").expect(MEMORY),
        Value::Str(text) => out.extend_from_slice(text),
        Value::Bytes(bytes) => bytes.iter().for_each(|byte| write!(out, "{byte:02x}").expect(MEMORY)),
        _ => {
            if let (Column::List { .. }, Some(list)) = (&field.column, field.column.list(row)) {
                let list: Vec<String> = list.iter().map(i128::to_string).collect();
                write!(out, "{{{}}}", list.join(",")).expect(MEMORY);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_come_back() {
        for (bits, text) in
            [(0, "R"), (1, "S"), (2, "D"), (0x100, "R+"), (0x80, "I"), (0x101, "S+"), (6, "D|T"), (1024, "1024")]
        {
            assert_eq!(task_state(bits), text);
            assert_eq!(task_state_bits(text), Some(bits), "{text}");
        }
        assert_eq!(task_state_bits("?"), None);
    }
}
