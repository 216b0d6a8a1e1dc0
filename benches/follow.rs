//! A file through the whole source, to the event log: the thread that follows (read, parse, pack, hand over) and the core
//! (take, append). Printed: lines per second of CPU time of both together, which is what one core can do whatever else
//! the machine is busy with.
//!
//! Against it, in the same run: a C program that reads the same file with `getline(3)` (the floor of any reader in C), and
//! some that put each line through a regular expression and copy the groups out, with `regexec(3)` and with PCRE2 and its JIT
//! (Debian: `libpcre2-dev`; without it that is NOT MEASURED). That is a part of what format `plain` does: so there is a row for that part alone,
//! lines read, matched and their groups copied out, and one for all of it, the time parsed and a record made besides. What all find is
//! compared: lines that match, and bytes in their groups. The floor of the part is the same where nothing is to be found: lines read, and
//! pieces copied out of places that are those of the first line's groups.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crossbeam_channel::bounded;
use jumpseat::event::log::{EventLog, LogConfig};
use jumpseat::model::Pmid;
use jumpseat::source::delivery::Inlet;
use jumpseat::source::follow::lines::{Pattern, Piece, Splitter, is_text};
use jumpseat::source::follow::{FileConfig, Follow, FollowConfig, FormatName, From, QUEUE};
use jumpseat::source::outlet::Outlet;
use jumpseat::source::registry::{Registry, RegistryConfig};

mod common;
use common::clock::{cpu_of, thread_cpu};
use common::race;
use common::{Figure, Goal, Row, Times};
use support::CPeer;

const LINES: u64 = 500_000;

/// For all: POSIX has no named groups, the others do.
const PATTERN: &str = r"^(?<host>[0-9.]+) - - \[(?<time>[^]]+)\] (?<type>[A-Z]+) (?<message>[^ ]+) (?<status>[0-9]+) (?<bytes>[0-9]+)$";
const POSIX: &str = "^([0-9.]+) - - \\[([^]]+)\\] ([A-Z]+) ([^ ]+) ([0-9]+) ([0-9]+)$";

/// Lines as they are found, and expressions for them: nginx's combined format, and what daemons leave in files of syslog.
const COMBINED: &str = r#"^(?<client>\S+) \S+ (?<user>\S+) \[(?<time>[^\]]+)\] "(?<message>(?<method>\S+) (?<path>\S+) (?<protocol>[^"]+))" (?<status>\d+) (?<bytes>\d+|-) "(?<referer>[^"]*)" "(?<agent>[^"]*)"$"#;
const SYSLOG: &str = r"^(?<time>\w{3} [ \d]\d \d\d:\d\d:\d\d) (?<host>\S+) (?<type>[^\[: ]+)(?:\[(?<pid>\d+)\])?: (?<message>.*)$";
const AGENTS: [&str; 3] = [
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36",
    "curl/8.5.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Mobile/15E148 Safari/604.1",
];

/// The minute in which this begins, in UTC: times of another day would be counted as such.
struct Minute {
    /// `20/Nov/2026:13:16`
    request: String,
    /// `Nov 20 13:16`
    syslog: String,
    /// `2026-11-20T13:16`
    rfc3339: String,
    /// `1120 13:16`
    klog: String,
}

impl Minute {
    fn now() -> Minute {
        let forms = "+%d/%b/%Y:%H:%M\n%b %e %H:%M\n%Y-%m-%dT%H:%M\n%m%d %H:%M";
        let output =
            Command::new("date").arg("-u").arg(forms).env("LC_ALL", "C").output().expect("coreutils");
        let text = String::from_utf8(output.stdout).expect("a text");
        let [request, syslog, rfc3339, klog] =
            text.lines().map(str::to_owned).collect::<Vec<_>>().try_into().expect("four lines");
        Minute { request, syslog, rfc3339, klog }
    }
}

fn combined(minute: &Minute, n: u64) -> String {
    let (second, id, agent) = (n % 60, n % 50_000, AGENTS[n as usize % AGENTS.len()]);
    let referer =
        if n.is_multiple_of(4) { "-".to_owned() } else { format!("https://example.com/items/{}", n % 100) };
    format!(
        "10.0.{}.{} - - [{}:{second:02} +0000] \"GET /items/{id:06}?limit=100&page=7 HTTP/1.1\" 200 {id} \"{referer}\" \"{agent}\"",
        n % 7,
        n % 256,
        minute.request
    )
}

fn syslog(minute: &Minute, n: u64) -> String {
    let (minute, second, host, pid) = (&minute.syslog, n % 60, n % 4, n % 30_000);
    match n % 3 {
        0 => {
            format!("{minute}:{second:02} web{host} kernel: eth0: link is up, {pid} Mbit/s, full duplex")
        }
        1 => format!(
            "{minute}:{second:02} web{host} sshd[{pid}]: Accepted publickey for user{host} from 10.0.0.7 port {pid} ssh2"
        ),
        _ => format!(
            "{minute}:{second:02} web{host} systemd[1]: Started session-{pid}.scope - Session {pid} of User root."
        ),
    }
}

fn line(minute: &Minute, format: FormatName, n: u64) -> String {
    let (micros, id) = (n % 1_000_000, n % 50_000);
    let sec = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs()) + n / 1_000_000;
    match format {
        FormatName::Text => format!(
            "{sec}.{micros:06} info GET /items/{micros:06} took {id} us, all of it well spent, status 200"
        ),
        FormatName::Json => format!(
            r#"{{"time":{sec}.{micros:06},"type":"request","level":"info","msg":"GET /items/{micros:06}","latency_us":{id}}}"#
        ),
        FormatName::Logfmt => {
            format!(
                r#"ts={sec}.{micros:06} type=request level=info msg="GET /items/{micros:06}" latency_us={id} ok=true"#
            )
        }
        FormatName::Syslog => format!(
            "<14>1 {}:{:02}.{micros:06}Z host shop 123 - - GET /items/{micros:06} took {id} us, ok",
            minute.rfc3339,
            n % 60
        ),
        FormatName::Plain => format!(
            "10.0.0.{} - - [{}:{:02} +0000] GET /items/{micros:06}?limit=100&page=7 200 {id}",
            n % 256,
            minute.request,
            n % 60
        ),
        FormatName::Nginx | FormatName::Apache => format!(
            "10.0.0.{} - - [{}:{:02} +0000] \"GET /items/{micros:06} HTTP/1.1\" 200 {id} \"-\" \"curl\"",
            n % 256,
            minute.request,
            n % 60
        ),
        FormatName::Klog => format!(
            "I{}:{:02}.{micros:06}       1 items.go:77] GET /items/{micros:06} took {id} us, ok",
            minute.klog,
            n % 60
        ),
    }
}

fn main() {
    let rounds = common::rounds(5);
    let dir = tempfile::tempdir().expect("temporary directory");
    let minute = &Minute::now();
    let mut peer = CPeer::start("benches/c/follow.c");
    for format in [
        FormatName::Text,
        FormatName::Json,
        FormatName::Logfmt,
        FormatName::Syslog,
        FormatName::Plain,
        FormatName::Nginx,
        FormatName::Klog,
    ] {
        let path = dir.path().join(format!("{format:?}.log"));
        let text: String = (0..LINES).map(|n| line(minute, format, n) + "\n").collect();
        std::fs::write(&path, &text).expect("room for the lines");
        let size = text.len() as u64 / LINES;
        let what = format!("follow, {format:?}, {size} bytes a line");
        let [ours, floor] = race(
            rounds,
            [&mut || follow(&path, format, PATTERN), &mut || {
                ask(&mut peer, &format!("lines\t{}", path.display())).0
            }],
        );
        Row::new(&what, rate(&ours)).peer("getline in C, nothing else", rate(&floor)).print();
    }
    let mut pcre = CPeer::start_with("benches/c/pcre.c", &["-lpcre2-8"])
        .inspect_err(|_| println!("PCRE2: NOT MEASURED: its header is not there (Debian: libpcre2-dev)"))
        .ok();
    let lines: [(_, _, _, &dyn Fn(u64) -> String); 3] = [
        ("of a small pattern", PATTERN, Some(POSIX), &|n| line(minute, FormatName::Plain, n)),
        ("of nginx, combined", COMBINED, None, &|n| combined(minute, n)),
        ("of syslog", SYSLOG, None, &|n| syslog(minute, n)),
    ];
    for (name, pattern, posix, line) in lines {
        let path = dir.path().join("expression.log");
        let text: String = (0..LINES).map(|n| line(n) + "\n").collect();
        std::fs::write(&path, &text).expect("room for the lines");
        let what =
            format!("lines {name}, {} bytes a line, by a regular expression", text.len() as u64 / LINES);
        let expected = matched(&path, pattern).1;
        let asked = |peer: &mut CPeer, command: &str| {
            let (took, found) = ask(peer, command);
            assert_eq!(found, expected, "the peer finds the same");
            took
        };
        let place = path.display();
        if let Some(pcre) = &mut pcre {
            let [groups, copies, all, theirs, floor] = race(
                rounds,
                [
                    &mut || matched(&path, pattern).0,
                    &mut || copied(&path, pattern),
                    &mut || follow(&path, FormatName::Plain, pattern),
                    &mut || asked(pcre, &format!("{place}\t{pattern}")),
                    &mut || ask(&mut peer, &format!("lines\t{place}")).0,
                ],
            );
            let with = "getline and PCRE2 with its JIT, groups copied out";
            let goal = Goal::Ratio(2.0);
            Row::new(format!("{what}, groups copied out"), rate(&groups))
                .peer(with, rate(&theirs))
                .goal(goal)
                .headline()
                .print();
            Row::new(format!("{what}, time and record as well"), rate(&all))
                .peer(with, rate(&theirs))
                .goal(goal)
                .print();
            Row::new(format!("{what}, groups copied out"), rate(&groups))
                .peer("lines read, and pieces of known places copied out", rate(&copies))
                .print();
            for (part, ours) in [("groups copied out", &groups), ("time and record as well", &all)] {
                Row::new(format!("{what}, {part}"), rate(ours))
                    .peer("getline in C, nothing else", rate(&floor))
                    .print();
            }
        }
        if let Some(posix) = posix {
            let [all, theirs] = race(
                rounds,
                [&mut || follow(&path, FormatName::Plain, pattern), &mut || {
                    asked(&mut peer, &format!("regexec\t{place}\t{posix}"))
                }],
            );
            let with = "getline and glibc's regexec, groups copied out";
            Row::new(format!("{what}, time and record as well"), rate(&all))
                .peer(with, rate(&theirs))
                .print();
        }
    }
}

fn rate(times: &Times) -> Figure {
    Figure::rate(times, LINES as f64, "lines/s on a core")
}

/// What was found in a file: lines that match, and bytes in their groups.
type Found = (u64, u64);

/// CPU time of the peer for a file, which must have all lines, and what it has found.
fn ask(peer: &mut CPeer, command: &str) -> (Duration, Found) {
    let answer = peer.ask(command);
    let numbers: Vec<u64> = answer.split('\t').map(|number| number.parse().expect("a number")).collect();
    let [count, bytes, nanos] = numbers[..] else { panic!("three numbers: {answer}") };
    assert_eq!(count, LINES);
    (Duration::from_nanos(nanos), (count, bytes))
}

/// CPU time of what PCRE2's program does, with what the follower does it with: lines read, matched, and groups copied out.
fn matched(path: &Path, pattern: &str) -> (Duration, Found) {
    let mut pattern = Pattern::new(pattern).expect("an expression");
    let (mut fields, mut places) = (Vec::new(), Vec::new());
    let (mut count, mut bytes) = (0, 0);
    let took = each_line(path, |line| {
        places.clear();
        count += u64::from(pattern.places(line, &mut places));
        copy(line, places.iter().copied(), &mut fields);
        bytes += black_box(&fields).len() as u64;
    });
    (took, (count, bytes))
}

/// The same without looking for groups: in each line they are where those of the first one are, as far as the line goes.
fn copied(path: &Path, pattern: &str) -> Duration {
    let mut pattern = Pattern::new(pattern).expect("an expression");
    let (mut fields, mut places, mut whole) = (Vec::new(), Vec::new(), 0);
    each_line(path, |line| {
        if places.is_empty() {
            pattern.places(line, &mut places);
            whole = line.len();
        }
        // In a shorter line they are further in front.
        let less = whole.saturating_sub(line.len());
        let in_front =
            |&(start, end): &(usize, usize)| (start.saturating_sub(less), end.saturating_sub(less));
        copy(line, places.iter().map(in_front), &mut fields);
        black_box(&fields);
    })
}

#[inline]
fn copy(line: &[u8], places: impl Iterator<Item = (usize, usize)>, fields: &mut Vec<u8>) {
    fields.clear();
    for (start, end) in places {
        fields.extend_from_slice(&line[start..end]);
    }
}

/// CPU time of doing something with each line of a file, read as the follower reads it.
fn each_line(path: &Path, mut take: impl FnMut(&[u8])) -> Duration {
    let file = File::open(path).expect("it was written");
    let mut buffer = vec![0; 256 * 1024];
    let (mut splitter, mut offset) = (Splitter::default(), 0);
    let cpu = thread_cpu();
    loop {
        let read = file.read_at(&mut buffer, offset).expect("it can be read");
        if read == 0 {
            return thread_cpu() - cpu;
        }
        let (input, mut at) = (&buffer[..read], 0);
        // An expression is for texts: as the follower, all lines at once.
        assert!(is_text(input), "lines of ASCII");
        while let Some(Piece::Line(line)) = splitter.next(input, &mut at, 1 << 16) {
            take(line);
        }
        offset += at as u64;
        splitter.rescan();
    }
}

/// CPU time of following a file to its end, both threads.
fn follow(path: &Path, format: FormatName, pattern: &str) -> Duration {
    let (registry, definitions) = Registry::open(&RegistryConfig::new(400)).expect("in memory");
    let (out, deliveries) = bounded(QUEUE);
    let core = std::thread::current();
    let outlet = Outlet {
        series: Default::default(),
        registry,
        out,
        wake: Arc::new(move || core.unpark()),
        state_dir: None,
        restarts: Arc::default(),
        kept: Default::default(),
        starting: Default::default(),
    };
    let file = FileConfig {
        path: path.to_owned(),
        format,
        pattern: (format == FormatName::Plain).then(|| pattern.to_owned()),
        from: From::Beginning,
        ..FileConfig::default()
    };
    let config = FollowConfig { files: vec![file], ..FollowConfig::default() };
    let mut log = EventLog::new(LogConfig {
        budget: 64 * 1024 * 1024,
        recent: 100,
        missed_pmid: Pmid::new(400, 16, 5),
    });
    // Without a reader the log keeps next to nothing.
    log.join();
    let cpu = thread_cpu();
    let inlet = Inlet::new(definitions, deliveries);
    let follow = Follow::start(&config, 16, &outlet).expect("starts");
    let mut received = 0;
    while received < LINES {
        while let Some(delivery) = inlet.take(|definition| drop(black_box(definition))) {
            assert_eq!((delivery.missed, delivery.tallies.rejected_total()), (None, 0), "nothing is lost");
            received += delivery.tallies.received;
            // As the agent does.
            let rest = log.absorb(delivery.batch);
            if let Some(home) = delivery.home {
                home.give_back(rest);
            }
        }
        if received < LINES {
            std::thread::park();
        }
    }
    let spent = thread_cpu() - cpu + cpu_of("jumpseat-follow");
    assert_eq!(log.stats().seq, LINES);
    drop(follow);
    spent
}
