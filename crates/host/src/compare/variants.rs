//! Variants of an experiment, and the writes that each of them is.
//!
//! Each option of the command line that names settings is a dimension; variants are all combinations, the first of
//! each dimension is the baseline.

use std::collections::BTreeSet;

use crate::error::HostError;
use crate::govern::state::{SETTINGS, is_setting};
use crate::root::{CPU, Root};

/// One variant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Variant {
    /// What it is called in tables.
    pub name: String,
    /// Files and what is written to each, in order.
    pub writes: Vec<(String, String)>,
    /// Environment variables.
    pub env: Vec<(String, String)>,
    /// A shell command in place of the common one.
    pub command: Option<String>,
    /// Added nice value.
    pub nice: Option<i32>,
    /// Release of the kernel that it runs on.
    pub kernel: Option<String>,
}

/// One value of a dimension, as the user wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Level {
    /// `scaling_governor` of all policies.
    Governor(String),
    /// `energy_performance_preference` of all policies.
    Epp(String),
    /// Turbo or boost.
    Boost(bool),
    /// `FILE=VALUE[;FILE=VALUE]`; empty: as the machine is.
    Set(String),
    /// `NAME=VALUE[;NAME=VALUE]`; empty: as the caller's.
    Env(String),
    /// A shell command.
    Command(String),
    /// Nice value.
    Nice(i32),
    /// Release of a kernel.
    Kernel(String),
}

/// All combinations of the dimensions' levels, the last dimension fastest.
///
/// # Errors
/// A file that is not there, a value that the file does not list, a name that occurs twice.
pub fn variants(dimensions: &[Vec<Level>], root: &Root) -> Result<Vec<Variant>, HostError> {
    let mut variants = vec![Variant::default()];
    for dimension in dimensions {
        let mut more = Vec::new();
        for variant in &variants {
            for level in dimension {
                let mut variant = variant.clone();
                variant.take(level, root)?;
                more.push(variant);
            }
        }
        variants = more;
    }
    distinct(&mut variants)?;
    Ok(variants)
}

/// The variants under names of their own; without any, under those of their settings.
///
/// # Errors
/// More or fewer names than variants, a name that occurs twice.
pub fn called(mut variants: Vec<Variant>, names: &[String]) -> Result<Vec<Variant>, HostError> {
    if names.is_empty() {
        return Ok(variants);
    }
    if names.len() != variants.len() {
        let words = format!("--label: {} names for {} variants", names.len(), variants.len());
        return Err(HostError::Usage(words));
    }
    for (variant, name) in variants.iter_mut().zip(names) {
        variant.name.clone_from(name);
    }
    distinct(&mut variants)?;
    Ok(variants)
}

/// Tables and results have names in one line, each once.
fn distinct(variants: &mut [Variant]) -> Result<(), HostError> {
    let mut known = BTreeSet::new();
    for variant in variants {
        variant.name = variant.name.trim().replace(['\n', '\t', '"'], " ");
        if !known.insert(variant.name.clone()) {
            return Err(HostError::Usage(format!("two variants are called `{}`", variant.name)));
        }
    }
    Ok(())
}

impl Variant {
    fn take(&mut self, level: &Level, root: &Root) -> Result<(), HostError> {
        let name = match level {
            Level::Governor(name) => {
                self.of_policies(root, "scaling_governor", name, "scaling_available_governors")?;
                name.clone()
            }
            Level::Epp(name) => {
                let list = "energy_performance_available_preferences";
                self.of_policies(root, "energy_performance_preference", name, list)?;
                format!("epp={name}")
            }
            Level::Boost(on) => {
                let intel = format!("{CPU}/intel_pstate/no_turbo");
                let common = format!("{CPU}/cpufreq/boost");
                if root.has(&intel) {
                    self.writes.push((intel, u8::from(!on).to_string()));
                } else if root.has(&common) {
                    self.writes.push((common, u8::from(*on).to_string()));
                } else {
                    let words = format!("--boost: this host has neither {intel} nor {common}");
                    return Err(HostError::Lacking(words));
                }
                (if *on { "boost" } else { "no boost" }).to_owned()
            }
            Level::Set(text) => {
                for (file, value) in pairs("set", text)? {
                    for file in files_of(root, &file)? {
                        self.writes.push((file, value.clone()));
                    }
                }
                if text.is_empty() { "as is".to_owned() } else { text.clone() }
            }
            Level::Env(text) => {
                self.env.extend(pairs("env", text)?);
                if text.is_empty() { "plain".to_owned() } else { text.clone() }
            }
            Level::Command(text) => {
                self.command = Some(text.clone());
                text.clone()
            }
            Level::Kernel(release) => {
                self.kernel = Some(release.clone());
                release.clone()
            }
            Level::Nice(nice) => {
                self.nice = Some(*nice);
                format!("nice {nice}")
            }
        };
        if !self.name.is_empty() {
            self.name.push(' ');
        }
        self.name.push_str(&name);
        Ok(())
    }

    /// The same setting of all policies, if each lists the value.
    fn of_policies(&mut self, root: &Root, file: &str, value: &str, list: &str) -> Result<(), HostError> {
        let policies = root.policies();
        if policies.is_empty() {
            let words =
                "no cpufreq policy on this host (normal in a virtual machine): --env, --command and --nice work";
            return Err(HostError::Lacking(words.to_owned()));
        }
        for policy in policies {
            let folder = format!("{CPU}/cpufreq/policy{policy}");
            let path = format!("{folder}/{file}");
            if !root.has(&path) {
                return Err(HostError::Lacking(format!("{path}: not there")));
            }
            let known = root.text(&format!("{folder}/{list}")).unwrap_or_default();
            let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
            if !known.is_empty() && !is_number && !known.split_whitespace().any(|word| word == value) {
                let near = crate::command::nearest(value, known.split_whitespace());
                return Err(HostError::Usage(format!("{path}: no `{value}` (there are {known}){near}")));
            }
            self.writes.push((path, value.to_owned()));
        }
        Ok(())
    }
}

/// `NAME=VALUE` pairs, separated by `;`.
fn pairs(option: &str, text: &str) -> Result<Vec<(String, String)>, HostError> {
    let one = |part: &str| {
        let (name, value) = part.split_once('=').filter(|(name, _)| !name.trim().is_empty())?;
        Some((name.trim().to_owned(), value.to_owned()))
    };
    text.split(';')
        .filter(|part| !part.trim().is_empty())
        .map(|part| one(part).ok_or_else(|| HostError::Usage(format!("--{option}: `{part}` is not NAME=VALUE"))))
        .collect()
}

/// The files that a pattern names: `*` stands for any part of a name; `policy*/...` and `cpu*/...` begin where sysfs has
/// them.
fn files_of(root: &Root, pattern: &str) -> Result<Vec<String>, HostError> {
    let pattern = if pattern.starts_with('/') {
        pattern.to_owned()
    } else if pattern.starts_with("policy") {
        format!("{CPU}/cpufreq/{pattern}")
    } else if pattern.starts_with("cpu") || pattern.starts_with("intel_pstate") || pattern.starts_with("amd_pstate") {
        format!("{CPU}/{pattern}")
    } else if let Some(name) = pattern.strip_prefix("sysctl:") {
        format!("/proc/sys/{}", name.replace('.', "/"))
    } else {
        let words = format!("--set: `{pattern}` begins with none of /, policy, cpu, intel_pstate, amd_pstate, sysctl:");
        return Err(HostError::Usage(words));
    };
    if pattern.split('/').any(|part| part == "..") || !is_setting(&pattern) {
        let words = format!("--set: {pattern} is no setting: only files below {} are written", SETTINGS.join(", "));
        return Err(HostError::Usage(words));
    }
    let mut found = vec![String::new()];
    for part in pattern.split('/').skip(1) {
        let mut next = Vec::new();
        for folder in found {
            if part.contains('*') {
                let names = root.children(if folder.is_empty() { "/" } else { &folder });
                next.extend(names.iter().filter(|name| is_like(part, name)).map(|name| format!("{folder}/{name}")));
            } else {
                next.push(format!("{folder}/{part}"));
            }
        }
        found = next;
    }
    found.retain(|path| root.has(path));
    if found.is_empty() {
        return Err(HostError::Lacking(format!("--set: no file {pattern} on this host")));
    }
    Ok(found)
}

fn is_like(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => name
            .strip_prefix(head)
            .is_some_and(|rest| (0..=rest.len()).any(|at| rest.get(at..).is_some_and(|rest| is_like(tail, rest)))),
    }
}

#[cfg(test)]
mod tests {
    use opplab_import::SysTree;

    use super::*;

    fn host() -> Root {
        let mut tree = SysTree::default();
        let file = tree.add_file("x");
        for policy in [0, 4] {
            let folder = format!("{CPU}/cpufreq/policy{policy}");
            tree.add(&format!("{folder}/scaling_governor"), "schedutil", file, 1);
            tree.add(&format!("{folder}/scaling_available_governors"), "performance schedutil", file, 1);
            tree.add(&format!("{folder}/scaling_max_freq"), "3000000", file, 1);
        }
        Root::Tree(tree)
    }

    fn names(found: &[Variant]) -> Vec<&str> {
        found.iter().map(|variant| variant.name.as_str()).collect()
    }

    #[test]
    fn variants_have_the_names_that_are_given() {
        let limits = ["policy*/scaling_max_freq=2400000", ""].map(|text| Level::Set(text.to_owned())).to_vec();
        let found = variants(&[limits], &host()).expect("fine");
        let named = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            called(found.clone(), &words)
        };
        assert_eq!(names(&named(&["capped", "free"]).expect("fine")), ["capped", "free"]);
        assert_eq!(names(&named(&[]).expect("fine")), ["policy*/scaling_max_freq=2400000", "as is"]);
        for (wrong, why) in [(&["a"][..], "1 names for 2"), (&["a", "a"], "two variants are called `a`")] {
            assert!(named(wrong).expect_err("wrong").to_string().contains(why));
        }
    }

    #[test]
    fn dimensions_are_crossed() {
        let governors = ["schedutil", "performance"].map(|name| Level::Governor(name.to_owned())).to_vec();
        let limits = ["policy*/scaling_max_freq=2400000", ""].map(|text| Level::Set(text.to_owned())).to_vec();
        let found = variants(&[governors, limits], &host()).expect("fine");
        let limit = "policy*/scaling_max_freq=2400000";
        assert_eq!(
            names(&found),
            [
                format!("schedutil {limit}"),
                "schedutil as is".into(),
                format!("performance {limit}"),
                "performance as is".into()
            ]
        );
        assert_eq!(found[0].writes.len(), 4);
        assert_eq!(found[3].writes.len(), 2);
        assert_eq!(found[0].writes[3], (format!("{CPU}/cpufreq/policy4/scaling_max_freq"), "2400000".to_owned()));
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let check = |level: Level, words: &str| {
            let error = variants(&[vec![level]], &host()).expect_err("wrong").to_string();
            assert!(error.contains(words), "{error}");
        };
        check(Level::Governor("performence".into()), "did you mean `performance`?");
        check(Level::Set("policy*/scaling_maxfreq=1".into()), "no file");
        check(Level::Set("/etc/passwd=x".into()), "is no setting");
        check(Level::Set("/sys/../etc/passwd=x".into()), "is no setting");
        check(Level::Set("policy*/scaling_max_freq".into()), "is not NAME=VALUE");
        check(Level::Set("scaling_max_freq=1".into()), "begins with none of");
        check(Level::Boost(true), "neither");
        check(Level::Epp("power".into()), "not there");
        let twice = vec![Level::Nice(1), Level::Nice(1)];
        assert!(variants(&[twice], &host()).is_err());
    }

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, name, is) in
            [("policy*", "policy12", true), ("*", "x", true), ("a*b*", "axxbyy", true), ("a*b", "axc", false)]
        {
            assert_eq!(is_like(pattern, name), is, "{pattern} {name}");
        }
    }
}
