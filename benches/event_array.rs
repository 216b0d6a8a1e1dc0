//! Building event arrays against `libpcp_pmda`: 10,000 records with the four parameters u64, i32, f64 and a
//! string of 24 bytes, both kinds. The C library can only build host form, which libpcp then converts for
//! the wire; our network form, which needs no conversion, is raced against that first step alone.

use std::hint::black_box;
use std::time::Duration;

use byteorder::{ByteOrder, NativeEndian, NetworkEndian};
use jumpseat::event::{ArrayKind, EventArray, EventFlags, Param};
use jumpseat::model::{Pmid, Timestamp};

mod common;
use common::{Figure, Goal, Row, Times};
use support::CPeer;

const RECORDS: u32 = 10_000;
const ROUNDS: usize = 400;
const GOAL: f64 = 3.0;
const TEXT: &[u8] = b"GET /api/v1/items/000042";

#[inline(never)]
fn build<E: ByteOrder>(array: &mut EventArray<E>, records: u32) -> usize {
    array.reset();
    for i in 0..records {
        let time = Timestamp { sec: 1_700_000_000 + i64::from(i), nsec: i * 1_000 };
        array
            .add_record(time, EventFlags::POINT)
            .and_then(|()| array.add_param(Pmid::new(400, 16, 1), Param::U64(u64::from(i))))
            .and_then(|()| array.add_param(Pmid::new(400, 16, 2), Param::I32(-(i as i32))))
            .and_then(|()| array.add_param(Pmid::new(400, 16, 3), Param::Double(f64::from(i) * 0.5)))
            .and_then(|()| array.add_param(Pmid::new(400, 16, 4), Param::String(black_box(TEXT))))
            .expect("10,000 records fit an array");
    }
    black_box(array.get()).len()
}

fn main() {
    let mut peer = CPeer::start("benches/c/event_array.c");
    for (kind, letter) in [(ArrayKind::Event, 'E'), (ArrayKind::HighRes, 'H')] {
        let mut host = EventArray::<NativeEndian>::new(kind);
        let mut net = EventArray::<NetworkEndian>::new(kind);
        let len = build(&mut host, RECORDS);
        let [host_times, net_times, c_times] = common::race(
            common::rounds(ROUNDS),
            [
                &mut || common::time(|| assert_eq!(build(&mut host, black_box(RECORDS)), len)),
                &mut || common::time(|| assert_eq!(build(&mut net, black_box(RECORDS)), len)),
                &mut || {
                    let answer = peer.ask(&format!("{letter} {RECORDS}"));
                    let (nanoseconds, c_len) = answer.split_once(' ').expect("time and length");
                    assert_eq!(c_len, len.to_string(), "both build the same");
                    Duration::from_nanos(nanoseconds.parse().expect("a number"))
                },
            ],
        );
        for (form, times) in [("host", &host_times), ("network", &net_times)] {
            let what = format!("event array, {}, {form} form", kind.value_type().name());
            let rate = |times: &Times| Figure::rate(times, RECORDS.into(), "records/s");
            Row::new(what, rate(times)).peer("libpcp_pmda", rate(&c_times)).goal(Goal::Ratio(GOAL)).print();
        }
    }
}
