//! How long the agent takes from exec until it answers pmcd, and what memory it keeps when idle; PCP's own
//! sample agent does the same next to it.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const AGENT: &str = env!("CARGO_BIN_EXE_pmdajumpseat");
const PEER: &str = "/var/lib/pcp/pmdas/sample/pmdasample";
const ROUNDS: usize = 30;
const GOAL: Duration = Duration::from_millis(50);
const GOAL_KIB: u64 = 8 * 1024;

/// PDU types of the handshake and of the first request pmcd would make.
const CREDS: u32 = 0x700c;
const DESC_REQ: u32 = 0x7004;

/// What one start of an agent cost.
struct Start {
    creds: Duration,
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
    let creds = begin.elapsed();
    requests.write_all(&pdu(CREDS, &[1, 0x0102_0000]))?;
    requests.write_all(&pdu(DESC_REQ, &[400 << 22]))?;
    // DESC, or ERROR for an agent without this metric: an answer either way
    read_pdu(replies, 0)?;
    let answer = begin.elapsed();
    sleep(Duration::from_millis(100));
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident_kib = resident.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    Ok(Start { creds, answer, resident_kib })
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

fn median(mut values: Vec<Duration>) -> Duration {
    values.sort();
    values[values.len() / 2]
}

fn race(name: &str, program: &str, args: &[String]) -> Option<(Duration, u64)> {
    let starts: Result<Vec<Start>, _> = (0..ROUNDS).map(|_| start(program, args)).collect();
    let starts = match starts {
        Ok(starts) => starts,
        Err(error) => {
            println!("{name:<14} {error}");
            return None;
        }
    };
    let creds = median(starts.iter().map(|start| start.creds).collect());
    let answer = median(starts.iter().map(|start| start.answer).collect());
    let slowest = starts.iter().map(|start| start.answer).max().unwrap_or_default();
    let resident = starts.iter().map(|start| start.resident_kib).max().unwrap_or_default();
    println!(
        "{name:<14} credentials after {creds:>9.2?}, first answer after {answer:>9.2?} (slowest {slowest:.2?}), \
         idle {resident} KiB resident"
    );
    Some((slowest, resident))
}

fn main() -> std::io::Result<()> {
    let dir = tempfile::tempdir()?;
    let path = |name: &str| dir.path().join(name).display().to_string();
    let user = Command::new("id").arg("-un").output()?;
    let user = String::from_utf8_lossy(&user.stdout).trim().to_owned();
    fs::create_dir(path("ids"))?;
    let config = format!("state_dir = {:?}\n[[socket]]\npath = {:?}\n", path("ids"), path("ingest.socket"));
    fs::write(path("jumpseat.toml"), config)?;
    let common = |log: &str| ["-d", "400", "-U", &user, "-l", &path(log)].map(str::to_owned).to_vec();
    let mut args = common("jumpseat.log");
    args.extend(["-c".to_owned(), path("jumpseat.toml")]);
    let ours = race("pmdajumpseat", AGENT, &args);
    race("pmdasample", PEER, &common("sample.log"));
    let Some((slowest, resident)) = ours else {
        return Err(std::io::Error::other("the agent does not start"));
    };
    let verdict = |good: bool| if good { "met" } else { "NOT MET" };
    println!("goal: first answer within {GOAL:?}: {}", verdict(slowest <= GOAL));
    println!("goal: at most {GOAL_KIB} KiB resident when idle: {}", verdict(resident <= GOAL_KIB));
    Ok(())
}
