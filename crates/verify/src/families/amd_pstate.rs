//! Families of vectors: the amd-pstate driver.

use opplab_kernel::cpufreq::amd_pstate::{
    AmdCppcRequest, AmdCpu, AmdError, AmdForm, AmdPerf, AmdPlatform, CppcInterface,
};
use opplab_kernel::cpufreq::driver::AmdMode;
use opplab_kernel::cpufreq::intel_pstate::PstatePolicy;

use crate::json::Json;
use crate::{Diff, Family, Row, Source, Tally, VerifyError};

/// The families of this module.
pub const FAMILIES: &[Family] = &[
    Family { name: "amd_pstate_init", run: |source, tally| init_rows(source, tally, AmdForm::Limited) },
    Family { name: "amd_pstate_init_v61", run: |source, tally| init_rows(source, tally, AmdForm::Unlimited) },
    Family { name: "amd_pstate_seq", run: |source, tally| sequences(source, tally, AmdForm::Limited) },
    Family { name: "amd_pstate_seq_v61", run: |source, tally| sequences(source, tally, AmdForm::Unlimited) },
];

/// `CPUFREQ_ETERNAL`: ACPI lacks the latency.
const CPUFREQ_ETERNAL: u32 = u32::MAX;
/// `MSR_K7_HWCR_CPB_DIS`.
const HWCR_CPB_DIS: u64 = 1 << 25;

/// A named number of a row or an object, whichever the file has.
type Field<'a> = &'a dyn Fn(&str) -> Result<i128, VerifyError>;

fn platform(field: Field<'_>) -> Result<AmdPlatform, VerifyError> {
    let cap1 = field("cap1")? as u64;
    let level = |shift: u32| (cap1 >> shift) as u32 & 0xff;
    let told = |quirk: &str, own: &str| -> Result<u32, VerifyError> {
        let quirk = field(quirk).unwrap_or(0);
        Ok(if quirk != 0 { quirk } else { field(own)? } as u32)
    };
    let latency_ns = field("transition_latency_ns")? as u32;
    Ok(AmdPlatform {
        shared_memory: field("shmem")? != 0,
        perf: AmdPerf {
            lowest_perf: level(0),
            lowest_nonlinear_perf: level(8),
            nominal_perf: level(16),
            highest_perf: level(24),
            nominal_mhz: told("quirk_nominal_mhz", "nominal_mhz")?,
            lowest_mhz: told("quirk_lowest_mhz", "lowest_mhz")?,
        },
        boost_ratio_numerator: field("numerator")? as u32,
        model_highest_perf: field("asic_highest")? as u32,
        has_cpb: field("cpb")? != 0,
        cpb_disabled: field("hwcr")? as u64 & HWCR_CPB_DIS != 0,
        fast_cppc: field("fast_cppc")? != 0,
        transition_latency_ns: (latency_ns != CPUFREQ_ETERNAL).then_some(latency_ns),
    })
}

fn mode(number: i128) -> Option<AmdMode> {
    match number {
        2 => Some(AmdMode::Passive),
        3 => Some(AmdMode::Active),
        4 => Some(AmdMode::Guided),
        _ => None,
    }
}

/// `nominal_freq`, in MHz since v6.12.
fn nominal_freq(cpu: &AmdCpu) -> u32 {
    match cpu.form {
        AmdForm::Unlimited => cpu.freqs.nominal_khz,
        AmdForm::Limited => cpu.perf.nominal_mhz,
    }
}

fn init_rows(source: &Source, tally: &mut Tally, form: AmdForm) -> Result<(), VerifyError> {
    source.each_row(tally, |row: &Row<'_>, diff: &mut Diff| {
        let platform = platform(&|name| row.num(name))?;
        let mode = mode(row.num("mode")?).ok_or_else(|| row.error("mode is not 2, 3 or 4"))?;
        let cpu = match AmdCpu::init(form, mode, &platform, &AmdCppcRequest(0)) {
            Ok(cpu) => cpu,
            Err(error) => {
                diff.eq("rc", row.num("rc")?, error.errno());
                return Ok(());
            }
        };
        let policy = &cpu.policy;
        diff.eq("rc", row.num("rc")?, 0)
            .eq("highest_perf", row.num("highest_perf")?, cpu.perf.highest_perf)
            .eq("nominal_perf", row.num("nominal_perf")?, cpu.perf.nominal_perf)
            .eq("lowest_nonlinear_perf", row.num("lowest_nonlinear_perf")?, cpu.perf.lowest_nonlinear_perf)
            .eq("lowest_perf", row.num("lowest_perf")?, cpu.perf.lowest_perf)
            .eq("min_freq", row.num("min_freq")?, cpu.freqs.min_khz)
            .eq("lowest_nonlinear_freq", row.num("lowest_nonlinear_freq")?, cpu.freqs.lowest_nonlinear_khz)
            .eq("nominal_freq", row.num("nominal_freq")?, nominal_freq(&cpu))
            .eq("max_freq", row.num("max_freq")?, cpu.freqs.max_khz)
            .eq("cpuinfo_min", row.num("cpuinfo_min")?, policy.cpuinfo_min_khz)
            .eq("cpuinfo_max", row.num("cpuinfo_max")?, policy.cpuinfo_max_khz)
            .eq("boost_supported", row.flag("boost_supported")?, cpu.boost_supported)
            .eq("boost_enabled", row.flag("boost_enabled")?, policy.boost_enabled)
            .eq("transition_latency", row.num("transition_latency")?, policy.transition_latency_ns)
            .eq("transition_delay_us", row.num("transition_delay_us")?, policy.transition_delay_us)
            .eq("fast_switch_possible", row.flag("fast_switch_possible")?, policy.fast_switch_possible);
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
fn compare(out: Json<'_>, cpu: &AmdCpu, firmware: &Firmware, diff: &mut Diff) -> Result<(), VerifyError> {
    diff.eq("cur", out.num("cur")?, cpu.policy.cur_khz)
        .eq("min", out.num("min")?, cpu.policy.min_khz)
        .eq("max", out.num("max")?, cpu.policy.max_khz)
        .eq("cpuinfo_max", out.num("cpuinfo_max")?, cpu.policy.cpuinfo_max_khz)
        .eq("boost_enabled", out.flag("boost_enabled")?, cpu.policy.boost_enabled)
        .eq("req", out.num("req")?, cpu.request.0)
        .eq("msr_writes", out.num("msr_writes")?, firmware.writes)
        .eq("msr", out.num("msr")?, firmware.written)
        .eq("ctrls", out.nums("ctrls")?, firmware.controls.to_vec());
    if cpu.form == AmdForm::Unlimited {
        return Ok(());
    }
    let own = match cpu.own_policy {
        None => 0,
        Some(PstatePolicy::Powersave) => 1,
        Some(PstatePolicy::Performance) => 2,
    };
    diff.eq("min_limit_perf", out.num("min_limit_perf")?, cpu.min_limit_perf)
        .eq("max_limit_perf", out.num("max_limit_perf")?, cpu.max_limit_perf)
        .eq("min_limit_freq", out.num("min_limit_freq")?, cpu.min_limit_khz)
        .eq("max_limit_freq", out.num("max_limit_freq")?, cpu.max_limit_khz)
        .eq("policy", out.num("policy")?, own)
        .eq("epp_cached", out.num("epp_cached")?, cpu.epp_cached)
        .eq("epp_default", out.num("epp_default")?, cpu.epp_default)
        .eq("epp_shmem", out.num("epp_shmem")?, firmware.epp);
    Ok(())
}

fn sequences(source: &Source, tally: &mut Tally, form: AmdForm) -> Result<(), VerifyError> {
    source.lines(|json| {
        let init = json.get("init")?;
        let platform = platform(&|name| init.num(name))?;
        let mode = mode(init.num("mode")?).ok_or_else(|| init.error("mode is not 2, 3 or 4"))?;
        let mut firmware = Firmware {
            req: init.num("req_msr")?,
            epp: init.num("epp_at_start")?,
            epp_fails: init.flag("epp_err")?,
            ..Firmware::default()
        };
        let mut cpu = AmdCpu::init(form, mode, &platform, &firmware)
            .map_err(|error| init.error(format!("the driver does not load: {}", error.errno())))?;
        let mut diff = Diff::default();
        compare(init, &cpu, &firmware, &mut diff)?;
        diff.eq("highest_perf", init.num("highest_perf")?, cpu.perf.highest_perf)
            .eq("min_freq", init.num("min_freq")?, cpu.freqs.min_khz)
            .eq("max_freq", init.num("max_freq")?, cpu.freqs.max_khz)
            .eq("lowest_nonlinear_freq", init.num("lowest_nonlinear_freq")?, cpu.freqs.lowest_nonlinear_khz)
            .eq("nominal_freq", init.num("nominal_freq")?, nominal_freq(&cpu));
        tally.case(|| json.place(), diff.finish());

        json.each("steps", tally, |step, diff| {
            firmware.writes = 0;
            let ret = run_step(step, &mut cpu, &mut firmware)?;
            let out = step.get("out")?;
            diff.eq("ret", out.num("ret")?, ret);
            compare(out, &cpu, &firmware, diff)
        })
    })
}

fn run_step(step: Json<'_>, cpu: &mut AmdCpu, firmware: &mut Firmware) -> Result<i64, VerifyError> {
    let code = |result: Result<(), AmdError>| result.map_or_else(|error| i64::from(error.errno()), |()| 0);
    let ret = match step.get("op")?.text()? {
        "limits" => {
            cpu.set_limits(step.num("req_min")?, step.num("req_max")?);
            0
        }
        "target" => {
            cpu.target(step.num("freq")?, step.flag("dynamic")?, firmware);
            0
        }
        "fast_switch" => cpu.fast_switch(step.num("freq")?, step.flag("dynamic")?, firmware).into(),
        "adjust_perf" => {
            cpu.adjust_perf(step.num("min_perf")?, step.num("target_perf")?, step.num("capacity")?, firmware);
            0
        }
        "boost" => code(cpu.set_boost(step.flag("state")?)),
        "set_policy" => {
            let own = match step.num::<u32>("policy")? {
                1 => PstatePolicy::Powersave,
                2 => PstatePolicy::Performance,
                other => return Err(step.error(format!("policy {other} is not 1 or 2"))),
            };
            code(cpu.set_policy(own, firmware))
        }
        "set_epp_index" => code(cpu.set_energy_pref_index(step.num("index")?, firmware)),
        "get_epp_index" => match cpu.get_energy_pref_index(firmware) {
            Ok(index) => index as i64,
            Err(error) => error.errno().into(),
        },
        other => return Err(step.error(format!("unknown op {other:?}"))),
    };
    Ok(ret)
}
