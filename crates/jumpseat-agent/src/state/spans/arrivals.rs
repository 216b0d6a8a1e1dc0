//! What waits for its other end, by id and in the order in which it came.
//!
//! **Cost:** a look-up in a table of 5 bytes an entry, and the entries before and behind one that comes or goes. No allocation
//! once both have grown.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// No place.
const NONE: u32 = u32::MAX;

/// Entries by id, oldest first. Ids are hashes already.
#[derive(Debug)]
pub(super) struct Arrivals<T> {
    /// The places of all entries, by id.
    table: HashTable<u32>,
    places: Vec<Place<T>>,
    oldest: u32,
    newest: u32,
    /// The first of those that are free, each of which has the next one behind it.
    free: u32,
}

#[derive(Clone, Copy, Debug)]
struct Place<T> {
    id: u64,
    value: T,
    before: u32,
    behind: u32,
}

impl<T> Default for Arrivals<T> {
    fn default() -> Arrivals<T> {
        Arrivals { table: HashTable::new(), places: Vec::new(), oldest: NONE, newest: NONE, free: NONE }
    }
}

impl<T: Copy> Arrivals<T> {
    /// How many there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// The one that came first.
    pub(super) fn oldest(&self) -> Option<&T> {
        self.places.get(self.oldest as usize).map(|place| &place.value)
    }

    /// All, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.table.iter().map(|at| &self.places[*at as usize].value)
    }

    /// Takes one in, as the newest. Gives the one that it takes the place of, if its id was there.
    #[inline]
    pub(super) fn insert(&mut self, id: u64, value: T) -> Option<T> {
        let Arrivals { table, places, free, .. } = self;
        match table.entry(id, |at| places[*at as usize].id == id, |at| places[*at as usize].id) {
            Entry::Occupied(known) => {
                let at = *known.get();
                self.unlink(at);
                self.link(at);
                Some(std::mem::replace(&mut self.places[at as usize].value, value))
            }
            Entry::Vacant(vacant) => {
                // Less than 2^32: the configuration allows four million.
                let end = places.len() as u32;
                let at = match places.get_mut(*free as usize) {
                    Some(place) => {
                        (place.id, place.value) = (id, value);
                        std::mem::replace(free, place.behind)
                    }
                    None => {
                        places.push(Place { id, value, before: NONE, behind: NONE });
                        end
                    }
                };
                vacant.insert(at);
                self.link(at);
                None
            }
        }
    }

    /// Takes one out.
    #[inline(always)] // into its one hot caller
    pub(super) fn remove(&mut self, id: u64) -> Option<T> {
        let Arrivals { table, places, .. } = self;
        let entry = table.find_entry(id, |at| places[*at as usize].id == id).ok()?;
        let (at, _) = entry.remove();
        Some(self.release(at))
    }

    /// One that stays where it is.
    #[inline]
    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        let Arrivals { table, places, .. } = self;
        let at = *table.find(id, |at| places[*at as usize].id == id)?;
        Some(&mut places[at as usize].value)
    }

    /// Takes out the one that came first.
    pub(super) fn pop_oldest(&mut self) -> Option<T> {
        let id = self.places.get(self.oldest as usize)?.id;
        self.remove(id)
    }

    /// Frees a place that is not in the table any more.
    #[inline]
    fn release(&mut self, at: u32) -> T {
        self.unlink(at);
        let place = &mut self.places[at as usize];
        place.behind = std::mem::replace(&mut self.free, at);
        place.value
    }

    /// Puts a place behind all others.
    #[inline]
    fn link(&mut self, at: u32) {
        let newest = std::mem::replace(&mut self.newest, at);
        match self.places.get_mut(newest as usize) {
            Some(place) => place.behind = at,
            None => self.oldest = at,
        }
        let place = &mut self.places[at as usize];
        (place.before, place.behind) = (newest, NONE);
    }

    #[inline]
    fn unlink(&mut self, at: u32) {
        let Place { before, behind, .. } = self.places[at as usize];
        match self.places.get_mut(before as usize) {
            Some(place) => place.behind = behind,
            None => self.oldest = behind,
        }
        match self.places.get_mut(behind as usize) {
            Some(place) => place.before = before,
            None => self.newest = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a list that is searched from end to end. Few ids, in the low or the high bits, so that some come again.
        #[test]
        fn they_are_found_by_id_and_leave_in_order(
            steps in prop::collection::vec((0..4u8, 0..24u64, any::<bool>()), 0..400)
        ) {
            let mut arrivals = Arrivals::default();
            let mut list: VecDeque<(u64, usize)> = VecDeque::new();
            for (number, (step, id, is_high)) in steps.into_iter().enumerate() {
                let id = if is_high { id << 58 } else { id };
                let known = list.iter().position(|(known, _)| *known == id);
                match step {
                    0 | 1 => {
                        let before = known.and_then(|at| list.remove(at));
                        list.push_back((id, number));
                        prop_assert_eq!(arrivals.insert(id, number), before.map(|(_, value)| value));
                    }
                    2 => {
                        let gone = known.and_then(|at| list.remove(at));
                        prop_assert_eq!(arrivals.remove(id), gone.map(|(_, value)| value));
                    }
                    _ => prop_assert_eq!(arrivals.pop_oldest(), list.pop_front().map(|(_, value)| value)),
                }
                prop_assert_eq!(arrivals.len(), list.len());
                prop_assert_eq!(arrivals.oldest(), list.front().map(|(_, value)| value));
            }
            prop_assert!(arrivals.places.len() <= 48, "places are used again");
        }
    }
}
