//! What all benches share: racing contenders in the same run, and the line of the table that comes of it.
//!
//! A bench is a plain `main`. Contenders take turns round by round, so that whatever else the machine does
//! hits all of them. A contender's figure is its best round, which is the one disturbed least; how far
//! its median round lies from that is printed as the machine's noise. A race lasts for some seconds, however short its
//! rounds are: a machine that is shared is slow for seconds at a time, and no contender shall have had only such ones.
//! How many times better one is than another is a matter of each round by itself, and the ratio in the middle counts: by their best
//! rounds, one could have met the machine when it was fast, and the other not.
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
#[derive(Clone)]
pub(crate) struct Times {
    /// The fastest round.
    pub best: Duration,
    /// The round in the middle.
    pub median: Duration,
    /// All of them, as they were run.
    pub rounds: Vec<Duration>,
}

impl Times {
    /// Of the times of several rounds, at least one.
    pub(crate) fn of(rounds: Vec<Duration>) -> Times {
        let mut sorted = rounds.clone();
        sorted.sort_unstable();
        Times { best: sorted[0], median: sorted[sorted.len() / 2], rounds }
    }

    /// What is beyond the times of another one in the same rounds. The round in the middle stands for the best, too: the least
    /// difference would be that of the round in which the other was disturbed most.
    pub(crate) fn beyond(&self, base: &Times) -> Times {
        let rounds = self.rounds.iter().zip(&base.rounds);
        let beyond = Times::of(rounds.map(|(ours, base)| ours.saturating_sub(*base)).collect());
        Times { best: beyond.median, ..beyond }
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

/// What several rounds of a measurement by itself give, as many as show noise: three, or five in a long run.
pub(crate) fn repeat<T>(mut round: impl FnMut() -> T) -> Vec<T> {
    (0..if is_quick() { 3 } else { 5 }).map(|_| round()).collect()
}

/// The time `work` takes.
pub(crate) fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// How long a race lasts at least.
const LEAST: Duration = Duration::from_secs(6);

/// Numbers of rounds: 0, which is to warm up, and as many as `rounds` or as it takes [`LEAST`] for.
pub(crate) fn turns(rounds: usize) -> impl Iterator<Item = usize> {
    let begun = Instant::now();
    (0..).take_while(move |&round| round <= rounds.max(1) || begun.elapsed() < LEAST)
}

/// Runs all contenders in turn, as [`turns`] has it; what they take to warm up does not count. Each returns its own time.
pub(crate) fn race<const N: usize>(
    rounds: usize,
    mut contenders: [&mut dyn FnMut() -> Duration; N],
) -> [Times; N] {
    let mut times = [(); N].map(|()| Vec::with_capacity(rounds));
    for round in turns(rounds) {
        for (contender, times) in contenders.iter_mut().zip(&mut times) {
            let took = contender();
            if round > 0 {
                times.push(took);
            }
        }
    }
    times.map(Times::of)
}
