//! The labels of all files of an archive, and which of the files belong to another one.
//!
//! Each says of which host, by which logger and from when on the archive is; all say the same. Where they do not, the
//! archive is what most of its files say it is, the metadata first where as many say this as that: the others are of
//! another archive, from which somebody has put them here, or their labels are damaged.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::{Findings, Kind};
use crate::error::{ArchiveError, Problem};
use crate::files::{Found, Member};
use crate::label::{LogLabel, MAX_LABEL, Role};
use crate::member::MemberReader;

/// Readers of files that are kept for what comes behind the label: of one that is compressed the start would be decoded again.
const KEPT: usize = 3;

/// What the labels say.
#[derive(Default)]
pub(super) struct Labels {
    /// That of the archive, if one can be read.
    pub label: Option<LogLabel>,
    /// Files of another archive, and where what is behind their labels begins: they may be of the other version.
    foreign: BTreeMap<Role, u64>,
    /// Files that cannot be read, which was told.
    unreadable: BTreeSet<Role>,
    open: Vec<(Role, MemberReader)>,
}

impl Labels {
    /// Reads them, and tells what is wrong with them.
    pub(super) fn read(files: &Found, findings: &mut Findings) -> Labels {
        let mut labels = Labels::default();
        let mut read: Vec<(Role, &Member, LogLabel)> = Vec::new();
        for (role, member) in members(files) {
            match labels.read_one(role, member) {
                Ok(Ok((label, has_more))) => {
                    if !has_more {
                        findings
                            .add(Kind::Empty, &member.path, None, || "nothing behind the label".to_owned());
                    }
                    read.push((role, member, label));
                }
                Ok(Err(Problem::NoData)) => {
                    findings.add(Kind::Empty, &member.path, 0, || Problem::NoData.to_string());
                }
                Ok(Err(problem)) => findings.add(Kind::Label, &member.path, 0, || problem.to_string()),
                Err(error) => {
                    labels.unreadable.insert(role);
                    unreadable(findings, member, &error);
                }
            }
        }
        let Some(known) = of_most(read.iter().map(|(_, _, label)| label)) else { return labels };
        for (role, member, label) in &read {
            if !is_of(&known, label) {
                labels.foreign.insert(*role, label.len());
                findings.add(Kind::Label, &member.path, 0, || {
                    format!("of another archive: {}; this one is {}", identity(label), identity(&known))
                });
            }
        }
        labels.label = Some(known);
        labels
    }

    /// Where a file that is of another archive goes on behind its label.
    pub(super) fn foreign(&self, role: Role) -> Option<u64> {
        self.foreign.get(&role).copied()
    }

    /// A reader of a file; `None` if it cannot be read, which was told.
    pub(super) fn reader(
        &mut self,
        role: Role,
        member: &Member,
        findings: &mut Findings,
    ) -> Option<MemberReader> {
        if self.unreadable.contains(&role) {
            return None;
        }
        if let Some(at) = self.open.iter().position(|(open, _)| *open == role) {
            return Some(self.open.swap_remove(at).1);
        }
        MemberReader::open(member).map_err(|error| unreadable(findings, member, &error)).ok()
    }

    /// A label, and whether there is anything behind it.
    fn read_one(
        &mut self,
        role: Role,
        member: &Member,
    ) -> Result<Result<(LogLabel, bool), Problem>, ArchiveError> {
        let mut source = MemberReader::open(member)?;
        let label = match LogLabel::decode(source.bytes(0, MAX_LABEL)?, role) {
            Ok(label) => label,
            Err(problem) => return Ok(Err(problem)),
        };
        let has_more = !source.bytes(label.len(), 1)?.is_empty();
        if self.open.len() < KEPT {
            self.open.push((role, source));
        }
        Ok(Ok((label, has_more)))
    }
}

/// All files, the metadata first.
fn members(files: &Found) -> impl Iterator<Item = (Role, &Member)> {
    let meta = files.meta.iter().map(|member| (Role::Meta, member));
    let volumes = files.volumes.iter().map(|(number, member)| (Role::Volume(*number), member));
    meta.chain(volumes).chain(files.index.iter().map(|member| (Role::Index, member)))
}

/// The label that says what most of them say; the first one of as many.
fn of_most<'a>(labels: impl Iterator<Item = &'a LogLabel>) -> Option<LogLabel> {
    let mut groups: Vec<(&LogLabel, usize)> = Vec::new();
    for label in labels {
        match groups.iter_mut().find(|(known, _)| is_of(known, label)) {
            Some((_, count)) => *count += 1,
            None => groups.push((label, 1)),
        }
    }
    // The last one of as many is the first from behind.
    groups.iter().rev().max_by_key(|(_, count)| *count).map(|(label, _)| (*label).clone())
}

fn is_of(label: &LogLabel, other: &LogLabel) -> bool {
    label.same_logger(other) && label.start == other.start
}

fn identity(LogLabel { version, host, pid, start, .. }: &LogLabel) -> String {
    format!("version {version}, host {host}, process {pid}, from {start} on")
}

/// Tells of a file that cannot be read, or not to its end.
pub(super) fn unreadable(findings: &mut Findings, member: &Member, error: &ArchiveError) {
    let is_system = matches!(&error.problem, Problem::Io(error) if error.raw_os_error().is_some());
    // What a decoder complains of is how the file is, and not whether it can be had.
    let kind = if is_system { Kind::Unreadable } else { Kind::Damage };
    findings.add(kind, &member.path, error.offset, || match &error.problem {
        Problem::Io(error) if !is_system => format!("it cannot be decompressed: {error}"),
        problem => problem.to_string(),
    });
}
