//! Value sets that are handed on as they came, to a place of other headers.

use byteorder::{BigEndian, ByteOrder};

use super::{SetHead, VALUE_LEN, WORD};

/// Sets that were checked, all of them, with their blocks behind them.
///
/// Cost of handing them on: a copy, and, if places are counted from elsewhere, a step for each value in a block.
#[derive(Clone, Copy, Debug)]
pub struct Whole<'a> {
    /// From the first set on.
    bytes: &'a [u8],
    /// By how many words places are larger than offsets in these bytes.
    bias: u32,
    count: usize,
}

impl<'a> Whole<'a> {
    /// The `count` sets that begin at `start`, in data whose places are larger than offsets by `bias` words.
    pub(crate) fn of(data: &'a [u8], start: usize, bias: u32, count: usize) -> Option<Whole<'a>> {
        let bytes = data.get(start..)?;
        let words = u32::try_from(start / WORD).ok().filter(|_| start.is_multiple_of(WORD))?;
        Some(Whole { bytes, bias: bias.checked_add(words)?, count })
    }

    /// Bytes of sets and blocks.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Number of sets.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Appends sets and blocks, with places that are larger than offsets from the first set by `bias` words.
    pub fn append_to(&self, out: &mut Vec<u8>, bias: u32) {
        let start = out.len();
        out.extend_from_slice(self.bytes);
        // Modulo 2^32 it may as well be less.
        let further = bias.wrapping_sub(self.bias);
        if further == 0 {
            return;
        }
        let copied = &mut out[start..];
        let mut at = 0;
        for _ in 0..self.count {
            let Ok(set) = SetHead::read(copied, at) else {
                debug_assert!(false, "the sets were checked");
                break;
            };
            at = set.end();
            if set.blocks {
                for pair in copied[set.at..at].as_chunks_mut::<VALUE_LEN>().0 {
                    let place = BigEndian::read_u32(&pair[WORD..]).wrapping_add(further);
                    BigEndian::write_u32(&mut pair[WORD..], place);
                }
            }
        }
    }
}
