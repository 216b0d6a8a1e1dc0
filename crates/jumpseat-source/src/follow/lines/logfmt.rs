//! `key=value` pairs: `level=info msg="a text" latency=1.5 retry`.

use super::assign::Assign;
use crate::delivery::Reason;
use crate::event::{Event, Field, Refusal, Text, Value};
use crate::ndjson::scan::Scanner;

/// Parses a line of pairs, separated by blanks. A value in quotes is text, with escapes as in JSON; one without is a
/// number if it looks like one. A key without a value is a field that is true.
///
/// # Errors
/// No pair at all, a pair without a key, quotes that do not end, or what [`Assign::member`] says.
pub(super) fn parse(assign: &Assign<'_>, event: &mut Event) -> Result<(), Refusal> {
    pairs(assign, event, 0)
}

/// The same from `start` on.
pub(super) fn pairs(assign: &Assign<'_>, event: &mut Event, start: usize) -> Result<(), Refusal> {
    let line = assign.line;
    let mut scan = Scanner { line, at: start };
    let mut pairs = 0u32;
    while scan.peek().is_some() {
        let start = scan.at;
        scan.at += length(line, start, |byte| byte == b'=' || byte == b'"' || byte.is_ascii_whitespace());
        let name = Text::of_input(start, scan.at);
        if name.is_empty() {
            let detail = "expected a key: logfmt is key=value key=\"text in quotes\"";
            return Err(Refusal::at(start, Reason::Syntax, detail));
        }
        match line.get(scan.at) {
            Some(b'"') => {
                return Err(Refusal::at(scan.at, Reason::Syntax, "a quote within a key"));
            }
            Some(b'=') => {
                scan.at += 1;
                pairs += 1;
                let at = scan.at;
                if line.get(at) == Some(&b'"') {
                    let string = scan.string(&mut event.arena)?;
                    let (text, early) = (string.text, string.ends_early);
                    if early && !assign.cut {
                        return Err(Refusal::at(at, Reason::Syntax, "a text whose closing quote is missing"));
                    }
                    assign.member(event, name, text, at, false)?;
                } else {
                    scan.at += length(line, at, |byte| byte.is_ascii_whitespace());
                    if assign.cut && scan.at == line.len() {
                        // Half a time or half a number is worth nothing.
                        break;
                    }
                    assign.member(event, name, Text::of_input(at, scan.at), at, true)?;
                }
            }
            _ => event.fields.push(Field::new(name, Value::Bool(true))),
        }
    }
    if pairs == 0 {
        let detail = "no key=value pair; for lines of any form use format = \"text\"";
        return Err(Refusal::at(0, Reason::Syntax, detail));
    }
    Ok(())
}

fn length(line: &[u8], start: usize, ends: impl Fn(u8) -> bool) -> usize {
    let rest = line.get(start..).unwrap_or_default();
    rest.iter().position(|byte| ends(*byte)).unwrap_or(rest.len())
}
