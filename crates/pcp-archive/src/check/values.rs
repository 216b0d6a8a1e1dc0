//! What records of values say, beside what the metadata says of them, and beside each other.
//!
//! Cost: a comparison for each value set and each value of a counter, as long as they come in the order they came in before; a
//! look-up otherwise. Kept: the last value of each instance of each counter, [`MAX_COUNTERS`] of them at most, those beyond are
//! not compared; and [`MAX_UNDESCRIBED`] metrics that are not described, those beyond are told of together.

use std::path::Path;

use rustc_hash::FxHashMap;

use super::finding::{Findings, Kind, Told};
use crate::metadata::Metadata;
use crate::record::Record;
use pcp_model::{Desc, InDom, Inst, PM_IN_NULL, PmError, Pmid, Semantics, ValueType};
use pcp_pdu::{SetRef, TypedRef, ValueRef, ValuesRef};

/// Counters that are followed.
const MAX_COUNTERS: usize = 4 << 20;
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
    counters: usize,
    /// Grows with each mark: what is of another stretch is not compared.
    stretch: u32,
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
    counters: Counters,
}

/// The instances of a counter.
#[derive(Default)]
struct Counters {
    all: Vec<Counter>,
    places: FxHashMap<Inst, usize>,
}

/// The last value of a counter.
struct Counter {
    inst: Inst,
    stretch: u32,
    value: f64,
    told: Told,
}

/// Where a record is.
pub(super) type Position<'a> = (&'a Path, u64);

impl Values {
    /// What came before has nothing to do with what comes.
    pub(super) fn mark(&mut self) {
        self.stretch = self.stretch.wrapping_add(1);
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
        for set in record.sets() {
            match self.number(set.pmid, metadata) {
                Some(number) => self.add_set(number, set, metadata, findings, position),
                None => self.add_undescribed(set.pmid, findings, position),
            }
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

    fn add_set(
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
            // Old loggers put anything there where there are no instances.
            let inst = if seen.desc.indom == InDom::NULL { PM_IN_NULL } else { inst };
            let Some(counter) = seen.counters.at(place, inst, &mut self.counters) else { continue };
            if counter.stretch == self.stretch && value < counter.value {
                let before = counter.value;
                findings.again(&mut counter.told, Kind::Wrap, position, || {
                    let instance = if inst < 0 { String::new() } else { format!("[{inst}]") };
                    let name = called(&mut seen.name, metadata, pmid);
                    format!("{name}{instance}: a counter went from {before} back to {value}")
                });
            }
            (counter.stretch, counter.value) = (self.stretch, value);
        }
    }
}

impl Counters {
    /// The counter of an instance, which is likely to be at that place. `all`: how many there are of all metrics.
    #[inline]
    fn at(&mut self, place: usize, inst: Inst, all: &mut usize) -> Option<&mut Counter> {
        let place = match self.all.get(place) {
            Some(counter) if counter.inst == inst => place,
            _ => match self.places.get(&inst) {
                Some(&place) => place,
                None if *all < MAX_COUNTERS => {
                    *all += 1;
                    self.places.insert(inst, self.all.len());
                    // Less than nothing is before the first value.
                    let (stretch, value, told) = (0, f64::NEG_INFINITY, Told::default());
                    self.all.push(Counter { inst, stretch, value, told });
                    self.all.len() - 1
                }
                None => return None,
            },
        };
        self.all.get_mut(place)
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
