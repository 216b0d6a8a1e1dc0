//! One JSON object about each metric or instance domain, on a line of its own.

use pcp_client::{TextLevel, TextTarget};
use pcp_model::{InDom, PmError};
use pcp_pdu::{SetRef, ValuesRef};
use serde_json::{Map, Value as Json, json};

use super::Info;
use super::metadata::Merged;
use crate::tool::json::{error_json, json_line, text_json, value_json};
use crate::tool::{Metric, put};

impl Info {
    pub(super) fn metric_json(&mut self, metric: &Metric<'_>, set: Option<SetRef<'_>>) {
        let mut object = Map::new();
        object.insert("metric".to_owned(), json!(metric.name));
        object.insert("pmid".to_owned(), json!(metric.pmid.to_string()));
        if let Some(desc) = metric.desc().filter(|_| self.wanted.desc) {
            object.insert("type".to_owned(), json!(desc.value_type.name()));
            let indom = (desc.indom != InDom::NULL).then(|| desc.indom.to_string());
            object.insert("indom".to_owned(), json!(indom));
            object.insert("semantics".to_owned(), json!(desc.semantics.name()));
            object.insert("units".to_owned(), json!(desc.units.text_at(self.call.level)));
        }
        self.texts(TextTarget::Metric(metric.pmid), &mut object);
        let labels = match self.wanted.labels {
            true => Some(self.labels.of_metric(&mut self.inquiry.context, metric.pmid, metric.indom())),
            false => None,
        };
        if let Some(labels) = &labels {
            object.insert("labels".to_owned(), labels_json(labels));
        }
        if self.wanted.series {
            let (source, series) = self.series(metric);
            object.insert("source".to_owned(), json!(source));
            object.insert("series".to_owned(), json!(series));
            let instances = self.series_of_instances(metric);
            if !instances.is_empty() {
                let instances = instances
                    .into_iter()
                    .map(|(id, name, series)| json!({"id": id, "instance": name, "series": series}));
                object.insert("instance_series".to_owned(), instances.collect());
            }
        }
        if labels.is_some() && metric.indom() != InDom::NULL {
            let labels = self.labels.of_instances(&mut self.inquiry.context, metric.pmid, metric.indom());
            let labels = self.instance_labels_json(metric.indom(), &labels);
            object.insert("instance_labels".to_owned(), labels);
        }
        match set.map(|set| set.values) {
            Some(Ok(values)) => {
                let values = self.values_json(metric, values);
                object.insert("values".to_owned(), values);
            }
            Some(Err(error)) => drop(object.insert("error".to_owned(), error_json("pmFetch", error))),
            None => {}
        }
        put!(self.inquiry.out, "{}\n", json_line(&Json::Object(object)));
    }

    pub(super) fn failure_json(&mut self, name: &str, call: &str, error: PmError) {
        put!(self.inquiry.out, "{}\n", json_line(&json!({"metric": name, "error": error_json(call, error)})));
    }

    pub(super) fn indom_json(&mut self, indom: InDom) {
        let mut object = Map::new();
        object.insert("indom".to_owned(), json!(indom.to_string()));
        self.texts(TextTarget::InDom(indom), &mut object);
        match self.inquiry.instances.ids(&mut self.inquiry.context, indom).map(<[i32]>::to_vec) {
            Ok(ids) => {
                let instance = |id| {
                    let name = self
                        .inquiry
                        .instances
                        .name(&mut self.inquiry.context, indom, id)
                        .ok()
                        .map(str::to_owned);
                    json!({"id": id, "instance": name})
                };
                object.insert("instances".to_owned(), ids.into_iter().map(instance).collect());
            }
            Err(error) => drop(object.insert("error".to_owned(), error_json("pmGetInDom", error))),
        }
        if self.wanted.labels {
            let labels = self.labels.of_indom(&mut self.inquiry.context, indom);
            object.insert("labels".to_owned(), labels_json(&labels));
            let labels = self.instance_labels_json(indom, &labels);
            object.insert("instance_labels".to_owned(), labels);
        }
        put!(self.inquiry.out, "{}\n", json_line(&Json::Object(object)));
    }

    fn texts(&mut self, target: TextTarget, object: &mut Map<String, Json>) {
        let levels = [
            (self.wanted.oneline, TextLevel::OneLine, "oneline"),
            (self.wanted.help, TextLevel::Help, "help"),
        ];
        // `null` where there is no text, so that each object asked for has the key.
        for (_, level, key) in levels.into_iter().filter(|(wanted, ..)| *wanted) {
            let text = self.inquiry.context.text(target, level).ok();
            object.insert(key.to_owned(), json!(text));
        }
    }

    fn values_json(&mut self, metric: &Metric<'_>, values: ValuesRef<'_>) -> Json {
        let indom = metric.indom();
        let one = |(inst, value)| {
            let value = value_json(value, metric.value_type());
            if indom == InDom::NULL {
                return json!({"value": value});
            }
            let name = self.inquiry.instances.name(&mut self.inquiry.context, indom, inst).ok();
            json!({"id": inst, "instance": name.map(str::to_owned), "value": value})
        };
        values.iter().map(one).collect()
    }

    fn instance_labels_json(&mut self, indom: InDom, above: &Merged) -> Json {
        let sets = self.instance_label_sets(indom);
        let one = |set: &pcp_model::LabelSet| {
            let name = self
                .inquiry
                .instances
                .name(&mut self.inquiry.context, indom, set.inst)
                .ok()
                .map(str::to_owned);
            json!({"id": set.inst, "instance": name, "labels": labels_json(&above.with(set))})
        };
        sets.iter().map(one).collect()
    }
}

fn labels_json(labels: &Merged) -> Json {
    // Values of labels are JSON by the protocol; text of an agent that does not keep to it is still shown.
    let value = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| text_json(text.as_bytes()));
    Json::Object(labels.iter().map(|(name, text)| (name.to_owned(), value(text))).collect())
}
