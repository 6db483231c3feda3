//! Where runs happen: the live machine, which starts programs, or a made one, whose truth is known.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

use super::measure::POLL_NS;
use super::variants::Variant;
use crate::clock::{self, Moment, Stop};
use crate::error::HostError;
use crate::root::Root;

/// The most that is kept of what a program prints.
const OUTPUT_MAX: u64 = 16 << 20;

/// A run as it went.
#[derive(Debug, Clone, Default)]
pub struct Ran {
    /// From start to end.
    pub wall_s: f64,
    /// CPU time in user space and in the kernel, of the program and all that it waited for.
    pub cpu_s: [f64; 2],
    /// Voluntary and involuntary switches of the same; `None` where nobody counts.
    pub switches: Option<[f64; 2]>,
    /// What it printed.
    pub output: String,
    /// Why it failed.
    pub failed: Option<String>,
    /// How far the time of day was set meanwhile.
    pub set_s: f64,
}

/// Where runs happen.
pub trait Bench {
    /// Its files.
    fn root(&self) -> &Root;
    /// Its clocks.
    fn now(&self) -> Moment;
    /// Seconds since 1970.
    fn time_of_day_s(&self) -> f64;
    /// Waits; false if the experiment is to end.
    fn rest(&mut self, ns: u64) -> bool;
    /// Whether the experiment is to end.
    fn is_ended(&self) -> bool;
    /// Runs a variant once. `poll` is called at least each [`POLL_NS`]. `None`: it was to end meanwhile.
    ///
    /// # Errors
    /// If it cannot be started.
    fn run(&mut self, variant: &Variant, poll: &mut dyn FnMut(&Root, Moment)) -> Result<Option<Ran>, HostError>;
}

/// The live machine.
pub struct Live {
    root: Root,
    command: Vec<OsString>,
    /// What the last run printed goes there.
    output: PathBuf,
    stop: Stop,
    /// A supervisor is behind standard input and reads standard output.
    has_supervisor: bool,
}

impl Live {
    /// With the common command, which a variant may replace. With a supervisor the group that runs is written to standard
    /// output, and the end of standard input ends the experiment.
    ///
    /// # Errors
    /// If signals cannot be caught.
    pub fn new(root: Root, command: Vec<OsString>, output: PathBuf, has_supervisor: bool) -> Result<Self, HostError> {
        Ok(Self { root, command, output, stop: Stop::on_signals()?, has_supervisor })
    }

    /// Whether there was a supervisor and is none any more.
    pub fn is_alone(&self) -> bool {
        self.has_supervisor && is_alone()
    }

    fn command_of(&self, variant: &Variant) -> Result<Command, HostError> {
        let mut command = match (&variant.command, self.command.as_slice()) {
            (Some(line), _) => {
                let mut command = Command::new("/bin/sh");
                command.arg("-c").arg(line);
                command
            }
            (None, [program, rest @ ..]) => {
                let mut command = Command::new(program);
                command.args(rest);
                command
            }
            (None, []) => return Err(HostError::Usage("no command to run".to_owned())),
        };
        if let Some(nice) = variant.nice {
            let mut wrapped = Command::new("nice");
            wrapped.arg("-n").arg(nice.to_string()).arg(command.get_program()).args(command.get_args());
            command = wrapped;
        }
        command.envs(variant.env.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }
}

/// Whether nobody is behind standard input any more.
pub(crate) fn is_alone() -> bool {
    let stdin = std::io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut fds, Some(&now)), Ok(1..))
}

fn usage() -> Option<Usage> {
    getrusage(UsageWho::RUSAGE_CHILDREN).ok()
}

impl Bench for Live {
    fn root(&self) -> &Root {
        &self.root
    }

    fn now(&self) -> Moment {
        Moment::now()
    }

    fn time_of_day_s(&self) -> f64 {
        clock::time_of_day_s()
    }

    fn is_ended(&self) -> bool {
        self.stop.is_raised() || self.is_alone()
    }

    fn rest(&mut self, ns: u64) -> bool {
        let until_ns = clock::monotonic_ns() + ns;
        while clock::monotonic_ns() < until_ns {
            if self.is_ended() {
                return false;
            }
            let left_ns = until_ns.saturating_sub(clock::monotonic_ns()).min(POLL_NS / 5);
            std::thread::sleep(Duration::from_nanos(left_ns));
        }
        !self.is_ended()
    }

    fn run(&mut self, variant: &Variant, poll: &mut dyn FnMut(&Root, Moment)) -> Result<Option<Ran>, HostError> {
        let io = |error: std::io::Error| HostError::io(self.output.display().to_string(), error);
        let mut output = File::options().read(true).write(true).create(true).truncate(true).open(&self.output);
        let output = output.as_mut().map_err(|error| HostError::io(self.output.display().to_string(), error.kind()))?;
        let mut command = self.command_of(variant)?;
        let program = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(output.try_clone().map_err(io)?).stderr(output.try_clone().map_err(io)?);
        // A group of its own, so that all of it can be ended.
        command.process_group(0);
        let (before, day_s) = (usage(), clock::time_of_day_s());
        let start = Moment::now();
        let mut child = command.spawn().map_err(|error| HostError::io(program, error))?;
        let group = Pid::from_child(&child);
        if self.has_supervisor {
            // It ends the group if this process cannot.
            let _ = writeln!(std::io::stdout(), "{}", child.id());
        }
        let (send, ended) = channel();
        let waiter = std::thread::spawn(move || {
            let status = child.wait();
            // Nobody listens any more if the experiment was ended.
            let _ = send.send((status, Moment::now()));
        });
        let mut is_ended = false;
        let (status, end) = loop {
            match ended.recv_timeout(Duration::from_nanos(POLL_NS / 5)) {
                Ok(end) => break end,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(HostError::Lacking("the program cannot be waited for".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) => poll(&self.root, Moment::now()),
            }
            if !is_ended && self.is_ended() {
                is_ended = true;
                let _ = kill_process_group(group, Signal::KILL);
            }
        };
        let _ = waiter.join();
        // What it left running would be in the next run.
        let _ = kill_process_group(group, Signal::KILL);
        if self.has_supervisor {
            let _ = writeln!(std::io::stdout(), "0");
        }
        if is_ended || self.is_ended() {
            return Ok(None);
        }
        let status = status.map_err(|error| HostError::io("waiting for the program", error))?;
        let mut bytes = Vec::new();
        output.rewind().and_then(|()| output.take(OUTPUT_MAX).read_to_end(&mut bytes)).map_err(io)?;
        let wall_ns = end.time_ns.saturating_sub(start.time_ns);
        let set_s = clock::time_of_day_s() - day_s - Moment::now().lived_since(&start) as f64 / 1e9;
        let mut ran = Ran {
            wall_s: wall_ns as f64 / 1e9,
            output: String::from_utf8_lossy(&bytes).into_owned(),
            failed: (!status.success()).then(|| status.to_string()),
            set_s,
            ..Ran::default()
        };
        if let (Some(before), Some(after)) = (before, usage()) {
            let time_s = |usage: &Usage| {
                [usage.user_time(), usage.system_time()].map(|time| time.num_microseconds() as f64 / 1e6)
            };
            let (old, new) = (time_s(&before), time_s(&after));
            ran.cpu_s = [new[0] - old[0], new[1] - old[1]];
            ran.switches = Some([
                (after.voluntary_context_switches() - before.voluntary_context_switches()) as f64,
                (after.involuntary_context_switches() - before.involuntary_context_switches()) as f64,
            ]);
        }
        Ok(Some(ran))
    }
}
