//! What the names of an event's members mean, in all formats of lines: one of the parts that every event has, or a field
//! of its own.

use super::event::Event;
use pcp_event::EventFlags;

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Time,
    Type,
    Message,
    Severity,
    Id,
    Parent,
    Phase,
    Source,
    /// A field of its own.
    Field,
}

impl Meaning {
    /// What a name means.
    #[inline]
    pub(crate) fn of(name: &[u8]) -> Meaning {
        match name {
            b"time" => Meaning::Time,
            b"type" | b"event" => Meaning::Type,
            b"message" | b"msg" => Meaning::Message,
            b"severity" | b"level" => Meaning::Severity,
            b"span_id" | b"id" => Meaning::Id,
            b"parent_id" | b"parent" => Meaning::Parent,
            b"phase" | b"ph" => Meaning::Phase,
            b"source" => Meaning::Source,
            _ => Meaning::Field,
        }
    }

    /// Only the first member of each meaning counts; any further one is an ordinary field, so that nothing is lost.
    #[inline]
    pub(crate) fn unless_taken(self, event: &Event) -> Meaning {
        let is_taken = match self {
            Meaning::Time => event.time.is_some(),
            Meaning::Type => event.event_type.is_some(),
            Meaning::Message => event.message.is_some(),
            Meaning::Severity => event.severity.is_some(),
            Meaning::Id => event.id.is_some(),
            Meaning::Parent => event.parent.is_some(),
            Meaning::Phase => event.phase != EventFlags(0),
            Meaning::Source => event.source.is_some(),
            Meaning::Field => false,
        };
        if is_taken { Meaning::Field } else { self }
    }
}

/// The phase words, those of the Chrome trace format included.
pub(crate) fn phase(word: &[u8]) -> Option<EventFlags> {
    Some(match word {
        b"point" | b"instant" | b"i" | b"I" | b"n" => EventFlags::POINT,
        b"start" | b"begin" | b"B" | b"b" => EventFlags::START,
        b"end" | b"E" | b"e" => EventFlags::END,
        _ => return None,
    })
}
