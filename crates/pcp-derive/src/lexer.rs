//! Text to tokens (`docs/pcp/derived-language.md` 5).
//!
//! The regular part is logos'; what depends on the context (function words before `(`, patterns
//! inside `matchinst`) and the quoted tokens are done here. Each byte is looked at once.

use logos::Logos;

use super::dialect::{Dialect, Level};
use super::functions::Function;
use super::tree::{BinaryOp, Span};

/// Tokens that a regular grammar can tell.
#[derive(Logos, Clone, Copy, Debug, PartialEq, Eq)]
#[logos(skip r"[ \t\n\r\x0b\x0c]+")]
enum Raw {
    #[regex("[0-9]+")]
    Integer,
    #[regex(r"[0-9]+\.[0-9]*|\.[0-9]*")]
    Double,
    #[regex("[A-Za-z][A-Za-z0-9_.]*")]
    Name,
    #[token("\"")]
    Quote,
    #[token("[")]
    Bracket,
    #[token("+", |_| BinaryOp::Plus)]
    #[token("-", |_| BinaryOp::Minus)]
    #[token("*", |_| BinaryOp::Star)]
    #[token("/", |_| BinaryOp::Slash)]
    #[token("<", |_| BinaryOp::Lt)]
    #[token("<=", |_| BinaryOp::Leq)]
    #[token("==", |_| BinaryOp::Eq)]
    #[token(">=", |_| BinaryOp::Geq)]
    #[token(">", |_| BinaryOp::Gt)]
    #[token("!=", |_| BinaryOp::Neq)]
    #[token("&&", |_| BinaryOp::And)]
    #[token("||", |_| BinaryOp::Or)]
    Operator(BinaryOp),
    #[token("(")]
    Open,
    #[token(")")]
    Close,
    #[token("?")]
    Quest,
    #[token(":")]
    Colon,
    #[token(",")]
    Comma,
    #[token("!")]
    Not,
    #[token("=")]
    Assign,
}

/// A token with what it says. Texts are slices of the expression; quoted ones still have their escapes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// Decimal digits, at most 4294967295.
    Integer(&'a str),
    Double(&'a str),
    Name(&'a str),
    /// A function's name with `(` right behind it (which is the next token).
    Function(&'static Function),
    Keyword(Keyword),
    String(&'a str),
    /// What is between brackets, escapes included.
    InstName(&'a str),
    /// What is between slashes, escapes included.
    Pattern(&'a str),
    /// Between two operands; `-` may also stand before one.
    Operator(BinaryOp),
    Open,
    Close,
    Quest,
    Colon,
    Comma,
    Not,
    Assign,
    /// The end of the expression.
    End,
    /// Not a token, and why.
    Bad(&'static str),
}

/// The words that cannot be metric names anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keyword {
    Type,
    Semantics,
    Units,
    Meta,
    Indom,
}

impl Keyword {
    fn of(word: &str, dialect: &Dialect) -> Option<Keyword> {
        match word {
            "type" => Some(Keyword::Type),
            "semantics" => Some(Keyword::Semantics),
            "units" => Some(Keyword::Units),
            "meta" if dialect.level >= Level::V638 => Some(Keyword::Meta),
            "indom" if dialect.level >= Level::V721 => Some(Keyword::Indom),
            _ => None,
        }
    }
}

/// Hands out tokens, one at a time, so that the parser can say where `/` starts a pattern.
pub(super) struct Lexer<'a> {
    inner: logos::Lexer<'a, Raw>,
    dialect: Dialect,
    /// Between the parentheses of a function that takes a pattern.
    in_pattern_call: bool,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str, dialect: Dialect) -> Lexer<'a> {
        Lexer { inner: Raw::lexer(text), dialect, in_pattern_call: false }
    }

    /// The closing parenthesis of a function that takes a pattern has been accepted: `/` divides again.
    pub(super) fn leave_pattern_call(&mut self) {
        self.in_pattern_call = false;
    }

    /// The next token and where it is. After [`Token::End`] it is that for ever.
    pub(super) fn next(&mut self) -> (Token<'a>, Span) {
        let Some(raw) = self.inner.next() else {
            // An empty place behind the text, where errors about what is missing point.
            let end = self.inner.source().len();
            return (Token::End, Span::new(end, end));
        };
        let token = match raw {
            Err(()) => Token::Bad("Illegal character"),
            Ok(Raw::Integer) => self.integer(),
            Ok(Raw::Double) => Token::Double(self.inner.slice()),
            Ok(Raw::Name) => self.name(),
            Ok(Raw::Quote) => match self.quoted(b'"', false) {
                Some(text) => Token::String(text),
                None => Token::Bad("unterminated STRING"),
            },
            Ok(Raw::Bracket) => match self.quoted(b']', true) {
                Some(text) => Token::InstName(text),
                None => Token::Bad("unterminated instance name"),
            },
            Ok(Raw::Operator(BinaryOp::Slash)) if self.in_pattern_call => match self.quoted(b'/', true) {
                Some(text) => Token::Pattern(text),
                None => Token::Bad("unterminated pattern"),
            },
            Ok(Raw::Operator(op)) => Token::Operator(op),
            Ok(Raw::Open) => Token::Open,
            Ok(Raw::Close) => Token::Close,
            Ok(Raw::Quest) => Token::Quest,
            Ok(Raw::Colon) => Token::Colon,
            Ok(Raw::Comma) => Token::Comma,
            Ok(Raw::Not) => Token::Not,
            Ok(Raw::Assign) => Token::Assign,
        };
        let span = self.inner.span();
        (token, Span::new(span.start, span.end))
    }

    fn integer(&self) -> Token<'a> {
        let digits = self.inner.slice();
        let value = digits
            .bytes()
            .try_fold(0u32, |value, digit| value.checked_mul(10)?.checked_add(u32::from(digit - b'0')));
        match value {
            Some(_) => Token::Integer(digits),
            None => Token::Bad("Constant value too large"),
        }
    }

    fn name(&mut self) -> Token<'a> {
        let word = self.inner.slice();
        // Before functions: a keyword is one everywhere, also where no tag can stand.
        if let Some(keyword) = Keyword::of(word, &self.dialect) {
            return Token::Keyword(keyword);
        }
        // With a blank before the parenthesis it is a name, as in PCP; then the parenthesis is wrong.
        if !self.inner.remainder().starts_with('(') {
            return Token::Name(word);
        }
        match Function::of(word, &self.dialect) {
            Some(function) => {
                self.in_pattern_call |= function.takes_pattern;
                Token::Function(function)
            }
            None => Token::Name(word),
        }
    }

    /// The text up to `end`, which is taken too. With `escapes`, a backslash hides the next character.
    fn quoted(&mut self, end: u8, escapes: bool) -> Option<&'a str> {
        let rest = self.inner.remainder();
        // Bytes will do: neither the end nor a backslash is part of a longer character.
        let mut bytes = rest.bytes().enumerate();
        while let Some((at, byte)) = bytes.next() {
            if escapes && byte == b'\\' {
                bytes.next()?;
            } else if byte == end {
                self.inner.bump(at + 1);
                return Some(&rest[..at]);
            }
        }
        None
    }
}

/// A quoted token's text with each `\c` made `c`.
pub(super) fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        plain.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<Token<'_>> {
        let mut lexer = Lexer::new(text, Dialect::default());
        std::iter::from_fn(|| Some(lexer.next().0).filter(|token| *token != Token::End)).collect()
    }

    #[test]
    fn numbers_and_names() {
        assert_eq!(tokens("1.5.2"), [Token::Double("1.5"), Token::Double(".2")]);
        assert_eq!(tokens("0x10"), [Token::Integer("0"), Token::Name("x10")]);
        assert_eq!(tokens("4294967296"), [Token::Bad("Constant value too large")]);
        assert_eq!(tokens("a..b type"), [Token::Name("a..b"), Token::Keyword(Keyword::Type)]);
        assert_eq!(tokens("rate (a)")[0], Token::Name("rate"));
        assert!(matches!(tokens("rate(a)")[0], Token::Function(function) if function.word == "rate"));
    }

    #[test]
    fn quoted_tokens() {
        assert_eq!(tokens(r"a[x\]y]"), [Token::Name("a"), Token::InstName(r"x\]y")]);
        assert_eq!(unescape(r"x\]\\y"), r"x]\y");
        assert_eq!(tokens("matchinst(/a/")[2], Token::Pattern("a"));
        assert_eq!(tokens("a[é\\")[1], Token::Bad("unterminated instance name"));
    }
}
