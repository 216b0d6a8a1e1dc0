//! The two logs of Apache's web server: requests ([`access`](super::access)) and errors, of 2.4 and 2.2.
//!
//! ```text
//! [Sun Nov 22 22:30:01.123456 2026] [core:error] [pid 7:tid 140] [client 10.0.0.1:4711] AH00128: File does not exist
//! [Sun Nov 22 22:30:01 2026] [error] [client 10.0.0.1] File does not exist
//! ```

use super::access;
use super::assign::Assign;
use super::words::{field, in_arena, message, text_field, whole_number};
use crate::delivery::Reason;
use crate::event::{Event, Refusal, SeverityText, Text, Value};
use jumpseat_wire::severity;
use memchr::memchr;

const DETAIL: &str = "not a line of Apache: neither [Sun Nov 22 22:30:01 2026] [core:error] text nor a request in the common \
                      or combined format";

/// Parses a line of either log.
///
/// # Errors
/// It is of neither.
pub(super) fn parse(assign: &Assign<'_>, event: &mut Event) -> Result<(), Refusal> {
    if assign.line.first() == Some(&b'[') {
        return error(assign, event);
    }
    match access::bracket(assign.line) {
        Some(bracket) => access::parse(assign, event, bracket),
        None => Err(Refusal::at(0, Reason::Unmatched, DETAIL)),
    }
}

/// An error: fields `module`, `pid`, `tid`, `client`, and `code`, such as `AH00128`.
fn error(assign: &Assign<'_>, event: &mut Event) -> Result<(), Refusal> {
    let line = assign.line;
    let wrong = |at: usize| Refusal::at(at, Reason::Unmatched, DETAIL);
    let (time, length) = assign.when.leading(&line[1..], assign.now).ok_or_else(|| wrong(1))?;
    event.time = Some(time);
    let kind = in_arena(event, "error");
    event.event_type = Some(kind);
    let (from, to) = bracketed(line, 1 + length + 1).ok_or_else(|| wrong(1 + length))?;
    let colon = memchr(b':', &line[from..to]).map(|colon| from + colon);
    if let Some(colon) = colon.filter(|colon| *colon > from) {
        text_field(assign, event, "module", (from, colon))?;
    }
    let level = (colon.map_or(from, |colon| colon + 1), to);
    event.severity = Some(match severity::from_word(&line[level.0..level.1]) {
        Some(word) => SeverityText::Word(word),
        // Its levels below debugging: trace1 to trace8.
        None if line[level.0..level.1].starts_with(b"trace") => SeverityText::Word("trace"),
        None => SeverityText::Text(Text::of_input(level.0, level.1)),
    });
    let mut at = to + 1;
    // Processes and the client: what follows may be anything.
    for _ in 0..2 {
        match bracketed(line, at) {
            Some((from, to)) if who(assign, event, (from, to))? => at = to + 1,
            _ => break,
        }
    }
    let at = (at + usize::from(line.get(at) == Some(&b' '))).min(line.len());
    if let Some(colon) = code(&line[at..]) {
        text_field(assign, event, "code", (at, at + colon))?;
    }
    message(assign, event, at)
}

/// What is between the brackets behind the blank at `at`.
fn bracketed(line: &[u8], at: usize) -> Option<(usize, usize)> {
    let rest = line.get(at..)?.strip_prefix(b" [")?;
    Some((at + 2, at + 2 + memchr(b']', rest)?))
}

/// `pid 7:tid 140` or `client 10.0.0.1:4711`. Gives whether it is one of them.
fn who(assign: &Assign<'_>, event: &mut Event, (from, to): (usize, usize)) -> Result<bool, Refusal> {
    let inside = &assign.line[from..to];
    if let Some(client) = inside.strip_prefix(b"client ") {
        text_field(assign, event, "client", (to - client.len(), to))?;
        return Ok(true);
    }
    if !inside.starts_with(b"pid ") {
        return Ok(false);
    }
    let mut at = from;
    for part in inside.split(|byte| *byte == b':') {
        let (name, digits) = part.split_at(part.len().min(4));
        let name = match name {
            b"pid " => "pid",
            b"tid " => "tid",
            _ => break,
        };
        let end = at + part.len();
        if let Some(number) = whole_number(assign.line, (end - digits.len(), end)) {
            field(event, name, Value::I64(number));
        }
        at = end + 1;
    }
    Ok(true)
}

/// The length of `AH00128`, with a colon behind it.
fn code(text: &[u8]) -> Option<usize> {
    let digits = text.strip_prefix(b"AH")?.iter().take(8).take_while(|byte| byte.is_ascii_digit()).count();
    (digits > 0 && text.get(2 + digits) == Some(&b':')).then_some(2 + digits)
}
