//! `novalue(tag=value, ...)`: no value, on one side of a ternary (`docs/pcp/derived-language.md` 8.12). Its
//! metadata is that of constants with tags, `nodes::constant`.

use super::{Availability, Function};
use crate::dialect::Level;
use crate::lexer::Token;
use crate::parser::{self, Expected, OperandTaken, Parser, TernarySide};
use crate::tree::{Kind, Tags};

pub(super) static NOVALUE: Function = Function {
    word: "novalue",
    availability: Availability::Since(Level::V638),
    takes_pattern: false,
    parse,
    behind: None,
};

fn parse(parser: &mut Parser<'_>, function: &'static Function) -> parser::Result<Option<OperandTaken>> {
    // It may only be a whole side of a ternary.
    let Some(side) = parser.ternary_side() else {
        return Err(parser.error());
    };
    parser.open_call(function, Some(Expected::new("metadata keyword", "")));
    let mut tags = Tags::default();
    if parser.token != Token::Close {
        parser.tags(&mut tags)?;
    }
    if side == (TernarySide::No { other_is_novalue: true }) {
        // PCP finds this out one token later if the outermost thing open is an operator's right side.
        if parser.is_right_of_operator() {
            parser.advance();
        }
        return Err(parser.error_with("novalue() may appear at most once in a ternary expression"));
    }
    let taken = parser.whole_call(Kind::NoValue(Box::new(tags)));
    match side {
        TernarySide::No { .. } => {
            // Unlike other third operands it ends the ternary at once: nothing can be added to it.
            parser.end_ternary();
            Ok(Some(taken))
        }
        TernarySide::Yes => parser.colon_behind_novalue().map(|()| None),
    }
}
