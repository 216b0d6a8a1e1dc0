//! Bodies made shorter: gzip and zlib, with a bound on what comes out.

use std::io::Read;

use flate2::read::{MultiGzDecoder, ZlibDecoder};

use crate::delivery::Reason;
use crate::event::Refusal;

/// How a body is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As it is.
    Identity,
    /// `gzip`.
    Gzip,
    /// `deflate`, which is what zlib writes.
    Deflate,
}

/// Decodes a body into `out`, which is cleared before. Memory is taken as bytes come out.
///
/// # Errors
/// It is not of this encoding, or more than `max` bytes.
pub fn inflate(encoding: Encoding, body: &[u8], max: usize, out: &mut Vec<u8>) -> Result<(), Refusal> {
    out.clear();
    match encoding {
        Encoding::Identity => {
            out.extend_from_slice(body);
            Ok(())
        }
        Encoding::Gzip => read(MultiGzDecoder::new(body), max, out),
        Encoding::Deflate => read(ZlibDecoder::new(body), max, out),
    }
}

fn read(decoder: impl Read, max: usize, out: &mut Vec<u8>) -> Result<(), Refusal> {
    let result = decoder.take(max as u64 + 1).read_to_end(out);
    if out.len() > max {
        let what = "the body has more bytes decompressed than the configuration allows";
        return Err(Refusal::at(max, Reason::OversizeLine, what));
    }
    match result {
        Ok(_) => Ok(()),
        Err(_) => {
            let what = "the body is not what gzip or zlib writes";
            Err(Refusal::at(out.len(), Reason::Compression, what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).expect("to memory");
        encoder.finish().expect("to memory")
    }

    #[test]
    fn both_encodings_and_what_is_wrong_with_them() {
        let mut out = vec![1; 10];
        let two = [gzip(b"abc"), gzip(b"def")].concat();
        assert_eq!(inflate(Encoding::Gzip, &two, 6, &mut out), Ok(()));
        assert_eq!(out, b"abcdef");
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
        zlib.write_all(b"xyz").expect("to memory");
        let zlib = zlib.finish().expect("to memory");
        assert_eq!(inflate(Encoding::Deflate, &zlib, 3, &mut out), Ok(()));
        assert_eq!(out, b"xyz");
        for (body, reason) in [
            (&two[..two.len() - 1], Reason::Compression),
            (&zlib, Reason::Compression),
            (b"", Reason::Compression),
        ] {
            let refusal = inflate(Encoding::Gzip, body, 100, &mut out).expect_err("malformed");
            assert_eq!(refusal.reason, reason);
        }
    }

    #[test]
    fn a_bomb_is_stopped_at_the_limit() {
        let bomb = gzip(&vec![0; 64 << 20]);
        assert!(bomb.len() < 100_000);
        let mut out = Vec::new();
        let refusal = inflate(Encoding::Gzip, &bomb, 1 << 20, &mut out).expect_err("too long");
        assert_eq!((refusal.reason, refusal.column), (Reason::OversizeLine, (1 << 20) + 1));
        assert!(out.capacity() <= 4 << 20, "{}", out.capacity());
        assert_eq!(inflate(Encoding::Gzip, &bomb, 64 << 20, &mut out), Ok(()));
    }
}
