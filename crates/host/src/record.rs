//! Records what replay needs, through tracefs alone: events, formats, the machine, the frequencies at the start.
//!
//! The trace runs in an instance of its own, so that nobody else's tracing is disturbed, and goes away with it. The
//! pages are copied as the kernel gives them. The result is a `.tar.zst`:
//! ```text
//!   trace.dat                          what the trace readers open (they open the archive itself, too)
//!   sysfs_before.txt sysfs_after.txt   the machine and its frequencies, as `opplab machine import` reads them
//!   cgroup_before.txt cgroup_after.txt the settings of control groups and their cpu.stat
//!   proc_cgroup_before.txt             which threads were in which group
//!   debugfs_before.txt cpuinfo.txt uname.txt cmdline.txt dmesg1.txt dynamic_events.txt threads.txt
//! ```

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::affinity::{self, kernel_version};
use crate::clock::{self, Stop};
use crate::error::{HostError, describe};
use crate::root::{CPU, Root, read_file};
use crate::snapshot;
use crate::tracedat::{self, Head};
use crate::whole::STATE_MAX;

/// Where tracefs may be.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The events that replay needs, as group and name; those that a kernel lacks are left out with a note.
const EVENTS: &[(&str, &str)] = &[
    ("sched", "sched_switch"),
    ("sched", "sched_wakeup"),
    ("sched", "sched_wakeup_new"),
    ("sched", "sched_waking"),
    ("sched", "sched_migrate_task"),
    ("sched", "sched_process_fork"),
    ("sched", "sched_process_exec"),
    ("sched", "sched_process_exit"),
    ("power", "cpu_frequency"),
    ("power", "cpu_frequency_limits"),
    ("power", "cpu_idle"),
    ("cgroup", "cgroup_attach_task"),
    ("cgroup", "cgroup_mkdir"),
    ("cgroup", "cgroup_rename"),
    ("task", "task_newtask"),
];

/// Names of tasks that the kernel is asked to remember.
const CMDLINES: &str = "16384";

/// O_NONBLOCK, so that an empty buffer is no reason to wait (asm-generic; the same on x86 and arm64).
const O_NONBLOCK: i32 = 0o4000;

/// What the user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The archive.
    pub output: PathBuf,
    /// When to end; `None`: with the command, or on a signal.
    pub for_ns: Option<u64>,
    /// Further events, as `group:name` or `group`.
    pub events: Vec<String>,
    /// A file of `dynamic_events` lines; their groups are recorded, too.
    pub probes: Option<PathBuf>,
    /// Ring buffer of each CPU.
    pub buffer_kb: u32,
    /// `trace_clock`.
    pub clock: String,
    /// A command to record.
    pub command: Vec<OsString>,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Bytes of pages.
    pub n_page_bytes: u64,
    /// Bytes of the archive.
    pub n_bytes: u64,
    /// Events that the kernel dropped because a buffer was full.
    pub n_lost: u64,
    /// Exit code of the command.
    pub code: Option<i32>,
    /// What was left out and why.
    pub notes: Vec<String>,
}

/// An instance of the tracer that is removed with this.
struct Instance {
    folder: PathBuf,
    top: PathBuf,
    /// Dynamic events that were made, as `group/name`.
    probes: Vec<String>,
    cmdlines_before: Option<String>,
}

fn put(path: &Path, text: &str) -> Result<(), HostError> {
    let write = || OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes());
    write().map_err(|error| HostError::io(format!("writing `{text}` to {}", path.display()), error))
}

impl Instance {
    fn make(top: &Path) -> Result<Self, HostError> {
        let instances = top.join("instances");
        // What a killed run left.
        for entry in fs::read_dir(&instances).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(pid) = name.strip_prefix("opplab-")
                && !Path::new("/proc").join(pid).exists()
            {
                let _ = fs::remove_dir(entry.path());
            }
        }
        let folder = instances.join(format!("opplab-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| HostError::io(folder.display().to_string(), error))?;
        let cmdlines = top.join("saved_cmdlines_size");
        let cmdlines_before = fs::read_to_string(&cmdlines).ok().map(|text| text.trim().to_owned());
        let _ = put(&cmdlines, CMDLINES);
        Ok(Self { folder, top: top.to_owned(), probes: Vec::new(), cmdlines_before })
    }

    /// Adds the lines of a file to `dynamic_events`; the groups that they are in.
    fn probe(&mut self, file: &Path, notes: &mut Vec<String>) -> Result<Vec<String>, HostError> {
        let text = opplab_import::read_whole_text(file, STATE_MAX)
            .map_err(|error| HostError::io(file.display().to_string(), error))?;
        let mut groups: Vec<String> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let event = line.split_whitespace().next().and_then(|word| word.split_once(':')).map(|(_, event)| event);
            let Some((group, name)) = event.and_then(|event| event.split_once('/')) else {
                return Err(HostError::Input {
                    file: file.display().to_string(),
                    line: index + 1,
                    column: 1,
                    message: "a probe begins with `TYPE:GROUP/NAME`".to_owned(),
                });
            };
            let added = OpenOptions::new()
                .append(true)
                .open(self.top.join("dynamic_events"))
                .and_then(|mut events| events.write_all(format!("{line}\n").as_bytes()));
            match added {
                Ok(()) => {
                    self.probes.push(format!("{group}/{name}"));
                    if !groups.iter().any(|known| known == group) {
                        groups.push(group.to_owned());
                    }
                }
                Err(error) => notes.push(format!("{}:{}: {name}: {}", file.display(), index + 1, describe(&error))),
            }
        }
        Ok(groups)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = put(&self.folder.join("tracing_on"), "0");
        let _ = put(&self.folder.join("events/enable"), "0");
        let _ = fs::remove_dir(&self.folder);
        for probe in self.probes.iter().rev() {
            let events = OpenOptions::new().append(true).open(self.top.join("dynamic_events"));
            let _ = events.and_then(|mut events| events.write_all(format!("-:{probe}\n").as_bytes()));
        }
        if let Some(size) = &self.cmdlines_before {
            let _ = put(&self.top.join("saved_cmdlines_size"), size);
        }
    }
}

/// Copies one CPU's pages until asked to stop and the buffer is empty.
fn drain(folder: &Path, cpu: u32, page_size: usize, mut to: File, stop: &AtomicBool) -> io::Result<File> {
    let path = folder.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
    let mut from = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path)?;
    let mut page = vec![0u8; page_size];
    loop {
        // Before the read: what came until then must be read.
        let last = stop.load(Ordering::Acquire);
        let mut n_pages = 0;
        loop {
            match from.read(&mut page) {
                Ok(0) => break,
                Ok(n_bytes) => {
                    page[n_bytes..].fill(0);
                    to.write_all(&page)?;
                    n_pages += 1;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if last && n_pages == 0 {
            to.seek(SeekFrom::Start(0))?;
            return Ok(to);
        }
        if !last {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn read(path: &Path) -> String {
    read_file(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// Records.
///
/// # Errors
/// What the host lacks or refuses; tracing is as before then, too.
pub fn record(root: &Root, options: &Options) -> Result<Recorded, HostError> {
    let top = TRACEFS.iter().filter_map(|path| root.file(path)).find(|path| path.join("events/header_page").exists());
    let Some(top) = top else {
        return Err(HostError::Lacking(format!(
            "no tracefs to read at {} (mount -t tracefs nodev {}; as root)",
            TRACEFS.join(" or "),
            TRACEFS[0]
        )));
    };
    let stop = Stop::on_signals()?;
    let mut done = Recorded::default();
    let before = (snapshot::sysfs(root), snapshot::debugfs(root), affinity::kthreads_text(root));
    let (groups, members) = (snapshot::cgroups(root), snapshot::members(root));
    let mut instance = Instance::make(&top)?;
    let folder = instance.folder.clone();
    put(&folder.join("tracing_on"), "0")?;
    put(&folder.join("trace_clock"), &options.clock)?;
    put(&folder.join("buffer_size_kb"), &options.buffer_kb.to_string())?;
    let mut wanted: Vec<String> = EVENTS.iter().map(|(group, name)| format!("{group}/{name}")).collect();
    wanted.extend(options.events.iter().map(|event| event.replace(':', "/")));
    if let Some(probes) = &options.probes {
        wanted.extend(instance.probe(probes, &mut done.notes)?);
    }
    let mut enabled = Vec::new();
    for event in wanted {
        match put(&folder.join("events").join(&event).join("enable"), "1") {
            Ok(()) => enabled.push(event),
            Err(_) => done.notes.push(format!("this kernel has no event {event}")),
        }
    }
    let page_kb = root.number(&format!("{}/buffer_subbuf_size_kb", top.display())).filter(|kb| *kb > 0);
    let page_size = page_kb.map_or(4096, |kb| kb as usize * 1024);
    let parts = Parts::make(&options.output)?;
    let halt = Arc::new(AtomicBool::new(false));
    let mut readers = Vec::new();
    let cpus = root.numbered(&format!("{}/per_cpu", folder.display()), "cpu");
    let online = root.online();
    for &cpu in &cpus {
        let (file, folder, halt) = (parts.file(cpu)?, folder.clone(), Arc::clone(&halt));
        let is_online = online.contains(&cpu);
        readers.push(std::thread::spawn(move || {
            if is_online { drain(&folder, cpu, page_size, file, &halt) } else { Ok(file) }
        }));
    }
    put(&folder.join("tracing_on"), "1")?;
    let code = wait(options, &stop);
    // Whatever came of the command: first the end of the trace.
    let _ = put(&folder.join("tracing_on"), "0");
    halt.store(true, Ordering::Release);
    let mut pages = Vec::new();
    for (reader, &cpu) in readers.into_iter().zip(&cpus) {
        let result = reader.join().unwrap_or_else(|_| Err(io::Error::other("the reader failed")));
        let mut file = result.map_err(|error| HostError::io(format!("pages of CPU {cpu}"), error))?;
        done.n_page_bytes += file.seek(SeekFrom::End(0)).unwrap_or(0);
        pages.push(file);
    }
    done.code = code?;
    let head = head(root, &top, &folder, &enabled, &cpus, page_size, &options.clock);
    done.n_lost = head.cpu_stats.iter().map(|stats| lost(stats)).sum();
    let dynamic = read(&top.join("dynamic_events"));
    let after = snapshot::sysfs(root);
    drop(instance);
    let mut texts = vec![
        (opplab_import::SYSFS, before.0),
        ("debugfs_before.txt", before.1),
        ("sysfs_after.txt", after),
        ("cgroup_before.txt", groups),
        ("cgroup_after.txt", snapshot::cgroups(root)),
        ("proc_cgroup_before.txt", members),
        ("cpuinfo.txt", root.raw("/proc/cpuinfo").unwrap_or_default()),
        ("cmdline.txt", root.raw("/proc/cmdline").unwrap_or_default()),
        ("uname.txt", head.uname.clone() + "\n"),
        ("dynamic_events.txt", dynamic),
        ("threads.txt", before.2),
    ];
    // The kernel reports about energy-aware scheduling once, to its log.
    texts.push(("dmesg1.txt", kernel_log()));
    done.n_bytes = parts.archive(&options.output, &head, &mut pages, &texts)?;
    Ok(done)
}

fn lost(stats: &str) -> u64 {
    let of = |key: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|line| line.trim_start_matches(':').trim().parse::<u64>().ok()).unwrap_or(0)
    };
    of("overrun") + of("commit overrun") + of("dropped events")
}

/// The log of the kernel, without waiting.
fn kernel_log() -> String {
    let Ok(mut log) = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open("/dev/kmsg") else {
        return String::new();
    };
    let mut out = String::new();
    let mut line = vec![0u8; 8192];
    while out.len() < 4 << 20 {
        match log.read(&mut line) {
            Ok(0) => break,
            Ok(n_bytes) => {
                let text = String::from_utf8_lossy(&line[..n_bytes]);
                // `priority,sequence,time_us,-;words`
                let mut parts = text.splitn(2, ';');
                let time_us =
                    parts.next().and_then(|head| head.split(',').nth(2)).and_then(|us| us.parse::<u64>().ok());
                let words = parts.next().unwrap_or("").lines().next().unwrap_or("");
                let time_us = time_us.unwrap_or(0);
                out.push_str(&format!("[{:5}.{:06}] {words}\n", time_us / 1_000_000, time_us % 1_000_000));
            }
            // A record was overwritten before it was read.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Err(_) => break,
        }
    }
    out
}

fn head(
    root: &Root,
    top: &Path,
    folder: &Path,
    enabled: &[String],
    cpus: &[u32],
    page_size: usize,
    clock: &str,
) -> Head {
    let mut systems: Vec<(String, Vec<String>)> = Vec::new();
    let mut add = |group: &str, name: &str| {
        let format = read(&folder.join("events").join(group).join(name).join("format"));
        if format.is_empty() {
            return;
        }
        match systems.iter_mut().find(|(known, _)| known == group) {
            Some((_, formats)) if formats.contains(&format) => {}
            Some((_, formats)) => formats.push(format),
            None => systems.push((group.to_owned(), vec![format])),
        }
    };
    for event in enabled {
        match event.split_once('/') {
            Some((group, name)) => add(group, name),
            // A whole group.
            None => root
                .children(&folder.join("events").join(event).display().to_string())
                .iter()
                .for_each(|name| add(event, name)),
        }
    }
    let kernel = |name: &str| root.text(&format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    let uname = format!(
        "{} {} {} {} {}",
        kernel("ostype"),
        kernel("hostname"),
        kernel("osrelease"),
        kernel("version"),
        std::env::consts::ARCH
    );
    Head {
        header_page: read(&top.join("events/header_page")),
        header_event: read(&top.join("events/header_event")),
        systems,
        printk_formats: read(&top.join("printk_formats")),
        saved_cmdlines: read(&top.join("saved_cmdlines")),
        clock: clock.to_owned(),
        uname,
        cpu_stats: cpus
            .iter()
            .map(|cpu| format!("CPU: {cpu}\n{}", read(&folder.join(format!("per_cpu/cpu{cpu}/stats")))))
            .collect(),
        page_size: page_size as u32,
    }
}

/// Waits for the command, the time or a signal; the command's exit code.
fn wait(options: &Options, stop: &Stop) -> Result<Option<i32>, HostError> {
    let end_ns = options.for_ns.map(|for_ns| clock::monotonic_ns() + for_ns);
    let mut child: Option<Child> = match options.command.as_slice() {
        [] => None,
        [program, args @ ..] => {
            let spawned = Command::new(program).args(args).spawn();
            Some(spawned.map_err(|error| HostError::io(program.to_string_lossy(), error))?)
        }
    };
    loop {
        if let Some(child) = &mut child
            && let Ok(Some(status)) = child.try_wait()
        {
            return Ok(Some(status.code().unwrap_or(1)));
        }
        let now_ns = clock::monotonic_ns();
        if end_ns.is_some_and(|end_ns| now_ns >= end_ns) || !stop.sleep_until(now_ns + 10_000_000) {
            if let Some(mut child) = child {
                let _ = child.kill();
                let _ = child.wait();
            }
            return Ok(None);
        }
    }
}

/// The pages while they are gathered: a folder beside the output that is removed with this.
struct Parts {
    folder: PathBuf,
}

impl Parts {
    fn make(output: &Path) -> Result<Self, HostError> {
        // The archive takes the place of what has its name: that must not be a device.
        if fs::metadata(output).is_ok_and(|meta| !meta.is_file()) {
            return Err(HostError::Usage(format!("{} is there and is no file", output.display())));
        }
        let mut name = output.file_name().unwrap_or_default().to_os_string();
        name.push(".parts");
        let folder = output.with_file_name(name);
        match fs::create_dir(&folder) {
            // A killed run left it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            done => done.map_err(|error| HostError::io(output.display().to_string(), error))?,
        }
        Ok(Self { folder })
    }

    fn file(&self, cpu: u32) -> Result<File, HostError> {
        let path = self.folder.join(format!("cpu{cpu}"));
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path);
        open.map_err(|error| HostError::io(path.display().to_string(), error))
    }

    /// Packs everything; the bytes of the archive.
    fn archive(
        &self,
        output: &Path,
        head: &Head,
        pages: &mut [File],
        texts: &[(&str, String)],
    ) -> Result<u64, HostError> {
        let shown = output.display().to_string();
        let io = |error| HostError::io(&shown, error);
        let dat_path = self.folder.join("trace.dat");
        let mut dat =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&dat_path).map_err(io)?;
        tracedat::write(head, pages, &mut dat).map_err(io)?;
        let length = dat.seek(SeekFrom::End(0)).map_err(io)?;
        dat.seek(SeekFrom::Start(0)).map_err(io)?;
        // The archive takes its name when it is whole.
        let unfinished = self.folder.join("archive");
        let file = File::create(&unfinished).map_err(io)?;
        let mut packed = zstd::stream::write::Encoder::new(file, 3).map_err(io)?;
        {
            let mut tar = tar::Builder::new(&mut packed);
            let mut add = |name: &str, length: u64, data: &mut dyn Read| -> io::Result<()> {
                let mut header = tar::Header::new_gnu();
                header.set_size(length);
                header.set_mode(0o644);
                tar.append_data(&mut header, name, data)
            };
            add("trace.dat", length, &mut dat).map_err(io)?;
            for (name, text) in texts {
                add(name, text.len() as u64, &mut text.as_bytes()).map_err(io)?;
            }
            tar.finish().map_err(io)?;
        }
        let mut file = packed.finish().map_err(io)?;
        file.flush().map_err(io)?;
        file.sync_all().map_err(io)?;
        fs::rename(&unfinished, output).map_err(io)?;
        file.metadata().map(|meta| meta.len()).map_err(io)
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Notes about what a recording of this host cannot show.
pub fn caveats(root: &Root) -> Vec<String> {
    let mut notes = Vec::new();
    if root.policies().is_empty() {
        notes.push(format!("no policy in {CPU}/cpufreq: frequencies are not known"));
    }
    if kernel_version(root).is_some_and(|version| version < (4, 17)) {
        notes.push("before v4.17 sched_switch and load tracking differ from what replay knows".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use opplab_trace::{ReadOptions, TraceFile};

    use super::*;

    #[test]
    fn lost_events_are_summed() {
        let stats = "entries: 5\noverrun: 3\ncommit overrun: 1\nbytes: 9\ndropped events: 2\nread events: 7\n";
        assert_eq!((lost(stats), lost("")), (6, 0));
    }

    /// Goal: the archive is what the trace readers open. Method: one page with one event, as the ring buffer has it.
    #[test]
    fn the_archive_is_a_trace() {
        let format = "name: cpu_frequency\nID: 77\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                      \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
                      \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
                      \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
                      \tfield:u32 state;\toffset:8;\tsize:4;\tsigned:0;\n\tfield:u32 cpu_id;\toffset:12;\tsize:4;\tsigned:0;\n\n\
                      print fmt: \"state=%lu cpu_id=%lu\", (unsigned long)REC->state, (unsigned long)REC->cpu_id\n";
        let mut page = vec![0u8; 4096];
        page[..8].copy_from_slice(&1_000_000u64.to_le_bytes());
        page[8..16].copy_from_slice(&20u64.to_le_bytes());
        // Four words of data, 5 ns later.
        page[16..20].copy_from_slice(&(4u32 | 5 << 5).to_le_bytes());
        page[20..22].copy_from_slice(&77u16.to_le_bytes());
        page[24..28].copy_from_slice(&42u32.to_le_bytes());
        page[28..32].copy_from_slice(&1_800_000u32.to_le_bytes());
        page[32..36].copy_from_slice(&1u32.to_le_bytes());
        let head = Head {
            header_page: "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                          \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n"
                .to_owned(),
            header_event: "# compressed entry header\n".to_owned(),
            systems: vec![("power".to_owned(), vec![format.to_owned()])],
            saved_cmdlines: "42 rt-app\n".to_owned(),
            clock: "local".to_owned(),
            uname: "Linux guest 6.12.0 #1 x86_64".to_owned(),
            cpu_stats: vec!["CPU: 0\noverrun: 0\n".to_owned()],
            page_size: 4096,
            ..Head::default()
        };
        let mut dat = Vec::new();
        tracedat::write(&head, &mut [Cursor::new(Vec::new()), Cursor::new(page.clone())], &mut dat).expect("memory");
        let folder = std::env::temp_dir().join(format!("opplab-record-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("writable");
        let output = folder.join("x.tar.zst");
        let parts = Parts::make(&output).expect("writable");
        let mut pages: Vec<File> = (0..2).map(|cpu| parts.file(cpu).expect("writable")).collect();
        pages[1].write_all(&page).expect("writable");
        let bytes = parts.archive(&output, &head, &mut pages, &[("uname.txt", "x\n".to_owned())]).expect("writable");
        let archive = fs::read(&output).expect("is there");
        assert_eq!(archive.len() as u64, bytes);
        for content in [dat, archive] {
            let trace = TraceFile::from_bytes(content, &ReadOptions::default()).expect("a trace");
            let trace = trace.read(&ReadOptions::default()).expect("readable");
            assert_eq!(trace.problems.len(), 0);
            let table = trace.table("cpu_frequency").expect("is there");
            assert_eq!(table.int("state").expect("is there").to_u64(), [1_800_000]);
            assert_eq!((table.time_ns.clone(), table.cpu.to_u64()), (vec![1_000_005], vec![1]));
            assert_eq!((trace.meta.uname.as_str(), trace.meta.cpus), ("Linux guest 6.12.0 #1 x86_64", 2));
            assert_eq!(trace.comm_of(42), "rt-app");
        }
        drop(parts);
        assert!(!folder.join("x.tar.zst.parts").exists());
        fs::remove_dir_all(folder).expect("ours");
    }
}
