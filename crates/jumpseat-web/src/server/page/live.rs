//! Hosts that somebody looks at: a thread each, which samples what is looked at once a second and keeps the last half hour.
//!
//! A thread begins when somebody asks for a host, and ends when nobody has asked for a minute; so does the sampling of a metric.
//!
//! **Invariant:** whoever asks holds the lock of a host only to copy what is there: the collector is waited for by the host's own thread.
//!
//! **Cost:** a fetch of all that is looked at, a second; 16 bytes a value that is kept.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use pcp_client::{ClientError, Context, Fetched, HostSpec, StateChange};
use pcp_model::{Inst, PmError, Timestamp};

use super::found::Found;
use super::lines::{Cells, Last, Series, Shown, Text, Window, seconds};
use crate::server::sources::{SourceError, Sources};

/// Between two samples.
const EVERY: Duration = Duration::from_secs(1);
/// Between two questions whether a host of which nothing is sampled is there.
const IDLE: Duration = Duration::from_secs(5);
/// How long something is sampled after it was asked for.
const ASKED: Duration = Duration::from_secs(60);
/// Samples that are kept.
const KEPT: usize = 1_800;
/// Most metrics and expressions that are sampled of a host, most instances of one, and most of all hosts together (120 MB).
const MAX_WATCHES: usize = 64;
const MAX_ROWS: usize = 400;
const MAX_PLACES: usize = 4_096;
/// Most hosts that are looked at, at a time.
const MAX_HOSTS: usize = 256;
/// How long somebody who asks for something new waits for its first sample.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between two attempts to connect: the first, and the longest.
const BACK_OFF: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(15)];
/// Samples between two attempts to find what was not there.
const RETRY: u64 = 10;
/// Definitions after which a connection is made anew, to be rid of them.
const MAX_DEFINITIONS: u64 = 256;

/// All hosts that somebody has looked at.
#[derive(Debug)]
pub(super) struct Live {
    sources: Arc<Sources>,
    places: Places,
    hosts: Mutex<BTreeMap<String, Arc<Host>>>,
}

/// How the connection to a host is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Link {
    /// Nobody knows yet.
    Unknown,
    Up,
    /// Why it is down.
    Down(String),
}

/// What is known of a host.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub link: Link,
    /// Since when it is up or down, by the clock of this machine, as far as this program has looked.
    pub since: Option<Timestamp>,
    /// What it calls itself.
    pub host: Option<String>,
}

/// Values, and where they end.
#[derive(Debug)]
pub(super) struct Values {
    pub series: Vec<Series>,
    pub state: State,
    /// The time of the first and the last sample, seconds since the epoch.
    pub span: Option<(f64, f64)>,
}

struct Host {
    inner: Mutex<Inner>,
    /// For the thread: something new is asked for. For those who ask: there is news.
    asks: Condvar,
    news: Condvar,
}

struct Inner {
    /// Whether its thread runs.
    runs: bool,
    /// Whether its thread has to end.
    ends: bool,
    asked: Instant,
    state: State,
    watches: BTreeMap<String, Watch>,
    /// When samples were taken.
    times: VecDeque<f64>,
}

struct Watch {
    asked: Instant,
    /// How it is shown, or why not; nothing until it was looked up.
    found: Option<Result<Shown, String>>,
    rows: BTreeMap<Inst, Row>,
    left_out: usize,
    texts: Vec<Text>,
}

/// An instance, with the times and values of samples; NaN for a gap.
struct Row {
    name: Arc<str>,
    values: VecDeque<(f64, f64)>,
    _place: Place,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("state", &self.inner().state).finish_non_exhaustive()
    }
}

impl Live {
    pub(super) fn new(sources: Arc<Sources>) -> Live {
        Live { sources, places: Places::default(), hosts: Mutex::default() }
    }

    /// What is known of a host, which is looked at from now on.
    ///
    /// # Errors
    /// It may not be looked at, or too many are.
    pub(super) fn state(&self, name: &str) -> Result<State, SourceError> {
        let host = self.host(name)?;
        let inner = host.inner();
        Ok(inner.state.clone())
    }

    /// What has been sampled of these within a window whose times are absolute, or counted back from the last sample if they are not
    /// above 0. What is new is waited for: for the pool only.
    ///
    /// # Errors
    /// As [`Live::state`].
    pub(super) fn values(
        &self,
        name: &str,
        exprs: &[String],
        window: &Window,
    ) -> Result<Values, SourceError> {
        let host = self.host(name)?;
        let until = Instant::now() + PATIENCE;
        let mut inner = host.inner();
        let refused = inner.watch(exprs);
        host.asks.notify_all();
        while !inner.knows(exprs) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            inner = host.news.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(inner.values(exprs, window, &refused))
    }

    /// The host of this name, with a running thread.
    fn host(&self, name: &str) -> Result<Arc<Host>, SourceError> {
        let spec = self.sources.allowed(Some(name))?;
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if !hosts.contains_key(name) && hosts.len() >= MAX_HOSTS {
            hosts.retain(|_, host| host.inner().runs);
        }
        if !hosts.contains_key(name) && hosts.len() >= MAX_HOSTS {
            return Err(busy());
        }
        let host = Arc::clone(hosts.entry(name.to_owned()).or_insert_with(|| Arc::new(Host::new())));
        drop(hosts);
        let mut inner = host.inner();
        inner.asked = Instant::now();
        if !inner.runs {
            let (of_thread, sources, places) =
                (Arc::clone(&host), Arc::clone(&self.sources), self.places.clone());
            let thread = std::thread::Builder::new().name("jumpseat-live".to_owned());
            inner.runs =
                thread.spawn(move || Sampler::new(&of_thread, &sources, &places, spec).run()).is_ok();
            if !inner.runs {
                return Err(busy());
            }
        }
        drop(inner);
        Ok(host)
    }
}

fn busy() -> SourceError {
    SourceError::Client(ClientError::Unsupported("too many hosts are looked at: try again later".to_owned()))
}

impl Drop for Live {
    fn drop(&mut self) {
        let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        // They are not waited for: one may wait for its collector.
        for host in hosts.values() {
            host.inner().ends = true;
            host.asks.notify_all();
        }
    }
}

impl Host {
    fn new() -> Host {
        let state = State { link: Link::Unknown, since: None, host: None };
        let inner = Inner {
            runs: false,
            ends: false,
            asked: Instant::now(),
            state,
            watches: BTreeMap::new(),
            times: VecDeque::new(),
        };
        Host { inner: Mutex::new(inner), asks: Condvar::new(), news: Condvar::new() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Has these sampled; those for which there is no room are returned.
    fn watch(&mut self, exprs: &[String]) -> Vec<String> {
        let now = Instant::now();
        let mut refused = Vec::new();
        for expr in exprs {
            let has_room = self.watches.len() < MAX_WATCHES;
            match self.watches.get_mut(expr) {
                Some(watch) => watch.asked = now,
                None if has_room => {
                    self.watches.insert(expr.clone(), Watch::new());
                }
                None => refused.push(expr.clone()),
            }
        }
        refused
    }

    /// Whether there is something to say of all these.
    fn knows(&self, exprs: &[String]) -> bool {
        matches!(self.state.link, Link::Down(_))
            || exprs.iter().all(|expr| {
                self.watches.get(expr).is_none_or(|watch| match &watch.found {
                    None => false,
                    Some(Err(_)) => true,
                    Some(Ok(_)) => !self.times.is_empty(),
                })
            })
    }

    fn values(&self, exprs: &[String], window: &Window, refused: &[String]) -> Values {
        let span = self.times.front().copied().zip(self.times.back().copied());
        let last = span.map_or_else(|| seconds(SystemTime::now().into()), |(_, last)| last);
        let window = window.absolute(last);
        let begin = self.times.partition_point(|&time| time < window.start);
        let end = self.times.partition_point(|&time| time <= window.finish);
        let count = end.saturating_sub(begin);
        // As they were, if there are not too many.
        let step = match count > window.points {
            true => (window.finish - window.start) / window.points as f64,
            false => 0.0,
        };
        let series = |expr: &String| {
            if refused.contains(expr) {
                return Series::failed(
                    expr,
                    format!("more than {MAX_WATCHES} metrics are looked at: try again later"),
                );
            }
            let Some(watch) = self.watches.get(expr) else { return Series::failed(expr, "") };
            let shown = match (&watch.found, &self.state.link) {
                (Some(Ok(shown)), _) => Some(shown.clone()),
                (Some(Err(error)), _) => return Series::failed(expr, error.clone()),
                (None, Link::Down(reason)) => return Series::failed(expr, reason.clone()),
                (None, _) => None,
            };
            let lines = watch.rows.iter().map(|(&inst, row)| {
                let mut cells = Cells::new(window.start, step);
                let begin = row.values.partition_point(|&(time, _)| time < window.start);
                for &(time, value) in
                    row.values.range(begin..).take_while(|&&(time, _)| time <= window.finish)
                {
                    cells.push(time, Some(value));
                }
                cells.line(inst, &row.name)
            });
            Series {
                expr: expr.clone(),
                shown,
                lines: lines.filter(|line| !line.t.is_empty()).collect(),
                texts: watch.texts.clone(),
                left_out: watch.left_out,
                ..Series::default()
            }
        };
        Values { series: exprs.iter().map(series).collect(), state: self.state.clone(), span }
    }

    /// Takes a sample. Rows without a value in it have a gap there.
    fn push(&mut self, time: f64, readings: Vec<(String, Reading)>, places: &Places) {
        if self.times.back().is_some_and(|&last| time <= last) {
            // The collector's clock was set back: what was sampled is in its future.
            self.forget();
        }
        self.times.push_back(time);
        if self.times.len() > KEPT {
            self.times.pop_front();
        }
        let oldest = self.times.front().copied().unwrap_or(time);
        for (expr, reading) in readings {
            let Some(watch) = self.watches.get_mut(&expr) else { continue };
            match reading {
                Reading::Failed(error) => watch.found = Some(Err(error)),
                Reading::Texts(shown, texts) => (watch.found, watch.texts) = (Some(Ok(shown)), texts),
                Reading::Numbers(shown, numbers) => {
                    watch.found = Some(Ok(shown));
                    watch.take(time, numbers, places);
                }
            }
        }
        for watch in self.watches.values_mut() {
            watch.rows.retain(|_, row| {
                row.trim(oldest);
                !row.values.is_empty()
            });
        }
    }

    /// A sample that failed as a whole.
    fn gap(&mut self, time: f64) {
        for row in self.watches.values_mut().flat_map(|watch| watch.rows.values_mut()) {
            row.push(time, None);
        }
    }

    fn forget(&mut self) {
        self.times.clear();
        self.watches.values_mut().for_each(|watch| watch.rows.clear());
    }

    fn set_link(&mut self, link: Link) {
        if std::mem::discriminant(&self.state.link) != std::mem::discriminant(&link) {
            self.state.since = Some(SystemTime::now().into());
        }
        self.state.link = link;
    }
}

impl Watch {
    fn new() -> Watch {
        Watch { asked: Instant::now(), found: None, rows: BTreeMap::new(), left_out: 0, texts: Vec::new() }
    }

    fn take(&mut self, time: f64, numbers: Vec<(Inst, Arc<str>, Option<f64>)>, places: &Places) {
        self.left_out = 0;
        for (inst, name, value) in numbers {
            if self.rows.get(&inst).is_some_and(|row| row.name != name) {
                // The number has been given to another instance.
                self.rows.remove(&inst);
            }
            if let Some(row) = self.rows.get_mut(&inst) {
                row.push(time, value);
            } else if let Some(place) = (self.rows.len() < MAX_ROWS).then(|| places.take()).flatten() {
                let row =
                    self.rows.entry(inst).or_insert(Row { name, values: VecDeque::new(), _place: place });
                row.push(time, value);
            } else {
                self.left_out += 1;
            }
        }
        for row in self.rows.values_mut() {
            if row.values.back().is_some_and(|&(last, _)| last < time) {
                row.push(time, None);
            }
        }
    }
}

impl Row {
    /// A value, or a gap, of which one after the other is enough: but the first, which keeps the row.
    fn push(&mut self, time: f64, value: Option<f64>) {
        match (value, self.values.back_mut()) {
            (None, Some(last)) if last.1.is_nan() => {}
            _ => self.values.push_back((time, value.unwrap_or(f64::NAN))),
        }
    }

    fn trim(&mut self, oldest: f64) {
        while self.values.front().is_some_and(|&(time, _)| time < oldest) {
            self.values.pop_front();
        }
    }
}

/// Room for rows of all hosts.
#[derive(Clone, Debug, Default)]
struct Places(Arc<AtomicUsize>);

/// Room for a row.
#[derive(Debug)]
struct Place(Arc<AtomicUsize>);

impl Places {
    fn take(&self) -> Option<Place> {
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            (taken < MAX_PLACES).then_some(taken + 1)
        });
        taken.ok().map(|_| Place(Arc::clone(&self.0)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a sample has of one metric.
enum Reading {
    Numbers(Shown, Vec<(Inst, Arc<str>, Option<f64>)>),
    Texts(Shown, Vec<Text>),
    Failed(String),
}

/// The thread of a host.
struct Sampler<'a> {
    host: &'a Host,
    sources: &'a Sources,
    places: &'a Places,
    spec: HostSpec,
    context: Option<Context>,
    known: BTreeMap<String, Known>,
    definitions: u64,
    samples: u64,
    fetched: Fetched,
}

/// What the thread knows of a metric.
struct Known {
    found: Result<Found, String>,
    /// Of counters, by instance.
    last: HashMap<Inst, Last>,
}

impl<'a> Sampler<'a> {
    fn new(host: &'a Host, sources: &'a Sources, places: &'a Places, spec: HostSpec) -> Sampler<'a> {
        Sampler {
            host,
            sources,
            places,
            spec,
            context: None,
            known: BTreeMap::new(),
            definitions: 0,
            samples: 0,
            fetched: Fetched::new(),
        }
    }

    fn run(mut self) {
        let mut attempts = 0;
        while let Some(wanted) = self.wanted() {
            let began = Instant::now();
            let pause = match self.turn(&wanted) {
                Ok(()) => {
                    attempts = 0;
                    if wanted.is_empty() { IDLE } else { EVERY }
                }
                Err(error) => {
                    let [first, longest] = BACK_OFF;
                    let pause = first.saturating_mul(1 << attempts.min(10)).min(longest);
                    attempts += 1;
                    self.context = None;
                    let mut inner = self.host.inner();
                    inner.set_link(Link::Down(error.to_string()));
                    inner.gap(seconds(SystemTime::now().into()));
                    pause
                }
            };
            self.host.news.notify_all();
            self.rest(began + pause, &wanted);
        }
    }

    /// What is to be sampled; nothing if the thread is to end.
    fn wanted(&mut self) -> Option<Vec<String>> {
        let mut inner = self.host.inner();
        inner.watches.retain(|_, watch| watch.asked.elapsed() < ASKED);
        if inner.ends || (inner.watches.is_empty() && inner.asked.elapsed() >= ASKED) {
            inner.runs = false;
            inner.forget();
            return None;
        }
        let wanted: Vec<String> = inner.watches.keys().cloned().collect();
        if wanted.is_empty() {
            // What comes next is not after these.
            inner.forget();
        }
        self.known.retain(|expr, _| inner.watches.contains_key(expr));
        Some(wanted)
    }

    /// Waits for the time of the next sample, or for somebody who asks for something new.
    fn rest(&self, until: Instant, wanted: &[String]) {
        let mut inner = self.host.inner();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let is_new = inner.watches.keys().any(|expr| !wanted.contains(expr));
            // While there is no connection nothing new can be found.
            if left.is_zero() || inner.ends || (is_new && self.context.is_some()) {
                return;
            }
            inner = self.host.asks.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Connects if there is no connection, and takes a sample.
    fn turn(&mut self, wanted: &[String]) -> Result<(), ClientError> {
        let mut context = match self.context.take() {
            Some(context) if self.definitions < MAX_DEFINITIONS => context,
            _ => self.connect()?,
        };
        self.samples += 1;
        for expr in wanted {
            let again = self.samples.is_multiple_of(RETRY);
            // An expression that is none remains none; what a name is may change.
            if self
                .known
                .get(expr)
                .is_none_or(|known| known.found.is_err() && again && self.definitions < MAX_DEFINITIONS / 2)
            {
                self.definitions += 1;
                let found = Found::find(&mut context, expr, self.definitions);
                self.known.insert(expr.clone(), Known { found, last: HashMap::new() });
            }
            if !context.is_connected() {
                return Err(ClientError::Closed);
            }
        }
        let pmids: Vec<_> =
            self.known.values().filter_map(|known| Some(known.found.as_ref().ok()?.desc.pmid)).collect();
        if pmids.is_empty() {
            // Whether it is there.
            context.children("").map(drop).or_else(|error| match error {
                ClientError::Pcp(_) => Ok(()),
                error => Err(error),
            })?;
            let mut inner = self.host.inner();
            inner.set_link(Link::Up);
            self.tell_errors(&mut inner);
            self.context = Some(context);
            return Ok(());
        }
        let changes = match context.fetch(&pmids, &mut self.fetched) {
            Ok(changes) => changes,
            // The collector answers: the connection is as good as before.
            Err(ClientError::Pcp(_)) => StateChange::default(),
            Err(error) => return Err(error),
        };
        let time = seconds(self.fetched.timestamp);
        let mut readings = Vec::with_capacity(pmids.len());
        let mut at = 0;
        for (expr, known) in &mut self.known {
            let Ok(found) = &mut known.found else { continue };
            if let Some(set) = self.fetched.set(at) {
                found.learn(&mut context, set);
                readings.push((expr.clone(), known_reading(found, &mut known.last, time, set)));
            }
            at += 1;
        }
        if changes != StateChange::default() {
            // An agent has come or gone, or names have changed: what was not there may be there now, and instances have other names.
            self.known.retain(|_, known| known.found.is_ok());
            self.known
                .values_mut()
                .filter_map(|known| known.found.as_mut().ok())
                .for_each(Found::forget_names);
        }
        let mut inner = self.host.inner();
        inner.set_link(Link::Up);
        self.tell_errors(&mut inner);
        match self.fetched.is_empty() {
            true => inner.gap(seconds(SystemTime::now().into())),
            false => inner.push(time, readings, self.places),
        }
        drop(inner);
        self.context = Some(context);
        Ok(())
    }

    /// Has those who asked for what is not there know.
    fn tell_errors(&self, inner: &mut Inner) {
        for (expr, known) in &self.known {
            if let (Err(error), Some(watch)) = (&known.found, inner.watches.get_mut(expr)) {
                watch.found = Some(Err(error.clone()));
            }
        }
    }

    fn connect(&mut self) -> Result<Context, ClientError> {
        self.known.clear();
        self.definitions = 0;
        let mut context = self.sources.connect(&self.spec).map_err(|error| match error {
            SourceError::Client(error) => error,
            error => ClientError::Unsupported(error.to_string()),
        })?;
        let host = context.host_name().ok();
        self.host.inner().state.host = host;
        Ok(context)
    }
}

fn known_reading(
    found: &Found,
    last: &mut HashMap<Inst, Last>,
    time: f64,
    set: pcp_client::SetRef<'_>,
) -> Reading {
    let shown = Shown::of(&found.desc);
    if !found.is_numeric() {
        return match found.texts(set) {
            Ok(texts) => Reading::Texts(shown, texts),
            Err(error) => Reading::Failed(error.to_string()),
        };
    }
    let numbers = match found.numbers(set) {
        Ok(numbers) => numbers,
        // An agent that is not there now, or has nothing yet.
        Err(PmError::AGAIN | PmError::NOAGENT | PmError::VALUE) => {
            return Reading::Numbers(shown, Vec::new());
        }
        Err(error) => return Reading::Failed(error.to_string()),
    };
    let mut values = Vec::new();
    let mut seen: HashMap<Inst, Last> = HashMap::new();
    for (inst, raw) in numbers {
        let mut before = last.remove(&inst).unwrap_or_default();
        values.push((inst, found.name(inst), before.shown(&found.measure, time, raw)));
        seen.insert(inst, before);
    }
    // Instances without a value now have no rate across it.
    *last = seen;
    Reading::Numbers(shown, values)
}
