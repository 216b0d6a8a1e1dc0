//! Requests to agents that the context has started, by their domains.
//!
//! A fetch asks all of its agents at the same time. Cost of one: that of each agent's [`WireProvider`], and, with several agents, one copy
//! of what they answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tracing::trace;

use super::connector::{AgentConnector, READY, SLOT, WANTS_ATTRIBUTES, attributes};
use super::process::Process;
use super::table::{Agent, LocalAgents};
use super::{LocalFault, TellFault};
use crate::counts::PduCounts;
use crate::error::{ClientError, Result};
use crate::host::this_host;
use crate::labels::of_this_host;
use crate::namespace::NameSpace;
use crate::provider::{Child, ContextKind, FetchRequest, Provider, finish};
use crate::waiting::Waiting;
use crate::wire::WireProvider;
use pcp_model::text::{cut, listed};
use pcp_model::{Desc, InDom, Inst, Instance, LabelSet, PmError, Pmid, Profile, Timestamp, ValueSet};
use pcp_pdu::{Fetched, LabelTarget, StateChange, TextLevel, TextTarget};

/// How long an agent may take for its first words and for each answer, as with pmcd (`pmcd(1)`, `-t`).
const LIMIT: Duration = Duration::from_secs(5);

/// PDUs that one which is not ready may have sent in the meantime.
const MAX_NOTICES: usize = 64;

/// Words of a command line, and bytes of each, that are shown.
const SHOWN: (usize, usize) = (16, 120);

/// Bytes of names that are put in order.
const MAX_ORDERED: usize = 2 << 20;

/// Agents that are started as their domains are asked for.
pub(super) struct AgentsProvider {
    agents: LocalAgents,
    names: Option<Arc<NameSpace>>,
    tell: TellFault,
    /// By domain: those that were asked for; `None` for those that have failed.
    started: HashMap<u16, Option<Started>>,
    /// PDUs of agents that have ended.
    counts: PduCounts,
    fetch: Fetch,
}

/// A started agent. Its end of the connection is closed before it is waited for.
struct Started {
    wire: WireProvider,
    process: Process,
    /// It has begun as not ready, or has said that it is, and not yet that it is ready.
    busy: bool,
    /// It knows who asks, if it wants to.
    introduced: bool,
}

/// A fetch, kept for the next of the same metrics.
#[derive(Default)]
struct Fetch {
    pmids: Vec<Pmid>,
    profile: Profile,
    profile_version: u64,
    parts: Vec<Part>,
    /// In which part a metric is, and where there.
    places: Vec<(usize, usize)>,
    pending: bool,
}

/// What is asked of one agent.
struct Part {
    domain: u16,
    pmids: Vec<Pmid>,
    stage: Stage,
    fetched: Fetched,
}

enum Stage {
    /// The agent is being connected to, perhaps.
    Begin,
    /// It was asked.
    Asked,
    Done(std::result::Result<(), PmError>),
}

impl AgentsProvider {
    pub(super) fn new(agents: LocalAgents, names: Option<Arc<NameSpace>>, tell: TellFault) -> AgentsProvider {
        let (started, counts, fetch) = (HashMap::new(), PduCounts::default(), Fetch::default());
        AgentsProvider { agents, names, tell, started, counts, fetch }
    }

    fn names(&self) -> Result<Arc<NameSpace>> {
        self.names.clone().ok_or(PmError::NOPMNS.into())
    }

    /// The agent of a domain, started, and perhaps not connected to yet.
    fn agent(&mut self, domain: u16) -> Result<&mut Started> {
        if !self.started.contains_key(&domain) {
            let agent = self.agents.find(domain).ok_or(PmError::NOAGENT)?;
            let started = match start(&self.agents, agent) {
                Ok(started) => Some(started),
                Err(fault) => {
                    (self.tell)(&fault);
                    None
                }
            };
            self.started.insert(domain, started);
        }
        match self.started.get_mut(&domain) {
            Some(Some(started)) => Ok(started),
            _ => Err(PmError::NOAGENT.into()),
        }
    }

    /// Asks the agent of a domain.
    fn ask<T>(&mut self, domain: u16, request: impl FnOnce(&mut WireProvider) -> Result<T>) -> Result<T> {
        let agent = self.agent(domain)?;
        if !agent.wire.is_connected() {
            let connected = finish(&mut agent.wire, &mut Fetched::new());
            self.connected(domain, connected)?;
        }
        let agent = self.agent(domain)?;
        let answer = agent.ready().and_then(|()| request(&mut agent.wire));
        self.answered(domain, answer)
    }

    /// The names at or below one of an agent's own; that one itself where there are none, as with pmcd.
    fn below(&mut self, root: Pmid, name: &str) -> Result<Vec<String>> {
        let names = self.ask(root.cluster(), |wire| wire.traverse(name))?;
        Ok(if names.is_empty() { vec![name.to_owned()] } else { as_tree(&names) })
    }

    /// Goes on with an agent that has said its first words, or not.
    fn connected(&mut self, domain: u16, connected: Result<()>) -> Result<()> {
        let begun = match connected {
            Ok(()) => self.agent(domain)?.begin(),
            Err(error) => Err(error),
        };
        if let Err(error) = begun {
            self.end(domain, &error);
            return Err(PmError::NOAGENT.into());
        }
        Ok(())
    }

    /// Takes what an agent answers: its own errors stay, one that breaks the protocol is ended.
    fn answered<T>(&mut self, domain: u16, answer: Result<T>) -> Result<T> {
        let Err(error) = answer else { return answer };
        let Some(Some(agent)) = self.started.get_mut(&domain) else { return Err(error) };
        if agent.wire.is_connected() {
            if matches!(error, ClientError::Pcp(PmError::PMDANOTREADY)) {
                agent.busy = true;
                trace!(target: "pcp::context", "agent of domain {domain}: not ready");
                return Err(PmError::AGAIN.into());
            }
            return Err(error);
        }
        let code = match error {
            ClientError::Timeout(_) => PmError::TIMEOUT,
            _ => PmError::IPC,
        };
        self.end(domain, &error);
        Err(code.into())
    }

    /// Ends an agent that is of no more use.
    fn end(&mut self, domain: u16, error: &ClientError) {
        let ended = self.started.insert(domain, None);
        let Some(Started { wire, process, .. }) = ended.flatten() else { return };
        trace!(target: "pcp::context", "agent of domain {domain}: ended: {error}");
        self.counts = self.counts.plus(&wire.pdu_counts());
        drop(wire);
        process.kill();
        let name = self.agents.find(domain).map_or("", |agent| &agent.name);
        (self.tell)(&LocalFault::ended(name, domain, error));
    }

    /// Goes on with a part of a fetch. True when it is done.
    fn advance_part(&mut self, at: usize) -> bool {
        let Some(part) = self.fetch.parts.get_mut(at) else { return true };
        let domain = part.domain;
        // Taken out, as what it is asked of belongs to the same provider.
        let mut fetched = std::mem::take(&mut part.fetched);
        let outcome = match part.stage {
            Stage::Done(_) => Ok(true),
            Stage::Begin => self.begin_part(domain, at),
            Stage::Asked => match self.agent(domain) {
                Ok(agent) => {
                    let answer = agent.wire.advance(&mut fetched);
                    self.answered(domain, answer)
                }
                Err(error) => Err(error),
            },
        };
        let Some(part) = self.fetch.parts.get_mut(at) else { return true };
        part.fetched = fetched;
        match (outcome, &part.stage) {
            (_, Stage::Done(_)) => true,
            (Ok(true), Stage::Begin) => {
                part.stage = Stage::Asked;
                false
            }
            (Ok(true), Stage::Asked) => {
                part.stage = Stage::Done(Ok(()));
                true
            }
            (Ok(false), _) => false,
            (Err(error), _) => {
                part.stage = Stage::Done(Err(error.code()));
                true
            }
        }
    }

    /// Asks an agent for its part, as soon as it is connected to.
    fn begin_part(&mut self, domain: u16, at: usize) -> Result<bool> {
        let agent = self.agent(domain)?;
        if !agent.wire.is_connected() {
            match agent.wire.advance(&mut Fetched::new()) {
                Ok(false) => return Ok(false),
                Ok(true) => self.connected(domain, Ok(()))?,
                Err(error) => self.connected(domain, Err(error))?,
            }
        }
        let Some(Some(agent)) = self.started.get_mut(&domain) else { return Err(PmError::NOAGENT.into()) };
        let Some(part) = self.fetch.parts.get(at) else { return Err(PmError::NOAGENT.into()) };
        let (profile, profile_version) = (&self.fetch.profile, self.fetch.profile_version);
        let request = FetchRequest { pmids: &part.pmids, profile, profile_version };
        let asked = agent.ready().and_then(|()| agent.wire.start_fetch(request));
        self.answered(domain, asked).map(|()| true)
    }
}

/// Starts an agent.
fn start(agents: &LocalAgents, agent: &Agent) -> std::result::Result<Started, LocalFault> {
    let program = agents.program(agent)?;
    let fault = |error| LocalFault::Start {
        name: agent.name.clone(),
        domain: agent.domain,
        program: program.words.first().cloned().unwrap_or_default(),
        error,
    };
    let (process, stream, dir) = Process::start(&program).map_err(fault)?;
    trace!(
        target: "pcp::context",
        "agent {} (domain {}): process {}: {}",
        cut(&agent.name, SHOWN.1),
        agent.domain,
        process.id(),
        listed(program.words.iter().map(|word| cut(word, SHOWN.1)), SHOWN.0),
    );
    let connector = AgentConnector::new(stream, dir, program.notready, LIMIT);
    let mut wire = WireProvider::new(Box::new(connector));
    wire.start_reconnect().map_err(|error| LocalFault::ended(&agent.name, agent.domain, &error))?;
    Ok(Started { wire, process, busy: false, introduced: false })
}

/// Names node by node, as PCP walks through them, each node where it is first met: agents list theirs in any order. Lists that
/// would take a lot of memory stay as they are.
fn as_tree(names: &[String]) -> Vec<String> {
    if names.iter().map(String::len).sum::<usize>() > MAX_ORDERED {
        return names.to_vec();
    }
    /// A node: its name if it is a metric, and what is below it.
    #[derive(Default)]
    struct Node<'n> {
        metric: Option<&'n String>,
        below: Vec<usize>,
    }
    let mut nodes = vec![Node::default()];
    let mut known: HashMap<(usize, &str), usize> = HashMap::new();
    for name in names {
        let mut at = 0;
        for part in name.split('.') {
            let new = nodes.len();
            let next = *known.entry((at, part)).or_insert(new);
            if next == new {
                nodes.push(Node::default());
                nodes[at].below.push(new);
            }
            at = next;
        }
        nodes[at].metric = Some(name);
    }
    let (mut open, mut ordered) = (vec![0], Vec::with_capacity(names.len()));
    while let Some(node) = open.pop().map(|at| &nodes[at]) {
        ordered.extend(node.metric.cloned());
        open.extend(node.below.iter().rev());
    }
    ordered
}

impl Started {
    /// It has said its first words.
    fn begin(&mut self) -> Result<()> {
        self.busy = !self.wire.has(READY)?;
        trace!(
            target: "pcp::context",
            "agent of process {}: {}",
            self.process.id(),
            if self.busy { "not ready yet" } else { "ready" }
        );
        if self.busy { Ok(()) } else { self.introduce() }
    }

    /// Whether it takes requests.
    fn ready(&mut self) -> Result<()> {
        if !self.busy {
            return Ok(());
        }
        for _ in 0..MAX_NOTICES {
            match self.wire.notice()? {
                Some(PmError::PMDAREADY) => {
                    self.busy = false;
                    trace!(target: "pcp::context", "agent of process {}: ready", self.process.id());
                    return self.introduce();
                }
                // It says what is known.
                Some(PmError::PMDANOTREADY) => {}
                Some(_) => break,
                None => return Err(PmError::AGAIN.into()),
            }
        }
        self.wire.unexpected()
    }

    /// Tells it who asks, if it wants to know. pmcd tells that to those which are ready only.
    fn introduce(&mut self) -> Result<()> {
        if !self.introduced && self.wire.has(WANTS_ATTRIBUTES)? {
            self.wire.tell(&attributes(), SLOT)?;
        }
        self.introduced = true;
        Ok(())
    }
}

impl Fetch {
    /// Sets the parts up for a request. Those of the one before are used again if it is the same.
    fn prepare(&mut self, request: FetchRequest<'_>) {
        if self.pmids != request.pmids {
            self.pmids.clear();
            self.pmids.extend_from_slice(request.pmids);
            self.parts.clear();
            self.places.clear();
            for &pmid in request.pmids {
                let domain = pmid.domain();
                let at = self.parts.iter().position(|part| part.domain == domain).unwrap_or_else(|| {
                    let fetched = Fetched::new();
                    self.parts.push(Part { domain, pmids: Vec::new(), stage: Stage::Begin, fetched });
                    self.parts.len() - 1
                });
                if let Some(part) = self.parts.get_mut(at) {
                    self.places.push((at, part.pmids.len()));
                    part.pmids.push(pmid);
                }
            }
        }
        self.parts.iter_mut().for_each(|part| part.stage = Stage::Begin);
        if self.profile_version != request.profile_version {
            self.profile.clone_from(request.profile);
            self.profile_version = request.profile_version;
        }
        self.pending = true;
    }

    /// Puts the parts together in the order asked for.
    fn merge(&mut self, out: &mut Fetched) {
        let mut changes = StateChange::default();
        for part in &self.parts {
            if let Stage::Done(Ok(())) = part.stage {
                // Agents tell in the seconds what has changed; the time is the collector's to say.
                let told = StateChange(part.fetched.timestamp.sec as u32);
                changes |= told & (StateChange::LABELS | StateChange::NAMES);
            }
        }
        match &mut self.parts[..] {
            [Part { stage: Stage::Done(Ok(())), fetched, .. }] => std::mem::swap(out, fetched),
            parts => {
                out.clear();
                for (&pmid, &(at, place)) in self.pmids.iter().zip(&self.places) {
                    let set = parts.get(at).ok_or(PmError::NOAGENT).and_then(|part| match part.stage {
                        Stage::Done(Err(error)) => Err(error),
                        _ => part.fetched.set(place).ok_or(PmError::IPC)?.values,
                    });
                    match set {
                        Err(error) => out.push_error(pmid, error),
                        Ok(values) => {
                            out.begin_set(pmid);
                            match out.push_all(values) {
                                Ok(()) => out.end_set(),
                                Err(error) => out.fail_set(error),
                            }
                        }
                    }
                }
            }
        }
        out.timestamp = Timestamp::from(SystemTime::now());
        out.changes = changes;
    }
}

impl Provider for AgentsProvider {
    fn kind(&self) -> ContextKind {
        ContextKind::Local
    }

    fn lookup_names(&mut self, names: &[&str]) -> Result<Vec<Option<Pmid>>> {
        let own = self.names()?;
        let mut look_up = |name: &str| match own.pmid(name)? {
            root if root.domain() == Pmid::DYNAMIC_DOMAIN => {
                let pmids = self.ask(root.cluster(), |wire| wire.lookup_names(&[name]))?;
                pmids.into_iter().next().flatten().ok_or(ClientError::Pcp(PmError::NAME))
            }
            pmid => Ok(pmid),
        };
        match names {
            [] => Err(PmError::TOOSMALL.into()),
            [name] => Ok(vec![Some(look_up(name)?)]),
            names => Ok(names.iter().map(|name| look_up(name).ok()).collect()),
        }
    }

    fn names_of(&mut self, pmid: Pmid) -> Result<Vec<String>> {
        let own = self.names()?;
        let names: Vec<String> = own.names_of(pmid).map(str::to_owned).collect();
        match names.is_empty() {
            false => Ok(names),
            true => self.ask(pmid.domain(), |wire| wire.names_of(pmid)),
        }
    }

    fn children(&mut self, name: &str) -> Result<Vec<Child>> {
        let own = self.names()?;
        match own.pmid(name) {
            Ok(root) if root.domain() == Pmid::DYNAMIC_DOMAIN => {
                self.ask(root.cluster(), |wire| wire.children(name))
            }
            _ => Ok(own.children(name)?),
        }
    }

    fn traverse(&mut self, name: &str) -> Result<Vec<String>> {
        let own = self.names()?;
        let root = own.pmid(name).ok().filter(|root| root.domain() == Pmid::DYNAMIC_DOMAIN);
        if let Some(root) = root {
            return self.below(root, name);
        }
        let mut names = Vec::new();
        for name in own.traverse(name)? {
            match own.pmid(&name) {
                Ok(root) if root.domain() == Pmid::DYNAMIC_DOMAIN => match self.below(root, &name) {
                    Ok(below) => names.extend(below),
                    // The others can be had all the same, and this one tells why not when it is asked for.
                    Err(_) => names.push(name),
                },
                _ => names.push(name),
            }
        }
        Ok(names)
    }

    fn descs(&mut self, pmids: &[Pmid]) -> Result<Vec<std::result::Result<Desc, PmError>>> {
        // An error in the place of a descriptor is an answer as well: the agent may not be ready.
        let one = |wire: &mut WireProvider, pmid| {
            let desc = wire.descs(&[pmid])?.pop();
            desc.unwrap_or(Err(PmError::IPC)).map_err(ClientError::Pcp)
        };
        let desc =
            |&pmid: &Pmid| self.ask(pmid.domain(), |wire| one(wire, pmid)).map_err(|error| error.code());
        Ok(pmids.iter().map(desc).collect())
    }

    fn instances(&mut self, indom: InDom) -> Result<Vec<Instance>> {
        self.ask(indom.domain(), |wire| wire.instances(indom))
    }

    fn instance(&mut self, indom: InDom, name: &str) -> Result<Inst> {
        self.ask(indom.domain(), |wire| wire.instance(indom, name))
    }

    fn instance_name(&mut self, indom: InDom, inst: Inst) -> Result<String> {
        self.ask(indom.domain(), |wire| wire.instance_name(indom, inst))
    }

    fn text(&mut self, target: TextTarget, level: TextLevel) -> Result<String> {
        let domain = match target {
            TextTarget::Metric(pmid) => pmid.domain(),
            TextTarget::InDom(indom) => indom.domain(),
        };
        self.ask(domain, |wire| wire.text(target, level))
    }

    fn labels(&mut self, target: LabelTarget) -> Result<Vec<LabelSet>> {
        let domain = match target {
            LabelTarget::Context => return Ok(of_this_host()),
            LabelTarget::Domain(domain) => u16::try_from(domain).map_err(|_| PmError::NOAGENT)?,
            LabelTarget::InDom(indom) | LabelTarget::Instances(indom) => indom.domain(),
            LabelTarget::Cluster(pmid) | LabelTarget::Item(pmid) => pmid.domain(),
        };
        self.ask(domain, |wire| wire.labels(target))
    }

    fn store(&mut self, sets: &[ValueSet]) -> Result<()> {
        let mut rest: Vec<&ValueSet> = sets.iter().collect();
        while let Some(domain) = rest.first().map(|set| set.pmid.domain()) {
            let (own, others) = rest.into_iter().partition(|set| set.pmid.domain() == domain);
            rest = others;
            let own: Vec<ValueSet> = Vec::<&ValueSet>::into_iter(own).cloned().collect();
            self.ask(domain, |wire| wire.store(&own))?;
        }
        Ok(())
    }

    fn host_name(&mut self) -> Result<String> {
        Ok(this_host())
    }

    fn time_zone(&mut self) -> Result<String> {
        // The zone of this program is that of its agents.
        std::env::var("TZ").map_err(|_| PmError::VALUE.into())
    }

    fn start_fetch(&mut self, request: FetchRequest<'_>) -> Result<()> {
        if request.pmids.is_empty() {
            return Err(PmError::TOOSMALL.into());
        }
        self.fetch.prepare(request);
        // All of them are asked before the first is waited for.
        for at in 0..self.fetch.parts.len() {
            self.advance_part(at);
        }
        Ok(())
    }

    fn pdu_counts(&self) -> PduCounts {
        let started = self.started.values().flatten();
        started.fold(self.counts, |counts, agent| counts.plus(&agent.wire.pdu_counts()))
    }

    fn advance(&mut self, out: &mut Fetched) -> Result<bool> {
        if !self.fetch.pending {
            return Ok(true);
        }
        let mut done = true;
        for at in 0..self.fetch.parts.len() {
            done &= self.advance_part(at);
        }
        if done {
            self.fetch.pending = false;
            self.fetch.merge(out);
        }
        Ok(done)
    }

    fn waiting(&self) -> Option<Waiting<'_>> {
        let open = |part: &&Part| !matches!(part.stage, Stage::Done(_));
        let part = self.fetch.parts.iter().find(open).filter(|_| self.fetch.pending)?;
        self.started.get(&part.domain)?.as_ref()?.wire.waiting()
    }
}

impl Drop for AgentsProvider {
    fn drop(&mut self) {
        // All of them are told before the first is waited for.
        let told = |Started { wire, process, .. }: Started| {
            drop(wire);
            process
        };
        let mut processes: Vec<Process> =
            self.started.drain().filter_map(|(_, agent)| agent.map(told)).collect();
        Process::end_all(&mut processes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_put_in_the_order_of_their_nodes() {
        let names = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let told = names("s.foo.bar.max s.bar s.foo.one s.foo.bar.three s.foo.bar.g.five s.foo.bar s.bar");
        let ordered = names("s.foo.bar s.foo.bar.max s.foo.bar.three s.foo.bar.g.five s.foo.one s.bar");
        assert_eq!(as_tree(&told), ordered);
        assert_eq!(as_tree(&[]), Vec::<String>::new());
    }
}
