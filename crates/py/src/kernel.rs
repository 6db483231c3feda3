//! `opplab.kernel`: the kernel crate's algorithms as functions and stepping classes.
//!
//! Everything public is documented in `python/opplab/kernel.py`, which gives these classes their names.

use std::fmt::Debug;

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use opplab_kernel::clock_pelt::RqClock;
use opplab_kernel::cpufreq::cppc::{
    CppcPerfCaps, CppcPerfFbCtrs, artificial_em, cppc_scale_freq, squeeze_efficiency_classes,
};
use opplab_kernel::cpufreq::freq_table::{FreqLimits, FreqTable, Relation};
use opplab_kernel::cpufreq::intel_pstate::{
    HwpBoost, HwpCapabilities, HwpRequest, IdlePlacementBoost, SCHED_CPUFREQ_IDLE_PLACEMENT,
};
use opplab_kernel::cpufreq::schedutil::{
    CpuFacts, PolicyFacts, RqFacts, SCHED_CPUFREQ_IOWAIT, SugovConfig, SugovCpu, SugovDecision, SugovPolicy,
    SugovRequest, UtilType, effective_cpu_util, map_util_freq, map_util_perf, schedutil_cpu_util,
};
use opplab_kernel::cpuidle::{
    IDLE_GOVERNORS, IdleFacts, IdleGovernor, IdleOutcome, IdleState, KTIME_MAX, idle_governor,
};
use opplab_kernel::eas::{EasCpu, EasExplanation, EasFacts, EasGates, EasTask, find_energy_efficient_cpu};
use opplab_kernel::energy_model::{EmPerfDomain, EmPerfState, em_create_perf_table};
use opplab_kernel::freq_invariance::{AmdPerfCaps, FreqMax, FreqMaxFacts, IntelMsrs, IntelTurboModel, TurboLevel};
use opplab_kernel::freq_invariance::{arch_max_freq_ratio, scale_freq_tick};
use opplab_kernel::pelt::{
    HalfLife, HalfLife8, HalfLife16, HalfLife32, SchedAvg, SeFacts, decay_load, ramp_up_periods,
    update_load_avg_blocked_se, update_load_avg_cfs_rq, update_load_avg_se,
};
use opplab_kernel::pelt_batch::{PeltBatch, SeriesInvariance, SeriesOutput, series};
use opplab_kernel::profile::{Eas, GATES, KernelProfile, PROFILES, Version, unknown_profile};
use opplab_kernel::sched::placement::CpuCapacity;
use opplab_kernel::util_est::{
    UTIL_AVG_UNCHANGED, UtilEstForm, UtilEstPair, task_util_est, task_util_est_masked, util_est_update,
};
use opplab_study::{Activation, LoopConfig, closed_loop};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{guard, raise};

fn refuse(py: Python<'_>, message: impl std::fmt::Display) -> PyErr {
    raise(py, "InputError", message.to_string())
}

/// `unknown KIND `name`; did you mean ...?`
fn unknown(py: Python<'_>, kind: &str, name: &str, known: &[&str]) -> PyErr {
    let near = opplab_model::error::nearest(name, known.iter().copied());
    let hint =
        near.map_or_else(|| format!(" (there are {})", known.join(", ")), |near| format!("; did you mean `{near}`?"));
    refuse(py, format_args!("unknown {kind} `{name}`{hint}"))
}

/// Rust's form of a value as Python's: `Name { a: 1, b: true }` as `Name(a=1, b=True)`.
fn python_repr(value: &impl Debug) -> String {
    let text = format!("{value:?}").replace(" { ", "(").replace(" }", ")").replace(": ", "=");
    text.replace("=true", "=True").replace("=false", "=False")
}

/// The variant's name as a word of its own: `LessEnergy` as `less-energy`.
fn variant_name(value: impl Debug) -> String {
    let mut name = String::new();
    for letter in format!("{value:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// Calls a function that is generic over the half-life.
macro_rules! with_half_life {
    ($py:expr, $periods:expr, $H:ident => $call:expr) => {
        match $periods {
            32 => {
                type $H = HalfLife32;
                Ok($call)
            }
            16 => {
                type $H = HalfLife16;
                Ok($call)
            }
            8 => {
                type $H = HalfLife8;
                Ok($call)
            }
            other => Err(refuse($py, format_args!("no half-life of {other} periods (there are 8, 16, 32)"))),
        }
    };
}

fn profile(py: Python<'_>, name: &str) -> PyResult<KernelProfile> {
    KernelProfile::named(name).ok_or_else(|| refuse(py, unknown_profile(name)))
}

// --------------------------------------------------------------------------------------------------- PELT

type SignalArrays<'py> = (Bound<'py, PyArray1<u16>>, Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<u32>>);

/// One task's averages at many times; the arrays have one length. `freq_scale` is empty for real time.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "called by one Python function with keywords")]
fn pelt<'py>(
    py: Python<'py>,
    times_ns: PyReadonlyArray1<'py, u64>,
    activity: PyReadonlyArray1<'py, u8>,
    freq_scale: PyReadonlyArray1<'py, u16>,
    start_ns: u64,
    weight: u64,
    half_life: u32,
    invariance: &str,
    capacity: u64,
) -> PyResult<SignalArrays<'py>> {
    let (times_ns, activity, freq_scale) = (times_ns.as_slice()?, activity.as_slice()?, freq_scale.as_slice()?);
    let n = times_ns.len();
    let invariance = match invariance {
        "none" => SeriesInvariance::None,
        "time-dilated" => SeriesInvariance::TimeDilated { freq_scale, cpu_capacity: capacity },
        "scaled-contribution" => SeriesInvariance::ScaledContribution { freq_scale, cpu_capacity: capacity },
        other => return Err(unknown(py, "invariance", other, &["none", "time-dilated", "scaled-contribution"])),
    };
    if weight >> 41 != 0 {
        return Err(refuse(py, format_args!("a weight of {weight} is beyond 2^41")));
    }
    if activity.len() != n || (invariance != SeriesInvariance::None && freq_scale.len() != n) {
        return Err(refuse(py, "the arrays differ in length"));
    }
    let (mut util, mut runnable, mut load) = (vec![0; n], vec![0; n], vec![0; n]);
    let mut out = SeriesOutput { util_avg: &mut util, runnable_avg: &mut runnable, load_avg: &mut load };
    guard(py, || {
        py.detach(|| match half_life {
            32 => series::<HalfLife32>(start_ns, times_ns, activity, weight, invariance, &mut out),
            16 => series::<HalfLife16>(start_ns, times_ns, activity, weight, invariance, &mut out),
            _ => series::<HalfLife8>(start_ns, times_ns, activity, weight, invariance, &mut out),
        });
    })?;
    Ok((util.into_pyarray(py), runnable.into_pyarray(py), load.into_pyarray(py)))
}

#[derive(Debug)]
enum Batch {
    H32(PeltBatch<HalfLife32>),
    H16(PeltBatch<HalfLife16>),
    H8(PeltBatch<HalfLife8>),
}

macro_rules! with_batch {
    ($self:expr, $batch:ident => $call:expr) => {
        match $self {
            Batch::H32($batch) => $call,
            Batch::H16($batch) => $call,
            Batch::H8($batch) => $call,
        }
    };
}

#[pyclass(subclass, name = "PeltBatch", module = "opplab._opplab.kernel")]
struct PyPeltBatch {
    inner: Batch,
}

#[pymethods]
impl PyPeltBatch {
    #[new]
    #[pyo3(signature = (n, *, now_ns = 0, weight = 1 << 20, half_life = 32))]
    fn new(py: Python<'_>, n: usize, now_ns: u64, weight: u64, half_life: u32) -> PyResult<Self> {
        let inner = match half_life {
            32 => Batch::H32(PeltBatch::new(n, now_ns, weight)),
            16 => Batch::H16(PeltBatch::new(n, now_ns, weight)),
            8 => Batch::H8(PeltBatch::new(n, now_ns, weight)),
            other => return Err(refuse(py, format_args!("no half-life of {other} periods (there are 8, 16, 32)"))),
        };
        Ok(Self { inner })
    }

    fn __len__(&self) -> usize {
        with_batch!(&self.inner, batch => batch.len())
    }

    fn update_load_avg_se(
        &mut self,
        py: Python<'_>,
        now_ns: u64,
        activity: PyReadonlyArray1<'_, u8>,
    ) -> PyResult<usize> {
        let activity = activity.as_slice()?;
        if activity.len() != self.__len__() {
            return Err(refuse(py, "one activity a task is needed"));
        }
        guard(py, || with_batch!(&mut self.inner, batch => batch.update_load_avg_se(now_ns, activity)))
    }

    #[getter]
    fn util_avg<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        with_batch!(&self.inner, batch => batch.util_avg().into_pyarray(py))
    }

    #[getter]
    fn runnable_avg<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        with_batch!(&self.inner, batch => batch.runnable_avg().into_pyarray(py))
    }

    #[getter]
    fn load_avg<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        with_batch!(&self.inner, batch => batch.load_avg().into_pyarray(py))
    }

    fn __repr__(&self) -> String {
        let half_life = with_batch!(&self.inner, batch => half_life_of(batch));
        format!("PeltBatch(n={}, half_life={half_life})", self.__len__())
    }
}

fn half_life_of<H: HalfLife>(_batch: &PeltBatch<H>) -> u32 {
    H::PERIOD
}

#[pyclass(subclass, name = "SchedAvg", module = "opplab._opplab.kernel")]
struct PySchedAvg {
    inner: SchedAvg,
    #[pyo3(get)]
    half_life: u32,
}

#[pymethods]
impl PySchedAvg {
    #[new]
    #[pyo3(signature = (*, now_ns = 0, half_life = 32))]
    fn new(py: Python<'_>, now_ns: u64, half_life: u32) -> PyResult<Self> {
        with_half_life!(py, half_life, H => H::PERIOD)?;
        Ok(Self { inner: SchedAvg { last_update_time: now_ns, ..SchedAvg::default() }, half_life })
    }

    #[pyo3(signature = (now_ns, *, on_rq, running, weight = 1 << 20))]
    fn update_load_avg_se(
        &mut self,
        py: Python<'_>,
        now_ns: u64,
        on_rq: bool,
        running: bool,
        weight: u64,
    ) -> PyResult<bool> {
        let facts = SeFacts::task(weight, on_rq, running);
        with_half_life!(py, self.half_life, H => update_load_avg_se::<H>(now_ns, &mut self.inner, facts))
    }

    #[pyo3(signature = (now_ns, *, weight = 1 << 20))]
    fn update_load_avg_blocked_se(&mut self, py: Python<'_>, now_ns: u64, weight: u64) -> PyResult<bool> {
        with_half_life!(py, self.half_life, H => update_load_avg_blocked_se::<H>(now_ns, &mut self.inner, weight))
    }

    #[pyo3(signature = (now_ns, *, load_weight, nr_runnable, has_curr))]
    fn update_load_avg_cfs_rq(
        &mut self,
        py: Python<'_>,
        now_ns: u64,
        load_weight: u64,
        nr_runnable: u64,
        has_curr: bool,
    ) -> PyResult<bool> {
        with_half_life!(py, self.half_life,
            H => update_load_avg_cfs_rq::<H>(now_ns, &mut self.inner, load_weight, nr_runnable, has_curr))
    }

    #[getter]
    fn last_update_time(&self) -> u64 {
        self.inner.last_update_time
    }
    #[getter]
    fn load_sum(&self) -> u64 {
        self.inner.load_sum
    }
    #[getter]
    fn runnable_sum(&self) -> u64 {
        self.inner.runnable_sum
    }
    #[getter]
    fn util_sum(&self) -> u32 {
        self.inner.util_sum
    }
    #[getter]
    fn period_contrib(&self) -> u32 {
        self.inner.period_contrib
    }
    #[getter]
    fn load_avg(&self) -> u64 {
        self.inner.load_avg
    }
    #[getter]
    fn runnable_avg(&self) -> u64 {
        self.inner.runnable_avg
    }
    #[getter]
    fn util_avg(&self) -> u64 {
        self.inner.util_avg
    }
    fn __repr__(&self) -> String {
        python_repr(&self.inner)
    }
}

#[pyfunction(name = "decay_load")]
fn py_decay_load(py: Python<'_>, val: u64, n: u64, half_life: u32) -> PyResult<u64> {
    with_half_life!(py, half_life, H => decay_load::<H>(val, n))
}

#[pyfunction(name = "ramp_up_periods")]
fn py_ramp_up_periods(py: Python<'_>, util: u64, half_life: u32) -> PyResult<Option<u32>> {
    with_half_life!(py, half_life, H => ramp_up_periods::<H>(util))
}

#[pyclass(subclass, name = "ClockPelt", module = "opplab._opplab.kernel")]
struct PyClockPelt {
    inner: RqClock,
    #[pyo3(get, set)]
    capacity: u64,
}

#[pymethods]
impl PyClockPelt {
    #[new]
    #[pyo3(signature = (now_ns = 0, *, capacity = 1024, irq_time_ns = 0))]
    fn new(now_ns: u64, capacity: u64, irq_time_ns: u64) -> Self {
        Self { inner: RqClock::new(now_ns, irq_time_ns), capacity }
    }

    #[pyo3(signature = (now_ns, *, idle, freq_scale = 1024, irq_time_ns = 0))]
    fn update_rq_clock(&mut self, now_ns: u64, idle: bool, freq_scale: u64, irq_time_ns: u64) -> u64 {
        self.inner.update_rq_clock(now_ns, irq_time_ns, idle, self.capacity, freq_scale);
        self.inner.rq_clock_pelt()
    }

    #[pyo3(signature = (util_sum = 0, *, half_life = 32))]
    fn update_idle_rq_clock_pelt(&mut self, py: Python<'_>, util_sum: u32, half_life: u32) -> PyResult<u64> {
        with_half_life!(py, half_life, H => self.inner.update_idle_rq_clock_pelt::<H>(util_sum, 0, 0))?;
        Ok(self.inner.rq_clock_pelt())
    }

    #[getter]
    fn now_ns(&self) -> u64 {
        self.inner.rq_clock_pelt()
    }
    #[getter]
    fn clock(&self) -> u64 {
        self.inner.clock
    }
    #[getter]
    fn clock_task(&self) -> u64 {
        self.inner.clock_task
    }
    #[getter]
    fn clock_pelt(&self) -> u64 {
        self.inner.clock_pelt
    }
    #[getter]
    fn lost_idle_time(&self) -> u64 {
        self.inner.lost_idle_time
    }
    fn __repr__(&self) -> String {
        python_repr(&self.inner).replace("RqClock", "ClockPelt")
    }
}

#[pyclass(subclass, name = "UtilEst", module = "opplab._opplab.kernel")]
struct PyUtilEst {
    form: Option<UtilEstForm>,
    single: SchedAvg,
    pair: UtilEstPair,
}

#[pymethods]
impl PyUtilEst {
    #[new]
    #[pyo3(signature = (*, kernel = "6.12"))]
    fn new(py: Python<'_>, kernel: &str) -> PyResult<Self> {
        let form = profile(py, kernel)?.util_est_form();
        Ok(Self { form, single: SchedAvg::default(), pair: UtilEstPair::default() })
    }

    #[pyo3(signature = (util_avg, *, runnable_avg = None, capacity = 1024, task_sleep = true))]
    fn util_est_update(&mut self, util_avg: u64, runnable_avg: Option<u64>, capacity: u64, task_sleep: bool) -> u32 {
        let runnable_avg = runnable_avg.unwrap_or(util_avg);
        match self.form {
            None => {
                self.single.util_avg = util_avg;
                self.single.runnable_avg = runnable_avg;
                util_est_update(&mut self.single, task_sleep, capacity);
            }
            Some(form) => self.pair.update(form, task_sleep, util_avg, runnable_avg, capacity),
        }
        self.util_est()
    }

    fn util_change(&mut self) {
        match self.form {
            None => self.single.util_est &= !UTIL_AVG_UNCHANGED,
            Some(form) => self.pair.util_change(form),
        }
    }

    fn task_util_est(&self, util_avg: u64) -> u64 {
        match self.form {
            None => task_util_est(&SchedAvg { util_avg, ..self.single }),
            Some(form) => self.pair.task_util_est(form, util_avg),
        }
    }

    #[getter]
    fn util_est(&self) -> u32 {
        match self.form {
            None => task_util_est_masked(&self.single),
            Some(form) => self.pair.task_util_est_masked(form),
        }
    }

    fn __repr__(&self) -> String {
        match self.form {
            None => {
                let unchanged = self.single.util_est & UTIL_AVG_UNCHANGED != 0;
                format!("UtilEst(util_est={}, {})", self.util_est(), if unchanged { "unchanged" } else { "changed" })
            }
            Some(form) => format!("UtilEst(form={form:?}, enqueued={}, ewma={})", self.pair.enqueued, self.pair.ewma),
        }
    }
}

// ------------------------------------------------------------------------------------------------ cpufreq

fn relation(py: Python<'_>, name: &str) -> PyResult<Relation> {
    match name {
        "L" => Ok(Relation::L),
        "H" => Ok(Relation::H),
        "C" => Ok(Relation::C),
        other => Err(unknown(py, "relation", other, &["L", "H", "C"])),
    }
}

#[pyclass(subclass, name = "FreqTable", module = "opplab._opplab.kernel")]
struct PyFreqTable {
    inner: FreqTable,
}

#[pymethods]
impl PyFreqTable {
    #[new]
    #[pyo3(signature = (freqs_khz, *, inefficient_khz = Vec::new()))]
    fn new(py: Python<'_>, freqs_khz: Vec<u32>, inefficient_khz: Vec<u32>) -> PyResult<Self> {
        let mut inner = FreqTable::from_khz(&freqs_khz).map_err(|error| refuse(py, error))?;
        inner.set_inefficient(&inefficient_khz);
        Ok(Self { inner })
    }

    #[pyo3(signature = (target_khz, relation = "L", *, min_khz = 0, max_khz = u32::MAX, efficient = false))]
    fn resolve(
        &self,
        py: Python<'_>,
        target_khz: u32,
        relation: &str,
        min_khz: u32,
        max_khz: u32,
        efficient: bool,
    ) -> PyResult<u32> {
        let relation = self::relation(py, relation)?;
        Ok(self.inner.resolve(target_khz, FreqLimits { min_khz, max_khz }, relation, efficient))
    }

    #[getter]
    fn freqs_khz(&self) -> Vec<u32> {
        self.inner.entries().iter().map(|entry| entry.freq_khz).collect()
    }

    fn __len__(&self) -> usize {
        self.inner.entries().len()
    }

    fn __repr__(&self) -> String {
        format!("FreqTable({:?}, order={})", self.freqs_khz(), variant_name(self.inner.order()))
    }
}

#[pyfunction(name = "map_util_freq")]
fn py_map_util_freq(util: u64, freq_khz: u64, capacity: u64) -> u64 {
    map_util_freq(util, freq_khz, capacity)
}

#[pyfunction(name = "map_util_perf")]
fn py_map_util_perf(util: u64) -> u64 {
    map_util_perf(util)
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct RqFactsArgs {
    capacity: u64,
    util_rt: u64,
    util_dl: u64,
    util_irq: u64,
    dl_running_bw: u64,
    uclamp_min: u64,
    uclamp_max: u64,
    uclamp_used: bool,
    rt_runnable: bool,
}

impl From<RqFactsArgs> for RqFacts {
    fn from(args: RqFactsArgs) -> Self {
        Self {
            capacity: args.capacity,
            util_rt: args.util_rt,
            util_dl: args.util_dl,
            util_irq: args.util_irq,
            dl_running_bw: args.dl_running_bw,
            uclamp_min: args.uclamp_min,
            uclamp_max: args.uclamp_max,
            uclamp_used: args.uclamp_used,
            rt_runnable: args.rt_runnable,
        }
    }
}

/// Utilisation and its bounds, v6.12.
#[pyfunction(name = "effective_cpu_util")]
fn py_effective_cpu_util(util_cfs: u64, rq: RqFactsArgs) -> (u64, u64, u64) {
    let effective = effective_cpu_util(&rq.into(), util_cfs);
    (effective.util, effective.min, effective.max)
}

/// Utilisation as v4.20 to v6.7 compute it.
#[pyfunction(name = "schedutil_cpu_util")]
fn py_schedutil_cpu_util(util_cfs: u64, rq: RqFactsArgs, frequency: bool) -> u64 {
    let kind = if frequency { UtilType::Frequency } else { UtilType::Energy };
    schedutil_cpu_util(&rq.into(), util_cfs, kind, None)
}

#[pyclass(subclass, name = "Schedutil", module = "opplab._opplab.kernel")]
struct PySchedutil {
    inner: SugovPolicy,
    facts: Vec<CpuFacts>,
    policy: PolicyFacts,
    kernel: String,
}

fn decision_dict<'py>(
    py: Python<'py>,
    decision: Option<&SugovDecision>,
    request: Option<SugovRequest>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    if let Some(decision) = decision {
        dict.set_item("time_ns", decision.time)?;
        dict.set_item("cpu", decision.cpu)?;
        dict.set_item("deciding_cpu", decision.deciding_cpu)?;
        dict.set_item("util", decision.util)?;
        dict.set_item("iowait", decision.iowait)?;
        dict.set_item("max_cap", decision.max_cap)?;
        dict.set_item("ref_khz", decision.ref_khz)?;
        dict.set_item("raw_khz", decision.raw_khz)?;
        dict.set_item("next_khz", decision.next_khz)?;
        dict.set_item("outcome", variant_name(decision.outcome))?;
    }
    let request = match request {
        None => None,
        Some(SugovRequest::FastSwitch { freq_khz }) => Some(("fast-switch", u64::from(freq_khz), 0)),
        Some(SugovRequest::QueueWork) => Some(("queue-work", 0, 0)),
        Some(SugovRequest::AdjustPerf { min_perf, target_perf, .. }) => Some(("adjust-perf", target_perf, min_perf)),
    };
    dict.set_item("request", request)?;
    Ok(dict)
}

#[pymethods]
impl PySchedutil {
    #[new]
    #[pyo3(signature = (freqs_khz, *, n_cpus = 1, kernel = "6.12", gates = Vec::new(), rate_limit_us = None,
        freq_invariant = true, freq_ref_khz = 0, fast_switch = true, adjust_perf = false, tick_ns = 4_000_000,
        cur_khz = None))]
    #[expect(clippy::too_many_arguments, reason = "keywords")]
    fn new(
        py: Python<'_>,
        freqs_khz: Vec<u32>,
        n_cpus: usize,
        kernel: &str,
        gates: Vec<(String, String)>,
        rate_limit_us: Option<u32>,
        freq_invariant: bool,
        freq_ref_khz: u32,
        fast_switch: bool,
        adjust_perf: bool,
        tick_ns: u64,
        cur_khz: Option<u32>,
    ) -> PyResult<Self> {
        let table = FreqTable::from_khz(&freqs_khz).map_err(|error| refuse(py, error))?;
        let limits = table.cpuinfo(true).ok_or_else(|| refuse(py, "the frequency table has no valid entry"))?;
        let mut profile = profile(py, kernel)?;
        for (gate, value) in &gates {
            profile.set(gate, value).map_err(|error| refuse(py, error))?;
        }
        if n_cpus == 0 {
            return Err(refuse(py, "a policy has at least one CPU"));
        }
        let inner = SugovPolicy::new(SugovConfig {
            n_cpus,
            cpuinfo: limits,
            limits,
            table: Some(table),
            fast_switch,
            need_update_limits: false,
            adjust_perf,
            rate_limit_us: rate_limit_us.unwrap_or_else(|| profile.rate_limit_us(0, 0)),
            tick_ns,
            gates: profile.sugov_gates(),
        });
        let cur_khz = cur_khz.unwrap_or(limits.max_khz);
        let policy = PolicyFacts { cur_khz, freq_ref_khz, freq_invariant, can_update: true };
        Ok(Self { inner, facts: vec![CpuFacts::default(); n_cpus], policy, kernel: kernel.to_owned() })
    }

    #[expect(clippy::too_many_arguments, reason = "called by one Python method with keywords")]
    fn step<'py>(
        &mut self,
        py: Python<'py>,
        time_ns: u64,
        cpu: usize,
        util: u64,
        runnable: u64,
        rq: RqFactsArgs,
        iowait: bool,
        idled: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let n_cpus = self.facts.len();
        let Some(facts) = self.facts.get_mut(cpu) else {
            return Err(refuse(py, format_args!("CPU {cpu} is not in the policy, which has {n_cpus}")));
        };
        facts.rq = rq.into();
        facts.util_cfs = util;
        facts.util_cfs_boost = util.max(runnable);
        facts.idle_calls += u64::from(idled);
        let mut log: Vec<SugovDecision> = Vec::new();
        let flags = if iowait { SCHED_CPUFREQ_IOWAIT } else { 0 };
        let Self { inner, facts, policy, .. } = self;
        let request = guard(py, || inner.update_recorded(time_ns, cpu, flags, policy, facts.as_slice(), &mut log))?;
        if let Some(SugovRequest::FastSwitch { freq_khz }) = request {
            self.policy.cur_khz = freq_khz;
        }
        decision_dict(py, log.last(), request)
    }

    fn work(&mut self) -> Option<u32> {
        let freq_khz = self.inner.sugov_work(self.policy.cur_khz);
        self.policy.cur_khz = freq_khz.unwrap_or(self.policy.cur_khz);
        freq_khz
    }

    fn set_limits(&mut self, min_khz: u32, max_khz: u32) -> Option<u32> {
        let freq_khz = self.inner.set_limits(FreqLimits { min_khz, max_khz }, self.policy.cur_khz);
        self.policy.cur_khz = freq_khz.unwrap_or(self.policy.cur_khz);
        freq_khz
    }

    #[getter]
    fn cur_khz(&self) -> u32 {
        self.policy.cur_khz
    }
    #[setter]
    fn set_cur_khz(&mut self, cur_khz: u32) {
        self.policy.cur_khz = cur_khz;
    }
    #[getter]
    fn next_freq_khz(&self) -> u32 {
        self.inner.next_freq_khz()
    }
    #[getter]
    fn rate_limit_us(&self) -> u32 {
        self.inner.show(SugovPolicy::TUNABLES[0]).unwrap_or(0)
    }
    #[setter]
    fn set_rate_limit_us(&mut self, rate_limit_us: u32) {
        self.inner.set_rate_limit_us(rate_limit_us);
    }
    #[getter]
    fn path(&self) -> String {
        variant_name(self.inner.path())
    }
    fn __repr__(&self) -> String {
        let cpus: Vec<String> = self.inner.cpus().iter().map(python_repr).collect();
        format!(
            "Schedutil(kernel={:?}, path={:?}, cur_khz={}, next_freq_khz={}, cached_raw_freq_khz={}, \
             last_freq_update_time={}, cpus=[{}])",
            self.kernel,
            self.path(),
            self.cur_khz(),
            self.next_freq_khz(),
            self.inner.cached_raw_freq_khz(),
            self.inner.last_freq_update_time(),
            cpus.join(", ")
        )
    }
}

#[pyclass(subclass, name = "IowaitBoost", module = "opplab._opplab.kernel")]
struct PyIowaitBoost {
    inner: SugovCpu,
    tick_ns: u64,
}

#[pymethods]
impl PyIowaitBoost {
    #[new]
    #[pyo3(signature = (*, tick_ns = 4_000_000))]
    fn new(tick_ns: u64) -> Self {
        Self { inner: SugovCpu::default(), tick_ns }
    }

    #[pyo3(signature = (time_ns, *, iowait = false, capacity = 1024))]
    fn update(&mut self, time_ns: u64, iowait: bool, capacity: u64) -> u64 {
        self.inner.sugov_iowait_boost(time_ns, iowait, self.tick_ns);
        self.inner.last_update = time_ns;
        self.inner.sugov_iowait_apply(time_ns, capacity, self.tick_ns)
    }

    #[getter]
    fn iowait_boost(&self) -> u32 {
        self.inner.iowait_boost
    }
    #[getter]
    fn iowait_boost_pending(&self) -> bool {
        self.inner.iowait_boost_pending
    }
    fn __repr__(&self) -> String {
        let SugovCpu { iowait_boost, iowait_boost_pending, last_update, .. } = self.inner;
        let pending = if iowait_boost_pending { "True" } else { "False" };
        format!("IowaitBoost(iowait_boost={iowait_boost}, iowait_boost_pending={pending}, last_update={last_update})")
    }
}

#[pyclass(subclass, name = "HwpBoost", module = "opplab._opplab.kernel")]
struct PyHwpBoost {
    inner: HwpBoost,
    tick_ns: u64,
}

#[pymethods]
impl PyHwpBoost {
    #[new]
    #[pyo3(signature = (*, tick_ns = 4_000_000, idle_placement = false))]
    fn new(tick_ns: u64, idle_placement: bool) -> Self {
        let idle_placement = idle_placement.then(IdlePlacementBoost::default);
        Self { inner: HwpBoost { idle_placement, ..HwpBoost::default() }, tick_ns }
    }

    #[pyo3(signature = (time_ns, *, request, capabilities, iowait = false, idle_placement = false, local = true))]
    fn update_util(
        &mut self,
        time_ns: u64,
        request: u64,
        capabilities: u64,
        iowait: bool,
        idle_placement: bool,
        local: bool,
    ) -> Option<u64> {
        let mut flags = if iowait { SCHED_CPUFREQ_IOWAIT } else { 0 };
        flags |= if idle_placement { SCHED_CPUFREQ_IDLE_PLACEMENT } else { 0 };
        let (cached, capabilities) = (HwpRequest(request), HwpCapabilities(capabilities));
        let written = self.inner.update_util(time_ns, flags, local, self.tick_ns, cached, capabilities);
        written.map(|request| request.0)
    }

    #[getter]
    fn hwp_boost_min(&self) -> u32 {
        self.inner.hwp_boost_min
    }
    fn __repr__(&self) -> String {
        python_repr(&self.inner)
    }
}

// ---------------------------------------------------------------------------------------- f_max and CPPC

#[pyfunction]
fn freq_max_ratio(
    py: Python<'_>,
    variant: &str,
    base_khz: u32,
    turbo: Vec<(u32, u32)>,
    n_cores: u32,
) -> PyResult<(u32, Option<u64>)> {
    let Some(freq_max) = FreqMax::from_name(variant) else {
        return Err(unknown(py, "f_max variant", variant, &FreqMax::ALL.map(FreqMax::name)));
    };
    let turbo: Vec<TurboLevel> =
        turbo.into_iter().map(|(active_cores, freq_khz)| TurboLevel { active_cores, freq_khz }).collect();
    let facts = FreqMaxFacts { base_khz, turbo: &turbo, n_cores };
    Ok((freq_max.freq_khz(&facts), freq_max.ratio(&facts)))
}

#[pyfunction]
#[pyo3(signature = (model = "other", *, platform_info = None, turbo_ratio_limit = None, turbo_ratio_limit1 = None,
    misc_enable = None, atom_core_ratios = None, atom_core_turbo_ratios = None))]
#[expect(clippy::too_many_arguments, reason = "keywords")]
fn intel_max_freq_ratio(
    py: Python<'_>,
    model: &str,
    platform_info: Option<u64>,
    turbo_ratio_limit: Option<u64>,
    turbo_ratio_limit1: Option<u64>,
    misc_enable: Option<u64>,
    atom_core_ratios: Option<u64>,
    atom_core_turbo_ratios: Option<u64>,
) -> PyResult<Option<u64>> {
    let model = match model {
        "other" => IntelTurboModel::Other,
        "knl" => IntelTurboModel::Knl,
        "skx" => IntelTurboModel::Skx,
        "glm" => IntelTurboModel::Glm,
        name => return Err(unknown(py, "turbo model", name, &["other", "knl", "skx", "glm"])),
    };
    let msrs = IntelMsrs {
        misc_enable,
        atom_core_ratios,
        atom_core_turbo_ratios,
        platform_info,
        turbo_ratio_limit,
        turbo_ratio_limit1,
    };
    Ok(msrs.turbo_freq_ratio(model).map(|ratio| arch_max_freq_ratio(ratio, msrs.turbo_disabled())))
}

#[pyfunction]
#[pyo3(signature = (nominal_perf, highest_perfs, *, zen4 = false, model = 0))]
fn amd_max_freq_ratio(nominal_perf: u32, highest_perfs: Vec<u32>, zen4: bool, model: u8) -> Option<u64> {
    let caps = AmdPerfCaps { nominal_perf: Some(nominal_perf), highest_perfs: &highest_perfs, zen4, model };
    caps.max_freq_ratio()
}

#[pyfunction(name = "scale_freq_tick")]
fn py_scale_freq_tick(acnt: u64, mcnt: u64, max_freq_ratio: u64) -> Option<u64> {
    scale_freq_tick(acnt, mcnt, max_freq_ratio)
}

#[pyclass(subclass, frozen, name = "CppcPerfCaps", module = "opplab._opplab.kernel")]
struct PyCppcPerfCaps {
    inner: CppcPerfCaps,
}

#[pymethods]
impl PyCppcPerfCaps {
    #[new]
    #[pyo3(signature = (lowest_perf, nominal_perf, highest_perf, *, lowest_freq_mhz = 0, nominal_freq_mhz = 0,
        dmi_max_khz = 0))]
    fn new(
        lowest_perf: u32,
        nominal_perf: u32,
        highest_perf: u32,
        lowest_freq_mhz: u32,
        nominal_freq_mhz: u32,
        dmi_max_khz: u64,
    ) -> Self {
        let inner =
            CppcPerfCaps { lowest_perf, nominal_perf, highest_perf, lowest_freq_mhz, nominal_freq_mhz, dmi_max_khz };
        Self { inner }
    }

    fn cppc_perf_to_khz(&self, perf: u32) -> u32 {
        self.inner.perf_to_khz(perf)
    }
    fn cppc_khz_to_perf(&self, freq_khz: u32) -> u32 {
        self.inner.khz_to_perf(freq_khz)
    }
    fn __repr__(&self) -> String {
        python_repr(&self.inner)
    }
}

/// A state: performance, kHz, uW, cost, inefficient.
type State = (u64, u64, u64, u64, bool);

fn state(state: &EmPerfState) -> State {
    (state.performance, state.freq_khz, state.power_uw, state.cost, state.inefficient)
}

#[pyfunction(name = "artificial_em")]
fn py_artificial_em(
    py: Python<'_>,
    caps: &PyCppcPerfCaps,
    capacity: u32,
    efficiency_class: u32,
) -> PyResult<(Vec<State>, u64, bool)> {
    let em = guard(py, || artificial_em(&caps.inner, capacity, efficiency_class))?;
    let em = em.map_err(|error| refuse(py, error))?;
    Ok((em.states.iter().map(state).collect(), em.loop_calls, em.spun))
}

#[pyfunction(name = "squeeze_efficiency_classes")]
fn py_squeeze_efficiency_classes(raw: Vec<u8>) -> Option<Vec<u32>> {
    squeeze_efficiency_classes(&raw)
}

#[pyfunction(name = "cppc_scale_freq")]
fn py_cppc_scale_freq(reference_perf: u64, highest_perf: u32, t0: (u64, u64), t1: (u64, u64)) -> Option<u64> {
    let counters = |(reference, delivered)| CppcPerfFbCtrs { reference, delivered };
    cppc_scale_freq(reference_perf, highest_perf, &counters(t0), &counters(t1))
}

// ------------------------------------------------------------------------------------- energy model, EAS

#[pyclass(subclass, frozen, name = "EnergyModel", module = "opplab._opplab.kernel")]
struct PyEnergyModel {
    inner: EmPerfDomain,
    #[pyo3(get)]
    capacity: u64,
}

#[pymethods]
impl PyEnergyModel {
    #[new]
    #[pyo3(signature = (points, *, cpus, capacity = 1024, kernel = "6.12", skip_inefficient = true))]
    fn new(
        py: Python<'_>,
        points: Vec<(u64, u64)>,
        cpus: Vec<usize>,
        capacity: u64,
        kernel: &str,
        skip_inefficient: bool,
    ) -> PyResult<Self> {
        let form = profile(py, kernel)?.em_form();
        let states = em_create_perf_table(&points, capacity, form).map_err(|error| refuse(py, error))?;
        Ok(Self { inner: EmPerfDomain { states, cpus, skip_inefficient, form }, capacity })
    }

    /// The class is a subclass's, so that Python's name is kept.
    #[staticmethod]
    #[pyo3(signature = (caps, *, cpus, capacity, efficiency_class, kernel = "6.12"))]
    fn artificial(
        py: Python<'_>,
        caps: &PyCppcPerfCaps,
        cpus: Vec<usize>,
        capacity: u32,
        efficiency_class: u32,
        kernel: &str,
    ) -> PyResult<Self> {
        let form = profile(py, kernel)?.em_form();
        let em = guard(py, || artificial_em(&caps.inner, capacity, efficiency_class))?;
        let em = em.map_err(|error| refuse(py, error))?;
        let inner = EmPerfDomain { states: em.states, cpus, skip_inefficient: true, form };
        Ok(Self { inner, capacity: u64::from(capacity) })
    }

    #[getter]
    fn states(&self) -> Vec<State> {
        self.inner.states.iter().map(state).collect()
    }
    #[getter]
    fn cpus(&self) -> Vec<usize> {
        self.inner.cpus.clone()
    }
    #[pyo3(signature = (max_util, sum_util, *, allowed_cpu_cap = None))]
    fn em_cpu_energy(&self, max_util: u64, sum_util: u64, allowed_cpu_cap: Option<u64>) -> u64 {
        self.inner.em_cpu_energy(max_util, sum_util, allowed_cpu_cap.unwrap_or(self.capacity), self.capacity)
    }
    fn __repr__(&self) -> String {
        let states: Vec<String> =
            self.inner.states.iter().map(|at| format!("({}, {})", at.freq_khz, at.power_uw)).collect();
        format!("EnergyModel([{}], cpus={:?}, capacity={})", states.join(", "), self.inner.cpus, self.capacity)
    }
}

struct PlacementFacts {
    cpus: Vec<EasCpu>,
    allowed: Vec<bool>,
    uclamp_used: bool,
}

impl EasFacts for PlacementFacts {
    fn cpu(&self, cpu: usize) -> EasCpu {
        self.cpus[cpu]
    }
    fn allowed(&self, cpu: usize) -> bool {
        self.allowed[cpu]
    }
    fn uclamp_used(&self) -> bool {
        self.uclamp_used
    }
}

fn eas_gates(py: Python<'_>, kernel: &str) -> PyResult<EasGates> {
    let profile = profile(py, kernel)?;
    let present = profile.eas_gates().filter(|_| profile.eas == Eas::Present);
    present.ok_or_else(|| refuse(py, format_args!("kernel {kernel} has no energy-aware placement")))
}

type PlacementAnswer =
    (Option<usize>, String, Vec<(usize, usize, u64, i32)>, Vec<(Option<usize>, usize, u64, u64, u64)>);

#[pyfunction(name = "find_energy_efficient_cpu")]
#[expect(clippy::too_many_arguments, reason = "called by one Python function with keywords")]
fn py_find_energy_efficient_cpu(
    py: Python<'_>,
    domains: Vec<PyRef<'_, PyEnergyModel>>,
    util_avg: Vec<u64>,
    runnable_avg: Vec<u64>,
    util_est: Vec<u64>,
    allowed: Vec<bool>,
    prev_cpu: usize,
    task: (u64, u64, u32, u64, u64),
    overutilized: bool,
    kernel: &str,
) -> PyResult<PlacementAnswer> {
    let gates = eas_gates(py, kernel)?;
    let n = util_avg.len();
    if [runnable_avg.len(), util_est.len(), allowed.len()] != [n; 3] {
        return Err(refuse(py, "the CPUs' lists differ in length"));
    }
    if prev_cpu >= n {
        return Err(refuse(py, format_args!("there is no CPU {prev_cpu}; the utilisation of {n} was given")));
    }
    let mut capacities = vec![None; n];
    for domain in &domains {
        for &cpu in &domain.inner.cpus {
            match capacities.get_mut(cpu) {
                Some(capacity @ None) => *capacity = Some(domain.capacity),
                Some(_) => return Err(refuse(py, format_args!("CPU {cpu} is in two domains"))),
                None => return Err(refuse(py, format_args!("the utilisation of CPU {cpu} is missing"))),
            }
        }
    }
    if let Some(cpu) = capacities.iter().position(Option::is_none) {
        return Err(refuse(py, format_args!("CPU {cpu} is in no domain")));
    }
    let (task_util, task_runnable, task_util_est, uclamp_min, uclamp_max) = task;
    let uclamp_used = uclamp_min != 0 || uclamp_max != 1024;
    let cpu = |cpu: usize| {
        let capacity = capacities[cpu].unwrap_or(1024);
        EasCpu {
            rq: RqFacts { capacity, uclamp_used, ..RqFacts::default() },
            capacity: CpuCapacity { orig: capacity, of: capacity, hw_pressure: 0, cpufreq_pressure: 0 },
            util_avg: util_avg[cpu],
            runnable_avg: runnable_avg[cpu],
            util_est: util_est[cpu],
            uclamp_idle: false,
        }
    };
    let facts = PlacementFacts { cpus: (0..n).map(cpu).collect(), allowed, uclamp_used };
    let task = EasTask {
        prev_cpu,
        util_avg: task_util,
        runnable_avg: task_runnable,
        util_est: task_util_est,
        uclamp_min,
        uclamp_max,
        queued: false,
    };
    let models: Vec<EmPerfDomain> = domains.iter().map(|domain| domain.inner.clone()).collect();
    let mut log = EasExplanation::default();
    let target = guard(py, || find_energy_efficient_cpu(&models, &task, overutilized, &facts, gates, &mut log))?;
    let rule = log.decided.map_or_else(String::new, |(_, rule)| variant_name(rule));
    let candidates = log.candidates.iter().map(|one| (one.cpu, one.domain, one.spare_cap, one.fits)).collect();
    let energies =
        log.energies.iter().map(|one| (one.dst_cpu, one.domain, one.energy, one.max_util, one.busy_time)).collect();
    Ok((target, rule, candidates, energies))
}

// ------------------------------------------------------------------------------------------------ cpuidle

#[pyclass(subclass, name = "IdleGovernor", module = "opplab._opplab.kernel")]
struct PyIdleGovernor {
    inner: std::sync::Mutex<Box<dyn IdleGovernor>>,
    states: Vec<IdleState>,
    tick_ns: u64,
}

impl PyIdleGovernor {
    fn governor(&mut self) -> &mut Box<dyn IdleGovernor> {
        self.inner.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[pymethods]
impl PyIdleGovernor {
    #[new]
    #[pyo3(signature = (name, states, *, tick_ns = 4_000_000, kernel = "6.12"))]
    fn new(py: Python<'_>, name: &str, states: Vec<(u64, u64, bool)>, tick_ns: u64, kernel: &str) -> PyResult<Self> {
        let kernel = profile(py, kernel)?;
        let Some(entry) = idle_governor(name) else {
            let known: Vec<&str> = IDLE_GOVERNORS.iter().map(|entry| entry.name).collect();
            return Err(unknown(py, "idle governor", name, &known));
        };
        if states.is_empty() {
            return Err(refuse(py, "the table of idle states is empty"));
        }
        let states = states
            .into_iter()
            .map(|(exit_latency_ns, target_residency_ns, polling)| IdleState {
                exit_latency_ns,
                target_residency_ns,
                polling,
            })
            .collect();
        Ok(Self { inner: std::sync::Mutex::new((entry.new)(&kernel)), states, tick_ns })
    }

    #[pyo3(signature = (now_ns, *, sleep_length_ns, delta_tick_ns = None, latency_req_ns = KTIME_MAX, disabled = 0,
        tick_stopped = false, nr_iowaiters = 0))]
    #[expect(clippy::too_many_arguments, reason = "keywords")]
    fn select(
        &mut self,
        py: Python<'_>,
        now_ns: u64,
        sleep_length_ns: i64,
        delta_tick_ns: Option<i64>,
        latency_req_ns: u64,
        disabled: u64,
        tick_stopped: bool,
        nr_iowaiters: u32,
    ) -> PyResult<(usize, bool)> {
        let states = std::mem::take(&mut self.states);
        let facts = IdleFacts {
            states: &states,
            disabled,
            latency_req_ns,
            sleep_length_ns,
            delta_tick_ns: delta_tick_ns.unwrap_or_else(|| sleep_length_ns.min(self.tick_ns as i64)),
            tick_stopped,
            nr_iowaiters,
            tick_ns: self.tick_ns,
            now_ns,
        };
        let governor = self.governor();
        let choice = guard(py, || governor.select(&facts));
        self.states = states;
        choice.map(|choice| (choice.index, choice.stop_tick))
    }

    #[pyo3(signature = (now_ns, *, index, residency_ns, got_tick = false, poll_time_limit = false))]
    fn reflect(
        &mut self,
        py: Python<'_>,
        now_ns: u64,
        index: usize,
        residency_ns: u64,
        got_tick: bool,
        poll_time_limit: bool,
    ) -> PyResult<()> {
        if index >= self.states.len() {
            return Err(refuse(
                py,
                format_args!("there is no idle state {index}; the table has {}", self.states.len()),
            ));
        }
        let outcome = IdleOutcome { index, residency_ns, got_tick, poll_time_limit, now_ns };
        let governor = self.governor();
        guard(py, || governor.reflect(&outcome))
    }

    fn __repr__(&mut self) -> String {
        python_repr(self.governor())
    }
}

// ----------------------------------------------------------------------------------------------- profiles

/// Rows of the table of gates: gate, what, value, since, meaning, source.
type GateRow = (&'static str, &'static str, &'static str, Option<String>, &'static str, &'static str);

fn version_text((major, minor): Version) -> String {
    format!("{major}.{minor}")
}

#[pyfunction]
fn profiles() -> Vec<&'static str> {
    PROFILES.iter().map(|&(name, _)| name).collect()
}

#[pyfunction]
fn gates() -> Vec<GateRow> {
    let rows = GATES.iter().flat_map(|gate| gate.values.iter().map(move |value| (gate, value)));
    rows.map(|(gate, value)| {
        (gate.name, gate.what, value.name, value.since.map(version_text), value.what, value.source)
    })
    .collect()
}

#[pyclass(subclass, name = "KernelProfile", module = "opplab._opplab.kernel")]
struct PyKernelProfile {
    inner: KernelProfile,
}

#[pymethods]
impl PyKernelProfile {
    #[new]
    fn new(py: Python<'_>, name: &str) -> PyResult<Self> {
        Ok(Self { inner: profile(py, name)? })
    }

    #[getter]
    fn version(&self) -> Version {
        self.inner.version
    }

    fn show(&self, py: Python<'_>, gate: &str) -> PyResult<&'static str> {
        let known: Vec<&str> = GATES.iter().map(|gate| gate.name).collect();
        self.inner.show(gate).ok_or_else(|| unknown(py, "gate", gate, &known))
    }

    fn set(&mut self, py: Python<'_>, gate: &str, value: &str) -> PyResult<()> {
        self.inner.set(gate, value).map_err(|error| refuse(py, error))
    }

    fn gates(&self) -> Vec<(&'static str, &'static str)> {
        GATES.iter().filter_map(|gate| Some((gate.name, self.inner.show(gate.name)?))).collect()
    }

    #[pyo3(signature = (*, transition_delay_us = 0, transition_latency_ns = 0))]
    fn rate_limit_us(&self, transition_delay_us: u32, transition_latency_ns: u32) -> u32 {
        self.inner.rate_limit_us(transition_delay_us, transition_latency_ns)
    }

    fn __repr__(&self) -> String {
        let gates: Vec<String> = self.gates().iter().map(|(gate, value)| format!("{gate}={value:?}")).collect();
        format!("KernelProfile({:?}, {})", version_text(self.inner.version), gates.join(", "))
    }
}

// ------------------------------------------------------------------------------------------------ studies

/// One CPU's closed loop (`opplab_study`), as a dict of arrays.
#[pyfunction(name = "closed_loop")]
#[pyo3(signature = (freqs_khz, time_ns, work_ns, duration_ns, *, kernel, freq_invariant, rate_limit_us, util_est,
    start_util, cur_khz, tick_ns, half_life))]
#[expect(clippy::too_many_arguments, reason = "keywords")]
fn py_closed_loop<'py>(
    py: Python<'py>,
    freqs_khz: Vec<u32>,
    time_ns: PyReadonlyArray1<'py, u64>,
    work_ns: PyReadonlyArray1<'py, u64>,
    duration_ns: u64,
    kernel: &str,
    freq_invariant: bool,
    rate_limit_us: u32,
    util_est: bool,
    start_util: u64,
    cur_khz: u32,
    tick_ns: u64,
    half_life: u32,
) -> PyResult<Bound<'py, PyDict>> {
    let gates = profile(py, kernel)?.sugov_gates();
    if tick_ns == 0 {
        return Err(refuse(py, "a tick takes time"));
    }
    let (time_ns, work_ns) = (time_ns.as_slice()?, work_ns.as_slice()?);
    if time_ns.len() != work_ns.len() {
        return Err(refuse(py, "the arrays differ in length"));
    }
    let activations: Vec<Activation> =
        time_ns.iter().zip(work_ns).map(|(&time_ns, &work_ns)| Activation { time_ns, work_ns }).collect();
    let config = LoopConfig {
        freqs_khz,
        cur_khz,
        freq_invariant,
        gates,
        rate_limit_us,
        tick_ns,
        util_est,
        start_util,
        duration_ns,
    };
    let trace = with_half_life!(py, half_life, H => guard(py, || closed_loop::<H>(&config, &activations))?)?;
    let trace = trace.map_err(|error| refuse(py, error))?;
    let dict = PyDict::new(py);
    dict.set_item("time_ns", trace.time_ns.into_pyarray(py))?;
    dict.set_item("util", trace.util.into_pyarray(py))?;
    dict.set_item("freq_khz", trace.freq_khz.into_pyarray(py))?;
    dict.set_item("end_ns", trace.end_ns.into_pyarray(py))?;
    dict.set_item("busy_ns", trace.busy_ns.into_pyarray(py))?;
    dict.set_item("span_ns", trace.span_ns.into_pyarray(py))?;
    dict.set_item("span_khz", trace.span_khz.into_pyarray(py))?;
    dict.set_item("span_busy", trace.span_busy.into_pyarray(py))?;
    Ok(dict)
}

/// The submodule.
#[pymodule]
#[pyo3(name = "kernel")]
pub(crate) mod bindings {
    #[pymodule_export]
    use super::{
        PyClockPelt, PyCppcPerfCaps, PyEnergyModel, PyFreqTable, PyHwpBoost, PyIdleGovernor, PyIowaitBoost,
        PyKernelProfile, PyPeltBatch, PySchedAvg, PySchedutil, PyUtilEst, amd_max_freq_ratio, freq_max_ratio, gates,
        intel_max_freq_ratio, pelt, profiles, py_artificial_em, py_closed_loop, py_cppc_scale_freq, py_decay_load,
        py_effective_cpu_util, py_find_energy_efficient_cpu, py_map_util_freq, py_map_util_perf, py_ramp_up_periods,
        py_scale_freq_tick, py_schedutil_cpu_util, py_squeeze_efficiency_classes,
    };
}
