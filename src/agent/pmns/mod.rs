//! The agent's static name space, read from PMNS source text (spec `agent.md` 19, `PMNS(5)`).
//!
//! The source is the very file that is installed: `name { leaf SYM:0:1 }` blocks, complete with a `root`
//! block or (as under `$PCP_PMDAS_DIR`) without one. The agent's domain comes from its configuration, so
//! `SYM` is put in by the caller.

mod preprocess;
mod tree;

pub use tree::{Name, NameTree};

use std::collections::{HashMap, HashSet};

use crate::model::Pmid;
use preprocess::Token;

const MAX_CLUSTER: u16 = 4095;
const MAX_ITEM: u16 = 1023;

/// What is wrong with a name space source, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct PmnsError {
    /// The name the source goes by.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub problem: Problem,
}

/// The ways a name space source can be wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A `/*` without `*/`.
    #[error("comment without an end")]
    UnfinishedComment,
    /// A directive this reader does not know, `#include` among them.
    #[error("#{0} is not supported here (#define, #undef, #ifdef, #ifndef, #else, #endif are)")]
    Directive(String),
    /// The word after `#define` and the like.
    #[error("illegal character in macro name {0:?}")]
    MacroName(String),
    /// A conditional within a conditional.
    #[error("nested #ifdef or #ifndef")]
    NestedConditional,
    /// `#else` or `#endif` alone.
    #[error("no matching #ifdef or #ifndef")]
    NoConditional,
    /// No `#endif`.
    #[error("#ifdef or #ifndef without #endif")]
    UnfinishedConditional,
    /// A name was expected.
    #[error("expected a name or }}, found {0:?}")]
    ExpectedName(String),
    /// `{` was expected.
    #[error("{{ expected, found {0:?}")]
    ExpectedBrace(String),
    /// Not `DOMAIN:CLUSTER:ITEM` with each in range.
    #[error("illegal PMID {0:?}: write DOMAIN:CLUSTER:ITEM (item 0..1023, cluster 0..4095) or DOMAIN:*:*")]
    Pmid(String),
    /// The PMID belongs to another agent.
    #[error("{pmid} is not of this agent's domain, {domain}")]
    Domain {
        /// The PMID as written.
        pmid: String,
        /// The agent's domain.
        domain: u16,
    },
    /// A name twice in a block.
    #[error("duplicate name {0:?}")]
    DuplicateName(String),
    /// A block nobody lists, or defined twice.
    #[error("disconnected subtree {0:?}")]
    Disconnected(String),
    /// A listed non-leaf without a block.
    #[error("no definition for the non-leaf {0:?}")]
    Undefined(String),
}

#[derive(Debug)]
struct Block {
    line: usize,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    line: usize,
    name: String,
    target: Target,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    NonLeaf,
    Leaf(Pmid),
    Dynamic,
}

/// Reads a name space source. `symbols` (usually the agent's own, standing for `domain`) take precedence over
/// the source's `#define`s.
///
/// # Errors
/// The first thing wrong, with its line.
pub fn parse(
    file: &str,
    source: &str,
    domain: u16,
    symbols: &[(&str, String)],
) -> Result<NameTree, PmnsError> {
    let tokens = preprocess::tokens(file, source, symbols)?;
    let mut parser = Parser { file, domain, tokens: tokens.iter().peekable(), last_line: 1 };
    let mut blocks = HashMap::new();
    while let Some(token) = parser.next() {
        let (name, block) = parser.block(token)?;
        let line = block.line;
        if blocks.insert(name.clone(), block).is_some() {
            return Err(parser.bad(line, Problem::Disconnected(name)));
        }
    }
    let mut tree = connect(blocks).map_err(|(line, problem)| parser.bad(line, problem))?;
    tree.name_dynamic_roots(domain);
    Ok(tree)
}

struct Parser<'a> {
    file: &'a str,
    domain: u16,
    tokens: std::iter::Peekable<std::slice::Iter<'a, Token>>,
    last_line: usize,
}

impl<'a> Parser<'a> {
    fn bad(&self, line: usize, problem: Problem) -> PmnsError {
        PmnsError { file: self.file.to_owned(), line, problem }
    }

    fn next(&mut self) -> Option<&'a Token> {
        let token = self.tokens.next()?;
        self.last_line = token.line;
        Some(token)
    }

    /// A whole block, from the node name on. A missing `}` at the end of the source is forgiven, as PCP does.
    fn block(&mut self, name: &Token) -> Result<(String, Block), PmnsError> {
        if !name.text.split('.').all(is_name) {
            return Err(self.bad(name.line, Problem::ExpectedName(name.text.clone())));
        }
        match self.next() {
            Some(token) if token.text == "{" => {}
            other => {
                let found = other.map_or("end of text".to_owned(), |token| token.text.clone());
                return Err(self.bad(self.last_line, Problem::ExpectedBrace(found)));
            }
        }
        let mut block = Block { line: name.line, entries: Vec::new() };
        let mut seen = HashSet::new();
        while let Some(token) = self.next().filter(|token| token.text != "}") {
            if !is_name(&token.text) {
                return Err(self.bad(token.line, Problem::ExpectedName(token.text.clone())));
            }
            if !seen.insert(token.text.as_str()) {
                return Err(self.bad(token.line, Problem::DuplicateName(token.text.clone())));
            }
            let target = match self.tokens.peek().copied() {
                Some(pmid) if pmid.text.contains(':') => {
                    let (line, target) = (pmid.line, self.pmid(&pmid.text));
                    self.next();
                    target.map_err(|problem| self.bad(line, problem))?
                }
                _ => Target::NonLeaf,
            };
            block.entries.push(Entry { line: token.line, name: token.text.clone(), target });
        }
        Ok((name.text.clone(), block))
    }

    fn pmid(&self, text: &str) -> Result<Target, Problem> {
        let illegal = || Problem::Pmid(text.to_owned());
        let mut parts = text.split(':');
        let (domain, cluster, item) = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(domain), Some(cluster), Some(item), None) => (domain, cluster, item),
            _ => return Err(illegal()),
        };
        let part = |text: &str, max: u16| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u16>().ok().filter(|number| digits && *number <= max).ok_or_else(illegal)
        };
        if part(domain, Pmid::DYNAMIC_DOMAIN - 1)? != self.domain {
            return Err(Problem::Domain { pmid: text.to_owned(), domain: self.domain });
        }
        if cluster == "*" && item == "*" {
            return Ok(Target::Dynamic);
        }
        Ok(Target::Leaf(Pmid::new(self.domain, part(cluster, MAX_CLUSTER)?, part(item, MAX_ITEM)?)))
    }
}

/// Makes the tree out of the blocks, each of which must be reachable.
fn connect(mut blocks: HashMap<String, Block>) -> Result<NameTree, (usize, Problem)> {
    let mut tree = NameTree::default();
    let mut open: Vec<(String, Block)> = match blocks.remove("root") {
        Some(root) => vec![(String::new(), root)],
        None => {
            // Without a root block, those blocks are at the top that no other block lists.
            let listed: HashSet<String> = blocks
                .iter()
                .flat_map(|(path, block)| block.entries.iter().map(move |entry| join(path, &entry.name)))
                .collect();
            let mut tops: Vec<_> = blocks.keys().filter(|path| !listed.contains(*path)).cloned().collect();
            tops.sort();
            // `tops` are keys of the map.
            tops.into_iter().filter_map(|path| blocks.remove_entry(&path)).collect()
        }
    };
    while let Some((path, block)) = open.pop() {
        tree.add_node(&path);
        for entry in block.entries {
            let name = join(&path, &entry.name);
            match entry.target {
                Target::Leaf(pmid) => tree.add(&name, pmid),
                Target::Dynamic => tree.add_dynamic(&name),
                Target::NonLeaf => match blocks.remove(&name) {
                    Some(block) => open.push((name, block)),
                    None => return Err((entry.line, Problem::Undefined(name))),
                },
            }
        }
    }
    match blocks.into_iter().min_by_key(|(_, block)| block.line) {
        Some((path, block)) => Err((block.line, Problem::Disconnected(path))),
        None => Ok(tree),
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() || path == "root" { name.to_owned() } else { format!("{path}.{name}") }
}

pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &str) -> Result<NameTree, (usize, Problem)> {
        parse("pmns", source, 250, &[("SYM", "250".to_owned())]).map_err(|error| {
            assert_eq!(error.file, "pmns");
            (error.line, error.problem)
        })
    }

    fn listing(source: &str) -> Vec<String> {
        let tree = read(source).unwrap();
        tree.traverse("").map(|(name, pmid)| format!("{name} {pmid}")).collect()
    }

    #[test]
    fn complete_and_rootless_sources() {
        let complete =
            "root {\n sub\n leaf 250:0:1\n dyn SYM:*:*\n}\nsub.deeper { }\nsub { x SYM:4095:1023\n deeper }";
        assert_eq!(listing(complete), ["dyn 250.*.*", "leaf 250.0.1", "sub.x 250.4095.1023"]);
        let installed = "fake {\n a SYM:0:0\n b\n}\nfake.b { c SYM:0:1";
        assert_eq!(listing(installed), ["fake.a 250.0.0", "fake.b.c 250.0.1"]);
        assert_eq!(listing("other.fake { a SYM:0:0 }"), ["other.fake.a 250.0.0"]);
    }

    #[test]
    fn same_pmid_under_two_names_is_fine() {
        let tree = read("a { x SYM:0:1 y SYM:0:1 }").unwrap();
        assert_eq!(tree.names_of(Pmid::new(250, 0, 1)), ["a.x", "a.y"]);
    }

    #[test]
    fn errors_have_a_line() {
        for (source, line, problem) in [
            ("a\n{ 1x SYM:0:0 }", 2, Problem::ExpectedName("1x".into())),
            ("a { x\nSYM:0:0:0 }", 2, Problem::Pmid("250:0:0:0".into())),
            ("a { x SYM:4096:0 }", 1, Problem::Pmid("250:4096:0".into())),
            ("a { x SYM:0:1024 }", 1, Problem::Pmid("250:0:1024".into())),
            ("a { x SYM:*:0 }", 1, Problem::Pmid("250:*:0".into())),
            ("a { x OTHER:0:0 }", 1, Problem::Pmid("OTHER:0:0".into())),
            ("a { x 511:0:0 }", 1, Problem::Pmid("511:0:0".into())),
            ("a { x 251:0:0 }", 1, Problem::Domain { pmid: "251:0:0".into(), domain: 250 }),
            ("a { x SYM:0:0\nx SYM:0:1 }", 2, Problem::DuplicateName("x".into())),
            ("a x", 1, Problem::ExpectedBrace("x".into())),
            ("a", 1, Problem::ExpectedBrace("end of text".into())),
            ("root { a }\n", 1, Problem::Undefined("a".into())),
            ("root { }\nzz { x SYM:0:0 }", 2, Problem::Disconnected("zz".into())),
            ("a { }\na { }", 2, Problem::Disconnected("a".into())),
            ("a { a.b SYM:0:0 }", 1, Problem::ExpectedName("a.b".into())),
        ] {
            assert_eq!(read(source).unwrap_err(), (line, problem), "{source}");
        }
    }
}
