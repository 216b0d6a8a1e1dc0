//! Comma-separated values (RFC 4180): a line for each value, and for each event record.
//!
//! ```text
//! time,host,metric,instance,value
//! 2026-11-20T10:44:40.000000000Z,web1,disk.dev.read,sda,4711
//! ```
//!
//! An event record has its own time, and its fields as a JSON object for a value. Text that a spreadsheet would take for a
//! formula stays as it is: these are data, not a sheet.

use pcp_pdu::TypedRef;

use crate::formats::error::ExportError;
use crate::formats::lines::{Item, lines};
use crate::formats::source::Source;
use crate::formats::text::{self, Output};
use crate::formats::walk::{Format, Sample};

/// Writes lines.
pub(crate) struct Csv {
    output: Output,
    host: Vec<u8>,
    /// Kept for its memory.
    scratch: Vec<u8>,
}

impl Csv {
    /// Begins with the names of the columns.
    pub(crate) fn new(mut output: Output, source: &Source) -> Csv {
        output.buffer.extend_from_slice(b"time,host,metric,instance,value\r\n");
        let mut host = Vec::new();
        cell(&mut host, source.host.as_bytes());
        Csv { output, host, scratch: Vec::new() }
    }
}

impl Format for Csv {
    fn sample(&mut self, source: &mut Source, sample: &Sample<'_>) -> Result<(), ExportError> {
        let Csv { output, host, scratch } = self;
        lines(source, sample, |source, line, item| {
            let out = &mut output.buffer;
            text::time(out, line.time, source.zone.as_ref());
            out.push(b',');
            out.extend_from_slice(host);
            out.push(b',');
            cell(out, source.metrics[line.metric].name.as_bytes());
            out.push(b',');
            if let Some(name) = line.instance(source) {
                cell(out, name.as_bytes());
            }
            out.push(b',');
            match item {
                Item::Value(TypedRef::Number(number)) => plain(out, number),
                Item::Value(TypedRef::Text(text)) => cell(out, String::from_utf8_lossy(text).as_bytes()),
                Item::Value(value) => text::json(out, value),
                Item::Missed(missed) => cell(out, format!("{{\"missed\":{missed}}}").as_bytes()),
                Item::Record(record) => {
                    scratch.clear();
                    text::fields(scratch, source, &record);
                    cell(out, scratch);
                }
            }
            out.extend_from_slice(b"\r\n");
        });
        self.output.pass(!source.is_archive())
    }

    fn finish(&mut self, _: &mut Source) -> Result<(), ExportError> {
        self.output.finish()
    }
}

/// A number; what JSON does not have is written as Rust does, which readers take.
fn plain(out: &mut Vec<u8>, number: pcp_model::Number) {
    use std::io::Write as _;
    let _ = match number {
        pcp_model::Number::Float(v) if !v.is_finite() => write!(out, "{v}"),
        pcp_model::Number::Double(v) if !v.is_finite() => write!(out, "{v}"),
        _ => return text::number(out, number),
    };
}

/// A cell, in quotes where it has to be.
fn cell(out: &mut Vec<u8>, text: &[u8]) {
    if !text.iter().any(|byte| matches!(byte, b'"' | b',' | b'\r' | b'\n')) {
        return out.extend_from_slice(text);
    }
    out.push(b'"');
    for byte in text {
        if *byte == b'"' {
            out.push(b'"');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_have_to_be() {
        for (text, expected) in
            [("a b", "a b"), ("a,b", "\"a,b\""), ("say \"x\"", "\"say \"\"x\"\"\""), ("a\nb", "\"a\nb\"")]
        {
            let mut out = Vec::new();
            cell(&mut out, text.as_bytes());
            assert_eq!(String::from_utf8(out).as_deref(), Ok(expected));
        }
    }
}
