//! What lies over the panes: help and messages; and the line of keys.

use ratatui::layout::Rect;

use super::canvas::{Canvas, width};
use super::theme::Role;
use crate::app::{App, Mode, Pane};
use crate::desk::View;
use crate::editor::Editor;

const HELP: &[(&str, &str)] = &[
    ("q Esc Ctrl-C", "quit"),
    ("up down k j", "select; PgUp PgDn Home End too"),
    ("Enter", "to the instances or events of a metric, and back"),
    ("Tab", "next pane"),
    ("1 ... 6", "metrics, events, spans, traces, errors, flame graph"),
    ("Enter Esc", "in a view: open what is selected, go back"),
    ("/ f", "in events: search a text, filter (severity >= error)"),
    (", . left right", "in a view: texts sideways"),
    ("e w", "write what is shown to a file; save the layout"),
    ("s", "sort: instances by value, change, name; tables by column"),
    ("r", "reverse the order"),
    ("/", "show only instances with a text in their name"),
    ("+ -", "longer, shorter interval"),
    ("p Space", "freeze the screen; samples go on being taken"),
    ("a", "add a metric (Tab completes), NAME=EXPRESSION, expression"),
    ("click, wheel", "select (Shift with it is the terminal's own)"),
    ("d Delete", "remove the selected metric"),
    ("Ctrl-O", "with several hosts: the keys go to the next one"),
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
    ("5? -", "no value in the last sample: an earlier one; none yet"),
];

/// The keys.
pub(super) fn help(canvas: &mut Canvas<'_>, area: Rect) {
    let wide = HELP.iter().map(|(key, what)| width(key).max(16) + width(what)).max().unwrap_or(0) + 4;
    let (w, h) = (wide.min(area.width), (HELP.len() as u16 + 2).min(area.height));
    let inside =
        Rect { x: area.x + (area.width - w) / 2, y: area.y + (area.height - h) / 2, width: w, height: h };
    canvas.clear(inside);
    frame(canvas, inside, " keys and signs ", Role::Focus);
    for (y, (key, what)) in (inside.y + 1..inside.bottom().saturating_sub(1)).zip(HELP.iter().copied()) {
        // The signs as they look on this terminal.
        let key = match (canvas.theme.utf8, key) {
            (false, "\u{3a3}n \u{2300}n") => "+n ~n",
            (false, "\u{b7}") => ": in bars",
            (_, key) => key,
        };
        let x = inside.x + 2;
        canvas.put(x, y, inside.right().saturating_sub(x + 1), key, Role::Key);
        canvas.put(x + 16, y, inside.right().saturating_sub(x + 17), what, Role::Plain);
    }
}

/// A message of one line or more, at the bottom of the panes.
pub(super) fn message(canvas: &mut Canvas<'_>, area: Rect, title: &str, message: &str) {
    let lines = wrapped(message, area.width.saturating_sub(4));
    let height = (lines.len() as u16).saturating_add(2).min(area.height);
    let inside = Rect { y: area.bottom() - height, height, ..area };
    canvas.clear(inside);
    frame(canvas, inside, title, Role::Bad);
    for (y, line) in (inside.y + 1..inside.bottom().saturating_sub(1)).zip(lines) {
        canvas.put(inside.x + 2, y, inside.width.saturating_sub(3), &line, Role::Plain);
    }
}

/// A text in lines of some columns, broken between words; lines that fit stay as they are.
fn wrapped(text: &str, columns: u16) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        if width(line) <= columns {
            lines.push(line.to_owned());
            continue;
        }
        let mut rest = String::new();
        for word in line.split_inclusive(' ') {
            if !rest.is_empty() && width(&rest) + width(word.trim_end()) > columns {
                lines.push(std::mem::take(&mut rest));
            }
            rest.push_str(word);
        }
        lines.push(rest);
    }
    lines
}

/// The names of the views, with their keys.
pub(super) fn views(canvas: &mut Canvas<'_>, area: Rect, app: &App) {
    let mut x = area.x + 1;
    for (number, view) in (1..).zip(View::ALL) {
        let role = if view == app.desk.view { Role::Title } else { Role::Dim };
        let left = |x: u16| area.right().saturating_sub(x);
        x = canvas.put(x, area.y, left(x), &format!("{number}"), Role::Key);
        x = canvas.put(x, area.y, left(x), &format!(" {} ", view.name()), role) + 1;
    }
    let desk = &app.desk;
    for (what, editor) in [("/", &desk.search), ("where ", &desk.filter)] {
        if !editor.text().is_empty() {
            let said = format!("{what}{}", editor.text());
            x = canvas.put(x, area.y, area.right().saturating_sub(x), &said, Role::Warning) + 2;
        }
    }
}

/// What the keys do now.
pub(super) fn footer(canvas: &mut Canvas<'_>, area: Rect, app: &App) {
    let end = area.right();
    match &app.mode {
        Mode::Add(editor) => return line(canvas, area, "add: ", editor),
        Mode::Filter => return line(canvas, area, "/", &app.table.filter),
        Mode::Search => return line(canvas, area, "search: ", &app.desk.search),
        Mode::Where => return line(canvas, area, "records where: ", &app.desk.filter),
        Mode::Export(editor) => {
            return line(canvas, area, "write what is shown to (.csv .json .svg .txt): ", editor);
        }
        Mode::Save(editor) => return line(canvas, area, "name of this layout: ", editor),
        Mode::Normal | Mode::Help => {}
    }
    let arrows = canvas.theme.pick("↑↓", "jk");
    let enter = canvas.theme.pick("⏎", "Enter");
    let mut keys = vec![("q", "quit"), ("?", "help"), ("1-6", "views"), (arrows, "select")];
    match app.focus() {
        _ if app.desk.view != View::Metrics => keys.extend(view_keys(app, enter)),
        Pane::Metrics => keys.extend([(enter, "open"), ("a", "add"), ("d", "remove")]),
        Pane::Instances => keys.extend([("s", "sort"), ("r", "reverse"), ("/", "filter"), (enter, "back")]),
        Pane::Events => keys.extend([("End", "newest"), (enter, "back")]),
    }
    if app.status.playing.is_some() {
        keys.extend([(canvas.theme.pick("←→", "left/right"), "seek"), ("<>", "speed")]);
    }
    keys.extend([
        ("Tab", if app.desk.view == View::Metrics { "pane" } else { "view" }),
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

/// What is special in a view.
fn view_keys(app: &App, enter: &'static str) -> Vec<(&'static str, &'static str)> {
    let mut keys = match (app.desk.view, &app.desk.open) {
        (View::Events, None) => {
            vec![(enter, "details"), ("/", "search"), ("f", "filter"), (",.", "sideways"), ("End", "follow")]
        }
        (View::Spans, None) => vec![(enter, "histogram"), ("s", "sort"), ("r", "reverse")],
        (View::Spans, Some(_)) => vec![(enter, "trace"), ("Esc", "back"), ("s", "sort")],
        (View::Traces, None) => vec![(enter, "waterfall"), ("s", "sort")],
        (View::Errors, None) => vec![(enter, "the last one"), ("s", "sort")],
        (View::Flame, None) => vec![(enter, "zoom")],
        _ => vec![("Esc", "back"), (",.", "sideways")],
    };
    keys.push(("e", "export"));
    keys
}

/// A line that is edited.
fn line(canvas: &mut Canvas<'_>, area: Rect, what: &str, editor: &Editor) {
    let x = canvas.put(area.x + 1, area.y, area.width.saturating_sub(1), what, Role::Key);
    canvas.editor(x, area.y, area.right().saturating_sub(x), editor);
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
