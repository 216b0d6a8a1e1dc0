//! `avg count max min sum` and `scalar` (spec `derived-eval.md` 4.13).

use super::Problem;
use crate::column::{Column, Number, Values};
use crate::meta::Meta;
use crate::tree::AggregateFn;
use pcp_model::{InDom, PM_IN_NULL, Semantics, Units, ValueType};

/// The type rule of the functions of a metric.
pub(crate) fn bind(function: AggregateFn, x: Meta) -> Result<Meta, Problem> {
    if function == AggregateFn::Count {
        let semantics = Some(Semantics::Instant);
        return Ok(Meta { units: Units::COUNT, semantics, ..Meta::scalar(ValueType::U32) });
    }
    if !x.is_numeric() {
        return Err("Non-arithmetic operand for function");
    }
    let x = Meta { indom: InDom::NULL, ..x };
    Ok(match function {
        AggregateFn::Avg => Meta { value_type: ValueType::Float, ..x }.instant(),
        AggregateFn::Sum => x,
        _ => x.instant(),
    })
}

/// The type rule of `scalar`.
pub(crate) fn bind_scalar(x: Meta) -> Meta {
    Meta { indom: InDom::NULL, ..x }
}

/// Evaluates `count`, of what may have failed: then it is zero.
pub(crate) fn count(x: Option<&Column>, out: &mut Column) {
    out.clear();
    if let Values::U32(values) = &mut out.values {
        out.ids.push(PM_IN_NULL);
        values.push(x.map_or(0, |x| x.len() as u32));
    }
}

/// Evaluates `avg` and `sum`; of nothing they are zero.
pub(crate) fn sum_or_avg(function: AggregateFn, x: &Column, out: &mut Column) {
    fn sum<T: Number>(values: &[T], add: impl Fn(T, T) -> T) -> T {
        values.iter().fold(T::ZERO, |sum, &value| add(sum, value))
    }
    fn avg(values: impl ExactSizeIterator<Item = f32>) -> f32 {
        let n = values.len() as f32;
        values.fold(0.0, |avg, value| avg + value / n)
    }
    out.clear();
    out.ids.push(PM_IN_NULL);
    match (function, &x.values, &mut out.values) {
        (AggregateFn::Avg, x, Values::Float(out)) => out.push(match x {
            Values::I32(x) => avg(x.iter().map(|&v| v as f32)),
            Values::U32(x) => avg(x.iter().map(|&v| v as f32)),
            Values::I64(x) => avg(x.iter().map(|&v| v as f32)),
            Values::U64(x) => avg(x.iter().map(|&v| v as f32)),
            Values::Float(x) => avg(x.iter().copied()),
            Values::Double(x) => avg(x.iter().map(|&v| v as f32)),
            Values::Other(_) => 0.0,
        }),
        (_, Values::I32(x), Values::I32(out)) => out.push(sum(x, i32::wrapping_add)),
        (_, Values::U32(x), Values::U32(out)) => out.push(sum(x, u32::wrapping_add)),
        (_, Values::I64(x), Values::I64(out)) => out.push(sum(x, i64::wrapping_add)),
        (_, Values::U64(x), Values::U64(out)) => out.push(sum(x, u64::wrapping_add)),
        (_, Values::Float(x), Values::Float(out)) => out.push(sum(x, |a, b| a + b)),
        (_, Values::Double(x), Values::Double(out)) => out.push(sum(x, |a, b| a + b)),
        // The type rule lets nothing else through.
        _ => out.ids.clear(),
    }
}

/// Evaluates `max` and `min`. Of nothing the result stays what it was; NaN never replaces a value, and
/// is never replaced.
pub(crate) fn max_or_min(function: AggregateFn, x: &Column, out: &mut Column) {
    fn best<T: Number>(values: &[T], max: bool) -> Option<T> {
        let (&first, rest) = values.split_first()?;
        let better = |value: T, best: T| if max { value > best } else { value < best };
        Some(rest.iter().fold(first, |best, &value| if better(value, best) { value } else { best }))
    }
    let max = function == AggregateFn::Max;
    if x.is_empty() {
        return;
    }
    out.clear();
    out.ids.push(PM_IN_NULL);
    match (&x.values, &mut out.values) {
        (Values::I32(x), Values::I32(out)) => out.extend(best(x, max)),
        (Values::U32(x), Values::U32(out)) => out.extend(best(x, max)),
        (Values::I64(x), Values::I64(out)) => out.extend(best(x, max)),
        (Values::U64(x), Values::U64(out)) => out.extend(best(x, max)),
        (Values::Float(x), Values::Float(out)) => out.extend(best(x, max)),
        (Values::Double(x), Values::Double(out)) => out.extend(best(x, max)),
        _ => out.ids.clear(),
    }
}

/// Evaluates `scalar`: the first value, without its instance.
pub(crate) fn scalar(x: &Column, out: &mut Column) {
    out.clear();
    out.push_from(x, 0);
    out.ids.fill(PM_IN_NULL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn avg_is_computed_in_single_precision_step_by_step() {
        let x = Column { ids: vec![1, 2], values: Values::I32(vec![16_777_217, 16_777_217]) };
        let mut out = Column::new(ValueType::Float);
        sum_or_avg(AggregateFn::Avg, &x, &mut out);
        assert_eq!(out.values, Values::Float(vec![16_777_216.0]));
    }

    #[test]
    fn extremes_of_nothing_stay() {
        let x = Column { ids: vec![1, 2], values: Values::Double(vec![1.0, f64::NAN]) };
        let mut out = Column::new(ValueType::Double);
        max_or_min(AggregateFn::Max, &x, &mut out);
        max_or_min(AggregateFn::Max, &Column::new(ValueType::Double), &mut out);
        assert_eq!(out.values, Values::Double(vec![1.0]));
    }
}
