//! Bytes into lines, with a bound on their length.

use memchr::memchr;

/// A line, without its newline and the carriage return before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A whole line.
    Line(&'a [u8]),
    /// The beginning of a line that is longer than allowed; its rest is skipped.
    Cut(&'a [u8]),
}

/// Cuts bytes into lines. Holds no bytes: whoever calls keeps what was not consumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Splitter {
    /// Number of the newest line, from 1.
    pub line: u64,
    /// The rest of a line that is too long is being skipped.
    pub skipping: bool,
    /// Bytes of the input's rest that hold no newline.
    scanned: usize,
}

impl Splitter {
    /// As it was when the bytes before had been consumed.
    pub fn resume(line: u64, skipping: bool) -> Splitter {
        Splitter { line, skipping, scanned: 0 }
    }

    /// The next line of `input` from `at` on, with `at` moved behind it. `None` when the rest is an incomplete line of at
    /// most `max` bytes, which has to be given again with more behind it.
    #[inline]
    pub fn next<'a>(&mut self, input: &'a [u8], at: &mut usize, max: usize) -> Option<Piece<'a>> {
        loop {
            let rest = input.get(*at..).unwrap_or_default();
            let Some(newline) = memchr(b'\n', rest.get(self.scanned..).unwrap_or_default()) else {
                if self.skipping {
                    *at = input.len();
                } else if rest.len() > max {
                    *at = input.len();
                    self.scanned = 0;
                    self.skipping = true;
                    self.line += 1;
                    return Some(Piece::Cut(&rest[..max]));
                } else {
                    self.scanned = rest.len();
                }
                return None;
            };
            let end = self.scanned + newline;
            self.scanned = 0;
            *at += end + 1;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            self.line += 1;
            return Some(match rest.get(..max) {
                Some(cut) if end > max => Piece::Cut(cut),
                _ => Piece::Line(without_return(&rest[..end])),
            });
        }
    }

    /// What is left at the end: a last line without a newline, if there is one. The bytes are consumed.
    pub fn last<'a>(&mut self, rest: &'a [u8]) -> Option<Piece<'a>> {
        self.scanned = 0;
        if std::mem::take(&mut self.skipping) || rest.is_empty() {
            return None;
        }
        self.line += 1;
        Some(Piece::Line(without_return(rest)))
    }

    /// The bytes that were scanned will be read anew, or others in their place.
    pub fn rescan(&mut self) {
        self.scanned = 0;
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Gives `chunks` one after the other, as a reader does; the pieces as text, cut ones with a `+`.
    fn pieces(chunks: &[&[u8]], max: usize) -> Vec<String> {
        let mut splitter = Splitter::default();
        let (mut carry, mut found) = (Vec::new(), Vec::new());
        for chunk in chunks {
            carry.extend_from_slice(chunk);
            let mut at = 0;
            while let Some(piece) = splitter.next(&carry, &mut at, max) {
                found.push(match piece {
                    Piece::Line(line) => String::from_utf8_lossy(line).into_owned(),
                    Piece::Cut(line) => format!("{}+", String::from_utf8_lossy(line)),
                });
            }
            carry.drain(..at);
            assert!(carry.len() <= max, "{} bytes are held", carry.len());
        }
        if let Some(Piece::Line(line)) = splitter.last(&carry) {
            found.push(String::from_utf8_lossy(line).into_owned());
        }
        found
    }

    #[test]
    fn lines_of_all_kinds() {
        assert_eq!(pieces(&[b"a\nb\r\n\nc"], 8), ["a", "b", "", "c"]);
        assert_eq!(pieces(&[b"12345678\n123456789\nx\n"], 8), ["12345678", "12345678+", "x"]);
        assert_eq!(pieces(&[b"1234567890", b"more", b"rest\nx"], 8), ["12345678+", "x"]);
        assert_eq!(pieces(&[b"ab", b"cd\ne", b"f\n"], 8), ["abcd", "ef"]);
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_the_input_is_cut(
            lines in prop::collection::vec("[a-z]{0,12}", 0..20),
            cuts in prop::collection::vec(1usize..9, 1..40),
        ) {
            let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
            let mut chunks = Vec::new();
            let mut rest = text.as_bytes();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (head, tail) = rest.split_at((*cut).min(rest.len()));
                chunks.push(head);
                rest = tail;
            }
            prop_assert_eq!(pieces(&chunks, 8), pieces(&[text.as_bytes()], 8));
        }
    }
}
