//! `rescale(x, "units")`: the values in units of another scale (`docs/pcp/derived-language.md` 8.8,
//! `docs/pcp/derived-eval.md` 4.18).

use super::{Availability, Behind, Call, CallNode, Evaluate, Evaluation, Function, FunctionCall, numeric};
use crate::column::{Column, Values};
use crate::lexer::Token;
use crate::meta::{Meta, units_text};
use crate::nodes::{BrokenRule, Rules};
use crate::parser::{self, Expected, Parser};
use pcp_model::{Conversion, PmError, Units, UnitsVocabulary};

pub(super) static RESCALE: Function = Function {
    word: "rescale",
    availability: Availability::Always,
    takes_pattern: false,
    parse: |parser, function| {
        let expected = Expected::new("Arithmetic or relational or boolean operator", "");
        parser.call_of_expression(function, expected, None)
    },
    behind: Some(Behind {
        expected: Expected::new("Units string", "<expr>,"),
        expected_at_close: false,
        parse: units,
    }),
};

/// `STRING )`, the parenthesis not taken.
fn units(parser: &mut Parser<'_>) -> parser::Result<Call> {
    let Token::String(text) = parser.token else {
        return Err(parser.error());
    };
    parser.advance();
    parser.expect_close()?;
    // PCP points behind the units if they are wrong.
    let to = parser.units(text, parser.span)?;
    Ok(Call::with(Rescale { to, vocabulary: parser.dialect.units() }))
}

#[derive(Debug)]
struct Rescale {
    to: Units,
    vocabulary: UnitsVocabulary,
}

impl FunctionCall for Rescale {
    fn function(&self) -> &'static Function {
        &RESCALE
    }

    fn bind(&self, x: Meta, _: Rules<'_>) -> Result<Meta, BrokenRule> {
        let units = numeric(x)?.units;
        Conversion::new(units, self.to, self.vocabulary).map_err(|_| "Incompatible dimensions")?;
        Ok(Meta { units: self.to, ..x })
    }

    fn evaluator(&self, node: &CallNode<'_>) -> Option<Box<dyn Evaluate>> {
        let conversion = Conversion::new(node.argument.units, self.to, self.vocabulary);
        debug_assert!(conversion.is_ok(), "the type rule lets units through that convert only");
        Some(Box::new(Converter(conversion.ok()?)))
    }

    fn behind(&self) -> String {
        format!(", \"{}\"", units_text(self.to))
    }

    fn in_tree(&self) -> (String, String) {
        ("RESCALE ".to_owned(), format!(" <{}>", units_text(self.to)))
    }

    fn in_message(&self, x: Option<&str>, rules: Rules<'_>) -> String {
        let to = if rules.extra_units { self.to.with_extra().to_string() } else { self.to.to_string() };
        let to = if to.is_empty() { "none" } else { &to };
        format!("{} RESCALE {to}", x.unwrap_or("<expr>"))
    }
}

#[derive(Debug)]
struct Converter(Conversion);

impl Evaluate for Converter {
    fn eval(&mut self, x: &Column, out: &mut Column, _: &mut Evaluation<'_>) -> Result<(), PmError> {
        // Each type is converted in itself, with the rounding that PCP has for it.
        let conversion = &self.0;
        out.take_instances(x);
        match (&x.values, &mut out.values) {
            (Values::I32(x), Values::I32(out)) => out.extend(x.iter().map(|&v| conversion.i32(v))),
            (Values::U32(x), Values::U32(out)) => out.extend(x.iter().map(|&v| conversion.u32(v))),
            (Values::I64(x), Values::I64(out)) => out.extend(x.iter().map(|&v| conversion.i64(v))),
            (Values::U64(x), Values::U64(out)) => out.extend(x.iter().map(|&v| conversion.u64(v))),
            (Values::Float(x), Values::Float(out)) => out.extend(x.iter().map(|&v| conversion.f32(v))),
            (Values::Double(x), Values::Double(out)) => out.extend(x.iter().map(|&v| conversion.f64(v))),
            _ => out.not_of_its_type(),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Level;
    use crate::equivalent::EquivalentIndoms;
    use crate::functions::testing::{eval_at, evaluator};
    use pcp_model::ValueType;

    #[test]
    fn integers_stay_integers_and_dimensions_must_fit() {
        let equivalent = EquivalentIndoms::default();
        let rules = Rules { level: Level::V638, extra_units: false, equivalent: &equivalent };
        let x = Meta { units: Units::MILLISECOND, ..Meta::scalar(ValueType::U32) };
        let to = |to| Rescale { to, vocabulary: UnitsVocabulary::Classic };
        assert_eq!(to(Units::SECOND).bind(x, rules), Ok(Meta { units: Units::SECOND, ..x }));
        let column = Column::of(vec![1, 2], Values::U32(vec![1500, 499]));
        let mut out = Column::new(ValueType::U32);
        eval_at(&mut *evaluator(&to(Units::SECOND), x), &column, 0, &mut out).unwrap();
        assert_eq!(out, Column::of(vec![1, 2], Values::U32(vec![2, 0])));
        assert_eq!(to(Units::BYTE).bind(x, rules), Err("Incompatible dimensions"));
    }
}
