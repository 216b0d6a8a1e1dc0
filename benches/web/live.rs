//! Clients that poll a collector: a pmcd with the sample agent. What they are answered is compared with a pmproxy's answers, where
//! there is one in the same run.

use std::path::Path;
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use support::{AgentSpec, PrivatePmcd};

use crate::common::clock::{peak_kib, process_cpu, whole_cpu};
use crate::common::{Figure, Goal, Row, Times, is_quick, race, repeat, rounds};
use crate::server::{Client, Server};

/// Ten metrics, 34 values, which stay as they are and have one name: of others pmproxy answers all.
const FETCH: &str = "names=sample.long.one,sample.long.ten,sample.ulong.one,sample.ulonglong.one,sample.float.one,\
                     sample.double.one,sample.ulong.bin,sample.longlong.bin,sample.double.bin,sample.string.hullo";
const METRICS: usize = 10;
const CLIENTS: usize = 1000;
/// Threads of clients: each asks for one client after the other.
const THREADS: usize = 20;
const SECOND: Duration = Duration::from_secs(1);
/// Polls of 24 hours, one a second.
const DAY: usize = 86_400;
/// Every so many polls somebody comes anew, and Prometheus scrapes.
const NEWCOMERS: usize = 600;

pub(crate) fn run() {
    let pmcd = PrivatePmcd::with([AgentSpec::sample()]).start();
    pmcd.run("pmstore", ["sample.many.count", "1000"]).ok();
    let dir = support::temp_dir();
    let web = Server::start(pmcd.env(), dir.path(), &[]);
    polled(&web, &pmcd);
    beside_pmproxy(&web, &pmcd, dir.path());
    drop(web);
    of_a_day(&pmcd, dir.path());
}

/// A client with a context that lasts.
fn context(server: &Server) -> (Client, u64) {
    let mut client = server.client();
    let answer: Json = serde_json::from_str(&client.get("/pmapi/context?polltimeout=3600")).expect("JSON");
    (client, answer["context"].as_u64().expect("a number"))
}

/// What a round of polls has shown.
struct Polled {
    /// Processor time of the server, and of pmcd, in percent of a core.
    shares: [f64; 2],
    /// Milliseconds within which 99 of 100 answers were there.
    late: f64,
    /// Answers that were not whole, or later than a second.
    lost: f64,
    /// The most memory so far, in MiB.
    peak: f64,
}

/// A thousand clients, each once a second.
fn polled(web: &Server, pmcd: &PrivatePmcd) {
    let seconds = if is_quick() { 2 } else { 8 };
    let mut clients: Vec<(Client, String)> = (0..CLIENTS)
        .map(|_| context(web))
        .map(|(client, context)| (client, format!("/pmapi/{context}/fetch?{FETCH}")))
        .collect();
    let rounds = repeat(|| polls(web, pmcd, &mut clients, seconds));
    let of = |figure: fn(&Polled) -> f64| rounds.iter().map(figure).collect::<Vec<f64>>();
    let theirs = of(|polled| polled.shares[1]).into_iter().fold(0.0, f64::max);
    Row::new(
        format!("web: {CLIENTS} clients that poll {METRICS} metrics a second"),
        Figure::middle(of(|polled| polled.shares[0]), "% of a core"),
    )
    .goal(Goal::AtMost(100.0))
    .note(format!("pmcd and its agent's socket: {theirs:.0} % of a core; {seconds} s"))
    .print();
    Row::new("the same, 99 of 100 answers within", Figure::middle(of(|polled| polled.late), "ms"))
        .goal(Goal::AtMost(200.0))
        .print();
    Row::new(
        "the same, answers lost or later than a second",
        Figure::most(of(|polled| polled.lost), "answers"),
    )
    .goal(Goal::AtMost(0.0))
    .print();
    Row::new("the same, the most memory", Figure::most(of(|polled| polled.peak), "MiB"))
        .goal(Goal::AtMost(256.0))
        .print();
}

/// All clients for so many seconds.
fn polls(web: &Server, pmcd: &PrivatePmcd, clients: &mut [(Client, String)], seconds: u32) -> Polled {
    let times = Mutex::new(Vec::with_capacity(CLIENTS * seconds as usize));
    let before = (whole_cpu(web.pid()), process_cpu(pmcd.pid()));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for (thread, clients) in clients.chunks_mut(CLIENTS / THREADS).enumerate() {
            let times = &times;
            scope.spawn(move || {
                let pace = SECOND / clients.len() as u32;
                let phase = pace / THREADS as u32 * thread as u32;
                let mut own = Vec::new();
                for second in 0..seconds {
                    for (at, (client, path)) in (0..).zip(clients.iter_mut()) {
                        let due = begun + SECOND * second + pace * at + phase;
                        sleep(due.saturating_duration_since(Instant::now()));
                        let body = client.get(path);
                        // An answer is late from when it was due: a client that waits asks later, too.
                        let is_whole = body.matches("\"pmid\":").count() == METRICS;
                        own.push(is_whole.then(|| due.elapsed()));
                    }
                }
                times.lock().expect("nobody panics").extend(own);
            });
        }
    });
    let took = begun.elapsed().as_secs_f64();
    let share = |after: Duration, before: Duration| (after - before).as_secs_f64() / took * 100.0;
    let shares = [share(whole_cpu(web.pid()), before.0), share(process_cpu(pmcd.pid()), before.1)];
    let times = times.into_inner().expect("nobody panics");
    let lost = times.iter().filter(|time| time.is_none_or(|time| time > SECOND)).count() as f64;
    let mut times: Vec<Duration> = times.into_iter().flatten().collect();
    times.sort_unstable();
    let late = times.get(times.len() * 99 / 100).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3);
    Polled { shares, late, lost, peak: peak_mib(web) }
}

/// The same requests to both, in turn.
fn beside_pmproxy(web: &Server, pmcd: &PrivatePmcd, dir: &Path) {
    const REQUESTS: usize = 200;
    let proxy = Server::pmproxy(pmcd.env(), dir);
    let (mut ours, mut theirs) = (context(web), context(&proxy));
    for (what, request, count) in [
        ("fetch of 10 metrics", format!("fetch?{FETCH}"), REQUESTS),
        ("fetch of 1,000 instances", "fetch?names=sample.many.int".to_owned(), REQUESTS / 10),
        ("descriptions of 10 metrics", format!("metric?{FETCH}"), REQUESTS / 4),
    ] {
        let ask = |(client, context): &mut (Client, u64)| client.get(&format!("/pmapi/{context}/{request}"));
        assert_eq!(known(&ask(&mut ours)), known(&ask(&mut theirs)), "{request}: the same answer");
        let timed =
            |asked: &mut (Client, u64)| crate::common::time(|| (0..count).for_each(|_| drop(ask(asked))));
        let rounds = rounds(10);
        let [web_took, proxy_took] = race(rounds, [&mut || timed(&mut ours), &mut || timed(&mut theirs)]);
        let cpu = |server: &Server, asked: &mut (Client, u64)| {
            let before = whole_cpu(server.pid());
            (0..count).for_each(|_| drop(ask(asked)));
            whole_cpu(server.pid()) - before
        };
        let [web_cpu, proxy_cpu] =
            race(rounds, [&mut || cpu(web, &mut ours), &mut || cpu(&proxy, &mut theirs)]);
        let each = |times: &Times| Figure::time(times, count as f64, 1e-6, "us");
        Row::new(format!("web: {what}, one client, by the clock"), each(&web_took))
            .peer("pmproxy", each(&proxy_took))
            .goal(Goal::Ratio(3.0))
            .print();
        Row::new(format!("web: {what}, processor time of the server"), each(&web_cpu))
            .peer("pmproxy", each(&proxy_cpu))
            .print();
    }
    floor(web, &proxy, pmcd);
}

/// What a fetch takes that nobody can do without, beside pmproxy: more than that it cannot be outrun by.
fn floor(web: &Server, proxy: &Server, pmcd: &PrivatePmcd) {
    const REQUESTS: usize = 200;
    let (mut ours, mut theirs) = (context(web), context(proxy));
    let answer = ours.0.get(&format!("/pmapi/{}/fetch?{FETCH}", ours.1));
    let names: Vec<&str> = FETCH.trim_start_matches("names=").split(',').collect();
    let bare = Server::bare(&pmcd.unix(), &names, &answer);
    let mut bare = (bare.client(), ours.1);
    assert_eq!(bare.0.get("/"), answer);
    let timed = |(client, context): &mut (Client, u64)| {
        let path = format!("/pmapi/{context}/fetch?{FETCH}");
        crate::common::time(|| (0..REQUESTS).for_each(|_| drop(client.get(&path))))
    };
    let [bare_took, proxy_took] = race(rounds(10), [&mut || timed(&mut bare), &mut || timed(&mut theirs)]);
    let each = |times: &Times| Figure::time(times, REQUESTS as f64, 1e-6, "us");
    Row::new("web: the floor of that, a server that asks pmcd and answers the same bytes", each(&bare_took))
        .peer("pmproxy", each(&proxy_took))
        .print();
}

/// An answer without what differs from moment to moment, and from server to server.
fn known(text: &str) -> Json {
    let mut answer: Json = serde_json::from_str(text).expect("JSON");
    for member in ["context", "timestamp"] {
        answer[member] = Json::Null;
    }
    for metric in answer["metrics"].as_array_mut().into_iter().flatten() {
        // Identifiers are of labels, in which the two differ: who is connected.
        metric["series"] = Json::Null;
        metric["labels"] = Json::Null;
        // Texts that there are not.
        if let Some(metric) = metric.as_object_mut() {
            metric.retain(|_, value| *value != "");
        }
    }
    answer
}

/// As many polls as 24 hours have seconds, some times over: how memory grows by them.
fn of_a_day(pmcd: &PrivatePmcd, dir: &Path) {
    let polls = if is_quick() { DAY / 10 } else { DAY };
    let rounds = repeat(|| grown(&Server::start(pmcd.env(), dir, &[]), polls));
    let [first, last] = [0, 1].map(|at| rounds.iter().map(|round| round[at]).fold(0.0, f64::max));
    let what = format!("web: most memory in {polls} polls, beyond that in a tenth of them");
    Row::new(what, Figure::most(rounds.iter().map(|[first, last]| last - first).collect(), "MiB"))
        .goal(Goal::AtMost(2.0))
        .note(format!("{first:.1} MiB in a tenth, {last:.1} MiB in all"))
        .print();
}

/// The most memory in a tenth of so many polls, and in all, one after the other by some clients at a time; in MiB.
fn grown(web: &Server, polls: usize) -> [f64; 2] {
    const AT_ONCE: usize = 4;
    let mut clients: Vec<(Client, u64)> = (0..AT_ONCE).map(|_| context(web)).collect();
    [polls / 10, polls - polls / 10].map(|polls| {
        std::thread::scope(|scope| {
            for (client, context) in &mut clients {
                scope.spawn(move || {
                    let path = format!("/pmapi/{context}/fetch?{FETCH}");
                    for poll in 0..polls / AT_ONCE {
                        assert!(client.get(&path).contains("values"), "its context lasts");
                        if poll % (NEWCOMERS / AT_ONCE) == 0 {
                            client.get(&format!("/pmapi/fetch?polltimeout=1&{FETCH}"));
                            client.get("/metrics?names=sample.bin,sample.colour");
                        }
                    }
                });
            }
        });
        peak_mib(web)
    })
}

/// What it has taken at any time: what was given back meanwhile had to be there.
fn peak_mib(server: &Server) -> f64 {
    peak_kib(server.pid()) as f64 / 1024.0
}
