//! How the memory for records is shared out: by what each source has use for, not by how many names there are.
//!
//! A source has use for twice what it holds, in steps of powers of two, up to its own limit: so what makes a log drop
//! records is its limit, as long as there is memory. Where there is not, whoever has use for less than an equal part gets
//! all of that, and the others share the rest equally. Sources that the configuration names come before those that
//! senders have made up, which keep the smallest budget.
//!
//! **Invariant:** the shares add up to the total at most, whatever the sources have use for. A log that holds less than
//! half of an equal part of the total loses nothing by it.
//!
//! **Cost:** one pass over the sources whenever one has use for more than before. That comes with a delivery at most, and
//! with few, as the steps double.

use crate::config::MIN_SOURCE_BUDGET;

/// What a source has use for that holds `held` bytes, and may hold `most`: nothing if it holds nothing.
pub(super) fn use_of(held: usize, most: u64) -> u64 {
    match (held as u64).saturating_mul(2) {
        0 => 0,
        twice => twice.checked_next_power_of_two().unwrap_or(most).max(MIN_SOURCE_BUDGET).min(most),
    }
}

/// The largest shares of sources that are named in the configuration, and of the others: nobody gets more, nor more than
/// it has use for. Both lists are put in order, and have no sources without use.
pub(super) fn levels(named: &mut [u64], others: &mut [u64], total: u64) -> (u64, u64) {
    let kept = (others.len() as u64 * MIN_SOURCE_BUDGET).min(total / 2);
    let for_named = level(named, total - kept);
    let used: u64 = named.iter().map(|wanted| for_named.min(*wanted)).sum();
    (for_named, level(others, total - used))
}

/// The largest share, so that all together are at most `total`.
fn level(uses: &mut [u64], total: u64) -> u64 {
    uses.sort_unstable();
    let (mut left, mut count) = (total, uses.len() as u64);
    for wanted in uses {
        let equal = left / count;
        if *wanted > equal {
            return equal;
        }
        (left, count) = (left - *wanted, count - 1);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn sum((level, uses): (u64, &[u64])) -> u64 {
        uses.iter().map(|wanted| level.min(*wanted)).sum()
    }

    #[test]
    fn who_holds_little_takes_little_from_others() {
        for (held, wanted) in [
            (0, 0),
            (1, MIN_SOURCE_BUDGET),
            (100 << 10, 256 << 10),
            (3 << 20, 8 * MIB),
            (7 << 20, 8 * MIB),
            (usize::MAX, 8 * MIB),
        ] {
            assert_eq!(use_of(held, 8 * MIB), wanted, "{held}");
        }
        let mut others = vec![use_of(200, 8 * MIB); 255];
        others.push(use_of(5 << 20, 8 * MIB));
        let (_, level) = levels(&mut [], &mut others, 64 * MIB);
        assert!(level >= 8 * MIB, "{level}");
    }

    #[test]
    fn who_is_named_comes_first_and_the_total_holds() {
        let (mut named, mut others) = (vec![8 * MIB; 4], vec![8 * MIB; 252]);
        let (for_named, for_others) = levels(&mut named, &mut others, 64 * MIB);
        assert!(for_named >= 8 * MIB, "no limit but their own");
        assert_eq!(for_others, 32 * MIB / 252);
        // However many of which, and whatever they have use for.
        for (count, many) in [(0, 1), (1, 0), (3, 1000), (1000, 3), (1000, 1000), (0, 0)] {
            let mut named: Vec<u64> = (1..=count).map(|n| n * 77_777 % (9 * MIB) + 1).collect();
            let mut others: Vec<u64> = (1..=many).map(|n| n * 33_333 % (9 * MIB) + 1).collect();
            let (of_named, of_others) = levels(&mut named, &mut others, 64 * MIB);
            let all = sum((of_named, &named)) + sum((of_others, &others));
            assert!(all <= 64 * MIB, "{count} {many}: {all}");
        }
    }
}
