//! Binding: from a syntax tree to the metadata of every node (spec `derived-language.md` 8).
//!
//! Three passes over the nodes, each a loop: operands are looked up, guards that are known already
//! decide which sides of ternaries count, and the type rules run. No pass depends on the depth of the
//! tree.

use std::sync::Arc;

use super::diagnostic::{BindError, BindErrorKind};
use super::dialect::{Dialect, Level};
use super::meta::Meta;
use super::nodes::binary::Scaling;
use super::nodes::ternary::{Absent, Selection};
use super::nodes::{
    Operand, Problem, Rules, aggregate, beyond, binary, constant, history, rescale, ternary, unary,
};
use super::tree::{Kind, NodeId, Tags, Tree};
use pcp_model::{Conversion, PmError, Pmid, Units, ValueType};

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
    /// How values are rescaled.
    Conversion(Conversion),
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
    pub fn bind(&self, tree: &Arc<Tree>, names: &mut dyn Names) -> Result<Bound> {
        let expanded;
        let tree = if self.dialect.beyond_pcp {
            expanded = self.expand(tree, names)?;
            expanded.as_ref().unwrap_or(tree)
        } else {
            tree
        };
        let mut nodes = self.look_up(tree, names)?;
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
            let at = id.index();
            if !nodes[at].active {
                continue;
            }
            let problem = |context: String, text: Problem| BindError {
                node: id,
                span: node.span,
                kind: BindErrorKind::Semantic { context, text },
                operands: node.kind.operands().map(|x| (tree.node(x).span, nodes[x.index()].meta)).collect(),
            };
            let label = |id| Label(tree, nodes_fact(nodes, id), id);
            let meta = |id: NodeId| nodes[id.index()].meta;
            let operand =
                |id| Operand { meta: meta(id), constant: matches!(tree.kind(id), Kind::Constant(_)) };
            let call = |word: &str, x| format!("{word}({})", label(x).argument());
            let (result, fact) = match &node.kind {
                Kind::Metric(_) | Kind::Constant(_) | Kind::NoValue(_) | Kind::Anon(_) | Kind::Defined(_) => {
                    continue;
                }
                &Kind::Negate(x) => {
                    let result = unary::bind_negate(meta(x));
                    (result.map_err(|text| problem(format!("- {}", label(x)), text))?, Fact::None)
                }
                &Kind::Not(x) => (unary::bind_not(meta(x)), Fact::None),
                &Kind::Binary { op, left, right } => {
                    let result = binary::bind(op, operand(left), operand(right), self.rules);
                    let context = || format!("{} {} {}", label(left), op.symbol(), label(right));
                    let (meta, scaling) = result.map_err(|text| problem(context(), text))?;
                    (meta, Fact::Scaled(scaling))
                }
                &Kind::Ternary { guard, yes, no } => {
                    let selection = match nodes[at].fact {
                        Fact::Guard(selection) => selection,
                        _ => None,
                    };
                    let sides = match selection {
                        Some(Selection::Yes) => [Some(yes), None],
                        Some(Selection::No) => [None, Some(no)],
                        None => [Some(yes), Some(no)],
                    };
                    for side in sides.into_iter().flatten() {
                        let range = tree.below(side);
                        let unknown = unknown_from.get(range.start).copied().flatten();
                        if let Some(unknown) = unknown.filter(|unknown| range.contains(unknown)) {
                            let operand = &tree.nodes()[unknown];
                            return Err(BindError {
                                node: id,
                                span: operand.span,
                                kind: BindErrorKind::UnknownInTernary(named(&operand.kind)),
                                operands: Vec::new(),
                            });
                        }
                    }
                    let (a, b) = (meta(yes), meta(no));
                    let absent = match (tree.kind(yes), tree.kind(no)) {
                        (Kind::NoValue(_), _) => Absent::Yes,
                        (_, Kind::NoValue(_)) => Absent::No,
                        _ if nodes_fact(nodes, yes) == Fact::NoValue => Absent::Yes,
                        _ if nodes_fact(nodes, no) == Fact::NoValue => Absent::No,
                        _ => Absent::None,
                    };
                    if selection.is_none() && absent == Absent::None {
                        ternary::bind_operands(a, b, self.rules)
                            .map_err(|text| problem(format!("{} : {}", label(yes), label(no)), text))?;
                    }
                    let context = || format!("{} ? {} : {}", label(guard), label(yes), label(no));
                    ternary::bind_guard(meta(guard), a, b).map_err(|text| problem(context(), text))?;
                    (ternary::result(a, b, selection, absent), Fact::Guard(selection))
                }
                &Kind::Aggregate(function, x) => {
                    let result = aggregate::bind(function, meta(x));
                    (result.map_err(|text| problem(call(function.name(), x), text))?, Fact::None)
                }
                &Kind::Delta(x) => {
                    let result = history::bind_delta(meta(x));
                    (result.map_err(|text| problem(call("DELTA", x), text))?, Fact::None)
                }
                &Kind::Rate(x) => {
                    let result = history::bind_rate(meta(x));
                    (result.map_err(|text| problem(call("RATE", x), text))?, Fact::None)
                }
                &Kind::Instant(x) => (history::bind_instant(meta(x)), Fact::None),
                &Kind::Scalar(x) => (aggregate::bind_scalar(meta(x)), Fact::None),
                &Kind::Instance(_, x) | &Kind::Match(_, x) => (meta(x), Fact::None),
                &Kind::Rescale(units, x) => {
                    let context = || format!("{} RESCALE {}", label(x), self.units_text(units));
                    let (meta, conversion) =
                        rescale::bind(meta(x), units, self.rules).map_err(|text| problem(context(), text))?;
                    (meta, Fact::Conversion(conversion))
                }
                &Kind::Beyond(function, x) => {
                    let word = function.word().to_uppercase();
                    let result = beyond::bind(function, meta(x));
                    (result.map_err(|text| problem(call(&word, x), text))?, Fact::None)
                }
            };
            nodes[at].meta = result;
            nodes[at].fact = fact;
        }
        Ok(())
    }

    fn units_text(&self, units: Units) -> String {
        let text = if self.rules.extra_units { units.with_extra().to_string() } else { units.to_string() };
        if text.is_empty() { "none".to_owned() } else { text }
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
        _ => Box::default(),
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
            &Kind::Binary { op: super::tree::BinaryOp::Or, left, right } => match of(left) {
                Some(false) => of(right),
                left => left,
            },
            &Kind::Binary { op: super::tree::BinaryOp::And, left, right } => match of(left) {
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
        if nodes[at].active
            && let Some(nodes) = nodes.get_mut(tree.below(dead))
        {
            nodes.iter_mut().for_each(|node| node.active = false);
        }
    }
}

/// An operand as PCP's messages show it.
struct Label<'a>(&'a Tree, Fact, NodeId);

impl Label<'_> {
    fn text(&self) -> Option<&str> {
        match self.0.kind(self.2) {
            Kind::Metric(name) if self.1 != Fact::NoValue => Some(name),
            Kind::Constant(constant) => Some(&constant.digits),
            _ => None,
        }
    }

    /// As the argument of a function.
    fn argument(&self) -> &str {
        self.text().unwrap_or("(null)")
    }
}

impl std::fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text().unwrap_or("<expr>"))
    }
}
