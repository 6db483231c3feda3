//! Families of vectors: energy models, CPPC and energy-aware placement.

use opplab_kernel::cpufreq::cppc::{self, ArtificialEmError, CppcPerfCaps, CppcPerfFbCtrs};
use opplab_kernel::cpufreq::facts::RqFacts;
use opplab_kernel::eas::{
    EasCpu, EasEnergy, EasExplanation, EasFacts, EasGates, EasTask, cpu_overutilized, find_energy_efficient_cpu,
};
use opplab_kernel::energy_model::{
    EmPerfDomain, EmPerfState, em_create_artificial_table, em_create_perf_table, em_pd_get_efficient_state,
    em_pd_get_efficient_state_by_freq,
};
use opplab_kernel::profile::{EmCost, FeecEnergy};

use opplab_kernel::sched::placement::CpuCapacity;
use opplab_kernel::util_est::{UtilEstForm, UtilEstPair};

use crate::fields::{Fields, Value, families, read, same, take};
use crate::json::Json;
use crate::{Compared, Diff, Row, Source, Tally, VerifyError};

families! {
    File em_table, File em_table_v61, Rows cppc_perf_khz, Lines cppc_efficiency_class, Lines cppc_artificial_em,
    Rows cppc_fie, Lines feec, Lines feec_v61, File v510_feec,
}

/// The bit of a domain's flags that lets inefficient states be passed over.
const EM_PERF_DOMAIN_SKIP_INEFFICIENCIES: u64 = 2;
/// What the kernel returns where it refuses.
const EINVAL: i64 = -22;

fn diff_states(json: Json<'_>, diff: &mut Diff, states: &[EmPerfState]) -> Compared {
    let column = |value: fn(&EmPerfState) -> u64| states.iter().map(value).collect::<Vec<_>>();
    same!(diff, json => {
        freq: column(|state| state.freq_khz), power: column(|state| state.power_uw),
        performance: column(|state| state.performance),
    });
    diff_costs(json, diff, states)
}

fn diff_costs(json: Json<'_>, diff: &mut Diff, states: &[EmPerfState]) -> Compared {
    same!(diff, json => {
        cost: states.iter().map(|state| state.cost).collect::<Vec<_>>(),
        inefficient: states.iter().map(|state| state.inefficient).collect::<Vec<_>>(),
    });
    Ok(())
}

/// The frequencies and powers of a table.
fn points(json: Json<'_>) -> Result<Vec<(u64, u64)>, VerifyError> {
    let (freqs, powers): (Vec<u64>, Vec<u64>) = (json.field("freq")?, json.field("power")?);
    Ok(freqs.into_iter().zip(powers).collect())
}

/// Queries of a table: the utilisations and the capacity, the flags, the frequency since v6.1's form, the state and the energy.
fn queries(
    json: Json<'_>,
    tally: &mut Tally,
    states: Vec<EmPerfState>,
    (form, energy): (EmCost, FeecEnergy),
) -> Compared {
    let cpu_cap = json.field("cpu_cap")?;
    let mut domain = EmPerfDomain { states, cpus: vec![0], skip_inefficient: false, form };
    json.each("queries", tally, |query, diff| {
        take!(query => max_util: 0, sum_util: 1, allowed_cap: 2);
        domain.skip_inefficient = query.field::<u64>(3)? & EM_PERF_DOMAIN_SKIP_INEFFICIENCIES != 0;
        let (states, skip) = (&domain.states, domain.skip_inefficient);
        let (state, at) = match form {
            EmCost::Performance => (em_pd_get_efficient_state(states, max_util, skip), 4),
            _ => (em_pd_get_efficient_state_by_freq(states, query.field(4)?, skip), 5),
        };
        diff.eq("efficient_state", query.field(at)?, state);
        diff.eq(
            "em_cpu_energy",
            query.field(at + 1)?,
            domain.em_cpu_energy(max_util, sum_util, allowed_cap, cpu_cap, energy),
        );
        Ok(())
    })
}

fn em_table(source: &Source, tally: &mut Tally) -> Compared {
    source.lines(|json| {
        let table = em_create_perf_table(&points(json)?, json.field("cpu_cap")?, EmCost::Performance);
        json.case(tally, |diff| match &table {
            Ok(states) => {
                same!(diff, json => { rc: 0 });
                diff_states(json, diff, states)
            }
            Err(_) => {
                same!(diff, json => { rc: EINVAL });
                Ok(())
            }
        })?;
        queries(json, tally, table.unwrap_or_default(), (EmCost::Performance, FeecEnergy::Bounded))
    })
}

fn em_table_v61(source: &Source, tally: &mut Tally) -> Compared {
    source.lines(|json| {
        let (points, cpu_cap) = (points(json)?, json.field("cpu_cap")?);
        let table = if json.field("artificial")? {
            em_create_artificial_table(&points, &json.field::<Vec<u64>>("cost_in")?, cpu_cap)
        } else {
            em_create_perf_table(&points, cpu_cap, EmCost::MicroWatt)
        };
        let rc = if table.is_ok() { 0 } else { EINVAL };
        let states = table.unwrap_or_default();
        json.case(tally, |diff| {
            same!(diff, json => { rc });
            diff_costs(json, diff, &states)
        })?;
        queries(json, tally, states, (EmCost::MicroWatt, FeecEnergy::Clamped))
    })
}

fn perf_caps(from: &impl Fields) -> Result<CppcPerfCaps, VerifyError> {
    Ok(read!(from => CppcPerfCaps {
        lowest_perf, nominal_perf, highest_perf, lowest_freq_mhz, nominal_freq_mhz, dmi_max_khz,
    }))
}

fn cppc_perf_khz(row: &Row<'_>, diff: &mut Diff) -> Compared {
    let caps = perf_caps(row)?;
    same!(diff, row => {
        khz_out: caps.perf_to_khz(row.field("perf_in")?), perf_out: caps.khz_to_perf(row.field("khz_in")?),
    });
    Ok(())
}

fn cppc_efficiency_class(json: Json<'_>, diff: &mut Diff) -> Compared {
    let raw = json.field::<Vec<u8>>("raw")?;
    let squeezed = cppc::squeeze_efficiency_classes(&raw);
    same!(diff, json => {
        rc: if squeezed.is_some() { 0 } else { EINVAL }, squeezed: squeezed.unwrap_or_else(|| vec![0; raw.len()]),
    });
    Ok(())
}

fn cppc_artificial_em(json: Json<'_>, diff: &mut Diff) -> Compared {
    let caps = perf_caps(&json)?;
    let (cpu_cap, class) = (json.field("cpu_cap")?, json.field("efficiency_class")?);
    same!(diff, json => { nr_states: cppc::artificial_em_level_count(&caps, cpu_cap) });
    match cppc::artificial_em(&caps, cpu_cap, class) {
        Ok(em) => {
            same!(diff, json => { rc: 0, loop_calls: em.loop_calls });
            diff_states(json, diff, &em.states)?;
        }
        Err(ArtificialEmError::Em(_) | ArtificialEmError::StepBeyondHighest(_)) => {
            same!(diff, json => { rc: EINVAL });
        }
        Err(error) => {
            diff.eq("rc", "a table or a refusal".to_owned(), error.to_string());
        }
    }
    for query in json.get("cost_queries")?.items()? {
        let cost = cppc::artificial_em_cost(&caps, cpu_cap, class, query.field(0)?);
        diff.eq("cost_queries", Some(query.field(1)?), cost);
    }
    Ok(())
}

fn cppc_fie(row: &Row<'_>, diff: &mut Diff) -> Compared {
    let t0 = read!(row => CppcPerfFbCtrs { reference: "ref0", delivered: "del0" });
    let t1 = read!(row => CppcPerfFbCtrs { reference: "ref1", delivered: "del1" });
    take!(row => reference_perf, highest_perf);
    let perf = cppc::cppc_perf_from_fbctrs(reference_perf, &t0, &t1);
    let scale = cppc::cppc_scale_freq(reference_perf, highest_perf, &t0, &t1);
    same!(diff, row => { delivered_perf: perf, freq_scale_or_minus1: scale });
    Ok(())
}

/// One placement case's facts; CPU sets are bitmaps.
struct Case {
    cpus: Vec<EasCpu>,
    online: u64,
    affinity: u64,
    uclamp_used: bool,
}

impl EasFacts for Case {
    fn cpu(&self, cpu: usize) -> EasCpu {
        self.cpus[cpu]
    }
    fn allowed(&self, cpu: usize) -> bool {
        (self.affinity & self.online) >> cpu & 1 != 0
    }
    fn online(&self, cpu: usize) -> bool {
        self.online >> cpu & 1 != 0
    }
    fn uclamp_used(&self) -> bool {
        self.uclamp_used
    }
}

fn cpus_of(mask: u64) -> Vec<usize> {
    (0..64).filter(|cpu| mask >> cpu & 1 != 0).collect()
}

fn check_cpus(json: Json<'_>, case: &Case, domains: &[EmPerfDomain], prev_cpu: usize) -> Compared {
    let count = case.cpus.len();
    let known = domains.iter().flat_map(|domain| &domain.cpus).all(|&cpu| cpu < count);
    if known && prev_cpu < count { Ok(()) } else { Err(json.error(format!("a CPU is not below {count}"))) }
}

/// A placement case: what the kernel of one version was given and what it decided.
struct Placing {
    case: Case,
    domains: Vec<EmPerfDomain>,
    task: EasTask,
    overutilized: bool,
}

/// The columns of a CPU in the vectors of v5.10, v6.1 and v6.12.
const CPU_V5_10: &str =
    "orig of util_avg util_est util_rt util_dl util_irq dl_running_bw uclamp_min uclamp_max rt_runnable";
const CPU_V6_1: &str = "orig of util_avg util_est util_rt util_dl util_irq dl_running_bw uclamp_min uclamp_max uclamp_idle \
     hw_pressure rt_runnable";
const CPU_V6_12: &str = "orig of util_avg runnable_avg util_est util_rt util_dl util_irq dl_running_bw uclamp_min uclamp_max \
     uclamp_idle hw_pressure cpufreq_pressure rt_runnable";

/// A CPU whose columns have names; what a version has not is 0.
struct Cpu<'a> {
    columns: Json<'a>,
    names: &'a str,
}

impl Cpu<'_> {
    fn field<T: Value + Default>(&self, name: &str) -> Result<T, VerifyError> {
        let place = self.names.split(' ').position(|known| known == name);
        place.map_or(Ok(T::default()), |place| self.columns.field(place))
    }
}

fn eas_cpu(columns: Json<'_>, names: &str, uclamp_used: bool) -> Result<EasCpu, VerifyError> {
    let cpu = Cpu { columns, names };
    let rq = read!(cpu => RqFacts {
        capacity: "orig", util_rt, util_dl, util_irq, dl_running_bw, uclamp_min, uclamp_max,
        uclamp_used = uclamp_used, rt_runnable,
    });
    let capacity = read!(cpu => CpuCapacity { orig, of, hw_pressure, cpufreq_pressure });
    Ok(read!(cpu => EasCpu { rq = rq, capacity = capacity, util_avg, runnable_avg, util_est, uclamp_idle }))
}

/// A state of a domain, of the columns that all versions have in the same place.
fn em_perf_state(state: Json<'_>) -> Result<EmPerfState, VerifyError> {
    let (freq_khz, cost) = (state.field(0)?, state.field(2)?);
    Ok(EmPerfState { freq_khz, cost, performance: 0, power_uw: 0, inefficient: false })
}

/// The performance domains, whose states `state` reads.
fn domains_of(
    json: Json<'_>,
    form: EmCost,
    state: impl Fn(Json<'_>) -> Result<EmPerfState, VerifyError>,
) -> Result<Vec<EmPerfDomain>, VerifyError> {
    let mut domains = Vec::new();
    for pd in json.get("pds")?.items()? {
        let states = pd.get("states")?.items()?.map(&state).collect::<Result<Vec<_>, _>>()?;
        // Before v5.16 no state was skipped.
        let flags = if form == EmCost::MilliWatt { 0 } else { pd.field::<u64>("flags")? };
        let skip_inefficient = flags & EM_PERF_DOMAIN_SKIP_INEFFICIENCIES != 0;
        domains.push(EmPerfDomain { states, cpus: cpus_of(pd.field("cpus")?), skip_inefficient, form });
    }
    Ok(domains)
}

fn cpus_from(json: Json<'_>, names: &str) -> Result<Vec<EasCpu>, VerifyError> {
    let uclamp_used = json.field("uclamp_used")?;
    json.get("cpus")?.items()?.map(|cpu| eas_cpu(cpu, names, uclamp_used)).collect()
}

/// The task, whose estimate is the recorded one or that of its pair in a form.
fn task_of(json: Json<'_>, pair_form: Option<UtilEstForm>) -> Result<EasTask, VerifyError> {
    let (util_est, runnable_avg) = match pair_form {
        None => (json.field("util_est")?, json.field("runnable_avg")?),
        Some(form) => {
            let pair = read!(json => UtilEstPair { enqueued: "util_est_enqueued", ewma: "util_est_ewma" });
            (pair.task_util_est_masked(form), 0)
        }
    };
    Ok(read!(json => EasTask {
        prev_cpu, util_avg, runnable_avg = runnable_avg, util_est = util_est, uclamp_min, uclamp_max,
        queued = pair_form != Some(UtilEstForm::V5_5) && json.field("queued")?,
    }))
}

/// Places the task, and compares the energies that were computed on the way and the CPU.
fn place(json: Json<'_>, diff: &mut Diff, placing: &Placing, gates: EasGates) -> Compared {
    let Placing { case, domains, task, overutilized } = placing;
    check_cpus(json, case, domains, task.prev_cpu)?;
    let mut seen = EasExplanation::default();
    let target = find_energy_efficient_cpu(domains, task, *overutilized, case, gates, &mut seen);
    let expected: Vec<Vec<i64>> = json.field("energy_calls")?;
    let width = expected.first().map_or(0, Vec::len);
    let call = |energy: &EasEnergy| {
        let dst = energy.dst_cpu.map_or(-1, |cpu| cpu as i64);
        let all = [dst, energy.energy as i64, energy.max_util as i64, energy.busy_time as i64];
        all[..width.min(4)].to_vec()
    };
    diff.eq("energy_calls", expected, seen.energies.iter().map(call).collect());
    same!(diff, json => { target });
    Ok(())
}

/// Cases of v6.1 or v6.12.
fn feec_since_v61(
    (json, diff): (Json<'_>, &mut Diff),
    names: &str,
    mut domains: Vec<EmPerfDomain>,
    pair_form: Option<UtilEstForm>,
    gates: EasGates,
) -> Compared {
    if json.field("no_pd")? {
        domains.clear();
    }
    let task_json = json.get("task")?;
    let uclamp_used = json.field("uclamp_used")?;
    let (online, affinity) = (json.field("online")?, task_json.field("affinity")?);
    let case = Case { cpus: cpus_from(json, names)?, online, affinity, uclamp_used };
    let overutilized = case.cpus.iter().map(|cpu| cpu_overutilized(cpu, uclamp_used, gates.fit)).collect::<Vec<_>>();
    same!(diff, json => { overutilized });
    let placing = Placing { case, domains, task: task_of(task_json, pair_form)?, overutilized: false };
    place(json, diff, &placing, gates)
}

fn feec(json: Json<'_>, diff: &mut Diff) -> Compared {
    let domains = domains_of(json, EmCost::Performance, |state| {
        let inefficient = state.field::<bool>(3)?;
        Ok(EmPerfState { performance: state.field(1)?, inefficient, ..em_perf_state(state)? })
    })?;
    feec_since_v61((json, diff), CPU_V6_12, domains, None, EasGates::V6_12)
}

fn feec_v61(json: Json<'_>, diff: &mut Diff) -> Compared {
    let domains = domains_of(json, EmCost::MicroWatt, |state| {
        let inefficient = state.field::<bool>(3)?;
        Ok(EmPerfState { power_uw: state.field(1)?, inefficient, ..em_perf_state(state)? })
    })?;
    feec_since_v61((json, diff), CPU_V6_1, domains, Some(UtilEstForm::V5_12), EasGates::V6_1)
}

fn v510_feec(source: &Source, tally: &mut Tally) -> Compared {
    source.lines(|json| {
        let domains = domains_of(json, EmCost::MilliWatt, |state| {
            let power_uw = state.field::<u32>(1)? as u64 * 1_000;
            Ok(EmPerfState { power_uw, ..em_perf_state(state)? })
        })?;
        for domain in &domains {
            let points: Vec<_> = domain.states.iter().map(|state| (state.freq_khz, state.power_uw)).collect();
            json.case(tally, |diff| {
                if let Ok(built) = em_create_perf_table(&points, 1024, EmCost::MilliWatt) {
                    let costs = |states: &[EmPerfState]| states.iter().map(|state| state.cost).collect::<Vec<_>>();
                    diff.eq("cost", costs(&domain.states), costs(&built));
                }
                Ok(())
            })?;
        }
        let task_json = json.get("task")?;
        let online = domains.iter().flat_map(|domain| &domain.cpus).fold(0, |mask, cpu| mask | 1 << cpu);
        let case = Case {
            cpus: cpus_from(json, CPU_V5_10)?,
            online,
            affinity: task_json.field("affinity")?,
            uclamp_used: json.field("uclamp_used")?,
        };
        let overutilized = json.field("rd_overutilized")?;
        let placing = Placing { case, domains, task: task_of(task_json, Some(UtilEstForm::V5_5))?, overutilized };
        json.case(tally, |diff| place(json, diff, &placing, EasGates::V5_10))
    })
}
