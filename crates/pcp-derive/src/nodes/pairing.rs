//! Which instance goes with which (`docs/pcp/derived-eval.md` 4.8 and 4.14).

use pcp_model::Inst;

/// Longer lists than this are searched through a sorted index.
const LINEAR: usize = 32;

/// Finds the first place of an instance in a list, from a guess at first.
///
/// Lists that are in the same order cost one comparison an instance, others one binary search; the
/// index is built at most once a pairing, in memory that is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Finder {
    index: Vec<(Inst, u32)>,
    built: bool,
}

impl Finder {
    /// Forgets the list it has looked at.
    pub(crate) fn reset(&mut self) {
        self.built = false;
    }

    /// The first place of `inst` in `list`, which must be the same list since [`Finder::reset`].
    pub(crate) fn first(&mut self, list: &[Inst], inst: Inst) -> Option<usize> {
        // Sorting costs more than looking at every entry of a short list.
        if list.len() <= LINEAR {
            return list.iter().position(|&other| other == inst);
        }
        if !self.built {
            self.index.clear();
            self.index.extend(list.iter().copied().zip(0..));
            self.index.sort_unstable();
            self.built = true;
        }
        let at = self.index.partition_point(|&(other, _)| other < inst);
        self.index.get(at).filter(|(other, _)| *other == inst).map(|&(_, place)| place as usize)
    }
}

/// How the values of two operands go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pairing {
    /// One by one, as many.
    Zip(usize),
    /// The left operand's first value with each of the right one's.
    OneWithEach,
    /// Each of the left operand's values with the right one's first.
    EachWithOne,
    /// As the pairs say.
    Listed,
}

/// Fills `pairs` with how sets pair whose lists differ: by instance, in the order of the left set.
pub(crate) fn pair_sets(left: &[Inst], right: &[Inst], finder: &mut Finder, pairs: &mut Vec<(u32, u32)>) {
    finder.reset();
    pairs.clear();
    let limit = left.len().min(right.len());
    let mut cursor = 0;
    for (i, &inst) in left.iter().enumerate() {
        // As many results as the shorter list has values, whatever the other repeats.
        if pairs.len() >= limit {
            break;
        }
        // Where an instance is several times, the entry behind the last one found comes before the first.
        let found = match right.get(cursor) {
            Some(&other) if other == inst => Some(cursor),
            _ => finder.first(right, inst),
        };
        cursor = match found {
            Some(j) => {
                pairs.push((i as u32, j as u32));
                if j + 1 < right.len() { j + 1 } else { 0 }
            }
            None => 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(left: &[Inst], right: &[Inst], expected: &[(u32, u32)]) {
        let mut pairs = Vec::new();
        pair_sets(left, right, &mut Finder::default(), &mut pairs);
        assert_eq!(pairs, expected);
    }

    #[test]
    fn sets_pair_by_instance_in_the_order_of_the_left() {
        check(&[1, 2, 3], &[1, 2, 3], &[(0, 0), (1, 1), (2, 2)]);
        check(&[3, 1, 5], &[1, 2, 3], &[(0, 2), (1, 0)]);
        check(&[1, 11, 1], &[1, 11, 21], &[(0, 0), (1, 1), (2, 0)]);
        check(&[1, 1, 11], &[11, 1], &[(0, 1), (1, 1)]);
        check(&[], &[1], &[]);
    }

    #[test]
    fn long_lists_pair_as_short_ones() {
        let left: Vec<Inst> = (0..1000).rev().collect();
        let right: Vec<Inst> = (500..1500).collect();
        let expected: Vec<(u32, u32)> = (0..500).map(|i| (i, 499 - i)).collect();
        check(&left, &right, &expected);
    }
}
