//! Numbers, `mkconst` and `novalue` (`docs/pcp/derived-language.md` 6.2 and 8.12, `docs/pcp/derived-eval.md` 4.5).

use crate::column::{Column, Number, Values};
use crate::meta::Meta;
use crate::parser::number;
use crate::tree::{Constant, Tags};
use pcp_model::{PM_IN_NULL, Value, ValueType};

/// Metadata of a constant. `meta` is that of the metric which the tag `meta=` names, if it counts.
pub(crate) fn bind(constant: &Constant, meta: Option<Meta>) -> Meta {
    let default = if constant.decimal { ValueType::Double } else { ValueType::U32 };
    tagged(Meta::scalar(default), constant.tags.as_ref(), meta)
}

/// Metadata of `novalue`.
pub(crate) fn bind_novalue(tags: &Tags, meta: Option<Meta>) -> Meta {
    tagged(Meta::scalar(ValueType::I32), Some(tags), meta)
}

fn tagged(default: Meta, tags: Option<&Tags>, meta: Option<Meta>) -> Meta {
    let mut result = meta.unwrap_or(default);
    if let Some(tags) = tags {
        result.value_type = tags.value_type.unwrap_or(result.value_type);
        result.semantics = tags.semantics.or(result.semantics);
        result.units = tags.units.unwrap_or(result.units);
        result.indom = tags.indom.unwrap_or(result.indom);
    }
    result
}

/// Whether a constant of this type counts as a whole number: PCP then reads the digits up to the point.
pub(crate) fn is_whole(constant: &Constant, value_type: ValueType) -> bool {
    !constant.decimal
        || matches!(value_type, ValueType::I32 | ValueType::U32 | ValueType::I64 | ValueType::U64)
}

/// The number of a constant in its type; `None` if the type is not one of numbers.
pub(crate) fn value(constant: &Constant, value_type: ValueType) -> Option<Value> {
    let whole = constant.digits.split('.').next().unwrap_or_default();
    // At most 4294967295 unless there is a point; larger ones stop at the largest 64-bit number.
    let integer =
        || whole.bytes().try_fold(0u64, |n, digit| n.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
    let integer = || integer().unwrap_or(u64::MAX);
    // `as`, as C converts.
    Some(match value_type {
        ValueType::I32 => Value::I32(integer() as i32),
        ValueType::U32 => Value::U32(integer() as u32),
        ValueType::I64 => Value::I64(integer() as i64),
        ValueType::U64 => Value::U64(integer()),
        ValueType::Float => Value::Float(number(&constant.digits) as f32),
        ValueType::Double => Value::Double(number(&constant.digits)),
        _ => return None,
    })
}

/// A number, told from others bit by bit: `-0.0` is not `0.0`, and a NaN is itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Literal {
    value_type: ValueType,
    bits: u64,
}

impl Literal {
    /// Of a number; `None` for anything else.
    pub(crate) fn of(value: &Value) -> Option<Literal> {
        let bits = match *value {
            Value::I32(v) => u64::from(v as u32),
            Value::U32(v) => v.into(),
            Value::I64(v) => v as u64,
            Value::U64(v) => v,
            Value::Float(v) => v.to_bits().into(),
            Value::Double(v) => v.to_bits(),
            _ => return None,
        };
        Some(Literal { value_type: value.value_type(), bits })
    }

    pub(crate) fn value(self) -> Value {
        let Literal { value_type, bits } = self;
        match value_type {
            ValueType::I32 => Value::I32(bits as i32),
            ValueType::U32 => Value::U32(bits as u32),
            ValueType::I64 => Value::I64(bits as i64),
            ValueType::U64 => Value::U64(bits),
            ValueType::Float => Value::Float(f32::from_bits(bits as u32)),
            // Made of numbers only.
            _ => Value::Double(f64::from_bits(bits)),
        }
    }
}

/// Fills a column with a value for each instance that is in it already, or with a single one.
pub(crate) fn fill(value: &Value, out: &mut Column) {
    if out.ids.is_empty() {
        out.ids.push(PM_IN_NULL);
    }
    fill_set(value, out);
}

/// Fills a column with a value for each instance that is in it already.
pub(crate) fn fill_set(value: &Value, out: &mut Column) {
    fn put<T: Number>(values: &mut Values, value: T, n: usize) {
        if let Some(values) = T::of_mut(values) {
            values.clear();
            values.resize(n, value);
        }
    }
    let n = out.ids.len();
    match *value {
        Value::I32(v) => put(&mut out.values, v, n),
        Value::U32(v) => put(&mut out.values, v, n),
        Value::I64(v) => put(&mut out.values, v, n),
        Value::U64(v) => put(&mut out.values, v, n),
        Value::Float(v) => put(&mut out.values, v, n),
        Value::Double(v) => put(&mut out.values, v, n),
        _ => out.clear(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_as_the_type_asks() {
        let constant =
            |digits: &str| Constant { digits: digits.into(), decimal: digits.contains('.'), tags: None };
        assert_eq!(value(&constant("4294967295"), ValueType::I32), Some(Value::I32(-1)));
        assert_eq!(value(&constant("2.75"), ValueType::I64), Some(Value::I64(2)));
        assert_eq!(value(&constant("."), ValueType::Double), Some(Value::Double(0.0)));
        assert_eq!(value(&constant("0.1"), ValueType::Float), Some(Value::Float(0.1)));
        assert_eq!(value(&constant("1"), ValueType::String), None);
    }

    #[test]
    fn literals_give_their_values_back() {
        let numbers = [Value::I32(-1), Value::U32(7), Value::I64(i64::MIN), Value::U64(u64::MAX)];
        for value in numbers.into_iter().chain([Value::Float(-0.5), Value::Double(0.1)]) {
            assert_eq!(Literal::of(&value).map(Literal::value), Some(value));
        }
    }
}
