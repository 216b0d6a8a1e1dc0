//! Cases of parsing: `src`, and `tree`, or `at` and `text`.

use serde_json::Value as Json;

use super::cases::{BadCase, Outcome, compare};
use pcp_derive::{Dialect, Level, parse};

pub(super) fn replay(case: &Json, expected: &Json, dialect: &Dialect) -> Result<Outcome, BadCase> {
    let source = case["src"].as_str().ok_or(BadCase::Field("src"))?;
    let parsed = parse(source, dialect);
    if let Err(error) = &parsed
        && dialect.level == Level::V721
        && error.text.as_deref().is_some_and(|text| text.starts_with("novalue() may appear"))
    {
        // 7.2.1 takes the tree of whatever was parsed before.
        return Ok(Outcome::Undefined);
    }
    let ok = expected["ok"].as_bool().ok_or(BadCase::Field("ok"))?;
    if ok && expected["tree"].is_null() && parsed.is_ok() {
        return Ok(Outcome::Passed);
    }
    let expected = if ok {
        expected["tree"].as_str().unwrap_or("a tree").to_owned()
    } else {
        let at = expected["at"].as_i64().ok_or(BadCase::Field("at"))?;
        format!("@{at} {}", expected["text"].as_str().unwrap_or("(no text)"))
    };
    let found = match parsed {
        Ok(tree) => tree.to_string(),
        Err(error) => format!("@{} {}", error.position, error.text.as_deref().unwrap_or("(no text)")),
    };
    // 6.0.3 keeps the instance of `(expr)[x]` where it keeps patterns.
    let expected = if dialect.level == Level::V603 { expected.replace(['[', ']'], "/") } else { expected };
    let found = if dialect.level == Level::V603 { found.replace(['[', ']'], "/") } else { found };
    Ok(compare(source, expected, latin1(&found)))
}

/// Texts were recorded byte by byte.
fn latin1(text: &str) -> String {
    text.bytes().map(char::from).collect()
}
