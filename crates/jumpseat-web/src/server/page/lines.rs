//! Values over time as charts show them: of each part of a window the least, the mean and the largest value.
//!
//! **Cost:** a value is added to the cell of its part; cells that get no value are not there.

use jumpseat_tools::measure::{Measure, Style};
use pcp_model::{Desc, Inst, Semantics, Timestamp};
use serde::Serialize;

/// From when to when, seconds since the epoch, and in how many parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    pub start: f64,
    pub finish: f64,
    pub points: usize,
}

impl Window {
    /// The same with times since the epoch: those that are not above 0 count back from `last`.
    pub(super) fn absolute(&self, last: f64) -> Window {
        let absolute = |time: f64| if time > 0.0 { time } else { last + time };
        Window { start: absolute(self.start), finish: absolute(self.finish), points: self.points }
    }
}

/// A metric or an expression, with its values.
#[derive(Debug, Default, Serialize)]
pub(super) struct Series {
    /// As it was asked for.
    pub expr: String,
    /// Why there is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How values are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<Shown>,
    /// A line an instance; one without a name for metrics without instances.
    pub lines: Vec<Line>,
    /// The last values of what is no number.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<Text>,
    /// How many instances there are besides.
    pub left_out: usize,
    /// Whether values are interpolated at the points: what was between them does not show.
    #[serde(skip_serializing_if = "is_false")]
    pub interpolated: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// How values are shown: as `jumpseat top` does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Shown {
    pub unit: String,
    pub style: &'static str,
    pub whole: bool,
    pub rate: bool,
    pub semantics: &'static str,
}

/// The values of an instance, by time.
#[derive(Debug, Default, Serialize)]
pub(super) struct Line {
    pub inst: Inst,
    pub name: String,
    /// Seconds since the epoch.
    pub t: Vec<f64>,
    /// The mean; nothing where values are missing between this and the next.
    pub avg: Vec<Option<f64>>,
    /// Least and largest, if there are points of several values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub min: Vec<Option<f64>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub max: Vec<Option<f64>>,
}

/// A value that is no number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Text {
    pub name: String,
    pub text: String,
}

impl Shown {
    pub(super) fn of(desc: &Desc) -> Shown {
        let measure = Measure::of(desc);
        let style = match measure.style {
            Style::Decimal => "decimal",
            Style::Binary => "binary",
            Style::Duration => "duration",
            Style::Percent => "percent",
        };
        let semantics = match desc.semantics {
            Semantics::Counter => "counter",
            Semantics::Discrete => "discrete",
            _ => "instant",
        };
        Shown { unit: measure.unit, style, whole: measure.whole, rate: measure.rate, semantics }
    }
}

impl Series {
    /// One that has no values.
    pub(super) fn failed(expr: &str, error: impl Into<String>) -> Series {
        Series { expr: expr.to_owned(), error: Some(error.into()), ..Series::default() }
    }

    /// Puts what came later behind what is here. Between both values may be missing.
    pub(super) fn append(&mut self, later: Series) {
        self.error = later.error;
        self.shown = later.shown.or(self.shown.take());
        self.texts = later.texts;
        self.left_out = self.left_out.max(later.left_out);
        self.interpolated |= later.interpolated;
        for line in later.lines {
            match self.lines.iter_mut().find(|known| known.name == line.name) {
                Some(known) => known.append(line),
                None => self.lines.push(line),
            }
        }
    }
}

impl Line {
    fn append(&mut self, mut later: Line) {
        if !self.min.is_empty() || !later.min.is_empty() {
            self.spread();
            later.spread();
        }
        self.t.extend(later.t);
        self.avg.extend(later.avg);
        self.min.extend(later.min);
        self.max.extend(later.max);
        self.inst = later.inst;
    }

    /// Has least and largest values, also where each is the mean.
    fn spread(&mut self) {
        if self.min.is_empty() {
            self.min.clone_from(&self.avg);
            self.max.clone_from(&self.avg);
        }
    }
}

/// The values of an instance while they come, in the order of time.
#[derive(Debug)]
pub(super) struct Cells {
    start: f64,
    step: f64,
    cells: Vec<Cell>,
}

/// A part of the window; without values it is a gap.
#[derive(Clone, Copy, Debug)]
struct Cell {
    part: i64,
    count: u32,
    /// Of times after the start.
    times: f64,
    sum: f64,
    min: f64,
    max: f64,
}

impl Cells {
    /// With `step` 0 each value is a point.
    pub(super) fn new(start: f64, step: f64) -> Cells {
        Cells { start, step, cells: Vec::new() }
    }

    /// A value, or that there is none since the last.
    pub(super) fn push(&mut self, time: f64, value: Option<f64>) {
        let after = time - self.start;
        let next = self.cells.last().map_or(0, |cell| cell.part + 1);
        let part = if self.step > 0.0 { (after / self.step) as i64 } else { next };
        let Some(value) = value.filter(|value| value.is_finite()) else {
            // One gap is enough, and none is before the first value or within a point.
            if self.cells.last().is_some_and(|cell| cell.count > 0 && cell.part != part) {
                self.cells.push(Cell { part, count: 0, times: after, sum: 0.0, min: 0.0, max: 0.0 });
            }
            return;
        };
        match self.cells.last_mut().filter(|cell| cell.part == part) {
            Some(cell) if cell.count > 0 => {
                cell.count += 1;
                cell.times += after;
                cell.sum += value;
                cell.min = cell.min.min(value);
                cell.max = cell.max.max(value);
            }
            _ => self.cells.push(Cell { part, count: 1, times: after, sum: value, min: value, max: value }),
        }
    }

    pub(super) fn line(self, inst: Inst, name: &str) -> Line {
        let mut line = Line { inst, name: name.to_owned(), ..Line::default() };
        let ranges = self.cells.iter().any(|cell| cell.count > 1);
        for cell in &self.cells {
            let count = f64::from(cell.count.max(1));
            let value = |value: f64| (cell.count > 0).then_some(value);
            // Milliseconds are as fine as a screen shows.
            line.t.push(((self.start + cell.times / count) * 1e3).round() / 1e3);
            line.avg.push(value(cell.sum / count));
            if ranges {
                line.min.push(value(cell.min));
                line.max.push(value(cell.max));
            }
        }
        line
    }
}

/// Seconds since the epoch.
pub(super) fn seconds(time: Timestamp) -> f64 {
    time.sec as f64 + f64::from(time.nsec) * 1e-9
}

/// The same back. What is beyond all times becomes the nearest.
pub(super) fn timestamp(seconds: f64) -> Timestamp {
    Timestamp::from_nanos((seconds * 1e9) as i128)
}

/// Takes the values of a counter as its rate: between two of one instance.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Last {
    before: Option<(f64, f64)>,
}

impl Last {
    /// What is shown of a value of this time; nothing for the first of a counter, and for one that went back.
    pub(super) fn shown(&mut self, measure: &Measure, time: f64, raw: f64) -> Option<f64> {
        if !measure.rate {
            return Some(measure.convert(raw));
        }
        let before = self.before.replace((time, raw));
        match before {
            Some((earlier, count)) if time > earlier && raw >= count => {
                Some(measure.convert(raw - count) / (time - earlier))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(step: f64, values: &[(f64, Option<f64>)]) -> Line {
        let mut cells = Cells::new(100.0, step);
        values.iter().for_each(|&(time, value)| cells.push(time, value));
        cells.line(3, "three")
    }

    #[test]
    fn a_part_of_the_window_is_one_point_with_its_least_and_largest_value() {
        let line = line(
            10.0,
            &[
                (100.0, Some(1.0)),
                (104.0, Some(5.0)),
                (108.0, Some(3.0)),
                (110.0, Some(7.0)),
                (131.0, Some(2.0)),
            ],
        );
        assert_eq!(line.t, [104.0, 110.0, 131.0]);
        assert_eq!(line.avg, [Some(3.0), Some(7.0), Some(2.0)]);
        assert_eq!((line.min[0], line.max[0]), (Some(1.0), Some(5.0)));
    }

    #[test]
    fn gaps_show_once_between_values_and_never_within_a_point() {
        let line = line(
            10.0,
            &[
                (100.0, None),
                (101.0, Some(1.0)),
                (102.0, None),
                (103.0, Some(3.0)),
                (110.0, None),
                (120.0, None),
                (130.0, Some(f64::NAN)),
                (131.0, Some(4.0)),
            ],
        );
        assert_eq!(line.avg, [Some(2.0), None, Some(4.0)]);
    }

    #[test]
    fn without_a_step_each_value_is_a_point() {
        let line = line(0.0, &[(100.0, Some(1.0)), (100.1, Some(2.0)), (100.2, None), (100.3, Some(3.0))]);
        assert_eq!(line.avg, [Some(1.0), Some(2.0), None, Some(3.0)]);
        assert!(line.min.is_empty());
    }

    #[test]
    fn what_came_later_goes_on_with_the_line_of_its_name() {
        let mut past = Series {
            lines: vec![line(10.0, &[(100.0, Some(1.0)), (101.0, Some(2.0))])],
            ..Series::default()
        };
        past.append(Series { lines: vec![line(0.0, &[(140.0, Some(9.0))])], ..Series::default() });
        assert_eq!(past.lines.len(), 1);
        assert_eq!(past.lines[0].avg, [Some(1.5), Some(9.0)]);
        assert_eq!(past.lines[0].max, [Some(2.0), Some(9.0)]);
    }
}
