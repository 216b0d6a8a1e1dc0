//! Labels as they travel, in a LABEL PDU around the bytes: the JSON and the places of names and values in it.
#![no_main]

use bytes::BytesMut;
use jumpseat::pdu::{FrameReader, Pdu};

libfuzzer_sys::fuzz_target!(|body: &[u8]| {
    const LABEL: u32 = 0x7013;
    let mut stream = BytesMut::new();
    for word in [12 + body.len() as u32, LABEL, 0] {
        stream.extend_from_slice(&word.to_be_bytes());
    }
    stream.extend_from_slice(body);
    let Ok(Some(frame)) = FrameReader::new(1 << 20).next(&mut stream) else { return };
    let Ok(pdu) = Pdu::decode(&frame) else { return };
    // What is taken is more than what is sent: names twice, for one.
    let Ok(again) = pdu.to_bytes(0) else { return };
    let mut stream = BytesMut::from(&again[..]);
    let frame = FrameReader::new(1 << 20).next(&mut stream).expect("a frame").expect("a whole one");
    assert_eq!(Pdu::decode(&frame).expect("what was encoded can be decoded"), pdu);
});
