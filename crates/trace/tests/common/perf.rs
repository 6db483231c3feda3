//! Builds small perf.data files: as a file, as from a pipe, compressed.

use zstd::stream::raw::{Encoder, InBuffer, Operation, OutBuffer};

use super::build::{self, Out};

/// What kind of file to build.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kind {
    pub pipe: bool,
    pub compressed: bool,
    pub big_endian: bool,
}

/// IDENTIFIER | IP | TID | TIME | CPU | PERIOD.
const PARTS: u64 = 1 << 16 | 1 | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 8;
const RAW: u64 = 1 << 10;

/// Type, config, parts of a sample, id and name of each event.
const EVENTS: [(u64, u64, u64, u64, &str); 3] = [
    (2, build::WAKE, PARTS | RAW, 11, "test:wake"),
    (2, build::NAMED, PARTS | RAW, 12, "test:named"),
    (1, 0, PARTS, 13, "cpu-clock"),
];

/// Time and CPU of each sample of each round, in the order of the file; the event is that of the time's last but one digit.
pub const ROUNDS: [&[(u64, u64)]; 3] = [
    &[(100, 0), (310, 0), (520, 0), (200, 1), (400, 1)],
    &[(600, 0), (710, 0), (450, 1), (620, 1)],
    &[(800, 0), (750, 1), (920, 1)],
];

fn layout(kind: Kind) -> build::Kind {
    build::Kind { big_endian: kind.big_endian, ..build::Kind::PLAIN }
}

fn out(kind: Kind) -> Out {
    Out::new(layout(kind))
}

fn attr(kind: Kind, (ty, config, parts, ..): (u64, u64, u64, u64, &str)) -> Vec<u8> {
    let sample_id_all = if kind.big_endian { 1u64 << (63 - 18) } else { 1 << 18 };
    let mut attr = out(kind);
    attr.uint(ty, 4).uint(112, 4).uint(config, 8).uint(1, 8).uint(parts, 8).uint(0, 8).uint(sample_id_all, 8);
    attr.bytes.resize(112, 0);
    attr.bytes
}

fn record(kind: Kind, ty: u64, body: &[u8]) -> Vec<u8> {
    let mut out = out(kind);
    out.uint(ty, 4).uint(0, 2).uint(8 + body.len() as u64, 2).raw(body);
    out.bytes
}

fn sample(kind: Kind, time: u64, cpu: u64) -> Vec<u8> {
    let event = match time / 10 % 10 {
        1 => 1,
        2 => 2,
        _ => 0,
    };
    let mut body = out(kind);
    body.uint(EVENTS[event].3, 8).uint(0xffff_8000_0000_1000 + time, 8).uint(90, 4).uint(100 + cpu, 4);
    body.uint(time, 8).uint(cpu, 4).uint(0, 4).uint(1, 8);
    if event < 2 {
        let raw = match event {
            0 => build::wake(layout(kind), 100 + cpu as i32, "worker", 100, time as i64),
            _ => build::named(layout(kind), 100 + cpu as i32, "a name", time as u32),
        };
        // Length and content fill whole words together.
        let padded = (raw.len() + 4).next_multiple_of(8) - 4;
        body.uint(padded as u64, 4).raw(&raw);
        body.bytes.resize(body.bytes.len() + padded - raw.len(), 0);
    }
    record(kind, 9, &body.bytes)
}

fn text(kind: Kind, text: &str) -> Vec<u8> {
    let mut bytes = out(kind);
    bytes.uint(text.len() as u64 + 1, 4).raw(text.as_bytes()).raw(&[0]);
    bytes.bytes
}

/// Number and content of the features.
fn features(kind: Kind) -> Vec<(u64, Vec<u8>)> {
    let mut cpus = out(kind);
    cpus.uint(4, 4).uint(2, 4);
    let mut names = out(kind);
    names.uint(EVENTS.len() as u64, 4).uint(112, 4);
    for event in EVENTS {
        names.raw(&attr(kind, event)).uint(1, 4).raw(&text(kind, event.4)).uint(event.3, 8);
    }
    vec![
        (1, build::tracing_data(layout(kind))),
        (4, text(kind, "6.12.0")),
        (5, text(kind, "6.1")),
        (7, cpus.bytes),
        (12, names.bytes),
    ]
}

/// Puts records into compressed ones that end where they like.
fn compressed(kind: Kind, plain: &[u8], encoder: &mut Encoder<'_>) -> Vec<u8> {
    let mut all = Vec::new();
    for part in plain.chunks(100) {
        let mut buffer = vec![0; 4096];
        let mut output = OutBuffer::around(&mut buffer[..]);
        encoder.run(&mut InBuffer::around(part), &mut output).unwrap();
        assert_eq!(encoder.flush(&mut output).unwrap(), 0);
        let len = output.pos();
        all.extend(record(kind, 81, &buffer[..len]));
    }
    all
}

/// A file of 12 samples on two CPUs, losses of 7 and, at the end, of 4 events, and one name of a task.
pub fn file(kind: &Kind) -> Vec<u8> {
    let kind = *kind;
    let mut records = Vec::new();
    if kind.pipe {
        for event in EVENTS {
            let mut body = out(kind);
            body.raw(&attr(kind, event)).uint(event.3, 8);
            records.extend(record(kind, 64, &body.bytes));
        }
        for (number, content) in features(kind) {
            if number == 1 {
                let padded = content.len().next_multiple_of(8);
                let mut size = out(kind);
                size.uint(padded as u64, 4);
                records.extend(record(kind, 66, &size.bytes));
                records.extend(&content);
                records.resize(records.len() + padded - content.len(), 0);
            } else {
                let mut body = out(kind);
                body.uint(number, 8).raw(&content);
                records.extend(record(kind, 80, &body.bytes));
            }
        }
    }
    let mut index = out(kind);
    index.uint(2, 8);
    // Id, place, CPU and thread of an event.
    for (id, cpu) in [(11, 1), (12, 0)] {
        index.uint(id, 8).uint(0, 8).uint(cpu, 8).uint(u64::MAX, 8);
    }
    records.extend(record(kind, 69, &index.bytes));
    let mut comm = out(kind);
    comm.uint(90, 4).uint(100, 4).raw(b"worker\0\0");
    records.extend(record(kind, 3, &comm.bytes));
    let mut encoder = Encoder::new(1).unwrap();
    for round in ROUNDS {
        let samples: Vec<u8> = round.iter().flat_map(|&(time, cpu)| sample(kind, time, cpu)).collect();
        if kind.compressed {
            records.extend(compressed(kind, &samples, &mut encoder));
        } else {
            records.extend(samples);
        }
        records.extend(record(kind, 68, &[]));
    }
    let mut lost = out(kind);
    // Id and number, then who, when, where and which.
    lost.uint(11, 8).uint(7, 8).uint(0, 8).uint(555, 8).uint(1, 4).uint(0, 4).uint(11, 8);
    records.extend(record(kind, 2, &lost.bytes));
    // What `perf record` counts at its end has no time; that of CPU 1 has the 7 in it.
    for (id, count) in [(11, 9), (12, 2)] {
        let mut all = out(kind);
        all.uint(count, 8).uint(0, 8).uint(0, 8).uint(0, 8).uint(id, 8);
        records.extend(record(kind, 13, &all.bytes));
    }

    let mut file = out(kind);
    file.uint(u64::from_le_bytes(*b"PERFILE2"), 8);
    if kind.pipe {
        file.uint(16, 8).raw(&records);
        return file.bytes;
    }
    let attrs_at = 104;
    let ids_at = attrs_at + 128 * EVENTS.len() as u64;
    let data_at = ids_at + 8 * EVENTS.len() as u64;
    let features = features(kind);
    let bits = features.iter().fold(0, |bits, (number, _)| bits | 1u64 << number);
    file.uint(104, 8).uint(128, 8).uint(attrs_at, 8).uint(128 * EVENTS.len() as u64, 8);
    file.uint(data_at, 8).uint(records.len() as u64, 8).uint(0, 8).uint(0, 8);
    file.uint(bits, 8).uint(0, 8).uint(0, 8).uint(0, 8);
    for (nth, event) in EVENTS.into_iter().enumerate() {
        file.raw(&attr(kind, event)).uint(ids_at + 8 * nth as u64, 8).uint(8, 8);
    }
    EVENTS.iter().for_each(|event| {
        file.uint(event.3, 8);
    });
    file.raw(&records);
    let mut at = file.bytes.len() as u64 + 16 * features.len() as u64;
    for (_, content) in &features {
        file.uint(at, 8).uint(content.len() as u64, 8);
        at += content.len() as u64;
    }
    features.iter().for_each(|(_, content)| {
        file.raw(content);
    });
    file.bytes
}
