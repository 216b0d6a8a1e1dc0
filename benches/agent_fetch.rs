//! CPU time an agent takes to answer a fetch of 1,000 values: ours against PCP's own pmdasample, each a process
//! of its own behind two pipes, asked by the same driver in turn. Ours is an agent of the library with a table of numbers.
//!
//! pmdasample does the same here as under a pmcd (bench `agent`): it reads a header and a body, and writes 8,036 bytes. What it
//! costs differs by a tenth between the two in one run, and by half from one day's machine to another's.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::Duration;

mod common;
use common::clock::{process_cpu, resident_kib};
use common::{Figure, Goal, Row, Times, race, rounds};
use jumpseat::model::{PmError, Pmid, Timestamp, Value, ValueSet, ValueType};
use jumpseat::pdu::{CredFlags, Creds, Fetch, Pdu, RawValueSet, ResultPdu};
use jumpseat::pmda::{Agent, Indom, Metric, daemon};

const SAMPLE: &str = "/var/lib/pcp/pmdas/sample/pmdasample";
const VALUES: i32 = 1000;
const FETCHES: usize = 4000;
/// `sample.many.count` and `sample.many.int`.
const MANY_COUNT: Pmid = Pmid::new(29, 0, 79);
const MANY_INT: Pmid = Pmid::new(29, 0, 80);

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("agent") {
        return agent();
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let own = std::env::current_exe().expect("the path of this program");
    let log = |name: &str| dir.path().join(name).to_str().expect("temporary paths are UTF-8").to_owned();
    let start_ours =
        || Driver::start(Command::new(&own).arg("agent").env("LOG", log("ours")), Pmid::new(29, 0, 0));
    let start_theirs = || {
        let mut theirs =
            Driver::start(Command::new(SAMPLE).args(["-d", "29", "-U", "root", "-l", &log("c")]), MANY_INT);
        let count = ValueSet::singular(MANY_COUNT, VALUES);
        let sets = vec![RawValueSet::from_values(&count).expect("one number")];
        theirs.send(&Pdu::Result(ResultPdu { timestamp: Timestamp::default(), sets }));
        theirs.receive();
        theirs
    };
    let (mut ours, mut theirs) = (start_ours(), start_theirs());
    let [ours_took, theirs_took] =
        race(rounds(20), [&mut || ours.cpu_of_fetches(), &mut || theirs.cpu_of_fetches()]);
    let each = |times: &Times| Figure::time(times, FETCHES as f64, 1e-6, "us a fetch");
    Row::new(
        format!("fetch of {VALUES} 32-bit values over pipes, CPU of an agent made with the library"),
        each(&ours_took),
    )
    .peer("pmdasample", each(&theirs_took))
    .goal(Goal::Ratio(1.0 / 0.7))
    .print();
    drop((ours, theirs));
    let resident = |mut driver: Driver| {
        driver.cpu_of_fetches();
        resident_kib(driver.child.id()) as f64
    };
    let (ours, theirs) =
        common::repeat(|| (resident(start_ours()), resident(start_theirs()))).into_iter().unzip();
    let kib = |rounds| Figure::middle(rounds, "KiB");
    Row::new("the same, resident memory", kib(ours)).peer("pmdasample", kib(theirs)).print();
    ExitCode::SUCCESS
}

/// An agent with one metric of a thousand integers.
fn agent() -> ExitCode {
    let names: Vec<String> = (0..VALUES).map(|n| format!("i-{n}")).collect();
    let indom = Indom::fixed(1, (0..VALUES).zip(names.iter().map(String::as_str)));
    let make = || -> Result<_, daemon::DaemonError> {
        let agent = Agent::new("bench", 29, vec![7i32; VALUES as usize])
            .pmns("pmns", "bench { many BENCH:0:0 }")
            .help("help", "@ bench.many Many\nInts.\n@ BENCH.1 Instances\nNumbered.\n")
            .indom(indom.map_err(Box::from)?)
            .metric(Metric::new("bench.many", ValueType::I32).indom(1).each(
                |state: &mut Vec<i32>, _, inst| {
                    state.get(inst as usize).map_or(Err(PmError::INST), |value| Ok(Some(Value::I32(*value))))
                },
            ));
        Ok(agent.build()?)
    };
    daemon::run_with(
        "pmdabench",
        jumpseat::pmda::Options {
            domain: 29,
            log: std::env::var_os("LOG").map(Into::into),
            username: Some("root".to_owned()),
            ..Default::default()
        },
        |_| make(),
    )
}

/// Plays pmcd.
struct Driver {
    child: Child,
    requests: ChildStdin,
    replies: ChildStdout,
    fetch: Vec<u8>,
    reply: Vec<u8>,
}

impl Driver {
    fn start(command: &mut Command, pmid: Pmid) -> Driver {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (requests, replies) = (child.stdin.take(), child.stdout.take());
        let fetch = Pdu::Fetch(Fetch { ctxid: 0, pmids: vec![pmid] }).to_bytes(0).expect("a small PDU");
        let mut driver = Driver {
            child,
            requests: requests.expect("piped"),
            replies: replies.expect("piped"),
            fetch: fetch.to_vec(),
            reply: Vec::new(),
        };
        driver.receive();
        driver.send(&Pdu::Creds(Creds::version(CredFlags::default())));
        driver
    }

    fn send(&mut self, pdu: &Pdu) {
        let bytes = pdu.to_bytes(0).expect("a small PDU");
        self.requests.write_all(&bytes).expect("the agent listens");
    }

    fn receive(&mut self) {
        let mut len = [0; 4];
        self.replies.read_exact(&mut len).expect("the agent answers");
        self.reply.resize(u32::from_be_bytes(len) as usize - 4, 0);
        self.replies.read_exact(&mut self.reply).expect("the agent answers");
    }

    fn cpu_of_fetches(&mut self) -> Duration {
        let before = process_cpu(self.child.id());
        for _ in 0..FETCHES {
            self.requests.write_all(&self.fetch).expect("the agent listens");
            self.receive();
        }
        // Header, numval: the answer has what it should.
        assert_eq!(self.reply[24..28], VALUES.to_be_bytes(), "all values are there");
        // Header, time, number of sets, and the set: its identifier, count and format, then instances and values.
        assert_eq!(self.reply.len() + 4, 36 + 8 * VALUES as usize, "each is 32 bits long");
        process_cpu(self.child.id()) - before
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Nothing is lost if it has gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
