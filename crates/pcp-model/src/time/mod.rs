//! Times as PCP's tools take and print them: intervals (`-t`), instants, moments and windows (`-S -T -A -O`), zones
//! (`-Z`), clock and calendar forms. Feature `time`.
//!
//! Everything here is a pure function of its arguments: the reference times and the current time come in
//! with each call. Only [`Zone`] reads files, those of the machine's time zone database.

mod getdate;
mod instant;
mod interval;
mod moment;
mod window;
mod zone;

pub use interval::parse_interval;
pub use moment::parse_moment;
pub use window::{Reference, Switches, Window, parse_window};
pub use zone::{Civil, Zone};

/// A text that is not an interval, instant or alignment. `Display` is PCP's two lines, each with its line
/// break: the text, then a mark below the place where it goes wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}\n{}^ -- {what}\n", " ".repeat(*at))]
pub struct TimeError {
    /// The text.
    pub text: String,
    /// The place, in bytes.
    pub at: usize,
    /// What is wrong there.
    pub what: &'static str,
}

impl TimeError {
    fn unexpected(text: &str, at: usize) -> TimeError {
        TimeError { text: text.to_owned(), at, what: "unexpected value" }
    }
}
