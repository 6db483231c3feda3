//! Families of vectors: the amd-pstate driver.

use opplab_kernel::cpufreq::amd_pstate::{
    AmdCppcRequest, AmdCpu, AmdError, AmdForm, AmdPerf, AmdPlatform, CppcInterface,
};
use opplab_kernel::cpufreq::driver::AmdMode;

use super::intel_pstate::number_of;
use crate::fields::{Fields, families, read, same};
use crate::json::Json;
use crate::{Compared, Diff, Row, Source, Tally, VerifyError};

families! {
    File amd_pstate_init: |source, tally| init_rows(source, tally, AmdForm::Limited),
    File amd_pstate_init_v61: |source, tally| init_rows(source, tally, AmdForm::Unlimited),
    File amd_pstate_seq: |source, tally| sequences(source, tally, AmdForm::Limited),
    File amd_pstate_seq_v61: |source, tally| sequences(source, tally, AmdForm::Unlimited),
}

/// `CPUFREQ_ETERNAL`: ACPI lacks the latency.
const CPUFREQ_ETERNAL: u32 = u32::MAX;
/// `MSR_K7_HWCR_CPB_DIS`.
const HWCR_CPB_DIS: u64 = 1 << 25;

fn platform(from: &impl Fields) -> Result<AmdPlatform, VerifyError> {
    let cap1: u64 = from.field("cap1")?;
    let level = |shift: u32| (cap1 >> shift) as u32 & 0xff;
    let told = |quirk: &str, own: &str| match from.field(quirk) {
        Ok(0) | Err(_) => from.field::<u32>(own),
        quirk => quirk,
    };
    let perf = AmdPerf {
        lowest_perf: level(0),
        lowest_nonlinear_perf: level(8),
        nominal_perf: level(16),
        highest_perf: level(24),
        nominal_mhz: told("quirk_nominal_mhz", "nominal_mhz")?,
        lowest_mhz: told("quirk_lowest_mhz", "lowest_mhz")?,
    };
    let latency_ns = from.field("transition_latency_ns")?;
    Ok(read!(from => AmdPlatform {
        shared_memory: "shmem", perf = perf, boost_ratio_numerator: "numerator", model_highest_perf: "asic_highest",
        has_cpb: "cpb", cpb_disabled = from.field::<u64>("hwcr")? & HWCR_CPB_DIS != 0, fast_cppc,
        transition_latency_ns = (latency_ns != CPUFREQ_ETERNAL).then_some(latency_ns),
    }))
}

fn mode(from: &impl Fields) -> Result<AmdMode, VerifyError> {
    match from.field("mode")? {
        2 => Ok(AmdMode::Passive),
        3 => Ok(AmdMode::Active),
        4 => Ok(AmdMode::Guided),
        _ => Err(from.error("mode is not 2, 3 or 4")),
    }
}

/// `nominal_freq`, in MHz since v6.12.
fn nominal_freq(cpu: &AmdCpu) -> u32 {
    match cpu.form {
        AmdForm::Unlimited => cpu.freqs.nominal_khz,
        AmdForm::Limited => cpu.perf.nominal_mhz,
    }
}

fn init_rows(source: &Source, tally: &mut Tally, form: AmdForm) -> Compared {
    source.each_row(tally, |row: &Row<'_>, diff: &mut Diff| {
        let cpu = match AmdCpu::init(form, mode(row)?, &platform(row)?, &AmdCppcRequest(0)) {
            Ok(cpu) => cpu,
            Err(error) => {
                same!(diff, row => { rc: error.errno() });
                return Ok(());
            }
        };
        let policy = &cpu.policy;
        same!(diff, row => { rc: 0 });
        same!(diff, row => { highest_perf, nominal_perf, lowest_nonlinear_perf, lowest_perf } of cpu.perf);
        same!(diff, row => {
            min_freq: cpu.freqs.min_khz, lowest_nonlinear_freq: cpu.freqs.lowest_nonlinear_khz,
            nominal_freq: nominal_freq(&cpu), max_freq: cpu.freqs.max_khz, cpuinfo_min: policy.cpuinfo_min_khz,
            cpuinfo_max: policy.cpuinfo_max_khz, boost_supported: cpu.boost_supported,
            boost_enabled: policy.boost_enabled, transition_latency: policy.transition_latency_ns,
            transition_delay_us: policy.transition_delay_us, fast_switch_possible: policy.fast_switch_possible,
        });
        Ok(())
    })
}

/// The register, the shared memory, and how often either was written.
#[derive(Debug, Default)]
struct Firmware {
    req: u64,
    /// The last value written.
    written: u64,
    controls: [u32; 3],
    writes: u32,
    epp: i64,
    epp_fails: bool,
}

impl CppcInterface for Firmware {
    fn read_req(&self) -> u64 {
        self.req
    }

    fn write_req(&mut self, request: AmdCppcRequest) {
        self.req = request.0;
        self.written = request.0;
        self.writes += 1;
    }

    fn set_perf(&mut self, min: u32, desired: u32, max: u32) {
        self.controls = [min, desired, max];
        self.writes += 1;
    }

    fn get_epp_perf(&self) -> Result<u64, AmdError> {
        if self.epp_fails { Err(AmdError::Io) } else { Ok(self.epp as u64) }
    }

    fn set_epp_perf(&mut self, epp: u32) -> Result<(), AmdError> {
        if self.epp_fails {
            return Err(AmdError::Io);
        }
        self.epp = epp.into();
        Ok(())
    }
}

/// Compares what both generations have, and what v6.12 has beyond.
fn compare(out: Json<'_>, cpu: &AmdCpu, firmware: &Firmware, diff: &mut Diff) -> Compared {
    same!(diff, out => {
        cur: cpu.policy.cur_khz, min: cpu.policy.min_khz, max: cpu.policy.max_khz,
        cpuinfo_max: cpu.policy.cpuinfo_max_khz, boost_enabled: cpu.policy.boost_enabled, req: cpu.request.0,
        msr_writes: firmware.writes, msr: firmware.written, ctrls: firmware.controls,
    });
    if cpu.form == AmdForm::Unlimited {
        return Ok(());
    }
    same!(diff, out => {
        min_limit_perf: cpu.min_limit_perf, max_limit_perf: cpu.max_limit_perf, min_limit_freq: cpu.min_limit_khz,
        max_limit_freq: cpu.max_limit_khz, policy: number_of(cpu.own_policy), epp_cached: cpu.epp_cached, epp_default: cpu.epp_default,
        epp_shmem: firmware.epp,
    });
    Ok(())
}

fn sequences(source: &Source, tally: &mut Tally, form: AmdForm) -> Compared {
    source.lines(|json| {
        let init = json.get("init")?;
        let mut firmware = read!(init => Firmware {
            req: "req_msr", epp: "epp_at_start", epp_fails: "epp_err", ..Firmware::default()
        });
        let mut cpu = AmdCpu::init(form, mode(&init)?, &platform(&init)?, &firmware)
            .map_err(|error| init.error(format!("the driver does not load: {}", error.errno())))?;
        json.case(tally, |diff| {
            same!(diff, init => {
                highest_perf: cpu.perf.highest_perf, min_freq: cpu.freqs.min_khz, max_freq: cpu.freqs.max_khz,
                lowest_nonlinear_freq: cpu.freqs.lowest_nonlinear_khz, nominal_freq: nominal_freq(&cpu),
            });
            compare(init, &cpu, &firmware, diff)
        })?;
        json.each("steps", tally, |step, diff| {
            firmware.writes = 0;
            let ret = run_step(step, &mut cpu, &mut firmware)?;
            let out = step.get("out")?;
            same!(diff, out => { ret });
            compare(out, &cpu, &firmware, diff)
        })
    })
}

fn run_step(step: Json<'_>, cpu: &mut AmdCpu, firmware: &mut Firmware) -> Result<i64, VerifyError> {
    let code = |result: Result<(), AmdError>| result.map_or_else(|error| i64::from(error.errno()), |()| 0);
    let ret = match step.get("op")?.text()? {
        "limits" => {
            cpu.set_limits(step.field("req_min")?, step.field("req_max")?);
            0
        }
        "target" => {
            cpu.target(step.field("freq")?, step.field("dynamic")?, firmware);
            0
        }
        "fast_switch" => cpu.fast_switch(step.field("freq")?, step.field("dynamic")?, firmware).into(),
        "adjust_perf" => {
            cpu.adjust_perf(step.field("min_perf")?, step.field("target_perf")?, step.field("capacity")?, firmware);
            0
        }
        "boost" => code(cpu.set_boost(step.field("state")?)),
        "set_policy" => code(cpu.set_policy(step.field("policy")?, firmware)),
        "set_epp_index" => code(cpu.set_energy_pref_index(step.field("index")?, firmware)),
        "get_epp_index" => match cpu.get_energy_pref_index(firmware) {
            Ok(index) => index as i64,
            Err(error) => error.errno().into(),
        },
        other => return Err(step.error(format!("unknown op {other:?}"))),
    };
    Ok(ret)
}
