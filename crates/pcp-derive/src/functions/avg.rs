//! `avg(metric)`: the mean over the instances (`docs/pcp/derived-eval.md` 4.13).

use super::{Availability, Call, CallNode, Evaluate, Evaluation, Function, FunctionCall, numeric};
use crate::column::{Column, Values};
use crate::meta::Meta;
use crate::nodes::{BrokenRule, Rules};
use pcp_model::{InDom, PM_IN_NULL, PmError, ValueType};

pub(super) static AVG: Function = Function {
    word: "avg",
    availability: Availability::Always,
    takes_pattern: false,
    parse: |parser, function| parser.call_of_metric(function, Call::plain(&Avg)),
    behind: None,
};

#[derive(Debug)]
struct Avg;

impl FunctionCall for Avg {
    fn function(&self) -> &'static Function {
        &AVG
    }

    fn bind(&self, x: Meta, _: Rules<'_>) -> Result<Meta, BrokenRule> {
        Ok(Meta { value_type: ValueType::Float, indom: InDom::NULL, ..numeric(x)? }.instant())
    }

    fn evaluator(&self, _: &CallNode<'_>) -> Option<Box<dyn Evaluate>> {
        Some(Box::new(Avg))
    }
}

impl Evaluate for Avg {
    /// Of nothing it is zero.
    fn eval(&mut self, x: &Column, out: &mut Column, _: &mut Evaluation<'_>) -> Result<(), PmError> {
        // PCP divides each value before it adds it, in single precision: the rounding shows.
        fn avg(values: impl ExactSizeIterator<Item = f32>) -> f32 {
            let n = values.len() as f32;
            values.fold(0.0, |avg, value| avg + value / n)
        }
        let avg = match &x.values {
            Values::I32(x) => avg(x.iter().map(|&v| v as f32)),
            Values::U32(x) => avg(x.iter().map(|&v| v as f32)),
            Values::I64(x) => avg(x.iter().map(|&v| v as f32)),
            Values::U64(x) => avg(x.iter().map(|&v| v as f32)),
            Values::Float(x) => avg(x.iter().copied()),
            Values::Double(x) => avg(x.iter().map(|&v| v as f32)),
            Values::Other(_) => 0.0,
        };
        out.clear();
        out.push_number(PM_IN_NULL, avg);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::testing::check;

    #[test]
    fn it_is_computed_in_single_precision_step_by_step() {
        check(&Avg, Values::I32(vec![16_777_217, 16_777_217]), &[(PM_IN_NULL, 16_777_216.0)]);
        check(&Avg, Values::Double(vec![]), &[(PM_IN_NULL, 0.0)]);
    }
}
