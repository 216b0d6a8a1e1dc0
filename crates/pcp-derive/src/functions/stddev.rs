//! `stddev(x)`: the standard deviation over the instances, taken as the whole population. No PCP has it. One
//! DOUBLE, instant, in the argument's units; of no values there is no value.

use super::{Availability, Call, CallNode, Evaluate, Evaluation, Function, FunctionCall, numeric};
use crate::column::{Column, Number};
use crate::meta::Meta;
use crate::nodes::{BrokenRule, Rules};
use crate::parser::Expected;
use pcp_model::{InDom, PM_IN_NULL, PmError, ValueType};

pub(super) static STDDEV: Function = Function {
    word: "stddev",
    availability: Availability::BeyondPcp,
    takes_pattern: false,
    parse: |parser, function| {
        parser.call_of_expression(function, Expected::new("<expr>)", ""), Some(Call::plain(&Stddev)))
    },
    behind: None,
};

#[derive(Debug)]
struct Stddev;

impl FunctionCall for Stddev {
    fn function(&self) -> &'static Function {
        &STDDEV
    }

    fn bind(&self, x: Meta, _: Rules<'_>) -> Result<Meta, BrokenRule> {
        Ok(Meta { value_type: ValueType::Double, indom: InDom::NULL, ..numeric(x)? }.instant())
    }

    fn evaluator(&self, _: &CallNode<'_>) -> Option<Box<dyn Evaluate>> {
        Some(Box::new(Stddev))
    }
}

impl Evaluate for Stddev {
    fn eval(&mut self, x: &Column, out: &mut Column, fetch: &mut Evaluation<'_>) -> Result<(), PmError> {
        out.clear();
        if let Some(value) = stddev(f64::view(&x.values, &mut fetch.ordering.doubles)) {
            out.push_number(PM_IN_NULL, value);
        }
        Ok(())
    }
}

fn stddev(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    // In a second pass, from the mean: sums of squares of large numbers would cancel each other out.
    let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / n;
    Some(variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Values;
    use crate::functions::testing::check;

    #[test]
    fn the_population_is_what_there_is() {
        check(&Stddev, Values::Double(vec![2.0, 4.0]), &[(PM_IN_NULL, 1.0)]);
        check(&Stddev, Values::Double(vec![]), &[]);
    }
}
