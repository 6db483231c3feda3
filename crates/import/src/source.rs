//! The rim: paths are opened here, and what kind of source something is, is found by looking at it.

use std::io::{self, Read as _};
#[cfg(unix)]
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::error::ImportError;
use crate::facts::{Facts, SourceKind};
use crate::tree::{CPU, SysTree};
use crate::{cpuinfo, dtb, dts, energy_model, pepc, platinfo, snapshot, sysfs, turbostat, wattson};

/// Why nothing was imported: the file could not be read, or its content is wrong.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The system refused.
    #[error("failed to read {0}: {1}")]
    Io(String, #[source] io::Error),
    /// The source is wrong.
    #[error(transparent)]
    Import(#[from] ImportError),
}

/// Most bytes that a single file may have.
const FILE_MAX: u64 = 256 << 20;

/// The snapshot of sysfs beside a recorded trace.
pub const SYSFS: &str = "sysfs_before.txt";

/// Imports a file or a folder. A folder is a copied tree with `sys` (and `proc`) in it, `/` for the live host, the
/// kernel's `energy_model`, Wattson's tables of one device, or a recording with its [`SYSFS`]. Beside a snapshot
/// `sysfs_NAME.txt` its companions `debugfs_NAME.txt` and `cpuinfo.txt` are read too.
///
/// # Errors
/// [`SourceError`].
pub fn import(path: &Path) -> Result<Facts, SourceError> {
    let shown = path.display().to_string();
    let meta = std::fs::metadata(path).map_err(|error| SourceError::Io(shown.clone(), error))?;
    if meta.is_dir() {
        return match path.join(SYSFS) {
            snapshot if snapshot.is_file() => import(&snapshot),
            _ => folder(path, &shown),
        };
    }
    let bytes = read(path)?;
    let text = std::str::from_utf8(&bytes).unwrap_or("");
    if snapshot::sniff(text) {
        let beside = |name: &str| -> Option<(String, String)> {
            let other = path.with_file_name(name);
            Some((other.display().to_string(), read_whole_text(&other, FILE_MAX).ok()?))
        };
        let own = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let debugfs = beside(&own.replacen("sysfs", "debugfs", 1)).filter(|(file, _)| *file != shown);
        let cpuinfo = beside("cpuinfo.txt");
        // The folder's name is the machine's; the file is called alike everywhere.
        let parent = path.parent().map(|parent| stem(&parent.display().to_string())).unwrap_or_default();
        let name = if own.starts_with("sysfs") && !parent.is_empty() { parent } else { stem(&shown) };
        return Ok(snapshot::import(
            &name,
            &shown,
            text,
            debugfs.as_ref().map(|(file, text)| (file.as_str(), text.as_str())),
            cpuinfo.as_ref().map(|(file, text)| (file.as_str(), text.as_str())),
        )?);
    }
    Ok(import_bytes(&shown, &bytes)?)
}

/// The texts of a snapshot or a dump as they stood on the machine, without meaning: `/sys/...`, `/proc/cpuinfo`,
/// `/proc/version`; debugfs is below `/sys/kernel/debug`. A folder has its own tree and is refused.
///
/// # Errors
/// [`SourceError`]; also if the source is neither.
pub fn source_tree(path: &Path) -> Result<SysTree, SourceError> {
    let shown = path.display().to_string();
    let bytes = read(path)?;
    let mut tree = SysTree::default();
    if pepc::sniff(&bytes) {
        pepc::tree(&shown, &bytes, &mut tree)?;
        return Ok(tree);
    }
    let text = std::str::from_utf8(&bytes).unwrap_or("");
    if !snapshot::sniff(text) {
        return Err(ImportError::whole(&shown, "neither a folder with sys in it, nor a snapshot, nor a dump").into());
    }
    snapshot::read(&shown, text, "/", &mut tree)?;
    let own = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let beside = |name: &str| -> Option<(String, String)> {
        let other = path.with_file_name(name);
        (other != path).then_some(())?;
        Some((other.display().to_string(), read_whole_text(&other, FILE_MAX).ok()?))
    };
    if let Some((file, text)) = beside(&own.replacen("sysfs", "debugfs", 1)) {
        snapshot::read(&file, &text, "/sys/kernel/debug/", &mut tree)?;
    }
    for (name, place) in [("cpuinfo.txt", "/proc/cpuinfo"), ("uname.txt", "/proc/version")] {
        if let Some((file, text)) = beside(name) {
            let number = tree.add_file(&file);
            tree.add(place, text.trim_end(), number, 1);
        }
    }
    Ok(tree)
}

fn read(path: &Path) -> Result<Vec<u8>, SourceError> {
    let whole = read_whole(path, FILE_MAX).and_then(unpacked);
    whole.map_err(|error| SourceError::Io(path.display().to_string(), error))
}

/// What gzip packed, as far as a file may be long; anything else as it is.
fn unpacked(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes);
    }
    let mut out = Vec::new();
    flate2::read::MultiGzDecoder::new(&bytes[..]).take(FILE_MAX + 1).read_to_end(&mut out)?;
    if out.len() as u64 > FILE_MAX {
        return Err(too_large(FILE_MAX));
    }
    Ok(out)
}

fn too_large(max: u64) -> io::Error {
    let words = format!("is larger than the {max} bytes that are read of such a file");
    io::Error::new(io::ErrorKind::InvalidInput, words)
}

/// The whole of a file of at most `max` bytes. Devices have no end, and a named pipe waits for its writer: they are
/// refused.
///
/// # Errors
/// The system's error, or why the file is not read.
pub fn read_whole(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
    let meta = std::fs::metadata(path)?;
    if meta.is_dir() {
        return Err(io::Error::from_raw_os_error(IS_A_FOLDER));
    }
    if !meta.is_file() {
        return Err(wrong("is a device or a named pipe, not a file".to_owned()));
    }
    let mut bytes = Vec::new();
    // What is in /proc has no length.
    if meta.len() <= max {
        // What waits for news, as /proc/kmsg, has nothing to give.
        let mut options = std::fs::File::options();
        #[cfg(unix)]
        options.custom_flags(O_NONBLOCK);
        let file = options.read(true).open(path)?;
        file.take(max + 1).read_to_end(&mut bytes)?;
    }
    if meta.len().max(bytes.len() as u64) > max {
        return Err(too_large(max));
    }
    Ok(bytes)
}

/// The same as text.
///
/// # Errors
/// As [`read_whole`], and for what is not UTF-8.
pub fn read_whole_text(path: &Path, max: u64) -> io::Result<String> {
    let bytes = read_whole(path, max)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "is not UTF-8 text"))
}

/// O_NONBLOCK of Linux.
#[cfg(unix)]
const O_NONBLOCK: i32 = 0o4000;

/// EISDIR of Linux.
const IS_A_FOLDER: i32 = 21;

/// Imports the bytes of a file called `file`.
///
/// # Errors
/// What is wrong and where; also if it is of no known kind.
pub fn import_bytes(file: &str, bytes: &[u8]) -> Result<Facts, ImportError> {
    let name = stem(file);
    if pepc::sniff(bytes) {
        return pepc::import(&name, file, bytes);
    }
    if bytes.starts_with(&dtb::MAGIC.to_be_bytes()) {
        return dtb::import(&name, file, bytes);
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| ImportError::byte(file, error.valid_up_to(), format!("not text, and {KNOWN}")))?;
    if dts::sniff(text) {
        dts::import(&name, file, text)
    } else if energy_model::sniff(text) {
        energy_model::import_grep(&name, file, text)
    } else if snapshot::sniff(text) {
        snapshot::import(&name, file, text, None, None)
    } else if wattson::sniff(text) {
        wattson::import(&name, file, &[(file.to_owned(), text.to_owned())])
    } else if platinfo::sniff(text) {
        platinfo::import(&name, file, text)
    } else if turbostat::sniff(text) {
        turbostat::import(&name, file, text)
    } else {
        Err(ImportError::whole(file, KNOWN))
    }
}

const KNOWN: &str = "not a kind of source that is known (machine dump .tar.xz, sysfs snapshot, turbostat log, device \
                     tree .dtb or .dts, energy_model of `grep -r`, plat_info.yml, Wattson table)";

/// The file's name without its ending.
pub(crate) fn stem(file: &str) -> String {
    let name = file.rsplit('/').find(|part| !part.is_empty()).unwrap_or("host");
    let short = name.split_once('.').map_or(name, |(short, _)| short);
    if short.is_empty() { name.to_owned() } else { short.to_owned() }
}

/// Folders of `/sys` that are read, relative to the tree's root.
const SYS_FOLDERS: &[&str] = &[
    "sys/devices/system/cpu",
    "sys/devices/system/node",
    "sys/devices/cpu_core",
    "sys/devices/cpu_atom",
    "sys/devices/cpu_lowpower",
    "sys/class/powercap/intel-rapl:0",
];

/// Longest text in `/sys` that is read (a page, and some for copied files).
const TEXT_MAX: u64 = 64 << 10;

fn folder(path: &Path, shown: &str) -> Result<Facts, SourceError> {
    let mut tree = SysTree::default();
    let tables: Vec<_> =
        ["cpu_1d.csv", "cpu_2d.csv"].iter().map(|name| path.join(name)).filter(|p| p.is_file()).collect();
    if !tables.is_empty() {
        let mut texts = Vec::new();
        for table in tables {
            let file = table.display().to_string();
            let text = String::from_utf8(read(&table)?)
                .map_err(|error| ImportError::byte(&file, error.utf8_error().valid_up_to(), "not UTF-8 text"))?;
            texts.push((file, text));
        }
        return Ok(wattson::import(&stem(shown), shown, &texts)?);
    }
    if ["cpu0/cpus", "pd0/cpus"].iter().any(|name| path.join(name).is_file()) {
        read_folder(path, energy_model::FOLDER, &mut tree, 0)?;
        return Ok(energy_model::import(&stem(shown), shown, &tree)?);
    }
    if !path.join("sys/devices/system/cpu").is_dir() {
        return Err(ImportError::whole(
            shown,
            "neither sys/devices/system/cpu, nor cpu0/cpus, nor cpu_1d.csv in this folder",
        )
        .into());
    }
    for folder in SYS_FOLDERS {
        read_folder(&path.join(folder), &format!("/{folder}"), &mut tree, 0)?;
    }
    read_file(&path.join(sysfs::PM_PROFILE.trim_start_matches('/')), sysfs::PM_PROFILE, &mut tree);
    let name = if path == Path::new("/") { host_name() } else { stem(shown) };
    let mut facts = Facts::new(&name, SourceKind::Tree, shown);
    sysfs::read(&tree, &mut facts)?;
    let debugfs = path.join("sys/kernel/debug/energy_model");
    if debugfs.is_dir() {
        read_folder(&debugfs, energy_model::FOLDER, &mut tree, 0)?;
        energy_model::read(&tree, energy_model::FOLDER, &mut facts)?;
    }
    // A copy may have links that lead out of it.
    let read = |name: &str| {
        let file = path.join(name);
        let linked = path != Path::new("/") && file.is_symlink();
        if linked { None } else { read_whole_text(&file, FILE_MAX).ok() }
    };
    if let Some(text) = read("proc/cpuinfo") {
        cpuinfo::read(&path.join("proc/cpuinfo").display().to_string(), &text, &mut facts)?;
    }
    facts.kernel = read("proc/version").map(|text| text.trim().to_owned());
    Ok(facts)
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "host".to_owned() } else { name.trim().to_owned() }
}

/// Reads small texts below `folder`. What cannot be read (write-only, gone, refused) is not there.
fn read_folder(folder: &Path, shown: &str, tree: &mut SysTree, depth: u32) -> Result<(), SourceError> {
    // /sys/devices/system/cpu/cpuN/cpuidle/stateM/... is as deep as it gets; links are not followed below the top.
    if depth > 5 {
        return Ok(());
    }
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = entry.path();
        let child = format!("{shown}/{name}");
        let Ok(meta) = path.symlink_metadata() else { continue };
        if meta.is_dir() {
            read_folder(&path, &child, tree, depth + 1)?;
        } else if is_wanted(&child) {
            read_file(&path, &child, tree);
        }
    }
    Ok(())
}

/// Reads one small text; links are not followed.
fn read_file(path: &Path, shown: &str, tree: &mut SysTree) {
    let is_small = |meta: std::fs::Metadata| meta.is_file() && meta.len() <= TEXT_MAX;
    if !path.symlink_metadata().is_ok_and(is_small) {
        return;
    }
    if let Ok(text) = std::fs::read_to_string(path) {
        let file = tree.add_file(&path.display().to_string());
        tree.add(shown, text.trim_end(), file, 1);
    }
}

/// Files without use here, of which there are many.
fn is_wanted(path: &str) -> bool {
    let per_cpu = path.strip_prefix(CPU).unwrap_or("");
    !["/cache/", "/stats/", "/microcode/", "/crash_notes", "/hotplug/", "/thermal_throttle/", "/mce"]
        .iter()
        .any(|part| per_cpu.contains(part))
        || path.ends_with("shared_cpu_list")
}
