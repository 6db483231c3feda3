//! Reads bytes in all ways and checks what must hold of any result.

use opplab_trace::{ReadOptions, TraceFile, UnpackLimits};

/// Enough for any small input, little enough to notice a runaway.
const MAX_BYTES: u64 = 1 << 24;

pub fn read(data: &[u8]) {
    let unpack = UnpackLimits::up_to(MAX_BYTES);
    let options = ReadOptions { unpack, common_fields: true, ..ReadOptions::default() };
    let Ok(file) = TraceFile::from_bytes(data.to_vec(), &options) else { return };
    let Ok(trace) = file.read(&options) else { return };
    for table in &trace.tables {
        assert_eq!(table.cpu.len(), table.len());
        for field in &table.fields {
            assert_eq!(field.column.len(), table.len());
        }
    }
}

/// As [`read`] behind a fixed start, so that every input reaches the reader; whole files as they are.
#[allow(dead_code)]
pub fn read_behind(start: &[u8], data: &[u8]) {
    if data.starts_with(start) { read(data) } else { read(&[start, data].concat()) }
}
