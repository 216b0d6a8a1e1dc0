//! What a fetch group asks of pmcd: the requests themselves, seen by a relay in between.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::seat::{Seat, Transport};
use bytes::BytesMut;
use jumpseat::client::Context;
use jumpseat::client::group::{AnyType, Atom, FetchGroup, Scale};
use jumpseat::event::Param;
use jumpseat::model::{InDom, IndomProfile, PmError, ProfileState};
use jumpseat::pdu::{Fetch, FrameReader, InstanceReq, Pdu};
use support::{AgentSpec, PrivatePmcd};

/// Passes bytes on between one client and pmcd, and keeps those of the client.
struct Relay {
    host: String,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Relay {
    fn to(pmcd: &PrivatePmcd) -> Relay {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a port");
        let host = listener.local_addr().expect("it is bound").to_string();
        let (to, seen) = (pmcd.inet(), Arc::new(Mutex::new(Vec::new())));
        let keep = seen.clone();
        thread::spawn(move || {
            let (client, _) = listener.accept().expect("the group connects");
            let server = TcpStream::connect(to).expect("pmcd listens");
            let (from, into) = (server.try_clone().expect("a socket"), client.try_clone().expect("a socket"));
            thread::spawn(move || pass(from, into, |_| ()));
            pass(client, server, |bytes| keep.lock().expect("nobody panics").extend_from_slice(bytes));
        });
        Relay { host, seen }
    }

    /// The requests since the last call.
    fn requests(&self) -> Vec<Pdu> {
        let mut bytes = BytesMut::from(&std::mem::take(&mut *self.seen.lock().expect("nobody panics"))[..]);
        let mut frames = FrameReader::new(1 << 20);
        std::iter::from_fn(|| frames.next(&mut bytes).expect("whole requests"))
            .map(|frame| Pdu::decode(&frame).expect("a request"))
            .collect()
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, mut seen: impl FnMut(&[u8])) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        // Before it is answered.
        seen(&buffer[..read]);
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

fn instances(indom: InDom) -> Pdu {
    Pdu::InstanceReq(InstanceReq { indom, inst: -1, name: "".into() })
}

/// The sequence captured of libpcp: the profile goes out once, with what has been registered, before the first fetch;
/// names are asked for once, after it.
#[test]
fn asks_for_what_is_registered_and_no_more() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let relay = Relay::to(&pmcd);
    let mut group = FetchGroup::host(&relay.host).expect("the relay listens");
    let (bins, colours) = (InDom::new(29, 2), InDom::new(29, 1));
    let bin = group.item::<i32>("sample.bin", Some("bin-300"), Scale::None).unwrap();
    group.item::<i32>("sample.bin", Some("bin-500"), Scale::None).unwrap();
    group.item::<f64>("sample.bin", Some("bin-300"), Scale::None).unwrap();
    let colour = group.indom::<i32>("sample.colour", Scale::None, 9).unwrap();
    group.indom::<i32>("sample.colour", Scale::None, 9).unwrap();
    let lookups = relay.requests();
    assert!(!lookups.iter().any(|pdu| matches!(pdu, Pdu::Profile(_) | Pdu::HighResFetch(_))), "{lookups:?}");

    group.fetch().unwrap();
    let pmids = vec!["29.0.6".parse().unwrap(), "29.0.5".parse().unwrap()];
    let fetch = Pdu::HighResFetch(Fetch { ctxid: 0, pmids });
    let requests = relay.requests();
    let [Pdu::Profile(profile), asked, names] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!(profile.profile.state, ProfileState::Include);
    assert_eq!(
        profile.profile.indoms,
        [
            IndomProfile { indom: bins, state: ProfileState::Exclude, instances: vec![300, 500] },
            IndomProfile { indom: colours, state: ProfileState::Include, instances: vec![] },
        ]
    );
    assert_eq!((asked, names), (&fetch, &instances(colours)));

    group.fetch().unwrap();
    group.fetch().unwrap();
    assert_eq!(relay.requests(), [fetch.clone(), fetch]);
    assert_eq!(group.value(bin), Ok(300));
    assert_eq!(group.rows(colour).unwrap().len(), 3);

    // The whole domain takes over from single instances; single ones do not narrow it again.
    group.indom::<i32>("sample.bin", Scale::None, 20).unwrap();
    group.item::<i32>("sample.bin", Some("bin-700"), Scale::None).unwrap();
    group.fetch().unwrap();
    let requests = relay.requests();
    let profile = requests.iter().find_map(|pdu| match pdu {
        Pdu::Profile(profile) => Some(&profile.profile.indoms),
        _ => None,
    });
    let whole = IndomProfile { indom: bins, state: ProfileState::Include, instances: vec![] };
    assert!(profile.is_some_and(|indoms| indoms.contains(&whole)), "{requests:?}");
}

/// Names are asked for again when an instance comes that was not there before, and not when one goes.
#[test]
fn asks_for_the_names_of_new_instances() {
    let builder = PrivatePmcd::with([]);
    let seat = Seat::in_dir(builder.dir(), "");
    let pmcd = builder.agent(seat.agent(Transport::Pipe)).start();
    seat.feed([], "{\"type\":\"one\"}\n").ok();
    let relay = Relay::to(&pmcd);
    let mut group = FetchGroup::host(&relay.host).expect("the relay listens");
    let counts = group.indom::<u64>("jumpseat.event.count", "instant", 100).unwrap();
    let mut named = |feed: &str| {
        if !feed.is_empty() {
            seat.feed([], feed).ok();
        }
        relay.requests();
        group.fetch().unwrap();
        let asked = relay.requests().iter().filter(|pdu| matches!(pdu, Pdu::InstanceReq(_))).count();
        let names: Vec<String> =
            group.rows(counts).unwrap().filter_map(|row| row.name.map(str::to_owned)).collect();
        (asked, names.join(" "))
    };
    assert_eq!(named(""), (1, "test/one".to_owned()));
    assert_eq!(named(""), (0, "test/one".to_owned()));
    assert_eq!(named("{\"type\":\"one\"}\n"), (0, "test/one".to_owned()));
    assert_eq!(named("{\"type\":\"two\"}\n"), (1, "test/one test/two".to_owned()));
    assert_eq!(named(""), (0, "test/one test/two".to_owned()));
}

/// Handles are of one group until it is cleared.
#[test]
fn handles_of_others_are_errors() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let mut group = FetchGroup::host(&pmcd.unix()).unwrap();
    let mut other = FetchGroup::host(&pmcd.unix()).unwrap();
    let invalid = PmError::from_errno(nix::libc::EINVAL);
    assert_eq!(group.fetch().unwrap_err().code(), PmError::TOOSMALL);
    let ten = group.item::<i32>("sample.long.ten", None, Scale::None).unwrap();
    let bins = group.indom::<i32>("sample.bin", Scale::None, 9).unwrap();
    let flags =
        group.event::<u32>("sample.event.no_indom_records", None, "event.flags", Scale::None, 9).unwrap();
    assert_eq!(group.value(ten), Err(PmError::VALUE));
    assert_eq!(group.rows(bins).err(), Some(PmError::VALUE));
    assert_eq!(group.events(flags).err(), Some(PmError::VALUE));
    group.fetch().unwrap();
    assert_eq!(group.value(ten), Ok(10));
    let hundred = other.item::<i32>("sample.long.hundred", None, Scale::None).unwrap();
    other.fetch().unwrap();
    assert_eq!((other.value(hundred), other.value(ten)), (Ok(100), Err(invalid)));
    assert_eq!(other.rows(bins).err(), Some(invalid));
    group.clear();
    assert_eq!(group.value(ten), Err(invalid));
    assert_eq!(group.kept_value(ten), Err(invalid));
    assert_eq!(group.rows(bins).err(), Some(invalid));
    assert_eq!(group.events(flags).err(), Some(invalid));
    assert_eq!(group.fetch().unwrap_err().code(), PmError::TOOSMALL);
    assert_eq!(group.timestamp(), None);
    // The same group goes on with others.
    let million = group.item::<f64>("sample.long.million", None, Scale::None).unwrap();
    group.fetch().unwrap();
    assert_eq!((group.value(million), group.value(ten)), (Ok(1e6), Err(invalid)));
}

/// The empty name of an instance is none. (libpcp takes the first one that pmcd names.)
#[test]
fn an_empty_instance_name_is_none() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let mut group = FetchGroup::new(Context::host(&pmcd.inet()).unwrap());
    let error = group.item::<i32>("sample.bin", Some(""), Scale::None).unwrap_err();
    assert_eq!(error.code(), PmError::INST);
    assert_eq!(error.to_string().split(':').next(), Some("sample.bin"));
}

/// The worked example with values of the metric's own type.
#[test]
fn own_types_and_overflowing_fields() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    let mut group = FetchGroup::host(&pmcd.unix()).unwrap();
    let own = group.item::<AnyType>("sample.long.ten", None, Scale::None).unwrap();
    let text = group.item::<String>("sample.long.ten", None, Scale::None).unwrap();
    let rate = group.item::<f64>("sample.milliseconds", None, Scale::None).unwrap();
    let fungus = ("sample.event.records", Some("fungus"));
    let field = "sample.event.param_string";
    let strings = group.event::<String>(fungus.0, fungus.1, field, Scale::None, 2).unwrap();
    group.fetch().unwrap();
    assert_eq!(group.value(own), Ok(Atom::I32(10)));
    assert_eq!(group.value(text), Ok("10"));
    assert_eq!(group.value(rate), Err(PmError::AGAIN));
    let mut full = None;
    for _ in 0..4 {
        group.fetch().unwrap();
        assert!(group.value(rate).unwrap() > 0.0);
        let rows = group.events(strings).unwrap();
        if rows.status() == Err(PmError::TOOBIG) {
            full = Some(rows.map(|row| row.value.map(str::to_owned)).collect::<Vec<_>>());
            // The records themselves have all of it.
            let records = group.records(strings).unwrap().expect("the instance has a value");
            let params = records.records().flat_map(|record| record.params());
            let all = params.filter(|param| matches!(param.value, Param::String(_))).count();
            assert_eq!(all, 3);
        }
    }
    assert_eq!(full, Some(vec![Ok("6".to_owned()), Ok("twelve".to_owned())]));
}
