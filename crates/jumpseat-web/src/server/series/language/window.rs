//! Windows: from when to when, how many samples and how far apart (`docs/pcp/webapi.md` 12); in queries, and in parameters.

use pcp_model::Timestamp;
use pcp_model::time::{Zone, parse_interval, parse_moment};

use super::QueryError;

/// What a window says. Times are in nanoseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Window {
    /// The first time, and the last one; both count.
    pub start: Option<i128>,
    pub finish: Option<i128>,
    /// Wanted distance of samples in nanoseconds; 0: all samples.
    pub interval: i128,
    /// Most samples.
    pub count: Option<usize>,
    /// Samples to leave out in front.
    pub offset: usize,
    /// Newest first: where only a count is given.
    pub newest_first: bool,
}

/// What a window can say, by the names of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parameter {
    Count,
    Offset,
    Interval,
    Start,
    Finish,
    Range,
    Align,
    Zone,
}

/// The texts of a window, before they are understood: a zone counts for all times, wherever it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Items([Option<String>; 8]);

/// Largest count: what is more is everything.
const MAX_COUNT: u64 = i32::MAX as u64;

impl Parameter {
    /// The words of queries that mean it.
    pub(super) fn of_word(word: &str) -> Option<Parameter> {
        Some(match word {
            "samples" | "count" => Parameter::Count,
            "interval" | "delta" => Parameter::Interval,
            "start" | "begin" => Parameter::Start,
            "finish" | "end" => Parameter::Finish,
            "offset" | "from" => Parameter::Offset,
            "align" | "alignment" => Parameter::Align,
            "timezone" | "tz" => Parameter::Zone,
            _ => return None,
        })
    }

    /// The parameters of requests that mean it; the first that is there counts.
    fn names(self) -> &'static [&'static str] {
        match self {
            Parameter::Count => &["samples", "count"],
            Parameter::Interval => &["interval", "delta"],
            Parameter::Start => &["start", "begin"],
            Parameter::Finish => &["finish", "end"],
            Parameter::Range => &["range"],
            Parameter::Offset => &["offset"],
            Parameter::Align => &["align"],
            Parameter::Zone => &["zone", "timezone"],
        }
    }

    /// As messages have it.
    fn title(self) -> &'static str {
        match self {
            Parameter::Count => "sample count",
            Parameter::Offset => "sample offset",
            Parameter::Interval => "time delta",
            Parameter::Start => "time start",
            Parameter::Finish => "time end",
            Parameter::Range => "time range",
            Parameter::Align => "time align",
            Parameter::Zone => "timezone",
        }
    }
}

impl Items {
    /// Takes one in.
    ///
    /// # Errors
    /// It is there already and says something else.
    pub(super) fn set(&mut self, parameter: Parameter, text: &str) -> Result<(), QueryError> {
        let place = &mut self.0[parameter as usize];
        match place {
            Some(known) if known != text => {
                let title = parameter.title();
                // pmseries tells the interval's the other way round.
                let (one, other) =
                    if parameter == Parameter::Interval { (&**known, text) } else { (text, &**known) };
                Err(QueryError(format!("Invalid second {title} requested - \"{one}\" vs \"{other}\"")))
            }
            _ => {
                *place = Some(text.to_owned());
                Ok(())
            }
        }
    }
}

impl Window {
    /// The window of a query.
    ///
    /// # Errors
    /// A text that is none of its kind, in pmseries' words.
    pub(super) fn of_query(items: &Items, now: Timestamp) -> Result<Window, QueryError> {
        Window::of(&|parameter| items.0[parameter as usize].as_deref(), now, true)
    }

    /// The window that parameters of `/series/values` say; `get` gives the first of some names that is there.
    ///
    /// # Errors
    /// A text that is none of its kind, in the server's words.
    pub(in super::super) fn of_parameters<'a>(
        get: &dyn Fn(&[&str]) -> Option<&'a str>,
        now: Timestamp,
    ) -> Result<Window, QueryError> {
        Window::of(&|parameter| get(parameter.names()), now, false)
    }

    fn of<'a>(
        get: &dyn Fn(Parameter) -> Option<&'a str>,
        now: Timestamp,
        query: bool,
    ) -> Result<Window, QueryError> {
        let zone = get(Parameter::Zone).map_or_else(Zone::local, Zone::named);
        let time = |parameter: Parameter| {
            let parsed = get(parameter).map(|text| moment(text, now, &zone)).transpose();
            let what = if query { "time" } else { parameter.title() };
            parsed.map_err(|error| {
                QueryError(format!("Cannot parse {what} with __pmParseHighResTime:\n{error}"))
            })
        };
        let length = |parameter: Parameter| {
            let parsed = get(parameter).map(parse_interval).transpose();
            let nanos = parsed.map(|length| length.map(|length| length.as_nanos() as i128));
            nanos.map_err(|error| {
                let what = parameter.title();
                QueryError(format!("Cannot parse {what} with pmParseHighResInterval:\n{error}"))
            })
        };
        let number = |parameter: Parameter| {
            let Some(text) = get(parameter) else { return Ok(None) };
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse::<u64>().ok().filter(|number| is_number && *number <= MAX_COUNT);
            let number = number.and_then(|number| usize::try_from(number).ok());
            let bad = || QueryError(format!("Invalid {} requested - {text}", parameter.title()));
            number.map(Some).ok_or_else(bad)
        };
        let (start, finish) = (time(Parameter::Start)?, time(Parameter::Finish)?);
        let (interval, range) = (length(Parameter::Interval)?, length(Parameter::Range)?);
        let (count, offset) = (number(Parameter::Count)?, number(Parameter::Offset)?);
        // Without effect, as at pmseries; but it has to be one.
        if query {
            length(Parameter::Align)?;
        } else {
            time(Parameter::Align)?;
        }
        let is_bare = start.is_none() && finish.is_none() && interval.is_none() && range.is_none();
        let count = if is_bare { count.or(Some(1)) } else { count };
        Ok(Window {
            start: start.or_else(|| range.map(|range| now.as_nanos() - range)),
            finish,
            interval: interval.unwrap_or_default(),
            count: count.filter(|count| *count > 0),
            offset: offset.unwrap_or_default(),
            newest_first: is_bare && count != Some(0),
        })
    }
}

/// A time: seconds since 1970 with a fraction, or as PCP's tools take it.
fn moment(text: &str, now: Timestamp, zone: &Zone) -> Result<i128, pcp_model::time::TimeError> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if !seconds.is_empty() && is_number(seconds) && is_number(fraction) {
        let nanos: i128 = format!("{fraction:0<9}")[..9].parse().unwrap_or_default();
        if let Ok(seconds) = seconds.parse::<i64>() {
            return Ok(i128::from(seconds) * 1_000_000_000 + nanos);
        }
    }
    parse_moment(text, now, zone).map(Timestamp::as_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp { sec: 1_262_170_800, nsec: 0 };

    fn window(pairs: &[(Parameter, &str)]) -> Result<Window, QueryError> {
        let mut items = Items::default();
        pairs.iter().try_for_each(|(parameter, text)| items.set(*parameter, text))?;
        Window::of_query(&items, NOW)
    }

    #[test]
    fn a_zone_counts_for_all_times_of_its_window() {
        let start = |zone| {
            window(&[(Parameter::Start, "2009-12-30 10:59:00"), (Parameter::Zone, zone)]).expect("good").start
        };
        assert_eq!(start("UTC"), Some(1_262_170_740_000_000_000));
        assert_eq!(start("EST5"), Some((1_262_170_740 + 5 * 3600) * 1_000_000_000));
        // A file is no zone: reading this one would not end.
        assert_eq!(start("/dev/zero"), start("UTC"));
        assert_eq!(start(":/dev/zero"), start("UTC"));
    }

    #[test]
    fn numbers_are_seconds_and_ages_are_before_now() {
        let start = |text| window(&[(Parameter::Start, text)]).expect("good").start;
        assert_eq!(start("1262170740.5"), Some(1_262_170_740_500_000_000));
        assert_eq!(start("-5minutes"), Some((NOW.sec as i128 - 300) * 1_000_000_000));
        assert_eq!(start("now"), Some(NOW.as_nanos()));
        assert!(start("-20year").is_some());
        let ranged = window(&[(Parameter::Range, "1min")]).expect("good");
        assert_eq!((ranged.start, ranged.newest_first), (Some(1_262_170_740_000_000_000), false));
    }

    #[test]
    fn only_a_count_means_the_newest() {
        let one = window(&[]).expect("good");
        assert_eq!((one.count, one.newest_first), (Some(1), true));
        let all = window(&[(Parameter::Count, "0")]).expect("good");
        assert_eq!((all.count, all.newest_first), (None, false));
        assert!(window(&[(Parameter::Count, "-1")]).is_err() && window(&[(Parameter::Offset, "x")]).is_err());
    }
}
