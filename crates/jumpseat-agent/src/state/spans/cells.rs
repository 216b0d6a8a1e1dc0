//! A count for each bucket of durations, over the buckets in which there has been anything.
//!
//! Spans of one kind mostly take about as long each time: a few of some hundred buckets. So there are counts only from the lowest to the
//! highest bucket so far, [`STEP`] by [`STEP`].
//!
//! **Cost:** counts that are used together are together, in few lines of memory. A bucket outside has all counts made anew, over more
//! buckets: once for each [`STEP`] of them at most.

/// Counts are made so many at a time: a line of memory.
const STEP: usize = 16;

/// Counts by bucket.
#[derive(Clone, Debug, Default)]
pub(super) struct Cells<T> {
    /// Those of the buckets from `first` on.
    counts: Box<[T]>,
    first: u16,
}

impl<T: Copy + Default + Into<u64>> Cells<T> {
    /// The count of a bucket, of which there are less than `u16` has numbers.
    #[inline]
    pub(super) fn of(&mut self, bucket: usize) -> &mut T {
        let at = bucket.wrapping_sub(self.first.into());
        if at < self.counts.len() { &mut self.counts[at] } else { self.beyond(bucket) }
    }

    /// Adds all counts to those of somebody else.
    pub(super) fn add_to(&self, sums: &mut [u64]) {
        let sums = sums.iter_mut().skip(self.first.into());
        sums.zip(&*self.counts).for_each(|(sum, count)| *sum += (*count).into());
    }

    /// Hands over what has been counted, after which all is zero.
    pub(super) fn drain(&mut self, mut take: impl FnMut(usize, T)) {
        for (bucket, count) in (self.first.into()..).zip(&mut *self.counts) {
            let count = std::mem::take(count);
            if count.into() > 0 {
                take(bucket, count);
            }
        }
    }

    #[cold]
    fn beyond(&mut self, bucket: usize) -> &mut T {
        let first = usize::from(self.first);
        let (mut from, mut to) = (bucket / STEP, bucket / STEP + 1);
        if !self.counts.is_empty() {
            from = from.min(first / STEP);
            to = to.max((first + self.counts.len()) / STEP);
        }
        let mut counts = vec![T::default(); (to - from) * STEP];
        let before = first.saturating_sub(from * STEP);
        counts.iter_mut().skip(before).zip(&*self.counts).for_each(|(count, known)| *count = *known);
        (self.counts, self.first) = (counts.into(), (from * STEP) as u16);
        &mut self.counts[bucket - from * STEP]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn there_are_counts_from_the_lowest_bucket_to_the_highest() {
        let mut cells = Cells::<u32>::default();
        for (bucket, first, len) in [
            (100, 96, 16),
            (111, 96, 16),
            (112, 96, 32),
            (96, 96, 32),
            (95, 80, 48),
            (240, 80, 176),
            (0, 0, 256),
        ] {
            *cells.of(bucket) += 1;
            assert_eq!((cells.first, cells.counts.len()), (first, len), "{bucket}");
        }
        assert_eq!(cells.counts.iter().sum::<u32>(), 7);
    }

    proptest! {
        #[test]
        fn nothing_is_lost(buckets in prop::collection::vec(0..1000_usize, 0..100)) {
            let (mut cells, mut all) = (Cells::<u32>::default(), [0; 1000]);
            for bucket in buckets {
                all[bucket] += 1;
                *cells.of(bucket) += 1;
            }
            let (mut found, mut drained) = ([0; 1000], [0; 1000]);
            cells.add_to(&mut found);
            prop_assert_eq!(found, all);
            cells.drain(|bucket, count| drained[bucket] = u64::from(count));
            prop_assert_eq!(drained, all);
            cells.add_to(&mut found);
            prop_assert_eq!(found, all);
        }
    }
}
