//! Logs looked at while nobody uses them, or somebody does: what is there, whether it is whole, and what may go.
//!
//! Nothing here changes a file but [`trim`], which takes the directory for this process first.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use pcp_event::log::Stretch;
use pcp_files::{Directory, Disk};
use pcp_model::{Inst, Timestamp};

use crate::dir::{LOCK, LogError};
use crate::format::Damage;
use crate::recover::ASIDE;
use crate::segment::{OpenSegment, Patience, ReadError, parse_name};

/// A file of a log, and what is in it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SegmentReport {
    /// The file's name.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// The source, as the file's name says.
    pub source: Inst,
    /// What its head says, if that can be read.
    pub head: Option<HeadReport>,
    /// Sequence number of what comes first.
    pub first: u64,
    /// Sequence number behind what is whole.
    pub end: u64,
    /// Whole batches.
    pub batches: u64,
    /// Records in them.
    pub records: u64,
    /// Records that were lost before they were written, and are written as lost.
    pub lost: u64,
    /// The time of the newest record.
    pub newest: Option<Timestamp>,
    /// What is wrong with it, in the order of its bytes.
    pub damage: Vec<Wrong>,
}

/// What a segment's head says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeadReport {
    /// The name of the source.
    pub name: String,
    /// The agent's domain number.
    pub domain: u16,
    /// The epoch of its sequence numbers.
    pub epoch: u64,
    /// When it was begun, in seconds since the epoch.
    pub made: i64,
}

/// Something wrong with a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wrong {
    /// The byte at which what is wrong begins.
    pub at: u64,
    /// What it is.
    pub what: String,
    /// How many records are missing because of it, if that is known.
    pub missing: Option<u64>,
}

impl Wrong {
    /// Something wrong from byte `at` on, because of which so many records are missing.
    pub fn new(at: u64, what: String, missing: Option<u64>) -> Wrong {
        Wrong { at, what, missing }
    }
}

/// The segments of a directory, by source and sequence number, and the names of files that an agent has set aside.
///
/// # Errors
/// The directory cannot be read.
pub fn segments(dir: &Path) -> io::Result<(Vec<String>, Vec<String>)> {
    let names = Directory::existing(dir)?.names()?;
    let aside = |name: &String| name.strip_suffix(ASIDE).is_some_and(|name| parse_name(name).is_some());
    let (mut found, mut kept): (Vec<String>, Vec<String>) = names
        .into_iter()
        .filter(|name| parse_name(name).is_some() || aside(name))
        .partition(|name| !aside(name));
    found.sort_unstable_by_key(|name| parse_name(name));
    kept.sort_unstable();
    Ok((found, kept))
}

/// Looks through a segment. `whole`: at all bytes, not only at the heads of batches.
///
/// # Errors
/// The file cannot be read.
pub fn segment(dir: &Path, name: &str, whole: bool) -> io::Result<SegmentReport> {
    let disk = Directory::existing(dir)?;
    let (source, first) = parse_name(name).ok_or(io::ErrorKind::InvalidInput)?;
    let bytes = disk.open(name)?.extent()?.0;
    let mut report = SegmentReport {
        name: name.to_owned(),
        bytes,
        source,
        head: None,
        first,
        end: first,
        batches: 0,
        records: 0,
        lost: 0,
        newest: None,
        damage: Vec::new(),
    };
    let wrong = |at, what: &dyn std::fmt::Display, missing| Wrong::new(at, what.to_string(), missing);
    let open = match OpenSegment::open(&disk, name, Patience::Wait) {
        Ok(open) => open,
        Err(ReadError::Io(error)) => return Err(error),
        Err(ReadError::Damage(damage)) => {
            report.damage.push(wrong(0, &damage, None));
            return Ok(report);
        }
    };
    let head = &open.head;
    report.head =
        Some(HeadReport { name: head.name.clone(), domain: head.domain, epoch: head.epoch, made: head.made });
    if head.first != first {
        report.damage.push(wrong(0, &"its name and its head do not say the same number", None));
    }
    let (mut at, mut buffer, mut stretch) = (open.start, Vec::new(), Stretch::default());
    while at < bytes {
        match open.batch_head(at, &mut buffer, Patience::Wait) {
            Ok(batch) => {
                let len = batch.len() as u64;
                let is_whole = if whole || at + len > bytes {
                    open.body(at, &batch, &mut buffer, Patience::Wait)
                        .and_then(|()| Ok(batch.take_records(&mut buffer, &mut stretch)?))
                } else {
                    Ok(())
                };
                if batch.first > report.end {
                    let gone = batch.first - report.end;
                    report.damage.push(wrong(at, &"records are missing before this byte", Some(gone)));
                }
                match is_whole {
                    Ok(()) => {
                        report.batches += 1;
                        report.records += u64::from(batch.records);
                        report.lost += batch.lost;
                        report.newest = report.newest.max(Some(batch.time));
                    }
                    Err(ReadError::Io(error)) => return Err(error),
                    Err(ReadError::Damage(Damage::Short)) => {
                        let gone = Some(batch.lost + u64::from(batch.records));
                        report.damage.push(wrong(at, &"a batch was not written to its end", gone));
                        break;
                    }
                    Err(ReadError::Damage(damage)) => {
                        let gone = Some(batch.lost + u64::from(batch.records));
                        report.damage.push(wrong(at, &damage, gone));
                    }
                }
                report.end = report.end.max(batch.end());
                at += len;
            }
            Err(ReadError::Io(error)) => return Err(error),
            Err(ReadError::Damage(damage)) => {
                report.damage.push(wrong(at, &damage, None));
                match open.next_batch(at + 1, bytes, Patience::Wait)? {
                    Some(next) => at = next,
                    None => break,
                }
            }
        }
    }
    Ok(report)
}

/// Gives the whole batches of a segment to `take`, in the order of their numbers, until it has had enough.
///
/// # Errors
/// The file cannot be read. What is damaged in it is passed over.
pub fn read(dir: &Path, name: &str, mut take: impl FnMut(&Stretch) -> ControlFlow<()>) -> io::Result<()> {
    let disk = Directory::existing(dir)?;
    let io = |error| match error {
        ReadError::Io(error) => error,
        ReadError::Damage(damage) => io::Error::new(io::ErrorKind::InvalidData, damage),
    };
    let open = OpenSegment::open(&disk, name, Patience::Wait).map_err(io)?;
    let bytes = open.file.extent()?.0;
    let (mut at, mut buffer, mut stretch) = (open.start, Vec::new(), Stretch::default());
    while at < bytes {
        let batch = match open.batch_head(at, &mut buffer, Patience::Wait) {
            Ok(batch) => batch,
            Err(ReadError::Io(error)) => return Err(error),
            Err(ReadError::Damage(_)) => match open.next_batch(at + 1, bytes, Patience::Wait)? {
                Some(next) => {
                    at = next;
                    continue;
                }
                None => return Ok(()),
            },
        };
        open.body(at, &batch, &mut buffer, Patience::Wait).map_err(io)?;
        if batch.take_records(&mut buffer, &mut stretch).is_ok() && take(&stretch).is_break() {
            return Ok(());
        }
        at += batch.len() as u64;
    }
    Ok(())
}

/// Removes segments: those of which `goes` says so, but never the newest of a source, as it tells what the counters are.
/// Returns their names.
///
/// # Errors
/// An agent uses the directory, or it cannot be written.
pub fn trim(
    dir: &Path,
    dry_run: bool,
    mut goes: impl FnMut(&SegmentReport) -> bool,
) -> Result<Vec<String>, LogError> {
    let failed = |source| LogError::Io { path: dir.to_owned(), source };
    let lock_path = dir.join(LOCK);
    let disk = Directory::existing(dir).map_err(failed)?;
    let _lock = if dry_run {
        None
    } else {
        let lock = pcp_files::lock(&lock_path);
        Some(lock.map_err(|source| LogError::Lock { path: lock_path.clone(), source })?)
    };
    let (names, _) = segments(dir).map_err(failed)?;
    let mut gone = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let source = |name: &String| parse_name(name).map(|(source, _)| source);
        let is_newest = names.get(index + 1).is_none_or(|next| source(next) != source(name));
        if !is_newest && goes(&segment(dir, name, false).map_err(failed)?) {
            if !dry_run {
                disk.remove(name).map_err(failed)?;
            }
            gone.push(name.clone());
        }
    }
    Ok(gone)
}

/// Removes the files that agents have set aside. Returns their names.
///
/// # Errors
/// As [`trim`].
pub fn remove_aside(dir: &Path, dry_run: bool) -> Result<Vec<String>, LogError> {
    let failed = |source| LogError::Io { path: dir.to_owned(), source };
    let (_, aside) = segments(dir).map_err(failed)?;
    let disk = Directory::existing(dir).map_err(failed)?;
    if !dry_run {
        aside.iter().try_for_each(|name| disk.remove(name)).map_err(failed)?;
    }
    Ok(aside)
}
