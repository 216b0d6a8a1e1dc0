//! Name spaces from files, in place of the source's own (`pmLoadASCIINameSpace(3)`, `PMNS(5)`).

use std::collections::{HashMap, HashSet};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::Result;
use super::provider::{Child, ContextKind, Provider};
use pcp_model::pmns::{Block, Includes, PmnsError, Problem, Target, blocks, join, lines};
use pcp_model::{PmError, Pmid};

/// Whether a metric may have several names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// As many as the file gives it.
    Allowed,
    /// One only.
    Refused,
}

/// Why a name space cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NameSpaceError {
    /// The file cannot be read.
    #[error("cannot open {}: {error}", .file.display())]
    Open {
        /// The file.
        file: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// What it says makes no sense.
    #[error(transparent)]
    Text(#[from] Box<PmnsError>),
}

impl NameSpaceError {
    /// The code of `pmLoadASCIINameSpace(3)`.
    pub fn code(&self) -> PmError {
        match self {
            NameSpaceError::Open { error, .. } => error.into(),
            NameSpaceError::Text(_) => PmError::PMNS,
        }
    }

    /// The lines that `pmLoadASCIINameSpace(3)` prints.
    pub fn report(&self) -> String {
        match self {
            NameSpaceError::Open { file, .. } => {
                format!("Error Parsing ASCII PMNS: Cannot open \"{}\"\n", file.display())
            }
            NameSpaceError::Text(error) => error.report(),
        }
    }
}

/// A whole name space: names of metrics of any agents, in the order of the file.
///
/// Cost: names and identifiers are hash lookups, lists cost what they list.
#[derive(Clone, Debug)]
pub struct NameSpace {
    nodes: Vec<Node>,
    by_name: HashMap<Arc<str>, usize>,
    /// The names of a metric, in the order of the file.
    by_pmid: HashMap<Pmid, Vec<Arc<str>>>,
}

#[derive(Clone, Debug)]
struct Node {
    name: Arc<str>,
    kind: Kind,
    children: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    NonLeaf,
    Leaf(Pmid),
    /// The root of a dynamic subtree, which only its agent knows.
    Dynamic(Pmid),
}

/// The root's place among the nodes.
const ROOT: usize = 0;

impl NameSpace {
    /// Reads a file. What it includes is looked for by its name as it stands, beside the file, and in `include`
    /// (`$PCP_VAR_DIR/pmns` in PCP).
    ///
    /// # Errors
    /// The first thing wrong.
    pub fn load(
        file: &Path,
        duplicates: Duplicates,
        include: &[PathBuf],
    ) -> std::result::Result<NameSpace, NameSpaceError> {
        let bytes =
            std::fs::read(file).map_err(|error| NameSpaceError::Open { file: file.to_owned(), error })?;
        let beside = file.parent().map(Path::to_owned);
        let dirs = beside.into_iter().chain(include.iter().cloned()).collect();
        let text = String::from_utf8_lossy(&bytes);
        let read = NameSpace::read(&file.to_string_lossy(), &text, duplicates, &Includes::From(dirs));
        read.map_err(|error| NameSpaceError::Text(Box::new(error)))
    }

    fn read(
        file: &str,
        text: &str,
        duplicates: Duplicates,
        includes: &Includes,
    ) -> std::result::Result<NameSpace, PmnsError> {
        let lines = lines(file, text, &[], includes)?;
        let blocks = blocks(&lines)?;
        let names = NameSpace::connect(blocks)?;
        match names.twice().filter(|_| duplicates == Duplicates::Refused) {
            Some(problem) => Err(PmnsError::at_line(file, 0, problem)),
            None => Ok(names),
        }
    }

    /// Makes the tree out of the blocks, each of which must be reachable, in depth-first order.
    fn connect(blocks: Vec<Block<'_>>) -> std::result::Result<NameSpace, PmnsError> {
        let bad =
            |block: &Block<'_>, problem| PmnsError::at_line(&block.line.file, block.line.number, problem);
        let mut by_path: HashMap<&str, Block<'_>> = HashMap::with_capacity(blocks.len());
        // Of several for a path the first counts; the others are not connected to anything.
        let mut disconnected = Vec::new();
        let mut root_twice = None;
        for block in blocks {
            match by_path.contains_key(block.path) {
                true if block.path == "root" => root_twice = Some(bad(&block, Problem::TwoRoots)),
                true => disconnected.push(bad(&block, Problem::Disconnected(block.path.to_owned()))),
                false => drop(by_path.insert(block.path, block)),
            }
        }
        if let Some(error) = root_twice {
            return Err(error);
        }
        let root = by_path.remove("root").ok_or_else(|| PmnsError::at_line("", 0, Problem::NoRoot))?;
        let mut names = NameSpace { nodes: Vec::new(), by_name: HashMap::new(), by_pmid: HashMap::new() };
        names.nodes.push(Node { name: "".into(), kind: Kind::NonLeaf, children: Vec::new() });
        // Depth first, with a stack of its own: how deep names are is up to the file.
        let mut open = vec![(ROOT, root.entries.into_iter())];
        while let Some((parent, entries)) = open.last_mut() {
            let Some(entry) = entries.next() else {
                open.pop();
                continue;
            };
            let parent = *parent;
            let path = names.nodes.get(parent).map_or("", |node| &node.name);
            let name = join(path, entry.name);
            let kind = match entry.target {
                Target::NonLeaf => Kind::NonLeaf,
                Target::Leaf(pmid) => Kind::Leaf(pmid),
                Target::Dynamic { domain } => Kind::Dynamic(Pmid::new(Pmid::DYNAMIC_DOMAIN, domain, 0)),
            };
            if kind == Kind::NonLeaf {
                let block = by_path.remove(name.as_str()).ok_or_else(|| {
                    let place = entry.line;
                    PmnsError::at_line(&place.file, place.number, Problem::Undefined(name.clone()))
                })?;
                open.push((names.nodes.len(), block.entries.into_iter()));
            }
            names.add(parent, name.into(), kind);
        }
        // What is left has no entry that leads to it. The earliest is told, as whoever reads the file meets it first.
        let rest = by_path.values().map(|block| bad(block, Problem::Disconnected(block.path.to_owned())));
        match rest.chain(disconnected).min_by_key(|error| error.line) {
            Some(error) => Err(error),
            None => Ok(names),
        }
    }

    fn add(&mut self, parent: usize, name: Arc<str>, kind: Kind) {
        let at = self.nodes.len();
        if let Kind::Leaf(pmid) = kind {
            self.by_pmid.entry(pmid).or_default().push(name.clone());
        }
        self.by_name.insert(name.clone(), at);
        self.nodes.push(Node { name, kind, children: Vec::new() });
        if let Some(parent) = self.nodes.get_mut(parent) {
            parent.children.push(at);
        }
    }

    /// The first name of a metric that has one already, in the order of the file.
    fn twice(&self) -> Option<Problem> {
        let mut seen: HashMap<Pmid, &str> = HashMap::new();
        self.nodes.iter().find_map(|node| {
            let Kind::Leaf(pmid) = node.kind else { return None };
            let first = seen.insert(pmid, &node.name)?;
            Some(Problem::DuplicatePmid { pmid, first: first.to_owned(), name: node.name.to_string() })
        })
    }

    /// Leaves out metrics, and roots of dynamic subtrees.
    fn retain(&mut self, mut keep: impl FnMut(Pmid) -> bool) {
        let kept: Vec<bool> = self
            .nodes
            .iter()
            .map(|node| match node.kind {
                Kind::NonLeaf => true,
                Kind::Leaf(pmid) | Kind::Dynamic(pmid) => keep(pmid),
            })
            .collect();
        let is_kept = |at: &usize| kept.get(*at).copied().unwrap_or(false);
        self.by_name.retain(|_, at| is_kept(at));
        for node in &mut self.nodes {
            node.children.retain(is_kept);
        }
        let by_name = &self.by_name;
        self.by_pmid.values_mut().for_each(|names| names.retain(|name| by_name.contains_key(name)));
    }

    fn node(&self, name: &str) -> Option<&Node> {
        let at = if name.is_empty() { ROOT } else { *self.by_name.get(name)? };
        self.nodes.get(at)
    }

    /// The metric of a name. All names below the root of a dynamic subtree stand for that root, as in libpcp.
    ///
    /// # Errors
    /// `PM_ERR_NAME`, `PM_ERR_NONLEAF`.
    pub fn pmid(&self, name: &str) -> std::result::Result<Pmid, PmError> {
        let above = name.match_indices('.').map(|(at, _)| &name[..at]);
        match self.node(name).map(|node| node.kind) {
            Some(Kind::Leaf(pmid) | Kind::Dynamic(pmid)) => Ok(pmid),
            Some(Kind::NonLeaf) if !name.is_empty() => Err(PmError::NONLEAF),
            // Names below a dynamic root are only its agent's to know: the root stands for all of them.
            _ => above
                .filter_map(|name| self.node(name))
                .find_map(|node| match node.kind {
                    Kind::Dynamic(pmid) => Some(pmid),
                    _ => None,
                })
                .ok_or(PmError::NAME),
        }
    }

    /// All names of a metric, the last of the file first, as PCP has them.
    pub fn names_of(&self, pmid: Pmid) -> impl Iterator<Item = &str> {
        self.by_pmid.get(&pmid).into_iter().flatten().rev().map(|name| &**name)
    }

    /// The nodes right below a name, the root's for an empty one; none below a metric.
    ///
    /// # Errors
    /// `PM_ERR_NAME`.
    pub fn children(&self, name: &str) -> std::result::Result<Vec<Child>, PmError> {
        let node = self.node(name).ok_or(PmError::NAME)?;
        let child = |node: &Node| Child {
            name: node.name.rsplit('.').next().unwrap_or_default().to_owned(),
            leaf: matches!(node.kind, Kind::Leaf(_)),
        };
        Ok(node.children.iter().filter_map(|&at| self.nodes.get(at)).map(child).collect())
    }

    /// The names of all metrics at or below a name, all for an empty one, in the order of the file. Roots of dynamic
    /// subtrees are among them.
    ///
    /// # Errors
    /// `PM_ERR_NAME`, also for a node that has no metrics below it, as libpcp has it.
    pub fn traverse(&self, name: &str) -> std::result::Result<Vec<String>, PmError> {
        let node = self.node(name).ok_or(PmError::NAME)?;
        let mut open = vec![node];
        let mut found = Vec::new();
        while let Some(node) = open.pop() {
            if node.kind != Kind::NonLeaf {
                found.push(node.name.to_string());
            }
            open.extend(node.children.iter().rev().filter_map(|&at| self.nodes.get(at)));
        }
        if found.is_empty() && !name.is_empty() { Err(PmError::NAME) } else { Ok(found) }
    }
}

/// A provider, perhaps under the names of a name space of the context's own: then names come from there, and
/// everything else from the provider, to which this dereferences.
pub(super) struct NamedProvider {
    provider: Box<dyn Provider>,
    names: Option<Arc<NameSpace>>,
}

impl NamedProvider {
    pub(crate) fn new(provider: Box<dyn Provider>) -> NamedProvider {
        NamedProvider { provider, names: None }
    }

    pub(crate) fn with_names(self, names: Arc<NameSpace>) -> NamedProvider {
        NamedProvider { names: Some(names), ..self }
    }

    /// As [`Provider::lookup_names`].
    pub(crate) fn lookup_names(&mut self, names: &[&str]) -> Result<Vec<Option<Pmid>>> {
        match (&self.names, names) {
            (None, names) => self.provider.lookup_names(names),
            (Some(_), []) => Err(PmError::TOOSMALL.into()),
            // Of a single name it is told why it is none.
            (Some(own), [name]) => Ok(vec![Some(own.pmid(name)?)]),
            (Some(own), names) => Ok(names.iter().map(|name| own.pmid(name).ok()).collect()),
        }
    }

    /// As [`Provider::lookup_each`].
    pub(crate) fn lookup_each(&mut self, names: &[&str]) -> Result<Vec<std::result::Result<Pmid, PmError>>> {
        match &self.names {
            None => self.provider.lookup_each(names),
            Some(own) => Ok(names.iter().map(|name| own.pmid(name)).collect()),
        }
    }

    /// As [`Provider::names_of`].
    pub(crate) fn names_of(&mut self, pmid: Pmid) -> Result<Vec<String>> {
        let Some(own) = &self.names else { return self.provider.names_of(pmid) };
        let names: Vec<String> = own.names_of(pmid).map(str::to_owned).collect();
        if names.is_empty() { Err(PmError::PMID.into()) } else { Ok(names) }
    }

    /// As [`Provider::children`].
    pub(crate) fn children(&mut self, name: &str) -> Result<Vec<Child>> {
        match &self.names {
            Some(own) => Ok(own.children(name)?),
            None => self.provider.children(name),
        }
    }

    /// As [`Provider::traverse`].
    pub(crate) fn traverse(&mut self, name: &str) -> Result<Vec<String>> {
        match &self.names {
            Some(own) => Ok(own.traverse(name)?),
            None => self.provider.traverse(name),
        }
    }

    /// As [`Provider::traverse_each`].
    pub(crate) fn traverse_each(
        &mut self,
        names: &[&str],
    ) -> Result<Vec<std::result::Result<Vec<String>, PmError>>> {
        match &self.names {
            Some(own) => Ok(names.iter().map(|name| own.traverse(name)).collect()),
            None => self.provider.traverse_each(names),
        }
    }

    /// Leaves names of the context's own out that an archive has no metrics for.
    pub(crate) fn trim_names(&mut self) -> Result<()> {
        let Some(own) = &mut self.names else { return Ok(()) };
        if self.provider.kind() != ContextKind::Archive {
            return Ok(());
        }
        let pmids: Vec<Pmid> = own.by_pmid.keys().copied().collect();
        let descs = self.provider.descs(&pmids)?;
        let recorded: HashSet<Pmid> = descs.into_iter().flatten().map(|desc| desc.pmid).collect();
        Arc::make_mut(own).retain(|pmid| recorded.contains(&pmid));
        Ok(())
    }
}

impl Deref for NamedProvider {
    type Target = dyn Provider;

    fn deref(&self) -> &(dyn Provider + 'static) {
        &*self.provider
    }
}

impl DerefMut for NamedProvider {
    fn deref_mut(&mut self) -> &mut (dyn Provider + 'static) {
        &mut *self.provider
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> std::result::Result<NameSpace, Problem> {
        NameSpace::read("f", text, Duplicates::Allowed, &Includes::Refused).map_err(|error| error.problem)
    }

    const WHOLE: &str = "root { zz mid 29:0:11 aa dup 29:0:10 }\nzz { x 29:0:10 b 29:0:6 }\naa { dyn 29:*:* sub }\naa.sub { }";

    #[test]
    fn names_are_in_the_order_of_the_file() {
        let names = read(WHOLE).unwrap();
        assert_eq!(names.traverse("").unwrap(), ["zz.x", "zz.b", "mid", "aa.dyn", "dup"]);
        assert_eq!(names.traverse("zz").unwrap(), ["zz.x", "zz.b"]);
        assert_eq!(names.traverse("mid").unwrap(), ["mid"]);
        let children = |name| names.children(name).unwrap().into_iter().map(|c| (c.name, c.leaf));
        let child = |name: &str, leaf| (name.to_owned(), leaf);
        assert!(children("aa").eq([child("dyn", false), child("sub", false)]));
        assert!(children("zz").eq([child("x", true), child("b", true)]));
        assert_eq!(children("mid").count() + children("aa.sub").count(), 0);
        assert!(names.names_of(Pmid::new(29, 0, 10)).eq(["dup", "zz.x"]));
    }

    #[test]
    fn names_that_are_left_out_are_gone() {
        let mut names = read(WHOLE).unwrap();
        let ten = Pmid::new(29, 0, 10);
        names.retain(|pmid| pmid == ten);
        assert_eq!(names.traverse("").unwrap(), ["zz.x", "dup"]);
        assert_eq!(names.children("zz").unwrap().len(), 1);
        for gone in ["mid", "zz.b", "aa.dyn", "aa.dyn.x"] {
            assert_eq!(names.pmid(gone), Err(PmError::NAME), "{gone}");
        }
        assert!(names.names_of(ten).eq(["dup", "zz.x"]));
        assert_eq!(names.names_of(Pmid::new(29, 0, 11)).count(), 0);
    }

    #[test]
    fn names_are_metrics_nodes_or_unknown() {
        let names = read(WHOLE).unwrap();
        assert_eq!(names.pmid("zz.b"), Ok(Pmid::new(29, 0, 6)));
        assert_eq!(names.pmid("aa.dyn"), Ok(Pmid::new(511, 29, 0)));
        assert_eq!(names.pmid("aa.dyn.x.y"), Ok(Pmid::new(511, 29, 0)));
        assert_eq!(names.pmid("aa"), Err(PmError::NONLEAF));
        for unknown in ["", "a", "aa.", "zz.b.x", "aa.sub.x", ".", "aa..dyn"] {
            assert_eq!(names.pmid(unknown), Err(PmError::NAME), "{unknown:?}");
        }
        assert_eq!(names.traverse("aa.").unwrap_err(), PmError::NAME);
        assert_eq!(names.children("aa.dyn.x").unwrap_err(), PmError::NAME);
    }

    #[test]
    fn what_is_not_whole_is_refused() {
        let undefined = |name: &str| Problem::Undefined(name.to_owned());
        let disconnected = |name: &str| Problem::Disconnected(name.to_owned());
        for (text, problem) in [
            ("", Problem::NoRoot),
            ("a { }", Problem::NoRoot),
            ("root { }\nroot { }", Problem::TwoRoots),
            ("root { a b }\na { x }", undefined("a.x")),
            ("root { a }\na { }\na { }", disconnected("a")),
            ("root { }\nb { }\na { }", disconnected("b")),
            ("root { a 1:*:* }\na { x 1:0:1 }", disconnected("a")),
        ] {
            assert_eq!(read(text).unwrap_err(), problem, "{text}");
        }
        let once = NameSpace::read("f", WHOLE, Duplicates::Refused, &Includes::Refused).unwrap_err();
        let (first, name) = ("zz.x".to_owned(), "dup".to_owned());
        assert_eq!(once.problem, Problem::DuplicatePmid { pmid: Pmid::new(29, 0, 10), first, name });
    }
}
