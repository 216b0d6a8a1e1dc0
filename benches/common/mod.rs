//! What all benches share: racing contenders in the same run and printing the ratio.
//!
//! A bench is a plain `main`. Contenders take turns round by round, so that whatever else the machine does
//! hits all of them. A contender's figure is its best round, which is the one disturbed least; how far
//! its median round lies from that is printed as the machine's noise.

#![allow(dead_code)] // each bench uses its part of this

use std::time::{Duration, Instant};

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

    /// How much slower the median round is than the best, in percent.
    pub(crate) fn noise(&self) -> f64 {
        (self.median.as_secs_f64() / self.best.as_secs_f64() - 1.0) * 100.0
    }
}

/// Rounds to run: `normal`, or a tenth of it after `cargo bench -- --quick`.
pub(crate) fn rounds(normal: usize) -> usize {
    if std::env::args().any(|arg| arg == "--quick") { normal.div_ceil(10) } else { normal }
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

/// Prints one line: both rates, their ratio (of the best rounds and of the median ones), the goal and the
/// noise. `per_round` is the number of `unit`s in a round.
pub(crate) fn print_ratio(
    what: &str,
    per_round: f64,
    unit: &str,
    ours: &Times,
    peer: (&str, &Times),
    goal: f64,
) {
    let (peer_name, peer) = peer;
    let rate = |time: Duration| per_round / time.as_secs_f64();
    let ratio = rate(ours.best) / rate(peer.best);
    println!(
        "{what}: jumpseat {} {unit}/s, {peer_name} {} {unit}/s, ratio {ratio:.2} (median {:.2}), \
         goal {goal:.2}: {}, noise {:.0}% and {:.0}%",
        si(rate(ours.best)),
        si(rate(peer.best)),
        rate(ours.median) / rate(peer.median),
        if ratio >= goal { "met" } else { "MISSED" },
        ours.noise(),
        peer.noise(),
    );
}

/// A number with three digits and a decimal prefix.
pub(crate) fn si(number: f64) -> String {
    let (scaled, prefix) = match number {
        n if n >= 1e9 => (n / 1e9, "G"),
        n if n >= 1e6 => (n / 1e6, "M"),
        n if n >= 1e3 => (n / 1e3, "k"),
        n => (n, ""),
    };
    let digits = if scaled >= 100.0 { 0 } else { 1 + usize::from(scaled < 10.0) };
    format!("{scaled:.digits$}{prefix}")
}
