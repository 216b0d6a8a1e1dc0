//! The binary framing: what an encoder sends and the records it becomes.

use crate::ingest_support::Desk;
use jumpseat_source::clock::SenderClock;
use jumpseat_source::delivery::Reason;
use jumpseat_source::event::{Event, Limits};
use jumpseat_source::feed::record_of;
use jumpseat_source::intake::Intake;
use jumpseat_source::ndjson;
use jumpseat_source::registry::RegistryConfig;
use jumpseat_wire::encode::{EncodeError, Encoder, Id, Phase, Record, Value};
use jumpseat_wire::{self as binary, HELLO, put_frame, put_varint};
use proptest::prelude::*;

const LIMITS: Limits = Limits { max_line: 4096, max_field: 64, truncate: false };

#[test]
fn every_part_of_a_record_arrives() {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    let fields: &[(&[u8], Value<'_>)] = &[
        (b"a.i32", Value::I32(-1)),
        (b"u32", Value::U32(1)),
        (b"i64", Value::I64(i64::MIN)),
        (b"u64", Value::U64(u64::MAX)),
        (b"float", Value::Float(1.5)),
        (b"double", Value::Double(-0.25)),
        (b"string", Value::Text(b"text")),
        (b"aggregate", Value::Bytes(&[0, 1, 2])),
    ];
    let full = Record {
        time: Some(-1),
        phase: Phase::Start,
        source: Some("elsewhere"),
        event_type: Some(b"req"),
        severity: Some(b"ERR"),
        id: Some(Id::U64(7)),
        parent: Some(Id::U64(6)),
        message: Some(b"hello"),
        fields,
    };
    encoder.record(&full, &mut out).expect("encodes");
    encoder.record(&Record::default(), &mut out).expect("encodes");
    encoder.source("app", &mut out).expect("encodes");
    let text_ids = Record {
        id: Some(Id::U64(5)),
        parent: Some(Id::Text(b"p")),
        severity: Some(b"odd"),
        ..Record::default()
    };
    encoder.record(&text_ids, &mut out).expect("encodes");
    encoder.missed(9, 55_000_000_005, &mut out);
    encoder.record(&Record { parent: Some(Id::U64(1)), ..Record::default() }, &mut out).expect("encodes");
    encoder.sync(300, &mut out);

    let mut desk = Desk::new(LIMITS);
    desk.feed(&out);
    let ack = std::mem::take(&mut desk.replies);
    desk.finish();
    let (mut records, tallies) = desk.records();
    records.sort_by_key(|record| record.split(':').next().map(str::to_owned));
    assert_eq!(
        records,
        [
            r#"app: 1000.000000005 point,id,parent {span_id "5", parent_id "p", severity "odd"}"#,
            "app: 55.000000005 missed 9",
            "app: 1000.000000005 point {parent_id_u64 1}",
            "default: 1000.000000005 point {}",
            r#"elsewhere: -1.999999999 start,id,parent {span_id_u64 7, parent_id_u64 6, type "req", severity "error", message "hello", a_i32 -1, u32 1, i64 -9223372036854775808, u64 18446744073709551615, float 1.5, double -0.25, string "text", aggregate [00, 01, 02]}"#,
        ]
    );
    assert_eq!((tallies.received, tallies.rejected_total()), (4, 0));
    assert_eq!(tallies.bytes, out.len() as u64);
    let (kind, payload, _) = binary::frame(&ack).expect("an ACK");
    assert_eq!((kind, payload), (binary::ACK, &[0xac, 0x02, 4, 0, 0][..]));
    let (kind, payload, len) = binary::frame(&desk.replies).expect("the summary");
    assert_eq!((kind, len), (binary::SUMMARY, desk.replies.len()));
    let summary: serde_json::Value = serde_json::from_slice(payload).expect("JSON");
    assert_eq!(summary["accepted"], 4);
    assert_eq!(summary["first_error"], serde_json::Value::Null);
}

/// Frames after the hello, and the refusal of the last of them.
#[track_caller]
fn refused(limits: Limits, frames: &[(u8, &[u8])], expected: &str) {
    let mut bytes = HELLO.to_vec();
    for (kind, payload) in frames {
        put_frame(&mut bytes, *kind, payload);
    }
    let mut desk = Desk::new(limits);
    desk.feed(&bytes);
    desk.finish();
    assert_eq!(desk.first_error(), expected);
    let (records, tallies) = desk.records();
    assert_eq!(records, Vec::<String>::new());
    assert_eq!((desk.intake.account.rejected, tallies.rejected_total()), (1, 1));
}

#[test]
fn refusals_have_their_place() {
    let text = (binary::FIELD, &b"\x01\x06text"[..]);
    for (frames, expected) in [
        (&[(99, &b""[..])][..], "1:1 frame: a frame of an unknown kind"),
        (&[(binary::RECORD, b"")], "1:1 frame: the frame ends too early"),
        (&[(binary::RECORD, b"\x40\0\0\0")], "1:2 frame: the frame ends too early"),
        (&[(binary::RECORD, b"\x00\x01")], "1:2 undefined: an event type never defined"),
        (&[(binary::RECORD, b"\x80\x01\0\0\0")], "1:2 undefined: a source or field never defined"),
        (&[(binary::RECORD, b"\x00\x00\x0a\x00")], "1:3 frame: a severity that is not 0 to 9"),
        (&[(binary::RECORD, b"\x08\x00\x00\x00")], "1:4 frame: the frame ends too early"),
        (&[(binary::RECORD, b"\0\0\0\x05hell")], "1:5 frame: the frame ends too early"),
        (&[(binary::RECORD, b"\0\0\0\x02a\0")], "1:7 encoding: a text with a NUL: send it as aggregate"),
        (&[(binary::RECORD, b"\0\0\0\0\x01")], "1:5 undefined: a source or field never defined"),
        (&[(binary::RECORD, b"\0\0\0\0\0")], "1:5 undefined: a source or field never defined"),
        (&[text, (binary::RECORD, b"\0\0\0\0\x01\xff")], "2:6 frame: a number is cut short or too long"),
        (
            &[text, (binary::RECORD, b"\0\0\0\0\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")],
            "2:16 frame: the frame ends too early",
        ),
        (&[(binary::FIELD, b"\x02\x06text")], "1:1 frame: ids are handed out from 1 upwards, at most 4096"),
        (&[(binary::FIELD, b"\x00\x06text")], "1:1 frame: ids are handed out from 1 upwards, at most 4096"),
        (&[(binary::FIELD, b"\x01\x09text")], "1:2 frame: a field type that is not 0 to 7"),
        (&[(binary::TYPE, b"\x01\xff")], "1:2 encoding: a name that is not UTF-8, or has a NUL"),
        (&[(binary::USE, b"\x01")], "1:1 undefined: a source or field never defined"),
        (&[(binary::SYNC, b"\x01\x01")], "1:2 frame: a frame with more in it than there should be"),
        (
            &[(binary::CLOCK, b"\x02")],
            "1:1 control: a clock that is none of 0 (realtime), 1 (monotonic) and 7 (boottime)",
        ),
        (&[(binary::CLOCK, b"\x01\0")], "1:2 frame: a frame with more in it than there should be"),
        (&[(binary::CLOCK, b"")], "1:1 frame: the frame ends too early"),
        (&[(binary::MISSED, b"\x01")], "1:2 frame: the frame ends too early"),
        (
            &[(binary::MISSED, b"\x81\x80\x80\x80\x10\0\0\0\0\0\0\0\0")],
            "1:1 control: more than 2^32 lost records at a time",
        ),
    ] {
        refused(LIMITS, frames, expected);
    }
    let long = [&b"\x01"[..], &[b'n'; 256]].concat();
    refused(LIMITS, &[(binary::TYPE, &long)], "1:2 oversize_field: a name longer than 255 bytes");
    let long = [&b"\0\0\0\x41"[..], &[b'm'; 65]].concat();
    let expected = "1:4 oversize_field: a text longer than the limit for fields";
    refused(LIMITS, &[(binary::RECORD, &long)], expected);
    let expected = "1:1 oversize_line: a frame longer than the limit";
    refused(LIMITS, &[(binary::RECORD, &[0; 4097])], expected);
}

#[test]
fn times_are_of_the_clock_that_a_frame_says() {
    let mut desk = Desk::new(LIMITS);
    // What lines are of unless they say otherwise does not concern frames.
    desk.shared.default_clock = SenderClock::Monotonic;
    desk.intake = Intake::new(1, None, &desk.shared);
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes);
    for clock in [SenderClock::Realtime, SenderClock::Boottime, SenderClock::Monotonic] {
        if clock != SenderClock::Realtime {
            encoder.clock(clock.code(), &mut bytes);
        }
        let time = clock.now().expect("it is there");
        encoder.record(&Record { time: Some(time), ..Record::default() }, &mut bytes).expect("no names");
        encoder.missed(1, time, &mut bytes);
    }
    let extreme = i64::MAX;
    encoder.record(&Record { time: Some(extreme), ..Record::default() }, &mut bytes).expect("no names");
    let now = SenderClock::Realtime.now().expect("it is there") as f64 / 1e9;
    desk.feed(&bytes);
    desk.finish();
    let (records, tallies) = desk.records();
    assert_eq!((records.len(), tallies.rejected_total()), (7, 0), "{records:?}");
    for record in &records[..6] {
        let time: f64 = record.split(' ').nth(1).unwrap().parse().unwrap();
        assert!((time - now).abs() < 5.0, "{now}: {records:?}");
    }
    assert!(records[6].starts_with("default: 9223372036.854775807 "), "{records:?}");
}

#[test]
fn bad_frames_do_not_disturb_good_ones() {
    let mut bytes = HELLO.to_vec();
    for payload in [&b"\0\0\0\x01a"[..], b"\0\0\0\x02a", &[7; 5000], b"\0\0\0\x01b"] {
        put_frame(&mut bytes, binary::RECORD, payload);
    }
    for chunk in [1, 2, 7, 100, 10_000] {
        let mut desk = Desk::new(LIMITS);
        for part in bytes.chunks(chunk) {
            desk.feed(part);
            assert!(desk.held() <= LIMITS.max_line);
        }
        desk.finish();
        let (records, tallies) = desk.records();
        assert_eq!(
            records,
            [
                r#"default: 1000.000000005 point {message "a"}"#,
                r#"default: 1000.000000005 point {message "b"}"#
            ]
        );
        assert_eq!(tallies.rejected[Reason::Frame as usize], 1);
        assert_eq!(tallies.rejected[Reason::OversizeLine as usize], 1);
        assert_eq!(tallies.bytes, bytes.len() as u64, "chunks of {chunk}");
    }
}

#[test]
fn a_stream_of_another_version_or_without_bounds_is_given_up() {
    let hopeless = [
        (&b"\xffjs\x02"[..], "1:1 frame: a binary stream starts with FF 6A 73 01 (version 1)"),
        (b"\xffxx", "1:1 frame: a binary stream starts with FF 6A 73 01 (version 1)"),
        (b"\xffjs\x01\x04\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "1:2 frame: not a frame length"),
        (
            b"\xffjs\x01\x11\x01\x05\x05\x01\x05",
            "1:1 control: a CHUNK frame needs rings that were passed before",
        ),
    ];
    let unfinished = [
        (&b"\xffjs\x01\x04\x05ab"[..], "1:5 frame: the stream ends within a frame"),
        (b"\xffj", "1:3 frame: the stream ends within a frame"),
    ];
    for (bytes, expected, broken) in hopeless
        .map(|(bytes, expected)| (bytes, expected, true))
        .into_iter()
        .chain(unfinished.map(|(bytes, expected)| (bytes, expected, false)))
    {
        let mut desk = Desk::new(LIMITS);
        desk.feed(bytes);
        assert_eq!(desk.intake.broken, broken);
        if broken {
            assert_eq!(desk.held(), 0, "nothing is kept of what is behind: {expected}");
            desk.feed(b"more");
        }
        desk.finish();
        assert_eq!(desk.first_error(), expected);
        assert_eq!(desk.intake.account.rejected, 1);
    }
}

#[test]
fn texts_are_cut_where_so_configured() {
    let mut desk = Desk::new(Limits { max_field: 16, truncate: true, ..LIMITS });
    let mut bytes = HELLO.to_vec();
    put_frame(&mut bytes, binary::RECORD, "\0\0\0\x15012345678901234éxxxx".as_bytes());
    desk.feed(&bytes);
    let (records, tallies) = desk.records();
    assert_eq!(records, [r#"default: 1000.000000005 point {message "012345678901234"}"#]);
    assert_eq!((tallies.truncated, desk.intake.account.truncated), (1, 1));
}

#[test]
fn fields_beyond_the_cap_are_folded() {
    let registry = RegistryConfig { max_fields: 16, ..RegistryConfig::new(400) };
    let mut desk = Desk::with(LIMITS, &registry, 10);
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    let fields: &[(&[u8], Value<'_>)] = &[(b"x", Value::I32(-1)), (b"y", Value::Bytes(&[1, 255]))];
    encoder.record(&Record { fields, ..Record::default() }, &mut out).expect("encodes");
    desk.feed(&out);
    let (records, tallies) = desk.records();
    assert_eq!(records, [r#"default: 1000.000000005 point {other "x=-1", other "y=01ff"}"#]);
    assert_eq!(tallies.folded, 2);
}

#[test]
fn an_encoder_refuses_what_cannot_be_interned() {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    let long = [b'x'; 256];
    let record = Record { event_type: Some(&long), ..Record::default() };
    assert_eq!(encoder.record(&record, &mut out), Err(EncodeError::Name));
    for n in 0..binary::MAX_INTERNED {
        let name = n.to_string();
        let record = Record { event_type: Some(name.as_bytes()), ..Record::default() };
        encoder.record(&record, &mut out).expect("room");
    }
    let record = Record { event_type: Some(b"one more"), ..Record::default() };
    assert_eq!(encoder.record(&record, &mut out), Err(EncodeError::TooManyNames));
    let mut desk = Desk::new(LIMITS);
    desk.feed(&out);
    assert_eq!((desk.intake.account.accepted, desk.intake.account.rejected), (4096, 0));
}

#[test]
fn names_of_a_connection_are_bounded_on_both_sides() {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    let name = |n: usize| format!("{n:0255}");
    let fit = binary::MAX_NAME_BYTES / 255;
    for n in 0..=fit {
        let name = name(n);
        let record = Record { event_type: Some(name.as_bytes()), ..Record::default() };
        let expected = if n < fit { Ok(()) } else { Err(EncodeError::TooManyNames) };
        assert_eq!(encoder.record(&record, &mut out), expected, "{n}");
    }
    let mut payload = Vec::new();
    put_varint(&mut payload, fit as u64 + 1);
    payload.extend_from_slice(name(fit).as_bytes());
    put_frame(&mut out, binary::TYPE, &payload);
    let mut desk = Desk::new(LIMITS);
    desk.feed(&out);
    assert_eq!(desk.intake.account.accepted, fit as u64);
    let error = desk.first_error();
    assert!(error.ends_with("oversize_field: more than 128 KiB of names on one connection"), "{error}");
}

/// JSON lines with all kinds of members, well-formed.
fn json_line() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        Just("time2".to_owned()),
        Just("type".to_owned()),
        Just("message".to_owned()),
        Just("level".to_owned()),
        Just("id".to_owned()),
        Just("parent".to_owned()),
        Just("phase".to_owned()),
        "[a-z.é]{1,6}",
    ];
    let value = prop_oneof![
        any::<i64>().prop_map(serde_json::Value::from),
        any::<u64>().prop_map(serde_json::Value::from),
        proptest::num::f64::NORMAL.prop_map(serde_json::Value::from),
        any::<bool>().prop_map(serde_json::Value::from),
        "\\PC{0,20}".prop_map(serde_json::Value::from),
        Just(serde_json::json!({"n": [1, 2], "o": {"p": "q\"\n"}})),
        Just(serde_json::Value::from("start")),
    ];
    proptest::collection::vec((name, value), 0..8).prop_map(|members| {
        let members: Vec<String> =
            members.iter().map(|(name, value)| format!("{}:{value}", serde_json::json!(name))).collect();
        format!("{{{}}}", members.join(","))
    })
}

proptest! {
    /// A line sent as it is and the same line through parser and encoder become the same records.
    #[test]
    fn both_framings_tell_the_same(lines in proptest::collection::vec(json_line(), 1..8)) {
        let limits = Limits { max_field: 4096, ..LIMITS };
        let mut plain = Desk::new(limits);
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        let mut event = Event::default();
        for line in &lines {
            plain.feed(format!("{line}\n").as_bytes());
            prop_assert_eq!(ndjson::parse(line.as_bytes(), &limits, false, &mut event), Ok(ndjson::Line::Event));
            encoder.record(&record_of(line.as_bytes(), &event, &mut Vec::new()), &mut out).expect("few names");
        }
        let mut packed = Desk::new(limits);
        packed.feed(&out);
        let (expected, _) = plain.records();
        let (got, _) = packed.records();
        prop_assert_eq!(plain.intake.account.rejected, 0);
        // Text ids and numeric ids of one record are sent as text, and a severity that is no known word
        // comes after the message, as any field does.
        let same = |record: &String| {
            let mut parts: Vec<String> = record
                .split(['{', '}', ','])
                .map(|part| part.replace("_u64 ", " ").replace('"', "").trim().to_owned())
                .collect();
            parts.sort_unstable();
            parts
        };
        let expected: Vec<_> = expected.iter().map(same).collect();
        let got: Vec<_> = got.iter().map(same).collect();
        prop_assert_eq!(got, expected);
    }

    /// Varints of any value, as a token, come back.
    #[test]
    fn tokens_come_back(token in any::<u64>()) {
        let mut bytes = HELLO.to_vec();
        let mut payload = Vec::new();
        put_varint(&mut payload, token);
        put_frame(&mut bytes, binary::SYNC, &payload);
        let mut desk = Desk::new(LIMITS);
        desk.feed(&bytes);
        let (kind, answer, _) = binary::frame(&desk.replies).expect("an ACK");
        prop_assert_eq!((kind, binary::varint(answer)), (binary::ACK, Some((token, payload.len()))));
    }
}

/// The bytes that docs/ingest-protocol.md shows are those that the encoder makes.
#[test]
fn the_example_in_the_specification_is_true() {
    let text = include_str!("../../../../docs/ingest-protocol.md");
    let block =
        text.split("### Example").nth(1).and_then(|rest| rest.split("```").nth(1)).expect("the example");
    let shown: Vec<u8> = block
        .lines()
        .flat_map(|line| {
            line.trim().split(' ').map_while(|word| match word.len() {
                2 => u8::from_str_radix(word, 16).ok(),
                _ => None,
            })
        })
        .collect();
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    encoder.sync(0, &mut out);
    let line = br#"{"time":1.5,"type":"req","level":"info","message":"hi","n":7}"#;
    let mut event = Event::default();
    ndjson::parse(line, &LIMITS, false, &mut event).expect("valid");
    encoder.record(&record_of(line, &event, &mut Vec::new()), &mut out).expect("few names");
    assert_eq!(shown, out, "{out:02X?}");
    let mut desk = Desk::new(LIMITS);
    desk.feed(&out);
    assert_eq!(desk.replies, [0x85, 4, 0, 0, 0, 0]);
}
