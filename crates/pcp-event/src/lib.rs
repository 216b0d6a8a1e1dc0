//! Packed event arrays: building them, reading them, and the log that serves them to many clients.
//!
//! **Invariant:** nothing here knows PDUs, sources, sockets or clocks. Timestamps come in with each
//! record.

pub mod array;
pub mod batch;
pub mod filter;
pub mod log;
pub mod pack;
pub mod packed;
pub mod reader;
mod summary;
mod work;

pub use array::{BuildError, EventArray, HostEventArray, NetEventArray};
pub use batch::{Batch, RecordError, RecordWriter};
pub use filter::{BoundFilter, FieldResolver, Filter, FilterError};
pub use log::{CursorId, CursorStats, EventLog, LogConfig, LogStats, Place, ReadOutcome, SeekError};
pub use pack::{ArrayKind, EventFlags, Param};
pub use reader::{ArrayReader, ReadError};
pub use summary::{print_value, summary};
pub use work::Work;

/// The examples of README.md are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
