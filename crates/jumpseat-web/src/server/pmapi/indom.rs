//! `/pmapi/indom`: an instance domain, its instances and their labels.
//!
//! Labels are those of the host, the agent, the domain and the instance, always: in real servers they depend on earlier requests (D18).

use std::collections::HashMap;

use pcp_client::{ClientError, LabelTarget, TextTarget};
use pcp_model::{InDom, Inst, Instance, Label, PmError};
use serde::ser::{Serialize, SerializeSeq as _, Serializer};

use super::call::{Call, Deadline, Output, refused};
use super::choice::Choice;
use super::labels::{Labels, Merged, levels_of_indom};
use super::metric::{Identifier, texts};
use super::session::Session;
use crate::server::answer::Refusal;
use crate::server::query::Query;

pub(super) fn indom(call: &Call, session: &mut Session, number: u32) -> Result<Output, Refusal> {
    #[derive(serde::Serialize)]
    struct Form<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        context: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        client: Option<&'a str>,
        indom: Identifier,
        labels: &'a Merged<'a>,
        #[serde(rename = "text-oneline", skip_serializing_if = "Option::is_none")]
        one_line: Option<&'a str>,
        #[serde(rename = "text-help", skip_serializing_if = "Option::is_none")]
        long: Option<&'a str>,
        instances: Instances<'a>,
    }
    let choice = Choice::read(&call.query)?;
    let text = call.query.get("indom").unwrap_or_default();
    let indom = match meant(session, &call.query)? {
        Meant::Domain(indom) => indom,
        Meant::None | Meant::NoDomain => return Err(Refusal::bad(format!("failed to lookup indom {text}"))),
    };
    let instances = instances(session, indom)?;
    let help = texts(&mut session.context, std::iter::once(TextTarget::InDom(indom)))?;
    let help = help.into_iter().next().unwrap_or_default();
    let mut labels = Labels::default();
    let levels = levels_of_indom(indom);
    labels.look_up(&mut session.context, levels.into_iter().chain([LabelTarget::Instances(indom)]))?;
    let merged = &labels.merged(&levels, false);
    let instances = Instances { all: &instances, choice: &choice, merged, own: labels.by_instance(indom) };
    Output::json(&Form {
        context: (!call.raw).then_some(number),
        client: call.client(),
        indom: Identifier::indom(indom, call.raw),
        labels: merged,
        one_line: help.one_line.as_deref(),
        long: help.long.as_deref(),
        instances,
    })
}

/// A domain that a request is about.
pub(super) enum Meant {
    /// It names none.
    None,
    Domain(InDom),
    /// What it names is none.
    NoDomain,
}

/// The domain of the metric `name`, or `indom`.
///
/// # Errors
/// `name` is no metric, or one without a domain.
pub(super) fn meant(session: &mut Session, query: &Query) -> Result<Meant, Refusal> {
    if let Some(name) = query.get("name") {
        let found = session.metrics(&[name], Deadline::new())?;
        let Some(Some((_, desc))) = found.first() else {
            return Err(Refusal::bad(format!("{name} - failed to lookup metric")));
        };
        if desc.indom == InDom::NULL {
            return Err(Refusal::bad(format!("{name} - metric has null indom")));
        }
        return Ok(Meant::Domain(desc.indom));
    }
    let Some(text) = query.get("indom") else { return Ok(Meant::None) };
    Ok(parse(text).map_or(Meant::NoDomain, Meant::Domain))
}

/// All instances of a domain; none of one that there is not.
///
/// # Errors
/// Those of the source as a whole.
pub(super) fn instances(session: &mut Session, indom: InDom) -> Result<Vec<Instance>, Refusal> {
    match session.context.instances(indom) {
        Ok(instances) => Ok(instances),
        Err(ClientError::Pcp(error)) if error != PmError::IPC => Ok(Vec::new()),
        Err(error) => Err(refused(&error)),
    }
}

/// `29.1`, a decimal number or one in hexadecimal.
fn parse(text: &str) -> Option<InDom> {
    text.parse().ok().or_else(|| identifier(text).map(InDom)).filter(|&indom| indom != InDom::NULL)
}

/// A number as C has it, decimal or with `0x`.
pub(super) fn identifier(text: &str) -> Option<u32> {
    let are = |text: &str, radix| !text.is_empty() && text.chars().all(|c| c.is_digit(radix));
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if are(digits, 16) => u32::from_str_radix(digits, 16).ok(),
        None if are(text, 10) => text.parse().ok(),
        _ => None,
    }
}

struct Instances<'a> {
    all: &'a [Instance],
    choice: &'a Choice,
    merged: &'a Merged<'a>,
    own: HashMap<Inst, &'a [Label]>,
}

impl Serialize for Instances<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Form<'a> {
            instance: u32,
            name: &'a str,
            labels: &'a Merged<'a>,
        }
        let mut seq = serializer.serialize_seq(None)?;
        for instance in self.all.iter().filter(|instance| self.choice.has(instance)) {
            let mut labels = self.merged.clone();
            labels.add(self.own.get(&instance.id).copied().unwrap_or_default(), false);
            let form = Form { instance: instance.id.cast_unsigned(), name: &instance.name, labels: &labels };
            seq.serialize_element(&form)?;
        }
        seq.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_written_in_three_ways() {
        let is = Some(InDom::new(29, 1));
        for (text, indom) in [
            ("29.1", is),
            ("121634817", is),
            ("0x7400001", is),
            ("0X7400001", is),
            ("xyz", None),
            ("", None),
            ("0x", None),
            ("-1", None),
            ("4294967295", None),
            ("999.1", None),
        ] {
            assert_eq!(parse(text), indom, "{text}");
        }
    }
}
