//! Damaged archives: all that is wrong with one ([`check`]), and what is whole of it written anew ([`repair`](repair())).
//!
//! ```text
//! files -> labels -> index entries          findings
//!                 -> metadata records ----> descriptors, Metadata ----+
//!                 -> records of values ---> times, values beside them +-> runs of records in order of time
//!                                                                          -> repair: the writer of archives
//! ```
//!
//! Nothing ends the walk but what the system says: behind damage it goes on with the next record ([`scan`]). Files that are
//! missing, or of another archive ([`labels`]), are told of, and the rest is looked at.
//!
//! Memory: the metadata (as a reader has it, of records of 1 GiB at most), the last value of each counter and where it stands in
//! the records of eight layouts, at most 10,000
//! findings of each grade (all are counted; in none is more than 256 bytes of a name, so that they take 30 MB at most, and the
//! name of the file in each), a million entries of the index, at most 65,536 runs, and four readers of files.

mod counters;
mod descriptors;
mod finding;
mod index;
mod labels;
mod repair;
mod scan;
mod survey;
mod usual;
mod values;
mod volume;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

pub use finding::{Finding, Grade, Kind};
pub use repair::{LeftOut, Loss, RepairError, Repaired, repair};

use survey::Survey;

use crate::error::ArchiveError;
use crate::label::LogLabel;

/// What was found in an archive.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Checked {
    /// What is wrong, in the order of the files: the first 10,000 of each grade.
    pub findings: Vec<Finding>,
    /// How many findings of each kind there are, those of `findings` and all others.
    pub counts: BTreeMap<Kind, u64>,
    /// Whole records of values, marks among them.
    pub records: u64,
    /// How many of them are marks.
    pub marks: u64,
    /// Whole records of metadata.
    pub metadata: u64,
    /// The label, if there is one that can be read: what most files say.
    pub label: Option<LogLabel>,
}

impl Checked {
    /// How many findings of that kind there are.
    pub fn count(&self, kind: Kind) -> u64 {
        self.counts.get(&kind).copied().unwrap_or_default()
    }

    /// How many findings there are besides those in `findings`.
    pub fn more(&self) -> u64 {
        self.counts.values().sum::<u64>().saturating_sub(self.findings.len() as u64)
    }

    /// How bad the worst is.
    pub fn worst(&self) -> Option<Grade> {
        self.counts.keys().map(|kind| kind.grade()).max()
    }
}

/// Finds all that is wrong with an archive, by its name or that of a file of it.
///
/// # Errors
/// That there is no such archive, or the system's while it is looked for.
pub fn check(name: &Path) -> Result<Checked, ArchiveError> {
    Survey::of(name, &mut |_| ControlFlow::Continue(())).map(|survey| survey.checked)
}
