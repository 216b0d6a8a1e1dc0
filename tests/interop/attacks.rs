//! Flaws of length and index that PCP's own decoders had and mended from 2012 on, one row for each: the agent at pmcd's
//! pipe and the standalone endpoint refuse the PDU, say so to who sent it, and serve everybody else as before; a tool that
//! gets one as an answer ends with a message. What archives may hold is in `tests/archive`.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::seat::{DOMAIN, JUMPSEAT, PMDA, Seat};
use jumpseat::client::{Context, Fetched};
use jumpseat::model::Pmid;
use jumpseat::pdu::{Cred, CredFlags, Creds, Pdu, kind};
use support::{temp_dir, wait_until};

/// A metric of every agent: `jumpseat.event.count`.
const KNOWN: Pmid = Pmid::new(DOMAIN as u16, 1, 3);
const HUGE: u32 = 0x7fff_ffff;
const MINUS: u32 = 0xffff_ffff;
/// So many, times the size of what is counted, is 0 or little in 32 bits.
const OVERFLOWS: u32 = 0x4000_0000;
/// Most that an agent may grow by while it is attacked.
const ROOM: u64 = 64 << 10;

/// What is wrong, the PDU's type, the words of its body, and bytes behind them.
type Attack = (&'static str, u32, &'static [u32], &'static [u8]);

const LABELS_OF_METRIC: u32 = 1 << 5;
/// One of type 6 and the length below the header's own; too long; and with the length of nothing at all.
const BLOCKS: [u32; 4] = [0x0600_0003, 0x06ff_ffff, 0x0600_0000, 0xffff_ffff];

#[rustfmt::skip]
const ATTACKS: &[Attack] = &[
    ("a profile without a body", kind::PROFILE, &[], b""),
    ("a profile with a negative count", kind::PROFILE, &[0, 0, MINUS, 0], b""),
    ("a profile with more domains than bytes", kind::PROFILE, &[0, 0, HUGE, 0], b""),
    ("a profile whose count overflows", kind::PROFILE, &[0, 0, 0x1000_0000, 0], b""),
    ("a profile with a negative number of instances", kind::PROFILE, &[0, 0, 1, 0, 0, 0, MINUS, 0], b""),
    ("a profile with more instances than bytes", kind::PROFILE, &[0, 0, 1, 0, 0, 0, OVERFLOWS, 0], b""),
    ("a profile whose second list is missing", kind::PROFILE, &[0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 7], b""),
    ("a fetch without a body", kind::FETCH, &[], b""),
    ("a fetch with a negative count", kind::FETCH, &[0, 0, 0, MINUS], b""),
    ("a fetch of nothing", kind::FETCH, &[0, 0, 0, 0], b""),
    ("a fetch with more metrics than bytes", kind::FETCH, &[0, 0, 0, 2, 1], b""),
    ("a fetch whose count overflows", kind::FETCH, &[0, 0, 0, OVERFLOWS, 1], b""),
    ("a fetch with bytes behind it", kind::FETCH, &[0, 0, 0, 1, 1, 2], b""),
    ("a nanosecond fetch with a negative count", kind::HIGHRES_FETCH, &[0, 0, 0, MINUS], b""),
    ("a nanosecond fetch whose count overflows", kind::HIGHRES_FETCH, &[0, 0, 0, OVERFLOWS], b""),
    ("a descriptor request without a metric", kind::DESC_REQ, &[], b""),
    ("a descriptor request with half a metric", kind::DESC_REQ, &[], b"\x19\x00"),
    ("descriptors with a negative count", kind::DESC_IDS, &[MINUS, MINUS], b""),
    ("descriptors with more than bytes", kind::DESC_IDS, &[MINUS, OVERFLOWS, 1], b""),
    ("an instance request without a body", kind::INSTANCE_REQ, &[], b""),
    ("an instance request with a negative length", kind::INSTANCE_REQ, &[1, 0, 0, 0, MINUS], b""),
    ("an instance request with a name longer than it", kind::INSTANCE_REQ, &[1, 0, 0, 0, 9], b"name"),
    ("an instance request with the longest of names", kind::INSTANCE_REQ, &[1, 0, 0, 0, HUGE], b"name"),
    ("a text request without a type", kind::TEXT_REQ, &[1], b""),
    ("a text request of no type", kind::TEXT_REQ, &[1, 0], b""),
    ("a text request with bytes behind it", kind::TEXT_REQ, &[1, 5, 5], b""),
    ("names with a negative count", kind::PMNS_NAMES, &[8, 0, MINUS, 4], b"name"),
    ("names with more than bytes", kind::PMNS_NAMES, &[8, 0, OVERFLOWS, 4], b"name"),
    ("names of a negative size", kind::PMNS_NAMES, &[MINUS, 0, 1, 4], b"name"),
    ("a name of a negative length", kind::PMNS_NAMES, &[8, 0, 1, MINUS], b"name"),
    ("a name longer than all names", kind::PMNS_NAMES, &[8, 0, 1, 400], b"name"),
    ("more states than names", kind::PMNS_NAMES, &[8, 9, 1, 0, 4], b"name"),
    ("identifiers with a negative count", kind::PMNS_IDS, &[0, MINUS], b""),
    ("identifiers with more than bytes", kind::PMNS_IDS, &[0, OVERFLOWS, 1], b""),
    ("children of a name of a negative length", kind::PMNS_CHILD, &[0, MINUS], b""),
    ("children of a name longer than it", kind::PMNS_CHILD, &[0, 400], b"jump"),
    ("a walk below a name of a negative length", kind::PMNS_TRAVERSE, &[0, MINUS], b""),
    ("a walk below a name longer than it", kind::PMNS_TRAVERSE, &[0, HUGE], b"jump"),
    ("labels without a type", kind::LABEL_REQ, &[1], b""),
    ("labels of no type", kind::LABEL_REQ, &[1, 0x77], b""),
    ("labels with bytes behind them", kind::LABEL_REQ, &[1, LABELS_OF_METRIC, 0], b""),
    ("a store without a body", kind::RESULT, &[], b""),
    ("a store with a negative count", kind::RESULT, &[0, 0, MINUS], b""),
    ("a store with more sets than bytes", kind::RESULT, &[0, 0, OVERFLOWS, 1], b""),
    ("a store with more values than bytes", kind::RESULT, &[0, 0, 1, 1, HUGE, 1], b""),
    ("a store whose values overflow", kind::RESULT, &[0, 0, 1, 1, 0x2000_0000, 1], b""),
    ("a store of an unknown format", kind::RESULT, &[0, 0, 1, 1, 1, 77, MINUS, 0], b""),
    ("a store with a block at the front", kind::RESULT, &[0, 0, 1, 1, 1, 1, MINUS, 0], b""),
    ("a store with a block behind the end", kind::RESULT, &[0, 0, 1, 1, 1, 1, MINUS, 900], b""),
    ("a store with a block before the beginning", kind::RESULT, &[0, 0, 1, 1, 1, 1, MINUS, MINUS], b""),
    ("a block shorter than its head", kind::RESULT, &[0, 0, 1, 1, 1, 1, MINUS, 11, BLOCKS[0]], b""),
    ("a block longer than the PDU", kind::RESULT, &[0, 0, 1, 1, 1, 1, MINUS, 11, BLOCKS[1]], b""),
    ("a block of no length", kind::RESULT, &[0, 0, 1, 1, 1, 1, MINUS, 11, BLOCKS[2]], b""),
    ("a block of all bits", kind::RESULT, &[0, 0, 1, 1, 1, 1, MINUS, 11, BLOCKS[3]], b""),
    ("events with more records than bytes", kind::RESULT,
        &[0, 0, 1, 1, 1, 1, MINUS, 11, 0x0900_0008, HUGE], b""),
    ("an event with more parameters than bytes", kind::RESULT,
        &[0, 0, 1, 1, 1, 1, MINUS, 11, 0x0900_0018, 1, 0, 0, 0, HUGE], b""),
    ("a parameter longer than its event", kind::RESULT,
        &[0, 0, 1, 1, 1, 1, MINUS, 11, 0x0900_0020, 1, 0, 0, 0, 1, 1, 0x0600_ffff], b""),
    ("nanosecond events with more records than bytes", kind::RESULT,
        &[0, 0, 1, 1, 1, 1, MINUS, 11, 0x0a00_0008, HUGE], b""),
    ("credentials without a count", kind::CREDS, &[], b""),
    ("credentials with a negative count", kind::CREDS, &[MINUS], b""),
    ("credentials with more than bytes", kind::CREDS, &[OVERFLOWS, 0x0102_0000], b""),
    ("no credentials", kind::CREDS, &[0], b""),
    ("an attribute without a body", kind::ATTR, &[], b""),
    ("an attribute of five thousand bytes", kind::ATTR, &[1], &[b'a'; 5000]),
    ("an authentication of three thousand bytes", kind::ATTR, &[0], &[b'a'; 3000]),
    ("log control, which no agent has", 0x700b, &[0, 0, 0, MINUS], b""),
    ("a request for the log's state", 0x700a, &[HUGE], b""),
    ("a type that no PDU has", 0x7fff, &[], b""),
];

fn pdu(kind: u32, words: &[u32], rest: &[u8]) -> Vec<u8> {
    let len = 12 + 4 * words.len() + rest.len();
    let head = [len as u32, kind, 0];
    let mut pdu: Vec<u8> = head.iter().chain(words).flat_map(|word| word.to_be_bytes()).collect();
    pdu.extend_from_slice(rest);
    pdu
}

fn sound(pdu: &Pdu) -> Vec<u8> {
    pdu.to_bytes(0).expect("a PDU that can be sent").to_vec()
}

fn credentials() -> Vec<u8> {
    sound(&Pdu::Creds(Creds { creds: vec![Cred::Version { version: 2, flags: CredFlags::empty() }] }))
}

/// Reads one PDU, header included; `None` at the end.
fn read(stream: &mut impl Read) -> Option<Vec<u8>> {
    let mut pdu = vec![0; 12];
    stream.read_exact(&mut pdu).ok()?;
    let word = |at: usize| u32::from_be_bytes(pdu[at..at + 4].try_into().expect("four bytes"));
    let len = word(0) as usize;
    assert!((12..1 << 20).contains(&len), "an answer of {len} bytes");
    pdu.resize(len, 0);
    stream.read_exact(&mut pdu[12..]).ok()?;
    Some(pdu)
}

/// Whether it is an error, which has a code that is not 0.
fn is_error(pdu: &[u8]) -> bool {
    pdu[4..8] == kind::ERROR.to_be_bytes() && pdu[12..16] != [0; 4]
}

/// Memory of a process, in KiB.
fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("all processes have that");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn an_agent_refuses_whatever_comes_from_pmcd_and_serves_on() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let mut agent = Command::new(PMDA)
        .args(seat.args())
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program is built");
    let mut to = agent.stdin.take().expect("piped above");
    let mut from = agent.stdout.take().expect("piped above");
    let ask = sound(&Pdu::DescReq(KNOWN));
    let mut answers_to = |attack: &[u8]| {
        to.write_all(&[attack, &ask].concat()).expect("the agent reads");
        let mut answers = Vec::new();
        loop {
            let answer = read(&mut from).unwrap_or_else(|| panic!("the agent has ended:\n{}", seat.log()));
            if answer[4..8] == kind::DESC.to_be_bytes() {
                return answers;
            }
            answers.push(answer);
        }
    };
    answers_to(&credentials());
    let before = memory(agent.id());
    for (name, kind, words, rest) in ATTACKS {
        let answers = answers_to(&pdu(*kind, words, rest));
        assert!(
            answers.len() <= 1,
            "{name}: one answer at most, or pmcd takes it for that to the next request"
        );
        assert!(answers.iter().all(|answer| is_error(answer)), "{name}: {answers:x?}");
    }
    let grown = memory(agent.id()).saturating_sub(before);
    assert!(grown < ROOM, "{grown} KiB more");
    drop(to);
    assert!(agent.wait().expect("our own child").success(), "{}", seat.log());
}

#[test]
fn the_endpoint_refuses_whatever_comes_from_clients_and_serves_the_others() {
    /// Lengths that no PDU has, at the front of a stream of ones.
    const LENGTHS: [u32; 7] = [0, 1, 11, 0x0fff_ffff, HUGE, 0x8000_0000, MINUS];
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve([]);
    let mut other = Context::host(&endpoint.host()).expect("the endpoint takes clients");
    let mut fetched = Fetched::new();
    let before = memory(endpoint.process.pid());
    let framed = ATTACKS.iter().map(|(name, kind, words, rest)| (*name, pdu(*kind, words, rest)));
    let lengths = LENGTHS.map(|len| {
        let words = [len, kind::FETCH, 0].map(u32::to_be_bytes).concat();
        ("a length that no PDU has", [words, vec![1; 4096]].concat())
    });
    for (name, attack) in framed.chain(lengths) {
        let mut stream = TcpStream::connect(endpoint.host()).expect("the endpoint listens");
        assert_eq!(read(&mut stream).expect("a greeting").len(), 20, "{name}");
        stream.write_all(&credentials()).expect("the endpoint reads");
        // It may close the connection as soon as it has seen enough.
        let _ = stream.write_all(&attack);
        let _ = stream.shutdown(Shutdown::Write);
        while let Some(answer) = read(&mut stream) {
            assert!(is_error(&answer), "{name}: {answer:x?}");
        }
        let answered = other.fetch(&[KNOWN], &mut fetched);
        answered.unwrap_or_else(|error| panic!("{name}: the others are not served: {error}"));
    }
    let grown = memory(endpoint.process.pid()).saturating_sub(before);
    assert!(grown < ROOM, "{grown} KiB more");
}

/// What a collector may answer, besides [`ATTACKS`], and nobody may believe.
#[rustfmt::skip]
const ANSWERS: &[Attack] = &[
    ("identifiers for more names than were asked for", kind::PMNS_IDS, &[2, 2, 1, 1], b""),
    ("fewer identifiers than were asked for", kind::PMNS_IDS, &[1, 0], b""),
    ("identifiers with a count of all bits", kind::PMNS_IDS, &[1, MINUS, 1], b""),
    ("a descriptor cut short", kind::DESC, &[1, 1, 1], b""),
    ("descriptors with a negative count", kind::DESCS, &[MINUS], b""),
    ("descriptors with more than bytes", kind::DESCS, &[OVERFLOWS, 0, 0], b""),
    ("instances with a negative count", kind::INSTANCE, &[1, MINUS], b""),
    ("instances with more than bytes", kind::INSTANCE, &[1, OVERFLOWS, 0, 0], b""),
    ("an instance with a name of a negative length", kind::INSTANCE, &[1, 1, 0, MINUS], b"name"),
    ("an instance with a name longer than all", kind::INSTANCE, &[1, 1, 0, HUGE], b"name"),
    ("a text of a negative length", kind::TEXT, &[1, MINUS], b"text"),
    ("a text longer than it is", kind::TEXT, &[1, HUGE], b"text"),
    ("labels with a negative number of sets", kind::LABEL, &[1, LABELS_OF_METRIC, 0, MINUS], b""),
    ("labels with more sets than bytes", kind::LABEL, &[1, LABELS_OF_METRIC, 0, OVERFLOWS], b""),
    ("labels with more of them than bytes", kind::LABEL, &[1, LABELS_OF_METRIC, 0, 1, MINUS, HUGE, 36, 4], b"{}"),
    ("labels in front of the PDU", kind::LABEL, &[1, LABELS_OF_METRIC, 0, 1, MINUS, 0, MINUS, 4], b"{}"),
    ("labels behind the PDU", kind::LABEL, &[1, LABELS_OF_METRIC, 0, 1, MINUS, 0, 4000, 4], b"{}"),
    ("labels of a negative length", kind::LABEL, &[1, LABELS_OF_METRIC, 0, 1, MINUS, 0, 44, MINUS], b"{}"),
    ("an error that is none", kind::ERROR, &[0], b""),
    ("an error with more behind it", kind::ERROR, &[MINUS, 1, 2, 3], b""),
];

#[test]
fn a_tool_ends_with_a_message_whatever_the_collector_answers() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve([]);
    let greeting =
        read(&mut TcpStream::connect(endpoint.host()).expect("the endpoint listens")).expect("a greeting");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let host = listener.local_addr().expect("it is bound").to_string();
    for (name, kind, words, rest) in ATTACKS.iter().chain(ANSWERS) {
        let mut tool = Command::new(JUMPSEAT)
            .args(["info", "-h", &host, "-f", "some.metric"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program is built");
        let (mut stream, _) = listener.accept().expect("the tool connects");
        stream.write_all(&greeting).expect("the tool reads");
        read(&mut stream).expect("its credentials");
        read(&mut stream).expect("its first request");
        let _ = stream.write_all(&pdu(*kind, words, rest));
        let _ = stream.shutdown(Shutdown::Write);
        // Whatever else it says; it must not wait for more.
        while read(&mut stream).is_some() {}
        drop(stream);
        let status = wait_until(Duration::from_secs(30), || tool.try_wait().expect("our own child"));
        let _ = tool.kill();
        let output = tool.wait_with_output().expect("our own child");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(status.is_some_and(|status| status.code() == Some(1)), "{name}: {status:?}: {said}");
        assert!(!said.contains("panicked") && !said.trim().is_empty(), "{name}: {said}");
    }
}
