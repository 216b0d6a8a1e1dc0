//! Whatever happens in whatever order, the figures of `jumpseat.client` and `jumpseat.source` balance, and
//! every record reaches every stream exactly once or is counted.

use std::collections::HashMap;
use std::sync::Arc;

use byteorder::BigEndian;
use bytes::BytesMut;
use crossbeam_channel::Sender;
use proptest::prelude::*;

use crate::DEFAULT_DOMAIN;
use crate::agent::agent;
use crate::config::{ByteSize, Config, EventsConfig};
use crate::state::State;
use crate::state::streams::FILTER_BUDGET;
use jumpseat_source::delivery::{Loss, Tallies};
use jumpseat_source::registry::{FieldRef, RegistryConfig, WellKnown};
use jumpseat_source::{Delivery, Inlet, Registry};
use pcp_event::batch::Batch;
use pcp_event::reader::ArrayReader;
use pcp_event::{ArrayKind, EventFlags, Param};
use pcp_model::{Inst, PM_IN_NULL, PmError, Pmid, Profile, Timestamp, Value, ValueType};
use pcp_pdu::{FrameReader, Pdu, RawInstanceValue, RawValue, RawValueSet, ResultKind, ResultWriter};
use pcp_pmda::{Access, ClientId, Core};

pub(super) const SOURCES: usize = 3;
const CLIENTS: usize = 4;
pub(super) const KINDS: [ArrayKind; 2] = [ArrayKind::Event, ArrayKind::HighRes];
const FILTERS: [&str; 4] = ["", "odd == 1", "number < 0", "odd == 0 && text =~ 'a+'"];
const TOTAL_BUDGET: u64 = 1 << 20;

#[derive(Clone, Debug)]
enum Step {
    /// Records with texts of these lengths come, after a loss: the sender's own, and what the source lost.
    Deliver {
        source: usize,
        lengths: Vec<usize>,
        lost: (u64, u64),
        /// And so many were dropped because somebody asked for it.
        dropped: u64,
    },
    Fetch {
        client: usize,
        kind: ArrayKind,
    },
    Filter {
        client: usize,
        kind: ArrayKind,
        source: Option<usize>,
        filter: usize,
    },
    End {
        client: usize,
    },
    SourceBudget(u64),
    FetchLimit(u64),
    Recent(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let kind = || prop::sample::select(KINDS.to_vec());
    let lengths = prop_oneof![
        prop::collection::vec(0..64usize, 0..50),
        prop::collection::vec(0..8000usize, 0..20),
        prop::collection::vec(60_000..200_000usize, 0..3),
    ];
    let loss = prop_oneof![4 => Just(0), 1 => 1..100u64];
    prop_oneof![
        6 => (0..SOURCES, lengths, (loss.clone(), loss.clone()), loss)
            .prop_map(|(source, lengths, lost, dropped)| Step::Deliver { source, lengths, lost, dropped }),
        6 => (0..CLIENTS, kind()).prop_map(|(client, kind)| Step::Fetch { client, kind }),
        2 => (0..CLIENTS, kind(), prop::option::of(0..SOURCES), 0..FILTERS.len())
            .prop_map(|(client, kind, source, filter)| Step::Filter { client, kind, source, filter }),
        1 => (0..CLIENTS).prop_map(|client| Step::End { client }),
        1 => (64..=1024u64).prop_map(|kib| Step::SourceBudget(kib << 10)),
        1 => (128..=4096u64).prop_map(|kib| Step::FetchLimit(kib << 10)),
        1 => (0..30u32).prop_map(Step::Recent),
    ]
}

/// What a stream must have seen.
#[derive(Debug, Default)]
struct Stream {
    /// Events of its source before it began.
    joined: u64,
    delivered: u64,
    /// Sum of the missed records' counts.
    reported: u64,
    last: Option<i64>,
}

pub(super) struct Bench {
    pub(super) core: Core<State>,
    out: Sender<Delivery>,
    fields: [Pmid; 3],
    clients: [ClientId; CLIENTS],
    streams: HashMap<(ClientId, usize, ArrayKind), Stream>,
    /// For each source: events, those lost before the log, and records delivered to anyone.
    pub(super) sent: [u64; SOURCES],
    lost: [u64; SOURCES],
    dropped: [u64; SOURCES],
    delivered: [u64; SOURCES],
    /// Values without a field metric of their own.
    folded: u64,
}

impl Bench {
    pub(super) fn new() -> Bench {
        let (registry, definitions) = Registry::open(&RegistryConfig::new(DEFAULT_DOMAIN)).unwrap();
        for source in 0..SOURCES {
            assert_eq!(registry.source(&format!("s{source}")), Ok(source as Inst));
        }
        let field = |name, value_type| match registry.field(name, value_type) {
            FieldRef::Own(pmid) => pmid,
            FieldRef::Folded => panic!("{name}"),
        };
        let fields =
            [field("number", ValueType::I64), field("odd", ValueType::U32), field("text", ValueType::String)];
        let limits = EventsConfig {
            source_budget: ByteSize(64 << 10),
            total_budget: ByteSize(TOTAL_BUDGET),
            max_sources: SOURCES as u32,
            ..EventsConfig::default()
        };
        let (out, deliveries) = crossbeam_channel::bounded(4);
        let config = Config { events: limits, ..Config::default() };
        let inlet = Inlet::new(definitions, deliveries);
        let state = State::open(&config, Arc::clone(&registry), inlet, None).unwrap();
        let mut core = agent(state, DEFAULT_DOMAIN, None, &Access::Anyone).build().unwrap();
        let clients = std::array::from_fn(|_| core.client_open());
        Bench {
            core,
            out,
            fields,
            clients,
            streams: HashMap::new(),
            sent: [0; SOURCES],
            lost: [0; SOURCES],
            dropped: [0; SOURCES],
            delivered: [0; SOURCES],
            folded: 0,
        }
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Deliver { source, lengths, lost, dropped } => {
                self.deliver(*source, lengths, *lost, *dropped);
            }
            Step::Fetch { client, kind } => drop(self.fetch_records(*client, *kind)),
            Step::Filter { client, kind, source, filter } => {
                let inst = source.map_or(PM_IN_NULL, |source| source as Inst);
                let text = Value::from(FILTERS[*filter].to_owned());
                self.store(self.clients[*client], records(*kind), inst, &text);
            }
            Step::End { client } => {
                let ended = self.clients[*client];
                self.core.client_close(ended);
                self.streams.retain(|(client, ..), _| *client != ended);
                self.clients[*client] = self.core.client_open();
            }
            Step::SourceBudget(bytes) => self.control("source_budget", &Value::U64(*bytes)),
            Step::FetchLimit(bytes) => self.control("fetch_limit", &Value::U64(*bytes)),
            Step::Recent(number) => self.control("recent", &Value::U32(*number)),
        }
        self.check();
    }

    pub(super) fn deliver(
        &mut self,
        source: usize,
        lengths: &[usize],
        (by_sender, here): (u64, u64),
        dropped: u64,
    ) {
        let mut batch = Batch::default();
        let first = self.sent[source] + by_sender + here;
        for (number, &length) in (first..).zip(lengths) {
            let time = Timestamp::new(1_000_000 + number as i64, 0);
            let mut record = batch.record(time, EventFlags::POINT);
            record.param(self.fields[0], Param::I64(number as i64));
            record.param(self.fields[1], Param::U32((number % 2) as u32));
            record.param(self.fields[2], Param::String("a".repeat(length).as_bytes()));
            record.commit().unwrap();
        }
        let lost = by_sender + here;
        let delivery = Delivery {
            source: source as Inst,
            missed: (lost > 0).then_some(Loss {
                count: lost,
                received: here,
                time: Timestamp::new(1_000_000 + first as i64 - 1, 0),
            }),
            logged: None,
            marks: Vec::new(),
            numbered: 0,
            tallies: Tallies {
                received: here + batch.len() as u64 + dropped,
                dropped: [0, dropped, 0],
                folded: 1,
                ..Tallies::default()
            },
            batch,
            peer: None,
            origin: None,
            labels: None,
            home: None,
        };
        self.out.try_send(delivery).unwrap();
        self.core.state.drain();
        self.folded += 1;
        self.lost[source] += lost;
        self.dropped[source] += dropped;
        self.sent[source] += lost + lengths.len() as u64;
    }

    /// Fetches one of the records metrics. Returns how many records there were, of any kind.
    pub(super) fn fetch_records(&mut self, client: usize, kind: ArrayKind) -> usize {
        let client = self.clients[client];
        for source in 0..SOURCES {
            let joined = self.sent[source];
            let new = || Stream { joined, ..Stream::default() };
            self.streams.entry((client, source, kind)).or_insert_with(new);
        }
        let mut count = 0;
        for (inst, value) in self.fetch(client, records(kind)) {
            let stream = self.streams.get_mut(&(client, inst as usize, kind)).unwrap();
            let (Value::Event(bytes) | Value::HighResEvent(bytes)) = value else { panic!("{value:?}") };
            let array = ArrayReader::<BigEndian>::new(kind, &bytes).unwrap();
            assert!(!array.is_empty(), "an empty array harms archives");
            count += array.len();
            let mut counted = None;
            for record in array.records() {
                let params: Vec<_> = record.params().collect();
                match (record.missed(), params.first()) {
                    (Some(missed), None) => {
                        stream.reported += missed as u64;
                        counted = Some(missed as u64);
                    }
                    (None, Some(param)) if param.pmid == WellKnown::Missed.pmid(DEFAULT_DOMAIN) => {
                        let Param::U64(missed) = param.value else { panic!("{param:?}") };
                        assert_eq!((kind, Some(missed)), (ArrayKind::HighRes, counted.take()));
                    }
                    (None, Some(param)) => {
                        let Param::I64(number) = param.value else { panic!("{param:?}") };
                        assert!(stream.last.is_none_or(|last| last < number), "twice, or out of order");
                        assert!(number >= stream.joined as i64, "from before the stream began");
                        assert_eq!(record.time.sec, 1_000_000 + number, "the record of another event");
                        stream.last = Some(number);
                        stream.delivered += 1;
                        self.delivered[inst as usize] += 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        count
    }

    pub(super) fn fetch(&mut self, client: ClientId, name: &str) -> Vec<(Inst, Value)> {
        let pmid = self.core.pmid(name).unwrap();
        let value_type = self.core.desc(pmid).unwrap().value_type;
        let mut out = ResultWriter::new(64 << 20);
        self.core.begin_fetch(Timestamp::default());
        self.core.fetch(client, &Profile::default(), pmid, &mut out).unwrap();
        let parts = out.finish(ResultKind::Micro, Timestamp::default(), 0).unwrap();
        let mut bytes = BytesMut::from(&parts.concat()[..]);
        let frame = FrameReader::new(64 << 20).next(&mut bytes).unwrap().unwrap();
        let Ok(Pdu::Result(result)) = Pdu::decode(&frame) else { panic!("{name}") };
        let values = result.sets[0].to_values(value_type).unwrap().values.unwrap();
        values.into_iter().map(|value| (value.inst, value.value)).collect()
    }

    /// The values of a metric that counts something, by instance.
    pub(super) fn counts(&mut self, name: &str) -> HashMap<Inst, u64> {
        let values = self.fetch(self.clients[0], name).into_iter();
        values
            .map(|(inst, value)| match value {
                Value::U64(count) => (inst, count),
                other => panic!("{name}: {other:?}"),
            })
            .collect()
    }

    pub(super) fn try_store(
        &mut self,
        client: ClientId,
        name: &str,
        inst: Inst,
        text: &str,
    ) -> Result<(), PmError> {
        self.try_store_all(client, name, &[(inst, text)])
    }

    pub(super) fn try_store_all(
        &mut self,
        client: ClientId,
        name: &str,
        texts: &[(Inst, &str)],
    ) -> Result<(), PmError> {
        let pmid = self.core.pmid(name).unwrap();
        let value = |text: &str| RawValue::from_value(&Value::from(text.to_owned())).unwrap();
        let values = texts.iter().map(|&(inst, text)| RawInstanceValue { inst, value: value(text) });
        self.core.store(client, &RawValueSet { pmid, values: Ok(values.collect()) })
    }

    fn store(&mut self, client: ClientId, name: &str, inst: Inst, value: &Value) {
        let pmid = self.core.pmid(name).unwrap();
        let value = RawValue::from_value(value).unwrap();
        let set = RawValueSet { pmid, values: Ok(vec![RawInstanceValue { inst, value }]) };
        self.core.store(client, &set).unwrap();
    }

    pub(super) fn control(&mut self, name: &str, value: &Value) {
        self.store(self.clients[0], &format!("jumpseat.control.{name}"), PM_IN_NULL, value);
    }

    fn check(&mut self) {
        let of_source = |name: &str, bench: &mut Bench| {
            let counts = bench.counts(&format!("jumpseat.source.{name}"));
            std::array::from_fn::<u64, SOURCES, _>(|source| counts[&(source as Inst)])
        };
        // What a source received is in its log, or was missed before it, or dropped. Only the first two concern streams.
        let received = of_source("received", self);
        assert_eq!(received, std::array::from_fn(|source| self.sent[source] + self.dropped[source]));
        assert_eq!(of_source("dropped.filtered", self), self.dropped);
        assert_eq!(of_source("missed", self), self.lost);
        assert_eq!(of_source("delivered", self), self.delivered);
        assert_eq!(self.counts("jumpseat.self.fields.folded")[&PM_IN_NULL], self.folded);
        let memory = of_source("memory", self);
        let budget = self.core.state.limits.source_budget.0;
        assert!(memory.iter().all(|&bytes| bytes <= budget), "{memory:?} of {budget}");
        assert!(memory.iter().sum::<u64>() <= TOTAL_BUDGET, "{memory:?}");

        let [received, delivered, filtered, missed, queued] =
            ["received", "delivered", "filtered", "missed", "queued"]
                .map(|name| self.counts(&format!("jumpseat.client.{name}")));
        assert!(received.len() <= self.streams.len());
        for (&(client, source, kind), stream) in &self.streams {
            let inst = self.core.state.streams.find(client, source as Inst, kind).unwrap().inst;
            // Of who has come once only there is nothing to see.
            if !self.core.state.streams.names.contains(inst) {
                continue;
            }
            let get = |counts: &HashMap<Inst, u64>| counts[&inst];
            assert_eq!(get(&received), self.sent[source] - stream.joined);
            assert_eq!(get(&delivered), stream.delivered);
            assert_eq!(
                get(&received),
                get(&delivered) + get(&filtered) + get(&missed) + get(&queued),
                "{client:?} {source} {kind:?}"
            );
            assert!(stream.reported <= get(&missed), "told of more than were missed");
        }
    }

    /// Every client reads on until there is nothing: then it has been told of everything.
    fn read_everything(&mut self) {
        for client in 0..CLIENTS {
            for kind in KINDS {
                self.fetch_records(client, kind);
                while self.fetch_records(client, kind) > 0 {}
            }
        }
        assert_eq!(self.core.state.streams.names.active().len(), self.streams.len());
        self.check();
        let (queued, missed) = (self.counts("jumpseat.client.queued"), self.counts("jumpseat.client.missed"));
        assert!(queued.values().all(|&count| count == 0), "{queued:?}");
        for (&(client, source, kind), stream) in &self.streams {
            let inst = self.core.state.streams.find(client, source as Inst, kind).unwrap().inst;
            assert_eq!(stream.reported, missed[&inst], "{client:?} {source} {kind:?}");
        }
    }
}

pub(super) fn records(kind: ArrayKind) -> &'static str {
    match kind {
        ArrayKind::Event => "jumpseat.event.records",
        ArrayKind::HighRes => "jumpseat.event.highres_records",
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_record_arrives_once_or_is_counted(steps in prop::collection::vec(step(), 1..60)) {
        let mut bench = Bench::new();
        for step in &steps {
            bench.run(step);
        }
        bench.read_everything();
        for client in 0..CLIENTS {
            bench.run(&Step::End { client });
        }
        prop_assert_eq!(bench.core.state.streams.names.ids().len(), 0);
    }
}

#[test]
fn an_absurd_loss_balances_too() {
    let mut bench = Bench::new();
    bench.fetch_records(0, ArrayKind::HighRes);
    bench.fetch_records(0, ArrayKind::HighRes);
    let client = bench.clients[0];
    for count in [u64::MAX, u64::MAX, 1] {
        let delivery = Delivery {
            logged: None,
            marks: Vec::new(),
            numbered: 0,
            source: 0,
            missed: Some(Loss { count, received: 0, time: Timestamp::default() }),
            batch: Batch::default(),
            tallies: Tallies::default(),
            peer: None,
            origin: None,
            labels: None,
            home: None,
        };
        bench.out.try_send(delivery).unwrap();
        bench.core.state.drain();
    }
    let inst = bench.core.state.streams.find(client, 0, ArrayKind::HighRes).unwrap().inst;
    let received = bench.counts("jumpseat.source.received")[&0];
    assert!(received > 0);
    assert_eq!(received, bench.counts("jumpseat.source.missed")[&0]);
    assert_eq!(received, bench.counts("jumpseat.client.received")[&inst]);
}

#[test]
fn filters_of_all_clients_have_a_limit_and_equal_ones_count_once() {
    let mut bench = Bench::new();
    let pmid = bench.core.pmid("jumpseat.event.records").unwrap();
    let store = |core: &mut Core<State>, client, text: String| {
        let value = RawValue::from_value(&Value::from(text)).unwrap();
        let set = RawValueSet { pmid, values: Ok(vec![RawInstanceValue { inst: PM_IN_NULL, value }]) };
        core.store(client, &set)
    };
    // Some hundred KiB each.
    let costly = |n: usize| format!("text =~ 'a[ab]{{10}}[^ab]{n}' || text =~ 'b[ab]{{9}}[^ab]'");
    let core = &mut bench.core;
    let clients: Vec<ClientId> = (0..200).map(|_| core.client_open()).collect();
    let refused =
        clients.iter().enumerate().find_map(|(n, client)| Some((n, store(core, *client, costly(n)).err()?)));
    let Some((number, error)) = refused else { panic!("200 filters of a hundred KiB or more") };
    assert_eq!(error, PmError::BADSTORE);
    // All of these clients are nobody in particular, and so one, who may take a quarter.
    assert!((1..=FILTER_BUDGET >> 19).contains(&number), "{number} were taken");
    for client in &clients {
        assert_eq!(store(core, *client, costly(0)), Ok(()), "it is there already");
    }
    assert_eq!(store(core, clients[0], costly(number)), Ok(()), "the others are gone");
}

#[test]
fn sources_take_as_much_of_the_memory_as_they_have_use_for() {
    let mut bench = Bench::new();
    bench.control("source_budget", &Value::U64(TOTAL_BUDGET));
    bench.fetch_records(0, ArrayKind::Event);
    bench.deliver(0, &[100_000; 9], (0, 0), 0);
    assert_eq!(bench.counts("jumpseat.source.evicted")[&0], 0);
    bench.deliver(1, &[10], (0, 0), 3);
    assert_eq!(bench.counts("jumpseat.source.evicted")[&0], 0, "a record is not half of it");
    bench.deliver(1, &[100_000; 9], (0, 0), 0);
    assert!(bench.counts("jumpseat.source.evicted")[&0] > 0, "now there are two to share");
    bench.read_everything();
}

#[test]
fn limits_read_again_leave_the_numbers_of_names() {
    let mut bench = Bench::new();
    let limits = EventsConfig { recent: 7, max_sources: 1, max_types: 1, ..EventsConfig::default() };
    bench.core.state.set_limits(limits);
    let now = &bench.core.state.limits;
    assert_eq!((now.recent, now.max_sources, now.max_types), (7, SOURCES as u32, 4096));
}
