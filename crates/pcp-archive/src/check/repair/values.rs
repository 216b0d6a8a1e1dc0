//! The records of values, written anew in order of time.
//!
//! Runs are in order; of several, the record with the smallest time comes first. Each run is read from front to back by a
//! reader of its own, as long as no more than [`OPEN`] of them interleave. Where more do, readers are closed and opened again,
//! which costs reading, and in a compressed volume decoding what is in front. So work is bounded: [`MAX_WORK_FACTOR`] times
//! the archive and [`MAX_WORK`] bytes are read and decoded, and no more.
//!
//! Memory: that of [`OPEN`] readers. Each has a window of 256 KiB, or its longest record; of a compressed volume also 16 MiB of
//! what was decoded, and a decoder, which takes what the file says that it needs (8 MiB by default of `xz` and `zstd`) and
//! 128 MiB at most: 1.2 GiB for all in the worst case.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use rustc_hash::FxHashSet;

use super::{Loss, Losses, RepairError};
use crate::check::survey::{Progress, Survey};
use crate::check::volume::Run;
use crate::error::{ArchiveError, Problem};
use crate::fields::Stamp;
use crate::files::{Compression, Found};
use crate::layouts::Layouts;
use crate::member::MemberReader;
use crate::record::{Record, time_of};
use crate::write::ArchiveWriter;
use pcp_model::{Pmid, Timestamp};

/// How many times the bytes of all records are read and decoded at most, and how many bytes besides.
const MAX_WORK_FACTOR: u64 = 32;
const MAX_WORK: u64 = 256 << 20;
/// Runs that are open at a time. Each takes a window, or what decoding takes.
const OPEN: usize = 8;

/// What is wrong with a place where a record was before.
pub(super) const CHANGED: &str = "it is not there any more: the archive is being changed";

/// A run that is being written.
struct Cursor {
    run: Run,
    /// The next record, and its time.
    at: u64,
    next: Timestamp,
}

/// Writes them, as long as `progress` says to go on: how many records, and how many marks besides.
pub(super) fn copy(
    name: &Path,
    survey: &Survey,
    stamp: Stamp,
    writer: &mut ArchiveWriter,
    losses: &mut Losses,
    progress: Progress<'_>,
) -> Result<ControlFlow<(), (u64, u64)>, RepairError> {
    let limit = survey.bytes.saturating_mul(MAX_WORK_FACTOR).saturating_add(MAX_WORK);
    let mut readers = Readers { files: &survey.files, open: Vec::new(), work: 0 };
    let described: FxHashSet<Pmid> = survey.metadata.pmids().collect();
    let mut layouts = Layouts::default();
    let (mut records, mut marks, mut undescribed, mut emptied) = (0, 0, 0, 0);
    let mut done = survey.bytes;
    // By the time of the next record, then as they were.
    let mut cursors: BTreeMap<(Timestamp, usize), Cursor> = BTreeMap::new();
    for (number, run) in survey.runs.iter().enumerate() {
        cursors.insert((run.first, number), Cursor { run: *run, at: run.from, next: run.first });
    }
    while let Some(((_, number), mut cursor)) = cursors.pop_first() {
        let run = cursor.run;
        if run.is_after_loss && cursor.at == run.from {
            marks += u64::from(writer.mark_before(cursor.next)?);
        }
        let until = cursors.first_key_value().map(|(key, _)| *key);
        let source = readers.of(number, run)?;
        while cursor.at < run.to && until.is_none_or(|until| (cursor.next, number) < until) {
            let at = cursor.at;
            let Some(frame) = source.frame(at)? else { return Err(source.bad(at, CHANGED).into()) };
            let record = match Record::new(source.record(frame)?, stamp, &mut layouts) {
                Ok(record) => record,
                Err(what) => return Err(source.bad(at, what).into()),
            };
            let sets = || record.sets().filter(|set| described.contains(&set.pmid));
            let kept = sets().count();
            undescribed += (record.metrics() - kept) as u64;
            if kept > 0 || record.is_mark() {
                writer.copy(record.timestamp, sets())?;
                records += 1;
            } else {
                emptied += 1;
            }
            done += frame.len as u64;
            if progress(done).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            cursor.at = frame.end();
            if cursor.at < run.to {
                let Some(next) = source.frame(cursor.at)? else {
                    return Err(source.bad(cursor.at, CHANGED).into());
                };
                cursor.next = match time_of(source.record(next)?, stamp) {
                    Ok(time) => time,
                    Err(what) => return Err(source.bad(next.at, what).into()),
                };
            }
        }
        if readers.work() > limit {
            let is_packed = survey.files.volumes.values().any(|file| file.compression != Compression::None);
            return Err(RepairError::Disorder { path: name.to_owned(), bytes: limit, is_packed });
        }
        if cursor.at < run.to {
            cursors.insert((cursor.next, number), cursor);
        } else {
            readers.close(number);
        }
    }
    losses.extend([(Loss::Undescribed, undescribed), (Loss::Emptied, emptied)]);
    Ok(ControlFlow::Continue((records, marks)))
}

/// Readers of the runs that were read last.
struct Readers<'a> {
    files: &'a Found,
    /// By the number of the run, the last used at the end.
    open: Vec<(usize, MemberReader)>,
    /// What was read and decoded by those that are closed again.
    work: u64,
}

impl Readers<'_> {
    fn of(&mut self, number: usize, run: Run) -> Result<&mut MemberReader, ArchiveError> {
        let reader = match self.open.iter().position(|(open, _)| *open == number) {
            Some(at) => self.open.remove(at),
            None => {
                let Some(member) = self.files.volumes.get(&run.volume) else {
                    let problem = Problem::MissingFile("a data volume");
                    return Err(ArchiveError::new(&self.files.base, None, problem));
                };
                if self.open.len() >= OPEN {
                    self.work += self.open.remove(0).1.work();
                }
                (number, MemberReader::open(member)?)
            }
        };
        let at = self.open.len();
        self.open.push(reader);
        Ok(&mut self.open[at].1)
    }

    /// The run is at its end.
    fn close(&mut self, number: usize) {
        if let Some(at) = self.open.iter().position(|(open, _)| *open == number) {
            self.work += self.open.remove(at).1.work();
        }
    }

    fn work(&self) -> u64 {
        self.work + self.open.iter().map(|(_, source)| source.work()).sum::<u64>()
    }
}
