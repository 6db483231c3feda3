//! Frequency tables and policy limits (drivers/cpufreq/freq_table.c, include/linux/cpufreq.h, drivers/cpufreq/cpufreq.c;
//! v6.12).
//!
//! A driver that can only set certain frequencies has a table; requests are resolved to one of its entries by a
//! [`Relation`]. The indices that come out count the table's entries as given, invalid ones included. What sets the
//! frequency is not here.

/// The frequency of an entry that is to be ignored (include/linux/cpufreq.h: CPUFREQ_ENTRY_INVALID).
pub const CPUFREQ_ENTRY_INVALID: u32 = u32::MAX;

/// One entry of a table (include/linux/cpufreq.h: struct cpufreq_frequency_table).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreqEntry {
    /// The frequency in kHz, or [`CPUFREQ_ENTRY_INVALID`].
    pub freq_khz: u32,
    /// `CPUFREQ_INEFFICIENT_FREQ`: a higher frequency costs no more energy for the same work.
    pub inefficient: bool,
    /// `CPUFREQ_BOOST_FREQ`: counts for the hardware limits only while boost is enabled.
    pub boost: bool,
}

impl FreqEntry {
    /// A plain frequency.
    pub const fn new(freq_khz: u32) -> Self {
        Self { freq_khz, inefficient: false, boost: false }
    }
}

/// How a table is ordered (include/linux/cpufreq.h: enum cpufreq_table_sorting).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableOrder {
    /// Neither; searches look at every entry and at the limits.
    Unsorted,
    /// Ascending frequencies.
    Ascending,
    /// Descending frequencies; a table with one entry counts as descending.
    Descending,
}

/// Which entry stands for a target frequency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// `CPUFREQ_RELATION_L`: the lowest at or above the target, else the highest.
    L,
    /// `CPUFREQ_RELATION_H`: the highest at or below the target, else the lowest.
    H,
    /// `CPUFREQ_RELATION_C`: the closest. A tie goes to the lower frequency of an ascending table, to the higher one of
    /// other tables.
    C,
}

/// The lowest and the highest frequency that are allowed, in kHz.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreqLimits {
    /// Lowest.
    pub min_khz: u32,
    /// Highest; wins where it is below the lowest.
    pub max_khz: u32,
}

impl FreqLimits {
    /// `khz` within the limits (linux/minmax.h: clamp; the upper limit is applied last).
    #[inline]
    pub fn clamp(&self, khz: u32) -> u32 {
        khz.max(self.min_khz).min(self.max_khz)
    }

    /// True if `khz` is within the limits (include/linux/cpufreq.h:cpufreq_is_in_limits()).
    #[inline]
    pub fn contains(&self, khz: u32) -> bool {
        self.min_khz <= khz && khz <= self.max_khz
    }

    /// These limits narrowed to `outer` (include/linux/cpufreq.h:cpufreq_verify_within_limits(), v6.12).
    pub fn verify_within(self, outer: FreqLimits) -> FreqLimits {
        let mut limits = self;
        limits.min_khz = limits.min_khz.max(outer.min_khz);
        limits.max_khz = limits.max_khz.max(outer.min_khz);
        limits.min_khz = limits.min_khz.min(outer.max_khz);
        limits.max_khz = limits.max_khz.min(outer.max_khz);
        limits.min_khz = limits.min_khz.min(limits.max_khz);
        limits
    }
}

/// Why a table is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FreqTableError {
    /// Two neighbouring valid entries have the same frequency, in kHz
    /// (drivers/cpufreq/freq_table.c:set_freq_table_sorted() refuses them).
    Duplicate(u32),
    /// No entry is valid.
    Empty,
}

impl core::fmt::Display for FreqTableError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Duplicate(khz) => write!(f, "{khz} kHz is twice in the frequency table"),
            Self::Empty => write!(f, "the frequency table has no valid entry"),
        }
    }
}

impl core::error::Error for FreqTableError {}

/// A checked table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreqTable {
    entries: Vec<FreqEntry>,
    order: TableOrder,
    efficiencies_available: bool,
    /// Valid entries by ascending frequency, for sorted tables: (kHz, index).
    all: Vec<(u32, usize)>,
    /// Those of `all` that are not inefficient.
    efficient: Vec<(u32, usize)>,
}

impl FreqTable {
    /// Checks a table. `efficiencies_available`: the policy has inefficient entries marked
    /// (cpufreq_table_set_inefficient() succeeded); else the marks are ignored.
    ///
    /// # Errors
    /// [`FreqTableError`] for tables that the kernel refuses.
    pub fn new(entries: Vec<FreqEntry>, efficiencies_available: bool) -> Result<Self, FreqTableError> {
        let order = set_freq_table_sorted(&entries)?;
        let mut all: Vec<(u32, usize)> = entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.freq_khz != CPUFREQ_ENTRY_INVALID)
            .map(|(index, entry)| (entry.freq_khz, index))
            .collect();
        if all.is_empty() {
            return Err(FreqTableError::Empty);
        }
        all.sort_unstable();
        let efficient = all.iter().copied().filter(|&(_, index)| !entries[index].inefficient).collect();
        Ok(Self { entries, order, efficiencies_available, all, efficient })
    }

    /// A table of plain frequencies.
    ///
    /// # Errors
    /// As [`FreqTable::new`].
    pub fn from_khz(freqs_khz: &[u32]) -> Result<Self, FreqTableError> {
        Self::new(freqs_khz.iter().map(|&khz| FreqEntry::new(khz)).collect(), false)
    }

    /// Marks the entries with these frequencies as inefficient; true if at least one was found
    /// (include/linux/cpufreq.h:cpufreq_table_set_inefficient(), v6.12, called by em_dev_register_perf_domain()).
    ///
    /// Only sorted tables take marks, as in the kernel.
    pub fn set_inefficient(&mut self, freqs_khz: &[u32]) -> bool {
        if self.order == TableOrder::Unsorted {
            return false;
        }
        let mut found = false;
        for entry in &mut self.entries {
            if entry.freq_khz != CPUFREQ_ENTRY_INVALID && freqs_khz.contains(&entry.freq_khz) {
                entry.inefficient = true;
                found = true;
            }
        }
        if found {
            self.efficiencies_available = true;
            self.efficient.retain(|&(khz, _)| !freqs_khz.contains(&khz));
        }
        found
    }

    /// The entries as given.
    pub fn entries(&self) -> &[FreqEntry] {
        &self.entries
    }

    /// How the table is ordered.
    pub fn order(&self) -> TableOrder {
        self.order
    }

    /// The hardware limits that the table implies (freq_table.c:cpufreq_frequency_table_cpuinfo(), v6.12); `None` if
    /// all entries are boost frequencies and boost is off.
    pub fn cpuinfo(&self, boost_enabled: bool) -> Option<FreqLimits> {
        let usable = self.all.iter().filter(|&&(_, index)| boost_enabled || !self.entries[index].boost);
        let mut khz = usable.map(|&(khz, _)| khz);
        let first = khz.next()?;
        Some(khz.fold(FreqLimits { min_khz: first, max_khz: first }, |limits, khz| FreqLimits {
            min_khz: limits.min_khz.min(khz),
            max_khz: limits.max_khz.max(khz),
        }))
    }

    /// Narrows requested limits to the hardware's, and lowers the upper one to an entry if none lies between
    /// (freq_table.c:cpufreq_frequency_table_verify(), v6.12).
    pub fn verify(&self, requested: FreqLimits, cpuinfo: FreqLimits) -> FreqLimits {
        let mut limits = requested.verify_within(cpuinfo);
        if !self.all.iter().any(|&(khz, _)| limits.contains(khz)) {
            let below = self.all.iter().rev().find(|&&(khz, _)| khz <= limits.max_khz);
            limits.max_khz = below.map_or(0, |&(khz, _)| khz);
            limits = limits.verify_within(cpuinfo);
        }
        limits
    }

    /// The index of the entry that stands for `target_khz` (include/linux/cpufreq.h:cpufreq_frequency_table_target(),
    /// v6.12); `efficient` is the flag `CPUFREQ_RELATION_E`: entries marked inefficient are passed over as long as the
    /// result is within the limits.
    ///
    /// `None` if an unsorted table has no entry within the limits (the kernel warns and takes the first entry).
    #[inline]
    pub fn target_index(
        &self,
        target_khz: u32,
        limits: FreqLimits,
        relation: Relation,
        efficient: bool,
    ) -> Option<usize> {
        let target_khz = limits.clamp(target_khz);
        if self.order == TableOrder::Unsorted {
            return self.index_unsorted(target_khz, limits, relation);
        }
        if efficient
            && self.efficiencies_available
            && let Some((khz, index)) = self.index_sorted(&self.efficient, target_khz, relation)
            && limits.contains(khz)
        {
            return Some(index);
        }
        self.index_sorted(&self.all, target_khz, relation).map(|(_, index)| index)
    }

    #[inline]
    fn index_sorted(&self, list: &[(u32, usize)], target_khz: u32, relation: Relation) -> Option<(u32, usize)> {
        let last = *list.last()?;
        let at_or_above = list.partition_point(|&(khz, _)| khz < target_khz);
        let Some(&above) = list.get(at_or_above) else {
            return Some(last);
        };
        if relation == Relation::L || above.0 == target_khz || at_or_above == 0 {
            return Some(above);
        }
        let below = list[at_or_above - 1];
        if relation == Relation::H {
            return Some(below);
        }
        let (down, up) = (target_khz - below.0, above.0 - target_khz);
        let take_above = up < down || (up == down && self.order == TableOrder::Descending);
        Some(if take_above { above } else { below })
    }

    /// include/linux/cpufreq.h:cpufreq_table_index_unsorted(), v6.12.
    fn index_unsorted(&self, target_khz: u32, limits: FreqLimits, relation: Relation) -> Option<usize> {
        let mut optimal: Option<(u32, usize)> = None;
        let mut suboptimal: Option<(u32, usize)> = None;
        for (index, entry) in self.entries.iter().enumerate() {
            let khz = entry.freq_khz;
            if khz == CPUFREQ_ENTRY_INVALID || !limits.contains(khz) {
                continue;
            }
            if khz == target_khz {
                return Some(index);
            }
            match relation {
                Relation::H if khz < target_khz => replace_if(&mut optimal, khz, index, |best| khz >= best),
                Relation::H => replace_if(&mut suboptimal, khz, index, |best| khz <= best),
                Relation::L if khz > target_khz => replace_if(&mut optimal, khz, index, |best| khz <= best),
                Relation::L => replace_if(&mut suboptimal, khz, index, |best| khz >= best),
                Relation::C => {
                    let distance = khz.abs_diff(target_khz);
                    let better = optimal.is_none_or(|(best, best_index)| {
                        distance < best || (distance == best && khz > self.entries[best_index].freq_khz)
                    });
                    if better {
                        optimal = Some((distance, index));
                    }
                }
            }
        }
        optimal.or(suboptimal).map(|(_, index)| index)
    }

    /// The frequency that stands for `target_khz` (drivers/cpufreq/cpufreq.c:__resolve_freq(), v6.12).
    #[inline]
    pub fn resolve(&self, target_khz: u32, limits: FreqLimits, relation: Relation, efficient: bool) -> u32 {
        let limits = FreqLimits { min_khz: limits.min_khz.min(limits.max_khz), ..limits };
        let index = self.target_index(target_khz, limits, relation, efficient).unwrap_or(0);
        self.entries[index].freq_khz
    }
}

#[inline]
fn replace_if(best: &mut Option<(u32, usize)>, khz: u32, index: usize, better: impl Fn(u32) -> bool) {
    if best.is_none_or(|(old, _)| better(old)) {
        *best = Some((khz, index));
    }
}

/// drivers/cpufreq/freq_table.c:set_freq_table_sorted(), v6.12.
fn set_freq_table_sorted(entries: &[FreqEntry]) -> Result<TableOrder, FreqTableError> {
    let mut previous: Option<u32> = None;
    let (mut rises, mut falls) = (false, false);
    for entry in entries.iter().filter(|entry| entry.freq_khz != CPUFREQ_ENTRY_INVALID) {
        if let Some(previous) = previous {
            if entry.freq_khz == previous {
                return Err(FreqTableError::Duplicate(previous));
            }
            rises |= entry.freq_khz > previous;
            falls |= entry.freq_khz < previous;
            if rises && falls {
                return Ok(TableOrder::Unsorted);
            }
        }
        previous = Some(entry.freq_khz);
    }
    Ok(if rises { TableOrder::Ascending } else { TableOrder::Descending })
}

/// The frequency that a driver is asked for when `target_khz` is wanted: within the limits, and an entry of the table
/// if there is one (drivers/cpufreq/cpufreq.c:__resolve_freq(), v6.12).
#[inline]
pub fn resolve_freq(
    table: Option<&FreqTable>,
    target_khz: u32,
    limits: FreqLimits,
    relation: Relation,
    efficient: bool,
) -> u32 {
    match table {
        Some(table) => table.resolve(target_khz, limits, relation, efficient),
        None => FreqLimits { min_khz: limits.min_khz.min(limits.max_khz), ..limits }.clamp(target_khz),
    }
}

/// What a policy's limits become when `verified` limits are set: frequencies that the table has
/// (drivers/cpufreq/cpufreq.c:cpufreq_set_policy(), v6.12).
pub fn set_policy_limits(table: Option<&FreqTable>, verified: FreqLimits) -> FreqLimits {
    let max_khz = resolve_freq(table, verified.max_khz, verified, Relation::H, false);
    let min_khz = resolve_freq(table, verified.min_khz, verified, Relation::L, false);
    FreqLimits { min_khz: min_khz.min(max_khz), max_khz }
}

/// What of the capacity of a policy's CPUs is out of reach under a limit of `max_khz`, where they have their `capacity` at
/// `freq_ref_khz`; 0 on architectures without such a reference (drivers/cpufreq/cpufreq.c:cpufreq_update_pressure(), v6.10).
pub fn cpufreq_pressure(capacity: u64, max_khz: u32, freq_ref_khz: u32) -> u64 {
    if max_khz >= freq_ref_khz {
        return 0;
    }
    capacity - capacity * u64::from(max_khz) / u64::from(freq_ref_khz)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: FreqLimits = FreqLimits { min_khz: 1_000, max_khz: 4_000 };

    fn check(freqs: &[u32], target: u32, relation: Relation, expected: u32) {
        let table = FreqTable::from_khz(freqs).expect("a valid table");
        assert_eq!(table.resolve(target, LIMITS, relation, false), expected, "{freqs:?} {target} {relation:?}");
    }

    /// What a limit leaves is rounded down; at and above the reference, as where there is none, nothing is lost.
    #[test]
    fn pressure() {
        for (capacity, max_khz, freq_ref_khz, lost) in [
            (1024, 851_000, 2_802_000, 1024 - 311),
            (1024, 2_802_000, 2_802_000, 0),
            (1024, 3_000_000, 2_802_000, 0),
            (383, 450_000, 950_000, 383 - 181),
            (1024, 851_000, 0, 0),
        ] {
            assert_eq!(cpufreq_pressure(capacity, max_khz, freq_ref_khz), lost, "{max_khz} of {freq_ref_khz}");
        }
    }

    #[test]
    fn relations() {
        let ascending = [1_000, 2_000, 3_000, 4_000];
        check(&ascending, 2_500, Relation::L, 3_000);
        check(&ascending, 2_500, Relation::H, 2_000);
        check(&ascending, 2_500, Relation::C, 2_000);
        check(&[4_000, 3_000, 2_000, 1_000], 2_500, Relation::C, 3_000);
        check(&[2_000, 4_000, 1_000, 3_000], 2_500, Relation::C, 3_000);
        check(&ascending, 0, Relation::H, 1_000);
        check(&ascending, 9_000, Relation::L, 4_000);
    }

    #[test]
    fn neighbours_with_one_frequency_are_refused() {
        assert_eq!(FreqTable::from_khz(&[1, 2, 2]), Err(FreqTableError::Duplicate(2)));
        assert_eq!(FreqTable::from_khz(&[CPUFREQ_ENTRY_INVALID]), Err(FreqTableError::Empty));
    }

    #[test]
    fn inefficient_entries_are_passed_over_within_the_limits() {
        let mut table = FreqTable::from_khz(&[1_000, 2_000, 3_000, 4_000]).expect("a valid table");
        assert!(table.set_inefficient(&[2_000]));
        assert_eq!(table.resolve(1_500, LIMITS, Relation::L, true), 3_000);
        assert_eq!(table.resolve(1_500, LIMITS, Relation::L, false), 2_000);
        assert_eq!(table.resolve(1_500, FreqLimits { min_khz: 1_000, max_khz: 2_500 }, Relation::L, true), 2_000);
    }

    proptest! {
        /// Goal: no input panics, and a higher target never resolves to a lower frequency.
        #[test]
        fn resolution_is_monotonic(
            freqs in proptest::collection::vec(any::<u32>(), 1..20), sort in 0..3, marks in any::<u32>(),
            low in any::<u32>(), high in any::<u32>(), min_khz in any::<u32>(), max_khz in any::<u32>(),
            relation in prop_oneof![Just(Relation::L), Just(Relation::H), Just(Relation::C)], efficient: bool,
        ) {
            let mut freqs = freqs;
            match sort {
                0 => freqs.sort_unstable(),
                1 => freqs.sort_unstable_by(|a, b| b.cmp(a)),
                _ => {}
            }
            let entries = freqs.iter().enumerate().map(|(index, &freq_khz)| FreqEntry {
                freq_khz, inefficient: marks >> (index % 32) & 1 != 0, boost: false,
            }).collect();
            let Ok(table) = FreqTable::new(entries, efficient) else { return Ok(()) };
            let requested = FreqLimits { min_khz, max_khz };
            let cpuinfo = table.cpuinfo(true).expect("valid entries");
            let limits = set_policy_limits(Some(&table), table.verify(requested, cpuinfo));
            prop_assert!(limits.min_khz <= limits.max_khz);
            let (low, high) = (low.min(high), low.max(high));
            let resolved = [low, high].map(|target| table.resolve(target, limits, relation, efficient));
            prop_assert!(resolved[0] <= resolved[1]);
            prop_assert!(limits.contains(resolved[0]));
        }
    }
}
