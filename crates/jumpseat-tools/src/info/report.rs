//! The text about a metric or an instance domain.

use std::borrow::Cow;
use std::io::Write as _;

use pcp_client::{TextLevel, TextTarget};
use pcp_model::{Desc, InDom, Inst, Level, PmError, Semantics, ValueType};
use pcp_pdu::{SetRef, ValueRef, ValuesRef};

use super::Info;
use crate::tool::{Metric, put, values};

impl Info {
    pub(super) fn metric_text(&mut self, metric: &Metric<'_>, set: Option<SetRef<'_>>) {
        if self.wanted.is_long() {
            put!(self.inquiry.out, "\n");
        }
        put!(self.inquiry.out, "{}", metric.name);
        let pmid = metric.pmid;
        if self.wanted.full_pmid {
            put!(self.inquiry.out, " PMID: {pmid} = {} = {:#x}", pmid.0, pmid.0);
        } else if self.wanted.pmid {
            put!(self.inquiry.out, " PMID: {pmid}");
        }
        // Behind the identifier, unless that has filled the line.
        self.oneline(TextTarget::Metric(pmid), self.wanted.full_pmid);
        put!(self.inquiry.out, "\n");
        match metric.desc() {
            _ if !self.wanted.desc => {}
            Some(desc) if self.wanted.desc_oneline => self.desc_on_a_line(metric.name, &desc),
            Some(desc) => self.desc(&desc),
            None => put!(self.inquiry.out, "    Metadata unavailable\n"),
        }
        if self.wanted.series {
            let (source, series) = self.series(metric);
            put!(self.inquiry.out, "    Source: {source}\n    Series: {series}\n");
        }
        if self.wanted.labels {
            let labels = self.labels.of_metric(&mut self.inquiry.context, metric.pmid, metric.indom()).text();
            put!(self.inquiry.out, "    labels {labels}\n");
        }
        self.help(TextTarget::Metric(pmid));
        if let Some(set) = set.filter(|_| self.wanted.fetch) {
            match metric.desc.and(set.values) {
                Err(PmError::PROFILE) if self.wanted.fetch_all => self.values_of_all(metric),
                values => self.values(metric, values),
            }
        }
        if self.wanted.series {
            self.instance_series(metric);
        }
        if self.wanted.labels {
            self.instance_labels(metric);
        }
    }

    pub(super) fn verify(&mut self, metric: &Metric<'_>, set: Option<SetRef<'_>>) {
        let name = metric.name;
        match metric.desc.and(set.map(|set| set.values).transpose()).transpose() {
            Some(Err(error)) if metric.desc.is_err() => {
                put!(self.inquiry.out, "{name}: {}\n", error.at(self.call.level));
            }
            _ if metric.value_type() == ValueType::NoSupport => {
                put!(self.inquiry.out, "{name}: Not Supported\n")
            }
            Some(Err(error)) => put!(self.inquiry.out, "{name}: {}\n", error.at(self.call.level)),
            Some(Ok(values)) if values.is_empty() && !self.wanted.only_metadata => {
                put!(self.inquiry.out, "{name}: No value(s) available\n")
            }
            _ => {}
        }
        let questions = match metric.desc() {
            Some(desc) if self.call.level >= Level::V721 => desc.questions(),
            _ => Vec::new(),
        };
        if let (Some(desc), false) = (metric.desc(), questions.is_empty()) {
            put!(self.inquiry.out, "{name}: Questionable metadata ...\n");
            self.desc(&desc);
            questions.iter().for_each(|question| put!(self.inquiry.out, "{question}\n"));
            put!(self.inquiry.out, "\n");
        }
    }

    pub(super) fn indom_text(&mut self, indom: InDom) {
        match self.wanted.full_indom {
            true => put!(self.inquiry.out, "\nInDom: {}", in_full(indom)),
            false => put!(self.inquiry.out, "\nInDom: {}", in_short(indom)),
        }
        self.oneline(TextTarget::InDom(indom), self.wanted.full_indom);
        put!(self.inquiry.out, "\n");
        if self.wanted.labels {
            let labels = self.labels.of_indom(&mut self.inquiry.context, indom);
            put!(self.inquiry.out, "    labels {}\n", labels.text());
        }
        self.help(TextTarget::InDom(indom));
    }

    fn desc(&mut self, desc: &Desc) {
        let indom = if self.wanted.full_indom { in_full(desc.indom) } else { in_short(desc.indom) };
        put!(
            self.inquiry.out,
            "    Data Type: {}  InDom: {indom}\n    Semantics: {}  Units: {}\n",
            type_text(desc.value_type),
            semantics_text(desc.semantics),
            self.units(desc)
        );
    }

    /// The descriptor behind the name of its metric, with tabs between.
    fn desc_on_a_line(&mut self, name: &str, desc: &Desc) {
        let indom = if self.wanted.full_indom { in_full(desc.indom) } else { in_short(desc.indom) };
        put!(
            self.inquiry.out,
            "{name}\t{}\t{indom}\t{}\t{}\n",
            type_text(desc.value_type),
            semantics_text(desc.semantics),
            self.units(desc)
        );
    }

    fn units(&self, desc: &Desc) -> String {
        let units = desc.units.text_at(self.call.level);
        if units.is_empty() { "none".to_owned() } else { units }
    }

    /// The short help text, behind what is on the line already; on a line of its own where that is `long`.
    fn oneline(&mut self, target: TextTarget, long: bool) {
        if !self.wanted.oneline {
            return;
        }
        let before = if long { "\n   " } else { "" };
        match self.inquiry.context.text(target, TextLevel::OneLine) {
            Ok(text) => put!(self.inquiry.out, "{before} [{text}]"),
            Err(error) => {
                put!(self.inquiry.out, " One-line Help: Error: {}", error.code().at(self.call.level))
            }
        }
    }

    fn help(&mut self, target: TextTarget) {
        if !self.wanted.help {
            return;
        }
        match self.inquiry.context.text(target, TextLevel::Help) {
            Ok(text) => match text.trim_end_matches('\n') {
                "" => put!(self.inquiry.out, "Help: <empty entry>\n"),
                text => put!(self.inquiry.out, "Help:\n{text}\n"),
            },
            Err(error) => put!(self.inquiry.out, "Full Help: Error: {}\n", error.code().at(self.call.level)),
        }
    }

    /// The values of a metric.
    fn values(&mut self, metric: &Metric<'_>, values: Result<ValuesRef<'_>, PmError>) {
        let values = match values {
            Err(error) => return put!(self.inquiry.out, "Error: {}\n", error.at(self.call.level)),
            Ok(values) if values.is_empty() => return put!(self.inquiry.out, "No value(s) available!\n"),
            Ok(values) => values,
        };
        for (inst, value) in values.iter() {
            if self.value(metric, inst, value) && self.wanted.events {
                self.events(metric.value_type(), value);
            }
        }
    }

    /// One value. False if it is of no use, as its instance is gone.
    fn value(&mut self, metric: &Metric<'_>, inst: Inst, value: ValueRef<'_>) -> bool {
        let indom = metric.indom();
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        line.extend_from_slice(b"    ");
        if indom != InDom::NULL {
            match self.inquiry.instances.name(&mut self.inquiry.context, indom, inst) {
                Ok(name) => {
                    // Writing to a Vec does not fail.
                    let _ = write!(line, "inst [{inst} or \"");
                    line.extend_from_slice(name.as_bytes());
                    line.extend_from_slice(b"\"] ");
                }
                Err(_) if self.wanted.fetch_all => {
                    put!(self.inquiry.out, "    inst [{inst} \"DISAPPEARED\"]\n");
                    self.line = line;
                    return false;
                }
                Err(error) => {
                    // About archives PCP's program does not say more.
                    let error = if self.inquiry.origin.is_some() { PmError::INST } else { error };
                    put!(
                        self.inquiry.out,
                        "pmNameIndom: indom={indom} inst={inst}: {}\n",
                        error.at(self.call.level)
                    );
                    let _ = write!(line, "inst [{inst}] ");
                }
            }
        }
        line.extend_from_slice(b"value ");
        let options = values::print_options(1, self.call.level);
        values::print(value, metric.value_type(), options, &self.inquiry.clock, &mut line);
        line.push(b'\n');
        self.inquiry.out.bytes(&line);
        self.line = line;
        true
    }

    /// The values of a metric whose agent wants to be told which instances: all there are.
    fn values_of_all(&mut self, metric: &Metric<'_>) {
        let (name, indom) = (metric.name, metric.indom());
        let all = match self.inquiry.instances.ids(&mut self.inquiry.context, indom) {
            Ok([]) => return put!(self.inquiry.out, "{name}: pmGetIndom: No instances?\n"),
            Ok(all) => all.to_vec(),
            Err(error) => {
                return put!(self.inquiry.out, "{name}: pmGetIndom: {}\n", error.at(self.call.level));
            }
        };
        let mut fetched = pcp_client::Fetched::new();
        let told = self
            .inquiry
            .context
            .delete_profile(indom, &[])
            .and_then(|()| self.inquiry.context.add_profile(indom, &all))
            .and_then(|()| self.inquiry.context.fetch(&[metric.pmid], &mut fetched));
        self.inquiry.moved();
        // The agent refuses "all instances" for such a metric, so that each is named.
        // Everything again, for the metrics after this one.
        let told = told.and(self.inquiry.context.add_profile(indom, &[]));
        match told {
            Err(error) => put!(self.inquiry.out, "{name}: pmFetch: {}\n", error.code().at(self.call.level)),
            Ok(()) => {
                if let Some(set) = fetched.set(0) {
                    self.values(metric, set.values);
                }
            }
        }
    }

    fn instance_series(&mut self, metric: &Metric<'_>) {
        for (inst, name, series) in self.series_of_instances(metric) {
            put!(self.inquiry.out, "    inst [{inst} or \"{name}\"] series {series}\n");
        }
    }

    fn instance_labels(&mut self, metric: &Metric<'_>) {
        let indom = metric.indom();
        if indom == InDom::NULL {
            return;
        }
        let above = self.labels.of_instances(&mut self.inquiry.context, metric.pmid, indom);
        let sets = self.instance_label_sets(indom);
        for set in sets.iter() {
            let labels = above.with(set).text();
            match self.inquiry.instances.name(&mut self.inquiry.context, indom, set.inst) {
                Ok(name) => put!(self.inquiry.out, "    inst [{} or \"{name}\"] labels {labels}\n", set.inst),
                Err(_) => {
                    put!(self.inquiry.out, "    inst [{} or \"DISAPPEARED\"] labels {labels}\n", set.inst);
                }
            }
        }
    }
}

fn in_short(indom: InDom) -> String {
    format!("{} {:#x}", indom_text(indom), indom.0)
}

fn in_full(indom: InDom) -> String {
    format!("{} = {} = {:#x}", indom_text(indom), indom.0, indom.0)
}

fn indom_text(indom: InDom) -> String {
    if indom == InDom::NULL { "PM_INDOM_NULL".to_owned() } else { indom.to_string() }
}

/// With the number where that is none that has a name.
fn semantics_text(semantics: Semantics) -> Cow<'static, str> {
    match semantics {
        Semantics::Other(code) => format!("??? ({code})").into(),
        known => known.name().into(),
    }
}

fn type_text(value_type: ValueType) -> &'static str {
    match value_type {
        ValueType::NoSupport => "Not Supported",
        ValueType::I32 => "32-bit int",
        ValueType::U32 => "32-bit unsigned int",
        ValueType::I64 => "64-bit int",
        ValueType::U64 => "64-bit unsigned int",
        ValueType::Float => "float",
        ValueType::Double => "double",
        ValueType::String => "string",
        ValueType::Aggregate => "aggregate",
        ValueType::AggregateStatic => "static aggregate",
        ValueType::Event => "event record array",
        ValueType::HighResEvent => "highres event record array",
        ValueType::Unknown => "???",
    }
}
