//! Files of our own that are there whole or not at all, whatever happens while they are written.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use crate::error::HostError;

/// The most that is read of a file of remembered settings: the largest machines need some hundred kB.
pub(crate) const STATE_MAX: u64 = 16 << 20;

/// The most that is read of a log of `govern`.
pub(crate) const LOG_MAX: u64 = 1 << 30;

/// Writes a file into a folder that is there; when this returns, content and name are on the disk.
///
/// # Errors
/// What the system reported.
pub(crate) fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let fresh = path.with_extension("new");
    let mut file = File::create(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(fresh, path)?;
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Refuses a folder of somebody else: it has files, and none of `ours`.
///
/// # Errors
/// If it is one.
pub(crate) fn own_folder(folder: &Path, ours: &[&str]) -> Result<(), HostError> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    let names: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.file_name()).collect();
    if names.is_empty() || names.iter().any(|name| ours.iter().any(|own| name == own)) {
        return Ok(());
    }
    Err(HostError::Usage(format!(
        "{} holds other files and is no folder of this command; give another -o",
        folder.display()
    )))
}
