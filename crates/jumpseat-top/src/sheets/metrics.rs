//! The metrics, as they are exported: an instance a line.

use crate::model::Model;
use crate::screen::Role;
use crate::sheet::{Cell, Line, Sheet, number, rest, text};

/// All metrics with their instances.
pub(crate) fn metrics(model: &Model) -> Sheet<'_> {
    let columns = vec![text("metric", 60), text("instance", 40), number("value"), rest("unit")];
    let mut lines = Vec::new();
    for metric in &model.metrics {
        let unit = metric.measure.as_ref().map(|measure| measure.unit.clone()).unwrap_or_default();
        let mut line = |instance: &str, value: Option<f64>, said: Option<&String>| {
            let cell = match (value, said) {
                (None, Some(said)) => Cell::text(said, Role::Value),
                (value, _) => Cell::number(value, |value| value.to_string()),
            };
            let key = format!("{}\n{instance}", metric.name);
            let cells = vec![
                Cell::text(metric.name.trim(), Role::Plain),
                Cell::text(instance, Role::Plain),
                cell,
                Cell::text(&unit, Role::Dim),
            ];
            lines.push(Line { key, cells });
        };
        if metric.instanced && !metric.is_event {
            metric.rows.values().for_each(|row| line(&row.name, row.cell.last, row.text.as_ref()));
        } else {
            line("", metric.total.last, metric.error.as_ref().or(metric.text.as_ref()));
        }
    }
    Sheet {
        title: "metrics".to_owned(),
        columns,
        lines,
        empty: "nothing is watched".to_owned(),
        ..Sheet::default()
    }
}
