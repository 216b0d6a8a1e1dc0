//! The query language of pmseries (`docs/pcp/webapi.md` 11 to 13).
//!
//! ```text
//! text --lexer--> tokens --parser--> Expr
//! ```
//!
//! * [`lexer`]: tokens with their places. [`syntax`]: what a query is. [`parser`]: from the one to the other, with errors in pmseries'
//!   form; [`window`]: what windows say, in queries and in parameters.
//!
//! **Cost:** linear in the text. Text, depth and number of conditions are limited.

mod lexer;
mod parser;
mod syntax;
mod window;

pub(super) use parser::parse;
pub(super) use syntax::{Condition, Expr, Function, Join, Key, Metric, Op, Operator, Selector, Value};
pub(super) use window::Window;

/// Why a query is none: what the client is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct QueryError(pub String);
