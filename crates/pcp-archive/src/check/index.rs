//! What the temporal index says that cannot be.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::finding::{Findings, Kind};
use crate::error::ArchiveError;
use crate::fields::{Fields, Stamp};
use crate::index::entry_len;
use crate::label::LogLabel;
use crate::member::MemberReader;

/// Entries that are looked at; beyond, nothing depends on them.
const MAX_ENTRIES: usize = 1 << 20;

/// Where the files end that the index points into, as far as that is known.
#[derive(Default)]
pub(super) struct Ends {
    pub meta: Option<u64>,
    pub volumes: BTreeMap<u32, u64>,
}

/// The entries of an index.
#[derive(Default)]
pub(super) struct Entries {
    all: Vec<Entry>,
    /// How many bytes are left behind the last, and where.
    rest: Option<(u64, usize)>,
}

/// An entry as it is in the file.
#[derive(Clone, Copy)]
struct Entry {
    at: u64,
    sec: i64,
    nsec: i64,
    volume: i32,
    meta: u64,
    data: u64,
}

/// Places of a volume that entries point to, beside those at which its records begin and end.
#[derive(Default)]
pub(super) struct Places {
    /// In order.
    all: Vec<u64>,
    /// The first behind the last boundary.
    next: usize,
    missed: Vec<u64>,
}

impl Places {
    /// A record begins or ends there, behind all those told of before.
    pub(super) fn pass(&mut self, boundary: u64) {
        while let Some(&place) = self.all.get(self.next).filter(|place| **place <= boundary) {
            self.next += 1;
            if place < boundary {
                self.missed.push(place);
            }
        }
    }

    /// Whether there are places behind the last boundary.
    pub(super) fn are_beyond(&self) -> bool {
        self.next < self.all.len()
    }

    /// Those at which no record begins or ends, in front of the last boundary.
    pub(super) fn missed(self) -> Vec<u64> {
        self.missed
    }
}

impl Entries {
    /// Reads them.
    pub(super) fn read(source: &mut MemberReader, label: &LogLabel) -> Result<Entries, ArchiveError> {
        let stamp = label.stamp();
        let len = entry_len(stamp);
        let mut entries = Entries::default();
        let mut at = label.len();
        while entries.all.len() < MAX_ENTRIES {
            let bytes = source.bytes(at, len)?;
            let Some(entry) = entry(at, Fields(bytes), stamp) else {
                entries.rest = Some((at, bytes.len())).filter(|(_, len)| *len > 0);
                break;
            };
            entries.all.push(entry);
            at += len as u64;
        }
        Ok(entries)
    }

    /// The places at which records have to begin or end, behind the label, by volume.
    pub(super) fn places(&self, label: &LogLabel) -> BTreeMap<u32, Places> {
        let mut places: BTreeMap<u32, Places> = BTreeMap::new();
        for entry in self.all.iter().filter(|entry| entry.data >= label.len()) {
            if let Ok(volume) = u32::try_from(entry.volume) {
                places.entry(volume).or_default().all.push(entry.data);
            }
        }
        for places in places.values_mut() {
            places.all.sort_unstable();
            places.all.dedup();
        }
        places
    }

    /// The volumes that entries point into.
    pub(super) fn volumes(&self) -> BTreeSet<u32> {
        self.all.iter().filter_map(|entry| u32::try_from(entry.volume).ok()).collect()
    }

    /// Tells what cannot be.
    pub(super) fn check(&self, path: &Path, label: &LogLabel, ends: &Ends, findings: &mut Findings) {
        let mut before: Option<Entry> = None;
        for (number, entry) in (1..).zip(&self.all) {
            for what in entry.mistakes(before.as_ref(), label, ends) {
                findings.add(Kind::Index, path, entry.at, || format!("entry {number}: {what}"));
            }
            before = Some(*entry);
        }
        if let Some((at, len)) = self.rest {
            findings.add(Kind::Index, path, at, || {
                format!("entry {}: {len} bytes of {}", self.all.len() + 1, entry_len(label.stamp()))
            });
        }
    }
}

impl Entry {
    fn time(&self) -> (i64, i64) {
        (self.sec, self.nsec)
    }

    fn mistakes(&self, before: Option<&Entry>, label: &LogLabel, ends: &Ends) -> Vec<String> {
        let mut found = Vec::new();
        let volume = u32::try_from(self.volume).ok();
        let end = volume.and_then(|volume| ends.volumes.get(&volume)).copied();
        // One that is missing is told of once, by itself.
        if volume.is_none() {
            found.push(format!("negative volume {}", self.volume));
        }
        if self.sec < 0 || self.nsec < 0 {
            found.push(format!("negative time {}.{:09}", self.sec, self.nsec));
        } else if self.nsec >= 1_000_000_000 {
            found.push(format!("{} nanoseconds", self.nsec));
        }
        for (what, place, end) in [("metadata", self.meta, ends.meta), ("values", self.data, end)] {
            if place < label.len() {
                found.push(format!("the place of {what} ({place}) is inside of the label"));
            } else if end.is_some_and(|end| place > end) {
                found.push(format!("the place of {what} ({place}) is behind the end of the file"));
            }
        }
        if self.time() < (label.start.sec, label.start.nsec.into()) {
            found.push("a time in front of the label's".to_owned());
        }
        let Some(before) = before else { return found };
        if self.time() < before.time() {
            found.push("time goes back".to_owned());
        }
        if self.volume < before.volume {
            found.push(format!("volume goes back, from {} to {}", before.volume, self.volume));
        }
        if self.meta < before.meta {
            found.push(format!("place of metadata goes back, from {} to {}", before.meta, self.meta));
        }
        if self.volume == before.volume && self.data < before.data {
            found.push(format!("place of values goes back, from {} to {}", before.data, self.data));
        }
        found
    }
}

fn entry(at: u64, mut fields: Fields<'_>, stamp: Stamp) -> Option<Entry> {
    let (sec, nsec) = match stamp {
        Stamp::Micro => (i64::from(fields.i32()?), i64::from(fields.i32()?) * 1000),
        Stamp::Nano => {
            let (low, high, nsec) = (fields.u32()?, fields.u32()?, fields.i32()?);
            ((u64::from(high) << 32 | u64::from(low)) as i64, nsec.into())
        }
    };
    let volume = fields.i32()?;
    let mut place = || match stamp {
        Stamp::Micro => fields.u32().map(u64::from),
        Stamp::Nano => fields.u64(),
    };
    Some(Entry { at, sec, nsec, volume, meta: place()?, data: place()? })
}
