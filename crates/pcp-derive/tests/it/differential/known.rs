//! What libpcp crashes on or computes from memory that it never set: the places where results may
//! differ. `docs/differences.md` lists them for users; nothing else is excused. That a definition has such a place
//! excuses nothing by itself: runs of libpcp have to disagree there, or [`rule`] has to say what ours is.

use pcp_derive::{Bound, Call, Dialect, Kind, Level, Node, NodeId, Tree, parse};
use pcp_model::{Inst, PmError, ValueType};

use super::generate::Batch;
use super::judge::Set;
use super::world::{INDOMS, Metric};

/// How libpcp's answer differs: it dies, what it answers depends on memory contents, it is what a rule replaces.
pub(super) const CRASH: &str = "crash";
pub(super) const UNDEFINED: &str = "undefined";
pub(super) const RULE: &str = "by rule";

/// How many sets of values (with [`CRASH`]: definitions) of 20,000 expressions may be let off for a reason: what the
/// fixed seed gives at level 6.0.3 or 6.3.8, and a fifth more.
const MOST: [(&str, &str, usize); 21] = [
    (RULE, NOT_OF_64, 1600),
    (RULE, ENCODING, 8),
    (RULE, REPEATED, 23),
    (RULE, TERNARY_OF_NO_NUMBERS, 14),
    (RULE, HISTORY_OF_LIST, 9),
    (CRASH, NOT_OF_NO_NUMBER, 24),
    (CRASH, TERNARY_OF_NO_NUMBERS, 54),
    (CRASH, INSTANCE_OF_EXPRESSION, 14),
    (CRASH, ANON, 12),
    (CRASH, HISTORY_OF_LIST, 23),
    (CRASH, MATCH_OF_NO_NUMBER, 41),
    (CRASH, NOVALUE_FIRST, 14),
    (CRASH, SCALAR_OF_NOTHING, 20),
    (CRASH, NO_NUMBER_IN_PLACE, 15),
    (UNDEFINED, LENGTHS, 30),
    (UNDEFINED, HISTORY_OF_LIST, 17),
    (UNDEFINED, NOVALUE_FIRST, 18),
    (UNDEFINED, ENCODING, 11),
    (UNDEFINED, REPEATED, 8),
    (UNDEFINED, EXTREMUM_OF_NOTHING, 98),
    (UNDEFINED, SCALAR_OF_NOTHING, 120),
];

/// How many may be let off; none for what is not in the list.
pub(super) fn most(how: &str, why: &str) -> usize {
    MOST.iter().find(|known| (known.0, known.1) == (how, why)).map_or(0, |known| known.2)
}

/// A construct that libpcp does not handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Excuse {
    pub why: &'static str,
    /// It may crash, or damage what other definitions of the process use; else its values may depend on memory contents.
    pub crash: bool,
}

const fn crash(why: &'static str) -> Excuse {
    Excuse { why, crash: true }
}

const fn values(why: &'static str) -> Excuse {
    Excuse { why, crash: false }
}

/// Half of the value is not set; here it is zero, as it is in libpcp where memory is.
pub(super) const NOT_OF_64: &str = "! of 64-bit numbers";
const REPEATED: &str = "delta() or rate() of values with the same instance";
const ENCODING: &str = "delta() or rate() of values in the wrong encoding";

const ANON: &str = "anon() of something that is no type";
const INSTANCE_OF_EXPRESSION: &str = "an instance of an expression (6.0.3)";
const NO_NUMBER_IN_PLACE: &str = "something that is no number in the encoding of 32 bits";
const SCALAR_OF_NOTHING: &str = "scalar() of nothing (6.0.3)";
const MATCH_OF_NO_NUMBER: &str = "matchinst() of something that is no number";
const NOT_OF_NO_NUMBER: &str = "! of something that is no number";
const TERNARY_OF_NO_NUMBERS: &str = "a ternary whose branches are no numbers";
pub(super) const NOVALUE_FIRST: &str = "novalue() where it does not come last";
const LENGTHS: &str = "a ternary over lists of different lengths";
const EXTREMUM_OF_NOTHING: &str = "max() or min() of nothing";
const HISTORY_OF_LIST: &str = "delta() or rate() of matchinst(), instant() or a set constant";
const CONSTANT_NO_NUMBER: &str = "a constant that is no number";

const ANON_TYPES: [&str; 6] =
    ["PM_TYPE_32", "PM_TYPE_U32", "PM_TYPE_64", "PM_TYPE_U64", "PM_TYPE_FLOAT", "PM_TYPE_DOUBLE"];

/// What a definition has of all this.
pub(super) fn excuses(batch: &Batch, k: usize, bound: Option<&Bound>, level: Level) -> Vec<Excuse> {
    let definition = &batch.definitions[k];
    let text = definition.expression.as_str();
    let mut found = Vec::new();
    let anon_type = |rest: &str| rest.split(')').next().unwrap_or_default().trim().to_owned();
    if text.split("anon(").skip(1).any(|rest| !ANON_TYPES.contains(&anon_type(rest).as_str())) {
        found.push(crash(ANON));
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
            found.push(crash(INSTANCE_OF_EXPRESSION));
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
                found.push(crash(NO_NUMBER_IN_PLACE));
            }
            Kind::Call(call, _) if call.word() == "scalar" && level == Level::V603 => {
                found.push(crash(SCALAR_OF_NOTHING))
            }
            Kind::Call(call, x) if call.word() == "matchinst" && !is_number(*x) => {
                found.push(crash(MATCH_OF_NO_NUMBER))
            }
            Kind::Not(x) if !is_number(*x) => found.push(crash(NOT_OF_NO_NUMBER)),
            Kind::Not(x) if matches!(type_of(*x), ValueType::I64 | ValueType::U64 | ValueType::Double) => {
                found.push(values(NOT_OF_64));
            }
            Kind::Ternary { .. } if !is_number(id) => {
                found.push(crash(TERNARY_OF_NO_NUMBERS));
            }
            Kind::Ternary { yes, no, .. } => {
                let novalue = |id: NodeId| matches!(bound.tree.kind(id), Kind::NoValue(_));
                if novalue(*yes) || novalue(*no) {
                    found.push(crash(NOVALUE_FIRST));
                } else if bound.node(id).meta.is_set() || below(id).any(|metric| repeats(batch, metric)) {
                    found.push(values(LENGTHS));
                }
            }
            Kind::Call(call, _) if ["max", "min"].contains(&call.word()) => {
                found.push(values(EXTREMUM_OF_NOTHING));
            }
            Kind::Call(call, x) if ["delta", "rate"].contains(&call.word()) => {
                if below(*x).any(|metric| repeats(batch, metric)) {
                    found.push(crash(REPEATED));
                }
                if below(*x).any(|metric| metric.odd) {
                    found.push(crash(ENCODING));
                }
                let argument = bound.tree.kind(*x);
                let set_constant = matches!(argument, Kind::Constant(_)) && bound.node(*x).meta.is_set();
                let odd = |call: &Call| ["matchinst", "instant"].contains(&call.word());
                if set_constant || matches!(argument, Kind::Call(call, _) if odd(call)) {
                    found.push(crash(HISTORY_OF_LIST));
                }
            }
            Kind::Constant(_) if !is_number(id) => found.push(crash(CONSTANT_NO_NUMBER)),
            _ => {}
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Why a set of values that all libpcps agree about may be another here: what `docs/differences.md` says about the
/// values of the metrics at this fetch and at the one before.
pub(super) fn rule(
    batch: &Batch,
    k: usize,
    theirs: &Set,
    ours: &Set,
    excuses: &[Excuse],
) -> Option<(&'static str, &'static str)> {
    let why = |why| excuses.iter().any(|excuse| excuse.why == why).then_some((why, RULE));
    // A ternary whose branches are no numbers has no values of any kind, whatever is selected.
    if ours.count == PmError::TYPE.0 && theirs.values.is_empty() {
        return why(TERNARY_OF_NO_NUMBERS);
    }
    let before = batch.fetches[..theirs.fetch].iter().rfind(|fetch| fetch.list.contains(&k))?;
    let words = words(&batch.definitions[k].expression);
    let named =
        || batch.world.metrics.iter().enumerate().filter(|(_, metric)| words.contains(&metric.name.as_str()));
    let set = |sample: usize, n: usize| &batch.world.samples[sample].sets[n];
    // What was delivered wrongly is an error, which delta() and rate() see twice.
    if ours.count == PmError::LOGREC.0
        && named().any(|(n, metric)| metric.odd && set(before.sample, n).in_situ)
    {
        return why(ENCODING);
    }
    // A constant that has the instances of a domain does not grow: nothing for each that was there before. The list that
    // libpcp pairs them with is released, so that it finds none of them.
    let text = batch.definitions[k].expression.as_str();
    let constant = ["delta(mkconst(", "rate(mkconst("].iter().any(|start| text.starts_with(start))
        && text.ends_with("))");
    if constant && theirs.values.is_empty() {
        let now = batch.fetches[theirs.fetch].sample;
        let common = |n: usize| {
            let ids = |sample: usize| batch.world.samples[sample].instances[n].iter().map(|(id, _)| *id);
            ids(now).filter(|id| ids(before.sample).any(|other| other == *id)).collect::<Vec<_>>()
        };
        let serial = named().find_map(|(_, metric)| {
            INDOMS.iter().position(|&serial| metric.is_set() && metric.indom.serial() == serial)
        })?;
        let ids: Vec<Inst> = ours.values.iter().filter_map(|(id, _)| id.parse().ok()).collect();
        let still = |value: &str| {
            ["0", "f00000000", "d0000000000000000", "d8000000000000000", "nan"].contains(&value)
        };
        let right = ids == common(serial) && ours.values.iter().all(|(_, value)| still(value));
        return right.then_some(()).and_then(|()| why(HISTORY_OF_LIST));
    }
    // As many values as there were.
    let now = batch.fetches[theirs.fetch].sample;
    let longer = |(n, metric): (usize, &Metric)| {
        let last = set(before.sample, n).values.as_ref().map_or(0, Vec::len);
        repeats_at(batch, metric, now) && theirs.values.len() > last && ours.values == theirs.values[..last]
    };
    if ours.count as usize == ours.values.len() && named().any(longer) {
        return why(REPEATED);
    }
    None
}

/// The names in an expression, and more.
pub(super) fn words(expression: &str) -> Vec<&str> {
    expression.split(|c: char| !(c.is_alphanumeric() || c == '.' || c == '_')).collect()
}

/// The metric that a node names.
fn metric<'a>(batch: &'a Batch, kind: &Kind) -> Option<&'a Metric> {
    match kind {
        Kind::Metric(name) => batch.world.metrics.iter().find(|metric| metric.name == **name),
        _ => None,
    }
}

fn repeats(batch: &Batch, metric: &Metric) -> bool {
    (0..batch.world.samples.len()).any(|sample| repeats_at(batch, metric, sample))
}

/// Whether two values of a sample have one instance.
fn repeats_at(batch: &Batch, metric: &Metric, sample: usize) -> bool {
    let set = &batch.world.samples[sample].sets[usize::from(metric.pmid.item())];
    set.values
        .iter()
        .any(|list| list.iter().enumerate().any(|(n, (id, _))| list[..n].iter().any(|(i, _)| i == id)))
}
