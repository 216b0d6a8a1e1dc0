//! The parameters of Loki's queries, behind the `?` of a URL or in the body of a form.
//!
//! A time is nanoseconds since 1970, or seconds if it has a point or ten digits at most, or RFC 3339. A step is a duration or seconds.

use axum::body::to_bytes;
use axum::extract::Request;
use http::Method;

use super::form::Wrong;
use super::metric::Steps;
use crate::server::query::Query;
use crate::server::records::duration::duration;
use crate::server::records::walk::{Order, Window};

/// Most bytes of a form.
const MAX_FORM: usize = 256 << 10;
const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3600 * SECOND;
/// How many lines if nobody says how many, and the most.
const LINES: usize = 100;
pub(super) const MAX_LINES: usize = 5000;
/// Steps that a window has if nobody says how long one is.
const STEPS: i64 = 250;

/// The parameters of a request.
pub(super) async fn params(request: Request) -> Result<Query, Wrong> {
    let mut text = request.uri().query().unwrap_or_default().to_owned();
    if request.method() == Method::POST {
        let body = to_bytes(request.into_body(), MAX_FORM).await;
        let body = body.map_err(|_| Wrong::bad(format!("the form has more than {MAX_FORM} bytes")))?;
        let body = std::str::from_utf8(&body).map_err(|_| Wrong::bad("the form is no text"))?;
        text = format!("{text}&{body}");
    }
    Query::parse(&text).map_err(|bad| Wrong::bad(bad.to_string()))
}

/// From when to when: `start` and `end`, or `since` before the end; the last hour.
pub(super) fn window(query: &Query, now: i64) -> Result<Window, Wrong> {
    let end = time(query, "end")?.unwrap_or(now);
    let start = match (time(query, "start")?, text(query, "since")) {
        (Some(start), _) => start,
        (None, None) => end.saturating_sub(HOUR),
        (None, Some(since)) => end.saturating_sub(duration(since).ok_or_else(|| wrong("since", since))?),
    };
    match start <= end {
        true => Ok(Window { from: start, to: end }),
        false => Err(Wrong::bad("end timestamp must not be before or equal to start time")),
    }
}

/// The steps of a window.
pub(super) fn steps(query: &Query, window: Window) -> Result<Steps, Wrong> {
    let step = match text(query, "step") {
        None => (window.to.saturating_sub(window.from) / STEPS / SECOND * SECOND).max(SECOND),
        Some(text) => match text.parse::<f64>() {
            Ok(seconds) if seconds.is_finite() && seconds.abs() < i64::MAX as f64 / 1e9 => {
                (seconds * 1e9) as i64
            }
            _ => duration(text).ok_or_else(|| wrong("step", text))?,
        },
    };
    Steps::new(window.from, window.to, step).map_err(Wrong::bad)
}

/// How many lines.
pub(super) fn limit(query: &Query) -> Result<usize, Wrong> {
    let Some(text) = text(query, "limit") else { return Ok(LINES) };
    match text.parse::<i64>() {
        Ok(limit) if limit > MAX_LINES as i64 => Err(Wrong::bad(format!(
            "max entries limit per query exceeded, limit > max_entries_limit_per_query ({limit} > {MAX_LINES})"
        ))),
        Ok(limit) if limit > 0 => Ok(usize::try_from(limit).unwrap_or(LINES)),
        Ok(_) => Err(Wrong::bad("limit must be a positive value")),
        Err(_) => Err(wrong("limit", text)),
    }
}

/// Which lines come first.
pub(super) fn order(query: &Query) -> Result<Order, Wrong> {
    match text(query, "direction").map(str::to_ascii_lowercase).as_deref() {
        None | Some("backward") => Ok(Order::Newest),
        Some("forward") => Ok(Order::Oldest),
        Some(other) => Err(Wrong::bad(format!("invalid direction '{other}'"))),
    }
}

/// A time.
pub(super) fn time(query: &Query, name: &str) -> Result<Option<i64>, Wrong> {
    text(query, name).map(|text| moment(text).ok_or_else(|| wrong(name, text))).transpose()
}

/// A parameter that is not empty.
pub(super) fn text<'a>(query: &'a Query, name: &str) -> Option<&'a str> {
    query.get(name).filter(|text| !text.is_empty())
}

fn wrong(name: &str, text: &str) -> Wrong {
    let short: String = text.chars().take(40).collect();
    Wrong::bad(format!("could not parse '{short}' as {name}"))
}

fn moment(text: &str) -> Option<i64> {
    if let Ok(number) = text.parse::<i64>() {
        let digits = text.trim_start_matches('-').len();
        return if digits <= 10 { number.checked_mul(SECOND) } else { Some(number) };
    }
    match text.parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && seconds.abs() < i64::MAX as f64 / 1e9 => {
            let whole = seconds.floor();
            (whole as i64).checked_mul(SECOND)?.checked_add(((seconds - whole) * 1e9).round() as i64)
        }
        Ok(_) => None,
        Err(_) => rfc3339(text),
    }
}

/// `2026-11-24T14:30:00.5Z`, `2026-11-24T14:30:00+01:00`.
fn rfc3339(text: &str) -> Option<i64> {
    let (date, rest) = text.split_at_checked(10)?;
    let (clock, rest) = rest.strip_prefix(['T', 't', ' '])?.split_at_checked(8)?;
    let number = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<i64>().ok()).flatten()
    };
    let three = |text: &str, sign: char| -> Option<[i64; 3]> {
        let mut parts = text.split(sign).map(number);
        let all = [parts.next()??, parts.next()??, parts.next()??];
        parts.next().is_none().then_some(all)
    };
    let ([year, month, day], [hour, minute, second]) = (three(date, '-')?, three(clock, ':')?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (nanos, zone) = match rest.strip_prefix('.') {
        None => (0, rest),
        Some(rest) => {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let digits = rest[..end].get(..9.min(end)).filter(|digits| !digits.is_empty())?;
            (format!("{digits:0<9}").parse::<i64>().ok()?, &rest[end..])
        }
    };
    let offset = match zone {
        "Z" | "z" => 0,
        _ => {
            let (hours, minutes) = zone.get(1..)?.split_once(':')?;
            let seconds = (number(hours)?.min(24) * 60 + number(minutes)?.min(60)) * 60;
            match zone.as_bytes().first()? {
                b'+' => seconds,
                b'-' => -seconds,
                _ => return None,
            }
        }
    };
    // Days since 1970, of years that begin in March.
    let shifted = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset;
    seconds.checked_mul(SECOND)?.checked_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query::parse(text).expect("good pairs")
    }

    #[test]
    fn times_are_read_in_all_forms() {
        for (text, expected) in [
            ("1700000000", Some(1_700_000_000_000_000_000)),
            ("1700000000123456789", Some(1_700_000_000_123_456_789)),
            ("1700000000.5", Some(1_700_000_000_500_000_000)),
            ("2023-11-14T22:13:20Z", Some(1_700_000_000_000_000_000)),
            ("2023-11-14T23:13:20.25+01:00", Some(1_700_000_000_250_000_000)),
            ("2024-02-29T00:00:00-00:30", Some(1_709_166_600_000_000_000)),
            ("1970-01-01T00:00:00Z", Some(0)),
            ("9999-01-01T00:00:00Z", None),
            ("2023-13-14T22:13:20Z", None),
            ("2023-11-14T22:13:20", None),
            ("2023-11-14", None),
            ("NaN", None),
            ("1e300", None),
            ("-9223372036.5", None),
            ("-9223372036", Some(-9_223_372_036_000_000_000)),
            ("9223372036.9", None),
            ("-92233720368.5", None),
            ("é23-11-14T22:13:20Z", None),
            ("now", None),
        ] {
            assert_eq!(moment(text), expected, "{text}");
        }
    }

    #[test]
    fn windows_steps_and_limits() {
        let now = 10_000 * SECOND;
        assert_eq!(window(&query(""), now).expect("good"), Window { from: now - HOUR, to: now });
        assert_eq!(
            window(&query("end=9000&since=1m"), now).expect("good"),
            Window { from: 8940 * SECOND, to: 9000 * SECOND }
        );
        assert!(window(&query("start=9000&end=8000"), now).is_err());
        let long = Window { from: 0, to: 1000 * SECOND };
        let step = |text: &str| {
            steps(&query(text), long).map(|steps| (steps.step, steps.number)).map_err(|wrong| wrong.message)
        };
        assert_eq!(step(""), Ok((4 * SECOND, 251)));
        assert_eq!(step("step=2500ms"), Ok((2_500_000_000, 401)));
        assert_eq!(step("step=0.5"), Ok((500_000_000, 2001)));
        assert!(step("step=1ms").is_err_and(|told| told.starts_with("exceeded maximum resolution")));
        assert!(step("step=-1").is_err_and(|told| told.starts_with("zero or negative")));
        assert!(step("step=x").is_err_and(|told| told == "could not parse 'x' as step"));
        let most = |text: &str| limit(&query(text)).map_err(|wrong| wrong.message);
        assert_eq!((most(""), most("limit=5000")), (Ok(LINES), Ok(MAX_LINES)));
        assert!(most("limit=5001").is_err_and(|told| told.starts_with("max entries limit")));
        assert!(most("limit=0").is_err() && most("limit=x").is_err());
        assert!(order(&query("direction=sideways")).is_err());
    }
}
