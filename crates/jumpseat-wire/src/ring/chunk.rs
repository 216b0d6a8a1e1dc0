//! What was taken out of the rings at a time, as it stands in the table of the file's head.
//!
//! ```text
//! RINGS := layout(1) | connection        a frame; one file descriptor comes with its bytes
//! CHUNK := number                        a frame: the server is to read this chunk by itself
//! READ  := number                        a frame from the server: it has read those below
//! entry := first | count | parts | part*(65)
//! part  := slot | from | to | told | lost
//! ```
//!
//! Chunk N, from 0 on, has place N modulo 16. Slot 0 stands for no ring: messages that were lost outside of any. A chunk without
//! parts is one of messages that are in no file.

use super::merge::MAX_MISSED;
use super::{Geometry, MAX_CHUNK, MAX_SLOTS};
use crate::{CHUNK, MAX_NUMBER, READ, RINGS, put_frame, put_varint, varint};

/// The layout of the file, in a RINGS frame.
pub const LAYOUT: u8 = 2;
/// Most bytes of a chunk that the server reads by itself: as much work as a few reads of its socket.
pub const MAX_READ: u64 = 1 << 20;

/// Words of a part.
const PART: usize = 5;
/// Words before the parts.
const HEAD: usize = 3;
/// Most parts.
const PARTS: usize = MAX_SLOTS as usize + 1;
/// Most numbers of a chunk: of its messages, and of those that each of its parts says were lost.
const MAX_COUNT: u64 = MAX_CHUNK / 8 + PARTS as u64 * MAX_MISSED;
/// Words of an entry of the table.
pub const ENTRY: usize = HEAD + PARTS * PART;

/// A chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// The number of its first item.
    pub first: u64,
    /// How many numbers its items have.
    pub count: u64,
    /// What it has of the slots.
    pub parts: Vec<Part>,
}

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

impl Chunk {
    /// The number behind its last one.
    pub fn end(&self) -> u64 {
        self.first.saturating_add(self.count)
    }

    /// Bytes of its messages.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.to.saturating_sub(part.from)).sum()
    }

    /// As it stands in the table.
    pub fn words(&self) -> impl Iterator<Item = u64> {
        let parts = self.parts.iter().flat_map(|part| [part.slot, part.from, part.to, part.told, part.lost]);
        [self.first, self.count, self.parts.len() as u64].into_iter().chain(parts)
    }

    /// What stands in the table of such a file, if that can be.
    pub fn read(words: &[u64], geometry: Geometry) -> Option<Chunk> {
        let (&[first, count, len], words) = words.split_first_chunk::<HEAD>()?;
        let words = words.as_chunks::<PART>().0.get(..usize::try_from(len).ok()?)?;
        let part = |&[slot, from, to, told, lost]: &[u64; PART]| Part { slot, from, to, told, lost };
        let parts: Vec<Part> = words.iter().map(part).collect();
        let bytes =
            parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(part.to.checked_sub(part.from)?))?;
        let numbered = first > 0 && count <= MAX_COUNT && first.checked_add(count)? <= MAX_NUMBER;
        let sound = numbered && bytes <= MAX_CHUNK;
        (sound && parts.iter().all(|part| part.fits(geometry))).then_some(Chunk { first, count, parts })
    }
}

impl Part {
    /// Whether such a file can have it.
    fn fits(&self, geometry: Geometry) -> bool {
        let most = if self.slot == 0 { 0 } else { geometry.ring };
        let aligned = self.from.is_multiple_of(8) && self.to.is_multiple_of(8);
        self.slot <= geometry.slots && aligned && self.to - self.from <= most
    }
}

/// The name of a sender with this identity.
pub fn sender(id: [u64; 2]) -> String {
    format!("layer:{:016x}{:016x}", id[0], id[1])
}

/// Appends a RINGS frame.
pub fn put_rings(out: &mut Vec<u8>, connection: u64) {
    let mut payload = vec![LAYOUT];
    put_varint(&mut payload, connection);
    put_frame(out, RINGS, &payload);
}

/// The number of the connection in a RINGS frame of this layout.
pub fn read_rings(payload: &[u8]) -> Option<u64> {
    let (&LAYOUT, rest) = payload.split_first()? else { return None };
    read_number(rest)
}

/// Appends a CHUNK frame.
pub fn put_chunk(out: &mut Vec<u8>, number: u64) {
    put_number(out, CHUNK, number);
}

/// Appends a READ frame.
pub fn put_read(out: &mut Vec<u8>, chunks: u64) {
    put_number(out, READ, chunks);
}

fn put_number(out: &mut Vec<u8>, kind: u8, number: u64) {
    let mut payload = Vec::new();
    put_varint(&mut payload, number);
    put_frame(out, kind, &payload);
}

/// The number that is all of a CHUNK or READ frame.
pub fn read_number(payload: &[u8]) -> Option<u64> {
    let (number, width) = varint(payload)?;
    (width == payload.len()).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;

    const GEOMETRY: Geometry = Geometry { slots: 3, ring: 1 << 20 };

    #[test]
    fn chunks_are_read_as_they_were_written_or_refused() {
        let part = Part { slot: 3, from: 8, to: 1 << 20, told: 1, lost: u64::MAX };
        let chunk = Chunk { first: 7, count: 9, parts: vec![part, Part::default()] };
        let table = |chunk: &Chunk| {
            let mut words: Vec<u64> = chunk.words().collect();
            words.resize(ENTRY, 77);
            words
        };
        assert_eq!(Chunk::read(&table(&chunk), GEOMETRY), Some(chunk.clone()));
        assert_eq!((chunk.end(), chunk.bytes()), (16, (1 << 20) - 8));
        for wrong in [
            Part { to: 0, ..part },
            Part { from: 9, ..part },
            Part { slot: 4, ..part },
            Part { slot: 0, ..part },
            Part { to: MAX_CHUNK + 16, ..part },
        ] {
            let chunk = Chunk { parts: vec![wrong], ..chunk.clone() };
            assert_eq!(Chunk::read(&table(&chunk), GEOMETRY), None, "{wrong:?}");
        }
        for wrong in [
            Chunk { first: 0, ..chunk.clone() },
            Chunk { count: u64::MAX, ..chunk.clone() },
            // Who told of so many, piece by piece, would hold the others up.
            Chunk { count: 1 << 40, ..chunk.clone() },
        ] {
            assert_eq!(Chunk::read(&table(&wrong), GEOMETRY), None);
        }
        let mut long = table(&chunk);
        long[2] = 66;
        assert_eq!(Chunk::read(&long, GEOMETRY), None);
        assert_eq!(Chunk::read(&long[..2], GEOMETRY), None);
        let mut out = Vec::new();
        put_rings(&mut out, 300);
        let (kind, payload, _) = frame(&out).unwrap();
        assert_eq!((kind, read_rings(payload)), (RINGS, Some(300)));
        assert_eq!(read_rings(&[1, 1]), None);
        for (put, expected) in [(put_chunk as fn(&mut Vec<u8>, u64), CHUNK), (put_read, READ)] {
            out.clear();
            put(&mut out, 300);
            let (kind, payload, _) = frame(&out).unwrap();
            assert_eq!((kind, read_number(payload)), (expected, Some(300)));
        }
        assert_eq!(read_number(&[1, 1]), None);
    }
}
