//! [`Filter`]: a predicate over event records, in a small language of its own (`docs/filter.md`).
//!
//! ```text
//! type == "http.request" && severity >= warning && (status >= 500 || message =~ "time.?out")
//! ```
//!
//! A filter is used in three steps: [`Filter::parse`] checks the text, [`Filter::bind`] looks up
//! which parameters the field names stand for, and [`BoundFilter::matches`] answers for one packed
//! record. Binding is repeated when fields have been added ([`FieldResolver::generation`]).
//!
//! **Cost:** a test walks the record's parameter headers until it finds its field; nothing is allocated. Text, nesting,
//! number of tests, number and size of regular expressions are limited, so that what a client stores costs the agent a
//! bounded amount of memory, and of time for each record: [`BoundFilter::cost`] says how much at most.

mod eval;
mod lexer;
mod parser;
mod pattern;
mod print;
mod severity;

use std::sync::Arc;

use jumpseat_wire::severity::Severity;
use thiserror::Error;

use super::pack::EventFlags;
pub use eval::{BoundFilter, MAX_COST};
use pattern::Pattern;
use pcp_model::Pmid;

/// Longest text of a filter, in bytes.
pub const MAX_TEXT: usize = 8 * 1024;
/// Deepest nesting of parentheses and negations.
pub const MAX_DEPTH: usize = 32;
/// Most regular expressions in one filter.
pub const MAX_REGEXES: usize = 8;
/// Most memory for the compiled regular expressions of a filter, in bytes.
pub const MAX_REGEX_SIZE: usize = 256 * 1024;
/// Most tests in one filter; each value of a list counts as one, a negated test as two.
pub const MAX_TESTS: usize = 128;

/// The field whose values have an order of their own: [`Severity`].
const SEVERITY_FIELD: &str = "severity";

/// A parsed predicate. Two filters are equal when they mean the same tests in the same order,
/// however they were written.
#[derive(Clone, Debug)]
pub struct Filter {
    root: Expr,
    /// The field names, each once, in the order of their first appearance.
    fields: Vec<String>,
    memory: usize,
    /// What it takes to try a record.
    tests: usize,
    regexes: usize,
}

impl PartialEq for Filter {
    fn eq(&self, other: &Filter) -> bool {
        // What it takes in memory depends on the way it was written.
        self.root == other.root && self.fields == other.fields
    }
}

impl Filter {
    /// The texts that a field is compared with, by `==` and in lists of `in`, unless that is negated.
    pub fn texts_of(&self, field: &str) -> Vec<&str> {
        let mut texts = Vec::new();
        if let Some(number) = self.fields.iter().position(|known| known == field) {
            self.root.texts_of(number, &mut texts);
        }
        texts
    }

    /// Parses a filter. `None` is the filter that lets everything pass: no text, `true` or `*`.
    pub fn parse(text: &str) -> Result<Option<Filter>, FilterError> {
        parser::parse(text)
    }

    /// The field names that the filter refers to, each once.
    pub fn fields(&self) -> &[String] {
        &self.fields
    }

    /// Bytes of memory that the filter takes at most.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Looks up the filter's fields.
    pub fn bind(self: &Arc<Filter>, resolver: &dyn FieldResolver) -> BoundFilter {
        BoundFilter::new(self.clone(), resolver)
    }
}

/// Tells which parameters a field name stands for: one for each type the field has been seen with.
pub trait FieldResolver {
    /// A number that changes whenever fields have been added.
    fn generation(&self) -> u64;

    /// Calls `found` with the PMID of each field of this name.
    fn resolve(&self, name: &str, found: &mut dyn FnMut(Pmid));
}

/// Why a text is not a filter, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("column {column}: {reason}")]
pub struct FilterError {
    /// Where the offending piece begins: the first character is column 1.
    pub column: usize,
    /// What is wrong and what is allowed.
    pub reason: FilterErrorKind,
}

/// What is wrong with a filter's text, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FilterErrorKind {
    /// Another piece was expected here.
    #[error("found {found}, expected {expected}")]
    Unexpected {
        /// What is there.
        found: String,
        /// What may be there.
        expected: &'static str,
    },
    /// A character that begins nothing.
    #[error("{0:?} has no meaning here; texts are written in quotes, unusual field names in backquotes")]
    UnknownCharacter(char),
    /// A quote is not closed.
    #[error("the closing {0} is missing")]
    Unterminated(char),
    /// A number beyond the range of its kind.
    #[error("{0} is out of range: integers go from -2^63 to 2^64-1, others must be finite")]
    Number(String),
    /// An unquoted word where a value is needed.
    #[error("{0} is not a value here: quote texts, as in \"{0}\"")]
    Unquoted(String),
    /// `severity` compared with something that is not a severity.
    #[error("{0} is not a severity: use {names}{hint}", names = severity::NAMES, hint = severity::hint(.0))]
    NotASeverity(String),
    /// `true` and `false` have no order.
    #[error("true and false can be compared with == and != only")]
    BoolOrder,
    /// A reserved word as a field name.
    #[error("{0} is a reserved word: write `{0}` in backquotes if a field is meant")]
    Reserved(String),
    /// A field name that is empty.
    #[error("a field name cannot be empty")]
    EmptyName,
    /// A regular expression that does not compile.
    #[error("bad regular expression: {0}")]
    Regex(String),
    /// Too many regular expressions.
    #[error("too many regular expressions: at most {MAX_REGEXES} are allowed")]
    TooManyRegexes,
    /// Regular expressions whose automata are too large.
    #[error(
        "too complex a regular expression: the automata of a filter may take {MAX_REGEX_SIZE} bytes; count less ({{1000}}) after \
         what may begin anywhere"
    )]
    RegexTooLarge,
    /// Too many tests.
    #[error(
        "too many tests: at most {MAX_TESTS} are allowed, a value in a list counts as one, a negated test as two"
    )]
    TooManyTests,
    /// Nested too deeply.
    #[error("nested too deeply: at most {MAX_DEPTH} levels are allowed")]
    TooDeep,
    /// The text is too long.
    #[error("the filter is longer than {MAX_TEXT} bytes")]
    TooLong,
}

/// The syntax tree. `And` and `Or` have at least two parts, none of them of the same kind. Fields
/// are indexes into [`Filter::fields`].
#[derive(Clone, Debug, PartialEq)]
enum Expr {
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    /// The record has this flag.
    Flag(EventFlags),
    /// The record has this field.
    Exists(usize),
    Compare {
        field: usize,
        op: Op,
        to: Literal,
    },
    In {
        field: usize,
        negated: bool,
        any: Vec<Literal>,
    },
    Match {
        field: usize,
        negated: bool,
        pattern: Box<Pattern>,
    },
}

impl Expr {
    fn texts_of<'a>(&'a self, wanted: usize, texts: &mut Vec<&'a str>) {
        let mut take = |literal: &'a Literal| {
            if let Literal::Text(text) = literal {
                texts.push(text);
            }
        };
        match self {
            Expr::And(all) | Expr::Or(all) => all.iter().for_each(|one| one.texts_of(wanted, texts)),
            Expr::Compare { field, op: Op::Eq, to } if *field == wanted => take(to),
            Expr::In { field, negated: false, any } if *field == wanted => any.iter().for_each(take),
            _ => {}
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

#[derive(Clone, Debug, PartialEq)]
enum Literal {
    Int(i128),
    Float(f64),
    Text(String),
    Bool(bool),
    /// Only with [`SEVERITY_FIELD`].
    Severity(Severity),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Filter::parse(text).expect_err(text).to_string()
    }

    #[test]
    fn everything_passes_without_a_filter() {
        for text in ["", "  \t", "true", " * "] {
            assert_eq!(Filter::parse(text), Ok(None), "{text:?}");
        }
    }

    #[test]
    fn errors_tell_where_what_and_what_is_allowed() {
        for (text, expected) in [
            ("status >=", "column 10: found the end, expected a number, a text in quotes, true or false"),
            ("status 5", "column 8: found 5, expected ==, !=, <, <=, >, >=, =~, !~ or in"),
            ("status = 5", "column 8: found =, expected ==, !=, <, <=, >, >=, =~, !~ or in"),
            ("(a == 1", "column 8: found the end, expected ), && or ||"),
            ("a == 1)", "column 7: found ), expected && or ||"),
            ("a == 1 && ", "column 10: found the end, expected a test"),
            ("a == \"x", "column 6: the closing \" is missing"),
            ("a == 'x", "column 6: the closing ' is missing"),
            ("`a == 1", "column 1: the closing ` is missing"),
            (
                "ä == 1",
                "column 1: 'ä' has no meaning here; texts are written in quotes, unusual field names in backquotes",
            ),
            (
                "a == \"ä\" && ß",
                "column 13: 'ß' has no meaning here; texts are written in quotes, unusual field names in backquotes",
            ),
            ("a == yes", "column 6: yes is not a value here: quote texts, as in \"yes\""),
            (
                "a == 99999999999999999999",
                "column 6: 99999999999999999999 is out of range: integers go from -2^63 to 2^64-1, others must be finite",
            ),
            (
                "a == 1e999",
                "column 6: 1e999 is out of range: integers go from -2^63 to 2^64-1, others must be finite",
            ),
            (
                "severity > loud",
                "column 12: loud is not a severity: use trace, debug, info, notice, warning, error, critical, alert or emergency",
            ),
            (
                "severity > 'loud'",
                "column 12: 'loud' is not a severity: use trace, debug, info, notice, warning, error, critical, alert or emergency",
            ),
            ("a < true", "column 5: true and false can be compared with == and != only"),
            ("in == 1", "column 1: in is a reserved word: write `in` in backquotes if a field is meant"),
            (
                "start == 1",
                "column 1: start is a reserved word: write `start` in backquotes if a field is meant",
            ),
            ("`` == 1", "column 1: a field name cannot be empty"),
            ("a in []", "column 7: found ], expected a number, a text in quotes, true or false"),
            ("a in 5", "column 6: found 5, expected ["),
            ("a not 5", "column 7: found 5, expected in"),
            ("exists a", "column 8: found a, expected ("),
            ("a =~ 5", "column 6: found 5, expected a regular expression in quotes"),
            (
                "true && a == 1",
                "column 1: true is a reserved word: write `true` in backquotes if a field is meant",
            ),
        ] {
            assert_eq!(error(text), expected, "{text}");
        }
        assert!(
            error("a =~ \"(\"").starts_with("column 6: bad regular expression: "),
            "{}",
            error("a =~ '('")
        );
        assert!(error("a =~ '\\w{1000}{1000}'").starts_with("column 6: too complex a regular expression: "));
    }

    #[test]
    fn what_a_client_stores_is_bounded() {
        let deep = |levels| format!("{}a == 1{}", "(".repeat(levels), ")".repeat(levels));
        assert!(Filter::parse(&deep(MAX_DEPTH)).is_ok());
        assert_eq!(
            error(&deep(MAX_DEPTH + 1)),
            "column 33: nested too deeply: at most 32 levels are allowed"
        );
        assert_eq!(error(&"!".repeat(5000)), "column 33: nested too deeply: at most 32 levels are allowed");
        let regexes = |n| vec!["a =~ 'x'"; n].join(" || ");
        assert!(Filter::parse(&regexes(MAX_REGEXES)).is_ok());
        assert!(error(&regexes(MAX_REGEXES + 1)).ends_with("at most 8 are allowed"));
        let tests = |n| format!("a in [{}]", vec!["1"; n].join(", "));
        assert!(Filter::parse(&tests(MAX_TESTS)).is_ok());
        assert!(error(&tests(MAX_TESTS + 1)).contains("too many tests: at most 128 are allowed"));
        assert!(error(&vec!["a != 1"; MAX_TESTS / 2 + 1].join(" && ")).contains("too many tests"));
        let memory = |text: &str| Filter::parse(text).unwrap().unwrap().memory();
        assert!(memory("a =~ 'x'") < 10 * 1024 && memory("a == 'x'") < 1024);
        assert!(memory("a =~ 'a[ab]{10}[^ab]'") > 32 * 1024, "sized by what it compiles to");
        // Of all together, not of each.
        assert!(
            error(&["a =~ 'a[ab]{10}[^ab]'"; 7].join(" || ")).contains("too complex a regular expression")
        );
        assert_eq!(error(&" ".repeat(MAX_TEXT + 1)), "column 8193: the filter is longer than 8192 bytes");
    }

    #[test]
    fn equal_filters_are_equal_however_written() {
        let one = Filter::parse("a==1 and (b in [1,'x'] && not start) or severity>=WARNING").unwrap();
        let two = Filter::parse("(a == 1 && (b in [1, \"x\"]) && !start) || severity >= \"warn\"").unwrap();
        assert_eq!(one, two);
        assert_eq!(one.unwrap().fields(), ["a", "b", "severity"]);
    }
}
