//! The experiment itself: warm-up, runs of the baseline against itself, then blocks until the rule ends them.

use std::io::Write;

use super::bench::{Bench, Ran};
use super::design::{Resolution, blocks_needed, order};
use super::external::{LOOK_NS, Meter, WAIT_NS};
use super::figures::Figure;
use super::log::{Kind, Log, Run};
use super::measure::{Meters, POLL_NS, Quantity, temperature};
use super::reboot::running;
use super::settings::Settings;
use super::variants::Variant;
use crate::error::HostError;

/// How an experiment is run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The variants, the baseline first.
    pub variants: Vec<Variant>,
    /// Runs before anything counts.
    pub warm_up: u32,
    /// Runs of the baseline after each other.
    pub same: u32,
    /// The most blocks.
    pub blocks_max: u32,
    /// No block begins after this time.
    pub for_ns: Option<u64>,
    /// Rest before each run.
    pub rest_ns: u64,
    /// Rest until the hottest sensor is back, at most two minutes.
    pub cool: bool,
    /// Load of others, in CPUs, above which a run is spoilt.
    pub others_cpus: f64,
    /// The most blocks that are repeated.
    pub repeats_max: u32,
    /// Readers of the program's output.
    pub figures: Vec<Figure>,
    /// An external meter.
    pub meter: Option<Meter>,
}

/// How an experiment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By the rule: intervals are as narrow as asked.
    Narrow,
    /// The most blocks, or the time, came first.
    Limit,
    /// Somebody ended it.
    Stopped,
    /// The next run is of another kernel: that of this variant.
    Reboot(usize),
}

/// Longest wait for the temperature, and how near it is enough, millidegrees.
const COOL_NS: u64 = 120_000_000_000;
const COOL_MC: i64 = 2_000;

struct Runner<'a> {
    plan: &'a Plan,
    bench: &'a mut dyn Bench,
    settings: &'a mut Settings,
    meters: Meters,
    cold_mc: Option<i64>,
    in_force: Option<usize>,
}

/// Runs an experiment, or the rest of one.
///
/// # Errors
/// A setting that the host refuses, a program that fails, a file that cannot be written.
pub fn experiment(
    plan: &Plan,
    bench: &mut dyn Bench,
    settings: &mut Settings,
    log: &mut Log,
    err: &mut dyn Write,
) -> Result<Ended, HostError> {
    let meters = Meters::open(bench.root());
    for (what, why) in &meters.lacking {
        let _ = writeln!(err, "note: not measured: {what} ({why})");
    }
    let begin_ns = bench.now().time_ns;
    let cold_mc = temperature(bench.root());
    let mut runner = Runner { plan, bench, settings, meters, cold_mc, in_force: None };
    for (kind, count) in [(Kind::WarmUp, plan.warm_up), (Kind::Same, plan.same)] {
        for number in 0..count {
            if let Some(ended) = runner.once(log, kind, number, 0, 0)? {
                return Ok(ended);
            }
        }
    }
    if let Some(found) = resolution(log) {
        let _ = writeln!(
            err,
            "A/A: runs of one variant differ by {:.2} %; an interval of +-1 % takes about {} blocks",
            100.0 * found.deviation.exp_m1(),
            found.blocks_of_percent
        );
    }
    let pilot = log.head.pilot.max(2);
    let mut needed = pilot;
    let mut n_repeated: u32 = 0;
    let mut has_told = false;
    for block in 0..plan.blocks_max.max(pilot) {
        if block == pilot {
            needed = blocks_by_rule(log).clamp(u64::from(pilot), u64::from(plan.blocks_max.max(pilot))) as u32;
            let more = needed - pilot;
            let _ = writeln!(err, "pilot: {pilot} blocks; {more} more by its deviation");
        }
        if block >= needed {
            break;
        }
        for repeat in 0.. {
            let is_late = plan.for_ns.is_some_and(|ns| runner.bench.now().time_ns.saturating_sub(begin_ns) >= ns);
            let n_variants = plan.variants.len();
            let is_done = (0..n_variants).all(|variant| log.has(Kind::Block, block, repeat, variant));
            if is_late && !is_done {
                return Ok(Ended::Limit);
            }
            // A repeated block has an order of its own.
            let drawn = order(log.head.seed ^ (u64::from(repeat) << 32), block, n_variants);
            for variant in by_kernel(&plan.variants, &drawn) {
                if let Some(ended) = runner.once(log, Kind::Block, block, repeat, variant)? {
                    return Ok(ended);
                }
            }
            let of_block = |run: &&Run| (run.kind, run.block, run.repeat) == (Kind::Block, block, repeat);
            let why = log.runs.iter().filter(of_block).find_map(|run| run.spoilt.first());
            match why {
                Some(why) if n_repeated < plan.repeats_max => {
                    n_repeated += 1;
                    let _ = writeln!(err, "block {}: {why}; it is repeated", block + 1);
                }
                Some(why) => {
                    if !has_told {
                        has_told = true;
                        let _ = writeln!(err, "note: block {}: {why}; such blocks count from here on", block + 1);
                    }
                    break;
                }
                None => break,
            }
        }
    }
    let is_narrow = blocks_by_rule(log) <= u64::from(needed);
    Ok(if is_narrow { Ended::Narrow } else { Ended::Limit })
}

/// An order in which the variants of one kernel follow each other, so that a block has one start of each kernel.
fn by_kernel(variants: &[Variant], drawn: &[usize]) -> Vec<usize> {
    let kernel = |at: usize| variants.get(at).and_then(|variant| variant.kernel.as_deref());
    let first = |of: Option<&str>| drawn.iter().position(|&at| kernel(at) == of);
    let mut found = drawn.to_vec();
    found.sort_by_key(|&at| first(kernel(at)));
    found
}

/// Blocks that the rule asks for: what the widest comparison needs.
fn blocks_by_rule(log: &Log) -> u64 {
    let (metric, within) = (log.metric(), f64::from(log.head.within_ppm) / 1e6);
    let needed = |variant: usize| {
        let logs = log.logs(&metric, variant)?;
        Some(blocks_needed(logs.get(..log.head.pilot as usize)?, within))
    };
    (1..log.head.variants.len()).map(|variant| needed(variant).unwrap_or(u64::MAX)).max().unwrap_or(0)
}

/// What runs of one variant show of the machine.
pub fn resolution(log: &Log) -> Option<Resolution> {
    let metric = log.metric();
    let same = log.runs.iter().filter(|run| run.kind == Kind::Same && run.spoilt.is_empty());
    Resolution::of(&same.filter_map(|run| run.value(&metric)).collect::<Vec<_>>())
}

impl Runner<'_> {
    /// Runs a variant once, unless the log has it; how the experiment ends, if it does here.
    fn once(
        &mut self,
        log: &mut Log,
        kind: Kind,
        block: u32,
        repeat: u32,
        variant: usize,
    ) -> Result<Option<Ended>, HostError> {
        if log.has(kind, block, repeat, variant) {
            return Ok(None);
        }
        let Some(chosen) = self.plan.variants.get(variant) else { return Ok(Some(Ended::Stopped)) };
        if self.bench.is_ended() {
            return Ok(Some(Ended::Stopped));
        }
        if chosen.kernel.as_ref().is_some_and(|kernel| *kernel != running(self.bench.root())) {
            return Ok(Some(Ended::Reboot(variant)));
        }
        if self.in_force != Some(variant) {
            self.settings.apply(self.bench.root(), chosen)?;
            self.in_force = Some(variant);
        }
        if !self.rest() {
            return Ok(Some(Ended::Stopped));
        }
        let start_s = self.bench.time_of_day_s();
        self.meters.begin(self.bench.root(), self.bench.now());
        let meters = &mut self.meters;
        let Some(ran) = self.bench.run(chosen, &mut |root, now| meters.poll(root, now))? else {
            return Ok(Some(Ended::Stopped));
        };
        let end = self.bench.now();
        if let Some(why) = &ran.failed {
            let shown: Vec<&str> = ran.output.lines().rev().take(3).collect();
            let said = shown.into_iter().rev().collect::<Vec<_>>().join(" | ");
            let name = &chosen.name;
            return Err(HostError::Lacking(format!("the program failed under `{name}` ({why}): {said}")));
        }
        let end_s = self.bench.time_of_day_s();
        let cpu_s = ran.cpu_s.iter().sum();
        let (more, mut spoilt) = self.meters.end(self.bench.root(), end, cpu_s, self.plan.others_cpus);
        if ran.set_s.abs() > 0.1 {
            spoilt.push(format!("the clock was set by {:.1} s", ran.set_s));
        }
        let drifted = self.settings.changed(self.bench.root());
        if let Some(words) = drifted {
            spoilt.push(words);
            // It is written again before the next run.
            self.in_force = None;
        }
        let mut values: Vec<Quantity> = self.plan.figures.iter().filter_map(|one| one.read(&ran.output)).collect();
        if values.is_empty()
            && !self.plan.figures.is_empty()
            && !log.head.metric.is_empty()
            && log.head.metric != "wall"
        {
            let words = format!("the program printed no `{}` under `{}`", log.head.metric, chosen.name);
            return Err(HostError::Lacking(words));
        }
        values.extend(of_run(&ran));
        values.extend(more);
        match self.joules(start_s, end_s)? {
            Some(Some(joules)) => values.push(Quantity::new("energy:meter", "J", "lower", joules)),
            Some(None) => spoilt.push("the external meter's log does not reach over the run".to_owned()),
            None => {}
        }
        log.add(Run { kind, block, repeat, variant, start_s, values, spoilt })?;
        Ok(None)
    }

    /// What the external meter saw, if there is one; its log may be late.
    fn joules(&mut self, from_s: f64, to_s: f64) -> Result<Option<Option<f64>>, HostError> {
        let Some(meter) = &self.plan.meter else { return Ok(None) };
        for _ in 0..WAIT_NS / LOOK_NS {
            let found = meter.joules(from_s, to_s)?;
            if found.is_some() || !self.bench.rest(LOOK_NS) {
                return Ok(Some(found));
            }
        }
        Ok(Some(meter.joules(from_s, to_s)?))
    }

    fn rest(&mut self) -> bool {
        if self.plan.rest_ns > 0 && !self.bench.rest(self.plan.rest_ns) {
            return false;
        }
        let Some(cold_mc) = self.cold_mc.filter(|_| self.plan.cool) else { return true };
        for _ in 0..COOL_NS / POLL_NS {
            if temperature(self.bench.root()).is_none_or(|now_mc| now_mc <= cold_mc + COOL_MC) {
                break;
            }
            if !self.bench.rest(POLL_NS) {
                return false;
            }
        }
        true
    }
}

fn of_run(ran: &Ran) -> Vec<Quantity> {
    let mut values = vec![
        Quantity::new("wall", "s", "lower", ran.wall_s),
        Quantity::new("cpu", "s", "lower", ran.cpu_s.iter().sum()),
        Quantity::new("cpu:user", "s", "lower", ran.cpu_s[0]),
        Quantity::new("cpu:system", "s", "lower", ran.cpu_s[1]),
    ];
    if let Some([voluntary, involuntary]) = ran.switches {
        values.push(Quantity::new("switches:voluntary", "", "lower", voluntary));
        values.push(Quantity::new("switches:involuntary", "", "lower", involuntary));
    }
    values
}
