//! The values of all instances of a metric.

use std::marker::PhantomData;

use super::cell::{Atom, Cell};
use super::handle::Output;
use super::names::{InstanceNames, NamesWalk};
use super::results::{MetricValues, ResultPair, by_type};
use super::scale::ValueConversion;
use pcp_model::{Inst, PmError, ValueType};
use pcp_pdu::ValuesRef;

/// A registered instance domain and its outputs.
#[derive(Debug)]
pub(super) struct IndomRequest {
    /// The metric's place in the fetch.
    metric: usize,
    /// The place of its instances' names; `None` for a metric without instances.
    pub names: Option<usize>,
    conversion: ValueConversion,
    keep: bool,
    max: usize,
    rows: Vec<Cells>,
    /// How many of the rows count.
    num: usize,
    status: Result<(), PmError>,
    /// Places of the values in the order of their instances.
    order: Vec<usize>,
}

#[derive(Debug)]
struct Cells {
    inst: Inst,
    status: Result<(), PmError>,
    cell: Cell,
}

impl IndomRequest {
    pub(super) fn new(
        metric: usize,
        names: Option<usize>,
        conversion: ValueConversion,
        keep: bool,
        max: usize,
    ) -> IndomRequest {
        IndomRequest {
            metric,
            names,
            conversion,
            keep,
            max,
            rows: Vec::new(),
            num: 0,
            status: Err(PmError::VALUE),
            order: Vec::new(),
        }
    }

    /// Whether a fetch has an instance whose name is to be asked for: one without, or one that was not there
    /// before, whose number may have been another's.
    pub(super) fn needs_names(&self, results: &ResultPair<'_>, names: &InstanceNames) -> bool {
        let Ok(values) = results.values(self.metric).now else { return false };
        if names.is_fresh() || !names.is_known() {
            return !names.is_fresh();
        }
        let mut walk = names.walk();
        let mut before = self.rows.iter().take(self.num).map(|row| row.inst).peekable();
        // Mostly in order; if not, a request too many does no harm.
        values.iter().take(self.max).any(|(inst, _)| {
            while before.next_if(|&old| old < inst).is_some() {}
            before.next_if_eq(&inst).is_none() || walk.name(inst).is_none()
        })
    }

    /// Takes the values out of a fetch, or that there were none (`docs/pcp/fetchgroup.md` 8).
    pub(super) fn fill(&mut self, results: Option<&ResultPair<'_>>) {
        let values = results.map(|results| results.values(self.metric));
        let now = values.as_ref().map_or(Err(PmError::VALUE), |values| values.now);
        match now {
            // A discrete metric that is not sent has not changed: its rows stay, with an error only the status says it.
            Ok(now) if self.keep && now.is_empty() => return,
            Err(_) if self.keep => {}
            _ => self.num = 0,
        }
        self.status = match (&values, now) {
            (Some(values), Ok(now)) => by_type!(self.conversion.from, fill_rows(self, values, &now)),
            (_, Err(error)) => Err(error),
            (None, Ok(_)) => Err(PmError::VALUE),
        };
    }

    pub(super) fn rows<'a, T: Output>(&'a self, names: Option<&'a InstanceNames>) -> Rows<'a, T> {
        Rows {
            rows: self.rows.get(..self.num).unwrap_or_default(),
            names: names.map(InstanceNames::walk).unwrap_or_default(),
            status: self.status,
            output: PhantomData,
        }
    }
}

/// Takes the values of all instances, as far as they are wanted.
fn fill_rows<const FROM: i32>(
    request: &mut IndomRequest,
    both: &MetricValues<'_>,
    values: &ValuesRef<'_>,
) -> Result<(), PmError> {
    let IndomRequest { conversion, rows, num, order, names, max, .. } = request;
    let inst_at = |at: usize| values.get(at).map_or(0, |(inst, _)| inst);
    order.clear();
    order.extend(0..values.len());
    // Rows are in the order of instances, agents send what they like. Places are sorted, not values.
    if !values.insts().is_sorted() {
        order.sort_unstable_by_key(|&at| inst_at(at));
    }
    let path = conversion.double_path();
    let mut guess = 0;
    for &at in &*order {
        if num == max {
            return Err(PmError::TOOBIG);
        }
        let Some((inst, value)) = values.get(at) else { break };
        if *num == rows.len() {
            rows.push(Cells { inst, status: Ok(()), cell: Cell::new(conversion.to) });
        }
        let Some(row) = rows.get_mut(*num) else { break };
        row.inst = inst;
        let wanted = names.map(|_| inst);
        row.status = match path.and_then(|path| both.usual::<FROM>(values, wanted, at, path)) {
            Some(value) => {
                guess = at;
                row.cell.set_double(value, conversion.to)
            }
            None => {
                row.cell.reset();
                both.fill(wanted, conversion, value, &mut guess, &mut row.cell)
            }
        };
        // Instances mostly follow each other as they did before.
        guess += 1;
        *num += 1;
    }
    Ok(())
}

/// The values of all instances of a metric, in the order of instances. Iterates over [`Row`]s.
#[derive(Debug)]
pub struct Rows<'a, T> {
    rows: &'a [Cells],
    names: NamesWalk<'a>,
    status: Result<(), PmError>,
    output: PhantomData<fn() -> T>,
}

/// One of [`Rows`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row<'a, V> {
    /// The instance; [`PM_IN_NULL`](pcp_model::PM_IN_NULL) for a metric without instances.
    pub inst: Inst,
    /// Its name, unless it has none.
    pub name: Option<&'a str>,
    /// Its value, or why there is none.
    pub value: Result<V, PmError>,
}

impl<T> Rows<'_, T> {
    /// The status of the metric as a whole: `PM_ERR_TOOBIG` when there were more instances than asked for.
    ///
    /// # Errors
    /// The status, if it is one.
    pub fn status(&self) -> Result<(), PmError> {
        self.status
    }
}

impl<'a, T: Output> Iterator for Rows<'a, T> {
    type Item = Row<'a, T::Ref<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let (row, rest) = self.rows.split_first()?;
        self.rows = rest;
        Some(Row { inst: row.inst, name: self.names.name(row.inst), value: read::<T>(row.status, &row.cell) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.rows.len(), Some(self.rows.len()))
    }
}

impl<T: Output> ExactSizeIterator for Rows<'_, T> {}

/// The value of a cell that has been filled with this outcome.
pub(super) fn read<T: Output>(status: Result<(), PmError>, cell: &Cell) -> Result<T::Ref<'_>, PmError> {
    status.and_then(|()| cell.get().and_then(|atom: Atom<'_>| T::read(atom)).ok_or(PmError::VALUE))
}
