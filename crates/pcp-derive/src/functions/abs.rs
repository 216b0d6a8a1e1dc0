//! `abs(x)`: absolute values. No PCP has it. Type, instances and units are the argument's; instant.

use super::{Availability, Call, CallNode, Evaluate, Evaluation, Function, FunctionCall, numeric};
use crate::column::{Column, Values};
use crate::meta::Meta;
use crate::nodes::{BrokenRule, Rules};
use crate::parser::Expected;
use pcp_model::PmError;

pub(super) static ABS: Function = Function {
    word: "abs",
    availability: Availability::BeyondPcp,
    takes_pattern: false,
    parse: |parser, function| {
        parser.call_of_expression(function, Expected::new("<expr>)", ""), Some(Call::plain(&Abs)))
    },
    behind: None,
};

#[derive(Debug)]
struct Abs;

impl FunctionCall for Abs {
    fn function(&self) -> &'static Function {
        &ABS
    }

    fn bind(&self, x: Meta, _: Rules<'_>) -> Result<Meta, BrokenRule> {
        Ok(numeric(x)?.instant())
    }

    fn evaluator(&self, _: &CallNode<'_>) -> Option<Box<dyn Evaluate>> {
        Some(Box::new(Abs))
    }
}

impl Evaluate for Abs {
    fn eval(&mut self, x: &Column, out: &mut Column, _: &mut Evaluation<'_>) -> Result<(), PmError> {
        out.take_instances(x);
        match (&x.values, &mut out.values) {
            (Values::I32(x), Values::I32(out)) => out.extend(x.iter().map(|v| v.wrapping_abs())),
            (Values::I64(x), Values::I64(out)) => out.extend(x.iter().map(|v| v.wrapping_abs())),
            (Values::Float(x), Values::Float(out)) => out.extend(x.iter().map(|v| v.abs())),
            (Values::Double(x), Values::Double(out)) => out.extend(x.iter().map(|v| v.abs())),
            // Without a sign they are what they are.
            (x, out) => out.copy_from(x),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::testing::check;

    #[test]
    fn the_smallest_number_wraps() {
        check(&Abs, Values::I32(vec![3, -7, 9]), &[(1, 3.0), (2, 7.0), (3, 9.0)]);
        check(&Abs, Values::I32(vec![i32::MIN]), &[(1, f64::from(i32::MIN))]);
        check(&Abs, Values::U32(vec![7]), &[(1, 7.0)]);
    }
}
