//! What there is of each instance of a domain.
//!
//! Identifiers are given out one after the other from 0 on, so nearly all of what is looked up is found at its number, without a hash:
//! a fetch of all instances, and each span that begins or ends, ask for it.
//!
//! Memory: 8 bytes for each number up to the largest that was ever used, 512 KiB at most.

use rustc_hash::FxHashMap;

use pcp_model::Inst;

/// Instances below it are found at their number.
const NEAR: usize = 1 << 16;

/// A map from instances.
#[derive(Debug)]
pub(crate) struct ByInst<T> {
    near: Vec<Option<Box<T>>>,
    far: FxHashMap<Inst, T>,
}

impl<T> Default for ByInst<T> {
    fn default() -> ByInst<T> {
        ByInst { near: Vec::new(), far: FxHashMap::default() }
    }
}

impl<T> ByInst<T> {
    /// What is of an instance.
    #[inline]
    pub(crate) fn get(&self, inst: Inst) -> Option<&T> {
        match near(inst) {
            Some(at) => self.near.get(at)?.as_deref(),
            None => self.far.get(&inst),
        }
    }

    /// The same, to change it.
    #[inline]
    pub(crate) fn get_mut(&mut self, inst: Inst) -> Option<&mut T> {
        match near(inst) {
            Some(at) => self.near.get_mut(at)?.as_deref_mut(),
            None => self.far.get_mut(&inst),
        }
    }

    /// Puts it in, in place of what was there.
    pub(crate) fn insert(&mut self, inst: Inst, value: T) {
        match near(inst) {
            Some(at) => {
                if self.near.len() <= at {
                    self.near.resize_with(at + 1, || None);
                }
                self.near[at] = Some(Box::new(value));
            }
            None => _ = self.far.insert(inst, value),
        }
    }

    /// Takes it out.
    pub(crate) fn remove(&mut self, inst: Inst) -> Option<T> {
        match near(inst) {
            Some(at) => self.near.get_mut(at)?.take().map(|value| *value),
            None => self.far.remove(&inst),
        }
    }
}

#[inline]
fn near(inst: Inst) -> Option<usize> {
    usize::try_from(inst).ok().filter(|at| *at < NEAR)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map(
            steps in prop::collection::vec((any::<u8>(), 0_usize..5, prop_oneof![0..20, 65_530..65_540, -3..0, Just(i32::MAX)]), 0..60),
        ) {
            let (mut map, mut expected) = (ByInst::default(), HashMap::new());
            for (value, step, inst) in steps {
                match step {
                    0 | 1 => {
                        map.insert(inst, value);
                        expected.insert(inst, value);
                    }
                    2 => prop_assert_eq!(map.remove(inst), expected.remove(&inst)),
                    3 => {
                        let changed = map.get_mut(inst).map(|known| *known ^= value);
                        prop_assert_eq!(changed, expected.get_mut(&inst).map(|known| *known ^= value));
                    }
                    _ => prop_assert_eq!(map.get(inst), expected.get(&inst)),
                }
            }
            prop_assert!(expected.iter().all(|(inst, value)| map.get(*inst) == Some(value)));
        }
    }
}
