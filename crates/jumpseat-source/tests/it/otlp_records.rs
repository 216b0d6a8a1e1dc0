//! What becomes of spans and log records: the records, field by field.

use crate::otlp_support::*;
use jumpseat_source::Reason;
use jumpseat_source::otlp::decode::Signal;
use jumpseat_source::otlp::json;
use jumpseat_source::registry::RegistryConfig;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{Span, Status};

/// A span with all there is to a span.
fn full() -> Span {
    Span {
        parent_span_id: vec![0xab; 8],
        trace_state: "a=b".to_owned(),
        attributes: attributes(&[
            ("http.method", text("GET")),
            ("http.status", int(500)),
            ("ratio", one(Value::DoubleValue(0.25))),
            ("retry", one(Value::BoolValue(true))),
            (
                "tags",
                list(vec![text("a\"b"), int(-1), one(Value::DoubleValue(1.5)), map(&[("k", text("v"))])]),
            ),
            ("raw", one(Value::BytesValue(vec![0, 0xff]))),
            ("deep", map(&[("a", int(1)), ("b", map(&[("c", text("x"))]))])),
        ]),
        dropped_attributes_count: 3,
        events: vec![Event {
            time_unix_nano: START + 1000,
            name: "exception".to_owned(),
            attributes: attributes(&[("exception.message", text("boom"))]),
            dropped_attributes_count: 1,
        }],
        links: vec![Link {
            trace_id: vec![0xcd; 16],
            span_id: vec![0xef; 8],
            trace_state: "c=d".to_owned(),
            attributes: attributes(&[("why", text("batch"))]),
            dropped_attributes_count: 4,
            flags: 256,
        }],
        status: Some(Status { message: "no disk".to_owned(), code: 2 }),
        flags: 257,
        ..span(1)
    }
}

const FULL: [&str; 3] = [
    "shop: 1795180566.000000000 start,id,parent {span_id \"0101010101010101\", parent_id \"abababababababab\", \
     type \"span-1\", trace_id \"01010101010101010101010101010101\", kind \"server\"}",
    "shop: 1795180566.000001000 point,id {span_id \"0101010101010101\", type \"exception\", \
     trace_id \"01010101010101010101010101010101\", otel_span_event 1, exception_message \"boom\", dropped_attributes 1}",
    "shop: 1795180566.001500000 end,id,parent {span_id \"0101010101010101\", parent_id \"abababababababab\", \
     type \"span-1\", severity \"error\", message \"no disk\", trace_id \"01010101010101010101010101010101\", \
     status \"error\", duration_ns 1500000, scope \"lib\", trace_state \"a=b\", http_method \"GET\", http_status 500, \
     ratio 0.25, retry 1, tags \"[\\\"a\\\\\\\"b\\\",-1,1.5,{\\\"k\\\":\\\"v\\\"}]\", raw \"00ff\", deep_a 1, \
     deep_b_c \"x\", link \"cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd-efefefefefefefef\", otel_link_trace_state \"c=d\", \
     otel_link_dropped_attributes 4, otel_link_flags 256, link_why \"batch\", dropped_attributes 3, otel_flags 257}",
];

#[test]
fn a_span_with_everything_is_three_records() {
    let mut desk = Desk::new();
    let body = traces("shop", vec![full()]).encode_to_vec();
    let outcome = desk.traces(&body);
    assert_eq!((outcome.accepted, outcome.rejected, outcome.broken), (1, 0, None));
    let (records, tallies) = desk.records();
    assert_eq!(records, FULL);
    assert_eq!((tallies.received, tallies.truncated, tallies.rejected_total()), (3, 0, 0));
    // All but the tag and length of the resource's spans.
    assert!(tallies.bytes as usize + 8 > body.len(), "{} of {}", tallies.bytes, body.len());
}

#[test]
fn a_bare_span_is_two_records() {
    let mut desk = Desk::new();
    let bare = Span { kind: 0, end_time_unix_nano: 0, name: String::new(), ..span(2) };
    desk.traces(&traces("shop", vec![bare]).encode_to_vec());
    assert_eq!(
        desk.records().0,
        [
            "shop: 1795180566.000000000 start,id {span_id \"0202020202020202\", \
             trace_id \"02020202020202020202020202020202\"}",
            "shop: 1795180566.000000000 end,id {span_id \"0202020202020202\", \
             trace_id \"02020202020202020202020202020202\", status \"unset\", duration_ns 0, scope \"lib\"}",
        ]
    );
}

#[test]
fn json_gives_the_same_records_as_protobuf() {
    let body = r#"{"resourceSpans":[{
        "resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}],"droppedAttributesCount":0},
        "scopeSpans":[{"scope":{"name":"lib","version":"1","attributes":[]},"unknown":{"a":[1,null]},"spans":[{
            "traceId":"01010101010101010101010101010101","spanId":"0101010101010101",
            "parentSpanId":"ABABABABABABABAB","traceState":"a=b","name":"span-1","kind":2,
            "startTimeUnixNano":"1795180566000000000","endTimeUnixNano":1795180566001500000,
            "attributes":[
                {"key":"http.method","value":{"stringValue":"GET"}},
                {"key":"http.status","value":{"intValue":"500"}},
                {"key":"ratio","value":{"doubleValue":0.25}},
                {"key":"retry","value":{"boolValue":true}},
                {"value":{"arrayValue":{"values":[{"stringValue":"a\"b"},{"intValue":-1},{"doubleValue":1.5},
                    {"kvlistValue":{"values":[{"key":"k","value":{"stringValue":"v"}}]}}]}},"key":"tags"},
                {"key":"raw","value":{"bytesValue":"AP8="}},
                {"key":"null","value":null},
                {"key":"deep","value":{"kvlistValue":{"values":[{"key":"a","value":{"intValue":"1"}},
                    {"key":"b","value":{"kvlistValue":{"values":[{"key":"c","value":{"stringValue":"x"}}]}}}]}}}],
            "droppedAttributesCount":3,
            "events":[{"timeUnixNano":"1795180566000001000","name":"exception","droppedAttributesCount":1,
                "attributes":[{"key":"exception.message","value":{"stringValue":"boom"}}]}],
            "links":[{"traceId":"cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd","spanId":"efefefefefefefef",
                "traceState":"c=d","droppedAttributesCount":4,"flags":256,"attributes":[{"key":"why","value":{"stringValue":"batch"}}]}],
            "status":{"message":"no disk","code":2},"flags":257}]}]}]}"#;
    let mut desk = Desk::new();
    assert_eq!(desk.json(Signal::Traces, body).accepted, 1);
    // That of the other encoding has no version.
    let expected =
        FULL.map(|record| record.replace("scope \"lib\"", "scope \"lib\", otel_scope_version \"1\""));
    assert_eq!(desk.records().0, expected);
}

#[test]
fn log_records_have_severity_message_and_span() {
    let mut desk = Desk::new();
    let all = vec![
        LogRecord {
            time_unix_nano: START,
            severity_number: 17,
            severity_text: "ERR".to_owned(),
            body: Some(text("disk full")),
            attributes: attributes(&[("disk", text("sda")), ("free", int(0))]),
            trace_id: vec![3; 16],
            span_id: vec![4; 8],
            event_name: "disk.full".to_owned(),
            dropped_attributes_count: 2,
            ..LogRecord::default()
        },
        LogRecord {
            observed_time_unix_nano: START + 7,
            severity_text: "warn".to_owned(),
            body: Some(map(&[("a", int(1)), ("n", one(Value::DoubleValue(f64::NAN)))])),
            // Ids that are none.
            trace_id: vec![0; 16],
            span_id: vec![1; 7],
            ..LogRecord::default()
        },
        LogRecord {
            severity_text: "loud".to_owned(),
            body: Some(one(Value::BoolValue(true))),
            ..Default::default()
        },
    ];
    let outcome = desk.logs(&logs("shop", all).encode_to_vec());
    assert_eq!((outcome.accepted, outcome.rejected), (3, 0));
    assert_eq!(
        desk.records().0,
        [
            "shop: 1795180566.000000000 point,id {span_id \"0404040404040404\", type \"disk.full\", \
             severity \"error\", message \"disk full\", trace_id \"03030303030303030303030303030303\", \
             otel_severity_text \"ERR\", disk \"sda\", free 0, dropped_attributes 2}",
            "shop: 1795180566.000000007 point {type \"log\", severity \"warning\", \
             message \"{\\\"a\\\":1,\\\"n\\\":\\\"NaN\\\"}\", otel_severity_number 0, otel_severity_text \"warn\", \
             otel_observed_time 1795180566000000007}",
            "shop: 1000.000000005 point {type \"log\", severity \"loud\", message \"true\", \
             otel_severity_text \"loud\"}",
        ]
    );
    let json = r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"observedTimeUnixNano":"1795180566000000000",
        "severityNumber":9,"body":{"stringValue":"hello"},"traceId":"","spanId":""}]}]}]}"#;
    assert_eq!(desk.json(Signal::Logs, json).accepted, 1);
    assert_eq!(
        desk.records().0,
        ["otlp: 1795180566.000000000 point {type \"log\", severity \"info\", message \"hello\", \
          otel_observed_time 1795180566000000000}"]
    );
}

#[test]
fn resources_decide_the_source_and_its_labels_wherever_they_stand() {
    let mut desk = Desk::new();
    let mut request = traces("a b/c", vec![span(1)]);
    request.resource_spans[0].resource = resource(&[
        ("telemetry.sdk.language", text("python")),
        ("service.instance.id", text("pod 7")),
        ("service.name", text("a b/c")),
        ("host.cpus", int(8)),
        ("hostname", text("not this one")),
    ]);
    let bytes = request.encode_to_vec();
    desk.traces(&bytes);
    desk.traces(&bytes);
    assert!(desk.records().0.iter().all(|record| record.starts_with("a_b_c@pod_7: ")));
    assert_eq!(
        desk.labels,
        [(
            "a_b_c@pod_7".to_owned(),
            [
                ("telemetry_sdk_language", "python"),
                ("service_instance_id", "pod 7"),
                ("host_cpus", "8"),
                ("resource_hostname", "not this one"),
                (
                    "otel_resource",
                    r#"{"attributes":[["telemetry.sdk.language","python"],["service.instance.id","pod 7"],["service.name","a b/c"],["host.cpus",8],["hostname","not this one"]]}"#,
                ),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec()
        )],
        "told once"
    );
    assert_eq!(
        desk.services,
        [("otlp".to_owned(), None), ("a_b_c@pod_7".to_owned(), Some("a b/c".to_owned()))]
    );

    // The resource behind its spans, which protobuf allows.
    let resource_spans = &request.resource_spans[0];
    let mut inner = Vec::new();
    prost::encoding::message::encode(2, &resource_spans.scope_spans[0], &mut inner);
    prost::encoding::message::encode(1, resource_spans.resource.as_ref().unwrap(), &mut inner);
    let mut outer = vec![1 << 3 | 2];
    prost::encoding::encode_varint(inner.len() as u64, &mut outer);
    outer.extend_from_slice(&inner);
    assert_eq!(desk.traces(&outer).accepted, 1);
    assert!(desk.records().0.iter().all(|record| record.starts_with("a_b_c@pod_7: ")));
}

#[test]
fn when_there_are_too_many_sources_instances_share_one() {
    let registry = RegistryConfig { max_sources: 2, ..RegistryConfig::new(400) };
    let mut desk = Desk::with(LIMITS, &registry, true);
    for (service, instance, source) in
        [("a", None, "a"), ("a", Some("1"), "a"), ("b", Some("2"), "otlp"), ("b", None, "otlp")]
    {
        let mut request = traces(service, vec![span(1)]);
        if let (Some(instance), Some(resource)) = (instance, &mut request.resource_spans[0].resource) {
            resource.attributes.extend(attributes(&[("service.instance.id", text(instance))]));
        }
        desk.traces(&request.encode_to_vec());
        let (records, _) = desk.records();
        assert!(records.iter().all(|record| record.starts_with(&format!("{source}: "))), "{records:?}");
    }
    let mut desk = Desk::with(LIMITS, &RegistryConfig::new(400), false);
    let mut request = traces("a", vec![span(1)]);
    request.resource_spans[0].resource =
        resource(&[("service.name", text("a")), ("service.instance.id", text("1"))]);
    // The second time the resource is known.
    for _ in 0..2 {
        desk.traces(&request.encode_to_vec());
        let (records, _) = desk.records();
        assert!(records.iter().all(|record| record.starts_with("a: ")), "{records:?}");
        let instances = records.iter().filter(|record| record.contains("service_instance_id \"1\""));
        assert_eq!(instances.count(), 2, "START and END: {records:?}");
    }
}

/// A list in a list in a list...
fn nested(depth: usize) -> opentelemetry_proto::tonic::common::v1::AnyValue {
    (0..depth)
        .fold(int(1), |value, level| if level % 2 == 0 { list(vec![value]) } else { map(&[("k", value)]) })
}

#[test]
fn a_bad_span_is_refused_alone_and_counted_by_its_reason() {
    let mut desk = Desk::new();
    let oversize: Vec<_> = (0..64).map(|n| (format!("f{n}"), text(&"é".repeat(510)))).collect();
    let oversize: Vec<_> = oversize.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    let event =
        |n: usize| Event { name: format!("e{n}"), attributes: attributes(&oversize), ..Event::default() };
    let cases = [
        (Span { trace_id: vec![0; 16], ..span(1) }, Some(Reason::Body)),
        (Span { trace_id: vec![1; 15], ..span(1) }, Some(Reason::Body)),
        (Span { span_id: vec![], ..span(1) }, Some(Reason::Body)),
        (Span { parent_span_id: vec![1; 3], ..span(1) }, Some(Reason::Body)),
        (Span { parent_span_id: vec![0; 8], ..span(1) }, None),
        (Span { start_time_unix_nano: 0, end_time_unix_nano: 0, ..span(1) }, Some(Reason::Time)),
        (Span { end_time_unix_nano: 1, ..span(1) }, None),
        (Span { end_time_unix_nano: u64::MAX, ..span(1) }, None),
        (Span { links: vec![Link::default()], ..span(1) }, Some(Reason::Body)),
        (Span { attributes: attributes(&[("deep", nested(100))]), ..span(1) }, Some(Reason::Depth)),
        (Span { attributes: attributes(&[("deep", nested(20))]), ..span(1) }, None),
        // 64 fields of a KiB fit a record, and so do many records of them; too much for one span's memory is not.
        (Span { events: (0..3).map(event).collect(), ..span(1) }, None),
    ];
    for (bad, reason) in cases {
        let outcome = desk.traces(&traces("shop", vec![span(8), bad.clone(), span(9)]).encode_to_vec());
        let (records, tallies) = desk.records();
        let refused = u64::from(reason.is_some());
        assert_eq!(
            (outcome.accepted, outcome.rejected, outcome.broken),
            (3 - refused, refused, None),
            "{bad:?}"
        );
        assert_eq!(outcome.first.map(|refusal| refusal.reason), reason, "{bad:?}");
        assert_eq!(tallies.rejected_total(), refused);
        if let Some(reason) = reason {
            assert_eq!(tallies.rejected[reason as usize], 1);
            assert_eq!(records.len(), 4, "nothing of the bad span is there: {records:?}");
        }
    }

    // What is not UTF-8 cannot be made with the official types.
    let body = traces("shop", vec![Span { name: "valid".to_owned(), ..span(1) }, span(2)]).encode_to_vec();
    let at = body.windows(5).position(|window| window == b"valid").expect("the name");
    let mut bad = body.clone();
    bad[at + 2] = 0xff;
    let outcome = desk.traces(&bad);
    assert_eq!((outcome.accepted, outcome.rejected), (1, 1));
    let first = outcome.first.expect("why");
    assert_eq!((first.reason, first.column as usize), (Reason::Encoding, at + 3));
    // A NUL ends a string for PCP's tools.
    let mut bad = body;
    bad[at + 2] = 0;
    desk.records();
    assert_eq!(desk.traces(&bad).accepted, 2);
    assert!(desk.records().0[0].contains("type \"va\u{fffd}id\""));
}

#[test]
fn what_is_broken_around_the_spans_ends_the_request_there() {
    let mut desk = Desk::new();
    let good = traces("shop", vec![span(1), span(2)]).encode_to_vec();
    let mut body = good.clone();
    body.extend_from_slice(b"\x0a\x7f");
    let outcome = desk.traces(&body);
    assert_eq!((outcome.accepted, outcome.rejected), (2, 0));
    let broken = outcome.broken.expect("the rest cannot be read");
    assert_eq!((broken.reason, broken.column as usize), (Reason::Body, good.len() + 2));
    let (records, tallies) = desk.records();
    assert_eq!((records.len(), tallies.rejected[Reason::Body as usize]), (4, 1));
}

#[test]
fn what_is_too_much_is_cut_and_counted() {
    let mut desk = Desk::new();
    let many: Vec<_> = (0..100).map(|n| (format!("f{n}"), int(n))).collect();
    let many: Vec<_> = many.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    let cut = vec![
        Span { attributes: attributes(&many), ..span(1) },
        Span { attributes: attributes(&[("long", text(&"é".repeat(600)))]), ..span(1) },
        Span { attributes: attributes(&[("long", list(vec![text("ab"); 1000]))]), ..span(1) },
        Span { attributes: attributes(&[("long", one(Value::BytesValue(vec![7; 1000])))]), ..span(1) },
        Span { events: vec![Event::default(); 2000], ..span(1) },
        Span { attributes: attributes(&[(&"k".repeat(500), int(1))]), ..span(1) },
    ];
    let number = cut.len() as u64;
    for span in cut {
        let outcome = desk.traces(&traces("shop", vec![span]).encode_to_vec());
        assert_eq!((outcome.accepted, outcome.rejected), (1, 0));
    }
    let (records, tallies) = desk.records();
    assert_eq!(tallies.truncated, number);
    assert_eq!(records[1].matches(", f").count(), 64);
    assert!(records[3].contains(&format!("long \"{}\"", "é".repeat(512))), "{}", records[3]);
    assert!(records[5].contains("long \"[\\\"ab\\\",\\\"ab\\\""));
    assert!(records[7].contains(&format!("long \"{}\"", "07".repeat(512))), "{}", records[7]);
    assert_eq!(tallies.received, 2 * number + 1000);
}

#[test]
fn distinct_names_without_end_are_folded() {
    let registry = RegistryConfig { max_fields: 40, max_types: 20, ..RegistryConfig::new(400) };
    let mut desk = Desk::with(LIMITS, &registry, true);
    for n in 0..2000 {
        let name = format!("name.{n}");
        let span = Span { name: name.clone(), attributes: attributes(&[(&name, int(n))]), ..span(1) };
        assert_eq!(desk.traces(&traces("shop", vec![span]).encode_to_vec()).accepted, 1);
    }
    let (records, tallies) = desk.records();
    assert!(tallies.folded > 1900);
    assert!(records[3999].contains("other \"name.1999=1999\""), "{}", records[3999]);
}

#[test]
fn json_that_is_none_is_told_with_its_place() {
    let mut out = Vec::new();
    let deep = format!("{{\"resourceSpans\":[{}", "[".repeat(1000));
    let nested = format!(
        "{{\"resourceSpans\":[{{\"resource\":{{\"attributes\":[{{\"value\":{}",
        "{\"arrayValue\":{\"values\":[".repeat(100)
    );
    for (text, reason, message) in [
        ("", Reason::Syntax, "EOF while parsing a value at line 1 column 0"),
        ("[]", Reason::Syntax, "invalid type: sequence, expected an object at line 1 column 0"),
        ("{\"resourceSpans\":[{\n]}", Reason::Syntax, "key must be a string at line 2 column 1"),
        ("{} {}", Reason::Syntax, "trailing characters at line 1 column 4"),
        (
            "{\"resourceSpans\":{\"resource\":5}}",
            Reason::Syntax,
            "resourceSpans: resource: 5, expected an object",
        ),
        (
            "{\"resourceSpans\":[{},{\"scopeSpans\":[{\"scope\":{\"name\":{}}}]}]}",
            Reason::Syntax,
            "resourceSpans: [1]: scopeSpans: [0]: scope: name: an object, expected text",
        ),
        (&deep, Reason::Syntax, "EOF while parsing a list"),
        (&nested, Reason::Depth, "recursion limit exceeded"),
    ] {
        let error = json::transcode(Signal::Traces, text.as_bytes(), &mut out).expect_err(text);
        assert_eq!(error.reason, reason, "{text}");
        assert!(error.message.starts_with(message), "{text}: {}", error.message);
    }
    let error =
        json::transcode(Signal::Traces, b"{\"resourceSpans\xff\":1}", &mut out).expect_err("not UTF-8");
    assert_eq!(error.reason, Reason::Encoding);
}
