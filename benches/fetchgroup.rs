//! Fetch groups against libpcp's: the same 1,000 values of some 100 metrics from the same pmcd, each fetched and
//! converted to double precision; the CPU time that the client needs for a fetch. Values that stay as they are have to be the same on
//! both sides. Beside it what the kernel takes of that: the same fetch, of which the bytes are only moved.

mod common;

use std::os::unix::net::UnixStream;
use std::time::Duration;

use common::{Figure, Goal, Row, Times, floor, race, rounds};
use jumpseat::client::Context;
use jumpseat::client::group::{FetchGroup, ItemHandle, Scale};
use nix::time::{ClockId, clock_gettime};
use support::CPeer;
use support::{AgentSpec, PrivatePmcd};

const AGENTS: u32 = 6;
const ITEMS: usize = 1000;
const FETCHES: u32 = 200;

/// Metrics of the sample agent, all types, a third of them counters; with 9 instances, the last ones with more.
const METRICS: [&str; 17] = [
    "bin",
    "bucket",
    "long.bin",
    "long.bin_ctr",
    "ulong.bin",
    "ulong.bin_ctr",
    "longlong.bin",
    "longlong.bin_ctr",
    "ulonglong.bin",
    "ulonglong.bin_ctr",
    "float.bin",
    "float.bin_ctr",
    "double.bin",
    "double.bin_ctr",
    "string.bin",
    "hordes.one",
    "hordes.two",
];

/// Metrics and instances.
fn items() -> Vec<(String, String)> {
    let mut items = Vec::new();
    for agent in 0..AGENTS {
        for metric in METRICS {
            let instances = (1..=9).map(|n| match metric.starts_with("hordes") {
                true => (n * 20).to_string(),
                false => format!("bin-{}00", n),
            });
            items.extend(instances.map(|instance| (format!("s{agent}.{metric}"), instance)));
        }
        let more = (201..=217).map(|n| (format!("s{agent}.hordes.one"), n.to_string()));
        items.extend(more);
    }
    items.truncate(ITEMS);
    items
}

/// CPU time of this thread: the other program's is that of its only one.
fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).expect("threads have a clock")
}

fn main() {
    let agents = (0..AGENTS).map(|n| AgentSpec::sample_as(&format!("s{n}"), 200 + n));
    let pmcd = PrivatePmcd::with(agents).start();
    let items = items();
    assert_eq!(items.len(), ITEMS);

    let mut peer = CPeer::start("benches/c/fetchgroup.c");
    peer.ask(&format!("create {}", pmcd.unix()));
    let mut group = FetchGroup::host(&pmcd.unix()).expect("pmcd listens");
    let handles: Vec<ItemHandle<f64>> = items
        .iter()
        .map(|(metric, instance)| {
            peer.ask(&format!("item {metric} {instance}"));
            group.item(metric, Some(instance), Scale::None).expect("the sample agent has it")
        })
        .collect();

    let mut ours = || {
        let start = cpu();
        for _ in 0..FETCHES {
            group.fetch().expect("pmcd answers");
        }
        let took = cpu() - start;
        assert!(handles.iter().all(|&handle| group.value(handle).is_ok()));
        took
    };
    let mut theirs = || {
        let answer = peer.ask(&format!("fetch {FETCHES}"));
        let (nanos, good) = answer.split_once(' ').expect("a time and a number");
        assert_eq!(good.parse(), Ok(ITEMS));
        Duration::from_nanos(nanos.parse().expect("a number of nanoseconds"))
    };
    // One fetch, so that there are rates from the first round on.
    let _ = (ours(), theirs());
    let mut context = Context::host(&pmcd.unix()).expect("pmcd listens");
    let mut names: Vec<&str> = items.iter().map(|(metric, _)| metric.as_str()).collect();
    names.dedup();
    let found = context.lookup_names(&names).expect("pmcd answers");
    let pmids = found.into_iter().map(|pmid| pmid.expect("the sample agent has it")).collect();
    let mut bytes = floor::Bytes::fetching(UnixStream::connect(pmcd.socket()).expect("pmcd listens"), pmids);
    let mut least = || {
        let start = cpu();
        for _ in 0..FETCHES {
            assert!(bytes.fetch().len() > 8 * ITEMS, "all values are there");
        }
        cpu() - start
    };
    let [ours, theirs, least] = race(rounds(20), [&mut ours, &mut theirs, &mut least]);
    // Rates are of different times; the values that stay as they are have to be the same.
    let stays = |metric: &str| !metric.ends_with("_ctr") && !metric.ends_with("ulonglong.bin");
    let answer = peer.ask("values");
    let theirs_last: Vec<f64> =
        answer.split_whitespace().map(|value| value.parse().expect("a number")).collect();
    assert_eq!(theirs_last.len(), ITEMS);
    let mut same = 0;
    for (((metric, instance), handle), theirs) in items.iter().zip(&handles).zip(theirs_last) {
        if stays(metric) {
            assert_eq!(group.value(*handle), Ok(theirs), "{metric}[{instance}]");
            same += 1;
        }
    }
    assert!(same > ITEMS / 2, "most of them stay as they are");
    let what = format!("{ITEMS} values of {} metrics, CPU of the client", AGENTS as usize * METRICS.len());
    let each = |times: &Times| Figure::time(times, f64::from(FETCHES), 1e-6, "us a fetch");
    Row::new(format!("fetch group of {what}"), each(&ours))
        .peer("libpcp", each(&theirs))
        .goal(Goal::Ratio(4.0))
        .headline()
        .print();
    Row::new(format!("fetch group of {what}"), each(&ours))
        .peer("sending and receiving the bytes, nothing else", each(&least))
        .print();
}
