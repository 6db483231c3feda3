//! ftrace text: the kernel's `trace` file, `trace-cmd report` in its forms, `perf script`'s likeness of it, and atrace/systrace HTML.
//!
//! A line is `TASK-PID ( TGID ) [CPU] FLAGS TIME: EVENT: FIELDS`, where the group and the flags may be absent, the CPU may stand
//! in front of the flags (latency format), and the time has any number of digits.
//! Fields are `key=value` pairs; the short forms of trace-cmd's scheduler plugin and of probes are understood, and get the names of
//! the format files. What has no pairs is kept whole as field `text`.
//!
//! Lines that are nothing known are reported, not guessed at; in HTML they are simply not part of the trace.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use crate::clock::{Clock, NO_NS, TIME_MAX_NS};
use crate::error::{Error, Result};
use crate::event::{Body, Event, FieldDef, Kind, Loc, Schema, Sink, Value};
use crate::input::Data;
use crate::order::HEAD_FIELDS;
use crate::quick::{self, Shape};
use crate::reader::{About, MAX_CPUS, Meta, Outcome, ReadOptions, Reader};
use crate::ring::{MAX_PROBLEMS, Missed};
use crate::table::Strings;

/// Bytes that are searched for a first event line.
const SNIFF_BYTES: usize = 1 << 18;

fn looks_like_html(data: &[u8]) -> bool {
    let start = data[..data.len().min(512)].trim_ascii_start().to_ascii_lowercase();
    start.starts_with(b"<!doctype html") || start.starts_with(b"<html")
}

/// True if `data` are text with an ftrace header or an event line near the start.
pub(crate) fn sniff(data: &[u8]) -> bool {
    let head = &data[..data.len().min(SNIFF_BYTES)];
    if looks_like_html(data) {
        return has(head, b"# tracer:") || has(data, b"trace-data") || has(data, b"linuxPerfData");
    }
    let mut events = 0;
    for (at, line) in head.split(|&b| b == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.starts_with(b"# tracer:")
            || (at == 0 && (line.starts_with(b"version = ") || line.starts_with(b"cpus=")))
        {
            return true;
        }
        events += usize::from(parse_line(line).is_some());
        if events > 0 {
            return true;
        }
        if at > 2000 || line.contains(&0) {
            return false;
        }
    }
    false
}

fn has(haystack: &[u8], needle: &[u8]) -> bool {
    find(haystack, needle).is_some()
}

/// Where `needle` first occurs.
fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(haystack, needle)
}

/// The parts of an event line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    comm: &'a [u8],
    pid: i32,
    cpu: u32,
    time_ns: u64,
    /// The word of its context; empty if it has none.
    context: &'a [u8],
    system: &'a [u8],
    event: &'a [u8],
    rest: &'a [u8],
}

/// Numbers of so many digits fit into an `i64`.
const SAFE_DIGITS: usize = 18;

#[inline]
fn digits(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > 20 {
        return None;
    }
    if bytes.len() <= SAFE_DIGITS {
        let mut value = 0u64;
        for &byte in bytes {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        }
        return Some(value);
    }
    let mut value = 0u64;
    for &byte in bytes {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// `comm-pid`, with an optional `( tgid)` behind it.
fn split_task(task: &[u8]) -> Option<(&[u8], i32)> {
    let mut task = task.trim_ascii();
    if task.last() == Some(&b')') {
        let open = task.iter().rposition(|&b| b == b'(')?;
        task = task[..open].trim_ascii_end();
    }
    // `comm-pid`, or `comm  pid` or `comm  process/pid` as perf prints it.
    let dash = task.iter().rposition(|b| !b.is_ascii_digit())?;
    let pid = i32::try_from(digits(&task[dash + 1..])?).ok()?;
    match task[dash] {
        b'-' => Some((&task[..dash], pid)),
        b' ' | b'\t' => Some((task[..dash].trim_ascii_end(), pid)),
        b'/' => {
            let blank = task[..dash].iter().rposition(|b| !b.is_ascii_digit()).filter(|&at| at + 1 < dash)?;
            task[blank].is_ascii_whitespace().then(|| (task[..blank].trim_ascii_end(), pid))
        }
        _ => None,
    }
}

/// Nanoseconds of `12.345678`, `12345us` or a bare counter.
fn parse_time(token: &[u8]) -> Option<u64> {
    if let Some(us) = token.strip_suffix(b"us") {
        return digits(us)?.checked_mul(1000);
    }
    match token.iter().position(|&b| b == b'.') {
        None => digits(token),
        Some(dot) => {
            let (seconds, fraction) = (digits(&token[..dot])?, &token[dot + 1..]);
            let (head, tail) = fraction.split_at(fraction.len().min(9));
            let ns = digits(head)? * 10u64.pow(9 - head.len() as u32);
            if !tail.is_empty() {
                digits(tail)?;
            }
            seconds.checked_mul(1_000_000_000)?.checked_add(ns)
        }
    }
}

/// The digits that `bytes` begin with as a number, and how many they are; no more than ten are looked at.
#[inline]
fn leading_digits(bytes: &[u8]) -> (u64, usize) {
    let mut value = 0u64;
    for (at, &byte) in bytes.iter().take(10).enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return (value, at);
        }
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
    }
    (value, bytes.len().min(10))
}

/// The time that `bytes` begin with in its common form, `12.345678:`, and what is behind the colon.
#[inline]
fn common_time(bytes: &[u8]) -> Option<(u64, &[u8])> {
    const POWERS_OF_TEN: [u64; 9] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
    let (seconds, len) = leading_digits(bytes);
    let fraction = bytes.get(len..)?.strip_prefix(b".").filter(|_| len > 0)?;
    let (value, len) = leading_digits(fraction);
    let missing = POWERS_OF_TEN.get(9usize.checked_sub(len)?)?;
    let tail = fraction[len..].strip_prefix(b":")?;
    tail.first().is_none_or(u8::is_ascii_whitespace).then_some((seconds * 1_000_000_000 + value * missing, tail))
}

fn next_token(bytes: &[u8]) -> (&[u8], &[u8]) {
    let bytes = bytes.trim_ascii_start();
    let end = bytes.iter().position(|b| b.is_ascii_whitespace()).unwrap_or(bytes.len());
    (&bytes[..end], &bytes[end..])
}

/// Bits of `common_flags` (include/linux/trace_events.h, v6.12).
const IRQS_OFF: u8 = 0x01;
const NEED_RESCHED: u8 = 0x04;
const HARDIRQ: u8 = 0x08;
const SOFTIRQ: u8 = 0x10;
const PREEMPT_RESCHED: u8 = 0x20;
const NMI: u8 = 0x40;
const BH_OFF: u8 = 0x80;

/// The flags and the preemption count that a word like `d.h2.` stands for; `None` if it is no such word
/// (kernel/trace/trace_output.c:trace_print_lat_fmt(), v6.12).
fn context_of(word: &[u8]) -> Option<[u8; 2]> {
    let (&[irqs, resched, context, depth], migrate) = word.split_first_chunk::<4>()?;
    if migrate.len() > 1 {
        return None;
    }
    let mut flags = match irqs {
        b'D' => IRQS_OFF | BH_OFF,
        b'd' => IRQS_OFF,
        b'b' => BH_OFF,
        b'X' | b'.' => 0,
        _ => return None,
    };
    flags |= match resched {
        b'N' | b'B' => NEED_RESCHED | PREEMPT_RESCHED,
        b'n' | b'b' => NEED_RESCHED,
        b'p' | b'L' => PREEMPT_RESCHED,
        b'l' | b'.' => 0,
        _ => return None,
    };
    flags |= match context {
        b'Z' => NMI | HARDIRQ,
        b'z' => NMI,
        b'H' => HARDIRQ | SOFTIRQ,
        b'h' => HARDIRQ,
        b's' => SOFTIRQ,
        b'.' => 0,
        _ => return None,
    };
    let digit = |byte: u8| if byte == b'.' { Some(0) } else { char::from(byte).to_digit(16) };
    let migrate = migrate.first().map_or(Some(0), |&byte| digit(byte))?;
    Some([flags, (migrate << 4 | digit(depth)?) as u8])
}

/// The word for flags and a preemption count, as [`context_of`] reads it.
pub(crate) fn context_word(flags: u8, depth: u8) -> [u8; 5] {
    let has = |bits: u8| flags & bits == bits;
    let irqs = match (has(IRQS_OFF), has(BH_OFF)) {
        (true, true) => b'D',
        (true, false) => b'd',
        (false, true) => b'b',
        (false, false) => b'.',
    };
    let resched = match (has(NEED_RESCHED), has(PREEMPT_RESCHED)) {
        (true, true) => b'N',
        (true, false) => b'n',
        (false, true) => b'p',
        (false, false) => b'.',
    };
    let context = match (has(NMI), has(HARDIRQ), has(SOFTIRQ)) {
        (true, true, _) => b'Z',
        (true, ..) => b'z',
        (_, true, true) => b'H',
        (_, true, _) => b'h',
        (_, _, true) => b's',
        _ => b'.',
    };
    let digit = |of: u8| if of == 0 { b'.' } else { b"0123456789abcdef"[usize::from(of & 15)] };
    [irqs, resched, context, digit(depth & 15), digit(depth >> 4)]
}

/// Who, where, when, the word of the context, and what follows.
type Head<'a> = (&'a [u8], i32, u32, u64, &'a [u8], &'a [u8]);

/// The number of a CPU; beyond what any reader takes it is damage, and lists have an entry for each CPU.
fn cpu_number(bytes: &[u8]) -> Option<u32> {
    digits(bytes).and_then(|cpu| u32::try_from(cpu).ok()).filter(|&cpu| cpu < MAX_CPUS)
}

/// Splits an event line up to its time; `None` if it has none.
fn parse_head(line: &[u8]) -> Option<Head<'_>> {
    head_from(line, 0)
}

/// The same of a line whose CPU stands behind its first `from` bytes.
fn head_from(line: &[u8], mut from: usize) -> Option<Head<'_>> {
    // The CPU in brackets, behind something that ends as a task does.
    let is_later = from > 0;
    let (comm, pid, cpu, mut context, mut rest) = loop {
        let Some(open) = memchr::memchr(b'[', &line[from..]).map(|at| at + from) else {
            break latency_head(line).filter(|_| !is_later)?;
        };
        from = open + 1;
        let Some(close) = line[from..].iter().take(7).position(|&b| b == b']').map(|at| at + from) else { continue };
        let Some(cpu) = cpu_number(&line[from..close]) else { continue };
        let Some((comm, pid)) = split_task(&line[..open]) else { continue };
        break (comm, pid, cpu, &line[..0], &line[close + 1..]);
    };
    // Flags and time differences may stand in front of the time, differences also behind it.
    let mut time_ns = None;
    for _ in 0..4 {
        rest = rest.trim_ascii_start();
        if let Some((time, tail)) = common_time(rest) {
            (time_ns, rest) = (Some(time), tail);
            break;
        }
        let (token, tail) = next_token(rest);
        // A task may be called `w-2 [001]`: the CPU is the last one in front of the time.
        if token.starts_with(b"[")
            && let Some(later) = head_from(line, line.len() - rest.len())
        {
            return Some(later);
        }
        if let Some(time) = token.strip_suffix(b":").and_then(parse_time) {
            (time_ns, rest) = (Some(time), tail);
            break;
        }
        // `123us :` and `123us+:` of latency tracers.
        if token.first().is_some_and(u8::is_ascii_digit)
            && let Some(time) =
                token.split(|b| b"+!#*@$:".contains(b)).next().filter(|t| t.ends_with(b"us")).and_then(parse_time)
        {
            let tail = tail.trim_ascii_start();
            (time_ns, rest) = (Some(time), tail.strip_prefix(b":").unwrap_or(tail));
            break;
        }
        if context.is_empty() {
            context = token;
        }
        rest = tail;
    }
    Some((comm, pid, cpu, time_ns.filter(|&time_ns| time_ns <= TIME_MAX_NS)?, context, rest))
}

/// Splits an event line; `None` if it is none.
pub(crate) fn parse_line(line: &[u8]) -> Option<Line<'_>> {
    parse_event(parse_head(line)?)
}

/// Splits what stands behind the head of an event line; `None` if that is no event.
fn parse_event((comm, pid, cpu, time_ns, context, rest): Head<'_>) -> Option<Line<'_>> {
    let mut rest = rest.trim_ascii_start();
    if rest.starts_with(b"(+") {
        let close = rest.iter().position(|&b| b == b')')?;
        rest = rest[close + 1..].trim_ascii_start();
    }
    // The period of a sample stands in front of its name in `perf script`.
    let mut has_period = false;
    if rest.first().is_some_and(u8::is_ascii_digit) {
        let (period, behind) = next_token(rest);
        has_period = digits(period).is_some() && next_token(behind).0.ends_with(b":");
        if has_period {
            rest = behind.trim_ascii_start();
        }
    }
    // Mostly nothing but a name stands in front of the colon.
    let len = rest.iter().take_while(|&&b| is_name(b)).count();
    if len > 0 && rest.get(len) == Some(&b':') && rest.get(len + 1).is_none_or(u8::is_ascii_whitespace) {
        let (event, system) = (&rest[..len], &rest[..0]);
        return Some(Line { comm, pid, cpu, time_ns, context, system, event, rest: rest[len + 1..].trim_ascii() });
    }
    // The name ends at a colon with a blank behind it; `group:name:` keeps its group.
    let mut colon = 0;
    loop {
        let Some(at) = rest[colon..].iter().position(|&b| b == b':' || b == b' ').map(|at| at + colon) else {
            return function_line((comm, pid, cpu, time_ns, context, rest));
        };
        if rest[at] == b' ' {
            return function_line((comm, pid, cpu, time_ns, context, rest));
        }
        if rest.get(at + 1).is_none_or(|b| b.is_ascii_whitespace()) {
            colon = at;
            break;
        }
        colon = at + 1;
    }
    let full = &rest[..colon];
    let (system, event) = match full.iter().rposition(|&b| b == b':') {
        // `cycles:u`: what is counted of a sampled event.
        Some(at) if has_period && full[at + 1..].iter().all(|b| PERF_MODIFIERS.contains(b)) => {
            (&full[..0], &full[..at])
        }
        Some(at) => (&full[..at], &full[at + 1..]),
        None => (&full[..0], full),
    };
    if event.is_empty() || !event.iter().all(|&b| is_name(b)) {
        return None;
    }
    Some(Line { comm, pid, cpu, time_ns, context, system, event, rest: rest[colon + 1..].trim_ascii() })
}

/// Bytes that names of events are made of.
#[inline]
fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Letters behind the name of an event of perf (perf-list(1), "Event modifiers").
const PERF_MODIFIERS: &[u8] = b"ukhIGHpPSDWeb";

/// A line of the function tracer: `callee <-caller`.
fn function_line<'a>((comm, pid, cpu, time_ns, context, rest): Head<'a>) -> Option<Line<'a>> {
    has(rest, b" <-").then_some(Line { comm, pid, cpu, time_ns, context, system: b"ftrace", event: b"function", rest })
}

/// What the latency format has before the time: name, pid, CPU, flags, and what follows.
type LatencyHead<'a> = (&'a [u8], i32, u32, &'a [u8], &'a [u8]);

/// `comm-pid  CPUflags time: …`, the latency format.
fn latency_head(line: &[u8]) -> Option<LatencyHead<'_>> {
    let mut from = 0;
    while let Some(dash) = line[from..].iter().position(|&b| b == b'-').map(|at| at + from) {
        from = dash + 1;
        let len = line[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let behind = &line[from + len..];
        if len == 0 || !behind.first().is_some_and(|b| b.is_ascii_whitespace()) {
            continue;
        }
        let (token, tail) = next_token(behind);
        let cpu_len = token.iter().take_while(|b| b.is_ascii_digit()).count();
        let flags = &token[cpu_len..];
        if cpu_len == 0 || flags.is_empty() || !flags.iter().all(|b| b.is_ascii_alphanumeric() || b".#".contains(b)) {
            continue;
        }
        let (pid, cpu) = (digits(&line[from..from + len])?, cpu_number(&token[..cpu_len])?);
        return Some((line[..dash].trim_ascii(), i32::try_from(pid).ok()?, cpu, flags, tail));
    }
    None
}

/// So often is a shape looked for: lines of many shapes are free text.
const SHAPES_MAX: u32 = 32;

/// Names that differ between an event's text and its format file.
const RENAMED: &[(&str, &str, &str)] = &[
    ("sched_process_fork", "comm", "parent_comm"),
    ("sched_process_fork", "pid", "parent_pid"),
    ("cpu_frequency_limits", "min", "min_freq"),
    ("cpu_frequency_limits", "max", "max_freq"),
    ("clock_enable", "text", "name"),
    ("clock_disable", "text", "name"),
    ("clock_set_rate", "text", "name"),
];

impl Known {
    /// The shape of a line with these pairs; `None` if they do not follow from one.
    fn shape_of(&self, rest: &[u8], pairs: &[Pair<'_>]) -> Option<Shape> {
        let placed = pairs.iter().enumerate().map(|(nth, &(key, value, _))| {
            let (expected, place) = self.order.get(nth)?;
            (expected == key).then_some((key, value, *place))
        });
        Shape::of(rest, &placed.collect::<Option<Vec<_>>>()?)
    }
}

/// One schema with what the parser needs to find its fields fast.
struct Known {
    /// Place of each key, as written.
    keys: HashMap<Vec<u8>, usize>,
    /// Keys in the order of the last line.
    order: Vec<(Vec<u8>, usize)>,
    /// What stood between the values of the last line that had another shape, and how many such there were.
    shape: Option<Shape>,
    shapes: u32,
    wanted: bool,
    /// Its fields are not.
    bare: bool,
    /// Fields without whose number the event means nothing.
    required: &'static [&'static str],
}

/// Fields that must be numbers in events that signals are made of: a line without them is damaged.
fn required(event: &[u8]) -> &'static [&'static str] {
    match event {
        b"sched_switch" => &["prev_pid", "next_pid"],
        b"sched_waking" | b"sched_wakeup" | b"sched_wakeup_new" => &["pid"],
        b"sched_migrate_task" => &["pid", "orig_cpu", "dest_cpu"],
        b"cpu_frequency" | b"cpu_idle" => &["state", "cpu_id"],
        _ => &[],
    }
}

/// A number as text formats write it.
fn number(token: &[u8]) -> Option<(Value<'static>, bool)> {
    if let Some(hex) = token.strip_prefix(b"0x") {
        return hex_number(hex).map(|value| (Value::U64(value), true));
    }
    if let Some(negative) = token.strip_prefix(b"-") {
        let value = digits(negative).filter(|&v| v <= 1 << 63)?;
        return Some((Value::I64((value as i64).wrapping_neg()), false));
    }
    digits(token).map(|value| (i64::try_from(value).map_or(Value::U64(value), Value::I64), false))
}

/// A number of up to 16 hexadecimal digits without a prefix.
pub(crate) fn hex_number(hex: &[u8]) -> Option<u64> {
    if hex.is_empty() || hex.len() > 16 {
        return None;
    }
    hex.iter().try_fold(0u64, |value, &b| Some(value << 4 | u64::from((b as char).to_digit(16)?)))
}

/// What a line gives: key, value.
type Pair<'a> = (&'a [u8], Value<'a>, Kind);

const INT: Kind = Kind::Int { signed: true, hex: false };
const HEX: Kind = Kind::Int { signed: false, hex: true };

fn typed<'a>(key: &'a [u8], text: &'a [u8]) -> Pair<'a> {
    let mut text = text;
    // `15833 [ns]`: a unit behind a number.
    if !key.ends_with(b"comm")
        && let Some(at) = text.iter().position(|&b| b == b' ')
        && text[at + 1..].first() == Some(&b'[')
        && number(&text[..at]).is_some()
    {
        text = &text[..at];
    }
    match number(text) {
        // A task may be called `123`.
        Some((value, hex)) if !key.ends_with(b"comm") => (key, value, if hex { HEX } else { INT }),
        _ => (key, Value::Str(text), Kind::Str),
    }
}

fn key_start(rest: &[u8], equals: usize) -> Option<usize> {
    let start = rest[..equals].iter().rposition(|&b| !(b.is_ascii_alphanumeric() || b == b'_')).map_or(0, |at| at + 1);
    let valid = start < equals && !rest[start].is_ascii_digit();
    let separated = start == 0 || rest[start - 1].is_ascii_whitespace() || b"[({,".contains(&rest[start - 1]);
    (valid && separated).then_some(start)
}

/// Finds `key=value` pairs; true if there is at least one.
fn pairs<'a>(rest: &'a [u8], out: &mut Vec<Pair<'a>>) -> bool {
    let mut at = 0;
    let mut current: Option<(&[u8], usize)> = None;
    while let Some(equals) = memchr::memchr(b'=', &rest[at..]).map(|i| i + at) {
        at = equals + 1;
        let Some(start) = key_start(rest, equals) else { continue };
        match current {
            Some((_, from)) if start < from => continue,
            Some((key, from)) => out.push(typed(key, clean_value(&rest[from..start]))),
            None if out.is_empty() && start > 0 => {
                // What stands in front of the first pair, as a clock's name.
                let head = rest[..start].trim_ascii_end();
                let head = clean_value(head.strip_suffix(b":").unwrap_or(head));
                if !head.is_empty() {
                    out.push((b"text", Value::Str(head), Kind::Str));
                }
            }
            None => {}
        }
        let key = &rest[start..equals];
        current = Some((key, equals + 1));
        // A task's name may hold anything: it ends where its pid begins.
        if let Some(prefix) = key.strip_suffix(b"comm")
            && let Some(end) = find_pid(&rest[equals + 1..], prefix)
        {
            out.push(typed(key, &rest[equals + 1..equals + 1 + end]));
            current = None;
            at = equals + 1 + end + 1;
        }
    }
    if let Some((key, from)) = current {
        out.push(typed(key, clean_value(&rest[from..])));
    }
    !out.is_empty()
}

/// Where ` <prefix>pid=` begins.
fn find_pid(rest: &[u8], prefix: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = memchr::memchr(b' ', &rest[from..]).map(|i| i + from) {
        if rest[at + 1..].strip_prefix(prefix).is_some_and(|r| r.starts_with(b"pid=")) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

/// Cuts what belongs to the next pair: blanks, commas, an arrow, an opening bracket.
fn clean_value(value: &[u8]) -> &[u8] {
    let mut value = value.trim_ascii();
    loop {
        let before = value;
        for tail in [&b"==>"[..], b","] {
            value = value.strip_suffix(tail).unwrap_or(value).trim_ascii_end();
        }
        for (open, close) in [(b'[', b']'), (b'(', b')')] {
            // `vec=1 [action=` leaves the bracket on one value and its end on the other.
            if value.last() == Some(&open) || (value.last() == Some(&close) && !value.contains(&open)) {
                value = value[..value.len() - 1].trim_ascii_end();
            }
        }
        if value == before {
            return value;
        }
    }
}

/// `comm:pid [prio]` and what follows.
fn short_task(text: &[u8]) -> Option<(&[u8], Value<'static>, Value<'static>, &[u8])> {
    let text = text.trim_ascii();
    // The name may hold brackets: the priority is the last `[number]` behind `:number `.
    let mut end = text.len();
    while let Some(open) = text[..end].iter().rposition(|&b| b == b'[') {
        end = open;
        let Some(close) = text[open..].iter().position(|&b| b == b']').map(|i| i + open) else { continue };
        let Some((prio, _)) = number(&text[open + 1..close]) else { continue };
        let task = text[..open].trim_ascii_end();
        let Some(colon) = task.iter().rposition(|&b| b == b':') else { continue };
        let Some((pid, _)) = number(&task[colon + 1..]) else { continue };
        return Some((&task[..colon], pid, prio, text[close + 1..].trim_ascii()));
    }
    None
}

/// Events whose text is not always pairs, or not only.
fn has_own_form(event: &[u8]) -> bool {
    matches!(event, b"function" | b"tracing_mark_write" | b"print" | b"bprint" | b"bputs")
}

/// Forms of trace-cmd's plugins that have no pairs. True if understood. (Those of events that also come as pairs begin
/// with no key; the others are in [`has_own_form`].)
fn special<'a>(event: &[u8], rest: &'a [u8], out: &mut Vec<Pair<'a>>) -> bool {
    match event {
        b"sched_switch" if !rest.starts_with(b"prev_comm=") => {
            // A name may hold an arrow, too: in front of the one that counts stands a state.
            let mut from = 0;
            let mut found = None;
            // Two names hold no more.
            for _ in 0..8 {
                let Some(arrow) = find(&rest[from..], b" ==> ").map(|at| at + from) else { break };
                from = arrow + 1;
                if let (Some(prev), Some(next)) = (short_task(&rest[..arrow]), short_task(&rest[arrow + 5..]))
                    && !prev.3.is_empty()
                    && !prev.3.contains(&b' ')
                {
                    found = Some((prev, next));
                    break;
                }
            }
            let Some(((prev, prev_pid, prev_prio, state), (next, next_pid, next_prio, _))) = found else {
                return false;
            };
            out.extend([
                (&b"prev_comm"[..], Value::Str(prev), Kind::Str),
                (b"prev_pid", prev_pid, INT),
                (b"prev_prio", prev_prio, INT),
                (b"prev_state", Value::Str(state), Kind::Str),
                (b"next_comm", Value::Str(next), Kind::Str),
                (b"next_pid", next_pid, INT),
                (b"next_prio", next_prio, INT),
            ]);
            true
        }
        b"sched_wakeup" | b"sched_waking" | b"sched_wakeup_new" if !rest.starts_with(b"comm=") => {
            let Some((comm, pid, prio, tail)) = short_task(rest) else { return false };
            out.extend([(&b"comm"[..], Value::Str(comm), Kind::Str), (b"pid", pid, INT), (b"prio", prio, INT)]);
            for word in tail.split(|b| b.is_ascii_whitespace()) {
                if let Some(value) = word.strip_prefix(b"success=").and_then(number) {
                    out.push((b"success", value.0, INT));
                }
                if let Some(value) = word.strip_prefix(b"CPU:").and_then(number) {
                    out.push((b"target_cpu", value.0, INT));
                }
            }
            true
        }
        // `cpu: 0003 target: 0 step: 84 (takedown_cpu)`.
        b"cpuhp_enter" | b"cpuhp_multi_enter" | b"cpuhp_exit" if rest.starts_with(b"cpu:") => {
            let mut at = rest;
            while !at.trim_ascii_start().is_empty() {
                let (word, tail) = next_token(at.trim_ascii_start());
                at = tail;
                if let Some(name) = word.strip_prefix(b"(").and_then(|name| name.strip_suffix(b")")) {
                    out.push((b"fun", Value::Str(name), Kind::Str));
                } else if let Some(key) = word.strip_suffix(b":") {
                    let (value, tail) = next_token(tail.trim_ascii_start());
                    let Some((value, _)) = number(value) else {
                        out.clear();
                        return false;
                    };
                    out.push((if key == b"step" { b"idx" } else { key }, value, INT));
                    at = tail;
                }
            }
            true
        }
        b"function" => {
            let Some(arrow) = find(rest, b" <-") else { return false };
            out.push((b"ip", Value::Str(rest[..arrow].trim_ascii()), Kind::Str));
            out.push((b"parent_ip", Value::Str(rest[arrow + 3..].trim_ascii()), Kind::Str));
            true
        }
        b"tracing_mark_write" => {
            out.push((b"buf", Value::Str(rest), Kind::Text));
            true
        }
        b"print" | b"bprint" | b"bputs" => {
            let text: &[u8] = if event == b"print" { b"buf" } else { b"text" };
            // `where: text`; the address of the caller or its symbol.
            match find(rest, b": ").filter(|&at| !rest[..at].contains(&b' ')) {
                Some(at) => {
                    out.push((b"ip", Value::Str(&rest[..at]), Kind::Str));
                    out.push((text, Value::Str(&rest[at + 2..]), Kind::Text));
                }
                None => out.push((text, Value::Str(rest), Kind::Text)),
            }
            true
        }
        _ => false,
    }
}

/// `(address)` or `(function <- return address)` in front of a probe's fields.
fn probe_head<'a>(rest: &'a [u8], out: &mut Vec<Pair<'a>>) -> &'a [u8] {
    let Some(inner) = rest.strip_prefix(b"(") else { return rest };
    let Some(close) = inner.iter().position(|&b| b == b')') else { return rest };
    let (head, tail) = (&inner[..close], inner[close + 1..].trim_ascii_start());
    let address = |text: &'a [u8]| {
        let text = text.trim_ascii();
        match hex_number(text.strip_prefix(b"0x").unwrap_or(text)) {
            Some(value) => (Value::U64(value), HEX),
            None => (Value::Str(text), Kind::Str),
        }
    };
    match find(head, b" <- ") {
        Some(arrow) => {
            // A return probe: first where it returned to, as the kernel prints it, then the function.
            let (function, from) = (address(&head[..arrow]), address(&head[arrow + 4..]));
            out.push((b"__probe_func", function.0, function.1));
            out.push((b"__probe_ret_ip", from.0, from.1));
        }
        None if !head.is_empty() && !head.contains(&b' ') => {
            let place = address(head);
            out.push((b"__probe_ip", place.0, place.1));
        }
        None => return rest,
    }
    tail
}

/// All fields of a line.
fn fields<'a>(event: &[u8], rest: &'a [u8], out: &mut Vec<Pair<'a>>) {
    out.clear();
    let rest = rest.strip_prefix(b"[FAILED TO PARSE]").unwrap_or(rest).trim_ascii();
    if special(event, rest, out) {
        return;
    }
    let tail = probe_head(rest, out);
    let heads = out.len();
    if pairs(tail, out) && out.len() > heads || tail.is_empty() && heads > 0 {
        return;
    }
    out.clear();
    if !rest.is_empty() {
        out.push((b"text", Value::Str(rest), Kind::Text));
    }
}

/// A text trace that is open for reading.
pub(crate) struct Text<'a> {
    whole: &'a [u8],
    /// The file behind `whole`, if it learns what has been read.
    file: Option<&'a Data>,
    /// The parts that hold the trace, with the number of the first line of each.
    parts: Vec<(&'a [u8], u64)>,
    html: bool,
    meta: Meta,
    schemas: Vec<Schema>,
    /// The schemas' names, numbered as they are.
    names: Strings,
    /// Schemas by the word that stands in a line.
    words: quick::Names,
    known: Vec<Known>,
    tasks: BTreeMap<i32, Vec<u8>>,
    /// What was wrong with the line that was to be delivered.
    damage: Option<String>,
}

/// The pieces of an HTML page that hold a trace; the whole page if none is marked.
fn html_parts(data: &[u8]) -> Vec<(&[u8], u64)> {
    let mut parts = Vec::new();
    let (mut at, mut line) = (0, 1u64);
    while let Some(found) = find(&data[at..], b"trace-data") {
        let start = at + found;
        let Some(open) = data[start..].iter().position(|&b| b == b'>').map(|i| start + i + 1) else { break };
        let end = find(&data[open..], b"</script>").map_or(data.len(), |i| open + i);
        line += data[at..open].iter().filter(|&&b| b == b'\n').count() as u64;
        parts.push((&data[open..end], line));
        line += data[open..end].iter().filter(|&&b| b == b'\n').count() as u64;
        at = end;
    }
    if parts.is_empty() { vec![(data, 1)] } else { parts }
}

impl<'a> Text<'a> {
    pub(crate) fn open(data: &'a [u8], file: Option<&'a Data>) -> Self {
        let html = looks_like_html(data);
        let parts = if html { html_parts(data) } else { vec![(data, 1)] };
        let format = if html { "systrace HTML" } else { "ftrace text" };
        let mut this = Self {
            whole: data,
            file,
            parts,
            html,
            meta: Meta { format, buffers: vec![String::new()], ..Meta::default() },
            schemas: Vec::new(),
            names: Strings::default(),
            words: quick::Names::default(),
            known: Vec::new(),
            tasks: BTreeMap::new(),
            damage: None,
        };
        this.read_header();
        this
    }

    /// What stands in front of the first event.
    fn read_header(&mut self) {
        for (part, _) in self.parts.clone() {
            for line in part.split(|&b| b == b'\n').take(200) {
                let line = strip_line(line);
                if let Some(first) = parse_line(line) {
                    let head = &line[..line.len() - first.rest.len()];
                    if self.meta.clock.is_empty() && find(head, format!(" {}:", first.time_ns).as_bytes()).is_some() {
                        self.meta.clock = NO_NS.to_string();
                    }
                    return;
                }
                let Ok(line) = std::str::from_utf8(line) else { continue };
                let line = line.trim();
                if let Some(version) = line.strip_prefix("version = ") {
                    self.meta.version = version.trim().parse().unwrap_or(0);
                } else if let Some(cpus) = line.strip_prefix("cpus=") {
                    self.meta.cpus = cpus.trim().parse().unwrap_or(0).min(MAX_CPUS);
                } else if let Some((_, cpus)) = line.split_once("#P:") {
                    self.meta.cpus = cpus.trim().parse().unwrap_or(0).min(MAX_CPUS);
                } else if let Some(clock) = line.strip_prefix("# clock:") {
                    self.meta.clock = clock.trim().to_string();
                }
            }
        }
    }

    /// The schema for the line's event, new or known.
    fn schema_of(&mut self, line: &Line<'_>, options: &ReadOptions) -> usize {
        let index = self.names.intern(line.event) as usize;
        if index == self.schemas.len() {
            self.add_schema(line, options);
        }
        index
    }

    #[cold]
    fn add_schema(&mut self, line: &Line<'_>, options: &ReadOptions) {
        let schema = Schema {
            index: self.schemas.len(),
            name: String::from_utf8_lossy(line.event).into_owned(),
            system: String::from_utf8_lossy(line.system).into_owned(),
            fields: Vec::new(),
            fixed_size: 0,
        };
        let (wanted, bare) = (options.wants(&schema), !options.names(&schema));
        let required = required(line.event);
        let (keys, order) = (HashMap::new(), Vec::new());
        self.known.push(Known { keys, order, shape: None, shapes: 0, wanted, bare, required });
        self.schemas.push(schema);
    }

    /// Puts the pairs at the places of their fields, making new fields as needed.
    fn place<'v>(&mut self, index: usize, pairs: &[Pair<'v>], values: &mut Vec<Value<'v>>) {
        let (schema, known) = (&mut self.schemas[index], &mut self.known[index]);
        values.clear();
        values.resize(schema.fields.len(), Value::Null);
        for (nth, &(key, value, kind)) in pairs.iter().enumerate() {
            let place = match known.order.get(nth) {
                Some((expected, place)) if expected == key => *place,
                _ => place_of(schema, known, key, kind, nth),
            };
            if values.len() <= place {
                values.resize(place + 1, Value::Null);
            }
            // Of a key that comes twice the first counts, as its place in the text is the format's.
            if values[place] == Value::Null {
                values[place] = value;
            }
        }
    }

    /// Delivers one line; counts problems.
    fn deliver<'v>(
        &mut self,
        line: &Line<'v>,
        options: &ReadOptions,
        scratch: &mut Scratch<'v>,
        sink: &mut dyn Sink,
    ) -> ControlFlow<()> {
        self.meta.cpus = self.meta.cpus.max(line.cpu.saturating_add(1)).min(MAX_CPUS);
        let index = self.schema_of(line, options);
        if !self.known[index].wanted || !options.in_range(line.time_ns) {
            return ControlFlow::Continue(());
        }
        if self.known[index].bare {
            return sink.event(&event(&self.schemas[index], line.time_ns, line.cpu, line.pid, line.comm, &[]));
        }
        fields(line.event, line.rest, &mut scratch.pairs);
        if let Some(known) = options.common_fields.then(|| context_of(line.context)).flatten() {
            for (name, value) in HEAD_FIELDS.iter().zip(known) {
                scratch.pairs.push((
                    name.as_bytes(),
                    Value::I64(value.into()),
                    Kind::Int { signed: false, hex: false },
                ));
            }
        }
        self.send(index, line, scratch, sink)
    }

    /// Delivers a line whose pairs are known.
    fn deliver_pairs<'v>(
        &mut self,
        line: &Line<'v>,
        scratch: &mut Scratch<'v>,
        sink: &mut dyn Sink,
    ) -> ControlFlow<()> {
        let index = self.schema_of(line, &ReadOptions::default());
        self.send(index, line, scratch, sink)
    }

    fn send<'v>(
        &mut self,
        index: usize,
        line: &Line<'v>,
        scratch: &mut Scratch<'v>,
        sink: &mut dyn Sink,
    ) -> ControlFlow<()> {
        let is_number = |key: &str| {
            let found = scratch.pairs.iter().find(|(found, ..)| *found == key.as_bytes());
            found.is_some_and(|(_, value, _)| matches!(value, Value::I64(_) | Value::U64(_)))
        };
        if let Some(key) = self.known[index].required.iter().find(|key| !is_number(key)) {
            self.damage = Some(format!("{} without a number for {key}", self.schemas[index].name));
            return ControlFlow::Continue(());
        }
        self.place(index, &scratch.pairs, &mut scratch.values);
        let known = &mut self.known[index];
        if known.shapes < SHAPES_MAX && !has_own_form(line.event) {
            known.shapes += 1;
            known.shape = known.shape_of(line.rest, &scratch.pairs).or(known.shape.take());
        }
        sink.event(&event(&self.schemas[index], line.time_ns, line.cpu, line.pid, line.comm, &scratch.values))
    }

    /// Reads a line whose head is known the quick way; gives where it ends and whether the sink goes on. `None` if
    /// nothing was done, because the line is of no known form.
    #[inline(always)]
    fn deliver_quickly<'v>(
        &mut self,
        text: &'v [u8],
        head: &quick::Head<'v>,
        pass: &mut Pass<'v, '_>,
    ) -> Option<(usize, ControlFlow<()>)> {
        let (index, at) = self.words.find(text, quick::skip_blanks(text, head.at))?;
        let (known, schema) = (&self.known[index], &self.schemas[index]);
        let wanted = known.wanted && pass.options.in_range(head.time_ns);
        let end = if wanted && !known.bare && pass.order != Order::Kept {
            known.shape.as_ref()?.read(text, at, schema.fields.len(), &mut pass.scratch.values)?
        } else {
            line_end(text, at)
        };
        if pass.order == Order::Kept {
            return Some((end, ControlFlow::Continue(())));
        }
        self.meta.cpus = self.meta.cpus.max(head.cpu + 1);
        if !wanted {
            return Some((end, ControlFlow::Continue(())));
        }
        let values = if known.bare { &[][..] } else { &pass.scratch.values[..schema.fields.len()] };
        let event = event(schema, head.time_ns, head.cpu, head.pid, head.comm, values);
        Some((end, pass.sink.event(&event)))
    }

    /// Reads the line at `at`; gives where it ends and what it was.
    fn read_line<'v>(&mut self, text: &'v [u8], at: usize, pass: &mut Pass<'v, '_>) -> (usize, Found<'v>) {
        // The quick way skips the context.
        let head = if pass.options.common_fields { None } else { quick::head(text, at) };
        if let Some(head) = &head
            && (pass.order != Order::Checked || head.time_ns >= pass.last_ns)
            && let Some((end, flow)) = self.deliver_quickly(text, head, pass)
        {
            (pass.last_ns, pass.last_cpu) = (head.time_ns, head.cpu);
            return (end, Found::Event(flow));
        }
        let end = line_end(text, at);
        let line = strip_line(&text[at..end]);
        let parsed = match head {
            Some(head) => parse_event((head.comm, head.pid, head.cpu, head.time_ns, b"", &line[head.at - at..])),
            None => parse_line(line),
        };
        let Some(parsed) = parsed else { return (end, Found::Other(line.trim_ascii())) };
        if pass.order == Order::Checked && parsed.time_ns < pass.last_ns {
            return (end, Found::Disorder);
        }
        (pass.last_ns, pass.last_cpu) = (parsed.time_ns, parsed.cpu);
        if pass.order == Order::Kept {
            return (end, Found::Event(ControlFlow::Continue(())));
        }
        let flow = self.deliver(&parsed, pass.options, &mut pass.scratch, pass.sink);
        self.learn_word(text, &parsed, pass.options);
        (end, Found::Event(flow))
    }

    /// Remembers how the name of a line's event is written.
    fn learn_word(&mut self, text: &[u8], line: &Line<'_>, options: &ReadOptions) {
        let place = |part: &[u8]| (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize);
        let first = if line.system.is_empty() { line.event } else { line.system };
        if let (Some(start), Some(name)) = (place(first), place(line.event))
            && name + line.event.len() < text.len()
        {
            let index = self.schema_of(line, options);
            self.words.learn(text, start, name + line.event.len() - start, index);
        }
    }
}

/// Printed texts of a trace as events of their own.
///
/// rt-app's `rtapp_loop: event=start …`, devlib's `cpu_frequency_devlib: state=… cpu_id=…` and any other `name: key=value …` become
/// tables of that name; a text that begins with `evt=name` too; atrace's `B|pid|name`, `E|pid`, `C|pid|name|value`,
/// `S|pid|name|cookie` and `F|…` become the table `atrace`. Other texts are left alone.
pub fn markers(trace: &crate::Trace) -> crate::Trace {
    let options = ReadOptions::default();
    let mut text = Text::open(&[], None);
    let mut columns = crate::Columns::new(false);
    let mut scratch = Scratch::default();
    for place in crate::write::rows_in_order(trace) {
        let table = &trace.tables[place.table];
        if !matches!(table.name.as_str(), "print" | "tracing_mark_write" | "bprint" | "bputs") {
            continue;
        }
        let printed = table.fields.iter().find_map(|field| match &field.column {
            crate::Column::Text(texts) => Some(texts.get(place.row)),
            _ => None,
        });
        let Some(printed) = printed.map(<[u8]>::trim_ascii) else { continue };
        let line = Line {
            comm: b"",
            pid: table.pid.get(place.row) as i32,
            cpu: table.cpu.get(place.row) as u32,
            time_ns: table.time_ns[place.row],
            context: b"",
            system: b"",
            event: b"",
            rest: printed,
        };
        let delivered = if let Some(pairs) = atrace(printed) {
            scratch.pairs = pairs;
            text.deliver_pairs(&Line { event: b"atrace", ..line }, &mut scratch, &mut columns)
        } else if let Some((name, rest)) = marker_name(printed) {
            text.deliver(&Line { event: name, rest, ..line }, &options, &mut scratch, &mut columns)
        } else {
            continue;
        };
        if delivered.is_break() {
            break;
        }
    }
    let (mut tables, strings, order) = columns.finish();
    // Whose name follows from the pid, as in the trace itself.
    tables.iter_mut().for_each(|table| table.comm = None);
    let (missed, problems) = (Vec::new(), Vec::new());
    let (meta, tasks) = (trace.meta.clone(), crate::write::all_tasks(trace));
    let processes = trace.processes.clone();
    crate::Trace { meta, tables, strings, tasks, processes, missed, problems, order }
}

/// `name: key=value …` or `evt=name key=value …`.
fn marker_name(printed: &[u8]) -> Option<(&[u8], &[u8])> {
    let is_name = |name: &[u8]| {
        !name.is_empty() && name.iter().all(|&b| b.is_ascii_alphanumeric() || b == b'_') && !name[0].is_ascii_digit()
    };
    if let Some(rest) = printed.strip_prefix(b"evt=") {
        let (name, rest) = next_token(rest);
        return is_name(name).then_some((name, rest.trim_ascii()));
    }
    let colon = printed.iter().position(|&b| b == b':')?;
    let (name, rest) = (&printed[..colon], printed[colon + 1..].trim_ascii());
    let first = next_token(rest).0;
    let has_pair = first.iter().position(|&b| b == b'=').is_some_and(|equals| key_start(first, equals) == Some(0));
    (is_name(name) && has_pair).then_some((name, rest))
}

/// `B|598|some event` and its kin.
fn atrace(printed: &[u8]) -> Option<Vec<Pair<'_>>> {
    let kind = printed.get(..1).filter(|kind| b"BECSFIGHN".contains(&kind[0]))?;
    if printed.len() > 1 && printed[1] != b'|' {
        return None;
    }
    let mut parts = printed.splitn(4, |&b| b == b'|').skip(1);
    let mut pairs: Vec<Pair<'_>> = vec![(b"kind", Value::Str(kind), Kind::Str)];
    match parts.next() {
        Some(tgid) => pairs.push((b"tgid", number(tgid)?.0, INT)),
        None if kind != b"E" => return None,
        None => {}
    }
    if let Some(name) = parts.next() {
        pairs.push((b"name", Value::Str(name), Kind::Str));
    }
    if let Some(value) = parts.next().and_then(number) {
        pairs.push((b"value", value.0, INT));
    }
    Some(pairs)
}

/// An event of a line.
#[inline]
fn event<'e>(
    schema: &'e Schema,
    time_ns: u64,
    cpu: u32,
    pid: i32,
    comm: &'e [u8],
    values: &'e [Value<'e>],
) -> Event<'e> {
    Event { schema, time_ns, cpu, pid, comm: Some(comm), buffer: 0, text: &[], body: Body::Values(values) }
}

/// Where the line around `at` ends.
fn line_end(text: &[u8], at: usize) -> usize {
    memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |len| at + len)
}

/// A line of a CPU is this long before one that stands ahead of it only if its clock went back: less is a rounding.
const BACK_NS: u64 = 10_000;

/// What is known of the order of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// They are in order of time.
    Known,
    /// They may be; the first that is not ends the pass.
    Checked,
    /// They are not: this pass delivers none, only their places.
    Kept,
}

/// One pass over the lines.
struct Pass<'v, 'p> {
    options: &'p ReadOptions,
    sink: &'p mut dyn Sink,
    order: Order,
    scratch: Scratch<'v>,
    /// Time and CPU of the last event.
    last_ns: u64,
    last_cpu: u32,
}

/// What a line was.
enum Found<'v> {
    Event(ControlFlow<()>),
    /// An event that is earlier than the one before.
    Disorder,
    Other(&'v [u8]),
}

#[derive(Default)]
struct Scratch<'v> {
    pairs: Vec<Pair<'v>>,
    values: Vec<Value<'v>>,
}

/// More fields than any event has: the keys are accidents of free text.
const MAX_FIELDS: usize = 256;

#[cold]
fn place_of(schema: &mut Schema, known: &mut Known, key: &[u8], kind: Kind, nth: usize) -> usize {
    let place = match known.keys.get(key) {
        Some(&place) => place,
        None if schema.fields.len() >= MAX_FIELDS => return MAX_FIELDS - 1,
        None => {
            let plain = String::from_utf8_lossy(key).into_owned();
            let renamed = RENAMED.iter().find(|(event, from, _)| *event == schema.name && *from == plain);
            let name = renamed.map_or(plain, |(.., to)| to.to_string());
            let place = schema.field_index(&name).unwrap_or_else(|| {
                schema.fields.push(FieldDef { name, kind, loc: Loc::Value });
                schema.fields.len() - 1
            });
            known.keys.insert(key.to_vec(), place);
            place
        }
    };
    if known.order.len() <= nth {
        known.order.resize(nth + 1, (Vec::new(), 0));
    }
    known.order[nth] = (key.to_vec(), place);
    place
}

/// Cuts line ends: `\r`, and the `\n\` of a page that keeps the trace in a JavaScript string.
fn strip_line(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    line.strip_suffix(b"\\n\\").unwrap_or(line)
}

/// Lines that belong to a text trace but are no events.
fn is_header(line: &[u8]) -> bool {
    line.is_empty()
        || line[0] == b'#'
        || line.starts_with(b"version = ")
        || line.starts_with(b"cpus=")
        || line.starts_with(b"CPU") && (line.ends_with(b" is empty") || line.ends_with(b"]"))
        || line.starts_with(b"TRACE:")
        || line.starts_with(b"trace.dat:")
        || line.starts_with(b"=> ")
        || line.starts_with(b"<stack trace>")
        || is_frame(line)
}

/// A frame of a call chain as `perf script` prints it: address, symbol, and the file in parentheses.
fn is_frame(line: &[u8]) -> bool {
    let (address, symbol) = next_token(line);
    hex_number(address).is_some() && symbol.ends_with(b")")
}

/// `CPU:2 [LOST 12 EVENTS]`, `CPU:2 [12 EVENTS DROPPED]`, `CPU:2 [EVENTS DROPPED]`.
fn lost_events(line: &[u8]) -> Option<(u32, Option<u64>)> {
    let rest = line.strip_prefix(b"CPU:")?;
    let (cpu, tail) = next_token(rest);
    if !has(tail, b"LOST") && !has(tail, b"DROPPED") {
        return None;
    }
    let count = tail.split(|b| !b.is_ascii_digit()).find_map(digits);
    Some((digits(cpu)? as u32, count))
}

fn problem(outcome: &mut Outcome, line: u64, what: String) {
    if outcome.problems.len() < MAX_PROBLEMS {
        outcome.problems.push(Error::Line { line, what });
    }
}

impl Reader for Text<'_> {
    fn about(&self) -> About<'_> {
        About { meta: &self.meta, schemas: &self.schemas, tasks: &self.tasks }
    }

    fn stream(&mut self, options: &ReadOptions, sink: &mut dyn Sink) -> Result<Outcome> {
        let order = if self.is_sorted() { Order::Known } else { Order::Kept };
        let outcome = self.pass(options, sink, order)?;
        Ok(outcome.unwrap_or_default())
    }

    fn stream_once(&mut self, options: &ReadOptions, sink: &mut dyn Sink) -> Result<Option<Outcome>> {
        self.pass(options, sink, Order::Checked)
    }
}

impl<'a> Text<'a> {
    /// Delivers all lines; `None` if they had to be in order and are not.
    fn pass(&mut self, options: &ReadOptions, sink: &mut dyn Sink, order: Order) -> Result<Option<Outcome>> {
        let mut outcome = Outcome::default();
        let parts = self.parts.clone();
        for (schema, known) in self.schemas.iter().zip(&mut self.known) {
            (known.wanted, known.bare) = (options.wants(schema), !options.names(schema));
        }
        let mut pass = Pass { options, sink, order, scratch: Scratch::default(), last_ns: 0, last_cpu: 0 };
        // Lines of a trace without order: their time, and their part and place there.
        let mut late: Vec<(u64, usize, usize)> = Vec::new();
        // Of each CPU: the time of its latest line, and whether one was found that goes back.
        let mut newest_ns: BTreeMap<u32, (u64, bool)> = BTreeMap::new();
        let mut clock = Clock::default();
        // Gaps whose CPU has no event behind them yet.
        let mut open_gaps: Vec<usize> = Vec::new();
        'parts: for (nth_part, &(text, first)) in parts.iter().enumerate() {
            let (mut at, mut line) = (0, first);
            while at < text.len() {
                if line & 0x3fff == 0x3fff {
                    self.release(&text[at..]);
                }
                let (end, found) = self.read_line(text, at, &mut pass);
                if matches!(found, Found::Event(_)) && !open_gaps.is_empty() {
                    let ends = |gap: &Missed| gap.cpu == pass.last_cpu;
                    for &gap in &open_gaps {
                        let gap = &mut outcome.missed[gap];
                        gap.time_ns = if ends(gap) { pass.last_ns } else { gap.time_ns };
                    }
                    open_gaps.retain(|&gap| !ends(&outcome.missed[gap]));
                }
                match found {
                    Found::Event(_) if order == Order::Kept => {
                        late.push((pass.last_ns, nth_part, at));
                        // Whoever puts CPUs together leaves the lines of each in their order.
                        let newest = newest_ns.entry(pass.last_cpu).or_insert((pass.last_ns, false));
                        let back_ns = newest.0.saturating_sub(pass.last_ns);
                        if back_ns >= BACK_NS && !std::mem::replace(&mut newest.1, true) {
                            let (cpu, back_s) = (pass.last_cpu, back_ns as f64 / 1e9);
                            let what = "what is after it lies between what was before";
                            problem(
                                &mut outcome,
                                line,
                                format!("CPU {cpu}'s clock goes back by {back_s:.6} s: {what}"),
                            );
                        }
                        newest.0 = newest.0.max(pass.last_ns);
                    }
                    Found::Event(flow) => {
                        if flow.is_break() {
                            outcome.stopped = true;
                            break 'parts;
                        }
                        if let Some(what) = self.damage.take() {
                            problem(&mut outcome, line, what);
                        }
                        if let Some(odd) = clock.odd(pass.last_ns) {
                            problem(&mut outcome, line, odd.what);
                        }
                    }
                    Found::Disorder => return Ok(None),
                    Found::Other(other) => {
                        let known = outcome.missed.len();
                        self.note(other, line, pass.last_ns, &mut outcome);
                        open_gaps.extend(known..outcome.missed.len());
                    }
                }
                (at, line) = (end + 1, line + 1);
            }
        }
        late.sort_by_key(|&(time_ns, ..)| time_ns);
        pass.order = Order::Known;
        for (_, nth_part, at) in late {
            let (text, first) = parts[nth_part];
            if let (_, Found::Event(ControlFlow::Break(()))) = self.read_line(text, at, &mut pass) {
                outcome.stopped = true;
                break;
            }
            let odd = clock.odd(pass.last_ns).map(|odd| odd.what);
            if let Some(what) = self.damage.take().or(odd)
                && outcome.problems.len() < MAX_PROBLEMS
            {
                problem(&mut outcome, first + memchr::memchr_iter(b'\n', &text[..at]).count() as u64, what);
            }
        }
        if !outcome.stopped {
            options.check_names(&self.schemas)?;
        }
        Ok(Some(outcome))
    }

    /// Notes the facts of a line that is no event.
    fn note(&self, line: &[u8], number: u64, last_ns: u64, outcome: &mut Outcome) {
        if let Some((cpu, count)) = lost_events(line) {
            outcome.missed.push(Missed { cpu, time_ns: last_ns, count });
        } else if !self.html && !is_header(line) {
            let shown = String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned();
            problem(outcome, number, format!("neither an event nor a header: {shown:?}"));
        }
    }

    /// True if the lines are in time order (then nothing needs to be kept to sort them).
    fn is_sorted(&self) -> bool {
        let mut last = 0;
        for &(text, _) in &self.parts {
            let (mut at, mut nth) = (0, 0);
            while at < text.len() {
                nth += 1;
                if nth & 0x3fff == 0x3fff {
                    self.release(&text[at..]);
                }
                let quick = quick::head(text, at);
                let end = line_end(text, quick.map_or(at, |head| head.at));
                let time_ns = match quick {
                    Some(head) => Some(head.time_ns),
                    None => parse_head(strip_line(&text[at..end])).map(|(.., time_ns, _, _)| time_ns),
                };
                if time_ns.is_some_and(|time_ns| std::mem::replace(&mut last, time_ns) > time_ns) {
                    return false;
                }
                at = end + 1;
            }
        }
        true
    }

    /// Gives back what stands in front of `line` in a mapped file.
    fn release(&self, line: &[u8]) {
        let end = (line.as_ptr() as usize).wrapping_sub(self.whole.as_ptr() as usize);
        if let Some(file) = self.file
            && end <= self.whole.len()
        {
            file.release(0, end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a line into `comm pid cpu ns event` and `key=value` of each field.
    fn check(line: &str, head: &str, expected: &[&str]) {
        let parsed = parse_line(line.as_bytes()).unwrap_or_else(|| panic!("not an event: {line}"));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let got =
            format!("{} {} {} {} {}", text(parsed.comm), parsed.pid, parsed.cpu, parsed.time_ns, text(parsed.event));
        assert_eq!(got, head, "{line}");
        let mut out = Vec::new();
        fields(parsed.event, parsed.rest, &mut out);
        let got: Vec<String> = out
            .iter()
            .map(|(key, value, _)| match value {
                Value::I64(v) => format!("{}={v}", text(key)),
                Value::U64(v) => format!("{}={v:#x}", text(key)),
                Value::Str(v) => format!("{}={:?}", text(key), text(v)),
                other => format!("{}={other:?}", text(key)),
            })
            .collect();
        assert_eq!(got, expected, "{line}");
    }

    #[test]
    fn heads_of_all_forms() {
        let state = &["state=2", "cpu_id=5"];
        let head = "<idle> 0 5 162534215764000 cpu_idle";
        check("          <idle>-0     [005] 162534.215764: cpu_idle:             state=2 cpu_id=5", head, state);
        check("<idle>-0     [005] 162534.215764000: cpu_idle: state=2 cpu_id=5", head, state);
        check("<idle>-0     [005] d..2 162534.215764: cpu_idle: state=2 cpu_id=5", head, state);
        // A task may be called as a head begins.
        let odd = |comm: &str| format!("{comm} 7 5 162534215764000 cpu_idle");
        for comm in ["w-2 [001]", "w-2 [001]~5", "w-2 [001] d..2", "[003]", "a-1 [000][1", "x: y-1 [2]"] {
            check(&format!("{comm}-7     [005] d..2 162534.215764: cpu_idle: state=2 cpu_id=5"), &odd(comm), state);
            check(&format!("{comm}-7 (   7) [005] 162534.215764000: cpu_idle: state=2 cpu_id=5"), &odd(comm), state);
        }
        check("<idle>-0     (-----) [005] d..2. 162534.215764: cpu_idle: state=2 cpu_id=5", head, state);
        check("<idle>-0     (  123) [005] d..2 162534.215764: cpu_idle: state=2 cpu_id=5", head, state);
        check("  <idle>-0       5d..2. 162534.215764: cpu_idle:             state=2 cpu_id=5", head, state);
        check("<idle>-0     [005] 162534.215764: (+22400) cpu_idle:             state=2 cpu_id=5", head, state);
        check("<idle>     0 [005] 162534.215764: power:cpu_idle: state=2 cpu_id=5", head, state);
        check("<idle>     0/0     [005] 162534.215764:   1  power:cpu_idle: state=2 cpu_id=5", head, state);
        let clock = "a b 8 3 264874155353000 cpu-clock";
        check("a b  7/8  [003] 264874.155353:    1001001                cpu-clock: ", clock, &[]);
        let cycles = "perf 7 3 264874155353000 cycles";
        check(
            "perf  7  [003] 264874.155353:   1 cycles:ppu:  ffff8000 f ([k])",
            cycles,
            &["text=\"ffff8000 f ([k])\""],
        );
        check("  <idle>-0       5d..2.  215764us : cpu_idle: state=2 cpu_id=5", "<idle> 0 5 215764000 cpu_idle", state);
        check("a-b c [x]-12 [013] 1.5: cpu_idle: state=2 cpu_id=5", "a-b c [x] 12 13 1500000000 cpu_idle", state);
        check("x-1 [000] 12345: cpu_idle: state=2 cpu_id=5", "x 1 0 12345 cpu_idle", state);
        for line in
            ["", "# tracer: nop", "version = 6", "cpus=8", "CPU 3 is empty", "x-1 [000] foo", "some = 000, other = 0x4"]
        {
            assert_eq!(parse_line(line.as_bytes()), None, "{line}");
        }
    }

    /// Goal: the quick way reads a time as the other does, or leaves it.
    #[test]
    fn times_of_all_lengths() {
        for (text, expected) in [
            ("1.5", Some(1_500_000_000)),
            ("0.000000001", Some(1)),
            ("1234567890.123456789", Some(1_234_567_890_123_456_789)),
            ("123456789.12345678", Some(123_456_789_123_456_780)),
            ("9999999999.999999999", Some(9_999_999_999_999_999_999)),
            ("12345678901.5", Some(12_345_678_901_500_000_000)),
            ("99999999999.5", None),
            ("1.1234567899", Some(1_123_456_789)),
            ("12us", Some(12_000)),
            ("12345", Some(12_345)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("1.", None),
            (".5", None),
            ("1.2.3", None),
            ("1.x", None),
            ("", None),
        ] {
            assert_eq!(parse_time(text.as_bytes()), expected, "{text}");
            let line = format!("{text}: x");
            if let Some((time, tail)) = common_time(line.as_bytes()) {
                assert_eq!((Some(time), tail), (expected, &b" x"[..]), "{text}");
            }
        }
        assert!(common_time(b"162534.215764: x").is_some());
        assert!(common_time(b"1767225609.607419424:").is_some());
        assert!(common_time(b"1.5:x").is_none());
    }

    #[test]
    fn fields_of_all_forms() {
        let with = |rest: &str| format!("sh-7 [001] 1.000000: {rest}");
        let head = |event: &str| format!("sh 7 1 1000000000 {event}");
        let check = |rest: &str, event: &str, expected: &[&str]| check(&with(rest), &head(event), expected);
        let switch = [
            "prev_comm=\"a b=c\"",
            "prev_pid=1",
            "prev_prio=120",
            "prev_state=\"R+\"",
            "next_comm=\"m/0\"",
            "next_pid=21",
            "next_prio=0",
        ];
        check("sched_switch: a b=c:1 [120] R+ ==> m/0:21 [0]", "sched_switch", &switch);
        for (prev, next) in
            [("e ==> f", "a"), ("a", "e ==> f"), ("i:j:9 [120]", "i:j:9 [120]"), ("x => y", "[0]:1 => z")]
        {
            let (line, mut out) = (format!("{prev}:1 [120] S ==> {next}:9 [120]"), Vec::new());
            fields(b"sched_switch", line.as_bytes(), &mut out);
            let got: Vec<_> =
                out.iter().filter(|(key, ..)| key.ends_with(b"comm")).map(|(_, value, _)| *value).collect();
            assert_eq!(got, [prev, next].map(|comm| Value::Str(comm.as_bytes())), "{line}");
        }
        check(
            "sched_switch: prev_comm=a b=c prev_pid=1 prev_prio=120 prev_state=R+ ==> next_comm=m/0 next_pid=21 next_prio=0",
            "sched_switch",
            &switch,
        );
        check(
            "cpuhp_enter: cpu: 0001 target:   0 step:  84 (takedown_cpu)",
            "cpuhp_enter",
            &["cpu=1", "target=0", "idx=84", "fun=\"takedown_cpu\""],
        );
        check(
            "cpuhp_exit:  cpu: 0001  state:   4 step:  84 ret: -5",
            "cpuhp_exit",
            &["cpu=1", "state=4", "idx=84", "ret=-5"],
        );
        check(
            "sched_wakeup: m:0:21 [0] success=1 CPU:003",
            "sched_wakeup",
            &["comm=\"m:0\"", "pid=21", "prio=0", "success=1", "target_cpu=3"],
        );
        check(
            "sched_wakeup: comm=Binder 5 pid=679 prio=120 success=1 target_cpu=001 state=W",
            "sched_wakeup",
            &["comm=\"Binder 5\"", "pid=679", "prio=120", "success=1", "target_cpu=1", "state=\"W\""],
        );
        check(
            "sched_stat_runtime: comm=rs:main Q:Reg pid=1769 runtime=15833 [ns] vruntime=6078986236 [ns]",
            "sched_stat_runtime",
            &["comm=\"rs:main Q:Reg\"", "pid=1769", "runtime=15833", "vruntime=6078986236"],
        );
        check("softirq_entry: vec=1 [action=TIMER]", "softirq_entry", &["vec=1", "action=\"TIMER\""]);
        check(
            "upd: (ffffffff810fe540) se=0xff1100 n=-5",
            "upd",
            &["__probe_ip=0xffffffff810fe540", "se=0xff1100", "n=-5"],
        );
        check(
            "ret: (ffffffff81102930 <- ffffffff81108a4e) ret=12",
            "ret",
            &["__probe_func=0xffffffff81102930", "__probe_ret_ip=0xffffffff81108a4e", "ret=12"],
        );
        check(
            "print: tracing_mark_write: rtapp_main: event=start",
            "print",
            &["ip=\"tracing_mark_write\"", "buf=\"rtapp_main: event=start\""],
        );
        check("tracing_mark_write: B|598|some event", "tracing_mark_write", &["buf=\"B|598|some event\""]);
        check(
            "bprint: 0xc04: cpu_load: cpu: 3 freq: 800000",
            "bprint",
            &["ip=\"0xc04\"", "text=\"cpu_load: cpu: 3 freq: 800000\""],
        );
        check("x: [FAILED TO PARSE] mask=ARRAY[0f, 00] freq=0x10", "x", &["mask=\"ARRAY[0f, 00]\"", "freq=0x10"]);
        check("ext4_sync: dev 8,13 ino 5 ret 0", "ext4_sync", &["text=\"dev 8,13 ino 5 ret 0\""]);
        check(
            "clock_enable: gcc_apps_clk state=1 cpu_id=0",
            "clock_enable",
            &["text=\"gcc_apps_clk\"", "state=1", "cpu_id=0"],
        );
        check("schedule <-do_idle", "function", &["ip=\"schedule\"", "parent_ip=\"do_idle\""]);
    }

    /// Name and value of each field that the last of `lines` has.
    fn fields_of_last(lines: &[String]) -> Vec<(String, String)> {
        let text = format!("# tracer: nop\n{}\n", lines.join("\n"));
        let options = ReadOptions::default();
        let trace = crate::TraceFile::from_bytes(text.into_bytes(), &options).unwrap().read(&options).unwrap();
        let mut found = Vec::new();
        let last = parse_line(strip_line(lines.last().map_or(&b""[..], |line| line.as_bytes())));
        if let Some(table) = last.and_then(|last| trace.table(&String::from_utf8_lossy(last.event))) {
            let row = table.len() - 1;
            found.push(("event".into(), format!("{} {}", table.name, table.time_ns[row])));
            found.push(("by".into(), format!("{} {}", table.cpu.get(row), table.pid.get(row))));
            found.push(("task".into(), trace.comm(table, row).into_owned()));
            for field in table.fields.iter().filter(|field| field.is_valid(row)) {
                found.push((
                    field.name.clone(),
                    match &field.column {
                        crate::Column::Int(numbers) => numbers.get_i128(row).to_string(),
                        crate::Column::Str(numbers) => trace.strings.text(numbers[row]).into_owned(),
                        crate::Column::Text(texts) => String::from_utf8_lossy(texts.get(row)).into_owned(),
                        other => panic!("text has no {other:?}"),
                    },
                ));
            }
        }
        found.sort();
        found
    }

    /// Goal: a line of a known shape has the fields that it has alone. Method: each line is read behind one that teaches a
    /// shape, and as the first line of a trace.
    #[test]
    fn shapes_change_nothing() {
        let read = |lines: &[&str]| {
            let lines = lines.iter().enumerate().map(|(nth, line)| format!("sh-7 [001] {nth}.000000: e: {line}"));
            let mut found = fields_of_last(&lines.collect::<Vec<_>>());
            found.retain(|(name, _)| name != "event");
            found
        };
        let teach = [
            "comm=a pid=1 state=R ==> n=5 [ns] m=-6",
            "prev_comm=a prev_pid=1 x=y",
            "a=1 b=2 [ms]",
            "a=one b=+2",
            "comm=a",
            "(ffff) a=1 comm=b pid=2",
            "a=1 a=2",
            "p=0xffff00009f89f318 q=18446603338369888072",
            "path=/user.slice/a-1.service:x comm=a pid=1 z=y",
        ];
        let lines = [
            "comm=b c=d pid=2 state=S|K ==> n=-5 [ns] m=6",
            "comm=12 [x] pid=2 state=S ==> n=5 [ns] m=6",
            "comm= pid=2 state=S+ ==> n=0x5 [ns] m=6",
            "comm=b pid=2 pid=3 state=2 ==> n=5 [ns] m=6",
            "comm=b pid=2 state=S ==> n=99999999999999999999 [ns] m=6",
            "comm=b pid=2 state=S ==> n=18446744073709551615 [ns] m=-9223372036854775808",
            "comm=b pid=2 state=S ==> n=18446744073709551616 [ns] m=-9223372036854775809",
            "comm=b pid=2 state=S ==> n=123456789012345678901 [ns] m=6",
            "comm=b pid=2 state=a=b ==> n=5 [ns] m=6",
            "comm=b pid=2 state=S ==> n=5x [ns] m=6, o=7",
            "comm=b pid=2 state=S ==> n=5 [ns] m=",
            "prev_comm=b prev_pid=1 prev_pid=2 x=y",
            "prev_comm=b x=y prev_pid=1",
            "a=1 b=-2 [ms]",
            "a=1 b=2 [us]",
            "a=1 b=2",
            "a=two b=x",
            "a=1 b=2 [ms] c",
            "comm=b pid=1",
            "(ffff) a=1 comm=b pid=2",
            "a=3 a=4",
            "p=0xFFFF00009F89F318 q=1",
            "p=0x q=18446744073709551616",
            "p=0x12345678901234567 q=-1",
            "p=0x1g q=0x1",
            "p=17 q=0xffffffffffffffff",
            "path=/ comm=a pid=1 z=y-",
            "path=/a/(b) comm=a pid=1 z=y",
            "path=/a,b comm=a pid=1 z=-y",
            "path=(null) comm=a pid=1 z=/y==>",
            "path=/a-b=c comm=a pid=1 z=y,",
            "text",
        ];
        for line in lines {
            let alone = read(&[line]);
            for first in teach {
                // A field that was met as a word is one for good.
                let behind = read(&[first, first, line]);
                assert_eq!(behind, alone, "{line:?} behind {first:?}");
            }
        }
    }

    /// Lines as the kernel, trace-cmd and perf write them. No changed byte makes a number of more than 63 bits of a negative one: a
    /// field of both has no column.
    const LINES: [&str; 8] = [
        "          <idle>-0       [003] d..2.   162.215764: cpu_idle: state=2 cpu_id=3",
        " trace-cmd-1234    [000] 1767225609.607419424: sched_switch: prev_comm=a b prev_pid=12 prev_prio=120 prev_state=R+ ==> next_comm=kworker/0:1 next_pid=9 next_prio=98",
        "perf  4711 [001]   264.874155:  sched:sched_waking: comm=a pid=-9 prio=120 target_cpu=001",
        "     a b-7 [1] ..s21    17.5: sched_stat_runtime: comm=rs:main pid=1769 runtime=15833 [ns]",
        "  sh-71  [002] d.h..     2.607402224: hook: __probe_ip=18446603338369857248 hook=0xffff00009f8B3640 n=-23372036854775808 at=0x1",
        "sh-7 [002] d.h..     2.607402225: sched_pelt_cfs: cpu=2 path=/a.slice/b-1 load=17 RBL_load=1 util=3",
        "  <...>-1234567 [017] d... 9199999999.1: power:cpu_frequency: state=1200000 cpu_id=17 ",
        "x [1]-5 [2] 3.25: a_name_of_more_than_sixteen: a=1 b=word c=0x10",
    ];

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..Default::default() })]

        /// Goal: the quick way finds what the slow way finds. Method: a line is changed in some bytes; its head is split both
        /// ways, and its fields are read behind two sound lines of its kind and alone, where no form is known yet.
        #[test]
        fn the_quick_way_is_the_slow_way(
            which in 0..LINES.len(),
            changes in proptest::collection::vec((proptest::prelude::any::<proptest::sample::Index>(), 0..32usize), 0..4),
        ) {
            const BYTES: &[u8; 32] = b"0159 -=:.[]()+_aZ\t/,|x\\<>#R\r~^!;";
            let mut line = LINES[which].as_bytes().to_vec();
            for (place, byte) in changes {
                let place = place.index(line.len());
                line[place] = BYTES[byte];
            }
            let text = [&b"\n"[..], &[b' '; 16], b"\n", &line, b"\n", &[b' '; 64]].concat();
            let quick = quick::head(&text, 18);
            if let Some(quick) = quick {
                let slow = parse_head(strip_line(&line)).map(|(comm, pid, cpu, time_ns, _, rest)| (comm, pid, cpu, time_ns, rest.to_vec()));
                let rest = text[quick.at..18 + line.len()].to_vec();
                let rest = strip_line(&rest).to_vec();
                proptest::prop_assert_eq!(Some((quick.comm, quick.pid, quick.cpu, quick.time_ns, rest)), slow);
            }
            let line = String::from_utf8(line).expect("ASCII");
            let sound = LINES[which].to_string();
            let alone = fields_of_last(std::slice::from_ref(&line));
            // Without an event of its own the changed line leaves the ones before it; and it must be the last.
            if let Some(time_ns) = parse_line(strip_line(line.as_bytes())).map(|line| line.time_ns)
                && !alone.is_empty()
                && parse_line(sound.as_bytes()).is_some_and(|sound| sound.time_ns <= time_ns)
            {
                proptest::prop_assert_eq!(fields_of_last(&[sound.clone(), sound, line]), alone);
            }
        }
    }

    /// Goal: the lines above are read the quick way, but for the last, whose first bracket is in a name.
    #[test]
    fn common_lines_have_a_quick_head() {
        for (nth, line) in LINES.iter().enumerate() {
            let text = format!("          \n{line}\n                                        ");
            assert_eq!(quick::head(text.as_bytes(), 11).is_some(), nth + 1 < LINES.len(), "{line}");
        }
    }

    #[test]
    fn lost_events_are_found() {
        assert_eq!(lost_events(b"CPU:2 [LOST 12 EVENTS]"), Some((2, Some(12))));
        assert_eq!(lost_events(b"CPU:12 [7 EVENTS DROPPED]"), Some((12, Some(7))));
        assert_eq!(lost_events(b"CPU:1 [EVENTS DROPPED]"), Some((1, None)));
        assert_eq!(lost_events(b"CPU 3 is empty"), None);
    }
}
