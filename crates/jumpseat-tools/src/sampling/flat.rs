//! Event records as JSON, one flat object a record: what an ingest socket of the agent takes, so that `jumpseat feed` gives
//! them to another agent as they were.
//!
//! Members are `time`, `source` (the instance, if there are any), `phase` (`start` or `end`), and the parameters by the names that
//! their senders gave them. Records that were lost are a control line at their place. What goes wrong goes to standard
//! error: standard output has records only.

use std::collections::HashMap;

use byteorder::NetworkEndian;
use pcp_client::Context;
use pcp_event::EventFlags;
use pcp_event::reader::Record;
use pcp_model::{Desc, InDom, Inst, PmError, Pmid, Timestamp};
use pcp_pdu::{LabelTarget, ValuesRef};
use serde_json::{Value as Json, json};

use super::records::{self, RecordNames};
use super::subject::Subject;
use crate::tool::json::{json_line, typed_json};
use crate::tool::put;

/// Where the agent keeps the metrics that describe fields.
const FIELDS: &str = "jumpseat.field.";
/// The members that are not fields.
const OWN: [&str; 4] = ["time", "source", "phase", "jumpseat"];
/// The field that tells once more how many were lost: pmcd takes the number in the record itself away from HIGHRES arrays.
const MISSED: &str = "missed";

/// Prints records.
pub(super) struct Flat {
    metric: String,
    desc: Desc,
    names: RecordNames,
    members: HashMap<Pmid, String>,
}

impl Flat {
    /// For a metric.
    pub(super) fn new(metric: &str, desc: Desc) -> Flat {
        Flat { metric: metric.to_owned(), desc, names: RecordNames::default(), members: HashMap::new() }
    }

    /// Prints the records of a sample.
    pub(super) fn sample(&mut self, subject: &mut Subject, values: Result<ValuesRef<'_>, PmError>) {
        let values = match values {
            Ok(values) => values,
            Err(error) => return complain!("{}: {}: {error}", subject.ready.call.name, self.metric),
        };
        for (inst, value) in values.iter() {
            if !subject.wants(inst) {
                continue;
            }
            let source = self.source(&mut subject.context, inst);
            match records::array(value, self.desc.value_type) {
                Ok(array) => self.records(subject, source.as_deref(), array.records()),
                Err(error) => {
                    let source = source.unwrap_or_default();
                    complain!("{}: {}[{source}]: {error}", subject.ready.call.name, self.metric);
                }
            }
        }
    }

    /// Tells that recording was interrupted.
    pub(super) fn suspended(&self, subject: &Subject, time: Timestamp) {
        complain!("{}: {time}: recording was suspended", subject.ready.call.name);
    }

    fn source(&mut self, context: &mut Context, inst: Inst) -> Option<String> {
        if self.desc.indom == InDom::NULL {
            return None;
        }
        // The instance may be gone: its number is still what tells its records from others.
        let name = self.names.instance(context, self.desc.indom, inst);
        Some(name.map_or_else(|| inst.to_string(), str::to_owned))
    }

    fn records<'a>(
        &mut self,
        subject: &mut Subject,
        source: Option<&str>,
        records: impl Iterator<Item = Record<'a, NetworkEndian>>,
    ) {
        // Lost records whose number may be in the record behind them.
        let mut lost: Option<(Timestamp, i64)> = None;
        for record in records {
            let members = self.members(&mut subject.context, &record);
            if let (Some((time, _)), [(name, count)]) = (lost, &members[..])
                && (name.as_str(), time) == (MISSED, record.time)
            {
                lost = Some((time, count.as_i64().unwrap_or(0)));
                continue;
            }
            if let Some((time, count)) = lost.take() {
                self.print_missed(subject, source, time, count);
            }
            match record.missed() {
                Some(count) => lost = Some((record.time, count.into())),
                None => self.print(subject, source, &record, &members),
            }
        }
        if let Some((time, count)) = lost {
            self.print_missed(subject, source, time, count);
        }
    }

    fn members(&mut self, context: &mut Context, record: &Record<'_, NetworkEndian>) -> Vec<(String, Json)> {
        let params = record.params().map(|param| {
            let name = match self.members.get(&param.pmid) {
                Some(name) => name.clone(),
                None => {
                    let name = self.member(context, param.pmid);
                    self.members.insert(param.pmid, name.clone());
                    name
                }
            };
            (name, typed_json(&records::value(param.value)))
        });
        params.collect()
    }

    /// What a parameter is called: as its sender called it, if the agent is ours.
    fn member(&mut self, context: &mut Context, pmid: Pmid) -> String {
        let Ok(metric) = self.names.param(context, pmid).name.clone() else { return pmid.to_string() };
        let Some(leaf) = metric.strip_prefix(FIELDS) else { return metric };
        let field = match leaf {
            "span_id_u64" => "span_id".to_owned(),
            "parent_id_u64" => "parent_id".to_owned(),
            _ => sent_as(context, pmid).unwrap_or_else(|| leaf.to_owned()),
        };
        if OWN.contains(&field.as_str()) { format!("field.{field}") } else { field }
    }

    fn print(
        &self,
        subject: &mut Subject,
        source: Option<&str>,
        record: &Record<'_, NetworkEndian>,
        members: &[(String, Json)],
    ) {
        let mut line = format!("{{\"time\":\"{}\"", record.time);
        let mut put_member = |name: &str, value: &Json| {
            line.push_str(&format!(",{}:{}", json_line(&name.into()), json_line(value)));
        };
        if let Some(source) = source {
            put_member("source", &source.into());
        }
        for (flag, phase) in [(EventFlags::START, "start"), (EventFlags::END, "end")] {
            if record.flags.contains(flag) {
                put_member("phase", &phase.into());
                break;
            }
        }
        // A name that comes twice is two members, as it was two parameters.
        members.iter().for_each(|(name, value)| put_member(name, value));
        put!(subject.out, "{line}}}\n");
    }

    fn print_missed(&self, subject: &mut Subject, source: Option<&str>, time: Timestamp, count: i64) {
        let mut control = json!({"missed": count, "time": time.to_string()});
        if let Some(source) = source {
            control["source"] = source.into();
        }
        put!(subject.out, "{}\n", json_line(&json!({"jumpseat": control})));
    }
}

/// The name that senders gave a field, which its metric's label has.
fn sent_as(context: &mut Context, pmid: Pmid) -> Option<String> {
    let sets = context.labels(LabelTarget::Item(pmid)).ok()?;
    let labels = sets.into_iter().find_map(|set| set.labels.ok())?;
    let label = labels.into_iter().find(|label| label.name == "field")?;
    serde_json::from_str(&label.value).ok()
}
