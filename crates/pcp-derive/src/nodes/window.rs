//! Functions of a window of time, which no PCP has: `avg_over`, `min_over`, `max_over`, `sum_over`.
//!
//! The window holds the samples of the last so many seconds, the current one included. Each current
//! instance has the function's value over the samples that have it. Type rule: the argument must be
//! numeric; `avg_over` gives DOUBLE, the others the argument's type; instances and units are the
//! argument's; instant. Memory: one column a sample, at most [`MAX_SAMPLES`]; an evaluation looks at
//! each remembered value once.

use std::collections::VecDeque;

use super::pairing::Finder;
use crate::column::{Column, Number, Values};
use crate::meta::Meta;
use crate::tree::WindowFn;
use pcp_model::{Inst, Timestamp, ValueType};

/// Samples that a window keeps; older ones leave it early.
pub const MAX_SAMPLES: usize = 4096;

/// The type rule, for numeric arguments.
pub(crate) fn bind(function: WindowFn, x: Meta) -> Meta {
    match function {
        WindowFn::Avg => Meta { value_type: ValueType::Double, ..x }.instant(),
        WindowFn::Min | WindowFn::Max | WindowFn::Sum => x.instant(),
    }
}

/// The samples in a window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    samples: VecDeque<(Timestamp, Column)>,
    /// Columns that have left the window, for their memory.
    spare: Vec<Column>,
    sums: Vec<f64>,
    counts: Vec<u32>,
    converted: Vec<f64>,
}

impl Window {
    /// Takes a sample and evaluates the function. Time that goes backwards empties the window.
    pub fn eval(
        &mut self,
        function: WindowFn,
        length: u64,
        now: &Column,
        time: Timestamp,
        finder: &mut Finder,
        out: &mut Column,
    ) {
        let start = time.as_nanos() - i128::from(length);
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
        out.clear();
        out.ids.extend_from_slice(&now.ids);
        match (&now.values, &mut out.values) {
            (Values::I32(now), Values::I32(out)) => self.fold(function, now, out, i32::wrapping_add, finder),
            (Values::U32(now), Values::U32(out)) => self.fold(function, now, out, u32::wrapping_add, finder),
            (Values::I64(now), Values::I64(out)) => self.fold(function, now, out, i64::wrapping_add, finder),
            (Values::U64(now), Values::U64(out)) => self.fold(function, now, out, u64::wrapping_add, finder),
            (Values::Float(now), Values::Float(out)) => self.fold(function, now, out, |a, b| a + b, finder),
            (Values::Double(now), Values::Double(out)) if function != WindowFn::Avg => {
                self.fold(function, now, out, |a, b| a + b, finder);
            }
            (_, Values::Double(out)) => self.average(now, out, finder),
            // The type rules let nothing else through.
            _ => out.ids.clear(),
        }
    }

    /// `min_over`, `max_over` and `sum_over`: starts with the current values and adds the older ones.
    fn fold<T: Number>(
        &self,
        function: WindowFn,
        now: &[T],
        out: &mut Vec<T>,
        add: impl Fn(T, T) -> T,
        finder: &mut Finder,
    ) {
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
                let replace = match function {
                    WindowFn::Min => value < *total,
                    WindowFn::Max => value > *total,
                    WindowFn::Avg | WindowFn::Sum => {
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

    fn run(function: WindowFn, samples: &[(i64, &[(Inst, f64)])]) -> Vec<(Inst, f64)> {
        let mut window = Window::default();
        let mut out = Column::new(ValueType::Double);
        for &(time, values) in samples {
            let (ids, values) = values.iter().copied().unzip();
            let column = Column { ids, values: Values::Double(values) };
            let time = Timestamp::new(time, 0);
            window.eval(function, 10_000_000_000, &column, time, &mut Finder::default(), &mut out);
        }
        let Values::Double(values) = out.values else { unreachable!("made as doubles above") };
        out.ids.into_iter().zip(values).collect()
    }

    #[test]
    fn a_window_forgets_what_is_older_than_its_length() {
        let samples: &[(i64, &[(Inst, f64)])] =
            &[(0, &[(1, 100.0)]), (5, &[(1, 4.0), (2, 1.0)]), (10, &[(2, 3.0), (1, 8.0)])];
        assert_eq!(run(WindowFn::Avg, samples), [(2, 2.0), (1, 6.0)]);
        assert_eq!(run(WindowFn::Max, samples), [(2, 3.0), (1, 8.0)]);
        assert_eq!(run(WindowFn::Min, samples), [(2, 1.0), (1, 4.0)]);
        assert_eq!(run(WindowFn::Sum, samples), [(2, 4.0), (1, 12.0)]);
    }

    #[test]
    fn time_that_goes_back_empties_the_window() {
        assert_eq!(run(WindowFn::Sum, &[(10, &[(1, 1.0)]), (5, &[(1, 2.0)])]), [(1, 2.0)]);
    }
}
