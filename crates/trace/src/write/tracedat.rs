//! `trace.dat` version 6 (trace-cmd.dat.v6(5)), which every trace-cmd opens.
//!
//! Integers are written with 4 or 8 bytes, names of tasks as 16-byte arrays, other strings, bytes and lists as dynamic arrays.
//! All buffers become one. A text that does not fit into a page is cut.

use std::io::{self, Write};

use super::{all_tasks, rows_in_order, value_at};
use crate::error::Result;
use crate::event::{Kind, Value};
use crate::reader::ReadOptions;
use crate::render::task_state_bits;
use crate::table::Column;
use crate::{Field, Table, Trace};

const PAGE: usize = 4096;
/// Page header: time and length.
const HEAD: usize = 16;
/// Longest record.
const RECORD_MAX: usize = 2048;
/// First event number; smaller ones belong to ftrace's own events.
const FIRST_ID: usize = 300;
/// The number of ftrace's `print` event.
const PRINT_ID: usize = 5;

const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
const HEADER_EVENT: &str = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n\
    \tpadding     : type == 29\n\ttime_extend : type == 30\n\ttime_stamp : type == 31\n\tdata max type_len  == 28\n";
const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";

/// How a field is written.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Int(usize),
    Comm,
    /// A dynamic array: bytes of an element.
    Dynamic(usize),
    /// To the end of the record.
    Rest,
}

/// How a table is written.
struct Plan {
    id: usize,
    /// Form and offset of each field; `None` if it is not written.
    fields: Vec<Option<(Form, usize)>>,
    fixed: usize,
    format: String,
}

fn int_size(column: &Column, name: &str) -> usize {
    let Column::Int(values) = column else { return 8 };
    let wide = matches!(values, crate::IntColumn::I64(_) | crate::IntColumn::U64(_));
    if wide || name == "prev_state" { 8 } else { 4 }
}

fn form_of(trace: &Trace, field: &Field) -> Form {
    match &field.column {
        Column::Int(_) => Form::Int(int_size(&field.column, &field.name)),
        // States that a text gave as letters become their bits again.
        Column::Str(_) if field.name == "prev_state" => Form::Int(8),
        Column::Str(numbers)
            if field.name.ends_with("comm") && numbers.iter().all(|&n| trace.strings.get(n).len() < 16) =>
        {
            Form::Comm
        }
        Column::Str(_) | Column::Text(_) | Column::Bytes(_) => Form::Dynamic(1),
        Column::List { .. } => Form::Dynamic(8),
    }
}

/// The group of an event whose format did not say it.
fn system_of(table: &Table) -> &str {
    if !table.system.is_empty() {
        return &table.system;
    }
    match table.name.as_str() {
        name if name.starts_with("sched_") => "sched",
        "cpu_frequency"
        | "cpu_frequency_limits"
        | "cpu_idle"
        | "cpu_idle_miss"
        | "suspend_resume"
        | "pstate_sample" => "power",
        name if name.starts_with("irq_handler") || name.starts_with("softirq") => "irq",
        _ => "opplab",
    }
}

fn is_print(table: &Table) -> bool {
    matches!(table.name.as_str(), "print" | "tracing_mark_write") && table.field("buf").is_some()
}

fn plan(trace: &Trace, table: &Table, id: usize) -> Plan {
    use std::fmt::Write as _;
    let (mut text, mut print, mut args) = (String::from(COMMON), String::new(), String::new());
    let mut at = 8usize;
    let mut fields = Vec::new();
    let name = table.name.rsplit(':').next().unwrap_or("");
    if is_print(table) {
        fields = table.fields.iter().map(|f| (f.name == "buf").then_some((Form::Rest, 16))).collect();
        text += "\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:char buf[];\toffset:16;\tsize:0;\tsigned:1;\n";
        let format = format!(
            "name: print\nID: {PRINT_ID}\nformat:\n{text}\nprint fmt: \"%ps: %s\", (void *)REC->ip, REC->buf\n"
        );
        return Plan { id: PRINT_ID, fields, fixed: 16, format };
    }
    for field in &table.fields {
        let form = form_of(trace, field);
        let f = &field.name;
        let (signed, hex) = match field.kind {
            Kind::Int { signed, hex } | Kind::List { signed, hex } => (signed, hex),
            _ => (false, false),
        };
        let (declaration, size, conversion, arg) = match form {
            Form::Int(size) => {
                at = at.next_multiple_of(size);
                let (ty, conversion) = match (size, signed, hex) {
                    (4, true, false) => ("int", "%d"),
                    (4, false, false) => ("unsigned int", "%u"),
                    (4, ..) => ("unsigned int", "0x%x"),
                    (_, true, false) => ("s64", "%lld"),
                    (_, false, false) => ("u64", "%llu"),
                    _ => ("u64", "0x%llx"),
                };
                (format!("{ty} {f}"), size, conversion, format!("REC->{f}"))
            }
            Form::Comm => (format!("char {f}[16]"), 16, "%s", format!("REC->{f}")),
            Form::Dynamic(each) => {
                at = at.next_multiple_of(4);
                let (ty, conversion, arg) = match (&field.column, each) {
                    (Column::Bytes(_), _) => ("u8", "", String::new()),
                    (_, 8) if signed => ("s64", "", String::new()),
                    (_, 8) => ("u64", "", String::new()),
                    _ => ("char", "%s", format!("__get_str({f})")),
                };
                (format!("__data_loc {ty}[] {f}"), 4, conversion, arg)
            }
            Form::Rest => (format!("char {f}[]"), 0, "%s", format!("REC->{f}")),
        };
        let sign = u8::from(signed || conversion == "%s");
        writeln!(text, "\tfield:{declaration};\toffset:{at};\tsize:{size};\tsigned:{sign};").expect("memory");
        if !conversion.is_empty() {
            let arrow = if name == "sched_switch" && f == "next_comm" { " ==>" } else { "" };
            let conversion = if f == "target_cpu" { "%03d" } else { conversion };
            write!(print, "{arrow}{}{f}={conversion}", if print.is_empty() { "" } else { " " }).expect("memory");
            write!(args, ", {arg}").expect("memory");
        }
        fields.push(Some((form, at)));
        at += size;
    }
    let format = format!("name: {name}\nID: {id}\nformat:\n{text}\nprint fmt: \"{print}\"{args}\n");
    Plan { id, fields, fixed: at.next_multiple_of(4), format }
}

/// Encodes one row.
fn record(trace: &Trace, table: &Table, plan: &Plan, row: usize, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&(plan.id as u16).to_le_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&(table.pid.get(row) as i32).to_le_bytes());
    out.resize(plan.fixed, 0);
    for (place, form) in plan.fields.iter().enumerate() {
        let Some((form, at)) = *form else { continue };
        let value = value_at(trace, table, place, row);
        match form {
            Form::Int(size) => {
                let bits = match value {
                    Value::I64(v) => v as u64,
                    Value::U64(v) => v,
                    Value::Str(text) => task_state_bits(&String::from_utf8_lossy(text)).unwrap_or(0),
                    _ => 0,
                };
                out[at..at + size].copy_from_slice(&bits.to_le_bytes()[..size]);
            }
            Form::Comm => {
                if let Value::Str(text) = value {
                    out[at..at + text.len()].copy_from_slice(text);
                }
            }
            Form::Dynamic(_) | Form::Rest => {
                let start = out.len();
                let room = RECORD_MAX - start.min(RECORD_MAX) - 16;
                match value {
                    Value::Str(text) => out.extend_from_slice(&text[..text.len().min(room)]),
                    Value::Bytes(bytes) => out.extend_from_slice(&bytes[..bytes.len().min(room)]),
                    _ => {
                        for number in table.fields[place].column.list(row).unwrap_or_default().iter().take(room / 8) {
                            out.extend_from_slice(&(*number as i64 as u64).to_le_bytes());
                        }
                    }
                }
                if matches!(table.fields[place].column, Column::Str(_) | Column::Text(_)) {
                    // As the kernel's own: a printed line ends with a line end.
                    out.extend_from_slice(if form == Form::Rest { b"\n\0" } else { b"\0" });
                }
                if form != Form::Rest {
                    let word = (start | (out.len() - start) << 16) as u32;
                    out[at..at + 4].copy_from_slice(&word.to_le_bytes());
                    out.resize(out.len().next_multiple_of(4), 0);
                }
            }
        }
    }
}

/// Pages of one CPU while they are filled.
#[derive(Default)]
struct Pages {
    done: Vec<u8>,
    page: Vec<u8>,
    start: u64,
    last: u64,
    /// A loss that the next record comes behind.
    missed: Option<Option<u64>>,
    /// The loss in front of the page that is being filled.
    loss_of_page: Option<Option<u64>>,
}

impl Pages {
    fn push(&mut self, time: u64, record: &[u8]) {
        let words = record.len().div_ceil(4);
        // Header, a time extension, a length word, the data.
        let need = 4 + 8 + 4 + words * 4;
        // A loss is noted at the start of a page.
        if self.missed.is_some() || HEAD + self.page.len() + need + 8 > PAGE || time < self.last {
            self.finish();
        }
        if self.page.is_empty() {
            (self.start, self.last) = (time, time);
            self.loss_of_page = self.missed.take();
        }
        let mut delta = time - self.last;
        self.last = time;
        let mut word = |bits: u64| self.page.extend_from_slice(&(bits as u32).to_le_bytes());
        if delta >> 27 != 0 {
            // 59 bits are 18 years.
            word(30 | (delta & 0x7ff_ffff) << 5);
            word(delta >> 27);
            delta = 0;
        }
        if words <= 28 {
            word(words as u64 | delta << 5);
        } else {
            word(delta << 5);
            word(record.len() as u64 + 4);
        }
        self.page.extend_from_slice(record);
        self.page.resize(self.page.len().next_multiple_of(4), 0);
    }

    fn finish(&mut self) {
        if self.page.is_empty() {
            return;
        }
        let mut commit = self.page.len() as u64;
        let stored = self.loss_of_page.take();
        if let Some(count) = stored {
            commit |= 1 << 31 | u64::from(count.is_some()) << 30;
        }
        self.done.extend_from_slice(&self.start.to_le_bytes());
        self.done.extend_from_slice(&commit.to_le_bytes());
        self.done.append(&mut self.page);
        if let Some(Some(count)) = stored {
            self.done.extend_from_slice(&count.to_le_bytes());
        }
        self.done.resize(self.done.len().next_multiple_of(PAGE), 0);
    }
}

fn sized(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text);
}

/// Writes `trace` as a trace.dat.
pub fn trace_dat(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let mut plans = Vec::new();
    for table in &trace.tables {
        plans.push(plan(trace, table, FIRST_ID + plans.len()));
    }
    let highest = trace.tables.iter().filter_map(|t| t.cpu.to_u64().into_iter().max()).max();
    let cpus = (trace.meta.cpus as usize).max(highest.map_or(1, |cpu| cpu as usize + 1));
    let mut pages: Vec<Pages> = (0..cpus).map(|_| Pages::default()).collect();
    let mut bytes = Vec::new();
    let mut missed = trace.missed.iter().peekable();
    for place in rows_in_order(trace) {
        let table = &trace.tables[place.table];
        let (time, cpu) = (table.time_ns[place.row], table.cpu.get(place.row) as usize);
        while let Some(gap) = missed.next_if(|gap| gap.time_ns <= time) {
            if let Some(pages) = pages.get_mut(gap.cpu as usize) {
                pages.missed = Some(gap.count);
            }
        }
        record(trace, table, &plans[place.table], place.row, &mut bytes);
        pages[cpu].push(time, &bytes);
    }
    pages.iter_mut().for_each(Pages::finish);

    let mut head = Vec::new();
    head.extend_from_slice(b"\x17\x08\x44tracing6\0\0\x08");
    head.extend_from_slice(&(PAGE as u32).to_le_bytes());
    head.extend_from_slice(b"header_page\0");
    sized(&mut head, HEADER_PAGE.as_bytes());
    head.extend_from_slice(b"header_event\0");
    sized(&mut head, HEADER_EVENT.as_bytes());
    let of_ftrace: Vec<&Plan> = plans.iter().filter(|plan| plan.id == PRINT_ID).take(1).collect();
    head.extend_from_slice(&(of_ftrace.len() as u32).to_le_bytes());
    of_ftrace.iter().for_each(|plan| sized(&mut head, plan.format.as_bytes()));
    let mut systems: Vec<(&str, Vec<&Plan>)> = Vec::new();
    for (table, plan) in trace.tables.iter().zip(&plans).filter(|(_, plan)| plan.id != PRINT_ID) {
        let system = system_of(table);
        match systems.iter_mut().find(|(name, _)| *name == system) {
            Some((_, plans)) => plans.push(plan),
            None => systems.push((system, vec![plan])),
        }
    }
    head.extend_from_slice(&(systems.len() as u32).to_le_bytes());
    for (system, plans) in systems {
        head.extend_from_slice(system.as_bytes());
        head.push(0);
        head.extend_from_slice(&(plans.len() as u32).to_le_bytes());
        plans.iter().for_each(|plan| sized(&mut head, plan.format.as_bytes()));
    }
    // No kallsyms, no printk formats.
    head.extend_from_slice(&[0; 8]);
    let mut names = Vec::new();
    for (pid, name) in all_tasks(trace) {
        names.extend_from_slice(format!("{pid} ").as_bytes());
        names.extend_from_slice(&name);
        names.push(b'\n');
    }
    sized(&mut head, &names);
    head.extend_from_slice(&(cpus as u32).to_le_bytes());
    head.extend_from_slice(b"options  \0");
    let mut option = |id: u16, data: &[u8]| {
        head.extend_from_slice(&id.to_le_bytes());
        head.extend_from_slice(&(data.len() as u32).to_le_bytes());
        head.extend_from_slice(data);
    };
    if !trace.meta.clock.is_empty() {
        option(4, format!("[{}]\0", trace.meta.clock).as_bytes());
    }
    if !trace.meta.uname.is_empty() {
        option(5, format!("{}\0", trace.meta.uname).as_bytes());
    }
    head.extend_from_slice(&[0, 0]);
    finish_v6(head, pages.iter().map(|p| &p.done[..]).collect(), out)
}

/// Ends a version 6 file: where each CPU's pages are, and the pages.
fn finish_v6(mut head: Vec<u8>, cpus: Vec<&[u8]>, out: &mut dyn Write) -> io::Result<()> {
    head.extend_from_slice(b"flyrecord\0");
    let mut offset = (head.len() + 16 * cpus.len()).next_multiple_of(PAGE);
    let start = offset;
    for data in &cpus {
        head.extend_from_slice(&(offset as u64).to_le_bytes());
        head.extend_from_slice(&(data.len() as u64).to_le_bytes());
        offset += data.len();
    }
    head.resize(start, 0);
    out.write_all(&head)?;
    cpus.iter().try_for_each(|data| out.write_all(data))
}

/// Repeats the pages of a little-endian 64-bit trace.dat `times` times, each time later, as an uncompressed version 6 file: large input for measurements.
pub fn repeat_trace_dat(data: &[u8], times: u32) -> Result<Vec<u8>> {
    let options = ReadOptions::default();
    let source = crate::tracedat::TraceDat::open(data, None, options.unpack.budget(data.len()), &options)?;
    let raw = source.raw_parts()?;
    let mut head = b"\x17\x08\x44tracing6\0\0\x08".to_vec();
    head.extend_from_slice(&(PAGE as u32).to_le_bytes());
    head.extend_from_slice(&raw.metadata);
    head.extend_from_slice(&(raw.cpus.len() as u32).to_le_bytes());
    head.extend_from_slice(b"options  \0\0\0");
    let time_of = |page: &[u8]| u64::from_le_bytes(page[..8].try_into().unwrap_or_default());
    let pages = || raw.cpus.iter().flat_map(|cpu| cpu.chunks_exact(PAGE));
    let (first, last) = (pages().map(time_of).min().unwrap_or(0), pages().map(time_of).max().unwrap_or(0));
    // Far enough that the end of one copy does not reach into the next.
    let step = last - first + 1_000_000_000;
    let mut cpus = Vec::new();
    for cpu in &raw.cpus {
        let mut repeated = Vec::with_capacity(cpu.len() * times as usize);
        for copy in 0..u64::from(times) {
            for page in cpu.chunks_exact(PAGE) {
                repeated.extend_from_slice(&(time_of(page) + copy * step).to_le_bytes());
                repeated.extend_from_slice(&page[8..]);
            }
        }
        cpus.push(repeated);
    }
    let mut out = Vec::new();
    finish_v6(head, cpus.iter().map(|cpu| &cpu[..]).collect(), &mut out)
        .map_err(|source| crate::Error::Io { path: "memory".into(), source })?;
    Ok(out)
}
