//! A value's recent past, and what it is now.

use std::collections::VecDeque;

/// Samples that are kept: more than the widest screen shows.
pub(crate) const HISTORY: usize = 512;

/// The newest values, one for each sample; samples without a value are gaps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    /// Gaps are NaN.
    values: VecDeque<f32>,
}

/// What is to be said of a part of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stats {
    /// The least value.
    pub min: f64,
    /// The mean of the values.
    pub avg: f64,
    /// The largest value.
    pub max: f64,
}

impl Series {
    /// Appends the value of a sample.
    pub(crate) fn push(&mut self, value: Option<f64>) {
        if self.values.len() == HISTORY {
            self.values.pop_front();
        }
        // Half the memory of doubles; the screen shows three digits.
        self.values.push_back(value.map_or(f32::NAN, |value| value as f32));
    }

    /// The newest values, at most `count`, the oldest first.
    pub(crate) fn newest(&self, count: usize) -> impl ExactSizeIterator<Item = Option<f64>> + Clone {
        let skip = self.values.len().saturating_sub(count);
        self.values.range(skip..).map(|&value| (!value.is_nan()).then_some(value.into()))
    }

    /// What the newest values are, if there is any.
    pub(crate) fn stats(&self, count: usize) -> Option<Stats> {
        let (mut number, mut sum) = (0.0, 0.0);
        let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in self.newest(count).flatten() {
            (number, sum) = (number + 1.0, sum + value);
            (min, max) = (min.min(value), max.max(value));
        }
        (number > 0.0).then(|| Stats { min, avg: sum / number, max })
    }

    /// The last value less the one before, if both samples had one.
    pub(crate) fn change(&self) -> Option<f64> {
        let mut last = self.newest(2);
        match (last.next(), last.next()) {
            (Some(Some(before)), Some(Some(now))) => Some(now - before),
            _ => None,
        }
    }
}

/// A value, and what it was.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    /// Its past.
    pub series: Series,
    /// The last value there was.
    pub last: Option<f64>,
    /// Samples since then.
    pub age: usize,
}

impl Cell {
    /// Takes the value of a sample.
    pub(crate) fn push(&mut self, value: Option<f64>) {
        self.series.push(value);
        match value {
            Some(_) => (self.last, self.age) = (value, 0),
            None => self.age = self.age.saturating_add(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_kept_and_do_not_count_as_values() {
        let mut series = Series::default();
        assert_eq!(series.stats(9), None);
        for value in [Some(8.0), None, Some(1.0), Some(3.0)] {
            series.push(value);
        }
        assert_eq!(series.newest(3).collect::<Vec<_>>(), [None, Some(1.0), Some(3.0)]);
        assert_eq!(series.stats(9), Some(Stats { min: 1.0, avg: 4.0, max: 8.0 }));
        assert_eq!(series.stats(2), Some(Stats { min: 1.0, avg: 2.0, max: 3.0 }));
        assert_eq!(series.change(), Some(2.0));
        series.push(None);
        assert_eq!((series.change(), series.stats(1)), (None, None));
    }

    #[test]
    fn the_oldest_values_are_forgotten() {
        let mut series = Series::default();
        (0..2 * HISTORY).for_each(|value| series.push(Some(value as f64)));
        assert_eq!(series.newest(usize::MAX).len(), HISTORY);
        assert_eq!(series.newest(usize::MAX).next(), Some(Some(HISTORY as f64)));
    }
}
