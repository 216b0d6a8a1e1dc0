//! The names of instances, remembered for each instance domain.

use pcp_model::{InDom, Inst, Instance};

/// What is known of an instance domain.
#[derive(Debug)]
pub(super) struct InstanceNames {
    pub indom: InDom,
    /// Sorted by instance.
    list: Vec<Instance>,
    /// They have been asked for.
    known: bool,
    /// They have been asked for in this fetch.
    fresh: bool,
}

impl InstanceNames {
    pub(super) fn new(indom: InDom) -> InstanceNames {
        InstanceNames { indom, list: Vec::new(), known: false, fresh: false }
    }

    /// Whether they have been asked for since the last [`InstanceNames::forget`].
    pub(super) fn is_known(&self) -> bool {
        self.known
    }

    /// Whether they have been asked for since the last [`InstanceNames::age`].
    pub(super) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Another fetch begins.
    pub(super) fn age(&mut self) {
        self.fresh = false;
    }

    pub(super) fn set(&mut self, mut instances: Vec<Instance>) {
        // Stable: of two with the same number the first one counts.
        instances.sort_by_key(|instance| instance.id);
        self.list = instances;
        self.known = true;
        self.fresh = true;
    }

    pub(super) fn forget(&mut self) {
        self.list.clear();
        self.known = false;
        self.fresh = false;
    }

    /// A walk through the names in the order of instances.
    pub(super) fn walk(&self) -> NamesWalk<'_> {
        NamesWalk(&self.list)
    }
}

/// The names from an instance on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NamesWalk<'a>(&'a [Instance]);

impl<'a> NamesWalk<'a> {
    /// The name of an instance that is not less than that asked for last.
    pub(super) fn name(&mut self, inst: Inst) -> Option<&'a str> {
        while let [first, rest @ ..] = self.0 {
            if first.id >= inst {
                return (first.id == inst).then_some(&*first.name);
            }
            self.0 = rest;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_ascending_order() {
        let mut names = InstanceNames::new(InDom::new(1, 1));
        let instance = |id, name: &str| Instance { id, name: name.to_owned() };
        names.set(vec![instance(7, "b"), instance(2, "a"), instance(7, "c")]);
        let mut walk = names.walk();
        let found = [1, 2, 2, 5, 7, 9].map(|inst| walk.name(inst));
        assert_eq!(found, [None, Some("a"), Some("a"), None, Some("b"), None]);
    }
}
