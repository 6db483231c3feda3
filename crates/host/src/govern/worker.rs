//! The worker: looks, decides, sets, logs; and restores if it ends or is left alone.

use std::fs::File;
use std::io::{BufWriter, Read as _, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use opplab_import::fmax::{FmaxInput, fmax};
use opplab_import::{import, to_machine};
use opplab_kernel::cpufreq::freq_table::FreqLimits;
use opplab_kernel::cpufreq::governors::GovernorId;
use opplab_kernel::profile::{KernelProfile, Platform};
use opplab_kernel::unit::tick_nsec;
use opplab_model::tree::{Node, to_json};

use super::decide::{Governor, Input, Setup, decision_json};
use super::sense::{Clock, Senses, Source};
use super::state::Saved;
use super::supervise::finish;
use super::{Options, Via};
use crate::clock::{self, Moment, Stop};
use crate::command::nearest;
use crate::error::HostError;
use crate::json::{optional, table};
use crate::root::{CPU, Root};
use crate::show;
use crate::shown::Shown;

/// HZ of kernels whose configuration cannot be read: upstream's default.
const HZ_DEFAULT: u64 = 250;

struct Policy {
    setup: Setup,
    governor: Governor,
    via: Via,
    folder: String,
    /// How often somebody else has put another governor in the place of `userspace`.
    n_taken: u64,
    /// Looks that gave no reading.
    n_unread: u64,
    /// Decisions.
    n_decided: u64,
}

impl Policy {
    fn number(&self, root: &Root, name: &str) -> Option<u32> {
        root.number(&format!("{}/{name}", self.folder)).and_then(|number| u32::try_from(number).ok())
    }

    /// The frequency in force. Under `userspace` that is what was asked for last; hardware may show another.
    fn cur_khz(&self, root: &Root) -> Option<u32> {
        self.number(root, "scaling_cur_freq")
    }

    /// The governor that somebody else has put in the place of `userspace`, if this policy needs that one.
    fn taken_by(&self, root: &Root) -> Option<String> {
        let name = root.text(&format!("{}/scaling_governor", self.folder)).ok()?;
        (self.via == Via::Setspeed && name != "userspace").then_some(name)
    }

    /// Carries a decision out.
    fn set(&self, root: &Root, khz: u32) -> Result<(), HostError> {
        let write = |name: &str| root.write(&format!("{}/{name}", self.folder), &khz.to_string());
        match self.via {
            Via::Setspeed => write("scaling_setspeed"),
            // Upwards the maximum moves first, downwards the minimum, so that they never cross.
            Via::Limits if self.number(root, "scaling_max_freq").is_some_and(|max| khz > max) => {
                write("scaling_max_freq")?;
                write("scaling_min_freq")
            }
            Via::Limits => {
                write("scaling_min_freq")?;
                write("scaling_max_freq")
            }
        }
    }
}

/// HZ of the host's kernel, from its configuration in /boot.
fn hz(root: &Root) -> u64 {
    let release = root.text("/proc/sys/kernel/osrelease").unwrap_or_default();
    let config = root.raw(&format!("/boot/config-{release}")).unwrap_or_default();
    let line = config.lines().find_map(|line| line.strip_prefix("CONFIG_HZ=")).and_then(|hz| hz.parse().ok());
    line.unwrap_or(HZ_DEFAULT)
}

/// What makes utilisation invariant; found out once, as it takes many files.
enum Reference {
    /// This frequency in kHz.
    Khz(u32),
    /// Each policy's highest frequency.
    PolicyMax,
    /// The kernel's own signal, as invariant as the kernel is.
    Kernel {
        /// Whether it is.
        invariant: bool,
    },
}

impl Reference {
    fn of(root: &Root, options: &Options, source: Source) -> Result<Self, HostError> {
        if let Some(Ok(khz)) = options.f_max.as_ref().map(|name| name.parse::<u32>()) {
            return Ok(Self::Khz(khz));
        }
        if source == Source::SchedDebug && options.f_max.is_none() {
            let report = show::report(root, &options.root);
            let invariant = report.verdicts.first().and_then(|verdict| verdict.holds) == Some(true);
            return Ok(Self::Kernel { invariant });
        }
        let report = import(&options.root).ok().and_then(|facts| {
            let imported = to_machine(&facts).ok()?;
            let input = FmaxInput::of_facts(&facts, &imported);
            Some((fmax(&input, None), input.processor.is_some()))
        });
        if let Some(name) = &options.f_max {
            let candidates = report.map(|(report, _)| report.candidates).unwrap_or_default();
            if let Some(candidate) = candidates.iter().find(|candidate| candidate.name == *name) {
                return Ok(Self::Khz(candidate.khz));
            }
            let names: Vec<&str> = candidates.iter().map(|candidate| candidate.name.as_str()).collect();
            return Err(HostError::Usage(format!(
                "--f-max: no candidate `{name}` on this host (there are: {}; or give kHz)",
                if names.is_empty() { "none".to_owned() } else { names.join(", ") }
            )));
        }
        // Elsewhere than on x86 drivers give the scale relative to their policy's highest frequency.
        let taken = report.filter(|(_, is_x86)| *is_x86);
        Ok(taken.and_then(|(report, _)| report.kernels.last()?.khz).map_or(Self::PolicyMax, Self::Khz))
    }

    /// The reference in kHz (0: none) of a policy, and whether its utilisation is invariant.
    fn of_policy(&self, max_khz: u32) -> (u32, bool) {
        match *self {
            Self::Khz(khz) => (khz, true),
            Self::PolicyMax => (max_khz, true),
            Self::Kernel { invariant } => (0, invariant),
        }
    }
}

fn open_policy(
    root: &Root,
    options: &Options,
    id: u32,
    (source, reference): (Source, &Reference),
    online: &[u32],
) -> Result<Policy, HostError> {
    let folder = format!("{CPU}/cpufreq/policy{id}");
    let need = |name: &str| -> Result<u32, HostError> {
        let number = root.number(&format!("{folder}/{name}")).and_then(|number| u32::try_from(number).ok());
        number.ok_or_else(|| HostError::Lacking(format!("{folder}/{name}: no number to read")))
    };
    let mut cpus = root.cpus(&format!("{folder}/affected_cpus")).unwrap_or_else(|| vec![id]);
    cpus.retain(|cpu| online.contains(cpu));
    if cpus.is_empty() {
        return Err(HostError::Lacking(format!("policy{id} has no CPU online")));
    }
    let governors = root.text(&format!("{folder}/scaling_available_governors")).unwrap_or_default();
    let via = match options.via {
        Some(via) => via,
        None if governors.split_whitespace().any(|name| name == "userspace") => Via::Setspeed,
        None => Via::Limits,
    };
    if let Some(epp) = &options.epp {
        check_epp(root, &folder, epp)?;
    }
    let table_khz: Vec<u32> = root
        .text(&format!("{folder}/scaling_available_frequencies"))
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let cpuinfo = FreqLimits { min_khz: need("cpuinfo_min_freq")?, max_khz: need("cpuinfo_max_freq")? };
    let limits = FreqLimits { min_khz: need("scaling_min_freq")?, max_khz: need("scaling_max_freq")? };
    let latency_ns = root.number(&format!("{folder}/cpuinfo_transition_latency")).unwrap_or(0);
    let latency_ns = u32::try_from(latency_ns).unwrap_or(0);
    let profile = KernelProfile::named(&options.kernel)
        .ok_or_else(|| HostError::Usage(format!("--kernel: no profile `{}`", options.kernel)))?;
    let rate_limit_us = options.rate_limit_us.unwrap_or_else(|| {
        let live = [format!("{folder}/schedutil/rate_limit_us"), format!("{CPU}/cpufreq/schedutil/rate_limit_us")];
        let live = live.iter().find_map(|path| root.number(path)).and_then(|us| u32::try_from(us).ok());
        live.unwrap_or_else(|| profile.rate_limit_us(0, latency_ns))
    });
    let (freq_ref_khz, freq_invariant) = reference.of_policy(cpuinfo.max_khz);
    let mut tunables = options.tunables.clone();
    // cpufreq_ondemand.c:should_io_be_busy(), v6.12; a tunable of the setup, so that the log has it.
    let is_intel = show::cpuinfo(root, "vendor_id").as_deref().and_then(Platform::of_vendor) == Some(Platform::Intel);
    let governor = GovernorId::named(&options.governor).map_err(|error| HostError::Usage(error.to_string()))?;
    let has_tunable = governor.tunables_of(&profile).any(|tunable| tunable.name == "io_is_busy");
    if is_intel && has_tunable && !tunables.iter().any(|(name, _)| name == "io_is_busy") {
        tunables.push(("io_is_busy".to_owned(), "1".to_owned()));
    }
    let setup = Setup {
        governor,
        tunables,
        policy: id,
        cpus,
        cpuinfo,
        limits,
        table_khz,
        rate_limit_us,
        // Shorter than a tick of /proc/stat would see nothing.
        sampling_rate_us: (options.interval_ns / 1000).clamp(20_000, 1_000_000) as u32,
        tick_ns: tick_nsec(hz(root)),
        kernel: options.kernel.clone(),
        freq_ref_khz,
        freq_invariant,
        source: source.name().to_owned(),
        via: via.name().to_owned(),
        cur_khz: need("scaling_cur_freq")?,
        times: Vec::new(),
    };
    let governor = Governor::new(&setup).map_err(HostError::Usage)?;
    Ok(Policy { setup, governor, via, folder, n_taken: 0, n_unread: 0, n_decided: 0 })
}

/// The largest preference that the hardware has; larger numbers do not fit its register.
const EPP_MAX: u64 = 255;

/// Checks the wanted preference against what the policy offers.
fn check_epp(root: &Root, folder: &str, epp: &str) -> Result<(), HostError> {
    let file = format!("{folder}/energy_performance_preference");
    if root.text(&file).is_err() {
        return Err(HostError::Lacking(format!("--epp: {folder} has no energy_performance_preference")));
    }
    if let Ok(number) = epp.parse::<u64>() {
        if number > EPP_MAX {
            return Err(HostError::Usage(format!("--epp: `{epp}` is not 0 to {EPP_MAX}")));
        }
        return Ok(());
    }
    let offered = root.text(&format!("{folder}/energy_performance_available_preferences")).unwrap_or_default();
    let names: Vec<&str> = offered.split_whitespace().collect();
    if names.is_empty() || names.contains(&epp) {
        return Ok(());
    }
    let near = nearest(epp, names.iter().copied());
    Err(HostError::Usage(format!("--epp: `{epp}` is none of {}{near}", names.join(", "))))
}

/// Raises its flag when the other end of standard input closes: the supervisor is gone.
fn watch_supervisor() -> Arc<AtomicBool> {
    let gone = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&gone);
    std::thread::spawn(move || {
        let mut byte = [0u8];
        while !matches!(std::io::stdin().read(&mut byte), Ok(0) | Err(_)) {}
        flag.store(true, Ordering::Relaxed);
    });
    gone
}

/// Runs the worker. Standard input ends when the supervisor does; standard output takes a byte a round.
///
/// # Errors
/// What the host lacks or refused; everything is restored before.
pub fn work(options: &Options) -> Result<(), HostError> {
    let gone = watch_supervisor();
    let stop = Stop::on_signals()?;
    let root = Root::open(&options.root)?;
    let saved = Saved::read(&options.places.state)?;
    let result = govern(options, &root, &stop, &gone);
    if let Some(saved) = saved
        && !options.dry_run
    {
        // The supervisor looks again and reports what is not as it was; unless it is gone, and the file not a newer run's.
        let is_ours = || matches!(Saved::read(&options.places.state), Ok(Some(now)) if now.pid == saved.pid);
        if gone.load(Ordering::Relaxed) && is_ours() {
            finish(&root, &options.places, &saved)?;
        } else {
            saved.restore(&root);
        }
    }
    result
}

fn govern(options: &Options, root: &Root, stop: &Stop, gone: &AtomicBool) -> Result<(), HostError> {
    let online = root.online();
    let ids = if options.policies.is_empty() { root.policies() } else { options.policies.clone() };
    let source = options.source.unwrap_or_else(|| Source::best(root, online.first().copied().unwrap_or(0)));
    let reference = Reference::of(root, options, source)?;
    let mut policies = Vec::new();
    for id in ids {
        // Of those that nobody asked for by number, the ones whose CPUs are all offline are left alone.
        let is_offline =
            || root.cpus(&format!("{CPU}/cpufreq/policy{id}/affected_cpus")).is_none_or(|cpus| cpus.is_empty());
        if options.policies.is_empty() && is_offline() && !online.contains(&id) {
            note(&format!("policy{id} has no CPU online and is not governed"));
            continue;
        }
        policies.push(open_policy(root, options, id, (source, &reference), &online)?);
    }
    if policies.is_empty() {
        return Err(HostError::Lacking("no policy has a CPU online".to_owned()));
    }
    let all_cpus: Vec<u32> = policies.iter().flat_map(|policy| policy.setup.cpus.iter().copied()).collect();
    let mut last = Moment::now();
    let mut senses = Senses::open(root, source, &all_cpus, last)?;
    let mut log = match &options.log {
        Some(path) => {
            let file = File::create(path).map_err(|error| HostError::io(path.display().to_string(), error))?;
            Some(BufWriter::new(file))
        }
        None => None,
    };
    let mut write_log = |line: String| -> Result<(), HostError> {
        let Some(log) = &mut log else { return Ok(()) };
        // Whole lines reach the file, so that a killed worker leaves all its decisions.
        let write = writeln!(log, "{line}").and_then(|()| log.flush());
        write.map_err(|error| HostError::io("log", error))
    };
    for policy in &mut policies {
        policy.setup.times = senses.times(&policy.setup.cpus);
        policy.governor = Governor::new(&policy.setup).map_err(HostError::Usage)?;
        write_log(policy.setup.json())?;
        if options.dry_run {
            continue;
        }
        if policy.via == Via::Setspeed {
            root.write(&format!("{}/scaling_governor", policy.folder), "userspace")?;
        }
        if let Some(epp) = &options.epp {
            root.write(&format!("{}/energy_performance_preference", policy.folder), epp)?;
        }
    }
    let start_ns = clock::monotonic_ns();
    let mut next_ns = start_ns;
    let mut heartbeat = std::io::stdout();
    loop {
        next_ns += options.interval_ns;
        let over = options.for_ns.is_some_and(|for_ns| next_ns > start_ns + for_ns);
        if over || gone.load(Ordering::Relaxed) || !stop.sleep_until(next_ns) || gone.load(Ordering::Relaxed) {
            return end(&policies);
        }
        // A supervisor that is gone shows at standard input.
        let _ = heartbeat.write_all(b".").and_then(|()| heartbeat.flush());
        let now = Moment::now();
        let now_ns = now.time_ns;
        next_ns = next_ns.max(now_ns.saturating_sub(options.interval_ns));
        if let Some(slept_ns) = now.slept_since(&last) {
            write_log(beside_json("note", now_ns, None, &format!("the machine slept {:.1} s", slept_ns as f64 / 1e9)))?;
        }
        last = now;
        let frequencies: Vec<(u32, Option<Clock>)> = policies
            .iter()
            .flat_map(|policy| {
                let ref_khz = policy.setup.freq_ref_khz;
                let clock = policy.cur_khz(root).map(|cur_khz| Clock { cur_khz, ref_khz });
                policy.setup.cpus.iter().map(move |&cpu| (cpu, clock))
            })
            .collect();
        let clock = |cpu: u32| frequencies.iter().find(|(known, _)| *known == cpu).and_then(|(_, clock)| *clock);
        senses.look(root, now, &clock);
        for policy in &mut policies {
            let unread = match senses.unread(&policy.setup.cpus) {
                Some(what) => Some(what.to_owned()),
                None => decide(options, root, policy, &senses, now_ns, &mut write_log)?,
            };
            let Some(what) = unread else { continue };
            let words =
                format!("no reading for policy{}: {what} cannot be read; nothing is decided", policy.setup.policy);
            policy.n_unread += 1;
            if policy.n_unread == 1 {
                note(&words);
            }
            write_log(beside_json("unread", now_ns, Some(policy.setup.policy), &words))?;
        }
    }
}

/// Reports what is left to report at the end of a run.
///
/// # Errors
/// If nothing was decided for want of readings.
fn end(policies: &[Policy]) -> Result<(), HostError> {
    for policy in policies {
        let id = policy.setup.policy;
        if policy.n_taken > 1 {
            note(&format!("policy{id} was taken back {} times", policy.n_taken));
        }
        if policy.n_unread > 1 {
            note(&format!("no reading for policy{id} at {} looks", policy.n_unread));
        }
    }
    match policies.iter().find(|policy| policy.n_unread > 0 && policy.n_decided == 0) {
        Some(policy) => {
            Err(HostError::Lacking(format!("policy{}: nothing was decided for want of readings", policy.setup.policy)))
        }
        None => Ok(()),
    }
}

/// Decides for a policy's CPUs and carries it out. Gives what could not be read, if nothing is decided for that.
fn decide(
    options: &Options,
    root: &Root,
    policy: &mut Policy,
    senses: &Senses,
    now_ns: u64,
    write_log: &mut dyn FnMut(String) -> Result<(), HostError>,
) -> Result<Option<String>, HostError> {
    if let Some(name) = policy.taken_by(root).filter(|_| !options.dry_run) {
        policy.n_taken += 1;
        let words =
            format!("policy{} was given to governor {name} from outside and is taken back", policy.setup.policy);
        if policy.n_taken == 1 {
            note(&words);
        }
        write_log(beside_json("note", now_ns, Some(policy.setup.policy), &words))?;
        match root.write(&format!("{}/scaling_governor", policy.folder), "userspace") {
            // Its CPUs went offline meanwhile.
            Err(_) if policy.cur_khz(root).is_none() => return Ok(None),
            done => done?,
        }
    }
    let facts = senses.facts(&policy.setup.cpus);
    let times = senses.times(&policy.setup.cpus);
    // Each CPU reports, as each runs the scheduler.
    for cpu in 0..policy.setup.cpus.len() {
        // Under `limits` the present ones are our own request.
        let own = (policy.via == Via::Limits).then_some(policy.setup.limits);
        let read = |name: &str| policy.number(root, name).ok_or_else(|| format!("{}/{name}", policy.folder));
        let all = read("scaling_cur_freq").and_then(|cur_khz| {
            let limits = match own {
                Some(own) => own,
                None => FreqLimits { min_khz: read("scaling_min_freq")?, max_khz: read("scaling_max_freq")? },
            };
            Ok((cur_khz, limits))
        });
        let (cur_khz, limits) = match all {
            Ok((_, limits)) if limits.min_khz > limits.max_khz => {
                return Ok(Some(format!("{}: a minimum above the maximum", policy.folder)));
            }
            Ok(all) => all,
            // The policy's CPUs went offline; it may come back.
            Err(_) if !policy.setup.cpus.iter().any(|cpu| root.online().contains(cpu)) => return Ok(None),
            Err(what) => return Ok(Some(what)),
        };
        let input = Input { time_ns: now_ns, cpu, cur_khz, limits, facts: facts.clone(), times: times.clone() };
        let output = policy.governor.decide(&input);
        policy.n_decided += 1;
        write_log(decision_json(policy.setup.policy, &input, &output))?;
        if let Some(khz) = output.request_khz
            && !options.dry_run
        {
            match policy.set(root, khz) {
                // Its CPUs went offline meanwhile, or it was taken: the next look sees to it.
                Err(_) if policy.cur_khz(root).is_none() || policy.taken_by(root).is_some() => return Ok(None),
                done => done?,
            }
        }
    }
    Ok(None)
}

/// Informs the user.
fn note(words: &str) {
    // Nobody may be there to read it.
    let _ = writeln!(Shown(&mut std::io::stderr()), "note: {words}");
}

/// A line of the log beside the decisions.
fn beside_json(kind: &str, time_ns: u64, policy: Option<u32>, words: &str) -> String {
    to_json(&table([
        ("type", Node::str(kind)),
        ("time_ns", Node::from(time_ns)),
        ("policy", optional(policy)),
        ("text", Node::str(words)),
    ]))
}
