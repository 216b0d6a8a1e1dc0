//! Source text of name spaces (`PMNS(5)`, `docs/pcp/agent.md` 19): the agent's own and whole ones from files.
//!
//! ```text
//! text --> preprocess (pmcpp(1)) --> lines --> words --> blocks --> a tree of names, one kind for each purpose
//! ```

mod blocks;
mod preprocess;
mod report;

use crate::Pmid;

pub use blocks::is_name;
pub use blocks::{Block, Target, blocks, join};
pub use preprocess::{Includes, Line, lines};

/// What is wrong with a name space source, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct PmnsError {
    /// The name the source goes by.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What stands there, once comments are gone and macros are replaced; empty where the line itself is not at fault.
    pub text: String,
    /// The byte of `text` at fault.
    pub column: usize,
    /// What is wrong.
    pub problem: Problem,
}

/// The ways a name space source can be wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A `/*` without `*/`.
    #[error("comment without an end")]
    UnfinishedComment,
    /// A directive this reader does not know.
    #[error(
        "#{name} is not supported here (#define, #undef, #ifdef, #ifndef, #else, #endif, and in files #include are)"
    )]
    Directive {
        /// Its first word.
        name: String,
        /// The byte at which the last word before it stands in a line of its own: there PCP's parser puts its mark.
        mark: Option<usize>,
    },
    /// The word after `#define` and the like.
    #[error("illegal character in macro name {0:?}")]
    MacroName(String),
    /// No word after `#define` and the like.
    #[error("a macro name is missing")]
    NoMacroName,
    /// A value of several words.
    #[error("unexpected {0:?}: put a value of several words in quotes")]
    ExtraText(String),
    /// A second `#define`.
    #[error("macro {0:?} is defined already: #undef it first")]
    Redefined(String),
    /// A conditional within a conditional.
    #[error("nested #ifdef or #ifndef")]
    NestedConditional,
    /// `#else` or `#endif` alone.
    #[error("no matching #ifdef or #ifndef for #{0}")]
    NoConditional(&'static str),
    /// No `#endif`.
    #[error("#ifdef or #ifndef without #endif")]
    UnfinishedConditional,
    /// `#include` without a file name in quotes or angle brackets.
    #[error("write #include \"FILE\" or #include <FILE>")]
    IncludeName,
    /// A file name that does not end as it begins: with this.
    #[error("expected {0} after the file name")]
    IncludeEnd(char),
    /// Something after the file name.
    #[error("unexpected text after the file name")]
    IncludeExtra,
    /// A file that cannot be read.
    #[error("cannot open {0:?}")]
    IncludeFile(String),
    /// Files within files within files.
    #[error("too many #include within #include")]
    TooDeep,
    /// The name of a block was expected.
    #[error("expected the name of a block, found {0:?}")]
    ExpectedPath(String),
    /// A name was expected.
    #[error("expected a name or }}, found {0:?}")]
    ExpectedName(String),
    /// A name or an identifier was expected.
    #[error("expected a name, a PMID or }}, found {0:?}")]
    ExpectedNameOrPmid(String),
    /// `{` was expected.
    #[error("{{ expected, found {0:?}")]
    ExpectedBrace(String),
    /// Not `DOMAIN:CLUSTER:ITEM` with each in range.
    #[error("illegal PMID {pmid:?}: write DOMAIN:CLUSTER:ITEM (item 0..1023, cluster 0..4095) or DOMAIN:*:*")]
    Pmid {
        /// As written.
        pmid: String,
        /// The part that is out of range; `None` if it has not these parts.
        part: Option<&'static str>,
    },
    /// The PMID belongs to another agent.
    #[error("{pmid} is not of this agent's domain, {domain}")]
    Domain {
        /// The PMID as written.
        pmid: String,
        /// The agent's domain.
        domain: u16,
    },
    /// A name twice in a block.
    #[error("duplicate name {name:?} in {block:?}")]
    DuplicateName {
        /// The name.
        name: String,
        /// The block.
        block: String,
    },
    /// No block `root`, which a whole name space starts from.
    #[error("there is no block \"root\"")]
    NoRoot,
    /// Two of them.
    #[error("there are two blocks \"root\"")]
    TwoRoots,
    /// A block nobody lists, or defined twice.
    #[error("disconnected subtree {0:?}")]
    Disconnected(String),
    /// A listed non-leaf without a block.
    #[error("no definition for the non-leaf {0:?}")]
    Undefined(String),
    /// A metric with two names, where each may have one only.
    #[error("{name:?} and {first:?} are names of the same metric, {pmid}")]
    DuplicatePmid {
        /// The PMID.
        pmid: Pmid,
        /// The name that came first.
        first: String,
        /// The other.
        name: String,
    },
}

impl PmnsError {
    /// Of a line as a whole.
    pub fn at_line(file: &str, line: usize, problem: Problem) -> PmnsError {
        PmnsError { file: file.to_owned(), line, text: String::new(), column: 0, problem }
    }
}
