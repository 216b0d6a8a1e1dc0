//! What `delta` and `rate` remember (`docs/pcp/derived-language.md` 8.4, `docs/pcp/derived-eval.md` 4.14).
//!
//! A node remembers the argument's last values by holding the column that they came in: 12 bytes an instance (8 for 32-bit
//! types), which all nodes share that have seen the same values of a metric last. Nothing is copied.
//! Instances in the same order as before cost one or two passes without a lookup, in vector instructions.

use std::sync::Arc;

use super::{CallNode, Evaluate, Evaluation, OnError};
use crate::column::{Column, Values};
use crate::nodes::pairing::Finder;
use crate::tree::Kind;
use pcp_model::{Inst, PmError, Timestamp};

/// What is made of a value and the one before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Difference {
    /// What lies between them (`delta`).
    Whole,
    /// What lies between them for each second (`rate`).
    PerSecond {
        /// Seconds in the argument's unit of time.
        factor: f64,
        /// Whether instances that went down are left out.
        drops_decreases: bool,
    },
}

/// What kind of argument a node remembers. An error of the argument itself is remembered like values;
/// an error below it ends the evaluation before, and nothing is remembered of that fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Argument {
    /// Anything that the other two are not.
    Expression,
    /// `count`: the zero it makes of an error replaces the newest value, not the one before.
    Count,
    /// What never has a history: `defined`, `anon` and `x[instance]`.
    Forgetful,
}

/// A bound `delta` or `rate`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct History {
    difference: Difference,
    argument: Argument,
}

impl History {
    pub(super) fn new(difference: Difference, node: &CallNode<'_>) -> History {
        let argument = match node.origin {
            Kind::Call(call, _) if call.rules().on_error() == OnError::Recover => Argument::Count,
            // PCP keeps no history of these three, but of what passes their values on it does.
            Kind::Defined(_) | Kind::Anon(_) | Kind::Instance(..) if !node.passed_on => Argument::Forgetful,
            _ => Argument::Expression,
        };
        History { difference, argument }
    }
}

/// A `delta` or `rate` and what it remembers.
#[derive(Debug)]
pub(super) struct Memory {
    node: History,
    last: Last,
    /// When the node was last reached.
    stamp: Timestamp,
    /// For `count`: the value before the last.
    before: Option<u32>,
}

/// What the argument had last.
#[derive(Debug)]
enum Last {
    Nothing,
    Error(PmError),
    Values(Arc<Column>),
}

impl Memory {
    pub(super) fn new(node: History) -> Memory {
        Memory { node, last: Last::Nothing, stamp: Timestamp::default(), before: None }
    }

    /// The argument's values are the zero that `count` made of an error: in PCP it has overwritten the newest
    /// value, so the one before it is what there was last.
    fn take_back(&mut self) {
        self.last = match (&self.last, self.before) {
            (Last::Values(zero), Some(before)) => {
                Last::Values(Arc::new(Column::of(zero.ids.clone(), Values::U32(vec![before]))))
            }
            _ => Last::Nothing,
        };
    }

    /// What [`Memory::take_back`] will want.
    fn value_before(&self) -> Option<u32> {
        match &self.last {
            Last::Values(column) if self.node.argument == Argument::Count => match &column.values {
                Values::U32(values) => values.first().copied(),
                _ => None,
            },
            _ => None,
        }
    }
}

impl Evaluate for Memory {
    /// Fails with the error of the fetch before, if the argument itself had one.
    fn eval(&mut self, now: &Column, out: &mut Column, fetch: &mut Evaluation<'_>) -> Result<(), PmError> {
        out.clear();
        let elapsed = seconds_between(self.stamp, fetch.time);
        self.stamp = fetch.time;
        match self.node.argument {
            Argument::Forgetful => return Ok(()),
            Argument::Count if fetch.operand_recovered => self.take_back(),
            _ => {}
        }
        let before = self.value_before();
        // Also behind an error: the next difference is to these values.
        let result = match std::mem::replace(&mut self.last, Last::Values(Arc::clone(fetch.operand))) {
            Last::Error(error) => Err(error),
            Last::Nothing => Ok(()),
            Last::Values(last) => {
                subtract(self.node.difference, now, &last, elapsed, fetch.finder, out);
                fetch.pool.give(last);
                Ok(())
            }
        };
        self.before = before;
        result
    }

    /// It is seen with the next values.
    fn operand_failed(&mut self, error: PmError) {
        self.last = Last::Error(error);
    }

    fn history(&self) -> Option<&Arc<Column>> {
        match &self.last {
            Last::Values(column) => Some(column),
            Last::Nothing | Last::Error(_) => None,
        }
    }
}

/// Fills `out` with the differences of all instances that were there before, too.
fn subtract(
    difference: Difference,
    now: &Column,
    last: &Column,
    elapsed: f64,
    finder: &mut Finder,
    out: &mut Column,
) {
    let (factor, drops) = match difference {
        Difference::Whole => (1.0, false),
        Difference::PerSecond { factor, drops_decreases } => (factor, drops_decreases),
    };
    let whole = difference == Difference::Whole;
    // All instances are there again, and none is left out: nothing is to be looked for.
    let zip = now.has_instances_of(last) && !(drops && fell(&now.values, &last.values));
    if zip {
        out.take_instances(now);
    }
    let mut pairs = Pairs { now: &now.ids, last: &last.ids, zip, finder, drops };
    let Column { ids, values, .. } = out;
    let per_second = move |difference: f64| difference / elapsed * factor;
    // Whole numbers are subtracted in their type before anything else, so that counters that wrap go on.
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
        (Values::U64(now), Values::U64(last), Values::Double(out)) if whole => {
            pairs.apply(now, last, ids, out, |now, last| now as f64 - last as f64);
        }
        (Values::Float(now), Values::Float(last), Values::Float(out)) => {
            pairs.apply(now, last, ids, out, |now, last| now - last);
        }
        (Values::Double(now), Values::Double(last), Values::Double(out)) if whole => {
            pairs.apply(now, last, ids, out, |now, last| now - last);
        }
        (Values::I32(now), Values::I32(last), Values::Double(out)) => {
            pairs.apply(now, last, ids, out, move |now, last| per_second(f64::from(now.wrapping_sub(last))));
        }
        (Values::U32(now), Values::U32(last), Values::Double(out)) => {
            pairs.apply(now, last, ids, out, move |now, last| per_second(f64::from(now.wrapping_sub(last))));
        }
        (Values::I64(now), Values::I64(last), Values::Double(out)) => {
            pairs.apply(now, last, ids, out, move |now, last| per_second(now.wrapping_sub(last) as f64));
        }
        (Values::U64(now), Values::U64(last), Values::Double(out)) => {
            pairs.apply(now, last, ids, out, move |now, last| per_second(now.wrapping_sub(last) as f64));
        }
        (Values::Float(now), Values::Float(last), Values::Double(out)) => {
            pairs.apply(now, last, ids, out, move |now, last| per_second(f64::from(now - last)));
        }
        (Values::Double(now), Values::Double(last), Values::Double(out)) => {
            pairs.apply(now, last, ids, out, move |now, last| per_second(now - last));
        }
        _ => debug_assert!(false, "the type rules let nothing else through"),
    }
}

/// Whether any value is less than the one before it.
fn fell(now: &Values, last: &Values) -> bool {
    // No early way out, which would cost more than it saves.
    fn any<T: PartialOrd>(now: &[T], last: &[T]) -> bool {
        now.iter().zip(last).fold(false, |fell, (now, last)| fell | (now < last))
    }
    // What a subtraction borrows, in the topmost bit: there is no vector instruction that compares these.
    fn any_wide<T: Copy>(now: &[T], last: &[T], number: impl Fn(T) -> u64) -> bool {
        let borrowed = |now: u64, last: u64| (!now & last) | ((!now | last) & now.wrapping_sub(last));
        let pairs = now.iter().zip(last);
        let all = pairs.fold(0, |all, (&now, &last)| all | borrowed(number(now), number(last)));
        all >> 63 != 0
    }
    match (now, last) {
        (Values::I32(now), Values::I32(last)) => any(now, last),
        (Values::U32(now), Values::U32(last)) => any(now, last),
        (Values::I64(now), Values::I64(last)) => any_wide(now, last, |v| v.cast_unsigned() ^ 1 << 63),
        (Values::U64(now), Values::U64(last)) => any_wide(now, last, |v| v),
        (Values::Float(now), Values::Float(last)) => any(now, last),
        (Values::Double(now), Values::Double(last)) => any(now, last),
        _ => false,
    }
}

struct Pairs<'a> {
    now: &'a [Inst],
    last: &'a [Inst],
    /// Whether these are the same and all count: they have been taken over then.
    zip: bool,
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
        if self.zip {
            out.extend(now.iter().zip(last).map(|(&now, &last)| f(now, last)));
            return;
        }
        self.finder.reset();
        // As many results as the shorter list has values, whatever the other repeats.
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
fn seconds_between(from: Timestamp, to: Timestamp) -> f64 {
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
    use crate::functions::testing::eval_at;
    use pcp_model::ValueType;

    fn column(ids: &[i32], values: &[u32]) -> Column {
        Column::of(ids.to_vec(), Values::U32(values.to_vec()))
    }

    fn delta() -> Memory {
        let node = History { difference: Difference::Whole, argument: Argument::Expression };
        Memory::new(node)
    }

    #[test]
    fn wide_numbers_that_fell_are_seen() {
        let edges = [
            0,
            1,
            2,
            u64::MAX / 2 - 1,
            u64::MAX / 2,
            u64::MAX / 2 + 1,
            u64::MAX / 2 + 2,
            u64::MAX - 1,
            u64::MAX,
        ];
        for now in edges {
            for last in edges {
                let of = |now: u64, last: u64| {
                    let unsigned = fell(&Values::U64(vec![5, now, 7]), &Values::U64(vec![5, last, 6]));
                    let signed = |v: u64| Values::I64(vec![-5, v.cast_signed()]);
                    (unsigned, fell(&signed(now), &signed(last)))
                };
                assert_eq!(
                    of(now, last),
                    (now < last, now.cast_signed() < last.cast_signed()),
                    "{now}, {last}"
                );
            }
        }
    }

    #[test]
    fn differences_pair_by_instance_in_the_current_order() {
        let (mut memory, mut out) = (delta(), Column::new(ValueType::I64));
        eval_at(&mut memory, &column(&[1, 2, 3], &[10, 20, 30]), 1, &mut out).unwrap();
        assert!(out.is_empty());
        eval_at(&mut memory, &column(&[3, 4, 1], &[31, 1, 9]), 2, &mut out).unwrap();
        assert_eq!(out, Column::of(vec![3, 1], Values::I64(vec![1, -1])));
    }

    #[test]
    fn an_error_of_a_metric_is_seen_twice() {
        let (mut memory, mut out) = (delta(), Column::new(ValueType::I64));
        memory.operand_failed(PmError::NAME);
        let values = column(&[-1], &[5]);
        assert_eq!(eval_at(&mut memory, &values, 1, &mut out), Err(PmError::NAME));
        eval_at(&mut memory, &values, 2, &mut out).unwrap();
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
