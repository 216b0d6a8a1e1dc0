//! What spans tell: durations, failures and the like, for each source and span name.
//!
//! Fed with each batch before it goes into the log. Of a record only the flags are looked at, unless it begins or ends
//! a span; then its parameters are walked once. A span is known by its source and its id; its name is the event
//! type of its START. An END that comes before its START waits for it for `grace`.
//!
//! **Bounds:** `max_names` names (the registry gives ids to no more, the rest goes to `SOURCE/(other)`), about
//! 17 KiB each; `max_open` open spans over all sources, about 64 bytes each, of which the oldest of the source with the most
//! gives way; [`MAX_EARLY`] waiting ENDs a source. Ids are hashed with a key of this process, so that nobody can choose
//! ones that collide.
//!
//! **Cost:** a START and its END together are two hashes of the id, two look-ups in the table of open spans, and one
//! of the name. No allocation once the tables have grown.

mod bounds;
mod buckets;
mod source;
mod stats;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Instant;

use rustc_hash::FxHashMap;

use super::fields::Fields;
use crate::config::SpansConfig;
use crate::identity::{bucket_inst, bucket_of};
use jumpseat_source::registry::{MAX_SENT_NAME, SentName, WellKnown};
use jumpseat_wire::severity;
use pcp_event::EventFlags;
use pcp_event::batch::{Batch, record_time};
use pcp_event::filter::FieldResolver;
use pcp_event::packed::{PackedParam, flags, params};
use pcp_model::{Inst, Pmid, ValueType};
use pcp_pmda::Instances;

use buckets::{COARSE, coarse_end, coarse_name};
use source::{EarlyEnd, OpenSpan};
use stats::SLICES;

pub use source::{SourceSpans, SpansBySource};
pub use stats::Span;

/// Most ENDs of a source that wait for their START.
pub(crate) const MAX_EARLY: usize = 4096;
/// Most spellings of names that a source remembers, and the longest; others cost a look-up each.
const MAX_SPELLINGS: usize = 4096;
const MAX_SPELLING: usize = MAX_SENT_NAME;

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
    by_inst: FxHashMap<Inst, Span>,
    /// Instances by source and name.
    by_name: FxHashMap<Inst, HashMap<SentName, Inst>>,
    /// Sources that have sent anything that begins or ends a span.
    sources: usize,
    /// Open spans, over all sources.
    open: usize,
    keys: RandomState,
    domain: u16,
    started: Instant,
    /// The parameters that tell of a failure, and the fields known when they were looked up.
    status: Vec<Pmid>,
    error: Vec<Pmid>,
    generation: Option<u64>,
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
            by_inst: FxHashMap::default(),
            by_name: FxHashMap::default(),
            sources: 0,
            open: 0,
            keys: RandomState::new(),
            domain,
            started: Instant::now(),
            status: Vec::new(),
            error: Vec::new(),
            generation: None,
        }
    }

    /// Takes in a name: that of its instance, and as it was sent.
    pub fn define(&mut self, id: Inst, source: Inst, name: &str, span: SentName) {
        if self.names.add_as(id, name).is_ok() {
            self.by_inst.insert(id, Span::new(source, span.as_str().to_owned()));
            self.by_name.entry(source).or_default().insert(span, id);
        }
    }

    /// Takes out a name that has given its place to a newcomer. How many instances have gone.
    pub fn remove(&mut self, sources: &mut impl SpansBySource, inst: Inst) -> u64 {
        let Some(span) = self.by_inst.remove(&inst) else { return 0 };
        self.names.forget(inst);
        let buckets = (0..COARSE).filter_map(|bucket| bucket_inst(inst, bucket));
        let buckets: Vec<Inst> = buckets.filter(|bucket| self.buckets.contains(*bucket)).collect();
        self.buckets.forget_all(&buckets);
        if let Some(names) = self.by_name.get_mut(&span.source) {
            names.retain(|_, known| *known != inst);
            if names.is_empty() {
                self.by_name.remove(&span.source);
            }
        }
        let bounds = self.forget_bounds(inst);
        if let Some(of) = sources.spans(span.source) {
            of.spellings.retain(|_, known| *known != inst);
        }
        (1 + buckets.len() + bounds) as u64
    }

    /// A source has given its place to a newcomer, and had these spans open.
    pub fn source_gone(&mut self, of: &SourceSpans) {
        self.open -= of.open.len();
        self.sources -= 1;
    }

    /// The figures of a name.
    pub fn get(&self, inst: Inst) -> Option<&Span> {
        self.by_inst.get(&inst)
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
        let mut now = None;
        for record in (0..batch.len()).filter_map(|at| batch.get(at)) {
            let flags = flags(record);
            if !flags.intersects(MARKS) {
                continue;
            }
            // Most batches of most sources have none: neither the clock is read for them nor anything looked up.
            let now = *now.get_or_insert_with(|| {
                self.look_up(fields);
                if sources.spans(source).is_none() {
                    sources.begin(source);
                    self.sources += 1;
                }
                let now = Instant::now();
                if let Some(of) = sources.spans(source) {
                    self.expire(of, now);
                }
                now
            });
            self.record(sources, source, flags, record, now);
        }
    }

    /// Gives up on what has waited for too long.
    pub fn tick(&mut self, sources: &mut impl SpansBySource, now: Instant) {
        sources.all().for_each(|(_, of)| self.expire(of, now));
    }

    fn expire(&mut self, of: &mut SourceSpans, now: Instant) {
        let (max_age, grace) = (self.limits.max_age.0, self.limits.grace.0);
        // Both are in the order of arrival, so the first that may stay ends the search.
        while of.early.front().is_some_and(|(_, end)| now.duration_since(end.arrived) > grace) {
            of.early.pop_front();
            of.orphans += 1;
        }
        while let Some((_, open)) = of.open.front()
            && now.duration_since(open.arrived) > max_age
        {
            let name = open.name;
            of.open.pop_front();
            self.closed();
            give_up(&mut self.by_inst, name);
        }
    }

    /// One span less is open.
    fn closed(&mut self) {
        debug_assert!(self.open > 0, "each open span was counted");
        self.open -= 1;
    }

    fn look_up(&mut self, fields: &Fields) {
        // Fields only ever come new, and seldom: the PMIDs are looked up again when one has.
        if self.generation == Some(fields.generation()) {
            return;
        }
        self.generation = Some(fields.generation());
        for (name, pmids) in [("status", &mut self.status), ("error", &mut self.error)] {
            pmids.clear();
            fields.resolve(name, &mut |pmid| pmids.push(pmid));
        }
    }

    fn record(
        &mut self,
        sources: &mut impl SpansBySource,
        source: Inst,
        flags: EventFlags,
        record: &[u8],
        now: Instant,
    ) {
        let time = record_time(record);
        let Some(of) = sources.spans(source) else { return };
        let Some(id) = params(record).next().filter(|_| flags.contains(EventFlags::ID)) else {
            of.orphans += 1;
            return;
        };
        // Keyed, so that nobody can choose ids that collide; ids of different types are different ids.
        let id = self.keys.hash_one((id.value_type, id.bytes));
        if flags.contains(EventFlags::START) {
            let name = params(record)
                .find(|param| param.pmid == WellKnown::Type.pmid(self.domain))
                .and_then(PackedParam::text);
            let name = self.name(of, source, name);
            self.start(sources, source, id, OpenSpan { name, began: time, arrived: now });
        }
        if flags.contains(EventFlags::END)
            && let Some(of) = sources.spans(source)
        {
            let failed = params(record).skip(1).any(|param| self.is_failure(param));
            self.end(of, id, EarlyEnd { ended: time, failed, arrived: now });
        }
    }

    fn start(&mut self, sources: &mut impl SpansBySource, source: Inst, id: u64, span: OpenSpan) {
        let Some(of) = sources.spans(source) else { return };
        if let Some(end) = of.early.remove(&id) {
            if end.ended >= span.began {
                return self.complete(of, &span, &EarlyEnd { arrived: span.arrived, ..end });
            }
            // It ended an earlier span with this id, whose START never came.
            of.orphans += 1;
        }
        if let Some(old) = of.open.remove(&id) {
            of.duplicates += 1;
            self.closed();
            give_up(&mut self.by_inst, old.name);
        }
        // After an open span with the same id has gone, whose place this one takes.
        if self.open >= self.limits.max_open as usize {
            self.make_room(sources, source);
        }
        if self.limits.max_open == 0 {
            return give_up_unseen(&mut self.by_inst, span.name);
        }
        if let Some(of) = sources.spans(source) {
            if let Some(figures) = span.name.and_then(|name| self.by_inst.get_mut(&name)) {
                figures.active += 1;
            }
            of.open.insert(id, span);
            self.open += 1;
        }
    }

    /// Gives up on the oldest open span of the source that has the most: of this one, if it has its share, so that one
    /// that floods never takes the others' spans.
    fn make_room(&mut self, sources: &mut impl SpansBySource, source: Inst) {
        let share = self.limits.max_open as usize / self.sources.max(1);
        let own = sources.spans(source).map_or(0, |of| of.open.len());
        let victim = match own >= share && own > 0 {
            true => sources.spans(source),
            false => sources.all().map(|(_, of)| of).max_by_key(|of| of.open.len()),
        };
        if let Some((_, open)) = victim.and_then(|of| of.open.pop_front()) {
            self.closed();
            give_up(&mut self.by_inst, open.name);
        }
    }

    fn end(&mut self, of: &mut SourceSpans, id: u64, end: EarlyEnd) {
        if let Some(open) = of.open.remove(&id) {
            self.closed();
            if let Some(span) = open.name.and_then(|name| self.by_inst.get_mut(&name)) {
                span.active -= 1;
            }
            return self.complete(of, &open, &end);
        }
        if of.early.remove(&id).is_some() {
            of.orphans += 1;
        }
        // The oldest gives way: its START is the least likely to come.
        if of.early.len() >= MAX_EARLY && of.early.pop_front().is_some() {
            of.orphans += 1;
        }
        of.early.insert(id, end);
    }

    /// Counts a span whose both ends are there. `end.arrived`: when the later of them came.
    fn complete(&mut self, of: &mut SourceSpans, open: &OpenSpan, end: &EarlyEnd) {
        let nanos = end.ended.as_nanos() - open.began.as_nanos();
        if nanos < 0 {
            of.backwards += 1;
        }
        let slice = self.slice(end.arrived);
        let Some((inst, span)) = open.name.and_then(|name| Some((name, self.by_inst.get_mut(&name)?))) else {
            self.untold += 1;
            return;
        };
        let nanos = u64::try_from(nanos.max(0)).unwrap_or(u64::MAX);
        if let Some(bucket) = span.ended(nanos, end.failed, slice)
            && let Some(id) = bucket_inst(inst, bucket)
            && let Some(name) = self.names.name(inst)
        {
            // Made of the span's own instance and name, so that it is as new and as lasting as that.
            let _ = self.buckets.add_as(id, &format!("{name}/{}", coarse_name(bucket)));
        }
    }

    /// The instance of a name, as an event has it.
    fn name(&self, of: &mut SourceSpans, source: Inst, name: Option<&[u8]>) -> Option<Inst> {
        let spelling = name.unwrap_or_default();
        if let Some(inst) = of.spellings.get(spelling) {
            return Some(*inst);
        }
        // The registry knows the name, or `(other)` when there were too many.
        let known = self.by_name.get(&source)?;
        let inst = *known.get(&SentName::of(name)).or_else(|| known.get(&SentName::Other))?;
        // A sender may write a name in endlessly many ways: those beyond cost a look-up each, and no memory.
        if of.spellings.len() < MAX_SPELLINGS && spelling.len() <= MAX_SPELLING {
            of.spellings.insert(spelling.into(), inst);
        }
        Some(inst)
    }

    /// Whether a parameter of an END says that the span has failed.
    fn is_failure(&self, param: PackedParam<'_>) -> bool {
        if param.pmid == WellKnown::Severity.pmid(self.domain) {
            let grave = &severity::WORDS[..=3];
            return param.text().and_then(severity::from_word).is_some_and(|word| grave.contains(&word));
        }
        if self.status.contains(&param.pmid) {
            return param.text().is_some_and(|text| text.eq_ignore_ascii_case(b"error"));
        }
        const INTEGERS: std::ops::RangeInclusive<u32> =
            ValueType::I32.code() as u32..=ValueType::U64.code() as u32;
        self.error.contains(&param.pmid)
            && match param.text() {
                Some(text) => text.eq_ignore_ascii_case(b"true"),
                None => INTEGERS.contains(&param.value_type) && param.bytes.iter().any(|byte| *byte != 0),
            }
    }
}

fn give_up(by_inst: &mut FxHashMap<Inst, Span>, name: Option<Inst>) {
    if let Some(span) = name.and_then(|name| by_inst.get_mut(&name)) {
        span.active -= 1;
        span.unfinished += 1;
    }
}

fn give_up_unseen(by_inst: &mut FxHashMap<Inst, Span>, name: Option<Inst>) {
    if let Some(span) = name.and_then(|name| by_inst.get_mut(&name)) {
        span.unfinished += 1;
    }
}

#[cfg(test)]
mod tests;
