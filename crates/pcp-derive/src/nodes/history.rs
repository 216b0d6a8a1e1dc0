//! `delta`, `rate` and `instant` (spec `derived-language.md` 8.4, `derived-eval.md` 4.14 and 4.15).
//!
//! A node remembers the argument's last values as one column: 12 bytes an instance (8 for 32-bit
//! types), nothing more. Lists in the same order as before cost one pass without a lookup.

use super::Problem;
use super::pairing::Finder;
use crate::column::{Column, Values};
use crate::dialect::Level;
use crate::meta::Meta;
use pcp_model::{Inst, PmError, Semantics, Timestamp, ValueType};

/// The type rule of `delta`.
pub(crate) fn bind_delta(x: Meta) -> Result<Meta, Problem> {
    if !x.is_numeric() {
        return Err("Non-arithmetic operand for function");
    }
    let value_type = match x.value_type {
        ValueType::U32 => ValueType::I64,
        ValueType::U64 => ValueType::Double,
        value_type => value_type,
    };
    Ok(Meta { value_type, ..x }.instant())
}

/// The scale of seconds.
const SECOND: u8 = 3;

/// The type rule of `rate`.
pub(crate) fn bind_rate(x: Meta) -> Result<Meta, Problem> {
    if !x.is_numeric() {
        return Err("Non-arithmetic operand for function");
    }
    let mut units = x.units;
    (units.dim_time, units.scale_time) = match units.dim_time {
        0 => (-1, SECOND),
        1 => (0, 0),
        _ => return Err("Incorrect time dimension for operand"),
    };
    Ok(Meta { value_type: ValueType::Double, units, ..x }.instant())
}

/// The type rule of `instant`.
pub(crate) fn bind_instant(x: Meta) -> Meta {
    if x.is_counter() { x.instant() } else { x }
}

/// Seconds in the argument's unit of time, for `rate` of times.
pub(crate) fn time_factor(x: Meta) -> f64 {
    match (x.units.dim_time, x.units.scale_time) {
        (1, 0) => 1.0 / 1000.0 / 1000.0 / 1000.0,
        (1, 1) => 1.0 / 1000.0 / 1000.0,
        (1, 2) => 1.0 / 1000.0,
        (1, 4) => 60.0,
        (1, 5) => 3600.0,
        _ => 1.0,
    }
}

/// What kind of argument a node remembers. An error of the argument itself is remembered like values;
/// an error below it ends the evaluation before, and nothing is remembered of that fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    /// Anything that the other two are not.
    Expression,
    /// `count`: the zero it makes of an error replaces the newest value, not the one before.
    Count,
    /// What never has a history: `defined`, `anon` and `x[instance]`.
    Forgetful,
}

/// A bound `delta` or `rate`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct History {
    /// Whether it is `rate`.
    pub rate: bool,
    pub argument: Argument,
    /// Seconds in the argument's unit of time.
    pub factor: f64,
    /// Whether instances that went down are left out of a rate.
    pub drops_decreases: bool,
}

impl History {
    pub fn new(rate: bool, argument: Argument, x: Meta, level: Level) -> History {
        // PCP forgets the check for type 32.
        let checked = level >= Level::V638 && x.value_type != ValueType::I32;
        let counter = x.semantics == Some(Semantics::Counter);
        History { rate, argument, factor: time_factor(x), drops_decreases: rate && counter && checked }
    }
}

/// What a node remembers.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    last: Last,
    column: Column,
    /// When the node was last reached.
    stamp: Timestamp,
    /// For `count`: the value before the last.
    before: Option<u32>,
}

/// What the argument had last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Nothing,
    Error(PmError),
    Values,
}

impl Memory {
    pub fn new(argument: ValueType) -> Memory {
        let column = Column::new(argument);
        Memory { last: Last::Nothing, column, stamp: Timestamp::default(), before: None }
    }

    /// The argument itself has an error: the node is not reached.
    pub fn remember_error(&mut self, error: PmError) {
        self.last = Last::Error(error);
    }

    /// Bytes held for remembered values.
    pub fn bytes(&self) -> usize {
        let value = match &self.column.values {
            Values::I32(values) => 4 * values.capacity(),
            Values::U32(values) => 4 * values.capacity(),
            Values::Float(values) => 4 * values.capacity(),
            Values::I64(values) => 8 * values.capacity(),
            Values::U64(values) => 8 * values.capacity(),
            Values::Double(values) => 8 * values.capacity(),
            Values::Other(_) => 0,
        };
        value + 4 * self.column.ids.capacity()
    }

    /// Evaluates the node, with the argument's values of this fetch. `failed`: whether they are the zero
    /// that `count` made of an error.
    ///
    /// # Errors
    /// The error of the fetch before, if the argument itself had one.
    pub fn eval(
        &mut self,
        node: &History,
        now: &Column,
        failed: bool,
        time: Timestamp,
        finder: &mut Finder,
        out: &mut Column,
    ) -> Result<(), PmError> {
        out.clear();
        let elapsed = seconds_between(self.stamp, time);
        self.stamp = time;
        if node.argument == Argument::Forgetful {
            return Ok(());
        }
        if failed {
            // The newest value is replaced, so the one before it is what there was last.
            if let (Values::U32(values), Some(before)) = (&mut self.column.values, self.before) {
                values.clear();
                values.push(before);
            } else {
                self.last = Last::Nothing;
            }
        }
        let before = match &self.column.values {
            Values::U32(values) if node.argument == Argument::Count && self.last == Last::Values => {
                values.first().copied()
            }
            _ => None,
        };
        let result = match self.last {
            Last::Error(error) => Err(error),
            Last::Nothing => Ok(()),
            Last::Values => {
                difference(node, now, &self.column, elapsed, finder, out);
                Ok(())
            }
        };
        self.last = Last::Values;
        self.column.copy_from(now);
        self.before = before;
        result
    }
}

/// Places of the last value of each current value, or that all are in the same place.
fn difference(
    node: &History,
    now: &Column,
    last: &Column,
    elapsed: f64,
    finder: &mut Finder,
    out: &mut Column,
) {
    let mut pairs = Pairs { now: &now.ids, last: &last.ids, finder, drops: node.drops_decreases };
    let Column { ids, values } = out;
    let per_second = |difference: f64| difference / elapsed * node.factor;
    match (&now.values, &last.values, values) {
        (Values::I32(now), Values::I32(last), Values::I32(out)) => {
            pairs.apply(now, last, ids, out, i32::wrapping_sub);
        }
        (Values::U32(now), Values::U32(last), Values::I64(out)) => {
            pairs.apply(now, last, ids, out, |now, last| i64::from(now) - i64::from(last));
        }
        (Values::I64(now), Values::I64(last), Values::I64(out)) => {
            pairs.apply(now, last, ids, out, i64::wrapping_sub);
        }
        (Values::U64(now), Values::U64(last), Values::Double(out)) if !node.rate => {
            pairs.apply(now, last, ids, out, |now, last| now as f64 - last as f64);
        }
        (Values::Float(now), Values::Float(last), Values::Float(out)) => {
            pairs.apply(now, last, ids, out, |now, last| now - last);
        }
        (Values::Double(now), Values::Double(last), Values::Double(out)) if !node.rate => {
            pairs.apply(now, last, ids, out, |now, last| now - last);
        }
        (Values::I32(now), Values::I32(last), Values::Double(out)) => {
            pairs.apply(now, last, ids, out, |now, last| per_second(f64::from(now.wrapping_sub(last))));
        }
        (Values::U32(now), Values::U32(last), Values::Double(out)) => {
            pairs.apply(now, last, ids, out, |now, last| per_second(f64::from(now.wrapping_sub(last))));
        }
        (Values::I64(now), Values::I64(last), Values::Double(out)) => {
            pairs.apply(now, last, ids, out, |now, last| per_second(now.wrapping_sub(last) as f64));
        }
        (Values::U64(now), Values::U64(last), Values::Double(out)) => {
            pairs.apply(now, last, ids, out, |now, last| per_second(now.wrapping_sub(last) as f64));
        }
        (Values::Float(now), Values::Float(last), Values::Double(out)) => {
            pairs.apply(now, last, ids, out, |now, last| per_second(f64::from(now - last)));
        }
        (Values::Double(now), Values::Double(last), Values::Double(out)) => {
            pairs.apply(now, last, ids, out, |now, last| per_second(now - last));
        }
        // The type rules let nothing else through.
        _ => {}
    }
}

struct Pairs<'a> {
    now: &'a [Inst],
    last: &'a [Inst],
    finder: &'a mut Finder,
    drops: bool,
}

impl Pairs<'_> {
    fn apply<T: Copy + PartialOrd, R>(
        &mut self,
        now: &[T],
        last: &[T],
        ids: &mut Vec<Inst>,
        out: &mut Vec<R>,
        f: impl Fn(T, T) -> R,
    ) {
        if self.now == self.last && !self.drops {
            ids.extend_from_slice(self.now);
            out.extend(now.iter().zip(last).map(|(&now, &last)| f(now, last)));
            return;
        }
        self.finder.reset();
        let limit = now.len().min(last.len());
        for (i, (&inst, &value)) in self.now.iter().zip(now).enumerate() {
            if out.len() >= limit {
                break;
            }
            let place = match self.last.get(i) {
                Some(&other) if other == inst => Some(i),
                _ => self.finder.first(self.last, inst),
            };
            if let Some(&old) = place.and_then(|place| last.get(place))
                && !(self.drops && value < old)
            {
                ids.push(inst);
                out.push(f(value, old));
            }
        }
    }
}

/// Seconds from one time to another, computed as x86 does in extended precision: the nanoseconds are
/// divided by 10^9 with 64 bits, the seconds added with 64 bits, and the sum rounded to a double.
pub(crate) fn seconds_between(from: Timestamp, to: Timestamp) -> f64 {
    let nanoseconds = to.as_nanos() - from.as_nanos();
    let (sec, nsec) = (nanoseconds.div_euclid(1_000_000_000), nanoseconds.rem_euclid(1_000_000_000));
    if nsec == 0 {
        return sec as f64;
    }
    let magnitude = nsec.unsigned_abs();
    // So many binary places that the quotient has 64 significant bits (or 65: the rounding sees to that).
    let places = 63 + (1_000_000_000u128 / magnitude).max(1).ilog2() + 1;
    let quotient = divide_to_64_bits(magnitude << places, 1_000_000_000);
    let quotient = quotient as i128;
    // Whole seconds below 2^30 leave room for all places; beyond that the nanoseconds' tail is lost anyway.
    let (places, quotient) =
        if sec.unsigned_abs() < 1 << 30 { (places, quotient) } else { (40, quotient >> (places - 40)) };
    let sum = (sec << places) + quotient;
    let negative = sum < 0;
    let rounded = round_to_64_bits(sum.unsigned_abs());
    // From integers of at most 64 significant bits `as` rounds once; the power of two is exact.
    let value = rounded as f64 / 2f64.powi(places as i32);
    if negative { -value } else { value }
}

/// A quotient rounded to 64 significant bits, halves to even.
fn divide_to_64_bits(dividend: u128, divisor: u128) -> u128 {
    let (quotient, rest) = (dividend / divisor, dividend % divisor);
    let surplus = (128 - quotient.leading_zeros()).saturating_sub(64);
    if surplus == 0 {
        let up = rest * 2 > divisor || rest * 2 == divisor && quotient & 1 == 1;
        return quotient + u128::from(up);
    }
    // What was cut off counts as "something" below the bits that are there.
    round_bits(quotient, surplus, rest != 0)
}

fn round_to_64_bits(value: u128) -> u128 {
    let surplus = (128 - value.leading_zeros()).saturating_sub(64);
    if surplus == 0 { value } else { round_bits(value, surplus, false) }
}

fn round_bits(value: u128, surplus: u32, more: bool) -> u128 {
    let (kept, cut) = (value >> surplus, value & ((1 << surplus) - 1));
    let half = 1u128 << (surplus - 1);
    let up = cut > half || cut == half && (more || kept & 1 == 1);
    (kept + u128::from(up)) << surplus
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(ids: &[i32], values: &[u32]) -> Column {
        Column { ids: ids.to_vec(), values: Values::U32(values.to_vec()) }
    }

    #[test]
    fn differences_pair_by_instance_in_the_current_order() {
        let node =
            History { rate: false, argument: Argument::Expression, factor: 1.0, drops_decreases: false };
        let mut memory = Memory::new(ValueType::U32);
        let mut out = Column::new(ValueType::I64);
        let finder = &mut Finder::default();
        memory
            .eval(&node, &column(&[1, 2, 3], &[10, 20, 30]), false, Timestamp::new(1, 0), finder, &mut out)
            .unwrap();
        assert!(out.is_empty());
        memory
            .eval(&node, &column(&[3, 4, 1], &[31, 1, 9]), false, Timestamp::new(2, 0), finder, &mut out)
            .unwrap();
        assert_eq!(out, Column { ids: vec![3, 1], values: Values::I64(vec![1, -1]) });
    }

    #[test]
    fn an_error_of_a_metric_is_seen_twice() {
        let node =
            History { rate: false, argument: Argument::Expression, factor: 1.0, drops_decreases: false };
        let mut memory = Memory::new(ValueType::U32);
        let mut out = Column::new(ValueType::I64);
        let finder = &mut Finder::default();
        memory.remember_error(PmError::NAME);
        let values = column(&[-1], &[5]);
        let first = memory.eval(&node, &values, false, Timestamp::new(1, 0), finder, &mut out);
        assert_eq!(first, Err(PmError::NAME));
        memory.eval(&node, &values, false, Timestamp::new(2, 0), finder, &mut out).unwrap();
        assert_eq!(out.values, Values::I64(vec![0]));
    }

    #[test]
    fn elapsed_time_is_rounded_once() {
        let between = |a: (i64, u32), b: (i64, u32)| {
            seconds_between(Timestamp::new(a.0, a.1), Timestamp::new(b.0, b.1))
        };
        assert_eq!(between((1, 0), (3, 500_000_000)), 2.5);
        assert_eq!(between((3, 500_000_000), (1, 0)), -2.5);
        assert_eq!(between((1, 1), (1, 1)), 0.0);
        assert_eq!(between((0, 0), (1 << 40, 1)), (1u64 << 40) as f64);
        assert_eq!(between((0, 0), (0, 333_333_333)), 0.333_333_333);
    }
}
