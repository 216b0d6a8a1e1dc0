//! `scalar(x)`: the first value, without its instance (`docs/pcp/derived-eval.md` 4.13).

use super::{Availability, Call, CallNode, Evaluate, Evaluation, Function, FunctionCall};
use crate::column::Column;
use crate::meta::Meta;
use crate::nodes::{BrokenRule, Rules};
use crate::parser::Expected;
use pcp_model::{InDom, PM_IN_NULL, PmError};

pub(super) static SCALAR: Function = Function {
    word: "scalar",
    availability: Availability::Always,
    takes_pattern: false,
    parse: |parser, function| {
        parser.call_of_expression(function, Expected::EXPRESSION, Some(Call::plain(&Scalar)))
    },
    behind: None,
};

#[derive(Debug)]
struct Scalar;

impl FunctionCall for Scalar {
    fn function(&self) -> &'static Function {
        &SCALAR
    }

    fn bind(&self, x: Meta, _: Rules<'_>) -> Result<Meta, BrokenRule> {
        Ok(Meta { indom: InDom::NULL, ..x })
    }

    fn evaluator(&self, _: &CallNode<'_>) -> Option<Box<dyn Evaluate>> {
        Some(Box::new(Scalar))
    }
}

impl Evaluate for Scalar {
    fn eval(&mut self, x: &Column, out: &mut Column, _: &mut Evaluation<'_>) -> Result<(), PmError> {
        out.clear();
        out.push_from(x, 0);
        // One id or none: the result is singular.
        out.ids.fill(PM_IN_NULL);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Values;
    use crate::functions::testing::check;

    #[test]
    fn the_first_value_loses_its_instance() {
        check(&Scalar, Values::I32(vec![7, 8]), &[(PM_IN_NULL, 7.0)]);
        check(&Scalar, Values::I32(vec![]), &[]);
    }
}
