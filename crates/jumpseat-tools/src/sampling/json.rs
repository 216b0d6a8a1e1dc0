//! Samples of numbers and texts as JSON, one object a line, with typed values.

use pcp_model::{Desc, InDom, Inst, PmError, Timestamp};
use pcp_pdu::ValuesRef;
use serde_json::{Map, Value as Json, json};

use super::rate;
use super::records::RecordNames;
use super::subject::Subject;
use super::table::{Shown, Table, TimedValues};
use crate::tool::json::{json_line, typed_json};
use crate::tool::put;

/// What all objects have in common.
pub(super) struct JsonLines {
    metric: String,
    host: String,
    desc: Desc,
    units: String,
    names: RecordNames,
    table: Table,
}

impl JsonLines {
    /// For a metric; `table` makes rates of counters.
    pub(super) fn new(metric: &str, subject: &Subject, rated: bool, table: Table) -> JsonLines {
        let desc = subject.desc;
        let units = if rated { rate::units(desc.units) } else { desc.units };
        JsonLines {
            metric: metric.to_owned(),
            host: subject.host.clone(),
            desc,
            units: subject.units(units),
            names: RecordNames::default(),
            table,
        }
    }

    /// Prints a sample: its values, or why there are none. Whether it is one of those asked for.
    pub(super) fn sample(
        &mut self,
        subject: &mut Subject,
        time: Timestamp,
        values: Result<ValuesRef<'_>, PmError>,
    ) -> bool {
        let values = match values {
            Err(error) => {
                let text = json!({ "code": error.0, "text": error.to_string() });
                self.print(subject, time, "error", text);
                return true;
            }
            Ok(values) => values,
        };
        // A sample that only starts rates is no line, and does not count.
        let taken = self.table.take(Some(TimedValues::decode(time, values, self.desc.value_type)));
        if !taken.counts {
            return false;
        }
        let list = match taken.shown {
            Shown::Nothing | Shown::NoValues => Vec::new(),
            Shown::Values(values) => values
                .iter()
                .map(|(inst, value)| {
                    let mut object = self.instance(subject, *inst);
                    object.insert("value".to_owned(), typed_json(value));
                    Json::Object(object)
                })
                .collect(),
        };
        self.print(subject, time, "values", Json::Array(list));
        true
    }

    /// Prints that recording was interrupted.
    pub(super) fn suspended(&mut self, subject: &mut Subject, time: Timestamp) {
        self.table.suspend();
        self.print(subject, time, "suspended", Json::Bool(true));
    }

    fn print(&self, subject: &mut Subject, time: Timestamp, what: &str, list: Json) {
        let mut object = Map::new();
        object.insert("time".to_owned(), time.to_string().into());
        object.insert("host".to_owned(), self.host.as_str().into());
        object.insert("metric".to_owned(), self.metric.as_str().into());
        object.insert("units".to_owned(), self.units.as_str().into());
        object.insert(what.to_owned(), list);
        put!(subject.out, "{}\n", json_line(&Json::Object(object)));
    }

    fn instance(&mut self, subject: &mut Subject, inst: Inst) -> Map<String, Json> {
        let mut object = Map::new();
        if self.desc.indom != InDom::NULL {
            object.insert("id".to_owned(), inst.into());
            if let Some(name) = self.names.instance(&mut subject.context, self.desc.indom, inst) {
                object.insert("instance".to_owned(), name.into());
            }
        }
        object
    }
}
