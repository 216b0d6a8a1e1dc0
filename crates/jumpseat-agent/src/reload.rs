//! Reads the configuration again while the agent runs, and puts it into effect.
//!
//! ```text
//! event loop       load, check, changes  -> limits, rules, access: at once
//!   |                                     -> derived metrics: their files are read
//!   v configuration
//! jumpseat-reload  Sources::apply        -> ends, starts, leaves alone
//!   |
//!   v counters of the threads that run now
//! event loop       ThreadStats
//! ```
//!
//! Sources are started and ended by a thread of its own, so that the loop takes what the others hand over meanwhile: nothing
//! of them waits, and nothing is lost.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender, unbounded};
use jumpseat_source::Outlet;
use pcp_net::{Certificate, CertificateError, Worker};
use pcp_pmda::Handle;
use pcp_pmda::log::EVERY;
use serde_json::{Map, Value};

use crate::changes::{Change, changes};
use crate::config::{Config, EventsConfig};
use crate::confine::Trust;
use crate::kinds::{self, Sources};
use crate::running::{Running, tables};
use crate::state::State;
use crate::state::threads::ThreadStats;

/// What a program has done to the configuration after it was read, by its options.
pub type Adjust = Arc<dyn Fn(&mut Config) + Send + Sync>;

/// Reads the configuration again, where there is one, and the files with derived metrics. Limits and settings of
/// sources that were stored give way to configured ones. Tells the log what happened and whether all went well;
/// what cannot be read or is wrong changes nothing.
pub(crate) fn reload(state: &mut State) -> bool {
    let Some(mut hook) = state.reload.take() else { return state.derived.read() };
    let done = hook(state);
    state.reload = Some(hook);
    done
}

/// What it takes to put another configuration into effect.
pub(crate) struct Reloader {
    path: PathBuf,
    adjust: Option<Adjust>,
    /// What is in effect of what can change.
    config: Config,
    /// What the agent was started with.
    started: Config,
    applier: Applier,
    /// The endpoint of direct clients, if there is one.
    pub(crate) endpoint: Option<Handle>,
}

/// Where it is noted what was read.
pub(crate) struct Notes {
    pub(crate) state_dir: PathBuf,
    pub(crate) domain: u16,
    /// What was read at the start and last, without what options of the program have changed.
    pub(crate) running: Running,
}

impl Notes {
    /// Writes it, at the start or after a reload.
    pub(crate) fn write(&self, is_start: bool) {
        self.running.write(&self.state_dir, self.domain, is_start);
    }
}

impl Reloader {
    /// For an agent that was started with `config`, which came from the file at `path` and was adjusted.
    pub(crate) fn new(path: &Path, adjust: Option<Adjust>, config: &Config, applier: Applier) -> Reloader {
        let (config, started) = (config.clone(), config.clone());
        Reloader { path: path.to_owned(), adjust, config, started, applier, endpoint: None }
    }

    /// As [`reload`].
    pub(crate) fn run(&mut self, state: &mut State) -> bool {
        let mut config = match Config::load(&self.path) {
            Ok(config) => config,
            Err(error) => {
                error.messages().iter().for_each(|message| tracing::error!(target: EVERY, "{message}"));
                tracing::error!("{}: not read again, nothing has changed", self.path.display());
                return false;
            }
        };
        let read = tables(&config);
        if let Some(adjust) = &self.adjust {
            adjust(&mut config);
        }
        self.tell(&config);
        let secured = self.secure(&mut config);
        // Tables are as large as these were, whatever is wanted now.
        let EventsConfig { max_sources, max_types, .. } = self.started.events;
        config.events = EventsConfig { max_sources, max_types, ..config.events };
        state.registry.set_own(kinds::source_names(&config), kinds::own_source_names(&config));
        state.grants = Some((config.access.grants(), config.control.access()));
        if let Some(logs) = state.registry.logs() {
            logs.set_budgets(config.log.source_budget.0, config.log.total_budget.0);
        }
        state.configure(config.clone());
        self.config = config.clone();
        // The loop takes the grants when it is woken, too.
        (self.applier.outlet.wake)();
        let applied = self.applier.order(Order { config, read });
        if let Err(error) = &applied {
            tracing::error!("sources stay as they are: no thread to start and end them: {error}");
        }
        let derived = state.derived.read();
        secured && derived && applied.is_ok()
    }

    /// Reads certificates again, also those of the same names: for connections from now on. What cannot be read leaves the
    /// endpoint as it is.
    fn secure(&self, config: &mut Config) -> bool {
        let Some(endpoint) = &self.endpoint else { return true };
        let certificate = config.tls.check().map_err(|error| error.to_string()).and_then(|()| {
            let files = config.tls.files();
            files.map(|files| Certificate::load(&files)).transpose().map_err(|error| unusable(&error))
        });
        match certificate {
            Ok(certificate) => {
                endpoint.set_certificate(certificate, config.tls.required);
                true
            }
            Err(error) => {
                tracing::error!(target: EVERY, "tls: {error}; the endpoint goes on with the certificate it has");
                config.tls = self.config.tls.clone();
                false
            }
        }
    }

    fn tell(&self, config: &Config) {
        let now = changes(&self.config, config).into_iter().filter(|change| change.at_start.is_none());
        // What has not come into effect yet is told each time.
        let later = changes(&self.started, config).into_iter().filter(|change| change.at_start.is_some());
        let (now, later): (Vec<Change>, Vec<Change>) = (now.collect(), later.collect());
        let path = self.path.display();
        match now.len() {
            0 => tracing::info!("{path}: read again, no changes"),
            number => tracing::info!("{path}: read again, changes: {number}"),
        }
        now.iter().for_each(|change| tracing::info!(target: EVERY, "{change}"));
        later.iter().for_each(|change| tracing::warn!(target: EVERY, "{change}"));
        if !later.is_empty() {
            tracing::warn!(
                "for what takes a start: pmstore jumpseat.control.handover 1, or restart the agent"
            );
        }
    }
}

/// What is wrong with a certificate, and what helps where only the start could read it.
fn unusable(error: &CertificateError) -> String {
    match error {
        CertificateError::File { error: why, .. } if why.kind() == ErrorKind::PermissionDenied => {
            let user = crate::confine::user();
            format!(
                "{error}: chgrp or chmod it for {user}, or restart the agent, which reads it as who starts it"
            )
        }
        _ => error.to_string(),
    }
}

/// What the thread is told.
pub(crate) struct Order {
    config: Config,
    /// As the file has it.
    read: Map<String, Value>,
}

/// Who starts and ends sources.
pub(crate) struct Applier {
    pub(crate) sources: Arc<Mutex<Sources>>,
    pub(crate) outlet: Outlet,
    pub(crate) trust: Trust,
    /// Where the counters of threads go.
    pub(crate) stats: Sender<ThreadStats>,
    /// The thread, from the first reload on.
    pub(crate) thread: Option<(Sender<Order>, Worker)>,
    /// The thread's, while there is none.
    pub(crate) notes: Option<Notes>,
}

impl Applier {
    fn order(&mut self, order: Order) -> std::io::Result<()> {
        if self.thread.is_none() {
            let (orders, ordered) = unbounded();
            self.thread = Some((orders, self.start(ordered)?));
        }
        if let Some((orders, _)) = &self.thread {
            // It ends with the agent only.
            let _ = orders.send(order);
        }
        Ok(())
    }

    fn start(&mut self, orders: Receiver<Order>) -> std::io::Result<Worker> {
        let (sources, outlet) = (Arc::clone(&self.sources), self.outlet.clone());
        let (trust, stats, mut notes) = (self.trust.clone(), self.stats.clone(), self.notes.take());
        let (end, ended) = crossbeam_channel::bounded::<()>(0);
        let mut end = Some(end);
        let run = move || {
            loop {
                crossbeam_channel::select! {
                    recv(ended) -> _ => return,
                    recv(orders) -> order => {
                        let Ok(Order { config, read }) = order else { return };
                        if let Some(notes) = &mut notes {
                            notes.running.current = read;
                            notes.write(false);
                        }
                        let mut sources = sources.lock().unwrap_or_else(PoisonError::into_inner);
                        for error in sources.apply(&config, &outlet, &trust) {
                            tracing::error!(target: EVERY, "not started: {error}");
                        }
                        let _ = stats.send(sources.stats());
                        tracing::info!("sources are as configured");
                        (outlet.wake)();
                    }
                }
            }
        };
        Worker::spawn("jumpseat-reload", move || end.take().is_some(), run)
    }
}
