//! Readers that say where they were: an archive that was interrupted goes on with the next record, and `jumpseat events`
//! begins where it is told to.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

use byteorder::BigEndian;
use jumpseat::archive::{Archive, ArchiveWriter, Step, WriteOptions};
use jumpseat::client::{Context, Fetched};
use jumpseat::event::{ArrayKind, ArrayReader, Param};
use jumpseat::model::{Pmid, ValueType};
use jumpseat::pdu::ValueRef;
use jumpseat::recorder::{Recorder, label_of};
use nix::sys::signal::Signal;
use support::{Output, PcpEnv, PrivatePmcd, Process, eventually, records, temp_dir, whole_records};

use crate::seat::{JUMPSEAT, Seat, Transport, kill_agent};

const METRICS: [&str; 2] = ["jumpseat.event.records", "jumpseat.event.highres_records"];

/// Records are kept in memory only.
const MEMORY: &str = "[log]\ndir = \"memory\"\n";

/// What an archive holds of one metric, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Record(u64),
    Missed(u64),
}

pub(crate) fn items(base: &str, metric: &str) -> Vec<Item> {
    let Ok(mut archive) = Archive::open(base) else { return Vec::new() };
    let (Ok(pmid), Ok(number), Ok(missed)) = (
        archive.lookup_name(metric),
        archive.lookup_name("jumpseat.field.n"),
        archive.lookup_name(metric).map(|pmid| Pmid::new(pmid.domain(), 16, 5)),
    ) else {
        return Vec::new();
    };
    let is_highres = archive.desc(pmid).is_ok_and(|desc| desc.value_type == ValueType::HighResEvent);
    let kind = if is_highres { ArrayKind::HighRes } else { ArrayKind::Event };
    let (mut items, mut at) = (Vec::new(), archive.first());
    // A record at the end may be half there.
    while let Ok(Some(step)) = archive.next(at) {
        let Step::Record(place, behind) = step else { panic!("one archive") };
        at = behind;
        let record = archive.record(place).expect("a whole record");
        let values = record.sets().find(|set| set.pmid == pmid).and_then(|set| set.values.ok());
        for (_, value) in values.iter().flat_map(|values| values.iter()) {
            let ValueRef::Block(block) = value else { panic!("{value:?}") };
            for record in ArrayReader::<BigEndian>::new(kind, block).expect("an array").records() {
                let param = |pmid| record.params().find(|param| param.pmid == pmid).map(|param| param.value);
                match (record.missed(), param(missed), param(number)) {
                    (Some(_), ..) if is_highres => {}
                    (Some(count), ..) => items.push(Item::Missed(count.unsigned_abs().into())),
                    (None, Some(Param::U64(count)), _) => items.push(Item::Missed(count)),
                    (None, _, Some(Param::I64(n))) => items.push(Item::Record(n.unsigned_abs())),
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    items
}

/// The numbers that an archive tells of from 0 on, each once and in order. How many were missed.
fn check_numbers(items: &[Item]) -> (u64, u64) {
    let (mut next, mut lost) = (0, 0);
    for item in items {
        match item {
            Item::Record(n) => {
                assert_eq!(*n, next, "not the next one");
                next += 1;
            }
            Item::Missed(count) => {
                next += count;
                lost += count;
            }
        }
    }
    (next, lost)
}

fn told(base: &str, metric: &str) -> u64 {
    check_numbers(&items(base, metric)).0
}

fn check(base: &str) {
    let checked = PcpEnv::new().run("pmlogcheck", [base]);
    assert!(checked.status.success() && checked.stderr.is_empty() && checked.stdout.is_empty(), "{checked}");
}

/// Sends numbered events until it is told to end.
struct Load {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Load {
    fn start(seat: &Seat) -> Load {
        let ends = Arc::new(AtomicBool::new(false));
        let (end, socket) = (Arc::clone(&ends), seat.socket());
        let thread = thread::spawn(move || {
            let mut stream = UnixStream::connect(socket).expect("the agent listens");
            let mut n = 0;
            while !end.load(Ordering::Relaxed) {
                let lines: String =
                    (n..n + 20).map(|n| format!("{{\"n\":{n},\"text\":\"some text\"}}\n")).collect();
                stream.write_all(lines.as_bytes()).expect("the agent reads");
                n += 20;
                // So that all of them have room in memory.
                sleep(Duration::from_millis(2));
            }
            n
        });
        Load { ends, thread }
    }

    /// How many it has sent.
    fn end(self) -> u64 {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().expect("it has not panicked")
    }
}

fn start(pmcd: &PrivatePmcd, dir: &Path, base: &str, metrics: &[&str]) -> Process {
    let mut command = pmcd.env().command(JUMPSEAT);
    command.args(["record", "-h", &pmcd.inet(), "-t", "3msec", "--append", base]).args(metrics);
    command.env("PMCD_RECONNECT_TIMEOUT", "1");
    Process::start(&mut command, dir, "record")
}

fn size(base: &str) -> u64 {
    fs::metadata(format!("{base}.0")).map_or(0, |meta| meta.len())
}

/// A client that has read nothing of what came since: all of it stays in the agent's memory.
fn holder(pmcd: &PrivatePmcd) -> Context {
    let mut context = Context::host(&pmcd.inet()).expect("pmcd answers");
    let pmids = METRICS.map(|name| context.pmid(name).expect("a metric"));
    context.fetch(&pmids, &mut Fetched::new()).expect("fetched");
    context
}

/// Kills the recorder at any point of its work, ten times, and continues its archive each time. How many events were
/// sent, and how many are missed in the archive.
fn kill_and_continue(settings: &str, is_held: bool) -> (u64, u64) {
    let builder = PrivatePmcd::with([]);
    let budget = "[events]\nsource_budget = \"64MiB\"\ntotal_budget = \"64MiB\"\n";
    let seat = Seat::in_dir(builder.dir(), &format!("{budget}{settings}")).patient();
    let pmcd = builder.agent(seat.agent(Transport::Pipe)).start();
    pmcd.wait_ready("jumpseat");
    let dir = temp_dir();
    let base = dir.path().join("a").display().to_string();
    let _holder = is_held.then(|| holder(&pmcd));
    let mut random = support::random::Random::new(12, is_held.into());
    let mut recording = start(&pmcd, dir.path(), &base, &METRICS);
    eventually("the first record", || (size(&base) > 900).then_some(()));
    let load = Load::start(&seat);
    for _ in 0..10 {
        let enough = size(&base) + 1 + random.below(60_000) as u64;
        eventually("more of the archive", || {
            assert!(recording.exited().is_none(), "{}", recording.text());
            (size(&base) >= enough).then_some(())
        });
        recording.crash();
        recording = start(&pmcd, dir.path(), &base, &METRICS);
    }
    let sent = load.end();
    eventually("all that was sent", || {
        METRICS.iter().all(|metric| told(&base, metric) == sent).then_some(())
    });
    recording.signal(Signal::SIGTERM);
    assert!(recording.wait().success(), "{}", recording.text());
    assert!(!recording.text().contains("gone"), "{}", recording.text());
    check(&base);
    let missed = METRICS.map(|metric| {
        let (next, lost) = check_numbers(&items(&base, metric));
        assert_eq!(next, sent);
        lost
    });
    (sent, missed[0].max(missed[1]))
}

#[test]
fn an_archive_whose_recorder_is_killed_again_and_again_has_each_record_once() {
    let (sent, missed) = kill_and_continue("", false);
    assert_eq!(missed, 0, "of {sent}");
}

#[test]
fn so_it_has_without_a_disk_while_another_reader_keeps_them() {
    let (sent, missed) = kill_and_continue(MEMORY, true);
    assert_eq!(missed, 0, "of {sent}");
}

#[test]
fn what_nobody_kept_meanwhile_is_a_missed_record_with_the_exact_number() {
    // Without a reader, and without a disk, the agent keeps the newest only.
    let (sent, missed) = kill_and_continue(MEMORY, false);
    assert!(missed < sent, "{missed} of {sent}");
}

/// Lines with these numbers.
fn lines(numbers: std::ops::Range<u64>) -> String {
    numbers.map(|n| format!("{{\"n\":{n}}}\n")).collect()
}

#[test]
fn a_recorder_goes_on_with_an_agent_that_has_begun_anew_and_says_so() {
    let builder = PrivatePmcd::with([]);
    let seat = Seat::in_dir(builder.dir(), MEMORY);
    let mut pmcd = builder.agent(seat.agent(Transport::Pipe)).start();
    pmcd.wait_ready("jumpseat");
    let dir = temp_dir();
    let base = dir.path().join("a").display().to_string();
    let metrics = ["jumpseat.event.records", "jumpseat.self.pid"];
    let mut recording = start(&pmcd, dir.path(), &base, &metrics);
    eventually("the first record", || (size(&base) > 900).then_some(()));
    let wait_for = |recording: &mut Process, n: u64| {
        eventually(&format!("{n} records"), || {
            assert!(recording.exited().is_none(), "{}", recording.text());
            (told(&base, METRICS[0]) == n).then_some(())
        });
    };
    seat.feed([], &lines(0..5)).ok();
    wait_for(&mut recording, 5);
    // The agent dies with its pmcd, and all that it knew. What comes before the recorder does is for it, too.
    pmcd.restart();
    pmcd.wait_ready("jumpseat");
    seat.feed([], &lines(5..10)).ok();
    wait_for(&mut recording, 10);
    let gone = |recording: &Process, count: usize| {
        eventually("the message", || {
            (recording.text().matches("test: its records from 5@").count() == count).then_some(())
        });
        let text = recording.text();
        assert!(text.contains("are gone (source test: sequence numbers of epoch "), "{text}");
        assert!(text.contains("the log was begun anew"), "{text}");
    };
    gone(&recording, 1);
    // It dies alone, and comes again under the same pmcd: the recorder's connection stays.
    kill_agent(&mut pmcd);
    seat.feed([], &lines(10..15)).ok();
    wait_for(&mut recording, 15);
    gone(&recording, 2);
    recording.signal(Signal::SIGTERM);
    assert!(recording.wait().success(), "{}", recording.text());
    check(&base);
    // Nobody records; somebody goes on.
    seat.feed([], &lines(15..20)).ok();
    let mut recording = start(&pmcd, dir.path(), &base, &metrics);
    wait_for(&mut recording, 20);
    recording.signal(Signal::SIGTERM);
    assert!(recording.wait().success(), "{}", recording.text());
    check(&base);
    let all: Vec<Item> = (0..20).map(Item::Record).collect();
    assert_eq!(items(&base, METRICS[0]), all);
}

/// A recorder that continues an archive. `ahead`: the archive gets a record of so many seconds from now first.
fn recorder(host: &str, base: &str, ahead: Option<i64>) -> Recorder {
    let mut context = Context::host(host).expect("the agent answers");
    let label = label_of(&mut context, "no.host").expect("the agent answers");
    let mut archive = ArchiveWriter::append(base, label, WriteOptions::default()).expect("writable");
    if let Some(ahead) = ahead {
        let pmid = context.pmid("jumpseat.self.pid").expect("a metric");
        let mut fetched = Fetched::new();
        context.fetch(&[pmid], &mut fetched).expect("fetched");
        fetched.timestamp.sec += ahead;
        let desc = context.desc(pmid).expect("a metric");
        archive.desc(&desc, &["jumpseat.self.pid"]).expect("described");
        archive.result(&fetched).expect("written");
    }
    Recorder::new(context, archive, METRICS).expect("the metrics are there")
}

#[test]
fn what_was_fetched_and_not_written_is_fetched_again() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve([]);
    let mut holder = Context::host(&endpoint.host()).expect("the agent answers");
    let pmids = METRICS.map(|name| holder.pmid(name).expect("a metric"));
    holder.fetch(&pmids, &mut Fetched::new()).expect("fetched");
    let base = dir.path().join("a").display().to_string();

    // A connection that breaks, with an agent that stays.
    let mut recorder = recorder(&endpoint.host(), &base, None);
    assert!(recorder.sample().expect("recorded"));
    for from in (0..20).step_by(5) {
        seat.feed([], &lines(from..from + 5)).ok();
        if from == 5 {
            // It was read already, and somebody has lost it.
            let context = recorder.context();
            context.fetch(&pmids, &mut Fetched::new()).expect("fetched");
        }
        recorder.reconnect().expect("the agent is there");
        eventually("five more", || {
            let written = recorder.sample().expect("fetched");
            (written && told(&base, METRICS[0]) == from + 5).then_some(())
        });
    }
    assert_eq!(recorder.notices(), []);
    recorder.finish().expect("finished");

    // Samples that are left out, as the archive's last is ahead of the clock.
    let base = dir.path().join("b").display().to_string();
    let mut recorder = self::recorder(&endpoint.host(), &base, None);
    assert!(recorder.sample().expect("recorded"));
    recorder.finish().expect("finished");
    let mut recorder = self::recorder(&endpoint.host(), &base, Some(2));
    seat.feed([], &lines(0..7)).ok();
    assert!(!recorder.sample().expect("left out"));
    eventually("the clock to get there", || recorder.sample().expect("fetched").then_some(()));
    recorder.finish().expect("finished");
    for metric in METRICS {
        let all: Vec<Item> = (0..7).map(Item::Record).collect();
        assert_eq!(items(&base, metric), all, "{metric}");
        assert_eq!(items(&base.replace("/b", "/a"), metric).len(), 20);
    }
}

#[test]
fn whoever_dies_the_archive_has_each_record_once() {
    let builder = PrivatePmcd::with([]);
    let seat = Seat::in_dir(builder.dir(), "");
    let mut pmcd = builder.agent(seat.agent(Transport::Pipe)).start();
    pmcd.wait_ready("jumpseat");
    let dir = temp_dir();
    let base = dir.path().join("a").display().to_string();
    let mut recording = start(&pmcd, dir.path(), &base, &METRICS);
    eventually("the first record", || (size(&base) > 900).then_some(()));
    let mut random = support::random::Random::new(12, 3);
    let (mut sent, mut deaths) = (0, [0; 4]);
    for _ in 0..24 {
        let count = 1 + random.below(400) as u64;
        seat.feed([], &lines(sent..sent + count)).ok();
        sent += count;
        let who = random.below(4);
        deaths[who] += 1;
        let is_recorder = who == 0 || random.percent(30);
        if is_recorder {
            recording.crash();
        }
        match who {
            1 | 2 => kill_agent(&mut pmcd),
            3 => {
                pmcd.restart();
                pmcd.wait_ready("jumpseat");
            }
            _ => {}
        }
        if is_recorder {
            let before = size(&base);
            recording = start(&pmcd, dir.path(), &base, &METRICS);
            // One that cannot begin at all ends: that is not what is tried here.
            eventually("a sample", || (size(&base) > before).then_some(()));
        }
    }
    eventually("all that was sent", || {
        assert!(recording.exited().is_none(), "{}", recording.text());
        METRICS.iter().all(|metric| told(&base, metric) == sent).then_some(())
    });
    recording.signal(Signal::SIGTERM);
    assert!(recording.wait().success(), "{}", recording.text());
    check(&base);
    for metric in METRICS {
        assert_eq!(check_numbers(&items(&base, metric)), (sent, 0), "{deaths:?}");
    }
}

#[test]
fn events_of_before_come_from_disk() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let mut endpoint = seat.serve([]);
    // Each with the time that its number says.
    let timed = |numbers: std::ops::Range<u64>| -> String {
        numbers.map(|n| format!("{{\"n\":{n},\"time\":{}}}\n", 1_000_000_000 + n)).collect()
    };
    seat.feed([], &timed(0..3000)).ok();
    endpoint.process.crash();
    let endpoint = seat.serve([]);
    seat.feed([], &timed(3000..6000)).ok();
    for (since, first) in [("oldest", 0), ("17", 17), ("@1000002500", 2500), ("@1000004500", 4500)] {
        // What is on disk comes when it has been fetched from there.
        let mut command = PcpEnv::new().command(JUMPSEAT);
        command.args(["events", "-h", &endpoint.host(), "-t", "10msec", "--since", since, METRICS[0]]);
        let mut events = Process::start(&mut command, dir.path(), &format!("events{first}"));
        let shown = eventually(since, || whole_records(&events.stdout(), 6000 - first, "jumpseat.field.n"));
        events.stop();
        let numbers: Vec<usize> =
            shown.iter().filter_map(|record| record.get("jumpseat.field.n")?.parse().ok()).collect();
        assert_eq!(numbers, (first..6000).collect::<Vec<_>>(), "{since}");
    }
}

#[test]
fn events_begin_where_they_are_told_to() {
    let builder = PrivatePmcd::with([]);
    let seat = Seat::in_dir(builder.dir(), "");
    let pmcd = builder.agent(seat.agent(Transport::Pipe)).start();
    pmcd.wait_ready("jumpseat");
    seat.feed([], &lines(0..10)).ok();
    let dir = temp_dir();
    let served = Seat::in_dir(dir.path(), "");
    let endpoint = served.serve([]);
    served.feed([], &lines(0..10)).ok();
    for host in [pmcd.inet(), endpoint.host()] {
        let events = |args: &[&str]| -> Output {
            PcpEnv::new().run(JUMPSEAT, ["events", "-h", &host, "-s", "1", "-t", "1msec"].iter().chain(args))
        };
        for metric in METRICS {
            for (since, count) in [
                ("oldest", 10),
                ("0", 10),
                ("7", 3),
                ("10", 0),
                ("newest", 0),
                ("-1hour", 10),
                ("10 min", 10),
                ("@1000000000", 10),
                ("2001-09-09", 10),
                ("2037-01-01", 0),
            ] {
                let shown = events(&["--since", since, metric]).ok();
                assert_eq!(records(&shown).len(), count, "{since}: {shown}");
            }
            let one = events(&["--since", "8", &format!("{metric}[test]")]).ok();
            assert_eq!(records(&one).len(), 2, "{one}");
        }
        for (args, reason) in [
            (["--since", "11", METRICS[0]], "source test: there is no record 11 yet: the next one is 10"),
            (["--since", "1@1", METRICS[0]], "sequence numbers of epoch 1 say nothing here"),
            (["--since", "soon", METRICS[0]], "allowed are a time, an age such as 10min"),
            (["--since", "0", "jumpseat.source.received"], "jumpseat.source.received has no positions"),
        ] {
            let refused = events(&args).fails(1);
            assert!(refused.contains(reason), "{refused}");
        }
    }
    let archive = ["events", "-a", "/nowhere/a", "--since", "0", METRICS[0]];
    let refused = PcpEnv::new().run(JUMPSEAT, archive).fails(1);
    assert!(refused.contains("since can only be used with hosts"), "{refused}");
}
