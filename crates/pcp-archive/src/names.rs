//! The name space of an archive, built from the names in the descriptors (`docs/pcp/archive.md` 9.1).
//!
//! Children are listed last inserted first, at every level, as PCP does.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};

use rustc_hash::FxHashMap;

use pcp_model::{PmError, Pmid};

/// The tree of names. Cost: one entry for each node; looking up a name is one hash look-up a component.
#[derive(Debug)]
pub(super) struct Names {
    nodes: Vec<Node>,
    /// The newest child for the hash of parent and component.
    by_hash: FxHashMap<u64, u32>,
    hasher: RandomState,
    by_pmid: FxHashMap<Pmid, Vec<u32>>,
}

#[derive(Debug)]
struct Node {
    parent: u32,
    /// The next older node with the same hash, or [`ROOT`].
    next: u32,
    /// The last component.
    name: Box<str>,
    /// In the order they came.
    children: Vec<u32>,
    pmid: Option<Pmid>,
}

const ROOT: u32 = 0;

impl Default for Names {
    fn default() -> Names {
        let root = Node { parent: ROOT, next: ROOT, name: Box::default(), children: Vec::new(), pmid: None };
        let (by_hash, by_pmid) = (FxHashMap::default(), FxHashMap::default());
        Names { nodes: vec![root], by_hash, hasher: RandomState::new(), by_pmid }
    }
}

impl Names {
    /// Adds a name. One that is taken stays with its metric.
    pub(crate) fn insert(&mut self, name: &str, pmid: Pmid) {
        let leaf = self.make(name);
        let node = &mut self.nodes[leaf as usize];
        if node.pmid.is_none() && leaf != ROOT {
            node.pmid = Some(pmid);
            self.by_pmid.entry(pmid).or_default().push(leaf);
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
        let mut leaves: Vec<u32> = leaves.clone();
        if leaves.len() > 1 {
            leaves.sort_by_cached_key(|leaf| self.path(*leaf));
        }
        leaves.iter().map(|leaf| self.name(*leaf)).collect()
    }

    /// The first name that a metric got, for messages: no more than `most` bytes of it, and `...` where it is longer.
    ///
    /// Cost: a step for each of its components, and memory for those that are shown.
    pub(crate) fn short_name(&self, pmid: Pmid, most: usize) -> Option<String> {
        let mut at = *self.by_pmid.get(&pmid)?.first()?;
        // The last ones passed on the way up are the first ones of the name. Each takes a byte at least.
        let mut parts: VecDeque<&str> = VecDeque::new();
        while at != ROOT {
            let node = &self.nodes[at as usize];
            if parts.len() > most {
                parts.pop_back();
            }
            parts.push_front(&node.name);
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
                (&*child.name, child.children.is_empty())
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
        let mut at = *self.by_hash.get(&self.hasher.hash_one((parent, component)))?;
        while at != ROOT {
            let node = &self.nodes[at as usize];
            if node.parent == parent && *node.name == *component {
                return Some(at);
            }
            at = node.next;
        }
        None
    }

    /// The node of a name, made with those above it if need be.
    fn make(&mut self, name: &str) -> u32 {
        let mut parent = ROOT;
        for component in name.split('.').filter(|_| !name.is_empty()) {
            parent = match self.child(parent, component) {
                Some(found) => found,
                None => {
                    let id = self.nodes.len() as u32;
                    let next = self.by_hash.insert(self.hasher.hash_one((parent, component)), id);
                    let next = next.unwrap_or(ROOT);
                    let (name, children) = (component.into(), Vec::new());
                    self.nodes.push(Node { parent, next, name, children, pmid: None });
                    self.nodes[parent as usize].children.push(id);
                    id
                }
            };
        }
        parent
    }

    fn name(&self, mut at: u32) -> String {
        let mut parts = Vec::new();
        while at != ROOT {
            let node = &self.nodes[at as usize];
            parts.push(&*node.name);
            at = node.parent;
        }
        parts.reverse();
        parts.join(".")
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
