//! `/pmapi/derive`: derived metrics of a context.

use super::call::{Call, Output};
use super::session::Session;
use crate::server::answer::Refusal;

pub(super) fn derive(call: &Call, session: &mut Session, number: u32) -> Result<Output, Refusal> {
    let expr = match call.query.get("expr") {
        Some(expr) => expr,
        None => &call.body,
    };
    if expr.is_empty() {
        return Err(Refusal::bad("invalid derive parameters"));
    }
    // They remember the sample before, and what they are bound to.
    session.keep_connection()?;
    match call.query.get("name") {
        Some(name) => session.define(name, expr).map_err(Refusal::bad)?,
        None => group(session, expr)?,
    }
    Output::success(number)
}

/// Adds definitions, each of a line.
fn group(session: &mut Session, text: &str) -> Result<(), Refusal> {
    let is_end = |c: char| matches!(c, '\n' | '\r' | '&' | ';');
    let mut rest = text;
    let mut number = 0;
    while !rest.is_empty() {
        let end = rest.find(is_end);
        let line = &rest[..end.unwrap_or(rest.len())];
        let is_empty = line.trim().is_empty() || line.trim_start().starts_with('#');
        let (name, expr) = line.split_once('=').unwrap_or((line, ""));
        let (name, expr) = (name.trim(), expr.trim());
        if !is_empty && (end.is_none() || expr.is_empty()) {
            return Err(Refusal::bad(format!(
                "failed to parse derived metric \"{name}\" on line {number} - incomplete expression\n"
            )));
        }
        if !is_empty {
            session.define(name, expr).map_err(|why| {
                Refusal::bad(format!(
                    "failed to create derived metric \"{name}\" on line {number} from: {expr}\n{why}"
                ))
            })?;
        }
        number += 1;
        rest = end.map_or("", |end| &rest[end + 1..]);
    }
    Ok(())
}
