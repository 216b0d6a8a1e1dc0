//! What is wrong with an archive, and where.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// What may well be as it was recorded: a counter that went back.
    Note,
    /// Something that is read, and means nothing or something else than it should.
    Warning,
    /// Something that is lost, or on which readers stop.
    Error,
}

impl Grade {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Grade::Note => "note",
            Grade::Warning => "warning",
            Grade::Error => "error",
        }
    }
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A label that is none, or not the one that belongs here.
    Label,
    /// A file that is not there: the metadata, or a volume.
    Missing,
    /// A file with nothing in it, or nothing but a label.
    Empty,
    /// Bytes that are no record.
    Damage,
    /// A record of a type that there is not, or not in this version.
    RecordType,
    /// A metadata record whose contents are wrong, or contradict an earlier one.
    Metadata,
    /// A descriptor or its name.
    Descriptor,
    /// An entry of the temporal index.
    Index,
    /// A record of values that cannot be taken apart.
    Record,
    /// A record in front of the label's time, or older than the one before it.
    Time,
    /// Values of a metric that is not described.
    Undescribed,
    /// Values sent in place and then in blocks, or the other way round.
    Encoding,
    /// A value that is not of its metric's type.
    Value,
    /// A counter that went back.
    Wrap,
    /// A file that the system does not give.
    Unreadable,
}

impl Kind {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Label => "label",
            Kind::Missing => "missing",
            Kind::Empty => "empty",
            Kind::Damage => "damage",
            Kind::RecordType => "record-type",
            Kind::Metadata => "metadata",
            Kind::Descriptor => "descriptor",
            Kind::Index => "index",
            Kind::Record => "record",
            Kind::Time => "time",
            Kind::Undescribed => "undescribed",
            Kind::Encoding => "encoding",
            Kind::Value => "value",
            Kind::Wrap => "wrap",
            Kind::Unreadable => "unreadable",
        }
    }

    /// How bad it is.
    pub fn grade(self) -> Grade {
        match self {
            Kind::Wrap => Grade::Note,
            Kind::Descriptor | Kind::Encoding | Kind::RecordType | Kind::Index => Grade::Warning,
            _ => Grade::Error,
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What it is about.
    pub kind: Kind,
    /// The file.
    pub file: PathBuf,
    /// Where in the (uncompressed) file it was seen first.
    pub at: Option<u64>,
    /// How often it was seen.
    pub count: u64,
    /// What is wrong, in words.
    pub message: String,
}

/// Most findings of a grade that are kept; others are counted. What is noted must not leave errors out.
const MAX_FINDINGS: usize = 10_000;

/// Findings as they come. What is seen again and again of one thing is one.
#[derive(Default)]
pub(super) struct Findings {
    /// Those that there was room for.
    pub kept: Vec<Finding>,
    /// How many of them are of each grade.
    of_grade: [usize; 3],
    /// How many there are of each kind.
    pub counts: BTreeMap<Kind, u64>,
}

/// What was told of one thing: where among the findings, if it is kept.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told(Option<u32>);

/// Where a finding is that was counted only.
const COUNTED: u32 = u32::MAX;

impl Findings {
    pub(super) fn add(
        &mut self,
        kind: Kind,
        file: &Path,
        at: impl Into<Option<u64>>,
        message: impl FnOnce() -> String,
    ) {
        *self.counts.entry(kind).or_default() += 1;
        if self.has_room(kind) {
            self.of_grade[kind.grade() as usize] += 1;
            let (file, at, message) = (file.to_owned(), at.into(), message());
            self.kept.push(Finding { kind, file, at, count: 1, message });
        }
    }

    fn has_room(&self, kind: Kind) -> bool {
        self.of_grade[kind.grade() as usize] < MAX_FINDINGS
    }

    /// Adds what may be seen again and again: `told` is of what it is about.
    pub(super) fn again(
        &mut self,
        told: &mut Told,
        kind: Kind,
        (file, at): (&Path, u64),
        message: impl FnOnce() -> String,
    ) {
        match told.0 {
            Some(place) => {
                if let Some(finding) = self.kept.get_mut(place as usize) {
                    finding.count += 1;
                }
            }
            None => {
                told.0 = Some(if self.has_room(kind) { self.kept.len() as u32 } else { COUNTED });
                self.add(kind, file, at, message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_findings_are_counted_and_some_are_kept() {
        let mut findings = Findings::default();
        let file = Path::new("a.0");
        for at in 0..2 * MAX_FINDINGS as u64 {
            findings.add(Kind::Wrap, file, at, String::new);
        }
        let mut told = [Told::default(); 2];
        for _ in 0..3 {
            for told in &mut told {
                findings.again(told, Kind::Value, (file, 7), String::new);
            }
        }
        assert_eq!(findings.kept.len(), MAX_FINDINGS + 2);
        assert_eq!(findings.kept[MAX_FINDINGS + 1].count, 3);
        assert_eq!(findings.counts[&Kind::Wrap], 2 * MAX_FINDINGS as u64);
        assert_eq!(findings.counts[&Kind::Value], 2);
    }
}
