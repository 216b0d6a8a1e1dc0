//! What commands of the user do, on a terminal or for printed screens.

use std::path::Path;

use ratatui::buffer::Buffer;

use super::app::{App, Command};
use super::export::{self, Format};
use super::layout;
use super::monitor::Monitor;
use super::screen::{self, Theme};

/// What a command came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// All is done.
    Nothing,
    /// The program ends.
    Quit,
    /// The program stops, until somebody lets it go on.
    Suspend,
    /// Everything is drawn anew.
    Redraw,
    /// The next sample is due an interval from now on.
    Moved,
}

/// Does what a key has asked for. `buffer` has the size of the screen.
pub(crate) fn act(
    command: Command,
    monitor: &mut Monitor,
    app: &mut App,
    theme: Theme,
    buffer: &Buffer,
) -> Done {
    match command {
        Command::Quit => return Done::Quit,
        Command::Suspend => return Done::Suspend,
        Command::Redraw => return Done::Redraw,
        Command::Add(text) => {
            let added = monitor.add(&text, &mut app.model);
            app.added(added);
        }
        Command::Remove(id) => {
            monitor.remove(id, &mut app.model);
            app.removed();
        }
        Command::Seek(seek) => {
            app.status.trouble = monitor.seek(seek, &mut app.model).err();
            if let Some(playing) = &mut app.status.playing {
                // Or the title would speak of the place before until the next sample is due.
                playing.ended = monitor.is_over();
            }
            return Done::Moved;
        }
        Command::Views => monitor.add_views(&mut app.model),
        Command::Complete(text) => {
            let (text, names) = monitor.complete(&text, &mut app.model);
            app.completed(&text, &names);
        }
        Command::Export(name) => {
            let said = write(Path::new(&name), app, theme, buffer);
            app.message = Some(said.unwrap_or_else(|error| error));
        }
        Command::Save(name) => {
            let saved = layout::save(&name, monitor, app);
            app.message = Some(match saved {
                Ok(path) => {
                    format!("saved as {}: jumpseat top --layout {name} shows it again", path.display())
                }
                Err(error) => error,
            });
        }
    }
    Done::Nothing
}

/// Writes what is shown to a file, in the format that its name says.
fn write(path: &Path, app: &App, theme: Theme, buffer: &Buffer) -> Result<String, String> {
    let format = Format::of(path)?;
    let mut picture = Buffer::empty(buffer.area);
    screen::draw(&mut picture, app, theme, std::time::Instant::now());
    let text = export::export(app, &picture, theme, format);
    pcp_files::replace(path, text.as_bytes()).map_err(|error| format!("not written: {error}"))?;
    Ok(format!("written to {}", path.display()))
}
