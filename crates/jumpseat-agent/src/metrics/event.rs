//! `jumpseat.event.*`: the records themselves.

use crate::identity::{SOURCES, TYPES};
use crate::state::State;
use pcp_event::ArrayKind;
use pcp_event::batch::MAX_RECORD;
use pcp_event::filter::MAX_COST;
use pcp_model::{Inst, PM_IN_NULL, PmError, Units, Value, ValueType};
use pcp_pmda::{Call, Metric, SetWriter};

use super::refusal::refuse;

/// Bytes of an answer without which a source has to wait: the largest record, and what goes before it.
const ROOM_FOR_ONE: usize = MAX_RECORD + 4096;

pub(super) fn metrics() -> Vec<Metric<State>> {
    let records = |name, kind: ArrayKind| {
        Metric::new(name, kind.value_type())
            .indom(SOURCES)
            .set(move |state: &mut State, call, values| read(state, call, values, kind))
            .store(move |state, call, inst, value| match value {
                Value::String(text) => filter(state, call, inst, text, kind),
                _ => Err(PmError::BADSTORE),
            })
    };
    vec![
        records("jumpseat.event.records", ArrayKind::Event),
        records("jumpseat.event.highres_records", ArrayKind::HighRes),
        Metric::new("jumpseat.event.recent", ValueType::Event).indom(SOURCES).set(recent),
        Metric::new("jumpseat.event.count", ValueType::U64)
            .counter()
            .units(Units::COUNT)
            .indom(TYPES)
            .each(|state: &mut State, _, inst| Ok(state.types.get(inst).map(|of| Value::U64(of.count)))),
    ]
}

/// Gives the client what it has not read of each source it wants. One fetch returns at most the fetch
/// limit, shared fairly among the sources that have something for it; the rest waits in the log.
fn read(
    state: &mut State,
    call: &Call<'_>,
    values: &mut SetWriter<'_>,
    kind: ArrayKind,
) -> Result<(), PmError> {
    let State { sources, streams, fields, limits, first_served, fetch_work, reads_refused, .. } = state;
    let mut work = fetch_work.of(call.fetch.number);
    let mut cursors = Vec::with_capacity(sources.len());
    // Who wants all instances also wants the first records of sources that do not exist yet.
    streams.follow((call.client, call.attributes, call.fetch.number), kind, values.wants_all());
    for (&inst, source) in sources.iter_mut() {
        if values.wants(inst) {
            if !source.may_be_read_by(call.attributes.identity()) {
                *reads_refused += 1;
                continue;
            }
            let Some(stream) = streams.open((call.client, kind), inst, source, fields) else {
                // Later, when others have gone.
                return Err(PmError::AGAIN);
            };
            let (stream, cursor) = (stream.inst, stream.cursor);
            if source.log.cursor_stats(cursor).is_some_and(|stats| stats.queued > 0 || stats.owed > 0) {
                cursors.push((inst, stream, cursor));
            }
        }
    }
    // An equal part for each that has something, so that one with a flood leaves room for the others.
    let limit = (limits.fetch_limit.0 as usize / cursors.len().max(1)).max(ROOM_FOR_ONE);
    // Those for whom an answer had no room come first in the next.
    let first = cursors.iter().position(|&(inst, ..)| inst >= *first_served).unwrap_or(0);
    cursors.rotate_left(first);
    *first_served = 0;
    let is_kept = streams.notes.keeps(call.client);
    for (inst, stream, cursor) in cursors {
        let Some(source) = sources.get_mut(inst) else { continue };
        // Reading without room would have to give records back, and a cursor only goes forward.
        let room = values.room();
        if room < ROOM_FOR_ONE {
            *first_served = inst;
            break;
        }
        values.events(inst, |out| {
            source.log.set_work(work);
            let before = is_kept.then(|| source.log.cursor_state(cursor)).flatten();
            let outcome = source.log.read(cursor, kind, out, limit.min(room)).unwrap_or_default();
            work = source.log.work();
            // Filters take turns: the next fetch begins behind the one that has used this one's work up.
            if outcome.more && work.steps() < MAX_COST {
                *first_served = inst.saturating_add(1);
            }
            if let Some(before) = before.filter(|_| outcome.records > 0) {
                streams.notes.shift(stream, before);
            }
            source.account.delivered += outcome.delivered;
            if let Some(disk) = source.disk.as_ref().filter(|_| outcome.delivered > 0) {
                disk.delivered(outcome.delivered);
            }
            outcome.records > 0
        })?;
    }
    fetch_work.set(work);
    Ok(())
}

fn recent(state: &mut State, call: &Call<'_>, values: &mut SetWriter<'_>) -> Result<(), PmError> {
    let (number, limit) = (state.limits.recent as usize, state.limits.fetch_limit.0 as usize);
    let limit = (limit / state.sources.len().max(1)).max(ROOM_FOR_ONE);
    for (&inst, source) in state.sources.iter() {
        if values.wants(inst) && !source.may_be_read_by(call.attributes.identity()) {
            state.reads_refused += 1;
        } else if values.wants(inst) {
            let room = values.room();
            if room < ROOM_FOR_ONE {
                break;
            }
            values.events(inst, |out| {
                source.log.recent(ArrayKind::Event, number, out, limit.min(room)).records > 0
            })?;
        }
    }
    Ok(())
}

/// Storing text into a records metric sets the filter of the client that stores it.
fn filter(
    state: &mut State,
    call: &Call<'_>,
    inst: Inst,
    text: &[u8],
    kind: ArrayKind,
) -> Result<(), PmError> {
    let text = std::str::from_utf8(text).map_err(|_| PmError::BADSTORE)?;
    let State { streams, sources, fields, .. } = state;
    let source = (inst != PM_IN_NULL).then_some(inst);
    let client = (call.client, call.attributes.uid);
    streams.set_filter(client, (kind, source), text, sources, fields).map_err(|refused| {
        refuse(state, call, &format!("filter {text:?}"), &refused.to_string());
        PmError::BADSTORE
    })
}
