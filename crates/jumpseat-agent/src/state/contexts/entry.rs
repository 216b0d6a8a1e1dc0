//! What is kept of pmcd's clients, as it is in the file.
//!
//! Sources and streams are named by their instances, which mean the same in each life of the agent; sequence numbers
//! come with the epoch they are of; texts of filters, which many clients share, by numbers.

use std::borrow::Cow;

use pcp_event::ArrayKind;
use pcp_event::log::{CursorState, Place};
use pcp_model::{Inst, Timestamp};
use pcp_pmda::{Attributes, started};
use serde::{Deserialize, Serialize};

/// One of the things that happen.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Entry<'a> {
    /// First of all: whose clients these are.
    Pmcd {
        /// Process id, start, and start of the machine.
        pid: i32,
        started: u64,
        boot: Cow<'a, str>,
    },
    /// The text of a filter.
    Text { number: u64, text: Cow<'a, str> },
    /// All there is of the client in a slot, in place of what was known of it.
    Context { slot: i32, context: Cow<'a, Context> },
    /// There is nobody in the slot any more.
    Ended { slot: i32 },
    /// An answer that moves streams there is about to be given.
    Leaving { time: Time, moved: Cow<'a, [Moved]> },
    /// It has been given.
    Left,
}

/// Seconds and nanoseconds since 1970.
pub(crate) type Time = (i64, u32);

pub(super) fn time(time: Timestamp) -> Time {
    (time.sec, time.nsec)
}

/// What there is of a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Context {
    pub who: Who,
    /// The number in the names of its streams.
    pub serial: u64,
    /// The record metrics of which it wants all instances.
    pub follows: Vec<Form>,
    pub filters: Vec<FilterOf>,
    /// Where streams begin that it has not opened yet.
    pub starts: Vec<(Form, Option<Inst>, Spot)>,
    pub streams: Vec<StreamOf>,
}

/// Which process a client is, as far as pmcd tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Who {
    uid: Option<u32>,
    gid: Option<u32>,
    pid: Option<i32>,
    /// When that process started.
    started: Option<u64>,
}

impl Who {
    pub(super) fn of(attributes: &Attributes) -> Who {
        let &Attributes { uid, gid, pid, .. } = attributes;
        Who { uid, gid, pid, started: pid.and_then(started) }
    }
}

/// The form of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Form {
    Event,
    HighRes,
}

impl From<ArrayKind> for Form {
    fn from(kind: ArrayKind) -> Form {
        match kind {
            ArrayKind::Event => Form::Event,
            ArrayKind::HighRes => Form::HighRes,
        }
    }
}

impl From<Form> for ArrayKind {
    fn from(form: Form) -> ArrayKind {
        match form {
            Form::Event => ArrayKind::Event,
            Form::HighRes => ArrayKind::HighRes,
        }
    }
}

/// A filter that a client has stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FilterOf {
    pub form: Form,
    pub source: Option<Inst>,
    /// The number of its text.
    pub text: u64,
}

/// A place in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Spot {
    Seq(u64),
    Time(Time),
    Oldest,
    Newest,
}

impl From<Place> for Spot {
    fn from(place: Place) -> Spot {
        match place {
            Place::Seq(seq) => Spot::Seq(seq),
            Place::Time(at) => Spot::Time(time(at)),
            Place::Oldest => Spot::Oldest,
            Place::Newest => Spot::Newest,
        }
    }
}

impl From<Spot> for Place {
    fn from(spot: Spot) -> Place {
        match spot {
            Spot::Seq(seq) => Place::Seq(seq),
            Spot::Time((sec, nsec)) => Place::Time(Timestamp { sec, nsec }),
            Spot::Oldest => Place::Oldest,
            Spot::Newest => Place::Newest,
        }
    }
}

/// A stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StreamOf {
    pub source: Inst,
    pub form: Form,
    pub at: Moved,
}

/// Where a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Moved {
    /// The stream.
    pub inst: Inst,
    /// The epoch of its source that sequence numbers are of.
    pub epoch: u64,
    seq: u64,
    owed: u64,
    owed_time: Time,
    since: Option<Time>,
    joined_at: u64,
    delivered: u64,
    filtered: u64,
    again: u64,
    missed: u64,
    bytes: u64,
}

impl Moved {
    pub(crate) fn new(inst: Inst, epoch: u64, state: &CursorState) -> Moved {
        Moved {
            inst,
            epoch,
            seq: state.seq,
            owed: state.owed,
            owed_time: time(state.owed_time),
            since: state.since.map(time),
            joined_at: state.joined_at,
            delivered: state.delivered,
            filtered: state.filtered,
            again: state.again,
            missed: state.missed,
            bytes: state.bytes,
        }
    }

    pub(crate) fn state(&self) -> CursorState {
        let time = |(sec, nsec)| Timestamp { sec, nsec };
        CursorState {
            seq: self.seq,
            owed: self.owed,
            owed_time: time(self.owed_time),
            since: self.since.map(time),
            joined_at: self.joined_at,
            delivered: self.delivered,
            filtered: self.filtered,
            again: self.again,
            missed: self.missed,
            bytes: self.bytes,
        }
    }
}
