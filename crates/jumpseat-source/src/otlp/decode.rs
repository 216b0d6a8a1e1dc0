//! A whole request: its resources, their scopes, and the spans or log records in them.
//!
//! **Cost:** two passes over what surrounds the spans (a resource may stand behind its spans), one over the spans
//! themselves; no allocation once warm.

use super::log;
use super::resource::Resources;
use super::span::{self, Scratch};
use super::value::{Attributes, Limits};
use super::wire::{Fields, Place};
use crate::delivery::Reason;
use crate::event::{Event, Refusal, Text};
use crate::lanes::{ConnId, InternedField, LaneId, Lanes};
use crate::registry::SourceRefused;
use pcp_model::{Timestamp, ValueType};

/// What a request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Spans: an `ExportTraceServiceRequest`.
    Traces,
    /// Log records: an `ExportLogsServiceRequest`. Both are alike down to the spans and log records.
    Logs,
}

/// What became of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Spans or log records taken in.
    pub accepted: u64,
    /// Spans or log records refused.
    pub rejected: u64,
    /// Why the first was refused.
    pub first: Option<Refusal>,
    /// Records of accepted ones that were lost because the core was behind. They are counted as missed.
    pub lost: u64,
    /// What was wrong around the spans or log records, so that the rest could not be read.
    pub broken: Option<Refusal>,
}

/// Turns requests into records.
pub struct Decoder {
    /// Where records go.
    pub lanes: Lanes,
    resources: Resources,
    pub(super) limits: Limits,
    pub(super) event: Event,
    pub(super) scratch: Scratch,
    pub(super) names: Names,
}

/// The fields that OTLP itself gives records, looked up once.
pub(super) struct Names {
    pub trace_id: InternedField,
    pub kind: InternedField,
    pub status: InternedField,
    pub duration: InternedField,
    pub scope: InternedField,
    pub trace_state: InternedField,
    pub dropped_attributes: InternedField,
    pub dropped_events: InternedField,
    pub dropped_links: InternedField,
}

/// Where a span or log record is, and to whom it belongs.
#[derive(Clone, Copy)]
pub(super) struct Context {
    pub conn: ConnId,
    pub lane: LaneId,
    pub signal: Signal,
}

impl Decoder {
    /// A decoder whose records go to `lanes`. `source`: the source of what names no service; `by_instance`: whether
    /// each instance of a service is a source; `address`: where this listens.
    ///
    /// # Errors
    /// The default source cannot be.
    pub fn new(
        mut lanes: Lanes,
        source: &str,
        by_instance: bool,
        address: &str,
        limits: Limits,
    ) -> Result<Decoder, SourceRefused> {
        Ok(Decoder {
            resources: Resources::new(&mut lanes, source, by_instance, address)?,
            names: Names::new(&mut lanes),
            lanes,
            limits,
            event: Event::default(),
            scratch: Scratch::default(),
        })
    }

    /// The source of what cannot be attributed to a sender.
    pub fn default_lane(&self) -> LaneId {
        self.resources.default
    }

    /// Counts a request that could not be decoded at all.
    pub fn refuse(&mut self, bytes: usize, reason: Reason) {
        let lane = self.resources.default;
        self.lanes.bytes(lane, bytes);
        self.lanes.reject(lane, reason);
    }

    /// Takes in a request and hands its records over. `conn` is what the loss is told apart by.
    pub fn request(&mut self, conn: ConnId, signal: Signal, body: &[u8]) -> Outcome {
        let mut outcome = Outcome::default();
        let lost = self.lanes.lost(conn);
        let mut fields = Fields::of(body, 0..body.len());
        let result = loop {
            let at = fields.at();
            let place = match fields.next() {
                Ok(Some((1, wire))) => wire.place(at),
                Ok(Some(_)) => continue,
                Ok(None) => break Ok(()),
                Err(refusal) => Err(refusal),
            };
            if let Err(refusal) =
                place.and_then(|place| self.resource(conn, signal, body, place, &mut outcome))
            {
                break Err(refusal);
            }
        };
        if let Err(refusal) = result {
            self.lanes.reject(self.resources.default, refusal.reason);
            outcome.broken = Some(refusal);
        }
        self.lanes.flush();
        outcome.lost = self.lanes.lost(conn) - lost;
        outcome
    }

    /// A `ResourceSpans` or `ResourceLogs`.
    fn resource(
        &mut self,
        conn: ConnId,
        signal: Signal,
        body: &[u8],
        place: Place,
        outcome: &mut Outcome,
    ) -> Result<(), Refusal> {
        let mut lane = self.resources.default;
        let mut fields = Fields::of(body, place.clone());
        loop {
            let at = fields.at();
            match fields.next()? {
                Some((1, wire)) => {
                    lane = self.resources.lane(&mut self.lanes, body, wire.place(at)?, &mut self.event)?;
                }
                Some(_) => {}
                None => break,
            }
        }
        self.lanes.bytes(lane, place.len());
        let context = Context { conn, lane, signal };
        let mut fields = Fields::of(body, place);
        loop {
            let at = fields.at();
            match fields.next()? {
                Some((2, wire)) => self.scope(context, body, wire.place(at)?, outcome)?,
                Some(_) => {}
                None => return Ok(()),
            }
        }
    }

    /// A `ScopeSpans` or `ScopeLogs`.
    fn scope(
        &mut self,
        context: Context,
        body: &[u8],
        place: Place,
        outcome: &mut Outcome,
    ) -> Result<(), Refusal> {
        let mut scope = None;
        let mut fields = Fields::of(body, place.clone());
        loop {
            let at = fields.at();
            match fields.next()? {
                Some((1, wire)) => scope = self.scope_name(body, wire.place(at)?)?,
                Some(_) => {}
                None => break,
            }
        }
        let scope = scope.as_deref();
        let mut fields = Fields::of(body, place);
        loop {
            let at = fields.at();
            match fields.next()? {
                Some((2, wire)) => {
                    let place = wire.place(at)?;
                    let taken = match context.signal {
                        Signal::Traces => span::take(self, context, body, place, scope),
                        Signal::Logs => log::take(self, context, body, place, scope),
                    };
                    match taken {
                        Ok(()) => outcome.accepted += 1,
                        Err(refusal) => {
                            self.lanes.reject(context.lane, refusal.reason);
                            outcome.rejected += 1;
                            outcome.first.get_or_insert(refusal);
                        }
                    }
                }
                Some(_) => {}
                None => return Ok(()),
            }
        }
    }

    /// The name of an `InstrumentationScope`, if it has one.
    fn scope_name(&mut self, body: &[u8], place: Place) -> Result<Option<Vec<u8>>, Refusal> {
        let mut name = None;
        let mut fields = Fields::of(body, place);
        loop {
            let at = fields.at();
            match fields.next()? {
                Some((1, wire)) => name = Some(wire.place(at)?),
                Some(_) => {}
                None => break,
            }
        }
        let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(None) };
        self.event.clear();
        let text = Attributes::new(body, &mut self.event, self.limits).text(name)?;
        Ok(Some(self.event.text(body, text).to_vec()))
    }

    /// Whether the event's fields in this range fit a record, next to texts of `others` bytes.
    pub(super) fn fits(&self, body: &[u8], fields: std::ops::Range<usize>, others: usize) -> bool {
        /// More than what OTLP itself adds to a record.
        const HEAD: usize = 2048;
        let fields = self.event.fields.get(fields).unwrap_or_default();
        let sum: usize = fields
            .iter()
            // The name, as it is part of the value where a field has no metric.
            .map(|field| self.event.param(body, field.value).packed_len() + field.name.len() + 8)
            .sum();
        sum + others + HEAD <= pcp_event::batch::MAX_RECORD
    }
}

impl Names {
    fn new(lanes: &mut Lanes) -> Names {
        let mut text = |name: &str| lanes.intern(name.as_bytes(), ValueType::String);
        let (trace_id, kind, status) = (text("trace_id"), text("kind"), text("status"));
        let (scope, trace_state) = (text("scope"), text("trace_state"));
        let mut dropped = |name: &str| lanes.intern(name.as_bytes(), ValueType::U32);
        Names {
            dropped_attributes: dropped("dropped_attributes"),
            dropped_events: dropped("dropped_events"),
            dropped_links: dropped("dropped_links"),
            duration: lanes.intern(b"duration_ns", ValueType::U64),
            trace_id,
            kind,
            status,
            scope,
            trace_state,
        }
    }
}

/// A time as OTLP has it.
#[inline]
pub(super) fn time(nanos: u64) -> Timestamp {
    // The quotient fits 63 bits, the remainder 30.
    Timestamp::new((nanos / 1_000_000_000) as i64, (nanos % 1_000_000_000) as u32)
}

/// The bytes of an id as hexadecimal text; `None` unless there are as many as there must be and one is not zero.
#[inline]
pub(super) fn id<const BYTES: usize, const TEXT: usize>(body: &[u8], place: &Place) -> Option<[u8; TEXT]> {
    const { assert!(TEXT == 2 * BYTES) };
    let bytes: &[u8; BYTES] = body.get(place.clone())?.try_into().ok()?;
    let mut text = [0; TEXT];
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&super::value::hex(*byte));
    }
    bytes.iter().any(|byte| *byte != 0).then_some(text)
}

/// An empty text.
pub(super) const EMPTY: Text = Text::of_input(0, 0);
