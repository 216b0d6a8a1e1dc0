//! The temporal index: where in the volumes which time is (`docs/pcp/archive.md` 6).
//!
//! ```text
//! V2 entry  stamp 8  | volume u32 | meta offset u32 | data offset u32
//! V3 entry  stamp 12 | volume u32 | meta offset u64 | data offset u64
//! ```

use super::error::ArchiveError;
use super::fields::{Fields, Stamp};
use super::member::MemberReader;
use pcp_model::Timestamp;

/// An entry of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// The time of the record it points to: at its start, or (older loggers, last entry) at its end.
    pub stamp: Timestamp,
    /// The data volume.
    pub volume: u32,
    /// Length of the `.meta` then.
    pub meta: u64,
    /// Offset in the volume.
    pub data: u64,
}

/// Most entries that are read; beyond, positions are found by reading on from the last of them.
const MAX_ENTRIES: usize = 1 << 20;

/// Adds the entries of an index file from `at` on. Returns where it ended.
pub(super) fn load(
    entries: &mut Vec<IndexEntry>,
    source: &mut MemberReader,
    mut at: u64,
    stamp: Stamp,
) -> Result<u64, ArchiveError> {
    let len = entry_len(stamp);
    // As much memory as they take, instead of twice as much again and again: to touch it is what costs.
    if entries.is_empty() {
        let there = source.plain_len().map_or(0, |end| end.saturating_sub(at) / len as u64);
        entries.reserve_exact(usize::try_from(there).unwrap_or(MAX_ENTRIES).min(MAX_ENTRIES));
    }
    while entries.len() < MAX_ENTRIES {
        let Some(entry) = entry(Fields(source.bytes(at, len)?), stamp) else { break };
        entries.push(entry);
        at += len as u64;
    }
    Ok(at)
}

/// Bytes of an entry.
pub(super) fn entry_len(stamp: Stamp) -> usize {
    match stamp {
        Stamp::Micro => 20,
        Stamp::Nano => 32,
    }
}

fn entry(mut fields: Fields<'_>, stamp: Stamp) -> Option<IndexEntry> {
    let time = fields.stamp(stamp)?;
    let volume = fields.u32()?;
    let mut offset = || match stamp {
        Stamp::Micro => fields.u32().map(u64::from),
        Stamp::Nano => fields.u64(),
    };
    Some(IndexEntry { stamp: time, volume, meta: offset()?, data: offset()? })
}
