//! The event log on disk.
//!
//! What a source's threads pack is written, batch by batch and before anything is acknowledged, to an append-only file: of each record
//! what is not as in the one before it. After one `write` the system has it, so that it survives the death of the process at any
//! instruction; when it survives a loss of power is [`SyncMode`]'s to say.
//!
//! * [`LogDir`]: a directory of logs, for one process. [`SourceLog`]: the log of a source, to append to. [`Reader`]: its
//!   files as the [`History`](pcp_event::log::History) of an event log in memory.
//! * [`Mark`], [`State`]: what is written with the records: how far numbered streams are, and what was counted.
//! * [`inspect`]: logs looked at while nobody, or somebody else, uses them.
//! * `format`: the bytes. `delta`: those of records. `segment`: a file. `recover`: what is found at the start. `fetcher`: what waits for the disk.
//!
//! **Invariants.** Whoever appends may wait for the disk; who reads never does. A file is written once, from its beginning to
//! its end, and never again by another life of the process. What cannot be read is missing, never wrong: a checksum stands
//! behind every record that is given out. When the disk fails, numbers and records go on without it.

mod body;
mod common;
mod delta;
mod dir;
mod fetcher;
mod format;
#[doc(hidden)]
pub mod fuzzing;
pub mod inspect;
mod reader;
mod recover;
mod segment;
mod source;
mod state;

pub use common::{Limits, SyncMode};
pub use dir::{LogDir, LogError, LogStats};
pub use format::{Damage, VERSION};
pub use reader::Reader;
pub use source::{Appended, Appender, DELIVERED, Entry, LOST, SourceLog, SourceStats};
pub use state::{MAX_ABOVE, MAX_MARK_TEXT, MAX_MARKS, Mark, State};

/// The examples of README.md are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
