//! One policy's governor: plain facts in, a frequency out, and both as a line of JSON.
//!
//! [`Governor::decide`] is pure: from the log's first line and the inputs of each further line every decision can be
//! computed anew, and [`verify`] does so. The algorithms are crate `kernel`'s. Not here: where facts come from, and
//! carrying a decision out.

use std::collections::BTreeMap;

use opplab_kernel::cpufreq::facts::CpuTimes;
use opplab_kernel::cpufreq::facts::Request;
use opplab_kernel::cpufreq::facts::{CpuFacts, PolicyFacts, RqFacts};
use opplab_kernel::cpufreq::freq_table::{FreqLimits, FreqTable};
use opplab_kernel::cpufreq::governor::{self as kernel, Collected, GovernorSetup, Report, Worker};
use opplab_kernel::cpufreq::governors::GovernorId;
use opplab_kernel::profile::KernelProfile;
use opplab_kernel::profile::SugovUtil;
use opplab_model::cpus::format_cpu_list;
use opplab_model::decision::words::{Names, mhz, words};
use opplab_model::decision::{Decision, FreqContext, NO_CPU, NONE, number_of, phrase, word};
use opplab_model::tree::{Node, to_json};

use crate::error::HostError;
use crate::json::{Field, Line, line_struct, numbers, parse_line, table, whole_lines};

line_struct! {
    /// Everything that a governor is started with.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Setup {
        /// One of the kernel's governors.
        governor: GovernorId,
        /// Its tunables by sysfs name that the user chose.
        tunables: Vec<(String, String)>,
        /// The policy's number.
        policy: u32,
        /// Its CPUs that are online.
        cpus: Vec<u32>,
        /// The hardware's limits.
        cpuinfo ["cpuinfo_khz"]: FreqLimits,
        /// The policy's limits.
        limits ["limits_khz"]: FreqLimits,
        /// The driver's table in kHz; empty if it has none.
        table_khz: Vec<u32>,
        /// schedutil's rate limit.
        rate_limit_us: u32,
        /// Time between samples of ondemand and conservative.
        sampling_rate_us: u32,
        /// Length of a tick of the host's kernel.
        tick_ns: u64,
        /// The kernel profile whose governor this is.
        kernel: String,
        /// `arch_scale_freq_ref()` or the chosen f_max; 0: none.
        freq_ref_khz: u32,
        /// Whether the utilisation is frequency invariant.
        freq_invariant: bool,
        /// Where utilisation comes from.
        source: String,
        /// How frequencies are set.
        via: String,
        /// The frequency at the start.
        cur_khz: u32,
        /// Each CPU's times at the start.
        times: Vec<CpuTimes>,
    }
}

line_struct! {
    /// What is known when a CPU reports.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Input {
        /// Monotonic time.
        time_ns: u64,
        /// Index in the policy of the CPU that reports.
        cpu: usize,
        /// The policy's frequency.
        cur_khz: u32,
        /// The policy's limits.
        limits ["limits_khz"]: FreqLimits,
        /// The CPUs' facts.
        facts: Vec<CpuFacts>,
        /// The CPUs' times.
        times: Vec<CpuTimes>,
    }
}

line_struct! {
    /// What was decided.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Output {
        /// The frequency to set, if one is to be set.
        request_khz: Option<u32>,
        /// What became of the update, a word of a decision's outcomes.
        outcome: String,
        /// The frequency that the governor wants.
        next_khz: u32,
        /// schedutil: the frequency before it was resolved.
        raw_khz: u32,
        /// schedutil: the utilisation that decided, of 1024; the others: the load in percent.
        util: u64,
        /// schedutil: the reference frequency.
        ref_khz: u64,
    }
}

/// A running governor.
pub struct Governor {
    state: Box<dyn kernel::Governor>,
    worker: Worker,
    limits: FreqLimits,
    freq_ref_khz: u32,
    freq_invariant: bool,
    form: SugovUtil,
    wanted_khz: u32,
}

impl Governor {
    /// Starts it.
    ///
    /// # Errors
    /// If the setup names no tunable or kernel profile that there is, or its table is empty of frequencies.
    pub fn new(setup: &Setup) -> Result<Self, String> {
        let table = match setup.table_khz.as_slice() {
            [] => None,
            list => Some(FreqTable::from_khz(list).map_err(|error| format!("frequency table: {error}"))?),
        };
        let profile =
            KernelProfile::named(&setup.kernel).ok_or_else(|| format!("no kernel profile `{}`", setup.kernel))?;
        let governor = setup.governor;
        // What the host gave or the interval asks for, unless the user chose another.
        let told = [("rate_limit_us", setup.rate_limit_us), ("sampling_rate", setup.sampling_rate_us)];
        let told = told.into_iter().filter(|(name, _)| {
            governor.tunables_of(&profile).any(|tunable| tunable.name == *name)
                && !setup.tunables.iter().any(|(chosen, _)| chosen == name)
        });
        let told = told.map(|(name, value)| (name.to_owned(), value.to_string()));
        let n_cpus = setup.cpus.len().max(1);
        let mut state = governor
            .build(&GovernorSetup {
                profile,
                n_cpus,
                cpuinfo: setup.cpuinfo,
                limits: setup.limits,
                cur_khz: setup.cur_khz,
                table,
                // The kthread is this process.
                fast_switch: false,
                need_update_limits: false,
                adjust_perf: false,
                transition_delay_us: 0,
                transition_latency_ns: 0,
                tick_ns: setup.tick_ns,
                // Chosen when the setup is made, so that it is in the log.
                io_is_busy: false,
                tunables: told.chain(setup.tunables.iter().cloned()).collect(),
            })
            .map_err(|error| error.to_string())?;
        let mut times = setup.times.clone();
        times.resize(n_cpus, CpuTimes::default());
        state.start(setup.cur_khz, &Collected { facts: &vec![CpuFacts::default(); n_cpus], times: &times });
        state.limits(setup.limits, setup.cur_khz);
        Ok(Self {
            state,
            worker: governor.worker,
            limits: setup.limits,
            freq_ref_khz: setup.freq_ref_khz,
            freq_invariant: setup.freq_invariant,
            form: profile.sugov_gates().util,
            wanted_khz: setup.cur_khz,
        })
    }

    /// A CPU reports.
    pub fn decide(&mut self, input: &Input) -> Output {
        self.decide_recorded(&[], input).0
    }

    /// The same, and the record of it; `cpus` are the policy's.
    fn decide_recorded(&mut self, cpus: &[u32], input: &Input) -> (Output, Option<Decision>) {
        let prev_khz = self.state.wanted_khz();
        let limits_changed = std::mem::replace(&mut self.limits, input.limits) != input.limits;
        // What somebody else has set is put right at once, not only when the limits change.
        let mut request_khz = match limits_changed || self.worker == Worker::Nobody {
            true => self.state.limits(input.limits, input.cur_khz),
            false => None,
        };
        let policy = PolicyFacts {
            cur_khz: input.cur_khz,
            freq_ref_khz: self.freq_ref_khz,
            freq_invariant: self.freq_invariant,
            can_update: true,
        };
        let report = Report { time_ns: input.time_ns, cpu: input.cpu, flags: 0, policy };
        let view = Collected { facts: &input.facts, times: &input.times };
        let unlimited = if cpus.is_empty() { None } else { self.state.update_unlimited(&report, &view) };
        let wait_ns =
            self.state.next_change_ns(unlimited.as_ref().map_or(0, |one| one.next_khz)).saturating_sub(input.time_ns);
        let mut decision = None;
        let asked = self.state.update_util(&report, &view, Some(&mut decision));
        match asked {
            // Another process would do the work later; this one does it at once.
            Some(Request::QueueWork) => request_khz = self.state.work(input.cur_khz, &view).or(request_khz),
            Some(Request::FastSwitch { freq_khz }) => request_khz = Some(freq_khz),
            Some(Request::AdjustPerf { .. }) | None => {}
        }
        // What the driver has already is not asked for again.
        let request_khz = request_khz.filter(|&khz| khz != input.cur_khz);
        self.wanted_khz = match self.worker {
            Worker::Kthread => self.state.wanted_khz(),
            _ => request_khz.unwrap_or(input.cur_khz),
        };
        let outcome = match (self.worker, &decision) {
            (Worker::Kworker, _) if asked.is_some() => "sampled",
            (Worker::Kworker, _) => "not-due",
            (Worker::Kthread, Some(decision)) => word("outcome", decision.outcome as u8).unwrap_or("unknown"),
            (Worker::Nobody, _) if request_khz.is_some() => "requested",
            (Worker::Kthread, None) if asked.is_some() => "requested",
            (Worker::Nobody | Worker::Kthread, _) => "unchanged",
        };
        let sample = self.state.sample();
        let (raw_khz, util, ref_khz) = match (&decision, sample) {
            (Some(decision), _) => (decision.raw_khz, decision.util, decision.ref_khz),
            (None, Some(sample)) => (0, u64::from(sample.load), 0),
            (None, None) => (self.state.wanted_khz(), 0, 0),
        };
        let cpu = cpus.get(input.cpu).copied().unwrap_or(NO_CPU);
        let policy_cpu = cpus.first().copied().unwrap_or(NO_CPU);
        let next_khz = self.wanted_khz;
        let record = match (decision, sample) {
            (Some(seen), _) => {
                let context = FreqContext { members: cpus, form: self.form, iowait: false, prev_khz, wait_ns };
                Some(Decision::freq(&context, &unlimited.unwrap_or(seen), &seen))
            }
            (None, Some(note)) if asked.is_some() => {
                Some(Decision::sample(policy_cpu, cpu, note, input.cur_khz, next_khz))
            }
            (None, Some(_)) => None,
            (None, None) => {
                let outcome = number_of("outcome", outcome).unwrap_or(NONE);
                let prev_khz = input.cur_khz;
                Some(Decision::Custom { policy_cpu, cpu, outcome, util: 0, max_cap: 0, prev_khz, next_khz })
            }
        };
        (Output { request_khz, outcome: outcome.to_owned(), next_khz, raw_khz, util, ref_khz }, record)
    }
}

impl Field for FreqLimits {
    fn node(&self) -> Node {
        numbers(&[self.min_khz, self.max_khz])
    }
    fn read(line: &Line<'_>, node: &Node, key: &str) -> Result<Self, HostError> {
        match Vec::<u32>::read(line, node, key)?.as_slice() {
            &[min_khz, max_khz] => Ok(Self { min_khz, max_khz }),
            _ => Err(line.fault(line.node, format!("`{key}` must be [min, max] in kHz"))),
        }
    }
}

/// A tunable, "NAME=VALUE".
impl Field for (String, String) {
    // Logs of before there was a choice have none.
    const MISSING_LIST: Option<fn() -> Vec<Self>> = Some(Vec::new);
    fn node(&self) -> Node {
        Node::str(format!("{}={}", self.0, self.1))
    }
    fn read(line: &Line<'_>, node: &Node, key: &str) -> Result<Self, HostError> {
        let pair = node.as_str(key).ok().and_then(|text| text.split_once('='));
        let wrong = || line.fault(node, format!("`{key}` must hold \"NAME=VALUE\""));
        pair.map(|(name, value)| (name.to_owned(), value.to_owned())).ok_or_else(wrong)
    }
}

impl Field for CpuTimes {
    fn node(&self) -> Node {
        numbers(&[self.wall_us, self.idle_us, self.nice_ns, self.iowait_us])
    }
    fn read(line: &Line<'_>, node: &Node, key: &str) -> Result<Self, HostError> {
        match *Vec::<u64>::read(line, node, key)?.as_slice() {
            [wall_us, idle_us, nice_ns, iowait_us] => Ok(Self { wall_us, idle_us, iowait_us, nice_ns }),
            // Older logs have I/O wait within the idle time.
            [wall_us, idle_us, nice_ns] => Ok(Self { wall_us, idle_us, iowait_us: 0, nice_ns }),
            _ => Err(line.fault(node, format!("`{key}` must hold [wall_us, idle_us, nice_ns, iowait_us]"))),
        }
    }
}

impl Field for GovernorId {
    fn node(&self) -> Node {
        Node::str(self.name)
    }
    fn read(line: &Line<'_>, node: &Node, key: &str) -> Result<Self, HostError> {
        Self::named(&String::read(line, node, key)?).map_err(|error| line.fault(line.node, error.to_string()))
    }
}

impl Field for CpuFacts {
    fn node(&self) -> Node {
        table([
            ("util_cfs", Node::from(self.util_cfs)),
            ("util_cfs_boost", Node::from(self.util_cfs_boost)),
            ("util_rt", Node::from(self.rq.util_rt)),
            ("util_dl", Node::from(self.rq.util_dl)),
            ("capacity", Node::from(self.rq.capacity)),
            ("idle_calls", Node::from(self.idle_calls)),
        ])
    }
    fn read(line: &Line<'_>, node: &Node, _key: &str) -> Result<Self, HostError> {
        let line = line.at(node);
        let capacity = line.field("capacity")?;
        let (util_rt, util_dl) = (line.field("util_rt")?, line.field("util_dl")?);
        Ok(Self {
            rq: RqFacts { capacity, util_rt, util_dl, ..RqFacts::default() },
            util_cfs: line.field("util_cfs")?,
            util_cfs_boost: line.field("util_cfs_boost")?,
            idle_calls: line.field("idle_calls")?,
        })
    }
}

/// A line of one kind.
fn line_json(kind: &str, entries: Vec<(&'static str, Option<Node>)>) -> String {
    to_json(&Node::table(std::iter::once(("type", Some(Node::str(kind)))).chain(entries)))
}

impl Setup {
    /// The log's first line.
    pub fn json(&self) -> String {
        line_json("setup", self.entries())
    }
}

/// A line of the log: the policy, what was known, what was decided.
pub fn decision_json(policy: u32, input: &Input, output: &Output) -> String {
    let mut entries = vec![("policy", Some(Node::from(policy)))];
    entries.extend(input.entries().into_iter().chain(output.entries()));
    line_json("decision", entries)
}

fn output_of(line: &Line<'_>) -> Result<Output, HostError> {
    let output = Output::of_line(line)?;
    // Logs of before 0.3 have a space in their words.
    Ok(Output { outcome: output.outcome.replace(' ', "-"), ..output })
}

/// How a log agrees with the governors of this build.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Decisions in the log.
    pub n_decisions: u64,
    /// Those that come out the same.
    pub n_equal: u64,
    /// Frequencies that were set.
    pub n_requests: u64,
    /// Of those with a later line of the policy: how many it found in force.
    pub n_in_force: u64,
    /// Requests with a later line.
    pub n_followed: u64,
    /// Looks that gave no reading, at which nothing was decided.
    pub n_unread: u64,
    /// The first decisions that differ: line and both outputs.
    pub differences: Vec<String>,
}

impl Agreement {
    /// Share of equal decisions, percent; 100 of none.
    pub fn percent(&self) -> f64 {
        if self.n_decisions == 0 { 100.0 } else { self.n_equal as f64 * 100.0 / self.n_decisions as f64 }
    }
}

/// A policy of a log, from its setup line on.
struct Running {
    setup: Setup,
    governor: Governor,
    /// What was asked of the driver last, until somebody has seen whether it is in force.
    pending_khz: Option<u32>,
}

impl Running {
    fn of_line(line: &Line<'_>) -> Result<Self, HostError> {
        let setup = Setup::of_line(line)?;
        let governor = Governor::new(&setup).map_err(|message| line.fault(line.node, message))?;
        Ok(Self { setup, governor, pending_khz: None })
    }
}

/// The inputs of a decision's line, with its policy as the last setup line has it.
fn decision_of<'r>(line: &Line<'_>, running: &'r mut [Running]) -> Result<(&'r mut Running, Input), HostError> {
    let policy: u32 = line.int("policy")?;
    let of_policy = running.iter_mut().rfind(|one| one.setup.policy == policy);
    let one =
        of_policy.ok_or_else(|| line.fault(line.node, format!("policy {policy} has no setup line before this")))?;
    let (input, n_cpus) = (Input::of_line(line)?, one.setup.cpus.len());
    if input.cpu >= n_cpus || input.facts.len() != n_cpus || input.times.len() != n_cpus {
        return Err(line.fault(line.node, format!("the policy has {n_cpus} CPUs")));
    }
    Ok((one, input))
}

/// Computes every decision of a log anew from its inputs.
///
/// # Errors
/// If the log is none, with line and column. A last line that was cut off (the worker was killed) is passed over.
pub fn verify(file: &str, text: &str) -> Result<Agreement, HostError> {
    let mut running: Vec<Running> = Vec::new();
    let mut agreement = Agreement::default();
    for (number, words) in whole_lines(text) {
        let node = parse_line(file, number, words)?;
        let line = Line { file, number, node: &node };
        match line.str("type")? {
            "setup" => running.push(Running::of_line(&line)?),
            "decision" => {
                let (Running { governor, pending_khz: pending, .. }, input) = decision_of(&line, &mut running)?;
                if let Some(khz) = pending.take() {
                    agreement.n_followed += 1;
                    agreement.n_in_force += u64::from(khz == input.cur_khz);
                }
                let logged = output_of(&line)?;
                let computed = governor.decide(&input);
                agreement.n_decisions += 1;
                if computed == logged {
                    agreement.n_equal += 1;
                } else if agreement.differences.len() < 10 {
                    agreement.differences.push(format!("{file}:{number}: logged {logged:?}, computed {computed:?}"));
                }
                if logged.request_khz.is_some() {
                    agreement.n_requests += 1;
                    *pending = logged.request_khz;
                }
            }
            // What the worker did beside deciding.
            "note" => {}
            "unread" => agreement.n_unread += 1,
            other => return Err(line.fault(&node, format!("`type`: no such kind of line: `{other}`"))),
        }
    }
    Ok(agreement)
}

/// One decision in words and numbers: its record's, computed anew from the log's inputs.
fn sentence(setup: &Setup, start_ns: u64, input: &Input, output: &Output, record: Option<&Decision>) -> String {
    let at_s = input.time_ns.saturating_sub(start_ns) as f64 / 1e9;
    let cpu = setup.cpus.get(input.cpu).copied().unwrap_or(0);
    let head = format!("{at_s:.3} s, policy{}, CPU {cpu} at {}: ", setup.policy, mhz(input.cur_khz));
    let mut table = setup.table_khz.clone();
    table.sort_unstable();
    let names = Names {
        governor: setup.governor.name,
        p_states: false,
        opps_khz: &table,
        cpus: &setup.cpus,
        knows_waker: false,
        task: &|task| task.to_string(),
    };
    let told = match record {
        Some(record) => {
            let words = words(record, &[], &names);
            if words.text.contains(&words.outcome) { words.text } else { format!("{} {}", words.text, words.outcome) }
        }
        None => {
            let outcome = number_of("outcome", &output.outcome).and_then(|number| phrase("outcome", number));
            format!("the report {}.", outcome.unwrap_or(&output.outcome))
        }
    };
    match output.request_khz {
        Some(khz) => format!("{head}{told} {} is asked of the driver.", mhz(khz)),
        None => format!("{head}{told} Nothing is asked of the driver."),
    }
}

/// A log in words: with `at_ns` (since the first decision) the decision in force then, else a summary; of the policy
/// of `cpu` only if one is given.
///
/// # Errors
/// If the log is none.
pub fn explain(file: &str, text: &str, cpu: Option<u32>, at_ns: Option<u64>) -> Result<String, HostError> {
    let mut running: Vec<Running> = Vec::new();
    let mut start_ns = None;
    // Of each policy: the sentence that is in force, and counts by outcome and by wanted frequency.
    let mut in_force: Vec<(u32, String)> = Vec::new();
    let mut counts: BTreeMap<(u32, String), u64> = BTreeMap::new();
    let mut wanted: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for (number, words) in whole_lines(text) {
        let node = parse_line(file, number, words)?;
        let line = Line { file, number, node: &node };
        match line.str("type")? {
            "setup" => running.push(Running::of_line(&line)?),
            "decision" => {
                let output = output_of(&line)?;
                let (Running { governor, setup, .. }, input) = decision_of(&line, &mut running)?;
                let policy = setup.policy;
                let (computed, record) = governor.decide_recorded(&setup.cpus, &input);
                let record = record.filter(|_| computed == output);
                let start_ns = *start_ns.get_or_insert(input.time_ns);
                if cpu.is_some_and(|cpu| !setup.cpus.contains(&cpu)) {
                    continue;
                }
                if at_ns.is_none_or(|at_ns| input.time_ns - start_ns.min(input.time_ns) <= at_ns) {
                    let words = sentence(setup, start_ns, &input, &output, record.as_ref());
                    in_force.retain(|(known, _)| *known != policy);
                    in_force.push((policy, words));
                }
                *counts.entry((policy, output.outcome)).or_default() += 1;
                *wanted.entry((policy, output.next_khz)).or_default() += 1;
            }
            _ => {}
        }
    }
    if let Some(cpu) = cpu
        && !running.iter().any(|one| one.setup.cpus.contains(&cpu))
    {
        return Err(HostError::Usage(format!("--cpu: CPU {cpu} is in no policy of {file}")));
    }
    let mut out = String::new();
    if at_ns.is_some() {
        in_force.iter().for_each(|(_, words)| out += &format!("{words}\n"));
        return Ok(out);
    }
    for setup in running.iter().map(|one| &one.setup).filter(|setup| cpu.is_none_or(|cpu| setup.cpus.contains(&cpu))) {
        let of = |(policy, _): &(u32, String)| *policy == setup.policy;
        let outcomes: Vec<String> =
            counts.iter().filter(|(key, _)| of(key)).map(|((_, name), count)| format!("{count} {name}")).collect();
        let total: u64 = wanted.iter().filter(|((policy, _), _)| *policy == setup.policy).map(|(_, count)| count).sum();
        let shares: Vec<String> = wanted
            .iter()
            .filter(|((policy, _), _)| *policy == setup.policy)
            .map(|((_, khz), count)| {
                format!("{} MHz {:.1} %", f64::from(*khz) / 1000.0, *count as f64 * 100.0 / total.max(1) as f64)
            })
            .collect();
        out += &format!(
            "policy{} (CPUs {}), {}, utilisation from {}, {}invariant: {}; wanted {}\n",
            setup.policy,
            format_cpu_list(&setup.cpus),
            setup.governor,
            setup.source,
            if setup.freq_invariant { "" } else { "not " },
            outcomes.join(", "),
            shares.join(", ")
        );
    }
    for (_, words) in &in_force {
        out += &format!("last: {words}\n");
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: FreqLimits = FreqLimits { min_khz: 1_500_000, max_khz: 2_250_000 };

    fn setup(governor: &str) -> Setup {
        Setup {
            governor: GovernorId::named(governor).expect("a governor"),
            tunables: Vec::new(),
            policy: 0,
            cpus: vec![0],
            cpuinfo: LIMITS,
            limits: LIMITS,
            table_khz: vec![1_500_000, 2_000_000, 2_250_000],
            rate_limit_us: 1000,
            sampling_rate_us: 10_000,
            tick_ns: 4_000_000,
            kernel: "6.12.117".to_owned(),
            freq_ref_khz: 2_250_000,
            freq_invariant: true,
            source: "test".to_owned(),
            via: "setspeed".to_owned(),
            cur_khz: 1_500_000,
            times: vec![CpuTimes::default()],
        }
    }

    fn input(time_ms: u64, cur_khz: u32, util: u64) -> Input {
        let idle_us = time_ms * 1000 * (1024 - util) / 1024;
        Input {
            time_ns: time_ms * 1_000_000,
            cpu: 0,
            cur_khz,
            limits: LIMITS,
            facts: vec![CpuFacts { util_cfs: util, util_cfs_boost: util, idle_calls: time_ms, ..CpuFacts::default() }],
            times: vec![CpuTimes { wall_us: time_ms * 1000, idle_us, ..CpuTimes::default() }],
        }
    }

    /// Goal: the governors act, and their log is the same when computed anew. Method: a load that comes and goes.
    #[test]
    fn a_log_can_be_computed_anew() {
        for name in GovernorId::all().map(|governor| governor.entry().name) {
            let setup = setup(name);
            let mut governor = Governor::new(&setup).expect("is one");
            let mut log = setup.json() + "\n";
            let mut cur_khz = setup.cur_khz;
            let mut seen = Vec::new();
            for step in 1..200 {
                let util = if (50..100).contains(&step) { 1000 } else { 100 };
                let input = input(step * 20, cur_khz, util);
                let output = governor.decide(&input);
                log += &(decision_json(0, &input, &output) + "\n");
                cur_khz = output.request_khz.unwrap_or(cur_khz);
                seen.push(cur_khz);
            }
            let agreement = verify("log", &log).expect("readable");
            assert_eq!((agreement.n_decisions, agreement.n_equal), (199, 199), "{name}: {:?}", agreement.differences);
            assert_eq!(agreement.n_in_force, agreement.n_followed, "{name}");
            if !matches!(name, "performance" | "powersave" | "userspace") {
                assert!(seen.contains(&2_250_000) && seen.last() == Some(&1_500_000), "{name}: {seen:?}");
                assert!(agreement.n_requests >= 2);
            }
            // A changed input is found out.
            let forged = log.replacen("\"util\":1", "\"util\":2", 1);
            if forged != log {
                assert_eq!(verify("log", &forged).expect("readable").n_equal, 198, "{name}");
            }
        }
    }

    #[test]
    fn a_log_in_words() {
        let setup = setup("schedutil");
        let mut governor = Governor::new(&setup).expect("is one");
        let mut log = setup.json() + "\n";
        for (time_ms, util) in [(10, 700), (20, 700), (30, 100)] {
            let input = input(time_ms, 1_500_000, util);
            log += &(decision_json(0, &input, &governor.decide(&input)) + "\n");
        }
        let at = explain("log", &log, Some(0), Some(0)).expect("readable");
        let expected = "0.000 s, policy0, CPU 0 at 1500 MHz: CPU 0 reported to schedutil: util 700 + dl 0, headroom 1.25 -> 875; \
                        f_ref 2250 MHz -> 1923 -> resolved 2000 MHz (OPP 2 of 3). Requested for the first time. \
                        2000 MHz is asked of the driver.\n";
        assert_eq!(at, expected);
        let all = explain("log", &log, None, None).expect("readable");
        assert!(all.contains("2 requested, 1 unchanged; wanted 1500 MHz 33.3 %, 2000 MHz 66.7 %"), "{all}");
        assert!(explain("log", &log, Some(3), None).expect_err("wrong").to_string().contains("CPU 3 is in no policy"));
    }

    #[test]
    fn the_headroom_is_the_kernels() {
        let mut governor = Governor::new(&setup("schedutil")).expect("is one");
        // 1.25 * 700 / 1024 * 2250 MHz = 1922 MHz, so 2000.
        let output = governor.decide(&input(10, 1_500_000, 700));
        assert_eq!((output.raw_khz, output.request_khz), (1_922_607, Some(2_000_000)));
    }

    #[test]
    fn wrong_logs_are_refused_with_their_place() {
        let log = setup("schedutil").json();
        let check = |text: &str, part: &str| {
            let error = verify("log", text).expect_err("wrong").to_string();
            assert!(error.contains(part), "{error}");
        };
        check("{\"type\":\"decision\",\"policy\":3}\n", "log:1:1: policy 3 has no setup line");
        check("{\"type\":\n", "log:1:");
        check("{\"type\":\"x\"}\n", "no such kind of line");
        check(&log.replace("schedutil", "sched").replace("]]}", "]]}\n"), "unknown governor \"sched\"");
        // A line that was cut off by a kill is no mistake.
        assert_eq!(verify("log", &format!("{log}\n{{\"type\":\"deci")).expect("readable").n_decisions, 0);
    }
}
