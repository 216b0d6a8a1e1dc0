//! Fetch groups when agents and collectors die, come back, or do not answer.

use std::collections::HashMap;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::client_support::{Peer, bytes, greet, host, patient, read_pdu};
use jumpseat::client::group::{Falling, FetchGroup, GroupOptions, GroupSet, Outcome, Scale};
use jumpseat::client::{ClientError, Context, HostOptions};
use jumpseat::model::{Desc, InDom, PmError, Pmid, Semantics, Timestamp, Units, ValueType};
use jumpseat::pdu::{
    ErrorPdu, InstanceEntry, InstanceList, Pdu, PmnsIds, RawInstanceValue, RawValue, RawValueSet, ResultPdu,
    kind,
};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::CPeer;
use support::{AgentSpec, PrivatePmcd, eventually};

fn pmcd() -> PrivatePmcd {
    PrivatePmcd::with([AgentSpec::sample()]).start()
}

fn group(pmcd: &PrivatePmcd) -> FetchGroup {
    let (mut options, _) = HostOptions::from_variables(|_| None);
    options.reconnect_delays = vec![Duration::from_millis(50)];
    let spec = pmcd.inet().parse().expect("a host and a port");
    FetchGroup::new(Context::host_with(&spec, &options).expect("pmcd listens"))
}

fn signal(pid: u32, signal: Signal) {
    kill(Pid::from_raw(pid as i32), signal).expect("a process of this test");
}

#[test]
fn pmcd_gone_and_back() {
    let mut pmcd = pmcd();
    let mut peer = CPeer::start("tests/c/fetchgroup_oracle.c");
    peer.ask(&format!("create\t1\t={}", pmcd.inet()));
    let mut group = group(&pmcd);
    let plain = group.item::<i64>("sample.long.ten", None, Scale::None).unwrap();
    let rate = group.item::<f64>("sample.milliseconds", None, Scale::None).unwrap();
    let discrete = group.item::<String>("sample.lights", None, Scale::None).unwrap();
    let bins = group.indom::<f64>("sample.bin", Scale::None, 20).unwrap();
    let kept = group.indom::<i32>("sample.secret.foo.bar.max.redirect", Scale::None, 20).unwrap();
    let flags =
        group.event::<u32>("sample.event.records", Some("fungus"), "event.flags", "instant", 9).unwrap();
    for command in [
        "item\t=sample.long.ten\t!\t!\t2",
        "item\t=sample.milliseconds\t!\t!\t5",
        "item\t=sample.lights\t!\t!\t6",
        "indom\t=sample.bin\t!\t5\t1",
        "indom\t=sample.secret.foo.bar.max.redirect\t!\t0\t2",
        "event\t=sample.event.records\t=fungus\t=event.flags\t=instant\t1\t1",
    ] {
        assert_eq!(peer.ask(command), "0", "{command}");
    }
    group.fetch().unwrap();
    assert_eq!(group.value(rate), Err(PmError::AGAIN));
    group.fetch().unwrap();
    peer.ask("fetch");
    let before = peer.ask("fetch");
    let lights = group.value(discrete).unwrap().to_owned();
    assert_eq!(
        group.rows(kept).unwrap().len(),
        group.rows(kept).unwrap().filter(|row| row.value.is_ok()).count()
    );
    let kept_rows = group.rows(kept).unwrap().len();

    pmcd.stop();
    let error = group.fetch().unwrap_err();
    assert_eq!(error.code(), PmError::IPC, "{error}");
    // The same, word for word, as libpcp has it; its times are those of the failure.
    let answer = peer.ask("fetch");
    let words: Vec<&str> = answer.split('\t').collect();
    assert_eq!(words[..3], ["-12366", "I -12351 -1", "I -12351 fff8000000000000"]);
    assert!(words[3].starts_with("I -12351 ="), "{answer}");
    assert_eq!(group.value(plain), Err(PmError::VALUE));
    assert_eq!(group.kept_value(plain), Err(PmError::VALUE));
    assert_eq!(group.value(rate), Err(PmError::VALUE));
    assert_eq!(group.value(discrete), Err(PmError::VALUE));
    assert_eq!(group.kept_value(discrete), Ok(&*lights));
    assert!(words[4].starts_with("D -12351 0 "), "{answer}");
    assert_eq!(group.rows(bins).err(), Some(PmError::VALUE));
    assert_eq!(group.kept_rows(bins).unwrap().len(), 0);
    // A discrete domain keeps its rows.
    let of = |answer: &str| {
        answer.split('\t').nth(5).map(|word| word.split_once('{').map(|(_, rest)| rest.to_owned()))
    };
    assert_eq!(of(&answer), of(&before));
    assert_eq!(group.rows(kept).err(), Some(PmError::VALUE));
    assert_eq!(group.kept_rows(kept).unwrap().len(), kept_rows);
    assert!(words[6].starts_with("E -12351 0 "), "{answer}");
    assert_eq!(group.events(flags).err(), Some(PmError::VALUE));
    assert_eq!(group.timestamp(), None);
    assert!(matches!(group.reconnect(), Err(ClientError::Connect { .. })));

    pmcd.start_again();
    eventually("a new connection", || group.reconnect().ok());
    group.fetch().unwrap();
    assert_eq!(group.value(plain), Ok(10));
    // The result from before the outage has not been lost.
    assert_ne!(group.value(rate), Err(PmError::AGAIN));
    assert!(group.rows(bins).unwrap().all(|row| row.name.is_some()));
}

#[test]
fn an_agent_gone_and_back() {
    let pmcds = [pmcd(), pmcd()];
    let mut peer = CPeer::start("tests/c/fetchgroup_oracle.c");
    peer.ask(&format!("create\t1\t={}", pmcds[1].inet()));
    let mut group = group(&pmcds[0]);
    let ten = group.item::<i32>("sample.long.ten", None, Scale::None).unwrap();
    let bins = group.indom::<i32>("sample.bin", Scale::None, 20).unwrap();
    let version = group.item::<String>("pmcd.version", None, Scale::None).unwrap();
    peer.ask("item\t=sample.long.ten\t!\t!\t0");
    peer.ask("indom\t=sample.bin\t!\t0\t1");
    group.fetch().unwrap();
    peer.ask("fetch");
    for pmcd in &pmcds {
        let agent = pmcd.value("sample.daemon_pid").and_then(|pid| pid.parse().ok()).expect("a process");
        signal(agent, Signal::SIGKILL);
    }
    // The first fetch finds out that it is gone: whether when pmcd writes to it or when it reads from it is up to
    // how far the kernel has come with its end, and so the code may be either.
    let changes = group.fetch().unwrap();
    let gone = group.value(ten).unwrap_err();
    assert_eq!(group.rows(bins).err(), Some(gone));
    assert!(group.value(version).is_ok(), "of another agent");
    let theirs = peer.ask("fetch");
    let code = theirs.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a code");
    for code in [gone.0, code] {
        assert!([-(Errno::EPIPE as i32), PmError::IPC.0].contains(&code), "{gone:?}, {theirs}");
    }
    assert_eq!(theirs, format!("{}\tI {code} -1\tD {code} 0 {{100 ~ -12351 -1}}", changes.0), "{changes:?}");
    // pmcd starts it again by itself.
    eventually("the agent", || {
        group.fetch().unwrap();
        group.value(ten).ok()
    });
    assert_eq!(group.value(ten), Ok(10));
    assert_eq!(group.rows(bins).unwrap().filter(|row| row.name.is_some()).count(), 9);
}

#[test]
fn counters_that_wrap_and_values_that_fall() {
    let pmcd = pmcd();
    for (falling, env) in
        [(Falling::Negative, None), (Falling::NoValue, Some(false)), (Falling::Wrap, Some(true))]
    {
        let context = Context::host(&pmcd.inet()).unwrap();
        let mut group =
            FetchGroup::with_options(context, GroupOptions { falling, ..GroupOptions::default() });
        let mut peer = CPeer::start("tests/c/fetchgroup_oracle.c");
        if env == Some(true) {
            peer.ask("env\t=PCP_COUNTER_WRAP\t=");
        }
        peer.ask(&format!("create\t1\t={}", pmcd.inet()));
        let metrics =
            ["sample.wrap.long", "sample.wrap.ulong", "sample.wrap.longlong", "sample.wrap.ulonglong"];
        let items = metrics.map(|metric| group.item::<f64>(metric, None, Scale::None).unwrap());
        metrics.iter().for_each(|metric| drop(peer.ask(&format!("item\t={metric}\t!\t!\t5"))));
        let mut signs = Vec::new();
        for fetch in 0..6 {
            group.fetch().unwrap();
            let theirs = peer.ask("fetch");
            let words = theirs.split('\t').skip(1);
            for (item, word) in items.iter().zip(words).filter(|_| fetch > 0) {
                let ours = group.value(*item);
                signs.push(ours.map_or(0, |rate| rate.signum() as i32));
                // Both fetches move the metrics on, so ours and theirs take turns: each on its own makes half a turn.
                let failed = word.starts_with("I -12351");
                assert!(falling == Falling::NoValue || ours.is_ok(), "{ours:?}");
                assert!(failed || word.starts_with("I 0 "), "{theirs}");
                assert!(!(failed && falling == Falling::Wrap), "{theirs}");
            }
        }
        match falling {
            Falling::Negative => assert!(signs.contains(&-1) && signs.contains(&1), "{signs:?}"),
            Falling::NoValue => assert!(signs.contains(&0) && !signs.contains(&-1), "{signs:?}"),
            Falling::Wrap => assert!(signs.iter().all(|&sign| sign >= 0), "{signs:?}"),
        }
    }
}

#[test]
fn a_host_that_does_not_answer_holds_up_nobody() {
    let mut pmcds = [pmcd(), pmcd(), pmcd()];
    let mut set = GroupSet::new();
    let mut items = Vec::new();
    for pmcd in &pmcds {
        let at = set.push(group(pmcd));
        items.push(set.group_mut(at).unwrap().item::<i32>("sample.long.ten", None, Scale::None).unwrap());
    }
    let value = |set: &GroupSet, at: usize| set.group(at).unwrap().value(items[at]);
    let fetched = |set: &GroupSet, at: usize| matches!(set.outcome(at), Some(Outcome::Fetched(_)));
    let patience = Duration::from_millis(300);
    let all = |set: &mut GroupSet| {
        eventually("all groups", || {
            set.fetch(patience).unwrap();
            (0..3).all(|at| fetched(set, at)).then_some(())
        });
    };
    all(&mut set);
    assert!((0..3).all(|at| value(&set, at) == Ok(10)));

    // A pmcd that has stopped takes requests but answers none.
    signal(pmcds[1].pid(), Signal::SIGSTOP);
    for _ in 0..3 {
        eventually("the others", || {
            set.fetch(patience).unwrap();
            assert!(!fetched(&set, 1));
            (fetched(&set, 0) && fetched(&set, 2)).then_some(())
        });
        assert!(matches!(set.outcome(1), Some(Outcome::Late)), "{:?}", set.outcome(1));
    }
    signal(pmcds[1].pid(), Signal::SIGCONT);
    all(&mut set);

    // One that is gone is connected again when it is back.
    pmcds[2].stop();
    eventually("the loss", || {
        set.fetch(patience).unwrap();
        matches!(set.outcome(2), Some(Outcome::Failed(_))).then_some(())
    });
    assert_eq!(value(&set, 2), Err(PmError::VALUE));
    set.fetch(patience).unwrap();
    assert!(matches!(set.outcome(2), Some(Outcome::Failed(_))), "{:?}", set.outcome(2));
    pmcds[2].start_again();
    all(&mut set);
    assert_eq!(value(&set, 2), Ok(10));
}

const METRIC: Pmid = Pmid::new(400, 0, 1);
const DESC: Desc = Desc {
    pmid: METRIC,
    value_type: ValueType::I32,
    indom: InDom::NULL,
    semantics: Semantics::Instant,
    units: Units::NONE,
};

/// A collector with one metric, whose value is 7. `fault` sees each request of each connection (counted from 0) and
/// says whether it has dealt with it.
fn collector(
    fault: impl Fn(usize, u32, &mut TcpStream) -> bool + Send + Sync + 'static,
) -> (Peer, Arc<AtomicUsize>) {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    let peer = Peer::start(move |number, mut stream| {
        counted.fetch_add(1, Ordering::SeqCst);
        greet(&mut stream);
        while let Some(request) = read_pdu(&mut stream) {
            let kind = crate::client_support::kind(&request);
            if fault(number, kind, &mut stream) {
                continue;
            }
            let value = RawInstanceValue { inst: -1, value: RawValue::InSitu(7_i32.to_be_bytes()) };
            let answer = match kind {
                kind::PMNS_NAMES => Pdu::PmnsIds(PmnsIds { status: 1, ids: vec![METRIC] }),
                kind::DESC_REQ => Pdu::Desc(DESC),
                kind::HIGHRES_FETCH => Pdu::HighResResult(ResultPdu {
                    timestamp: Timestamp { sec: 1, nsec: 2 },
                    sets: vec![RawValueSet { pmid: METRIC, values: Ok(vec![value]) }],
                }),
                _ => continue,
            };
            let _ = stream.write_all(&bytes(&answer));
        }
    });
    (peer, connections)
}

fn group_on(peer: &Peer) -> FetchGroup {
    FetchGroup::new(host(&peer.spec(), &patient()).expect("the peer listens"))
}

#[test]
fn a_connection_that_ended_is_made_again_in_the_next_round() {
    let refuse = |stream: &mut TcpStream| {
        let _ = stream.write_all(&bytes(&Pdu::Error(ErrorPdu::failure(PmError::NOPROFILE))));
        true
    };
    let (peer, connections) = collector(move |connection, kind, stream| match (connection, kind) {
        // It may be the answer to the profile, and another may follow: the client has to give the connection up.
        (0, kind::HIGHRES_FETCH) => refuse(stream),
        (1, kind::HIGHRES_FETCH) => {
            let _ = stream.shutdown(std::net::Shutdown::Both);
            true
        }
        _ => false,
    });
    let mut set = GroupSet::new();
    let at = set.push(group_on(&peer));
    let item = set.group_mut(at).unwrap().item::<i32>("a", None, Scale::None).unwrap();
    let patience = Duration::from_secs(60);
    set.fetch(patience).unwrap();
    assert!(matches!(set.outcome(at), Some(Outcome::Failed(ClientError::Pcp(PmError::NOPROFILE)))));
    assert!(!set.group(at).unwrap().context().is_connected());
    // The very next round connects.
    set.fetch(patience).unwrap();
    eventually("a second connection", || (connections.load(Ordering::SeqCst) == 2).then_some(()));
    eventually("the loss of it", || {
        set.fetch(Duration::from_millis(50)).unwrap();
        matches!(set.outcome(at), Some(Outcome::Failed(ClientError::Closed | ClientError::Io(_))))
            .then_some(())
    });
    eventually("values", || {
        set.fetch(Duration::from_millis(50)).unwrap();
        matches!(set.outcome(at), Some(Outcome::Fetched(_))).then_some(())
    });
    assert_eq!(set.group(at).unwrap().value(item), Ok(7));
    assert_eq!(connections.load(Ordering::SeqCst), 3);
}

#[test]
fn refusals_that_leave_the_connection_alone_do_not_end_it() {
    // The second fetch is refused, without a profile before it.
    let fetches = AtomicUsize::new(0);
    let (peer, connections) = collector(move |_, kind, stream| {
        let refused = kind == kind::HIGHRES_FETCH && fetches.fetch_add(1, Ordering::SeqCst) == 1;
        if refused {
            let _ = stream.write_all(&bytes(&Pdu::Error(ErrorPdu::failure(PmError::NOAGENT))));
        }
        refused
    });
    let mut set = GroupSet::new();
    let at = set.push(group_on(&peer));
    let patience = Duration::from_secs(60);
    for _ in 0..3 {
        // A group without a metric fails each time.
        set.fetch(patience).unwrap();
        assert!(matches!(set.outcome(at), Some(Outcome::Failed(ClientError::Pcp(PmError::TOOSMALL)))));
        assert!(set.group(at).unwrap().context().is_connected());
    }
    let item = set.group_mut(at).unwrap().item::<i32>("a", None, Scale::None).unwrap();
    set.fetch(patience).unwrap();
    assert!(matches!(set.outcome(at), Some(Outcome::Fetched(_))), "{:?}", set.outcome(at));
    set.fetch(patience).unwrap();
    assert!(matches!(set.outcome(at), Some(Outcome::Failed(ClientError::Pcp(PmError::NOAGENT)))));
    assert_eq!(set.group(at).unwrap().value(item), Err(PmError::VALUE));
    set.fetch(patience).unwrap();
    assert_eq!(set.group(at).unwrap().value(item), Ok(7));
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

/// An instance that gets another name while it stays: nothing tells, so names are asked for when another instance comes.
#[test]
fn names_that_change_are_seen_when_libpcp_sees_them() {
    // Of each connection: how many fetches, and how often names were asked for.
    let asked = Mutex::new(HashMap::<usize, (usize, usize)>::new());
    let (peer, _) = collector(move |connection, kind, stream| {
        let mut asked = asked.lock().expect("nobody panics");
        let (fetches, names) = asked.entry(connection).or_default();
        let indom = InDom::new(400, 1);
        let answer = match kind {
            kind::DESC_REQ => Pdu::Desc(Desc { indom, ..DESC }),
            kind::INSTANCE_REQ => {
                *names += 1;
                let name = if *names == 1 { "before" } else { "after" };
                let entry = |inst, name: &str| InstanceEntry { inst, name: name.into() };
                let second = (*fetches > 2).then(|| entry(2, "second"));
                let instances = std::iter::once(entry(1, name)).chain(second).collect();
                Pdu::Instance(InstanceList { indom, instances })
            }
            kind::HIGHRES_FETCH => {
                *fetches += 1;
                let value = |inst| RawInstanceValue { inst, value: RawValue::InSitu(7_i32.to_be_bytes()) };
                let values = (1..=if *fetches < 3 { 1 } else { 2 }).map(value).collect();
                let sets = vec![RawValueSet { pmid: METRIC, values: Ok(values) }];
                Pdu::HighResResult(ResultPdu { timestamp: Timestamp { sec: 1, nsec: 2 }, sets })
            }
            _ => return false,
        };
        let _ = stream.write_all(&bytes(&answer));
        true
    });
    let mut oracle = CPeer::start("tests/c/fetchgroup_oracle.c");
    oracle.ask(&format!("create\t1\t={}", peer.spec()));
    assert_eq!(oracle.ask("indom\t=a\t!\t0\t9"), "0");
    let mut group = group_on(&peer);
    let rows = group.indom::<i32>("a", Scale::None, 9).unwrap();
    for expected in [vec!["before"], vec!["before"], vec!["after", "second"]] {
        group.fetch().unwrap();
        let names: Vec<&str> = group.rows(rows).unwrap().filter_map(|row| row.name).collect();
        assert_eq!(names, expected);
        // It gives texts as hexadecimal digits.
        let theirs = oracle.ask("fetch");
        for name in ["before", "after", "second"] {
            let digits: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(theirs.contains(&format!("={digits} ")), expected.contains(&name), "{name}: {theirs}");
        }
    }
}
