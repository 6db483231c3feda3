//! The machine and the policy of a recording: what its snapshots hold, what its events show, and what it costs.
//!
//! A recording is a folder or an archive with `trace.dat` and snapshots of sysfs and debugfs (see [`Setup::of_recording`]). What an
//! emulator does differently from hardware is a property of the machine that comes out (`shared_stream`, costs), not of the comparison.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use opplab_import::{Facts, SYSFS};
use opplab_kernel::cpufreq::driver::{DriverKind, Governors};
use opplab_kernel::cpufreq::drivers::DriverId;
use opplab_kernel::cpufreq::governors::GovernorId;
use opplab_kernel::cpufreq::intel_pstate::PstatePolicy;
use opplab_kernel::profile::{KernelProfile, profile_names};
use opplab_kernel::release;
use opplab_model::experiment::policy_from_json;
use opplab_model::machine::{IdleState, InvarianceSource, Machine};
use opplab_model::policy::Policy;
use opplab_model::policy_values::{EnergyModelSource, SetLimit};
use opplab_model::variation::Variation;
use opplab_sim::{Wakes, driver_of};
use opplab_trace::{ReadOptions, RecordingFiles};

use crate::calls::told_ticks;
use crate::events::{Events, What};
use crate::measure::{seconds, window_start_ns};
use crate::{ReplayError, costs, rtlog};

/// CONFIG_HZ of Debian's kernels.
const HZ_DEFAULT: u32 = 250;

/// kernel/sched/autogroup.c:task_wants_autogroup(), autogroup_task_group(), v6.12: of tasks in the root group.
const AUTOGROUP: &str = "autogroup is on (sched_autogroup_enabled): sessions share the CPUs as control groups do, and nice values count \
                         within a session only; a replay does not follow that";

/// The flags of an energy model for costs that are made up (EM_PERF_DOMAIN_ARTIFICIAL, v6.12).
const EM_ARTIFICIAL: u32 = 1 << 2;

/// A machine and the policy that it ran.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The machine.
    pub machine: Machine,
    /// The recorded policy.
    pub policy: Policy,
    /// Frequency of each cpufreq policy at the start, kHz.
    pub start_khz: Vec<u32>,
    /// From when on it is known and not assumed, ns from the first event; `None`: never.
    pub known_from_ns: Vec<Option<u64>>,
    /// The time that running time of an rt-app file takes on the machine, in parts of 100 000 of it.
    pub run_per_100k: u64,
    /// A context switch as the kernel's own events show it, ns; that of the machine's costs has, where the workload's logs show it,
    /// what a thread does around its runs.
    pub switch_ns: u64,
    /// Whether the governor is the recording's own, not assumed.
    pub governor_known: bool,
    /// How long wake-ups on idle CPUs took; empty if the machine's idle states give it.
    pub wakes: Wakes,
    /// What was taken from where, in words.
    pub notes: Vec<String>,
}

/// What somebody who knows adds to a recording that lacks it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Its cpufreq governor.
    pub governor: Option<String>,
    /// Its cpufreq driver, one of the machine's.
    pub driver: Option<String>,
    /// Its kernel profile.
    pub kernel: Option<String>,
    /// The half-life of its load tracking, ms.
    pub half_life_ms: Option<u32>,
    /// Snapshots of its sysfs before and after it, beside a machine that is not made of them.
    pub sysfs: [String; 2],
    /// Its `/proc/cpuinfo`, beside such a machine.
    pub cpuinfo: String,
}

/// Whether a `/proc/cpuinfo` is of x86 without APERF and MPERF.
fn lacks_counters(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags")?.split_once(':'));
    flags.is_some_and(|(_, flags)| flags.split_whitespace().all(|flag| flag != "aperfmperf"))
}

/// Frequency invariance: x86 without APERF and MPERF has none.
fn without_counters(machine: &mut Machine, policy: &mut Policy) {
    machine.invariance = InvarianceSource::CountersAtTick;
    policy.invariance = "none".into();
    policy.freq_max = "max_P".into();
}

impl Recorded {
    /// Makes the driver the machine's own.
    fn drive(&self, machine: &mut Machine) -> Result<(), ReplayError> {
        self.driver.as_deref().map_or(Ok(()), |wanted| drive_by(machine, wanted))
    }

    /// The kernel profile, if it is given.
    fn kernel(&self) -> Result<Option<&str>, ReplayError> {
        let Some(wanted) = self.kernel.as_deref() else { return Ok(None) };
        if KernelProfile::named(wanted).is_some() {
            return Ok(Some(wanted));
        }
        let known = profile_names().collect::<Vec<_>>().join(", ");
        Err(ReplayError::Input(format!("unknown kernel profile `{wanted}` (there are {known})")))
    }
}

/// Makes driver `wanted` the machine's own.
fn drive_by(machine: &mut Machine, wanted: &str) -> Result<(), ReplayError> {
    if wanted == machine.cpufreq.driver.name {
        return Ok(());
    }
    if let Some(other) = machine.other_drivers.iter_mut().find(|other| other.driver.name == wanted) {
        std::mem::swap(&mut machine.cpufreq, other);
        return Ok(());
    }
    let known =
        std::iter::once(&machine.cpufreq).chain(&machine.other_drivers).map(|driver| driver.driver.entry().name);
    let known = known.collect::<Vec<_>>().join(", ");
    Err(ReplayError::Input(format!("machine {} has no cpufreq driver `{wanted}` (it has {known})", machine.name)))
}

/// Opens a recording.
pub(crate) fn recording_files(path: &Path) -> Result<RecordingFiles, ReplayError> {
    let files = RecordingFiles::open(path);
    files.map_err(|error| ReplayError::Trace { path: path.to_owned(), reason: error.to_string() })
}

fn lines(text: &str) -> Vec<(String, String)> {
    text.lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(key, value)| (key.to_owned(), value.trim_end_matches('|').trim().to_owned()))
        .collect()
}

/// What a snapshot of sysfs limits that the hardware does not: clocks of each cluster, the percentages of intel_pstate, turbo, CPUs.
fn set_limits(facts: &Facts, snapshot: &[(String, String)], machine: &Machine, policy: &mut Policy) {
    let mut limits: [BTreeMap<&str, Option<u32>>; 2] = Default::default();
    for found in facts.policies.values() {
        let Some(cpu) = found.cpus.first().filter(|&&cpu| (cpu as usize) < machine.nr_cpus()) else { continue };
        let cluster = machine.cluster_of(*cpu).name.as_str();
        let driver = found.driver.as_deref().and_then(DriverId::named).map(|driver| driver.kind);
        // Where these drivers start is not the hardware's limit, and nobody set it.
        let min_starts_above = matches!(driver, Some(DriverKind::Amd(_)));
        let max_starts_below = driver == Some(DriverKind::Acpi);
        let set =
            |scaling: Option<u32>, hardware: Option<u32>| scaling.filter(|&khz| hardware.is_some_and(|at| at != khz));
        let found = [
            set(found.scaling_min_khz, found.min_khz).filter(|_| !min_starts_above),
            set(found.scaling_max_khz, found.max_khz).filter(|_| !max_starts_below),
        ];
        for (limits, khz) in limits.iter_mut().zip(found) {
            // A cluster's policies may be set apart; the policy's key has one for all.
            limits.entry(cluster).and_modify(|known| *known = known.filter(|_| *known == khz)).or_insert(khz);
        }
    }
    let by_cluster = |limits: &BTreeMap<&str, Option<u32>>| SetLimit {
        all_khz: 0,
        by_cluster: limits.iter().filter_map(|(name, khz)| Some(((*name).to_owned(), (*khz)?))).collect(),
    };
    policy.scaling_min_freq = by_cluster(&limits[0]);
    policy.scaling_max_freq = by_cluster(&limits[1]);
    let cpus = |file: &str| snapshot.iter().find(|(path, _)| path.ends_with(file)).and_then(|(_, text)| cpus_of(text));
    let on_machine = |cpus: Vec<u32>| cpus.into_iter().filter(|&cpu| (cpu as usize) < machine.nr_cpus()).collect();
    policy.isolcpus = cpus("system/cpu/isolated").map(on_machine).unwrap_or_default();
    policy.nohz_full = cpus("system/cpu/nohz_full").map(on_machine).unwrap_or_default();
    let number = |file: &str| snapshot.iter().find(|(path, _)| path.ends_with(file))?.1.parse::<u32>().ok();
    if facts.policies.values().any(|found| found.driver.as_deref().is_some_and(|name| name.starts_with("intel"))) {
        // By default it is the lowest P-state's share, rounded up (intel_pstate.c:min_perf_pct_min(), v6.12).
        let khz = facts.policies.values().find_map(|found| found.min_khz.zip(found.max_khz));
        let is_above = |&pct: &u32| khz.is_some_and(|(min, max)| pct.saturating_sub(1) * (max / 100) >= min);
        policy.min_perf_pct = number("intel_pstate/min_perf_pct").filter(is_above).unwrap_or(0).min(100);
        policy.max_perf_pct = number("intel_pstate/max_perf_pct").unwrap_or(100).clamp(1, 100);
        policy.no_turbo = number("intel_pstate/no_turbo") == Some(1);
    } else {
        policy.no_turbo = number("cpufreq/boost") == Some(0);
    }
}

/// A list of CPUs as sysfs has it: `1-3,5`.
fn cpus_of(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.trim().parse::<u32>().ok()?..=last.trim().parse::<u32>().ok()?);
    }
    Some(cpus)
}

/// Whether a kernel is one of Debian's, which name themselves.
fn is_debian(uname: &str) -> bool {
    uname.split_whitespace().any(|word| word == "Debian")
}

/// CONFIG_HZ of a kernel: Debian's, or by the ticks that its events show.
fn told_hz(uname: &str, events: &Events) -> Option<u32> {
    if is_debian(uname) {
        return Some(HZ_DEFAULT);
    }
    u32::try_from(1_000_000_000 / told_ticks(events, 0)?.period_ns.max(1)).ok()
}

/// The kernel that `uname` names, or else the newest profile that is not newer.
pub(crate) fn profile_of(uname: &str) -> Option<String> {
    if let Some(release) = uname.split_whitespace().find_map(release::parse) {
        return Some(release.profile().release_text());
    }
    let version = |name: &str| {
        let mut numbers = name.split(['.', '-', '+']).map_while(|part| part.parse::<u16>().ok());
        Some((numbers.next()?, numbers.next()?))
    };
    let kernel = uname.split_whitespace().find_map(version)?;
    let not_newer = profile_names().filter(|name| version(name).is_some_and(|known| known <= kernel));
    not_newer.max_by_key(|name| version(name)).map(String::from)
}

/// The kernel profile and CONFIG_HZ of the recording at `path`, where its snapshot, its header or, of a simulated run, the policy that
/// it states show them; else, unless `header_only`, the ticks that its events show.
///
/// # Errors
/// [`ReplayError`] if it cannot be opened.
pub fn recorded_kernel(path: &Path, header_only: bool) -> Result<(Option<String>, Option<u32>), ReplayError> {
    let files = recording_files(path)?;
    let header = files.trace.reader(&ReadOptions::default()).map(|reader| reader.meta().uname.clone());
    let uname = files.text("uname.txt").filter(|told| !told.is_empty()).or(header.ok()).unwrap_or_default();
    let kernel = profile_of(&uname);
    if header_only || kernel.is_some() && is_debian(&uname) {
        return Ok((kernel, is_debian(&uname).then_some(HZ_DEFAULT)));
    }
    // A trace without tasks shows no ticks.
    let Ok(events) = Events::of(&files.trace, files.path()) else { return Ok((kernel, None)) };
    let stated = stated_policy(&events, &mut Vec::new());
    let hz = stated.as_ref().map(|policy| policy.hz).or_else(|| told_hz(&uname, &events));
    Ok((kernel.or_else(|| stated.map(|policy| policy.kernel)), hz))
}

/// The policy of a recorded kernel before more is known of it than its `uname`. Its watchdog's wake-ups are in the recording. Debian's
/// kernels are built without CONFIG_UCLAMP_TASK.
fn recorded_policy(uname: &str) -> Policy {
    let mut policy = Policy { label: "recorded".into(), watchdog_thresh_s: 0, ..Policy::default() };
    if is_debian(uname) {
        policy.gates.push(("uclamp".to_owned(), "absent".to_owned()));
    }
    policy
}

/// The policy that a simulated run states in its trace. How its programs varied is in their recovered work.
fn stated_policy(events: &Events, notes: &mut Vec<String>) -> Option<Policy> {
    match policy_from_json("policy", events.policy.as_deref()?) {
        Ok(policy) => Some(Policy { label: "recorded".into(), variation: Variation::None, ..policy }),
        Err(error) => {
            notes.push(format!("the trace's own policy is not used, as of another version: {error}"));
            None
        }
    }
}

/// The file of a recording with the command line of its emulator.
const EMULATOR: &str = "qemu_cmdline.txt";
/// What is in it where the CPUs are interpreted, as fast at every clock.
const INTERPRETED: &str = "-accel tcg";

/// What has to be known of a recording of an emulator that is laid on a machine whose speed follows the clock.
pub(crate) fn speed_note(files: &RecordingFiles, machine: &Machine) -> Option<String> {
    let interpreted = files.text(EMULATOR)?.contains(INTERPRETED) && !machine.speed_is_constant();
    interpreted.then(|| {
        format!(
            "an emulator executed this as fast on every CPU and at every clock; {} does not: what clocks and smaller CPUs \
             cost here is the machine's, not the recording's (without --machine it is the recording's)",
            machine.name
        )
    })
}

impl Setup {
    /// A machine that is given, under the policy that `recorded` gives, and else the one that the events show: the traced kernel's
    /// profile, the period of its ticks, `schedutil` if the frequency changes and `performance` if not.
    ///
    /// # Errors
    /// [`ReplayError::Input`] if the machine or the profiles have no such driver or kernel.
    pub fn of_machine(mut machine: Machine, events: &Events, recorded: &Recorded) -> Result<Self, ReplayError> {
        let mut notes = Vec::new();
        let stated = stated_policy(events, &mut notes);
        let is_stated = stated.is_some();
        let mut policy = stated.unwrap_or_else(|| recorded_policy(&events.uname));
        match (recorded.kernel()?, profile_of(&events.uname)) {
            (Some(kernel), _) => kernel.clone_into(&mut policy.kernel),
            (None, Some(kernel)) => policy.kernel = kernel,
            (None, None) if is_stated => {}
            (None, None) => notes.push(format!(
                "the trace does not name its kernel: {} is assumed (`replay` takes --recorded-kernel)",
                policy.kernel
            )),
        }
        if !is_stated {
            policy.hz = told_hz(&events.uname, events).unwrap_or(policy.hz);
            if !events.list.iter().any(|ev| matches!(ev.what, What::Frequency { .. })) {
                policy.governor = "performance".into();
            }
        }
        match &recorded.governor {
            Some(governor) if *governor != policy.governor => {
                policy.governor.clone_from(governor);
                policy.tunables.clear();
            }
            None if !is_stated => notes.push(format!(
                "the trace does not name its governor: {} is assumed (`replay` takes --recorded-governor)",
                policy.governor
            )),
            _ => {}
        }
        let mut driver = std::mem::take(&mut policy.driver);
        driver = recorded.driver.clone().unwrap_or(driver);
        if driver.is_empty() {
            driver = driver_of(&machine, &policy).driver.name.to_owned();
        }
        drive_by(&mut machine, &driver)?;
        // It had schedutil's place, by which the driver was chosen.
        match (&recorded.governor, &events.governor) {
            (None, Some(own)) => own.clone_into(&mut policy.governor),
            (Some(governor), Some(own)) => {
                notes.push(format!("{own} decided in the recording; here {governor} has its place"));
            }
            _ => {}
        }
        if !is_stated && recorded.driver.is_none() && !machine.other_drivers.is_empty() {
            let others = machine.other_drivers.iter().map(|driver| driver.driver.entry().name);
            notes.push(format!(
                "the trace does not name its cpufreq driver: {} is assumed (`replay` takes --recorded-driver: {})",
                machine.cpufreq.driver,
                others.collect::<Vec<_>>().join(", ")
            ));
        }
        if matches!(machine.cpufreq.driver.governors, Governors::Own { .. }) {
            if PstatePolicy::named(&policy.governor).is_none() {
                notes.push(format!(
                    "{} has the governors performance and powersave, not {}: the passive mode is replayed",
                    machine.cpufreq.driver, policy.governor
                ));
            } else {
                notes.push(format!(
                    "an open loop has no firmware: it takes {}'s {} for the generic governor of that name; --mode closed \
                     and `opplab choose TRACE` have it",
                    machine.cpufreq.driver, policy.governor
                ));
            }
        } else if is_stated && machine.invariance != InvarianceSource::FreqChange {
            notes.push(
                "the trace has the clocks that the hardware granted; an open loop has no firmware and takes requests \
                 for clocks (--mode closed has it)"
                    .to_owned(),
            );
        }
        if let Some(own) = &events.placement {
            notes.push(format!(
                "{own} placed tasks in the recording; a closed loop has the kernel's placement in its place, so that \
                 its distance is between the two"
            ));
        }
        if lacks_counters(&recorded.cpuinfo) {
            without_counters(&mut machine, &mut policy);
        }
        let governor_known = is_stated || recorded.governor.is_some();
        let (start_khz, known_from_ns) = clocks_at_start(&machine, events, &recorded.sysfs);
        let switch_ns = machine.costs.context_switch_ns;
        let mut setup = Self {
            machine,
            policy,
            start_khz,
            known_from_ns,
            run_per_100k: 100_000,
            switch_ns,
            governor_known,
            wakes: Wakes::default(),
            notes,
        };
        setup.notes.extend(setup.assumed_clocks(events));
        Ok(setup)
    }

    /// The notes on clocks at the start that are assumed where they count, one a cpufreq policy.
    pub fn assumed_clocks(&self, events: &Events) -> Vec<String> {
        let mut notes = Vec::new();
        for (nth, (_, cpus)) in self.machine.policies().iter().enumerate() {
            let before = match self.known_from_ns[nth] {
                Some(from_ns) if from_ns <= window_start_ns(events.duration_ns) => continue,
                Some(from_ns) => format!(" before {}", seconds(from_ns)),
                None => String::new(),
            };
            let mhz = self.start_khz[nth] / 1_000;
            notes.push(format!(
                "the trace lacks the clock of policy{}{before}: {mhz} MHz at its start is assumed",
                cpus[0]
            ));
        }
        notes
    }

    /// The machine and policy of a recording, whose events are `events`. What `recorded` gives goes before what the snapshot holds.
    ///
    /// # Errors
    /// [`ReplayError::Input`] if there is no snapshot of sysfs or it makes no machine.
    pub fn of_recording(files: &RecordingFiles, events: &Events, recorded: &Recorded) -> Result<Self, ReplayError> {
        let text = |name: &str| files.text(name).unwrap_or_default();
        let input = |error: String| ReplayError::Input(error);
        let (snapshot, debugfs) = (text(SYSFS), text("debugfs_before.txt"));
        let beside = |name: &str| Some((files.place(name), files.text(name)?));
        let (debug, cpuinfo) = (beside("debugfs_before.txt"), beside("cpuinfo.txt"));
        fn of(pair: &Option<(String, String)>) -> Option<(&str, &str)> {
            pair.as_ref().map(|(file, text)| (file.as_str(), text.as_str()))
        }
        let place = files.place(SYSFS);
        let facts = opplab_import::import_snapshot(&files.name(), &place, &snapshot, of(&debug), of(&cpuinfo));
        let facts = facts.map_err(|error| input(error.to_string()))?;
        let mut machine = opplab_import::to_machine(&facts).map_err(|error| input(error.to_string()))?.machine;
        recorded.drive(&mut machine)?;
        let told = text("uname.txt");
        let uname = if told.is_empty() { &events.uname } else { &told };
        let mut policy = recorded_policy(uname);
        let mut notes = Vec::new();
        policy.hz = HZ_DEFAULT;
        match told_hz(uname, events) {
            Some(hz) => policy.hz = hz,
            None => notes
                .push(format!("hz {HZ_DEFAULT} is assumed, as Debian has it; neither events nor snapshots show it")),
        }
        if lines(&debugfs).iter().any(|(path, value)| path.ends_with("/sched_autogroup_enabled") && value == "1") {
            notes.push(AUTOGROUP.to_owned());
        }

        if let Some(name) = profile_of(uname) {
            policy.kernel = name;
        }
        if let Some(kernel) = recorded.kernel()? {
            policy.kernel = kernel.to_owned();
        }
        // How the emulator executes.
        let emulator = text(EMULATOR);
        machine.shared_stream =
            emulator.contains(INTERPRETED) && (emulator.contains("-icount") || emulator.contains("thread=single"));
        machine.constant_speed = emulator.contains(INTERPRETED) && !machine.shared_stream;

        let changes = events.list.iter().any(|ev| matches!(ev.what, What::Frequency { .. }));
        let snapped = facts.policies.values().find_map(|policy| policy.governor.clone());
        let snapshot = lines(&snapshot);
        let own = values(&snapshot, "scaling_governor");
        let governor_known = recorded.governor.is_some() || own.len() == 1;
        if recorded.governor.is_none() && own.len() > 1 {
            let all = own.iter().copied().collect::<Vec<_>>().join(", ");
            notes.push(format!("cpufreq policies have different governors ({all}): one is taken for all"));
        }
        match recorded.governor.clone().or(snapped) {
            Some(governor) => policy.governor = governor,
            // Nobody changes the frequency of a machine without cpufreq.
            None if !changes => policy.governor = "performance".into(),
            None => {}
        }
        policy.tunables = tunables(&policy.governor, facts.rate_limit_us, &snapshot);
        policy.energy_model = energy_model(&facts);
        let debugfs = lines(&debugfs);
        let energy_aware = debugfs.iter().find(|(path, _)| path.ends_with("sched_energy_aware"));
        policy.eas = energy_aware.is_none_or(|(_, value)| value != "0");
        set_limits(&facts, &snapshot, &machine, &mut policy);

        // Frequency switches: who makes them.
        let has_kthreads =
            events.tasks.iter().any(|task| task.name.starts_with("sugov:")) || text("threads.txt").contains("sugov:");
        if policy.governor_id().is_ok_and(|governor| governor.energy_aware) && (has_kthreads || changes) {
            machine.cpufreq.fast_switch = !has_kthreads;
        }
        if !emulator.is_empty() {
            // The emulated register is written at once.
            machine.cpufreq.switch_ns = 0;
            machine.ranges.retain(|range| range.path != "driver.switch_ns");
        }
        kthread_affinity(&text("threads.txt"), &mut machine, &mut policy);

        let has = |wanted: &str| facts.flags.iter().any(|flag| flag == wanted);
        // arch/x86/kernel/tsc.c:time_cpufreq_notifier(), v6.12: of one CPU whose TSC counts the clock, the kernel's own clock is scaled by
        // the frequency; an emulated TSC does not count it.
        if emulator.contains(INTERPRETED)
            && facts.processor.is_some()
            && machine.nr_cpus() == 1
            && !facts.flags.is_empty()
            && !has("constant_tsc")
        {
            return Err(input(format!(
                "{}: its times are not real times: the kernel scaled the clock of one CPU without constant_tsc by its \
                 frequency, which the emulator does not; record on two CPUs, or on one with constant_tsc",
                files.place("trace.dat")
            )));
        }
        if facts.processor.is_some() && !has("aperfmperf") {
            without_counters(&mut machine, &mut policy);
        }

        // Costs, from the recording itself.
        let measured = costs::measure(events, &policy);
        let switch_ns = measured.over(machine.costs).context_switch_ns;
        let measured = measured.with_logs(files, events);
        machine.costs = measured.over(machine.costs);
        machine.ranges.retain(|range| !measured.covers(range.path));
        let exit_latency_ns = measured.idle_exit_ns.unwrap_or(0);
        let takes_exit = machine.clusters.iter().any(|cluster| cluster.idle.is_empty());
        for cluster in machine.clusters.iter_mut().filter(|cluster| cluster.idle.is_empty()) {
            cluster.idle.push(IdleState {
                name: "WFI".into(),
                entry_latency_ns: 0,
                exit_latency_ns,
                wake_ns: None,
                target_residency_ns: 0,
                power_uw: 0,
            });
        }
        notes.extend(measured.texts(machine.costs, takes_exit.then_some(exit_latency_ns)));

        let (start_khz, known_from_ns) = clocks_at_start(&machine, events, &sysfs_of(files));
        let run_per_100k = rtlog::run_per_100k(&files.texts("rtlog", "log"), policy.hz);
        if let Some(run) = run_per_100k {
            notes.push(format!("rt-app's loops took {run} of 100000 parts of what was wanted"));
        }
        let run_per_100k = run_per_100k.unwrap_or(100_000);
        let wakes = measured.wakes;
        let mut setup =
            Self { machine, policy, start_khz, known_from_ns, run_per_100k, switch_ns, governor_known, wakes, notes };
        setup.notes.extend(setup.assumed_clocks(events));
        Ok(setup)
    }
}

/// What the files of a snapshot that are called `name` have, one of each cpufreq policy.
fn values<'a>(snapshot: &'a [(String, String)], name: &str) -> BTreeSet<&'a str> {
    let of = snapshot.iter().filter(|(path, _)| path.rsplit('/').next() == Some(name));
    of.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty()).collect()
}

/// What all cpufreq policies of a snapshot have in their files `name`.
pub(crate) fn common_value(snapshot: &str, name: &str) -> Option<String> {
    let snapshot = lines(snapshot);
    let own = values(&snapshot, name);
    (own.len() == 1).then(|| own.into_iter().collect())
}

/// The tunables of the recorded governor, from the snapshot of sysfs.
fn tunables(governor: &str, rate_limit_us: Option<u64>, snapshot: &[(String, String)]) -> Vec<(String, String)> {
    if GovernorId::named(governor).is_ok_and(|governor| governor.energy_aware) {
        return rate_limit_us.map(|us| ("rate_limit_us".to_owned(), us.to_string())).into_iter().collect();
    }
    let mut tunables: Vec<(String, String)> = Vec::new();
    for (path, value) in snapshot {
        let name = path.strip_prefix("/sys/devices/system/cpu/cpufreq/").and_then(|rest| {
            let (folder, name) = rest.rsplit_once('/')?;
            folder.ends_with(governor).then_some(name)
        });
        if let Some(name) = name.filter(|name| !tunables.iter().any(|(known, _)| known == name)) {
            tunables.push((name.to_owned(), value.clone()));
        }
    }
    tunables
}

/// The energy model of the recorded kernel.
fn energy_model(facts: &Facts) -> EnergyModelSource {
    let flags: Vec<u32> = facts.policies.values().filter_map(|policy| policy.em_flags).collect();
    match flags.iter().any(|flags| flags & EM_ARTIFICIAL != 0) {
        _ if flags.is_empty() => EnergyModelSource::None,
        true => EnergyModelSource::Artificial,
        false => EnergyModelSource::Registered,
    }
}

/// When the clock of these CPUs first changes in the trace, ns, and to what, kHz.
fn first_change(cpus: &[u32], events: &Events) -> Option<(u64, u32)> {
    events.list.iter().find_map(|ev| match ev.what {
        What::Frequency { cpu, freq_khz } if cpus.contains(&cpu) => Some((ev.time_ns, freq_khz)),
        _ => None,
    })
}

/// The snapshots of sysfs beside a trace, before and after it; empty where there are none.
pub(crate) fn sysfs_of(files: &RecordingFiles) -> [String; 2] {
    [SYSFS, "sysfs_after.txt"].map(|name| files.text(name).unwrap_or_default())
}

/// The clock of each cpufreq policy at the start, kHz, and from when on it is known, ns; `None`: never. `sysfs`: snapshots before and after.
///
/// An event shows the clock from then on, and before it any other one. Only before what is measured does it stand for that, too. Else a
/// clock that nothing shows is assumed ([`Setup::assumed_clocks`]): the highest operating point if it never changes, and before a late
/// change the lowest, or before one to the lowest the highest. A clock that holds for long mostly is one of the two.
fn clocks_at_start(machine: &Machine, events: &Events, sysfs: &[String; 2]) -> (Vec<u32>, Vec<Option<u64>>) {
    let [before, after] = sysfs.each_ref().map(|snapshot| lines(snapshot));
    let clock = |(cluster, cpus): (u32, Vec<u32>)| {
        let cluster = &machine.clusters[cluster as usize];
        let first = first_change(&cpus, events);
        if let Some(khz) = khz_at_start(&cpus, events, &before, &after) {
            return (khz, Some(0));
        }
        if let Some((time_ns, khz)) = first.filter(|(time_ns, _)| *time_ns <= window_start_ns(events.duration_ns)) {
            return (khz, Some(time_ns));
        }
        if let Some(khz) = machine.only_khz(cluster) {
            return (khz, Some(0));
        }
        let (lowest_khz, highest_khz) = (cluster.opps[0].khz, cluster.opps[cluster.opps.len() - 1].khz);
        let khz = if first.is_some_and(|(_, khz)| khz > lowest_khz) { lowest_khz } else { highest_khz };
        (khz, first.map(|(time_ns, _)| time_ns))
    };
    machine.policies().into_iter().map(clock).unzip()
}

/// The clock of these CPUs at the start: what the governor's own records call the current one before the first change, else the
/// snapshot's, kHz. Reading a snapshot changes clocks, and more may have before the trace began. Where the kernel's counts from the
/// snapshot to the one `after` the trace refute it, it was the one clock that they allow.
fn khz_at_start(
    cpus: &[u32],
    events: &Events,
    snapshot: &[(String, String)],
    after: &[(String, String)],
) -> Option<u32> {
    let changed = first_change(cpus, events);
    let of_records = cpus.iter().find_map(|cpu| {
        events.start_khz.get(cpu).filter(|(time, _)| changed.is_none_or(|(changed, _)| *time <= changed))
    });
    if let Some(&(_, khz)) = of_records {
        return Some(khz);
    }
    let of_snapshot: u32 = of_policy(cpus, snapshot, "scaling_cur_freq")?.parse().ok()?;
    let grown = |counts: fn(&str) -> Counts, name: &str| {
        let counts = |snapshot| of_policy(cpus, snapshot, name).map(counts).filter(|counts| !counts.is_empty());
        let (before, mut grown) = counts(snapshot).zip(counts(after))?;
        for (key, count) in &mut grown {
            *count = count.saturating_sub(before.get(key).copied().unwrap_or(0));
        }
        Some(grown)
    };
    let Some(times) = grown(time_in_state, "stats/time_in_state") else { return Some(of_snapshot) };
    let changes = grown(trans_table, "stats/trans_table");
    let told = Told::of(cpus, events);
    let allows = |khz: u32| {
        // Both ends may be in the midst of a unit.
        let counted_ns = (times.get(&(khz, 0)).copied().unwrap_or(0) + 2) * USER_TICK_NS;
        let fits = counted_ns >= told.held_ns + told.times_ns.get(&khz).copied().unwrap_or(0);
        let goes = changes.as_ref().zip(told.first_khz).is_none_or(|(changes, first_khz)| {
            let count = |counts: &Counts| counts.get(&(khz, first_khz)).copied().unwrap_or(0);
            count(changes) > count(&told.changes)
        });
        fits && goes
    };
    let mut allowed = times.keys().map(|(khz, _)| *khz).filter(|&khz| allows(khz));
    match (allows(of_snapshot), allowed.next(), allowed.next()) {
        (false, Some(only), None) => Some(only),
        _ => Some(of_snapshot),
    }
}

/// A file of these CPUs' policy in a snapshot.
fn of_policy<'a>(cpus: &[u32], snapshot: &'a [(String, String)], name: &str) -> Option<&'a str> {
    cpus.iter().find_map(|cpu| {
        let path = format!("/sys/devices/system/cpu/cpufreq/policy{cpu}/{name}");
        snapshot.iter().find(|(known, _)| *known == path).map(|(_, value)| value.as_str())
    })
}

/// By clock, or by the clocks before and after a change, kHz.
type Counts = BTreeMap<(u32, u32), u64>;

/// What a trace shows of a policy's clock.
struct Told {
    /// Until its first change, ns.
    held_ns: u64,
    /// What that led to, kHz.
    first_khz: Option<u32>,
    /// The time at each clock after it, ns.
    times_ns: BTreeMap<u32, u64>,
    /// The changes after it.
    changes: Counts,
}

impl Told {
    fn of(cpus: &[u32], events: &Events) -> Self {
        let mut told =
            Self { held_ns: events.duration_ns, first_khz: None, times_ns: BTreeMap::new(), changes: Counts::new() };
        let mut last: Option<(u32, u64)> = None;
        for ev in &events.list {
            let What::Frequency { cpu, freq_khz } = ev.what else { continue };
            // Each CPU of a policy has an event of the change.
            if !cpus.contains(&cpu) || last.is_some_and(|(khz, _)| khz == freq_khz) {
                continue;
            }
            match last {
                None => (told.held_ns, told.first_khz) = (ev.time_ns, Some(freq_khz)),
                Some((khz, since_ns)) => {
                    *told.changes.entry((khz, freq_khz)).or_default() += 1;
                    *told.times_ns.entry(khz).or_default() += ev.time_ns - since_ns;
                }
            }
            last = Some((freq_khz, ev.time_ns));
        }
        if let Some((khz, since_ns)) = last {
            *told.times_ns.entry(khz).or_default() += events.duration_ns.saturating_sub(since_ns);
        }
        told
    }
}

/// A unit of `time_in_state`, ns (USER_HZ of x86 and arm64).
const USER_TICK_NS: u64 = 10_000_000;

/// `stats/time_in_state` of a snapshot: by clock, the time in it in units of [`USER_TICK_NS`].
fn time_in_state(text: &str) -> Counts {
    let pair = |line: &str| {
        let (khz, time) = line.trim().split_once(' ')?;
        Some(((khz.parse().ok()?, 0), time.parse().ok()?))
    };
    text.split('|').filter_map(pair).collect()
}

/// `stats/trans_table` of a snapshot: a line of the clocks that are changed to, then one for each that was left.
fn trans_table(text: &str) -> Counts {
    let mut lines = text.split('|').skip(1).filter_map(|line| line.split_once(':'));
    let to: Vec<u32> = lines.next().map_or("", |(_, to)| to).split_whitespace().flat_map(str::parse).collect();
    let mut counts = Counts::new();
    for (from, row) in lines {
        let Ok(from) = from.trim().parse() else { continue };
        let row = row.split_whitespace().flat_map(str::parse);
        counts.extend(to.iter().zip(row).map(|(&to, count)| ((from, to), count)));
    }
    counts
}

/// `threads.txt`: where the governor's kthreads may run, if that is not their own policy's CPUs.
fn kthread_affinity(threads: &str, machine: &mut Machine, policy: &mut Policy) {
    let mut lists: Vec<(u32, Vec<u32>)> = Vec::new();
    for line in threads.lines() {
        let mut words = line.split_whitespace().skip_while(|word| !word.starts_with("sugov:"));
        let cpu = words.next().and_then(|name| name.strip_prefix("sugov:")).and_then(|cpu| cpu.parse().ok());
        let list = words.nth(1).map(cpu_list);
        if let (Some(cpu), Some(list)) = (cpu, list) {
            lists.push((cpu, list));
        }
    }
    let own = |cpu: u32| machine.policies().into_iter().find(|(_, cpus)| cpus.contains(&cpu)).map(|(_, cpus)| cpus);
    let foreign = lists.iter().filter(|(cpu, list)| own(*cpu).is_some_and(|cpus| cpus != *list)).count();
    if foreign > 0 && foreign == lists.len() && lists.windows(2).all(|pair| pair[0].1 == pair[1].1) {
        policy.sugov_cpus = lists[0].1.clone();
        // Whatever its version: this kernel let them go.
        policy.gates.push(("sugov_affinity".to_owned(), "free".to_owned()));
        machine.cpufreq.dvfs_possible_from_any_cpu = true;
    } else if foreign > 0 {
        machine.cpufreq.dvfs_possible_from_any_cpu = true;
    }
}

/// "0,3-5" as numbers.
fn cpu_list(text: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>())
            && last < 4096
        {
            cpus.extend(first..=last);
        }
    }
    cpus
}

/// Whether clocks are what the governor asks for, as `cpu_frequency` shows them where the driver has no table. A driver's own
/// governors ask for a range, in which the firmware chooses.
pub(crate) fn shows_requests(machine: &Machine, policy: &Policy) -> bool {
    let driver = machine.driver(&policy.driver).unwrap_or(&machine.cpufreq);
    let by_firmware =
        matches!(driver.driver.governors, Governors::Own { .. }) && PstatePolicy::named(&policy.governor).is_some();
    !driver.freq_table && !by_firmware
}

#[cfg(test)]
mod tests {
    use opplab_import::SourceKind;
    use opplab_import::facts::PolicyFacts;
    use opplab_kernel::profile::Uclamp;

    use super::*;
    use crate::events::{Context, Ev};

    /// A kernel that let schedutil's threads go is one that lets them, whatever its version.
    #[test]
    fn threads_of_another_policys_cpus_need_no_later_kernel() {
        let (mut machine, mut policy) = (crate::tests::juno(), Policy::default());
        let threads = "71 sugov:0 Cpus_allowed_list: 2\n72 sugov:1 Cpus_allowed_list: 2\n";
        kthread_affinity(threads, &mut machine, &mut policy);
        assert_eq!(policy.sugov_cpus, [2]);
        policy.check_on(&machine, Default::default()).unwrap_or_else(|error| panic!("{error:?}"));
        policy.gates.clear();
        assert!(policy.check_on(&machine, Default::default()).is_err());
    }

    /// What is set in a snapshot is the policy's, and the hardware's own limits are not.
    #[test]
    fn limits_of_a_snapshot_are_the_policys() {
        let machine = crate::tests::juno();
        let found = |cpu: u32, limits: [u32; 4], driver: &str| {
            let [min_khz, max_khz, scaling_min_khz, scaling_max_khz] = limits.map(Some);
            let driver = Some(driver.to_owned());
            let cpus = vec![cpu];
            PolicyFacts { cpus, driver, min_khz, max_khz, scaling_min_khz, scaling_max_khz, ..Default::default() }
        };
        let read = |policies: Vec<PolicyFacts>, snapshot: &[(&str, &str)]| {
            let policies = policies.into_iter().map(|found| (found.cpus[0], found)).collect();
            let facts = Facts { policies, ..Facts::new("juno", SourceKind::Snapshot, "") };
            let snapshot: Vec<_> =
                snapshot.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect();
            let mut policy = Policy::default();
            set_limits(&facts, &snapshot, &machine, &mut policy);
            policy
        };
        let limits = [400_000, 2_000_000, 400_000, 1_200_000];
        let policy =
            read(vec![found(0, limits, "scmi"), found(1, [400_000, 3_000_000, 800_000, 3_000_000], "scmi")], &[]);
        let name = |cpu| machine.cluster_of(cpu).name.clone();
        assert_eq!(policy.scaling_max_freq.by_cluster, [(name(0), 1_200_000)]);
        assert_eq!(policy.scaling_min_freq.by_cluster, [(name(1), 800_000)]);
        assert!(!policy.no_turbo && policy.max_perf_pct == 100);
        // Two policies of a cluster that are set apart.
        let apart = read(vec![found(0, limits, "x"), found(3, [400_000, 2_000_000, 400_000, 900_000], "x")], &[]);
        assert_eq!(apart.scaling_max_freq, SetLimit::default());
        // acpi-cpufreq starts at P0, below a boost that it knows.
        assert_eq!(read(vec![found(0, limits, "acpi-cpufreq")], &[]).scaling_max_freq, SetLimit::default());
        let file = |name: &str| format!("/sys/devices/system/cpu/intel_pstate/{name}");
        let intel = |min: &str| {
            let snapshot = [(file("no_turbo"), "1"), (file("max_perf_pct"), "80"), (file("min_perf_pct"), min)];
            let snapshot: Vec<(&str, &str)> = snapshot.iter().map(|(path, value)| (path.as_str(), *value)).collect();
            read(vec![found(0, [800_000, 4_000_000, 800_000, 4_000_000], "intel_pstate")], &snapshot)
        };
        let policy = intel("20");
        assert!(policy.no_turbo && policy.max_perf_pct == 80 && policy.min_perf_pct == 0);
        assert_eq!(intel("50").min_perf_pct, 50);
        let boot = [("/sys/devices/system/cpu/isolated", "2-3"), ("/sys/devices/system/cpu/nohz_full", "1,3-4")];
        let policy = read(vec![], &boot);
        assert_eq!((policy.isolcpus, policy.nohz_full), (vec![2, 3], vec![1, 3, 4]));
        assert!(read(vec![], &[("/sys/devices/system/cpu/nohz_full", "(null)")]).nohz_full.is_empty());
        assert!(
            read(vec![found(0, limits, "cppc_cpufreq")], &[("/sys/devices/system/cpu/cpufreq/boost", "0")]).no_turbo
        );
    }

    /// A snapshot is read by a CPU that changes its clock for that; the kernel's own counts refute it.
    #[test]
    fn a_stale_clock_of_a_snapshot_is_refuted_by_time_in_state() {
        let change = |time_ns: u64, freq_khz: u32| {
            let what = What::Frequency { cpu: 0, freq_khz };
            Ev { time_ns, cpu: 0, current: 1, context: Context::Task, what }
        };
        let list = vec![change(500_000_000, 2_000_000), change(600_000_000, 1_000_000)];
        let events = Events { list, duration_ns: 1_000_000_000, ..Events::default() };
        let folder = "/sys/devices/system/cpu/cpufreq/policy0";
        let snapshot = |khz: u32, times: &str, changes: &str| {
            lines(&format!(
                "{folder}/scaling_cur_freq: {khz}|\n{folder}/stats/time_in_state: {times}|\n{folder}/stats/trans_table: {changes}\n"
            ))
        };
        let found = |khz: u32, before: [&str; 2], after: [&str; 2]| {
            let after = snapshot(1_000_000, after[0], after[1]);
            khz_at_start(&[0], &events, &snapshot(khz, before[0], before[1]), &after)
        };
        let began = "3000000 7|2000000 0|1000000 9";
        let times = |khz: u32, after: &str| found(khz, [began, ""], [after, ""]);
        // Until 0.5 s; of the snapshot's 1 GHz there were 0.4 s only, and those were later.
        assert_eq!(times(1_000_000, "3000000 57|2000000 10|1000000 49"), Some(3_000_000));
        // Both are possible, or none is: the snapshot's.
        assert_eq!(times(1_000_000, "3000000 57|2000000 10|1000000 99"), Some(1_000_000));
        assert_eq!(times(1_000_000, "3000000 8|2000000 10|1000000 10"), Some(1_000_000));
        // The time at 2 GHz after the change is not that before it.
        assert_eq!(times(2_000_000, "3000000 57|2000000 55|1000000 49"), Some(3_000_000));
        // By the times both, by the changes to 2 GHz 3 GHz only.
        let table = |row: &str| {
            format!(
                "   From  :    To|         :   3000000   2000000   1000000 |{row}  1000000:         9         4         0 |"
            )
        };
        let [began_changes, after_changes] = ["  3000000:   0 1 0 |", "  3000000:   0 2 5 |"].map(table);
        let after = "3000000 57|2000000 10|1000000 99";
        assert_eq!(found(1_000_000, [began, &began_changes], [after, &after_changes]), Some(3_000_000));
        let unknown = lines(&format!("{folder}/scaling_cur_freq: 1000000|"));
        assert_eq!(khz_at_start(&[0], &events, &unknown, &[]), Some(1_000_000));
    }

    /// Goal: a first event shows its clock from then on, and not before, unless nothing is measured there. Method: Junos of 1 s.
    #[test]
    fn a_first_change_shows_no_clock_before_it() {
        let machine = crate::tests::juno();
        let (low, high) = (machine.cluster_of(1).opps[0].khz, machine.cluster_of(1).reference_khz());
        let at_start = |first: Option<(u64, u32)>, record: Option<(u64, u32)>, snapshot: &str| {
            let change = |(time_ns, freq_khz)| {
                let what = What::Frequency { cpu: 2, freq_khz };
                Ev { time_ns, cpu: 0, current: 1, context: Context::Task, what }
            };
            let list = first.map(change).into_iter().collect();
            let start_khz = record.map(|told| (1, told)).into_iter().collect();
            let events = Events { list, duration_ns: 1_000_000_000, start_khz, ..Events::default() };
            let recorded = Recorded { sysfs: [snapshot.to_owned(), String::new()], ..Recorded::default() };
            let made = Setup::of_machine(machine.clone(), &events, &recorded);
            let made = made.unwrap_or_else(|error| panic!("{error}"));
            let notes = made.notes.iter().filter(|note| note.contains("the clock of policy1"));
            let khz = made.start_khz[1];
            let right = notes.filter(|note| note.contains(&format!(": {} MHz at its start is assumed", khz / 1_000)));
            (khz, made.known_from_ns[1], right.count())
        };
        assert_eq!(at_start(Some((200_000_000, high)), None, ""), (high, Some(200_000_000), 0));
        assert_eq!(at_start(Some((200_000_001, high)), None, ""), (low, Some(200_000_001), 1));
        assert_eq!(at_start(Some((500_000_000, low)), None, ""), (high, Some(500_000_000), 1));
        assert_eq!(at_start(None, None, ""), (high, None, 1));
        // A record of before it, or a snapshot, shows the clock since the start.
        assert_eq!(at_start(Some((500_000_000, high)), Some((400_000_000, 7)), ""), (7, Some(0), 0));
        assert_eq!(at_start(Some((500_000_000, high)), Some((600_000_000, 7)), "").1, Some(500_000_000));
        let snapshot = "/sys/devices/system/cpu/cpufreq/policy1/scaling_cur_freq: 9|";
        assert_eq!(at_start(Some((500_000_000, high)), None, snapshot), (9, Some(0), 0));
        assert_eq!(at_start(None, None, snapshot), (9, Some(0), 0));
    }

    /// Goal: where a recorded kernel's real-time tasks run is decided by what it was built with, where it names itself.
    #[test]
    fn a_recorded_kernel_of_debian_has_no_clamps() {
        let clamps = |uname: &str| {
            let events = Events { uname: uname.into(), ..Events::default() };
            let made = Setup::of_machine(crate::tests::juno(), &events, &Recorded::default());
            let policy = made.unwrap_or_else(|error| panic!("{error}")).policy;
            policy.profile().unwrap_or_else(|error| panic!("{error:?}")).uclamp
        };
        let debian = "Linux x 6.12.117+deb12-arm64 #1 SMP Debian 6.12.117-1~deb12u1 (2026-11-14) aarch64 GNU/Linux";
        assert_eq!(clamps(debian), Uclamp::Absent);
        assert_eq!(clamps("Linux localhost 6.12.117-android16 #1 SMP PREEMPT aarch64"), Uclamp::Present);
    }

    #[test]
    fn the_profile_is_the_recorded_release() {
        let check = |uname, profile: Option<&str>| assert_eq!(profile_of(uname).as_deref(), profile, "{uname}");
        check("Linux (none) 6.12.117+deb12-amd64 #1 SMP", Some("6.12.117"));
        check("Linux x 6.1.0-56-amd64", Some("6.1.192"));
        check("Linux x 6.6.88-1-lts", Some("6.6.88"));
        check("Linux x 9.9.1", Some("7.3"));
        check("Linux x 2.6.32", None);
        check("", None);
    }
}
