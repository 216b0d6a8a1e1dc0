//! What the temporal index says that cannot be.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use super::finding::{Findings, Kind};
use crate::error::ArchiveError;
use crate::fields::{Fields, Stamp};
use crate::index::entry_len;
use crate::label::LogLabel;
use crate::member::MemberReader;

/// Entries that are looked at; beyond, nothing depends on them.
const MAX_ENTRIES: u64 = 1 << 20;

/// Lengths of the files that the index points into.
pub(super) struct Lengths {
    pub meta: u64,
    pub volumes: BTreeMap<u32, u64>,
}

/// An entry as it is in the file.
#[derive(Clone, Copy)]
struct Entry {
    sec: i64,
    nsec: i64,
    volume: i32,
    meta: u64,
    data: u64,
}

/// Places in volumes that entries point to.
pub(super) type Places = BTreeMap<u32, FxHashSet<u64>>;

/// Checks the entries, and gives the places at which records have to begin or end.
pub(super) fn check(
    source: &mut MemberReader,
    label: &LogLabel,
    lengths: &Lengths,
    findings: &mut Findings,
) -> Result<Places, ArchiveError> {
    let (stamp, first) = (label.stamp(), label.len());
    let len = entry_len(stamp);
    let path = source.path().to_owned();
    let mut places = Places::new();
    let mut before: Option<Entry> = None;
    for number in 1..=MAX_ENTRIES {
        let at = first + (number - 1) * len as u64;
        let bytes = source.bytes(at, len)?;
        let got = bytes.len();
        let Some(entry) = entry(Fields(bytes), stamp) else {
            if got > 0 {
                let what = format!("entry {number}: {got} bytes of {len}");
                findings.add(Kind::Index, &path, at, what);
            }
            break;
        };
        let mut wrong =
            |what: String| findings.add(Kind::Index, &path, at, format!("entry {number}: {what}"));
        let volume = u32::try_from(entry.volume).ok();
        match volume {
            None => wrong(format!("negative volume {}", entry.volume)),
            Some(volume) if !lengths.volumes.contains_key(&volume) => {
                wrong(format!("volume {volume} is missing"));
            }
            Some(_) => {}
        }
        if entry.sec < 0 || entry.nsec < 0 {
            wrong(format!("negative time {}.{:09}", entry.sec, entry.nsec));
        } else if entry.nsec >= 1_000_000_000 {
            wrong(format!("{} nanoseconds", entry.nsec));
        }
        let volume_len = volume.and_then(|volume| lengths.volumes.get(&volume)).copied();
        for (what, place, end) in
            [("metadata", entry.meta, Some(lengths.meta)), ("values", entry.data, volume_len)]
        {
            if place < first {
                wrong(format!("the place of {what} ({place}) is inside of the label"));
            } else if end.is_some_and(|end| place > end) {
                wrong(format!("the place of {what} ({place}) is behind the end of the file"));
            }
        }
        if entry.time() < (label.start.sec, label.start.nsec.into()) {
            wrong("a time in front of the label's".to_owned());
        }
        if let Some(before) = before {
            if entry.time() < before.time() {
                wrong("time goes back".to_owned());
            }
            if entry.volume < before.volume {
                wrong(format!("volume goes back, from {} to {}", before.volume, entry.volume));
            }
            if entry.meta < before.meta {
                wrong(format!("place of metadata goes back, from {} to {}", before.meta, entry.meta));
            }
            if entry.volume == before.volume && entry.data < before.data {
                wrong(format!("place of values goes back, from {} to {}", before.data, entry.data));
            }
        }
        if let (Some(volume), Some(end)) = (volume, volume_len)
            && (first..=end).contains(&entry.data)
        {
            places.entry(volume).or_default().insert(entry.data);
        }
        before = Some(entry);
    }
    Ok(places)
}

impl Entry {
    fn time(&self) -> (i64, i64) {
        (self.sec, self.nsec)
    }
}

fn entry(mut fields: Fields<'_>, stamp: Stamp) -> Option<Entry> {
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
    Some(Entry { sec, nsec, volume, meta: place()?, data: place()? })
}
