//! What receivers hand over to the event loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_channel::{Receiver, Sender};

use jumpseat_wire::series::Form;
use pcp_model::{Inst, Pmid, Semantics, Units, ValueType};

use super::labels::LabelText;

/// Values of a batch: small enough to be taken in without anybody waiting.
pub(super) const POINTS: usize = 8192;
/// New or forgotten things of a batch.
pub(super) const CHANGES: usize = 512;
/// Batches that may wait before sessions are refused: 8 MiB of values, and at most one session more.
pub(super) const WAITING: usize = 64;

/// One hand-over. Order within: what has gone, what is new, the values.
#[derive(Debug, Default)]
pub struct Batch {
    /// What was forgotten.
    pub gone: Vec<Gone>,
    /// What is new.
    pub defined: Vec<Defined>,
    /// Numbers.
    pub points: Vec<Point>,
    /// Texts of slots.
    pub texts: Vec<(u32, Box<str>)>,
}

/// Something that is there no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// A series; its slot may be given to another one.
    Series {
        /// The metric's, without a domain.
        pmid: Pmid,
        /// Its instance.
        inst: Inst,
        /// The place of its value.
        slot: u32,
    },
    /// The last series of an instance.
    Instance {
        /// The instance domain.
        serial: u32,
        /// The instance.
        inst: Inst,
    },
}

/// Something that points may be of from now on.
#[derive(Clone, Debug)]
pub enum Defined {
    /// A metric.
    Metric(Arc<MetricMeaning>),
    /// An instance.
    Instance {
        /// The instance domain.
        serial: u32,
        /// The instance.
        inst: Inst,
        /// Its name.
        name: Box<str>,
        /// Its labels.
        labels: Arc<[(String, LabelText)]>,
    },
    /// A series.
    Series {
        /// The metric's, without a domain.
        pmid: Pmid,
        /// Its instance.
        inst: Inst,
        /// The place of its value.
        slot: u32,
    },
}

/// The root that a metric is below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// Values.
    Values,
    /// Exemplars: texts.
    Exemplars,
    /// When sums began.
    Starts,
}

impl Branch {
    /// What stands in front of its names in the file of ids.
    pub fn mark(self) -> &'static str {
        match self {
            Branch::Values => "",
            Branch::Exemplars => "!",
            Branch::Starts => "^",
        }
    }

    /// The branch of a name there, and the name.
    pub(super) fn of_marked(name: &str) -> (Branch, &str) {
        let marked = [Branch::Exemplars, Branch::Starts].into_iter();
        let found = marked.filter_map(|branch| Some((branch, name.strip_prefix(branch.mark())?))).next();
        found.unwrap_or((Branch::Values, name))
    }
}

/// What a metric is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricMeaning {
    /// Its PMID, without a domain.
    pub pmid: Pmid,
    /// Its name below the root.
    pub name: String,
    /// What it is called where it comes from.
    pub original: String,
    /// What it is, in its sender's words.
    pub help: String,
    /// Its unit as the sender has it.
    pub unit: String,
    /// Its unit for PCP.
    pub units: Units,
    /// Counter or instant.
    pub semantics: Semantics,
    /// The type of its values.
    pub value_type: ValueType,
    /// The serial of its instance domain.
    pub serial: u32,
    /// Where it is.
    pub branch: Branch,
    /// What of the metric its values are, where there is a word for it.
    pub told: Option<Form>,
}

/// A value: the bits of a number of its metric's type, for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The place.
    pub slot: u32,
    /// The number.
    pub bits: u64,
}

/// The event loop's end.
#[derive(Clone, Debug)]
pub struct Batches {
    receiver: Receiver<Batch>,
    waiting: Arc<AtomicUsize>,
}

/// The receivers' end.
#[derive(Debug)]
pub(super) struct Outgoing {
    sender: Sender<Batch>,
    waiting: Arc<AtomicUsize>,
}

/// A channel. It has room for what one session makes beyond its limit, so that none is cut short.
pub(super) fn channel() -> (Outgoing, Batches) {
    let (sender, receiver) = crossbeam_channel::unbounded();
    let waiting = Arc::new(AtomicUsize::new(0));
    (Outgoing { sender, waiting: Arc::clone(&waiting) }, Batches { receiver, waiting })
}

impl Batches {
    /// The next one, if there is one. Never blocks.
    pub fn take(&self) -> Option<Batch> {
        let batch = self.receiver.try_recv().ok()?;
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        Some(batch)
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }
}

impl Outgoing {
    pub(super) fn has_room(&self) -> bool {
        self.waiting.load(Ordering::Acquire) < WAITING
    }

    pub(super) fn send(&self, batch: Batch) {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        // Nobody is there any more: the agent ends.
        if self.sender.send(batch).is_err() {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.defined.is_empty() && self.points.is_empty() && self.texts.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.points.len() >= POINTS || self.gone.len() + self.defined.len() + self.texts.len() >= CHANGES
    }
}
