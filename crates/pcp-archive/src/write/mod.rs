//! Writing archives of version 3 (`docs/pcp/archive.md`, `LOGARCHIVE(5)`).
//!
//! ```text
//! descriptors, instances, labels, texts --> batch --+ (1) metadata first
//! values --> record --------------------------------+ (2) then the values that need it
//!                                                   + (3) then the index entry that points to them
//! ```
//!
//! **Whenever the writer dies, what it wrote can be read.** A reader of PCP's refuses an archive whose metadata
//! ends in the middle of a record, takes a data volume up to its last whole record, and ignores half an index
//! entry. So metadata grows by whole batches or not at all ([`files`]), records and index entries are appended
//! with one write each, or some at once ([`held`]), and nothing points to what is not there yet. Files come into being with the first
//! record, never with a label alone, which readers refuse too.
//!
//! **Cost of a record:** one walk over its values, two copies (sets and blocks grow apart, and then go to one buffer),
//! one write. No allocation once the buffers have grown to the size of the largest.

mod append;
mod error;
mod files;
mod held;
mod indom;
mod label;
mod members;
mod metadata;
mod record;
mod writer;

pub use error::WriteError;
pub use label::LabelInfo;
pub use writer::{ArchiveWriter, WriteOptions};

use bytes::BufMut;

use pcp_model::Timestamp;

/// Bytes of a stamp.
const STAMP_LEN: usize = 12;

/// Appends a stamp: low, then high word of the seconds, then nanoseconds (`docs/pcp/archive.md` 3).
pub(crate) fn put_stamp(out: &mut impl BufMut, time: Timestamp) {
    out.put_u32(time.sec as u32);
    out.put_u32((time.sec as u64 >> 32) as u32);
    out.put_u32(time.nsec);
}
