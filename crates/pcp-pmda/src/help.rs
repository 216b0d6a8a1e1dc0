//! Help text, read from the source that `newhelp(1)` compiles (`docs/pcp/agent.md` 18).
//!
//! ```text
//! # comments are dropped
//! @ metric.name one line
//! longer text, several lines
//! @ 250.3 text for an instance domain     (also SYM.3, SYM the agent's own symbol)
//! @ 250.0.2 text for a metric by number
//! ```

use std::collections::hash_map;

use pcp_model::{InDom, Pmid};
use rustc_hash::FxHashMap;

use super::pmns::{Name, NameTree};

/// Largest serial of an instance domain.
const MAX_SERIAL: u32 = 0x3f_ffff;

/// What is wrong with a help source, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct HelpError {
    /// The name the source goes by.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub problem: HelpProblem,
}

/// The ways a help source can be wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HelpProblem {
    /// A `@` line without a name.
    #[error("nothing after @: write `@ metric.name one line` or `@ DOMAIN.SERIAL one line`")]
    NoName,
    /// The name space has no such metric.
    #[error("{0}: unknown metric name")]
    UnknownName(String),
    /// Not in the agent's domain, or a part out of range.
    #[error("{0}: not an identifier of domain {1}")]
    Identifier(String, u16),
    /// The same metric or instance domain has text already.
    #[error("{0} has help text already, at line {1}")]
    Duplicate(String, usize),
}

/// The two texts of a metric or instance domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Help<'a> {
    /// One line.
    pub oneline: &'a str,
    /// The long text, without its last line break. May be empty.
    pub text: &'a str,
}

/// What a help entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    /// A metric.
    Metric(Pmid),
    /// An instance domain.
    InDom(InDom),
}

/// The help text of an agent.
#[derive(Clone, Debug, Default)]
pub(crate) struct HelpTexts {
    /// Those of all entries, one behind the other: to have some hundred strings takes longer, and twice the memory.
    texts: String,
    entries: FxHashMap<Topic, Entry>,
}

/// Where the texts of an entry are.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Of the source, from 1.
    line: usize,
    begin: usize,
    /// Where the one line ends, and the long text begins.
    middle: usize,
    end: usize,
}

impl HelpTexts {
    /// The texts of a topic, if it has any.
    pub(crate) fn get(&self, topic: Topic) -> Option<Help<'_>> {
        let Entry { begin, middle, end, .. } = *self.entries.get(&topic)?;
        let text = self.texts.get(middle..end)?;
        Some(Help { oneline: self.texts.get(begin..middle)?, text: text.strip_suffix('\n').unwrap_or(text) })
    }
}

/// Reads a help source. Names are looked up in `names`; `symbol` stands for `domain` in numeric topics.
///
/// # Errors
/// The first thing wrong, with its line.
pub(crate) fn parse(
    file: &str,
    source: &str,
    domain: u16,
    symbol: &str,
    names: &NameTree,
) -> Result<HelpTexts, HelpError> {
    let mut help = HelpTexts { texts: String::with_capacity(source.len()), entries: FxHashMap::default() };
    // The entry whose long text is being read.
    let mut current: Option<&mut Entry> = None;
    for (index, line) in source.lines().enumerate() {
        let line_number = index + 1;
        let bad = |problem| HelpError { file: file.to_owned(), line: line_number, problem };
        if line.starts_with('#') {
            continue;
        }
        let Some(head) = line.strip_prefix('@') else {
            if let Some(entry) = &mut current {
                help.texts.push_str(line);
                help.texts.push('\n');
                entry.end = help.texts.len();
            }
            continue;
        };
        let head = head.trim();
        let (name, oneline) = head.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((head, ""));
        if name.is_empty() {
            return Err(bad(HelpProblem::NoName));
        }
        let topic = topic(name, domain, symbol, names).map_err(bad)?;
        let vacant = match help.entries.entry(topic) {
            hash_map::Entry::Vacant(vacant) => vacant,
            hash_map::Entry::Occupied(before) => {
                return Err(bad(HelpProblem::Duplicate(name.to_owned(), before.get().line)));
            }
        };
        let begin = help.texts.len();
        help.texts.push_str(oneline.trim());
        let middle = help.texts.len();
        current = Some(vacant.insert(Entry { line: line_number, begin, middle, end: middle }));
    }
    Ok(help)
}

fn topic(name: &str, domain: u16, symbol: &str, names: &NameTree) -> Result<Topic, HelpProblem> {
    if let Some(Name::Leaf(pmid)) = names.get(name) {
        return Ok(Topic::Metric(pmid));
    }
    let (first, rest) = name.split_once('.').unwrap_or((name, ""));
    let numeric = first == symbol || first.bytes().all(|byte| byte.is_ascii_digit());
    if !numeric || !rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(HelpProblem::UnknownName(name.to_owned()));
    }
    let wrong = || HelpProblem::Identifier(name.to_owned(), domain);
    if first != symbol && first.parse() != Ok(domain) {
        return Err(wrong());
    }
    match rest.split_once('.') {
        None => {
            let serial = rest.parse().ok().filter(|serial| *serial <= MAX_SERIAL).ok_or_else(wrong)?;
            Ok(Topic::InDom(InDom::new(domain, serial)))
        }
        Some(_) => format!("{domain}.{rest}").parse().map(Topic::Metric).map_err(|_| wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &str) -> Result<HelpTexts, (usize, HelpProblem)> {
        let mut names = NameTree::default();
        names.add("fake.a", Pmid::new(250, 0, 1));
        names.add("fake.b", Pmid::new(250, 0, 2));
        parse("help", source, 250, "FAKE", &names).map_err(|error| (error.line, error.problem))
    }

    #[test]
    fn entries_run_to_the_next_at_sign() {
        let source = "dropped\n@ fake.a  First metric \nlong\n# comment\n two\n\n@ 250.3 Domain\n@ FAKE.4 Other\nx\n@ 250.0.2 By number\n";
        let help = read(source).unwrap();
        let get = |topic| {
            let help: Help<'_> = help.get(topic).unwrap();
            (help.oneline, help.text)
        };
        // The blank line before the next entry leaves one line break.
        assert_eq!(get(Topic::Metric(Pmid::new(250, 0, 1))), ("First metric", "long\n two\n"));
        assert_eq!(get(Topic::Metric(Pmid::new(250, 0, 2))), ("By number", ""));
        assert_eq!(get(Topic::InDom(InDom::new(250, 3))), ("Domain", ""));
        assert_eq!(get(Topic::InDom(InDom::new(250, 4))), ("Other", "x"));
        assert_eq!(help.get(Topic::InDom(InDom::new(250, 5))), None);
    }

    #[test]
    fn errors_have_a_line() {
        use HelpProblem::*;
        assert_eq!(read("\n@").unwrap_err(), (2, NoName));
        assert_eq!(read("@ fake.c text").unwrap_err(), (1, UnknownName("fake.c".into())));
        assert_eq!(read("@ fake text").unwrap_err(), (1, UnknownName("fake".into())));
        assert_eq!(read("@ 251.3 text").unwrap_err(), (1, Identifier("251.3".into(), 250)));
        assert_eq!(read("@ 250.4194304 text").unwrap_err(), (1, Identifier("250.4194304".into(), 250)));
        assert_eq!(read("@ 250.0.1024 t").unwrap_err(), (1, Identifier("250.0.1024".into(), 250)));
        assert_eq!(read("@ 250 t").unwrap_err(), (1, Identifier("250".into(), 250)));
        assert_eq!(
            read("@ fake.a x\n\n@ 250.0.1 y").unwrap_err(),
            (3, Duplicate("250.0.1".into(), 1)),
            "the same metric by number"
        );
    }
}
