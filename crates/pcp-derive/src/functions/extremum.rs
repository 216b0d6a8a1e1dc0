//! `max(metric)` and `min(metric)`: the largest and smallest value of the instances (`docs/pcp/derived-eval.md` 4.13).

use super::{Availability, Call, CallNode, Evaluate, Evaluation, Function, FunctionCall, numeric};
use crate::column::{Column, Number, Values};
use crate::meta::Meta;
use crate::nodes::{BrokenRule, Rules};
use pcp_model::{InDom, PM_IN_NULL, PmError};

pub(super) static MAX: Function = Function {
    word: "max",
    availability: Availability::Always,
    takes_pattern: false,
    parse: |parser, function| parser.call_of_metric(function, Call::plain(&Extremum::Max)),
    behind: None,
};

pub(super) static MIN: Function = Function {
    word: "min",
    parse: |parser, function| parser.call_of_metric(function, Call::plain(&Extremum::Min)),
    ..MAX
};

#[derive(Clone, Copy, Debug)]
enum Extremum {
    Max,
    Min,
}

impl FunctionCall for Extremum {
    fn function(&self) -> &'static Function {
        match self {
            Extremum::Max => &MAX,
            Extremum::Min => &MIN,
        }
    }

    fn bind(&self, x: Meta, _: Rules<'_>) -> Result<Meta, BrokenRule> {
        Ok(Meta { indom: InDom::NULL, ..numeric(x)? }.instant())
    }

    fn evaluator(&self, _: &CallNode<'_>) -> Option<Box<dyn Evaluate>> {
        Some(Box::new(*self))
    }

    /// The result before: it stays where there is nothing to choose from.
    fn has_memory(&self) -> bool {
        true
    }

    fn keeps_values(&self) -> bool {
        true
    }
}

impl Evaluate for Extremum {
    /// Of nothing the result stays what it was; NaN never replaces a value, and is never replaced.
    fn eval(&mut self, x: &Column, out: &mut Column, _: &mut Evaluation<'_>) -> Result<(), PmError> {
        fn best<T: Number>(values: &[T], which: Extremum, out: &mut Column) {
            let better = |value: T, best: T| match which {
                Extremum::Max => value > best,
                Extremum::Min => value < best,
            };
            // No `Iterator::max`: comparisons with NaN are false both ways, so the order counts.
            if let Some((&first, rest)) = values.split_first() {
                let best =
                    rest.iter().fold(first, |best, &value| if better(value, best) { value } else { best });
                out.clear();
                out.push_number(PM_IN_NULL, best);
            }
        }
        match &x.values {
            Values::I32(x) => best(x, *self, out),
            Values::U32(x) => best(x, *self, out),
            Values::I64(x) => best(x, *self, out),
            Values::U64(x) => best(x, *self, out),
            Values::Float(x) => best(x, *self, out),
            Values::Double(x) => best(x, *self, out),
            Values::Other(_) => debug_assert!(false, "the type rule lets numbers through only"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::testing::{eval_at, evaluator};
    use pcp_model::ValueType;

    #[test]
    fn extremes_of_nothing_stay() {
        let x = Column::of(vec![1, 2], Values::Double(vec![1.0, f64::NAN]));
        let mut out = Column::new(ValueType::Double);
        let mut max = evaluator(&Extremum::Max, Meta::scalar(ValueType::Double));
        eval_at(&mut *max, &x, 1, &mut out).unwrap();
        eval_at(&mut *max, &Column::new(ValueType::Double), 2, &mut out).unwrap();
        assert_eq!(out.values, Values::Double(vec![1.0]));
    }
}
