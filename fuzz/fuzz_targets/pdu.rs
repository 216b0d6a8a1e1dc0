//! A PDU's kind in the first byte, its body in the rest; what can be sent again comes back equal (labels: sorted by name), and
//! is the same bytes when it is sent once more.
#![no_main]

use bytes::{Bytes, BytesMut};
use jumpseat::pdu::{Fetched, Frame, FrameReader, MAX_LEN, Pdu};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = Fetched::new().decode(data);
    let _ = FrameReader::new(MAX_LEN).next(&mut BytesMut::from(data));
    let Some((kind, body)) = data.split_first() else { return };
    let frame = Frame { kind: 0x7000 + u32::from(kind % 0x20), from: 0, body: Bytes::copy_from_slice(body) };
    let Ok(pdu) = Pdu::decode(&frame) else { return };
    let Ok(bytes) = pdu.to_bytes(0) else { return };
    let again = FrameReader::new(MAX_LEN)
        .next(&mut BytesMut::from(&bytes[..]))
        .expect("a frame")
        .expect("a whole one");
    let back = Pdu::decode(&again).expect("what was encoded can be decoded");
    // Numbers that are none do not equal themselves, but their bytes do.
    assert_eq!(back, sorted(pdu));
    assert_eq!(back.to_bytes(0).expect("it was sent before"), bytes);
});

/// As it is sent.
fn sorted(mut pdu: Pdu) -> Pdu {
    if let Pdu::Label(label) = &mut pdu {
        for labels in label.sets.iter_mut().filter_map(|set| set.labels.as_mut().ok()) {
            labels.sort_by(|a, b| a.name.cmp(&b.name));
        }
    }
    pdu
}
