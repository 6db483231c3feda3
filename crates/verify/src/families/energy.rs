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
use opplab_kernel::profile::EmCost;

use opplab_kernel::sched::placement::CpuCapacity;
use opplab_kernel::util_est::{UtilEstForm, UtilEstPair};

use crate::json::Json;
use crate::{Diff, Family, Source, Tally, VerifyError};

/// The families of this module.
pub const FAMILIES: &[Family] = &[
    Family { name: "em_table", run: em_table },
    Family { name: "em_table_v61", run: em_table_v61 },
    Family { name: "cppc_perf_khz", run: cppc_perf_khz },
    Family { name: "cppc_efficiency_class", run: cppc_efficiency_class },
    Family { name: "cppc_artificial_em", run: cppc_artificial_em },
    Family { name: "cppc_fie", run: cppc_fie },
    Family { name: "feec", run: feec },
    Family { name: "feec_v61", run: feec_v61 },
    Family { name: "v510_feec", run: v510_feec },
];

/// The bit of a domain's flags that lets inefficient states be passed over.
const EM_PERF_DOMAIN_SKIP_INEFFICIENCIES: u64 = 2;
/// What the kernel returns where it refuses.
const EINVAL: i64 = -22;

fn diff_states(json: Json<'_>, diff: &mut Diff, states: &[EmPerfState]) -> Result<(), VerifyError> {
    let column = |value: fn(&EmPerfState) -> u64| states.iter().map(value).collect::<Vec<_>>();
    diff.eq("freq", json.nums::<u64>("freq")?, column(|state| state.freq_khz))
        .eq("power", json.nums::<u64>("power")?, column(|state| state.power_uw))
        .eq("performance", json.nums::<u64>("performance")?, column(|state| state.performance))
        .eq("cost", json.nums::<u64>("cost")?, column(|state| state.cost))
        .eq("inefficient", json.nums::<u64>("inefficient")?, column(|state| state.inefficient as u64));
    Ok(())
}

fn em_table(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.lines(|json| {
        let cpu_cap = json.num("cpu_cap")?;
        let powers = json.nums::<u64>("power")?;
        let points: Vec<(u64, u64)> = json.nums::<u64>("freq")?.into_iter().zip(powers).collect();
        let mut diff = Diff::default();
        let states = match em_create_perf_table(&points, cpu_cap, EmCost::Performance) {
            Ok(states) => {
                diff.eq("rc", json.num::<i64>("rc")?, 0);
                diff_states(json, &mut diff, &states)?;
                states
            }
            Err(_) => {
                diff.eq("rc", json.num::<i64>("rc")?, EINVAL);
                Vec::new()
            }
        };
        tally.case(|| json.place(), diff.finish());

        let mut domain = EmPerfDomain { states, cpus: vec![0], skip_inefficient: false, form: EmCost::Performance };
        json.each("queries", tally, |query, diff| {
            let columns = query.ints::<u64>()?;
            let &[max_util, sum_util, allowed_cap, flags, state, energy] = columns.as_slice() else {
                return Err(query.error("a query has not 6 columns"));
            };
            domain.skip_inefficient = flags & EM_PERF_DOMAIN_SKIP_INEFFICIENCIES != 0;
            let got = em_pd_get_efficient_state(&domain.states, max_util, domain.skip_inefficient);
            diff.eq("efficient_state", Some(state as usize), got).eq(
                "em_cpu_energy",
                energy,
                domain.em_cpu_energy(max_util, sum_util, allowed_cap, cpu_cap),
            );
            Ok(())
        })
    })
}

fn em_table_v61(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.lines(|json| {
        let cpu_cap = json.num("cpu_cap")?;
        let powers = json.nums::<u64>("power")?;
        let points: Vec<(u64, u64)> = json.nums::<u64>("freq")?.into_iter().zip(powers).collect();
        let table = if json.flag("artificial")? {
            em_create_artificial_table(&points, &json.nums::<u64>("cost_in")?, cpu_cap)
        } else {
            em_create_perf_table(&points, cpu_cap, EmCost::MicroWatt)
        };
        let mut diff = Diff::default();
        diff.eq("rc", json.num::<i64>("rc")?, if table.is_ok() { 0 } else { EINVAL });
        let states = table.unwrap_or_default();
        diff.eq("cost", json.nums("cost")?, states.iter().map(|state| state.cost).collect()).eq(
            "inefficient",
            json.nums("inefficient")?,
            states.iter().map(|state| state.inefficient as u64).collect(),
        );
        tally.case(|| json.place(), diff.finish());

        let mut domain = EmPerfDomain { states, cpus: vec![0], skip_inefficient: false, form: EmCost::MicroWatt };
        json.each("queries", tally, |query, diff| {
            let columns = query.ints::<u64>()?;
            let &[max_util, sum_util, allowed_cap, flags, freq_khz, state, energy] = columns.as_slice() else {
                return Err(query.error("a query has not 7 columns"));
            };
            domain.skip_inefficient = flags & EM_PERF_DOMAIN_SKIP_INEFFICIENCIES != 0;
            let got = em_pd_get_efficient_state_by_freq(&domain.states, freq_khz, domain.skip_inefficient);
            diff.eq("efficient_state", Some(state as usize), got).eq(
                "em_cpu_energy",
                energy,
                domain.em_cpu_energy(max_util, sum_util, allowed_cap, cpu_cap),
            );
            Ok(())
        })
    })
}

fn cppc_perf_khz(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_row(tally, |row, diff| {
        let caps = CppcPerfCaps {
            lowest_perf: row.num("lowest_perf")?,
            nominal_perf: row.num("nominal_perf")?,
            highest_perf: row.num("highest_perf")?,
            lowest_freq_mhz: row.num("lowest_freq_mhz")?,
            nominal_freq_mhz: row.num("nominal_freq_mhz")?,
            dmi_max_khz: row.num("dmi_max_khz")?,
        };
        diff.eq("khz_out", row.num("khz_out")?, caps.perf_to_khz(row.num("perf_in")?)).eq(
            "perf_out",
            row.num("perf_out")?,
            caps.khz_to_perf(row.num("khz_in")?),
        );
        Ok(())
    })
}

fn cppc_efficiency_class(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_line(tally, |json, diff| {
        let raw = json.nums::<u8>("raw")?;
        let squeezed = cppc::squeeze_efficiency_classes(&raw);
        diff.eq("rc", json.num::<i64>("rc")?, if squeezed.is_some() { 0 } else { EINVAL }).eq(
            "squeezed",
            json.nums::<u32>("squeezed")?,
            squeezed.unwrap_or_else(|| vec![0; raw.len()]),
        );
        Ok(())
    })
}

fn cppc_artificial_em(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_line(tally, |json, diff| {
        let caps = CppcPerfCaps {
            lowest_perf: json.num("lowest_perf")?,
            nominal_perf: json.num("nominal_perf")?,
            highest_perf: json.num("highest_perf")?,
            lowest_freq_mhz: json.num("lowest_freq_mhz")?,
            nominal_freq_mhz: json.num("nominal_freq_mhz")?,
            dmi_max_khz: json.num("dmi_max_khz")?,
        };
        let (cpu_cap, class) = (json.num("cpu_cap")?, json.num("efficiency_class")?);
        let nr_states = json.num::<u32>("nr_states")?;
        diff.eq("nr_states", nr_states, cppc::artificial_em_level_count(&caps, cpu_cap));
        match cppc::artificial_em(&caps, cpu_cap, class) {
            Ok(em) => {
                diff.eq("rc", json.num::<i64>("rc")?, 0).eq("loop_calls", json.num("loop_calls")?, em.loop_calls);
                diff_states(json, diff, &em.states)?;
            }
            Err(ArtificialEmError::Em(_) | ArtificialEmError::StepBeyondHighest(_)) => {
                diff.eq("rc", json.num::<i64>("rc")?, EINVAL);
            }
            Err(error) => {
                diff.eq("rc", "a table or a refusal".to_owned(), error.to_string());
            }
        }
        for query in json.get("cost_queries")?.items()? {
            let cost = cppc::artificial_em_cost(&caps, cpu_cap, class, query.nth(0)?);
            diff.eq("cost_queries", Some(query.nth(1)?), cost);
        }
        Ok(())
    })
}

fn cppc_fie(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_row(tally, |row, diff| {
        let t0 = CppcPerfFbCtrs { reference: row.num("ref0")?, delivered: row.num("del0")? };
        let t1 = CppcPerfFbCtrs { reference: row.num("ref1")?, delivered: row.num("del1")? };
        let (reference_perf, highest_perf) = (row.num("reference_perf")?, row.num("highest_perf")?);
        let perf = cppc::cppc_perf_from_fbctrs(reference_perf, &t0, &t1);
        let scale = cppc::cppc_scale_freq(reference_perf, highest_perf, &t0, &t1);
        diff.eq("delivered_perf", row.num("delivered_perf")?, perf).eq(
            "freq_scale_or_minus1",
            row.num("freq_scale_or_minus1")?,
            scale.map_or(-1, |scale| scale as i64),
        );
        Ok(())
    })
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

fn check_cpus(json: Json<'_>, case: &Case, domains: &[EmPerfDomain], prev_cpu: usize) -> Result<(), VerifyError> {
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
const CPU_V5_10: &[&str] = &[
    "orig",
    "of",
    "util_avg",
    "util_est",
    "util_rt",
    "util_dl",
    "util_irq",
    "dl_running_bw",
    "uclamp_min",
    "uclamp_max",
    "rt_runnable",
];
const CPU_V6_1: &[&str] = &[
    "orig",
    "of",
    "util_avg",
    "util_est",
    "util_rt",
    "util_dl",
    "util_irq",
    "dl_running_bw",
    "uclamp_min",
    "uclamp_max",
    "uclamp_idle",
    "hw_pressure",
    "rt_runnable",
];
const CPU_V6_12: &[&str] = &[
    "orig",
    "of",
    "util_avg",
    "runnable_avg",
    "util_est",
    "util_rt",
    "util_dl",
    "util_irq",
    "dl_running_bw",
    "uclamp_min",
    "uclamp_max",
    "uclamp_idle",
    "hw_pressure",
    "cpufreq_pressure",
    "rt_runnable",
];

fn eas_cpu(cpu: Json<'_>, names: &[&str], uclamp_used: bool) -> Result<EasCpu, VerifyError> {
    let columns = cpu.ints::<u64>()?;
    if columns.len() != names.len() {
        return Err(cpu.error(format!("a CPU has not {} columns", names.len())));
    }
    let of = |name: &str| names.iter().position(|known| *known == name).map_or(0, |at| columns[at]);
    let rq = RqFacts {
        capacity: of("orig"),
        util_rt: of("util_rt"),
        util_dl: of("util_dl"),
        util_irq: of("util_irq"),
        dl_running_bw: of("dl_running_bw"),
        uclamp_min: of("uclamp_min"),
        uclamp_max: of("uclamp_max"),
        uclamp_used,
        rt_runnable: of("rt_runnable") != 0,
    };
    let capacity = CpuCapacity {
        orig: of("orig"),
        of: of("of"),
        hw_pressure: of("hw_pressure"),
        cpufreq_pressure: of("cpufreq_pressure"),
    };
    let (util_avg, runnable_avg, util_est) = (of("util_avg"), of("runnable_avg"), of("util_est"));
    Ok(EasCpu { rq, capacity, util_avg, runnable_avg, util_est, uclamp_idle: of("uclamp_idle") != 0 })
}

/// A state of a domain, of the columns that all versions have in the same place.
fn em_perf_state(state: Json<'_>) -> Result<EmPerfState, VerifyError> {
    let (freq_khz, cost) = (state.nth(0)?, state.nth(2)?);
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
        let flags = if form == EmCost::MilliWatt { 0 } else { pd.num::<u64>("flags")? };
        let skip_inefficient = flags & EM_PERF_DOMAIN_SKIP_INEFFICIENCIES != 0;
        domains.push(EmPerfDomain { states, cpus: cpus_of(pd.num("cpus")?), skip_inefficient, form });
    }
    Ok(domains)
}

fn cpus_from(json: Json<'_>, names: &[&str]) -> Result<Vec<EasCpu>, VerifyError> {
    let uclamp_used = json.flag("uclamp_used")?;
    json.get("cpus")?.items()?.map(|cpu| eas_cpu(cpu, names, uclamp_used)).collect()
}

/// The task, whose estimate is the recorded one or that of its pair in a form.
fn task_of(json: Json<'_>, pair_form: Option<UtilEstForm>) -> Result<EasTask, VerifyError> {
    let (util_est, runnable_avg) = match pair_form {
        None => (json.num("util_est")?, json.num("runnable_avg")?),
        Some(form) => {
            let pair = UtilEstPair { enqueued: json.num("util_est_enqueued")?, ewma: json.num("util_est_ewma")? };
            (pair.task_util_est_masked(form), 0)
        }
    };
    Ok(EasTask {
        prev_cpu: json.num("prev_cpu")?,
        util_avg: json.num("util_avg")?,
        runnable_avg,
        util_est,
        uclamp_min: json.num("uclamp_min")?,
        uclamp_max: json.num("uclamp_max")?,
        queued: pair_form != Some(UtilEstForm::V5_5) && json.flag("queued")?,
    })
}

/// Places the task, and compares the energies that were computed on the way and the CPU.
fn place(json: Json<'_>, diff: &mut Diff, placing: &Placing, gates: EasGates) -> Result<(), VerifyError> {
    let Placing { case, domains, task, overutilized } = placing;
    check_cpus(json, case, domains, task.prev_cpu)?;
    let mut seen = EasExplanation::default();
    let target = find_energy_efficient_cpu(domains, task, *overutilized, case, gates, &mut seen);
    let expected = json.get("energy_calls")?.items()?.map(|call| call.ints()).collect::<Result<Vec<_>, _>>()?;
    let width = expected.first().map_or(0, Vec::len);
    let call = |energy: &EasEnergy| {
        let dst = energy.dst_cpu.map_or(-1, |cpu| cpu as i64);
        let all = [dst, energy.energy as i64, energy.max_util as i64, energy.busy_time as i64];
        all[..width.min(4)].to_vec()
    };
    let calls: Vec<Vec<i64>> = seen.energies.iter().map(call).collect();
    diff.eq("energy_calls", expected, calls).eq("target", json.num("target")?, target.map_or(-1, |cpu| cpu as i64));
    Ok(())
}

/// Cases of v6.1 or v6.12.
fn feec_since_v61(
    (json, diff): (Json<'_>, &mut Diff),
    names: &[&str],
    mut domains: Vec<EmPerfDomain>,
    pair_form: Option<UtilEstForm>,
    gates: EasGates,
) -> Result<(), VerifyError> {
    if json.flag("no_pd")? {
        domains.clear();
    }
    let task_json = json.get("task")?;
    let uclamp_used = json.flag("uclamp_used")?;
    let (online, affinity) = (json.num("online")?, task_json.num("affinity")?);
    let case = Case { cpus: cpus_from(json, names)?, online, affinity, uclamp_used };
    let overutilized = case.cpus.iter().map(|cpu| cpu_overutilized(cpu, uclamp_used, gates.fit) as u64).collect();
    diff.eq("overutilized", json.nums::<u64>("overutilized")?, overutilized);
    let placing = Placing { case, domains, task: task_of(task_json, pair_form)?, overutilized: false };
    place(json, diff, &placing, gates)
}

fn feec(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_line(tally, |json, diff| {
        let domains = domains_of(json, EmCost::Performance, |state| {
            let inefficient = state.nth::<u64>(3)? != 0;
            Ok(EmPerfState { performance: state.nth(1)?, inefficient, ..em_perf_state(state)? })
        })?;
        feec_since_v61((json, diff), CPU_V6_12, domains, None, EasGates::V6_12)
    })
}

fn feec_v61(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_line(tally, |json, diff| {
        let domains = domains_of(json, EmCost::MicroWatt, |state| {
            let inefficient = state.nth::<u64>(3)? != 0;
            Ok(EmPerfState { power_uw: state.nth(1)?, inefficient, ..em_perf_state(state)? })
        })?;
        feec_since_v61((json, diff), CPU_V6_1, domains, Some(UtilEstForm::V5_12), EasGates::V6_1)
    })
}

fn v510_feec(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.lines(|json| {
        let domains = domains_of(json, EmCost::MilliWatt, |state| {
            let power_uw = state.nth::<u32>(1)? as u64 * 1_000;
            Ok(EmPerfState { power_uw, ..em_perf_state(state)? })
        })?;
        for domain in &domains {
            let mut diff = Diff::default();
            let points: Vec<_> = domain.states.iter().map(|state| (state.freq_khz, state.power_uw)).collect();
            if let Ok(built) = em_create_perf_table(&points, 1024, EmCost::MilliWatt) {
                let costs = |states: &[EmPerfState]| states.iter().map(|state| state.cost).collect::<Vec<_>>();
                diff.eq("cost", costs(&domain.states), costs(&built));
            }
            tally.case(|| json.place(), diff.finish());
        }
        let task_json = json.get("task")?;
        let online = domains.iter().flat_map(|domain| &domain.cpus).fold(0, |mask, cpu| mask | 1 << cpu);
        let case = Case {
            cpus: cpus_from(json, CPU_V5_10)?,
            online,
            affinity: task_json.num("affinity")?,
            uclamp_used: json.flag("uclamp_used")?,
        };
        let overutilized = json.flag("rd_overutilized")?;
        let placing = Placing { case, domains, task: task_of(task_json, Some(UtilEstForm::V5_5))?, overutilized };
        let mut diff = Diff::default();
        place(json, &mut diff, &placing, EasGates::V5_10)?;
        tally.case(|| json.place(), diff.finish());
        Ok(())
    })
}
