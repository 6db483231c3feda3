//! `trace.dat` version 6 (trace-cmd.dat.v6(5)), which every trace-cmd opens.
//!
//! Integers are written with 4 or 8 bytes, names of tasks as 16-byte arrays, other strings, bytes and lists as dynamic arrays.
//! All buffers become one. Of an event that does not fit into a page texts are cut and the last fields left out.
//!
//! The head follows from all events, and each CPU's pages lie together: a trace that comes in pieces is looked at
//! twice, and pages that are full wait in a file.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom, Write};

use super::{HEAD_FIELDS, all_tasks, rows_in_time, value_at};
use crate::error::Result;
use crate::event::{Kind, Value};
use crate::reader::{Meta, ReadOptions};
use crate::render::task_state_bits;
use crate::table::Column;
use crate::{Field, IntColumn, Table, Trace};

const PAGE: usize = 4096;
/// Page header: time and length.
const HEAD: usize = 16;
/// Longest record, but for what marks its arrays that have no room.
const RECORD_MAX: usize = 2048;
/// Fields beyond are left out: those of free text that has many equals signs.
const FIXED_MAX: usize = 1024;
/// First event number; smaller ones belong to ftrace's own events.
const FIRST_ID: usize = 300;
/// Bytes of a task's name, with its end.
const COMM: usize = 16;
/// The number of ftrace's `print` event.
const PRINT_ID: usize = 5;

const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
const HEADER_EVENT: &str = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n\
    \tpadding     : type == 29\n\ttime_extend : type == 30\n\ttime_stamp : type == 31\n\tdata max type_len  == 28\n";
const COMMON_TYPE: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n";
const COMMON_PID: &str = "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";

/// How a field is written.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Int(usize),
    /// One of [`HEAD_FIELDS`].
    Byte,
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

/// What the columns of a field are; numbers that meet words have become words.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Content {
    Int,
    Str,
    Text,
    Bytes,
    List,
}

/// What a field holds in all pieces of a trace.
#[derive(Clone, Debug)]
struct FieldLayout {
    name: String,
    kind: Kind,
    content: Content,
    /// All numbers are within an `i32`, within a `u32`.
    in_i32: bool,
    in_u32: bool,
    /// All words have less than 16 bytes.
    is_short: bool,
}

impl FieldLayout {
    fn of(trace: &Trace, field: &Field) -> Self {
        let content = match &field.column {
            Column::Int(_) => Content::Int,
            Column::Str(_) => Content::Str,
            Column::Text(_) => Content::Text,
            Column::Bytes(_) => Content::Bytes,
            Column::List { .. } => Content::List,
        };
        let (in_i32, in_u32) = match &field.column {
            Column::Int(IntColumn::I64(_) | IntColumn::U64(_)) => (false, false),
            Column::Int(IntColumn::U32(_)) => (false, true),
            Column::Int(IntColumn::I8(_) | IntColumn::I16(_) | IntColumn::I32(_)) => (true, false),
            _ => (true, true),
        };
        let is_short = match &field.column {
            Column::Str(numbers) if field.name.ends_with("comm") => {
                numbers.iter().all(|&number| trace.strings.get(number).len() < COMM)
            }
            _ => in_i32,
        };
        Self { name: field.name.clone(), kind: field.kind, content, in_i32, in_u32, is_short }
    }

    /// Also holds what `other` holds.
    fn add(&mut self, other: &Self) {
        match (self.content, other.content) {
            (Content::Int, Content::Str) => (self.content, self.kind) = (Content::Str, other.kind),
            (Content::Int, Content::Int) if self.kind != other.kind => {
                // A number below 0 made addresses signed, or one that only a `u64` holds made numbers unsigned.
                let is_hex = |kind: Kind| matches!(kind, Kind::Int { hex: true, .. });
                let signed = is_hex(self.kind) || is_hex(other.kind);
                self.kind = Kind::Int { signed, hex: false };
            }
            _ => {}
        }
        self.in_i32 &= other.in_i32;
        self.in_u32 &= other.in_u32;
        self.is_short &= other.is_short;
    }

    /// Where in the head of a record it stands, if it is one of its fields.
    fn head_place(&self) -> Option<usize> {
        HEAD_FIELDS
            .iter()
            .position(|name| self.name == *name)
            .filter(|_| self.content == Content::Int)
            .map(|nth| 2 + nth)
    }

    fn form(&self) -> Form {
        if self.head_place().is_some() {
            return Form::Byte;
        }
        let signed = matches!(self.kind, Kind::Int { signed: true, .. });
        match self.content {
            Content::Int if self.name == "prev_state" => Form::Int(8),
            Content::Int => Form::Int(if signed && self.in_i32 || !signed && self.in_u32 { 4 } else { 8 }),
            // States that a text gave as letters become their bits again.
            Content::Str if self.name == "prev_state" => Form::Int(8),
            Content::Str if self.name.ends_with("comm") && self.is_short => Form::Comm,
            Content::Str | Content::Text | Content::Bytes => Form::Dynamic(1),
            Content::List => Form::Dynamic(8),
        }
    }
}

/// What an event's fields hold in all pieces of a trace.
#[derive(Clone, Debug)]
struct TableLayout {
    name: String,
    system: String,
    fields: Vec<FieldLayout>,
}

impl TableLayout {
    /// The field that stands at `place` in a piece: fields that a format learns are behind those that it knew.
    fn place_of(&self, place: usize, name: &str) -> Option<usize> {
        let is_named = |at: &usize| self.fields.get(*at).is_some_and(|field| field.name == name);
        Some(place).filter(is_named).or_else(|| self.fields.iter().position(|field| field.name == name))
    }

    fn add(&mut self, trace: &Trace, table: &Table) {
        for (place, field) in table.fields.iter().enumerate() {
            let layout = FieldLayout::of(trace, field);
            match self.place_of(place, &field.name).filter(|&known| known == place || place < self.fields.len()) {
                Some(known) => self.fields[known].add(&layout),
                None => self.fields.push(layout),
            }
        }
    }
}

/// The facts of a file's head; they follow from all pieces of a trace.
#[derive(Debug, Default)]
pub struct TraceDatLayout {
    tables: BTreeMap<String, TableLayout>,
    tasks: BTreeMap<i32, Vec<u8>>,
    meta: Meta,
    cpus: usize,
}

impl TraceDatLayout {
    /// Looks at a piece.
    pub fn add(&mut self, piece: &Trace) {
        for table in &piece.tables {
            let new = || TableLayout { name: table.name.clone(), system: table.system.clone(), fields: Vec::new() };
            self.tables.entry(table.name.clone()).or_insert_with(new).add(piece, table);
        }
        for (pid, name) in all_tasks(piece) {
            // The last name that it had.
            self.tasks.insert(pid, name);
        }
        let highest = piece.tables.iter().filter_map(|table| table.cpu.to_u64().into_iter().max()).max();
        self.cpus = self.cpus.max(piece.meta.cpus as usize).max(highest.map_or(1, |cpu| cpu as usize + 1));
        self.meta = piece.meta.clone();
    }
}

/// The group of an event whose format lacks it.
fn system_of(table: &TableLayout) -> &str {
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

fn is_print(table: &TableLayout) -> bool {
    matches!(table.name.as_str(), "print" | "tracing_mark_write")
        && table.fields.iter().any(|field| field.name == "buf")
}

fn plan(table: &TableLayout, id: usize) -> Plan {
    use std::fmt::Write as _;
    let (mut text, mut print, mut args) = (String::from(COMMON_TYPE), String::new(), String::new());
    // What is not known has no place: a 0 means that no interrupt runs.
    for (field, at) in table.fields.iter().filter_map(|field| Some((field, field.head_place()?))) {
        writeln!(text, "\tfield:unsigned char {};\toffset:{at};\tsize:1;\tsigned:0;", field.name).expect("memory");
    }
    text += COMMON_PID;
    let mut at = 8usize;
    let mut fields = Vec::new();
    let name = table.name.rsplit(':').next().unwrap_or("");
    if is_print(table) {
        let form = |f: &FieldLayout| match f.head_place() {
            Some(at) => Some((Form::Byte, at)),
            None => (f.name == "buf").then_some((Form::Rest, 16)),
        };
        fields = table.fields.iter().map(form).collect();
        text += "\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:char buf[];\toffset:16;\tsize:0;\tsigned:1;\n";
        let format = format!(
            "name: print\nID: {PRINT_ID}\nformat:\n{text}\nprint fmt: \"%ps: %s\", (void *)REC->ip, REC->buf\n"
        );
        return Plan { id: PRINT_ID, fields, fixed: 16, format };
    }
    for field in &table.fields {
        if let Some(at) = field.head_place() {
            fields.push(Some((Form::Byte, at)));
            continue;
        }
        if at >= FIXED_MAX {
            fields.push(None);
            continue;
        }
        let form = field.form();
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
            Form::Byte => continue,
            Form::Comm => (format!("char {f}[16]"), 16, "%s", format!("REC->{f}")),
            Form::Dynamic(each) => {
                at = at.next_multiple_of(4);
                let (ty, conversion, arg) = match (field.content, each) {
                    (Content::Bytes, _) => ("u8", "", String::new()),
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

/// Encodes one row; `places` are the places of the layout's fields in the table.
fn record(
    trace: &Trace,
    table: &Table,
    (layout, plan): (&TableLayout, &Plan),
    places: &[Option<usize>],
    row: usize,
    out: &mut Vec<u8>,
) {
    out.clear();
    out.extend_from_slice(&(plan.id as u16).to_le_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&(table.pid.get(row) as i32).to_le_bytes());
    out.resize(plan.fixed, 0);
    for ((form, field), place) in plan.fields.iter().zip(&layout.fields).zip(places) {
        let Some((form, at)) = *form else { continue };
        let mut value = place.map_or(Value::Null, |place| value_at(trace, table, place, row));
        // Numbers of a piece that had no words yet.
        let mut word = String::new();
        if field.content == Content::Str
            && let Some(number) = place.and_then(|place| number_as_word(table, place, row))
        {
            word = number;
        }
        if !word.is_empty() {
            value = Value::Str(word.as_bytes());
        }
        match form {
            Form::Int(_) | Form::Byte => {
                let size = if let Form::Int(size) = form { size } else { 1 };
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
                let room = RECORD_MAX.saturating_sub(start + 16);
                match value {
                    Value::Str(text) => out.extend_from_slice(&text[..text.len().min(room)]),
                    Value::Bytes(bytes) => out.extend_from_slice(&bytes[..bytes.len().min(room)]),
                    _ => {
                        let list = place.and_then(|place| table.fields[place].column.list(row)).unwrap_or_default();
                        for number in list.iter().take(room / 8) {
                            out.extend_from_slice(&(*number as i64 as u64).to_le_bytes());
                        }
                    }
                }
                if matches!(field.content, Content::Str | Content::Text) {
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

/// The number at `row`, if there is one, as a text would have it.
fn number_as_word(table: &Table, place: usize, row: usize) -> Option<String> {
    let field = &table.fields[place];
    let numbers = field.column.as_int().filter(|_| field.is_valid(row))?;
    Some(match field.kind {
        Kind::Int { hex: true, .. } => format!("{:#x}", numbers.get_u64(row)),
        _ => numbers.get_i128(row).to_string(),
    })
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

/// A file for pages that wait.
pub trait Spill: Read + Write + Seek {}
impl<T: Read + Write + Seek> Spill for T {}

/// So many bytes of a CPU's pages are kept before they go to a file.
const KEPT: usize = 256 << 10;

/// Writes a trace.dat of a trace that comes in pieces.
pub struct TraceDatWriter<'s> {
    layout: TraceDatLayout,
    plans: Vec<Plan>,
    pages: Vec<Pages>,
    spill: Option<&'s mut dyn Spill>,
    /// Where in that file pages of each CPU are, and how many bytes.
    blocks: Vec<Vec<(u64, u64)>>,
    spilled: u64,
}

impl<'s> TraceDatWriter<'s> {
    /// For pieces that `layout` has seen; full pages wait in `spill`, or in memory.
    pub fn new(layout: TraceDatLayout, spill: Option<&'s mut dyn Spill>) -> Self {
        let plans = layout.tables.values().enumerate().map(|(nth, table)| plan(table, FIRST_ID + nth)).collect();
        let pages = (0..layout.cpus).map(|_| Pages::default()).collect();
        let blocks = vec![Vec::new(); layout.cpus];
        Self { layout, plans, pages, spill, blocks, spilled: 0 }
    }

    /// Writes the events of a piece; pieces are in order of time.
    pub fn piece(&mut self, piece: &Trace) -> io::Result<()> {
        // Of each table its layout and plan, and where its fields are.
        let known: Vec<_> = piece
            .tables
            .iter()
            .map(|table| {
                let nth = self.layout.tables.keys().position(|name| *name == table.name)?;
                let layout = self.layout.tables.get(&table.name)?;
                let mut places = vec![None; layout.fields.len()];
                for (place, field) in table.fields.iter().enumerate() {
                    *places.get_mut(layout.place_of(place, &field.name)?)? = Some(place);
                }
                Some((layout, &self.plans[nth], places))
            })
            .collect();
        let mut bytes = Vec::new();
        let mut missed = piece.missed.iter().peekable();
        for (place, time) in rows_in_time(piece) {
            let table = &piece.tables[place.table];
            let cpu = table.cpu.get(place.row) as usize;
            while let Some(gap) = missed.next_if(|gap| gap.time_ns <= time) {
                if let Some(pages) = self.pages.get_mut(gap.cpu as usize) {
                    pages.missed = Some(gap.count);
                }
            }
            let (Some((layout, plan, places)), Some(pages)) = (&known[place.table], self.pages.get_mut(cpu)) else {
                return Err(io::Error::other("a piece that the layout has not seen"));
            };
            record(piece, table, (layout, plan), places, place.row, &mut bytes);
            pages.push(time, &bytes);
            if pages.done.len() >= KEPT
                && let Some(spill) = &mut self.spill
            {
                spill.write_all(&pages.done)?;
                self.blocks[cpu].push((self.spilled, pages.done.len() as u64));
                self.spilled += pages.done.len() as u64;
                pages.done.clear();
            }
        }
        Ok(())
    }

    /// Writes the file.
    pub fn finish(mut self, out: &mut dyn Write) -> io::Result<()> {
        self.pages.iter_mut().for_each(Pages::finish);
        let of_blocks = |blocks: &Vec<(u64, u64)>| blocks.iter().map(|(_, len)| len).sum::<u64>();
        let lengths =
            self.blocks.iter().zip(&self.pages).map(|(blocks, pages)| of_blocks(blocks) + pages.done.len() as u64);
        write_head(head_of(&self.layout, &self.plans), lengths.collect(), out)?;
        for (blocks, pages) in self.blocks.iter().zip(&self.pages) {
            for &(at, len) in blocks {
                if let Some(spill) = &mut self.spill {
                    spill.seek(SeekFrom::Start(at))?;
                    io::copy(&mut spill.take(len), out)?;
                }
            }
            out.write_all(&pages.done)?;
        }
        Ok(())
    }

    /// Bytes of pages that are in memory.
    #[cfg(test)]
    fn kept(&self) -> usize {
        self.pages.iter().map(|pages| pages.done.len() + pages.page.len()).sum()
    }
}

/// Writes `trace` as a trace.dat.
pub fn trace_dat(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let mut layout = TraceDatLayout::default();
    layout.add(trace);
    let mut writer = TraceDatWriter::new(layout, None);
    writer.piece(trace)?;
    writer.finish(out)
}

/// The head up to the options.
fn head_of(layout: &TraceDatLayout, plans: &[Plan]) -> Vec<u8> {
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
    for (table, plan) in layout.tables.values().zip(plans).filter(|(_, plan)| plan.id != PRINT_ID) {
        let system = system_of(table);
        match systems.iter_mut().find(|(name, _)| *name == system) {
            Some((_, plans)) => plans.push(plan),
            None => systems.push((system, vec![plan])),
        }
    }
    head.extend_from_slice(&(systems.len() as u32).to_le_bytes());
    for (system, plans) in systems {
        // A text may name anything; here a zero ends the name.
        head.extend_from_slice(system.replace('\0', "_").as_bytes());
        head.push(0);
        head.extend_from_slice(&(plans.len() as u32).to_le_bytes());
        plans.iter().for_each(|plan| sized(&mut head, plan.format.as_bytes()));
    }
    // No kallsyms, no printk formats.
    head.extend_from_slice(&[0; 8]);
    let mut names = Vec::new();
    for (pid, name) in &layout.tasks {
        names.extend_from_slice(format!("{pid} ").as_bytes());
        names.extend_from_slice(name);
        names.push(b'\n');
    }
    sized(&mut head, &names);
    head.extend_from_slice(&(layout.cpus as u32).to_le_bytes());
    head.extend_from_slice(b"options  \0");
    let mut option = |id: u16, data: &[u8]| {
        head.extend_from_slice(&id.to_le_bytes());
        head.extend_from_slice(&(data.len() as u32).to_le_bytes());
        head.extend_from_slice(data);
    };
    if !layout.meta.clock.is_empty() {
        option(4, format!("[{}]\0", layout.meta.clock).as_bytes());
    }
    if !layout.meta.uname.is_empty() {
        option(5, format!("{}\0", layout.meta.uname).as_bytes());
    }
    head.extend_from_slice(&[0, 0]);
    head
}

/// Writes the end of a version 6 head, where the pages of each CPU are, of so many bytes each. They follow.
fn write_head(mut head: Vec<u8>, cpus: Vec<u64>, out: &mut dyn Write) -> io::Result<()> {
    head.extend_from_slice(b"flyrecord\0");
    let start = (head.len() + 16 * cpus.len()).next_multiple_of(PAGE);
    let mut offset = start as u64;
    for len in cpus {
        head.extend_from_slice(&offset.to_le_bytes());
        head.extend_from_slice(&len.to_le_bytes());
        offset += len;
    }
    head.resize(start, 0);
    out.write_all(&head)
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
    write_head(head, cpus.iter().map(|cpu| cpu.len() as u64).collect(), &mut out)
        .and_then(|()| cpus.iter().try_for_each(|cpu| out.write_all(cpu)))
        .map_err(|source| crate::Error::Io { path: "memory".into(), source })?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::ops::ControlFlow;

    use super::*;
    use crate::TraceFile;
    use crate::write::TraceBuilder;

    /// A text of `lines` switches on three CPUs; a state that is a number only in the first half, a field that only the
    /// second half has, numbers that need 8 bytes, printed lines, and a loss.
    fn text(lines: usize) -> Vec<u8> {
        let mut text = String::from("# tracer: nop\n#\n#P:3\n");
        for nth in 0..lines {
            let (cpu, ms) = (nth % 3, nth / 3);
            let late = nth * 2 >= lines;
            let head = format!("a{}-{} [00{cpu}] d..2 10.{ms:03}{cpu:03}: ", nth % 7, 100 + nth % 7);
            let state = if late { "S" } else { "1" };
            text += &head;
            text += &match nth % 5 {
                0 if late => format!("other: number={} word={state} late=0x{nth:x}\n", -(nth as i64) << 33),
                0 => format!("other: number={nth} word={state}\n"),
                1 => format!("print: here: line {nth}\n"),
                _ => format!(
                    "sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state={state} ==> next_comm=b c next_pid={nth} next_prio=98\n"
                ),
            };
            if nth == lines / 3 {
                text += "CPU:1 [LOST 5 EVENTS]\n";
            }
        }
        text.into_bytes()
    }

    /// Goal: a trace in pieces gives the file that it gives at once, of which no more than a piece and a few pages a CPU are in
    /// memory. Method: every length of piece on a trace whose columns change in its second half; a long one for the bound.
    #[test]
    fn pieces_give_the_file_of_the_whole() {
        let options = ReadOptions::default();
        let mut whole = Vec::new();
        let open = || TraceFile::from_bytes(text(300), &options).unwrap();
        let all = ReadOptions { common_fields: true, ..options.clone() };
        trace_dat(&open().read(&all).unwrap(), &mut whole).unwrap();
        let folder = std::env::temp_dir().join(format!("opplab-dat-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (path, scratch) = (folder.join("out.dat"), folder.join("pages"));
        for events_max in [1, 7, 100, 299, 1000] {
            open().write_trace_dat(&options, events_max, &path, &scratch).unwrap();
            assert!(std::fs::read(&path).unwrap() == whole, "pieces of {events_max}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
        let again = TraceFile::from_bytes(whole, &options).unwrap().read(&options).unwrap();
        let words: Vec<&[u8]> = match &again.table("other").unwrap().fields[1].column {
            Column::Str(numbers) => numbers.iter().map(|&number| again.strings.get(number)).collect(),
            other => panic!("{other:?}"),
        };
        assert_eq!((words[0], words[words.len() - 1]), (&b"1"[..], &b"S"[..]));
        assert_eq!(again.missed.len(), 1);
    }

    /// Goal: an event of any width gives a file that opens. Method: free text with hundreds of words that look like fields.
    #[test]
    fn an_event_with_hundreds_of_fields_is_cut() {
        for value in ["1", "word", "0xffffffffffffffff"] {
            let fields: Vec<String> = (0..300).map(|nth| format!("f{nth}comm={value} g{nth}={value}")).collect();
            let text = format!("# tracer: nop\nx-1 [000] 1.5: e: {}\n", fields.join(" "));
            let options = ReadOptions::default();
            let trace = TraceFile::from_bytes(text.into_bytes(), &options).unwrap().read(&options).unwrap();
            let mut out = Vec::new();
            trace_dat(&trace, &mut out).unwrap();
            let again = TraceFile::from_bytes(out, &options).unwrap().read(&options).unwrap();
            assert_eq!((again.tables.len(), again.tables[0].len(), again.problems.len()), (1, 1, 0), "{value}");
        }
    }

    /// Found by the fuzzer: a zero in a group's name ended it early, and all that followed was read from the wrong place.
    #[test]
    fn a_zero_in_the_name_of_a_group_ends_nothing() {
        let text = b"# tracer: nop\nx-1 [000] 1.5: gr\0up:event: a=1\n".to_vec();
        let options = ReadOptions::default();
        let trace = TraceFile::from_bytes(text, &options).unwrap().read(&options).unwrap();
        let mut out = Vec::new();
        trace_dat(&trace, &mut out).unwrap();
        let again = TraceFile::from_bytes(out, &options).unwrap().read(&options).unwrap();
        assert_eq!((again.tables[0].system.as_str(), again.tables[0].len()), ("gr_up", 1));
    }

    #[test]
    fn full_pages_do_not_stay_in_memory() {
        let mut builder = TraceBuilder::new(2);
        let event = builder.event("power", "cpu_idle", &[("state", Kind::Int { signed: false, hex: false })]);
        for nth in 0..80_000u64 {
            builder.push(event, 1000 * nth, (nth % 2) as u32, 0, &[Value::U64(nth % 4)]);
        }
        let mut whole = Vec::new();
        trace_dat(&builder.finish(), &mut whole).unwrap();
        let options = ReadOptions::default();
        let open = || TraceFile::from_bytes(whole.clone(), &options).unwrap();
        let (mut layout, mut held) = (TraceDatLayout::default(), 0);
        let mut look = |piece: Trace, _| {
            layout.add(&piece);
            held = held.max(piece.tables.iter().map(Table::len).sum());
            ControlFlow::Continue(())
        };
        open().read_pieces(&options, 1000, &mut look).unwrap();
        assert_eq!(held, 1000);
        let mut spill = Cursor::new(Vec::new());
        let mut writer = TraceDatWriter::new(layout, Some(&mut spill));
        let mut kept = 0;
        let mut write = |piece: Trace, _| {
            writer.piece(&piece).unwrap();
            kept = kept.max(writer.kept());
            ControlFlow::Continue(())
        };
        open().read_pieces(&options, 1000, &mut write).unwrap();
        let mut out = Vec::new();
        writer.finish(&mut out).unwrap();
        assert!(out == whole);
        assert!(kept <= 2 * (KEPT + 2 * PAGE) && whole.len() > 2 * kept, "{kept} bytes of {}", whole.len());
    }
}
