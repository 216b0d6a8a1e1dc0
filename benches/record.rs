//! `jumpseat record` against pmlogger, of the same metrics of the same pmcd, at the same interval and as often: processor time of
//! the program, and the size of its archive. First a thousand values and more of PCP's sample agent, then event records of jumpseat
//! with the position in them, which `jumpseat record` adds of itself and pmlogger is told to. Both write archives of version 3, whose
//! times are of nanoseconds; without `-V 3` pmlogger 6.0.3 writes version 2, whose three files begin with 676 bytes less each.
//!
//! Times count only if both archives have the same metrics, each in as many samples, and nearly as many event records, of which
//! none was missed.
//!
//! Needs PCP installed; `./test` does that.

mod common;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use byteorder::BigEndian;
use common::clock::{children_cpu, thread_cpu};
use common::{Figure, Goal, Row, Times, floor, race, rounds};
use jumpseat::archive::{Archive, Step};
use jumpseat::client::Context;
use jumpseat::event::{ArrayKind, ArrayReader};
use jumpseat::model::ValueType;
use jumpseat::pdu::{ValueRef, ValuesRef};
#[allow(dead_code, reason = "tests use the rest")]
#[path = "../tests/seat/mod.rs"]
mod seat;

use seat::{Seat, Transport};
use support::{AgentSpec, PrivatePmcd};

const SAMPLES: usize = 100;
/// Events a millisecond.
const RATE: usize = 5;
/// Of pmlogger's time, at most.
const GOAL: f64 = 3.0;

fn main() {
    let agents = (0..6).map(|n| AgentSpec::sample_as(&format!("s{n}"), 200 + n));
    let builder = PrivatePmcd::with(agents);
    let seat = Seat::in_dir(builder.dir(), "");
    let agent = seat.agent(Transport::Pipe);
    let pmcd = builder.agent(agent).start();
    pmcd.wait_ready("jumpseat");
    let names: Vec<String> = (0..6)
        .flat_map(|n| {
            ["bin", "bucket", "long", "ulong", "longlong", "ulonglong", "float", "double", "string", "many"]
                .map(|tree| format!("s{n}.{tree}"))
        })
        .collect();
    record(&pmcd, "metrics of the sample agent", &names);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| send(&seat.socket(), &ended));
        let names = ["jumpseat.event.records", "jumpseat.event.position"].map(str::to_owned);
        record(&pmcd, "event records, 5,000 a second", &names);
        ended.store(true, Ordering::Relaxed);
    });
}

/// Sends events, as many as are due by the clock, until it is time to end.
fn send(socket: &Path, ended: &AtomicBool) {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    let (start, mut number) = (Instant::now(), 0);
    while !ended.load(Ordering::Relaxed) {
        while number < start.elapsed().as_millis() as usize * RATE {
            number += 1;
            writeln!(
                stream,
                "{{\"type\":\"request\",\"message\":\"GET /items/{number:06}\",\"ms\":{number}}}"
            )
            .expect("it reads");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What an archive has of a metric.
#[derive(Debug, Default)]
struct Content {
    /// Records in which it has values.
    samples: usize,
    /// Event records in all of these.
    events: usize,
}

/// What an archive has of the metrics with these names, and those below them.
fn contents(base: &Path, names: &[String]) -> BTreeMap<String, Content> {
    let mut archive = Archive::open(base.to_str().expect("a path of ours")).expect("it was just written");
    let is_wanted = |name: &str| {
        let below = |wanted: &String| name.strip_prefix(wanted.as_str());
        names.iter().filter_map(below).any(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let (mut all, mut at) = (BTreeMap::<String, Content>::new(), archive.first());
    while let Some(Step::Record(place, after)) = archive.next(at).expect("it is sound") {
        at = after;
        let mut found = Vec::new();
        for set in archive.record(place).expect("it is sound").sets() {
            if let Some(values) = set.values.ok().filter(|values| values.iter().next().is_some()) {
                found.push((set.pmid, events(values)));
            }
        }
        for (pmid, events) in found {
            let events = match archive.desc(pmid).map(|desc| desc.value_type) {
                Ok(ValueType::Event) => events.expect("nothing was missed"),
                _ => 0,
            };
            for name in archive.names_of(pmid).into_iter().filter(|name| is_wanted(name)) {
                let content = all.entry(name).or_default();
                content.samples += 1;
                content.events += events;
            }
        }
    }
    all
}

/// How many event records there are in values; `None` if some were missed, or values are no arrays.
fn events(values: ValuesRef<'_>) -> Option<usize> {
    let each = values.iter().map(|(_, value)| {
        let ValueRef::Block(block) = value else { return None };
        let array = ArrayReader::<BigEndian>::new(ArrayKind::Event, block).ok()?;
        array.records().all(|record| record.missed().is_none()).then(|| array.records().count())
    });
    each.sum()
}

/// Makes sure that two archives are of the same things.
fn compare(ours: &BTreeMap<String, Content>, theirs: &BTreeMap<String, Content>) {
    assert!(!ours.is_empty() && ours.keys().eq(theirs.keys()), "{ours:?}, pmlogger {theirs:?}");
    for ((name, ours), theirs) in ours.iter().zip(theirs.values()) {
        let events = ours.events.max(theirs.events);
        let alike =
            ours.samples.abs_diff(theirs.samples) <= 1 && ours.events.abs_diff(theirs.events) <= events / 10;
        assert!(alike, "{name}: {ours:?}, pmlogger {theirs:?}");
    }
}

/// Processor time of the program's start, and of fetching as often and writing the answers to a file as they come.
fn bytes_alone(host: &str, names: &[String], to: &Path) -> Duration {
    let mut context = Context::host(host).expect("pmcd listens");
    let below: Vec<String> =
        names.iter().flat_map(|name| context.traverse(name).expect("pmcd knows it")).collect();
    let found = context.lookup_names(&below.iter().map(String::as_str).collect::<Vec<_>>());
    let pmids =
        found.expect("pmcd answers").into_iter().map(|pmid| pmid.expect("it was just there")).collect();
    let mut bytes = floor::Bytes::fetching(TcpStream::connect(host).expect("pmcd listens"), pmids);
    let mut file = fs::File::create(to).expect("the directory is ours");
    let before = thread_cpu();
    for _ in 0..SAMPLES {
        std::thread::sleep(Duration::from_millis(20));
        file.write_all(bytes.fetch()).expect("the disk has room");
    }
    thread_cpu() - before + floor::start(seat::JUMPSEAT, &["record", "--version"])
}

fn record(pmcd: &PrivatePmcd, what: &str, names: &[String]) {
    let dir = tempfile::tempdir().expect("a directory");
    // Bytes of all files, and without metadata: of an archive, or for each of its event records. Each round; ours, then pmlogger's.
    let (sizes, turn) = (RefCell::new([(); 2].map(|()| [Vec::new(), Vec::new()])), RefCell::new(0));
    let found = RefCell::new([BTreeMap::new(), BTreeMap::new()]);
    let host = pmcd.inet();
    let config = dir.path().join("config");
    fs::write(&config, format!("log mandatory on 20 msec {{\n{}\n}}\n", names.join("\n")))
        .expect("the directory is ours");
    let run = |which: usize| -> Duration {
        *turn.borrow_mut() += 1;
        let base = dir.path().join(format!("archive{}", turn.borrow()));
        let samples = SAMPLES.to_string();
        let mut command = match which {
            0 => {
                let mut command = pmcd.env().command(seat::JUMPSEAT);
                command.args(["record", "-h", &host, "-t", "20msec", "-s", &samples]).arg(&base).args(names);
                command
            }
            _ => {
                let mut command = pmcd.env().command("pmlogger");
                command
                    .args(["-V", "3", "-h", &host, "-s", &samples, "-l"])
                    .arg(dir.path().join("log"))
                    .arg("-c")
                    .arg(&config)
                    .arg(&base);
                command
            }
        };
        let before = children_cpu();
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("it is installed");
        assert!(status.success(), "{command:?}");
        let took = children_cpu() - before;
        let files = fs::read_dir(dir.path()).expect("it is ours").flatten();
        let name = base.file_name().and_then(|name| name.to_str()).expect("a name of ours").to_owned() + ".";
        let of_archive =
            files.filter(|file| file.file_name().to_str().is_some_and(|file| file.starts_with(&name)));
        let all: u64 = of_archive.filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum();
        let metadata = fs::metadata(base.with_extension("meta")).expect("there is metadata").len();
        let content = contents(&base, names);
        // Where events come, as many are in an archive as came while it was written.
        let events: usize = content.values().map(|content| content.events).sum();
        for (sizes, size) in sizes.borrow_mut()[which].iter_mut().zip([all, all - metadata]) {
            sizes.push(size as f64 / events.max(1) as f64);
        }
        found.borrow_mut()[which] = content;
        if which == 1 {
            let [ours, theirs] = &*found.borrow();
            compare(ours, theirs);
        }
        took
    };
    let mut least = || bytes_alone(&host, names, &dir.path().join("bytes"));
    let [ours, theirs, least] = race(rounds(10), [&mut || run(0), &mut || run(1), &mut least]);
    let ms = |times: &Times| Figure::time(times, 1.0, 1e-3, "ms of CPU");
    Row::new(format!("record {SAMPLES} samples of {what}"), ms(&ours))
        .peer("pmlogger", ms(&theirs))
        .goal(Goal::Ratio(GOAL))
        .headline()
        .print();
    Row::new(format!("record {SAMPLES} samples of {what}"), ms(&ours))
        .peer("its start, and receiving and writing the bytes", ms(&least))
        .print();
    let events = found.borrow()[0].values().map(|content| content.events).sum::<usize>();
    let unit = if events == 0 { "B" } else { "B a record" };
    let [[all, values], [their_all, their_values]] =
        sizes.into_inner().map(|of| of.map(|rounds| Figure::middle(rounds, unit)));
    Row::new(format!("the archive of {what}"), all)
        .peer("pmlogger's of the same version", their_all)
        .goal(Goal::Ratio(1.0))
        .print();
    // Ours describes the fields of event records, without which nobody can read them.
    Row::new(format!("the archive of {what}, values and index alone"), values)
        .peer("pmlogger's of the same version", their_values)
        .print();
}
