//! A trace and the texts that were saved with it: in a folder, or in the one archive that `opplab host record` writes.
//!
//! What the texts mean is not known here.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::input::read_whole;
use crate::{TraceFile, pages, tracedat};

/// The most that is read of a text beside a trace; the largest, `dmesg` and workload files, have some hundred kB.
const TEXT_MAX: u64 = 64 << 20;

/// Of a copied tree so many levels and files are read.
const TREE_DEPTH_MAX: usize = 64;
const TREE_FILES_MAX: usize = 200_000;

/// The trace's name in a recording's folder and in its archive.
const TRACE: &str = "trace.dat";

/// A trace with the files beside it.
pub struct RecordingFiles {
    /// The trace.
    pub trace: TraceFile,
    /// The trace's file, or the archive.
    path: PathBuf,
    /// What stands before the names in an archive, such as `run/`; `None` if it is none.
    prefix: Option<String>,
}

impl RecordingFiles {
    /// Opens a folder with a `trace.dat`, an archive (`.tar`, packed or not) with one, or a trace of any format; the
    /// texts of the latter are those in its folder.
    ///
    /// # Errors
    /// As [`TraceFile::open`].
    pub fn open(path: &Path) -> Result<Self> {
        let inside = path.join(TRACE);
        let path = if inside.is_file() { inside } else { path.to_owned() };
        let trace = TraceFile::open(&path)?;
        let prefix = Self::files_of(&trace).and_then(|files| {
            let (name, _) = files.into_iter().find(|(_, content)| tracedat::sniff(content))?;
            Some(name[..name.rfind('/').map_or(0, |slash| slash + 1)].to_owned())
        });
        Ok(Self { trace, path, prefix })
    }

    /// The trace's file; of an archive the archive.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the recording is called: as the archive without its endings, else as the trace's folder.
    pub fn name(&self) -> String {
        let last = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if self.prefix.is_some() {
            let name = last(&self.path);
            return name.split_once('.').map_or(name.clone(), |(stem, _)| stem.to_owned());
        }
        std::path::absolute(&self.path).ok().and_then(|path| path.parent().map(last)).unwrap_or_default()
    }

    /// Where the text `name` is, or would be, for messages: `run/uname.txt` or `run.tar.zst:uname.txt`.
    pub fn place(&self, name: &str) -> String {
        match &self.prefix {
            Some(prefix) => format!("{}:{prefix}{name}", self.path.display()),
            None => self.path.with_file_name(name).display().to_string(),
        }
    }

    /// The text `name` beside the trace; what is not UTF-8 in it is replaced. `None` if there is none.
    pub fn text(&self, name: &str) -> Option<String> {
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let Some(prefix) = &self.prefix else {
            return read_whole(&self.path.with_file_name(name), TEXT_MAX).ok().map(|bytes| lossy(&bytes));
        };
        let wanted = format!("{prefix}{name}");
        let (_, content) = Self::files_of(&self.trace)?.into_iter().find(|(known, _)| *known == wanted)?;
        Some(lossy(content))
    }

    /// The texts in folder `folder` beside the trace whose names end in `.ending`, by name.
    pub fn texts(&self, folder: &str, ending: &str) -> Vec<(String, String)> {
        let wanted =
            |name: &str| name.rsplit_once('.').is_some_and(|(_, found)| found == ending) && !name.contains('/');
        let mut texts: Vec<(String, String)> = match &self.prefix {
            None => std::fs::read_dir(self.path.with_file_name(folder))
                .into_iter()
                .flatten()
                .flatten()
                .filter_map(|entry| {
                    let name = entry.file_name().to_string_lossy().into_owned();
                    let bytes = if wanted(&name) { read_whole(&entry.path(), TEXT_MAX).ok()? } else { return None };
                    Some((name, String::from_utf8_lossy(&bytes).into_owned()))
                })
                .collect(),
            Some(prefix) => {
                let prefix = format!("{prefix}{folder}/");
                let files = Self::files_of(&self.trace).unwrap_or_default();
                let inside = files.into_iter().filter_map(|(name, content)| {
                    let name = name.strip_prefix(&prefix).filter(|name| wanted(name))?;
                    Some((name.to_owned(), String::from_utf8_lossy(content).into_owned()))
                });
                inside.collect()
            }
        };
        texts.sort();
        texts
    }

    /// All texts in files and folders beside the trace whose names contain `word`, and in the folder `tree` there, by path.
    pub fn texts_about(&self, word: &str, tree: &str) -> Vec<(String, String)> {
        let wanted = |path: &str| {
            let first = path.split('/').next().unwrap_or(path);
            first.contains(word) || path.strip_prefix(tree).is_some_and(|rest| rest.starts_with('/'))
        };
        let mut texts: Vec<(String, String)> = Vec::new();
        let Some(prefix) = &self.prefix else {
            let folder = self.path.with_file_name("");
            let beside = std::fs::read_dir(if folder.as_os_str().is_empty() { Path::new(".") } else { &folder });
            let names = beside.into_iter().flatten().flatten().map(|entry| entry.file_name());
            let mut left: Vec<PathBuf> =
                names.filter(|name| name.to_string_lossy().contains(word)).map(PathBuf::from).collect();
            left.push(tree.into());
            while let Some(at) = left.pop() {
                let place = folder.join(&at);
                // Links may lead out of the recording.
                let Ok(meta) = std::fs::symlink_metadata(&place) else { continue };
                if meta.is_dir() && at.components().count() < TREE_DEPTH_MAX {
                    let inside = std::fs::read_dir(&place).into_iter().flatten().flatten();
                    left.extend(inside.map(|entry| at.join(entry.file_name())));
                } else if meta.is_file()
                    && texts.len() < TREE_FILES_MAX
                    && let Ok(bytes) = read_whole(&place, TEXT_MAX)
                {
                    texts.push((at.to_string_lossy().into_owned(), String::from_utf8_lossy(&bytes).into_owned()));
                }
            }
            texts.sort();
            return texts;
        };
        for (name, content) in Self::files_of(&self.trace).unwrap_or_default() {
            if let Some(name) = name.strip_prefix(prefix.as_str()).filter(|name| wanted(name)) {
                texts.push((name.to_owned(), String::from_utf8_lossy(content).into_owned()));
            }
        }
        texts.sort();
        texts
    }

    fn files_of(trace: &TraceFile) -> Option<Vec<(String, &[u8])>> {
        pages::sniff_tar(&trace.data).then(|| pages::tar_files(&trace.data))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::write::{TraceBuilder, trace_dat};
    use crate::{Kind, ReadOptions, Value};

    /// One header of a tar and its content.
    fn member(name: &str, content: &[u8]) -> Vec<u8> {
        let mut block = vec![0u8; 512];
        block[..name.len()].copy_from_slice(name.as_bytes());
        block[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        block[156] = b'0';
        block[257..265].copy_from_slice(b"ustar  \0");
        block.extend_from_slice(content);
        block.resize(block.len().next_multiple_of(512), 0);
        block
    }

    /// Goal: the same texts whether the trace is in a folder, in an archive, or in an archive of a folder.
    #[test]
    fn texts_lie_beside_the_trace() {
        let mut builder = TraceBuilder::new(1);
        let event = builder.event("power", "cpu_idle", &[("state", Kind::Int { signed: false, hex: false })]);
        builder.push(event, 7, 0, 0, &[Value::U64(1)]);
        let mut dat = Vec::new();
        trace_dat(&builder.finish(), &mut dat).expect("memory");
        let folder = std::env::temp_dir().join(format!("opplab-recording-{}", std::process::id())).join("run");
        fs::create_dir_all(&folder).expect("writable");
        fs::write(folder.join("trace.dat"), &dat).expect("writable");
        fs::write(folder.join("uname.txt"), "Linux\n").expect("writable");
        let parts = |prefix: &str| {
            let name = |name: &str| format!("{prefix}{name}");
            [member(&name("trace.dat"), &dat), member(&name("uname.txt"), b"Linux\n"), vec![0; 1024]].concat()
        };
        let packed = folder.with_file_name("one.tar.zst");
        fs::write(&packed, zstd::bulk::compress(&parts(""), 1).expect("memory")).expect("writable");
        let plain = folder.with_file_name("two.tar");
        fs::write(&plain, parts("./run/")).expect("writable");
        for (path, name, place) in [
            (folder.clone(), "run", "run/uname.txt"),
            (folder.join("trace.dat"), "run", "run/uname.txt"),
            (packed, "one", "one.tar.zst:uname.txt"),
            (plain, "two", "two.tar:./run/uname.txt"),
        ] {
            let files = RecordingFiles::open(&path).expect("is a recording");
            assert_eq!(files.name(), name);
            assert!(files.place("uname.txt").ends_with(place), "{}", files.place("uname.txt"));
            let about: Vec<(String, String)> = files.texts_about("uname", "sys/fs/cgroup");
            assert_eq!(about, [("uname.txt".to_owned(), "Linux\n".to_owned())], "{name}");
            assert_eq!((files.text("uname.txt").as_deref(), files.text("other.txt")), (Some("Linux\n"), None));
            let trace = files.trace.read(&ReadOptions::default()).expect("readable");
            assert_eq!(trace.tables.len(), 1, "{name}");
        }
        fs::remove_dir_all(folder.parent().expect("has one")).expect("ours");
    }
}
