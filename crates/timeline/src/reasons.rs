//! Why a run decided as it did, as annotations for a trace viewer: the decision records, found by when and where.
//!
//! Numbers are the records' own columns; small numbers that stand for words are given as the words. `why` is the chain
//! in one line. Records are only those of the kernel's own governors and placements.

use std::collections::BTreeMap;

use opplab_model::decision::{Decision, GrantLimit, NONE, word};
use opplab_model::event::{Event, Sink};
use opplab_trace::write::Annotation;

/// Annotations of one instant, with names of their own.
#[derive(Debug, Default)]
pub struct Notes(Vec<(String, Note)>);

#[derive(Debug)]
enum Note {
    Int(i64),
    Text(String),
}

impl Note {
    fn annotation(&self) -> Annotation<'_> {
        match self {
            Self::Int(value) => Annotation::Int(*value),
            Self::Text(text) => Annotation::Text(text),
        }
    }
}

impl Notes {
    fn int(&mut self, name: &str, value: impl TryInto<i64>) -> &mut Self {
        self.0.push((name.to_owned(), Note::Int(value.try_into().unwrap_or(i64::MAX))));
        self
    }

    fn text(&mut self, name: &str, text: impl Into<String>) -> &mut Self {
        self.0.push((name.to_owned(), Note::Text(text.into())));
        self
    }

    /// As the writer takes them.
    pub fn annotations(&self) -> Vec<(&str, Annotation<'_>)> {
        self.0.iter().map(|(name, note)| (name.as_str(), note.annotation())).collect()
    }
}

fn mhz(khz: u32) -> String {
    let tenths = (u64::from(khz) + 50) / 100;
    if tenths % 10 == 0 { (tenths / 10).to_string() } else { format!("{}.{}", tenths / 10, tenths % 10) }
}

/// The decisions of a run, as a sink keeps them.
#[derive(Debug, Default)]
pub struct Reasons {
    /// Frequency decisions by time and first CPU of the policy: the last one of an instant counts.
    requests: BTreeMap<(u64, u32), Decision>,
    /// Placements by time and task.
    placements: BTreeMap<(u64, u32), Decision>,
    /// What energy-aware placements weighed, in the order of the placements' numbers.
    weighed: Vec<(u64, Decision)>,
    /// What has no event, with time and CPU.
    others: Vec<(u64, u32, Decision)>,
}

impl Reasons {
    /// What the request of `policy_cpu`'s policy at `time_ns` was made of.
    pub fn request(&self, time_ns: u64, policy_cpu: u32) -> Notes {
        self.requests.get(&(time_ns, policy_cpu)).map_or_else(Notes::default, request)
    }

    /// Why `task` was placed at `time_ns` where it was.
    pub fn placement(&self, time_ns: u64, task: u32) -> Notes {
        let Some(decision) = self.placements.get(&(time_ns, task)) else { return Notes::default() };
        let mut notes = placed(decision);
        if let Decision::Placement { decision: number, .. } = *decision {
            let first = self.weighed.partition_point(|(of, _)| *of < number);
            let own = self.weighed[first..].iter().take_while(|(of, _)| *of == number);
            own.for_each(|(_, decision)| weighed(&mut notes, decision));
        }
        notes
    }

    /// Decisions on `cpu` that no event tells of: requests that the rate limit held back, limited grants, pulled tasks.
    pub fn others(&self, cpu: u32) -> impl Iterator<Item = (u64, String, Notes)> {
        let here = self.others.iter().filter(move |(_, at, _)| *at == cpu);
        here.map(|(time_ns, _, decision)| {
            let (name, notes) = other(decision);
            (*time_ns, name, notes)
        })
    }
}

/// The inputs of a frequency request.
fn request(decision: &Decision) -> Notes {
    let mut notes = Notes::default();
    let Decision::Freq {
        policy_cpu: _,
        cpu,
        deciding_cpu,
        iowait,
        outcome,
        util_cfs,
        runnable_boost,
        util_rt,
        util_dl,
        util_irq,
        bw_dl,
        iowait_boost,
        uclamp_min,
        uclamp_max,
        rt_runnable,
        util_sum,
        util,
        max_cap,
        ref_khz,
        raw_khz,
        wanted_khz,
        prev_khz,
        next_khz,
        wait_ns,
    } = *decision
    else {
        if let Decision::Sample { cpu, load, prev_khz, next_khz, .. } = *decision {
            notes.int("sampling_cpu", cpu).int("load_percent", load);
            notes.int("prev_khz", prev_khz).int("next_khz", next_khz);
        }
        return notes;
    };
    let outcome = word("outcome", outcome).unwrap_or_default();
    let mut parts = format!("cfs {util_cfs}");
    for (name, part) in [("rt", util_rt), ("dl", util_dl), ("irq", util_irq), ("iowait boost", iowait_boost)] {
        if part > 0 {
            parts += &format!(", {name} {part}");
        }
    }
    notes
        .text(
            "why",
            format!(
                "{parts}: {util_sum} in all, {util} of {max_cap} with headroom and bounds; {} MHz x {util} / {max_cap} \
                     = {} MHz, resolved to {} MHz",
                mhz(ref_khz),
                mhz(raw_khz),
                mhz(wanted_khz)
            ),
        )
        .text("outcome", outcome)
        .int("reporting_cpu", cpu)
        .int("deciding_cpu", deciding_cpu)
        .int("iowait", u8::from(iowait))
        .int("util_cfs", util_cfs)
        .int("runnable_boost", u8::from(runnable_boost))
        .int("util_rt", util_rt)
        .int("util_dl", util_dl)
        .int("util_irq", util_irq)
        .int("bw_dl", bw_dl)
        .int("iowait_boost", iowait_boost)
        .int("uclamp_min", uclamp_min)
        .int("uclamp_max", uclamp_max)
        .int("rt_runnable", u8::from(rt_runnable))
        .int("util_sum", util_sum)
        .int("util_decided", util)
        .int("ref_khz", ref_khz)
        .int("raw_khz", raw_khz)
        .int("wanted_khz", wanted_khz)
        .int("prev_khz", prev_khz)
        .int("next_khz", next_khz);
    if wait_ns > 0 {
        notes.int("wait_ns", wait_ns);
    }
    notes
}

/// The reasons of a placement.
fn placed(decision: &Decision) -> Notes {
    let mut notes = Notes::default();
    let Decision::Placement {
        decision: _,
        task: _,
        fork,
        prev_cpu,
        cpu,
        rule: _,
        waker_cpu,
        waker: _,
        in_interrupt,
        sync,
        nr_allowed,
        util_avg,
        util_est,
        overutilized,
        eas_rule,
        wake_wide,
        imbalance_pct: _,
        affine_rule,
        this_load,
        prev_load,
        task_load,
        target,
        sibling_rule,
        nr_idle,
    } = *decision
    else {
        return notes;
    };
    let mut why = Vec::new();
    if eas_rule != NONE {
        why.push(format!("energy-aware: {}", word("eas_rule", eas_rule).unwrap_or_default()));
    }
    if wake_wide {
        why.push(String::from("the waker wakes many: from the CPU before"));
    }
    if affine_rule != NONE {
        let rule = word("affine_rule", affine_rule).unwrap_or_default();
        why.push(format!("affine by {rule}: search from cpu {target}"));
    }
    if sibling_rule != NONE {
        let rule = word("sibling_rule", sibling_rule).unwrap_or_default();
        why.push(format!("{rule}, of {nr_idle} idle CPUs"));
    }
    if !why.is_empty() {
        notes.text("why", why.join("; "));
    }
    notes
        .int("fork", u8::from(fork))
        .int("from_cpu", prev_cpu)
        .int("to_cpu", cpu)
        .int("waker_cpu", waker_cpu)
        .int("in_interrupt", u8::from(in_interrupt))
        .int("sync", u8::from(sync))
        .int("nr_allowed", nr_allowed)
        .int("util_avg", util_avg)
        .int("util_est", util_est)
        .int("overutilized", u8::from(overutilized));
    if affine_rule != NONE {
        notes.int("this_load", this_load).int("prev_load", prev_load).int("task_load", task_load);
    }
    notes
}

/// What energy-aware placement weighed.
fn weighed(notes: &mut Notes, decision: &Decision) {
    match *decision {
        Decision::Candidate { cpu, domain, util, capacity, spare_cap, fits, .. } => {
            let fit = if fits == 1 { "fits" } else { "does not fit" };
            let words = format!("util {util} of {capacity}, spare {spare_cap}, {fit}, domain {domain}");
            notes.text(&format!("candidate cpu {cpu}"), words);
        }
        Decision::Energy { dst_cpu, domain, energy, max_util, busy_time, .. } => {
            let name = match dst_cpu {
                -1 => format!("energy of domain {domain} without it"),
                cpu => format!("energy of domain {domain} with it on cpu {cpu}"),
            };
            notes.text(&name, format!("{energy} (max_util {max_util}, busy_time {busy_time})"));
        }
        _ => {}
    }
}

/// Name and inputs of what has no event.
fn other(decision: &Decision) -> (String, Notes) {
    let mut notes = Notes::default();
    let name = match *decision {
        Decision::Freq { wanted_khz, .. } => {
            notes = request(decision);
            format!("rate limit holds back {} MHz", mhz(wanted_khz))
        }
        Decision::Grant { requested_khz, granted_khz, limit, .. } => {
            let limit = word("limit", limit as u8).unwrap_or_default();
            notes.text("limit", limit).int("requested_khz", requested_khz).int("granted_khz", granted_khz);
            format!("granted {} of {} MHz: {limit}", mhz(granted_khz), mhz(requested_khz))
        }
        Decision::Balance { src_cpu, level, span_weight, idle, migration, imbalance, moved, pushed, .. } => {
            notes.int("level", level).int("span_weight", span_weight).int("imbalance", imbalance);
            notes.text("idle", word("idle", idle).unwrap_or_default());
            notes.text("migration", word("migration", migration).unwrap_or_default());
            if pushed {
                format!("pulls the running task from cpu {src_cpu}")
            } else {
                format!("pulls {moved} tasks from cpu {src_cpu}")
            }
        }
        _ => String::new(),
    };
    (name, notes)
}

impl Sink for Reasons {
    const ENABLED: bool = false;
    const DECISIONS: bool = true;

    fn event(&mut self, _now_ns: u64, _event: &Event) {}

    fn decision(&mut self, now_ns: u64, decision: &Decision) {
        match *decision {
            Decision::Freq { policy_cpu, cpu, outcome, prev_khz, wanted_khz, .. } => match word("outcome", outcome) {
                Some("requested") => {
                    self.requests.insert((now_ns, policy_cpu), *decision);
                }
                Some("rate-limited") if wanted_khz != prev_khz => self.others.push((now_ns, cpu, *decision)),
                _ => {}
            },
            Decision::Sample { policy_cpu, .. } => {
                self.requests.insert((now_ns, policy_cpu), *decision);
            }
            Decision::Grant { policy_cpu, limit, .. } => {
                if limit != GrantLimit::None {
                    self.others.push((now_ns, policy_cpu, *decision));
                }
            }
            Decision::Placement { task, .. } => {
                self.placements.insert((now_ns, task), *decision);
            }
            Decision::Candidate { decision: number, .. } | Decision::Energy { decision: number, .. } => {
                self.weighed.push((number, *decision));
            }
            Decision::Balance { dst_cpu, moved, pushed, .. } => {
                if moved > 0 || pushed {
                    self.others.push((now_ns, dst_cpu, *decision));
                }
            }
        }
    }
}
