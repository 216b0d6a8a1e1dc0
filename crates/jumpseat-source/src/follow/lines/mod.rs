//! Formats of lines: each fills an [`Event`] with ranges of the line.
//!
//! **Cost:** nothing is allocated for a line once the event's vectors have grown. JSON and logfmt are one pass over the
//! line; `plain` is one search of the regular expression, in time linear in the line.

mod assign;
mod join;
mod journal;
mod logfmt;
mod pattern;
mod split;
mod stack;
mod syslog;
mod when;

use memchr::memchr;

use super::config::FormatName;
use crate::delivery::Reason;
use crate::event::{Event, Limits, Refusal, Text};
use crate::ndjson;
use pcp_model::Timestamp;

pub use join::Join;
pub use journal::Journal;
pub use pattern::Pattern;
pub use split::{Piece, Splitter};
pub use when::When;

use assign::Assign;

/// A format with all that it needs.
#[derive(Debug)]
pub enum Parser {
    /// The whole line is the message.
    Text,
    /// JSON objects.
    Json,
    /// Key and value pairs.
    Logfmt(When),
    /// What syslog daemons send and write.
    Syslog(When),
    /// A regular expression with named groups.
    Plain(Box<Pattern>, When),
    /// The output of `journalctl -o json`.
    Journal(Journal),
}

impl Parser {
    /// The parser of a format, from what [`super::FileConfig::validate`] has checked.
    ///
    /// # Errors
    /// What is wrong with the pattern or the time's format.
    pub fn new(
        format: FormatName,
        pattern: Option<&str>,
        time_format: Option<&str>,
    ) -> Result<Parser, String> {
        let when = When::new(time_format)?;
        Ok(match format {
            FormatName::Text => Parser::Text,
            FormatName::Json => Parser::Json,
            FormatName::Logfmt => Parser::Logfmt(when),
            FormatName::Syslog => Parser::Syslog(when),
            FormatName::Plain => Parser::Plain(Box::new(Pattern::new(pattern.unwrap_or_default())?), when),
        })
    }

    /// Parses a line (without its newline) into `event`, which is cleared first. `cut` says that the line is the
    /// beginning of a longer one; `now` is when it was read, for times without a year. Gives whether there was an event;
    /// there is none in a blank line.
    ///
    /// # Errors
    /// A [`Refusal`] with the column of the defect.
    pub fn parse(
        &mut self,
        line: &[u8],
        limits: &Limits,
        cut: bool,
        now: Timestamp,
        event: &mut Event,
    ) -> Result<bool, Refusal> {
        event.clear();
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(false);
        }
        match self {
            Parser::Text => {
                event.message = Some(event.limited(line, limits, Text::of_input(0, line.len()), 0)?);
            }
            Parser::Json => return json(line, limits, cut, event),
            Parser::Logfmt(when) => logfmt::parse(&Assign { line, limits, when, now, cut }, event)?,
            Parser::Syslog(when) => syslog::parse(&Assign { line, limits, when, now, cut }, event)?,
            Parser::Plain(pattern, when) => pattern.parse(&Assign { line, limits, when, now, cut }, event)?,
            Parser::Journal(journal) => journal.parse(line, limits, cut, event)?,
        }
        event.truncated |= cut;
        Ok(true)
    }

    /// Parses a record of several lines: the first as [`Parser::parse`] does, the others belong to its message.
    ///
    /// # Errors
    /// A [`Refusal`] with the column of the defect in the first line.
    pub fn parse_record(
        &mut self,
        record: &[u8],
        limits: &Limits,
        now: Timestamp,
        event: &mut Event,
    ) -> Result<bool, Refusal> {
        let end = memchr(b'\n', record).unwrap_or(record.len());
        let (first, rest) = record.split_at(end);
        let first = first.strip_suffix(b"\r").unwrap_or(first);
        if !self.repairs() && (std::str::from_utf8(rest).is_err() || memchr(0, rest).is_some()) {
            return Err(Refusal::at(end, Reason::Encoding, "invalid UTF-8, or a NUL, behind the first line"));
        }
        let is_event = self.parse(first, limits, false, now, event)?;
        if is_event && !rest.is_empty() {
            add_lines(record, first.len(), rest, event);
        }
        Ok(is_event)
    }

    /// Whether lines have to be valid UTF-8 without NUL: JSON is refused otherwise, everything else repaired before.
    pub fn repairs(&self) -> bool {
        !matches!(self, Parser::Json | Parser::Journal(_))
    }
}

/// Adds the lines behind the first one, each with its newline in front, to the message.
fn add_lines(record: &[u8], first: usize, rest: &[u8], event: &mut Event) {
    let message = event.message.unwrap_or(Text::of_input(first, first));
    let has_returns = memchr(b'\r', rest).is_some() || record.get(first) == Some(&b'\r');
    if let Some(range) = message.input_range()
        && range.end == first
        && !has_returns
    {
        // The message goes on where it ends: nothing is copied.
        let start = if range.is_empty() { first + 1 } else { range.start };
        event.message = Some(Text::of_input(start, record.len()));
        return;
    }
    let begin = event.arena.len();
    match message.input_range() {
        Some(range) => event.arena.extend_from_slice(record.get(range).unwrap_or_default()),
        None => event.arena.extend_from_within(message.arena_range()),
    }
    for line in rest.split(|byte| *byte == b'\n').skip(1) {
        if event.arena.len() > begin {
            event.arena.push(b'\n');
        }
        event.arena.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
    }
    event.message = Some(Text::of_arena(begin, event.arena.len()));
}

fn json(line: &[u8], limits: &Limits, cut: bool, event: &mut Event) -> Result<bool, Refusal> {
    match ndjson::parse(line, limits, cut, event)? {
        ndjson::Line::Event => Ok(true),
        ndjson::Line::Blank => Ok(false),
        ndjson::Line::Control => {
            let detail = "a control line, which is for the ingest socket only";
            Err(Refusal::at(0, Reason::Control, detail))
        }
    }
}

/// Makes a line what texts of PCP can hold: UTF-8 without NUL. What is neither becomes U+FFFD. Gives the line and whether
/// it had to be changed.
pub fn repair<'a>(line: &'a [u8], scratch: &'a mut Vec<u8>) -> (&'a [u8], bool) {
    if memchr(0, line).is_none() && std::str::from_utf8(line).is_ok() {
        return (line, false);
    }
    scratch.clear();
    for chunk in line.utf8_chunks() {
        for (n, text) in chunk.valid().split('\0').enumerate() {
            if n > 0 {
                scratch.extend_from_slice("\u{fffd}".as_bytes());
            }
            scratch.extend_from_slice(text.as_bytes());
        }
        if !chunk.invalid().is_empty() {
            scratch.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    (scratch, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repaired_lines_are_texts() {
        for (line, expected, changed) in [
            (&b"plain"[..], "plain", false),
            (b"", "", false),
            (b"a\0\0b", "a\u{fffd}\u{fffd}b", true),
            (b"caf\xe9 x", "caf\u{fffd} x", true),
            (b"\xf0\x9f\x98", "\u{fffd}", true),
            (b"\0", "\u{fffd}", true),
        ] {
            let mut scratch = Vec::new();
            assert_eq!(repair(line, &mut scratch), (expected.as_bytes(), changed), "{line:?}");
        }
    }
}
