//! The flame graph: a row for each depth, the width of a frame is its share of the time.

use ratatui::layout::Rect;

use super::canvas::{Canvas, width};
use super::theme::Role;
use crate::flame::{Block, Frame, blocks};

/// Draws the frames, the root on top. `selected` is the path of the selected frame.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, root: &Frame, selected: Option<&str>) {
    for (number, block) in blocks(root).iter().enumerate() {
        let y = area.y.saturating_add(u16::try_from(block.path.len()).unwrap_or(u16::MAX));
        if y >= area.bottom() {
            continue;
        }
        let columns = f64::from(area.width);
        let (from, to) = ((block.from * columns).round() as u16, (block.to * columns).round() as u16);
        // What is thinner than a column would cover others.
        if to <= from {
            continue;
        }
        let place = Rect { x: area.x + from, y, width: to - from, height: 1 };
        let chosen = selected.is_some_and(|path| path == block.path.join("\n"));
        draw_block(canvas, place, block, number, chosen);
        canvas.hit(place, number);
    }
}

fn draw_block(canvas: &mut Canvas<'_>, area: Rect, block: &Block<'_>, number: usize, chosen: bool) {
    let name = block.path.last().copied().unwrap_or("all spans");
    let role = if chosen { Role::Title } else { Role::Block(number) };
    let ends = area.width.saturating_sub(2);
    // Frames of one colour next to each other are told apart by their ends.
    canvas.put(area.x, area.y, area.width, &" ".repeat(area.width.into()), role);
    canvas.put(area.x, area.y, 1, canvas.theme.pick("▏", "|"), role);
    if width(name) <= ends {
        canvas.put(area.x + 1, area.y, ends, name, role);
    } else if ends > 2 {
        canvas.put_middle(area.x + 1, area.y, ends, name, role);
    }
}
