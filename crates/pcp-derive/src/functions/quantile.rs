//! `quantile(q, x)`: the value below which a fraction of the instances lies, interpolated between neighbours.
//! No PCP has it. One DOUBLE, instant, in the argument's units; of no values there is no value.

use super::{Availability, Call, CallNode, Evaluate, Evaluation, Function, FunctionCall, numeric};
use crate::column::{Column, Number};
use crate::lexer::Token;
use crate::meta::Meta;
use crate::nodes::{BrokenRule, Rules};
use crate::parser::{self, Expected, OperandTaken, Parser, number};
use pcp_model::{InDom, PM_IN_NULL, PmError, ValueType};

pub(super) static QUANTILE: Function = Function {
    word: "quantile",
    availability: Availability::BeyondPcp,
    takes_pattern: false,
    parse,
    behind: None,
};

/// `NUMBER ,`
fn parse(parser: &mut Parser<'_>, function: &'static Function) -> parser::Result<Option<OperandTaken>> {
    parser.open_call(function, Some(Expected::new("<number>, <expr>)", "")));
    let (Token::Integer(digits) | Token::Double(digits)) = parser.token else {
        return Err(parser.error());
    };
    let q = number(digits);
    if q > 1.0 {
        return Err(parser.error_with("quantile must be between 0 and 1"));
    }
    parser.advance();
    parser.comma()?;
    parser.argument_follows(Call::with(Quantile(q)))
}

#[derive(Clone, Copy, Debug)]
struct Quantile(f64);

impl FunctionCall for Quantile {
    fn function(&self) -> &'static Function {
        &QUANTILE
    }

    fn bind(&self, x: Meta, _: Rules<'_>) -> Result<Meta, BrokenRule> {
        Ok(Meta { value_type: ValueType::Double, indom: InDom::NULL, ..numeric(x)? }.instant())
    }

    fn evaluator(&self, _: &CallNode<'_>) -> Option<Box<dyn Evaluate>> {
        Some(Box::new(*self))
    }

    fn before(&self) -> String {
        format!("{}, ", self.0)
    }
}

impl Evaluate for Quantile {
    fn eval(&mut self, x: &Column, out: &mut Column, fetch: &mut Evaluation<'_>) -> Result<(), PmError> {
        let values = &mut fetch.ordering.doubles;
        values.clear();
        f64::convert(&x.values, values);
        values.sort_unstable_by(f64::total_cmp);
        out.clear();
        if let Some(value) = quantile(values, self.0) {
            out.push_number(PM_IN_NULL, value);
        }
        Ok(())
    }
}

fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = q * last as f64;
    let below = (place.floor() as usize).min(last);
    let (low, high) = (*sorted.get(below)?, *sorted.get((below + 1).min(last))?);
    let fraction = place - place.floor();
    // Not by the formula where it hits a value: an infinite neighbour would make a NaN of it.
    Some(if fraction == 0.0 { low } else { low + (high - low) * fraction })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Values;
    use crate::functions::testing::check;

    #[test]
    fn values_are_interpolated() {
        check(&Quantile(0.5), Values::I32(vec![3, -7, 9, 3]), &[(PM_IN_NULL, 3.0)]);
        check(&Quantile(0.25), Values::Double(vec![4.0, 0.0]), &[(PM_IN_NULL, 1.0)]);
        check(&Quantile(0.25), Values::Double(vec![]), &[]);
    }
}
