//! The one-line text of an event value (`docs/pcp/events.md` 3.6).

use std::fmt::Write;

use byteorder::{ByteOrder, NetworkEndian};

use super::pack::{ArrayKind, EventFlags};
use super::reader::{ArrayReader, Record};
use pcp_model::{PrintOptions, Timestamp, Value};

/// The text `pmPrintValue(3)` prints for an array: `[2 event records timestamps 10:11:29.279...10:11:30.279]`.
/// Times are times of day in the zone whose offset, in seconds east of UTC at a time in seconds since the
/// epoch, is `utc_offset`.
///
/// It is libpcp's text with its peculiarities: its walk stops at the first missed record that is not the
/// last record, counts that one once for each record from there to the last but one, and takes its time
/// for that of the last record.
pub fn summary<E: ByteOrder>(array: &ArrayReader<'_, E>, utc_offset: impl Fn(i64) -> i64) -> String {
    let count = array.len();
    let mut text = format!("[{count} event record{}", if count == 1 { "" } else { "s" });
    if let Some((first, last, missed)) = walk(array) {
        if missed > 0 {
            let _ = write!(text, " ({missed} missed)");
        }
        let clock = |time| time_of_day(array.kind(), time, &utc_offset);
        if count == 1 {
            let _ = write!(text, " timestamp {}", clock(first));
        } else {
            let _ = write!(text, " timestamps {}...{}", clock(first), clock(last));
        }
    }
    text.push(']');
    text
}

/// Appends the text of `pmPrintValue(3)`: [`summary`] for event arrays (their number of records only if they
/// are malformed), [`Value::print`] for all other values.
pub fn print_value(value: &Value, options: PrintOptions, utc_offset: impl Fn(i64) -> i64, out: &mut Vec<u8>) {
    let array = match value {
        Value::Event(bytes) => ArrayReader::<NetworkEndian>::new(ArrayKind::Event, bytes),
        Value::HighResEvent(bytes) => ArrayReader::new(ArrayKind::HighRes, bytes),
        _ => return value.print(options, out),
    };
    match array {
        Ok(array) => out.extend_from_slice(summary(&array, utc_offset).as_bytes()),
        Err(_) => value.print(options, out),
    }
}

/// First time, last time and missed count as libpcp finds them, or `None` if there are no records.
fn walk<E: ByteOrder>(array: &ArrayReader<'_, E>) -> Option<(Timestamp, Timestamp, i32)> {
    let mut records = array.records();
    let first: Record<'_, E> = records.clone().next()?;
    let mut last = first.time;
    while let Some(record) = records.next() {
        last = record.time;
        if record.flags.contains(EventFlags::MISSED) && records.len() > 0 {
            // The count is an int that wraps.
            return Some((first.time, last, record.count.wrapping_mul(records.len() as i32)));
        }
    }
    Some((first.time, last, 0))
}

fn time_of_day(kind: ArrayKind, time: Timestamp, utc_offset: impl Fn(i64) -> i64) -> String {
    let second = time.sec.saturating_add(utc_offset(time.sec)).rem_euclid(86_400);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    match kind {
        ArrayKind::Event => format!("{hour:02}:{minute:02}:{second:02}.{:03}", time.nsec / 1_000_000),
        ArrayKind::HighRes => format!("{hour:02}:{minute:02}:{second:02}.{:09}", time.nsec),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn event_values_have_their_times() {
        let print = |value: Value| {
            let mut out = Vec::new();
            print_value(&value, PrintOptions::width(3), |_| 3_600, &mut out);
            String::from_utf8(out).unwrap()
        };
        // One record without parameters at 01:46:40.123 UTC.
        let mut array = vec![9, 0, 0, 24, 0, 0, 0, 1];
        for word in [1_000_000_000u32, 123_000, 1, 0] {
            array.extend(word.to_be_bytes());
        }
        assert_eq!(
            print(Value::Event(Bytes::from(array.clone()))),
            "[1 event record timestamp 02:46:40.123]"
        );
        array.truncate(20);
        assert_eq!(print(Value::Event(Bytes::from(array))), "[1 event record]");
        assert_eq!(print(Value::I32(7)), "  7");
    }
}
