//! Machine dumps as the pepc project's emulation data have them: a tar (xz or not) with
//! `NAME/sys/inlinefiles.txt` (`ro|path|value` or `rw|path|value` a line; further lines of a value repeat the path),
//! `NAME/proc/cpuinfo`, `NAME/proc/version` and, on Intel, `NAME/msr/msr.txt`.

use std::io::Read as _;

use crate::error::{ImportError, shorten};
use crate::facts::{Facts, SourceKind};
use crate::tree::SysTree;
use crate::{cpuinfo, msr, sysfs};

/// Most bytes that a packed dump may unpack to; real ones have 3 MB.
#[cfg(not(target_arch = "wasm32"))]
const UNPACKED_MAX: u64 = 256 << 20;

const XZ_MAGIC: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];

/// Whether `bytes` begin as a packed or plain tar does.
pub(crate) fn sniff(bytes: &[u8]) -> bool {
    bytes.starts_with(XZ_MAGIC) || bytes.get(257..262) == Some(b"ustar")
}

/// No C library can be in a browser's module.
#[cfg(target_arch = "wasm32")]
fn unpack(file: &str, _bytes: &[u8]) -> Result<Vec<u8>, ImportError> {
    Err(ImportError::whole(file, "xz is not unpacked in a browser; unpack it first".to_owned()))
}

#[cfg(not(target_arch = "wasm32"))]
fn unpack(file: &str, bytes: &[u8]) -> Result<Vec<u8>, ImportError> {
    let mut out = Vec::new();
    let mut reader = liblzma::read::XzDecoder::new(bytes).take(UNPACKED_MAX + 1);
    reader.read_to_end(&mut out).map_err(|error| {
        let message = format!("the xz stream is broken or cut off after {} unpacked bytes ({error})", out.len());
        ImportError::byte(file, bytes.len(), message)
    })?;
    if out.len() as u64 > UNPACKED_MAX {
        return Err(ImportError::whole(file, format!("it unpacks to more than {UNPACKED_MAX} bytes")));
    }
    Ok(out)
}

/// The texts of a dump that matter.
#[derive(Default)]
struct Members {
    sys: Option<(String, String)>,
    cpuinfo: Option<(String, String)>,
    version: Option<String>,
    msr: Option<(String, String)>,
    name: Option<String>,
}

fn members(file: &str, bytes: &[u8]) -> Result<Members, ImportError> {
    let unpacked;
    let tar_bytes = if bytes.starts_with(XZ_MAGIC) {
        unpacked = unpack(file, bytes)?;
        &unpacked[..]
    } else {
        bytes
    };
    let mut found = Members::default();
    let mut archive = tar::Archive::new(tar_bytes);
    let broken =
        |error: std::io::Error| ImportError::whole(file, format!("the tar archive is broken or cut off ({error})"));
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let parts: Vec<&str> = path.trim_start_matches("./").split('/').collect();
        let [.., folder, name] = parts[..] else { continue };
        let slot = (folder, name);
        if !matches!(slot, ("sys", "inlinefiles.txt") | ("proc", "cpuinfo" | "version") | ("msr", "msr.txt")) {
            continue;
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(broken)?;
        if (bytes.len() as u64) < entry.size() {
            let message = format!("{path} is cut off: {} of {} bytes are there", bytes.len(), entry.size());
            return Err(ImportError::whole(file, message));
        }
        let member = format!("{file}!{path}");
        let text = String::from_utf8(bytes)
            .map_err(|error| ImportError::byte(&member, error.utf8_error().valid_up_to(), "not UTF-8 text"))?;
        if parts.len() >= 3 {
            found.name = Some(parts[parts.len() - 3].to_owned());
        }
        match slot {
            ("sys", _) => found.sys = Some((member, text)),
            ("proc", "cpuinfo") => found.cpuinfo = Some((member, text)),
            ("proc", _) => found.version = Some(text),
            _ => found.msr = Some((member, text)),
        }
    }
    Ok(found)
}

/// Files whose values move while the machine runs; nothing is made of them.
const VOLATILE: &[&str] = &[
    "above",
    "below",
    "cpuinfo_avg_freq",
    "cpuinfo_cur_freq",
    "current_freq_khz",
    "feedback_ctrs",
    "low_power_idle_cpu_residency_us",
    "low_power_idle_system_residency_us",
    "rejected",
    "scaling_cur_freq",
    "time",
    "time_in_state",
    "total_trans",
    "trans_table",
    "usage",
];

/// Reads `inlinefiles.txt` into a tree. A path may be given twice with the same value, as dumps do.
pub(crate) fn inline_files(file: &str, text: &str, tree: &mut SysTree) -> Result<(), ImportError> {
    let number = tree.add_file(file);
    let mut lines = text.lines().enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (path, value) = inline_line(file, index, line)?;
        // Further lines of the same value.
        let mut value = value.to_owned();
        while let Some((index, line)) = lines.next_if(|(_, line)| same_path(line, path)) {
            value.push('\n');
            value.push_str(inline_line(file, index, line)?.1);
        }
        if VOLATILE.iter().any(|name| path.rsplit('/').next() == Some(name)) {
            continue;
        }
        match tree.entry(path) {
            None => tree.add(path, &value, number, index as u32 + 1),
            Some(earlier) if earlier.text == value => {}
            Some(earlier) => {
                let message = format!(
                    "{path} is `{}`, but `{}` in line {}",
                    shorten(&value),
                    shorten(&earlier.text),
                    earlier.line
                );
                return Err(ImportError::line(file, index + 1, message));
            }
        }
    }
    Ok(())
}

/// Path and value of a line.
fn inline_line<'a>(file: &str, index: usize, line: &'a str) -> Result<(&'a str, &'a str), ImportError> {
    let mut parts = line.splitn(3, '|');
    let (mode, path, value) = (parts.next().unwrap_or(""), parts.next(), parts.next());
    let (Some(path), Some(value)) = (path, value) else {
        let message = format!("`{}` is not `ro|path|value`: is the file cut off?", shorten(line));
        return Err(ImportError::line(file, index + 1, message));
    };
    if !matches!(mode, "ro" | "rw" | "wo") || !path.starts_with('/') {
        let message = format!("`{}` does not begin with `ro|/` or `rw|/`", shorten(line));
        return Err(ImportError::line(file, index + 1, message));
    }
    Ok((path, value))
}

fn same_path(line: &str, path: &str) -> bool {
    line.split('|').nth(1) == Some(path)
}

/// Reads a dump's texts into a tree, without meaning.
pub(crate) fn tree(file: &str, bytes: &[u8], tree: &mut SysTree) -> Result<(), ImportError> {
    let members = members(file, bytes)?;
    if let Some((sys_file, sys_text)) = &members.sys {
        inline_files(sys_file, sys_text, tree)?;
    }
    if let Some((cpuinfo_file, text)) = &members.cpuinfo {
        let number = tree.add_file(cpuinfo_file);
        tree.add("/proc/cpuinfo", text.trim_end(), number, 1);
    }
    if let Some(version) = &members.version {
        let number = tree.add_file(&format!("{file}!proc/version"));
        tree.add("/proc/version", version.trim_end(), number, 1);
    }
    Ok(())
}

/// Imports a dump. `file` is its name for messages.
pub(crate) fn import(name: &str, file: &str, bytes: &[u8]) -> Result<Facts, ImportError> {
    let members = members(file, bytes)?;
    let Some((sys_file, sys_text)) = members.sys else {
        return Err(ImportError::whole(
            file,
            "no sys/inlinefiles.txt in it, so this is not a machine dump; a copied /sys tree is given as its folder, unpacked",
        ));
    };
    let mut facts = Facts::new(members.name.as_deref().unwrap_or(name), SourceKind::Dump, file);
    let mut tree = SysTree::default();
    inline_files(&sys_file, &sys_text, &mut tree)?;
    sysfs::read(&tree, &mut facts)?;
    if let Some((cpuinfo_file, text)) = &members.cpuinfo {
        cpuinfo::read(cpuinfo_file, text, &mut facts)?;
    }
    facts.kernel = members.version.map(|version| version.trim().to_owned());
    if let Some((msr_file, text)) = &members.msr {
        msr::read(msr_file, text, &mut facts)?;
        if let Some(power) = msr::package_power(&facts) {
            facts.package_power = Some(power);
            facts.tell("package_power", format!("{msr_file}: registers 0x606, 0x610, 0x614"));
        }
    }
    Ok(facts)
}
