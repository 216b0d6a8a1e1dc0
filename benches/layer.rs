//! What an event costs the program that traces it: our layer, against the fmt layer of `tracing-subscriber`
//! writing to /dev/null, in the same process. An event has four fields. `cargo bench --bench layer [-- --quick]`
//!
//! Our layer's writer thread sends to a Unix socket that is read by another thread; the time for that is not the
//! program's, but happens on the same machine. Between bursts the rings are emptied, so nothing is lost.

mod common;

use std::fs::File;
use std::io::Read;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use common::{print_ratio, race, rounds, time};
use tracing_subscriber::prelude::*;

const EVENTS: u64 = 10_000;
/// The goal is a cost per event, not a rate.
const GOAL: Duration = Duration::from_nanos(300);

fn burst() {
    for number in 0..EVENTS {
        tracing::info!(number, path = "/cart/checkout", took = 0.25, cached = false, "request");
    }
}

fn main() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let socket = dir.path().join("ingest");
    let listener = UnixListener::bind(&socket).expect("a socket in it");
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        for mut client in listener.incoming().flatten() {
            while client.read(&mut buffer).is_ok_and(|read| read > 0) {}
        }
    });
    let layer = jumpseat::layer().source("bench").socket(socket).buffer(8 << 20);
    let guard = layer.guard();
    let ours = tracing::Dispatch::new(tracing_subscriber::registry().with(layer));
    let null = File::options().write(true).open("/dev/null").expect("/dev/null");
    let fmt = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(std::sync::Arc::new(null));
    let peer = tracing::Dispatch::new(tracing_subscriber::registry().with(fmt));
    let rounds = rounds(200);
    let [ours, peer] = race(
        rounds,
        [
            &mut || {
                let took = tracing::dispatcher::with_default(&ours, || time(burst));
                assert!(guard.flush(Duration::from_secs(10)), "the rings are emptied");
                took
            },
            &mut || tracing::dispatcher::with_default(&peer, || time(burst)),
        ],
    );
    let each = ours.best / EVENTS as u32;
    let verdict = if each < GOAL { "met" } else { "MISSED" };
    println!("layer: {each:?} an event with four fields at the call site, goal below {GOAL:?}: {verdict}");
    print_ratio("layer", EVENTS as f64, "events", &ours, ("the fmt layer to /dev/null", &peer), 2.0);
}
