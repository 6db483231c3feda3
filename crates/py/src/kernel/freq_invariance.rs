//! f_max of frequency invariance, and CPPC's values.

use opplab_guarded::guarded;
use opplab_kernel::cpufreq::cppc::{CppcPerfCaps, CppcPerfFbCtrs, cppc_scale_freq, squeeze_efficiency_classes};
use opplab_kernel::freq_invariance::{
    AmdPerfCaps, FreqMax, FreqMaxFacts, FreqMaxOf, IntelMsrs, IntelTurboModel, TurboLevel, arch_max_freq_ratio,
    scale_freq_tick,
};
use opplab_kernel::profile::Platform;
use pyo3::prelude::*;

use super::{profile, python_repr, unknown};

#[guarded]
#[pyfunction]
pub(super) fn freq_max_ratio(
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

#[guarded]
#[pyfunction]
pub(super) fn freq_max_of(
    py: Python<'_>,
    kernel: &str,
    vendor: &str,
    hybrid: bool,
    smt: bool,
) -> PyResult<&'static str> {
    let profile = profile(py, kernel)?;
    let platform = Platform::of_vendor(vendor).unwrap_or(Platform::Arm);
    Ok(match profile.freq_max_of(platform, hybrid, smt) {
        FreqMaxOf::BootCpu => "boot-cpu",
        FreqMaxOf::EachCpu => "each-cpu",
    })
}

#[guarded]
#[pyfunction]
#[pyo3(signature = (model = "other", *, platform_info = None, turbo_ratio_limit = None, turbo_ratio_limit1 = None,
    misc_enable = None, atom_core_ratios = None, atom_core_turbo_ratios = None))]
#[expect(clippy::too_many_arguments, reason = "keywords")]
pub(super) fn intel_max_freq_ratio(
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

#[guarded]
#[pyfunction]
#[pyo3(signature = (nominal_perf, highest_perfs, *, zen4 = false, model = 0))]
pub(super) fn amd_max_freq_ratio(nominal_perf: u32, highest_perfs: Vec<u32>, zen4: bool, model: u8) -> Option<u64> {
    let caps = AmdPerfCaps { nominal_perf: Some(nominal_perf), highest_perfs: &highest_perfs, zen4, model };
    caps.max_freq_ratio()
}

#[guarded]
#[pyfunction(name = "scale_freq_tick")]
pub(super) fn py_scale_freq_tick(acnt: u64, mcnt: u64, max_freq_ratio: u64) -> Option<u64> {
    scale_freq_tick(acnt, mcnt, max_freq_ratio)
}

#[pyclass(subclass, frozen, name = "CppcPerfCaps", module = "opplab._opplab.kernel")]
pub(super) struct PyCppcPerfCaps {
    pub(super) inner: CppcPerfCaps,
}

#[guarded]
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

#[guarded]
#[pyfunction(name = "squeeze_efficiency_classes")]
pub(super) fn py_squeeze_efficiency_classes(raw: Vec<u8>) -> Option<Vec<u32>> {
    squeeze_efficiency_classes(&raw)
}

#[guarded]
#[pyfunction(name = "cppc_scale_freq")]
pub(super) fn py_cppc_scale_freq(
    reference_perf: u64,
    highest_perf: u32,
    t0: (u64, u64),
    t1: (u64, u64),
) -> Option<u64> {
    let counters = |(reference, delivered)| CppcPerfFbCtrs { reference, delivered };
    cppc_scale_freq(reference_perf, highest_perf, &counters(t0), &counters(t1))
}
