//! OTLP bodies that are made to take much memory take little.

use std::io::Write;
use support::alloc::most_taken;

use crate::otlp_support::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use jumpseat_source::otlp::decode::Signal;
use jumpseat_source::otlp::inflate::{Encoding, inflate};
use jumpseat_source::otlp::json;
use jumpseat_source::registry::RegistryConfig;

#[test]
fn bodies_made_to_hurt_take_little_memory() {
    const SIZE: usize = 1 << 20;
    let spans = |inner: Vec<u8>| around(1, &around(2, &inner));
    let many = |what: &[u8]| what.repeat(SIZE / what.len());
    let good = span(1).encode_to_vec();
    let with = |inner: &[u8]| spans(around(2, &[&good[..], inner].concat()));
    let deep = (0..5000).fold(Vec::new(), |inner, _| around(5, &around(1, &inner)));
    let entry = |value: &[u8]| [around(1, b"k"), around(2, value)].concat();
    let bodies = [
        ("empty spans", spans(many(&around(2, b"")))),
        ("empty resources", many(&around(1, b""))),
        ("empty attributes", with(&many(&around(9, b"")))),
        ("empty events", with(&many(&around(11, b"")))),
        ("empty links", with(&many(&around(13, b"")))),
        ("one long text", with(&around(9, &entry(&around(1, &vec![b'x'; SIZE]))))),
        ("a long list", with(&around(9, &entry(&around(5, &many(&around(1, &around(3, b"")))))))),
        ("a long map", with(&around(9, &entry(&around(6, &many(&around(1, &entry(&around(1, b"v"))))))))),
        ("deep", with(&around(9, &entry(&deep)))),
        ("attributes of a resource", around(1, &around(1, &many(&around(1, &entry(&around(1, b"v"))))))),
        ("no protobuf", vec![0xff; SIZE]),
    ];
    for (what, body) in &bodies {
        // What the core does not take is not counted here, so it gets little.
        let mut desk = Desk::with_room(4, LIMITS, &RegistryConfig::new(400), true);
        let taken = most_taken(|| {
            desk.traces(body);
            desk.logs(body);
        });
        assert!(taken < 8 << 20, "{what}: {taken} bytes for {}", body.len());
        desk.records();
    }
    let texts = [
        ("open lists", format!("{{\"resourceSpans\":{}", "[".repeat(SIZE))),
        ("empty resources", format!("{{\"resourceSpans\":[{}{{}}]}}", "{},".repeat(SIZE / 3))),
        ("names", format!("{{\"x\":[{}0]}}", "{\"a\":0},".repeat(SIZE / 8))),
    ];
    for (what, text) in &texts {
        let taken = most_taken(|| {
            let mut out = Vec::new();
            let _ = json::transcode(Signal::Traces, text.as_bytes(), &mut out);
        });
        // The result, and as much again while it grows.
        assert!(taken < 6 * text.len(), "{what}: {taken} bytes for {}", text.len());
    }
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    bomb.write_all(&vec![0; 64 << 20]).expect("to memory");
    let bomb = bomb.finish().expect("to memory");
    let taken = most_taken(|| {
        inflate(Encoding::Gzip, &bomb, 4 << 20, &mut Vec::new()).expect_err("too long");
    });
    assert!(taken < 16 << 20);
}

/// A message of this field number and length around some bytes.
fn around(number: u8, inner: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    prost::encoding::encode_varint(inner.len() as u64, &mut out);
    out.extend_from_slice(inner);
    out
}
