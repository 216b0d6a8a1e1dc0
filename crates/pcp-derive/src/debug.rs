//! What the debug option `derive` shows (`pmdbg(1)`), as events of `tracing` with level TRACE: definitions and what
//! becomes of them as `pcp::derive`; with `appl0` the tokens, with `appl1` what is known of each node, with `appl2` the
//! values at each evaluation (`pcp::derive::appl0` and so on).
//!
//! Cost: a load of one word where nobody listens; texts are made only for who does, and are of bounded length.

use std::fmt::Display;

use tracing::{Level, enabled, trace};

use super::bind::Bound;
use super::column::Column;
use super::diagnostic::BindError;
use super::explain::explain;
use super::lexer::Token;
use super::meta::Meta;
use super::registry::{Definition, RegisterError};
use super::report::{describe, report_binding, report_refusal};
use super::tree::Span;
use pcp_model::text::{cut, listed};
use pcp_model::{PM_IN_NULL, PmError, Pmid, Timestamp};

/// Values of a column, operands of a definition that are shown.
const SHOWN: usize = 16;
/// Bytes of an expression or value that are shown.
const TEXT: usize = 1024;

/// A definition was given, to all contexts or one.
pub(super) fn defined(name: &str, expression: &str, made: Result<&Definition, &RegisterError>) {
    if !enabled!(target: "pcp::derive", Level::TRACE) {
        return;
    }
    match made {
        Ok(Definition { pmid, tree, .. }) => trace!(
            target: "pcp::derive",
            "defined: {} ({pmid}) = {}\nparsed: {}",
            bounded(name),
            bounded(expression.trim()),
            bounded(&tree.to_string()),
        ),
        Err(error) => trace!(
            target: "pcp::derive",
            "refused: {}\n{}",
            bounded(name),
            bounded(&report_refusal(name, expression, error)),
        ),
    }
}

/// A token was read.
pub(super) fn token(token: &Token<'_>, span: Span, text: &str) {
    if !enabled!(target: "pcp::derive::appl0", Level::TRACE) {
        return;
    }
    let kind = match token {
        Token::Integer(_) => "integer",
        Token::Double(_) => "number",
        Token::Name(_) => "name",
        Token::Function(_) => "function",
        Token::Keyword(_) => "keyword",
        Token::String(_) => "string",
        Token::InstName(_) => "instance",
        Token::Pattern(_) => "pattern",
        Token::Operator(_) | Token::Quest | Token::Colon | Token::Not => "operator",
        Token::Open | Token::Close | Token::Comma | Token::Assign => "punctuation",
        Token::End => return trace!(target: "pcp::derive::appl0", "token at {}: end", span.start),
        Token::Bad(why) => return trace!(target: "pcp::derive::appl0", "no token at {}: {why}", span.start),
    };
    let shown = bounded(span.of(text));
    trace!(target: "pcp::derive::appl0", "token at {}: {kind} {shown}", span.start);
}

/// A name in an expression was looked up.
pub(super) fn resolved(name: &str, what: &impl Display) {
    trace!(target: "pcp::derive::appl1", "operand {name}: {what}");
}

/// The metadata of an operand was asked for.
pub(super) fn operand(pmid: Pmid, meta: &Result<Meta, PmError>) {
    if !enabled!(target: "pcp::derive::appl1", Level::TRACE) {
        return;
    }
    match meta {
        Ok(meta) => trace!(target: "pcp::derive::appl1", "operand {pmid}: {}", describe(*meta)),
        Err(error) => trace!(target: "pcp::derive::appl1", "operand {pmid}: no metadata: {error}"),
    }
}

/// A definition's name is that of a metric which the source has.
pub(super) fn real(definition: &Definition) {
    trace!(
        target: "pcp::derive",
        "not used: {} ({}): the source has a metric of that name",
        definition.name,
        definition.pmid,
    );
}

/// A definition was bound, or was not.
pub(super) fn bound(definition: &Definition, bound: &Result<Bound, BindError>) {
    if !enabled!(target: "pcp::derive", Level::TRACE) {
        return;
    }
    let Definition { name, pmid, expression, .. } = definition;
    match bound {
        Ok(bound) => {
            let operands = listed(bound.operands(), SHOWN);
            let operands = if operands.is_empty() { "none".to_owned() } else { operands };
            trace!(
                target: "pcp::derive",
                "bound: {name} ({pmid}): {}; operands: {operands}",
                describe(bound.meta()),
            );
            trace!(target: "pcp::derive::appl1", "{name}, node by node:\n{}", explain(bound));
        }
        Err(error) => trace!(
            target: "pcp::derive",
            "does not bind: {name} ({pmid})\n{}",
            bounded(&report_binding(name, expression, error)),
        ),
    }
}

/// Whether values are to be shown.
pub(super) fn shows_values() -> bool {
    enabled!(target: "pcp::derive::appl2", Level::TRACE)
}

/// A node was computed.
pub(super) fn computed(number: usize, what: &str, column: Option<&Column>, error: Option<PmError>) {
    let values = match error {
        Some(error) => error.to_string(),
        None => column.map_or_else(|| "no values".to_owned(), values),
    };
    trace!(target: "pcp::derive::appl2", "node {number}, {what}: {values}");
}

/// A definition was evaluated.
pub(super) fn evaluated(definition: &Definition, time: Timestamp, result: &Result<&Column, PmError>) {
    let Definition { name, pmid, .. } = definition;
    let values = match result {
        Ok(column) => values(column),
        Err(error) => error.to_string(),
    };
    trace!(target: "pcp::derive::appl2", "{name} ({pmid}) at {time}: {values}");
}

/// A text of which no line is long: of one that is the beginning, and how much more there is.
fn bounded(text: &str) -> String {
    let line = |line: &str| {
        let shown = cut(line, TEXT);
        match line.len() - shown.len() {
            0 => shown.to_owned(),
            more => format!("{shown} and {more} bytes more"),
        }
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The values of a column, by instances.
fn values(column: &Column) -> String {
    if column.ids.is_empty() {
        return "no values".to_owned();
    }
    let each = column.ids.iter().enumerate().map(|(at, &inst)| {
        let value = column.values.get(at).map(|value| value.to_string()).unwrap_or_default();
        let value = cut(&value, TEXT);
        if inst == PM_IN_NULL { value.to_owned() } else { format!("[{inst}] {value}") }
    });
    listed(each, SHOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_end_with_how_much_was_left_out() {
        let long = "x".repeat(TEXT + 7);
        let shown = bounded(&format!("error: short\n  {long}\n    ^"));
        let expected = format!("error: short\n  {} and 9 bytes more\n    ^", &long[..TEXT - 2]);
        assert_eq!(shown, expected);
    }
}
