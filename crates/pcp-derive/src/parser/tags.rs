//! The tags of `mkconst` and `novalue`: metadata given by hand (`docs/pcp/derived-language.md` 6.2).

use super::{Parser, Result};
use crate::lexer::{Keyword, Token};
use crate::syntax::SyntaxError;
use crate::tree::Tags;
use pcp_model::{InDom, Semantics, ValueType};

impl Parser<'_> {
    /// `spec { , spec }` up to, not including, the closing parenthesis.
    pub(crate) fn tags(&mut self, tags: &mut Tags) -> Result<()> {
        loop {
            let keyword = match self.token {
                Token::Keyword(keyword) => keyword,
                // At older levels it is no keyword, so that metrics may still have the name.
                Token::Name("indom") if self.dialect.has_indom_tag() => Keyword::Indom,
                _ => return Err(self.error()),
            };
            self.advance();
            if self.token != Token::Assign {
                return Err(self.error());
            }
            self.advance();
            self.tag(keyword, tags)?;
            self.advance();
            match self.token {
                Token::Comma => self.advance(),
                Token::Close => return Ok(()),
                _ => return Err(self.error()),
            }
        }
    }

    /// A tag's value, which stays the token to be looked at.
    fn tag(&mut self, keyword: Keyword, tags: &mut Tags) -> Result<()> {
        let text = match self.token {
            Token::Name(text) if keyword == Keyword::Meta => {
                tags.meta = Some(text.into());
                return Ok(());
            }
            _ if keyword == Keyword::Meta => return Err(self.error()),
            Token::Name(text) | Token::String(text) | Token::Integer(text) => text,
            // `indom=1.2` reads as a number.
            Token::Double(text) if self.dialect.has_indom_tag() => text,
            _ => return Err(self.error()),
        };
        match keyword {
            Keyword::Type => {
                const TYPES: [ValueType; 6] = [
                    ValueType::I32,
                    ValueType::U32,
                    ValueType::I64,
                    ValueType::U64,
                    ValueType::Float,
                    ValueType::Double,
                ];
                let value_type = TYPES.into_iter().find(|t| t.name().eq_ignore_ascii_case(text));
                tags.value_type = Some(value_type.ok_or_else(|| self.unrecognized("type", text))?);
            }
            Keyword::Semantics => {
                const SEMANTICS: [Semantics; 3] =
                    [Semantics::Counter, Semantics::Instant, Semantics::Discrete];
                let semantics = SEMANTICS.into_iter().find(|s| s.name().eq_ignore_ascii_case(text));
                tags.semantics = Some(semantics.ok_or_else(|| self.unrecognized("semantics", text))?);
            }
            Keyword::Units => tags.units = Some(self.units(text, self.span)?),
            Keyword::Indom => {
                let indom =
                    parse_indom(text).ok_or_else(|| self.error_with(format!("Illegal indom: '{text}'")))?;
                tags.indom = Some(indom);
            }
            Keyword::Meta => {}
        }
        Ok(())
    }

    fn unrecognized(&self, tag: &str, text: &str) -> Box<SyntaxError> {
        self.error_with(format!("Unrecognized value for {tag} '{text}'"))
    }
}

/// `DOMAIN.SERIAL` as 7.2 reads it, or `null` in any case.
fn parse_indom(text: &str) -> Option<InDom> {
    if text.eq_ignore_ascii_case("null") {
        return Some(InDom::NULL);
    }
    let (domain, serial) =
        text.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']).split_once('.')?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(domain) || !digits(serial) {
        return None;
    }
    let domain = domain.parse::<u16>().ok().filter(|&domain| domain <= 510)?;
    let serial = serial.parse::<u32>().ok().filter(|&serial| serial <= 4_194_303)?;
    Some(InDom::new(domain, serial))
}
