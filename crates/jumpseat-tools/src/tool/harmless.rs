//! Bytes for a terminal, which takes some of them for commands.
//!
//! Names, values and help come from whoever sends events or answers for a host. All that a tool prints goes through here,
//! so that nothing has to be remembered where it is printed: of the commands to a terminal only the tool's own colours come
//! through. Lines and tabs stay, as values of several lines are printed as such.

use std::io::{self, Write};

/// What the tool itself tells a terminal. That others may colour their text, too, does no harm.
const COLOURS: [&str; 5] = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[33m", "\x1b[36m"];

/// Writes what goes through it with control characters as `\x1b` and `\u{9b}`.
#[derive(Debug)]
pub struct Harmless<W>(
    /// Where it goes.
    pub W,
);

impl<W: Write> Write for Harmless<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for chunk in bytes.utf8_chunks() {
            write_text(&mut self.0, chunk.valid())?;
            // Where the terminal does not take UTF-8, the controls of C1 are single bytes.
            for byte in chunk.invalid() {
                match byte {
                    0x80..=0x9f => write!(self.0, "\\x{byte:02x}")?,
                    _ => self.0.write_all(&[*byte])?,
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn write_text(out: &mut impl Write, mut text: &str) -> io::Result<()> {
    let is_harmful = |&(_, c): &(usize, char)| c.is_control() && c != '\n' && c != '\t';
    while let Some((at, control)) = text.char_indices().find(is_harmful) {
        let (before, rest) = text.split_at(at);
        out.write_all(before.as_bytes())?;
        let colour = COLOURS.iter().find(|colour| rest.starts_with(**colour));
        let taken = match (colour, u32::from(control)) {
            (Some(colour), _) => {
                out.write_all(colour.as_bytes())?;
                colour.len()
            }
            (None, code) => {
                if code < 0x80 {
                    write!(out, "\\x{code:02x}")?
                } else {
                    write!(out, "\\u{{{code:x}}}")?
                }
                control.len_utf8()
            }
        };
        text = &rest[taken..];
    }
    out.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &[u8], expected: &[u8]) {
        let mut out = Vec::new();
        Harmless(&mut out).write_all(text).expect("memory takes everything");
        assert_eq!(out.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }

    #[test]
    fn only_colours_lines_and_tabs_come_through() {
        check("a\tb\né\u{a0}\n".as_bytes(), "a\tb\né\u{a0}\n".as_bytes());
        check(b"\x1b[1mname\x1b[0m", b"\x1b[1mname\x1b[0m");
        check(b"\x1b]0;title\x07\r\x7f\0", b"\\x1b]0;title\\x07\\x0d\\x7f\\x00");
        check(b"\x1b[8m\x1b[2J\x1b", b"\\x1b[8m\\x1b[2J\\x1b");
        check("\u{9b}31m\u{85}".as_bytes(), b"\\u{9b}31m\\u{85}");
        check(b"\x9b2J \xff", b"\\x9b2J \xff");
    }
}
