//! Which fields lines have, and with which values: what Grafana's lists of fields (its *Logs Drilldown*) ask for.
//!
//! Looked at are the newest lines of a query, so many as the request says. Their fields are those that `| logfmt` gives, by the same
//! names, so that a condition on one finds it; and structured metadata, which takes no parser.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;

use super::ask::text;
use super::form::Wrong;
use super::line::LABELS;
use super::logql::{LogQuery, parse::parse_log};
use super::pipeline;
use crate::server::query::Query;
use crate::server::records::duration::duration;
use crate::server::records::record::Record;

/// Most fields, and most values of one; as many if nobody says how many.
const MOST: usize = 1000;

/// The fields of lines, each with its values.
#[derive(Default)]
pub(super) struct Fields {
    parsed: BTreeMap<String, BTreeSet<String>>,
    metadata: BTreeMap<String, BTreeSet<String>>,
}

/// What is told of fields.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Form {
    fields: Vec<Field>,
    limit: usize,
}

#[derive(Debug, PartialEq, Serialize)]
struct Field {
    label: String,
    #[serde(rename = "type")]
    kind: &'static str,
    cardinality: usize,
    parsers: Option<[&'static str; 1]>,
}

/// What is told of the values of a field.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct ValuesForm {
    values: Vec<String>,
    limit: usize,
}

/// What is told of labels.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LabelsForm {
    detected_labels: Vec<Label>,
}

#[derive(Serialize)]
struct Label {
    label: &'static str,
    cardinality: usize,
}

/// The query whose lines are looked at.
///
/// # Errors
/// It is none for lines.
pub(super) fn query(params: &Query) -> Result<LogQuery, Wrong> {
    let query = text(params, "query").unwrap_or("{}");
    // Told of as it was written.
    parse_log(query)?;
    // On a line of its own: the last one may end with a comment.
    Ok(parse_log(&format!("{query}\n| logfmt"))?)
}

/// How many lines are looked at, and how much is told.
///
/// # Errors
/// Numbers that are none.
pub(super) fn limits(params: &Query) -> Result<(usize, usize), Wrong> {
    let number = |name: &str| match text(params, name) {
        None => Ok(MOST),
        Some(text) => match text.parse::<usize>() {
            Ok(0) | Err(_) => Err(Wrong::bad(format!("could not parse '{text}' as {name}"))),
            Ok(number) => Ok(number.min(MOST)),
        },
    };
    Ok((number("line_limit")?, number("limit")?))
}

impl Fields {
    /// Those of records that a query wants.
    pub(super) fn of(query: &LogQuery, records: &[Arc<Record>]) -> Fields {
        let mut fields = Fields::default();
        for entry in records.iter().filter_map(|record| pipeline::run(query, record)) {
            for (all, of_line) in
                [(&mut fields.parsed, entry.parsed()), (&mut fields.metadata, entry.metadata())]
            {
                for (name, value) in of_line {
                    if all.len() < MOST || all.contains_key(&name) {
                        all.entry(name).or_default().insert(value);
                    }
                }
            }
        }
        fields
    }

    /// All of them, as many as are wanted.
    pub(super) fn form(self, limit: usize) -> Form {
        let field = |(label, values): (String, BTreeSet<String>), parsers| Field {
            label,
            kind: kind(&values),
            cardinality: values.len(),
            parsers,
        };
        let Fields { parsed, mut metadata } = self;
        metadata.retain(|name, _| !parsed.contains_key(name));
        let parsed = parsed.into_iter().map(|of| field(of, Some(["logfmt"])));
        let fields = parsed.chain(metadata.into_iter().map(|of| field(of, None))).take(limit).collect();
        Form { fields, limit }
    }

    /// The values of one.
    pub(super) fn values(mut self, name: &str, limit: usize) -> ValuesForm {
        let values = self.parsed.remove(name).or_else(|| self.metadata.remove(name)).unwrap_or_default();
        ValuesForm { values: values.into_iter().take(limit).collect(), limit }
    }
}

impl LabelsForm {
    /// The labels of streams, and how many values each has.
    pub(super) fn of(streams: &BTreeSet<super::line::Labels>) -> LabelsForm {
        let of = |&label: &&'static str| {
            let values: BTreeSet<&String> = streams.iter().filter_map(|labels| labels.get(label)).collect();
            (!values.is_empty()).then_some(Label { label, cardinality: values.len() })
        };
        LabelsForm { detected_labels: LABELS.iter().filter_map(of).collect() }
    }
}

/// What all values are.
fn kind(values: &BTreeSet<String>) -> &'static str {
    let all = |is: fn(&str) -> bool| values.iter().all(|value| is(value));
    match () {
        () if all(|value| value.parse::<i64>().is_ok()) => "int",
        () if all(|value| value.parse::<f64>().is_ok()) => "float",
        () if all(|value| value == "true" || value == "false") => "boolean",
        () if all(|value| duration(value).is_some()) => "duration",
        () => "string",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_tell_what_a_field_is() {
        for (values, expected) in [
            (&["1", "-2"][..], "int"),
            (&["1", "2.5"], "float"),
            (&["true", "false"], "boolean"),
            (&["250ms", "1.5s"], "duration"),
            (&["1", "x"], "string"),
        ] {
            let values = values.iter().map(|&value| value.to_owned()).collect();
            assert_eq!(kind(&values), expected, "{values:?}");
        }
    }

    #[test]
    fn a_comment_at_the_end_leaves_the_parser_out_of_it() {
        let of = |text: &str| {
            query(&Query::parse(text).expect("good pairs"))
                .map_err(|wrong| wrong.message)
                .map(|query| query.stages)
        };
        let plain = of("query={source=\"app\"}").expect("a query");
        assert_eq!(plain.len(), 1);
        assert_eq!(of("query={source=\"app\"}%20%23%20mine").as_ref(), Ok(&plain));
    }

    #[test]
    fn limits_are_numbers_and_have_a_limit() {
        let of = |text: &str| limits(&Query::parse(text).expect("good pairs")).map_err(|wrong| wrong.message);
        assert_eq!(of(""), Ok((MOST, MOST)));
        assert_eq!(of("line_limit=10&limit=99999999"), Ok((10, MOST)));
        assert!(of("limit=0").is_err_and(|told| told == "could not parse '0' as limit"));
        assert!(of("line_limit=x").is_err());
    }
}
