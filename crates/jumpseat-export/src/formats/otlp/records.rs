//! Event records as OTLP's spans and log records.
//!
//! ```text
//! START .. POINTs with `otel.span_event` .. END, of one id  -->  a span with its events
//! END alone                                                 -->  a span that began `duration_ns` before
//! all other POINTs                                          -->  log records
//! ```
//!
//! The fields that the receiver of OTLP gives records ([`own`]) go back to where they were, the first of each name; all others are
//! attributes, by the names that senders gave them (the label `field`). A source that is a service's has its resource in the label
//! [`RESOURCE`]; of any other it is made of the host's labels and its own, and its name.
//!
//! **Invariant:** what is open is bounded; what has waited longest goes first, and is counted.
//!
//! **Cost:** a record is taken apart into values of its own, and so some allocations; a million points are metrics, not records.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use jumpseat_wire::severity::Severity;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status, span};
use pcp_client::{LabelTarget, ValuesRef};
use pcp_event::EventFlags;
use pcp_model::{Inst, Label, LabelFlags, PM_IN_NULL, Pmid, Timestamp, Value};
use pcp_pdu::TypedRef;
use prost::Message as _;

use super::attribute::{any, attribute, label, overlay, text};
use super::points::{instance_labels, nanos};
use super::transport::Signal;
use crate::formats::source::Source;
use crate::formats::text::{Record, records};

/// Records that make a request, and bytes of them: receivers take four megabytes, mostly.
const ENOUGH: usize = 2048;
const ENOUGH_BYTES: usize = 2 << 20;
/// Most spans that have begun and not ended, and most events of one.
const MAX_OPEN: usize = 1 << 16;
const MAX_EVENTS: usize = 1024;
/// Most names of fields that are remembered; then they are asked for anew.
const MAX_NAMES: usize = 1 << 16;

/// The label of a source with the resource that sends to it: a JSON text of `{"attributes":[[name,value],...]}`.
pub const RESOURCE: &str = "otel_resource";

/// Names of the fields that the receiver of OTLP gives records besides attributes.
pub mod own {
    #![allow(missing_docs, reason = "docs/otel-out.md has what they are")]
    pub const TYPE: &str = "type";
    pub const MESSAGE: &str = "message";
    pub const SEVERITY: &str = "severity";
    pub const SPAN_ID: &str = "span_id";
    pub const PARENT_ID: &str = "parent_id";
    pub const TRACE_ID: &str = "trace_id";
    pub const KIND: &str = "kind";
    pub const STATUS: &str = "status";
    pub const DURATION: &str = "duration_ns";
    pub const INSTANCE: &str = "service.instance.id";
    pub const SCOPE: &str = "scope";
    pub const TRACE_STATE: &str = "trace_state";
    pub const DROPPED_ATTRIBUTES: &str = "dropped_attributes";
    pub const DROPPED_EVENTS: &str = "dropped_events";
    pub const DROPPED_LINKS: &str = "dropped_links";
    pub const LINK: &str = "link";
    pub const SPAN_EVENT: &str = "otel.span_event";
    pub const FLAGS: &str = "otel.flags";
    pub const SEVERITY_NUMBER: &str = "otel.severity_number";
    pub const SEVERITY_TEXT: &str = "otel.severity_text";
    pub const OBSERVED: &str = "otel.observed_time";
    pub const SCOPE_VERSION: &str = "otel.scope.version";
    pub const SCHEMA_URL: &str = "otel.schema_url";
    pub const RESOURCE_SCHEMA_URL: &str = "otel.resource_schema_url";
    pub const LINK_TRACE_STATE: &str = "otel.link.trace_state";
    pub const LINK_FLAGS: &str = "otel.link.flags";
    pub const OTHER: &str = "other";
    pub const LINK_DROPPED: &str = "otel.link.dropped_attributes";
}

/// Records on their way out.
#[derive(Default)]
pub(super) struct Records {
    host: Vec<KeyValue>,
    /// What senders call the fields.
    names: HashMap<Pmid, Arc<str>>,
    /// Who the records of a metric's instance are of, in the version of its domain.
    senders: HashMap<(usize, Inst), (u64, Arc<Sender>)>,
    open: Open,
    spans: Grouped<Span>,
    logs: Grouped<LogRecord>,
    /// Bytes of both.
    bytes: usize,
    /// Requests that are full, in order.
    pub ready: Vec<(Signal, Ready)>,
    /// What there is to tell of.
    pub counts: RecordCounts,
}

/// What did not become a span or a log record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordCounts {
    /// Records that the source said were lost.
    pub missed: u64,
    /// Spans that have begun and did not end.
    pub unfinished: u64,
    /// Arrays that are none.
    pub malformed: u64,
}

/// Who records are of.
#[derive(Debug, Default, PartialEq)]
struct Sender {
    resource: Resource,
    /// Whether the resource is what a sender said, so that nothing is to be added to its records.
    is_sent: bool,
}

/// The request for traces or logs, and how many spans or log records it has.
pub(super) type Ready = (Vec<u8>, u64);

impl Records {
    /// For records of sources on a host with these attributes.
    pub(super) fn new(host: &[KeyValue]) -> Records {
        Records { host: host.to_vec(), ..Records::default() }
    }

    /// Takes in the records of the metric at a place.
    pub(super) fn add(&mut self, source: &mut Source, at: usize, time: Timestamp, values: ValuesRef<'_>) {
        let value_type = source.metrics[at].desc.value_type;
        for (inst, value) in values.iter() {
            let Ok(TypedRef::Events(kind, bytes)) = value.typed(value_type) else {
                self.counts.malformed += 1;
                continue;
            };
            match records(kind, bytes) {
                Ok(records) => records.for_each(|record| self.record(source, (at, inst), time, &record)),
                Err(_) => self.counts.malformed += 1,
            }
        }
    }

    /// Whether no record has come, or each of them has gone.
    pub(super) fn is_empty(&self) -> bool {
        self.spans.count == 0 && self.logs.count == 0 && self.open.spans.is_empty() && self.ready.is_empty()
    }

    /// Whether there is enough for a request.
    fn is_enough(&self) -> bool {
        self.spans.count >= ENOUGH || self.logs.count >= ENOUGH
    }

    /// The request for the spans that there are by now.
    pub(super) fn take_spans(&mut self) -> Option<Ready> {
        let (groups, count) = self.spans.take()?;
        let resource_spans = groups.into_iter().map(|(sender, scopes)| ResourceSpans {
            resource: Some(sender.resource.clone()),
            schema_url: scopes
                .first()
                .map(|(scope, _)| scope.resource_schema_url.clone())
                .unwrap_or_default(),
            scope_spans: scopes
                .into_iter()
                .map(|(scope, spans)| ScopeSpans {
                    scope: scope.message(),
                    schema_url: scope.schema_url,
                    spans,
                })
                .collect(),
        });
        Some((ExportTraceServiceRequest { resource_spans: resource_spans.collect() }.encode_to_vec(), count))
    }

    /// The request for the log records that there are by now.
    pub(super) fn take_logs(&mut self) -> Option<Ready> {
        let (groups, count) = self.logs.take()?;
        let resource_logs = groups.into_iter().map(|(sender, scopes)| ResourceLogs {
            resource: Some(sender.resource.clone()),
            schema_url: scopes
                .first()
                .map(|(scope, _)| scope.resource_schema_url.clone())
                .unwrap_or_default(),
            scope_logs: scopes
                .into_iter()
                .map(|(scope, log_records)| ScopeLogs {
                    scope: scope.message(),
                    schema_url: scope.schema_url,
                    log_records,
                })
                .collect(),
        });
        Some((ExportLogsServiceRequest { resource_logs: resource_logs.collect() }.encode_to_vec(), count))
    }

    /// Nothing more will come: what has begun does not end any more.
    pub(super) fn finish(&mut self) {
        self.counts.unfinished += self.open.spans.len() as u64;
        self.open = Open::default();
    }

    fn record(&mut self, source: &mut Source, of: (usize, Inst), sampled: Timestamp, record: &Record<'_>) {
        if let Some(missed) = record.missed() {
            self.counts.missed += u64::from(missed.unsigned_abs());
            return;
        }
        let sender = self.sender(source, of, sampled);
        let mut fields = self.fields(source, record);
        let (time, flags) = (nanos(record.time), record.flags);
        let id = flags.contains(EventFlags::ID).then(|| fields.id());
        let key = id.clone().map(|id| (of, id));
        if flags.contains(EventFlags::START) {
            if let Some(key) = key {
                self.counts.unfinished +=
                    self.open.begin(key, Begun { turn: 0, time, fields, events: Vec::new(), beyond: 0 });
            }
            return;
        }
        if flags.contains(EventFlags::END) {
            let begun = key.and_then(|key| self.open.spans.remove(&key));
            let (scope, span) = span(time, id.unwrap_or_default(), flags, fields, begun, sender.is_sent);
            let len = span.encoded_len();
            self.spans.push(sender, scope, span);
            return self.cut(len);
        }
        if fields.number(own::SPAN_EVENT).is_some()
            && let Some(begun) = key.and_then(|key| self.open.spans.get_mut(&key))
        {
            begun.add(event(time, fields, sender.is_sent));
            return;
        }
        let (scope, log) = log(time, id, fields, sender.is_sent);
        let len = log.encoded_len();
        self.logs.push(sender, scope, log);
        self.cut(len);
    }

    /// Makes a request of what there is, if that is enough with so many bytes more.
    fn cut(&mut self, more: usize) {
        self.bytes += more;
        if self.bytes >= ENOUGH_BYTES || self.is_enough() {
            self.bytes = 0;
            let spans = self.take_spans().map(|ready| (Signal::Traces, ready));
            let logs = self.take_logs().map(|ready| (Signal::Logs, ready));
            self.ready.extend(spans.into_iter().chain(logs));
        }
    }

    /// The fields by the names that senders gave them.
    fn fields(&mut self, source: &mut Source, record: &Record<'_>) -> Fields {
        if self.names.len() >= MAX_NAMES {
            self.names.clear();
        }
        let names = &mut self.names;
        let fields = record.params().map(|param| {
            let name = names.entry(param.pmid).or_insert_with(|| sent_name(source, param.pmid).into());
            (Arc::clone(name), Value::from(param.value))
        });
        // What came after there were as many fields as there may be is `name=value` in one for all.
        let unfolded = fields.map(|(name, value)| match (&*name, &value) {
            (own::OTHER, Value::String(text)) => {
                let text = String::from_utf8_lossy(text);
                let (name, value) = text.split_once('=').unwrap_or((own::OTHER, &text));
                (name.into(), Value::from(value.to_owned()))
            }
            _ => (name, value),
        });
        Fields(unfolded.collect())
    }

    fn sender(&mut self, source: &mut Source, of: (usize, Inst), time: Timestamp) -> Arc<Sender> {
        let (at, inst) = of;
        let indom = source.metrics[at].desc.indom;
        let version = match inst {
            PM_IN_NULL => 0,
            _ => source.instances.version(&mut source.context, indom, time),
        };
        if let Some((known, sender)) = self.senders.get(&of)
            && *known == version
        {
            return Arc::clone(sender);
        }
        let name = source.instance(at, inst, time).map(str::to_owned);
        let labels = match inst {
            PM_IN_NULL => Vec::new(),
            _ => instance_labels(source, indom, inst, time),
        };
        let sender = Arc::new(sender(name.as_deref(), labels, &self.host));
        if self.senders.len() >= MAX_NAMES {
            self.senders.clear();
        }
        self.senders.insert(of, (version, Arc::clone(&sender)));
        sender
    }
}

/// The fields of a record that are still to be used.
struct Fields(Vec<(Arc<str>, Value)>);

impl Fields {
    /// Takes the first of this name.
    fn take(&mut self, name: &str) -> Option<Value> {
        let at = self.0.iter().position(|(known, _)| **known == *name)?;
        Some(self.0.remove(at).1)
    }

    fn text(&mut self, name: &str) -> Option<String> {
        match self.take(name)? {
            Value::String(text) => Some(String::from_utf8_lossy(&text).into_owned()),
            other => Some(display(&other)),
        }
    }

    fn number(&mut self, name: &str) -> Option<u64> {
        match self.take(name)? {
            Value::U32(number) => Some(number.into()),
            Value::U64(number) => Some(number),
            Value::I32(number) => u64::try_from(number).ok(),
            Value::I64(number) => u64::try_from(number).ok(),
            _ => None,
        }
    }

    fn count(&mut self, name: &str) -> u32 {
        self.number(name).map_or(0, |number| u32::try_from(number).unwrap_or(u32::MAX))
    }

    /// What the flag ID speaks of: the first parameter.
    fn id(&mut self) -> String {
        match self.0.is_empty() {
            true => String::new(),
            false => display(&self.0.remove(0).1),
        }
    }

    /// What is left. Integers of OTLP have 64 bits: those of 32 are booleans, if a sender of OTLP has said it.
    fn attributes(self, is_sent: bool) -> Vec<KeyValue> {
        let of = |(name, value): (Arc<str>, Value)| match value {
            Value::U32(bit @ (0 | 1)) if is_sent => Some(attribute(&name, Any::BoolValue(bit == 1))),
            value => Some(attribute(&name, any(&value)?)),
        };
        self.0.into_iter().filter_map(of).collect()
    }

    fn scope(&mut self) -> Scope {
        Scope {
            name: self.text(own::SCOPE).unwrap_or_default(),
            version: self.text(own::SCOPE_VERSION).unwrap_or_default(),
            schema_url: self.text(own::SCHEMA_URL).unwrap_or_default(),
            resource_schema_url: self.text(own::RESOURCE_SCHEMA_URL).unwrap_or_default(),
        }
    }
}

/// A span that has begun.
struct Begun {
    /// Which of all that have begun: an id can come again.
    turn: u64,
    time: u64,
    fields: Fields,
    events: Vec<span::Event>,
    /// Events beyond those that are kept.
    beyond: u32,
}

impl Begun {
    fn add(&mut self, event: span::Event) {
        match self.events.len() < MAX_EVENTS {
            true => self.events.push(event),
            false => self.beyond = self.beyond.saturating_add(1),
        }
    }
}

/// Metric, instance and id.
type Key = ((usize, Inst), String);

/// The spans that have begun.
#[derive(Default)]
struct Open {
    spans: HashMap<Key, Begun>,
    /// In the order in which they began; those that ended are among them until they are in front.
    order: VecDeque<(u64, Key)>,
    /// That of the next one.
    turn: u64,
}

impl Open {
    /// Takes one more. How many had to go for it.
    fn begin(&mut self, key: Key, mut begun: Begun) -> u64 {
        begun.turn = self.turn;
        self.turn += 1;
        let mut gone = u64::from(self.spans.insert(key.clone(), begun).is_some());
        self.order.push_back((self.turn - 1, key));
        while self.spans.len() > MAX_OPEN {
            let Some((turn, oldest)) = self.order.pop_front() else { break };
            // One of that id that began later is not the oldest.
            if self.spans.get(&oldest).is_some_and(|begun| begun.turn == turn) {
                self.spans.remove(&oldest);
                gone += 1;
            }
        }
        // Those that have ended would be kept by one that does not.
        if self.order.len() > 2 * MAX_OPEN {
            let spans = &self.spans;
            self.order.retain(|(turn, key)| spans.get(key).is_some_and(|begun| begun.turn == *turn));
        }
        gone
    }
}

/// An instrumentation scope, and the URL of its schema.
#[derive(Clone, Debug, Default, PartialEq)]
struct Scope {
    name: String,
    version: String,
    schema_url: String,
    resource_schema_url: String,
}

impl Scope {
    fn message(&self) -> Option<InstrumentationScope> {
        let (name, version) = (self.name.clone(), self.version.clone());
        (!name.is_empty() || !version.is_empty()).then(|| InstrumentationScope {
            name,
            version,
            ..InstrumentationScope::default()
        })
    }
}

/// The items of a sender, by scope.
type Group<T> = (Arc<Sender>, Vec<(Scope, Vec<T>)>);

/// Items by sender and scope, in the order in which these came.
struct Grouped<T> {
    groups: Vec<Group<T>>,
    count: usize,
}

impl<T> Default for Grouped<T> {
    fn default() -> Grouped<T> {
        Grouped { groups: Vec::new(), count: 0 }
    }
}

impl<T> Grouped<T> {
    fn push(&mut self, sender: Arc<Sender>, scope: Scope, item: T) {
        self.count += 1;
        let same = |(known, scopes): &Group<T>| {
            let first = scopes.first().map(|(scope, _)| &scope.resource_schema_url);
            (Arc::ptr_eq(known, &sender) || *known == sender) && first == Some(&scope.resource_schema_url)
        };
        let at = self.groups.iter().rposition(same).unwrap_or_else(|| {
            self.groups.push((sender, Vec::new()));
            self.groups.len() - 1
        });
        let scopes = &mut self.groups[at].1;
        match scopes.iter_mut().rfind(|(known, _)| *known == scope) {
            Some((_, items)) => items.push(item),
            None => scopes.push((scope, vec![item])),
        }
    }

    fn take(&mut self) -> Option<(Vec<Group<T>>, u64)> {
        let count = std::mem::take(&mut self.count) as u64;
        (count > 0).then(|| (std::mem::take(&mut self.groups), count))
    }
}

fn span(
    end: u64,
    id: String,
    flags: EventFlags,
    mut fields: Fields,
    begun: Option<Begun>,
    is_sent: bool,
) -> (Scope, Span) {
    let parent = if flags.contains(EventFlags::PARENT) { fields.id() } else { String::new() };
    let duration = fields.number(own::DURATION);
    let (mut start_fields, events, beyond, began) = match begun {
        Some(Begun { time, fields, events, beyond, .. }) => (fields, events, beyond, Some(time)),
        None => (Fields(Vec::new()), Vec::new(), 0, None),
    };
    // An end before the start has no duration; what is told by both records is exact then.
    let start = began.or_else(|| end.checked_sub(duration?)).unwrap_or(end);
    if flags.contains(EventFlags::PARENT) {
        start_fields.take(own::PARENT_ID);
    }
    start_fields.take(own::INSTANCE);
    let name = fields.text(own::TYPE);
    let name = start_fields.text(own::TYPE).or(name).unwrap_or_default();
    let kind = start_fields.text(own::KIND);
    let trace = fields.text(own::TRACE_ID);
    let trace = start_fields.text(own::TRACE_ID).or(trace).unwrap_or_default();
    let failed = fields.text(own::SEVERITY).is_some_and(|word| word == Severity::Error.word());
    let message = fields.text(own::MESSAGE).unwrap_or_default();
    let code = match fields.text(own::STATUS).as_deref() {
        Some("ok") => 1,
        Some("error") => 2,
        None if failed => 2,
        _ => 0,
    };
    let scope = fields.scope();
    let trace_state = fields.text(own::TRACE_STATE).unwrap_or_default();
    let flags = fields.count(own::FLAGS);
    let dropped =
        [own::DROPPED_ATTRIBUTES, own::DROPPED_EVENTS, own::DROPPED_LINKS].map(|name| fields.count(name));
    fields.take(own::INSTANCE);
    let links = links(&mut fields, is_sent);
    let mut attributes = start_fields.attributes(is_sent);
    attributes.extend(fields.attributes(is_sent));
    let span = Span {
        trace_id: trace_id(&trace),
        span_id: span_id(&id),
        trace_state,
        parent_span_id: if parent.is_empty() { Vec::new() } else { span_id(&parent) },
        flags,
        name,
        kind: kind_number(kind.as_deref()),
        start_time_unix_nano: start,
        end_time_unix_nano: end,
        attributes,
        dropped_attributes_count: dropped[0],
        events,
        dropped_events_count: dropped[1].saturating_add(beyond),
        links,
        dropped_links_count: dropped[2],
        status: (code != 0 || !message.is_empty()).then_some(Status { message, code }),
    };
    (scope, span)
}

/// The links among the fields: each `link`, and what belongs to it behind it.
fn links(fields: &mut Fields, is_sent: bool) -> Vec<span::Link> {
    let mut links: Vec<span::Link> = Vec::new();
    let mut rest = Vec::with_capacity(fields.0.len());
    for (name, value) in fields.0.drain(..) {
        let number = |value: &Value| match value {
            Value::U32(number) => *number,
            Value::U64(number) => u32::try_from(*number).unwrap_or(u32::MAX),
            _ => 0,
        };
        let below = name.strip_prefix(own::LINK).and_then(|rest| rest.strip_prefix('.'));
        match (&*name, below, links.last_mut()) {
            (own::LINK, ..) => {
                let ids = display(&value);
                let (trace, id) = ids.split_once('-').unwrap_or((&ids, ""));
                links.push(span::Link {
                    trace_id: trace_id(trace),
                    span_id: span_id(id),
                    ..span::Link::default()
                });
            }
            (own::LINK_TRACE_STATE, _, Some(link)) => link.trace_state = display(&value),
            (own::LINK_FLAGS, _, Some(link)) => link.flags = number(&value),
            (own::LINK_DROPPED, _, Some(link)) => link.dropped_attributes_count = number(&value),
            (_, Some(key), Some(link)) => {
                let rest = Fields(vec![(key.into(), value)]);
                link.attributes.extend(rest.attributes(is_sent));
            }
            _ => rest.push((name, value)),
        }
    }
    fields.0 = rest;
    links
}

fn event(time: u64, mut fields: Fields, is_sent: bool) -> span::Event {
    let name = fields.text(own::TYPE).unwrap_or_default();
    fields.take(own::TRACE_ID);
    let dropped_attributes_count = fields.count(own::DROPPED_ATTRIBUTES);
    span::Event {
        time_unix_nano: time,
        name,
        attributes: fields.attributes(is_sent),
        dropped_attributes_count,
    }
}

fn log(time: u64, id: Option<String>, mut fields: Fields, is_sent: bool) -> (Scope, LogRecord) {
    /// The type of log records that have no event name.
    const NO_NAME: &str = "log";
    let event_name = fields.text(own::TYPE).filter(|name| !is_sent || name != NO_NAME).unwrap_or_default();
    let word = fields.text(own::SEVERITY);
    let number = fields.number(own::SEVERITY_NUMBER).and_then(|number| i32::try_from(number).ok());
    let severity_text = fields.text(own::SEVERITY_TEXT);
    let message = fields.text(own::MESSAGE);
    let trace = fields.text(own::TRACE_ID);
    let observed = fields.number(own::OBSERVED);
    let flags = fields.count(own::FLAGS);
    let dropped_attributes_count = fields.count(own::DROPPED_ATTRIBUTES);
    let scope = fields.scope();
    fields.take(own::INSTANCE);
    let severity = word.as_deref().and_then(|word| Severity::from_word(word.as_bytes()));
    let log = LogRecord {
        time_unix_nano: time,
        // Who passes it on saw it no later than now; of those that OTLP brought it is known.
        observed_time_unix_nano: observed.unwrap_or(if is_sent { 0 } else { time }),
        severity_number: number.unwrap_or_else(|| severity.map_or(0, severity_number)),
        severity_text: severity_text.or(word.filter(|_| !is_sent)).unwrap_or_default(),
        body: message.map(|text| AnyValue { value: Some(Any::StringValue(text)) }),
        attributes: fields.attributes(is_sent),
        dropped_attributes_count,
        flags,
        trace_id: trace.map(|trace| trace_id(&trace)).unwrap_or_default(),
        span_id: id.map(|id| span_id(&id)).unwrap_or_default(),
        event_name,
    };
    (scope, log)
}

/// What senders call a field.
fn sent_name(source: &mut Source, pmid: Pmid) -> String {
    let sets = source.context.labels(LabelTarget::Item(pmid)).unwrap_or_default();
    let mut labels = sets.iter().filter_map(|set| set.labels.as_ref().ok()).flatten();
    let field =
        labels.find(|label| label.name == "field").and_then(|label| serde_json::from_str(&label.value).ok());
    field.unwrap_or_else(|| {
        let metric = source.field(pmid);
        metric.strip_prefix("jumpseat.field.").unwrap_or(&metric).to_owned()
    })
}

/// Who the records of an instance of this name are of.
fn sender(instance: Option<&str>, labels: Vec<KeyValue>, host: &[KeyValue]) -> Sender {
    let text_of =
        |name: &str| match labels.iter().find(|label| label.key == name)?.value.as_ref()?.value.as_ref()? {
            Any::StringValue(text) => Some(text),
            _ => None,
        };
    if let Some(sent) = text_of(RESOURCE).and_then(|json| sent(json)) {
        return sent;
    }
    let mut attributes = host.to_vec();
    overlay(&mut attributes, labels);
    overlay(&mut attributes, instance.map(|name| text("service.name", name)));
    Sender { resource: Resource { attributes, ..Resource::default() }, ..Sender::default() }
}

/// Who sends with a resource as the label has it.
fn sent(json: &str) -> Option<Sender> {
    let SentResource { attributes } = serde_json::from_str(json).ok()?;
    let attributes = attributes
        .into_iter()
        .map(|(name, value)| label(&Label { name, value: value.to_string(), flags: LabelFlags::default() }));
    let resource = Resource { attributes: attributes.collect(), ..Resource::default() };
    Some(Sender { resource, is_sent: true })
}

/// The label [`RESOURCE`].
#[derive(serde::Deserialize)]
struct SentResource {
    attributes: Vec<(String, serde_json::Value)>,
}

/// The number of a severity; those that OTLP has no name for are between its own.
fn severity_number(severity: Severity) -> i32 {
    match severity {
        Severity::Trace => 1,
        Severity::Debug => 5,
        Severity::Info => 9,
        Severity::Notice => 10,
        Severity::Warning => 13,
        Severity::Error => 17,
        Severity::Critical => 21,
        Severity::Alert => 22,
        Severity::Emergency => 24,
    }
}

fn kind_number(word: Option<&str>) -> i32 {
    match word {
        Some("internal") => 1,
        Some("server") => 2,
        Some("client") => 3,
        Some("producer") => 4,
        Some("consumer") => 5,
        _ => 0,
    }
}

/// The id of a trace. Texts that are none become one: the same text the same id.
fn trace_id(text: &str) -> Vec<u8> {
    id::<16>(text)
}

/// The id of a span, likewise.
fn span_id(text: &str) -> Vec<u8> {
    id::<8>(text)
}

fn id<const BYTES: usize>(text: &str) -> Vec<u8> {
    let digits = text.as_bytes();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let is_id = digits.len() == 2 * BYTES && digits.iter().all(u8::is_ascii_hexdigit);
    if let Some(bytes) = is_id.then(|| digits.chunks(2).map(pair).collect::<Option<Vec<u8>>>()).flatten() {
        return bytes;
    }
    if text.is_empty() {
        return Vec::new();
    }
    // FNV-1a, of which each eight bytes begin elsewhere: stable over restarts and machines.
    (0..BYTES / 8)
        .flat_map(|part| {
            let begin = 0xcbf2_9ce4_8422_2325_u64 ^ part as u64;
            let hash = digits
                .iter()
                .fold(begin, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
            // Zero would be no id.
            hash.max(1).to_be_bytes()
        })
        .collect()
}

fn display(value: &Value) -> String {
    match value {
        Value::String(text) => String::from_utf8_lossy(text).into_owned(),
        other => match any(other) {
            Some(Any::IntValue(number)) => number.to_string(),
            Some(Any::DoubleValue(number)) => number.to_string(),
            Some(Any::StringValue(text)) => text,
            _ => String::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_and_others_are_made() {
        assert_eq!(span_id("00f067aa0ba902b7"), [0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 2, 0xb7]);
        assert_eq!(span_id("17").len(), 8);
        assert_eq!(trace_id("17").len(), 16);
        assert_eq!(span_id("17"), span_id("17"));
        assert_ne!(span_id("17"), span_id("18"));
        assert_eq!(trace_id(""), Vec::<u8>::new());
    }

    #[test]
    fn what_begins_and_does_not_end_is_bounded_and_counted() {
        let mut open = Open::default();
        let begun = || Begun { turn: 0, time: 0, fields: Fields(Vec::new()), events: Vec::new(), beyond: 0 };
        let gone: u64 =
            (0..MAX_OPEN + 10).map(|id| open.begin(((0, PM_IN_NULL), id.to_string()), begun())).sum();
        assert_eq!((gone, open.spans.len()), (10, MAX_OPEN));
        for id in 0..10 * MAX_OPEN {
            let key = ((0, PM_IN_NULL), format!("short {id}"));
            open.begin(key.clone(), begun());
            open.spans.remove(&key);
        }
        assert!(open.order.len() <= 2 * MAX_OPEN + 1);
        for _ in 0..10 * MAX_OPEN {
            open.begin(((0, PM_IN_NULL), "again".to_owned()), begun());
        }
        assert!(open.order.len() <= 2 * MAX_OPEN, "an id that comes again is there once");
    }

    #[test]
    fn events_beyond_those_that_are_kept_are_counted_as_dropped() {
        let (fields, events) = (Fields(Vec::new()), Vec::new());
        let mut begun = Begun { turn: 0, time: 1, fields, events, beyond: 0 };
        (0..MAX_EVENTS + 3).for_each(|_| begun.add(span::Event::default()));
        let told = Fields(vec![(own::DROPPED_EVENTS.into(), Value::U32(2))]);
        let (_, span) = span(2, "1".to_owned(), EventFlags::END, told, Some(begun), true);
        assert_eq!((span.events.len(), span.dropped_events_count), (MAX_EVENTS, 3 + 2));
    }
}
