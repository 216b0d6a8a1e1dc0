//! Samples from a collector: one fetch in each interval, without waiting for it. A lost connection is made
//! again, with a back-off.

use std::time::{Duration, Instant};

use jumpseat_tools::{archive, complain};
use pcp_client::{ClientError, Context, Fetched, StateChange, Waiting, without_password};
use pcp_model::{Desc, PmError, Pmid, Value, ValueSet, ValueType};

use super::model::Model;
use super::operand::{Operand, USUAL, shares};
use super::reader::Reader;
use super::sample::{Id, Reading, Sample};
use super::tape::{Seek, Tape};
use super::wait;

/// Metrics that one name may stand for.
const MAX_BELOW: usize = 100;
/// Metrics that are chosen if the collector has none of the usual ones.
const CHOSEN: usize = 8;
/// The first and the longest time between two attempts to connect again.
const BACK_OFF: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];
/// Samples between two attempts to find a metric that was not there.
const RETRY: u64 = 10;

/// What the view of spans is made of.
const VIEWS: [&str; 6] = [
    "jumpseat.span.count",
    "jumpseat.span.errors",
    "jumpseat.span.p50",
    "jumpseat.span.p95",
    "jumpseat.span.p99",
    "jumpseat.span.histogram",
];
/// Where records come from if the user watches none.
const RECORDS: &str = "jumpseat.event.highres_records";
/// What moves a client in the records.
const POSITION: &str = "jumpseat.control.client.position";
/// How far back the views begin.
const PAST: &str = "-1min";

/// A collector or a recording, and what is watched of it.
pub(crate) struct Monitor {
    context: Context,
    host: String,
    watches: Vec<Watch>,
    state: State,
    fetched: Fetched,
    /// What the fetch under way asks for.
    asked: Vec<Id>,
    reader: Reader,
    /// Definitions made so far: each has a name of its own.
    definitions: u64,
    last_id: Id,
    samples: u64,
    /// The recording, if the context is on one.
    tape: Option<Tape>,
}

/// Something that is watched.
struct Watch {
    id: Id,
    operand: Operand,
    found: Result<Desc, String>,
}

enum State {
    Idle,
    Fetching,
    Connecting { attempts: u32 },
    Lost { attempts: u32, again: Instant, reason: String },
}

/// What a step came to.
pub(crate) enum Outcome {
    /// Not done yet, or nothing to do.
    Nothing,
    /// A sample.
    Sample(Sample),
    /// The sample failed, or the connection is lost.
    Failed(String),
    /// The connection is there again.
    Connected,
}

/// The state of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// It is up.
    Up,
    /// It is being made again.
    Connecting,
    /// It will be made again.
    Lost {
        /// When.
        again: Instant,
        /// Why it is lost.
        reason: String,
    },
}

impl Monitor {
    /// Connects to a collector.
    ///
    /// # Errors
    /// Why it cannot be reached.
    pub(crate) fn open(spec: &str) -> Result<Monitor, String> {
        let mut context =
            Context::host(spec).map_err(|error| format!("{}: {error}", without_password(spec)))?;
        let host = context.host_name().unwrap_or_else(|_| without_password(spec).into_owned());
        Ok(Monitor::new(context, host, None))
    }

    /// Plays archives. `tape` finds the place in them.
    ///
    /// # Errors
    /// Why they cannot be read.
    pub(crate) fn replay(
        names: &str,
        tape: impl FnOnce(&mut Context) -> Result<Tape, String>,
    ) -> Result<Monitor, String> {
        let mut context = archive(names).map_err(|error| error.to_string())?;
        let host = context.host_name().unwrap_or_else(|_| names.to_owned());
        let tape = tape(&mut context)?;
        // Its end was looked for, and the screen is not taken yet.
        context.take_mended().iter().for_each(|mended| complain!("jumpseat top: Warning: {mended}"));
        Ok(Monitor::new(context, host, Some(tape)))
    }

    fn new(context: Context, host: String, tape: Option<Tape>) -> Monitor {
        Monitor {
            context,
            host,
            watches: Vec::new(),
            state: State::Idle,
            fetched: Fetched::new(),
            asked: Vec::new(),
            reader: Reader::default(),
            definitions: 0,
            last_id: 0,
            samples: 0,
            tape,
        }
    }

    /// Whether it is a recording that has come to its end.
    pub(crate) fn is_over(&self) -> bool {
        self.tape.as_ref().is_some_and(|tape| tape.is_over(&self.context))
    }

    /// Whether it is a recording.
    pub(crate) fn is_recorded(&self) -> bool {
        self.tape.is_some()
    }

    /// The time between two samples of a recording has changed.
    pub(crate) fn set_interval(&mut self, interval: Duration, model: &mut Model) -> Result<(), String> {
        self.settle(model);
        let Some(tape) = &mut self.tape else { return Ok(()) };
        tape.set_interval(&mut self.context, interval).map_err(|error| error.to_string())
    }

    /// Shows another place of a recording, with the samples before it. Each row begins anew.
    pub(crate) fn seek(&mut self, seek: Seek, model: &mut Model) -> Result<(), String> {
        self.settle(model);
        let Some(tape) = &mut self.tape else { return Ok(()) };
        // What the user sees is where the step starts from, not what was read ahead.
        let shown = model.at.unwrap_or_else(|| self.context.mode().1);
        let target = tape.seek(&mut self.context, seek, shown).map_err(|error| error.to_string())?;
        let samples = model.samples;
        let hidden: Vec<Id> = model.hidden.iter().map(|metric| metric.id).collect();
        *model = Model { samples, ..Model::default() };
        for watch in &self.watches {
            match hidden.contains(&watch.id) {
                true => model.add_hidden(watch.id, watch.operand.name()),
                false => model.add(watch.id, watch.operand.name()),
            }
            watch.describe(model);
        }
        while self.context.mode().1 <= target && self.begin(model) {
            self.settle(model);
        }
        Ok(())
    }

    /// The name of the host that the metrics are of.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Watches a metric, all metrics below a name, or an expression.
    ///
    /// # Errors
    /// Why not, in PCP's words; for expressions with a mark at the place.
    pub(crate) fn add(&mut self, text: &str, model: &mut Model) -> Result<(), String> {
        self.settle(model);
        if self.link() != Link::Up {
            return Err("there is no connection: try again when it is back".to_owned());
        }
        let all = match Operand::parse(text) {
            Operand::Metric(name) => {
                let mut names = match self.context.traverse(&name) {
                    Ok(names) => names,
                    Err(error) if error.code() == PmError::NAME => return Err(self.unknown(&name)),
                    Err(error) => return Err(format!("{name}: {error}")),
                };
                if name.is_empty() || names.is_empty() {
                    return Err(self.unknown(&name));
                }
                // A name near the root would stand for all there is.
                names.truncate(MAX_BELOW);
                names.into_iter().map(Operand::Metric).collect()
            }
            expression => vec![expression],
        };
        self.add_all(all, model)
    }

    /// Watches operands: all or none, as half of what was asked for would look like all.
    fn add_all(&mut self, all: Vec<Operand>, model: &mut Model) -> Result<(), String> {
        let mut watches = Vec::with_capacity(all.len());
        for operand in all {
            self.last_id += 1;
            let found = self.find(&operand)?;
            watches.push(Watch { id: self.last_id, operand, found: Ok(found) });
        }
        for watch in watches {
            model.add(watch.id, watch.operand.name());
            watch.describe(model);
            self.watches.push(watch);
        }
        Ok(())
    }

    /// That there is no such name, and which one must have been meant.
    fn unknown(&mut self, name: &str) -> String {
        let near = self.context.nearest_name(name);
        let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
        format!("{name}: {}{hint}", PmError::NAME)
    }

    /// Watches what the user has named at the start. What the collector does not know yet is a row that says so, with
    /// the nearest name, and is looked for again and again.
    ///
    /// # Errors
    /// The expression that is none.
    pub(crate) fn add_named(&mut self, text: &str, model: &mut Model) -> Result<(), String> {
        let Err(error) = self.add(text, model) else { return Ok(()) };
        match Operand::parse(text) {
            Operand::Metric(name) if !name.is_empty() => {
                self.last_id += 1;
                model.add(self.last_id, &name);
                let watch = Watch { id: self.last_id, operand: Operand::Metric(name), found: Err(error) };
                // Now, as there may be nothing else to sample.
                model.explain(watch.id, watch.refusal().unwrap_or_default());
                self.watches.push(watch);
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Watches what a layout has. As with [`Monitor::add_named`] no metric ends it.
    ///
    /// # Errors
    /// The expression that is none.
    pub(crate) fn add_operand(&mut self, operand: Operand, model: &mut Model) -> Result<(), String> {
        match operand {
            Operand::Metric(name) => self.add_named(&name, model),
            expression => self.add_all(vec![expression], model),
        }
    }

    /// What the user watches.
    pub(crate) fn operands(&self, model: &Model) -> Vec<Operand> {
        let shown = |watch: &&Watch| model.metrics.iter().any(|metric| metric.id == watch.id);
        self.watches.iter().filter(shown).map(|watch| watch.operand.clone()).collect()
    }

    /// The longest text that the names of metrics go on with after this one's last word, and their next parts.
    pub(crate) fn complete(&mut self, text: &str, model: &mut Model) -> (String, Vec<String>) {
        self.settle(model);
        let part_of_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_');
        let start = text
            .rfind(|c: char| !part_of_name(c))
            .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
        let (before, word) = text.split_at(start);
        let (parent, begun) = word.rsplit_once('.').unwrap_or(("", word));
        let mut children = match self.link() {
            Link::Up => self.context.children(parent).unwrap_or_default(),
            _ => Vec::new(),
        };
        children.retain(|child| child.name.starts_with(begun));
        let mut names: Vec<String> = children
            .iter()
            .map(|child| format!("{}{}", child.name, if child.leaf { "" } else { "." }))
            .collect();
        names.sort();
        let Some(first) = names.first() else { return (text.to_owned(), names) };
        let common = names.iter().fold(first.as_str(), |common, name| {
            let same =
                common.char_indices().zip(name.chars()).find(|((_, a), b)| a != b).map(|((at, _), _)| at);
            common.get(..same.unwrap_or(common.len().min(name.len()))).unwrap_or_default()
        });
        let point = if parent.is_empty() { "" } else { "." };
        (format!("{before}{parent}{point}{common}"), names)
    }

    /// Watches what is usually interesting, of what there is.
    pub(crate) fn add_usual(&mut self, model: &mut Model) {
        for operand in self.cpus().map(shares).unwrap_or_default() {
            // Not every kernel tells of stolen time.
            let _ = self.add_all(vec![operand], model);
        }
        for text in USUAL {
            // A collector need not have all of them.
            let _ = self.add(text, model);
        }
        if !self.watches.is_empty() {
            return;
        }
        let names = self.context.traverse("").unwrap_or_default();
        for name in names {
            let numeric = self.find(&Operand::Metric(name.clone())).is_ok_and(|d| d.value_type.is_numeric());
            if numeric && self.add(&name, model).is_ok() && self.watches.len() >= CHOSEN {
                break;
            }
        }
    }

    /// Watches what the views of events and spans are made of, if that is not watched yet. What the collector does
    /// not have the views tell.
    pub(crate) fn add_views(&mut self, model: &mut Model) {
        if !model.hidden.is_empty() {
            return;
        }
        self.settle(model);
        let records = !model.metrics.iter().any(|metric| metric.is_event);
        for name in VIEWS.into_iter().chain(records.then_some(RECORDS)) {
            let operand = Operand::Metric(name.to_owned());
            let found = self.find(&operand);
            self.last_id += 1;
            let watch = Watch { id: self.last_id, operand, found };
            model.add_hidden(watch.id, name);
            watch.describe(model);
            self.watches.push(watch);
        }
        if self.tape.is_none() {
            // What happened just before is what one wants to look at; an agent that cannot go back begins now.
            let _ = self.go_back();
        }
    }

    /// Has the records of the last minute come first.
    fn go_back(&mut self) -> Result<(), ClientError> {
        let pmid = self.context.pmid(POSITION)?;
        self.context.store(&[ValueSet::singular(pmid, Value::String(PAST.into()))])
    }

    /// Watches something no more.
    pub(crate) fn remove(&mut self, id: Id, model: &mut Model) {
        self.watches.retain(|watch| watch.id != id);
        model.remove(id);
    }

    /// It is time for a sample. False if none can be taken now.
    pub(crate) fn begin(&mut self, model: &mut Model) -> bool {
        match self.state {
            State::Idle => {}
            // It is late: the next one comes when this one is here.
            State::Fetching => return true,
            State::Connecting { .. } | State::Lost { .. } => return false,
        }
        self.samples += 1;
        // Expressions are left alone: each attempt would be another definition.
        if self.samples.is_multiple_of(RETRY) {
            self.find_missing(model, |operand| matches!(operand, Operand::Metric(_)));
        }
        let found = |watch: &Watch| Some((watch.id, watch.found.as_ref().ok()?.pmid));
        let (asked, pmids): (Vec<Id>, Vec<Pmid>) = self.watches.iter().filter_map(found).unzip();
        self.asked = asked;
        if pmids.is_empty() {
            return true;
        }
        match self.context.start_fetch(&pmids) {
            Ok(()) => self.state = State::Fetching,
            Err(error) => self.lose(error.to_string(), 0),
        }
        !matches!(self.state, State::Lost { .. })
    }

    /// Goes on with what is under way, without waiting for the collector's values.
    pub(crate) fn advance(&mut self, model: &mut Model) -> Outcome {
        match self.state {
            State::Idle => Outcome::Nothing,
            State::Lost { again, attempts, .. } if Instant::now() >= again => {
                self.state = State::Connecting { attempts };
                match self.context.start_reconnect() {
                    Ok(()) => Outcome::Nothing,
                    Err(error) => self.fail(error, attempts + 1),
                }
            }
            State::Lost { .. } => Outcome::Nothing,
            State::Connecting { attempts } => match self.context.advance(&mut self.fetched) {
                Ok(false) => Outcome::Nothing,
                Err(error) => self.fail(error, attempts + 1),
                Ok(true) => {
                    self.state = State::Idle;
                    // Another collector may answer now, with other instances by the same numbers.
                    self.reader = Reader::default();
                    for watch in &mut self.watches {
                        watch.found = Err(PmError::AGAIN.to_string());
                    }
                    self.find_missing(model, |_| true);
                    Outcome::Connected
                }
            },
            State::Fetching => match self.context.advance(&mut self.fetched) {
                Ok(false) => Outcome::Nothing,
                Ok(true) => {
                    self.state = State::Idle;
                    Outcome::Sample(self.sample(model))
                }
                // The collector answered: the connection is as good as before.
                Err(ClientError::Pcp(error)) => {
                    self.state = State::Idle;
                    Outcome::Failed(error.to_string())
                }
                Err(error) => self.fail(error, 0),
            },
        }
    }

    /// What has to come before [`Monitor::advance`] can go on.
    pub(crate) fn waiting(&self) -> Option<Waiting<'_>> {
        match self.state {
            State::Fetching | State::Connecting { .. } => self.context.waiting(),
            State::Idle | State::Lost { .. } => None,
        }
    }

    /// When to call [`Monitor::advance`] at the latest.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Idle => None,
            State::Lost { again, .. } => Some(again),
            // Nothing to wait for means that it can go on at once.
            _ => self.context.waiting().map_or_else(|| Some(Instant::now()), |waiting| waiting.deadline),
        }
    }

    /// Whether a sample is under way.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.state, State::Fetching)
    }

    /// The state of the connection.
    pub(crate) fn link(&self) -> Link {
        match &self.state {
            State::Idle | State::Fetching => Link::Up,
            State::Connecting { .. } => Link::Connecting,
            State::Lost { again, reason, .. } => Link::Lost { again: *again, reason: reason.clone() },
        }
    }

    /// Ends a fetch that is under way: other requests can be made then.
    fn settle(&mut self, model: &mut Model) {
        while self.is_busy() {
            match self.advance(model) {
                Outcome::Sample(sample) => model.apply(sample),
                Outcome::Failed(_) => model.gap(),
                Outcome::Nothing | Outcome::Connected => {
                    // Nothing may overtake the fetch; the context gives it up when it is late.
                    if let Some(waiting) = self.waiting() {
                        wait::until(&[wait::of_client(waiting)], waiting.deadline);
                    }
                }
            }
        }
    }

    fn find(&mut self, operand: &Operand) -> Result<Desc, String> {
        let pmid = match operand {
            Operand::Metric(name) => match self.context.pmid(name) {
                Ok(pmid) => pmid,
                Err(error) if error.code() == PmError::NAME => return Err(self.unknown(name)),
                Err(error) => return Err(format!("{name}: {error}")),
            },
            Operand::Expression { name, text } => {
                self.definitions += 1;
                // The name that the user gave may be taken, by a metric or a definition before.
                let own = format!("jumpseat_top.expression{}", self.definitions);
                self.context.add_derived(&own, text).map_err(|error| match error {
                    ClientError::Derived(error) => error.report(name, text),
                    error => format!("{name}: {error}"),
                })?
            }
        };
        self.context.desc(pmid).map_err(|error| format!("{}: {error}", operand.name()))
    }

    /// How many CPUs the host has.
    fn cpus(&mut self) -> Option<u32> {
        let pmid = self.context.pmid("hinv.ncpu").ok()?;
        let desc = self.context.desc(pmid).ok()?;
        let mut fetched = Fetched::new();
        self.context.fetch(&[pmid], &mut fetched).ok()?;
        let (_, value) = fetched.set(0)?.values.ok()?.iter().next()?;
        match value.to_value(desc.value_type).ok()?.convert(ValueType::U32).ok()? {
            Value::U32(cpus) => Some(cpus),
            _ => None,
        }
    }

    /// Looks again for what was not there.
    fn find_missing(&mut self, model: &mut Model, which: impl Fn(&Operand) -> bool) {
        for at in 0..self.watches.len() {
            let Some(watch) = self.watches.get(at) else { break };
            if watch.found.is_ok() || !which(&watch.operand) {
                continue;
            }
            let operand = watch.operand.clone();
            let found = self.find(&operand);
            if let Some(watch) = self.watches.get_mut(at) {
                watch.found = found;
                watch.describe(model);
            }
        }
    }

    /// Reads what was fetched.
    fn sample(&mut self, model: &mut Model) -> Sample {
        let mut readings = Vec::with_capacity(self.watches.len());
        for (at, &id) in self.asked.iter().enumerate() {
            let watch = self.watches.iter().find(|watch| watch.id == id);
            let (Some(watch), Some(set)) = (watch, self.fetched.set(at)) else { continue };
            let Ok(desc) = &watch.found else { continue };
            let mut reading = self.reader.read(&mut self.context, desc, set);
            if let Some(tape) = &mut self.tape {
                tape.without_shown(id, &mut reading);
            }
            readings.push((id, reading));
        }
        for watch in &self.watches {
            readings.extend(watch.refusal().map(|error| (watch.id, Reading::Failed(error.to_owned()))));
        }
        if self.fetched.changes != StateChange::default() {
            // An agent has come or gone: what its metrics and instances are may be another thing now.
            self.reader = Reader::default();
            self.find_missing(model, |_| true);
        }
        Sample { at: self.fetched.timestamp, readings }
    }

    fn fail(&mut self, error: ClientError, attempts: u32) -> Outcome {
        let reason = error.to_string();
        self.lose(reason.clone(), attempts);
        if let (ClientError::TooSoon(left), State::Lost { again, .. }) = (error, &mut self.state) {
            // The context has a back-off of its own.
            *again = Instant::now() + left;
        }
        Outcome::Failed(reason)
    }

    fn lose(&mut self, reason: String, attempts: u32) {
        let [first, longest] = BACK_OFF;
        // The shift is bounded, as attempts are not.
        let pause = first.saturating_mul(1 << attempts.min(10)).min(longest);
        self.state = State::Lost { attempts, again: Instant::now() + pause, reason };
    }
}

impl Watch {
    /// Why it cannot be had, without its name, which its row has already.
    fn refusal(&self) -> Option<&str> {
        let error = self.found.as_ref().err()?;
        let bare = error.strip_prefix(self.operand.name()).and_then(|rest| rest.strip_prefix(": "));
        Some(bare.unwrap_or(error))
    }

    /// Tells the model what the metric is.
    fn describe(&self, model: &mut Model) {
        if let Ok(desc) = &self.found {
            model.describe(self.id, desc);
        }
    }
}
