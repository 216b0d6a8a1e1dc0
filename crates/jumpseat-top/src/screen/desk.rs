//! The views besides the metrics: their tables below each other, with as much space as each can do with.

use ratatui::layout::Rect;

use super::canvas::Canvas;
use super::{flame, sheet};
use crate::app::App;
use crate::desk::View;

/// Draws the view.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, app: &App) {
    let panels = app.panels();
    let mut left = area;
    if app.desk.view == View::Flame {
        let root = app.flame();
        let key =
            panels.first().and_then(|panel| panel.sheet.lines.get(panel.selected?)).map(|line| &*line.key);
        let upper = Rect { height: (area.height * 3 / 5).max(1).min(area.height), ..area };
        flame::draw(canvas, upper, &root, key);
        left = Rect { y: area.y + upper.height, height: area.height - upper.height, ..area };
    }
    let count = panels.len() as u16;
    for (at, panel) in (0..).zip(&panels) {
        // Title, heads and lines; what is left for each, if there were no more.
        let wanted = u16::try_from(panel.sheet.lines.len().max(1)).unwrap_or(u16::MAX).saturating_add(2);
        let height = match count - at {
            1 => left.height,
            others => {
                let below: u16 = panels
                    .iter()
                    .skip(usize::from(at) + 1)
                    .map(|panel| panel.sheet.lines.len() as u16 + 2)
                    .fold(0, u16::saturating_add);
                let least = left.height / others;
                wanted.min(least.max(left.height.saturating_sub(below)))
            }
        };
        let space = Rect { height, ..left };
        if height > 0 {
            sheet::draw(canvas, space, panel, app.desk.aside);
        }
        left = Rect { y: left.y + height, height: left.height - height, ..left };
    }
}
