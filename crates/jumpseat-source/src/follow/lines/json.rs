//! JSON objects as loggers write them: as on the ingest socket, with more names for the same parts, and times as other
//! lines have them.

use super::names::Names;
use super::when::When;
use crate::delivery::Reason;
use crate::event::{Event, Limits, Refusal};
use crate::meaning::Meaning;
use crate::ndjson::{self, Dialect, Line};
use pcp_model::Timestamp;

/// Parses an object. Gives whether there was an event.
///
/// # Errors
/// No JSON object, a control line, or a `time` that is none.
pub(super) fn parse(
    line: &[u8],
    limits: &Limits,
    cut: bool,
    dialect: &Logged<'_>,
    event: &mut Event,
) -> Result<bool, Refusal> {
    match ndjson::parse_as(dialect, line, limits, cut, event)? {
        Line::Event => Ok(true),
        Line::Blank => Ok(false),
        Line::Control => {
            let detail = "a control line, which is for the ingest socket only";
            Err(Refusal::at(0, Reason::Control, detail))
        }
    }
}

/// What loggers write.
pub(super) struct Logged<'a> {
    /// What names mean.
    pub names: &'a Names,
    /// How times are written.
    pub when: &'a When,
    /// When the line was read.
    pub now: Timestamp,
}

impl Dialect for Logged<'_> {
    #[inline]
    fn meaning(&self, name: &[u8], _: bool) -> Meaning {
        self.names.meaning(name)
    }

    fn time(&self, text: &[u8], is_number: bool) -> Result<Timestamp, &'static str> {
        if is_number { self.when.number(text, self.now) } else { self.when.read(text, self.now) }
    }

    fn must_be_time(&self, name: &[u8]) -> bool {
        self.names.must_be_time(name)
    }
}
