//! A recorded case as a source of metadata and values.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::cases::BadCase;
use pcp_derive::{Level, Meta, MetricSource};
use pcp_model::{
    ExtraUnit, InDom, Inst, InstanceValue, PM_IN_NULL, PmError, Pmid, Semantics, Units, Value, ValueType,
};

/// The metrics and instance domains of a case.
pub(super) struct Recorded {
    metrics: HashMap<String, (Pmid, Result<Meta, PmError>)>,
    indoms: Vec<(InDom, Vec<Valid>)>,
    /// The sample that is being fetched, and the one whose instances a lookup by name sees.
    pub sample: u64,
    pub lookup: u64,
}

/// Instances from a sample on.
struct Valid {
    from: u64,
    instances: Vec<(Inst, String)>,
}

/// The domain of recorded metrics, which have no PMIDs.
const DOMAIN: u16 = 245;

impl Recorded {
    pub(super) fn new(case: &Json) -> Result<Recorded, BadCase> {
        let mut metrics = HashMap::new();
        let list = case["metrics"].as_array().ok_or(BadCase::Field("metrics"))?;
        for (metric, n) in list.iter().zip(0u16..) {
            let name = metric["name"].as_str().ok_or(BadCase::Field("name"))?;
            if metric.get("lookup").is_some() {
                // Not a leaf: its name has no PMID.
                continue;
            }
            let meta = match metric["error"].as_i64() {
                Some(code) => Err(PmError(code as i32)),
                None => Ok(meta(metric)?),
            };
            metrics.insert(name.to_owned(), (Pmid::new(DOMAIN, n >> 10, n & 0x3ff), meta));
        }
        let mut indoms = Vec::new();
        if let Some(recorded) = case["indoms"].as_object() {
            for (indom, valid) in recorded {
                let indom = indom.parse().map_err(|_| BadCase::Field("indoms"))?;
                let valid = valid.as_array().ok_or(BadCase::Field("indoms"))?;
                indoms.push((indom, valid.iter().map(instances).collect::<Result<_, _>>()?));
            }
        }
        Ok(Recorded { metrics, indoms, sample: 0, lookup: 0 })
    }

    /// The values of a sample, or none where it has none.
    pub(super) fn values(
        &self,
        name: &str,
        sample: &Json,
    ) -> Result<(Pmid, Result<Vec<InstanceValue>, PmError>), BadCase> {
        let (pmid, meta) = self.metrics.get(name).ok_or(BadCase::Field("in"))?;
        let value_type = meta.map_or(ValueType::Unknown, |meta| meta.value_type);
        let in_situ = sample["infmt"][name] == "insitu";
        Ok((*pmid, values(&sample["in"][name], value_type, in_situ)?))
    }

    fn instances_of(&self, indom: InDom, sample: u64) -> Option<&[(Inst, String)]> {
        let (_, valid) = self.indoms.iter().find(|(other, _)| *other == indom)?;
        let valid = valid.iter().rev().find(|valid| valid.from <= sample).or(valid.first())?;
        Some(&valid.instances)
    }
}

impl MetricSource for Recorded {
    fn pmid(&mut self, name: &str) -> Result<Pmid, PmError> {
        self.metrics.get(name).map(|(pmid, _)| *pmid).ok_or(PmError::NAME)
    }

    fn meta(&mut self, pmid: Pmid) -> Result<Meta, PmError> {
        let metric = self.metrics.values().find(|(other, _)| *other == pmid);
        metric.map_or(Err(PmError::PMID), |(_, meta)| *meta)
    }

    /// As archives look names up: if no name is the same, the first word of a name will do that the
    /// text begins with.
    fn instance(&mut self, indom: InDom, name: &str) -> Result<Inst, PmError> {
        let instances = self.instances_of(indom, self.lookup).ok_or(PmError::INDOM_LOG)?;
        let exact = instances.iter().find(|(_, other)| other == name);
        let word = || {
            instances
                .iter()
                .find(|(_, other)| other.split_once(' ').is_some_and(|(word, _)| name.starts_with(word)))
        };
        exact.or_else(word).map(|(inst, _)| *inst).ok_or(PmError::INST_LOG)
    }

    fn instance_name(
        &mut self,
        indom: InDom,
        inst: Inst,
        found: &mut dyn FnMut(&str),
    ) -> Result<(), PmError> {
        let instances = self.instances_of(indom, self.sample).ok_or(PmError::INDOM_LOG)?;
        let (_, name) = instances.iter().find(|(other, _)| *other == inst).ok_or(PmError::INST_LOG)?;
        found(name);
        Ok(())
    }

    fn instances(&mut self, indom: InDom, out: &mut Vec<Inst>) -> Result<(), PmError> {
        let instances = self.instances_of(indom, self.lookup).ok_or(PmError::INDOM_LOG)?;
        let start = out.len();
        out.extend(instances.iter().map(|(inst, _)| *inst));
        out[start..].sort_unstable();
        Ok(())
    }
}

fn instances(valid: &Json) -> Result<Valid, BadCase> {
    let bad = || BadCase::Field("inst");
    let instance = |pair: &Json| {
        let id = pair[0].as_i64().and_then(|id| Inst::try_from(id).ok()).ok_or_else(bad)?;
        Ok((id, pair[1].as_str().ok_or_else(bad)?.to_owned()))
    };
    let list = valid["inst"].as_array().ok_or_else(bad)?;
    let instances = list.iter().map(instance).collect::<Result<_, BadCase>>()?;
    Ok(Valid { from: valid["from"].as_u64().ok_or_else(bad)?, instances })
}

/// A descriptor of a case.
pub(super) fn meta(json: &Json) -> Result<Meta, BadCase> {
    let kind = json["type"].as_str().ok_or(BadCase::Field("type"))?;
    let kind = if kind == "NOSUPPORT" { "NO_SUPPORT" } else { kind };
    let value_type = (-1..=10).map(ValueType::from_code).find(|t| t.name() == kind);
    let indom = match json["indom"].as_str() {
        Some(indom) => indom.parse().map_err(|_| BadCase::Field("indom"))?,
        None => InDom::NULL,
    };
    let semantics = json["sem"].as_str().ok_or(BadCase::Field("sem"))?;
    let semantics = [Semantics::Counter, Semantics::Instant, Semantics::Discrete]
        .into_iter()
        .find(|s| s.name() == semantics);
    let numbers = json["units"].as_array().ok_or(BadCase::Field("units"))?;
    let number = |at: usize| numbers.get(at).and_then(Json::as_i64).unwrap_or(0) as i8;
    let units = Units {
        extra: ExtraUnit { unit: number(6), scale: number(7) as u8 }.to_byte(),
        ..Units::dimension(number(0), number(1), number(2), number(3) as u8, number(4) as u8, number(5))
    };
    let value_type = value_type.ok_or(BadCase::Field("type"))?;
    Ok(Meta { value_type, indom, semantics, units })
}

/// A descriptor in words, for comparing.
pub(super) fn describe(meta: Meta, level: Level) -> String {
    let text =
        if level >= Level::V721 { meta.units.with_extra().to_string() } else { meta.units.to_string() };
    let units = if level >= Level::V721 { meta.units } else { Units { extra: 0, ..meta.units } };
    let semantics = meta.semantics.map_or("0", Semantics::name);
    let word = units.to_word();
    format!("{} {semantics} {} {word:#010x} '{text}'", meta.value_type.name(), meta.indom)
}

/// A descriptor as recorded, in the same words.
pub(super) fn describe_recorded(json: &Json) -> Result<String, BadCase> {
    let meta = meta(json)?;
    let semantics = json["sem"].as_str().unwrap_or_default();
    let text = json["unitstr"].as_str().unwrap_or_default();
    let word = meta.units.to_word();
    Ok(format!("{} {semantics} {} {word:#010x} '{text}'", meta.value_type.name(), meta.indom))
}

/// A value set of a case.
pub(super) fn values(
    json: &Json,
    value_type: ValueType,
    in_situ: bool,
) -> Result<Result<Vec<InstanceValue>, PmError>, BadCase> {
    if let Some(code) = json.as_i64() {
        return Ok(if code < 0 { Err(PmError(code as i32)) } else { Ok(Vec::new()) });
    }
    let Some(list) = json.as_array() else {
        return Ok(Ok(Vec::new()));
    };
    let value = |pair: &Json| {
        let inst = pair[0].as_i64().and_then(|id| Inst::try_from(id).ok()).unwrap_or(PM_IN_NULL);
        let text = pair[1].as_str().ok_or(BadCase::Field("value"))?;
        let value = value(text, value_type)?;
        Ok(InstanceValue { inst, value: if in_situ { as_word(&value) } else { value } })
    };
    list.iter().map(value).collect::<Result<Vec<_>, BadCase>>().map(Ok)
}

/// A value as it looks in the four bytes of the in-situ encoding.
fn as_word(value: &Value) -> Value {
    Value::U32(match value {
        Value::Float(v) => v.to_bits(),
        Value::I32(v) => *v as u32,
        Value::U32(v) => *v,
        _ => 0,
    })
}

fn value(text: &str, value_type: ValueType) -> Result<Value, BadCase> {
    fn parse<T: std::str::FromStr>(text: &str) -> Result<T, BadCase> {
        text.parse().map_err(|_| BadCase::Field("value"))
    }
    let bytes = || -> Option<Vec<u8>> {
        (0..text.len() / 2).map(|i| u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok()).collect()
    };
    Ok(match value_type {
        ValueType::I32 | ValueType::NoSupport | ValueType::Unknown => Value::I32(parse(text)?),
        ValueType::U32 => Value::U32(parse(text)?),
        ValueType::I64 => Value::I64(parse(text)?),
        ValueType::U64 => Value::U64(parse(text)?),
        ValueType::Float => Value::Float(parse(text)?),
        ValueType::Double => Value::Double(parse(text)?),
        ValueType::String => Value::from(text.to_owned()),
        ValueType::Aggregate | ValueType::AggregateStatic => {
            Value::Aggregate(bytes().ok_or(BadCase::Field("value"))?.into())
        }
        ValueType::Event => Value::Event(bytes().ok_or(BadCase::Field("value"))?.into()),
        ValueType::HighResEvent => Value::HighResEvent(bytes().ok_or(BadCase::Field("value"))?.into()),
    })
}
