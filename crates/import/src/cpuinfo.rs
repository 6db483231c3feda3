//! `/proc/cpuinfo` of x86: the processor, its flags, and the topology where sysfs lacks it.

use opplab_model::machine::Processor;

use crate::error::{ImportError, shorten};
use crate::facts::Facts;

/// One block of the file.
#[derive(Default)]
struct Block {
    cpu: Option<u32>,
    physical_id: Option<u32>,
    core_id: Option<u32>,
}

/// Flags that something depends on.
const FLAGS: &[&str] =
    &["aperfmperf", "hwp", "hwp_epp", "epb", "ida", "cpb", "cppc", "hypervisor", "hybrid_cpu", "constant_tsc"];

/// Reads `text`, called `file`, into `facts`: CPUs that it lists and `facts` does not know are ignored.
pub(crate) fn read(file: &str, text: &str, facts: &mut Facts) -> Result<(), ImportError> {
    let mut processor = Processor::default();
    let mut saw_model = false;
    let mut blocks: Vec<Block> = Vec::new();
    let mut block = Block::default();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_matches('\0');
        let Some((key, value)) = line.split_once(':') else {
            if !line.trim().is_empty() {
                return Err(ImportError::line(file, index + 1, format!("`{}` is not `key : value`", shorten(line))));
            }
            continue;
        };
        let (key, value) = (key.trim(), value.trim());
        let number = || -> Result<u32, ImportError> {
            value
                .parse()
                .map_err(|_| ImportError::line(file, index + 1, format!("{key}: `{}` is not a number", shorten(value))))
        };
        match key {
            "processor" => {
                // ARM's file starts with a name of the same key.
                let Ok(cpu) = value.parse() else { continue };
                if block.cpu.is_some() {
                    blocks.push(std::mem::take(&mut block));
                }
                block.cpu = Some(cpu);
            }
            "vendor_id" => processor.vendor = value.to_owned(),
            // Other architectures have names of boards there, and no vendor before them.
            "cpu family" if !processor.vendor.is_empty() => processor.family = number()?,
            "model" if !saw_model && !processor.vendor.is_empty() => {
                processor.model = number()?;
                saw_model = true;
            }
            "model name" => processor.model_name = value.to_owned(),
            "stepping" => processor.stepping = value.parse().unwrap_or(0),
            "cpu MHz" if facts.cpu_mhz_khz.is_none() => {
                let mhz = value.parse::<f64>().ok().filter(|mhz| (1.0..100_000.0).contains(mhz));
                facts.cpu_mhz_khz = mhz.map(|mhz| (mhz * 1000.0).round() as u32);
            }
            // POWER and LoongArch, which have no arch_scale_freq_capacity() (v6.12).
            "timebase" => facts.scales_frequency = false,
            "ISA" | "isa" if value.contains("loongarch") => facts.scales_frequency = false,
            "physical id" => block.physical_id = Some(number()?),
            "core id" => block.core_id = Some(number()?),
            "flags" if facts.flags.is_empty() => {
                let has = |flag: &&&str| value.split_ascii_whitespace().any(|word| word == **flag);
                facts.flags = FLAGS.iter().filter(has).map(|&flag| flag.to_owned()).collect();
                facts.tell("flags", format!("{file}: flags"));
            }
            _ => {}
        }
    }
    blocks.push(block);
    if saw_model {
        facts.tell("processor", format!("{file}: vendor_id, cpu family, model, stepping, model name"));
        facts.processor = Some(processor);
    }
    let listed = blocks.iter().filter(|block| block.cpu.is_some()).count();
    if listed == 0 {
        return Ok(());
    }
    for (&cpu, facts_of_cpu) in &facts.cpus {
        if !blocks.iter().any(|block| block.cpu == Some(cpu)) {
            let message = format!("CPU {cpu} is online but missing here ({listed} CPUs are listed)");
            let _ = facts_of_cpu;
            return Err(ImportError::whole(file, message));
        }
    }
    // Siblings are those with the same package and core.
    for block in &blocks {
        let (Some(cpu), Some(package)) = (block.cpu, block.physical_id) else { continue };
        let Some(core) = block.core_id else { continue };
        let siblings: Vec<u32> = blocks
            .iter()
            .filter(|other| other.physical_id == Some(package) && other.core_id == Some(core))
            .filter_map(|other| other.cpu)
            .collect();
        let Some(of_cpu) = facts.cpus.get_mut(&cpu) else { continue };
        of_cpu.package.get_or_insert(package);
        if of_cpu.core.is_none() {
            of_cpu.core = Some(siblings);
        }
    }
    if blocks.iter().any(|block| block.physical_id.is_some()) {
        facts.tell("package", format!("{file}: physical id"));
        facts.tell("core", format!("{file}: core id"));
    }
    Ok(())
}
