//! `matchinst(/pattern/, x)` and `matchinst(!/pattern/, x)`: the instances whose names match, or do not (
//! `docs/pcp/derived-eval.md` 4.17).

use std::collections::HashMap;
use std::sync::Arc;

use super::{Availability, Call, CallNode, Evaluate, Evaluation, Function, FunctionCall};
use crate::column::Column;
use crate::lexer::{Token, unescape};
use crate::meta::Meta;
use crate::nodes::{BrokenRule, Rules};
use crate::parser::{self, Expected, OperandTaken, Parser};
use crate::pattern::Pattern;
use crate::print::escape;
use pcp_model::{InDom, Inst, PmError};

pub(super) static MATCHINST: Function = Function {
    word: "matchinst",
    availability: Availability::Always,
    takes_pattern: true,
    parse,
    behind: None,
};

/// `[!] PATTERN ,`
fn parse(parser: &mut Parser<'_>, function: &'static Function) -> parser::Result<Option<OperandTaken>> {
    parser.open_call(function, Some(Expected::new("<filter>, <expr>)", "")));
    let invert = parser.token == Token::Not;
    if invert {
        parser.advance();
    }
    let Token::Pattern(source) = parser.token else {
        return Err(parser.error());
    };
    let pattern = Pattern::new(&unescape(source))
        .map_err(|error| parser.error_with(format!("bad regular expression: '{error}'")))?;
    parser.expect(Expected::new(", <expr>)", "<filter>"));
    parser.advance();
    parser.comma()?;
    parser.expect(Expected::new("<expr>)", "<filter>,"));
    parser.argument_follows(Call::with(MatchInst(Arc::new(Matcher { invert, pattern }))))
}

#[derive(Debug)]
struct MatchInst(Arc<Matcher>);

/// The instances that are let through.
#[derive(Debug)]
struct Matcher {
    /// Those that do not match.
    invert: bool,
    pattern: Pattern,
}

impl Matcher {
    /// Names count up to the first space.
    fn passes(&self, name: &str) -> bool {
        let name = name.split(' ').next().unwrap_or_default();
        self.pattern.is_match(name) != self.invert
    }

    fn invert(&self) -> &'static str {
        if self.invert { "!" } else { "" }
    }
}

impl FunctionCall for MatchInst {
    fn function(&self) -> &'static Function {
        &MATCHINST
    }

    fn bind(&self, x: Meta, _: Rules<'_>) -> Result<Meta, BrokenRule> {
        Ok(x)
    }

    fn evaluator(&self, node: &CallNode<'_>) -> Option<Box<dyn Evaluate>> {
        Some(Box::new(Filter {
            matcher: self.0.clone(),
            indom: node.argument.indom,
            seen: HashMap::new(),
            evaluations: 0,
        }))
    }

    fn has_memory(&self) -> bool {
        true
    }

    fn before(&self) -> String {
        format!("{}/{}/, ", self.0.invert(), escape(self.0.pattern.source(), '/'))
    }

    fn in_tree(&self) -> (String, String) {
        (format!("FILTERINST {}/{}/ ", self.0.invert(), self.0.pattern.source()), String::new())
    }
}

/// A `matchinst` and what it knows of instances.
#[derive(Debug)]
struct Filter {
    matcher: Arc<Matcher>,
    indom: InDom,
    seen: HashMap<Inst, Seen>,
    evaluations: u32,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    passes: bool,
    /// In how many evaluations since the last ageing.
    times: u32,
}

impl Filter {
    /// An ageing every so many evaluations forgets instances that were in fewer than half of them.
    const AGE: u32 = 100;

    fn age(&mut self) {
        self.evaluations = 0;
        self.seen.retain(|_, seen| {
            let keep = seen.times >= Filter::AGE / 2;
            seen.times = 0;
            keep
        });
    }
}

impl Evaluate for Filter {
    /// Names are looked up once an instance.
    fn eval(&mut self, x: &Column, out: &mut Column, fetch: &mut Evaluation<'_>) -> Result<(), PmError> {
        out.clear();
        self.evaluations += 1;
        // Singular values have no instances that could match.
        if self.indom != InDom::NULL {
            for (at, &inst) in x.ids.iter().enumerate() {
                let seen = self.seen.entry(inst).or_insert_with(|| {
                    let mut passes = false;
                    let mut test = |name: &str| passes = self.matcher.passes(name);
                    // An instance without a name passes neither way.
                    let named = fetch.source.instance_name(self.indom, inst, &mut test).is_ok();
                    Seen { passes: named && passes, times: 0 }
                });
                seen.times += 1;
                if seen.passes {
                    out.push_from(x, at);
                }
            }
        }
        if self.evaluations == Filter::AGE {
            self.age();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::testing::{eval_with, evaluator};
    use crate::nodes::testing::{INDOM, Names, column};
    use pcp_model::ValueType;

    #[test]
    fn names_are_cut_at_the_first_space_and_looked_up_once() {
        let call = |invert| MatchInst(Arc::new(Matcher { invert, pattern: Pattern::new("0$").unwrap() }));
        let x = Meta { indom: INDOM, ..Meta::scalar(ValueType::I32) };
        let (mut names, mut out) = (Names(0), column(&[]));
        let mut filter = evaluator(&call(false), x);
        for _ in 0..3 {
            eval_with(&mut *filter, &column(&[1, 2, 3]), 0, &mut names, &mut out).unwrap();
            assert_eq!(out, column(&[1]));
        }
        assert_eq!(names.0, 3);
        eval_with(&mut *evaluator(&call(true), x), &column(&[1, 2, 3]), 0, &mut names, &mut out).unwrap();
        assert_eq!(out, column(&[2]), "an instance without a name matches neither way");
    }
}
