//! Benchmark models: parameters in, a [`Workload`] out.
//!
//! One entry of [`BENCHMARKS`] a model. A model says what it imitates and what it leaves out; its parameters are whole
//! numbers, words, or a list of numbers, and are checked here, so that a builder only computes.

use rand_core::Rng;
use rand_pcg::Pcg64;

use crate::machine::Machine;
use crate::workload::{Op, PhaseSpec, SchedPolicy, TaskSpec, Workload};

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
    /// What it is.
    pub about: &'static str,
}

/// A benchmark model.
#[derive(Debug, Clone, Copy)]
pub struct Benchmark {
    /// Its name.
    pub name: &'static str,
    /// What it imitates, and what it leaves out.
    pub about: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    /// Builds the workload from all parameters, the machine and a seed; an error says which parameters do not fit.
    pub build: fn(&Params, &Machine, u64) -> Result<Workload, String>,
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
pub const BENCHMARKS: &[Benchmark] = &[PERIODIC];

/// The model called `name`.
pub fn benchmark(name: &str) -> Option<&'static Benchmark> {
    BENCHMARKS.iter().find(|benchmark| benchmark.name == name)
}

const PERIODIC: Benchmark = Benchmark {
    name: "periodic",
    about: "rt-app-like periodic tasks (text 003): each runs a share of the biggest CPU and waits for a relative timer. \
            Leaves out the cost of rt-app's own calls.",
    params: &[
        Param { name: "tasks", kind: ParamKind::Int { min: 1, max: 100_000 }, default: "", about: "number of tasks" },
        Param {
            name: "duty",
            kind: ParamKind::Ints { min: 1, max: 1000 },
            default: "50",
            about: "utilisation of the biggest CPU at its reference frequency in 1/1000; of a list, the tasks take one \
                    after the other",
        },
        Param {
            name: "period_us",
            kind: ParamKind::Int { min: 1, max: 3_600_000_000 },
            default: "16000",
            about: "period of each task in us",
        },
        Param {
            name: "spawn",
            kind: ParamKind::Word(&["biggest-cpus-alternating", "first-cpu"]),
            default: "biggest-cpus-alternating",
            about: "CPUs on which the tasks are born",
        },
        Param {
            name: "start",
            kind: ParamKind::Word(&["random", "together"]),
            default: "random",
            about: "when each task starts: at a random point of its first period, or all at once as rt-app does",
        },
    ],
    build: periodic,
};

/// Stream of random numbers of the start of task 0; task i has the i-th after it.
const PERIODIC_STREAM: u128 = 0x7065_7269_6f64_6963_0000_0000;

fn periodic(params: &Params, machine: &Machine, seed: u64) -> Result<Workload, String> {
    let period_ns = params.int("period_us") * 1000;
    let duties = params.ints("duty");
    let biggest = machine.clusters.iter().map(|cluster| cluster.capacity).max().unwrap_or(0);
    let spawn_cpus: Vec<u32> = match params.word("spawn") {
        "first-cpu" => vec![0],
        _ => (0..machine.nr_cpus() as u32).filter(|&cpu| machine.cluster_of(cpu).capacity == biggest).collect(),
    };
    if duties.is_empty() || spawn_cpus.is_empty() {
        return Err(String::from("`duty` is empty"));
    }
    let tasks = (0..params.int("tasks") as usize)
        .map(|index| {
            let run_ns = period_ns * duties[index % duties.len()] / 1000;
            // Each task draws from a stream of its own, so that one more task does not move the others.
            let delay_ns = match params.word("start") {
                "together" => 0,
                _ => Pcg64::new(seed.into(), PERIODIC_STREAM + index as u128).next_u64() % period_ns,
            };
            TaskSpec {
                name: format!("task{index}"),
                initial: true,
                delay_ns,
                policy: SchedPolicy::default(),
                cpus: None,
                spawn_cpu: Some(spawn_cpus[index % spawn_cpus.len()]),
                ops: vec![
                    Op::LoopBegin { slot: 0, count: None },
                    Op::Run { work_ns: run_ns, fixed: 0 },
                    Op::Timer { timer: 0, period_ns, absolute: false, own: true },
                    Op::Activation { phase: 0, timed: true },
                    Op::LoopEnd { slot: 0, begin: 0 },
                    Op::Exit,
                ],
                loop_slots: 1,
                nr_own_timers: 1,
                phases: vec![PhaseSpec { name: String::new(), run_ns, period_ns }],
            }
        })
        .collect();
    Ok(Workload { name: String::from("periodic"), tasks, ..Workload::default() })
}
