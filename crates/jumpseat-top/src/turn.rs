//! What a turn of the program does, on a terminal or for printed screens: it starts samples, and takes them.

use super::app::App;
use super::monitor::{Monitor, Outcome};

/// It is time for the next sample: of a recording only while it is played and not over.
pub(crate) fn play(monitor: &mut Monitor, app: &mut App) {
    if let Some(playing) = &mut app.status.playing {
        playing.ended = monitor.is_over();
        if playing.ended || !playing.on {
            return;
        }
    }
    start(monitor, app);
}

/// Starts to take a sample. Where none can be taken, there is a gap.
pub(crate) fn start(monitor: &mut Monitor, app: &mut App) {
    if !monitor.begin(&mut app.model) {
        app.model.gap();
    }
}

/// Goes on with what is under way. True if a sample came.
pub(crate) fn step(monitor: &mut Monitor, app: &mut App) -> bool {
    match monitor.advance(&mut app.model) {
        Outcome::Nothing => false,
        Outcome::Sample(sample) => {
            app.model.apply(sample);
            app.status.trouble = None;
            true
        }
        Outcome::Failed(reason) => {
            app.status.trouble = Some(reason);
            app.model.errors += 1;
            app.model.gap();
            false
        }
        Outcome::Connected => {
            // Do not wait for the next turn to show that it is back.
            start(monitor, app);
            false
        }
    }
}
