//! Families of vectors: energy models, CPPC and energy-aware placement.

use opplab_kernel::cppc::{self, ArtificialEmError, CppcPerfCaps, CppcPerfFbCtrs};
use opplab_kernel::cpufreq::schedutil::RqFacts;
use opplab_kernel::eas::{
    EasCpu, EasExplanation, EasFacts, EasGates, EasTask, cpu_overutilized, find_energy_efficient_cpu,
};
use opplab_kernel::energy_model::{EmForm, EmPerfDomain, EmPerfState, em_create_perf_table, em_pd_get_efficient_state};

use opplab_kernel::sched::placement::CpuCapacity;
use opplab_kernel::util_est::{UtilEstForm, UtilEstPair};

use crate::json::Json;
use crate::{Diff, Family, Source, Tally, VerifyError};

/// The families of this module.
pub const FAMILIES: &[Family] = &[
    Family { name: "em_table", run: em_table },
    Family { name: "cppc_perf_khz", run: cppc_perf_khz },
    Family { name: "cppc_efficiency_class", run: cppc_efficiency_class },
    Family { name: "cppc_artificial_em", run: cppc_artificial_em },
    Family { name: "cppc_fie", run: cppc_fie },
    Family { name: "feec", run: feec },
    Family { name: "v510_feec", run: v510_feec },
];

/// The bit of a domain's flags that lets inefficient states be passed over.
const EM_PERF_DOMAIN_SKIP_INEFFICIENCIES: u64 = 2;
/// What the kernel returns where it refuses.
const EINVAL: i64 = -22;

fn diff_states(json: Json<'_>, diff: &mut Diff, states: &[EmPerfState]) -> Result<(), VerifyError> {
    let column = |value: fn(&EmPerfState) -> u64| states.iter().map(value).collect::<Vec<_>>();
    diff.eq("freq", json.get("freq")?.list::<u64>()?, column(|state| state.freq_khz))
        .eq("power", json.get("power")?.list::<u64>()?, column(|state| state.power_uw))
        .eq("performance", json.get("performance")?.list::<u64>()?, column(|state| state.performance))
        .eq("cost", json.get("cost")?.list::<u64>()?, column(|state| state.cost))
        .eq("inefficient", json.get("inefficient")?.list::<u64>()?, column(|state| state.inefficient as u64));
    Ok(())
}

fn em_table(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    for (line, value) in source.json_lines()? {
        let json = Json::new(source, line, &value);
        let cpu_cap = json.get("cpu_cap")?.num()?;
        let powers = json.get("power")?.list::<u64>()?;
        let points: Vec<(u64, u64)> = json.get("freq")?.list::<u64>()?.into_iter().zip(powers).collect();
        let mut diff = Diff::default();
        let states = match em_create_perf_table(&points, cpu_cap, EmForm::V6_9) {
            Ok(states) => {
                diff.eq("rc", json.get("rc")?.num::<i64>()?, 0);
                diff_states(json, &mut diff, &states)?;
                states
            }
            Err(_) => {
                diff.eq("rc", json.get("rc")?.num::<i64>()?, EINVAL);
                Vec::new()
            }
        };
        tally.case(|| json.place(), diff.finish());

        let mut domain = EmPerfDomain { states, cpus: vec![0], skip_inefficient: false, form: EmForm::V6_9 };
        for (number, query) in json.get("queries")?.items()?.enumerate() {
            let columns = query.list::<u64>()?;
            let &[max_util, sum_util, allowed_cap, flags, state, energy] = columns.as_slice() else {
                return Err(query.error(format!("query {number} has not 6 columns")));
            };
            domain.skip_inefficient = flags & EM_PERF_DOMAIN_SKIP_INEFFICIENCIES != 0;
            let got = em_pd_get_efficient_state(&domain.states, max_util, domain.skip_inefficient);
            let mut diff = Diff::default();
            diff.eq("efficient_state", Some(state as usize), got).eq(
                "em_cpu_energy",
                energy,
                domain.em_cpu_energy(max_util, sum_util, allowed_cap, cpu_cap),
            );
            tally.case(|| format!("{} query {number}", json.place()), diff.finish());
        }
    }
    Ok(())
}

fn cppc_perf_khz(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    for row in source.table()?.rows() {
        let caps = CppcPerfCaps {
            lowest_perf: row.num("lowest_perf")?,
            nominal_perf: row.num("nominal_perf")?,
            highest_perf: row.num("highest_perf")?,
            lowest_freq_mhz: row.num("lowest_freq_mhz")?,
            nominal_freq_mhz: row.num("nominal_freq_mhz")?,
            dmi_max_khz: row.num("dmi_max_khz")?,
        };
        let mut diff = Diff::default();
        diff.eq("khz_out", row.num("khz_out")?, caps.perf_to_khz(row.num("perf_in")?)).eq(
            "perf_out",
            row.num("perf_out")?,
            caps.khz_to_perf(row.num("khz_in")?),
        );
        tally.case(|| row.place(), diff.finish());
    }
    Ok(())
}

fn cppc_efficiency_class(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    for (line, value) in source.json_lines()? {
        let json = Json::new(source, line, &value);
        let raw = json.get("raw")?.list::<u8>()?;
        let squeezed = cppc::squeeze_efficiency_classes(&raw);
        let mut diff = Diff::default();
        diff.eq("rc", json.get("rc")?.num::<i64>()?, if squeezed.is_some() { 0 } else { EINVAL }).eq(
            "squeezed",
            json.get("squeezed")?.list::<u32>()?,
            squeezed.unwrap_or_else(|| vec![0; raw.len()]),
        );
        tally.case(|| json.place(), diff.finish());
    }
    Ok(())
}

fn cppc_artificial_em(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    for (line, value) in source.json_lines()? {
        let json = Json::new(source, line, &value);
        let caps = CppcPerfCaps {
            lowest_perf: json.get("lowest_perf")?.num()?,
            nominal_perf: json.get("nominal_perf")?.num()?,
            highest_perf: json.get("highest_perf")?.num()?,
            lowest_freq_mhz: json.get("lowest_freq_mhz")?.num()?,
            nominal_freq_mhz: json.get("nominal_freq_mhz")?.num()?,
            dmi_max_khz: json.get("dmi_max_khz")?.num()?,
        };
        let (cpu_cap, class) = (json.get("cpu_cap")?.num()?, json.get("efficiency_class")?.num()?);
        let nr_states = json.get("nr_states")?.num::<u32>()?;
        let mut diff = Diff::default();
        diff.eq("nr_states", nr_states, cppc::artificial_em_level_count(&caps, cpu_cap));
        match cppc::artificial_em(&caps, cpu_cap, class) {
            Ok(em) => {
                diff.eq("rc", json.get("rc")?.num::<i64>()?, 0).eq(
                    "loop_calls",
                    json.get("loop_calls")?.num()?,
                    em.loop_calls,
                );
                diff_states(json, &mut diff, &em.states)?;
            }
            Err(ArtificialEmError::Em(_) | ArtificialEmError::StepBeyondHighest(_)) => {
                diff.eq("rc", json.get("rc")?.num::<i64>()?, EINVAL);
            }
            Err(error) => {
                diff.eq("rc", "a table or a refusal".to_owned(), error.to_string());
            }
        }
        for query in json.get("cost_queries")?.items()? {
            let cost = cppc::artificial_em_cost(&caps, cpu_cap, class, query.at(0)?.num()?);
            diff.eq("cost_queries", Some(query.at(1)?.num()?), cost);
        }
        tally.case(|| json.place(), diff.finish());
    }
    Ok(())
}

fn cppc_fie(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    for row in source.table()?.rows() {
        let t0 = CppcPerfFbCtrs { reference: row.num("ref0")?, delivered: row.num("del0")? };
        let t1 = CppcPerfFbCtrs { reference: row.num("ref1")?, delivered: row.num("del1")? };
        let (reference_perf, highest_perf) = (row.num("reference_perf")?, row.num("highest_perf")?);
        let perf = cppc::cppc_perf_from_fbctrs(reference_perf, &t0, &t1);
        let scale = cppc::cppc_scale_freq(reference_perf, highest_perf, &t0, &t1);
        let mut diff = Diff::default();
        diff.eq("delivered_perf", row.num("delivered_perf")?, perf).eq(
            "freq_scale_or_minus1",
            row.num("freq_scale_or_minus1")?,
            scale.map_or(-1, |scale| scale as i64),
        );
        tally.case(|| row.place(), diff.finish());
    }
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

fn check_cpus(json: Json<'_>, case: &Case, domains: &[EmPerfDomain], prev_cpu: usize) -> Result<(), VerifyError> {
    let count = case.cpus.len();
    let known = domains.iter().flat_map(|domain| &domain.cpus).all(|&cpu| cpu < count);
    if known && prev_cpu < count { Ok(()) } else { Err(json.error(format!("a CPU is not below {count}"))) }
}

fn feec(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    for (line, value) in source.json_lines()? {
        let json = Json::new(source, line, &value);
        let uclamp_used = json.get("uclamp_used")?.flag()?;
        let mut domains = Vec::new();
        for pd in json.get("pds")?.items()? {
            let mut states = Vec::new();
            for state in pd.get("states")?.items()? {
                states.push(EmPerfState {
                    freq_khz: state.at(0)?.num()?,
                    performance: state.at(1)?.num()?,
                    cost: state.at(2)?.num()?,
                    inefficient: state.at(3)?.flag()?,
                    power_uw: 0,
                });
            }
            domains.push(EmPerfDomain {
                states,
                cpus: cpus_of(pd.get("cpus")?.num()?),
                skip_inefficient: pd.get("flags")?.num::<u64>()? & EM_PERF_DOMAIN_SKIP_INEFFICIENCIES != 0,
                form: EmForm::V6_9,
            });
        }
        if json.get("no_pd")?.flag()? {
            domains.clear();
        }
        let mut cpus = Vec::new();
        for cpu in json.get("cpus")?.items()? {
            let columns = cpu.list::<u64>()?;
            let &[
                orig,
                of,
                util_avg,
                runnable_avg,
                util_est,
                util_rt,
                util_dl,
                util_irq,
                dl_running_bw,
                uclamp_min,
                uclamp_max,
                uclamp_idle,
                hw_pressure,
                cpufreq_pressure,
                rt_runnable,
            ] = columns.as_slice()
            else {
                return Err(cpu.error("a CPU has not 15 columns"));
            };
            let rq = RqFacts {
                capacity: orig,
                util_rt,
                util_dl,
                util_irq,
                dl_running_bw,
                uclamp_min,
                uclamp_max,
                uclamp_used,
                rt_runnable: rt_runnable != 0,
            };
            let capacity = CpuCapacity { orig, of, hw_pressure, cpufreq_pressure };
            cpus.push(EasCpu { rq, capacity, util_avg, runnable_avg, util_est, uclamp_idle: uclamp_idle != 0 });
        }
        let task_json = json.get("task")?;
        let task = EasTask {
            prev_cpu: task_json.get("prev_cpu")?.num()?,
            util_avg: task_json.get("util_avg")?.num()?,
            runnable_avg: task_json.get("runnable_avg")?.num()?,
            util_est: task_json.get("util_est")?.num()?,
            uclamp_min: task_json.get("uclamp_min")?.num()?,
            uclamp_max: task_json.get("uclamp_max")?.num()?,
            queued: task_json.get("queued")?.flag()?,
        };
        let (online, affinity) = (json.get("online")?.num()?, task_json.get("affinity")?.num()?);
        let case = Case { cpus, online, affinity, uclamp_used };
        check_cpus(json, &case, &domains, task.prev_cpu)?;

        let mut seen = EasExplanation::default();
        let target = find_energy_efficient_cpu(&domains, &task, false, &case, EasGates::V6_12, &mut seen);
        let calls: Vec<Vec<i64>> = seen
            .energies
            .iter()
            .map(|energy| {
                let dst = energy.dst_cpu.map_or(-1, |cpu| cpu as i64);
                vec![dst, energy.energy as i64, energy.max_util as i64, energy.busy_time as i64]
            })
            .collect();
        let expected = json.get("energy_calls")?.items()?.map(|call| call.list()).collect::<Result<Vec<_>, _>>()?;
        let overutilized = case.cpus.iter().map(|cpu| cpu_overutilized(cpu, uclamp_used) as u64).collect();
        let mut diff = Diff::default();
        diff.eq("energy_calls", expected, calls)
            .eq("overutilized", json.get("overutilized")?.list::<u64>()?, overutilized)
            .eq("target", json.get("target")?.num()?, target.map_or(-1, |cpu| cpu as i64));
        tally.case(|| json.place(), diff.finish());
    }
    Ok(())
}

fn v510_feec(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    for (line, value) in source.json_lines()? {
        let json = Json::new(source, line, &value);
        let uclamp_used = json.get("uclamp_used")?.flag()?;
        let mut domains = Vec::new();
        let mut online = 0;
        for pd in json.get("pds")?.items()? {
            let mut states = Vec::new();
            for state in pd.get("states")?.items()? {
                states.push(EmPerfState {
                    freq_khz: state.at(0)?.num()?,
                    power_uw: state.at(1)?.num::<u32>()? as u64 * 1_000,
                    cost: state.at(2)?.num()?,
                    performance: 0,
                    inefficient: false,
                });
            }
            let mask = pd.get("cpus")?.num::<u64>()?;
            online |= mask;
            let mut diff = Diff::default();
            let points: Vec<_> = states.iter().map(|state| (state.freq_khz, state.power_uw)).collect();
            if let Ok(built) = em_create_perf_table(&points, 1024, EmForm::V5_10) {
                let costs = |states: &[EmPerfState]| states.iter().map(|state| state.cost).collect::<Vec<_>>();
                diff.eq("cost", costs(&states), costs(&built));
            }
            tally.case(|| json.place(), diff.finish());
            domains.push(EmPerfDomain { states, cpus: cpus_of(mask), skip_inefficient: false, form: EmForm::V5_10 });
        }
        let mut cpus = Vec::new();
        for cpu in json.get("cpus")?.items()? {
            let columns = cpu.list::<u64>()?;
            let &[
                orig,
                of,
                util_avg,
                util_est,
                util_rt,
                util_dl,
                util_irq,
                dl_running_bw,
                uclamp_min,
                uclamp_max,
                rt_runnable,
            ] = columns.as_slice()
            else {
                return Err(cpu.error("a CPU has not 11 columns"));
            };
            let rq = RqFacts {
                capacity: orig,
                util_rt,
                util_dl,
                util_irq,
                dl_running_bw,
                uclamp_min,
                uclamp_max,
                uclamp_used,
                rt_runnable: rt_runnable != 0,
            };
            let capacity = CpuCapacity { orig, of, hw_pressure: 0, cpufreq_pressure: 0 };
            cpus.push(EasCpu { rq, capacity, util_avg, runnable_avg: 0, util_est, uclamp_idle: false });
        }
        let task_json = json.get("task")?;
        let pair = UtilEstPair {
            enqueued: task_json.get("util_est_enqueued")?.num()?,
            ewma: task_json.get("util_est_ewma")?.num()?,
        };
        let task = EasTask {
            prev_cpu: task_json.get("prev_cpu")?.num()?,
            util_avg: task_json.get("util_avg")?.num()?,
            runnable_avg: 0,
            util_est: pair.task_util_est_masked(UtilEstForm::V5_5),
            uclamp_min: task_json.get("uclamp_min")?.num()?,
            uclamp_max: task_json.get("uclamp_max")?.num()?,
            queued: false,
        };
        let case = Case { cpus, online, affinity: task_json.get("affinity")?.num()?, uclamp_used };
        check_cpus(json, &case, &domains, task.prev_cpu)?;

        let overutilized = json.get("rd_overutilized")?.flag()?;
        let mut seen = EasExplanation::default();
        let target = find_energy_efficient_cpu(&domains, &task, overutilized, &case, EasGates::V5_10, &mut seen);
        let calls: Vec<Vec<i64>> = seen
            .energies
            .iter()
            .map(|energy| vec![energy.dst_cpu.map_or(-1, |cpu| cpu as i64), energy.energy as i64])
            .collect();
        let expected = json.get("energy_calls")?.items()?.map(|call| call.list()).collect::<Result<Vec<_>, _>>()?;
        let mut diff = Diff::default();
        diff.eq("energy_calls", expected, calls).eq(
            "target",
            json.get("target")?.num()?,
            target.map_or(-1, |cpu| cpu as i64),
        );
        tally.case(|| json.place(), diff.finish());
    }
    Ok(())
}
