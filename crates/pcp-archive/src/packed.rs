//! Compressed members, decoded piece by piece as they are read (`docs/pcp/archive.md` 2).
//!
//! Decoding goes forward. A jump back starts again at the nearest seek point in front: an xz block or a
//! zstd frame, or the start of the file. The last [`KEPT`] pieces stay in memory, so that reading backward
//! decodes again only every `KEPT * PIECE` bytes, and files shorter than that are decoded once. Of those that say from the start that they are
//! longer the last [`PASSING`] do, until somebody goes back to a piece that was dropped for that: most read from the start to the end,
//! within the processor's cache.
//!
//! Invariant: what was decoded in front of a fault is given, and the fault only to who asks for what is behind.
//!
//! Cost: memory of `KEPT * PIECE` (16 MiB) and what the decoder needs. The memory of a piece that goes is the next one's: to touch new
//! memory costs as much as half of the decoding.

use std::collections::{BTreeMap, VecDeque};
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
/// Pieces kept of a longer file as long as nobody goes back.
const PASSING: usize = 4;
/// Bytes of a compressed file read at once.
const INPUT: usize = 64 * 1024;
/// Bytes asked of a decoder at once: of these, one that finds damage gives none.
const STEP: usize = 4 * 1024;
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
    /// By their number.
    pieces: BTreeMap<u64, Piece>,
    /// Memory for a piece, that none has.
    spare: Option<Vec<u8>>,
    /// Pieces that would be there, were not only [`PASSING`] kept, the last one that was dropped in front.
    dropped: VecDeque<u64>,
    /// Whether somebody has gone back to one of them.
    goes_back: bool,
    uses: u64,
    /// Bytes decoded so far, some of them again and again.
    decoded: u64,
}

struct Piece {
    last_use: u64,
    /// [`PIECE`] of them.
    bytes: Vec<u8>,
    /// How many are of the file: fewer in front of a fault, and at the end.
    len: usize,
    /// Why there are no more.
    fault: Option<Fault>,
}

/// An error that is given again and again.
#[derive(Clone, Debug)]
enum Fault {
    System(i32),
    Decoder(io::ErrorKind, String),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        match error.raw_os_error() {
            Some(code) => Fault::System(code),
            None => Fault::Decoder(error.kind(), error.to_string()),
        }
    }
}

impl From<Fault> for io::Error {
    fn from(fault: Fault) -> io::Error {
        match fault {
            Fault::System(code) => io::Error::from_raw_os_error(code),
            Fault::Decoder(kind, text) => io::Error::new(kind, text),
        }
    }
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
            spare: None,
            dropped: VecDeque::new(),
            goes_back: false,
            uses: 0,
            decoded: 0,
        })
    }

    /// The compressed file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Length of the uncompressed file. Decodes all of it where the format does not tell.
    pub(crate) fn len(&mut self) -> io::Result<u64> {
        let mut number = self.decoder.as_ref().map_or(0, |decoder| decoder.at) / PIECE as u64;
        loop {
            if let Some(len) = self.len {
                return Ok(len);
            }
            if let Some(fault) = self.piece(number)?.and_then(|piece| piece.fault.clone()) {
                return Err(fault.into());
            }
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
        let Some(piece) = self.piece(at / PIECE as u64)? else { return Ok(0) };
        let found = piece.bytes.get(from..piece.len).unwrap_or(&[]);
        if let (true, Some(fault)) = (found.is_empty(), &piece.fault) {
            return Err(fault.clone().into());
        }
        let len = found.len().min(into.len());
        into[..len].copy_from_slice(&found[..len]);
        Ok(len)
    }

    /// A piece, unless the file ends in front of it.
    fn piece(&mut self, number: u64) -> io::Result<Option<&Piece>> {
        let start = number.saturating_mul(PIECE as u64);
        if self.len.is_some_and(|len| start >= len) {
            return Ok(None);
        }
        self.uses += 1;
        if !self.pieces.contains_key(&number) {
            self.decode_up_to(number, start)?;
        }
        let piece = self.pieces.get_mut(&number);
        Ok(piece.map(|piece| {
            piece.last_use = self.uses;
            &*piece
        }))
    }

    /// Decodes from the place that costs least until piece `number` is there, or the file ends.
    fn decode_up_to(&mut self, number: u64, start: u64) -> io::Result<()> {
        // Pieces are not cut where blocks are: the first whole one behind a place is what counts.
        let reaches = |plain: u64| plain.next_multiple_of(PIECE as u64) <= start;
        let nearest = self.points.partition_point(|point| reaches(point.plain)).saturating_sub(1);
        let decoding = self.decoder.as_ref().map(|decoder| decoder.at);
        self.goes_back |= self.dropped.contains(&number);
        // Going on is cheaper than starting anew, unless a point lies between the decoder and the piece.
        if decoding.is_none_or(|at| !reaches(at) || at < self.points[nearest].plain) {
            self.decoder = None;
            self.decoder = Some(self.decoder_at(nearest)?);
        }
        while let Some(at) = self.decoder.as_ref().map(|decoder| decoder.at) {
            let skip = (at.next_multiple_of(PIECE as u64) - at) as usize;
            // The part of a piece in front of a seek point's is decoded and dropped: half a piece is of no use.
            let want = if skip > 0 { skip } else { PIECE };
            let mut bytes = self.memory();
            let (len, done) = self.decode(&mut bytes[..want]);
            let fault = done.err().map(Fault::from);
            if fault.is_some() {
                // Where the stream is after an error, nobody knows.
                self.decoder = None;
            }
            let current = at / PIECE as u64;
            let is_there = skip == 0 && current >= number;
            if skip == 0 {
                // Each piece decoded on the way is younger than the one before it.
                self.uses += 1;
                let piece = Piece { last_use: self.uses, bytes, len, fault: fault.clone() };
                self.pieces.insert(current, piece);
            } else {
                self.spare = Some(bytes);
            }
            match fault {
                Some(fault) if !is_there => return Err(fault.into()),
                _ if len < want || is_there => break,
                _ => {}
            }
        }
        Ok(())
    }

    /// Memory for one more piece. Where there are as many as are kept, that of the one not used for longest.
    fn memory(&mut self) -> Vec<u8> {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let passes = !self.goes_back && self.len.is_some_and(|len| len > (KEPT * PIECE) as u64);
        let kept = if passes { PASSING } else { KEPT };
        if self.pieces.len() < kept {
            return vec![0; PIECE];
        }
        let oldest = self.pieces.iter().min_by_key(|(_, piece)| piece.last_use).map(|(number, _)| *number);
        if let Some(number) = oldest.filter(|_| passes) {
            self.dropped.truncate(KEPT - PASSING - 1);
            self.dropped.push_front(number);
        }
        let piece = oldest.and_then(|number| self.pieces.remove(&number));
        piece.map_or_else(|| vec![0; PIECE], |piece| piece.bytes)
    }

    /// Decodes the next bytes. How many there were: less at the end of the file, whose length is known then, and in front of an error.
    fn decode(&mut self, out: &mut [u8]) -> (usize, io::Result<()>) {
        let mut len = 0;
        while len < out.len() {
            let Some(decoder) = &mut self.decoder else { break };
            let remaining = decoder.stop.map_or(u64::MAX, |stop| stop - decoder.at);
            let part = usize::try_from(remaining).unwrap_or(usize::MAX).min(out.len() - len);
            let (got, done) = read(&mut decoder.stream, &mut out[len..len + part]);
            len += got;
            decoder.at += got as u64;
            self.decoded += got as u64;
            if done.is_err() {
                return (len, done);
            }
            if got == part && got > 0 {
                continue;
            }
            let at = decoder.at;
            let next = self.points.partition_point(|point| point.plain <= at).saturating_sub(1);
            let point = self.points[next];
            if remaining == got as u64 && point.plain == at && point.plain_end.is_some_and(|end| end > at) {
                // The end of a block: the next one has a decoder of its own.
                match self.decoder_at(next) {
                    Ok(decoder) => self.decoder = Some(decoder),
                    Err(error) => return (len, Err(error)),
                }
            } else {
                self.len = Some(at);
                break;
            }
        }
        (len, Ok(()))
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

/// Reads until all of `out` is there, or the stream ends or fails; how many bytes are.
fn read(stream: &mut dyn Read, out: &mut [u8]) -> (usize, io::Result<()>) {
    let mut len = 0;
    while len < out.len() {
        let end = out.len().min(len + STEP);
        match stream.read(&mut out[len..end]) {
            Ok(0) => break,
            Ok(got) => len += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (len, Err(error)),
        }
    }
    (len, Ok(()))
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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn whoever_goes_to_and_fro_has_a_long_file_decoded_a_few_times() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a");
        let pieces = 96_u64;
        let bytes: Vec<u8> = (0..pieces).flat_map(|number| vec![number as u8; PIECE]).collect();
        std::fs::write(&path, bytes).expect("writable");
        assert!(Command::new("xz").args(["-q", "-0"]).arg(&path).status().expect("installed").success());
        let len = pieces * PIECE as u64;
        for (places, times) in [
            // From the start to the end; and back piece by piece, of which all that fit are kept after the first.
            ((0..pieces).collect::<Vec<_>>(), 1),
            ((0..pieces).chain((0..pieces).rev()).collect(), 4),
            // The start in turn with places near the end.
            ([0, 88, 0, 93, 0, 80].repeat(20), 5),
        ] {
            let file = File::open(path.with_extension("xz")).expect("it is there");
            let mut packed = Packed::new(file, Compression::Xz).expect("it is sound");
            for place in &places {
                let mut byte = [0];
                assert_eq!(packed.read_at(place * PIECE as u64, &mut byte).expect("it is sound"), 1);
                assert_eq!(u64::from(byte[0]), *place);
            }
            assert!(packed.decoded() <= times * len, "{} of {len}: {places:?}", packed.decoded());
            assert!(packed.pieces.len() <= KEPT);
        }
    }
}
