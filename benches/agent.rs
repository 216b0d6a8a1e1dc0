//! Processor time of the agent for a fetch of 1,000 values through a real pmcd, against PCP's own sample agent
//! under the same pmcd: values of the same type in as many sets on both sides, and one of ours that the sample agent has no like of.
//!
//! Needs PCP installed; `./test` does that.

mod common;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use common::clock::{process_cpu, thread_cpu};
use common::{Figure, Goal, Row, race};
use jumpseat::client::{Context, Fetched};
use jumpseat::model::{Inst, Pmid, ValueType};
use jumpseat::pdu::TypedRef;
use support::{AgentSpec, PmnsSource, PrivatePmcd};

const VALUES: usize = 1000;
/// `sample.ulonglong.bin` has so many, and they are its only kind of 64-bit values of which there are several.
const BINS: usize = 9;
const FETCHES: usize = 400;
/// At most 0.7 of the time that the sample agent takes.
const GOAL: f64 = 1.0 / 0.7;

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
    send_spans(&ingest);

    let (our_pid, their_pid) = (child_of(pmcd.pid(), "pmdajumpseat"), child_of(pmcd.pid(), "pmdasample"));
    let ours = |metric, sets, first| Fetch::new(&pmcd, our_pid, metric, sets, first);
    let theirs = |metric, sets, first| Fetch::new(&pmcd, their_pid, metric, sets, first);
    let sets = VALUES / BINS;
    let rows = [
        (
            format!("{VALUES} 32-bit values"),
            ours("jumpseat.span.active", 1, VALUES),
            theirs("sample.many.int", 1, VALUES),
            Some(GOAL),
            None,
        ),
        (
            format!("{sets} times {BINS} 64-bit values"),
            ours("jumpseat.span.count", sets, BINS),
            theirs("sample.ulonglong.bin", sets, BINS),
            Some(GOAL),
            None,
        ),
        (
            format!("{VALUES} 64-bit counters"),
            ours("jumpseat.event.count", 1, VALUES),
            theirs("sample.many.int", 1, VALUES),
            None,
            Some("the peer's are 32-bit numbers, of 8 bytes each and not of 20"),
        ),
    ];
    for (what, mut ours, mut theirs, goal, note) in rows {
        let bytes = ours.answer_len();
        let times =
            race(common::rounds(20), [&mut || ours.cpu(), &mut || theirs.cpu(), &mut || bytes_alone(bytes)]);
        let [ours, theirs, floor] =
            times.map(|times| Figure::time(&times, FETCHES as f64, 1e-6, "us a fetch"));
        let what = format!("agent CPU of a fetch of {what} through pmcd");
        let row =
            Row::new(&what, ours.clone()).peer("pmdasample", theirs).goal(goal.map(Goal::Ratio)).headline();
        note.into_iter().fold(row, Row::note).print();
        Row::new(what, ours).peer("waiting for as many requests, and writing as many bytes", floor).print();
    }
}

/// Processor time of a thread that waits for requests on a pipe and writes so many bytes for each into another, and nothing else.
fn bytes_alone(len: usize) -> Duration {
    let (mut requests, mut ask) = std::io::pipe().expect("a pipe");
    let (mut replies, mut answer) = std::io::pipe().expect("a pipe");
    let agent = std::thread::spawn(move || {
        let (mut request, bytes, before) = ([0; 512], vec![0; len], thread_cpu());
        while requests.read(&mut request).expect("a pipe") > 0 {
            answer.write_all(&bytes).expect("a pipe");
        }
        thread_cpu() - before
    });
    let mut reply = vec![0; len];
    for _ in 0..FETCHES {
        ask.write_all(&[0; 32]).expect("a pipe");
        replies.read_exact(&mut reply).expect("a pipe");
    }
    drop(ask);
    agent.join().expect("it cannot fail")
}

/// A client that fetches one metric, and the agent that has it.
struct Fetch {
    context: Context,
    pmids: Vec<Pmid>,
    value_type: ValueType,
    values: usize,
    pid: u32,
    fetched: Fetched,
    /// What the last fetch gave, to be the same in each: nothing happens meanwhile.
    sum: Option<f64>,
}

impl Fetch {
    /// Of so many sets of the first so many instances each.
    fn new(pmcd: &PrivatePmcd, pid: u32, metric: &str, sets: usize, first: usize) -> Fetch {
        let mut context = Context::host(&pmcd.inet()).expect("pmcd is running");
        let [Some(pmid)] = context.lookup_names(&[metric]).expect("pmcd is running")[..] else {
            panic!("there is no {metric}")
        };
        let desc = context.desc(pmid).expect("it has a descriptor");
        let mut insts: Vec<Inst> =
            context.instances(desc.indom).expect("it has instances").iter().map(|each| each.id).collect();
        insts.truncate(first);
        if first < VALUES {
            context.delete_profile(desc.indom, &[]).expect("a domain");
            context.add_profile(desc.indom, &insts).expect("a domain");
        }
        let (value_type, pmids) = (desc.value_type, vec![pmid; sets]);
        Fetch { context, pmids, value_type, values: sets * first, pid, fetched: Fetched::new(), sum: None }
    }

    /// Bytes of the answer, about: instances and words, or blocks as well.
    fn answer_len(&self) -> usize {
        let of_value = if self.value_type == ValueType::U32 { 8 } else { 20 };
        self.values * of_value + self.pmids.len() * 12
    }

    /// The agent's processor time for a number of fetches. All their values are there.
    fn cpu(&mut self) -> Duration {
        let before = process_cpu(self.pid);
        for _ in 0..FETCHES {
            self.context.fetch(&self.pmids, &mut self.fetched).expect("pmcd is running");
        }
        let took = process_cpu(self.pid) - before;
        let (mut count, mut sum) = (0, 0.0);
        for set in self.fetched.sets() {
            for (_, value) in set.values.expect("the metric has values").iter() {
                let Ok(TypedRef::Number(number)) = value.typed(self.value_type) else { panic!("no number") };
                count += 1;
                sum += number.to_f64();
            }
        }
        assert_eq!(count, self.values);
        assert!(sum > 0.0 && self.sum.replace(sum).is_none_or(|before| before <= sum), "{sum}");
        took
    }
}

/// One span of each of as many names as there shall be values, which has begun, and another that has ended.
fn send_spans(ingest: &std::path::Path) {
    let mut stream = UnixStream::connect(ingest).expect("the agent listens");
    for number in 0..VALUES {
        for (span, phase) in [("open", "start"), ("done", "start"), ("done", "end")] {
            writeln!(
                stream,
                "{{\"type\":\"type{number}\",\"span_id\":\"{span}{number}\",\"phase\":\"{phase}\"}}"
            )
            .expect("the agent reads");
        }
    }
    stream.shutdown(Shutdown::Write).expect("the agent reads");
    let mut summary = String::new();
    stream.read_to_string(&mut summary).expect("the agent answers");
}

fn config_text(dir: &std::path::Path, ingest: &std::path::Path) -> String {
    let spans = 2 * VALUES;
    format!(
        "state_dir = {:?}\n[spans]\nmax_names = {spans}\n[[socket]]\npath = {ingest:?}\n",
        dir.join("ids")
    )
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
