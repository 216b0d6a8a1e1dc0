//! Traces, and the spans of one of them over time.

use pcp_model::time::Zone;

use super::{clock, duration};
use crate::events::Events;
use crate::screen::Role;
use crate::sheet::{Cell, Drawn, Line, Sheet, drawn, number, rest, text};
use crate::trace::{self, Placed, Trace, seconds};

/// All traces, the one that began last first.
pub(crate) fn traces<'a>(events: &Events, zone: &Zone) -> Sheet<'a> {
    let columns = vec![
        text("began", 16),
        number("took"),
        number("spans"),
        number("sources"),
        number("failed"),
        text("first span", 40),
        rest("trace"),
    ];
    let all = trace::traces(events);
    let line = |trace: &Trace| {
        let failed = trace.failed();
        let first = trace.spans.first().map(|placed| placed.span.path()).unwrap_or_default();
        let open = trace.spans.first().is_some_and(|placed| placed.span.ended.is_none());
        let took = Cell::number((!open).then(|| trace.duration()), duration);
        Line {
            key: trace.id.clone(),
            cells: vec![
                Cell::text(clock(zone, trace.begun()), Role::Dim),
                took,
                count(trace.spans.len()),
                count(trace.sources()),
                if failed > 0 { count(failed).with(Role::Bad) } else { count(0).with(Role::Dim) },
                Cell::text(first, if failed > 0 { Role::Bad } else { Role::Value }),
                Cell::text(&trace.id, Role::Dim),
            ],
        }
    };
    Sheet {
        title: "traces".to_owned(),
        notes: vec![(format!("{} of {} records", all.len(), events.newest.len()), Role::Dim)],
        columns,
        lines: all.iter().map(line).collect(),
        empty: "no spans among the records yet".to_owned(),
        newest_last: false,
    }
}

fn count<'a>(number: usize) -> Cell<'a> {
    Cell::number(Some(number as f64), |number| format!("{number:.0}"))
}

/// The spans of a trace: when each began and how long it took.
pub(crate) fn waterfall<'a>(events: &Events, id: &str) -> Sheet<'a> {
    let columns = vec![text("span", 44), number("took"), drawn("from the beginning to the end")];
    let found = trace::traces(events).into_iter().find(|trace| trace.id == id);
    let title = format!("trace {id}");
    let empty = "its records are not among the newest any more".to_owned();
    let Some(found) = found else { return Sheet { title, columns, empty, ..Sheet::default() } };
    let (begun, whole) = (found.begun(), found.duration().max(1e-9));
    let mut sources: Vec<&str> = Vec::new();
    for placed in &found.spans {
        if !sources.contains(&&*placed.span.source) {
            sources.push(&placed.span.source);
        }
    }
    let line = |Placed { depth, span }: &Placed| {
        let at = |time| (seconds(begun, time) / whole).clamp(0.0, 1.0);
        // What has not ended goes on to the end of what is known.
        let extent = Drawn::Extent(at(span.first()), span.ended.map_or(1.0, at));
        // A colour a source, as one wants to see where the trace goes from one to the other.
        let colour = sources.iter().position(|source| **source == *span.source).unwrap_or(0);
        let role = if span.failed { Role::Bad } else { Role::Bar(colour) };
        Line {
            key: format!("{}\n{}", span.source, span.id),
            cells: vec![
                Cell::text(
                    format!("{}{}", "  ".repeat(*depth), span.path()),
                    if span.failed { Role::Bad } else { Role::Plain },
                ),
                Cell::number(span.duration(), duration),
                Cell::drawn(extent, role),
            ],
        }
    };
    let mut notes = vec![
        (format!("{} spans", found.spans.len()), Role::Dim),
        (
            match found.sources() {
                1 => "1 source".to_owned(),
                n => format!("{n} sources"),
            },
            Role::Dim,
        ),
        (duration(found.duration()), Role::Value),
    ];
    if found.failed() > 0 {
        notes.push((format!("{} failed", found.failed()), Role::Bad));
    }
    Sheet { title, notes, columns, lines: found.spans.iter().map(line).collect(), empty, newest_last: false }
}

/// What one span of a trace says of itself.
pub(crate) fn fields<'a>(events: &Events, trace: &str, key: &str) -> Sheet<'a> {
    let columns = vec![text("field", 32), rest("value")];
    let all = trace::traces(events);
    let spans = all.iter().filter(|found| found.id == trace).flat_map(|found| &found.spans);
    let span = spans.map(|placed| &placed.span).find(|span| format!("{}\n{}", span.source, span.id) == key);
    let line = |(name, value): &(std::sync::Arc<str>, String)| Line {
        key: name.to_string(),
        cells: vec![Cell::text(&**name, Role::Dim), Cell::text(value, Role::Plain)],
    };
    let lines = span.map(|span| span.fields.iter().map(line).collect()).unwrap_or_default();
    let title = span.map(|span| span.path()).unwrap_or_default();
    let notes = span.map(|span| vec![(format!("id {}", span.id), Role::Dim)]).unwrap_or_default();
    Sheet { title, notes, columns, lines, empty: "it has no other fields".to_owned(), newest_last: false }
}
