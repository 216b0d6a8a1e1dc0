//! Recording: the values of a context's metrics, sample by sample, into an archive.
//!
//! ```no_run
//! use pcp_archive::{ArchiveWriter, WriteOptions};
//! use pcp_client::Context;
//! use pcp_client::recorder::{Recorder, label_of};
//!
//! let mut context = Context::host("local:")?;
//! let label = label_of(&mut context, "localhost")?;
//! let archive = ArchiveWriter::create("/tmp/today", label, WriteOptions::default())?;
//! let mut recorder = Recorder::new(context, archive, ["kernel.all.load", "disk.dev"])?;
//! for _ in 0..10 {
//!     recorder.sample()?;
//!     std::thread::sleep(std::time::Duration::from_secs(1));
//! }
//! recorder.finish()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What a reader needs to understand a value is in the archive before the value: descriptor and names, help,
//! labels, the instances, and all that for each parameter of an event record. Sources are asked when a metric,
//! an instance or a parameter is met for the first time, and again where the source says that something has
//! changed.
//!
//! Event records of the jumpseat agent are recorded with where they end. An archive that is continued, and a
//! recorder that connects again, goes on there: each record is in the archive once, or in a missed record.
//!
//! **Cost of a sample** once all is known: the fetch, one comparison for each instance (none for records of an archive that are laid
//! out as the one before), one look at each event parameter, and the record's one write. Nothing that is kept for a metric is looked at:
//! between two samples it has gone from the processor's caches.

mod describe;
mod label;
mod metrics;
mod notice;
mod positions;
mod shape;

use std::collections::{HashMap, HashSet};

pub use label::label_of;
pub use notice::{Notice, RecordError};

use crate::{Context, Fetched, StateChange};
use pcp_archive::{ArchiveWriter, WriteError};
use pcp_model::{Desc, Pmid, ValueType};
use pcp_pdu::Selection;
use positions::Positions;
use shape::Shape;

/// Changes after which names may lead elsewhere, or metrics have got an agent.
const NEW_NAMES: [StateChange; 3] = [StateChange::ADD, StateChange::RESTART, StateChange::NAMES];

/// Records metrics of a context.
pub struct Recorder {
    context: Context,
    archive: ArchiveWriter,
    /// What to record: names of metrics, or of what they are below.
    wanted: Vec<String>,
    metrics: Vec<Metric>,
    /// Those of `metrics`, to be fetched.
    pmids: Vec<Pmid>,
    fetched: Fetched,
    /// Where event records go on.
    positions: Positions,
    /// Event parameters that the archive describes.
    params: HashSet<Pmid>,
    /// What of an archive had its instances described last: they are the same as long as it is the same.
    described: Option<Selection>,
    /// The instances that were described last.
    shape: Shape,
    /// Whether the archive has help and labels of all metrics.
    explained: bool,
    /// Those of `metrics` that have event records.
    events: Vec<usize>,
    /// Whether domains are to be asked for again, whatever their instances.
    stale: bool,
    notices: Vec<Notice>,
    /// Said already, by the name it is about.
    said: HashMap<String, Notice>,
}

/// A metric that is recorded.
struct Metric {
    name: String,
    desc: Desc,
    /// Whether the archive has its help and labels.
    explained: bool,
}

impl Metric {
    fn is_event(&self) -> bool {
        matches!(self.desc.value_type, ValueType::Event | ValueType::HighResEvent)
    }
}

impl Recorder {
    /// Will record the metrics of these names, and those below a name. Event records of an archive that is continued
    /// go on where it ends, if their source can tell and be told.
    ///
    /// # Errors
    /// [`RecordError::NoMetrics`] if there is none; what the source or the system says.
    pub fn new<S: Into<String>>(
        context: Context,
        archive: ArchiveWriter,
        names: impl IntoIterator<Item = S>,
    ) -> Result<Recorder, RecordError> {
        let mut recorder = Recorder {
            context,
            archive,
            wanted: names.into_iter().map(Into::into).collect(),
            metrics: Vec::new(),
            pmids: Vec::new(),
            fetched: Fetched::new(),
            positions: Positions::default(),
            params: HashSet::new(),
            described: None,
            shape: Shape::default(),
            explained: false,
            events: Vec::new(),
            stale: false,
            notices: Vec::new(),
            said: HashMap::new(),
        };
        recorder.look_up()?;
        recorder.go_on()?;
        match recorder.metrics.is_empty() {
            true => Err(RecordError::NoMetrics(recorder.notices)),
            false => Ok(recorder),
        }
    }

    /// Fetches all metrics once and writes the values. False if none were written: nothing to record is there
    /// at present, or the source's clock went back (see [`Recorder::notices`]).
    ///
    /// # Errors
    /// What the source says: [`Recorder::reconnect`] goes on. Or what the system says, after which the archive
    /// ends with the sample before.
    pub fn sample(&mut self) -> Result<bool, RecordError> {
        if self.pmids.is_empty() {
            self.look_up()?;
            if self.pmids.is_empty() {
                return Ok(false);
            }
        }
        let changes = self.fetch_on()?;
        let new_names = NEW_NAMES.iter().any(|&change| changes.contains(change));
        // Instances of agents that came again can be others.
        self.stale |= new_names;
        if changes.contains(StateChange::LABELS) {
            self.metrics.iter_mut().for_each(|metric| metric.explained = false);
            self.explained = false;
        }
        // What explains a value comes before it: an archive that ends here can be read to its end.
        let recordable = self.describe()?;
        let written = recordable && self.write()?;
        // What cannot be read will not be readable the next time either.
        if written || !recordable {
            self.positions.settled(&self.fetched);
        }
        self.stale = false;
        if new_names {
            self.look_up()?;
        }
        Ok(written)
    }

    /// Connects again after an error of the source, and looks everything up again. Between the samples before
    /// and behind is a mark.
    ///
    /// # Errors
    /// Why the source cannot be reached, or what the system says.
    pub fn reconnect(&mut self) -> Result<(), RecordError> {
        // Nothing is known of the time without a connection: readers must not interpolate across it.
        self.archive.mark()?;
        self.context.reconnect()?;
        self.stale = true;
        self.positions.connected_anew();
        self.look_up()
    }

    /// What has come up since the last call that whoever records should know. Each thing once.
    pub fn notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// How many metrics are recorded.
    pub fn metrics(&self) -> usize {
        self.metrics.len()
    }

    /// The archive.
    pub fn archive(&mut self) -> &mut ArchiveWriter {
        &mut self.archive
    }

    /// The context.
    pub fn context(&mut self) -> &mut Context {
        &mut self.context
    }

    /// Ends the archive: what is left is written, and all of it is on disk.
    ///
    /// # Errors
    /// What the system says.
    pub fn finish(mut self) -> Result<(), WriteError> {
        self.archive.flush()
    }

    fn write(&mut self) -> Result<bool, RecordError> {
        match self.archive.result(&self.fetched) {
            Ok(()) => {
                self.said.remove(notice::CLOCK);
                Ok(true)
            }
            Err(WriteError::TimeGoesBack { time, last }) => {
                self.say(notice::CLOCK, Notice::ClockWentBack { time, last });
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Notes something down unless it was the last that was said about that name.
    fn say(&mut self, name: &str, notice: Notice) {
        if self.said.get(name) != Some(&notice) {
            self.said.insert(name.to_owned(), notice.clone());
            self.notices.push(notice);
        }
    }
}
