//! What the agent knows: sources with their event logs, client streams, fields, limits.
//!
//! Owned by the event loop; no locks. A delivery is moved into its source's log in O(1) (batches are
//! not copied unless small); a fetch costs a hash look-up for each source plus the copy of what the
//! client has not read.
//!
//! **Architecture invariant:** nothing here knows a metric table, a kind of source, or how a configuration file is read;
//! those know the state.

mod by_inst;
pub(crate) mod contexts;
mod event_types;
pub(crate) mod fields;
mod pmcd;
mod refusals;
pub(crate) mod series;
mod shares;
pub(crate) mod source;
mod sources;
pub(crate) mod spans;
pub(crate) mod streams;
mod targets;
pub(crate) mod threads;
mod tokens;
mod turn;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jumpseat_source::rules::SourceRule;
use jumpseat_source::{Begun, Definition, Delivery, Inlet, Registry, Rules, Series, ledger};
use pcp_ids::IdsError;
use pcp_model::Inst;
use pcp_net::{Limiter, Restarts};
use pcp_pmda::{Access, ClientId, Grants, Stats};

use crate::config::{Config, EventsConfig};
use crate::confine::Trust;
use crate::derived::Derived;
use crate::restart::Restart;

use contexts::Contexts;
use event_types::EventTypes;
use fields::Fields;
use refusals::Refusals;
use series::SeriesValues;
use source::Source;
use sources::Sources;
use spans::Spans;
use streams::Streams;
use targets::Targets;
use threads::ThreadStats;
use tokens::Tokens;
pub(crate) use turn::FetchWork;
use turn::Turn;

/// Reads the configuration again and puts it into effect; tells whether all went well.
pub(crate) type Reload = Box<dyn FnMut(&mut State) -> bool + Send>;

/// Everything the metric tables read and write.
pub struct State {
    /// Where source threads hand over.
    inlet: Inlet,
    /// Shared with the source threads; only its counters are read here.
    pub(crate) registry: Arc<Registry>,
    /// The sources.
    pub(crate) sources: Sources,
    /// Events by source and type.
    pub(crate) types: EventTypes,
    /// What spans tell, by source and name. In memory of its own, as `derived` is: the start moves the state, on the stack.
    pub(crate) spans: Box<Spans>,
    /// Event fields.
    pub(crate) fields: Fields,
    /// Values of fields that went into [`WellKnown::Other`](jumpseat_source::registry::WellKnown::Other).
    pub(crate) fields_folded: u64,
    /// Event types, spans and buckets that have given their places to newcomers.
    instances_gone: u64,
    /// Records in memory that went with their sources.
    pub(crate) records_gone: u64,
    /// Cursors and filters of clients.
    pub(crate) streams: Streams,
    /// What of them outlives the agent.
    pub(crate) contexts: Contexts,
    /// Metrics that others push.
    pub(crate) series: SeriesValues,
    /// Where their limits are put into effect, once there are receivers.
    pub(crate) series_limits: Option<Series>,
    /// Targets that are scraped.
    pub(crate) targets: Targets,
    /// The names of receivers' tokens.
    pub(crate) tokens: Tokens,
    /// Metrics computed from others.
    pub(crate) derived: Box<Derived>,
    /// How often records were asked for by somebody who may not read them.
    pub(crate) reads_refused: u64,
    /// The source that a fetch of records serves first: one that the answer before had no room for.
    pub(crate) first_served: Inst,
    /// What filters may still do for the fetch that is being answered.
    pub(crate) fetch_work: FetchWork,
    /// What deliveries may still do before others have their turn.
    turn: Turn,
    /// Limits, as configured or stored.
    pub(crate) limits: EventsConfig,
    /// What reads the configuration again, if there is one.
    pub(crate) reload: Option<Reload>,
    /// To the moment at which the event loop takes what comes.
    pub(crate) starting: Option<Begun>,
    /// What ends the agent for the next one.
    pub(crate) restart: Option<Restart>,
    /// Who may fetch and store from now on, and change the control metrics, until the event loop has taken it.
    pub(crate) grants: Option<(Grants, Access)>,
    /// What the event loop counts, once there is one.
    pub(crate) load: Arc<Stats>,
    /// What the source threads count.
    pub(crate) threads: ThreadStats,
    /// How often source threads had to be started again.
    pub(crate) restarts: Arc<Restarts>,
    /// What the process has kept of its rights.
    pub(crate) trust: Trust,
    /// When the agent started.
    pub(crate) started: Instant,
    /// Within it sequence numbers of records mean the same that are in memory only.
    pub(crate) epoch: u64,
    /// Holds back messages about what clients store and is refused: nobody may fill the log with them.
    pub(crate) refused_stores: Limiter,
    /// What became of the last ones, for those who ask.
    pub(crate) refusals: Refusals,
}

impl State {
    /// The state at start-up: what the registry knows already, and nothing received. `dir`: where the identifiers are
    /// kept that are not the registry's; `None` keeps them in memory.
    ///
    /// # Errors
    /// The file with the numbers of derived metrics.
    pub(crate) fn open(
        config: &Config,
        registry: Arc<Registry>,
        inlet: Inlet,
        dir: Option<&Path>,
    ) -> Result<State, IdsError> {
        let domain = registry.domain();
        registry.tail().configure(config.tail.clone());
        let mut state = State {
            inlet,
            registry,
            sources: Sources::new(Rules(config.source.clone())),
            types: EventTypes::new(),
            spans: Box::new(Spans::configured(domain, config)),
            fields: Fields::default(),
            fields_folded: 0,
            instances_gone: 0,
            records_gone: 0,
            streams: Streams::default(),
            contexts: Contexts::default(),
            series: SeriesValues::default(),
            series_limits: None,
            targets: Targets::default(),
            tokens: Tokens::default(),
            derived: Box::new(Derived::open(config.derived.clone(), dir, domain)?),
            reads_refused: 0,
            first_served: 0,
            fetch_work: FetchWork::default(),
            turn: Turn::new(),
            limits: config.events.clone(),
            reload: None,
            starting: None,
            restart: None,
            grants: None,
            load: Arc::default(),
            threads: ThreadStats::default(),
            restarts: Arc::default(),
            trust: Trust::default(),
            started: Instant::now(),
            epoch: new_epoch(),
            refused_stores: Limiter::new(10, Duration::from_secs(10)),
            refusals: Refusals::default(),
        };
        while state.drain() {}
        Ok(state)
    }

    /// Takes what the source threads have handed over by now. Never blocks, and ends even if they hand over faster than
    /// this takes: each hand-over wakes the event loop again. Whether there is more that could not be taken in one turn.
    pub(crate) fn drain(&mut self) -> bool {
        let mut definitions = Vec::new();
        self.turn = Turn::new();
        self.series.take_one();
        // At least one round, for definitions that came alone.
        for _ in 0..=self.inlet.waiting() {
            if self.turn.is_over() {
                self.spans.take_names();
                return true;
            }
            let delivery = self.inlet.take(|definition| definitions.push(definition));
            for definition in definitions.drain(..) {
                self.define(definition);
            }
            match delivery {
                Some(delivery) => self.deliver(delivery),
                None => break,
            }
        }
        self.spans.take_names();
        let turn = &self.turn;
        self.series.drain(|| turn.is_over())
    }

    /// Takes nothing more of the source threads, which lose nothing to it: what is in the log is the next agent's. What objectives know
    /// is, too.
    pub(crate) fn close(&mut self) {
        self.inlet.close();
        self.spans.save_last();
    }

    /// Forgets a client.
    pub(crate) fn client_end(&mut self, client: ClientId) {
        self.streams.end(client, &mut self.sources);
        self.derived.client_end(client);
    }

    /// Puts another configuration into effect, as far as it can change while the agent runs. Limits and settings of
    /// sources that were stored give way. Definitions of derived metrics are not read yet.
    pub(crate) fn configure(&mut self, config: Config) {
        self.spans.configure(&config);
        self.derived.configure(config.derived);
        self.registry.set_recycle_after(config.events.recycle_after.0);
        self.set_limits(config.events);
        self.registry.tail().configure(config.tail);
        self.registry.set_rules(Rules(config.source.clone()));
        self.sources.set_rules(Rules(config.source), &self.limits);
        for (_, source) in self.sources.iter_mut() {
            source.named = self.registry.is_named(&source.name);
        }
        self.share_budget();
        if let Some(series) = &self.series_limits {
            series.configure(config.series);
        }
    }

    /// Puts what clients have stored for a source into effect, on top of what the configuration says.
    pub(crate) fn store_rule(&mut self, inst: Inst, stored: SourceRule) {
        self.sources.store_rule(inst, stored, &self.limits);
    }

    /// Shares the memory for records out anew, after its limits have changed.
    pub(crate) fn share_budget(&mut self) {
        self.sources.share_budget(&self.limits);
    }

    /// Changes how many records `jumpseat.event.recent` holds.
    pub(crate) fn set_recent(&mut self, number: u32) {
        self.limits.recent = number;
        for (_, source) in self.sources.iter_mut() {
            source.log.set_recent(number as usize);
        }
    }

    /// Puts limits into effect, but for the numbers of names: those hold from start to end.
    pub(crate) fn set_limits(&mut self, limits: EventsConfig) {
        // The registry and the threads have sized their tables by these at the start.
        let EventsConfig { max_sources, max_types, .. } = self.limits;
        self.limits = EventsConfig { max_sources, max_types, ..limits };
        self.share_budget();
        self.set_recent(self.limits.recent);
    }

    /// Changes whenever labels do: when a source, an event type or a stream is new, or a source reads elsewhere.
    pub(crate) fn label_generation(&self) -> u64 {
        // What has gone counts for more than what there is less now: no generation comes again.
        let named = self.sources.label_generation() + self.types.label_generation();
        named
            + self.spans.label_generation()
            + 2 * self.instances_gone
            + self.streams.label_generation()
            + self.series.label_generation()
            + self.targets.label_generation()
    }

    /// Takes over which targets are scraped now.
    pub(crate) fn refresh_targets(&mut self) {
        self.targets.refresh(&self.threads);
    }

    /// Takes in a name that the registry has announced.
    pub(crate) fn define(&mut self, definition: Definition) {
        match definition {
            Definition::Source { id, name, gate } => {
                let logs = self.registry.logs().map(|logs| (logs, id));
                let mut source = Source::new(name.into(), &self.limits, self.registry.domain(), gate, logs);
                source.named = self.registry.is_named(&source.name);
                if let Some(known) = self.registry.described(id) {
                    source.sender.remember(known);
                }
                if let Some(source) = self.sources.add(id, source, &self.limits) {
                    self.streams.new_source(id, source, &self.fields);
                }
            }
            Definition::EventType { id, source, name, event_type } => {
                let disk = self.sources.get(source).and_then(|source| source.disk.as_ref());
                let count = disk.map_or(0, |disk| ledger::events(disk.begun().1, id));
                self.types.add(id, &name, source, event_type, count);
            }
            Definition::SourceGone { id } => self.source_gone(id),
            Definition::EventTypeGone { id } => self.instances_gone += self.types.remove(id),
            Definition::SpanGone { id } => {
                self.instances_gone += self.spans.remove(&mut self.sources, id);
            }
            Definition::Span { id, source, name, span } => self.spans.define(id, source, &name, span),
            Definition::Field { pmid, leaf, field, value_type } => {
                self.fields.define(pmid, leaf, field, value_type);
            }
        }
    }

    /// A source has given its place to a newcomer: what was left of its records goes with it, and is counted. Those on disk
    /// the registry has counted.
    fn source_gone(&mut self, inst: Inst) {
        let Some(source) = self.sources.remove(inst) else { return };
        if let Some(spans) = source.spans.as_deref() {
            self.spans.source_gone(inst, spans);
        }
        if source.disk.is_none() {
            self.records_gone += source.log.stats().records as u64;
        }
        self.streams.source_gone(inst);
        self.share_budget();
    }

    fn deliver(&mut self, mut delivery: Delivery) {
        let inst = delivery.source;
        // Before the records: their share of the memory must be theirs when they come in.
        self.sources.make_room(inst, delivery.batch.bytes().len(), &self.limits);
        self.sources.update_sender(&mut delivery);
        let Some(source) = self.sources.get_mut(inst) else {
            // The registry announces a source before its first delivery.
            tracing::error!("a delivery for source {inst} that was never announced");
            return;
        };
        // Before records with new fields come in, the filters must know those fields.
        source.log.bind_fields(&self.fields);
        source.log.set_work(self.turn.work);
        if let Some(first) = delivery.logged {
            source.log.skip_to(first);
        }
        // A loss goes into the log where it happened: before the batch.
        source.enter(&delivery);
        self.sources.activate(inst);
        self.fields_folded += delivery.tallies.folded;
        self.types.count(&delivery.tallies.types);
        // Spans look at the records while they are still in the batch: the log takes it as a whole, and may drop some
        // of them at once. Room for open spans is made at the cost of any source, so all are needed, not only this.
        self.spans.batch(&mut self.sources, inst, &delivery.batch, &self.fields);
        if let Some(source) = self.sources.get_mut(inst) {
            let rest = source.log.absorb(delivery.batch);
            if let Some(home) = delivery.home {
                home.give_back(rest);
            }
            // The others' evictions take from the same: there may be many logs, and there is one turn.
            self.turn.work = source.log.work();
        }
    }
}

/// No other agent on this machine has had it, unless the clock was put back to the nanosecond.
fn new_epoch() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
