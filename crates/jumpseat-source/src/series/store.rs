//! [`Series`]: what receivers share, and [`Session`]: what one of them does with it at a time.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pcp_ids::{IdsError, Settling};
use pcp_model::Inst;
use rustc_hash::FxHashMap;

use super::batch::{self, Batch, Batches, Defined, Gone, MetricMeaning, Outgoing, Point};
use super::config::SeriesConfig;
use super::identity::{InstanceIds, MetricIds};
use super::labels::{LabelText, Labels};
use super::metric::Metric;
use super::{name, unit};
use crate::lanes::Wake;

/// Instances that may ever have an id, for each series there may be at a time: ids on file are for ever.
const EVER: usize = 16;
/// Series that are looked at in each session whether they are to be forgotten, and once a second.
const SWEEP: usize = 64;
const TIDY: usize = 65_536;
/// Memory of a series besides texts: a slot here and in the event loop, its place in two tables, and what a receiver remembers of it
/// (the bytes it comes in, times, handles).
const SLOT: usize = 480;
/// Longest help that is kept, in bytes.
const MAX_HELP: usize = 1024;
/// The label of the instance that stands for all beyond a limit, as OpenTelemetry has it.
const OVERFLOW: &str = "otel.metric.overflow";

/// The handle of a metric, for as long as the agent runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MetricId(u32);

/// The handle of a series, until it is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeriesId {
    slot: u32,
    generation: u32,
}

/// Why there is no such metric or series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The name of a metric.
    #[error("a name that no metric can have: 1 to 255 bytes without control characters")]
    Name,
    /// The labels.
    #[error("labels of more than 4 KiB, or more than 64 of them")]
    Labels,
    /// Too many metrics.
    #[error("more metrics than [series] max_metrics allows")]
    Metrics,
    /// The metric has too many series.
    #[error("more series of one metric than [series] max_per_metric allows")]
    PerMetric,
    /// There are too many series.
    #[error("more series than [series] max_series or budget allows")]
    Total,
    /// No more ids.
    #[error("more instances than there may ever be: 16 times [series] max_series; raise it")]
    Ids,
}

impl Refused {
    /// Whether it is because of a limit, and what is refused belongs into the overflow instance.
    pub fn is_limit(self) -> bool {
        matches!(self, Refused::PerMetric | Refused::Total | Refused::Ids)
    }
}

/// What is told of all series. Read without locks.
#[derive(Debug, Default)]
pub struct SeriesStats {
    /// Metrics there are.
    pub metrics: AtomicU64,
    /// Series there are.
    pub series: AtomicU64,
    /// Bytes of memory they take.
    pub memory: AtomicU64,
    /// Values set so far.
    pub points: AtomicU64,
    /// Points that went into overflow instances so far.
    pub overflowed: AtomicU64,
    /// Series forgotten so far.
    pub forgotten: AtomicU64,
    /// Sessions refused so far as the event loop, or the disk, is behind.
    pub busy: AtomicU64,
}

/// What receivers share. Clones are the same.
#[derive(Clone)]
pub struct Series {
    store: Arc<Mutex<Store>>,
    stats: Arc<SeriesStats>,
    wake: Wake,
    /// Limits that the next session puts into effect: who sets them must not wait for one.
    limits: Arc<Mutex<Option<SeriesConfig>>>,
}

/// Batches of one session, for each that may wait.
const MAX_BATCHES_A_WAIT: usize = 16;

/// One receiver at work.
pub struct Session<'a> {
    store: MutexGuard<'a, Store>,
    series: &'a Series,
    points: u64,
}

struct Store {
    config: SeriesConfig,
    metric_ids: MetricIds,
    instance_ids: [InstanceIds; 3],
    metrics: Vec<Known>,
    by_pmid: FxHashMap<u32, u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_place: FxHashMap<(u32, Inst), u32>,
    live: usize,
    memory: usize,
    batch: Batch,
    full: VecDeque<Batch>,
    outgoing: Outgoing,
    since: Instant,
    /// Now, in seconds since then.
    now: u32,
    /// Where looking for what is to be forgotten goes on.
    sweep: usize,
    /// The event loop is to be woken.
    is_sent: bool,
}

struct Known {
    meaning: Arc<MetricMeaning>,
    series: u32,
}

struct Slot {
    /// [`FREE`] or the metric's number.
    metric: u32,
    inst: Inst,
    generation: u32,
    touched: u32,
    bits: u64,
    bytes: u32,
}

const FREE: u32 = u32::MAX;

impl Series {
    /// Nothing yet, but for the ids on file in `dir`; `None` keeps them in memory. `wake` has the event loop take what is handed over.
    ///
    /// # Errors
    /// A file with ids.
    pub fn open(
        config: SeriesConfig,
        domain: u16,
        dir: Option<&Path>,
        wake: Wake,
    ) -> Result<(Series, Batches), IdsError> {
        let (series, batches, settling) = Series::open_unsettled(config, domain, dir, wake)?;
        settling.finish()?;
        Ok((series, batches))
    }

    /// The same for who has other things to do meanwhile: no id may be given to anybody before [`Settling::finish`] has returned.
    ///
    /// # Errors
    /// As [`Series::open`].
    pub fn open_unsettled(
        config: SeriesConfig,
        domain: u16,
        dir: Option<&Path>,
        wake: Wake,
    ) -> Result<(Series, Batches, Settling), IdsError> {
        let (outgoing, batches) = batch::channel();
        let (metric_ids, of_metrics) = MetricIds::begin(dir, domain)?;
        let (instance_ids, of_instances) =
            InstanceIds::begin_all(dir, domain, config.max_series as usize * EVER)?;
        let store = Store {
            metric_ids,
            instance_ids,
            config,
            metrics: Vec::new(),
            by_pmid: FxHashMap::default(),
            slots: Vec::new(),
            free: Vec::new(),
            by_place: FxHashMap::default(),
            live: 0,
            memory: 0,
            batch: Batch::default(),
            full: VecDeque::new(),
            outgoing,
            since: Instant::now(),
            now: 0,
            sweep: 0,
            is_sent: false,
        };
        let series = Series {
            store: Arc::new(Mutex::new(store)),
            stats: Arc::default(),
            wake,
            limits: Arc::default(),
        };
        Ok((series, batches, of_metrics.with(of_instances)))
    }

    /// Puts other limits into effect with the next session; what is there stays. Does not wait for a session.
    pub fn configure(&self, config: SeriesConfig) {
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner) = Some(config);
    }

    /// What is told of all series.
    pub fn stats(&self) -> &Arc<SeriesStats> {
        &self.stats
    }

    /// Begins to take in what has come; `None` if the event loop or the disk is behind: try again later. Waits for another receiver's
    /// session to end.
    pub fn begin(&self) -> Option<Session<'_>> {
        let mut store = self.lock();
        // What could not be brought to disk the last time comes first.
        if !store.outgoing.has_room() || !store.hand_over() {
            self.stats.busy.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        if let Some(config) = self.limits.lock().unwrap_or_else(PoisonError::into_inner).take() {
            store.config = config;
        }
        store.now = u32::try_from(store.since.elapsed().as_secs()).unwrap_or(u32::MAX);
        let mut session = Session { store, series: self, points: 0 };
        session.sweep(SWEEP);
        Some(session)
    }

    /// Forgets what is due, of many series.
    pub fn tidy(&self) {
        if let Some(mut session) = self.begin() {
            session.sweep(TIDY);
            session.commit();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        // What a thread that broke has left is whole: nothing is half done between two calls.
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session<'_> {
    /// The metric. Type, unit and kind are those of its first point for ever: where one of them differs it is another metric, with a
    /// name that says so.
    ///
    /// # Errors
    /// [`Refused::Name`], [`Refused::Metrics`].
    pub fn metric(&mut self, metric: &Metric<'_>) -> Result<MetricId, Refused> {
        let store = &mut *self.store;
        let mut mapped = name::mapped(metric.name).ok_or(Refused::Name)?;
        if let Some(word) = metric.part.word() {
            mapped.push('.');
            mapped.push_str(word);
        }
        let unit = if metric.unit.len() > unit::MAX_UNIT { "" } else { metric.unit };
        let form = metric.form(unit);
        // Those that are known are found all the same. Numbers are for ever: none is taken for what is refused.
        let has_room = store.metrics.len() < store.config.max_metrics as usize;
        let (pmid, name) = store.metric_ids.get(&mapped, form, has_room).map_err(|_| Refused::Metrics)?;
        if let Some(&id) = store.by_pmid.get(&pmid.local()) {
            return Ok(MetricId(id));
        }
        if store.metrics.len() >= store.config.max_metrics as usize {
            return Err(Refused::Metrics);
        }
        let meaning = Arc::new(MetricMeaning {
            pmid,
            name,
            original: metric.name.to_owned(),
            help: pcp_model::text::cut(metric.help, MAX_HELP).to_owned(),
            unit: unit.to_owned(),
            units: form.units,
            semantics: form.semantics,
            value_type: form.value_type,
            serial: form.serial,
            branch: form.branch,
            told: metric.told(),
        });
        let id = store.metrics.len() as u32;
        store.memory += 256 + 2 * (meaning.name.len() + meaning.original.len()) + meaning.help.len();
        store.metrics.push(Known { meaning: Arc::clone(&meaning), series: 0 });
        store.by_pmid.insert(pmid.local(), id);
        store.define(Defined::Metric(meaning));
        Ok(MetricId(id))
    }

    /// The series of a metric with these labels; new ones begin at zero.
    ///
    /// # Errors
    /// [`Refused::Labels`], and the limits: use [`Session::overflow`] then.
    pub fn series(&mut self, metric: MetricId, labels: &Labels) -> Result<SeriesId, Refused> {
        self.find(metric, labels, false)
    }

    /// The instance that stands for all series beyond a limit, and `labels` more (the bound of a bucket).
    ///
    /// # Errors
    /// As [`Session::series`], but that limits are of no account.
    pub fn overflow(
        &mut self,
        metric: MetricId,
        labels: &[(String, LabelText)],
    ) -> Result<SeriesId, Refused> {
        let mut all = Labels::new("", labels);
        all.push(OVERFLOW, LabelText::Bool(true));
        self.find(metric, &all, true)
    }

    /// Whether it is kept when sums began.
    #[inline]
    pub fn keeps_starts(&self) -> bool {
        self.store.config.starts
    }

    /// Whether as much has been set as may wait for the event loop.
    pub fn is_full(&self) -> bool {
        self.points >= (batch::WAITING * batch::POINTS) as u64
            || self.store.full.len() >= MAX_BATCHES_A_WAIT * batch::WAITING
    }

    /// Counts a point that goes into an overflow instance.
    pub fn overflowed(&mut self) {
        self.series.stats.overflowed.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets a value: the bits of a number of the metric's type ([`encode`](super::encode)). `false`: the series has been forgotten, and must be
    /// looked up anew.
    #[inline]
    pub fn set(&mut self, series: SeriesId, bits: u64) -> bool {
        let store = &mut *self.store;
        let now = store.now;
        let Some(slot) = store.slots.get_mut(series.slot as usize) else { return false };
        if slot.generation != series.generation {
            return false;
        }
        slot.bits = bits;
        slot.touched = now;
        store.batch.points.push(Point { slot: series.slot, bits });
        if store.batch.points.len() >= batch::POINTS {
            store.turn();
        }
        self.points += 1;
        true
    }

    /// Sets the text of a series of [`Part::Exemplar`](super::Part::Exemplar). `false` as in [`Session::set`].
    pub fn set_text(&mut self, series: SeriesId, text: Box<str>) -> bool {
        if self.value(series).is_none() {
            return false;
        }
        let store = &mut *self.store;
        let now = store.now;
        if let Some(slot) = store.slots.get_mut(series.slot as usize) {
            slot.touched = now;
        }
        store.batch.texts.push((series.slot, text));
        if store.batch.is_full() {
            store.turn();
        }
        true
    }

    /// Has a series kept as if it had been set. `false` as in [`Session::set`].
    pub fn touch(&mut self, series: SeriesId) -> bool {
        let store = &mut *self.store;
        let now = store.now;
        match store.slots.get_mut(series.slot as usize) {
            Some(slot) if slot.generation == series.generation => slot.touched = now,
            _ => return false,
        }
        true
    }

    /// The bits of the value that was set last; `None` for a series that has been forgotten.
    #[inline]
    pub fn value(&self, series: SeriesId) -> Option<u64> {
        let slot = self.store.slots.get(series.slot as usize)?;
        (slot.generation == series.generation).then_some(slot.bits)
    }

    /// Forgets a series now.
    pub fn forget(&mut self, series: SeriesId) {
        if self.value(series).is_some() {
            self.remove(series.slot);
        }
    }

    /// Hands over. What has new ids waits for the disk first; if that fails it stays here, and no session begins until it is there.
    pub fn commit(mut self) {
        self.store.turn();
        self.store.hand_over();
        let stats = &self.series.stats;
        stats.points.fetch_add(self.points, Ordering::Relaxed);
        stats.metrics.store(self.store.metrics.len() as u64, Ordering::Relaxed);
        stats.series.store(self.store.live as u64, Ordering::Relaxed);
        stats.memory.store(self.store.memory as u64, Ordering::Relaxed);
        let is_sent = std::mem::take(&mut self.store.is_sent);
        drop(self.store);
        if is_sent {
            (self.series.wake)();
        }
    }

    fn find(&mut self, metric: MetricId, labels: &Labels, is_overflow: bool) -> Result<SeriesId, Refused> {
        let name = labels.instance().ok_or(Refused::Labels)?;
        let store = &mut *self.store;
        let Some(known) = store.metrics.get(metric.0 as usize) else { return Err(Refused::Metrics) };
        let meaning = Arc::clone(&known.meaning);
        let of_metric = known.series;
        let Some(ids) = store.instance_ids.iter_mut().find(|ids| ids.serial == meaning.serial) else {
            return Err(Refused::Ids);
        };
        let has_room = || {
            let SeriesConfig { max_per_metric, max_series, budget, .. } = store.config;
            if of_metric >= max_per_metric {
                return Err(Refused::PerMetric);
            }
            let is_over = store.live >= max_series as usize || store.memory as u64 >= budget.0;
            if is_over { Err(Refused::Total) } else { Ok(()) }
        };
        let known_inst = ids.known(&name);
        if let Some(slot) = known_inst.and_then(|inst| store.by_place.get(&(metric.0, inst))) {
            let generation = store.slots[*slot as usize].generation;
            return Ok(SeriesId { slot: *slot, generation });
        }
        if !is_overflow {
            has_room()?;
        }
        let inst = ids.get(&name, is_overflow).ok_or(Refused::Ids)?;
        let mut bytes = SLOT;
        if ids.use_one(inst) {
            bytes += 3 * name.len() + labels.bytes();
            let (serial, labels) = (meaning.serial, labels.told());
            store.define(Defined::Instance { serial, inst, name: name.into(), labels });
        }
        let slot = store.free.pop().unwrap_or(store.slots.len() as u32);
        if slot as usize == store.slots.len() {
            store.slots.push(Slot { metric: FREE, inst, generation: 0, touched: 0, bits: 0, bytes: 0 });
        }
        let place = &mut store.slots[slot as usize];
        let generation = place.generation;
        *place =
            Slot { metric: metric.0, inst, generation, touched: store.now, bits: 0, bytes: bytes as u32 };
        store.by_place.insert((metric.0, inst), slot);
        store.metrics[metric.0 as usize].series += 1;
        store.live += 1;
        store.memory += bytes;
        store.define(Defined::Series { pmid: meaning.pmid, inst, slot });
        Ok(SeriesId { slot, generation })
    }

    /// Forgets some of what has had no point for long.
    fn sweep(&mut self, most_looked_at: usize) {
        let most = u32::try_from(self.store.config.forget_after.0.as_secs()).unwrap_or(u32::MAX);
        let count = self.store.slots.len();
        for _ in 0..most_looked_at.min(count) {
            let at = self.store.sweep % count;
            self.store.sweep = at + 1;
            let slot = &self.store.slots[at];
            if slot.metric != FREE && self.store.now.saturating_sub(slot.touched) > most {
                self.remove(at as u32);
                self.series.stats.forgotten.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn remove(&mut self, at: u32) {
        let store = &mut *self.store;
        // Values of it may be in the batch, and a batch begins with what has gone.
        store.turn_with_points();
        let Some(slot) = store.slots.get_mut(at as usize) else { return };
        let (metric, inst) = (slot.metric, slot.inst);
        slot.metric = FREE;
        slot.generation = slot.generation.wrapping_add(1);
        store.live -= 1;
        store.memory -= slot.bytes as usize;
        store.by_place.remove(&(metric, inst));
        let Some(known) = store.metrics.get_mut(metric as usize) else { return };
        known.series -= 1;
        let (pmid, serial) = (known.meaning.pmid, known.meaning.serial);
        store.batch.gone.push(Gone::Series { pmid, inst, slot: at });
        if let Some(ids) = store.instance_ids.iter_mut().find(|ids| ids.serial == serial)
            && ids.unuse_one(inst)
        {
            store.batch.gone.push(Gone::Instance { serial, inst });
        }
        store.free.push(at);
        if store.batch.is_full() {
            store.turn();
        }
    }
}

impl Store {
    fn define(&mut self, defined: Defined) {
        self.batch.defined.push(defined);
        if self.batch.is_full() {
            self.turn();
        }
    }

    /// Begins another batch.
    fn turn(&mut self) {
        if !self.batch.is_empty() {
            self.full.push_back(std::mem::take(&mut self.batch));
        }
    }

    fn turn_with_points(&mut self) {
        let Batch { defined, points, texts, .. } = &self.batch;
        if !defined.is_empty() || !points.is_empty() || !texts.is_empty() {
            self.turn();
        }
    }

    /// Sends what is there once its ids are on disk; whether they are.
    fn hand_over(&mut self) -> bool {
        let settled = self.metric_ids.settle();
        let settled = self.instance_ids.iter_mut().fold(settled, |all, ids| all.and(ids.settle()));
        if let Err(error) = settled {
            tracing::error!("{error}: metrics are taken in again when that is mended");
            return false;
        }
        while let Some(batch) = self.full.pop_front() {
            self.is_sent = true;
            self.outgoing.send(batch);
        }
        true
    }
}

impl Default for Series {
    /// With the limits of a configuration that says nothing, in memory, and nobody to take what it hands over.
    fn default() -> Series {
        let opened = Series::open(SeriesConfig::default(), 400, None, Arc::new(|| ()));
        // Nothing of it is on disk, so nothing of it can fail.
        opened.expect("ids in memory").0
    }
}

impl std::fmt::Debug for Series {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Series").field("stats", &self.stats).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::metric::{Kind, Number, Part};
    use super::*;
    use crate::interval::Interval;
    use crate::size::ByteSize;

    fn counter(name: &str) -> Metric<'_> {
        Metric { name, part: Part::Value, help: "", unit: "1", kind: Kind::Counter, number: Number::U64 }
    }

    fn labels(value: &str) -> Labels {
        Labels::new("shop", &[("route".to_owned(), value.into())])
    }

    fn open(config: SeriesConfig, dir: Option<&Path>) -> (Series, Batches) {
        Series::open(config, 400, dir, Arc::new(|| ())).expect("files")
    }

    #[test]
    fn a_file_with_a_number_that_no_metric_has_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        // As a program that knows no bound may have left it.
        let file =
            "2 0 2147483647\n0 1795170946 shop.count U64 counter 0 1 1\n1000000 1795170946 shop.other\n";
        std::fs::write(dir.path().join("400.10"), file).expect("writable");
        let opened = Series::open(SeriesConfig::default(), 400, Some(dir.path()), Arc::new(|| ()));
        let refused = opened.expect_err("it would be another metric").to_string();
        assert!(refused.contains("400.10:3: ") && refused.contains("1000000"), "{refused}");
    }

    fn defined(batches: &Batches) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(batch) = batches.take() {
            all.extend(batch.defined.iter().map(|defined| match defined {
                Defined::Metric(meaning) => format!("{} {}", meaning.name, meaning.pmid),
                Defined::Instance { serial, inst, name, .. } => format!("{serial}/{inst} {name}"),
                Defined::Series { pmid, inst, slot } => format!("{pmid}[{inst}] at {slot}"),
            }));
        }
        all
    }

    #[test]
    fn ids_are_those_of_the_run_before() {
        let dir = tempfile::tempdir().expect("a directory");
        let run = |order: [&str; 2]| {
            let (series, batches) = open(SeriesConfig::default(), Some(dir.path()));
            for name in order {
                let mut session = series.begin().expect("room");
                let metric = session.metric(&counter(name)).expect("a metric");
                let one = session.series(metric, &labels(name)).expect("a series");
                assert!(session.set(one, 1));
                session.commit();
            }
            let mut all = defined(&batches);
            all.retain(|text| !text.contains(" at "));
            all.sort();
            all
        };
        let first = run(["a.b", "a"]);
        assert_eq!(first, ["11/0 shop{route=a.b}", "11/1 shop{route=a}", "a.b 0.128.0", "a_x01 0.128.1"]);
        assert_eq!(run(["a", "a.b"]), first);
    }

    #[test]
    fn another_unit_is_another_metric_and_keeps_the_name_readable() {
        let (series, batches) = open(SeriesConfig::default(), None);
        let mut session = series.begin().expect("room");
        let first = session.metric(&counter("a")).expect("a metric");
        let again = session.metric(&counter("a")).expect("the same");
        let other = session.metric(&Metric { unit: "ms", ..counter("a") }).expect("another");
        let exemplar = session.metric(&Metric { part: Part::Exemplar, ..counter("a") }).expect("another");
        assert_eq!(first, again);
        assert!(first != other && exemplar != other);
        session.commit();
        assert_eq!(defined(&batches), ["a 0.128.0", "a_x02 0.128.1", "a 0.128.2"]);
    }

    #[test]
    fn what_is_beyond_a_limit_is_refused_and_has_an_instance_of_its_own() {
        let config =
            SeriesConfig { max_per_metric: 2, max_series: 3, max_metrics: 2, ..SeriesConfig::default() };
        let (series, batches) = open(config, None);
        let mut session = series.begin().expect("room");
        let [a, b] = ["a", "b"].map(|name| session.metric(&counter(name)).expect("a metric"));
        assert_eq!(session.metric(&counter("c")), Err(Refused::Metrics));
        assert_eq!(session.metric(&counter("a")), Ok(a));
        let first = session.series(a, &labels("1")).expect("room");
        session.series(a, &labels("2")).expect("room");
        assert_eq!(session.series(a, &labels("3")), Err(Refused::PerMetric));
        session.series(b, &labels("3")).expect("room");
        assert_eq!(session.series(b, &labels("4")), Err(Refused::Total));
        assert_eq!(session.series(a, &labels("1")), Ok(first));
        let over = session.overflow(a, &[]).expect("always");
        assert_eq!(session.overflow(a, &[]), Ok(over));
        assert!(session.set(over, 7));
        assert_eq!(session.value(over), Some(7));
        assert_eq!(session.series(a, &labels(&"x".repeat(1 << 20))), Err(Refused::Labels));
        session.commit();
        assert!(defined(&batches).contains(&"11/3 {otel.metric.overflow=true}".to_owned()));
        assert_eq!(series.stats().series.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn what_stops_is_forgotten_and_its_slot_is_anothers_in_order() {
        let (series, batches) = open(SeriesConfig::default(), None);
        let mut session = series.begin().expect("room");
        let a = session.metric(&counter("a")).expect("a metric");
        let old = session.series(a, &labels("1")).expect("room");
        assert!(session.set(old, 1));
        session.forget(old);
        assert!(!session.set(old, 2));
        assert_eq!(session.value(old), None);
        let new = session.series(a, &labels("2")).expect("room");
        assert_eq!(new.slot, old.slot);
        assert!(session.set(new, 3));
        session.commit();
        let all: Vec<Batch> = std::iter::from_fn(|| batches.take()).collect();
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].points, [Point { slot: 0, bits: 1 }]);
        assert_eq!(all[1].gone.len(), 2);
        assert_eq!(all[1].points, [Point { slot: 0, bits: 3 }]);

        // By time.
        series.lock().since -= Duration::from_secs(3602);
        series.tidy();
        assert_eq!(series.stats().forgotten.load(Ordering::Relaxed), 1);
        assert_eq!(series.stats().series.load(Ordering::Relaxed), 0);
        // The room of the metric stays.
        let left = series.lock().memory;
        assert!(left < 1000, "{left}");
    }

    #[test]
    fn nobody_begins_while_the_loop_is_behind() {
        let (series, batches) = open(SeriesConfig::default(), None);
        let fill = || -> Option<()> {
            let mut session = series.begin()?;
            let a = session.metric(&counter("a")).expect("a metric");
            let one = session.series(a, &labels("1")).expect("room");
            for number in 0..batch::POINTS as u64 {
                session.set(one, number);
            }
            session.commit();
            Some(())
        };
        let sessions = (0..1000).take_while(|_| fill().is_some()).count();
        assert!((batch::WAITING..=batch::WAITING + 2).contains(&(sessions + 1)), "{sessions}");
        assert_eq!(series.stats().busy.load(Ordering::Relaxed), 1);
        while batches.take().is_some() {}
        assert_eq!(batches.waiting(), 0);
        assert!(fill().is_some());
    }

    #[test]
    fn keys_are_checked() {
        assert_eq!(SeriesConfig::default().validate(), Ok(()));
        for (config, key) in [
            (SeriesConfig { max_metrics: 0, ..SeriesConfig::default() }, "max_metrics"),
            (SeriesConfig { budget: ByteSize(1), ..SeriesConfig::default() }, "budget"),
            (
                SeriesConfig { forget_after: Interval(Duration::ZERO), ..SeriesConfig::default() },
                "forget_after",
            ),
        ] {
            assert_eq!(config.validate().expect_err("wrong").key, key);
        }
    }
}
