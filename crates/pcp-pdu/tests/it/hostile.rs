//! Bytes from anyone: decoding never panics, and what it accepts survives a trip over the wire.

use bytes::{Bytes, BytesMut};
use pcp_pdu::*;
use proptest::prelude::*;

/// All captured PDUs, as seeds: bytes of whole PDUs.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let folder = support::repository().join("tests/data/pdu");
    let mut seeds = Vec::new();
    for entry in folder.read_dir().expect("the folder of captures") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "hex") {
            let text = std::fs::read_to_string(path).expect("a text file");
            let text: String = text.lines().filter(|line| !line.starts_with('#')).collect();
            for pdu in text.split(['>', '<']) {
                let digits: Vec<u32> = pdu.chars().filter_map(|c| c.to_digit(16)).collect();
                let bytes: Vec<u8> = digits.chunks_exact(2).map(|d| (d[0] << 4 | d[1]) as u8).collect();
                if bytes.len() >= HEADER_LEN {
                    seeds.push(bytes);
                }
            }
        }
    }
    assert!(seeds.len() > 200);
    seeds
}

/// Decodes; if that succeeds and the PDU can be sent, it must come back equal. Whether it did succeed.
fn survives(frame: &Frame) -> bool {
    let Ok(pdu) = Pdu::decode(frame) else { return false };
    let Ok(bytes) = pdu.to_bytes(frame.from) else {
        // What peers may say but we do not: labels that are no JSON, empty names.
        assert!(matches!(pdu, Pdu::Label(_) | Pdu::PmnsNames(_)), "{pdu:?}");
        return true;
    };
    let mut buf = BytesMut::from(&bytes[..]);
    let again = FrameReader::new(MAX_LEN).next(&mut buf).expect("a frame").expect("a whole frame");
    assert_eq!(again.from, frame.from);
    let back = Pdu::decode(&again);
    if let (Pdu::Label(pdu), Ok(Pdu::Label(back))) = (&pdu, &back) {
        return assert_same_labels(pdu, back);
    }
    assert_eq!(back.as_ref(), Ok(&pdu));
    true
}

/// Labels come back sorted.
fn assert_same_labels(pdu: &LabelPdu, back: &LabelPdu) -> bool {
    let mut pdu = pdu.clone();
    for labels in pdu.sets.iter_mut().filter_map(|set| set.labels.as_mut().ok()) {
        labels.sort_by(|a, b| a.name.cmp(&b.name));
    }
    assert_eq!(back, &pdu);
    true
}

fn any_kind() -> impl Strategy<Value = u32> {
    prop_oneof![20 => 0x7000..=0x7018_u32, 1 => any::<u32>()]
}

/// Words such as lengths and counts have: small, huge, negative.
fn any_words() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![0..24_u32, Just(u32::MAX), Just(0x7fff_ffff), any::<u32>()];
    prop::collection::vec(word, 0..40)
        .prop_map(|words| words.into_iter().flat_map(u32::to_be_bytes).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bodies(kind in any_kind(), from: i32, body in prop::collection::vec(any::<u8>(), 0..200)) {
        survives(&Frame { kind, from, body: body.into() });
    }

    #[test]
    fn arbitrary_words(kind in any_kind(), body in any_words()) {
        survives(&Frame { kind, from: 0, body: body.into() });
    }

    #[test]
    fn arbitrary_streams(max in 0..300_usize, bytes in prop::collection::vec(any::<u8>(), 0..400), cut: usize) {
        let mut reader = FrameReader::new(max);
        let mut buf = BytesMut::new();
        let cut = cut % (bytes.len() + 1);
        for part in [&bytes[..cut], &bytes[cut..]] {
            buf.extend_from_slice(part);
            while let Ok(Some(frame)) = reader.next(&mut buf) {
                prop_assert!(frame.body.len() + HEADER_LEN <= max);
                survives(&frame);
            }
        }
    }
}

/// Every captured PDU, each word of it in turn replaced by each of a few words, and cut at each word.
#[test]
fn mutated_captures() {
    let mut accepted = 0;
    for seed in seeds() {
        let number = |at: usize| u32::from_be_bytes([seed[at], seed[at + 1], seed[at + 2], seed[at + 3]]);
        let frame = |body: Vec<u8>| Frame { kind: number(4), from: 0, body: Bytes::from(body) };
        let body = &seed[HEADER_LEN..];
        for at in (0..body.len() & !3).step_by(4).take(100) {
            let word = number(HEADER_LEN + at);
            let words = [
                0,
                1,
                2,
                u32::MAX,
                0x7fff_ffff,
                0x8000_0000,
                word.wrapping_add(1),
                word.wrapping_sub(1),
                word << 8,
            ];
            for word in words {
                let mut body = body.to_vec();
                body[at..at + 4].copy_from_slice(&word.to_be_bytes());
                accepted += usize::from(survives(&frame(body)));
            }
            survives(&frame(body[..at].to_vec()));
        }
        survives(&frame([body, b"\0"].concat()));
    }
    assert!(accepted > 1000, "only {accepted} mutants were accepted: the test has lost its point");
}

proptest! {
    #[test]
    fn randomly_mutated_captures(
        seed in prop::sample::select(seeds()),
        edits in prop::collection::vec((any::<usize>(), any::<u8>()), 1..6),
    ) {
        let mut body = seed[HEADER_LEN..].to_vec();
        for (at, byte) in edits {
            if !body.is_empty() {
                let at = at % body.len();
                body[at] = byte;
            }
        }
        let kind = u32::from_be_bytes([seed[4], seed[5], seed[6], seed[7]]);
        survives(&Frame { kind, from: 0, body: body.into() });
    }
}
