//! What fuzz targets reach of the inside; not for anybody else.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::screen::{Canvas, Role, Theme};
use crate::text::text;

/// A text on a screen of some columns, in all the ways in which texts are put there, as the screen then reads.
pub fn lay_out(columns: u16, x: u16, space: u16, shown: &str) -> String {
    let area = Rect::new(0, 0, columns, 4);
    let mut buffer = Buffer::empty(area);
    let mut canvas =
        Canvas { buffer: &mut buffer, theme: Theme { utf8: true, ..Theme::PLAIN }, hits: Vec::new() };
    canvas.put(x, 0, space, shown, Role::Plain);
    canvas.put_right(x, 1, space, shown, Role::Plain);
    canvas.put_middle(x, 2, space, shown, Role::Plain);
    canvas.heading(Rect::new(0, 3, columns, 1), true, shown, &[(shown.to_owned(), Role::Dim)]);
    text(&buffer)
}
