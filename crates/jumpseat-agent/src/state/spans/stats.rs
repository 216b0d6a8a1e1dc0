//! The figures of one span name.

use super::buckets::{COARSE, FINE, buckets, middle};
use super::cells::Cells;
use pcp_model::Inst;

/// The window of recent figures has so many slices, of which the oldest goes at a time.
pub(super) const SLICES: u64 = 5;

/// One span name of one source.
#[derive(Debug)]
pub struct Span {
    /// The source's instance.
    pub source: Inst,
    /// The name alone.
    pub name: String,
    /// Spans that have ended.
    pub count: u64,
    /// Of these, those that failed.
    pub errors: u64,
    /// Their durations' sum, in nanoseconds.
    pub time: u64,
    /// Spans that have begun and not ended.
    pub active: u32,
    /// Spans given up on.
    pub unfinished: u64,
    /// The objectives that are about it.
    pub(super) objectives: Box<[u16]>,
    /// Ended spans by coarse bucket.
    pub histogram: Box<[u64; COARSE]>,
    slices: [Slice; SLICES as usize],
}

#[derive(Debug)]
struct Slice {
    /// Which slice of time it is.
    number: u64,
    longest: u64,
    /// Ended spans by fine bucket.
    counts: Cells<u32>,
}

impl Slice {
    /// Of a time that was never.
    fn none() -> Slice {
        Slice { number: u64::MAX, longest: 0, counts: Cells::default() }
    }

    #[cold]
    fn begin(&mut self, number: u64) {
        (self.number, self.longest) = (number, 0);
        self.counts.drain(|_, _| ());
    }
}

impl Span {
    /// No spans yet.
    pub fn new(source: Inst, name: String) -> Span {
        Span {
            source,
            name,
            count: 0,
            errors: 0,
            time: 0,
            active: 0,
            unfinished: 0,
            objectives: Box::default(),
            histogram: Box::new([0; COARSE]),
            slices: std::array::from_fn(|_| Slice::none()),
        }
    }

    /// One that was active is not any longer.
    #[inline]
    pub(super) fn closed(&mut self) {
        // A name may have given its place to this one while a span of it was open.
        self.active = self.active.saturating_sub(1);
    }

    /// Counts a span that has ended. `now` is the number of the current slice of time. Gives its coarse bucket if
    /// it is the first in it.
    #[inline(always)] // into its one hot caller
    pub fn ended(&mut self, nanos: u64, failed: bool, now: u64) -> Option<usize> {
        self.count += 1;
        self.errors += u64::from(failed);
        // A counter wraps; 584 years of durations are a defect of a sender's clock.
        self.time = self.time.wrapping_add(nanos);
        let (bucket, coarse) = buckets(nanos);
        let slice = &mut self.slices[(now % SLICES) as usize];
        if slice.number != now {
            slice.begin(now);
        }
        slice.longest = slice.longest.max(nanos);
        let count = slice.counts.of(bucket);
        *count = count.saturating_add(1);
        self.histogram[coarse] += 1;
        (self.histogram[coarse] == 1).then_some(coarse)
    }

    /// The longest duration in the window.
    pub fn longest(&self, now: u64) -> Option<u64> {
        self.recent(now).map(|slice| slice.longest).max()
    }

    /// The duration that this part of the spans in the window do not exceed, to 5 %.
    pub fn quantile(&self, part: f64, now: u64) -> Option<u64> {
        let longest = self.longest(now)?;
        let mut counts = [0_u64; FINE];
        self.recent(now).for_each(|slice| slice.counts.add_to(&mut counts));
        let total: u64 = counts.iter().sum();
        let rank = ((part * total as f64).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0;
        let bucket = counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        bucket.map(|bucket| if bucket == FINE - 1 { longest } else { middle(bucket).min(longest) })
    }

    fn recent(&self, now: u64) -> impl Iterator<Item = &Slice> {
        self.slices.iter().filter(move |slice| slice.number <= now && now - slice.number < SLICES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_five_per_cent_and_forget() {
        let mut span = Span::new(0, "x".to_owned());
        assert_eq!(span.quantile(0.5, 0), None);
        for n in 1..=10_000_u64 {
            span.ended(n * 1000, n % 10 == 0, 3 + n % 3);
        }
        for (part, exact) in
            [(0.5, 5_000_000.0), (0.9, 9_000_000.0), (0.99, 9_900_000.0), (1.0, 10_000_000.0)]
        {
            let quantile = span.quantile(part, 5).expect("there are spans") as f64;
            assert!((quantile / exact - 1.0).abs() <= 0.05, "{part}: {quantile}");
        }
        assert_eq!((span.count, span.errors, span.longest(5)), (10_000, 1000, Some(10_000_000)));
        assert_eq!(span.histogram.iter().sum::<u64>(), 10_000);
        assert_eq!(span.quantile(0.5, 10), None, "the window has passed");
        span.ended(7_000_000_000_000, false, 8);
        assert_eq!(span.quantile(0.99, 12), Some(7_000_000_000_000));
    }
}
