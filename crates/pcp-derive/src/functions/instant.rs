//! `instant(x)`: the values as they are, not to be taken for a counter's (`docs/pcp/derived-language.md` 8.4,
//! `docs/pcp/derived-eval.md` 4.15).

use super::{Availability, Call, CallNode, Evaluate, Function, FunctionCall};
use crate::meta::Meta;
use crate::nodes::{BrokenRule, Rules};
use crate::parser::Expected;

pub(super) static INSTANT: Function = Function {
    word: "instant",
    availability: Availability::Always,
    takes_pattern: false,
    parse: |parser, function| {
        // These are PCP's words, though any expression will do since 6.3.8.
        parser.call_of_metric_at_603(function, Expected::METRIC, Call::plain(&Instant))
    },
    behind: None,
};

#[derive(Debug)]
struct Instant;

impl FunctionCall for Instant {
    fn function(&self) -> &'static Function {
        &INSTANT
    }

    fn bind(&self, x: Meta, _: Rules<'_>) -> Result<Meta, BrokenRule> {
        Ok(if x.is_counter() { x.instant() } else { x })
    }

    fn evaluator(&self, _: &CallNode<'_>) -> Option<Box<dyn Evaluate>> {
        None
    }
}
