//! Which operands have the same instances in the same order: found out once for each operand of a fetch, so that nothing made of them
//! is compared instance by instance.
//!
//! **Bounded:** the lists that came last are known, a few. One that is not gets a number of its own, which costs comparisons later, and is
//! never wrong.

use std::num::NonZeroU64;

use crate::column::{Column, ListNumber};
use pcp_model::Inst;

const KNOWN: usize = 16;

/// Lists and their numbers.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    known: Vec<(ListNumber, Vec<Inst>)>,
    /// Of the list that was found last: most often it is the next one, too.
    last: usize,
    /// Where the next new one goes.
    next: usize,
    given: u64,
}

impl Lists {
    /// Numbers the instances of a column that was filled from outside.
    pub(super) fn number(&mut self, column: &mut Column) {
        let is = |(_, list): &(ListNumber, Vec<Inst>)| *list == column.ids;
        let at = match self.known.get(self.last).is_some_and(is) {
            true => Some(self.last),
            false => self.known.iter().position(is),
        };
        let at = at.unwrap_or_else(|| self.add(&column.ids));
        if let Some(&(number, _)) = self.known.get(at) {
            self.last = at;
            column.set_list(number);
        }
    }

    fn add(&mut self, list: &[Inst]) -> usize {
        self.given += 1;
        let number = NonZeroU64::MIN.saturating_add(self.given);
        let at = self.next;
        self.next = (at + 1) % KNOWN;
        match self.known.get_mut(at) {
            Some((known, place)) => {
                *known = number;
                place.clear();
                place.extend_from_slice(list);
            }
            None => self.known.push((number, list.to_vec())),
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Values;

    #[test]
    fn the_same_instances_have_the_same_number_and_others_have_not() {
        let mut lists = Lists::default();
        let mut column = |ids: &[Inst]| {
            let mut column = Column::of(ids.to_vec(), Values::U32(vec![0; ids.len()]));
            lists.number(&mut column);
            column
        };
        let (a, b) = (column(&[1, 2]), column(&[2, 1]));
        assert!(a.has_instances_of(&column(&[1, 2])) && !a.has_instances_of(&b));
        // More than are known: a list that is forgotten has another number, and is the same all the same.
        for other in 3..40 {
            column(&[other]);
        }
        assert!(a.has_instances_of(&column(&[1, 2])) && b.has_instances_of(&column(&[2, 1])));
    }
}
