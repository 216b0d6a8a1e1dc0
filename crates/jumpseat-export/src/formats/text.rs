//! What the text formats write in the same way: times, values, event records.

use std::io::{self, Write};
use std::path::Path;

use byteorder::NetworkEndian;
use pcp_event::{ArrayKind, ArrayReader, Param};
use pcp_files::Replacement;
use pcp_model::time::Zone;
use pcp_model::{Number, PmError, Timestamp, ValueType};
use pcp_pdu::TypedRef;

use crate::formats::error::ExportError;
use crate::formats::source::Source;

/// Text is written in portions of this size.
const BUFFER: usize = 256 << 10;

/// Where text goes: standard output, or a file that gets its name when it is whole.
pub(crate) struct Output {
    path: std::path::PathBuf,
    file: Option<Replacement>,
    /// What has not been written yet.
    pub buffer: Vec<u8>,
}

impl Output {
    /// To a file, or standard output for `-`.
    pub(crate) fn new(path: &Path) -> Result<Output, ExportError> {
        let file = match path.as_os_str() == "-" {
            true => None,
            false => Some(Replacement::begin(path).map_err(|error| ExportError::Write {
                path: path.to_owned(),
                error: io::Error::new(error.kind(), error.to_string()),
            })?),
        };
        Ok(Output { path: path.to_owned(), file, buffer: Vec::with_capacity(BUFFER + BUFFER / 4) })
    }

    /// Writes what is in the buffer, if it is enough to be worth it, or `all` of it.
    pub(crate) fn pass(&mut self, all: bool) -> Result<(), ExportError> {
        if !all && self.buffer.len() < BUFFER {
            return Ok(());
        }
        let written = match &mut self.file {
            Some(file) => file.file().write_all(&self.buffer),
            None => {
                let mut out = io::stdout().lock();
                out.write_all(&self.buffer).and_then(|()| out.flush())
            }
        };
        self.buffer.clear();
        written.map_err(ExportError::write(&self.path))
    }

    /// Writes the rest, and gives the file its name.
    pub(crate) fn finish(&mut self) -> Result<(), ExportError> {
        self.pass(true)?;
        match self.file.take() {
            None => Ok(()),
            Some(file) => file.finish().map(drop).map_err(|error| ExportError::Write {
                path: self.path.clone(),
                error: io::Error::new(error.kind(), error.to_string()),
            }),
        }
    }
}

/// A time as RFC 3339 has it, to the nanosecond: in UTC, or with the offset of a zone.
pub(crate) fn time(out: &mut Vec<u8>, time: Timestamp, zone: Option<&Zone>) {
    // Memory takes everything.
    let _ = match zone {
        None => write!(out, "{time}"),
        Some(zone) => {
            let offset = zone.utc_offset(time.sec) / 60;
            let local = Timestamp { sec: time.sec.saturating_add(offset * 60), ..time }.to_string();
            let sign = if offset < 0 { '-' } else { '+' };
            let minutes = offset.abs();
            write!(out, "{}{sign}{:02}:{:02}", local.trim_end_matches('Z'), minutes / 60, minutes % 60)
        }
    };
}

/// A string in JSON's quotes; what is no UTF-8 is replaced.
pub(crate) fn quoted(out: &mut Vec<u8>, text: &[u8]) {
    let _ = serde_json::to_writer(out, &String::from_utf8_lossy(text));
}

/// A number with all its digits. What JSON has no number for is `null`.
pub(crate) fn number(out: &mut Vec<u8>, number: Number) {
    let _ = match number {
        Number::I32(v) => write!(out, "{v}"),
        Number::U32(v) => write!(out, "{v}"),
        Number::I64(v) => write!(out, "{v}"),
        Number::U64(v) => write!(out, "{v}"),
        Number::Float(v) if v.is_finite() => serde_json::to_writer(out, &v).map_err(Into::into),
        Number::Double(v) if v.is_finite() => serde_json::to_writer(out, &v).map_err(Into::into),
        Number::Float(_) | Number::Double(_) => out.write_all(b"null"),
    };
}

/// A value as JSON; bytes are hexadecimal. Event arrays are not values: see [`records`].
pub(crate) fn json(out: &mut Vec<u8>, value: TypedRef<'_>) {
    match value {
        TypedRef::Number(value) => number(out, value),
        TypedRef::Text(text) => quoted(out, text),
        TypedRef::Aggregate(bytes) | TypedRef::Events(_, bytes) => hex(out, bytes),
    }
}

/// The fields of an event record as a JSON object, by their names; of two with a name the last one counts for most readers.
pub(crate) fn fields(out: &mut Vec<u8>, source: &mut Source, record: &Record<'_>) {
    out.push(b'{');
    for (at, param) in record.params().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        quoted(out, source.field(param.pmid).as_bytes());
        out.push(b':');
        match param.value {
            Param::I32(v) => number(out, v.into()),
            Param::U32(v) => number(out, v.into()),
            Param::I64(v) => number(out, v.into()),
            Param::U64(v) => number(out, v.into()),
            Param::Float(v) => number(out, v.into()),
            Param::Double(v) => number(out, v.into()),
            Param::String(text) => quoted(out, text),
            Param::Aggregate(bytes) => hex(out, bytes),
        }
    }
    out.push(b'}');
}

/// An event record, where it is.
pub(crate) type Record<'a> = pcp_event::reader::Record<'a, NetworkEndian>;

/// The records of an event array.
///
/// # Errors
/// An array that is none.
pub(crate) fn records(kind: ValueType, bytes: &[u8]) -> Result<impl Iterator<Item = Record<'_>>, PmError> {
    let kind = if kind == ValueType::HighResEvent { ArrayKind::HighRes } else { ArrayKind::Event };
    Ok(ArrayReader::<NetworkEndian>::new(kind, bytes)?.records())
}

fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("it is text")
    }

    #[test]
    fn times_have_all_digits_and_the_offset_of_their_zone() {
        let at = Timestamp::new(1_790_000_000, 7);
        assert_eq!(written(|out| time(out, at, None)), "2026-09-21T14:13:20.000000007Z");
        let zone = Zone::new("Asia/Kolkata");
        assert_eq!(written(|out| time(out, at, Some(&zone))), "2026-09-21T19:43:20.000000007+05:30");
        let zone = Zone::new("<-0330>3:30");
        assert_eq!(written(|out| time(out, at, Some(&zone))), "2026-09-21T10:43:20.000000007-03:30");
    }

    #[test]
    fn numbers_are_exact() {
        for (value, text) in [
            (Number::U64(u64::MAX), "18446744073709551615"),
            (Number::I64(i64::MIN), "-9223372036854775808"),
            (Number::Double(0.1), "0.1"),
            (Number::Float(0.1), "0.1"),
            (Number::Double(f64::NAN), "null"),
        ] {
            assert_eq!(written(|out| number(out, value)), text);
        }
    }
}
