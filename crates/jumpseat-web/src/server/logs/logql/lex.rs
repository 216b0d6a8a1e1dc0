//! The words of LogQL, with their places.

use std::fmt;

/// A word.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Word {
    /// A name, or a word with a meaning.
    Name(String),
    /// A text, without quotes and escapes.
    Text(String),
    /// What begins with a digit: a number, a duration or a number of bytes.
    Number(String),
    /// A sign.
    Sign(&'static str),
    /// Nothing more.
    End,
}

/// A word and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub word: Word,
    pub at: usize,
}

/// Signs, the longer first.
const SIGNS: [&str; 28] = [
    "|=", "|~", "|>", "!=", "!~", "!>", "=~", "==", ">=", "<=", "=", ">", "<", "|", "{", "}", "(", ")", "[",
    "]", ",", "+", "-", "*", "/", "%", "^", "@",
];

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Word::Name(name) => write!(f, "{}", shortened(name)),
            Word::Text(text) => write!(f, "{:?}", shortened(text)),
            Word::Number(text) => write!(f, "{}", shortened(text)),
            Word::Sign(sign) => f.write_str(sign),
            Word::End => f.write_str("end of the query"),
        }
    }
}

fn shortened(text: &str) -> &str {
    let end = text.char_indices().nth(40).map_or(text.len(), |(end, _)| end);
    &text[..end]
}

/// All words.
///
/// # Errors
/// Where there is none, and why.
pub(crate) fn words(text: &str) -> Result<Vec<Token>, (usize, String)> {
    let mut tokens = Vec::new();
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let Some(first) = rest.chars().next() else { break };
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let (word, len) = match first {
            '#' => {
                at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            '"' => quoted(rest).map_err(|(within, why)| (at + within, why))?,
            '`' => {
                let end = rest[1..].find('`').ok_or((at, "literal not terminated".to_owned()))?;
                (Word::Text(rest[1..=end].to_owned()), end + 2)
            }
            c if c.is_ascii_alphabetic() || c == '_' => {
                let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
                (Word::Name(rest[..end].to_owned()), end)
            }
            c if c.is_ascii_digit() || (c == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())) => {
                let end = number(rest);
                (Word::Number(rest[..end].to_owned()), end)
            }
            _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => (Word::Sign(sign), sign.len()),
                None => return Err((at, format!("syntax error: unexpected {first:?}"))),
            },
        };
        tokens.push(Token { word, at });
        at += len;
    }
    tokens.push(Token { word: Word::End, at: text.len() });
    Ok(tokens)
}

/// Where a number, with its unit or exponent, ends.
fn number(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut end = 0;
    while let Some(&byte) = bytes.get(end) {
        let is_sign = matches!(byte, b'+' | b'-')
            && matches!(bytes.get(end.wrapping_sub(1)), Some(b'e' | b'E'))
            && bytes.get(end + 1).is_some_and(u8::is_ascii_digit)
            && bytes[..end - 1].iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
        // The sign of micro has two bytes.
        if !(byte.is_ascii_alphanumeric() || byte == b'.' || is_sign || matches!(byte, 0xc2 | 0xb5)) {
            break;
        }
        end += 1;
    }
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    end
}

/// A text in quotes, and how long it was with them.
fn quoted(text: &str) -> Result<(Word, usize), (usize, String)> {
    let mut value = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((Word::Text(value), at + 1)),
            '\n' => break,
            '\\' => {
                let wrong = || (at, "invalid char escape".to_owned());
                let (_, escape) = chars.next().ok_or_else(wrong)?;
                let mut digits = |number: usize| {
                    let digits: Option<String> = (0..number).map(|_| chars.next().map(|(_, c)| c)).collect();
                    digits.and_then(|digits| u32::from_str_radix(&digits, 16).ok()).and_then(char::from_u32)
                };
                value.push(match escape {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'a' => '\x07',
                    'b' => '\x08',
                    'f' => '\x0c',
                    'v' => '\x0b',
                    '\\' | '"' | '\'' => escape,
                    'x' => digits(2).ok_or_else(wrong)?,
                    'u' => digits(4).ok_or_else(wrong)?,
                    'U' => digits(8).ok_or_else(wrong)?,
                    _ => return Err(wrong()),
                });
            }
            c => value.push(c),
        }
    }
    Err((0, "literal not terminated".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_their_places() {
        let all = words("{a=~\"x\\\"\\u00e9\"} |= `r\\w` # comment\n[1h30m] 1e-3>=.5µs").expect("good");
        let all: Vec<String> = all.iter().map(|token| format!("{}:{}", token.at, token.word)).collect();
        assert_eq!(
            all.join(" "),
            "0:{ 1:a 2:=~ 4:\"x\\\"é\" 15:} 17:|= 20:\"r\\\\w\" 36:[ 37:1h30m 42:] 44:1e-3 48:>= 50:.5µs 55:end of the query"
        );
    }

    #[test]
    fn what_is_no_word_is_told_with_its_place() {
        for (text, at) in [
            ("{a=\"x", 3),
            ("\"\\q\"", 1),
            ("`x", 0),
            ("a ; b", 2),
            ("\"\\xz\"", 1),
            ("\"a\nb\"", 0),
            ("é", 0),
        ] {
            assert_eq!(words(text).expect_err(text).0, at, "{text}");
        }
    }
}
