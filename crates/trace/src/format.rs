//! Event format files (`events/<system>/<event>/format`): where each field lies.
//!
//! Only the `field:` lines are used; the `print fmt:` line is not needed to get values, except for the few marks
//! that mean that people read a number in base 16.

use crate::event::{FieldDef, Kind, Loc, Schema};

/// One parsed format file.
#[derive(Clone, Debug)]
pub(crate) struct EventFormat {
    pub(crate) id: u32,
    pub(crate) schema: Schema,
    /// Where `common_pid` lies.
    pub(crate) pid: Option<(u32, u8)>,
    /// Where `common_type` lies.
    pub(crate) kind: Option<(u32, u8)>,
}

/// A `field:` line, as written.
struct RawField<'a> {
    declaration: &'a str,
    offset: u32,
    size: u32,
    signed: Option<bool>,
}

fn parse_field_line(line: &str) -> Option<RawField<'_>> {
    let line = line.trim_start();
    let rest = line.strip_prefix("field:").or_else(|| line.strip_prefix("field special:"))?;
    let (declaration, mut rest) = rest.split_once(';')?;
    let (mut offset, mut size, mut signed) = (None, None, None);
    while let Some((item, tail)) = rest.split_once(';') {
        rest = tail;
        let (key, value) = item.trim().split_once(':')?;
        let value: u32 = value.trim().parse().ok()?;
        match key {
            "offset" => offset = Some(value),
            "size" => size = Some(value),
            "signed" => signed = Some(value != 0),
            _ => {}
        }
    }
    Some(RawField { declaration, offset: offset?, size: size?, signed })
}

/// Splits `unsigned long args[6]` into type, name and what stands in the brackets.
fn split_declaration(declaration: &str) -> Option<(&str, &str, Option<&str>)> {
    let declaration = declaration.trim();
    let (head, dimension) = match declaration.find('[') {
        // `__data_loc char[] name` has its brackets before the name.
        Some(open) if declaration.ends_with(']') => {
            (&declaration[..open], Some(declaration[open + 1..declaration.len() - 1].trim()))
        }
        Some(open) => {
            let close = declaration[open..].find(']')? + open;
            let name = declaration[close + 1..].trim();
            return Some((declaration[..open].trim(), name, Some(declaration[open + 1..close].trim())));
        }
        None => (declaration, None),
    };
    let head = head.trim_end();
    let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let start = head.trim_end_matches(name).len();
    let name = &head[start..];
    (!name.is_empty()).then_some((head[..start].trim(), name, dimension))
}

/// Bytes of one element of C type `ty`; 1 if unknown.
fn element_size(ty: &str, long_size: u8) -> u8 {
    let ty = ty.trim_start_matches("const ").trim();
    if ty.contains('*') {
        return long_size;
    }
    let last = ty.split_whitespace().last().unwrap_or("");
    match last {
        "u64" | "s64" | "__u64" | "__s64" | "int64_t" | "uint64_t" | "u_int64_t" | "loff_t" | "sector_t" => 8,
        "u32" | "s32" | "__u32" | "__s32" | "int32_t" | "uint32_t" | "pid_t" | "gfp_t" | "dev_t" => 4,
        "u16" | "s16" | "__u16" | "__s16" | "int16_t" | "uint16_t" | "short" => 2,
        "size_t" | "ssize_t" | "uintptr_t" | "cpumask_t" | "__cpumask" => long_size,
        "int" | "unsigned" => {
            if ty.contains("long long") {
                8
            } else if ty.contains("long") {
                long_size
            } else if ty.contains("short") {
                2
            } else {
                4
            }
        }
        "long" if ty.contains("long long") => 8,
        "long" => long_size,
        _ => 1,
    }
}

fn type_is_unsigned(ty: &str) -> bool {
    let ty = ty.trim_start_matches("const ").trim();
    ty.starts_with("unsigned")
        || ty.contains('*')
        || matches!(
            ty,
            "u8" | "u16" | "u32" | "u64" | "__u8" | "__u16" | "__u32" | "__u64" | "size_t" | "cpumask_t" | "bool"
        )
        || ty.starts_with("uint")
}

fn is_char(ty: &str) -> bool {
    matches!(ty.trim_start_matches("const ").trim(), "char" | "unsigned char" | "signed char")
}

/// True if the format string prints field `name` in base 16: `name=0x%…`, or `%p…`/`%lx` right after the field's own name.
fn printed_hex(print_fmt: &str, name: &str) -> bool {
    let mut rest = print_fmt;
    while let Some(at) = rest.find(name) {
        let before = rest[..at].chars().next_back();
        rest = &rest[at + name.len()..];
        if before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            continue;
        }
        if let Some(value) = rest.strip_prefix('=') {
            let value = value.trim_start_matches('(');
            return value.starts_with("0x%")
                || value.starts_with("%p")
                || value.strip_prefix('%').is_some_and(|conversion| {
                    conversion
                        .trim_start_matches(|c: char| c.is_ascii_digit() || "-+ #lhLz".contains(c))
                        .starts_with(['x', 'X'])
                });
        }
    }
    false
}

/// Parses one format file; `None` if it has no name or no ID. Lines that make no sense are skipped.
///
/// `common`: whether to keep `common_flags` and `common_preempt_count`, behind the event's own fields.
pub(crate) fn parse_format(text: &str, system: &str, long_size: u8, common: bool) -> Option<EventFormat> {
    let (mut name, mut id) = (None, None);
    let (mut pid, mut kind) = (None, None);
    let (mut fields, mut common_fields) = (Vec::new(), Vec::new());
    let mut fixed_size = 0u32;
    let print_fmt = text.find("print fmt:").map_or("", |at| &text[at..]);
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("name:") {
            name = Some(rest.trim().to_string());
            continue;
        }
        if let Some(rest) = line.strip_prefix("ID:") {
            id = rest.trim().parse().ok();
            continue;
        }
        if line.starts_with("print fmt:") {
            break;
        }
        let Some(field) = parse_field_line(line) else { continue };
        let Some((ty, field_name, dimension)) = split_declaration(field.declaration) else { continue };
        // Records are at most a page, of 64 KiB where pages are largest; larger numbers are damage.
        if field.offset > 1 << 16 || field.size > 1 << 16 {
            continue;
        }
        let size_byte = field.size.min(8) as u8;
        match field_name {
            "common_pid" => pid = Some((field.offset, size_byte)),
            "common_type" => kind = Some((field.offset, size_byte)),
            _ => {}
        }
        let is_common = field_name.starts_with("common_");
        if is_common && !(common && matches!(field_name, "common_flags" | "common_preempt_count")) {
            continue;
        }
        let (field_kind, loc) = classify(&field, ty, field_name, dimension, print_fmt, long_size);
        if !matches!(loc, Loc::Rest { .. }) {
            fixed_size = fixed_size.max(field.offset + field.size);
        }
        let list = if is_common { &mut common_fields } else { &mut fields };
        list.push(FieldDef { name: field_name.to_string(), kind: field_kind, loc });
    }
    fields.append(&mut common_fields);
    let name = name.filter(|n: &String| !n.is_empty())?;
    if system == "ftrace" && (name == "bprint" || name == "bputs") {
        fields.push(FieldDef { name: "text".into(), kind: Kind::Text, loc: Loc::Computed });
    }
    let schema = Schema { index: 0, name, system: system.to_string(), fields, fixed_size: fixed_size as usize };
    Some(EventFormat { id: id?, schema, pid, kind })
}

fn classify(
    field: &RawField<'_>,
    ty: &str,
    name: &str,
    dimension: Option<&str>,
    print_fmt: &str,
    long_size: u8,
) -> (Kind, Loc) {
    let (off, size) = (field.offset, field.size);
    let dynamic = ty.strip_prefix("__data_loc").map(|t| (t, false)).or(ty.strip_prefix("__rel_loc").map(|t| (t, true)));
    let base = dynamic.map_or(ty, |(t, _)| t).trim();
    let each = element_size(base, long_size);
    // In an array the `signed` of the format file is the element's.
    let signed = field.signed.unwrap_or(!type_is_unsigned(base)) && !base.contains('*');
    let hex = base.contains('*') || printed_hex(print_fmt, name);
    let list = Kind::List { signed, hex };
    if let Some((_, rel)) = dynamic {
        let kind = if is_char(base) {
            Kind::Str
        } else if each == 1 || base.contains("cpumask") {
            Kind::Bytes
        } else {
            list
        };
        return (kind, Loc::Dynamic { off, rel, each, signed });
    }
    if size == 0 {
        let kind = if is_char(base) {
            Kind::Text
        } else if each == 1 || name == "buf" {
            Kind::Bytes
        } else {
            list
        };
        return (kind, Loc::Rest { off, each, signed });
    }
    if dimension.is_some() {
        if is_char(base) && base != "unsigned char" {
            return (Kind::Str, Loc::FixedStr { off, size });
        }
        return if each == 1 {
            (Kind::Bytes, Loc::FixedBytes { off, size })
        } else {
            (list, Loc::FixedList { off, size, each, signed })
        };
    }
    match size {
        1 | 2 | 4 | 8 => {
            // A pointer or a bool is never negative, whatever the file declares.
            let signed = signed && base != "bool";
            (Kind::Int { signed, hex }, Loc::Int { off, size: size as u8, signed })
        }
        _ => (Kind::Bytes, Loc::FixedBytes { off, size }),
    }
}

/// The layout of a ring-buffer page, from `events/header_page`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageLayout {
    pub(crate) timestamp: usize,
    pub(crate) commit: usize,
    pub(crate) commit_size: usize,
    pub(crate) data: usize,
}

impl PageLayout {
    /// What a kernel with `long_size` bytes a long writes.
    pub(crate) fn of_long(long_size: u8) -> Self {
        let commit_size = usize::from(long_size);
        Self { timestamp: 0, commit: 8, commit_size, data: 8 + commit_size }
    }
}

/// Parses `events/header_page`: the layout and the size of the data area. `None` if a field is missing or makes no sense.
pub(crate) fn parse_header_page(text: &str) -> Option<(PageLayout, usize)> {
    let (mut timestamp, mut commit, mut data) = (None, None, None);
    for line in text.lines() {
        let Some(field) = parse_field_line(line) else { continue };
        let Some((_, name, _)) = split_declaration(field.declaration) else { continue };
        let place = (field.offset as usize, field.size as usize);
        match name {
            "timestamp" => timestamp = Some(place),
            "commit" => commit = Some(place),
            "data" => data = Some(place),
            _ => {}
        }
    }
    let ((timestamp, 8), (commit, commit_size @ (4 | 8)), (data, data_size)) = (timestamp?, commit?, data?) else {
        return None;
    };
    let layout = PageLayout { timestamp, commit, commit_size, data };
    (data <= 64 && timestamp + 8 <= data && commit + commit_size <= data).then_some((layout, data_size))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 297\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:1;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\n\
        print fmt: \"prev_comm=%s prev_pid=%d\", REC->prev_comm\n";

    /// Goal: a damaged place does not make each record as long as it claims, as some hundred are gathered.
    #[test]
    fn a_field_beyond_a_page_is_none() {
        let far =
            SWITCH.replacen("print fmt:", "\tfield:int far;\toffset:1000000;\tsize:4;\tsigned:1;\n\nprint fmt:", 1);
        assert_ne!(far, SWITCH);
        let [whole, damaged] = [SWITCH, &far].map(|text| parse_format(text, "sched", 8, false).unwrap().schema);
        assert_eq!((damaged.fixed_size, damaged.fields.len()), (whole.fixed_size, whole.fields.len()));
    }

    #[test]
    fn a_format_file_gives_places_and_kinds() {
        let format = parse_format(SWITCH, "sched", 8, false).unwrap();
        assert_eq!((format.id, format.pid, format.kind), (297, Some((4, 4)), Some((0, 2))));
        assert_eq!(format.schema.fixed_size, 40);
        let names: Vec<_> = format.schema.fields.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["prev_comm", "prev_pid", "prev_state"]);
        assert_eq!(format.schema.fields[0].loc, Loc::FixedStr { off: 8, size: 16 });
        assert_eq!(format.schema.fields[2].loc, Loc::Int { off: 32, size: 8, signed: true });
    }

    /// Classifies one `field:` line of a 64-bit machine.
    fn check(line: &str, print_fmt: &str, name: &str, kind: Kind, loc: Loc) {
        let text = format!("name: x\nID: 1\nformat:\n\tfield:{line}\n\nprint fmt: {print_fmt}\n");
        let format = parse_format(&text, "s", 8, false).unwrap();
        assert_eq!(format.schema.fields, [FieldDef { name: name.into(), kind, loc }], "{line}");
    }

    #[test]
    fn every_kind_of_field_is_recognised() {
        let int = |signed, hex| Kind::Int { signed, hex };
        let list = |signed| Kind::List { signed, hex: false };
        check(
            "__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:1;",
            "",
            "filename",
            Kind::Str,
            Loc::Dynamic { off: 8, rel: false, each: 1, signed: true },
        );
        check(
            "__rel_loc u32[] load;\toffset:8;\tsize:4;\tsigned:0;",
            "",
            "load",
            list(false),
            Loc::Dynamic { off: 8, rel: true, each: 4, signed: false },
        );
        check(
            "__data_loc unsigned long[] v;\toffset:8;\tsize:4;\tsigned:0;",
            "",
            "v",
            list(false),
            Loc::Dynamic { off: 8, rel: false, each: 8, signed: false },
        );
        check(
            "const char * fmt;\toffset:16;\tsize:8;\tsigned:0;",
            "",
            "fmt",
            int(false, true),
            Loc::Int { off: 16, size: 8, signed: false },
        );
        check(
            "char buf;\toffset:16;\tsize:0;\tsigned:0;",
            "",
            "buf",
            Kind::Text,
            Loc::Rest { off: 16, each: 1, signed: false },
        );
        check(
            "u32 buf[];\toffset:24;\tsize:0;\tsigned:0;",
            "",
            "buf",
            Kind::Bytes,
            Loc::Rest { off: 24, each: 4, signed: false },
        );
        check(
            "unsigned long caller[8];\toffset:16;\tsize:64;\tsigned:0;",
            "",
            "caller",
            list(false),
            Loc::FixedList { off: 16, size: 64, each: 8, signed: false },
        );
        check("u8 mac[6];\toffset:8;\tsize:6;\tsigned:0;", "", "mac", Kind::Bytes, Loc::FixedBytes { off: 8, size: 6 });
        check(
            "bool changed;\toffset:8;\tsize:1;\tsigned:1;",
            "",
            "changed",
            int(false, false),
            Loc::Int { off: 8, size: 1, signed: false },
        );
        check("int nr;\toffset:8;\tsize:4;", "", "nr", int(true, false), Loc::Int { off: 8, size: 4, signed: true });
        check(
            "unsigned int nr;\toffset:8;\tsize:4;",
            "",
            "nr",
            int(false, false),
            Loc::Int { off: 8, size: 4, signed: false },
        );
        check(
            "u64 se;\toffset:8;\tsize:8;\tsigned:0;",
            "\"(%lx) base=%u se=0x%Lx\", REC->base, REC->se",
            "se",
            int(false, true),
            Loc::Int { off: 8, size: 8, signed: false },
        );
    }

    #[test]
    fn a_header_page_gives_the_layout() {
        let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
            \tfield: local_t commit;\toffset:8;\tsize:4;\tsigned:1;\n\
            \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
            \tfield: char data;\toffset:12;\tsize:4084;\tsigned:0;\n";
        assert_eq!(parse_header_page(text), Some((PageLayout::of_long(4), 4084)));
        assert_eq!(parse_header_page("\tfield: u64 timestamp;\toffset:0;\tsize:8;"), None);
    }
}
