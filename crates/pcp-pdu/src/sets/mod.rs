//! Value sets: how the values of metrics lie in results and in the records of archives (`docs/pcp/wire.md` 7,
//! `docs/pcp/archive.md` 7). The one place that knows this layout.
//!
//! ```text
//! set   := pmid u32 | numval i32, if > 0: | valfmt i32 | numval x { inst i32 | word }
//! word  := the value (valfmt 0), or where its block is (1, 2)
//! block := type:8 len:24 | len - 4 bytes, padded with '~' to a multiple of 4
//! ```
//!
//! All numbers are in network order. A negative `numval` is the error for which the metric has no values. Blocks
//! stand behind the last set. A block's place is its offset in words from the start of a PDU; who looks at
//! other bytes than a whole PDU says by how much places are larger than offsets, the *bias*: 3 words for the
//! body of a PDU, 2 in the records of archives.
//!
//! [`Layout`] finds them, [`Sets`] reads them in place, [`Scan`] runs through them, [`SetsWriter`] writes them, [`Whole`] hands them on as they came. [`ResultPdu`](super::ResultPdu),
//! [`Fetched`](super::Fetched), [`ResultWriter`](super::ResultWriter) and the records of `pcp-archive` put their
//! headers around that.
//!
//! **Two ways to check.** In a PDU, blocks must tile the space behind the sets and event arrays must hold what they
//! promise, or the peer is not to be trusted. An archive is refused only for what cannot be read: loggers of all
//! ages wrote those.

mod check;
mod column;
mod excerpt;
mod layout;
mod scan;
mod value;
mod view;
mod whole;
mod writer;

pub use check::SetsError;
pub(crate) use check::check_tiling;
pub(crate) use excerpt::Excerpt;
pub(crate) use layout::next_of;
pub use layout::{Layout, LayoutId};
pub use scan::Scan;
pub use value::{Block, RawValue, TypedRef, ValueRef};
pub(crate) use view::{Head, SetHead, count_of_sets};
pub use view::{SetRef, Sets, ValuesRef};
pub use whole::Whole;
pub(crate) use writer::Common;
pub use writer::SetsWriter;

/// What places of blocks are counted in.
pub(crate) const WORD: usize = 4;
/// Identifier and number of values: a set without values.
pub(crate) const SET_HEADER: usize = 8;
/// An instance and its word.
pub(crate) const VALUE_LEN: usize = 8;
/// A block's header word.
pub(crate) const BLOCK_HEADER: usize = 4;
/// Longest block a header word can express, and the bits of that word which are the length.
pub(crate) const MAX_BLOCK: usize = 0xff_ffff;

/// `valfmt` of values in place, of blocks, and of blocks whose sender keeps their memory. The last two
/// mean the same to the receiver.
const INSITU: i32 = 0;
const DPTR: i32 = 1;
const SPTR: i32 = 2;

/// The offset in bytes of what is at a place. Beyond all data if the place lies in front of it.
#[inline]
fn offset_of(place: u32, bias: u32) -> usize {
    (place as usize).wrapping_sub(bias as usize).saturating_mul(WORD)
}

#[cfg(test)]
pub(crate) mod testing {
    use super::{SetsWriter, WORD};
    use pcp_model::{Inst, PmError, Pmid, Value};

    /// A metric, and its values or why there are none.
    pub(crate) type Set<'a> = (u32, Result<&'a [(Inst, Value)], PmError>);

    /// Data in which sets stand behind `lead` bytes, and their blocks behind them; places are larger than offsets by `bias` words.
    pub(crate) fn written(lead: usize, bias: usize, sets: &[Set<'_>]) -> Vec<u8> {
        let mut writer = SetsWriter::with_lead(lead, usize::MAX);
        for (pmid, values) in sets {
            match values {
                Ok(values) => {
                    writer.begin_set(Pmid(*pmid)).unwrap();
                    values.iter().for_each(|(inst, value)| writer.value(*inst, value).unwrap());
                    writer.end_set().unwrap();
                }
                Err(error) => writer.set_error(Pmid(*pmid), *error).unwrap(),
            }
        }
        writer.place_blocks((lead + writer.sets_len()) / WORD + bias).unwrap();
        writer.parts().concat()
    }
}
