//! A set of dotted names with their PMIDs, looked up both ways.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use pcp_model::Pmid;
use rustc_hash::FxHashMap;

/// What a dotted name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// A metric.
    Leaf(Pmid),
    /// A node with names below it (or none, if its block is empty).
    NonLeaf,
    /// The root of a dynamic subtree.
    Dynamic,
}

/// A name space: names sorted by their text, so that listing what is below a node reads one range.
///
/// Cost: looking a name up or listing a node's children is O(log n) plus what is listed below the node.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameTree {
    /// Leaves and dynamic roots.
    leaves: BTreeMap<String, Leaf>,
    /// Nodes that have a block of their own; other nodes exist by the names below them.
    nodes: BTreeSet<String>,
    by_local: FxHashMap<u32, Vec<String>>,
}

#[derive(Clone, Copy, Debug)]
struct Leaf {
    pmid: Pmid,
    dynamic: bool,
}

impl NameTree {
    /// Adds a metric. A name that is there already keeps its first PMID.
    pub(crate) fn add(&mut self, name: &str, pmid: Pmid) {
        if !self.leaves.contains_key(name) {
            self.leaves.insert(name.to_owned(), Leaf { pmid, dynamic: false });
            self.by_local.entry(pmid.local()).or_default().push(name.to_owned());
        }
    }

    pub(super) fn add_dynamic(&mut self, name: &str) {
        self.leaves.insert(name.to_owned(), Leaf { pmid: Pmid::NULL, dynamic: true });
    }

    pub(super) fn add_node(&mut self, name: &str) {
        self.nodes.insert(name.to_owned());
    }

    /// Gives dynamic roots the placeholder PMID `511.domain.0` they have in listings.
    pub(super) fn name_dynamic_roots(&mut self, domain: u16) {
        for leaf in self.leaves.values_mut().filter(|leaf| leaf.dynamic) {
            leaf.pmid = Pmid::new(Pmid::DYNAMIC_DOMAIN, domain, 0);
        }
    }

    /// What `name` stands for.
    pub(crate) fn get(&self, name: &str) -> Option<Name> {
        match self.leaves.get(name) {
            Some(Leaf { dynamic: true, .. }) => Some(Name::Dynamic),
            Some(leaf) => Some(Name::Leaf(leaf.pmid)),
            None if name.is_empty() || self.nodes.contains(name) => Some(Name::NonLeaf),
            None => self.below(name).next().map(|_| Name::NonLeaf),
        }
    }

    /// All leaves at or below `name` with their PMIDs, sorted by name. The empty name is the whole tree.
    pub(crate) fn traverse<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, Pmid)> {
        let itself = self.leaves.get_key_value(name).into_iter();
        itself.chain(self.below(name)).map(|(name, leaf)| (name.as_str(), leaf.pmid))
    }

    /// The last components of the names right below `name`, sorted, each with whether it is a leaf (dynamic
    /// roots count as non-leaves).
    pub(crate) fn children(&self, name: &str) -> Vec<(&str, bool)> {
        let start = if name.is_empty() { 0 } else { name.len() + 1 };
        let leaves = self.below(name).map(|(name, leaf)| (name, leaf.dynamic));
        let nodes = self.nodes_below(name).map(|name| (name, true));
        let mut children: BTreeMap<&str, bool> = BTreeMap::new();
        for (name, inner) in leaves.chain(nodes) {
            let rest = &name[start..];
            let (component, is_leaf) = match rest.split_once('.') {
                Some((component, _)) => (component, false),
                None => (rest, !inner),
            };
            children.entry(component).and_modify(|leaf| *leaf &= is_leaf).or_insert(is_leaf);
        }
        children.into_iter().collect()
    }

    /// All names of a PMID, whose domain does not matter; empty if it has none.
    pub(crate) fn names_of(&self, pmid: Pmid) -> &[String] {
        self.by_local.get(&pmid.local()).map_or(&[], Vec::as_slice)
    }

    /// The roots of dynamic subtrees.
    pub(crate) fn dynamic_roots(&self) -> impl Iterator<Item = &str> {
        self.leaves.iter().filter(|(_, leaf)| leaf.dynamic).map(|(name, _)| name.as_str())
    }

    /// The metrics, without dynamic roots.
    pub(crate) fn metrics(&self) -> impl Iterator<Item = (&str, Pmid)> {
        self.leaves.iter().filter(|(_, leaf)| !leaf.dynamic).map(|(name, leaf)| (name.as_str(), leaf.pmid))
    }

    /// Leaves strictly below `name`.
    fn below<'a>(&'a self, name: &str) -> impl Iterator<Item = (&'a String, &'a Leaf)> {
        let prefix = prefix(name);
        let from = Bound::Included(prefix.clone());
        self.leaves
            .range::<String, _>((from, Bound::Unbounded))
            .take_while(move |(n, _)| n.starts_with(&prefix))
    }

    fn nodes_below<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a String> {
        let prefix = prefix(name);
        let from = Bound::Included(prefix.clone());
        self.nodes
            .range::<String, _>((from, Bound::Unbounded))
            .take_while(move |n| n.starts_with(&prefix))
            .filter(|n| !n.is_empty())
    }
}

fn prefix(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!("{name}.") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> NameTree {
        let mut tree = NameTree::default();
        for (name, item) in [("a.b.c", 1), ("a.b0", 2), ("a.b.d", 3), ("ab", 4), ("z.same", 1)] {
            tree.add(name, Pmid::new(9, 0, item));
        }
        tree.add_node("a.empty");
        tree.add_dynamic("z.dyn");
        tree.name_dynamic_roots(9);
        tree
    }

    #[test]
    fn names_are_leaves_nodes_or_unknown() {
        let tree = tree();
        assert_eq!(tree.get("a.b.c"), Some(Name::Leaf(Pmid::new(9, 0, 1))));
        for node in ["", "a", "a.b", "a.empty", "z"] {
            assert_eq!(tree.get(node), Some(Name::NonLeaf), "{node:?}");
        }
        assert_eq!(tree.get("z.dyn"), Some(Name::Dynamic));
        for unknown in ["a.", "a.b.", "b", "a.b.c.d", ".", "z.dyn.x"] {
            assert_eq!(tree.get(unknown), None, "{unknown:?}");
        }
    }

    #[test]
    fn children_are_last_components() {
        let tree = tree();
        assert_eq!(tree.children(""), [("a", false), ("ab", true), ("z", false)]);
        assert_eq!(tree.children("a"), [("b", false), ("b0", true), ("empty", false)]);
        assert_eq!(tree.children("z"), [("dyn", false), ("same", true)]);
        assert!(tree.children("ab").is_empty());
    }

    #[test]
    fn traversal_and_reverse_lookup() {
        let tree = tree();
        let names = |at: &str| tree.traverse(at).map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(names("a.b"), ["a.b.c", "a.b.d"]);
        assert_eq!(names("a.b.c"), ["a.b.c"]);
        assert_eq!(names("").len(), 6);
        assert_eq!(tree.traverse("z").next(), Some(("z.dyn", Pmid::new(511, 9, 0))));
        assert_eq!(tree.names_of(Pmid::new(3, 0, 1)), ["a.b.c", "z.same"]);
        assert!(tree.names_of(Pmid::new(9, 7, 7)).is_empty());
        assert_eq!(tree.dynamic_roots().collect::<Vec<_>>(), ["z.dyn"]);
    }
}
