//! What libpcp crashes on or computes from memory that it never set: the places where results may
//! differ. `docs/differences.md` lists them for users; nothing else is excused. That a definition has such a place
//! excuses nothing by itself: runs of libpcp have to disagree there, or [`ruled`] has to say what ours is.

use std::cmp::Ordering;

use pcp_derive::{Bound, Call, Dialect, Kind, Level, Node, NodeId, Tree, parse};
use pcp_model::{Inst, PmError, ValueType};

use super::generate::Batch;
use super::judge::Set;
use super::world::{INDOMS, Metric};

/// How libpcp's answer differs: it dies, what it answers depends on memory contents, it is what a rule replaces.
pub(super) const CRASH: &str = "crash";
pub(super) const UNDEFINED: &str = "undefined";
pub(super) const RULE: &str = "by rule";

/// How many sets of values (with [`CRASH`]: definitions) of 20,000 expressions may be let off for a reason, at level 6.0.3 and
/// at 6.3.8: what the fixed seed gives, and a fifth more.
const MOST: [(&str, &str, usize, usize); 21] = [
    (RULE, NOT_OF_64, 1480, 1600),
    (RULE, ENCODING, 8, 5),
    (RULE, REPEATED, 24, 12),
    (RULE, TERNARY_OF_NO_NUMBERS, 0, 14),
    (RULE, HISTORY_OF_LIST, 0, 8),
    (CRASH, NOT_OF_NO_NUMBER, 20, 24),
    (CRASH, TERNARY_OF_NO_NUMBERS, 44, 54),
    (CRASH, INSTANCE_OF_EXPRESSION, 14, 0),
    (CRASH, ANON, 12, 12),
    (CRASH, HISTORY_OF_LIST, 0, 23),
    (CRASH, MATCH_OF_NO_NUMBER, 33, 41),
    (CRASH, NOVALUE_FIRST, 0, 14),
    (CRASH, SCALAR_OF_NOTHING, 20, 0),
    (CRASH, NO_NUMBER_IN_PLACE, 11, 15),
    (UNDEFINED, LENGTHS, 26, 30),
    (UNDEFINED, HISTORY_OF_LIST, 0, 17),
    (UNDEFINED, NOVALUE_FIRST, 0, 18),
    (UNDEFINED, ENCODING, 11, 11),
    (UNDEFINED, REPEATED, 5, 8),
    (UNDEFINED, EXTREMUM_OF_NOTHING, 98, 90),
    (UNDEFINED, SCALAR_OF_NOTHING, 120, 0),
];

/// How many may be let off at a level, if any may.
pub(super) fn most(level: &str, how: &str, why: &str) -> Option<usize> {
    let &(_, _, first, later) = MOST.iter().find(|known| (known.0, known.1) == (how, why))?;
    Some(if level == "6.0.3" { first } else { later }).filter(|most| *most > 0)
}

/// A construct that libpcp does not handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Excuse {
    pub why: &'static str,
    /// It may crash, or damage what other definitions of the process use; else its values may depend on memory contents.
    pub crash: bool,
    /// The metric that it is about, if the construct is a function right of one.
    pub of: Option<usize>,
    /// The definition is nothing but the construct.
    pub whole: bool,
}

const fn crash(why: &'static str) -> Excuse {
    Excuse { why, crash: true, of: None, whole: false }
}

const fn values(why: &'static str) -> Excuse {
    Excuse { why, crash: false, of: None, whole: false }
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
                found.push(Excuse { whole: id == bound.tree.root(), ..crash(TERNARY_OF_NO_NUMBERS) });
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
                let of = leaf(*x).map(|metric| usize::from(metric.pmid.item()));
                if below(*x).any(|metric| repeats(batch, metric)) {
                    found.push(Excuse { of, ..crash(REPEATED) });
                }
                if below(*x).any(|metric| metric.odd) {
                    found.push(Excuse { of, ..crash(ENCODING) });
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

/// Which sets of values may be ours where all libpcps agree about another: what `docs/differences.md` says for the values of the
/// metrics at this fetch and at the one before. Ours is not looked at here.
pub(super) fn ruled(batch: &Batch, k: usize, theirs: &Set, excuse: &Excuse) -> Vec<Set> {
    let before = || batch.fetches[..theirs.fetch].iter().rfind(|fetch| fetch.list.contains(&k));
    let failed = |error: PmError| vec![Set { fetch: theirs.fetch, count: error.0, values: Vec::new() }];
    match (excuse.why, excuse.of) {
        // Such a ternary has no values of any kind, whatever is selected.
        (TERNARY_OF_NO_NUMBERS, _) if excuse.whole && theirs.count == 0 => failed(PmError::TYPE),
        // What was delivered wrongly is an error, which delta() and rate() of a metric see twice: libpcp pairs with values that
        // were never set, and mostly finds none.
        (ENCODING, Some(n)) if theirs.count == 0 => match before() {
            Some(before) if batch.world.samples[before.sample].sets[n].in_situ => failed(PmError::LOGREC),
            _ => Vec::new(),
        },
        // As many values as there were.
        (REPEATED, Some(n)) => {
            let Some(before) = before() else { return Vec::new() };
            let last = batch.world.samples[before.sample].sets[n].values.as_ref().map_or(0, Vec::len);
            let metric = &batch.world.metrics[n];
            match repeats_at(batch, metric, batch.fetches[theirs.fetch].sample) && theirs.values.len() > last
            {
                true => vec![Set {
                    fetch: theirs.fetch,
                    count: i32::try_from(last).expect("lists are short"),
                    values: theirs.values[..last].to_vec(),
                }],
                false => Vec::new(),
            }
        }
        (HISTORY_OF_LIST, _) if theirs.values.is_empty() => {
            before().map_or(Vec::new(), |before| growth_of_constant(batch, k, theirs, before.sample))
        }
        _ => Vec::new(),
    }
}

/// A constant that has the instances of a domain does not grow: nothing for each that was there before. The list that libpcp
/// pairs them with is released, so that it finds none of them.
fn growth_of_constant(batch: &Batch, k: usize, theirs: &Set, before: usize) -> Vec<Set> {
    let text = batch.definitions[k].expression.as_str();
    let samples = &batch.world.samples;
    let now = batch.fetches[theirs.fetch].sample;
    let zeros: &[&str] = if text.starts_with("delta(mkconst(") {
        &["0", "f00000000", "d0000000000000000"]
    } else if text.starts_with("rate(mkconst(") {
        match samples[now].time.cmp(&samples[before].time) {
            Ordering::Greater => &["d0000000000000000"],
            Ordering::Equal => &["nan"],
            Ordering::Less => &["d8000000000000000"],
        }
    } else {
        return Vec::new();
    };
    let words = words(text);
    let named =
        batch.world.metrics.iter().find(|metric| metric.is_set() && words.contains(&metric.name.as_str()));
    let indom = named.and_then(|metric| INDOMS.iter().position(|&serial| metric.indom.serial() == serial));
    let Some(n) = indom.filter(|_| text.ends_with("))")) else { return Vec::new() };
    let ids = |sample: usize| samples[sample].instances[n].iter().map(|(id, _)| *id);
    let common: Vec<Inst> = ids(now).filter(|id| ids(before).any(|other| other == *id)).collect();
    let grown = |zero: &&str| Set {
        fetch: theirs.fetch,
        count: i32::try_from(common.len()).expect("lists are short"),
        values: common.iter().map(|id| (id.to_string(), (*zero).to_owned())).collect(),
    };
    zeros.iter().map(grown).collect()
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
