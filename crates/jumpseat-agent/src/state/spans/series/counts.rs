//! Spans of one series by how long they took, of the window and of all time.

use super::super::cells::Cells;
use super::super::exponential::BUCKETS;

/// The counts of a series, by [bucket](super::super::exponential).
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Counts {
    /// The number of the half of the window that is the current one: there are enough for sixty years.
    half: u32,
    /// Of that half.
    current: Cells<u32>,
    /// Of the one before.
    before: Cells<u32>,
    /// Of all those before.
    past: Cells<u64>,
}

impl Counts {
    /// Bytes in the front that each span touches.
    pub(super) const TOUCHED: usize = std::mem::offset_of!(Counts, current) + size_of::<Cells<u32>>();

    /// The number of the current half.
    #[inline]
    pub(super) fn half(&self) -> u32 {
        self.half
    }

    /// Counts a span in the current half.
    #[inline]
    pub(super) fn add(&mut self, bucket: usize) {
        let count = self.current.of(bucket);
        *count = count.saturating_add(1);
    }

    /// Another half has begun. Whether it follows the one before.
    pub(super) fn turn_to(&mut self, half: u32) -> bool {
        let follows = half == self.half.wrapping_add(1);
        self.half = half;
        self.before.drain(|bucket, count| *self.past.of(bucket) += u64::from(count));
        if follows {
            std::mem::swap(&mut self.before, &mut self.current);
        } else {
            self.current.drain(|bucket, count| *self.past.of(bucket) += u64::from(count));
        }
        follows
    }

    /// How many halves, from the current one on, are of the window that ends in this one.
    pub(super) fn halves(&self, half: u32) -> usize {
        2_u32.saturating_sub(half.saturating_sub(self.half)) as usize
    }

    /// Spans of the current half, and of the one before if that is wanted, too, by bucket.
    pub(super) fn recent(&self, halves: usize) -> [u64; BUCKETS] {
        let mut counts = [0; BUCKETS];
        [&self.current, &self.before].into_iter().take(halves).for_each(|half| half.add_to(&mut counts));
        counts
    }

    /// All spans, by bucket.
    pub(super) fn all(&self) -> [u64; BUCKETS] {
        let mut counts = self.recent(2);
        self.past.add_to(&mut counts);
        counts
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn nothing_is_lost(steps in prop::collection::vec((0..BUCKETS, 0..8_u32), 0..200)) {
            let mut counts = Counts::default();
            let (mut all, mut halves) = ([0; BUCKETS], [[0; BUCKETS]; 2]);
            for (bucket, step) in steps {
                if step < 2 {
                    halves = [[0; BUCKETS], if step == 0 { halves[0] } else { [0; BUCKETS] }];
                    prop_assert_eq!(counts.turn_to(counts.half() + 1 + step), step == 0);
                }
                all[bucket] += 1;
                halves[0][bucket] += 1;
                counts.add(bucket);
            }
            prop_assert_eq!(counts.all(), all);
            prop_assert_eq!(counts.recent(0), [0; BUCKETS]);
            prop_assert_eq!(counts.recent(1), halves[0]);
            prop_assert_eq!(counts.recent(2), std::array::from_fn(|at| halves[0][at] + halves[1][at]));
        }
    }
}
