//! What frequency invariance measures against: f_max that a kernel knows, and f_max that is estimated while it runs.
//!
//! The estimates are those of text 002's lists, computed by [`opplab_kernel::freq_invariance`]; no kernel has them. They
//! learn at the tick, from the counters that it reads:
//!
//! ```text
//!   rapl    a package: every 10 ms, from its power and the counters of its CPUs
//!   recent  a CPU: every tick with busy time
//!   search  a package: every tick with busy time, by how many of its cores run something
//! ```

use opplab_kernel::freq_invariance::{
    FreqMax, FreqMaxOf, FreqMaxSearch, FreqRatio, RaplFreqMax, RecentFreqMax, ratio_against,
};
use opplab_kernel::profile::Platform;
use opplab_kernel::unit::SCHED_CAPACITY_SCALE;
use opplab_model::machine::{Cluster, InvarianceSource, Machine};
use opplab_model::policy::Policy;

use crate::CaseError;
use crate::cpufreq::freq_policy::driver_of;
use crate::hardware::packages::cores_of;
use crate::ids::{ClusterId, CpuId, IdVec};
use crate::run::cpu::BOOT_NS;
use crate::run::gates::Gates;

/// How long a window of the power meter is, in ns: ten updates of RAPL's counters. Assumed.
const RAPL_WINDOW_NS: u64 = 10_000_000;
/// log2 of the ticks over which the recent past is averaged. Assumed; text 002 names no length.
const RECENT_SHIFT: u32 = 5;
/// The lowest ratio that power may give: half of the base frequency. Assumed; wide vectors stay above it.
const RAPL_FLOOR: FreqRatio = SCHED_CAPACITY_SCALE / 2;

/// f_max over the base frequency, << 10.
#[derive(Debug)]
pub(crate) struct FreqMaxRatios {
    /// Of each cluster; where it is estimated, where the estimate starts.
    by_cluster: IdVec<ClusterId, FreqRatio>,
    estimate: Option<Estimate>,
}

#[derive(Debug)]
enum Estimate {
    /// Of each package.
    Rapl(Vec<RaplWindow>),
    /// Of each CPU.
    Recent(IdVec<CpuId, RecentFreqMax>),
    /// Of each package.
    Search(Vec<FreqMaxSearch>),
}

/// A package's counters and energy since its power was read last.
#[derive(Debug)]
struct RaplWindow {
    estimate: RaplFreqMax,
    acnt: u64,
    mcnt: u64,
    since_ns: u64,
    energy_fj: u128,
}

impl FreqMaxRatios {
    /// What the policy names, or the kernel takes.
    ///
    /// # Errors
    /// [`CaseError`] if there is no such f_max, or it cannot be computed from what the machine file knows.
    pub(crate) fn new(machine: &Machine, policy: &Policy, gates: &Gates) -> Result<Self, CaseError> {
        if machine.invariance != InvarianceSource::CountersAtTick {
            let by_cluster = vec![SCHED_CAPACITY_SCALE; machine.clusters.len()].into();
            return Ok(Self { by_cluster, estimate: None });
        }
        let driver = driver_of(machine, policy).driver.kind;
        let smt = policy.smt_active(machine);
        let named = match policy.freq_max.as_str() {
            "" => None,
            name => Some(FreqMax::from_name(name).ok_or_else(|| CaseError(format!("unknown freq_max {name:?}")))?),
        };
        // What a kernel would take that found its sources.
        let usual = if gates.platform == Platform::Amd { FreqMax::Mid } else { FreqMax::Turbo4Cores };
        let ratio = |cluster: &Cluster, freq_max: Option<FreqMax>| {
            let sources = machine.freq_max_sources(cluster, smt);
            let ratio = match freq_max {
                Some(freq_max) => sources.ratio(freq_max),
                None => match sources.taken(&gates.profile, driver, policy.no_turbo) {
                    Ok(taken) => Some(taken.ratio),
                    Err(_) => sources.ratio(usual),
                },
            }?;
            // The kernel's ratio is to the clock of MPERF; counters here go at the reference clock.
            let (own_khz, base_khz) = (cluster.reference_khz(), sources.base_khz);
            if base_khz == own_khz { Some(ratio) } else { ratio_against(ratio, base_khz, own_khz) }
        };
        let boot = machine.cluster_of(0);
        let freq_max_of = machine.freq_max_sources(boot, smt).freq_max_of(&gates.profile, driver);
        let of_cluster = |cluster: &Cluster, freq_max: Option<FreqMax>| match freq_max_of {
            FreqMaxOf::EachCpu => ratio(cluster, freq_max),
            FreqMaxOf::BootCpu => ratio_against(ratio(boot, freq_max)?, boot.reference_khz(), cluster.reference_khz()),
        };
        let ratios = |freq_max: Option<FreqMax>| -> Result<IdVec<ClusterId, FreqRatio>, CaseError> {
            let unknown = |cluster: &Cluster| CaseError(format!("f_max of cluster {} is not known", cluster.name));
            machine
                .clusters
                .iter()
                .map(|cluster| of_cluster(cluster, freq_max).ok_or_else(|| unknown(cluster)))
                .collect()
        };
        let by_cluster = ratios(named)?;
        let nr_packages = machine.cpus.iter().map(|cpu| cpu.package + 1).max().unwrap_or(0);
        let estimate = match named {
            Some(FreqMax::Rapl) => {
                let highest = ratios(Some(FreqMax::MaxBoost))?;
                let ends = |of: &IdVec<ClusterId, FreqRatio>| of.iter().copied().max().unwrap_or(SCHED_CAPACITY_SCALE);
                let estimate = rapl(machine, nr_packages, ends(&highest), ends(&by_cluster))?;
                let window = |_| RaplWindow { estimate, acnt: 0, mcnt: 0, since_ns: BOOT_NS, energy_fj: 0 };
                Some(Estimate::Rapl((0..nr_packages).map(window).collect()))
            }
            Some(FreqMax::Recent) => {
                let mut of_cpu = vec![RecentFreqMax::new(RECENT_SHIFT, SCHED_CAPACITY_SCALE, 0); machine.cpus.len()];
                for (cluster, &start) in machine.clusters.iter().zip(by_cluster.iter()) {
                    for &cpu in &cluster.cpus {
                        of_cpu[cpu as usize] = RecentFreqMax::new(RECENT_SHIFT, SCHED_CAPACITY_SCALE, start);
                    }
                }
                Some(Estimate::Recent(of_cpu.into()))
            }
            Some(FreqMax::Search) => {
                let nr_cores = |package: u32| cores_of(machine, |cpu| cpu.package == package).len() as u32;
                Some(Estimate::Search((0..nr_packages).map(|index| FreqMaxSearch::new(nr_cores(index))).collect()))
            }
            _ => None,
        };
        Ok(Self { by_cluster, estimate })
    }

    /// Of each cluster.
    pub(crate) fn by_cluster(&self) -> Vec<FreqRatio> {
        self.by_cluster.iter().copied().collect()
    }

    /// Whether the power of a package is to be read: a window is over.
    pub(super) fn wants_power(&self, package: u32, now: u64) -> bool {
        matches!(&self.estimate, Some(Estimate::Rapl(windows)) if now >= windows[package as usize].since_ns + RAPL_WINDOW_NS)
    }

    /// Whether it counts the cores that run something.
    pub(super) fn wants_cores(&self) -> bool {
        matches!(self.estimate, Some(Estimate::Search(_)))
    }

    /// f_max over the base frequency, << 10, for a tick.
    pub(super) fn at_tick(&mut self, tick: &Tick) -> FreqRatio {
        let Tick { acnt, mcnt, .. } = *tick;
        match &mut self.estimate {
            None => self.by_cluster[tick.cluster],
            Some(Estimate::Recent(of_cpu)) => of_cpu[tick.cpu].observe(acnt, mcnt),
            Some(Estimate::Search(of_package)) => {
                of_package[tick.package as usize].observe(tick.active_cores, acnt, mcnt)
            }
            Some(Estimate::Rapl(of_package)) => {
                let window = &mut of_package[tick.package as usize];
                (window.acnt, window.mcnt) = (window.acnt.saturating_add(acnt), window.mcnt.saturating_add(mcnt));
                if let Some(energy_fj) = tick.energy_fj {
                    let power_uw = (energy_fj - window.energy_fj) / u128::from(tick.now - window.since_ns);
                    window.estimate.observe(power_uw as u64, window.acnt, window.mcnt);
                    (window.acnt, window.mcnt, window.since_ns, window.energy_fj) = (0, 0, tick.now, energy_fj);
                }
                window.estimate.ratio()
            }
        }
    }
}

/// A tick of a CPU, and what was asked for.
pub(super) struct Tick {
    pub(super) cpu: CpuId,
    pub(super) cluster: ClusterId,
    pub(super) package: u32,
    pub(super) now: u64,
    /// By how much APERF and MPERF moved.
    pub(super) acnt: u64,
    pub(super) mcnt: u64,
    /// What the package has drawn since the start; if its power is wanted.
    pub(super) energy_fj: Option<u128>,
    /// Cores of the package of which a thread runs something; if they are wanted.
    pub(super) active_cores: u32,
}

/// The estimate from power with which every package starts.
fn rapl(machine: &Machine, nr_packages: u32, ceiling: FreqRatio, start: FreqRatio) -> Result<RaplFreqMax, CaseError> {
    let power = machine.package_power.unwrap_or_default();
    let limit_uw = [power.pl1_uw, power.tdp_uw].into_iter().find(|&uw| uw > 0);
    let limit_uw = limit_uw.ok_or_else(|| {
        let hint = "[package_power] with `pl1_uw` or `tdp_uw`";
        CaseError(format!(
            "freq_max \"rapl\" needs a limit of the package's power: machine {} has no {hint}",
            machine.name
        ))
    })?;
    let static_uw = machine.floor_uw / u64::from(nr_packages.max(1));
    Ok(RaplFreqMax::new(limit_uw, static_uw, RAPL_FLOOR, ceiling, start))
}
