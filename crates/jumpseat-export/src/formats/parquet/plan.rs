//! What becomes of the values of a record, for all records of its layout: found out once, as records differ in little but their numbers.
//!
//! **Cost:** of a record, nothing but what is done with its numbers. Loggers take turns with some groups of metrics, so the last [`KEPT`] plans are
//! there.

use pcp_model::ValueType;
use pcp_pdu::LayoutId;

use super::Place;
use crate::formats::walk::Fixed;

/// Plans kept: as many as archives keep layouts.
const KEPT: usize = 8;

/// Those of the last layouts, the last one behind.
#[derive(Default)]
pub(super) struct Plans(Vec<Plan>);

/// For records of a layout.
pub(super) struct Plan {
    layout: LayoutId,
    /// Numbers of four and of eight bytes without instances: where they are in the record's data, and in a stage.
    pub fours: Vec<(u32, u32)>,
    pub eights: Vec<(u32, u32)>,
    /// The tables of these.
    pub tables: Vec<usize>,
    /// All else: the places of a set in the record, and of its metric in the source.
    pub others: Vec<(usize, usize)>,
}

impl Plans {
    /// The one for a record, until it is put back. `places`: of each metric of the source.
    pub(super) fn take(&mut self, record: &Fixed<'_>, places: &[Place]) -> Plan {
        match self.0.iter().rposition(|plan| plan.layout == record.layout) {
            Some(at) => self.0.remove(at),
            None => Plan::new(record, places),
        }
    }

    /// Puts one back.
    pub(super) fn put(&mut self, plan: Plan) {
        if self.0.len() >= KEPT {
            self.0.remove(0);
        }
        self.0.push(plan);
    }
}

impl Plan {
    fn new(record: &Fixed<'_>, places: &[Place]) -> Plan {
        let (fours, eights, others) = (Vec::new(), Vec::new(), Vec::new());
        let mut plan = Plan { layout: record.layout, fours, eights, tables: Vec::new(), others };
        for (set, metric) in record.metrics() {
            match staged(record, set, places.get(metric)) {
                Some((place, number, table, is_eight)) => {
                    let numbers = if is_eight { &mut plan.eights } else { &mut plan.fours };
                    numbers.push((place, number));
                    plan.tables.push(table);
                }
                None => plan.others.push((set, metric)),
            }
        }
        plan.tables.sort_unstable();
        plan.tables.dedup();
        plan
    }
}

/// Where a number is in the record and in a stage, its table, and whether it has eight bytes, if it is one that goes there.
fn staged(record: &Fixed<'_>, set: usize, place: Option<&Place>) -> Option<(u32, u32, usize, bool)> {
    let Some(&Place::Staged { number, table, value_type }) = place else { return None };
    let at = record.sets.number_at(set, 0, value_type)?;
    let is_eight = matches!(value_type, ValueType::I64 | ValueType::U64 | ValueType::Double);
    Some((u32::try_from(at).ok()?, number, table as usize, is_eight))
}
