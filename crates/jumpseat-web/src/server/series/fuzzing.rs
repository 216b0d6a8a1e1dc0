//! What fuzz targets reach: not for use.

use pcp_model::Timestamp;

use super::language;

/// The canonical text of a query, if it is one.
pub fn canonical(text: &str) -> Option<String> {
    let query = language::parse(text, Timestamp::new(1_700_000_000, 0)).ok()?;
    Some(query.expr.canonical(&|_| None))
}

/// Whether a glob matches a text.
pub fn glob(pattern: &str, text: &str) -> bool {
    crate::server::pattern::glob(pattern).is_ok_and(|glob| glob.is_match(text))
}

/// Reads a file of the index.
pub fn cached(bytes: &[u8]) -> bool {
    super::cache::is_sound(bytes)
}
