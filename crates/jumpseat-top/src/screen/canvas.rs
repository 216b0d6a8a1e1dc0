//! Text in a buffer, cut to the space it has.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Color;
use ratatui::text::Span;

use super::theme::{Role, Theme};
use crate::editor::Editor;

/// A buffer with a look.
pub(crate) struct Canvas<'a> {
    /// The buffer.
    pub buffer: &'a mut Buffer,
    /// How things look.
    pub theme: Theme,
    /// Where a click selects which line.
    pub hits: Vec<Hit>,
}

/// A place that can be clicked on, and the line that it stands for.
pub(crate) type Hit = (Rect, usize);

/// Characters looked at for each column: joined emoji take three or four, few others more than two.
const PER_COLUMN: usize = 4;
/// Characters that are measured; what is longer fits nowhere.
const MEASURED: usize = 1024 * PER_COLUMN;

/// Columns that a text takes; of a long one, those of its beginning, which no screen has.
pub(super) fn width(text: &str) -> u16 {
    u16::try_from(Span::raw(beginning(text, MEASURED)).width()).unwrap_or(u16::MAX)
}

/// The first characters of a text.
fn beginning(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(end, _)| &text[..end])
}

/// The longest end of a text that takes at most `columns`. However long the text is, few characters of it are looked
/// at: whoever names an instance does not say how long a screen takes.
fn ending(text: &str, columns: u16) -> &str {
    let most = PER_COLUMN * (usize::from(columns) + 1);
    let start = text.char_indices().rev().nth(most - 1).map_or(0, |(start, _)| start);
    let mut rest = &text[start..];
    while width(rest) > columns {
        rest = rest.get(rest.chars().next().map_or(0, char::len_utf8)..).unwrap_or_default();
    }
    rest
}

impl Canvas<'_> {
    /// A click there selects that line.
    pub(super) fn hit(&mut self, area: Rect, line: usize) {
        self.hits.push((area, line));
    }

    /// Writes a text from a place on, at most `width` columns of it. The column after it.
    pub(crate) fn put(&mut self, x: u16, y: u16, width: u16, text: &str, role: Role) -> u16 {
        let area = self.buffer.area;
        if x < area.left() || x >= area.right() || y < area.top() || y >= area.bottom() {
            return x;
        }
        // A character with a million accents is one column, too.
        let text = beginning(text, PER_COLUMN * (usize::from(width) + 1));
        self.buffer.set_stringn(x, y, text, width.into(), self.theme.style(role)).0
    }

    /// Writes a text that ends where the space ends; its beginning is cut if it must be.
    pub(crate) fn put_right(&mut self, x: u16, y: u16, space: u16, text: &str, role: Role) {
        let text = if width(text) > space { ending(text, space) } else { text };
        self.put(x + space - width(text), y, space, text, role);
    }

    /// Writes a text; if it does not fit its middle is left out.
    pub(crate) fn put_middle(&mut self, x: u16, y: u16, space: u16, text: &str, role: Role) -> u16 {
        if width(text) <= space {
            return self.put(x, y, space, text, role);
        }
        let dots = self.theme.pick("…", "~");
        // Names differ at their ends more than in the middle.
        let tail = space.saturating_sub(1) / 2;
        let x = self.put(x, y, space.saturating_sub(1 + tail), text, role);
        let x = self.put(x, y, 1.min(space), dots, role);
        self.put(x, y, tail, ending(text, tail), role)
    }

    /// Shows a line as the selected one, without changing its text.
    pub(super) fn select(&mut self, area: Rect) {
        let (selected, dim) = (self.theme.style(Role::Selected), self.theme.style(Role::Dim).fg);
        for position in area.intersection(self.buffer.area).positions() {
            let cell = &mut self.buffer[position];
            if Some(cell.fg) == dim && dim == selected.bg {
                // It could not be read on its own colour.
                cell.set_fg(Color::Reset);
            }
            cell.set_style(selected);
        }
    }

    /// The line over a pane.
    pub(crate) fn heading(&mut self, area: Rect, focus: bool, title: &str, rest: &[(String, Role)]) {
        let role = if focus { Role::Focus } else { Role::Heading };
        let (line, right) = (self.theme.pick("─", "-"), area.right());
        for x in area.left()..right {
            self.put(x, area.y, 1, line, role);
        }
        let left = |x: u16| right.saturating_sub(x);
        let mut x = area.x + 1;
        x = self.put(x, area.y, left(x), " ", role);
        let title_role = if focus { Role::Focus } else { Role::Plain };
        x = self.put_middle(x, area.y, left(x).saturating_sub(2), title, title_role);
        x = self.put(x, area.y, left(x), " ", role);
        for (text, role) in rest.iter().filter(|(text, _)| !text.is_empty()) {
            if width(text) + 3 > left(x) {
                break;
            }
            x = self.put(x + 1, area.y, left(x), " ", *role);
            x = self.put(x, area.y, left(x), text, *role);
            x = self.put(x, area.y, left(x), " ", *role);
        }
    }

    /// An edited line with its cursor, which is always visible.
    pub(super) fn editor(&mut self, x: u16, y: u16, space: u16, editor: &Editor) {
        // From the end backwards, so that the cursor is never outside.
        let (before, at, after) = editor.parts();
        let fits = width(before) < space;
        let shown = if fits { before } else { ending(before, space.saturating_sub(1)) };
        let end = x.saturating_add(space);
        let x = self.put(x, y, space, shown, Role::Value);
        let x = self.put(x, y, end.saturating_sub(x), if at.is_empty() { " " } else { at }, Role::Title);
        self.put(x, y, end.saturating_sub(x), after, Role::Value);
    }

    /// Empties an area.
    pub(super) fn clear(&mut self, area: Rect) {
        for position in area.intersection(self.buffer.area).positions() {
            self.buffer[position].reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_characters_of_a_long_text_are_looked_at() {
        let accents = format!("a{}", "\u{301}".repeat(1 << 20));
        assert!(ending(&accents, 10).chars().count() <= 44);
        let long = "x".repeat(1 << 20) + "end";
        assert_eq!(ending(&long, 4), "xend");
        assert_eq!(width(&long), 4096);
        assert_eq!((ending("日本", 3), ending("ab", 0)), ("本", ""));
        assert_eq!(beginning("é…x", 2), "é…");
    }
}
