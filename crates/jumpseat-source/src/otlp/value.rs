//! Attributes: `KeyValue` and `AnyValue` messages as fields of a record.
//!
//! Maps become fields of their own, names joined with dots; lists become JSON text, bytes hexadecimal text. A value
//! that is not set makes no field.
//!
//! **Cost:** an attribute as SDKs write nearly all of them ([`Plain`]) is one look at its bytes, and one at those of its texts.

use std::ops::Range;

use super::wire::{Fields, Place, Wire};
use crate::delivery::Reason;
use crate::event::{Event, Field, Refusal, Text, Value, is_plain};
use crate::ndjson::MAX_DEPTH;
use crate::registry::MAX_FIELD_NAME;
use pcp_model::text::cut;

/// Most memory for the texts of one span, its events included, that are not in the body as they are.
const MAX_ARENA: usize = 4 << 20;
/// Stands for a NUL, which a PCP string cannot have.
const NUL_REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// How much of a record is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeLimits {
    /// Longest text of a field, in bytes. What is longer is cut.
    pub max_field: usize,
    /// Most attributes of a span, a span event or a log record. Further ones are cut off.
    pub max_fields: usize,
}

/// The attributes of one record, on their way into an event's fields.
pub(super) struct Attributes<'a> {
    /// The request.
    pub body: &'a [u8],
    /// Takes the fields.
    pub event: &'a mut Event,
    /// How much is kept.
    pub limits: AttributeLimits,
    /// Fields the event may have when this record's are complete.
    most: usize,
}

/// An `AnyValue`.
#[derive(Debug)]
enum Any {
    Unset,
    Text(Place),
    Bool(bool),
    Int(i64),
    Double(f64),
    List(Place),
    Map(Place),
    Bytes(Place),
}

impl<'a> Attributes<'a> {
    /// For the record whose fields begin behind those that the event has.
    pub(super) fn new(body: &'a [u8], event: &'a mut Event, limits: AttributeLimits) -> Attributes<'a> {
        let most = event.fields.len() + limits.max_fields;
        Attributes { body, event, limits, most }
    }

    /// Takes in the `KeyValue` at this place.
    ///
    /// # Errors
    /// It is malformed, nested too deep, or much too long.
    #[inline]
    pub(super) fn take(&mut self, place: Place) -> Result<(), Refusal> {
        match Plain::of(self.body.get(place.clone()).unwrap_or_default()) {
            Some(plain) => self.plain(plain, place.start),
            None => self.key_value(place, None, 0),
        }
    }

    fn plain(&mut self, Plain { key_len, value }: Plain, at: usize) -> Result<(), Refusal> {
        let key = at + Plain::KEY..at + Plain::KEY + key_len;
        let text_at = key.end + Plain::TEXT;
        let name = self.cut_text(key, MAX_FIELD_NAME)?;
        let value = match value {
            PlainValue::Text(len) => Value::Text(self.text(text_at..text_at + len)?),
            PlainValue::Other(value) => value,
        };
        self.push(name, value);
        Ok(())
    }

    /// Takes in the attributes of something that belongs to this record, their names behind a prefix.
    pub(super) fn take_below(&mut self, prefix: Text, place: Place) -> Result<(), Refusal> {
        self.key_value(place, Some(prefix), 0)
    }

    /// Adds a field.
    pub(super) fn push(&mut self, name: Text, value: Value) {
        if self.event.fields.len() < self.most {
            self.event.fields.push(Field::new(name, value));
        } else {
            self.event.truncated = true;
        }
    }

    /// An `AnyValue` as one text: lists and maps as JSON. `None` where it is not set.
    pub(super) fn as_text(&mut self, place: Place) -> Result<Option<Text>, Refusal> {
        let at = place.start;
        Ok(match any(self.body, place)? {
            Any::Unset => None,
            Any::Text(place) => Some(self.text(place)?),
            Any::Bytes(place) => Some(self.hex(place)?),
            other => Some(self.written(at, |writer| writer.any(other, at, 0))?),
        })
    }

    /// A text of the body, checked and cut.
    ///
    /// # Errors
    /// It is not UTF-8.
    #[inline]
    pub(super) fn text(&mut self, place: Place) -> Result<Text, Refusal> {
        self.cut_text(place, self.limits.max_field)
    }

    #[inline]
    fn cut_text(&mut self, place: Place, max: usize) -> Result<Text, Refusal> {
        let bytes = self.body.get(place.clone()).unwrap_or_default();
        if bytes.len() <= max && is_plain(bytes) {
            return Ok(Text::of_input(place.start, place.end));
        }
        self.checked_text(place, max)
    }

    #[inline(never)]
    fn checked_text(&mut self, place: Place, max: usize) -> Result<Text, Refusal> {
        let bytes = self.body.get(place.clone()).unwrap_or_default();
        let text = std::str::from_utf8(bytes).map_err(|error| {
            Refusal::at(place.start + error.valid_up_to(), Reason::Encoding, "text that is not UTF-8")
        })?;
        let kept = cut(text, max).len();
        self.event.truncated |= kept < text.len();
        // Most texts stay in the body; PCP's end at the first NUL, so one with a NUL is copied with that replaced.
        if memchr::memchr(0, &bytes[..kept]).is_none() {
            return Ok(Text::of_input(place.start, place.start + kept));
        }
        let start = self.begin(place.start)?;
        for (index, part) in bytes[..kept].split(|byte| *byte == 0).enumerate() {
            if index > 0 {
                self.event.arena.extend_from_slice(NUL_REPLACEMENT);
            }
            self.event.arena.extend_from_slice(part);
        }
        Ok(self.finish(start, max))
    }

    fn key_value(&mut self, place: Place, prefix: Option<Text>, depth: usize) -> Result<(), Refusal> {
        let at = place.start;
        let (mut key, mut value) = (at..at, None);
        let mut fields = Fields::of(self.body, place);
        loop {
            let at = fields.at();
            match fields.next()? {
                Some((1, wire)) => key = wire.place(at)?,
                Some((2, wire)) => value = Some(wire.place(at)?),
                Some(_) => {}
                None => break,
            }
        }
        // A key without a value makes no field.
        let Some(value) = value else { return Ok(()) };
        let name = match prefix {
            None => self.cut_text(key, MAX_FIELD_NAME)?,
            Some(prefix) => self.joined(prefix, key)?,
        };
        self.value(name, value, depth)
    }

    fn value(&mut self, name: Text, place: Place, depth: usize) -> Result<(), Refusal> {
        let at = place.start;
        let value = match any(self.body, place)? {
            Any::Unset => return Ok(()),
            Any::Text(place) => Value::Text(self.text(place)?),
            Any::Bool(value) => Value::Bool(value),
            Any::Int(value) => Value::I64(value),
            Any::Double(value) => Value::Double(value),
            Any::Bytes(place) => Value::Text(self.hex(place)?),
            Any::List(place) => Value::Text(self.written(at, |writer| writer.list(place, depth + 1))?),
            Any::Map(place) => {
                check_depth(depth + 1, at)?;
                let mut fields = Fields::of(self.body, place);
                loop {
                    let at = fields.at();
                    match fields.next()? {
                        Some((1, wire)) => self.key_value(wire.place(at)?, Some(name), depth + 1)?,
                        Some(_) => {}
                        None => return Ok(()),
                    }
                }
            }
        };
        self.push(name, value);
        Ok(())
    }

    /// `prefix.key`.
    fn joined(&mut self, prefix: Text, key: Place) -> Result<Text, Refusal> {
        let at = key.start;
        let key = self.cut_text(key, MAX_FIELD_NAME)?;
        let start = self.begin(at)?;
        self.append(prefix);
        self.event.arena.push(b'.');
        self.append(key);
        Ok(self.finish(start, MAX_FIELD_NAME))
    }

    fn append(&mut self, text: Text) {
        match text.input_range() {
            Some(range) => self.event.arena.extend_from_slice(self.body.get(range).unwrap_or_default()),
            None => self.event.arena.extend_from_within(text.arena_range()),
        }
    }

    /// Text that is not in the body.
    pub(super) fn literal(&mut self, text: &[u8]) -> Result<Text, Refusal> {
        let start = self.begin(0)?;
        self.event.arena.extend_from_slice(text);
        Ok(self.finish(start, text.len()))
    }

    fn hex(&mut self, place: Place) -> Result<Text, Refusal> {
        let start = self.begin(place.start)?;
        let max = self.limits.max_field;
        // Two digits a byte, and one byte more so that the cut is seen.
        for byte in self.body.get(place).unwrap_or_default().iter().take(max / 2 + 1) {
            self.event.arena.extend_from_slice(&hex(*byte));
        }
        Ok(self.finish(start, max))
    }

    /// What `write` writes as JSON.
    fn written(
        &mut self,
        at: usize,
        write: impl FnOnce(&mut Json<'_>) -> Result<(), Refusal>,
    ) -> Result<Text, Refusal> {
        let start = self.begin(at)?;
        let max = self.limits.max_field;
        let mut json = Json { body: self.body, out: &mut self.event.arena, end: start + max };
        write(&mut json)?;
        Ok(self.finish(start, max))
    }

    /// Begins a text in the arena.
    fn begin(&mut self, at: usize) -> Result<usize, Refusal> {
        match self.event.arena.len() {
            // Joined names and lists can be many times their input: nested maps repeat all names above them.
            len if len > MAX_ARENA => {
                Err(Refusal::at(at, Reason::OversizeLine, "nested values of more than 4 MiB"))
            }
            len => Ok(len),
        }
    }

    /// Ends a text in the arena, cutting it.
    fn finish(&mut self, start: usize, max: usize) -> Text {
        let bytes = self.event.arena.get(start..).unwrap_or_default();
        // Only whole characters are written, but for this cut.
        let kept = match std::str::from_utf8(bytes) {
            Ok(text) => cut(text, max).len(),
            Err(error) => error.valid_up_to().min(max),
        };
        self.event.truncated |= kept < bytes.len();
        self.event.arena.truncate(start + kept);
        Text::of_arena(start, start + kept)
    }
}

/// A `KeyValue` with a key, a value of one of the four simple kinds, and nothing else, all of it short.
struct Plain {
    key_len: usize,
    value: PlainValue,
}

enum PlainValue {
    /// A text of so many bytes.
    Text(usize),
    Other(Value),
}

impl Plain {
    /// Where the key begins.
    const KEY: usize = 2;
    /// Where a text begins behind it.
    const TEXT: usize = 4;

    /// What the bytes of one say; `None`: they have to be looked at more closely.
    #[inline]
    fn of(bytes: &[u8]) -> Option<Plain> {
        let [0x0a, key_len @ 0..0x80, rest @ ..] = bytes else { return None };
        let key_len = usize::from(*key_len);
        let [0x12, len @ 0..0x80, value @ ..] = rest.get(key_len..)? else { return None };
        if usize::from(*len) != value.len() {
            return None;
        }
        let value = match value {
            [0x0a, len @ 0..0x80, text @ ..] if usize::from(*len) == text.len() => {
                PlainValue::Text(text.len())
            }
            [0x10, bit @ 0..0x80] => PlainValue::Other(Value::Bool(*bit != 0)),
            [0x18, number @ 0..0x80] => PlainValue::Other(Value::I64((*number).into())),
            [0x18, low @ 0x80..=0xff, high @ 0..0x80] => {
                PlainValue::Other(Value::I64(i64::from(low & 0x7f) | i64::from(*high) << 7))
            }
            [0x21, bits @ ..] => PlainValue::Other(Value::Double(f64::from_le_bytes(bits.try_into().ok()?))),
            _ => return None,
        };
        Some(Plain { key_len, value })
    }
}

/// Writes values as JSON; stops adding when it has enough.
struct Json<'a> {
    body: &'a [u8],
    out: &'a mut Vec<u8>,
    /// What goes beyond is cut anyway.
    end: usize,
}

impl Json<'_> {
    fn any(&mut self, value: Any, at: usize, depth: usize) -> Result<(), Refusal> {
        match value {
            Any::Unset => self.scalar(&()),
            Any::Bool(value) => self.scalar(&value),
            Any::Int(value) => self.scalar(&value),
            // JSON has no word for these.
            Any::Double(value) if !value.is_finite() => self.scalar(&value.to_string()),
            Any::Double(value) => self.scalar(&value),
            Any::Text(place) => self.text(place)?,
            Any::Bytes(place) => {
                let bytes = self.body.get(place).unwrap_or_default();
                let room = self.end.saturating_sub(self.out.len()) / 2 + 1;
                self.out.push(b'"');
                for byte in bytes.iter().take(room) {
                    self.out.extend_from_slice(&hex(*byte));
                }
                self.out.push(b'"');
            }
            Any::List(place) => self.list(place, depth + 1)?,
            Any::Map(place) => self.map(place, at, depth + 1)?,
        }
        Ok(())
    }

    fn list(&mut self, place: Place, depth: usize) -> Result<(), Refusal> {
        check_depth(depth, place.start)?;
        self.out.push(b'[');
        let mut comma = false;
        let mut fields = Fields::of(self.body, place);
        loop {
            let at = fields.at();
            match fields.next()? {
                Some((1, wire)) => {
                    let place = wire.place(at)?;
                    // Enough is written; the rest is only checked.
                    if self.out.len() > self.end {
                        continue;
                    }
                    if std::mem::replace(&mut comma, true) {
                        self.out.push(b',');
                    }
                    self.any(any(self.body, place)?, at, depth)?;
                }
                Some(_) => {}
                None => break,
            }
        }
        self.out.push(b']');
        Ok(())
    }

    fn map(&mut self, place: Place, at: usize, depth: usize) -> Result<(), Refusal> {
        check_depth(depth, at)?;
        self.out.push(b'{');
        let mut comma = false;
        let mut entries = Fields::of(self.body, place);
        loop {
            let at = entries.at();
            match entries.next()? {
                Some((1, wire)) => {
                    let entry = wire.place(at)?;
                    if self.out.len() > self.end {
                        continue;
                    }
                    if std::mem::replace(&mut comma, true) {
                        self.out.push(b',');
                    }
                    self.entry(entry, depth)?;
                }
                Some(_) => {}
                None => break,
            }
        }
        self.out.push(b'}');
        Ok(())
    }

    fn entry(&mut self, place: Place, depth: usize) -> Result<(), Refusal> {
        let (mut key, mut value) = (place.start..place.start, Any::Unset);
        let mut fields = Fields::of(self.body, place);
        loop {
            let at = fields.at();
            match fields.next()? {
                Some((1, wire)) => key = wire.place(at)?,
                Some((2, wire)) => value = any(self.body, wire.place(at)?)?,
                Some(_) => {}
                None => break,
            }
        }
        let at = key.start;
        self.text(key)?;
        self.out.push(b':');
        self.any(value, at, depth)
    }

    fn text(&mut self, place: Place) -> Result<(), Refusal> {
        let bytes = self.body.get(place.clone()).unwrap_or_default();
        let text = std::str::from_utf8(bytes).map_err(|error| {
            Refusal::at(place.start + error.valid_up_to(), Reason::Encoding, "text that is not UTF-8")
        })?;
        self.scalar(cut(text, self.end.saturating_sub(self.out.len()) + 1));
        Ok(())
    }

    fn scalar<T: serde::Serialize + ?Sized>(&mut self, value: &T) {
        // Writing these to a vector cannot fail.
        let _ = serde_json::to_writer(&mut *self.out, value);
    }
}

fn any(body: &[u8], place: Place) -> Result<Any, Refusal> {
    let mut value = Any::Unset;
    let mut fields = Fields::of(body, place);
    loop {
        let at = fields.at();
        let Some((number, wire)) = fields.next()? else { return Ok(value) };
        value = match number {
            1 => Any::Text(wire.place(at)?),
            2 => Any::Bool(wire.varint(at)? != 0),
            3 => Any::Int(wire.varint(at)? as i64),
            4 => Any::Double(f64::from_bits(wire.fixed64(at)?)),
            5 => Any::List(wire.place(at)?),
            6 => Any::Map(wire.place(at)?),
            7 => Any::Bytes(wire.place(at)?),
            _ => continue,
        };
    }
}

/// The text of an attribute of this name that is text, among `attributes`.
pub(super) fn find_text<'a>(body: &'a [u8], attributes: &[Range<usize>], name: &[u8]) -> Option<&'a str> {
    let found = attributes.iter().find_map(|place| {
        let (mut key, mut value) = (None, None);
        let mut fields = Fields::of(body, place.clone());
        while let Ok(Some((number, wire))) = fields.next() {
            match (number, wire) {
                (1, Wire::Bytes(place)) => key = body.get(place),
                (2, Wire::Bytes(place)) => value = Some(place),
                _ => {}
            }
        }
        value.filter(|_| key == Some(name))
    })?;
    match any(body, found) {
        Ok(Any::Text(place)) => std::str::from_utf8(body.get(place)?).ok(),
        _ => None,
    }
}

fn check_depth(depth: usize, at: usize) -> Result<(), Refusal> {
    if depth > MAX_DEPTH {
        return Err(Refusal::at(at, Reason::Depth, "values nested deeper than 32 levels"));
    }
    Ok(())
}

/// Two hexadecimal digits.
#[inline]
pub(super) fn hex(byte: u8) -> [u8; 2] {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::any_value::Value as Sent;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
    use prost::Message as _;

    use super::*;

    fn taken(
        body: &[u8],
        take: impl FnOnce(&mut Attributes<'_>) -> Result<(), Refusal>,
    ) -> (Result<(), Refusal>, Event) {
        let mut event = Event::default();
        let limits = AttributeLimits { max_field: 100, max_fields: 8 };
        let result = take(&mut Attributes::new(body, &mut event, limits));
        (result, event)
    }

    /// What is taken in at a glance is what a closer look finds.
    #[test]
    fn plain_attributes_are_what_they_are_in_general() {
        let texts = [
            "",
            "x",
            "GET",
            "seven77",
            "eight888",
            "größe",
            "a\0b",
            "of more than eight bytes",
            "nul at the end.\0",
        ];
        let mut values: Vec<Option<Sent>> =
            texts.iter().map(|text| Some(Sent::StringValue((*text).to_owned()))).collect();
        values.extend(
            [99, 100, 101, 123, 124, 125, 126, 300].map(|len| Some(Sent::StringValue("y".repeat(len)))),
        );
        values.extend(
            [0, 1, 127, 128, 200, 16_383, 16_384, i64::MAX, -1].map(|number| Some(Sent::IntValue(number))),
        );
        values.extend([true, false].map(|bit| Some(Sent::BoolValue(bit))));
        values.extend([0.0, -1.5, f64::NAN].map(|number| Some(Sent::DoubleValue(number))));
        values.extend([None, Some(Sent::BytesValue(vec![1, 2]))]);
        let keys = texts
            .iter()
            .map(|text| (*text).to_owned())
            .chain([100, 127, 128, 129].map(|len| "k".repeat(len)));
        for key in keys {
            for value in &values {
                let sent = KeyValue {
                    key: key.clone(),
                    value: Some(AnyValue { value: value.clone() }),
                    ..KeyValue::default()
                };
                let whole = sent.encode_to_vec();
                // And what is left when it was cut short, or has something behind it.
                for body in
                    (0..=whole.len())
                        .map(|len| whole[..len].to_vec())
                        .chain([[&whole[..], b"\x18\0"].concat()])
                {
                    let at_once = taken(&body, |attributes| attributes.take(0..body.len()));
                    let closely = taken(&body, |attributes| attributes.key_value(0..body.len(), None, 0));
                    assert_eq!(format!("{at_once:?}"), format!("{closely:?}"), "{sent:?}");
                }
            }
        }
    }
}
