//! A collector whose clock is scripted: it answers clients from an archive, one record a fetch, so that all who ask the
//! same see the same moments. Each connection begins at the first record. It counts what it is asked.
//!
//! Metrics of pmcd's own (its host's name, say) have the values of the first record, and move nobody on.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use jumpseat::archive::{Archive, Replay};
use jumpseat::model::{PM_IN_NULL, PmError, Pmid, Profile, Timestamp};
use jumpseat::pdu::{
    Block, ErrorPdu, Features, Fetched, Frame, HEADER_LEN, InstanceEntry, InstanceList, InstanceReq,
    LabelPdu, NodeKind, Pdu, PmnsIds, PmnsNames, RawInstanceValue, RawValue, RawValueSet, ResultPdu, SetRef,
    TextPdu, ValueRef,
};

/// The domain of pmcd's own metrics.
const PMCD: u16 = 2;

/// The types of the PDUs that came by a connection, in their order, and whether it has ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub kinds: Vec<u32>,
    pub ended: bool,
}

pub(crate) struct Collector {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Collector {
    /// On a free port, in threads that end with the test. Its clock is that of the records.
    pub(crate) fn start(archive: &str) -> Collector {
        Collector::with_clock(archive, 0)
    }

    /// The same whose first record is of so many seconds from now.
    pub(crate) fn ahead(archive: &str, seconds: i64) -> Collector {
        let start = Archive::open(archive).expect("the archive was just recorded").label().start;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is later");
        Collector::with_clock(archive, now.as_secs() as i64 - start.sec + seconds)
    }

    fn with_clock(archive: &str, later: i64) -> Collector {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (all, name) = (asked.clone(), archive.to_owned());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (all, name) = (all.clone(), name.clone());
                std::thread::spawn(move || Connection::new(stream, &name, later, all).serve());
            }
        });
        Collector { address, asked }
    }

    /// For `-h`.
    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    /// What came by all connections since the last call, once all of them have ended.
    pub(crate) fn asked(&self) -> Vec<u32> {
        support::eventually("all connections to end", || {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            let ended = asked.iter().all(|asked| asked.ended);
            ended.then(|| asked.drain(..).flat_map(|asked| asked.kinds).collect())
        })
    }
}

struct Connection {
    stream: TcpStream,
    records: Replay,
    /// What pmcd's own metrics are answered from.
    start: Replay,
    profile: Profile,
    fetched: Fetched,
    /// How many seconds its clock is later than the records.
    later: i64,
    all: Arc<Mutex<Vec<Asked>>>,
    number: usize,
}

impl Connection {
    fn new(stream: TcpStream, name: &str, later: i64, all: Arc<Mutex<Vec<Asked>>>) -> Connection {
        let _ = stream.set_nodelay(true);
        let open = || Replay::new(Archive::open(name).expect("the archive was just recorded"));
        let number = {
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.push(Asked::default());
            all.len() - 1
        };
        let (profile, fetched) = (Profile::default(), Fetched::new());
        Connection { stream, records: open(), start: open(), profile, fetched, later, all, number }
    }

    fn asked(&self, change: impl FnOnce(&mut Asked)) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        change(all.get_mut(self.number).expect("nobody takes it before it has ended"));
    }

    fn serve(&mut self) {
        let features = Features::HIGHRES.union(Features::DESCS).union(Features::LABELS);
        let mut answer = Some(Pdu::Error(ErrorPdu::greeting(features)));
        loop {
            if let Some(answer) = answer.take() {
                let bytes = answer.to_bytes(0).expect("what was recorded fits into a PDU");
                if self.stream.write_all(&bytes).is_err() {
                    break;
                }
            }
            let Some(frame) = read(&mut self.stream) else { break };
            self.asked(|asked| asked.kinds.push(frame.kind));
            answer = match Pdu::decode(&frame) {
                Ok(pdu) => self.answer(pdu),
                Err(error) => Some(refusal(error.pm_error())),
            };
        }
        self.asked(|asked| asked.ended = true);
    }

    fn answer(&mut self, request: Pdu) -> Option<Pdu> {
        let archive = self.records.archive();
        Some(match request {
            Pdu::Creds(_) => return None,
            Pdu::Profile(profile) => {
                self.profile = profile.profile;
                return None;
            }
            Pdu::Fetch(fetch) => match self.fetch(&fetch.pmids) {
                Ok(result) => Pdu::Result(result),
                Err(error) => refusal(error),
            },
            Pdu::HighResFetch(fetch) => match self.fetch(&fetch.pmids) {
                Ok(result) => Pdu::HighResResult(result),
                Err(error) => refusal(error),
            },
            Pdu::DescReq(pmid) => archive.desc(pmid).map_or_else(|_| refusal(PmError::PMID), Pdu::Desc),
            Pdu::DescIds(pmids) => Pdu::Descs(pmids.iter().map(|pmid| archive.desc(*pmid).ok()).collect()),
            Pdu::InstanceReq(asked) => instances(archive, &asked).map_or_else(refusal, Pdu::Instance),
            Pdu::TextReq(asked) => match archive.text(asked.target, asked.level) {
                Ok(text) => Pdu::Text(TextPdu { ident: asked.target.ident(), text: text.into() }),
                Err(_) => refusal(PmError::TEXT),
            },
            Pdu::LabelReq(target) => {
                Pdu::Label(LabelPdu { target, sets: archive.labels(target, archive.label().start) })
            }
            Pdu::PmnsNames(PmnsNames::Plain(names)) => {
                let found: Vec<_> =
                    names.iter().map(|name| archive.lookup_name(&name.to_str_lossy())).collect();
                match found.as_slice() {
                    [Err(error)] => refusal(*error),
                    _ => Pdu::PmnsIds(PmnsIds {
                        status: found.iter().flatten().count() as i32,
                        ids: found.into_iter().map(|pmid| pmid.unwrap_or(Pmid::NULL)).collect(),
                    }),
                }
            }
            Pdu::PmnsIds(ids) => {
                let names = ids.ids.first().map(|pmid| archive.names_of(*pmid)).unwrap_or_default();
                match names.is_empty() {
                    true => refusal(PmError::PMID),
                    false => Pdu::PmnsNames(PmnsNames::Plain(names.into_iter().map(Into::into).collect())),
                }
            }
            Pdu::PmnsChild(child) => match archive.children(&child.name.to_str_lossy()) {
                Err(error) => refusal(error),
                Ok(children) => {
                    let kind = |leaf| if leaf { NodeKind::Leaf } else { NodeKind::NonLeaf };
                    let children = children.iter().map(|(name, leaf)| ((*name).into(), kind(*leaf)));
                    Pdu::PmnsNames(PmnsNames::WithStatus(children.collect()))
                }
            },
            Pdu::PmnsTraverse(name) => match archive.leaves(&name.to_str_lossy()) {
                Err(error) => refusal(error),
                Ok(names) => Pdu::PmnsNames(PmnsNames::Plain(names.into_iter().map(Into::into).collect())),
            },
            _ => refusal(PmError::IPC),
        })
    }

    /// The next record that has any of the metrics.
    fn fetch(&mut self, pmids: &[Pmid]) -> Result<ResultPdu, PmError> {
        let own = pmids.iter().any(|pmid| pmid.domain() == PMCD);
        let replay = if own { &mut self.start } else { &mut self.records };
        if own {
            replay.set_mode(replay.mode(), Some(replay.archive().label().start));
        }
        replay.fetch(pmids, &self.profile, &mut self.fetched).map_err(|error| error.code())?;
        let set = |set: SetRef<'_>| {
            let value = |(inst, value): (i32, ValueRef<'_>)| RawInstanceValue { inst, value: raw(value) };
            RawValueSet {
                pmid: set.pmid,
                values: set.values.map(|values| values.iter().map(value).collect()),
            }
        };
        let sets = self.fetched.sets().map(set).collect();
        let recorded = self.fetched.timestamp;
        Ok(ResultPdu { timestamp: Timestamp::new(recorded.sec + self.later, recorded.nsec), sets })
    }
}

/// A recorded value as it travels, which is the same.
fn raw(value: ValueRef<'_>) -> RawValue {
    match value {
        ValueRef::InSitu(word) => RawValue::InSitu(word),
        ValueRef::Block(block) => {
            let (head, data) = block.split_first_chunk::<4>().expect("a block has a header");
            RawValue::Block(Block::new(head[0], data).expect("a block that was recorded fits"))
        }
    }
}

fn refusal(error: PmError) -> Pdu {
    Pdu::Error(ErrorPdu::failure(error))
}

/// The instances there ever were.
fn instances(archive: &Archive, asked: &InstanceReq) -> Result<InstanceList, PmError> {
    let all = archive.instances_ever(asked.indom).map_err(|_| PmError::INDOM)?;
    let by_name = !asked.name.is_empty();
    let instances = all.into_iter().filter_map(|instance| match (asked.inst, by_name) {
        (PM_IN_NULL, false) => Some(InstanceEntry { inst: instance.id, name: instance.name.into() }),
        (PM_IN_NULL, true) => {
            (asked.name.to_str_lossy() == instance.name).then(|| InstanceEntry::identified(instance.id))
        }
        (id, _) => (id == instance.id).then(|| InstanceEntry::named(instance.name)),
    });
    let instances: Vec<_> = instances.collect();
    match instances.is_empty() && (by_name || asked.inst != PM_IN_NULL) {
        true => Err(PmError::INST),
        false => Ok(InstanceList { indom: asked.indom, instances }),
    }
}

/// One PDU; `None` at the end.
fn read(stream: &mut TcpStream) -> Option<Frame> {
    let mut header = [0; HEADER_LEN];
    stream.read_exact(&mut header).ok()?;
    let word = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().expect("four bytes"));
    let mut body = vec![0; (word(0) as usize).checked_sub(HEADER_LEN)?];
    stream.read_exact(&mut body).ok()?;
    Some(Frame { kind: word(4), from: word(8) as i32, body: body.into() })
}
