//! Items of a chunk as frames: what the program does with its rings, and the agent with those of a program that is gone.
//!
//! **Cost:** what the messages of a site have in common is put together once for a connection, so that a record is its values,
//! each behind a number that is known by its place, and two copies. No name is looked up for a record.

use super::merge::Item;
use super::message::{self, DURATION, END, Message, START};
use super::site::Site;
use super::thread::Thread;
use crate::encode::{EncodeError, Encoder, Phase, Value, put_param};
use crate::{RECORD, flag, put_text, put_varint};

/// Writes items of chunks as the frames of one connection.
#[derive(Debug, Default)]
pub struct Transcriber {
    /// The connection's.
    pub encoder: Encoder,
    /// By their numbers; what is known of them on this connection.
    sites: Vec<Option<Prepared>>,
    /// The numbers of the fields that tell of the thread: its name, its number.
    thread: Option<[u64; 2]>,
    /// Memory for the parameters of a record.
    params: Vec<u8>,
}

/// A site on a connection.
#[derive(Debug)]
struct Prepared {
    /// What is between a record's time and its ids: event type and severity.
    head: Vec<u8>,
    fields: Vec<Known>,
    /// Parameters: what part of the program it is in, file and line.
    origin: Vec<u8>,
    /// Whether the thread's name and number go with it.
    thread: [bool; 2],
}

/// A field of a site on a connection.
#[derive(Clone, Debug)]
struct Known {
    /// Its first text is the record's message.
    is_message: bool,
    /// Its numbers by the type's code, 0 for what was not used so far.
    ids: [u64; 8],
}

impl Transcriber {
    /// For a connection with this encoder.
    pub fn new(encoder: Encoder) -> Transcriber {
        Transcriber { encoder, ..Transcriber::default() }
    }

    /// Appends one RECORD or MISSED frame, and before it the names it is the first to use. What cannot be sent is missed.
    /// Messages refer to `sites`, always the same but for new ones behind them; losses that have no time are of `now`, in
    /// nanoseconds since the epoch.
    ///
    /// # Errors
    /// The connection can take no more names: another one can.
    pub fn put(
        &mut self,
        item: &Item<'_>,
        (sites, now): (&[impl AsRef<Site>], i64),
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let message = match item {
            Item::Missed(count, time) => {
                self.encoder.missed(*count, time.unwrap_or(now), out);
                return Ok(());
            }
            Item::Message(message) => message,
        };
        match self.record(message, sites, out) {
            Err(error @ EncodeError::TooManyNames) => return Err(error),
            // Such a name can never be sent: the record is lost, and the connection goes on.
            Err(_) => self.encoder.missed(1, message.time, out),
            Ok(()) => {}
        }
        Ok(())
    }

    fn record(
        &mut self,
        message: &Message<'_>,
        sites: &[impl AsRef<Site>],
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let Transcriber { encoder, sites: prepared, thread, params, .. } = self;
        let number = message.site as usize;
        // The table had no room for it.
        let site = sites.get(number).ok_or(EncodeError::Name)?.as_ref();
        if prepared.len() < sites.len() {
            prepared.resize_with(sites.len(), || None);
        }
        let slot = prepared.get_mut(number).ok_or(EncodeError::Name)?;
        let known = match slot {
            Some(known) => known,
            None => slot.insert(Prepared::new(site, encoder, out)?),
        };
        params.clear();
        let (mut text, mut packed) = (None, message.fields);
        while let Some((index, value)) = message::next_field(&mut packed) {
            match (known.fields.get_mut(index), value) {
                (Some(Known { is_message: true, .. }), Value::Text(value)) if text.is_none() => {
                    text = Some(value);
                }
                (Some(field), value) => {
                    let id = &mut field.ids[usize::from(value.code() & 7)];
                    if *id == 0 {
                        *id = encoder.field(&site.fields[index], value.code(), out)?;
                    }
                    put_param(params, *id, &value);
                }
                (None, value) => {
                    let name: &[u8] = if index == DURATION.into() { b"duration_ns" } else { b"" };
                    put_param(params, encoder.field(name, value.code(), out)?, &value);
                }
            }
        }
        // The end of a span says no more than its start.
        if message.kind != END {
            params.extend_from_slice(&known.origin);
            if let Some(of) = message.thread {
                let ids = match thread {
                    Some(ids) => *ids,
                    None => *thread.insert(thread_fields(encoder, out)?),
                };
                put_thread(params, ids, known.thread, of);
            }
        }
        if text.is_some_and(<[u8]>::is_empty) {
            // No text stands for no message; an empty one goes as a field.
            let mut first = Vec::new();
            let value = Value::Text(b"");
            put_param(&mut first, encoder.field(b"message", value.code(), out)?, &value);
            params.splice(..0, first);
        }
        put_record(message, &known.head, text.unwrap_or_default(), params, out);
        Ok(())
    }
}

impl Prepared {
    fn new(site: &Site, encoder: &mut Encoder, out: &mut Vec<u8>) -> Result<Prepared, EncodeError> {
        let mut head = Vec::new();
        put_varint(&mut head, encoder.event_type(&site.name, out)?);
        head.push(site.severity.code());
        // Fields of the program's own go before.
        let is_free = |name: &[u8]| !site.fields.iter().any(|field| **field == *name);
        let text = |text| Some(Value::Text(text)).filter(|_| !text.is_empty());
        let mut origin = Vec::new();
        for (name, value) in [
            (&b"target"[..], text(&site.target)),
            (b"file", text(&site.file)),
            (b"line", Some(Value::U32(site.line)).filter(|_| site.line != 0)),
        ] {
            if let Some(value) = value.filter(|_| is_free(name)) {
                put_param(&mut origin, encoder.field(name, value.code(), out)?, &value);
            }
        }
        let known = |name: &[u8]| Known { is_message: name == b"message", ids: [0; 8] };
        let fields = site.fields.iter().map(|name| known(name)).collect();
        Ok(Prepared { head, fields, origin, thread: [is_free(b"thread"), is_free(b"thread_id")] })
    }
}

fn thread_fields(encoder: &mut Encoder, out: &mut Vec<u8>) -> Result<[u64; 2], EncodeError> {
    let (name, number) = (Value::Text(b""), Value::U64(0));
    Ok([encoder.field(b"thread", name.code(), out)?, encoder.field(b"thread_id", number.code(), out)?])
}

/// Appends what is known of a thread, as far as it is wanted.
fn put_thread(params: &mut Vec<u8>, ids: [u64; 2], wanted: [bool; 2], thread: &Thread) {
    if wanted[0] && !thread.name.is_empty() {
        put_param(params, ids[0], &Value::Text(&thread.name));
    }
    if wanted[1] && thread.id != 0 {
        put_param(params, ids[1], &Value::U64(thread.id));
    }
}

/// Appends the frame of a record.
fn put_record(message: &Message<'_>, head: &[u8], text: &[u8], params: &[u8], out: &mut Vec<u8>) {
    let phase = match message.kind {
        START => Phase::Start,
        END => Phase::End,
        _ => Phase::Point,
    };
    let mut flags = phase as u8 | flag::TIME;
    let mut ids = [0; 2 * ID];
    let mut of_ids = 0;
    for (id, flag) in [(message.span, flag::ID), (message.parent, flag::PARENT)] {
        if id != 0 {
            flags |= flag | flag::TEXT_IDS;
            ids[of_ids] = ID as u8 - 1;
            ids[of_ids + 1..of_ids + ID].copy_from_slice(&message::span_id(id));
            of_ids += ID;
        }
    }
    let mut front = [flags; 9];
    front[1..].copy_from_slice(&message.time.to_le_bytes());
    let of_text = text.len() + varint_len(text.len() as u64);
    let length = front.len() + head.len() + of_ids + of_text + params.len();
    out.reserve(1 + varint_len(length as u64) + length);
    out.push(RECORD);
    put_varint(out, length as u64);
    out.extend_from_slice(&front);
    out.extend_from_slice(head);
    out.extend_from_slice(&ids[..of_ids]);
    put_text(out, text);
    out.extend_from_slice(params);
}

/// Bytes of an id as a text, its length included.
const ID: usize = 17;

/// Bytes of a varint.
fn varint_len(value: u64) -> usize {
    (value | 1).ilog2() as usize / 7 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::{Id, Record};
    use crate::ring::message::{POINT, field, next, tag, tests};
    use crate::severity::Severity;

    fn sites() -> Vec<std::sync::Arc<Site>> {
        let site = |name: &str, line, fields: &[&str]| Site {
            name: name.as_bytes().into(),
            severity: Severity::Warning,
            target: if line == 0 { b""[..].into() } else { b"shop::stock"[..].into() },
            file: b"src/stock.rs"[..].into(),
            line,
            fields: fields.iter().map(|field| field.as_bytes().into()).collect(),
        };
        let long = "x".repeat(256);
        let sites = [
            site("order", 42, &["message", "left", "message"]),
            site("own", 0, &["file", "thread", &long]),
            site(&long, 1, &[]),
        ];
        sites.map(std::sync::Arc::new).into()
    }

    fn text(place: u8, text: &[u8; 8]) -> [u64; 2] {
        let count = text.iter().position(|byte| *byte == 0).unwrap_or(8);
        [field(place, tag::TEXT, count as u32), u64::from_ne_bytes(*text)]
    }

    /// The RECORD and MISSED frames of these messages, and the encoder that knows their names.
    fn transcribed(messages: &[Vec<u8>], thread: &Thread) -> (Vec<u8>, Encoder) {
        let (sites, mut out, mut frames) = (sites(), Vec::new(), Vec::new());
        let mut transcriber = Transcriber::new(Encoder::new(&mut out));
        out.clear();
        for message in messages {
            let message = Message { thread: Some(thread), ..next(&mut &message[..]).unwrap() };
            transcriber.put(&Item::Message(message), (&sites, 7), &mut out).unwrap();
        }
        let mut rest = &out[..];
        while let Some((kind, _, len)) = crate::frame(rest) {
            if [RECORD, crate::MISSED].contains(&kind) {
                frames.extend_from_slice(&rest[..len]);
            }
            rest = &rest[len..];
        }
        assert!(rest.is_empty());
        (frames, transcriber.encoder)
    }

    #[test]
    fn a_message_becomes_the_record_that_an_encoder_makes_of_it() {
        let thread = Thread::new(4711, "main");
        let left = [field(1, tag::INTEGER, 0), -1_i64 as u64];
        let fields = [&text(0, b"almost g")[..], &left, &text(2, b"again\0\0\0")].concat();
        let point = tests::message((POINT, 5), (0, 0xfe_dcba_9876_5432), 0, &fields);
        let took = [8, field(DURATION, tag::NATURAL, 0), 1000];
        let end = tests::message((END, 6), (0, 9), 0, &took);
        let numbers = [field(1, tag::BOOLEAN, 1), field(0, tag::DOUBLE, 0), 0.5_f64.to_bits()];
        let own = tests::message((POINT, 7), (1, 0), 0, &numbers);
        let (frames, mut encoder) = transcribed(&[point.clone(), end, own, point], &thread);
        let common = Record { severity: Some(b"warning"), event_type: Some(b"order"), ..Record::default() };
        let origin: [(&[u8], Value<'_>); 5] = [
            (b"target", Value::Text(b"shop::stock")),
            (b"file", Value::Text(b"src/stock.rs")),
            (b"line", Value::U32(42)),
            (b"thread", Value::Text(b"main")),
            (b"thread_id", Value::U64(4711)),
        ];
        let own: [(&[u8], Value<'_>); 2] = [(b"left", Value::I64(-1)), (b"message", Value::Text(b"again"))];
        let of_point = Record {
            time: Some(5),
            phase: Phase::Point,
            id: Some(Id::Text(b"00fedcba98765432")),
            message: Some(b"almost g"),
            fields: &[&own[..], &origin].concat(),
            ..common
        };
        let of_end = Record {
            time: Some(6),
            phase: Phase::End,
            id: Some(Id::Text(b"0000000000000009")),
            parent: Some(Id::Text(b"0000000000000008")),
            fields: &[(b"duration_ns", Value::U64(1000))],
            ..common
        };
        let of_own = Record {
            time: Some(7),
            phase: Phase::Point,
            event_type: Some(b"own"),
            fields: &[(b"thread", Value::U32(1)), (b"file", Value::Double(0.5)), origin[4]],
            ..common
        };
        let mut expected = Vec::new();
        for record in [&of_point, &of_end, &of_own, &of_point] {
            encoder.record(record, &mut expected).unwrap();
        }
        assert_eq!(frames, expected);
    }

    #[test]
    fn an_empty_message_is_a_field_and_what_cannot_be_named_is_missed() {
        let empty = tests::message((END, 1), (0, 0), 0, &[0, field(0, tag::TEXT, 0)]);
        let long_type = tests::message((POINT, 2), (2, 0), 0, &[]);
        let long_field = tests::message((POINT, 3), (1, 0), 0, &[field(2, tag::BOOLEAN, 0)]);
        let no_site = tests::message((POINT, 4), (3, 0), 0, &[]);
        let (frames, mut encoder) = transcribed(&[empty, long_type, long_field, no_site], &Thread::default());
        let mut expected = Vec::new();
        let record = Record {
            time: Some(1),
            phase: Phase::End,
            severity: Some(b"warning"),
            event_type: Some(b"order"),
            message: Some(b""),
            ..Record::default()
        };
        encoder.record(&record, &mut expected).unwrap();
        (2..=4).for_each(|time| encoder.missed(1, time, &mut expected));
        assert_eq!(frames, expected);
    }

    #[test]
    fn ids_are_written_in_all_their_digits() {
        for id in [1, 0x9a, u64::MAX, 0x0123_4567_89ab_cdef] {
            assert_eq!(message::span_id(id), *format!("{id:016x}").as_bytes());
        }
        for value in [0, 127, 128, 16383, 16384, u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(varint_len(value), out.len());
        }
    }
}
