//! One file of a source's log: its name, its head, and the way from batch to batch.

use std::io;
use std::sync::Arc;

use memchr::memmem;
use pcp_files::{Disk, DiskFile};
use pcp_model::{Inst, Timestamp};

use crate::format::{BATCH_HEAD, BATCH_MAGIC, BatchHead, Damage, FIXED_HEAD, Head, made_of};

/// What the names of segments end in.
const SUFFIX: &str = ".log";
/// What is read when only heads are of interest: those of most batches, changes included, fit.
const LOOK: usize = 1024;
const MEMORY: &str = ".memory";

/// The name of the segment of a source that begins at a sequence number.
pub(crate) fn segment_name(source: Inst, first: u64) -> String {
    format!("{source:06}-{first:020}{SUFFIX}")
}

/// The source and the first sequence number that a segment's name says.
pub(crate) fn parse_name(name: &str) -> Option<(Inst, u64)> {
    let (source, first) = name.strip_suffix(SUFFIX)?.split_once('-')?;
    let (source, first) = (source.parse().ok().filter(|source| *source >= 0)?, first.parse().ok()?);
    // One name for each segment: what only looks like one is somebody else's.
    (segment_name(source, first) == name).then_some((source, first))
}

/// The name of the empty file that says: sequence numbers of a source behind its last segment were given to records that are
/// in memory only.
pub(crate) fn memory_name(source: Inst) -> String {
    format!("{source:06}{MEMORY}")
}

/// The source in such a name.
pub(crate) fn parse_memory_name(name: &str) -> Option<Inst> {
    let source = name.strip_suffix(MEMORY)?.parse().ok().filter(|source| *source >= 0)?;
    (memory_name(source) == name).then_some(source)
}

/// What all who have to do with a source's log know of a segment.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub name: Arc<str>,
    /// Sequence number of what comes first.
    pub first: u64,
    /// Bytes that are written as a whole; the file may go on with a batch that was cut short.
    pub len: u64,
    /// The time of the newest record, as far as is known.
    pub time: Timestamp,
    /// When it was begun, in seconds since the epoch.
    pub made: i64,
}

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Never wait for the device.
    Now,
    /// Wait for it.
    Wait,
}

/// The length of a file, and when its head says that it was begun, without a look at whether that is whole.
pub(crate) fn glance(disk: &dyn Disk, name: &str) -> io::Result<(u64, i64)> {
    let file = disk.open(name)?;
    let mut fixed = [0; FIXED_HEAD];
    file.read_at(&mut fixed, 0)?;
    Ok((file.extent()?.0, made_of(&fixed)))
}

/// A segment that is open for reading.
#[derive(Debug)]
pub(crate) struct OpenSegment {
    pub file: Arc<dyn DiskFile>,
    pub head: Head,
    /// Where the first batch begins.
    pub start: u64,
}

/// Why a segment, or something in it, cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Damage(#[from] Damage),
}

impl OpenSegment {
    pub(crate) fn open(disk: &dyn Disk, name: &str, patience: Patience) -> Result<OpenSegment, ReadError> {
        let file = disk.open(name)?;
        let mut bytes = vec![0; LOOK];
        let got = read(&*file, &mut bytes, 0, patience)?;
        let len = Head::len_of(&bytes[..got.min(FIXED_HEAD)])?;
        bytes.resize(len, 0);
        if len > LOOK {
            let got = read(&*file, &mut bytes, 0, patience)?;
            bytes.truncate(got);
        }
        let head = Head::decode(&bytes)?;
        Ok(OpenSegment { file, head, start: len as u64 })
    }

    /// Reads the head of the batch at `at`, and its changes into `buffer`, which begins with the head and them then. What is behind them
    /// there is of no meaning: to take it away would only have the next call write it anew.
    pub(crate) fn batch_head(
        &self,
        at: u64,
        buffer: &mut Vec<u8>,
        patience: Patience,
    ) -> Result<BatchHead, ReadError> {
        buffer.resize(LOOK, 0);
        let got = read(&*self.file, buffer, at, patience)?;
        buffer.truncate(got);
        let head = BatchHead::decode(buffer)?;
        let wanted = BATCH_HEAD + head.changes as usize;
        if wanted > got && got == LOOK {
            buffer.resize(wanted, 0);
            let got = read(&*self.file, buffer, at, patience)?;
            buffer.truncate(got);
        }
        head.check_head(buffer, self.head.salt)?;
        Ok(head)
    }

    /// Reads body and checksum of the batch at `at` into `buffer`.
    pub(crate) fn body(
        &self,
        at: u64,
        head: &BatchHead,
        buffer: &mut Vec<u8>,
        patience: Patience,
    ) -> Result<(), ReadError> {
        let before = BATCH_HEAD + head.changes as usize;
        buffer.resize(head.len() - before, 0);
        let got = read(&*self.file, buffer, at + before as u64, patience)?;
        buffer.truncate(got);
        Ok(())
    }

    /// Where the next batch begins whose head is whole, from `at` on and before `end`.
    pub(crate) fn next_batch(&self, at: u64, end: u64, patience: Patience) -> io::Result<Option<u64>> {
        const WINDOW: usize = 256 * 1024;
        let (mut at, mut window, mut head) = (at, Vec::new(), Vec::new());
        while at < end {
            window.resize(WINDOW.min((end - at) as usize), 0);
            let got = read(&*self.file, &mut window, at, patience)?;
            for place in memmem::find_iter(&window[..got], &BATCH_MAGIC) {
                match self.batch_head(at + place as u64, &mut head, patience) {
                    Ok(_) => return Ok(Some(at + place as u64)),
                    Err(ReadError::Io(error)) => return Err(error),
                    Err(ReadError::Damage(_)) => {}
                }
            }
            if got < window.len() || at + got as u64 >= end {
                break;
            }
            at += (got - (BATCH_MAGIC.len() - 1)) as u64;
        }
        Ok(None)
    }
}

fn read(file: &dyn DiskFile, buffer: &mut [u8], at: u64, patience: Patience) -> io::Result<usize> {
    match patience {
        Patience::Now => file.read_now(buffer, at),
        Patience::Wait => file.read_at(buffer, at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_as_what_is_in_them() {
        let name = segment_name(7, 42);
        assert_eq!(name, "000007-00000000000000000042.log");
        assert_eq!(parse_name(&name), Some((7, 42)));
        for other in ["7-42.log", "000007-00000000000000000042", "lock", "-00001-00000000000000000042.log"] {
            assert_eq!(parse_name(other), None, "{other}");
        }
        assert_eq!((parse_memory_name(&memory_name(7)), parse_memory_name("7.memory")), (Some(7), None));
        assert_eq!(parse_name(&segment_name(i32::MAX, u64::MAX)), Some((i32::MAX, u64::MAX)));
    }
}
