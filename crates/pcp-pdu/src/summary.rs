//! What a PDU says, in a line: for people who look for a fault.
//!
//! Cost: it allocates, and is for PDUs that somebody wants to see.

use std::fmt;

use super::{
    Attr, AttrCode, Cred, CredFlags, Creds, ErrorPdu, Features, InstanceReq, LabelTarget, NodeKind, Pdu,
    PmnsNames, ProfilePdu, ResultPdu, StateChange, TextLevel, TextTarget,
};
use pcp_model::text::{cut, listed};
use pcp_model::{PM_IN_NULL, ProfileState};

/// Metrics, names, instances shown; of others their number.
const SHOWN: usize = 8;
/// Bytes of a name or text shown.
const TEXT: usize = 120;

impl Pdu {
    /// What the PDU says, in a line of bounded length. What belongs to an authentication is left out, as it may hold a
    /// password.
    pub fn summary(&self) -> String {
        match self {
            Pdu::Error(error) => error_line(error),
            Pdu::Result(result) | Pdu::HighResResult(result) => result_line(result),
            Pdu::Profile(ProfilePdu { ctxid, profile }) => {
                let others = state(profile.state);
                let domains = profile.indoms.iter().map(|of| {
                    let (state, exceptions) = (state(of.state), of.instances.len());
                    format!("{}: {state} but {exceptions};", of.indom)
                });
                let domains = listed(domains, SHOWN);
                format!("context {ctxid}, instances: {domains} {others} of other domains")
            }
            Pdu::Fetch(fetch) | Pdu::HighResFetch(fetch) => {
                let pmids = listed(&fetch.pmids, SHOWN);
                format!("context {}, {} metrics: {pmids}", fetch.ctxid, fetch.pmids.len())
            }
            Pdu::DescReq(pmid) => format!("descriptor of {pmid}"),
            Pdu::Desc(desc) => {
                let (value_type, semantics) = (desc.value_type.name(), desc.semantics.name());
                let units = desc.units.to_string();
                let units = if units.is_empty() { "none" } else { &units };
                format!(
                    "{}: type {value_type}, instances {}, semantics {semantics}, units {units}",
                    desc.pmid, desc.indom
                )
            }
            Pdu::DescIds(pmids) => {
                format!("descriptors of {} metrics: {}", pmids.len(), listed(pmids, SHOWN))
            }
            Pdu::Descs(descs) => {
                let found = descs.iter().flatten();
                let failed = descs.len() - found.clone().count();
                let pmids = listed(found.map(|desc| desc.pmid), SHOWN);
                format!("{} descriptors, {failed} failed: {pmids}", descs.len())
            }
            Pdu::InstanceReq(InstanceReq { indom, inst, name }) => match (*inst, name.is_empty()) {
                (PM_IN_NULL, true) => format!("all instances of {indom}"),
                (PM_IN_NULL, false) => {
                    format!("instance {:?} of {indom}", cut(&name.to_str_lossy(), TEXT))
                }
                (inst, _) => format!("name of instance {inst} of {indom}"),
            },
            Pdu::Instance(list) => {
                let each = list
                    .instances
                    .iter()
                    .map(|one| format!("{} {:?}", one.inst, cut(&one.name.to_str_lossy(), TEXT)));
                let (indom, count) = (list.indom, list.instances.len());
                format!("{count} instances of {indom}: {}", listed(each, SHOWN))
            }
            Pdu::TextReq(request) => {
                let level = match request.level {
                    TextLevel::OneLine => "one line",
                    TextLevel::Help => "full",
                };
                match request.target {
                    TextTarget::Metric(pmid) => format!("{level} help of metric {pmid}"),
                    TextTarget::InDom(indom) => format!("{level} help of instance domain {indom}"),
                }
            }
            Pdu::Text(text) => {
                format!("{} bytes: {:?}", text.text.len(), cut(&text.text.to_str_lossy(), TEXT))
            }
            Pdu::Creds(Creds { creds }) => listed(creds.iter().map(cred), SHOWN),
            Pdu::PmnsIds(ids) => {
                let bad = ids.ids.iter().filter(|id| **id == pcp_model::Pmid::NULL).count();
                format!(
                    "{} metrics, {bad} unknown, status {}: {}",
                    ids.ids.len(),
                    ids.status,
                    listed(&ids.ids, SHOWN)
                )
            }
            Pdu::PmnsNames(names) => names_line(names),
            Pdu::PmnsChild(child) => {
                let status = if child.status { ", and which are metrics" } else { "" };
                format!("names right below {:?}{status}", cut(&child.name.to_str_lossy(), TEXT))
            }
            Pdu::PmnsTraverse(name) => format!("metrics below {:?}", cut(&name.to_str_lossy(), TEXT)),
            Pdu::Attr(attr) => attr_line(attr),
            Pdu::LabelReq(target) => format!("labels of {target}"),
            Pdu::Label(labels) => {
                let sets = labels.sets.iter().map(|set| match &set.labels {
                    Ok(labels) if set.inst == PM_IN_NULL => format!("{} labels;", labels.len()),
                    Ok(labels) => format!("instance {}: {} labels;", set.inst, labels.len()),
                    Err(error) => format!("instance {}: {error};", set.inst),
                });
                let (count, target) = (labels.sets.len(), labels.target);
                format!("{count} sets of {target}: {}", listed(sets, SHOWN))
            }
        }
    }
}

fn error_line(error: &ErrorPdu) -> String {
    let code = error.code;
    match (error.challenge, error.error()) {
        (Some(challenge), None) => {
            format!("greeting, version {}, features {}", challenge.version, challenge.features)
        }
        (_, Some(_)) if error.challenge.is_some() => match error.as_greeting() {
            Err(reason) => format!("refused: {reason} ({code})"),
            Ok(_) => format!("refused: {code}"),
        },
        (_, Some(error)) => format!("{error} ({code})"),
        (None, None) if code > 0 => format!("changed: {}", StateChange(code as u32)),
        (None, None) => "no error".to_owned(),
    }
}

fn result_line(result: &ResultPdu) -> String {
    let sets = result.sets.iter().map(|set| match &set.values {
        Ok(values) => format!("{}: {};", set.pmid, values.len()),
        Err(error) => format!("{}: {error};", set.pmid),
    });
    let count = result.sets.len();
    format!("at {}, {count} metrics and their numbers of values: {}", result.timestamp, listed(sets, SHOWN))
}

fn names_line(names: &PmnsNames) -> String {
    match names {
        PmnsNames::Plain(names) => {
            let texts = names.iter().map(|name| cut(&name.to_str_lossy(), TEXT).to_owned());
            format!("{} names: {}", names.len(), listed(texts, SHOWN))
        }
        PmnsNames::WithStatus(names) => {
            let texts = names.iter().map(|(name, kind)| {
                let dot = if *kind == NodeKind::Leaf { "" } else { "." };
                format!("{}{dot}", cut(&name.to_str_lossy(), TEXT))
            });
            format!("{} names: {}", names.len(), listed(texts, SHOWN))
        }
        PmnsNames::Failed(error) => error.to_string(),
    }
}

fn attr_line(attr: &Attr) -> String {
    match (attr.code.words(), attr.code) {
        (Some(what), _) => format!("{what} {:?}", cut(&String::from_utf8_lossy(attr.value()), TEXT)),
        (None, AttrCode::SASL) => format!("authentication, {} bytes that are not shown", attr.payload.len()),
        (None, AttrCode(code)) => {
            format!("attribute {code}, {} bytes that are not shown", attr.payload.len())
        }
    }
}

fn cred(cred: &Cred) -> String {
    match cred {
        Cred::Version { version, flags } => format!("version {version}, wishes {flags}"),
        Cred::Other { kind, .. } => format!("credential {kind}"),
    }
}

impl fmt::Display for LabelTarget {
    /// In words: `metric 60.0.20`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            LabelTarget::Context => f.write_str("the source"),
            LabelTarget::Domain(domain) => write!(f, "domain {domain}"),
            LabelTarget::InDom(indom) => write!(f, "instance domain {indom}"),
            LabelTarget::Cluster(pmid) => write!(f, "cluster {}.{}", pmid.domain(), pmid.cluster()),
            LabelTarget::Item(pmid) => write!(f, "metric {pmid}"),
            LabelTarget::Instances(indom) => write!(f, "the instances of {indom}"),
        }
    }
}

fn state(state: ProfileState) -> &'static str {
    match state {
        ProfileState::Include => "all",
        ProfileState::Exclude => "none",
    }
}

/// Writes the names of the bits that are set.
fn write_flags<F: bitflags::Flags>(flags: &F, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut blank = "";
    for (name, _) in flags.iter_names() {
        write!(f, "{blank}{}", name.to_lowercase())?;
        blank = " ";
    }
    if blank.is_empty() { f.write_str("none") } else { Ok(()) }
}

impl fmt::Display for Features {
    /// The names of what the server can do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_flags(self, f)
    }
}

impl fmt::Display for CredFlags {
    /// The names of the wishes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_flags(self, f)
    }
}

impl fmt::Display for StateChange {
    /// The names of what has changed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_flags(self, f)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{Fetch, PmnsChild};
    use pcp_model::{PmError, Pmid};

    #[test]
    fn a_line_says_what_is_in_a_pdu() {
        let pmids: Vec<Pmid> = (0..20).map(|item| Pmid::new(60, 0, item)).collect();
        let sasl = Attr { code: AttrCode::SASL, payload: Bytes::from_static(b"PLAIN\0\0user\0secret") };
        let unknown = Attr { code: AttrCode(77), payload: Bytes::from_static(b"secret") };
        let container = Attr { code: AttrCode::CONTAINER, payload: Bytes::from_static(b"box\0") };
        for (pdu, expected) in [
            (
                Pdu::HighResFetch(Fetch { ctxid: 3, pmids }),
                "context 3, 20 metrics: 60.0.0 60.0.1 60.0.2 60.0.3 60.0.4 60.0.5 60.0.6 60.0.7 and 12 more",
            ),
            (Pdu::Error(ErrorPdu::failure(PmError::NAME)), "Unknown metric name (-12357)"),
            (
                Pdu::Error(ErrorPdu::greeting(Features::AUTH.union(Features::LABELS))),
                "greeting, version 2, features auth labels",
            ),
            (Pdu::Error(ErrorPdu::state_change(StateChange::NAMES)), "changed: names"),
            (Pdu::Attr(sasl), "authentication, 18 bytes that are not shown"),
            (Pdu::Attr(unknown), "attribute 77, 6 bytes that are not shown"),
            (Pdu::Attr(container), "container \"box\""),
            (
                Pdu::PmnsChild(PmnsChild { name: "a.b".into(), status: true }),
                "names right below \"a.b\", and which are metrics",
            ),
            (Pdu::LabelReq(LabelTarget::Cluster(Pmid::new(60, 2, 0))), "labels of cluster 60.2"),
        ] {
            assert_eq!(pdu.summary(), expected);
        }
    }
}
