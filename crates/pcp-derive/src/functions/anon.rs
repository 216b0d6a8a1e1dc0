//! `anon(PM_TYPE_x)`: a metric of this type without values, so that parameters of events have a name and a
//! descriptor (`docs/pcp/derived-language.md` 6).

use super::{Availability, Function};
use crate::lexer::Token;
use crate::parser::{self, Expected, OperandTaken, Parser};
use crate::tree::Kind;
use pcp_model::ValueType;

pub(super) static ANON: Function =
    Function { word: "anon", availability: Availability::Always, takes_pattern: false, parse, behind: None };

/// `NAME )`
fn parse(parser: &mut Parser<'_>, function: &'static Function) -> parser::Result<Option<OperandTaken>> {
    parser.open_call(function, Some(Expected::METRIC));
    let Token::Name(name) = parser.token else {
        return Err(parser.error());
    };
    let at = parser.span;
    parser.advance();
    // PCP takes any name, and looks behind it before it says that it is no type's.
    parser.expect_close()?;
    let value_type = match name {
        "PM_TYPE_32" => ValueType::I32,
        "PM_TYPE_U32" => ValueType::U32,
        "PM_TYPE_64" => ValueType::I64,
        "PM_TYPE_U64" => ValueType::U64,
        "PM_TYPE_FLOAT" => ValueType::Float,
        "PM_TYPE_DOUBLE" => ValueType::Double,
        _ => return Err(parser.error_at(at, format!("type={name} not allowed for anon()"))),
    };
    Ok(Some(parser.whole_call(Kind::Anon(value_type))))
}
