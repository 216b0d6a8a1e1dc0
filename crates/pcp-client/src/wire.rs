//! A provider that speaks PCP's protocol over some connection: what hosts and in-process agents have in common
//! (`docs/pcp/wire.md` 5, 9 to 18).
//!
//! One request is under way at a time, or some that go out together and are answered in their order. Replies say nothing about the request they answer, so a connection on which
//! anything went wrong is closed at once: a reply that is late could otherwise be taken for the answer to the next
//! request. The same goes for bytes that come without being asked for.
//!
//! Cost of a fetch: one write, two or three reads, one copy of the reply. No allocation once the buffers have
//! grown.

use std::time::{Duration, Instant};

use bytes::BytesMut;

use super::counts::PduCounts;
use super::error::{ClientError, Result};
use super::labels;
use super::line::{Line, MAX_REQUEST};
use super::options::HostOptions;
use super::provider::{self, Child, ContextKind, FetchRequest, Found, Lookup, Provider};
use super::waiting::{Waiting, wait_for};
use pcp_model::{
    Desc, InDom, Inst, Instance, Label, LabelFlags, LabelKind, LabelSet, PM_IN_NULL, PmError, Pmid, Value,
    ValueSet, ValueType,
};
use pcp_pdu::{
    ByteStr, Features, Fetch, Fetched, InstanceEntry, InstanceList, InstanceReq, LabelPdu, LabelTarget,
    NodeKind, Pdu, PmnsChild, PmnsIds, PmnsNames, ProfilePdu, RawValueSet, ResultPdu, StateChange, TextLevel,
    TextReq, TextTarget, kind,
};

/// The one context on the connection.
const CONTEXT: i32 = 0;
/// Bytes of names in a request; more are asked for in several.
const MAX_NAMES: usize = 60 << 10;
/// Identifiers in a request for descriptors; more are asked for in several.
const MAX_IDS: usize = 8192;

/// Requests that are sent before their replies have come: their bytes fit into any socket's buffer.
const UNDER_WAY: usize = 256;
/// Bytes of the shortest reply, an error.
const SHORTEST_REPLY: usize = 16;

/// Notices of changes taken at a time: pmcd has one bit for each kind of change.
const MAX_NOTICES: usize = 64;

/// Makes connections: the first, and others after it.
pub(super) trait Connector: Send {
    /// Which kind of source it leads to.
    fn kind(&self) -> ContextKind;
    /// Time limits.
    fn options(&self) -> &HostOptions;
    /// What the source is called, where it does not tell itself.
    fn host_name(&self) -> String;
    /// Whether the source may answer a profile, to refuse it.
    fn refuses_profiles(&self) -> bool {
        true
    }
    /// Whether a positive code in front of a result tells what has changed. From an agent it is an error in place of the result.
    fn tells_changes(&self) -> bool {
        true
    }
    /// Starts to make a connection.
    fn start(&mut self) -> Result<Box<dyn Connecting>>;
}

/// A connection being made.
pub(super) trait Connecting: Send {
    /// Goes on without waiting: the connection once it is open, and what the collector can do.
    fn advance(&mut self) -> Result<Option<(Line, Features)>>;
    /// What has to come before [`Connecting::advance`] can go on.
    fn waiting(&self) -> Option<Waiting<'_>>;
}

/// A collector, asked over a connection.
pub(super) struct WireProvider {
    connector: Box<dyn Connector>,
    state: State,
    backoff: Backoff,
    /// Metrics of the last fetch, and that fetch as it was sent: mostly it is the same again.
    fetched: Vec<Pmid>,
    fetch: BytesMut,
    /// Version of the profile that the collector has.
    profile_sent: Option<u64>,
    pending: Option<Pending>,
    changes: StateChange,
    /// PDUs of connections that have ended.
    counts: PduCounts,
}

enum State {
    Up { line: Line, features: Features },
    Connecting(Box<dyn Connecting>),
    Down(String),
}

/// A fetch under way.
#[derive(Clone, Copy)]
struct Pending {
    /// A profile went with it. The collector answers that only if it refuses it.
    with_profile: bool,
}

/// When to connect again (`pmReconnectContext(3)`).
#[derive(Default)]
struct Backoff {
    failures: usize,
    until: Option<Instant>,
}

impl WireProvider {
    /// A provider that is not connected yet.
    pub(crate) fn new(connector: Box<dyn Connector>) -> WireProvider {
        WireProvider {
            connector,
            state: State::Down("not yet".to_owned()),
            backoff: Backoff::default(),
            fetched: Vec::new(),
            fetch: BytesMut::new(),
            profile_sent: None,
            pending: None,
            changes: StateChange::default(),
            counts: PduCounts::default(),
        }
    }

    /// The connection, ready for a request.
    fn line(&mut self) -> Result<(&mut Line, Features)> {
        match &mut self.state {
            State::Down(why) => Err(ClientError::NotConnected(why.clone())),
            State::Connecting(_) => Err(ClientError::Busy),
            State::Up { .. } if self.pending.is_some() => Err(ClientError::Busy),
            State::Up { line, features } => Ok((line, *features)),
        }
    }

    /// Whether the other side can do something.
    pub(crate) fn has(&mut self, feature: Features) -> Result<bool> {
        Ok(self.line()?.1.contains(feature))
    }

    /// The code of an ERROR PDU that came without being asked for, if one has.
    pub(crate) fn notice(&mut self) -> Result<Option<PmError>> {
        let (line, _) = self.line()?;
        // What was asked before has been answered.
        line.set_limit(None);
        let taken = match line.pump() {
            Ok(false) => return Ok(None),
            Ok(true) => line.take(),
            Err(error) => Err(error),
        };
        match taken {
            Ok(Pdu::Error(error)) => Ok(error.error()),
            Ok(_) => self.unexpected(),
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Says something that has no answer. It goes out with the next request.
    pub(crate) fn tell(&mut self, pdus: &[Pdu], from: i32) -> Result<()> {
        let (line, _) = self.line()?;
        pdus.iter().try_for_each(|pdu| line.put(pdu, from, MAX_REQUEST))
    }

    /// Ends the connection: nothing that comes from here on can be trusted.
    fn fail(&mut self, error: ClientError) -> ClientError {
        tracing::trace!(target: "pcp::context", "the connection is given up: {error}");
        self.leave(State::Down(error.to_string()));
        self.pending = None;
        error
    }

    /// Goes on without the connection that there is, if there is one.
    fn leave(&mut self, next: State) {
        self.counts = self.pdu_counts();
        self.state = next;
    }

    /// Ends the connection, on which something came that answers nothing.
    pub(crate) fn unexpected<T>(&mut self) -> Result<T> {
        Err(self.fail(ClientError::Unexpected))
    }

    /// Asks for something and gives the reply; an ERROR reply is an error.
    fn ask(&mut self, request: &Pdu) -> Result<Pdu> {
        let limit = self.connector.options().request_timeout;
        let (line, _) = self.line()?;
        // Replies do not say what they answer: something that lies there already would be taken for this one's.
        if let Err(error) = line.expect_silence() {
            return Err(self.fail(error));
        }
        line.put(request, CONTEXT, MAX_REQUEST)?;
        line.set_limit(limit);
        self.reply_to(request)
    }

    /// The reply to what was asked first of what is under way; an ERROR reply is an error.
    fn reply_to(&mut self, request: &Pdu) -> Result<Pdu> {
        match receive(self.line()?.0) {
            Ok(Pdu::Error(error)) => match error.error() {
                Some(error) => Err(error.into()),
                None if matches!(request, Pdu::Result(_)) && error.code == 0 => Ok(Pdu::Error(error)),
                None => self.unexpected(),
            },
            Ok(reply) => Ok(reply),
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Asks one after the other without waiting for the replies in between, of which `take` makes what is given, in the same
    /// order. A collector takes requests from the connection one by one, so that other clients have their turns.
    fn ask_all<T>(
        &mut self,
        requests: &[Pdu],
        mut take: impl FnMut(&mut WireProvider, Result<Pdu>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let limit = self.connector.options().request_timeout;
        if let Err(error) = self.line()?.0.expect_silence() {
            return Err(self.fail(error));
        }
        let (mut taken, mut sent) = (Vec::with_capacity(requests.len()), 0);
        while let Some(request) = requests.get(taken.len()) {
            // Topped up when half of them are answered: many go out at once.
            if sent - taken.len() <= UNDER_WAY / 2 {
                let line = self.line()?.0;
                for request in requests.iter().take(taken.len() + UNDER_WAY).skip(sent) {
                    if let Err(error) = line.put(request, CONTEXT, MAX_REQUEST) {
                        // Replies to others are under way.
                        return Err(self.fail(error));
                    }
                    sent += 1;
                }
            }
            let line = self.line()?.0;
            line.set_limit(limit);
            // Of the first one a part may be here.
            line.expect_at_least((sent - taken.len() - 1) * SHORTEST_REPLY);
            let reply = self.reply_to(request);
            taken.push(take(self, reply)?);
        }
        if let State::Up { line, .. } = &mut self.state {
            line.expect_at_least(0);
        }
        Ok(taken)
    }

    fn request(lookup: &Lookup) -> Pdu {
        match *lookup {
            Lookup::NamesOf(pmid) => Pdu::PmnsIds(PmnsIds { status: 0, ids: vec![pmid] }),
            Lookup::Text(target, level) => Pdu::TextReq(TextReq { target, level }),
            Lookup::Labels(target) => Pdu::LabelReq(target),
            Lookup::Instances(indom) => {
                Pdu::InstanceReq(InstanceReq { indom, inst: PM_IN_NULL, name: ByteStr::default() })
            }
        }
    }

    /// What a reply says. One of another kind ends the connection.
    fn found_in(&mut self, lookup: &Lookup, reply: Pdu) -> Result<Found> {
        match (lookup, reply) {
            (Lookup::NamesOf(_), Pdu::PmnsNames(PmnsNames::Plain(names))) => {
                Ok(Found::Names(names.iter().map(|name| name.to_str_lossy().into_owned()).collect()))
            }
            (Lookup::NamesOf(_), Pdu::PmnsNames(PmnsNames::Failed(error))) => Err(error.into()),
            (Lookup::Text(..), Pdu::Text(text)) => Ok(Found::Text(text.text.to_str_lossy().into_owned())),
            (Lookup::Labels(_), Pdu::Label(LabelPdu { sets, .. })) => Ok(Found::Labels(sets)),
            // The domain in the reply is not looked at, as in libpcp: pmcd's own agent leaves it undefined.
            (Lookup::Instances(_), Pdu::Instance(list)) if is_whole(&list) => {
                let instance = |entry: InstanceEntry| Instance {
                    id: entry.inst,
                    name: entry.name.to_str_lossy().into_owned(),
                };
                Ok(Found::Instances(list.instances.into_iter().map(instance).collect()))
            }
            _ => self.unexpected(),
        }
    }

    /// What a reply says of the names below one.
    fn names_in(&mut self, reply: Pdu) -> Result<Vec<String>> {
        match reply {
            Pdu::PmnsNames(PmnsNames::Plain(names)) => {
                Ok(names.iter().map(|name| name.to_str_lossy().into_owned()).collect())
            }
            Pdu::PmnsNames(PmnsNames::Failed(error)) => Err(error.into()),
            _ => self.unexpected(),
        }
    }

    fn look_up(&mut self, lookup: Lookup) -> Result<Found> {
        let reply = self.ask(&WireProvider::request(&lookup))?;
        self.found_in(&lookup, reply)
    }

    /// Puts a fetch, and the profile if the collector does not have it. Both go out in one write: pmcd answers a
    /// profile only to refuse it, so there is nothing to wait for in between.
    fn put_fetch(&mut self, request: FetchRequest<'_>) -> Result<Pending> {
        let high = self.has(Features::HIGHRES)?;
        // Mostly the same metrics are asked for again: the request is sent as it was encoded before.
        if self.fetched != request.pmids {
            self.fetched.clear();
            let fetch = Fetch { ctxid: CONTEXT, pmids: request.pmids.to_vec() };
            let pdu = if high { Pdu::HighResFetch(fetch) } else { Pdu::Fetch(fetch) };
            self.fetch.clear();
            pdu.encode(CONTEXT, &mut self.fetch)?;
            if self.fetch.len() > MAX_REQUEST {
                return Err(PmError::TOOBIG.into());
            }
            self.fetched.extend_from_slice(request.pmids);
        }
        let with_profile = self.profile_sent != Some(request.profile_version);
        tracing::trace!(
            target: "pcp::fetch",
            "profile {}",
            if with_profile { "sent before the request" } else { "not sent: the collector has it" }
        );
        let State::Up { line, .. } = &mut self.state else { return Err(ClientError::Busy) };
        if with_profile {
            let profile = Pdu::Profile(ProfilePdu { ctxid: CONTEXT, profile: request.profile.clone() });
            line.put(&profile, CONTEXT, MAX_REQUEST)?;
            self.profile_sent = Some(request.profile_version);
        }
        line.put_encoded(&self.fetch);
        Ok(Pending { with_profile: with_profile && self.connector.refuses_profiles() })
    }

    /// What came of the fetch under way, if all of it is here.
    fn take_result(&mut self, out: &mut Fetched) -> Result<bool> {
        let State::Up { line, .. } = &mut self.state else { return Err(ClientError::Busy) };
        for _ in 0..MAX_NOTICES {
            if !line.pump()? {
                return Ok(false);
            }
            if let (kind::RESULT | kind::HIGHRES_RESULT, Some(pdu)) = (line.kind(), line.pdu()) {
                out.decode(pdu)?;
                line.skip();
                // Sets are found by their place in the request: an answer of another shape would be read as other
                // metrics.
                if !out.sets().map(|set| set.pmid).eq(self.fetched.iter().copied()) {
                    return Err(ClientError::Unexpected);
                }
                out.changes = std::mem::take(&mut self.changes);
                return Ok(true);
            }
            match line.take()? {
                // A positive code is no error but pmcd's notice that agents or names have changed. It comes in
                // front of the result, of one fetch only.
                Pdu::Error(change) if change.code > 0 && !self.connector.tells_changes() => {
                    return Err(PmError::GENERIC.into());
                }
                Pdu::Error(change) if change.code > 0 => {
                    self.changes = self.changes.union(StateChange(change.code as u32));
                }
                Pdu::Error(error) => {
                    return Err(error.error().map_or(ClientError::Unexpected, ClientError::Pcp));
                }
                _ => return Err(ClientError::Unexpected),
            }
        }
        Err(ClientError::Unexpected)
    }

    /// Goes on with connecting.
    fn advance_connecting(&mut self) -> Result<bool> {
        let State::Connecting(connecting) = &mut self.state else { return Ok(true) };
        match connecting.advance() {
            Ok(None) => Ok(false),
            Ok(Some((line, features))) => {
                self.state = State::Up { line, features };
                self.backoff = Backoff::default();
                Ok(true)
            }
            Err(error) => Err(self.connecting_failed(error)),
        }
    }

    fn connecting_failed(&mut self, error: ClientError) -> ClientError {
        self.backoff.failed(&self.connector.options().reconnect_delays);
        self.fail(error)
    }

    /// The text of a metric of the collector's own.
    fn text_value(&mut self, name: &str) -> Result<String> {
        let pmids: Vec<Pmid> = self.lookup_names(&[name])?.into_iter().flatten().collect();
        let profile = Default::default();
        // The context's own profile is to be sent again afterwards.
        self.profile_sent = None;
        let started = self.start_fetch(FetchRequest { pmids: &pmids, profile: &profile, profile_version: 0 });
        self.profile_sent = None;
        started?;
        // The collector says what has changed once, to this fetch that nobody sees.
        let (mut values, changes) = (Fetched::new(), self.changes);
        provider::finish(self, &mut values)?;
        // They are for the next fetch of the context.
        self.changes = changes.union(values.changes);
        let set = values.set(0).ok_or(PmError::VALUE)?;
        let (_, value) = set.values?.get(0).ok_or(PmError::VALUE)?;
        match value.to_value(ValueType::String)? {
            Value::String(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
            _ => Err(PmError::CONV.into()),
        }
    }

    /// The labels of a collector that knows none.
    fn labels_made_up(&mut self, target: LabelTarget) -> Result<Vec<LabelSet>> {
        if target != LabelTarget::Context {
            return Err(PmError::NOLABELS.into());
        }
        let value = labels::text(&self.host_name()?);
        let flags = LabelFlags(LabelKind::Context.code() as u8);
        // What libpcp makes up for a collector of before labels.
        let labels = Ok(vec![Label { name: "hostname".to_owned(), value, flags }]);
        Ok(vec![LabelSet { inst: PM_IN_NULL, labels }])
    }
}

impl Backoff {
    /// An attempt failed: the next has to wait a while.
    fn failed(&mut self, delays: &[Duration]) {
        let delay = delays.get(self.failures).or(delays.last());
        self.until = delay.and_then(|&delay| Instant::now().checked_add(delay));
        self.failures += 1;
    }

    fn left(&self) -> Option<Duration> {
        self.until?.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }
}

/// Whether this answers a request for all instances: that for one leaves out what was known.
fn is_whole(list: &InstanceList) -> bool {
    let InstanceList { instances, .. } = list;
    instances.len() != 1 || instances.iter().all(|one| one.inst != PM_IN_NULL && !one.name.is_empty())
}

/// The next PDU, waited for.
fn receive(line: &mut Line) -> Result<Pdu> {
    while !line.pump()? {
        wait_for(line.waiting())?;
    }
    line.take()
}

impl Provider for WireProvider {
    fn kind(&self) -> ContextKind {
        self.connector.kind()
    }

    fn lookup_names(&mut self, names: &[&str]) -> Result<Vec<Option<Pmid>>> {
        if names.is_empty() {
            return Err(PmError::TOOSMALL.into());
        }
        let mut pmids = Vec::with_capacity(names.len());
        let mut rest = names;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = rest.iter().take_while(|name| {
                bytes += name.len() + 8;
                bytes <= MAX_NAMES
            });
            let (some, more) = rest.split_at(fits.count().max(1));
            rest = more;
            let request = PmnsNames::Plain(some.iter().map(|&name| ByteStr::from(name)).collect());
            match self.ask(&Pdu::PmnsNames(request)) {
                Ok(Pdu::PmnsIds(PmnsIds { ids, .. })) if ids.len() == some.len() => {
                    pmids.extend(ids.into_iter().map(|id| (id != Pmid::NULL).then_some(id)));
                }
                Ok(_) => return self.unexpected(),
                // A part of several names that is a single one: it fails for itself, as it would among the others.
                Err(ClientError::Pcp(PmError::NAME | PmError::NONLEAF)) if names.len() > 1 => {
                    pmids.extend(some.iter().map(|_| None));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(pmids)
    }

    fn lookup_each(&mut self, names: &[&str]) -> Result<Vec<std::result::Result<Pmid, PmError>>> {
        let request = |name: &&str| Pdu::PmnsNames(PmnsNames::Plain(vec![ByteStr::from(*name)]));
        let requests: Vec<Pdu> = names.iter().map(request).collect();
        self.ask_all(&requests, |provider, reply| {
            provider::answer(reply.and_then(|reply| match reply {
                Pdu::PmnsIds(PmnsIds { ids, .. }) if ids.len() == 1 => {
                    let pmids = ids.iter().map(|id| (*id != Pmid::NULL).then_some(*id));
                    provider::only(&pmids.collect::<Vec<_>>())
                }
                _ => provider.unexpected(),
            }))
        })
    }

    fn names_of(&mut self, pmid: Pmid) -> Result<Vec<String>> {
        match self.look_up(Lookup::NamesOf(pmid))? {
            Found::Names(names) => Ok(names),
            _ => self.unexpected(),
        }
    }

    fn children(&mut self, name: &str) -> Result<Vec<Child>> {
        match self.ask(&Pdu::PmnsChild(PmnsChild { name: name.into(), status: true }))? {
            Pdu::PmnsNames(PmnsNames::WithStatus(children)) => {
                let child = |(name, kind): &(ByteStr, NodeKind)| Child {
                    name: name.to_str_lossy().into_owned(),
                    leaf: *kind == NodeKind::Leaf,
                };
                Ok(children.iter().map(child).collect())
            }
            Pdu::PmnsNames(PmnsNames::Plain(none)) if none.is_empty() => Ok(Vec::new()),
            Pdu::PmnsNames(PmnsNames::Failed(error)) => Err(error.into()),
            _ => self.unexpected(),
        }
    }

    fn traverse(&mut self, name: &str) -> Result<Vec<String>> {
        let reply = self.ask(&Pdu::PmnsTraverse(name.into()))?;
        self.names_in(reply)
    }

    fn traverse_each(&mut self, names: &[&str]) -> Result<Vec<std::result::Result<Vec<String>, PmError>>> {
        let requests: Vec<Pdu> = names.iter().map(|&name| Pdu::PmnsTraverse(name.into())).collect();
        self.ask_all(&requests, |provider, reply| {
            provider::answer(reply.and_then(|reply| provider.names_in(reply)))
        })
    }

    fn descs(&mut self, pmids: &[Pmid]) -> Result<Vec<std::result::Result<Desc, PmError>>> {
        let mut descs = Vec::with_capacity(pmids.len());
        if self.has(Features::DESCS)? && pmids.len() > 1 {
            for some in pmids.chunks(MAX_IDS) {
                match self.ask(&Pdu::DescIds(some.to_vec())) {
                    // Where an agent dies of it, pmcd gives zeros in place of its descriptions.
                    Ok(Pdu::Descs(found)) if found.len() == some.len() => descs.extend(
                        found
                            .into_iter()
                            .zip(some)
                            .map(|(desc, pmid)| desc.filter(|desc| desc.pmid == *pmid)),
                    ),
                    Ok(_) => return self.unexpected(),
                    // One that fails may fail them all: ask for each.
                    Err(ClientError::Pcp(_)) => descs.extend(some.iter().map(|_| None)),
                    Err(error) => return Err(error),
                }
            }
        } else {
            descs.resize(pmids.len(), None);
        }
        let each = pmids.iter().zip(descs).map(|(&pmid, desc)| match desc {
            Some(desc) => Ok(Ok(desc)),
            None => match self.ask(&Pdu::DescReq(pmid)) {
                Ok(Pdu::Desc(desc)) if desc.pmid == pmid => Ok(Ok(desc)),
                // An agent's mistake, which pmcd passes on: of this metric alone nothing is known.
                Ok(Pdu::Desc(_)) => Ok(Err(PmError::PMID)),
                Ok(_) => self.unexpected(),
                Err(ClientError::Pcp(error)) => Ok(Err(error)),
                Err(error) => Err(error),
            },
        });
        each.collect()
    }

    fn instances(&mut self, indom: InDom) -> Result<Vec<Instance>> {
        match self.look_up(Lookup::Instances(indom))? {
            Found::Instances(instances) => Ok(instances),
            _ => self.unexpected(),
        }
    }

    fn instance(&mut self, indom: InDom, name: &str) -> Result<Inst> {
        if name.is_empty() {
            // An empty name would ask for all instances.
            return Err(PmError::INST.into());
        }
        let request = InstanceReq { indom, inst: PM_IN_NULL, name: name.into() };
        match self.ask(&Pdu::InstanceReq(request))? {
            // Nor is the domain here.
            Pdu::Instance(InstanceList { instances, .. }) => match &instances[..] {
                [one] if one.inst != PM_IN_NULL && (one.name.is_empty() || one.name == name) => Ok(one.inst),
                _ => self.unexpected(),
            },
            _ => self.unexpected(),
        }
    }

    fn instance_name(&mut self, indom: InDom, inst: Inst) -> Result<String> {
        if inst == PM_IN_NULL {
            return Err(PmError::INST.into());
        }
        let request = InstanceReq { indom, inst, name: ByteStr::default() };
        match self.ask(&Pdu::InstanceReq(request))? {
            Pdu::Instance(InstanceList { instances, .. }) => match &instances[..] {
                [one] if one.inst == PM_IN_NULL || one.inst == inst => {
                    Ok(one.name.to_str_lossy().into_owned())
                }
                _ => self.unexpected(),
            },
            _ => self.unexpected(),
        }
    }

    fn text(&mut self, target: TextTarget, level: TextLevel) -> Result<String> {
        match self.look_up(Lookup::Text(target, level))? {
            Found::Text(text) => Ok(text),
            _ => self.unexpected(),
        }
    }

    fn labels(&mut self, target: LabelTarget) -> Result<Vec<LabelSet>> {
        if !self.has(Features::LABELS)? {
            return self.labels_made_up(target);
        }
        match self.look_up(Lookup::Labels(target)) {
            Ok(Found::Labels(sets)) => Ok(sets),
            Ok(_) => self.unexpected(),
            // Whatever its labels are, it is a host.
            Err(ClientError::Pcp(_)) if target == LabelTarget::Context => self.labels_made_up(target),
            Err(error) => Err(error),
        }
    }

    fn look_up_each(&mut self, lookups: &[Lookup]) -> Result<Vec<std::result::Result<Found, PmError>>> {
        if !self.has(Features::LABELS)? && lookups.iter().any(|each| matches!(each, Lookup::Labels(_))) {
            // It would not know what is asked.
            let each = |lookup: &Lookup| {
                provider::answer(match *lookup {
                    Lookup::Labels(target) => self.labels(target).map(Found::Labels),
                    lookup => self.look_up(lookup),
                })
            };
            return lookups.iter().map(each).collect();
        }
        let requests: Vec<Pdu> = lookups.iter().map(WireProvider::request).collect();
        let mut asked = lookups.iter();
        let mut found = self.ask_all(&requests, |provider, reply| {
            let lookup = asked.next().ok_or(ClientError::Unexpected)?;
            provider::answer(reply.and_then(|reply| provider.found_in(lookup, reply)))
        })?;
        for (lookup, found) in lookups.iter().zip(&mut found) {
            if let (Lookup::Labels(target @ LabelTarget::Context), Err(_)) = (lookup, &found) {
                *found = provider::answer(self.labels_made_up(*target).map(Found::Labels))?;
            }
        }
        Ok(found)
    }

    fn store(&mut self, sets: &[ValueSet]) -> Result<()> {
        let sets = sets.iter().map(RawValueSet::from_values).collect::<std::result::Result<_, _>>()?;
        let request = Pdu::Result(ResultPdu { timestamp: Default::default(), sets });
        match self.ask(&request)? {
            Pdu::Error(_) => Ok(()),
            _ => self.unexpected(),
        }
    }

    fn host_name(&mut self) -> Result<String> {
        match self.text_value("pmcd.hostname") {
            Ok(name) if !name.is_empty() => Ok(name),
            Ok(_) | Err(ClientError::Pcp(_)) => Ok(self.connector.host_name()),
            Err(error) => Err(error),
        }
    }

    fn time_zone(&mut self) -> Result<String> {
        match self.text_value("pmcd.zoneinfo") {
            Ok(zone) if !zone.is_empty() => Ok(zone),
            Ok(_) | Err(ClientError::Pcp(_)) => self.text_value("pmcd.timezone"),
            Err(error) => Err(error),
        }
    }

    fn start_fetch(&mut self, request: FetchRequest<'_>) -> Result<()> {
        if request.pmids.is_empty() {
            return Err(PmError::TOOSMALL.into());
        }
        let limit = self.connector.options().request_timeout;
        if let Err(error) = self.line()?.0.expect_silence() {
            return Err(self.fail(error));
        }
        let pending = self.put_fetch(request)?;
        self.line()?.0.set_limit(limit);
        self.pending = Some(pending);
        Ok(())
    }

    fn pdu_counts(&self) -> PduCounts {
        match &self.state {
            State::Up { line, .. } => self.counts.plus(line.counts()),
            State::Connecting(_) | State::Down(_) => self.counts,
        }
    }

    fn is_connected(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    fn start_reconnect(&mut self) -> Result<()> {
        if let Some(left) = self.backoff.left() {
            return Err(ClientError::TooSoon(left));
        }
        self.pending = None;
        self.profile_sent = None;
        self.fetched.clear();
        self.changes = StateChange::default();
        // The old connection is closed first: a collector may limit their number.
        self.leave(State::Down("given up for another".to_owned()));
        match self.connector.start() {
            Ok(connecting) => self.state = State::Connecting(connecting),
            Err(error) => return Err(self.connecting_failed(error)),
        }
        Ok(())
    }

    fn advance(&mut self, out: &mut Fetched) -> Result<bool> {
        let Some(Pending { with_profile }) = self.pending else { return self.advance_connecting() };
        let taken = self.take_result(out);
        match taken {
            Ok(false) => return Ok(false),
            // After a profile this may be its error, and the fetch's own answer is still to come.
            Err(error) if with_profile || !matches!(error, ClientError::Pcp(_)) => {
                return Err(self.fail(error));
            }
            Ok(true) | Err(_) => self.pending = None,
        }
        taken
    }

    fn waiting(&self) -> Option<Waiting<'_>> {
        match &self.state {
            State::Connecting(connecting) => connecting.waiting(),
            State::Up { line, .. } if self.pending.is_some() => Some(line.waiting()),
            State::Up { .. } | State::Down(_) => None,
        }
    }
}
