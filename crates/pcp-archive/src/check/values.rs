//! What records of values say, beside what the metadata says of them, and beside each other.
//!
//! Cost: a comparison for each value of a counter in records like those before ([`super::usual`]); in others, one for each value
//! set as well as long as they come in the order they came in before, a look-up otherwise. Kept: the last value of each instance
//! of each counter, some millions at most ([`super::counters`]), those beyond are not compared; and [`MAX_UNDESCRIBED`] metrics
//! that are not described, those beyond are told of together.

use std::mem;
use std::path::Path;

use rustc_hash::FxHashMap;

use super::counters::{Counters, OfMetric};
use super::finding::{Findings, Kind, Told};
use super::usual::{Plan, Plans, Step};
use crate::metadata::Metadata;
use crate::record::Record;
use pcp_model::{Desc, InDom, Inst, PM_IN_NULL, PmError, Pmid, Semantics, ValueType};
use pcp_pdu::{SetRef, Sets, TypedRef, ValueRef, ValuesRef};

/// Metrics that are not described and told of by themselves.
const MAX_UNDESCRIBED: usize = 1 << 16;

/// Bytes of a name that messages show.
const MAX_NAME: usize = 256;

/// What was seen of the metrics so far.
#[derive(Default)]
pub(super) struct Values {
    metrics: Vec<Seen>,
    numbers: FxHashMap<Pmid, usize>,
    undescribed: FxHashMap<Pmid, Told>,
    /// Of those beyond.
    more_undescribed: Told,
    /// The metric that came last.
    last: usize,
    counters: Counters,
    plans: Plans,
}

/// A metric.
struct Seen {
    desc: Desc,
    /// What it is called in messages, once there was one: a name may be so long that it is looked for once only.
    name: Option<Box<str>>,
    /// The one that came behind it the last time.
    next: usize,
    /// Of how its values are sent.
    encoding: Told,
    /// Of values of other types.
    mistyped: Told,
    /// If it is a counter.
    counters: OfMetric,
}

/// Where a record is.
pub(super) type Position<'a> = (&'a Path, u64);

impl Values {
    /// What came before has nothing to do with what comes.
    pub(super) fn mark(&mut self) {
        self.counters.mark();
    }

    pub(super) fn add(
        &mut self,
        record: &Record<'_>,
        metadata: &Metadata,
        findings: &mut Findings,
        position: Position<'_>,
    ) {
        if record.is_mark() {
            self.mark();
        }
        let sets = record.all();
        let mut plans = mem::take(&mut self.plans);
        if let Some(others) = plans.pass(&sets, &mut self.counters) {
            let others = others.iter().filter_map(|at| sets.get(*at));
            others.for_each(|set| self.add_set(set, metadata, findings, position));
        } else {
            sets.iter().for_each(|set| self.add_set(set, metadata, findings, position));
            if plans.is_new(&sets)
                && let Some(plan) = self.plan(&sets)
            {
                plans.keep(plan);
            }
        }
        self.plans = plans;
    }

    /// A plan for records like one whose sets were all added.
    fn plan(&self, sets: &Sets<'_>) -> Option<Plan> {
        Plan::of(sets, |at| {
            let set = sets.get(at)?;
            let seen = self.metrics.get(*self.numbers.get(&set.pmid)?)?;
            let value_type = seen.desc.value_type;
            let Ok(values) = set.values else { return Some((value_type, Vec::new())) };
            let mut steps = Vec::new();
            for (place, inst) in values.insts().enumerate() {
                let at = sets.number_at(at, place, value_type)?;
                if seen.desc.semantics != Semantics::Counter {
                    continue;
                }
                // Those that are not followed now are not later either.
                if let Some(counter) = seen.counters.of(seen.instance(inst)) {
                    steps.push(Step { at: at.try_into().ok()?, counter });
                }
            }
            Some((value_type, steps))
        })
    }

    fn add_set(
        &mut self,
        set: SetRef<'_>,
        metadata: &Metadata,
        findings: &mut Findings,
        position: Position<'_>,
    ) {
        match self.number(set.pmid, metadata) {
            Some(number) => self.add_values(number, set, metadata, findings, position),
            None => self.add_undescribed(set.pmid, findings, position),
        }
    }

    /// The number of a metric that is described.
    #[inline]
    fn number(&mut self, pmid: Pmid, metadata: &Metadata) -> Option<usize> {
        let next = self.metrics.get(self.last).map_or(0, |last| last.next);
        let number = match self.metrics.get(next) {
            Some(seen) if seen.desc.pmid == pmid => next,
            _ => {
                let number = self.look_up(pmid, metadata)?;
                if let Some(last) = self.metrics.get_mut(self.last) {
                    last.next = number;
                }
                number
            }
        };
        self.last = number;
        Some(number)
    }

    fn look_up(&mut self, pmid: Pmid, metadata: &Metadata) -> Option<usize> {
        if let Some(&number) = self.numbers.get(&pmid) {
            return Some(number);
        }
        let desc = metadata.desc(pmid).ok()?;
        let number = self.metrics.len();
        self.numbers.insert(pmid, number);
        let (name, encoding, mistyped, counters) = Default::default();
        self.metrics.push(Seen { desc, name, next: number + 1, encoding, mistyped, counters });
        Some(number)
    }

    fn add_undescribed(&mut self, pmid: Pmid, findings: &mut Findings, position: Position<'_>) {
        let has_room = self.undescribed.len() < MAX_UNDESCRIBED;
        if has_room || self.undescribed.contains_key(&pmid) {
            let told = self.undescribed.entry(pmid).or_default();
            findings.again(told, Kind::Undescribed, position, || format!("{pmid} is not described"));
        } else {
            let told = &mut self.more_undescribed;
            findings.again(told, Kind::Undescribed, position, || "others are not described".to_owned());
        }
    }

    fn add_values(
        &mut self,
        number: usize,
        set: SetRef<'_>,
        metadata: &Metadata,
        findings: &mut Findings,
        position: Position<'_>,
    ) {
        let (Some(seen), Ok(values)) = (self.metrics.get_mut(number), set.values) else { return };
        if values.is_empty() {
            return;
        }
        let (pmid, value_type) = (seen.desc.pmid, seen.desc.value_type);
        let blocks = matches!(values.get(0), Some((_, ValueRef::Block(_))));
        if !blocks && !can_be_in_place(value_type) {
            findings.again(&mut seen.encoding, Kind::Encoding, position, || {
                let name = called(&mut seen.name, metadata, pmid);
                format!("{name}: values in place, which is not the way for its type")
            });
            return;
        }
        let counts = seen.desc.semantics == Semantics::Counter;
        // Any word is such a number.
        if !counts && !blocks && matches!(value_type, ValueType::I32 | ValueType::U32) {
            return;
        }
        for place in 0..values.len() {
            let (inst, value) = match number_at(&values, place, value_type) {
                Ok(Some(number)) if counts => number,
                Ok(_) => continue,
                Err(error) => {
                    findings.again(&mut seen.mistyped, Kind::Value, position, || {
                        let name = called(&mut seen.name, metadata, pmid);
                        format!("{name}: a value is not of its type: {error}")
                    });
                    continue;
                }
            };
            let (inst, counters) = (seen.instance(inst), &mut self.counters);
            let Some(counter) = seen.counters.at(place, inst, counters) else { continue };
            if counters.is_back(counter, value)
                && let Some((before, told)) = counters.before(counter)
            {
                findings.again(told, Kind::Wrap, position, || {
                    let instance = if inst < 0 { String::new() } else { format!("[{inst}]") };
                    let name = called(&mut seen.name, metadata, pmid);
                    format!("{name}{instance}: a counter went from {before} back to {value}")
                });
            }
            counters.keep(counter, value);
        }
    }
}

impl Seen {
    /// The instance that a value is of. Old loggers put anything there where there are no instances.
    fn instance(&self, inst: Inst) -> Inst {
        if self.desc.indom == InDom::NULL { PM_IN_NULL } else { inst }
    }
}

/// The instance and number at a place, if it is a number.
#[inline]
fn number_at(
    values: &ValuesRef<'_>,
    place: usize,
    value_type: ValueType,
) -> Result<Option<(Inst, f64)>, PmError> {
    if let Some(usual) = values.usual_f64(place, value_type) {
        return Ok(Some(usual));
    }
    let Some((inst, value)) = values.get(place) else { return Ok(None) };
    Ok(match value.typed(value_type)? {
        TypedRef::Number(number) => Some((inst, number.to_f64())),
        _ => None,
    })
}

/// Whether values of that type may be in place. Single precision was, once.
fn can_be_in_place(value_type: ValueType) -> bool {
    matches!(value_type, ValueType::I32 | ValueType::U32 | ValueType::Float | ValueType::Unknown)
}

/// What a metric is called, looked for the first time only.
fn called<'a>(known: &'a mut Option<Box<str>>, metadata: &Metadata, pmid: Pmid) -> &'a str {
    known.get_or_insert_with(|| name(metadata, pmid).into())
}

/// What a metric is called in messages, or its number.
pub(super) fn name(metadata: &Metadata, pmid: Pmid) -> String {
    let name = metadata.names.short_name(pmid, MAX_NAME);
    name.map_or_else(|| pmid.to_string(), |name| format!("{name} ({pmid})"))
}
