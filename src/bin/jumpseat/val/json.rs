//! Samples as JSON, one object a line, with typed values.

use jumpseat::event::{EventFlags, Param};
use jumpseat::model::{Desc, InDom, Inst, PmError, Timestamp, Value};
use jumpseat::pdu::ValuesRef;
use jumpseat::time::Zone;
use serde_json::{Map, Number, Value as Json, json};

use super::rate;
use super::records::{self, Names};
use super::samples::decode;
use super::setup::Subject;
use super::table::Table;
use crate::tool::put;

/// What all objects have in common.
pub struct JsonLines {
    metric: String,
    host: String,
    desc: Desc,
    units: String,
    names: Names,
    table: Table,
}

impl JsonLines {
    /// For a metric; `table` makes rates of counters.
    pub fn new(metric: &str, host: &str, desc: Desc, rated: bool, table: Table) -> JsonLines {
        let units = if rated { rate::units(desc.units) } else { desc.units };
        JsonLines {
            metric: metric.to_owned(),
            host: host.to_owned(),
            desc,
            units: units.to_string(),
            names: Names::default(),
            table,
        }
    }

    /// Prints a sample: its values, its records, or why there are none. Whether it is one of those asked for.
    pub fn sample(
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
        let list = if subject.has_events() {
            self.arrays(subject, values)
        } else {
            let taken = self.table.take(Some(decode(time, values, self.desc.value_type)));
            if !taken.counts {
                return false;
            }
            match taken.shown {
                None | Some(Err(())) => Vec::new(),
                Some(Ok(shown)) => shown
                    .iter()
                    .map(|(inst, value)| {
                        let mut object = self.instance(subject, *inst);
                        object.insert("value".to_owned(), typed(value));
                        Json::Object(object)
                    })
                    .collect(),
            }
        };
        self.print(subject, time, "values", Json::Array(list));
        true
    }

    /// Prints that recording was interrupted.
    pub fn suspended(&mut self, subject: &mut Subject, time: Timestamp) {
        self.table.suspend();
        self.print(subject, time, "suspended", Json::Bool(true));
    }

    fn print(&self, subject: &mut Subject, time: Timestamp, what: &str, list: Json) {
        let mut object = Map::new();
        object.insert("time".to_owned(), utc(time).into());
        object.insert("host".to_owned(), self.host.as_str().into());
        object.insert("metric".to_owned(), self.metric.as_str().into());
        if !subject.has_events() {
            object.insert("units".to_owned(), self.units.as_str().into());
        }
        object.insert(what.to_owned(), list);
        put!(subject.out, "{}\n", Json::Object(object));
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

    fn arrays(&mut self, subject: &mut Subject, values: ValuesRef<'_>) -> Vec<Json> {
        let mut list = Vec::new();
        for (inst, value) in values.iter() {
            if !subject.wants(inst) {
                continue;
            }
            let mut object = self.instance(subject, inst);
            match records::array(value, self.desc.value_type) {
                Err(error) => {
                    object.insert("error".to_owned(), json!({ "code": error.0, "text": error.to_string() }));
                }
                Ok(array) => {
                    let records = array.records().map(|record| {
                        let mut json = Map::new();
                        json.insert("time".to_owned(), utc(record.time).into());
                        json.insert("flags".to_owned(), flags(record.flags));
                        match record.missed() {
                            Some(missed) => {
                                json.insert("missed".to_owned(), missed.into());
                            }
                            None => {
                                let params = record.params().map(|param| {
                                    let metric = self.names.param(&mut subject.context, param.pmid);
                                    let name = metric.name.clone().unwrap_or_else(|_| param.pmid.to_string());
                                    json!({
                                        "name": name,
                                        "type": param.value_type.name(),
                                        "value": typed_param(param.value),
                                    })
                                });
                                json.insert("params".to_owned(), params.collect());
                            }
                        }
                        Json::Object(json)
                    });
                    object.insert("records".to_owned(), records.collect());
                }
            }
            list.push(Json::Object(object));
        }
        list
    }
}

/// A parameter's value in JSON's type for it.
pub fn typed_param(param: Param<'_>) -> Json {
    typed(&records::value(param))
}

/// A value in JSON's type for it. Bytes are in hexadecimal, and what is no number for JSON is null.
fn typed(value: &Value) -> Json {
    match value {
        Value::I32(v) => (*v).into(),
        Value::U32(v) => (*v).into(),
        Value::I64(v) => (*v).into(),
        Value::U64(v) => (*v).into(),
        // The shortest digits that are this number in its own precision.
        Value::Float(v) => {
            v.to_string().parse().ok().and_then(Number::from_f64).map_or(Json::Null, Json::Number)
        }
        Value::Double(v) => Number::from_f64(*v).map_or(Json::Null, Json::Number),
        Value::String(text) => String::from_utf8_lossy(text).into(),
        Value::Aggregate(bytes) | Value::Event(bytes) | Value::HighResEvent(bytes) => {
            bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
        }
    }
}

fn flags(flags: EventFlags) -> Json {
    let words = flags.to_string();
    words.split(',').filter(|word| !word.is_empty()).collect()
}

/// `2026-11-20T10:44:40.123456789Z`.
fn utc(time: Timestamp) -> String {
    let zone = Zone::utc();
    let t = zone.civil(time.sec);
    format!("{:04}-{:02}-{:02}T{}Z", t.year, t.month, t.day, zone.clock(time, 9))
}
