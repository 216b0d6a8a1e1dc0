//! The time of spans by path, as a table: what the flame graph draws.

use super::duration;
use crate::flame::{Frame, blocks};
use crate::screen::Role;
use crate::sheet::{Cell, Line, Sheet, number, rest, text};

/// A line for each path.
pub(crate) fn flame<'a>(root: &Frame) -> Sheet<'a> {
    let columns = vec![text("span", 40), number("total"), number("own"), number("spans"), rest("path")];
    let all = blocks(root);
    let line = |block: &crate::flame::Block<'_>| Line {
        key: block.path.join("\n"),
        cells: vec![
            Cell::text(block.path.last().copied().unwrap_or("all spans"), Role::Value),
            Cell::number(Some(block.frame.total), duration),
            Cell::number(Some(block.frame.own), duration),
            Cell::number(Some(block.frame.count as f64), |count| format!("{count:.0}")),
            Cell::text(block.path.join(" > "), Role::Dim),
        ],
    };
    Sheet {
        title: "time of spans".to_owned(),
        notes: vec![(format!("{} in all", duration(root.total)), Role::Dim)],
        columns,
        lines: all.iter().map(line).collect(),
        empty: "no whole span among the records yet".to_owned(),
        newest_last: false,
    }
}
