//! Looking into one packed record: HIGHRES, network byte order, as batches and logs hold it.

use byteorder::{BigEndian, ByteOrder};

use super::EventFlags;
use super::pack::{ArrayKind, MAX_LEN, PARAM_HEADER, pad4};
use pcp_model::{Pmid, ValueType};

/// A parameter of a packed record.
#[derive(Clone, Copy)]
pub struct PackedParam<'a> {
    /// The field's metric.
    pub pmid: Pmid,
    /// The code of its type.
    pub value_type: u32,
    /// The value, without padding.
    pub bytes: &'a [u8],
}

impl<'a> PackedParam<'a> {
    /// The value, if it is text.
    pub fn text(self) -> Option<&'a [u8]> {
        (self.value_type == ValueType::String.code() as u32).then_some(self.bytes)
    }
}

/// The flags of a packed record.
#[inline]
pub fn flags(record: &[u8]) -> EventFlags {
    let at = ArrayKind::HighRes.flags_offset();
    EventFlags(record.get(at..at + 4).map_or(0, BigEndian::read_u32))
}

/// The parameters of a packed record. Stops at the first that is damaged.
#[inline]
pub fn params(record: &[u8]) -> impl Iterator<Item = PackedParam<'_>> + Clone {
    let mut rest = record.get(ArrayKind::HighRes.record_header()..).unwrap_or(&[]);
    std::iter::from_fn(move || {
        let header = rest.get(..PARAM_HEADER)?;
        let word = BigEndian::read_u32(&header[4..]);
        let len = (word as usize & MAX_LEN).checked_sub(4)?;
        let bytes = rest.get(PARAM_HEADER..PARAM_HEADER + len)?;
        let param = PackedParam { pmid: Pmid(BigEndian::read_u32(header)), value_type: word >> 24, bytes };
        rest = rest.get(PARAM_HEADER + pad4(len)..).unwrap_or(&[]);
        Some(param)
    })
}
