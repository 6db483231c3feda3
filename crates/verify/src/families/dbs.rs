//! Families of vectors: the demand-based governors.

use opplab_kernel::cpufreq::conservative::{Conservative, ConservativeTunables};
use opplab_kernel::cpufreq::facts::CpuTimes;
use opplab_kernel::cpufreq::freq_table::{FreqEntry, FreqLimits, FreqTable};
use opplab_kernel::cpufreq::ondemand::{Ondemand, OndemandTunables, SampleType};
use opplab_kernel::cpufreq::request::FreqRequest;
use opplab_kernel::cpufreq::sampling::{DbsPolicy, PolicyDbs, SamplingGovernor as _};

use crate::json::Json;
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
    fn new(init: Json<'_>) -> Result<Self, VerifyError> {
        let freqs: Vec<u32> = init.nums("freqs")?;
        let inefficient: Vec<u8> = init.nums("inefficient")?;
        let entry = |(&freq_khz, &inefficient): (&u32, &u8)| FreqEntry {
            inefficient: inefficient != 0,
            ..FreqEntry::new(freq_khz)
        };
        let entries = freqs.iter().zip(&inefficient).map(entry).collect();
        let any_inefficient = inefficient.iter().any(|&flag| flag != 0);
        let limits = |min: &str, max: &str| -> Result<FreqLimits, VerifyError> {
            Ok(FreqLimits { min_khz: init.num(min)?, max_khz: init.num(max)? })
        };
        Ok(Self {
            table: FreqTable::new(entries, any_inefficient).map_err(|error| init.error(error.to_string()))?,
            cpuinfo: limits("cpuinfo_min", "cpuinfo_max")?,
            limits: limits("min", "max")?,
            cur_khz: init.num("cur")?,
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
    fn step_limits(step: Json<'_>) -> Result<Option<FreqLimits>, VerifyError> {
        let limits: Vec<u32> = step.nums("limits")?;
        let [changed, min_khz, max_khz] = limits[..] else {
            return Err(step.error("limits are not [changed, min, max]"));
        };
        Ok((changed != 0).then_some(FreqLimits { min_khz, max_khz }))
    }
}

fn times(value: Json<'_>) -> Result<Vec<CpuTimes>, VerifyError> {
    value
        .get("cpus")?
        .items()?
        .map(|cpu| {
            let numbers: Vec<u64> = cpu.ints()?;
            let [wall_us, idle_us, nice_ns] = numbers[..] else {
                return Err(cpu.error("a cpu is not [wall_us, idle_us, nice_ns]"));
            };
            Ok(CpuTimes { wall_us, idle_us, iowait_us: 0, nice_ns })
        })
        .collect()
}

fn compare_dbs(out: Json<'_>, dbs: &PolicyDbs, diff: &mut Diff) -> Result<(), VerifyError> {
    let prev_loads: Vec<u32> = out.nums("prev_load")?;
    diff.eq("rate_mult", out.num("rate_mult")?, dbs.rate_mult)
        .eq("idle_periods", out.num("idle_periods")?, dbs.idle_periods.unwrap_or(u32::MAX))
        .eq("max_sample_load", out.num("max_sample_load")?, dbs.max_sample_load);
    for (index, &prev_load) in prev_loads.iter().enumerate() {
        diff.eq("prev_load", prev_load, dbs.prev_load(index));
    }
    Ok(())
}

fn ondemand(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.lines(|line| {
        let init = line.get("init")?;
        let mut driver = Driver::new(init)?;
        let mut tunables = OndemandTunables::new(init.num("sampling_rate")?, false);
        tunables.dbs.up_threshold = init.num("up_threshold")?;
        tunables.dbs.sampling_down_factor = init.num("sampling_down_factor")?;
        tunables.dbs.ignore_nice_load = init.flag("ignore_nice_load")?;
        tunables.powersave_bias = init.num("powersave_bias")?;
        let mut governor = Ondemand::start(tunables, &times(init)?);
        line.each("steps", tally, |step, diff| {
            if let Some(limits) = Driver::step_limits(step)? {
                driver.limits = limits;
                let request = governor.limits(&driver.policy());
                driver.obey(request);
            }
            let (request, delay_us) = governor.update(&driver.policy(), &times(step)?);
            driver.obey(request);
            governor.policy_dbs.sampled(delay_us);

            let out = step.get("out")?;
            diff.eq("delay_us", out.num("delay_us")?, delay_us)
                .eq("cur", out.num("cur")?, driver.cur_khz)
                .eq("freq_lo", out.num("freq_lo")?, governor.freq_lo_khz)
                .eq("freq_lo_delay_us", out.num("freq_lo_delay_us")?, governor.freq_lo_delay_us)
                .eq("freq_hi_delay_us", out.num("freq_hi_delay_us")?, governor.freq_hi_delay_us)
                .eq("sample_type", out.flag("sample_type")?, governor.sample_type == SampleType::Sub);
            compare_dbs(out, &governor.policy_dbs, diff)?;
            Ok(())
        })
    })
}

fn conservative(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    source.lines(|line| {
        let init = line.get("init")?;
        let mut driver = Driver::new(init)?;
        let mut tunables = ConservativeTunables::new(init.num("sampling_rate")?);
        tunables.dbs.up_threshold = init.num("up_threshold")?;
        tunables.dbs.sampling_down_factor = init.num("sampling_down_factor")?;
        tunables.dbs.ignore_nice_load = init.flag("ignore_nice_load")?;
        tunables.down_threshold = init.num("down_threshold")?;
        tunables.freq_step = init.num("freq_step")?;
        let mut governor = Conservative::start(tunables, driver.cur_khz, &times(init)?);
        line.each("steps", tally, |step, diff| {
            if let Some(limits) = Driver::step_limits(step)? {
                driver.limits = limits;
                let request = governor.limits(&driver.policy());
                driver.obey(request);
                governor.limits_applied(driver.cur_khz);
            }
            let (request, delay_us) = governor.update(&driver.policy(), &times(step)?);
            driver.obey(request);
            governor.policy_dbs.sampled(delay_us);

            let out = step.get("out")?;
            diff.eq("delay_us", out.num("delay_us")?, delay_us)
                .eq("cur", out.num("cur")?, driver.cur_khz)
                .eq("requested_freq", out.num("requested_freq")?, governor.requested_khz)
                .eq("down_skip", out.num("down_skip")?, governor.down_skip);
            compare_dbs(out, &governor.policy_dbs, diff)?;
            Ok(())
        })
    })
}
