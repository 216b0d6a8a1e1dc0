//! What is shown, for other programs: a table as CSV or JSON, the screen as a picture or as text.

use std::fmt::Write as _;
use std::path::Path;

use clap::ValueEnum;
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};
use serde_json::{Map, Value, json};

use super::app::App;
use super::screen::Theme;
use super::sheet::{Kind, Sheet};
use super::text::text;

/// What is shown can be written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// The screen, as text.
    #[default]
    Text,
    /// The screen, as a picture.
    Svg,
    /// The table, with a line of names.
    Csv,
    /// The table, as one object.
    Json,
}

/// Columns and lines of the picture, in its own units.
const CELL: (f64, f64) = (8.4, 18.0);

impl Format {
    /// As the name of a file says.
    pub(crate) fn of(path: &Path) -> Result<Format, String> {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("csv") => Ok(Format::Csv),
            Some("json") => Ok(Format::Json),
            Some("svg") => Ok(Format::Svg),
            Some("txt") => Ok(Format::Text),
            _ => {
                Err("not written: the name has to end in .csv, .json, .svg or .txt, to say as what"
                    .to_owned())
            }
        }
    }
}

/// What is shown, in a format; `buffer` is the screen.
pub(crate) fn export(app: &App, buffer: &Buffer, theme: Theme, format: Format) -> String {
    match format {
        Format::Text => text(buffer),
        Format::Svg => svg(buffer, theme),
        Format::Csv => csv(&app.main_sheet()),
        Format::Json => json(app),
    }
}

/// The columns that say something without being drawn.
fn told<'a>(sheet: &'a Sheet<'_>) -> impl Iterator<Item = (usize, &'static str)> + 'a {
    let columns = sheet.columns.iter().enumerate();
    columns
        .filter(|(_, column)| column.kind != Kind::Drawn)
        .map(|(at, column)| (at, if column.name.is_empty() { "phase" } else { column.name }))
}

fn csv(sheet: &Sheet<'_>) -> String {
    let quoted = |text: &str| match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    };
    let mut lines = vec![told(sheet).map(|(_, name)| quoted(name)).collect::<Vec<_>>().join(",")];
    for line in &sheet.lines {
        let cell = |(at, _): (usize, &str)| match line.cells.get(at) {
            Some(cell) => match cell.number {
                Some(number) if number.is_finite() => number.to_string(),
                Some(_) => String::new(),
                None => quoted(cell.text.trim()),
            },
            None => String::new(),
        };
        lines.push(told(sheet).map(cell).collect::<Vec<_>>().join(","));
    }
    lines.join("\n") + "\n"
}

fn json(app: &App) -> String {
    let sheet = app.main_sheet();
    let line = |line: &super::sheet::Line<'_>| {
        let cell = |(at, name): (usize, &str)| {
            let cell = line.cells.get(at)?;
            let value = match cell.number {
                // What is not finite is null.
                Some(number) => json!(number),
                None => json!(cell.text.trim()),
            };
            Some((name.to_owned(), value))
        };
        Value::Object(told(&sheet).filter_map(cell).collect::<Map<String, Value>>())
    };
    let lines: Vec<Value> = sheet.lines.iter().map(line).collect();
    let at = app.view().at.map(|at| at.as_nanos() as f64 * 1e-9);
    let object = json!({ "view": app.desk.view.name(), "title": sheet.title, "host": app.status.host, "time": at, "lines": lines });
    format!("{object}\n")
}

/// A picture of the screen, a character a cell.
fn svg(buffer: &Buffer, theme: Theme) -> String {
    let (width, height) = (f64::from(buffer.area.width) * CELL.0, f64::from(buffer.area.height) * CELL.1);
    let (paper, ink) = if theme.light { ("#ffffff", "#1c1c1c") } else { ("#16161d", "#dcdccc") };
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" \
         viewBox=\"0 0 {width:.1} {height:.1}\" width=\"{width:.0}\" \
         height=\"{height:.0}\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"{paper}\"/>\n\
         <g font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"14\" xml:space=\"preserve\">\n"
    );
    for y in buffer.area.top()..buffer.area.bottom() {
        let mut x = buffer.area.left();
        while x < buffer.area.right() {
            let begin = x;
            let look = look(buffer, x, y, paper, ink);
            let mut said = String::new();
            while x < buffer.area.right() && self::look(buffer, x, y, paper, ink) == look {
                said.push_str(buffer[(x, y)].symbol());
                x += 1;
            }
            run(&mut out, begin, x, y, &said, &look, paper);
        }
    }
    out.push_str("</g>\n</svg>\n");
    out
}

/// The colours of a cell and whether it is bold.
type Look = (&'static str, &'static str, bool);

fn look(buffer: &Buffer, x: u16, y: u16, paper: &'static str, ink: &'static str) -> Look {
    let cell = &buffer[(x, y)];
    let (mut fore, mut back) = (colour(cell.fg).unwrap_or(ink), colour(cell.bg).unwrap_or(paper));
    if cell.modifier.contains(Modifier::REVERSED) {
        (fore, back) = (back, fore);
    }
    (fore, back, cell.modifier.contains(Modifier::BOLD))
}

/// Cells that look the same, next to each other.
fn run(out: &mut String, from: u16, to: u16, y: u16, said: &str, look: &Look, paper: &str) {
    let (x, top) = (f64::from(from) * CELL.0, f64::from(y) * CELL.1);
    let wide = f64::from(to - from) * CELL.0;
    let (fore, back, bold) = look;
    // Writing to a String does not fail.
    if *back != paper {
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{:.1}\" fill=\"{back}\"/>",
            CELL.1
        );
    }
    if said.trim().is_empty() {
        return;
    }
    let weight = if *bold { " font-weight=\"bold\"" } else { "" };
    let said = said.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{:.1}\" textLength=\"{wide:.1}\" \
         lengthAdjust=\"spacingAndGlyphs\" fill=\"{fore}\"{weight}>{said}</text>",
        top + 14.0
    );
}

/// The sixteen colours as many terminals have them.
fn colour(colour: Color) -> Option<&'static str> {
    Some(match colour {
        Color::Black => "#101010",
        Color::Red => "#c03030",
        Color::Green => "#4e9a06",
        Color::Yellow => "#c4a000",
        Color::Blue => "#3465a4",
        Color::Magenta => "#9a6fb0",
        Color::Cyan => "#06989a",
        Color::Gray => "#c8c8c8",
        Color::DarkGray => "#75757f",
        Color::LightRed => "#ff5555",
        Color::LightGreen => "#8ae234",
        Color::LightYellow => "#fce94f",
        Color::LightBlue => "#729fcf",
        Color::LightMagenta => "#ad7fa8",
        Color::LightCyan => "#34e2e2",
        Color::White => "#ffffff",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::Role;
    use crate::sheet::{Cell, Line, number, rest};

    #[test]
    fn tables_are_quoted_where_they_must_be() {
        let line = |text: &str, value| Line {
            key: String::new(),
            cells: vec![Cell::text(text, Role::Plain), Cell::number(value, |n| n.to_string())],
        };
        let lines = vec![line("a,\"b\"", Some(1.5)), line("c", None)];
        let sheet = Sheet { columns: vec![rest("name"), number("n")], lines, ..Sheet::default() };
        assert_eq!(csv(&sheet), "name,n\n\"a,\"\"b\"\"\",1.5\nc,\n");
    }

    #[test]
    fn pictures_have_the_text_and_nothing_that_is_markup() {
        let mut buffer = Buffer::empty(ratatui::layout::Rect::new(0, 0, 12, 1));
        buffer.set_string(0, 0, "a <b> & c", ratatui::style::Style::new().fg(Color::LightRed));
        let svg = svg(&buffer, Theme::PLAIN);
        assert!(svg.contains(">a &lt;b&gt; &amp; c</text>") && svg.contains("#ff5555"), "{svg}");
    }

    #[test]
    fn names_of_files_say_the_format() {
        assert_eq!(Format::of(Path::new("a/b.svg")), Ok(Format::Svg));
        assert!(Format::of(Path::new("b")).is_err());
    }
}
