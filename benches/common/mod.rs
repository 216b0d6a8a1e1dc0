//! What all benches share: racing contenders in the same run, and the line of the table that comes of it.
//!
//! A bench is a plain `main`. Contenders take turns round by round, so that whatever else the machine does
//! hits all of them. A contender's figure is its best round, which is the one disturbed least; how far
//! its median round lies from that is printed as the machine's noise.
//!
//! `benches/run` runs all of them, and makes one table of what they have said ([`report`]).

#![allow(dead_code)] // each bench uses its part of this

pub(crate) mod agent;
pub(crate) mod clock;
pub(crate) mod floor;
pub(crate) mod report;

use std::time::{Duration, Instant};

#[allow(unused_imports, reason = "each bench uses its part")]
pub(crate) use report::{Figure, Goal, Row};

/// What one contender needed per round.
pub(crate) struct Times {
    /// The fastest round.
    pub best: Duration,
    /// The round in the middle.
    pub median: Duration,
}

impl Times {
    /// Of the times of several rounds, at least one.
    pub(crate) fn of(mut rounds: Vec<Duration>) -> Times {
        rounds.sort_unstable();
        Times { best: rounds[0], median: rounds[rounds.len() / 2] }
    }
}

/// Whether this is a short run: `cargo bench -- --quick`.
pub(crate) fn is_quick() -> bool {
    std::env::args().any(|arg| arg == "--quick")
}

/// Rounds to run: `normal`, or a tenth of it in a short run, but as many as it takes to see noise.
pub(crate) fn rounds(normal: usize) -> usize {
    const LEAST: usize = 3;
    if is_quick() { normal.div_ceil(10).max(LEAST.min(normal)) } else { normal }
}

/// The time `work` takes.
pub(crate) fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Runs all contenders `rounds` times in turn, after one round each to warm up. Each returns its own time.
pub(crate) fn race<const N: usize>(
    rounds: usize,
    mut contenders: [&mut dyn FnMut() -> Duration; N],
) -> [Times; N] {
    let mut times = [(); N].map(|()| Vec::with_capacity(rounds));
    for round in 0..=rounds.max(1) {
        for (contender, times) in contenders.iter_mut().zip(&mut times) {
            let took = contender();
            if round > 0 {
                times.push(took);
            }
        }
    }
    times.map(Times::of)
}
