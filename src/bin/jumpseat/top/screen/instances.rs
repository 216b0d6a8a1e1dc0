//! The pane of instances of the selected metric. Only the rows that are visible are formatted.

use ratatui::layout::Rect;

use super::canvas::{Canvas, width};
use super::theme::Role;
use super::{columns, scroll, spark};
use crate::top::app::{App, Mode, Pane, Sort};
use crate::top::measure::WIDTH;

const NUMBER: u16 = WIDTH as u16 + 2;

/// Draws the pane.
pub fn draw(canvas: &mut Canvas<'_>, area: Rect, app: &App) {
    let Some(metric) = app.metric() else { return };
    let rows = app.rows();
    let focus = app.focus() == Pane::Instances;
    let filter = app.table.filter.text();
    let editing = matches!(app.mode, Mode::Filter);
    let count = match rows.len() == metric.rows.len() {
        true if rows.len() == 1 => "1 instance".to_owned(),
        true => format!("{} instances", rows.len()),
        false => format!("{} of {} instances", rows.len(), metric.rows.len()),
    };
    let by = match app.table.sort {
        Sort::Value => "value",
        Sort::Change => "change",
        Sort::Name => "name",
    };
    let down = (app.table.sort == Sort::Name) == app.table.reverse;
    let arrow = if down { canvas.theme.pick("▼", "v") } else { canvas.theme.pick("▲", "^") };
    let mut rest = vec![(count, Role::Dim), (format!("by {by} {arrow}"), Role::Dim)];
    if editing || !filter.is_empty() {
        rest.push((format!("/{filter}"), Role::Warning));
    }
    let unit = metric.measure.as_ref().map(|measure| measure.unit.clone()).unwrap_or_default();
    rest.push((unit, Role::Dim));
    canvas.heading(area, focus, &metric.name, &rest);

    let visible = usize::from(area.height.saturating_sub(1));
    let first = scroll(app.table.selected, rows.len(), visible);
    let shown = || rows.iter().enumerate().skip(first).take(visible);
    let longest = shown().map(|(_, (_, row))| width(&row.name)).max().unwrap_or(0);
    let name = longest.clamp(6, (area.width / 2).max(6));
    let change = if area.width >= 60 { NUMBER } else { 0 };
    let space = area.width.saturating_sub(2 + name + 1 + NUMBER + change);
    for (at, (_, row)) in shown() {
        let y = area.y + 1 + (at - first) as u16;
        let mut x = area.x + 2;
        canvas.put_middle(x, y, name, &row.name, Role::Plain);
        x += name + 1;
        match &row.text {
            Some(text) => {
                let role = if row.cell.age == 0 { Role::Value } else { Role::Dim };
                canvas.put(x, y, area.right().saturating_sub(x), text, role);
            }
            None => {
                let bars = Rect { x, y, width: space, height: 1 };
                spark::draw(canvas.buffer, bars, &row.cell.series, Role::Bar(app.selected), canvas.theme);
                x += space;
                if let Some(measure) = &metric.measure {
                    columns::current(canvas, x, y, NUMBER, measure, &row.cell);
                    x += NUMBER;
                    if let Some(difference) = row.cell.series.change().filter(|_| change > 0) {
                        let sign = if difference > 0.0 { "+" } else { "" };
                        let text = format!("{sign}{}", measure.text(difference));
                        canvas.put_right(x, y, NUMBER - 1, &text, Role::Dim);
                    }
                }
            }
        }
        if at == app.table.selected && focus {
            canvas.put(area.x, y, 1, canvas.theme.pick("▶", ">"), Role::Focus);
            canvas.select(Rect { y, height: 1, ..area });
        }
    }
    if rows.is_empty() {
        let text = if metric.rows.is_empty() { "no values yet" } else { "no instance has that in its name" };
        canvas.put(area.x + 2, area.y + 1, area.width.saturating_sub(2), text, Role::Dim);
    }
}
