//! Log-linear buckets for durations, two significant digits: each decade from a microsecond to 1000 seconds has 90
//! buckets of equal width. Whatever a bucket stands for is within 5 % of its middle.

/// Number of buckets: those of nine decades, one below and one above.
pub(super) const FINE: usize = 9 * 90 + 2;
/// Number of coarse buckets, which have one significant digit: nine a decade, one below and one above.
pub(super) const COARSE: usize = 9 * 9 + 2;

const FIRST_DECADE: u32 = 3;
const TOP: u64 = 1_000_000_000_000;

/// The bucket of a duration in nanoseconds.
#[inline]
pub(super) fn fine(nanos: u64) -> usize {
    match nanos {
        0..1000 => 0,
        TOP.. => FINE - 1,
        _ => {
            let decade = nanos.ilog10();
            let digits = nanos / 10_u64.pow(decade - 1);
            1 + (decade - FIRST_DECADE) as usize * 90 + digits as usize - 10
        }
    }
}

/// The middle of a bucket, in nanoseconds.
pub(super) fn middle(fine: usize) -> u64 {
    match fine {
        0 => 500,
        _ if fine >= FINE - 1 => TOP,
        _ => {
            let width = 10_u64.pow((fine as u32 - 1) / 90 + FIRST_DECADE - 1);
            ((fine as u64 - 1) % 90 + 10) * width + width / 2
        }
    }
}

/// The coarse bucket that a fine one is part of.
#[inline]
pub(super) fn coarse(fine: usize) -> usize {
    match fine {
        0 => 0,
        _ if fine >= FINE - 1 => COARSE - 1,
        _ => 1 + (fine - 1) / 90 * 9 + ((fine - 1) % 90) / 10,
    }
}

/// Where a coarse bucket ends: durations in it are shorter.
pub(super) fn coarse_name(coarse: usize) -> String {
    let (decade, digit) = match coarse {
        0 => (0, 1),
        _ if coarse >= COARSE - 1 => return "inf".to_owned(),
        _ => ((coarse - 1) / 9, (coarse - 1) % 9 + 2),
    };
    // Ten of one unit, or a thousand, may be one of the next.
    let (decade, digit) = if digit == 10 { (decade + 1, 1) } else { (decade, digit) };
    let unit = ["us", "ms", "s", "ks"][decade / 3];
    format!("{}{unit}", digit * [1, 10, 100][decade % 3])
}

/// The same in microseconds; `None`: it has no end.
pub(super) fn coarse_end(coarse: usize) -> Option<u64> {
    match coarse {
        0 => Some(1),
        _ if coarse >= COARSE - 1 => None,
        _ => Some(((coarse - 1) % 9 + 2) as u64 * 10_u64.pow(((coarse - 1) / 9) as u32)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_within_its_bucket() {
        let mut nanos = 1000_u64;
        while nanos < TOP {
            let error = middle(fine(nanos)).abs_diff(nanos) as f64 / nanos as f64;
            assert!(error <= 0.05, "{nanos}: {error}");
            assert!(fine(nanos) >= fine(nanos - 1) && coarse(fine(nanos)) < COARSE);
            nanos += nanos / 37;
        }
        assert_eq!((fine(0), fine(999), fine(1000)), (0, 0, 1));
        assert_eq!((fine(TOP - 1), fine(TOP), fine(u64::MAX)), (FINE - 2, FINE - 1, FINE - 1));
        assert_eq!(coarse(FINE - 2), COARSE - 2);
    }

    #[test]
    fn names_tell_where_a_bucket_ends() {
        let name = |nanos| coarse_name(coarse(fine(nanos)));
        for (nanos, expected) in [
            (5, "1us"),
            (1000, "2us"),
            (9_999, "10us"),
            (250_000, "300us"),
            (999_999, "1ms"),
            (1_000_000, "2ms"),
            (99_000_000_000, "100s"),
            (999_000_000_000, "1ks"),
            (TOP, "inf"),
        ] {
            assert_eq!(name(nanos), expected, "{nanos}");
        }
        let end = |nanos| coarse_end(coarse(fine(nanos)));
        let ends = [5, 1000, 9_999, 250_000, 999_999, 1_000_000, 999_000_000_000, TOP].map(end);
        let micros = [1, 2, 10, 300, 1_000, 2_000, 1_000_000_000].map(Some);
        assert_eq!((&ends[..7], ends[7]), (&micros[..], None));
        let all: std::collections::HashSet<String> = (0..COARSE).map(coarse_name).collect();
        assert_eq!(all.len(), COARSE);
    }
}
