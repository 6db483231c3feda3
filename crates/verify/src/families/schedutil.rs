//! Families of vectors: schedutil and frequency tables.

use opplab_kernel::cpufreq::freq_table::{self, FreqEntry, FreqLimits, FreqTable, Relation, TableOrder};
use opplab_kernel::cpufreq::perf_margin;

use opplab_kernel::cpufreq::facts::{CpuFacts, PolicyFacts, Request, RqFacts};
use opplab_kernel::cpufreq::schedutil::{self, SugovConfig, SugovCpu, SugovGates, SugovPath, SugovPolicy, UtilType};
use opplab_kernel::eas::{Boost, EasCpu, cpu_util};
use opplab_kernel::sched::placement::CpuCapacity;
use opplab_kernel::uclamp;

use crate::json::Json;
use crate::{Diff, Family, Row, Source, Tally, VerifyError};

/// The families of this module.
pub const FAMILIES: &[Family] = &[
    Family { name: "schedutil_map", run: schedutil_map },
    Family { name: "effective_cpu_util", run: effective_cpu_util },
    Family { name: "sugov_iowait", run: sugov_iowait },
    Family { name: "sugov_seq", run: |source, tally| sugov_seq(source, tally, SugovGates::V6_12) },
    Family { name: "effective_cpu_util_v61", run: effective_cpu_util_v61 },
    Family { name: "sugov_iowait_v61", run: sugov_iowait_v61 },
    Family { name: "sugov_seq_v61", run: |source, tally| sugov_seq(source, tally, SugovGates::V5_18) },
    Family { name: "freq_table", run: freq_table },
    Family { name: "v510_schedutil_cpu_util", run: v510_schedutil_cpu_util },
];

fn schedutil_map(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_row(tally, |row, diff| {
        let (a, b, c) = (row.num::<u64>("a")?, row.num::<u64>("b")?, row.num::<u64>("c")?);
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
        diff.eq(name, row.num("out")?, got);
        Ok(())
    })
}

fn rq_facts(row: &Row<'_>) -> Result<RqFacts, VerifyError> {
    Ok(RqFacts {
        capacity: row.num("cap")?,
        util_rt: row.num("util_rt")?,
        util_dl: row.num("util_dl")?,
        util_irq: row.num("util_irq")?,
        dl_running_bw: row.num("dl_running_bw")?,
        uclamp_min: row.num("uclamp_min")?,
        uclamp_max: row.num("uclamp_max")?,
        uclamp_used: row.flag("uclamp_used")?,
        rt_runnable: row.flag("rt_runnable")?,
    })
}

fn effective_cpu_util(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_row(tally, |row, diff| {
        let facts = rq_facts(row)?;
        let got = schedutil::effective_cpu_util(&facts, row.num("util_cfs_in")?);
        diff.eq("bw_dl", row.num("bw_dl")?, schedutil::cpu_bw_dl(facts.dl_running_bw))
            .eq("out_util", row.num("out_util")?, got.util)
            .eq("out_min", row.num("out_min")?, got.min)
            .eq("out_max", row.num("out_max")?, got.max)
            .eq("eff_perf", row.num("eff_perf")?, schedutil::sugov_effective_cpu_perf(got.util, got.min, got.max));
        Ok(())
    })
}

fn v510_schedutil_cpu_util(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_row(tally, |row, diff| {
        let facts = rq_facts(row)?;
        let util_cfs = row.num("util_cfs")?;
        let frequency = schedutil::schedutil_cpu_util(&facts, util_cfs, UtilType::Frequency, None);
        let energy = schedutil::schedutil_cpu_util(&facts, util_cfs, UtilType::Energy, None);
        let raw = schedutil::next_raw_freq_v5_10(frequency, row.num("ref_freq")?, facts.capacity);
        diff.eq("frequency_util", row.num("frequency_util")?, frequency)
            .eq("energy_util", row.num("energy_util")?, energy)
            .eq("next_raw_freq", row.num("next_raw_freq")?, raw);
        Ok(())
    })
}

fn effective_cpu_util_v61(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.each_row(tally, |row, diff| {
        let facts = rq_facts(row)?;
        let util_cfs = row.num("util_cfs_in")?;
        let task = row.flag("task")?;
        // A task that joins an idle run queue replaces the clamps that the queue kept (sched.h:uclamp_rq_util_with()).
        let joined =
            if task && row.flag("uclamp_idle")? { RqFacts { uclamp_min: 0, uclamp_max: 0, ..facts } } else { facts };
        let p_uclamp = if task { Some((row.num("p_uclamp_min")?, row.num("p_uclamp_max")?)) } else { None };
        let frequency = schedutil::schedutil_cpu_util(&joined, util_cfs, UtilType::Frequency, p_uclamp);
        let energy = schedutil::schedutil_cpu_util(&facts, util_cfs, UtilType::Energy, None);
        let raw = schedutil::map_util_freq(perf_margin::map_util_perf(frequency), row.num("ref_freq")?, facts.capacity);
        let own = EasCpu {
            rq: facts,
            capacity: CpuCapacity { orig: facts.capacity, of: facts.capacity, ..CpuCapacity::default() },
            util_avg: row.num("util_avg")?,
            runnable_avg: 0,
            util_est: row.num("util_est")?,
            uclamp_idle: row.flag("uclamp_idle")?,
        };
        diff.eq("bw_dl", row.num("bw_dl")?, schedutil::cpu_bw_dl(facts.dl_running_bw))
            .eq("frequency_util", row.num("frequency_util")?, frequency)
            .eq("energy_util", row.num("energy_util")?, energy)
            .eq("next_raw_freq", row.num("next_raw_freq")?, raw)
            .eq("cpu_util_cfs", row.num("cpu_util_cfs")?, cpu_util(0, &own, None, None, Boost::None));
        Ok(())
    })
}

fn sugov_iowait_v61(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    let mut cpu = SugovCpu::default();
    source.each_row(tally, |row, diff| {
        if row.num::<i64>("step")? == 0 {
            cpu = SugovCpu::default();
        }
        let (time, arg, tick_ns) = (row.num("time")?, row.num::<u64>("arg")?, row.num("tick_ns")?);
        let util = row.num("util_in")?;
        let util = match row.str("op")? {
            "boost" => {
                cpu.sugov_iowait_boost(time, arg != 0, tick_ns);
                cpu.last_update = time;
                util
            }
            "apply" => {
                let clamps = (row.num("uclamp_min")?, row.num("uclamp_max")?);
                cpu.sugov_iowait_raise(time, arg, tick_ns, util, row.flag("uclamp_used")?.then_some(clamps))
            }
            other => return Err(row.error(format!("unknown op {other:?}"))),
        };
        diff.eq("iowait_boost", row.num("iowait_boost")?, cpu.iowait_boost)
            .eq("pending", row.flag("pending")?, cpu.iowait_boost_pending)
            .eq("last_update", row.num("last_update")?, cpu.last_update)
            .eq("util_out", row.num("util_out")?, util);
        Ok(())
    })
}

fn sugov_iowait(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    let mut cpu = SugovCpu::default();
    source.each_row(tally, |row, diff| {
        if row.num::<i64>("step")? == 0 {
            cpu = SugovCpu::default();
        }
        let (time, arg, tick_ns) = (row.num("time")?, row.num::<u64>("arg")?, row.num("tick_ns")?);
        let ret = match row.str("op")? {
            "boost" => {
                cpu.sugov_iowait_boost(time, arg != 0, tick_ns);
                cpu.last_update = time;
                0
            }
            "apply" => cpu.sugov_iowait_apply(time, arg, tick_ns),
            other => return Err(row.error(format!("unknown op {other:?}"))),
        };
        diff.eq("iowait_boost", row.num("iowait_boost")?, cpu.iowait_boost)
            .eq("pending", row.flag("pending")?, cpu.iowait_boost_pending)
            .eq("last_update", row.num("last_update")?, cpu.last_update)
            .eq("ret", row.num("ret")?, ret);
        Ok(())
    })
}

/// `cpu_util_cfs()` and `cpu_util_cfs_boost()`; before v6.5 there is only the first, here of its parts.
fn util_cfs(step: Json<'_>, capacity: u64, gates: &SugovGates) -> Result<(u64, u64), VerifyError> {
    if gates.runnable_boost {
        return Ok((step.num("util_cfs")?, step.num("util_cfs_boost")?));
    }
    let util = step.num::<u64>("util_avg")?.max(step.num("util_est")?).min(capacity);
    Ok((util, util))
}

fn sugov_table(init: Json<'_>) -> Result<Option<FreqTable>, VerifyError> {
    let inefficient = init.nums::<u64>("inefficient")?;
    let mut entries = Vec::new();
    for (index, freq_khz) in init.nums("freqs")?.into_iter().enumerate() {
        let inefficient = inefficient.get(index).is_some_and(|&flag| flag != 0);
        entries.push(FreqEntry { freq_khz, inefficient, boost: false });
    }
    if entries.is_empty() {
        return Ok(None);
    }
    let available = entries.iter().any(|entry| entry.inefficient);
    FreqTable::new(entries, available).map(Some).map_err(|error| init.error(error.to_string()))
}

fn sugov_seq(source: &Source, tally: &mut Tally, gates: SugovGates) -> Result<(), VerifyError> {
    source.lines(|json| {
        let init = json.get("init")?;
        let n_cpus: usize = init.num("ncpus")?;
        let mut governor = SugovPolicy::new(SugovConfig {
            n_cpus,
            cpuinfo: FreqLimits { min_khz: init.num("cpuinfo_min")?, max_khz: init.num("cpuinfo_max")? },
            limits: FreqLimits { min_khz: init.num("min")?, max_khz: init.num("max")? },
            table: sugov_table(init)?,
            fast_switch: init.flag("fast_switch")?,
            need_update_limits: init.flag("need_update_limits")?,
            adjust_perf: init.flag("adjust_perf")?,
            rate_limit_us: init.num("rate_limit_us")?,
            tick_ns: init.num("tick_ns")?,
            gates,
        });
        let path = match governor.path() {
            SugovPath::SingleFreq => "single_freq",
            SugovPath::SinglePerf => "single_perf",
            SugovPath::Shared => "shared",
        };
        if path != init.get("path")?.text()? {
            return Err(init.error(format!("path {path} from the driver's features is not the one given")));
        }
        let mut policy = PolicyFacts {
            cur_khz: init.num("cur")?,
            freq_ref_khz: init.num("freq_ref")?,
            freq_invariant: init.flag("freq_invariant")?,
            can_update: true,
        };
        let rq =
            RqFacts { capacity: init.num("cpu_cap")?, uclamp_used: init.flag("uclamp_used")?, ..RqFacts::default() };
        let mut facts = vec![CpuFacts { rq, ..CpuFacts::default() }; n_cpus];
        json.each("steps", tally, |step, diff| {
            let mut fast_switch_calls = 0;
            let mut irq_work_queued = 0;
            let mut adjust_perf = [0; 4];
            match step.get("op")?.text()? {
                "update" => {
                    let cpu: usize = step.num("cpu")?;
                    let own = facts.get_mut(cpu).ok_or_else(|| step.error(format!("no CPU {cpu}")))?;
                    (own.util_cfs, own.util_cfs_boost) = util_cfs(step, own.rq.capacity, &gates)?;
                    own.idle_calls = step.num("idle_calls")?;
                    own.rq.util_rt = step.num("util_rt")?;
                    own.rq.util_dl = step.num("util_dl")?;
                    own.rq.util_irq = step.num("util_irq")?;
                    own.rq.dl_running_bw = step.num("dl_running_bw")?;
                    own.rq.uclamp_min = step.num("uclamp_min")?;
                    own.rq.uclamp_max = step.num("uclamp_max")?;
                    own.rq.rt_runnable = step.flag("rt_runnable")?;
                    policy.can_update = step.flag("can_update")?;
                    let (time, flags) = (step.num("time")?, step.num("flags")?);
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
                    let limits = FreqLimits { min_khz: step.num("min")?, max_khz: step.num("max")? };
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
            diff.eq("next_freq", out.num("next_freq")?, governor.next_freq_khz())
                .eq("cached_raw_freq", out.num("cached_raw_freq")?, governor.cached_raw_freq_khz())
                .eq("last_freq_update_time", out.num("last_freq_update_time")?, governor.last_freq_update_time())
                .eq("work_in_progress", out.flag("work_in_progress")?, governor.work_in_progress())
                .eq("limits_changed", out.flag("limits_changed")?, governor.limits_changed())
                .eq("need_freq_update", out.flag("need_freq_update")?, governor.need_freq_update())
                .eq("cur", out.num("cur")?, policy.cur_khz)
                .eq("fast_switch_calls", out.num("fast_switch_calls")?, fast_switch_calls)
                .eq("irq_work_queued", out.num("irq_work_queued")?, irq_work_queued)
                .eq("adjust_perf", out.nums::<u64>("adjust_perf")?, adjust_perf.to_vec());
            for (cpu, expected) in governor.cpus().iter().zip(out.get("cpus")?.items()?) {
                let got = vec![
                    cpu.iowait_boost as u64,
                    cpu.iowait_boost_pending as u64,
                    cpu.last_update,
                    cpu.util,
                    cpu.bw_min,
                    cpu.saved_idle_calls,
                ];
                diff.eq("cpus", expected.ints::<u64>()?, got);
            }
            Ok(())
        })
    })
}

fn freq_table(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.lines(|json| {
        let (boost, inefficient) = (json.nums::<u64>("boost")?, json.nums::<u64>("inefficient")?);
        let mut entries = Vec::new();
        for (index, freq) in json.nums::<i64>("freqs")?.into_iter().enumerate() {
            entries.push(FreqEntry {
                freq_khz: u32::try_from(freq).unwrap_or(freq_table::CPUFREQ_ENTRY_INVALID),
                inefficient: inefficient.get(index).is_some_and(|&flag| flag != 0),
                boost: boost.get(index).is_some_and(|&flag| flag != 0),
            });
        }
        let table = FreqTable::new(entries, json.flag("efficiencies_available")?)
            .map_err(|error| json.error(error.to_string()))?;
        let cpuinfo = FreqLimits { min_khz: json.num("cpuinfo_min")?, max_khz: json.num("cpuinfo_max")? };
        let mut diff = Diff::default();
        let order = match table.order() {
            TableOrder::Unsorted => 0,
            TableOrder::Ascending => 1,
            TableOrder::Descending => 2,
        };
        diff.eq("sorted", json.num::<u32>("sorted")?, order);
        diff.eq("cpuinfo", Some(cpuinfo), table.cpuinfo(json.flag("boost_enabled")?));
        tally.case(|| json.place(), diff.finish());

        json.each("queries", tally, |query, diff| {
            let columns = query.ints::<u64>()?;
            let &[
                req_min,
                req_max,
                verified_min,
                verified_max,
                policy_min,
                policy_max,
                target,
                relation,
                index,
                resolve_freq,
            ] = columns.as_slice()
            else {
                return Err(query.error("a query has not 10 columns"));
            };
            let verified = table.verify(limits(req_min, req_max), cpuinfo);
            let policy = freq_table::set_policy_limits(Some(&table), verified);
            let kind = match relation & 3 {
                0 => Relation::L,
                1 => Relation::H,
                _ => Relation::C,
            };
            let target = target as u32;
            diff.eq("verified", limits(verified_min, verified_max), verified)
                .eq("policy", limits(policy_min, policy_max), policy)
                .eq("index", index, table.target_index(target, policy, kind, relation & 4 != 0).unwrap_or(0) as u64)
                .eq("resolve_freq", resolve_freq as u32, table.resolve(target, policy, Relation::L, true));
            Ok(())
        })
    })
}

fn limits(min: u64, max: u64) -> FreqLimits {
    FreqLimits { min_khz: min as u32, max_khz: max as u32 }
}
