//! Metrics of other agents, as far as definitions name them: what is known of them, who wants their values,
//! and the newest sample. The event loop's side of the [sampler](crate::sampler).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::config::DerivedConfig;
use crate::sampler::{self, Handle, Report, Sampler, SamplingPlan};
use pcp_client::{HostSpec, Place};
use pcp_derive::Meta;
use pcp_model::{InDom, PmError};

use super::catalogue::Catalogue;
use super::snapshot::Snapshot;

/// Intervals after which a sample is too old to be served.
const STALE: u32 = 3;
/// Intervals for which samples go on after the last client has gone, so that one that comes again and again
/// finds some.
const LINGER: u32 = 10;

/// What a definition needs of a sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Needs {
    /// Metrics of other agents.
    pub operands: BTreeSet<Handle>,
    /// Metrics of this agent next to them, by [`pcp_model::Pmid::local`].
    pub own: BTreeSet<u32>,
    /// Instance domains of other agents whose instances it has to know by name.
    pub indoms: BTreeSet<InDom>,
}

/// What is known of a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Known {
    /// Nothing yet.
    Waiting,
    Metric(Handle, Meta),
    /// Why there is no such metric.
    Unknown(PmError),
}

/// The metrics of other agents.
pub(crate) struct Foreign {
    sampler: Option<Sampler>,
    /// The pmcd to ask unless the configuration says another.
    default_host: Option<String>,
    /// Whether clients ask this agent for instances of all domains, or else pmcd.
    pub direct: bool,
    /// Which pmcd is asked; without one there are no metrics of other agents.
    pub host: Option<String>,
    interval: Duration,
    budget: usize,
    /// The names in use.
    handles: BTreeMap<Arc<str>, Handle>,
    /// The newest handle's number.
    next_handle: u32,
    lookups: u64,
    metadata: Arc<sampler::Metadata>,
    newest: Option<Arc<Snapshot>>,
    /// Definitions that clients have asked for, by [`pcp_model::Pmid::local`].
    interest: FxHashMap<u32, Interest>,
    plan: Option<SamplingPlan>,
}

#[derive(Debug)]
struct Interest {
    /// Clients that are there.
    clients: usize,
    /// When the last one went.
    idle_since: Instant,
}

impl Foreign {
    /// None, and no thread that could ask for any.
    pub(crate) fn new(config: &DerivedConfig) -> Foreign {
        Foreign {
            sampler: None,
            default_host: None,
            direct: false,
            host: None,
            interval: config.sample_interval.0,
            budget: config.sample_budget.0 as usize,
            handles: BTreeMap::new(),
            next_handle: 0,
            lookups: 0,
            metadata: Arc::default(),
            newest: None,
            interest: FxHashMap::default(),
            plan: None,
        }
    }

    /// Metrics of other agents can be used from now on. Without a `host` here and in the configuration there
    /// are none.
    pub(crate) fn enable(&mut self, sampler: Sampler, host: Option<&str>, direct: bool) {
        self.sampler = Some(sampler);
        self.default_host = host.map(str::to_owned);
        self.direct = direct;
    }

    /// Takes settings over, and has all names looked up again.
    pub(crate) fn configure(&mut self, config: &DerivedConfig) {
        let host = config.pmcd.clone().or_else(|| self.default_host.clone());
        let host = host.filter(|host| self.sampler.is_some() && !host.is_empty());
        // What one pmcd has said says nothing about another.
        if self.host != host {
            (self.metadata, self.newest) = (Arc::default(), None);
        }
        self.host = host;
        self.interval = config.sample_interval.0;
        self.budget = config.sample_budget.0 as usize;
        self.lookups += 1;
    }

    /// Whether the pmcd asked is one of this host.
    pub(crate) fn is_here(&self) -> bool {
        let spec = self.host.as_deref().and_then(|host| host.parse::<HostSpec>().ok());
        match spec.map(|spec| spec.place) {
            Some(Place::Socket { .. }) => true,
            Some(Place::Inet { host, proxy: None }) => {
                host.host == "localhost"
                    || host.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
            }
            _ => false,
        }
    }

    /// Time between samples.
    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }

    /// Changes the time between samples.
    pub(crate) fn set_interval(&mut self, interval: Duration) {
        self.interval = interval;
    }

    /// The names definitions use.
    pub(crate) fn names(&self) -> HashSet<Arc<str>> {
        self.handles.keys().cloned().collect()
    }

    /// Sets which names definitions use. Each keeps its handle as long as it is in use.
    pub(crate) fn set_names(&mut self, names: &BTreeSet<&str>) {
        let before = std::mem::take(&mut self.handles);
        for &name in names {
            let handle = before.get(name).copied().or_else(|| {
                self.next_handle += 1;
                Handle::new(self.next_handle)
            });
            // Without one there is no such metric; millions have come and gone then.
            self.handles.extend(handle.map(|handle| (name.into(), handle)));
        }
    }

    /// Puts what is known of the names into the catalogue.
    pub(crate) fn fill(&self, catalogue: &mut Catalogue) {
        catalogue.foreign.clear();
        catalogue.foreign_meta.clear();
        for (name, &handle) in &self.handles {
            if let Some(Known::Metric(_, meta)) = self.known(name) {
                catalogue.foreign.insert(Arc::clone(name), handle);
                catalogue.foreign_meta.insert(handle, meta);
            }
        }
    }

    /// The handle of a name.
    #[cfg(test)]
    pub(crate) fn handle(&self, name: &str) -> Option<Handle> {
        self.handles.get(name).copied()
    }

    /// What is known of a name; `None` for one that was not set.
    pub(crate) fn known(&self, name: &str) -> Option<Known> {
        let &handle = self.handles.get(name)?;
        Some(known(&self.metadata, handle))
    }

    /// What the sampler has found out since the last call.
    pub(crate) fn report(&self) -> Option<Report> {
        self.sampler.as_ref()?.report()
    }

    /// Takes over what the sampler has found out. The names that mean something else than before, and the
    /// sample, if there is a new one.
    pub(crate) fn apply(
        &mut self,
        report: Report,
    ) -> (HashSet<Arc<str>>, Option<Arc<sampler::ForeignSample>>) {
        let Report { host, metadata, sample } = report;
        let mut changed = HashSet::new();
        if self.host.as_ref() != Some(&host) {
            // From before another one was to be asked.
            return (changed, None);
        }
        // The thread makes new ones only when something has changed: most reports are samples alone.
        if !Arc::ptr_eq(&self.metadata, &metadata) {
            let differs = |handle| known(&self.metadata, handle) != known(&metadata, handle);
            let names = self.handles.iter().filter(|(_, handle)| differs(**handle));
            changed.extend(names.map(|(name, _)| Arc::clone(name)));
            self.metadata = metadata;
        }
        let newest = self.newest.as_ref().map_or(0, |newest| newest.sample.number);
        (changed, sample.filter(|sample| sample.number > newest))
    }

    /// Puts a sample into effect.
    pub(crate) fn set_newest(&mut self, snapshot: Snapshot) {
        self.newest = Some(Arc::new(snapshot));
    }

    /// The newest sample, if it is not too old and has what is needed.
    ///
    /// # Errors
    /// `PM_ERR_AGAIN`.
    pub(crate) fn fresh(&self, needs: &Needs) -> Result<Arc<Snapshot>, PmError> {
        let fresh = |snapshot: &&Arc<Snapshot>| {
            let sample = &snapshot.sample;
            // A plan that has changed meanwhile may want more than the sample has: then the next one is waited for.
            sample.taken.elapsed() <= self.interval * STALE
                && needs.operands.iter().all(|handle| sample.values.contains_key(handle))
                && needs.indoms.iter().all(|indom| sample.indoms.contains_key(indom))
                && needs.own.iter().all(|local| snapshot.own.contains_key(local))
        };
        self.newest.as_ref().filter(fresh).cloned().ok_or(PmError::AGAIN)
    }

    /// How old the newest sample is.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.newest.as_ref().map(|newest| newest.sample.taken.elapsed())
    }

    /// The instances of a domain of another agent, as of the newest sample.
    pub(crate) fn instances(&self, indom: InDom) -> Option<&pcp_pmda::Instances> {
        self.newest.as_ref()?.sample.indoms.get(&indom)?.as_deref().ok()
    }

    /// Another client asks for the values of a definition.
    pub(crate) fn join(&mut self, local: u32) {
        let none = || Interest { clients: 0, idle_since: Instant::now() };
        self.interest.entry(local).or_insert_with(none).clients += 1;
    }

    /// A client has gone that had asked for the values of these.
    pub(crate) fn leave(&mut self, locals: &[u32]) {
        for local in locals {
            if let Some(interest) = self.interest.get_mut(local) {
                interest.clients = interest.clients.saturating_sub(1);
                interest.idle_since = Instant::now();
            }
        }
    }

    /// The definitions whose values somebody wants.
    pub(crate) fn interesting(&mut self) -> impl Iterator<Item = u32> {
        // A tool that runs once a minute must not find an agent that has to connect first, each time.
        let linger = self.interval * LINGER;
        self.interest.retain(|_, interest| interest.clients > 0 || interest.idle_since.elapsed() <= linger);
        self.interest.keys().copied()
    }

    /// Has the sampler get this from now on.
    pub(crate) fn follow(&mut self, needs: &Needs) {
        let Some(sampler) = &mut self.sampler else { return };
        let plan = SamplingPlan {
            host: self.host.clone().unwrap_or_default(),
            interval: self.interval,
            budget: self.budget,
            names: match &self.plan {
                Some(plan) if same(&plan.names, &self.handles) => Arc::clone(&plan.names),
                _ => Arc::new(self.handles.iter().map(|(name, &handle)| (handle, name.clone())).collect()),
            },
            wanted: needs.operands.iter().copied().collect(),
            indoms: needs.indoms.iter().copied().collect(),
            lookups: self.lookups,
        };
        // The thread takes up each plan that comes; one that says the same would only wake it.
        if self.plan.as_ref() != Some(&plan) {
            sampler.follow(plan.clone());
            self.plan = Some(plan);
        }
    }

    /// How many metrics are fetched each time.
    pub(crate) fn wanted(&self) -> usize {
        self.plan.as_ref().map_or(0, |plan| plan.wanted.len())
    }

    /// What the sampler counts.
    pub(crate) fn stats(&self) -> Option<&sampler::SamplerStats> {
        self.sampler.as_ref().map(|sampler| &*sampler.stats)
    }
}

fn known(metadata: &sampler::Metadata, handle: Handle) -> Known {
    match metadata.get(&handle) {
        None => Known::Waiting,
        Some(Ok(desc)) => Known::Metric(handle, Meta::from(*desc)),
        // The agent behind it may only be restarting: refusing the definition would make it vanish from the name space.
        Some(Err(error)) if sampler::is_passing(*error) => Known::Waiting,
        Some(Err(error)) => Known::Unknown(*error),
    }
}

fn same(names: &BTreeMap<Handle, Arc<str>>, handles: &BTreeMap<Arc<str>, Handle>) -> bool {
    names.len() == handles.len() && handles.iter().all(|(name, handle)| names.get(handle) == Some(name))
}
