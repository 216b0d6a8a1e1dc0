//! Text to tokens (spec `derived-language.md` 5).
//!
//! The regular part is logos'; what depends on the context (function words before `(`, patterns
//! inside `matchinst`) and the quoted tokens are done here. Each byte is looked at once.

use logos::Logos;

use super::dialect::{Dialect, Level};
use super::tree::{AggregateFn, Span, WindowFn};

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
    #[token("+")]
    Plus,
    #[token("-")]
    Minus,
    #[token("*")]
    Star,
    #[token("/")]
    Slash,
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
    #[token("<")]
    Lt,
    #[token("<=")]
    Leq,
    #[token("==")]
    Eq,
    #[token(">=")]
    Geq,
    #[token(">")]
    Gt,
    #[token("!=")]
    Neq,
    #[token("&&")]
    And,
    #[token("||")]
    Or,
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
    Function(Function),
    Keyword(Keyword),
    String(&'a str),
    /// What is between brackets, escapes included.
    InstName(&'a str),
    /// What is between slashes, escapes included.
    Pattern(&'a str),
    Plus,
    Minus,
    Star,
    Slash,
    Open,
    Close,
    Quest,
    Colon,
    Comma,
    Lt,
    Leq,
    Eq,
    Geq,
    Gt,
    Neq,
    And,
    Or,
    Not,
    Assign,
    /// The end of the expression.
    End,
    /// Not a token, and why.
    Bad(&'static str),
}

/// The words that are functions when `(` follows directly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Aggregate(AggregateFn),
    Delta,
    Rate,
    Instant,
    Anon,
    Defined,
    Mkconst,
    NoValue,
    Rescale,
    Matchinst,
    Scalar,
    // Beyond PCP.
    TopK,
    BottomK,
    Quantile,
    Stddev,
    Abs,
    Clamp,
    Window(WindowFn),
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

impl Function {
    fn of(word: &str, dialect: &Dialect) -> Option<Function> {
        let pcp = match word {
            "avg" => Function::Aggregate(AggregateFn::Avg),
            "count" => Function::Aggregate(AggregateFn::Count),
            "max" => Function::Aggregate(AggregateFn::Max),
            "min" => Function::Aggregate(AggregateFn::Min),
            "sum" => Function::Aggregate(AggregateFn::Sum),
            "delta" => Function::Delta,
            "rate" => Function::Rate,
            "instant" => Function::Instant,
            "anon" => Function::Anon,
            "defined" => Function::Defined,
            "mkconst" => Function::Mkconst,
            "novalue" if dialect.level >= Level::V638 => Function::NoValue,
            "rescale" => Function::Rescale,
            "matchinst" => Function::Matchinst,
            "scalar" => Function::Scalar,
            _ if dialect.beyond_pcp => return Function::beyond_pcp(word),
            _ => return None,
        };
        Some(pcp)
    }

    fn beyond_pcp(word: &str) -> Option<Function> {
        Some(match word {
            "topk" => Function::TopK,
            "bottomk" => Function::BottomK,
            "quantile" => Function::Quantile,
            "stddev" => Function::Stddev,
            "abs" => Function::Abs,
            "clamp" => Function::Clamp,
            "avg_over" => Function::Window(WindowFn::Avg),
            "min_over" => Function::Window(WindowFn::Min),
            "max_over" => Function::Window(WindowFn::Max),
            "sum_over" => Function::Window(WindowFn::Sum),
            _ => return None,
        })
    }
}

/// Hands out tokens, one at a time, so that the parser can say where `/` starts a pattern.
pub(super) struct Lexer<'a> {
    inner: logos::Lexer<'a, Raw>,
    dialect: Dialect,
    in_matchinst: bool,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str, dialect: Dialect) -> Lexer<'a> {
        Lexer { inner: Raw::lexer(text), dialect, in_matchinst: false }
    }

    /// The closing parenthesis of a `matchinst` has been accepted: `/` divides again.
    pub(super) fn leave_matchinst(&mut self) {
        self.in_matchinst = false;
    }

    /// The next token and where it is. After [`Token::End`] it is that for ever.
    pub(super) fn next(&mut self) -> (Token<'a>, Span) {
        let Some(raw) = self.inner.next() else {
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
            Ok(Raw::Slash) if self.in_matchinst => match self.quoted(b'/', true) {
                Some(text) => Token::Pattern(text),
                None => Token::Bad("unterminated pattern"),
            },
            Ok(Raw::Slash) => Token::Slash,
            Ok(Raw::Plus) => Token::Plus,
            Ok(Raw::Minus) => Token::Minus,
            Ok(Raw::Star) => Token::Star,
            Ok(Raw::Open) => Token::Open,
            Ok(Raw::Close) => Token::Close,
            Ok(Raw::Quest) => Token::Quest,
            Ok(Raw::Colon) => Token::Colon,
            Ok(Raw::Comma) => Token::Comma,
            Ok(Raw::Lt) => Token::Lt,
            Ok(Raw::Leq) => Token::Leq,
            Ok(Raw::Eq) => Token::Eq,
            Ok(Raw::Geq) => Token::Geq,
            Ok(Raw::Gt) => Token::Gt,
            Ok(Raw::Neq) => Token::Neq,
            Ok(Raw::And) => Token::And,
            Ok(Raw::Or) => Token::Or,
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
        if let Some(keyword) = Keyword::of(word, &self.dialect) {
            return Token::Keyword(keyword);
        }
        match Function::of(word, &self.dialect).filter(|_| self.inner.remainder().starts_with('(')) {
            Some(function) => {
                self.in_matchinst |= function == Function::Matchinst;
                Token::Function(function)
            }
            None => Token::Name(word),
        }
    }

    /// The text up to `end`, which is taken too. With `escapes`, a backslash hides the next character.
    fn quoted(&mut self, end: u8, escapes: bool) -> Option<&'a str> {
        let rest = self.inner.remainder();
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
        assert_eq!(tokens("rate(a)")[0], Token::Function(Function::Rate));
    }

    #[test]
    fn quoted_tokens() {
        assert_eq!(tokens(r"a[x\]y]"), [Token::Name("a"), Token::InstName(r"x\]y")]);
        assert_eq!(unescape(r"x\]\\y"), r"x]\y");
        assert_eq!(tokens("matchinst(/a/")[2], Token::Pattern("a"));
        assert_eq!(tokens("a[é\\")[1], Token::Bad("unterminated instance name"));
    }
}
