//! OTLP bodies that are made to take much memory take little.

mod ingest_support;
mod otlp_support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use flate2::Compression;
use flate2::write::GzEncoder;
use jumpseat::source::otlp::decode::Signal;
use jumpseat::source::otlp::inflate::{Encoding, inflate};
use jumpseat::source::otlp::json;
use jumpseat::source::registry::RegistryConfig;
use otlp_support::*;

/// Counts the memory that is in use.
struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator as it is; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(used, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`, which is the same.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

// One test: the counter is the whole process's.
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
        let before = USED.load(Ordering::Relaxed);
        MOST.store(before, Ordering::Relaxed);
        desk.traces(body);
        desk.logs(body);
        let taken = MOST.load(Ordering::Relaxed).saturating_sub(before);
        assert!(taken < 8 << 20, "{what}: {taken} bytes for {}", body.len());
        desk.records();
    }
    let texts = [
        ("open lists", format!("{{\"resourceSpans\":{}", "[".repeat(SIZE))),
        ("empty resources", format!("{{\"resourceSpans\":[{}{{}}]}}", "{},".repeat(SIZE / 3))),
        ("names", format!("{{\"x\":[{}0]}}", "{\"a\":0},".repeat(SIZE / 8))),
    ];
    for (what, text) in &texts {
        let before = USED.load(Ordering::Relaxed);
        MOST.store(before, Ordering::Relaxed);
        let mut out = Vec::new();
        let _ = json::transcode(Signal::Traces, text.as_bytes(), &mut out);
        let taken = MOST.load(Ordering::Relaxed).saturating_sub(before);
        // The result, and as much again while it grows.
        assert!(taken < 6 * text.len(), "{what}: {taken} bytes for {}", text.len());
    }
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    bomb.write_all(&vec![0; 64 << 20]).expect("to memory");
    let bomb = bomb.finish().expect("to memory");
    let before = USED.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    inflate(Encoding::Gzip, &bomb, 4 << 20, &mut Vec::new()).expect_err("too long");
    assert!(MOST.load(Ordering::Relaxed) - before < 16 << 20);
}

/// A message of this field number and length around some bytes.
fn around(number: u8, inner: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    prost::encoding::encode_varint(inner.len() as u64, &mut out);
    out.extend_from_slice(inner);
    out
}
