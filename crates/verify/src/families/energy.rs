//! Families of vectors: energy models, CPPC and energy-aware placement.

use opplab_kernel::cppc::{self, ArtificialEmError, CppcPerfCaps, CppcPerfFbCtrs};
use opplab_kernel::energy_model::{EmForm, EmPerfDomain, EmPerfState, em_create_perf_table, em_pd_get_efficient_state};

use crate::json::Json;
use crate::{Diff, Family, Source, Tally, VerifyError};

/// The families of this module.
pub const FAMILIES: &[Family] = &[
    Family { name: "em_table", run: em_table },
    Family { name: "cppc_perf_khz", run: cppc_perf_khz },
    Family { name: "cppc_efficiency_class", run: cppc_efficiency_class },
    Family { name: "cppc_artificial_em", run: cppc_artificial_em },
    Family { name: "cppc_fie", run: cppc_fie },
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
