//! What a segment of the log on disk holds of records: the first bytes say of how many, and how long they are together. And the same
//! bytes as records, which are what they were when they have been there.
#![no_main]

use jumpseat_log::fuzzing::{decode, encode};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&[count, words, more], rest)) = data.split_first_chunk() else { return };
    let bytes = 4 * (usize::from(words) + 256 * usize::from(more % 16));
    if let Some((records, ends)) = decode(rest, bytes, count.into()) {
        assert_eq!((records.len(), ends.len()), (bytes, usize::from(count)));
        through(&records, &ends);
    }
    // Up to 32 words each, as the bytes before them say.
    let (mut records, mut ends, mut rest) = (Vec::new(), Vec::new(), rest);
    while let Some((length, behind)) = rest.split_first() {
        let (record, behind) = behind.split_at(behind.len().min(24 + 4 * usize::from(length % 27)));
        if record.len() < 24 {
            break;
        }
        records.extend_from_slice(&record[..record.len() / 4 * 4]);
        ends.push(records.len() as u32);
        rest = behind;
    }
    through(&records, &ends);
});

fn through(records: &[u8], ends: &[u32]) {
    if let Some(encoded) = encode(records, ends) {
        assert!(encoded.len() < records.len());
        let decoded = decode(&encoded, records.len(), ends.len()).expect("it was just encoded");
        assert!(decoded.0 == records && decoded.1 == ends);
    }
}
