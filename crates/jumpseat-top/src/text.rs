//! A screen as text.

use ratatui::buffer::Buffer;

/// What a buffer shows, without blanks at the ends of lines.
pub(crate) fn text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for y in buffer.area.top()..buffer.area.bottom() {
        let mut line = String::new();
        let mut x = buffer.area.left();
        while x < buffer.area.right() {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            // A wide character takes two cells, of which the second is empty.
            x += u16::try_from(ratatui::text::Span::raw(symbol).width()).unwrap_or(1).max(1);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
