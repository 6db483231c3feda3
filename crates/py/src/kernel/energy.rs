//! The energy model and energy-aware placement.

use opplab_guarded::guarded;
use opplab_kernel::cpufreq::cppc::artificial_em;
use opplab_kernel::cpufreq::facts::RqFacts;
use opplab_kernel::eas::{EasCpu, EasExplanation, EasFacts, EasGates, EasTask, find_energy_efficient_cpu};
use opplab_kernel::energy_model::{EmPerfDomain, EmPerfState, em_create_perf_table, inefficient_points};
use opplab_kernel::profile::{Eas, FeecEnergy, KernelProfile};
use opplab_kernel::sched::placement::CpuCapacity;
use pyo3::prelude::*;

use super::freq_invariance::PyCppcPerfCaps;
use super::{profile, refuse, variant_name};

/// A state: performance, kHz, uW, cost, inefficient.
type State = (u64, u64, u64, u64, bool);

fn state(state: &EmPerfState) -> State {
    (state.performance, state.freq_khz, state.power_uw, state.cost, state.inefficient)
}

#[guarded]
#[pyfunction(name = "artificial_em")]
pub(super) fn py_artificial_em(
    py: Python<'_>,
    caps: &PyCppcPerfCaps,
    capacity: u32,
    efficiency_class: u32,
) -> PyResult<(Vec<State>, u64, bool)> {
    let em = artificial_em(&caps.inner, capacity, efficiency_class);
    let em = em.map_err(|error| refuse(py, error))?;
    Ok((em.states.iter().map(state).collect(), em.loop_calls, em.spun))
}

/// Sentences about the points that kernels pass over.
#[guarded]
#[pyfunction(name = "inefficient_points")]
pub(super) fn py_inefficient_points(py: Python<'_>, points: Vec<(u64, u64)>, capacity: u64) -> PyResult<Vec<String>> {
    let found = inefficient_points(&points, capacity).map_err(|error| refuse(py, error))?;
    Ok(found.iter().map(ToString::to_string).collect())
}

#[pyclass(subclass, frozen, name = "EnergyModel", module = "opplab._opplab.kernel")]
pub(super) struct PyEnergyModel {
    inner: EmPerfDomain,
    #[pyo3(get)]
    capacity: u64,
    energy: FeecEnergy,
}

#[guarded]
#[pymethods]
impl PyEnergyModel {
    #[new]
    #[pyo3(signature = (points, *, cpus, capacity = 1024, kernel = "6.12.117", skip_inefficient = true))]
    fn new(
        py: Python<'_>,
        points: Vec<(u64, u64)>,
        cpus: Vec<usize>,
        capacity: u64,
        kernel: &str,
        skip_inefficient: bool,
    ) -> PyResult<Self> {
        let KernelProfile { em_cost: form, feec_energy: energy, .. } = profile(py, kernel)?;
        let states = em_create_perf_table(&points, capacity, form).map_err(|error| refuse(py, error))?;
        Ok(Self { inner: EmPerfDomain { states, cpus, skip_inefficient, form }, capacity, energy })
    }

    /// The class is a subclass's, so that Python's name is kept.
    #[staticmethod]
    #[pyo3(signature = (caps, *, cpus, capacity, efficiency_class, kernel = "6.12.117"))]
    fn artificial(
        py: Python<'_>,
        caps: &PyCppcPerfCaps,
        cpus: Vec<usize>,
        capacity: u32,
        efficiency_class: u32,
        kernel: &str,
    ) -> PyResult<Self> {
        let KernelProfile { em_cost: form, feec_energy: energy, .. } = profile(py, kernel)?;
        let em = artificial_em(&caps.inner, capacity, efficiency_class);
        let em = em.map_err(|error| refuse(py, error))?;
        let inner = EmPerfDomain { states: em.states, cpus, skip_inefficient: true, form };
        Ok(Self { inner, capacity: u64::from(capacity), energy })
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
        let allowed_cpu_cap = allowed_cpu_cap.unwrap_or(self.capacity);
        self.inner.em_cpu_energy(max_util, sum_util, allowed_cpu_cap, self.capacity, self.energy)
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

#[guarded]
#[pyfunction(name = "find_energy_efficient_cpu")]
#[expect(clippy::too_many_arguments, reason = "called by one Python function with keywords")]
pub(super) fn py_find_energy_efficient_cpu(
    py: Python<'_>,
    domains: Vec<PyRef<'_, PyEnergyModel>>,
    util_avg: Vec<u64>,
    runnable_avg: Vec<u64>,
    util_est: Vec<u64>,
    allowed: Vec<bool>,
    idle: Vec<bool>,
    prev_cpu: usize,
    task: (u64, u64, u32, u64, u64),
    overutilized: bool,
    kernel: &str,
) -> PyResult<PlacementAnswer> {
    let gates = eas_gates(py, kernel)?;
    let n = util_avg.len();
    if [runnable_avg.len(), util_est.len(), allowed.len(), idle.len()] != [n; 4] {
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
            uclamp_idle: idle[cpu],
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
    let target = find_energy_efficient_cpu(&models, &task, overutilized, &facts, gates, &mut log);
    let rule = log.decided.map_or_else(String::new, |(_, rule)| variant_name(rule));
    let candidates = log.candidates.iter().map(|one| (one.cpu, one.domain, one.spare_cap, one.fits)).collect();
    let energies =
        log.energies.iter().map(|one| (one.dst_cpu, one.domain, one.energy, one.max_util, one.busy_time)).collect();
    Ok((target, rule, candidates, energies))
}
