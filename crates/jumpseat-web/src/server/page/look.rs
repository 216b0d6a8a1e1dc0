//! What views of records look at: a host, live or recorded, and from when to when.

use std::time::SystemTime;

use super::Refused;
use super::lines::seconds;
use super::source::Source;
use crate::server::query::Query;
use crate::server::records::walk::{Walked, Window};
use crate::server::web::Web;

/// How far back views begin if nobody says.
const BACK: f64 = 900.0;
/// The longest text of a parameter.
const MAX_TEXT: usize = 8_192;

/// A host and a window.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Look {
    /// As its collector or its archives name it; nothing if it was never reached.
    pub host: Option<String>,
    /// Seconds since the epoch.
    pub start: f64,
    pub finish: f64,
    /// Whether it goes to the end: what happens meanwhile, and what the index of an archive does not know yet, is in it.
    open: bool,
}

impl Look {
    /// Reads `source`, `start` and `finish`, seconds since the epoch, or, not above 0, counted back from now, and from the end of
    /// archives.
    pub(super) fn of(web: &Web, query: &Query) -> Result<Look, Refused> {
        let source = Source::parse(query.get("source"))?;
        let now = seconds(SystemTime::now().into());
        let (host, last) = match &source {
            Source::Host(name) => {
                web.sources.allowed(Some(name))?;
                let followed = web.records.followed().iter().find(|followed| followed.name == *name);
                (followed.and_then(|followed| followed.host()).map(|host| host.to_string()), now)
            }
            Source::Archive(name) => {
                let glance =
                    web.library.find(name).ok_or_else(|| Refused::bad(format!("{name}: no such archive")))?;
                (Some(glance.label.host), seconds(glance.last))
            }
            Source::Recorded(host) => {
                let archives = web.library.all();
                let of_host = archives.iter().filter(|glance| glance.label.host == *host);
                let last = of_host.map(|glance| glance.last).max();
                let last = last.ok_or_else(|| Refused::bad(format!("{host}: no archives of this host")))?;
                (Some(host.clone()), seconds(last))
            }
        };
        let window = super::samples::window(query, -BACK)?.absolute(last);
        if window.start >= window.finish {
            return Err(Refused::bad("start: not before finish"));
        }
        let open = query.get("finish").is_none_or(|text| text.parse().is_ok_and(|back: f64| back == 0.0));
        Ok(Look { host, start: window.start, finish: window.finish, open })
    }

    /// The window in nanoseconds.
    pub(super) fn window(&self) -> Window {
        const AFTER: f64 = 5.0;
        let finish = if self.open { self.finish + AFTER } else { self.finish };
        Window { from: nanos(self.start), to: nanos(finish) }
    }

    /// Whether a host is the one that is looked at.
    pub(super) fn is(&self, host: &str) -> bool {
        self.host.as_deref() == Some(host)
    }
}

/// What is missing from an answer, in words.
pub(super) fn cut(walked: &Walked) -> Vec<String> {
    walked.cut.iter().map(|&cut| cut.to_owned()).chain(walked.problems.iter().cloned()).collect()
}

/// Nanoseconds since the epoch; what is beyond all times becomes the nearest.
pub(super) fn nanos(seconds: f64) -> i64 {
    (seconds * 1e9) as i64
}

/// Seconds of nanoseconds.
pub(super) fn secs(nanos: i64) -> f64 {
    nanos as f64 * 1e-9
}

/// A text among the parameters; empty is none.
pub(super) fn text(query: &Query, name: &str) -> Result<Option<String>, Refused> {
    match query.get(name).filter(|text| !text.is_empty()) {
        Some(text) if text.len() > MAX_TEXT => {
            Err(Refused::bad(format!("{name}: longer than {MAX_TEXT} bytes")))
        }
        text => Ok(text.map(str::to_owned)),
    }
}

/// A whole number among the parameters.
pub(super) fn whole<T: std::str::FromStr>(query: &Query, name: &str) -> Result<Option<T>, Refused> {
    let number = query.get(name).filter(|text| !text.is_empty()).map(str::parse);
    number.transpose().map_err(|_| Refused::bad(format!("{name}: expected a whole number")))
}

/// Seconds among the parameters, as nanoseconds.
pub(super) fn duration(query: &Query, name: &str) -> Result<Option<i64>, Refused> {
    let Some(text) = query.get(name).filter(|text| !text.is_empty()) else { return Ok(None) };
    let seconds = text.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0);
    let nanos = seconds.map(nanos).or_else(|| crate::server::records::duration::duration(text));
    nanos.map(Some).ok_or_else(|| Refused::bad(format!("{name}: expected a time, as 0.2 or 200ms")))
}
