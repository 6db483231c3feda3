//! Families of vectors: the demand-based governors.

use opplab_kernel::cpufreq::conservative::{Conservative, ConservativeTunables};
use opplab_kernel::cpufreq::dbs::{CpuTimes, DbsPolicy, PolicyDbs};
use opplab_kernel::cpufreq::freq_table::{FreqEntry, FreqLimits, FreqTable};
use opplab_kernel::cpufreq::ondemand::{Ondemand, OndemandTunables, SampleType};
use opplab_kernel::cpufreq::request::FreqRequest;
use serde_json::Value;

use super::json::At;
use crate::{Diff, Family, Source, Tally, VerifyError};

/// The families of this module.
pub const FAMILIES: &[Family] =
    &[Family { name: "ondemand", run: ondemand }, Family { name: "conservative", run: conservative }];

/// The machine around the governor: its table, its limits and the driver that obeys at once.
struct Driver {
    table: FreqTable,
    cpuinfo: FreqLimits,
    limits: FreqLimits,
    cur_khz: u32,
}

impl Driver {
    fn new(at: &At<'_>, init: &Value) -> Result<Self, VerifyError> {
        let freqs: Vec<u32> = at.numbers(at.get(init, "freqs")?)?;
        let inefficient: Vec<u8> = at.numbers(at.get(init, "inefficient")?)?;
        let entry = |(&freq_khz, &inefficient): (&u32, &u8)| FreqEntry {
            inefficient: inefficient != 0,
            ..FreqEntry::new(freq_khz)
        };
        let entries = freqs.iter().zip(&inefficient).map(entry).collect();
        let any_inefficient = inefficient.iter().any(|&flag| flag != 0);
        let limits = |min: &str, max: &str| -> Result<FreqLimits, VerifyError> {
            Ok(FreqLimits { min_khz: at.num(init, min)?, max_khz: at.num(init, max)? })
        };
        Ok(Self {
            table: FreqTable::new(entries, any_inefficient).map_err(|error| at.error(error.to_string()))?,
            cpuinfo: limits("cpuinfo_min", "cpuinfo_max")?,
            limits: limits("min", "max")?,
            cur_khz: at.num(init, "cur")?,
        })
    }

    fn policy(&self) -> DbsPolicy<'_> {
        DbsPolicy { cur_khz: self.cur_khz, limits: self.limits, cpuinfo: self.cpuinfo, table: Some(&self.table) }
    }

    fn obey(&mut self, request: Option<FreqRequest>) {
        if let Some(request) = request {
            self.cur_khz = request.resolve(Some(&self.table), self.limits);
        }
    }

    /// The step's new limits; `None` if they did not change.
    fn step_limits(at: &At<'_>, step: &Value) -> Result<Option<FreqLimits>, VerifyError> {
        let limits: Vec<u32> = at.numbers(at.get(step, "limits")?)?;
        let [changed, min_khz, max_khz] = limits[..] else {
            return Err(at.error("limits are not [changed, min, max]"));
        };
        Ok((changed != 0).then_some(FreqLimits { min_khz, max_khz }))
    }
}

fn times(at: &At<'_>, value: &Value) -> Result<Vec<CpuTimes>, VerifyError> {
    at.array(value, "cpus")?
        .iter()
        .map(|cpu| {
            let numbers: Vec<u64> = at.numbers(cpu)?;
            let [wall_us, idle_us, nice_ns] = numbers[..] else {
                return Err(at.error("a cpu is not [wall_us, idle_us, nice_ns]"));
            };
            Ok(CpuTimes { wall_us, idle_us, nice_ns })
        })
        .collect()
}

fn compare_dbs(at: &At<'_>, out: &Value, dbs: &PolicyDbs, diff: &mut Diff) -> Result<(), VerifyError> {
    let prev_loads: Vec<u32> = at.numbers(at.get(out, "prev_load")?)?;
    diff.eq("rate_mult", at.num(out, "rate_mult")?, dbs.rate_mult)
        .eq("idle_periods", at.num(out, "idle_periods")?, dbs.idle_periods.unwrap_or(u32::MAX))
        .eq("max_sample_load", at.num(out, "max_sample_load")?, dbs.max_sample_load);
    for (index, &prev_load) in prev_loads.iter().enumerate() {
        diff.eq("prev_load", prev_load, dbs.prev_load(index));
    }
    Ok(())
}

fn ondemand(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    for (line, value) in source.json_lines()? {
        let at = At { source, line };
        let init = at.get(&value, "init")?;
        let mut driver = Driver::new(&at, init)?;
        let mut tunables = OndemandTunables::new(at.num(init, "sampling_rate")?, false);
        tunables.dbs.up_threshold = at.num(init, "up_threshold")?;
        tunables.dbs.sampling_down_factor = at.num(init, "sampling_down_factor")?;
        tunables.dbs.ignore_nice_load = at.flag(init, "ignore_nice_load")?;
        tunables.powersave_bias = at.num(init, "powersave_bias")?;
        let mut governor = Ondemand::start(tunables, &times(&at, init)?);
        for (number, step) in at.array(&value, "steps")?.iter().enumerate() {
            if let Some(limits) = Driver::step_limits(&at, step)? {
                driver.limits = limits;
                let request = governor.limits(&driver.policy());
                driver.obey(request);
            }
            let (request, delay_us) = governor.update(&driver.policy(), &times(&at, step)?);
            driver.obey(request);
            governor.policy_dbs.sampled(delay_us);

            let out = at.get(step, "out")?;
            let mut diff = Diff::default();
            diff.eq("delay_us", at.num(out, "delay_us")?, delay_us)
                .eq("cur", at.num(out, "cur")?, driver.cur_khz)
                .eq("freq_lo", at.num(out, "freq_lo")?, governor.freq_lo_khz)
                .eq("freq_lo_delay_us", at.num(out, "freq_lo_delay_us")?, governor.freq_lo_delay_us)
                .eq("freq_hi_delay_us", at.num(out, "freq_hi_delay_us")?, governor.freq_hi_delay_us)
                .eq("sample_type", at.flag(out, "sample_type")?, governor.sample_type == SampleType::Sub);
            compare_dbs(&at, out, &governor.policy_dbs, &mut diff)?;
            tally.case(|| format!("{}:{line} step {number}", source.file), diff.finish());
        }
    }
    Ok(())
}

fn conservative(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    for (line, value) in source.json_lines()? {
        let at = At { source, line };
        let init = at.get(&value, "init")?;
        let mut driver = Driver::new(&at, init)?;
        let mut tunables = ConservativeTunables::new(at.num(init, "sampling_rate")?);
        tunables.dbs.up_threshold = at.num(init, "up_threshold")?;
        tunables.dbs.sampling_down_factor = at.num(init, "sampling_down_factor")?;
        tunables.dbs.ignore_nice_load = at.flag(init, "ignore_nice_load")?;
        tunables.down_threshold = at.num(init, "down_threshold")?;
        tunables.freq_step = at.num(init, "freq_step")?;
        let mut governor = Conservative::start(tunables, driver.cur_khz, &times(&at, init)?);
        for (number, step) in at.array(&value, "steps")?.iter().enumerate() {
            if let Some(limits) = Driver::step_limits(&at, step)? {
                driver.limits = limits;
                let request = governor.limits(&driver.policy());
                driver.obey(request);
                governor.limits_applied(driver.cur_khz);
            }
            let (request, delay_us) = governor.update(&driver.policy(), &times(&at, step)?);
            driver.obey(request);
            governor.policy_dbs.sampled(delay_us);

            let out = at.get(step, "out")?;
            let mut diff = Diff::default();
            diff.eq("delay_us", at.num(out, "delay_us")?, delay_us)
                .eq("cur", at.num(out, "cur")?, driver.cur_khz)
                .eq("requested_freq", at.num(out, "requested_freq")?, governor.requested_khz)
                .eq("down_skip", at.num(out, "down_skip")?, governor.down_skip);
            compare_dbs(&at, out, &governor.policy_dbs, &mut diff)?;
            tally.case(|| format!("{}:{line} step {number}", source.file), diff.finish());
        }
    }
    Ok(())
}
