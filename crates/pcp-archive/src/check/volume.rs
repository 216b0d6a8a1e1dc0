//! The walk over the records of volumes, one behind the other: what is known at the end of one holds at the start of the next.

use super::finding::Kind;
use super::index::Places;
use super::scan::{Piece, Scan};
use super::survey::Walk;
use super::values::Values;
use crate::error::ArchiveError;
use crate::fields::Stamp;
use crate::label::LogLabel;
use crate::layouts::Layouts;
use crate::member::{Frame, MemberReader};
use crate::metadata::Metadata;
use crate::record::{Record, time_of};
use pcp_model::Timestamp;

/// Runs of records in order of time that are kept. An archive in order has one for each volume.
pub(super) const MAX_RUNS: usize = 1 << 16;

/// Whole records that follow each other in a volume and in time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub volume: u32,
    pub from: u64,
    pub to: u64,
    pub first: Timestamp,
    /// Whether something in front of it was lost.
    pub is_after_loss: bool,
}

/// What is known of the records so far.
#[derive(Default)]
pub(super) struct Course {
    values: Values,
    /// The time of the last record.
    last: Option<Timestamp>,
    /// Whether the next record begins a run.
    is_new: bool,
    /// Whether something was lost behind the last record.
    has_lost: bool,
    pub runs: Vec<Run>,
    /// Whether there are runs that there was no room for.
    pub has_more_runs: bool,
    pub records: u64,
    pub marks: u64,
}

impl Course {
    /// Something was lost here: what comes does not continue what came before.
    pub(super) fn lose(&mut self) {
        self.values.mark();
        (self.is_new, self.has_lost) = (true, true);
    }

    /// Walks over a volume. Where it ends.
    pub(super) fn walk(
        &mut self,
        walk: &mut Walk<'_>,
        (number, source): (u32, &mut MemberReader),
        label: &LogLabel,
        metadata: &Metadata,
        mut places: Places,
    ) -> Result<u64, ArchiveError> {
        let path = source.path().to_owned();
        let stamp = label.stamp();
        let mut scan = Scan::new(label.len());
        let (mut layouts, mut searched) = (Layouts::default(), Layouts::default());
        let mut is_damaged = false;
        self.is_new = true;
        while let Some(piece) = scan.next(source, |record| is_record(record, stamp, &mut searched))? {
            let frame = match piece {
                Piece::Record(frame) => frame,
                Piece::Damage { at, end, what } => {
                    walk.damage(&path, at, end, &what);
                    self.lose();
                    is_damaged = true;
                    continue;
                }
            };
            if walk.done(frame.len).is_break() {
                break;
            }
            places.pass(frame.at);
            places.pass(frame.end());
            let record = match Record::new(source.record(frame)?, stamp, &mut layouts) {
                Ok(record) => record,
                Err(what) => {
                    walk.findings.add(Kind::Record, &path, frame.at, || what.to_owned());
                    self.lose();
                    continue;
                }
            };
            let (time, findings) = (record.timestamp, &mut walk.findings);
            if time < label.start {
                findings.add(Kind::Time, &path, frame.at, || {
                    format!("a record of {time}, in front of the label's {}", label.start)
                });
            }
            if let Some(before) = self.last.filter(|before| time < *before) {
                let message = || format!("a record of {time} behind one of {before}");
                findings.add(Kind::Time, &path, frame.at, message);
                self.is_new = true;
            }
            self.last = Some(time);
            self.records += 1;
            self.marks += u64::from(record.is_mark());
            // Without any metadata that was told, and not of each metric.
            if !metadata.is_empty() {
                self.values.add(&record, metadata, findings, (&path, frame.at));
            }
            self.keep(number, frame, time);
        }
        // Cut off between two records, so that nothing else tells.
        if scan.at() <= label.len() || places.are_beyond() {
            self.lose();
        }
        if !is_damaged {
            for place in places.missed() {
                walk.findings.add(Kind::Index, &path, place, || {
                    format!("the index points to byte {place}, where no record begins")
                });
            }
        }
        Ok(scan.at())
    }

    fn keep(&mut self, volume: u32, frame: Frame, first: Timestamp) {
        let has_room = self.runs.len() < MAX_RUNS;
        match self.runs.last_mut() {
            Some(run) if !self.is_new => run.to = frame.end(),
            _ if has_room => {
                let (from, to, is_after_loss) = (frame.at, frame.end(), self.has_lost);
                self.runs.push(Run { volume, from, to, first, is_after_loss });
                (self.is_new, self.has_lost) = (false, false);
            }
            _ => self.has_more_runs = true,
        }
    }
}

/// Whether bytes that a search came upon are a record with values.
fn is_record(record: &[u8], stamp: Stamp, layouts: &mut Layouts) -> bool {
    time_of(record, stamp).is_ok()
        && has_usual_fraction(record, stamp)
        && Record::new(record, stamp, layouts).is_ok_and(|record| !record.is_mark())
}

/// Whether the fraction of the second of a record's stamp is one.
fn has_usual_fraction(record: &[u8], stamp: Stamp) -> bool {
    let (at, most) = match stamp {
        Stamp::Micro => (8, 1_000_000),
        Stamp::Nano => (12, 1_000_000_000),
    };
    let word = record.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_be_bytes);
    word.is_some_and(|fraction| fraction < most)
}
