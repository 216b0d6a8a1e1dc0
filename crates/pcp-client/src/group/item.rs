//! One value of a metric.

use super::cell::{Atom, Cell};
use super::results::{MetricValues, find};
use super::scale::ValueConversion;
use pcp_model::{Inst, PmError};
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

    /// Takes the value out of those of its metric, or that there are none (spec `fetchgroup.md` 7).
    pub(super) fn fill(&mut self, conversions: &[ValueConversion], values: Option<&MetricValues<'_>>) {
        // By reference all the way: this is where a fetch of many items spends its time.
        let (values, now) = match values {
            Some(values) => match &values.now {
                Ok(now) => (values, now),
                Err(error) => return self.fail(*error),
            },
            None => return self.fail(PmError::VALUE),
        };
        if self.keep && now.is_empty() {
            return;
        }
        self.cell.reset();
        self.status = self.take(conversions, values, now);
    }

    fn fail(&mut self, error: PmError) {
        if !self.keep {
            self.cell.reset();
        }
        self.status = Err(error);
    }

    #[inline]
    fn take(
        &mut self,
        conversions: &[ValueConversion],
        values: &MetricValues<'_>,
        now: &ValuesRef<'_>,
    ) -> Result<(), PmError> {
        let conversion = conversions.get(self.conversion as usize).ok_or(PmError::VALUE)?;
        // Where the value was before is where it may be now.
        let mut before = self.hint as usize;
        let mut guess = before;
        let value = find(now, self.inst, &mut guess).ok_or(PmError::VALUE)?;
        self.hint = guess as u32;
        values.fill(self.inst, conversion, value, &mut before, &mut self.cell)
    }
}
