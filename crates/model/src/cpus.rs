//! Sets of CPUs, as files and the kernel write them: `0,3-5`.

use crate::error::{Fault, Pos, shorten};
use crate::tree::{Node, Value};

/// Most CPUs of a machine.
pub const NR_CPUS_MAX: usize = 4096;

/// A set of CPUs by index, in ascending order without repeats.
pub type CpuList = Vec<u32>;

/// Reads a CPU list such as `0,3-5`. Order is free, repeats are not.
///
/// # Errors
/// What is wrong with it, at `at`.
pub fn parse_cpu_list(text: &str, at: Pos) -> Result<CpuList, Fault> {
    let bad = |why: &str| Fault::new(at, format!("`{}` is not a CPU list: {why}", shorten(text)));
    let mut cpus: CpuList = Vec::new();
    for part in text.split(',') {
        let part = part.trim();
        let number = |digits: &str| -> Result<u32, Fault> {
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return Err(bad("write it like `0,3-5`"));
            }
            let cpu: u32 = digits.parse().map_err(|_| bad("a number is too large"))?;
            if cpu as usize >= NR_CPUS_MAX { Err(bad("a number is too large")) } else { Ok(cpu) }
        };
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first.trim())?, number(last.trim())?),
            None => (number(part)?, number(part)?),
        };
        if first > last {
            return Err(bad("a range runs backwards"));
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    if let Some(pair) = cpus.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(bad(&format!("CPU {} is in it twice", pair[0])));
    }
    Ok(cpus)
}

/// Writes a CPU list as `0,3-5`.
pub fn format_cpu_list(cpus: &[u32]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut index = 0;
    while index < cpus.len() {
        let mut end = index;
        while end + 1 < cpus.len() && cpus[end + 1] == cpus[end] + 1 {
            end += 1;
        }
        parts.push(if end > index { format!("{}-{}", cpus[index], cpus[end]) } else { cpus[index].to_string() });
        index = end + 1;
    }
    parts.join(",")
}

/// A CPU list as a node: a string as above, or a list of numbers.
pub(crate) fn cpus_from(node: &Node, what: &str) -> Result<CpuList, Fault> {
    let cpus = match &node.value {
        Value::List(items) => {
            let mut cpus: CpuList =
                items.iter().map(|item| item.as_int(what, 0, NR_CPUS_MAX as i128 - 1)).collect::<Result<_, _>>()?;
            cpus.sort_unstable();
            if let Some(pair) = cpus.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(Fault::new(node.at, format!("`{what}` has CPU {} twice", pair[0])));
            }
            cpus
        }
        Value::Int(_) => vec![node.as_int(what, 0, NR_CPUS_MAX as i128 - 1)?],
        _ => parse_cpu_list(node.as_str(what)?, node.at)?,
    };
    if cpus.is_empty() {
        return Err(Fault::new(node.at, format!("`{what}` is empty")));
    }
    Ok(cpus)
}
