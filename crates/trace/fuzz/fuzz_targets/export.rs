//! What could be read is written in all forms; a trace.dat has as many events as were read.
#![no_main]

use opplab_trace::{ReadOptions, TraceFile, UnpackLimits, write};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let options = ReadOptions { unpack: UnpackLimits::up_to(1 << 22), ..ReadOptions::default() };
    let Ok(trace) = TraceFile::from_bytes(data.to_vec(), &options).and_then(|file| file.read(&options)) else { return };
    let mut sink = std::io::sink();
    write::ftrace_text(&trace, &mut sink).expect("a sink takes all");
    write::perfetto(&trace, &mut sink).expect("a sink takes all");
    let mut out = Vec::new();
    write::trace_dat(&trace, &mut out).expect("memory takes all");
    let info = TraceFile::from_bytes(out, &options).and_then(|file| file.info(&options)).expect("a sound file");
    let rows: usize = trace.tables.iter().map(|table| table.len()).sum();
    assert_eq!(info.events.values().sum::<u64>(), rows as u64);
});
