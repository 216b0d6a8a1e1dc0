//! The whole records of a file that may be damaged: behind a record that is none, the next place is looked for where one
//! begins.
//!
//! Cost: one walk over the file. A search looks at each byte behind the damage, and at the bytes that a length found there
//! promises, [`MAX_SEARCHED`] of them in a file at most; what is behind that stays unread, and is told of as damage.

use crate::error::{ArchiveError, Problem};
use crate::member::{Frame, MemberReader, WORD};

/// Most bytes of a file that searches look at, those seen again included.
const MAX_SEARCHED: u64 = 1 << 30;
/// Longest record that a search finds.
const MAX_FOUND: u32 = 16 << 20;

/// What is at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A record whose lengths are right.
    Record(Frame),
    /// Bytes that belong to no record.
    Damage { at: u64, end: u64, what: String },
}

/// A walk over the records of a file.
pub(super) struct Scan {
    at: u64,
    left: u64,
}

impl Scan {
    /// Begins at a record.
    pub(super) fn new(at: u64) -> Scan {
        Scan { at, left: MAX_SEARCHED }
    }

    /// How far it is: in the end, the length of the file.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// What is next, or `None` at the end. `is_record` tells whether bytes that a search came upon, with lengths that are
    /// right, make sense.
    ///
    /// # Errors
    /// Only what the system or a decoder says. The walk is over then.
    pub(super) fn next(
        &mut self,
        source: &mut MemberReader,
        is_record: impl FnMut(&[u8]) -> bool,
    ) -> Result<Option<Piece>, ArchiveError> {
        let at = self.at;
        let what = match source.frame(at) {
            Ok(Some(frame)) => {
                self.at = frame.end();
                return Ok(Some(Piece::Record(frame)));
            }
            Ok(None) if source.bytes(at, 1)?.is_empty() => return Ok(None),
            Ok(None) => "shorter than a length".to_owned(),
            Err(ArchiveError { problem: problem @ Problem::Io(_), path, offset }) => {
                return Err(ArchiveError { path, offset, problem });
            }
            Err(error) => error.problem.to_string(),
        };
        let end = self.search(source, at + 1, is_record)?;
        self.at = end;
        Ok(Some(Piece::Damage { at, end, what }))
    }

    /// The next place at which a record begins, or the end of the file.
    fn search(
        &mut self,
        source: &mut MemberReader,
        from: u64,
        mut is_record: impl FnMut(&[u8]) -> bool,
    ) -> Result<u64, ArchiveError> {
        for at in from.. {
            let Ok(word) = <[u8; WORD]>::try_from(source.bytes(at, WORD)?) else {
                return Ok(at + source.bytes(at, WORD)?.len() as u64);
            };
            let len = u32::from_be_bytes(word);
            let is_length = (2 * WORD as u32..=MAX_FOUND).contains(&len);
            let cost = 1 + if is_length { u64::from(len) } else { 0 };
            match self.left.checked_sub(cost) {
                Some(left) => self.left = left,
                None => return source.len(),
            }
            if !is_length {
                continue;
            }
            match source.frame(at) {
                Ok(Some(frame)) if is_record(source.record(frame)?) => return Ok(at),
                Err(error @ ArchiveError { problem: Problem::Io(_), .. }) => return Err(error),
                _ => {}
            }
        }
        source.len()
    }
}
