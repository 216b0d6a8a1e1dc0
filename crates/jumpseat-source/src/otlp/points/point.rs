//! A data point as it is in the body.
//!
//! ```text
//! NumberDataPoint                 2 start | 3 time | 4 double | 5 exemplars | 6 sfixed64 | 7 attributes | 8 flags
//! HistogramDataPoint              2 start | 3 time | 4 count | 5 sum | 6 counts | 7 bounds | 8 exemplars | 9 attributes | 10 flags
//!                                 11 min | 12 max
//! ExponentialHistogramDataPoint   1 attributes | 2 start | 3 time | 4 count | 5 sum | 6 scale | 7 zeros | 8 positive | 9 negative
//!                                 10 flags | 11 exemplars | 12 min | 13 max         positive, negative: 1 offset | 2 counts
//! SummaryDataPoint                2 start | 3 time | 4 count | 5 sum | 6 quantiles | 7 attributes | 8 flags
//!                                 quantiles: 1 quantile | 2 value
//! Exemplar                        2 time | 3 double | 4 span id | 5 trace id | 6 sfixed64
//! ```

use super::super::wire::{Fields, Place};
use super::fixed64s;
use crate::delivery::Reason;
use crate::event::Refusal;

/// Most buckets, or quantiles, of a point.
pub(super) const MAX_BUCKETS: usize = 1024;
/// Most buckets of one side of an exponential histogram, empty ones included.
const MAX_EXPONENTIAL: usize = 4096;

/// What kind of point it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    Number,
    Histogram,
    Exponential,
    Summary,
}

/// A number as it was sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sent {
    Int(i64),
    Double(f64),
}

/// A data point; what its kind does not have is empty.
#[derive(Debug, Default)]
pub(super) struct Point {
    pub start: u64,
    pub time: u64,
    /// The series has no value any more.
    pub is_missing: bool,
    pub value: Option<Sent>,
    pub count: u64,
    pub sum: Option<f64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    pub counts: Vec<u64>,
    /// Upper bounds, or quantiles.
    pub bounds: Vec<f64>,
    /// Values of quantiles.
    pub values: Vec<f64>,
    pub scale: i32,
    pub zeros: u64,
    pub positive: Side,
    pub negative: Side,
    /// The newest exemplar.
    pub exemplar: Option<Exemplar>,
    /// Where the attributes are.
    pub attributes: Vec<Place>,
}

/// One side of an exponential histogram.
#[derive(Debug, Default)]
pub(super) struct Side {
    pub offset: i32,
    pub counts: Vec<u64>,
}

/// An exemplar.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Exemplar {
    pub time: u64,
    pub value: Sent,
    pub trace_id: Place,
    pub span_id: Place,
}

impl Point {
    fn clear(&mut self) {
        let Point { counts, bounds, values, positive, negative, attributes, .. } = self;
        for numbers in [counts, &mut positive.counts, &mut negative.counts] {
            numbers.clear();
        }
        bounds.clear();
        values.clear();
        attributes.clear();
        (self.start, self.time, self.count, self.zeros) = (0, 0, 0, 0);
        (self.sum, self.min, self.max, self.value) = (None, None, None, None);
        (self.scale, positive.offset, negative.offset) = (0, 0, 0);
        (self.is_missing, self.exemplar) = (false, None);
    }

    /// Reads the point at this place; `key` gets the bytes of its attributes.
    ///
    /// # Errors
    /// It is malformed, or has more of something than is taken.
    pub(super) fn read(
        &mut self,
        body: &[u8],
        place: Place,
        data: Data,
        key: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        self.clear();
        key.clear();
        let mut fields = Fields::of(body, place);
        loop {
            let at = fields.at();
            let Some((number, wire)) = fields.next()? else { break };
            match (number, data) {
                (7, Data::Number | Data::Summary) | (9, Data::Histogram) | (1, Data::Exponential) => {
                    let place = wire.place(at)?;
                    // With their lengths, so that two are not one.
                    key.extend_from_slice(&(place.len() as u32).to_ne_bytes());
                    key.extend_from_slice(body.get(place.clone()).unwrap_or_default());
                    self.attributes.push(place);
                }
                (2, _) => self.start = wire.fixed64(at)?,
                (3, _) => self.time = wire.fixed64(at)?,
                (4, Data::Number) => self.value = Some(Sent::Double(f64::from_bits(wire.fixed64(at)?))),
                (6, Data::Number) => self.value = Some(Sent::Int(wire.fixed64(at)? as i64)),
                (8, Data::Number | Data::Summary) | (10, Data::Histogram | Data::Exponential) => {
                    self.is_missing = wire.varint(at)? & 1 != 0;
                }
                (5, Data::Number) | (8, Data::Histogram) | (11, Data::Exponential) => {
                    self.exemplar(body, wire.place(at)?)?;
                }
                (4, _) => self.count = wire.fixed64(at)?,
                (5, _) => self.sum = Some(f64::from_bits(wire.fixed64(at)?)),
                (6, Data::Histogram) => {
                    fixed64s(body, wire, at, |count| self.counts.push(count))?;
                    most(self.counts.len(), MAX_BUCKETS + 1, at)?;
                }
                (7, Data::Histogram) => {
                    fixed64s(body, wire, at, |bits| self.bounds.push(f64::from_bits(bits)))?;
                    most(self.bounds.len(), MAX_BUCKETS, at)?;
                }
                (11, Data::Histogram) | (12, Data::Exponential) => {
                    self.min = Some(f64::from_bits(wire.fixed64(at)?));
                }
                (12, Data::Histogram) | (13, Data::Exponential) => {
                    self.max = Some(f64::from_bits(wire.fixed64(at)?));
                }
                (6, Data::Exponential) => self.scale = zigzag(wire.varint(at)?),
                (7, Data::Exponential) => self.zeros = wire.fixed64(at)?,
                (8, Data::Exponential) => self.positive.read(body, wire.place(at)?)?,
                (9, Data::Exponential) => self.negative.read(body, wire.place(at)?)?,
                (6, Data::Summary) => {
                    let (quantile, value) = quantile(body, wire.place(at)?)?;
                    self.bounds.push(quantile);
                    self.values.push(value);
                    most(self.bounds.len(), MAX_BUCKETS, at)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn exemplar(&mut self, body: &[u8], place: Place) -> Result<(), Refusal> {
        let nothing = place.start..place.start;
        let mut exemplar =
            Exemplar { time: 0, value: Sent::Int(0), trace_id: nothing.clone(), span_id: nothing };
        let mut fields = Fields::of(body, place);
        loop {
            let at = fields.at();
            let Some((number, wire)) = fields.next()? else { break };
            match number {
                2 => exemplar.time = wire.fixed64(at)?,
                3 => exemplar.value = Sent::Double(f64::from_bits(wire.fixed64(at)?)),
                4 => exemplar.span_id = wire.place(at)?,
                5 => exemplar.trace_id = wire.place(at)?,
                6 => exemplar.value = Sent::Int(wire.fixed64(at)? as i64),
                _ => {}
            }
        }
        // What leads to no trace tells nobody anything.
        let is_newest = self.exemplar.as_ref().is_none_or(|before| before.time <= exemplar.time);
        if is_newest && !exemplar.trace_id.is_empty() {
            self.exemplar = Some(exemplar);
        }
        Ok(())
    }
}

impl Side {
    fn read(&mut self, body: &[u8], place: Place) -> Result<(), Refusal> {
        let mut fields = Fields::of(body, place);
        loop {
            let at = fields.at();
            let Some((number, wire)) = fields.next()? else { return Ok(()) };
            match number {
                1 => self.offset = zigzag(wire.varint(at)?),
                2 => {
                    match wire {
                        super::Wire::Varint(count) => self.counts.push(count),
                        wire => self.packed(body, wire.place(at)?)?,
                    }
                    most(self.counts.len(), MAX_EXPONENTIAL, at)?;
                }
                _ => {}
            }
        }
    }

    fn packed(&mut self, body: &[u8], place: Place) -> Result<(), Refusal> {
        let at = place.start;
        let mut number = (0_u64, 0_u32);
        for &byte in body.get(place).unwrap_or_default() {
            if number.1 >= 64 || number.1 == 63 && byte > 1 {
                return Err(Refusal::at(at, Reason::Body, "a number of more than 64 bits"));
            }
            number.0 |= u64::from(byte & 0x7f) << number.1;
            number.1 += 7;
            if byte < 0x80 {
                most(self.counts.len() + 1, MAX_EXPONENTIAL, at)?;
                self.counts.push(number.0);
                number = (0, 0);
            }
        }
        match number.1 {
            0 => Ok(()),
            _ => Err(Refusal::at(at, Reason::Body, "packed numbers that are cut short")),
        }
    }
}

fn quantile(body: &[u8], place: Place) -> Result<(f64, f64), Refusal> {
    let (mut quantile, mut value) = (0.0, 0.0);
    let mut fields = Fields::of(body, place);
    loop {
        let at = fields.at();
        match fields.next()? {
            Some((1, wire)) => quantile = f64::from_bits(wire.fixed64(at)?),
            Some((2, wire)) => value = f64::from_bits(wire.fixed64(at)?),
            Some(_) => {}
            None => return Ok((quantile, value)),
        }
    }
}

/// A signed number of 32 bits; what is longer is cut as protobuf does.
fn zigzag(number: u64) -> i32 {
    let number = number as u32;
    (number >> 1) as i32 ^ -((number & 1) as i32)
}

fn most(count: usize, most: usize, at: usize) -> Result<(), Refusal> {
    if count > most {
        return Err(Refusal::at(
            at,
            Reason::Limit,
            "more buckets or quantiles than are taken (1024; 4096 if exponential)",
        ));
    }
    Ok(())
}
