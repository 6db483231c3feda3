//! Frequency decisions: schedutil's utilisation, next frequency, what is asked of the driver, and the frequency table.

use opplab_kernel::cpufreq::facts::{PerfSteps, RqFacts, SugovDecision, SugovOutcome};
use opplab_kernel::cpufreq::freq_table::{FreqLimits, Relation, resolve_freq};
use opplab_kernel::cpufreq::schedutil::{SCHED_CPUFREQ_IOWAIT, SugovGates};

use super::input::{Ev, Kind, Machine};
use super::report::{RecordingReport, UNEXPLAINED};
use super::state::State;

/// The inputs of get_next_freq().
#[derive(Debug, Clone, Copy)]
struct NextIn {
    util: u64,
    max: u64,
    cur_khz: u32,
    limits: FreqLimits,
    next_khz: u32,
    cached_khz: u32,
    need: bool,
    policy: usize,
}

/// On a CPU that executes the governor.
#[derive(Debug, Clone, Default)]
struct Context {
    single: bool,
    /// When that update began by the run queue's clock, and whether a task that waited for I/O woke.
    began: (u64, bool),
    /// The CPUs whose utilisation was taken since.
    asked: Vec<Asked>,
    /// Since the last update began: the utilisation of the policy's CPUs with and without the bandwidth of their fair servers,
    /// `None` if it could not be computed.
    utils: Vec<Option<(u64, u64)>>,
    /// The averages (`util_avg`, `runnable_avg`) of a CPU's queue that an entity just joined or left: the governor is called
    /// before that change is recorded.
    moved: Option<(usize, u64, u64)>,
    next_in: Option<NextIn>,
    /// What get_next_freq() answered, not yet passed on.
    ret_khz: Option<u32>,
}

/// What sugov_get_util() was called with.
#[derive(Debug, Clone, Copy)]
struct Asked {
    cpu: usize,
    /// What the boost of I/O waits asks for.
    boost: u64,
    /// When the CPU reported last (`last_update`), by the run queue's clock.
    last_ns: Option<u64>,
}

impl Context {
    fn ask(&mut self, ev: &Ev<'_>, cpu: usize, boost: u64) {
        self.asked.push(Asked { cpu, boost, last_ns: ev.u("last") });
    }

    /// What the boost of I/O waits asked for on `cpu`.
    fn boost(&self, cpu: usize) -> u64 {
        self.asked.iter().find(|one| one.cpu == cpu).map_or(0, |one| one.boost)
    }

    /// The CPU of the policy `members` whose run queue reported: the balancer and wake-ups execute the governor for others, too.
    fn reporter(&self, members: &[usize], executes: usize) -> Option<usize> {
        if let [only] = *members {
            return Some(only);
        }
        let now = |one: &&Asked| one.last_ns == Some(self.began.0);
        let reported: Vec<usize> = self.asked.iter().filter(now).map(|one| one.cpu).collect();
        match *reported {
            [cpu] => Some(cpu),
            // Without a record, or with two of the same ns.
            _ => Some(executes).filter(|cpu| reported.contains(cpu)),
        }
    }
}

/// A decision of the recorded kernel's schedutil, for those who explain it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedFreq {
    /// The recording's time, in ns.
    pub time_ns: u64,
    /// The policy's CPUs.
    pub members: Vec<usize>,
    /// The CPU whose run queue reported; `None` if the records do not show it.
    pub cpu: Option<usize>,
    /// A task that waited for I/O woke there.
    pub iowait: bool,
    /// The recorded inputs and what crate `kernel` makes of them; CPUs are places in the policy. The steps are those of the CPU
    /// with the highest utilisation as the records show it; there are none before their first records.
    pub decision: SugovDecision,
    /// Whether the steps lead to the utilisation that the kernel put into the formula; else the bandwidth of deadline tasks or
    /// another input was not recorded.
    pub exact: bool,
    /// What the policy had asked for, in kHz.
    pub prev_khz: u32,
    /// What the kernel's function answered, in kHz.
    pub ret_khz: u32,
}

/// One policy.
#[derive(Debug, Clone, Default)]
struct PolicyState {
    /// `next_freq` after the last decision, and whether it depends on whether the CPU idled.
    next_khz: Option<(u32, bool)>,
    /// What the driver was asked to set, resolved.
    asked_khz: Option<u32>,
    /// The CPU idled since the governor looked last.
    idled: bool,
    /// `cached_raw_freq` before and after the last decision, if that was not held, and `next_freq` before it.
    cached_khz: Option<(u32, u32, u32)>,
    /// The place of the last decision in `seen`, if it depends on whether the CPU idled.
    open: Option<usize>,
}

/// What was seen of the decisions.
pub(super) struct Freq {
    contexts: Vec<Context>,
    policies: Vec<PolicyState>,
    /// The kernel's.
    gates: SugovGates,
    /// All decisions, if they are wanted.
    pub(super) seen: Option<Vec<RecordedFreq>>,
}

impl Freq {
    /// Nothing yet.
    pub(super) fn new(machine: &Machine) -> Self {
        Self {
            contexts: vec![Context::default(); machine.n_cpus],
            policies: vec![PolicyState::default(); machine.policies.len()],
            gates: machine.sugov_gates(),
            seen: None,
        }
    }

    /// Looks at one event.
    pub(super) fn event(&mut self, ev: &Ev<'_>, state: &State<'_>, report: &mut RecordingReport) {
        if ev.cpu() >= self.contexts.len() {
            return;
        }
        let known = match ev.kind() {
            Kind::SgSingle | Kind::SgShared => {
                let single = ev.kind() == Kind::SgSingle;
                let began =
                    (ev.u("time").unwrap_or(0), ev.u("flags").unwrap_or(0) & u64::from(SCHED_CPUFREQ_IOWAIT) != 0);
                self.contexts[ev.cpu()] = Context { single, began, moved: moved(ev), ..Context::default() };
                Some(())
            }
            Kind::SgUtil => self.util_out(ev, state, report),
            Kind::SgUtilIn => self.util_in(ev, state),
            Kind::SgNext => self.next(ev, state, report),
            Kind::SgNextIn => self.next_in(ev, state, report),
            Kind::SgNextRet => self.next_ret(ev, state, report),
            Kind::Fsw => self.fast_switch(ev, state, report),
            Kind::Drvt => self.driver_target(ev, state, report),
            Kind::CpuFrequency => self.frequency(ev, state, report),
            Kind::Setscale => set_scale(ev, state, report),
            Kind::CpuIdle => {
                if ev.get("state").is_some_and(|state| state != -1 && state != 0xffff_ffff)
                    && let Some(policy) = ev.cpu_field("cpu_id").and_then(|cpu| policy_of(state.machine, cpu))
                {
                    self.policies[policy].idled = true;
                }
                Some(())
            }
            _ => Some(()),
        };
        if known.is_none() {
            report.without_input("frequency", "a field that the probe does not have");
        }
    }

    fn util_out(&mut self, ev: &Ev<'_>, state: &State<'_>, report: &mut RecordingReport) -> Option<()> {
        let cpu = ev.cpu_field("cpu")?;
        let (moved, boost) = (self.contexts[ev.cpu()].moved, ev.u("boost")?);
        self.contexts[ev.cpu()].ask(ev, cpu, boost);
        match sugov_util(state, cpu, moved, boost, Some(ev.u("bw_min")?)) {
            Ok(util) => {
                let cause = if cpu == ev.cpu() { UNEXPLAINED } else { "another CPU was changing its queue meanwhile" };
                report.compare("sugov_util", ev.time_ns(), ev.u("util")?, util, cause);
            }
            Err(reason) => report.without_input("sugov_util", reason),
        }
        Some(())
    }

    fn util_in(&mut self, ev: &Ev<'_>, state: &State<'_>) -> Option<()> {
        let cpu = ev.cpu_field("cpu")?;
        // Whether the fair server is active is recorded at placements only.
        let of = state.cpus.get(cpu)?;
        let (moved, boost) = (self.contexts[ev.cpu()].moved, ev.u("boost")?);
        self.contexts[ev.cpu()].ask(ev, cpu, boost);
        let util = |bw_min: u64| {
            let bw_min = if of.rt_queued.is_empty() { bw_min } else { state.machine.capacity[cpu] };
            sugov_util(state, cpu, moved, boost, Some(bw_min)).ok()
        };
        let (with, without) = (util(of.bw_min.unwrap_or(state.machine.fair_server)), util(0));
        self.contexts[ev.cpu()].utils.push(with.zip(without));
        Some(())
    }

    fn read_next(&self, ev: &Ev<'_>, state: &State<'_>) -> Option<NextIn> {
        Some(NextIn {
            util: ev.u("util")?,
            max: ev.u("max")?,
            cur_khz: ev.get("cur")? as u32,
            limits: FreqLimits { min_khz: ev.get("pmin")? as u32, max_khz: ev.get("pmax")? as u32 },
            next_khz: ev.get("next")? as u32,
            cached_khz: ev.get("cached")? as u32,
            need: ev.get("need").unwrap_or(0) != 0,
            policy: policy_of(state.machine, ev.cpu_field("pcpu")?)?,
        })
    }

    /// The next frequency as the governor computes it (get_next_freq(), v6.12; before v6.8 the headroom is added there).
    fn compute_next(&self, input: &NextIn, machine: &Machine) -> u32 {
        let raw_khz = self.raw_freq(input, machine);
        if raw_khz == input.cached_khz && !input.need {
            return input.next_khz;
        }
        let policy = &machine.policies[input.policy];
        resolve_freq(policy.table.as_ref(), raw_khz, input.limits, Relation::L, true)
    }

    /// The frequency before it is resolved: the reference, times the utilisation.
    fn raw_freq(&self, input: &NextIn, machine: &Machine) -> u32 {
        self.gates.raw_freq(input.util, input.max, self.reference(input, machine))
    }

    fn reference(&self, input: &NextIn, machine: &Machine) -> u32 {
        if machine.freq_ref {
            machine.policies[input.policy].max_khz
        } else if self.gates.margin_on_current {
            input.cur_khz + (input.cur_khz >> 2)
        } else {
            input.cur_khz
        }
    }

    /// What went into a decision, in the terms of an explanation.
    fn note(&mut self, ev: &Ev<'_>, input: &NextIn, ret_khz: u32, held: bool, state: &State<'_>) {
        if self.seen.is_none() {
            return;
        }
        let machine = state.machine;
        let members = &machine.policies[input.policy].cpus;
        let context = &self.contexts[ev.cpu()];
        let (moved, cpu) = (context.moved, context.reporter(members, ev.cpu()));
        let steps = |place: usize, cpu: usize| {
            let bw_min = state.cpus.get(cpu)?.bw_min.unwrap_or(machine.fair_server);
            let steps = perf(&self.gates, state, cpu, moved, context.boost(cpu), Some(bw_min)).ok()?;
            Some((place, steps))
        };
        let known = members.iter().enumerate().filter_map(|(place, &cpu)| steps(place, cpu));
        let deciding = known.max_by_key(|(place, steps)| (steps.util, std::cmp::Reverse(*place)));
        let outcome = match ret_khz {
            _ if held => SugovOutcome::Held,
            khz if khz == input.next_khz => SugovOutcome::Unchanged,
            _ => SugovOutcome::Requested,
        };
        let row = RecordedFreq {
            time_ns: ev.time_ns(),
            members: members.clone(),
            cpu,
            iowait: context.began.1,
            exact: deciding.is_some_and(|(_, steps)| steps.util == input.util),
            decision: SugovDecision {
                time: ev.time_ns(),
                cpu: members.iter().position(|&member| Some(member) == cpu).unwrap_or(0),
                deciding_cpu: deciding.map_or(0, |(place, _)| place),
                util: input.util,
                steps: deciding.map(|(_, steps)| steps),
                headroom: (self.gates.margin.ratio_1024(), self.gates.headroom),
                target_perf: 0,
                max_cap: input.max,
                ref_khz: self.reference(input, machine).into(),
                raw_khz: self.raw_freq(input, machine),
                next_khz: self.compute_next(input, machine),
                outcome,
            },
            prev_khz: input.next_khz,
            ret_khz,
        };
        if let Some(seen) = &mut self.seen {
            seen.push(row);
        }
    }

    /// Whether the last decision of the policy was held shows in the `next_freq` that the next one finds.
    fn settle(&mut self, input: &NextIn) {
        let Some(place) = self.policies[input.policy].open.take() else { return };
        if let Some(row) = self.seen.as_mut().and_then(|seen| seen.get_mut(place)) {
            row.decision.outcome =
                if input.next_khz == row.prev_khz { SugovOutcome::Held } else { SugovOutcome::Requested };
        }
    }

    fn decided(&mut self, ev: &Ev<'_>, input: &NextIn, ret_khz: u32, state: &State<'_>, report: &mut RecordingReport) {
        report.compare("next_freq", ev.time_ns(), ret_khz, self.compute_next(input, state.machine), UNEXPLAINED);
        self.settle(input);
        let raw_khz = self.raw_freq(input, state.machine);
        let policy = &mut self.policies[input.policy];
        if let Some((next_khz, uncertain)) = policy.next_khz {
            let cause =
                if uncertain { "whether the CPU idled in between (idle_calls is not recorded)" } else { UNEXPLAINED };
            report.compare("next_freq_kept", ev.time_ns(), input.next_khz, next_khz, cause);
        }
        let lower = ret_khz < input.next_khz && !input.need && self.contexts[ev.cpu()].single;
        let hold = lower && !policy.idled;
        policy.cached_khz = Some((if lower { input.cached_khz } else { raw_khz }, raw_khz, input.next_khz));
        policy.next_khz = Some((if hold { input.next_khz } else { ret_khz }, lower));
        policy.idled = false;
        policy.open = self.seen.as_ref().filter(|_| lower).map(Vec::len);
        self.contexts[ev.cpu()].ret_khz = Some(ret_khz);
        self.note(ev, input, ret_khz, hold, state);
    }

    /// The exit of get_next_freq(): `cached` is what the call left there, so the one before is that of the last decision.
    fn next(&mut self, ev: &Ev<'_>, state: &State<'_>, report: &mut RecordingReport) -> Option<()> {
        let mut input = self.read_next(ev, state)?;
        let raw_khz = self.raw_freq(&input, state.machine);
        report.compare("raw_freq", ev.time_ns(), input.cached_khz, raw_khz, UNEXPLAINED);
        // Without a decision before, the table answers; a frequency of 0 is never asked for.
        // A decision that was held restores it; that it was held shows in `next`.
        input.cached_khz = match self.policies[input.policy].cached_khz {
            Some((before_khz, _, next_khz)) if input.next_khz == next_khz => before_khz,
            Some((_, after_khz, _)) => after_khz,
            None => 0,
        };
        self.decided(ev, &input, ev.get("ret")? as u32, state, report);
        Some(())
    }

    fn next_in(&mut self, ev: &Ev<'_>, state: &State<'_>, report: &mut RecordingReport) -> Option<()> {
        let input = self.read_next(ev, state)?;
        let context = &mut self.contexts[ev.cpu()];
        context.next_in = Some(input);
        let utils = std::mem::take(&mut context.utils);
        if !utils.is_empty() {
            match utils.into_iter().collect::<Option<Vec<(u64, u64)>>>() {
                Some(utils) => {
                    let with = utils.iter().map(|util| util.0).max().unwrap_or(0);
                    let without = utils.iter().map(|util| util.1).max().unwrap_or(0);
                    if with != input.util && (without == input.util || state.deadline_tasks && input.util > with) {
                        let reason = "the deadline bandwidth (of a server or a task) at that time";
                        report.without_input("sugov_util", reason);
                    } else {
                        report.compare("sugov_util", ev.time_ns(), input.util, with, UNEXPLAINED);
                    }
                }
                None => report.without_input("sugov_util", "an average of one of the CPUs before its first record"),
            }
        }
        Some(())
    }

    fn next_ret(&mut self, ev: &Ev<'_>, state: &State<'_>, report: &mut RecordingReport) -> Option<()> {
        match self.contexts[ev.cpu()].next_in.take() {
            Some(input) => self.decided(ev, &input, ev.get("ret")? as u32, state, report),
            None => report.without_input("next_freq", "the entry record"),
        }
        Some(())
    }

    fn asked(&mut self, ev: &Ev<'_>, policy: usize, cur_khz: u32, asked_khz: u32, report: &mut RecordingReport) {
        let asked = self.policies[policy].asked_khz.replace(asked_khz);
        // No frequency was reported since: it must have been the current one already.
        if let Some(asked_khz) = asked {
            report.compare("freq_table", ev.time_ns(), cur_khz, asked_khz, UNEXPLAINED);
        }
    }

    fn fast_switch(&mut self, ev: &Ev<'_>, state: &State<'_>, report: &mut RecordingReport) -> Option<()> {
        let (target_khz, cur_khz) = (ev.get("target")? as u32, ev.get("cur")? as u32);
        let policy = policy_of(state.machine, ev.cpu_field("cpu")?)?;
        match self.contexts[ev.cpu()].ret_khz.take() {
            Some(ret_khz) => report.compare("switch_target", ev.time_ns(), target_khz, ret_khz, UNEXPLAINED),
            None => report.without_input("switch_target", "the decision before it"),
        }
        let of = &state.machine.policies[policy];
        let limits = FreqLimits { min_khz: of.min_khz, max_khz: of.max_khz };
        let asked_khz = resolve_freq(of.table.as_ref(), limits.clamp(target_khz), limits, Relation::L, false);
        self.asked(ev, policy, cur_khz, asked_khz, report);
        Some(())
    }

    fn driver_target(&mut self, ev: &Ev<'_>, state: &State<'_>, report: &mut RecordingReport) -> Option<()> {
        let (target_khz, cur_khz) = (ev.get("target")? as u32, ev.get("cur")? as u32);
        let policy = policy_of(state.machine, ev.cpu_field("cpu")?)?;
        let of = &state.machine.policies[policy];
        if let Some((next_khz, uncertain)) = self.policies[policy].next_khz {
            let cause =
                if uncertain { "whether the CPU idled in between (idle_calls is not recorded)" } else { UNEXPLAINED };
            report.compare("switch_target", ev.time_ns(), target_khz, next_khz, cause);
        } else {
            report.without_input("switch_target", "the governor's decision");
        }
        let limits = FreqLimits { min_khz: of.min_khz, max_khz: of.max_khz };
        let rel = ev.get("rel")?;
        let relation = match rel & 3 {
            0 => Relation::L,
            1 => Relation::H,
            _ => Relation::C,
        };
        let asked_khz = resolve_freq(of.table.as_ref(), target_khz, limits, relation, rel & 4 != 0);
        self.asked(ev, policy, cur_khz, asked_khz, report);
        Some(())
    }

    fn frequency(&mut self, ev: &Ev<'_>, state: &State<'_>, report: &mut RecordingReport) -> Option<()> {
        let policy = policy_of(state.machine, ev.cpu_field("cpu_id")?)?;
        if let Some(asked_khz) = self.policies[policy].asked_khz.take() {
            report.compare("freq_table", ev.time_ns(), ev.get("state")? as u32, asked_khz, UNEXPLAINED);
        }
        Some(())
    }
}

/// The governor runs because an entity joins or leaves a queue (attach_entity_load_avg(), detach_entity_load_avg()): the
/// queue's record follows the governor's at once, without an update of its own.
fn moved(ev: &Ev<'_>) -> Option<(usize, u64, u64)> {
    let mut next = ev.next_on_cpu();
    while let Some(ev) = next {
        match ev.kind() {
            Kind::SgUtil | Kind::SgUtilIn | Kind::SgNext | Kind::SgNextIn | Kind::SgNextRet => {}
            Kind::Fsw | Kind::Setscale | Kind::CpuFrequency | Kind::SgEff => {}
            Kind::PeltCfs => return Some((ev.cpu_field("cpu")?, ev.u("util_avg")?, ev.u("runnable_avg")?)),
            _ => return None,
        }
        next = ev.next_on_cpu();
    }
    None
}

fn policy_of(machine: &Machine, cpu: usize) -> Option<usize> {
    machine.policies.iter().position(|policy| policy.cpus.contains(&cpu))
}

/// The other classes' utilisation of a CPU, and its bandwidth; `Err` names what is missing.
pub(super) fn rq_facts(state: &State<'_>, cpu: usize, bw_min: Option<u64>) -> Result<RqFacts, &'static str> {
    let of = &state.cpus[cpu];
    if !of.rt.known || !of.dl.known {
        return Err("the real-time and deadline classes' averages before their first record");
    }
    let Some(bw_min) = bw_min else { return Err("the deadline bandwidth before its first record") };
    let mut facts = RqFacts {
        capacity: state.machine.capacity[cpu],
        util_rt: of.rt.avg.util_avg,
        util_dl: of.dl.avg.util_avg,
        dl_running_bw: bw_min << 10,
        ..RqFacts::default()
    };
    if let Some((min, max)) = of.clamps {
        (facts.uclamp_used, facts.uclamp_min, facts.uclamp_max) = (true, min, max);
    }
    Ok(facts)
}

/// sugov_get_util(), v6.12. The recorded lower bound stands for bandwidth and real-time tasks alike.
fn sugov_util(
    state: &State<'_>,
    cpu: usize,
    moved: Option<(usize, u64, u64)>,
    boost: u64,
    bw_min: Option<u64>,
) -> Result<u64, &'static str> {
    perf(&SugovGates::V6_12, state, cpu, moved, boost, bw_min).map(|steps| steps.util)
}

/// The way to the performance that a CPU asks for, as the records show it.
fn perf(
    gates: &SugovGates,
    state: &State<'_>,
    cpu: usize,
    moved: Option<(usize, u64, u64)>,
    boost: u64,
    bw_min: Option<u64>,
) -> Result<PerfSteps, &'static str> {
    let Some(queue) = state.root(cpu).filter(|queue| queue.averages_known) else {
        return Err("the run queue's averages before their first record");
    };
    if !queue.util_est_known {
        return Err("the run queue's estimate before its first record");
    }
    let mut avg = queue.avg.avg;
    if let Some((of, util_avg, runnable_avg)) = moved
        && of == cpu
    {
        (avg.util_avg, avg.runnable_avg) = (util_avg, runnable_avg);
    }
    let rq = rq_facts(state, cpu, bw_min)?;
    let plain = avg.util_avg.max(avg.util_est.into()).min(rq.capacity);
    let boosted = plain.max(avg.runnable_avg).min(rq.capacity);
    Ok(gates.perf(&rq, (plain, boosted), (boost > 0).then_some(boost)))
}

/// topology_set_freq_scale(): the reference is the policy's highest frequency.
fn set_scale(ev: &Ev<'_>, state: &State<'_>, report: &mut RecordingReport) -> Option<()> {
    let cpu = ev.u("cpus")?.trailing_zeros() as usize;
    let policy = &state.machine.policies[policy_of(state.machine, cpu)?];
    report.compare("freq_scale_ref", ev.time_ns(), ev.u("max")?, policy.max_khz.into(), UNEXPLAINED);
    Some(())
}
