//! `jumpseat.control.client.*` and the positions below `jumpseat.event`: where a client is, told and changed.
//!
//! ```text
//! SEQ          in front of the record with that sequence number
//! SEQ@EPOCH    the same, if the log is still the one of that epoch (hexadecimal): what is told
//! AGE, TIME    in front of the first record from then on, as pcp_model::time::parse_moment takes it, in UTC
//! oldest, newest
//! ```
//!
//! The metrics `jumpseat.event.position` and `.highres_position` are about the records metric of the same form. In a
//! fetch they stand behind it, and tell where the very records of that answer end. Stored, they do what
//! `jumpseat.control.client.position` does for both.

use std::io::Write;
use std::time::SystemTime;

use super::refusal::refuse;
use crate::identity::SOURCES;
use crate::state::State;
use crate::state::streams::places::{PlaceRefused, Wanted};
use pcp_event::ArrayKind;
use pcp_event::log::Place;
use pcp_model::time::{Zone, parse_moment};
use pcp_model::{Inst, PM_IN_NULL, PmError, Timestamp, Value, ValueType};
use pcp_pmda::{Call, Metric, SetWriter};

/// Longest text that is looked at.
const MAX_TEXT: usize = 128;

pub(super) fn metrics() -> Vec<Metric<State>> {
    let position = |name, kinds: &'static [ArrayKind]| {
        Metric::new(name, ValueType::String)
            .indom(SOURCES)
            .set(move |state: &mut State, call, values| tell(state, call, values, kinds))
            .store(move |state, call, inst, value| store(state, call, inst, value, kinds))
            // All of them.
            .any_instance()
    };
    vec![
        position("jumpseat.control.client.position", &[ArrayKind::Event, ArrayKind::HighRes]),
        position("jumpseat.event.position", &[ArrayKind::Event]),
        position("jumpseat.event.highres_position", &[ArrayKind::HighRes]),
    ]
}

/// The client's place in each source it has a stream of.
fn tell(
    state: &mut State,
    call: &Call<'_>,
    values: &mut SetWriter<'_>,
    kinds: &[ArrayKind],
) -> Result<(), PmError> {
    let mut text = Vec::new();
    for (&inst, source) in state.sources.iter() {
        if values.wants(inst)
            && source.may_be_read_by(call.attributes.identity())
            && let Some(seq) = state.streams.place(call.client, kinds, inst, &source.log)
        {
            text.clear();
            // Nothing that is written to a vector can fail.
            let _ = write!(text, "{seq}@{:x}", source.epoch(state.epoch));
            values.string(inst, &text)?;
        }
    }
    Ok(())
}

fn store(
    state: &mut State,
    call: &Call<'_>,
    inst: Inst,
    value: &Value,
    kinds: &[ArrayKind],
) -> Result<(), PmError> {
    let Value::String(text) = value else { return Err(PmError::BADSTORE) };
    let text = String::from_utf8_lossy(text);
    let source = (inst != PM_IN_NULL).then_some(inst);
    let client = (call.client, call.attributes.identity());
    let (reason, error) = match parse(&text, state.epoch, SystemTime::now().into()) {
        Err(reason) => (reason, PmError::BADSTORE),
        Ok(wanted) => match state.streams.set_place(client, kinds, source, wanted, &mut state.sources) {
            Ok(()) => return Ok(()),
            Err(refused) => {
                let error = match refused {
                    PlaceRefused::NoSource(_) => PmError::INST,
                    PlaceRefused::Forbidden(_) => {
                        state.reads_refused += 1;
                        PmError::PERMISSION
                    }
                    PlaceRefused::Log(..) | PlaceRefused::Epoch(..) => PmError::BADSTORE,
                    PlaceRefused::Full => PmError::AGAIN,
                };
                (refused.to_string(), error)
            }
        },
    };
    let shown: String = text.chars().take(MAX_TEXT).collect();
    refuse(state, call, &format!("position {shown:?}"), &reason);
    Err(error)
}

/// The place that a text stands for, or why it is none. `in_memory`: the epoch of records that are not on disk.
fn parse(text: &str, in_memory: u64, now: Timestamp) -> Result<Wanted, String> {
    const ALLOWED: &str = "allowed are SEQ, SEQ@EPOCH, an age such as -10min, @SECONDS since 1970, a date and time in \
                           UTC, oldest, newest";
    let text = text.trim();
    if text.len() > MAX_TEXT {
        return Err(format!("a position has {MAX_TEXT} bytes at most"));
    }
    match text {
        "oldest" => return Ok(Wanted::Place(Place::Oldest)),
        "newest" => return Ok(Wanted::Place(Place::Newest)),
        _ => {}
    }
    let (seq, of) = text.split_once('@').map_or((text, None), |(seq, of)| (seq, Some(of)));
    if !seq.is_empty() && seq.bytes().all(|byte| byte.is_ascii_digit()) {
        let seq = seq.parse().map_err(|_| format!("{seq} is larger than any sequence number; {ALLOWED}"))?;
        return match of.map(|of| u64::from_str_radix(of, 16)) {
            None => Ok(Wanted::Place(Place::Seq(seq))),
            Some(Ok(epoch)) => Ok(Wanted::Told { seq, epoch, in_memory }),
            Some(Err(_)) => Err(format!("an epoch is a hexadecimal number; {ALLOWED}")),
        };
    }
    let time = parse_moment(text, now, &Zone::utc());
    time.map(|time| Wanted::Place(Place::Time(time)))
        .map_err(|error| format!("{:?}: {}; {ALLOWED}", error.text, error.what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_many_forms() {
        let now = Timestamp::new(1_000_000_000, 0);
        let at = |sec| Wanted::Place(Place::Time(Timestamp::new(sec, 0)));
        let told = Wanted::Told { seq: 17, epoch: 0x20, in_memory: 0x1f };
        for (text, expected) in [
            ("oldest", Wanted::Place(Place::Oldest)),
            (" newest ", Wanted::Place(Place::Newest)),
            ("0", Wanted::Place(Place::Seq(0))),
            ("18446744073709551615", Wanted::Place(Place::Seq(u64::MAX))),
            ("17@20", told),
            (" 17@020", told),
            ("-10min", at(999_999_400)),
            ("10 min", at(999_999_400)),
            ("@1000000001", at(1_000_000_001)),
            ("2001-09-09T01:46:40Z", at(1_000_000_000)),
            ("2001-09-09 01:46:41", at(1_000_000_001)),
        ] {
            assert_eq!(parse(text, 0x1f, now), Ok(expected), "{text}");
        }
        for (text, reason) in [
            ("17@", "an epoch is a hexadecimal number; allowed"),
            ("17@xyz", "an epoch is a hexadecimal number; allowed"),
            ("18446744073709551616", "18446744073709551616 is larger than any sequence number; allowed"),
            ("", "a time or an age expected; allowed are SEQ, "),
            ("soon", "allowed are SEQ, SEQ@EPOCH, "),
            (&"9".repeat(129), "128 bytes at most"),
        ] {
            let refused = parse(text, 0x1f, now).expect_err(text);
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }
}
