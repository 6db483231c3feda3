//! Perfetto Wattson's power curves: `cpu_1d.csv` (policy and frequency) and `cpu_2d.csv` (and another policy's
//! frequency, on which static and interconnect power depend). Powers in mW; `active` is one busy CPU.
//!
//! Of the second table the rows with the lowest other frequency are taken: the CPUs' own part. What the other rows have of the
//! same frequency is the range of the power. How many CPUs a policy
//! has is unknown; a policy's number is its first CPU, so all but the last follow from the next one's number.

use std::collections::BTreeMap;

use crate::error::{ImportError, shorten};
use crate::facts::{CpuFacts, Facts, IdleFacts, OppFacts, PolicyFacts, PowerPoint, SourceKind};

/// Whether `text` is one of the tables.
pub(crate) fn sniff(text: &str) -> bool {
    text.starts_with("device,policy,freq_khz,")
}

/// By policy and frequency.
type Points = BTreeMap<(u32, u32), Point>;

/// The power at a frequency.
struct Point {
    /// The other policy's frequency, the lowest of all rows.
    dependent: u64,
    own: PowerPoint,
    /// Of one busy CPU, in all rows.
    least_uw: u64,
    most_uw: u64,
}

/// Imports one or both tables, as (file, text).
pub(crate) fn import(name: &str, source: &str, tables: &[(String, String)]) -> Result<Facts, ImportError> {
    let mut facts = Facts::new(name, SourceKind::Wattson, source);
    let mut points = Points::new();
    for (file, text) in tables {
        table(file, text, &mut facts, &mut points)?;
    }
    if points.is_empty() {
        return Err(ImportError::whole(source, "no power of any frequency is in it"));
    }
    for (&(policy, khz), point) in &points {
        let share = |uw: u64| (uw * 100).checked_div(point.own.active_uw).unwrap_or(100) as u32;
        let (low, high) = (share(point.least_uw), share(point.most_uw));
        if point.least_uw == point.most_uw {
            continue;
        }
        let known = facts.power_percent.entry(policy).or_insert((100, 100));
        *known = (known.0.min(low.max(1)), known.1.max(high));
        let note = format!(
            "policy {policy}: power is at the lowest clock of the other policies; their clocks move it (at {} MHz {:.1} to {:.1} mW)",
            khz / 1000,
            point.least_uw as f64 / 1e3,
            point.most_uw as f64 / 1e3,
        );
        if !facts.notes.iter().any(|known| known.starts_with(&format!("policy {policy}: power"))) {
            facts.notes.push(note);
        }
    }
    facts.power = points.into_values().map(|point| point.own).collect();
    let mut ids: Vec<u32> = facts.power.iter().map(|point| point.policy).collect();
    ids.dedup();
    for (index, &id) in ids.iter().enumerate() {
        let end = ids.get(index + 1).copied().unwrap_or_else(|| (id + 1).max(8)).clamp(id + 1, id + 64);
        if index + 1 == ids.len() {
            facts.notes.push(format!(
                "policy {id} is taken to have CPUs {id}-{}: phones have 8, the file lacks the number",
                end - 1
            ));
        }
        for cpu in id..end {
            // Two idle states, of which only the powers are known.
            let state = |name: &str, latency_ns: u64, residency_ns: u64| IdleFacts {
                name: name.to_owned(),
                entry_latency_ns: 0,
                latency_ns,
                residency_ns,
                disabled: false,
            };
            let idle = vec![state("WFI", 1_000, 1_000), state("idle1", 300_000, 2_000_000)];
            facts.cpus.insert(cpu, CpuFacts { idle, ..CpuFacts::default() });
        }
        let opps: Vec<OppFacts> = facts
            .power
            .iter()
            .filter(|point| point.policy == id)
            .map(|point| OppFacts { khz: point.khz, power_uw: point.active_uw, ..OppFacts::default() })
            .collect();
        facts.policies.insert(
            id,
            PolicyFacts {
                id,
                cpus: (id..end).collect(),
                min_khz: opps.first().map(|opp| opp.khz),
                max_khz: opps.last().map(|opp| opp.khz),
                opps,
                ..PolicyFacts::default()
            },
        );
    }
    facts
        .notes
        .push("latencies of the idle states are assumed (1 us, 300 us), their powers are in the file".to_owned());
    Ok(facts)
}

fn table(file: &str, text: &str, facts: &mut Facts, points: &mut Points) -> Result<(), ImportError> {
    let mut lines = text.lines().enumerate();
    let head: Vec<&str> = lines.next().map_or_else(Vec::new, |(_, line)| line.split(',').collect());
    let column = |name: &str| {
        head.iter()
            .position(|known| *known == name)
            .ok_or_else(|| ImportError::line(file, 1, format!("there is no column `{name}`")))
    };
    let (device, policy, khz) = (column("device")?, column("policy")?, column("freq_khz")?);
    let powers = [column("static")?, column("active")?, column("idle0")?, column("idle1")?];
    let other = head.iter().position(|known| *known == "dep_freq");
    for (index, line) in lines {
        if line.trim().is_empty() {
            continue;
        }
        let fault = |message: String| ImportError::line(file, index + 1, message);
        let cells: Vec<&str> = line.split(',').collect();
        if cells.len() != head.len() {
            return Err(fault(format!("{} cells, but the head has {}", cells.len(), head.len())));
        }
        let whole = |at: usize| -> Result<u32, ImportError> {
            let words = cells[at].trim();
            words.parse().map_err(|_| fault(format!("{}: `{}` is not a whole number", head[at], shorten(words))))
        };
        let uw = |at: usize| -> Result<u64, ImportError> {
            let words = cells[at].trim();
            let mw: f64 =
                words.parse().map_err(|_| fault(format!("{}: `{}` is not a number", head[at], shorten(words))))?;
            if !(0.0..1e6).contains(&mw) {
                return Err(fault(format!("{}: {mw} mW is no power of a CPU", head[at])));
            }
            Ok((mw * 1000.0).round() as u64)
        };
        if facts.power.is_empty() && points.is_empty() {
            facts.name = cells[device].trim().to_owned();
        }
        let key = (whole(policy)?, whole(khz)?);
        if key.0 >= 4096 {
            return Err(fault(format!("policy {} is beyond any CPU", key.0)));
        }
        let dependent = u64::from(other.map(whole).transpose()?.unwrap_or(0));
        let point = PowerPoint {
            policy: key.0,
            khz: key.1,
            static_uw: uw(powers[0])?,
            active_uw: uw(powers[1])?,
            idle0_uw: uw(powers[2])?,
            idle1_uw: uw(powers[3])?,
        };
        let (least_uw, most_uw) = (point.active_uw, point.active_uw);
        let known = points.entry(key).or_insert(Point { dependent, own: point, least_uw, most_uw });
        if dependent < known.dependent {
            (known.dependent, known.own) = (dependent, point);
        }
        (known.least_uw, known.most_uw) = (known.least_uw.min(least_uw), known.most_uw.max(most_uw));
    }
    for (what, columns) in [("power", "static, active, idle0, idle1"), ("opps", "policy, freq_khz"), ("cpus", "policy")]
    {
        facts.tell_too(what, &format!("{file}: {columns}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::import;

    /// Powers of a note are rounded: 29.55 to 88.99 mW were "29 to 88 mW".
    #[test]
    fn notes_round_powers() {
        let head = "device,policy,freq_khz,dep_policy,dep_freq,static,active,idle0,idle1";
        let text = format!("{head}\nchip,0,300000,4,400000,1,29.55,1,0\nchip,0,300000,4,2000000,1,88.99,1,0\n");
        let facts = import("chip", "f", &[("cpu_2d.csv".to_owned(), text)]).unwrap_or_else(|error| panic!("{error}"));
        assert!(facts.notes.iter().any(|note| note.ends_with("(at 300 MHz 29.6 to 89.0 mW)")), "{:?}", facts.notes);
    }
}
