//! Raw ring-buffer pages as `per_cpu/cpuN/trace_pipe_raw` gives them, with the format files beside them.
//!
//! They come as a folder or a tar of one (`formats/` or `events/` with `header_page` and `<group>/<event>/format`,
//! `traces/cpuN` or `per_cpu/cpuN/trace_pipe_raw`), or as the pages of one CPU alone; then the formats come from
//! [`ReadOptions::formats`], and events without one keep their bytes.

use std::collections::BTreeMap;

use crate::bprint::{PrintkFormats, parse_printk_formats};
use crate::bytes::{read_uint, u32_at, u64_at};
use crate::error::{Error, Result};
use crate::event::Sink;
use crate::format::{PageLayout, parse_format, parse_header_page};
use crate::reader::{About, Meta, Outcome, ReadOptions, Reader};
use crate::ring::CpuStream;
use crate::tracedat::{EventTable, deliver};

/// Size of a page where no header has another.
const PAGE: usize = 4096;

/// True if `data` are a tar file.
pub(crate) fn sniff_tar(data: &[u8]) -> bool {
    data.len() >= 512 && data[257..].starts_with(b"ustar")
}

/// The regular files of a tar, by name; stops at the first header that makes no sense.
pub(crate) fn tar_files(data: &[u8]) -> Vec<(String, &[u8])> {
    let mut files = Vec::new();
    let (mut at, mut long_name) = (0usize, None);
    while let Some(header) = data.get(at..at + 512) {
        if header.iter().all(|&b| b == 0) || !header[257..].starts_with(b"ustar") {
            break;
        }
        let Some(size) = octal(&header[124..136]) else { break };
        let start = at + 512;
        let end = start.saturating_add(size).min(data.len());
        let content = &data[start..end];
        let text = |range: std::ops::Range<usize>| {
            String::from_utf8_lossy(crate::bytes::until_nul(&header[range])).into_owned()
        };
        match header[156] {
            // A GNU long name for the next file.
            b'L' => long_name = Some(String::from_utf8_lossy(crate::bytes::until_nul(content)).into_owned()),
            b'0' | 0 => {
                let prefix = if header[257..].starts_with(b"ustar\0") { text(345..500) } else { String::new() };
                let short = if prefix.is_empty() { text(0..100) } else { format!("{prefix}/{}", text(0..100)) };
                files.push((long_name.take().unwrap_or(short), content));
            }
            _ => long_name = None,
        }
        let Some(next) = size.checked_next_multiple_of(512).and_then(|padded| start.checked_add(padded)) else { break };
        at = next;
    }
    files
}

fn octal(digits: &[u8]) -> Option<usize> {
    let digits = crate::bytes::until_nul(digits).trim_ascii();
    digits.iter().try_fold(0usize, |value, &b| {
        (b'0'..=b'7').contains(&b).then_some(())?;
        value.checked_mul(8)?.checked_add(usize::from(b - b'0'))
    })
}

/// The CPU whose pages a file holds, if its name has one.
pub(crate) fn cpu_of_name(name: &str) -> Option<u32> {
    let mut parts = name.rsplit('/');
    let last = parts.next()?;
    let folder = parts.next().unwrap_or("");
    let of = |text: &str| text.strip_prefix("cpu").and_then(|n| n.parse::<u32>().ok()).filter(|&cpu| cpu < 1 << 16);
    match last {
        "trace_pipe_raw" => of(folder),
        // `topology/node0/cpu0/…` has folders of this name, `traces/cpu0` a file.
        _ if folder != "node0" => of(last),
        _ => None,
    }
}

/// True if the file is one that the reader uses.
pub(crate) fn is_used(name: &str) -> bool {
    cpu_of_name(name).is_some()
        || name.ends_with("/format")
        || ["header_page", "printk_formats", "saved_cmdlines", "trace_clock"].iter().any(|used| name.ends_with(used))
}

/// True if `data` look like the pages of one CPU: whole pages, each with sensible time and length and a first record.
pub(crate) fn sniff_pages(data: &[u8]) -> bool {
    guess_layout(data).is_some()
}

/// The layout and byte order under which every page of the start makes sense.
fn guess_layout(data: &[u8]) -> Option<(PageLayout, bool)> {
    if data.is_empty() || !data.len().is_multiple_of(PAGE) {
        return None;
    }
    // The wider length first: on a 64-bit machine its upper half is zero, which a first record never is.
    [(8, false), (8, true), (4, false), (4, true)].into_iter().find_map(|(long_size, big_endian)| {
        let layout = PageLayout::of_long(long_size);
        let mut last = 0;
        let mut used_pages = 0;
        for page in data.chunks_exact(PAGE).take(16) {
            let time = u64_at(page, 0, big_endian)?;
            let commit = read_uint(&page[layout.commit..layout.commit + layout.commit_size], big_endian);
            let used = (commit & 0x3fff_ffff) as usize;
            if used > PAGE - layout.data || !used.is_multiple_of(4) || commit >> 32 != 0 || time < last {
                return None;
            }
            if used >= 12 {
                let record = u32_at(page, layout.data, big_endian)?;
                let kind = if big_endian { record >> 27 } else { record & 31 };
                // The first record of a page holds data; a length of its own fits into the page.
                let len = if kind == 0 { u32_at(page, layout.data + 4, big_endian)? } else { kind * 4 };
                if kind >= 29 && used < 20 || len as usize > used || len < 4 {
                    return None;
                }
                used_pages += 1;
            }
            last = time;
        }
        (used_pages > 0 && last > 0).then_some((layout, big_endian))
    })
}

/// Ring-buffer pages that are open for reading.
pub(crate) struct Pages<'a> {
    cpus: Vec<(u32, &'a [u8])>,
    meta: Meta,
    events: EventTable,
    tasks: BTreeMap<i32, Vec<u8>>,
    printk: PrintkFormats,
    layout: PageLayout,
}

impl<'a> Pages<'a> {
    /// The pages of one CPU alone.
    pub(crate) fn open_single(data: &'a [u8], options: &ReadOptions) -> Result<Self> {
        Self::open(&[("traces/cpu0".to_string(), data)], options)
    }

    /// A folder's or a tar's files, by name.
    pub(crate) fn open(files: &[(String, &'a [u8])], options: &ReadOptions) -> Result<Self> {
        let mut cpus: Vec<(u32, &'a [u8])> =
            files.iter().filter_map(|(name, data)| Some((cpu_of_name(name)?, *data))).collect();
        cpus.sort_by_key(|&(cpu, _)| cpu);
        let Some(first) = cpus.iter().map(|&(_, data)| data).find(|data| !data.is_empty()) else {
            let what = "a collection of files without pages of any CPU (traces/cpuN or per_cpu/cpuN/trace_pipe_raw)";
            return Err(Error::Unsupported { what: what.into() });
        };
        let guessed = guess_layout(&first[..first.len() - first.len() % PAGE]);
        let text = |suffix: &str| {
            files
                .iter()
                .find(|(name, _)| name.ends_with(suffix))
                .map(|(_, data)| String::from_utf8_lossy(data).into_owned())
        };
        let header = text("header_page").and_then(|text| parse_header_page(&text));
        let big_endian = guessed.is_some_and(|(_, big)| big);
        let (layout, page_size) = match (header, guessed) {
            (Some((layout, data_size)), _) => (layout, (layout.data + data_size).clamp(PAGE, 1 << 20)),
            (None, Some((layout, _))) => (layout, PAGE),
            (None, None) => (PageLayout::of_long(8), PAGE),
        };
        let long_size = layout.commit_size as u8;
        let mut events = EventTable::new();
        let extra = options.formats.iter().map(|(system, text)| (system.clone(), text.clone()));
        let found = files.iter().filter(|(name, _)| name.ends_with("/format")).map(|(name, data)| {
            // `…/<group>/<event>/format`
            let system = name.rsplit('/').nth(2).unwrap_or("").to_string();
            (system, String::from_utf8_lossy(data).into_owned())
        });
        for (system, text) in found.chain(extra) {
            if let Some(format) = parse_format(&text, &system, long_size, options.common_fields) {
                events.add(format);
            }
        }
        let mut tasks = BTreeMap::new();
        for line in text("saved_cmdlines").unwrap_or_default().lines() {
            if let Some((pid, name)) = line.trim().split_once(' ')
                && let Ok(pid) = pid.parse()
            {
                tasks.insert(pid, name.as_bytes().to_vec());
            }
        }
        let meta = Meta {
            format: "ring-buffer pages",
            cpus: cpus.last().map_or(0, |&(cpu, _)| cpu + 1),
            long_size,
            big_endian,
            page_size: page_size as u32,
            buffers: vec![String::new()],
            ..Meta::default()
        };
        let printk = parse_printk_formats(text("printk_formats").unwrap_or_default().as_bytes());
        Ok(Self { cpus, meta, events, tasks, printk, layout })
    }
}

impl Reader for Pages<'_> {
    fn about(&self) -> About<'_> {
        About { meta: &self.meta, schemas: &self.events.schemas, tasks: &self.tasks }
    }

    fn stream(&mut self, options: &ReadOptions, sink: &mut dyn Sink) -> Result<Outcome> {
        options.check_names(&self.events.schemas)?;
        let (layout, page_size, big_endian) = (self.layout, self.meta.page_size as usize, self.meta.big_endian);
        let mut streams: Vec<CpuStream<'_>> = self
            .cpus
            .iter()
            .map(|&(cpu, data)| CpuStream::plain(cpu, 0, data, (0, None), layout, page_size, big_endian))
            .collect();
        let (stopped, missed, problems) = deliver(
            &mut streams,
            &mut self.events,
            &self.printk,
            self.meta.long_size,
            big_endian,
            |time| time,
            options,
            sink,
        );
        Ok(Outcome { problems, missed, stopped })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_is_in_the_name() {
        assert_eq!(cpu_of_name("traces/cpu12"), Some(12));
        assert_eq!(cpu_of_name("x/per_cpu/cpu3/trace_pipe_raw"), Some(3));
        assert_eq!(cpu_of_name("topology/node0/cpu0/topology/core_id"), None);
        assert_eq!(cpu_of_name("formats/header_page"), None);
    }

    #[test]
    fn a_page_is_told_from_other_bytes() {
        let mut page = vec![0u8; PAGE];
        page[..8].copy_from_slice(&123_456u64.to_le_bytes());
        page[8..16].copy_from_slice(&12u64.to_le_bytes());
        page[16..20].copy_from_slice(&2u32.to_le_bytes());
        assert_eq!(guess_layout(&page), Some((PageLayout::of_long(8), false)));
        assert_eq!(guess_layout(&vec![0u8; PAGE]), None);
        assert_eq!(guess_layout(&vec![0x20u8; PAGE]), None);
        assert_eq!(guess_layout(&page[..100]), None);
    }
}
