//! Records that are held back, to be written to the data volume at once.
//!
//! ```text
//! bytes: room for a label | record kept | record kept | ... | record begun
//! ```
//!
//! Records are encoded where they are written from. One that is kept is written for certain, with those before it; one that is
//! only begun gives way to the next.

use super::error::WriteError;
use super::label::LABEL_LEN;
use super::members::{Files, put_entry};
use pcp_model::Timestamp;

/// The end of what was written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Last {
    pub time: Option<Timestamp>,
    pub is_mark: bool,
}

/// What is held back.
#[derive(Debug, Default)]
pub(super) struct Held {
    bytes: Vec<u8>,
    kept: Vec<Kept>,
    /// The last record that is in a file.
    pub written: Last,
}

/// A record that is to be written.
#[derive(Debug)]
struct Kept {
    /// Where it ends in the bytes.
    end: usize,
    last: Last,
    /// The length of the metadata in front of it, if the index gets an entry for it.
    indexed: Option<u64>,
}

impl Held {
    /// Where a record is to be appended, in place of one that was begun and not kept.
    pub(super) fn begin(&mut self) -> &mut Vec<u8> {
        self.bytes.resize(self.end(), 0);
        &mut self.bytes
    }

    /// The record begun.
    pub(super) fn begun(&self) -> &[u8] {
        self.bytes.get(self.end()..).unwrap_or_default()
    }

    /// The record begun with room for a label in front of it. Only where none is kept.
    pub(super) fn labelled(&mut self) -> &mut [u8] {
        debug_assert!(self.kept.is_empty(), "a label is in front of all");
        &mut self.bytes
    }

    /// Keeps the record begun.
    pub(super) fn keep(&mut self, last: Last, indexed: Option<u64>) {
        self.kept.push(Kept { end: self.bytes.len(), last, indexed });
    }

    /// Bytes of the records kept.
    pub(super) fn len(&self) -> usize {
        self.end() - LABEL_LEN
    }

    /// Writes the records kept, then their entries of the index. If not all find room, one after the other as long as they do; the
    /// rest is lost. The record begun stays.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn settle(&mut self, files: &mut Files) -> Result<(), WriteError> {
        if self.kept.is_empty() {
            return Ok(());
        }
        let from = files.volume.len;
        let mut settled = files.volume.append(&self.bytes[LABEL_LEN..self.end()]);
        if settled.is_err() && self.kept.len() > 1 {
            settled = self.one_by_one(files);
        }
        let (mut at, mut entries) = (from, Vec::new());
        let mut start = LABEL_LEN;
        for Kept { end, last, indexed } in &self.kept {
            let next = at + (end - start) as u64;
            if next > files.volume.len {
                // The entry that was meant for one of those that are lost will be for the next that comes.
                files.indexed = None;
                break;
            }
            if let (Some(time), Some(meta)) = (last.time, *indexed) {
                put_entry(&mut entries, time, files.number, meta, at);
            }
            self.written = *last;
            (at, start) = (next, *end);
        }
        self.bytes.drain(LABEL_LEN..self.end());
        self.kept.clear();
        if !entries.is_empty()
            && let Err(error) = files.index.append(&entries)
        {
            files.indexed = None;
            return settled.and(Err(error));
        }
        settled
    }

    fn one_by_one(&self, files: &mut Files) -> Result<(), WriteError> {
        let mut start = LABEL_LEN;
        self.kept.iter().try_for_each(|kept| {
            files.volume.append(&self.bytes[std::mem::replace(&mut start, kept.end)..kept.end])
        })
    }

    /// Where the records kept end.
    fn end(&self) -> usize {
        self.kept.last().map_or(LABEL_LEN, |kept| kept.end)
    }
}
