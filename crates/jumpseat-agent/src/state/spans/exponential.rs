//! An exponential histogram of durations, as OpenTelemetry defines it, of a fixed scale: so that those of several hosts, or of
//! times, are merged by adding their counts.
//!
//! Bucket `i` has the durations above `2^(i/8)` and up to `2^((i+1)/8)` nanoseconds. Whatever is in a bucket is within
//! 4.33 % of its middle. Durations up to 1,024 ns are counted as zero, those beyond 2^40 ns (18 minutes) in the last bucket.

/// For each power of two there are `2^SCALE` buckets.
pub(crate) const SCALE: u32 = 3;
/// How far a duration is from the middle of its bucket at most, as a part of itself.
#[cfg(test)]
const ERROR: f64 = 0.0433;
/// What counts as zero, in nanoseconds.
pub(crate) const ZERO: u64 = 1 << FIRST_POWER;
/// The index of the first bucket, by OpenTelemetry's count.
pub(crate) const OFFSET: usize = (FIRST_POWER as usize) << SCALE;
/// Number of counts: of zero, and of all buckets.
pub(crate) const BUCKETS: usize = 1 + (((LAST_POWER - FIRST_POWER) as usize) << SCALE);

const FIRST_POWER: u32 = 10;
const LAST_POWER: u32 = 40;
/// `2^(n/8)` times 2^63, rounded up: numbers whose leading bit is the highest and that are above one of these are in the
/// bucket behind it.
const STEPS: [u64; 7] = [
    0x8b95_c1e3_ea8b_d6e7,
    0x9837_f051_8db8_a970,
    0xa5fe_d6a9_b151_38eb,
    0xb504_f333_f9de_6485,
    0xc567_2a11_5506_dade,
    0xd744_fcca_d69d_6af5,
    0xeac0_c6e7_dd24_392f,
];

/// The count that a duration belongs to, in nanoseconds: 0 is zero's.
#[inline]
pub(super) fn bucket(nanos: u64) -> usize {
    if nanos <= ZERO {
        return 0;
    }
    if nanos > 1 << LAST_POWER {
        return BUCKETS - 1;
    }
    // A power of two is in the bucket that ends there; between two whole numbers there is no other end.
    let nanos = nanos - u64::from(nanos.is_power_of_two());
    let zeros = nanos.leading_zeros();
    let mantissa = nanos << zeros;
    let step: usize = STEPS.iter().map(|step| usize::from(mantissa >= *step)).sum();
    1 + (((63 - zeros - FIRST_POWER) as usize) << SCALE) + step
}

/// The middle of a bucket in nanoseconds: as far from the one end as from the other, in parts of itself.
pub(super) fn middle(bucket: usize) -> u64 {
    match bucket {
        0 => ZERO / 2,
        _ => {
            let lower = ((bucket - 1 + OFFSET) as f64 / f64::from(1_u32 << SCALE)).exp2();
            let base = 1.0 / f64::from(1_u32 << SCALE);
            (lower * 2.0 * base.exp2() / (1.0 + base.exp2())).round() as u64
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn end(bucket: usize) -> f64 {
        ((bucket + OFFSET) as f64 / 8.0).exp2()
    }

    #[test]
    fn powers_of_two_end_their_buckets() {
        for power in FIRST_POWER + 1..=LAST_POWER {
            let last = ((power - FIRST_POWER) as usize) << SCALE;
            assert_eq!((bucket(1 << power), bucket((1 << power) - 1)), (last, last), "2^{power}");
            assert_eq!(bucket((1 << power) + 1), (last + 1).min(BUCKETS - 1), "2^{power} + 1");
        }
        assert_eq!((bucket(0), bucket(ZERO), bucket(ZERO + 1)), (0, 0, 1));
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    proptest! {
        #[test]
        fn durations_are_within_their_bucket_and_near_its_middle(power in 10..40_u32, part in 0.0..1.0_f64) {
            let nanos = (f64::from(power) + part).exp2().ceil() as u64;
            let bucket = bucket(nanos);
            prop_assert!(nanos <= ZERO || (nanos as f64 > end(bucket - 1) && nanos as f64 <= end(bucket)), "{}", nanos);
            // The middle is told in whole nanoseconds: half of one is lost at most.
            let error = (middle(bucket).abs_diff(nanos) as f64 - 0.5) / nanos as f64;
            prop_assert!(nanos <= ZERO || error <= ERROR, "{} in {}: {}", nanos, bucket, error);
        }
    }
}
