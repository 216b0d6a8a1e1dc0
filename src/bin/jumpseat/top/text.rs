//! Screens as text, for scripts, tests and documents.

use std::io::{self, Write as _};
use std::str::FromStr;
use std::time::Instant;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::app::App;
use super::screen::{self, Theme};
use super::source::Source;
use crate::later::later;

/// Columns and lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    width: u16,
    height: u16,
}

impl FromStr for Size {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Size, &'static str> {
        let size = text.split_once('x').and_then(|(width, height)| {
            Some(Size { width: width.parse().ok()?, height: height.parse().ok()? })
        });
        match size {
            Some(size) if size.width.min(size.height) > 0 && size.width.max(size.height) <= 1_000 => Ok(size),
            _ => Err("columns x lines, such as 80x24, up to 1000"),
        }
    }
}

/// Takes samples and prints a screen after each but the first, which has no rates yet.
pub fn print(mut source: Source, mut app: App, frames: u32, size: Size) -> io::Result<()> {
    let theme = Theme::from_env();
    let mut next = Instant::now();
    for turn in 0..=frames {
        // What was recorded is there already.
        if !source.is_recorded() {
            super::wait::until(&[], Some(next));
            next = later(next, app.status.interval);
        }
        super::tick(&mut source, &mut app);
        while !super::step(&mut source, &mut app) {
            if let Some(trouble) = app.status.trouble.take() {
                return Err(io::Error::other(trouble));
            }
            if !source.is_busy() {
                break;
            }
            let fds: Vec<_> =
                source.waiting().map(|waiting| (waiting.fd, waiting.events)).into_iter().collect();
            super::wait::until(&fds, source.deadline().or(Some(next)));
        }
        if turn > 0 {
            let mut buffer = Buffer::empty(Rect::new(0, 0, size.width, size.height));
            screen::draw(&mut buffer, &app, theme, Instant::now());
            let mut out = io::stdout();
            match out.write_all(text(&buffer).as_bytes()).and_then(|()| out.flush()) {
                Ok(()) => {}
                // The reader has seen enough.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
                Err(error) => return Err(io::Error::other(format!("cannot write: {}", error))),
            }
        }
    }
    Ok(())
}

/// What a buffer shows, without blanks at the ends of lines.
pub fn text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for y in buffer.area.top()..buffer.area.bottom() {
        let mut line = String::new();
        let mut x = buffer.area.left();
        while x < buffer.area.right() {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            x += u16::try_from(ratatui::text::Span::raw(symbol).width()).unwrap_or(1).max(1);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
