//! A record of a data volume (`docs/pcp/archive.md` 7).
//!
//! ```text
//! record := len | stamp | numpmid | sets | blocks | len
//! ```
//!
//! Sets and blocks: [`pcp_pdu::sets`]. Numbers stay where they are and as they are; nothing is copied. Cost of taking
//! a record: one comparison of its bytes with the layout that one before it had, or one walk over its value sets.

use super::fields::{Fields, Stamp};
use super::layouts::Layouts;
use pcp_model::{Pmid, Timestamp};
use pcp_pdu::{LayoutId, Problem, Scan, SetRef, Sets, SetsError};

/// A record's length stands at both of its ends.
pub(super) const LEN: usize = 4;
/// By how many words a block's place is larger than its offset in the record: places are those of a PDU, whose header
/// is that much longer than the record's length word.
pub(super) const BIAS: u32 = 2;

/// A set without values: its metric, and that there are none.
const SHORTEST_SET: usize = 8;

/// A record whose lengths and places have been checked.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// When the values were collected.
    pub timestamp: Timestamp,
    size: usize,
    sets: Sets<'a>,
}

/// What is wrong with a record.
pub(super) type Malformed = &'static str;

/// The fields in front of the sets.
struct Head<'a> {
    timestamp: Timestamp,
    numpmid: i32,
    /// The record, but for its last word.
    body: &'a [u8],
    /// Where the sets begin in it.
    sets: usize,
}

impl<'a> Head<'a> {
    #[inline]
    fn of(bytes: &'a [u8], stamp: Stamp) -> Result<Head<'a>, Malformed> {
        // Blocks do not reach into the length word at the end.
        let body = bytes.get(..bytes.len().saturating_sub(LEN)).unwrap_or_default();
        let mut fields = Fields(body.get(LEN..).unwrap_or_default());
        let (Some(timestamp), Some(numpmid)) = (fields.stamp(stamp), fields.i32()) else {
            return Err("shorter than a record");
        };
        if !usize::try_from(numpmid).is_ok_and(|count| count <= fields.0.len() / SHORTEST_SET) {
            return Err("impossible number of metrics");
        }
        Ok(Head { timestamp, numpmid, body, sets: body.len() - fields.0.len() })
    }
}

/// The time of a record, length words included, which is not checked otherwise.
pub(super) fn time_of(bytes: &[u8], stamp: Stamp) -> Result<Timestamp, Malformed> {
    Head::of(bytes, stamp).map(|head| head.timestamp)
}

impl<'a> Record<'a> {
    /// Takes a record, length words included, and checks it.
    #[inline]
    pub(super) fn new(
        bytes: &'a [u8],
        stamp: Stamp,
        layouts: &'a mut Layouts,
    ) -> Result<Record<'a>, Malformed> {
        Record::of(bytes, stamp, layouts, false)
    }

    /// The same. `is_again`: it is the one for which the layouts were asked last, and is the same still.
    #[inline]
    pub(super) fn of(
        bytes: &'a [u8],
        stamp: Stamp,
        layouts: &'a mut Layouts,
        is_again: bool,
    ) -> Result<Record<'a>, Malformed> {
        let Head { timestamp, numpmid, body, sets } = Head::of(bytes, stamp)?;
        let sets = layouts.sets(body, sets, numpmid, BIAS, is_again).map_err(malformed)?;
        Ok(Record { timestamp, size: bytes.len(), sets })
    }

    /// Checks a record, length words included, and gives its time and its sets, to be run through once: see [`Layouts::scan`].
    #[inline]
    pub(super) fn scan(
        bytes: &'a [u8],
        stamp: Stamp,
        layouts: &'a mut Layouts,
        before: Option<LayoutId>,
        each: impl FnMut(Pmid),
    ) -> Result<(Timestamp, Scan<'a>), Malformed> {
        let Head { timestamp, numpmid, body, sets } = Head::of(bytes, stamp)?;
        let scan = layouts.scan(body, sets, (numpmid, BIAS), before, each).map_err(malformed)?;
        Ok((timestamp, scan))
    }

    /// Length of the record in the file.
    pub fn size(&self) -> usize {
        self.size
    }

    /// All value sets.
    pub(super) fn all(&self) -> Sets<'a> {
        self.sets
    }

    /// Number of value sets.
    pub fn metrics(&self) -> usize {
        self.sets.len()
    }

    /// Whether there are none: a mark, behind which no value has to do with those in front.
    pub fn is_mark(&self) -> bool {
        self.sets.is_empty()
    }

    /// The value set at a place in the record's order.
    #[inline]
    pub fn set(&self, at: usize) -> Option<SetRef<'a>> {
        self.sets.get(at)
    }

    /// The value sets in the record's order.
    #[inline]
    pub fn sets(&self) -> impl ExactSizeIterator<Item = SetRef<'a>> + use<'a> {
        self.sets.iter()
    }
}

fn malformed(error: SetsError) -> Malformed {
    match error.problem {
        Problem::Count { .. } => "more values than it has room for",
        Problem::Value { .. } => "unknown format of values",
        Problem::Trailing { .. } => "bytes that belong to no value",
        Problem::Blocks { what: SetsError::TOO_SHORT } => "value shorter than its header",
        Problem::Blocks { .. } => "value outside",
        _ => "value sets truncated",
    }
}
