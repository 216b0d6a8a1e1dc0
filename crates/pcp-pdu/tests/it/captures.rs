//! Every PDU captured from real PCP decodes, and encodes to the very bytes it was captured as.
//!
//! `tests/data/pdu/*.hex` say in their first line where they come from; `capture.py` there makes them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::BytesMut;
use pcp_model::*;
use pcp_pdu::*;

/// One captured PDU.
struct Captured {
    /// Towards the server or agent.
    request: bool,
    bytes: Vec<u8>,
    frame: Frame,
}

/// The PDUs of a capture file.
fn read(text: &str) -> Vec<Captured> {
    let mut sessions: Vec<(bool, String)> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.get(..2) {
            Some("->") => sessions.push((true, String::new())),
            Some("<-") => sessions.push((false, String::new())),
            _ => {}
        }
        let (_, hex) = sessions.last_mut().expect("a PDU before a continuation line");
        hex.extend(line.chars().filter(char::is_ascii_hexdigit));
    }
    let captured = |(request, hex): (bool, String)| {
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits");
        let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        let mut buf = BytesMut::from(&bytes[..]);
        let frame = FrameReader::new(MAX_LEN).next(&mut buf).expect("a frame").expect("a whole frame");
        assert!(buf.is_empty());
        Captured { request, bytes, frame }
    };
    sessions.into_iter().map(captured).collect()
}

fn files() -> BTreeMap<String, Vec<Captured>> {
    let folder = support::repository().join("tests/data/pdu");
    let mut files = BTreeMap::new();
    for entry in folder.read_dir().expect("the folder of captures") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "hex") {
            let text = std::fs::read_to_string(&path).expect("a text file");
            assert!(text.starts_with("# PCP "), "{path:?} does not say where it comes from");
            files.insert(path.file_stem().unwrap().to_str().unwrap().to_owned(), read(&text));
        }
    }
    files
}

/// The decoded PDUs of one file, without requests that are refused: whether it is a request, and the PDU.
fn session(name: &str) -> Vec<(bool, Pdu)> {
    let decoded = |captured: &Captured| Some((captured.request, Pdu::decode(&captured.frame).ok()?));
    files()[name].iter().filter_map(decoded).collect()
}

/// The answers to one kind of request in one file.
fn answers(name: &str, kind: u32) -> Vec<Pdu> {
    let session = session(name);
    let asked = session.windows(2).filter(|pair| pair[0].0 && pair[0].1.kind() == kind && !pair[1].0);
    asked.map(|pair| pair[1].1.clone()).collect()
}

#[test]
fn every_capture_decodes_and_encodes_to_itself() {
    let mut seen = BTreeSet::new();
    for (name, captures) in files() {
        for captured in captures {
            match Pdu::decode(&captured.frame) {
                Ok(pdu) => {
                    let encoded = pdu.to_bytes(captured.frame.from).expect("sendable");
                    let mut bytes = captured.bytes;
                    if name == "pmval" && pdu.kind() == kind::RESULT {
                        // pmval calls its string static (2), which means nothing on the wire (1 here).
                        assert_eq!(std::mem::replace(&mut bytes[35], 1), 2);
                    }
                    assert_eq!(encoded, bytes, "{name}: {pdu:?}");
                    seen.insert(pdu.kind());
                }
                // A request that pmcd refused, too.
                Err(error) => assert!(captured.request, "{name}: {error}"),
            }
        }
    }
    let all: BTreeSet<u32> = (0..=0xffff).filter(|&number| kind::name(number).is_some()).collect();
    assert_eq!(seen, all);
}

#[test]
fn we_refuse_what_pmcd_refuses_with_its_code() {
    let mut refused = Vec::new();
    for captures in files().values() {
        for pair in captures.windows(2) {
            if let Err(error) = Pdu::decode(&pair[0].frame) {
                let answer = Pdu::decode(&pair[1].frame);
                assert_eq!(answer, Ok(Pdu::Error(ErrorPdu::failure(error.pm_error()))), "{error}");
                refused.push(error.kind);
            }
        }
    }
    // Combined label types, a type that is not in use, and a request that is too short.
    assert_eq!(refused, [kind::LABEL_REQ, kind::LABEL_REQ, 0x700a, kind::FETCH]);
}

#[test]
fn values_of_every_type() {
    let types = [
        (ValueType::I32, Value::I32(1)),
        (ValueType::U32, Value::U32(1_000_000)),
        (ValueType::Float, Value::Float(10.0)),
        (ValueType::I64, Value::I64(1_000_000)),
        (ValueType::U64, Value::U64(1_000_000)),
        (ValueType::Double, Value::Double(10.0)),
        (ValueType::String, "hullo world!".into()),
        (ValueType::String, "".into()),
        (ValueType::Aggregate, Value::Aggregate(b"hullo world!"[..].into())),
        (ValueType::Aggregate, Value::Aggregate(b""[..].into())),
    ];
    for name in ["fetch", "highres_fetch"] {
        let results = session(name).into_iter().filter_map(|(_, pdu)| match pdu {
            Pdu::Result(result) | Pdu::HighResResult(result) => Some(result),
            _ => None,
        });
        let results: Vec<ResultPdu> = results.collect();
        let all = &results[0];
        assert_eq!(all.sets.len(), 14);
        for ((value_type, value), set) in types.iter().zip(&all.sets) {
            assert_eq!(set.to_values(*value_type), Ok(ValueSet::singular(set.pmid, value.clone())), "{name}");
        }
        let bin: Vec<Inst> = instances(&all.sets[10]);
        assert_eq!(bin, [100, 200, 300, 400, 500, 600, 700, 800, 900]);
        assert_eq!(all.sets[11].values, Ok(vec![]), "sample.noinst");
        // Then errors, nine 64-bit values, three profiles.
        assert_eq!(results[1].sets[0].values, Err(PmError::NOAGENT));
        assert_eq!(results[1].sets[3].pmid, Pmid::NULL);
        assert_eq!(results[2].sets[0].to_values(ValueType::U64).unwrap().values.unwrap().len(), 9);
        assert_eq!(instances(&results[3].sets[0]), [100]);
        assert_eq!(instances(&results[4].sets[0]), [200, 400, 500, 600, 700, 800, 900]);
        assert!(instances(&results[5].sets[0]).is_empty());
        let arrays = results[6..].iter().flat_map(|result| &result.sets);
        let types = [ValueType::Event, ValueType::HighResEvent].into_iter().cycle();
        assert!(arrays.zip(types).all(|(set, value_type)| set.to_values(value_type).is_ok()));
    }
}

fn instances(set: &RawValueSet) -> Vec<Inst> {
    set.values.as_ref().expect("values").iter().map(|value| value.inst).collect()
}

#[test]
fn names_instances_and_text() {
    let names = answers("pmns", kind::PMNS_NAMES);
    assert_eq!(names[1], Pdu::PmnsIds(PmnsIds { status: 1, ids: vec![Pmid::new(29, 0, 6), Pmid::NULL] }));
    assert_eq!(names[2], Pdu::PmnsIds(PmnsIds { status: 0, ids: vec![Pmid::NULL; 2] }));
    assert_eq!(names[4], Pdu::Error(ErrorPdu::failure(PmError::NONLEAF)));
    let children = answers("pmns", kind::PMNS_CHILD);
    let secret =
        PmnsNames::WithStatus(vec![("foo".into(), NodeKind::NonLeaf), ("bar".into(), NodeKind::Leaf)]);
    assert_eq!(children[1], Pdu::PmnsNames(secret));
    assert_eq!(children[2], Pdu::PmnsNames(PmnsNames::Plain(vec![])));
    let Pdu::Instance(colours) = &answers("instance", kind::INSTANCE_REQ)[0] else { panic!("no instances") };
    let colours: Vec<_> = colours.instances.iter().map(|entry| entry.name.to_string()).collect();
    assert_eq!(colours, ["red", "green", "blue"]);
    let Pdu::Text(text) = &answers("text", kind::TEXT_REQ)[0] else { panic!("no text") };
    assert_eq!(text.text, "A control variable for the \"sample\" PMDA");
}

#[test]
fn labels_of_every_level() {
    let answers = answers("label_compound", kind::LABEL_REQ);
    let labels = |answer: &Pdu, set: usize| match answer {
        Pdu::Label(pdu) => pdu.sets[set].labels.clone().expect("labels"),
        other => panic!("no labels: {other:?}"),
    };
    let row = Label { name: "site.row".into(), value: "[1,2]".into(), flags: LabelFlags(0x41) };
    assert!(labels(&answers[0], 0).contains(&row));
    let role = Label { name: "role".into(), value: "\"testing\"".into(), flags: LabelFlags(2) };
    assert_eq!(labels(&answers[1], 0)[1], role);
    let bin = Label { name: "bin".into(), value: "900".into(), flags: LabelFlags(0x20) };
    assert_eq!(labels(&answers[5], 8), [bin]);
    assert!(labels(&answers[6], 2).is_empty());
}

#[test]
fn the_life_of_an_agent() {
    let session = session("agent");
    let version = |flags| Creds::version(CredFlags(flags));
    assert_eq!(session[0], (false, Pdu::Creds(version(4))));
    assert_eq!(session[1], (true, Pdu::Creds(version(4))));
    let ends = Pdu::Error(ErrorPdu::failure(PmError::NOTCONN));
    assert!(session.contains(&(true, ends)));
    let user = session.iter().find_map(|(_, pdu)| match pdu {
        Pdu::Attr(attr) if attr.code == AttrCode::USERID => Some(attr.value().to_vec()),
        _ => None,
    });
    assert_eq!(user.as_deref(), Some(&b"0"[..]));
    // An agent's results have no time.
    for (request, pdu) in &session {
        if let (false, Pdu::Result(result)) = (request, pdu) {
            assert_eq!(result.timestamp, Timestamp::default());
        }
    }
    let stored = session.iter().filter_map(|(request, pdu)| match pdu {
        Pdu::Result(result) if *request => result.sets.first(),
        _ => None,
    });
    let stored: Vec<_> = stored.filter_map(|set| set.to_values(ValueType::String).ok()).collect();
    assert!(stored.contains(&ValueSet::singular(Pmid::new(29, 0, 32), "hello world")));
}
