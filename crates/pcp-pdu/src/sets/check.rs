//! Whether value sets and their blocks fit together.
//!
//! Cost: one step for each set and each block, no memory but for blocks out of order.

use super::view::{Lie, RowSize, SetHead, ValuesRef};
use super::{BLOCK_HEADER, MAX_BLOCK, VALUE_LEN, WORD, offset_of};
use crate::codec::pad4;
use crate::events;
use crate::fault::{PduError, Problem};

/// What is wrong with value sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetsError {
    /// The offset of the field at fault, in the bytes that were looked at.
    pub offset: usize,
    /// What is wrong there.
    pub problem: Problem,
}

/// Where a block with its padding is.
struct Span {
    start: usize,
    end: usize,
    /// Without the padding.
    len: usize,
    value_type: u8,
}

/// Checks that the blocks of sets fill the space behind them without gap or overlap, in any order, and that event
/// arrays hold what they promise. `next` is where the last set ends; `strays` is memory to use again.
pub(crate) fn check_tiling(
    data: &[u8],
    mut next: usize,
    bias: u32,
    heads: impl Iterator<Item = SetHead> + Clone,
    strays: &mut Vec<(usize, usize)>,
) -> Result<(), SetsError> {
    strays.clear();
    let heads = heads.filter(|head| head.blocks);
    let mut events = false;
    for head in heads.clone() {
        let values = head.values(data, data, bias);
        if let Some((_, end)) = row(&values).filter(|&(start, _)| start == next) {
            next = end;
            continue;
        }
        for (number, pair) in values.pairs.iter().enumerate() {
            let span = span(&values, pair, head.at + number * VALUE_LEN + WORD)?;
            events |= is_events(span.value_type);
            // In the order of their values, as everybody sends them, they need no memory.
            match span.start == next {
                true => next = span.end,
                false => strays.push((span.start, span.end)),
            }
        }
    }
    strays.sort_unstable();
    for &(start, end) in &*strays {
        if start < next {
            return Err(SetsError::blocks(start, "overlaps another"));
        }
        if start > next {
            return Err(SetsError::blocks(next, "missing here"));
        }
        next = end;
    }
    if next != data.len() {
        return Err(SetsError::trailing(next, data.len()));
    }
    // Only now, when no two values share an array: with many that point to one, a small PDU could cost a lot of
    // time.
    if events { check_events(data, bias, heads) } else { Ok(()) }
}

fn check_events(data: &[u8], bias: u32, heads: impl Iterator<Item = SetHead>) -> Result<(), SetsError> {
    for head in heads {
        let values = head.values(data, data, bias);
        for (number, pair) in values.pairs.iter().enumerate() {
            let span = span(&values, pair, head.at + number * VALUE_LEN + WORD)?;
            let array = super::value::block_at(data, span.start).filter(|_| is_events(span.value_type));
            if let Some(Err((offset, field))) = array.map(events::check) {
                return Err(SetsError {
                    offset: span.start + offset,
                    problem: Problem::EventArray { field },
                });
            }
        }
    }
    Ok(())
}

/// How the values of a set lie that has blocks, where the first of these starts, and the last ends with its padding. `at` is
/// where the values are.
pub(super) fn extent(values: &ValuesRef<'_>, at: usize) -> Result<(Lie, usize, usize), SetsError> {
    if let Some((start, end)) = row(values) {
        let size = if end - start == 8 * values.pairs.len() { RowSize::Eight } else { RowSize::Twelve };
        return Ok((Lie::Row { start, size }, start, end));
    }
    let (mut start, mut end, mut len) = (usize::MAX, 0, 0);
    for (number, pair) in values.pairs.iter().enumerate() {
        let span = span(values, pair, at + number * VALUE_LEN + WORD)?;
        (start, end, len) = (start.min(span.start), end.max(span.end), span.len);
    }
    // One block is a row as well.
    let lie = match (values.pairs.len(), len) {
        (1, 8) => Lie::Row { start, size: RowSize::Eight },
        (1, 12) => Lie::Row { start, size: RowSize::Twelve },
        _ => Lie::Blocks,
    };
    Ok((lie, start, end))
}

/// The block of a value whose word is at `word`.
#[inline]
fn span(values: &ValuesRef<'_>, pair: &[u8; VALUE_LEN], word: usize) -> Result<Span, SetsError> {
    let whole = || {
        let start = offset_of(last_word(pair), values.bias);
        let header = u32::from_be_bytes(*values.data.get(start..)?.first_chunk()?);
        let len = header as usize & MAX_BLOCK;
        let end = start + pad4(len);
        let fits = len >= BLOCK_HEADER && end <= values.data.len();
        fits.then_some(Span { start, end, len, value_type: (header >> 24) as u8 })
    };
    whole().ok_or_else(|| span_fault(values, pair, word))
}

/// Why there is no such block.
#[cold]
fn span_fault(values: &ValuesRef<'_>, pair: &[u8; VALUE_LEN], word: usize) -> SetsError {
    let start = offset_of(last_word(pair), values.bias);
    let Some(header) = values.data.get(start..).and_then(|rest| rest.first_chunk()) else {
        return SetsError::outside(word);
    };
    match u32::from_be_bytes(*header) as usize & MAX_BLOCK {
        ..BLOCK_HEADER => SetsError::blocks(start, SetsError::TOO_SHORT),
        _ => SetsError::blocks(start, "runs past the end"),
    }
}

/// Where the blocks of a set start and end that are all numbers of one type, one behind the other in the order of their
/// values: nearly all sets with many values are like that, and this is several times as fast as block by block.
#[inline]
pub(super) fn row(values: &ValuesRef<'_>) -> Option<(usize, usize)> {
    let [first, _, ..] = values.pairs else { return None };
    let start = offset_of(last_word(first), values.bias);
    let header = u32::from_be_bytes(*values.data.get(start..)?.first_chunk()?);
    match header as usize & MAX_BLOCK {
        // An empty event array is as long as a number, and who looks into arrays must see each of them.
        _ if is_events((header >> 24) as u8) => None,
        8 => row_of::<8>(values, start, header),
        12 => row_of::<12>(values, start, header),
        _ => None,
    }
}

#[inline(never)] // has the registers for itself
fn row_of<const SIZE: usize>(values: &ValuesRef<'_>, start: usize, header: u32) -> Option<(usize, usize)> {
    let end = start.checked_add(SIZE.checked_mul(values.pairs.len())?)?;
    let (blocks, _) = values.data.get(start..end)?.as_chunks::<SIZE>();
    // No early way out, which would cost more than it saves.
    let (mut place, mut differs) = (last_word(values.pairs.first()?), 0);
    for (pair, block) in values.pairs.iter().zip(blocks) {
        let (this, _) = block.split_first_chunk()?;
        differs |= (last_word(pair) ^ place) | (u32::from_be_bytes(*this) ^ header);
        place = place.wrapping_add((SIZE / WORD) as u32);
    }
    (differs == 0).then_some((start, end))
}

fn is_events(value_type: u8) -> bool {
    matches!(value_type, events::EVENT | events::HIGHRES_EVENT)
}

#[inline]
pub(super) fn last_word(&[_, _, _, _, w, o, r, d]: &[u8; VALUE_LEN]) -> u32 {
    u32::from_be_bytes([w, o, r, d])
}

impl SetsError {
    /// The [`Problem::Blocks`] of a block whose length does not cover its header word.
    pub const TOO_SHORT: &str = "shorter than its header";

    /// In a PDU of which so many bytes come before those that were looked at.
    pub(crate) fn in_pdu(self, kind: u32, before: usize) -> PduError {
        PduError { kind, offset: before + self.offset, problem: self.problem }
    }
}

/// Out of line: sets are read far more often than they are wrong.
impl SetsError {
    #[cold]
    pub(super) fn truncated(offset: usize, field: &'static str, need: usize, have: usize) -> SetsError {
        SetsError { offset, problem: Problem::Truncated { field, need, have } }
    }

    #[cold]
    pub(super) fn count(offset: usize, numval: i32) -> SetsError {
        SetsError { offset, problem: Problem::Count { field: "numval", count: numval } }
    }

    /// The number of sets cannot be right.
    #[cold]
    pub(super) fn sets(offset: usize, numpmid: i32) -> SetsError {
        let offset = offset.saturating_sub(WORD);
        SetsError { offset, problem: Problem::Count { field: "numpmid", count: numpmid } }
    }

    #[cold]
    pub(super) fn valfmt(offset: usize, value: i32) -> SetsError {
        SetsError { offset, problem: Problem::Value { field: "valfmt", value } }
    }

    #[cold]
    pub(super) fn outside(word: usize) -> SetsError {
        SetsError::blocks(word, "outside the PDU")
    }

    #[cold]
    fn blocks(offset: usize, what: &'static str) -> SetsError {
        SetsError { offset, problem: Problem::Blocks { what } }
    }

    #[cold]
    pub(super) fn trailing(offset: usize, end: usize) -> SetsError {
        SetsError { offset, problem: Problem::Trailing { extra: end - offset } }
    }
}
