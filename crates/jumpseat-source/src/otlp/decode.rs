//! A whole request: its resources, their scopes, and the spans or log records in them; of metrics, `points` reads all.
//!
//! **Cost:** two passes over what surrounds the spans (a resource may stand behind its spans), one over the spans
//! themselves; no allocation once warm.

use super::json::LeftOut;
use super::log;
use super::points::Points;
use super::record::{ScopeContext, Workspace};
use super::resource::{Resources, Sender};
use super::span;
use super::value::{AttributeLimits, Attributes};
use super::wire::{Fields, Place};
use crate::delivery::Reason;
use crate::event::Refusal;
use crate::lanes::{Arrival, LaneId, Lanes};
use crate::registry::SourceRefused;
use crate::series::Series;

/// What a request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Spans: an `ExportTraceServiceRequest`.
    Traces,
    /// Log records: an `ExportLogsServiceRequest`. Both are alike down to the spans and log records.
    Logs,
    /// Data points: an `ExportMetricsServiceRequest`.
    Metrics,
}

/// What became of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Spans, log records or data points taken in.
    pub accepted: u64,
    /// Spans, log records or data points refused.
    pub rejected: u64,
    /// Of the data points taken in, those that went into overflow instances.
    pub overflowed: u64,
    /// Nothing was taken in, as the core or the disk is behind: it may be sent again.
    pub is_busy: bool,
    /// Why the first was refused.
    pub first: Option<Refusal>,
    /// Those of the refused that could not be read from JSON.
    pub left_out: LeftOut,
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
    workspace: Workspace,
    spans: span::Scratch,
    points: Points,
}

/// A request on its way.
#[derive(Clone, Copy)]
struct ExportRequest<'a> {
    arrival: Arrival,
    signal: Signal,
    body: &'a [u8],
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
        limits: AttributeLimits,
    ) -> Result<Decoder, SourceRefused> {
        Ok(Decoder {
            resources: Resources::new(&mut lanes, source, by_instance, address)?,
            workspace: Workspace::new(&mut lanes, limits),
            spans: span::Scratch::default(),
            points: Points::default(),
            lanes,
        })
    }

    /// Has metrics go there; else they go nowhere.
    pub fn set_series(&mut self, series: Series) {
        self.points.series = series;
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

    /// Counts spans or log records that could not be read.
    pub fn leave_out(&mut self, outcome: &mut Outcome, left_out: LeftOut) {
        for _ in 0..left_out.count {
            self.lanes.reject(self.resources.default, Reason::Syntax);
        }
        outcome.rejected += left_out.count;
        outcome.left_out = left_out;
    }

    /// Takes in a request and hands its records over. The connection is what the loss is told apart by.
    pub fn request(&mut self, arrival: Arrival, signal: Signal, body: &[u8]) -> Outcome {
        let request = ExportRequest { arrival, signal, body };
        let mut outcome = Outcome::default();
        if signal == Signal::Metrics {
            let Decoder { points, lanes, resources, .. } = self;
            // What is refused is counted at the default source: who sends metrics only needs no source of records.
            lanes.bytes(resources.default, body.len());
            let reject = |reason| lanes.reject(resources.default, reason);
            match points.take(arrival, body, &mut outcome, reject) {
                Some(Ok(())) => {}
                Some(Err(refusal)) => {
                    lanes.reject(resources.default, refusal.reason);
                    outcome.broken = Some(refusal);
                }
                None => outcome.is_busy = true,
            }
            lanes.flush();
            return outcome;
        }
        // The count goes on over requests of a connection.
        let lost = self.lanes.lost(arrival.conn);
        let mut fields = Fields::of(body, 0..body.len());
        let result = loop {
            let at = fields.at();
            let place = match fields.next() {
                Ok(Some((1, wire))) => wire.place(at),
                Ok(Some(_)) => continue,
                Ok(None) => break Ok(()),
                Err(refusal) => Err(refusal),
            };
            if let Err(refusal) = place.and_then(|place| self.resource(request, place, &mut outcome)) {
                // Behind something that is no protobuf nothing can be found any more.
                break Err(refusal);
            }
        };
        if let Err(refusal) = result {
            self.lanes.reject(self.resources.default, refusal.reason);
            outcome.broken = Some(refusal);
        }
        // The answer says what was lost, so nothing may wait.
        self.lanes.flush();
        outcome.lost = self.lanes.lost(arrival.conn) - lost;
        outcome
    }

    /// A `ResourceSpans` or `ResourceLogs`.
    fn resource(
        &mut self,
        request: ExportRequest<'_>,
        place: Place,
        outcome: &mut Outcome,
    ) -> Result<(), Refusal> {
        let body = request.body;
        // The resource may stand behind its spans, so it is looked for first.
        let mut sender = Sender { lane: self.resources.default, instance: None };
        let mut fields = Fields::of(body, place.clone());
        loop {
            let at = fields.at();
            match fields.next()? {
                Some((1, wire)) => {
                    sender = self.resources.lane(
                        &mut self.lanes,
                        body,
                        wire.place(at)?,
                        &mut self.workspace.event,
                    )?;
                }
                Some(_) => {}
                None => break,
            }
        }
        self.lanes.bytes(sender.lane, place.len());
        let mut fields = Fields::of(body, place);
        loop {
            let at = fields.at();
            match fields.next()? {
                Some((2, wire)) => self.scope(request, &sender, wire.place(at)?, outcome)?,
                Some(_) => {}
                None => return Ok(()),
            }
        }
    }

    /// A `ScopeSpans` or `ScopeLogs`.
    fn scope(
        &mut self,
        request: ExportRequest<'_>,
        sender: &Sender,
        place: Place,
        outcome: &mut Outcome,
    ) -> Result<(), Refusal> {
        let ExportRequest { arrival, signal, body } = request;
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
        let (lane, instance) = (sender.lane, sender.instance.as_deref());
        let context = ScopeContext { arrival, lane, body, instance, scope: scope.as_deref() };
        let mut fields = Fields::of(body, place);
        loop {
            let at = fields.at();
            match fields.next()? {
                Some((2, wire)) => {
                    let place = wire.place(at)?;
                    let Decoder { lanes, workspace, spans, .. } = self;
                    let taken = match signal {
                        Signal::Traces => span::take(lanes, workspace, spans, context, place),
                        Signal::Logs | Signal::Metrics => log::take(lanes, workspace, context, place),
                    };
                    match taken {
                        Ok(()) => outcome.accepted += 1,
                        Err(refusal) => {
                            self.lanes.reject(lane, refusal.reason);
                            // It does not spoil the others: its length tells where the next one begins.
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
        let Workspace { event, limits, .. } = &mut self.workspace;
        event.clear();
        let text = Attributes::new(body, event, *limits).text(name)?;
        // A copy, as the event is used again for each span of the scope.
        Ok(Some(event.text(body, text).to_vec()))
    }
}
