//! A view's table: as wide as its texts are, with what is left for the one column that can do with it.

use ratatui::layout::Rect;

use super::canvas::{Canvas, width};
use super::theme::Role;
use super::{scroll, spark};
use crate::desk::Panel;
use crate::sheet::{Cell, Drawn, Kind, Sheet};

/// Least columns for what takes the rest.
const LEAST: u16 = 8;

/// Draws a table. `aside` moves the texts in the last column to the left.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, panel: &Panel<'_>, aside: usize) {
    let sheet = &panel.sheet;
    let mut notes = sheet.notes.clone();
    if sheet.newest_last && panel.focus && !panel.follows {
        let newer = sheet.lines.len().saturating_sub(panel.selected.unwrap_or(0) + 1);
        notes.push((format!("{newer} newer below"), Role::Warning));
    }
    canvas.heading(area, panel.focus, &sheet.title, &notes);
    if sheet.lines.is_empty() {
        canvas.put(area.x + 2, area.y + 1, area.width.saturating_sub(2), &sheet.empty, Role::Dim);
        return;
    }
    let visible = usize::from(area.height.saturating_sub(2));
    let first = scroll(panel.selected.unwrap_or(0), sheet.lines.len(), visible);
    let widths = widths(sheet, first, visible, area.width.saturating_sub(2));
    heads(canvas, area, sheet, &widths);
    for (at, line) in sheet.lines.iter().enumerate().skip(first).take(visible) {
        let y = area.y + 2 + (at - first) as u16;
        let mut x = area.x + 2;
        for ((cell, column), &width) in line.cells.iter().zip(&sheet.columns).zip(&widths) {
            let place = Rect { x, y, width: width.min(area.right().saturating_sub(x)), height: 1 };
            // A part of a number is another number.
            if place.width == width || column.kind != Kind::Number {
                draw_cell(canvas, place, cell, column.kind, aside);
            }
            x = x.saturating_add(width + 1);
        }
        let whole = Rect { y, height: 1, ..area };
        if panel.focus {
            canvas.hit(whole, at);
        }
        if panel.selected == Some(at) && panel.focus {
            canvas.put(area.x, y, 1, canvas.theme.pick("▶", ">"), Role::Focus);
            canvas.select(whole);
        }
    }
}

/// The names of the columns.
fn heads(canvas: &mut Canvas<'_>, area: Rect, sheet: &Sheet<'_>, widths: &[u16]) {
    let mut x = area.x + 2;
    for (column, &width) in sheet.columns.iter().zip(widths) {
        let space = width.min(area.right().saturating_sub(x));
        match column.kind {
            Kind::Number if space < width => {}
            Kind::Number => canvas.put_right(x, area.y + 1, space, column.name, Role::Dim),
            _ => drop(canvas.put(x, area.y + 1, space, column.name, Role::Dim)),
        }
        x = x.saturating_add(width + 1);
    }
}

/// How wide each column is: by the visible lines, as there may be very many.
fn widths(sheet: &Sheet<'_>, first: usize, visible: usize, space: u16) -> Vec<u16> {
    let shown = || sheet.lines.iter().skip(first).take(visible);
    let mut widths: Vec<u16> = Vec::new();
    for (at, column) in sheet.columns.iter().enumerate() {
        let longest = || shown().filter_map(|line| line.cells.get(at)).map(|cell| width(&cell.text)).max();
        widths.push(match column.kind {
            Kind::Rest | Kind::Drawn => 0,
            Kind::Number => longest().unwrap_or(0).max(width(column.name)),
            Kind::Text(most) => longest().unwrap_or(0).max(width(column.name)).min(most),
        });
    }
    let flexible = |kind: Kind| matches!(kind, Kind::Rest | Kind::Drawn);
    let taken: u16 = widths.iter().map(|width| width + 1).sum();
    let left = space.saturating_sub(taken);
    // On a small screen the longest text gives way.
    if left < LEAST
        && let Some(longest) = widths.iter_mut().max()
    {
        *longest = longest.saturating_sub(LEAST - left).max(LEAST.min(*longest));
    }
    let left = space.saturating_sub(widths.iter().map(|width| width + 1).sum());
    for (width, column) in widths.iter_mut().zip(&sheet.columns) {
        if flexible(column.kind) {
            *width = left;
        }
    }
    widths
}

fn draw_cell(canvas: &mut Canvas<'_>, area: Rect, cell: &Cell<'_>, kind: Kind, aside: usize) {
    match (cell.drawn, kind) {
        (Drawn::Bars(series), _) => spark::draw(canvas.buffer, area, series, cell.role, canvas.theme),
        (Drawn::Extent(from, to), _) => extent(canvas, area, from, to, cell.role),
        (Drawn::Nothing, Kind::Number) => canvas.put_right(area.x, area.y, area.width, &cell.text, cell.role),
        (Drawn::Nothing, Kind::Rest) => {
            let start = cell.text.char_indices().nth(aside).map_or(cell.text.len(), |(start, _)| start);
            canvas.put(area.x, area.y, area.width, cell.text.get(start..).unwrap_or_default(), cell.role);
        }
        (Drawn::Nothing, _) => drop(canvas.put_middle(area.x, area.y, area.width, &cell.text, cell.role)),
    }
}

/// A bar from one share of the width to another, never less than one column.
fn extent(canvas: &mut Canvas<'_>, area: Rect, from: f64, to: f64, role: Role) {
    let width = f64::from(area.width);
    let first = ((from * width) as u16).min(area.width.saturating_sub(1));
    let last = ((to * width).round() as u16).clamp((first + 1).min(area.width), area.width);
    let mark = canvas.theme.pick("█", "#");
    for x in first..last {
        canvas.put(area.x + x, area.y, 1, mark, role);
    }
}
