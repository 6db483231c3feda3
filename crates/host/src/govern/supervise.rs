//! The supervisor: saves, starts the worker, watches it, restores.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock, major, minor};
use rustix::io::Errno;

use super::state::{PolicyState, Saved};
use super::{Options, Places};
use crate::clock::{self, Stop};
use crate::error::HostError;
use crate::root::{CPU, Root};

/// A worker that gives no sign of life for this long (and ten rounds) hangs.
const HANG_NS: u64 = 3_000_000_000;

/// How long it may take until its first sign: it reads much of sysfs, which a busy small machine takes seconds for.
const START_NS: u64 = 30_000_000_000;

/// How long a worker may take to end when asked.
const END_NS: u64 = 2_000_000_000;

/// Puts back what earlier runs left, if any, wherever they remembered it. Gives whether there was something, and what
/// policies that are away keep from being put back.
///
/// # Errors
/// If something else could not be put back.
pub(crate) fn restore_left(
    root: &Root,
    places: &Places,
    err: &mut dyn Write,
) -> Result<(bool, Vec<PolicyState>), HostError> {
    let (mut found, mut away) = (false, Vec::new());
    for path in [&places.host_state, &places.state] {
        let Some(saved) = Saved::read(path)? else { continue };
        if saved.is_of_earlier_boot(root) {
            let _ = writeln!(
                err,
                "note: the host was started anew since the run of process {}: its settings are those of the start, and \
                 nothing is put back",
                saved.pid
            );
            forget(path)?;
            continue;
        }
        found = true;
        let _ = writeln!(err, "note: putting back what the run of process {} left", saved.pid);
        let (left, wrong) = saved.restore(root);
        let is_away = |state: &PolicyState| {
            let online = root.online();
            let cpus = root.cpus(&format!("{CPU}/cpufreq/policy{}/affected_cpus", state.policy)).unwrap_or_default();
            !cpus.iter().any(|cpu| online.contains(cpu))
        };
        if !left.files.is_empty() || !left.policies.iter().all(is_away) {
            return Err(remember(&left, path, &wrong));
        }
        if left.policies.is_empty() {
            forget(path)?;
        } else {
            let _ = writeln!(err, "note: {}", remember(&left, path, &wrong));
            away.extend(left.policies);
        }
    }
    // It led to what is put back now.
    if places.host_state.is_symlink() && !places.host_state.exists() {
        forget(&places.host_state)?;
    }
    Ok((found, away))
}

/// `govern --restore`: false if there was nothing to put back.
///
/// # Errors
/// If a run is under way, or something could not be put back.
pub(crate) fn restore(root: &Root, places: &Places, err: &mut dyn Write) -> Result<bool, HostError> {
    let _lock = lock(root)?;
    let (found, away) = restore_left(root, places, err)?;
    if away.is_empty() {
        return Ok(found);
    }
    let away: Vec<String> = away.iter().map(|state| format!("policy{}", state.policy)).collect();
    Err(HostError::Lacking(format!("not restored: {}", away.join(", "))))
}

/// Keeps what could not be put back, and no more: the rest is others' to change again.
fn remember(left: &Saved, path: &Path, wrong: &[String]) -> HostError {
    let place = fs::read_link(path).unwrap_or_else(|_| path.to_path_buf());
    if let Err(error) = left.write(&place) {
        return error;
    }
    let words = format!("not restored: {}; {} remembers it for `govern --restore`", wrong.join("; "), place.display());
    HostError::Lacking(words)
}

/// Puts everything back at the end of a run.
pub(crate) fn finish(root: &Root, places: &Places, saved: &Saved) -> Result<(), HostError> {
    let (left, wrong) = saved.restore(root);
    if !wrong.is_empty() {
        return Err(remember(&left, &places.state, &wrong));
    }
    forget(&places.state)?;
    if places.host_state == places.state { Ok(()) } else { forget(&places.host_state) }
}

/// Removes what was remembered, and the link that leads to it.
fn forget(path: &Path) -> Result<(), HostError> {
    for file in fs::read_link(path).into_iter().chain([path.to_path_buf()]) {
        match fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(HostError::io(file.display().to_string(), error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Writes down what is to be put back, so that every later run of this host finds it, whatever `--state` it has.
pub(crate) fn save(saved: &Saved, root: &Root, places: &Places) -> Result<(), HostError> {
    let host = &places.host_state;
    if !root.is_live()
        && let Some(folder) = host.parent()
    {
        // A copy of a host may lack it.
        let _ = fs::create_dir(folder);
    }
    saved.write(&places.state)?;
    if places.state == *host {
        return Ok(());
    }
    let link = || -> std::io::Result<()> { std::os::unix::fs::symlink(places.state.canonicalize()?, host) };
    link().map_err(|error| {
        let _ = fs::remove_file(&places.state);
        HostError::io(host.display().to_string(), error)
    })
}

/// Keeps other supervisors from the same host while it is open: two that begin at once would both find nothing to
/// restore, and the later one would take the earlier one's settings for the host's own. The lock is on the folder of
/// the settings, so that it does not depend on where they are remembered and leaves no file. `None`: no such folder.
pub(crate) fn lock(root: &Root) -> Result<Option<File>, HostError> {
    let path = format!("{CPU}/cpufreq");
    let file = match root.open_folder(&path) {
        Some(Ok(file)) => file,
        _ => return Ok(None),
    };
    let io = |error: std::io::Error| HostError::io(path.clone(), error);
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => {
            let owner = owner_of(&file).map_or_else(String::new, |pid| format!(" (process {pid})"));
            Err(HostError::Lacking(format!("a run is under way on this host{owner}: end it first")))
        }
        Err(error) => Err(io(error.into())),
    }
}

/// The process that holds the lock on a file, as the kernel lists it.
fn owner_of(file: &File) -> Option<u32> {
    let about = file.metadata().ok()?;
    let (device, inode) = (about.dev(), about.ino());
    let place = format!("{:02x}:{:02x}:{inode}", major(device), minor(device));
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let mut held = locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    // "1: FLOCK ADVISORY WRITE 708 00:16:1234 0 EOF"
    held.find(|words| words.get(1) == Some(&"FLOCK") && words.get(5) == Some(&place.as_str()))?.get(4)?.parse().ok()
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
    let ids = if options.policies.is_empty() { all } else { options.policies.clone() };
    let stop = Stop::on_signals()?;
    let (_lock, saved) = if options.dry_run {
        (None, None)
    } else {
        let lock = lock(&root)?;
        let (_, away) = restore_left(&root, &options.places, err)?;
        let saved = Saved::of(&root, &ids, std::process::id()).with(away);
        save(&saved, &root, &options.places)?;
        (lock, Some(saved))
    };
    let spawned =
        Command::new(program).args(leading).args(worker_args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            saved.map_or(Ok(()), |saved| finish(&root, &options.places, &saved))?;
            return Err(HostError::io("starting the worker", error));
        }
    };
    let _ = writeln!(err, "governing as process {}, worker {}", std::process::id(), child.id());
    let end = watch(options, &mut child, &stop);
    let status = close(&mut child, end, err);
    if let Some(saved) = saved {
        finish(&root, &options.places, &saved)?;
        let nr = saved.policies.iter().filter(|state| !state.settings.is_empty()).count();
        let _ = writeln!(err, "restored {nr} policies");
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
    // Closing its standard input makes the worker end.
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
