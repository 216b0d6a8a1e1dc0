//! Chunks of rings that the agent reads by itself: the same records as of the frames that stand for them, and bounded, whatever the
//! file says.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use jumpseat_source::event::Limits;
use jumpseat_wire::encode::Encoder;
use jumpseat_wire::ring::chunk::{Chunk, ENTRY, MAX_READ, Part, put_chunk, put_rings};
use jumpseat_wire::ring::merge::{Merge, Run};
use jumpseat_wire::ring::message::{DURATION, END, POINT, START, field, head as message_head, origin, tag};
use jumpseat_wire::ring::site::Site;
use jumpseat_wire::ring::thread::Thread;
use jumpseat_wire::ring::transcribe::Transcriber;
use jumpseat_wire::ring::{AREA, Geometry, MAGIC, TABLE, head, slot};
use jumpseat_wire::severity::Severity;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use pcp_model::ValueType;
use proptest::prelude::*;

use crate::ingest_support::Desk;

const GEOMETRY: Geometry = Geometry { slots: 2, ring: 2 << 20 };
const LIMITS: Limits = Limits { max_line: 65_536, max_field: 300, truncate: true };

fn site(name: &str, line: u32, fields: &[&str]) -> Site {
    Site {
        name: name.as_bytes().into(),
        severity: Severity::Warning,
        target: if line == 0 { b""[..].into() } else { b"shop::stock"[..].into() },
        file: b"src/stock.rs"[..].into(),
        line,
        fields: fields.iter().map(|field| field.as_bytes().into()).collect(),
    }
}

/// Places of a program with three fields at least: with messages, with fields that are called like those of the layer, with a name
/// that is too long; and one whose own name is.
fn sites() -> Vec<Site> {
    let long = "x".repeat(256);
    vec![
        site("order", 42, &["message", "left", "message"]),
        site("own", 0, &["file", "thread", "duration_ns", "type"]),
        site("", 7, &["left", &long, "target"]),
        site(&long, 1, &[]),
    ]
}

/// A message: kind, time, site, span, and its fields, of which the parent is the first word if it is no point.
fn message((kind, time): (u8, i64), (site, span): (u32, u64), lost: u64, fields: &[u64]) -> Vec<u8> {
    let first = [message_head(4 + fields.len(), lost), time as u64, origin(site, kind), span];
    [&first, fields].concat().iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn text(place: u8, text: &[u8]) -> Vec<u64> {
    let padded = text.chunks(8).map(|bytes| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_ne_bytes(word)
    });
    [field(place, tag::TEXT, text.len() as u32)].into_iter().chain(padded).collect()
}

/// A sealed file of rings with these sites, the messages of two threads from `start` on, and their chunk, number 20.
fn file(sites: &[Site], rings: &[Vec<u8>; 2], start: u64, chunk: &Chunk) -> OwnedFd {
    let file = memfd_create("test", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING).expect("memory");
    let file = File::from(file);
    file.set_len(GEOMETRY.file().expect("it is small")).expect("it is new");
    let put = |bytes: &[u8], at| file.write_all_at(bytes, at).expect("there is room");
    let mut table = Vec::new();
    sites.iter().for_each(|site| site.put(&mut table));
    let mut words = [0; head::WORDS];
    (words[head::MAGIC], words[head::SLOTS], words[head::RING]) = (MAGIC, GEOMETRY.slots, GEOMETRY.ring);
    (words[head::SITES], words[head::LEFT]) = (table.len() as u64, 9);
    put(&words.map(u64::to_ne_bytes).concat(), 0);
    put(&table, AREA);
    let entry: Vec<u8> = chunk.words().flat_map(u64::to_ne_bytes).collect();
    put(&entry, TABLE + 20 % 16 * 8 * ENTRY as u64);
    for (number, ring) in (1..).zip(rings) {
        let at = GEOMETRY.slot(number);
        let thread = threads()[number as usize - 1].words();
        put(&thread.map(u64::to_ne_bytes).concat(), at + 8 * slot::THREAD as u64);
        let (front, back) = ring.split_at(ring.len().min((GEOMETRY.ring - start) as usize));
        put(front, at + AREA + start);
        put(back, at + AREA);
    }
    let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).expect("it is allowed");
    file.into()
}

fn threads() -> [Thread; 2] {
    [Thread::new(4711, "main"), Thread::new(0, "worker")]
}

/// The chunk that has all of this.
fn chunk(rings: &[Vec<u8>; 2], start: u64, lost: u64, count: u64) -> Chunk {
    let part = |(slot, ring): (u64, &Vec<u8>)| {
        let (from, to) = (start, start + ring.len() as u64);
        Part { slot, from, to, told: 0, lost: if slot == 1 { lost } else { 0 } }
    };
    Chunk { first: 1, count, parts: (1..).zip(rings).map(part).collect() }
}

/// A desk at which all fields have their names: which gets the plain one does not depend on what comes first.
fn desk() -> Desk {
    let mut desk = Desk::new(LIMITS);
    let types = [ValueType::String, ValueType::U32, ValueType::I64, ValueType::U64, ValueType::Double];
    for name in ["message", "left", "file", "thread", "duration_ns", "type", "line", "target", "thread_id"] {
        types.iter().for_each(|value_type| drop(desk.shared.lanes.intern(name.as_bytes(), *value_type)));
    }
    desk
}

/// A connection of a sender that begins with number 1, and has passed this file.
fn connected(file: OwnedFd) -> Desk {
    let mut desk = desk();
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    encoder.source("app", &mut out).expect("a name");
    put_rings(&mut out, 1);
    encoder.sender(b"layer:1", 1, &mut out);
    desk.intake.descriptor(file, &desk.shared);
    desk.feed(&out);
    desk
}

/// What becomes of the chunk if the agent reads it.
fn read(file: OwnedFd) -> Desk {
    let mut desk = connected(file);
    let mut out = Vec::new();
    put_chunk(&mut out, 20);
    desk.feed(&out);
    desk
}

/// What becomes of it if its frames are sent.
fn sent(sites: &[Site], rings: &[Vec<u8>; 2], lost: u64) -> (Vec<String>, [u64; 2]) {
    let mut desk = desk();
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out);
    encoder.source("app", &mut out).expect("a name");
    encoder.sender(b"layer:1", 1, &mut out);
    let mut transcriber = Transcriber::new(encoder);
    let (sites, threads): (Vec<_>, _) = (sites.iter().cloned().map(Arc::new).collect(), threads());
    let [first, second] = [0, 1].map(|at| Run {
        messages: &rings[at],
        thread: Some(&threads[at]),
        told: 0,
        lost: if at == 0 { lost } else { 0 },
    });
    for item in Merge::new(vec![first, second]) {
        // As the agent: losses without a time are of their arrival.
        transcriber.put(&item, (&sites, 1000 * 1_000_000_000 + 5), &mut out).expect("few names");
    }
    desk.feed(&out);
    let account = [desk.intake.account.accepted, desk.intake.account.truncated];
    (desk.records().0, account)
}

fn fields() -> impl Strategy<Value = Vec<u64>> {
    let value = (any::<u64>(), "[a-zé\n]{0,12}|x{290,310}", 0..6_u8);
    let one = (0..3_u8, value).prop_map(|(place, (number, words, kind))| match kind {
        tag::BOOLEAN => vec![field(place, tag::BOOLEAN, (number & 1) as u32)],
        0..=2 => vec![field(place, kind, 0), number],
        _ => text(place, words.as_bytes()),
    });
    proptest::collection::vec(one, 0..5).prop_map(|fields| fields.concat())
}

fn messages() -> impl Strategy<Value = Vec<u8>> {
    let took = any::<u64>().prop_map(|took| vec![field(DURATION, tag::NATURAL, 0), took]);
    let one = (0..3_u8, 0..5_u32, 0..3_u64, 0..3_u64, fields(), took).prop_map(
        |(kind, site, span, parent, fields, took)| {
            let fields = match kind {
                POINT => fields,
                END => [vec![parent], took, fields].concat(),
                _ => [vec![parent], fields].concat(),
            };
            ((kind, (site, span)), fields)
        },
    );
    proptest::collection::vec(one, 0..20).prop_map(|all| {
        let mut time = 0;
        let one = |((kind, at), fields): ((u8, (u32, u64)), Vec<u64>)| {
            time += 1_000;
            message((kind, time), at, 0, &fields)
        };
        all.into_iter().flat_map(one).collect()
    })
}

proptest! {
    #[test]
    fn a_chunk_that_is_read_becomes_the_records_of_its_frames(
        first in messages(),
        second in messages(),
        start in (0..GEOMETRY.ring / 8).prop_map(|words| words * 8),
        lost in 0..3_u64,
    ) {
        let (sites, rings) = (sites(), [first, second]);
        let count = |ring: &Vec<u8>| {
            let (mut rest, mut count) = (&ring[..], 0);
            while jumpseat_wire::ring::message::next(&mut rest).is_some() {
                count += 1;
            }
            count
        };
        let numbers = count(&rings[0]) + count(&rings[1]) + lost;
        let mut desk = read(file(&sites, &rings, start, &chunk(&rings, start, lost, numbers)));
        let account = [desk.intake.account.accepted, desk.intake.account.truncated];
        let (expected, expected_account) = sent(&sites, &rings, lost);
        // What the layer does not send is missed; what it sends and the agent refuses, the agent refuses here as well.
        prop_assert_eq!(desk.records().0, expected);
        prop_assert_eq!(account, expected_account);
        let known = desk.intake.account.accepted + desk.intake.account.rejected;
        prop_assert!(known <= numbers);
        let mut replies = &desk.replies[..];
        let mut read = Vec::new();
        while let Some((kind, payload, len)) = jumpseat_wire::frame(replies) {
            if kind == jumpseat_wire::READ {
                read.push(jumpseat_wire::varint(payload).expect("a number").0);
            }
            replies = &replies[len..];
        }
        prop_assert_eq!(read, [0, 21]);
    }
}

/// One message of each ring.
fn two() -> [Vec<u8>; 2] {
    [message((START, 5), (0, 1), 0, &[0]), message((POINT, 6), (0, 1), 0, &text(0, b"hello"))]
}

#[test]
fn a_chunk_that_makes_no_sense_is_refused_with_why() {
    let (sites, rings) = (sites(), two());
    let of = |chunk: &Chunk| read(file(&sites, &rings, 0, chunk));
    let sound = chunk(&rings, 0, 0, 2);
    assert_eq!(of(&sound).intake.account.accepted, 2);
    let refused = |chunk: &Chunk, why: &str| {
        let mut desk = of(chunk);
        assert!(desk.first_error().contains(why), "{why}: {}", desk.first_error());
        assert_eq!((desk.records().0.len(), desk.intake.account.rejected), (0, 1));
        assert!(desk.intake.broken, "the sender is to say it otherwise, on another connection");
    };
    assert!(!of(&sound).intake.broken);
    refused(&Chunk { first: 2, ..sound.clone() }, "first number is not the next one");
    refused(&Chunk { first: 0, ..sound.clone() }, "makes no sense");
    let long = Part { to: MAX_READ + 8, ..sound.parts[0] };
    refused(&Chunk { parts: vec![long], ..sound.clone() }, "too large");
    let mut no_rings = Desk::new(LIMITS);
    let mut out = Vec::new();
    Encoder::new(&mut out).sender(b"a", 1, &mut out);
    put_chunk(&mut out, 0);
    no_rings.feed(&out);
    assert!(no_rings.first_error().contains("needs rings"), "{}", no_rings.first_error());
}

#[test]
fn what_a_chunk_says_too_much_or_too_little_is_counted() {
    let (sites, rings) = (sites(), two());
    let of = |chunk: &Chunk| read(file(&sites, &rings, 0, chunk));
    // Messages that are in no file.
    let mut more = of(&chunk(&rings, 0, 0, 7));
    let (records, _) = more.records();
    assert!(records.iter().any(|record| record.ends_with("missed 5")), "{records:?}");
    let mut less = of(&chunk(&rings, 0, 0, 1));
    assert!(less.first_error().contains("more messages than it says"), "{}", less.first_error());
    assert_eq!(less.records().0.len(), 1);
    // The next number is the one behind the chunk.
    for (desk, next) in [(&mut more, 8), (&mut less, 2)] {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut Vec::new());
        encoder.missed(1, 7, &mut out);
        desk.feed(&out);
        desk.shared.lanes.flush();
        desk.replies.clear();
        desk.intake.acknowledge(&desk.shared, &mut desk.replies);
        let (_, payload, _) = jumpseat_wire::frame(&desk.replies).expect("an answer");
        assert_eq!(jumpseat_wire::varint(payload).expect("a number").0, next);
    }
    // Bytes that are no message end what is read of a ring.
    let mut cut = [rings[0].clone(), rings[1].clone()];
    cut[0][0] = 1;
    let mut desk = read(file(&sites, &cut, 0, &chunk(&cut, 0, 0, 2)));
    assert!(desk.first_error().contains("no message"), "{}", desk.first_error());
    let (records, _) = desk.records();
    assert!(records.len() == 2 && records[1].ends_with("missed 1"), "{records:?}");
}

#[test]
fn frames_behind_a_chunk_wait_for_their_turn() {
    let (sites, rings) = (sites(), two());
    let mut desk = connected(file(&sites, &rings, 0, &chunk(&rings, 0, 0, 2)));
    let mut out = Vec::new();
    put_chunk(&mut out, 20);
    let of_chunk = out.len();
    let mut encoder = Encoder::new(&mut Vec::new());
    encoder.sync(5, &mut out);
    let now = crate::ingest_support::NOW;
    let used = desk.intake.feed(&out, now, &mut desk.shared, &mut desk.replies);
    assert_eq!((used, desk.intake.is_held()), (of_chunk, true));
    let used = desk.intake.feed(&out[used..], now, &mut desk.shared, &mut desk.replies);
    assert_eq!((used, desk.intake.is_held()), (out.len() - of_chunk, false));
}
