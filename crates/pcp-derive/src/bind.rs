//! Binding: from a syntax tree to the metadata of every node (`docs/pcp/derived-language.md` 8).
//!
//! Three passes over the nodes, each a loop: operands are looked up, guards that are known already
//! decide which sides of ternaries count, and the type rules run. No pass depends on the depth of the
//! tree.

use std::sync::Arc;

use super::diagnostic::{BindError, BindErrorKind};
use super::dialect::{Dialect, Level};
use super::functions::Call;
use super::meta::Meta;
use super::nodes::binary::Scaling;
use super::nodes::ternary::{Absent, Selection};
use super::nodes::{BrokenRule, Operand, Rules, binary, constant, ternary, unary};
use super::tree::{BinaryOp, Kind, NodeId, Tags, Tree};
use pcp_model::{PmError, Pmid, ValueType};

/// A definition bound in a context.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The expression, with nested definitions put in place.
    pub tree: Arc<Tree>,
    /// What is known of each node, in the order of the tree.
    pub nodes: Vec<BoundNode>,
    /// The release whose rules hold for its evaluation.
    pub(super) level: Level,
}

impl Bound {
    /// Metadata of the whole expression.
    pub fn meta(&self) -> Meta {
        self.nodes.last().map_or(Meta::unknown(), |node| node.meta)
    }

    /// A node's metadata and facts.
    pub fn node(&self, id: NodeId) -> &BoundNode {
        // As many as the tree has, by construction.
        &self.nodes[id.index()]
    }

    /// The operand metrics to be fetched, in the order of first appearance. Both sides of a ternary
    /// count, whatever its guard.
    pub fn operands(&self) -> impl Iterator<Item = Pmid> {
        self.nodes.iter().filter_map(|node| match node.fact {
            Fact::Operand(pmid) => Some(pmid),
            _ => None,
        })
    }
}

/// What is known of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundNode {
    /// Its metadata.
    pub meta: Meta,
    /// What else.
    pub fact: Fact,
    /// Whether it is evaluated: not on the side of a ternary that its guard never selects.
    pub active: bool,
}

/// What is known of some kinds of nodes only.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fact {
    /// Nothing.
    None,
    /// A metric's PMID.
    Operand(Pmid),
    /// A metric that does not exist, or a constant with such a metric's metadata.
    Unknown,
    /// A metric that does not exist and never has values.
    NoValue,
    /// Whether the metric of `defined()` exists.
    Defined(bool),
    /// How operands are brought to one scale.
    Scaled(Scaling),
    /// Which side of a ternary counts, if its guard is known.
    Guard(Option<Selection>),
}

/// What a name is.
pub(super) enum Resolved {
    /// A metric of the source.
    Real(Pmid),
    /// A derived metric.
    Derived(Pmid),
    /// Neither.
    Unknown,
}

/// Answers the binder's questions about names.
pub(super) trait Names {
    fn resolve(&mut self, name: &str) -> Resolved;
    /// Metadata of a real metric.
    fn meta(&mut self, pmid: Pmid) -> Result<Meta, PmError>;
    /// A derived metric, bound for this purpose if it is not yet.
    fn derived(&mut self, pmid: Pmid) -> Result<Arc<Bound>, NotBound>;
}

/// Why a derived operand is not bound.
pub(super) enum NotBound {
    /// Its definition is wrong.
    Broken,
    /// It needs itself: the names from it to itself.
    Cycle(Vec<Arc<str>>),
    /// Definitions use definitions through too many levels.
    TooDeep,
}

/// How to bind.
pub(super) struct Binder<'a> {
    pub dialect: &'a Dialect,
    pub rules: Rules<'a>,
    /// Whether the definition is one of the context's own: then PCP looks `meta=` up but ignores it.
    pub per_context: bool,
}

/// Nodes that a definition may have when definitions in it are put in place.
pub const MAX_NODES: usize = 1 << 16;

type Result<T, E = BindError> = std::result::Result<T, E>;

impl Binder<'_> {
    /// Binds a definition.
    pub(crate) fn bind(&self, tree: &Arc<Tree>, names: &mut dyn Names) -> Result<Bound> {
        let expanded;
        let tree = if self.dialect.beyond_pcp {
            expanded = self.expand(tree, names)?;
            expanded.as_ref().unwrap_or(tree)
        } else {
            tree
        };
        let mut nodes = self.look_up(tree, names)?;
        // 6.0.3 looks at guards only when it evaluates.
        if self.dialect.level >= Level::V638 {
            decide_guards(tree, &mut nodes);
        }
        self.check(tree, &mut nodes)?;
        Ok(Bound { tree: tree.clone(), nodes, level: self.dialect.level })
    }

    /// Puts the definitions of derived operands in place of their names. `None` if there are none.
    fn expand(&self, tree: &Tree, names: &mut dyn Names) -> Result<Option<Arc<Tree>>> {
        let derived = |kind: &Kind, names: &mut dyn Names| match kind {
            Kind::Metric(name) => match names.resolve(name) {
                Resolved::Derived(pmid) => Some((name.clone(), pmid)),
                _ => None,
            },
            _ => None,
        };
        if !tree.nodes().iter().any(|node| derived(&node.kind, names).is_some()) {
            return Ok(None);
        }
        let mut expanded = Tree::default();
        let mut places = Vec::with_capacity(tree.nodes().len());
        for (id, node) in tree.iter() {
            let error = |kind| BindError { node: id, span: node.span, kind, operands: Vec::new() };
            let place = match derived(&node.kind, names) {
                Some((name, pmid)) => {
                    let bound = names.derived(pmid).map_err(|problem| {
                        error(match problem {
                            NotBound::Broken => BindErrorKind::BrokenOperand(name.clone()),
                            NotBound::Cycle(path) => BindErrorKind::Cycle(path),
                            NotBound::TooDeep => BindErrorKind::NestedTooDeeply(name.clone()),
                        })
                    })?;
                    if expanded.nodes().len() + bound.tree.nodes().len() > MAX_NODES {
                        return Err(error(BindErrorKind::NestedTooDeeply(name)));
                    }
                    expanded.graft(&bound.tree, node.span)
                }
                None => expanded.push(node.kind.relocated(&places), node.span),
            };
            places.push(place);
        }
        Ok(Some(Arc::new(expanded)))
    }

    /// The first pass: every name in the expression.
    fn look_up(&self, tree: &Tree, names: &mut dyn Names) -> Result<Vec<BoundNode>> {
        let tolerant = self.below_ternaries(tree);
        let alias = tree.nodes().len() == 1;
        let mut nodes = Vec::with_capacity(tree.nodes().len());
        for (id, node) in tree.iter() {
            let tolerant = tolerant.get(id.index()).copied().unwrap_or(false);
            let error = |kind| BindError { node: id, span: node.span, kind, operands: Vec::new() };
            // What is never checked keeps PCP's zeros, instance domain 0.0 included.
            let mut bound = BoundNode { meta: Meta::unknown(), fact: Fact::None, active: true };
            match &node.kind {
                Kind::Metric(name) => {
                    (bound.meta, bound.fact) = self.metric(name, names, tolerant, alias).map_err(error)?;
                }
                Kind::Constant(number) => {
                    let tags = number.tags.as_ref();
                    let (meta, unknown) = self.tagged(tags, names, tolerant).map_err(error)?;
                    bound.meta = constant::bind(number, meta);
                    bound.fact = unknown;
                }
                Kind::NoValue(tags) => {
                    let (meta, unknown) = self.tagged(Some(tags), names, tolerant).map_err(error)?;
                    bound.meta = constant::bind_novalue(tags, meta);
                    bound.fact = unknown;
                }
                Kind::Anon(value_type) => bound.meta = Meta::scalar(*value_type),
                Kind::Defined(name) => {
                    bound.meta = Meta::scalar(ValueType::U32);
                    bound.fact = Fact::Defined(self.defined(name, names).map_err(error)?);
                }
                _ => {}
            }
            nodes.push(bound);
        }
        Ok(nodes)
    }

    /// Which nodes are below a ternary, where names need not exist.
    fn below_ternaries(&self, tree: &Tree) -> Vec<bool> {
        let mut below = Vec::new();
        if self.dialect.level == Level::V603 {
            return below;
        }
        // Outer ternaries come after what they contain, so each node is marked once.
        let mut marked_from = tree.nodes().len();
        for (at, node) in tree.nodes().iter().enumerate().rev() {
            if at < marked_from && matches!(node.kind, Kind::Ternary { .. }) {
                below.resize(tree.nodes().len(), false);
                let range = node.first.index()..at + 1;
                marked_from = range.start;
                if let Some(marks) = below.get_mut(range) {
                    marks.fill(true);
                }
            }
        }
        below
    }

    fn metric(
        &self,
        name: &str,
        names: &mut dyn Names,
        tolerant: bool,
        alias: bool,
    ) -> Result<(Meta, Fact), BindErrorKind> {
        match names.resolve(name) {
            Resolved::Real(pmid) => {
                let meta = names.meta(pmid).map_err(|code| no_metadata(name, code))?;
                Ok((meta, Fact::Operand(pmid)))
            }
            // A definition that is nothing but a name takes the other's metadata, and 6.0.3 any derived operand.
            Resolved::Derived(pmid) if alias || self.dialect.level == Level::V603 => {
                let bound = names.derived(pmid).map_err(|_| no_metadata(name, PmError::BADDERIVE))?;
                Ok((bound.meta(), Fact::Operand(pmid)))
            }
            Resolved::Derived(_) => Err(BindErrorKind::Nested(name.into())),
            Resolved::Unknown if self.dialect.unknown_is_novalue => {
                Ok((Meta::scalar(ValueType::I32), Fact::NoValue))
            }
            Resolved::Unknown if tolerant => Ok((Meta::unknown(), Fact::Unknown)),
            Resolved::Unknown => Err(BindErrorKind::UnknownOperand(name.into())),
        }
    }

    /// Metadata that `meta=` supplies.
    fn tagged(
        &self,
        tags: Option<&Tags>,
        names: &mut dyn Names,
        tolerant: bool,
    ) -> Result<(Option<Meta>, Fact), BindErrorKind> {
        let Some(name) = tags.and_then(|tags| tags.meta.as_deref()) else {
            return Ok((None, Fact::None));
        };
        let meta = match names.resolve(name) {
            Resolved::Real(pmid) => names.meta(pmid).map_err(|code| no_metadata(name, code))?,
            Resolved::Derived(pmid) => {
                names.derived(pmid).map_err(|_| no_metadata(name, PmError::BADDERIVE))?.meta()
            }
            Resolved::Unknown if self.dialect.unknown_is_novalue => Meta::scalar(ValueType::I32),
            Resolved::Unknown if tolerant => return Ok((Some(Meta::unknown()), Fact::Unknown)),
            Resolved::Unknown => return Err(BindErrorKind::UnknownOperand(name.into())),
        };
        // Looked up all the same: a name that does not exist is an error there, too.
        Ok((Some(meta).filter(|_| !self.per_context), Fact::None))
    }

    fn defined(&self, name: &str, names: &mut dyn Names) -> Result<bool, BindErrorKind> {
        match names.resolve(name) {
            Resolved::Real(pmid) => match names.meta(pmid) {
                Ok(_) => Ok(true),
                Err(code) => Err(no_metadata(name, code)),
            },
            Resolved::Derived(pmid) if self.dialect.beyond_pcp || self.dialect.level == Level::V603 => {
                match names.derived(pmid) {
                    Ok(_) => Ok(true),
                    Err(_) if self.dialect.beyond_pcp => Ok(false),
                    Err(_) => Err(no_metadata(name, PmError::BADDERIVE)),
                }
            }
            Resolved::Derived(_) => Err(BindErrorKind::Nested(name.into())),
            Resolved::Unknown => Ok(false),
        }
    }

    /// The last pass: the type rules, on what counts.
    fn check(&self, tree: &Tree, nodes: &mut [BoundNode]) -> Result<()> {
        let unknown_from = first_unknown(nodes);
        for (id, node) in tree.iter() {
            if !nodes[id.index()].active {
                continue;
            }
            let check = Check { tree, nodes, id, rules: self.rules, unknown_from: &unknown_from };
            let (meta, fact) = match &node.kind {
                // What names mean was settled by the first pass.
                Kind::Metric(_) | Kind::Constant(_) | Kind::NoValue(_) | Kind::Anon(_) | Kind::Defined(_) => {
                    continue;
                }
                &Kind::Negate(x) => (check.negate(x)?, Fact::None),
                &Kind::Not(x) => (unary::bind_not(check.meta(x)), Fact::None),
                &Kind::Binary { op, left, right } => check.binary(op, left, right)?,
                &Kind::Ternary { guard, yes, no } => check.ternary(guard, yes, no)?,
                Kind::Instance(_, x) => (check.meta(*x), Fact::None),
                Kind::Call(call, x) => (check.call(call, *x)?, Fact::None),
            };
            let bound = &mut nodes[id.index()];
            (bound.meta, bound.fact) = (meta, fact);
        }
        Ok(())
    }
}

/// The type rule of one node, whose operands have been through theirs.
struct Check<'a> {
    tree: &'a Tree,
    nodes: &'a [BoundNode],
    id: NodeId,
    rules: Rules<'a>,
    unknown_from: &'a [Option<usize>],
}

impl<'a> Check<'a> {
    fn meta(&self, id: NodeId) -> Meta {
        self.nodes[id.index()].meta
    }

    fn label(&self, id: NodeId) -> Label<'a> {
        Label(self.tree, nodes_fact(self.nodes, id), id)
    }

    /// A broken rule, at a place that PCP puts like this.
    fn broken(&self, context: String, text: BrokenRule) -> BindError {
        let node = self.tree.node(self.id);
        let operands = node.kind.operands().map(|x| (self.tree.node(x).span, self.meta(x))).collect();
        BindError {
            node: self.id,
            span: node.span,
            kind: BindErrorKind::Semantic { context, text },
            operands,
        }
    }

    fn negate(&self, x: NodeId) -> Result<Meta> {
        unary::bind_negate(self.meta(x)).map_err(|text| self.broken(format!("- {}", self.label(x)), text))
    }

    fn binary(&self, op: BinaryOp, left: NodeId, right: NodeId) -> Result<(Meta, Fact)> {
        let operand =
            |id| Operand { meta: self.meta(id), constant: matches!(self.tree.kind(id), Kind::Constant(_)) };
        let context = || format!("{} {} {}", self.label(left), op.symbol(), self.label(right));
        let (meta, scaling) = binary::bind(op, operand(left), operand(right), self.rules)
            .map_err(|text| self.broken(context(), text))?;
        Ok((meta, Fact::Scaled(scaling)))
    }

    fn call(&self, call: &Call, x: NodeId) -> Result<Meta> {
        let context = || call.rules().in_message(self.label(x).text(), self.rules);
        call.rules().bind(self.meta(x), self.rules).map_err(|text| self.broken(context(), text))
    }

    fn ternary(&self, guard: NodeId, yes: NodeId, no: NodeId) -> Result<(Meta, Fact)> {
        let selection = match self.nodes[self.id.index()].fact {
            Fact::Guard(selection) => selection,
            _ => None,
        };
        match selection {
            Some(Selection::Yes) => self.expect_known(yes)?,
            Some(Selection::No) => self.expect_known(no)?,
            None => {
                self.expect_known(yes)?;
                self.expect_known(no)?;
            }
        }
        let is_unknown = |id| nodes_fact(self.nodes, id) == Fact::NoValue;
        // Written out on one side counts before unknown on the other.
        let absent = match (self.tree.kind(yes), self.tree.kind(no)) {
            (Kind::NoValue(_), _) => Absent::Yes,
            (_, Kind::NoValue(_)) => Absent::No,
            _ if is_unknown(yes) => Absent::Yes,
            _ if is_unknown(no) => Absent::No,
            _ => Absent::None,
        };
        let (a, b) = (self.meta(yes), self.meta(no));
        // A side that never counts, or has no values, may be of any type.
        if selection.is_none() && absent == Absent::None {
            let context = || format!("{} : {}", self.label(yes), self.label(no));
            ternary::bind_operands(a, b, self.rules).map_err(|text| self.broken(context(), text))?;
        }
        let context = || format!("{} ? {} : {}", self.label(guard), self.label(yes), self.label(no));
        ternary::bind_guard(self.meta(guard), a, b).map_err(|text| self.broken(context(), text))?;
        Ok((ternary::result(a, b, selection, absent), Fact::Guard(selection)))
    }

    /// Names that do not exist were let through below ternaries; on a side that counts they may not be.
    fn expect_known(&self, side: NodeId) -> Result<()> {
        let range = self.tree.below(side);
        let unknown = self.unknown_from.get(range.start).copied().flatten();
        let Some(unknown) = unknown.filter(|unknown| range.contains(unknown)) else {
            return Ok(());
        };
        let operand = &self.tree.nodes()[unknown];
        Err(BindError {
            node: self.id,
            span: operand.span,
            kind: BindErrorKind::UnknownInTernary(named(&operand.kind)),
            operands: Vec::new(),
        })
    }
}

fn no_metadata(name: &str, code: PmError) -> BindErrorKind {
    BindErrorKind::NoMetadata { name: name.into(), code }
}

fn nodes_fact(nodes: &[BoundNode], id: NodeId) -> Fact {
    nodes.get(id.index()).map_or(Fact::None, |node| node.fact)
}

/// The name that a node looks up.
fn named(kind: &Kind) -> Box<str> {
    match kind {
        Kind::Metric(name) => name.clone(),
        Kind::Constant(constant) => {
            constant.tags.as_ref().and_then(|tags| tags.meta.clone()).unwrap_or_default()
        }
        Kind::NoValue(tags) => tags.meta.clone().unwrap_or_default(),
        _ => {
            debug_assert!(false, "only nodes with names can be unknown");
            Box::default()
        }
    }
}

/// For each node the next one from there on that counts and names a metric which does not exist.
fn first_unknown(nodes: &[BoundNode]) -> Vec<Option<usize>> {
    if !nodes.iter().any(|node| node.fact == Fact::Unknown) {
        return Vec::new();
    }
    let mut next = vec![None; nodes.len()];
    let mut found = None;
    for (at, node) in nodes.iter().enumerate().rev() {
        if node.fact == Fact::Unknown && node.active {
            found = Some(at);
        }
        next[at] = found;
    }
    next
}

/// The second pass: what guards are known to be, and which sides therefore do not count.
fn decide_guards(tree: &Tree, nodes: &mut [BoundNode]) {
    if !tree.nodes().iter().any(|node| matches!(node.kind, Kind::Ternary { .. })) {
        return;
    }
    let mut known: Vec<Option<bool>> = Vec::with_capacity(nodes.len());
    for (id, node) in tree.iter() {
        let of = |id: NodeId| known.get(id.index()).copied().flatten();
        known.push(match &node.kind {
            Kind::Defined(_) => Some(nodes_fact(nodes, id) == Fact::Defined(true)),
            Kind::Constant(number) if constant::is_whole(number, nodes[id.index()].meta.value_type) => {
                let whole = number.digits.split('.').next().unwrap_or_default();
                Some(whole.bytes().any(|digit| digit != b'0'))
            }
            &Kind::Not(x) => of(x).map(|x| !x),
            &Kind::Binary { op: BinaryOp::Or, left, right } => match of(left) {
                Some(false) => of(right),
                left => left,
            },
            &Kind::Binary { op: BinaryOp::And, left, right } => match of(left) {
                Some(true) => of(right),
                left => left,
            },
            _ => None,
        });
    }
    // From the outside in, so that what does not count is marked once.
    for (at, node) in tree.nodes().iter().enumerate().rev() {
        let &Kind::Ternary { guard, yes, no } = &node.kind else {
            continue;
        };
        let selection = known[guard.index()].map(|yes| if yes { Selection::Yes } else { Selection::No });
        nodes[at].fact = Fact::Guard(selection);
        let dead = match selection {
            Some(Selection::Yes) => no,
            Some(Selection::No) => yes,
            None => continue,
        };
        if !nodes[at].active {
            continue;
        }
        let below = tree.nodes()[tree.below(dead)].iter();
        for (node, below) in below.zip(&mut nodes[tree.below(dead)]) {
            below.active = false;
            // PCP says what it is when it checks it, which it does not do here.
            if matches!(node.kind, Kind::Defined(_)) {
                below.meta = Meta::unknown();
            }
        }
    }
}

/// An operand as PCP's messages show it.
struct Label<'a>(&'a Tree, Fact, NodeId);

impl<'a> Label<'a> {
    /// Names and numbers only.
    fn text(&self) -> Option<&'a str> {
        match self.0.kind(self.2) {
            Kind::Metric(name) if self.1 != Fact::NoValue => Some(name),
            Kind::Constant(constant) => Some(&constant.digits),
            _ => None,
        }
    }
}

impl std::fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text().unwrap_or("<expr>"))
    }
}
