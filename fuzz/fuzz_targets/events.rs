//! Packed event arrays: the kind in the first byte. What the reader takes can be built again, record for record, and
//! what the builder makes of that is the same bytes from then on.
#![no_main]

use byteorder::NetworkEndian;
use jumpseat::event::reader::Record;
use jumpseat::event::{ArrayKind, ArrayReader, NetEventArray};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((first, bytes)) = data.split_first() else { return };
    let kind = if first & 1 == 0 { ArrayKind::Event } else { ArrayKind::HighRes };
    let Ok(array) = ArrayReader::<NetworkEndian>::new(kind, bytes) else { return };
    let once = built(kind, &array);
    let read = ArrayReader::<NetworkEndian>::new(kind, &once).expect("what was built can be read");
    assert_eq!(contents(kind, &array), contents(kind, &read));
    assert_eq!(built(kind, &read), once);
});

fn built(kind: ArrayKind, array: &ArrayReader<'_, NetworkEndian>) -> Vec<u8> {
    let mut builder = NetEventArray::new(kind);
    for record in array.records() {
        match record.missed() {
            Some(count) => builder.add_missed(record.time, count).expect("a missed record"),
            None => builder.add_record(record.time, record.flags).expect("an ordinary record"),
        }
        for param in record.params() {
            builder.add_param(param.pmid, param.value).expect("as long as what came");
        }
    }
    builder.into_bytes()
}

/// Everything that is in an array, as text: numbers that are none are equal to themselves there. Where the builder has 32 bits
/// for seconds, as PCP's own has, only those count.
fn contents(kind: ArrayKind, array: &ArrayReader<'_, NetworkEndian>) -> String {
    let record = |record: Record<'_, NetworkEndian>| {
        let params: Vec<_> = record.params().map(|param| (param.pmid, param.value)).collect();
        let is_cut = kind == ArrayKind::Event || record.missed().is_some();
        let sec = if is_cut { i64::from(record.time.sec as i32) } else { record.time.sec };
        format!("{sec}.{:09} {:?} {:?} {params:?}\n", record.time.nsec, record.flags, record.missed())
    };
    array.records().map(record).collect()
}
