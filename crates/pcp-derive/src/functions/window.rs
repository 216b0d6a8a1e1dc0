//! `avg_over`, `min_over`, `max_over` and `sum_over(x, "time")`: functions of a window of time. No PCP has them.
//!
//! The window holds the samples of the last so many seconds, the current one included. Each current
//! instance has the function's value over the samples that have it. Type rule: the argument must be
//! numeric; `avg_over` gives DOUBLE, the others the argument's type; instances and units are the
//! argument's; instant. Memory: one column a sample, at most [`MAX_SAMPLES`]; an evaluation looks at
//! each remembered value once.

use std::collections::VecDeque;

use super::{Availability, Behind, Call, CallNode, Evaluate, Evaluation, Function, FunctionCall, numeric};
use crate::column::{Column, Number, Values};
use crate::lexer::Token;
use crate::meta::Meta;
use crate::nodes::pairing::Finder;
use crate::nodes::{BrokenRule, Rules};
use crate::parser::{self, Expected, Parser};
use pcp_model::{Inst, PmError, Timestamp, Units, UnitsVocabulary, ValueType};

/// Samples that a window keeps; older ones leave it early.
pub const MAX_SAMPLES: usize = 4096;

pub(super) static AVG_OVER: Function = function("avg_over", |parser| length(parser, Statistic::Avg));
pub(super) static MIN_OVER: Function = function("min_over", |parser| length(parser, Statistic::Min));
pub(super) static MAX_OVER: Function = function("max_over", |parser| length(parser, Statistic::Max));
pub(super) static SUM_OVER: Function = function("sum_over", |parser| length(parser, Statistic::Sum));

const fn function(word: &'static str, parse: fn(&mut Parser<'_>) -> parser::Result<Call>) -> Function {
    Function {
        word,
        availability: Availability::BeyondPcp,
        takes_pattern: false,
        parse: |parser, function| {
            parser.call_of_expression(function, Expected::new("<expr>, \"<time>\")", ""), None)
        },
        behind: Some(Behind {
            expected: Expected::new("\"<time>\")", "<expr>,"),
            expected_at_close: true,
            parse,
        }),
    }
}

/// `STRING`
fn length(parser: &mut Parser<'_>, statistic: Statistic) -> parser::Result<Call> {
    let Token::String(text) = parser.token else {
        return Err(parser.error());
    };
    let length = nanoseconds(text).ok_or_else(|| {
        parser.error_with(format!("'{text}' is not a length of time (\"30sec\", \"5 min\")"))
    })?;
    parser.advance();
    Ok(Call::with(Over { statistic, length }))
}

/// Nanoseconds of a text such as `30sec` or `2 min`.
fn nanoseconds(text: &str) -> Option<u64> {
    let (units, multiplier) = Units::parse(text, UnitsVocabulary::default()).ok()?;
    const NANOSECONDS: [f64; 6] = [1.0, 1e3, 1e6, 1e9, 60e9, 3600e9];
    let unit = NANOSECONDS.get(usize::from(units.scale_time))?;
    let length = (unit / multiplier).round();
    let time = (units.dim_space, units.dim_time, units.dim_count) == (0, 1, 0);
    (time && (1.0..=1e18).contains(&length)).then_some(length as u64)
}

/// What is computed of the values in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Statistic {
    Avg,
    Min,
    Max,
    Sum,
}

#[derive(Clone, Copy, Debug)]
struct Over {
    statistic: Statistic,
    /// In nanoseconds.
    length: u64,
}

impl FunctionCall for Over {
    fn function(&self) -> &'static Function {
        match self.statistic {
            Statistic::Avg => &AVG_OVER,
            Statistic::Min => &MIN_OVER,
            Statistic::Max => &MAX_OVER,
            Statistic::Sum => &SUM_OVER,
        }
    }

    fn bind(&self, x: Meta, _: Rules<'_>) -> Result<Meta, BrokenRule> {
        let x = numeric(x)?.instant();
        Ok(match self.statistic {
            Statistic::Avg => Meta { value_type: ValueType::Double, ..x },
            Statistic::Min | Statistic::Max | Statistic::Sum => x,
        })
    }

    fn evaluator(&self, _: &CallNode<'_>) -> Option<Box<dyn Evaluate>> {
        Some(Box::new(Window::new(*self)))
    }

    fn has_memory(&self) -> bool {
        true
    }

    fn behind(&self) -> String {
        format!(", \"{} nanosec\"", self.length)
    }
}

/// The samples in a window.
#[derive(Debug)]
struct Window {
    over: Over,
    samples: VecDeque<(Timestamp, Column)>,
    /// Columns that have left the window, for their memory.
    spare: Vec<Column>,
    sums: Vec<f64>,
    counts: Vec<u32>,
    converted: Vec<f64>,
}

impl Evaluate for Window {
    fn eval(&mut self, now: &Column, out: &mut Column, fetch: &mut Evaluation<'_>) -> Result<(), PmError> {
        self.take(now, fetch.time);
        out.take_instances(now);
        let (finder, avg) = (&mut *fetch.finder, self.over.statistic == Statistic::Avg);
        match (&now.values, &mut out.values) {
            (Values::I32(now), Values::I32(out)) => self.fold(now, out, i32::wrapping_add, finder),
            (Values::U32(now), Values::U32(out)) => self.fold(now, out, u32::wrapping_add, finder),
            (Values::I64(now), Values::I64(out)) => self.fold(now, out, i64::wrapping_add, finder),
            (Values::U64(now), Values::U64(out)) => self.fold(now, out, u64::wrapping_add, finder),
            (Values::Float(now), Values::Float(out)) => self.fold(now, out, |a, b| a + b, finder),
            (Values::Double(now), Values::Double(out)) if !avg => self.fold(now, out, |a, b| a + b, finder),
            (_, Values::Double(out)) => self.average(now, out, finder),
            _ => out.not_of_its_type(),
        }
        Ok(())
    }
}

impl Window {
    fn new(over: Over) -> Window {
        let (sums, counts, converted) = (Vec::new(), Vec::new(), Vec::new());
        Window { over, samples: VecDeque::new(), spare: Vec::new(), sums, counts, converted }
    }

    /// Takes a sample, and drops those that are too old or too many. Time that goes backwards (an archive was
    /// set to another place) empties the window: what is in it did not come before.
    fn take(&mut self, now: &Column, time: Timestamp) {
        let start = time.as_nanos() - i128::from(self.over.length);
        while let Some((stamp, _)) = self.samples.front() {
            let newest = self.samples.back().map(|(stamp, _)| *stamp);
            if stamp.as_nanos() > start && newest <= Some(time) && self.samples.len() < MAX_SAMPLES {
                break;
            }
            self.spare.extend(self.samples.pop_front().map(|(_, column)| column));
        }
        let mut column = self.spare.pop().unwrap_or_else(|| now.clone());
        column.copy_from(now);
        self.samples.push_back((time, column));
    }

    /// `min_over`, `max_over` and `sum_over`: starts with the current values and adds the older ones.
    fn fold<T: Number>(&self, now: &[T], out: &mut Vec<T>, add: impl Fn(T, T) -> T, finder: &mut Finder) {
        out.extend_from_slice(now);
        let mut samples = self.samples.iter().rev();
        let Some((_, current)) = samples.next() else {
            return;
        };
        for (_, column) in samples {
            let Some(values) = T::of(&column.values) else {
                continue;
            };
            each_pair(&current.ids, &column.ids, finder, |i, j| {
                let (Some(total), Some(&value)) = (out.get_mut(i), values.get(j)) else {
                    return;
                };
                let replace = match self.over.statistic {
                    Statistic::Min => value < *total,
                    Statistic::Max => value > *total,
                    Statistic::Avg | Statistic::Sum => {
                        *total = add(*total, value);
                        false
                    }
                };
                if replace {
                    *total = value;
                }
            });
        }
    }

    fn average(&mut self, now: &Column, out: &mut Vec<f64>, finder: &mut Finder) {
        // Sums and counts apart, as an instance need not be in every sample.
        self.sums.clear();
        self.sums.resize(now.len(), 0.0);
        self.counts.clear();
        self.counts.resize(now.len(), 0);
        for (_, column) in &self.samples {
            let values = f64::view(&column.values, &mut self.converted);
            each_pair(&now.ids, &column.ids, finder, |i, j| {
                if let (Some(sum), Some(count), Some(value)) =
                    (self.sums.get_mut(i), self.counts.get_mut(i), values.get(j))
                {
                    *sum += value;
                    *count += 1;
                }
            });
        }
        out.extend(self.sums.iter().zip(&self.counts).map(|(sum, &count)| sum / f64::from(count)));
    }
}

/// Calls `f` with the places of each instance of `now` that is in `old` too.
fn each_pair(now: &[Inst], old: &[Inst], finder: &mut Finder, mut f: impl FnMut(usize, usize)) {
    finder.reset();
    for (i, &inst) in now.iter().enumerate() {
        let place = match old.get(i) {
            Some(&other) if other == inst => Some(i),
            _ => finder.first(old, inst),
        };
        if let Some(j) = place {
            f(i, j);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::testing::eval_at;

    fn run(statistic: Statistic, samples: &[(i64, &[(Inst, f64)])]) -> Vec<(Inst, f64)> {
        let mut window = Window::new(Over { statistic, length: 10_000_000_000 });
        let mut out = Column::new(ValueType::Double);
        for &(time, values) in samples {
            let (ids, values) = values.iter().copied().unzip();
            eval_at(&mut window, &Column::of(ids, Values::Double(values)), time, &mut out).unwrap();
        }
        let Values::Double(values) = out.values else { unreachable!("made as doubles above") };
        out.ids.into_iter().zip(values).collect()
    }

    #[test]
    fn a_window_forgets_what_is_older_than_its_length() {
        let samples: &[(i64, &[(Inst, f64)])] =
            &[(0, &[(1, 100.0)]), (5, &[(1, 4.0), (2, 1.0)]), (10, &[(2, 3.0), (1, 8.0)])];
        assert_eq!(run(Statistic::Avg, samples), [(2, 2.0), (1, 6.0)]);
        assert_eq!(run(Statistic::Max, samples), [(2, 3.0), (1, 8.0)]);
        assert_eq!(run(Statistic::Min, samples), [(2, 1.0), (1, 4.0)]);
        assert_eq!(run(Statistic::Sum, samples), [(2, 4.0), (1, 12.0)]);
    }

    #[test]
    fn time_that_goes_back_empties_the_window() {
        assert_eq!(run(Statistic::Sum, &[(10, &[(1, 1.0)]), (5, &[(1, 2.0)])]), [(1, 2.0)]);
    }
}
