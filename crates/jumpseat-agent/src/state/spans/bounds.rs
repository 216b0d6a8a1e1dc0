//! Upper bounds of durations: the buckets of a cumulative histogram, in which a span counts for each bound that it is below.
//!
//! Each span has all of them from its start, whether or not there is anything in them: a bucket that comes up only when
//! something falls into it would have begun with what is in those below it, which rates do not see. So there are few: 1, 2
//! and 5 of each power of ten from a microsecond to 1000 seconds, and one that is none. Their instances are made when
//! somebody first asks for them, and then about 7 KiB for each name.

use pcp_model::Inst;

use super::buckets::{COARSE, coarse_end, coarse_name};
use super::{Span, Spans};
use crate::identity::{bound_inst, bound_of};

/// How many there are.
const BOUNDS: usize = 9 * 3 + 2;

impl Spans {
    /// Brings the instance domain of spans and bounds up to date with that of spans.
    pub(crate) fn refresh_bounds(&mut self) {
        if self.bounded == self.names.active() {
            return;
        }
        let before = std::mem::replace(&mut self.bounded, self.names.active().to_vec());
        for (span, name) in self.names.iter() {
            if before.binary_search(&span).is_ok() {
                continue;
            }
            for (bound, inst) in bounds_of(span) {
                // The name is of a span's instance, and so its own.
                let added = self.bounds.add_as(inst, &format!("{name}/{}", coarse_name(last(bound))));
                debug_assert!(added.is_ok(), "instances of spans are told apart");
            }
        }
    }

    /// Takes out those of a span that has gone. How many there were.
    pub(super) fn forget_bounds(&mut self, span: Inst) -> usize {
        let Ok(at) = self.bounded.binary_search(&span) else { return 0 };
        self.bounded.remove(at);
        let gone: Vec<Inst> = bounds_of(span).map(|(_, inst)| inst).collect();
        self.bounds.forget_all(&gone);
        gone.len()
    }

    /// The name of an instance of a bound, and the bound in seconds; `None` for the last one, which is none.
    pub(crate) fn of_bound(&self, inst: Inst) -> Option<(&Span, Option<f64>)> {
        let (span, bound) = bound_of(inst);
        Some((self.get(span)?, coarse_end(last(bound)).map(|micros| micros as f64 / 1e6)))
    }

    /// How many spans of an instance's name have taken less than its bound.
    pub(crate) fn below(&self, inst: Inst) -> Option<u64> {
        let (span, bound) = bound_of(inst);
        Some(self.get(span)?.histogram.get(..=last(bound))?.iter().sum())
    }
}

/// All bounds of a span, and their instances.
fn bounds_of(span: Inst) -> impl Iterator<Item = (usize, Inst)> {
    (0..BOUNDS).filter_map(move |bound| Some((bound, bound_inst(span, bound)?)))
}

/// The last coarse bucket below a bound.
fn last(bound: usize) -> usize {
    // Of a decade's nine buckets, the ends of which are 2 to 10 times its beginning.
    (bound / 3 * 9 + [0, 1, 4][bound % 3]).min(COARSE - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_ends_of_buckets() {
        let ends: Vec<_> = (0..BOUNDS).map(|bound| coarse_end(last(bound))).collect();
        let mut expected: Vec<_> =
            (0..9).flat_map(|decade| [1, 2, 5].map(|digit| Some(digit * 10_u64.pow(decade)))).collect();
        expected.extend([Some(1_000_000_000), None]);
        assert_eq!(ends, expected);
    }
}
