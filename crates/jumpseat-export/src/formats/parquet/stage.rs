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
//! **Cost:** of a value, a store here and one in its column, both next to the one before.

use pcp_model::{Number, ValueType};

/// Most samples, of which a column gets a cache line at once, and most numbers of all of them: more are out of the processor's memory
/// again before they are read.
const DEPTH: usize = 8;
const ROOM: usize = 1 << 19;
/// A metric that has no value in a sample.
const NONE: u32 = u32::MAX;

/// The numbers of some samples.
pub(super) struct Stage {
    /// How many metrics it is for.
    width: usize,
    depth: usize,
    /// Samples that there are.
    used: usize,
    /// By sample and metric, the bits of the number, and its row in the table.
    bits: Vec<u64>,
    rows: Vec<u32>,
}

impl Stage {
    /// For so many metrics.
    pub(super) fn new(width: usize) -> Stage {
        let depth = (ROOM / width.max(1)).clamp(1, DEPTH);
        Stage { width, depth, used: 0, bits: vec![0; width * depth], rows: vec![NONE; width * depth] }
    }

    /// Begins a sample; `false` if there is no room for one before [`Stage::clear`].
    pub(super) fn begin(&mut self) -> bool {
        let has_room = self.used < self.depth;
        self.used += usize::from(has_room);
        has_room
    }

    /// Puts a number of the sample into a row of its table.
    #[inline(always)]
    pub(super) fn put(&mut self, metric: usize, row: usize, number: Number) {
        let at = self.used.saturating_sub(1) * self.width + metric;
        if let (Some(bits), Some(place)) = (self.bits.get_mut(at), self.rows.get_mut(at)) {
            (*bits, *place) = (bits_of(number), row as u32);
        }
    }

    /// Calls with the row and the bits of each number of a metric, in the order in which they came.
    #[inline(always)]
    pub(super) fn each(&self, metric: usize, mut take: impl FnMut(usize, u64)) {
        let mut at = metric;
        for _ in 0..self.used {
            if let (Some(&row), Some(&bits)) = (self.rows.get(at), self.bits.get(at))
                && row != NONE
            {
                take(row as usize, bits);
            }
            at += self.width;
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.rows[..self.used * self.width].fill(NONE);
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
        let mut stage = Stage::new(2);
        assert!(stage.begin());
        stage.put(0, 3, Number::I32(-1));
        stage.put(1, 0, Number::Double(0.5));
        assert!(stage.begin());
        stage.put(0, 4, Number::Float(1.5));
        let of = |stage: &Stage, metric| {
            let mut all = Vec::new();
            stage.each(metric, |row, bits| all.push((row, bits)));
            all
        };
        assert_eq!(of(&stage, 0), [(3, u64::from(u32::MAX)), (4, 1.5_f32.to_bits().into())]);
        assert_eq!(of(&stage, 1), [(0, 0.5_f64.to_bits())]);
        while stage.begin() {}
        stage.clear();
        assert!(stage.begin());
        assert!(of(&stage, 0).is_empty() && of(&stage, 1).is_empty());
    }
}
