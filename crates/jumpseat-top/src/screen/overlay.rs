//! What lies over the panes: help and messages; and the line of keys.

use ratatui::layout::Rect;

use super::canvas::{Canvas, width};
use super::theme::Role;
use crate::app::{App, Mode, Pane};

const HELP: [(&str, &str); 23] = [
    ("q Esc Ctrl-C", "quit"),
    ("up down k j", "select; PgUp PgDn Home End too"),
    ("Enter", "to the instances or events of a metric, and back"),
    ("Tab", "next pane"),
    ("s", "sort instances by value, change, name"),
    ("r", "reverse the order"),
    ("/", "show only instances with a text in their name"),
    ("+ -", "longer, shorter interval"),
    ("p Space", "freeze the screen; samples go on being taken"),
    ("a", "add a metric, NAME=EXPRESSION or an expression"),
    ("d Delete", "remove the selected metric"),
    ("Ctrl-Z Ctrl-L", "suspend, draw again"),
    ("", ""),
    ("left right", "in an archive: an interval back, on"),
    ("[ ]", "in an archive: ten intervals back, on"),
    ("Home End", "in an archive: to its start, its end (g and G select)"),
    ("p Space < >", "in an archive: pause and play; slower, faster"),
    ("", ""),
    ("/ sec, util", "counters are rates; of time, its share"),
    ("k M G, K M G", "1000s of things, 1024s of bytes"),
    ("\u{3a3}n \u{2300}n", "the sum or the mean of n instances"),
    ("\u{b7}", "a sample without a value"),
    ("?", "no value in the last sample: an earlier one"),
];

/// The keys.
pub(super) fn help(canvas: &mut Canvas<'_>, area: Rect) {
    let wide = HELP.iter().map(|(key, what)| width(key).max(16) + width(what)).max().unwrap_or(0) + 4;
    let (w, h) = (wide.min(area.width), (HELP.len() as u16 + 2).min(area.height));
    let inside =
        Rect { x: area.x + (area.width - w) / 2, y: area.y + (area.height - h) / 2, width: w, height: h };
    canvas.clear(inside);
    frame(canvas, inside, " keys and signs ", Role::Focus);
    for (y, (key, what)) in (inside.y + 1..inside.bottom().saturating_sub(1)).zip(HELP) {
        // The signs as they look on this terminal.
        let key = match (canvas.theme.utf8, key) {
            (false, "\u{3a3}n \u{2300}n") => "+n ~n",
            (false, "\u{b7}") => "? in bars",
            (_, key) => key,
        };
        let x = inside.x + 2;
        canvas.put(x, y, inside.right().saturating_sub(x + 1), key, Role::Key);
        canvas.put(x + 16, y, inside.right().saturating_sub(x + 17), what, Role::Plain);
    }
}

/// A message of one line or more, at the bottom of the panes.
pub(super) fn message(canvas: &mut Canvas<'_>, area: Rect, message: &str) {
    let lines: Vec<&str> = message.lines().collect();
    let height = (lines.len() as u16).saturating_add(2).min(area.height);
    let inside = Rect { y: area.bottom() - height, height, ..area };
    canvas.clear(inside);
    frame(canvas, inside, " not added ", Role::Bad);
    for (y, line) in (inside.y + 1..inside.bottom().saturating_sub(1)).zip(lines) {
        canvas.put(inside.x + 2, y, inside.width.saturating_sub(3), line, Role::Plain);
    }
}

/// What the keys do now.
pub(super) fn footer(canvas: &mut Canvas<'_>, area: Rect, app: &App) {
    let end = area.right();
    match &app.mode {
        Mode::Add(editor) => {
            let x = canvas.put(area.x + 1, area.y, area.width.saturating_sub(1), "add: ", Role::Key);
            canvas.editor(x, area.y, end.saturating_sub(x), editor);
            return;
        }
        Mode::Filter => {
            let x = canvas.put(area.x + 1, area.y, area.width.saturating_sub(1), "/", Role::Key);
            canvas.editor(x, area.y, end.saturating_sub(x), &app.table.filter);
            return;
        }
        Mode::Normal | Mode::Help => {}
    }
    let arrows = canvas.theme.pick("↑↓", "jk");
    let enter = canvas.theme.pick("⏎", "Enter");
    let mut keys = vec![("q", "quit"), ("?", "help"), (arrows, "select")];
    match app.focus() {
        Pane::Metrics => keys.extend([(enter, "open"), ("a", "add"), ("d", "remove")]),
        Pane::Instances => keys.extend([("s", "sort"), ("r", "reverse"), ("/", "filter"), (enter, "back")]),
        Pane::Events => keys.extend([("End", "newest"), (enter, "back")]),
    }
    if app.status.playing.is_some() {
        keys.extend([(canvas.theme.pick("←→", "left/right"), "seek"), ("<>", "speed")]);
    }
    keys.extend([
        ("Tab", "pane"),
        ("+-", "interval"),
        ("Space", if app.is_paused() { "go on" } else { "pause" }),
    ]);
    let mut x = area.x + 1;
    for (key, what) in keys {
        // The important ones are first, so that those that do not fit are missed least.
        if x + width(key) + 1 + width(what) > end {
            break;
        }
        x = canvas.put(x, area.y, end - x, key, Role::Key) + 1;
        x = canvas.put(x, area.y, end - x, what, Role::Dim) + 2;
    }
}

fn frame(canvas: &mut Canvas<'_>, area: Rect, title: &str, role: Role) {
    if area.width < 2 || area.height < 2 {
        return;
    }
    let (line, side) = (canvas.theme.pick("─", "-"), canvas.theme.pick("│", "|"));
    let corners = match canvas.theme.utf8 {
        true => ["╭", "╮", "╰", "╯"],
        false => ["+"; 4],
    };
    let (right, bottom) = (area.right() - 1, area.bottom() - 1);
    for x in area.left()..=right {
        canvas.put(x, area.y, 1, line, role);
        canvas.put(x, bottom, 1, line, role);
    }
    for y in area.top()..=bottom {
        canvas.put(area.x, y, 1, side, role);
        canvas.put(right, y, 1, side, role);
    }
    let places = [(area.x, area.y), (right, area.y), (area.x, bottom), (right, bottom)];
    for ((x, y), corner) in places.into_iter().zip(corners) {
        canvas.put(x, y, 1, corner, role);
    }
    canvas.put(area.x + 2, area.y, area.width.saturating_sub(3), title, role);
}
