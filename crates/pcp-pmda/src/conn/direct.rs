//! The server's side of a line to one PMAPI client, acting as pmcd does (spec `wire.md` 4, 5, 19; where
//! releases differ, as 6.3.8).

use std::collections::BTreeMap;

use bytes::BytesMut;

use super::answer;
use super::output::{Broken, Output, send};
use crate::call::{Attributes, ClientId};
use crate::core::{Core, Generations, Serve};
use crate::endpoint::{self, Endpoint};
use crate::labels::LabelSubject;
use pcp_model::{InDom, PmError, Pmid, Profile};
use pcp_pdu::{
    self, Attr, AttrCode, ByteStr, Cred, CredFlags, Creds, ErrorPdu, Features, Fetch, Frame, FrameReader,
    LabelPdu, LabelTarget, Pdu, PmnsIds, PmnsNames, ProfilePdu, RawValueSet, ResultKind, ResultPdu,
    ResultWriter, StateChange, TextReq, TextTarget, kind,
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
const EOPNOTSUPP: PmError = PmError::from_errno(nix::errno::Errno::EOPNOTSUPP as i32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Before CREDS.
    Start,
    /// The CREDS were not acceptable: the next PDU ends the connection.
    Refused,
    /// The client has announced a container.
    Container,
    Open,
}

/// A line to a direct client.
#[derive(Debug)]
pub struct DirectConnection {
    reader: FrameReader,
    scratch: BytesMut,
    stage: Stage,
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
    /// A client has connected from `address`, at a time written as `ctime(3)` does.
    pub fn new<S>(
        core: &mut Core<S>,
        endpoint: &mut Endpoint,
        attributes: Attributes,
        address: &str,
        start: &str,
    ) -> DirectConnection {
        let client = core.client_open();
        if let Some(known) = core.attributes_mut(client) {
            known.clone_from(&attributes);
        }
        DirectConnection {
            reader: FrameReader::new(MAX_PDU),
            scratch: BytesMut::new(),
            stage: Stage::Start,
            client,
            own: endpoint.client_open(address, start),
            attributes,
            profiles: BTreeMap::new(),
            profile_entries: 0,
            notified: core.generations(),
            requests: 0,
        }
    }

    /// Speaks first, as a server has to: nothing encrypted or authenticated is on offer.
    pub fn greet(&mut self, out: &mut dyn Output) {
        let features = [Features::CONTAINER, Features::LABELS, Features::HIGHRES, Features::DESCS];
        let features = features.into_iter().fold(Features::default(), Features::union);
        send(out, &mut self.scratch, 0, &Pdu::Error(ErrorPdu::greeting(features)));
    }

    /// The PDU that turns a client away before it has said anything.
    pub fn refuse(error: PmError, out: &mut dyn Output) {
        send(out, &mut BytesMut::new(), 0, &Pdu::Error(ErrorPdu::refusal(error)));
    }

    /// Whether the client has introduced itself.
    pub fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// PDUs that have come so far.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Answers what is in `input`, as far as `out` takes it.
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
    ) -> Result<(), Broken> {
        while out.is_clear() {
            let Some(frame) = self.reader.next(input)? else { break };
            self.requests += 1;
            self.handle(Agents { agent: &mut *core, endpoint: &mut *endpoint }, &frame, results, out)?;
        }
        Ok(())
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
        let answer = match self.stage {
            Stage::Start if frame.kind != kind::CREDS => return Err(Broken::Handshake),
            Stage::Refused => return Err(Broken::Handshake),
            Stage::Start => match pdu {
                Ok(Pdu::Creds(creds)) => self.creds(&creds),
                Ok(_) => return Err(Broken::Handshake),
                Err(error) => {
                    self.stage = Stage::Refused;
                    Some(Err(error))
                }
            },
            Stage::Container => {
                self.stage = Stage::Open;
                match pdu {
                    Ok(Pdu::Attr(attr)) if attr.code == AttrCode::CONTAINER => {
                        self.container(&mut agents, &attr)
                    }
                    _ => Some(Err(PmError::IPC)),
                }
            }
            Stage::Open => match pdu {
                Ok(Pdu::Fetch(fetch)) => self.fetch(&mut agents, &fetch, ResultKind::Micro, results, out),
                Ok(Pdu::HighResFetch(fetch)) => {
                    self.fetch(&mut agents, &fetch, ResultKind::HighRes, results, out)
                }
                Ok(pdu) => self.request(&mut agents, pdu),
                Err(error) => Some(Err(error)),
            },
        };
        if let Some(answer) = answer {
            let pdu = answer.unwrap_or_else(|error| Pdu::Error(ErrorPdu::failure(error)));
            send(out, &mut self.scratch, 0, &pdu);
        }
        Ok(())
    }

    /// The first PDU. What pmcd accepts silently but does not like ends the connection at the next one.
    fn creds(&mut self, creds: &Creds) -> Option<Result<Pdu, PmError>> {
        let Some(Cred::Version { version: 1.., flags }) = creds.creds.last() else {
            self.stage = Stage::Refused;
            return None;
        };
        self.stage = if flags.contains(CredFlags::CONTAINER) { Stage::Container } else { Stage::Open };
        let tls_or_sasl = [CredFlags::SECURE, CredFlags::COMPRESS, CredFlags::AUTH, CredFlags::SECURE_ACK];
        if flags.0 & !(CredFlags::CLIENT.0 & !CredFlags::CERT_REQD.0) != 0 {
            Some(Err(PmError::IPC))
        } else if tls_or_sasl.iter().any(|flag| flags.contains(*flag)) {
            Some(Err(EOPNOTSUPP))
        } else {
            None
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
