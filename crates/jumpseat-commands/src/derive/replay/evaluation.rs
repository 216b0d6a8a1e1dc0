//! Cases of evaluation: `metrics`, `derived` and `samples`.

use serde_json::Value as Json;

use super::cases::{BadCase, Outcome, compare, registry};
use super::source::{Recorded, describe, describe_recorded, values};
use pcp_derive::{AddError, DerivedContext, Dialect, RegisterError, Registry, Scope};
use pcp_model::{FetchResult, InstanceValue, PmError, Pmid, Timestamp, Value, ValueSet, ValueType};

pub(super) fn replay(case: &Json, recorded: Option<&Json>, dialect: &Dialect) -> Result<Outcome, BadCase> {
    let want_syntax_error = match recorded.and_then(Json::as_str) {
        Some("syntax") => true,
        Some(_) => return Ok(Outcome::Undefined),
        None => false,
    };
    let mut replay = Replay {
        case,
        recorded,
        title: title(case)?,
        source: Recorded::new(case)?,
        registry: registry(case, dialect)?,
        context: DerivedContext::new(),
        derived: Vec::new(),
        types: Vec::new(),
    };
    match replay.define()? {
        Err(Refused { error: RegisterError::Syntax(_), .. }) if want_syntax_error => {
            return Ok(Outcome::Passed);
        }
        Err(Refused { expression, error }) => return Ok(Outcome::Failed(format!("{expression}\n  {error}"))),
        Ok(()) if want_syntax_error => return Ok(Outcome::Failed("expected a syntax error".to_owned())),
        Ok(()) => {}
    }
    let outcome = replay.descriptors()?;
    if outcome != Outcome::Passed {
        return Ok(outcome);
    }
    replay.samples()
}

/// All expressions of a case.
fn title(case: &Json) -> Result<String, BadCase> {
    let definitions = case["derived"].as_array().ok_or(BadCase::Field("derived"))?;
    let expressions: Vec<&str> = definitions.iter().filter_map(|d| d["expr"].as_str()).collect();
    Ok(expressions.join(" ; "))
}

/// A case being replayed.
struct Replay<'a> {
    case: &'a Json,
    /// Where another release differs.
    recorded: Option<&'a Json>,
    title: String,
    source: Recorded,
    registry: Registry,
    context: DerivedContext,
    /// Names and PMIDs of the definitions.
    derived: Vec<(&'a str, Pmid)>,
    types: Vec<(Pmid, ValueType)>,
}

/// A definition that is not taken.
struct Refused<'a> {
    expression: &'a str,
    error: RegisterError,
}

impl<'a> Replay<'a> {
    fn definitions(&self) -> Result<&'a [Json], BadCase> {
        self.case["derived"].as_array().map(Vec::as_slice).ok_or(BadCase::Field("derived"))
    }

    fn define(&mut self) -> Result<Result<(), Refused<'a>>, BadCase> {
        for definition in self.definitions()? {
            let name = definition["name"].as_str().ok_or(BadCase::Field("name"))?;
            let expression = definition["expr"].as_str().ok_or(BadCase::Field("expr"))?;
            let pmid = match definition["scope"] == "context" {
                true => self.add(name, expression),
                false => self.registry.register(name, expression),
            };
            match pmid {
                Ok(pmid) => self.derived.push((name, pmid)),
                Err(error) => return Ok(Err(Refused { expression, error })),
            }
        }
        Ok(Ok(()))
    }

    /// A definition of the context's own. One that does not bind is there all the same.
    fn add(&mut self, name: &str, expression: &str) -> Result<Pmid, RegisterError> {
        match self.context.attach(&self.registry, &mut self.source).add(name, expression) {
            Ok(pmid) => Ok(pmid),
            Err(AddError::Broken(_)) => {
                self.context.pmid(name).ok_or(RegisterError::Exhausted(Scope::Context))
            }
            Err(AddError::Refused(error)) => Err(error),
        }
    }

    fn descriptors(&mut self) -> Result<Outcome, BadCase> {
        let definitions = self.definitions()?;
        for (at, (&(name, pmid), definition)) in self.derived.iter().zip(definitions).enumerate() {
            let expected = self.recorded.and_then(|r| r["desc"].get(at)).unwrap_or(&definition["desc"]);
            let wanted = match expected["error"].as_i64() {
                Some(code) => format!("error {code}"),
                None => describe_recorded(expected)?,
            };
            let meta = self.context.attach(&self.registry, &mut self.source).meta(pmid);
            self.types.push((pmid, meta.map_or(ValueType::Unknown, |meta| meta.value_type)));
            let found = match meta {
                Ok(meta) => describe(meta, self.registry.dialect().level),
                Err(code) => format!("error {}", code.0),
            };
            let outcome = compare(&format!("{}: {name}", self.title), wanted, found);
            if outcome != Outcome::Passed {
                return Ok(outcome);
            }
        }
        Ok(Outcome::Passed)
    }

    fn samples(&mut self) -> Result<Outcome, BadCase> {
        let samples = self.case["samples"].as_array().ok_or(BadCase::Field("samples"))?;
        for (at, sample) in samples.iter().enumerate() {
            self.source.sample = at as u64;
            // Interpolating archives look names up at the time of the next sample.
            self.source.lookup = at as u64 + u64::from(self.case["mode"] == "interp");
            let found = self.fetch(sample)?;
            let out = self.recorded.and_then(|r| r["out"].get(at)).unwrap_or(&sample["out"]);
            for (n, set) in found.sets.iter().enumerate() {
                let value_type = self.types.iter().find(|(pmid, _)| *pmid == set.pmid);
                let wanted = values(&out[n], value_type.map_or(ValueType::Unknown, |t| t.1), false)?;
                if !same(&wanted, &set.values) {
                    let what = format!("{}: sample {at}, value set {n}", self.title);
                    return Ok(Outcome::Failed(format!(
                        "{what}\n  expected {wanted:?}\n  found    {:?}",
                        set.values
                    )));
                }
            }
        }
        Ok(Outcome::Passed)
    }

    /// The fetch of a sample: of the metrics it names, or of all.
    fn fetch(&mut self, sample: &Json) -> Result<FetchResult, BadCase> {
        let time = |n: usize| sample["t"][n].as_i64().ok_or(BadCase::Field("t"));
        let timestamp = Timestamp::new(time(0)?, time(1)? as u32);
        let find = |name: &Json| self.derived.iter().find(|(other, _)| name == other).map(|&(_, pmid)| pmid);
        let request: Vec<Pmid> = match sample["fetch"].as_array() {
            Some(names) => names.iter().map(find).collect::<Option<_>>().ok_or(BadCase::Field("fetch"))?,
            None => self.derived.iter().map(|&(_, pmid)| pmid).collect(),
        };
        let mut wanted = request.clone();
        self.context.attach(&self.registry, &mut self.source).expand(&mut wanted);
        let mut sets = Vec::new();
        for name in sample["in"].as_object().into_iter().flat_map(|values| values.keys()) {
            let (pmid, values) = self.source.values(name, sample)?;
            sets.push(ValueSet { pmid, values });
        }
        // What the source says when it is asked for derived metrics.
        let own_answer = match self.case["mode"].as_str() {
            Some("local") => Err(PmError::NOAGENT),
            Some("interp") => Err(PmError::PMID_LOG),
            _ => Ok(Vec::new()),
        };
        let derived = wanted.iter().filter(|pmid| pmid.is_derived());
        sets.extend(derived.map(|&pmid| ValueSet { pmid, values: own_answer.clone() }));
        let mut attached = self.context.attach(&self.registry, &mut self.source);
        Ok(attached.answer(&request, &FetchResult { timestamp, sets }))
    }
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
