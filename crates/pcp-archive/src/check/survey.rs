//! The walk over all files of an archive, in the order in which they explain each other.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;

use super::Checked;
use super::descriptors;
use super::finding::{Findings, Kind};
use super::index::{Ends, Entries};
use super::labels::{Labels, unreadable};
use super::scan::{Piece, Scan};
use super::volume::{Course, Run};
use crate::error::ArchiveError;
use crate::files::{Found, Member};
use crate::label::{LogLabel, Role};
use crate::member::MemberReader;
use crate::metadata::{INDOM_V2, LABEL_V2, Metadata, TEXT, record_type};

/// All about an archive that whoever repairs it has to know, too.
pub(super) struct Survey {
    pub files: Found,
    pub checked: Checked,
    pub metadata: Metadata,
    /// Where whole records of the metadata follow each other: from a byte to another.
    pub stretches: Vec<(u64, u64)>,
    /// Whether metadata was lost.
    pub has_lost_metadata: bool,
    /// Whether the metadata is of another archive.
    pub has_foreign_metadata: bool,
    /// Records of volumes of another archive.
    pub foreign: u64,
    pub runs: Vec<Run>,
    /// Whether there are more runs than these.
    pub has_more_runs: bool,
    /// Bytes of all records.
    pub bytes: u64,
    /// Whether the walk was stopped: nothing is known to its end then.
    pub is_stopped: bool,
}

/// Is told the bytes walked through, and says whether to go on.
pub(super) type Progress<'a> = &'a mut dyn FnMut(u64) -> ControlFlow<()>;

/// What is known while files are walked through.
pub(super) struct Walk<'a> {
    pub findings: Findings,
    pub progress: Progress<'a>,
    pub done: u64,
    pub is_stopped: bool,
}

impl Survey {
    pub(super) fn of(name: &Path, progress: Progress<'_>) -> Result<Survey, ArchiveError> {
        let mut walk = Walk { findings: Findings::default(), progress, done: 0, is_stopped: false };
        let mut survey = Survey {
            files: Found::find(name)?,
            checked: Checked::default(),
            metadata: Metadata::default(),
            stretches: Vec::new(),
            has_lost_metadata: false,
            has_foreign_metadata: false,
            foreign: 0,
            runs: Vec::new(),
            has_more_runs: false,
            bytes: 0,
            is_stopped: false,
        };
        survey.walk(&mut walk);
        (survey.bytes, survey.is_stopped) = (walk.done, walk.is_stopped);
        (survey.checked.findings, survey.checked.counts) = (walk.findings.kept, walk.findings.counts);
        Ok(survey)
    }

    fn walk(&mut self, walk: &mut Walk<'_>) {
        let files = self.files.clone();
        let mut labels = Labels::read(&files, &mut walk.findings);
        let Some(label) = labels.label.clone() else {
            walk.missing(&files, &Entries::default());
            let volumes = files.volumes.iter().map(|(number, member)| (Role::Volume(*number), member));
            for (role, member) in volumes.chain(files.meta.iter().map(|member| (Role::Meta, member))) {
                let source = labels.reader(role, member, &mut walk.findings);
                walk.frames(member, source, 0);
            }
            return;
        };
        self.checked.label = Some(label.clone());
        let entries = walk.index(&files, &label, &mut labels);
        walk.missing(&files, &entries);
        // The ends of files as they are found: of those that are compressed nothing else tells.
        let mut ends = Ends::default();
        if let Some(member) = &files.meta {
            ends.meta = self.walk_metadata(walk, member, &label, &mut labels);
        }
        self.walk_volumes(walk, &entries, &label, &mut labels, &mut ends);
        if let Some(member) = &files.index {
            entries.check(&member.path, &label, &ends, &mut walk.findings);
        }
    }

    /// Where it ends, if it can be read to there.
    fn walk_metadata(
        &mut self,
        walk: &mut Walk<'_>,
        member: &Member,
        label: &LogLabel,
        labels: &mut Labels,
    ) -> Option<u64> {
        let source = labels.reader(Role::Meta, member, &mut walk.findings);
        if let Some(from) = labels.foreign(Role::Meta) {
            self.has_foreign_metadata = true;
            walk.frames(member, source, from);
            return None;
        }
        let read = source.map(|mut source| self.read_metadata(walk, &mut source, label));
        let end = match read {
            Some(Ok(end)) => Some(end),
            Some(Err(error)) => {
                unreadable(&mut walk.findings, member, &error);
                None
            }
            None => None,
        };
        self.has_lost_metadata |= end.is_none();
        self.metadata.settle();
        descriptors::check(&self.metadata, &member.path, &mut walk.findings);
        if self.metadata.is_empty() {
            walk.findings.add(Kind::Empty, &member.path, None, || "no metric is described".to_owned());
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
                    self.has_lost_metadata = true;
                    walk.damage(&path, at, end, &what);
                    continue;
                }
            };
            source.check_metadata(frame.end())?;
            let record = source.record(frame)?;
            match self.metadata.add_record(record) {
                Ok(()) => {
                    let version = label.version;
                    if let Some(kind) = record_type(record).filter(|kind| !is_of_version(*kind, version)) {
                        walk.findings.add(Kind::RecordType, &path, frame.at, || {
                            format!("record of type {kind} in an archive of version {version}")
                        });
                    }
                    match self.stretches.last_mut() {
                        Some((_, to)) if *to == frame.at => *to = frame.end(),
                        _ => self.stretches.push((frame.at, frame.end())),
                    }
                    self.checked.metadata += 1;
                }
                Err(problem) => {
                    self.has_lost_metadata = true;
                    walk.findings.add(Kind::Metadata, &path, frame.at, || problem.to_string());
                }
            }
            if walk.done(frame.len).is_break() {
                break;
            }
        }
        Ok(scan.at())
    }

    fn walk_volumes(
        &mut self,
        walk: &mut Walk<'_>,
        entries: &Entries,
        label: &LogLabel,
        labels: &mut Labels,
        ends: &mut Ends,
    ) {
        let mut places = entries.places(label);
        let mut course = Course::default();
        let mut next = None;
        for (&number, member) in &self.files.volumes {
            if next.is_some_and(|next| next != number) {
                course.lose();
            }
            next = number.checked_add(1);
            // It is there, with an end that nobody knows.
            ends.volumes.insert(number, u64::MAX);
            let source = labels.reader(Role::Volume(number), member, &mut walk.findings);
            if let Some(from) = labels.foreign(Role::Volume(number)) {
                self.foreign += walk.frames(member, source, from);
                course.lose();
                continue;
            }
            let places = places.remove(&number).unwrap_or_default();
            let end = source
                .map(|mut source| course.walk(walk, (number, &mut source), label, &self.metadata, places));
            match end {
                Some(Ok(end)) => _ = ends.volumes.insert(number, end),
                Some(Err(error)) => {
                    unreadable(&mut walk.findings, member, &error);
                    course.lose();
                }
                None => course.lose(),
            }
        }
        let Course { runs, has_more_runs, records, marks, .. } = course;
        (self.runs, self.has_more_runs) = (runs, has_more_runs);
        (self.checked.records, self.checked.marks) = (records, marks);
    }
}

impl Walk<'_> {
    /// Tells of files that are not there: by the index, and by the numbers of those that are.
    fn missing(&mut self, files: &Found, entries: &Entries) {
        let with = |suffix: &str| {
            let mut path = files.base.clone().into_os_string();
            path.push(suffix);
            path
        };
        let mut tell = |suffix: &str, what: String| {
            self.findings.add(Kind::Missing, with(suffix).as_ref(), None, || what);
        };
        if files.meta.is_none() {
            tell(".meta", "the metadata is missing".to_owned());
        }
        let (Some((&first, _)), Some((&last, _))) =
            (files.volumes.first_key_value(), files.volumes.last_key_value())
        else {
            tell(".0", "every data volume is missing".to_owned());
            return;
        };
        let known: BTreeSet<u32> = entries.volumes();
        for number in known.range(..first).chain(known.range(last..).filter(|number| **number > last)) {
            tell(&format!(".{number}"), format!("volume {number} is missing, to which the index points"));
        }
        for (&number, &after) in files.volumes.keys().zip(files.volumes.keys().skip(1)) {
            match (number + 1, after - 1) {
                (from, to) if from > to => {}
                (from, to) if from == to => tell(&format!(".{from}"), format!("volume {from} is missing")),
                (from, to) => tell(&format!(".{from}"), format!("volumes {from} to {to} are missing")),
            }
        }
    }

    /// Checks the lengths of records in a file of which nothing else is known, and counts them.
    fn frames(&mut self, member: &Member, source: Option<MemberReader>, from: u64) -> u64 {
        let Some(mut source) = source else { return 0 };
        let mut count = 0;
        let mut walk = || {
            let mut scan = Scan::new(from);
            while let Some(piece) = scan.next(&mut source, |_| false)? {
                match piece {
                    Piece::Record(frame) => {
                        count += 1;
                        if self.done(frame.len).is_break() {
                            break;
                        }
                    }
                    Piece::Damage { at, end, what } => self.damage(&member.path, at, end, &what),
                }
            }
            Ok(())
        };
        if let Err(error) = walk() {
            unreadable(&mut self.findings, member, &error);
        }
        count
    }

    fn index(&mut self, files: &Found, label: &LogLabel, labels: &mut Labels) -> Entries {
        let Some(member) = &files.index else {
            self.findings.add(Kind::Index, &files.base, None, || {
                "there is no index: positions are found by reading".to_owned()
            });
            return Entries::default();
        };
        let source = labels.reader(Role::Index, member, &mut self.findings);
        let Some(mut source) = source.filter(|_| labels.foreign(Role::Index).is_none()) else {
            return Entries::default();
        };
        match Entries::read(&mut source, label) {
            Ok(entries) => entries,
            Err(error) => {
                unreadable(&mut self.findings, member, &error);
                Entries::default()
            }
        }
    }

    pub(super) fn damage(&mut self, path: &Path, at: u64, end: u64, what: &str) {
        let message = || format!("{} bytes that are no record: {what}", end - at);
        self.findings.add(Kind::Damage, path, at, message);
    }

    /// So much more is walked through. Whether to go on.
    pub(super) fn done(&mut self, len: usize) -> ControlFlow<()> {
        self.done += len as u64;
        // Once stopped, each file that is left ends at its first record.
        self.is_stopped |= (self.progress)(self.done).is_break();
        if self.is_stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Whether writers of archives of that version write metadata of that type.
fn is_of_version(kind: u32, version: u8) -> bool {
    match version {
        2 => kind <= TEXT,
        _ => kind != INDOM_V2 && kind != LABEL_V2,
    }
}
