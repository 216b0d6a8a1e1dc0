//! What grows with what: the cost of an event with sources, fields and names of spans, that of a fetch with clients that read, and
//! the memory each of them takes, at the agent as it runs (`jumpseat serve`). Then that of derived metrics with their number.
//!
//! The peer of each row is the same work where there are few.

mod common;

use std::cell::RefCell;
use std::fmt::Write;
use std::hint::black_box;
use std::thread::sleep;
use std::time::Duration;

use common::agent::Served;
use common::clock::{resident_kib, thread_cpu};
use common::{Figure, Goal, Row, Times, race, rounds};
use jumpseat::client::{Context, EventReader, Fetched};
use jumpseat::model::{Value, ValueSet};
use tempfile::TempDir;

const AGENT: &str = env!("CARGO_BIN_EXE_jumpseat");
const EVENTS: u64 = 300_000;
/// The agent gives back what its start has needed two seconds behind it: memory is compared from then on.
const SETTLED: Duration = Duration::from_secs(3);
const CLIENTS: usize = 1000;
/// Times that each client reads in a round, and the only one of an agent.
const READS: usize = 10;
const READS_OF_ONE: usize = 200;
/// Bytes of a record of such an event, and of records that leave together.
const RECORD: usize = 72;
const BUFFER: usize = 16 * 1024;
/// A log that is not on disk.
const MEMORY: &str = "[log]\ndir = \"memory\"";
/// What many may cost, of what few do.
const GOAL: f64 = 1.2;

fn main() {
    for (what, log) in [("sources", MEMORY), ("sources, log on disk", "")] {
        events((what, log), 1, 250, |n, kinds| {
            let source = n % kinds;
            format!("{{\"source\":\"s{source}\",\"type\":\"request\",\"message\":\"GET /\",\"ms\":{n}}}\n")
        });
    }
    events(("fields", MEMORY), 10, 4000, |n, kinds| {
        let field = |k: u64| (n * 5 + k) % kinds;
        let mut line = String::from("{\"type\":\"request\"");
        for k in 0..5 {
            write!(line, ",\"field_{:04}\":{n}", field(k)).expect("to memory");
        }
        line + "}\n"
    });
    events(("names of spans", MEMORY), 1, 990, |n, kinds| {
        // A START and its END.
        let (phase, span) = (["start", "end"][n as usize % 2], n / 2);
        format!("{{\"type\":\"span{}\",\"phase\":\"{phase}\",\"span_id\":\"{span:016x}\"}}\n", span % kinds)
    });
    clients();
}

/// Events of `few` and of `many` kinds, made by `line` of their number and of how many kinds there are, with what the configuration says
/// of the log.
fn events((what, log): (&str, &str), few: u64, many: u64, line: impl Fn(u64, u64) -> String) {
    // As many in short rounds: of what each name costs once in a while, an event has a part that depends on how many there are.
    let data = [few, many].map(|kinds| (0..EVENTS).map(|n| line(n, kinds)).collect::<String>());
    // The processor time of an agent for them the first time, and when their names are there; and what memory it has then.
    let run = |data: &str, settled: Duration| -> ([Duration; 2], u64) {
        let dir = tempfile::tempdir().expect("a directory");
        let agent = Served::start(AGENT, dir.path(), log);
        sleep(settled);
        agent.settle();
        let times = [(); 2].map(|()| {
            let before = agent.cpu();
            agent.feed(data.as_bytes(), EVENTS);
            agent.settle();
            agent.cpu() - before
        });
        (times, resident_kib(agent.pid()))
    };
    // To make names is a matter of their number, and takes threads of its own: a row for itself.
    let made = RefCell::new(Vec::new());
    let cpu = |which: usize| {
        let ([first, then], _) = run(&data[which], Duration::ZERO);
        if which == 1 {
            made.borrow_mut().push(first.saturating_sub(then));
        }
        then
    };
    let [small, large, floor] = race(rounds(10), [&mut || cpu(0), &mut || cpu(1), &mut || put(many)]);
    let more = common::repeat(|| {
        let resident = [0, 1].map(|which| run(&data[which], SETTLED).1 as f64);
        (resident[1] - resident[0]) / (many - few) as f64
    });
    let each = |times: &Times| Figure::nanos(times, EVENTS as f64, "ns an event");
    Row::new(format!("an event, {many} {what}, CPU of the agent"), each(&large))
        .peer(format!("{few}"), each(&small))
        .goal(Goal::Ratio(1.0 / GOAL))
        .print();
    if what.starts_with("sources") {
        Row::new(format!("an event, {many} {what}, CPU of the agent"), each(&large))
            .peer(
                format!("a record of {RECORD} bytes put into one of {many} buffers in turn, nothing else"),
                each(&floor),
            )
            .print();
    }
    let made = Times::of(made.into_inner());
    Row::new(
        format!("a new one of {many} {what}, CPU of the agent"),
        Figure::time(&made, many as f64, 1e-6, "us"),
    )
    .print();
    Row::new(format!("resident memory for each of {many} {what}"), Figure::middle(more, "KiB"))
        .headline()
        .print();
}

/// Processor time for as many records as there are events, each put behind those of its kind, of which so many take turns.
fn put(kinds: u64) -> Duration {
    let mut buffers: Vec<Vec<u8>> = (0..kinds).map(|_| Vec::with_capacity(BUFFER)).collect();
    let record = [7; RECORD];
    let before = thread_cpu();
    for n in 0..EVENTS {
        let buffer = &mut buffers[(n % kinds) as usize];
        if buffer.len() + RECORD > BUFFER {
            // It has left.
            *buffer = Vec::with_capacity(BUFFER);
        }
        buffer.extend_from_slice(black_box(&record));
    }
    thread_cpu() - before
}

/// Clients that all read, each with a filter of its own: one of an agent, and as many of another.
fn clients() {
    let (mut one, mut many) = (Crowd::new(1).0, Crowd::new(CLIENTS).0);
    // The one reads more often, so that there is something to measure.
    let [small, large] = race(rounds(5), [&mut || one.read(READS_OF_ONE), &mut || many.read(READS)]);
    drop((one, many));
    let memory = common::repeat(|| Crowd::new(CLIENTS).1);
    let each = |times: &Times, fetches: usize| Figure::time(times, fetches as f64, 1e-6, "us a fetch");
    Row::new(
        format!("a fetch of events, {CLIENTS} clients, each with a filter, CPU of the agent"),
        each(&large, READS * CLIENTS),
    )
    .peer("1", each(&small, READS_OF_ONE))
    .goal(Goal::Ratio(1.0 / GOAL))
    .print();
    Row::new(format!("resident memory for each of {CLIENTS} clients"), Figure::middle(memory, "KiB"))
        .headline()
        .print();
}

/// An agent, and clients of it.
struct Crowd {
    readers: Vec<(Context, EventReader)>,
    agent: Served,
    /// Events of as many types as there may be clients.
    lines: String,
    _dir: TempDir,
}

impl Crowd {
    /// So many clients, and the memory that the agent has for each, in KiB.
    fn new(count: usize) -> (Crowd, f64) {
        let dir = tempfile::tempdir().expect("a directory");
        let address = format!("unix://{}", dir.path().join("pcp").display());
        let listen = ["--listen", &address.replace("unix://", "unix:")].map(str::to_owned);
        let agent = Served::start_with(AGENT, dir.path(), MEMORY, &listen);
        let lines: String =
            (0..CLIENTS).map(|n| format!("{{\"type\":\"t{n}\",\"message\":\"GET /\"}}\n")).collect();
        agent.feed(lines.as_bytes(), CLIENTS as u64);
        sleep(SETTLED);
        let idle = resident_kib(agent.pid());
        let readers = (0..count).map(|n| {
            let mut context = Context::host(&address).expect("it listens");
            let reader = EventReader::new(&mut context, "jumpseat.event.records").expect("it has it");
            let filter = Value::String(format!("type == \"t{n}\"").into());
            let pmid = context.pmid("jumpseat.event.records").expect("it has it");
            context.store(&[ValueSet::singular(pmid, filter)]).expect("a user of its own may");
            context.fetch(&[pmid], &mut Fetched::new()).expect("it answers");
            (context, reader)
        });
        let readers: Vec<_> = readers.collect();
        let memory = (resident_kib(agent.pid()) as f64 - idle as f64) / count as f64;
        (Crowd { readers, agent, lines, _dir: dir }, memory)
    }

    /// The agent's processor time for so many reads of all clients. For each there is one event that it wants.
    fn read(&mut self, reads: usize) -> Duration {
        let mut took = Duration::ZERO;
        for _ in 0..reads {
            self.agent.feed(self.lines.as_bytes(), CLIENTS as u64);
            let before = self.agent.cpu();
            for (context, reader) in &mut self.readers {
                assert_eq!(reader.fetch(context).expect("it answers").len(), 1, "each has its own");
            }
            took += self.agent.cpu() - before;
        }
        took
    }
}
