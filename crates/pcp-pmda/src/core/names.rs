//! The name space as clients see it: the static names and those of dynamic subtrees.

use super::{Core, Dynamic};
use crate::pmns::{Name, NameTree};
use pcp_model::{PmError, Pmid};

impl<S> Core<S> {
    /// The PMID of a full name.
    ///
    /// # Errors
    /// `PM_ERR_NONLEAF` for a name with others below it, dynamic roots among them; `PM_ERR_NAME` otherwise.
    pub fn pmid(&mut self, name: &str) -> Result<Pmid, PmError> {
        self.refresh_names();
        let found = match self.names.get(name) {
            None => self
                .below_dynamic(name)
                .and_then(|(subtree, rest)| subtree.names.get(rest).or_else(|| subtree.unlisted.get(rest))),
            found => found,
        };
        match found {
            Some(Name::Leaf(pmid)) => Ok(pmid),
            Some(Name::NonLeaf | Name::Dynamic) => Err(PmError::NONLEAF),
            None => Err(PmError::NAME),
        }
    }

    /// All full names of a metric.
    ///
    /// # Errors
    /// `PM_ERR_PMID` if it has none.
    pub fn names(&mut self, pmid: Pmid) -> Result<Vec<String>, PmError> {
        self.refresh_names();
        if !self.owns(pmid) {
            return Err(PmError::PMID);
        }
        let mut names = self.names.names_of(pmid).to_vec();
        if let Some(subtree) = self.dynamic.get(pmid).and_then(|at| self.subtrees.get(at)) {
            let known = subtree.names.names_of(pmid).iter().chain(subtree.unlisted.names_of(pmid));
            names.extend(known.map(|name| full_name(&subtree.root, name)));
        }
        if names.is_empty() { Err(PmError::PMID) } else { Ok(names) }
    }

    /// The last components of the names right below `name`, each with whether it is a leaf; none below a
    /// leaf. The empty name is the root of everything.
    ///
    /// # Errors
    /// `PM_ERR_NAME` for an unknown name.
    pub fn children(&mut self, name: &str) -> Result<Vec<(String, bool)>, PmError> {
        self.refresh_names();
        let owned = |(name, leaf): (&str, bool)| (name.to_owned(), leaf);
        // Nothing static is below a dynamic root, so one of the two knows all of it.
        if matches!(self.names.get(name), Some(Name::Leaf(_) | Name::NonLeaf)) {
            return Ok(self.names.children(name).into_iter().map(owned).collect());
        }
        let (subtree, rest) = self.below_dynamic(name).ok_or(PmError::NAME)?;
        subtree.names.get(rest).ok_or(PmError::NAME)?;
        Ok(subtree.names.children(rest).into_iter().map(owned).collect())
    }

    /// The full names of all metrics at or below `name`. The empty name is everything.
    ///
    /// # Errors
    /// `PM_ERR_NAME` for an unknown name.
    pub fn traverse(&mut self, name: &str) -> Result<Vec<String>, PmError> {
        self.refresh_names();
        let mut all = Vec::new();
        if matches!(self.names.get(name), Some(Name::Leaf(_) | Name::NonLeaf)) {
            for (leaf, pmid) in self.names.traverse(name) {
                if pmid.domain() == Pmid::DYNAMIC_DOMAIN {
                    let subtree = self.subtrees.iter().find(|subtree| subtree.root == leaf);
                    all.extend(subtree.into_iter().flat_map(|subtree| subtree.below("")));
                } else {
                    all.push(leaf.to_owned());
                }
            }
            return Ok(all);
        }
        let (subtree, rest) = self.below_dynamic(name).ok_or(PmError::NAME)?;
        subtree.names.get(rest).ok_or(PmError::NAME)?;
        all.extend(subtree.below(rest));
        Ok(all)
    }

    /// Whether the PMID is of this agent's domain, and has no bits it should not have.
    pub(super) fn owns(&self, pmid: Pmid) -> bool {
        pmid.0 >> 22 == u32::from(self.domain)
    }

    /// Copies the names of the subtrees whose generation has changed.
    pub(super) fn refresh_names(&mut self) {
        let mut changed = false;
        for dynamic in &mut self.subtrees {
            let generation = dynamic.subtree.generation(&self.state);
            // A number is compared for each request; names are copied when it has changed.
            if dynamic.generation == Some(generation) {
                continue;
            }
            changed = true;
            dynamic.generation = Some(generation);
            let (mut names, mut unlisted) = (NameTree::default(), NameTree::default());
            let (domain, table) = (self.domain, &self.table);
            // The agent chooses names and numbers at run time, so they are judged here: a bad one would otherwise show
            // in every listing, or stand for a metric that another name has.
            let add = |names: &mut NameTree, name: &str, pmid: Pmid| {
                if !is_path(name) || table.contains_key(&pmid.local()) {
                    tracing::warn!(root = dynamic.root, name, %pmid, "unusable dynamic metric left out");
                } else {
                    names.add(name, pmid.with_domain(domain));
                }
            };
            dynamic.subtree.names(&self.state, &mut |name, pmid| add(&mut names, name, pmid));
            dynamic.subtree.unlisted(&self.state, &mut |name, pmid| add(&mut unlisted, name, pmid));
            (dynamic.names, dynamic.unlisted) = (names, unlisted);
        }
        if !changed {
            return;
        }
        self.names_generation += 1;
        self.dynamic.clear();
        for (index, dynamic) in self.subtrees.iter().enumerate() {
            let metrics = dynamic.names.metrics().chain(dynamic.unlisted.metrics());
            metrics.for_each(|(_, pmid)| self.dynamic.insert(pmid, index));
        }
    }

    /// The subtree whose root is `name` or above it, and the name relative to it.
    fn below_dynamic<'n>(&self, name: &'n str) -> Option<(&Dynamic<S>, &'n str)> {
        self.subtrees.iter().find_map(|subtree| {
            let rest = name.strip_prefix(subtree.root.as_str())?;
            if rest.is_empty() { Some((subtree, rest)) } else { Some((subtree, rest.strip_prefix('.')?)) }
        })
    }
}

impl<S> Dynamic<S> {
    /// Full names of the metrics at or below `rest`.
    fn below<'a>(&'a self, rest: &'a str) -> impl Iterator<Item = String> + 'a {
        self.names.traverse(rest).map(|(name, _)| full_name(&self.root, name))
    }
}

fn full_name(root: &str, name: &str) -> String {
    format!("{root}.{name}")
}

/// Whether the name is one or more PMNS names joined with dots.
fn is_path(name: &str) -> bool {
    name.split('.').all(crate::pmns::is_name)
}
