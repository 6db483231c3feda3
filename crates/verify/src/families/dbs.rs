//! Families of vectors: the demand-based governors.

use opplab_kernel::cpufreq::conservative::{Conservative, ConservativeTunables};
use opplab_kernel::cpufreq::facts::CpuTimes;
use opplab_kernel::cpufreq::freq_table::{FreqEntry, FreqLimits, FreqTable};
use opplab_kernel::cpufreq::ondemand::{Ondemand, OndemandTunables, SampleType};
use opplab_kernel::cpufreq::request::FreqRequest;
use opplab_kernel::cpufreq::sampling::{DbsPolicy, DbsTunables, PolicyDbs, SamplingGovernor as _};

use crate::fields::{Fields, families, read, same};
use crate::json::Json;
use crate::{Compared, Diff, Source, Tally, VerifyError};

families! { File ondemand, File conservative }

/// The machine around the governor: its table, its limits and the driver that obeys at once.
struct Driver {
    table: FreqTable,
    cpuinfo: FreqLimits,
    limits: FreqLimits,
    cur_khz: u32,
}

impl Driver {
    fn new(init: Json<'_>) -> Result<Self, VerifyError> {
        let freqs: Vec<u32> = init.field("freqs")?;
        let inefficient: Vec<bool> = init.field("inefficient")?;
        let entry = |(&freq_khz, &inefficient)| FreqEntry { inefficient, ..FreqEntry::new(freq_khz) };
        let entries = freqs.iter().zip(&inefficient).map(entry).collect();
        let any_inefficient = inefficient.contains(&true);
        Ok(Self {
            table: FreqTable::new(entries, any_inefficient).map_err(|error| init.error(error.to_string()))?,
            cpuinfo: read!(init => FreqLimits { min_khz: "cpuinfo_min", max_khz: "cpuinfo_max" }),
            limits: read!(init => FreqLimits { min_khz: "min", max_khz: "max" }),
            cur_khz: init.field("cur")?,
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
        let limits = step.get("limits")?;
        Ok(limits.field::<bool>(0)?.then_some(read!(limits => FreqLimits { min_khz: 1, max_khz: 2 })))
    }
}

fn times(value: Json<'_>) -> Result<Vec<CpuTimes>, VerifyError> {
    let cpus = value.get("cpus")?.items()?;
    cpus.map(|cpu| Ok(read!(cpu => CpuTimes { wall_us: 0, idle_us: 1, iowait_us = 0, nice_ns: 2 }))).collect()
}

fn dbs_tunables(init: Json<'_>, of: DbsTunables) -> Result<DbsTunables, VerifyError> {
    Ok(read!(init => DbsTunables { up_threshold, sampling_down_factor, ignore_nice_load, ..of }))
}

fn compare_dbs(out: Json<'_>, dbs: &PolicyDbs, diff: &mut Diff) -> Compared {
    let prev_loads: Vec<u32> = out.field("prev_load")?;
    same!(diff, out => {
        rate_mult: dbs.rate_mult, idle_periods: dbs.idle_periods.unwrap_or(u32::MAX),
        max_sample_load: dbs.max_sample_load,
    });
    for (index, &prev_load) in prev_loads.iter().enumerate() {
        diff.eq("prev_load", prev_load, dbs.prev_load(index));
    }
    Ok(())
}

fn ondemand(source: &Source, tally: &mut Tally) -> Compared {
    source.lines(|line| {
        let init = line.get("init")?;
        let mut driver = Driver::new(init)?;
        let mut tunables = OndemandTunables::new(init.field("sampling_rate")?, false);
        tunables.dbs = dbs_tunables(init, tunables.dbs)?;
        tunables.powersave_bias = init.field("powersave_bias")?;
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
            same!(diff, out => {
                delay_us, cur: driver.cur_khz, freq_lo: governor.freq_lo_khz,
                freq_lo_delay_us: governor.freq_lo_delay_us, freq_hi_delay_us: governor.freq_hi_delay_us,
                sample_type: governor.sample_type == SampleType::Sub,
            });
            compare_dbs(out, &governor.policy_dbs, diff)
        })
    })
}

fn conservative(source: &Source, tally: &mut Tally) -> Compared {
    source.lines(|line| {
        let init = line.get("init")?;
        let mut driver = Driver::new(init)?;
        let mut tunables = ConservativeTunables::new(init.field("sampling_rate")?);
        tunables.dbs = dbs_tunables(init, tunables.dbs)?;
        tunables.down_threshold = init.field("down_threshold")?;
        tunables.freq_step = init.field("freq_step")?;
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
            same!(diff, out => {
                delay_us, cur: driver.cur_khz, requested_freq: governor.requested_khz, down_skip: governor.down_skip,
            });
            compare_dbs(out, &governor.policy_dbs, diff)
        })
    })
}
