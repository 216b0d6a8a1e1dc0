//! How interpolated values come about, for the debug option `interp`: the values around a time, and what becomes of them.
//!
//! Cost: a load of one word for each metric of a sample where nobody looks.

use tracing::{Level, enabled, trace};

use super::interpolated::{Answer, Held, Rule};
use super::reader::Direction;
use super::tracked::{Along, Metric};
use pcp_model::{Inst, PM_IN_NULL, PmError, Timestamp};

/// What is shown of the values of a metric to who wants to see how they come about: nothing, mostly.
pub(super) struct Shown(Option<Lines>);

pub(super) struct Lines {
    start: Timestamp,
    direction: Direction,
    head: String,
    lines: Vec<String>,
    more: usize,
}

/// Instances of a metric that are shown.
const SHOWN: usize = 16;

impl Shown {
    /// Of a metric, in a direction through an archive that starts then.
    pub(crate) fn of(metric: Option<&Metric>, start: Timestamp, direction: Direction) -> Shown {
        if !enabled!(target: "pcp::interp", Level::TRACE) {
            return Shown(None);
        }
        let head = metric.map(|metric| format!("{}, {}", metric.pmid, metric.rule.in_words()));
        Shown(head.map(|head| Lines { start, direction, head, lines: Vec::new(), more: 0 }))
    }

    /// Adds a line, if anybody looks.
    pub(crate) fn tell(&mut self, line: impl FnOnce(&Lines) -> String) {
        match &mut self.0 {
            Some(shown) if shown.lines.len() < SHOWN => {
                let line = line(shown);
                shown.lines.push(line);
            }
            Some(shown) => shown.more += 1,
            None => {}
        }
    }
}

impl Drop for Shown {
    /// However the metric was left.
    fn drop(&mut self) {
        if let Some(Lines { head, lines, more, .. }) = &self.0 {
            let lines: String = lines.iter().map(|line| format!("\n{line}")).collect();
            let more = if *more > 0 { format!("\n{more} instances more") } else { String::new() };
            trace!(target: "pcp::interp", "metric {head}{lines}{more}");
        }
    }
}

impl Lines {
    /// The values around the time asked for, and what becomes of them.
    pub(crate) fn told(
        &self,
        inst: Inst,
        rule: &Rule,
        around: [Option<(Along, &Held)>; 2],
        value: &Result<Option<Answer<'_>>, PmError>,
        dead: bool,
    ) -> String {
        let side = |side: Option<(Along, &Held)>| match side {
            None => "none".to_owned(),
            Some((at, held)) => {
                let at = time_of(self.start, self.direction, at);
                format!("{} at {at}", rule.show(&held.into()))
            }
        };
        let [first, second] = around.map(side);
        let value = match value {
            Ok(Some(_)) if dead && !rule.needs_both() => "no value: not in its domain then".to_owned(),
            Ok(Some(value)) => rule.show(value),
            Ok(None) => "no value".to_owned(),
            Err(error) => error.to_string(),
        };
        let of = if inst == PM_IN_NULL { String::new() } else { format!("instance {inst}: ") };
        format!("{of}passed {first}, next {second}: {value}")
    }
}

/// The time of a place along the way.
pub(super) fn time_of(start: Timestamp, direction: Direction, at: Along) -> Timestamp {
    let forward = if direction == Direction::Backward { at.saturating_neg() } else { at };
    Timestamp::from_nanos(start.as_nanos() + i128::from(forward))
}
