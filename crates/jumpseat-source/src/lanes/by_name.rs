//! Lanes by the names of their sources. Where many sources take turns, each event asks for one: names of services are short, and
//! are kept and compared as words, where they are found, instead of as bytes somewhere else.
//!
//! **Bounds:** a name for each lane.

use std::hash::{Hash, Hasher};

use hashbrown::HashMap;

use super::account::LaneId;
use crate::word::word_at;

/// Longest name that is kept as words, in bytes.
const SHORT: usize = 32;
const WORD: usize = size_of::<u64>();

/// Lanes by name.
#[derive(Debug, Default)]
pub(super) struct ByName {
    short: HashMap<Words, LaneId>,
    long: HashMap<Box<[u8]>, LaneId>,
}

impl ByName {
    #[inline]
    pub(super) fn get(&self, name: &[u8]) -> Option<LaneId> {
        match Words::of(name) {
            Some(words) => self.short.get(&words).copied(),
            None => self.long.get(name).copied(),
        }
    }

    pub(super) fn insert(&mut self, name: &[u8], lane: LaneId) {
        match Words::of(name) {
            Some(words) => self.short.insert(words, lane),
            None => self.long.insert(name.into(), lane),
        };
    }

    pub(super) fn remove(&mut self, name: &[u8]) {
        match Words::of(name) {
            Some(words) => self.short.remove(&words),
            None => self.long.remove(name),
        };
    }
}

/// A short name, with zeros behind it, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Words {
    words: [u64; SHORT / WORD],
    len: u8,
}

impl Words {
    #[inline]
    fn of(name: &[u8]) -> Option<Words> {
        let len = u8::try_from(name.len()).ok().filter(|len| usize::from(*len) <= SHORT)?;
        Some(Words { words: std::array::from_fn(|nth| word_at(name, nth * WORD)), len })
    }
}

impl Hash for Words {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let used = usize::from(self.len).div_ceil(WORD);
        self.words.iter().take(used).for_each(|word| state.write_u64(*word));
        state.write_u8(self.len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_lengths_are_told_apart() {
        let mut lanes = ByName::default();
        let mut names = vec![Vec::new()];
        for len in 1..=2 * SHORT {
            let plain: Vec<u8> = (0..len as u8).map(|n| b'a' + n % 26).collect();
            // One that is different at each place, and one that only ends with a byte that is none.
            names.extend((0..len).map(|at| {
                let mut other = plain.clone();
                other[at] = b'_';
                other
            }));
            names.push([&plain[1..], &[0]].concat());
            names.push(plain);
        }
        names.sort_unstable();
        names.dedup();
        for (number, name) in names.iter().enumerate() {
            assert_eq!(lanes.get(name), None, "{name:?}");
            lanes.insert(name, LaneId(number as u32));
        }
        for (number, name) in names.iter().enumerate() {
            assert_eq!(lanes.get(name), Some(LaneId(number as u32)), "{name:?}");
        }
        for name in &names {
            lanes.remove(name);
            assert_eq!(lanes.get(name), None);
        }
        assert!(lanes.short.is_empty() && lanes.long.is_empty());
    }
}
