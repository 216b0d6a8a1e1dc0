//! `count(metric)`: how many instances there are (`docs/pcp/derived-eval.md` 4.13).

use super::{Availability, Call, CallNode, Evaluate, Evaluation, Function, FunctionCall, OnError};
use crate::column::Column;
use crate::meta::Meta;
use crate::nodes::{BrokenRule, Rules};
use pcp_model::{PM_IN_NULL, PmError, Semantics, Units, ValueType};

pub(super) static COUNT: Function = Function {
    word: "count",
    availability: Availability::Always,
    takes_pattern: false,
    parse: |parser, function| parser.call_of_metric(function, Call::plain(&Count)),
    behind: None,
};

#[derive(Debug)]
struct Count;

impl FunctionCall for Count {
    fn function(&self) -> &'static Function {
        &COUNT
    }

    fn bind(&self, _: Meta, _: Rules<'_>) -> Result<Meta, BrokenRule> {
        let semantics = Some(Semantics::Instant);
        Ok(Meta { units: Units::COUNT, semantics, ..Meta::scalar(ValueType::U32) })
    }

    fn evaluator(&self, _: &CallNode<'_>) -> Option<Box<dyn Evaluate>> {
        Some(Box::new(Count))
    }

    fn on_error(&self) -> OnError {
        OnError::Recover
    }
}

impl Evaluate for Count {
    /// Of a metric that failed it is zero.
    fn eval(&mut self, x: &Column, out: &mut Column, fetch: &mut Evaluation<'_>) -> Result<(), PmError> {
        debug_assert!(fetch.operand_error.is_none() || x.is_empty(), "what failed has no values");
        // Told to `delta` and `rate`, for whom this zero is not a value like others.
        fetch.recovered = fetch.operand_error.is_some();
        out.clear();
        out.push_number(PM_IN_NULL, x.len() as u32);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Values;
    use crate::functions::testing::check;

    #[test]
    fn it_takes_any_type() {
        check(&Count, Values::Other(vec!["a".into(), "b".into()]), &[(PM_IN_NULL, 2.0)]);
        check(&Count, Values::I32(vec![]), &[(PM_IN_NULL, 0.0)]);
    }
}
