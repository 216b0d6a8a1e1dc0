//! How long the agent takes from exec until it answers pmcd, and what memory it keeps when idle; PCP's own
//! sample agent does the same next to it.
//!
//! Resident memory counts pages of programs and libraries as well, which all processes that run them share, and which the system takes back
//! when it is short of memory. What is a process's own is in rows of its own (private and written to), and so is the keeper of listeners,
//! the process that the agent has beside it.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

mod common;
use common::clock::resident_kib;
use common::{Figure, Goal, Row, Times, floor};

const AGENT: &str = env!("CARGO_BIN_EXE_pmdajumpseat");
const PEER: &str = "/var/lib/pcp/pmdas/sample/pmdasample";
const ROUNDS: usize = 30;
/// PDU types of the handshake and of the first request pmcd would make.
const CREDS: u32 = 0x700c;
const DESC_REQ: u32 = 0x7004;

/// Longer than anything that an idle agent does from time to time takes to come around.
const IDLE: Duration = Duration::from_secs(5);
/// How many identifiers of fields and of event types are on file for the cold start.
const FIELDS: usize = 4096;
const TYPES: usize = 100_000;

/// What an agent keeps when idle, in MiB.
#[derive(Clone, Copy)]
struct Memory {
    resident: f64,
    private: f64,
    /// Of the processes that it has started.
    others: f64,
}

/// Starts an agent on pipes as pmcd would, asks it for one descriptor, and looks at it with `look`, which is told its process.
fn start<T>(program: &str, args: &[String], look: impl FnOnce(u32) -> T) -> std::io::Result<(Duration, T)> {
    let begin = Instant::now();
    let mut agent = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let measured = converse(&mut agent, begin).map(|answer| (answer, look(agent.id())));
    // end of file tells it to end
    drop(agent.stdin.take());
    agent.wait()?;
    measured
}

/// How long it took until it answered.
fn converse(agent: &mut Child, begin: Instant) -> std::io::Result<Duration> {
    let (Some(requests), Some(replies)) = (&mut agent.stdin, &mut agent.stdout) else {
        unreachable!("both are piped");
    };
    read_pdu(replies, CREDS)?;
    requests.write_all(&pdu(CREDS, &[1, 0x0102_0000]))?;
    requests.write_all(&pdu(DESC_REQ, &[400 << 22]))?;
    // DESC, or ERROR for an agent without this metric: an answer either way
    read_pdu(replies, 0)?;
    Ok(begin.elapsed())
}

/// What it keeps when it was left alone for a while.
fn idle(pid: u32) -> Memory {
    sleep(IDLE);
    let mib = |kib: u64| kib as f64 / 1024.0;
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    let keepers = children.collect::<String>();
    let keepers = keepers.split_ascii_whitespace().filter_map(|child| child.parse().ok());
    let keepers = keepers.filter(|child| {
        fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|name| name.starts_with("jumpseat"))
    });
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let private = rollup.lines().find_map(|line| line.strip_prefix("Private_Dirty:"));
    let private = private.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok());
    Memory {
        resident: mib(resident_kib(pid)),
        private: mib(private.unwrap_or_default()),
        others: mib(keepers.map(resident_kib).sum()),
    }
}

fn pdu(kind: u32, body: &[u32]) -> Vec<u8> {
    let len = 12 + 4 * body.len() as u32;
    [len, kind, 0].iter().chain(body).flat_map(|word| word.to_be_bytes()).collect()
}

/// Reads one PDU and checks its type, unless `kind` is 0.
fn read_pdu(from: &mut impl Read, kind: u32) -> std::io::Result<()> {
    let mut header = [0; 12];
    from.read_exact(&mut header)?;
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    if kind != 0 && word(4) != kind {
        return Err(std::io::Error::other(format!("PDU {:#x}, not {kind:#x}", word(4))));
    }
    let mut body = vec![0; (word(0) as usize).saturating_sub(12)];
    from.read_exact(&mut body)
}

/// A program and its arguments.
type Contender<'a> = (&'a str, &'a [String]);

/// Starts all programs in turn; for each the times until it answered. The first round is to warm up.
fn race(programs: &[Contender<'_>], rounds: usize) -> std::io::Result<Vec<Times>> {
    let mut starts: Vec<Vec<Duration>> = programs.iter().map(|_| Vec::new()).collect();
    for round in common::turns(rounds) {
        for ((program, args), starts) in programs.iter().zip(&mut starts) {
            // One that ends at once is another thing than one that had a moment to live.
            let took = start(program, args, |_| sleep(Duration::from_millis(20)))?.0;
            if round > 0 {
                starts.push(took);
            }
        }
    }
    Ok(starts.into_iter().map(Times::of).collect())
}

/// What they keep when idle, in several rounds.
fn memory(programs: &[Contender<'_>]) -> std::io::Result<Vec<Vec<Memory>>> {
    let mut kept: Vec<Vec<Memory>> = programs.iter().map(|_| Vec::new()).collect();
    for _ in 0..common::rounds(3) {
        for ((program, args), kept) in programs.iter().zip(&mut kept) {
            kept.push(start(program, args, idle)?.1);
        }
    }
    Ok(kept)
}

/// One of the figures.
fn mib(kept: &[Memory], figure: fn(&Memory) -> f64) -> Figure {
    Figure::costs(kept.iter().map(figure).collect(), "MiB")
}

/// Files with identifiers as an agent leaves them that has run for long.
fn write_ids(dir: &str) -> std::io::Result<()> {
    fs::create_dir_all(dir)?;
    let file = |serial: u32, max: i32, names: &mut dyn Iterator<Item = (usize, String)>| {
        let lines = names.map(|(id, name)| format!("{id} 1795170946 {name}\n"));
        fs::write(format!("{dir}/400.{serial}"), format!("2 0 {max}\n") + &lines.collect::<String>())
    };
    file(1, i32::MAX, &mut (0..100).map(|n| (n, format!("shop{n}"))))?;
    file(2, i32::MAX, &mut (0..TYPES).map(|n| (n, format!("shop{}/GET_/items/{n}", n % 100))))?;
    // The first ones are every agent's.
    let fields = (16..FIELDS).map(|n| (n, format!("{} order.line{n}", ["i64", "double", "string"][n % 3])));
    file(4, 16 * 1024 - 1, &mut fields.into_iter())
}

fn main() -> std::io::Result<()> {
    let dir = tempfile::tempdir()?;
    let path = |name: &str| dir.path().join(name).display().to_string();
    let of_id = |what: &str| {
        let output = Command::new("id").arg(what).output()?;
        std::io::Result::Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let (user, group) = (of_id("-un")?, of_id("-gn")?);
    // As packages leave it: the group of the socket is there.
    let config = |ids: &str| {
        let (ids, socket) = (path(ids), path(&format!("{ids}.socket")));
        format!("state_dir = {ids:?}\n[[socket]]\npath = {socket:?}\ngroup = {group:?}\n")
    };
    fs::create_dir(path("ids"))?;
    fs::create_dir(path("logs"))?;
    fs::write(path("jumpseat.toml"), config("ids"))?;
    let all = format!(
        "{}[otlp]\nlisten = \"127.0.0.1:0\"\ngrpc = \"127.0.0.2:0\"\n[[file]]\npath = {:?}\nformat = \"text\"\n\
         [[command]]\nrun = [\"sleep\", \"3600\"]\nformat = \"text\"\nsource = \"sleep\"\n",
        config("ids"),
        path("logs/*.log")
    );
    fs::write(path("all.toml"), all)?;
    write_ids(&path("many"))?;
    let many =
        format!("{}[events]\nmax_types = {}\n[fields]\nmax = {FIELDS}\n", config("many"), TYPES + 1000);
    fs::write(path("many.toml"), many)?;
    let common = |log: &str| ["-d", "400", "-U", &user, "-l", &path(log)].map(str::to_owned).to_vec();
    let ours = |config: &str| {
        let mut args = common("jumpseat.log");
        args.extend(["-c".to_owned(), path(config)]);
        args
    };
    let (little, all, theirs) = (ours("jumpseat.toml"), ours("all.toml"), common("sample.log"));
    let programs: [Contender<'_>; 3] = [(AGENT, &little), (AGENT, &all), (PEER, &theirs)];
    let times = race(&programs, common::rounds(ROUNDS))?;
    let mut version = || common::time(|| _ = floor::start(AGENT, &["--version"]));
    let [version] = common::race(common::rounds(ROUNDS), [&mut version]);
    let kept = memory(&programs)?;
    let resident = |at: usize| mib(&kept[at], |memory| memory.resident);
    let private = |at: usize| mib(&kept[at], |memory| memory.private);
    let ms = |times: &Times| Figure::time(times, 1.0, 1e-3, "ms");
    for (at, what) in ["one socket", "sockets, OTLP, files and a command"].iter().enumerate() {
        Row::new(format!("start until the first answer, {what}"), ms(&times[at]))
            .peer("pmdasample", ms(&times[2]))
            .goal(Goal::Ratio(1.0))
            .headline()
            .print();
        Row::new(format!("start until the first answer, {what}"), ms(&times[at]))
            .peer("the same program from start to end with --version", ms(&version))
            .print();
        Row::new(format!("resident memory when idle, {what}"), resident(at))
            .peer("pmdasample", resident(2))
            .goal(Goal::Ratio(1.0))
            .headline()
            .print();
        Row::new(format!("of it private and written to, {what}"), private(at))
            .peer("pmdasample", private(2))
            .print();
    }
    let keeper = mib(&kept[1], |memory| memory.others);
    Row::new("resident memory of the keeper of listeners, beside the agent", keeper)
        .note("not with systemd's store of descriptors")
        .print();
    let many = ours("many.toml");
    let programs: [Contender<'_>; 1] = [(AGENT, &many)];
    let what = format!("{FIELDS} fields and {TYPES} event types on file");
    let times = race(&programs, common::rounds(10))?;
    Row::new(format!("start until the first answer, {what}"), ms(&times[0])).print();
    let resident = mib(&memory(&programs)?[0], |memory| memory.resident);
    Row::new(format!("resident memory when idle, {what}"), resident).print();
    Ok(())
}
