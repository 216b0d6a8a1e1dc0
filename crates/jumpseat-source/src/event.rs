//! One event as a parser found it, before names have ids. Reused from event to event, so that parsing
//! allocates nothing once warm.

use super::clock::Offset;
use super::delivery::Reason;
use super::ndjson::{MemberId, Outline};
use pcp_event::{EventFlags, Param};
use pcp_model::Timestamp;

/// A text of an event: a range of the input, or of [`Event::arena`] where escapes had to be resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    start: u32,
    len: u32,
}

/// Marks ranges of the arena. Input is bounded far below 2 GiB ([`super::SocketConfig::validate`]).
const ARENA: u32 = 1 << 31;

impl Text {
    /// A range of the input.
    pub const fn of_input(start: usize, end: usize) -> Text {
        Text { start: start as u32, len: (end - start) as u32 }
    }

    /// A range of the arena.
    pub const fn of_arena(start: usize, end: usize) -> Text {
        Text { start: start as u32 | ARENA, len: (end - start) as u32 }
    }

    /// Length in bytes.
    pub const fn len(self) -> usize {
        self.len as usize
    }

    /// Whether there is no byte in it.
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The range of the input, unless the text is in the arena.
    pub fn input_range(self) -> Option<std::ops::Range<usize>> {
        let start = self.start as usize;
        (self.start & ARENA == 0).then(|| start..start + self.len())
    }

    /// The range of the arena, for texts that are there.
    pub fn arena_range(self) -> std::ops::Range<usize> {
        let start = (self.start & !ARENA) as usize;
        start..start + self.len()
    }

    /// The first `len` bytes.
    pub const fn shortened(self, len: usize) -> Text {
        Text { start: self.start, len: len as u32 }
    }
}

/// The value of a free field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Text.
    Text(Text),
    /// An integer.
    I64(i64),
    /// An integer beyond `i64::MAX`.
    U64(u64),
    /// A number with a fraction or an exponent.
    Double(f64),
    /// A truth value, stored as 0 or 1.
    Bool(bool),
}

/// A span's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanId {
    /// Text, such as a hexadecimal trace id.
    Text(Text),
    /// A number.
    U64(u64),
}

/// A severity as it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeverityText {
    /// One of [`jumpseat_wire::severity::WORDS`].
    Word(&'static str),
    /// Something else, kept as it came.
    Text(Text),
}

/// A free field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// Its name; nested objects have their names joined with dots.
    pub name: Text,
    /// Its value.
    pub value: Value,
    /// Its name's place in the outline of the event.
    pub member: Option<MemberId>,
}

impl Field {
    /// A field of this name.
    pub const fn new(name: Text, value: Value) -> Field {
        Field { name, value, member: None }
    }
}

/// Most arena memory kept from event to event.
const KEEP: usize = 1024 * 1024;

/// One event. [`Event::clear`] before each use.
#[derive(Clone, Debug, Default)]
pub struct Event {
    /// When it happened; `None`: take the time of arrival.
    pub time: Option<Timestamp>,
    /// The number that the time was, if it was one: of another clock, it means something else
    /// ([`Event::take_time_of`]).
    pub time_number: Option<Text>,
    /// POINT, START or END; 0 stands for POINT.
    pub phase: EventFlags,
    /// The span it belongs to.
    pub id: Option<SpanId>,
    /// That span's parent.
    pub parent: Option<SpanId>,
    /// Event type.
    pub event_type: Option<Text>,
    /// Severity.
    pub severity: Option<SeverityText>,
    /// Message.
    pub message: Option<Text>,
    /// The source it names, instead of its connection's.
    pub source: Option<Text>,
    /// All other fields, in input order.
    pub fields: Vec<Field>,
    /// Something was cut off.
    pub truncated: bool,
    /// Texts that are not in the input as they are.
    pub arena: Vec<u8>,
    /// The names in the events before.
    pub(crate) outline: Outline,
}

impl Event {
    /// Makes it empty, keeping its memory.
    pub fn clear(&mut self) {
        self.time = None;
        self.time_number = None;
        self.phase = EventFlags(0);
        self.id = None;
        self.parent = None;
        self.event_type = None;
        self.severity = None;
        self.message = None;
        self.source = None;
        self.fields.clear();
        self.outline.renew();
        self.truncated = false;
        self.arena.clear();
        if self.arena.capacity() > KEEP {
            // One monster does not set the size for good.
            self.arena.shrink_to(KEEP);
        }
    }

    /// Takes the time, if it is a number, as one of a clock whose distance from real time is `offset`; `input` is what
    /// the event was parsed from. Times in text are real times in any case.
    ///
    /// # Errors
    /// The number is no time.
    pub fn take_time_of(&mut self, offset: Offset, input: &[u8]) -> Result<(), Refusal> {
        // A date says which clock it is of; only a bare number needs the sender's word for it.
        if let Some(number) = self.time_number {
            let column = number.input_range().map_or(0, |range| range.start);
            let time = super::ndjson::time::from_clock(self.text(input, number))
                .map_err(|detail| Refusal::at(column, Reason::Time, detail))?;
            self.time = Some(offset.realtime(time));
        }
        Ok(())
    }

    /// A text within the limit for fields, cut at a character if so configured. `at` is its place in `input`.
    ///
    /// # Errors
    /// It is longer, and longer ones are to be refused.
    #[inline]
    pub fn limited(&mut self, input: &[u8], limits: &Limits, text: Text, at: usize) -> Result<Text, Refusal> {
        if text.len() <= limits.max_field {
            return Ok(text);
        }
        // Refused by default: half a text may say the opposite of the whole.
        if !limits.truncate {
            return Err(Refusal::at(at, Reason::OversizeField, "a text longer than the limit for fields"));
        }
        self.truncated = true;
        let bytes = self.text(input, text);
        let mut end = limits.max_field;
        // Back to the first byte of a character.
        while end > 0 && bytes.get(end).is_some_and(|byte| byte & 0xc0 == 0x80) {
            end -= 1;
        }
        Ok(text.shortened(end))
    }

    /// The bytes of a text of this event; `input` is what the event was parsed from.
    #[inline]
    pub fn text<'a>(&'a self, input: &'a [u8], text: Text) -> &'a [u8] {
        let (bytes, start) = if text.start & ARENA == 0 {
            (input, text.start as usize)
        } else {
            (&self.arena[..], (text.start & !ARENA) as usize)
        };
        // In range by construction; a text resolved against foreign input reads as empty.
        bytes.get(start..start + text.len()).unwrap_or_default()
    }

    /// A field's value as a parameter; `input` is what the event was parsed from.
    #[inline]
    pub fn param<'a>(&'a self, input: &'a [u8], value: Value) -> Param<'a> {
        match value {
            Value::I64(n) => Param::I64(n),
            Value::U64(n) => Param::U64(n),
            Value::Double(n) => Param::Double(n),
            Value::Bool(b) => Param::U32(u32::from(b)),
            Value::Text(t) => Param::String(self.text(input, t)),
        }
    }
}

/// How long things may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest line or frame, in bytes.
    pub max_line: usize,
    /// Longest text of a field, in bytes.
    pub max_field: usize,
    /// Cut what is longer, instead of refusing the event.
    pub truncate: bool,
}

impl Limits {
    /// Bytes within the limit for fields, cut at a character if so configured, and whether they were. `at`: their place in the input.
    #[inline]
    pub(crate) fn bytes<'a>(&self, bytes: &'a [u8], at: usize) -> Result<(&'a [u8], bool), Refusal> {
        if bytes.len() <= self.max_field {
            return Ok((bytes, false));
        }
        if !self.truncate {
            return Err(Refusal::at(at, Reason::OversizeField, "a text longer than the limit for fields"));
        }
        let mut end = self.max_field;
        // Not into the middle of a character: what follows the cut must be the first byte of one.
        while end > 0 && bytes[end] & 0xc0 == 0x80 {
            end -= 1;
        }
        Ok((&bytes[..end], true))
    }
}

/// A text. PCP's texts cannot hold a NUL.
#[inline]
pub(crate) fn without_nul(text: &[u8], at: usize) -> Result<&[u8], Refusal> {
    // Most are short, and looked at before a search would have begun.
    const SHORT: usize = 16;
    let is_plain = text.len() <= SHORT && is_plain(text);
    if !is_plain && memchr::memchr(0, text).is_some() {
        return Err(Refusal::at(at, Reason::Encoding, "a text with a NUL: send it as aggregate"));
    }
    Ok(text)
}

/// Whether these are ASCII and no NUL: valid, and the same in a record.
#[inline]
pub(crate) fn is_plain(bytes: &[u8]) -> bool {
    // Taking one from each byte sets the highest bit of one that is zero, and then perhaps of others.
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHEST: u64 = ONES << 7;
    let odd = |word: u64| word | word.wrapping_sub(ONES);
    let odd = if let Some(last) = bytes.last_chunk() {
        let (words, _) = bytes.as_chunks();
        words.iter().chain([last]).fold(0, |bits, word| bits | odd(u64::from_ne_bytes(*word)))
    } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        // Of four to seven bytes, which overlap.
        odd(u64::from(u32::from_ne_bytes(*first)) | u64::from(u32::from_ne_bytes(*last)) << u32::BITS)
    } else {
        return bytes.iter().all(|byte| (1..0x80).contains(byte));
    };
    odd & HIGHEST == 0
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::from(&super::SocketConfig::default())
    }
}

impl From<&super::SocketConfig> for Limits {
    fn from(config: &super::SocketConfig) -> Limits {
        Limits {
            max_line: config.max_line,
            max_field: config.max_field,
            truncate: config.oversize == super::Oversize::Truncate,
        }
    }
}

/// Why an event was refused, and where in its line or frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {detail}")]
pub struct Refusal {
    /// 1-based byte position within the line or the frame's payload.
    pub column: u32,
    /// The kind of defect.
    pub reason: Reason,
    /// The defect in words.
    pub detail: &'static str,
}

impl Refusal {
    /// A refusal at a 0-based offset.
    #[cold]
    pub fn at(offset: usize, reason: Reason, detail: &'static str) -> Refusal {
        Refusal { column: u32::try_from(offset + 1).unwrap_or(u32::MAX), reason, detail }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nul_is_found_wherever_it_stands() {
        for len in 0..40 {
            for byte in [0x01, 0x7f, 0x80, 0xff] {
                let mut text = vec![byte; len];
                assert_eq!(without_nul(&text, 0), Ok(&*text), "{len} times {byte:#x}");
                for at in 0..len {
                    text[at] = 0;
                    let refusal = without_nul(&text, 6).unwrap_err();
                    assert_eq!((refusal.reason, refusal.column), (Reason::Encoding, 7), "{at} of {len}");
                    text[at] = byte;
                }
            }
        }
    }

    #[test]
    fn texts_that_need_no_more_than_a_glance() {
        for len in 0..40 {
            let mut text = vec![b'a'; len];
            assert!(is_plain(&text));
            for at in 0..len {
                for (byte, plain) in [(0, false), (1, true), (0x7f, true), (0x80, false), (0xff, false)] {
                    text[at] = byte;
                    assert_eq!(is_plain(&text), plain, "{byte} at {at} of {len}");
                }
                text[at] = b'a';
            }
        }
    }
}
