//! Damaged archives: all that is wrong with one ([`check`]), and what is whole of it written anew ([`repair`](repair())).
//!
//! ```text
//! files -> labels -> index entries          findings
//!                 -> metadata records ----> descriptors, Metadata ----+
//!                 -> records of values ---> times, values beside them +-> runs of records in order of time
//!                                                                          -> repair: the writer of archives
//! ```
//!
//! Nothing ends the walk but what the system says: behind damage it goes on with the next record ([`scan`]). Memory: the
//! metadata (as a reader has it), the last value of each counter, at most 10,000 findings, and at most [`MAX_RUNS`] runs.

mod descriptors;
mod finding;
mod index;
mod repair;
mod scan;
mod values;

use std::path::Path;

pub use finding::{Finding, Grade, Kind};
pub use repair::{LeftOut, RepairError, Repaired, repair};

use finding::Findings;
use index::{Ends, Entries};
use scan::{Piece, Scan};
use values::Values;

use crate::error::{ArchiveError, Problem};
use crate::fields::Stamp;
use crate::files::{FileSet, Member};
use crate::label::{LogLabel, MAX_LABEL, Role};
use crate::layouts::Layouts;
use crate::member::{Frame, MemberReader};
use crate::metadata::{INDOM_V2, LABEL_V2, Metadata, TEXT, record_type};
use crate::record::{Record, time_of};
use pcp_model::Timestamp;

/// Runs of records in order of time that are kept. An archive in order has one for each volume.
const MAX_RUNS: usize = 1 << 16;

/// What was found in an archive.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Checked {
    /// All that is wrong, in the order of the files.
    pub findings: Vec<Finding>,
    /// How many findings there are besides these.
    pub more: u64,
    /// Whole records of values, marks among them.
    pub records: u64,
    /// How many of them are marks.
    pub marks: u64,
    /// Whole records of metadata.
    pub metadata: u64,
    /// The label, if there is one that can be read.
    pub label: Option<LogLabel>,
}

impl Checked {
    /// How bad the worst is.
    pub fn worst(&self) -> Option<Grade> {
        self.findings.iter().map(|finding| finding.kind.grade()).max()
    }
}

/// Finds all that is wrong with an archive, by its name or that of a file of it.
///
/// # Errors
/// That there is no such archive, or the system's while it is looked for.
pub fn check(name: &Path) -> Result<Checked, ArchiveError> {
    Survey::of(name, &mut |_| {}).map(|survey| survey.checked)
}

/// Whole records that follow each other in a volume and in time.
#[derive(Clone, Copy, Debug)]
struct Run {
    volume: u32,
    from: u64,
    to: u64,
    first: Timestamp,
    /// Whether something in front of it was lost.
    after_loss: bool,
}

/// All about an archive that whoever repairs it has to know, too.
struct Survey {
    files: FileSet,
    checked: Checked,
    metadata: Metadata,
    /// The whole records of the metadata.
    frames: Vec<Frame>,
    /// Whether metadata was lost.
    lost_metadata: bool,
    runs: Vec<Run>,
}

/// What is known while files are walked through.
struct Walk<'a> {
    findings: Findings,
    progress: &'a mut dyn FnMut(u64),
    done: u64,
}

impl Survey {
    fn of(name: &Path, progress: &mut dyn FnMut(u64)) -> Result<Survey, ArchiveError> {
        let files = FileSet::find(name)?;
        let mut walk = Walk { findings: Findings::default(), progress, done: 0 };
        let mut survey = Survey {
            files,
            checked: Checked {
                findings: Vec::new(),
                more: 0,
                records: 0,
                marks: 0,
                metadata: 0,
                label: None,
            },
            metadata: Metadata::default(),
            frames: Vec::new(),
            lost_metadata: false,
            runs: Vec::new(),
        };
        survey.walk(&mut walk);
        let Findings { all, more, .. } = walk.findings;
        (survey.checked.findings, survey.checked.more) = (all, more);
        Ok(survey)
    }

    fn walk(&mut self, walk: &mut Walk<'_>) {
        let files = self.files.clone();
        let mut labels =
            files.volumes.iter().map(|(number, member)| (Role::Volume(*number), member)).collect::<Vec<_>>();
        labels.extend(files.index.iter().map(|member| (Role::Index, member)));
        labels.push((Role::Meta, &files.meta));
        for (role, member) in labels {
            walk.label(role, member, &mut self.checked.label);
        }
        let Some(label) = self.checked.label.clone() else {
            for member in files.volumes.values().chain([&files.meta]) {
                if let Err(error) = walk.frames(member) {
                    walk.unreadable(member, error);
                }
            }
            return;
        };
        let entries = walk.index(&files, &label);
        let places = entries.places();
        // The ends of files as they are found: of those that are compressed nothing else tells.
        let meta = self.walk_metadata(walk, &files.meta, &label);
        let mut ends = Ends { meta, ..Ends::default() };
        let mut values = Values::default();
        let mut last = None;
        for (&number, member) in &files.volumes {
            let places = places.get(&number).cloned().unwrap_or_default();
            match self.walk_volume(walk, (number, member), &label, places, &mut values, &mut last) {
                Ok(end) => drop(ends.volumes.insert(number, end)),
                Err(error) => {
                    // It is there, with an end that nobody knows.
                    ends.volumes.insert(number, u64::MAX);
                    walk.unreadable(member, error);
                }
            }
        }
        if let Some(member) = &files.index {
            entries.check(&member.path, &label, &ends, &mut walk.findings);
        }
    }

    /// Where it ends, if it can be read to there.
    fn walk_metadata(&mut self, walk: &mut Walk<'_>, member: &Member, label: &LogLabel) -> Option<u64> {
        let read =
            MemberReader::open(member).and_then(|mut source| self.read_metadata(walk, &mut source, label));
        let end = match read {
            Ok(end) => Some(end),
            Err(error) => {
                self.lost_metadata = true;
                walk.unreadable(member, error);
                None
            }
        };
        self.metadata.settle();
        descriptors::check(&self.metadata, &member.path, &mut walk.findings);
        if self.metadata.is_empty() {
            walk.findings.add(Kind::Empty, &member.path, None, "no metric is described".to_owned());
        }
        end
    }

    fn read_metadata(
        &mut self,
        walk: &mut Walk<'_>,
        source: &mut MemberReader,
        label: &LogLabel,
    ) -> Result<u64, ArchiveError> {
        let path = source.path().to_owned();
        let mut scan = Scan::new(label.len());
        while let Some(piece) = scan.next(source, |record| Metadata::default().add_record(record).is_ok())? {
            let frame = match piece {
                Piece::Record(frame) => frame,
                Piece::Damage { at, end, what } => {
                    self.lost_metadata = true;
                    walk.damage(&path, at, end, &what);
                    continue;
                }
            };
            source.check_metadata(frame.end())?;
            let record = source.record(frame)?;
            match self.metadata.add_record(record) {
                Ok(()) => {
                    if let Some(kind) =
                        record_type(record).filter(|kind| !is_of_version(*kind, label.version))
                    {
                        let what =
                            format!("record of type {kind} in an archive of version {}", label.version);
                        walk.findings.add(Kind::RecordType, &path, frame.at, what);
                    }
                    self.frames.push(frame);
                    self.checked.metadata += 1;
                }
                Err(problem) => {
                    self.lost_metadata = true;
                    walk.findings.add(Kind::Metadata, &path, frame.at, problem.to_string());
                }
            }
            walk.done(frame.len);
        }
        Ok(scan.at())
    }

    fn walk_volume(
        &mut self,
        walk: &mut Walk<'_>,
        (number, member): (u32, &Member),
        label: &LogLabel,
        mut places: rustc_hash::FxHashSet<u64>,
        values: &mut Values,
        last: &mut Option<Timestamp>,
    ) -> Result<u64, ArchiveError> {
        let path = &member.path;
        let stamp = label.stamp();
        let mut source = MemberReader::open(member)?;
        let mut scan = Scan::new(label.len());
        let (mut layouts, mut searched) = (Layouts::default(), Layouts::default());
        let mut is_new = true;
        let mut after_loss = false;
        let mut is_damaged = false;
        loop {
            let piece = scan.next(&mut source, |record| is_record(record, stamp, &mut searched));
            let frame = match piece? {
                None => break,
                Some(Piece::Record(frame)) => frame,
                Some(Piece::Damage { at, end, what }) => {
                    walk.damage(path, at, end, &what);
                    values.mark();
                    (is_new, after_loss, is_damaged) = (true, true, true);
                    continue;
                }
            };
            walk.done(frame.len);
            places.remove(&frame.at);
            places.remove(&frame.end());
            let record = match Record::new(source.record(frame)?, stamp, &mut layouts) {
                Ok(record) => record,
                Err(what) => {
                    walk.findings.add(Kind::Record, path, frame.at, what.to_owned());
                    values.mark();
                    (is_new, after_loss) = (true, true);
                    continue;
                }
            };
            let time = record.timestamp;
            if time < label.start {
                let what = format!("a record of {time}, in front of the label's {}", label.start);
                walk.findings.add(Kind::Time, path, frame.at, what);
            }
            if let Some(before) = last.filter(|before| time < *before) {
                let what = format!("a record of {time} behind one of {before}");
                walk.findings.add(Kind::Time, path, frame.at, what);
                is_new = true;
            }
            *last = Some(time);
            self.checked.records += 1;
            self.checked.marks += u64::from(record.is_mark());
            values.add(&record, &self.metadata, &mut walk.findings, path, frame.at);
            let has_room = self.runs.len() < MAX_RUNS;
            match self.runs.last_mut() {
                Some(run) if !is_new => run.to = frame.end(),
                _ if has_room => {
                    self.runs.push(Run {
                        volume: number,
                        from: frame.at,
                        to: frame.end(),
                        first: time,
                        after_loss,
                    });
                    (is_new, after_loss) = (false, false);
                }
                _ => {}
            }
        }
        if !is_damaged {
            // What is outside is told of otherwise.
            let inside = |place: &u64| (label.len()..scan.at()).contains(place);
            let mut places: Vec<u64> = places.into_iter().filter(inside).collect();
            places.sort_unstable();
            for place in places {
                let what = format!("the index points to byte {place}, where no record begins");
                walk.findings.add(Kind::Index, path, place, what);
            }
        }
        Ok(scan.at())
    }
}

impl Walk<'_> {
    /// Checks the label of a file beside the first one that could be read.
    fn label(&mut self, role: Role, member: &Member, known: &mut Option<LogLabel>) {
        let decoded = MemberReader::open(member).and_then(|mut source| {
            let label = match LogLabel::decode(source.bytes(0, MAX_LABEL)?, role) {
                Ok(label) => label,
                Err(problem) => return Ok(Err(problem)),
            };
            let more = !source.bytes(label.len(), 1)?.is_empty();
            Ok(Ok((label, more)))
        });
        let decoded = match decoded {
            Ok(decoded) => decoded,
            Err(error) => return self.unreadable(member, error),
        };
        let (kind, what) = match decoded {
            Err(Problem::NoData) => (Kind::Empty, Problem::NoData.to_string()),
            Err(problem) => (Kind::Label, problem.to_string()),
            Ok((label, more)) => {
                if !more {
                    self.findings.add(Kind::Empty, &member.path, None, "nothing behind the label".to_owned());
                }
                let known = known.get_or_insert_with(|| label.clone());
                if known.same_logger(&label) {
                    return;
                }
                (Kind::Label, "of another archive".to_owned())
            }
        };
        self.findings.add(kind, &member.path, 0, what);
    }

    /// Checks the lengths of records in a file of which nothing else is known.
    fn frames(&mut self, member: &Member) -> Result<(), ArchiveError> {
        let mut source = MemberReader::open(member)?;
        let mut scan = Scan::new(0);
        while let Some(piece) = scan.next(&mut source, |_| false)? {
            match piece {
                Piece::Record(frame) => self.done(frame.len),
                Piece::Damage { at, end, what } => self.damage(&member.path, at, end, &what),
            }
        }
        Ok(())
    }

    fn index(&mut self, files: &FileSet, label: &LogLabel) -> Entries {
        let Some(member) = &files.index else {
            let what = "there is no index: positions are found by reading".to_owned();
            self.findings.add(Kind::Index, &files.base, None, what);
            return Entries::default();
        };
        match MemberReader::open(member).and_then(|mut source| Entries::read(&mut source, label)) {
            Ok(entries) => entries,
            Err(error) => {
                self.unreadable(member, error);
                Entries::default()
            }
        }
    }

    fn damage(&mut self, path: &Path, at: u64, end: u64, what: &str) {
        let what = format!("{} bytes that are no record: {what}", end - at);
        self.findings.add(Kind::Damage, path, at, what);
    }

    fn unreadable(&mut self, member: &Member, error: ArchiveError) {
        self.findings.add(Kind::Unreadable, &member.path, error.offset, error.problem.to_string());
    }

    fn done(&mut self, len: usize) {
        self.done += len as u64;
        (self.progress)(self.done);
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

/// Whether writers of archives of that version write metadata of that type.
fn is_of_version(kind: u32, version: u8) -> bool {
    match version {
        2 => kind <= TEXT,
        _ => kind != INDOM_V2 && kind != LABEL_V2,
    }
}
