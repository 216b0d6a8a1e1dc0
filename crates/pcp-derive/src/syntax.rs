//! What is wrong with a text that is not an expression.

use std::borrow::Cow;
use std::fmt;

use super::tree::Span;
use pcp_model::text::cut;

/// A text that is not an expression: where PCP says it goes wrong, and its words for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The byte PCP points at: the start of the token that cannot stand there, or the last byte of the
    /// text when more is missing at its end; -1 in an empty text.
    pub position: i64,
    /// PCP's text. It has none for several errors.
    pub text: Option<Cow<'static, str>>,
    /// The token that cannot stand there; empty at the end of the text.
    pub found: Span,
}

impl SyntaxError {
    /// The longest text PCP keeps.
    const MAX_TEXT: usize = 255;

    pub(super) fn new(position: i64, found: Span, text: Option<Cow<'static, str>>) -> SyntaxError {
        let text = text.map(|mut text| {
            let kept = cut(&text, SyntaxError::MAX_TEXT).len();
            if kept < text.len() {
                text.to_mut().truncate(kept);
            }
            text
        });
        SyntaxError { position, text, found }
    }

    /// What is wrong, also where PCP has no words.
    pub fn message(&self, source: &str) -> String {
        let found = self.found.of(source);
        match &self.text {
            Some(text) => text.to_string(),
            None if source.trim().is_empty() => "expression is empty".to_owned(),
            None if found.is_empty() => "expression ends too early".to_owned(),
            None => format!("'{found}' cannot stand here"),
        }
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text.as_deref().unwrap_or("syntax error"))
    }
}

impl std::error::Error for SyntaxError {}
