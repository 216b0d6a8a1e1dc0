//! LogQL, as far as event records have use for it.
//!
//! ```text
//! log    := "{" matcher, .. "}" stage*
//! stage  := ("|=" | "!=" | "|~" | "!~") text ["or" text]* | "| json" | "| logfmt" | "| drop" name, .. | "| keep" name, .. | "|" filter
//! filter := label op value, with "and", "or", "," and parentheses
//! metric := range "(" log "[" time "]" ["offset" time] ")" | aggregate ["by" | "without"] "(" [number ","] metric ")"
//!         | number | "vector(" number ")" | metric op metric | "(" metric ")"
//! ```
//!
//! * [`lex`]: words. [`parse`]: expressions. [`text`]: expressions as text, which parses to the same.
//!
//! **Invariant:** an expression is bounded: [`parse::MAX_TEXT`] bytes, [`parse::MAX_NODES`] parts, so deep at most, so many regular
//! expressions of bounded size. What is made of it may recurse.

pub(crate) mod lex;
pub(crate) mod parse;
pub(crate) mod text;

use regex::Regex;

pub(crate) use parse::{ParseError, parse};

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    /// Lines.
    Log(LogQuery),
    /// How many lines, or bytes of them, there were in a time.
    Range { op: RangeOp, query: LogQuery, range: i64, offset: i64 },
    /// Several series as one.
    Aggregate { op: AggregateOp, param: f64, grouping: Option<Grouping>, of: Box<Expr> },
    /// A number.
    Number(f64),
    /// A number as a series.
    Vector(f64),
    /// Arithmetic and comparisons.
    Binary { op: BinaryOp, is_bool: bool, left: Box<Expr>, right: Box<Expr> },
}

/// Which lines, and what is done with them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LogQuery {
    pub matchers: Vec<Matcher>,
    pub stages: Vec<Stage>,
}

/// A condition on the text of a label.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Matcher {
    pub name: String,
    pub op: MatchOp,
    pub value: Pattern,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatchOp {
    Equal,
    NotEqual,
    Match,
    NotMatch,
}

/// A text, and what it is as a regular expression, if it is meant as one.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub text: String,
    pub regex: Option<Regex>,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.text == other.text && self.regex.is_some() == other.regex.is_some()
    }
}

/// What is done with a line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stage {
    /// Keeps lines that have any of these texts, or none of them.
    Line { op: MatchOp, texts: Vec<Pattern> },
    /// The fields of the record are labels; Loki would read them from the line.
    Fields(Format),
    /// Keeps lines whose labels are so.
    Filter(Filter),
    /// Labels that go.
    Drop(Vec<String>),
    /// The only labels that stay.
    Keep(Vec<String>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Logfmt,
}

/// A condition on labels.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Filter {
    Text(Matcher),
    Number { name: String, op: Compare, value: Quantity },
    And(Box<Filter>, Box<Filter>),
    Or(Box<Filter>, Box<Filter>),
}

/// What labels are compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Quantity {
    Number(f64),
    /// Nanoseconds.
    Duration(i64),
    Bytes(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    Equal,
    NotEqual,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeOp {
    CountOverTime,
    Rate,
    BytesOverTime,
    BytesRate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AggregateOp {
    Sum,
    Min,
    Max,
    Avg,
    Count,
    Topk,
    Bottomk,
}

/// Which labels tell series apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grouping {
    pub without: bool,
    pub names: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
    Compare(Compare),
}

impl MatchOp {
    pub(crate) const ALL: [(&'static str, MatchOp); 4] =
        [("=", MatchOp::Equal), ("!=", MatchOp::NotEqual), ("=~", MatchOp::Match), ("!~", MatchOp::NotMatch)];

    /// Whether its text is a regular expression.
    pub(crate) fn is_regex(self) -> bool {
        matches!(self, MatchOp::Match | MatchOp::NotMatch)
    }
}

impl Compare {
    pub(crate) const ALL: [(&'static str, Compare); 6] = [
        ("==", Compare::Equal),
        ("!=", Compare::NotEqual),
        (">", Compare::Greater),
        (">=", Compare::GreaterEqual),
        ("<", Compare::Less),
        ("<=", Compare::LessEqual),
    ];

    pub(crate) fn holds(self, one: f64, other: f64) -> bool {
        match self {
            Compare::Equal => one == other,
            Compare::NotEqual => one != other,
            Compare::Greater => one > other,
            Compare::GreaterEqual => one >= other,
            Compare::Less => one < other,
            Compare::LessEqual => one <= other,
        }
    }
}

impl RangeOp {
    pub(crate) const ALL: [(&'static str, RangeOp); 4] = [
        ("count_over_time", RangeOp::CountOverTime),
        ("rate", RangeOp::Rate),
        ("bytes_over_time", RangeOp::BytesOverTime),
        ("bytes_rate", RangeOp::BytesRate),
    ];
}

impl AggregateOp {
    pub(crate) const ALL: [(&'static str, AggregateOp); 7] = [
        ("sum", AggregateOp::Sum),
        ("min", AggregateOp::Min),
        ("max", AggregateOp::Max),
        ("avg", AggregateOp::Avg),
        ("count", AggregateOp::Count),
        ("topk", AggregateOp::Topk),
        ("bottomk", AggregateOp::Bottomk),
    ];

    /// Whether it takes a number in front.
    pub(crate) fn has_param(self) -> bool {
        matches!(self, AggregateOp::Topk | AggregateOp::Bottomk)
    }
}

impl BinaryOp {
    /// Operators, and how tightly they bind.
    pub(crate) const ALL: [(&'static str, BinaryOp, u8); 12] = [
        ("==", BinaryOp::Compare(Compare::Equal), 1),
        ("!=", BinaryOp::Compare(Compare::NotEqual), 1),
        (">", BinaryOp::Compare(Compare::Greater), 1),
        (">=", BinaryOp::Compare(Compare::GreaterEqual), 1),
        ("<", BinaryOp::Compare(Compare::Less), 1),
        ("<=", BinaryOp::Compare(Compare::LessEqual), 1),
        ("+", BinaryOp::Add, 2),
        ("-", BinaryOp::Sub, 2),
        ("*", BinaryOp::Mul, 3),
        ("/", BinaryOp::Div, 3),
        ("%", BinaryOp::Mod, 3),
        ("^", BinaryOp::Pow, 4),
    ];
}

/// The sign of an operator in a table.
pub(crate) fn sign<T: PartialEq + Copy>(table: &[(&'static str, T)], op: T) -> &'static str {
    table.iter().find(|(_, known)| *known == op).map_or("", |(sign, _)| sign)
}
