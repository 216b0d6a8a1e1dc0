//! The temporal index: where in the volumes which time is (`docs/pcp/archive.md` 6).
//!
//! ```text
//! V2 entry  stamp 8  | volume u32 | meta offset u32 | data offset u32
//! V3 entry  stamp 12 | volume u32 | meta offset u64 | data offset u64
//! ```
//!
//! Cost: a walk over the file when an archive is opened; another one, and 32 bytes of memory an entry, once somebody searches.

use super::error::ArchiveError;
use super::fields::{Fields, Stamp};
use super::member::{FileId, MemberReader};
use super::volumes::{Spot, Volumes};
use pcp_model::Timestamp;
use tracing::trace;

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
/// Entries looked at at once.
const AT_ONCE: usize = 256;

/// The temporal index of one archive: looked through when the archive is opened, so that what is wrong with it can be told, and kept
/// once somebody searches. Most who open an archive never do.
pub(super) struct TemporalIndex {
    file: Option<FileId>,
    /// What was looked through, and what is kept of it.
    seen: Walk,
    kept: Walk,
    unused: usize,
    /// Entries that can be searched: times and places grow.
    known: Vec<(Timestamp, Spot)>,
}

/// How far an index was walked through.
#[derive(Clone, Copy)]
struct Walk {
    at: u64,
    entries: usize,
    /// The last entry that fits into the order.
    last: Option<(Timestamp, Spot)>,
}

impl TemporalIndex {
    /// The index in a file, whose entries begin at `first`.
    pub(crate) fn new(file: Option<FileId>, first: u64) -> TemporalIndex {
        let begin = Walk { at: first, entries: 0, last: None };
        TemporalIndex { file, seen: begin, kept: begin, unused: 0, known: Vec::new() }
    }

    /// The file that it is in, if the system says it.
    pub(crate) fn file(&self) -> Option<FileId> {
        self.file
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.seen.entries
    }

    /// How many of them cannot be searched.
    pub(crate) fn unused(&self) -> usize {
        self.unused
    }

    /// Looks through what has come since the last time. `unfit` is told of the entries that cannot be searched. How many these were.
    ///
    /// # Errors
    /// Those of reading.
    pub(crate) fn look(
        &mut self,
        source: &mut MemberReader,
        volumes: &Volumes,
        unfit: impl Fn(&IndexEntry),
    ) -> Result<usize, ArchiveError> {
        let mut unused = 0;
        self.seen.on(source, volumes, MAX_ENTRIES, |entry, spot| {
            if spot.is_none() {
                unused += 1;
                unfit(entry);
            }
        })?;
        self.unused += unused;
        Ok(unused)
    }

    /// Entries that can be searched, by time. Those that are not kept yet are read once, with a reader that `open` gives: places are found
    /// without what cannot be read.
    pub(crate) fn known(
        &mut self,
        volumes: &Volumes,
        open: impl FnOnce(&TemporalIndex) -> Option<MemberReader>,
    ) -> &[(Timestamp, Spot)] {
        if self.kept.entries < self.seen.entries {
            let source = open(self);
            let TemporalIndex { seen, kept, unused, known, .. } = self;
            if let Some(mut source) = source {
                // As much memory as they take, instead of twice as much again and again: to touch it is what costs.
                known.reserve_exact((seen.entries - *unused).saturating_sub(known.len()));
                let read = kept.on(&mut source, volumes, seen.entries, |entry, spot| {
                    known.extend(spot.map(|spot| (entry.stamp, spot)));
                });
                if let Err(error) = read {
                    trace!(target: "pcp::log", "{error}: {} entries of the index are known", known.len());
                }
            }
            (kept.at, kept.entries) = (seen.at, seen.entries);
        }
        &self.known
    }
}

impl Walk {
    /// Goes on to the end of the file, up to entry `most` at most. Each is given, with its place if it fits into the order: what does not
    /// would mislead a search.
    fn on(
        &mut self,
        source: &mut MemberReader,
        volumes: &Volumes,
        most: usize,
        mut each: impl FnMut(&IndexEntry, Option<Spot>),
    ) -> Result<(), ArchiveError> {
        let Walk { at, entries, last } = self;
        let left = most.saturating_sub(*entries);
        walk(source, at, volumes.stamp(), left, |entry| {
            let spot = volumes.numbered(entry.volume).map(|volume| Spot { volume, offset: entry.data });
            let spot = spot.filter(|spot| last.is_none_or(|last| last.0 <= entry.stamp && last.1 <= *spot));
            *last = spot.map(|spot| (entry.stamp, spot)).or(*last);
            *entries += 1;
            each(&entry, spot);
        })
    }
}

/// The entries of an index from `first` on, where one begins; [`MAX_ENTRIES`] at most.
///
/// # Errors
/// Those of reading.
pub(super) fn entries(
    source: &mut MemberReader,
    first: u64,
    stamp: Stamp,
) -> Result<Vec<IndexEntry>, ArchiveError> {
    let (mut entries, mut at) = (Vec::new(), first);
    walk(source, &mut at, stamp, MAX_ENTRIES, |entry| entries.push(entry))?;
    Ok(entries)
}

/// Entries from `at` on, and where they end.
fn walk(
    source: &mut MemberReader,
    at: &mut u64,
    stamp: Stamp,
    mut most: usize,
    mut each: impl FnMut(IndexEntry),
) -> Result<(), ArchiveError> {
    let len = entry_len(stamp);
    loop {
        let there = source.bytes(*at, AT_ONCE.min(most) * len)?;
        let whole = there.len() / len;
        there.chunks_exact(len).filter_map(|bytes| entry(Fields(bytes), stamp)).for_each(&mut each);
        *at += (whole * len) as u64;
        most -= whole;
        if whole == 0 {
            return Ok(());
        }
    }
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
