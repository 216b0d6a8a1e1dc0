//! Formats of lines: each fills an [`Event`] with ranges of the line.
//!
//! * `split` cuts bytes into lines, and with `join` and `stack` into records of several lines.
//! * `json`, `logfmt`, `syslog`, `pattern`, `journal`, `nginx` and `apache` (with `access`), `klog`: a format each.
//! * `walk`: an expression that takes one way along the line, by `scan` (runs of a set of bytes).
//! * `head`: what a line of any form begins with, by `stamp` (times) and `level` (severities).
//! * `assign` puts what has a name where it belongs, by `names` and `when`; `words` does so for what has a place.
//!
//! **Cost:** nothing is allocated for a line once the event's vectors have grown. JSON and logfmt are one pass over the
//! line; `plain` is one walk along it, or one search of the regular expression, in time linear in the line.

mod access;
mod apache;
mod assign;
mod head;
mod join;
mod journal;
mod json;
mod klog;
mod level;
mod logfmt;
mod names;
mod nginx;
mod pattern;
mod scan;
mod split;
mod stack;
mod stamp;
mod syslog;
mod walk;
mod when;
mod words;

use memchr::memchr;

use super::config::FormatName;
use crate::delivery::Reason;
use crate::event::{Event, Limits, Refusal, SeverityText, Text};
use pcp_model::Timestamp;

pub use join::Join;
pub use journal::Journal;
pub use names::FieldNames;
pub use pattern::Pattern;
pub use split::{Piece, Splitter};
pub use when::When;

use assign::Assign;
use head::Head;
use json::Logged;
use names::Names;

/// A format with all that it needs.
#[derive(Debug)]
pub enum Parser {
    /// The whole line is the message; a time and a severity at its beginning are taken.
    Text(Rules),
    /// JSON objects.
    Json(Rules),
    /// Key and value pairs.
    Logfmt(Rules),
    /// What syslog daemons send and write.
    Syslog(Rules),
    /// A regular expression with named groups.
    Plain(Box<Pattern>, Rules),
    /// nginx's logs of requests and errors.
    Nginx(Rules),
    /// Apache's logs of requests and errors.
    Apache(Rules),
    /// What klog and glog write.
    Klog(Rules),
    /// The output of `journalctl -o json`.
    Journal(Journal),
}

/// How lines are read, as a table says it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading<'a> {
    /// The format.
    pub format: FormatName,
    /// The expression of format `plain`.
    pub pattern: Option<&'a str>,
    /// How times are written.
    pub time_format: Option<&'a str>,
    /// The zone of those that have none; without it the machine's.
    pub time_zone: Option<&'a str>,
    /// What parts of events are called.
    pub fields: Option<&'a FieldNames>,
}

/// What names and times mean in the lines of a table.
#[derive(Clone, Debug)]
pub struct Rules {
    names: Names,
    when: When,
}

impl Rules {
    fn new(reading: &Reading<'_>) -> Result<Rules, String> {
        let when = When::new(reading.time_format)?;
        Ok(Rules {
            names: reading.fields.map(Names::new).unwrap_or_default(),
            when: match reading.time_zone {
                Some(zone) => when.in_zone(zone)?,
                None => when,
            },
        })
    }

    fn assign<'a>(&'a self, line: &'a [u8], limits: &'a Limits, (cut, now): (bool, Timestamp)) -> Assign<'a> {
        Assign { line, limits, names: &self.names, when: &self.when, now, cut }
    }
}

impl Parser {
    /// The parser of a format, from what [`super::FileConfig::validate`] has checked.
    ///
    /// # Errors
    /// What is wrong with the pattern, the time's format or its zone.
    pub fn new(reading: &Reading<'_>) -> Result<Parser, String> {
        let rules = Rules::new(reading)?;
        Ok(match reading.format {
            FormatName::Text => Parser::Text(rules),
            FormatName::Json => Parser::Json(rules),
            FormatName::Logfmt => Parser::Logfmt(rules),
            FormatName::Syslog => Parser::Syslog(rules),
            FormatName::Nginx => Parser::Nginx(rules),
            FormatName::Apache => Parser::Apache(rules),
            FormatName::Klog => Parser::Klog(rules),
            FormatName::Plain => {
                let pattern = Pattern::with_names(reading.pattern.unwrap_or_default(), &rules.names)?;
                Parser::Plain(Box::new(pattern), rules)
            }
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
        let read = (cut, now);
        match self {
            Parser::Text(rules) => text(&rules.assign(line, limits, read), event)?,
            Parser::Json(Rules { names, when }) => {
                return json::parse(line, limits, cut, &Logged { names, when, now }, event);
            }
            Parser::Logfmt(rules) => logfmt::parse(&rules.assign(line, limits, read), event)?,
            Parser::Syslog(rules) => syslog::parse(&rules.assign(line, limits, read), event)?,
            Parser::Plain(pattern, rules) => pattern.parse(&rules.assign(line, limits, read), event)?,
            Parser::Nginx(rules) => nginx::parse(&rules.assign(line, limits, read), event)?,
            Parser::Apache(rules) => apache::parse(&rules.assign(line, limits, read), event)?,
            Parser::Klog(rules) => klog::parse(&rules.assign(line, limits, read), event)?,
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
        !matches!(self, Parser::Json(_) | Parser::Journal(_))
    }
}

/// A line of any form: all of it is the message.
fn text(assign: &Assign<'_>, event: &mut Event) -> Result<(), Refusal> {
    let line = assign.line;
    event.message = Some(event.limited(line, assign.limits, Text::of_input(0, line.len()), 0)?);
    let Head { time, severity } = head::read(line, assign.when, assign.now);
    event.time = time;
    event.severity = severity.map(SeverityText::Word);
    Ok(())
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

/// Whether bytes are what texts of PCP can hold: UTF-8 without NUL.
pub fn is_text(bytes: &[u8]) -> bool {
    memchr(0, bytes).is_none() && simdutf8::basic::from_utf8(bytes).is_ok()
}

/// Makes a line what texts of PCP can hold: UTF-8 without NUL. What is neither becomes U+FFFD. Gives the line and whether
/// it had to be changed.
pub fn repair<'a>(line: &'a [u8], scratch: &'a mut Vec<u8>) -> (&'a [u8], bool) {
    if is_text(line) {
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
