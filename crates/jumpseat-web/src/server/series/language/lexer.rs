//! Tokens of a query.

use logos::{Logos, Span};

/// A token. A name may have `*`, so that `disk.dev.read*2` is one name.
#[derive(Logos, Clone, Copy, Debug, PartialEq, Eq)]
#[logos(skip r"[ \t\r\n]+")]
pub(super) enum Token {
    /// A metric, a label, a function, a word of a window.
    #[regex(r"[A-Za-z]([A-Za-z0-9_.*%]|\\[^\n])*")]
    Name,
    /// In double quotes, without escapes.
    #[regex(r#""[^"]*""#)]
    Text,
    #[regex(r"[0-9]+(\.[0-9]*)?")]
    Number,
    #[token("==")]
    Equal,
    #[token("!=")]
    NotEqual,
    #[token("~~")]
    #[token(":")]
    Like,
    #[token("=~")]
    Match,
    #[token("!~")]
    NoMatch,
    #[token("<")]
    Less,
    #[token("<=")]
    LessOrEqual,
    #[token(">")]
    Greater,
    #[token(">=")]
    GreaterOrEqual,
    #[token("=")]
    Assign,
    #[token(",")]
    Comma,
    #[token("&&")]
    And,
    #[token("||")]
    Or,
    #[token("{")]
    OpenBrace,
    #[token("}")]
    CloseBrace,
    #[token("[")]
    OpenBracket,
    #[token("]")]
    CloseBracket,
    #[token("(")]
    OpenParen,
    #[token(")")]
    CloseParen,
    #[token("+")]
    Plus,
    #[token("-")]
    Minus,
    #[token("*")]
    Times,
    #[token("/")]
    Slash,
    /// What is none.
    Bad,
}

/// The tokens of a text, with their places.
pub(super) fn tokens(text: &str) -> Vec<(Token, Span)> {
    Token::lexer(text).spanned().map(|(token, span)| (token.unwrap_or(Token::Bad), span)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_belongs_to_a_name() {
        let kinds = |text| tokens(text).into_iter().map(|(token, _)| token).collect::<Vec<_>>();
        assert_eq!(kinds("disk.dev.read*2"), [Token::Name]);
        assert_eq!(kinds("2*disk"), [Token::Number, Token::Times, Token::Name]);
        assert_eq!(kinds("a-b"), [Token::Name, Token::Minus, Token::Name]);
        assert_eq!(kinds("#\"x"), [Token::Bad, Token::Bad]);
    }
}
