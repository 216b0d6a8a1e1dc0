//! The name space of an archive, built from the names in the descriptors (`docs/pcp/archive.md` 9.1).
//!
//! Children are listed last inserted first, at every level, as PCP does.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, RandomState};

use rustc_hash::FxHashMap;

use pcp_model::{PmError, Pmid};

/// The tree of names. Cost: one entry for each node, and no allocation of its own; looking up a name is one hash look-up a component, adding one is
/// one look-up in all where the name before had the same parent.
#[derive(Debug)]
pub(super) struct Names {
    nodes: Vec<Node>,
    /// The last components of all nodes, one behind the other.
    text: String,
    /// The newest child for the hash of parent and component.
    by_hash: FxHashMap<u64, u32>,
    hasher: RandomState,
    by_pmid: FxHashMap<Pmid, Leaves>,
    /// The parent of the name that was added last, by its name.
    parent: (String, u32),
}

#[derive(Debug)]
struct Node {
    parent: u32,
    /// The next older node with the same hash, or [`ROOT`].
    next: u32,
    /// Where its last component is in the text.
    name: (usize, usize),
    /// In the order they came.
    children: Vec<u32>,
    pmid: Option<Pmid>,
    /// The next name of the same metric, or [`ROOT`].
    also: u32,
}

/// The first and the last name of a metric, in the order they came.
#[derive(Clone, Copy, Debug)]
struct Leaves {
    first: u32,
    last: u32,
}

const ROOT: u32 = 0;

impl Default for Names {
    fn default() -> Names {
        let root =
            Node { parent: ROOT, next: ROOT, name: (0, 0), children: Vec::new(), pmid: None, also: ROOT };
        Names {
            nodes: vec![root],
            text: String::new(),
            by_hash: FxHashMap::default(),
            hasher: RandomState::new(),
            by_pmid: FxHashMap::default(),
            parent: (String::new(), ROOT),
        }
    }
}

impl Names {
    /// Adds a name. One that is taken stays with its metric.
    pub(crate) fn insert(&mut self, name: &str, pmid: Pmid) {
        let leaf = self.make(name);
        let node = &mut self.nodes[leaf as usize];
        if node.pmid.is_some() || leaf == ROOT {
            return;
        }
        node.pmid = Some(pmid);
        match self.by_pmid.entry(pmid) {
            Entry::Vacant(none) => drop(none.insert(Leaves { first: leaf, last: leaf })),
            Entry::Occupied(mut leaves) => {
                let last = std::mem::replace(&mut leaves.get_mut().last, leaf);
                self.nodes[last as usize].also = leaf;
            }
        }
    }

    /// The metric of a name.
    ///
    /// # Errors
    /// [`PmError::NAME`]; [`PmError::NONLEAF`] where there are names below.
    pub(crate) fn lookup(&self, name: &str) -> Result<Pmid, PmError> {
        let node = &self.nodes[self.node(name)? as usize];
        match node.pmid {
            Some(pmid) if node.children.is_empty() => Ok(pmid),
            _ => Err(PmError::NONLEAF),
        }
    }

    /// All names of a metric, in the order of `pmNameAll(3)`.
    pub(crate) fn names_of(&self, pmid: Pmid) -> Vec<String> {
        let Some(leaves) = self.by_pmid.get(&pmid) else { return Vec::new() };
        let also = |leaf: &u32| Some(self.nodes[*leaf as usize].also).filter(|also| *also != ROOT);
        let mut leaves: Vec<u32> = std::iter::successors(Some(leaves.first), also).collect();
        if leaves.len() > 1 {
            leaves.sort_by_cached_key(|leaf| self.path(*leaf));
        }
        leaves.iter().map(|leaf| self.name(*leaf)).collect()
    }

    /// The first name that a metric got, for messages: no more than `most` bytes of it, and `...` where it is longer.
    ///
    /// Cost: a step for each of its components, and memory for those that are shown.
    pub(crate) fn short_name(&self, pmid: Pmid, most: usize) -> Option<String> {
        let mut at = self.by_pmid.get(&pmid)?.first;
        // The last ones passed on the way up are the first ones of the name. Each takes a byte at least.
        let mut parts: VecDeque<&str> = VecDeque::new();
        while at != ROOT {
            let node = &self.nodes[at as usize];
            if parts.len() > most {
                parts.pop_back();
            }
            parts.push_front(self.component(node));
            at = node.parent;
        }
        let mut short = String::new();
        for (number, part) in parts.into_iter().enumerate() {
            let dot = if number > 0 { "." } else { "" };
            let room = most - short.len();
            if dot.len() + part.len() > room {
                short.push_str(dot.get(..room.min(dot.len())).unwrap_or_default());
                short.push_str(&part[..part.floor_char_boundary(most - short.len())]);
                short.push_str("...");
                break;
            }
            short.push_str(dot);
            short.push_str(part);
        }
        Some(short)
    }

    /// The children of a node and whether each is a metric.
    ///
    /// # Errors
    /// [`PmError::NAME`]. A metric has no children.
    pub(crate) fn children(&self, name: &str) -> Result<Vec<(&str, bool)>, PmError> {
        let node = self.node(name)?;
        let children = self.nodes[node as usize].children.iter().rev();
        Ok(children
            .map(|child| {
                let child = &self.nodes[*child as usize];
                (self.component(child), child.children.is_empty())
            })
            .collect())
    }

    /// All metrics below a node, or the metric itself.
    ///
    /// # Errors
    /// [`PmError::NAME`].
    pub(crate) fn leaves(&self, name: &str) -> Result<Vec<String>, PmError> {
        let node = self.node(name)?;
        let mut found = Vec::new();
        let mut todo = vec![node];
        while let Some(at) = todo.pop() {
            let node = &self.nodes[at as usize];
            if node.children.is_empty() && node.pmid.is_some() {
                found.push(self.name(at));
            }
            todo.extend(&node.children);
        }
        Ok(found)
    }

    /// The node of a name; of the empty name, the root.
    fn node(&self, name: &str) -> Result<u32, PmError> {
        if name.is_empty() {
            return Ok(ROOT);
        }
        name.split('.').try_fold(ROOT, |at, component| self.child(at, component)).ok_or(PmError::NAME)
    }

    fn child(&self, parent: u32, component: &str) -> Option<u32> {
        self.known(self.hasher.hash_one((parent, component)), parent, component)
    }

    /// The child of this hash.
    fn known(&self, hash: u64, parent: u32, component: &str) -> Option<u32> {
        let mut at = *self.by_hash.get(&hash)?;
        while at != ROOT {
            let node = &self.nodes[at as usize];
            if node.parent == parent && self.component(node) == component {
                return Some(at);
            }
            at = node.next;
        }
        None
    }

    fn component(&self, node: &Node) -> &str {
        self.text.get(node.name.0..node.name.1).unwrap_or_default()
    }

    /// The node of a name, made with those above it if need be.
    fn make(&mut self, name: &str) -> u32 {
        let Some((above, component)) = name.rsplit_once('.') else {
            return if name.is_empty() { ROOT } else { self.make_child(ROOT, name) };
        };
        if self.parent.0 != above || self.parent.1 == ROOT {
            let parent = above.split('.').fold(ROOT, |parent, component| self.make_child(parent, component));
            self.parent.0.clear();
            self.parent.0.push_str(above);
            self.parent.1 = parent;
        }
        self.make_child(self.parent.1, component)
    }

    fn make_child(&mut self, parent: u32, component: &str) -> u32 {
        let hash = self.hasher.hash_one((parent, component));
        if let Some(found) = self.known(hash, parent, component) {
            return found;
        }
        let id = self.nodes.len() as u32;
        let from = self.text.len();
        self.text.push_str(component);
        let name = (from, self.text.len());
        let next = self.by_hash.insert(hash, id).unwrap_or(ROOT);
        self.nodes.push(Node { parent, next, name, children: Vec::new(), pmid: None, also: ROOT });
        self.nodes[parent as usize].children.push(id);
        id
    }

    fn name(&self, leaf: u32) -> String {
        let above = |at: &u32| Some(self.nodes[*at as usize].parent).filter(|parent| *parent != ROOT);
        let components =
            || std::iter::successors(Some(leaf), above).map(|at| self.component(&self.nodes[at as usize]));
        // Taken once: written from the end on.
        let len = components().map(|component| component.len() + 1).sum::<usize>() - 1;
        let (mut name, mut end) = (vec![b'.'; len], len);
        for component in components() {
            let from = end - component.len();
            name[from..end].copy_from_slice(component.as_bytes());
            end = from.saturating_sub(1);
        }
        String::from_utf8(name).unwrap_or_default()
    }

    /// The place among its siblings of each node on the way down. Nodes are numbered as they come.
    fn path(&self, mut at: u32) -> Vec<u32> {
        let mut path = Vec::new();
        while at != ROOT {
            path.push(at);
            at = self.nodes[at as usize].parent;
        }
        path.reverse();
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_that_of_the_library() {
        let mut names = Names::default();
        let (one, two) = (Pmid(1), Pmid(2));
        for name in ["a.x", "a.y", "b.z", "a.b.c"] {
            names.insert(name, one);
        }
        assert_eq!(names.leaves("").unwrap(), ["b.z", "a.b.c", "a.y", "a.x"]);
        assert_eq!(names.names_of(one), ["a.x", "a.y", "a.b.c", "b.z"]);
        assert_eq!(names.children("a").unwrap(), [("b", false), ("y", true), ("x", true)]);
        names.insert("a.x", two);
        assert_eq!(names.lookup("a.x"), Ok(one));
        assert!(names.names_of(two).is_empty());
        names.insert("a.x.sub", two);
        assert_eq!(names.lookup("a.x"), Err(PmError::NONLEAF));
        assert_eq!(names.lookup("a.q"), Err(PmError::NAME));
        assert_eq!(names.leaves("a").unwrap(), ["a.b.c", "a.y", "a.x.sub"]);
    }

    #[test]
    fn of_a_long_name_the_beginning_is_shown() {
        let mut names = Names::default();
        let deep = ["a"; 1000].join(".");
        for (number, name) in ["abc.d", "abcdé.f", "abc.defg", "abcde.f", &deep, "."].into_iter().enumerate()
        {
            names.insert(name, Pmid(number as u32));
        }
        names.insert("first.is.the.other", Pmid(0));
        let short = |number| names.short_name(Pmid(number), 5);
        let shown: Vec<String> = (0..6).filter_map(short).collect();
        assert_eq!(shown, ["abc.d", "abcd...", "abc.d...", "abcde...", "a.a.a...", "."]);
        assert_eq!(short(7), None);
    }

    #[test]
    fn odd_names_do_no_harm() {
        let mut names = Names::default();
        for (number, name) in [".", "..", "a.", ".a", "", "a..b"].into_iter().enumerate() {
            names.insert(name, Pmid(number as u32));
        }
        assert_eq!(names.lookup("a..b"), Ok(Pmid(5)));
        assert_eq!(names.lookup(""), Err(PmError::NONLEAF));
    }
}
