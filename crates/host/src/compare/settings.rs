//! The settings of variants: what was there before, what a variant writes, and everything as it was afterwards.
//!
//! Each variant begins from what was there before: a file that only another variant writes has its old value.

use std::time::Duration;

use super::variants::Variant;
use crate::error::HostError;
use crate::govern::state::{FEATURES, Saved, write_setting};
use crate::root::{CPU, Root};

/// Looks until what was written is in force, and the time between them.
const LOOKS: u32 = 40;
const LOOK: Duration = Duration::from_millis(5);

/// The settings of an experiment.
#[derive(Debug)]
pub struct Settings {
    /// What was there before.
    pub saved: Saved,
    /// What the variant in force asked for and got.
    held: Vec<(String, String)>,
}

/// The files that variants write.
pub fn files(variants: &[Variant]) -> Vec<String> {
    let mut files: Vec<String> = Vec::new();
    for (file, _) in variants.iter().flat_map(|variant| &variant.writes) {
        if !files.contains(file) {
            files.push(file.clone());
        }
    }
    files
}

/// Policies whose governor a variant sets: what hangs on it is saved, too.
fn governed(files: &[String]) -> Vec<u32> {
    let number = |file: &String| {
        let rest = file.strip_prefix(&format!("{CPU}/cpufreq/policy"))?;
        rest.strip_suffix("/scaling_governor")?.parse().ok()
    };
    files.iter().filter_map(number).collect()
}

impl Settings {
    /// Of the variants, as they are.
    ///
    /// # Errors
    /// A file that cannot be read cannot be put back.
    pub fn of(root: &Root, variants: &[Variant], pid: u32) -> Result<Self, HostError> {
        let files = files(variants);
        let policies = governed(&files);
        let mut paths: Vec<String> = files.clone();
        for policy in &policies {
            let folder = format!("{CPU}/cpufreq/policy{policy}");
            let governor = root.text(&format!("{folder}/scaling_governor")).unwrap_or_default();
            // The kernel frees the tunables of a governor that nothing uses.
            for folder in [format!("{folder}/{governor}"), format!("{CPU}/cpufreq/{governor}")] {
                for name in root.children(&folder) {
                    let path = format!("{folder}/{name}");
                    if !paths.contains(&path) && root.text(&path).is_ok() {
                        paths.push(path);
                    }
                }
            }
        }
        for path in &files {
            root.text(path).map_err(|why| HostError::Lacking(format!("{path}: {}", why.words())))?;
        }
        Ok(Self { saved: Saved::of(root, &policies, pid).with_files(root, &paths), held: Vec::new() })
    }

    /// Puts a variant in force.
    ///
    /// # Errors
    /// If the host refuses a setting that the variant asks for.
    pub fn apply(&mut self, root: &Root, variant: &Variant) -> Result<(), HostError> {
        let mut wanted = self.saved.all();
        for (path, value) in &variant.writes {
            match wanted.iter_mut().find(|(known, _)| known == path) {
                Some((_, old)) => old.clone_from(value),
                None => wanted.push((path.clone(), value.clone())),
            }
        }
        let is_asked = |path: &str| variant.writes.iter().any(|(known, _)| known == path);
        // `scaling_setspeed` may only be written under `userspace`.
        wanted.retain(|(path, _)| is_asked(path) || (!path.ends_with("/scaling_setspeed") && root.has(path)));
        let is_as = |path: &str, value: &str| is_in_force(root, path, value);
        let mut refused = None;
        for look in 0..LOOKS {
            // A minimum above the old maximum is refused until the maximum is written: what failed is written again.
            refused = None;
            for (path, value) in &wanted {
                if is_as(path, value) {
                    continue;
                }
                if let Err(error) = write_setting(root, path, value)
                    && is_asked(path)
                {
                    refused = Some(error);
                }
            }
            let is_done = wanted.iter().all(|(path, value)| !is_asked(path) || is_as(path, value));
            if is_done && (look > 0 || wanted.iter().all(|(path, value)| is_as(path, value))) {
                break;
            }
            if root.is_real() {
                std::thread::sleep(LOOK);
            }
        }
        if let Some(error) = refused {
            return Err(error);
        }
        self.held.clear();
        for (path, value) in &variant.writes {
            let now = root.text(path).unwrap_or_default();
            let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            // A frequency becomes one that the hardware has; a name is what was asked for or is refused.
            let is_rounded = is_number(&now) && is_number(value);
            if !is_as(path, value) && !is_rounded {
                let name = &variant.name;
                return Err(HostError::Lacking(format!("`{name}`: {path} is `{now}` after `{value}` was written")));
            }
            self.held.push((path.clone(), now));
        }
        Ok(())
    }

    /// The setting that somebody else changed since the variant was put in force.
    pub fn changed(&self, root: &Root) -> Option<String> {
        let wrong = self.held.iter().find(|(path, value)| root.text(path).as_deref() != Ok(value));
        wrong.map(|(path, _)| format!("somebody changed {path}"))
    }
}

fn is_in_force(root: &Root, path: &str, value: &str) -> bool {
    let Ok(now) = root.text(path) else { return false };
    if FEATURES.contains(&path) {
        return value.split_whitespace().all(|word| now.split_whitespace().any(|known| known == word));
    }
    // `[always] madvise never` is `always`.
    let chosen = now.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word);
    now == value.trim() || chosen == Some(value.trim())
}
