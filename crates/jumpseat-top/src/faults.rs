//! What went wrong: records that tell of errors, those that say the same together.

use std::collections::BTreeMap;
use std::sync::Arc;

use jumpseat_tools::Emphasis;
use pcp_model::Timestamp;

use super::events::Events;
use super::sample::EventRecord;
use super::trace::{field, is_failure};

/// Characters of a message that tell it from others.
const PATTERN: usize = 120;

/// Errors that are alike.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    /// Who told of them.
    pub source: Arc<str>,
    /// Their type.
    pub kind: String,
    /// What their messages have in common.
    pub pattern: String,
    /// How many there are among the records at hand.
    pub count: u64,
    /// When the last one was.
    pub last: Timestamp,
    /// The number of the last one.
    pub record: u64,
}

/// All errors, those that are the most first.
pub(crate) fn faults(events: &Events) -> Vec<Fault> {
    let mut faults: BTreeMap<(Arc<str>, String, String), Fault> = BTreeMap::new();
    for (number, shown) in events.numbered() {
        let record = &shown.record;
        if record.missed.is_some() || !(is_severe(record) || is_failure(record)) {
            continue;
        }
        let kind = field(record, "type").unwrap_or_default().to_owned();
        let pattern = pattern(message(record).unwrap_or_default());
        let key = (shown.stream.clone(), kind.clone(), pattern.clone());
        let fault = faults.entry(key).or_insert_with(|| Fault {
            source: shown.stream.clone(),
            kind,
            pattern,
            count: 0,
            last: record.time,
            record: number,
        });
        fault.count += 1;
        if record.time >= fault.last {
            (fault.last, fault.record) = (record.time, number);
        }
    }
    let mut faults: Vec<Fault> = faults.into_values().collect();
    faults.sort_by_key(|fault| std::cmp::Reverse((fault.count, fault.last)));
    faults
}

fn is_severe(record: &EventRecord) -> bool {
    field(record, "severity").is_some_and(|text| Emphasis::of(text.as_bytes()) == Emphasis::Error)
}

/// What a record says in words.
fn message(record: &EventRecord) -> Option<&str> {
    ["message", "exception.message", "error", "status"].iter().find_map(|name| field(record, name))
}

/// A message without what differs from one time to the next: words with digits in them.
fn pattern(message: &str) -> String {
    let mut pattern = String::new();
    for word in message.split_inclusive(|c: char| !c.is_alphanumeric() && !matches!(c, '-' | '_')) {
        let (body, end) = match word.char_indices().next_back() {
            Some((at, last)) if !last.is_alphanumeric() && !matches!(last, '-' | '_') => word.split_at(at),
            _ => (word, ""),
        };
        pattern.push_str(if body.contains(|c: char| c.is_ascii_digit()) { "#" } else { body });
        pattern.push_str(end);
    }
    pattern.chars().take(PATTERN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::tests::{events, record};
    use pcp_event::EventFlags;

    #[test]
    fn what_differs_from_time_to_time_is_no_part_of_a_pattern() {
        assert_eq!(pattern("card 4711 refused, order a3f9-11"), "card # refused, order #");
        assert_eq!(pattern("time out after 20ms (10.0.0.1)"), "time out after # (#.#.#.#)");
        assert_eq!(pattern("é"), "é");
    }

    #[test]
    fn errors_that_say_the_same_are_one() {
        let error = |ms, message| {
            record(ms, EventFlags::POINT, &[("type", "pay"), ("severity", "error"), ("message", message)])
        };
        let fine = record(
            9,
            EventFlags::POINT,
            &[("type", "pay"), ("severity", "info"), ("message", "card 9 taken")],
        );
        let events = events(&[(
            "a",
            vec![error(1, "card 1 refused"), error(7, "card 22 refused"), error(5, "gone"), fine],
        )]);
        let faults = faults(&events);
        let said: Vec<_> = faults.iter().map(|fault| (fault.pattern.as_str(), fault.count)).collect();
        assert_eq!(said, [("card # refused", 2), ("gone", 1)]);
        assert_eq!(events.get(faults[0].record).unwrap().record.params[2].1, "card 22 refused");
    }
}
