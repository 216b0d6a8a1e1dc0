//! Reading a record's fields from front to back.

use std::ffi::CStr;

use pcp_model::Timestamp;

/// The stamps of archive versions 2 and 3 (`docs/pcp/archive.md` 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamp {
    /// Seconds and microseconds, 32 bits each.
    Micro,
    /// Low, then high word of the seconds, then nanoseconds.
    Nano,
}

/// What is left of a record. Each read fails with `None` where the bytes end.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    #[inline]
    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(front)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*front)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A number of things that take at least `size` bytes each, as far as the record has room for them.
    pub(crate) fn count(&mut self, size: usize) -> Option<usize> {
        let count = usize::try_from(self.i32()?).ok()?;
        (count <= self.0.len() / size).then_some(count)
    }

    pub(crate) fn stamp(&mut self, stamp: Stamp) -> Option<Timestamp> {
        Some(match stamp {
            Stamp::Micro => {
                let (sec, usec) = (self.i32()?, self.u32()?);
                Timestamp::new(i64::from(sec), 0).plus_nanos(u64::from(usec) * 1000)
            }
            Stamp::Nano => {
                let (low, high, nsec) = (self.u32()?, self.u32()?, self.u32()?);
                Timestamp::new((u64::from(high) << 32 | u64::from(low)) as i64, nsec)
            }
        })
    }
}

/// What is in front of the first NUL, or all. Texts are short here: to find out which vector instructions there are, as crates do that are
/// faster for long ones, takes a virtual machine a tenth of a millisecond, once, which is a tenth of what starting a tool takes.
pub(super) fn until_nul(bytes: &[u8]) -> &[u8] {
    CStr::from_bytes_until_nul(bytes).map_or(bytes, CStr::to_bytes)
}

trait PlusNanos {
    fn plus_nanos(self, nanos: u64) -> Self;
}

impl PlusNanos for Timestamp {
    fn plus_nanos(self, nanos: u64) -> Timestamp {
        const SECOND: u64 = 1_000_000_000;
        // Less than 4295 seconds, so both parts fit.
        Timestamp::new(self.sec.saturating_add((nanos / SECOND) as i64), (nanos % SECOND) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps() {
        let mut fields = Fields(&[0x2a, 0x05, 0xf2, 0x00, 0, 0, 0, 1, 0x3b, 0x9a, 0xc9, 0xff]);
        assert_eq!(fields.stamp(Stamp::Nano), Some(Timestamp::new(5_000_000_000, 999_999_999)));
        let mut fields = Fields(&[0x3b, 0x9a, 0xca, 0x00, 0xff, 0xff, 0xff, 0xff, 9]);
        assert_eq!(fields.stamp(Stamp::Micro), Some(Timestamp::new(1_000_004_294, 967_295_000)));
        assert_eq!(fields.u16(), None);
        assert_eq!(fields.u8(), Some(9));
    }
}
