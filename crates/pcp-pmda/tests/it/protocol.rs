//! Both connection types without any I/O: what they answer, and that no bytes upset them.

use crate::agent_support::{DOMAIN, State, agent};
use bytes::{Buf, BytesMut};
use pcp_model::{InDom, PM_IN_NULL, PmError, Pmid, Profile, ProfileState};
use pcp_model::{IndomProfile, InstanceValue, Timestamp, Value, ValueSet};
use pcp_pdu::{
    Attr, AttrCode, CredFlags, Creds, ErrorPdu, Fetch, Frame, FrameReader, InstanceReq, Pdu, PmnsChild,
    PmnsIds, PmnsNames, ProfilePdu, RawValueSet, ResultKind, ResultPdu, ResultWriter,
};
use pcp_pmda::{
    Attributes, Broken, Core, Denial, DirectConnection, Endpoint, HostInfo, Next, Offer, Output,
    PmcdConnection, PmcdOptions, User,
};
use proptest::prelude::*;

/// Keeps what is sent.
#[derive(Default)]
struct Sent(BytesMut);

impl Output for Sent {
    fn send(&mut self, parts: [&[u8]; 2]) {
        parts.iter().for_each(|part| self.0.extend_from_slice(part));
    }

    fn has_left(&self) -> bool {
        true
    }

    fn is_clear(&self) -> bool {
        true
    }
}

impl Sent {
    fn take(&mut self) -> Vec<Pdu> {
        let mut reader = FrameReader::new(1 << 30);
        let mut pdus = Vec::new();
        while let Some(frame) = reader.next(&mut self.0).expect("answers are PDUs") {
            pdus.push(Pdu::decode(&frame).expect("answers can be decoded"));
        }
        assert!(!self.0.has_remaining(), "answers are whole");
        pdus
    }
}

/// pmcd, played by the test.
struct Pmcd {
    core: Core<State>,
    connection: PmcdConnection,
    results: ResultWriter,
    out: Sent,
}

impl Pmcd {
    fn new(options: PmcdOptions) -> Pmcd {
        let (core, connection) = (agent(None), PmcdConnection::new(options));
        let mut pmcd = Pmcd { core, connection, results: ResultWriter::default(), out: Sent::default() };
        pmcd.connection.greet(&mut pmcd.core, None, &mut pmcd.out);
        pmcd
    }

    fn ready() -> Pmcd {
        Pmcd::ready_with(PmcdOptions::default())
    }

    fn ready_with(options: PmcdOptions) -> Pmcd {
        let mut pmcd = Pmcd::new(options);
        assert!(matches!(pmcd.out.take()[..], [Pdu::Creds(_)]));
        assert!(pmcd.ask(0, &Pdu::Creds(Creds::version(CredFlags::default()))).is_empty());
        pmcd
    }

    fn ask(&mut self, slot: i32, pdu: &Pdu) -> Vec<Pdu> {
        self.bytes(&pdu.to_bytes(slot).unwrap()).unwrap();
        self.out.take()
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        let mut input = BytesMut::from(bytes);
        self.connection.process(&mut self.core, &mut input, &mut self.results, &mut self.out)
    }

    /// The value sets of a fetch, and the flags in the place of its time.
    fn fetch(&mut self, slot: i32, items: &[(u16, u16)]) -> (Vec<RawValueSet>, i64) {
        let pmids = items.iter().map(|(cluster, item)| Pmid::new(DOMAIN, *cluster, *item)).collect();
        match &self.ask(slot, &Pdu::Fetch(Fetch { ctxid: 0, pmids }))[..] {
            [Pdu::Result(result)] => (result.sets.clone(), result.timestamp.sec),
            other => panic!("{other:?}"),
        }
    }
}

fn instances(set: &RawValueSet) -> Result<Vec<i32>, PmError> {
    set.values.as_ref().map(|values| values.iter().map(|value| value.inst).collect()).map_err(|error| *error)
}

fn error(code: PmError) -> Pdu {
    Pdu::Error(ErrorPdu::failure(code))
}

#[test]
fn a_fetch_keeps_order_and_reports_errors_in_their_sets() {
    let mut pmcd = Pmcd::ready();
    // Twice the same, an unknown one, one of another domain, errors, no values.
    let (sets, flags) = pmcd.fetch(3, &[(0, 0), (0, 99), (0, 0), (0, 2), (0, 3), (0, 1), (0, 7), (1, 2)]);
    let found: Vec<_> = sets.iter().map(instances).collect();
    let expected = [
        Ok(vec![PM_IN_NULL]),
        Err(PmError::PMID),
        Ok(vec![PM_IN_NULL]),
        Err(PmError::AGAIN),
        Ok(vec![]),
        Ok(vec![]),
        Err(PmError::GENERIC),
        // One instance's error is not the metric's.
        Ok(vec![0, 2]),
    ];
    assert_eq!(found, expected);
    assert_eq!(flags, 0);
    let other = Fetch { ctxid: 0, pmids: vec![Pmid::new(DOMAIN + 1, 0, 0), Pmid::NULL] };
    match &pmcd.ask(3, &Pdu::Fetch(other))[..] {
        [Pdu::Result(result)] => assert!(result.sets.iter().all(|set| set.values == Err(PmError::PMID))),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_last_error_counts_when_there_is_no_value() {
    let mut pmcd = Pmcd::ready();
    let profile = |instances: &[i32]| {
        let indom = InDom::new(DOMAIN, 3);
        let indoms =
            vec![IndomProfile { indom, state: ProfileState::Exclude, instances: instances.to_vec() }];
        Pdu::Profile(ProfilePdu { ctxid: 0, profile: Profile { state: ProfileState::Include, indoms } })
    };
    assert!(pmcd.ask(0, &profile(&[1])).is_empty());
    assert_eq!(instances(&pmcd.fetch(0, &[(1, 2)]).0[0]), Err(PmError::VALUE));
    // An instance without value after one with: the value stays.
    pmcd.ask(0, &profile(&[0, 1]));
    assert_eq!(instances(&pmcd.fetch(0, &[(1, 2)]).0[0]), Ok(vec![0]));
    pmcd.ask(0, &profile(&[]));
    assert_eq!(instances(&pmcd.fetch(0, &[(1, 2)]).0[0]), Ok(vec![]));
    assert_eq!(instances(&pmcd.fetch(0, &[(1, 1)]).0[0]), Ok(vec![]));
}

#[test]
fn changes_are_flagged_once() {
    let mut pmcd = Pmcd::ready();
    assert_eq!(pmcd.fetch(0, &[(0, 0)]).1, 0);
    pmcd.core.state.dynamic.push(("a.b".to_owned(), 1));
    pmcd.core.state.generation += 1;
    assert_eq!(pmcd.fetch(0, &[(0, 0)]).1, 16);
    assert_eq!(pmcd.fetch(0, &[(0, 0)]).1, 0);
    pmcd.core.state.label_generation += 1;
    assert_eq!(pmcd.fetch(0, &[(0, 0)]).1, 8);
    assert_eq!(pmcd.fetch(0, &[(0, 0)]).1, 0);
}

#[test]
fn who_a_client_is_counts_only_where_it_was_asked_for() {
    let mut pmcd = Pmcd::ready();
    let attr = Attr { code: AttrCode::USERID, payload: bytes::Bytes::from_static(b"0\0") };
    assert!(pmcd.ask(7, &Pdu::Attr(attr)).is_empty());
    assert_eq!(instances(&pmcd.fetch(7, &[(0, 6)]).0[0]), Ok(vec![]));
}

#[test]
fn a_recycled_slot_is_a_new_client() {
    let mut pmcd = Pmcd::ready_with(PmcdOptions { identity: true, ..PmcdOptions::default() });
    let store = |pmcd: &mut Pmcd| {
        let value = InstanceValue { inst: 1, value: Value::U32(5) };
        let set = ValueSet { pmid: Pmid::new(DOMAIN, 1, 0), values: Ok(vec![value]) };
        let sets = vec![RawValueSet::from_values(&set).unwrap()];
        let pdu = Pdu::Result(ResultPdu { timestamp: Timestamp::default(), sets });
        assert_eq!(pmcd.ask(7, &pdu), [Pdu::Error(ErrorPdu::success())]);
    };
    let uid = |pmcd: &mut Pmcd| instances(&pmcd.fetch(7, &[(0, 6)]).0[0]).unwrap().len();
    let attr = Attr { code: AttrCode::USERID, payload: bytes::Bytes::from_static(b"42\0") };
    assert!(pmcd.ask(7, &Pdu::Attr(attr)).is_empty());
    assert_eq!(uid(&mut pmcd), 1);
    store(&mut pmcd);
    store(&mut pmcd);
    assert!(pmcd.ask(7, &error(PmError::NOTCONN)).is_empty());
    assert_eq!(pmcd.core.state.ended, 1);
    // An end that was announced already, and one of a client never seen.
    pmcd.ask(7, &error(PmError::NOTCONN));
    pmcd.ask(8, &error(PmError::NOTCONN));
    assert_eq!(pmcd.core.state.ended, 1);
    store(&mut pmcd);
    assert_eq!(uid(&mut pmcd), 0, "attributes go with their client");
    let seen = &pmcd.core.state.seen;
    assert_eq!(seen[0], seen[1]);
    assert_ne!(seen[0], seen[2]);
    pmcd.connection.close(&mut pmcd.core);
    assert_eq!((pmcd.core.state.ended, pmcd.core.clients()), (2, 0));
}

#[test]
fn not_ready_is_said_and_taken_back() {
    let ready = error(PmError::PMDAREADY);
    let creds = Pdu::Creds(Creds::version(CredFlags::default()));
    let desc = Pdu::DescReq(Pmid::new(DOMAIN, 0, 0));
    // pmcd.conf says notready: nothing is asked, and readiness is told once, after the handshake.
    let mut pmcd = Pmcd::new(PmcdOptions { notready: true, ..PmcdOptions::default() });
    pmcd.connection.set_ready(&mut pmcd.core, true, &mut pmcd.out);
    assert!(matches!(pmcd.out.take()[..], [Pdu::Creds(_)]));
    assert_eq!(pmcd.ask(0, &creds), std::slice::from_ref(&ready));
    pmcd.connection.set_ready(&mut pmcd.core, true, &mut pmcd.out);
    assert!(pmcd.out.take().is_empty());
    assert!(matches!(pmcd.ask(0, &desc)[..], [Pdu::Desc(_)]));
    // Busy without having been asked anything: pmcd never knew, so it must not be told of readiness.
    let mut pmcd = Pmcd::ready();
    pmcd.connection.set_ready(&mut pmcd.core, false, &mut pmcd.out);
    pmcd.connection.set_ready(&mut pmcd.core, true, &mut pmcd.out);
    assert!(pmcd.out.take().is_empty());
    // Busy when asked.
    pmcd.connection.set_ready(&mut pmcd.core, false, &mut pmcd.out);
    let child = Pdu::PmnsChild(PmnsChild { name: "probe".into(), status: true });
    assert_eq!(pmcd.ask(0, &child), [error(PmError::AGAIN)]);
    assert_eq!(pmcd.ask(0, &desc), [error(PmError::PMDANOTREADY)]);
    pmcd.connection.set_ready(&mut pmcd.core, true, &mut pmcd.out);
    assert_eq!(pmcd.out.take(), [ready]);
}

#[test]
fn a_profile_outlasts_a_busy_agent() {
    // pmcd does not send it again for the same context.
    let mut pmcd = Pmcd::ready();
    let only =
        IndomProfile { indom: InDom::new(DOMAIN, 3), state: ProfileState::Exclude, instances: vec![1] };
    let profile = Profile { state: ProfileState::Include, indoms: vec![only] };
    assert!(pmcd.ask(0, &Pdu::Profile(ProfilePdu { ctxid: 0, profile })).is_empty());
    assert_eq!(instances(&pmcd.fetch(0, &[(1, 0)]).0[0]).unwrap(), [1]);
    pmcd.connection.set_ready(&mut pmcd.core, false, &mut pmcd.out);
    let fetch = Pdu::Fetch(Fetch { ctxid: 0, pmids: vec![Pmid::new(DOMAIN, 1, 0)] });
    assert_eq!(pmcd.ask(0, &fetch), [error(PmError::PMDANOTREADY)]);
    pmcd.connection.set_ready(&mut pmcd.core, true, &mut pmcd.out);
    assert_eq!(pmcd.out.take(), [error(PmError::PMDAREADY)]);
    assert_eq!(instances(&pmcd.fetch(0, &[(1, 0)]).0[0]).unwrap(), [1]);
}

#[test]
fn a_full_answer_stays_whole_and_asks_nothing_more_of_the_agent() {
    const METRICS: usize = 16_000;
    let mut core = agent(None);
    let client = core.client_open();
    let mut results = ResultWriter::new((1 << 18) + 1000);
    for _ in 0..METRICS {
        core.fetch(client, &Profile::default(), Pmid::new(DOMAIN, 0, 0), &mut results).unwrap();
    }
    assert!((10..100).contains(&core.state.count), "asked {} times", core.state.count);
    let parts = results.finish(ResultKind::Micro, Timestamp::default(), 0).unwrap();
    let frame = FrameReader::new(1 << 20).next(&mut BytesMut::from(&parts.concat()[..])).unwrap().unwrap();
    let Ok(Pdu::Result(result)) = Pdu::decode(&frame) else { panic!("no result") };
    assert_eq!(result.sets.len(), METRICS);
    assert!(result.sets[0].values.is_ok());
    assert_eq!(result.sets[METRICS - 1].values, Err(PmError::TOOBIG));
}

#[test]
fn pmcd_is_answered_only_where_it_waits() {
    let mut pmcd = Pmcd::ready();
    let frame = |kind: u32, body: &[u8]| {
        let mut bytes = Vec::new();
        bytes.extend((12 + body.len() as u32).to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(0u32.to_be_bytes());
        bytes.extend(body);
        bytes
    };
    // Malformed: profile, attribute, error, credentials, unknown types, replies.
    for kind in [0x7000, 0x7002, 0x700c, 0x7011, 0x7005, 0x700a, 0x7013, 0x7018, 0x9000] {
        pmcd.bytes(&frame(kind, b"x")).unwrap();
        assert!(pmcd.out.take().is_empty(), "{kind:#x}");
    }
    for kind in [0x7001, 0x7003, 0x7004, 0x7006, 0x7008, 0x700d, 0x700e, 0x700f, 0x7010, 0x7012] {
        pmcd.bytes(&frame(kind, b"x")).unwrap();
        match &pmcd.out.take()[..] {
            [Pdu::Error(ErrorPdu { code, .. })] => {
                assert!(
                    *code < 0 && ![PmError::IPC.0, PmError::TIMEOUT.0].contains(code),
                    "{kind:#x}: {code}"
                );
            }
            other => panic!("{kind:#x}: {other:?}"),
        }
    }
    assert!(matches!(pmcd.bytes(&[0, 0, 0, 1, 0, 0, 0, 0]), Err(Broken::Frame(_))));
}

#[test]
fn names_are_looked_up_both_ways() {
    let mut pmcd = Pmcd::ready();
    pmcd.core.state.dynamic.push(("x.y".to_owned(), 1));
    pmcd.core.state.generation += 1;
    let mut find = |name: &str| pmcd.ask(0, &Pdu::PmnsNames(PmnsNames::Plain(vec![name.into()]))).remove(0);
    let found = |item| Pdu::PmnsIds(PmnsIds { status: 1, ids: vec![Pmid::new(DOMAIN, 8, item)] });
    assert_eq!(find("probe.dyn.x.y"), found(0));
    assert_eq!(find("probe.dyn"), error(PmError::NONLEAF));
    assert_eq!(find("probe.dyn.x"), error(PmError::NONLEAF));
    assert_eq!(find("probe.dyn.y"), error(PmError::NAME));
    assert_eq!(find("probe.dynx"), error(PmError::NAME));
    let ids = Pdu::PmnsIds(PmnsIds { status: 0, ids: vec![Pmid::new(DOMAIN, 8, 0)] });
    assert_eq!(pmcd.ask(0, &ids), [Pdu::PmnsNames(PmnsNames::Plain(vec!["probe.dyn.x.y".into()]))]);
    let traverse = |name: &str| Pdu::PmnsTraverse(name.into());
    let both = PmnsNames::Plain(vec!["probe.dyn.add".into(), "probe.dyn.x.y".into()]);
    assert_eq!(pmcd.ask(0, &traverse("probe.dyn")), [Pdu::PmnsNames(both)]);
    assert_eq!(pmcd.ask(0, &traverse("probe.none")), [error(PmError::NAME)]);
}

/// A direct client, played by the test.
struct Client {
    core: Core<State>,
    endpoint: Endpoint,
    connection: DirectConnection,
    results: ResultWriter,
    out: Sent,
}

impl Client {
    fn new() -> Client {
        let mut core = agent(None);
        let host = HostInfo { hostname: "here".to_owned(), ..HostInfo::default() };
        let mut endpoint = Endpoint::new(&core, host).unwrap();
        let connection =
            DirectConnection::new(&mut core, &mut endpoint, Attributes::default(), "test", "now");
        Client { core, endpoint, connection, results: ResultWriter::new(1 << 24), out: Sent::default() }
    }

    fn bytes(&mut self, input: &mut BytesMut) -> Result<Next, Broken> {
        self.connection.process(&mut self.core, &mut self.endpoint, input, &mut self.results, &mut self.out)
    }

    fn offering(offer: Offer) -> Client {
        let mut client = Client::new();
        let connection = DirectConnection::new(
            &mut client.core,
            &mut client.endpoint,
            Attributes::default(),
            "test",
            "now",
        );
        client.connection = connection.offering(&client.core, offer);
        client
    }

    /// What the line has to do after a PDU, and what was answered.
    fn next(&mut self, pdu: &Pdu) -> (Next, Vec<Pdu>) {
        let next = self.bytes(&mut BytesMut::from(&pdu.to_bytes(0).unwrap()[..])).unwrap();
        (next, self.out.take())
    }

    fn ask(&mut self, pdu: &Pdu) -> Vec<Pdu> {
        self.bytes(&mut BytesMut::from(&pdu.to_bytes(0).unwrap()[..])).unwrap();
        self.out.take()
    }
}

fn creds(flags: u16) -> Pdu {
    Pdu::Creds(Creds::version(CredFlags(flags)))
}

fn sasl(text: &str) -> Pdu {
    let payload = bytes::Bytes::copy_from_slice(text.as_bytes());
    Pdu::Attr(Attr { code: AttrCode::SASL, payload })
}

#[test]
fn encryption_and_passwords_are_asked_for_as_pmcd_does() {
    let desc = Pdu::DescReq(Pmid::new(DOMAIN, 0, 0));
    let tls = Offer { tls: true, passwords: true, ..Offer::default() };
    for (flags, answer) in [(0x1, None), (0x11, Some(error(PmError(0)))), (0x15, Some(error(PmError(0))))] {
        let mut client = Client::offering(tls);
        assert_eq!(client.next(&creds(flags)), (Next::Encrypt, answer.into_iter().collect()), "{flags:#x}");
        // The line is encrypted by now.
        let next = client.bytes(&mut BytesMut::new()).unwrap();
        if flags & 0x4 != 0 {
            assert_eq!((next, client.out.take()), (Next::Input, vec![sasl("PLAIN")]));
            assert_eq!(client.next(&sasl("PLAIN\0\0ada\0x")), (Next::Verdict, vec![]));
            assert_eq!(client.connection.claim().map(|claim| claim.user).as_deref(), Some("ada"));
            let user = User { name: "ada".to_owned(), uid: 7, gid: 8 };
            client.connection.verdict(&mut client.core, Ok(user), &mut client.out);
            assert_eq!(client.out.take(), []);
        }
        assert!(matches!(client.ask(&desc)[..], [Pdu::Desc(_)]), "{flags:#x}");
    }
    // In clear there are no mechanisms, and without TLS nothing where that is required.
    let required = Offer { tls_required: true, ..tls };
    for (offer, flags, first, later) in [
        (tls, 0x4, Some(PmError(-21_348)), PmError(-21_348)),
        (required, 0, None, PmError::PERMISSION),
        (required, 0x4, None, PmError::PERMISSION),
        (required, 0x3, None, PmError::PERMISSION),
        (Offer { certificate_required: true, ..required }, 0, None, PmError::NEEDCLIENTCERT),
    ] {
        let mut client = Client::offering(offer);
        let first: Vec<Pdu> = first.into_iter().map(error).collect();
        assert_eq!(client.next(&creds(flags)), (Next::Input, first), "{flags:#x}");
        assert_eq!(client.ask(&desc), [error(later)]);
        assert!(client.connection.denial().is_some() && !client.connection.is_open());
    }
}

#[test]
fn there_is_one_attempt_to_log_in_and_nothing_before_its_end() {
    let desc = Pdu::DescReq(Pmid::new(DOMAIN, 0, 0));
    let private = Offer { passwords: true, private: true, ..Offer::default() };
    for (claim, code) in [
        ("PLAIN\0\0ada\0x", None),
        ("PLAIN", Some(PmError(-21_349))),
        ("LOGIN\0\0ada\0x", Some(PmError(-21_348))),
        ("PLAIN\0root\0ada\0x", Some(PmError(-21_357))),
    ] {
        let mut client = Client::offering(private);
        assert_eq!(client.ask(&creds(0x4)), [sasl("PLAIN")]);
        let answer: Vec<Pdu> = code.into_iter().map(error).collect();
        assert_eq!(client.ask(&sasl(claim)), answer, "{claim:?}");
        if code.is_none() {
            // What comes meanwhile stays where it is.
            let mut waiting = BytesMut::from(&desc.to_bytes(0).unwrap()[..]);
            let length = waiting.len();
            assert_eq!(client.bytes(&mut waiting), Ok(Next::Verdict));
            assert_eq!((client.out.take(), waiting.len()), (vec![], length));
            client.connection.verdict(&mut client.core, Err(Denial::TooManyAttempts), &mut client.out);
            assert_eq!(client.out.take(), [error(PmError(-11))]);
        }
        assert!(client.connection.claim().is_none() || code.is_none());
        assert!(matches!(client.ask(&desc)[..], [Pdu::Error(_)]), "{claim:?}");
        assert!(matches!(client.ask(&sasl("PLAIN\0\0ada\0y"))[..], [Pdu::Error(_)]), "{claim:?}");
    }
    // Something else in its place.
    let mut client = Client::offering(private);
    client.ask(&creds(0x4));
    assert_eq!(client.ask(&desc), [error(PmError(-21_349))]);
}

#[test]
fn credentials_are_judged_as_pmcd_does() {
    let desc = Pdu::DescReq(Pmid::new(DOMAIN, 0, 0));
    for (flags, answer) in [
        (0, None),
        (0x1, Some(PmError(-95))),
        (0x2, Some(PmError(-95))),
        (0x4, Some(PmError(-95))),
        (0x20, Some(PmError::IPC)),
        (0x80, Some(PmError::IPC)),
        (0x800, Some(PmError::IPC)),
    ] {
        let mut client = Client::new();
        let expected: Vec<Pdu> = answer.into_iter().map(error).collect();
        assert_eq!(client.ask(&Pdu::Creds(Creds::version(CredFlags(flags)))), expected, "{flags:#x}");
        assert!(matches!(client.ask(&desc)[..], [Pdu::Desc(_)]), "{flags:#x}: the connection stays usable");
    }
    for (name, answer) in [("a-box.1_x", None), ("a b", Some(PmError(-22))), ("", Some(PmError(-22)))] {
        let mut client = Client::new();
        assert!(client.ask(&Pdu::Creds(Creds::version(CredFlags::CONTAINER))).is_empty());
        let payload = bytes::Bytes::copy_from_slice(name.as_bytes());
        let expected: Vec<Pdu> = answer.into_iter().map(error).collect();
        assert_eq!(client.ask(&Pdu::Attr(Attr { code: AttrCode::CONTAINER, payload })), expected, "{name:?}");
        assert!(matches!(client.ask(&desc)[..], [Pdu::Desc(_)]));
    }
}

/// Requests of all kinds, most of them sensible.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let pmid = prop_oneof![
        (0u16..2, 0u16..9).prop_map(|(cluster, item)| Pmid::new(DOMAIN, cluster, item)),
        (0u16..9, 0u16..30).prop_map(|(cluster, item)| Pmid::new(2, cluster, item)),
        Just(Pmid::new(DOMAIN, 8, 1023)),
        any::<u32>().prop_map(Pmid),
    ];
    let name =
        prop_oneof![Just("probe.dyn"), Just("probe"), Just(""), Just("pmcd.client.whoami"), Just("x\u{e9}")];
    let indom =
        prop_oneof![Just(InDom::new(DOMAIN, 3)), Just(InDom::new(2, 6)), any::<u32>().prop_map(InDom)];
    let pmids = prop::collection::vec(pmid.clone(), 1..20);
    let value = (pmid.clone(), any::<i32>(), any::<u32>()).prop_map(|(pmid, inst, value)| {
        let values = vec![InstanceValue { inst, value: Value::U32(value) }];
        let set = RawValueSet::from_values(&ValueSet { pmid, values: Ok(values) }).unwrap();
        Pdu::Result(ResultPdu { timestamp: Timestamp::default(), sets: vec![set] })
    });
    let profile = (-1..70i32, prop::collection::vec(any::<i32>(), 0..50)).prop_map(|(ctxid, instances)| {
        let indoms =
            vec![IndomProfile { indom: InDom::new(DOMAIN, 3), state: ProfileState::Exclude, instances }];
        Pdu::Profile(ProfilePdu { ctxid, profile: Profile { state: ProfileState::Include, indoms } })
    });
    let pdu = prop_oneof![
        (0..2i32, pmids.clone()).prop_map(|(ctxid, pmids)| Pdu::Fetch(Fetch { ctxid, pmids })),
        (0..2i32, pmids.clone()).prop_map(|(ctxid, pmids)| Pdu::HighResFetch(Fetch { ctxid, pmids })),
        pmid.clone().prop_map(Pdu::DescReq),
        pmids.clone().prop_map(Pdu::DescIds),
        (indom, -1..4i32, prop_oneof![Just(""), Just("red"), Just("zz")])
            .prop_map(|(indom, inst, name)| Pdu::InstanceReq(InstanceReq { indom, inst, name: name.into() })),
        pmid.prop_map(|pmid| Pdu::PmnsIds(PmnsIds { status: 0, ids: vec![pmid] })),
        (name.clone(), any::<bool>())
            .prop_map(|(name, status)| Pdu::PmnsChild(PmnsChild { name: name.into(), status })),
        name.prop_map(|name| Pdu::PmnsTraverse(name.into())),
        Just(Pdu::PmnsNames(PmnsNames::Plain(vec!["probe.count".into(), "pmcd.pid".into(), "no".into()]))),
        Just(Pdu::Creds(Creds::version(CredFlags::default()))),
        Just(error(PmError::NOTCONN)),
        value,
        profile,
    ];
    (pdu, -2..5i32).prop_map(|(pdu, slot)| pdu.to_bytes(slot).map(Vec::from).unwrap_or_default())
}

/// A stream of requests with some bytes changed.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let damage = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    (prop::collection::vec(request(), 0..12), damage).prop_map(|(requests, damage)| {
        let mut bytes = requests.concat();
        for (at, byte) in damage {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                // Lengths mostly stay whole, or the rest of the stream would never be looked at.
                bytes[at] = byte;
            }
        }
        bytes
    })
}

fn whole_pdus(out: &mut Sent) {
    let mut reader = FrameReader::new(1 << 30);
    let mut frames: Vec<Frame> = Vec::new();
    while let Some(frame) = reader.next(&mut out.0).expect("answers are PDUs") {
        frames.push(frame);
    }
    assert!(out.0.is_empty());
    for frame in frames {
        Pdu::decode(&frame).expect("answers can be decoded");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever comes, in whatever pieces: no panic, no unread input but the beginning of a PDU, whole PDUs
    /// as answers, no more clients than slots.
    #[test]
    fn no_bytes_upset_the_line_to_pmcd(bytes in stream(), piece in 1usize..200) {
        let mut pmcd = Pmcd::ready();
        let mut input = BytesMut::new();
        for part in bytes.chunks(piece) {
            input.extend_from_slice(part);
            let ended = pmcd.connection.process(&mut pmcd.core, &mut input, &mut pmcd.results, &mut pmcd.out);
            whole_pdus(&mut pmcd.out);
            if ended.is_err() {
                break;
            }
            prop_assert!(input.len() < 1 << 20);
        }
        pmcd.connection.close(&mut pmcd.core);
        prop_assert_eq!(pmcd.core.clients(), 0);
    }

    #[test]
    fn no_bytes_upset_the_direct_endpoint(bytes in stream(), piece in 1usize..200, hello in any::<bool>()) {
        let mut client = Client::new();
        if hello {
            client.ask(&Pdu::Creds(Creds::version(CredFlags::default())));
        }
        let mut input = BytesMut::new();
        for part in bytes.chunks(piece) {
            input.extend_from_slice(part);
            let ended = client.bytes(&mut input);
            whole_pdus(&mut client.out);
            if ended.is_err() {
                break;
            }
            prop_assert!(input.len() < 1 << 16);
        }
        client.connection.close(&mut client.core, &mut client.endpoint);
        prop_assert_eq!(client.core.clients(), 0);
    }

    #[test]
    fn noise_is_no_pdu(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let mut client = Client::new();
        let _ = client.bytes(&mut BytesMut::from(&bytes[..]));
        let mut pmcd = Pmcd::ready();
        let _ = pmcd.bytes(&bytes);
        whole_pdus(&mut client.out);
        whole_pdus(&mut pmcd.out);
    }
}
