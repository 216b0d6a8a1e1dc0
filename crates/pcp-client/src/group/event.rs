//! The values of a field in event records.

use std::marker::PhantomData;

use byteorder::BigEndian;

use super::cell::Cell;
use super::handle::Output;
use super::indom::read;
use super::results::{ResultPair, find};
use super::scalar::Scalar;
use super::scale::{ConversionPath, ValueConversion};
use pcp_event::{ArrayKind, ArrayReader, Param};
use pcp_model::{Inst, PmError, Pmid, Timestamp};
use pcp_pdu::{Fetched, ValueRef, ValuesRef};

/// A registered field and its outputs.
#[derive(Debug)]
pub(super) struct EventRequest {
    /// The event metric's place in the fetch.
    metric: usize,
    inst: Option<Inst>,
    kind: ArrayKind,
    field: Field,
    conversion: ValueConversion,
    max: usize,
    guess: usize,
    rows: Vec<Cells>,
    /// How many of the rows count.
    num: usize,
    status: Result<(), PmError>,
}

#[derive(Debug)]
struct Cells {
    time: Timestamp,
    status: Result<(), PmError>,
    cell: Cell,
}

/// What is taken out of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// `event.flags`: the flags of records that have any.
    Flags,
    /// `event.missed`: how many records one stands for that were missed.
    Missed,
    /// Parameters.
    Param(Pmid),
}

impl EventRequest {
    pub(super) fn new(
        (metric, inst): (usize, Option<Inst>),
        kind: ArrayKind,
        field: Field,
        conversion: ValueConversion,
        max: usize,
    ) -> EventRequest {
        EventRequest {
            metric,
            inst,
            kind,
            field,
            conversion,
            max,
            guess: 0,
            rows: Vec::new(),
            num: 0,
            status: Err(PmError::VALUE),
        }
    }

    /// Takes the values out of a fetch, or that there were none (`docs/pcp/fetchgroup.md` 9).
    pub(super) fn fill(&mut self, results: Option<&ResultPair<'_>>) {
        self.num = 0;
        self.status = results.ok_or(PmError::VALUE).and_then(|results| {
            let values = results.values(self.metric).now?;
            match array(self.kind, &values, self.inst, &mut self.guess)? {
                Some(array) => self.fill_rows(&array),
                None => Ok(()),
            }
        });
    }

    /// The records of a fetch; `None` if the instance has no value.
    pub(super) fn records<'a>(
        &self,
        fetched: &'a Fetched,
    ) -> Result<Option<ArrayReader<'a, BigEndian>>, PmError> {
        let values = fetched.set(self.metric).ok_or(PmError::VALUE)?.values?;
        array(self.kind, &values, self.inst, &mut self.guess.clone())
    }

    fn fill_rows(&mut self, array: &ArrayReader<'_, BigEndian>) -> Result<(), PmError> {
        for record in array.records() {
            match self.field {
                Field::Flags if record.flags.0 != 0 => self.push(record.time, Param::U32(record.flags.0))?,
                Field::Missed => {
                    if let Some(missed) = record.missed() {
                        self.push(record.time, Param::I32(missed))?;
                    }
                }
                Field::Param(field) => {
                    for param in record.params().filter(|param| param.pmid == field) {
                        self.push(record.time, param.value)?;
                    }
                }
                Field::Flags => {}
            }
        }
        Ok(())
    }

    fn push(&mut self, time: Timestamp, param: Param<'_>) -> Result<(), PmError> {
        if self.num == self.max {
            return Err(PmError::TOOBIG);
        }
        if self.num == self.rows.len() {
            self.rows.push(Cells { time, status: Ok(()), cell: Cell::new(self.conversion.to) });
        }
        if let Some(row) = self.rows.get_mut(self.num) {
            row.cell.reset();
            row.time = time;
            row.status = set(&self.conversion, param, &mut row.cell);
            self.num += 1;
        }
        Ok(())
    }

    pub(super) fn status(&self) -> Result<(), PmError> {
        self.status
    }

    pub(super) fn rows<T: Output>(&self) -> EventRows<'_, T> {
        let rows = self.rows.get(..self.num).unwrap_or_default();
        EventRows { rows, status: self.status, output: PhantomData }
    }
}

/// The checked array of an instance.
fn array<'a>(
    kind: ArrayKind,
    values: &ValuesRef<'a>,
    inst: Option<Inst>,
    guess: &mut usize,
) -> Result<Option<ArrayReader<'a, BigEndian>>, PmError> {
    match find(values, inst, guess) {
        Some(ValueRef::Block(array)) => Ok(Some(ArrayReader::new(kind, array)?)),
        Some(ValueRef::InSitu(_)) => Err(PmError::CONV),
        None => Ok(None),
    }
}

fn set(conversion: &ValueConversion, param: Param<'_>, cell: &mut Cell) -> Result<(), PmError> {
    let value = Scalar::of_param(param, conversion.from)?;
    match conversion.path {
        ConversionPath::Plain => cell.set_plain(&value, conversion.to),
        ConversionPath::Double { convert, multiplier, .. } => {
            let value = value.to_f64()?;
            let value = match convert {
                Some(convert) => convert?.f64(value) * multiplier,
                None => value,
            };
            cell.set_double(value, conversion.to)
        }
    }
}

/// The values of a field, in the order of records and of the parameters in them. Iterates over [`EventRow`]s.
#[derive(Debug)]
pub struct EventRows<'a, T> {
    rows: &'a [Cells],
    status: Result<(), PmError>,
    output: PhantomData<fn() -> T>,
}

/// One of [`EventRows`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EventRow<V> {
    /// When it happened: the record's time.
    pub time: Timestamp,
    /// The field's value, or why it is none.
    pub value: Result<V, PmError>,
}

impl<T> EventRows<'_, T> {
    /// The status of the field as a whole: `PM_ERR_TOOBIG` when there were more values than asked for.
    ///
    /// # Errors
    /// The status, if it is one.
    pub fn status(&self) -> Result<(), PmError> {
        self.status
    }
}

impl<'a, T: Output> Iterator for EventRows<'a, T> {
    type Item = EventRow<T::Ref<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let (row, rest) = self.rows.split_first()?;
        self.rows = rest;
        Some(EventRow { time: row.time, value: read::<T>(row.status, &row.cell) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.rows.len(), Some(self.rows.len()))
    }
}

impl<T: Output> ExactSizeIterator for EventRows<'_, T> {}
