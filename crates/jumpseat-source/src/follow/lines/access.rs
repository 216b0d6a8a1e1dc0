//! Requests as web servers log them: the common and the combined format.
//!
//! ```text
//! 10.0.0.1 - anna [22/Nov/2026:22:30:01 +0000] "GET /a HTTP/1.1" 200 512 "https://example.com/" "curl/8.5"
//! www.example.com:443 10.0.0.1 - - [22/Nov/2026:22:30:01 +0000] "GET /a HTTP/1.1" 200 512
//! ```

use super::assign::Assign;
use super::words::{Words, closing_quote, field, in_arena, text, text_field, whole_number};
use crate::delivery::Reason;
use crate::event::{Event, Refusal, Text, Value};

const TIME: &str = "not a time: requests have one such as [22/Nov/2026:22:30:01 +0000]";

/// Parses a line whose time is in the bracket at `bracket`: the request to the message, the rest to the fields `client`, `user`,
/// `vhost`, `method`, `path`, `protocol`, `status`, `bytes`, `referer`, `agent`, and what else there is to `extra`.
///
/// # Errors
/// It has not this form.
pub(super) fn parse(assign: &Assign<'_>, event: &mut Event, bracket: usize) -> Result<(), Refusal> {
    let line = assign.line;
    let kind = in_arena(event, "access");
    event.event_type = Some(kind);
    client(assign, event, bracket)?;
    let at = bracket + 1;
    let time = assign.when.leading(line.get(at..).unwrap_or_default(), assign.now);
    let (time, length) = time.ok_or_else(|| Refusal::at(at, Reason::Time, TIME))?;
    event.time = Some(time);
    let quote = line.get(at + length..).and_then(|rest| rest.strip_prefix(b"] \""));
    if quote.is_none() {
        return Err(unmatched(at + length, "expected the request in quotes behind the time"));
    }
    let at = at + length + 3;
    let end = match closing_quote(line, at) {
        Some(end) => end,
        None if assign.cut => line.len(),
        None => return Err(unmatched(at, "a request whose closing quote is missing")),
    };
    request(assign, event, (at, end))?;
    answer(assign, event, end + 1)
}

/// Where the time of a request is, if a line has one.
pub(super) fn bracket(line: &[u8]) -> Option<usize> {
    let at = memchr::memchr(b'[', line)?;
    let is_date = matches!(line.get(at + 1..), Some([b'0'..=b'9', b'0'..=b'9', b'/', ..]));
    (at > 0 && is_date).then_some(at)
}

/// `client identity user`, or with the virtual host in front.
fn client(assign: &Assign<'_>, event: &mut Event, bracket: usize) -> Result<(), Refusal> {
    let line = assign.line.get(..bracket).unwrap_or_default();
    let mut words = Words { line, at: 0 };
    let mut found = [None; 4];
    for word in &mut found {
        *word = words.next();
    }
    let (vhost, client, user) = match found {
        [Some(client), Some(_), Some(user), None] => (None, client, user),
        [Some(vhost), Some(client), Some(_), Some(user)] => (Some(vhost), client, user),
        _ => return Err(unmatched(0, "expected client, identity and user in front of the time")),
    };
    for (name, word) in [("vhost", vhost), ("client", Some(client)), ("user", Some(user))] {
        if let Some(word) = word.filter(|word| text(line, *word) != b"-")
            && let Some(range) = word.input_range()
        {
            text_field(assign, event, name, (range.start, range.end))?;
        }
    }
    Ok(())
}

/// `GET /a HTTP/1.1`, or whatever the client has sent.
fn request(assign: &Assign<'_>, event: &mut Event, (at, end): (usize, usize)) -> Result<(), Refusal> {
    let request = assign.line.get(at..end).unwrap_or_default();
    if !request.is_empty() {
        event.message = Some(event.limited(assign.line, assign.limits, Text::of_input(at, end), at)?);
    }
    let (Some(first), Some(last)) = (memchr::memchr(b' ', request), memchr::memrchr(b' ', request)) else {
        return Ok(());
    };
    let is_method = (1..=20).contains(&first) && request[..first].iter().all(u8::is_ascii_uppercase);
    if first < last && is_method && request[last + 1..].starts_with(b"HTTP/") {
        text_field(assign, event, "method", (at, at + first))?;
        text_field(assign, event, "path", (at + first + 1, at + last))?;
        text_field(assign, event, "protocol", (at + last + 1, end))?;
    }
    Ok(())
}

/// ` 200 512 "referer" "agent" extra`.
fn answer(assign: &Assign<'_>, event: &mut Event, at: usize) -> Result<(), Refusal> {
    let line = assign.line;
    let mut words = Words { line, at: behind_blank(line, at) };
    for name in ["status", "bytes"] {
        let word = match words.next().and_then(Text::input_range) {
            // Half a number is worth nothing.
            word if assign.cut && word.as_ref().is_none_or(|word| word.end == line.len()) => return Ok(()),
            Some(word) => word,
            None => return Err(unmatched(words.at, "the line ends before its numbers")),
        };
        match whole_number(line, (word.start, word.end)) {
            Some(number) => field(event, name, Value::I64(number)),
            None if line.get(word.clone()) == Some(b"-") => {}
            None => return Err(unmatched(word.start, "expected the status and the number of bytes")),
        }
    }
    let mut at = words.at;
    for name in ["referer", "agent"] {
        let Some(end) =
            line.get(at..).and_then(|rest| rest.strip_prefix(b"\"")).and(closing_quote(line, at + 1))
        else {
            break;
        };
        if line.get(at + 1..end) != Some(b"-") {
            text_field(assign, event, name, (at + 1, end))?;
        }
        at = behind_blank(line, end + 1);
    }
    if at < line.len() {
        text_field(assign, event, "extra", (at, line.len()))?;
    }
    Ok(())
}

/// The place behind a blank at `at`, if there is one.
fn behind_blank(line: &[u8], at: usize) -> usize {
    (at + usize::from(line.get(at) == Some(&b' '))).min(line.len())
}

fn unmatched(at: usize, detail: &'static str) -> Refusal {
    Refusal::at(at, Reason::Unmatched, detail)
}
