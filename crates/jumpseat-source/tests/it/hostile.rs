//! Any bytes, in any pieces: never a panic, bounded memory, and accounts that balance.

use crate::ingest_support::Desk;
use jumpseat_source::event::Limits;
use jumpseat_wire::encode::{Encoder, Id, Phase, Record, Value};
use proptest::prelude::*;

fn limits(truncate: bool) -> Limits {
    Limits { max_line: 300, max_field: 40, truncate }
}

/// Feeds `bytes` in pieces of the given sizes; returns records, and checks the accounts.
fn run(bytes: &[u8], pieces: &[usize], truncate: bool) -> Vec<String> {
    let mut desk = Desk::new(limits(truncate));
    let mut rest = bytes;
    let mut sizes = pieces.iter().cycle();
    while !rest.is_empty() {
        let size = sizes.next().copied().unwrap_or(1).clamp(1, rest.len());
        desk.feed(&rest[..size]);
        rest = &rest[size..];
        assert!(desk.held() <= 300 + 10, "holds {} bytes", desk.held());
    }
    desk.finish();
    let (records, tallies) = desk.records();
    let account = &desk.intake.account;
    let lost: u64 = records.iter().filter(|record| record.contains(" missed ")).count() as u64;
    assert_eq!(tallies.received, account.accepted);
    assert_eq!(records.len() as u64 - lost, account.accepted);
    assert_eq!(tallies.rejected_total(), account.rejected);
    assert_eq!(tallies.truncated, account.truncated);
    assert_eq!(account.first_error.is_some(), account.rejected > 0);
    if !desk.intake.broken {
        assert_eq!(tallies.bytes, bytes.len() as u64);
    }
    assert!(!desk.replies.is_empty(), "there is always a summary");
    records
}

/// Lines that are neither blank nor control lines: each is accepted or rejected.
fn accounted_lines(bytes: &[u8]) -> u64 {
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    if lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    lines.iter().filter(|line| !line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'))).count() as u64
}

fn pieces() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(1usize..400, 1..5)
}

fn json_fragments() -> impl Strategy<Value = Vec<u8>> {
    const FRAGMENTS: [&[u8]; 18] = [
        b"{",
        b"}",
        b"[1,",
        b"]",
        b"\"time\":",
        b"\"type\":\"t\",",
        b"\"a\":1",
        b",\"b\":\"\\u12\\ud83d\\ude00\"",
        b"\"\\",
        b"-1.5e9",
        b"null",
        b"{\"jumpseat\":{\"sync\":1}}",
        b"\xc3\xa9",
        b"\xc3",
        b"\0",
        b"\n",
        b"{\"message\":\"ok\"}\n",
        b"                                                                ",
    ];
    let fragment = proptest::sample::select(&FRAGMENTS[..]);
    proptest::collection::vec(fragment, 0..60).prop_map(|parts| parts.concat())
}

/// A valid binary stream.
fn frames(count: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    encoder.source("app", &mut out).expect("a name");
    for n in 0..count {
        let text = "m".repeat(n * 7 % 45);
        let fields: [(&[u8], Value<'_>); 2] =
            [(b"n", Value::U64(n as u64)), (b"text", Value::Text(text.as_bytes()))];
        let record = Record {
            phase: Phase::End,
            event_type: (n % 2 == 0).then_some(b"even"),
            severity: Some(b"info"),
            id: (n % 3 == 0).then_some(Id::Text(b"span")),
            message: Some(b"hello"),
            fields: &fields,
            ..Record::default()
        };
        encoder.record(&record, &mut out).expect("few names");
        encoder.sync(n as u64, &mut out);
    }
    out
}

proptest! {
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..2000), pieces in pieces(), cut in any::<bool>()) {
        run(&bytes, &pieces, cut);
    }

    #[test]
    fn pieces_of_json(bytes in json_fragments(), pieces in pieces(), cut in any::<bool>()) {
        let whole = run(&bytes, &[usize::MAX], cut);
        prop_assert_eq!(&run(&bytes, &pieces, cut), &whole);
        prop_assert_eq!(&run(&bytes, &[1], cut), &whole);
    }

    #[test]
    fn every_line_is_accepted_or_rejected(
        lines in proptest::collection::vec("[ -~]{0,20}|\\{\"a\":[0-9]{1,3}\\}|[ \t]{0,400}|x{290,310}", 0..20),
        pieces in pieces(),
    ) {
        let bytes = lines.join("\n").into_bytes();
        prop_assume!(!bytes.windows(10).any(|part| part == b"\"jumpseat\""));
        let mut desk = Desk::new(limits(false));
        let mut rest = &bytes[..];
        for size in pieces.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, tail) = rest.split_at((*size).min(rest.len()));
            desk.feed(piece);
            rest = tail;
        }
        desk.finish();
        let account = &desk.intake.account;
        // A blank line beyond the limit is oversized like any other.
        let long_blank = bytes
            .split(|byte| *byte == b'\n')
            .filter(|line| line.len() > 300 && line.iter().all(|byte| matches!(byte, b' ' | b'\t')))
            .count() as u64;
        prop_assert_eq!(account.accepted + account.rejected, accounted_lines(&bytes) + long_blank);
    }

    #[test]
    fn frames_with_flipped_bytes(
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        pieces in pieces(),
        cut in any::<bool>(),
    ) {
        let mut bytes = frames(40);
        for (index, value) in flips {
            let at = index.index(bytes.len() - 4) + 4;
            bytes[at] = value;
        }
        let whole = run(&bytes, &[usize::MAX], cut);
        prop_assert_eq!(run(&bytes, &pieces, cut), whole);
    }
}

#[test]
fn valid_frames_split_anywhere() {
    let bytes = frames(5);
    let whole = run(&bytes, &[usize::MAX], true);
    assert_eq!(whole.len(), 5);
    for size in 1..bytes.len() {
        assert_eq!(run(&bytes, &[size, usize::MAX], true), whole, "split at {size}");
    }
}
