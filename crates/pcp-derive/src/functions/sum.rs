//! `sum(metric)`: the sum over the instances (`docs/pcp/derived-eval.md` 4.13).

use super::{Availability, Call, CallNode, Evaluate, Evaluation, Function, FunctionCall, numeric};
use crate::column::{Column, Number, Values};
use crate::meta::Meta;
use crate::nodes::{BrokenRule, Rules};
use pcp_model::{InDom, PM_IN_NULL, PmError};

pub(super) static SUM: Function = Function {
    word: "sum",
    availability: Availability::Always,
    takes_pattern: false,
    parse: |parser, function| parser.call_of_metric(function, Call::plain(&Sum)),
    behind: None,
};

#[derive(Debug)]
struct Sum;

impl FunctionCall for Sum {
    fn function(&self) -> &'static Function {
        &SUM
    }

    fn bind(&self, x: Meta, _: Rules<'_>) -> Result<Meta, BrokenRule> {
        Ok(Meta { indom: InDom::NULL, ..numeric(x)? })
    }

    fn evaluator(&self, _: &CallNode<'_>) -> Option<Box<dyn Evaluate>> {
        Some(Box::new(Sum))
    }
}

impl Evaluate for Sum {
    /// Of nothing it is zero. Whole numbers wrap, as in PCP.
    fn eval(&mut self, x: &Column, out: &mut Column, _: &mut Evaluation<'_>) -> Result<(), PmError> {
        fn sum<T: Number>(values: &[T], add: impl Fn(T, T) -> T) -> T {
            values.iter().fold(T::ZERO, |sum, &value| add(sum, value))
        }
        out.clear();
        match &x.values {
            Values::I32(x) => out.push_number(PM_IN_NULL, sum(x, i32::wrapping_add)),
            Values::U32(x) => out.push_number(PM_IN_NULL, sum(x, u32::wrapping_add)),
            Values::I64(x) => out.push_number(PM_IN_NULL, sum(x, i64::wrapping_add)),
            Values::U64(x) => out.push_number(PM_IN_NULL, sum(x, u64::wrapping_add)),
            Values::Float(x) => out.push_number(PM_IN_NULL, sum(x, |a, b| a + b)),
            Values::Double(x) => out.push_number(PM_IN_NULL, sum(x, |a, b| a + b)),
            Values::Other(_) => debug_assert!(false, "the type rule lets numbers through only"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::testing::check;

    #[test]
    fn whole_numbers_wrap() {
        check(&Sum, Values::I32(vec![i32::MAX, 1]), &[(PM_IN_NULL, f64::from(i32::MIN))]);
        check(&Sum, Values::U64(vec![]), &[(PM_IN_NULL, 0.0)]);
    }
}
