//! Snapshots in one text: `path: value|` a line, where `|` ends each line of the value. A second text of the same form
//! may hold debugfs (`energy_model/...`).

use crate::error::{ImportError, shorten};
use crate::facts::{Facts, SourceKind};
use crate::tree::SysTree;
use crate::{cpuinfo, energy_model, sysfs};

/// Whether `text` begins as a snapshot of `/sys` does.
pub(crate) fn sniff(text: &str) -> bool {
    text.starts_with("/sys/") && text.lines().next().is_some_and(|line| line.contains(": ") && line.ends_with('|'))
}

/// Reads a snapshot into a tree; paths that do not begin with `/` get `prefix` before them.
pub(crate) fn read(file: &str, text: &str, prefix: &str, tree: &mut SysTree) -> Result<(), ImportError> {
    let number = tree.add_file(file);
    for (index, line) in text.lines().enumerate() {
        if line.is_empty() {
            continue;
        }
        // What could not be read has nothing after the colon.
        let Some((path, value)) = line.split_once(": ").or_else(|| line.strip_suffix(':').map(|path| (path, "")))
        else {
            let message = format!("`{}` is not `path: value|`: is the file cut off?", shorten(line));
            return Err(ImportError::line(file, index + 1, message));
        };
        let path = if path.starts_with('/') { path.to_owned() } else { format!("{prefix}{path}") };
        if tree.entry(&path).is_some() {
            return Err(ImportError::line(file, index + 1, format!("{path} is given a second time")));
        }
        tree.add(&path, &value.trim_end_matches('|').replace('|', "\n"), number, index as u32 + 1);
    }
    Ok(())
}

/// Imports the snapshot `text` of a machine called `name`; `debugfs` and `cpuinfo_text` are texts that were taken with it,
/// with their files' names.
///
/// # Errors
/// What is wrong and where.
pub fn import(
    name: &str,
    file: &str,
    text: &str,
    debugfs: Option<(&str, &str)>,
    cpuinfo_text: Option<(&str, &str)>,
) -> Result<Facts, ImportError> {
    let mut facts = Facts::new(name, SourceKind::Snapshot, file);
    let mut tree = SysTree::default();
    read(file, text, "/", &mut tree)?;
    if let Some((file, text)) = debugfs {
        read(file, text, "/", &mut tree)?;
    }
    sysfs::read(&tree, &mut facts)?;
    energy_model::read(&tree, energy_model::FOLDER, &mut facts)?;
    if let Some((file, text)) = cpuinfo_text {
        cpuinfo::read(file, text, &mut facts)?;
    }
    Ok(facts)
}
