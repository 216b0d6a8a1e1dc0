//! What fuzz targets reach of the inside; not for anybody else.

use super::logs::logql;
use super::logs::taken;
pub use super::page::fuzzing::page_query;
pub use super::pmapi::fuzzing::web_query;

/// Reads a query of LogQL, and applies it to a record with this message. Whether it is a query; what is written of it is the same query.
pub fn logql(text: &str, message: &str) -> bool {
    let Ok(expr) = logql::parse(text) else { return false };
    let shown = expr.to_string();
    // Written out it may be longer than a query may be.
    if shown.len() <= logql::parse::MAX_TEXT {
        match logql::parse(&shown) {
            Ok(again) => assert_eq!(again, expr, "{shown}"),
            // Or deeper, as all parentheses are there.
            Err(error) => assert!(
                error.why.contains("in one another") || error.why.contains("parts"),
                "{shown}: {error}"
            ),
        }
    }
    taken(&expr, message);
    true
}
