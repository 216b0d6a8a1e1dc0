//! What klog and glog write.
//!
//! ```text
//! I1122 22:30:01.123456    1234 server.go:77] text
//! E1122 22:30:01.123456       1 server.go:77] "Cannot sync" err="timeout" pod="default/web"
//! W20261122 22:30:01.123456  1234 server.cc:77] text
//! ```

use super::assign::Assign;
use super::logfmt;
use super::names::Names;
use super::stamp::{self, Parts};
use super::words::{closing_quote, field, message, text_field, whole_number};
use crate::delivery::Reason;
use crate::event::{Event, Refusal, SeverityText, Text, Value};

const DETAIL: &str = "not a line of klog: I1122 22:30:01.123456 1234 file.go:77] text";

/// Parses a line: the letter to the severity, the fields `pid`, `file`, `line`, and those of a structured message.
///
/// # Errors
/// It has not this form.
pub(super) fn parse(assign: &Assign<'_>, event: &mut Event) -> Result<(), Refusal> {
    let line = assign.line;
    let wrong = |at: usize| Refusal::at(at, Reason::Unmatched, DETAIL);
    let (severity, parts, end) = header(line).ok_or_else(|| wrong(0))?;
    event.time = Some(assign.when.assemble(&parts, assign.now).ok_or_else(|| wrong(1))?);
    event.severity = Some(SeverityText::Word(severity));
    let blanks = |at: usize| {
        let rest = line.get(at..).unwrap_or_default();
        at + rest.iter().take_while(|byte| **byte == b' ').count()
    };
    let at = blanks(end);
    let bracket = memchr::memchr(b']', line.get(at..).unwrap_or_default()).ok_or_else(|| wrong(at))? + at;
    let digits = line[at..bracket].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if let Some(pid) = whole_number(line, (at, at + digits)) {
        field(event, "pid", Value::I64(pid));
    }
    let place = blanks(at + digits).min(bracket);
    let colon = memchr::memrchr(b':', &line[place..bracket]).ok_or_else(|| wrong(place))? + place;
    text_field(assign, event, "file", (place, colon))?;
    if let Some(number) = whole_number(line, (colon + 1, bracket)) {
        field(event, "line", Value::I64(number));
    }
    let at = blanks(bracket + 1);
    if line.get(at) == Some(&b'"') { structured(assign, event, at) } else { message(assign, event, at) }
}

/// `"text" key="value" ...`; all of it is the message if it is not of this form.
fn structured(assign: &Assign<'_>, event: &mut Event, at: usize) -> Result<(), Refusal> {
    let Some(end) = closing_quote(assign.line, at + 1) else { return message(assign, event, at) };
    let before = event.fields.len();
    if !assign.line[end + 1..].trim_ascii().is_empty() {
        let names = Names::of_fields();
        let fields = Assign { names: &names, ..*assign };
        if logfmt::pairs(&fields, event, end + 1).is_err() {
            event.fields.truncate(before);
            return message(assign, event, at);
        }
    }
    event.message = Some(event.limited(assign.line, assign.limits, Text::of_input(at + 1, end), at + 1)?);
    Ok(())
}

/// The severity, the time, and where it ends.
pub(super) fn header(line: &[u8]) -> Option<(&'static str, Parts, usize)> {
    let (letter, rest) = line.split_first()?;
    let severity = match letter {
        b'I' => "info",
        b'W' => "warning",
        b'E' => "error",
        b'F' => "critical",
        b'D' => "debug",
        _ => return None,
    };
    let digits = rest.iter().take(9).take_while(|byte| byte.is_ascii_digit()).count();
    let (year, date) = match digits {
        4 => (None, &rest[..4]),
        8 => (Some(number(&rest[..4]) as i16), &rest[4..8]),
        _ => return None,
    };
    let clock = rest.get(digits..)?.strip_prefix(b" ")?;
    let (month, day) = (number(&date[..2]) as i8, number(&date[2..]) as i8);
    let (parts, length) = stamp::scan_clock(clock, year, month, day)?;
    Some((severity, parts, 1 + digits + 1 + length))
}

/// At most four digits.
fn number(digits: &[u8]) -> i32 {
    digits.iter().fold(0, |value, digit| value * 10 + i32::from(digit - b'0'))
}
