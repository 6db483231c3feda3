//! Frequency tables, schedutil and the boosts of intel_pstate.

use opplab_guarded::guarded;
use opplab_kernel::cpufreq::facts::{CpuFacts, PolicyFacts, Request, RqFacts, SugovDecision};
use opplab_kernel::cpufreq::freq_table::{FreqLimits, FreqTable, Relation};
use opplab_kernel::cpufreq::intel_pstate::{
    HwpBoost, HwpCapabilities, HwpRequest, IdlePlacementBoost, SCHED_CPUFREQ_IDLE_PLACEMENT,
};
use opplab_kernel::cpufreq::perf_margin::map_util_perf;
use opplab_kernel::cpufreq::schedutil::{
    SCHED_CPUFREQ_IOWAIT, SugovConfig, SugovCpu, SugovPolicy, UtilType, effective_cpu_util, map_util_freq,
    schedutil_cpu_util,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{profile, python_repr, refuse, unknown, variant_name};

fn relation(py: Python<'_>, name: &str) -> PyResult<Relation> {
    match name {
        "L" => Ok(Relation::L),
        "H" => Ok(Relation::H),
        "C" => Ok(Relation::C),
        other => Err(unknown(py, "relation", other, &["L", "H", "C"])),
    }
}

#[pyclass(subclass, name = "FreqTable", module = "opplab._opplab.kernel")]
pub(super) struct PyFreqTable {
    inner: FreqTable,
}

#[guarded]
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
        let freqs_khz: Vec<u32> = self.inner.entries().iter().map(|entry| entry.freq_khz).collect();
        format!("FreqTable({freqs_khz:?}, order={})", variant_name(self.inner.order()))
    }
}

#[guarded]
#[pyfunction(name = "map_util_freq")]
pub(super) fn py_map_util_freq(util: u64, freq_khz: u64, capacity: u64) -> u64 {
    map_util_freq(util, freq_khz, capacity)
}

#[guarded]
#[pyfunction(name = "map_util_perf")]
pub(super) fn py_map_util_perf(util: u64) -> u64 {
    map_util_perf(util)
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct RqFactsArgs {
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
#[guarded]
#[pyfunction(name = "effective_cpu_util")]
pub(super) fn py_effective_cpu_util(util_cfs: u64, rq: RqFactsArgs) -> (u64, u64, u64) {
    let effective = effective_cpu_util(&rq.into(), util_cfs);
    (effective.util, effective.min, effective.max)
}

/// Utilisation as v4.20 to v6.7 compute it.
#[guarded]
#[pyfunction(name = "schedutil_cpu_util")]
pub(super) fn py_schedutil_cpu_util(util_cfs: u64, rq: RqFactsArgs, frequency: bool) -> u64 {
    let kind = if frequency { UtilType::Frequency } else { UtilType::Energy };
    schedutil_cpu_util(&rq.into(), util_cfs, kind, None)
}

#[pyclass(subclass, name = "Schedutil", module = "opplab._opplab.kernel")]
pub(super) struct PySchedutil {
    inner: SugovPolicy,
    facts: Vec<CpuFacts>,
    policy: PolicyFacts,
    kernel: String,
}

fn decision_dict<'py>(
    py: Python<'py>,
    decision: Option<&SugovDecision>,
    request: Option<Request>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    if let Some(decision) = decision {
        dict.set_item("time_ns", decision.time)?;
        set_fields!(dict, decision; cpu, deciding_cpu, util);
        dict.set_item("iowait", decision.steps.map_or(0, |steps| steps.iowait))?;
        set_fields!(dict, decision; max_cap, ref_khz, raw_khz, next_khz);
        dict.set_item("outcome", variant_name(decision.outcome))?;
    }
    let request = match request {
        None => None,
        Some(Request::FastSwitch { freq_khz }) => Some(("fast-switch", u64::from(freq_khz), 0)),
        Some(Request::QueueWork) => Some(("queue-work", 0, 0)),
        Some(Request::AdjustPerf { min_perf, target_perf, .. }) => Some(("adjust-perf", target_perf, min_perf)),
    };
    dict.set_item("request", request)?;
    Ok(dict)
}

#[guarded]
#[pymethods]
impl PySchedutil {
    #[new]
    #[pyo3(signature = (freqs_khz, *, n_cpus = 1, kernel = "6.12.117", gates = Vec::new(), rate_limit_us = None,
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
        let request = inner.update_recorded(time_ns, cpu, flags, policy, facts.as_slice(), &mut log);
        if let Some(Request::FastSwitch { freq_khz }) = request {
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
        self.inner.rate_limit_us()
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
            variant_name(self.inner.path()),
            self.policy.cur_khz,
            self.inner.next_freq_khz(),
            self.inner.cached_raw_freq_khz(),
            self.inner.last_freq_update_time(),
            cpus.join(", ")
        )
    }
}

#[pyclass(subclass, name = "IowaitBoost", module = "opplab._opplab.kernel")]
pub(super) struct PyIowaitBoost {
    inner: SugovCpu,
    tick_ns: u64,
}

#[guarded]
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
pub(super) struct PyHwpBoost {
    inner: HwpBoost,
    tick_ns: u64,
}

#[guarded]
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
