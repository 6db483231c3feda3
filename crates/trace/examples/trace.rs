//! `trace info FILE [--format json]`, `trace events FILE NAME` (CSV), `trace export FILE OUT [NAME...]` (.dat, .txt or .pftrace),
//! `trace repeat FILE TIMES OUT`, `trace bench FILE [NAME...]`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use opplab_trace::{Column, Error, Kind, ReadOptions, Trace, TraceFile};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args[..] {
        ["info", file] => info(file, false),
        ["info", file, "--format", "json"] | ["info", "--format", "json", file] => info(file, true),
        ["events", file, name] => events(file, name),
        ["export", file, out, ref names @ ..] => export(file, out, names),
        ["repeat", file, times, out] => repeat(file, times, out),
        ["bench", file, ref names @ ..] => bench(file, names),
        _ => {
            eprintln!(
                "usage: trace info FILE [--format json] | events FILE NAME | export FILE OUT.(dat|txt|pftrace) [NAME...] | \
                 repeat FILE TIMES OUT.dat | bench FILE [NAME...]"
            );
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("failed to read the trace: {error}");
            ExitCode::FAILURE
        }
    }
}

fn report(problems: &[Error]) {
    for problem in problems {
        eprintln!("problem: {problem}");
    }
}

fn info(file: &str, json: bool) -> Result<(), Error> {
    let info = TraceFile::open(file.as_ref())?.info(&ReadOptions::default())?;
    report(&info.problems);
    if json {
        let mut events = String::new();
        for (name, count) in &info.events {
            let comma = if events.is_empty() { "" } else { ", " };
            write!(events, "{comma}{name:?}: {count}").expect("writing to a string does not fail");
        }
        println!("{{\"events\": {{{events}}}, \"cpus\": {}, \"duration_ns\": {}}}", info.meta.cpus, info.duration_ns);
        return Ok(());
    }
    let meta = &info.meta;
    println!("format {} version {} cpus {} clock {:?}", meta.format, meta.version, meta.cpus, meta.clock);
    println!("duration {}.{:09} s", info.duration_ns / 1_000_000_000, info.duration_ns % 1_000_000_000);
    for (name, count) in &info.events {
        println!("{count:>10} {name}");
    }
    Ok(())
}

fn cell(trace: &Trace, column: &Column, kind: Kind, row: usize) -> String {
    match column {
        Column::Int(values) if matches!(kind, Kind::Int { hex: true, .. }) => format!("{:#x}", values.get_u64(row)),
        Column::Int(values) => values.get_i128(row).to_string(),
        Column::Str(numbers) => quoted(&trace.strings.text(numbers[row])),
        Column::Text(texts) => quoted(&String::from_utf8_lossy(texts.get(row))),
        Column::Bytes(bytes) => bytes.get(row).iter().map(|b| format!("{b:02x}")).collect(),
        Column::List { .. } => {
            let list = column.list(row).unwrap_or_default();
            list.iter().map(i128::to_string).collect::<Vec<_>>().join(" ")
        }
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_string() }
}

fn events(file: &str, name: &str) -> Result<(), Error> {
    let trace = TraceFile::open(file.as_ref())?.read(&ReadOptions::only(&[name]))?;
    report(&trace.problems);
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for table in &trace.tables {
        let mut header = String::from("time_ns,cpu,pid,comm");
        for field in &table.fields {
            header.push(',');
            header.push_str(&field.name);
        }
        let mut lines = vec![header];
        for row in 0..table.len() {
            let (time, cpu, pid) = (table.time_ns[row], table.cpu.get(row), table.pid.get(row));
            let mut line = format!("{time},{cpu},{pid},{}", quoted(&trace.comm(table, row)));
            for field in &table.fields {
                line.push(',');
                if field.is_valid(row) {
                    line.push_str(&cell(&trace, &field.column, field.kind, row));
                }
            }
            lines.push(line);
        }
        if out.write_all((lines.join("\n") + "\n").as_bytes()).is_err() {
            // Whoever reads the output has seen enough.
            return Ok(());
        }
    }
    Ok(())
}

fn io_error(path: &str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::Io { path: path.into(), source }
}

fn options_of(names: &[&str]) -> ReadOptions {
    if names.is_empty() { ReadOptions::default() } else { ReadOptions::only(names) }
}

fn export(file: &str, out: &str, names: &[&str]) -> Result<(), Error> {
    let trace = TraceFile::open(file.as_ref())?.read(&options_of(names))?;
    report(&trace.problems);
    let mut target = std::io::BufWriter::new(std::fs::File::create(out).map_err(io_error(out))?);
    let written = match out.rsplit('.').next() {
        Some("dat") => opplab_trace::write::trace_dat(&trace, &mut target),
        Some("pftrace") => opplab_trace::write::perfetto(&trace, &mut target),
        _ => opplab_trace::write::ftrace_text(&trace, &mut target),
    };
    written.and_then(|()| target.flush()).map_err(io_error(out))
}

fn repeat(file: &str, times: &str, out: &str) -> Result<(), Error> {
    let bytes = std::fs::read(file).map_err(io_error(file))?;
    let repeated = opplab_trace::write::repeat_trace_dat(&bytes, times.parse().unwrap_or(1))?;
    std::fs::write(out, repeated).map_err(io_error(out))
}

fn bench(file: &str, names: &[&str]) -> Result<(), Error> {
    let options = options_of(names);
    let start = Instant::now();
    let trace = TraceFile::open(file.as_ref())?.read(&options)?;
    let seconds = start.elapsed().as_secs_f64();
    report(&trace.problems);
    let rows: BTreeMap<&str, usize> = trace.tables.iter().map(|t| (t.name.as_str(), t.len())).collect();
    let total: usize = rows.values().sum();
    println!("{total} events to columns in {seconds:.3} s: {:.2} M events/s", total as f64 / seconds / 1e6);
    Ok(())
}
