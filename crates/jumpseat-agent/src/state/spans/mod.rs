//! What spans tell: durations, failures and the like, for each source and span name.
//!
//! Fed with each batch before it goes into the log. Of a record only the flags are looked at, unless it begins or ends
//! a span, and not even these of a batch that has none; then its parameters are walked once. A span is known by its source and its id; its name is the event
//! type of its START. An END that comes before its START waits for it for `grace`.
//!
//! **Bounds:** `max_names` names (the registry gives ids to no more, the rest goes to `SOURCE/(other)`), 17 KiB
//! each at most; `max_open` open spans over all sources, about 64 bytes each, of which the oldest of the source with the most
//! gives way; [`MAX_EARLY`] waiting ENDs a source. Ids are hashed with a key of this process, so that nobody can choose
//! ones that collide.
//!
//! * `ids`: ids as numbers, by `hash`; `arrivals`: what waits for its other end, by id; `source`: that of one source.
//! * `stats`: the figures of a name, by `buckets`, in `cells` for those that there have been; `bounds`: the same as a cumulative histogram.
//! * `details`: what is kept of spans that have dimensions; `series`: the figures of these, by `exponential` buckets.
//! * `namer`: numbers for their names, on file. `service_map`: whose spans call whose; `objectives`: which part of them is good.
//!
//! **Cost:** a START and its END together are two hashes of the id, two look-ups in the table of open spans, one of the name and
//! two of its figures. No allocation once the tables have grown.

mod arrivals;
mod bounds;
mod buckets;
mod cells;
mod details;
mod exponential;
mod hash;
mod ids;
pub(crate) mod namer;
pub(crate) mod objectives;
pub(crate) mod series;
pub(crate) mod service_map;
mod source;
mod stats;
mod times;

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::by_inst::ByInst;
use super::fields::Fields;
use crate::config::{Config, DimensionsConfig, ObjectiveConfig, ServiceMapConfig, SpansConfig};
use crate::identity::{bucket_inst, bucket_of};
use jumpseat_source::registry::{SentName, WellKnown};
use jumpseat_source::telling::Telling;
use pcp_event::EventFlags;
use pcp_event::batch::{Batch, record_time};
use pcp_event::packed::{PackedParam, flags, params};
use pcp_model::Inst;
use pcp_pmda::Instances;

use buckets::{COARSE, coarse_end, coarse_name};
use details::{Details, Kept, Last, NONE, Rule, Rules, Seen, Which};
use ids::IdKeys;
use objectives::Objectives;
use series::{AllSeries, Ended, Of, When};
use service_map::{Role, ServiceMap, Side};
use source::{EarlyEnd, OpenSpan, Spelling};
use stats::SLICES;
use times::{between, nanos};

pub use source::{SourceSpans, SpansBySource};
pub use stats::Span;

/// Most ENDs of a source that wait for their START.
pub(crate) const MAX_EARLY: usize = 4096;
/// Most spellings of names that a source remembers; others cost a look-up each.
const MAX_SPELLINGS: usize = 4096;

/// The span names of all sources and their figures. What is open is with the sources ([`SpansBySource`]).
#[derive(Debug)]
pub struct Spans {
    /// Limits, as configured.
    pub limits: SpansConfig,
    /// The instance domain of spans.
    pub names: Instances,
    /// The instance domain of spans and buckets: those with spans in them.
    pub buckets: Instances,
    /// The instance domain of spans and upper bounds, as of when somebody asked for it last.
    pub bounds: Instances,
    /// The spans that it has.
    bounded: Vec<Inst>,
    /// Spans whose name has no instance at all, as its id could not be stored.
    pub untold: u64,
    by_inst: ByInst<Span>,
    /// Instances by source and name.
    by_name: FxHashMap<Inst, HashMap<SentName, Inst>>,
    /// Sources that have sent anything that begins or ends a span.
    sources: usize,
    /// Open spans, over all sources.
    open: usize,
    keys: IdKeys,
    domain: u16,
    started: Instant,
    /// The parameters that tell of a failure.
    telling: Telling,
    /// Spans by their dimensions, too.
    pub(crate) series: AllSeries,
    /// Which source's spans have which dimensions.
    rules: Rules,
    /// What is kept of spans that have any.
    kept: Kept,
    /// Whose spans call whose.
    pub(crate) services: ServiceMap,
    /// Which part of them is good.
    pub(crate) objectives: Objectives,
}

/// When a batch is taken in.
#[derive(Clone, Copy)]
struct Now {
    /// Nanoseconds since the start.
    nanos: u64,
    /// The slice of time.
    slice: u64,
    /// The half of the window.
    half: u64,
}

impl Spans {
    /// No spans yet, of sources of this agent's domain.
    pub fn new(domain: u16, limits: SpansConfig) -> Spans {
        Spans {
            limits,
            names: Instances::in_memory(),
            buckets: Instances::in_memory(),
            bounds: Instances::in_memory(),
            bounded: Vec::new(),
            untold: 0,
            by_inst: ByInst::default(),
            by_name: FxHashMap::default(),
            sources: 0,
            open: 0,
            keys: IdKeys::new(),
            domain,
            started: Instant::now(),
            telling: Telling::new(domain),
            series: AllSeries::new(),
            rules: Rules::default(),
            kept: Kept::default(),
            services: ServiceMap::new(ServiceMapConfig::default()),
            objectives: Objectives::new(Vec::new()),
        }
    }

    /// The same, of which those of some sources have dimensions.
    pub fn with_dimensions(domain: u16, limits: SpansConfig, dimensions: Vec<DimensionsConfig>) -> Spans {
        Spans { rules: Rules::new(domain, dimensions, false), ..Spans::new(domain, limits) }
    }

    /// No spans yet, and all that the configuration asks for.
    pub(crate) fn configured(domain: u16, config: &Config) -> Spans {
        let map = config.service_map.clone();
        Spans {
            rules: Rules::new(domain, config.dimensions.clone(), map.enabled),
            services: ServiceMap::new(map),
            objectives: Objectives::new(config.objective.clone()),
            ..Spans::new(domain, config.spans.clone())
        }
    }

    /// Another configuration. The series of sources with other dimensions go: their values mean something else now.
    pub(crate) fn configure(&mut self, config: &Config) {
        self.limits = config.spans.clone();
        self.services.config = config.service_map.clone();
        self.set_objectives(&config.objective);
        self.set_dimensions(&config.dimensions, config.service_map.enabled);
    }

    fn set_objectives(&mut self, configs: &[ObjectiveConfig]) {
        let now = self.since_start(Instant::now());
        self.objectives.set(configs, now);
        for (inst, name) in self.names.iter() {
            if let Some(span) = self.by_inst.get_mut(inst) {
                span.objectives = self.objectives.of(name);
            }
        }
    }

    fn set_dimensions(&mut self, dimensions: &[DimensionsConfig], looks_for_calls: bool) {
        let before: Vec<_> = self.by_name.keys().map(|source| (*source, self.rules.of(*source))).collect();
        let names: Vec<(Inst, String)> =
            self.source_names().map(|(source, name)| (source, name.to_owned())).collect();
        if !self.rules.set(dimensions, looks_for_calls, names.iter().map(|(source, name)| (*source, &**name)))
        {
            return;
        }
        for (source, before) in before {
            let fields = |rule: Option<Arc<Rule>>| {
                rule.filter(|rule| rule.has_series).map(|rule| rule.config.fields.clone())
            };
            if fields(before) != fields(self.rules.of(source)) {
                self.series.source_changed(source);
            }
        }
    }

    /// The names of sources that have spans.
    fn source_names(&self) -> impl Iterator<Item = (Inst, &str)> {
        self.by_name.keys().filter_map(|source| Some((*source, self.source_name(*source)?)))
    }

    /// The fields that are the dimensions of a source's spans.
    pub(crate) fn dimensions(&self, source: Inst) -> Option<Vec<String>> {
        Some(self.rules.of(source)?.config.fields.clone())
    }

    /// The name of a source that has spans.
    pub(crate) fn source_name(&self, source: Inst) -> Option<&str> {
        source_name(&self.by_name, &self.names, source)
    }

    /// Takes in the names that are on file by now.
    pub(crate) fn take_names(&mut self) {
        self.series.take_names();
        self.services.take_names();
        self.objectives.take_names();
        let now = self.now();
        self.objectives.save(now);
    }

    /// Has what is to be known in another life written, and waits until it is. At the end only.
    pub(crate) fn save_last(&mut self) {
        let now = self.now();
        self.objectives.save_last(now);
    }

    /// The generation of their labels: grows with each instance that comes or goes.
    pub(crate) fn label_generation(&self) -> u64 {
        let added = [&self.series.instances, &self.services.instances, &self.objectives.instances];
        let instances: usize = [&self.names, &self.buckets, &self.bounds]
            .into_iter()
            .chain(added)
            .map(|instances| instances.active().len())
            .sum();
        // What has gone counts for more than what there is less now: no generation comes again.
        instances as u64 + 2 * (self.series.gone + self.services.gone + self.objectives.gone)
    }

    /// Nanoseconds since the start.
    pub(crate) fn now(&self) -> u64 {
        self.since_start(Instant::now())
    }

    /// The number of the current half of the window.
    pub(crate) fn half(&self, now: Instant) -> u64 {
        let length = (self.limits.window.0.as_millis() as u64 / 2).max(1);
        now.saturating_duration_since(self.started).as_millis() as u64 / length
    }

    /// Takes in a name: that of its instance, and as it was sent.
    pub fn define(&mut self, id: Inst, source: Inst, name: &str, span: SentName) {
        if self.names.add_as(id, name).is_ok() {
            let objectives = self.objectives.of(name);
            let mut figures = Span::new(source, span.as_str().to_owned());
            figures.objectives = objectives;
            self.by_inst.insert(id, figures);
            let names = self.by_name.entry(source).or_default();
            if names.is_empty()
                && let Some((source_name, _)) = name.split_once('/')
            {
                self.rules.add(source, source_name);
            }
            names.insert(span, id);
        }
    }

    /// Takes out a name that has given its place to a newcomer. How many instances have gone.
    pub fn remove(&mut self, sources: &mut impl SpansBySource, inst: Inst) -> u64 {
        let Some(span) = self.by_inst.remove(inst) else { return 0 };
        self.names.forget(inst);
        let buckets = (0..COARSE).filter_map(|bucket| bucket_inst(inst, bucket));
        let buckets: Vec<Inst> = buckets.filter(|bucket| self.buckets.contains(*bucket)).collect();
        self.buckets.forget_all(&buckets);
        if let Some(names) = self.by_name.get_mut(&span.source) {
            names.retain(|_, known| *known != inst);
            if names.is_empty() {
                self.by_name.remove(&span.source);
                self.rules.remove(span.source);
            }
        }
        self.series.span_gone(inst);
        let bounds = self.forget_bounds(inst);
        if let Some(of) = sources.spans(span.source) {
            of.spellings.retain(|spelling| spelling.inst != inst);
        }
        (1 + buckets.len() + bounds) as u64
    }

    /// A source has given its place to a newcomer, and had these spans open.
    pub fn source_gone(&mut self, source: Inst, of: &SourceSpans) {
        self.services.source_gone(source);
        of.open.iter().for_each(|open| self.kept.give_back(open.kept));
        of.early.iter().for_each(|end| self.kept.give_back(end.kept));
        self.open -= of.open.len();
        self.sources -= 1;
    }

    /// The figures of a name.
    pub fn get(&self, inst: Inst) -> Option<&Span> {
        self.by_inst.get(inst)
    }

    /// The name of an instance of a bucket, and the bucket.
    pub fn of_bucket(&self, inst: Inst) -> Option<(&Span, usize)> {
        let (span, bucket) = bucket_of(inst);
        Some((self.get(span)?, bucket))
    }

    /// Where a bucket ends, in seconds; `None` for the last one, which does not.
    pub fn bucket_seconds(bucket: usize) -> Option<f64> {
        coarse_end(bucket).map(|micros| micros as f64 / 1e6)
    }

    /// Where a bucket ends, as text.
    pub fn bucket_name(bucket: usize) -> String {
        coarse_name(bucket)
    }

    /// Open spans, over all sources.
    pub fn open(&self) -> usize {
        self.open
    }

    /// The number of the current slice of time.
    pub fn slice(&self, now: Instant) -> u64 {
        let length = (self.limits.window.0.as_millis() as u64 / SLICES).max(1);
        now.saturating_duration_since(self.started).as_millis() as u64 / length
    }

    /// Takes in the records of a batch of a source.
    pub fn batch(&mut self, sources: &mut impl SpansBySource, source: Inst, batch: &Batch, fields: &Fields) {
        const MARKS: EventFlags = EventFlags::START.union(EventFlags::END);
        // Records were written by another thread: a look at each would be most of what the loop does for one.
        if !batch.may_have(MARKS) {
            return;
        }
        self.telling.look_up(fields);
        self.rules.look_up(fields);
        let rule = self.rules.of(source);
        if sources.spans(source).is_none() {
            sources.begin(source);
            self.sources += 1;
        }
        let Some(of) = sources.spans(source) else { return };
        // Out of its source for the time being, so that it need not be looked up for each record.
        let mut of = std::mem::take(of);
        let now = Instant::now();
        self.expire(&mut of, now);
        if self.services.config.enabled {
            self.services.expire(self.since_start(now));
        }
        let now = Now { nanos: self.since_start(now), slice: self.slice(now), half: self.half(now) };
        for record in batch.iter() {
            let flags = flags(record);
            if flags.intersects(MARKS) {
                self.record((sources, source), (&mut of, rule.as_deref()), flags, record, now);
            }
        }
        if let Some(place) = sources.spans(source) {
            *place = of;
        }
    }

    /// Gives up on what has waited for too long.
    pub fn tick(&mut self, sources: &mut impl SpansBySource, now: Instant) {
        sources.all().for_each(|(_, of)| self.expire(of, now));
        self.services.expire(self.since_start(now));
    }

    fn since_start(&self, now: Instant) -> u64 {
        nanos(now.saturating_duration_since(self.started))
    }

    fn expire(&mut self, of: &mut SourceSpans, now: Instant) {
        let now = self.since_start(now);
        let is_over = |arrived: u64, time: Duration| now.saturating_sub(arrived) > nanos(time);
        let (max_age, grace) = (self.limits.max_age.0, self.limits.grace.0);
        // Both are in the order of arrival, so the first that may stay ends the search.
        while of.early.oldest().is_some_and(|end| is_over(end.arrived, grace)) {
            if let Some(end) = of.early.pop_oldest() {
                self.orphan(of, end);
            }
        }
        while of.open.oldest().is_some_and(|open| is_over(open.arrived, max_age)) {
            if let Some(open) = of.open.pop_oldest() {
                self.give_up(open);
            }
        }
    }

    fn record(
        &mut self,
        sources: (&mut impl SpansBySource, Inst),
        (of, rule): (&mut SourceSpans, Option<&Rule>),
        flags: EventFlags,
        record: &[u8],
        now: Now,
    ) {
        let time = record_time(record);
        let mut params = params(record);
        let Some(id) = params.next().filter(|_| flags.contains(EventFlags::ID)) else {
            of.orphans += 1;
            return;
        };
        let sent_id = id;
        let id = self.keys.id(id);
        if flags.contains(EventFlags::START) {
            let is_type = |param: &PackedParam<'_>| param.pmid == WellKnown::Type.pmid(self.domain);
            let (mut name, mut kept) = (None, NONE);
            match rule {
                None => name = params.clone().find(is_type),
                Some(rule) => {
                    let mut seen = Seen::of(sent_id);
                    rule.see(&mut seen, params.clone(), |param| {
                        if name.is_none() && is_type(&param) {
                            name = Some(param);
                        }
                    });
                    kept = self.kept.keep(rule, &seen, Which::Start);
                }
            }
            let name = self.name(of, sources.1, name.and_then(PackedParam::text));
            let open = OpenSpan { name, kept, began: time, arrived: now.nanos };
            self.start(sources.0, (of, rule), id, open, now);
        }
        if flags.contains(EventFlags::END) {
            let end = EarlyEnd { ended: time, failed: false, kept: NONE, arrived: now.nanos };
            let Some(rule) = rule else {
                let failed = params.any(|param| self.telling.is_failure(param));
                return self.end((of, None), id, (EarlyEnd { failed, ..end }, None), now);
            };
            let (mut seen, mut failed) = (Seen::of(sent_id), false);
            rule.see(&mut seen, params, |param| failed |= self.telling.is_failure(param));
            self.end((of, Some(rule)), id, (EarlyEnd { failed, ..end }, Some(&seen)), now);
        }
    }

    fn start(
        &mut self,
        sources: &mut impl SpansBySource,
        (of, rule): (&mut SourceSpans, Option<&Rule>),
        id: u64,
        span: OpenSpan,
        now: Now,
    ) {
        // To be lent a copy each: what is lent is put in memory in parts, and the processor waits when it is read as a whole at once.
        let lent = || span;
        if of.early.len() > 0
            && let Some(end) = of.early.remove(id)
        {
            if end.ended >= span.began {
                return self.complete((of, rule), &lent(), (&end, None), now, |_| {});
            }
            // It ended an earlier span with this id, whose START never came.
            self.orphan(of, end);
        }
        let most = self.limits.max_open as usize;
        if self.open >= most {
            // An open span with the same id goes first, whose place this one takes.
            if let Some(old) = of.open.remove(id) {
                of.duplicates += 1;
                self.give_up(old);
            }
            if self.open >= most {
                self.make_room(sources, of);
            }
            if most == 0 {
                return self.give_up_unseen(&lent());
            }
        }
        if let Some(figures) = self.figures(span.name) {
            figures.active += 1;
        }
        self.open += 1;
        if let Some(old) = of.open.insert(id, span) {
            of.duplicates += 1;
            self.give_up(old);
        }
    }

    /// Gives up on the oldest open span of the source that has the most: of this one, if it has its share, so that one
    /// that floods never takes the others' spans.
    fn make_room(&mut self, sources: &mut impl SpansBySource, of: &mut SourceSpans) {
        let share = self.limits.max_open as usize / self.sources.max(1);
        let own = of.open.len();
        let others = sources.all().map(|(_, other)| other).max_by_key(|other| other.open.len());
        let victim = match others {
            Some(other) if (own < share || own == 0) && other.open.len() > own => other,
            _ => of,
        };
        if let Some(open) = victim.open.pop_oldest() {
            self.give_up(open);
        }
    }

    fn end(
        &mut self,
        (of, rule): (&mut SourceSpans, Option<&Rule>),
        id: u64,
        (end, seen): (EarlyEnd, Option<&Seen<'_>>),
        now: Now,
    ) {
        if let Some(open) = of.open.remove(id) {
            self.closed();
            return self.complete((of, rule), &open, (&end, seen), now, Span::closed);
        }
        // Its record goes, so what is asked for of it is kept.
        let kept = rule.zip(seen).map_or(NONE, |(rule, seen)| self.kept.keep(rule, seen, Which::End));
        let end = EarlyEnd { kept, ..end };
        if let Some(before) = of.early.insert(id, end) {
            self.orphan(of, before);
        }
        // The oldest gives way: its START is the least likely to come.
        if of.early.len() > MAX_EARLY
            && let Some(oldest) = of.early.pop_oldest()
        {
            self.orphan(of, oldest);
        }
    }

    /// An END that has no START.
    fn orphan(&mut self, of: &mut SourceSpans, end: EarlyEnd) {
        of.orphans += 1;
        self.kept.give_back(end.kept);
    }

    /// Counts a span whose both ends are there, and does this with the figures of its name. `seen`: the END, if its record is there still.
    #[inline]
    fn complete(
        &mut self,
        (of, rule): (&mut SourceSpans, Option<&Rule>),
        open: &OpenSpan,
        (end, seen): (&EarlyEnd, Option<&Seen<'_>>),
        now: Now,
        with: impl FnOnce(&mut Span),
    ) {
        let nanos = between(open.began, end.ended).unwrap_or_else(|| {
            of.backwards += 1;
            0
        });
        let Some((inst, span)) = open.name.and_then(|name| Some((name, self.by_inst.get_mut(name)?))) else {
            self.untold += 1;
            return self.release(open, end);
        };
        with(span);
        let source = span.source;
        for objective in &span.objectives {
            self.objectives.ended(*objective, nanos, end.failed, now.nanos);
        }
        if let Some(bucket) = span.ended(nanos, end.failed, now.slice) {
            self.new_bucket(inst, bucket);
        }
        if let Some(rule) = rule {
            let none = const { &Details::none() };
            let kept = |kept| self.kept.get(kept).unwrap_or(none);
            let (start, last) =
                (kept(open.kept), seen.map_or_else(|| Last::Kept(kept(end.kept)), Last::Seen));
            if rule.has_series {
                let span = Ended { nanos, failed: end.failed, at: end.ended, start, end: last };
                let of = Of { source, span: inst, names: &self.names, max: self.limits.max_series };
                self.series.ended(rule, &of, &span, When { nanos: now.nanos, half: now.half });
            }
            if self.services.config.enabled {
                let (own, parent) = last.calls(rule);
                let side = Side {
                    source,
                    own: start.own.or(own).map(NonZeroU64::get),
                    parent: start.parent.or(parent).map(NonZeroU64::get),
                    role: if start.role == Role::Any { last.role() } else { start.role },
                    began: open.began,
                    ended: end.ended,
                    nanos,
                    failed: end.failed,
                };
                let (by_name, names) = (&self.by_name, &self.names);
                self.services.ended(side, now.nanos, |source| source_name(by_name, names, source));
            }
        }
        self.release(open, end);
    }

    /// Nothing is kept of a span any more.
    #[inline]
    fn release(&mut self, open: &OpenSpan, end: &EarlyEnd) {
        self.kept.give_back(open.kept);
        self.kept.give_back(end.kept);
    }

    /// A bucket has a span in it, for the first time.
    #[cold]
    fn new_bucket(&mut self, inst: Inst, bucket: usize) {
        if let Some(id) = bucket_inst(inst, bucket)
            && let Some(name) = self.names.name(inst)
        {
            // Made of the span's own instance and name, so that it is as new and as lasting as that.
            let _ = self.buckets.add_as(id, &format!("{name}/{}", coarse_name(bucket)));
        }
    }

    fn figures(&mut self, name: Option<Inst>) -> Option<&mut Span> {
        self.by_inst.get_mut(name?)
    }

    /// One span less is open.
    fn closed(&mut self) {
        debug_assert!(self.open > 0, "each open span was counted");
        self.open -= 1;
    }

    /// An open span has gone without its END.
    fn give_up(&mut self, span: OpenSpan) {
        self.closed();
        self.kept.give_back(span.kept);
        if let Some(figures) = self.figures(span.name) {
            figures.closed();
            figures.unfinished += 1;
        }
    }

    fn give_up_unseen(&mut self, span: &OpenSpan) {
        self.kept.give_back(span.kept);
        if let Some(figures) = self.figures(span.name) {
            figures.unfinished += 1;
        }
    }

    /// The instance of a name, as an event has it.
    fn name(&self, of: &mut SourceSpans, source: Inst, name: Option<&[u8]>) -> Option<Inst> {
        let spelling = name.unwrap_or_default();
        let hash = self.keys.name(spelling);
        if let Some(hash) = hash
            && let Some(spelling) = of.spellings.find(hash, |spelling| spelling.hash == hash)
        {
            return Some(spelling.inst);
        }
        // The registry knows the name, or `(other)` when there were too many.
        let known = self.by_name.get(&source)?;
        let inst = *known.get(&SentName::of(name)).or_else(|| known.get(&SentName::Other))?;
        // A sender may write a name in endlessly many ways: those beyond cost a look-up each, and no memory.
        if let Some(hash) = hash
            && of.spellings.len() < MAX_SPELLINGS
        {
            of.spellings.insert_unique(hash, Spelling { hash, inst }, |spelling| spelling.hash);
        }
        Some(inst)
    }
}

/// The name of a source that has spans: it is part of those of their instances.
fn source_name<'a>(
    by_name: &FxHashMap<Inst, HashMap<SentName, Inst>>,
    names: &'a Instances,
    source: Inst,
) -> Option<&'a str> {
    let name = by_name.get(&source)?.values().find_map(|inst| names.name(*inst))?;
    name.split_once('/').map(|(source, _)| source)
}

#[cfg(test)]
mod tests;
