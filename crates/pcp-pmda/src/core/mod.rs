//! The agent's core: answers every question about its metrics from memory, whoever asks.
//!
//! **Invariant:** no sockets or clocks here, and no waiting. [`PmcdConnection`](crate::PmcdConnection) and
//! [`DirectConnection`](crate::DirectConnection) turn bytes into calls of [`Core`] and back.
//!
//! Cost of a fetch: one hash lookup per metric, plus the agent's callback. Nothing is allocated once the
//! buffers have grown.

mod clients;
mod describe;
mod fetch;
mod names;
mod owners;
mod parts;
mod serve;
mod store;

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use crate::call::{Access, Attributes, ClientId, FetchStamp, Grants};
use crate::help::HelpTexts;
use crate::indom::Indom;
use crate::labels::LabelFn;
use crate::metric::Metric;
use crate::pmcd::PmcdEvent;
use crate::pmns::NameTree;
use crate::subtree::Subtree;
use pcp_model::{Desc, Inst, Timestamp};

use clients::Clients;
use owners::Owners;

pub(crate) use fetch::sendable;
pub(crate) use owners::MAX_SUBTREES;
pub(crate) use parts::{ClientEndFn, ForeignFn, GenerationFn, Parts, PmcdFns};
pub(crate) use serve::Serve;

/// How often names and labels have changed. The difference of two is what a client has to be notified of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generations {
    /// Grows when names come or go.
    pub names: u64,
    /// Changes when labels do.
    pub labels: u64,
}

impl Generations {
    /// Bit of a state change: labels.
    pub const LABELS: i32 = 8;
    /// Bit of a state change: names.
    pub const NAMES: i32 = 16;

    /// The state change bits that lead from `before` to `self`.
    pub(crate) fn changes_since(self, before: Generations) -> i32 {
        let labels = if self.labels == before.labels { 0 } else { Generations::LABELS };
        labels | if self.names == before.names { 0 } else { Generations::NAMES }
    }
}

/// A complete agent: its tables, its state, and the clients it knows. Made by [`Agent::build`](crate::Agent::build).
pub struct Core<S> {
    /// The agent's own state, which every callback is given.
    pub state: S,
    name: String,
    version: String,
    domain: u16,
    names: NameTree,
    help: HelpTexts,
    metrics: Vec<Metric<S>>,
    table: FxHashMap<u32, (usize, Desc)>,
    indoms: Vec<Indom<S>>,
    indom_table: HashMap<u32, usize>,
    subtrees: Vec<Dynamic<S>>,
    /// Which subtree a dynamic metric is in.
    dynamic: Owners,
    names_generation: u64,
    labels: Option<LabelFn<S>>,
    label_generation: Option<GenerationFn<S>>,
    client_end: Option<ClientEndFn<S>>,
    pmcd: Option<PmcdFns<S>>,
    foreign_instances: Option<ForeignFn<S>>,
    clients: Clients,
    grants: Grants,
    /// The fetch going on, or the last one.
    stamp: FetchStamp,
    /// Instances of the metric being fetched.
    scratch: Vec<Inst>,
}

/// A dynamic subtree and the framework's copy of its names.
struct Dynamic<S> {
    root: String,
    subtree: Box<dyn Subtree<S>>,
    /// Names relative to the root, and the generation they are of.
    names: NameTree,
    /// Names that are found but not listed.
    unlisted: NameTree,
    generation: Option<u64>,
}

impl<S> Core<S> {
    pub(crate) fn assemble(parts: Parts<S>) -> Core<S> {
        let subtrees = parts.subtrees.into_iter().map(|(root, subtree)| Dynamic {
            root,
            subtree,
            names: NameTree::default(),
            unlisted: NameTree::default(),
            generation: None,
        });
        let mut core = Core {
            state: parts.state,
            name: parts.name,
            version: parts.version,
            domain: parts.domain,
            names: parts.names,
            help: parts.help,
            metrics: parts.metrics,
            table: parts.table,
            indoms: parts.indoms,
            indom_table: parts.indom_table,
            subtrees: subtrees.collect(),
            dynamic: Owners::default(),
            names_generation: 0,
            labels: parts.labels,
            label_generation: parts.label_generation,
            client_end: parts.client_end,
            pmcd: parts.pmcd,
            foreign_instances: parts.foreign_instances,
            clients: Clients::default(),
            grants: parts.grants,
            stamp: FetchStamp::default(),
            scratch: Vec::new(),
        };
        // Before the first request, so that names of the start are no change that a client is notified of.
        core.refresh_names();
        core
    }

    /// The agent's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The agent's version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The agent's domain.
    pub fn domain(&self) -> u16 {
        self.domain
    }

    /// A new client context.
    pub fn client_open(&mut self) -> ClientId {
        self.clients.open()
    }

    /// A client context has ended. Nothing happens for one that is gone already.
    pub fn client_close(&mut self, client: ClientId) {
        if self.clients.close(client)
            && let Some(client_end) = &self.client_end
        {
            client_end(&mut self.state, client);
        }
    }

    /// Something has happened to the line to pmcd.
    pub(crate) fn pmcd_event(&mut self, event: PmcdEvent<'_>) {
        if let Some(pmcd) = &self.pmcd {
            (pmcd.event)(&mut self.state, event);
        }
    }

    /// The client of one of pmcd's slots asks for the first time.
    pub(crate) fn introduce(&mut self, client: ClientId, slot: i32) {
        if let Some(pmcd) = &self.pmcd
            && let Some(attributes) = self.clients.attributes(client)
        {
            (pmcd.event)(&mut self.state, PmcdEvent::Client { client, slot, attributes });
        }
    }

    /// An answer for pmcd is ready. Whether it is to be told when that leaves.
    pub(crate) fn begin_answer(&mut self) -> bool {
        self.pmcd.as_ref().is_some_and(|pmcd| (pmcd.answer)(&mut self.state))
    }

    /// A fetch request has come: what is fetched from now on is part of it. `time` is the time that derived
    /// values take for the time of their operands.
    pub fn begin_fetch(&mut self, time: Timestamp) {
        self.stamp = FetchStamp { number: self.stamp.number + 1, time };
    }

    /// Changes who may fetch and store.
    pub fn set_grants(&mut self, grants: Grants) {
        self.grants = grants;
    }

    /// Changes who may store into metrics: those that have one rule have the other from now on.
    pub fn replace_access(&mut self, rule: &Access, other: &Access) {
        for metric in self.metrics.iter_mut().filter(|metric| metric.access == *rule) {
            metric.access = other.clone();
        }
    }

    /// Whether there is anything that a client with these attributes may do.
    pub(crate) fn admits(&self, attributes: &Attributes) -> bool {
        let identity = attributes.identity();
        self.grants.fetch.includes(identity) || self.grants.store.includes(identity)
    }

    /// What is known about a client that is there.
    pub(crate) fn attributes_mut(&mut self, client: ClientId) -> Option<&mut Attributes> {
        self.clients.attributes_mut(client)
    }

    /// How many client contexts there are.
    pub fn clients(&self) -> usize {
        self.clients.count()
    }

    /// Brings the names of dynamic subtrees up to date and counts how often names and labels have changed so
    /// far. Costs one call per subtree when nothing has changed.
    pub fn generations(&mut self) -> Generations {
        self.refresh_names();
        let labels = self.label_generation.as_ref().map_or(0, |generation| generation(&self.state));
        Generations { names: self.names_generation, labels }
    }
}
