//! What a run measured, as rows: the one table of metrics ([`METRICS`]), which has the engine's integers in SI units.
//!
//! A metric is one entry of the table: name, unit, better side, meaning, and its values of a run. Rows have the order of the
//! table; the metric of a benchmark, which its model declares, comes first. What is not known is not 0.

mod metrics;
mod range;

use opplab_kernel::sched::psi::PsiLine;
use opplab_model::groups::GroupSpec;
use opplab_model::latency::PERCENTILES;
use opplab_model::machine::Cluster;
use opplab_model::metric::units;
use opplab_sim::by_group::{GroupFigures, GroupShares, Percentiles};
use opplab_sim::{Case, Consumed, GroupStat, Outcome};

pub use metrics::METRICS;

/// Which side is meant to be better. It also decides how values are averaged: harmonically where more is better (rates), else
/// arithmetically.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// Neither is meant.
    Neither,
}

impl Better {
    /// Its name in tables of results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Higher => "higher",
            Self::Lower => "lower",
            Self::Neither => "",
        }
    }
}

/// What a metric is to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Something to be better at.
    Whole,
    /// A share of the metric before the colon, which holds it already.
    Part,
    /// How a run came to its numbers.
    Detail,
}

impl Kind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Part => "part",
            Self::Detail => "detail",
        }
    }
}

/// One metric, or a family of metrics whose name has words in capitals.
pub struct Metric {
    /// A word in capitals stands for the name of a cluster, a consumer, a frequency in kHz, an idle state, a cpufreq policy, a
    /// control group or a percentile (p50, p90, p95, p99, max).
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Which side is better.
    pub better: Better,
    /// What it is to others.
    pub kind: Kind,
    /// What it is.
    pub about: &'static str,
    values: fn(&Run<'_>) -> Values,
}

/// A metric's values in a run: what stands in place of the words in capitals, and the value if it is known.
type Values = Vec<(String, Option<f64>)>;

impl Metric {
    /// Its name without the words in capitals.
    fn stem(&self) -> &'static str {
        let end = self.name.find(char::is_uppercase).unwrap_or(self.name.len());
        &self.name[..end]
    }
}

/// One measured value.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its metric, with names in place of words in capitals.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Which side is better.
    pub better: Better,
    /// `None` if it is not known.
    pub value: Option<f64>,
}

/// A finished run.
pub struct Run<'a> {
    /// What ran.
    pub case: &'a Case,
    /// What the engine counted.
    pub outcome: &'a Outcome,
    /// What control groups used, where there are any.
    pub groups: Option<&'a GroupShares>,
    /// From wake-ups to running and from timers to the end of activations (or of the run), where somebody asked.
    pub waits: (Percentiles, Percentiles),
}

impl Run<'_> {
    /// Everything that was measured after the warm-up.
    pub fn rows(&self) -> Vec<Row> {
        let own = self.case.workload.metric.as_ref().map(|own| {
            let Outcome { wall_ns, finished_ns, marks_ns, .. } = self.outcome;
            let value = own.value(units(self.outcome.units_fp), *wall_ns, *finished_ns, marks_ns);
            let better = if own.higher_is_better { Better::Higher } else { Better::Lower };
            Row { metric: own.name.clone(), unit: own.unit.clone(), better, value }
        });
        let all = METRICS.iter().flat_map(|metric| {
            (metric.values)(self).into_iter().map(|(names, value)| Row {
                metric: format!("{}{names}", metric.stem()),
                unit: metric.unit.to_owned(),
                better: metric.better,
                value,
            })
        });
        own.into_iter().chain(all).collect()
    }

    /// One value of the whole run.
    fn one(&self, value: impl Into<Option<f64>>) -> Values {
        vec![(String::new(), value.into())]
    }

    /// A share in percent; no value of nothing.
    fn share(&self, part: u64, whole: u64) -> Values {
        if whole == 0 { Vec::new() } else { self.one(percent(part, whole)) }
    }

    fn wall_ns(&self) -> f64 {
        self.outcome.wall_ns as f64
    }

    /// A share of the time in percent.
    fn percent_of_time(&self, ns: u64) -> f64 {
        (100 * u128::from(ns)) as f64 / self.wall_ns()
    }

    /// fJ in the time of the run, in W.
    fn watts(&self, fj: u128) -> f64 {
        fj as f64 / 1e6 / self.wall_ns()
    }

    /// The energy of all clusters in fJ; `None` if that of one is unknown.
    fn energy_fj(&self) -> Option<u128> {
        let known = self.case.machine.unknown_power().is_empty();
        known.then(|| self.outcome.cluster_energy_fj.iter().sum())
    }

    /// The mean power in W between the marks whose pace counts for what does not run; nothing if all of it runs.
    fn power_at_pace(&self) -> Values {
        let (&[_, from_ns, to_ns], &[_, from_fj, to_fj]) = (&self.outcome.marks_ns[..], &self.outcome.marks_fj[..])
        else {
            return Vec::new();
        };
        let watts = (to_fj - from_fj) as f64 / 1e6 / (to_ns - from_ns).max(1) as f64;
        self.energy_fj().map_or_else(Vec::new, |_| self.one(watts))
    }

    /// The energy of all clusters in J at one end of the ranges of their powers; nothing without ranges.
    fn energy_at(&self, end: impl Fn((f64, f64)) -> f64) -> Values {
        let ends = self.energy_fj().and_then(|_| range::energy_ends(&self.case.machine, self.outcome));
        ends.map_or_else(Vec::new, |ends| self.one(end(ends) / 1e15))
    }

    /// A value of each cluster, by its index.
    fn by_cluster(&self, value: impl Fn(usize, &Cluster) -> Option<f64>) -> Values {
        let clusters = self.case.machine.clusters.iter().enumerate();
        clusters.map(|(index, cluster)| (cluster.name.clone(), value(index, cluster))).collect()
    }

    /// A value of each cluster's energy in fJ, where it is known.
    fn by_energy(&self, value: impl Fn(u128) -> f64) -> Values {
        self.by_cluster(|index, cluster| cluster.has_power().then(|| value(self.outcome.cluster_energy_fj[index])))
    }

    /// Shares of each cluster's CPU time in percent: `columns` by CPU, and what the columns of a cluster are called.
    fn shares(&self, columns: &[Vec<u64>], names: impl Fn(usize, &Cluster) -> Vec<String>) -> Values {
        let clusters = self.case.machine.clusters.iter().enumerate();
        let of = |index, cluster: &Cluster| {
            let cpu_ns = u128::from(self.outcome.wall_ns) * cluster.cpus.len() as u128;
            let share = |column: usize| {
                let ns: u64 = cluster.cpus.iter().map(|&cpu| columns[cpu as usize][column]).sum();
                (100 * u128::from(ns)) as f64 / cpu_ns as f64
            };
            let named = names(index, cluster).into_iter().enumerate();
            named.map(|(column, name)| (format!("{}@{name}", cluster.name), Some(share(column)))).collect::<Vec<_>>()
        };
        clusters.flat_map(|(index, cluster)| of(index, cluster)).collect()
    }

    /// Shares by operating point.
    fn by_opp(&self, columns: &[Vec<u64>]) -> Values {
        self.shares(columns, |index, _| self.outcome.points[index].iter().map(|point| point.khz.to_string()).collect())
    }

    /// A value of each consumer that is no CPU.
    fn by_consumer(&self, value: impl Fn(&Consumed) -> f64) -> Values {
        self.outcome.consumers.iter().map(|one| (one.name.clone(), Some(value(one)))).collect()
    }

    /// A value of each control group that has one.
    fn by_group(&self, value: impl Fn(&Group<'_>) -> Option<Option<f64>>) -> Values {
        let Some(shares) = self.groups else { return Vec::new() };
        let groups = self.case.workload.groups.iter().zip(&self.outcome.groups).zip(&shares.groups);
        let of = |((spec, stat), figures): ((_, _), _)| Group { spec, stat, figures };
        groups.map(of).filter_map(|group| Some((group.spec.name.clone(), value(&group)?))).collect()
    }

    /// A value of one line of each control group's `cpu.pressure`; nothing where the kernel has no such file.
    fn by_pressure(&self, line: usize, value: impl Fn(PsiLine) -> f64) -> Values {
        self.by_group(|group| Some(Some(value(group.figures.pressure?[line]))))
    }

    /// A value of the machine's pressure.
    fn pressure(&self, value: impl Fn(PsiLine) -> f64) -> Values {
        let lines = self.groups.and_then(|shares| shares.pressure);
        lines.map_or_else(Vec::new, |lines| self.one(value(lines[SOME])))
    }

    /// A value of each control group that has a quota.
    fn by_quota(&self, value: impl Fn(&GroupStat) -> f64) -> Values {
        self.by_group(|group| group.spec.quota.is_some().then(|| Some(value(group.stat))))
    }
}

/// One control group of a run.
struct Group<'a> {
    spec: &'a GroupSpec,
    stat: &'a GroupStat,
    figures: &'a GroupFigures,
}

/// Lines of a file of pressure.
const SOME: usize = 0;
const FULL: usize = 1;

/// One of a line's three averages in percent, with the two digits of the file.
fn average(line: PsiLine, index: usize) -> f64 {
    PsiLine::hundredths(line.avg[index]) as f64 / 100.0
}

/// So many percent; 0 of nothing.
fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (100 * u128::from(part)) as f64 / whole as f64 }
}

/// ms of each percentile.
fn by_percentile(waits_ns: Percentiles) -> Values {
    let values = PERCENTILES.into_iter().zip(waits_ns.into_iter().flatten());
    values.map(|(percent, ns)| (name_of(percent), Some(ns as f64 / 1e6))).collect()
}

/// ms of one of [`PERCENTILES`].
fn at(waits_ns: Percentiles, percent: u32) -> Option<f64> {
    let index = PERCENTILES.iter().position(|&one| one == percent)?;
    Some(waits_ns?[index] as f64 / 1e6)
}

fn name_of(percent: u32) -> String {
    if percent == 100 { "max".to_owned() } else { format!("p{percent}") }
}
