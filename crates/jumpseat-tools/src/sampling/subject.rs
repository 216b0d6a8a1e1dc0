//! What a run is about: the context, the time window, the metric and the instances wanted.

use std::process::ExitCode;

use pcp_client::{ClientError, Context, ContextKind};
use pcp_event::filter::Filter;
use pcp_model::text::nearest;
use pcp_model::time::Window;
use pcp_model::{
    Desc, InDom, Inst, InstanceValue, PM_IN_NULL, PmError, Semantics, Timestamp, Units, Value, ValueSet,
    ValueType,
};

use super::options::SamplingSettings;
use super::since;
use super::table::Columns;
use crate::tool::{Call, Clock, Out, Ready, hint_name, open, refused, report_unusable, window};

/// What a run is about.
pub(super) struct Subject {
    /// The command line.
    pub ready: Ready,
    /// The source.
    pub context: Context,
    /// The name of its host.
    pub host: String,
    /// When samples are wanted.
    pub window: Window,
    /// The metric.
    pub desc: Desc,
    /// The instances wanted, ordered, with the names they were asked for by; `None` for all.
    pub chosen: Option<Vec<(Inst, String)>>,
    /// All that there are at the start, or that an archive ever had, ordered, if all are wanted.
    known: Vec<(Inst, String)>,
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
    pub(super) fn new(mut ready: Ready, wanted: &SamplingSettings) -> Result<Subject, ExitCode> {
        if ready.common.gui || ready.common.gui_port.is_some() {
            complain!("{}: time controls are not supported", ready.call.name);
            return Err(ExitCode::FAILURE);
        }
        let mut context = open(&mut ready)?;
        let failed = |what: &str| {
            complain!("{}: {what}", ready.call.name);
            ExitCode::FAILURE
        };
        let mut out = Out::new(&ready.call);
        let clock = Clock::reporting(&ready.common, &mut context, &mut out).map_err(|error| {
            failed(&format!("Cannot set context timezone: {}", error.code().at(ready.call.level)))
        })?;
        // The note of the zone comes before whatever is wrong with the metric.
        out.flush();
        let window = window(&ready, &mut context, &clock.zone)?;
        let metric = wanted.metric.as_str();
        let pmid = context.pmid(metric).map_err(|error| {
            let code = failed(&format!("pmLookupName({metric}): {}", error.code().at(ready.call.level)));
            hint_name(&mut context, &ready.call, metric, error.code());
            code
        })?;
        // Why a derived metric cannot be had is said before that it cannot.
        let desc = context.desc(pmid);
        report_unusable(&mut context);
        let desc =
            desc.map_err(|error| failed(&format!("pmLookupDesc: {}", error.code().at(ready.call.level))))?;
        let chosen = choose(&mut context, &desc, wanted).map_err(|what| failed(&what))?;
        let known = match chosen {
            Some(_) => Vec::new(),
            None => all_instances(&mut context, desc.indom).map_err(|error| {
                failed(&format!("pmGetInDom({}): {}", desc.indom, error.code().at(ready.call.level)))
            })?,
        };
        if let Some(text) = wanted.filter.as_ref().filter(|_| context.kind() != ContextKind::Archive) {
            let stored = store(&mut context, &desc, chosen.as_deref(), text);
            stored.map_err(|(what, error)| {
                // The agent knows best what is wrong; one that has no words may be an older one, of the same language.
                let why = error.and_then(|error| refused(&ready.call, &mut context, metric, error));
                let code = failed(&format!("{what}{}", why.as_deref().unwrap_or_default()));
                if why.is_none() {
                    explain_filter(&ready.call, &desc, text);
                }
                code
            })?;
            hint_types(&mut context, &ready.call, metric, &desc, text);
        }
        if let Some(text) = &wanted.since {
            since::begin(&mut context, metric, chosen.as_deref(), text, &clock.zone)
                .map_err(|what| failed(&what))?;
        }
        let host =
            context.host_name().map_err(|error| failed(&error.code().at(ready.call.level).to_string()))?;
        Ok(Subject { ready, context, host, window, desc, chosen, known, clock, out })
    }

    /// Says why the tool cannot go on. Its exit code.
    pub(super) fn fails(&self, what: &str) -> ExitCode {
        complain!("{}: {what}", self.ready.call.name);
        ExitCode::FAILURE
    }

    /// Whether what it reads was recorded.
    pub(super) fn is_recorded(&self) -> bool {
        self.context.kind() == ContextKind::Archive
    }

    /// Units as the release that is followed has them.
    pub(super) fn units(&self, units: Units) -> String {
        units.text_at(self.ready.call.level)
    }

    /// The time of a sample as lines begin with it: with date and more digits where that is asked for.
    pub(super) fn stamp(&self, time: Timestamp, dated: usize) -> String {
        match dated {
            0 => self.clock.zone.clock(time, 3),
            1 => self.clock.zone.ctime_fraction(time, 6),
            _ => self.clock.zone.ctime_fraction(time, 9),
        }
    }

    /// Whether its values are event records.
    pub(super) fn has_events(&self) -> bool {
        matches!(self.desc.value_type, ValueType::Event | ValueType::HighResEvent)
    }

    /// Whether an instance is among those wanted. The records of an archive have the others as well.
    pub(super) fn wants(&self, inst: Inst) -> bool {
        let listed = |chosen: &[(Inst, String)]| chosen.iter().any(|(other, _)| *other == inst);
        self.chosen.as_deref().is_none_or(|chosen| chosen.is_empty() || listed(chosen))
    }

    /// The columns of values to begin with.
    pub(super) fn columns(&self) -> Columns {
        Columns { of: self.chosen.as_ref().unwrap_or(&self.known).clone(), grow: self.chosen.is_none() }
    }

    /// Whether its values only ever grow.
    pub(super) fn is_counter(&self) -> bool {
        self.desc.semantics == Semantics::Counter
    }
}

/// All instances, in the order of their numbers: in an archive those that there ever were, as columns do not come and go with
/// values.
pub(super) fn all_instances(context: &mut Context, indom: InDom) -> Result<Vec<(Inst, String)>, ClientError> {
    let instances = match context.kind() {
        _ if indom == InDom::NULL => Vec::new(),
        ContextKind::Archive => context.instances_ever(indom)?,
        _ => context.instances(indom)?,
    };
    let mut columns: Vec<(Inst, String)> =
        instances.into_iter().map(|instance| (instance.id, instance.name)).collect();
    columns.sort_by_key(|(inst, _)| *inst);
    Ok(columns)
}

/// Restricts the context to the instances that are named.
fn choose(
    context: &mut Context,
    desc: &Desc,
    wanted: &SamplingSettings,
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
        let inst = match context.kind() {
            // An instance that is not there yet at the start of the window may come.
            ContextKind::Archive => context.instance_ever(desc.indom, name),
            _ => context.instance(desc.indom, name),
        };
        let inst = inst.map_err(|_| format!("instance {name} not available"))?;
        chosen.push((inst, name.clone()));
    }
    chosen.sort_by_key(|(inst, _)| *inst);
    let ids: Vec<Inst> = chosen.iter().map(|(inst, _)| *inst).collect();
    if ids.is_empty() {
        // No columns, but values all the same.
        return Ok(Some(chosen));
    }
    let profile =
        context.delete_profile(desc.indom, &[]).and_then(|()| context.add_profile(desc.indom, &ids));
    profile.map_err(|error| format!("pmAddProfile: {}", error.code()))?;
    Ok(Some(chosen))
}

/// Says what is wrong with a filter that was refused: the protocol has no words for it, and the language is known here.
fn explain_filter(call: &Call, desc: &Desc, text: &str) {
    let is_filter = matches!(desc.value_type, ValueType::Event | ValueType::HighResEvent);
    if is_filter
        && !call.pcp
        && let Err(error) = Filter::parse(text)
    {
        complain!("{}: {error}", call.name);
    }
}

/// Tells of event types in a filter that no source has sent yet, if they are near one that has come: then nothing would
/// ever be shown.
fn hint_types(context: &mut Context, call: &Call, metric: &str, desc: &Desc, text: &str) {
    let is_filter = matches!(desc.value_type, ValueType::Event | ValueType::HighResEvent);
    if call.pcp || !is_filter || !metric.starts_with("jumpseat.event.") {
        return;
    }
    let Ok(Some(filter)) = Filter::parse(text) else { return };
    let wanted = filter.texts_of("type");
    if wanted.is_empty() {
        return;
    }
    let counts = context.pmid("jumpseat.event.count").and_then(|pmid| context.desc(pmid));
    let Ok(known) = counts.and_then(|desc| context.instances(desc.indom)) else { return };
    // Instances are called source/type, with underscores for blanks.
    let types: Vec<String> =
        known.iter().filter_map(|known| Some(known.name.split_once('/')?.1.to_owned())).collect();
    let blank = |c: char| c.is_whitespace() || c.is_control();
    let has_come = |wanted: &str| {
        let word = wanted.replace(blank, "_");
        // Long ones are cut there.
        types.iter().any(|known| *known == word || (known.len() > 60 && word.starts_with(known)))
    };
    for wanted in wanted.into_iter().filter(|wanted| !has_come(wanted)) {
        let near = nearest(wanted, types.iter().map(String::as_str));
        let hint = near.map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
        complain!("{}: no event of type {wanted:?} has come yet{hint}", call.name);
    }
}

/// Stores a value before the first fetch: a filter for events, mostly.
fn store(
    context: &mut Context,
    desc: &Desc,
    chosen: Option<&[(Inst, String)]>,
    text: &str,
) -> Result<(), (String, Option<PmError>)> {
    let value_type = match desc.value_type {
        // Such metrics take a filter, which is text.
        ValueType::Event | ValueType::HighResEvent => ValueType::String,
        other => other,
    };
    let value = Value::parse(text, value_type).map_err(|error| {
        let name = value_type.name();
        let what = match error {
            PmError::TYPE => format!("filter \"{text}\" incompatible with metric type (PM_TYPE_{name})"),
            PmError(-34) => {
                format!("filter value \"{text}\" is out of range for metric data type (PM_TYPE_{name})")
            }
            other => format!("failed to convert value \"{text}\": {other}"),
        };
        (what, None)
    })?;
    let instances: Vec<Inst> = match chosen {
        Some(chosen) => chosen.iter().map(|(inst, _)| *inst).collect(),
        None if desc.indom == InDom::NULL => vec![PM_IN_NULL],
        None => {
            let all = context.instances(desc.indom);
            let all = all.map_err(|error| (format!("pmGetInDom({}): {}", desc.indom, error.code()), None))?;
            all.into_iter().map(|instance| instance.id).collect()
        }
    };
    let values = instances.into_iter().map(|inst| InstanceValue { inst, value: value.clone() }).collect();
    context
        .store(&[ValueSet { pmid: desc.pmid, values: Ok(values) }])
        .map_err(|error| (format!("store value \"{text}\" failed: {}", error.code()), Some(error.code())))
}
