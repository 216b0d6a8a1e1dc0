//! `rescale(x, "units")` (spec `derived-language.md` 8.8, `derived-eval.md` 4.18).

use super::{Problem, Rules};
use crate::column::{Column, Values};
use crate::meta::Meta;
use pcp_model::{Conversion, Units, UnitsVocabulary};

/// The type rule, and how values change.
pub(crate) fn bind(x: Meta, to: Units, rules: Rules<'_>) -> Result<(Meta, Conversion), Problem> {
    if !x.is_numeric() {
        return Err("Non-arithmetic operand for function");
    }
    let words = if rules.extra_units { UnitsVocabulary::Extra } else { UnitsVocabulary::Classic };
    let conversion = Conversion::new(x.units, to, words).map_err(|_| "Incompatible dimensions")?;
    Ok((Meta { units: to, ..x }, conversion))
}

/// Evaluates a conversion.
pub(crate) fn rescale(conversion: &Conversion, x: &Column, out: &mut Column) {
    out.clear();
    out.ids.extend_from_slice(&x.ids);
    match (&x.values, &mut out.values) {
        (Values::I32(x), Values::I32(out)) => out.extend(x.iter().map(|&v| conversion.i32(v))),
        (Values::U32(x), Values::U32(out)) => out.extend(x.iter().map(|&v| conversion.u32(v))),
        (Values::I64(x), Values::I64(out)) => out.extend(x.iter().map(|&v| conversion.i64(v))),
        (Values::U64(x), Values::U64(out)) => out.extend(x.iter().map(|&v| conversion.u64(v))),
        (Values::Float(x), Values::Float(out)) => out.extend(x.iter().map(|&v| conversion.f32(v))),
        (Values::Double(x), Values::Double(out)) => out.extend(x.iter().map(|&v| conversion.f64(v))),
        // The type rule lets nothing else through.
        _ => out.ids.clear(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Level;
    use crate::equivalent::EquivalentIndoms;
    use pcp_model::ValueType;

    #[test]
    fn integers_stay_integers_and_dimensions_must_fit() {
        let equivalent = EquivalentIndoms::default();
        let rules = Rules { level: Level::V638, extra_units: false, equivalent: &equivalent };
        let x = Meta { units: Units::MILLISECOND, ..Meta::scalar(ValueType::U32) };
        let (meta, conversion) = bind(x, Units::SECOND, rules).unwrap();
        assert_eq!(meta, Meta { units: Units::SECOND, ..x });
        let column = Column { ids: vec![1, 2], values: Values::U32(vec![1500, 499]) };
        let mut out = Column::new(ValueType::U32);
        rescale(&conversion, &column, &mut out);
        assert_eq!(out, Column { ids: vec![1, 2], values: Values::U32(vec![2, 0]) });
        assert_eq!(bind(x, Units::BYTE, rules), Err("Incompatible dimensions"));
    }
}
