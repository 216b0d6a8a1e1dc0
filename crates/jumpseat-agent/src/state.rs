//! What the agent knows: sources with their event logs, client streams, fields, limits.
//!
//! Owned by the event loop; no locks. A delivery is moved into its source's log in O(1) (batches are
//! not copied unless small); a fetch costs a hash look-up for each source plus the copy of what the
//! client has not read.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use jumpseat_source::delivery::Peer;
use jumpseat_source::follow::FollowStats;
use jumpseat_source::origin::Labels;
use jumpseat_source::registry::WellKnown;
use jumpseat_source::report::Limiter;
use jumpseat_source::rules::SourceRule;
use jumpseat_source::socket::SocketStats;
use jumpseat_source::tracefs::KernelStats;
use jumpseat_source::{Cause, Definition, Delivery, Gate, Inlet, Origin, OtlpStats, Reason, Registry, Rules};
use pcp_event::log::{EventLog, LogConfig};
use pcp_ids::IdsError;
use pcp_model::{Inst, Timestamp};
use pcp_pmda::{ClientId, Instances, Stats};

use super::config::{Config, DerivedConfig, EventsConfig};
use super::derived::{Counts, Derived};
use super::fields::Fields;
use super::spans::Spans;
use super::streams::Streams;

/// Everything the metric tables read and write.
pub struct State {
    /// Where source threads hand over.
    inlet: Inlet,
    /// Shared with the source threads; only its counters are read here.
    pub registry: Arc<Registry>,
    /// The sources' instance domain.
    pub source_names: Instances,
    /// Event logs and accounting, by source.
    pub sources: BTreeMap<Inst, Source>,
    /// How many of them have sent something.
    active_sources: usize,
    /// How often one of them has told where it reads, or what else there is for its labels.
    origins: u64,
    /// What the configuration says of single sources.
    rules: Rules,
    /// The instance domain of (source, reason) pairs.
    pub reason_names: Instances,
    /// The instance domain of (source, event type) pairs.
    pub type_names: Instances,
    /// Events of each (source, event type) pair, by its instance.
    pub event_types: FxHashMap<Inst, EventType>,
    /// What spans tell.
    pub spans: Spans,
    /// Event fields.
    pub fields: Fields,
    /// Values of fields that went into [`WellKnown::Other`].
    pub fields_folded: u64,
    /// Cursors and filters of clients.
    pub streams: Streams,
    /// Metrics computed from others.
    pub derived: Derived,
    /// The source that a fetch of records serves first: one that the answer before had no room for.
    pub first_served: Inst,
    /// Limits, as configured or stored.
    pub limits: EventsConfig,
    /// The configuration file, and what it says about derived metrics.
    pub configuration: (Option<PathBuf>, DerivedConfig),
    /// What the event loop counts.
    pub load: Arc<Stats>,
    /// What each ingest socket counts.
    pub sockets: Vec<Arc<SocketStats>>,
    /// What the OTLP source counts.
    pub otlp: Arc<OtlpStats>,
    /// What the thread counts that follows files and commands, where there is one.
    pub follow: Option<Arc<FollowStats>>,
    /// What each kernel source tells of itself.
    pub kernels: Vec<Arc<KernelStats>>,
    /// When the agent started.
    pub started: Instant,
    /// Holds back messages about filters that clients store: nobody may fill the log with them.
    pub refused_filters: Limiter,
}

/// One event type of one source.
#[derive(Debug)]
pub struct EventType {
    /// The source's instance.
    pub source: Inst,
    /// The type as events carry it.
    pub event_type: String,
    /// Events so far.
    pub count: u64,
}

/// One tracing source.
pub struct Source {
    /// The records.
    pub log: EventLog,
    /// Events sent, those lost before the log included.
    pub received: u64,
    /// Events lost before the log.
    pub missed: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Events refused as malformed.
    pub malformed: u64,
    /// Events refused because of their size.
    pub oversized: u64,
    /// Events refused, by reason.
    pub rejected: [u64; Reason::COUNT],
    /// Events dropped because somebody asked for it.
    pub dropped: [u64; Cause::COUNT],
    /// Events with a time too far ahead.
    pub future: u64,
    /// Events with a time too far behind.
    pub past: u64,
    /// Events that came too late to be put in order.
    pub late: u64,
    /// Events with something cut.
    pub truncated: u64,
    /// Records delivered, over all streams that ever were.
    pub delivered: u64,
    /// Time of the newest event.
    pub last_time: Option<Timestamp>,
    /// Who sent last.
    pub peer: Option<Peer>,
    /// Where it reads, once it has told.
    pub origin: Option<Box<Origin>>,
    /// What else its sender says of itself, for labels.
    pub labels: Option<Box<Labels>>,
    /// What it lets through.
    pub gate: Arc<Gate>,
    /// What clients have stored, in place of what the configuration says.
    pub stored: SourceRule,
    /// Most memory for its records; 0: no limit of its own.
    pub budget: u64,
    /// Something has come from it since the start.
    active: bool,
}

/// Most reasons that input can be refused for, now and ever: instances of reasons depend on it.
const MAX_REASONS: Inst = 32;
const _: () = assert!(Reason::COUNT <= MAX_REASONS as usize);

/// The instance of a source and a reason; the first ones of so many sources have one.
fn reason_inst(source: Inst, reason: Reason) -> Option<Inst> {
    source.checked_mul(MAX_REASONS)?.checked_add(reason as Inst)
}

/// The source and the reason of an instance.
pub fn reason_of(inst: Inst) -> (Inst, Option<Reason>) {
    (inst / MAX_REASONS, Reason::ALL.get((inst % MAX_REASONS) as usize).copied())
}

impl Source {
    /// How it is: `disabled`, `active`, or `silent` if nothing has come from it since the start.
    pub fn phase(&self) -> &'static str {
        match (self.gate.settings().1.enabled, self.active) {
            (false, _) => "disabled",
            (true, true) => "active",
            (true, false) => "silent",
        }
    }

    fn new(limits: &EventsConfig, budget: usize, domain: u16, gate: Arc<Gate>) -> Source {
        Source {
            log: EventLog::new(LogConfig {
                budget,
                recent: limits.recent as usize,
                missed_pmid: WellKnown::Missed.pmid(domain),
            }),
            received: 0,
            missed: 0,
            bytes: 0,
            malformed: 0,
            oversized: 0,
            rejected: [0; Reason::COUNT],
            dropped: [0; Cause::COUNT],
            future: 0,
            past: 0,
            late: 0,
            truncated: 0,
            delivered: 0,
            last_time: None,
            peer: None,
            origin: None,
            labels: None,
            gate,
            stored: SourceRule::default(),
            budget: 0,
            active: false,
        }
    }
}

impl State {
    /// The state at start-up: what the registry knows already, and nothing received.
    pub fn new(registry: Arc<Registry>, inlet: Inlet, limits: EventsConfig) -> State {
        let mut state = State {
            inlet,
            spans: Spans::new(registry.domain()),
            registry,
            source_names: Instances::in_memory(),
            sources: BTreeMap::new(),
            active_sources: 0,
            origins: 0,
            rules: Rules::default(),
            reason_names: Instances::in_memory(),
            type_names: Instances::in_memory(),
            event_types: FxHashMap::default(),
            fields: Fields::default(),
            fields_folded: 0,
            streams: Streams::default(),
            derived: Derived::default(),
            first_served: 0,
            limits,
            configuration: (None, DerivedConfig::default()),
            load: Arc::default(),
            sockets: Vec::new(),
            otlp: Arc::default(),
            follow: None,
            kernels: Vec::new(),
            started: Instant::now(),
            refused_filters: Limiter::new(3, Duration::from_secs(10)),
        };
        state.drain();
        state
    }

    /// Takes what the source threads have handed over by now. Never blocks, and ends even if they hand
    /// over faster than this takes: each hand-over wakes the event loop again.
    pub fn drain(&mut self) {
        let mut definitions = Vec::new();
        // At least one round, for definitions that came alone.
        for _ in 0..=self.inlet.waiting() {
            let delivery = self.inlet.take(|definition| definitions.push(definition));
            for definition in definitions.drain(..) {
                self.define(definition);
            }
            match delivery {
                Some(delivery) => self.deliver(delivery),
                None => break,
            }
        }
    }

    /// Forgets a client.
    pub fn client_end(&mut self, client: ClientId) {
        self.streams.end(client, &mut self.sources);
        self.derived.client_end(client);
    }

    /// Reads the configuration again, where there is one, and the files with derived metrics. Limits and settings of
    /// sources that were stored give way to configured ones. Tells the log what happened and whether all went well;
    /// what cannot be read or is wrong changes nothing.
    pub fn reload(&mut self) -> bool {
        if let Some(path) = self.configuration.0.clone() {
            match Config::load(&path) {
                Ok(config) => {
                    self.configuration.1 = config.derived;
                    self.set_limits(config.events);
                    self.set_rules(Rules(config.source));
                    self.spans.limits = config.spans;
                    tracing::info!("{}: read again", path.display());
                }
                Err(error) => {
                    tracing::error!("{error}; nothing has changed");
                    return false;
                }
            }
        }
        self.read_derived()
    }

    /// Reads the files with derived metrics.
    pub fn read_derived(&mut self) -> bool {
        match self.derived.reload(&self.configuration.1) {
            Ok(()) => {
                let Counts { usable, waiting, refused } = self.derived.counts();
                let waiting = match waiting {
                    0 => String::new(),
                    number => format!(", {number} waiting for news of their operands"),
                };
                tracing::info!("derived metrics: {usable} usable, {refused} refused{waiting}");
                true
            }
            Err(error) => {
                tracing::error!("derived metrics: {error}; nothing has changed");
                false
            }
        }
    }

    /// Holds each source to its budget, or to an equal share of the total if that is less. Those that have
    /// sent nothing since the start, only known from earlier runs, take no share.
    pub fn share_budget(&mut self) {
        let budget = self.budget();
        for source in self.sources.values_mut() {
            let own = if source.budget == 0 { usize::MAX } else { source.budget as usize };
            source.log.set_budget(budget.min(own));
        }
    }

    /// Puts what the configuration says of single sources into effect. What was stored gives way.
    pub fn set_rules(&mut self, rules: Rules) {
        self.registry.set_rules(rules.clone());
        self.rules = rules;
        let all: Vec<Inst> = self.sources.keys().copied().collect();
        for inst in all {
            self.store_rule(inst, SourceRule::default());
        }
    }

    /// Puts what clients have stored for a source into effect, on top of what the configuration says.
    pub fn store_rule(&mut self, inst: Inst, stored: SourceRule) {
        let Some(source) = self.sources.get_mut(&inst) else { return };
        let (mut settings, mut budget) = self.rules.of(self.source_names.name(inst).unwrap_or_default());
        stored.apply(&mut settings, &mut budget);
        source.stored = stored;
        source.gate.set(settings);
        source.budget = budget;
        self.share_budget();
    }

    /// Changes how many records `jumpseat.event.recent` holds.
    pub fn set_recent(&mut self, number: u32) {
        self.limits.recent = number;
        for source in self.sources.values_mut() {
            source.log.set_recent(number as usize);
        }
    }

    /// Puts limits into effect, but for the numbers of names: those hold from start to end.
    pub fn set_limits(&mut self, limits: EventsConfig) {
        let EventsConfig { max_sources, max_types, .. } = self.limits;
        self.limits = EventsConfig { max_sources, max_types, ..limits };
        self.share_budget();
        self.set_recent(self.limits.recent);
    }

    /// Changes whenever labels do: when a source, an event type or a stream is new, or a source reads elsewhere.
    pub fn label_generation(&self) -> u64 {
        (self.sources.len() + self.event_types.len() + self.reason_names.active().len()) as u64
            + (self.spans.names.active().len() + self.spans.buckets.active().len()) as u64
            + self.streams.opened()
            + self.origins
    }

    /// Memory of all event logs, in bytes.
    pub fn event_memory(&self) -> usize {
        self.sources.values().map(|source| source.log.stats().bytes).sum()
    }

    fn budget(&self) -> usize {
        let share = self.limits.total_budget.0 / self.active_sources.max(1) as u64;
        share.min(self.limits.source_budget.0) as usize
    }

    pub(super) fn define(&mut self, definition: Definition) {
        match definition {
            Definition::Source { id, name, gate } => {
                if announced(self.source_names.add_as(id, &name), &name) {
                    let domain = self.registry.domain();
                    let mut source = Source::new(&self.limits, self.budget(), domain, gate);
                    self.streams.new_source(id, &name, &mut source.log, &self.fields);
                    self.sources.insert(id, source);
                    // The rules may have changed since its gate was made.
                    self.store_rule(id, SourceRule::default());
                }
            }
            Definition::EventType { id, source, name, event_type } => {
                if announced(self.type_names.add_as(id, &name), &name) {
                    self.event_types.insert(id, EventType { source, event_type, count: 0 });
                }
            }
            Definition::Span { id, source, name, span } => self.spans.define(id, source, &name, span),
            Definition::Field { pmid, leaf, field, value_type } => {
                self.fields.define(pmid, leaf, field, value_type);
            }
        }
    }

    fn deliver(&mut self, delivery: Delivery) {
        if let Some(source) = self.sources.get_mut(&delivery.source)
            && !source.active
        {
            source.active = true;
            self.active_sources += 1;
            let name = self.source_names.name(delivery.source).unwrap_or_default();
            for (reason, inst) in Reason::ALL.map(|reason| (reason, reason_inst(delivery.source, reason))) {
                let Some(inst) = inst else { continue };
                announced(self.reason_names.add_as(inst, &format!("{name}/{}", reason.word())), name);
            }
            self.share_budget();
        }
        let Some(source) = self.sources.get_mut(&delivery.source) else {
            // The registry announces a source before its first delivery.
            tracing::error!("a delivery for source {} that was never announced", delivery.source);
            return;
        };
        // Before records with new fields come in, the filters must know those fields.
        source.log.bind_fields(&self.fields);
        let tallies = &delivery.tallies;
        let mut lost_here = 0;
        if let Some(loss) = delivery.missed {
            // What a sender says it lost itself was sent, though it never arrived here. Not all of an absurd
            // number is believed, so that the log's count is the one that balances.
            let believed = source.log.append_missed(loss.count, loss.time);
            source.missed += believed;
            source.received += believed;
            lost_here = loss.received;
        }
        source.received += tallies.received - lost_here;
        source.bytes += tallies.bytes;
        source.truncated += tallies.truncated;
        source.future += tallies.future;
        source.past += tallies.past;
        source.late += tallies.late;
        add(&mut source.dropped, &tallies.dropped);
        add(&mut source.rejected, &tallies.rejected);
        self.fields_folded += tallies.folded;
        for (reason, count) in Reason::ALL.iter().zip(tallies.rejected) {
            match reason {
                Reason::OversizeLine | Reason::OversizeField => source.oversized += count,
                _ => source.malformed += count,
            }
        }
        for &(inst, count) in &tallies.types {
            if let Some(event_type) = self.event_types.get_mut(&inst) {
                event_type.count += count;
            }
        }
        source.peer = delivery.peer.or(source.peer);
        if delivery.origin.is_some() && delivery.origin != source.origin {
            source.origin = delivery.origin;
            self.origins += 1;
        }
        if delivery.labels.is_some() && delivery.labels != source.labels {
            source.labels = delivery.labels;
            self.origins += 1;
        }
        let name = self.source_names.name(delivery.source).unwrap_or_default();
        self.spans.batch(delivery.source, name, &delivery.batch, &self.fields);
        source.last_time = delivery.batch.last_time().max(source.last_time);
        source.log.append(delivery.batch);
    }
}

fn add<const N: usize>(sums: &mut [u64; N], news: &[u64; N]) {
    sums.iter_mut().zip(news).for_each(|(sum, new)| *sum += new);
}

/// Whether an instance that the registry announced is new here.
fn announced(added: Result<(), IdsError>, name: &str) -> bool {
    if let Err(error) = &added {
        tracing::error!("instance {name}: {error}");
    }
    added.is_ok()
}
