//! PCP archives, versions 2 and 3 (`LOGARCHIVE(5)`).
//!
//! Reading: [`Archive`] opens an archive, or several of one host, and reads records from any place in either
//! direction. Metadata is read once when it is opened; data volumes are read through a window, compressed
//! ones are decoded as they are read. Lengths in a file are never trusted: memory grows with bytes that are
//! there.
//!
//! ```no_run
//! use pcp_archive::{Archive, Step};
//!
//! let mut archive = Archive::open("/var/log/pcp/pmlogger/host/20240101")?;
//! let mut at = archive.first();
//! while let Some(step) = archive.next(at)? {
//!     at = match step {
//!         Step::Record(place, after) => {
//!             let record = archive.record(place)?;
//!             println!("{}: {} metrics", record.timestamp, record.metrics());
//!             after
//!         }
//!         Step::Gap(_, after) => after,
//!     };
//! }
//! # Ok::<(), pcp_archive::ArchiveError>(())
//! ```
//!
//! [`Records`] reads records without metadata.
//!
//! [`Archive::stretches`] cuts an archive for several threads.
//!
//! [`Replay`] fetches as a context does: the next record with some metrics, or interpolated values. Contexts, with iterators to the
//! end, names of event records and derived metrics, are in `pcp-client`.
//!
//! [`glances`] lists the archives of a directory without opening them.
//!
//! [`check`] tells all that is wrong with an archive, and [`repair`] writes what is whole of it anew.
//!
//! Writing: [`ArchiveWriter`].

mod check;
mod error;
mod fields;
mod files;
mod first;
mod glance;
mod ignored;
mod index;
mod indoms;
mod interpolate;
mod interpolated;
mod label;
mod labels;
mod layouts;
mod member;
mod mended;
mod metadata;
mod names;
mod packed;
mod part;
mod queue;
mod reader;
mod record;
mod records;
mod replay;
mod seek_points;
mod shown;
mod stretch;
mod tracked;
mod volumes;
mod write;

pub use check::{Checked, Finding, Grade, Kind, LeftOut, Loss, RepairError, Repaired, check, repair};
pub use error::{ArchiveError, Attribute, Excess, Problem};
pub use glance::{Glance, glance_at, glances, name_of};
pub use ignored::IgnoredMarks;
pub use index::IndexEntry;
pub use indoms::OnDisk;
pub use label::LogLabel;
pub use mended::Mended;
pub use reader::{Archive, Direction, Place, RecordPlace, Step};
pub use record::Record;
pub use records::Records;
pub use replay::{Replay, ReplayError, ReplayMode};
pub use stretch::{Found, Stretch};
pub use write::{ArchiveWriter, LabelInfo, WriteError, WriteOptions};

/// The examples of README.md are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
