//! zstd and xz: the C libraries, or what there is in Rust where no C library can be (wasm).

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use native::*;
#[cfg(target_arch = "wasm32")]
pub(crate) use plain::*;

#[cfg(not(target_arch = "wasm32"))]
mod native {
    use std::io::{BufRead, Read, Result};

    use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

    /// What zstd frames hold.
    pub(crate) fn zstd<R: BufRead>(data: R) -> Result<impl Read> {
        zstd::stream::read::Decoder::with_buffer(data)
    }

    /// What zstd frames hold, into a buffer that is large enough; how much it is.
    pub(crate) fn zstd_into(data: &[u8], out: &mut [u8]) -> Result<usize> {
        zstd::bulk::decompress_to_buffer(data, out)
    }

    /// What an xz file holds; its dictionary may take `memory` bytes.
    pub(crate) fn xz<R: BufRead>(data: R, memory: u64) -> Result<impl Read> {
        let stream = liblzma::stream::Stream::new_stream_decoder(memory, liblzma::stream::CONCATENATED)?;
        Ok(liblzma::bufread::XzDecoder::new_stream(data, stream))
    }

    /// A zstd stream that comes in parts.
    pub(crate) struct ZstdParts(Decoder<'static>);

    impl ZstdParts {
        pub(crate) fn new() -> Result<Self> {
            Decoder::new().map(Self)
        }

        /// Adds to `out` what the next part holds, until that is more than `max` bytes; false then.
        pub(crate) fn part(&mut self, packed: &[u8], out: &mut Vec<u8>, max: usize) -> Result<bool> {
            let mut input = InBuffer::around(packed);
            let mut chunk = [0u8; 1 << 15];
            let start = out.len();
            loop {
                let mut output = OutBuffer::around(&mut chunk[..]);
                self.0.run(&mut input, &mut output)?;
                let made = output.pos();
                out.extend_from_slice(&chunk[..made]);
                if out.len() - start > max {
                    return Ok(false);
                }
                if input.pos == packed.len() && made < chunk.len() {
                    return Ok(true);
                }
            }
        }
    }
}

#[cfg(any(target_arch = "wasm32", test))]
#[cfg_attr(not(target_arch = "wasm32"), allow(dead_code))]
mod plain {
    use std::io::{BufRead, Error, Read, Result};

    use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

    fn absent<T>(what: &str) -> Result<T> {
        Err(Error::other(format!("{what} is not unpacked in a browser; unpack it first, or use the command line")))
    }

    /// Frames one after the other.
    struct Frames<R: BufRead>(Option<StreamingDecoder<R, FrameDecoder>>);

    impl<R: BufRead> Read for Frames<R> {
        fn read(&mut self, out: &mut [u8]) -> Result<usize> {
            loop {
                let Some(frame) = &mut self.0 else { return Ok(0) };
                let made = frame.read(out)?;
                if made > 0 || out.is_empty() {
                    return Ok(made);
                }
                let Some(frame) = self.0.take() else { return Ok(0) };
                let mut rest = frame.into_inner();
                if rest.fill_buf()?.is_empty() {
                    return Ok(0);
                }
                self.0 = Some(StreamingDecoder::new(rest).map_err(Error::other)?);
            }
        }
    }

    pub(crate) fn zstd<R: BufRead>(data: R) -> Result<impl Read> {
        Ok(Frames(Some(StreamingDecoder::new(data).map_err(Error::other)?)))
    }

    pub(crate) fn zstd_into(data: &[u8], out: &mut [u8]) -> Result<usize> {
        FrameDecoder::new().decode_all(data, out).map_err(Error::other)
    }

    pub(crate) fn xz<R: BufRead>(_data: R, _memory: u64) -> Result<std::io::Empty> {
        absent("xz")
    }

    pub(crate) struct ZstdParts;

    impl ZstdParts {
        pub(crate) fn new() -> Result<Self> {
            absent("a compressed perf.data")
        }

        pub(crate) fn part(&mut self, _packed: &[u8], _out: &mut Vec<u8>, _max: usize) -> Result<bool> {
            Ok(true)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    /// Goal: both decoders give the same bytes, also of frames one after the other, and refuse the same damage.
    #[test]
    fn zstd_in_rust_gives_what_the_library_gives() {
        let content: Vec<u8> = (0..200_000u32).flat_map(|n| (n / 7 * 31).to_le_bytes()).collect();
        let mut packed = zstd::bulk::compress(&content, 3).expect("memory");
        let mut out = vec![0; content.len()];
        assert_eq!(super::plain::zstd_into(&packed, &mut out).expect("whole"), content.len());
        assert!(out == content);
        assert!(super::plain::zstd_into(&packed[..packed.len() / 2], &mut out).is_err());
        packed.extend(zstd::bulk::compress(b"and more", 19).expect("memory"));
        let (mut one, mut other) = (Vec::new(), Vec::new());
        super::plain::zstd(&packed[..]).expect("a frame").read_to_end(&mut one).expect("whole");
        super::native::zstd(&packed[..]).expect("a frame").read_to_end(&mut other).expect("whole");
        assert!(one == other && one.len() == content.len() + 8);
    }
}
