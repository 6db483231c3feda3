//! The gates as a table: which value every profile has, where that is known from, and how it is proven.
//!
//! `docs/kernel-profiles.md` is [`markdown`]; a test holds the two equal.

use std::fmt::Write as _;

use crate::profile::{GATES, Gate, GateValue, KernelProfile, PROFILES};

/// How a gate's value is known to be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// These families of vectors, computed by that kernel's own code, run through it.
    Vectors(&'static [&'static str]),
    /// Recordings of that kernel are recomputed exactly with it (`opplab verify traces`).
    Recording(&'static str),
    /// It was written from that kernel's source, and nothing of that kernel has been run against it.
    Source,
    /// Public history says so: a commit's text, a mail, the documentation.
    History,
    /// Neither the notes nor this table checked it.
    Memory,
    /// For overriding only: an experiment, or a vendor's kernel.
    Override,
}

impl Proof {
    /// One word, and the families or recordings.
    pub fn text(self) -> String {
        match self {
            Self::Vectors(families) => format!("vectors {}", families.join(", ")),
            Self::Recording(kernels) => format!("recordings of {kernels}"),
            Self::Source => String::from("source"),
            Self::History => String::from("history"),
            Self::Memory => String::from("memory"),
            Self::Override => String::from("override only"),
        }
    }
}

/// Values that vectors of the real kernel run through.
const VECTORS: &[(&str, &str, &[&str])] = &[
    ("invariance", "scaled-contribution", &["oldpelt_se", "oldpelt_cfs"]),
    ("invariance", "time-dilated", &["clock_pelt"]),
    ("x86_invariance", "intel-amd", &["x86_intel_max_freq_ratio", "x86_amd_max_freq_ratio"]),
    ("runnable_signal", "runnable", &["pelt_cfs_hl32", "pelt_se_hl32"]),
    ("util_est", "fast-up", &["v510_util_est"]),
    ("util_est", "filtered", &["util_est_v61"]),
    ("util_est", "single", &["util_est"]),
    ("sugov_util", "clamped", &["v510_schedutil_cpu_util", "effective_cpu_util_v61"]),
    ("sugov_util", "bounded", &["effective_cpu_util"]),
    ("headroom", "in-frequency", &["v510_schedutil_cpu_util"]),
    ("headroom", "in-clamped-util", &["sugov_seq_v61"]),
    ("headroom", "in-effective-perf", &["sugov_seq"]),
    ("noninvariant_headroom", "once", &["sugov_seq_v61"]),
    ("noninvariant_headroom", "twice", &["sugov_seq"]),
    ("freq_ref", "cpuinfo-max", &["sugov_seq_v61"]),
    ("freq_ref", "arch", &["sugov_seq"]),
    ("runnable_boost", "off", &["sugov_seq_v61", "feec_v61"]),
    ("runnable_boost", "on", &["sugov_seq", "feec"]),
    ("sugov_iowait_boost", "capacity", &["sugov_iowait", "sugov_iowait_v61"]),
    ("sugov_clamps", "boost-too", &["sugov_iowait_v61", "sugov_seq_v61"]),
    ("rate_limit", "latency-x1.5", &["schedutil_map"]),
    ("feec_margin", "6-percent-of-total", &["v510_feec"]),
    ("feec_margin", "none", &["feec_v61", "feec"]),
    ("feec_runnable", "moved", &["feec"]),
    ("em_cost", "mW", &["v510_feec"]),
    ("em_cost", "uW", &["em_table_v61", "feec_v61"]),
    ("em_cost", "performance", &["em_table", "feec"]),
    ("fair_class", "cfs", &["v510_cfs_seq", "v510_wakeup_preempt"]),
    ("fair_class", "eevdf", &["eevdf_seq"]),
    ("base_slice", "0.70ms", &["eevdf_seq"]),
    ("delay_dequeue", "on", &["eevdf_seq"]),
    ("select_idle_scan", "sis-util", &["select_idle_sibling", "lb_idle_scan"]),
    ("idle_sibling", "search", &["select_idle_sibling"]),
    ("menu", "iowait", &["cpuidle_menu_v61"]),
    ("menu", "timer-late", &["cpuidle_menu", "cpuidle_menu_masks"]),
    ("teo", "recent", &["cpuidle_teo_v61"]),
    ("teo", "tick-hits", &["cpuidle_teo", "cpuidle_teo_masks"]),
    ("amd_pstate", "unlimited", &["amd_pstate_init_v61", "amd_pstate_seq_v61"]),
    ("amd_pstate", "limited", &["amd_pstate_init", "amd_pstate_seq"]),
    ("hwp_dynamic_boost", "servers", &["intel_pstate_hwp_boost"]),
    ("intel_iowait_boost", "doubling", &["intel_pstate_core"]),
];

/// Values without vectors that recordings show.
const RECORDINGS: &[(&str, &str, &str)] = &[
    ("sugov_affinity", "bound", "6.1 and 6.12"),
    ("overutilized", "root-domain", "6.1 and 6.12"),
    ("eas", "present", "6.1 and 6.12"),
    ("feec_runnable", "whole", "6.18"),
];

/// How `value` of `gate` is proven.
pub fn proof(gate: &Gate, value: &GateValue) -> Proof {
    let here = |name: &str, of: &str| name == gate.name && of == value.name;
    if value.since_text().is_none() {
        Proof::Override
    } else if let Some((_, _, families)) = VECTORS.iter().find(|(name, of, _)| here(name, of)) {
        Proof::Vectors(families)
    } else if let Some((_, _, kernels)) = RECORDINGS.iter().find(|(name, of, _)| here(name, of)) {
        Proof::Recording(kernels)
    } else if value.source.contains("from memory") {
        Proof::Memory
    } else if value.source.contains(".c ") || value.source.contains("notes") {
        Proof::Source
    } else {
        Proof::History
    }
}

/// The names of all families that a [`Proof::Vectors`] names.
pub fn families() -> impl Iterator<Item = &'static str> {
    VECTORS.iter().flat_map(|(_, _, families)| families.iter().copied())
}

/// What `kernel` does otherwise than the profile before it, as `gate=value`.
pub fn changes(kernel: &str) -> Option<String> {
    let at = PROFILES.iter().position(|(name, _)| *name == kernel)?;
    let profile = KernelProfile::named(kernel)?;
    let Some(before) = at.checked_sub(1).and_then(|at| KernelProfile::named(PROFILES[at].0)) else {
        return Some(String::from("the oldest"));
    };
    let mut text = String::new();
    for gate in GATES {
        let (new, old) = (profile.show(gate.name)?, before.show(gate.name)?);
        if new != old {
            let comma = if text.is_empty() { "" } else { ", " };
            let _ = write!(text, "{comma}{}={new}", gate.name);
        }
    }
    let (_, before) = PROFILES[at - 1];
    let before = PROFILES.iter().find(|(_, version)| *version == before).map_or("", |(name, _)| name);
    Some(if text.is_empty() { format!("as {before}") } else { text })
}

/// The text of `docs/kernel-profiles.md`.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Kernel profiles\n\n\
         What kernels do differently, and which of it each profile has. Generated from crate `kernel` \
         (`profile.rs`, `profile_table.rs`); `OPPLAB_BLESS=1 cargo test -p opplab-verify --test profiles` writes it anew.\n\n\
         A policy names a profile (`kernel = \"6.1\"`); each gate can be overridden by name (`gates = { menu = \"iowait\" }`).\n\n\
         How a value is proven: **vectors** were computed by that kernel's own code and are equal, all of them; **recordings** of \
         that kernel are recomputed exactly; **source** means written from that kernel's source, with nothing to run against; \
         **history** from commits, mails and documentation; **memory** was not checked.\n\n",
    );
    let _ = writeln!(
        text,
        "## Values\n\n| gate | value | since | what | source | proven by |\n| --- | --- | --- | --- | --- | --- |"
    );
    for gate in GATES {
        for value in gate.values {
            let since = match value.since {
                Some((4, 17)) => String::from("before"),
                _ => value.since_text().unwrap_or_else(|| String::from("-")),
            };
            let _ = writeln!(
                text,
                "| `{}` | `{}` | {since} | {} | {} | {} |",
                gate.name,
                value.name,
                value.what,
                value.source,
                proof(gate, value).text()
            );
        }
    }
    let _ = write!(text, "\n## Profiles\n\nA dot is the value of the column before.\n\n| gate |");
    for (name, _) in PROFILES {
        let _ = write!(text, " {name} |");
    }
    let _ = writeln!(text, "\n| --- |{}", " --- |".repeat(PROFILES.len()));
    for gate in GATES {
        let _ = write!(text, "| `{}` |", gate.name);
        let mut before = "";
        for (name, _) in PROFILES {
            let value = KernelProfile::named(name).and_then(|profile| profile.show(gate.name)).unwrap_or("");
            let _ = write!(text, " {} |", if value == before { "·" } else { value });
            before = value;
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every proof is of a value that there is.
    #[test]
    fn proofs_are_of_values_that_exist() {
        let known = |gate: &str, value: &str| {
            GATES.iter().any(|row| row.name == gate && row.values.iter().any(|one| one.name == value))
        };
        for (gate, value, _) in VECTORS {
            assert!(known(gate, value), "{gate} = {value}");
        }
        for (gate, value, _) in RECORDINGS {
            assert!(known(gate, value), "{gate} = {value}");
        }
    }

    #[test]
    fn profiles_say_what_they_change() {
        assert_eq!(changes("6.13").as_deref(), Some("feec_runnable=whole, intel_hwp_target=strict-floor"));
        assert!(changes("6.6").expect("a profile").contains("fair_class=eevdf"));
        assert_eq!(changes("6.11"), None);
    }
}
