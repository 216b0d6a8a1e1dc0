//! Blocks of names: `path { name [PMID] ... }`.

use std::collections::HashSet;

use super::{Line, PmnsError, Problem};
use crate::Pmid;

const MAX_CLUSTER: u16 = 4095;
const MAX_ITEM: u16 = 1023;

/// A block, in the order of the source.
#[derive(Debug)]
pub struct Block<'a> {
    /// The node whose children it lists: `root`, or a path from there.
    pub path: &'a str,
    /// Where it begins.
    pub line: &'a Line,
    /// The children.
    pub entries: Vec<Entry<'a>>,
}

/// A child.
#[derive(Debug)]
pub struct Entry<'a> {
    /// Where it stands.
    pub line: &'a Line,
    /// The last component of its name.
    pub name: &'a str,
    /// What it is.
    pub target: Target,
    /// The identifier as written; empty for a non-leaf.
    pub pmid: &'a str,
}

/// What a child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// It has a block of its own.
    NonLeaf,
    /// A metric.
    Leaf(Pmid),
    /// The root of a dynamic subtree of an agent's.
    Dynamic {
        /// The agent's domain.
        domain: u16,
    },
}

/// All blocks. A `{` or `}` that is missing at the very end is forgiven, as PCP does.
pub fn blocks(lines: &[Line]) -> Result<Vec<Block<'_>>, PmnsError> {
    let words = lines.iter().flat_map(words);
    let mut words = words.peekable();
    let mut blocks = Vec::new();
    while let Some(path) = words.next() {
        if !is_path(path.text) {
            return Err(path.bad(Problem::ExpectedPath));
        }
        if let Some(brace) = words.next()
            && brace.text != "{"
        {
            return Err(brace.bad(Problem::ExpectedBrace));
        }
        let mut block = Block { path: path.text, line: path.line, entries: Vec::new() };
        let mut seen = HashSet::new();
        while let Some(word) = words.next() {
            if word.text == "}" {
                break;
            }
            if !is_name(word.text) {
                return Err(word.bad(Problem::ExpectedName));
            }
            let mut entry = Entry { line: word.line, name: word.text, target: Target::NonLeaf, pmid: "" };
            match words.peek().copied() {
                Some(next) if is_pmid(next.text) => {
                    words.next();
                    entry.target = pmid(next.text)
                        .map_err(|part| next.bad(|text| Problem::Pmid { pmid: text, part }))?;
                    entry.pmid = next.text;
                }
                Some(next) if next.text != "}" && !is_name(next.text) => {
                    return Err(next.bad(Problem::ExpectedNameOrPmid));
                }
                _ => {}
            }
            if !seen.insert(word.text) {
                // The place is where the entry ends, as PCP sees it only then.
                let end = words.peek().copied().unwrap_or(word);
                let problem =
                    |_| Problem::DuplicateName { name: word.text.to_owned(), block: path.text.to_owned() };
                return Err(end.bad(problem));
            }
            block.entries.push(entry);
        }
        blocks.push(block);
    }
    Ok(blocks)
}

/// A child's name from its parent's path.
pub fn join(path: &str, name: &str) -> String {
    if path.is_empty() || path == "root" { name.to_owned() } else { format!("{path}.{name}") }
}

/// Whether a text is a component of a name.
pub fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// A word of the source.
#[derive(Clone, Copy)]
struct Word<'a> {
    line: &'a Line,
    column: usize,
    text: &'a str,
}

impl Word<'_> {
    fn bad(&self, problem: impl FnOnce(String) -> Problem) -> PmnsError {
        PmnsError {
            text: self.line.text.clone(),
            column: self.column,
            ..PmnsError::at_line(&self.line.file, self.line.number, problem(self.text.to_owned()))
        }
    }
}

fn words(line: &Line) -> impl Iterator<Item = Word<'_>> {
    let mut column = 0;
    std::iter::from_fn(move || {
        let rest = line.text.get(column..)?;
        let start = column + rest.find(|c: char| !c.is_ascii_whitespace())?;
        let rest = line.text.get(start..)?;
        let text = rest.split(|c: char| c.is_ascii_whitespace()).next()?;
        column = start + text.len();
        Some(Word { line, column: start, text })
    })
}

fn is_path(text: &str) -> bool {
    text.split('.').all(is_name)
}

/// Whether a text is meant as an identifier.
fn is_pmid(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b':' || byte == b'*')
}

/// What an identifier stands for; else the part of it that is out of range, if it has three.
fn pmid(text: &str) -> Result<Target, Option<&'static str>> {
    let mut parts = text.split(':');
    let (domain, cluster, item) = match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(domain), Some(cluster), Some(item), None) => (domain, cluster, item),
        _ => return Err(None),
    };
    let dynamic = cluster == "*" && item == "*";
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(domain) || !(dynamic || is_number(cluster) && is_number(item)) {
        return Err(None);
    }
    let part = |text: &str, max: u16, name| {
        text.parse::<u16>().ok().filter(|number| *number <= max).ok_or(Some(name))
    };
    let domain = part(domain, Pmid::DYNAMIC_DOMAIN - 1, "domain")?;
    if dynamic {
        return Ok(Target::Dynamic { domain });
    }
    Ok(Target::Leaf(Pmid::new(domain, part(cluster, MAX_CLUSTER, "cluster")?, part(item, MAX_ITEM, "item")?)))
}
