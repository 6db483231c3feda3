//! Where a host's files are: the live machine, a copied tree below some folder, a snapshot in one file, or a made
//! machine in memory.
//!
//! Every access of this crate goes through [`Root`], so that a folder of files is a host. What a file means is not
//! known here.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use opplab_import::{SysTree, numbered, source_tree};
use opplab_model::cpus::CpuList;
use opplab_model::cpus::parse_cpu_list;

use crate::error::{HostError, describe};

/// Where CPUs and policies are.
pub const CPU: &str = "/sys/devices/system/cpu";

/// Longest text that is read.
const TEXT_MAX: usize = 8 << 20;

/// A host's files.
#[derive(Debug)]
pub enum Root {
    /// A folder; `/` is the live host.
    Folder(PathBuf),
    /// The texts of a snapshot or a dump.
    Tree(SysTree),
    /// A machine that exists only here.
    Made(Made),
}

/// The files of a made machine, in memory: they can be written as a kernel lets them.
#[derive(Debug, Default)]
pub struct Made {
    files: Mutex<BTreeMap<String, String>>,
}

impl Made {
    /// Puts a file there, whatever the machine would answer.
    pub fn put(&self, path: impl Into<String>, text: impl Into<String>) {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).insert(path.into(), text.into());
    }

    fn get(&self, path: &str) -> Option<String> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }

    fn remove(&self, path: &str) {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
    }

    fn children(&self, path: &str) -> Vec<String> {
        let folder = format!("{}/", path.trim_end_matches('/'));
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let below = files.range(folder.clone()..).map_while(|(path, _)| path.strip_prefix(&folder));
        let mut names: Vec<String> = below.filter_map(|rest| rest.split('/').next()).map(str::to_owned).collect();
        names.dedup();
        names
    }

    /// As sysfs would take it: the file must be there, and a governor must be one that the policy has.
    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        if self.get(path).is_none() {
            return Err(io::ErrorKind::NotFound.into());
        }
        if let Some(folder) = path.strip_suffix("/scaling_governor") {
            let known = self.get(&format!("{folder}/scaling_available_governors")).unwrap_or_default();
            if !known.split_whitespace().any(|word| word == text) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
        }
        self.put(path, text);
        Ok(())
    }
}

/// Why a text is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// No such file: the kernel, the driver or the hardware does not have it, or nobody copied it.
    NoFile,
    /// The system refused it, and what it reported.
    Refused(String),
    /// The file is empty or holds `<unsupported>`.
    Empty,
}

impl Missing {
    /// In words.
    pub fn words(&self) -> String {
        match self {
            Self::NoFile => "not there".to_owned(),
            Self::Refused(words) => format!("refused: {words}"),
            Self::Empty => "empty".to_owned(),
        }
    }
}

impl Root {
    /// The live host.
    pub fn live() -> Self {
        Self::Folder(PathBuf::from("/"))
    }

    /// A folder with `sys` in it, or a snapshot or dump in a file.
    ///
    /// # Errors
    /// If it is neither.
    pub fn open(path: &Path) -> Result<Self, HostError> {
        let meta = fs::metadata(path).map_err(|error| HostError::io(path.display().to_string(), error))?;
        if !meta.is_dir() {
            return Ok(Self::Tree(source_tree(path)?));
        }
        if !path.join("sys").is_dir() && !path.join("proc").is_dir() {
            let message =
                format!("{}: neither sys nor proc in this folder, so it is no copy of a host", path.display());
            return Err(HostError::Lacking(message));
        }
        Ok(Self::Folder(path.to_path_buf()))
    }

    /// Whether this is the live machine.
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Folder(path) if path == Path::new("/"))
    }

    /// Whether its settings take time to be in force, as those of a kernel or of somebody's files do.
    pub fn is_real(&self) -> bool {
        !matches!(self, Self::Made(_))
    }

    /// The file on disk of a path of the host; `None` for a snapshot.
    pub fn file(&self, path: &str) -> Option<PathBuf> {
        match self {
            Self::Folder(folder) => Some(folder.join(path.trim_start_matches('/'))),
            Self::Tree(_) | Self::Made(_) => None,
        }
    }

    /// The open file of a path of the host; `None` for a snapshot. In a copy devices, named pipes and links out of it are
    /// refused, as a pipe waits for its writer.
    pub fn open_file(&self, path: &str) -> Option<io::Result<fs::File>> {
        match self {
            Self::Folder(_) if self.is_live() => self.file(path).map(fs::File::open),
            Self::Folder(folder) => Some(place_in(folder, path).and_then(fs::File::open)),
            Self::Tree(_) | Self::Made(_) => None,
        }
    }

    /// The open folder at a path of the host, to be locked; `None` for a snapshot.
    pub fn open_folder(&self, path: &str) -> Option<io::Result<fs::File>> {
        match self {
            Self::Folder(folder) => Some(folder_in(folder, path).and_then(fs::File::open)),
            Self::Tree(_) | Self::Made(_) => None,
        }
    }

    /// The bytes at `path` as text, with its line ends.
    pub fn raw(&self, path: &str) -> Result<String, Missing> {
        match self {
            Self::Tree(tree) => match tree.text(path) {
                Some(text) => Ok(text.to_owned()),
                None if tree.origin(path).is_some() => Err(Missing::Empty),
                None => Err(Missing::NoFile),
            },
            Self::Made(made) => made.get(path).ok_or(Missing::NoFile),
            Self::Folder(folder) => {
                let bytes =
                    place_in(folder, path).and_then(|place| read_file(&place)).map_err(|error| match error.kind() {
                        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Missing::NoFile,
                        _ => Missing::Refused(describe(&error)),
                    })?;
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            }
        }
    }

    /// The text at `path` without blanks around it.
    pub fn text(&self, path: &str) -> Result<String, Missing> {
        let text = self.raw(path)?;
        let text = text.trim();
        if text.is_empty() || text.starts_with("<unsupported") || text == "<unknown>" {
            return Err(Missing::Empty);
        }
        Ok(text.to_owned())
    }

    /// The whole number at `path`, decimal or `0x`; `None` if there is none.
    pub fn number(&self, path: &str) -> Option<u64> {
        let text = self.text(path).ok()?;
        match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        }
    }

    /// The list of CPUs at `path` (`0,3-5` or with blanks); `None` if there is none.
    pub fn cpus(&self, path: &str) -> Option<CpuList> {
        let text = self.text(path).ok()?;
        let text = text.split_whitespace().collect::<Vec<_>>().join(",");
        parse_cpu_list(&text, Default::default()).ok()
    }

    /// The CPUs that are online: as the kernel lists them, else all that have a folder and are not switched off.
    pub fn online(&self) -> CpuList {
        self.cpus(&format!("{CPU}/online")).unwrap_or_else(|| {
            let mut cpus = self.numbered(CPU, "cpu");
            cpus.retain(|cpu| self.number(&format!("{CPU}/cpu{cpu}/online")) != Some(0));
            cpus
        })
    }

    /// The numbers of the cpufreq policies, ascending.
    pub fn policies(&self) -> Vec<u32> {
        self.numbered(&format!("{CPU}/cpufreq"), "policy")
    }

    /// Whether there is a file or folder at `path`.
    pub fn has(&self, path: &str) -> bool {
        match self {
            Self::Folder(folder) => folder_in(folder, path).is_ok(),
            Self::Tree(tree) => tree.origin(path).is_some() || !tree.children(path).is_empty(),
            Self::Made(made) => made.get(path).is_some() || !made.children(path).is_empty(),
        }
    }

    /// The names right below a folder, in order.
    pub fn children(&self, path: &str) -> Vec<String> {
        match self {
            Self::Tree(tree) => tree.children(path),
            Self::Made(made) => made.children(path),
            Self::Folder(folder) => {
                let Ok(entries) = folder_in(folder, path).and_then(fs::read_dir) else { return Vec::new() };
                let mut names: Vec<String> =
                    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
                names.sort();
                names
            }
        }
    }

    /// The numbers N of the entries `stem`N right below a folder, ascending.
    pub fn numbered(&self, path: &str, stem: &str) -> Vec<u32> {
        numbered(&self.children(path), stem)
    }

    /// Makes a file, or gives it new bytes, and waits until they are on the disk.
    ///
    /// # Errors
    /// What the system reported, or that this is a snapshot.
    pub fn create(&self, path: &str, bytes: &[u8]) -> Result<(), HostError> {
        if let Self::Made(made) = self {
            made.put(path, String::from_utf8_lossy(bytes));
            return Ok(());
        }
        let Some(file) = self.file(path) else {
            return Err(HostError::Lacking(format!("{path}: a snapshot cannot be written")));
        };
        let write = || -> io::Result<()> {
            if let Some(folder) = file.parent() {
                fs::create_dir_all(folder)?;
            }
            let mut file = fs::File::create(&file)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        write().map_err(|error| HostError::io(format!("writing {path}"), error))
    }

    /// Removes a file; one that is not there is no mistake.
    ///
    /// # Errors
    /// What the system reported.
    pub fn remove(&self, path: &str) -> Result<(), HostError> {
        if let Self::Made(made) = self {
            made.remove(path);
        }
        match self.file(path).map(fs::remove_file) {
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => {
                Err(HostError::io(format!("removing {path}"), error))
            }
            _ => Ok(()),
        }
    }

    /// Writes a setting, in one write as sysfs wants it.
    ///
    /// # Errors
    /// What the system reported, or that this is a snapshot.
    pub fn write(&self, path: &str, text: &str) -> Result<(), HostError> {
        if let Self::Made(made) = self {
            let wrong = |error| HostError::io(format!("writing `{text}` to {path}"), error);
            return made.write(path, text).map_err(wrong);
        }
        let Some(file) = self.file(path) else {
            return Err(HostError::Lacking(format!("{path}: a snapshot cannot be written")));
        };
        let write = || -> io::Result<()> {
            // A link of a copied tree may lead to this machine's own settings.
            let file = match self {
                Self::Folder(folder) if !self.is_live() => place_in(folder, path)?,
                _ => file,
            };
            let mut file = fs::OpenOptions::new().write(true).truncate(true).open(file)?;
            file.write_all(text.as_bytes())
        };
        write().map_err(|error| HostError::io(format!("writing `{text}` to {path}"), error))
    }
}

/// Where `path` of the host is on disk. In a copy of a host no link may lead out of the copy.
fn folder_in(folder: &Path, path: &str) -> io::Result<PathBuf> {
    let place = folder.join(path.trim_start_matches('/'));
    if folder == Path::new("/") {
        return fs::metadata(&place).map(|_| place);
    }
    let place = place.canonicalize()?;
    if !place.starts_with(folder.canonicalize()?) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a link that leads out of the copy"));
    }
    Ok(place)
}

/// The same of a file: devices have no end, and a named pipe waits for its writer.
fn place_in(folder: &Path, path: &str) -> io::Result<PathBuf> {
    let place = folder_in(folder, path)?;
    if fs::metadata(&place)?.is_file() {
        Ok(place)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a file nor a setting"))
    }
}

/// Reads a file with large reads: some of the kernel's (tracefs `header_page`) give their all in the first read and
/// nothing after it, and `fs::read` begins with a small one.
pub(crate) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = fs::File::open(path)?;
    let mut bytes = Vec::new();
    let mut part = vec![0u8; 64 << 10];
    while bytes.len() < TEXT_MAX {
        match file.read(&mut part) {
            Ok(0) => break,
            Ok(n_bytes) => bytes.extend_from_slice(&part[..n_bytes]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(TEXT_MAX);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a copied tree of somebody else neither shows files of this machine nor hangs.
    #[test]
    fn a_copy_stays_in_its_folder() {
        let folder = std::env::temp_dir().join(format!("opplab-root-{}", std::process::id()));
        let cpu = folder.join("sys/devices/system/cpu");
        fs::create_dir_all(&cpu).expect("writable");
        fs::write(cpu.join("online"), "0-1\n").expect("writable");
        std::os::unix::fs::symlink("online", cpu.join("possible")).expect("writable");
        std::os::unix::fs::symlink("/etc/hostname", cpu.join("present")).expect("writable");
        std::os::unix::fs::symlink("/dev/zero", cpu.join("kernel_max")).expect("writable");
        std::os::unix::fs::symlink("/proc", cpu.join("cpufreq")).expect("writable");
        let piped = std::process::Command::new("mkfifo").arg(cpu.join("isolated")).status().is_ok();
        let root = Root::open(&folder).expect("a copy");
        assert_eq!(root.raw(&format!("{CPU}/online")).as_deref(), Ok("0-1\n"));
        assert_eq!(root.raw(&format!("{CPU}/possible")).as_deref(), Ok("0-1\n"));
        assert!(root.open_file(&format!("{CPU}/possible")).is_some_and(|file| file.is_ok()));
        for name in ["present", "kernel_max"] {
            assert!(matches!(root.raw(&format!("{CPU}/{name}")), Err(Missing::Refused(_))), "{name}");
            assert!(!root.has(&format!("{CPU}/{name}")), "{name}");
        }
        assert!(root.children(&format!("{CPU}/cpufreq")).is_empty());
        if piped {
            assert!(matches!(root.raw(&format!("{CPU}/isolated")), Err(Missing::Refused(_))));
            assert!(root.open_file(&format!("{CPU}/isolated")).is_some_and(|file| file.is_err()));
        }
        fs::remove_dir_all(&folder).expect("writable");
    }

    #[test]
    fn a_snapshot_is_a_host() {
        let mut tree = SysTree::default();
        let file = tree.add_file("x");
        for (path, text) in [
            ("/sys/devices/system/cpu/cpu0/online", "1"),
            ("/sys/devices/system/cpu/cpu1/online", "0"),
            ("/sys/devices/system/cpu/cpu2/topology/core_id", "2"),
            ("/sys/devices/system/cpu/cpufreq/policy0/scaling_setspeed", "<unsupported>"),
            ("/sys/devices/system/cpu/cpufreq/policy0/related_cpus", "0 1"),
        ] {
            tree.add(path, text, file, 1);
        }
        let root = Root::Tree(tree);
        assert_eq!(root.online(), [0, 2]);
        assert_eq!(root.policies(), [0]);
        assert_eq!(root.cpus(&format!("{CPU}/cpufreq/policy0/related_cpus")), Some(vec![0, 1]));
        assert_eq!(root.text(&format!("{CPU}/cpufreq/policy0/scaling_setspeed")), Err(Missing::Empty));
        assert_eq!(root.text("/none"), Err(Missing::NoFile));
        assert!(root.write("/x", "1").is_err());
    }
}
