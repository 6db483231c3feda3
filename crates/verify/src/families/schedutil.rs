//! Families of vectors: schedutil and frequency tables.

use opplab_kernel::cpufreq::freq_table::{self, FreqEntry, FreqLimits, FreqTable, Relation, TableOrder};

use crate::json::Json;
use crate::{Diff, Family, Source, Tally, VerifyError};

/// The families of this module.
pub const FAMILIES: &[Family] = &[Family { name: "freq_table", run: freq_table }];

fn freq_table(source: &Source, tally: &mut Tally) -> Result<(), VerifyError> {
    for (line, value) in source.json_lines()? {
        let json = Json::new(source, line, &value);
        let (boost, inefficient) = (json.get("boost")?.list::<u64>()?, json.get("inefficient")?.list::<u64>()?);
        let mut entries = Vec::new();
        for (index, freq) in json.get("freqs")?.list::<i64>()?.into_iter().enumerate() {
            entries.push(FreqEntry {
                freq_khz: u32::try_from(freq).unwrap_or(freq_table::CPUFREQ_ENTRY_INVALID),
                inefficient: inefficient.get(index).is_some_and(|&flag| flag != 0),
                boost: boost.get(index).is_some_and(|&flag| flag != 0),
            });
        }
        let table = FreqTable::new(entries, json.get("efficiencies_available")?.flag()?)
            .map_err(|error| source.error(line, error.to_string()))?;
        let cpuinfo = FreqLimits { min_khz: json.get("cpuinfo_min")?.num()?, max_khz: json.get("cpuinfo_max")?.num()? };
        let mut diff = Diff::default();
        let order = match table.order() {
            TableOrder::Unsorted => 0,
            TableOrder::Ascending => 1,
            TableOrder::Descending => 2,
        };
        diff.eq("sorted", json.get("sorted")?.num::<u32>()?, order);
        diff.eq("cpuinfo", Some(cpuinfo), table.cpuinfo(json.get("boost_enabled")?.flag()?));
        tally.case(|| json.place(), diff.finish());

        for (number, query) in json.get("queries")?.items()?.enumerate() {
            let columns = query.list::<u64>()?;
            let &[
                req_min,
                req_max,
                verified_min,
                verified_max,
                policy_min,
                policy_max,
                target,
                relation,
                index,
                resolve_freq,
            ] = columns.as_slice()
            else {
                return Err(source.error(line, format!("query {number} has not 10 columns")));
            };
            let verified = table.verify(limits(req_min, req_max), cpuinfo);
            let policy = freq_table::set_policy_limits(Some(&table), verified);
            let kind = match relation & 3 {
                0 => Relation::L,
                1 => Relation::H,
                _ => Relation::C,
            };
            let target = target as u32;
            let mut diff = Diff::default();
            diff.eq("verified", limits(verified_min, verified_max), verified)
                .eq("policy", limits(policy_min, policy_max), policy)
                .eq("index", index, table.target_index(target, policy, kind, relation & 4 != 0).unwrap_or(0) as u64)
                .eq("resolve_freq", resolve_freq as u32, table.resolve(target, policy, Relation::L, true));
            tally.case(|| format!("{} query {number}", json.place()), diff.finish());
        }
    }
    Ok(())
}

fn limits(min: u64, max: u64) -> FreqLimits {
    FreqLimits { min_khz: min as u32, max_khz: max as u32 }
}
