//! Collectors that die, hang, are late, lie or babble: the client always gets an error or the right answer, in
//! time, and never the answer to another request.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::client_support::{
    Peer, bytes, code, fetch_i32, greet, hasty, hasty_host, host, kind, patient, read_pdu,
};
use jumpseat::client::{ClientError, Context, Fetched, HostOptions, StateChange};
use jumpseat::model::{Desc, InDom, PmError, Pmid, Semantics, Timestamp, Units, ValueType};
use jumpseat::pdu::{
    ErrorPdu, InstanceEntry, InstanceList, Pdu, PmnsIds, PmnsNames, RawInstanceValue, RawValue, RawValueSet,
    ResultPdu, kind,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use proptest::prelude::*;
use support::{AgentSpec, PrivatePmcd, eventually};

const LONG_TEN: Pmid = Pmid::new(29, 0, 11);
const A: Pmid = Pmid::new(400, 0, 1);
const B: Pmid = Pmid::new(400, 0, 2);
const C: Pmid = Pmid::new(400, 0, 3);

fn signal(pid: u32, signal: Signal) {
    kill(Pid::from_raw(pid as i32), signal).expect("the process runs");
}

/// No request is answered any more, and the reason is told.
#[track_caller]
fn given_up(context: &mut Context) {
    for error in [
        context.pmid("sample.long.ten").unwrap_err(),
        context.start_fetch(&[LONG_TEN]).unwrap_err(),
        context.instances(InDom::new(29, 1)).unwrap_err(),
    ] {
        assert!(matches!(error, ClientError::NotConnected(_)), "{error}");
        assert_eq!(error.code(), PmError::IPC);
    }
    assert!(context.advance(&mut Fetched::new()).unwrap(), "nothing is under way");
    assert!(context.waiting().is_none());
}

#[test]
fn a_collector_killed_in_the_middle_of_a_fetch() {
    for unix in [true, false] {
        let mut pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
        let spec = if unix { pmcd.unix() } else { pmcd.inet() };
        let mut context = host(&spec, &patient()).unwrap();
        assert_eq!(fetch_i32(&mut context, LONG_TEN).unwrap(), 10);
        signal(pmcd.pid(), Signal::SIGSTOP);
        context.start_fetch(&[LONG_TEN]).unwrap();
        let mut fetched = Fetched::new();
        assert!(!context.advance(&mut fetched).unwrap());
        signal(pmcd.pid(), Signal::SIGKILL);
        let error = eventually("the end of the connection", || context.advance(&mut fetched).err());
        assert_eq!(error.code(), PmError::IPC, "{error}");
        given_up(&mut context);
        pmcd.stop();
        // pmcd cannot take the socket of one that had no time to remove it.
        let _ = std::fs::remove_file(pmcd.socket());
        pmcd.start_again();
        context.reconnect().unwrap();
        assert_eq!(fetch_i32(&mut context, LONG_TEN).unwrap(), 10);
    }
}

#[test]
fn a_late_reply_never_answers_the_next_request() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let mut context = hasty_host(&pmcd.inet());
    signal(pmcd.pid(), Signal::SIGSTOP);
    assert_eq!(code(context.pmid("sample.long.one")), PmError::TIMEOUT);
    signal(pmcd.pid(), Signal::SIGCONT);
    given_up(&mut context);
    // The machine may be slow: only what comes back counts.
    let again = eventually("a connection", || {
        context.reconnect().ok()?;
        context.pmid("sample.long.ten").ok()
    });
    assert_eq!(again, LONG_TEN);
}

#[test]
fn an_agent_that_hangs_spoils_its_own_metrics_only() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).options(["-t", "1"]).start();
    let mut context = host(&pmcd.unix(), &patient()).unwrap();
    let hinv = context.pmid("pmcd.numagents").unwrap();
    let agent = {
        let output = pmcd.run("pminfo", ["-f", "pmcd.agent.type"]).ok();
        assert!(output.contains("sample"), "{output}");
        child_of(pmcd.pid(), "pmdasample")
    };
    signal(agent, Signal::SIGSTOP);
    let mut fetched = Fetched::new();
    context.fetch(&[LONG_TEN, hinv], &mut fetched).unwrap();
    assert!(fetched.set(0).unwrap().values.is_err());
    assert_eq!(fetched.set(1).unwrap().values.unwrap().len(), 1);
    let mut changes = fetched.changes;
    eventually("the notice that the agent is gone", || {
        changes = changes.union(context.fetch(&[LONG_TEN, hinv], &mut fetched).unwrap());
        changes.contains(StateChange::DROP).then_some(())
    });
    // pmcd has closed its pipes, and may have started another; left stopped it would stay.
    signal(agent, Signal::SIGKILL);
}

/// pmcd fills what it has no descriptions for with zeros when the agent dies of the request. Asked for alone, it says why, or has them of
/// the agent that it starts in its place.
#[test]
fn descriptions_are_of_what_was_asked_for_also_where_an_agent_dies() {
    let mut pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let own = Pmid::new(2, 0, 0);
    for _ in 0..10 {
        let mut context = host(&pmcd.inet(), &patient()).unwrap();
        let asked = [LONG_TEN, own, Pmid::new(29, 0, 10)];
        signal(child_of(pmcd.pid(), "pmdasample"), Signal::SIGKILL);
        let descs = context.descs(&asked).unwrap();
        assert!(descs.len() == asked.len() && descs[1].is_ok());
        for (pmid, desc) in asked.into_iter().zip(descs) {
            assert_eq!(desc.map_or(pmid, |desc| desc.pmid), pmid);
        }
        pmcd.restart();
    }
}

/// The same whenever it comes to that: what is asked for alone then, and what an agent gives for another metric.
#[test]
fn a_description_of_another_metric_is_none() {
    let desc = |pmid| Desc {
        pmid,
        value_type: ValueType::I32,
        indom: InDom(0),
        semantics: Semantics::of_code(0),
        units: Units::NONE,
    };
    let zeros = desc(Pmid(0));
    let script = [
        (kind::DESC_IDS, Pdu::Descs(vec![Some(zeros), Some(desc(B)), Some(zeros)])),
        (kind::DESC_REQ, Pdu::Desc(desc(A))),
        (kind::DESC_REQ, Pdu::Error(ErrorPdu::failure(PmError::AGAIN))),
        (kind::DESC_IDS, Pdu::Descs(vec![Some(zeros), Some(desc(A)), None])),
        (kind::DESC_REQ, Pdu::Desc(desc(B))),
        (kind::DESC_REQ, Pdu::Desc(desc(B))),
        (kind::DESC_REQ, Pdu::Desc(desc(C))),
    ]
    .map(|(asked, answer)| (asked, bytes(&answer)));
    let peer = Peer::start(move |_, mut stream| {
        greet(&mut stream);
        for (asked, answer) in &script {
            let Some(pdu) = read_pdu(&mut stream) else { return };
            assert_eq!(kind(&pdu), *asked);
            stream.write_all(answer).expect("the client waits");
        }
        while read_pdu(&mut stream).is_some() {}
    });
    let mut context = host(&peer.spec(), &patient()).unwrap();
    let found = context.descs(&[A, B, C]).unwrap();
    assert_eq!(found, [Ok(desc(A)), Ok(desc(B)), Err(PmError::AGAIN)]);
    let found = context.descs(&[A, B, C]).unwrap();
    assert_eq!(found, [Err(PmError::PMID), Ok(desc(B)), Ok(desc(C))]);
}

fn child_of(parent: u32, name: &str) -> u32 {
    let processes = std::fs::read_dir("/proc").expect("procfs").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let Some((head, tail)) = stat.rsplit_once(") ") else { return false };
        head.ends_with(name) && tail.split(' ').nth(1) == Some(&parent.to_string())
    };
    pids.into_iter().find(is_child).unwrap_or_else(|| panic!("pmcd has no child {name}"))
}

/// A result with one value for each metric.
fn result(values: &[(Pmid, i32)]) -> Vec<u8> {
    let set = |&(pmid, value): &(Pmid, i32)| RawValueSet {
        pmid,
        values: Ok(vec![RawInstanceValue { inst: -1, value: RawValue::InSitu(value.to_be_bytes()) }]),
    };
    let sets = values.iter().map(set).collect();
    bytes(&Pdu::HighResResult(ResultPdu { timestamp: Timestamp { sec: 1, nsec: 2 }, sets }))
}

/// A collector that shakes hands, then answers the first request with `reply` and others no more.
fn answers_once(reply: Vec<u8>) -> Peer {
    Peer::start(move |_, mut stream| {
        greet(&mut stream);
        while read_pdu(&mut stream).is_some_and(|pdu| kind(&pdu) == kind::PROFILE) {}
        let _ = stream.write_all(&reply);
        while read_pdu(&mut stream).is_some() {}
    })
}

#[test]
fn replies_that_do_not_fit_end_the_connection() {
    let names = |names: Vec<&'static str>| {
        bytes(&Pdu::PmnsNames(PmnsNames::Plain(names.into_iter().map(Into::into).collect())))
    };
    let ids = |ids: &[Pmid]| bytes(&Pdu::PmnsIds(PmnsIds { status: ids.len() as i32, ids: ids.to_vec() }));
    let header = |len: u32, kind: u32| [len.to_be_bytes(), kind.to_be_bytes(), [0; 4]].concat();
    let good = ids(&[A]);
    let replies = [
        ("of another type", names(vec!["a"])),
        ("more than asked for", ids(&[A, B])),
        ("fewer than asked for", ids(&[])),
        ("success instead of an answer", bytes(&Pdu::Error(ErrorPdu::success()))),
        ("a notice without a fetch", bytes(&Pdu::Error(ErrorPdu::state_change(StateChange::ADD)))),
        ("shorter than it says", [&header(24, kind::PMNS_IDS)[..], &[0, 0, 0, 1, 0, 0, 0, 2]].concat()),
        ("counts beyond the end", [&header(20, kind::PMNS_IDS)[..], &[0, 0, 0, 1, 0x7f, 0, 0, 0]].concat()),
        ("no length", header(0, kind::PMNS_IDS)),
        ("a negative length", header(u32::MAX, kind::PMNS_IDS)),
        ("an absurd length", header(0x7fff_0000, kind::PMNS_IDS)),
        ("no type", header(12, 0)),
        ("an unknown type", header(12, 0x7fff)),
        ("not PCP at all", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
    ];
    for (what, reply) in replies {
        let peer = answers_once(reply);
        let mut context = hasty_host(&peer.spec());
        let error = context.pmid("a").expect_err(what);
        assert!([PmError::IPC, PmError::TIMEOUT].contains(&error.code()), "{what}: {error}");
        given_up(&mut context);
    }
    let peer = answers_once(good);
    assert_eq!(host(&peer.spec(), &patient()).unwrap().pmid("a").unwrap(), A);
}

#[test]
fn results_that_do_not_fit_end_the_connection() {
    let whole = result(&[(A, 1), (B, 2)]);
    let mut cut = whole[..whole.len() - 4].to_vec();
    cut[..4].copy_from_slice(&((whole.len() - 4) as u32).to_be_bytes());
    for (what, reply) in [
        ("other metrics", result(&[(B, 1), (A, 2)])),
        ("too few", result(&[(A, 1)])),
        ("too many", result(&[(A, 1), (B, 2), (B, 3)])),
        ("cut short", cut),
        ("of another type", bytes(&Pdu::PmnsIds(PmnsIds { status: 1, ids: vec![A] }))),
        ("success instead of a result", bytes(&Pdu::Error(ErrorPdu::success()))),
        // It could be the answer to the profile that goes with the first fetch.
        ("an error", bytes(&Pdu::Error(ErrorPdu::failure(PmError::NOPROFILE)))),
    ] {
        let peer = answers_once(reply);
        let mut context = host(&peer.spec(), &patient()).unwrap();
        let mut fetched = Fetched::new();
        let error = context.fetch(&[A, B], &mut fetched).expect_err(what);
        assert!([PmError::IPC, PmError::NOPROFILE].contains(&error.code()), "{what}: {error}");
        assert!(fetched.is_empty(), "{what}");
        given_up(&mut context);
    }
}

/// A definition is bound with the help of the source, which may take its time: others go on defining meanwhile.
#[test]
fn a_slow_source_does_not_hold_up_definitions() {
    let (said, asked) = mpsc::channel();
    let (answer, go) = mpsc::channel::<()>();
    let (said, go) = (Mutex::new(said), Mutex::new(go));
    let peer = Peer::start(move |_, mut stream| {
        greet(&mut stream);
        while read_pdu(&mut stream).is_some() {
            let _ = said.lock().expect("nobody panics").send(());
            let _ = go.lock().expect("nobody panics").recv();
            let _ = stream.write_all(&bytes(&Pdu::Error(ErrorPdu::failure(PmError::NAME))));
        }
    });
    let registry = jumpseat::client::global_registry();
    let defined = registry.write().expect("nobody panics").register("slow.sum", "sum(no.such.metric)");
    let defined = defined.expect("is correct");
    let mut context = host(&peer.spec(), &patient()).unwrap();
    let binding = std::thread::spawn(move || {
        let descs = context.descs(&[defined]).map(|descs| descs.first().copied());
        (descs.unwrap(), code(context.add_derived("slow.own", "no.such.metric")))
    });
    let mut requests = 0;
    while !binding.is_finished() {
        if asked.recv_timeout(Duration::from_millis(10)).is_ok() {
            requests += 1;
            let mut registry = registry.try_write().expect("free while the source is asked");
            registry.register(&format!("slow.other{requests}"), "1").expect("is correct");
            answer.send(()).expect("the peer waits");
        }
    }
    let (desc, own) = binding.join().expect("no panic");
    assert_eq!((desc, own), (Some(Err(PmError::BADDERIVE)), PmError::BADDERIVE));
    // Of each definition its own name and that of the operand.
    assert!(requests >= 2, "{requests}");
}

#[test]
fn notices_are_gathered_until_the_result_comes() {
    let notice = |change| bytes(&Pdu::Error(ErrorPdu::state_change(change)));
    let reply = [notice(StateChange::ADD), notice(StateChange::NAMES), result(&[(A, 7)])].concat();
    let mut context = host(&answers_once(reply).spec(), &patient()).unwrap();
    let mut fetched = Fetched::new();
    let changes = context.fetch(&[A], &mut fetched).unwrap();
    assert_eq!(changes, StateChange::ADD.union(StateChange::NAMES));
    assert_eq!(fetched.set(0).unwrap().values.unwrap().len(), 1);
}

/// What nobody asked for is not taken for the answer to the next request.
#[test]
fn what_comes_unasked_ends_the_connection() {
    let (said, hear) = mpsc::channel();
    let said = Mutex::new(said);
    let peer = Peer::start(move |_, mut stream| {
        greet(&mut stream);
        while read_pdu(&mut stream).is_some() {
            let ids = |pmid| bytes(&Pdu::PmnsIds(PmnsIds { status: 1, ids: vec![pmid] }));
            let _ = stream.write_all(&ids(A));
            // Maybe with the first answer, maybe after it.
            let _ = stream.write_all(&ids(B));
            let _ = said.lock().expect("nobody panics").send(());
        }
    });
    let mut context = host(&peer.spec(), &patient()).unwrap();
    assert_eq!(context.pmid("a").unwrap(), A);
    hear.recv().expect("the peer runs");
    let error = context.pmid("b").expect_err("the answer came before the question");
    assert!(matches!(error, ClientError::Unexpected), "{error}");
    given_up(&mut context);
}

/// The time for an answer is counted once, however many bytes come.
#[test]
fn a_peer_that_never_ends_is_cut_off() {
    let drip = Peer::start(|_, mut stream| {
        greet(&mut stream);
        let _ = read_pdu(&mut stream);
        let _ = stream.write_all(&[0, 0, 0x10, 0, 0, 0, 0x70, 0x0d]);
        while stream.write_all(&[0]).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let mut context = hasty_host(&drip.spec());
    assert_eq!(code(context.pmid("a")), PmError::TIMEOUT);
    given_up(&mut context);
    let flood = Peer::start(|_, mut stream| {
        greet(&mut stream);
        let notices = bytes(&Pdu::Error(ErrorPdu::state_change(StateChange::ADD))).repeat(1000);
        while stream.write_all(&notices).is_ok() {}
    });
    let mut context = hasty_host(&flood.spec());
    let error = context.fetch(&[A], &mut Fetched::new()).unwrap_err();
    assert!(matches!(error, ClientError::Timeout(_) | ClientError::Unexpected), "{error}");
    given_up(&mut context);
}

#[test]
fn handshakes_go_wrong_in_many_ways() {
    let say = |what: &'static [u8]| {
        Peer::start(move |_, mut stream| {
            let _ = stream.write_all(what);
            while stream.read(&mut [0; 64]).is_ok_and(|read| read > 0) {}
        })
    };
    for (what, said) in [
        ("nothing", &b""[..]),
        ("a part", &[0, 0, 0, 20, 0, 0, 0x70]),
        ("not PCP", b"SSH-2.0-OpenSSH_9.2\r\n"),
        ("another PDU", &[0, 0, 0, 16, 0, 0, 0x70, 4, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("an error without a challenge", &[0, 0, 0, 16, 0, 0, 0x70, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    ] {
        let error = host(&say(said).spec(), &hasty()).err().expect(what);
        assert!([PmError::IPC, PmError::TIMEOUT].contains(&error.code()), "{what}: {error}");
        // The next address is tried.
        let next = answers_once(bytes(&Pdu::PmnsIds(PmnsIds { status: 1, ids: vec![A] })));
        let spec = format!("127.0.0.1:{},{}", say(said).address.port(), next.address.port());
        let answer = eventually(what, || hasty_host(&spec).pmid("a").ok());
        assert_eq!(answer, A);
    }
    let closed = Peer::start(|_, stream| drop(stream));
    assert_eq!(code(host(&closed.spec(), &patient())), PmError::IPC);
    let deaf = say(b"");
    let error = host(&format!("a:1@{}", deaf.spec()), &hasty()).err().expect("a deaf proxy");
    assert!([PmError::IPC, PmError::TIMEOUT].contains(&error.code()), "{error}");
}

#[test]
fn connecting_again_is_held_back_after_failures() {
    let mut pmcd = PrivatePmcd::with([]).start();
    let hour = Duration::from_secs(3600);
    let mut context = host(&pmcd.inet(), &HostOptions { reconnect_delays: vec![hour], ..patient() }).unwrap();
    let mut eager = host(&pmcd.inet(), &patient()).unwrap();
    // At any time, also when all is well.
    context.reconnect().unwrap();
    context.reconnect().unwrap();
    pmcd.stop();
    let error = context.reconnect().unwrap_err();
    assert_eq!(error.code(), PmError::from_errno(111), "{error}");
    let error = context.reconnect().unwrap_err();
    assert!(matches!(error, ClientError::TooSoon(left) if left <= hour), "{error}");
    assert_eq!(error.code(), PmError::from_errno(110));
    assert_eq!(code(eager.reconnect()), PmError::from_errno(111));
    assert_eq!(code(eager.reconnect()), PmError::from_errno(111));
    pmcd.start_again();
    assert!(matches!(context.reconnect(), Err(ClientError::TooSoon(_))));
    eager.reconnect().unwrap();
    let agents = eager.pmid("pmcd.numagents").unwrap();
    assert_eq!(fetch_i32(&mut eager, agents).unwrap(), 1);
}

/// What a session asks for, and what it gets. Names in the order of the requests.
fn ask_everything(context: &mut Context) -> Vec<Result<String, PmError>> {
    let mut answers = Vec::new();
    let mut add = |answer: Result<String, ClientError>| answers.push(answer.map_err(|error| error.code()));
    let bin = InDom::new(29, 2);
    let mut fetched = Fetched::new();
    let values = |fetched: &Fetched| {
        let set = |set: jumpseat::pdu::SetRef<'_>| match set.values {
            Ok(values) => format!("{}={:?}", set.pmid, values.iter().collect::<Vec<_>>()),
            Err(error) => format!("{}={error:?}", set.pmid),
        };
        fetched.sets().map(set).collect::<Vec<_>>().join(" ")
    };
    add(context.lookup_names(&["sample.bin", "sample.long.ten"]).map(|ids| format!("{ids:?}")));
    add(context.pmid("sample.long.ten").map(|id| format!("{id:?}")));
    add(context.names_of(LONG_TEN).map(|names| format!("{names:?}")));
    add(context.descs(&[LONG_TEN, Pmid::new(29, 0, 6)]).map(|descs| format!("{descs:?}")));
    add(context.desc(LONG_TEN).map(|desc| format!("{desc:?}")));
    add(context.instances(bin).map(|instances| format!("{instances:?}")));
    add(context.instance(bin, "bin-300").map(|inst| inst.to_string()));
    add(context.instance_name(bin, 400));
    for pmids in [&[LONG_TEN, Pmid::new(29, 0, 6)][..], &[Pmid::new(29, 0, 31)]] {
        add(context.fetch(pmids, &mut fetched).map(|_| values(&fetched)));
    }
    add(context.labels(jumpseat::client::LabelTarget::Domain(29)).map(|labels| format!("{labels:?}")));
    add(context.children("sample.long").map(|children| format!("{children:?}")));
    add(context.traverse("sample.long").map(|names| format!("{names:?}")));
    answers
}

/// Everything the collector says in [`ask_everything`], PDU by PDU, the greeting first.
fn captured() -> (Vec<Vec<u8>>, Vec<Result<String, PmError>>) {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let port = pmcd.port();
    let replies = Arc::new(Mutex::new(Vec::new()));
    let record = replies.clone();
    let relay = Peer::start(move |_, mut client| {
        let mut server = TcpStream::connect(("127.0.0.1", port)).expect("the collector listens");
        let (mut from, mut to) =
            (client.try_clone().expect("a socket"), server.try_clone().expect("a socket"));
        std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        while let Some(pdu) = read_pdu(&mut server) {
            record.lock().expect("nobody panics").push(pdu.clone());
            let _ = client.write_all(&pdu);
        }
    });
    let answers = ask_everything(&mut host(&relay.spec(), &patient()).expect("the relay works"));
    let replies = replies.lock().expect("nobody panics").clone();
    assert_eq!(replies.len(), answers.len() + 1);
    (replies, answers)
}

/// Plays replies, one for each request, whatever it is; a reply of several PDUs goes out in one piece.
fn play(script: Arc<Mutex<Vec<Vec<u8>>>>) -> Peer {
    Peer::start(move |_, mut stream| {
        let replies = script.lock().expect("nobody panics").clone();
        for (number, reply) in replies.iter().enumerate() {
            if stream.write_all(reply).is_err() {
                return;
            }
            loop {
                match read_pdu(&mut stream) {
                    None => return,
                    Some(pdu)
                        if kind(&pdu) == kind::PROFILE || (kind(&pdu) == kind::CREDS && number == 0) => {}
                    Some(_) => break,
                }
            }
        }
        let _ = stream.shutdown(Shutdown::Both);
    })
}

/// How a script is spoiled.
#[derive(Clone, Debug)]
enum Fault {
    /// Bytes of a reply changed.
    Bytes(Vec<(prop::sample::Index, u8)>),
    /// A reply ends early, then the connection.
    Cut(prop::sample::Index),
    /// A reply is left out: the answers to later requests come too early.
    Left,
    /// A reply comes twice.
    Twice,
    /// Two replies are exchanged.
    Exchanged(prop::sample::Index),
}

#[test]
fn spoiled_sessions_never_give_panics_hangs_or_answers_to_other_requests() {
    let (replies, truth) = captured();
    let script = Arc::new(Mutex::new(replies.clone()));
    let peer = play(script.clone());
    let options = HostOptions { request_timeout: Some(Duration::from_millis(200)), ..patient() };
    let session = || match host(&peer.spec(), &options) {
        Ok(mut context) => ask_everything(&mut context),
        Err(error) => vec![Err(error.code())],
    };
    // The machine may be slow: unspoiled, it gives the truth in time at least once.
    eventually("the truth", || (session() == truth).then_some(()));
    let index = any::<prop::sample::Index>;
    let fault = prop_oneof![
        4 => prop::collection::vec((index(), any::<u8>()), 1..4).prop_map(Fault::Bytes),
        1 => index().prop_map(Fault::Cut),
        1 => Just(Fault::Left),
        1 => Just(Fault::Twice),
        1 => index().prop_map(Fault::Exchanged),
    ];
    let config = ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(at in index(), fault in fault)| {
        let mut spoiled = replies.clone();
        let at = at.index(spoiled.len());
        match &fault {
            Fault::Bytes(changes) => {
                for (index, byte) in changes {
                    let place = index.index(spoiled[at].len());
                    spoiled[at][place] = *byte;
                }
            }
            Fault::Cut(index) => {
                let len = index.index(spoiled[at].len());
                spoiled[at].truncate(len);
                spoiled.truncate(at + 1);
            }
            Fault::Left => drop(spoiled.remove(at)),
            Fault::Twice => {
                let twice = spoiled[at].repeat(2);
                spoiled[at] = twice;
            }
            Fault::Exchanged(other) => {
                let other = other.index(spoiled.len());
                // Of two replies of one type nothing tells which request they answer.
                prop_assume!(kind(&spoiled[at]) != kind(&spoiled[other]));
                spoiled.swap(at, other);
            }
        }
        *script.lock().expect("nobody panics") = spoiled;
        let answers = session();
        // Changed bytes may well be another value; all the others are right or missing.
        if !matches!(fault, Fault::Bytes(_)) {
            for (number, answer) in answers.iter().enumerate() {
                prop_assert!(answer.is_err() || answer == &truth[number], "{number}: {answer:?}");
            }
        }
    });
}

/// A reply that is empty where it must not be.
#[test]
fn one_instance_is_exactly_one() {
    let list = |entries: Vec<InstanceEntry>| {
        bytes(&Pdu::Instance(InstanceList { indom: InDom::new(29, 2), instances: entries }))
    };
    let two = vec![InstanceEntry::identified(1), InstanceEntry::identified(2)];
    for reply in [list(Vec::new()), list(two)] {
        let mut context = host(&answers_once(reply).spec(), &patient()).unwrap();
        assert_eq!(code(context.instance(InDom::new(29, 2), "bin-100")), PmError::IPC);
        given_up(&mut context);
    }
    let one = list(vec![InstanceEntry::identified(100)]);
    let mut context = host(&answers_once(one).spec(), &patient()).unwrap();
    assert_eq!(context.instance(InDom::new(29, 2), "bin-100").unwrap(), 100);
}
