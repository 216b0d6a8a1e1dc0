//! What is whole of an archive, written anew: metadata, then values in order of time, with a mark where records were lost.
//!
//! The archive written is of version 3, whatever the one read is: stamps of version 2 have their place in it, and so has metadata
//! of both versions. Values are copied as they are. Cost: two walks over the archive; memory as for [`check`](super::check()),
//! a batch of metadata ([`metadata`]), and the readers of [`values`]. Records out of order are read again and again only as often
//! as [`values`] says.

mod metadata;
mod values;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use pcp_files::Workplace;

use super::Checked;
use super::finding::Kind;
use super::survey::Survey;
use super::volume::MAX_RUNS;
use crate::error::{ArchiveError, Problem};
use crate::files::Found;
use crate::write::{ArchiveWriter, LabelInfo, WriteError, WriteOptions};

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
    /// What was left out, by why.
    pub left_out: Vec<LeftOut>,
}

/// Something that was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// What, and why.
    pub loss: Loss,
    /// How often.
    pub count: u64,
}

/// What a repair leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Loss {
    /// Files that could not be read.
    Unreadable,
    /// Bytes that are no record.
    Damage,
    /// Records of values that cannot be taken apart.
    Record,
    /// Records of metadata whose contents are wrong, or contradict earlier ones.
    Metadata,
    /// Records in volumes of another archive.
    Foreign,
    /// Values of metrics that are not described, which nobody could read.
    Undescribed,
    /// Records of which nothing is left without those values.
    Emptied,
    /// Records of instance domains beyond those that are made anew after a loss.
    Domains,
}

impl Loss {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Loss::Unreadable => "unreadable",
            Loss::Damage => "damage",
            Loss::Record => "record",
            Loss::Metadata => "metadata",
            Loss::Foreign => "foreign",
            Loss::Undescribed => "undescribed",
            Loss::Emptied => "emptied",
            Loss::Domains => "domains",
        }
    }

    /// What there is a number of.
    pub fn what(self) -> &'static str {
        match self {
            Loss::Unreadable => "files that cannot be read",
            Loss::Damage => "places with bytes that are no record",
            Loss::Record => "records of values that cannot be taken apart",
            Loss::Metadata => "records of metadata that are wrong",
            Loss::Foreign => "records in volumes of another archive",
            Loss::Undescribed => "values of metrics that are not described",
            Loss::Emptied => "records with such values only",
            Loss::Domains => "records of instance domains, behind as many as are made anew after a loss",
        }
    }
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
    /// To put its records in order would take too long.
    #[error(
        "{}: its records are so much out of order that more than {bytes} bytes would have to be read to put them in \
         order: nothing is written{}", path.display(), if *is_packed { "; decompress its volumes first" } else { "" }
    )]
    Disorder {
        /// The archive.
        path: PathBuf,
        /// How many bytes are read at most.
        bytes: u64,
        /// Whether a volume is compressed, so that every step back costs decoding.
        is_packed: bool,
    },
    /// `progress` said so.
    #[error("{}: stopped before all was written: nothing is", path.display())]
    Stopped {
        /// What would have been written.
        path: PathBuf,
    },
    /// There are more stretches of records than are followed.
    #[error(
        "{}: damage and times that go back cut its records into more than {most} stretches: nothing is written; repair \
         copies of it with fewer of its volumes", path.display()
    )]
    Runs {
        /// The archive.
        path: PathBuf,
        /// How many are followed.
        most: usize,
    },
}

/// What of whole records is left out while they are written.
type Losses = BTreeMap<Loss, u64>;

/// Writes what is whole of the archive `name` to an archive `out` that is not there yet. `progress` is told the bytes walked
/// through, which in the end are about twice those of the archive, and says whether to go on: an end in any other way, such as by
/// a signal, leaves a hidden directory beside `out`.
///
/// # Errors
/// [`RepairError`]; files of an archive `out` are never written over, and are there all or none.
pub fn repair(
    name: &Path,
    out: &Path,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Repaired, RepairError> {
    refuse_existing(out)?;
    let stopped = || RepairError::Stopped { path: out.to_owned() };
    let survey = Survey::of(name, progress)?;
    if survey.is_stopped {
        return Err(stopped());
    }
    let nothing = |reason| RepairError::Nothing { path: name.to_owned(), reason };
    let label = survey.checked.label.clone().ok_or_else(|| nothing("no label can be read"))?;
    if survey.has_foreign_metadata {
        return Err(nothing("its metadata is of another archive"));
    }
    if survey.metadata.is_empty() {
        return Err(nothing("no metric is described"));
    }
    if survey.has_more_runs {
        return Err(RepairError::Runs { path: name.to_owned(), most: MAX_RUNS });
    }
    let start = survey.runs.iter().map(|run| run.first).min();
    let start = start.ok_or_else(|| nothing("no record of values is whole"))?;
    let info = LabelInfo {
        host: label.host.clone(),
        zone: label.zone.clone(),
        zone_info: label.zone_info.clone(),
        pid: label.pid,
    };
    let place = workplace(out)?;
    let options = WriteOptions { together: WriteOptions::AT_ONCE, ..WriteOptions::default() };
    let mut writer = ArchiveWriter::create(place.path().join(WRITTEN), info, options)?;
    writer.begin(start)?;
    let mut losses = losses(&survey.checked);
    losses.insert(Loss::Foreign, survey.foreign);
    let metadata = metadata::copy(&survey, &mut writer, &mut losses)?;
    let copied = values::copy(name, &survey, label.stamp(), &mut writer, &mut losses, progress)?;
    let ControlFlow::Continue((records, marks)) = copied else { return Err(stopped()) };
    if records == 0 {
        return Err(nothing("no record has values of a metric that is described"));
    }
    writer.flush()?;
    drop(writer);
    publish(place, out)?;
    let left_out = losses.into_iter().filter(|(_, count)| *count > 0);
    let left_out = left_out.map(|(loss, count)| LeftOut { loss, count }).collect();
    Ok(Repaired { checked: survey.checked, records, marks, metadata, left_out })
}

/// What is lost because of how the files are.
fn losses(checked: &Checked) -> Losses {
    const OF: [(Loss, Kind); 4] = [
        (Loss::Unreadable, Kind::Unreadable),
        (Loss::Damage, Kind::Damage),
        (Loss::Record, Kind::Record),
        (Loss::Metadata, Kind::Metadata),
    ];
    OF.into_iter().map(|(loss, kind)| (loss, checked.count(kind))).collect()
}

/// What the archive is called while it is written.
const WRITTEN: &str = "archive";
/// The files of an archive that is written.
const SUFFIXES: [&str; 3] = [".0", ".index", ".meta"];

fn refuse_existing(out: &Path) -> Result<(), WriteError> {
    match Found::find(out) {
        Err(ArchiveError { problem: Problem::Missing, .. }) => Ok(()),
        Err(ArchiveError { problem: Problem::Io(error), path, .. }) => Err(WriteError::Io { path, error }),
        _ => Err(WriteError::Exists(out.to_owned())),
    }
}

/// Makes the directory in which the archive is written.
fn workplace(out: &Path) -> Result<Workplace, WriteError> {
    let files = SUFFIXES.map(|suffix| [WRITTEN, suffix].concat());
    Workplace::beside(out, &files.each_ref().map(String::as_str)).map_err(WriteError::file)
}

/// Gives the files their names, that of the metadata last, without which they are no archive.
fn publish(place: Workplace, out: &Path) -> Result<(), WriteError> {
    let base = out.file_name().unwrap_or_default();
    let names: [OsString; 3] = SUFFIXES.map(|suffix| {
        let mut name = base.to_owned();
        name.push(suffix);
        name
    });
    place.publish(&names).map_err(WriteError::file)
}
