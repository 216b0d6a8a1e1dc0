//! Errors: by source, type and what their messages have in common.

use pcp_model::time::Zone;

use super::clock;
use crate::events::Events;
use crate::faults::{Fault, faults};
use crate::screen::Role;
use crate::sheet::{Cell, Line, Sheet, number, rest, text};

/// All errors among the records, those that are the most first.
pub(crate) fn errors<'a>(events: &Events, zone: &Zone) -> Sheet<'a> {
    let columns =
        vec![number("count"), text("last", 16), text("source", 16), text("type", 30), rest("message")];
    let all = faults(events);
    let total: u64 = all.iter().map(|fault| fault.count).sum();
    let line = |fault: &Fault| Line {
        // The newest of them is what one wants to see; but that is another one soon.
        key: format!("{}\n{}\n{}", fault.source, fault.kind, fault.pattern),
        cells: vec![
            Cell::number(Some(fault.count as f64), |count| format!("{count:.0}")).with(Role::Bad),
            Cell::text(clock(zone, fault.last), Role::Dim),
            Cell::text(&*fault.source, Role::Plain),
            Cell::text(&fault.kind, Role::Value),
            Cell::text(&fault.pattern, Role::Plain),
        ],
    };
    Sheet {
        title: "errors".to_owned(),
        notes: vec![(format!("{total} of {} records", events.newest.len()), Role::Dim)],
        columns,
        lines: all.iter().map(line).collect(),
        empty: "no errors among the records so far".to_owned(),
        newest_last: false,
    }
}
