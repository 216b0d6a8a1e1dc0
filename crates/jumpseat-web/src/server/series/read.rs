//! Values out of archives, as they were recorded.
//!
//! ```text
//! plans --by archive--> seek to the window, record by record, of each the metrics asked for --> samples of each plan
//! ```
//!
//! **Invariant:** work is limited: records that are looked at, values that are kept, and time. What reaches a limit is refused, not
//! cut. An archive that cannot be read, or not on, gives what could be read.
//!
//! **Cost:** of each archive with records in the window its index and the records in the window; one walk for all its metrics, which
//! are looked up in a record only if they are not where they were in the one before. What metrics are is known of the plan: metadata is
//! read only where an instance's number had several names. The newest samples are looked for from the end.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use pcp_archive::{Archive, ArchiveError, Direction, Place, Record, Records, Step};
use pcp_client::{ClientError, Context, Fetched, Mode};
use pcp_model::{Inst, PmError, Pmid, Timestamp, ValueType};
use pcp_pdu::{SetRef, TypedRef};

use super::language::Window;
use super::plan::{Part, Plan, What};
use super::sampling;
use super::values::{Datum, Of, Point, Sample, Values};

/// Most values of a request, and of all requests at a time.
pub(super) const MAX_VALUES: usize = 250_000;
const MAX_VALUES_OF_ALL: usize = 1_000_000;
/// Most records a request may have looked at, and how long.
const MAX_RECORDS: usize = 20_000_000;
const PATIENCE: Duration = Duration::from_secs(40);
/// How often the time is looked at: each so many records.
const LOOK: usize = 64;
/// Most series of whose values a request may ask.
pub(super) const MAX_SERIES: usize = 4000;

/// Why values cannot be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Limit {
    #[error("more than {MAX_VALUES} values: ask for a shorter time, a longer interval or fewer series")]
    Values,
    #[error("too many records to look through: ask for a shorter time or fewer series")]
    Records,
    #[error("more than {MAX_SERIES} series: ask for fewer")]
    Series,
    #[error("it takes too long: ask for a shorter time or fewer series")]
    Time,
    #[error("the server is busy with other requests: try again later")]
    Busy,
}

/// Values of all requests that are being answered.
#[derive(Clone, Debug, Default)]
pub(super) struct Budget(Arc<AtomicUsize>);

/// What a request has used, until its answer has been sent.
#[derive(Debug)]
pub(super) struct Spent {
    budget: Budget,
    values: usize,
    records: usize,
    series: usize,
    begun: Instant,
}

impl Spent {
    pub(super) fn begin(budget: &Budget) -> Spent {
        Spent { budget: budget.clone(), values: 0, records: 0, series: 0, begun: Instant::now() }
    }

    /// Whether there is time left: to be asked before each piece of work that may take long.
    pub(super) fn time(&self) -> Result<(), Limit> {
        if self.begun.elapsed() > PATIENCE { Err(Limit::Time) } else { Ok(()) }
    }

    /// Series to be read, of the request and of all expressions in it.
    pub(super) fn series(&mut self, count: usize) -> Result<(), Limit> {
        self.series = self.series.saturating_add(count);
        if self.series > MAX_SERIES { Err(Limit::Series) } else { Ok(()) }
    }

    fn values(&mut self, count: usize) -> Result<(), Limit> {
        self.values += count;
        let of_all = self.budget.0.fetch_add(count, Ordering::Relaxed) + count;
        if self.values > MAX_VALUES {
            return Err(Limit::Values);
        }
        if of_all > MAX_VALUES_OF_ALL { Err(Limit::Busy) } else { Ok(()) }
    }

    /// Values that were not taken after all.
    fn back(&mut self, count: usize) {
        let count = count.min(self.values);
        self.values -= count;
        self.budget.0.fetch_sub(count, Ordering::Relaxed);
    }

    fn record(&mut self) -> Result<(), Limit> {
        self.records += 1;
        if self.records > MAX_RECORDS {
            return Err(Limit::Records);
        }
        if self.records.is_multiple_of(LOOK) { self.time() } else { Ok(()) }
    }
}

impl Drop for Spent {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.values, Ordering::Relaxed);
    }
}

/// Reads the values of series that a window wants. For the pool: waits for the disk.
///
/// # Errors
/// [`Limit`].
pub(super) fn read(plans: &[Plan], window: &Window, spent: &mut Spent) -> Result<Vec<Values>, Limit> {
    let mut all: Vec<Vec<Sample>> = plans.iter().map(|_| Vec::new()).collect();
    let mut archives: BTreeMap<(Timestamp, &Path), Vec<(usize, &Part)>> = BTreeMap::new();
    for (number, plan) in plans.iter().enumerate() {
        for part in plan.parts.iter().filter(|part| is_in(part, window)) {
            archives.entry((part.start, &part.archive)).or_default().push((number, part));
        }
    }
    let overlapping: Vec<bool> = plans.iter().map(Plan::overlaps).collect();
    // Samples to have of each series, if there are that many: of those in order nothing later can count.
    let enough =
        window.count.filter(|_| window.interval == 0).map(|count| count.saturating_add(window.offset));
    let order: Vec<_> = match window.newest_first {
        true => archives.into_iter().rev().collect(),
        false => archives.into_iter().collect(),
    };
    for ((_, archive), mut wanted) in order {
        spent.time()?;
        // What has enough already, unless an older archive may have later records.
        wanted.retain(|(number, _)| {
            overlapping[*number] || enough.is_none_or(|enough| all[*number].len() < enough)
        });
        let (derived, recorded): (Vec<_>, Vec<_>) =
            wanted.into_iter().partition(|(_, part)| matches!(part.metric, What::Derived(_)));
        let mut walk = Walk { plans, window, enough, spent, all: &mut all };
        for (number, part) in derived {
            // Opens the archive anew.
            walk.spent.time()?;
            tolerated(archive, walk.derived(number, part))?;
        }
        if !recorded.is_empty() {
            tolerated(archive, walk.recorded(archive, &recorded))?;
        }
    }
    let finish = |(plan, mut samples): (&Plan, Vec<Sample>)| {
        samples.sort_by_key(|sample| sample.time);
        // Two archives that tell of the same time: the first counts.
        samples.dedup_by_key(|sample| sample.time);
        let before: usize = samples.iter().map(|sample| sample.points.len()).sum();
        let values = Values {
            id: plan.id,
            source: plan.source,
            name: plan.name.clone(),
            desc: plan.desc,
            instances: Arc::clone(&plan.instances),
            samples: sampling::select(samples, window),
        };
        spent.back(before.saturating_sub(values.len()));
        values
    };
    Ok(plans.iter().zip(all).map(finish).collect())
}

/// Why reading ends.
enum Ended {
    Limit(Limit),
    Archive(ArchiveError),
    Client(ClientError),
}

impl From<Limit> for Ended {
    fn from(limit: Limit) -> Ended {
        Ended::Limit(limit)
    }
}

impl From<ArchiveError> for Ended {
    fn from(error: ArchiveError) -> Ended {
        Ended::Archive(error)
    }
}

impl From<ClientError> for Ended {
    fn from(error: ClientError) -> Ended {
        Ended::Client(error)
    }
}

/// An archive that cannot be read costs its values; a limit costs the request.
fn tolerated(archive: &Path, ended: Result<(), Ended>) -> Result<(), Limit> {
    match ended {
        Ok(()) => {}
        Err(Ended::Limit(limit)) => return Err(limit),
        Err(Ended::Archive(error)) => tracing::debug!("values are missing: {error}"),
        Err(Ended::Client(error)) => tracing::debug!("{}: values are missing: {error}", archive.display()),
    }
    Ok(())
}

fn is_in(part: &Part, window: &Window) -> bool {
    let is_too_early = window.start.is_some_and(|start| part.end.is_some_and(|end| end.as_nanos() < start));
    let is_too_late = window.finish.is_some_and(|finish| part.start.as_nanos() > finish);
    !is_too_early && !is_too_late
}

/// Reading of one archive.
struct Walk<'a> {
    plans: &'a [Plan],
    window: &'a Window,
    enough: Option<usize>,
    spent: &'a mut Spent,
    all: &'a mut Vec<Vec<Sample>>,
}

impl Walk<'_> {
    fn recorded(&mut self, name: &Path, wanted: &[(usize, &Part)]) -> Result<(), Ended> {
        let mut archive = Records::open(name)?;
        // With metadata, once it is needed.
        let mut described: Option<Archive> = None;
        let mut by_pmid: HashMap<Pmid, Metric<'_>> = HashMap::default();
        for (number, part) in wanted {
            let What::Recorded(pmid) = part.metric else { continue };
            let kind = self.plans[*number].desc.value_type;
            let wanted = Wanted { number: *number, part, kind, left: self.enough };
            by_pmid.entry(pmid).or_default().wanted.push(wanted);
        }
        let backward = self.window.newest_first;
        let mut at = match self.window.start {
            _ if backward => archive.last()?,
            Some(start) => archive.seek(Timestamp::from_nanos(start), Direction::Forward)?,
            None => archive.first(),
        };
        // Instances whose number has several names need the archive, while a record of it is looked at: afterwards, then.
        let mut unnamed: Vec<(usize, Sample, Unnamed)> = Vec::new();
        let mut left: usize = by_pmid.values().map(|metric| metric.wanted.len()).sum();
        while left > 0 {
            let Some((place, after)) = stepped(&mut archive, at, backward)? else { break };
            at = after;
            self.spent.record()?;
            let Some(place) = place else { continue };
            let record = archive.record(place)?;
            let time = record.timestamp;
            if self.is_behind(time) {
                break;
            }
            if self.is_before(time) || time.as_nanos() <= 0 {
                continue;
            }
            if !by_pmid.iter().all(|(pmid, metric)| metric.is_in(*pmid, &record)) {
                by_pmid.values_mut().for_each(|metric| metric.at = None);
                for (at, set) in record.sets().enumerate() {
                    if let Some(metric) = by_pmid.get_mut(&set.pmid) {
                        metric.at.get_or_insert(at);
                    }
                }
            }
            for metric in by_pmid.values_mut() {
                let Some(set) = metric.at.and_then(|at| record.set(at)) else { continue };
                for wanted in metric.wanted.iter_mut().filter(|wanted| wanted.left != Some(0)) {
                    let (sample, odd) = wanted.sample(time, &set);
                    if sample.points.is_empty() && odd.is_empty() {
                        continue;
                    }
                    self.spent.values(sample.points.len() + odd.len())?;
                    if let Some(count) = &mut wanted.left {
                        *count -= 1;
                        left -= usize::from(*count == 0);
                    }
                    if odd.is_empty() {
                        self.all[wanted.number].push(sample);
                    } else {
                        unnamed.push((wanted.number, sample, odd));
                    }
                }
            }
            for (number, mut sample, odd) in unnamed.drain(..) {
                let Some((_, part)) = wanted.iter().find(|(known, _)| *known == number) else { continue };
                let described = match &mut described {
                    Some(described) => described,
                    none => none.insert(Archive::open(&name.to_string_lossy())?),
                };
                let names: HashMap<Inst, String> = described
                    .instances(part.indom, time)
                    .map(|all| {
                        all.map(|(inst, name)| (inst, String::from_utf8_lossy(name).into_owned())).collect()
                    })
                    .unwrap_or_default();
                for (inst, datum) in odd {
                    let place = part.instances.place(inst, || names.get(&inst).cloned());
                    let of = place.map(Of::Instance);
                    sample.points.extend(of.map(|of| Point { time: sample.time, of, datum }));
                }
                self.all[number].push(sample);
            }
        }
        Ok(())
    }

    /// A derived metric: a fetch of its operands for each record that has any of them.
    fn derived(&mut self, number: usize, part: &Part) -> Result<(), Ended> {
        let What::Derived(expression) = &part.metric else { return Ok(()) };
        let mut context = Context::archive(&part.archive.to_string_lossy())?;
        let pmid = context.add_derived(DERIVED, expression)?;
        let kind = context.desc(pmid).map_err(Ended::Client)?.value_type;
        let origin = self.window.start.map(|start| Timestamp::from_nanos(start).max(part.start));
        context.set_mode(Mode::Forward, Some(origin.unwrap_or(part.start)))?;
        let mut wanted = Wanted { number, part, kind, left: self.enough };
        if self.window.newest_first {
            // Rates need the records in front: from the start, then, and the last ones are kept.
            wanted.left = None;
        }
        let mut out = Fetched::new();
        loop {
            match context.fetch(&[pmid], &mut out) {
                Ok(_) => {}
                Err(ClientError::Pcp(PmError::EOL)) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            self.spent.record()?;
            let time = out.timestamp;
            if self.window.finish.is_some_and(|finish| time.as_nanos() > finish) || wanted.left == Some(0) {
                return Ok(());
            }
            let Some(set) = out.find(pmid) else { continue };
            let (mut sample, odd) = wanted.sample(time, &set);
            for (inst, datum) in odd {
                let names = context.instances_at(part.indom, time).unwrap_or_default();
                let name = || names.iter().find(|known| known.id == inst).map(|known| known.name.clone());
                let of = part.instances.place(inst, name).map(Of::Instance);
                sample.points.extend(of.map(|of| Point { time: sample.time, of, datum }));
            }
            if sample.points.is_empty() {
                continue;
            }
            self.spent.values(sample.points.len())?;
            wanted.left = wanted.left.map(|left| left - 1);
            self.all[number].push(sample);
            if self.window.newest_first
                && let Some(enough) = self.enough
                && self.all[number].len() > 2 * enough.max(64)
            {
                let count = self.all[number].len() - enough;
                let gone: usize = self.all[number].drain(..count).map(|sample| sample.points.len()).sum();
                self.spent.back(gone);
            }
        }
    }

    /// Whether nothing that follows a time can be in the window.
    fn is_behind(&self, time: Timestamp) -> bool {
        !self.window.newest_first && self.window.finish.is_some_and(|finish| time.as_nanos() > finish)
    }

    fn is_before(&self, time: Timestamp) -> bool {
        self.window.start.is_some_and(|start| time.as_nanos() < start)
    }
}

/// The name that a derived metric of a query has in its context.
pub(super) const DERIVED: &str = "query.derived";

/// The next record, if the next is one, and the place behind it; `None` at the end.
fn stepped(
    archive: &mut Records,
    at: Place,
    backward: bool,
) -> Result<Option<(Option<pcp_archive::RecordPlace>, Place)>, ArchiveError> {
    let step = if backward { archive.previous(at)? } else { archive.next(at)? };
    Ok(step.map(|step| match step {
        Step::Record(place, after) => (Some(place), after),
        Step::Gap(_, after) => (None, after),
    }))
}

/// Values of instances whose number had several names: which one, the time tells.
type Unnamed = Vec<(Inst, Datum)>;

/// A metric that is looked for in an archive.
#[derive(Default)]
struct Metric<'a> {
    /// Which set of the last record was its: records mostly are alike.
    at: Option<usize>,
    wanted: Vec<Wanted<'a>>,
}

impl Metric<'_> {
    /// Whether its set is where it was in the record before.
    fn is_in(&self, pmid: Pmid, record: &Record<'_>) -> bool {
        self.at.and_then(|at| record.set(at)).is_some_and(|set| set.pmid == pmid)
    }
}

/// A series that is looked for in an archive.
struct Wanted<'a> {
    number: usize,
    part: &'a Part,
    kind: ValueType,
    left: Option<usize>,
}

impl Wanted<'_> {
    /// What a record has of it; and values of instances whose number has several names.
    fn sample(&self, time: Timestamp, set: &SetRef<'_>) -> (Sample, Unnamed) {
        let time = i64::try_from(time.as_nanos().div_euclid(1000)).unwrap_or(i64::MAX);
        let mut sample = Sample { time, points: Vec::new() };
        let mut odd = Vec::new();
        // Where there was an error there is no value.
        let Ok(values) = &set.values else { return (sample, odd) };
        sample.points.reserve(values.len());
        for (inst, value) in values.iter() {
            let Some(datum) = datum(value.typed(self.kind)) else { continue };
            if self.part.indom == pcp_model::InDom::NULL {
                sample.points.push(Point { time, of: Of::Metric, datum });
                break;
            }
            let mut is_odd = false;
            let place = self.part.instances.place(inst, || {
                is_odd = true;
                None
            });
            match place {
                Some(_) if is_odd => odd.push((inst, datum)),
                Some(place) => sample.points.push(Point { time, of: Of::Instance(place), datum }),
                // A value of an instance that nothing names.
                None => {}
            }
        }
        (sample, odd)
    }
}

fn datum(value: Result<TypedRef<'_>, PmError>) -> Option<Datum> {
    match value.ok()? {
        TypedRef::Number(number) => Some(Datum::Number(number)),
        TypedRef::Text(bytes) | TypedRef::Aggregate(bytes) => {
            let text = serde_json::to_string(&String::from_utf8_lossy(bytes)).ok()?;
            Some(Datum::Text(text.into()))
        }
        // Records are no values: those who ask for them find them elsewhere.
        TypedRef::Events(..) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(budget: &Budget) -> Option<Spent> {
        let mut spent = Spent::begin(budget);
        spent.begun = spent.begun.checked_sub(PATIENCE + Duration::from_secs(1))?;
        Some(spent)
    }

    #[test]
    fn a_request_that_has_no_time_left_reads_no_archive() {
        let part = Part {
            archive: "/no/such/archive".into(),
            start: Timestamp::new(1, 0),
            end: None,
            metric: What::Derived("x".into()),
            indom: pcp_model::InDom::NULL,
            instances: Arc::default(),
        };
        let plan = Plan {
            id: crate::server::identity::Id::ZERO,
            source: crate::server::identity::Id::ZERO,
            name: "x".to_owned(),
            desc: pcp_model::Desc {
                pmid: Pmid::new(1, 0, 0),
                value_type: ValueType::U64,
                indom: pcp_model::InDom::NULL,
                semantics: pcp_model::Semantics::Counter,
                units: Default::default(),
            },
            instances: Arc::default(),
            parts: vec![part],
        };
        let budget = Budget::default();
        // An archive that is not there has no values.
        let mut spent = Spent::begin(&budget);
        assert!(read(std::slice::from_ref(&plan), &Window::default(), &mut spent).is_ok());
        if let Some(mut spent) = late(&budget) {
            assert_eq!(read(&[plan], &Window::default(), &mut spent).err(), Some(Limit::Time));
            let looked = (0..LOOK).try_for_each(|_| spent.record());
            assert_eq!(looked, Err(Limit::Time));
        }
    }

    #[test]
    fn series_of_all_expressions_of_a_request_count() {
        let mut spent = Spent::begin(&Budget::default());
        assert_eq!(spent.series(MAX_SERIES - 1), Ok(()));
        assert_eq!(spent.series(1), Ok(()));
        assert_eq!(spent.series(1), Err(Limit::Series));
    }
}
