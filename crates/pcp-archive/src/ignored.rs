//! Marks across which values are interpolated all the same (`PCPIntro(1)`, `PCP_IGNORE_MARK_RECORDS`).
//!
//! Cost: nothing unless there are such marks; otherwise each record is looked at once more, and for each mark the records around it.

use std::time::Duration;

use super::error::ArchiveError;
use super::reader::{Archive, Place, Step};
use pcp_model::Timestamp;

/// Which marks are as if they were not there, when values are interpolated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IgnoredMarks {
    /// None of them.
    #[default]
    None,
    /// Those with at most this time between the records around them.
    UpTo(Duration),
    /// All of them.
    All,
}

impl IgnoredMarks {
    /// Whether a step between two places is such a mark.
    pub(super) fn covers(
        self,
        archive: &mut Archive,
        step: &Step,
        earlier: Place,
        later: Place,
    ) -> Result<bool, ArchiveError> {
        if self == IgnoredMarks::None {
            return Ok(false);
        }
        let is_mark = match *step {
            Step::Gap(..) => true,
            Step::Record(place, _) => archive.record(place)?.is_mark(),
        };
        Ok(is_mark
            && match self {
                IgnoredMarks::None => false,
                IgnoredMarks::All => true,
                IgnoredMarks::UpTo(limit) => {
                    let before = next_time(archive, earlier, Archive::previous)?;
                    let after = next_time(archive, later, Archive::next)?;
                    before.zip(after).is_some_and(|(before, after)| {
                        after.as_nanos() - before.as_nanos()
                            <= i128::try_from(limit.as_nanos()).unwrap_or(i128::MAX)
                    })
                }
            })
    }
}

/// The time of the next record with values.
fn next_time(
    archive: &mut Archive,
    mut at: Place,
    step: impl Fn(&mut Archive, Place) -> Result<Option<Step>, ArchiveError>,
) -> Result<Option<Timestamp>, ArchiveError> {
    loop {
        at = match step(archive, at)? {
            None => return Ok(None),
            Some(Step::Gap(_, after)) => after,
            Some(Step::Record(place, after)) => {
                let record = archive.record(place)?;
                if !record.is_mark() {
                    return Ok(Some(record.timestamp));
                }
                after
            }
        };
    }
}
