//! Every kind of request at its limits: how long the slowest took, and how long the event loop was busy at a time.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::seat::Seat;
use jumpseat::client::{Context, Fetched, LabelTarget, TextLevel, TextTarget};
use jumpseat::model::{InDom, InstanceValue, PM_IN_NULL, Pmid, Value, ValueSet, ValueType};
use support::temp_dir;

/// For a build without optimization, on a machine with other work. A release does it in a fiftieth of that.
const LONGEST: Duration = Duration::from_secs(3);
const SOURCES: usize = 250;
/// Event types, and fields.
const TYPES: usize = 4000;
/// As many metrics as a request may ask for.
const ASKED: usize = 16_000;

/// As many names as there may be, and records as large as they may be.
fn everything() -> String {
    let mut lines = String::new();
    for n in 0..TYPES {
        let _ = writeln!(lines, "{{\"source\":\"s{}\",\"type\":\"t{n}\",\"f{n}\":{n}}}", n % SOURCES);
    }
    let long = "x".repeat(16_000);
    for n in 0..400 {
        let _ = writeln!(lines, "{{\"source\":\"s{}\",\"message\":\"{long}\"}}", n % 7);
    }
    lines
}

struct Table {
    rows: Vec<(String, Duration)>,
}

impl Table {
    fn time<T>(&mut self, what: &str, ask: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let answer = ask();
        self.rows.push((what.to_owned(), begun.elapsed()));
        answer
    }
}

#[test]
fn every_kind_of_request_is_answered_soon_at_its_limits() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve([]);
    seat.feed([], &everything()).ok();
    let host = endpoint.host();
    let connect = || Context::host(&host).expect("the endpoint takes clients");
    let mut context = connect();
    let mut table = Table { rows: Vec::new() };
    let number = |context: &mut Context, name: &str| {
        let pmid = context.pmid(name).expect("a metric of every agent");
        let mut fetched = Fetched::new();
        context.fetch(&[pmid], &mut fetched).ok()?;
        let set = fetched.sets().next()?.to_values(ValueType::U64).ok()?;
        match set.values.ok()?.first()?.value {
            Value::U64(number) => Some(number),
            _ => None,
        }
    };

    let names = table.time("names: all, level by level", || context.traverse("").expect("it answers"));
    assert!(names.len() >= TYPES);
    table.time("names: children of jumpseat.field", || {
        context.children("jumpseat.field").expect("it answers")
    });
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let found = table.time("names: look all up", || context.lookup_names(&all).expect("it answers"));
    let pmids: Vec<Pmid> = found.into_iter().flatten().collect();
    table.time("descriptors: of all", || context.descs(&pmids).expect("it answers").len());
    for serial in 0..8 {
        let indom = InDom::new(400, serial);
        table.time(&format!("instances: of domain 400.{serial}"), || {
            context.instances(indom).map(|all| all.len()).ok()
        });
        table.time(&format!("labels: of instances 400.{serial}"), || {
            context.labels(LabelTarget::Instances(indom)).map(|all| all.len()).ok()
        });
    }
    table.time("help: of all metrics", || {
        pmids.iter().filter(|pmid| context.text(TextTarget::Metric(**pmid), TextLevel::Help).is_ok()).count()
    });
    let mut fetched = Fetched::new();
    table.time("fetch: all metrics", || context.fetch(&pmids, &mut fetched).expect("it answers"));
    for name in [
        "jumpseat.source.received",
        "jumpseat.event.count",
        "jumpseat.event.recent",
        "jumpseat.derived.source.event_rate",
    ] {
        let pmid = context.pmid(name).expect("a metric of every agent");
        let many = vec![pmid; ASKED];
        // Too much for an answer is an answer, too.
        table.time(&format!("fetch: {name}, {ASKED} times"), || context.fetch(&many, &mut fetched).is_ok());
        if !context.is_connected() {
            context = connect();
        }
    }
    let records = context.pmid("jumpseat.event.records").expect("a metric of every agent");
    let store = Ok(vec![InstanceValue { inst: PM_IN_NULL, value: Value::from("x == 1".to_owned()) }]);
    table.time("store: a filter, 1000 times", || {
        for _ in 0..1000 {
            let values = store.clone();
            context.store(&[ValueSet { pmid: records, values }]).expect("it is taken");
        }
    });
    let indom = InDom::new(400, 1);
    let instances: Vec<_> = (0..60_000).collect();
    table.time("profile: 60000 instances", || {
        context.add_profile(indom, &instances).expect("it is taken");
        context.fetch(&[pmids[0]], &mut fetched).is_ok()
    });

    let mut asker = connect();
    let longest =
        |asker: &mut Context, name: &str| Duration::from_nanos(number(asker, name).expect("a number"));
    let round = longest(&mut asker, "jumpseat.self.loop.longest");
    let request = longest(&mut asker, "jumpseat.self.requests.longest");
    table.rows.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    for (what, time) in &table.rows {
        println!("{:>9.1} ms  {what}", time.as_secs_f64() * 1e3);
    }
    println!("{:>9.1} ms  longest round of the loop", round.as_secs_f64() * 1e3);
    println!("{:>9.1} ms  longest request", request.as_secs_f64() * 1e3);
    assert!(round < LONGEST && request < LONGEST, "{round:?}, {request:?}");
}
