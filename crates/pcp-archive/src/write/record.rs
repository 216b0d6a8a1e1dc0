//! A record of values (`docs/pcp/archive.md` 7), the same as is read in [`crate::record`]:
//!
//! ```text
//! record := len | stamp | numpmid | sets | blocks | len
//! ```
//!
//! Cost: what was fetched is copied as it came; where there is something else in it (derived metrics, instances left out), set by set.

use bytes::BufMut;

use super::{STAMP_LEN, put_stamp};
use crate::record::{BIAS, LEN};
use pcp_model::{Pmid, Timestamp};
use pcp_pdu::{EncodeError, Fetched, SetRef, SetsWriter, Whole};

const HEADER: usize = LEN + STAMP_LEN + 4;
/// What places of blocks are counted in.
const WORD: usize = 4;

/// Writes records of values; its buffers are used again.
#[derive(Debug)]
pub(super) struct RecordWriter {
    sets: SetsWriter,
}

impl RecordWriter {
    pub(super) fn new() -> RecordWriter {
        RecordWriter { sets: SetsWriter::with_lead(HEADER, i32::MAX as usize - LEN) }
    }

    /// Appends the record of a fetch; false, and nothing, if it is too large. `logged` gives the identifier that a
    /// metric has in the archive.
    pub(super) fn put(
        &mut self,
        out: &mut Vec<u8>,
        time: Timestamp,
        fetched: &Fetched,
        logged: impl Fn(Pmid) -> Pmid,
    ) -> bool {
        let is_as_fetched = || fetched.pmids().all(|pmid| logged(pmid) == pmid);
        if let Some(whole) = fetched.whole().filter(|_| is_as_fetched()) {
            return put_whole(out, time, whole);
        }
        let sets = fetched.sets().map(|set| SetRef { pmid: logged(set.pmid), ..set });
        self.put_all(out, time, sets)
    }

    /// Appends a record of value sets as they are; false, and nothing, if it is too large.
    pub(super) fn put_all<'a>(
        &mut self,
        out: &mut Vec<u8>,
        time: Timestamp,
        sets: impl Iterator<Item = SetRef<'a>>,
    ) -> bool {
        self.sets.reset();
        self.put_sets(sets).is_ok() && self.finish(out, time)
    }

    /// Appends a record without values, behind which no value has to do with those in front.
    pub(super) fn put_mark(&mut self, out: &mut Vec<u8>, time: Timestamp) {
        self.sets.reset();
        let fits = self.finish(out, time);
        debug_assert!(fits, "a mark is short");
    }

    fn put_sets<'a>(&mut self, mut sets: impl Iterator<Item = SetRef<'a>>) -> Result<(), EncodeError> {
        sets.try_for_each(|set| self.sets.copy_set(set))?;
        self.sets.place_blocks((HEADER + self.sets.sets_len()) / WORD + BIAS as usize)
    }

    /// Puts the header in front, and the length at both ends.
    fn finish(&mut self, out: &mut Vec<u8>, time: Timestamp) -> bool {
        let Ok(len) = i32::try_from(self.sets.len() + LEN) else { return false };
        let numpmid = self.sets.count();
        put_header(&mut self.sets.lead_mut(), len, time, numpmid);
        self.sets.parts().into_iter().for_each(|part| out.extend_from_slice(part));
        out.put_i32(len);
        true
    }
}

/// Appends a record of sets as they came; false, and nothing, if it is too large.
fn put_whole(out: &mut Vec<u8>, time: Timestamp, whole: Whole<'_>) -> bool {
    let len = i32::try_from(HEADER + whole.len() + LEN);
    let (Ok(len), Ok(numpmid)) = (len, i32::try_from(whole.count())) else { return false };
    put_header(out, len, time, numpmid);
    whole.append_to(out, (HEADER / WORD) as u32 + BIAS);
    out.put_i32(len);
    true
}

fn put_header(out: &mut impl BufMut, len: i32, time: Timestamp, numpmid: i32) {
    out.put_i32(len);
    put_stamp(out, time);
    out.put_i32(numpmid);
}
