//! `/pmapi/metric`: what metrics are.
//!
//! **Cost:** a few requests for [`BATCH`] metrics, none of which waits for the answer to another of its kind; texts that somebody has
//! asked for within a minute cost nothing ([`super::texts`]).

use std::time::Instant;

use pcp_client::{Context, Lookup, TextLevel, TextTarget};
use pcp_model::{Desc, InDom, PmError, Pmid};
use serde::ser::{Serialize, SerializeSeq as _, Serializer};

use super::call::{BATCH, Call, Deadline, Output, refused};
use super::labels::{Labels, levels};
use super::leaves::{self, Found};
use super::session::Session;
use crate::server::answer::Refusal;
use crate::server::identity::Id;
use crate::server::words::{type_word, units};

/// A help text.
#[derive(Clone, Debug, Default)]
pub(super) struct Help {
    pub one_line: Option<String>,
    pub long: Option<String>,
    /// Whether that is what the agent says: that there is no text, too.
    pub is_told: bool,
}

impl Help {
    /// Bytes of both.
    pub(super) fn bytes(&self) -> usize {
        [&self.one_line, &self.long].into_iter().flatten().map(String::len).sum()
    }
}

/// A name of the answer.
enum Named {
    Metric { name: String, desc: Desc, help: Help },
    Nothing { name: String, message: String },
}

pub(super) fn metric(call: &Call, session: &mut Session, number: u32) -> Result<Output, Refusal> {
    #[derive(serde::Serialize)]
    struct Form<'a> {
        context: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        client: Option<&'a str>,
        metrics: Metrics<'a>,
    }
    let deadline = Deadline::new();
    let found = leaves::of(session, deadline, call.query.first(&["prefix", "names", "name"]))?;
    if let [Found::Nothing { name, why }] = found.as_slice() {
        return Err(Refusal::bad(format!("{name} traversal failed - {why}")));
    }
    let mut named = Vec::new();
    for found in found {
        match found {
            Found::Nothing { name, why } => named.push(Named::Nothing { name, message: why }),
            Found::Leaves(names) => names_of(session, deadline, names, &mut named)?,
        }
    }
    let mut labels = Labels::default();
    let targets = named.iter().flat_map(|named| match named {
        Named::Metric { desc, .. } => levels(desc),
        Named::Nothing { .. } => Vec::new(),
    });
    labels.look_up(&mut session.context, targets)?;
    let metrics = Metrics { named: &named, labels: &labels, raw: call.raw };
    Output::json(&Form { context: number, client: call.client(), metrics })
}

/// Looks metrics up by their names.
fn names_of(
    session: &mut Session,
    deadline: Deadline,
    names: Vec<String>,
    named: &mut Vec<Named>,
) -> Result<(), Refusal> {
    for batch in names.chunks(BATCH) {
        deadline.check()?;
        let texts: Vec<&str> = batch.iter().map(String::as_str).collect();
        let metrics = session.metrics(&texts, deadline)?;
        let pmids: Vec<Pmid> = metrics.iter().flatten().map(|(pmid, _)| *pmid).collect();
        let mut helps = help_of(session, &pmids)?.into_iter();
        for (name, metric) in batch.iter().zip(metrics) {
            let name = name.clone();
            named.push(match metric {
                Some((_, desc)) => Named::Metric { name, desc, help: helps.next().unwrap_or_default() },
                None => Named::Nothing { name, message: "failed to lookup metric name".to_owned() },
            });
        }
    }
    Ok(())
}

/// Help texts of metrics. A long one that there is not is the short one; those of derived metrics are empty.
pub(super) fn help_of(session: &mut Session, pmids: &[Pmid]) -> Result<Vec<Help>, Refusal> {
    let (asked, news) = (Instant::now(), session.news());
    let mut helps: Vec<Option<Help>> =
        pmids.iter().map(|&pmid| session.kept_help(pmid, news, asked)).collect();
    let is_new = |(pmid, help): &(&Pmid, &Option<Help>)| help.is_none() && !pmid.is_derived();
    let new: Vec<Pmid> = pmids.iter().zip(&helps).filter(is_new).map(|(&pmid, _)| pmid).collect();
    let found = texts(&mut session.context, new.iter().copied().map(TextTarget::Metric))?;
    for (&pmid, help) in new.iter().zip(&found) {
        session.keep_help(pmid, help, news, asked);
    }
    let mut found = found.into_iter();
    let mut help = |(&pmid, help): (&Pmid, &mut Option<Help>)| match help.take() {
        Some(help) => help,
        None if !pmid.is_derived() => found.next().unwrap_or_default(),
        None => {
            let context = &mut session.context;
            let mut text = |level| Some(context.text(TextTarget::Metric(pmid), level).unwrap_or_default());
            Help { one_line: text(TextLevel::OneLine), long: text(TextLevel::Help), is_told: true }
        }
    };
    Ok(pmids.iter().zip(&mut helps).map(&mut help).collect())
}

/// Both texts of each target.
pub(super) fn texts(
    context: &mut Context,
    targets: impl Iterator<Item = TextTarget>,
) -> Result<Vec<Help>, Refusal> {
    let lookups: Vec<Lookup> = targets
        .flat_map(|target| [TextLevel::OneLine, TextLevel::Help].map(|level| Lookup::Text(target, level)))
        .collect();
    if lookups.is_empty() {
        return Ok(Vec::new());
    }
    let found = context.look_up_each(&lookups).map_err(|error| refused(&error))?;
    let mut texts = found.into_iter().map(|found| match found {
        Ok(pcp_client::Found::Text(text)) => (Some(text), true),
        Err(PmError::TEXT) => (None, true),
        _ => (None, false),
    });
    let mut helps = Vec::with_capacity(lookups.len() / 2);
    while let (Some((one_line, is_told)), Some((long, is_long_told))) = (texts.next(), texts.next()) {
        let long = long.filter(|text| !text.is_empty()).or_else(|| one_line.clone());
        helps.push(Help { one_line, long, is_told: is_told && is_long_told });
    }
    Ok(helps)
}

struct Metrics<'a> {
    named: &'a [Named],
    labels: &'a Labels,
    raw: bool,
}

impl Serialize for Metrics<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Metric<'a> {
            name: &'a str,
            series: String,
            pmid: Identifier,
            #[serde(skip_serializing_if = "Option::is_none")]
            indom: Option<Identifier>,
            #[serde(rename = "type")]
            value_type: &'static str,
            sem: &'static str,
            units: String,
            labels: &'a super::labels::Merged<'a>,
            #[serde(rename = "text-oneline", skip_serializing_if = "Option::is_none")]
            one_line: Option<&'a str>,
            #[serde(rename = "text-help", skip_serializing_if = "Option::is_none")]
            long: Option<&'a str>,
        }
        #[derive(serde::Serialize)]
        struct Nothing<'a> {
            name: &'a str,
            message: &'a str,
            success: bool,
        }
        let mut seq = serializer.serialize_seq(Some(self.named.len()))?;
        for named in self.named {
            match named {
                Named::Nothing { name, message } => {
                    seq.serialize_element(&Nothing { name, message, success: false })?;
                }
                Named::Metric { name, desc, help } => {
                    let labels = &self.labels.merged(&levels(desc), false);
                    let indom = (desc.indom != InDom::NULL).then(|| Identifier::indom(desc.indom, self.raw));
                    seq.serialize_element(&Metric {
                        name,
                        series: Id::metric(name, &labels.text(), desc).to_string(),
                        pmid: Identifier::pmid(desc.pmid, self.raw),
                        indom,
                        value_type: type_word(desc.value_type),
                        sem: desc.semantics.name(),
                        units: units(desc),
                        labels,
                        one_line: help.one_line.as_deref(),
                        long: help.long.as_deref(),
                    })?;
                }
            }
        }
        seq.end()
    }
}

/// An identifier, as text or, for machines, as a number.
#[derive(serde::Serialize)]
#[serde(untagged)]
pub(super) enum Identifier {
    Text(String),
    Number(u32),
}

impl Identifier {
    pub(super) fn pmid(pmid: Pmid, raw: bool) -> Identifier {
        if raw { Identifier::Number(pmid.0) } else { Identifier::Text(pmid.to_string()) }
    }

    pub(super) fn indom(indom: InDom, raw: bool) -> Identifier {
        if raw { Identifier::Number(indom.0) } else { Identifier::Text(indom.to_string()) }
    }
}
