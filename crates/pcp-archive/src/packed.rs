//! Compressed members, decoded piece by piece as they are read (`docs/pcp/archive.md` 2).
//!
//! Decoding goes forward. A jump back starts again at the nearest seek point in front: an xz block or a
//! zstd frame, or the start of the file. The last [`KEPT`] pieces stay in memory, so that reading backward
//! decodes again only every `KEPT * PIECE` bytes, and files shorter than that are decoded once.
//!
//! Cost: memory of `KEPT * PIECE` (16 MiB) and what the decoder needs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::os::unix::fs::FileExt;

use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};

use super::files::Compression;
use super::seek_points::{self, SeekPoint};

/// Bytes decoded at once and kept together.
const PIECE: usize = 256 * 1024;
/// Pieces kept.
const KEPT: usize = 64;
/// Bytes of a compressed file read at once.
const INPUT: usize = 64 * 1024;
/// Memory that an xz decoder may take; the dictionary of `xz -9` needs half of it.
const DECODER_MEMORY: u64 = 128 * 1024 * 1024;

/// A compressed file.
pub(super) struct Packed {
    file: File,
    compression: Compression,
    /// Where decoding can start, in order; the start of the file at least.
    points: Vec<SeekPoint>,
    /// Length of what is in it, once that is known.
    len: Option<u64>,
    decoder: Option<Decoder>,
    /// By their number; the last use of each.
    pieces: BTreeMap<u64, (u64, Box<[u8]>)>,
    uses: u64,
    /// Bytes decoded so far, some of them again and again.
    decoded: u64,
}

struct Decoder {
    stream: Box<dyn Read + Send>,
    /// The uncompressed byte it gives next.
    at: u64,
    /// The one after the last that it gives, if it stops before the end of the file.
    stop: Option<u64>,
}

impl Packed {
    pub(crate) fn new(file: File, compression: Compression) -> io::Result<Packed> {
        let (points, len) = seek_points::find(&file, compression)?;
        Ok(Packed {
            file,
            compression,
            points,
            len,
            decoder: None,
            pieces: BTreeMap::new(),
            uses: 0,
            decoded: 0,
        })
    }

    /// Length of the uncompressed file. Decodes all of it where the format does not tell.
    pub(crate) fn len(&mut self) -> io::Result<u64> {
        let mut number = self.decoder.as_ref().map_or(0, |decoder| decoder.at) / PIECE as u64;
        loop {
            if let Some(len) = self.len {
                return Ok(len);
            }
            self.piece(number)?;
            number += 1;
        }
    }

    /// Bytes decoded so far, some of them perhaps again and again.
    pub(crate) fn decoded(&self) -> u64 {
        self.decoded
    }

    /// Reads at least one byte, unless the file ends there.
    pub(crate) fn read_at(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let from = (at % PIECE as u64) as usize;
        let piece = self.piece(at / PIECE as u64)?;
        let found = piece.get(from..).unwrap_or(&[]);
        let len = found.len().min(into.len());
        into[..len].copy_from_slice(&found[..len]);
        Ok(len)
    }

    fn piece(&mut self, number: u64) -> io::Result<&[u8]> {
        let start = number.saturating_mul(PIECE as u64);
        if self.len.is_some_and(|len| start >= len) {
            return Ok(&[]);
        }
        self.uses += 1;
        if !self.pieces.contains_key(&number) {
            self.decode_up_to(number, start)?;
        }
        match self.pieces.get_mut(&number) {
            Some((last_use, piece)) => {
                *last_use = self.uses;
                Ok(piece)
            }
            None => Ok(&[]),
        }
    }

    /// Decodes from the place that costs least until piece `number` is there, or the file ends.
    fn decode_up_to(&mut self, number: u64, start: u64) -> io::Result<()> {
        // Pieces are not cut where blocks are: the first whole one behind a place is what counts.
        let reaches = |plain: u64| plain.next_multiple_of(PIECE as u64) <= start;
        let nearest = self.points.partition_point(|point| reaches(point.plain)).saturating_sub(1);
        let decoding = self.decoder.as_ref().map(|decoder| decoder.at);
        // Going on is cheaper than starting anew, unless a point lies between the decoder and the piece.
        if decoding.is_none_or(|at| !reaches(at) || at < self.points[nearest].plain) {
            self.decoder = None;
            self.decoder = Some(self.decoder_at(nearest)?);
        }
        while let Some(at) = self.decoder.as_ref().map(|decoder| decoder.at) {
            let skip = (at.next_multiple_of(PIECE as u64) - at) as usize;
            // The part of a piece in front of a seek point's is decoded and dropped: half a piece is of no use.
            let want = if skip > 0 { skip } else { PIECE };
            let piece = match self.decode(want) {
                Ok(piece) => piece,
                Err(error) => {
                    // Where the stream is after an error, nobody knows.
                    self.decoder = None;
                    return Err(error);
                }
            };
            let ended = piece.len() < want;
            let current = at / PIECE as u64;
            if skip == 0 {
                self.keep(current, piece);
            }
            if ended || (skip == 0 && current >= number) {
                break;
            }
        }
        Ok(())
    }

    fn keep(&mut self, number: u64, piece: Vec<u8>) {
        if self.pieces.len() >= KEPT
            && let Some(oldest) = self.pieces.iter().min_by_key(|(_, (used, _))| *used).map(|(at, _)| *at)
        {
            self.pieces.remove(&oldest);
        }
        // Each piece decoded on the way is younger than the one before it.
        self.uses += 1;
        self.pieces.insert(number, (self.uses, piece.into_boxed_slice()));
    }

    /// The next `want` bytes; fewer at the end of the file, whose length is known then.
    fn decode(&mut self, want: usize) -> io::Result<Vec<u8>> {
        let mut out = Vec::with_capacity(want);
        while out.len() < want {
            let Some(decoder) = &mut self.decoder else { break };
            let remaining = decoder.stop.map_or(u64::MAX, |stop| stop - decoder.at);
            let part = remaining.min((want - out.len()) as u64);
            let got = (&mut decoder.stream).take(part).read_to_end(&mut out)? as u64;
            decoder.at += got;
            self.decoded += got;
            if got == part && got > 0 {
                continue;
            }
            let at = decoder.at;
            let next = self.points.partition_point(|point| point.plain <= at).saturating_sub(1);
            let point = self.points[next];
            if remaining == got && point.plain == at && point.plain_end.is_some_and(|end| end > at) {
                // The end of a block: the next one has a decoder of its own.
                self.decoder = Some(self.decoder_at(next)?);
            } else {
                self.len = Some(at);
                break;
            }
        }
        Ok(out)
    }

    fn decoder_at(&self, number: usize) -> io::Result<Decoder> {
        let point = self.points[number];
        let input = Input { file: self.file.try_clone()?, at: point.packed, end: point.packed_end };
        let input = BufReader::with_capacity(INPUT, Cursor::new(point.header()).chain(input));
        let stream: Box<dyn Read + Send> = match self.compression {
            Compression::Xz => {
                let stream =
                    Stream::new_stream_decoder(DECODER_MEMORY, CONCATENATED).map_err(io::Error::other)?;
                Box::new(XzDecoder::new_stream(input, stream))
            }
            Compression::Lzma => {
                let stream = Stream::new_lzma_decoder(DECODER_MEMORY).map_err(io::Error::other)?;
                Box::new(XzDecoder::new_stream(input, stream))
            }
            Compression::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(input)),
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(input)),
            Compression::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(input)?),
            Compression::None => Box::new(input),
        };
        Ok(Decoder { stream, at: point.plain, stop: point.plain_end })
    }
}

/// A part of a file, read without moving the file's own position.
struct Input {
    file: File,
    at: u64,
    end: u64,
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let len = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX).min(into.len());
        let got = self.file.read_at(&mut into[..len], self.at)?;
        self.at += got as u64;
        Ok(got)
    }
}
