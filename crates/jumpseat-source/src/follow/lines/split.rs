//! Bytes into lines, or into records of several lines, with a bound on their length.
//!
//! A record of several lines is what lies between two places of the input, as a line is: nothing of it is held, and what is
//! true of a line (read again until it is whole, numbered by what is behind it) is true of it.

use memchr::memchr;

use super::join::Join;
use super::stack::State;

/// A line, without its newline and the carriage return before it; or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A whole line.
    Line(&'a [u8]),
    /// The beginning of a line that is longer than allowed; its rest is skipped.
    Cut(&'a [u8]),
    /// The lines of a record, newlines between them.
    Record(&'a [u8]),
    /// The first lines of a record that has more than allowed; what follows begins another one.
    Part(&'a [u8]),
}

/// Cuts bytes into lines. Holds no bytes: whoever calls keeps what was not consumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Splitter {
    /// Number of the newest line, from 1.
    pub line: u64,
    /// The rest of a line that is too long is being skipped.
    pub skipping: bool,
    /// Bytes of the input's rest, behind an open record, that hold no newline.
    scanned: usize,
    open: Open,
    /// Lines of the newest record.
    lines: u32,
}

/// A record that has not ended: whole lines at the beginning of the input's rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Open {
    bytes: usize,
    lines: u32,
    /// The same without blank lines at its end, of which nobody knows yet whether they belong to it.
    filled: (usize, u32),
    state: State,
}

impl Open {
    /// With a further line that ends at `bytes`.
    fn with(self, bytes: usize, is_blank: bool, state: State) -> Open {
        let lines = self.lines + 1;
        Open { bytes, lines, state, filled: if is_blank { self.filled } else { (bytes, lines) } }
    }
}

impl Splitter {
    /// As it was when the bytes before had been consumed.
    pub fn resume(line: u64, skipping: bool) -> Splitter {
        Splitter { line, skipping, ..Splitter::default() }
    }

    /// The next line of `input` from `at` on, with `at` moved behind it. `None` when the rest is an incomplete line of at
    /// most `max` bytes, which has to be given again with more behind it.
    #[inline]
    pub fn next<'a>(&mut self, input: &'a [u8], at: &mut usize, max: usize) -> Option<Piece<'a>> {
        let length = self.find(input, at, max)?;
        Some(self.take(input, at, length, max))
    }

    /// Finds the next line, behind one that is skipped: its length without its newline, or that of all there is, if that is
    /// more than `max` already.
    #[inline]
    fn find(&mut self, input: &[u8], at: &mut usize, max: usize) -> Option<usize> {
        loop {
            let rest = input.get(*at..).unwrap_or_default();
            let Some(newline) = memchr(b'\n', rest.get(self.scanned..).unwrap_or_default()) else {
                if self.skipping {
                    *at = input.len();
                } else if rest.len() > max {
                    self.scanned = 0;
                    return Some(rest.len());
                } else {
                    self.scanned = rest.len();
                }
                return None;
            };
            let length = std::mem::take(&mut self.scanned) + newline;
            if !std::mem::take(&mut self.skipping) {
                return Some(length);
            }
            *at += length + 1;
        }
    }

    /// Takes the line that was found.
    #[inline]
    fn take<'a>(&mut self, input: &'a [u8], at: &mut usize, length: usize, max: usize) -> Piece<'a> {
        let rest = input.get(*at..).unwrap_or_default();
        let is_whole = length < rest.len();
        *at += length + usize::from(is_whole);
        self.skipping = !is_whole;
        self.line += 1;
        self.lines = 1;
        match rest.get(..max) {
            Some(cut) if length > max => Piece::Cut(cut),
            _ => Piece::Line(without_return(rest.get(..length).unwrap_or_default())),
        }
    }

    /// What is left at the end: a last line without a newline, if there is one. The bytes are consumed.
    pub fn last<'a>(&mut self, rest: &'a [u8]) -> Option<Piece<'a>> {
        self.scanned = 0;
        if std::mem::take(&mut self.skipping) || rest.is_empty() {
            return None;
        }
        self.line += 1;
        self.lines = 1;
        Some(Piece::Line(without_return(rest)))
    }

    /// The next record of `input` from `at` on, as [`Splitter::next`] gives lines. `None` when the rest is an open record
    /// and an incomplete line. `seam`: a place at which no record goes on, as one has ended there before.
    pub fn next_record<'a>(
        &mut self,
        input: &'a [u8],
        at: &mut usize,
        join: &Join,
        seam: Option<usize>,
    ) -> Option<Piece<'a>> {
        loop {
            if self.open.bytes == 0
                && let Some(piece) = self.first_line(input, at, join)
            {
                return Some(piece);
            }
            let begin = self.open.bytes;
            if begin == 0 {
                return None;
            }
            let rest = input.get(*at..).unwrap_or_default();
            let Some(newline) = memchr(b'\n', rest.get(begin + self.scanned..).unwrap_or_default()) else {
                let line = rest.get(begin..).unwrap_or_default();
                if rest.len() > join.max_bytes && !line.is_empty() {
                    // The beginning tells whether it belongs to the record, for which it is too long.
                    let is_part = join.goes_on(self.open.state, line).is_some();
                    return Some(self.end(input, at, is_part));
                }
                self.scanned = line.len();
                return None;
            };
            let end = begin + self.scanned + newline;
            self.scanned = 0;
            let line = without_return(&rest[begin..end]);
            let state = join.goes_on(self.open.state, line).filter(|_| seam != Some(*at + begin));
            let is_blank = is_blank(line);
            match state {
                None => return Some(self.end(input, at, false)),
                Some(_) if self.open.lines >= join.max_lines || end > join.max_bytes => {
                    return Some(self.end(input, at, true));
                }
                Some(state) => self.open = self.open.with(end + 1, is_blank, state),
            }
        }
    }

    /// Opens a record with the next line, or gives the line, if it is blank or longer than a record may be.
    fn first_line<'a>(&mut self, input: &'a [u8], at: &mut usize, join: &Join) -> Option<Piece<'a>> {
        let max = join.max_bytes;
        let length = self.find(input, at, max)?;
        let line = input.get(*at..*at + length).map(without_return).unwrap_or_default();
        if length > max || is_blank(line) {
            return Some(self.take(input, at, length, max));
        }
        self.open = Open::default().with(length + 1, false, join.begin(line));
        None
    }

    /// Ends the open record, if there is one, as its next line does not come.
    pub fn end_record<'a>(&mut self, input: &'a [u8], at: &mut usize) -> Option<Piece<'a>> {
        (self.open.bytes > 0).then(|| self.end(input, at, false))
    }

    /// The same at the end, where the open record ends, with a last line without a newline, if that belongs to it. To be
    /// called until there is no more; then all bytes are consumed.
    pub fn last_record<'a>(
        &mut self,
        input: &'a [u8],
        at: &mut usize,
        join: &Join,
        seam: Option<usize>,
    ) -> Option<Piece<'a>> {
        if let Some(piece) = self.next_record(input, at, join, seam) {
            return Some(piece);
        }
        let rest = input.get(*at..).unwrap_or_default();
        let Open { bytes, lines, state, .. } = self.open;
        if bytes == 0 {
            *at = input.len();
            return self.last(rest);
        }
        let line = without_return(rest.get(bytes..).unwrap_or_default());
        let fits = lines < join.max_lines && rest.len() <= join.max_bytes;
        if !is_blank(line) && fits && join.goes_on(state, line).is_some() {
            self.open = self.open.with(rest.len(), false, state);
        }
        Some(self.end(input, at, false))
    }

    /// Number of the newest record's first line.
    pub fn first(&self) -> u64 {
        (self.line + 1).saturating_sub(u64::from(self.lines.max(1)))
    }

    /// Whether whole lines of a record wait for what follows.
    pub fn has_open_record(&self) -> bool {
        self.open.bytes > 0
    }

    fn end<'a>(&mut self, input: &'a [u8], at: &mut usize, is_part: bool) -> Piece<'a> {
        // Blank lines are left for themselves: a record's number is behind its text.
        let Open { filled: (bytes, lines), .. } = std::mem::take(&mut self.open);
        self.scanned = 0;
        self.line += u64::from(lines);
        self.lines = lines;
        let record = input.get(*at..*at + bytes).unwrap_or_default();
        *at += bytes;
        let record = without_return(record.strip_suffix(b"\n").unwrap_or(record));
        if is_part { Piece::Part(record) } else { Piece::Record(record) }
    }

    /// The bytes that were scanned will be read anew, or others in their place.
    pub fn rescan(&mut self) {
        self.scanned = 0;
        self.open = Open::default();
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.trim_ascii().is_empty()
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::follow::multiline::Multiline;
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
                    Piece::Line(line) | Piece::Record(line) => String::from_utf8_lossy(line).into_owned(),
                    Piece::Cut(line) | Piece::Part(line) => format!("{}+", String::from_utf8_lossy(line)),
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

    /// The same for records of several lines, each line of which is joined to the one before by a blank if it begins with
    /// one. Records that were ended by their limits have a `+`.
    fn records(chunks: &[&[u8]], max_bytes: usize, seam: Option<usize>) -> Vec<String> {
        let config = Multiline { start: Some("^[^ ]".into()), max_lines: 4, ..Multiline::default() };
        let mut join = Join::new(&config).expect("a right expression");
        join.max_bytes = max_bytes;
        let mut splitter = Splitter::default();
        let (mut carry, mut found, mut consumed) = (Vec::new(), Vec::new(), 0);
        let shown = |piece: Piece<'_>| match piece {
            Piece::Line(line) | Piece::Record(line) => String::from_utf8_lossy(line).into_owned(),
            Piece::Cut(line) | Piece::Part(line) => format!("{}+", String::from_utf8_lossy(line)),
        };
        for chunk in chunks {
            carry.extend_from_slice(chunk);
            let mut at = 0;
            let seam = seam.and_then(|seam| seam.checked_sub(consumed));
            while let Some(piece) = splitter.next_record(&carry, &mut at, &join, seam) {
                found.push(shown(piece));
            }
            carry.drain(..at);
            consumed += at;
            assert!(carry.len() <= max_bytes + 1, "{} bytes are held", carry.len());
        }
        let mut at = 0;
        while let Some(piece) = splitter.last_record(&carry, &mut at, &join, None) {
            found.push(shown(piece));
        }
        assert_eq!(at, carry.len());
        found
    }

    #[test]
    fn records_of_several_lines() {
        let all = |text: &[u8]| records(&[text], 40, None);
        assert_eq!(all(b"a\n b\n c\nd\n"), ["a\n b\n c", "d"]);
        assert_eq!(
            all(b"a\r\n b\r\n\r\nd"),
            ["a\r\n b", "", "d"],
            "blank lines at the end are for themselves"
        );
        assert_eq!(all(b" b\n c\nd\n e"), [" b\n c", "d\n e"], "whatever comes first begins a record");
        assert_eq!(all(b"a\n 1\n 2\n 3\n 4\n 5\nb\n"), ["a\n 1\n 2\n 3+", " 4\n 5", "b"]);
        let long = "x".repeat(45);
        assert_eq!(all(format!("a\n {long}\n b\n").as_bytes()), ["a+", &format!(" {}+", &long[..39]), " b"]);
        assert_eq!(records(&[b"a\n b\n c\n"], 40, Some(5)), ["a\n b", " c"], "a record ended there before");
    }

    #[test]
    fn a_record_that_is_not_ended_is_ended_by_time() {
        let join = Join::new(&Multiline { start: Some("^a".into()), ..Multiline::default() }).expect("right");
        let (mut splitter, mut at) = (Splitter::default(), 0);
        let input = b"a\nb\n\nhalf";
        assert_eq!(splitter.next_record(input, &mut at, &join, None), None);
        assert!(splitter.has_open_record() && at == 0);
        assert_eq!(splitter.end_record(input, &mut at), Some(Piece::Record(b"a\nb")));
        // Behind its text: whatever number it has, it has with and without the blank line.
        assert_eq!((at, splitter.line, splitter.has_open_record()), (4, 2, false));
        assert_eq!(splitter.end_record(input, &mut at), None);
    }

    proptest! {
        #[test]
        fn records_are_the_same_wherever_the_input_is_cut(
            lines in prop::collection::vec("[a ][a-z]{0,12}", 0..30),
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
            let whole = records(&[text.as_bytes()], 30, None);
            prop_assert_eq!(records(&chunks, 30, None), whole);
        }

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
