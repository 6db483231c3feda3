//! Idle governors.

use opplab_guarded::guarded;
use opplab_kernel::cpuidle::{
    IDLE_GOVERNORS, IdleFacts, IdleGovernor, IdleOutcome, IdleState, KTIME_MAX, idle_governor,
};
use pyo3::prelude::*;

use super::{profile, python_repr, refuse, unknown};

#[pyclass(subclass, name = "IdleGovernor", module = "opplab._opplab.kernel")]
pub(super) struct PyIdleGovernor {
    inner: std::sync::Mutex<Box<dyn IdleGovernor>>,
    states: Vec<IdleState>,
    tick_ns: u64,
}

impl PyIdleGovernor {
    fn governor(&mut self) -> &mut Box<dyn IdleGovernor> {
        self.inner.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[guarded]
#[pymethods]
impl PyIdleGovernor {
    #[new]
    #[pyo3(signature = (name, states, *, tick_ns = 4_000_000, kernel = "6.12.117"))]
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
        tick_stopped = false, nr_iowaiters = 0, utilized = false))]
    #[expect(clippy::too_many_arguments, reason = "keywords")]
    fn select(
        &mut self,
        now_ns: u64,
        sleep_length_ns: i64,
        delta_tick_ns: Option<i64>,
        latency_req_ns: u64,
        disabled: u64,
        tick_stopped: bool,
        nr_iowaiters: u32,
        utilized: bool,
    ) -> (usize, bool) {
        let states = self.states.clone();
        let facts = IdleFacts {
            states: &states,
            disabled,
            utilized,
            latency_req_ns,
            sleep_length_ns,
            delta_tick_ns: delta_tick_ns.unwrap_or_else(|| sleep_length_ns.min(self.tick_ns as i64)),
            tick_stopped,
            nr_iowaiters,
            tick_ns: self.tick_ns,
            now_ns,
        };
        let choice = self.governor().select(&facts);
        (choice.index, choice.stop_tick)
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
        self.governor().reflect(&outcome);
        Ok(())
    }

    fn reject(&mut self) {
        self.governor().reject();
    }

    fn __repr__(&mut self) -> String {
        python_repr(self.governor())
    }
}
