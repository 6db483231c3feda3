//! Where kernel threads may run: schedutil's `sugov:N` above all (text 004).
//!
//! Up to v6.13 the kernel binds them to their policy's CPUs for good (PF_NO_SETAFFINITY); later it does so only where
//! the driver cannot switch from any CPU (`dvfs_possible_from_any_cpu`). The flag is in `/proc/PID/stat`, so what a
//! kernel allows is read, not guessed. What was changed is remembered until it is restored.

use std::fs;
use std::path::Path;

use opplab_import::read_whole_text;
use opplab_model::cpus::CpuList;
use opplab_model::cpus::{format_cpu_list, parse_cpu_list};
use opplab_model::tree::{Node, to_json};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::error::HostError;
use crate::json::{Line, numbers, parse_line, table};
use crate::root::{CPU, Root};
use crate::whole::{STATE_MAX, write_whole};

/// PF_NO_SETAFFINITY (include/linux/sched.h, v6.12): user space may not change `cpus_mask`.
const PF_NO_SETAFFINITY: u64 = 0x0400_0000;

/// The kernel from which schedutil's threads are bound only if they must be, and need not be allowed on all CPUs as other
/// deadline tasks must (commit 93940fbdc468, "cpufreq/schedutil: Only bind threads if needed").
const BIND_IF_NEEDED: (u32, u32) = (6, 14);

/// SCHED_DEADLINE (include/uapi/linux/sched.h).
const SCHED_DEADLINE: u64 = 6;

/// A kernel thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its pid.
    pub pid: i32,
    /// Its name, as `sugov:0`.
    pub name: String,
    /// Where it may run.
    pub cpus: CpuList,
    /// Scheduling policy by number.
    pub policy: u64,
    /// Flags of the task.
    pub flags: u64,
    /// Where it last ran.
    pub last_cpu: u64,
    /// CPU time, ns.
    pub run_ns: u64,
    /// Time that it waited for a CPU, ns.
    pub wait_ns: u64,
    /// Times that it was switched to, which is how often it woke but for preemptions.
    pub n_switches: u64,
}

impl Thread {
    /// Whether user space may move it.
    pub fn may_move(&self) -> bool {
        self.flags & PF_NO_SETAFFINITY == 0
    }

    /// The policy's name.
    pub fn policy_name(&self) -> String {
        let names =
            ["SCHED_OTHER", "SCHED_FIFO", "SCHED_RR", "SCHED_BATCH", "", "SCHED_IDLE", "SCHED_DEADLINE", "SCHED_EXT"];
        let name = usize::try_from(self.policy).ok().and_then(|policy| names.get(policy)).copied().unwrap_or("");
        if name.is_empty() { format!("policy {}", self.policy) } else { name.to_owned() }
    }
}

/// Whether a name fits a pattern in which `*` stands for anything.
pub fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, rest)) => {
            let Some(tail) = name.strip_prefix(head) else { return false };
            (0..=tail.len()).any(|at| tail.is_char_boundary(at) && fits(rest, &tail[at..]))
        }
    }
}

/// The threads whose names fit, by pid.
pub fn threads(root: &Root, pattern: &str) -> Vec<Thread> {
    root.numbered("/proc", "").into_iter().filter_map(|pid| thread(root, pid as i32, pattern)).collect()
}

fn thread(root: &Root, pid: i32, pattern: &str) -> Option<Thread> {
    let name = root.text(&format!("/proc/{pid}/comm")).ok()?;
    if !fits(pattern, &name) {
        return None;
    }
    // The name in brackets may hold blanks and brackets itself; numbers begin after the last one.
    let stat = root.raw(&format!("/proc/{pid}/stat")).ok()?;
    let (_, after) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after.split_whitespace().collect();
    // proc(5) counts from 1; the state behind the name is field 3.
    let field = |number: usize| fields.get(number - 3).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    let status = root.raw(&format!("/proc/{pid}/status")).unwrap_or_default();
    let of_status = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let cpus = of_status("Cpus_allowed_list:").and_then(|list| parse_cpu_list(list, Default::default()).ok());
    let schedstat = root.text(&format!("/proc/{pid}/schedstat")).unwrap_or_default();
    let mut times = schedstat.split_whitespace().map(|word| word.parse().unwrap_or(0));
    Some(Thread {
        pid,
        name,
        cpus: cpus.unwrap_or_default(),
        flags: field(9),
        last_cpu: field(39),
        policy: field(41),
        run_ns: times.next().unwrap_or(0),
        wait_ns: times.next().unwrap_or(0),
        n_switches: times.next().unwrap_or(0),
    })
}

/// The kernel's version as (major, minor); `None` if it is unknown.
pub fn kernel_version(root: &Root) -> Option<(u32, u32)> {
    let release = root.text("/proc/sys/kernel/osrelease").ok().or_else(|| {
        let version = root.text("/proc/version").ok()?;
        version.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit())).map(str::to_owned)
    })?;
    let mut parts = release.split(['.', '-']).map(str::parse::<u32>);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

/// Whether a thread may be moved and why, in a sentence.
pub fn why(root: &Root, thread: &Thread) -> String {
    if thread.may_move() {
        let is_exempt = thread.name.starts_with("sugov:");
        let deadline = if thread.policy == SCHED_DEADLINE && !is_exempt {
            "; as a deadline task only to all CPUs of its root domain (else EBUSY)"
        } else {
            ""
        };
        return format!("may be moved: PF_NO_SETAFFINITY is not set{deadline}");
    }
    if !thread.name.starts_with("sugov:") {
        return "may not be moved: the kernel bound it (PF_NO_SETAFFINITY)".to_owned();
    }
    let driver = thread.name.strip_prefix("sugov:").map(|id| format!("{CPU}/cpufreq/policy{id}/scaling_driver"));
    let driver = driver.and_then(|path| root.text(&path).ok()).unwrap_or_else(|| "the driver".to_owned());
    match kernel_version(root) {
        Some(version) if version < BIND_IF_NEEDED => format!(
            "may not be moved: kernel {}.{} binds it to its policy's CPUs (PF_NO_SETAFFINITY), whatever {driver} can do; \
             from v6.14 on it may be, where the driver has dvfs_possible_from_any_cpu",
            version.0, version.1
        ),
        Some(version) => format!(
            "may not be moved: kernel {}.{} binds it (PF_NO_SETAFFINITY), as {driver} does not have \
             dvfs_possible_from_any_cpu",
            version.0, version.1
        ),
        None => "may not be moved: the kernel bound it (PF_NO_SETAFFINITY)".to_owned(),
    }
}

/// Reads a mask: a list of CPUs (`0,3-5`), or hexadecimal with `0x`.
///
/// # Errors
/// If it is neither, or names a CPU that is not online.
pub fn parse_mask(text: &str, online: &[u32]) -> Result<CpuList, HostError> {
    let wrong = |why: &str| HostError::Usage(format!("--cpus: `{text}` {why}"));
    let cpus: CpuList = match text.strip_prefix("0x") {
        Some(hex) => {
            let bits = u128::from_str_radix(&hex.replace(',', ""), 16).map_err(|_| wrong("is no hexadecimal mask"))?;
            (0..128).filter(|cpu| bits >> cpu & 1 == 1).collect()
        }
        None => parse_cpu_list(text, Default::default())
            .map_err(|fault| HostError::Usage(format!("--cpus: {}", fault.message)))?,
    };
    if cpus.is_empty() {
        return Err(wrong("names no CPU"));
    }
    if let Some(cpu) = cpus.iter().find(|cpu| !online.contains(cpu)) {
        return Err(wrong(&format!("names CPU {cpu}, but online are {}", format_cpu_list(online))));
    }
    Ok(cpus)
}

/// Moves a thread.
///
/// # Errors
/// In words, why the kernel refused.
pub fn set(root: &Root, thread: &Thread, cpus: &[u32]) -> Result<(), String> {
    if !root.is_live() {
        return Err("threads of a copied tree cannot be moved".to_owned());
    }
    let Some(pid) = Pid::from_raw(thread.pid) else { return Err("it has no pid".to_owned()) };
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu as usize >= CpuSet::MAX_CPU {
            return Err(format!("CPU {cpu} is beyond {}", CpuSet::MAX_CPU));
        }
        set.set(cpu as usize);
    }
    sched_setaffinity(Some(pid), &set).map_err(|error| match error {
        rustix::io::Errno::INVAL => format!("EINVAL: {}", why(root, thread)),
        rustix::io::Errno::BUSY => {
            "EBUSY: a deadline task must be allowed on all CPUs of its root domain while bandwidth is controlled \
             (kernel.sched_rt_runtime_us = -1 lifts that)"
                .to_owned()
        }
        rustix::io::Errno::PERM => "EPERM: try as root".to_owned(),
        other => format!("{}", std::io::Error::from(other)),
    })
}

/// Masks before a change, by thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Before {
    /// Pid, name and CPUs.
    pub threads: Vec<(i32, String, CpuList)>,
}

impl Before {
    /// Reads the file; empty if there is none.
    ///
    /// # Errors
    /// If it is none of ours.
    pub fn read(path: &Path) -> Result<Self, HostError> {
        let shown = path.display().to_string();
        let text = match read_whole_text(path, STATE_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(HostError::io(shown, error)),
        };
        let node = parse_line(&shown, 1, &text)?;
        let line = Line { file: &shown, number: 1, node: &node };
        let one = |node| {
            let line = line.at(node);
            Ok((line.int("pid")?, line.str("name")?.to_owned(), line.field("cpus")?))
        };
        Ok(Self { threads: line.list("threads")?.iter().map(one).collect::<Result<_, HostError>>()? })
    }

    /// Remembers a thread, unless it is remembered already.
    pub fn remember(&mut self, thread: &Thread) {
        if !self.threads.iter().any(|(pid, ..)| *pid == thread.pid) {
            self.threads.push((thread.pid, thread.name.clone(), thread.cpus.clone()));
        }
    }

    /// Writes the file; without threads it is removed.
    ///
    /// # Errors
    /// What the system reported.
    pub fn write(&self, path: &Path) -> Result<(), HostError> {
        let write = || -> std::io::Result<()> {
            if self.threads.is_empty() {
                return match fs::remove_file(path) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                };
            }
            let one = |(pid, name, cpus): &(i32, String, CpuList)| {
                table([("pid", Node::from(*pid)), ("name", Node::str(name)), ("cpus", numbers(cpus))])
            };
            write_whole(path, &to_json(&table([("threads", Node::list(self.threads.iter().map(one)))])))
        };
        write().map_err(|error| HostError::io(path.display().to_string(), error))
    }
}

/// A table of threads for people.
pub fn text(root: &Root, list: &[Thread]) -> String {
    let mut out = format!(
        "{:>7} {:<16} {:<14} {:<10} {:>4} {:>12} {:>12} {:>10}\n",
        "pid", "thread", "policy", "cpus", "last", "run_ms", "wait_ms", "switches"
    );
    for thread in list {
        out += &format!(
            "{:>7} {:<16} {:<14} {:<10} {:>4} {:>12.3} {:>12.3} {:>10}\n        {}\n",
            thread.pid,
            thread.name,
            thread.policy_name(),
            format_cpu_list(&thread.cpus),
            thread.last_cpu,
            thread.run_ns as f64 / 1e6,
            thread.wait_ns as f64 / 1e6,
            thread.n_switches,
            why(root, thread)
        );
    }
    out
}

/// The same for programs: one line of JSON.
pub fn json(root: &Root, list: &[Thread]) -> String {
    let one = |thread: &Thread| {
        table([
            ("pid", Node::from(thread.pid)),
            ("name", Node::str(&thread.name)),
            ("policy", Node::str(thread.policy_name())),
            ("cpus", numbers(&thread.cpus)),
            ("last_cpu", Node::from(thread.last_cpu)),
            ("run_ns", Node::from(thread.run_ns)),
            ("wait_ns", Node::from(thread.wait_ns)),
            ("switches", Node::from(thread.n_switches)),
            ("may_move", Node::bool(thread.may_move())),
            ("why", Node::str(why(root, thread))),
        ])
    };
    to_json(&Node::list(list.iter().map(one))) + "\n"
}

/// Where schedutil's kthreads may run, in the form that recordings have beside them (`threads.txt`):
/// `PID NAME Cpus_allowed_list: LIST` a line.
pub fn kthreads_text(root: &Root) -> String {
    let line = |thread: &Thread| {
        format!("{} {} Cpus_allowed_list: {}\n", thread.pid, thread.name, format_cpu_list(&thread.cpus))
    };
    threads(root, "sugov:*").iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let check = |pattern: &str, name: &str, expected| assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        check("sugov:*", "sugov:12", true);
        check("sugov:1", "sugov:12", false);
        check("*d0", "kswapd0", true);
        check("k*d*", "kswapd0", true);
        check("*", "", true);
        check("a*b", "acbd", false);
    }

    #[test]
    fn masks() {
        let online = [0, 1, 2, 5];
        assert_eq!(parse_mask("0x25", &online).expect("is one"), [0, 2, 5]);
        assert_eq!(parse_mask("0-1", &online).expect("is one"), [0, 1]);
        for (text, part) in [("0x8", "CPU 3, but online are 0-2,5"), ("x", "not a CPU list"), ("0x0", "names no CPU")] {
            let error = parse_mask(text, &online).expect_err("wrong").to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    fn host(name: &str, flags: u64, release: &str) -> Root {
        let folder = std::env::temp_dir().join(format!("opplab-affinity-{}-{name}", std::process::id()));
        let put = |path: &str, text: &str| {
            let file = folder.join(path);
            fs::create_dir_all(file.parent().expect("has one")).expect("writable");
            fs::write(file, text).expect("writable");
        };
        put("proc/sys/kernel/osrelease", release);
        put("proc/71/comm", "sugov:4\n");
        let zeros = "0 ".repeat(29);
        put("proc/71/stat", &format!("71 (sugov:4 )x) S 2 0 0 0 -1 {flags} {zeros} 3 0 6 0 0\n"));
        put("proc/71/status", "Name:\tsugov:4\nCpus_allowed_list:\t4-5\n");
        put("proc/71/schedstat", "12000000 5 77\n");
        put("sys/devices/system/cpu/cpufreq/policy4/scaling_driver", "cppc_cpufreq\n");
        Root::Folder(folder)
    }

    /// Goal: what the kernel allows is read from the task's flags, and the reason fits the version.
    #[test]
    fn the_reason_fits_the_kernel() {
        for (flags, release, may_move, part) in [
            (PF_NO_SETAFFINITY, "6.12.117+deb12-amd64", false, "kernel 6.12 binds it to its policy's CPUs"),
            (PF_NO_SETAFFINITY, "6.14.0", false, "cppc_cpufreq does not have dvfs_possible_from_any_cpu"),
            (PF_NO_SETAFFINITY, "6.13.12", false, "kernel 6.13 binds it to its policy's CPUs"),
            (0x0020_8040, "6.15-rc1", true, "may be moved: PF_NO_SETAFFINITY is not set"),
        ] {
            let root = host(&release.replace('.', "_"), flags, release);
            let list = threads(&root, "sugov:*");
            assert_eq!(list.len(), 1);
            let thread = &list[0];
            assert_eq!(
                (thread.may_move(), thread.last_cpu, thread.policy_name().as_str()),
                (may_move, 3, "SCHED_DEADLINE")
            );
            assert_eq!((thread.cpus.as_slice(), thread.run_ns, thread.n_switches), (&[4, 5][..], 12_000_000, 77));
            assert!(why(&root, thread).contains(part), "{}", why(&root, thread));
            assert_eq!(kthreads_text(&root), "71 sugov:4 Cpus_allowed_list: 4-5\n");
            assert!(set(&root, thread, &[4]).is_err());
            let Root::Folder(folder) = root else { unreachable!() };
            fs::remove_dir_all(folder).expect("ours");
        }
    }

    #[test]
    fn masks_are_remembered_once() {
        let path = std::env::temp_dir().join(format!("opplab-affinity-{}.json", std::process::id()));
        let mut before = Before::default();
        let thread = |cpus: &[u32]| Thread {
            pid: 5,
            name: "x".into(),
            cpus: cpus.to_vec(),
            policy: 0,
            flags: 0,
            last_cpu: 0,
            run_ns: 0,
            wait_ns: 0,
            n_switches: 0,
        };
        before.remember(&thread(&[0, 1]));
        before.remember(&thread(&[1]));
        before.write(&path).expect("writable");
        assert_eq!(Before::read(&path).expect("ours").threads, [(5, "x".to_owned(), vec![0, 1])]);
        Before::default().write(&path).expect("writable");
        assert_eq!(Before::read(&path).expect("none"), Before::default());
    }
}
