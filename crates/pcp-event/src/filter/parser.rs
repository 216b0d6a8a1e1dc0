//! From tokens to the syntax tree.
//!
//! ```text
//! or    := and (("||" | "or") and)*
//! and   := unary (("&&" | "and") unary)*
//! unary := ("!" | "not") unary | "(" or ")" | flag | "exists" "(" field ")" | test
//! test  := field op value | field ("=~" | "!~") text | field "not"? "in" "[" value ("," value)* "]"
//! ```

use jumpseat_wire::severity::Severity;

use super::lexer::{self, Piece, Token};
use super::pattern::{Pattern, PatternError};
use super::{
    Expr, Filter, FilterError, FilterErrorKind, Literal, MAX_DEPTH, MAX_REGEX_SIZE, MAX_REGEXES, MAX_TESTS,
    MAX_TEXT, Op, SEVERITY_FIELD,
};
use crate::EventFlags;

const VALUE: &str = "a number, a text in quotes, true or false";
/// Bytes of syntax tree for each byte of text, at most: `a==1||` is the densest.
const MEMORY_PER_BYTE: usize = 48;
/// What a field takes once it is bound.
const MEMORY_PER_FIELD: usize = 256;
const COMPARISON: &str = "==, !=, <, <=, >, >=, =~, !~ or in";

pub(super) fn parse(text: &str) -> Result<Option<Filter>, FilterError> {
    if text.len() > MAX_TEXT {
        return Err(lexer::error(text, MAX_TEXT, FilterErrorKind::TooLong));
    }
    let pieces = lexer::tokens(text)?;
    if matches!(pieces[..], [] | [Piece { token: Token::True | Token::Star, .. }]) {
        return Ok(None);
    }
    let mut parser = Parser {
        text,
        pieces: &pieces,
        next: 0,
        depth: 0,
        tests: 0,
        regexes: 0,
        regex_bytes: 0,
        fields: Vec::new(),
    };
    let root = parser.or()?;
    if parser.peek().is_some() {
        return Err(parser.unexpected("&& or ||"));
    }
    let Parser { tests, regexes, regex_bytes, fields, .. } = parser;
    let memory = MEMORY_PER_BYTE * text.len() + MEMORY_PER_FIELD * fields.len() + regex_bytes;
    Ok(Some(Filter { root, fields, memory, tests, regexes }))
}

struct Parser<'a> {
    text: &'a str,
    pieces: &'a [Piece<'a>],
    next: usize,
    depth: usize,
    tests: usize,
    regexes: usize,
    /// Sum of their sizes.
    regex_bytes: usize,
    fields: Vec<String>,
}

impl<'a> Parser<'a> {
    fn or(&mut self) -> Result<Expr, FilterError> {
        self.chain(Token::Or, Parser::and, |parts| match parts {
            Expr::Or(parts) => Ok(parts),
            other => Err(other),
        })
        .map(|parts| only(parts, Expr::Or))
    }

    fn and(&mut self) -> Result<Expr, FilterError> {
        self.chain(Token::And, Parser::unary, |parts| match parts {
            Expr::And(parts) => Ok(parts),
            other => Err(other),
        })
        .map(|parts| only(parts, Expr::And))
    }

    /// Parts joined by `between`; a part that is itself such a chain is taken apart.
    fn chain(
        &mut self,
        between: Token,
        part: fn(&mut Parser<'a>) -> Result<Expr, FilterError>,
        take_apart: fn(Expr) -> Result<Vec<Expr>, Expr>,
    ) -> Result<Vec<Expr>, FilterError> {
        let mut parts = Vec::new();
        loop {
            // Flat chains, so that a filter is equal however its parentheses were set, and depth is that of the text.
            match take_apart(part(self)?) {
                Ok(inner) => parts.extend(inner),
                Err(one) => parts.push(one),
            }
            if !self.accept(between) {
                return Ok(parts);
            }
        }
    }

    fn unary(&mut self) -> Result<Expr, FilterError> {
        let Some(piece) = self.peek() else { return Err(self.unexpected("a test")) };
        match piece.token {
            Token::Bang | Token::Not => {
                self.enter(piece)?;
                let inner = self.unary()?;
                self.depth -= 1;
                Ok(Expr::Not(Box::new(inner)))
            }
            Token::Open => {
                self.enter(piece)?;
                let inner = self.or()?;
                self.expect(Token::Close, "), && or ||")?;
                self.depth -= 1;
                Ok(inner)
            }
            Token::Start => self.flag(piece, EventFlags::START),
            Token::End => self.flag(piece, EventFlags::END),
            Token::Point => self.flag(piece, EventFlags::POINT),
            Token::Exists => {
                self.next += 1;
                self.expect(Token::Open, "(")?;
                let field = self.field()?;
                self.expect(Token::Close, ")")?;
                self.count(piece, 1)?;
                Ok(Expr::Exists(field))
            }
            _ => self.test(),
        }
    }

    /// One level deeper, behind `piece`.
    fn enter(&mut self, piece: Piece<'_>) -> Result<(), FilterError> {
        if self.depth == MAX_DEPTH {
            return Err(self.error(piece, FilterErrorKind::TooDeep));
        }
        self.depth += 1;
        self.next += 1;
        Ok(())
    }

    fn flag(&mut self, piece: Piece<'_>, flag: EventFlags) -> Result<Expr, FilterError> {
        self.next += 1;
        if self.peek().is_some_and(|next| comparison(next.token)) {
            return Err(self.error(piece, FilterErrorKind::Reserved(piece.text.into())));
        }
        Ok(Expr::Flag(flag))
    }

    fn test(&mut self) -> Result<Expr, FilterError> {
        let field = self.field()?;
        let Some(piece) = self.peek() else { return Err(self.unexpected(COMPARISON)) };
        let op = match piece.token {
            Token::Eq => Op::Eq,
            Token::Ne => Op::Ne,
            Token::Lt => Op::Lt,
            Token::Le => Op::Le,
            Token::Gt => Op::Gt,
            Token::Ge => Op::Ge,
            Token::Match | Token::NoMatch => {
                self.next += 1;
                let pattern = self.pattern()?;
                let negated = piece.token == Token::NoMatch;
                self.count(piece, if negated { 2 } else { 1 })?;
                return Ok(Expr::Match { field, negated, pattern: Box::new(pattern) });
            }
            Token::In | Token::Not => {
                self.next += 1;
                let negated = piece.token == Token::Not;
                if negated {
                    self.expect(Token::In, "in")?;
                }
                // Whether there is a value is a look of its own.
                self.count(piece, usize::from(negated))?;
                return self.list(field, negated);
            }
            _ => return Err(self.unexpected(COMPARISON)),
        };
        self.next += 1;
        self.count(piece, usize::from(op == Op::Ne))?;
        let to = self.value(field, matches!(op, Op::Eq | Op::Ne))?;
        Ok(Expr::Compare { field, op, to })
    }

    fn field(&mut self) -> Result<usize, FilterError> {
        let Some(piece) = self.peek() else { return Err(self.unexpected("a field name")) };
        let name = match piece.token {
            Token::Word => piece.text.to_owned(),
            Token::Name if piece.text.len() == 2 => {
                return Err(self.error(piece, FilterErrorKind::EmptyName));
            }
            Token::Name => lexer::unescape(piece.text),
            _ if piece.text.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                return Err(self.error(piece, FilterErrorKind::Reserved(piece.text.into())));
            }
            _ => return Err(self.unexpected("a field name, a flag, exists, ! or (")),
        };
        self.next += 1;
        let known = self.fields.iter().position(|field| *field == name);
        Ok(known.unwrap_or_else(|| {
            self.fields.push(name);
            self.fields.len() - 1
        }))
    }

    fn list(&mut self, field: usize, negated: bool) -> Result<Expr, FilterError> {
        self.expect(Token::OpenList, "[")?;
        let mut any = vec![self.value(field, true)?];
        while self.accept(Token::Comma) {
            any.push(self.value(field, true)?);
        }
        self.expect(Token::CloseList, ", or ]")?;
        Ok(Expr::In { field, negated, any })
    }

    /// A value to compare with. `equality` is whether the comparison is for equality only.
    fn value(&mut self, field: usize, equality: bool) -> Result<Literal, FilterError> {
        let is_severity = self.fields[field] == SEVERITY_FIELD;
        let Some(piece) = self.peek() else { return Err(self.unexpected(VALUE)) };
        let number = || self.error(piece, FilterErrorKind::Number(piece.text.into()));
        let literal = match piece.token {
            Token::Int => Literal::Int(int(piece.text).ok_or_else(number)?),
            Token::Float => {
                let value: f64 = piece.text.parse().map_err(|_| number())?;
                Literal::Float(Some(value).filter(|value| value.is_finite()).ok_or_else(number)?)
            }
            Token::True | Token::False if equality => Literal::Bool(piece.token == Token::True),
            Token::True | Token::False => return Err(self.error(piece, FilterErrorKind::BoolOrder)),
            Token::Text | Token::RawText | Token::Word if is_severity => {
                let text = if piece.token == Token::Word { piece.text.into() } else { unquote(piece) };
                match Severity::from_word(text.as_bytes()) {
                    Some(severity) => Literal::Severity(severity),
                    // A source may send words of its own: they can be looked for, but have no order.
                    None if equality && piece.token != Token::Word => Literal::Text(text),
                    None => return Err(self.error(piece, FilterErrorKind::NotASeverity(piece.text.into()))),
                }
            }
            Token::Text | Token::RawText => Literal::Text(unquote(piece)),
            _ if piece.text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') => {
                return Err(self.error(piece, FilterErrorKind::Unquoted(piece.text.into())));
            }
            _ => return Err(self.unexpected(VALUE)),
        };
        self.count(piece, 1)?;
        self.next += 1;
        Ok(literal)
    }

    fn pattern(&mut self) -> Result<Pattern, FilterError> {
        const EXPECTED: &str = "a regular expression in quotes";
        let Some(piece) = self.peek() else { return Err(self.unexpected(EXPECTED)) };
        if !matches!(piece.token, Token::Text | Token::RawText) {
            return Err(self.unexpected(EXPECTED));
        }
        if self.regexes == MAX_REGEXES {
            return Err(self.error(piece, FilterErrorKind::TooManyRegexes));
        }
        self.regexes += 1;
        self.next += 1;
        let room = MAX_REGEX_SIZE - self.regex_bytes;
        match Pattern::new(&unquote(piece), room) {
            Ok(pattern) if pattern.memory() <= room => {
                self.regex_bytes += pattern.memory();
                Ok(pattern)
            }
            Ok(_) | Err(PatternError::TooLarge) => Err(self.error(piece, FilterErrorKind::RegexTooLarge)),
            Err(PatternError::Syntax(reason)) => Err(self.error(piece, FilterErrorKind::Regex(reason))),
        }
    }

    /// Counts tests, the last of them at `piece`.
    fn count(&mut self, piece: Piece<'_>, tests: usize) -> Result<(), FilterError> {
        self.tests += tests;
        match self.tests {
            ..=MAX_TESTS => Ok(()),
            _ => Err(self.error(piece, FilterErrorKind::TooManyTests)),
        }
    }

    fn peek(&self) -> Option<Piece<'a>> {
        self.pieces.get(self.next).copied()
    }

    fn accept(&mut self, token: Token) -> bool {
        let found = self.peek().is_some_and(|piece| piece.token == token);
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, token: Token, expected: &'static str) -> Result<(), FilterError> {
        if self.accept(token) { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    fn unexpected(&self, expected: &'static str) -> FilterError {
        let (at, found) = match self.peek() {
            Some(piece) => (piece.at, piece.text.to_owned()),
            None => (self.text.trim_end().len(), "the end".to_owned()),
        };
        lexer::error(self.text, at, FilterErrorKind::Unexpected { found, expected })
    }

    fn error(&self, piece: Piece<'_>, reason: FilterErrorKind) -> FilterError {
        lexer::error(self.text, piece.at, reason)
    }
}

fn only(mut parts: Vec<Expr>, many: fn(Vec<Expr>) -> Expr) -> Expr {
    match parts.pop() {
        Some(one) if parts.is_empty() => one,
        last => {
            parts.extend(last);
            many(parts)
        }
    }
}

fn comparison(token: Token) -> bool {
    use Token::{Assign, Eq, Ge, Gt, In, Le, Lt, Match, Ne, NoMatch};
    matches!(token, Assign | Eq | Ge | Gt | In | Le | Lt | Match | Ne | NoMatch)
}

/// An integer in the range of PCP's 64-bit types.
fn int(text: &str) -> Option<i128> {
    let value = match text.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16).ok()?,
        None => text.parse().ok()?,
    };
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&value).then_some(value)
}

fn unquote(piece: Piece<'_>) -> String {
    match piece.token {
        Token::RawText => piece.text[1..piece.text.len() - 1].to_owned(),
        _ => lexer::unescape(piece.text),
    }
}
