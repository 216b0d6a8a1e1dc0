//! What tells series apart: the resource, the scope, and the attributes of the point.
//!
//! A resource is identified by `service.namespace`, `service.name` and `service.instance.id`, as OpenTelemetry has it; without an
//! instance all of its attributes do, but for those of the SDK (`telemetry.`). What does not identify it becomes labels all the same.

use jumpseat_wire::series;

use super::super::resource::source_name;
use super::super::value::{AttributeLimits, Attributes};
use super::super::wire::{Fields, Place};
use super::{each, text};
use crate::delivery::Reason;
use crate::event::{Event, Refusal, Value};
use crate::guard::tokens::Pass;
use crate::series::{LabelText, Labels};

/// Longest name or value that a label has: a longer one would be cut, and stand for others.
const LIMITS: AttributeLimits = AttributeLimits { max_field: 1024, max_fields: 64 };
/// Longest list of the names of a resource's attributes that is told, in bytes.
const MAX_RESOURCE_NAMES: usize = 4096;
/// The three that identify a service.
const SERVICE: [&str; 3] = ["service.namespace", "service.name", "service.instance.id"];

/// The resource and the scope of a stream.
#[derive(Clone, Default)]
pub(super) struct Sender {
    labels: Labels,
}

impl Sender {
    /// Reads both.
    ///
    /// # Errors
    /// They are malformed.
    pub(super) fn read(
        &mut self,
        body: &[u8],
        resource: &Place,
        scope: &Place,
        pass: Option<&Pass>,
        event: &mut Event,
    ) -> Result<(), Refusal> {
        let mut places = Vec::new();
        each(body, resource.clone(), 1, |place| {
            // What is beyond the limit makes no difference.
            if places.len() < LIMITS.max_fields {
                places.push(place);
            }
            Ok(())
        })?;
        let attributes = read(body, &places, event)?;
        let named = |name: &str| {
            let found = attributes.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.to_string()).filter(|text| !text.is_empty())
        };
        let [namespace, name, instance] = SERVICE.map(named);
        // Under what name it claims to be nobody else's series may be set: those of such a token are its own.
        let is_theirs = pass.is_none_or(|pass| {
            name.as_deref().is_some_and(|name| pass.covers(source_name(name, None).as_bytes()))
        });
        let instance = instance.filter(|_| is_theirs);
        let mut head = namespace.map_or_else(String::new, |namespace| format!("{namespace}/"));
        head += name.as_deref().unwrap_or("unknown");
        if let Some(instance) = &instance {
            head += &format!("@{instance}");
        }
        if let (false, Some(pass)) = (is_theirs, pass) {
            head.clone_from(&pass.own);
        }
        let mut labels = Labels::new(&head, &[]);
        let names = series::names(attributes.iter().map(|(name, _)| name.as_str()));
        for (name, value) in attributes {
            let is_told_by_head = is_theirs && SERVICE.contains(&name.as_str());
            if is_told_by_head || instance.is_some() || name.starts_with("telemetry.") {
                labels.push_about(&name, value);
            } else {
                labels.push(&name, value);
            }
        }
        if names.len() <= MAX_RESOURCE_NAMES {
            labels.set_resource_names(names.into());
        }
        let mut fields = Fields::of(body, scope.clone());
        loop {
            let at = fields.at();
            let Some((number, wire)) = fields.next()? else { break };
            match number {
                1 => {
                    let name = text(body, wire.place(at)?)?;
                    if !name.is_empty() {
                        labels.push(series::SCOPE_NAME, name.into());
                    }
                }
                2 => labels.push_about(series::SCOPE_VERSION, text(body, wire.place(at)?)?.into()),
                _ => {}
            }
        }
        self.labels = labels;
        Ok(())
    }

    /// The labels of a series with these attributes.
    ///
    /// # Errors
    /// They are malformed, or too many or too long to tell series apart.
    pub(super) fn labels(&self, body: &[u8], attributes: &[Place]) -> Result<Labels, Refusal> {
        let mut event = Event::default();
        let at = attributes.first().map_or(0, |place| place.start);
        let mut labels = self.labels.clone();
        for (name, value) in read(body, attributes, &mut event)? {
            labels.push(&name, value);
        }
        if event.truncated || attributes.len() > LIMITS.max_fields {
            let detail = "more than 64 attributes, or one of more than 1 KiB: send less with each point";
            return Err(Refusal::at(at, Reason::OversizeField, detail));
        }
        Ok(labels)
    }
}

fn read(body: &[u8], places: &[Place], event: &mut Event) -> Result<Vec<(String, LabelText)>, Refusal> {
    event.clear();
    let mut attributes = Attributes::new(body, event, LIMITS);
    places.iter().take(LIMITS.max_fields + 1).try_for_each(|place| attributes.take(place.clone()))?;
    let mut out = Vec::with_capacity(event.fields.len());
    for field in &event.fields {
        let name = String::from_utf8_lossy(event.text(body, field.name)).into_owned();
        let value = match field.value {
            Value::Text(text) => LabelText::Text(String::from_utf8_lossy(event.text(body, text)).into()),
            Value::Bool(bit) => LabelText::Bool(bit),
            Value::I64(number) => LabelText::Int(number),
            Value::U64(number) => LabelText::Int(number as i64),
            Value::Double(number) => LabelText::Double(number),
        };
        out.push((name, value));
    }
    Ok(out)
}
