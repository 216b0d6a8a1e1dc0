//! A record of a data volume (spec `archive.md` 7).
//!
//! ```text
//! record := len | stamp | numpmid | set* | block* | len
//! set    := pmid | numval, if > 0: | valfmt | numval x { inst | word }
//! word   := the value (valfmt 0), or its block's place: (word - 2) * 4 bytes from the record's start
//! block  := type:8 len:24 | len - 4 bytes, padded to a multiple of 4
//! ```
//!
//! Numbers stay where they are and as they are; nothing is copied. Cost of taking a record: one walk over
//! its value sets.

use super::fields::{Fields, Stamp};
use crate::model::{Inst, PmError, Pmid, Timestamp};
use crate::pdu::ValueRef;

const WORD: usize = 4;
/// An instance and its word.
const PAIR: usize = 8;
/// By how many words a block's place is larger than its offset in the record.
const BIAS: usize = 2;
const IN_SITU: i32 = 0;
const STATIC: i32 = 2;

/// A record whose lengths and places have been checked.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// When the values were collected.
    pub timestamp: Timestamp,
    /// The whole record, length words included.
    bytes: &'a [u8],
    /// Behind the number of sets.
    sets: usize,
    numpmid: usize,
}

/// A metric's values in a record.
#[derive(Clone, Copy)]
pub struct Set<'a> {
    /// The metric.
    pub pmid: Pmid,
    /// Its values, possibly none, or why there are none.
    pub values: Result<Values<'a>, PmError>,
}

/// The values of a set.
#[derive(Clone, Copy)]
pub struct Values<'a> {
    /// As in the record: 0 in place, 1 or 2 in blocks.
    pub format: i32,
    pairs: &'a [u8],
    record: &'a [u8],
}

/// What is wrong with a record.
pub(super) type Malformed = &'static str;

impl<'a> Record<'a> {
    /// Takes a record, length words included, and checks it.
    pub(super) fn new(bytes: &'a [u8], stamp: Stamp) -> Result<Record<'a>, Malformed> {
        let record = Record::head(bytes, stamp)?;
        let body_end = bytes.len() - WORD;
        let mut at = record.sets;
        let mut blocks_end = 0;
        for _ in 0..record.numpmid {
            let mut head = Fields(bytes.get(at..body_end).unwrap_or_default());
            let (Some(_), Some(numval)) = (head.u32(), head.i32()) else {
                return Err("value sets truncated");
            };
            at += 2 * WORD;
            if numval <= 0 {
                continue;
            }
            let Some(format) = head.i32() else { return Err("value sets truncated") };
            let Some(pairs) = head.bytes((numval as usize).saturating_mul(PAIR)) else {
                return Err("more values than it has room for");
            };
            at += WORD + pairs.len();
            match format {
                IN_SITU => {}
                1..=STATIC => {
                    for pair in pairs.chunks_exact(PAIR) {
                        let (start, end) = block(bytes, word(&pair[WORD..]))?;
                        if start < record.sets || end > body_end {
                            return Err("value outside");
                        }
                        blocks_end = blocks_end.max(end);
                    }
                }
                _ => return Err("unknown format of values"),
            }
        }
        match blocks_end.max(at) == body_end {
            true => Ok(record),
            false => Err("bytes that belong to no value"),
        }
    }

    /// The fields in front of the sets, unchecked otherwise.
    pub(super) fn head(bytes: &'a [u8], stamp: Stamp) -> Result<Record<'a>, Malformed> {
        let mut fields = Fields(bytes.get(WORD..bytes.len().saturating_sub(WORD)).unwrap_or_default());
        let (Some(timestamp), Some(numpmid)) = (fields.stamp(stamp), fields.i32()) else {
            return Err("shorter than a record");
        };
        let sets = bytes.len() - WORD - fields.0.len();
        match usize::try_from(numpmid) {
            Ok(numpmid) if numpmid <= fields.0.len() / (2 * WORD) => {
                Ok(Record { timestamp, bytes, sets, numpmid })
            }
            _ => Err("impossible number of metrics"),
        }
    }

    /// Length of the record in the file.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Number of value sets.
    pub fn metrics(&self) -> usize {
        self.numpmid
    }

    /// Whether there are none: a mark, behind which no value has to do with those in front.
    pub fn is_mark(&self) -> bool {
        self.numpmid == 0
    }

    /// The value sets in the record's order.
    pub fn sets(&self) -> impl Iterator<Item = Set<'a>> + use<'a> {
        let record = self.bytes;
        let mut fields = Fields(record.get(self.sets..).unwrap_or_default());
        (0..self.numpmid).map_while(move |_| {
            let pmid = Pmid(fields.u32()?);
            let numval = fields.i32()?;
            let values = match numval {
                ..0 => Err(PmError(numval)),
                0 => Ok(Values { format: IN_SITU, pairs: &[], record }),
                _ => {
                    let format = fields.i32()?;
                    Ok(Values { format, pairs: fields.bytes(numval as usize * PAIR)?, record })
                }
            };
            Some(Set { pmid, values })
        })
    }
}

impl<'a> Values<'a> {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.pairs.len() / PAIR
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The values in the record's order.
    pub fn iter(&self) -> impl Iterator<Item = (Inst, ValueRef<'a>)> + use<'a> {
        let (record, in_situ) = (self.record, self.format == IN_SITU);
        self.pairs.chunks_exact(PAIR).map(move |pair| {
            let inst = word(pair) as Inst;
            let word = word(&pair[WORD..]);
            let value = match in_situ {
                true => ValueRef::InSitu(word.to_be_bytes()),
                false => ValueRef::Block(match block_start(record, word) {
                    Some((start, len)) => record.get(start..start + len).unwrap_or_default(),
                    None => &[],
                }),
            };
            (inst, value)
        })
    }
}

/// Where a block starts, and ends with its padding.
fn block(record: &[u8], place: u32) -> Result<(usize, usize), Malformed> {
    match block_start(record, place) {
        Some((start, len)) if len >= WORD => Ok((start, start + len.next_multiple_of(WORD))),
        Some(_) => Err("value shorter than its header"),
        None => Err("value outside"),
    }
}

/// Where a block starts, and its length without padding.
fn block_start(record: &[u8], place: u32) -> Option<(usize, usize)> {
    let start = (place as usize).checked_sub(BIAS)?.checked_mul(WORD)?;
    let header = record.get(start..start.checked_add(WORD)?)?;
    Some((start, (word(header) & 0xff_ffff) as usize))
}

fn word(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |word| u32::from_be_bytes(*word))
}
