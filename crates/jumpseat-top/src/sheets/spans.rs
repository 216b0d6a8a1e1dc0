//! Spans by name: how many, how fast, how often they fail; and of one of them the histogram and the slowest.

use super::{clock, duration, joined};
use crate::measure::plain;
use crate::model::{Metric, Model, Row};
use crate::screen::Role;
use crate::sheet::{Cell, Drawn, Line, Sheet, drawn, number, rest, text};
use crate::trace::{self, Span};
use pcp_model::Inst;
use pcp_model::time::Zone;

/// Examples that are listed.
const EXAMPLES: usize = 200;

/// All spans, the busiest first.
pub(crate) fn spans(model: &Model) -> Sheet<'_> {
    let columns = vec![
        text("span", 40),
        number("count"),
        number("rate/s"),
        number("errors"),
        number("failing"),
        number("p50"),
        number("p95"),
        number("p99"),
        drawn("rate"),
    ];
    let empty = match model.background("jumpseat.span.count").and_then(|metric| metric.error.as_deref()) {
        Some(error) => format!("no spans here: jumpseat.span.count: {error}"),
        None => "no spans yet".to_owned(),
    };
    let mut rows: Vec<(Inst, &Row)> =
        of(model, "count").map(|m| m.rows.iter().map(|(i, r)| (*i, r)).collect()).unwrap_or_default();
    let rate = |row: &Row| row.cell.last.unwrap_or(0.0);
    rows.sort_by(|(_, a), (_, b)| rate(b).total_cmp(&rate(a)).then_with(|| a.name.cmp(&b.name)));
    let lines: Vec<Line<'_>> = rows.into_iter().map(|(inst, row)| line(model, inst, row)).collect();
    let notes = vec![(format!("{} spans", lines.len()), Role::Dim)];
    Sheet { title: "spans".to_owned(), notes, columns, lines, empty, newest_last: false }
}

fn line<'a>(model: &'a Model, inst: Inst, row: &'a Row) -> Line<'a> {
    let find = |name: &str| of(model, name).and_then(|metric| metric.rows.get(&inst));
    let errors = find("errors");
    let errors_now = errors.and_then(|row| row.cell.last).unwrap_or(0.0);
    let failing = row.cell.last.filter(|rate| *rate > 0.0).map(|rate| errors_now / rate);
    let quantile = |name: &str| {
        // In nanoseconds; the model has it in seconds.
        let value = find(name).filter(|row| row.cell.age == 0).and_then(|row| row.cell.last);
        Cell::number(value, duration)
    };
    let bad = |cell: Cell<'a>, bad: bool| if bad { cell.with(Role::Bad) } else { cell };
    Line {
        key: row.name.to_string(),
        cells: vec![
            Cell::text(&*row.name, Role::Plain),
            Cell::number(row.raw(), |count| format!("{count:.0}")).with(Role::Plain),
            Cell::number(row.cell.last, plain),
            bad(
                Cell::number(errors.and_then(Row::raw), |count| format!("{count:.0}")).with(Role::Plain),
                errors_now > 0.0,
            ),
            bad(Cell::number(failing, |share| format!("{:.0}%", share * 100.0)), errors_now > 0.0),
            quantile("p50"),
            quantile("p95"),
            quantile("p99"),
            Cell::drawn(
                Drawn::Bars(&row.cell.series),
                if errors_now > 0.0 { Role::Bad } else { Role::Bar(0) },
            ),
        ],
    }
}

fn of<'a>(model: &'a Model, name: &str) -> Option<&'a Metric> {
    model.background(&format!("jumpseat.span.{name}"))
}

/// The durations of a span, by bucket, from the shortest that there was to the longest.
pub(crate) fn histogram<'a>(model: &Model, span: &str) -> Sheet<'a> {
    let columns = vec![text("below", 10), number("spans"), drawn("share of the largest")];
    let rows = of(model, "histogram").map(|metric| metric.rows.values()).into_iter().flatten();
    let mut buckets: Vec<(f64, String, f64)> = rows
        .filter_map(|row| {
            let bound = row.name.strip_prefix(span)?.strip_prefix('/')?;
            Some((bound_of(bound)?, bound.to_owned(), row.raw()?))
        })
        .collect();
    buckets.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
    // The empty ones at both ends say nothing.
    let first = buckets.iter().position(|&(_, _, count)| count > 0.0).unwrap_or(buckets.len());
    let last = buckets.iter().rposition(|&(_, _, count)| count > 0.0).map_or(first, |last| last + 1);
    let shown = buckets.get(first..last).unwrap_or_default();
    let most = shown.iter().map(|&(_, _, count)| count).fold(0.0, f64::max);
    let line = |(_, bound, count): &(f64, String, f64)| Line {
        key: bound.clone(),
        cells: vec![
            Cell::text(bound, Role::Plain),
            Cell::number(Some(*count), |count| format!("{count:.0}")),
            Cell::drawn(
                if *count > 0.0 { Drawn::Extent(0.0, count / most.max(1.0)) } else { Drawn::Nothing },
                Role::Bar(1),
            ),
        ],
    };
    let lines = shown.iter().map(line).collect();
    let empty = "no span of this name has ended yet".to_owned();
    let notes = vec![("durations".to_owned(), Role::Dim)];
    Sheet { title: span.to_owned(), notes, columns, lines, empty, newest_last: false }
}

/// The upper end of a bucket, in seconds: "300us"; what has no number is the last.
fn bound_of(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (value, unit) = text.split_at_checked(end)?;
    let Ok(value) = value.parse::<f64>() else { return Some(f64::INFINITY) };
    let scale = match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        _ => return None,
    };
    Some(value * scale)
}

/// The slowest of a span among the records at hand.
pub(crate) fn examples<'a>(model: &Model, span: &str, zone: &Zone) -> Sheet<'a> {
    let columns = vec![number("took"), text("began", 16), text("id", 20), rest("fields")];
    let mut found: Vec<(f64, Span)> = trace::spans(&model.events)
        .into_iter()
        .filter(|example| example.path() == span)
        .filter_map(|example| Some((example.duration()?, example)))
        .collect();
    found.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    found.truncate(EXAMPLES);
    let line = |(took, example): (f64, Span)| {
        let role = if example.failed { Role::Bad } else { Role::Value };
        let fields = example.fields.iter().map(|(name, value)| (&**name, value.as_str()));
        Line {
            key: format!("{}\n{}", example.trace.as_deref().unwrap_or_default(), example.id),
            cells: vec![
                Cell::number(Some(took), duration).with(role),
                Cell::text(clock(zone, example.first()), Role::Dim),
                Cell::text(&example.id, Role::Dim),
                Cell::text(joined(fields), Role::Plain),
            ],
        }
    };
    Sheet {
        title: "slowest examples".to_owned(),
        notes: vec![(format!("{} among {} records", found.len(), model.events.newest.len()), Role::Dim)],
        columns,
        lines: found.into_iter().map(line).collect(),
        empty: "no whole span of this name among the records so far".to_owned(),
        newest_last: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_buckets_are_in_order() {
        assert_eq!(bound_of("300us"), Some(300.0 * 1e-6));
        assert!(bound_of("1.5ms") < bound_of("2ms") && bound_of("900ms") < bound_of("1s"));
        assert_eq!(bound_of("inf"), Some(f64::INFINITY));
        assert_eq!(bound_of("3 parsecs"), None);
    }
}
