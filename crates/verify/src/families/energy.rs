//! Families of vectors: energy models, CPPC and energy-aware placement.

use opplab_kernel::cpufreq::cppc::{self, ArtificialEmError, CppcPerfCaps, CppcPerfFbCtrs};
use opplab_kernel::cpufreq::schedutil::RqFacts;
use opplab_kernel::eas::{
    EasCpu, EasExplanation, EasFacts, EasGates, EasTask, cpu_overutilized, find_energy_efficient_cpu,
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

fn feec(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_line(tally, |json, diff| {
        let uclamp_used = json.flag("uclamp_used")?;
        let mut domains = Vec::new();
        for pd in json.get("pds")?.items()? {
            let mut states = Vec::new();
            for state in pd.get("states")?.items()? {
                states.push(EmPerfState {
                    freq_khz: state.nth(0)?,
                    performance: state.nth(1)?,
                    cost: state.nth(2)?,
                    inefficient: state.nth::<u64>(3)? != 0,
                    power_uw: 0,
                });
            }
            domains.push(EmPerfDomain {
                states,
                cpus: cpus_of(pd.num("cpus")?),
                skip_inefficient: pd.num::<u64>("flags")? & EM_PERF_DOMAIN_SKIP_INEFFICIENCIES != 0,
                form: EmCost::Performance,
            });
        }
        if json.flag("no_pd")? {
            domains.clear();
        }
        let mut cpus = Vec::new();
        for cpu in json.get("cpus")?.items()? {
            let columns = cpu.ints::<u64>()?;
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
            prev_cpu: task_json.num("prev_cpu")?,
            util_avg: task_json.num("util_avg")?,
            runnable_avg: task_json.num("runnable_avg")?,
            util_est: task_json.num("util_est")?,
            uclamp_min: task_json.num("uclamp_min")?,
            uclamp_max: task_json.num("uclamp_max")?,
            queued: task_json.flag("queued")?,
        };
        let (online, affinity) = (json.num("online")?, task_json.num("affinity")?);
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
        let expected = json.get("energy_calls")?.items()?.map(|call| call.ints()).collect::<Result<Vec<_>, _>>()?;
        let overutilized = case.cpus.iter().map(|cpu| cpu_overutilized(cpu, uclamp_used) as u64).collect();
        diff.eq("energy_calls", expected, calls)
            .eq("overutilized", json.nums::<u64>("overutilized")?, overutilized)
            .eq("target", json.num("target")?, target.map_or(-1, |cpu| cpu as i64));
        Ok(())
    })
}

fn feec_v61(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_line(tally, |json, diff| {
        let uclamp_used = json.flag("uclamp_used")?;
        let mut domains = Vec::new();
        for pd in json.get("pds")?.items()? {
            let mut states = Vec::new();
            for state in pd.get("states")?.items()? {
                states.push(EmPerfState {
                    freq_khz: state.nth(0)?,
                    power_uw: state.nth(1)?,
                    cost: state.nth(2)?,
                    inefficient: state.nth::<u64>(3)? != 0,
                    performance: 0,
                });
            }
            domains.push(EmPerfDomain {
                states,
                cpus: cpus_of(pd.num("cpus")?),
                skip_inefficient: pd.num::<u64>("flags")? & EM_PERF_DOMAIN_SKIP_INEFFICIENCIES != 0,
                form: EmCost::MicroWatt,
            });
        }
        if json.flag("no_pd")? {
            domains.clear();
        }
        let mut cpus = Vec::new();
        for cpu in json.get("cpus")?.items()? {
            cpus.push(cpu_v61(cpu, uclamp_used)?);
        }
        let task_json = json.get("task")?;
        let pair = UtilEstPair { enqueued: task_json.num("util_est_enqueued")?, ewma: task_json.num("util_est_ewma")? };
        let task = EasTask {
            prev_cpu: task_json.num("prev_cpu")?,
            util_avg: task_json.num("util_avg")?,
            runnable_avg: 0,
            util_est: pair.task_util_est_masked(UtilEstForm::V5_12),
            uclamp_min: task_json.num("uclamp_min")?,
            uclamp_max: task_json.num("uclamp_max")?,
            queued: task_json.flag("queued")?,
        };
        let (online, affinity) = (json.num("online")?, task_json.num("affinity")?);
        let case = Case { cpus, online, affinity, uclamp_used };
        check_cpus(json, &case, &domains, task.prev_cpu)?;

        let mut seen = EasExplanation::default();
        let target = find_energy_efficient_cpu(&domains, &task, false, &case, EasGates::V6_1, &mut seen);
        let expected = json.get("energy_calls")?.items()?.map(|call| call.ints()).collect::<Result<Vec<_>, _>>()?;
        let width = expected.first().map_or(0, Vec::len);
        let calls: Vec<Vec<i64>> = seen
            .energies
            .iter()
            .map(|energy| {
                let dst = energy.dst_cpu.map_or(-1, |cpu| cpu as i64);
                let all = [dst, energy.energy as i64, energy.max_util as i64, energy.busy_time as i64];
                all[..width.min(4)].to_vec()
            })
            .collect();
        let overutilized = case.cpus.iter().map(|cpu| cpu_overutilized(cpu, uclamp_used) as u64).collect();
        diff.eq("energy_calls", expected, calls)
            .eq("overutilized", json.nums::<u64>("overutilized")?, overutilized)
            .eq("target", json.num("target")?, target.map_or(-1, |cpu| cpu as i64));
        Ok(())
    })
}

fn cpu_v61(cpu: Json<'_>, uclamp_used: bool) -> Result<EasCpu, VerifyError> {
    let columns = cpu.ints::<u64>()?;
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
        uclamp_idle,
        thermal_pressure,
        rt_runnable,
    ] = columns.as_slice()
    else {
        return Err(cpu.error("a CPU has not 13 columns"));
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
    let capacity = CpuCapacity { orig, of, hw_pressure: thermal_pressure, cpufreq_pressure: 0 };
    let util_est =
        u32::try_from(util_est).map_err(|_| cpu.error(format!("util_est {util_est} has more than 32 bits")))?;
    Ok(EasCpu { rq, capacity, util_avg, runnable_avg: 0, util_est: util_est.into(), uclamp_idle: uclamp_idle != 0 })
}

fn v510_feec(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.lines(|json| {
        let uclamp_used = json.flag("uclamp_used")?;
        let mut domains = Vec::new();
        let mut online = 0;
        for pd in json.get("pds")?.items()? {
            let mut states = Vec::new();
            for state in pd.get("states")?.items()? {
                states.push(EmPerfState {
                    freq_khz: state.nth(0)?,
                    power_uw: state.nth::<u32>(1)? as u64 * 1_000,
                    cost: state.nth(2)?,
                    performance: 0,
                    inefficient: false,
                });
            }
            let mask = pd.num::<u64>("cpus")?;
            online |= mask;
            let mut diff = Diff::default();
            let points: Vec<_> = states.iter().map(|state| (state.freq_khz, state.power_uw)).collect();
            if let Ok(built) = em_create_perf_table(&points, 1024, EmCost::MilliWatt) {
                let costs = |states: &[EmPerfState]| states.iter().map(|state| state.cost).collect::<Vec<_>>();
                diff.eq("cost", costs(&states), costs(&built));
            }
            tally.case(|| json.place(), diff.finish());
            domains.push(EmPerfDomain {
                states,
                cpus: cpus_of(mask),
                skip_inefficient: false,
                form: EmCost::MilliWatt,
            });
        }
        let mut cpus = Vec::new();
        for cpu in json.get("cpus")?.items()? {
            let columns = cpu.ints::<u64>()?;
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
        let pair = UtilEstPair { enqueued: task_json.num("util_est_enqueued")?, ewma: task_json.num("util_est_ewma")? };
        let task = EasTask {
            prev_cpu: task_json.num("prev_cpu")?,
            util_avg: task_json.num("util_avg")?,
            runnable_avg: 0,
            util_est: pair.task_util_est_masked(UtilEstForm::V5_5),
            uclamp_min: task_json.num("uclamp_min")?,
            uclamp_max: task_json.num("uclamp_max")?,
            queued: false,
        };
        let case = Case { cpus, online, affinity: task_json.num("affinity")?, uclamp_used };
        check_cpus(json, &case, &domains, task.prev_cpu)?;

        let overutilized = json.flag("rd_overutilized")?;
        let mut seen = EasExplanation::default();
        let target = find_energy_efficient_cpu(&domains, &task, overutilized, &case, EasGates::V5_10, &mut seen);
        let calls: Vec<Vec<i64>> = seen
            .energies
            .iter()
            .map(|energy| vec![energy.dst_cpu.map_or(-1, |cpu| cpu as i64), energy.energy as i64])
            .collect();
        let expected = json.get("energy_calls")?.items()?.map(|call| call.ints()).collect::<Result<Vec<_>, _>>()?;
        let mut diff = Diff::default();
        diff.eq("energy_calls", expected, calls).eq("target", json.num("target")?, target.map_or(-1, |cpu| cpu as i64));
        tally.case(|| json.place(), diff.finish());
        Ok(())
    })
}
