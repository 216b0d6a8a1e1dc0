//! Printed screens, for scripts, tests and documents.

use std::io::{self, Write as _};
use std::str::FromStr;
use std::time::Instant;

use jumpseat_tools::later;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::app::App;
use super::monitor::Monitor;
use super::screen::{self, Theme};
use super::text::text;
use super::{turn, wait};

/// Columns and lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
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
pub(crate) fn run(mut monitor: Monitor, mut app: App, frames: u32, size: Size) -> io::Result<()> {
    let theme = Theme::from_env();
    let mut next = Instant::now();
    for turn in 0..=frames {
        // What was recorded is there already.
        if !monitor.is_recorded() {
            wait::until(&[], Some(next));
            next = later(next, app.status.interval);
        }
        turn::start(&mut monitor, &mut app);
        while !turn::step(&mut monitor, &mut app) {
            if let Some(trouble) = app.status.trouble.take() {
                return Err(io::Error::other(trouble));
            }
            // Nothing was there to be asked for.
            if !monitor.is_busy() {
                break;
            }
            let fds: Vec<_> = monitor.waiting().map(wait::of_client).into_iter().collect();
            wait::until(&fds, monitor.deadline().or(Some(next)));
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
