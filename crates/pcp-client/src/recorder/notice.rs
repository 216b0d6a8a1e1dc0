//! What goes wrong in recording, or is worth to be told.

use crate::ClientError;
use pcp_archive::{ArchiveError, WriteError};
use pcp_model::{PmError, Timestamp};

/// The name under which the clock is spoken of: none of a metric.
pub(super) const CLOCK: &str = " clock";
/// The same for the positions in event records.
pub(super) const POSITIONS: &str = " positions";

/// Why recording cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The source of the metrics.
    #[error("{0}")]
    Source(#[from] ClientError),
    /// The archive.
    #[error("{0}")]
    Archive(#[from] WriteError),
    /// The archive that is to be continued, when it was read.
    #[error("{0}")]
    Read(#[from] ArchiveError),
    /// None of the metrics is there; why.
    #[error("no metric to record")]
    NoMetrics(Vec<Notice>),
}

/// Something that whoever records should know. Recording goes on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Notice {
    /// There is no such metric at present. It is looked for again when names change.
    #[error("{name}: {error}; it will be recorded when it is there")]
    Missing {
        /// As it was asked for.
        name: String,
        /// What the source says.
        error: PmError,
    },
    /// A metric was not named itself, and another one that is recorded has the same event records.
    #[error("{name}: left out, as {in_place} has the same records; name it to have both")]
    SameRecords {
        /// The metric.
        name: String,
        /// The one that is recorded.
        in_place: String,
    },
    /// A metric is not what it was when the archive began, hence no longer recorded.
    #[error("{name}: its {what} has changed, it is no longer recorded; a new archive could take it")]
    Changed {
        /// The metric.
        name: String,
        /// What has changed.
        what: &'static str,
    },
    /// Event records hold a parameter that the source cannot name. They are recorded; the parameter has no name.
    #[error("{name}: the source has no metric for parameter {param} of its records ({error})")]
    NamelessParameter {
        /// The event metric.
        name: String,
        /// The parameter.
        param: String,
        /// What the source says.
        error: PmError,
    },
    /// Event records cannot be read, hence this sample is left out.
    #[error("{name}: {reason}; a sample is left out")]
    BadRecords {
        /// The event metric.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// The source has not got the event records that would come next: its log is another one.
    #[error(
        "{instance}: its records from {position} on are gone ({reason}); recorded is what there is from 0 on"
    )]
    BegunAnew {
        /// The instance: a source of records.
        instance: String,
        /// Where the archive ended.
        position: String,
        /// What the agent says.
        reason: String,
    },
    /// Nobody may say where event records are to go on.
    #[error("event records cannot go on where the archive ends ({0}): they are recorded from now on")]
    PositionsRefused(PmError),
    /// The source's clock went back; samples are left out until it is where it was.
    #[error("the clock went back from {} to {}: samples are left out until it gets there again", seconds(*last), seconds(*time))]
    ClockWentBack {
        /// The sample's time.
        time: Timestamp,
        /// The last in the archive.
        last: Timestamp,
    },
}

fn seconds(time: Timestamp) -> String {
    format!("@{}.{:03}", time.sec, time.nsec / 1_000_000)
}
