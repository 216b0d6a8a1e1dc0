//! The pane of event records: rates and losses of each stream, and the newest records.

use jumpseat_tools::Emphasis;
use pcp_event::EventFlags;
use ratatui::layout::Rect;

use super::canvas::{Canvas, width};
use super::spark;
use super::theme::Role;
use crate::app::{App, Pane};
use crate::events::{Shown, Stream};
use crate::measure::{WIDTH, duration};

const RATE: u16 = WIDTH as u16 + 3;
const COUNT: u16 = 16;

/// Draws the pane.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, app: &App) {
    let events = &app.view().events;
    let focus = app.focus() == Pane::Events;
    let missed: u64 = events.streams.values().map(|stream| stream.missed).sum();
    let records: u64 = events.streams.values().map(|stream| stream.records).sum();
    let mut rest = vec![(format!("{records} records"), Role::Dim)];
    if missed > 0 {
        rest.push((format!("{missed} missed"), Role::Bad));
    }
    if let Some(held) = app.held {
        rest.push((format!("{} newer below", events.seen.saturating_sub(held)), Role::Warning));
    }
    canvas.heading(area, focus, "events", &rest);
    let body = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };

    // The busiest come first; there is space for a third of the pane.
    let mut streams: Vec<&Stream> = events.streams.values().collect();
    let rate = |stream: &Stream| stream.rate.last.unwrap_or(0.0);
    streams.sort_by(|a, b| rate(b).total_cmp(&rate(a)).then_with(|| a.name.cmp(&b.name)));
    let space = usize::from(body.height / 3).max(1);
    streams.truncate(space);
    for (y, (at, stream)) in (body.y..body.bottom()).zip(streams.iter().enumerate()) {
        draw_stream(canvas, Rect { y, height: 1, ..body }, stream, Role::Bar(at + 1), missed > 0);
    }

    let used = streams.len() as u16;
    let log = Rect { y: body.y + used, height: body.height.saturating_sub(used), ..body };
    if events.newest.is_empty() {
        canvas.put(log.x + 2, log.y, log.width.saturating_sub(2), "no records yet", Role::Dim);
    }
    let kept = events.newest.len();
    // Those that came since the user went back are not shown, but counted in the heading.
    let newer = events.seen.saturating_sub(app.held.unwrap_or(events.seen));
    let end = kept.saturating_sub(usize::try_from(newer).unwrap_or(usize::MAX));
    let begin = end.saturating_sub(log.height.into());
    let lines = events.newest.range(begin..end);
    // Of the visible ones, as the log scrolls by anyway.
    let names = lines.clone().map(|shown| width(&shown.stream)).max().unwrap_or(0).min(16);
    for (y, shown) in (log.y..).zip(lines) {
        draw_record(canvas, Rect { y, height: 1, ..log }, shown, names, app);
    }
}

fn draw_stream(canvas: &mut Canvas<'_>, area: Rect, stream: &Stream, bar: Role, losses: bool) {
    let name = (area.width / 4).clamp(6, 24);
    canvas.put_middle(area.x + 2, area.y, name, &stream.name, Role::Plain);
    let count = if area.width >= 60 { COUNT } else { 0 };
    let missed = if area.width >= 80 && losses { COUNT } else { 0 };
    let space = area.width.saturating_sub(2 + name + 1 + RATE + count + missed);
    let mut x = area.x + 3 + name;
    spark::draw(canvas.buffer, Rect { x, width: space, ..area }, &stream.rate.series, bar, canvas.theme);
    x += space;
    let fresh = stream.rate.age == 0;
    let rate = match stream.rate.last {
        Some(rate) => format!("{}/s", crate::measure::plain(rate)),
        None => "-".to_owned(),
    };
    canvas.put_right(x, area.y, RATE - 1, &rate, if fresh { Role::Value } else { Role::Dim });
    if !fresh {
        canvas.put(x + RATE - 1, area.y, 1, "?", Role::Bad);
    }
    x += RATE;
    if missed > 0 && stream.missed > 0 {
        // Loud while it happens, so that it is not overlooked for an old loss.
        let role = if stream.missed_now > 0 { Role::Alarm } else { Role::Bad };
        canvas.put_right(x, area.y, missed - 1, &format!("{} missed", stream.missed), role);
    }
    x += missed;
    if count > 0 {
        canvas.put_right(x, area.y, count - 1, &format!("{} records", stream.records), Role::Dim);
    }
}

fn draw_record(canvas: &mut Canvas<'_>, area: Rect, shown: &Shown, names: u16, app: &App) {
    let (y, end) = (area.y, area.right());
    let left = |x: u16| end.saturating_sub(x);
    let record = &shown.record;
    let time = app.status.zone.clock(record.time, 3);
    let mut x = canvas.put(area.x + 2, y, left(area.x + 2), &time, Role::Dim) + 1;
    canvas.put_middle(x, y, names.min(left(x)), &shown.stream, Role::Plain);
    x += names + 1;
    if let Some(count) = record.missed {
        canvas.put(x, y, left(x), &format!("==> {count} records missed"), Role::Bad);
        return;
    }
    let of = |name: &str| record.params.iter().find(|(param, _)| &**param == name);
    let role = of("severity").map_or(Role::Value, |(_, severity)| match Emphasis::of(severity.as_bytes()) {
        Emphasis::Error => Role::Bad,
        Emphasis::Warning => Role::Warning,
        Emphasis::None => Role::Value,
    });
    let phase = canvas.theme.pick(phase(record.flags).0, phase(record.flags).1);
    x = canvas.put(x, y, left(x), phase, Role::Dim) + 1;
    if let Some((_, kind)) = of("type") {
        x = canvas.put(x, y, left(x), kind, role) + 1;
    }
    // What the record says for itself is not said twice.
    if let Some(took) = shown.took.filter(|_| of("duration").is_none()) {
        x = canvas.put(x, y, left(x), &duration(took), Role::Value) + 1;
    }
    for (name, value) in record.params.iter().filter(|(name, _)| &**name != "type") {
        if left(x) == 0 {
            break;
        }
        x = canvas.put(x, y, left(x), name, Role::Dim);
        x = canvas.put(x, y, left(x), "=", Role::Dim);
        x = canvas.put(x, y, left(x), value, Role::Plain) + 1;
    }
}

/// A mark for what the flags say: the start or the end of something, or a point in time.
fn phase(flags: EventFlags) -> (&'static str, &'static str) {
    match flags {
        flags if flags.contains(EventFlags::START | EventFlags::END) => ("◆", "x"),
        flags if flags.contains(EventFlags::START) => ("▷", ">"),
        flags if flags.contains(EventFlags::END) => ("◁", "<"),
        flags if flags.contains(EventFlags::POINT) => ("•", "*"),
        _ => (" ", " "),
    }
}
