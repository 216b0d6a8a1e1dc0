//! What names of sources and event types may be.

/// Longest source name in bytes.
pub const MAX_SOURCE_NAME: usize = 64;
/// Longest beginning of an event type or a span's name in the name of its instance, in bytes.
pub const MAX_TYPE_NAME: usize = 64;
/// Counted under this event type: events without a type.
pub const UNTYPED: &str = "(none)";
/// Counted under this event type: events of types beyond the cap.
pub const OTHER_TYPES: &str = "(other)";

/// What a source's name is, in words: what [`is_source_name`] checks.
pub const SOURCE_NAME_RULE: &str = "1 to 64 bytes without blanks, slashes, control characters and leading [";

/// A name that a source cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is no source name: {SOURCE_NAME_RULE}")]
pub struct NotASourceName {
    /// The name.
    pub name: String,
}

/// Whether a source may be called this: instance names end at the first blank for most of PCP, and a
/// slash separates source and event type in instance names.
pub fn is_source_name(name: &str) -> bool {
    (1..=MAX_SOURCE_NAME).contains(&name.len())
        // The id file would take it for a key.
        && !name.starts_with('[')
        && !name.chars().any(|c| c.is_whitespace() || c.is_control() || c == '/')
}

/// Checks a name from a configuration or a command line.
///
/// # Errors
/// It is no source name; the message says what one is.
pub fn check_source_name(name: &str) -> Result<(), NotASourceName> {
    if is_source_name(name) { Ok(()) } else { Err(NotASourceName { name: name.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_in_words_is_the_rule() {
        assert!(SOURCE_NAME_RULE.starts_with(&format!("1 to {MAX_SOURCE_NAME} bytes")));
        for bad in ["", "[x", "a b", "a/b", "a\u{0}", &"n".repeat(MAX_SOURCE_NAME + 1)] {
            let error = check_source_name(bad).expect_err(bad).to_string();
            assert!(error.ends_with(SOURCE_NAME_RULE), "{error}");
        }
        assert_eq!(check_source_name("größe[1]"), Ok(()));
    }
}
