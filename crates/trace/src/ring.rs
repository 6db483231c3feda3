//! The kernel's ring buffer: pages of one CPU to records in time order, and many CPUs to one order.
//!
//! A page holds a time stamp, the number of bytes used (with flags for lost events) and records; each record has a header of
//! 5 bits kind or length and 27 bits time since the one before (kernel documentation of `include/linux/ring_buffer.h`;
//! `kernel/trace/ring_buffer.c:rb_event_data_length(), v6.12`).
//! Deltas of discarded (padding) records count, as trace-cmd counts them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

use crate::bytes::{read_uint, u32_at, u64_at};
use crate::clock::{TIME_MAX_NS, too_late};
use crate::error::{Error, Result};
use crate::format::PageLayout;
use crate::input::Data;

/// A page whose commit counter has this bit follows a loss of events.
const MISSED_EVENTS: u64 = 1 << 31;
/// The number of lost events is stored behind the data.
const MISSED_STORED: u64 = 1 << 30;
/// Bytes used in the page.
const COMMIT_MASK: u64 = (1 << 20) - 1;
/// Time stamps of a record have 59 bits; the rest comes from the page.
const ABSOLUTE_BITS: u32 = 59;

/// Events that the kernel could not keep, noticed at a page's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// CPU of the buffer.
    pub cpu: u32,
    /// The time of the first event behind the gap.
    pub time_ns: u64,
    /// How many; `None` if the kernel did not count.
    pub count: Option<u64>,
}

impl Missed {
    /// What these gaps mean for all that is made of a trace's events; `None` without any.
    pub fn note(gaps: &[Self]) -> Option<String> {
        let nr = gaps.len();
        let counted: u64 = gaps.iter().filter_map(|gap| gap.count).sum();
        let many = if nr == 1 { "a gap" } else { "gaps" };
        let place = gaps.first().filter(|_| nr == 1).map_or_else(
            || format!("{nr} {many}"),
            |gap| format!("{many} of CPU {} up to {:.6} s", gap.cpu, gap.time_ns as f64 / 1e9),
        );
        let number = if counted > 0 { format!("{counted} events are") } else { "events are".to_owned() };
        (nr > 0).then(|| format!("{number} lost in {place}: what happened there counts as what was before"))
    }
}

/// One piece of compressed pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    pub(crate) offset: usize,
    pub(crate) compressed: usize,
    pub(crate) size: usize,
}

/// Compression of pages in a trace.dat v7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    Zstd,
    Zlib,
}

/// No section of a trace.dat is larger, and no chunk of pages: trace-cmd compresses some ten pages at a time.
const SECTION_BYTES_MAX: usize = 1 << 28;
const CHUNK_BYTES_MAX: usize = 1 << 24;

impl Codec {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Codec::Zstd => "zstd",
            Codec::Zlib => "zlib",
        }
    }

    /// Decompresses `input` into `out`, which gets exactly `size` bytes.
    pub(crate) fn decompress(self, input: &[u8], size: usize, out: &mut Vec<u8>, offset: u64) -> Result<()> {
        let fail = |what: String| Error::Compression { offset, codec: self.name(), what };
        out.clear();
        // The size comes from the file: believe it only as far as the content can reach (1:5000 is beyond any real page).
        if size > SECTION_BYTES_MAX.min(input.len().saturating_mul(5000).saturating_add(1 << 16)) {
            return Err(fail(format!("{} bytes cannot become {size}", input.len())));
        }
        let got = match self {
            Codec::Zstd => {
                out.resize(size, 0);
                crate::codec::zstd_into(input, out.as_mut_slice()).map_err(|e| fail(e.to_string()))?
            }
            Codec::Zlib => {
                out.reserve(size);
                let mut inflate = flate2::Decompress::new(true);
                inflate.decompress_vec(input, out, flate2::FlushDecompress::Finish).map_err(|e| fail(e.to_string()))?;
                out.len()
            }
        };
        if got != size {
            return Err(fail(format!("{got} bytes came out where {size} were announced")));
        }
        Ok(())
    }
}

enum Source<'a> {
    /// Pages as they lie in the file; `file` learns which of them have been read.
    Plain { data: &'a [u8], base: u64, file: Option<&'a Data>, released: usize },
    /// Pages that are decompressed a chunk at a time into `buffer`.
    Chunked { file: &'a [u8], codec: Codec, chunks: Vec<Chunk>, next: usize, buffer: Vec<u8> },
}

/// The pages of one CPU.
pub(crate) struct CpuStream<'a> {
    pub(crate) cpu: u32,
    pub(crate) buffer: u32,
    source: Source<'a>,
    layout: PageLayout,
    page_size: usize,
    big_endian: bool,
    /// Where the next page starts in the source's data.
    next_page: usize,
    /// Where the next record header is, and where the records of this page end.
    pos: usize,
    end: usize,
    /// Time stamp of the current record.
    pub(crate) time: u64,
    /// The current record.
    record: (usize, usize),
    /// Set by a page that follows a loss, until the next record.
    gap: Option<Option<u64>>,
    pub(crate) missed: Vec<Missed>,
    pub(crate) problems: Vec<Error>,
}

/// What a stream does with records that nobody wants.
pub(crate) struct Wanted<'w> {
    /// By event id; `None` wants all.
    pub(crate) ids: Option<&'w [bool]>,
    /// Where `common_type` lies in a record, and its size.
    pub(crate) kind: (u32, u8),
}

/// Problems beyond this many are counted by nobody: the file is damaged, which has been reported.
pub(crate) const MAX_PROBLEMS: usize = 64;
/// How much of a mapped file is read before it is given back: little memory, few calls.
const RELEASE_BYTES: usize = 1 << 20;
/// Gaps kept; a buffer that loses events on every page still has its first ones reported.
const MAX_MISSED: usize = 1 << 16;

impl<'a> CpuStream<'a> {
    /// Uncompressed pages; `base` is where they start in the file, which learns what has been read.
    pub(crate) fn plain(
        cpu: u32,
        buffer: u32,
        data: &'a [u8],
        (base, file): (u64, Option<&'a Data>),
        layout: PageLayout,
        page_size: usize,
        big_endian: bool,
    ) -> Self {
        let source = Source::Plain { data, base, file, released: 0 };
        Self::new(cpu, buffer, source, layout, page_size, big_endian)
    }

    /// Pages in compressed chunks of `file`.
    #[expect(clippy::too_many_arguments, reason = "one constructor, all of it is needed")]
    pub(crate) fn chunked(
        cpu: u32,
        buffer: u32,
        file: &'a [u8],
        codec: Codec,
        chunks: Vec<Chunk>,
        layout: PageLayout,
        page_size: usize,
        big_endian: bool,
    ) -> Self {
        let source = Source::Chunked { file, codec, chunks, next: 0, buffer: Vec::new() };
        Self::new(cpu, buffer, source, layout, page_size, big_endian)
    }

    fn new(cpu: u32, buffer: u32, source: Source<'a>, layout: PageLayout, page_size: usize, big_endian: bool) -> Self {
        assert!(page_size > layout.data && page_size <= 1 << 20);
        Self {
            cpu,
            buffer,
            source,
            layout,
            page_size,
            big_endian,
            next_page: 0,
            pos: 0,
            end: 0,
            time: 0,
            record: (0, 0),
            gap: None,
            missed: Vec::new(),
            problems: Vec::new(),
        }
    }

    #[inline(always)]
    fn data(&self) -> &[u8] {
        match &self.source {
            Source::Plain { data, .. } => data,
            Source::Chunked { buffer, .. } => buffer,
        }
    }

    /// The bytes of the current record (from `common_type` on).
    #[inline(always)]
    pub(crate) fn record(&self) -> &[u8] {
        &self.data()[self.record.0..self.record.1]
    }

    fn problem(&mut self, error: Error) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(error);
        }
    }

    /// Where the current record is in the file; of compressed pages, where their chunk is.
    pub(crate) fn record_offset(&self) -> u64 {
        self.offset(self.record.0)
    }

    fn offset(&self, at: usize) -> u64 {
        match &self.source {
            Source::Plain { base, .. } => base + at as u64,
            Source::Chunked { chunks, next, .. } => {
                next.checked_sub(1).and_then(|i| chunks.get(i)).map_or(0, |c| c.offset as u64)
            }
        }
    }

    /// Makes the next page current; false at the end.
    #[cold]
    fn turn_page(&mut self) -> bool {
        loop {
            if self.next_page >= self.data().len() {
                let Source::Chunked { file, codec, chunks, next, buffer } = &mut self.source else { return false };
                let Some(chunk) = chunks.get(*next).copied() else { return false };
                *next += 1;
                self.next_page = 0;
                let input = &file[chunk.offset..chunk.offset + chunk.compressed];
                let result = if chunk.size <= CHUNK_BYTES_MAX {
                    codec.decompress(input, chunk.size, buffer, chunk.offset as u64)
                } else {
                    let what = format!("a chunk of {} bytes", chunk.size);
                    Err(Error::Compression { offset: chunk.offset as u64, codec: codec.name(), what })
                };
                if let Err(error) = result {
                    buffer.clear();
                    self.problem(error);
                }
                continue;
            }
            let start = self.next_page;
            if let Source::Plain { base, file: Some(file), released, .. } = &mut self.source
                && start >= *released + RELEASE_BYTES
            {
                file.release(*base as usize + *released, *base as usize + start);
                *released = start;
            }
            let layout = self.layout;
            let data_len = self.data().len();
            self.next_page = (start + self.page_size).min(data_len);
            let header = {
                let data = self.data();
                let timestamp = u64_at(data, start + layout.timestamp, self.big_endian);
                let commit = data.get(start + layout.commit..start + layout.commit + layout.commit_size);
                timestamp.zip(commit.map(|raw| read_uint(raw, self.big_endian)))
            };
            let Some((timestamp, commit)) = header else {
                let error = Error::Truncated {
                    offset: self.offset(start),
                    what: format!("a ring-buffer page of CPU {}", self.cpu),
                    needed: layout.data as u64,
                    have: (data_len - start) as u64,
                };
                self.problem(error);
                continue;
            };
            let begin = start + layout.data;
            let used = (commit & COMMIT_MASK) as usize;
            let page_end = start + self.page_size;
            self.pos = begin;
            self.end = begin + used;
            self.time = timestamp;
            if self.end > page_end.min(data_len) {
                let error = Error::Invalid {
                    offset: self.offset(start),
                    what: format!(
                        "a ring-buffer page of CPU {} claims {used} used bytes, and has {}",
                        self.cpu,
                        page_end.min(data_len).saturating_sub(begin)
                    ),
                };
                self.problem(error);
                self.end = page_end.min(data_len);
            }
            if commit & MISSED_EVENTS != 0 {
                let stored = (commit & MISSED_STORED != 0)
                    .then(|| self.data().get(self.end..self.end + layout.commit_size))
                    .flatten()
                    .map(|raw| read_uint(raw, self.big_endian));
                self.gap = Some(stored);
            }
            if self.pos < self.end {
                return true;
            }
        }
    }

    /// Goes to the next record that is wanted; false at the end.
    #[inline]
    pub(crate) fn advance(&mut self, wanted: &Wanted<'_>) -> bool {
        loop {
            if self.pos + 4 > self.end {
                if !self.turn_page() {
                    return false;
                }
                continue;
            }
            let big_endian = self.big_endian;
            let Some(header) = u32_at(self.data(), self.pos, big_endian) else { return false };
            let (kind, delta) =
                if big_endian { (header >> 27, header & ((1 << 27) - 1)) } else { (header & 31, header >> 5) };
            let body = self.pos + 4;
            let (start, len) = match kind {
                1..=28 => (body, kind as usize * 4),
                _ => match self.special(kind, delta, body) {
                    Some(range) => range,
                    None => continue,
                },
            };
            self.time = self.time.wrapping_add(u64::from(delta));
            let end = start + len;
            if end > self.end {
                self.overrun(start, len);
                continue;
            }
            self.pos = start + len.div_ceil(4) * 4;
            self.record = (start, end);
            if self.time > TIME_MAX_NS {
                self.problem(Error::Invalid { offset: self.offset(start), what: too_late(self.time) });
                continue;
            }
            if let Some(ids) = wanted.ids {
                let (off, size) = wanted.kind;
                let record = &self.data()[start..end];
                let id =
                    record.get(off as usize..off as usize + usize::from(size)).map_or(0, |r| read_uint(r, big_endian));
                if !ids.get(id as usize).copied().unwrap_or(false) {
                    continue;
                }
            }
            if self.gap.is_some() {
                self.note_gap();
            }
            return true;
        }
    }

    /// Record kinds that are not plain data. Returns where the data are, or `None` if there are none.
    #[cold]
    fn special(&mut self, kind: u32, delta: u32, body: usize) -> Option<(usize, usize)> {
        let word = u32_at(&self.data()[..self.end], body, self.big_endian);
        let Some(word) = word else {
            // A null padding header may be the last thing in a page.
            if !(kind == 29 && delta == 0) {
                self.overrun(body, 4);
            }
            self.pos = self.end;
            return None;
        };
        let long = (u64::from(word) << 27) + u64::from(delta);
        match kind {
            // Length in the next word, which counts itself.
            0 if word >= 4 => return Some((body + 4, word as usize - 4)),
            0 => {
                self.overrun(body, 0);
                self.pos = self.end;
            }
            // Padding: to the end of the page, or a discarded record.
            29 if delta == 0 => self.pos = self.end,
            29 => {
                self.time = self.time.wrapping_add(u64::from(delta));
                let len = (word as usize).max(4);
                if len > self.end - body {
                    self.overrun(body, len);
                } else {
                    self.pos = body + len.div_ceil(4) * 4;
                }
            }
            30 => {
                self.time = self.time.wrapping_add(long);
                self.pos = body + 4;
            }
            // 31: the whole time, but its top bits.
            _ => {
                let mut time = long & ((1 << ABSOLUTE_BITS) - 1) | self.time >> ABSOLUTE_BITS << ABSOLUTE_BITS;
                if time < self.time && self.time - time > 1 << (ABSOLUTE_BITS - 1) {
                    time = time.wrapping_add(1 << ABSOLUTE_BITS);
                }
                self.time = time;
                self.pos = body + 4;
            }
        }
        None
    }

    #[cold]
    fn overrun(&mut self, start: usize, len: usize) {
        let error = Error::Invalid {
            offset: self.offset(start),
            what: format!("a record of {len} bytes on CPU {} reaches over the end of its page", self.cpu),
        };
        self.problem(error);
        self.pos = self.end;
    }

    #[cold]
    fn note_gap(&mut self) {
        if let Some(count) = self.gap.take()
            && self.missed.len() < MAX_MISSED
        {
            self.missed.push(Missed { cpu: self.cpu, time_ns: self.time, count });
        }
    }
}

/// Feeds the records of all streams to `each` in order of (time, place of the stream), with runs of one stream kept together.
pub(crate) fn merge<'a>(
    streams: &mut [CpuStream<'a>],
    wanted: &Wanted<'_>,
    mut each: impl FnMut(&CpuStream<'a>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut heap = BinaryHeap::with_capacity(streams.len());
    for (place, stream) in streams.iter_mut().enumerate() {
        if stream.advance(wanted) {
            heap.push(Reverse((stream.time, place)));
        }
    }
    while let Some(Reverse((_, place))) = heap.pop() {
        let limit = heap.peek().map(|Reverse(key)| *key);
        let stream = &mut streams[place];
        loop {
            each(stream)?;
            if !stream.advance(wanted) {
                break;
            }
            if limit.is_some_and(|limit| limit < (stream.time, place)) {
                heap.push(Reverse((stream.time, place)));
                break;
            }
        }
    }
    ControlFlow::Continue(())
}
