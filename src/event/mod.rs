//! Packed event arrays: building them, reading them, and the log that serves them to many clients.
//!
//! **Invariant:** nothing here knows PDUs, sources, sockets or clocks. Timestamps come in with each
//! record.

pub mod batch;
pub mod pack;

pub use batch::{Batch, RecordError, RecordWriter};
pub use pack::{ArrayKind, EventFlags, Param};
