//! What is wrong with an archive, and where.

use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

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
    /// A file that the system or a decoder does not give.
    Unreadable,
}

impl Kind {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Label => "label",
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

/// Most findings that are kept; others are counted.
const MAX_FINDINGS: usize = 10_000;

/// Findings as they come. The same about the same values is one.
#[derive(Default)]
pub(super) struct Findings {
    pub all: Vec<Finding>,
    /// How many there were no room for.
    pub more: u64,
    known: FxHashMap<(Kind, u64), usize>,
}

impl Findings {
    pub(super) fn add(&mut self, kind: Kind, file: &Path, at: impl Into<Option<u64>>, message: String) {
        if self.all.len() < MAX_FINDINGS {
            self.all.push(Finding { kind, file: file.to_owned(), at: at.into(), count: 1, message });
        } else {
            self.more += 1;
        }
    }

    /// Adds what is seen again and again: `about` tells of what it is.
    pub(super) fn again(
        &mut self,
        (kind, about): (Kind, u64),
        file: &Path,
        at: u64,
        message: impl FnOnce() -> String,
    ) {
        match self.known.get(&(kind, about)) {
            Some(&known) => self.all[known].count += 1,
            None if self.all.len() < MAX_FINDINGS => {
                self.known.insert((kind, about), self.all.len());
                self.add(kind, file, at, message());
            }
            None => self.more += 1,
        }
    }
}
