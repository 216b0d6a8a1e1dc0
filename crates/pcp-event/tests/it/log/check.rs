//! Records that can be told from their number, and a strict reader of arrays made of them.

use byteorder::{BigEndian, ByteOrder};
use pcp_event::filter::FieldResolver;
use pcp_event::pack::{self, put_param, put_record};
use pcp_event::{ArrayKind, ArrayReader, Batch, EventFlags, Param};
use pcp_model::{Pmid, Timestamp};

pub(super) const MISSED: Pmid = Pmid::new(400, 16, 5);
pub(super) const TYPE: Pmid = Pmid::new(400, 16, 0);
pub(super) const MESSAGE: Pmid = Pmid::new(400, 16, 1);
pub(super) const SEVERITY: Pmid = Pmid::new(400, 16, 2);
pub(super) const ID: Pmid = Pmid::new(400, 16, 8);
pub(super) const N_I32: Pmid = Pmid::new(400, 16, 9);
pub(super) const N_DOUBLE: Pmid = Pmid::new(400, 16, 10);

/// The fields above by name. `n` comes in two types.
pub(super) struct Fields;

impl FieldResolver for Fields {
    fn generation(&self) -> u64 {
        1
    }

    fn resolve(&self, name: &str, found: &mut dyn FnMut(Pmid)) {
        let pmids: &[Pmid] = match name {
            "type" => &[TYPE],
            "message" => &[MESSAGE],
            "severity" => &[SEVERITY],
            "id" => &[ID],
            "n" => &[N_I32, N_DOUBLE],
            _ => &[],
        };
        pmids.iter().for_each(|&pmid| found(pmid));
    }
}

pub(super) fn time(id: u64) -> Timestamp {
    Timestamp::new(1000 + id as i64, (id * 7_919_123 % 1_000_000_000) as u32)
}

fn flags(id: u64) -> EventFlags {
    [EventFlags::POINT, EventFlags::START, EventFlags::END][(id % 3) as usize]
}

pub(super) fn type_of(id: u64) -> &'static str {
    ["http.request", "db.query", "tick"][(id % 5 % 3) as usize]
}

pub(super) fn severity_of(id: u64) -> &'static str {
    ["debug", "INFO", "warning", "err"][(id % 7 % 4) as usize]
}

/// Calls `add` with each parameter of record `id`.
fn params(id: u64, mut add: impl FnMut(Pmid, Param<'_>)) {
    add(ID, Param::U64(id));
    add(TYPE, Param::String(type_of(id).as_bytes()));
    if !id.is_multiple_of(11) {
        add(SEVERITY, Param::String(severity_of(id).as_bytes()));
    }
    match id % 2 {
        0 => add(N_I32, Param::I32((id % 10) as i32)),
        _ => add(N_DOUBLE, Param::Double((id % 10) as f64 + 0.5)),
    }
    add(MESSAGE, Param::String(&vec![b'm'; (id * 37 % 301) as usize]));
}

pub(super) fn push(batch: &mut Batch, id: u64) {
    let mut record = batch.record(time(id), flags(id));
    params(id, |pmid, param| record.param(pmid, param));
    record.commit().unwrap();
}

pub(super) fn batch(ids: impl IntoIterator<Item = u64>) -> Batch {
    let mut batch = Batch::with_capacity(0);
    ids.into_iter().for_each(|id| push(&mut batch, id));
    batch
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Record(u64),
    Missed(u64, Timestamp),
}

/// Reads an array of records made by [`push`], each compared byte for byte with what it must be.
pub(super) fn items(kind: ArrayKind, array: &[u8]) -> Vec<Item> {
    let mut items = Vec::new();
    if array.is_empty() {
        return items;
    }
    ArrayReader::<BigEndian>::new(kind, array).expect("the reader accepts it");
    assert_eq!(BigEndian::read_u32(array), pack::header_word(kind.value_type(), array.len()));
    let records = BigEndian::read_i32(&array[4..]);
    assert!(records > 0);
    let mut rest = &array[8..];
    let mut counted = None;
    for _ in 0..records {
        let header = kind.record_header();
        let flags = EventFlags(BigEndian::read_u32(&rest[header - 8..]));
        let nparams = BigEndian::read_i32(&rest[header - 4..]);
        let time = match kind {
            ArrayKind::Event => Timestamp::new(
                BigEndian::read_i32(rest).into(),
                BigEndian::read_i32(&rest[4..]) as u32 * 1000,
            ),
            ArrayKind::HighRes => {
                Timestamp::new(BigEndian::read_i64(rest), BigEndian::read_i64(&rest[8..]) as u32)
            }
        };
        if let Some((count, lost)) = counted.take() {
            let mut expected = Vec::new();
            put_record::<BigEndian>(&mut expected, kind, lost, EventFlags::POINT, 1);
            put_param::<BigEndian>(&mut expected, MISSED, &Param::U64(count));
            assert_eq!(&rest[..expected.len()], expected);
            rest = &rest[expected.len()..];
            continue;
        }
        if flags.contains(EventFlags::MISSED) {
            assert_eq!(flags, EventFlags::MISSED);
            assert!(nparams > 0);
            items.push(Item::Missed(nparams as u64, time));
            counted = (kind == ArrayKind::HighRes).then_some((nparams as u64, time));
            rest = &rest[header..];
            continue;
        }
        // The first parameter tells the record's number, and that tells everything.
        assert_eq!(BigEndian::read_u32(&rest[header..]), ID.0);
        let id = BigEndian::read_u64(&rest[header + 8..]);
        let expected = packed(kind, id);
        assert_eq!(&rest[..expected.len()], expected, "record {id}");
        items.push(Item::Record(id));
        rest = &rest[expected.len()..];
    }
    assert!(counted.is_none() && rest.is_empty());
    items
}

fn packed(kind: ArrayKind, id: u64) -> Vec<u8> {
    let mut count = 0;
    params(id, |_, _| count += 1);
    let mut out = Vec::new();
    put_record::<BigEndian>(&mut out, kind, time(id), flags(id), count);
    params(id, |pmid, param| put_param::<BigEndian>(&mut out, pmid, &param));
    out
}

/// A time as an array of this kind shows it.
pub(super) fn shown(kind: ArrayKind, time: Timestamp) -> Timestamp {
    match kind {
        ArrayKind::Event => Timestamp::new(time.sec, time.usec() * 1000),
        ArrayKind::HighRes => time,
    }
}
