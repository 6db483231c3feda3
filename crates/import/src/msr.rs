//! Model-specific registers: a dump's `msr.txt`, and what the registers mean.
//!
//! The text has a register a line: `ce:0|80838f1011a00 1|80838f1011a00 ...` (address:CPU|value CPU|value, hexadecimal
//! but for the CPU).

use opplab_model::machine::{HwpCaps, PackagePower, TurboBin};

use crate::error::{ImportError, shorten};
use crate::facts::{CoreType, Facts};

/// `MSR_PLATFORM_INFO`.
pub(crate) const PLATFORM_INFO: u32 = 0xce;
/// `MSR_TURBO_RATIO_LIMIT`.
pub(crate) const TURBO_RATIO_LIMIT: u32 = 0x1ad;
/// `MSR_TURBO_RATIO_LIMIT1`.
pub(crate) const TURBO_RATIO_LIMIT1: u32 = 0x1ae;
/// `MSR_TURBO_RATIO_LIMIT2`.
const TURBO_RATIO_LIMIT2: u32 = 0x1af;
/// `MSR_HWP_CAPABILITIES`.
pub(crate) const HWP_CAPABILITIES: u32 = 0x771;
/// `MSR_HWP_REQUEST`.
pub(crate) const HWP_REQUEST: u32 = 0x774;
/// `MSR_SECONDARY_TURBO_RATIO_LIMIT`: that of a hybrid processor's small cores.
pub(crate) const SECONDARY_TURBO_RATIO_LIMIT: u32 = 0x650;
/// `MSR_CONFIG_TDP_NOMINAL`; those of the first and the second level follow.
pub(crate) const CONFIG_TDP_NOMINAL: u32 = 0x648;
/// `MSR_CONFIG_TDP_CONTROL`.
pub(crate) const CONFIG_TDP_CONTROL: u32 = 0x64b;
/// Registers whose value differs between the kinds of core of a hybrid processor.
pub(crate) const OF_ITS_KIND: &[u32] =
    &[PLATFORM_INFO, TURBO_RATIO_LIMIT, CONFIG_TDP_NOMINAL, HWP_CAPABILITIES, HWP_REQUEST];
const RAPL_POWER_UNIT: u32 = 0x606;
const PKG_POWER_LIMIT: u32 = 0x610;
const PKG_POWER_INFO: u32 = 0x614;

/// Registers of which each CPU (of a kind) has its copy, so that one that lacks it is a hole in the dump.
const EACH_CPU: &[u32] =
    &[PLATFORM_INFO, TURBO_RATIO_LIMIT, TURBO_RATIO_LIMIT1, 0x770, HWP_CAPABILITIES, 0x772, HWP_REQUEST, 0x1b0];

/// Registers that are read; the others are skipped.
fn is_used(address: u32) -> bool {
    EACH_CPU.contains(&address)
        || (CONFIG_TDP_NOMINAL..=CONFIG_TDP_CONTROL).contains(&address)
        || [RAPL_POWER_UNIT, PKG_POWER_LIMIT, PKG_POWER_INFO, TURBO_RATIO_LIMIT2, SECONDARY_TURBO_RATIO_LIMIT]
            .contains(&address)
        || [0x1a0, 0x66a, 0x66c, 0x1fc].contains(&address)
}

/// Reads `msr.txt` into the CPUs of `facts`.
pub(crate) fn read(file: &str, text: &str, facts: &mut Facts) -> Result<(), ImportError> {
    for (index, line) in text.lines().enumerate() {
        let fault = |message: String| ImportError::line(file, index + 1, message);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (address, values) =
            line.split_once(':').ok_or_else(|| fault(format!("`{}` is not `address:CPU|value ...`", shorten(line))))?;
        let address = u32::from_str_radix(address.trim(), 16)
            .map_err(|_| fault(format!("`{}` is not the address of a register", shorten(address))))?;
        let mut given: Vec<u32> = Vec::new();
        for word in values.split_ascii_whitespace() {
            let bad = || fault(format!("register {address:#x}: `{}` is not `CPU|value`", shorten(word)));
            let (cpu, value) = word.split_once('|').ok_or_else(bad)?;
            let cpu: u32 = cpu.parse().map_err(|_| bad())?;
            let value = u64::from_str_radix(value, 16).map_err(|_| bad())?;
            given.push(cpu);
            if let Some(of_cpu) = facts.cpus.get_mut(&cpu).filter(|_| is_used(address)) {
                let earlier = of_cpu.msrs.insert(address, value);
                if earlier.is_some_and(|earlier| earlier != value) {
                    let message = format!("register {address:#x} has two values for CPU {cpu}");
                    return Err(fault(message));
                }
            }
        }
        given.sort_unstable();
        if EACH_CPU.contains(&address)
            && let Some(missing) = missing_cpu(facts, &given)
        {
            return Err(fault(format!(
                "register {address:#x} is missing for CPU {missing}, which is online ({} CPUs have it)",
                given.len()
            )));
        }
        if is_used(address) {
            facts.tell(&format!("msr.{address:#x}"), format!("{file}:{}", index + 1));
        }
    }
    Ok(())
}

/// The first online CPU without a value although another of its kind has one.
fn missing_cpu(facts: &Facts, given: &[u32]) -> Option<u32> {
    let has = |cpu: &u32| given.binary_search(cpu).is_ok();
    let kinds: Vec<Option<CoreType>> =
        facts.cpus.iter().filter(|(cpu, _)| has(cpu)).map(|(_, of_cpu)| of_cpu.core_type).collect();
    facts.cpus.iter().find(|(cpu, of_cpu)| !has(cpu) && kinds.contains(&of_cpu.core_type)).map(|(&cpu, _)| cpu)
}

/// The clock of a ratio of 1.
const BUS_KHZ: u32 = 100_000;

fn byte(value: u64, index: u32) -> u32 {
    ((value >> (8 * index)) & 0xff) as u32
}

/// `MSR_HWP_CAPABILITIES` of a CPU.
pub(crate) fn hwp_caps(value: u64) -> HwpCaps {
    HwpCaps {
        highest: byte(value, 0),
        guaranteed: byte(value, 1),
        most_efficient: byte(value, 2),
        lowest: byte(value, 3),
        ..HwpCaps::default()
    }
}

/// The EPP in a CPU's `MSR_HWP_REQUEST`.
pub(crate) fn epp_of(facts: &Facts, cpu: u32) -> Option<u32> {
    facts.cpus.get(&cpu)?.msrs.get(&HWP_REQUEST).map(|&value| byte(value, 3))
}

/// The value of `MSR_HWP_CAPABILITIES` of a CPU, if HWP is there.
pub(crate) fn hwp_caps_of(facts: &Facts, cpu: u32) -> Option<HwpCaps> {
    facts.cpus.get(&cpu)?.msrs.get(&HWP_CAPABILITIES).map(|&value| hwp_caps(value))
}

/// The clock at which a CPU's TSC and MPERF count, in kHz: bits 15:8 of 0xce. `None` where the register is not known, or 0.
pub(crate) fn platform_info_khz(facts: &Facts, cpu: u32) -> Option<u32> {
    let info = facts.cpus.get(&cpu)?.msrs.get(&PLATFORM_INFO)?;
    Some(byte(*info, 1) * BUS_KHZ).filter(|&khz| khz != 0)
}

/// The highest clock of a CPU without turbo, in kHz, and the register that has it. Where the TDP has several levels it is that
/// of the level that is set (intel_pstate.c:core_get_tdp_ratio(), v6.12), which may be below that of 0xce.
pub(crate) fn base_khz(facts: &Facts, cpu: u32) -> Option<(u32, u32)> {
    let counted = platform_info_khz(facts, cpu)?;
    let get = |address: u32| facts.cpus.get(&cpu)?.msrs.get(&address).copied();
    let levels = (get(PLATFORM_INFO)? >> 33) & 0x3;
    let level = (get(CONFIG_TDP_CONTROL).unwrap_or(0) & 0x3) as u32;
    let address = CONFIG_TDP_NOMINAL + level;
    let ratio = get(address)
        .filter(|_| levels != 0 && level <= 2)
        .map_or(0, |value| byte(value, if level == 0 { 0 } else { 2 }));
    Some(if ratio == 0 { (counted, PLATFORM_INFO) } else { (ratio * BUS_KHZ, address) })
}

/// How the turbo registers are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurboForm {
    /// Byte i of 0x1ad (then 0x1ae, 0x1af) is the ratio with i + 1 active cores.
    PerCore,
    /// Byte i of 0x1ad is a ratio, byte i of 0x1ae up to how many active cores it holds.
    Groups,
    /// Knights Landing: a start value and differences, in 0x1ad.
    Deltas,
}

/// Intel models (family 6) whose 0x1ae holds ratios of 9 and more cores: Ivy Bridge-EP, Haswell-X, Broadwell-X and -D.
const MORE_RATIOS: &[u32] = &[0x3e, 0x3f, 0x4f, 0x56];

/// The layout on a model. Where the model does not decide, ascending bytes in 0x1ae are numbers of cores.
pub fn turbo_form(model: u32, limit1: Option<u64>) -> TurboForm {
    if matches!(model, 0x57 | 0x85) {
        return TurboForm::Deltas;
    }
    let Some(limit1) = limit1.filter(|&value| value != 0 && !MORE_RATIOS.contains(&model)) else {
        return TurboForm::PerCore;
    };
    let counts: Vec<u32> = (0..8).map(|index| byte(limit1, index)).filter(|&count| count != 0).collect();
    let ascending = counts.is_sorted() && (counts.len() == 1 || counts.first() < counts.last());
    if ascending { TurboForm::Groups } else { TurboForm::PerCore }
}

/// Turbo bins in kHz from the registers of one CPU, for a package of `n_cores` cores (0: unknown).
pub(crate) fn turbo_bins(
    model: u32,
    n_cores: u32,
    limit: u64,
    limit1: Option<u64>,
    limit2: Option<u64>,
) -> Vec<TurboBin> {
    let n_cores = if n_cores == 0 { u32::MAX } else { n_cores };
    let mut levels: Vec<(u32, u32)> = match turbo_form(model, limit1) {
        TurboForm::PerCore => {
            let more = MORE_RATIOS.contains(&model);
            let values = [Some(limit), limit1.filter(|_| more), limit2.filter(|_| more)];
            let bytes = values.into_iter().flatten().flat_map(|value| (0..8).map(move |index| byte(value, index)));
            // Bit 63 of the last register is a semaphore on these models.
            (1..).zip(bytes.map(|ratio| ratio & 0x7f)).filter(|&(_, ratio)| ratio != 0).collect()
        }
        TurboForm::Groups => (0..8)
            .map(|index| (byte(limit1.unwrap_or(0), index), byte(limit, index)))
            .filter(|&(cores, ratio)| cores != 0 && ratio != 0)
            .collect(),
        TurboForm::Deltas => {
            // Bits 7:1 and 15:8 are cores and ratio of the first group; each further byte adds cores (4:0) and takes
            // from the ratio (7:5).
            let (mut cores, mut ratio) = (((limit >> 1) & 0x7f) as u32, byte(limit, 1));
            let mut levels = vec![(cores, ratio)];
            for index in 2..8 {
                let step = byte(limit, index);
                cores += step & 0x1f;
                ratio = ratio.saturating_sub(step >> 5);
                levels.push((cores, ratio));
            }
            levels.retain(|&(cores, ratio)| cores != 0 && ratio != 0);
            levels
        }
    };
    levels.sort_by_key(|&(cores, _)| cores);
    let mut bins: Vec<TurboBin> = Vec::new();
    for (cores, ratio) in levels {
        let (cores, khz) = (cores.min(n_cores), ratio * BUS_KHZ);
        match bins.last_mut() {
            Some(last) if last.active_cores >= cores => {}
            Some(last) if last.khz == khz => last.active_cores = cores,
            _ => bins.push(TurboBin { active_cores: cores, khz }),
        }
    }
    bins
}

/// The turbo bins that hold for `cpu`.
pub(crate) fn turbo_of(facts: &Facts, cpu: u32) -> Vec<TurboBin> {
    let Some(of_cpu) = facts.cpus.get(&cpu) else { return Vec::new() };
    let get = |address: u32| of_cpu.msrs.get(&address).copied();
    let limits = match of_cpu.core_type {
        // Big cores have theirs in the other registers, whatever CPU they are read on.
        Some(CoreType::Atom) => [get(SECONDARY_TURBO_RATIO_LIMIT), None, None],
        Some(CoreType::LowPower) => [None; 3],
        _ => [get(TURBO_RATIO_LIMIT), get(TURBO_RATIO_LIMIT1), get(TURBO_RATIO_LIMIT2)],
    };
    let [Some(limit), limit1, limit2] = limits else { return Vec::new() };
    let model = facts.processor.as_ref().map_or(0, |processor| processor.model);
    turbo_bins(model, facts.cores_like(cpu), limit, limit1, limit2)
}

/// RAPL limits: 0x606 gives the units, 0x610 the limits, 0x614 the TDP (Intel SDM vol. 3, "RAPL interfaces").
pub(crate) fn package_power(facts: &Facts) -> Option<PackagePower> {
    let units = facts.msr(RAPL_POWER_UNIT)?;
    let (power_shift, time_shift) = (units & 0xf, (units >> 16) & 0xf);
    let power_uw = |raw: u64| ((raw & 0x7fff) * 1_000_000) >> power_shift;
    // 2^Y * (1 + Z / 4) units.
    let window_ns = |raw: u64| {
        let (y, z) = (raw & 0x1f, (raw >> 5) & 0x3);
        ((u128::from(4 + z) * (1_000_000_000u128 << y) / 4) >> time_shift).min(u128::from(u64::MAX)) as u64
    };
    let mut power = PackagePower::default();
    if let Some(info) = facts.msr(PKG_POWER_INFO) {
        power.tdp_uw = power_uw(info);
    }
    if let Some(limit) = facts.msr(PKG_POWER_LIMIT) {
        let second = limit >> 32;
        if limit & 1 << 15 != 0 {
            (power.pl1_uw, power.pl1_window_ns) = (power_uw(limit), window_ns(limit >> 17));
        }
        if second & 1 << 15 != 0 {
            (power.pl2_uw, power.pl2_window_ns) = (power_uw(second), window_ns(second >> 17));
        }
    }
    (power != PackagePower::default()).then_some(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bins(model: u32, n_cores: u32, limit: u64, limit1: Option<u64>) -> Vec<(u32, u32)> {
        let bins = turbo_bins(model, n_cores, limit, limit1, None);
        bins.iter().map(|bin| (bin.active_cores, bin.khz / 1000)).collect()
    }

    /// Goal: each layout, on register values of real machines.
    #[test]
    fn turbo_registers_decode() {
        // E5-2697 v3: a ratio a core, then more of them.
        assert_eq!(
            bins(0x3f, 14, 0x1f1f_1f20_2122_2424, Some(0x1f1f_1f1f_1f1f_1f1f)),
            [(2, 3600), (3, 3400), (4, 3300), (5, 3200), (14, 3100)]
        );
        // Platinum 8170M: groups, one of them unused.
        assert_eq!(
            bins(0x55, 26, 0x1c1c_1e21_2222_2325, Some(0x1a18_1410_0c00_0402)),
            [(2, 3700), (4, 3500), (12, 3400), (16, 3300), (20, 3000), (26, 2800)]
        );
        // D-2796NT: unused groups repeat the last one.
        assert_eq!(
            bins(0x6c, 20, 0x1919_191b_1c1d_1e1f, Some(0x1414_1412_100e_0c0a)),
            [(10, 3100), (12, 3000), (14, 2900), (16, 2800), (18, 2700), (20, 2500)]
        );
        // i7-1260P: no second register.
        assert_eq!(bins(0x9a, 12, 0x2626_2626_2628_2f2f, None), [(2, 4700), (3, 4000), (8, 3800)]);
        // Two cores; the ratios of more mean nothing.
        assert_eq!(bins(0x8e, 2, 0x2525_2528, None), [(1, 4000), (2, 3700)]);
    }

    #[test]
    fn rapl_limits_decode() {
        let mut facts = Facts::new("x", crate::facts::SourceKind::Dump, "x");
        let mut cpu = crate::facts::CpuFacts::default();
        cpu.msrs.extend([(0x606, 0xa0e03), (0x610, 0x42_828a_001b_8208), (0x614, 0x208)]);
        facts.cpus.insert(0, cpu);
        let power = package_power(&facts).expect("there are limits");
        assert_eq!((power.tdp_uw, power.pl1_uw, power.pl2_uw), (65_000_000, 65_000_000, 81_250_000));
        // As turbostat prints them: 8 s and 0.002441 s.
        assert_eq!((power.pl1_window_ns, power.pl2_window_ns), (8_000_000_000, 2_441_406));
    }
}
