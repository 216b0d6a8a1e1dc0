//! Columns that nobody needs at the moment, to be filled again.
//!
//! A column is taken for each slot that is computed, and given back as soon as the one who needs it has had it. So most columns of an
//! evaluation are the few that were used last, which the processor still has near it, however many definitions there are.
//!
//! **Bounded:** there are never more columns than were in use at once, and one that was long is not taken for few values, so that
//! what remembers few values does not hold memory for many.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::column::Column;
use pcp_model::ValueType;

/// **Invariant:** nobody else has a column that is in it.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// By kind of values and how long they can be.
    free: FxHashMap<(usize, u32), Vec<Arc<Column>>>,
}

impl Pool {
    /// A column that nobody else has, for about so many values of a type, with whatever was in it.
    pub(super) fn take(&mut self, value_type: ValueType, len: usize) -> Arc<Column> {
        let (kind, size) = (Column::kind_of(value_type), size(len));
        // Lists that grow have doubled their room, which may be twice what is needed.
        let mut free = |size| self.free.get_mut(&(kind, size)).and_then(Vec::pop);
        (size..size + 3).find_map(&mut free).unwrap_or_else(|| Arc::new(Column::new(value_type)))
    }

    /// Takes a column back, if nobody else has it.
    pub(crate) fn give(&mut self, mut column: Arc<Column>) {
        if let Some(alone) = Arc::get_mut(&mut column) {
            let place = (alone.kind(), size(alone.ids.capacity()));
            self.free.entry(place).or_default().push(column);
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
    use crate::column::Values;

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
}
