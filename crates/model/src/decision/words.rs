//! Decision records in words: the one home of sentences about decisions.
//!
//! ```text
//!   a simulated run ─┐
//!   a recording      ├─► Decision ─► words() ─► explain, the Perfetto track, the host's log
//!   the live host   ─┘
//! ```
//! Every number in a sentence is one of the record's, or follows from them by the formula that stands beside it. Not here: when
//! it happened, what happened around it, and how findings are strung together.

use super::{CODES, Decision, GrantLimit, NO_CPU, NONE, phrase, word};
use crate::cpus::format_cpu_list;
use crate::ids::{CpuIdx, IDLE_TASK, PlacementRule, TaskIdx};

/// How the numbers of a record are called where it was made.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    /// The policy's governor.
    pub governor: &'a str,
    /// The driver calls its frequencies P-states, P0 being the highest.
    pub p_states: bool,
    /// The policy's frequencies in kHz, ascending.
    pub opps_khz: &'a [u32],
    /// The policy's CPUs.
    pub cpus: &'a [CpuIdx],
    /// Whether the task that was current at a wake-up is known to have caused it.
    pub knows_waker: bool,
    /// The name of a task.
    pub task: &'a dyn Fn(TaskIdx) -> String,
}

/// A decision in words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    /// A few words, for a mark in a time line.
    pub title: String,
    /// The way from the inputs to the result.
    pub how: String,
    /// The whole sentence, without the time.
    pub text: String,
    /// What came of it, if that is a sentence of its own.
    pub outcome: String,
}

/// A frequency in MHz, with at most seven digits.
pub fn mhz(khz: u32) -> String {
    let text = format!("{}.{:03}", khz / 1000, khz % 1000);
    format!("{} MHz", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A length of time in a unit that reads well, with four digits.
fn length(ns: i64) -> String {
    let size = ns.unsigned_abs();
    let sign = if ns < 0 { "-" } else { "" };
    for (unit, per) in [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)] {
        if size >= per {
            let digits = (size / per).ilog10() + 1;
            let scale = 10_u64.pow(4_u32.saturating_sub(digits));
            let rounded = (u128::from(size) * u128::from(scale) + u128::from(per) / 2) / u128::from(per);
            let (whole, part) = (rounded / u128::from(scale), rounded % u128::from(scale));
            let text = format!("{whole}.{part:0width$}", width = scale.ilog10() as usize);
            let text = if scale == 1 { whole.to_string() } else { text };
            let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
            return format!("{sign}{text} {unit}");
        }
    }
    format!("{sign}{size} ns")
}

/// A factor of 1024 parts with two digits.
fn factor(parts: u32) -> String {
    let hundredths = (u64::from(parts) * 100 + 512) / 1024;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// Why a request became less.
const LIMITED: &str = ", as the limits allow no more";
/// Why a request became more.
const PASSED_OVER: &str = ", as lower ones are not allowed or not efficient";

impl Names<'_> {
    /// The least step between the table's frequencies: drivers without a table have steps of their own, which are smaller.
    fn step_khz(&self) -> u32 {
        self.opps_khz.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap_or(0)
    }

    /// Why a frequency did not become the lowest one that reaches it; empty if it did.
    fn resolved(&self, raw_khz: u32, khz: u32) -> &'static str {
        let Some(&last_khz) = self.opps_khz.last() else { return "" };
        let near_khz = self.opps_khz.iter().copied().find(|&known| known >= raw_khz).unwrap_or(last_khz);
        match khz {
            // Boost is beyond the table.
            _ if khz == near_khz || khz > last_khz => "",
            _ if khz < raw_khz => LIMITED,
            _ if khz - raw_khz < self.step_khz() => "",
            _ => PASSED_OVER,
        }
    }

    /// A frequency with its place in the table.
    pub fn point(&self, khz: u32) -> String {
        let table = self.opps_khz;
        match table.iter().position(|&known| known == khz) {
            None if table.last().is_some_and(|&last| khz > last) => format!("{} (boost)", mhz(khz)),
            None => mhz(khz),
            Some(place) if self.p_states => format!("{} (P{})", mhz(khz), table.len() - 1 - place),
            Some(place) => format!("{} (OPP {} of {})", mhz(khz), place + 1, table.len()),
        }
    }
}

/// A record in words. `lines` are the other records of the same decision: what energy-aware placement weighed.
pub fn words(decision: &Decision, lines: &[Decision], names: &Names<'_>) -> Words {
    match decision {
        Decision::Freq { .. } => frequency(decision, names),
        Decision::Sample { .. } => sample(decision, names),
        &Decision::Custom { cpu, outcome, util, max_cap, prev_khz, next_khz, .. } => {
            let how = if max_cap == 0 { String::new() } else { format!("util {util} of capacity {max_cap}") };
            // No formula names what it came to.
            let ends = match word("outcome", outcome) {
                Some("requested") if prev_khz == 0 => {
                    format!("Requested {} for the first time.", names.point(next_khz))
                }
                Some("requested") => format!("Requested {} instead of {}.", names.point(next_khz), mhz(prev_khz)),
                _ => asked(outcome, prev_khz, next_khz, names),
            };
            let because = if how.is_empty() { String::new() } else { format!(": {how}") };
            Words {
                title: format!("{}: {}", names.governor, word("outcome", outcome).unwrap_or("unknown")),
                text: format!("CPU {cpu} reported to {}{because}. {ends}", names.governor),
                how,
                outcome: ends,
            }
        }
        &Decision::Hwp { policy_cpu, least, most, desired, epp, demand_khz, level, hwp_rule, level_khz } => {
            let request = match desired {
                0 => format!("levels {least} to {most} at an energy-performance preference of {epp}"),
                desired => format!("level {desired} of {least} to {most}"),
            };
            let rule = phrase("hwp_rule", hwp_rule).unwrap_or("a rule that is not known");
            let khz = level.saturating_mul(level_khz);
            let demand = match (desired, demand_khz) {
                (0, u32::MAX) => "sees a demand without a limit and ".to_owned(),
                (0, khz) => format!("sees a demand of {} and ", mhz(khz)),
                // A desired level leaves it no choice.
                _ => String::new(),
            };
            let how = format!(
                "the driver asks for {request}; the firmware {demand}takes level {level} by {rule}: {level} x {} = {}",
                mhz(level_khz),
                mhz(khz)
            );
            Words {
                title: format!("HWP level {level}"),
                text: format!("CPU {policy_cpu}: {how}."),
                how,
                ..Words::default()
            }
        }
        Decision::Idle { .. } => idle(decision),
        &Decision::Grant { policy_cpu, requested_khz, granted_khz, limit, by_cpu, .. } => {
            let why = match phrase("limit", limit as u8).unwrap_or_default() {
                why if by_cpu == policy_cpu => why.to_owned(),
                _ => format!("CPU {by_cpu} has the same clock and asks for more than CPU {policy_cpu}"),
            };
            let (asked, granted) = (mhz(requested_khz), mhz(granted_khz));
            let is_plain = limit == GrantLimit::None && by_cpu == policy_cpu;
            let held = if is_plain { String::new() } else { format!(": {why}") };
            Words {
                title: format!("granted {granted} of {asked}{held}"),
                how: why,
                text: format!("the hardware was asked for {asked} and granted {granted}{held}."),
                outcome: String::new(),
            }
        }
        Decision::Placement { .. } => placement(decision, lines, names),
        Decision::Candidate { .. } => candidate(decision, lines),
        &Decision::Energy { dst_cpu, domain, energy, max_util, busy_time, .. } => {
            let how = format!("{energy} (max_util {max_util}, busy_time {busy_time})");
            let title = match dst_cpu {
                -1 => format!("energy of domain {domain} without it"),
                cpu => format!("energy of domain {domain} with it on CPU {cpu}"),
            };
            Words { text: format!("{title}: {how}."), title, how, outcome: String::new() }
        }
        &Decision::Balance { dst_cpu, src_cpu, level, span_weight, idle, migration, imbalance, moved, pushed } => {
            let state = phrase("idle", idle).unwrap_or("in a state that is not known");
            let kind = phrase("migration", migration).unwrap_or("of a kind that is not known");
            let how = format!(
                "CPU {dst_cpu} was {state} and looked over {span_weight} CPUs (level {level}); an imbalance {kind} of {imbalance}"
            );
            let tasks = if moved == 1 { "1 task".to_owned() } else { format!("{moved} tasks") };
            let outcome = match (pushed, moved) {
                (true, _) => format!("the stopper pushes CPU {src_cpu}'s running task"),
                (false, 0) => format!("nothing is pulled from CPU {src_cpu}"),
                (false, _) => format!("pulls {tasks} from CPU {src_cpu}"),
            };
            Words { title: outcome.clone(), text: format!("{how}; {outcome}."), how, outcome }
        }
        &Decision::Throttle { cpu, throttled, .. } => {
            let how = if throttled { "a quota ran out" } else { "a quota has time again" }.to_owned();
            let outcome =
                format!("a control group's queue on CPU {cpu} {}", if throttled { "stops" } else { "goes on" });
            Words { title: how.clone(), text: format!("{how}: {outcome}."), how, outcome }
        }
        &Decision::DlThrottle { task, throttled, constrained, yielded, .. } => {
            let how = match (throttled, constrained, yielded) {
                (false, ..) => "the next period begins",
                (true, true, _) => "its deadline has passed, and its period has not ended",
                (true, false, true) => "it gave the rest of its runtime away (sched_yield())",
                (true, false, false) => "its runtime is used up (dl-runtime)",
            };
            let how = how.to_owned();
            let task = (names.task)(task);
            let outcome =
                if throttled { format!("{task} waits for its next period") } else { format!("{task} may run again") };
            Words { title: outcome.clone(), text: format!("{how}: {outcome}."), how, outcome }
        }
        &Decision::RtThrottle { cpu, throttled } => {
            let (how, outcome) = match throttled {
                true => ("the runtime of the period is used up (sched_rt_runtime_us)", "wait for the next period"),
                false => ("the next period begins (sched_rt_period_us)", "may run again"),
            };
            let (how, outcome) = (how.to_owned(), format!("real-time tasks on CPU {cpu} {outcome}"));
            Words { title: outcome.clone(), text: format!("{how}: {outcome}."), how, outcome }
        }
    }
}

/// What became of a report to a governor.
fn asked(outcome: u8, prev_khz: u32, next_khz: u32, names: &Names<'_>) -> String {
    match word("outcome", outcome) {
        Some("requested") if next_khz == 0 => "Requested.".to_owned(),
        Some("requested") if prev_khz == 0 => "Requested for the first time.".to_owned(),
        Some("requested") if prev_khz == next_khz => format!(
            "Requested {}, the same as before: deadline bandwidth or a limit changed, after which the kernel asks anew.",
            mhz(next_khz)
        ),
        Some("requested") => format!("Requested instead of {}.", mhz(prev_khz)),
        Some("held") if next_khz == 0 => {
            "The level before stays: the CPU had not idled with its tick stopped.".to_owned()
        }
        Some("held") => format!("{} stays: the CPU had not idled with its tick stopped.", names.point(next_khz)),
        Some("rate-limited") => format!("The rate limit keeps {}.", mhz(next_khz)),
        Some("unchanged") => format!("{} is what was asked for before.", mhz(next_khz)),
        Some(other) => format!("It {}.", phrase("outcome", outcome).unwrap_or(other)),
        None => String::new(),
    }
}

/// schedutil's.
fn frequency(decision: &Decision, names: &Names<'_>) -> Words {
    let Decision::Freq {
        cpu,
        deciding_cpu,
        iowait,
        outcome,
        max_cap,
        ref_khz,
        raw_khz,
        wanted_khz,
        prev_khz,
        next_khz,
        target_perf,
        util,
        ..
    } = *decision
    else {
        return Words::default();
    };
    let utilisation = utilisation(decision);
    let share = if max_cap == 1024 { String::new() } else { format!(" of capacity {max_cap}") };
    let how = if max_cap == 0 {
        "nobody looked at its utilisation".to_owned()
    } else if wanted_khz == 0 {
        // cpufreq_driver_adjust_perf(): levels, not frequencies.
        let asked = match word("outcome", outcome) {
            Some("rate-limited" | "cannot-update") => "wanted, but not asked of the driver",
            _ => "asked of the driver (adjust_perf)",
        };
        // A busy CPU's level is kept.
        let kept = if target_perf == util { "" } else { " (as before)" };
        format!("{utilisation}: performance {target_perf} of {max_cap}{kept} {asked}")
    } else {
        let Decision::Freq { headroom, headroom_place, .. } = *decision else { return Words::default() };
        let reference = match word("headroom_place", headroom_place) {
            Some("in-frequency") => {
                let with = (u64::from(ref_khz) * u64::from(headroom)) >> 10;
                let with = u32::try_from(with).unwrap_or(u32::MAX);
                format!("f_ref {}, headroom {} -> {}", mhz(ref_khz), factor(headroom), mhz(with))
            }
            _ => format!("f_ref {}", mhz(ref_khz)),
        };
        let raw = format!("{utilisation}{share}; {reference} -> {}", raw_khz.saturating_add(500) / 1000);
        // A busy CPU's clock is kept, whatever the utilisation resolves to.
        match word("outcome", outcome) {
            Some("held") => format!("{raw} MHz"),
            _ => format!("{raw} -> resolved {}{}", names.point(wanted_khz), names.resolved(raw_khz, wanted_khz)),
        }
    };
    let reporter = if cpu == NO_CPU { "A CPU".to_owned() } else { format!("CPU {cpu}") };
    let mut text = format!("{reporter} reported to {}", names.governor);
    if iowait {
        text += " (a task that waited for I/O woke)";
    }
    if names.cpus.len() > 1 {
        text += &format!(", which serves CPUs {}", format_cpu_list(names.cpus));
        if deciding_cpu != NO_CPU {
            text += &format!("; CPU {deciding_cpu} needs most");
        }
    }
    let outcome_text = asked(outcome, prev_khz, next_khz, names);
    let title = match word("outcome", outcome) {
        Some("rate-limited") => format!("rate limit holds back {}", mhz(wanted_khz)),
        Some(word) => format!("{} {word}", mhz(wanted_khz)),
        None => mhz(wanted_khz),
    };
    Words { title, text: format!("{text}: {how}."), how, outcome: outcome_text }
}

/// The parts of a utilisation, and what became of their sum.
fn utilisation(decision: &Decision) -> String {
    let Decision::Freq {
        deciding_cpu,
        util_cfs,
        runnable_boost,
        util_rt,
        util_dl,
        util_irq,
        bw_dl,
        iowait_boost,
        uclamp_min,
        uclamp_max,
        util_sum,
        headroom,
        headroom_place,
        bound,
        util,
        max_cap,
        ..
    } = *decision
    else {
        return String::new();
    };
    let cfs = if runnable_boost { "util_avg (runnable)" } else { "util" };
    let mut parts = format!("{cfs} {util_cfs}");
    if util_rt > 0 {
        parts += &format!(" + rt {util_rt}");
    }
    parts += &format!(" + dl {util_dl}");
    if util_irq > 0 {
        parts += &format!(" + irq {util_irq}");
    }
    let Some(bound_word) = word("bound", bound) else {
        // A recording that does not hold what acted on the sum.
        let util = match word("headroom_place", headroom_place) {
            Some("in-effective-perf") if deciding_cpu == NO_CPU => return format!("{util} with headroom and bounds"),
            Some("in-effective-perf") => {
                return format!("{parts}; with headroom, bounds and what is not recorded {util}");
            }
            Some("in-clamped-util") => format!("{util_sum}, headroom {} -> {util}", factor(headroom)),
            _ => util.to_string(),
        };
        return match deciding_cpu {
            NO_CPU => format!("util {util}"),
            _ => format!("{parts}; with what is not recorded {util}"),
        };
    };
    if iowait_boost > 0 {
        parts += &format!(", iowait boost {iowait_boost}");
    }
    let place = word("headroom_place", headroom_place);
    let limit = match bound_word {
        "capacity" => format!("at most the capacity {max_cap}"),
        "uclamp-max" => format!("at most uclamp.max {uclamp_max}"),
        "uclamp-min" if place != Some("in-effective-perf") && uclamp_min > util_sum => {
            format!("at least uclamp.min {uclamp_min}, at most the capacity {max_cap}")
        }
        "uclamp-min" => format!("at least uclamp.min {uclamp_min}"),
        "bandwidth" if util_irq > 0 => format!("at least dl bandwidth {bw_dl} and irq {util_irq}"),
        "bandwidth" => format!("at least dl bandwidth {bw_dl}"),
        _ => phrase("bound", bound).unwrap_or_default().to_owned(),
    };
    let product = (u64::from(util_sum) * u64::from(headroom)) >> 10;
    match place {
        Some("in-effective-perf") => {
            if u64::from(util_sum) != u64::from(util_cfs) + u64::from(util_rt) + u64::from(util_dl) {
                parts += &format!(" = {util_sum}");
            }
            let bounded = if bound_word == "none" { String::new() } else { format!(", {limit} -> {util}") };
            format!("{parts}, headroom {} -> {product}{bounded}", factor(headroom))
        }
        place => {
            let bounded = match bound_word {
                "none" => format!("{parts} = {util_sum}"),
                _ => format!("{parts}, {limit} -> {util_sum}"),
            };
            match place {
                Some("in-frequency") => bounded,
                _ => format!("{bounded}, headroom {} -> {product}", factor(headroom)),
            }
        }
    }
}

/// A sampling governor's.
fn sample(decision: &Decision, names: &Names<'_>) -> Words {
    let Decision::Sample { load, threshold, sample_rule, target_khz, prev_khz, next_khz, .. } = *decision else {
        return Words::default();
    };
    let rule = phrase("sample_rule", sample_rule).unwrap_or("a rule that is not known");
    let threshold = match word("sample_rule", sample_rule) {
        Some("low-half" | "no-step") | None => String::new(),
        // intel_pstate has none.
        Some(_) if threshold == 0 => String::new(),
        Some(_) => format!(" (threshold {threshold} %)"),
    };
    let target = if target_khz == 0 { String::new() } else { format!(", {}", mhz(target_khz)) };
    let outcome = if next_khz == prev_khz {
        format!("it stays at {}", names.point(next_khz))
    } else {
        format!("{} -> {}", mhz(prev_khz), names.point(next_khz))
    };
    let how = match word("sample_rule", sample_rule) {
        Some("first") => rule.to_owned(),
        _ => format!("the busiest CPU was busy for {load} % of it, {rule}{threshold}{target}"),
    };
    // A step down goes to the lowest point that reaches it, and each rule to a point that it hits.
    let down = word("sample_rule", sample_rule) == Some("step-down");
    let near_khz = names.opps_khz.iter().copied().find(|&khz| target_khz > 0 && khz >= target_khz);
    let is_near = |khz: u32| khz.abs_diff(next_khz) < names.step_khz();
    let held = match near_khz.filter(|&khz| down || khz == target_khz) {
        Some(khz) if is_near(khz) || is_near(target_khz) => "",
        Some(khz) if khz > next_khz => LIMITED,
        Some(khz) if khz < next_khz => PASSED_OVER,
        _ => "",
    };
    Words {
        title: outcome.clone(),
        text: format!("{} took a sample: {how}: {outcome}{held}.", names.governor),
        how,
        outcome,
    }
}

/// The choice of an idle state.
fn idle(decision: &Decision) -> Words {
    let Decision::Idle {
        cpu,
        state,
        nr_states,
        residency_ns,
        deeper_ns,
        sleep_length_ns,
        delta_tick_ns,
        stop_tick,
        tick_stopped,
        queried,
    } = *decision
    else {
        return Words::default();
    };
    let span = |ns: u64| length(i64::try_from(ns).unwrap_or(i64::MAX));
    let timer = match queried {
        true => format!("the next timer is {} away", length(sleep_length_ns)),
        false => format!("the governor did not look at the timers; the next tick is {} away", length(delta_tick_ns)),
    };
    let deeper = match state + 1 < nr_states {
        true => format!("the next deeper one pays from {} on", span(deeper_ns)),
        false => "there is no deeper one".to_owned(),
    };
    let tick = match (tick_stopped, stop_tick) {
        (true, _) => "the tick is stopped already",
        (false, true) => "the tick is stopped",
        (false, false) => "the tick goes on",
    };
    let how = format!("{timer}; state {state} pays from {} on, {deeper}; {tick}", span(residency_ns));
    Words {
        title: format!("idle state {state}"),
        text: format!("CPU {cpu} went idle: {how}."),
        how,
        outcome: format!("State {state} of {nr_states}."),
    }
}

/// Where a task was placed.
fn placement(decision: &Decision, lines: &[Decision], names: &Names<'_>) -> Words {
    let Decision::Placement {
        task,
        fork,
        prev_cpu,
        cpu,
        rule,
        waker_cpu,
        waker,
        in_interrupt,
        sync,
        util_avg,
        util_est,
        eas_rule,
        ..
    } = *decision
    else {
        return Words::default();
    };
    let woken = (names.task)(task);
    let waker = match (in_interrupt, names.knows_waker) {
        (true, _) if waker == IDLE_TASK => format!("an interrupt on CPU {waker_cpu} (idle)"),
        (true, _) => format!("an interrupt on CPU {waker_cpu} (in {})", (names.task)(waker)),
        (false, true) => format!("{} on CPU {waker_cpu}", (names.task)(waker)),
        (false, false) => format!("CPU {waker_cpu}, which ran {},", (names.task)(waker)),
    };
    let utils =
        if util_avg == u32::MAX { String::new() } else { format!("util_avg {util_avg}, task_util_est {util_est}") };
    let why = phrase("rule", rule as u8).unwrap_or_default();
    if fork {
        let text = format!("{waker} started {woken} ({utils}, its parent on CPU {prev_cpu}) on CPU {cpu}: {why}.");
        return Words { title: format!("started on CPU {cpu}"), how: why.to_owned(), text, outcome: String::new() };
    }
    let sync = if sync { " (sync)" } else { "" };
    let utils = if utils.is_empty() { utils } else { format!(" ({utils})") };
    let head = format!("{waker} woke {woken}{sync}{utils}, last on CPU {prev_cpu}.");
    let title = format!("placed on CPU {cpu}");
    let simple = |sentence: String| Words {
        title: title.clone(),
        text: format!("{head} {sentence}"),
        how: why.to_owned(),
        outcome: String::new(),
    };
    match rule {
        PlacementRule::Pinned => simple(format!("It may run on CPU {cpu} only.")),
        PlacementRule::Custom => simple(format!("A placement policy from outside chose CPU {cpu}.")),
        PlacementRule::Deadline => simple(format!("Deadline: CPU {cpu}, {why}.")),
        PlacementRule::Idlest => simple(format!("CPU {cpu}: {why}.")),
        PlacementRule::RealTime => simple(format!("Real-time: CPU {cpu}, {why}.")),
        PlacementRule::Eas => {
            let count = lines.iter().filter(|line| matches!(line, Decision::Candidate { .. })).count();
            let weighed = match count {
                0 => String::new(),
                1 => " Energy-aware placement weighed 1 CPU:".to_owned(),
                count => format!(" Energy-aware placement weighed {count} CPUs:"),
            };
            let how = match (phrase("eas_rule", eas_rule), word("eas_rule", eas_rule)) {
                (Some(phrase), Some(word)) => format!("{phrase} ({word})"),
                _ => "chosen".to_owned(),
            };
            Words { title, text: format!("{head}{weighed}"), outcome: format!("CPU {cpu}: {how}."), how }
        }
        _ => {
            let how = search(decision);
            Words { title, text: format!("{head} {how}"), how, outcome: String::new() }
        }
    }
}

/// A placement without energy, which found a CPU.
fn search(decision: &Decision) -> String {
    let Decision::Placement {
        waker_cpu,
        prev_cpu,
        cpu,
        overutilized,
        wake_wide,
        imbalance_pct,
        affine_rule,
        this_load,
        prev_load,
        task_load,
        target,
        sibling_rule,
        nr_idle,
        ..
    } = *decision
    else {
        return String::new();
    };
    let mut parts = Vec::new();
    if overutilized {
        parts.push("A CPU is overutilised, so that energy does not count.".to_owned());
    }
    // Who was last where the waker is starts there in any case.
    if wake_wide && waker_cpu != prev_cpu {
        parts.push(format!(
            "Waker and wakee wake many others (wake_wide), so that they are kept apart: the search starts at CPU {target}."
        ));
    } else if let Some(affine) = phrase("affine_rule", affine_rule) {
        let weighs = word("affine_rule", affine_rule) == Some("weight") && imbalance_pct > 0;
        let loads = match weighs {
            true => format!(
                " (load {this_load} here, {prev_load} there, the task's {task_load}; imbalance_pct {imbalance_pct})"
            ),
            false => String::new(),
        };
        let moved = if target == prev_cpu { "it stays with its previous CPU" } else { "pulled to the waking CPU" };
        parts.push(format!("wake_affine: {affine}{loads}: {moved}, so that the search starts at CPU {target}."));
    } else {
        parts.push(format!("The search starts at CPU {target}, where it ran last."));
    }
    if let Some(sibling) = phrase("sibling_rule", sibling_rule) {
        let idle = if nr_idle == 1 { "1 idle CPU".to_owned() } else { format!("{nr_idle} idle CPUs") };
        parts.push(format!("select_idle_sibling ({idle} in its cache): {sibling}: CPU {cpu}."));
    }
    parts.join(" ")
}

/// A CPU that energy-aware placement weighed; `lines` hold its placement and the energies.
fn candidate(decision: &Decision, lines: &[Decision]) -> Words {
    let Decision::Candidate { cpu, domain, util, capacity, spare_cap, fits, .. } = *decision else {
        return Words::default();
    };
    let energy_on = |dst: i32| {
        lines.iter().find_map(|line| match *line {
            Decision::Energy { dst_cpu, domain: of, energy, max_util, .. } if dst_cpu == dst && of == domain => {
                Some((energy, max_util))
            }
            _ => None,
        })
    };
    let used = if capacity == 0 { String::new() } else { format!("its utilisation is {util} of {capacity}, ") };
    let mut how = format!("with the task {used}{spare_cap} to spare");
    if fits < 0 {
        how += ", but its lower clamp can not be granted";
    }
    let with_task = i32::try_from(cpu).ok().and_then(energy_on);
    if let Some(((without, _), (with, max_util))) = energy_on(-1).zip(with_task) {
        let delta = i128::from(with) - i128::from(without);
        how += &format!("; energy of its domain {without} -> {with} ({delta:+}), its clock for {max_util}");
    }
    let chosen = lines.iter().any(|line| matches!(*line, Decision::Placement { cpu: to, .. } if to == cpu));
    Words {
        title: format!("candidate CPU {cpu}"),
        text: format!("CPU {cpu}: {how}.{}", if chosen { " <- chosen" } else { "" }),
        how,
        outcome: String::new(),
    }
}

/// Each number of a record in words: its word where it stands for one.
pub fn facts(decision: &Decision, mut show: impl FnMut(&'static str, Result<&'static str, i128>)) {
    decision.each(|name, number| {
        let code = u8::try_from(number).ok().filter(|_| CODES.iter().any(|(column, _)| *column == name));
        match code {
            Some(NONE) => {}
            Some(code) => show(name, word(name, code).ok_or(number)),
            None => show(name, Err(number)),
        }
    });
}
