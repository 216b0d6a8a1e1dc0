//! Readers that stay connected to pmcd while the agent dies under it: each record reaches each of them once.

use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use support::random::Random;
use support::{LoggerRun, PrivatePmcd, Process, eventually};

use super::positions::{Item, items};
use crate::seat::{JUMPSEAT, Seat, Transport, kill_agent};

const METRICS: [&str; 2] = ["jumpseat.event.records", "jumpseat.event.highres_records"];
/// How often the agent is killed.
const KILLS: usize = 20;

fn line(n: u64) -> String {
    format!(
        "{{\"n\":{n},\"text\":\"some text, so that answers are longer than what a pipe takes at once\"}}\n"
    )
}

/// Each number from the first on is there once, in order, or missed at its place. Returns the number behind the last, and how
/// many were missed.
fn check(items: &[Item]) -> (u64, u64) {
    let (mut next, mut lost, mut doubtful) = (1, 0, 0);
    for item in items {
        match *item {
            Item::Missed(count) => (doubtful, lost) = (doubtful + count, lost + count),
            // Of an answer of which the agent could not know they are told as missed although they came.
            Item::Record(n) => {
                assert!(n == next || n == next + doubtful, "{n} in place of {next}, {doubtful} missed");
                (next, doubtful) = (n + 1, 0);
            }
        }
    }
    (next + doubtful, lost)
}

#[test]
fn loggers_neither_lose_nor_repeat_when_the_agent_is_killed() {
    let builder = PrivatePmcd::with([]);
    let seat = Seat::in_dir(builder.dir(), "").patient();
    let mut pmcd = builder.agent(seat.agent(Transport::Pipe)).start();
    pmcd.wait_ready("jumpseat");
    // Metrics have their names when a logger starts.
    seat.feed([], &line(0)).ok();
    let metrics = [METRICS[0], METRICS[1], "jumpseat.field.n"];
    // pmcd tells who is at its own socket, and nothing of who comes over TCP.
    let hosts = [pmcd.unix(), pmcd.inet()];
    let mut loggers =
        hosts.map(|host| LoggerRun::start(pmcd.env(), &host, &metrics, Duration::from_millis(20)));
    let readers = || pmcd.value("jumpseat.self.streams.count").and_then(|text| text.parse::<u32>().ok());
    eventually("both read", || (readers()? >= 4).then_some(()));
    let mut feed = Command::new(JUMPSEAT)
        .args(["feed", "--quiet", "--socket"])
        .arg(seat.socket())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program is built");
    let mut input = feed.stdin.take().expect("it is piped");
    let load = thread::spawn(move || {
        for n in 1..=60_000 {
            input.write_all(line(n).as_bytes()).expect("it reads");
            if n % 200 == 0 {
                thread::sleep(Duration::from_millis(10));
            }
        }
        60_000
    });
    let resumed = |pmcd: &PrivatePmcd| {
        let text = pmcd.value("jumpseat.self.contexts.resumed")?;
        text.parse::<usize>().ok()
    };
    let mut random = Random::new(12, 41);
    let mut went_on = 0;
    for _ in 0..KILLS {
        thread::sleep(Duration::from_micros(random.below(60_000) as u64));
        kill_agent(&mut pmcd);
        went_on += eventually("the loggers to go on", || {
            let living = loggers.iter_mut().map(gave_up).filter(|gone| !gone).count();
            (resumed(&pmcd)? >= living).then_some(living)
        });
    }
    let sent = load.join().expect("it has not panicked");
    let output = feed.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(went_on >= KILLS / 2, "the loggers have seen {went_on} deaths only");
    for mut logger in loggers {
        let base = logger.archive().base().display().to_string();
        if gave_up(&mut logger) {
            METRICS.iter().for_each(|metric| _ = check(&items(&base, metric)));
            continue;
        }
        for metric in METRICS {
            let missed = eventually("all that was sent", || {
                let (next, missed) = check(&items(&base, metric));
                (next > sent).then_some(missed)
            });
            eprintln!("{metric}: {missed} told as missed");
            assert!(missed < sent / 10, "{missed} of {sent}");
        }
        logger.finish();
    }
}

/// Whether pmlogger has ended because pmcd had no instances for it: that is what it does if an agent dies just then. What it
/// has written until then still counts.
fn gave_up(logger: &mut LoggerRun) -> bool {
    logger.has_ended() && logger.log().contains("\npmGetInDom(")
}

#[test]
fn a_filter_and_the_counters_of_a_reader_go_on() {
    for transport in [Transport::Pipe, Transport::Unix] {
        let builder = PrivatePmcd::with([]);
        let seat = Seat::in_dir(builder.dir(), "");
        let mut pmcd = builder.agent(seat.agent(transport)).start();
        pmcd.wait_ready("jumpseat");
        seat.feed([], &line(0)).ok();
        let mut pmval = pmcd.env().command("pmval");
        pmval.args(["-h", &pmcd.unix(), "-x", "n >= 20", "-t", "0.02", METRICS[1]]);
        let mut reader = Process::start(&mut pmval, pmcd.dir(), "pmval");
        // What the reader has got, and what became of the others, by the name of its stream.
        let counts = |pmcd: &PrivatePmcd| {
            let shown = pmcd.run("pminfo", ["-f", "jumpseat.client.delivered", "jumpseat.client.filtered"]);
            let lines = shown.stdout.lines().filter_map(|line| line.trim().strip_prefix("inst ["));
            let highres = lines.filter(|line| line.contains("highres_records"));
            highres.map(|line| line.split_once(" or ").expect("a name").1.to_owned()).collect::<Vec<_>>()
        };
        eventually("it reads", || (!counts(&pmcd).is_empty()).then_some(()));
        let name = counts(&pmcd)[0].split_once(']').expect("a name").0.to_owned();
        let expect = |pmcd: &PrivatePmcd, delivered: u64, filtered: u64| {
            let wanted = [format!("{name}] value {delivered}"), format!("{name}] value {filtered}")];
            eventually(&format!("{wanted:?}"), || (counts(pmcd) == wanted).then_some(()));
        };
        seat.feed([], &(1..25).map(line).collect::<String>()).ok();
        expect(&pmcd, 5, 19);
        kill_agent(&mut pmcd);
        seat.feed([], &(10..30).map(line).collect::<String>()).ok();
        expect(&pmcd, 15, 29);
        reader.crash();
        let shown = reader.text();
        assert_eq!(
            (shown.matches("jumpseat.field.n").count(), shown.matches("missed").count()),
            (15, 0),
            "{shown}"
        );
    }
}
