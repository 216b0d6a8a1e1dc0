//! The screen: a title, panes, and a line of keys. What does not fit is cut; no size is too small.

mod canvas;
mod columns;
mod desk;
mod events;
mod flame;
mod instances;
mod metrics;
mod overlay;
mod sheet;
mod spark;
mod theme;

#[cfg(test)]
mod tests;

use std::time::Instant;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::app::{App, Mode, Pane};
use super::desk::View;
use super::model::{Metric, Model};
use super::monitor::Link;
use super::operand::BUSY;
use canvas::width;
pub(crate) use canvas::{Canvas, Hit};
pub(crate) use theme::{Ground, Role, Theme};

/// Least lines of a pane next to others.
const LEAST: u16 = 3;
/// Columns from which on two panes are side by side.
const WIDE: u16 = 130;

/// Draws everything. Where a click selects something.
pub(crate) fn draw(buffer: &mut Buffer, app: &App, theme: Theme, now: Instant) -> Vec<Hit> {
    let area = buffer.area;
    if area.is_empty() {
        return Vec::new();
    }
    let mut canvas = Canvas { buffer, theme, hits: Vec::new() };
    title(&mut canvas, Rect { height: 1, ..area }, app, now);
    let footer = u16::from(area.height >= 4);
    let body = Rect { y: area.y + 1, height: area.height.saturating_sub(1 + footer), ..area };
    match app.desk.view {
        View::Metrics => panes(&mut canvas, body, app),
        _ => {
            overlay::views(&mut canvas, Rect { height: body.height.min(1), ..body }, app);
            desk::draw(
                &mut canvas,
                Rect { y: body.y + 1, height: body.height.saturating_sub(1), ..body },
                app,
            );
        }
    }
    if footer > 0 {
        overlay::footer(&mut canvas, Rect { y: area.bottom() - 1, height: 1, ..area }, app);
    }
    if let Some(message) = &app.message {
        let title = if matches!(app.mode, Mode::Add(_)) { " add " } else { " note " };
        overlay::message(&mut canvas, body, title, message);
    }
    if matches!(app.mode, Mode::Help) {
        overlay::help(&mut canvas, area);
    }
    canvas.hits
}

/// The first of the items to be shown, so that the selected one is among them.
fn scroll(selected: usize, count: usize, visible: usize) -> usize {
    let half = visible / 2;
    selected.saturating_sub(half).min(count.saturating_sub(visible))
}

fn title(canvas: &mut Canvas<'_>, area: Rect, app: &App, now: Instant) {
    let status = &app.status;
    let (state, role) = match &status.link {
        Link::Up if app.is_paused() => ("paused".to_owned(), Role::Title),
        Link::Up if status.trouble.is_none() && status.playing.is_some() => {
            (status.playing.map_or_else(String::new, |playing| playing.text()), Role::Title)
        }
        Link::Up => match &status.trouble {
            None => ("live".to_owned(), Role::Title),
            Some(trouble) => (trouble.clone(), Role::Alarm),
        },
        Link::Connecting => ("reconnecting".to_owned(), Role::Alarm),
        Link::Lost { again, reason } => {
            let seconds = again.saturating_duration_since(now).as_secs_f64().ceil();
            (format!("reconnecting in {seconds} s: {reason}"), Role::Alarm)
        }
    };
    let model = app.view();
    let clock = model.at.map_or_else(String::new, |at| match status.playing {
        Some(_) => status.zone.ctime(at.sec),
        None => status.zone.clock(at, 0),
    });
    let mut parts = vec![
        "jumpseat top".to_owned(),
        status.host.clone(),
        format!("every {} s", status.interval.as_secs_f64()),
        clock,
        count(model.samples, "sample"),
    ];
    parts.extend(busy(model));
    if model.errors > 0 {
        parts.push(count(model.errors, "error"));
    }
    canvas.put(area.x, area.y, area.width, &" ".repeat(area.width.into()), role);
    // The state is the most important, then what is further left.
    let mark = match status.link {
        Link::Up if app.is_paused() => canvas.theme.pick("‖ ", ""),
        Link::Up => canvas.theme.pick("● ", ""),
        _ => canvas.theme.pick("○ ", ""),
    };
    let state = format!("{mark}{state} ");
    let space = area.width.saturating_sub(1);
    let right = width(&state).min(space);
    canvas.put(area.right() - right, area.y, right, &state, role);
    let end = area.right() - right;
    let mut x = area.x + 1;
    for part in parts.iter().filter(|part| !part.is_empty()) {
        if x + width(part) + 3 > end {
            break;
        }
        x = canvas.put(x, area.y, end - x, part, role) + 3;
        if x <= end {
            canvas.put(x - 2, area.y, 1, canvas.theme.pick("│", "|"), role);
        }
    }
    if x > area.x + 1 && x - 2 < end {
        canvas.put(x - 2, area.y, 1, " ", role);
    }
}

/// How busy the host is, if that is among what is watched: "busy 87 % of 2 CPUs".
fn busy(model: &Model) -> Option<String> {
    let busy = |metric: &Metric| {
        let cpus = metric.name.strip_prefix(BUSY)?;
        let share = metric.total.last.filter(|_| metric.total.age == 0)?;
        Some(format!("busy {share:.0} % of {cpus}"))
    };
    model.metrics.iter().find_map(busy)
}

fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn panes(canvas: &mut Canvas<'_>, body: Rect, app: &App) {
    if body.is_empty() {
        return;
    }
    let panes = app.panes();
    let others: Vec<Pane> = panes.iter().copied().filter(|pane| *pane != Pane::Metrics).collect();
    let needed = if body.width >= WIDE { 2 } else { panes.len() as u16 } * LEAST;
    if others.is_empty() || body.height < needed {
        // No space for more than the one that has the keys.
        return pane(canvas, body, app, app.focus(), 1.max(bars(app, body.height)));
    }
    let height = bars(app, body.height / 3);
    // Metrics take half of the screen at most: those that do not fit are scrolled.
    let limit = (body.height / 2).max(LEAST).min(body.height.saturating_sub(needed - LEAST));
    let top = metrics::wanted(app, height).min(limit);
    pane(canvas, Rect { height: top, ..body }, app, Pane::Metrics, height);
    let rest = Rect { y: body.y + top, height: body.height - top, ..body };
    match others.as_slice() {
        [left, right] if body.width >= WIDE => {
            let half = rest.width / 2;
            pane(canvas, Rect { width: half - 1, ..rest }, app, *left, 1);
            let x = rest.x + half;
            pane(canvas, Rect { x, width: rest.right() - x, ..rest }, app, *right, 1);
        }
        [upper, lower] => {
            // A table of two rows needs no half of the screen; records take all they can get.
            let wanted = app.rows().len().saturating_add(1);
            let half = u16::try_from(wanted).unwrap_or(u16::MAX).clamp(2, (rest.height / 2).max(2));
            pane(canvas, Rect { height: half, ..rest }, app, *upper, 1);
            let y = rest.y + half;
            pane(canvas, Rect { y, height: rest.bottom() - y, ..rest }, app, *lower, 1);
        }
        _ => others.iter().for_each(|&only| pane(canvas, rest, app, only, 1)),
    }
}

/// The largest height of bars that all metrics have space for.
fn bars(app: &App, space: u16) -> u16 {
    (1..=3).rev().find(|&height| metrics::wanted(app, height) <= space).unwrap_or(1)
}

fn pane(canvas: &mut Canvas<'_>, area: Rect, app: &App, pane: Pane, height: u16) {
    match pane {
        Pane::Metrics => metrics::draw(canvas, area, app, height),
        Pane::Instances => instances::draw(canvas, area, app),
        Pane::Events => events::draw(canvas, area, app),
    }
}
