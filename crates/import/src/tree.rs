//! A `/sys`-like tree of small texts, whatever it was read from: a folder, a dump's inline file, a snapshot.
//!
//! Paths are absolute as on the machine (`/sys/devices/system/cpu/online`). Each text knows the file and the line that
//! it came from, so that a wrong number can be named. This module knows no meaning; see [`crate::sysfs`] for that.

use std::collections::{BTreeMap, BTreeSet};

use opplab_model::cpus::CpuList;
use opplab_model::cpus::parse_cpu_list;

use crate::error::{ImportError, shorten};

/// Where the numbers of CPUs, policies and the like are.
pub(crate) const CPU: &str = "/sys/devices/system/cpu";

/// One text of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its lines, without the last line's end.
    pub text: String,
    /// The file that it was read from.
    pub file: u32,
    /// The line in that file, from 1.
    pub line: u32,
}

/// The tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SysTree {
    entries: BTreeMap<String, Entry>,
    files: Vec<String>,
}

impl SysTree {
    /// A name for the file that the next entries come from.
    pub fn add_file(&mut self, name: &str) -> u32 {
        self.files.push(name.to_owned());
        self.files.len() as u32 - 1
    }

    /// Adds a text, or a further line to a text that is there.
    pub fn add(&mut self, path: &str, text: &str, file: u32, line: u32) {
        if let Some(entry) = self.entries.get_mut(path) {
            entry.text.push('\n');
            entry.text.push_str(text);
        } else {
            self.entries.insert(path.to_owned(), Entry { text: text.to_owned(), file, line });
        }
    }

    /// What is at `path`.
    pub(crate) fn entry(&self, path: &str) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// The file that the text at `path` was read from, and the line in it, from 1.
    pub fn origin(&self, path: &str) -> Option<(&str, u32)> {
        let entry = self.entries.get(path)?;
        Some((self.files.get(entry.file as usize)?, entry.line))
    }

    /// How many texts there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The text at `path` without blanks around it, and without the zeros by which tar fills a file of sysfs, whose size is
    /// a page, whatever is in it. `None` too where the kernel's file is empty.
    pub fn text(&self, path: &str) -> Option<&str> {
        let text = self.entries.get(path)?.text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!text.is_empty() && !text.starts_with('<')).then_some(text)
    }

    /// An error about the text at `path`.
    pub fn error(&self, path: &str, message: impl Into<String>) -> ImportError {
        let message = message.into();
        match self.entries.get(path) {
            Some(entry) => {
                let file = self.files.get(entry.file as usize).map_or("", String::as_str);
                ImportError::line(file, entry.line as usize, format!("{path}: {message}"))
            }
            None => {
                ImportError::whole(self.files.first().map_or("the tree", String::as_str), format!("{path}: {message}"))
            }
        }
    }

    /// The whole number at `path`.
    pub(crate) fn number(&self, path: &str) -> Result<Option<u64>, ImportError> {
        let Some(text) = self.text(path) else { return Ok(None) };
        let parsed = match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => text.parse(),
        };
        parsed.map(Some).map_err(|_| self.error(path, format!("`{}` is not a whole number", shorten(text))))
    }

    /// The whole number at `path` where it has 32 bits; larger ones mean "unknown" to the kernel (-1).
    pub(crate) fn number32(&self, path: &str) -> Result<Option<u32>, ImportError> {
        if self.text(path).is_some_and(|text| text.starts_with('-')) {
            return Ok(None);
        }
        Ok(self.number(path)?.and_then(|number| u32::try_from(number).ok()))
    }

    /// The list of CPUs at `path`, written as `0,3-5` or with blanks between.
    pub(crate) fn cpus(&self, path: &str) -> Result<Option<CpuList>, ImportError> {
        let Some(text) = self.text(path) else { return Ok(None) };
        let with_commas = text.split_whitespace().collect::<Vec<_>>().join(",");
        parse_cpu_list(&with_commas, Default::default()).map(Some).map_err(|fault| self.error(path, fault.message))
    }

    /// The numbers at `path`, with blanks between.
    pub(crate) fn numbers(&self, path: &str) -> Result<Vec<u32>, ImportError> {
        let Some(text) = self.text(path) else { return Ok(Vec::new()) };
        text.split_whitespace()
            .map(|word| word.parse().map_err(|_| self.error(path, format!("`{}` is not a number", shorten(word)))))
            .collect()
    }

    /// The names right below `folder` (without a slash at its end), in order.
    pub fn children(&self, folder: &str) -> Vec<String> {
        let prefix = format!("{folder}/");
        let mut names: BTreeSet<String> = BTreeSet::new();
        let mut from = prefix.clone();
        while let Some((path, _)) = self.entries.range(from.clone()..).next() {
            let Some(rest) = path.strip_prefix(&prefix) else { break };
            // Skip what lies deeper: `0` comes right after `/`.
            let (name, next) = match rest.split_once('/') {
                Some((name, _)) => (name, format!("{prefix}{name}0")),
                None => (rest, format!("{path}\0")),
            };
            names.insert(name.to_owned());
            from = next;
        }
        names.into_iter().collect()
    }

    /// The numbers N of the folders `stem`N right below `folder`, ascending.
    pub fn numbered(&self, folder: &str, stem: &str) -> Vec<u32> {
        numbered(&self.children(folder), stem)
    }
}

/// The numbers N of the names `stem`N, ascending.
pub fn numbered(names: &[String], stem: &str) -> Vec<u32> {
    let mut numbers: Vec<u32> = names
        .iter()
        .filter_map(|name| name.strip_prefix(stem))
        .filter(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|digits| digits.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_found_whatever_their_names() {
        let mut tree = SysTree::default();
        let file = tree.add_file("x");
        for path in
            ["/a/b/c", "/a/b/\u{10ffff}x", "/a/b-c/d", "/a/b0/d", "/a/b", "/a/cpu1/x", "/a/cpu10/x", "/a//z", "/ab/y"]
        {
            tree.add(path, "1", file, 1);
        }
        assert_eq!(tree.children("/a"), ["", "b", "b-c", "b0", "cpu1", "cpu10"]);
        assert_eq!(tree.numbered("/a", "cpu"), [1, 10]);
        assert_eq!(tree.children("/none"), Vec::<String>::new());
    }
}
