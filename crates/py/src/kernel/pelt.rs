//! Load tracking: averages, clocks, estimates, one task or a batch.

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use opplab_guarded::guarded;
use opplab_kernel::clock_pelt::RqClock;
use opplab_kernel::pelt::{
    HalfLife, HalfLife8, HalfLife16, HalfLife32, SchedAvg, SeFacts, decay_load, ramp_up_periods,
    update_load_avg_blocked_se, update_load_avg_cfs_rq, update_load_avg_se,
};
use opplab_kernel::pelt_batch::{PeltBatch, SeriesInvariance, SeriesOutput, series};
use opplab_kernel::profile::KernelProfile;
use opplab_kernel::util_est::{
    UTIL_AVG_UNCHANGED, UtilEstForm, UtilEstPair, task_util_est, task_util_est_masked, util_est_update,
};
use pyo3::prelude::*;
use std::fmt::Debug;

use super::{profile, python_repr, refuse, unknown, with_half_life};

type SignalArrays<'py> = (Bound<'py, PyArray1<u16>>, Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<u32>>);

/// One task's averages at many times; the arrays have one length. `freq_scale` is empty for real time.
#[guarded]
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "called by one Python function with keywords")]
pub(super) fn pelt<'py>(
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
    {
        py.detach(|| match half_life {
            32 => series::<HalfLife32>(start_ns, times_ns, activity, weight, invariance, &mut out),
            16 => series::<HalfLife16>(start_ns, times_ns, activity, weight, invariance, &mut out),
            _ => series::<HalfLife8>(start_ns, times_ns, activity, weight, invariance, &mut out),
        });
    };
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
pub(super) struct PyPeltBatch {
    inner: Batch,
}

#[guarded]
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
        if activity.len() != self.__len__()? {
            return Err(refuse(py, "one activity a task is needed"));
        }
        Ok(with_batch!(&mut self.inner, batch => batch.update_load_avg_se(now_ns, activity)))
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
        let (n, half_life) = with_batch!(&self.inner, batch => (batch.len(), half_life_of(batch)));
        format!("PeltBatch(n={n}, half_life={half_life})")
    }
}

fn half_life_of<H: HalfLife>(_batch: &PeltBatch<H>) -> u32 {
    H::PERIOD
}

#[pyclass(subclass, name = "SchedAvg", module = "opplab._opplab.kernel")]
pub(super) struct PySchedAvg {
    inner: SchedAvg,
    #[pyo3(get)]
    half_life: u32,
}

#[guarded]
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

#[guarded]
#[pyfunction(name = "decay_load")]
pub(super) fn py_decay_load(py: Python<'_>, val: u64, n: u64, half_life: u32) -> PyResult<u64> {
    with_half_life!(py, half_life, H => decay_load::<H>(val, n))
}

#[guarded]
#[pyfunction(name = "ramp_up_periods")]
pub(super) fn py_ramp_up_periods(py: Python<'_>, util: u64, half_life: u32) -> PyResult<Option<u32>> {
    with_half_life!(py, half_life, H => ramp_up_periods::<H>(util))
}

#[pyclass(subclass, name = "ClockPelt", module = "opplab._opplab.kernel")]
pub(super) struct PyClockPelt {
    inner: RqClock,
    #[pyo3(get, set)]
    capacity: u64,
}

#[guarded]
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
pub(super) struct PyUtilEst {
    profile: KernelProfile,
    form: Option<UtilEstForm>,
    single: SchedAvg,
    pair: UtilEstPair,
}

impl PyUtilEst {
    fn masked(&self) -> u32 {
        match self.form {
            None => task_util_est_masked(&self.single),
            Some(form) => self.pair.task_util_est_masked(form),
        }
    }
}

#[guarded]
#[pymethods]
impl PyUtilEst {
    #[new]
    #[pyo3(signature = (*, kernel = "6.12.117"))]
    fn new(py: Python<'_>, kernel: &str) -> PyResult<Self> {
        let profile = profile(py, kernel)?;
        Ok(Self { form: profile.util_est_form(), profile, single: SchedAvg::default(), pair: UtilEstPair::default() })
    }

    #[pyo3(signature = (util_avg, *, runnable_avg = None, capacity = 1024, task_sleep = true))]
    fn util_est_update(&mut self, util_avg: u64, runnable_avg: Option<u64>, capacity: u64, task_sleep: bool) -> u32 {
        let runnable_avg = runnable_avg.unwrap_or(util_avg);
        let capacity = self.profile.util_est_capacity(capacity);
        match self.form {
            None if !self.profile.estimates_util() => {}
            None => {
                self.single.util_avg = util_avg;
                self.single.runnable_avg = runnable_avg;
                util_est_update(&mut self.single, task_sleep, capacity);
            }
            Some(form) => self.pair.update(form, task_sleep, util_avg, runnable_avg, capacity),
        }
        self.masked()
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
        self.masked()
    }

    fn __repr__(&self) -> String {
        match self.form {
            None => {
                let unchanged = self.single.util_est & UTIL_AVG_UNCHANGED != 0;
                format!("UtilEst(util_est={}, {})", self.masked(), if unchanged { "unchanged" } else { "changed" })
            }
            Some(form) => format!("UtilEst(form={form:?}, enqueued={}, ewma={})", self.pair.enqueued, self.pair.ewma),
        }
    }
}
