//! Items of a chunk as frames: what the program does with its rings, and the agent with those of a program that is gone.

use super::merge::Item;
use super::message::{self, DURATION, END, Message, START};
use super::site::Site;
use crate::encode::{EncodeError, Encoder, Id, Phase, Record, Value};

/// Writes items of a chunk as frames.
#[derive(Debug)]
pub struct Transcriber<'a, S> {
    /// What messages refer to.
    sites: &'a [S],
    /// The time of losses that have none.
    now: i64,
    /// Memory to use again.
    fields: Vec<(&'a [u8], Value<'a>)>,
}

impl<'a, S: AsRef<Site>> Transcriber<'a, S> {
    /// Messages refer to these sites; it is `now`, in nanoseconds since the epoch.
    pub fn new(sites: &'a [S], now: i64) -> Transcriber<'a, S> {
        Transcriber { sites, now, fields: Vec::new() }
    }

    /// Appends one RECORD or MISSED frame, and before it the names it is the first to use. What cannot be sent is
    /// missed.
    ///
    /// # Errors
    /// The connection can take no more names: another one can.
    pub fn put(
        &mut self,
        item: &Item<'a>,
        encoder: &mut Encoder,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let message = match item {
            Item::Missed(count, time) => {
                encoder.missed(*count, time.unwrap_or(self.now), out);
                return Ok(());
            }
            Item::Message(message) => message,
        };
        match self.record(message, encoder, out) {
            Err(error @ EncodeError::TooManyNames) => return Err(error),
            // Such a name can never be sent: the record is lost, and the connection goes on.
            Err(_) => encoder.missed(1, message.time, out),
            Ok(()) => {}
        }
        Ok(())
    }

    fn record(
        &mut self,
        message: &Message<'a>,
        encoder: &mut Encoder,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        // The table had no room for it.
        let Some(site) = self.sites.get(message.site as usize) else { return Err(EncodeError::Name) };
        let site: &'a Site = site.as_ref();
        self.fields.clear();
        let (mut text, mut packed) = (None, message.fields);
        while let Some((index, value)) = message::next_field(&mut packed) {
            let unknown: &[u8] = if index == DURATION.into() { b"duration_ns" } else { b"" };
            match (site.fields.get(index).map_or(unknown, |name| name), value) {
                (b"message", Value::Text(value)) if text.is_none() => text = Some(value),
                field => self.fields.push(field),
            }
        }
        if message.kind != END {
            self.origin(site, message);
        }
        let (mut id, mut parent) = ([0; 16], [0; 16]);
        let record = Record {
            time: Some(message.time),
            phase: match message.kind {
                START => Phase::Start,
                END => Phase::End,
                _ => Phase::Point,
            },
            source: None,
            event_type: Some(&site.name),
            severity: Some(site.severity.word().as_bytes()),
            id: hex(message.span, &mut id),
            parent: hex(message.parent, &mut parent),
            message: text,
            fields: &self.fields,
        };
        encoder.record(&record, out)
    }

    /// Adds where a message is from. The end of a span says no more than its start. Fields of the program's own go before.
    fn origin(&mut self, site: &'a Site, message: &Message<'a>) {
        let text = |text: &'a [u8]| (!text.is_empty()).then_some(Value::Text(text));
        let thread = message.thread;
        let origin: [(&[u8], Option<Value<'a>>); 5] = [
            (b"target", text(&site.target)),
            (b"file", text(&site.file)),
            (b"line", (site.line != 0).then_some(Value::U32(site.line))),
            (b"thread", thread.and_then(|thread| text(&thread.name))),
            (b"thread_id", thread.filter(|thread| thread.id != 0).map(|thread| Value::U64(thread.id))),
        ];
        for (name, value) in origin {
            if let Some(value) = value
                && !site.fields.iter().any(|field| **field == *name)
            {
                self.fields.push((name, value));
            }
        }
    }
}

/// An id as OpenTelemetry writes it, so that all spans have ids of one type; 0 stands for none.
fn hex(id: u64, digits: &mut [u8; 16]) -> Option<Id<'_>> {
    for (place, digit) in digits.iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[(id >> (4 * place) & 0xf) as usize];
    }
    (id != 0).then_some(Id::Text(digits))
}
