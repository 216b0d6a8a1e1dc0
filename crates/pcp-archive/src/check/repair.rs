//! What is whole of an archive, written anew: metadata, then values in order of time, with a mark where records were lost.
//!
//! The archive written is of version 3, whatever the one read is: stamps of version 2 have their place in it, and so has metadata
//! of both versions. Values are copied as they are. Cost: two walks over the archive; memory as for [`check`](super::check()),
//! and one record.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::BufMut;
use pcp_files::Workplace;
use rustc_hash::{FxHashMap, FxHashSet};

use super::finding::Kind;
use super::{Checked, Run, Survey};
use crate::error::{ArchiveError, Problem};
use crate::fields::{Fields, Stamp};
use crate::files::FileSet;
use crate::layouts::Layouts;
use crate::member::{MemberReader, WORD};
use crate::metadata::{INDOM, INDOM_DELTA, INDOM_V2, LABEL, LABEL_V2, Metadata, record_type};
use crate::record::{Record, time_of};
use crate::write::{ArchiveWriter, LabelInfo, WriteError, WriteOptions, put_stamp};
use pcp_model::{InDom, Instance, Pmid, Timestamp};

/// How many instances are gone through at most to make changes of domains anew.
const MAX_WORK: u64 = 1 << 30;
/// Volumes that are open at a time, where records of several have to be put in order.
const OPEN: usize = 8;

/// What was repaired.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Repaired {
    /// What was wrong.
    pub checked: Checked,
    /// Records of values that were written, marks among them, without those of `marks`.
    pub records: u64,
    /// Marks put where something was lost.
    pub marks: u64,
    /// Records of metadata that were written.
    pub metadata: u64,
    /// What of whole records was left out, by why.
    pub left_out: Vec<LeftOut>,
}

/// Something of whole records that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// What, and why.
    pub what: &'static str,
    /// How often.
    pub count: u64,
}

/// Why an archive is not repaired. Nothing was written then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError {
    /// It cannot be looked at.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// There is nothing that could be written.
    #[error("{}: {reason}: nothing is written", path.display())]
    Nothing {
        /// The archive.
        path: PathBuf,
        /// What there would have to be.
        reason: &'static str,
    },
}

/// Writes what is whole of the archive `name` to an archive `out` that is not there yet. `progress` is told the bytes walked
/// through, which in the end are about twice those of the archive.
///
/// # Errors
/// [`RepairError`]; files of an archive `out` are never written over, and are there all or none.
pub fn repair(name: &Path, out: &Path, progress: &mut dyn FnMut(u64)) -> Result<Repaired, RepairError> {
    refuse_existing(out)?;
    let mut survey = Survey::of(name, progress)?;
    let nothing = |reason| RepairError::Nothing { path: name.to_owned(), reason };
    let label = survey.checked.label.clone().ok_or_else(|| nothing("no label can be read"))?;
    if survey.metadata.is_empty() {
        return Err(nothing("no metric is described"));
    }
    if survey.runs.is_empty() {
        return Err(nothing("no record of values is whole"));
    }
    let info = LabelInfo {
        host: label.host.clone(),
        zone: label.zone.clone(),
        zone_info: label.zone_info.clone(),
        pid: label.pid,
    };
    let place = workplace(out)?;
    let mut writer = ArchiveWriter::create(place.path().join(WRITTEN), info, WriteOptions::default())?;
    let mut repaired =
        Repaired { checked: survey.checked.clone(), records: 0, marks: 0, metadata: 0, left_out: Vec::new() };
    copy_metadata(&mut survey, &mut writer, &mut repaired)?;
    copy_values(&survey, label.stamp(), &mut writer, &mut repaired, progress)?;
    writer.flush()?;
    drop(writer);
    publish(place, out)?;
    Ok(repaired)
}

/// Writes the records of the metadata. After a loss, changes of domains are made anew: what they change may be missing.
fn copy_metadata(
    survey: &mut Survey,
    writer: &mut ArchiveWriter,
    repaired: &mut Repaired,
) -> Result<(), RepairError> {
    let mut source = MemberReader::open(&survey.files.meta)?;
    let mut domains = Metadata::default();
    // Of each domain the newest time, and how many records there were.
    let mut seen: FxHashMap<InDom, (Timestamp, u64)> = FxHashMap::default();
    let (mut work, mut too_much) = (0, 0);
    for frame in &survey.frames {
        let record = source.record(*frame)?;
        let kind = record_type(record).unwrap_or_default();
        let body = record.get(2 * WORD..record.len() - WORD).unwrap_or_default();
        repaired.metadata += 1;
        let stamp = if matches!(kind, INDOM_V2 | LABEL_V2) { Stamp::Micro } else { Stamp::Nano };
        let is_domain = matches!(kind, INDOM_V2 | INDOM | INDOM_DELTA);
        if is_domain && survey.lost_metadata {
            let mut fields = Fields(body);
            let (Some(time), Some(indom)) = (fields.stamp(stamp), fields.u32()) else { continue };
            if work > MAX_WORK {
                too_much += 1;
                repaired.metadata -= 1;
                continue;
            }
            let indom = InDom(indom);
            let (newest, records) = seen.entry(indom).or_insert((time, 0));
            // One that is late is put in its place among the others.
            work += if time < *newest { *records } else { 1 };
            (*newest, *records) = (time.max(*newest), *records + 1);
            // It was read before.
            let _ = domains.add_record(record);
            let domain = domains.indoms.get_mut(&indom);
            let instances = domain.and_then(|domain| {
                domain.settle();
                domain.at(time)
            });
            let instance =
                |(id, name): (i32, &[u8])| Instance { id, name: String::from_utf8_lossy(name).into_owned() };
            let instances: Vec<Instance> = instances.into_iter().flatten().map(instance).collect();
            work += instances.len() as u64;
            writer.indom(time, indom, &instances);
            continue;
        }
        let batch = writer.batch();
        if stamp == Stamp::Nano {
            batch.extend_from_slice(record);
            continue;
        }
        let mut fields = Fields(body);
        let Some(time) = fields.stamp(stamp) else { continue };
        const LONGER: u32 = 4;
        let len = record.len() as u32 + LONGER;
        batch.put_u32(len);
        batch.put_u32(if kind == INDOM_V2 { INDOM } else { LABEL });
        put_stamp(batch, time);
        batch.extend_from_slice(fields.0);
        batch.put_u32(len);
    }
    if too_much > 0 {
        let what = "records of instance domains, behind as many as are made anew after a loss";
        repaired.left_out.push(LeftOut { what, count: too_much });
    }
    Ok(())
}

/// A run that is being written.
struct Cursor {
    run: Run,
    at: u64,
    next: Timestamp,
}

fn copy_values(
    survey: &Survey,
    stamp: Stamp,
    writer: &mut ArchiveWriter,
    repaired: &mut Repaired,
    progress: &mut dyn FnMut(u64),
) -> Result<(), RepairError> {
    let mut sources = Sources { files: &survey.files, open: Vec::new() };
    let described: FxHashSet<Pmid> = survey.metadata.pmids().collect();
    let mut layouts = Layouts::default();
    let (mut undescribed, mut done) = (0, 0);
    // By the time of the next record, then as they were.
    let mut cursors: BTreeMap<(Timestamp, usize), Cursor> = BTreeMap::new();
    for (number, run) in survey.runs.iter().enumerate() {
        cursors.insert((run.first, number), Cursor { run: *run, at: run.from, next: run.first });
    }
    while let Some(((_, number), mut cursor)) = cursors.pop_first() {
        if cursor.run.after_loss && cursor.at == cursor.run.from {
            let before = writer.last_time();
            writer.mark_before(cursor.next)?;
            repaired.marks += u64::from(writer.last_time() != before);
        }
        let until = cursors.first_key_value().map(|(key, _)| *key);
        while cursor.at < cursor.run.to && until.is_none_or(|until| (cursor.next, number) < until) {
            let source = sources.volume(cursor.run.volume)?;
            let Some(frame) = source.frame(cursor.at)? else { break };
            let path = source.path().to_owned();
            let bad = |what| ArchiveError::new(&path, frame.at, Problem::Record(what));
            let record = Record::new(source.record(frame)?, stamp, &mut layouts).map_err(bad)?;
            let sets: Vec<_> = record.sets().filter(|set| described.contains(&set.pmid)).collect();
            undescribed += (record.metrics() - sets.len()) as u64;
            if !sets.is_empty() || record.is_mark() {
                writer.copy(record.timestamp, sets.into_iter())?;
                repaired.records += 1;
            }
            done += frame.len as u64;
            progress(done);
            cursor.at = frame.end();
            if cursor.at < cursor.run.to {
                let Some(next) = source.frame(cursor.at)? else { break };
                cursor.next = time_of(source.record(next)?, stamp).map_err(bad)?;
            }
        }
        if cursor.at < cursor.run.to {
            cursors.insert((cursor.next, number), cursor);
        }
    }
    if undescribed > 0 {
        repaired
            .left_out
            .push(LeftOut { what: "values of metrics that are not described", count: undescribed });
    }
    let in_runs: u64 = repaired.records;
    let missing = survey.checked.records.saturating_sub(in_runs);
    if missing > 0 {
        repaired.left_out.push(LeftOut {
            what: "records of which nothing is left, or in too many runs out of order",
            count: missing,
        });
    }
    if survey.checked.findings.iter().any(|finding| finding.kind == Kind::Damage) {
        let damaged =
            |finding: &&super::Finding| matches!(finding.kind, Kind::Damage | Kind::Record | Kind::Metadata);
        let count = survey.checked.findings.iter().filter(damaged).count() as u64;
        repaired.left_out.push(LeftOut { what: "places with damage", count });
    }
    Ok(())
}

/// The volumes of an archive, some of them open.
struct Sources<'a> {
    files: &'a FileSet,
    /// The last used at the end.
    open: Vec<(u32, MemberReader)>,
}

impl Sources<'_> {
    fn volume(&mut self, number: u32) -> Result<&mut MemberReader, ArchiveError> {
        let at = match self.open.iter().position(|(open, _)| *open == number) {
            Some(at) => at,
            None => {
                let Some(member) = self.files.volumes.get(&number) else {
                    return Err(ArchiveError::new(
                        &self.files.base,
                        None,
                        Problem::MissingFile("a data volume"),
                    ));
                };
                if self.open.len() >= OPEN {
                    self.open.remove(0);
                }
                self.open.push((number, MemberReader::open(member)?));
                self.open.len() - 1
            }
        };
        Ok(&mut self.open[at].1)
    }
}

/// What the archive is called while it is written.
const WRITTEN: &str = "archive";
/// The files of an archive that is written.
const SUFFIXES: [&str; 3] = [".0", ".index", ".meta"];

fn refuse_existing(out: &Path) -> Result<(), WriteError> {
    match FileSet::find(out) {
        Err(ArchiveError { problem: Problem::Missing, .. }) => Ok(()),
        Err(ArchiveError { problem: Problem::Io(error), path, .. }) => Err(WriteError::Io { path, error }),
        _ => Err(WriteError::Exists(out.to_owned())),
    }
}

/// Makes the directory in which the archive is written.
fn workplace(out: &Path) -> Result<Workplace, WriteError> {
    Workplace::beside(out, &SUFFIXES.map(|suffix| [WRITTEN, suffix].concat()).each_ref().map(String::as_str))
        .map_err(WriteError::file)
}

/// Gives the files their names, that of the metadata last, without which they are no archive.
fn publish(place: Workplace, out: &Path) -> Result<(), WriteError> {
    let base = out.file_name().unwrap_or_default();
    let names = SUFFIXES.map(|suffix| {
        let mut name = base.to_owned();
        name.push(suffix);
        name
    });
    place.publish(&names).map_err(WriteError::file)
}
