//! Definitions in the agent as it runs under pmcd, against a libpcp client that has the same definitions of the same metrics of it.
//!
//! One side's time is the agent's, all of it: operands, evaluation and the answer's bytes. The other's is the client's, who asks the
//! agent for the operands only: what that costs the agent is not counted.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use jumpseat::client::{Context, Fetched};
use support::{AgentSpec, PmnsSource, PrivatePmcd};

use crate::clients;
use crate::common::{self, Figure, Goal, Row, clock::process_cpu, rounds};
use crate::peer::Peer;

const DOMAIN: u32 = 400;
/// Names of spans: instances of each metric.
const INSTANCES: usize = 100;
const FETCHES: usize = 12;
const GOAL: f64 = 5.0;

pub(crate) fn race(definitions: usize) {
    let files = support::temp_dir();
    let ingest = files.path().join("ingest");
    let pmcd = start(files.path(), &ingest, definitions);
    send_spans(&ingest);
    let pid = pmcd.value("jumpseat.self.pid").and_then(|pid| pid.parse().ok()).expect("the agent tells");

    let host = pmcd.inet();
    let mut peer = Peer::start(&format!("host\t{host}"), (0..definitions).map(expression));
    let mut context = Context::host(&host).expect("pmcd is running");
    let ours = clients::sample(&mut context, PREFIX, definitions, FETCHES);
    ours.assert_same(&peer.values(FETCHES, files.path()), |_| false);
    // Without what has failed: there are a set for each and values in it.
    assert_eq!(ours.len(), definitions * INSTANCES, "values");

    // A client that goes on: it has a history in the agent.
    let (pmids, _) = clients::look_up(&mut context, PREFIX, definitions);
    let mut fetched = Fetched::new();
    let mut agent = || -> Duration {
        let before = process_cpu(pid);
        for _ in 0..FETCHES {
            context.fetch(&pmids, &mut fetched).expect("pmcd is running");
        }
        let took = process_cpu(pid) - before;
        let values = fetched.sets().map(|set| set.values.expect("it has values").iter().count());
        assert_eq!(values.sum::<usize>(), ours.len(), "all values of a fetch");
        took / FETCHES as u32
    };
    let mut client = || {
        let taken = peer.client(FETCHES);
        assert_eq!(taken.values, ours.len() as u64, "all values of a fetch");
        taken.steady
    };
    let [ours, theirs] = common::race(rounds(60), [&mut agent, &mut client])
        .map(|times| Figure::time(&times, 1.0, 1e-3, "ms a fetch"));
    Row::new(format!("{definitions} definitions over {INSTANCES} instances, in the agent under pmcd"), ours)
        .peer("libpcp, in a client of it", theirs)
        .goal(Goal::Ratio(GOAL))
        .headline()
        .note("ours is the agent's CPU, theirs the client's")
        .print();
}

const PREFIX: &str = "jumpseat.derived.n";

/// Of metrics that have as many instances as there are names of spans. No two have the same factor.
fn expression(n: usize) -> String {
    let factor = n + 2;
    let [count, errors, time] = ["count", "errors", "time"].map(|name| format!("jumpseat.span.{name}"));
    match n % 6 {
        0 => format!("{factor} * delta({time}) / instant({count})"),
        1 => format!("rate({count}) + {factor} * rate({errors})"),
        2 => format!("instant({count}) + {factor} * instant({errors})"),
        3 => format!("100 * instant({errors}) / ({factor} * instant({count}))"),
        4 => format!("delta({count}) - {factor} * delta({errors})"),
        _ => format!("{factor} * instant({time}) / avg({count})"),
    }
}

fn start(dir: &Path, ingest: &Path, definitions: usize) -> PrivatePmcd {
    let config = dir.join("jumpseat.toml");
    let text = format!(
        "state_dir = {:?}\n[derived]\nfiles = [\"derived.conf\"]\npmcd = \"\"\n[[socket]]\npath = {ingest:?}\n",
        dir.join("ids")
    );
    let derived: String = (0..definitions).map(|n| format!("n{n} = {}\n", expression(n))).collect();
    std::fs::write(&config, text).expect("the directory is ours");
    std::fs::write(dir.join("derived.conf"), derived).expect("the directory is ours");
    let config = config.to_str().expect("a temporary path is UTF-8");
    let user = support::user();
    let arguments =
        [env!("CARGO_BIN_EXE_pmdajumpseat"), "-c", config, "-d", &DOMAIN.to_string(), "-U", &user];
    let pmns = PmnsSource::read("jumpseat", "JUMPSEAT", "pmns/jumpseat");
    let pmcd = PrivatePmcd::with([AgentSpec::pipe("jumpseat", DOMAIN, &arguments).with_pmns(pmns)]).start();
    pmcd.wait_ready("jumpseat");
    pmcd
}

/// Spans of each name, as many as differ from name to name; some of them fail.
fn send_spans(ingest: &Path) {
    let mut stream = UnixStream::connect(ingest).expect("the agent listens");
    for name in 0..INSTANCES {
        for span in 0..=name % 7 {
            let id = format!("{name}-{span}");
            let error = if span % 2 == 0 { ",\"severity\":\"error\"" } else { "" };
            for phase in ["start", "end"] {
                let line =
                    format!("{{\"type\":\"type{name}\",\"span_id\":\"{id}\",\"phase\":\"{phase}\"{error}}}");
                writeln!(stream, "{line}").expect("the agent reads");
            }
        }
    }
    stream.shutdown(Shutdown::Write).expect("the agent reads");
    let mut summary = String::new();
    stream.read_to_string(&mut summary).expect("the agent answers");
}
