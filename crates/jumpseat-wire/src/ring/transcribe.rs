//! Items of a chunk as frames: what the program does with its rings, and the agent with those of a program that is gone.

use super::merge::Item;
use super::message::{self, END, Message, START};
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
        let site = site.as_ref();
        self.fields.clear();
        let (mut text, mut packed) = (None, message.fields);
        while let Some((index, value)) = message::next_field(&mut packed) {
            match (site.fields.get(index).map_or(&b""[..], |name| name), value) {
                (b"message", Value::Text(value)) if text.is_none() => text = Some(value),
                field => self.fields.push(field),
            }
        }
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
            id: (message.span != 0).then_some(Id::U64(message.span)),
            parent: (message.parent != 0).then_some(Id::U64(message.parent)),
            message: text,
            fields: &self.fields,
        };
        encoder.record(&record, out)
    }
}
