//! Fetching from an archive: forward, backward, or at times between the records (`docs/pcp/archive.md` 13, 14.1).

use rustc_hash::FxHashMap;

use super::error::ArchiveError;
use super::first::First;
use super::ignored::IgnoredMarks;
use super::interpolate::Interpolator;
use super::interpolated::RuleOptions;
use super::reader::{Archive, Direction, Place, RecordPlace, Step};
use super::record::Record;
use pcp_model::{InDom, Inst, PmError, Pmid, Profile, Timestamp};
use pcp_pdu::{Fetched, LayoutId, Selection, SetRef};

/// What a fetch gives (`pmSetMode(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayMode {
    /// The next record that has any of the metrics.
    Forward,
    /// The one before.
    Backward,
    /// Interpolated values, this many nanoseconds after the last time; negative: before it.
    Interpolate(i64),
}

/// Why a fetch fails.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// There is nothing more in this direction (`PM_ERR_EOL`).
    #[error("end of the archive")]
    End,
    /// The archive cannot be read on.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

impl ReplayError {
    /// The code libpcp has for this.
    pub fn code(&self) -> PmError {
        match self {
            ReplayError::End => PmError::EOL,
            ReplayError::Archive(error) => error.code(),
        }
    }
}

/// A reader's position in an archive, and how it moves.
pub struct Replay {
    archive: Archive,
    mode: ReplayMode,
    /// The time of the last record, or of the next interpolated sample.
    origin: Timestamp,
    /// Where the record reader is, unless the origin has been set since.
    at: Option<Place>,
    interpolator: Interpolator,
    /// The end of the archive as it was found last; its start before it is asked for, as in the library.
    end: Timestamp,
    /// What was asked for last.
    asked: Asked,
    /// What searches forward from the time set last came upon.
    first: Option<First>,
}

/// Metrics that are fetched again and again.
#[derive(Default)]
struct Asked {
    pmids: Vec<Pmid>,
    /// At which place each metric is first.
    first: FxHashMap<Pmid, usize>,
    /// For each place where in the last record its set is, and which layout that has: in others of the same it is there as well.
    places: Vec<Option<usize>>,
    layout: Option<LayoutId>,
    /// These metrics at these places, if records have a layout.
    selection: Option<Selection>,
    /// How many metrics have a place.
    found: usize,
    /// Whether the record before had them at the same places.
    is_again: bool,
}

/// If less than one in so many of a record's sets are wanted, these are taken out of it.
const FEW: usize = 4;
/// How much a time may be outside of the archive.
const SLACK: i128 = 1_000_000;

impl Replay {
    /// At the start of an archive, forward.
    pub fn new(archive: Archive) -> Replay {
        let start = archive.label().start;
        // The library reads this once, too.
        let wrap = std::env::var_os("PCP_COUNTER_WRAP").is_some();
        let options = RuleOptions { wrap, nearest: true };
        Replay {
            archive,
            mode: ReplayMode::Forward,
            origin: start,
            at: None,
            interpolator: Interpolator::new(start, options),
            end: start,
            asked: Asked::default(),
            first: None,
        }
    }

    /// The archive.
    pub fn archive(&self) -> &Archive {
        &self.archive
    }

    /// The archive, to read it otherwise; fetches go on where they were.
    pub fn archive_mut(&mut self) -> &mut Archive {
        &mut self.archive
    }

    /// The time of the last record fetched, or of the next interpolated sample.
    pub fn origin(&self) -> Timestamp {
        self.origin
    }

    /// How it moves.
    pub fn mode(&self) -> ReplayMode {
        self.mode
    }

    /// Sets the mode, and the place unless `origin` is `None`. Forward, the next fetch begins at that time;
    /// backward, it goes back from there; interpolated samples begin there.
    pub fn set_mode(&mut self, mode: ReplayMode, origin: Option<Timestamp>) {
        self.mode = mode;
        self.origin = origin.unwrap_or(self.origin);
        self.at = None;
        self.interpolator.reset();
    }

    /// Whether an interpolated reading is the nearer of the two around it, as from PCP 6.3 on, or the earlier, as
    /// before. The nearer unless set.
    pub fn set_nearest(&mut self, nearest: bool) {
        self.interpolator.set_nearest(nearest);
    }

    /// Which marks values are interpolated across all the same. None unless set.
    pub fn set_ignored_marks(&mut self, ignored: IgnoredMarks) {
        self.interpolator.set_ignored(ignored);
    }

    /// Takes in what has been written since: after [`ReplayError::End`] a fetch may go on then. Whether there
    /// is anything new.
    ///
    /// # Errors
    /// As [`Archive::refresh`].
    pub fn refresh(&mut self) -> Result<bool, ArchiveError> {
        let grown = self.archive.refresh()?;
        if grown {
            self.interpolator.grown();
        }
        Ok(grown)
    }

    /// Fetches: a value set for each metric asked for.
    ///
    /// # Errors
    /// [`ReplayError::End`], as often as it is asked; those of reading.
    pub fn fetch(&mut self, pmids: &[Pmid], profile: &Profile, out: &mut Fetched) -> Result<(), ReplayError> {
        let fetched = match self.mode {
            ReplayMode::Forward => self.fetch_record(pmids, profile, Direction::Forward, out),
            ReplayMode::Backward => self.fetch_record(pmids, profile, Direction::Backward, out),
            ReplayMode::Interpolate(step) => self.fetch_at_origin(pmids, profile, step, out),
        };
        if fetched.is_err() {
            out.clear();
        }
        fetched
    }

    /// Takes the next record in the direction of the mode with all that is in it, whoever asked for it; an empty
    /// one at the time of a mark (`pmFetchArchive(3)`).
    ///
    /// # Errors
    /// [`ReplayError::End`], as often as it is asked; those of reading.
    pub fn next_record(&mut self, out: &mut Fetched) -> Result<(), ReplayError> {
        self.next_with(out, |record, out| {
            out.select_all(record.timestamp, record.all());
            true
        })
    }

    /// The same, of the next record that has the metric, and only what it has of it; marks as well.
    ///
    /// # Errors
    /// As [`Replay::next_record`].
    pub fn next_record_of(&mut self, pmid: Pmid, out: &mut Fetched) -> Result<(), ReplayError> {
        self.next_with(out, |record, out| {
            let set = record.sets().find(|set| set.pmid == pmid);
            set.map(|set| out.push_set(pmid, Some(set))).is_some() || record.is_mark()
        })
    }

    /// The next record of which `take` has taken something, or mark.
    fn next_with(
        &mut self,
        out: &mut Fetched,
        take: impl Fn(&Record<'_>, &mut Fetched) -> bool,
    ) -> Result<(), ReplayError> {
        out.clear();
        let direction = match self.mode {
            ReplayMode::Backward => Direction::Backward,
            ReplayMode::Forward | ReplayMode::Interpolate(_) => Direction::Forward,
        };
        let mut at = match self.at {
            Some(at) => at,
            None => self.archive.seek(self.origin, direction)?,
        };
        loop {
            let step = match direction {
                Direction::Forward => self.archive.next(at)?,
                Direction::Backward => self.archive.previous(at)?,
            };
            let (time, taken) = match step {
                None => {
                    self.at = Some(at);
                    return Err(ReplayError::End);
                }
                Some(Step::Gap(time, after)) => {
                    at = after;
                    (time, true)
                }
                Some(Step::Record(place, after)) => {
                    let record = self.archive.record(place)?;
                    at = after;
                    (record.timestamp, take(&record, out))
                }
            };
            (self.at, self.origin) = (Some(at), time);
            if taken {
                out.timestamp = time;
                return Ok(());
            }
        }
    }

    fn fetch_at_origin(
        &mut self,
        pmids: &[Pmid],
        profile: &Profile,
        step: i64,
        out: &mut Fetched,
    ) -> Result<(), ReplayError> {
        out.clear();
        let time = self.origin;
        let next = Timestamp::from_nanos(time.as_nanos() + i128::from(step));
        if self.is_outside(time)? {
            // The sample counts as taken.
            self.origin = next;
            return Err(ReplayError::End);
        }
        let direction = if step < 0 { Direction::Backward } else { Direction::Forward };
        let Replay { archive, interpolator, .. } = self;
        interpolator.fetch(archive, pmids, profile, time, direction, out)?;
        out.timestamp = time;
        self.origin = next;
        Ok(())
    }

    fn is_outside(&mut self, time: Timestamp) -> Result<bool, ArchiveError> {
        let now = time.as_nanos();
        if now < self.archive.label().start.as_nanos() - SLACK {
            return Ok(true);
        }
        // Asking for the end costs a look at the file, which may grow: only beyond the end known.
        if now > self.end.as_nanos() + SLACK {
            self.end = self.archive.end()?;
            return Ok(time > self.end);
        }
        Ok(false)
    }

    fn fetch_record(
        &mut self,
        pmids: &[Pmid],
        profile: &Profile,
        direction: Direction,
        out: &mut Fetched,
    ) -> Result<(), ReplayError> {
        self.asked.set(pmids);
        let (at, mut first) = match self.at {
            Some(at) => (at, None),
            // Where all values are computed, any record will do.
            None if direction == Direction::Backward || pmids.iter().all(|pmid| pmid.is_derived()) => {
                (self.archive.seek(self.origin, direction)?, None)
            }
            None => {
                let first = match self.first.take() {
                    Some(first) if first.origin() == self.origin => first.again(),
                    _ => First::new(self.origin, self.archive.seek(self.origin, direction)?),
                };
                (first.before(pmids), Some(first))
            }
        };
        let fetched = self.fetch_from(at, first.as_mut(), (pmids, profile), direction, out);
        self.first = first.or(self.first.take());
        fetched
    }

    /// Takes the next record of a place that has any of the metrics. `first` is of searches from the time where this one has begun.
    fn fetch_from(
        &mut self,
        mut at: Place,
        mut first: Option<&mut First>,
        (pmids, profile): (&[Pmid], &Profile),
        direction: Direction,
        out: &mut Fetched,
    ) -> Result<(), ReplayError> {
        loop {
            let step = match direction {
                Direction::Forward => self.archive.next(at)?,
                Direction::Backward => self.archive.previous(at)?,
            };
            let Some(step) = step else {
                self.at = Some(at);
                return Err(ReplayError::End);
            };
            let (Step::Record(_, after) | Step::Gap(_, after)) = step;
            if let Some(first) = first.as_mut().filter(|first| first.is_next(at)) {
                let record = match step {
                    Step::Record(place, _) => Some(self.archive.record(place)?),
                    Step::Gap(..) => None,
                };
                first.pass(record, after);
            }
            at = after;
            let Step::Record(place, _) = step else { continue };
            if let Some(time) = self.take(place, pmids, profile, direction, out)? {
                (self.at, self.origin) = (Some(at), time);
                return Ok(());
            }
            at = first.as_mut().and_then(|first| first.miss()).unwrap_or(at);
        }
    }

    /// Takes the values of the metrics out of a record, if it has any of them and is not out of order.
    fn take(
        &mut self,
        place: RecordPlace,
        pmids: &[Pmid],
        profile: &Profile,
        direction: Direction,
        out: &mut Fetched,
    ) -> Result<Option<Timestamp>, ArchiveError> {
        let Replay { archive, asked, origin, .. } = self;
        // The profile asks by domain, and a record does not tell it.
        let indoms: Vec<InDom> = match profile == &Profile::default() {
            true => Vec::new(),
            false => {
                pmids.iter().map(|pmid| archive.desc(*pmid).map_or(InDom::NULL, |desc| desc.indom)).collect()
            }
        };
        let record: Record<'_> = archive.record(place)?;
        // Records out of order are skipped, or time would run back for who fetches.
        let passed = match direction {
            Direction::Forward => record.timestamp < *origin,
            Direction::Backward => record.timestamp > *origin,
        };
        if passed {
            tracing::trace!(
                target: "pcp::log",
                "the record of {} is out of order, as {origin} was passed: skipped",
                record.timestamp,
            );
            return Ok(None);
        }
        // Where all values are computed, any record will do.
        let found = asked.find(&record);
        if found == 0 && !pmids.iter().all(|pmid| pmid.is_derived()) {
            return Ok(None);
        }
        if indoms.is_empty() {
            let wanted = pmids.iter().copied().zip(asked.places.iter().copied());
            let (time, sets, selection) = (record.timestamp, record.all(), asked.selection);
            // What was fetched last may be of the same selection.
            match found * FEW >= record.metrics() {
                true => out.select(time, sets, selection, wanted),
                // To learn where they are is not worth it for those who look at one record.
                false => out.pick(time, sets, selection.filter(|_| asked.is_again), wanted),
            }
            return Ok(Some(time));
        }
        out.clear();
        for ((pmid, place), indom) in pmids.iter().zip(&asked.places).zip(indoms) {
            let set = place.and_then(|place| record.set(place));
            match indom {
                InDom::NULL => out.push_set(*pmid, set),
                indom => {
                    let view = profile.of(indom);
                    push_some(*pmid, set, |inst| view.includes(inst), out);
                }
            }
        }
        out.timestamp = record.timestamp;
        Ok(Some(record.timestamp))
    }
}

impl Asked {
    fn set(&mut self, pmids: &[Pmid]) {
        if self.pmids == pmids {
            return;
        }
        self.pmids = pmids.to_vec();
        self.first.clear();
        // A metric that is asked for twice has its set in both places.
        for (number, pmid) in pmids.iter().enumerate() {
            self.first.entry(*pmid).or_insert(number);
        }
        self.places.clear();
        (self.layout, self.selection) = (None, None);
    }

    /// Finds the first set of each metric in a record. How many there are.
    fn find(&mut self, record: &Record<'_>) -> usize {
        let layout = record.all().layout();
        self.is_again = layout.is_some() && layout == self.layout;
        if !self.is_again {
            self.places.clear();
            self.places.resize(self.pmids.len(), None);
            if let [pmid] = self.pmids[..] {
                // Who looks at each metric of a large record by itself spends the time here.
                self.places[0] = record.sets().position(|set| set.pmid == pmid);
            } else {
                for (at, set) in record.sets().enumerate() {
                    if let Some(number) = self.first.get(&set.pmid) {
                        self.places[*number].get_or_insert(at);
                    }
                }
                for (number, pmid) in self.pmids.iter().enumerate() {
                    self.places[number] = self.first.get(pmid).and_then(|first| self.places[*first]);
                }
            }
            self.layout = layout;
            self.selection = layout.and_then(|_| Selection::next());
            self.found = self.places.iter().flatten().count();
        }
        self.found
    }
}

/// Appends the values of those instances that are wanted, or why there are none; no values where there is no set.
fn push_some(pmid: Pmid, set: Option<SetRef<'_>>, wanted: impl Fn(Inst) -> bool, out: &mut Fetched) {
    let Some(Ok(values)) = set.map(|set| set.values) else { return out.push_set(pmid, set) };
    out.begin_set(pmid);
    let mut some = values.iter().filter(|(inst, _)| wanted(*inst));
    match some.try_for_each(|(inst, value)| out.push(inst, value)) {
        Err(error) => out.fail_set(error),
        Ok(()) => out.end_set(),
    }
}
