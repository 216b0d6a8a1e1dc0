//! Several hosts side by side: each has a part of the screen, as if that were all.

use std::time::Instant;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::app::App;
use super::screen::{self, Hit, Theme};

/// Draws all; where clicks select what, for each.
pub(crate) fn draw(buffer: &mut Buffer, apps: &[&App], theme: Theme, now: Instant) -> Vec<Vec<Hit>> {
    if let [only] = apps {
        return vec![screen::draw(buffer, only, theme, now)];
    }
    let mut hits = Vec::new();
    for (app, area) in apps.iter().zip(parts(buffer.area, apps.len())) {
        let mut part = Buffer::empty(area);
        hits.push(screen::draw(&mut part, app, theme, now));
        buffer.merge(&part);
    }
    hits
}

/// Parts of equal width, with a column between them.
fn parts(area: Rect, count: usize) -> Vec<Rect> {
    let count = u16::try_from(count).unwrap_or(u16::MAX).max(1);
    let edge = |at: u16| area.x + (u32::from(area.width + 1) * u32::from(at) / u32::from(count)) as u16;
    let part = |at: u16| Rect { x: edge(at), width: (edge(at + 1) - edge(at)).saturating_sub(1), ..area };
    (0..count).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fill_the_screen_but_for_the_columns_between_them() {
        let widths = |width, count| {
            parts(Rect::new(0, 0, width, 9), count).iter().map(|p| (p.x, p.width)).collect::<Vec<_>>()
        };
        assert_eq!(widths(101, 2), [(0, 50), (51, 50)]);
        assert_eq!(widths(80, 3), [(0, 26), (27, 26), (54, 26)]);
        assert_eq!(widths(1, 3).len(), 3);
    }
}
