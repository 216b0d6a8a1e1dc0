//! What the agent costs under a real pmcd: processor time of a fetch of 1,000 values against PCP's own
//! sample agent, time to start, and memory when idle.
//!
//! Needs PCP installed; `./test` does that.

#[path = "../tests/common/mod.rs"]
mod pcp;

mod common;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use jumpseat::client::Connection;
use jumpseat::model::Pmid;
use pcp::{AgentSpec, PmnsSource, PrivatePmcd};

const VALUES: usize = 1000;
const FETCHES: usize = 400;
const TIMEOUT: Duration = Duration::from_secs(10);

fn main() {
    fetch();
    start_and_rest();
}

fn fetch() {
    let files = pcp::temp_dir();
    let ingest = files.path().join("ingest");
    let config = files.path().join("jumpseat.toml");
    std::fs::write(&config, config_text(files.path(), &ingest)).expect("the directory is ours");
    let user = pcp::user();
    let agent = [
        env!("CARGO_BIN_EXE_pmdajumpseat"),
        "-c",
        config.to_str().expect("a temporary path is UTF-8"),
        "-d",
        "400",
        "-U",
        &user,
    ];
    let pmcd = PrivatePmcd::with([
        AgentSpec::sample(),
        AgentSpec::pipe("jumpseat", 400, &agent).with_pmns(PmnsSource::read(
            "jumpseat",
            "JUMPSEAT",
            "pmns/jumpseat",
        )),
    ])
    .start();
    pmcd.wait_ready("jumpseat");
    pmcd.run("pmstore", ["sample.many.count", &VALUES.to_string()]).ok();
    send_types(&ingest);

    let mut connection = Connection::open(("127.0.0.1", pmcd.port()), TIMEOUT).expect("pmcd is running");
    let pmids =
        connection.lookup_names(&["jumpseat.event.count", "sample.many.int"]).expect("pmcd is running");
    let [Some(ours), Some(theirs)] = pmids[..] else { panic!("both agents have their metrics: {pmids:?}") };
    let (our_pid, their_pid) = (child_of(pmcd.pid(), "pmdajumpseat"), child_of(pmcd.pid(), "pmdasample"));
    let mut measure = |pmid: Pmid, pid: u32| {
        let before = cpu(pid);
        for _ in 0..FETCHES {
            let result = connection.fetch(&[pmid]).expect("pmcd is running");
            let values = result.sets[0].values.as_ref().expect("the metric has values").len();
            assert_eq!(values, VALUES);
        }
        cpu(pid) - before
    };
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..=common::rounds(20) {
        for (times, (pmid, pid)) in times.iter_mut().zip([(ours, our_pid), (theirs, their_pid)]) {
            let took = measure(pmid, pid);
            if round > 0 {
                times.push(took);
            }
        }
    }
    let [ours, theirs] = times.map(common::Times::of);
    let what = format!("agent CPU of a fetch of {VALUES} values through pmcd");
    common::print_ratio(&what, FETCHES as f64, "fetches", &ours, ("pmdasample", &theirs), 1.0);
}

/// One event of each of as many types as there shall be values.
fn send_types(ingest: &std::path::Path) {
    let mut stream = UnixStream::connect(ingest).expect("the agent listens");
    for number in 0..VALUES {
        writeln!(stream, "{{\"type\":\"type{number}\"}}").expect("the agent reads");
    }
    stream.shutdown(Shutdown::Write).expect("the agent reads");
    let mut summary = String::new();
    stream.read_to_string(&mut summary).expect("the agent answers");
}

fn start_and_rest() {
    let files = pcp::temp_dir();
    let ingest = files.path().join("ingest");
    let config = files.path().join("jumpseat.toml");
    std::fs::write(&config, config_text(files.path(), &ingest)).expect("the directory is ours");
    let mut starts: Vec<Duration> =
        (0..common::rounds(20).max(2)).map(|_| start(files.path(), &config).0).collect();
    starts.sort_unstable();
    let (_, mut agent) = start(files.path(), &config);
    std::thread::sleep(Duration::from_secs(1));
    let status = std::fs::read_to_string(format!("/proc/{}/status", agent.id())).expect("the agent runs");
    let resident: u64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB")?.trim().parse().ok())
        .expect("the kernel tells");
    let before = cpu(agent.id());
    std::thread::sleep(Duration::from_secs(2));
    let idle = cpu(agent.id()) - before;
    drop(agent.stdin.take());
    agent.wait().expect("it is our child");
    let (best, median) = (starts[0].as_secs_f64() * 1e3, starts[starts.len() / 2].as_secs_f64() * 1e3);
    println!(
        "start until the first answer to pmcd: best {best:.1} ms, median {median:.1} ms, goal 50: {}",
        if median <= 50.0 { "met" } else { "MISSED" }
    );
    println!(
        "idle: {:.1} MiB resident, goal 8: {}; {} us of processor time in 2 s",
        resident as f64 / 1024.0,
        if resident <= 8 * 1024 { "met" } else { "MISSED" },
        idle.as_micros()
    );
}

/// Starts the agent on pipes as pmcd does, and asks for one descriptor.
fn start(dir: &std::path::Path, config: &std::path::Path) -> (Duration, Child) {
    let begun = Instant::now();
    let mut agent = Command::new(env!("CARGO_BIN_EXE_pmdajumpseat"))
        .args(["-U", &pcp::user(), "-l"])
        .arg(dir.join("log"))
        .arg("-c")
        .arg(config)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the agent can be started");
    let mut answer = [0; 20 + 32];
    let (input, output) = (agent.stdin.as_mut().expect("piped"), agent.stdout.as_mut().expect("piped"));
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    input.write_all(&words(&[20, 0x700c, 1, 1, 0x0102_0000])).expect("the agent reads");
    input.write_all(&words(&[16, 0x7004, 0, Pmid::new(400, 1, 0).0])).expect("the agent reads");
    output.read_exact(&mut answer).expect("the agent answers");
    (begun.elapsed(), agent)
}

fn config_text(dir: &std::path::Path, ingest: &std::path::Path) -> String {
    format!("state_dir = {:?}\n[[socket]]\npath = {ingest:?}\n", dir.join("ids"))
}

/// Time the process's threads have spent on a processor.
fn cpu(pid: u32) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs");
    let nanos = tasks.map(|task| {
        let path = task.expect("the process runs").path().join("schedstat");
        let text = std::fs::read_to_string(path).expect("the process runs");
        text.split(' ').next().and_then(|field| field.parse::<u64>().ok()).expect("the kernel tells")
    });
    Duration::from_nanos(nanos.sum())
}

fn child_of(parent: u32, name: &str) -> u32 {
    for entry in std::fs::read_dir("/proc").expect("procfs is there").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((head, tail)) = stat.rsplit_once(") ") else { continue };
        let comm = head.split_once('(').map_or("", |(_, comm)| comm);
        if tail.split(' ').nth(1) == Some(&parent.to_string()) && name.starts_with(comm) {
            return pid;
        }
    }
    panic!("pmcd {parent} has no child {name}");
}
