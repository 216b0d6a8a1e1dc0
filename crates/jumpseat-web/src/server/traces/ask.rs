//! The parameters of Jaeger's queries. Times are microseconds since 1970, durations as Go writes them.

use std::collections::BTreeMap;
use std::time::SystemTime;

use pcp_model::Timestamp;

use super::form::Wrong;
use crate::server::query::Query;
use crate::server::records::duration::duration;
use crate::server::records::read::nanos;
use crate::server::records::walk::Window;

/// How many traces are given if nobody says how many, and the most.
const TRACES: usize = 100;
pub(super) const MAX_TRACES: usize = 1500;
/// How far back a search goes if nobody says how far.
const LOOKBACK: i64 = 2 * 24 * 3600 * 1_000_000_000;
/// Most tags to search for.
const MAX_TAGS: usize = 64;

/// Tags to search for: values as text.
pub(super) type Tags = BTreeMap<String, String>;

/// What is searched for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Search {
    pub service: Option<String>,
    pub operation: Option<String>,
    pub window: Window,
    pub tags: Tags,
    /// Of one span, in nanoseconds.
    pub least: Option<i64>,
    pub most: Option<i64>,
    /// How many traces.
    pub limit: usize,
}

/// The parameters behind the `?` of a URL.
pub(super) fn params(text: Option<String>) -> Result<Query, Wrong> {
    Query::parse(text.as_deref().unwrap_or_default()).map_err(|bad| Wrong::bad(bad.to_string()))
}

/// Now, in nanoseconds since 1970.
pub(super) fn now() -> i64 {
    nanos(Timestamp::from(SystemTime::now()))
}

/// The window that `start` and `end` name; `None` if neither does.
pub(super) fn window(query: &Query) -> Result<Option<Window>, Wrong> {
    let (start, end) = (micros(query, "start")?, micros(query, "end")?);
    if start.is_none() && end.is_none() {
        return Ok(None);
    }
    let window =
        Window { from: start.unwrap_or(i64::MIN), to: end.map_or(i64::MAX, |end| end.saturating_add(1)) };
    check(window).map(Some)
}

/// The window of a question for dependencies: until `endTs`, from `lookback` before on, in milliseconds.
pub(super) fn dependencies(query: &Query) -> Result<Window, Wrong> {
    let millis = |name| -> Result<Option<i64>, Wrong> {
        let millis: Option<i64> = number(query, name)?;
        Ok(millis.map(|millis| millis.saturating_mul(1_000_000)))
    };
    let end = millis("endTs")?.ok_or_else(|| Wrong::bad("unable to parse param 'endTs': it is not there"))?;
    let lookback = millis("lookback")?.unwrap_or(LOOKBACK / 2);
    check(Window { from: end.saturating_sub(lookback), to: end.saturating_add(1) })
}

impl Search {
    /// What parameters say.
    pub(super) fn of(query: &Query) -> Result<Search, Wrong> {
        let text = |name| query.get(name).filter(|text| !text.is_empty());
        let service = text("service").ok_or_else(|| Wrong::bad("parameter 'service' is required"))?;
        let end = micros(query, "end")?.unwrap_or_else(now);
        let start = match (micros(query, "start")?, text("lookback")) {
            (Some(start), _) => start,
            (None, None | Some("custom")) => end.saturating_sub(LOOKBACK),
            (None, Some(lookback)) => {
                let back = duration(lookback).ok_or_else(|| wrong("lookback", lookback))?;
                end.saturating_sub(back)
            }
        };
        let window = check(Window { from: start, to: end.saturating_add(1) })?;
        let long = |name| match text(name) {
            None => Ok(None),
            Some(text) => duration(text).map(Some).ok_or_else(|| wrong(name, text)),
        };
        let (least, most) = (long("minDuration")?, long("maxDuration")?);
        if let (Some(least), Some(most)) = (least, most)
            && least > most
        {
            return Err(Wrong::bad("'maxDuration' should be greater than 'minDuration'"));
        }
        let limit = match number::<i64>(query, "limit")? {
            None => TRACES,
            Some(limit) if limit > 0 => usize::try_from(limit).unwrap_or(usize::MAX).min(MAX_TRACES),
            Some(limit) => return Err(wrong("limit", &limit.to_string())),
        };
        // Grafana and Jaeger's page send `all` for any.
        let operation = text("operation").filter(|operation| *operation != "all");
        Ok(Search {
            service: Some(service.to_owned()),
            operation: operation.map(str::to_owned),
            window,
            tags: tags(query)?,
            least,
            most,
            limit,
        })
    }
}

/// The tags: `tags` as a JSON object or in logfmt, `tag=key:value` once for each.
fn tags(query: &Query) -> Result<Tags, Wrong> {
    let mut tags = Tags::new();
    for pair in query.all("tag") {
        let (key, value) = pair.split_once(':').ok_or_else(|| {
            Wrong::bad(format!("malformed 'tag' parameter, expecting key:value, received: {pair}"))
        })?;
        tags.insert(key.to_owned(), value.to_owned());
    }
    for text in query.all("tags").filter(|text| !text.is_empty()) {
        if text.trim_start().starts_with('{') {
            let object: BTreeMap<String, serde_json::Value> =
                serde_json::from_str(text).map_err(|error| {
                    Wrong::bad(format!("malformed 'tags' parameter, cannot unmarshal JSON: {error}"))
                })?;
            for (key, value) in object {
                let value = match value {
                    serde_json::Value::String(text) => text,
                    other @ (serde_json::Value::Bool(_) | serde_json::Value::Number(_)) => other.to_string(),
                    _ => {
                        return Err(Wrong::bad(format!(
                            "malformed 'tags' parameter: the value of {key} is no text"
                        )));
                    }
                };
                tags.insert(key, value);
            }
        } else {
            logfmt(text, &mut tags)?;
        }
    }
    if tags.len() > MAX_TAGS {
        return Err(Wrong::bad(format!("more than {MAX_TAGS} tags")));
    }
    Ok(tags)
}

/// `key=value key="value with blanks"`.
fn logfmt(text: &str, tags: &mut Tags) -> Result<(), Wrong> {
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let malformed =
            || Wrong::bad(format!("malformed 'tags' parameter, expecting key=value, received: {rest}"));
        let (key, behind) = rest.split_once('=').ok_or_else(malformed)?;
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err(malformed());
        }
        let (value, behind) = match behind.strip_prefix('"') {
            None => {
                let end = behind.find(char::is_whitespace).unwrap_or(behind.len());
                (behind[..end].to_owned(), &behind[end..])
            }
            Some(quoted) => {
                let (mut value, mut escaped, mut end) = (String::new(), false, None);
                for (at, c) in quoted.char_indices() {
                    match c {
                        _ if escaped => {
                            value.push(c);
                            escaped = false;
                        }
                        '\\' => escaped = true,
                        '"' => {
                            end = Some(at + 1);
                            break;
                        }
                        c => value.push(c),
                    }
                }
                (value, &quoted[end.ok_or_else(malformed)?..])
            }
        };
        tags.insert(key.to_owned(), value);
        rest = behind.trim_start();
    }
    Ok(())
}

fn check(window: Window) -> Result<Window, Wrong> {
    match window.from < window.to {
        true => Ok(window),
        false => Err(Wrong::bad("the start is behind the end")),
    }
}

fn micros(query: &Query, name: &str) -> Result<Option<i64>, Wrong> {
    let micros: Option<i64> = number(query, name)?;
    Ok(micros.map(|micros| micros.saturating_mul(1000)))
}

fn number<T: std::str::FromStr>(query: &Query, name: &str) -> Result<Option<T>, Wrong> {
    let Some(text) = query.get(name).filter(|text| !text.is_empty()) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| wrong(name, text))
}

fn wrong(name: &str, text: &str) -> Wrong {
    Wrong::bad(format!("unable to parse param '{name}': {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(text: &str) -> Result<Search, String> {
        let query = params(Some(text.to_owned())).expect("good pairs");
        Search::of(&query).map_err(|wrong| wrong.message)
    }

    #[test]
    fn searches_are_read() {
        let all = search(
            "service=shop&operation=all&start=1000&end=2000&minDuration=1.5ms&maxDuration=2s&limit=20&\
             tags=%7B%22error%22%3A%22true%22%2C%22http.status_code%22%3A500%7D&tag=a:b:c&lookback=custom",
        )
        .expect("good");
        assert_eq!(all.window, Window { from: 1_000_000, to: 2_000_001 });
        assert_eq!((all.operation, all.limit), (None, 20));
        assert_eq!((all.least, all.most), (Some(1_500_000), Some(2_000_000_000)));
        let tags: Vec<_> = all.tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(tags, ["a=b:c", "error=true", "http.status_code=500"]);
        let logfmt =
            search("service=s&tags=error%3Dtrue%20msg%3D%22a%20%5C%22b%22&end=5000000000&lookback=1h")
                .expect("good");
        assert_eq!(logfmt.tags.get("msg").map(String::as_str), Some("a \"b"));
        assert_eq!(logfmt.window.to - logfmt.window.from, 3_600_000_000_001);
        assert_eq!(search("service=s&limit=99999999").expect("good").limit, MAX_TRACES);
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (text, why) in [
            ("", "parameter 'service' is required"),
            ("service=s&start=yesterday", "unable to parse param 'start': \"yesterday\""),
            ("service=s&start=9&end=1", "the start is behind the end"),
            ("service=s&limit=-1", "unable to parse param 'limit': \"-1\""),
            ("service=s&minDuration=1", "unable to parse param 'minDuration': \"1\""),
            ("service=s&minDuration=2s&maxDuration=1s", "'maxDuration' should be greater"),
            ("service=s&tags={", "malformed 'tags' parameter, cannot unmarshal JSON"),
            ("service=s&tags=%7B%22a%22:[]%7D", "malformed 'tags' parameter: the value of a"),
            ("service=s&tags=a%3D%22", "malformed 'tags' parameter, expecting key=value"),
            ("service=s&tag=a", "malformed 'tag' parameter"),
            ("service=s&lookback=long", "unable to parse param 'lookback'"),
        ] {
            let told = search(text).expect_err(text);
            assert!(told.starts_with(why), "{text}: {told}");
        }
    }
}
