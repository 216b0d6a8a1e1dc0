//! The library's answers to a batch, in the oracle's words.

use std::fmt::Write;
use std::sync::Arc;

use pcp_derive::{AddError, Bound, DerivedContext, Dialect, Level, Meta, MetricSource, Registry, Scope};
use pcp_model::{FetchResult, InDom, Inst, InstanceValue, PmError, Pmid, Semantics, Value, ValueSet};

use super::generate::Batch;
use super::world::{DOMAIN, INDOMS, Set, World, hex};

/// The world at a sample.
struct At<'a> {
    world: &'a World,
    sample: usize,
}

impl At<'_> {
    fn instances_of(&self, indom: InDom) -> Result<&[(Inst, &'static str)], PmError> {
        let at = INDOMS.iter().position(|&serial| indom == InDom::new(DOMAIN, serial));
        at.map(|at| self.world.samples[self.sample].instances[at].as_slice()).ok_or(PmError::INDOM)
    }
}

impl MetricSource for At<'_> {
    fn pmid(&mut self, name: &str) -> Result<Pmid, PmError> {
        let metric = self.world.metrics.iter().find(|metric| metric.name == name);
        metric.map(|metric| metric.pmid).ok_or(PmError::NAME)
    }

    fn meta(&mut self, pmid: Pmid) -> Result<Meta, PmError> {
        let (_, metric) = self.world.metric(pmid).ok_or(PmError::PMID)?;
        let (value_type, indom, units) = (metric.value_type, metric.indom, metric.units);
        let semantics = Some(metric.semantics);
        metric.error.map_or(Ok(Meta { value_type, indom, semantics, units }), Err)
    }

    fn instance(&mut self, indom: InDom, name: &str) -> Result<Inst, PmError> {
        let mut instances = self.instances_of(indom)?.iter();
        instances.find(|(_, other)| *other == name).map(|(id, _)| *id).ok_or(PmError::INST)
    }

    fn instance_name(
        &mut self,
        indom: InDom,
        inst: Inst,
        found: &mut dyn FnMut(&str),
    ) -> Result<(), PmError> {
        let mut instances = self.instances_of(indom)?.iter();
        let (_, name) = instances.find(|(id, _)| *id == inst).ok_or(PmError::INST)?;
        found(name);
        Ok(())
    }

    fn instances(&mut self, indom: InDom, out: &mut Vec<Inst>) -> Result<(), PmError> {
        out.extend(self.instances_of(indom)?.iter().map(|(id, _)| *id));
        Ok(())
    }
}

/// The values of a set as a fetch delivers them: what is in the wrong format is four bytes.
fn delivered(set: &Set) -> Result<Vec<InstanceValue>, PmError> {
    let word = |value: &Value| match value {
        Value::I32(_) | Value::U32(_) => value.clone(),
        Value::I64(v) => Value::U32(*v as u32),
        Value::U64(v) => Value::U32(*v as u32),
        Value::Float(v) => Value::U32(v.to_bits()),
        Value::Double(v) => Value::U32(v.to_bits() as u32),
        _ => Value::U32(0),
    };
    let values = set.values.as_ref().map_err(|error| *error)?.iter();
    Ok(values
        .map(|(inst, value)| InstanceValue {
            inst: *inst,
            value: if set.in_situ { word(value) } else { value.clone() },
        })
        .collect())
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

fn describe(meta: Meta) -> String {
    let u = meta.units;
    format!(
        "type {} indom {:#x} sem {} units {} {} {} {} {} {}",
        meta.value_type.code(),
        meta.indom.0,
        meta.semantics.map_or(0, Semantics::code),
        u.dim_space,
        u.dim_time,
        u.dim_count,
        u.scale_space,
        u.scale_time,
        u.scale_count
    )
}

fn describe_value(value: &Value) -> String {
    match value {
        Value::I32(v) => v.to_string(),
        Value::U32(v) => v.to_string(),
        Value::I64(v) => v.to_string(),
        Value::U64(v) => v.to_string(),
        Value::Float(v) if v.is_nan() => "nan".to_owned(),
        Value::Float(v) => format!("f{:08x}", v.to_bits()),
        Value::Double(v) if v.is_nan() => "nan".to_owned(),
        Value::Double(v) => format!("d{:016x}", v.to_bits()),
        Value::String(v) | Value::Aggregate(v) | Value::Event(v) | Value::HighResEvent(v) => {
            format!("x{}", hex(v))
        }
    }
}

/// Registers, binds and fetches, and says what came of it; and how each definition is bound.
pub(super) fn answer(batch: &Batch, level: Level) -> (Vec<String>, Vec<Option<Arc<Bound>>>) {
    let mut lines = Vec::new();
    let mut source = At { world: &batch.world, sample: 0 };
    let mut registry = Registry::new(Dialect::strict(level));
    registry.initialise();
    let mut context = DerivedContext::new();
    let definitions = || batch.definitions.iter().enumerate();
    for (k, definition) in definitions().filter(|(_, d)| d.scope == Scope::Global) {
        let (name, expression) = (&definition.name, &definition.expression);
        let (code, text) = match registry.register(name, expression) {
            Ok(_) => (0, String::new()),
            Err(error) => (-1, error.report(name, expression)),
        };
        lines.push(format!("reg {k} {code} {}", escape(&text)));
    }
    context.refresh(&registry);
    for (k, definition) in definitions().filter(|(_, d)| d.scope == Scope::Context) {
        let (name, expression) = (&definition.name, &definition.expression);
        let (code, text) = match context.attach(&registry, &mut source).add(name, expression) {
            Ok(_) => (0, String::new()),
            Err(error @ (AddError::Refused(_) | AddError::Broken(_))) => {
                (PmError::BADDERIVE.0, error.report(name, expression))
            }
        };
        lines.push(format!("reg {k} {code} {}", escape(&text)));
        messages(&mut lines, k, &mut context);
    }
    let (mut pmids, mut bindings) = (Vec::new(), Vec::new());
    for (k, definition) in definitions() {
        let name = &definition.name;
        let Some(pmid) = source.pmid(name).ok().or_else(|| context.refresh(&registry).pmid(name)) else {
            lines.push(format!("desc {k} {}", PmError::NAME.0));
            pmids.push(None);
            bindings.push(None);
            continue;
        };
        pmids.push(Some(pmid));
        let meta = match pmid.is_derived() {
            true => context.attach(&registry, &mut source).meta(pmid),
            false => source.meta(pmid),
        };
        let meta = meta.map_or_else(|error| error.0.to_string(), describe);
        lines.push(format!("desc {k} {:#x} {meta}", pmid.0));
        messages(&mut lines, k, &mut context);
        bindings.push(context.attach(&registry, &mut source).binding(pmid).ok());
    }
    for (f, fetch) in batch.fetches.iter().enumerate() {
        let asked: Vec<(usize, Pmid)> =
            fetch.list.iter().filter_map(|&k| pmids[k].map(|pmid| (k, pmid))).collect();
        if asked.is_empty() {
            continue;
        }
        source.sample = fetch.sample;
        let sample = &batch.world.samples[fetch.sample];
        let request: Vec<Pmid> = asked.iter().map(|&(_, pmid)| pmid).collect();
        let mut wanted = request.clone();
        context.attach(&registry, &mut source).expand(&mut wanted);
        let set = |&pmid: &Pmid| match batch.world.metric(pmid) {
            Some((n, _)) => ValueSet { pmid, values: delivered(&sample.sets[n]) },
            None => ValueSet { pmid, values: Err(PmError::NOAGENT) },
        };
        let sets = wanted.iter().map(set).collect();
        let fetched = FetchResult { timestamp: sample.time, sets };
        let result = context.attach(&registry, &mut source).answer(&request, &fetched);
        for (i, (&(k, pmid), set)) in asked.iter().zip(&result.sets).enumerate() {
            let real = !pmid.is_derived();
            let mut line = match &set.values {
                Err(error) => format!("val {k} {f} {i} {}", error.0),
                Ok(values) => format!("val {k} {f} {i} {}", values.len()),
            };
            for InstanceValue { inst, value } in set.values.iter().flatten().filter(|_| !real) {
                let _ = write!(line, " {inst}={}", describe_value(value));
            }
            lines.push(line);
            messages(&mut lines, k, &mut context);
        }
    }
    (lines, bindings)
}

fn messages(lines: &mut Vec<String>, k: usize, context: &mut DerivedContext) {
    let text: String = context.take_messages().concat();
    if !text.is_empty() {
        lines.push(format!("msg {k} {}", escape(&text)));
    }
}
