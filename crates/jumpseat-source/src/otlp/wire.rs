//! Protobuf's wire format: fields of a message, where they are in the body.
//!
//! **Cost:** no allocation, nothing copied. Every read is checked against the end of the message it is in. What nearly all fields
//! are, a tag of one byte before a number or a length of one or two, is read in line, all else in a call.

use std::ops::Range;

use crate::delivery::Reason;
use crate::event::Refusal;

/// A range of the body.
pub(super) type Place = Range<usize>;

/// A field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 1.
    Fixed64(u64),
    /// Wire type 2: text, bytes or a message.
    Bytes(Place),
    /// Wire type 5.
    Fixed32(u32),
}

/// Reads the fields of one message. Offsets are those of the whole body, for messages about what is wrong.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    body: &'a [u8],
    at: usize,
    end: usize,
}

const SHORT: &str = "the message ends too early";

impl<'a> Fields<'a> {
    /// The fields of the message at this place.
    pub(super) fn of(body: &'a [u8], place: Place) -> Fields<'a> {
        let end = place.end.min(body.len());
        Fields { body, at: place.start.min(end), end }
    }

    /// Where the next field is.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The next field's number and value; `None` at the end of the message.
    ///
    /// # Errors
    /// It is no protobuf, or has a group, which OTLP has nowhere.
    #[inline(always)] // so that who wants one kind of value does not ask twice which one it is
    pub(super) fn next(&mut self) -> Result<Option<(u32, Wire)>, Refusal> {
        let rest = self.body.get(self.at..self.end).unwrap_or_default();
        let (number, value, end) = match *rest {
            [] => return Ok(None),
            [tag @ 0x08..0x80, len @ 0..0x80, ..] if tag & 7 == 2 && usize::from(len) <= rest.len() - 2 => {
                let (start, end) = (self.at + 2, self.at + 2 + usize::from(len));
                (tag >> 3, Wire::Bytes(start..end), end)
            }
            [tag @ 0x08..0x80, number @ 0..0x80, ..] if tag & 7 == 0 => {
                (tag >> 3, Wire::Varint(number.into()), self.at + 2)
            }
            [tag @ 0x08..0x80, a, b, c, d, e, f, g, h, ..] if tag & 7 == 1 => {
                (tag >> 3, Wire::Fixed64(u64::from_le_bytes([a, b, c, d, e, f, g, h])), self.at + 9)
            }
            [tag @ 0x08..0x80, low @ 0x80..=0xff, high @ 0..0x80, ..]
                if tag & 7 == 2 && usize::from(low & 0x7f) + usize::from(high) * 128 <= rest.len() - 3 =>
            {
                let start = self.at + 3;
                let end = start + usize::from(low & 0x7f) + usize::from(high) * 128;
                (tag >> 3, Wire::Bytes(start..end), end)
            }
            _ => return self.any(),
        };
        self.at = end;
        Ok(Some((number.into(), value)))
    }

    /// The same for whatever there may be.
    #[inline(never)]
    fn any(&mut self) -> Result<Option<(u32, Wire)>, Refusal> {
        let start = self.at;
        let tag = self.varint()?;
        let number = match u32::try_from(tag) {
            Ok(tag) if tag >> 3 != 0 => tag >> 3,
            _ => return Err(refuse(start, "a field number that protobuf does not have")),
        };
        let value = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let at = self.at;
                // Too long for this machine is too long for the message, too.
                let len = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
                match self.at.checked_add(len) {
                    Some(end) if end <= self.end => {
                        let place = self.at..end;
                        self.at = end;
                        Wire::Bytes(place)
                    }
                    _ => return Err(refuse(at, "a length beyond the end of its message")),
                }
            }
            5 => Wire::Fixed32(u32::from_le_bytes(self.array()?)),
            3 | 4 => return Err(refuse(start, "a group, which OTLP does not have")),
            _ => return Err(refuse(start, "a wire type that protobuf does not have")),
        };
        Ok(Some((number, value)))
    }

    fn varint(&mut self) -> Result<u64, Refusal> {
        let bytes = self.body.get(self.at..self.end).unwrap_or_default();
        let mut value = 0u64;
        for (index, &byte) in bytes.iter().take(10).enumerate() {
            // The tenth byte has room for one bit only.
            if index == 9 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.at += index + 1;
                return Ok(value);
            }
        }
        Err(refuse(self.at, if bytes.len() < 10 { SHORT } else { "a number of more than 64 bits" }))
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Refusal> {
        let found = self.body.get(self.at..self.end).and_then(|rest| rest.first_chunk::<N>());
        let bytes = *found.ok_or_else(|| refuse(self.at, SHORT))?;
        self.at += N;
        Ok(bytes)
    }
}

impl Wire {
    /// A message, text or bytes. `at`: where the field is.
    ///
    /// # Errors
    /// It is of another wire type.
    #[inline]
    pub(super) fn place(self, at: usize) -> Result<Place, Refusal> {
        match self {
            Wire::Bytes(place) => Ok(place),
            _ => Err(mistyped(at)),
        }
    }

    /// A number of any integer type up to 64 bits.
    ///
    /// # Errors
    /// It is of another wire type.
    #[inline]
    pub(super) fn varint(self, at: usize) -> Result<u64, Refusal> {
        match self {
            Wire::Varint(number) => Ok(number),
            _ => Err(mistyped(at)),
        }
    }

    /// A number of 64 bits that is stored as such.
    ///
    /// # Errors
    /// It is of another wire type.
    #[inline]
    pub(super) fn fixed64(self, at: usize) -> Result<u64, Refusal> {
        match self {
            Wire::Fixed64(number) => Ok(number),
            _ => Err(mistyped(at)),
        }
    }

    /// A number of 32 bits that is stored as such.
    ///
    /// # Errors
    /// It is something else.
    pub(super) fn fixed32(self, at: usize) -> Result<u32, Refusal> {
        match self {
            Wire::Fixed32(number) => Ok(number),
            _ => Err(mistyped(at)),
        }
    }
}

#[cold]
fn refuse(at: usize, detail: &'static str) -> Refusal {
    Refusal::at(at, Reason::Body, detail)
}

#[cold]
fn mistyped(at: usize) -> Refusal {
    refuse(at, "a field of another wire type than OTLP gives it")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(body: &[u8]) -> Result<Vec<(u32, Wire)>, String> {
        let mut fields = Fields::of(body, 0..body.len());
        let mut out = Vec::new();
        loop {
            match fields.next() {
                Ok(Some(field)) => out.push(field),
                Ok(None) => return Ok(out),
                Err(refusal) => return Err(refusal.to_string()),
            }
        }
    }

    #[test]
    fn every_wire_type() {
        let body = b"\x08\x96\x01\x11\x01\0\0\0\0\0\0\x80\x1a\x02hi\x25\x02\0\0\0";
        assert_eq!(
            all(body),
            Ok(vec![
                (1, Wire::Varint(150)),
                (2, Wire::Fixed64(0x8000_0000_0000_0001)),
                (3, Wire::Bytes(14..16)),
                (4, Wire::Fixed32(2)),
            ])
        );
        // Longer than it need be.
        assert_eq!(all(b"\x08\x81\x80\x80\0"), Ok(vec![(1, Wire::Varint(1))]));
        assert_eq!(
            all(b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
            Ok(vec![(1, Wire::Varint(u64::MAX))])
        );
    }

    /// What is read in line, and what is not, are the same.
    #[test]
    fn short_forms_are_read_as_long_ones() {
        let bytes = [0x02, 0x08, 0x09, 0x0a, 0x12, 0x7a, 0x7f, 0x80, 0x81, 0xff, 0x00, 0x01, 0x05];
        let mut body = [0; 12];
        // All beginnings of four bytes of these, in messages of every length.
        for n in 0..bytes.len().pow(4) * body.len() {
            let (mut n, len) = (n / body.len(), n % body.len() + 1);
            for byte in &mut body[..4] {
                *byte = bytes[n % bytes.len()];
                n /= bytes.len();
            }
            let (mut fields, mut same) = (Fields::of(&body, 0..len), Fields::of(&body, 0..len));
            assert_eq!((fields.next(), fields.at()), (same.any(), same.at()), "{body:x?} of {len}");
        }
        let long = [&b"\x0a\xac\x02"[..], &[b'x'; 300], b"\x10\x05"].concat();
        assert_eq!(all(&long), Ok(vec![(1, Wire::Bytes(3..303)), (2, Wire::Varint(5))]));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (body, message) in [
            (&b"\x08\x01\x12\x05ab"[..], "column 4: a length beyond the end of its message"),
            (b"\x08", "column 2: the message ends too early"),
            (b"\x09\x01", "column 2: the message ends too early"),
            (b"\x00", "column 1: a field number that protobuf does not have"),
            (b"\x0b", "column 1: a group, which OTLP does not have"),
            (b"\x0e", "column 1: a wire type that protobuf does not have"),
            (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "column 2: a number of more than 64 bits"),
            (
                b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                "column 2: a length beyond the end of its message",
            ),
        ] {
            assert_eq!(all(body), Err(message.to_owned()), "{body:x?}");
        }
        let mut fields = Fields::of(b"abc", 7..9);
        assert_eq!(fields.next(), Ok(None));
    }
}
