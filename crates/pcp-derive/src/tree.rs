//! The syntax tree of a definition.
//!
//! Nodes lie in one vector, operands before operators (post-order), so that every later pass is a
//! plain loop and no depth of nesting can exhaust the stack. The nodes below a node are the
//! contiguous range from its `first` node up to itself.

use std::ops::Range;

use super::functions::Call;
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
#[non_exhaustive]
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
    /// `x[instance]`.
    Instance(Box<str>, NodeId),
    /// A function of an expression.
    Call(Call, NodeId),
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
            Kind::Negate(x) | Kind::Not(x) | Kind::Instance(_, x) | Kind::Call(_, x) => [Some(x), None, None],
        };
        operands.into_iter().flatten()
    }

    /// The metric that the node names, as an operand or for its metadata.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Kind::Metric(name) | Kind::Defined(name) => Some(name),
            Kind::Constant(constant) => constant.tags.as_ref()?.meta.as_deref(),
            Kind::NoValue(tags) => tags.meta.as_deref(),
            _ => None,
        }
    }

    /// The same with operands moved to other places of another tree.
    pub(super) fn relocated(&self, places: &[NodeId]) -> Kind {
        let mut kind = self.clone();
        let to = |id: &mut NodeId| match places.get(id.index()) {
            Some(&place) => *id = place,
            None => debug_assert!(false, "operands come before operators"),
        };
        match &mut kind {
            Kind::Metric(_) | Kind::Constant(_) | Kind::NoValue(_) | Kind::Anon(_) | Kind::Defined(_) => {}
            Kind::Binary { left, right, .. } => [left, right].into_iter().for_each(to),
            Kind::Ternary { guard, yes, no } => [guard, yes, no].into_iter().for_each(to),
            Kind::Negate(x) | Kind::Not(x) | Kind::Instance(_, x) | Kind::Call(_, x) => to(x),
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

/// What an operator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Boolean,
    Relational,
    Arithmetic,
}

impl BinaryOp {
    /// As it is written; PCP's name, as in its messages; and the class.
    const fn facts(self) -> (&'static str, &'static str, Class) {
        match self {
            BinaryOp::Plus => ("+", "PLUS", Class::Arithmetic),
            BinaryOp::Minus => ("-", "MINUS", Class::Arithmetic),
            BinaryOp::Star => ("*", "STAR", Class::Arithmetic),
            BinaryOp::Slash => ("/", "SLASH", Class::Arithmetic),
            BinaryOp::Lt => ("<", "LT", Class::Relational),
            BinaryOp::Leq => ("<=", "LEQ", Class::Relational),
            BinaryOp::Eq => ("==", "EQ", Class::Relational),
            BinaryOp::Geq => (">=", "GEQ", Class::Relational),
            BinaryOp::Gt => (">", "GT", Class::Relational),
            BinaryOp::Neq => ("!=", "NEQ", Class::Relational),
            BinaryOp::And => ("&&", "AND", Class::Boolean),
            BinaryOp::Or => ("||", "OR", Class::Boolean),
        }
    }

    /// As it is written.
    pub const fn symbol(self) -> &'static str {
        self.facts().0
    }

    /// PCP's name, as in its messages.
    pub const fn name(self) -> &'static str {
        self.facts().1
    }

    /// `+ - * /`.
    pub const fn is_arithmetic(self) -> bool {
        matches!(self.facts().2, Class::Arithmetic)
    }

    /// `&& ||`.
    pub const fn is_boolean(self) -> bool {
        matches!(self.facts().2, Class::Boolean)
    }

    /// `< <= == >= > !=`.
    pub const fn is_relational(self) -> bool {
        matches!(self.facts().2, Class::Relational)
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
