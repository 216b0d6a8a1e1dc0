//! The syntax tree of a definition.
//!
//! Nodes lie in one vector, operands before operators (post-order), so that every later pass is a
//! plain loop and no depth of nesting can exhaust the stack. The nodes below a node are the
//! contiguous range from its `first` node up to itself.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use super::pattern::Pattern;
use pcp_model::{InDom, Semantics, Units, ValueType};

/// A range of bytes of a definition's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// Behind the last byte.
    pub end: u32,
}

impl Span {
    /// From byte offsets. Texts beyond 4 GiB are refused before they get here.
    pub(super) fn new(start: usize, end: usize) -> Span {
        Span { start: start as u32, end: end as u32 }
    }

    /// From the start of `self` to the end of `other`.
    pub(super) fn to(self, other: Span) -> Span {
        Span { start: self.start, end: other.end }
    }

    /// The part of the text.
    pub fn of(self, text: &str) -> &str {
        text.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

/// A node's place in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(super) u32);

impl NodeId {
    /// Its index in [`Tree::nodes`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One operand or operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Where it is written, parentheses around it not included.
    pub span: Span,
    /// The first node of the subtree that ends with this node.
    pub first: NodeId,
}

/// What a node is.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// An operand metric's name.
    Metric(Box<str>),
    /// A number, with the tags of `mkconst` if that is how it is written.
    Constant(Box<Constant>),
    /// `novalue(...)`: only ever the second or third operand of a ternary.
    NoValue(Box<Tags>),
    /// `anon(PM_TYPE_x)`.
    Anon(ValueType),
    /// `defined(metric)`.
    Defined(Box<str>),
    /// `-x`.
    Negate(NodeId),
    /// `!x`.
    Not(NodeId),
    /// Two operands with an operator between them.
    Binary {
        /// The operator.
        op: BinaryOp,
        /// Left operand.
        left: NodeId,
        /// Right operand.
        right: NodeId,
    },
    /// `guard ? yes : no`.
    Ternary {
        /// The guard.
        guard: NodeId,
        /// Where the guard is not zero.
        yes: NodeId,
        /// Where the guard is zero.
        no: NodeId,
    },
    /// A function that makes one value of all instances of a metric.
    Aggregate(AggregateFn, NodeId),
    /// `delta(x)`.
    Delta(NodeId),
    /// `rate(x)`.
    Rate(NodeId),
    /// `instant(x)`.
    Instant(NodeId),
    /// `scalar(x)`.
    Scalar(NodeId),
    /// `x[instance]`.
    Instance(Box<str>, NodeId),
    /// `matchinst(/pattern/, x)`.
    Match(Box<Matcher>, NodeId),
    /// `rescale(x, "units")`.
    Rescale(Units, NodeId),
    /// A function that no PCP has.
    Beyond(BeyondFn, NodeId),
}

impl Kind {
    /// The node's operands, in the order they are written.
    pub fn operands(&self) -> impl Iterator<Item = NodeId> + use<> {
        let operands = match *self {
            Kind::Metric(_) | Kind::Constant(_) | Kind::NoValue(_) | Kind::Anon(_) | Kind::Defined(_) => {
                [None, None, None]
            }
            Kind::Binary { left, right, .. } => [Some(left), Some(right), None],
            Kind::Ternary { guard, yes, no } => [Some(guard), Some(yes), Some(no)],
            Kind::Negate(x)
            | Kind::Not(x)
            | Kind::Aggregate(_, x)
            | Kind::Delta(x)
            | Kind::Rate(x)
            | Kind::Instant(x)
            | Kind::Scalar(x)
            | Kind::Instance(_, x)
            | Kind::Match(_, x)
            | Kind::Rescale(_, x)
            | Kind::Beyond(_, x) => [Some(x), None, None],
        };
        operands.into_iter().flatten()
    }
}

impl Kind {
    /// The same with operands moved to other places of another tree.
    pub(super) fn relocated(&self, places: &[NodeId]) -> Kind {
        let mut kind = self.clone();
        let to = |id: &mut NodeId| *id = places.get(id.index()).copied().unwrap_or(*id);
        match &mut kind {
            Kind::Metric(_) | Kind::Constant(_) | Kind::NoValue(_) | Kind::Anon(_) | Kind::Defined(_) => {}
            Kind::Binary { left, right, .. } => [left, right].into_iter().for_each(to),
            Kind::Ternary { guard, yes, no } => [guard, yes, no].into_iter().for_each(to),
            Kind::Negate(x)
            | Kind::Not(x)
            | Kind::Aggregate(_, x)
            | Kind::Delta(x)
            | Kind::Rate(x)
            | Kind::Instant(x)
            | Kind::Scalar(x)
            | Kind::Instance(_, x)
            | Kind::Match(_, x)
            | Kind::Rescale(_, x)
            | Kind::Beyond(_, x) => to(x),
        }
        kind
    }
}

/// A number as written.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// The digits; `.` is zero.
    pub digits: Box<str>,
    /// Written with a decimal point.
    pub decimal: bool,
    /// The tags of `mkconst`; `None` for a bare number.
    pub tags: Option<Tags>,
}

/// Metadata given to a constant or to `novalue`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Tags {
    /// `type=`.
    pub value_type: Option<ValueType>,
    /// `semantics=`.
    pub semantics: Option<Semantics>,
    /// `units=`.
    pub units: Option<Units>,
    /// `indom=`.
    pub indom: Option<InDom>,
    /// `meta=`: a metric whose descriptor supplies what the other tags do not.
    pub meta: Option<Box<str>>,
}

/// The instances that `matchinst` lets through.
#[derive(Clone, Debug, PartialEq)]
pub struct Matcher {
    /// Those that do not match.
    pub invert: bool,
    /// The regular expression.
    pub pattern: Pattern,
}

/// Operators between two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum BinaryOp {
    Plus,
    Minus,
    Star,
    Slash,
    Lt,
    Leq,
    Eq,
    Geq,
    Gt,
    Neq,
    And,
    Or,
}

impl BinaryOp {
    /// As it is written.
    pub const fn symbol(self) -> &'static str {
        match self {
            BinaryOp::Plus => "+",
            BinaryOp::Minus => "-",
            BinaryOp::Star => "*",
            BinaryOp::Slash => "/",
            BinaryOp::Lt => "<",
            BinaryOp::Leq => "<=",
            BinaryOp::Eq => "==",
            BinaryOp::Geq => ">=",
            BinaryOp::Gt => ">",
            BinaryOp::Neq => "!=",
            BinaryOp::And => "&&",
            BinaryOp::Or => "||",
        }
    }

    /// PCP's name, as in its messages.
    pub const fn name(self) -> &'static str {
        match self {
            BinaryOp::Plus => "PLUS",
            BinaryOp::Minus => "MINUS",
            BinaryOp::Star => "STAR",
            BinaryOp::Slash => "SLASH",
            BinaryOp::Lt => "LT",
            BinaryOp::Leq => "LEQ",
            BinaryOp::Eq => "EQ",
            BinaryOp::Geq => "GEQ",
            BinaryOp::Gt => "GT",
            BinaryOp::Neq => "NEQ",
            BinaryOp::And => "AND",
            BinaryOp::Or => "OR",
        }
    }

    /// `+ - * /`.
    pub const fn is_arithmetic(self) -> bool {
        matches!(self, BinaryOp::Plus | BinaryOp::Minus | BinaryOp::Star | BinaryOp::Slash)
    }

    /// `&& ||`.
    pub const fn is_boolean(self) -> bool {
        matches!(self, BinaryOp::And | BinaryOp::Or)
    }

    /// `< <= == >= > !=`.
    pub const fn is_relational(self) -> bool {
        !self.is_arithmetic() && !self.is_boolean()
    }
}

/// Functions of all instances of one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum AggregateFn {
    Avg,
    Count,
    Max,
    Min,
    Sum,
}

impl AggregateFn {
    /// As it is written.
    pub const fn word(self) -> &'static str {
        match self {
            AggregateFn::Avg => "avg",
            AggregateFn::Count => "count",
            AggregateFn::Max => "max",
            AggregateFn::Min => "min",
            AggregateFn::Sum => "sum",
        }
    }

    /// PCP's name, as in its messages.
    pub const fn name(self) -> &'static str {
        match self {
            AggregateFn::Avg => "AVG",
            AggregateFn::Count => "COUNT",
            AggregateFn::Max => "MAX",
            AggregateFn::Min => "MIN",
            AggregateFn::Sum => "SUM",
        }
    }
}

/// Functions that no PCP has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BeyondFn {
    /// The `n` instances with the largest (smallest) values, largest (smallest) first.
    Extreme {
        /// How many.
        n: u32,
        /// `topk`, else `bottomk`.
        top: bool,
    },
    /// The value below which a fraction of the instances lies, interpolated.
    Quantile(f64),
    /// The standard deviation over the instances (population).
    Stddev,
    /// The absolute value.
    Abs,
    /// Values brought into a range.
    Clamp {
        /// Smallest result.
        low: f64,
        /// Largest result.
        high: f64,
    },
    /// A function of the values of the last so many nanoseconds.
    Window {
        /// Which.
        function: WindowFn,
        /// Length in nanoseconds.
        length: u64,
    },
}

impl BeyondFn {
    /// As it is written.
    pub const fn word(self) -> &'static str {
        match self {
            BeyondFn::Extreme { top: true, .. } => "topk",
            BeyondFn::Extreme { top: false, .. } => "bottomk",
            BeyondFn::Quantile(_) => "quantile",
            BeyondFn::Stddev => "stddev",
            BeyondFn::Abs => "abs",
            BeyondFn::Clamp { .. } => "clamp",
            BeyondFn::Window { function, .. } => function.word(),
        }
    }
}

/// Functions of a window of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum WindowFn {
    Avg,
    Min,
    Max,
    Sum,
}

impl WindowFn {
    /// As it is written.
    pub const fn word(self) -> &'static str {
        match self {
            WindowFn::Avg => "avg_over",
            WindowFn::Min => "min_over",
            WindowFn::Max => "max_over",
            WindowFn::Sum => "sum_over",
        }
    }
}

/// A definition's expression, parsed.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Tree {
    nodes: Vec<Node>,
}

impl Tree {
    /// All nodes, operands before operators; the last is the root.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A node.
    pub fn node(&self, id: NodeId) -> &Node {
        // Ids are only made by `push`, for this tree.
        &self.nodes[id.index()]
    }

    /// What a node is.
    pub fn kind(&self, id: NodeId) -> &Kind {
        &self.node(id).kind
    }

    /// The root. A parsed tree has one.
    pub fn root(&self) -> NodeId {
        NodeId(self.nodes.len().saturating_sub(1) as u32)
    }

    /// The indices of a node and everything below it.
    pub fn below(&self, id: NodeId) -> Range<usize> {
        self.node(id).first.index()..id.index() + 1
    }

    /// Ids and nodes, operands before operators.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        (0..).map(NodeId).zip(&self.nodes)
    }

    /// Appends a whole tree, as if it were written at `span`; its root's new place.
    pub(super) fn graft(&mut self, tree: &Tree, span: Span) -> NodeId {
        let mut places = Vec::with_capacity(tree.nodes.len());
        for node in &tree.nodes {
            let place = self.push(node.kind.relocated(&places), span);
            places.push(place);
        }
        self.root()
    }

    pub(super) fn set_span(&mut self, id: NodeId, span: Span) {
        if let Some(node) = self.nodes.get_mut(id.index()) {
            node.span = span;
        }
    }

    pub(super) fn push(&mut self, kind: Kind, span: Span) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        let first = kind.operands().next().map_or(id, |operand| self.node(operand).first);
        self.nodes.push(Node { kind, span, first });
        id
    }
}

impl fmt::Display for Tree {
    /// The tree in brackets with PCP's names for the nodes: `(PLUS a (STAR b c))`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        enum Item {
            Node(NodeId),
            Text(Cow<'static, str>),
        }
        let text = |text: &'static str| Item::Text(Cow::Borrowed(text));
        if self.nodes.is_empty() {
            return Ok(());
        }
        let mut todo = vec![Item::Node(self.root())];
        while let Some(item) = todo.pop() {
            let id = match item {
                Item::Text(text) => {
                    f.write_str(&text)?;
                    continue;
                }
                Item::Node(id) => id,
            };
            let kind = self.kind(id);
            match kind {
                Kind::Metric(name) => f.write_str(name)?,
                Kind::Constant(constant) => {
                    f.write_str(&constant.digits)?;
                    write_meta(f, constant.tags.as_ref())?;
                }
                Kind::NoValue(tags) => {
                    f.write_str("NOVALUE")?;
                    write_meta(f, Some(tags))?;
                }
                Kind::Anon(value_type) => write!(f, "(ANON PM_TYPE_{})", value_type.name())?,
                Kind::Defined(name) => write!(f, "(DEFINED {name})")?,
                Kind::Negate(_) => f.write_str("(NEG ")?,
                Kind::Not(_) => f.write_str("(NOT ")?,
                Kind::Binary { op, .. } => write!(f, "({} ", op.name())?,
                Kind::Ternary { .. } => f.write_str("(QUEST ")?,
                Kind::Aggregate(function, _) => write!(f, "({} ", function.name())?,
                Kind::Delta(_) => f.write_str("(DELTA ")?,
                Kind::Rate(_) => f.write_str("(RATE ")?,
                Kind::Instant(_) => f.write_str("(INSTANT ")?,
                Kind::Scalar(_) => f.write_str("(SCALAR ")?,
                Kind::Instance(name, _) => write!(f, "(FILTERINST [{name}] ")?,
                Kind::Match(matcher, _) => {
                    let invert = if matcher.invert { "!" } else { "" };
                    write!(f, "(FILTERINST {invert}/{}/ ", matcher.pattern.source())?;
                }
                Kind::Rescale(..) => f.write_str("(RESCALE ")?,
                Kind::Beyond(function, _) => write!(f, "({} ", function.word().to_uppercase())?,
            }
            match *kind {
                Kind::Ternary { guard, yes, no } => {
                    todo.extend([text("))"), Item::Node(no), text(" "), Item::Node(yes)]);
                    todo.extend([text(" (COLON "), Item::Node(guard)]);
                }
                Kind::Binary { left, right, .. } => {
                    todo.extend([text(")"), Item::Node(right), text(" "), Item::Node(left)]);
                }
                Kind::Rescale(units, x) => {
                    let units = match units.extra {
                        0 => units.to_string(),
                        _ => units.with_extra().to_string(),
                    };
                    todo.extend([Item::Text(format!(" <{units}>)").into()), Item::Node(x)]);
                }
                _ => {
                    if let Some(operand) = kind.operands().next() {
                        todo.extend([text(")"), Item::Node(operand)]);
                    }
                }
            }
        }
        Ok(())
    }
}

fn write_meta(f: &mut fmt::Formatter<'_>, tags: Option<&Tags>) -> fmt::Result {
    match tags.and_then(|tags| tags.meta.as_deref()) {
        Some(meta) => write!(f, "{{meta={meta}}}"),
        None => Ok(()),
    }
}
