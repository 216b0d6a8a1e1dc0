//! NDJSON: one event a line (`docs/ingest-protocol.md`, "Lines").
//!
//! [`parse`] goes over a line once and fills an [`Event`] with ranges of it: no document tree, nothing
//! allocated per event. Names of members that come in the order of the lines before are only compared (`outline`).

pub(super) mod number;
mod outline;
pub(super) mod scan;
pub mod time;

use self::number::Number;
use self::outline::Found;
use self::scan::{Scanner, Stop};
use super::delivery::Reason;
use super::event::{Event, Field, Limits, Refusal, SeverityText, SpanId, Text, Value};
use super::meaning::{Meaning, phase};
use super::registry::MAX_FIELD_NAME;
use jumpseat_wire::severity;
use pcp_model::Timestamp;

pub use self::outline::MemberId;
pub(crate) use self::outline::Outline;
pub use self::scan::MAX_DEPTH;

/// Joined names may take this many times the length a line may have: short members of an object with a
/// long name take twenty times their line otherwise.
const ARENA_PER_LINE: usize = 8;

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// An event.
    Event,
    /// Nothing but blanks.
    Blank,
    /// A control line: `{"jumpseat":{...}}`. It was not parsed further.
    Control,
}

/// What the members of a line's object mean, and how its times are written.
pub(crate) trait Dialect {
    /// Names mean the same at any time, in the object itself: what they mean is remembered with them.
    const IS_OUTLINED: bool = false;

    /// What a name means. `top` says whether it is one of the object itself; those of objects in it are joined by dots.
    fn meaning(&self, name: &[u8], top: bool) -> Meaning;

    /// A time, in a string or a number.
    ///
    /// # Errors
    /// What is wrong with it.
    fn time(&self, text: &[u8], is_number: bool) -> Result<Timestamp, &'static str>;

    /// The time that begins with the number at the start of `text`, and where it ends, if that is quickly found out.
    fn leading_time(&self, _text: &[u8]) -> Option<(Timestamp, usize)> {
        None
    }

    /// Whether a member by a name that means a time is refused if it is none, rather than a field.
    fn must_be_time(&self, name: &[u8]) -> bool;
}

/// Lines as the ingest socket takes them.
struct Protocol;

impl Dialect for Protocol {
    const IS_OUTLINED: bool = true;

    #[inline]
    fn leading_time(&self, text: &[u8]) -> Option<(Timestamp, usize)> {
        time::leading(text)
    }

    #[inline]
    fn meaning(&self, name: &[u8], top: bool) -> Meaning {
        if top { Meaning::of(name) } else { Meaning::Field }
    }

    #[inline]
    fn time(&self, text: &[u8], is_number: bool) -> Result<Timestamp, &'static str> {
        if is_number { time::from_decimal(text) } else { time::from_text(text) }
    }

    fn must_be_time(&self, _: &[u8]) -> bool {
        true
    }
}

/// Whether a line is known to be UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Utf8 {
    /// It is: whoever gives it has looked.
    Known,
    /// Nobody has looked.
    Unknown,
}

/// Whether all of the bytes are UTF-8, for [`Utf8`]: to look once at many lines is cheaper than at each.
pub fn is_utf8(lines: &[u8]) -> bool {
    utf8(lines).is_ok()
}

/// Parses a line (without its newline) into `event`, which is cleared first.
///
/// `cut` says that the line is the beginning of a longer one: it may end anywhere, and members up to
/// there are kept.
///
/// # Errors
/// A [`Refusal`] with the column of the defect. `event` then holds rubbish.
pub fn parse(line: &[u8], limits: &Limits, cut: bool, event: &mut Event) -> Result<Line, Refusal> {
    parse_as(&Protocol, line, limits, cut, event)
}

/// The same of a line of which more is known.
///
/// # Errors
/// As [`parse`].
#[inline]
pub fn parse_checked(
    (line, utf8): (&[u8], Utf8),
    limits: &Limits,
    cut: bool,
    event: &mut Event,
) -> Result<Line, Refusal> {
    match utf8 {
        Utf8::Known => {
            event.clear();
            parse_text(&Protocol, line, limits, cut, event)
        }
        Utf8::Unknown => parse(line, limits, cut, event),
    }
}

/// The same in a dialect.
pub(crate) fn parse_as<D: Dialect>(
    dialect: &D,
    line: &[u8],
    limits: &Limits,
    cut: bool,
    event: &mut Event,
) -> Result<Line, Refusal> {
    event.clear();
    // Once for the whole line: the scanner need not look at characters any more, and texts go into records
    // as they are.
    let line = match utf8(line) {
        Ok(()) => line,
        // The end of a cut line may be in the middle of a character.
        Err(error) if cut && error.error_len().is_none() => &line[..error.valid_up_to()],
        Err(error) => {
            return Err(Refusal::at(error.valid_up_to(), Reason::Encoding, "invalid UTF-8"));
        }
    };
    parse_text(dialect, line, limits, cut, event)
}

/// The same of a line that is UTF-8, into an event that is empty.
fn parse_text<D: Dialect>(
    dialect: &D,
    line: &[u8],
    limits: &Limits,
    cut: bool,
    event: &mut Event,
) -> Result<Line, Refusal> {
    let mut parser = Parser { scan: Scanner { line, at: 0 }, dialect, limits, cut, event };
    match parser.line() {
        Err(Stop::End(_)) if cut => {
            event.truncated = true;
            Ok(Line::Event)
        }
        other => other.map_err(Refusal::from),
    }
}

/// Whether all is UTF-8. The vector search only says that something is wrong, not where.
#[inline]
fn utf8(line: &[u8]) -> Result<(), std::str::Utf8Error> {
    match simdutf8::basic::from_utf8(line) {
        Ok(_) => Ok(()),
        Err(_) => std::str::from_utf8(line).map(drop),
    }
}

struct Parser<'a, D> {
    scan: Scanner<'a>,
    dialect: &'a D,
    limits: &'a Limits,
    cut: bool,
    event: &'a mut Event,
}

impl<D: Dialect> Parser<'_, D> {
    fn line(&mut self) -> Result<Line, Stop> {
        match self.scan.peek() {
            None => return Ok(Line::Blank),
            Some(b'{') => self.scan.at += 1,
            Some(_) => return Err(self.scan.refuse("expected an object: {")),
        }
        // Only as the first member, so that events pay one comparison for it.
        if self.scan.peek_control() {
            return Ok(Line::Control);
        }
        self.members(None, 1)?;
        match self.scan.peek() {
            None => Ok(Line::Event),
            Some(_) => Err(self.scan.refuse("expected the end of the line after the object")),
        }
    }

    /// The members of an object whose brace was consumed, and its closing brace.
    fn members(&mut self, prefix: Option<Text>, depth: usize) -> Result<(), Stop> {
        if self.scan.peek() == Some(b'}') {
            self.scan.at += 1;
            return Ok(());
        }
        if prefix.is_none() {
            self.event.outline.begin();
        }
        loop {
            match self.scan.peek() {
                Some(b'"') => {}
                _ => return Err(self.scan.refuse("expected a member name in quotes")),
            }
            let name = match self.expected(prefix) {
                Some(name) => name,
                None => self.name(prefix)?,
            };
            self.value(name, depth)?;
            match self.scan.peek() {
                Some(b',') => self.scan.at += 1,
                Some(b'}') => {
                    self.scan.at += 1;
                    return Ok(());
                }
                _ => return Err(self.scan.refuse("expected a comma or } after the value")),
            }
        }
    }

    /// The name of a member, at its quote, and the colon behind it, if it is the one that is expected.
    #[inline]
    fn expected(&mut self, prefix: Option<Text>) -> Option<Name> {
        if !D::IS_OUTLINED || prefix.is_some() {
            return None;
        }
        let at = self.scan.at;
        let Found { id, meaning, len } = self.event.outline.expected(self.scan.line, at)?;
        self.scan.at += len;
        // Without the quotes and the colon.
        Some(Name { text: Text::of_input(at + 1, at + len - 2), meaning, member: Some(id) })
    }

    /// The same of any name.
    fn name(&mut self, prefix: Option<Text>) -> Result<Name, Stop> {
        let at = self.scan.at;
        let key = self.scan.string(&mut self.event.arena)?.whole()?;
        self.scan.expect(b':', "expected a colon after the member name")?;
        let text = match prefix {
            None => key,
            Some(prefix) => {
                // Checked before the join, which adds at most two names.
                if self.event.arena.len() > ARENA_PER_LINE * self.limits.max_line {
                    let detail = "too many long names in nested objects";
                    return Err(Refusal::at(at, Reason::OversizeLine, detail).into());
                }
                self.join(prefix, key)
            }
        };
        if text.len() > MAX_FIELD_NAME {
            if !self.limits.truncate {
                let detail = "a member name longer than 128 bytes";
                return Err(Refusal::at(at, Reason::OversizeField, detail).into());
            }
            self.event.truncated = true;
        }
        let meaning = self.dialect.meaning(self.event.text(self.scan.line, text), prefix.is_none());
        let member = if D::IS_OUTLINED && prefix.is_none() { self.remember(at, key, meaning) } else { None };
        Ok(Name { text, meaning, member })
    }

    /// Has a name that began at `at` be expected the next time, if it is written plainly.
    fn remember(&mut self, at: usize, key: Text, meaning: Meaning) -> Option<MemberId> {
        key.input_range().filter(|range| range.end + 2 == self.scan.at)?;
        self.event.outline.came(self.scan.line.get(at..self.scan.at)?, meaning)
    }

    /// `prefix.key`, in the arena.
    fn join(&mut self, prefix: Text, key: Text) -> Text {
        let arena_start = self.event.arena.len();
        for part in [prefix, key] {
            if self.event.arena.len() > arena_start {
                self.event.arena.push(b'.');
            }
            // Bounded: names beyond the limit are refused, and cut names need no more than this.
            // One more byte than a name may have, so that it is still seen to be too long.
            let part = part.shortened(part.len().min(MAX_FIELD_NAME + 1));
            match part.input_range() {
                Some(range) => self.event.arena.extend_from_slice(&self.scan.line[range]),
                None => {
                    let range = part.arena_range();
                    self.event.arena.extend_from_within(range);
                }
            }
        }
        Text::of_arena(arena_start, self.event.arena.len())
    }

    #[inline]
    fn value(&mut self, name: Name, depth: usize) -> Result<(), Stop> {
        match self.scan.peek() {
            Some(b'"') => {
                let at = self.scan.at;
                match self.scan.plain_string() {
                    Some(text) => self.text(name, text, false, at),
                    None => self.other_string(name),
                }
            }
            Some(b'{') => {
                self.scan.enter(depth)?;
                self.members(Some(name.text), depth + 1)
            }
            Some(b'[') => {
                let start = self.scan.at;
                // Lists have no metric to be: they are checked and kept as the text they are.
                self.scan.skip_value(depth)?;
                let text = self.limited(Text::of_input(start, self.scan.at), start)?;
                self.free(name, Value::Text(text));
                Ok(())
            }
            Some(b't') => self.scan.literal("true").and_then(|text| self.bool(name, text, true)),
            Some(b'f') => self.scan.literal("false").and_then(|text| self.bool(name, text, false)),
            Some(b'n') => self.scan.literal("null").map(|_| ()),
            Some(b'-' | b'0'..=b'9') => self.number(name),
            _ => Err(self.scan.refuse("expected a value")),
        }
    }

    /// A string with escapes, or one that does not end.
    #[cold]
    fn other_string(&mut self, name: Name) -> Result<(), Stop> {
        let at = self.scan.at;
        let string = self.scan.string_with_escapes(&mut self.event.arena)?;
        if string.ends_early {
            if !self.cut {
                return Err(Stop::End(self.scan.at));
            }
            self.event.truncated = true;
        }
        self.other_text(name, string.text, string.ends_early, at)
    }

    /// A value that is taken as the text it is.
    #[cold]
    fn other_text(&mut self, name: Name, text: Text, partial: bool, at: usize) -> Result<(), Stop> {
        self.text(name, text, partial, at)
    }

    #[inline(always)] // into its one hot caller
    fn text(&mut self, name: Name, text: Text, partial: bool, at: usize) -> Result<(), Stop> {
        let meaning = self.meaning(name);
        if partial && !matches!(meaning, Meaning::Field | Meaning::Message) {
            // Half a time or half an identifier is worth nothing.
            return Err(Stop::End(self.scan.at));
        }
        match meaning {
            Meaning::Time => {
                let bytes = self.event.text(self.scan.line, text);
                let is_number = !time::is_rfc3339(bytes);
                match self.dialect.time(bytes, false) {
                    Ok(time) => {
                        self.event.time = Some(time);
                        // Kept, as it means another time if the sender's clock is not the real one.
                        self.event.time_number = is_number.then_some(text);
                    }
                    Err(detail) => {
                        self.must_be_time(name, detail, at)?;
                        let text = self.limited(text, at)?;
                        self.free(name, Value::Text(text));
                    }
                }
                return Ok(());
            }
            Meaning::Phase => match phase(self.event.text(self.scan.line, text)) {
                Some(flag) => {
                    self.event.phase = flag;
                    return Ok(());
                }
                None => {
                    let text = self.limited(text, at)?;
                    self.free(name, Value::Text(text));
                    return Ok(());
                }
            },
            Meaning::Severity => {
                let word = severity::from_word(self.event.text(self.scan.line, text));
                if let Some(word) = word {
                    self.event.severity = Some(SeverityText::Word(word));
                    return Ok(());
                }
            }
            _ => {}
        }
        let text = self.limited(text, at)?;
        match meaning {
            Meaning::Type => self.event.event_type = Some(text),
            Meaning::Message => self.event.message = Some(text),
            Meaning::Severity => self.event.severity = Some(SeverityText::Text(text)),
            Meaning::Id => self.event.id = Some(SpanId::Text(text)),
            Meaning::Parent => self.event.parent = Some(SpanId::Text(text)),
            Meaning::Source => self.event.source = Some(text),
            Meaning::Field | Meaning::Time | Meaning::Phase => self.free(name, Value::Text(text)),
        }
        Ok(())
    }

    #[inline]
    fn number(&mut self, name: Name) -> Result<(), Stop> {
        let start = self.scan.at;
        if name.meaning == Meaning::Time && self.plain_time() {
            return Ok(());
        }
        let number = self.scan.number()?;
        if self.cut && self.scan.at == self.scan.line.len() {
            // More digits may have been cut off.
            return Err(Stop::End(self.scan.at));
        }
        let text = Text::of_input(start, self.scan.at);
        let meaning = self.meaning(name);
        match (meaning, number) {
            (Meaning::Time, number) => match self.dialect.time(&self.scan.line[start..self.scan.at], true) {
                Ok(time) => {
                    self.event.time = Some(time);
                    self.event.time_number = Some(text);
                }
                Err(detail) => {
                    self.must_be_time(name, detail, start)?;
                    self.free_number(name, number, text, start)?;
                }
            },
            (Meaning::Severity, Number::I64(n)) if severity::from_number(n).is_some() => {
                self.event.severity = severity::from_number(n).map(SeverityText::Word);
            }
            // Before the types of fields: an id stays 64 bits wide or a text, and is never rounded.
            (Meaning::Id, n) => self.event.id = Some(span_id(n, text)),
            (Meaning::Parent, n) => self.event.parent = Some(span_id(n, text)),
            (Meaning::Phase | Meaning::Field, n) => self.free_number(name, n, text, start)?,
            (_, _) => return self.other_text(name, text, false, start),
        }
        Ok(())
    }

    /// The time that is the number here, if it is a plain one, and the first in its line. False: nothing was consumed.
    #[inline]
    fn plain_time(&mut self) -> bool {
        let start = self.scan.at;
        let rest = self.scan.line.get(start..).unwrap_or_default();
        let Some((time, len)) = self.dialect.leading_time(rest) else { return false };
        // What is behind it shows that it is all of the number.
        if self.event.time.is_some() || !matches!(rest.get(len), Some(b',' | b'}' | b' ')) {
            return false;
        }
        self.scan.at += len;
        self.event.time = Some(time);
        self.event.time_number = Some(Text::of_input(start, self.scan.at));
        true
    }

    #[inline]
    fn free_number(&mut self, name: Name, number: Number, text: Text, at: usize) -> Result<(), Stop> {
        let value = match number {
            Number::I64(n) => Value::I64(n),
            Number::U64(n) => Value::U64(n),
            Number::Double(n) => Value::Double(n),
            // A number that fits no type is kept whole, as text.
            Number::Text => Value::Text(self.limited(text, at)?),
        };
        self.free(name, value);
        Ok(())
    }

    /// Refuses what is no time, unless the name may be of something else.
    #[cold]
    fn must_be_time(&self, name: Name, detail: &'static str, at: usize) -> Result<(), Refusal> {
        if self.dialect.must_be_time(self.event.text(self.scan.line, name.text)) {
            return Err(Refusal::at(at, Reason::Time, detail));
        }
        Ok(())
    }

    fn bool(&mut self, name: Name, text: Text, value: bool) -> Result<(), Stop> {
        match self.meaning(name) {
            Meaning::Field | Meaning::Phase => self.free(name, Value::Bool(value)),
            Meaning::Time => {
                self.must_be_time(name, "a time is a number or a string", self.scan.at)?;
                self.free(name, Value::Bool(value));
            }
            _ => return self.other_text(name, text, false, self.scan.at),
        }
        Ok(())
    }

    #[inline]
    fn free(&mut self, name: Name, value: Value) {
        self.event.fields.push(Field { name: name.text, value, member: name.member });
    }

    /// A text within the limit, cut if so configured.
    #[inline]
    fn limited(&mut self, text: Text, at: usize) -> Result<Text, Refusal> {
        self.event.limited(self.scan.line, self.limits, text, at)
    }

    #[inline]
    fn meaning(&self, name: Name) -> Meaning {
        name.meaning.unless_taken(self.event)
    }
}

/// The name of a member.
#[derive(Clone, Copy)]
struct Name {
    /// With those of the objects around it.
    text: Text,
    meaning: Meaning,
    /// Its place in the outline.
    member: Option<MemberId>,
}

fn span_id(number: Number, text: Text) -> SpanId {
    match number {
        Number::I64(n) if n >= 0 => SpanId::U64(n as u64),
        Number::U64(n) => SpanId::U64(n),
        _ => SpanId::Text(text),
    }
}
