//! `-x` and `!x` (`docs/pcp/derived-eval.md` 4.10 and 4.11).

use super::BrokenRule;
use crate::column::{Column, Number, Values};
use crate::meta::Meta;
use pcp_model::ValueType;

/// The type rule of `-x`.
pub(crate) fn bind_negate(x: Meta) -> Result<Meta, BrokenRule> {
    if !x.is_numeric() {
        return Err("Non-arithmetic operand for unary negation");
    }
    let value_type = match x.value_type {
        ValueType::U32 => ValueType::I32,
        ValueType::U64 => ValueType::I64,
        value_type => value_type,
    };
    Ok(Meta { value_type, ..x }.instant())
}

/// The type rule of `!x`: as in PCP the result has the metadata of the operand, type included.
pub(crate) fn bind_not(x: Meta) -> Meta {
    x
}

/// Evaluates `-x`.
pub(crate) fn negate(x: &Column, out: &mut Column) {
    out.take_instances(x);
    match (&x.values, &mut out.values) {
        (Values::I32(x), Values::I32(out)) => out.extend(x.iter().map(|v| v.wrapping_neg())),
        (Values::U32(x), Values::I32(out)) => out.extend(x.iter().map(|&v| (v as i32).wrapping_neg())),
        (Values::I64(x), Values::I64(out)) => out.extend(x.iter().map(|v| v.wrapping_neg())),
        (Values::U64(x), Values::I64(out)) => out.extend(x.iter().map(|&v| (v as i64).wrapping_neg())),
        (Values::Float(x), Values::Float(out)) => out.extend(x.iter().map(|v| -v)),
        (Values::Double(x), Values::Double(out)) => out.extend(x.iter().map(|v| -v)),
        _ => out.not_of_its_type(),
    }
}

/// Evaluates `!x`. PCP stores an integer 1 or 0 in the first four bytes of a value of the operand's
/// type: floating point results are the number with those bits. Where PCP leaves the other half of
/// 64-bit values undefined, it is zero here.
pub(crate) fn not(x: &Column, out: &mut Column) {
    fn truth<T: Number, R>(values: &[T], result: impl Fn(u32) -> R) -> impl Iterator<Item = R> {
        values.iter().map(move |&v| result(u32::from(v == T::ZERO)))
    }
    out.take_instances(x);
    match (&x.values, &mut out.values) {
        (Values::I32(x), Values::I32(out)) => out.extend(truth(x, |bit| bit as i32)),
        (Values::U32(x), Values::U32(out)) => out.extend(truth(x, |bit| bit)),
        (Values::I64(x), Values::I64(out)) => out.extend(truth(x, i64::from)),
        (Values::U64(x), Values::U64(out)) => out.extend(truth(x, u64::from)),
        (Values::Float(x), Values::Float(out)) => out.extend(truth(x, f32::from_bits)),
        (Values::Double(x), Values::Double(out)) => {
            out.extend(truth(x, |bit| f64::from_bits(u64::from(bit))));
        }
        // PCP's rule lets anything through here, and there is nothing to negate in it.
        _ => out.clear(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsigned_values_become_signed() {
        let x = Column::of(vec![1, 2], Values::U32(vec![u32::MAX, 0]));
        let mut out = Column::new(bind_negate(Meta::scalar(ValueType::U32)).unwrap().value_type);
        negate(&x, &mut out);
        assert_eq!(out, Column::of(vec![1, 2], Values::I32(vec![1, 0])));
    }

    #[test]
    fn not_keeps_the_type() {
        let x = Column::of(vec![1, 2], Values::Float(vec![-0.0, f32::NAN]));
        let mut out = Column::new(ValueType::Float);
        not(&x, &mut out);
        assert_eq!(out.values, Values::Float(vec![f32::from_bits(1), 0.0]));
    }
}
