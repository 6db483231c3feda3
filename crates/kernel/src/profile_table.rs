//! The gates as a table: which value every profile has, where that is known from, how much of it is proven, and what
//! differs between two kernels.
//!
//! `docs/kernel-profiles.md` is [`markdown`]; a test holds the two equal.

use std::fmt::Write as _;

use crate::evidence::{Proof, Source};
use crate::profile::{GATES, Gate, GateValue, KernelProfile, PROFILES, profile_names};
use crate::release::READ;

/// What has no gate though versions differ, or though one could expect them to: thing, versions, reason.
const ALIKE: &[(&str, &str, &str)] = &[
    (
        "past loads that bias balance (`LB_BIAS`, `cpu_load[]`)",
        "before v4.20",
        "not modelled: loads of the moment count, as from v4.20 on; the arrays went in v5.3 (5e83eafbfd3b)",
    ),
    (
        "tasks that a NUMA node may have more than another",
        "v5.6 to v5.17",
        "not modelled: `imb_numa_nr` of v5.18 (e496132ebedd) counts; it matters on machines with several nodes only",
    ),
    (
        "which threads of a core pull by priority (`SD_ASYM_PACKING`)",
        "before v6.4",
        "not modelled: idle cores only, as from v6.4 on; machines without packing priorities decide alike",
    ),
    (
        "misfits and the interval of balance",
        "before v6.12",
        "not modelled: a misfit that did not move does not count as failed; the next pass finds it again",
    ),
    (
        "why a busy CPU asks an idle one to balance",
        "before v5.2",
        "not modelled: v5.2's order, by which CPUs of several capacities skip the count of busy CPUs of a cache",
    ),
    ("names: `load_balance()` to `sched_balance_rq()`", "v6.10", "renamed only"),
    (
        "where a new task is placed among CPUs of a group",
        "none",
        "the idle CPU with the shallowest state, then the one idle since last, then the least load, since v4.14",
    ),
    (
        "load and utilisation that a new task begins with",
        "none",
        "half of what is left of the CPU (`post_init_entity_util_avg()`) and full load, since v4.14",
    ),
    (
        "pushing and pulling of real-time tasks",
        "none",
        "`cpupri_find()`, `push_rt_task()` decide alike since v4.14 but for capacities (gate `rt_capacity`); the order of irq work that \
         asks CPUs to push (4bdced5c9a29, v4.15) takes no time in the engine",
    ),
    (
        "pushing and pulling of deadline tasks",
        "none",
        "`cpudl_find()`, earliest deadline first, since v4.14 but for capacities (gate `dl_capacity`)",
    ),
];

/// The value that `profile` has of `gate`.
pub fn value_of(gate: &'static Gate, profile: &KernelProfile) -> &'static GateValue {
    let name = profile.show(gate.name);
    gate.values.iter().find(|value| Some(value.name) == name).expect("a value of the gate")
}

/// The names of all families that a [`Proof::Vectors`] names.
pub fn families() -> impl Iterator<Item = &'static str> {
    GATES
        .iter()
        .flat_map(|gate| gate.values)
        .flat_map(|value| match value.proof {
            Proof::Vectors(families) => families,
            _ => &[],
        })
        .copied()
}

/// How many of some values have each kind of proof, in the order of [`Proof::KINDS`].
pub fn count(values: impl Iterator<Item = &'static GateValue>) -> [usize; Proof::KINDS.len()] {
    let mut counts = [0; Proof::KINDS.len()];
    values.for_each(|value| counts[value.proof.kind()] += 1);
    counts
}

/// How many gate values have each kind of proof: of `profile`, or of the whole table.
pub fn proven(profile: Option<&KernelProfile>) -> [usize; Proof::KINDS.len()] {
    match profile {
        Some(profile) => count(GATES.iter().map(|gate| value_of(gate, profile))),
        None => count(GATES.iter().flat_map(|gate| gate.values)),
    }
}

/// The share in words: `41 by vectors, 4 by recordings, ... of 144`.
pub fn proven_text(profile: Option<&KernelProfile>) -> String {
    let counts = proven(profile);
    let kinds = Proof::KINDS.iter().zip(counts).filter(|&(_, count)| count > 0);
    let kinds: Vec<String> = kinds.map(|((word, _), count)| format!("{count} {word}")).collect();
    format!("{} (of {})", kinds.join(", "), counts.iter().sum::<usize>())
}

/// A gate that two kernels have different values of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference {
    /// The gate.
    pub gate: &'static Gate,
    /// The older kernel's value.
    pub before: &'static GateValue,
    /// The newer one's.
    pub after: &'static GateValue,
}

impl Difference {
    /// What the older kernel's value means.
    pub fn before_meaning(&self) -> String {
        meaning(&self.since(self.before, None))
    }

    /// What the newer one's means: "the same" is of the older one's.
    pub fn after_meaning(&self) -> String {
        meaning(&self.since(self.after, Some(self.before)))
    }

    /// What brought the newer one's, and the values between that its meaning rests on.
    pub fn source_text(&self) -> String {
        let sources = self.since(self.after, Some(self.before)).into_iter().map(GateValue::source_text);
        sources.collect::<Vec<_>>().join("; ")
    }

    /// The values that the meaning of `value` rests on, up to itself: one that is "the same" but for something rests on the one before it,
    /// which a reader knows if it is `known`.
    fn since(&self, value: &'static GateValue, known: Option<&GateValue>) -> Vec<&'static GateValue> {
        let mut found = vec![value];
        let mut rest = &self.gate.values[..self.gate.values.iter().position(|one| one.name == value.name).unwrap_or(0)];
        while let (Some((last, before)), true) = (rest.split_last(), found[0].what.starts_with(SAME)) {
            if known.is_some_and(|known| known.name == last.name) {
                break;
            }
            found.insert(0, last);
            rest = before;
        }
        found
    }
}

/// How the meaning of a value begins that differs little from the one before it.
const SAME: &str = "the same";

/// The meaning of the last of some values, each of which but the first is "the same" as the one before it but for something.
fn meaning(values: &[&GateValue]) -> String {
    let [first, rest @ ..] = values else { return String::new() };
    rest.iter().fold(first.what.to_owned(), |text, value| text + value.what.trim_start_matches(SAME))
}

/// The gates in which two kernels behave differently; a value that came back under another name is no difference.
pub fn differences(before: &KernelProfile, after: &KernelProfile) -> Vec<Difference> {
    let all =
        GATES.iter().map(|gate| Difference { gate, before: value_of(gate, before), after: value_of(gate, after) });
    all.filter(|found| found.before_meaning() != meaning(&found.since(found.after, None))).collect()
}

/// What `kernel` does otherwise than the mainline release before it, as `gate=value`: that of a point release and of Android
/// is its own.
pub fn changes(kernel: &str) -> Option<String> {
    let at = PROFILES.iter().position(|(name, ..)| *name == kernel)?;
    let before = PROFILES[..at].iter().rfind(|(name, _, point)| *point == 0 && !name.ends_with("-android"));
    let Some((before, ..)) = before else { return Some(String::from("the oldest")) };
    let found = differences(&KernelProfile::named(before)?, &KernelProfile::named(kernel)?);
    let words: Vec<String> = found.iter().map(|found| format!("{}={}", found.gate.name, found.after.name)).collect();
    Some(if words.is_empty() { format!("as {before}") } else { words.join(", ") })
}

/// The text of `docs/kernel-profiles.md`.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Kernel profiles\n\n\
         What kernels do differently, and which of it each profile has. Generated from crate `kernel` \
         (`profile.rs`, `profile_table.rs`); `OPPLAB_BLESS=1 cargo test -p opplab-verify --test profiles` writes it anew.\n\n\
         A profile is a mainline release plus the backports of a point release: `kernel = \"6.6\"` is v6.6 as it was released, \
         `\"6.6.88\"` and `\"6.1.0-56-amd64\"` are what somebody runs. Each gate can be overridden by name \
         (`gates = { menu_iowait = \"counted\" }`). `opplab kernels diff 6.6.88 6.6.89` lists what changed between two.\n\n",
    );
    let all: Vec<String> = READ.iter().map(|((major, minor), last)| format!("{major}.{minor}.{last}")).collect();
    let _ = writeln!(
        text,
        "Every list of changes was read for the point releases up to {}. Of other series single backports are known, and \
         opplab reports which.\n",
        all.join(", ")
    );
    text.push_str("## What is proven\n\nHow a value is known to be right:\n\n");
    for (word, meaning) in Proof::KINDS {
        let _ = writeln!(text, "- **{word}**: {meaning}");
    }
    let _ = writeln!(
        text,
        "\nOf all values: {}. Exact equality with a kernel is claimed for the values with vectors or recordings only.\n",
        proven_text(None)
    );
    let _ = writeln!(text, "| profile |{}", Proof::KINDS.map(|(word, _)| format!(" {word} |")).concat());
    let _ = writeln!(text, "| --- |{}", " ---: |".repeat(Proof::KINDS.len()));
    for name in profile_names() {
        let counts = proven(KernelProfile::named(name).as_ref());
        let _ = writeln!(text, "| {name} |{}", counts.map(|count| format!(" {count} |")).concat());
    }
    let _ = writeln!(
        text,
        "\n## Values\n\nSince: the first mainline release, and the point releases of older ones.\n\n\
         | gate | value | since | what | source | proven by |\n| --- | --- | --- | --- | --- | --- |"
    );
    for gate in GATES {
        for value in gate.values {
            let since = match (value.since, value.stable) {
                (Some((4, 14)), []) => String::from("before"),
                _ => value.since_text().unwrap_or_else(|| String::from("-")),
            };
            let _ = writeln!(
                text,
                "| `{}` | `{}` | {since} | {} | {} | {} |",
                gate.name,
                value.name,
                value.what,
                value.source_text(),
                value.proof.text()
            );
        }
    }
    let _ = writeln!(text, "\n## Backports\n\n| gate | value | releases | source |\n| --- | --- | --- | --- |");
    for gate in GATES {
        for value in gate.values {
            for stable in value.stable {
                let _ =
                    writeln!(text, "| `{}` | `{}` | {} | {} |", gate.name, value.name, stable.text(), stable.source);
            }
        }
    }
    text.push_str(
        "\n## Alike in every profile\n\nWhat of load balance, placement, new tasks, the other classes and idle balance has no gate, \
         and why.\n\n| what | versions that differ | why |\n| --- | --- | --- |\n",
    );
    for (what, versions, why) in ALIKE {
        let _ = writeln!(text, "| {what} | {versions} | {why} |");
    }
    text.push_str(
        "\n## Profiles\n\nWhat each profile does otherwise than the mainline release before it; a point release, than its mainline \
         release.\n\n| profile | changes |\n| --- | --- |\n",
    );
    for name in profile_names() {
        let _ = writeln!(text, "| {name} | {} |", changes(name).unwrap_or_default());
    }
    text
}

/// The release or tree in whose code a source was read.
pub fn read_in(source: &Source) -> Option<&'static str> {
    match source {
        Source::Code(_, tree) => Some(tree),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value that was read in a release's code is what the profile of that release has.
    #[test]
    fn sources_have_the_values_that_they_are_cited_for() {
        let mut read = 0;
        for gate in GATES {
            for value in gate.values {
                for tree in value.sources.iter().filter_map(read_in) {
                    let Some(profile) = KernelProfile::named(tree) else {
                        assert!(tree.starts_with("Android"), "{} = {}: {tree}", gate.name, value.name);
                        continue;
                    };
                    assert_eq!(profile.show(gate.name), Some(value.name), "{} in {tree}", gate.name);
                    read += 1;
                }
            }
        }
        assert!(read > 60, "{read}");
    }

    /// One release is the oldest; Android's branch and point releases stand beside the mainline release that they are of.
    #[test]
    fn only_the_first_release_is_the_oldest() {
        let oldest: Vec<&str> = PROFILES
            .iter()
            .map(|&(name, ..)| name)
            .filter(|name| changes(name).as_deref() == Some("the oldest"))
            .collect();
        assert_eq!(oldest, ["4.14"]);
        assert!(changes("4.14-android").is_some_and(|text| text.contains("eas=groups")));
        assert!(changes("4.15").is_some_and(|text| text == "arm_invariance=present"));
        assert!(changes("6.6.103").is_some_and(|text| !text.starts_with("as ")));
    }

    /// The kernels whose code computed the vectors have the values that the vectors prove.
    #[test]
    fn vectors_are_of_kernels_that_have_the_values() {
        let kernel = |family: &str| match family {
            _ if family.ends_with("_v61") => "6.1.192",
            _ if family.ends_with("_v63") => "6.3",
            _ if family.ends_with("_v65") => "6.5.3",
            _ if family.ends_with("_v66") => "6.6",
            _ if family.starts_with("v510_") => "5.10",
            _ if family.starts_with("oldpelt_") => "4.19",
            _ => "6.12.117",
        };
        for gate in GATES {
            for value in gate.values {
                let Proof::Vectors(families) = value.proof else { continue };
                for family in families {
                    let profile = KernelProfile::named(kernel(family)).expect("a kernel");
                    assert_eq!(profile.show(gate.name), Some(value.name), "{} by {family}", gate.name);
                }
            }
        }
    }

    /// What went and came back, or is absent under two names, differs between no two kernels that have it alike.
    #[test]
    fn differences_are_of_behaviour() {
        let diff = |before: &str, after: &str| {
            let named = |name| KernelProfile::named(name).expect("a kernel");
            differences(&named(before), &named(after)).iter().map(|found| found.gate.name).collect::<Vec<_>>()
        };
        assert_eq!(diff("6.9", "6.10"), ["no_turbo_cpuinfo_max", "cpufreq_pressure"]);
        assert_eq!(diff("6.1", "6.2"), ["uclamp_fit"]);
        let long = diff("4.14", "6.19");
        assert!(!long.contains(&"teo_near_timer") && !long.contains(&"teo_util"), "{long:?}");
        assert!(diff("6.1", "6.3").contains(&"teo_util"));
        // Both are "the same in 1/1000", each of another value.
        assert!(diff("5.10.65", "5.15").contains(&"em_cost"));
    }

    #[test]
    fn profiles_say_what_they_change() {
        assert_eq!(changes("5.17").as_deref(), Some("as 5.16"));
        assert!(changes("6.6").expect("a profile").contains("fair_class=eevdf"));
        assert!(changes("6.12.117").expect("a profile").contains("base_slice=0.70ms"));
        assert!(changes("6.13").expect("a profile").contains("amd_min_freq=lowest-nonlinear"));
        assert!(!changes("6.13").expect("a profile").contains("base_slice"));
        assert_eq!(changes("4.13"), None);
    }

    /// The one change of schedutil in v6.6.89 is three gates, and what it broke without frequency invariance a fourth.
    #[test]
    fn point_releases_differ() {
        let diff = |before: &str, after: &str| {
            let named = |name| KernelProfile::named(name).expect("a kernel");
            let found = differences(&named(before), &named(after));
            found.iter().map(|found| (found.gate.name, found.after.name)).collect::<Vec<_>>()
        };
        assert_eq!(diff("6.6.87", "6.6.88"), [("need_freq_update", "once-again")]);
        let rework = [
            ("sugov_util", "bounded"),
            ("headroom", "in-effective-perf"),
            ("noninvariant_headroom", "missing"),
            ("feec_energy", "bounded"),
        ];
        assert_eq!(diff("6.6.88", "6.6.89"), rework);
        assert_eq!(diff("6.6.89", "6.6.92"), []);
        let slice_and_menu = [("base_slice", "0.70ms"), ("menu_typical", "drop-longest-or-most")];
        assert_eq!(diff("6.6.88", "6.6.99"), [&rework[..], &slice_and_menu[..]].concat());
        let with_menu = [
            ("noninvariant_headroom", "twice"),
            ("freq_ref", "arch"),
            ("newidle_skip", "cost-of-failure"),
            ("menu_iowait", "ignored"),
            ("menu_latency", "at-once"),
        ];
        assert_eq!(diff("6.6.102", "6.6.103"), with_menu);
        assert_eq!(diff("6.12.43", "6.12.44"), [("menu_iowait", "ignored"), ("menu_latency", "at-once")]);
    }
}
