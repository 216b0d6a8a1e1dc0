//! What a run is about: the context, the metric and the instances wanted.

use std::process::ExitCode;

use jumpseat::client::Context;
use jumpseat::model::{
    Desc, InDom, Inst, InstanceValue, PM_IN_NULL, PmError, Semantics, Value, ValueSet, ValueType,
};

use super::Wanted;
use crate::tool::{Clock, Out, Ready, open};

/// What a run is about.
pub struct Subject {
    /// The command line.
    pub ready: Ready,
    /// The source.
    pub context: Context,
    /// The name of its host.
    pub host: String,
    /// The metric.
    pub desc: Desc,
    /// The instances wanted, ordered, with the names they were asked for by; `None` for all.
    pub chosen: Option<Vec<(Inst, String)>>,
    /// The zone for times.
    pub clock: Clock,
    /// Standard output.
    pub out: Out,
}

impl Subject {
    /// Opens the source and looks the metric up.
    ///
    /// # Errors
    /// The exit code, after a message.
    pub fn new(mut ready: Ready, wanted: &Wanted) -> Result<Subject, ExitCode> {
        if ready.common.gui || ready.common.gui_port.is_some() {
            eprintln!("{}: time controls are not supported", ready.call.name);
            return Err(ExitCode::FAILURE);
        }
        let mut context = open(&mut ready)?;
        let failed = |what: &str| {
            eprintln!("{}: {what}", ready.call.name);
            ExitCode::FAILURE
        };
        let metric = wanted.metric.as_str();
        let pmid = context
            .pmid(metric)
            .map_err(|error| failed(&format!("pmLookupName({metric}): {}", error.code())))?;
        let desc = context.desc(pmid).map_err(|error| failed(&format!("pmLookupDesc: {}", error.code())))?;
        let chosen = choose(&mut context, &desc, wanted).map_err(|what| failed(&what))?;
        if let Some(text) = &wanted.filter {
            store(&mut context, &desc, chosen.as_deref(), text).map_err(|what| failed(&what))?;
        }
        let host = context.host_name().map_err(|error| failed(&error.code().to_string()))?;
        let mut out = Out::new();
        let clock = Clock::reporting(&ready.common, &mut context, &mut out)
            .map_err(|error| failed(&format!("Cannot set context timezone: {}", error.code())))?;
        Ok(Subject { ready, context, host, desc, chosen, clock, out })
    }

    /// Whether its values are event records.
    pub fn has_events(&self) -> bool {
        matches!(self.desc.value_type, ValueType::Event | ValueType::HighResEvent)
    }

    /// Whether its values only ever grow.
    pub fn is_counter(&self) -> bool {
        self.desc.semantics == Semantics::Counter
    }
}

/// Restricts the context to the instances that are named.
fn choose(
    context: &mut Context,
    desc: &Desc,
    wanted: &Wanted,
) -> Result<Option<Vec<(Inst, String)>>, String> {
    if !wanted.some_instances {
        return Ok(None);
    }
    if desc.indom == InDom::NULL {
        return match wanted.bracketed {
            true => Err(format!("{}: singular metrics do not have instances", wanted.metric)),
            false => Ok(None),
        };
    }
    let mut chosen = Vec::with_capacity(wanted.instances.len());
    for name in &wanted.instances {
        let inst =
            context.instance(desc.indom, name).map_err(|_| format!("instance {name} not available"))?;
        chosen.push((inst, name.clone()));
    }
    chosen.sort_by_key(|(inst, _)| *inst);
    let ids: Vec<Inst> = chosen.iter().map(|(inst, _)| *inst).collect();
    let profile = context.delete_profile(desc.indom, &[]).and_then(|()| match ids.is_empty() {
        true => Ok(()),
        false => context.add_profile(desc.indom, &ids),
    });
    profile.map_err(|error| format!("pmAddProfile: {}", error.code()))?;
    Ok(Some(chosen))
}

/// Stores a value before the first fetch: a filter for events, mostly.
fn store(
    context: &mut Context,
    desc: &Desc,
    chosen: Option<&[(Inst, String)]>,
    text: &str,
) -> Result<(), String> {
    let value_type = match desc.value_type {
        ValueType::Event | ValueType::HighResEvent => ValueType::String,
        other => other,
    };
    let value = Value::parse(text, value_type).map_err(|error| {
        let name = value_type.name();
        match error {
            PmError::TYPE => format!("filter \"{text}\" incompatible with metric type (PM_TYPE_{name})"),
            PmError(-34) => {
                format!("filter value \"{text}\" is out of range for metric data type (PM_TYPE_{name})")
            }
            other => format!("failed to convert value \"{text}\": {other}"),
        }
    })?;
    let instances: Vec<Inst> = match chosen {
        Some(chosen) => chosen.iter().map(|(inst, _)| *inst).collect(),
        None if desc.indom == InDom::NULL => vec![PM_IN_NULL],
        None => {
            let all = context.instances(desc.indom);
            let all = all.map_err(|error| format!("pmGetInDom({}): {}", desc.indom, error.code()))?;
            all.into_iter().map(|instance| instance.id).collect()
        }
    };
    let values = instances.into_iter().map(|inst| InstanceValue { inst, value: value.clone() }).collect();
    context
        .store(&[ValueSet { pmid: desc.pmid, values: Ok(values) }])
        .map_err(|error| format!("store value \"{text}\" failed: {}", error.code()))
}
