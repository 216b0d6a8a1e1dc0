//! A line of text that keys change.

use super::keys::Key;

/// Characters in a line at most.
const MAX: usize = 4_096;

/// The line, and where the cursor is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Editor {
    text: String,
    /// Characters before the cursor.
    cursor: usize,
}

impl Editor {
    /// A line with the cursor at its end.
    pub(crate) fn with(text: &str) -> Editor {
        Editor { text: text.to_owned(), cursor: text.chars().count() }
    }

    /// The line.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The line before the cursor, at it, and after it.
    pub(crate) fn parts(&self) -> (&str, &str, &str) {
        let (before, rest) = self.text.split_at(self.offset(self.cursor));
        let (at, after) = rest.split_at(rest.chars().next().map_or(0, char::len_utf8));
        (before, at, after)
    }

    /// Takes a key, in the manner of shells.
    pub(crate) fn key(&mut self, key: Key) {
        // Characters, not bytes: the cursor is never within one.
        let len = self.text.chars().count();
        match key {
            Key::Char(c) if len < MAX => {
                self.text.insert(self.offset(self.cursor), c);
                self.cursor += 1;
            }
            Key::Backspace if self.cursor > 0 => {
                self.cursor -= 1;
                self.text.remove(self.offset(self.cursor));
            }
            Key::Delete | Key::Ctrl('d') if self.cursor < len => {
                self.text.remove(self.offset(self.cursor));
            }
            Key::Left | Key::Ctrl('b') => self.cursor = self.cursor.saturating_sub(1),
            Key::Right | Key::Ctrl('f') => self.cursor = (self.cursor + 1).min(len),
            Key::Home | Key::Ctrl('a') => self.cursor = 0,
            Key::End | Key::Ctrl('e') => self.cursor = len,
            Key::Ctrl('k') => self.text.truncate(self.offset(self.cursor)),
            Key::Ctrl('u') => self.cut(0),
            Key::Ctrl('w') => {
                let (before, ..) = self.parts();
                // As shells do: the blanks after the word go with it.
                let kept = before.trim_end().rfind(' ').map_or(0, |blank| blank + 1);
                self.cut(before.get(..kept).unwrap_or_default().chars().count());
            }
            _ => {}
        }
    }

    /// Removes what is between a character and the cursor.
    fn cut(&mut self, from: usize) {
        self.text.replace_range(self.offset(from)..self.offset(self.cursor), "");
        self.cursor = from;
    }

    fn offset(&self, character: usize) -> usize {
        self.text.char_indices().nth(character).map_or(self.text.len(), |(offset, _)| offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_edit_the_line() {
        let mut editor = Editor::default();
        "raté(a) b".chars().for_each(|c| editor.key(Key::Char(c)));
        editor.key(Key::Ctrl('w'));
        assert_eq!(editor.parts(), ("raté(a) ", "", ""));
        (0..4).for_each(|_| editor.key(Key::Left));
        editor.key(Key::Backspace);
        editor.key(Key::Char('e'));
        assert_eq!(editor.parts(), ("rate", "(", "a) "));
        editor.key(Key::Delete);
        editor.key(Key::Ctrl('k'));
        assert_eq!(editor.text(), "rate");
        editor.key(Key::Home);
        [Key::Backspace, Key::Left, Key::Char('€'), Key::Right].into_iter().for_each(|key| editor.key(key));
        assert_eq!(editor.parts(), ("€r", "a", "te"));
        editor.key(Key::Ctrl('u'));
        assert_eq!(editor.parts(), ("", "a", "te"));
    }
}
