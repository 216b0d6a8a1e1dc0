//! `mkconst(number, tag=value, ...)`: a constant with metadata of its own (`docs/pcp/derived-language.md` 6.2). Its
//! type rule and value are those of constants, `nodes::constant`.

use super::{Availability, Function};
use crate::dialect::Level;
use crate::lexer::Token;
use crate::parser::{self, Expected, OperandTaken, Parser};
use crate::tree::{Constant, Kind, Tags};
use pcp_model::ValueType;

pub(super) static MKCONST: Function = Function {
    word: "mkconst",
    availability: Availability::Always,
    takes_pattern: false,
    parse,
    behind: None,
};

fn parse(parser: &mut Parser<'_>, function: &'static Function) -> parser::Result<Option<OperandTaken>> {
    parser.open_call(function, None);
    let (digits, decimal) = match parser.token {
        Token::Integer(digits) => (digits, false),
        Token::Double(digits) => (digits, true),
        _ => return Err(parser.error()),
    };
    // PCP has words only behind whole numbers, and none at 6.0.3.
    if !decimal && parser.dialect.level > Level::V603 {
        parser.expect(Expected::new("metadata keyword", "type"));
    }
    parser.advance();
    // At least one tag.
    parser.comma()?;
    let mut tags = Tags::default();
    parser.tags(&mut tags)?;
    if decimal && let Some(value_type) = tags.value_type.filter(|t| !is_floating(*t)) {
        let name = value_type.name();
        return Err(parser.error_with(format!("Incompatible floating point constant and type '{name}'")));
    }
    let constant = Constant { digits: digits.into(), decimal, tags: Some(tags) };
    Ok(Some(parser.whole_call(Kind::Constant(Box::new(constant)))))
}

fn is_floating(value_type: ValueType) -> bool {
    matches!(value_type, ValueType::Float | ValueType::Double)
}
