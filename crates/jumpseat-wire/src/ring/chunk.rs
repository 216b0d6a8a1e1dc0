//! The frames about rings.
//!
//! ```text
//! RINGS := version(1) | connection        one file descriptor comes with its bytes
//! CHUNK := skipped | part*
//! part  := slot | from | to | told | lost
//! ```
//!
//! Numbers are varints. `skipped` items of the chunk have gone out on the connection before. Slot 0 stands for no ring:
//! messages that were lost outside of any.

use super::{Geometry, MAX_CHUNK, MAX_SLOTS};
use crate::{CHUNK, RINGS, put_frame, put_varint, varint};

/// The layout of the file, in a RINGS frame.
pub const LAYOUT: u8 = 1;

/// What a chunk has of one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Which slot.
    pub slot: u64,
    /// Where its messages begin.
    pub from: u64,
    /// Where they end.
    pub to: u64,
    /// How many lost messages were told before.
    pub told: u64,
    /// How many after it.
    pub lost: u64,
}

/// Appends a RINGS frame.
pub fn put_rings(out: &mut Vec<u8>, connection: u64) {
    let mut payload = vec![LAYOUT];
    put_varint(&mut payload, connection);
    put_frame(out, RINGS, &payload);
}

/// Appends a CHUNK frame.
pub fn put_chunk(out: &mut Vec<u8>, skipped: u64, parts: &[Part]) {
    let mut payload = Vec::new();
    put_varint(&mut payload, skipped);
    for part in parts {
        for number in [part.slot, part.from, part.to, part.told, part.lost] {
            put_varint(&mut payload, number);
        }
    }
    put_frame(out, CHUNK, &payload);
}

/// The number of the connection in a RINGS frame of this layout.
pub fn read_rings(payload: &[u8]) -> Option<u64> {
    let (&LAYOUT, rest) = payload.split_first()? else { return None };
    let (connection, width) = varint(rest)?;
    (width == rest.len()).then_some(connection)
}

/// What a CHUNK frame says, if that can be: skipped items and parts.
pub fn read_chunk(payload: &[u8]) -> Option<(u64, Vec<Part>)> {
    let mut rest = payload;
    let mut number = || {
        let (value, width) = varint(rest)?;
        rest = &rest[width..];
        Some((value, rest.is_empty()))
    };
    let (skipped, mut end) = number()?;
    let mut parts = Vec::new();
    let mut bytes = 0_u64;
    while !end {
        let mut part = Part::default();
        let Part { slot, from, to, told, lost } = &mut part;
        for into in [slot, from, to, told, lost] {
            (*into, end) = number()?;
        }
        bytes = bytes.checked_add(part.to.checked_sub(part.from)?)?;
        let aligned = part.from.is_multiple_of(8) && part.to.is_multiple_of(8);
        if part.slot > MAX_SLOTS || !aligned || bytes > MAX_CHUNK || parts.len() as u64 > MAX_SLOTS {
            return None;
        }
        parts.push(part);
    }
    Some((skipped, parts))
}

impl Part {
    /// Whether such a file can have it.
    pub fn fits(&self, geometry: Geometry) -> bool {
        self.slot <= geometry.slots && self.to - self.from <= if self.slot == 0 { 0 } else { geometry.ring }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;

    #[test]
    fn chunks_are_read_as_they_were_written_or_refused() {
        let part = Part { slot: 3, from: 8, to: 1 << 20, told: 1, lost: u64::MAX };
        let mut out = Vec::new();
        put_chunk(&mut out, 7, &[part, Part::default()]);
        let (kind, payload, len) = frame(&out).unwrap();
        assert_eq!((kind, len), (CHUNK, out.len()));
        assert_eq!(read_chunk(payload), Some((7, vec![part, Part::default()])));
        assert_eq!(read_chunk(&payload[..payload.len() - 1]), None);
        for wrong in [
            Part { to: 0, ..part },
            Part { from: 9, ..part },
            Part { slot: 65, ..part },
            Part { to: MAX_CHUNK + 16, ..part },
        ] {
            let mut out = Vec::new();
            put_chunk(&mut out, 0, &[wrong]);
            assert_eq!(read_chunk(frame(&out).unwrap().1), None, "{wrong:?}");
        }
        let mut out = Vec::new();
        put_rings(&mut out, 300);
        let (kind, payload, _) = frame(&out).unwrap();
        assert_eq!((kind, read_rings(payload)), (RINGS, Some(300)));
        assert_eq!(read_rings(&[2, 1]), None);
    }
}
