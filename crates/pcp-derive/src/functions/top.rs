//! `topk(n, x)` and `bottomk(n, x)`: the instances with the n largest or smallest values, in that order. No PCP
//! has them. The argument must be numeric and keeps its metadata.

use std::cmp;

use super::{Availability, Call, CallNode, Evaluate, Evaluation, Function, FunctionCall, numeric};
use crate::column::{Column, Number, Values};
use crate::lexer::Token;
use crate::meta::Meta;
use crate::nodes::{BrokenRule, Rules};
use crate::parser::{self, Expected, OperandTaken, Parser, number};
use pcp_model::PmError;

pub(super) static TOPK: Function = Function {
    word: "topk",
    availability: Availability::BeyondPcp,
    takes_pattern: false,
    parse: |parser, function| parse(parser, function, End::Top),
    behind: None,
};

pub(super) static BOTTOMK: Function =
    Function { word: "bottomk", parse: |parser, function| parse(parser, function, End::Bottom), ..TOPK };

/// `INTEGER ,`
fn parse(
    parser: &mut Parser<'_>,
    function: &'static Function,
    end: End,
) -> parser::Result<Option<OperandTaken>> {
    parser.open_call(function, Some(Expected::new("<number>, <expr>)", "")));
    let Token::Integer(digits) = parser.token else {
        return Err(parser.error());
    };
    parser.advance();
    parser.comma()?;
    parser.argument_follows(Call::with(Top { n: number(digits) as u32, end }))
}

#[derive(Clone, Copy, Debug)]
struct Top {
    n: u32,
    end: End,
}

/// Which end of the order comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Top,
    Bottom,
}

impl FunctionCall for Top {
    fn function(&self) -> &'static Function {
        match self.end {
            End::Top => &TOPK,
            End::Bottom => &BOTTOMK,
        }
    }

    fn bind(&self, x: Meta, _: Rules<'_>) -> Result<Meta, BrokenRule> {
        numeric(x)
    }

    fn evaluator(&self, _: &CallNode<'_>) -> Option<Box<dyn Evaluate>> {
        Some(Box::new(*self))
    }

    fn before(&self) -> String {
        format!("{}, ", self.n)
    }
}

impl Evaluate for Top {
    /// Equal values stay in the order they came, NaN goes last.
    fn eval(&mut self, x: &Column, out: &mut Column, fetch: &mut Evaluation<'_>) -> Result<(), PmError> {
        out.clear();
        let places = &mut fetch.ordering.places;
        places.clear();
        places.extend(0..x.len() as u32);
        match &x.values {
            Values::I32(values) => sort(values, self.end, places),
            Values::U32(values) => sort(values, self.end, places),
            Values::I64(values) => sort(values, self.end, places),
            Values::U64(values) => sort(values, self.end, places),
            Values::Float(values) => sort(values, self.end, places),
            Values::Double(values) => sort(values, self.end, places),
            Values::Other(_) => debug_assert!(false, "the type rule lets numbers through only"),
        }
        for &place in places.iter().take(self.n as usize) {
            out.push_from(x, place as usize);
        }
        Ok(())
    }
}

fn sort<T: Number>(values: &[T], end: End, places: &mut [u32]) {
    // The places are those of these very values.
    let value = |place: u32| values[place as usize];
    let is_nan = |v: T| v.partial_cmp(&v).is_none();
    // Places make the order total, so the sort need not be a stable one, which would allocate.
    places.sort_unstable_by(|&a, &b| {
        let (x, y) = (value(a), value(b));
        let by_value: cmp::Ordering = match x.partial_cmp(&y) {
            Some(order) if end == End::Top => order.reverse(),
            Some(order) => order,
            None => is_nan(x).cmp(&is_nan(y)),
        };
        by_value.then(a.cmp(&b))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::testing::check;

    #[test]
    fn equal_values_stay_in_order_and_nan_goes_last() {
        let numbers = || Values::I32(vec![3, -7, 9, 3]);
        check(&Top { n: 3, end: End::Top }, numbers(), &[(3, 9.0), (1, 3.0), (4, 3.0)]);
        check(&Top { n: 1, end: End::Bottom }, numbers(), &[(2, -7.0)]);
        check(&Top { n: 1, end: End::Top }, Values::Double(vec![f64::NAN, 1.0]), &[(2, 1.0)]);
    }
}
