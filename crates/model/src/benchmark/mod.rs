//! Benchmark models: parameters in, a [`Workload`] out.
//!
//! One entry of [`BENCHMARKS`] a model, one file each. A model states what it imitates, what it leaves out and what it
//! reports; its parameters are whole numbers, words, or a list of numbers, and are checked here, so that a builder only
//! computes. Parameters are physical; the few that no source gives are marked [`Param::is_calibrated`]: they may be fitted
//! to a published baseline, and to nothing else. `shape` has what builders share.

pub mod background;
mod dbench;
mod disk;
mod fio;
mod gitsource;
mod hackbench;
mod journal;
mod kernbench;
mod nas;
mod netperf;
mod pcmark;
mod periodic;
mod pgbench;
mod shape;
mod sqlite;
mod tbench;

use crate::machine::Machine;
use crate::metric::{Metric, MetricRule};
use crate::workload::Workload;

/// What a parameter may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamKind {
    /// A whole number in this range.
    Int {
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// A list of whole numbers in this range.
    Ints {
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// One of these words.
    Word(&'static [&'static str]),
}

/// Value of a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParamValue {
    /// A whole number.
    Int(u64),
    /// A list of whole numbers.
    Ints(Vec<u64>),
    /// A word.
    Word(String),
}

/// A parameter of a benchmark model.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    /// Its name, with the unit last.
    pub name: &'static str,
    /// What it may be.
    pub kind: ParamKind,
    /// Its default, as it would be written in an experiment; empty: it must be given.
    pub default: &'static str,
    /// What it is, with its source where it has one.
    pub about: &'static str,
    /// Whether it is a free constant: fitted to a published baseline, or assumed, because no source gives it.
    pub is_calibrated: bool,
    /// Whether 0 stands for one for each online CPU.
    counts_cpus: bool,
}

impl Param {
    const fn new(name: &'static str, kind: ParamKind, default: &'static str, about: &'static str) -> Self {
        Self { name, kind, default, about, is_calibrated: false, counts_cpus: false }
    }

    /// A whole number `min..=max`.
    const fn int(name: &'static str, (min, max): (u64, u64), default: &'static str, about: &'static str) -> Self {
        Self::new(name, ParamKind::Int { min, max }, default, about)
    }

    /// The share of a model's work that does not scale with the clock, a free constant.
    const fn fixed_permille(default: &'static str) -> Self {
        let about = "share of the work that does not scale with the clock, in 1/1000";
        Self::int("fixed_permille", (0, 1000), default, about).calibrated()
    }

    /// One of some words.
    const fn word(
        name: &'static str,
        words: &'static [&'static str],
        default: &'static str,
        about: &'static str,
    ) -> Self {
        Self::new(name, ParamKind::Word(words), default, about)
    }

    /// Its default; `None` if it must be given.
    pub fn default_value(&self) -> Option<ParamValue> {
        match self.kind {
            _ if self.default.is_empty() => None,
            ParamKind::Int { .. } => self.default.parse().ok().map(ParamValue::Int),
            ParamKind::Ints { .. } => self.default.parse().ok().map(|value| ParamValue::Ints(vec![value])),
            ParamKind::Word(_) => Some(ParamValue::Word(self.default.to_owned())),
        }
    }

    /// The same as a free constant.
    const fn calibrated(self) -> Self {
        Self { is_calibrated: true, ..self }
    }

    /// The same as a number of tasks: 0 is one for each online CPU.
    const fn of_each_cpu(self) -> Self {
        Self { counts_cpus: true, ..self }
    }
}

/// What a benchmark reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reports {
    /// Name of the metric.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Whether more is better.
    pub higher_is_better: bool,
    /// How it is computed.
    pub rule: MetricRule,
}

impl Reports {
    /// The metric of a run whose counts or times are to be multiplied with `scale`, a fraction.
    fn metric(&self, scale: (u64, u64)) -> Option<Metric> {
        Some(Metric {
            name: self.name.to_owned(),
            unit: self.unit.to_owned(),
            higher_is_better: self.higher_is_better,
            rule: self.rule,
            scale,
            marks: Vec::new(),
        })
    }
}

/// A benchmark model.
#[derive(Debug, Clone, Copy)]
pub struct Benchmark {
    /// Its name.
    pub name: &'static str,
    /// What it imitates, and what it leaves out.
    pub about: &'static str,
    /// What it reports; `None`: only what every run has.
    pub reports: Option<Reports>,
    /// Its parameters.
    pub params: &'static [Param],
    /// Builds the workload from all parameters, the machine and a seed; an error names which parameters do not fit.
    pub build: fn(&Params, &Machine, u64) -> Result<Workload, String>,
}

impl Benchmark {
    /// The workload of the parameters `given` and the defaults of all others.
    ///
    /// # Errors
    /// Which parameter is missing, or what does not fit, in words.
    pub fn workload(&self, given: &[(&str, ParamValue)], machine: &Machine, seed: u64) -> Result<Workload, String> {
        let value = |param: &Param| {
            let given = given.iter().find(|(name, _)| *name == param.name).map(|(_, value)| value.clone());
            let value = given.or_else(|| param.default_value());
            value.map(|value| (param.name.to_owned(), value)).ok_or_else(|| format!("`{}` is missing", param.name))
        };
        let params = Params(self.params.iter().map(value).collect::<Result<_, _>>()?);
        (self.build)(&self.on_online(params, || machine.nr_cpus()), machine, seed)
    }

    /// Parameters with a number of tasks, as [`Self::build`] takes them, where one for each online CPU is asked for.
    pub fn on_online(&self, params: Params, nr_online: impl Fn() -> usize) -> Params {
        let counts = |name: &str| self.params.iter().any(|param| param.name == name && param.counts_cpus);
        let number = |(name, value): (String, ParamValue)| match value {
            ParamValue::Int(0) if counts(&name) => (name, ParamValue::Int(nr_online() as u64)),
            value => (name, value),
        };
        Params(params.0.into_iter().map(number).collect())
    }
}

/// All parameters of a model, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Params(pub Vec<(String, ParamValue)>);

impl Params {
    /// The number `name`.
    ///
    /// # Panics
    /// If the model has no such number: a mistake of the model.
    pub fn int(&self, name: &str) -> u64 {
        match self.get(name) {
            Some(ParamValue::Int(value)) => *value,
            other => panic!("parameter {name} is no number: {other:?}"),
        }
    }

    /// The numbers `name`.
    ///
    /// # Panics
    /// If the model has no such list: a mistake of the model.
    pub fn ints(&self, name: &str) -> &[u64] {
        match self.get(name) {
            Some(ParamValue::Ints(values)) => values,
            other => panic!("parameter {name} is no list: {other:?}"),
        }
    }

    /// The word `name`.
    ///
    /// # Panics
    /// If the model has no such word: a mistake of the model.
    pub fn word(&self, name: &str) -> &str {
        match self.get(name) {
            Some(ParamValue::Word(word)) => word,
            other => panic!("parameter {name} is no word: {other:?}"),
        }
    }

    /// The value of `name`, if it is there.
    pub fn get(&self, name: &str) -> Option<&ParamValue> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

/// All benchmark models.
pub const BENCHMARKS: &[Benchmark] = &[
    periodic::PERIODIC,
    tbench::TBENCH,
    gitsource::GITSOURCE,
    kernbench::KERNBENCH,
    dbench::DBENCH,
    sqlite::SQLITE,
    hackbench::HACKBENCH,
    fio::FIO_RANDREAD,
    pgbench::PGBENCH_RO,
    pgbench::PGBENCH_RW,
    netperf::NETPERF_UDP,
    netperf::NETPERF_TCP,
    nas::NAS_MPI,
    nas::NAS_OMP,
    pcmark::PCMARK,
];

/// The model called `name`.
pub fn benchmark(name: &str) -> Option<&'static Benchmark> {
    BENCHMARKS.iter().find(|benchmark| benchmark.name == name)
}
