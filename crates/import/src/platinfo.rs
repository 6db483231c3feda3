//! LISA's and TRAPpy's `plat_info.yml`: frequency domains, frequencies and capacities under `platform-info: conf:`.
//!
//! The file is read event by event: Python tags mean nothing here, and anchors are not expanded. The `nrg-model` of old
//! files is in units of its own: it is not read, and a note has that.

use std::collections::BTreeMap;

use yaml_rust2::parser::{Event, Parser};

use crate::error::{ImportError, shorten};
use crate::facts::{CpuFacts, Facts, OppFacts, PolicyFacts, SourceKind};

/// Deepest nesting that is followed.
const DEPTH_MAX: usize = 64;
/// Most CPUs that a file may name.
const CPU_MAX: u32 = 4096;

/// Whether `text` looks like such a file.
pub(crate) fn sniff(text: &str) -> bool {
    text.lines().take(200).any(|line| line.trim_start().starts_with("platform-info:"))
}

/// A scalar, the keys and indexes that lead to it, and its line.
struct Leaf {
    path: Vec<String>,
    value: String,
    line: usize,
}

/// Where the reader stands inside a collection.
enum Level {
    Sequence(usize),
    /// The key, once it was read.
    Mapping(Option<String>),
}

/// Parts that are read, below `platform-info.conf`.
const PARTS: &[&str] = &["name", "cpus-count", "freq-domains", "freqs", "cpu-capacities"];

fn leaves(file: &str, text: &str) -> Result<Vec<Leaf>, ImportError> {
    let mut parser = Parser::new_from_str(text);
    let mut levels: Vec<Level> = Vec::new();
    let mut found = Vec::new();
    loop {
        let (event, mark) = parser
            .next_token()
            .map_err(|error| ImportError::line(file, error.marker().line(), format!("not YAML: {}", error.info())))?;
        let line = mark.line();
        // A value, or the key of a mapping.
        let scalar = match event {
            Event::StreamEnd => return Ok(found),
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                if levels.len() >= DEPTH_MAX {
                    return Err(ImportError::line(file, line, format!("nested more than {DEPTH_MAX} deep")));
                }
                if let Some(Level::Mapping(key @ None)) = levels.last_mut() {
                    // A collection as a key, as Python's tuples are written.
                    *key = Some("?".to_owned());
                    levels.push(if matches!(event, Event::SequenceStart(..)) {
                        Level::Sequence(usize::MAX)
                    } else {
                        Level::Mapping(None)
                    });
                    continue;
                }
                levels.push(if matches!(event, Event::SequenceStart(..)) {
                    Level::Sequence(0)
                } else {
                    Level::Mapping(None)
                });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let closed = levels.pop();
                if !matches!(closed, Some(Level::Sequence(usize::MAX))) {
                    next(&mut levels);
                }
                continue;
            }
            Event::Scalar(value, ..) => Some(value),
            Event::Alias(_) => None,
            _ => continue,
        };
        if let Some(Level::Mapping(key @ None)) = levels.last_mut() {
            *key = Some(scalar.unwrap_or_default());
            continue;
        }
        if let Some(value) = scalar {
            let path: Vec<String> = levels.iter().map(name).collect();
            if path.len() >= 3 && path[0] == "platform-info" && path[1] == "conf" && PARTS.contains(&path[2].as_str()) {
                found.push(Leaf { path, value, line });
            }
        }
        next(&mut levels);
    }
}

fn name(level: &Level) -> String {
    match level {
        Level::Sequence(index) => index.to_string(),
        Level::Mapping(key) => key.clone().unwrap_or_default(),
    }
}

/// A value of the innermost collection is complete.
fn next(levels: &mut [Level]) {
    match levels.last_mut() {
        Some(Level::Sequence(index)) => *index = index.saturating_add(1).min(usize::MAX - 1),
        Some(Level::Mapping(key)) => *key = None,
        None => {}
    }
}

/// Imports the file.
pub(crate) fn import(name: &str, file: &str, text: &str) -> Result<Facts, ImportError> {
    let mut facts = Facts::new(name, SourceKind::PlatInfo, file);
    let mut domains: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut freqs: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut capacities: BTreeMap<u32, u32> = BTreeMap::new();
    let mut count: Option<u32> = None;
    if text.lines().any(|line| line.trim_start().starts_with("nrg-model:")) {
        facts.notes.push("nrg-model is not read: its powers have no unit, its idle states no latencies".to_owned());
    }
    for leaf in leaves(file, text)? {
        let number = |words: &str| -> Result<u32, ImportError> {
            let bad = || ImportError::line(file, leaf.line, format!("`{}` is not a number", shorten(words)));
            words.trim().parse().map_err(|_| bad())
        };
        let below_max = |number: u32| -> Result<u32, ImportError> {
            let message = format!("{number} is beyond any CPU (at most {CPU_MAX})");
            if number > CPU_MAX { Err(ImportError::line(file, leaf.line, message)) } else { Ok(number) }
        };
        let path: Vec<&str> = leaf.path.iter().map(String::as_str).collect();
        match path[2..] {
            ["name"] => leaf.value.clone_into(&mut facts.name),
            ["cpus-count"] => count = Some(below_max(number(&leaf.value)?)?),
            ["freq-domains", domain, _] => {
                domains.entry(number(domain)?).or_default().push(below_max(number(&leaf.value)?)?);
            }
            ["freqs", key, _] => freqs.entry(below_max(number(key)?)?).or_default().push(number(&leaf.value)?),
            ["cpu-capacities", "orig", cpu] | ["cpu-capacities", cpu] if cpu.bytes().all(|b| b.is_ascii_digit()) => {
                capacities.insert(below_max(number(cpu)?)?, number(&leaf.value)?);
            }
            _ => continue,
        }
        let place = format!("{file}:{}", leaf.line);
        facts.tell(leaf.path[2].as_str(), place);
    }
    let listed = domains.values().flatten().copied().chain(capacities.keys().copied());
    let count = count.or_else(|| listed.max().map(|last| last + 1));
    let Some(count) = count.filter(|&count| count > 0 && count <= CPU_MAX) else {
        return Err(ImportError::whole(file, "neither cpus-count nor freq-domains lists the CPUs"));
    };
    facts.cpus = (0..count)
        .map(|cpu| (cpu, CpuFacts { capacity: capacities.get(&cpu).copied(), ..CpuFacts::default() }))
        .collect();
    if domains.is_empty() {
        domains = (0..count).map(|cpu| (cpu, vec![cpu])).collect();
    }
    // Old files number the frequencies by domain, newer ones by CPU.
    let by_domain = freqs.len() == domains.len() && freqs.keys().copied().eq(0..domains.len() as u32);
    let mut owner: BTreeMap<u32, u32> = BTreeMap::new();
    for (&domain, cpus) in &domains {
        let mut cpus: Vec<u32> = cpus.clone();
        cpus.sort_unstable();
        cpus.dedup();
        let Some(&first) = cpus.first() else { continue };
        for &cpu in &cpus {
            if cpu >= count {
                let message = format!("CPU {cpu} of freq-domains does not exist: cpus-count is {count}");
                return Err(ImportError::whole(file, message));
            }
            if owner.insert(cpu, domain).is_some() {
                return Err(ImportError::whole(file, format!("CPU {cpu} is in two freq-domains")));
            }
        }
        let mut khz = freqs.get(if by_domain { &domain } else { &first }).cloned().unwrap_or_default();
        khz.sort_unstable();
        khz.dedup();
        facts.policies.insert(
            first,
            PolicyFacts {
                id: first,
                cpus,
                min_khz: khz.first().copied(),
                max_khz: khz.last().copied(),
                opps: khz.iter().map(|&khz| OppFacts { khz, ..OppFacts::default() }).collect(),
                ..PolicyFacts::default()
            },
        );
    }
    Ok(facts)
}
