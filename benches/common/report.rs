//! A line of the table: what it is about, our figure, the peer's, and the goal.
//!
//! [`Row::print`] shows it, and adds it to the file that `JUMPSEAT_BENCH_ROWS` names, from which the bench `table` makes one table of
//! all.

use std::io::Write;

use serde_json::json;

use super::Times;

/// A figure of one contender.
#[derive(Clone)]
pub(crate) struct Figure {
    /// What is shown: of the best round, mostly.
    value: f64,
    /// Of the round by which noise is told: the one in the middle, or the best if that in the middle is shown.
    other: f64,
    /// Of each round, as they were run.
    rounds: Vec<f64>,
    /// What it counts, such as `events/s` or `ns an event`.
    unit: &'static str,
    /// Whether less of it is better.
    is_cost: bool,
}

impl Figure {
    /// How many in a second; `per_round` in each round.
    pub(crate) fn rate(times: &Times, per_round: f64, unit: &'static str) -> Figure {
        Figure::of(times, |time| per_round / time, unit, false)
    }

    /// How long each of `per_round` takes, in units of so many seconds (1e-9 for nanoseconds).
    pub(crate) fn time(times: &Times, per_round: f64, second: f64, unit: &'static str) -> Figure {
        Figure::of(times, |time| time / per_round / second, unit, true)
    }

    /// What times in seconds mean.
    fn of(times: &Times, meaning: impl Fn(f64) -> f64, unit: &'static str, is_cost: bool) -> Figure {
        let figure = |time: &std::time::Duration| meaning(time.as_secs_f64());
        let rounds = times.rounds.iter().map(figure).collect();
        Figure { value: figure(&times.best), other: figure(&times.median), rounds, unit, is_cost }
    }

    /// Nanoseconds for each of `per_round`.
    pub(crate) fn nanos(times: &Times, per_round: f64, unit: &'static str) -> Figure {
        Figure::time(times, per_round, 1e-9, unit)
    }

    /// Of several rounds: the least counts.
    pub(crate) fn costs(rounds: Vec<f64>, unit: &'static str) -> Figure {
        let sorted = sorted(&rounds);
        Figure { value: sorted[0], other: sorted[sorted.len() / 2], rounds, unit, is_cost: true }
    }

    /// The same of what is not disturbed in one direction alone, such as memory and waiting: the round in the middle counts.
    pub(crate) fn middle(rounds: Vec<f64>, unit: &'static str) -> Figure {
        let Figure { value, other, rounds, .. } = Figure::costs(rounds, unit);
        Figure { value: other, other: value, rounds, unit, is_cost: true }
    }

    /// The same of what must not be more in any round: the most counts.
    pub(crate) fn most(rounds: Vec<f64>, unit: &'static str) -> Figure {
        let sorted = sorted(&rounds);
        Figure {
            value: sorted[sorted.len() - 1],
            other: sorted[sorted.len() / 2],
            rounds,
            unit,
            is_cost: true,
        }
    }

    /// The number itself.
    pub(crate) fn value(&self) -> f64 {
        self.value
    }

    /// How far the round in the middle lies from the one that counts, or from the best if it counts itself, in percent.
    fn noise(&self) -> f64 {
        let (less, more) = (self.value.min(self.other), self.value.max(self.other));
        // Of nothing there are no parts.
        if less > 0.0 { (more / less - 1.0) * 100.0 } else { f64::from(u8::from(more > less)) * 100.0 }
    }

    fn text(&self) -> String {
        format!("{} {}", si(self.value), self.unit)
    }
}

/// What is to be reached.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    /// So many times better than the peer.
    Ratio(f64),
    /// A figure that is at most this, in its unit.
    AtMost(f64),
    /// A figure that is at least this, in its unit.
    AtLeast(f64),
}

/// A line of the table.
pub(crate) struct Row {
    what: String,
    ours: Figure,
    peer: Option<(String, Figure)>,
    goal: Option<Goal>,
    note: Option<String>,
    is_headline: bool,
}

impl Row {
    pub(crate) fn new(what: impl Into<String>, ours: Figure) -> Row {
        Row { what: what.into(), ours, peer: None, goal: None, note: None, is_headline: false }
    }

    /// Who did the same in the same run.
    pub(crate) fn peer(mut self, name: impl Into<String>, figure: Figure) -> Row {
        self.peer = Some((name.into(), figure));
        self
    }

    /// Without one there is no verdict.
    pub(crate) fn goal(mut self, goal: impl Into<Option<Goal>>) -> Row {
        self.goal = goal.into();
        self
    }

    /// What else one has to know to judge the figure.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Row {
        self.note = Some(note.into());
        self
    }

    /// What README shows, too.
    pub(crate) fn headline(mut self) -> Row {
        self.is_headline = true;
        self
    }

    /// Shows the line, and keeps it for the table.
    pub(crate) fn print(self) {
        let ratio = self.ratio();
        let met = self.is_met(ratio);
        let goal = self.goal.map(|goal| match goal {
            Goal::Ratio(ratio) => format!("{ratio:.2}"),
            Goal::AtMost(most) => format!("at most {} {}", si(most), self.ours.unit),
            Goal::AtLeast(least) => format!("at least {} {}", si(least), self.ours.unit),
        });
        let figures = [Some(&self.ours), self.peer.as_ref().map(|(_, figure)| figure)];
        let noises: Vec<String> =
            figures.into_iter().flatten().map(|figure| format!("{:.0} %", figure.noise())).collect();
        let mut line = format!("{}: {}", self.what, self.ours.text());
        if let Some((name, figure)) = &self.peer {
            line += &format!(", {name} {}", figure.text());
        }
        if let Some((ratio, best)) = ratio {
            line += &format!(", ratio {ratio:.2}");
            line += &best.map(|best| format!(" (of the best rounds {best:.2})")).unwrap_or_default();
        }
        if let (Some(goal), Some(met)) = (&goal, met) {
            line += &format!(", goal {goal}: {}", if met { "met" } else { "MISSED" });
        }
        line += &format!(", noise {}", noises.join(" and "));
        line += &self.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
        println!("{line}");
        let Some(file) = std::env::var_os("JUMPSEAT_BENCH_ROWS") else { return };
        let row = json!({
            "what": self.what,
            "ours": self.ours.text(),
            "peer": self.peer.as_ref().map(|(name, figure)| format!("{name}: {}", figure.text())),
            "ratio": ratio.map(|(ratio, _)| format!("{ratio:.2}")),
            "goal": goal,
            "met": met,
            "noise": noises.join(", "),
            "note": self.note,
            "headline": self.is_headline,
        });
        let mut file =
            std::fs::File::options().append(true).create(true).open(file).expect("rows can be kept");
        writeln!(file, "{row}").expect("rows can be kept");
    }

    /// How many times better we are: the middle one of the ratios of each round, and next to it that of the best rounds, which is the
    /// only one if both were not measured in as many rounds.
    fn ratio(&self) -> Option<(f64, Option<f64>)> {
        let (_, peer) = self.peer.as_ref()?;
        let better = |ours: f64, peer: f64| if self.ours.is_cost { peer / ours } else { ours / peer };
        let best = better(self.ours.value, peer.value);
        if self.ours.rounds.len() != peer.rounds.len() {
            return Some((best, None));
        }
        let rounds = self.ours.rounds.iter().zip(&peer.rounds);
        let mut ratios: Vec<f64> = rounds.map(|(ours, peer)| better(*ours, *peer)).collect();
        ratios.sort_by(f64::total_cmp);
        // The two in the middle of an even number.
        let (low, high) = (ratios[(ratios.len() - 1) / 2], ratios[ratios.len() / 2]);
        Some(((low + high) / 2.0, Some(best)))
    }

    fn is_met(&self, ratio: Option<(f64, Option<f64>)>) -> Option<bool> {
        Some(match self.goal? {
            Goal::Ratio(goal) => ratio?.0 >= goal,
            Goal::AtMost(most) => self.ours.value <= most,
            Goal::AtLeast(least) => self.ours.value >= least,
        })
    }
}

/// Rounds, the least first; there is one at least.
fn sorted(rounds: &[f64]) -> Vec<f64> {
    let mut sorted = rounds.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// A number with three digits and a decimal prefix.
pub(crate) fn si(number: f64) -> String {
    let (scaled, prefix) = match number {
        n if n >= 1e9 => (n / 1e9, "G"),
        n if n >= 1e6 => (n / 1e6, "M"),
        n if n >= 1e4 => (n / 1e3, "k"),
        n => (n, ""),
    };
    let digits = if scaled >= 100.0 { 0 } else { 1 + usize::from(scaled < 10.0) };
    format!("{scaled:.digits$}{prefix}")
}
