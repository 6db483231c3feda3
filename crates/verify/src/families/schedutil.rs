//! Families of vectors: schedutil and frequency tables.

use opplab_kernel::cpufreq::freq_table::{self, FreqEntry, FreqLimits, FreqTable, Relation, TableOrder};
use opplab_kernel::cpufreq::perf_margin;

use opplab_kernel::cpufreq::facts::{CpuFacts, PolicyFacts, Request, RqFacts};
use opplab_kernel::cpufreq::schedutil::{self, SugovConfig, SugovCpu, SugovGates, SugovPath, SugovPolicy, UtilType};
use opplab_kernel::eas::{Boost, EasCpu, cpu_util};
use opplab_kernel::sched::placement::CpuCapacity;
use opplab_kernel::uclamp;

use crate::fields::{Fields, families, read, same, take};
use crate::json::Json;
use crate::{Compared, Diff, Row, Source, Tally, VerifyError};

families! {
    Rows schedutil_map, Rows effective_cpu_util, File sugov_iowait,
    File sugov_seq: |source, tally| sugov_seq(source, tally, SugovGates::V6_12), Rows effective_cpu_util_v61,
    File sugov_iowait_v61, File sugov_seq_v61: |source, tally| sugov_seq(source, tally, SugovGates::V5_18),
    File freq_table, Rows v510_schedutil_cpu_util,
}

fn schedutil_map(row: &Row<'_>, diff: &mut Diff) -> Compared {
    take!(row => a, b, c);
    let name = row.str("fn")?;
    let got = match name {
        "map_util_freq" => schedutil::map_util_freq(a, b, c),
        "map_util_perf" => perf_margin::map_util_perf(a),
        "sugov_effective_cpu_perf" => schedutil::sugov_effective_cpu_perf(a, b, c),
        "uclamp_bucket_id_5" => uclamp::uclamp_bucket_id(a, uclamp::UCLAMP_BUCKETS as u64),
        "cpufreq_policy_transition_delay_us" => {
            schedutil::cpufreq_policy_transition_delay_us(a as u32, b as u32) as u64
        }
        other => return Err(row.error(format!("unknown function {other:?}"))),
    };
    diff.eq(name, row.field("out")?, got);
    Ok(())
}

fn rq_facts(row: &Row<'_>) -> Result<RqFacts, VerifyError> {
    Ok(read!(row => RqFacts {
        capacity: "cap", util_rt, util_dl, util_irq, dl_running_bw, uclamp_min, uclamp_max, uclamp_used, rt_runnable,
    }))
}

fn effective_cpu_util(row: &Row<'_>, diff: &mut Diff) -> Compared {
    let facts = rq_facts(row)?;
    let got = schedutil::effective_cpu_util(&facts, row.field("util_cfs_in")?);
    same!(diff, row => {
        bw_dl: schedutil::cpu_bw_dl(facts.dl_running_bw), out_util: got.util, out_min: got.min, out_max: got.max,
        eff_perf: schedutil::sugov_effective_cpu_perf(got.util, got.min, got.max),
    });
    Ok(())
}

fn v510_schedutil_cpu_util(row: &Row<'_>, diff: &mut Diff) -> Compared {
    let facts = rq_facts(row)?;
    let util_cfs = row.field("util_cfs")?;
    let frequency = schedutil::schedutil_cpu_util(&facts, util_cfs, UtilType::Frequency, None);
    let energy = schedutil::schedutil_cpu_util(&facts, util_cfs, UtilType::Energy, None);
    let raw = schedutil::next_raw_freq_v5_10(frequency, row.field("ref_freq")?, facts.capacity);
    same!(diff, row => { frequency_util: frequency, energy_util: energy, next_raw_freq: raw });
    Ok(())
}

fn effective_cpu_util_v61(row: &Row<'_>, diff: &mut Diff) -> Compared {
    let facts = rq_facts(row)?;
    let util_cfs = row.field("util_cfs_in")?;
    let task = row.field("task")?;
    // A task that joins an idle run queue replaces the clamps that the queue kept (sched.h:uclamp_rq_util_with()).
    let joined =
        if task && row.field("uclamp_idle")? { RqFacts { uclamp_min: 0, uclamp_max: 0, ..facts } } else { facts };
    let p_uclamp = if task { Some((row.field("p_uclamp_min")?, row.field("p_uclamp_max")?)) } else { None };
    let frequency = schedutil::schedutil_cpu_util(&joined, util_cfs, UtilType::Frequency, p_uclamp);
    let energy = schedutil::schedutil_cpu_util(&facts, util_cfs, UtilType::Energy, None);
    let raw = schedutil::map_util_freq(perf_margin::map_util_perf(frequency), row.field("ref_freq")?, facts.capacity);
    let own = read!(row => EasCpu {
        rq = facts, capacity = CpuCapacity { orig: facts.capacity, of: facts.capacity, ..CpuCapacity::default() },
        util_avg, runnable_avg = 0, util_est, uclamp_idle,
    });
    same!(diff, row => {
        bw_dl: schedutil::cpu_bw_dl(facts.dl_running_bw), frequency_util: frequency, energy_util: energy,
        next_raw_freq: raw, cpu_util_cfs: cpu_util(0, &own, None, None, Boost::None),
    });
    Ok(())
}

fn sugov_iowait_v61(source: &Source, tally: &mut Tally) -> Compared {
    let mut cpu = SugovCpu::default();
    source.each_row(tally, |row, diff| {
        if row.field::<u64>("step")? == 0 {
            cpu = SugovCpu::default();
        }
        take!(row => time, arg, tick_ns);
        let util = row.field("util_in")?;
        let util = match row.str("op")? {
            "boost" => {
                cpu.sugov_iowait_boost(time, arg != 0, tick_ns);
                cpu.last_update = time;
                util
            }
            "apply" => {
                let clamps = (row.field("uclamp_min")?, row.field("uclamp_max")?);
                cpu.sugov_iowait_raise(time, arg, tick_ns, util, row.field::<bool>("uclamp_used")?.then_some(clamps))
            }
            other => return Err(row.error(format!("unknown op {other:?}"))),
        };
        same!(diff, row => {
            iowait_boost: cpu.iowait_boost, pending: cpu.iowait_boost_pending, last_update: cpu.last_update,
            util_out: util,
        });
        Ok(())
    })
}

fn sugov_iowait(source: &Source, tally: &mut Tally) -> Compared {
    let mut cpu = SugovCpu::default();
    source.each_row(tally, |row, diff| {
        if row.field::<u64>("step")? == 0 {
            cpu = SugovCpu::default();
        }
        take!(row => time, arg, tick_ns);
        let ret = match row.str("op")? {
            "boost" => {
                cpu.sugov_iowait_boost(time, arg != 0, tick_ns);
                cpu.last_update = time;
                0
            }
            "apply" => cpu.sugov_iowait_apply(time, arg, tick_ns),
            other => return Err(row.error(format!("unknown op {other:?}"))),
        };
        same!(diff, row => {
            iowait_boost: cpu.iowait_boost, pending: cpu.iowait_boost_pending, last_update: cpu.last_update, ret,
        });
        Ok(())
    })
}

/// `cpu_util_cfs()` and `cpu_util_cfs_boost()`; before v6.5 there is only the first, here of its parts.
fn util_cfs(step: Json<'_>, capacity: u64, gates: &SugovGates) -> Result<(u64, u64), VerifyError> {
    if gates.runnable_boost {
        return Ok((step.field("util_cfs")?, step.field("util_cfs_boost")?));
    }
    let util = step.field::<u64>("util_avg")?.max(step.field("util_est")?).min(capacity);
    Ok((util, util))
}

fn sugov_table(init: Json<'_>) -> Result<Option<FreqTable>, VerifyError> {
    let (freqs, inefficient): (Vec<u32>, Vec<bool>) = (init.field("freqs")?, init.field("inefficient")?);
    if freqs.is_empty() {
        return Ok(None);
    }
    let of = |(index, freq_khz)| FreqEntry {
        inefficient: inefficient.get(index) == Some(&true),
        ..FreqEntry::new(freq_khz)
    };
    let entries: Vec<_> = freqs.into_iter().enumerate().map(of).collect();
    let available = entries.iter().any(|entry| entry.inefficient);
    FreqTable::new(entries, available).map(Some).map_err(|error| init.error(error.to_string()))
}

fn sugov_seq(source: &Source, tally: &mut Tally, gates: SugovGates) -> Compared {
    source.lines(|json| {
        let init = json.get("init")?;
        let n_cpus: usize = init.field("ncpus")?;
        let mut governor = SugovPolicy::new(read!(init => SugovConfig {
            n_cpus = n_cpus, cpuinfo = read!(init => FreqLimits { min_khz: "cpuinfo_min", max_khz: "cpuinfo_max" }),
            limits = read!(init => FreqLimits { min_khz: "min", max_khz: "max" }), table = sugov_table(init)?,
            fast_switch, need_update_limits, adjust_perf, rate_limit_us, tick_ns, gates = gates,
        }));
        let path = match governor.path() {
            SugovPath::SingleFreq => "single_freq",
            SugovPath::SinglePerf => "single_perf",
            SugovPath::Shared => "shared",
        };
        if path != init.get("path")?.text()? {
            return Err(init.error(format!("path {path} from the driver's features is not the one given")));
        }
        let mut policy = read!(init => PolicyFacts {
            cur_khz: "cur", freq_ref_khz: "freq_ref", freq_invariant, can_update = true,
        });
        let rq = read!(init => RqFacts { capacity: "cpu_cap", uclamp_used, ..RqFacts::default() });
        let mut facts = vec![CpuFacts { rq, ..CpuFacts::default() }; n_cpus];
        json.each("steps", tally, |step, diff| {
            let mut fast_switch_calls = 0;
            let mut irq_work_queued = 0;
            let mut adjust_perf = [0; 4];
            match step.get("op")?.text()? {
                "update" => {
                    let cpu: usize = step.field("cpu")?;
                    let own = facts.get_mut(cpu).ok_or_else(|| step.error(format!("no CPU {cpu}")))?;
                    (own.util_cfs, own.util_cfs_boost) = util_cfs(step, own.rq.capacity, &gates)?;
                    own.idle_calls = step.field("idle_calls")?;
                    own.rq = read!(step => RqFacts {
                        util_rt, util_dl, util_irq, dl_running_bw, uclamp_min, uclamp_max, rt_runnable, ..own.rq
                    });
                    policy.can_update = step.field("can_update")?;
                    let (time, flags) = (step.field("time")?, step.field("flags")?);
                    match governor.update(time, cpu, flags, &policy, facts.as_slice()) {
                        None => {}
                        Some(Request::FastSwitch { freq_khz }) => {
                            fast_switch_calls = 1;
                            policy.cur_khz = freq_khz;
                        }
                        Some(Request::QueueWork) => irq_work_queued = 1,
                        Some(Request::AdjustPerf { min_perf, target_perf, capacity, .. }) => {
                            adjust_perf = [1, min_perf, target_perf, capacity];
                        }
                    }
                }
                "limits" => {
                    let limits = read!(step => FreqLimits { min_khz: "min", max_khz: "max" });
                    if let Some(khz) = governor.set_limits(limits, policy.cur_khz) {
                        policy.cur_khz = khz;
                    }
                }
                "kthread" => {
                    if let Some(khz) = governor.sugov_work(policy.cur_khz) {
                        policy.cur_khz = khz;
                    }
                }
                other => return Err(step.error(format!("unknown op {other:?}"))),
            }
            let out = step.get("out")?;
            same!(diff, out => {
                next_freq: governor.next_freq_khz(), cached_raw_freq: governor.cached_raw_freq_khz(),
                last_freq_update_time: governor.last_freq_update_time(),
                work_in_progress: governor.work_in_progress(), limits_changed: governor.limits_changed(),
                need_freq_update: governor.need_freq_update(), cur: policy.cur_khz, fast_switch_calls,
                irq_work_queued, adjust_perf,
            });
            for (cpu, expected) in governor.cpus().iter().zip(out.get("cpus")?.items()?) {
                let (boost, pending) = (cpu.iowait_boost.into(), cpu.iowait_boost_pending.into());
                let got = [boost, pending, cpu.last_update, cpu.util, cpu.bw_min, cpu.saved_idle_calls];
                diff.eq("cpus", expected.value()?, got);
            }
            Ok(())
        })
    })
}

fn freq_table(source: &Source, tally: &mut Tally) -> Compared {
    source.lines(|json| {
        let (boost, inefficient): (Vec<bool>, Vec<bool>) = (json.field("boost")?, json.field("inefficient")?);
        let mut entries = Vec::new();
        for (index, freq) in json.field::<Vec<i64>>("freqs")?.into_iter().enumerate() {
            entries.push(FreqEntry {
                freq_khz: u32::try_from(freq).unwrap_or(freq_table::CPUFREQ_ENTRY_INVALID),
                inefficient: inefficient.get(index) == Some(&true),
                boost: boost.get(index) == Some(&true),
            });
        }
        let table = FreqTable::new(entries, json.field("efficiencies_available")?)
            .map_err(|error| json.error(error.to_string()))?;
        let cpuinfo = read!(json => FreqLimits { min_khz: "cpuinfo_min", max_khz: "cpuinfo_max" });
        let order = match table.order() {
            TableOrder::Unsorted => 0,
            TableOrder::Ascending => 1,
            TableOrder::Descending => 2,
        };
        json.case(tally, |diff| {
            same!(diff, json => { sorted: order });
            diff.eq("cpuinfo", Some(cpuinfo), table.cpuinfo(json.field("boost_enabled")?));
            Ok(())
        })?;

        json.each("queries", tally, |query, diff| {
            let verified = table.verify(read!(query => FreqLimits { min_khz: 0, max_khz: 1 }), cpuinfo);
            let policy = freq_table::set_policy_limits(Some(&table), verified);
            take!(query => target: 6, relation: 7);
            let relation: u64 = relation;
            let kind = match relation & 3 {
                0 => Relation::L,
                1 => Relation::H,
                _ => Relation::C,
            };
            diff.eq("verified", read!(query => FreqLimits { min_khz: 2, max_khz: 3 }), verified);
            diff.eq("policy", read!(query => FreqLimits { min_khz: 4, max_khz: 5 }), policy);
            let index = table.target_index(target, policy, kind, relation & 4 != 0);
            diff.eq("index", query.field(8)?, index.unwrap_or(0));
            diff.eq("resolve_freq", query.field(9)?, table.resolve(target, policy, Relation::L, true));
            Ok(())
        })
    })
}
