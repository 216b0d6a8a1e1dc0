//! Times of archives, which PMWEBAPI has no words for: of a context, and of a fetch.
//!
//! ```text
//! archivefile=NAME [mode=interp|forward|backward] [start=T] [interval=D]     of a new context
//! time=T                                                                    of a fetch, or of /metrics
//! T = seconds since the epoch, as answers have them | what parse_moment(3) takes: an age before the end, @..., ISO 8601
//! ```
//!
//! Without `time` each fetch gives the next sample: interpolated ones every `interval`, 60 seconds without it, or the records themselves.

use pcp_client::Mode;
use pcp_model::Timestamp;
use pcp_model::time::{Zone, parse_interval, parse_moment};

use super::call::refused;
use super::session::Session;
use crate::server::answer::Refusal;
use crate::server::query::Query;

/// From one sample to the next, if nothing is said of it.
const INTERVAL: i64 = 60_000_000_000;

/// Where a context on an archive begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    mode: Mode,
    start: Option<String>,
}

impl Place {
    /// # Errors
    /// A mode or an interval that is none.
    pub(super) fn read(query: &Query) -> Result<Place, Refusal> {
        let step = match query.get("interval") {
            None => INTERVAL,
            Some(text) => {
                let step =
                    parse_interval(text).map_err(|error| Refusal::bad(format!("interval: {error}")))?;
                let step = i64::try_from(step.as_nanos()).ok().filter(|&step| step > 0);
                step.ok_or_else(|| Refusal::bad(format!("{text} - invalid 'interval' parameter value")))?
            }
        };
        let mode = match query.get("mode") {
            None | Some("interp") => Mode::Interpolate { step },
            Some("forward") => Mode::Forward,
            Some("backward") => Mode::Backward,
            Some(text) => {
                return Err(Refusal::bad(format!(
                    "{text} - invalid 'mode' parameter value: interp, forward or backward"
                )));
            }
        };
        Ok(Place { mode, start: query.get("start").map(str::to_owned) })
    }

    /// Goes there.
    ///
    /// # Errors
    /// A time that is none; an archive without records.
    pub(super) fn begin(&self, session: &mut Session) -> Result<(), Refusal> {
        let (first, last) = session.context.span().map_err(|error| refused(&error))?;
        let start = match &self.start {
            Some(text) => time(text, last, "start")?,
            None if self.mode == Mode::Backward => last,
            None => first,
        };
        session.context.set_mode(self.mode, Some(start)).map_err(|error| refused(&error))
    }
}

/// Goes to the time that a request asks for, if it does. What the archive was at before goes on from there.
///
/// # Errors
/// It is none; the metrics are not of an archive.
pub(super) fn go(session: &mut Session, query: &Query) -> Result<(), Refusal> {
    if !session.is_archive() {
        return match query.get("time") {
            Some(_) => Err(Refusal::bad("time: a host's metrics are those of now; it is for archives")),
            None => Ok(()),
        };
    }
    // What has been recorded meanwhile.
    session.context.refresh().map_err(|error| refused(&error))?;
    let Some(text) = query.get("time") else { return Ok(()) };
    let (_, last) = session.context.span().map_err(|error| refused(&error))?;
    let time = time(text, last, "time")?;
    let (mode, _) = session.context.mode();
    session.context.set_mode(mode, Some(time)).map_err(|error| refused(&error))
}

/// Whether a text stands for a time.
pub(super) fn is_time(text: &str) -> bool {
    time(text, Timestamp::new(1_000_000_000, 0), "time").is_ok()
}

fn time(text: &str, last: Timestamp, what: &str) -> Result<Timestamp, Refusal> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        let bad =
            || Refusal::bad(format!("{what}: {text} - seconds have at most nine digits behind the point"));
        return seconds(text).ok_or_else(bad);
    }
    let time = parse_moment(text, last, &Zone::utc());
    time.map_err(|error| Refusal::bad(format!("{what}: {error}")))
}

/// `S` or `S.FRACTION`.
fn seconds(text: &str) -> Option<Timestamp> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !are_digits(whole) || !are_digits(fraction) || fraction.len() > 9 {
        return None;
    }
    Some(Timestamp::new(whole.parse().ok()?, format!("{fraction:0<9}").parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_or_in_words() {
        let last = Timestamp::new(1_000_000, 0);
        let at = |text| time(text, last, "time");
        assert_eq!(at("1795386499.881955628"), Ok(Timestamp::new(1_795_386_499, 881_955_628)));
        assert_eq!(at("1795386499.5"), Ok(Timestamp::new(1_795_386_499, 500_000_000)));
        assert_eq!(at("10min"), Ok(Timestamp::new(999_400, 0)));
        assert_eq!(at("1970-01-01T00:01:00Z"), Ok(Timestamp::new(60, 0)));
        assert!(at("yesterweek").is_err() && at("").is_err() && at("1.0000000001").is_err());
    }

    #[test]
    fn places_have_a_mode_and_an_interval() {
        let read = |text| Place::read(&Query::parse(text).expect("good"));
        assert_eq!(read("").map(|place| place.mode), Ok(Mode::Interpolate { step: INTERVAL }));
        assert_eq!(
            read("interval=2sec").map(|place| place.mode),
            Ok(Mode::Interpolate { step: 2_000_000_000 })
        );
        assert_eq!(read("mode=backward").map(|place| place.mode), Ok(Mode::Backward));
        assert!(read("mode=x").is_err() && read("interval=x").is_err() && read("interval=0").is_err());
    }
}
