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

mod exchange;
mod link;
mod mailbox;
mod stats;
mod thread;

use std::sync::Arc;

use crossbeam_channel::Receiver;

use mailbox::Poster;

pub(crate) use exchange::{ForeignSample, Handle, Metadata, Report, SamplingPlan, is_passing};
pub(crate) use stats::{Phase, SamplerStats};

/// Called after each report.
pub(crate) type Wake = Arc<dyn Fn() + Send + Sync>;

/// The event loop's side of the thread.
pub(crate) struct Sampler {
    /// What the thread counts.
    pub stats: Arc<SamplerStats>,
    wake: Wake,
    thread: Option<(Poster<SamplingPlan>, Receiver<Report>)>,
}

impl Sampler {
    /// No thread yet.
    pub(crate) fn new(wake: Wake) -> Sampler {
        Sampler { stats: Arc::default(), wake, thread: None }
    }

    /// Has the thread do this from now on. Never waits.
    pub(crate) fn follow(&mut self, plan: SamplingPlan) {
        if self.thread.is_none() && !plan.names.is_empty() {
            let (plans, todo) = mailbox::new();
            let (reports, done) = mailbox::new();
            let (stats, wake) = (Arc::clone(&self.stats), Arc::clone(&self.wake));
            let run = move || thread::run(todo, &reports, &stats, &*wake);
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
    pub(crate) fn report(&self) -> Option<Report> {
        self.thread.as_ref()?.1.try_recv().ok()
    }
}
