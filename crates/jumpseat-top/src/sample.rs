//! What a source of timed samples gives to the model.

use std::sync::Arc;

use pcp_event::EventFlags;
use pcp_model::{Inst, Timestamp};

/// Tells the things that are watched apart. Never used again.
pub(crate) type Id = u64;

/// Values of all that is watched, at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// When they were collected.
    pub at: Timestamp,
    /// What came of each.
    pub readings: Vec<(Id, Reading)>,
}

/// What came of one thing that is watched.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reading {
    /// Numbers, in the metric's own units.
    Numbers(Vec<Item<f64>>),
    /// Values that are not numbers, as text.
    Texts(Vec<Item<String>>),
    /// Event records.
    Events(Vec<Item<Batch>>),
    /// Why there are no values.
    Failed(String),
}

/// A value of an instance.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item<T> {
    /// The instance; -1 for metrics without instances.
    pub inst: Inst,
    /// Its name; empty for metrics without instances.
    pub name: Arc<str>,
    /// The value.
    pub value: T,
}

/// Event records that came at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Batch {
    /// How many, those not in `newest` included.
    pub records: u64,
    /// How many more were missed.
    pub missed: u64,
    /// The newest records, missed ones included.
    pub newest: Vec<EventRecord>,
}

/// An event record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EventRecord {
    /// When it happened.
    pub time: Timestamp,
    /// Its flags.
    pub flags: EventFlags,
    /// How many records are missing here, for a missed record.
    pub missed: Option<i32>,
    /// Parameters: the field's name, for other agents the last part of it, and the value.
    pub params: Vec<(Arc<str>, String)>,
    /// The record as filters take it, with the place in `params` for each parameter's identifier.
    pub packed: Arc<[u8]>,
}
