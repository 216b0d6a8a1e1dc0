//! The layer for `tracing` in a program, against the real agent.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::seat::{Endpoint, Seat};
use byteorder::BigEndian;
use jumpseat::client::{Context, Fetched, ValueRef};
use jumpseat::event::pack::{ArrayKind, EventFlags};
use jumpseat::event::reader::ArrayReader;
use support::{PcpEnv, eventually, example, temp_dir};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

/// A record of one source, with its parameters by name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    flags: u32,
    missed: Option<i32>,
    pub params: BTreeMap<String, String>,
}

/// Reads the records of sources from an agent.
pub(crate) struct Client {
    context: Context,
    names: BTreeMap<u32, String>,
    pub records: Vec<Record>,
}

impl Client {
    /// Sees what comes from now on.
    pub(crate) fn join(endpoint: &Endpoint) -> Client {
        let mut client = Client {
            context: Context::host(&endpoint.host()).expect("the agent listens"),
            names: BTreeMap::new(),
            records: Vec::new(),
        };
        client.fetch();
        client.records.clear();
        client
    }

    fn fetch(&mut self) {
        let pmid = self.context.pmid("jumpseat.event.highres_records").expect("the agent has it");
        let mut fetched = Fetched::new();
        self.context.fetch(&[pmid], &mut fetched).expect("the agent answers");
        let Ok(values) = fetched.set(0).expect("one was asked for").values else { return };
        for (_, value) in values.iter() {
            let ValueRef::Block(block) = value else { panic!("an event array is a block") };
            let array = ArrayReader::<BigEndian>::new(ArrayKind::HighRes, block).expect("a sound array");
            for record in array.records() {
                let missed = record.flags.contains(EventFlags::MISSED).then_some(record.count);
                let params = record.params().map(|param| {
                    let name = self.names.entry(param.pmid.0).or_insert_with(|| {
                        let names = self.context.names_of(param.pmid).expect("it has a name");
                        names[0].trim_start_matches("jumpseat.field.").to_owned()
                    });
                    (name.clone(), format!("{:?}", param.value))
                });
                let params: BTreeMap<String, String> = params.collect();
                // After a missed record comes one with the count, which pmcd makes 0 in the first.
                if params.len() == 1 && params.contains_key("missed") {
                    continue;
                }
                self.records.push(Record { flags: record.flags.0, missed, params });
            }
        }
    }

    /// Fetches until nothing more has come for some times.
    pub(crate) fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < 20 {
            let before = self.records.len();
            std::thread::sleep(Duration::from_millis(5));
            self.fetch();
            quiet = if self.records.len() == before { quiet + 1 } else { 0 };
        }
    }

    /// Fetches until `done`.
    pub(crate) fn until(&mut self, done: impl Fn(&[Record]) -> bool) {
        let start = Instant::now();
        while !done(&self.records) {
            assert!(start.elapsed() < Duration::from_secs(30), "{:#?}", self.records);
            self.fetch();
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Records that came, and records that were missed.
pub(crate) fn sums(records: &[Record]) -> (usize, i64) {
    let missed = records.iter().filter_map(|record| record.missed).map(i64::from).sum();
    (records.iter().filter(|record| record.missed.is_none()).count(), missed)
}

#[test]
fn spans_and_events_become_records_with_typed_fields() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let agent = seat.serve([]);
    let mut client = Client::join(&agent);
    let layer = jumpseat::layer().source("shop").socket(seat.socket());
    let guard = layer.guard();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        let order =
            tracing::info_span!("order", customer = "ann", items = 3_u64, total = tracing::field::Empty);
        order.in_scope(|| {
            tracing::warn!(target: "shop::stock", left = -1_i64, ratio = 0.5, last = true, "almost {}", "gone");
            tracing::debug_span!("pay").in_scope(|| {});
        });
        order.record("total", 9.75);
        drop(order);
        tracing::error!(text = ?"a\0b");
    });
    assert!(guard.flush(Duration::from_secs(10)));
    client.until(|records| records.len() >= 6);
    let of = |at: usize| &client.records[at];
    let get = |at: usize, name: &str| of(at).params.get(name).map(String::as_str);
    let flags: Vec<u32> = client.records.iter().map(|record| record.flags).collect();
    let (point, start, end, id, parent) = (1, 2, 4, 8, 16);
    assert_eq!(
        flags,
        [start | id, point | id, start | id | parent, end | id | parent, end | id, point],
        "{:#?}",
        client.records
    );
    let order = get(0, "span_id").unwrap().to_owned();
    assert_eq!(get(0, "items"), Some("U64(3)"));
    assert_eq!(get(1, "span_id"), Some(&*order));
    assert_eq!(get(1, "left"), Some("I64(-1)"));
    assert_eq!(get(1, "ratio"), Some("Double(0.5)"));
    assert_eq!(get(1, "last"), Some("U32(1)"));
    assert_eq!(get(2, "parent_id"), Some(&*order));
    assert_eq!(get(4, "total"), Some("Double(9.75)"));
    let text = |at: usize, name: &str| agent_text(&client, at, name);
    assert_eq!((text(0, "type"), text(0, "customer")), ("order".to_owned(), "ann".to_owned()));
    assert_eq!(text(1, "message"), "almost gone");
    assert_eq!(text(1, "type"), "shop::stock");
    assert_eq!(text(1, "severity"), "warning");
    assert_eq!(text(5, "text"), r#""a\0b""#);
    let id = text(0, "span_id");
    assert!(id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    assert!(of(0).params.keys().all(|name| !name.ends_with("_id_u64")), "{:?}", of(0));

    // Where it is from, in all but ends, which have how long it took.
    let here = std::thread::current().name().map(str::to_owned).expect("threads of tests have names");
    for at in [0, 1, 2, 5] {
        assert_eq!((text(at, "file"), text(at, "thread")), (file!().to_owned(), here.clone()), "{at}");
        assert!(get(at, "line").is_some_and(|line| line.starts_with("U32(1")), "{:?}", of(at));
        assert_eq!((get(at, "thread_id"), get(at, "duration_ns")), (get(0, "thread_id"), None));
    }
    assert!(get(0, "thread_id").is_some_and(|id| id.starts_with("U64(")), "{:?}", of(0));
    assert_eq!((text(0, "target"), get(1, "target")), (module_path!().to_owned(), None), "the type has it");
    for at in [3, 4] {
        assert!(get(at, "duration_ns").is_some_and(|took| took.starts_with("U64(")), "{:?}", of(at));
        assert_eq!((get(at, "thread"), get(at, "file")), (None, None));
    }
}

#[test]
fn each_record_has_the_thread_that_it_is_from_and_a_programs_own_fields_stay() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let agent = seat.serve([]);
    let mut client = Client::join(&agent);
    let layer = jumpseat::layer().source("pool").socket(seat.socket());
    let guard = layer.guard();
    let dispatch = tracing::Dispatch::new(tracing_subscriber::registry().with(layer));
    // One after the other, so that they may have the same ring.
    for number in 0..3 {
        let dispatch = dispatch.clone();
        let work = move || {
            tracing::dispatcher::with_default(&dispatch, || tracing::info!(number, file = "own", "work"));
        };
        std::thread::Builder::new().name(format!("worker-{number}")).spawn(work).unwrap().join().unwrap();
        assert!(guard.flush(Duration::from_secs(20)));
    }
    client.until(|records| records.len() >= 3);
    for at in 0..3 {
        assert_eq!(agent_text(&client, at, "thread"), format!("worker-{at}"));
        assert_eq!(agent_text(&client, at, "file"), "own");
        assert!(client.records[at].params.contains_key("line"), "{:?}", client.records[at]);
    }
}

/// The text of a parameter.
fn agent_text(client: &Client, at: usize, name: &str) -> String {
    let shown = client.records[at].params.get(name).unwrap_or_else(|| panic!("{:?}", client.records[at]));
    let bytes: Option<Vec<u8>> = shown
        .strip_prefix("String([")
        .and_then(|list| list.strip_suffix("])"))
        .map(|list| list.split(", ").filter_map(|byte| byte.parse().ok()).collect());
    match bytes {
        Some(bytes) => String::from_utf8(bytes).expect("UTF-8"),
        None => shown.trim_start_matches("String(\"").trim_end_matches("\")").to_owned(),
    }
}

#[test]
fn what_does_not_fit_is_missed_and_the_agent_is_found_when_it_starts() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    // The layer finds the agent only when the client is there to see what it sends.
    let socket = dir.path().join("late.socket");
    let layer = jumpseat::layer().source("late").socket(&socket).buffer(8192);
    let guard = layer.guard();
    // Not what the client of this test tells of itself.
    let subscriber = tracing_subscriber::registry().with(LevelFilter::INFO).with(layer);
    const EVENTS: usize = 5000;
    tracing::subscriber::with_default(subscriber, || {
        // No agent, a ring of 8 KiB: most do not fit.
        (0..EVENTS).for_each(|number| tracing::info!(number, "early"));
        let agent = seat.serve([]);
        let mut client = Client::join(&agent);
        symlink(seat.socket(), &socket).expect("the test's directory is writable");
        let mut sent = EVENTS;
        // Those that did not fit are told of although the thread is silent now.
        client.until(|records| sums(records).0 as i64 + sums(records).1 >= EVENTS as i64);
        tracing::info!("late");
        sent += 1;
        client.until(|records| sums(records).0 as i64 + sums(records).1 >= sent as i64);
        let (delivered, missed) = sums(&client.records);
        assert_eq!(delivered as i64 + missed, sent as i64);
        assert!(missed > 0 && delivered > 10, "{delivered} {missed}");
        // The missed ones stand between what was before and after them.
        let place = client.records.iter().position(|record| record.missed.is_some()).unwrap();
        assert_eq!(place, client.records.len() - 2, "{place} of {}", client.records.len());
        drop(agent);
        let agent = seat.serve([]);
        let mut client = Client::join(&agent);
        let start = Instant::now();
        while client.records.is_empty() {
            tracing::info!("again");
            client.fetch();
            std::thread::sleep(Duration::from_millis(20));
            assert!(start.elapsed() < Duration::from_secs(30), "it never connects again");
        }
    });
    drop(guard);
}

#[test]
fn two_layers_of_a_program_both_see_the_end_of_a_span() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let agent = seat.serve([]);
    let mut client = Client::join(&agent);
    let layers = ["one", "two"].map(|source| jumpseat::layer().source(source).socket(seat.socket()));
    let guards = layers.each_ref().map(|layer| layer.guard());
    let [one, two] = layers;
    tracing::subscriber::with_default(tracing_subscriber::registry().with(one).with(two), || {
        let span = tracing::info_span!("shared", later = tracing::field::Empty);
        span.record("later", 7);
    });
    assert!(guards.iter().all(|guard| guard.flush(Duration::from_secs(20))));
    client.until(|records| records.len() >= 4);
    let ends: Vec<_> = client.records.iter().filter(|record| record.flags & 7 == 4).collect();
    assert_eq!(ends.len(), 2, "{:#?}", client.records);
    assert!(ends.iter().all(|end| end.params["later"] == "I64(7)"), "{ends:#?}");
}

#[test]
fn what_cannot_be_sent_is_missed_in_its_place() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let agent = seat.serve([]);
    let mut client = Client::join(&agent);
    let layer = jumpseat::layer().source("odd").socket(seat.socket());
    let guard = layer.guard();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        tracing::info!("before");
        // 256 bytes: a name may have 255.
        tracing::info!(target: concat!(
            "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        ), "not to be had");
        tracing::info!("after");
        // Longer than any message: nothing follows that could carry the count.
        let text = "x".repeat(16 << 10);
        tracing::info!(a = text, b = text, c = text, d = text, "too long");
    });
    assert!(guard.flush(Duration::from_secs(20)));
    client.until(|records| sums(records) == (2, 2));
    let missed: Vec<bool> = client.records.iter().map(|record| record.missed.is_some()).collect();
    assert_eq!(missed, [false, true, false, true], "{:#?}", client.records);
}

/// A name of a field that is nearly as long as it may be.
const LONG: &str = "a_field_whose_name_takes_a_place_in_the_program_that_is_not_small_and_with_many_of_which_no_table_has_room_\
                    for_all_of_them_however_large_it_may_be_made_as_there_is_always_a_program_with_more_of_them_than_anybody_has_thought_of";

/// Traces once at each of many places, whose names take so much room that the rings' file has none for all.
fn at_many_places() -> usize {
    let mut count = 0;
    macro_rules! at_places {
        ($($place:literal)*) => {$(
            tracing::info!(
                place = $place,
                { LONG } = 0, { LONG } = 1, { LONG } = 2, { LONG } = 3, { LONG } = 4, { LONG } = 5,
                { LONG } = 6, { LONG } = 7, { LONG } = 8, { LONG } = 9, { LONG } = 10, { LONG } = 11,
            );
            count += 1;
        )*};
    }
    at_places!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39);
    at_places!(40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75);
    at_places!(76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99 100 101 102 103 104 105 106 107 108);
    at_places!(109 110 111 112 113 114 115 116 117 118 119 120 121 122 123 124 125 126 127 128 129 130 131 132 133 134 135);
    count
}

#[test]
fn places_that_the_rings_file_has_no_room_for_lose_nothing() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let agent = seat.serve([]);
    let mut client = Client::join(&agent);
    let layer = jumpseat::layer().source("shop").socket(seat.socket());
    let guard = layer.guard();
    let count = tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), at_many_places);
    // As many bytes, and more, than the file has for sites.
    assert!(count * 12 * LONG.len() > 5 * jumpseat::wire::ring::SITES as usize / 4);
    assert!(guard.flush(Duration::from_secs(20)));
    client.until(|records| records.len() >= count);
    assert_eq!(sums(&client.records), (count, 0));
    let places: Vec<&str> = client.records.iter().map(|record| record.params["place"].as_str()).collect();
    let expected: Vec<String> = (0..count).map(|place| format!("I64({place})")).collect();
    assert_eq!(places, expected);
}

#[test]
fn a_flush_ends_although_others_go_on() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let _agent = seat.serve([]);
    let layer = jumpseat::layer().source("busy").socket(seat.socket());
    let guard = layer.guard();
    let dispatch = tracing::Dispatch::new(tracing_subscriber::registry().with(layer));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            tracing::dispatcher::with_default(&dispatch, || {
                while !done.load(Ordering::Relaxed) {
                    tracing::info!("busy");
                    std::thread::yield_now();
                }
            });
        });
        let flushed = guard.flush(Duration::from_secs(20));
        done.store(true, Ordering::Relaxed);
        assert!(flushed);
    });
}

#[test]
fn many_threads_lose_nothing_to_an_agent_that_keeps_up() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "[events]\nsource_budget = \"32MiB\"\n");
    let agent = seat.serve([]);
    let mut client = Client::join(&agent);
    let layer = jumpseat::layer().source("threads").socket(seat.socket()).buffer(4 << 20);
    let guard = layer.guard();
    let dispatch = tracing::Dispatch::new(tracing_subscriber::registry().with(layer));
    let (threads, each) = (4, 2000);
    let running: Vec<_> = (0..threads)
        .map(|thread: u64| {
            let dispatch = dispatch.clone();
            std::thread::spawn(move || {
                tracing::dispatcher::with_default(&dispatch, || {
                    for number in 0..each {
                        let span = tracing::info_span!("work", thread, number);
                        span.in_scope(|| tracing::info!("inside"));
                    }
                });
            })
        })
        .collect();
    running.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(guard.flush(Duration::from_secs(20)));
    let all = (threads * each * 3) as i64;
    client.until(|records| sums(records).0 as i64 + sums(records).1 >= all);
    assert_eq!(sums(&client.records).0 as i64 + sums(&client.records).1, all);
    // Each span starts once and ends once, after what happened in it.
    let mut open = BTreeMap::new();
    for record in client.records.iter().filter(|record| record.missed.is_none()) {
        let id = record.params["span_id"].clone();
        match record.flags & 7 {
            2 => assert!(open.insert(id, 0).is_none()),
            1 => *open.get_mut(&id).expect("it has started") += 1,
            _ => assert_eq!(open.remove(&id), Some(1)),
        }
    }
    assert!(open.is_empty());
}

#[test]
fn a_program_finds_the_agent_where_pcp_has_its_sockets() {
    let dir = temp_dir();
    let conf = dir.path().join("pcp.conf");
    let in_conf = dir.path().join("in-conf");
    fs::write(&conf, format!("PCP_RUN_DIR={}\n", in_conf.display())).expect("a file of the test's own");
    for (variable, value, run_dir) in [
        ("PCP_RUN_DIR", dir.path().join("in-environment"), dir.path().join("in-environment")),
        ("PCP_CONF", conf, in_conf),
    ] {
        fs::create_dir(&run_dir).expect("a directory of the test's own");
        let seat = Seat::in_dir(&run_dir, "");
        fs::write(seat.config(), format!("state_dir = {:?}\n[[socket]]\n", seat.state_dir()))
            .expect("the test's own");
        let mut env = PcpEnv::new();
        env.set(variable, value);
        let agent = seat.serve_in(&env, []);
        assert!(run_dir.join("jumpseat.socket").exists(), "{variable}: {}", agent.process.text());
        let program = example("jumpseat", "traced");
        assert!(env.command(program).status().expect("the example").success());
        eventually(variable, || {
            agent
                .run("pminfo", ["-f", "jumpseat.source.received"])
                .ok()
                .contains("\"traced\"] value 42")
                .then_some(())
        });
    }
}
