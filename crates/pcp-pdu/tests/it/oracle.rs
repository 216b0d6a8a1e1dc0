//! PDUs against PCP itself: what is damaged in one place or another, and what libpcp's decoders make of it.
//!
//! Both must take or refuse the same, and find the same in what they take. What is let off is said in [`Excuse`], by rules that
//! look at PCP's answer and at the bytes, never at ours; each has a cap.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bytes::BytesMut;
use pcp_pdu::*;
use support::CPeer;
use support::random::Random;

use crate::hostile::seeds;

const CASES: usize = 6000;
/// The kinds that the oracle knows.
const KINDS: [u32; 13] = [
    kind::ERROR,
    kind::DESC_REQ,
    kind::DESC,
    kind::INSTANCE_REQ,
    kind::INSTANCE,
    kind::TEXT_REQ,
    kind::TEXT,
    kind::CREDS,
    kind::PMNS_IDS,
    kind::PMNS_NAMES,
    kind::PMNS_CHILD,
    kind::PMNS_TRAVERSE,
    kind::LABEL_REQ,
];

/// Why an answer of PCP's is not asked of us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Excuse {
    /// It crashes or hangs.
    Dies,
    /// It hands over a kind of label or text that there is none of, for its caller to refuse.
    Kind,
    /// It hands over a type of values that there is none of. Here that is one word for all.
    Type,
    /// It does not look at bytes that are behind all that it has found.
    Rest,
    /// It takes a number of names' kinds that is neither none nor that of the names.
    Status,
}

impl Excuse {
    fn of(theirs: &str, pdu: &[u8]) -> Option<Excuse> {
        let kind = |text: &str| u32::from_str_radix(text, 16).unwrap_or_default();
        match theirs.split(' ').collect::<Vec<_>>()[..] {
            ["crash" | "hang"] => Some(Excuse::Dies),
            ["label-req", of] if ![1, 2, 4, 8, 16, 32].contains(&kind(of)) => Some(Excuse::Kind),
            // A metric is 4, an instance domain 8.
            ["text-req", _, of] if kind(of) & 12 == 0 => Some(Excuse::Kind),
            ["desc", _, of, ..] if !of.parse().is_ok_and(|of: i32| (-1..=10).contains(&of)) => {
                Some(Excuse::Type)
            }
            ["names", ..] if ![0, word(pdu, 20)].contains(&word(pdu, 16)) => Some(Excuse::Status),
            _ => needed(&theirs.split(' ').collect::<Vec<_>>())
                .filter(|needed| *needed < pdu.len())
                .map(|_| Excuse::Rest),
        }
    }

    /// Of all cases.
    fn cap(self) -> usize {
        match self {
            Excuse::Dies => CASES / 50,
            Excuse::Kind => CASES / 12,
            Excuse::Type => CASES / 50,
            Excuse::Rest => CASES / 12,
            Excuse::Status => CASES / 50,
        }
    }
}

#[test]
fn damaged_pdus_mean_what_they_mean_to_pcp() {
    let mut oracle = CPeer::start("tests/c/pdu_oracle.c");
    let mut random = Random::new(20, 26);
    let seeds: Vec<Vec<u8>> = seeds().into_iter().filter(|pdu| KINDS.contains(&word(pdu, 4))).collect();
    let (mut excused, mut different) = (BTreeMap::new(), Vec::new());
    let (mut taken, mut refused) = (0, 0);
    for case in 0..CASES {
        let seed = &seeds[random.below(seeds.len())];
        let pdu = seeds.get(case).cloned().unwrap_or_else(|| damaged(seed, &mut random));
        let theirs = oracle.ask(&hex(&pdu));
        if let Some(excuse) = Excuse::of(&theirs, &pdu) {
            *excused.entry(excuse).or_insert(0) += 1;
            continue;
        }
        let ours = decoded(&pdu);
        let theirs = theirs.split_once("-req ").filter(|(of, _)| ["label", "text"].contains(of)).map_or(
            theirs.clone(),
            // What kind was asked for is in the type.
            |(of, rest)| format!("{of}-req {}", rest.split(' ').next().unwrap_or_default()),
        );
        let same = match (&ours, theirs.starts_with("error -")) {
            (Err(_), true) => true,
            (Ok(ours), false) => *ours == theirs,
            _ => false,
        };
        if theirs.starts_with("error -") {
            refused += 1
        } else {
            taken += 1
        }
        if !same {
            different.push(format!("{}\n  PCP:  {theirs}\n  ours: {ours:?}", hex(&pdu)));
        }
    }
    println!("{taken} taken, {refused} refused, excused {excused:?}, {} differ", different.len());
    assert!(taken > CASES / 10 && refused > CASES / 10);
    assert!(
        different.is_empty(),
        "{} differ:\n{}",
        different.len(),
        different[..different.len().min(12)].join("\n")
    );
    for (excuse, count) in excused {
        assert!(count <= excuse.cap(), "{excuse:?}: {count}");
    }
}

/// The length of a PDU that holds what an answer says, of the kinds whose decoders may leave something over.
fn needed(answer: &[&str]) -> Option<usize> {
    let padded = |text: &str| if text == "-" { 0 } else { (text.len() / 2).next_multiple_of(4) };
    match answer {
        ["desc-req", ..] => Some(16),
        ["desc", ..] => Some(32),
        ["label-req", ..] | ["text-req", ..] => Some(20),
        ["instance-req", _, _, name] => Some(32 + padded(name)),
        ["instance", _, entries @ ..] => Some(
            20 + entries
                .chunks(2)
                .map(|entry| 8 + entry.get(1).map_or(0, |name| padded(name)))
                .sum::<usize>(),
        ),
        ["creds", creds @ ..] => Some(16 + 4 * creds.len()),
        ["ids", _, ids @ ..] => Some(20 + 4 * ids.len()),
        _ => None,
    }
}

/// A PDU with some words changed, cut short, or made longer. Its length is right.
fn damaged(seed: &[u8], random: &mut Random) -> Vec<u8> {
    let mut pdu = seed.to_vec();
    for _ in 0..1 + random.below(2) {
        match random.below(10) {
            0 => pdu.truncate(HEADER_LEN.max(pdu.len() - 4 * (1 + random.below(3)).min(pdu.len() / 4))),
            1 => pdu.extend((0..4 * (1 + random.below(3))).map(|_| random.word() as u8)),
            _ if pdu.len() > HEADER_LEN => {
                let at = HEADER_LEN + random.below((pdu.len() - HEADER_LEN) / 4) * 4;
                let before = word(&pdu, at);
                let length = pdu.len() as u32;
                let other = random.word() as u32;
                let words = [
                    0,
                    1,
                    2,
                    before.wrapping_add(1),
                    before.wrapping_sub(1),
                    length,
                    length / 4,
                    0x7fff_ffff,
                    0x8000_0000,
                    u32::MAX,
                    other,
                ];
                pdu[at..at + 4].copy_from_slice(&random.pick(&words).to_be_bytes());
            }
            _ => {}
        }
    }
    let length = pdu.len() as u32;
    pdu[..4].copy_from_slice(&length.to_be_bytes());
    pdu
}

fn word(pdu: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([pdu[at], pdu[at + 1], pdu[at + 2], pdu[at + 3]])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A text as C has it: up to its first NUL.
fn text(bytes: &ByteStr) -> String {
    let text = bytes.0.split(|byte| *byte == 0).next().unwrap_or_default();
    if text.is_empty() { " -".to_owned() } else { format!(" {}", hex(text)) }
}

/// What we find in it, in the oracle's words.
fn decoded(pdu: &[u8]) -> Result<String, String> {
    let mut bytes = BytesMut::from(pdu);
    let frame = FrameReader::new(MAX_LEN).next(&mut bytes).map_err(|error| error.to_string())?;
    let frame = frame.ok_or("not whole")?;
    let each = |items: Vec<String>| items.concat();
    Ok(match Pdu::decode(&frame).map_err(|error| error.to_string())? {
        Pdu::Error(error) => format!("error-pdu {}", error.code),
        Pdu::DescReq(pmid) => format!("desc-req {:x}", pmid.0),
        Pdu::Desc(desc) => {
            let units = desc.units;
            format!(
                "desc {:x} {} {:x} {} {} {} {} {} {} {}",
                desc.pmid.0,
                desc.value_type as i32,
                desc.indom.0,
                desc.semantics.code(),
                units.dim_space,
                units.dim_time,
                units.dim_count,
                units.scale_space,
                units.scale_time,
                units.scale_count
            )
        }
        Pdu::InstanceReq(req) => format!("instance-req {:x} {}{}", req.indom.0, req.inst, text(&req.name)),
        Pdu::Instance(list) => {
            let entries = list.instances.iter().map(|entry| format!(" {}{}", entry.inst, text(&entry.name)));
            format!("instance {:x}{}", list.indom.0, each(entries.collect()))
        }
        Pdu::TextReq(req) => format!("text-req {:x}", req.target.ident()),
        Pdu::Text(found) => format!("text {:x}{}", found.ident, text(&found.text)),
        Pdu::Creds(creds) => {
            let one = |cred: &Cred| match cred {
                Cred::Version { version, flags } => format!(" 01{version:02x}{:04x}", flags.0),
                Cred::Other { kind, data: [a, b, c] } => format!(" {kind:02x}{a:02x}{b:02x}{c:02x}"),
            };
            format!("creds{}", each(creds.creds.iter().map(one).collect()))
        }
        Pdu::PmnsIds(ids) => {
            format!("ids {}{}", ids.status, each(ids.ids.iter().map(|id| format!(" {:x}", id.0)).collect()))
        }
        Pdu::PmnsNames(PmnsNames::Plain(names)) => format!("names{}", each(names.iter().map(text).collect())),
        Pdu::PmnsNames(PmnsNames::WithStatus(names)) => {
            let one = |(name, kind): &(ByteStr, NodeKind)| {
                format!(" {}{}", i32::from(*kind == NodeKind::NonLeaf), text(name))
            };
            format!("names{}", each(names.iter().map(one).collect()))
        }
        Pdu::PmnsNames(PmnsNames::Failed(error)) => return Err(error.to_string()),
        Pdu::PmnsChild(child) => format!("child {}{}", i32::from(child.status), text(&child.name)),
        Pdu::PmnsTraverse(name) => format!("traverse{}", text(&name)),
        Pdu::LabelReq(target) => format!("label-req {:x}", label_kind(target)),
        other => return Err(format!("not expected: {other:?}")),
    })
}

fn label_kind(target: LabelTarget) -> u32 {
    match target {
        LabelTarget::Context => 1,
        LabelTarget::Domain(_) => 2,
        LabelTarget::InDom(_) => 4,
        LabelTarget::Cluster(_) => 8,
        LabelTarget::Item(_) => 16,
        LabelTarget::Instances(_) => 32,
    }
}
