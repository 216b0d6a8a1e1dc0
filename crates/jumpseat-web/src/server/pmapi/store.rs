//! `/pmapi/store`: changes values of a metric, where `--allow-store` lets clients.

use std::collections::HashSet;

use http::StatusCode;
use pcp_model::{Desc, InDom, Inst, InstanceValue, PM_IN_NULL, PmError, Pmid, Value, ValueSet, ValueType};

use super::call::{Call, Output, coded};
use super::choice::{Choice, Names};
use super::indom::{identifier, instances};
use super::session::Session;
use crate::server::answer::Refusal;

pub(super) fn store(call: &Call, session: &mut Session, number: u32, may: bool) -> Result<Output, Refusal> {
    let (name, pmid, desc) = metric(call, session)?;
    let failed = |code: PmError| coded(&format!("failed to store value to metric {name}: "), code);
    if !may {
        return Err(Refusal { status: StatusCode::FORBIDDEN, ..failed(PmError::PERMISSION) });
    }
    let text = call.query.get("value").unwrap_or(&call.body);
    let value = match desc.value_type {
        ValueType::String => Value::parse(text, desc.value_type),
        _ if text.trim().is_empty() => Err(PmError::TYPE),
        _ => Value::parse(text, desc.value_type),
    };
    let value = value.map_err(failed)?;
    let chosen = chosen(call, session, &desc)?;
    if chosen.is_empty() {
        return Err(failed(PmError::INST));
    }
    let values = chosen.into_iter().map(|inst| InstanceValue { inst, value: value.clone() });
    let set = ValueSet { pmid, values: Ok(values.collect()) };
    session.context.store(&[set]).map_err(|error| failed(error.code()))?;
    Output::success(number)
}

/// The metric, and what errors call it.
fn metric(call: &Call, session: &mut Session) -> Result<(String, Pmid, Desc), Refusal> {
    if let Some(name) = call.query.get("name") {
        let found = session.metrics(&[name])?.into_iter().next().flatten();
        let (pmid, desc) = found.ok_or_else(|| Refusal::bad(format!("{name} - failed to lookup metric")))?;
        return Ok((name.to_owned(), pmid, desc));
    }
    let text = call.query.get("pmid").unwrap_or_default();
    let pmid = text.parse().ok().or_else(|| identifier(text).map(Pmid));
    let desc = match pmid {
        Some(pmid) => {
            session.descs(&[pmid])?.into_iter().next().and_then(Result::ok).map(|desc| (pmid, desc))
        }
        None => None,
    };
    let (pmid, desc) = desc.ok_or_else(|| Refusal::bad(format!("{text} - failed to lookup PMID")))?;
    Ok((text.to_owned(), pmid, desc))
}

/// The instances that are named, if they are there; of a metric without instances the one.
fn chosen(call: &Call, session: &mut Session, desc: &Desc) -> Result<Vec<Inst>, Refusal> {
    let choice = Choice::read(&call.query)?;
    if desc.indom == InDom::NULL {
        return Ok(vec![PM_IN_NULL]);
    }
    if matches!(choice, Choice::All) {
        return Ok(Vec::new());
    }
    let all = instances(session, desc.indom)?;
    // Better none than some of those that were named.
    let is_there = |name: &String| all.iter().any(|instance| instance.name == *name);
    let is_complete = match &choice {
        Choice::Names(Names::Exact(names)) => names.iter().all(is_there),
        Choice::Numbers(numbers) => {
            let known: HashSet<Inst> = all.iter().map(|instance| instance.id).collect();
            numbers.is_subset(&known)
        }
        _ => true,
    };
    if !is_complete {
        return Ok(Vec::new());
    }
    Ok(all.iter().filter(|instance| choice.has(instance)).map(|instance| instance.id).collect())
}
