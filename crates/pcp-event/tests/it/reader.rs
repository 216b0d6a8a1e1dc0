//! Properties of reading event arrays: whatever was built reads back the same in both byte orders, and no
//! bytes whatsoever make the reader panic or disagree with itself.

use byteorder::{BigEndian, ByteOrder, LittleEndian};
use pcp_event::{ArrayKind, ArrayReader, EventArray, EventFlags, Param, summary};
use pcp_model::{Pmid, Timestamp, ValueType};
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Call {
    Record(Timestamp, u32, Vec<(u32, Owned)>),
    Missed(Timestamp, i32),
}

/// A parameter's value as its type and its bytes; numbers as their bits, so that NaNs compare.
#[derive(Clone, Debug, PartialEq)]
struct Owned(ValueType, Vec<u8>);

impl Owned {
    fn of(param: &Param<'_>) -> Owned {
        let bytes = match *param {
            Param::I32(v) => v.to_le_bytes().to_vec(),
            Param::U32(v) => v.to_le_bytes().to_vec(),
            Param::I64(v) => v.to_le_bytes().to_vec(),
            Param::U64(v) => v.to_le_bytes().to_vec(),
            Param::Float(v) => v.to_bits().to_le_bytes().to_vec(),
            Param::Double(v) => v.to_bits().to_le_bytes().to_vec(),
            Param::String(v) | Param::Aggregate(v) => v.to_vec(),
        };
        Owned(param.value_type(), bytes)
    }

    fn param(&self) -> Param<'_> {
        let number = self.1.iter().take(8).rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        match self.0 {
            ValueType::I32 => Param::I32(number as i32),
            ValueType::U32 => Param::U32(number as u32),
            ValueType::I64 => Param::I64(number as i64),
            ValueType::U64 => Param::U64(number),
            ValueType::Float => Param::Float(f32::from_bits(number as u32)),
            ValueType::Double => Param::Double(f64::from_bits(number)),
            ValueType::String => Param::String(&self.1),
            _ => Param::Aggregate(&self.1),
        }
    }
}

fn value() -> impl Strategy<Value = Owned> {
    prop_oneof![
        any::<u32>().prop_map(|v| Owned::of(&Param::U32(v))),
        any::<i32>().prop_map(|v| Owned::of(&Param::I32(v))),
        any::<u64>().prop_map(|v| Owned::of(&Param::U64(v))),
        any::<i64>().prop_map(|v| Owned::of(&Param::I64(v))),
        any::<u32>().prop_map(|v| Owned::of(&Param::Float(f32::from_bits(v)))),
        any::<u64>().prop_map(|v| Owned::of(&Param::Double(f64::from_bits(v)))),
        vec(any::<u8>(), 0..20).prop_map(|v| Owned::of(&Param::String(&v))),
        vec(any::<u8>(), 0..20).prop_map(|v| Owned::of(&Param::Aggregate(&v))),
    ]
}

fn time() -> impl Strategy<Value = Timestamp> {
    // Microseconds and 32 bits of seconds, which both kinds can hold.
    (any::<i32>(), 0..1_000_000u32).prop_map(|(sec, usec)| Timestamp::new(sec.into(), usec * 1_000))
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let record = (time(), 0..0x8000_0000u32, vec((any::<u32>(), value()), 0..6))
        .prop_map(|(time, flags, params)| Call::Record(time, flags, params));
    let missed = (time(), any::<i32>()).prop_map(|(time, count)| Call::Missed(time, count));
    vec(prop_oneof![4 => record, 1 => missed], 0..8)
}

fn kind() -> impl Strategy<Value = ArrayKind> {
    prop_oneof![Just(ArrayKind::Event), Just(ArrayKind::HighRes)]
}

fn build<E: ByteOrder>(kind: ArrayKind, calls: &[Call]) -> Vec<u8> {
    let mut array = EventArray::<E>::new(kind);
    for call in calls {
        match call {
            Call::Missed(time, count) => array.add_missed(*time, *count).unwrap(),
            Call::Record(time, flags, params) => {
                array.add_record(*time, EventFlags(*flags)).unwrap();
                for (pmid, value) in params {
                    array.add_param(Pmid(*pmid), value.param()).unwrap();
                }
            }
        }
    }
    array.into_bytes()
}

fn read_back<E: ByteOrder>(kind: ArrayKind, calls: &[Call]) {
    let bytes = build::<E>(kind, calls);
    let array = ArrayReader::<E>::new(kind, &bytes).unwrap();
    assert_eq!((array.len(), array.kind()), (calls.len(), kind));
    for (record, call) in array.records().zip(calls) {
        match call {
            Call::Missed(time, count) => {
                assert_eq!((record.time, record.missed()), (*time, Some(*count)));
                assert_eq!(record.params().count(), 0);
            }
            Call::Record(time, flags, params) => {
                assert_eq!((record.time, record.flags, record.missed()), (*time, EventFlags(*flags), None));
                let read = record.params().map(|param| (param.pmid.0, Owned::of(&param.value)));
                assert_eq!(&read.collect::<Vec<_>>(), params);
            }
        }
    }
}

/// Reads everything there is; the array must hold as many records and parameters as it says.
fn read_all<E: ByteOrder>(kind: ArrayKind, bytes: &[u8]) {
    match ArrayReader::<E>::new(kind, bytes) {
        Err(error) => {
            assert!(error.code().0 < 0 && error.offset <= bytes.len(), "{error}");
        }
        Ok(array) => {
            assert_eq!(array.records().count(), array.len());
            for record in &array {
                let count = if record.missed().is_some() { 0 } else { record.count as usize };
                assert_eq!(record.params().count(), count);
            }
            assert!(summary(&array, |_| i64::MAX).starts_with('['));
        }
    }
}

fn read_as_everything(bytes: &[u8]) {
    for kind in [ArrayKind::Event, ArrayKind::HighRes] {
        read_all::<BigEndian>(kind, bytes);
        read_all::<LittleEndian>(kind, bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn what_was_built_reads_back(kind in kind(), calls in calls()) {
        read_back::<BigEndian>(kind, &calls);
        read_back::<LittleEndian>(kind, &calls);
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in vec(any::<u8>(), 0..200)) {
        read_as_everything(&bytes);
    }

    #[test]
    fn damaged_arrays_do_not_panic(
        kind in kind(),
        calls in calls(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = build::<BigEndian>(kind, &calls);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        read_as_everything(&bytes);
        read_as_everything(&bytes[..cut.index(bytes.len())]);
    }
}
