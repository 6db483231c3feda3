//! A file's bytes: mapped, and unpacked if the whole file is compressed (gzip, xz, zstd).

use std::cell::Cell;
use std::fs::File;
use std::io::{BufRead, Read};
use std::ops::Deref;
#[cfg(unix)]
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt as _};
use std::path::Path;
use std::rc::Rc;

use crate::codec;
use crate::error::{Error, Result};

/// The bytes of a trace.
pub enum Data {
    /// A mapped file.
    Mapped(memmap2::Mmap),
    /// Bytes in memory.
    Owned(Vec<u8>),
}

impl Data {
    /// Releases the memory of a part of a mapped file that has been read; reading it again still works.
    #[cfg_attr(
        unix,
        expect(unsafe_code, reason = "the advice is unsafe for writable maps, this one is read-only and of a file")
    )]
    pub(crate) fn release(&self, start: usize, end: usize) {
        let Data::Mapped(map) = self else { return };
        let (start, end) = (start.next_multiple_of(RELEASE_ALIGN), end.min(map.len()) / RELEASE_ALIGN * RELEASE_ALIGN);
        if start < end {
            #[cfg(unix)]
            // SAFETY: the pages are clean pages of a file; the next access maps them again with the same content.
            // A refusal changes nothing.
            let _ = unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, end - start) };
        }
    }
}

/// No system has larger pages than this.
const RELEASE_ALIGN: usize = 1 << 16;

impl Deref for Data {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Data::Mapped(map) => map,
            Data::Owned(bytes) => bytes,
        }
    }
}

/// What compressed content may expand to, so that a small file cannot take all memory.
///
/// Without [`UnpackLimits::up_to`] the limit follows from the file's size: real traces shrink by a factor of 5 to 100, a bomb
/// by a thousand for each layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnpackLimits {
    /// Bytes that come out of all layers and parts together; `None`: [`UnpackLimits::RATIO`] times the file.
    bytes_max: Option<u64>,
    /// Compressed content inside of compressed content, so deep.
    depth_max: u32,
}

impl Default for UnpackLimits {
    /// By the file's size, unless the environment has `OPPLAB_MAX_UNPACKED=BYTES`.
    fn default() -> Self {
        let asked = std::env::var("OPPLAB_MAX_UNPACKED").ok().and_then(|bytes| bytes.trim().parse().ok());
        asked.map_or(Self { bytes_max: None, depth_max: 2 }, Self::up_to)
    }
}

impl UnpackLimits {
    /// What a file may expand to, as a multiple of its size.
    pub const RATIO: u64 = 250;
    /// What any file may expand to, however small it is.
    pub const FREE_BYTES: u64 = 16 << 20;
    /// What no file may expand to unless it was asked for.
    pub const DEFAULT_BYTES: u64 = 4 << 30;

    /// Allows `bytes` in total whatever the file's size, and deeper nesting.
    pub fn up_to(bytes: u64) -> Self {
        Self { bytes_max: Some(bytes), depth_max: 8 }
    }

    /// What may come out of a file of `file_bytes`.
    pub(crate) fn budget(&self, file_bytes: usize) -> Budget {
        let by_ratio = (file_bytes as u64).saturating_mul(Self::RATIO).clamp(Self::FREE_BYTES, Self::DEFAULT_BYTES);
        let total = self.bytes_max.unwrap_or(by_ratio);
        Budget { total, left: total, by_ratio: self.bytes_max.is_none(), depth_max: self.depth_max }
    }
}

/// What is left of the limits of one file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    total: u64,
    left: u64,
    /// Without a limit of what may come out.
    by_ratio: bool,
    depth_max: u32,
}

impl Budget {
    /// An error if compressed content at `depth` (from 1) around a file is nested deeper than allowed.
    pub(crate) fn check_depth(&self, depth: u32, offset: u64, codec: &'static str) -> Result<()> {
        Self::within(depth, self.depth_max, offset, codec)
    }

    /// The same of packets inside of a file: half as deep, because no writer puts compressed packets into compressed ones.
    pub(crate) fn check_packet_depth(&self, depth: u32, offset: u64, codec: &'static str) -> Result<()> {
        Self::within(depth, self.depth_max / 2, offset, codec)
    }

    fn within(depth: u32, max: u32, offset: u64, codec: &'static str) -> Result<()> {
        if depth <= max {
            return Ok(());
        }
        let what = format!("compressed content is nested more than {max} deep; {RAISE}");
        Err(Error::Compression { offset, codec, what })
    }

    /// Takes `bytes` off what is left.
    pub(crate) fn take(&mut self, bytes: u64, offset: u64, codec: &'static str) -> Result<()> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                let what = format!("more than the {} bytes allowed come out; {RAISE}", self.total);
                Err(Error::Compression { offset, codec, what })
            }
        }
    }

    /// All that comes out of `data`, read by what `open` makes of them. Content that ends early gives what came out, with what
    /// was wrong beside it.
    ///
    /// What is held is counted while it grows: a reader that has taken in little may not have made much of it, so that a bomb
    /// is refused when it begins to grow, not when it is all in memory.
    pub(crate) fn read<'d, R: Read>(
        &mut self,
        data: &'d [u8],
        open: impl FnOnce(Counted<'d>) -> std::io::Result<R>,
        offset: u64,
        codec: &'static str,
    ) -> Result<(Vec<u8>, Option<String>)> {
        let used = Rc::new(Cell::new(0));
        let fail = |error: std::io::Error| Error::Compression { offset, codec, what: error.to_string() };
        let mut reader = open(Counted { rest: data, used: used.clone() }).map_err(fail)?;
        let mut out = Vec::new();
        loop {
            let before = out.len();
            let step = HELD_STEP.min((self.left - before as u64).saturating_add(1));
            let problem = reader.by_ref().take(step).read_to_end(&mut out).err();
            let held = out.len() as u64;
            let by_ratio = (used.get() as u64).saturating_mul(UnpackLimits::RATIO).max(UnpackLimits::FREE_BYTES);
            if held <= self.left && self.by_ratio && held > by_ratio {
                let what = format!("more than the {by_ratio} bytes allowed come out of what was read; {RAISE}");
                return Err(Error::Compression { offset, codec, what });
            }
            if held > self.left || problem.is_some() || out.len() == before {
                self.take(held, offset, codec)?;
                return Ok((out, problem.map(|error| error.to_string())));
            }
        }
    }
}

/// What is held grows by this much between two looks at it.
const HELD_STEP: u64 = 4 << 20;

/// Bytes that count how many of them were read.
pub(crate) struct Counted<'d> {
    rest: &'d [u8],
    used: Rc<Cell<usize>>,
}

impl Read for Counted<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let len = self.rest.read(out)?;
        self.used.set(self.used.get() + len);
        Ok(len)
    }
}

impl BufRead for Counted<'_> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        // A piece at a time, so that the rest does not count as read.
        Ok(&self.rest[..self.rest.len().min(1 << 16)])
    }

    fn consume(&mut self, amount: usize) {
        self.rest = &self.rest[amount..];
        self.used.set(self.used.get() + amount);
    }
}

/// How the limits are raised, for messages.
const RAISE: &str = "raise the limit with --max-unpacked or OPPLAB_MAX_UNPACKED if the file is to be trusted";

/// The outer compression that `data` begin with.
fn outer_codec(data: &[u8]) -> Option<&'static str> {
    match data {
        [0x1f, 0x8b, ..] => Some("gzip"),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some("xz"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some("zstd"),
        _ => None,
    }
}

/// The codec of a damaged outer compression, and what is wrong.
pub(crate) type OuterDamage = (&'static str, String);

/// Unpacks `data` until it is no longer compressed, within `limits`; what is left of these for compressed parts inside.
///
/// Data that end early give what they held, with the codec and what was wrong beside it.
pub(crate) fn unpack(data: Data, limits: &UnpackLimits) -> Result<(Data, Budget, Option<OuterDamage>)> {
    let mut budget = limits.budget(data.len());
    let (mut data, mut problem, mut depth) = (data, None, 0);
    while let Some(codec) = outer_codec(&data) {
        depth += 1;
        budget.check_depth(depth, 0, codec)?;
        let (unpacked, error) = unpack_one(&data, codec, &mut budget)?;
        if unpacked.is_empty()
            && let Some(what) = error
        {
            return Err(Error::Compression { offset: 0, codec, what });
        }
        problem = problem.or(error.map(|error| (codec, error)));
        data = Data::Owned(unpacked);
    }
    Ok((data, budget, problem))
}

fn unpack_one(data: &[u8], codec: &'static str, budget: &mut Budget) -> Result<(Vec<u8>, Option<String>)> {
    match codec {
        "gzip" => budget.read(data, |data| Ok(flate2::bufread::MultiGzDecoder::new(data)), 0, codec),
        "xz" => {
            // A dictionary larger than the limit could never be filled.
            let memory = budget.left.clamp(80 << 20, 1 << 30);
            budget.read(data, |data| codec::xz(data, memory), 0, codec)
        }
        _ => budget.read(data, codec::zstd, 0, codec),
    }
}

/// The most that is read from a pipe, whose size is not known beforehand.
const PIPE_BYTES_MAX: u64 = 4 << 30;

/// Maps the file at `path`; a pipe is read to its end.
#[expect(unsafe_code, reason = "mapping a file is the one way to read it without copying")]
pub(crate) fn map(path: &Path) -> Result<Data> {
    let io = |source| Error::Io { path: path.to_path_buf(), source };
    let file = open(path).map_err(io)?;
    let metadata = file.metadata().map_err(io)?;
    if !metadata.is_file() || metadata.len() == 0 {
        // Pipes cannot be mapped, and empty files (among them those of /proc and /sys) neither.
        let mut bytes = Vec::new();
        file.take(PIPE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(io)?;
        if bytes.len() as u64 > PIPE_BYTES_MAX {
            return Err(io(std::io::Error::other(format!("more than {PIPE_BYTES_MAX} bytes come out of the pipe"))));
        }
        return Ok(Data::Owned(bytes));
    }
    // SAFETY: the map is only read. If another process changes the file meanwhile the bytes change under us: every reader
    // checks each access against the slice's bounds and keeps no assumption about content between two reads.
    // A file that is cut while it is read ends the process with SIGBUS, as with any program that maps files.
    let map = unsafe { memmap2::Mmap::map(&file) }.map_err(io)?;
    Ok(Data::Mapped(map))
}

/// Opens a regular file or a pipe of a shell (`<(...)`, `/dev/stdin`). Devices have no end, sockets no bytes, and a named
/// pipe without a writer would wait for ever: they are refused.
#[cfg(unix)]
fn open(path: &Path) -> std::io::Result<File> {
    let refuse = |what: &str| Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, what.to_owned()));
    // Looked at before it is opened, because opening a pipe waits.
    let kind = std::fs::metadata(path)?.file_type();
    if kind.is_dir() {
        return refuse("is a folder");
    }
    if kind.is_fifo() && !path.starts_with("/dev") && !path.starts_with("/proc") {
        return refuse("is a named pipe: give its content as /dev/stdin");
    }
    if !kind.is_file() && !kind.is_fifo() {
        return refuse("is neither a file nor a pipe");
    }
    if kind.is_fifo() {
        return File::open(path);
    }
    // What waits for news, as /proc/kmsg, has nothing to give.
    File::options().read(true).custom_flags(O_NONBLOCK).open(path)
}

/// Where nothing of this can be: a browser's module has no files at all.
#[cfg(not(unix))]
fn open(path: &Path) -> std::io::Result<File> {
    File::open(path)
}

/// O_NONBLOCK of Linux.
#[cfg(unix)]
const O_NONBLOCK: i32 = 0o4000;

/// The whole of a file of at most `max` bytes, of what lies beside a trace.
///
/// # Errors
/// The system's error, or why the file is not read: devices have no end.
pub fn read_whole(path: &Path, max: u64) -> std::io::Result<Vec<u8>> {
    let too_large = || std::io::Error::new(std::io::ErrorKind::InvalidInput, format!("is larger than {max} bytes"));
    let file = open(path)?;
    if file.metadata()?.len() > max {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    file.take(max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max { Err(too_large()) } else { Ok(bytes) }
}

/// Deepest folder that is looked into: `formats/<group>/<event>/format` needs three.
const MAX_DEPTH: usize = 6;

/// Maps the files below `path` whose names (relative to it) `wanted` accepts, in order of their names.
pub(crate) fn map_folder(path: &Path, wanted: &dyn Fn(&str) -> bool) -> Result<Vec<(String, Data)>> {
    let io = |path: &Path| {
        let path = path.to_path_buf();
        move |source| Error::Io { path, source }
    };
    let (mut files, mut open) = (Vec::new(), vec![(path.to_path_buf(), String::new(), 0)]);
    while let Some((folder, prefix, depth)) = open.pop() {
        for entry in std::fs::read_dir(&folder).map_err(io(&folder))? {
            let entry = entry.map_err(io(&folder))?;
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            // Not following links keeps the walk inside of the folder.
            let kind = entry.file_type().map_err(io(&entry.path()))?;
            if kind.is_dir() && depth < MAX_DEPTH {
                open.push((entry.path(), format!("{name}/"), depth + 1));
            } else if kind.is_file() && wanted(&name) {
                files.push((name, map(&entry.path())?));
            }
        }
    }
    files.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(files)
}
