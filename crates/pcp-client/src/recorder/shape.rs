//! Which instances a sample has, metric by metric, in one run: so that a sample like the one before is known by one look along it. What is
//! known of each metric by itself would be looked for in as many places, none of which the processor has at hand from one sample to the
//! next.

use crate::Fetched;
use pcp_model::Inst;
use pcp_pdu::{SetRef, ValuesRef};

/// The instances that each metric of a sample had when it had values last: those of an archive are not all in each of its records.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    insts: Vec<Inst>,
    /// Where those of each metric end.
    ends: Vec<usize>,
}

impl Shape {
    /// Whether a sample has the same instances, as far as it has values.
    pub(super) fn is_that_of(&self, fetched: &Fetched) -> bool {
        let mut begin = 0;
        for (set, &end) in fetched.sets().zip(&self.ends) {
            let known = self.insts.get(begin..end).unwrap_or_default();
            begin = end;
            if values_of(set).is_some_and(|values| {
                values.len() != known.len() || !values.insts().eq(known.iter().copied())
            }) {
                return false;
            }
        }
        fetched.len() == self.ends.len()
    }

    /// Those of the metric at a place.
    pub(super) fn of(&self, at: usize) -> &[Inst] {
        let begin = at.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied());
        let range = begin.zip(self.ends.get(at).copied());
        range.and_then(|(begin, end)| self.insts.get(begin..end)).unwrap_or_default()
    }

    /// Becomes that of a sample.
    pub(super) fn take(&mut self, fetched: &Fetched) {
        let mut taken = Shape::default();
        for (at, set) in fetched.sets().enumerate() {
            match values_of(set) {
                Some(values) => taken.insts.extend(values.insts()),
                None => taken.insts.extend_from_slice(self.of(at)),
            }
            taken.ends.push(taken.insts.len());
        }
        *self = taken;
    }
}

fn values_of(set: SetRef<'_>) -> Option<ValuesRef<'_>> {
    set.values.ok().filter(|values| !values.is_empty())
}

#[cfg(test)]
mod tests {
    use pcp_model::{Pmid, Value};

    use super::*;

    #[test]
    fn a_sample_is_known_by_its_instances_alone() {
        let sample = |sets: &[&[Inst]]| {
            let mut fetched = Fetched::new();
            for (item, insts) in (0..).zip(sets) {
                fetched.begin_set(Pmid::new(1, 0, item));
                insts.iter().for_each(|&inst| fetched.push_value(inst, &Value::U32(7)).expect("a number"));
                fetched.end_set();
            }
            fetched
        };
        let known = sample(&[&[1, 2], &[], &[-1], &[7]]);
        let mut shape = Shape::default();
        assert!(!shape.is_that_of(&known) && shape.is_that_of(&sample(&[])));
        shape.take(&known);
        assert!(shape.is_that_of(&known));
        assert_eq!([0, 1, 2, 3, 4].map(|at| shape.of(at)), [&[1, 2][..], &[], &[-1], &[7], &[]]);
        for other in [
            &[&[1, 2][..], &[], &[-1]][..],
            &[&[1, 2], &[], &[-1], &[7], &[]],
            &[&[1, 2], &[-1], &[], &[7]],
            &[&[1], &[2], &[-1], &[7]],
            &[&[1, 3], &[], &[-1], &[7]],
            &[&[1, 2], &[], &[-1], &[7, 8]],
        ] {
            assert!(!shape.is_that_of(&sample(other)), "{other:?}");
        }
        // What is known of a metric stays while it has no values.
        let other_half = sample(&[&[], &[5], &[], &[8, 9]]);
        assert!(shape.is_that_of(&sample(&[&[], &[], &[-1], &[]])) && !shape.is_that_of(&other_half));
        shape.take(&other_half);
        assert_eq!([0, 1, 2, 3].map(|at| shape.of(at)), [&[1, 2][..], &[5], &[-1], &[8, 9]]);
        assert!(shape.is_that_of(&sample(&[&[1, 2], &[5], &[-1], &[8, 9]])));
        assert!(!shape.is_that_of(&known));
    }
}
