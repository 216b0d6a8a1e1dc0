//! A thread for each host, which follows its event records into a [`Ring`].
//!
//! It begins with what happened in the last hour, as far as the agent still has it, and goes on after a lost connection, or a
//! restart of the agent, where it was (docs/positions.md): so nothing is missed that the agent has kept, and what was is a missed record
//! with its number. Of agents without positions it has what came while there was a connection.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pcp_client::{ClientError, Context, Fetched, HostSpec, StateChange, position};
use pcp_model::{Desc, Inst, InstanceValue, PM_IN_NULL, PmError, Pmid, Value, ValueSet};
use pcp_net::Worker;
use tokio::sync::watch;

use super::read::{Names, Reader, readers};
use super::ring::{Ring, Since};
use crate::server::sources::{SourceError, Sources};

/// How often to ask for records.
const EVERY: Duration = Duration::from_secs(1);
/// After so many in one answer there are more.
const MANY: usize = 1000;
/// How often to look for metrics of event records anew, besides when the collector says that something has changed.
const LOOK: Duration = Duration::from_secs(60);
/// The same while those are gone that there were.
const AGAIN: Duration = Duration::from_secs(3);
/// The first and the longest time between two attempts to connect again.
const BACK_OFF: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];
/// Where to begin.
const PAST: &str = "-1 hour";
/// In front of all that there is of another log.
const BEGINNING: &str = "0";

/// A host whose records are followed.
#[derive(Debug)]
pub(crate) struct Followed {
    /// As it is named on the command line.
    pub name: String,
    spec: HostSpec,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    host: Option<Arc<str>>,
    ring: Ring,
    metrics: Vec<Arc<str>>,
    error: Option<String>,
    malformed: u64,
}

/// How it is with a host.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct HostState {
    /// As it is named on the command line.
    pub name: String,
    /// As it names itself; nothing before it was reached first.
    pub host: Option<String>,
    /// Its metrics of event records.
    pub metrics: Vec<String>,
    /// Why it is not followed now, if it is not.
    pub error: Option<String>,
    /// Records in memory.
    pub records: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Records that had to go for newer ones.
    pub dropped: u64,
    /// Records that were lost before they came here.
    pub missed: u64,
    /// Arrays of records that were none.
    pub malformed: u64,
}

impl Followed {
    /// One that is not followed yet, with so many bytes for records.
    pub(crate) fn new(name: &str, spec: HostSpec, budget: usize) -> Followed {
        let state =
            State { host: None, ring: Ring::new(budget), metrics: Vec::new(), error: None, malformed: 0 };
        Followed { name: name.to_owned(), spec, state: Mutex::new(state) }
    }

    /// How it is.
    pub(crate) fn state(&self) -> HostState {
        let state = self.lock();
        HostState {
            name: self.name.clone(),
            host: state.host.as_deref().map(str::to_owned),
            metrics: state.metrics.iter().map(|metric| (**metric).to_owned()).collect(),
            error: state.error.clone(),
            records: state.ring.len() as u64,
            bytes: state.ring.bytes() as u64,
            dropped: state.ring.dropped(),
            missed: state.ring.missed(),
            malformed: state.malformed,
        }
    }

    /// As it names itself.
    pub(crate) fn host(&self) -> Option<Arc<str>> {
        self.lock().host.clone()
    }

    /// Its records in a window, in the order in which they came, and the number of the next one that comes.
    pub(crate) fn within(&self, from: i64, to: i64) -> (Vec<Arc<super::record::Record>>, u64) {
        let state = self.lock();
        (state.ring.within(from, to), state.ring.next())
    }

    /// Its records since a number, in the order in which they came.
    pub(crate) fn since(&self, number: u64, most: usize) -> Since {
        self.lock().ring.since(number, most)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows a host until the worker is dropped. `changed` is told of each new record.
///
/// # Errors
/// There is no thread to be had.
pub(crate) fn follow(
    followed: Arc<Followed>,
    sources: Arc<Sources>,
    names: Arc<Names>,
    changed: Arc<watch::Sender<u64>>,
) -> io::Result<Worker> {
    let (stop, stopped) = mpsc::channel();
    let run = move || {
        let mut follower =
            Follower { followed, sources, names, changed, stopped, positions: BTreeMap::new() };
        let mut wait = BACK_OFF[0];
        loop {
            let began = Instant::now();
            let Err(error) = follower.session() else { return };
            follower.followed.lock().error = Some(error.to_string());
            wait = if began.elapsed() > BACK_OFF[1] { BACK_OFF[0] } else { wait };
            if follower.is_stopped(wait) {
                return;
            }
            wait = (wait * 2).min(BACK_OFF[1]);
        }
    };
    // It may wait for a collector that is dead: nobody has to wait for it. What it does then nobody sees.
    Worker::spawn("jumpseat-follow", move || stop.send(()).is_err(), run)
}

struct Follower {
    followed: Arc<Followed>,
    sources: Arc<Sources>,
    names: Arc<Names>,
    changed: Arc<watch::Sender<u64>>,
    stopped: Receiver<()>,
    /// By metric with positions, and instance: behind the records that were taken.
    positions: BTreeMap<&'static str, BTreeMap<String, String>>,
}

/// A metric with positions.
struct Position {
    name: &'static str,
    desc: Desc,
    /// The metric with the records.
    records: Pmid,
    instances: BTreeMap<Inst, String>,
}

impl Position {
    /// The positions in an answer, by the names of instances.
    fn reached(
        &mut self,
        context: &mut Context,
        fetched: &Fetched,
    ) -> Result<Vec<(String, String)>, ClientError> {
        let Some(values) = fetched.find(self.desc.pmid).and_then(|set| set.values.ok()) else {
            return Ok(Vec::new());
        };
        let mut reached = Vec::with_capacity(values.len());
        for (inst, value) in values.iter() {
            let Ok(text) = value.text() else { continue };
            let name = match self.instances.entry(inst) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => match context.instance_name(self.desc.indom, inst) {
                    Ok(name) => unknown.insert(name),
                    Err(ClientError::Pcp(_)) => continue,
                    Err(error) => return Err(error),
                },
            };
            reached.push((name.clone(), String::from_utf8_lossy(text).into_owned()));
        }
        Ok(reached)
    }
}

impl Follower {
    fn is_stopped(&self, within: Duration) -> bool {
        self.stopped.recv_timeout(within) != Err(RecvTimeoutError::Timeout)
    }

    /// Follows as long as there is a connection. `Ok` if it shall stop.
    fn session(&mut self) -> Result<(), SourceError> {
        let mut context = self.sources.connect(&self.followed.spec)?;
        let host: Arc<str> = context.host_name()?.into();
        self.followed.lock().host = Some(Arc::clone(&host));
        let mut had_any = false;
        loop {
            let readers = readers(&mut context, &host, &self.names)?;
            let positions = self.go_on(&mut context, &readers)?;
            {
                let mut state = self.followed.lock();
                state.metrics = readers.iter().map(|reader| Arc::clone(&reader.metric)).collect();
                state.error = None;
            }
            had_any |= !readers.is_empty();
            let is_over = match readers.is_empty() {
                // An agent that was there is started again, mostly.
                true => self.is_stopped(if had_any { AGAIN } else { LOOK }),
                false => self.poll(&mut context, readers, positions)?,
            };
            if is_over {
                return Ok(());
            }
        }
    }

    /// Fetches until something has changed (false), or it shall stop (true).
    fn poll(
        &mut self,
        context: &mut Context,
        mut readers: Vec<Reader>,
        mut positions: Vec<Position>,
    ) -> Result<bool, ClientError> {
        // In an answer positions are behind the records that are in front of them.
        let pmids: Vec<Pmid> = readers
            .iter()
            .map(|reader| reader.pmid)
            .chain(positions.iter().map(|position| position.desc.pmid))
            .collect();
        let began = Instant::now();
        let mut fetched = Fetched::new();
        loop {
            let changes = context.fetch(&pmids, &mut fetched)?;
            let agents = StateChange::ADD | StateChange::RESTART | StateChange::DROP | StateChange::NAMES;
            let is_new = changes.intersects(agents);
            if changes.contains(StateChange::LABELS) {
                readers.iter_mut().for_each(Reader::forget);
            }
            let (mut records, mut malformed) = (Vec::new(), 0);
            for reader in &mut readers {
                let Some(values) = fetched.find(reader.pmid).and_then(|set| set.values.ok()) else {
                    continue;
                };
                // An agent that has begun anew is told where to go on; what it gave before that comes again.
                if is_new && positions.iter().any(|position| position.records == reader.pmid) {
                    continue;
                }
                malformed += reader.read(context, values, &mut |record| records.push(record))?;
            }
            let mut reached = Vec::new();
            if !is_new {
                for position in &mut positions {
                    reached.push((position.name, position.reached(context, &fetched)?));
                }
            }
            // Records and the positions behind them together, or none: if the connection ends in between they come again.
            for (name, instances) in reached {
                self.positions.entry(name).or_default().extend(instances);
            }
            let came = records.len();
            {
                let mut state = self.followed.lock();
                state.malformed += malformed;
                records.into_iter().for_each(|record| state.ring.push(record));
            }
            if came > 0 {
                self.changed.send_modify(|version| *version = version.wrapping_add(1));
            }
            if is_new {
                return Ok(false);
            }
            if self.is_stopped(if came >= MANY { Duration::ZERO } else { EVERY }) {
                return Ok(true);
            }
            if positions.is_empty() && began.elapsed() > LOOK {
                return Ok(false);
            }
        }
    }

    /// Has the agent go on where it was, and of sources that were not there then, in the past.
    fn go_on(&mut self, context: &mut Context, readers: &[Reader]) -> Result<Vec<Position>, ClientError> {
        let mut positions = Vec::new();
        for reader in readers {
            let Some(name) = position::metric_for(&reader.metric) else { continue };
            let found = context.pmid(name).and_then(|pmid| context.desc(pmid));
            let desc = match found {
                Ok(desc) => desc,
                Err(ClientError::Pcp(_)) => continue,
                Err(error) => return Err(error),
            };
            // Who may not store has what comes from now on.
            if !store(context, desc.pmid, PM_IN_NULL, PAST)? {
                continue;
            }
            if let Some(kept) = self.positions.get(name) {
                let instances = match context.instances(desc.indom) {
                    Ok(instances) => instances,
                    Err(ClientError::Pcp(_)) => Vec::new(),
                    Err(error) => return Err(error),
                };
                for instance in instances {
                    let Some(at) = kept.get(&instance.name) else { continue };
                    // It is of another log if that is refused: all of the new one is wanted.
                    if !store(context, desc.pmid, instance.id, at)? {
                        store(context, desc.pmid, instance.id, BEGINNING)?;
                    }
                }
            }
            positions.push(Position { name, desc, records: reader.pmid, instances: BTreeMap::new() });
        }
        Ok(positions)
    }
}

/// Stores a position. Whether it was taken.
fn store(context: &mut Context, pmid: Pmid, inst: Inst, text: &str) -> Result<bool, ClientError> {
    let value = InstanceValue { inst, value: Value::from(text.to_owned()) };
    match context.store(&[ValueSet { pmid, values: Ok(vec![value]) }]) {
        Ok(()) => Ok(true),
        // The connection is as good as before.
        Err(ClientError::Pcp(error)) if error != PmError::IPC => Ok(false),
        Err(error) => Err(error),
    }
}
