//! Records, the newest last, and all that one of them says.

use jumpseat_tools::Emphasis;
use pcp_event::EventFlags;
use pcp_model::time::Zone;

use super::{clock, joined};
use crate::events::{Events, Shown};
use crate::measure::duration;
use crate::screen::Role;
use crate::sheet::{Cell, Line, Sheet, rest, text};
use crate::sift::Sift;

/// Records that are listed: the newest of those that pass.
const LISTED: usize = 2_000;

/// The records that pass.
pub(crate) fn events<'a>(events: &Events, sift: &Sift, zone: &Zone) -> Sheet<'a> {
    let columns = vec![text("time", 16), text("source", 16), text("", 2), text("type", 24), rest("fields")];
    let mut chosen: Vec<(u64, &Shown)> =
        events.numbered().rev().filter(|(_, shown)| sift.passes(shown)).take(LISTED).collect();
    chosen.reverse();
    let count = match sift.is_open() {
        true => format!("{} records", events.newest.len()),
        false => format!("{} of {} records", chosen.len(), events.newest.len()),
    };
    let missed: u64 = events.streams.values().map(|stream| stream.missed).sum();
    let mut notes = vec![(count, Role::Dim)];
    if missed > 0 {
        notes.push((format!("{missed} missed"), Role::Bad));
    }
    let empty = match events.newest.is_empty() {
        true => "no records yet",
        false => "no record passes: / and f change what is searched for, Esc shows all",
    };
    Sheet {
        title: "events".to_owned(),
        notes,
        columns,
        lines: chosen.into_iter().map(|(number, shown)| line(number, shown, zone)).collect(),
        empty: empty.to_owned(),
        newest_last: true,
    }
}

fn line<'a>(number: u64, Shown { stream, record, took }: &Shown, zone: &Zone) -> Line<'a> {
    let of = |name: &str| {
        record.params.iter().find(|(param, _)| &**param == name).map(|(_, value)| value.as_str())
    };
    let role = match of("severity").map(|severity| Emphasis::of(severity.as_bytes())) {
        Some(Emphasis::Error) => Role::Bad,
        Some(Emphasis::Warning) => Role::Warning,
        _ => Role::Value,
    };
    let (what, said) = match record.missed {
        Some(count) => {
            (Cell::text("missed", Role::Bad), Cell::text(format!("{count} records missed"), Role::Bad))
        }
        None => {
            let mut fields: Vec<(&str, &str)> =
                record.params.iter().map(|(name, value)| (&**name, value.as_str())).collect();
            fields.retain(|(name, _)| *name != "type");
            // What the record says for itself is not said twice.
            let took = took.filter(|_| of("duration").is_none()).map(duration);
            fields.extend(took.as_deref().map(|took| ("took", took)));
            // What is said comes first, ids that nobody reads last.
            fields.sort_by_key(|(name, _)| match *name {
                "message" => 0,
                "took" => 1,
                "trace_id" | "span_id" | "parent_id" => 3,
                _ => 2,
            });
            let fields = joined(fields.into_iter());
            (Cell::text(of("type").unwrap_or_default(), role), Cell::text(fields, Role::Plain))
        }
    };
    Line {
        key: number.to_string(),
        cells: vec![
            Cell::text(clock(zone, record.time), Role::Dim),
            Cell::text(&**stream, Role::Plain),
            Cell::text(phase(record.flags), Role::Dim),
            what,
            said,
        ],
    }
}

/// The start or the end of something, both, or a point in time.
fn phase(flags: EventFlags) -> &'static str {
    match flags {
        flags if flags.contains(EventFlags::START | EventFlags::END) => "<>",
        flags if flags.contains(EventFlags::START) => ">",
        flags if flags.contains(EventFlags::END) => "<",
        flags if flags.contains(EventFlags::POINT) => "*",
        _ => "",
    }
}

/// All that a record says, a field a line.
pub(crate) fn details<'a>(events: &Events, number: Option<u64>, zone: &Zone) -> Sheet<'a> {
    let columns = vec![text("field", 32), rest("value")];
    let line = |name: &str, value: &str, role| Line {
        key: name.to_owned(),
        cells: vec![Cell::text(name, Role::Dim), Cell::text(value, role)],
    };
    let mut lines = Vec::new();
    if let Some(Shown { stream, record, took }) = number.and_then(|number| events.get(number)) {
        lines.push(line("time", &zone.ctime_fraction(record.time, 9), Role::Value));
        lines.push(line("source", stream, Role::Value));
        lines.push(line("flags", &record.flags.to_string(), Role::Value));
        lines.extend(took.map(|took| line("took", &duration(took), Role::Value)));
        lines.extend(record.params.iter().map(|(name, value)| line(name, value, Role::Plain)));
    }
    let empty = "the record is not among the newest any more".to_owned();
    Sheet { title: "record".to_owned(), columns, lines, empty, ..Sheet::default() }
}
