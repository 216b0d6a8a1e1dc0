//! Value sets: a header's fields in the first bytes, sets and blocks in the rest. Nothing panics; what is sound can be written again and
//! says the same, and what has a layout that was learned is read as what is taken apart.
#![no_main]

use bytes::Bytes;
use jumpseat::model::{PmError, Pmid, Timestamp, ValueType};
use jumpseat::pdu::{
    Fetched, Frame, HEADER_LEN, Layout, Pdu, RawValue, ResultKind, SetRef, SetsWriter, ValueRef, kind,
};

/// Bytes between the header of a RESULT and its sets.
const FIELDS: usize = 12;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&[numpmid, start, bias, value_type], rest)) = data.split_first_chunk() else { return };
    let numbers = (usize::from(start % 64), i32::from(numpmid), u32::from(bias % 8));
    if let Some(mut layout) = layout(rest, numbers) {
        let read = values(layout.sets(rest).iter(), value_type);
        assert_eq!(read.len(), layout.sets(rest).len(), "all sets are there");
        layout.learn(rest);
        assert_eq!(layout.is_of(rest, numbers.1), !read.is_empty());
        // Numbers are at the end, mostly: what has the same layout is read as if it had been taken apart.
        let mut other = rest.to_vec();
        other.iter_mut().rev().take(8).for_each(|byte| *byte ^= value_type);
        if layout.is_of(&other, numbers.1) {
            let apart = self::layout(&other, numbers).expect("what tells the layout is the same");
            assert_eq!(values(apart.sets(&other).iter(), value_type), values(layout.sets(&other).iter(), value_type));
        }
    }
    results(i32::from(numpmid), rest, value_type);
});

/// Sets that are sound.
fn layout(data: &[u8], (start, numpmid, bias): (usize, i32, u32)) -> Option<Layout> {
    let mut layout = Layout::default();
    let read = layout.read(data, start, numpmid, bias);
    assert!(read.is_ok() || layout.sets(data).iter().next().is_none(), "no sets of what is not sound");
    read.ok().map(|()| layout)
}

/// The metrics, and how many of their values are of a type.
fn values<'a>(sets: impl Iterator<Item = SetRef<'a>>, value_type: u8) -> Vec<(Pmid, Result<usize, PmError>)> {
    let value_type = ValueType::from_code(i32::from(value_type % 12));
    let typed = |(_, value): &(i32, ValueRef<'_>)| value.to_value(value_type).is_ok();
    sets.map(|set| (set.pmid, set.values.map(|values| values.iter().filter(typed).count()))).collect()
}

/// The two ways to take a result agree, and both come back from what is written.
fn results(numpmid: i32, sets: &[u8], value_type: u8) {
    let mut body = vec![0; FIELDS - 4];
    body.extend_from_slice(&numpmid.to_be_bytes());
    body.extend_from_slice(sets);
    let mut pdu = ((HEADER_LEN + body.len()) as u32).to_be_bytes().to_vec();
    pdu.extend_from_slice(&kind::RESULT.to_be_bytes());
    pdu.extend_from_slice(&[0; 4]);
    pdu.extend_from_slice(&body);
    let mut fetched = Fetched::new();
    let in_place = fetched.decode(&pdu);
    let taken = Pdu::decode(&Frame { kind: kind::RESULT, from: 0, body: Bytes::from(body) });
    assert_eq!(in_place.err(), taken.as_ref().err().copied());
    let Ok(Pdu::Result(taken)) = taken else { return };

    let mut writer = SetsWriter::default();
    for set in fetched.sets() {
        match set.values {
            Err(error) => writer.set_error(set.pmid, error).expect("an error"),
            Ok(values) => {
                writer.begin_set(set.pmid).expect("no set is open");
                values.iter().for_each(|(inst, value)| writer.push(inst, value).expect("a checked value"));
                writer.end_set().expect("a set is open");
            }
        }
    }
    let written = writer.finish(ResultKind::Micro, Timestamp::default(), 0).expect("as long as what came").concat();
    let mut again = Fetched::new();
    again.decode(&written).expect("what is written is sound");
    assert_eq!(values(again.sets(), value_type), values(fetched.sets(), value_type));
    for (set, raw) in fetched.sets().zip(&taken.sets) {
        let (Ok(values), Ok(raw)) = (set.values, &raw.values) else { continue };
        assert!(values.iter().map(|(_, value)| value).eq(raw.iter().map(|raw| RawValue::view(&raw.value))));
    }
}
