//! The agent's side of the line to pmcd (`docs/pcp/agent.md` 4 to 12).

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use bytes::BytesMut;

use super::answer;
use super::output::{Broken, Output, failure, send};
use crate::call::ClientId;
use crate::core::{Core, Generations, Serve};
use crate::labels::LabelSubject;
use crate::pmcd::{PmcdEvent, Process};
use pcp_model::{PmError, Pmid, Profile, Timestamp};
use pcp_pdu::{
    self, Attr, AttrCode, CredFlags, Creds, ErrorPdu, Frame, FrameReader, LabelPdu, LabelTarget, Pdu,
    PmnsNames, ResultKind, ResultWriter, kind,
};

/// Longest PDU taken from pmcd, which passes on at most the 64 KiB a client may send.
const MAX_PDU: usize = 1 << 20;
/// Client slots pmcd may use; it has one per connected client.
const MAX_CLIENTS: usize = 1 << 16;

/// What the agent wants from pmcd.
#[derive(Clone, Copy, Debug)]
pub struct PmcdOptions {
    /// Tell user, group and process id of each client. Without it none of these is believed. With `notready` in pmcd.conf this can upset clients
    /// that connect before the agent is ready (`docs/pcp/agent.md` 9).
    pub identity: bool,
    /// Tell the container each client asks for; the same warning.
    pub container: bool,
    /// pmcd.conf says `notready` for this agent: pmcd waits for [`PmcdConnection::set_ready`].
    pub notready: bool,
    /// The time of a fetch; the system's by default.
    pub clock: fn() -> Timestamp,
}

impl Default for PmcdOptions {
    fn default() -> PmcdOptions {
        let clock = || Timestamp::from(std::time::SystemTime::now());
        PmcdOptions { identity: false, container: false, notready: false, clock }
    }
}

/// The line to pmcd.
#[derive(Debug)]
pub struct PmcdConnection {
    reader: FrameReader,
    scratch: BytesMut,
    /// pmcd's client slots.
    clients: HashMap<i32, Client>,
    /// The profile of the fetches to come. pmcd sends the right one before a fetch, and after its agent has
    /// restarted may not: then everything is included.
    profile: Profile,
    /// What pmcd has been notified of.
    notified: Option<Generations>,
    /// pmcd has answered our CREDS.
    greeted: bool,
    ready: bool,
    requests: u64,
    /// pmcd takes us for ready.
    trusted: bool,
    /// What the answer that is leaving has left to do.
    rest: Rest,
    options: PmcdOptions,
}

#[derive(Clone, Copy, Debug)]
struct Client {
    id: ClientId,
    /// It has asked for something itself.
    introduced: bool,
}

/// What an answer has left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Nothing,
    /// When all else has left: this, its end.
    End(u8),
    /// When all of it has left: to be told so.
    Notice,
}

impl PmcdConnection {
    /// A line that has just been opened. With `notready` the agent is not ready until it says so.
    pub fn new(options: PmcdOptions) -> PmcdConnection {
        PmcdConnection {
            reader: FrameReader::new(MAX_PDU),
            scratch: BytesMut::new(),
            clients: HashMap::new(),
            profile: Profile::default(),
            notified: None,
            greeted: false,
            ready: !options.notready,
            requests: 0,
            trusted: !options.notready,
            rest: Rest::Nothing,
            options,
        }
    }

    /// Speaks first, as an agent has to, to this pmcd, if it is known.
    pub fn greet<S>(&mut self, core: &mut Core<S>, pmcd: Option<Process>, out: &mut dyn Output) {
        core.pmcd_event(PmcdEvent::Begun(pmcd));
        let mut flags = CredFlags::default();
        if self.options.identity {
            flags = flags.union(CredFlags::AUTH);
        }
        if self.options.container {
            flags = flags.union(CredFlags::CONTAINER);
        }
        let pid = i32::try_from(std::process::id()).unwrap_or(0);
        send(out, &mut self.scratch, pid, &Pdu::Creds(Creds::version(flags)));
    }

    /// Says whether requests can be answered. While they cannot, each gets the answer "not ready", upon which
    /// pmcd sends no more of them (nor the ends of clients) until it is told that the agent is ready again.
    pub fn set_ready<S>(&mut self, core: &mut Core<S>, ready: bool, out: &mut dyn Output) {
        self.ready = ready;
        self.announce(core, out);
    }

    fn announce(&mut self, core: &mut dyn Serve, out: &mut dyn Output) {
        if self.ready && !self.trusted && self.greeted {
            self.trusted = true;
            // The end of these clients may have gone unnoticed.
            self.clients.keys().for_each(|slot| core.pmcd_event(PmcdEvent::Ended(*slot)));
            self.end_all(core);
            send(out, &mut self.scratch, 0, &Pdu::Error(ErrorPdu::failure(PmError::PMDAREADY)));
        }
    }

    /// PDUs that have come so far.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Answers what is in `input`, as far as `output` takes it.
    ///
    /// # Errors
    /// [`Broken`]: the line is of no use any more.
    pub fn process<S>(
        &mut self,
        core: &mut Core<S>,
        input: &mut BytesMut,
        results: &mut ResultWriter,
        out: &mut dyn Output,
    ) -> Result<(), Broken> {
        loop {
            self.finish(core, out);
            if !out.is_clear() || self.is_unfinished() {
                break;
            }
            let Some(frame) = self.reader.next(input)? else { break };
            self.requests += 1;
            self.handle(core, &frame, results, out);
        }
        Ok(())
    }

    /// Whether there is more to say when everything has left.
    pub fn is_unfinished(&self) -> bool {
        self.rest != Rest::Nothing
    }

    /// Goes on with an answer that matters, as far as it has left.
    fn finish(&mut self, core: &mut dyn Serve, out: &mut dyn Output) {
        if let Rest::End(end) = self.rest
            && out.has_left()
        {
            core.pmcd_event(PmcdEvent::Leaving);
            out.send([&[end], &[]]);
            self.rest = Rest::Notice;
        }
        if self.rest == Rest::Notice && out.has_left() {
            core.pmcd_event(PmcdEvent::Left);
            self.rest = Rest::Nothing;
        }
    }

    /// The line is closed: all its clients have ended.
    pub fn close<S>(&mut self, core: &mut Core<S>) {
        core.pmcd_event(PmcdEvent::Lost);
        self.rest = Rest::Nothing;
        self.end_all(core);
    }

    fn end_all(&mut self, core: &mut dyn Serve) {
        for (_, client) in self.clients.drain() {
            core.client_close(client.id);
        }
    }

    fn handle(
        &mut self,
        core: &mut dyn Serve,
        frame: &Frame,
        results: &mut ResultWriter,
        out: &mut dyn Output,
    ) {
        let pdu = match Pdu::decode(frame) {
            Ok(pdu) => pdu,
            Err(error) => {
                tracing::warn!(client = frame.from, %error, "malformed request from pmcd");
                // PM_ERR_IPC would make pmcd drop the agent.
                if wants_answer(frame.kind) {
                    send(out, &mut self.scratch, 0, &failure(error.pm_error()));
                }
                return;
            }
        };
        // What needs no answer is taken even now: pmcd would not say it again.
        if wants_answer(frame.kind) && !self.ready {
            return self.not_ready(frame.kind, out);
        }
        let answer = match pdu {
            Pdu::Creds(_) => {
                self.greeted = true;
                return self.announce(core, out);
            }
            Pdu::Attr(attr) => return self.attribute(core, frame.from, &attr),
            Pdu::Profile(mut pdu) => {
                pdu.profile.sort();
                self.profile = pdu.profile;
                return;
            }
            Pdu::Error(ErrorPdu { code, .. }) => return self.notice(core, frame.from, code),
            Pdu::Fetch(fetch) => match self.fetch(core, frame.from, &fetch.pmids, results, out) {
                // It has left already: a result is sent from where it was written.
                Ok(()) => return,
                Err(error) => Err(error),
            },
            Pdu::Result(result) => {
                let stored = self.client(core, frame.from);
                let stored = stored.and_then(|client| answer::store(core, client, &result.sets));
                // What it has changed is no matter of when the answer leaves.
                core.begin_answer();
                stored
            }
            other => match metadata(core, other) {
                Some(answer) => answer,
                None => {
                    let name = kind::name(frame.kind).unwrap_or("?");
                    return tracing::warn!(name, "unexpected PDU from pmcd");
                }
            },
        };
        send(out, &mut self.scratch, 0, &answer.unwrap_or_else(failure));
    }

    /// An error PDU is no error from pmcd, but news of a client.
    fn notice(&mut self, core: &mut dyn Serve, slot: i32, code: i32) {
        if code != PmError::NOTCONN.0 {
            return tracing::warn!(code, "unexpected error from pmcd");
        }
        core.pmcd_event(PmcdEvent::Ended(slot));
        if let Some(client) = self.clients.remove(&slot) {
            core.client_close(client.id);
        }
    }

    fn not_ready(&mut self, kind: u32, out: &mut dyn Output) {
        // pmcd 6.0.3 does not understand NOTREADY as the answer to a name space request.
        let names = [kind::PMNS_NAMES, kind::PMNS_IDS, kind::PMNS_CHILD, kind::PMNS_TRAVERSE];
        let error = if names.contains(&kind) {
            PmError::AGAIN
        } else {
            self.trusted = false;
            PmError::PMDANOTREADY
        };
        send(out, &mut self.scratch, 0, &failure(error));
    }

    /// The client in one of pmcd's slots, which asks for something.
    fn client(&mut self, core: &mut dyn Serve, slot: i32) -> Result<ClientId, PmError> {
        let client = self.place(core, slot)?;
        if !std::mem::replace(&mut client.introduced, true) {
            core.introduce(client.id, slot);
        }
        Ok(client.id)
    }

    /// What is known of the client in one of pmcd's slots, which is new to us if it has not been seen since its last end.
    fn place(&mut self, core: &mut dyn Serve, slot: i32) -> Result<&mut Client, PmError> {
        let is_full = self.clients.len() >= MAX_CLIENTS;
        match self.clients.entry(slot) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(_) if is_full => Err(PmError::CONNLIMIT),
            Entry::Vacant(new) => Ok(new.insert(Client { id: core.client_open(), introduced: false })),
        }
    }

    fn attribute(&mut self, core: &mut dyn Serve, slot: i32, attr: &Attr) {
        let Ok(&mut Client { id, .. }) = self.place(core, slot) else { return };
        let Some(attributes) = core.attributes_mut(id) else { return };
        let text = String::from_utf8_lossy(attr.value());
        // Nobody becomes somebody by saying so on a line that anybody may have opened.
        if attr.code != AttrCode::CONTAINER && !self.options.identity {
            return;
        }
        match attr.code {
            AttrCode::USERID => attributes.uid = text.parse().ok(),
            AttrCode::GROUPID => attributes.gid = text.parse().ok(),
            AttrCode::PROCESSID => attributes.pid = text.parse().ok(),
            AttrCode::USERNAME => attributes.username = Some(text.into_owned()),
            AttrCode::CONTAINER => {
                attributes.container = Some(text.into_owned()).filter(|name| !name.is_empty())
            }
            _ => {}
        }
    }

    fn fetch(
        &mut self,
        core: &mut dyn Serve,
        slot: i32,
        pmids: &[Pmid],
        results: &mut ResultWriter,
        out: &mut dyn Output,
    ) -> Result<(), PmError> {
        let client = self.client(core, slot)?;
        let now = core.generations();
        // Before the first fetch of a line there is nothing that could have changed.
        let changes = now.changes_since(self.notified.unwrap_or(now));
        core.begin_fetch((self.options.clock)());
        results.reset();
        for &pmid in pmids {
            core.fetch(client, &self.profile, pmid, results).map_err(|error| error.pm_error())?;
        }
        // What stands for the seconds are flags to pmcd; a real time would be taken for changes.
        let flags = Timestamp { sec: i64::from(changes), nsec: 0 };
        let parts = results.finish(ResultKind::Micro, flags, 0).map_err(|error| error.pm_error())?;
        self.notified = Some(now);
        if !core.begin_answer() {
            out.send(parts);
            return Ok(());
        }
        let [head, tail] = parts;
        let (parts, end) = match (head.split_last(), tail.split_last()) {
            (_, Some((end, tail))) => ([head, tail], end),
            (Some((end, head)), None) => ([head, tail], end),
            // No PDU is without a byte.
            (None, None) => return Err(PmError::GENERIC),
        };
        self.rest = Rest::End(*end);
        out.send(parts);
        Ok(())
    }
}

/// Whether pmcd waits for an answer to a PDU of this type. It never waits after types it does not know.
fn wants_answer(kind: u32) -> bool {
    matches!(
        kind,
        kind::FETCH
            | kind::DESC_REQ
            | kind::INSTANCE_REQ
            | kind::TEXT_REQ
            | kind::RESULT
            | kind::PMNS_NAMES
            | kind::PMNS_IDS
            | kind::PMNS_CHILD
            | kind::PMNS_TRAVERSE
            | kind::LABEL_REQ
    )
}

/// Answers what is the same for all clients. `None`: it is no such request.
fn metadata(core: &mut dyn Serve, pdu: Pdu) -> Option<Result<Pdu, PmError>> {
    Some(match pdu {
        Pdu::DescReq(pmid) => answer::desc(core, pmid),
        Pdu::InstanceReq(request) => answer::instance(core, &request),
        Pdu::TextReq(request) => answer::text(core, &request),
        Pdu::LabelReq(target) => labels(core, target),
        Pdu::PmnsNames(names) => pmids(core, &names),
        Pdu::PmnsIds(ids) => match ids.ids[..] {
            [pmid] => core.names(pmid).map(|names| answer::names(&names)),
            _ => Err(PmError::PMID),
        },
        Pdu::PmnsChild(request) => match request.name.as_str() {
            Some(name) => core.children(name).map(|found| answer::children(found, request.status)),
            None => Err(PmError::NAME),
        },
        Pdu::PmnsTraverse(name) => match name.as_str() {
            Some(name) => core.traverse(name).map(|found| answer::names(&found)),
            None => Err(PmError::NAME),
        },
        _ => return None,
    })
}

fn pmids(core: &mut dyn Serve, names: &PmnsNames) -> Result<Pdu, PmError> {
    let PmnsNames::Plain(names) = names else { return Err(PmError::NAME) };
    let mut find = |name: &pcp_pdu::ByteStr| name.as_str().map_or(Err(PmError::NAME), |name| core.pmid(name));
    answer::pmids(names, &mut find)
}

fn labels(core: &mut dyn Serve, target: LabelTarget) -> Result<Pdu, PmError> {
    let sets = match target {
        // Never asked of an agent: the collector's.
        LabelTarget::Context => Vec::new(),
        LabelTarget::Domain(_) => core.labels(LabelSubject::Domain)?,
        LabelTarget::InDom(indom) => core.labels(LabelSubject::InDom(indom))?,
        LabelTarget::Cluster(pmid) => core.labels(LabelSubject::Cluster(pmid.cluster()))?,
        LabelTarget::Item(pmid) => core.labels(LabelSubject::Item(pmid))?,
        LabelTarget::Instances(indom) => core.instance_labels(indom)?,
    };
    Ok(Pdu::Label(LabelPdu { target, sets }))
}
