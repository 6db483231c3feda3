//! A file's bytes: mapped, and unpacked if the whole file is compressed (gzip, xz, zstd).

use std::fs::File;
use std::io::Read;
use std::ops::Deref;
use std::path::Path;

use crate::error::{Error, Result};

/// The bytes of a trace.
pub enum Data {
    /// A mapped file.
    Mapped(memmap2::Mmap),
    /// Bytes in memory.
    Owned(Vec<u8>),
}

impl Data {
    /// Tells the system that a part of a mapped file has been read and need not stay in memory; reading it again still works.
    #[expect(unsafe_code, reason = "the advice is unsafe for writable maps, this one is read-only and of a file")]
    pub(crate) fn release(&self, start: usize, end: usize) {
        let Data::Mapped(map) = self else { return };
        let (start, end) = (start.next_multiple_of(RELEASE_ALIGN), end.min(map.len()) / RELEASE_ALIGN * RELEASE_ALIGN);
        if start < end {
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

/// The outer compression that `data` begin with.
fn outer_codec(data: &[u8]) -> Option<&'static str> {
    match data {
        [0x1f, 0x8b, ..] => Some("gzip"),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some("xz"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some("zstd"),
        _ => None,
    }
}

/// Unpacks `data` until it is no longer compressed; at most three layers, at most `max_bytes`.
///
/// Data that end early give what they held, with the error beside it.
pub(crate) fn unpack(data: Data, max_bytes: u64) -> Result<(Data, Option<Error>)> {
    let (mut data, mut problem) = (data, None);
    for _ in 0..3 {
        let Some(codec) = outer_codec(&data) else { break };
        let (unpacked, error) = unpack_one(&data, codec, max_bytes);
        if unpacked.is_empty()
            && let Some(error) = error
        {
            return Err(error);
        }
        problem = problem.or(error);
        data = Data::Owned(unpacked);
    }
    Ok((data, problem))
}

fn unpack_one(data: &[u8], codec: &'static str, max_bytes: u64) -> (Vec<u8>, Option<Error>) {
    let fail = |what: String| Error::Compression { offset: 0, codec, what };
    let reader: Box<dyn Read + '_> = match codec {
        "gzip" => Box::new(flate2::read::MultiGzDecoder::new(data)),
        "xz" => {
            // A dictionary larger than the limit could never be filled.
            match liblzma::stream::Stream::new_stream_decoder(
                max_bytes.clamp(64 << 20, 1 << 32),
                liblzma::stream::CONCATENATED,
            ) {
                Ok(stream) => Box::new(liblzma::read::XzDecoder::new_stream(data, stream)),
                Err(error) => return (Vec::new(), Some(fail(error.to_string()))),
            }
        }
        _ => match zstd::stream::read::Decoder::with_buffer(data) {
            Ok(decoder) => Box::new(decoder),
            Err(error) => return (Vec::new(), Some(fail(error.to_string()))),
        },
    };
    let mut out = Vec::new();
    let result = reader.take(max_bytes.saturating_add(1)).read_to_end(&mut out);
    if out.len() as u64 > max_bytes {
        out.truncate(max_bytes as usize);
        return (out, Some(fail(format!("more than the {max_bytes} bytes allowed come out"))));
    }
    (out, result.err().map(|error| fail(error.to_string())))
}

/// Maps the file at `path`.
#[expect(unsafe_code, reason = "mapping a file is the one way to read it without copying")]
pub(crate) fn map(path: &Path) -> Result<Data> {
    let io = |source| Error::Io { path: path.to_path_buf(), source };
    let mut file = File::open(path).map_err(io)?;
    let metadata = file.metadata().map_err(io)?;
    if !metadata.is_file() || metadata.len() == 0 {
        // Pipes cannot be mapped, and empty files neither.
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io)?;
        return Ok(Data::Owned(bytes));
    }
    // SAFETY: the map is only read. If another process changes the file meanwhile the bytes change under us: every reader
    // checks each access against the slice's bounds and keeps no assumption about content between two reads.
    // A file that is cut while it is read ends the process with SIGBUS, as with any program that maps files.
    let map = unsafe { memmap2::Mmap::map(&file) }.map_err(io)?;
    Ok(Data::Mapped(map))
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
