//! The word for the severity near the beginning of a line.
//!
//! A word in capitals counts where it stands alone; another one only in brackets, or in front of a colon: *error* is also a word
//! of sentences.
//!
//! **Bounds:** no more than [`WINDOW`] bytes are looked at.

use jumpseat_wire::severity;

/// How far to look.
const WINDOW: usize = 96;
/// Most words to look at.
const WORDS: usize = 10;

/// The severity in the first words of a text.
pub(super) fn find(text: &[u8]) -> Option<&'static str> {
    scan(text, WORDS).map(|(severity, _)| severity)
}

/// The severity that a text begins with, but for brackets, and where it ends.
pub(super) fn first(text: &[u8]) -> Option<(&'static str, usize)> {
    scan(text, 1)
}

fn scan(text: &[u8], words: usize) -> Option<(&'static str, usize)> {
    let window = &text[..text.len().min(WINDOW)];
    let (mut at, mut seen) = (0, 0);
    while seen < words {
        let start = at + window.get(at..)?.iter().position(u8::is_ascii_alphabetic)?;
        let length = window[start..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        at = start + length;
        let before = start.checked_sub(1).and_then(|before| window.get(before)).copied();
        let word =
            Word { text: &window[start..at], before, after: text.get(at).copied(), is_first: seen == 0 };
        if let Some(severity) = word.severity() {
            return Some((severity, at));
        }
        seen += 1;
    }
    None
}

struct Word<'a> {
    text: &'a [u8],
    before: Option<u8>,
    after: Option<u8>,
    is_first: bool,
}

impl Word<'_> {
    fn severity(&self) -> Option<&'static str> {
        if !(3..=13).contains(&self.text.len()) {
            return None;
        }
        let begins = matches!(
            self.before,
            None | Some(b' ' | b'\t' | b'[' | b'(' | b'<' | b'{' | b'|' | b':' | b'"' | b'=')
        );
        let ends = matches!(
            self.after,
            None | Some(b' ' | b'\t' | b']' | b')' | b'>' | b'}' | b'|' | b':' | b'"' | b',' | b'/')
        );
        let is_capital = self.text.iter().all(u8::is_ascii_uppercase);
        if !begins || !ends || !(is_capital || self.is_framed()) {
            return None;
        }
        match self.text {
            b"INF" => Some("info"),
            b"WRN" => Some("warning"),
            b"FTL" => Some("critical"),
            b"TRC" | b"VRB" => Some("trace"),
            // Of databases.
            b"LOG" if self.after == Some(b':') => Some("info"),
            b"Note" => Some("notice"),
            word => severity::from_word(word),
        }
    }

    fn is_framed(&self) -> bool {
        match (self.before, self.after) {
            (Some(b'[' | b':'), Some(b']')) | (Some(b'('), Some(b')')) | (Some(b'<'), Some(b'>')) => true,
            (Some(b'\t'), Some(b'\t')) | (Some(b'|'), Some(b'|')) => true,
            (None | Some(b' '), Some(b':')) => self.is_first,
            _ => false,
        }
    }
}
