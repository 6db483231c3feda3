//! What a run changes, remembered on disk before it is changed, and put back.
//!
//! The file outlives every process of a run, so that whoever is left can restore: the worker, the supervisor, or the
//! next `opplab host govern --restore`.

use std::path::Path;
use std::time::Duration;

use opplab_import::read_whole_text;
use opplab_model::tree::{Node, Value, to_json};

use crate::error::HostError;
use crate::json::{Line, optional, parse_line, table};
use crate::root::{CPU, Root};
use crate::whole::{STATE_MAX, write_whole};

/// The settings of a policy that a run may change, in the order of restoring.
const FILES: &[&str] =
    &["scaling_governor", "scaling_max_freq", "scaling_min_freq", "energy_performance_preference", "scaling_setspeed"];

/// How long what was restored may take to be in force: this many looks, so far apart.
const PATIENCE_STEPS: u32 = 200;
const STEP: Duration = Duration::from_millis(5);

/// Folders that settings are in. Nothing else is written.
pub const SETTINGS: [&str; 4] = ["/sys/", "/proc/sys/", "/proc/irq/", "/dev/cpuset/"];

/// Features of the scheduler: each word is written alone.
pub const FEATURES: [&str; 2] = ["/sys/kernel/debug/sched/features", "/sys/kernel/debug/sched_features"];

/// Whether a path is in a folder of settings.
pub fn is_setting(path: &str) -> bool {
    SETTINGS.iter().any(|folder| path.starts_with(folder))
}

/// The settings of one policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyState {
    /// The policy's number.
    pub policy: u32,
    /// File name and content, of those that can be read.
    pub settings: Vec<(String, String)>,
}

/// The settings of all policies of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// The supervisor.
    pub pid: u32,
    /// The boot that it ran in, by the kernel's name for it; a host of files has none.
    pub boot: Option<String>,
    /// The policies.
    pub policies: Vec<PolicyState>,
    /// Other settings: path and content.
    pub files: Vec<(String, String)>,
}

/// The kernel's name for the present boot.
fn boot(root: &Root) -> Option<String> {
    root.text("/proc/sys/kernel/random/boot_id").ok()
}

/// Reads the settings of a policy.
pub fn read_policy(root: &Root, policy: u32) -> PolicyState {
    let read = |name: &&str| {
        let text = root.text(&format!("{CPU}/cpufreq/policy{policy}/{name}")).ok()?;
        Some(((*name).to_owned(), text))
    };
    PolicyState { policy, settings: FILES.iter().filter_map(read).collect() }
}

/// Names and contents of settings that a run may change.
fn read_settings(
    line: &Line<'_>,
    node: &Node,
    what: &str,
    may_change: impl Fn(&str) -> bool,
) -> Result<Vec<(String, String)>, HostError> {
    let Value::Table(entries) = &node.value else {
        return Err(line.fault(node, format!("`{what}` must be a table")));
    };
    let one = |(key, node): &(opplab_model::tree::Key, Node)| {
        let value = node.as_str(&key.name).map_err(|fault| line.fault(node, fault.message))?;
        if !may_change(&key.name) {
            return Err(line.fault(node, format!("`{}` is no setting that a run changes", key.name)));
        }
        Ok((key.name.clone(), value.to_owned()))
    };
    entries.iter().map(one).collect()
}

impl Saved {
    /// Of these policies, as they are.
    pub fn of(root: &Root, policies: &[u32], pid: u32) -> Self {
        Self {
            pid,
            boot: boot(root),
            policies: policies.iter().map(|&policy| read_policy(root, policy)).collect(),
            files: Vec::new(),
        }
    }

    /// The same, with other files as they are; those of its policies are in it already.
    pub fn with_files(mut self, root: &Root, paths: &[String]) -> Self {
        let known = self.all();
        let is_new = |path: &&String| !known.iter().any(|(old, _)| old == *path);
        let one = |path: &String| Some((path.clone(), setting(root, path)?));
        self.files = paths.iter().filter(is_new).filter_map(one).collect();
        self
    }

    /// Path and content of each setting, in the order of restoring.
    pub fn all(&self) -> Vec<(String, String)> {
        let of_policy = |state: &PolicyState| {
            let folder = format!("{CPU}/cpufreq/policy{}", state.policy);
            let one = |(name, value): &(String, String)| (format!("{folder}/{name}"), value.clone());
            state.settings.iter().map(one).collect::<Vec<_>>()
        };
        self.policies.iter().flat_map(of_policy).chain(self.files.iter().cloned()).collect()
    }

    /// The same, with the settings of policies that an earlier run could not put back.
    pub fn with(mut self, left: Vec<PolicyState>) -> Self {
        for state in left {
            self.policies.retain(|known| known.policy != state.policy);
            self.policies.push(state);
        }
        self
    }

    /// Writes it so that it is whole or not there, whatever happens meanwhile.
    ///
    /// # Errors
    /// What the system reported.
    pub fn write(&self, path: &Path) -> Result<(), HostError> {
        let policy = |state: &PolicyState| {
            let settings = state.settings.iter().map(|(name, value)| (name.clone(), Some(Node::str(value))));
            table([("policy", Node::from(state.policy)), ("settings", Node::table(settings))])
        };
        let boot = self.boot.as_ref().map_or_else(|| optional(None), Node::str);
        let policies = Node::list(self.policies.iter().map(policy));
        let files = self.files.iter().map(|(path, value)| (path.clone(), Some(Node::str(value))));
        let files = Node::table(files);
        let node = table([("pid", Node::from(self.pid)), ("boot", boot), ("policies", policies), ("files", files)]);
        write_whole(path, &to_json(&node)).map_err(|error| HostError::io(path.display().to_string(), error))
    }

    /// Reads it; `None` if there is none.
    ///
    /// # Errors
    /// If it is none of ours.
    pub fn read(path: &Path) -> Result<Option<Self>, HostError> {
        let shown = path.display().to_string();
        let text = match read_whole_text(path, STATE_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(HostError::io(shown, error)),
        };
        let node = parse_line(&shown, 1, &text)?;
        let line = Line { file: &shown, number: 1, node: &node };
        let mut policies = Vec::new();
        for node in line.list("policies")? {
            let line = line.at(node);
            let settings = read_settings(&line, line.need("settings")?, "settings", |name| FILES.contains(&name))?;
            policies.push(PolicyState { policy: line.int("policy")?, settings });
        }
        // Files of before have no boot.
        let boot = match line.get("boot").map(|node| &node.value) {
            None | Some(Value::Null) => None,
            Some(_) => Some(line.str("boot")?.to_owned()),
        };
        let files = match line.get("files") {
            None => Vec::new(),
            Some(node) => read_settings(&line, node, "files", is_setting)?,
        };
        Ok(Some(Self { pid: line.int("pid")?, boot, policies, files }))
    }

    /// Whether the host was started anew since: its settings are those of its start then, and nothing is left to restore.
    pub fn is_of_earlier_boot(&self, root: &Root) -> bool {
        matches!((&self.boot, boot(root)), (Some(then), Some(now)) if *then != now)
    }

    /// Puts everything back. Gives the settings that are not as they were, and each of them in words.
    ///
    /// Limits take effect a little later, in a work item of the kernel (cpufreq.c:refresh_frequency_limits_work(),
    /// v6.12): what is read may still be older than what was written. So all is written, whatever is read, and then
    /// looked at until it is in force. What is not is written again, as a CPU may come back meanwhile.
    pub fn restore(&self, root: &Root) -> (Self, Vec<String>) {
        for (path, value) in self.all() {
            // `scaling_setspeed` may only be written under `userspace`; the rest is checked below.
            let _ = write_setting(root, &path, &value);
        }
        for _ in 0..PATIENCE_STEPS {
            let wrong = self.differences(root);
            if wrong.is_empty() {
                break;
            }
            if root.is_real() {
                std::thread::sleep(STEP);
            }
            for ((path, value), _) in wrong {
                let _ = write_setting(root, &path, &value);
            }
        }
        let wrong = self.differences(root);
        let is_wrong = |path: &str| wrong.iter().any(|((known, _), _)| known == path);
        let mut left = self.clone();
        for state in &mut left.policies {
            state.settings.retain(|(name, _)| is_wrong(&format!("{CPU}/cpufreq/policy{}/{name}", state.policy)));
        }
        left.policies.retain(|state| !state.settings.is_empty());
        left.files.retain(|(path, _)| is_wrong(path));
        let words = wrong.iter().map(|((path, value), now)| format!("{path} is {now}, was `{value}`")).collect();
        (left, words)
    }

    /// Path and value of before, and what is there now.
    fn differences(&self, root: &Root) -> Vec<((String, String), String)> {
        let one = |(path, value): (String, String)| {
            let now = match setting(root, &path) {
                Some(now) if now == value => return None,
                Some(now) => format!("`{now}`"),
                None => root.text(&path).err().map_or_else(|| "not there".to_owned(), |missing| missing.words()),
            };
            Some(((path, value), now))
        };
        self.all().into_iter().filter_map(one).collect()
    }
}

/// The value of a setting, as it can be written: of `always [madvise] never` the chosen one.
fn setting(root: &Root, path: &str) -> Option<String> {
    let text = root.text(path).ok()?;
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word.to_owned());
    Some(chosen.unwrap_or(text))
}

/// Writes a setting; each feature of the scheduler alone, as the kernel takes them.
///
/// # Errors
/// What the system reported.
pub(crate) fn write_setting(root: &Root, path: &str, value: &str) -> Result<(), HostError> {
    if FEATURES.contains(&path) {
        return value.split_whitespace().try_for_each(|word| root.write(path, word));
    }
    root.write(path, value)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_was_saved_is_put_back() {
        let folder = std::env::temp_dir().join(format!("opplab-state-{}", std::process::id()));
        let policy = folder.join("sys/devices/system/cpu/cpufreq/policy0");
        fs::create_dir_all(&policy).expect("writable");
        let put = |name: &str, text: &str| fs::write(policy.join(name), text).expect("writable");
        put("scaling_governor", "schedutil\n");
        put("scaling_min_freq", "1000\n");
        put("scaling_max_freq", "2000\n");
        put("scaling_setspeed", "<unsupported>\n");
        let root = Root::Folder(folder.clone());
        let saved = Saved::of(&root, &[0], 7);
        assert_eq!(saved.policies[0].settings.len(), 3);
        let file = folder.join("state.json");
        saved.write(&file).expect("writable");
        assert_eq!(Saved::read(&file).expect("ours"), Some(saved.clone()));
        put("scaling_governor", "userspace");
        put("scaling_min_freq", "2000");
        assert_eq!(saved.restore(&root).1, Vec::<String>::new());
        assert_eq!(read_policy(&root, 0), saved.policies[0]);
        // What an earlier boot remembered is nothing to this one.
        assert!(!saved.is_of_earlier_boot(&root));
        let started = |name: &str| {
            let place = folder.join("proc/sys/kernel/random");
            fs::create_dir_all(&place).expect("writable");
            fs::write(place.join("boot_id"), name).expect("writable");
        };
        started("a\n");
        let saved = Saved::of(&root, &[0], 7);
        saved.write(&file).expect("writable");
        assert_eq!(Saved::read(&file).expect("ours"), Some(saved.clone()));
        assert!(!saved.is_of_earlier_boot(&root));
        started("b\n");
        assert!(saved.is_of_earlier_boot(&root));
        fs::write(&file, "{\"pid\": 1, \"policies\": [{\"policy\": 0, \"settings\": {\"x\": \"1\"}}]}")
            .expect("writable");
        assert!(Saved::read(&file).expect_err("wrong").to_string().contains("no setting that a run changes"));
        fs::remove_dir_all(folder).expect("ours");
    }
}
