//! `rescale(x, "units")` (spec `derived-language.md` 8.8, `derived-eval.md` 4.18).

use super::{Problem, Rules};
use crate::derive::column::{Column, Values};
use crate::derive::meta::Meta;
use crate::model::{Conversion, Units, UnitsVocabulary};

/// The type rule, and how values change.
pub(in crate::derive) fn bind(x: Meta, to: Units, rules: Rules<'_>) -> Result<(Meta, Conversion), Problem> {
    if !x.is_numeric() {
        return Err("Non-arithmetic operand for function");
    }
    let words = if rules.extra_units { UnitsVocabulary::Extra } else { UnitsVocabulary::Classic };
    let conversion = Conversion::new(x.units, to, words).map_err(|_| "Incompatible dimensions")?;
    Ok((Meta { units: to, ..x }, conversion))
}

/// Evaluates a conversion.
pub(in crate::derive) fn rescale(conversion: &Conversion, x: &Column, out: &mut Column) {
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
