//! `delta(x)`: the difference to the values of the fetch before (`docs/pcp/derived-language.md` 8.4).

use super::history::{Difference, History, Memory};
use super::{Availability, Call, CallNode, Evaluate, Function, FunctionCall, OnError, numeric};
use crate::meta::Meta;
use crate::nodes::{BrokenRule, Rules};
use crate::parser::Expected;
use pcp_model::ValueType;

pub(super) static DELTA: Function = Function {
    word: "delta",
    availability: Availability::Always,
    takes_pattern: false,
    parse: |parser, function| {
        parser.call_of_metric_at_603(function, Expected::EXPRESSION, Call::plain(&Delta))
    },
    behind: None,
};

#[derive(Debug)]
struct Delta;

impl FunctionCall for Delta {
    fn function(&self) -> &'static Function {
        &DELTA
    }

    fn bind(&self, x: Meta, _: Rules<'_>) -> Result<Meta, BrokenRule> {
        // Differences of unsigned numbers have signs; those of the longest ones fit nothing but a DOUBLE.
        let value_type = match numeric(x)?.value_type {
            ValueType::U32 => ValueType::I64,
            ValueType::U64 => ValueType::Double,
            value_type => value_type,
        };
        Ok(Meta { value_type, ..x }.instant())
    }

    fn evaluator(&self, node: &CallNode<'_>) -> Option<Box<dyn Evaluate>> {
        Some(Box::new(Memory::new(History::new(Difference::Whole, node))))
    }

    fn has_memory(&self) -> bool {
        true
    }

    fn on_error(&self) -> OnError {
        OnError::Remember
    }
}
