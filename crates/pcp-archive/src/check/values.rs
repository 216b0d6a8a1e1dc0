//! What records of values say, beside what the metadata says of them, and beside each other.
//!
//! Cost: a look-up for each value set, one more for each value of a counter. Kept: the last value of each instance of each
//! counter, [`MAX_COUNTERS`] of them at most; those beyond are not compared.

use std::path::Path;

use rustc_hash::FxHashMap;

use super::finding::{Findings, Kind};
use crate::metadata::Metadata;
use crate::record::Record;
use pcp_model::{Desc, InDom, Inst, PM_IN_NULL, Pmid, Semantics, ValueType};
use pcp_pdu::{SetRef, TypedRef, ValueRef};

/// Counters that are followed.
const MAX_COUNTERS: usize = 4 << 20;

/// What was seen of the metrics so far.
#[derive(Default)]
pub(super) struct Values {
    metrics: FxHashMap<Pmid, Seen>,
    counters: usize,
    /// Grows with each mark: what is of another stretch is not compared.
    stretch: u32,
}

struct Seen {
    /// Its number among the metrics.
    number: u64,
    desc: Option<Desc>,
    last: FxHashMap<Inst, (u32, f64)>,
}

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
        file: &Path,
        at: u64,
    ) {
        if record.is_mark() {
            self.mark();
        }
        for set in record.sets() {
            self.add_set(set, metadata, findings, file, at);
        }
    }

    fn add_set(
        &mut self,
        set: SetRef<'_>,
        metadata: &Metadata,
        findings: &mut Findings,
        file: &Path,
        at: u64,
    ) {
        let pmid = set.pmid;
        let number = self.metrics.len() as u64;
        let seen = self.metrics.entry(pmid).or_insert_with(|| Seen {
            number,
            desc: metadata.desc(pmid).ok(),
            last: FxHashMap::default(),
        });
        let Some(desc) = seen.desc else {
            findings.again((Kind::Undescribed, seen.number), file, at, || format!("{pmid} is not described"));
            return;
        };
        let Ok(values) = set.values else { return };
        if values.is_empty() {
            return;
        }
        let blocks = matches!(values.get(0), Some((_, ValueRef::Block(_))));
        if !blocks && !can_be_in_place(desc.value_type) {
            findings.again((Kind::Encoding, seen.number), file, at, || {
                format!("{}: values in place, which is not the way for its type", name(metadata, pmid))
            });
            return;
        }
        let counts = desc.semantics == Semantics::Counter;
        for place in 0..values.len() {
            let (inst, value) = match values.usual_f64(place, desc.value_type) {
                Some((_, _)) if !counts => continue,
                Some(usual) => usual,
                None => {
                    let Some((inst, value)) = values.get(place) else { continue };
                    match value.typed(desc.value_type) {
                        Ok(TypedRef::Number(number)) => (inst, number.to_f64()),
                        Ok(_) => continue,
                        Err(error) => {
                            findings.again((Kind::Value, seen.number), file, at, || {
                                format!("{}: a value is not of its type: {error}", name(metadata, pmid))
                            });
                            continue;
                        }
                    }
                }
            };
            if !counts {
                continue;
            }
            // Old loggers put anything there where there are no instances.
            let inst = if desc.indom == InDom::NULL { PM_IN_NULL } else { inst };
            match seen.last.get_mut(&inst) {
                Some((stretch, last)) => {
                    if *stretch == self.stretch && value < *last {
                        let about = seen.number << 32 | u64::from(inst as u32);
                        let before = *last;
                        findings.again((Kind::Wrap, about), file, at, || {
                            let instance = if inst < 0 { String::new() } else { format!("[{inst}]") };
                            format!(
                                "{}{instance}: a counter went from {before} back to {value}",
                                name(metadata, pmid)
                            )
                        });
                    }
                    (*stretch, *last) = (self.stretch, value);
                }
                None if self.counters < MAX_COUNTERS => {
                    self.counters += 1;
                    seen.last.insert(inst, (self.stretch, value));
                }
                None => {}
            }
        }
    }
}

/// Whether values of that type may be in place. Single precision was, once.
fn can_be_in_place(value_type: ValueType) -> bool {
    matches!(value_type, ValueType::I32 | ValueType::U32 | ValueType::Float | ValueType::Unknown)
}

/// What a metric is called, or its number.
pub(super) fn name(metadata: &Metadata, pmid: Pmid) -> String {
    metadata
        .names
        .names_of(pmid)
        .into_iter()
        .next()
        .map_or_else(|| pmid.to_string(), |name| format!("{name} ({pmid})"))
}
