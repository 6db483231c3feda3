//! Raw ring-buffer pages with the formats beside them: as a tar, as a folder, alone.

use crate::common;
use crate::common::build::{self, Kind};
use opplab_trace::{ReadOptions, TraceFile};

fn counts(file: &std::path::Path, options: &ReadOptions) -> Vec<(String, u64)> {
    let info = TraceFile::open(file).unwrap().info(options).unwrap();
    assert!(info.problems.is_empty(), "{}: {:?}", file.display(), info.problems);
    info.events.into_iter().collect()
}

#[test]
fn shared_pages_open() {
    let Some(shared) = common::shared() else { return };
    let data = shared.join("data/schedviz");
    let expected = [("sched_switch", 15056), ("sched_wakeup", 11134), ("sched_wakeup_new", 2732)];
    for name in ["test.tar.gz", "test_no_metadata.tar.gz"] {
        let got = counts(&data.join("server/testdata").join(name), &ReadOptions::default());
        assert_eq!(got, expected.map(|(name, count)| (name.to_string(), count)), "{name}");
    }
    // Pages without formats: kept by number, and by name as soon as a format is given.
    let alone = data.join("traceparser/testdata/input/cpu0");
    let unknown = counts(&alone, &ReadOptions::default());
    assert!(unknown.iter().all(|(name, _)| name.starts_with("unknown_")) && unknown.len() == 2, "{unknown:?}");
    let format = "name: sched_switch\nID: 297\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:1;\n";
    let options = ReadOptions { formats: vec![("sched".into(), format.into())], ..ReadOptions::default() };
    let named = counts(&alone, &options);
    assert_eq!(named[0], ("sched_switch".to_string(), unknown[0].1));
    // A 32-bit machine's page.
    assert_eq!(counts(&data.join("traceparser/testdata/input/cpu0-32"), &ReadOptions::default()).len(), 3);
}

#[test]
fn a_trace_cmd_file_of_the_same_pages_reads_the_same() {
    let Some(shared) = common::shared() else { return };
    let tar = shared.join("data/schedviz/server/testdata/test.tar.gz");
    let trace = TraceFile::open(&tar).unwrap().read(&ReadOptions::default()).unwrap();
    let switch = trace.table("sched_switch").unwrap();
    // Every switch away from a task is one that was switched to (one CPU, nothing lost).
    let (next, prev) = (switch.int("next_pid").unwrap().to_i64(), switch.int("prev_pid").unwrap().to_i64());
    let breaks = next.iter().zip(&prev[1..]).filter(|(a, b)| a != b).count();
    assert_eq!(breaks, trace.missed.len());
    assert!(switch.time_ns.is_sorted());
}

#[test]
fn another_folder_is_none_and_says_what_is() {
    let dir = std::env::temp_dir().join(format!("opplab-trace-folder-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let error = |dir: &std::path::Path| TraceFile::open(dir).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error(&dir).contains("a folder, and not one of ring-buffer pages"), "{}", error(&dir));
    std::fs::write(dir.join("trace.dat"), b"").unwrap();
    assert!(error(&dir).contains("the trace in it is") && error(&dir).ends_with("trace.dat"), "{}", error(&dir));
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_folder_of_pages_is_a_trace() {
    let kind = Kind::PLAIN;
    let dir = std::env::temp_dir().join(format!("opplab-trace-pages-{}", std::process::id()));
    let write = |name: &str, content: &[u8]| {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    };
    write("events/header_page", build::header_page(kind).as_bytes());
    for (system, text) in build::formats() {
        let name = text.lines().next().unwrap().trim_start_matches("name: ");
        write(&format!("events/{system}/{name}/format"), text.as_bytes());
    }
    for (cpu, pages) in build::sample_pages(kind, 0).iter().enumerate() {
        let bytes: Vec<u8> = pages.iter().flat_map(|p| build::page(kind, p)).collect();
        write(&format!("per_cpu/cpu{cpu}/trace_pipe_raw"), &bytes);
    }
    write("saved_cmdlines", b"10 alpha\n");
    let trace = TraceFile::open(&dir).unwrap().read(&ReadOptions::default()).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    let names: Vec<(&str, usize)> = trace.tables.iter().map(|t| (t.name.as_str(), t.len())).collect();
    assert_eq!(names, [("listed", 1), ("named", 4), ("wake", 5)]);
    assert_eq!(trace.comm_of(10), "alpha");
    assert_eq!(trace.meta.cpus, 3);
}

#[test]
fn a_bpftrace_log_opens() {
    let Some(shared) = common::shared() else { return };
    let file = shared.join("data/schedviz/server/testdata/ebpf_trace.tar.gz");
    let trace = TraceFile::open(&file).unwrap().read(&ReadOptions::default()).unwrap();
    assert!(trace.problems.is_empty(), "{:?}", trace.problems);
    let names: Vec<(&str, usize)> = trace.tables.iter().map(|t| (t.name.as_str(), t.len())).collect();
    assert_eq!(names, [("sched_switch", 975), ("sched_wakeup", 16)]);
    assert_eq!(trace.comm_of(0x29f0), "bpftrace");
    let switch = trace.table("sched_switch").unwrap();
    // Each CPU leaves the task that it switched to before.
    for cpu in 0..4 {
        let rows: Vec<usize> = (0..switch.len()).filter(|&row| switch.cpu.get(row) == cpu).collect();
        let (next, prev) = (switch.int("next_pid").unwrap(), switch.int("prev_pid").unwrap());
        assert!(rows.windows(2).all(|pair| next.get(pair[0]) == prev.get(pair[1])), "CPU {cpu}");
    }
}
