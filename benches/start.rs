//! How long the agent takes from exec until it answers pmcd, and what memory it keeps when idle; PCP's own
//! sample agent does the same next to it.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

mod common;
use common::clock::resident_kib;
use common::{Figure, Goal, Row, Times};

const AGENT: &str = env!("CARGO_BIN_EXE_pmdajumpseat");
const PEER: &str = "/var/lib/pcp/pmdas/sample/pmdasample";
const ROUNDS: usize = 30;
/// PDU types of the handshake and of the first request pmcd would make.
const CREDS: u32 = 0x700c;
const DESC_REQ: u32 = 0x7004;

/// What one start of an agent cost.
struct Start {
    answer: Duration,
    resident_kib: u64,
}

/// Starts an agent on pipes as pmcd would, asks it for one descriptor, and leaves it alone for a moment.
fn start(program: &str, args: &[String]) -> std::io::Result<Start> {
    let begin = Instant::now();
    let mut agent = Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let measured = converse(&mut agent, begin);
    // end of file tells it to end
    drop(agent.stdin.take());
    agent.wait()?;
    measured
}

fn converse(agent: &mut Child, begin: Instant) -> std::io::Result<Start> {
    let pid = agent.id();
    let (Some(requests), Some(replies)) = (&mut agent.stdin, &mut agent.stdout) else {
        unreachable!("both are piped");
    };
    read_pdu(replies, CREDS)?;
    requests.write_all(&pdu(CREDS, &[1, 0x0102_0000]))?;
    requests.write_all(&pdu(DESC_REQ, &[400 << 22]))?;
    // DESC, or ERROR for an agent without this metric: an answer either way
    read_pdu(replies, 0)?;
    let answer = begin.elapsed();
    sleep(Duration::from_millis(100));
    let resident_kib = resident_kib(pid);
    Ok(Start { answer, resident_kib })
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

/// Starts all programs in turn; for each the times until it answered, and what memory it kept.
fn race(programs: &[(&str, &[String])]) -> std::io::Result<Vec<(Times, Figure)>> {
    let mut starts: Vec<Vec<Start>> = programs.iter().map(|_| Vec::new()).collect();
    for _ in 0..common::rounds(ROUNDS) {
        for ((program, args), starts) in programs.iter().zip(&mut starts) {
            starts.push(start(program, args)?);
        }
    }
    let figures = starts.iter().map(|starts| {
        let resident = starts.iter().map(|start| start.resident_kib as f64 / 1024.0).collect();
        (Times::of(starts.iter().map(|start| start.answer).collect()), Figure::costs(resident, "MiB"))
    });
    Ok(figures.collect())
}

fn main() -> std::io::Result<()> {
    let dir = tempfile::tempdir()?;
    let path = |name: &str| dir.path().join(name).display().to_string();
    let user = Command::new("id").arg("-un").output()?;
    let user = String::from_utf8_lossy(&user.stdout).trim().to_owned();
    fs::create_dir(path("ids"))?;
    let config = format!("state_dir = {:?}\n[[socket]]\npath = {:?}\n", path("ids"), path("ingest.socket"));
    fs::write(path("jumpseat.toml"), &config)?;
    let all = format!(
        "{config}[otlp]\nlisten = \"127.0.0.1:0\"\ngrpc = \"127.0.0.1:0\"\n[[file]]\npath = {:?}\nformat = \"text\"\n\
         [[command]]\nrun = [\"sleep\", \"3600\"]\nformat = \"text\"\nsource = \"sleep\"\n",
        path("*.log")
    );
    fs::write(path("all.toml"), all)?;
    let common = |log: &str| ["-d", "400", "-U", &user, "-l", &path(log)].map(str::to_owned).to_vec();
    let ours = |config: &str| {
        let mut args = common("jumpseat.log");
        args.extend(["-c".to_owned(), path(config)]);
        args
    };
    let (little, all, theirs) = (ours("jumpseat.toml"), ours("all.toml"), common("sample.log"));
    let figures = race(&[(AGENT, &little), (AGENT, &all), (PEER, &theirs)])?;
    let (peer_times, peer_memory) = &figures[2];
    let ms = |times: &Times| Figure::time(times, 1.0, 1e-3, "ms");
    for (what, (times, memory)) in ["one socket", "sockets, OTLP, files and a command"].iter().zip(&figures) {
        Row::new(format!("start until the first answer, {what}"), ms(times))
            .peer("pmdasample", ms(peer_times))
            .goal(Goal::Ratio(1.0))
            .print();
        Row::new(format!("resident memory when idle, {what}"), *memory)
            .peer("pmdasample", *peer_memory)
            .goal(Goal::Ratio(1.0))
            .print();
    }
    Ok(())
}
