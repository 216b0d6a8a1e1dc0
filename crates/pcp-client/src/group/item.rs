//! One value of a metric.

use super::cell::{Atom, Cell};
use super::sample::{Values, find};
use super::scale::Plan;
use pcp_model::{Inst, PmError};
use pcp_pdu::ValuesRef;

/// A registered value and its output. Small, as thousands of them are gone through in each fetch: a cache line.
#[derive(Debug)]
pub(super) struct Item {
    /// The metric's place in the fetch.
    metric: u32,
    /// The place of its plan, which it shares with others.
    plan: u32,
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
    /// An item without a value. `metric` and `plan` are places in lists of the group.
    pub fn new(metric: usize, inst: Option<Inst>, (at, plan): (usize, &Plan), keep: bool) -> Item {
        // Lists of places in a PDU are far shorter than 2^32.
        let (metric, at) = (metric as u32, at as u32);
        let cell = Cell::new(plan.to);
        Item { metric, plan: at, inst, hint: 0, keep, cell, status: Err(PmError::VALUE) }
    }

    /// The value, or why there is none.
    pub fn value(&self) -> Result<Atom<'_>, PmError> {
        self.status.and_then(|()| self.cell.get().ok_or(PmError::VALUE))
    }

    /// The value, also one of a discrete metric that a fetch with an error has left.
    pub fn kept(&self) -> Option<Atom<'_>> {
        self.cell.get()
    }

    /// The metric's place in the fetch.
    pub fn metric(&self) -> usize {
        self.metric as usize
    }

    /// Takes the value out of those of its metric, or that there are none (spec `fetchgroup.md` 7).
    pub fn fill(&mut self, plans: &[Plan], values: Option<&Values<'_>>) {
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
        self.status = self.take(plans, values, now);
    }

    fn fail(&mut self, error: PmError) {
        if !self.keep {
            self.cell.reset();
        }
        self.status = Err(error);
    }

    #[inline]
    fn take(&mut self, plans: &[Plan], values: &Values<'_>, now: &ValuesRef<'_>) -> Result<(), PmError> {
        let plan = plans.get(self.plan as usize).ok_or(PmError::VALUE)?;
        // Where the value was before is where it may be now.
        let mut before = self.hint as usize;
        let mut guess = before;
        let value = find(now, self.inst, &mut guess).ok_or(PmError::VALUE)?;
        self.hint = guess as u32;
        values.fill(self.inst, plan, value, &mut before, &mut self.cell)
    }
}
