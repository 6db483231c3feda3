//! turbostat: the header (what its tool decoded from the registers) and the first interval of its table (topology).

use opplab_model::machine::Processor;

use crate::error::{ImportError, shorten};
use crate::facts::{CoreType, CpuFacts, Facts, PolicyFacts, SourceKind};
use crate::msr;

/// Whether `text` looks like turbostat's output, with or without its header.
pub(crate) fn sniff(text: &str) -> bool {
    text.starts_with("turbostat version") || text.lines().take(400).any(is_table_head)
}

/// A line of column names.
fn is_table_head(line: &str) -> bool {
    let columns: Vec<&str> = line.split('\t').collect();
    columns.contains(&"CPU") && columns.contains(&"Avg_MHz")
}

/// Registers of the header by name.
const REGISTERS: &[(&str, u32)] = &[
    ("MSR_PLATFORM_INFO", 0xce),
    ("MSR_TURBO_RATIO_LIMIT", 0x1ad),
    ("MSR_TURBO_RATIO_LIMIT1", 0x1ae),
    ("MSR_TURBO_RATIO_LIMIT2", 0x1af),
    ("MSR_SECONDARY_TURBO_RATIO_LIMIT", msr::SECONDARY_TURBO_RATIO_LIMIT),
    ("MSR_CONFIG_TDP_NOMINAL", msr::CONFIG_TDP_NOMINAL),
    ("MSR_CONFIG_TDP_LEVEL_1", msr::CONFIG_TDP_NOMINAL + 1),
    ("MSR_CONFIG_TDP_LEVEL_2", msr::CONFIG_TDP_NOMINAL + 2),
    ("MSR_CONFIG_TDP_CONTROL", msr::CONFIG_TDP_CONTROL),
    ("MSR_IA32_MISC_ENABLE", 0x1a0),
    ("MSR_HWP_CAPABILITIES", 0x771),
    ("MSR_RAPL_POWER_UNIT", 0x606),
    ("MSR_PKG_POWER_LIMIT", 0x610),
    ("MSR_PKG_POWER_INFO", 0x614),
];

/// The header's facts about all CPUs.
#[derive(Default)]
struct Header {
    registers: Vec<(u32, u64)>,
    min_khz: Option<u32>,
    base_khz: Option<u32>,
    turbo_khz: Option<u32>,
    /// The cores are of several kinds.
    hybrid: bool,
    /// The lines are those of the small cores' turbo.
    secondary: bool,
    /// Turbo of the small cores.
    small_khz: Option<u32>,
    driver: Option<String>,
    governor: Option<String>,
}

/// Imports a log.
pub(crate) fn import(name: &str, file: &str, text: &str) -> Result<Facts, ImportError> {
    let mut facts = Facts::new(name, SourceKind::Turbostat, file);
    let mut header = Header::default();
    let mut processor = Processor::default();
    let mut columns: Option<Vec<&str>> = None;
    let mut cores: Vec<(u32, [u32; 3])> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let fault = |message: String| ImportError::line(file, index + 1, message);
        if is_table_head(line) {
            if columns.is_some() && !cores.is_empty() {
                break;
            }
            columns = Some(line.split('\t').collect());
            continue;
        }
        if let Some(columns) = &columns {
            match row(columns, line).map_err(fault)? {
                Some((cpu, _)) if cores.iter().any(|(known, _)| *known == cpu) => break,
                Some(place) => cores.push(place),
                None => {}
            }
            continue;
        }
        header_line(line, &mut header, &mut processor, &mut facts).map_err(fault)?;
    }
    let siblings_of = |place: [u32; 3]| -> Vec<u32> {
        cores.iter().filter(|(_, other)| *other == place).map(|(other, _)| *other).collect()
    };
    let has_threads = cores.iter().any(|&(_, place)| siblings_of(place).len() > 1);
    if header.hybrid {
        facts.notes.push(match has_threads {
            true => "the processor is a hybrid one: cores of two threads are taken for the big ones, the others for the small".to_owned(),
            false => "the processor is a hybrid one, and the log does not show which cores are small: all are taken for big ones".to_owned(),
        });
    }
    let has_platform_info = header.registers.iter().any(|&(address, _)| address == msr::PLATFORM_INFO);
    if header.base_khz.is_some() && !has_platform_info {
        facts.tell("base_khz", "base frequency");
    }
    for &(cpu, place) in &cores {
        let siblings = siblings_of(place);
        let kind = if siblings.len() > 1 { CoreType::Core } else { CoreType::Atom };
        let core_type = (header.hybrid && has_threads).then_some(kind);
        let mut of_cpu = CpuFacts { core: Some(siblings), package: Some(place[0]), core_type, ..CpuFacts::default() };
        let is_small = core_type == Some(CoreType::Atom);
        // The header has the first CPU's registers; those of clocks and performance levels are of its kind of core.
        let holds = |address: u32| !is_small || !msr::OF_ITS_KIND.contains(&address);
        of_cpu.msrs.extend(header.registers.iter().copied().filter(|&(address, _)| holds(address)));
        facts.cpus.insert(cpu, of_cpu);
        let own = if is_small { header.small_khz.or(header.turbo_khz) } else { header.turbo_khz };
        let max = own.max(header.base_khz);
        let policy = PolicyFacts {
            id: cpu,
            cpus: vec![cpu],
            driver: header.driver.clone(),
            governor: header.governor.clone(),
            min_khz: header.min_khz,
            max_khz: max,
            // Of a log without its register.
            base_khz: header.base_khz.filter(|_| !is_small && !has_platform_info),
            ..PolicyFacts::default()
        };
        facts.policies.insert(cpu, policy);
    }
    if !cores.is_empty() {
        for what in ["cpus", "core", "package"] {
            facts.tell(what, format!("{file}: table"));
        }
    }
    if !processor.vendor.is_empty() {
        facts.processor = Some(processor);
        facts.tell("processor", format!("{file}: CPUID(0), CPUID(1)"));
    }
    facts.package_power = msr::package_power(&facts);
    if facts.package_power.is_some() {
        facts.tell("package_power", format!("{file}: MSR_PKG_POWER_LIMIT, MSR_PKG_POWER_INFO"));
    }
    Ok(facts)
}

/// A row of the table: the CPU and its (package, die, core). `None` for summary rows and lines between tables.
fn row(columns: &[&str], line: &str) -> Result<Option<(u32, [u32; 3])>, String> {
    if !line.contains('\t') {
        return Ok(None);
    }
    let cells: Vec<&str> = line.split('\t').collect();
    if cells.len() > columns.len() {
        return Err(format!("{} columns, but the head has {}", cells.len(), columns.len()));
    }
    let cell = |name: &str| -> Result<Option<u32>, String> {
        let Some(at) = columns.iter().position(|column| *column == name) else { return Ok(Some(0)) };
        match cells.get(at).copied().unwrap_or("").trim() {
            "-" => Ok(None),
            // Columns of the package are left out in rows of other CPUs, but those of places never are.
            words => words.parse().map(Some).map_err(|_| format!("{name}: `{}` is not a number", shorten(words))),
        }
    };
    let (Some(cpu), Some(core)) = (cell("CPU")?, cell("Core")?) else { return Ok(None) };
    Ok(Some((cpu, [cell("Package")?.unwrap_or(0), cell("Die")?.unwrap_or(0), core])))
}

fn header_line(line: &str, header: &mut Header, processor: &mut Processor, facts: &mut Facts) -> Result<(), String> {
    let hex = |words: &str| -> Result<u64, String> {
        let digits = words.split_ascii_whitespace().next().unwrap_or("").trim_start_matches("0x");
        u64::from_str_radix(digits, 16).map_err(|_| format!("`{}` is not a hexadecimal number", shorten(words)))
    };
    if let Some(rest) = line.strip_prefix("CPUID(0): ") {
        processor.vendor = rest.split(' ').next().unwrap_or("").to_owned();
    } else if let Some(rest) = line.strip_prefix("CPUID(1): family:model:stepping ") {
        // 0x6:47:1 (6:71:1): the second form is decimal.
        let mut numbers = rest.split(' ').next().unwrap_or("").split(':');
        let mut next = || hex(numbers.next().unwrap_or("")).map(|number| number as u32);
        (processor.family, processor.model, processor.stepping) = (next()?, next()?, next()?);
    } else if let Some(rest) = line.strip_prefix("CPUID(6): ") {
        for (word, flag) in [("APERF", "aperfmperf"), ("HWP", "hwp"), ("EPB", "epb")] {
            if rest.split([',', ' ']).any(|known| known == word) {
                facts.flags.push(flag.to_owned());
            }
        }
        facts.tell("flags", "CPUID(6)");
    } else if let Some((words, what)) = line.split_once(" MHz ") {
        // `34 * 100.0 = 3400.0 MHz base frequency`
        let mhz = words.rsplit("= ").next().and_then(|words| words.trim().parse::<f64>().ok());
        let khz = mhz.filter(|mhz| (0.0..100_000.0).contains(mhz)).map(|mhz| (mhz * 1000.0).round() as u32);
        match what {
            "max efficiency frequency" => header.min_khz = khz,
            "base frequency" => header.base_khz = khz,
            _ if what.starts_with("max turbo") && header.secondary => header.small_khz = header.small_khz.max(khz),
            _ if what.starts_with("max turbo") => {
                header.turbo_khz = header.turbo_khz.max(khz);
                facts.tell("cpuinfo_max_freq", what);
            }
            _ => {}
        }
    } else if let Some(rest) = line.strip_prefix("CPUID(7): ") {
        header.hybrid = rest.split_ascii_whitespace().any(|word| word == "Hybrid");
    } else if let Some(rest) = line.strip_prefix("cpufreq intel_pstate no_turbo: ") {
        facts.no_turbo = Some(rest.trim() != "0");
    } else if let Some(rest) = line.strip_prefix("cpufreq boost: ") {
        facts.boost = Some(rest.trim() != "0");
    } else if let Some(rest) = line.strip_prefix("current_driver: ") {
        facts.idle_driver = Some(rest.trim().to_owned());
    } else if let Some(rest) = line.strip_prefix("current_governor: ") {
        facts.idle_governor = Some(rest.trim().to_owned());
    } else if let Some((cpu, rest)) = line.split_once(": ") {
        if !cpu.starts_with("cpu") {
            return Ok(());
        }
        header.secondary = rest.starts_with("MSR_SECONDARY_TURBO_RATIO_LIMIT");
        if let Some(driver) = rest.strip_prefix("cpufreq driver: ") {
            header.driver.get_or_insert_with(|| driver.trim().to_owned());
            facts.tell("driver", "cpufreq driver");
        } else if let Some(governor) = rest.strip_prefix("cpufreq governor: ") {
            header.governor.get_or_insert_with(|| governor.trim().to_owned());
        } else if let Some((name, value)) = rest.split_once(": ")
            && let Some(&(_, address)) = REGISTERS.iter().find(|(known, _)| *known == name)
        {
            let value = hex(value)?;
            if !header.registers.iter().any(|(known, _)| *known == address) {
                header.registers.push((address, value));
                facts.tell(&format!("msr.{address:#x}"), name);
            }
        }
    }
    Ok(())
}
