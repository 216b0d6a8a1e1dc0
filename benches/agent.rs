//! Processor time of the agent for a fetch of 1,000 values through a real pmcd, against PCP's own sample agent
//! under the same pmcd.
//!
//! Ours are 64-bit counters, which take 20 bytes each on the wire, the sample agent's 32-bit numbers of 8 bytes.
//! Needs PCP installed; `./test` does that.

mod common;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use common::clock::process_cpu;
use common::{Figure, Goal, Row, Times};
use jumpseat::client::{Context, Fetched};
use jumpseat::model::Pmid;
use support::{AgentSpec, PmnsSource, PrivatePmcd};

const VALUES: usize = 1000;
const FETCHES: usize = 400;

fn main() {
    let files = support::temp_dir();
    let ingest = files.path().join("ingest");
    let config = files.path().join("jumpseat.toml");
    std::fs::write(&config, config_text(files.path(), &ingest)).expect("the directory is ours");
    let user = support::user();
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

    let mut context = Context::host(&pmcd.inet()).expect("pmcd is running");
    let mut fetched = Fetched::new();
    let pmids = context.lookup_names(&["jumpseat.event.count", "sample.many.int"]).expect("pmcd is running");
    let [Some(ours), Some(theirs)] = pmids[..] else { panic!("both agents have their metrics: {pmids:?}") };
    let (our_pid, their_pid) = (child_of(pmcd.pid(), "pmdajumpseat"), child_of(pmcd.pid(), "pmdasample"));
    let mut measure = |pmid: Pmid, pid: u32| {
        let before = process_cpu(pid);
        for _ in 0..FETCHES {
            context.fetch(&[pmid], &mut fetched).expect("pmcd is running");
            let values = fetched.set(0).and_then(|set| set.values.ok()).expect("the metric has values").len();
            assert_eq!(values, VALUES);
        }
        process_cpu(pid) - before
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
    let [ours, theirs] = times.map(Times::of);
    let what = format!("agent CPU of a fetch of {VALUES} values through pmcd");
    let each = |times: &Times| Figure::time(times, FETCHES as f64, 1e-6, "us a fetch");
    Row::new(what, each(&ours))
        .peer("pmdasample", each(&theirs))
        .goal(Goal::Ratio(1.0 / 0.7))
        .note("64-bit counters against 32-bit numbers")
        .print();
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

fn config_text(dir: &std::path::Path, ingest: &std::path::Path) -> String {
    format!("state_dir = {:?}\n[[socket]]\npath = {ingest:?}\n", dir.join("ids"))
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
