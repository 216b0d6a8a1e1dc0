//! Printed screens, for scripts, tests and documents.

use std::io::{self, Write as _};
use std::str::FromStr;
use std::time::Instant;

use jumpseat_tools::later;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::app::App;
use super::export::{Format, export};
use super::keys::Key;
use super::screen::Theme;
use super::{LEAST_INTERVAL, Seat, act, side, turn, wait};

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
            Some(size) if size.width >= 20 && size.height >= 4 && size.width.max(size.height) <= 1_000 => {
                Ok(size)
            }
            _ => Err(
                "columns x lines, such as 80x24: from 20x4, on less there is nothing to read, to 1000x1000",
            ),
        }
    }
}

impl Size {
    /// A screen of this size.
    fn buffer(self) -> Buffer {
        Buffer::empty(Rect::new(0, 0, self.width, self.height))
    }
}

/// What is printed, and how.
pub(crate) struct Printed {
    /// How many screens.
    pub frames: u32,
    pub size: Size,
    pub format: Format,
    pub theme: Theme,
    /// Pressed before the first screen.
    pub keys: Vec<Key>,
}

/// Takes samples and prints a screen after each but the first, which has no rates yet.
pub(crate) fn run(mut seats: Vec<Seat>, what: &Printed) -> io::Result<()> {
    let mut next = Instant::now();
    for turn in 0..=what.frames {
        // What was recorded is there already.
        if !seats.iter().any(|seat| seat.monitor.is_recorded()) {
            wait::until(&[], Some(next));
            next = later(next, seats.first().map_or(LEAST_INTERVAL, |seat| seat.app.status.interval));
        }
        for seat in &mut seats {
            sample(seat, next)?;
        }
        if turn == 0 {
            continue;
        }
        if turn == 1 {
            press(&mut seats, what);
        }
        if !print(&seats, what)? {
            break;
        }
    }
    Ok(())
}

/// Takes a sample, and waits for it.
fn sample(seat: &mut Seat, next: Instant) -> io::Result<()> {
    let Seat { monitor, app } = seat;
    turn::start(monitor, app);
    while !turn::step(monitor, app) {
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
    Ok(())
}

/// Presses the keys, on the first host.
fn press(seats: &mut [Seat], what: &Printed) {
    let Some(Seat { monitor, app }) = seats.first_mut() else { return };
    for &key in &what.keys {
        if let Some(command) = app.key(key) {
            act::act(command, monitor, app, what.theme, &what.size.buffer());
        }
    }
}

/// Prints what is shown. False if the reader has seen enough.
fn print(seats: &[Seat], what: &Printed) -> io::Result<bool> {
    let mut buffer = what.size.buffer();
    let apps: Vec<&App> = seats.iter().map(|seat| &seat.app).collect();
    side::draw(&mut buffer, &apps, what.theme, Instant::now());
    let text: String = match what.format {
        // One picture of all, but a table each.
        Format::Text | Format::Svg => {
            apps.first().map(|app| export(app, &buffer, what.theme, what.format)).unwrap_or_default()
        }
        Format::Csv | Format::Json => {
            apps.iter().map(|app| export(app, &buffer, what.theme, what.format)).collect()
        }
    };
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        // The reader has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(io::Error::other(format!("cannot write: {error}"))),
    }
}
