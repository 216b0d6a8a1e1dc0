//! The series of a target: an answer becomes values of [`crate::series`].
//!
//! ```text
//! # TYPE of the family      metric                       what it is
//! counter                   NAME, NAME_total             double, counter
//! gauge, unknown, none      NAME                         double, instant
//! info, stateset            NAME_info, NAME              double, instant
//! histogram                 NAME.bucket .count .sum      U64, U64, double: counters; the label le
//! gaugehistogram            NAME.bucket .count .sum      the same, instant
//! summary                   NAME.quantile .count .sum    double, instant, with the label quantile; U64, double: counters
//! NAME_created              NAME_created                 double, instant
//! ```
//!
//! Names are those of the samples, so that both formats make the same metrics; histograms are as OTLP's.
//!
//! **Invariants:** what a target has left out of a whole answer is forgotten with it. A series is never another one than its bytes in the
//! answer meant: if what the families are has changed, all series are looked up anew.
//!
//! **Cost:** a sample at its place of the last time is a comparison of bytes, a number and [`Session::set`]; one elsewhere is a hash more.
//! The whole way of a sample, HTTP included, is 0.22 microseconds (`benches/scrape.rs`). The first of a series is taken apart, which allocates. Work is done in portions (`Pass::step`), as the session keeps others out.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _};
use std::rc::Rc;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use jumpseat_wire::series::escape;
use rustc_hash::{FxHashSet, FxHasher};

use super::config::ScrapeConfig;
use super::exposition::{self, Exemplar, Format, Lines, Meta, Tail, Wrong, is_meta, series_end};
use super::stats::Refusal;
use super::target::{Target, head};
use crate::series::{
    Kind, LabelText, Labels, Metric, MetricId, Number, Part, Refused, Series, SeriesId, Session, encode,
};

/// Lines of a portion, which takes a millisecond or a few.
const PORTION: usize = 4096;
/// Longest exemplar that is kept, as it is written.
const MAX_EXEMPLAR: usize = 512;
/// Samples of one answer for which room is looked for in vain.
const MAX_IN_VAIN: u64 = 1000;
/// Memory of an entry besides its key, in the index as well.
const ENTRY: usize = size_of::<Entry>() + 8;

/// Whose series they are, and what of an answer is taken.
#[derive(Debug)]
pub(super) struct Owner {
    job: String,
    instance: String,
    labels: BTreeMap<String, String>,
    /// Whether a target's own labels win over these.
    honor_labels: bool,
    /// Longest name or value of a label.
    max_label: usize,
    /// Samples of one answer.
    max_samples: u64,
    /// Series of all targets that share the count.
    max_series: usize,
    /// How many these have.
    count: Rc<Cell<usize>>,
}

/// What is known of the series of a target.
#[derive(Debug)]
pub struct Known {
    owner: Owner,
    entries: Vec<Entry>,
    /// Entries by their keys.
    index: HashTable<u32>,
    /// With a key of its own: those of the entries are the target's.
    hasher: DefaultHashBuilder,
    /// Of an answer before, whose families were others.
    stale: Vec<SeriesId>,
    /// What the families of the last answer were.
    families: u64,
    /// The number of the last answer.
    epoch: u32,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    key: Box<[u8]>,
    series: SeriesId,
    number: Number,
    must: Must,
    /// The last answer that had it.
    seen: u32,
    exemplar: Option<Box<(SeriesId, u64)>>,
}

/// What its values have to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Must {
    Anything,
    Finite,
    Grow,
}

/// What became of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Samples that were taken in.
    pub samples: u64,
    /// Those that were not, by reason.
    pub refused: [u64; Refusal::ALL.len()],
    /// The first of these: line, column, and what is wrong.
    pub first: Option<(u64, usize, &'static str)>,
}

/// An answer that is being taken in.
pub(super) struct Pass<'a> {
    body: &'a [u8],
    format: Format,
    lines: Lines<'a>,
    /// What the answer says of its families, once that is needed.
    families: Option<HashMap<&'a [u8], Family<'a>>>,
    shapes: HashMap<&'a str, Result<Shape<'a>, Refusal>>,
    /// The entry that is expected next.
    cursor: usize,
    /// Entries that were seen.
    seen: usize,
    in_vain: u64,
    is_at_end: bool,
    /// What has become of it so far.
    pub outcome: Outcome,
}

#[derive(Debug, Default)]
struct Family<'a> {
    kind: exposition::Kind,
    unit: &'a [u8],
    help: std::borrow::Cow<'a, str>,
}

/// What samples of a name are.
#[derive(Clone, Copy)]
struct Shape<'a> {
    metric: MetricId,
    number: Number,
    must: Must,
    /// The label that tells the parts of a family apart.
    bound: Option<&'static str>,
    /// Whether newest values of several series are a value.
    is_gauge: bool,
    /// What its exemplars are called.
    family: &'a str,
}

impl Owner {
    /// The owner of a target's series, of which those of its table have so many.
    pub(super) fn of(target: &Target, config: &ScrapeConfig, count: &Rc<Cell<usize>>) -> Owner {
        Owner {
            job: target.job.clone(),
            instance: target.instance.clone(),
            labels: target.labels.clone(),
            honor_labels: config.honor_labels,
            max_label: config.max_label,
            max_samples: config.max_samples.into(),
            max_series: config.max_series as usize,
            count: Rc::clone(count),
        }
    }

    /// The labels of a series without the one that is `skipped`. Empty ones are none, as Prometheus has it.
    fn labels(&self, series: &exposition::Series<'_>, skipped: Option<&str>) -> Result<Labels, Refusal> {
        let (mut job, mut instance) = (self.job.as_str(), self.instance.as_str());
        let mut identity: Vec<(String, LabelText)> =
            Vec::with_capacity(series.labels.len() + self.labels.len());
        let is_ours = |name: &str| matches!(name, "job" | "instance") || self.labels.contains_key(name);
        let is_theirs = |name: &str| series.labels.iter().any(|(known, _)| *known == name);
        for (name, value) in series.labels.iter().filter(|(name, _)| Some(*name) != skipped) {
            if name.len() > self.max_label || value.len() > self.max_label {
                return Err(Refusal::Label);
            }
            match *name {
                "job" if self.honor_labels => job = value,
                "instance" if self.honor_labels => instance = value,
                _ if value.is_empty() => {}
                name if self.honor_labels || !is_ours(name) => {
                    identity.push((name.to_owned(), (&**value).into()))
                }
                name => {
                    let mut exported = format!("exported_{name}");
                    while is_ours(&exported) || is_theirs(&exported) {
                        exported.insert_str(0, "exported_");
                    }
                    identity.push((exported, (&**value).into()));
                }
            }
        }
        for (name, value) in &self.labels {
            let is_theirs = self.honor_labels && is_theirs(name);
            if !value.is_empty() && !is_theirs {
                identity.push((name.clone(), value.as_str().into()));
            }
        }
        let job = if job.is_empty() { "unknown" } else { job };
        let mut labels = Labels::new(&head(job, instance), &identity);
        labels.push_about("job", job.into());
        if !instance.is_empty() {
            labels.push_about("instance", instance.into());
        }
        Ok(labels)
    }
}

impl Known {
    pub(super) fn new(owner: Owner) -> Known {
        Known {
            owner,
            entries: Vec::new(),
            index: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            stale: Vec::new(),
            families: 0,
            epoch: 0,
            bytes: 0,
        }
    }

    /// For a target of a table, alone.
    pub fn of(target: &Target, config: &ScrapeConfig) -> Known {
        Known::new(Owner::of(target, config, &Rc::default()))
    }

    /// Takes in a whole answer at once; `None`: the event loop or the disk is behind, and what was taken in by then stays.
    pub fn take(&mut self, series: &Series, body: &[u8], format: Format) -> Option<Outcome> {
        let mut pass = self.begin(body, format);
        loop {
            let mut session = series.begin()?;
            let is_done = pass.step(self, &mut session);
            session.commit();
            if is_done {
                return Some(pass.outcome);
            }
        }
    }

    /// How many series there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Memory that they take here.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Begins to take in an answer.
    pub(super) fn begin<'a>(&mut self, body: &'a [u8], format: Format) -> Pass<'a> {
        let families = fingerprint(body);
        if families != self.families {
            self.families = families;
            self.set_aside();
        }
        self.epoch = self.epoch.wrapping_add(1).max(1);
        Pass {
            body,
            format,
            lines: Lines::of(body),
            families: None,
            shapes: HashMap::default(),
            cursor: 0,
            seen: 0,
            in_vain: 0,
            is_at_end: false,
            outcome: Outcome::default(),
        }
    }

    /// Forgets all of them.
    pub fn forget_all(&mut self, session: &mut Session<'_>) {
        self.set_aside();
        self.stale.drain(..).for_each(|series| session.forget(series));
    }

    /// Whether there is nothing to forget.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.stale.is_empty()
    }

    fn set_aside(&mut self) {
        self.count(|count| count.saturating_sub(self.entries.len()));
        self.stale.extend(self.entries.iter().flat_map(Entry::all));
        self.entries.clear();
        self.index.clear();
        self.bytes = 0;
    }

    fn count(&self, change: impl FnOnce(usize) -> usize) {
        self.owner.count.set(change(self.owner.count.get()));
    }

    /// The entry that a line begins with, if it is the one at this place.
    #[inline]
    fn expected(&self, place: usize, line: &[u8]) -> bool {
        let Some(Entry { key, .. }) = self.entries.get(place) else { return false };
        let Some(behind) = line.strip_prefix(&**key) else { return false };
        let is_blank = matches!(behind.first(), Some(b' ' | b'\t'));
        // Behind a name there may be blanks, and then labels.
        is_blank && (key.ends_with(b"}") || behind.trim_ascii_start().first() != Some(&b'{'))
    }

    fn find(&self, key: &[u8]) -> Option<usize> {
        let found =
            self.index.find(self.hasher.hash_one(key), |at| *self.entries[*at as usize].key == *key)?;
        Some(*found as usize)
    }

    fn add(&mut self, entry: Entry) -> usize {
        let at = self.entries.len();
        self.bytes += entry.key.len() + ENTRY;
        self.count(|count| count + 1);
        let Known { entries, index, hasher, .. } = self;
        let hash = |key: &[u8]| hasher.hash_one(key);
        index.insert_unique(hash(&entry.key), at as u32, |at| hash(&entries[*at as usize].key));
        entries.push(entry);
        at
    }

    /// Forgets what the last answer did not have.
    fn sweep(&mut self, session: &mut Session<'_>) {
        let epoch = self.epoch;
        let entries = self.entries.iter().filter(|entry| entry.seen == epoch);
        // Two ways to write a series, or to say what it is, may be one series.
        let there: FxHashSet<SeriesId> = entries.flat_map(Entry::all).collect();
        let before = self.entries.len();
        let mut gone = std::mem::take(&mut self.stale);
        self.entries.retain(|entry| {
            if entry.seen != epoch {
                gone.extend(entry.all());
            }
            entry.seen == epoch
        });
        gone.iter().filter(|series| !there.contains(series)).for_each(|series| session.forget(*series));
        self.count(|count| count.saturating_sub(before - self.entries.len()));
        self.bytes = self.entries.iter().map(|entry| entry.key.len() + ENTRY).sum();
        let Known { entries, index, hasher, .. } = self;
        let hash = |key: &[u8]| hasher.hash_one(key);
        index.clear();
        for (at, entry) in entries.iter().enumerate() {
            index.insert_unique(hash(&entry.key), at as u32, |at| hash(&entries[*at as usize].key));
        }
    }
}

impl Entry {
    /// Its series, and that of its exemplars.
    fn all(&self) -> impl Iterator<Item = SeriesId> + use<> {
        let exemplar = self.exemplar.as_ref().map(|exemplar| exemplar.0);
        [Some(self.series), exemplar].into_iter().flatten()
    }
}

impl<'a> Pass<'a> {
    /// Takes in a portion. Whether that was all.
    pub(super) fn step(&mut self, known: &mut Known, session: &mut Session<'_>) -> bool {
        for _ in 0..PORTION {
            if session.is_full() {
                return false;
            }
            let Some(line) = self.lines.next() else {
                self.is_at_end = true;
                break;
            };
            if is_meta(line) {
                // Of the families it was looked at before.
                if let Err(wrong) = Meta::read(line, self.format) {
                    self.refuse(Refusal::Syntax, wrong);
                }
                continue;
            }
            if self.outcome.samples >= known.owner.max_samples {
                let wrong = Wrong { at: 0, what: "more samples than max_samples allows" };
                self.refuse(Refusal::Limit, wrong);
                continue;
            }
            if let Err((refusal, wrong)) = self.sample(known, session, line) {
                self.refuse(refusal, wrong);
            }
        }
        if self.is_at_end && (self.seen < known.entries.len() || !known.stale.is_empty()) {
            known.sweep(session);
        }
        self.is_at_end
    }

    #[inline]
    fn sample(
        &mut self,
        known: &mut Known,
        session: &mut Session<'_>,
        line: &'a [u8],
    ) -> Result<(), (Refusal, Wrong)> {
        let syntax = |wrong| (Refusal::Syntax, wrong);
        let (place, end) = if known.expected(self.cursor, line) {
            (Some(self.cursor), known.entries[self.cursor].key.len())
        } else {
            let end = series_end(line).map_err(syntax)?;
            (known.find(&line[..end]), end)
        };
        let tail = Tail::read(line, end, self.format).map_err(syntax)?;
        let at = match place {
            Some(at) => at,
            None => match self.resolve(known, session, &line[..end], tail.value)? {
                Some(at) => at,
                // It went into the instance for all beyond a limit.
                None => {
                    self.outcome.samples += 1;
                    return Ok(());
                }
            },
        };
        self.cursor = at + 1;
        let epoch = known.epoch;
        let entry = &mut known.entries[at];
        if entry.seen == epoch {
            return Err((Refusal::Duplicate, Wrong { at: 0, what: "a series twice" }));
        }
        let bits = entry.must.bits(tail.value, entry.number);
        let bits = bits.ok_or((Refusal::Number, Wrong { at: end, what: "a value that cannot be" }))?;
        // A series whose value cannot be has none, as if it was not there.
        entry.seen = epoch;
        self.seen += 1;
        if !session.set(entry.series, bits) {
            self.renew(known, session, (at, &line[..end]), bits)?;
        }
        self.outcome.samples += 1;
        match tail.exemplar {
            None => Ok(()),
            Some(text) => self.exemplar(known, session, (at, &line[..end]), text).map_err(syntax),
        }
    }

    /// Finds the series of a sample that was not there the last time. `None`: it went into that of all beyond a limit.
    #[cold]
    fn resolve(
        &mut self,
        known: &mut Known,
        session: &mut Session<'_>,
        key: &'a [u8],
        value: f64,
    ) -> Result<Option<usize>, (Refusal, Wrong)> {
        let wrong = |what| Wrong { at: 0, what };
        let full = (Refusal::Limit, wrong("more series than max_series or [series] allow"));
        if self.in_vain >= MAX_IN_VAIN {
            return Err(full);
        }
        let (shape, labels) = self.meaning(&known.owner, session, key)?;
        let number = shape.must.bits(value, shape.number);
        let bits =
            number.ok_or((Refusal::Number, Wrong { at: key.len(), what: "a value that cannot be" }))?;
        let found = match known.owner.count.get() < known.owner.max_series {
            true => session.series(shape.metric, &labels),
            false => Err(Refused::Total),
        };
        match found {
            Ok(series) => {
                let Shape { number, must, .. } = shape;
                let entry = Entry { key: key.into(), series, number, must, seen: 0, exemplar: None };
                Ok(Some(known.add(entry)))
            }
            Err(refused) if refused.is_limit() => {
                self.in_vain += 1;
                let overflow = shape.is_gauge.then(|| session.overflow(shape.metric, &[]).ok()).flatten();
                match overflow.filter(|series| session.set(*series, bits)) {
                    Some(_) => {
                        session.overflowed();
                        Ok(None)
                    }
                    None => Err(full),
                }
            }
            Err(Refused::Labels | Refused::Name) => {
                Err((Refusal::Label, wrong("labels of more than 4 KiB, or more than 64 of them")))
            }
            Err(_) => Err(full),
        }
    }

    /// Finds a series anew that was forgotten, as nothing had come of it for long.
    #[cold]
    fn renew(
        &mut self,
        known: &mut Known,
        session: &mut Session<'_>,
        (at, key): (usize, &'a [u8]),
        bits: u64,
    ) -> Result<(), (Refusal, Wrong)> {
        let limit = (Refusal::Limit, Wrong { at: 0, what: "more series than [series] allows" });
        let (shape, labels) = self.meaning(&known.owner, session, key)?;
        let series = session.series(shape.metric, &labels).map_err(|_| limit)?;
        let entry = &mut known.entries[at];
        (entry.series, entry.exemplar) = (series, None);
        session.set(series, bits);
        Ok(())
    }

    /// What a sample is, and whose.
    fn meaning(
        &mut self,
        owner: &Owner,
        session: &mut Session<'_>,
        key: &'a [u8],
    ) -> Result<(Shape<'a>, Labels), (Refusal, Wrong)> {
        let series = exposition::Series::read(key).map_err(|wrong| (Refusal::Syntax, wrong))?;
        let wrong = |what| Wrong { at: 0, what };
        let shape = self.shape_of(session, series.name);
        let shape = shape.map_err(|refusal| (refusal, wrong("a metric that there can be no more of")))?;
        let long = "a label that is longer than max_label allows";
        let mut labels = owner.labels(&series, shape.bound).map_err(|refusal| (refusal, wrong(long)))?;
        if let Some(name) = shape.bound {
            let bound = series.labels.iter().find(|(known, _)| *known == name);
            let number = bound.and_then(|(_, value)| exposition::number(value.trim().as_bytes()));
            let Some(number) = number.filter(|number| !number.is_nan()) else {
                return Err((Refusal::Syntax, wrong("a bucket without le, or a quantile without quantile")));
            };
            let text = match number.is_infinite() && number > 0.0 {
                true => "+Inf".into(),
                false => LabelText::Double(number),
            };
            labels.push(name, text);
        }
        Ok((shape, labels))
    }

    /// What samples of this name are.
    fn shape_of(&mut self, session: &mut Session<'_>, name: &'a str) -> Result<Shape<'a>, Refusal> {
        if let Some(shape) = self.shapes.get(name) {
            return *shape;
        }
        let shape = self.shape(session, name);
        self.shapes.insert(name, shape);
        shape
    }

    /// Finds out what samples of this name are.
    fn shape(&mut self, session: &mut Session<'_>, name: &'a str) -> Result<Shape<'a>, Refusal> {
        use exposition::Kind as Of;
        let families = self.families.get_or_insert_with(|| families(self.body, self.format));
        let unknown = Family::default();
        // The family is called as the sample, or as the sample without a suffix that its kind has.
        let of_suffix = |suffix: &'static str, kinds: &[Of]| {
            let base = name.strip_suffix(suffix)?;
            let family = families.get(base.as_bytes()).filter(|family| kinds.contains(&family.kind))?;
            Some((base, suffix, family))
        };
        let own = families.get(name.as_bytes());
        let own = own.filter(|family| !matches!(family.kind, Of::Histogram | Of::GaugeHistogram));
        let (base, suffix, family) = own
            .map(|family| (name, "", family))
            .or_else(|| of_suffix("_total", &[Of::Counter]))
            .or_else(|| of_suffix("_bucket", &[Of::Histogram, Of::GaugeHistogram]))
            .or_else(|| of_suffix("_count", &[Of::Histogram, Of::Summary]))
            .or_else(|| of_suffix("_sum", &[Of::Histogram, Of::Summary]))
            .or_else(|| of_suffix("_gcount", &[Of::GaugeHistogram]))
            .or_else(|| of_suffix("_gsum", &[Of::GaugeHistogram]))
            .or_else(|| of_suffix("_info", &[Of::Info]))
            .or_else(|| of_suffix("_created", &[Of::Counter, Of::Histogram, Of::Summary, Of::GaugeHistogram]))
            .unwrap_or((name, "", &unknown));
        let is_instant = family.kind == Of::GaugeHistogram;
        let kind = if is_instant { Kind::Instant } else { Kind::Counter };
        let grows = if is_instant { Must::Anything } else { Must::Grow };
        let (of, part, kind, number, must, bound) = match (family.kind, suffix) {
            (_, "_bucket") => (base, Part::Bucket, kind, Number::U64, grows, Some("le")),
            (_, "_count" | "_gcount") => (base, Part::CountBelow("count"), kind, Number::U64, grows, None),
            // Where values are negative it does not only grow, and is a counter all the same.
            (_, "_sum" | "_gsum") => (base, Part::Below("sum"), kind, Number::Double, Must::Finite, None),
            (Of::Summary, "") => {
                (base, Part::Quantile, Kind::Instant, Number::Double, Must::Anything, Some("quantile"))
            }
            (Of::Counter, "" | "_total") => {
                (name, Part::Value, Kind::Counter, Number::Double, Must::Grow, None)
            }
            _ => (name, Part::Value, Kind::Instant, Number::Double, Must::Anything, None),
        };
        let unit = if suffix == "_created" { "s" } else { unit(family.unit, base) };
        let metric = Metric { name: of, part, help: &family.help, unit, kind, number };
        let metric = session.metric(&metric).map_err(|refused| match refused {
            Refused::Name => Refusal::Label,
            _ => Refusal::Limit,
        })?;
        let is_gauge = kind == Kind::Instant && part == Part::Value;
        Ok(Shape { metric, number, must, bound, is_gauge, family: of })
    }

    /// Tells of an exemplar, if it is another one than the last time.
    fn exemplar(
        &mut self,
        known: &mut Known,
        session: &mut Session<'_>,
        (at, key): (usize, &'a [u8]),
        text: &'a [u8],
    ) -> Result<(), Wrong> {
        let mark = hash(text);
        let entry = &known.entries[at];
        let before = entry.exemplar.as_ref().map(|exemplar| **exemplar);
        if let Some((series, last)) = before
            && last == mark
            && session.touch(series)
        {
            return Ok(());
        }
        let exemplar = Exemplar::read(text)?;
        if text.len() > MAX_EXEMPLAR {
            return Ok(());
        }
        let told = told(&exemplar);
        if let Some((series, _)) = before
            && session.set_text(series, told.clone().into())
        {
            known.entries[at].exemplar = Some(Box::new((series, mark)));
            return Ok(());
        }
        let Ok(read) = exposition::Series::read(key) else { return Ok(()) };
        let Ok(shape) = self.shape_of(session, read.name) else { return Ok(()) };
        let (part, kind, number) = (Part::Exemplar, Kind::Instant, Number::Double);
        let metric = Metric { name: shape.family, part, help: "", unit: "", kind, number };
        // The sample has been taken in: that there is no room for its exemplar changes nothing of that.
        let labels = known.owner.labels(&read, None);
        let series = session.metric(&metric).ok().zip(labels.ok());
        let series = series.and_then(|(metric, labels)| session.series(metric, &labels).ok());
        if let Some(series) = series {
            session.set_text(series, told.into());
            known.entries[at].exemplar = Some(Box::new((series, mark)));
        }
        Ok(())
    }

    fn refuse(&mut self, refusal: Refusal, wrong: Wrong) {
        self.outcome.refused[refusal as usize] += 1;
        self.outcome.first.get_or_insert((self.lines.number(), wrong.at + 1, wrong.what));
    }
}

impl Outcome {
    /// Whether it was no answer of a target at all.
    pub(super) fn is_garbage(&self) -> bool {
        self.samples == 0 && self.refused[Refusal::Syntax as usize] > 0
    }
}

impl Must {
    #[inline]
    fn bits(self, value: f64, number: Number) -> Option<u64> {
        let can_be = match self {
            Must::Anything => true,
            Must::Finite => value.is_finite(),
            Must::Grow => value.is_finite() && value >= 0.0,
        };
        if can_be { encode(value, number) } else { None }
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    hasher.finish()
}

/// A number that changes when what an answer says of its families does, in whatever order.
fn fingerprint(body: &[u8]) -> u64 {
    let metas = Lines::of(body).filter(|line| line.starts_with(b"# TYPE") || line.starts_with(b"# UNIT"));
    metas.fold(1, |sum, line| sum.wrapping_add(hash(line) | 1))
}

fn families(body: &[u8], format: Format) -> HashMap<&[u8], Family<'_>> {
    let mut families: HashMap<&[u8], Family<'_>> = HashMap::default();
    for line in Lines::of(body).filter(|line| is_meta(line)) {
        match Meta::read(line, format) {
            Ok(Meta::Type { name, kind }) => families.entry(name).or_default().kind = kind,
            Ok(Meta::Unit { name, unit }) => families.entry(name).or_default().unit = unit,
            Ok(Meta::Help { name, text }) => families.entry(name).or_default().help = text,
            Ok(Meta::End | Meta::Comment) | Err(_) => {}
        }
    }
    families
}

/// The unit in UCUM: what the answer says, or what the name ends in, as both formats want it of base units.
fn unit<'a>(told: &'a [u8], family: &str) -> &'a str {
    let told = std::str::from_utf8(told).unwrap_or_default();
    let word = if told.is_empty() {
        let name = family.strip_suffix("_total").unwrap_or(family);
        let ends = ["seconds", "milliseconds", "microseconds", "nanoseconds", "bytes"];
        let end = ends.into_iter().find(|end| name.strip_suffix(end).is_some_and(|rest| rest.ends_with('_')));
        end.unwrap_or_default()
    } else {
        told
    };
    match word {
        "seconds" => "s",
        "milliseconds" => "ms",
        "microseconds" => "us",
        "nanoseconds" => "ns",
        "bytes" => "By",
        "ratio" => "1",
        "celsius" => "Cel",
        "volts" => "V",
        "amperes" => "A",
        "joules" => "J",
        "grams" => "g",
        "meters" => "m",
        "watts" => "W",
        "hertz" => "Hz",
        _ => told,
    }
}

/// What is told of an exemplar: a word for each label, with the escapes of instances' names.
fn told(exemplar: &Exemplar<'_>) -> String {
    let mut text = String::new();
    for (name, value) in &exemplar.labels {
        escape(&mut text, name, "=");
        text.push('=');
        escape(&mut text, value, "");
        text.push(' ');
    }
    // With a point or an exponent: numbers of this format are doubles.
    text += &format!("value={:?}", exemplar.value);
    if let Some(time) = exemplar.time {
        text += &format!(" time={}.{:09}", time / 1_000_000_000, time % 1_000_000_000);
    }
    text
}

#[cfg(test)]
mod tests;
