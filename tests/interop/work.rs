//! Nobody can make the others wait: requests at their limits, and how long the event loop was busy at a time.

use std::fmt::Write as _;
use std::time::Duration;

use crate::seat::{Endpoint, Seat};
use jumpseat::client::{Context, Fetched};
use jumpseat::model::{InstanceValue, PM_IN_NULL, PmError, Value, ValueSet};
use support::{eventually, temp_dir};

/// Far above what a round of the loop takes, for a build without optimization on a machine with other work; far below
/// what a request took that nothing bounded.
const LONGEST: Duration = Duration::from_secs(3);

/// The most expensive filter that is taken: as many tests and as much of automata as there may be, and none of it true.
fn costly_filter() -> String {
    let regexes = ["message =~ 'a[ab]{9}[^ab]'"; 6].join(" || ");
    let tests = ["type == 'none'"; 110].join(" || ");
    format!("{regexes} || {tests}")
}

fn connect(endpoint: &Endpoint) -> Context {
    Context::host(&endpoint.host()).expect("the endpoint takes clients")
}

fn store_filter(context: &mut Context, text: &str) -> Result<(), PmError> {
    let pmid = context.pmid("jumpseat.event.records").expect("a metric of every agent");
    let values = Ok(vec![InstanceValue { inst: PM_IN_NULL, value: Value::from(text.to_owned()) }]);
    context.store(&[ValueSet { pmid, values }]).map_err(|error| error.code())
}

fn fetch(context: &mut Context, names: &[&str]) -> Fetched {
    let pmids: Vec<_> =
        names.iter().map(|name| context.pmid(name).expect("a metric of every agent")).collect();
    let mut fetched = Fetched::new();
    context.fetch(&pmids, &mut fetched).expect("the endpoint answers");
    fetched
}

fn number(endpoint: &Endpoint, name: &str) -> u64 {
    let shown = endpoint.run("pminfo", ["-f", name]).ok();
    let value = shown.lines().find_map(|line| line.trim().strip_prefix("value "));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name}: {shown}"))
}

#[track_caller]
fn nobody_waited(endpoint: &Endpoint) {
    let longest = Duration::from_nanos(number(endpoint, "jumpseat.self.loop.longest"));
    assert!(longest < LONGEST, "a round of the loop took {longest:?}");
}

#[test]
fn a_filter_that_would_take_its_time_is_refused() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve([]);
    let mut client = connect(&endpoint);
    assert_eq!(store_filter(&mut client, "message =~ 'a[ab]{1000}[^ab]'"), Err(PmError::BADSTORE));
    assert!(
        endpoint.process.text().contains("too complex a regular expression"),
        "{}",
        endpoint.process.text()
    );
    assert_eq!(store_filter(&mut client, &costly_filter()), Ok(()));
    assert!(number(&endpoint, "jumpseat.self.memory.filters") > 0);
    nobody_waited(&endpoint);
}

#[test]
fn a_costly_filter_keeps_nobody_waiting_whether_its_client_reads_or_not() {
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "[events]\nsource_budget = \"1MiB\"\n");
    let endpoint = seat.serve([]);
    seat.feed([], "{\"type\":\"before\"}\n").ok();
    let mut reader = connect(&endpoint);
    let mut idler = connect(&endpoint);
    for client in [&mut reader, &mut idler] {
        assert_eq!(store_filter(client, &costly_filter()), Ok(()));
        fetch(client, &["jumpseat.event.records"]);
    }
    // Texts over which such expressions think long, and many of them: more than the log holds.
    let long = format!("{{\"type\":\"a\",\"message\":\"{}\"}}\n", "ab".repeat(8000));
    seat.feed([], &long.repeat(20)).ok();
    let mut lines = String::new();
    for n in 0..20_000 {
        let _ = writeln!(lines, "{{\"type\":\"a\",\"n\":{n},\"message\":\"{}\"}}", "ab".repeat(60));
    }
    seat.feed([], &lines).ok();
    for _ in 0..5 {
        fetch(&mut reader, &["jumpseat.event.records", "jumpseat.event.highres_records"]);
    }
    nobody_waited(&endpoint);
    // Nothing is lost without a trace: what nobody looked at counts as missed.
    let shown = endpoint.run("pminfo", ["-f", "jumpseat.client"]).ok();
    assert!(shown.contains("jumpseat.client.missed"), "{shown}");
    assert_eq!(number_of_first(&shown, "jumpseat.client.delivered"), 0, "none passes: {shown}");
}

fn number_of_first(shown: &str, name: &str) -> u64 {
    let mut lines = shown.lines().skip_while(|line| *line != name);
    let value = lines.find_map(|line| line.rsplit_once("value ")).map(|(_, value)| value);
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name}: {shown}"))
}

#[test]
fn clients_with_many_streams_leave_without_a_pause_for_others() {
    const SOURCES: usize = 60;
    const CLIENTS: usize = 400;
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), "");
    let endpoint = seat.serve([]);
    let mut lines = String::new();
    for n in 0..SOURCES {
        let _ = writeln!(lines, "{{\"source\":\"s{n}\",\"type\":\"a\"}}");
    }
    seat.feed([], &lines).ok();
    let clients: Vec<Context> = (0..CLIENTS)
        .map(|_| {
            let mut client = connect(&endpoint);
            fetch(&mut client, &["jumpseat.event.records", "jumpseat.event.highres_records"]);
            client
        })
        .collect();
    let sources = number(&endpoint, "jumpseat.self.sources") as usize;
    assert!(sources >= SOURCES);
    assert_eq!(number(&endpoint, "jumpseat.self.streams.count"), (2 * CLIENTS * sources) as u64);
    drop(clients);
    eventually("the streams to be gone", || {
        (number(&endpoint, "jumpseat.self.streams.count") == 0).then_some(())
    });
    nobody_waited(&endpoint);
}

#[test]
fn nobody_keeps_derived_metrics_from_others_by_having_many_contexts() {
    let dir = temp_dir();
    let definitions = dir.path().join("derived.conf");
    std::fs::write(&definitions, "d = delta(jumpseat.control.recent)\n").expect("the test's directory");
    let settings = format!("[derived]\nfiles = [{definitions:?}]\nhistory_budget = 1000\n");
    let seat = Seat::in_dir(dir.path(), &settings);
    let socket = dir.path().join("clients.socket");
    let unix = format!("unix:{}", socket.display());
    let endpoint = seat.serve(["--listen", &unix]);
    let ask = |context: &mut Context| {
        let fetched = fetch(context, &["jumpseat.derived.d"]);
        let set = fetched.sets().next().expect("one was asked for");
        set.values.as_ref().map(|_| ()).map_err(|error| *error)
    };
    // Over TCP nobody is known.
    let mut contexts = Vec::new();
    let refused = loop {
        let mut context = connect(&endpoint);
        match ask(&mut context) {
            Ok(()) => contexts.push(context),
            Err(error) => break error,
        }
        assert!(contexts.len() < 200, "each of them has a history");
    };
    assert_eq!(refused, PmError::AGAIN);
    assert_eq!(number(&endpoint, "jumpseat.self.derived.clients_refused"), 1);
    assert!((300..=700).contains(&number(&endpoint, "jumpseat.self.memory.history")), "half of it");
    let log = endpoint.process.text();
    assert!(
        log.contains("memory for histories of derived metrics: full (1000 bytes for all clients); "),
        "{log}"
    );
    // Those who are there go on, and who is known is another one.
    assert_eq!(ask(&mut contexts[0]), Ok(()));
    let mut known = Context::host(&unix).expect("the endpoint takes clients");
    assert_eq!(ask(&mut known), Ok(()));
    // What goes makes room.
    contexts.clear();
    eventually("the clients to be gone", || (number(&endpoint, "jumpseat.self.clients") <= 2).then_some(()));
    assert_eq!(ask(&mut connect(&endpoint)), Ok(()));
}
