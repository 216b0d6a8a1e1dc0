//! The sampler: a thread that asks a pmcd for the metrics of other agents that derived metrics are made of.
//!
//! ```text
//! event loop --Plan: names, what to fetch, how often--> thread --requests--> pmcd
//! event loop <--Report: metadata, newest sample-------- thread
//! ```
//!
//! pmcd asks one agent at a time and waits for its answer: an agent that asks pmcd from within a fetch waits
//! for ever. So only this thread ever waits for a pmcd, and the event loop answers from the newest sample.
//!
//! Both directions are mailboxes that hold one thing at most, the newest; each plan and each report is
//! complete, so that none is missed when the next one takes its place. The thread begins with the first plan
//! that names metrics, and ends when the [`Sampler`] is dropped.

mod link;
mod mailbox;
mod thread;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use rustc_hash::FxHashMap;

use pcp_model::{Desc, InDom, InstanceValue, PmError, Pmid, Timestamp};
use pcp_pmda::Instances;

use mailbox::Poster;
pub use thread::is_passing;

/// Stands for the name of a metric of another agent, whatever its PMID is at the time. Never given to
/// another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(u32);

impl Handle {
    /// How many there can be.
    pub const MAX: u32 = 1 << 22;

    /// The handle of a number below [`Handle::MAX`].
    pub fn new(number: u32) -> Option<Handle> {
        (number < Handle::MAX).then_some(Handle(number))
    }

    /// As the expression engine sees it: a PMID of domain 0, which no agent has.
    pub fn pmid(self) -> Pmid {
        Pmid(self.0)
    }

    /// The handle that a PMID of the engine stands for, if it is no metric of this agent.
    pub fn of(pmid: Pmid) -> Option<Handle> {
        Handle::new(pmid.0)
    }
}

/// What the thread is to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Which pmcd, as a host specification.
    pub host: String,
    /// Time between samples.
    pub interval: Duration,
    /// Most bytes of values in a sample.
    pub budget: usize,
    /// The metrics whose metadata are wanted.
    pub names: Arc<BTreeMap<Handle, Arc<str>>>,
    /// Those whose values are wanted, in ascending order. Nothing is fetched while there are none.
    pub wanted: Vec<Handle>,
    /// The instance domains whose instances are wanted by name.
    pub indoms: Vec<InDom>,
    /// Another number than before: look all names up again.
    pub lookups: u64,
}

/// What the thread knows.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Which pmcd it is about.
    pub host: String,
    /// Another one than before if anything has changed.
    pub metadata: Arc<Metadata>,
    /// The newest sample.
    pub sample: Option<Arc<Sample>>,
}

/// Descriptors, with the PMIDs they had, or why there are none: `PM_ERR_NAME` where pmcd does not know the
/// name. What is not there yet has not been answered for.
pub type Metadata = FxHashMap<Handle, Result<Desc, PmError>>;

/// Values of one fetch.
#[derive(Debug)]
pub struct Sample {
    /// Grows with each sample.
    pub number: u64,
    /// The time that pmcd gave it.
    pub time: Timestamp,
    /// When it was there.
    pub taken: Instant,
    /// The values of each metric, or why there are none.
    pub values: FxHashMap<Handle, Result<Vec<InstanceValue>, PmError>>,
    /// The instances of [`Plan::indoms`].
    pub indoms: FxHashMap<InDom, Result<Arc<Instances>, PmError>>,
}

/// What the thread does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// There is nothing to ask pmcd for.
    Off,
    /// No connection yet.
    Connecting,
    /// Connected; nobody wants values.
    Idle,
    /// Connected and fetching.
    Sampling,
    /// pmcd cannot be reached, or does not answer; tried again from time to time.
    Unreachable,
}

impl Phase {
    const ALL: [Phase; 5] = [Phase::Off, Phase::Connecting, Phase::Idle, Phase::Sampling, Phase::Unreachable];

    /// A word for it.
    pub fn word(self) -> &'static str {
        match self {
            Phase::Off => "off",
            Phase::Connecting => "connecting",
            Phase::Idle => "idle",
            Phase::Sampling => "sampling",
            Phase::Unreachable => "unreachable",
        }
    }
}

/// What the thread counts.
#[derive(Debug, Default)]
pub struct SamplerStats {
    phase: AtomicU8,
    /// Samples taken.
    pub samples: AtomicU64,
    /// Requests and attempts to connect that failed.
    pub errors: AtomicU64,
    /// Connections made after the first.
    pub reconnects: AtomicU64,
    /// Nanoseconds that the last fetch took.
    pub latency_nanos: AtomicU64,
}

impl SamplerStats {
    /// What the thread does.
    pub fn phase(&self) -> Phase {
        Phase::ALL.get(usize::from(self.phase.load(Ordering::Relaxed))).copied().unwrap_or(Phase::Off)
    }

    fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }
}

/// Called after each report.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// The event loop's side of the thread.
pub struct Sampler {
    /// What the thread counts.
    pub stats: Arc<SamplerStats>,
    wake: Wake,
    thread: Option<(Poster<Plan>, Receiver<Report>)>,
}

impl Sampler {
    /// No thread yet.
    pub fn new(wake: Wake) -> Sampler {
        Sampler { stats: Arc::default(), wake, thread: None }
    }

    /// Has the thread do this from now on. Never waits.
    pub fn follow(&mut self, plan: Plan) {
        if self.thread.is_none() && !plan.names.is_empty() {
            let (plans, todo) = mailbox::new();
            let (reports, done) = mailbox::new();
            let (stats, wake) = (Arc::clone(&self.stats), Arc::clone(&self.wake));
            let run = move || thread::run(todo, &reports, &stats, &wake);
            // Nobody waits for its end: it may be waiting for pmcd, and touches nothing but its mailboxes.
            match std::thread::Builder::new().name("sampler".to_owned()).spawn(run) {
                Ok(_) => self.thread = Some((plans, done)),
                // The next plan tries again.
                Err(error) => tracing::error!(%error, "cannot start the sampler"),
            }
        }
        if let Some((plans, _)) = &self.thread {
            plans.post(plan);
        }
    }

    /// What has come since the last call. Never waits.
    pub fn report(&self) -> Option<Report> {
        self.thread.as_ref()?.1.try_recv().ok()
    }
}
