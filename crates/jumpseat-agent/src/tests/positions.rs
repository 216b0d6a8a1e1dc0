//! A reader that says where it was goes on there: however often it dies, and whatever it dies of, each record is told
//! once or is in a missed record at its place.

use byteorder::BigEndian;
use pcp_event::reader::ArrayReader;
use pcp_event::{ArrayKind, Param};
use pcp_model::{Inst, PM_IN_NULL, PmError, Value};
use pcp_net::Who;
use pcp_pmda::ClientId;
use proptest::prelude::*;

use super::balance::{Bench, KINDS, SOURCES, records};
use jumpseat_source::registry::WellKnown;

const CONTROL: &str = "jumpseat.control.client.position";

fn position(kind: ArrayKind) -> &'static str {
    match kind {
        ArrayKind::Event => "jumpseat.event.position",
        ArrayKind::HighRes => "jumpseat.event.highres_position",
    }
}

/// A program that reads records, and keeps with them where they end.
struct Reader {
    client: ClientId,
    /// For each form and source, what it has been told of, and where it says that it is.
    told: [[u64; SOURCES]; KINDS.len()],
    kept: [[Option<String>; SOURCES]; KINDS.len()],
}

impl Reader {
    /// One that wants all there has ever been.
    fn new(bench: &mut Bench) -> Reader {
        let client = bench.core.client_open();
        bench.try_store(client, CONTROL, PM_IN_NULL, "0").unwrap();
        Reader { client, told: Default::default(), kept: Default::default() }
    }

    fn read(&mut self, bench: &mut Bench) -> usize {
        let mut count = 0;
        for (at, kind) in KINDS.into_iter().enumerate() {
            for (inst, value) in bench.fetch(self.client, records(kind)) {
                count += 1;
                tell(&mut self.told[at][inst as usize], kind, &value);
            }
            for (inst, value) in bench.fetch(self.client, position(kind)) {
                let text = text(&value);
                let seq = text.split('@').next().unwrap().parse();
                assert_eq!(seq, Ok(self.told[at][inst as usize]), "what it was told of");
                self.kept[at][inst as usize] = Some(text);
            }
        }
        count
    }

    /// It dies, perhaps with an answer in its hands, and another one goes on.
    fn die(&mut self, bench: &mut Bench, unread: bool) {
        if unread {
            KINDS.into_iter().for_each(|kind| drop(bench.fetch(self.client, records(kind))));
        }
        bench.core.client_close(self.client);
        self.client = bench.core.client_open();
        bench.try_store(self.client, CONTROL, PM_IN_NULL, "0").unwrap();
        self.resume(bench);
    }

    fn resume(&mut self, bench: &mut Bench) {
        for (kind, kept) in KINDS.into_iter().zip(&self.kept) {
            for (source, text) in kept.iter().enumerate() {
                if let Some(text) = text {
                    bench.try_store(self.client, position(kind), source as Inst, text).unwrap();
                }
            }
        }
    }
}

fn text(value: &Value) -> String {
    let Value::String(text) = value else { panic!("{value:?}") };
    String::from_utf8(text.to_vec()).unwrap()
}

fn tell(told: &mut u64, kind: ArrayKind, value: &Value) {
    let (Value::Event(bytes) | Value::HighResEvent(bytes)) = value else { panic!("{value:?}") };
    for record in ArrayReader::<BigEndian>::new(kind, bytes).unwrap().records() {
        match (record.missed(), record.params().next()) {
            (Some(missed), _) => *told += missed as u64,
            (None, Some(param)) if param.pmid == WellKnown::Missed.pmid(crate::DEFAULT_DOMAIN) => {}
            (None, Some(param)) => {
                let Param::I64(number) = param.value else { panic!("{param:?}") };
                assert_eq!(number as u64, *told, "not the next one");
                *told += 1;
            }
            (None, None) => panic!("a record of nobody"),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Deliver(usize, Vec<usize>, u64),
    Read,
    Die { unread: bool },
    Resume,
    FetchLimit(u64),
    Recent(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let lengths = prop_oneof![
        prop::collection::vec(0..64usize, 0..50),
        prop::collection::vec(0..8000usize, 0..20),
        prop::collection::vec(60_000..200_000usize, 0..3),
    ];
    prop_oneof![
        6 => (0..SOURCES, lengths, prop_oneof![4 => Just(0), 1 => 1..100u64])
            .prop_map(|(source, lengths, lost)| Step::Deliver(source, lengths, lost)),
        4 => Just(Step::Read),
        3 => any::<bool>().prop_map(|unread| Step::Die { unread }),
        1 => Just(Step::Resume),
        1 => (128..=4096u64).prop_map(|kib| Step::FetchLimit(kib << 10)),
        1 => (0..300u32).prop_map(Step::Recent),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_reader_that_dies_again_and_again_is_told_of_everything_once(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut bench = Bench::new();
        let mut reader = Reader::new(&mut bench);
        for step in steps {
            match step {
                Step::Deliver(source, lengths, lost) => bench.deliver(source, &lengths, (lost, 0), 0),
                Step::Read => drop(reader.read(&mut bench)),
                Step::Die { unread } => reader.die(&mut bench, unread),
                Step::Resume => reader.resume(&mut bench),
                Step::FetchLimit(bytes) => bench.control("fetch_limit", &Value::U64(bytes)),
                Step::Recent(number) => bench.control("recent", &Value::U32(number)),
            }
        }
        while reader.read(&mut bench) > 0 {}
        for told in reader.told {
            prop_assert_eq!(told, bench.sent);
        }
        let counts = |bench: &mut Bench, name: &str| bench.counts(&format!("jumpseat.client.{name}"));
        let received = counts(&mut bench, "received");
        let parts = ["delivered", "filtered", "missed", "queued"].map(|name| counts(&mut bench, name));
        for (inst, received) in received {
            prop_assert_eq!(received, parts.iter().map(|part| part[&inst]).sum::<u64>());
        }
    }
}

#[test]
fn what_another_keeps_in_memory_is_not_missed() {
    let mut bench = Bench::new();
    bench.fetch_records(0, ArrayKind::Event);
    let mut reader = Reader::new(&mut bench);
    for _ in 0..5 {
        bench.deliver(1, &[100; 7], (0, 0), 0);
        reader.read(&mut bench);
        reader.die(&mut bench, true);
    }
    bench.deliver(1, &[100; 7], (0, 0), 0);
    reader.read(&mut bench);
    assert_eq!(reader.told, [[0, 42, 0]; 2]);
    let missed = bench.counts("jumpseat.client.missed");
    assert!(missed.values().all(|&count| count == 0), "{missed:?}");
    // Back by time and to the ends: for one form, for both, told of the one that is farther back.
    let told = |bench: &mut Bench, name: &str| text(&bench.fetch(reader.client, name)[1].1);
    let epoch = bench.core.state.epoch;
    bench.try_store(reader.client, CONTROL, 1, "@1000010.0").unwrap();
    bench.try_store(reader.client, position(ArrayKind::HighRes), PM_IN_NULL, "newest").unwrap();
    assert_eq!(told(&mut bench, position(ArrayKind::Event)), format!("10@{epoch:x}"));
    assert_eq!(told(&mut bench, position(ArrayKind::HighRes)), format!("42@{epoch:x}"));
    assert_eq!(told(&mut bench, CONTROL), format!("10@{epoch:x}"));
    bench.try_store(reader.client, CONTROL, PM_IN_NULL, "oldest").unwrap();
    assert_eq!(told(&mut bench, CONTROL), format!("0@{epoch:x}"));
}

#[test]
fn a_place_that_cannot_be_is_refused_with_a_reason_and_changes_nothing() {
    let mut bench = Bench::new();
    bench.deliver(0, &[10; 5], (0, 0), 0);
    bench.deliver(1, &[10; 9], (0, 0), 0);
    let mut reader = Reader::new(&mut bench);
    reader.read(&mut bench);
    let epoch = bench.core.state.epoch;
    let secret = bench.core.state.sources.get_mut(2).unwrap();
    let mut readers = Who::default();
    readers.add("0").unwrap();
    secret.readers = Some(readers);
    assert!(bench.fetch(reader.client, "jumpseat.control.client.refused").is_empty());
    for (inst, text, error, reason) in [
        (0, "6", PmError::BADSTORE, "source s0: there is no record 6 yet: the next one is 5"),
        (PM_IN_NULL, "7", PmError::BADSTORE, "source s0: there is no record 7 yet: the next one is 5"),
        (
            0,
            "5@1",
            PmError::BADSTORE,
            &format!(
                "source s0: sequence numbers of epoch 1 say nothing here: the log was begun anew, its epoch is {epoch:x}"
            ),
        ),
        (2, "0", PmError::PERMISSION, "the records of source s2 are not for this user"),
        (3, "0", PmError::INST, "there is no source with instance 3"),
    ] {
        assert_eq!(bench.try_store(reader.client, CONTROL, inst, text), Err(error), "{text}");
        let told = bench.fetch(reader.client, "jumpseat.control.client.refused");
        assert_eq!(self::text(&told[0].1), reason);
    }
    let filter = bench.try_store(reader.client, records(ArrayKind::Event), PM_IN_NULL, "a ==");
    assert_eq!(filter, Err(PmError::BADSTORE));
    let told = text(&bench.fetch(reader.client, "jumpseat.control.client.refused")[0].1);
    assert!(told.contains("column 5: found the end"), "{told}");
    assert_eq!(bench.core.state.reads_refused, 1);
    assert!(bench.fetch(reader.client, position(ArrayKind::Event)).len() == 2, "not of what it may not read");
    assert_eq!(reader.read(&mut bench), 0);
    // Work for each, so each once.
    let twice = bench.try_store_all(reader.client, CONTROL, &[(0, "oldest"), (0, "oldest")]);
    assert_eq!(twice, Err(PmError::INST));
}
