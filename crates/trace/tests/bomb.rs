//! A file of many compressed members is refused when it begins to grow. Alone in its process, whose memory it looks at.

use std::io::Write as _;

use opplab_trace::{ReadOptions, TraceFile};

/// The most that this process ever had in memory, in kB.
fn peak_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.split_whitespace().next()?.parse().ok()
}

#[test]
fn many_members_of_gzip() {
    let mut member = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    member.write_all(&vec![b'\n'; 1 << 20]).unwrap();
    let bomb = member.finish().unwrap().repeat(2000);
    let before_kb = peak_kb();
    let error = TraceFile::from_bytes(bomb.clone(), &ReadOptions::default()).err().expect("refused").to_string();
    assert!(error.contains("bytes allowed come out of what was read; raise the limit with --max-unpacked"), "{error}");
    // 2 GB would come out, and 250 times the file are 500 MB.
    if let (Some(before_kb), Some(after_kb)) = (before_kb, peak_kb()) {
        assert!(after_kb - before_kb < 100_000, "{before_kb} and {after_kb} kB");
    }
}
