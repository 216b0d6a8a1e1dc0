//! Time windows: `pmParseTimeWindow(3)` (`docs/pcp/tools.md` 2.3).

use super::instant::parse_instant;
use super::{TimeError, Zone, parse_interval};
use crate::Timestamp;

/// The arguments of the options `-S`, `-T`, `-A` and `-O`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Switches<'a> {
    /// `-S`.
    pub start: Option<&'a str>,
    /// `-T`.
    pub finish: Option<&'a str>,
    /// `-A`.
    pub align: Option<&'a str>,
    /// `-O`.
    pub origin: Option<&'a str>,
}

/// What the arguments refer to: the extent of an archive, or from now on without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// First time of the archive, or the current time.
    pub start: Timestamp,
    /// Last time of the archive, or [`Reference::FOREVER`].
    pub end: Timestamp,
    /// The current time, which dates such as `yesterday` are about.
    pub now: Timestamp,
}

impl Reference {
    /// The end of a window that has none.
    pub const FOREVER: Timestamp = Timestamp { sec: i64::MAX, nsec: 0 };

    /// From now on.
    pub const fn live(now: Timestamp) -> Reference {
        Reference { start: now, end: Reference::FOREVER, now }
    }

    /// The end, if there is one.
    pub fn finite_end(&self) -> Option<Timestamp> {
        (self.end.sec != i64::MAX).then_some(self.end)
    }
}

/// A time window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its first instant. It may be after the end: then the window is empty.
    pub start: Timestamp,
    /// Its last instant, or [`Reference::FOREVER`].
    pub end: Timestamp,
    /// The instant of the first sample, from start to end.
    pub origin: Timestamp,
    /// Whether the alignment asked for could be had. If not, the window is as without.
    pub aligned: bool,
}

impl Window {
    /// The end, if there is one.
    pub fn finite_end(&self) -> Option<Timestamp> {
        (self.end.sec != Reference::FOREVER.sec).then_some(self.end)
    }
}

/// The window that the arguments select.
///
/// # Errors
/// The first argument that is wrong, in the words of PCP.
pub fn parse_window(
    switches: &Switches<'_>,
    reference: &Reference,
    zone: &Zone,
) -> Result<Window, TimeError> {
    let mut window =
        Window { start: reference.start, end: reference.end, origin: reference.start, aligned: true };
    if let Some(text) = switches.start {
        window.start = parse_instant(text, reference, zone)?.max(reference.start);
    }
    let mut grid = None;
    if let Some(text) = switches.align {
        let nanos = parse_interval(text)?.as_nanos() as i128;
        if nanos == 0 {
            let what = "alignment specified by -A switch could not be applied";
            return Err(TimeError { text: text.to_owned(), at: 0, what });
        }
        grid = Some(nanos);
        let up = aligned_up(window.start, nanos);
        window.aligned = (reference.start..=reference.end).contains(&up);
        if window.aligned {
            window.start = up;
        }
    }
    let within = |window: &Window| Reference { start: window.start, end: window.end, now: reference.now };
    if let Some(text) = switches.finish {
        window.end = parse_instant(text, &within(&window), zone)?.min(reference.end);
    }
    window.origin = window.start;
    if let Some(text) = switches.origin {
        let origin = parse_instant(text, &within(&window), zone)?;
        // Not `clamp`: the window may be empty, and the start counts for more then.
        let origin = if origin < window.start { window.start } else { origin.min(window.end) };
        window.origin = match grid {
            Some(nanos) => {
                let up = aligned_up(origin, nanos);
                let fit = if up > window.end { Timestamp::from_nanos(up.as_nanos() - nanos) } else { up };
                if fit < window.start { origin } else { fit }
            }
            None => origin,
        };
    }
    Ok(window)
}

/// The next multiple of an interval since the epoch.
fn aligned_up(time: Timestamp, nanos: i128) -> Timestamp {
    let time = time.as_nanos();
    let up = time + (-time).rem_euclid(nanos);
    if up > Reference::FOREVER.as_nanos() { Reference::FOREVER } else { Timestamp::from_nanos(up) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the specification: an archive of one hour that starts a quarter past 1000000000.
    #[test]
    fn windows_of_an_archive() {
        let at = |sec: i32, nsec: u32| Timestamp { sec: 1_000_000_000 + i64::from(sec), nsec };
        let (first, last) = (at(0, 250_000_000), at(3_600, 750_000_000));
        let reference = Reference { start: first, end: last, now: at(800_000_000, 0) };
        let check = |[start, finish, align, origin]: [&str; 4], expected: [Timestamp; 3]| {
            fn given(text: &str) -> Option<&str> {
                (!text.is_empty()).then_some(text)
            }
            let switches = Switches {
                start: given(start),
                finish: given(finish),
                align: given(align),
                origin: given(origin),
            };
            let window = parse_window(&switches, &reference, &Zone::utc()).unwrap();
            assert_eq!([window.start, window.end, window.origin], expected, "{switches:?}");
        };
        let quarter = |sec| at(sec, 250_000_000);
        check(["10min", "", "", ""], [quarter(600), last, quarter(600)]);
        check(["", "-10min", "", ""], [first, at(3_000, 750_000_000), first]);
        check(["@02:00", "+5min", "", ""], [at(800, 0), at(1_100, 0), at(800, 0)]);
        check(["", "", "10min", ""], [at(200, 0), last, at(200, 0)]);
        check(["", "", "1min", "5min"], [at(20, 0), last, at(320, 0)]);
        check(["", "", "", "-1min"], [first, last, at(3_540, 750_000_000)]);
        check(["5 minutes ago", "", "", ""], [at(3_300, 0), last, at(3_300, 0)]);
        check(["@02:10:11 PM", "", "", ""], [at(44_611, 0), last, last.max(at(44_611, 0))]);
        check(["2h", "", "", ""], [quarter(7_200), last, quarter(7_200)]);
        // Empty: before both ends, and behind.
        check(["2h", "", "", "-10"], [quarter(7_200), last, quarter(7_200)]);
        check(["2h", "", "", "10"], [quarter(7_200), last, last]);
    }

    #[test]
    fn wrong_arguments_are_shown() {
        let reference = Reference::live(Timestamp { sec: 1_795_000_000, nsec: 0 });
        let parse = |switches: Switches<'_>| parse_window(&switches, &reference, &Zone::utc());
        let align = parse(Switches { align: Some("0"), ..Switches::default() }).unwrap_err();
        assert_eq!(align.to_string(), "0\n^ -- alignment specified by -A switch could not be applied\n");
        let finish = parse(Switches { finish: Some("@10:00 foo"), ..Switches::default() }).unwrap_err();
        assert_eq!(finish.to_string(), "10:00 foo\n      ^ -- unexpected value\n");
    }
}
