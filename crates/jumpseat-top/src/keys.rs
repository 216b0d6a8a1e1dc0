//! Bytes from a terminal to keys.

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// Text.
    Char(char),
    /// A letter with the control key.
    Ctrl(char),
    Enter,
    Tab,
    BackTab,
    Esc,
    Backspace,
    Delete,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
    /// The left button of the mouse, at a column and a line.
    Click(u16, u16),
}

/// Keys by their names, with blanks between: `Enter`, `Down`, `Space`; what is no name is typed.
pub(crate) fn named(names: &str) -> Vec<Key> {
    let key = |name: &str| match name {
        "Enter" => vec![Key::Enter],
        "Tab" => vec![Key::Tab],
        "Esc" => vec![Key::Esc],
        "Up" => vec![Key::Up],
        "Down" => vec![Key::Down],
        "Left" => vec![Key::Left],
        "Right" => vec![Key::Right],
        "Home" => vec![Key::Home],
        "End" => vec![Key::End],
        "PageUp" => vec![Key::PageUp],
        "PageDown" => vec![Key::PageDown],
        "Space" => vec![Key::Char(' ')],
        text => text.chars().map(Key::Char).collect(),
    };
    names.split_whitespace().flat_map(key).collect()
}

/// Bytes that are not keys yet.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    bytes: Vec<u8>,
}

impl Decoder {
    /// Takes bytes as they come, in pieces of any size.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether what there is may be the beginning of a key. If nothing follows soon, it is the escape key.
    pub(crate) fn is_pending(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// The next key. With `all`, no more bytes will come.
    pub(crate) fn next(&mut self, all: bool) -> Option<Key> {
        loop {
            // An escape sequence that was cut off is the escape key and ordinary letters.
            let (key, len) = match decode(&self.bytes) {
                Some(found) => found,
                None if all && !self.bytes.is_empty() => {
                    ((self.bytes.first() == Some(&ESC)).then_some(Key::Esc), 1)
                }
                None => return None,
            };
            self.bytes.drain(..len);
            if key.is_some() {
                return key;
            }
        }
    }
}

const ESC: u8 = 0x1b;

/// Longest escape sequence that is waited for.
const MAX_SEQUENCE: usize = 32;

/// The key at the front, `None` if it is one nobody needs, and how many bytes it has; `None` if there are not
/// enough bytes.
fn decode(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    let key = match bytes {
        [] => return None,
        [ESC, rest @ ..] => return escape(rest),
        [b'\r' | b'\n', ..] => Some(Key::Enter),
        [b'\t', ..] => Some(Key::Tab),
        [0x7f | 0x08, ..] => Some(Key::Backspace),
        // Enter, Tab and Backspace are control characters, too, and come first.
        [letter @ 1..=0x1a, ..] => Some(Key::Ctrl((letter - 1 + b'a').into())),
        [0..0x20, ..] => None,
        [plain @ 0x20..0x7f, ..] => Some(Key::Char((*plain).into())),
        [first, ..] => return character(bytes, *first),
    };
    Some((key, 1))
}

fn character(bytes: &[u8], first: u8) -> Option<(Option<Key>, usize)> {
    let len = match first {
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf8 => 4,
        _ => return Some((None, 1)),
    };
    let tail = bytes.get(1..).unwrap_or_default();
    if let Some(broken) = tail.iter().take(len - 1).position(|byte| !(0x80..0xc0).contains(byte)) {
        return Some((None, broken + 1));
    }
    let text = bytes.get(..len)?;
    Some((std::str::from_utf8(text).ok().and_then(|text| text.chars().next()).map(Key::Char), len))
}

/// What follows the escape character: `[` or `O` for the keys of the keyboard, else it is the escape key itself.
fn escape(rest: &[u8]) -> Option<(Option<Key>, usize)> {
    match rest {
        [] => None,
        [b'[' | b'O'] => None,
        [b'[' | b'O', body @ ..] => {
            let parameters = body.iter().take_while(|byte| (0x20..0x40).contains(*byte)).count();
            // Not there yet; but something that never ends is not waited for.
            let Some(&last) = body.get(parameters) else {
                return (body.len() > MAX_SEQUENCE).then_some((None, 2 + body.len()));
            };
            let key = match (last, body.get(..parameters).unwrap_or_default()) {
                (b'A', _) => Some(Key::Up),
                (b'B', _) => Some(Key::Down),
                (b'C', _) => Some(Key::Right),
                (b'D', _) => Some(Key::Left),
                (b'H', _) | (b'~', b"1" | b"7") => Some(Key::Home),
                (b'F', _) | (b'~', b"4" | b"8") => Some(Key::End),
                (b'Z', _) => Some(Key::BackTab),
                (b'~', b"3") => Some(Key::Delete),
                (b'~', b"5") => Some(Key::PageUp),
                (b'~', b"6") => Some(Key::PageDown),
                (b'M', report) => mouse(report),
                _ => None,
            };
            Some((key, 3 + parameters))
        }
        _ => Some((Some(Key::Esc), 1)),
    }
}

/// A report of the mouse, in the form `<BUTTON;COLUMN;LINE`: a click, or the wheel, which is as good as the arrows.
fn mouse(report: &[u8]) -> Option<Key> {
    let report = std::str::from_utf8(report).ok()?.strip_prefix('<')?;
    let mut numbers = report.split(';').map(|number| number.parse::<u16>().ok());
    let (button, column, line) = (numbers.next()??, numbers.next()??, numbers.next()??);
    match button {
        0 => Some(Key::Click(column.saturating_sub(1), line.saturating_sub(1))),
        64 => Some(Key::Up),
        65 => Some(Key::Down),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8], all: bool) -> Vec<Key> {
        let mut decoder = Decoder::default();
        decoder.feed(bytes);
        std::iter::from_fn(|| decoder.next(all)).collect()
    }

    #[test]
    fn keys_are_told_apart() {
        assert_eq!(
            keys(b"a\r\t\x7f\x03\x1b[A\x1bOB\x1b[3~\x1b[5~\x1b[Z\x1b[1;5C", false),
            [
                Key::Char('a'),
                Key::Enter,
                Key::Tab,
                Key::Backspace,
                Key::Ctrl('c'),
                Key::Up,
                Key::Down,
                Key::Delete,
                Key::PageUp,
                Key::BackTab,
                Key::Right,
            ]
        );
        assert_eq!(keys("ü€𝄞".as_bytes(), false), [Key::Char('ü'), Key::Char('€'), Key::Char('𝄞')]);
    }

    #[test]
    fn the_mouse_clicks_and_scrolls() {
        let reported = keys(b"\x1b[<0;7;3M\x1b[<0;7;3m\x1b[<64;1;1M\x1b[<65;1;1M\x1b[<0;;3M", false);
        assert_eq!(reported, [Key::Click(6, 2), Key::Up, Key::Down]);
    }

    #[test]
    fn a_key_may_come_in_pieces() {
        let mut decoder = Decoder::default();
        for piece in [b"\x1b".as_slice(), b"[", b"1;2", b"A\xc3"] {
            assert_eq!(decoder.next(false), None);
            decoder.feed(piece);
        }
        assert_eq!((decoder.next(false), decoder.next(false)), (Some(Key::Up), None));
        decoder.feed(b"\xbc");
        assert_eq!(decoder.next(false), Some(Key::Char('ü')));
        assert!(!decoder.is_pending());
    }

    #[test]
    fn escape_is_a_key_when_nothing_follows_or_something_else() {
        assert_eq!(keys(b"\x1b", false), []);
        assert_eq!(keys(b"\x1b", true), [Key::Esc]);
        assert_eq!(keys(b"\x1bq", false), [Key::Esc, Key::Char('q')]);
    }

    #[test]
    fn any_bytes_end_in_keys_or_nothing() {
        assert_eq!(keys(b"\x1b[99~\x1b[?1;2c\x00\xff\xc3q", false), [Key::Char('q')]);
        let junk = [b"\x1b[".as_slice(), &[b'1'; 100]].concat();
        assert_eq!(keys(&junk, false), []);
        assert!(keys(&[0x1b; 50], true).len() <= 50);
    }
}
