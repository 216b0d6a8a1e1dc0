//! What an event costs the program that traces it, inside a span, with four fields: at the call site, and all processor time of the
//! program, its writer thread included. `jumpseat serve` of this build takes the events.
//!
//! Against it, in the same process: a subscriber that visits the fields and drops them (what `tracing` itself takes), one that copies
//! them and the span's identifier into memory and asks no clock (what any that keeps events takes), and the fmt layer of
//! `tracing-subscriber` writing to /dev/null. Between bursts the rings are emptied, so nothing is lost. Programs run for long: the
//! rings have been gone around once before a time counts, so that their pages are there.

mod common;

use std::cell::RefCell;
use std::fs::File;
use std::hint::black_box;
use std::io::Write as _;
use std::time::Duration;

use common::agent::Served;
use common::{Figure, Goal, Row, Times, race, rounds, time};
use nix::time::{ClockId, clock_gettime};
use tracing::field::{Field, Visit};
use tracing::{Dispatch, Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;

const AGENT: &str = env!("CARGO_BIN_EXE_jumpseat");
const EVENTS: u64 = 10_000;
/// Bytes of a thread's ring, and about those of an event in it.
const RING: usize = 8 << 20;
const EVENT: usize = 100;
/// Bursts that go once around a ring.
const AROUND: usize = RING / (EVENTS as usize * EVENT) + 1;
const CALL_SITE_GOAL_NS: f64 = 40.0;
/// Against a subscriber that drops what it visits.
const VISIT_GOAL: f64 = 1.0 / 1.5;
const PROGRAM_GOAL_NS: f64 = 120.0;

fn main() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let agent = Served::start(AGENT, dir.path(), "");
    let layer = jumpseat::layer().source("bench").socket(&agent.socket).buffer(RING);
    let guard = layer.guard();
    let ours = Dispatch::new(tracing_subscriber::registry().with(layer));
    let visiting = Dispatch::new(tracing_subscriber::registry().with(Visiting));
    let null = File::options().write(true).open("/dev/null").expect("/dev/null");
    let fmt = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(std::sync::Arc::new(null));
    let fmt = Dispatch::new(tracing_subscriber::registry().with(fmt));
    let empty = || assert!(guard.flush(Duration::from_secs(10)), "the rings are emptied");
    let keeping = Dispatch::new(tracing_subscriber::registry().with(Keeping));
    let warm_up = |threads: usize| {
        for _ in 0..AROUND {
            in_threads(&ours, threads);
            empty();
        }
    };
    let mut ours_once = || {
        let took = at_call_site(&ours);
        empty();
        took
    };
    for _ in 0..AROUND {
        ours_once();
    }
    let [ours_took, visiting_took, keeping_took, fmt_took] = race(
        rounds(200),
        [&mut ours_once, &mut || at_call_site(&visiting), &mut || at_call_site(&keeping), &mut || {
            at_call_site(&fmt)
        }],
    );
    let each = |times: &Times| Figure::nanos(times, EVENTS as f64, "ns an event");
    let what = "tracing layer, four fields, inside a span, at the call site";
    Row::new(what, each(&ours_took))
        .peer("the fmt layer to /dev/null", each(&fmt_took))
        .goal(Goal::AtMost(CALL_SITE_GOAL_NS))
        .headline()
        .print();
    Row::new(what, each(&ours_took))
        .peer("a layer that visits fields and drops them", each(&visiting_took))
        .goal(Goal::Ratio(VISIT_GOAL))
        .print();
    Row::new(what, each(&ours_took))
        .peer("a layer that copies fields and span into memory, without a time", each(&keeping_took))
        .print();
    for threads in [1, 8] {
        warm_up(threads);
        let [ours_took, visiting_took] = race(
            rounds(40),
            [
                &mut || {
                    let before = cpu();
                    in_threads(&ours, threads);
                    empty();
                    cpu() - before
                },
                &mut || {
                    let before = cpu();
                    in_threads(&visiting, threads);
                    cpu() - before
                },
            ],
        );
        let each = |times: &Times| Figure::nanos(times, (threads as u64 * EVENTS) as f64, "ns an event");
        Row::new(format!("tracing layer, all CPU of a program of {threads} threads"), each(&ours_took))
            .peer("a layer that visits fields and drops them", each(&visiting_took))
            .goal(Goal::AtMost(PROGRAM_GOAL_NS))
            .print();
    }
}

/// Time by the clock of the thread that traces.
fn at_call_site(dispatch: &Dispatch) -> Duration {
    tracing::dispatcher::with_default(dispatch, || {
        let span = tracing::info_span!("order", id = 17);
        let _inside = span.enter();
        time(burst)
    })
}

fn in_threads(dispatch: &Dispatch, threads: usize) {
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| at_call_site(dispatch));
        }
    });
}

fn burst() {
    for number in 0..EVENTS {
        tracing::info!(number, path = "/cart/checkout", took = 0.25, cached = false, "request");
    }
}

/// Processor time of this process.
fn cpu() -> Duration {
    Duration::from(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("the clock is there"))
}

/// Looks at all fields of events, and at nothing else.
struct Visiting;

impl<S: Subscriber> Layer<S> for Visiting {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        event.record(&mut Dropping);
    }
}

struct Dropping;

impl Visit for Dropping {
    fn record_debug(&mut self, _: &Field, value: &dyn std::fmt::Debug) {
        black_box(value);
    }

    fn record_f64(&mut self, _: &Field, value: f64) {
        black_box(value);
    }

    fn record_i64(&mut self, _: &Field, value: i64) {
        black_box(value);
    }

    fn record_u64(&mut self, _: &Field, value: u64) {
        black_box(value);
    }

    fn record_bool(&mut self, _: &Field, value: bool) {
        black_box(value);
    }

    fn record_str(&mut self, _: &Field, value: &str) {
        black_box(value);
    }
}

/// Copies all fields of events and the span they are in, one event over the other.
struct Keeping;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Keeping {
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        KEPT.with_borrow_mut(|kept| {
            kept.clear();
            let span = context.lookup_current().map_or(0, |span| span.id().into_u64());
            kept.extend_from_slice(&span.to_ne_bytes());
            event.record(&mut Copying(kept));
            black_box(kept.as_slice());
        });
    }
}

thread_local! {
    static KEPT: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(1 << 10));
}

struct Copying<'a>(&'a mut Vec<u8>);

impl Visit for Copying<'_> {
    fn record_debug(&mut self, _: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{value:?}").expect("there is memory");
    }

    fn record_f64(&mut self, _: &Field, value: f64) {
        self.0.extend_from_slice(&value.to_ne_bytes());
    }

    fn record_i64(&mut self, _: &Field, value: i64) {
        self.0.extend_from_slice(&value.to_ne_bytes());
    }

    fn record_u64(&mut self, _: &Field, value: u64) {
        self.0.extend_from_slice(&value.to_ne_bytes());
    }

    fn record_bool(&mut self, _: &Field, value: bool) {
        self.0.push(value.into());
    }

    fn record_str(&mut self, _: &Field, value: &str) {
        self.0.extend_from_slice(value.as_bytes());
    }
}
