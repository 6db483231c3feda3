//! Cumulative counters of each CPU: TSC, APERF, MPERF from the hardware, idle time from the kernel.
//!
//! Two ways to the hardware's counters: `/dev/cpu/N/msr` (module `msr`) and perf's `msr` PMU; without either, the
//! kernel's frequency and idle times must do. What the counters mean is in [`crate::observe`].

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use perf_event::events::Dynamic;
use perf_event::{Builder, Counter};

use crate::root::{CPU, Root};

/// IA32_TIME_STAMP_COUNTER, IA32_MPERF, IA32_APERF (Intel SDM volume 4).
const REGISTERS: [u64; 3] = [0x10, 0xe7, 0xe8];

/// Bytes that a counter file is read with at most.
const SHORT: usize = 64;

/// One CPU's hardware counters at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hardware {
    /// Time stamp counter: base clock, never stops.
    pub tsc: u64,
    /// Cycles at the base clock while not idle.
    pub mperf: u64,
    /// Cycles at the actual clock while not idle.
    pub aperf: u64,
}

/// How the hardware's counters are read.
enum Access {
    Msr(File),
    Perf(Box<[Counter; 3]>),
}

/// An open way to one CPU's counters.
pub struct CpuCounters {
    access: Access,
}

impl CpuCounters {
    /// Opens them; `None` where the machine has none or does not let us, with the reason for each way.
    pub fn open(root: &Root, cpu: u32) -> Result<Self, String> {
        let mut why = Vec::new();
        let device = format!("/dev/cpu/{cpu}/msr");
        match root.open_file(&device) {
            Some(Ok(file)) => {
                let counters = Self { access: Access::Msr(file) };
                match counters.read_once() {
                    Some(_) => return Ok(counters),
                    None => why.push(format!("{device}: the CPU has no APERF and MPERF")),
                }
            }
            Some(Err(error)) => why.push(format!("{device}: {}", crate::error::describe(&error))),
            None => why.push("not a live host".to_owned()),
        }
        if root.is_live() {
            match perf(cpu) {
                Ok(counters) => return Ok(Self { access: Access::Perf(counters) }),
                Err(error) => why.push(format!("perf msr PMU: {error}")),
            }
        }
        Err(why.join("; "))
    }

    /// The name of the way.
    pub fn name(&self) -> &'static str {
        match self.access {
            Access::Msr(_) => "/dev/cpu/N/msr",
            Access::Perf(_) => "perf msr PMU",
        }
    }

    fn read_once(&self) -> Option<Hardware> {
        let Access::Msr(file) = &self.access else { return None };
        let mut values = [0u64; 3];
        for (value, register) in values.iter_mut().zip(REGISTERS) {
            let mut bytes = [0u8; 8];
            file.read_exact_at(&mut bytes, register).ok()?;
            *value = u64::from_ne_bytes(bytes);
        }
        let [tsc, mperf, aperf] = values;
        // An emulator answers 0 for registers that it does not have.
        (aperf != 0 && mperf != 0).then_some(Hardware { tsc, mperf, aperf })
    }

    /// The counters; `None` once the CPU is gone.
    pub fn read(&mut self) -> Option<Hardware> {
        match &mut self.access {
            Access::Msr(_) => self.read_once(),
            Access::Perf(counters) => {
                let [tsc, mperf, aperf] = &mut **counters;
                Some(Hardware { tsc: tsc.read().ok()?, mperf: mperf.read().ok()?, aperf: aperf.read().ok()? })
            }
        }
    }
}

fn perf(cpu: u32) -> Result<Box<[Counter; 3]>, String> {
    let open = |name: &str| -> Result<Counter, String> {
        let words = |error: &dyn std::fmt::Display| format!("{name}: {error}");
        let mut event = Dynamic::builder("msr").map_err(|error| words(&error))?;
        let event = event.event(name).map_err(|error| words(&error))?.build().map_err(|error| words(&error))?;
        let mut counter = Builder::new(event)
            .any_pid()
            .one_cpu(cpu as usize)
            .exclude_kernel(false)
            .exclude_hv(false)
            .build()
            .map_err(|error| words(&error))?;
        counter.enable().map_err(|error| words(&error))?;
        Ok(counter)
    };
    Ok(Box::new([open("tsc")?, open("mperf")?, open("aperf")?]))
}

/// A small text file that is read again and again.
pub struct Watched {
    file: File,
}

impl Watched {
    /// Opens it, if it is there.
    pub fn open(root: &Root, path: &str) -> Option<Self> {
        Some(Self { file: root.open_file(path)?.ok()? })
    }

    /// The number in it now.
    pub fn number(&self) -> Option<u64> {
        let mut bytes = [0u8; SHORT];
        let n_bytes = self.file.read_at(&mut bytes, 0).ok()?;
        std::str::from_utf8(&bytes[..n_bytes]).ok()?.trim().parse().ok()
    }
}

/// One CPU's times from `/proc/stat`, in ticks of 10 ms (USER_HZ).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatTimes {
    /// All but the guests' shares, which are in `user` and `nice`.
    pub total: u64,
    /// Idle, without waiting for I/O.
    pub idle: u64,
    /// Idle with a task of this CPU waiting for I/O.
    pub iowait: u64,
    /// Tasks with a positive nice value.
    pub nice: u64,
}

/// Nanoseconds of a tick of `/proc/stat`: USER_HZ is 100 on every architecture that this runs on.
pub const USER_TICK_NS: u64 = 10_000_000;

/// The longest time of a kind, 43 years of ticks: a sum of all kinds in ns fits into 64 bits then.
const TICKS_MAX: u64 = 1 << 37;

/// Reads the CPU lines of `/proc/stat`; one that lacks the idle time, or has what is no time, is no reading.
pub fn parse_stat(text: &str) -> Vec<(u32, StatTimes)> {
    let mut cpus = Vec::new();
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("cpu") else { continue };
        let mut words = rest.split_ascii_whitespace();
        let Some(cpu) = words.next().filter(|_| !rest.starts_with(' ')).and_then(|word| word.parse().ok()) else {
            continue;
        };
        let time = |word: &str| word.parse::<u64>().ok().filter(|&ticks| ticks <= TICKS_MAX);
        let Some(numbers) = words.map(time).collect::<Option<Vec<u64>>>().filter(|numbers| numbers.len() > 3) else {
            continue;
        };
        let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
        let total = numbers.iter().take(8).sum();
        cpus.push((cpu, StatTimes { total, idle: at(3), iowait: at(4), nice: at(1) }));
    }
    cpus
}

/// Reads `/proc/stat`: the times, and which of `cpus` are online and have no time that can be read.
pub fn read_stat(root: &Root, cpus: &[u32]) -> (Vec<(u32, StatTimes)>, Vec<u32>) {
    let read = || parse_stat(&root.raw("/proc/stat").unwrap_or_default());
    let is_in = |stat: &[(u32, StatTimes)], cpu: u32| stat.iter().any(|(known, _)| *known == cpu);
    let mut stat = read();
    if cpus.iter().all(|&cpu| is_in(&stat, cpu)) {
        return (stat, Vec::new());
    }
    // A CPU may come and go between the two files: what is online and not there is looked for again.
    let mut missing: Vec<u32> = root.online().into_iter().filter(|&cpu| cpus.contains(&cpu)).collect();
    missing.retain(|&cpu| !is_in(&stat, cpu));
    if !missing.is_empty() {
        stat = read();
        missing.retain(|&cpu| !is_in(&stat, cpu));
    }
    (stat, missing)
}

/// The idle states of one CPU and their cumulative times.
pub struct IdleCounters {
    /// Names, shallowest first.
    pub names: Vec<String>,
    times: Vec<Watched>,
}

impl IdleCounters {
    /// Opens the states of a CPU; none where there is no cpuidle.
    pub fn open(root: &Root, cpu: u32) -> Self {
        let folder = format!("{CPU}/cpu{cpu}/cpuidle");
        let (mut names, mut times) = (Vec::new(), Vec::new());
        for state in root.numbered(&folder, "state") {
            if let Some(time) = Watched::open(root, &format!("{folder}/state{state}/time")) {
                names.push(
                    root.text(&format!("{folder}/state{state}/name")).unwrap_or_else(|_| format!("state{state}")),
                );
                times.push(time);
            }
        }
        Self { names, times }
    }

    /// Time in each state so far, in us. The kernel adds a stay when it ends.
    pub fn read_us(&self) -> Vec<u64> {
        self.times.iter().map(|time| time.number().unwrap_or(0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lines_of_proc_stat() {
        let text = "cpu  5 0 5 90 0 0 0 0 0 0\ncpu0 1 2 3 40 5 6 7 8 9 10\ncpu2 0 0 0 1\nintr 5\n";
        let idle = StatTimes { total: 1, idle: 1, ..StatTimes::default() };
        assert_eq!(parse_stat(text), [(0, StatTimes { total: 72, idle: 40, iowait: 5, nice: 2 }), (2, idle)]);
        for bad in ["cpu3 1", "cpu3 1 2 x 4 5", "cpu3 1 2 3 -4", "cpu3 18446744073709551615 0 0 0", "cpu3"] {
            assert_eq!(parse_stat(bad), [], "{bad}");
        }
    }
}
