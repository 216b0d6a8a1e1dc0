//! `rate(x)`: the difference to the values of the fetch before, for each second between them (
//! `docs/pcp/derived-language.md` 8.4, `docs/pcp/derived-eval.md` 4.14).

use super::history::{Difference, History, Memory};
use super::{Availability, Call, CallNode, Evaluate, Function, FunctionCall, OnError, numeric};
use crate::dialect::Level;
use crate::meta::Meta;
use crate::nodes::{BrokenRule, Rules};
use crate::parser::Expected;
use pcp_model::ValueType;

pub(super) static RATE: Function = Function {
    word: "rate",
    availability: Availability::Always,
    takes_pattern: false,
    parse: |parser, function| {
        parser.call_of_metric_at_603(function, Expected::EXPRESSION, Call::plain(&Rate))
    },
    behind: None,
};

#[derive(Debug)]
struct Rate;

/// The scale of seconds.
const SECOND: u8 = 3;

impl FunctionCall for Rate {
    fn function(&self) -> &'static Function {
        &RATE
    }

    fn bind(&self, x: Meta, _: Rules<'_>) -> Result<Meta, BrokenRule> {
        let mut units = numeric(x)?.units;
        (units.dim_time, units.scale_time) = match units.dim_time {
            0 => (-1, SECOND),
            1 => (0, 0),
            _ => return Err("Incorrect time dimension for operand"),
        };
        Ok(Meta { value_type: ValueType::Double, units, ..x }.instant())
    }

    fn evaluator(&self, node: &CallNode<'_>) -> Option<Box<dyn Evaluate>> {
        let x = node.argument;
        // A counter that went down was reset. PCP forgets the check for type 32.
        let drops_decreases = x.is_counter() && node.level >= Level::V638 && x.value_type != ValueType::I32;
        let difference = Difference::PerSecond { factor: time_factor(x), drops_decreases };
        Some(Box::new(Memory::new(History::new(difference, node))))
    }

    fn has_memory(&self) -> bool {
        true
    }

    fn on_error(&self) -> OnError {
        OnError::Remember
    }
}

/// Seconds in the argument's unit of time, for rates of times: they are of no unit.
fn time_factor(x: Meta) -> f64 {
    match (x.units.dim_time, x.units.scale_time) {
        (1, 0) => 1.0 / 1000.0 / 1000.0 / 1000.0,
        (1, 1) => 1.0 / 1000.0 / 1000.0,
        (1, 2) => 1.0 / 1000.0,
        (1, 4) => 60.0,
        (1, 5) => 3600.0,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::{Column, Values};
    use crate::functions::testing::{eval_at, evaluator};
    use pcp_model::{Semantics, Units};

    #[test]
    fn counters_that_went_down_have_no_rate() {
        let counter = Meta { semantics: Some(Semantics::Counter), ..Meta::scalar(ValueType::U32) };
        let mut rate = evaluator(&Rate, counter);
        let mut out = Column::new(ValueType::Double);
        for (time, values) in [(1, [10, 20]), (3, [16, 2])] {
            let x = Column::of(vec![1, 2], Values::U32(values.to_vec()));
            eval_at(&mut *rate, &x, time, &mut out).unwrap();
        }
        assert_eq!(out, Column::of(vec![1], Values::Double(vec![3.0])));
    }

    #[test]
    fn rates_of_times_are_without_units() {
        let x = Meta { units: Units::MILLISECOND, ..Meta::scalar(ValueType::U32) };
        assert_eq!(time_factor(x), 0.001);
    }
}
