//! `clamp(x, low, high)`: values brought into a range. No PCP has it. Type, instances and units are the
//! argument's; instant.

use std::cmp;

use super::{Availability, Behind, Call, CallNode, Evaluate, Evaluation, Function, FunctionCall, numeric};
use crate::column::{Column, Number, Values};
use crate::meta::Meta;
use crate::nodes::{BrokenRule, Rules};
use crate::parser::{self, Expected, Parser};
use pcp_model::PmError;

pub(super) static CLAMP: Function = Function {
    word: "clamp",
    availability: Availability::BeyondPcp,
    takes_pattern: false,
    parse: |parser, function| {
        parser.call_of_expression(function, Expected::new("<expr>, <low>, <high>)", ""), None)
    },
    behind: Some(Behind {
        expected: Expected::new("<low>, <high>)", "<expr>,"),
        expected_at_close: true,
        parse: limits,
    }),
};

/// `NUMBER , NUMBER`
fn limits(parser: &mut Parser<'_>) -> parser::Result<Call> {
    let low = parser.signed_number()?;
    parser.comma()?;
    let high_at = parser.span;
    let high = parser.signed_number()?;
    if low > high {
        return Err(parser.error_at(high_at, "upper limit of clamp is below the lower one"));
    }
    Ok(Call::with(Clamp { low, high }))
}

#[derive(Clone, Copy, Debug)]
struct Clamp {
    low: f64,
    high: f64,
}

impl FunctionCall for Clamp {
    fn function(&self) -> &'static Function {
        &CLAMP
    }

    fn bind(&self, x: Meta, _: Rules<'_>) -> Result<Meta, BrokenRule> {
        Ok(numeric(x)?.instant())
    }

    fn evaluator(&self, _: &CallNode<'_>) -> Option<Box<dyn Evaluate>> {
        Some(Box::new(*self))
    }

    fn behind(&self) -> String {
        format!(", {}, {}", self.low, self.high)
    }
}

impl Evaluate for Clamp {
    fn eval(&mut self, x: &Column, out: &mut Column, _: &mut Evaluation<'_>) -> Result<(), PmError> {
        let Clamp { low, high } = *self;
        out.take_instances(x);
        // Limits of whole numbers are the whole numbers between them; `as` stops at the ends of the type.
        let (l, h) = (low.ceil(), high.floor());
        match (&x.values, &mut out.values) {
            (Values::I32(x), Values::I32(out)) => each(x, l as i32, h as i32, out),
            (Values::U32(x), Values::U32(out)) => each(x, l as u32, h as u32, out),
            (Values::I64(x), Values::I64(out)) => each(x, l as i64, h as i64, out),
            (Values::U64(x), Values::U64(out)) => each(x, l as u64, h as u64, out),
            (Values::Float(x), Values::Float(out)) => each(x, low as f32, high as f32, out),
            (Values::Double(x), Values::Double(out)) => each(x, low, high, out),
            _ => out.not_of_its_type(),
        }
        Ok(())
    }
}

/// Not by `clamp`, which is in no trait and panics where no whole number is between the limits.
fn each<T: Number>(values: &[T], low: T, high: T, out: &mut Vec<T>) {
    let limit = |v: T| match (v.partial_cmp(&low), v.partial_cmp(&high)) {
        (Some(cmp::Ordering::Less), _) => low,
        (_, Some(cmp::Ordering::Greater)) => high,
        _ => v,
    };
    out.extend(values.iter().map(|&v| limit(v)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::testing::check;

    #[test]
    fn whole_numbers_have_whole_limits() {
        let clamp = Clamp { low: -1.5, high: 3.5 };
        check(&clamp, Values::I32(vec![3, -7, 9, 3]), &[(1, 3.0), (2, -1.0), (3, 3.0), (4, 3.0)]);
        check(&clamp, Values::Double(vec![9.0]), &[(1, 3.5)]);
    }
}
