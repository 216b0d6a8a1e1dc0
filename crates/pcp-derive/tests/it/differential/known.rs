//! What libpcp crashes on or computes from memory that it never set: the places where results may
//! differ. `docs/differences.md` lists them for users; nothing else is excused.

use pcp_derive::{Bound, Call, Dialect, Kind, Level, Node, NodeId, Tree, parse};
use pcp_model::ValueType;

use super::generate::Batch;
use super::world::Metric;

/// A construct that libpcp does not handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Excuse {
    pub why: &'static str,
    /// It may crash, or damage what other definitions of the process use.
    pub crash: bool,
    /// Its values may depend on memory contents.
    pub values: bool,
}

const fn crash(why: &'static str) -> Excuse {
    Excuse { why, crash: true, values: true }
}

const fn values(why: &'static str) -> Excuse {
    Excuse { why, crash: false, values: true }
}

const ANON_TYPES: [&str; 6] =
    ["PM_TYPE_32", "PM_TYPE_U32", "PM_TYPE_64", "PM_TYPE_U64", "PM_TYPE_FLOAT", "PM_TYPE_DOUBLE"];

/// What a definition has of all this.
pub(super) fn excuses(batch: &Batch, k: usize, bound: Option<&Bound>, level: Level) -> Vec<Excuse> {
    let definition = &batch.definitions[k];
    let text = definition.expression.as_str();
    let mut found = Vec::new();
    let anon_type = |rest: &str| rest.split(')').next().unwrap_or_default().trim().to_owned();
    if text.split("anon(").skip(1).any(|rest| !ANON_TYPES.contains(&anon_type(rest).as_str())) {
        found.push(crash("anon() of something that is no type"));
    }
    // 6.0.3 takes it for a pattern that it has not compiled, and dies even when it frees it unused.
    if level == Level::V603 {
        let tree = parse(text, &Dialect::strict(level));
        let of_expression = |tree: &Tree, kind: &Kind| match kind {
            Kind::Instance(_, x) => {
                let Node { kind, span, .. } = tree.node(*x);
                let behind = text.get(span.end as usize..).unwrap_or_default();
                !(matches!(kind, Kind::Metric(_)) && behind.trim_start().starts_with('['))
            }
            _ => false,
        };
        if tree.is_ok_and(|tree| tree.nodes().iter().any(|node| of_expression(&tree, &node.kind))) {
            found.push(crash("an instance of an expression (6.0.3)"));
        }
    }
    for (id, node) in bound.iter().flat_map(|bound| bound.tree.iter()) {
        let Some(bound) = bound else { continue };
        let type_of = |id: NodeId| bound.node(id).meta.value_type;
        let is_number = |id: NodeId| type_of(id).is_numeric();
        let leaf = |id: NodeId| metric(batch, bound.tree.kind(id));
        let below =
            |id: NodeId| bound.tree.below(id).filter_map(|at| metric(batch, &bound.tree.nodes()[at].kind));
        match &node.kind {
            Kind::Metric(_) if leaf(id).is_some_and(|metric| metric.odd && !is_number(id)) => {
                found.push(crash("something that is no number in the encoding of 32 bits"));
            }
            Kind::Call(call, _) if call.word() == "scalar" && level == Level::V603 => {
                found.push(crash("scalar() of nothing (6.0.3)"))
            }
            Kind::Call(call, x) if call.word() == "matchinst" && !is_number(*x) => {
                found.push(crash("matchinst() of something that is no number"))
            }
            Kind::Not(x) if !is_number(*x) => found.push(crash("! of something that is no number")),
            Kind::Not(x) if matches!(type_of(*x), ValueType::I64 | ValueType::U64 | ValueType::Double) => {
                found.push(values("! of 64-bit numbers"));
            }
            Kind::Ternary { .. } if !is_number(id) => {
                found.push(crash("a ternary whose branches are no numbers"));
            }
            Kind::Ternary { yes, no, .. } => {
                let novalue = |id: NodeId| matches!(bound.tree.kind(id), Kind::NoValue(_));
                if novalue(*yes) || novalue(*no) {
                    found.push(crash("novalue() where it does not come last"));
                } else if bound.node(id).meta.is_set() || below(id).any(|metric| repeats(batch, metric)) {
                    found.push(values("a ternary over lists of different lengths"));
                }
            }
            Kind::Call(call, _) if ["max", "min"].contains(&call.word()) => {
                found.push(values("max() or min() of nothing"));
            }
            Kind::Call(call, x) if ["delta", "rate"].contains(&call.word()) => {
                if below(*x).any(|metric| repeats(batch, metric)) {
                    found.push(crash("delta() or rate() of values with the same instance"));
                }
                if below(*x).any(|metric| metric.odd) {
                    found.push(crash("delta() or rate() of values in the wrong encoding"));
                }
                let argument = bound.tree.kind(*x);
                let set_constant = matches!(argument, Kind::Constant(_)) && bound.node(*x).meta.is_set();
                let odd = |call: &Call| ["matchinst", "instant"].contains(&call.word());
                if set_constant || matches!(argument, Kind::Call(call, _) if odd(call)) {
                    found.push(crash("delta() or rate() of matchinst(), instant() or a set constant"));
                }
            }
            Kind::Constant(_) if !is_number(id) => found.push(crash("a constant that is no number")),
            _ => {}
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The metric that a node names.
fn metric<'a>(batch: &'a Batch, kind: &Kind) -> Option<&'a Metric> {
    match kind {
        Kind::Metric(name) => batch.world.metrics.iter().find(|metric| metric.name == **name),
        _ => None,
    }
}

fn repeats(batch: &Batch, metric: &Metric) -> bool {
    let at = batch.world.metrics.iter().position(|other| other.name == metric.name);
    batch.world.samples.iter().any(|sample| {
        let set = at.and_then(|at| sample.sets.get(at)).and_then(|set| set.values.as_ref().ok());
        set.is_some_and(|list| {
            list.iter().enumerate().any(|(n, (id, _))| list[..n].iter().any(|(i, _)| i == id))
        })
    })
}
