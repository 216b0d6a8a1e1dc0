//! What is known of each series of a stream, by the bytes of its attributes.
//!
//! **Cost:** senders tell their series in the same order each time, mostly. So the one behind the one that was found last is looked
//! at first: no hash, and memory in the order in which the processor fetches it anyway. One that comes out of turn is looked up.

use std::hash::BuildHasher;
use std::ops::{Index, IndexMut};

use hashbrown::{DefaultHashBuilder, HashTable};

/// Groups in the order in which they came.
pub(super) struct Groups<G> {
    all: Vec<(Box<[u8]>, G)>,
    /// Where in `all` they are, by their keys.
    places: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// Behind the one that was found last.
    next: usize,
}

impl<G> Default for Groups<G> {
    fn default() -> Groups<G> {
        let (places, hasher) = (HashTable::new(), DefaultHashBuilder::default());
        Groups { all: Vec::new(), places, hasher, next: 0 }
    }
}

impl<G> Groups<G> {
    /// The place of the group with this key, until one is removed.
    #[inline]
    pub(super) fn find(&mut self, key: &[u8]) -> Option<usize> {
        let at = match self.all.get(self.next) {
            Some((known, _)) if **known == *key => self.next,
            _ => self.look_up(key)?,
        };
        self.next = if at + 1 < self.all.len() { at + 1 } else { 0 };
        Some(at)
    }

    /// Adds a group with a key that none has.
    pub(super) fn add(&mut self, key: &[u8], group: G) -> usize {
        let Groups { all, places, hasher, .. } = self;
        let at = all.len();
        all.push((key.into(), group));
        places.insert_unique(hasher.hash_one(key), at as u32, |&at| hasher.hash_one(&*all[at as usize].0));
        self.next = 0;
        at
    }

    /// Removes one; the last one takes its place.
    pub(super) fn remove(&mut self, at: usize) {
        let (last, hasher) = (self.all.len() - 1, &self.hasher);
        let hash = |at: usize| hasher.hash_one(&*self.all[at].0);
        if let Ok(place) = self.places.find_entry(hash(at), |&place| place as usize == at) {
            place.remove();
        }
        if at != last
            && let Some(place) = self.places.find_mut(hash(last), |&place| place as usize == last)
        {
            *place = at as u32;
        }
        self.all.swap_remove(at);
        self.next = 0;
    }

    /// All of them.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut G> {
        self.all.iter_mut().map(|(_, group)| group)
    }

    fn look_up(&self, key: &[u8]) -> Option<usize> {
        let is_it = |&at: &u32| *self.all[at as usize].0 == *key;
        self.places.find(self.hasher.hash_one(key), is_it).map(|&at| at as usize)
    }
}

impl<G> Index<usize> for Groups<G> {
    type Output = G;

    fn index(&self, at: usize) -> &G {
        &self.all[at].1
    }
}

impl<G> IndexMut<usize> for Groups<G> {
    fn index_mut(&mut self, at: usize) -> &mut G {
        &mut self.all[at].1
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// In whatever order they are added, asked for and removed, each key finds its own group, as in a map.
        #[test]
        fn each_key_finds_its_own(steps in prop::collection::vec((0_u8..4, 0_u8..12), 0..200)) {
            let (mut groups, mut known) = (Groups::default(), BTreeMap::new());
            for (number, (what, key)) in steps.into_iter().enumerate() {
                let bytes = vec![key; usize::from(key)];
                let found = groups.find(&bytes);
                prop_assert_eq!(found.map(|at| groups[at]), known.get(&key).copied());
                match found {
                    None => {
                        let at = groups.add(&bytes, number);
                        prop_assert_eq!(groups[at], number);
                        known.insert(key, number);
                    }
                    Some(at) if what == 0 => {
                        groups.remove(at);
                        known.remove(&key);
                    }
                    Some(at) if what == 1 => {
                        groups[at] = number;
                        known.insert(key, number);
                    }
                    Some(_) => {}
                }
                let mut all: Vec<usize> = groups.iter_mut().map(|group| *group).collect();
                all.sort_unstable();
                let mut should: Vec<usize> = known.values().copied().collect();
                should.sort_unstable();
                prop_assert_eq!(all, should);
            }
        }
    }
}
