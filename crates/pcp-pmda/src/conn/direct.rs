//! The server's side of a line to one PMAPI client, acting as pmcd does (`docs/pcp/wire.md` 4, 5, 19; where
//! releases differ, as 6.3.8).

use std::collections::BTreeMap;

use bytes::BytesMut;

use super::answer;
use super::handshake::{Denial, Handshake, Offer, Step};
use super::login::{Claim, User};
use super::output::{Broken, Next, Output, send};
use crate::call::{Attributes, ClientId};
use crate::core::{Core, Generations, Serve};
use crate::endpoint::{self, Endpoint};
use crate::labels::LabelSubject;
use pcp_model::{InDom, PmError, Pmid, Profile};
use pcp_pdu::{
    self, Attr, ByteStr, ErrorPdu, Fetch, Frame, FrameReader, LabelPdu, LabelTarget, Pdu, PmnsIds, PmnsNames,
    ProfilePdu, RawValueSet, ResultKind, ResultPdu, ResultWriter, StateChange, TextReq, TextTarget,
};

/// Longest PDU taken from a client (`pmcd -L`).
const MAX_PDU: usize = 65_536;
/// Contexts per client (`pmcd -C`).
const MAX_CONTEXTS: i32 = 64;
/// Instances and instance domains in all profiles of a client together, so that profiles cannot be used to
/// fill the memory.
const MAX_PROFILE_ENTRIES: usize = 65_536;
/// The same for all clients together: 32 MiB.
const ALL_PROFILE_ENTRIES: usize = 1 << 20;
const EINVAL: PmError = PmError::from_errno(nix::errno::Errno::EINVAL as i32);
const EAGAIN: PmError = PmError::from_errno(nix::errno::Errno::EAGAIN as i32);

/// A line to a direct client.
#[derive(Debug)]
pub struct DirectConnection {
    reader: FrameReader,
    scratch: BytesMut,
    handshake: Handshake,
    /// The client as the agent knows it, and as the endpoint does.
    client: ClientId,
    own: ClientId,
    attributes: Attributes,
    profiles: BTreeMap<i32, Profile>,
    /// What they count for in the endpoint's sum.
    profile_entries: usize,
    /// What the client has been notified of.
    notified: Generations,
    requests: u64,
}

/// The agents behind an endpoint, by domain.
struct Agents<'a> {
    agent: &'a mut dyn Serve,
    endpoint: &'a mut Endpoint,
}

impl Agents<'_> {
    /// The agent for a domain.
    fn of(&mut self, domain: u32) -> Option<&mut dyn Serve> {
        if domain == u32::from(self.agent.domain()) {
            Some(&mut *self.agent)
        } else if domain == u32::from(endpoint::DOMAIN) {
            Some(&mut self.endpoint.core)
        } else {
            None
        }
    }

    /// Asks one after the other until one knows the name.
    fn named<T>(&mut self, ask: impl Fn(&mut dyn Serve) -> Result<T, PmError>) -> Result<T, PmError> {
        // Only an unknown name is asked for on: a name above metrics of both is the agent's own, and its answer stands.
        match ask(&mut *self.agent) {
            Err(PmError::NAME) => ask(&mut self.endpoint.core),
            answer => answer,
        }
    }
}

impl DirectConnection {
    /// A client has connected from `address`, at a time written as `ctime(3)` does. Nothing encrypted or authenticated is
    /// on offer, unless [`DirectConnection::offering`] says so.
    pub fn new<S>(
        core: &mut Core<S>,
        endpoint: &mut Endpoint,
        attributes: Attributes,
        address: &str,
        start: &str,
    ) -> DirectConnection {
        let client = core.client_open();
        let (admitted, known) = (core.admits(&attributes), attributes.uid.is_some());
        if let Some(known) = core.attributes_mut(client) {
            known.clone_from(&attributes);
        }
        DirectConnection {
            reader: FrameReader::new(MAX_PDU),
            scratch: BytesMut::new(),
            handshake: Handshake::new(Offer::default(), admitted, known),
            client,
            own: endpoint.client_open(address, start),
            attributes,
            profiles: BTreeMap::new(),
            profile_entries: 0,
            notified: core.generations(),
            requests: 0,
        }
    }

    /// What the client can have, or has to.
    pub fn offering<S>(mut self, core: &Core<S>, offer: Offer) -> DirectConnection {
        self.handshake = Handshake::new(offer, core.admits(&self.attributes), self.attributes.uid.is_some());
        self
    }

    /// Speaks first, as a server has to.
    pub fn greet(&mut self, out: &mut dyn Output) {
        send(out, &mut self.scratch, 0, &self.handshake.greeting());
    }

    /// The PDU that turns a client away before it has said anything.
    pub fn refuse(error: PmError, out: &mut dyn Output) {
        send(out, &mut BytesMut::new(), 0, &Pdu::Error(ErrorPdu::refusal(error)));
    }

    /// Whether the client has introduced itself.
    pub fn is_open(&self) -> bool {
        self.handshake.is_open()
    }

    /// Why every request is refused, if it is.
    pub fn denial(&self) -> Option<Denial> {
        self.handshake.denial()
    }

    /// The name and password that are to be judged, once; the answer is for [`DirectConnection::verdict`].
    pub fn claim(&mut self) -> Option<Claim> {
        self.handshake.claim()
    }

    /// Who the client has proved to be, or why it has not.
    pub fn verdict<S>(&mut self, core: &mut Core<S>, verdict: Result<User, Denial>, out: &mut dyn Output) {
        let verdict = verdict.map(|User { name, uid, gid }| {
            self.attributes.uid = Some(uid);
            self.attributes.gid = Some(gid);
            self.attributes.username = Some(name);
            if let Some(known) = core.attributes_mut(self.client) {
                known.clone_from(&self.attributes);
            }
            core.admits(&self.attributes)
        });
        let step = self.handshake.verdict(verdict);
        self.say(step, out);
    }

    /// PDUs that have come so far.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Answers what is in `input`, as far as `out` takes it, and tells what the line has to do.
    ///
    /// # Errors
    /// [`Broken`]: to be closed, without an answer.
    pub fn process<S>(
        &mut self,
        core: &mut Core<S>,
        endpoint: &mut Endpoint,
        input: &mut BytesMut,
        results: &mut ResultWriter,
        out: &mut dyn Output,
    ) -> Result<Next, Broken> {
        let step = self.handshake.go_on();
        self.say(step, out);
        while out.is_clear() && self.handshake.next() == Next::Input {
            let Some(frame) = self.reader.next(input)? else { break };
            self.requests += 1;
            self.handle(Agents { agent: &mut *core, endpoint: &mut *endpoint }, &frame, results, out)?;
        }
        Ok(self.handshake.next())
    }

    /// The line is closed.
    pub fn close<S>(&mut self, core: &mut Core<S>, endpoint: &mut Endpoint) {
        endpoint.profile_entries -= std::mem::take(&mut self.profile_entries);
        core.client_close(self.client);
        endpoint.core.client_close(self.own);
    }

    fn handle(
        &mut self,
        mut agents: Agents<'_>,
        frame: &Frame,
        results: &mut ResultWriter,
        out: &mut dyn Output,
    ) -> Result<(), Broken> {
        let pdu = Pdu::decode(frame).map_err(|error| error.pm_error());
        let answer = match self.handshake.take(frame.kind, pdu)? {
            Step::Container(attr) => self.container(&mut agents, &attr),
            Step::Request(Pdu::Fetch(fetch)) => {
                self.fetch(&mut agents, &fetch, ResultKind::Micro, results, out)
            }
            Step::Request(Pdu::HighResFetch(fetch)) => {
                self.fetch(&mut agents, &fetch, ResultKind::HighRes, results, out)
            }
            Step::Request(pdu) => self.request(&mut agents, pdu),
            step @ (Step::Answer(_) | Step::Silence) => {
                self.say(step, out);
                None
            }
        };
        if let Some(answer) = answer {
            let pdu = answer.unwrap_or_else(|error| Pdu::Error(ErrorPdu::failure(error)));
            send(out, &mut self.scratch, 0, &pdu);
        }
        Ok(())
    }

    fn say(&mut self, step: Step, out: &mut dyn Output) {
        if let Step::Answer(pdu) = step {
            send(out, &mut self.scratch, 0, &pdu);
        }
    }

    fn container(&mut self, agents: &mut Agents<'_>, attr: &Attr) -> Option<Result<Pdu, PmError>> {
        let legal = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
        let name = attr.value();
        if name.is_empty() || !name.iter().all(legal) {
            return Some(Err(EINVAL));
        }
        let name = String::from_utf8_lossy(name).into_owned();
        agents.endpoint.set_container(self.own, &name);
        self.attributes.container = Some(name);
        if let Some(known) = agents.agent.attributes_mut(self.client) {
            known.clone_from(&self.attributes);
        }
        None
    }

    /// Everything but fetches.
    fn request(&mut self, agents: &mut Agents<'_>, pdu: Pdu) -> Option<Result<Pdu, PmError>> {
        Some(match pdu {
            Pdu::Creds(_) => return None,
            Pdu::Profile(profile) => return self.profile(profile, agents.endpoint).err().map(Err),
            Pdu::DescReq(pmid) => desc(agents, pmid).map(Pdu::Desc),
            Pdu::DescIds(pmids) => match pmids[..] {
                [pmid] => desc(agents, pmid).map(|desc| Pdu::Descs(vec![Some(desc)])),
                _ => Ok(Pdu::Descs(pmids.iter().map(|pmid| desc(agents, *pmid).ok()).collect())),
            },
            Pdu::InstanceReq(request) => match agents.of(request.indom.0 >> 22) {
                Some(agent) => answer::instance(agent, &request),
                // Another agent's domain, which metrics of this agent may have.
                None => answer::instance(&mut *agents.agent, &request),
            },
            Pdu::TextReq(request) => text(agents, &request),
            Pdu::LabelReq(target) => self.labels(agents, target),
            Pdu::Result(result) => self.store(agents, &result),
            Pdu::PmnsNames(PmnsNames::Plain(names)) => pmids(agents, &names),
            Pdu::PmnsNames(PmnsNames::Failed(error)) => Err(error),
            Pdu::PmnsIds(ids) => names(agents, &ids),
            Pdu::PmnsChild(request) => match request.name.as_str() {
                Some(name) => children(agents, name).map(|found| answer::children(found, request.status)),
                None => Err(PmError::NAME),
            },
            Pdu::PmnsTraverse(name) => match name.as_str() {
                Some(name) => traverse(agents, name).map(|found| answer::names(&found)),
                None => Err(PmError::NAME),
            },
            _ => Err(PmError::IPC),
        })
    }

    fn profile(&mut self, mut pdu: ProfilePdu, endpoint: &mut Endpoint) -> Result<(), PmError> {
        if pdu.ctxid < 0 {
            return Err(PmError::IPC);
        }
        if pdu.ctxid >= MAX_CONTEXTS {
            return Err(EAGAIN);
        }
        let others = self.profiles.iter().filter(|(ctxid, _)| **ctxid != pdu.ctxid);
        // The profile that this one replaces is gone by then.
        let own = others.map(|(_, profile)| entries(profile)).sum::<usize>() + entries(&pdu.profile);
        let all = endpoint.profile_entries - self.profile_entries + own;
        if own > MAX_PROFILE_ENTRIES || all > ALL_PROFILE_ENTRIES {
            return Err(PmError::TOOBIG);
        }
        (endpoint.profile_entries, self.profile_entries) = (all, own);
        pdu.profile.sort();
        self.profiles.insert(pdu.ctxid, pdu.profile);
        Ok(())
    }

    fn fetch(
        &mut self,
        agents: &mut Agents<'_>,
        fetch: &Fetch,
        result: ResultKind,
        results: &mut ResultWriter,
        out: &mut dyn Output,
    ) -> Option<Result<Pdu, PmError>> {
        let Some(profile) = self.profiles.get(&fetch.ctxid) else { return Some(Err(PmError::NOPROFILE)) };
        // Before the values: a name that comes while they are read is told of with the next fetch, not lost.
        let now = agents.agent.generations();
        let time = (agents.endpoint.clock)();
        agents.agent.begin_fetch(time);
        results.reset();
        for &pmid in &fetch.pmids {
            let domain = pmid.0 >> 22;
            let client = if domain == u32::from(endpoint::DOMAIN) { self.own } else { self.client };
            let set = match agents.of(domain) {
                Some(agent) => agent.fetch(client, profile, pmid, results),
                None => results.set_error(pmid, PmError::NOAGENT),
            };
            if let Err(error) = set {
                return Some(Err(error.pm_error()));
            }
        }
        match results.finish(result, time, 0) {
            Ok(parts) => {
                let changes = now.changes_since(self.notified);
                // Only with a result that is sent: a fetch that fails would swallow the notice.
                self.notified = now;
                if changes != 0 {
                    let notice = ErrorPdu::state_change(StateChange(changes as u32));
                    send(out, &mut self.scratch, 0, &Pdu::Error(notice));
                }
                out.send(parts);
                None
            }
            Err(error) => Some(Err(error.pm_error())),
        }
    }

    fn labels(&self, agents: &mut Agents<'_>, target: LabelTarget) -> Result<Pdu, PmError> {
        let sets = match target {
            LabelTarget::Context => vec![agents.endpoint.context_labels(&self.attributes)],
            LabelTarget::Domain(domain) => {
                agents.of(domain).ok_or(PmError::NOAGENT)?.labels(LabelSubject::Domain)?
            }
            LabelTarget::InDom(indom) => owner(agents, indom)?.labels(LabelSubject::InDom(indom))?,
            LabelTarget::Instances(indom) => owner(agents, indom)?.instance_labels(indom)?,
            LabelTarget::Cluster(pmid) => {
                let agent = agents.of(pmid.0 >> 22).ok_or(PmError::PMID)?;
                agent.labels(LabelSubject::Cluster(pmid.cluster()))?
            }
            LabelTarget::Item(pmid) => {
                agents.of(pmid.0 >> 22).ok_or(PmError::PMID)?.labels(LabelSubject::Item(pmid))?
            }
        };
        Ok(Pdu::Label(LabelPdu { target, sets }))
    }

    /// All parts are attempted. A metric without agent is the answer before any agent's error.
    fn store(&self, agents: &mut Agents<'_>, result: &ResultPdu) -> Result<Pdu, PmError> {
        let mut answer = Ok(Pdu::Error(ErrorPdu::success()));
        for set in &result.sets {
            let one = self.store_one(agents, set);
            if answer != Err(PmError::NOAGENT) && one.is_err() {
                answer = one;
            }
        }
        answer
    }

    fn store_one(&self, agents: &mut Agents<'_>, set: &RawValueSet) -> Result<Pdu, PmError> {
        let domain = set.pmid.0 >> 22;
        let client = if domain == u32::from(endpoint::DOMAIN) { self.own } else { self.client };
        answer::store(agents.of(domain).ok_or(PmError::NOAGENT)?, client, [set])
    }
}

fn entries(profile: &Profile) -> usize {
    profile.indoms.iter().map(|indom| indom.instances.len() + 1).sum()
}

fn desc(agents: &mut Agents<'_>, pmid: Pmid) -> Result<pcp_model::Desc, PmError> {
    agents.of(pmid.0 >> 22).ok_or(PmError::PMID)?.desc(pmid)
}

fn owner<'a>(agents: &'a mut Agents<'_>, indom: InDom) -> Result<&'a mut dyn Serve, PmError> {
    agents.of(indom.0 >> 22).ok_or(PmError::INDOM)
}

fn text(agents: &mut Agents<'_>, request: &TextReq) -> Result<Pdu, PmError> {
    let ident = match request.target {
        TextTarget::Metric(pmid) => pmid.0,
        TextTarget::InDom(indom) => indom.0,
    };
    answer::text(agents.of(ident >> 22).ok_or(PmError::PMID)?, request)
}

fn pmids(agents: &mut Agents<'_>, names: &[ByteStr]) -> Result<Pdu, PmError> {
    let mut find = |name: &ByteStr| {
        let name = name.as_str().ok_or(PmError::NAME)?;
        agents.named(|agent| agent.pmid(name))
    };
    answer::pmids(names, &mut find)
}

fn names(agents: &mut Agents<'_>, ids: &PmnsIds) -> Result<Pdu, PmError> {
    let [pmid] = ids.ids[..] else { return Err(PmError::IPC) };
    agents.of(pmid.0 >> 22).ok_or(PmError::NOAGENT)?.names(pmid).map(|names| answer::names(&names))
}

fn children(agents: &mut Agents<'_>, name: &str) -> Result<Vec<(String, bool)>, PmError> {
    if !name.is_empty() {
        return agents.named(|agent| agent.children(name));
    }
    let mut all = agents.agent.children(name)?;
    for child in agents.endpoint.core.children(name)? {
        if !all.iter().any(|(known, _)| *known == child.0) {
            all.push(child);
        }
    }
    Ok(all)
}

fn traverse(agents: &mut Agents<'_>, name: &str) -> Result<Vec<String>, PmError> {
    if !name.is_empty() {
        return agents.named(|agent| agent.traverse(name));
    }
    let mut all = agents.agent.traverse(name)?;
    all.extend(agents.endpoint.core.traverse(name)?);
    Ok(all)
}
