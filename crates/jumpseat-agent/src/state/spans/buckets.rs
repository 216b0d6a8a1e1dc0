//! Log-linear buckets for durations, two significant digits: each decade from a microsecond to 1000 seconds has 90
//! buckets of equal width. Whatever a bucket stands for is within 5 % of its middle.

/// Number of buckets: those of nine decades, one below and one above.
pub(super) const FINE: usize = 9 * 90 + 2;
/// Number of coarse buckets, which have one significant digit: nine a decade, one below and one above.
pub(super) const COARSE: usize = 9 * 9 + 2;

const FIRST_DECADE: u32 = 3;
const TOP: u64 = 1_000_000_000_000;

/// What it takes to cut durations of a decade to two digits: the decade's first duration, and the number and shift to multiply
/// with instead of dividing.
#[derive(Clone, Copy)]
struct Decade {
    first: u64,
    factor: u64,
    shift: u32,
}

/// By decade, from that of [`FIRST_DECADE`] on.
const DECADES: [Decade; 9] = {
    let mut decades = [Decade { first: 0, factor: 0, shift: 0 }; 9];
    let mut decade = 0;
    while decade < 9 {
        let divisor = 10_u64.pow(FIRST_DECADE + decade as u32 - 1);
        let shift = divisor.ilog2();
        // Rounded up, by less than one part in 2^64: the quotients of numbers below 2^40 are exact.
        let factor = (1_u128 << (64 + shift)).div_ceil(divisor as u128) as u64;
        decades[decade] = Decade { first: divisor * 10, factor, shift };
        decade += 1;
    }
    decades
};

/// The decade in which numbers of so many bits begin.
const BY_BITS: [u8; 41] = {
    let mut by_bits = [0; 41];
    let mut bits = 11;
    while bits <= 40 {
        by_bits[bits] = ((1_u64 << (bits - 1)).ilog10() - FIRST_DECADE) as u8;
        bits += 1;
    }
    by_bits
};

/// The fine and the coarse bucket of a duration in nanoseconds.
#[inline]
pub(super) fn buckets(nanos: u64) -> (usize, usize) {
    match nanos {
        0..1000 => (0, 0),
        TOP.. => (FINE - 1, COARSE - 1),
        _ => {
            let mut decade = usize::from(BY_BITS[(u64::BITS - nanos.leading_zeros()) as usize]);
            decade += usize::from(DECADES.get(decade + 1).is_some_and(|next| nanos >= next.first));
            let Decade { factor, shift, .. } = DECADES[decade];
            let digits = ((u128::from(nanos) * u128::from(factor)) >> 64) as u64 >> shift;
            let digits = digits as usize - 10;
            (1 + decade * 90 + digits, 1 + decade * 9 + digits / 10)
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

    fn fine(nanos: u64) -> usize {
        buckets(nanos).0
    }

    fn coarse(nanos: u64) -> usize {
        buckets(nanos).1
    }

    #[test]
    fn edges_are_exact() {
        for decade in 3..12 {
            for digits in 10..100 {
                let edge = digits * 10_u64.pow(decade - 1);
                let expected = (decade as usize - 3, digits as usize - 10);
                let of = |(decade, digits)| (1 + decade * 90 + digits, 1 + decade * 9 + digits / 10);
                assert_eq!(buckets(edge), of(expected), "{edge}");
                assert_eq!(fine(edge - 1), fine(edge) - 1, "before {edge}");
            }
        }
    }

    #[test]
    fn every_duration_is_within_its_bucket() {
        let mut nanos = 1000_u64;
        while nanos < TOP {
            let error = middle(fine(nanos)).abs_diff(nanos) as f64 / nanos as f64;
            assert!(error <= 0.05, "{nanos}: {error}");
            assert!(fine(nanos) >= fine(nanos - 1) && coarse(nanos) < COARSE);
            nanos += nanos / 37;
        }
        assert_eq!((fine(0), fine(999), fine(1000)), (0, 0, 1));
        assert_eq!((fine(TOP - 1), fine(TOP), fine(u64::MAX)), (FINE - 2, FINE - 1, FINE - 1));
        assert_eq!((coarse(TOP - 1), coarse(TOP)), (COARSE - 2, COARSE - 1));
    }

    #[test]
    fn names_tell_where_a_bucket_ends() {
        let name = |nanos| coarse_name(coarse(nanos));
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
        let end = |nanos| coarse_end(coarse(nanos));
        let ends = [5, 1000, 9_999, 250_000, 999_999, 1_000_000, 999_000_000_000, TOP].map(end);
        let micros = [1, 2, 10, 300, 1_000, 2_000, 1_000_000_000].map(Some);
        assert_eq!((&ends[..7], ends[7]), (&micros[..], None));
        let all: std::collections::HashSet<String> = (0..COARSE).map(coarse_name).collect();
        assert_eq!(all.len(), COARSE);
    }
}
