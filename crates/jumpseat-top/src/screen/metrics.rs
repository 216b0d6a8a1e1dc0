//! The pane of metrics: history, current value, what it was.

use ratatui::layout::Rect;

use super::canvas::{Canvas, width};
use super::theme::Role;
use super::{columns, scroll, spark};
use crate::app::{App, Pane};
use crate::measure::{Measure, WIDTH};
use crate::model::Metric;
use crate::series::Cell;

/// Columns of a number and its mark.
const NUMBER: u16 = WIDTH as u16 + 2;

/// Where things are on a line.
struct Places {
    name: u16,
    /// How many instances a number is made of.
    of: u16,
    spark: u16,
    /// Least, mean and largest value.
    stats: bool,
    unit: u16,
}

impl Places {
    fn of(area: Rect, metrics: &[Metric]) -> Places {
        // Of all metrics, not of those that are visible: columns must not jump while one scrolls.
        let longest = |text: fn(&Metric) -> &str| metrics.iter().map(|m| width(text(m))).max().unwrap_or(0);
        let unit = longest(|metric| metric.measure.as_ref().map_or("", |measure| &measure.unit));
        let instanced = metrics.iter().any(|metric| metric.instanced);
        let mut places = Places {
            name: longest(|metric| &metric.name).clamp(8, (area.width * 2 / 5).max(8)),
            of: if area.width >= 50 && instanced { 6 } else { 0 },
            spark: 0,
            stats: area.width >= 90,
            unit: if area.width >= 72 { (unit + 2).min(17) } else { 0 },
        };
        let numbers = if places.stats { 4 * NUMBER } else { NUMBER };
        let taken = 2 + places.name + 1 + places.of + numbers + places.unit;
        places.spark = area.width.saturating_sub(taken);
        places
    }
}

/// Lines that the pane can make use of, with bars of this height.
pub(super) fn wanted(app: &App, height: u16) -> u16 {
    let metrics = u16::try_from(app.view().metrics.len().max(1)).unwrap_or(u16::MAX);
    metrics.saturating_mul(height).saturating_add(1)
}

/// Draws the pane, with bars of `height` rows.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, app: &App, height: u16) {
    let metrics = &app.view().metrics;
    let places = Places::of(area, metrics);
    let focus = app.focus() == Pane::Metrics;
    canvas.heading(area, focus, "metrics", &[(metrics.len().to_string(), Role::Dim)]);
    heading(canvas, area, &places);
    if metrics.is_empty() {
        canvas.put(
            area.x + 2,
            area.y + 1,
            area.width.saturating_sub(2),
            "nothing yet: a adds a metric",
            Role::Dim,
        );
    }
    let visible = usize::from(area.height.saturating_sub(1) / height.max(1));
    let first = scroll(app.selected, metrics.len(), visible);
    for (at, metric) in metrics.iter().enumerate().skip(first).take(visible) {
        let y = area.y + 1 + (at - first) as u16 * height;
        let line = Rect { y, height, ..area };
        draw_metric(canvas, line, &places, metric, Role::Bar(at));
        canvas.hit(line, at);
        if at == app.selected {
            let bottom = Rect { y: line.bottom() - 1, height: 1, ..line };
            canvas.put(
                area.x,
                bottom.y,
                1,
                canvas.theme.pick("▶", ">"),
                if focus { Role::Focus } else { Role::Dim },
            );
            if focus {
                canvas.select(bottom);
            }
        }
    }
}

/// The names of the columns, in the line over the pane.
fn heading(canvas: &mut Canvas<'_>, area: Rect, places: &Places) {
    let mut x = area.x + 3 + places.name + places.of + places.spark;
    if places.spark < 8 {
        return;
    }
    let names: &[&str] = if places.stats { &["now", "min", "avg", "max"] } else { &["now"] };
    for name in names {
        canvas.put_right(x, area.y, NUMBER, &format!(" {name} "), Role::Dim);
        x += NUMBER;
    }
    if places.unit > 0 {
        canvas.put(x, area.y, places.unit, " unit ", Role::Dim);
    }
}

fn draw_metric(canvas: &mut Canvas<'_>, area: Rect, places: &Places, metric: &Metric, bar: Role) {
    let y = area.bottom() - 1;
    let mut x = area.x + 2;
    canvas.put_middle(x, y, places.name, &metric.name, Role::Plain);
    x += places.name + 1;
    if places.of > 0 && metric.instanced {
        let additive = metric.measure.as_ref().is_some_and(|measure| measure.additive);
        let sign = if additive { canvas.theme.pick("Σ", "+") } else { canvas.theme.pick("⌀", "~") };
        let count = metric.rows.values().filter(|row| row.cell.age == 0).count();
        if count > 1 && !metric.is_event {
            canvas.put(x, y, places.of - 1, &format!("{sign}{count}"), Role::Dim);
        }
    }
    x += places.of;
    match (&metric.error, &metric.text) {
        // It was never there: nothing else is on its line.
        (Some(error), _) if metric.measure.is_none() => {
            canvas.put(x, y, area.right().saturating_sub(x), error, Role::Bad);
            return;
        }
        (Some(error), _) => {
            // Where there is no number to be seen either, the error may take its place.
            let more = if metric.total.last.is_some() { 0 } else { NUMBER - 1 };
            canvas.put(x, y, places.spark + more, error, Role::Bad);
            if more > 0 {
                return;
            }
        }
        (None, Some(text)) => {
            canvas.put(x, y, area.right().saturating_sub(x), text, Role::Value);
            return;
        }
        (None, None) => {
            let space = Rect { x, width: places.spark, ..area };
            spark::draw(canvas.buffer, space, &metric.total.series, bar, canvas.theme);
        }
    }
    x += places.spark;
    let Some(measure) = &metric.measure else { return };
    columns::current(canvas, x, y, NUMBER, measure, &metric.total);
    x += NUMBER;
    if places.stats {
        stats(canvas, x, y, measure, &metric.total, places.spark);
        x += 3 * NUMBER;
    }
    canvas.put(x + 1, y, places.unit.saturating_sub(1), &measure.unit, Role::Dim);
}

/// Least, mean and largest of the values that the bars show.
fn stats(canvas: &mut Canvas<'_>, x: u16, y: u16, measure: &Measure, cell: &Cell, shown: u16) {
    let Some(stats) = cell.series.stats(shown.into()) else { return };
    for (at, value) in (0..).zip([stats.min, stats.avg, stats.max]) {
        canvas.put_right(x + at * NUMBER, y, NUMBER - 1, &measure.text(value), Role::Plain);
    }
}
