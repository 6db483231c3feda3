//! The supervisor: saves, starts the worker, watches it, restores.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::Options;
use super::state::Saved;
use crate::clock::{self, Stop};
use crate::error::HostError;
use crate::root::Root;

/// A worker that gives no sign of life for this long (and ten rounds) hangs.
const HANG_NS: u64 = 3_000_000_000;

/// How long it may take until its first sign: it reads much of sysfs, which a busy small machine takes seconds for.
const START_NS: u64 = 30_000_000_000;

/// How long a worker may take to end when told.
const END_NS: u64 = 2_000_000_000;

/// Puts back what an earlier run left, if any. False if there was nothing.
///
/// # Errors
/// If that run is still alive, or something could not be put back.
pub(crate) fn restore_left(root: &Root, options: &Options, err: &mut dyn Write) -> Result<bool, HostError> {
    let Some(saved) = Saved::read(&options.state)? else { return Ok(false) };
    if saved.is_of_earlier_boot(root) {
        let _ = writeln!(
            err,
            "note: the host was started anew since the run of process {}: its settings are those of the start, and nothing \
             is put back",
            saved.pid
        );
        forget(options)?;
        return Ok(false);
    }
    // The number may be another process's by now.
    let words = std::fs::read(format!("/proc/{}/cmdline", saved.pid)).unwrap_or_default();
    let alive = words.split(|byte| *byte == 0).any(|word| word == b"govern");
    if alive && saved.pid != std::process::id() {
        let words = format!("a run is under way (process {}, {}): end it first", saved.pid, options.state.display());
        return Err(HostError::Lacking(words));
    }
    let _ = writeln!(err, "note: putting back what the run of process {} left", saved.pid);
    finish(root, options, &saved)?;
    Ok(true)
}

fn finish(root: &Root, options: &Options, saved: &Saved) -> Result<(), HostError> {
    let wrong = saved.restore(root);
    if !wrong.is_empty() {
        // As while its CPUs are offline.
        let words = format!(
            "not restored: {}; {} remembers it for `govern --restore`",
            wrong.join("; "),
            options.state.display()
        );
        return Err(HostError::Lacking(words));
    }
    forget(options)
}

fn forget(options: &Options) -> Result<(), HostError> {
    match std::fs::remove_file(&options.state) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(HostError::io(options.state.display().to_string(), error))
        }
        _ => Ok(()),
    }
}

/// Keeps other supervisors from the same settings while it is open: two that begin at once would both find nothing to
/// restore, and the later one would take the earlier one's settings for the host's own.
fn lock(state: &Path) -> Result<File, HostError> {
    let path = state.with_extension("lock");
    let open = || -> std::io::Result<File> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)?;
        }
        File::options().read(true).write(true).create(true).truncate(false).open(&path)
    };
    let io = |error: std::io::Error| HostError::io(path.display().to_string(), error);
    let mut file = open().map_err(io)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let mut owner = String::new();
            let _ = (&file).take(20).read_to_string(&mut owner);
            let words = format!("a run is under way (process {}, {}): end it first", owner.trim(), state.display());
            return Err(HostError::Lacking(words));
        }
        Err(error) => return Err(io(error.into())),
    }
    file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(io)?;
    Ok(file)
}

/// Why the watch ended.
enum End {
    Exit(std::process::ExitStatus),
    Signal,
    Hang,
}

/// Runs a governor until it ends, and restores. `again` and `worker_args` start the worker.
///
/// # Errors
/// What the host lacks, what the worker failed of, what could not be restored.
pub fn supervise(
    options: &Options,
    again: &[OsString],
    worker_args: &[OsString],
    err: &mut dyn Write,
) -> Result<i32, HostError> {
    let root = Root::open(&options.root)?;
    let all = root.policies();
    if all.is_empty() {
        return Err(HostError::Lacking(
            "no cpufreq policy on this host (normal in a virtual machine): nothing to govern".to_owned(),
        ));
    }
    if let Some(wrong) = options.policies.iter().find(|id| !all.contains(id)) {
        let list: Vec<String> = all.iter().map(u32::to_string).collect();
        return Err(HostError::Usage(format!("--policies: no policy{wrong} (there are {})", list.join(", "))));
    }
    if matches!(root, Root::Tree(_)) && !options.dry_run {
        let shown = options.root.display();
        return Err(HostError::Lacking(format!(
            "{shown} is a snapshot, which cannot be governed; --dry-run decides and changes nothing"
        )));
    }
    let [program, leading @ ..] = again else {
        return Err(HostError::Lacking("this program cannot start itself again".to_owned()));
    };
    let _lock = if options.dry_run { None } else { Some(lock(&options.state)?) };
    restore_left(&root, options, err)?;
    let ids = if options.policies.is_empty() { all } else { options.policies.clone() };
    let saved = Saved::of(&root, &ids, std::process::id());
    let stop = Stop::on_signals()?;
    if !options.dry_run {
        saved.write(&options.state)?;
    }
    let spawned =
        Command::new(program).args(leading).args(worker_args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            let _ = std::fs::remove_file(&options.state);
            return Err(HostError::io("starting the worker", error));
        }
    };
    let _ = writeln!(err, "governing as process {}, worker {}", std::process::id(), child.id());
    let end = watch(options, &mut child, &stop);
    let status = close(&mut child, end, err);
    if !options.dry_run {
        finish(&root, options, &saved)?;
        let _ = writeln!(err, "restored {} policies", saved.policies.len());
    }
    Ok(status)
}

/// Waits for the worker's end, a signal, or silence.
fn watch(options: &Options, child: &mut Child, stop: &Stop) -> End {
    let mut beats: Option<ChildStdout> = child.stdout.take();
    let round_ns = options.interval_ns.saturating_mul(10);
    let mut patience_ns = START_NS.max(round_ns);
    let mut last_ns = clock::monotonic_ns();
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return End::Exit(status);
        }
        if stop.is_raised() {
            return End::Signal;
        }
        if clock::monotonic_ns().saturating_sub(last_ns) > patience_ns {
            return End::Hang;
        }
        match &mut beats {
            Some(out) if is_readable(out, 50) => {
                let mut bytes = [0u8; 256];
                match std::io::Read::read(out, &mut bytes) {
                    Ok(0) | Err(_) => beats = None,
                    Ok(_) => {
                        last_ns = clock::monotonic_ns();
                        patience_ns = HANG_NS.max(round_ns);
                    }
                }
            }
            Some(_) => {}
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

fn is_readable(out: &ChildStdout, timeout_ms: i64) -> bool {
    let mut fds = [PollFd::new(out, PollFlags::IN)];
    let timeout = Timespec { tv_sec: 0, tv_nsec: (timeout_ms * 1_000_000) as _ };
    matches!(poll(&mut fds, Some(&timeout)), Ok(1..))
}

/// Makes sure that the worker is gone; its exit code, or 1 if it did not end by itself.
fn close(child: &mut Child, end: End, err: &mut dyn Write) -> i32 {
    // Closing its standard input tells the worker to end.
    drop(child.stdin.take());
    match end {
        End::Exit(status) => {
            let code = status.code();
            if code.is_none() {
                let _ = writeln!(err, "note: the worker was killed ({status})");
            }
            return code.unwrap_or(1);
        }
        End::Hang => {
            let _ = writeln!(err, "note: the worker hangs and is killed");
        }
        End::Signal => {
            let until_ns = clock::monotonic_ns() + END_NS;
            while clock::monotonic_ns() < until_ns {
                if let Ok(Some(status)) = child.try_wait() {
                    return status.code().unwrap_or(1);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    1
}
