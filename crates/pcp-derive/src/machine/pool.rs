//! Columns that nobody needs at the moment, to be filled again.
//!
//! A column is taken for each slot that is computed, and given back as soon as the one who needs it has had it. So most columns of an
//! evaluation are the few that were used last, which the processor still has near it, however many definitions there are.
//!
//! **Bounded:** what no fetch of a period has taken is dropped at its end, so that there are about as many columns as were in use at once
//! lately. Without that there would be one more each time a slot has many values after few: it takes a short column and gives back
//! a long one. One that was long is not taken for few values, so that what remembers few does not hold memory for many.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::column::{Column, Values};
use pcp_model::ValueType;

/// Fetches after which those that were spare in all of them are dropped.
const PERIOD: u32 = 16;

/// **Invariant:** nobody else has a column that is in it.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// By kind of values and how long they can be.
    shelves: FxHashMap<(usize, u32), Shelf>,
    /// Fetches of this period.
    fetches: u32,
}

/// Columns that are alike.
#[derive(Debug, Default)]
struct Shelf {
    columns: Vec<Arc<Column>>,
    /// The fewest that were left in this period.
    spare: usize,
}

impl Shelf {
    fn take(&mut self) -> Option<Arc<Column>> {
        let column = self.columns.pop();
        self.spare = self.spare.min(self.columns.len());
        column
    }

    /// Drops what was spare all the time: the ones at the bottom.
    fn tidy(&mut self) {
        self.columns.drain(..self.spare);
        self.spare = self.columns.len();
    }
}

impl Pool {
    /// A new fetch begins.
    pub(super) fn begin(&mut self) {
        self.fetches += 1;
        if self.fetches == PERIOD {
            self.fetches = 0;
            self.shelves.values_mut().for_each(Shelf::tidy);
        }
    }

    /// A column that nobody else has, for about so many values of a type, with whatever numbers were in it.
    pub(super) fn take(&mut self, value_type: ValueType, len: usize) -> Arc<Column> {
        let (kind, size) = (Column::kind_of(value_type), size(len));
        // Lists that grow have doubled their room, which may be twice what is needed.
        let mut free = |size| self.shelves.get_mut(&(kind, size)).and_then(Shelf::take);
        (size..size + 3).find_map(&mut free).unwrap_or_else(|| Arc::new(Column::new(value_type)))
    }

    /// Takes a column back, if nobody else has it.
    pub(crate) fn give(&mut self, mut column: Arc<Column>) {
        if let Some(alone) = Arc::get_mut(&mut column) {
            // Numbers stay, as their instances may be those that are wanted next; strings would hold memory of their own.
            if matches!(alone.values, Values::Other(_)) {
                alone.clear();
            }
            let place = (alone.kind(), size(alone.ids.capacity()));
            self.shelves.entry(place).or_default().columns.push(column);
        }
    }
}

/// Lengths of as many binary digits are alike, and all that fit into the least room that a list begins with.
fn size(len: usize) -> u32 {
    usize::BITS - len.max(4).leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_do_not_get_the_room_of_many() {
        let mut pool = Pool::default();
        pool.give(Arc::new(Column::of(vec![0; 1000], Values::U32(vec![0; 1000]))));
        assert_eq!(pool.take(ValueType::U32, 1).ids.capacity(), 0);
        assert_eq!(pool.take(ValueType::I32, 1000).ids.capacity(), 0);
        assert!(pool.take(ValueType::U32, 900).ids.capacity() >= 1000);
    }

    #[test]
    fn what_somebody_holds_is_not_given_to_others() {
        let mut pool = Pool::default();
        let held = Arc::new(Column::of(vec![7], Values::U32(vec![7])));
        pool.give(Arc::clone(&held));
        assert!(pool.take(ValueType::U32, 1).is_empty());
        pool.give(held);
        assert_eq!(pool.take(ValueType::U32, 1).ids, [7]);
    }

    #[test]
    fn what_no_fetch_takes_is_dropped() {
        let mut pool = Pool::default();
        let columns = |pool: &Pool| pool.shelves.values().map(|shelf| shelf.columns.len()).sum::<usize>();
        // Few values and many in turn.
        let (mut len, mut most) = (0, 0);
        for fetch in 0..1000 {
            pool.begin();
            let mut column = pool.take(ValueType::U32, len);
            len = if fetch % 2 == 0 { 1000 } else { 5 };
            Arc::get_mut(&mut column).expect("nobody else has it").ids.resize(len, 0);
            pool.give(column);
            most = most.max(columns(&pool));
        }
        assert!(most <= PERIOD as usize + 2, "{most}");
        // As many in each fetch: they stay.
        for _ in 0..100 {
            pool.begin();
            let taken: Vec<_> = (0..50).map(|_| pool.take(ValueType::U32, 4)).collect();
            taken.into_iter().for_each(|column| pool.give(column));
        }
        assert_eq!(columns(&pool), 50);
        for _ in 0..2 * PERIOD {
            pool.begin();
        }
        assert_eq!(columns(&pool), 0);
    }
}
