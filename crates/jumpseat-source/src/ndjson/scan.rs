//! The JSON scanner: a position in a line, and the tokens from there.

use super::number::{self, Number};
use crate::delivery::Reason;
use crate::event::{Refusal, Text};
use crate::word::word_at;

/// Deepest nesting of objects and arrays, the line's own object included.
pub const MAX_DEPTH: usize = 32;

/// Why a line is not scanned any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It ends in the middle of the object, at this offset. To the beginning of a longer line that is no harm.
    End(usize),
    /// Something else is wrong with it.
    Refused(Refusal),
}

// As large as a refusal, so that results do not grow by the one case that is not.
const _: () = assert!(size_of::<Stop>() == size_of::<Refusal>());

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Refused(refusal)
    }
}

impl From<Stop> for Refusal {
    fn from(stop: Stop) -> Refusal {
        match stop {
            Stop::End(at) => Refusal::at(at, Reason::Syntax, "the line ends in the middle of the object"),
            Stop::Refused(refusal) => refusal,
        }
    }
}

/// What stands for U+0000, which PCP's texts cannot hold.
const NUL_REPLACEMENT: char = '\u{fffd}';

/// A position in a line that is valid UTF-8.
pub(crate) struct Scanner<'a> {
    /// The line.
    pub line: &'a [u8],
    /// Offset of the next byte.
    pub at: usize,
}

/// A string, which the end of the line may have cut short.
pub(crate) struct Str {
    /// The text up to there.
    pub text: Text,
    /// There was no closing quote.
    pub ends_early: bool,
    end: usize,
}

impl Str {
    /// The text, if the string is whole.
    pub(crate) fn whole(self) -> Result<Text, Stop> {
        if self.ends_early { Err(Stop::End(self.end)) } else { Ok(self.text) }
    }
}

impl Scanner<'_> {
    /// The next byte that is not blank.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        match self.line.get(self.at) {
            Some(byte) if *byte > b' ' => Some(*byte),
            _ => self.peek_behind_blanks(),
        }
    }

    #[inline(never)]
    fn peek_behind_blanks(&mut self) -> Option<u8> {
        loop {
            match self.line.get(self.at) {
                Some(b' ' | b'\t' | b'\r' | b'\n') => self.at += 1,
                other => return other.copied(),
            }
        }
    }

    /// A refusal at the current position; at the end of the line whatever was expected is just not there.
    #[cold]
    pub(crate) fn refuse(&self, detail: &'static str) -> Stop {
        if self.at >= self.line.len() {
            return Stop::End(self.at);
        }
        Stop::Refused(Refusal::at(self.at, Reason::Syntax, detail))
    }

    /// Consumes this byte, blanks before it too.
    #[inline]
    pub(crate) fn expect(&mut self, byte: u8, detail: &'static str) -> Result<(), Stop> {
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        Err(self.refuse(detail))
    }

    /// Consumes the opening bracket of a nested object or array, if another level is allowed.
    pub(crate) fn enter(&mut self, depth: usize) -> Result<(), Stop> {
        // Bounds the recursion, so that no line can overflow the stack.
        if depth >= MAX_DEPTH {
            return Err(Refusal::at(self.at, Reason::Depth, "nested deeper than 32 levels").into());
        }
        self.at += 1;
        Ok(())
    }

    /// Whether the member `"jumpseat":{` is next. Consumes nothing but blanks.
    pub(crate) fn peek_control(&mut self) -> bool {
        const NAME: &[u8] = b"\"jumpseat\"";
        if self.peek() != Some(b'"') || !self.line[self.at..].starts_with(NAME) {
            return false;
        }
        let start = self.at;
        self.at += NAME.len();
        // The refusal is thrown away: if this is no control line, it is an event with a field of this name.
        let control = self.expect(b':', "").is_ok() && self.peek() == Some(b'{');
        self.at = start;
        control
    }

    /// A string, at its opening quote, if it stays in the line as it is. `None`: nothing was consumed.
    #[inline(always)]
    pub(crate) fn plain_string(&mut self) -> Option<Text> {
        let start = self.at + 1;
        let end = plain_end(self.line, start);
        if self.line.get(end) != Some(&b'"') {
            return None;
        }
        self.at = end + 1;
        Some(Text::of_input(start, end))
    }

    /// A string, at its opening quote. Texts without escapes stay in the line, others are put into
    /// `arena` with their escapes resolved.
    #[inline]
    pub(crate) fn string(&mut self, arena: &mut Vec<u8>) -> Result<Str, Stop> {
        // Nearly all strings have no escape, and stay where they are.
        match self.plain_string() {
            Some(text) => Ok(Str { text, ends_early: false, end: self.at }),
            None => self.string_with_escapes(arena),
        }
    }

    #[cold]
    pub(crate) fn string_with_escapes(&mut self, arena: &mut Vec<u8>) -> Result<Str, Stop> {
        let start = self.at + 1;
        self.at = plain_end(self.line, start);
        let arena_start = arena.len();
        // From the first escape on there is no way around a copy.
        arena.extend_from_slice(&self.line[start..self.at]);
        loop {
            let ends_early = match self.line.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    false
                }
                Some(b'\\') => match self.escape() {
                    Ok(character) => {
                        let mut utf8 = [0u8; 4];
                        arena.extend_from_slice(character.encode_utf8(&mut utf8).as_bytes());
                        let run = self.at;
                        self.at = plain_end(self.line, run);
                        arena.extend_from_slice(&self.line[run..self.at]);
                        continue;
                    }
                    Err(Stop::End(_)) => {
                        self.at = self.line.len();
                        true
                    }
                    Err(stop) => return Err(stop),
                },
                Some(_) => return Err(self.refuse("a control character in a string: write it as \\u00xx")),
                None => true,
            };
            let text = Text::of_arena(arena_start, arena.len());
            return Ok(Str { text, ends_early, end: self.at });
        }
    }

    /// An escape sequence, at its backslash. Lone surrogates become U+FFFD, and so does U+0000.
    fn escape(&mut self) -> Result<char, Stop> {
        self.at += 1;
        let simple = match self.line.get(self.at) {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(*byte),
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'u') => return self.unicode_escape(),
            _ => return Err(self.refuse("an unknown escape sequence")),
        };
        self.at += 1;
        Ok(simple)
    }

    fn unicode_escape(&mut self) -> Result<char, Stop> {
        self.at += 1;
        let unit = self.hex4()?;
        // A high surrogate: with a low one behind it they are one character.
        if unit & 0xfc00 == 0xd800 && self.line[self.at..].starts_with(b"\\u") {
            let before = self.at;
            self.at += 2;
            let low = self.hex4()?;
            if low & 0xfc00 == 0xdc00 {
                let code = 0x1_0000 + ((unit & 0x3ff) << 10 | low & 0x3ff);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            // Not a pair: the second escape stands for itself, and is read next.
            self.at = before;
        }
        match char::from_u32(unit) {
            Some('\0') => Ok(NUL_REPLACEMENT),
            Some(character) => Ok(character),
            None => Ok(char::REPLACEMENT_CHARACTER),
        }
    }

    fn hex4(&mut self) -> Result<u32, Stop> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.line.get(self.at).and_then(|byte| char::from(*byte).to_digit(16));
            unit =
                unit << 4 | digit.ok_or_else(|| self.refuse("expected four hexadecimal digits after \\u"))?;
            self.at += 1;
        }
        Ok(unit)
    }

    /// A number, at its first byte.
    #[inline]
    pub(crate) fn number(&mut self) -> Result<Number, Stop> {
        match number::scan(&self.line[self.at..]) {
            Ok((len, number)) => {
                self.at += len;
                Ok(number)
            }
            Err(offset) => {
                self.at += offset;
                Err(self.refuse("not a JSON number"))
            }
        }
    }

    /// `true`, `false` or `null`, at its first byte.
    pub(crate) fn literal(&mut self, word: &'static str) -> Result<Text, Stop> {
        let start = self.at;
        for byte in word.bytes() {
            if self.line.get(self.at) != Some(&byte) {
                return Err(self.refuse("expected a value: true, false, null, a number or a string"));
            }
            self.at += 1;
        }
        Ok(Text::of_input(start, self.at))
    }

    /// Goes over any value, checking it. `depth` is that of what contains it.
    pub(crate) fn skip_value(&mut self, depth: usize) -> Result<(), Stop> {
        match self.peek() {
            Some(b'"') => self.skip_string(),
            Some(b'[') => {
                self.enter(depth)?;
                self.skip_items(b']', |scan| scan.skip_value(depth + 1))
            }
            Some(b'{') => {
                self.enter(depth)?;
                self.skip_items(b'}', |scan| {
                    if scan.peek() != Some(b'"') {
                        return Err(scan.refuse("expected a member name in quotes"));
                    }
                    scan.skip_string()?;
                    scan.expect(b':', "expected a colon after the member name")?;
                    scan.skip_value(depth + 1)
                })
            }
            Some(b't') => self.literal("true").map(|_| ()),
            Some(b'f') => self.literal("false").map(|_| ()),
            Some(b'n') => self.literal("null").map(|_| ()),
            Some(b'-' | b'0'..=b'9') => self.number().map(|_| ()),
            _ => Err(self.refuse("expected a value")),
        }
    }

    fn skip_items(
        &mut self,
        close: u8,
        mut item: impl FnMut(&mut Self) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        if self.peek() == Some(close) {
            self.at += 1;
            return Ok(());
        }
        loop {
            item(self)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(byte) if byte == close => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.refuse("expected a comma or the closing bracket")),
            }
        }
    }

    fn skip_string(&mut self) -> Result<(), Stop> {
        self.at += 1;
        loop {
            self.at = plain_end(self.line, self.at);
            match self.line.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape().map(|_| ())?,
                _ => return Err(self.refuse("a control character in a string: write it as \\u00xx")),
            }
        }
    }
}

/// Offset of the first quote, backslash or control character from `at` on, or the line's length. Looks
/// at eight bytes at a time: most strings are too short for a call into a vector search to pay off.
#[inline]
fn plain_end(line: &[u8], mut at: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = ONES << 7;
    let zero_bytes = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    loop {
        let word = word_at(line, at);
        let quote = zero_bytes(word ^ (ONES * u64::from(b'"')));
        let backslash = zero_bytes(word ^ (ONES * u64::from(b'\\')));
        // Bytes below 0x20 underflow into their high bit; `!word` takes out those that had it set before.
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let found = quote | backslash | control;
        if found != 0 {
            // Borrows only run upwards, so the lowest mark is always right. Behind the line are control characters.
            return (at + found.trailing_zeros() as usize / 8).min(line.len());
        }
        at += 8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_end_finds_the_first_special_byte_at_every_offset() {
        for special in [b'"', b'\\', 0, 0x1f] {
            for filler in [b'a', 0x7f, 0x80, 0xff, 0x20, b'!', b'#'] {
                for at in 0..20 {
                    for len in [at + 1, 24] {
                        let mut line = vec![filler; len];
                        line[at] = special;
                        assert_eq!(plain_end(&line, 0), at, "{special} in {filler}");
                        assert_eq!(plain_end(&line, at + 1), len);
                    }
                }
            }
        }
    }
}
