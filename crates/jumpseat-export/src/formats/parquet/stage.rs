//! Numbers of metrics without instances, of some samples, on their way to their columns.
//!
//! A record has a value for each of thousands of columns; put into them one by one, each is a column that the processor has long
//! forgotten. So records are put down in their order first, and some of them go into a column at once.
//!
//! ```text
//! samples      metric 0 | metric 1 | metric 2 ...    written from the left to the right
//!    0             1          7          3
//!    1             2          7          4           read from the top to the bottom
//! ```
//!
//! **Cost:** of a value, a store here and one in its column, both next to the one before. Where a column has a value in all samples, and its table
//! their rows one after the other, nothing else is looked at.

use pcp_model::{Number, ValueType};

/// Most samples, of which a column gets a cache line at once, and most numbers of all of them: more are out of the processor's memory
/// again before they are read.
const DEPTH: usize = 8;
const ROOM: usize = 1 << 19;
/// A table that has no row in a sample.
const NONE: u32 = u32::MAX;

/// The numbers of some samples.
pub(super) struct Stage {
    /// How many metrics it is for.
    width: usize,
    depth: usize,
    /// Samples that there are.
    used: usize,
    /// By sample and metric, the bits of the number.
    bits: Vec<u64>,
    /// By metric, the samples that it has a number in: a bit each.
    has: Vec<u8>,
    /// By table and sample, the row of the numbers in the table.
    rows: Vec<u32>,
}

impl Stage {
    /// For so many metrics, in so many tables.
    pub(super) fn new(width: usize, tables: usize) -> Stage {
        let depth = (ROOM / width.max(1)).clamp(1, DEPTH);
        let (bits, has) = (vec![0; width * depth], vec![0; width]);
        Stage { width, depth, used: 0, bits, has, rows: vec![NONE; tables * DEPTH] }
    }

    /// Begins a sample; `false` if there is no room for one before [`Stage::clear`].
    pub(super) fn begin(&mut self) -> bool {
        let has_room = self.used < self.depth;
        self.used += usize::from(has_room);
        has_room
    }

    /// The row that a table has for the numbers of the sample.
    pub(super) fn row(&mut self, table: usize, row: usize) {
        if let Some(place) = self.rows.get_mut(table * DEPTH + self.used.saturating_sub(1)) {
            *place = row as u32;
        }
    }

    /// Puts a number of the sample, whose table has a row.
    #[inline(always)]
    pub(super) fn put(&mut self, metric: usize, number: Number) {
        let sample = self.used.saturating_sub(1);
        if let (Some(bits), Some(has)) =
            (self.bits.get_mut(sample * self.width + metric), self.has.get_mut(metric))
        {
            *bits = bits_of(number);
            *has |= 1 << sample;
        }
    }

    /// The row of a table's first sample, if it has rows in all samples, one after the other.
    pub(super) fn run(&self, table: usize) -> Option<usize> {
        let rows = self.rows.get(table * DEPTH..)?.get(..self.used)?;
        let first = *rows.first().filter(|first| **first != NONE)?;
        rows.iter().zip(first..).all(|(row, next)| *row == next).then_some(first as usize)
    }

    /// The bits of all numbers of a metric that has one in each sample.
    #[inline(always)]
    pub(super) fn all(&self, metric: usize) -> Option<impl ExactSizeIterator<Item = u64>> {
        let all = u8::MAX.checked_shr((DEPTH - self.used) as u32).unwrap_or(0);
        let is_whole = self.used > 0 && self.has.get(metric) == Some(&all);
        let bits = self.bits.get(metric..).filter(|_| is_whole)?;
        Some(bits.iter().step_by(self.width).take(self.used).copied())
    }

    /// Calls with the row and the bits of each number of a metric of a table, in the order in which they came.
    #[inline(always)]
    pub(super) fn each(&self, table: usize, metric: usize, mut take: impl FnMut(usize, u64)) {
        let has = self.has.get(metric).copied().unwrap_or(0);
        for sample in (0..self.used).filter(|sample| has & 1 << sample != 0) {
            if let (Some(&row), Some(&bits)) =
                (self.rows.get(table * DEPTH + sample), self.bits.get(sample * self.width + metric))
                && row != NONE
            {
                take(row as usize, bits);
            }
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.has.fill(0);
        self.rows.fill(NONE);
        self.used = 0;
    }
}

/// Whether numbers of this type can be here.
pub(super) fn takes(value_type: ValueType) -> bool {
    value_type.is_numeric()
}

#[inline(always)]
fn bits_of(number: Number) -> u64 {
    match number {
        Number::I32(number) => u64::from(number.cast_unsigned()),
        Number::U32(number) => number.into(),
        Number::I64(number) => number.cast_unsigned(),
        Number::U64(number) => number,
        Number::Float(number) => number.to_bits().into(),
        Number::Double(number) => number.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_out_by_metric() {
        let mut stage = Stage::new(3, 2);
        assert!(stage.begin());
        stage.row(0, 3);
        stage.row(1, 7);
        stage.put(0, Number::I32(-1));
        stage.put(1, Number::Double(0.5));
        assert!(stage.begin());
        stage.row(0, 4);
        stage.put(0, Number::Float(1.5));
        let of = |stage: &Stage, table, metric| {
            let mut all = Vec::new();
            stage.each(table, metric, |row, bits| all.push((row, bits)));
            all
        };
        let (minus_one, one_and_a_half) = (u64::from(u32::MAX), 1.5_f32.to_bits().into());
        assert_eq!(of(&stage, 0, 0), [(3, minus_one), (4, one_and_a_half)]);
        assert_eq!(of(&stage, 1, 1), [(7, 0.5_f64.to_bits())]);
        assert!(of(&stage, 1, 2).is_empty());
        assert_eq!((stage.run(0), stage.run(1)), (Some(3), None));
        let all = |stage: &Stage, metric| stage.all(metric).map(Iterator::collect::<Vec<_>>);
        assert_eq!(all(&stage, 0), Some(vec![minus_one, one_and_a_half]));
        assert_eq!((all(&stage, 1), all(&stage, 2)), (None, None));
        while stage.begin() {
            stage.row(0, 5);
            stage.put(0, Number::I32(1));
        }
        assert_eq!(
            (stage.run(0), all(&stage, 0).map(|all| all.len())),
            (None, Some(DEPTH)),
            "rows are the same"
        );
        stage.clear();
        assert!(all(&stage, 0).is_none() && stage.run(0).is_none());
        assert!(stage.begin());
        assert!(of(&stage, 0, 0).is_empty() && of(&stage, 1, 1).is_empty() && all(&stage, 0).is_none());
    }
}
