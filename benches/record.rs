//! `jumpseat record` against pmlogger, of the same metrics of the same pmcd, at the same interval and as often: processor time of
//! the program, and the size of its archive. First a thousand values and more of PCP's sample agent, then event records of jumpseat.
//!
//! Needs PCP installed; `./test` does that.

mod common;

use std::cell::RefCell;
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::clock::children_cpu;
use common::{Figure, Goal, Row, Times, race, rounds};
#[allow(dead_code, reason = "tests use the rest")]
#[path = "../tests/seat/mod.rs"]
mod seat;

use seat::{Seat, Transport};
use support::{AgentSpec, PrivatePmcd};

const SAMPLES: usize = 100;
/// Events a second, in portions of a millisecond.
const PORTION: usize = 5;
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
        record(&pmcd, "event records, 5,000 a second", &["jumpseat.event.records".to_owned()]);
        ended.store(true, Ordering::Relaxed);
    });
}

/// Sends events until it is time to end.
fn send(socket: &Path, ended: &AtomicBool) {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    let mut number = 0;
    while !ended.load(Ordering::Relaxed) {
        for _ in 0..PORTION {
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

fn record(pmcd: &PrivatePmcd, what: &str, names: &[String]) {
    let dir = tempfile::tempdir().expect("a directory");
    let (sizes, turn) = (RefCell::new([0; 2]), RefCell::new(0));
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
                    .args(["-h", &host, "-s", &samples, "-l"])
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
        sizes.borrow_mut()[which] =
            of_archive.filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum();
        took
    };
    let [ours, theirs] = race(rounds(10), [&mut || run(0), &mut || run(1)]);
    let ms = |times: &Times| Figure::time(times, 1.0, 1e-3, "ms of CPU");
    Row::new(format!("record {SAMPLES} samples of {what}"), ms(&ours))
        .peer("pmlogger", ms(&theirs))
        .goal(Goal::Ratio(GOAL))
        .print();
    let bytes = |which: usize| Figure::cost(sizes.borrow()[which] as f64, "B");
    Row::new(format!("the archive of {what}"), bytes(0))
        .peer("pmlogger's", bytes(1))
        .goal(Goal::Ratio(1.0))
        .print();
}
