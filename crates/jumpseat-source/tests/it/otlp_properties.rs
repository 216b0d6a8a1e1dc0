//! OTLP bodies of any kind: what the official decoder takes, ours takes, and nothing panics.

use crate::otlp_support::*;
use jumpseat_source::otlp::decode::Signal;
use jumpseat_source::otlp::inflate::{Encoding, inflate};
use jumpseat_source::otlp::json;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::Index;

fn value() -> impl Strategy<Value = AnyValue> {
    let leaf = prop_oneof![
        Just(AnyValue { value: None }),
        ".{0,20}".prop_map(|text| crate::otlp_support::text(&text)),
        any::<bool>().prop_map(|value| one(Value::BoolValue(value))),
        any::<i64>().prop_map(int),
        any::<f64>().prop_map(|value| one(Value::DoubleValue(value))),
        vec(any::<u8>(), 0..10).prop_map(|bytes| one(Value::BytesValue(bytes))),
    ];
    leaf.prop_recursive(4, 20, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(list),
            vec(("[a-c.\0é]{0,4}", inner), 0..4).prop_map(|entries| {
                let entries: Vec<_> =
                    entries.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
                map(&entries)
            }),
        ]
    })
}

fn some_attributes() -> impl Strategy<Value = Vec<KeyValue>> {
    vec(("[a-d.]{0,5}", option::of(value())), 0..6).prop_map(|entries| {
        entries.into_iter().map(|(key, value)| KeyValue { key, value, ..KeyValue::default() }).collect()
    })
}

fn id(length: usize) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        20 => vec(1u8.., length),
        1 => vec(any::<u8>(), 0..20),
        1 => Just(vec![0; length]),
    ]
}

fn some_span() -> impl Strategy<Value = Span> {
    let event = (any::<u64>(), ".{0,8}", some_attributes()).prop_map(|(time_unix_nano, name, attributes)| {
        Event { time_unix_nano, name, attributes, ..Event::default() }
    });
    let link = (id(16), id(8), some_attributes()).prop_map(|(trace_id, span_id, attributes)| Link {
        trace_id,
        span_id,
        attributes,
        ..Link::default()
    });
    let status = (".{0,8}", any::<i32>()).prop_map(|(message, code)| Status { message, code });
    (
        (id(16), id(8), prop_oneof![Just(Vec::new()), id(8)], ".{0,12}", any::<i32>()),
        (any::<u64>(), any::<u64>(), some_attributes(), vec(event, 0..3), vec(link, 0..2)),
        (option::of(status), any::<u32>(), "[ -~]{0,5}"),
    )
        .prop_map(|(ids, body, rest)| Span {
            trace_id: ids.0,
            span_id: ids.1,
            parent_span_id: ids.2,
            name: ids.3,
            kind: ids.4,
            start_time_unix_nano: body.0,
            end_time_unix_nano: body.1,
            attributes: body.2,
            events: body.3,
            links: body.4,
            status: rest.0,
            dropped_events_count: rest.1,
            trace_state: rest.2,
            ..Span::default()
        })
}

fn some_log() -> impl Strategy<Value = LogRecord> {
    (any::<u64>(), any::<i32>(), ".{0,5}", option::of(value()), some_attributes(), id(16), id(8)).prop_map(
        |(time_unix_nano, severity_number, severity_text, body, attributes, trace_id, span_id)| LogRecord {
            time_unix_nano,
            severity_number,
            severity_text,
            body,
            attributes,
            trace_id,
            span_id,
            ..LogRecord::default()
        },
    )
}

/// Whether a span is one by what OTLP says of ids and times.
fn is_good(span: &Span) -> bool {
    let id = |bytes: &[u8], length| bytes.len() == length && bytes.iter().any(|byte| *byte != 0);
    let parent = &span.parent_span_id;
    id(&span.trace_id, 16)
        && id(&span.span_id, 8)
        && (parent.iter().all(|byte| *byte == 0) || parent.len() == 8)
        && (span.start_time_unix_nano, span.end_time_unix_nano) != (0, 0)
        && span.links.iter().all(|link| id(&link.trace_id, 16) && id(&link.span_id, 8))
}

/// One change to a body.
#[derive(Clone, Debug)]
enum Mutation {
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Double(Index, usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        4 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        1 => (any::<Index>(), vec(any::<u8>(), 1..8)).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        1 => (any::<Index>(), 1..20usize).prop_map(|(at, length)| Mutation::Remove(at, length)),
        1 => (any::<Index>(), 1..40usize).prop_map(|(at, length)| Mutation::Double(at, length)),
    ]
}

fn mutate(mut body: Vec<u8>, mutations: &[Mutation]) -> Vec<u8> {
    for mutation in mutations {
        if body.is_empty() {
            break;
        }
        match mutation {
            Mutation::Set(at, byte) => {
                let at = at.index(body.len());
                body[at] = *byte;
            }
            Mutation::Insert(at, bytes) => {
                let at = at.index(body.len());
                body.splice(at..at, bytes.iter().copied());
            }
            Mutation::Remove(at, length) => {
                let at = at.index(body.len());
                let end = (at + length).min(body.len());
                body.drain(at..end);
            }
            Mutation::Double(at, length) => {
                let at = at.index(body.len());
                let end = (at + length).min(body.len());
                let part = body[at..end].to_vec();
                body.splice(at..at, part);
            }
        }
    }
    body
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_good_span_is_taken_and_every_bad_one_counted(spans in vec(some_span(), 0..5)) {
        let good = spans.iter().filter(|span| is_good(span)).count() as u64;
        let records: u64 = spans.iter().filter(|span| is_good(span)).map(|span| 2 + span.events.len() as u64).sum();
        let bad = spans.len() as u64 - good;
        let mut desk = Desk::new();
        let outcome = desk.traces(&traces("shop", spans).encode_to_vec());
        prop_assert_eq!((outcome.accepted, outcome.rejected, outcome.broken), (good, bad, None));
        let (texts, tallies) = desk.records();
        prop_assert_eq!((texts.len() as u64, tallies.received, tallies.rejected_total()), (records, records, bad));
    }

    #[test]
    fn every_log_record_is_taken(records in vec(some_log(), 0..5)) {
        let number = records.len() as u64;
        let mut desk = Desk::new();
        let outcome = desk.logs(&logs("shop", records).encode_to_vec());
        prop_assert_eq!((outcome.accepted, outcome.rejected, outcome.broken), (number, 0, None));
        prop_assert_eq!(desk.records().0.len() as u64, number);
    }

    #[test]
    fn what_the_official_decoder_takes_ours_takes(
        spans in vec(some_span(), 0..3),
        records in vec(some_log(), 0..3),
        mutations in vec(mutation(), 1..4),
    ) {
        let mut desk = Desk::new();
        for (signal, body) in [
            (Signal::Traces, traces("shop", spans).encode_to_vec()),
            (Signal::Logs, logs("shop", records).encode_to_vec()),
        ] {
            let body = mutate(body, &mutations);
            let theirs = match signal {
                Signal::Traces => ExportTraceServiceRequest::decode(&body[..]).ok().map(|request| {
                    let scopes = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
                    scopes.map(|scope| scope.spans.len() as u64).sum::<u64>()
                }),
                Signal::Metrics => None,
                Signal::Logs => ExportLogsServiceRequest::decode(&body[..]).ok().map(|request| {
                    let scopes = request.resource_logs.iter().flat_map(|resource| &resource.scope_logs);
                    scopes.map(|scope| scope.log_records.len() as u64).sum::<u64>()
                }),
            };
            let ours = desk.decoder.request(ARRIVAL, signal, &body);
            let (texts, tallies) = desk.records();
            prop_assert_eq!(texts.len() as u64, tallies.received);
            prop_assert_eq!(tallies.rejected_total(), ours.rejected + u64::from(ours.broken.is_some()));
            match (theirs, ours.broken) {
                // The official decoder skips groups, which OTLP does not have.
                (Some(_), Some(refusal)) => prop_assert!(refusal.detail.contains("a group"), "{refusal}"),
                (Some(number), None) => prop_assert_eq!(ours.accepted + ours.rejected, number),
                (None, _) => {}
            }
        }
    }

    #[test]
    fn any_bytes_any_chunks_any_text(bytes in vec(any::<u8>(), 0..300), text in "[\\[\\]{}\":,a-z0-9. ]{0,200}") {
        let mut desk = Desk::new();
        desk.traces(&bytes);
        desk.logs(&bytes);
        desk.records();
        let mut out = Vec::new();
        let _ = json::transcode(Signal::Traces, text.as_bytes(), &mut out);
        let _ = inflate(Encoding::Gzip, &bytes, 100, &mut out);
    }
}
