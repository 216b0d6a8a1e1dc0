//! `jumpseat.control.source.*`: what is done with the records of single sources, changed with pmstore.

use std::time::Duration;

use super::refusal::refuse_control;
use crate::config::{ByteSize, MIN_SOURCE_BUDGET};
use crate::identity::SOURCES;
use crate::state::State;
use crate::state::source::Source;
use jumpseat_source::gate::{SampleBy, Settings};
use jumpseat_source::rules::SourceRule;
use pcp_model::{PmError, Units, Value, ValueType};
use pcp_pmda::{Access, Metric};

pub(super) fn metrics(access: &Access) -> Vec<Metric<State>> {
    let control = |name: &'static str,
                   value_type,
                   get: fn(&Source, &Settings) -> Value,
                   set: fn(&SourceRule, &Value) -> Option<SourceRule>| {
        Metric::new(format!("jumpseat.control.source.{name}"), value_type)
            .indom(SOURCES)
            .discrete()
            .each(move |state: &mut State, _, inst| {
                Ok(state.sources.get(inst).map(|source| get(source, &source.gate.settings().1)))
            })
            .store(move |state: &mut State, call, inst, value| {
                let source = state.sources.get(inst).ok_or(PmError::INST)?;
                let stored = match set(&source.stored, value) {
                    None => Err("not a value that it can have".to_owned()),
                    Some(stored) => match stored.validate(MIN_SOURCE_BUDGET) {
                        Ok(()) => Ok(stored),
                        Err(invalid) => Err(invalid.to_string()),
                    },
                };
                match stored {
                    Ok(stored) => {
                        state.store_rule(inst, stored);
                        Ok(())
                    }
                    Err(problem) => {
                        let metric = format!("source.{name}[{}]", source.name);
                        Err(refuse_control(state, call, &metric, value, &problem))
                    }
                }
            })
            .access(access.clone())
    };
    vec![
        control(
            "enabled",
            ValueType::U32,
            |_, settings| Value::U32(settings.enabled.into()),
            |stored, value| match *value {
                Value::U32(number @ 0..=1) => {
                    Some(SourceRule { enabled: Some(number == 1), ..stored.clone() })
                }
                _ => None,
            },
        ),
        control(
            "filter",
            ValueType::String,
            |_, settings| Value::from(settings.filter.text().to_owned()),
            |stored, value| Some(SourceRule { filter: Some(text(value)?.to_owned()), ..stored.clone() }),
        ),
        control(
            "sample",
            ValueType::U32,
            |_, settings| Value::U32(settings.sample),
            |stored, value| match *value {
                Value::U32(number @ 1..) => Some(SourceRule { sample: Some(number), ..stored.clone() }),
                _ => None,
            },
        ),
        control(
            "sample_by",
            ValueType::String,
            |_, settings| Value::from(settings.sample_by.word().to_owned()),
            |stored, value| {
                let sample_by = Some(SampleBy::from_word(text(value)?)?);
                Some(SourceRule { sample_by, ..stored.clone() })
            },
        ),
        control(
            "budget",
            ValueType::U64,
            |source, _| Value::U64(source.budget),
            |stored, value| match *value {
                Value::U64(bytes) => Some(SourceRule { budget: Some(ByteSize(bytes)), ..stored.clone() }),
                _ => None,
            },
        )
        .units(Units::BYTE),
        control(
            "order_window",
            ValueType::U32,
            |_, settings| Value::U32(settings.order_window.as_millis() as u32),
            |stored, value| match *value {
                Value::U32(millis) => {
                    let order_window = Some(Duration::from_millis(millis.into()));
                    Some(SourceRule { order_window, ..stored.clone() })
                }
                _ => None,
            },
        )
        .units(Units::MILLISECOND),
    ]
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::String(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}
