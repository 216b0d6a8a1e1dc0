//! Functions that no PCP has: `topk`, `bottomk`, `quantile`, `stddev`, `abs`, `clamp`.
//!
//! Type rules: the argument must be numeric. `topk` and `bottomk` keep all metadata; `abs` and `clamp`
//! keep type, instances and units and are instant; `quantile` and `stddev` give one DOUBLE, instant,
//! in the argument's units. Of no values there is no value.

use std::cmp::Ordering;

use super::Problem;
use crate::column::{Column, Number, Values};
use crate::meta::Meta;
use crate::tree::BeyondFn;
use pcp_model::{InDom, PM_IN_NULL, ValueType};

/// The type rule.
pub(crate) fn bind(function: BeyondFn, x: Meta) -> Result<Meta, Problem> {
    if !x.is_numeric() {
        return Err("Non-arithmetic operand for function");
    }
    Ok(match function {
        BeyondFn::Extreme { .. } => x,
        BeyondFn::Quantile(_) | BeyondFn::Stddev => {
            Meta { value_type: ValueType::Double, indom: InDom::NULL, ..x }.instant()
        }
        BeyondFn::Abs | BeyondFn::Clamp { .. } => x.instant(),
        BeyondFn::Window { function, .. } => super::window::bind(function, x),
    })
}

/// Memory for the functions that look at values in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct BeyondScratch {
    order: Vec<u32>,
    doubles: Vec<f64>,
}

/// Evaluates a function without a memory.
pub(crate) fn eval(function: BeyondFn, x: &Column, out: &mut Column, scratch: &mut BeyondScratch) {
    out.clear();
    match function {
        BeyondFn::Extreme { n, top } => extremes(n, top, x, out, scratch),
        BeyondFn::Quantile(q) => {
            let values = &mut scratch.doubles;
            values.clear();
            f64::convert(&x.values, values);
            values.sort_unstable_by(f64::total_cmp);
            single(quantile(values, q), out);
        }
        BeyondFn::Stddev => single(stddev(f64::view(&x.values, &mut scratch.doubles)), out),
        BeyondFn::Abs => abs(x, out),
        BeyondFn::Clamp { low, high } => clamp(x, low, high, out),
        // Has a memory, hence a node of its own.
        BeyondFn::Window { .. } => {}
    }
}

fn single(value: Option<f64>, out: &mut Column) {
    if let (Some(value), Values::Double(values)) = (value, &mut out.values) {
        out.ids.push(PM_IN_NULL);
        values.push(value);
    }
}

/// The instances in the order of their values; equal ones stay in the order they came, NaN goes last.
fn extremes(n: u32, top: bool, x: &Column, out: &mut Column, scratch: &mut BeyondScratch) {
    fn sort<T: Number>(values: &[T], top: bool, order: &mut [u32]) {
        // The places are those of these very values.
        let value = |place: u32| values[place as usize];
        let missing = |v: T| v.partial_cmp(&v).is_none();
        order.sort_unstable_by(|&a, &b| {
            let (x, y) = (value(a), value(b));
            let by_value = match x.partial_cmp(&y) {
                Some(order) if top => order.reverse(),
                Some(order) => order,
                None => missing(x).cmp(&missing(y)),
            };
            by_value.then(a.cmp(&b))
        });
    }
    let order = &mut scratch.order;
    order.clear();
    order.extend(0..x.len() as u32);
    match &x.values {
        Values::I32(values) => sort(values, top, order),
        Values::U32(values) => sort(values, top, order),
        Values::I64(values) => sort(values, top, order),
        Values::U64(values) => sort(values, top, order),
        Values::Float(values) => sort(values, top, order),
        Values::Double(values) => sort(values, top, order),
        Values::Other(_) => {}
    }
    for &place in order.iter().take(n as usize) {
        out.push_from(x, place as usize);
    }
}

/// The quantile of sorted values, interpolated between neighbours.
fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = q * last as f64;
    let below = (place.floor() as usize).min(last);
    let (low, high) = (*sorted.get(below)?, *sorted.get((below + 1).min(last))?);
    let fraction = place - place.floor();
    Some(if fraction == 0.0 { low } else { low + (high - low) * fraction })
}

/// The population's standard deviation, from the mean (two passes: no cancellation).
fn stddev(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / n;
    Some(variance.sqrt())
}

fn abs(x: &Column, out: &mut Column) {
    out.ids.extend_from_slice(&x.ids);
    match (&x.values, &mut out.values) {
        (Values::I32(x), Values::I32(out)) => out.extend(x.iter().map(|v| v.wrapping_abs())),
        (Values::I64(x), Values::I64(out)) => out.extend(x.iter().map(|v| v.wrapping_abs())),
        (Values::Float(x), Values::Float(out)) => out.extend(x.iter().map(|v| v.abs())),
        (Values::Double(x), Values::Double(out)) => out.extend(x.iter().map(|v| v.abs())),
        (x, out) => out.copy_from(x),
    }
}

fn clamp(x: &Column, low: f64, high: f64, out: &mut Column) {
    fn each<T: Number>(values: &[T], low: T, high: T, out: &mut Vec<T>) {
        let limit = |v: T| match (v.partial_cmp(&low), v.partial_cmp(&high)) {
            (Some(Ordering::Less), _) => low,
            (_, Some(Ordering::Greater)) => high,
            _ => v,
        };
        out.extend(values.iter().map(|&v| limit(v)));
    }
    out.ids.extend_from_slice(&x.ids);
    // Limits of whole numbers are the whole numbers between them; `as` stops at the ends of the type.
    let (l, h) = (low.ceil(), high.floor());
    match (&x.values, &mut out.values) {
        (Values::I32(x), Values::I32(out)) => each(x, l as i32, h as i32, out),
        (Values::U32(x), Values::U32(out)) => each(x, l as u32, h as u32, out),
        (Values::I64(x), Values::I64(out)) => each(x, l as i64, h as i64, out),
        (Values::U64(x), Values::U64(out)) => each(x, l as u64, h as u64, out),
        (Values::Float(x), Values::Float(out)) => each(x, low as f32, high as f32, out),
        (Values::Double(x), Values::Double(out)) => each(x, low, high, out),
        _ => out.ids.clear(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(function: BeyondFn, values: Values, expected: &[(i32, f64)]) {
        let x = Column { ids: (1..).take(values.len()).collect(), values };
        let value_type = match (&x.values, function) {
            (Values::I32(_), BeyondFn::Extreme { .. } | BeyondFn::Abs | BeyondFn::Clamp { .. }) => {
                ValueType::I32
            }
            _ => ValueType::Double,
        };
        let mut out = Column::new(value_type);
        eval(function, &x, &mut out, &mut BeyondScratch::default());
        let mut doubles = Vec::new();
        f64::convert(&out.values, &mut doubles);
        assert_eq!(out.ids.into_iter().zip(doubles).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn functions_beyond_pcp() {
        let numbers = || Values::I32(vec![3, -7, 9, 3]);
        check(BeyondFn::Extreme { n: 3, top: true }, numbers(), &[(3, 9.0), (1, 3.0), (4, 3.0)]);
        check(BeyondFn::Extreme { n: 1, top: false }, numbers(), &[(2, -7.0)]);
        check(BeyondFn::Abs, numbers(), &[(1, 3.0), (2, 7.0), (3, 9.0), (4, 3.0)]);
        check(
            BeyondFn::Clamp { low: -1.5, high: 3.5 },
            numbers(),
            &[(1, 3.0), (2, -1.0), (3, 3.0), (4, 3.0)],
        );
        check(BeyondFn::Quantile(0.5), numbers(), &[(PM_IN_NULL, 3.0)]);
        check(BeyondFn::Quantile(0.25), Values::Double(vec![4.0, 0.0]), &[(PM_IN_NULL, 1.0)]);
        check(BeyondFn::Stddev, Values::Double(vec![2.0, 4.0]), &[(PM_IN_NULL, 1.0)]);
        check(BeyondFn::Stddev, Values::Double(vec![]), &[]);
        let nan = Values::Double(vec![f64::NAN, 1.0]);
        check(BeyondFn::Extreme { n: 1, top: true }, nan, &[(2, 1.0)]);
    }
}
