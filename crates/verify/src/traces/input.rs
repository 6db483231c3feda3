//! Reads a recording's folder: the events of `trace.dat` in time order, and the snapshots' facts about the machine.
//!
//! Events are kept generic (names and integers), as the probes of a recording decide which fields there are. Nothing is
//! interpreted here.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use opplab_kernel::cpufreq::freq_table::{FreqTable, cpufreq_pressure};
use opplab_kernel::cpufreq::schedutil::{BW_SHIFT, SugovGates, cpu_bw_dl};
use opplab_kernel::eas::EasGates;
use opplab_kernel::energy_model::{EmPerfDomain, EmPerfState};
use opplab_kernel::profile::{CpufreqPressure, EmCost, FeecEnergy, KernelProfile};
use opplab_kernel::release::Version;
use opplab_signals::clock::sched_clock_offset_ns;
use opplab_signals::groups::{GroupFinder, Groups, is_thread_clone};
use opplab_trace::{Event, IN_INTERRUPT, ReadOptions, RecordingFiles, Value};

use crate::VerifyError;

/// The events that the checks look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the event of the same name in the recordings' README or in the kernel")]
pub enum Kind {
    UpdSe,
    UpdCfs,
    UpdBlk,
    PeltSe,
    PeltCfs,
    PeltRt,
    PeltDl,
    PeltHw,
    UtilEstSe,
    UtilEstCfs,
    SgSingle,
    SgShared,
    SgUtil,
    SgUtilIn,
    SgNext,
    SgNextIn,
    SgNextRet,
    SgEff,
    SgEffIn,
    SgEffRet,
    Fsw,
    Drvt,
    Setscale,
    StrfIn,
    StrfRet,
    Cenergy,
    Overutil,
    Cap,
    NrRunning,
    Rqclk,
    SchedSwitch,
    SchedWaking,
    SchedWakeup,
    SchedWakeupNew,
    SchedMigrateTask,
    SchedProcessFork,
    SchedProcessExit,
    SchedProcessExec,
    TaskNewtask,
    CgroupAttachTask,
    CgroupName,
    CpuFrequency,
    CpuIdle,
}

const KINDS: &[(&str, Kind)] = &[
    ("upd_se", Kind::UpdSe),
    ("upd_cfs", Kind::UpdCfs),
    ("upd_blk", Kind::UpdBlk),
    ("pelt_se", Kind::PeltSe),
    ("pelt_cfs", Kind::PeltCfs),
    ("pelt_rt", Kind::PeltRt),
    ("pelt_dl", Kind::PeltDl),
    ("pelt_hw", Kind::PeltHw),
    ("util_est_se", Kind::UtilEstSe),
    ("util_est_cfs", Kind::UtilEstCfs),
    ("sg_single", Kind::SgSingle),
    ("sg_shared", Kind::SgShared),
    ("sg_util", Kind::SgUtil),
    ("sg_util_in", Kind::SgUtilIn),
    ("sg_next", Kind::SgNext),
    ("sg_next_in", Kind::SgNextIn),
    ("sg_next_ret", Kind::SgNextRet),
    ("sg_eff", Kind::SgEff),
    ("sg_eff_in", Kind::SgEffIn),
    ("sg_eff_ret", Kind::SgEffRet),
    ("fsw", Kind::Fsw),
    ("drvt", Kind::Drvt),
    ("setscale", Kind::Setscale),
    ("strf_in", Kind::StrfIn),
    ("strf_ret", Kind::StrfRet),
    ("cenergy", Kind::Cenergy),
    ("overutil", Kind::Overutil),
    ("cap", Kind::Cap),
    ("nr_running", Kind::NrRunning),
    ("rqclk", Kind::Rqclk),
    ("sched_switch", Kind::SchedSwitch),
    ("sched_waking", Kind::SchedWaking),
    ("sched_wakeup", Kind::SchedWakeup),
    ("sched_wakeup_new", Kind::SchedWakeupNew),
    ("sched_migrate_task", Kind::SchedMigrateTask),
    ("sched_process_fork", Kind::SchedProcessFork),
    ("sched_process_exit", Kind::SchedProcessExit),
    ("sched_process_exec", Kind::SchedProcessExec),
    ("task_newtask", Kind::TaskNewtask),
    ("cgroup_attach_task", Kind::CgroupAttachTask),
    ("cgroup_transfer_tasks", Kind::CgroupAttachTask),
    ("cgroup_mkdir", Kind::CgroupName),
    ("cgroup_rename", Kind::CgroupName),
    ("cpu_frequency", Kind::CpuFrequency),
    ("cpu_idle", Kind::CpuIdle),
];

struct Record {
    time_ns: u64,
    cpu: usize,
    pid: i64,
    kind: Kind,
    schema: usize,
    at: usize,
    /// The next record of the same CPU.
    next: Option<usize>,
}

/// All events of a recording in time order.
pub struct Events {
    records: Vec<Record>,
    values: Vec<i64>,
    /// Paths of groups; the events hold their places.
    paths: Vec<String>,
    /// Names of the integer fields, by schema.
    fields: Vec<Vec<String>>,
    /// Events that the kernel lost, as far as the trace has them.
    pub lost: u64,
    /// What of the trace is damaged; the events are the rest.
    pub damage: Vec<String>,
    /// Names of tasks by thread id, as far as the trace lists them.
    pub names: BTreeMap<i64, String>,
    /// What was added to the trace clock to get the events' times, ns.
    pub time_offset_ns: i64,
}

/// One event.
#[derive(Clone, Copy)]
pub struct Ev<'a> {
    events: &'a Events,
    record: &'a Record,
}

impl<'a> Ev<'a> {
    /// What the same CPU did next.
    pub fn next_on_cpu(&self) -> Option<Ev<'a>> {
        self.record.next.map(|at| Ev { events: self.events, record: &self.events.records[at] })
    }
    /// The name of a task, if the trace lists it.
    pub fn name_of(&self, pid: i64) -> Option<&'a str> {
        self.events.names.get(&pid).map(String::as_str)
    }
    /// What it is.
    pub fn kind(&self) -> Kind {
        self.record.kind
    }
    /// When, in ns, as `trace-cmd report` shows it.
    pub fn time_ns(&self) -> u64 {
        self.record.time_ns
    }
    /// The CPU that executed it.
    pub fn cpu(&self) -> usize {
        self.record.cpu
    }
    /// The task that executed it.
    pub fn current(&self) -> i64 {
        self.record.pid
    }
    /// It was in an interrupt or a softirq on top of that task, as far as the trace has it.
    pub fn in_interrupt(&self) -> bool {
        self.get("common_flags").is_some_and(|flags| flags & IN_INTERRUPT != 0)
    }
    /// The integer field `name`; `None` if this recording's probe does not have it.
    pub fn get(&self, name: &str) -> Option<i64> {
        let place = self.events.fields[self.record.schema].iter().position(|field| field == name)?;
        Some(self.events.values[self.record.at + place])
    }
    /// The same as an unsigned number.
    pub fn u(&self, name: &str) -> Option<u64> {
        self.get(name).map(|value| value as u64)
    }
    /// The path of a group in the field `name`.
    pub fn path(&self, name: &str) -> Option<&'a str> {
        self.events.paths.get(usize::try_from(self.get(name)?).ok()?).map(String::as_str)
    }
    /// The same as a CPU's number.
    pub fn cpu_field(&self, name: &str) -> Option<usize> {
        self.get(name).and_then(|value| usize::try_from(value).ok())
    }
}

impl Events {
    /// The events in time order.
    pub fn iter(&self) -> impl Iterator<Item = Ev<'_>> {
        self.records.iter().map(|record| Ev { events: self, record })
    }

    /// Reads the trace.
    fn read(files: &RecordingFiles) -> Result<Self, VerifyError> {
        let path = files.path().to_owned();
        let fail = |error: opplab_trace::Error| VerifyError::Read { path: path.clone(), reason: error.to_string() };
        let file = &files.trace;
        let options = ReadOptions {
            missing_ok: true,
            common_fields: true,
            ..ReadOptions::only(&KINDS.iter().map(|k| k.0).collect::<Vec<_>>())
        };
        let reader = file.reader(&options).map_err(fail)?;
        let names = reader.tasks().iter().map(|(&pid, name)| (pid.into(), String::from_utf8_lossy(name).into_owned()));
        let names = names.collect();
        let time_offset_ns = reader.meta().time_offset_ns;
        drop(reader);
        let (records, values, fields) = (Vec::new(), Vec::new(), Vec::new());
        let (paths, damage) = (Vec::new(), Vec::new());
        let mut events = Self { records, values, paths, fields, lost: 0, damage, names, time_offset_ns };
        // For each schema of the reader: ours, and which fields are integers.
        let mut known: Vec<Option<(Kind, usize, Vec<usize>)>> = Vec::new();
        let mut sink = |event: &Event<'_>| {
            let index = event.schema.index;
            if known.len() <= index {
                known.resize(index + 1, None);
            }
            if known[index].is_none() {
                let Some(&(_, kind)) = KINDS.iter().find(|(name, _)| *name == event.schema.name) else {
                    return ControlFlow::Continue(());
                };
                let is_path = |at: usize| matches!(event.schema.fields[at].name.as_str(), "dst_path" | "path");
                let integers: Vec<usize> =
                    (0..event.schema.fields.len()).filter(|&at| event.int(at).is_some() || is_path(at)).collect();
                events.fields.push(integers.iter().map(|&at| event.schema.fields[at].name.clone()).collect());
                known[index] = Some((kind, events.fields.len() - 1, integers));
            }
            if let Some((kind, schema, integers)) = &known[index] {
                events.records.push(Record {
                    time_ns: event.time_ns,
                    cpu: event.cpu as usize,
                    pid: event.pid.into(),
                    kind: *kind,
                    schema: *schema,
                    at: events.values.len(),
                    next: None,
                });
                for &at in integers {
                    let value = match event.value(at) {
                        Value::U64(value) => value as i64,
                        Value::I64(value) => value,
                        Value::Str(path) => {
                            events.paths.push(String::from_utf8_lossy(path).into_owned());
                            events.paths.len() as i64 - 1
                        }
                        _ => 0,
                    };
                    events.values.push(value);
                }
            }
            ControlFlow::Continue(())
        };
        let outcome = file.stream(&options, &mut sink).map_err(fail)?;
        events.damage = outcome.problems.iter().map(ToString::to_string).collect();
        let mut last: BTreeMap<usize, usize> = BTreeMap::new();
        for at in 0..events.records.len() {
            if let Some(before) = last.insert(events.records[at].cpu, at) {
                events.records[before].next = Some(at);
            }
        }
        events.lost = outcome.missed.len() as u64;
        Ok(events)
    }
}

/// A cpufreq policy of the snapshot.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Its CPUs.
    pub cpus: Vec<usize>,
    /// `scaling_driver`.
    pub driver: String,
    /// `scaling_governor` before the workload.
    pub governor: String,
    /// `cpuinfo_max_freq` in kHz.
    pub max_khz: u32,
    /// Its limit at the snapshot, kHz; 0 where that is not known.
    pub scaling_max_khz: u32,
    /// `cpuinfo_min_freq` in kHz.
    pub min_khz: u32,
    /// `scaling_cur_freq` in kHz before the workload.
    pub cur_khz: u32,
    /// The driver's table, if it has one.
    pub table: Option<FreqTable>,
}

/// The snapshots' facts about the machine.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// Number of CPUs (the highest one's number and 1).
    pub n_cpus: usize,
    /// `arch_scale_cpu_capacity()` of each CPU.
    pub capacity: Vec<u64>,
    /// What of it the policy's limit at the snapshot leaves out of reach, for kernels that place by it.
    pub cpufreq_pressure: Vec<u64>,
    /// The policies.
    pub policies: Vec<Policy>,
    /// Performance domains in the order of the kernel's list: the last one built comes first.
    pub domains: Vec<EmPerfDomain>,
    /// The kernel's log has it that energy-aware placement was started, and not stopped again.
    pub energy_aware: bool,
    /// The architecture scales by frequency and knows a reference frequency (arm64 here).
    pub freq_ref: bool,
    /// `imbalance_pct` of the CPUs' lowest domain.
    pub imbalance_pct: u32,
    /// The CPUs that share each CPU's last-level cache, as a mask.
    pub llc: Vec<u64>,
    /// Kernel release, of `uname -r`.
    pub release: String,
    /// `CONFIG_HZ`; no snapshot has it, Debian's is taken.
    pub hz: u64,
    /// The frequency scale follows counters (cppc_cpufreq's), which no event shows.
    pub counter_scale: bool,
    /// The bandwidth of each CPU's fair server as a performance, 0 if there is none.
    pub fair_server: u64,
    /// What the scheduler's clock is ahead of the trace clock, ns.
    pub sched_clock_offset_ns: i64,
}

/// "0,3-5" as numbers.
fn cpu_list(text: &str) -> Vec<usize> {
    let mut cpus = Vec::new();
    for part in text.split([',', ' ']).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>())
            && last < 4096
        {
            cpus.extend(first..=last);
        }
    }
    cpus
}

/// The snapshot of sysfs beside a trace.
pub(crate) const SYSFS: &str = "sysfs_before.txt";

/// The lines `path: content|` of a snapshot.
fn snapshot(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(key, value)| (key.to_owned(), value.trim_end_matches('|').trim().to_owned()))
        .collect()
}

/// The last entry of the kernel's log about energy-aware placement (topology.c:sched_energy_set()).
fn energy_aware(files: &RecordingFiles) -> bool {
    let Some(log) = files.text("dmesg1.txt").or_else(|| files.text("dmesg0.txt")) else { return false };
    log.lines().rfind(|line| line.contains("ing EAS")).is_some_and(|line| line.contains("starting EAS"))
}

impl Machine {
    fn read(files: &RecordingFiles) -> Self {
        let text = |name: &str| files.text(name).unwrap_or_default();
        let sysfs = snapshot(&text(SYSFS));
        let debugfs = snapshot(&text("debugfs_before.txt"));
        let uname = text("uname.txt");
        let release = uname.split_whitespace().nth(2).unwrap_or_default().to_owned();
        let mut machine = Self {
            release,
            freq_ref: uname.contains("aarch64"),
            energy_aware: energy_aware(files),
            imbalance_pct: 117,
            hz: 250,
            sched_clock_offset_ns: sched_clock_offset_ns(
                ["dmesg0.txt", "dmesg1.txt"].iter().filter_map(|name| files.text(name)),
            ),
            ..Self::default()
        };
        const CPU: &str = "/sys/devices/system/cpu/cpu";
        for (key, value) in &sysfs {
            if let Some((cpu, "topology/core_siblings_list")) =
                key.strip_prefix(CPU).and_then(|rest| rest.split_once('/'))
                && let Ok(cpu) = cpu.parse::<usize>()
                && cpu < 64
            {
                machine.n_cpus = machine.n_cpus.max(cpu + 1);
                machine.llc.resize(machine.n_cpus, 0);
                machine.llc[cpu] =
                    cpu_list(value).iter().filter(|&&cpu| cpu < 64).fold(0, |mask, &cpu| mask | 1 << cpu);
            }
        }
        machine.capacity = (0..machine.n_cpus)
            .map(|cpu| sysfs.get(&format!("{CPU}{cpu}/cpu_capacity")).and_then(|v| v.parse().ok()).unwrap_or(1024))
            .collect();
        for cpu in 0..machine.n_cpus {
            let at = |name: &str| sysfs.get(&format!("/sys/devices/system/cpu/cpufreq/policy{cpu}/{name}")).cloned();
            let Some(cpus) = at("affected_cpus").or_else(|| at("related_cpus")) else { continue };
            let khz = |name: &str| at(name).and_then(|value| value.parse().ok()).unwrap_or(0);
            let table: Vec<u32> = at("scaling_available_frequencies")
                .map(|list| list.split_whitespace().filter_map(|khz| khz.parse().ok()).collect())
                .unwrap_or_default();
            machine.policies.push(Policy {
                cpus: cpu_list(&cpus),
                driver: at("scaling_driver").unwrap_or_default(),
                governor: at("scaling_governor").unwrap_or_default(),
                max_khz: khz("cpuinfo_max_freq"),
                scaling_max_khz: khz("scaling_max_freq"),
                min_khz: khz("cpuinfo_min_freq"),
                cur_khz: khz("scaling_cur_freq"),
                table: FreqTable::from_khz(&table).ok(),
            });
        }
        for cpu in 0..machine.n_cpus {
            let prefix = format!("energy_model/cpu{cpu}/");
            let Some(cpus) = debugfs.get(&format!("{prefix}cpus")) else { continue };
            let mut states: BTreeMap<u64, EmPerfState> = BTreeMap::new();
            for (key, value) in debugfs.range(format!("{prefix}ps:")..format!("{prefix}ps;")) {
                let Some((khz, name)) = key[prefix.len() + 3..].split_once('/') else { continue };
                let (Ok(khz), Ok(value)) = (khz.parse::<u64>(), value.parse::<u64>()) else { continue };
                let state = states.entry(khz).or_insert(EmPerfState {
                    performance: 0,
                    freq_khz: khz,
                    power_uw: 0,
                    cost: 0,
                    inefficient: false,
                });
                match name {
                    "cost" => state.cost = value,
                    "frequency" => state.freq_khz = value,
                    "inefficient" => state.inefficient = value != 0,
                    "performance" => state.performance = value,
                    "power" => state.power_uw = value,
                    _ => {}
                }
            }
            let flags = debugfs.get(&format!("{prefix}flags"));
            let flags =
                flags.and_then(|flags| u32::from_str_radix(flags.trim_start_matches("0x"), 16).ok()).unwrap_or(0);
            machine.domains.insert(
                0,
                EmPerfDomain {
                    states: states.into_values().collect(),
                    cpus: cpu_list(cpus),
                    skip_inefficient: flags & 2 != 0,
                    form: EmCost::Performance,
                },
            );
        }
        let cmdline = text("cmdline.txt");
        let cppc = machine.policies.iter().any(|policy| policy.driver.contains("cppc"));
        machine.counter_scale = cppc && !cmdline.contains("fie_disabled=1");
        let server =
            |name: &str| debugfs.get(&format!("sched/fair_server/cpu0/{name}")).and_then(|v| v.parse::<u64>().ok());
        if let (Some(runtime), Some(period)) = (server("runtime"), server("period")) {
            // to_ratio(), then cpu_bw_dl().
            machine.fair_server = cpu_bw_dl((runtime << BW_SHIFT).checked_div(period).unwrap_or(0));
        }
        if let Some(pct) = debugfs.get("sched/domains/cpu0/domain0/imbalance_pct").and_then(|value| value.parse().ok())
        {
            machine.imbalance_pct = pct;
        }
        machine.cpufreq_pressure = (0..machine.n_cpus).map(|cpu| machine.pressure(cpu)).collect();
        machine
    }

    /// The kernel is at least this version.
    pub fn at_least(&self, major: u16, minor: u16) -> bool {
        self.version() >= (major, minor)
    }

    /// The kernel's version; (0, 0) where it is not recorded.
    fn version(&self) -> Version {
        let mut numbers = self.release.split(['.', '-', '+']).map(|part| part.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }

    /// schedutil's of the recorded kernel.
    pub fn sugov_gates(&self) -> SugovGates {
        self.profile().sugov_gates()
    }

    fn profile(&self) -> KernelProfile {
        KernelProfile::named(&self.release).unwrap_or_else(|| KernelProfile::at(self.version()))
    }

    /// How the kernel places by energy.
    pub fn eas_gates(&self) -> EasGates {
        self.profile().eas_gates().unwrap_or_default()
    }

    /// How the kernel computes the energy of a placement.
    pub fn feec_energy(&self) -> FeecEnergy {
        self.profile().feec_energy
    }

    fn pressure(&self, cpu: usize) -> u64 {
        let knows = self.freq_ref && self.profile().cpufreq_pressure == CpufreqPressure::Present;
        let policy = self.policy(cpu).filter(|policy| knows && policy.scaling_max_khz > 0);
        policy.map_or(0, |policy| cpufreq_pressure(self.capacity[cpu], policy.scaling_max_khz, policy.max_khz))
    }

    /// The policy of a CPU.
    pub fn policy(&self, cpu: usize) -> Option<&Policy> {
        self.policies.iter().find(|policy| policy.cpus.contains(&cpu))
    }

    /// The performance domain of a CPU.
    pub fn domain(&self, cpu: usize) -> Option<&EmPerfDomain> {
        self.domains.iter().find(|domain| domain.cpus.contains(&cpu))
    }
}

/// One event of the first pass.
fn find_groups(ev: &Ev<'_>, finder: &mut GroupFinder) -> Option<()> {
    let (time, cpu) = (ev.time_ns(), ev.cpu() as u32);
    let pid = |name: &str| ev.get(name).map(|pid| pid as i32);
    let prio = |name: &str| ev.get(name).map_or(120, |prio| i64::from(prio as i32));
    match ev.kind() {
        Kind::SchedSwitch => {
            finder.switch(time, cpu, (pid("prev_pid")?, prio("prev_prio")), ev.u("prev_state")?, pid("next_pid")?);
        }
        Kind::SchedWakeup | Kind::SchedWakeupNew => {
            finder.wakeup(time, pid("pid")?, prio("prio"), ev.u("target_cpu")? as u32);
        }
        Kind::SchedMigrateTask => finder.migrate(time, cpu, pid("pid")?, ev.u("dest_cpu")? as u32),
        Kind::SchedProcessFork => finder.fork(pid("parent_pid")?, pid("child_pid")?, None),
        Kind::TaskNewtask => {
            let is_thread = ev.get("clone_flags").map(is_thread_clone);
            finder.fork(ev.current() as i32, pid("pid")?, is_thread);
        }
        Kind::SchedProcessExec => finder.exec(pid("pid").unwrap_or(ev.current() as i32)),
        Kind::CgroupAttachTask => finder.moves(ev.get("dst_root")?, pid("pid")?),
        Kind::NrRunning => finder.nr_running(time, ev.u("cpu")? as u32, ev.get("change")?, ev.get("nr")),
        _ => {}
    }
    Some(())
}

/// A recording: a folder, or an archive.
pub struct Recording {
    /// Its name.
    pub name: String,
    /// The machine.
    pub machine: Machine,
    /// The events.
    pub events: Events,
    /// Its control groups, and who is in them when it begins.
    pub groups: Groups,
    /// What a first pass found out of them.
    pub finder: GroupFinder,
}

impl Recording {
    /// Reads the folder or archive `path`.
    ///
    /// # Errors
    /// [`VerifyError::Read`] if there is no readable `trace.dat` or no snapshot of the machine.
    pub fn read(path: &Path) -> Result<Self, VerifyError> {
        let files = RecordingFiles::open(path);
        let files = files.map_err(|error| VerifyError::Read { path: path.to_owned(), reason: error.to_string() })?;
        let machine = Machine::read(&files);
        if machine.n_cpus == 0 {
            let reason = "no CPU found: sysfs_before.txt is missing or has no topology".to_owned();
            return Err(VerifyError::Read { path: files.place(SYSFS).into(), reason });
        }
        let events = Events::read(&files)?;
        let mut finder = GroupFinder::default();
        for ev in events.iter() {
            let _ = find_groups(&ev, &mut finder);
        }
        let groups = Groups::of_recording(&files, &finder);
        Ok(Self { name: files.name(), machine, events, groups, finder })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A limit at half the highest frequency takes half of the capacity, for the kernels and the architectures that look at it.
    #[test]
    fn a_limit_at_the_snapshot_presses_on_the_capacity() {
        let pressure = |release: &str, freq_ref: bool, scaling_max_khz: u32| {
            let policy = Policy { cpus: vec![0], max_khz: 2_000_000, scaling_max_khz, ..Policy::default() };
            let (capacity, policies) = (vec![1024], vec![policy]);
            Machine { n_cpus: 1, capacity, policies, freq_ref, release: release.into(), ..Machine::default() }
                .pressure(0)
        };
        assert_eq!(pressure("6.12.117", true, 1_000_000), 512);
        assert_eq!(pressure("6.12.117", true, 2_000_000), 0);
        assert_eq!(pressure("6.12.117", true, 0), 0, "a limit that is not known");
        assert_eq!((pressure("6.9.1", true, 1_000_000), pressure("6.12.117", false, 1_000_000)), (0, 0));
    }
}
