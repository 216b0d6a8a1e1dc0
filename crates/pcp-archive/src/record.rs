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
use pcp_model::{Inst, PmError, Pmid, Timestamp};
use pcp_pdu::ValueRef;

const WORD: usize = 4;
/// An instance and its word.
const PAIR: usize = 8;
/// By how many words a block's place is larger than its offset in the record.
const BIAS: usize = 2;
const IN_SITU: i32 = 0;
const STATIC: i32 = 2;
/// The bits of a block's header that are its length.
const MAX_BLOCK: u32 = 0xff_ffff;

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
        let mut fields = Fields(bytes.get(record.sets..body_end).unwrap_or_default());
        let mut blocks_end = 0;
        for _ in 0..record.numpmid {
            let (Some(_), Some(numval)) = (fields.u32(), fields.i32()) else {
                return Err("value sets truncated");
            };
            if numval <= 0 {
                continue;
            }
            let Some(format) = fields.i32() else { return Err("value sets truncated") };
            let Some(pairs) = fields.bytes((numval as usize).saturating_mul(PAIR)) else {
                return Err("more values than it has room for");
            };
            match format {
                IN_SITU => {}
                1..=STATIC => {
                    let (start, end) = blocks(bytes, pairs)?;
                    if start < record.sets || end > body_end {
                        return Err("value outside");
                    }
                    blocks_end = blocks_end.max(end);
                }
                _ => return Err("unknown format of values"),
            }
        }
        match fields.0.is_empty() || blocks_end == body_end {
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
    #[inline]
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
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (Inst, ValueRef<'a>)> + use<'a> {
        let (record, in_situ) = (self.record, self.format == IN_SITU);
        self.pairs.as_chunks::<PAIR>().0.iter().map(move |&[a, b, c, d, w, x, y, z]| {
            let word = [w, x, y, z];
            let value = match in_situ {
                true => ValueRef::InSitu(word),
                // Checked when the record was taken.
                false => ValueRef::Block(block(record, u32::from_be_bytes(word)).unwrap_or_default()),
            };
            (Inst::from_be_bytes([a, b, c, d]), value)
        })
    }
}

/// Where the first of a set's blocks starts, and the last ends with its padding.
fn blocks(record: &[u8], pairs: &[u8]) -> Result<(usize, usize), Malformed> {
    let (pairs, _) = pairs.as_chunks::<PAIR>();
    if let [pair, _, ..] = pairs {
        // Numbers, nearly always.
        let range = match block(record, word(&pair[WORD..])).map(<[u8]>::len) {
            Some(8) => row::<8>(record, pairs),
            Some(12) => row::<12>(record, pairs),
            _ => None,
        };
        if let Some(range) = range {
            return Ok(range);
        }
    }
    let (mut start, mut end) = (usize::MAX, 0);
    for pair in pairs {
        let place = word(&pair[WORD..]);
        let Some(block) = block(record, place) else { return Err("value outside") };
        if block.len() < WORD {
            return Err("value shorter than its header");
        }
        let at = start_of(place);
        start = start.min(at);
        end = end.max(at + block.len().next_multiple_of(WORD));
    }
    Ok((start, end))
}

/// Where blocks start and end that are as long as the first, `SIZE` bytes, and come one behind the other; `None`
/// if the pairs tell of anything else.
#[inline(never)] // has the registers for itself
fn row<const SIZE: usize>(record: &[u8], pairs: &[[u8; PAIR]]) -> Option<(usize, usize)> {
    let first = word(&pairs.first()?[WORD..]);
    let start = start_of(first);
    let end = start.checked_add(SIZE.checked_mul(pairs.len())?)?;
    let (blocks, _) = record.get(start..end)?.as_chunks::<SIZE>();
    let header = word(blocks.first()?);
    // No early way out, which would cost more than it saves.
    let (mut place, mut differs) = (first, 0);
    for (pair, block) in pairs.iter().zip(blocks) {
        differs |= (word(&pair[WORD..]) ^ place) | (word(block) ^ header);
        place = place.wrapping_add((SIZE / WORD) as u32);
    }
    (differs == 0).then_some((start, end))
}

/// A block without its padding.
#[inline]
fn block(record: &[u8], place: u32) -> Option<&[u8]> {
    let rest = record.get(start_of(place)..)?;
    let header = u32::from_be_bytes(*rest.first_chunk()?);
    rest.get(..(header & MAX_BLOCK) as usize)
}

/// Where a block starts; beyond every record for a place in front of it.
#[inline]
fn start_of(place: u32) -> usize {
    (place as usize).wrapping_sub(BIAS).saturating_mul(WORD)
}

#[inline]
fn word(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |word| u32::from_be_bytes(*word))
}
