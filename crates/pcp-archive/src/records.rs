//! The records of archives, for those who know from elsewhere what is in them.

use std::path::Path;

use super::error::ArchiveError;
use super::reader::{Archive, Direction, Place, RecordPlace, Step};
use super::record::Record;
use pcp_model::{Pmid, Timestamp};
use pcp_pdu::{LayoutId, Scan};

/// Archives whose metadata is not read: its records, and no word on what their numbers mean. Cost of opening one: its label, its index
/// and the list of its volumes.
pub struct Records(Archive);

impl Records {
    /// Opens an archive by its name.
    ///
    /// # Errors
    /// As [`Archive::open`], but for what is wrong with metadata.
    pub fn open(name: &Path) -> Result<Records, ArchiveError> {
        Archive::one_without_metadata(name).map(Records)
    }

    /// Opens what [`Archive::open`] does with the same names. That they are of one host is not looked at.
    ///
    /// # Errors
    /// As [`Archive::open`], but for what is wrong with metadata.
    pub fn of_all(names: &str) -> Result<Records, ArchiveError> {
        Archive::without_metadata(names).map(Records)
    }

    /// In front of the first record.
    pub fn first(&self) -> Place {
        self.0.first()
    }

    /// Behind the last record that can be read.
    ///
    /// # Errors
    /// As [`Archive::last`].
    pub fn last(&mut self) -> Result<Place, ArchiveError> {
        self.0.last()
    }

    /// What is behind a place; `None` at the end.
    ///
    /// # Errors
    /// As [`Archive::next`].
    pub fn next(&mut self, at: Place) -> Result<Option<Step>, ArchiveError> {
        self.0.next(at)
    }

    /// What is in front of a place; `None` at the start.
    ///
    /// # Errors
    /// As [`Archive::previous`].
    pub fn previous(&mut self, at: Place) -> Result<Option<Step>, ArchiveError> {
        self.0.previous(at)
    }

    /// A record.
    ///
    /// # Errors
    /// As [`Archive::record`].
    pub fn record(&mut self, place: RecordPlace) -> Result<Record<'_>, ArchiveError> {
        self.0.record(place)
    }

    /// A record's time and its sets, to be run through once: for wide records in a fraction of the time. `each` is told of each of its metrics
    /// before, in their order; of none if the layout of the sets is `before`, that of a record whose metrics are known.
    ///
    /// # Errors
    /// As [`Archive::record`].
    pub fn scan(
        &mut self,
        place: RecordPlace,
        before: Option<LayoutId>,
        each: impl FnMut(Pmid),
    ) -> Result<(Timestamp, Scan<'_>), ArchiveError> {
        self.0.scan(place, before, each)
    }

    /// The place in front of the first record at or behind `time`, or behind the last one at or in front of it.
    ///
    /// # Errors
    /// As [`Archive::seek`].
    pub fn seek(&mut self, time: Timestamp, direction: Direction) -> Result<Place, ArchiveError> {
        self.0.seek(time, direction)
    }
}
