//! The bytes of one member of an archive, by their place in the uncompressed file.
//!
//! Cost: a window of [`FIRST`] bytes, which doubles with each move up to [`WINDOW`] (more while a longer record is looked at), and
//! moves with the reader in either direction: who looks at a label only reads no more than that. Memory grows with bytes that are
//! really there, never on the word of a length field. Compressed members add what [`Packed`] keeps.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::error::{ArchiveError, Excess, Problem};
use super::files::{Compression, Member};
use super::packed::Packed;

/// Bytes read at once, at first, and most.
const FIRST: usize = 8 * 1024;
const WINDOW: usize = 256 * 1024;
/// How far the window grows before it is seen whether there are more bytes.
const STEP: usize = 1024 * 1024;

/// Longest record.
const MAX_RECORD: u64 = 256 << 20;
/// Most metadata of an archive.
const MAX_METADATA: u64 = 1 << 30;
/// How much of a compressed file may have to be in memory at once: so many times its size, or this much if it is small.
/// Real archives are compressed to a tenth or a fiftieth.
const MAX_RATIO: u64 = 100;
const SMALL: u64 = 16 << 20;

/// A member that can be read from any place.
pub(super) struct MemberReader {
    member: Member,
    raw: Raw,
    /// What a compressed file may take.
    justified: Option<u64>,
    /// How much the next move reads.
    ahead: usize,
    /// Bytes read so far, some of them again and again.
    read: u64,
    /// How often the window has moved.
    moves: u64,
    /// Where the window starts.
    start: u64,
    window: Vec<u8>,
    /// How much of the window holds bytes of the file.
    filled: usize,
}

enum Raw {
    Plain(File),
    Packed(Box<Packed>),
}

/// A file of the system, by its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

/// A record of a file: where it starts, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub at: u64,
    pub len: usize,
}

impl Frame {
    pub(crate) fn end(self) -> u64 {
        self.at + self.len as u64
    }
}

/// Length word in front of a record, and behind it.
pub(super) const WORD: usize = 4;

impl MemberReader {
    pub(crate) fn open(member: &Member) -> Result<MemberReader, ArchiveError> {
        let failed = |error| ArchiveError::io(&member.path, error);
        let file = File::open(&member.path).map_err(failed)?;
        let raw = match member.compression {
            Compression::None => Raw::Plain(file),
            packed => Raw::Packed(Box::new(Packed::new(file, packed).map_err(failed)?)),
        };
        let justified = match raw {
            Raw::Plain(_) => None,
            Raw::Packed(_) => {
                let size = member.path.metadata().map_err(failed)?.len();
                Some(size.saturating_mul(MAX_RATIO).max(SMALL))
            }
        };
        tracing::trace!(
            target: "pcp::log",
            "{}: opened, {}",
            member.path.display(),
            match member.compression {
                Compression::None => "not compressed".to_owned(),
                packed => format!("compressed ({packed:?})"),
            },
        );
        let (member, window) = (member.clone(), Vec::new());
        Ok(MemberReader {
            member,
            raw,
            justified,
            ahead: FIRST,
            read: 0,
            moves: 0,
            start: 0,
            window,
            filled: 0,
        })
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.member.path
    }

    /// Which file this is, whatever it is called, if the system says it.
    pub(crate) fn file_id(&self) -> Option<FileId> {
        let file = match &self.raw {
            Raw::Plain(file) => file,
            Raw::Packed(packed) => packed.file(),
        };
        file.metadata().ok().map(|file| FileId { device: file.dev(), inode: file.ino() })
    }

    /// Length of the uncompressed file; may grow while it is being written. Costs reading a compressed
    /// file whose format does not tell.
    pub(crate) fn len(&mut self) -> Result<u64, ArchiveError> {
        let len = match &mut self.raw {
            Raw::Plain(file) => file.metadata().map(|metadata| metadata.len()),
            Raw::Packed(packed) => packed.len(),
        };
        len.map_err(|error| ArchiveError::io(&self.member.path, error))
    }

    /// Bytes that were read or decoded so far, some of them perhaps again and again.
    pub(crate) fn work(&self) -> u64 {
        match &self.raw {
            Raw::Plain(_) => self.read,
            Raw::Packed(packed) => self.read + packed.decoded(),
        }
    }

    /// How often the bytes in memory were exchanged for others.
    pub(crate) fn moves(&self) -> u64 {
        self.moves
    }

    /// `len` bytes from `at` on, or as many of them as the file has.
    pub(crate) fn bytes(&mut self, at: u64, len: usize) -> Result<&[u8], ArchiveError> {
        if self.inside(at, len).is_none() {
            self.fill(at, len).map_err(|error| ArchiveError::io(&self.member.path, error))?;
        }
        let from = usize::try_from(at - self.start).unwrap_or(usize::MAX).min(self.filled);
        let to = from.saturating_add(len).min(self.filled);
        Ok(&self.window[from..to])
    }

    /// The record at `at`, its length words included, or `None` if the file ends there (less than a
    /// length word is left).
    pub(crate) fn frame(&mut self, at: u64) -> Result<Option<Frame>, ArchiveError> {
        let Some(len) = word(self.bytes(at, WORD)?) else { return Ok(None) };
        let frame = self.checked(at, len)?;
        let record = self.bytes(at, frame.len)?;
        if record.len() < frame.len {
            return Err(self.bad(at, "truncated"));
        }
        match word(&record[frame.len - WORD..]) {
            Some(trailer) if trailer == len => Ok(Some(frame)),
            _ => Err(self.bad(at, "length at its end differs from that at its start")),
        }
    }

    /// The record that ends at `end`; records start behind the label, at `first`.
    pub(crate) fn frame_before(&mut self, end: u64, first: u64) -> Result<Frame, ArchiveError> {
        let at = end.saturating_sub(WORD as u64);
        let Some(len) = word(self.bytes(at, WORD)?) else { return Err(self.bad(at, "truncated")) };
        let frame = self.checked(end.saturating_sub(u64::from(len)), len)?;
        if u64::from(len) > end || frame.at < first {
            return Err(self.bad(at, "starts before the first record"));
        }
        match word(self.bytes(frame.at, frame.len)?) {
            Some(header) if header == len => Ok(frame),
            _ => Err(self.bad(frame.at, "length at its end differs from that at its start")),
        }
    }

    /// The bytes of a record found before.
    pub(crate) fn record(&mut self, frame: Frame) -> Result<&[u8], ArchiveError> {
        // Twice the same test, so that the borrow of the error's path does not last.
        if self.bytes(frame.at, frame.len)?.len() < frame.len {
            return Err(self.bad(frame.at, "truncated"));
        }
        self.bytes(frame.at, frame.len)
    }

    pub(crate) fn bad(&self, at: u64, what: &'static str) -> ArchiveError {
        self.error(at, Problem::Record(what))
    }

    pub(crate) fn error(&self, at: impl Into<Option<u64>>, problem: Problem) -> ArchiveError {
        ArchiveError::new(&self.member.path, at, problem)
    }

    /// Refuses metadata up to `end`: all of it is kept, unlike records of volumes.
    pub(crate) fn check_metadata(&self, end: u64) -> Result<(), ArchiveError> {
        self.limit(end, "metadata", end, MAX_METADATA)
    }

    fn limit(&self, at: u64, what: &'static str, bytes: u64, most: u64) -> Result<(), ArchiveError> {
        let justified = self.justified.filter(|justified| *justified < most);
        let limit = justified.unwrap_or(most);
        if bytes <= limit {
            return Ok(());
        }
        let excess = Excess { what, bytes, limit, packed: justified.is_some() };
        Err(self.error(at, Problem::TooLong(Box::new(excess))))
    }

    fn checked(&self, at: u64, len: u32) -> Result<Frame, ArchiveError> {
        match usize::try_from(len) {
            // PCP's own lengths are signed.
            Ok(size) if size >= 2 * WORD && size <= i32::MAX as usize => {
                self.limit(at, "a record", len.into(), MAX_RECORD)?;
                Ok(Frame { at, len: size })
            }
            _ => Err(self.bad(at, "impossible length")),
        }
    }

    fn inside(&self, at: u64, len: usize) -> Option<()> {
        let from = usize::try_from(at.checked_sub(self.start)?).ok()?;
        (from.checked_add(len)? <= self.filled).then_some(())
    }

    /// Moves the window over `len` bytes at `at`, extending it in the direction of the move. An error beside these bytes is
    /// none: it is told to who asks for what is there.
    fn fill(&mut self, at: u64, len: usize) -> io::Result<()> {
        let end = at.saturating_add(len as u64);
        let backward = at < self.start;
        let ahead = self.ahead;
        self.ahead = (2 * ahead).min(WINDOW);
        // Going backward the window ends with what was asked for: what comes next lies in front of it.
        let start = if backward { end.saturating_sub(ahead as u64).min(at) } else { at };
        let want = if backward { (end - start) as usize } else { len.max(ahead) };
        match self.read_window(start, want) {
            Err(_) if self.inside(at, len).is_some() => Ok(()),
            Err(_) if start < at => self.read_window(at, len),
            done => done,
        }
    }

    /// Moves the window to `start` and reads up to `want` bytes. Those in front of an error are in it.
    fn read_window(&mut self, start: u64, mut want: usize) -> io::Result<()> {
        self.moves += 1;
        // What is there already is not read again: of a long record that is what was read to see its length.
        let from = usize::try_from(start.wrapping_sub(self.start)).ok().filter(|from| *from < self.filled);
        let there = from.map_or(0..0, |from| from..self.filled);
        (self.start, self.filled) = (start, there.len());
        self.window.copy_within(there, 0);
        if let Raw::Plain(file) = &self.raw {
            // No memory for what is not there, yet: who asks again is told anew.
            let left = file.metadata()?.len().saturating_sub(start);
            want = want.min(usize::try_from(left).unwrap_or(usize::MAX));
        }
        // One huge record must not hold its memory for as long as the archive is open.
        if self.window.len() > 8 * WINDOW && want <= WINDOW {
            (self.window, self.filled) = (Vec::new(), 0);
        }
        while self.filled < want {
            // `want` is the word of a length field: believed only as far as there are bytes.
            let room = want.min(self.filled + STEP);
            if self.window.len() < room {
                self.window.resize(room, 0);
            }
            match self.raw.read_at(start + self.filled as u64, &mut self.window[self.filled..room])? {
                0 => break,
                got => {
                    self.filled += got;
                    self.read += got as u64;
                }
            }
        }
        Ok(())
    }
}

impl Raw {
    /// Reads at least one byte, unless the file ends there.
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Raw::Plain(file) => loop {
                match file.read_at(into, at) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    done => return done,
                }
            },
            Raw::Packed(packed) => packed.read_at(at, into),
        }
    }
}

fn word(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(..WORD)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Bytes of a block, which are those of a piece.
    const BLOCK: usize = 256 * 1024;

    #[test]
    fn a_fault_is_told_only_to_who_asks_for_what_is_there() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.0");
        let bytes: Vec<u8> =
            (0..3 * BLOCK as u32 / 4).flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()).collect();
        std::fs::write(&path, &bytes).expect("writable");
        let packed = Command::new("xz").args(["-q", "--block-size=262144"]).arg(&path).status();
        assert!(packed.expect("installed").success());
        let path = dir.path().join("a.0.xz");
        let mut packed = std::fs::read(&path).expect("there");
        let middle = packed.len() / 2;
        packed[middle..middle + 64].fill(0xa5);
        std::fs::write(&path, packed).expect("writable");
        let mut source = MemberReader::open(&Member { path, compression: Compression::Xz }).expect("there");
        let last = 3 * BLOCK - 16;
        let whole = [(0, 16), (BLOCK - 16, 16), (BLOCK, 16), (last, 16), (2 * BLOCK, 16), (BLOCK - 8, 8)];
        for (at, len) in whole {
            assert_eq!(source.bytes(at as u64, len).expect("whole"), &bytes[at..at + len], "at {at}");
        }
        for (at, len) in [(2 * BLOCK - 16, 16), (0, 2 * BLOCK)] {
            source.bytes(at as u64, len).expect_err("not whole");
        }
        assert_eq!(source.bytes(last as u64, 32).expect("whole").len(), 16);
    }
}
