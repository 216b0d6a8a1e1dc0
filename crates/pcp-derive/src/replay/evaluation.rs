//! Cases of evaluation: `metrics`, `derived` and `samples`.

use serde_json::Value as Json;

use super::source::{Recorded, describe, describe_recorded, values};
use super::{BadCase, Outcome, compare, registry};
use crate::context::{AddError, Context};
use crate::dialect::Dialect;
use crate::registry::{RegisterError, is_derived};
use pcp_model::{FetchResult, InstanceValue, PmError, Pmid, Timestamp, Value, ValueSet, ValueType};

pub(super) fn replay(case: &Json, recorded: Option<&Json>, dialect: &Dialect) -> Result<Outcome, BadCase> {
    let want_syntax_error = match recorded.and_then(Json::as_str) {
        Some("syntax") => true,
        Some(_) => return Ok(Outcome::Undefined),
        None => false,
    };
    let mut source = Recorded::new(case)?;
    let mut registry = registry(case, dialect)?;
    let mut context = Context::new();
    let definitions = case["derived"].as_array().ok_or(BadCase::Field("derived"))?;
    let mut derived = Vec::new();
    for definition in definitions {
        let name = definition["name"].as_str().ok_or(BadCase::Field("name"))?;
        let expression = definition["expr"].as_str().ok_or(BadCase::Field("expr"))?;
        let pmid = if definition["scope"] == "context" {
            match context.add(&registry, &mut source, name, expression) {
                Ok(pmid) => Ok(pmid),
                Err(AddError::Broken(_)) => {
                    context.pmid(&registry, name).ok_or(RegisterError::Exhausted(crate::Scope::Context))
                }
                Err(AddError::Refused(error)) => Err(error),
            }
        } else {
            registry.register(name, expression)
        };
        match pmid {
            Ok(pmid) => derived.push((name, pmid)),
            Err(RegisterError::Syntax(_)) if want_syntax_error => return Ok(Outcome::Passed),
            Err(error) => return Ok(Outcome::Failed(format!("{expression}\n  {error}"))),
        }
    }
    if want_syntax_error {
        return Ok(Outcome::Failed("expected a syntax error".to_owned()));
    }
    let expressions: Vec<&str> = definitions.iter().filter_map(|d| d["expr"].as_str()).collect();
    let title = expressions.join(" ; ");
    let mut types = Vec::new();
    for (at, (&(name, pmid), definition)) in derived.iter().zip(definitions).enumerate() {
        let expected = recorded.and_then(|r| r["desc"].get(at)).unwrap_or(&definition["desc"]);
        let wanted = match expected["error"].as_i64() {
            Some(code) => format!("error {code}"),
            None => describe_recorded(expected)?,
        };
        let meta = context.meta(&registry, &mut source, pmid);
        types.push((pmid, meta.map_or(ValueType::Unknown, |meta| meta.value_type)));
        let found = match meta {
            Ok(meta) => describe(meta, dialect.level),
            Err(code) => format!("error {}", code.0),
        };
        let outcome = compare(&format!("{title}: {name}"), wanted, found);
        if outcome != Outcome::Passed {
            return Ok(outcome);
        }
    }
    let answer = match case["mode"].as_str() {
        Some("local") => Err(PmError::NOAGENT),
        Some("interp") => Err(PmError::PMID_LOG),
        _ => Ok(Vec::new()),
    };
    let samples = case["samples"].as_array().ok_or(BadCase::Field("samples"))?;
    for (at, sample) in samples.iter().enumerate() {
        source.sample = at as u64;
        // Interpolating archives look names up at the time of the next sample.
        source.lookup = at as u64 + u64::from(case["mode"] == "interp");
        let time = |n: usize| sample["t"][n].as_i64().ok_or(BadCase::Field("t"));
        let timestamp = Timestamp::new(time(0)?, time(1)? as u32);
        let mut request: Vec<Pmid> = derived.iter().map(|&(_, pmid)| pmid).collect();
        if let Some(names) = sample["fetch"].as_array() {
            let find = |name: &Json| derived.iter().find(|(other, _)| name == other).map(|&(_, pmid)| pmid);
            request = names.iter().map(find).collect::<Option<_>>().ok_or(BadCase::Field("fetch"))?;
        }
        let mut wanted = request.clone();
        context.expand(&registry, &mut source, &mut wanted);
        let mut sets = Vec::new();
        for name in sample["in"].as_object().into_iter().flat_map(|values| values.keys()) {
            let (pmid, values) = source.values(name, sample)?;
            sets.push(ValueSet { pmid, values });
        }
        for &pmid in wanted.iter().filter(|&&pmid| is_derived(pmid)) {
            sets.push(ValueSet { pmid, values: answer.clone() });
        }
        let found = context.rewrite(&registry, &mut source, &request, FetchResult { timestamp, sets });
        let out = recorded.and_then(|r| r["out"].get(at)).unwrap_or(&sample["out"]);
        for (n, set) in found.sets.iter().enumerate() {
            let value_type =
                types.iter().find(|(pmid, _)| *pmid == set.pmid).map_or(ValueType::Unknown, |t| t.1);
            let wanted = values(&out[n], value_type, false)?;
            if !same(&wanted, &set.values) {
                let what = format!("{title}: sample {at}, value set {n}");
                return Ok(Outcome::Failed(format!(
                    "{what}\n  expected {wanted:?}\n  found    {:?}",
                    set.values
                )));
            }
        }
    }
    Ok(Outcome::Passed)
}

fn same(a: &Result<Vec<InstanceValue>, PmError>, b: &Result<Vec<InstanceValue>, PmError>) -> bool {
    let same_value = |a: &Value, b: &Value| match (a, b) {
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
        (Value::Double(a), Value::Double(b)) => a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
        (a, b) => a == b,
    };
    match (a, b) {
        (Ok(a), Ok(b)) => {
            a.len() == b.len()
                && a.iter().zip(b).all(|(a, b)| a.inst == b.inst && same_value(&a.value, &b.value))
        }
        (Err(a), Err(b)) => a == b,
        _ => false,
    }
}
