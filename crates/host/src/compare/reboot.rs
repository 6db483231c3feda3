//! Variants of several kernels: the machine is started anew into the next one, once, and the experiment goes on there.
//!
//! ```text
//!   run's kernel is another ─► settings back ─► unit and one-shot entry written ─► reboot
//!        ▲                                                                          │
//!        └── unit starts the same command, which finds its runs on the disk ◄───────┘
//! ```
//! A one-shot entry is forgotten by the boot loader before the kernel starts, so that a hang or a power loss leads to the
//! machine's own kernel, whose start goes on with the experiment. The unit is removed when the experiment has ended.

use std::ffi::OsString;

use crate::error::HostError;
use crate::root::Root;

/// The unit, and what makes it start.
pub const UNIT: &str = "/etc/systemd/system/opplab-compare.service";
/// See [`UNIT`].
pub const WANTED: &str = "/etc/systemd/system/multi-user.target.d/opplab-compare.conf";
/// systemd-boot's one-shot entry (Boot Loader Interface, `LoaderEntryOneShot`).
pub const ONE_SHOT: &str = "/sys/firmware/efi/efivars/LoaderEntryOneShot-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
const GRUB: [&str; 2] = ["/boot/grub", "/boot/grub2"];
const LOADERS: [&str; 3] = ["/boot/loader/entries", "/efi/loader/entries", "/boot/efi/loader/entries"];
/// Bytes of GRUB's environment block.
const BLOCK: usize = 1024;
const HEAD: &str = "# GRUB Environment Block\n";

/// A boot loader with a one-shot entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loader {
    /// GRUB, whose configuration and environment are in this folder.
    Grub(String),
    /// systemd-boot, whose entries are in this folder.
    SystemdBoot(String),
}

/// The release of the kernel that runs.
pub fn running(root: &Root) -> String {
    root.text("/proc/sys/kernel/osrelease").unwrap_or_default()
}

impl Loader {
    /// The host's.
    ///
    /// # Errors
    /// It has none that is known.
    pub fn of(root: &Root) -> Result<Self, HostError> {
        if let Some(folder) = GRUB.iter().find(|folder| root.has(&format!("{folder}/grubenv"))) {
            return Ok(Self::Grub((*folder).to_owned()));
        }
        if let Some(folder) = LOADERS.iter().find(|folder| !root.children(folder).is_empty()) {
            return Ok(Self::SystemdBoot((*folder).to_owned()));
        }
        let words = "--kernel: no boot loader with a one-shot entry: neither GRUB's grubenv nor systemd-boot's entries";
        Err(HostError::Lacking(words.to_owned()))
    }

    /// The entry that starts a kernel.
    ///
    /// # Errors
    /// There is none, with the nearest release that there is.
    pub fn entry(&self, root: &Root, release: &str) -> Result<String, HostError> {
        let found = match self {
            Self::Grub(folder) => grub_entries(&root.raw(&format!("{folder}/grub.cfg")).unwrap_or_default()),
            Self::SystemdBoot(folder) => root
                .children(folder)
                .into_iter()
                .filter(|name| name.ends_with(".conf"))
                .filter_map(|name| Some((release_of(&root.raw(&format!("{folder}/{name}")).ok()?)?, name)))
                .collect(),
        };
        let entry = found.iter().find(|(known, _)| known == release).map(|(_, entry)| entry.clone());
        entry.ok_or_else(|| {
            let near = crate::cli::nearest(release, found.iter().map(|(known, _)| known.as_str()));
            HostError::Usage(format!("--kernel: no boot entry of `{release}`{near}"))
        })
    }

    /// What makes the next start, and no other, one of an entry: the file and its new bytes.
    ///
    /// # Errors
    /// The boot loader's file is not what it should be.
    pub fn once(&self, root: &Root, entry: &str) -> Result<(String, Vec<u8>), HostError> {
        match self {
            Self::Grub(folder) => {
                if !root.raw(&format!("{folder}/grub.cfg")).unwrap_or_default().contains("next_entry") {
                    let words = format!("--kernel: {folder}/grub.cfg takes no one-shot entry (next_entry)");
                    return Err(HostError::Lacking(words));
                }
                let path = format!("{folder}/grubenv");
                let text = root.raw(&path).map_err(|why| HostError::Lacking(format!("{path}: {}", why.words())))?;
                Ok((path.clone(), grubenv(&text, Some(entry)).ok_or_else(|| not_grubenv(&path))?))
            }
            Self::SystemdBoot(_) => {
                // Non-volatile, at boot and at run time; UTF-16 with an end.
                let mut bytes = vec![7, 0, 0, 0];
                bytes.extend(entry.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
                Ok((ONE_SHOT.to_owned(), bytes))
            }
        }
    }
}

fn not_grubenv(path: &str) -> HostError {
    HostError::Lacking(format!("{path}: not GRUB's environment block, or full"))
}

/// The block with `next_entry`, as grub-reboot writes it, or without.
fn grubenv(text: &str, entry: Option<&str>) -> Option<Vec<u8>> {
    let body = text.strip_prefix(HEAD)?.trim_end_matches('#');
    let mut out = HEAD.to_owned();
    for line in body.lines().filter(|line| !line.starts_with("next_entry=")) {
        out += &format!("{line}\n");
    }
    if let Some(entry) = entry {
        out += &format!("next_entry={entry}\n");
    }
    let left = BLOCK.checked_sub(out.len())?;
    out += &"#".repeat(left);
    Some(out.into_bytes())
}

/// (release, identifier) of grub.cfg's entries; of those in a submenu with the submenu's before `>`.
fn grub_entries(text: &str) -> Vec<(String, String)> {
    let id = |line: &str| {
        let rest = line.split_once("menuentry_id_option")?.1.trim_start();
        let quote = rest.chars().next().filter(|mark| ['\'', '"'].contains(mark))?;
        rest[1..].split(quote).next().map(str::to_owned)
    };
    let (mut submenu, mut entry, mut depth): (Option<(String, i32)>, Option<String>, i32) = (None, None, 0);
    let mut found: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        let word = line.split_whitespace().next().unwrap_or_default();
        match word {
            "submenu" => submenu = id(line).map(|id| (id, depth)),
            "menuentry" => entry = id(line),
            "linux" | "linuxefi" => {
                let image = line.split_whitespace().nth(1).unwrap_or_default();
                let release = image.rsplit_once("vmlinuz-").map(|(_, release)| release);
                // The first entry of a kernel is its plain one; the next ones are for recovery.
                if let (Some(release), Some(entry)) = (release, &entry)
                    && !found.iter().any(|(known, _)| known == release)
                {
                    let path = submenu.as_ref().map_or_else(|| entry.clone(), |(menu, _)| format!("{menu}>{entry}"));
                    found.push((release.to_owned(), path));
                }
            }
            _ => {}
        }
        depth += i32::from(line.ends_with('{')) - i32::from(line == "}");
        if submenu.as_ref().is_some_and(|(_, begin)| line == "}" && depth <= *begin) {
            submenu = None;
        }
    }
    found
}

/// The release of an entry of the Boot Loader Specification.
fn release_of(text: &str) -> Option<String> {
    let value = |key: &str| {
        text.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix([' ', '\t'])).map(str::trim)
    };
    value("version").map(str::to_owned).or_else(|| {
        let image = value("linux")?;
        image.rsplit_once("vmlinuz-").or_else(|| image.rsplit_once('/')).map(|(_, release)| release.to_owned())
    })
}

/// A word of a unit's command line: quoted, with nothing that systemd expands.
fn unit_word(word: &str) -> String {
    let mut out = String::from("\"");
    for letter in word.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '%' | '$' => out.extend([letter, letter]),
            '\n' => out += "\\n",
            _ => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// The files that start a command after each boot: (path, text).
pub fn unit(words: &[OsString], folder: &str) -> [(&'static str, String); 2] {
    let words: Vec<String> = words.iter().map(|word| unit_word(&word.to_string_lossy())).collect();
    let unit = format!(
        "[Unit]\nDescription=opplab host compare goes on after a reboot\nAfter=multi-user.target\n\n[Service]\n\
         Type=exec\nWorkingDirectory={}\nExecStart={}\n",
        folder.replace('%', "%%"),
        words.join(" ")
    );
    [(UNIT, unit), (WANTED, "[Unit]\nWants=opplab-compare.service\n".to_owned())]
}

/// Removes the unit, and a one-shot entry that the boot loader has not taken.
///
/// # Errors
/// What the system reported.
pub fn clean(root: &Root) -> Result<(), HostError> {
    let removed = [WANTED, UNIT].iter().try_for_each(|path| root.remove(path));
    match Loader::of(root) {
        Ok(Loader::Grub(folder)) => {
            let path = format!("{folder}/grubenv");
            let text = root.raw(&path).unwrap_or_default();
            if text.lines().any(|line| line.starts_with("next_entry=") && line != "next_entry=") {
                let bytes = grubenv(&text, None).ok_or_else(|| not_grubenv(&path))?;
                root.create(&path, &bytes)?;
            }
        }
        Ok(Loader::SystemdBoot(_)) if root.has(ONE_SHOT) => root.remove(ONE_SHOT)?,
        _ => {}
    }
    removed
}

/// What a start into another kernel writes, in order; a one-shot entry last.
///
/// # Errors
/// No boot loader, no entry.
pub fn writes(
    root: &Root,
    release: &str,
    words: &[OsString],
    folder: &str,
) -> Result<Vec<(String, Vec<u8>)>, HostError> {
    let loader = Loader::of(root)?;
    let (path, bytes) = loader.once(root, &loader.entry(root, release)?)?;
    let units = unit(words, folder).into_iter().map(|(path, text)| (path.to_owned(), text.into_bytes()));
    Ok(units.chain([(path, bytes)]).collect())
}

/// Writes what [`writes`] gives.
///
/// # Errors
/// What the system reported; all is as before then.
pub fn prepare(root: &Root, release: &str, words: &[OsString], folder: &str) -> Result<(), HostError> {
    let all = writes(root, release, words, folder)?;
    let done = all.iter().try_for_each(|(path, bytes)| root.create(path, bytes));
    if done.is_err() {
        clean(root)?;
    }
    done
}

/// What was asked for so far: kept beside the runs, so that a kernel that never comes ends the experiment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// Starts so far.
    pub count: u32,
    /// How often in a row another kernel came.
    pub misses: u32,
    /// The kernel that was asked for last.
    pub release: String,
}

/// So often in a row another kernel may come: a power loss leads to the machine's own one.
const MISSES_MAX: u32 = 3;

impl Asked {
    /// From its text.
    pub fn parse(text: &str) -> Self {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            [count, misses, release] => Self {
                count: count.parse().unwrap_or(0),
                misses: misses.parse().unwrap_or(0),
                release: (*release).to_owned(),
            },
            _ => Self::default(),
        }
    }

    /// Its text.
    pub fn text(&self) -> String {
        format!("{} {} {}\n", self.count, self.misses, self.release)
    }

    /// Asks for a kernel while another one runs; at most `starts_max` starts in all.
    ///
    /// # Errors
    /// The same kernel was asked for too often and did not come, or there were too many starts.
    pub fn next(&mut self, release: &str, running: &str, starts_max: u32) -> Result<(), HostError> {
        self.misses = if self.release == release { self.misses + 1 } else { 0 };
        if self.misses >= MISSES_MAX {
            let words = format!("{release} was asked for {MISSES_MAX} times, and {running} came each time");
            return Err(HostError::Lacking(words));
        }
        if self.count >= starts_max {
            return Err(HostError::Lacking(format!("{starts_max} starts were not enough: the runs so far are kept")));
        }
        self.count += 1;
        release.clone_into(&mut self.release);
        Ok(())
    }

    /// Notes which kernel came after a start.
    pub fn began(&mut self, running: &str) {
        if self.release == running {
            self.misses = 0;
            "-".clone_into(&mut self.release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Made;

    const CFG: &str = "\
if [ \"${next_entry}\" ] ; then
  set default=\"${next_entry}\"
fi
menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-simple-u1' {
\tif [ x = y ]; then
\t\tinsmod gzio
\tfi
\tlinux\t/boot/vmlinuz-6.12.1-amd64 root=UUID=1 ro
}
submenu 'Advanced options' $menuentry_id_option 'gnulinux-advanced-u1' {
\tmenuentry 'Linux 6.12.1' $menuentry_id_option 'gnulinux-6.12.1-amd64-advanced-u1' {
\t\tlinux\t/boot/vmlinuz-6.12.1-amd64 root=UUID=1 ro
\t}
\tmenuentry 'Linux 6.1.0' $menuentry_id_option 'gnulinux-6.1.0-amd64-advanced-u1' {
\t\tlinux\t/boot/vmlinuz-6.1.0-amd64 root=UUID=1 ro
\t}
\tmenuentry 'Linux 6.1.0 (recovery)' $menuentry_id_option 'gnulinux-6.1.0-amd64-recovery-u1' {
\t\tlinux\t/boot/vmlinuz-6.1.0-amd64 root=UUID=1 ro single
\t}
}
menuentry 'Other' $menuentry_id_option 'other' {
\tlinux\t/boot/vmlinuz-5.10 root=UUID=1 ro
}
";

    #[test]
    fn entries_of_grub_are_found_in_their_submenus() {
        let found = grub_entries(CFG);
        let entry = |release: &str| found.iter().find(|(known, _)| known == release).map(|(_, id)| id.as_str());
        assert_eq!(entry("6.12.1-amd64"), Some("gnulinux-simple-u1"));
        assert_eq!(entry("6.1.0-amd64"), Some("gnulinux-advanced-u1>gnulinux-6.1.0-amd64-advanced-u1"));
        assert_eq!(entry("5.10"), Some("other"));
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn the_block_of_grub_keeps_its_size_and_other_values() {
        let block = format!("{:#<1024}", format!("{HEAD}saved_entry=a\nnext_entry=old\n"));
        let new = grubenv(&block, Some("menu>entry")).expect("a block");
        assert_eq!(new.len(), 1024);
        let text = String::from_utf8(new).expect("text");
        assert!(text.starts_with(&format!("{HEAD}saved_entry=a\nnext_entry=menu>entry\n###")), "{text}");
        assert_eq!(grubenv("x", Some("a")), None);
        assert_eq!(grubenv(&block, Some(&"x".repeat(1024))), None);
    }

    #[test]
    fn systemd_boot_takes_the_name_of_an_entry() {
        let made = Made::default();
        made.put("/boot/loader/entries/a.conf", "title A\nversion 6.12.1\nlinux /x/linux\n");
        made.put("/boot/loader/entries/b.conf", "title B\nlinux /boot/vmlinuz-6.1.0\n");
        let root = Root::Made(made);
        let loader = Loader::of(&root).expect("there");
        assert_eq!(loader.entry(&root, "6.12.1").as_deref().ok(), Some("a.conf"));
        assert_eq!(loader.entry(&root, "6.1.0").as_deref().ok(), Some("b.conf"));
        let error = loader.entry(&root, "6.12.2").expect_err("none").to_string();
        assert!(error.contains("no boot entry of `6.12.2`; did you mean `6.12.1`?"), "{error}");
        let (path, bytes) = loader.once(&root, "a.conf").expect("fine");
        assert_eq!(path, ONE_SHOT);
        assert_eq!(&bytes[..8], &[7, 0, 0, 0, b'a', 0, b'.', 0]);
        assert_eq!(&bytes[bytes.len() - 2..], &[0, 0]);
        assert!(Loader::of(&Root::Made(Made::default())).is_err());
    }

    #[test]
    fn words_of_a_unit_are_what_they_were() {
        assert_eq!(unit_word(r#"a "b" 100% $HOME \"#), r#""a \"b\" 100%% $$HOME \\""#);
    }
}
