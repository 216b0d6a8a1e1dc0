//! What a query is, and its canonical text.

use std::fmt;

use pcp_model::Units;

use super::window::Window;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) enum Expr {
    /// Metrics of sources.
    Select(Selector),
    /// A function of another expression.
    Call(Function, Box<Expr>),
    /// Two, instance by instance.
    Combine(Operator, Box<Expr>, Box<Expr>),
    /// With a number in front or behind, which is kept as it was written.
    Scale { by: String, in_front: bool, of: Box<Expr> },
}

/// `NAME{CONDITIONS}`.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Selector {
    /// Which metrics; `None`: all.
    pub metric: Option<Metric>,
    /// Conditions, each with how it is joined to what is in front of it: from the left.
    pub conditions: Vec<(Join, Condition)>,
}

/// Which metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Metric {
    /// By name.
    Name(String),
    /// By a name with `*` in it.
    Glob(String),
    /// An expression of derived metrics: `derived("EXPRESSION")`, which pmseries does not have.
    Derived(String),
}

/// How conditions are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Join {
    And,
    Or,
}

/// `KEY OP VALUE`.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Condition {
    pub key: Key,
    pub op: Op,
    pub value: Value,
    /// As it was written.
    pub word: String,
}

/// What a condition looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Key {
    MetricName,
    InstanceName,
    SourceName,
    Label(String),
}

/// How it compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Op {
    Equal,
    NotEqual,
    Like,
    Match,
    NoMatch,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// With what.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) enum Value {
    /// A STRING.
    Text(String),
    /// A NAME or a number, as it was written.
    Bare(String),
}

/// A function.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) enum Function {
    Rate,
    Max(Over),
    Min(Over),
    Sum(Over),
    Avg(Over),
    Stdev(Over),
    TopK(Over, u32),
    Percentile(Over, u32),
    Abs,
    Floor,
    Round,
    Sqrt,
    /// To a base, as it was written.
    Log(Option<String>),
    /// To units, as they were written.
    Rescale(Units, String),
}

/// What a function takes together: the samples of an instance, or the instances of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Over {
    /// `max` and the like: the same as `max_inst`, under another name.
    Samples,
    Instance,
    Sample,
}

/// An operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// A query: an expression and the window that all of it shares.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Query {
    pub expr: Expr,
    /// `None`: which series there are is asked, not their values.
    pub window: Option<Window>,
}

impl Over {
    pub(in super::super) fn is_sample(self) -> bool {
        self == Over::Sample
    }

    fn ending(self) -> &'static str {
        match self {
            Over::Samples => "",
            Over::Instance => "_inst",
            Over::Sample => "_sample",
        }
    }
}

/// The text that is hashed for the identifier of an expression.
impl Expr {
    /// With `name` for what a glob found first.
    pub(in super::super) fn canonical(&self, name: &dyn Fn(&Selector) -> Option<String>) -> String {
        match self {
            Expr::Select(selector) => selector.canonical(name(selector).as_deref()),
            Expr::Call(function, of) => function.canonical(&of.canonical(name)),
            Expr::Combine(operator, left, right) => {
                format!("{}{operator}{}", left.canonical(name), right.canonical(name))
            }
            Expr::Scale { by, in_front: true, of } => format!("{by}*{}", of.canonical(name)),
            Expr::Scale { by, in_front: false, of } => format!("{}*{by}", of.canonical(name)),
        }
    }

    /// All selectors in it, from the left.
    pub(in super::super) fn selectors(&self) -> Vec<&Selector> {
        match self {
            Expr::Select(selector) => vec![selector],
            Expr::Call(_, of) | Expr::Scale { of, .. } => of.selectors(),
            Expr::Combine(_, left, right) => [left.selectors(), right.selectors()].concat(),
        }
    }
}

impl Selector {
    fn canonical(&self, found: Option<&str>) -> String {
        let mut text = match &self.metric {
            Some(Metric::Name(name)) => name.clone(),
            Some(Metric::Glob(glob)) => found.unwrap_or(glob).to_owned(),
            Some(Metric::Derived(expression)) => format!("derived({expression})"),
            None => found.unwrap_or_default().to_owned(),
        };
        if !self.conditions.is_empty() {
            text.push('{');
            for (number, (join, condition)) in self.conditions.iter().enumerate() {
                if number > 0 {
                    text.push_str(if *join == Join::And { "&&" } else { "||" });
                }
                text.push_str(&condition.canonical());
            }
            text.push('}');
        }
        text
    }
}

impl Condition {
    fn canonical(&self) -> String {
        let Condition { word, op, value, .. } = self;
        let text = match value {
            Value::Text(text) | Value::Bare(text) => text,
        };
        match op {
            Op::Equal if matches!(value, Value::Text(_)) => format!("{word}==\"{text}\""),
            Op::Like => format!("{word}~~\"{text}\""),
            _ => format!("{word}{op}{text}"),
        }
    }
}

impl Function {
    fn canonical(&self, of: &str) -> String {
        match self {
            Function::Rate => format!("rate({of})"),
            Function::Max(over) => format!("max{}({of})", over.ending()),
            Function::Min(over) => format!("min{}({of})", over.ending()),
            Function::Sum(over) => format!("sum{}({of})", over.ending()),
            Function::Avg(over) => format!("avg{}({of})", over.ending()),
            Function::Stdev(over) => format!("stdev{}({of})", over.ending()),
            Function::TopK(over, count) => format!("topk{}({of}, {count})", over.ending()),
            // pmseries gives both forms one text; that of the other form is told apart here.
            Function::Percentile(Over::Sample, n) => format!("nth_percentile_sample({of}, {n})"),
            Function::Percentile(_, n) => format!("nth_percentile_inst({of}, {n})"),
            Function::Abs => format!("abs({of})"),
            Function::Floor => format!("floor({of})"),
            Function::Round => format!("round({of})"),
            Function::Sqrt => format!("sqrt({of})"),
            Function::Log(None) => format!("log({of})"),
            Function::Log(Some(base)) => format!("log({of},{base})"),
            Function::Rescale(_, units) => format!("rescale({of},\"{units}\")"),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Op::Equal => "==",
            Op::NotEqual => "!=",
            Op::Like => "~~",
            Op::Match => "=~",
            Op::NoMatch => "!~",
            Op::Less => "<",
            Op::LessOrEqual => "<=",
            Op::Greater => ">",
            Op::GreaterOrEqual => ">=",
        })
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operator::Add => "+",
            Operator::Subtract => "-",
            Operator::Multiply => "*",
            Operator::Divide => "/",
        })
    }
}
