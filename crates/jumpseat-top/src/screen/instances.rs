//! The pane of instances of the selected metric. Only the rows that are visible are formatted.

use ratatui::layout::Rect;

use super::canvas::{Canvas, width};
use super::theme::Role;
use super::{columns, scroll, spark};
use crate::app::{App, Mode, Pane, Sort};
use crate::measure::WIDTH;
use crate::model::{Metric, Row};

const NUMBER: u16 = WIDTH as u16 + 2;

/// Where things are on a line.
struct Places {
    name: u16,
    spark: u16,
    /// The difference to the sample before.
    change: u16,
}

/// Draws the pane.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, app: &App) {
    let Some(metric) = app.metric() else { return };
    let rows = app.rows();
    let focus = app.focus() == Pane::Instances;
    heading(canvas, area, app, metric, rows.len());

    let visible = usize::from(area.height.saturating_sub(1));
    let first = scroll(app.table.selected, rows.len(), visible);
    let shown = || rows.iter().enumerate().skip(first).take(visible);
    // By the rows that are visible only: the others may be very many.
    let longest = shown().map(|(_, (_, row))| width(&row.name)).max().unwrap_or(0);
    let name = longest.clamp(6, (area.width / 2).max(6));
    let change = if area.width >= 60 { NUMBER } else { 0 };
    let spark = area.width.saturating_sub(2 + name + 1 + NUMBER + change);
    let places = Places { name, spark, change };
    for (at, (_, row)) in shown() {
        let line = Rect { y: area.y + 1 + (at - first) as u16, height: 1, ..area };
        draw_row(canvas, line, &places, metric, row, Role::Bar(app.selected));
        if at == app.table.selected && focus {
            canvas.put(line.x, line.y, 1, canvas.theme.pick("▶", ">"), Role::Focus);
            canvas.select(line);
        }
    }
    if rows.is_empty() {
        let text = if metric.rows.is_empty() { "no values yet" } else { "no instance has that in its name" };
        canvas.put(area.x + 2, area.y + 1, area.width.saturating_sub(2), text, Role::Dim);
    }
}

/// The line over the pane: how many of the instances there are, in which order, with which filter.
fn heading(canvas: &mut Canvas<'_>, area: Rect, app: &App, metric: &Metric, shown: usize) {
    let filter = app.table.filter.text();
    let editing = matches!(app.mode, Mode::Filter);
    let count = match shown == metric.rows.len() {
        true if shown == 1 => "1 instance".to_owned(),
        true => format!("{shown} instances"),
        false => format!("{shown} of {} instances", metric.rows.len()),
    };
    let by = match app.table.sort {
        Sort::Value => "value",
        Sort::Change => "change",
        Sort::Name => "name",
    };
    // Numbers begin with the largest, names with the first of the alphabet.
    let down = (app.table.sort == Sort::Name) == app.table.reverse;
    let arrow = if down { canvas.theme.pick("▼", "v") } else { canvas.theme.pick("▲", "^") };
    let mut rest = vec![(count, Role::Dim), (format!("by {by} {arrow}"), Role::Dim)];
    if editing || !filter.is_empty() {
        rest.push((format!("/{filter}"), Role::Warning));
    }
    let unit = metric.measure.as_ref().map(|measure| measure.unit.clone()).unwrap_or_default();
    rest.push((unit, Role::Dim));
    canvas.heading(area, app.focus() == Pane::Instances, &metric.name, &rest);
}

fn draw_row(canvas: &mut Canvas<'_>, line: Rect, places: &Places, metric: &Metric, row: &Row, bar: Role) {
    let (mut x, y) = (line.x + 2, line.y);
    canvas.put_middle(x, y, places.name, &row.name, Role::Plain);
    x += places.name + 1;
    if let Some(text) = &row.text {
        let role = if row.cell.age == 0 { Role::Value } else { Role::Dim };
        canvas.put(x, y, line.right().saturating_sub(x), text, role);
        return;
    }
    let bars = Rect { x, y, width: places.spark, height: 1 };
    spark::draw(canvas.buffer, bars, &row.cell.series, bar, canvas.theme);
    x += places.spark;
    let Some(measure) = &metric.measure else { return };
    columns::current(canvas, x, y, NUMBER, measure, &row.cell);
    x += NUMBER;
    if let Some(difference) = row.cell.series.change().filter(|_| places.change > 0) {
        let sign = if difference > 0.0 { "+" } else { "" };
        let text = format!("{sign}{}", measure.text(difference));
        canvas.put_right(x, y, NUMBER - 1, &text, Role::Dim);
    }
}
