//! An agent that dies at any store to the file of contexts, again and again, under the same pmcd: each record reaches each of
//! pmcd's clients once, or is in a missed record at its place.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use byteorder::BigEndian;
use bytes::{Bytes, BytesMut};
use crossbeam_channel::Sender;
use jumpseat_log::{Entry, Limits, LogDir, SyncMode};
use jumpseat_source::delivery::Tallies;
use jumpseat_source::registry::{FieldRef, RegistryConfig, WellKnown};
use jumpseat_source::{Delivery, Inlet, Registry};
use pcp_event::batch::Batch;
use pcp_event::reader::{ArrayReader, RecordParam};
use pcp_event::{ArrayKind, EventFlags, Param};
use pcp_files::Disk as _;
use pcp_model::{Inst, PM_IN_NULL, PmError, Pmid, Timestamp, Value, ValueType};
use pcp_net::Worker;
use pcp_pdu::{
    Attr, AttrCode, CredFlags, Creds, ErrorPdu, Fetch, FrameReader, Pdu, RawInstanceValue, RawValue,
    RawValueSet, ResultPdu, ResultWriter,
};
use pcp_pmda::{Access, Core, Output, PmcdConnection, PmcdOptions, Process};
use support::{SimulatedDisk, random::Random};

use super::balance::{KINDS, records};
use crate::DEFAULT_DOMAIN;
use crate::agent::agent;
use crate::config::Config;
use crate::state::State;
use crate::state::contexts::{Contexts, Place};

/// How many lives, unless `JUMPSEAT_CRASH_POINTS` says a hundred times as many.
const LIVES: usize = 150;
const SOURCES: usize = 3;
const SLOTS: usize = 4;
const NAME: &str = "contexts";
/// The client in this slot wants odd numbers only.
const FILTERED: i32 = 2;

/// Where pmcd's client in a slot is, in one form of a source.
#[derive(Clone, Debug, Default)]
struct Told {
    /// The number of the next record that it has not been told of, as far as that is known.
    next: Option<u64>,
    /// Or one of these, if answers that were about to be given have come, or are told of as missed.
    or: Vec<u64>,
}

/// What pmcd's clients have seen.
#[derive(Clone, Debug, Default)]
struct Seen {
    told: HashMap<(i32, ArrayKind, Inst), Told>,
    /// The process of each client.
    pids: [i32; SLOTS],
}

/// Takes what the connection sends; the system takes it later, now and then.
struct Pipe {
    bytes: BytesMut,
    disk: SimulatedDisk,
    stuck: bool,
    /// What is sent stays for a while.
    slow: bool,
    /// How much had been done on the disk when the last byte came.
    at: usize,
}

impl Output for Pipe {
    fn send(&mut self, parts: [&[u8]; 2]) {
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        (self.at, self.stuck) = (self.disk.operations(), self.slow);
    }

    fn has_left(&self) -> bool {
        !self.stuck
    }

    fn is_clear(&self) -> bool {
        !self.stuck
    }
}

/// One life of the agent.
struct Life {
    core: Core<State>,
    connection: PmcdConnection,
    results: ResultWriter,
    pipe: Pipe,
    out: Sender<Delivery>,
    number: Pmid,
    odd: Pmid,
    _fetching: Worker,
}

impl Life {
    fn new(log: &Path, disk: &SimulatedDisk, pmcd: &Process) -> Life {
        let (registry, definitions) = Registry::open(&RegistryConfig::new(DEFAULT_DOMAIN)).unwrap();
        let limits = Limits::new(64 << 20, 256 << 20, SOURCES, SyncMode::Never);
        let logs = Arc::new(LogDir::open(log, DEFAULT_DOMAIN, limits).unwrap());
        let fetching = logs.fetch_thread().unwrap();
        registry.keep_in(logs);
        for source in 0..SOURCES {
            assert_eq!(registry.source(&format!("s{source}")), Ok(source as Inst));
        }
        let field = |name, value_type| match registry.field(name, value_type) {
            FieldRef::Own(pmid) => pmid,
            FieldRef::Folded => panic!("{name}"),
        };
        let (number, odd) = (field("number", ValueType::U64), field("odd", ValueType::U32));
        let (out, deliveries) = crossbeam_channel::bounded(4);
        let inlet = Inlet::new(definitions, deliveries);
        let mut state = State::open(&Config::default(), Arc::clone(&registry), inlet, None).unwrap();
        let place = Place { disk: Box::new(disk.clone()), name: NAME.to_owned(), path: NAME.into() };
        state.contexts = Contexts::at(place);
        let mut core = agent(state, DEFAULT_DOMAIN, None, &Access::Anyone).build().unwrap();
        let mut connection = PmcdConnection::new(PmcdOptions { identity: true, ..PmcdOptions::default() });
        let mut pipe = Pipe { bytes: BytesMut::new(), disk: disk.clone(), stuck: false, slow: false, at: 0 };
        connection.greet(&mut core, Some(pmcd.clone()), &mut pipe);
        let results = ResultWriter::default();
        let mut life = Life { core, connection, results, pipe, out, number, odd, _fetching: fetching };
        life.ask(0, &Pdu::Creds(Creds::version(CredFlags::default())), false);
        life
    }

    /// What the agent says to a PDU of a slot. `slowly`: the pipe is full for a while.
    fn ask(&mut self, slot: i32, pdu: &Pdu, slowly: bool) -> Option<Pdu> {
        self.pipe.bytes.clear();
        self.pipe.slow = slowly;
        let mut input = BytesMut::from(&pdu.to_bytes(slot).unwrap()[..]);
        self.process(&mut input);
        while self.connection.is_unfinished() {
            self.pipe.stuck = false;
            self.process(&mut input);
        }
        self.pipe.stuck = false;
        let mut reader = FrameReader::new(64 << 20);
        let frame = reader.next(&mut self.pipe.bytes).unwrap()?;
        Some(Pdu::decode(&frame).unwrap())
    }

    fn process(&mut self, input: &mut BytesMut) {
        let Life { core, connection, results, pipe, .. } = self;
        connection.process(core, input, results, pipe).unwrap();
    }

    /// pmcd tells of a client, as it does when an agent or a client is new.
    fn present(&mut self, slot: i32, pid: i32) {
        for (code, id) in [(AttrCode::PROCESSID, pid), (AttrCode::GROUPID, 7), (AttrCode::USERID, 7)] {
            let attr = Attr { code, payload: Bytes::from(format!("{id}\0")) };
            assert!(self.ask(slot, &Pdu::Attr(attr), false).is_none());
        }
    }

    fn deliver(&mut self, source: usize, numbers: std::ops::Range<u64>) {
        let mut batch = Batch::default();
        for number in numbers {
            let mut record = batch.record(Timestamp::new(1_000_000 + number as i64, 0), EventFlags::POINT);
            record.param(self.number, Param::U64(number));
            record.param(self.odd, Param::U32((number % 2) as u32));
            record.commit().unwrap();
        }
        let inst = source as Inst;
        let log = self.core.state.sources.get(inst).and_then(|source| source.disk.clone()).unwrap();
        let entry =
            Entry { lost: (0, Timestamp::default()), batch: &batch, counters: &[], marks: &[], numbered: 0 };
        let logged = log.append(&entry);
        assert!(logged.written);
        let delivery = Delivery {
            source: inst,
            missed: None,
            logged: Some(logged.first),
            marks: Vec::new(),
            numbered: 0,
            tallies: Tallies { received: batch.len() as u64, ..Tallies::default() },
            batch,
            peer: None,
            origin: None,
            labels: None,
            home: None,
        };
        self.out.try_send(delivery).unwrap();
        self.core.state.drain();
    }

    fn store(&mut self, slot: i32, name: &str, text: &str) {
        let pmid = self.core.pmid(name).unwrap();
        let value = RawValue::from_value(&Value::from(text.to_owned())).unwrap();
        let set = RawValueSet { pmid, values: Ok(vec![RawInstanceValue { inst: PM_IN_NULL, value }]) };
        let pdu = Pdu::Result(ResultPdu { timestamp: Timestamp::default(), sets: vec![set] });
        assert_eq!(self.ask(slot, &pdu, false), Some(Pdu::Error(ErrorPdu::success())));
    }

    /// The first that a client does.
    fn begin(&mut self, slot: i32, pid: i32, seen: &mut Seen, sent: &[u64; SOURCES]) {
        self.present(slot, pid);
        if seen.told.keys().any(|(of, ..)| *of == slot) {
            return;
        }
        if slot == FILTERED {
            KINDS.iter().for_each(|kind| self.store(slot, records(*kind), ODD));
        }
        let answer = self.fetch(slot, false);
        assert!(answer.is_empty(), "it begins at the end");
        seen.read(slot, &answer, sent);
    }

    /// The values of the record metrics for a slot.
    fn fetch(&mut self, slot: i32, slowly: bool) -> Vec<(ArrayKind, Inst, Value)> {
        let pmids: Vec<_> = KINDS.iter().map(|kind| self.core.pmid(records(*kind)).unwrap()).collect();
        let answer = self.ask(slot, &Pdu::Fetch(Fetch { ctxid: 0, pmids }), slowly);
        let Some(Pdu::Result(result)) = answer else { panic!("{answer:?}") };
        let values = KINDS.iter().zip(result.sets).flat_map(|(kind, set)| {
            let values = set.to_values(kind.value_type()).unwrap().values.unwrap();
            values.into_iter().map(|value| (*kind, value.inst, value.value))
        });
        values.collect()
    }
}

impl Seen {
    /// A client reads.
    fn read(&mut self, slot: i32, answer: &[(ArrayKind, Inst, Value)], sent: &[u64; SOURCES]) {
        for (kind, inst, value) in answer {
            let (Value::Event(bytes) | Value::HighResEvent(bytes)) = value else { panic!("{value:?}") };
            let told = self.told.entry((slot, *kind, *inst)).or_default();
            for record in ArrayReader::<BigEndian>::new(*kind, bytes).unwrap().records() {
                told.record(slot, record.missed(), record.params().next());
            }
        }
        // With its first answer it has begun, at the end of what there was.
        for kind in KINDS {
            for (inst, sent) in sent.iter().enumerate() {
                let told = self.told.entry((slot, kind, inst as Inst)).or_default();
                told.next.get_or_insert(if slot == FILTERED { *sent | 1 } else { *sent });
            }
        }
    }

    /// It may have come to this.
    fn may_be(&mut self, after: &Seen) {
        for (slot, pid) in after.pids.into_iter().enumerate() {
            if self.pids[slot] != pid {
                self.end(slot as i32, pid);
                let begun = after.told.iter().filter(|((of, ..), _)| *of as usize == slot);
                self.told.extend(begun.map(|(of, told)| (*of, told.clone())));
            }
        }
        for (of, told) in &after.told {
            let known = self.told.entry(*of).or_default();
            known.or.extend(told.next.filter(|next| known.next != Some(*next)));
        }
    }

    fn end(&mut self, slot: i32, pid: i32) {
        self.told.retain(|(of, ..), _| *of != slot);
        self.pids[slot as usize] = pid;
    }
}

impl Told {
    fn record(&mut self, slot: i32, missed: Option<i32>, param: Option<RecordParam<'_>>) {
        let step = if slot == FILTERED { 2 } else { 1 };
        match (missed, param) {
            (Some(missed), _) => {
                // Those of answers of which nobody knew, behind what may have been told.
                let told = self.next.into_iter().chain(self.or.iter().copied());
                let ends: Vec<_> = told.map(|told| told + step * missed as u64).collect();
                let known = self.or.iter().copied().find(|or| ends.contains(or));
                assert!(known.is_some(), "slot {slot}: {missed} missed for no reason: {self:?}");
                self.next = known;
                self.or.retain(|or| Some(*or) > known);
            }
            (None, Some(param)) if param.pmid == WellKnown::Missed.pmid(DEFAULT_DOMAIN) => {}
            (None, Some(param)) => {
                let Param::U64(number) = param.value else { panic!("{param:?}") };
                let expected = self.next == Some(number) || self.or.contains(&number);
                assert!(expected, "slot {slot}: {number} in place of {self:?}");
                self.next = Some(number + step);
                self.or.retain(|or| *or > number);
            }
            (None, None) => panic!("a record of nobody"),
        }
    }
}

fn copy(from: &SimulatedDisk) -> SimulatedDisk {
    let disk = SimulatedDisk::default();
    for name in from.names().unwrap() {
        let file = from.open(&name).unwrap();
        let mut bytes = vec![0; file.extent().unwrap().0 as usize];
        file.read_at(&mut bytes, 0).unwrap();
        disk.create(&name).unwrap().write_at(&[&bytes], 0).unwrap();
    }
    disk
}

#[test]
fn each_record_reaches_each_client_once_over_many_deaths() {
    let points = std::env::var("JUMPSEAT_CRASH_POINTS").ok().and_then(|points| points.parse::<usize>().ok());
    let lives = points.map_or(LIVES, |points| points / 100);
    let (dir, mut random) = (tempfile::tempdir().unwrap(), Random::new(12, 40));
    let pmcd = Process::of(std::process::id() as i32).unwrap();
    let (mut disk, mut seen, mut sent) = (SimulatedDisk::default(), Seen::default(), [0; SOURCES]);
    let (mut next_pid, mut unsure, mut resumed) = (1_000_000_000, 0, 0);
    for slot in &mut seen.pids {
        (*slot, next_pid) = (next_pid, next_pid + 1);
    }
    for life in 0..lives {
        disk = copy(&disk);
        let mut agent = Life::new(dir.path(), &disk, &pmcd);
        if random.percent(10) {
            // While there is no agent a client leaves, and another one comes.
            next_pid += 1;
            seen.end(random.below(SLOTS) as i32, next_pid);
        }
        for (slot, pid) in seen.pids.into_iter().enumerate() {
            agent.begin(slot as i32, pid, &mut seen, &sent);
        }
        // From here on it may die; but not while a client begins, as nobody could say where that was.
        let first = disk.operations();
        let mut begins = Vec::new();
        // What is known to be seen after so many operations: at that moment, and for sure.
        let mut history = vec![(disk.operations(), seen.clone())];
        for _ in 0..random.below(30) {
            let slot = random.below(SLOTS) as i32;
            match random.weighted(&[30, 40, 3, 3, 1]) {
                0 => {
                    let (source, count) = (random.below(SOURCES), random.below(40) as u64);
                    agent.deliver(source, sent[source]..sent[source] + count);
                    sent[source] += count;
                    continue;
                }
                1 => {
                    let slowly = random.percent(20);
                    let answer = agent.fetch(slot, slowly);
                    seen.read(slot, &answer, &sent);
                }
                2 => {
                    let before = disk.operations();
                    let gone = Pdu::Error(ErrorPdu::failure(PmError::NOTCONN));
                    assert!(agent.ask(slot, &gone, false).is_none());
                    next_pid += 1;
                    seen.end(slot, next_pid);
                    agent.begin(slot, next_pid, &mut seen, &sent);
                    begins.push(before..disk.operations());
                }
                3 if slot != FILTERED => {
                    agent.store(slot, "jumpseat.control.client.position", "newest");
                    let moved = seen.told.iter_mut().filter(|((of, ..), _)| *of == slot);
                    moved.for_each(|((_, _, source), told)| {
                        *told = Told { next: told.next.map(|_| sent[*source as usize]), or: Vec::new() };
                    });
                }
                _ => {
                    // What a client looks at besides changes nothing.
                    let pmid = agent.core.pmid("jumpseat.self.contexts.resumed").unwrap();
                    agent.ask(slot, &Pdu::Fetch(Fetch { ctxid: 0, pmids: vec![pmid] }), false);
                    continue;
                }
            }
            history.push((agent.pipe.at, seen.clone()));
        }
        resumed += agent.core.state.contexts.resumed();
        unsure += agent.core.state.contexts.unsure();
        drop(agent);
        // Any moment since its first breath.
        let mut done = first + random.below(disk.operations() + 1 - first);
        while let Some(begins) = begins.iter().find(|begins| begins.contains(&done)) {
            done = begins.end;
        }
        let at = history.iter().rposition(|(at, _)| *at < done).unwrap_or(0);
        // An answer whose last byte came at this moment may have come; and the next store may be whole, or not.
        let maybe = history.iter().rposition(|(at, _)| *at <= done + 1).unwrap_or(0).max(at);
        seen = history[at].1.clone();
        for (_, after) in &history[at + 1..=maybe] {
            seen.may_be(after);
        }
        disk = disk.killed(done, &mut random);
        assert!(life > 0 || seen.told.len() <= SLOTS * KINDS.len() * SOURCES);
    }
    assert!(resumed > 0 && unsure > 0, "{resumed} went on, {unsure} records unsure");
    eprintln!("{lives} lives, {resumed} contexts went on, {unsure} records of unsure answers, {sent:?} sent");
}

/// What the filtered one stores.
const ODD: &str = "odd == 1";
