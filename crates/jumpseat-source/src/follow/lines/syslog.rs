//! Syslog: RFC 5424, RFC 3164, and the lines that daemons write to files, which have no priority.
//!
//! ```text
//! <34>1 2026-11-22T16:00:00.5Z host app 123 ID7 [sd@1 key="value"] text
//! <34>Nov 22 16:00:00 host app[123]: text
//! Nov 22 16:00:00 host app[123]: text
//! 2026-11-22T16:00:00.5+01:00 host app[123]: text
//! ```

use super::assign::Assign;
use super::words::{Words, field, in_arena, message, number_or_text, text};
use crate::delivery::Reason;
use crate::event::{Event, Refusal, SeverityText, Text, Value};
use jumpseat_wire::severity;

/// By number, as RFC 5424 has them.
const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp",
    "ntp", "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4", "local5", "local6",
    "local7",
];

/// Parses a line: priority to `severity` and field `facility`, application to the type, the rest to the fields `host`,
/// `pid`, `msgid` and one for each structured value.
///
/// # Errors
/// Neither of the forms.
pub(super) fn parse(assign: &Assign<'_>, event: &mut Event) -> Result<(), Refusal> {
    let mut at = 0;
    if let Some((priority, end)) = priority(assign.line) {
        at = end;
        event.severity = severity::from_number(i64::from(priority % 8)).map(SeverityText::Word);
        if let Some(facility) = FACILITIES.get(usize::from(priority / 8)) {
            let value = in_arena(event, facility);
            field(event, "facility", Value::Text(value));
        }
    }
    match assign.line.get(at..) {
        Some([b'1', b' ', ..]) if at > 0 => modern(assign, event, at + 2),
        _ => traditional(assign, event, at),
    }
}

/// `<PRI>`: its value and where it ends.
pub(super) fn priority(line: &[u8]) -> Option<(u8, usize)> {
    let rest = line.strip_prefix(b"<")?;
    let end = rest.iter().take(4).position(|byte| *byte == b'>')?;
    let number: u8 = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    (number < 192).then_some((number, end + 2))
}

/// RFC 5424 from its timestamp on.
fn modern(assign: &Assign<'_>, event: &mut Event, at: usize) -> Result<(), Refusal> {
    let line = assign.line;
    let mut words = Words { line, at };
    let time = words.next().ok_or_else(|| cut_short(line))?;
    if text(line, time) != b"-" {
        let read = assign.when.read(text(line, time), assign.now);
        event.time = Some(read.map_err(|detail| Refusal::at(at, Reason::Time, detail))?);
    }
    for name in ["host", "app", "pid", "msgid"] {
        let start = words.at;
        let word = words.next().ok_or_else(|| cut_short(line))?;
        if text(line, word) == b"-" {
            continue;
        }
        let word = event.limited(line, assign.limits, word, start)?;
        match name {
            "app" => event.event_type = Some(word),
            name => field(event, name, number_or_text(line, word)),
        }
    }
    let mut at = words.at;
    match line.get(at) {
        Some(b'-') => at += 1,
        Some(b'[') => {
            while line.get(at) == Some(&b'[') {
                at = element(assign, event, at)?;
            }
        }
        None if assign.cut => return Ok(()),
        _ => return Err(Refusal::at(at, Reason::Syntax, "expected structured data: - or [")),
    }
    let rest = line.get(at..).unwrap_or_default();
    let at = at + rest.iter().take_while(|byte| **byte == b' ').count();
    // A text in UTF-8 may begin with a mark that says so.
    let at = if line.get(at..).is_some_and(|rest| rest.starts_with(b"\xef\xbb\xbf")) { at + 3 } else { at };
    message(assign, event, at)
}

/// `[id name="value" ...]` at its bracket; gives where it ends. Values become fields `id.name`.
fn element(assign: &Assign<'_>, event: &mut Event, start: usize) -> Result<usize, Refusal> {
    let line = assign.line;
    let wrong = |at: usize| Refusal::at(at, Reason::Syntax, "expected structured data: [id name=\"value\"]");
    let ends = |byte: &u8| matches!(byte, b' ' | b']' | b'=' | b'"');
    let word = |at: usize| {
        let rest = line.get(at..).unwrap_or_default();
        at + rest.iter().position(ends).unwrap_or(rest.len())
    };
    let id_end = word(start + 1);
    let mut at = id_end;
    loop {
        match line.get(at) {
            Some(b']') => return Ok(at + 1),
            Some(b' ') => at += 1,
            // The end of the line was cut off, and half an element with it.
            None if assign.cut => return Ok(line.len()),
            _ => return Err(wrong(at)),
        }
        if matches!(line.get(at), Some(b' ' | b']')) {
            continue;
        }
        let name_end = word(at);
        if line.get(name_end..name_end + 2) != Some(b"=\"") {
            return if assign.cut { Ok(line.len()) } else { Err(wrong(name_end)) };
        }
        let begin = event.arena.len();
        event.arena.extend_from_slice(&line[start + 1..id_end]);
        event.arena.push(b'.');
        event.arena.extend_from_slice(&line[at..name_end]);
        let name = Text::of_arena(begin, event.arena.len());
        let value_at = name_end + 2;
        let (value, end) = match quoted(line, value_at, event) {
            Some(value) => value,
            None if assign.cut => return Ok(line.len()),
            None => {
                return Err(Refusal::at(value_at, Reason::Syntax, "a text whose closing quote is missing"));
            }
        };
        assign.member(event, name, value, value_at, false)?;
        at = end;
    }
}

/// The text up to the closing quote, with `\"`, `\\` and `\]` resolved, and where what follows begins.
fn quoted(line: &[u8], start: usize, event: &mut Event) -> Option<(Text, usize)> {
    let rest = line.get(start..)?;
    let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    if rest[plain] == b'"' {
        return Some((Text::of_input(start, start + plain), start + plain + 1));
    }
    let begin = event.arena.len();
    let mut bytes = rest.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some((Text::of_arena(begin, event.arena.len()), start + at + 1)),
            b'\\' => match bytes.next()? {
                (_, escaped @ (b'"' | b'\\' | b']')) => event.arena.push(*escaped),
                (_, other) => event.arena.extend_from_slice(&[b'\\', *other]),
            },
            byte => event.arena.push(*byte),
        }
    }
    None
}

/// RFC 3164 and files, from the timestamp on.
fn traditional(assign: &Assign<'_>, event: &mut Event, at: usize) -> Result<(), Refusal> {
    let line = assign.line;
    let mut words = Words { line, at };
    let rest = line.get(at..).unwrap_or_default();
    let time = if rest.first().is_some_and(u8::is_ascii_digit) {
        let word = words.next().ok_or_else(|| cut_short(line))?;
        assign.when.read(text(line, word), assign.now).ok()
    } else {
        // `Nov 22 16:00:00`, with a fraction up to the next blank.
        let end = rest
            .get(15..)
            .map_or(rest.len(), |tail| 15 + tail.iter().position(|byte| *byte == b' ').unwrap_or(tail.len()));
        words.at = (at + end + 1).min(line.len());
        assign.when.syslog(&rest[..end], assign.now)
    };
    let Some(time) = time else {
        if at > 0 {
            // Any text may follow a priority: what has no time is all content.
            return message(assign, event, at);
        }
        return Err(Refusal::at(
            at,
            Reason::Syntax,
            "neither a priority nor a time as syslog daemons write it",
        ));
    };
    event.time = Some(time);
    let start = words.at;
    if let Some(host) = words.next() {
        let host = event.limited(line, assign.limits, host, start)?;
        field(event, "host", Value::Text(host));
    }
    // `app[pid]: ` or `app: `; anything else is part of the text.
    let at = words.at;
    let rest = line.get(at..).unwrap_or_default();
    let end = rest.iter().position(|byte| matches!(byte, b':' | b'[' | b' ')).unwrap_or(rest.len());
    let (pid, behind) = match rest.get(end) {
        Some(b'[') => {
            let inside = &rest[end + 1..];
            match inside.iter().position(|byte| *byte == b']') {
                Some(close) => (Some((end + 1, end + 1 + close)), end + close + 2),
                None => (None, rest.len()),
            }
        }
        _ => (None, end),
    };
    if end == 0 || rest.get(behind) != Some(&b':') {
        return message(assign, event, at);
    }
    event.event_type = Some(event.limited(line, assign.limits, Text::of_input(at, at + end), at)?);
    if let Some((from, to)) = pid {
        let pid = event.limited(line, assign.limits, Text::of_input(at + from, at + to), at + from)?;
        field(event, "pid", number_or_text(line, pid));
    }
    let blank = usize::from(rest.get(behind + 1) == Some(&b' '));
    message(assign, event, at + behind + 1 + blank)
}

fn cut_short(line: &[u8]) -> Refusal {
    Refusal::at(line.len(), Reason::Syntax, "the line ends within its header")
}
