//! System calls that fail: a scripted day of work of an agent, over and over, each time with another call failing now and then.
//!
//! `tests/c/faults.c` is preloaded. In a run one call of the C library fails with one error, at every so many-th call; runs with
//! the other remainders would hit every other call. What must hold: no panic; whoever cannot start says why and ends; whoever
//! started still serves when the faults are over, has lost nothing that it has not told of, and ends when told to.
//!
//! A sample of the runs is part of the tests. `JUMPSEAT_FAULTS_ALL=1 cargo nextest run --test interop -E 'test(faults)' --no-capture` does
//! them all, and prints how many faults there were.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::seat::{JUMPSEAT, Seat};
use jumpseat::client::{Context, Fetched};
use jumpseat::model::{InstanceValue, PM_IN_NULL, Pmid, Value, ValueSet};
use nix::errno::Errno::{self, *};
use nix::sys::signal::Signal;
use support::{PcpEnv, Process, free_port, preload, temp_dir, wait_until};

const ALL: &str = "JUMPSEAT_FAULTS_ALL";
/// Every so many-th call fails.
const STEP: usize = 7;
/// Faults of a run; then everything must be as ever.
const MOST: usize = 60;
const ROUNDS: usize = 3;
const LINES: usize = 100;
const FILE_LINES: usize = 20;
/// How long anything may take to be right again.
const PATIENCE: Duration = Duration::from_secs(30);

/// Calls of the C library, each with the errors it may have.
const CALLS: [(&str, &[Errno]); 44] = [
    ("read", &[EINTR, EIO]),
    ("readv", &[EINTR]),
    ("pread64", &[EINTR, EIO]),
    ("write", &[EINTR, ENOSPC, EIO]),
    ("pwrite64", &[EINTR, ENOSPC]),
    ("pwritev", &[EINTR, ENOSPC, EROFS, EIO]),
    ("writev", &[EINTR, EPIPE, ECONNRESET, ENOSPC]),
    ("recv", &[EINTR, ECONNRESET]),
    ("recvmsg", &[EINTR, ECONNRESET]),
    ("send", &[EINTR, EPIPE, ECONNRESET]),
    ("sendmsg", &[EINTR, EPIPE]),
    ("accept4", &[EINTR, EMFILE, ENFILE, ECONNABORTED, ENOMEM]),
    ("socket", &[EMFILE, ENOMEM]),
    ("socketpair", &[EMFILE]),
    ("bind", &[EADDRINUSE, EACCES]),
    ("listen", &[EADDRINUSE]),
    ("connect", &[ECONNREFUSED, EINTR]),
    ("getpeername", &[ENOTCONN]),
    ("getsockname", &[ENOMEM]),
    ("getsockopt", &[ENOMEM]),
    ("setsockopt", &[ENOMEM]),
    ("epoll_create1", &[EMFILE]),
    ("epoll_ctl", &[ENOMEM, ENOSPC]),
    ("epoll_wait", &[EINTR]),
    ("poll", &[EINTR]),
    ("eventfd", &[EMFILE]),
    ("inotify_init1", &[EMFILE]),
    ("inotify_add_watch", &[ENOSPC]),
    ("open64", &[EMFILE, EACCES, EINTR]),
    ("openat", &[EMFILE, EACCES, ENOSPC]),
    ("openat64", &[EMFILE, ENOSPC]),
    ("fsync", &[EIO, ENOSPC]),
    ("fdatasync", &[EIO, EINTR]),
    ("rename", &[ENOSPC, EACCES]),
    ("renameat", &[ENOSPC, EACCES]),
    ("unlink", &[EACCES]),
    ("unlinkat", &[EACCES]),
    ("mkdir", &[ENOSPC]),
    ("fchmod", &[EPERM]),
    ("fstat64", &[ENOMEM]),
    ("statx", &[ENOMEM, EACCES]),
    ("readdir64", &[EIO]),
    ("shutdown", &[ENOTCONN]),
    ("pthread_create", &[EAGAIN]),
];

/// What is to go wrong in a run.
#[derive(Clone, Copy, Debug)]
enum Faults {
    Fail { call: &'static str, errno: Errno, first: usize },
    Short { seed: u64 },
}

impl Faults {
    fn spec(self) -> String {
        match self {
            Faults::Fail { call, errno, first } => format!("{call}:{}:{first}:{STEP}:{MOST}", errno as i32),
            Faults::Short { seed } => format!("short:{seed}"),
        }
    }

    /// A signal, or less than was asked for: nobody needs to notice.
    fn is_harmless(self) -> bool {
        matches!(self, Faults::Short { .. } | Faults::Fail { errno: EINTR, .. })
    }
}

#[derive(Debug, Default)]
struct Outcome {
    faults: u64,
    calls: u64,
    /// It came through.
    worked: bool,
    problems: Vec<String>,
}

struct Day<'a> {
    dir: &'a Path,
    seat: Seat,
    otlp: u16,
    process: Process,
    host: String,
    /// Lines that nobody said were not taken.
    sent: u64,
}

/// A day of work. What is wrong with it is in the outcome.
fn day(faults: Faults) -> Outcome {
    let dir = temp_dir();
    let count = dir.path().join("count");
    fs::write(&count, [0; 16]).expect("the test's directory");
    let mut outcome = Outcome::default();
    match Day::begin(dir.path(), &count, faults) {
        Ok(mut day) => {
            outcome.worked = true;
            for round in 0..ROUNDS {
                day.round(round);
            }
            outcome.problems = day.end(faults);
        }
        Err(problem) => outcome.problems.extend(problem),
    }
    let counted = fs::read(&count).expect("the test's directory");
    let (numbers, _) = counted.as_chunks::<8>();
    (outcome.faults, outcome.calls) = (u64::from_ne_bytes(numbers[0]), u64::from_ne_bytes(numbers[1]));
    outcome
}

impl<'a> Day<'a> {
    /// Starts an agent. `Err(None)`: it does not, and says why.
    fn begin(dir: &'a Path, count: &Path, faults: Faults) -> Result<Day<'a>, Option<String>> {
        let otlp = free_port();
        fs::write(dir.join("app.log"), "").expect("the test's directory");
        let settings = format!(
            "[otlp]\nlisten = \"127.0.0.1:{otlp}\"\n[[file]]\npath = {:?}\nsource = \"app\"\nfrom = \"beginning\"\n",
            dir.join("app.log")
        );
        let seat = Seat::in_dir(dir, &settings);
        let mut command = PcpEnv::new().command(JUMPSEAT);
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(seat.config()).current_dir(dir);
        command.env("LD_PRELOAD", preload("tests/c/faults.c"));
        command.env("JUMPSEAT_FAULTS", faults.spec()).env("JUMPSEAT_FAULTS_COUNT", count);
        let mut process = Process::start(&mut command, dir, "serve");
        let started = wait_until(PATIENCE, || {
            if let Some(status) = process.exited() {
                return Some(Err(status));
            }
            let text = process.stdout();
            Some(Ok(text.lines().find_map(|line| line.strip_prefix("PCP clients: "))?.trim().to_owned()))
        });
        match started {
            Some(Ok(host)) => Ok(Day { dir, seat, otlp, process, host, sent: 0 }),
            Some(Err(status)) => {
                let said = process.text();
                let told = !status.success() && said.contains("jumpseat: ") && !said.contains("panicked");
                Err((!told).then(|| format!("it ended with {status} and said: {said}")))
            }
            None => Err(Some(format!("it neither starts nor ends: {}", process.text()))),
        }
    }

    fn round(&mut self, round: usize) {
        if self.send_lines(round).is_ok() {
            self.sent += LINES as u64;
        }
        let _ = self.send_log();
        let mut file =
            OpenOptions::new().append(true).open(self.dir.join("app.log")).expect("the test's file");
        for line in 0..FILE_LINES {
            writeln!(file, "line {round} {line}").expect("the test's file");
        }
        for _ in 0..3 {
            let _ = self.ask();
        }
        self.process.signal(Signal::SIGHUP);
    }

    fn send_lines(&self, round: usize) -> std::io::Result<()> {
        let mut stream = UnixStream::connect(self.seat.socket())?;
        stream.set_write_timeout(Some(Duration::from_secs(5)))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        writeln!(stream, "{{\"jumpseat\":{{\"source\":\"day\"}}}}")?;
        for line in 0..LINES {
            writeln!(stream, "{{\"type\":\"t{line}\",\"field{round}\":{line}}}")?;
        }
        // The agent closes when it has all of it, or when something is wrong: which of them, only it can tell.
        stream.shutdown(std::net::Shutdown::Write)?;
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).map(drop)
    }

    fn send_log(&self) -> std::io::Result<()> {
        let body = r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"hello"}}]}]}]}"#;
        let mut stream = TcpStream::connect(("127.0.0.1", self.otlp))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(
            stream,
            "POST /v1/logs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        stream.read_to_end(&mut Vec::new()).map(drop)
    }

    /// A client's work.
    fn ask(&self) -> Result<(), jumpseat::client::ClientError> {
        let mut context = Context::host(&self.host)?;
        let names = context.traverse("jumpseat")?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let pmids: Vec<Pmid> = context.lookup_names(&names)?.into_iter().flatten().collect();
        context.descs(&pmids)?;
        let records = context.pmid("jumpseat.event.records")?;
        let values =
            Ok(vec![InstanceValue { inst: PM_IN_NULL, value: Value::from("type != 'x'".to_owned()) }]);
        context.store(&[ValueSet { pmid: records, values }])?;
        context.fetch(&pmids, &mut Fetched::new()).map(drop)
    }

    /// The sum of a metric's values, or that of one instance.
    fn value(&self, metric: &str, instance: Option<&str>) -> Option<u64> {
        let shown = PcpEnv::new().run("pminfo", ["-h", &self.host, "-f", metric]).stdout;
        let values = shown.lines().filter(|line| {
            instance.is_none_or(|name| line.contains(&format!("or \"{name}\"]"))) && line.contains("value ")
        });
        let numbers: Vec<u64> =
            values.filter_map(|line| line.rsplit_once("value ")?.1.parse().ok()).collect();
        (!numbers.is_empty()).then(|| numbers.iter().sum())
    }

    /// When the faults are over.
    fn end(mut self, faults: Faults) -> Vec<String> {
        let mut problems = Vec::new();
        let mut check = |right: bool, what: String| {
            if !right {
                problems.push(what);
            }
        };
        // Until then some of this may fail, and uses faults up.
        let serves = wait_until(PATIENCE, || {
            let sent = self.send_lines(ROUNDS).is_ok();
            self.sent += if sent { LINES as u64 } else { 0 };
            (sent && self.ask().is_ok()).then_some(())
        });
        check(serves.is_some(), "it does not serve any more".to_owned());
        let all = (ROUNDS * FILE_LINES) as u64;
        let followed = wait_until(PATIENCE, || {
            (self.value("jumpseat.source.received", Some("app")) == Some(all)).then_some(())
        });
        let received = self.value("jumpseat.source.received", Some("app"));
        check(followed.is_some(), format!("of {all} lines of the file it has {received:?}"));
        let has = |day: &Day<'_>| {
            let [received, malformed] = ["received", "malformed"]
                .map(|name| day.value(&format!("jumpseat.source.{name}"), Some("day")).unwrap_or(0));
            received + malformed
        };
        let complete =
            wait_until(Duration::from_secs(5), || (has(&self) >= self.sent).then_some(())).is_some();
        let said = self.process.text();
        let told = said.contains("Warning") || said.contains("Error");
        check(
            complete || (told && !faults.is_harmless()),
            format!("of {} events it has {} and says nothing", self.sent, has(&self)),
        );
        self.process.signal(Signal::SIGTERM);
        let begun = Instant::now();
        let ended = wait_until(PATIENCE, || self.process.exited());
        check(
            ended.is_some_and(|status| status.success()),
            format!("SIGTERM: {ended:?} after {:?}", begun.elapsed()),
        );
        let said = self.process.text();
        check(!said.contains("panicked"), "it panicked".to_owned());
        if !problems.is_empty() {
            problems.push(said);
        }
        problems
    }
}

/// The runs that are to be: of each call and error those with all remainders, or one.
fn runs() -> Vec<Faults> {
    let mut runs = Vec::new();
    let all = std::env::var_os(ALL).is_some();
    for (nth, (call, errors)) in CALLS.iter().enumerate() {
        for (at, &errno) in errors.iter().enumerate() {
            if all {
                runs.extend((1..=STEP).map(|first| Faults::Fail { call, errno, first }));
            } else if at == nth % errors.len() {
                runs.push(Faults::Fail { call, errno, first: 1 + nth % STEP });
            }
        }
    }
    runs.extend((0..if all { 20 } else { 2 }).map(|seed| Faults::Short { seed }));
    runs
}

/// Does all runs, several at a time, and returns how many faults there were, how many runs came through, and what was wrong.
fn all(runs: &[Faults], run: impl Fn(Faults) -> Outcome + Sync) -> (u64, u32) {
    let next = AtomicUsize::new(0);
    let work = || {
        let (mut faults, mut started, mut bad) = (0, 0, Vec::new());
        while let Some(which) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = run(*which);
            println!(
                "{which:?}: {} faults in {} calls, worked {}",
                outcome.faults, outcome.calls, outcome.worked
            );
            faults += outcome.faults;
            started += u32::from(outcome.worked);
            if !outcome.problems.is_empty() {
                bad.push((*which, outcome.problems));
            }
        }
        (faults, started, bad)
    };
    let (mut faults, mut worked, mut bad) = (0, 0, Vec::new());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            let (more, also, worse) = thread.join().expect("it runs");
            faults += more;
            worked += also;
            bad.extend(worse);
        }
    });
    println!("{faults} faults in {} runs, {worked} of them worked", runs.len());
    assert!(bad.is_empty(), "{} of {} runs: {bad:#?}", bad.len(), runs.len());
    (faults, worked)
}

#[test]
fn an_agent_survives_faults_of_the_system() {
    let runs = runs();
    let (faults, worked) = all(&runs, day);
    assert!(faults > runs.len() as u64 && worked > runs.len() as u32 / 2, "{faults} {worked}");
}

/// A tool's work next to an agent that is well.
fn tool(faults: Faults, host: &str, socket: &Path, words: &[&str]) -> Outcome {
    let dir = temp_dir();
    let count = dir.path().join("count");
    fs::write(&count, [0; 16]).expect("the test's directory");
    let archive = dir.path().join("archive");
    let mut command = PcpEnv::new().command(JUMPSEAT);
    for word in words {
        match *word {
            "HOST" => command.arg(host),
            "ARCHIVE" => command.arg(&archive),
            "SOCKET" => command.arg(socket),
            word => command.arg(word),
        };
    }
    let input = dir.path().join("input");
    fs::write(&input, "{\"type\":\"x\"}\n".repeat(LINES)).expect("the test's directory");
    command.current_dir(dir.path()).env("LD_PRELOAD", preload("tests/c/faults.c"));
    command.env("JUMPSEAT_FAULTS", faults.spec()).env("JUMPSEAT_FAULTS_COUNT", &count);
    command.stdin(fs::File::open(&input).expect("the test's file"));
    let mut process = Process::start_with_input(&mut command, dir.path(), "tool");
    let mut outcome = Outcome::default();
    let status = wait_until(PATIENCE, || process.exited());
    let said = process.text();
    match status {
        None => outcome.problems.push(format!("it hangs: {said}")),
        Some(_) if said.contains("panicked") => outcome.problems.push(said.clone()),
        Some(status) if status.success() => outcome.worked = true,
        // Whoever reads the message is told what went wrong.
        Some(status) if status.code() != Some(1) || !said.contains("rror") && !said.contains("annot") => {
            outcome.problems.push(format!("{status}: {said}"));
        }
        Some(_) => {}
    }
    if outcome.worked && words[0] == "record" {
        // What is said to be written is there, whole.
        let dump = PcpEnv::new().run("pmdumplog", ["-m".as_ref(), archive.as_os_str()]).stdout;
        let samples = dump.lines().filter(|line| line.contains("jumpseat.self.pid")).count();
        if samples != 4 {
            outcome.problems.push(format!("{samples} of 4 samples, and it says nothing: {said}"));
        }
    }
    // A value, or why there is none: as pminfo, which ends well in either case.
    let told = said.matches("value ").count() + said.matches(": pm").count();
    if outcome.worked && words[0] == "info" && told < 40 {
        outcome.problems.push(format!("values are missing, and it says nothing: {said}"));
    }
    let counted = fs::read(&count).expect("the test's directory");
    let (numbers, _) = counted.as_chunks::<8>();
    (outcome.faults, outcome.calls) = (u64::from_ne_bytes(numbers[0]), u64::from_ne_bytes(numbers[1]));
    outcome
}

#[test]
fn tools_do_their_work_or_say_why_not() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve([]);
    seat.feed([], "{\"type\":\"x\"}\n").ok();
    let received = || {
        let shown = endpoint.run("pminfo", ["-f", "jumpseat.source.received"]).ok();
        let line = shown.lines().find(|line| line.contains("or \"test\"]")).expect("the source").to_owned();
        line.rsplit_once("value ").and_then(|(_, value)| value.parse::<u64>().ok()).expect("a number")
    };
    for words in [
        &["info", "-h", "HOST", "-f", "jumpseat.self"][..],
        &[
            "record",
            "-h",
            "HOST",
            "-t",
            "20msec",
            "-s",
            "4",
            "ARCHIVE",
            "jumpseat.self",
            "jumpseat.event.recent",
        ],
        &["feed", "--socket", "SOCKET"],
    ] {
        let before = received();
        let (_, worked) = all(&runs(), |faults| tool(faults, &endpoint.host(), &seat.socket(), words));
        assert!(worked > 10, "{words:?}: {worked}");
        if words[0] == "feed" {
            // Those that failed may have got some through.
            let least = u64::from(worked) * LINES as u64;
            wait_until(PATIENCE, || (received() - before >= least).then_some(()));
            assert!(received() - before >= least, "{} of {least}: lost without a word", received() - before);
        }
    }
}
