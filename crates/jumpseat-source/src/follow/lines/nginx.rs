//! The two logs of nginx: requests ([`access`](super::access)) and errors.
//!
//! ```text
//! 2026/11/22 22:30:01 [error] 31#7: *9 open() failed, client: 10.0.0.1, server: _, request: "GET / HTTP/1.1", host: "a"
//! ```

use super::access;
use super::assign::Assign;
use super::words::{closing_quote, field, in_arena, text_field, whole_number};
use crate::delivery::Reason;
use crate::event::{Event, Refusal, SeverityText, Text, Value};
use jumpseat_wire::severity;
use memchr::memmem;

const DETAIL: &str = "not a line of nginx: neither 2026/11/22 22:30:01 [error] 31#7: text nor a request in the combined format";

/// Parses a line of either log.
///
/// # Errors
/// It is of neither.
pub(super) fn parse(assign: &Assign<'_>, event: &mut Event) -> Result<(), Refusal> {
    if assign.line.get(4) == Some(&b'/') {
        return error(assign, event);
    }
    match access::bracket(assign.line) {
        Some(bracket) => access::parse(assign, event, bracket),
        None => Err(Refusal::at(0, Reason::Unmatched, DETAIL)),
    }
}

/// An error: fields `pid`, `tid`, `connection`, `client`, `server`, `request`, `upstream`, `host`, `referrer` and the like.
fn error(assign: &Assign<'_>, event: &mut Event) -> Result<(), Refusal> {
    let line = assign.line;
    let wrong = |at: usize| Refusal::at(at, Reason::Unmatched, DETAIL);
    let (time, length) = assign.when.leading(line, assign.now).ok_or_else(|| wrong(0))?;
    event.time = Some(time);
    let kind = in_arena(event, "error");
    event.event_type = Some(kind);
    let rest = line.get(length..).and_then(|rest| rest.strip_prefix(b" [")).ok_or_else(|| wrong(length))?;
    let at = length + 2;
    let close = rest.iter().take(16).position(|byte| *byte == b']').ok_or_else(|| wrong(at))? + at;
    event.severity = Some(match severity::from_word(&line[at..close]) {
        Some(word) => SeverityText::Word(word),
        None => SeverityText::Text(Text::of_input(at, close)),
    });
    let at = close + 1 + usize::from(line.get(close + 1) == Some(&b' '));
    let at = numbers(line, event, at);
    let end = match memmem::find(line.get(at..).unwrap_or_default(), b", client: ") {
        Some(client) => {
            details(assign, event, at + client)?;
            at + client
        }
        None => line.len(),
    };
    event.message = Some(event.limited(line, assign.limits, Text::of_input(at.min(end), end), at)?);
    Ok(())
}

/// `31#7: *9 `, each as a field; gives where the text begins.
fn numbers(line: &[u8], event: &mut Event, start: usize) -> usize {
    let mut at = start;
    for (name, prefix, suffix) in [("pid", "", "#"), ("tid", "", ": "), ("connection", "*", " ")] {
        let Some(rest) = line[at..].strip_prefix(prefix.as_bytes()) else { break };
        let from = at + prefix.len();
        let to = from + rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let Some(number) = whole_number(line, (from, to)) else { break };
        if !line[to..].starts_with(suffix.as_bytes()) {
            break;
        }
        field(event, name, Value::I64(number));
        at = to + suffix.len();
    }
    at
}

/// What may be behind the text of an error.
const DETAILS: [&str; 8] =
    ["client", "server", "request", "subrequest", "upstream", "host", "referrer", "login"];

/// `, client: 10.0.0.1, request: "GET / HTTP/1.1"`: up to what is no such pair.
fn details(assign: &Assign<'_>, event: &mut Event, start: usize) -> Result<(), Refusal> {
    let line = assign.line;
    let mut at = start;
    for _ in DETAILS {
        let Some(rest) = line.get(at..).and_then(|rest| rest.strip_prefix(b", ")) else { break };
        let name = DETAILS
            .iter()
            .find(|name| rest.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b": ")));
        let Some(name) = name else { break };
        let from = at + 2 + name.len() + 2;
        let (from, to, behind) = match line.get(from) {
            Some(b'"') => match closing_quote(line, from + 1) {
                Some(end) => (from + 1, end, end + 1),
                None => break,
            },
            _ => {
                let rest = line.get(from..).unwrap_or_default();
                let end = from + memmem::find(rest, b", ").unwrap_or(rest.len());
                (from, end, end)
            }
        };
        text_field(assign, event, name, (from, to))?;
        at = behind;
    }
    Ok(())
}
