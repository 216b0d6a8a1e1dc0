//! From text to tokens.

use logos::Logos;

use super::{FilterError, FilterErrorKind};

#[derive(Logos, Clone, Copy, Debug, PartialEq, Eq)]
#[logos(skip r"[ \t\r\n\f]+")]
pub(super) enum Token {
    #[token("(")]
    Open,
    #[token(")")]
    Close,
    #[token("[")]
    OpenList,
    #[token("]")]
    CloseList,
    #[token(",")]
    Comma,
    #[token("==")]
    Eq,
    #[token("!=")]
    Ne,
    #[token("<")]
    Lt,
    #[token("<=")]
    Le,
    #[token(">")]
    Gt,
    #[token(">=")]
    Ge,
    #[token("=~")]
    Match,
    #[token("!~")]
    NoMatch,
    #[token("=")]
    Assign,
    #[token("&&")]
    #[token("and")]
    And,
    #[token("||")]
    #[token("or")]
    Or,
    #[token("!")]
    Bang,
    #[token("not")]
    Not,
    #[token("in")]
    In,
    #[token("exists")]
    Exists,
    #[token("true")]
    True,
    #[token("false")]
    False,
    #[token("start")]
    Start,
    #[token("end")]
    End,
    #[token("point")]
    Point,
    #[token("*")]
    Star,
    #[regex(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*")]
    Word,
    #[regex(r"-?[0-9]+")]
    #[regex(r"0x[0-9a-fA-F]+")]
    Int,
    #[regex(r"-?[0-9]+\.[0-9]+([eE][+-]?[0-9]+)?")]
    #[regex(r"-?[0-9]+[eE][+-]?[0-9]+")]
    Float,
    /// With escapes.
    #[regex(r#""([^"\\]|\\[^\n]|\\\n)*""#)]
    Text,
    /// Without escapes.
    #[regex(r"'[^']*'")]
    RawText,
    /// A field name with escapes.
    #[regex(r"`([^`\\]|\\[^\n]|\\\n)*`")]
    Name,
}

/// A token, its text and where it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    pub token: Token,
    pub text: &'a str,
    /// Byte offset.
    pub at: usize,
}

/// Whether a field name can be written without backquotes.
pub(super) fn is_plain_name(name: &str) -> bool {
    let mut tokens = Token::lexer(name);
    matches!(tokens.next(), Some(Ok(Token::Word))) && tokens.slice().len() == name.len()
}

/// All tokens of a text.
pub(super) fn tokens(text: &str) -> Result<Vec<Piece<'_>>, FilterError> {
    let mut pieces = Vec::new();
    let mut lexer = Token::lexer(text);
    while let Some(token) = lexer.next() {
        let at = lexer.span().start;
        match token {
            Ok(token) => pieces.push(Piece { token, text: lexer.slice(), at }),
            Err(()) => {
                let character = text
                    .get(at..)
                    .and_then(|rest| rest.chars().next())
                    .unwrap_or(char::REPLACEMENT_CHARACTER);
                let reason = match character {
                    '"' | '\'' | '`' => FilterErrorKind::Unterminated(character),
                    other => FilterErrorKind::UnknownCharacter(other),
                };
                return Err(error(text, at, reason));
            }
        }
    }
    Ok(pieces)
}

/// An error at a byte offset.
pub(super) fn error(text: &str, at: usize, reason: FilterErrorKind) -> FilterError {
    FilterError { column: 1 + text.char_indices().take_while(|&(i, _)| i < at).count(), reason }
}

/// What a token with escapes stands for: `\n \r \t` and an escaped quote or backslash; any other
/// backslash stays, so that regular expressions need no doubling.
pub(super) fn unescape(quoted: &str) -> String {
    let inner = &quoted[1..quoted.len() - 1];
    let mut out = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some(quote @ ('"' | '`' | '\\')) => out.push(quote),
            Some(other) => out.extend(['\\', other]),
            None => out.push('\\'),
        }
    }
    out
}
