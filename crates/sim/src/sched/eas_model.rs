//! Which energy model the kernel was given: performance domains, and the energy data of scheduling groups.

use std::fmt;

use opplab_kernel::cpufreq::cppc::{ArtificialEmError, artificial_em, squeeze_efficiency_classes};
use opplab_kernel::cpufreq::driver::DriverKind;
use opplab_kernel::eas_groups::{CapState, ClusterEnergy, GroupEnergy};
use opplab_kernel::energy_model::{EmError, EmPerfDomain, EmPerfState};
use opplab_kernel::profile::EmCost;
use opplab_model::machine::{Cluster, Cpufreq, Machine};
use opplab_model::policy::Policy;
use opplab_model::policy_values::EnergyModelSource;

use crate::CaseError;
use crate::run::gates::Gates;
use crate::sched::hybrid::perf_domains;
use crate::sched::topology::Topology;

/// The root domain's performance domains; there only while energy-aware scheduling runs.
pub(crate) struct EasState {
    /// In the kernel's order: the domain of the highest first CPU comes first (topology.c:build_perf_domains()).
    pub(crate) domains: Vec<EmPerfDomain>,
    /// The energy data of scheduling groups, where the kernel compares those.
    pub(crate) groups: Option<Vec<ClusterEnergy>>,
}

impl EasState {
    /// The state that the kernel reaches at boot, or why it does not start energy-aware scheduling
    /// (topology.c:sched_is_eas_possible(): asymmetric capacities, no SMT, invariance, schedutil, an energy model).
    ///
    /// # Errors
    /// [`CaseError`] if the energy model that the policy names can not be made for this machine.
    pub(crate) fn new(
        machine: &Machine,
        driver: &Cpufreq,
        policy: &Policy,
        gates: &Gates,
        topology: &Topology,
    ) -> Result<Result<Self, NoEas>, CaseError> {
        if !policy.eas || policy.energy_model == EnergyModelSource::None {
            return Ok(Err(NoEas::Off));
        }
        let failed = |cluster: &Cluster, reason: String| {
            CaseError(format!("energy model of cluster {}: {reason}", cluster.name))
        };
        let cppc = |cluster: &Cluster| {
            let reason = "it has no CPPC registers (`cppc` of its [[cluster]] in the machine file)";
            cluster.cppc.ok_or_else(|| failed(cluster, String::from(reason)))
        };
        if policy.energy_model == EnergyModelSource::Artificial {
            // Asked for by name: whatever else would turn energy-aware scheduling off, there is no such model.
            machine.clusters.iter().try_for_each(|cluster| cppc(cluster).map(|_| ()))?;
        }
        if topology.asym.is_none() {
            return Ok(Err(NoEas::Symmetric));
        }
        if topology.smt_active {
            return Ok(Err(NoEas::Smt));
        }
        if gates.eas.is_none() {
            return Ok(Err(NoEas::Kernel));
        }
        if !gates.freq_invariant {
            return Ok(Err(NoEas::NotInvariant));
        }
        if !policy.governor_id()?.energy_aware {
            return Ok(Err(NoEas::Governor));
        }
        if machine.is_intel_hybrid() && policy.energy_model == EnergyModelSource::Registered {
            let registers = driver.driver.kind == DriverKind::IntelPassive;
            let domains = if registers { perf_domains(machine, &gates.profile)? } else { None };
            let Some(mut domains) = domains else { return Ok(Err(NoEas::Driver(driver.driver.name.to_owned()))) };
            if policy.reversed_energy_model {
                reverse_costs(&mut domains);
            }
            domains.sort_by_key(|domain| std::cmp::Reverse(domain.cpus.first().copied()));
            return Ok(Ok(Self { domains, groups: None }));
        }
        let raw: Vec<u8> = machine.clusters.iter().map(|cluster| cluster.efficiency_class as u8).collect();
        let classes = squeeze_efficiency_classes(&raw);
        let mut domains = Vec::new();
        let source = match registers_artificial(machine, driver, policy) {
            // cppc_cpufreq.c:cppc_cpufreq_register_em(), since v5.19.
            true if gates.profile.version < (5, 19) => return Ok(Err(NoEas::Driver(driver.driver.name.to_owned()))),
            true => EnergyModelSource::Artificial,
            false => policy.energy_model,
        };
        for (index, cluster) in machine.clusters.iter().enumerate() {
            let states = match source {
                EnergyModelSource::Artificial => {
                    // Equal classes: the kernel registers no model, and there is no energy-aware scheduling.
                    let Some(classes) = &classes else { return Ok(Err(NoEas::OneClass)) };
                    let em = artificial_em(&cppc(cluster)?.perf_caps(0), cluster.capacity, classes[index]);
                    match em {
                        Ok(em) => em.states,
                        Err(error) if policy.energy_model == EnergyModelSource::Artificial => {
                            return Err(failed(cluster, error.to_string()));
                        }
                        Err(error) => {
                            return Ok(Err(NoEas::Artificial { cluster: cluster.name.clone(), error }));
                        }
                    }
                }
                _ if !has_model_power(cluster) => {
                    return Ok(Err(NoEas::NoPower(cluster.name.clone())));
                }
                _ => {
                    // A refused table is not registered, and then nobody schedules by energy (energy_model.c:em_create_perf_table()).
                    // Costs of scheduling groups are the device tree's numbers.
                    let form = if gates.eas_groups { EmCost::MicroWatt } else { gates.em };
                    match cluster.registered_em(form) {
                        Ok(states) => states,
                        Err(error) => return Ok(Err(NoEas::Table { cluster: cluster.name.clone(), error })),
                    }
                }
            };
            domains.push(EmPerfDomain {
                states,
                cpus: cluster.cpus.iter().map(|&cpu| cpu as usize).collect(),
                skip_inefficient: driver.freq_table,
                form: gates.em,
            });
        }
        if policy.reversed_energy_model {
            reverse_costs(&mut domains);
        }
        domains.sort_by_key(|domain| std::cmp::Reverse(domain.cpus.first().copied()));
        let groups = gates.eas_groups.then(|| group_energies(machine, &domains, source));
        Ok(Ok(Self { domains, groups }))
    }
}

/// Whether some operating point has a power for the energy model.
fn has_model_power(cluster: &Cluster) -> bool {
    cluster.opps.iter().any(|opp| opp.power_uw != 0)
}

/// Whether the registered model is the artificial one: cppc_cpufreq registers no other, and the file has no powers.
fn registers_artificial(machine: &Machine, driver: &Cpufreq, policy: &Policy) -> bool {
    policy.energy_model == EnergyModelSource::Registered
        && driver.driver.kind == DriverKind::Cppc
        && !machine.clusters.iter().any(has_model_power)
}

/// Why energy-aware scheduling is off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoEas {
    /// The policy wants none.
    Off,
    /// All CPUs have one capacity.
    Symmetric,
    /// Cores have two threads.
    Smt,
    /// Utilisation is not frequency-invariant.
    NotInvariant,
    /// The kernel does not have it.
    Kernel,
    /// The governor is not schedutil.
    Governor,
    /// The driver registers no energy model.
    Driver(String),
    /// All CPUs have one efficiency class, so that there is no artificial model.
    OneClass,
    /// The machine file has no power of this cluster for the energy model.
    NoPower(String),
    /// The driver cannot register a cluster's artificial model.
    Artificial {
        /// Its name.
        cluster: String,
        /// Why.
        error: ArtificialEmError,
    },
    /// The kernel refuses a cluster's table.
    Table {
        /// Its name.
        cluster: String,
        /// Why.
        error: EmError,
    },
}

impl NoEas {
    /// Whether the machine, and not the policy, is why: what somebody who compares schedulers must know.
    ///
    /// Clusters that are alike have nothing to place by. Of clusters with other clocks one capacity is what the machine file lacks.
    pub fn is_of_machine(&self, machine: &Machine) -> bool {
        let clocks = |cluster: &Cluster| cluster.opps.iter().map(|opp| opp.khz).collect::<Vec<_>>();
        let unlike = || {
            machine.clusters.iter().all(|one| one.capacity == machine.clusters[0].capacity)
                && machine.clusters.iter().any(|one| clocks(one) != clocks(&machine.clusters[0]))
        };
        match self {
            Self::Off | Self::Governor | Self::Kernel => false,
            Self::Symmetric => unlike(),
            _ => true,
        }
    }
}

impl fmt::Display for NoEas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => write!(f, "the policy switches it off"),
            Self::Symmetric => write!(f, "all CPUs have one capacity"),
            Self::Smt => write!(f, "cores have two threads"),
            Self::NotInvariant => write!(f, "utilisation is not frequency-invariant"),
            Self::Kernel => write!(f, "the kernel does not have it"),
            Self::Governor => write!(f, "the governor is not schedutil"),
            Self::Driver(driver) => write!(f, "driver {driver} registers no energy model"),
            Self::OneClass => write!(f, "all CPUs have one efficiency class, and so no artificial energy model"),
            Self::Artificial { cluster, error } => {
                write!(f, "no artificial energy model of cluster {cluster}: {error}")
            }
            Self::NoPower(cluster) => {
                write!(
                    f,
                    "the machine file has no power of cluster {cluster} for an energy model (`uw` of its operating points)"
                )
            }
            Self::Table { cluster, error } => {
                write!(
                    f,
                    "the kernel refuses the energy model of cluster {cluster} (`uw` of its operating points): {error}"
                )
            }
        }
    }
}

/// The dearest state becomes the cheapest.
fn reverse_costs(domains: &mut [EmPerfDomain]) {
    let costs = || domains.iter().flat_map(|domain: &EmPerfDomain| domain.states.iter().map(|state| state.cost));
    let sum = costs().max().unwrap_or(0) + costs().min().unwrap_or(0);
    for state in domains.iter_mut().flat_map(|domain| domain.states.iter_mut()) {
        let EmPerfState { cost, inefficient, .. } = state;
        *cost = sum - *cost;
        *inefficient = false;
    }
}

/// The energy data that a device tree gives (`energy-costs`): of the registered model with clusters and idle states, of an
/// artificial one the CPUs' powers alone.
fn group_energies(machine: &Machine, domains: &[EmPerfDomain], source: EnergyModelSource) -> Vec<ClusterEnergy> {
    let registered = source == EnergyModelSource::Registered;
    let clusters = machine.clusters.iter().filter_map(|cluster| {
        let cpus: Vec<usize> = cluster.cpus.iter().map(|&cpu| cpu as usize).collect();
        let domain = domains.iter().find(|domain| domain.cpus == cpus)?;
        let states = |power: &dyn Fn(usize) -> u64| -> Vec<CapState> {
            let of = domain.states.iter().enumerate();
            of.map(|(index, state)| CapState { cap: state.performance, power: power(index) }).collect()
        };
        // Awake in the idle loop, a CPU draws what its shallowest state draws.
        let mut idle_power: Vec<u64> = cluster.idle.iter().map(|idle| idle.power_uw).collect();
        idle_power.insert(0, idle_power.first().copied().unwrap_or(0));
        let nr_idle = idle_power.len();
        let shared_idle = cluster.cluster_idle_uw.filter(|_| registered).unwrap_or(0);
        Some(ClusterEnergy {
            cpus,
            core: GroupEnergy {
                cap_states: states(&|index| {
                    let state = &domain.states[index];
                    // An artificial model has costs, which by work done give the energy; its powers mean nothing.
                    if registered { state.power_uw } else { state.cost.wrapping_mul(state.performance) }
                }),
                idle_power: if registered { idle_power } else { vec![0; nr_idle] },
            },
            cluster: GroupEnergy {
                cap_states: states(&|index| {
                    cluster.opps.get(index).filter(|_| registered).map_or(0, |opp| opp.cluster_uw)
                }),
                idle_power: vec![shared_idle; nr_idle],
            },
        })
    });
    clusters.collect()
}
