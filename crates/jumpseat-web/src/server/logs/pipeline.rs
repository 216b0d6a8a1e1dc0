//! A query for lines, applied to records.
//!
//! **Cost:** conditions on labels look at the record; its line and its fields are made when a stage asks for them, once.

use std::borrow::Cow;
use std::cell::OnceCell;

use super::line::{self, LABELS, Labels, METADATA};
use super::logql::{Filter, LogQuery, MatchOp, Matcher, Pattern, Quantity, Stage};
use crate::server::records::duration::duration;
use crate::server::records::record::Record;

/// A record on its way through the stages.
pub(super) struct Entry<'a> {
    record: &'a Record,
    line: OnceCell<String>,
    fields: Option<Labels>,
    dropped: Vec<&'a str>,
    kept: Option<&'a [String]>,
}

/// Whether records of a host can be among those of a query.
pub(super) fn wants_host(query: &LogQuery, host: &str) -> bool {
    query.matchers.iter().filter(|matcher| matcher.name == "host").all(|matcher| holds(matcher, host))
}

/// The record as the stages leave it, if they do.
pub(super) fn run<'a>(query: &'a LogQuery, record: &'a Record) -> Option<Entry<'a>> {
    let of_stream =
        |matcher: &Matcher| holds(matcher, &line::label(record, &matcher.name).unwrap_or_default());
    if !query.matchers.iter().all(of_stream) {
        return None;
    }
    let mut entry = Entry { record, line: OnceCell::new(), fields: None, dropped: Vec::new(), kept: None };
    for stage in &query.stages {
        let stays = match stage {
            Stage::Line { op, texts } => {
                let line = entry.line();
                let has = |text: &Pattern| match &text.regex {
                    Some(regex) => regex.is_match(line),
                    None => line.contains(&text.text),
                };
                let any = texts.iter().any(has);
                match op {
                    MatchOp::Equal | MatchOp::Match => any,
                    MatchOp::NotEqual | MatchOp::NotMatch => !any,
                }
            }
            Stage::Fields(_) => {
                entry.fields.get_or_insert_with(|| line::fields(record));
                true
            }
            Stage::Filter(filter) => entry.passes(filter),
            Stage::Drop(names) => {
                entry.dropped.extend(names.iter().map(String::as_str));
                true
            }
            Stage::Keep(names) => {
                entry.kept = Some(names);
                true
            }
        };
        if !stays {
            return None;
        }
    }
    Some(entry)
}

impl Entry<'_> {
    /// Its line.
    pub(super) fn line(&self) -> &str {
        self.line.get_or_init(|| line::line(self.record))
    }

    /// The value of a label, if it has it (still).
    pub(super) fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        if !self.has(name) {
            return None;
        }
        line::label(self.record, name)
            .or_else(|| line::metadata(self.record, name))
            .or_else(|| self.fields.as_ref()?.get(name).map(|value| Cow::Borrowed(value.as_str())))
    }

    /// Its labels: those of its stream, and its fields, if a stage asked for them.
    pub(super) fn labels(&self) -> Labels {
        let mut labels = self.stream();
        labels.extend(self.parsed());
        labels
    }

    /// Those of its stream.
    pub(super) fn stream(&self) -> Labels {
        let own = LABELS.iter().filter(|name| self.has(name));
        own.filter_map(|&name| Some((name.to_owned(), line::label(self.record, name)?.into_owned())))
            .collect()
    }

    /// Its fields, if a stage asked for them.
    pub(super) fn parsed(&self) -> Labels {
        let fields = self.fields.iter().flatten();
        fields.filter(|(name, _)| self.has(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// What else belongs to it.
    pub(super) fn metadata(&self) -> Labels {
        let own = METADATA.iter().filter(|name| self.has(name));
        own.filter_map(|&name| Some((name.to_owned(), line::metadata(self.record, name)?.into_owned())))
            .collect()
    }

    fn has(&self, name: &str) -> bool {
        !self.dropped.contains(&name) && self.kept.is_none_or(|kept| kept.iter().any(|own| own == name))
    }

    fn passes(&self, filter: &Filter) -> bool {
        match filter {
            // One that it does not have is empty.
            Filter::Text(matcher) => holds(matcher, &self.get(&matcher.name).unwrap_or_default()),
            Filter::Number { name, op, value } => {
                let own = self.get(name);
                let numbers = own.and_then(|own| match *value {
                    Quantity::Number(number) => Some((own.trim().parse().ok()?, number)),
                    Quantity::Duration(nanos) => Some((duration(own.trim())? as f64, nanos as f64)),
                    Quantity::Bytes(bytes) => Some((own.trim().parse().ok()?, bytes)),
                });
                numbers.is_some_and(|(own, wanted)| op.holds(own, wanted))
            }
            Filter::And(left, right) => self.passes(left) && self.passes(right),
            Filter::Or(left, right) => self.passes(left) || self.passes(right),
        }
    }
}

fn holds(matcher: &Matcher, value: &str) -> bool {
    let is = match &matcher.value.regex {
        Some(regex) => regex.is_match(value),
        None => matcher.value.text == value,
    };
    match matcher.op {
        MatchOp::Equal | MatchOp::Match => is,
        MatchOp::NotEqual | MatchOp::NotMatch => !is,
    }
}

#[cfg(test)]
mod tests {
    use pcp_event::EventFlags;

    use super::super::logql::parse::parse_log;
    use super::*;
    use crate::server::records::record::tests::{origin, record};

    #[test]
    fn stages_keep_and_drop() {
        let origin = origin("web1", "app");
        let fields = [
            ("type", "login"),
            ("severity", "error"),
            ("user", "ann"),
            ("took", "250ms"),
            ("n", "7"),
            ("trace_id", "t1"),
            ("message", "no such door"),
        ];
        let record = record(&origin, 0, EventFlags::POINT, &fields);
        for (query, expected) in [
            ("{}", true),
            (r#"{host="web1",source=~"a.p",type!="x",level="error"}"#, true),
            (r#"{host=~"web"}"#, false),
            (r#"{nothing=""}"#, true),
            (r#"{nothing=~".+"}"#, false),
            (r#"{} |= "door" != "window" |~ "n=\\d" !~ "^x""#, true),
            (r#"{} |= "window" or "door""#, true),
            (r#"{} != "window" or "door""#, false),
            (r#"{} | json | user="ann" and n > 6 and took < 1s"#, true),
            (r#"{} | json | user="bob" or (n == 7, took>=250ms)"#, true),
            (r#"{} | logfmt | n > 7"#, false),
            (r#"{} | logfmt | user > 7"#, false),
            (r#"{} | user="ann""#, false),
            (r#"{} | trace_id="t1" | level=~"err.*" | __error__="""#, true),
            (r#"{} | drop level | level="error""#, false),
            (r#"{} | json | keep user | user="ann" and level="""#, true),
        ] {
            let query = parse_log(query).unwrap_or_else(|error| panic!("{query}: {error}"));
            assert_eq!(run(&query, &record).is_some(), expected, "{query}");
        }
        let query = parse_log("{} | json | drop host, metric, took").expect("good");
        let entry = run(&query, &record).expect("stays");
        let names = |labels: Labels| labels.into_keys().collect::<Vec<_>>().join(" ");
        assert_eq!(names(entry.stream()), "level severity source type");
        assert_eq!(names(entry.parsed()), "message n severity_extracted type_extracted user");
        assert_eq!(names(entry.metadata()), "trace_id");
        assert_eq!(
            (wants_host(&query, "x"), wants_host(&parse_log("{host=\"y\"}").expect("good"), "x")),
            (true, false)
        );
    }
}
