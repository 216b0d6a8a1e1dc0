//! One value of a metric.

use super::cell::{Atom, Cell};
use super::results::{MetricValues, by_type, find};
use super::scale::ValueConversion;
use pcp_model::{Inst, PmError, ValueType};
use pcp_pdu::ValuesRef;

/// A registered value and its output. Small, as thousands of them are gone through in each fetch: a cache line.
#[derive(Debug)]
pub(super) struct Item {
    /// The metric's place in the fetch.
    metric: u32,
    /// The place of its conversion, which it shares with others.
    conversion: u32,
    /// The instance, of metrics that have any.
    inst: Option<Inst>,
    /// Where the value was last.
    hint: u32,
    /// The last value stays when there is none now.
    keep: bool,
    cell: Cell,
    status: Result<(), PmError>,
}

const _: () = assert!(size_of::<Item>() <= 64);

impl Item {
    /// An item without a value. `metric` and `conversion` are places in lists of the group.
    pub(super) fn new(
        metric: usize,
        inst: Option<Inst>,
        (at, conversion): (usize, &ValueConversion),
        keep: bool,
    ) -> Item {
        // Lists of places in a PDU are far shorter than 2^32.
        let (metric, at) = (metric as u32, at as u32);
        let cell = Cell::new(conversion.to);
        Item { metric, conversion: at, inst, hint: 0, keep, cell, status: Err(PmError::VALUE) }
    }

    /// The value, or why there is none.
    pub(super) fn value(&self) -> Result<Atom<'_>, PmError> {
        self.status.and_then(|()| self.cell.get().ok_or(PmError::VALUE))
    }

    /// The value, also one of a discrete metric that a fetch with an error has left.
    pub(super) fn kept(&self) -> Option<Atom<'_>> {
        self.cell.get()
    }

    /// The metric's place in the fetch.
    pub(super) fn metric(&self) -> usize {
        self.metric as usize
    }

    /// Whether the other's value is one of the same metric, and taken in the same way.
    pub(super) fn is_like(&self, other: &Item) -> bool {
        (self.metric, self.conversion) == (other.metric, other.conversion)
    }

    fn fail(&mut self, error: PmError) {
        if !self.keep {
            self.cell.reset();
        }
        self.status = Err(error);
    }

    #[inline(never)]
    fn take(
        &mut self,
        conversion: &ValueConversion,
        values: &MetricValues<'_>,
        now: &ValuesRef<'_>,
    ) -> Result<(), PmError> {
        // Where the value was before is where it may be now.
        let mut before = self.hint as usize;
        let mut guess = before;
        let value = find(now, self.inst, &mut guess).ok_or(PmError::VALUE)?;
        self.hint = guess as u32;
        values.fill(self.inst, conversion, value, &mut before, &mut self.cell)
    }
}

/// Takes the values of items that have metric and conversion in common ([`Item::is_like`]) out of those of their metric,
/// or that there are none (`docs/pcp/fetchgroup.md` 7).
pub(super) fn fill(items: &mut [Item], conversions: &[ValueConversion], values: Option<&MetricValues<'_>>) {
    let conversion = items.first().and_then(|item| conversions.get(item.conversion as usize));
    let (Some(conversion), Some(values)) = (conversion, values) else {
        return items.iter_mut().for_each(|item| item.fail(PmError::VALUE));
    };
    match &values.now {
        Ok(now) => by_type!(conversion.from, fill_as(items, conversion, values, now)),
        Err(error) => items.iter_mut().for_each(|item| item.fail(*error)),
    }
}

/// This is where a fetch of many items spends its time.
fn fill_as<const FROM: i32>(
    items: &mut [Item],
    conversion: &ValueConversion,
    values: &MetricValues<'_>,
    now: &ValuesRef<'_>,
) {
    let path = conversion.double_path();
    for item in items {
        if item.keep && now.is_empty() {
            continue;
        }
        let usual = path.and_then(|path| values.usual::<FROM>(now, item.inst, item.hint as usize, path));
        item.status = match usual {
            Some(value) => item.cell.set_double(value, ValueType::Double),
            None => {
                item.cell.reset();
                item.take(conversion, values, now)
            }
        };
    }
}
