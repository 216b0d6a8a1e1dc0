//! The nodes of an expression: one file a family, with its type rule, its evaluation and their tests.
//!
//! Type rules take the metadata of the operands and give that of the node, or PCP's words for what is
//! wrong. Evaluation takes columns and fills a column.

pub(super) mod aggregate;
pub(super) mod beyond;
pub(super) mod binary;
pub(super) mod constant;
pub(super) mod filter;
pub(super) mod history;
pub(super) mod pairing;
pub(super) mod rescale;
pub(super) mod ternary;
pub(super) mod unary;
pub(super) mod window;

use super::dialect::{Dialect, Level};
use super::equivalent::EquivalentIndoms;
use super::meta::Meta;

/// What type rules depend on besides their operands.
#[derive(Clone, Copy)]
pub(super) struct Rules<'a> {
    pub level: Level,
    /// Whether the extra units of 7.2 count.
    pub extra_units: bool,
    pub equivalent: &'a EquivalentIndoms,
}

impl<'a> Rules<'a> {
    pub fn new(dialect: &Dialect, equivalent: &'a EquivalentIndoms) -> Rules<'a> {
        Rules { level: dialect.level, extra_units: dialect.has_indom_tag(), equivalent }
    }
}

/// An operand as type rules see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub meta: Meta,
    /// Whether it is a number, `mkconst` included.
    pub constant: bool,
}

/// PCP's words for a broken rule.
pub(super) type Problem = &'static str;
