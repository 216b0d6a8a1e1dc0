//! The archives of a fleet: 100 hosts, 14 days, 200 metrics a minute; with 50 users at a time. Goals: metadata of archives at 100 MB/s, 99 of 100
//! panel queries (one metric, one day) within 200 ms and metric searches within 20 ms, 256 MiB.
//!
//! Metrics, instances, texts and values are those of a real archive, of PCP's test suite. The last two days of each host have all their
//! records, which queries read; those before have one an hour: the index does not look at records, and 1.4 GB are enough for a
//! directory of temporary files.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::common::clock::peak_kib;
use crate::common::{Figure, Goal, Row, is_quick};
use crate::server::{Client, Server};
use jumpseat::archive::{Archive, ArchiveWriter, LabelInfo, Step, WriteOptions};
use jumpseat::model::{
    Desc, InDom, Instance, Label, LabelFlags, LabelSet, PM_IN_NULL, Pmid, Timestamp, ValueSet,
};
use jumpseat::pdu::{Fetched, LabelTarget, TextLevel, TextTarget};

const TEMPLATE: &str = "/var/lib/pcp/testsuite/archives/pcp-zeroconf";
const METRICS: usize = 200;
const DAYS: i64 = 14;
const USERS: usize = 50;
/// How often all of it is indexed.
const INDEXED: usize = 4;
const START: i64 = 1_700_006_400;
const DAY: i64 = 86_400;
/// What is asked for, as on dashboards: the last metric of each record.
const ASKED: &str = "kernel.all.load";

pub(crate) fn run() {
    let hosts = 100;
    let dir = tempfile::tempdir().expect("a directory can be made");
    let archives = dir.path().join("archives");
    let template = Template::read();
    let mut metadata = 0;
    for host in 0..hosts {
        for day in 0..DAYS {
            metadata += template.write(&archives, host, day);
        }
    }
    // What was written goes to the disk first: that is no work of the server's.
    assert!(Command::new("sync").status().is_ok_and(|status| status.success()));
    let last = START + (DAYS - 1) * DAY;
    let search =
        |number: usize| format!("/series/metrics?match=*{}*", ["disk", "kernel", "mem", "e"][number % 4]);
    let count = if is_quick() { 4 } else { 25 };
    let [mut listening, mut built, mut panels, mut searches, mut peaks] = [const { Vec::new() }; 5];
    for number in 0..INDEXED {
        // Each with a cache of its own.
        let cache = dir.path().join(format!("round{number}"));
        std::fs::create_dir(&cache).expect("the directory is ours");
        let begun = Instant::now();
        let server = start(&cache, &archives);
        listening.push(millis(begun.elapsed()));
        let begun = Instant::now();
        load(&server, &archives);
        built.push(begun.elapsed().as_secs_f64() / metadata as f64 * 1e8);
        let mut client = server.client();
        let ids = client.get(&format!("/series/query?expr={ASKED}"));
        let ids: Vec<String> = serde_json::from_str(&ids).expect("identifiers");
        assert_eq!(ids.len(), hosts as usize, "each host has it");
        let panel = |number: usize| {
            let id = &ids[number * 7919 % ids.len()];
            format!("/series/values?finish={}&interval=60&series={id}&start={last}", last + DAY - 60)
        };
        let rows = client.get(&panel(0)).matches("timestamp").count();
        assert!(rows > 1400, "a day of values: {rows}");
        panels.push(millis(many(&server, count, &panel)));
        searches.push(millis(many(&server, count, &search)));
        peaks.push(peak_kib(server.pid()) as f64 / 1024.0);
    }
    let all = hosts * DAYS;
    Row::new(format!("web: start with {all} archives"), Figure::costs(listening, "ms")).print();
    // As a cost of a megabyte: the table has no figure of which more is better but rates of rounds.
    Row::new("web: index of new archives, seconds for 100 MB of metadata", Figure::costs(built, "s"))
        .goal(Goal::AtMost(1.0))
        .note(format!("{:.0} MB of it", metadata as f64 / 1e6))
        .print();
    Row::new(
        "web: a panel query (a metric, a day), 50 users: 99 of 100 within",
        Figure::middle(panels, "ms"),
    )
    .goal(Goal::AtMost(200.0))
    .print();
    Row::new("web: a search for metrics, 50 users: 99 of 100 within", Figure::middle(searches, "ms"))
        .goal(Goal::AtMost(20.0))
        .print();
    Row::new(format!("web: memory with {all} archives, the most there was"), Figure::most(peaks, "MiB"))
        .goal(Goal::AtMost(256.0))
        .print();
}

fn start(dir: &Path, archives: &Path) -> Server {
    let archives = archives.to_str().expect("temporary paths are UTF-8");
    Server::start(&support::PcpEnv::new(), dir, &["-a", archives])
}

/// Waits until the index is there.
fn load(server: &Server, archives: &Path) {
    let path = format!("/series/load?expr={{source.path:%20%22{}%22}}", archives.display());
    let mut client = server.client();
    while !client.get(&path).contains("\"success\":true") {}
}

/// All users ask `count` times each, one after the other; the time that 99 of 100 answers took at most.
fn many(server: &Server, count: usize, path: &(impl Fn(usize) -> String + Sync)) -> Duration {
    let times = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for user in 0..USERS {
            let times = &times;
            scope.spawn(move || {
                let mut client: Client = server.client();
                for number in 0..count {
                    let begun = Instant::now();
                    let body = client.get(&path(user * count + number));
                    assert!(body.starts_with('['), "{body}");
                    times.lock().expect("nobody panics").push(begun.elapsed());
                }
            });
        }
    });
    let mut times = times.into_inner().expect("nobody panics");
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A metric, its names, its text, and values.
type Described = (Desc, Vec<String>, Option<String>, ValueSet);

/// What a real archive has.
struct Template {
    metrics: Vec<Described>,
    indoms: Vec<(InDom, Vec<Instance>)>,
}

impl Template {
    fn read() -> Template {
        let mut archive = Archive::open(TEMPLATE).expect("PCP's test suite is installed");
        let mut metrics: Vec<Described> = Vec::new();
        let mut at = archive.first();
        let mut found = Vec::new();
        while let Some(step) = archive.next(at).expect("it can be read") {
            let Step::Record(place, after) = step else { break };
            at = after;
            let record = archive.record(place).expect("it can be read");
            found.extend(record.sets().map(|set| set.pmid));
            if found.len() > 4 * METRICS {
                break;
            }
        }
        let asked = archive.lookup_name(ASKED).expect("it is recorded");
        found.retain(|&pmid| pmid != asked);
        for pmid in found {
            let Ok(desc) = archive.desc(pmid) else { continue };
            let known = metrics.iter().any(|(known, ..)| known.pmid == pmid);
            if !known && desc.value_type.is_numeric() && metrics.len() < METRICS - 1 {
                metrics.extend(described(&mut archive, desc));
            }
        }
        // Behind all others in a record, which are passed over to find it.
        let asked = archive.desc(asked).expect("it is described");
        metrics.extend(described(&mut archive, asked));
        assert_eq!(metrics.len(), METRICS);
        let mut indoms: Vec<InDom> = metrics.iter().map(|(desc, ..)| desc.indom).collect();
        indoms.sort_unstable();
        indoms.dedup();
        let instances = |indom: InDom| Some((indom, archive.instances_ever(indom).ok()?));
        Template { indoms: indoms.into_iter().filter_map(instances).collect(), metrics }
    }

    /// A day of a host. Bytes of its metadata.
    fn write(&self, archives: &Path, host: i64, day: i64) -> u64 {
        let name = format!("host{host:03}");
        let directory = archives.join(&name);
        std::fs::create_dir_all(&directory).expect("it can be made");
        let base = directory.join(format!("day{day:02}"));
        let label = LabelInfo { host: name.clone(), zone: "UTC".into(), ..LabelInfo::default() };
        let mut archive =
            ArchiveWriter::create(&base, label, WriteOptions::default()).expect("nothing is there");
        let start = START + day * DAY;
        let hostname =
            Label { name: "hostname".into(), value: format!("\"{name}\""), flags: LabelFlags::default() };
        let labels = [LabelSet { inst: PM_IN_NULL, labels: Ok(vec![hostname]) }];
        archive.labels(Timestamp::new(start, 0), LabelTarget::Context, &labels);
        for (desc, names, text, _) in &self.metrics {
            archive.desc(desc, names).expect("described once");
            if let Some(text) = text {
                archive.text(TextTarget::Metric(desc.pmid), TextLevel::OneLine, text);
            }
        }
        for (indom, instances) in &self.indoms {
            archive.indom(Timestamp::new(start, 0), *indom, instances);
        }
        let every = if day >= DAYS - 2 { 60 } else { 3600 };
        let mut fetched = Fetched::new();
        for time in (start..start + DAY).step_by(every) {
            fetched.clear();
            fetched.timestamp = Timestamp::new(time, 0);
            for (desc, _, _, values) in &self.metrics {
                fetched.begin_set(desc.pmid);
                for value in values.values.as_ref().expect("there are values") {
                    fetched.push_value(value.inst, &value.value).expect("values of one type");
                }
                fetched.end_set();
            }
            archive.result(&fetched).expect("the disk has room");
        }
        drop(archive);
        std::fs::metadata(base.with_extension("meta")).map_or(0, |about| about.len())
    }
}

/// A metric with its names, its text and the first values that it has, if there are any.
fn described(archive: &mut Archive, desc: Desc) -> Option<Described> {
    let values = first_values(archive, desc.pmid, &desc)?;
    let text = archive.text(TextTarget::Metric(desc.pmid), TextLevel::OneLine).ok();
    Some((desc, archive.names_of(desc.pmid), text, values))
}

/// The first values that a metric has.
fn first_values(archive: &mut Archive, pmid: Pmid, desc: &Desc) -> Option<ValueSet> {
    let mut at = archive.first();
    while let Some(Step::Record(place, after)) = archive.next(at).ok()? {
        at = after;
        let record = archive.record(place).ok()?;
        let set =
            record.sets().find(|set| set.pmid == pmid).and_then(|set| set.to_values(desc.value_type).ok());
        if set.as_ref().is_some_and(|set| set.values.as_ref().is_ok_and(|values| !values.is_empty())) {
            return set;
        }
    }
    None
}
