//! NDJSON: one event a line (`docs/ingest-protocol.md`, "Lines").
//!
//! [`parse`] goes over a line once and fills an [`Event`] with ranges of it: no document tree, nothing
//! allocated per event. Cost for a line of 100 bytes with six members: about a quarter microsecond, most
//! of it finding the ends of strings.

pub(super) mod number;
pub(super) mod scan;
pub mod time;

use self::number::Number;
use self::scan::{Scanner, Stop};
use super::delivery::Reason;
use super::event::{Event, Field, Limits, Refusal, SeverityText, SpanId, Text, Value};
use super::meaning::{Meaning, phase};
use super::registry::MAX_FIELD_NAME;
use jumpseat_wire::severity;

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

/// Parses a line (without its newline) into `event`, which is cleared first.
///
/// `cut` says that the line is the beginning of a longer one: it may end anywhere, and members up to
/// there are kept.
///
/// # Errors
/// A [`Refusal`] with the column of the defect. `event` then holds rubbish.
pub fn parse(line: &[u8], limits: &Limits, cut: bool, event: &mut Event) -> Result<Line, Refusal> {
    event.clear();
    // Once for the whole line: the scanner need not look at characters any more, and texts go into records
    // as they are.
    let line = match std::str::from_utf8(line) {
        Ok(_) => line,
        // The end of a cut line may be in the middle of a character.
        Err(error) if cut && error.error_len().is_none() => &line[..error.valid_up_to()],
        Err(error) => {
            return Err(Refusal::at(error.valid_up_to(), Reason::Encoding, "invalid UTF-8"));
        }
    };
    let mut parser = Parser { scan: Scanner { line, at: 0 }, limits, cut, event };
    match parser.line() {
        Err(Stop::End(_)) if cut => {
            event.truncated = true;
            Ok(Line::Event)
        }
        other => other.map_err(Refusal::from),
    }
}

struct Parser<'a> {
    scan: Scanner<'a>,
    limits: &'a Limits,
    cut: bool,
    event: &'a mut Event,
}

impl Parser<'_> {
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
        loop {
            match self.scan.peek() {
                Some(b'"') => {}
                _ => return Err(self.scan.refuse("expected a member name in quotes")),
            }
            let name_at = self.scan.at;
            let key = self.scan.string(&mut self.event.arena)?.whole()?;
            self.scan.expect(b':', "expected a colon after the member name")?;
            let name = match prefix {
                None => key,
                Some(prefix) => {
                    // Checked before the join, which adds at most two names.
                    if self.event.arena.len() > ARENA_PER_LINE * self.limits.max_line {
                        let detail = "too many long names in nested objects";
                        return Err(Refusal::at(name_at, Reason::OversizeLine, detail).into());
                    }
                    self.join(prefix, key)
                }
            };
            if name.len() > MAX_FIELD_NAME {
                if !self.limits.truncate {
                    let detail = "a member name longer than 128 bytes";
                    return Err(Refusal::at(name_at, Reason::OversizeField, detail).into());
                }
                self.event.truncated = true;
            }
            self.value(name, prefix.is_none(), depth)?;
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

    fn value(&mut self, name: Text, top: bool, depth: usize) -> Result<(), Stop> {
        match self.scan.peek() {
            Some(b'"') => {
                let at = self.scan.at;
                let string = self.scan.string(&mut self.event.arena)?;
                if string.ends_early {
                    if !self.cut {
                        return Err(Stop::End(self.scan.at));
                    }
                    self.event.truncated = true;
                }
                self.text(name, top, string.text, string.ends_early, at)
            }
            Some(b'{') => {
                self.scan.enter(depth)?;
                self.members(Some(name), depth + 1)
            }
            Some(b'[') => {
                let start = self.scan.at;
                // Lists have no metric to be: they are checked and kept as the text they are.
                self.scan.skip_value(depth)?;
                let text = self.limited(Text::of_input(start, self.scan.at), start)?;
                self.free(name, Value::Text(text));
                Ok(())
            }
            Some(b't') => self.scan.literal("true").and_then(|text| self.bool(name, top, text, true)),
            Some(b'f') => self.scan.literal("false").and_then(|text| self.bool(name, top, text, false)),
            Some(b'n') => self.scan.literal("null").map(|_| ()),
            Some(b'-' | b'0'..=b'9') => self.number(name, top),
            _ => Err(self.scan.refuse("expected a value")),
        }
    }

    fn text(&mut self, name: Text, top: bool, text: Text, partial: bool, at: usize) -> Result<(), Stop> {
        let meaning = self.meaning(name, top);
        if partial && !matches!(meaning, Meaning::Field | Meaning::Message) {
            // Half a time or half an identifier is worth nothing.
            return Err(Stop::End(self.scan.at));
        }
        match meaning {
            Meaning::Time => {
                let bytes = self.event.text(self.scan.line, text);
                let is_number = !time::is_rfc3339(bytes);
                self.event.time = match time::from_text(bytes) {
                    Ok(time) => Some(time),
                    Err(detail) => return Err(Refusal::at(at, Reason::Time, detail).into()),
                };
                // Kept, as it means another time if the sender's clock is not the real one.
                self.event.time_number = is_number.then_some(text);
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

    fn number(&mut self, name: Text, top: bool) -> Result<(), Stop> {
        let start = self.scan.at;
        let number = self.scan.number()?;
        if self.cut && self.scan.at == self.scan.line.len() {
            // More digits may have been cut off.
            return Err(Stop::End(self.scan.at));
        }
        let text = Text::of_input(start, self.scan.at);
        let meaning = self.meaning(name, top);
        match (meaning, number) {
            (Meaning::Time, _) => match time::from_decimal(&self.scan.line[start..self.scan.at]) {
                Ok(time) => {
                    self.event.time = Some(time);
                    self.event.time_number = Some(text);
                }
                Err(detail) => return Err(Refusal::at(start, Reason::Time, detail).into()),
            },
            (Meaning::Severity, Number::I64(n)) if severity::from_number(n).is_some() => {
                self.event.severity = severity::from_number(n).map(SeverityText::Word);
            }
            // Before the types of fields: an id stays 64 bits wide or a text, and is never rounded.
            (Meaning::Id, n) => self.event.id = Some(span_id(n, text)),
            (Meaning::Parent, n) => self.event.parent = Some(span_id(n, text)),
            (Meaning::Phase | Meaning::Field, Number::I64(n)) => self.free(name, Value::I64(n)),
            (Meaning::Phase | Meaning::Field, Number::U64(n)) => self.free(name, Value::U64(n)),
            (Meaning::Phase | Meaning::Field, Number::Double(n)) => self.free(name, Value::Double(n)),
            // A number that fits no type is kept whole, as text.
            (Meaning::Phase | Meaning::Field, Number::Text) => {
                let text = self.limited(text, start)?;
                self.free(name, Value::Text(text));
            }
            (_, _) => return self.text(name, top, text, false, start),
        }
        Ok(())
    }

    fn bool(&mut self, name: Text, top: bool, text: Text, value: bool) -> Result<(), Stop> {
        match self.meaning(name, top) {
            Meaning::Field | Meaning::Phase => self.free(name, Value::Bool(value)),
            Meaning::Time => {
                return Err(Refusal::at(self.scan.at, Reason::Time, "a time is a number or a string").into());
            }
            _ => return self.text(name, top, text, false, self.scan.at),
        }
        Ok(())
    }

    fn free(&mut self, name: Text, value: Value) {
        self.event.fields.push(Field { name, value });
    }

    /// A text within the limit, cut if so configured.
    #[inline]
    fn limited(&mut self, text: Text, at: usize) -> Result<Text, Refusal> {
        self.event.limited(self.scan.line, self.limits, text, at)
    }

    /// What a top-level member means.
    #[inline]
    fn meaning(&self, name: Text, top: bool) -> Meaning {
        if !top {
            return Meaning::Field;
        }
        Meaning::of(self.event.text(self.scan.line, name)).unless_taken(self.event)
    }
}

fn span_id(number: Number, text: Text) -> SpanId {
    match number {
        Number::I64(n) if n >= 0 => SpanId::U64(n as u64),
        Number::U64(n) => SpanId::U64(n),
        _ => SpanId::Text(text),
    }
}
