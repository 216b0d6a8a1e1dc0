//! What the OTLP tests share: requests made with the official protobuf types, and a decoder without a socket.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::bounded;
use jumpseat_source::delivery::{Inlet, Tallies};
use jumpseat_source::lanes::{Arrival, Lanes};
use jumpseat_source::origin::Labels;
use jumpseat_source::otlp::decode::{Decoder, Outcome, Signal};
use jumpseat_source::otlp::{AttributeLimits, json};
use jumpseat_source::registry::{Registry, RegistryConfig};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use pcp_model::Timestamp;
pub(crate) use prost::Message;

use crate::ingest_support::Names;

/// The arrival time of everything.
pub(crate) const NOW: Timestamp = Timestamp { sec: 1000, nsec: 5 };
/// 2026-11-20T13:16:06Z in nanoseconds.
pub(crate) const START: u64 = 1_795_180_566_000_000_000;

pub(crate) fn one(value: Value) -> AnyValue {
    AnyValue { value: Some(value) }
}

pub(crate) fn text(text: &str) -> AnyValue {
    one(Value::StringValue(text.to_owned()))
}

pub(crate) fn int(number: i64) -> AnyValue {
    one(Value::IntValue(number))
}

pub(crate) fn list(values: Vec<AnyValue>) -> AnyValue {
    one(Value::ArrayValue(ArrayValue { values }))
}

pub(crate) fn map(entries: &[(&str, AnyValue)]) -> AnyValue {
    one(Value::KvlistValue(KeyValueList { values: attributes(entries) }))
}

pub(crate) fn attributes(entries: &[(&str, AnyValue)]) -> Vec<KeyValue> {
    entries
        .iter()
        .map(|(key, value)| KeyValue {
            key: (*key).to_owned(),
            value: Some(value.clone()),
            ..KeyValue::default()
        })
        .collect()
}

/// A span of 1.5 ms, its ids made of a number.
pub(crate) fn span(number: u8) -> Span {
    Span {
        trace_id: vec![number; 16],
        span_id: vec![number; 8],
        name: format!("span-{number}"),
        kind: 2,
        start_time_unix_nano: START,
        end_time_unix_nano: START + 1_500_000,
        ..Span::default()
    }
}

pub(crate) fn resource(entries: &[(&str, AnyValue)]) -> Option<Resource> {
    Some(Resource { attributes: attributes(entries), ..Resource::default() })
}

pub(crate) fn traces(service: &str, spans: Vec<Span>) -> ExportTraceServiceRequest {
    let scope = Some(InstrumentationScope { name: "lib".to_owned(), ..InstrumentationScope::default() });
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: resource(&[("service.name", text(service))]),
            scope_spans: vec![ScopeSpans { scope, spans, ..ScopeSpans::default() }],
            ..ResourceSpans::default()
        }],
    }
}

pub(crate) fn logs(service: &str, log_records: Vec<LogRecord>) -> ExportLogsServiceRequest {
    ExportLogsServiceRequest {
        resource_logs: vec![ResourceLogs {
            resource: resource(&[("service.name", text(service))]),
            scope_logs: vec![ScopeLogs { log_records, ..ScopeLogs::default() }],
            ..ResourceLogs::default()
        }],
    }
}

/// A decoder and the core's end of its channels.
pub(crate) struct Desk {
    pub decoder: Decoder,
    pub inlet: Inlet,
    pub names: Names,
    /// Labels of sources, by their names.
    pub labels: Vec<(String, Labels)>,
    /// Addresses and services of sources, by their names.
    pub services: Vec<(String, Option<String>)>,
}

/// How all requests get here.
pub(crate) const ARRIVAL: Arrival = Arrival { conn: 1, time: NOW };

pub(crate) const LIMITS: AttributeLimits = AttributeLimits { max_field: 1024, max_fields: 64 };

impl Desk {
    pub(crate) fn new() -> Desk {
        Desk::with(LIMITS, &RegistryConfig::new(400), true)
    }

    pub(crate) fn with(limits: AttributeLimits, registry: &RegistryConfig, by_instance: bool) -> Desk {
        Desk::with_room(4096, limits, registry, by_instance)
    }

    /// With room for so many deliveries.
    pub(crate) fn with_room(
        room: usize,
        limits: AttributeLimits,
        registry: &RegistryConfig,
        by_instance: bool,
    ) -> Desk {
        let (registry, definitions) = Registry::open(registry).expect("registry");
        let (out, deliveries) = bounded(room);
        let lanes = Lanes::new(registry, out, Arc::new(|| ()), Duration::ZERO);
        let decoder =
            Decoder::new(lanes, "otlp", by_instance, "localhost:4318", limits).expect("default source");
        let inlet = Inlet::new(definitions, deliveries);
        Desk { decoder, inlet, names: Names::default(), labels: Vec::new(), services: Vec::new() }
    }

    pub(crate) fn traces(&mut self, body: &[u8]) -> Outcome {
        self.decoder.request(ARRIVAL, Signal::Traces, body)
    }

    pub(crate) fn logs(&mut self, body: &[u8]) -> Outcome {
        self.decoder.request(ARRIVAL, Signal::Logs, body)
    }

    /// A request in JSON.
    pub(crate) fn json(&mut self, signal: Signal, body: &str) -> Outcome {
        let mut out = Vec::new();
        json::transcode(signal, body.as_bytes(), &mut out).expect("well-formed");
        self.decoder.request(ARRIVAL, signal, &out)
    }

    /// What the core gets, as text: `source: record`, and the sum of the accounting.
    pub(crate) fn records(&mut self) -> (Vec<String>, Tallies) {
        self.decoder.lanes.flush();
        let mut sum = Tallies::default();
        let mut records = Vec::new();
        let names = &mut self.names;
        while let Some(delivery) = self.inlet.take(|definition| names.define(definition)) {
            let source = names.source(delivery.source).to_owned();
            let texts = names.records(&delivery.batch);
            records.extend(texts.into_iter().map(|record| format!("{source}: {record}")));
            if let Some(labels) = delivery.labels {
                self.labels.push((source.clone(), *labels));
            }
            if let Some(origin) = delivery.origin {
                self.services.push((source, origin.service));
            }
            let tallies = delivery.tallies;
            assert_eq!(tallies.types.iter().map(|(_, count)| count).sum::<u64>(), tallies.received);
            sum.received += tallies.received;
            sum.bytes += tallies.bytes;
            sum.truncated += tallies.truncated;
            sum.folded += tallies.folded;
            for (total, count) in sum.rejected.iter_mut().zip(tallies.rejected) {
                *total += count;
            }
        }
        (records, sum)
    }
}
