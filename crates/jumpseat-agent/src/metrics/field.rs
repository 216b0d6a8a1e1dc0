//! `jumpseat.field.*`: the descriptors of event parameters, one metric for each field name and type.

use jumpseat_source::registry::WellKnown;
use pcp_event::filter::FieldResolver as _;
use pcp_model::{Desc, InDom, PmError, Pmid, Semantics, Units};
use pcp_pmda::{LabelList, Subtree, TextLevel};

use crate::identity::label;
use crate::state::State;

/// The dynamic subtree over [`State::fields`].
pub(crate) struct FieldMetrics;

impl Subtree<State> for FieldMetrics {
    fn generation(&self, state: &State) -> u64 {
        state.fields.generation()
    }

    fn names(&self, state: &State, name: &mut dyn FnMut(&str, Pmid)) {
        for (pmid, field) in state.fields.iter() {
            name(&field.leaf, pmid);
        }
    }

    fn desc(&self, state: &State, pmid: Pmid) -> Option<Desc> {
        let field = state.fields.get(pmid)?;
        Some(Desc {
            pmid,
            value_type: field.value_type,
            indom: InDom::NULL,
            semantics: Semantics::Instant,
            units: if pmid.local() == WellKnown::Missed.pmid(0).local() { Units::COUNT } else { Units::NONE },
        })
    }

    fn text(&self, state: &State, pmid: Pmid, kind: TextLevel) -> Option<String> {
        let field = state.fields.get(pmid)?;
        Some(match kind {
            TextLevel::OneLine => {
                format!("event field \"{}\" of type {}", field.name, field.value_type.name())
            }
            TextLevel::Help => format!(
                "{}\n\nA parameter of the records in jumpseat.event: it has no value of its own.",
                describe(pmid, &field.name)
            ),
        })
    }

    fn labels(&self, state: &State, pmid: Pmid, labels: &mut LabelList) -> Result<(), PmError> {
        match state.fields.get(pmid) {
            Some(field) => Ok(labels.add(label::FIELD, field.name.as_str())?),
            None => Ok(()),
        }
    }
}

fn describe(pmid: Pmid, name: &str) -> String {
    const KNOWN: [(WellKnown, &str); 9] = [
        (WellKnown::Type, "What kind of event it is, as the sender names it."),
        (WellKnown::Message, "The text of the event."),
        (
            WellKnown::Severity,
            "How grave the event is: trace, debug, info, notice, warning, error, critical, alert or emergency.",
        ),
        (WellKnown::SpanId, "Identifies the traced activity (flag id)."),
        (WellKnown::ParentId, "Identifies the activity that the traced one is part of (flag parent)."),
        (
            WellKnown::Missed,
            "The number of records lost at this place. It stands next to the missed record in\n\
             jumpseat.event.highres_records, whose own number does not survive the way to the client.",
        ),
        (WellKnown::SpanIdU64, "Identifies the traced activity (flag id), where the sender uses numbers."),
        (
            WellKnown::ParentIdU64,
            "Identifies the activity that the traced one is part of (flag parent), where the sender uses numbers.",
        ),
        (
            WellKnown::Other,
            "A field, as name=value, that came after the number of field metrics had reached its limit.",
        ),
    ];
    match KNOWN.iter().find(|(known, _)| known.pmid(0).local() == pmid.local()) {
        Some((_, text)) => (*text).to_owned(),
        None => format!("The field \"{name}\" that senders put into their events."),
    }
}
