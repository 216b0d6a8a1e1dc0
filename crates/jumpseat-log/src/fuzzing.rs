//! What fuzz targets reach of the inside; not for anybody else.

use crate::delta;

/// Records and where they end, of what segments hold of so many of them; `None` if that makes no sense.
pub fn decode(encoded: &[u8], bytes: usize, count: usize) -> Option<(Vec<u8>, Vec<u32>)> {
    let (mut records, mut ends) = (Vec::new(), Vec::new());
    delta::decode(encoded, bytes, count, &mut records, &mut ends).ok()?;
    Some((records, ends))
}

/// What segments hold of records that end there; `None` where that is the records themselves.
pub fn encode(records: &[u8], ends: &[u32]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let len = delta::encode(records, ends, &mut out)?;
    out.truncate(len);
    Some(out)
}
