//! Buckets of histograms as counts of what is not above their upper bounds.
//!
//! Those of an exponential histogram have the bounds `2^(n / 2^scale)` on both sides of zero; here a scale of at most [`FINEST`] is
//! kept, which tells values apart by 9 %, and a coarser one where more than [`MAX_KEPT`] bounds would be needed. A coarser scale has
//! some of the bounds of the finer one, whose instances stay; the others are forgotten.

use super::point::{Point, Side};

/// The finest scale: eight bounds from a number to its double.
const FINEST: i32 = 3;
/// What scales there are.
const SCALES: std::ops::RangeInclusive<i32> = -10..=20;
/// Most bounds of an exponential histogram.
const MAX_KEPT: usize = 160;

/// An upper bound of an exponential histogram: its side (-1, 0, 1), and the power of the base, negative below zero, so that they
/// are in order.
pub(super) type Bound = (i8, i64);

/// Memory for one point.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Upper bounds in ascending order and what is in the bucket below each. What is above all of them is not there.
    pub counted: Vec<(Bound, u64)>,
    /// The bounds of the series after this point, without the infinite one.
    pub bounds: Vec<Bound>,
    /// The scale of all of these.
    pub scale: i32,
}

/// The number that a bound is.
pub(super) fn upper(bound: Bound, scale: i32) -> f64 {
    let (side, power) = bound;
    match side {
        0 => 0.0,
        side if side > 0 => (power as f64 * f64::from(-scale).exp2()).exp2(),
        _ => -(-power as f64 * f64::from(-scale).exp2()).exp2(),
    }
}

impl Work {
    /// Puts the buckets of an exponential histogram together with bounds that are known, which are of `scale`. `false`: the scale is
    /// none there is, or counts do not add up to the number of values.
    pub(super) fn exponential(&mut self, point: &Point, known: &[Bound], scale: Option<i32>) -> bool {
        let Point { positive, negative, zeros, count, .. } = point;
        let mut all = positive.counts.iter().chain(&negative.counts);
        let sum = all.try_fold(*zeros, |sum, count| sum.checked_add(*count));
        if !SCALES.contains(&point.scale) || sum != Some(*count) {
            return false;
        }
        self.scale = scale.unwrap_or(FINEST).min(point.scale).min(FINEST);
        loop {
            self.at_scale(point);
            self.merge(known, scale.unwrap_or(self.scale));
            if self.bounds.len() <= MAX_KEPT || self.scale < *SCALES.start() {
                return true;
            }
            self.scale -= 1;
        }
    }

    fn at_scale(&mut self, point: &Point) {
        let down = point.scale - self.scale;
        self.counted.clear();
        let index = |side: &Side, at: usize| (i64::from(side.offset) + at as i64) >> down;
        for (at, &count) in point.negative.counts.iter().enumerate().rev() {
            self.add((-1, -index(&point.negative, at)), count);
        }
        self.add((0, 0), point.zeros);
        for (at, &count) in point.positive.counts.iter().enumerate() {
            self.add((1, index(&point.positive, at) + 1), count);
        }
    }

    fn add(&mut self, bound: Bound, count: u64) {
        match self.counted.last_mut() {
            _ if count == 0 => {}
            Some(last) if last.0 == bound => last.1 += count,
            _ => self.counted.push((bound, count)),
        }
    }

    /// The bounds of both; of those that are known only such as this scale has.
    fn merge(&mut self, known: &[Bound], scale: i32) {
        let down = scale - self.scale;
        self.bounds.clear();
        self.bounds.extend(known.iter().filter_map(|bound| coarser(*bound, down)));
        self.bounds.extend(self.counted.iter().map(|(bound, _)| *bound));
        // Beyond what a double can say it is infinite.
        let scale = self.scale;
        // and below that zero, which is a bound of its own.
        self.bounds.retain(|bound| {
            let number = upper(*bound, scale);
            number.is_finite() && (bound.0 == 0 || number != 0.0)
        });
        self.bounds.sort_unstable();
        self.bounds.dedup();
    }
}

/// The same bound at a scale that is coarser by so much; `None`: that has no such bound.
pub(super) fn coarser((side, power): Bound, down: i32) -> Option<Bound> {
    if side == 0 || down <= 0 {
        return Some((side, power));
    }
    let step = 1_i64.checked_shl(down as u32).filter(|_| down < 62)?;
    (power % step == 0).then_some((side, power / step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn point(scale: i32, positive: (i32, Vec<u64>), negative: (i32, Vec<u64>), zeros: u64) -> Point {
        let count = positive.1.iter().chain(&negative.1).sum::<u64>() + zeros;
        let side = |(offset, counts)| Side { offset, counts };
        Point { scale, count, zeros, positive: side(positive), negative: side(negative), ..Point::default() }
    }

    #[test]
    fn bounds_are_powers_on_both_sides_of_zero() {
        let mut work = Work::default();
        assert!(work.exponential(&point(0, (0, vec![1, 2]), (1, vec![3]), 4), &[], None));
        let told: Vec<(f64, u64)> =
            work.counted.iter().map(|(bound, count)| (upper(*bound, work.scale), *count)).collect();
        // (1, 2], (2, 4], and [-4, -2).
        assert_eq!(told, [(-2.0, 3), (0.0, 4), (2.0, 1), (4.0, 2)]);
        let mut wrong = point(0, (0, vec![1]), (0, vec![]), 0);
        wrong.count = 5;
        assert!(!work.exponential(&wrong, &[], None));
        assert!(!work.exponential(&point(21, (0, vec![1]), (0, vec![]), 0), &[], None));
        wrong.positive.counts = vec![u64::MAX, 6];
        assert!(!work.exponential(&wrong, &[], None));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_bounds_stay_few(
            scale in -10..=20,
            offset in prop_oneof![-40..40, any::<i32>()],
            counts in prop::collection::vec(0..5_u64, 0..400),
            other in 0..400_usize,
        ) {
            let negative = (other as i32, vec![1; other]);
            let point = point(scale, (offset, counts), negative, 3);
            let mut work = Work::default();
            let known: Vec<Bound> = (0..100).map(|n| (1, n * 3)).collect();
            prop_assert!(work.exponential(&point, &known, Some(3)));
            prop_assert!(work.bounds.len() <= MAX_KEPT);
            prop_assert_eq!(work.counted.iter().map(|(_, count)| count).sum::<u64>(), point.count);
            prop_assert!(work.counted.is_sorted_by(|one, other| one.0 < other.0));
            for bound in &work.bounds {
                prop_assert!(upper(*bound, work.scale).is_finite());
            }
        }
    }
}
