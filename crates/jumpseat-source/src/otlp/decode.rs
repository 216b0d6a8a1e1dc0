//! A whole request: its resources, their scopes, and the spans or log records in them; of metrics, `points` reads all.
//!
//! **Cost:** two passes over what surrounds the spans (a resource may stand behind its spans), one over the spans
//! themselves; no allocation once warm.

use std::sync::Arc;

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
use crate::guard::tokens::Pass;
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

    /// Says in whose name those may send who send from now on, of whom [`Lanes::set_sender`] has told.
    pub(super) fn set_pass(&mut self, pass: Option<&Arc<Pass>>) {
        self.lanes.set_pass(pass.cloned());
        // A source of its own that cannot be is one more that goes to the default one.
        let own = pass.and_then(|pass| self.lanes.source(pass.own.as_bytes()).ok());
        self.resources.own = own.unwrap_or(self.resources.default);
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
            let pass = lanes.pass();
            // What is refused is counted at the default source: who sends metrics only needs no source of records.
            lanes.bytes(resources.default, body.len());
            let reject = |reason| lanes.reject(resources.default, reason);
            match points.take(arrival, body, pass.as_deref(), &mut outcome, reject) {
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
        let mut sender = Sender { lane: self.resources.own, instance: None };
        let mut schema_url = 0..0;
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
                Some((3, wire)) => schema_url = wire.place(at)?,
                Some(_) => {}
                None => break,
            }
        }
        let schema_url = self.kept_text(body, schema_url)?;
        self.lanes.bytes(sender.lane, place.len());
        let mut fields = Fields::of(body, place);
        loop {
            let at = fields.at();
            match fields.next()? {
                Some((2, wire)) => {
                    self.scope(request, &sender, schema_url.as_deref(), wire.place(at)?, outcome)?;
                }
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
        resource_schema_url: Option<&[u8]>,
        place: Place,
        outcome: &mut Outcome,
    ) -> Result<(), Refusal> {
        let ExportRequest { arrival, signal, body } = request;
        let (mut scope, mut schema_url) = (Scope::default(), 0..0);
        let mut fields = Fields::of(body, place.clone());
        loop {
            let at = fields.at();
            match fields.next()? {
                Some((1, wire)) => scope = self.scope_names(body, wire.place(at)?)?,
                Some((3, wire)) => schema_url = wire.place(at)?,
                Some(_) => {}
                None => break,
            }
        }
        let (lane, instance) = (sender.lane, sender.instance.as_deref());
        let schema_url = self.kept_text(body, schema_url)?;
        let context = ScopeContext {
            arrival,
            lane,
            body,
            instance,
            scope: scope.name.as_deref(),
            version: scope.version.as_deref(),
            schema_url: schema_url.as_deref(),
            resource_schema_url,
        };
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

    /// What an `InstrumentationScope` is called.
    fn scope_names(&mut self, body: &[u8], place: Place) -> Result<Scope, Refusal> {
        let (mut name, mut version) = (0..0, 0..0);
        let mut fields = Fields::of(body, place);
        loop {
            let at = fields.at();
            match fields.next()? {
                Some((1, wire)) => name = wire.place(at)?,
                Some((2, wire)) => version = wire.place(at)?,
                Some(_) => {}
                None => break,
            }
        }
        Ok(Scope { name: self.kept_text(body, name)?, version: self.kept_text(body, version)? })
    }

    /// A text that is with many records; `None` for an empty one.
    fn kept_text(&mut self, body: &[u8], place: Place) -> Result<Option<Vec<u8>>, Refusal> {
        if place.is_empty() {
            return Ok(None);
        }
        let Workspace { event, limits, .. } = &mut self.workspace;
        event.clear();
        let text = Attributes::new(body, event, *limits).text(place)?;
        // A copy, as the event is used again for each span of the scope.
        Ok(Some(event.text(body, text).to_vec()))
    }
}

/// The name of a scope, and its version.
#[derive(Default)]
struct Scope {
    name: Option<Vec<u8>>,
    version: Option<Vec<u8>>,
}
