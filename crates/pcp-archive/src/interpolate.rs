//! Values at any time, from the recorded ones around it (`docs/pcp/archive.md` 14; the nearest value of PCP 6.3.8).
//!
//! Time runs along the direction of travel here: backward, times are negated, so that one code serves both.
//! What was read ahead of the time asked for is queued, per instance, so that each record is read once however
//! small the steps are. The queue is bounded; where a value lies further ahead (a metric that is recorded
//! rarely, an instance that is gone), it is looked for without queueing, once.
//!
//! Answers do not depend on what was asked before, except that a counter has no value in the first sample
//! behind a mark, so that nobody computes a rate over the gap.
//!
//! Cost of a sample: the records between it and the one before, and one step for each instance. Memory: some
//! 40 bytes for each value queued, at most [`QUEUE`] of them and what one record holds.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::path::Path;

use rustc_hash::FxHashMap;

use super::error::{ArchiveError, Problem};
use super::ignored::IgnoredMarks;
use super::interpolated::{Bounds, Held, Moment, Rule, RuleOptions};
use super::reader::{Archive, Direction, Place, Step};
use super::record::Record;
use super::shown::{Shown, time_of};
use super::tracked::{Along, Far, Follows, Metric, QueuedValue, Slot, alive, along};
use pcp_model::{PM_IN_NULL, PmError, Pmid, Profile, Timestamp, ValueType};
use pcp_pdu::{Fetched, LayoutId, ValueRef};
use tracing::trace;

/// Values queued before reading ahead goes on without.
const QUEUE: usize = 1 << 18;

/// Interpolates between the records of one archive.
pub(super) struct Interpolator {
    start: Timestamp,
    options: RuleOptions,
    ignored: IgnoredMarks,
    direction: Direction,
    metrics: Vec<Metric>,
    by_pmid: FxHashMap<Pmid, usize>,
    profile: Profile,
    /// The time of the fetch before.
    last: Option<Along>,
    reading: Reading,
}

/// How far the archive has been read, and what is in the queues because of it: the values themselves are with their
/// instances.
struct Reading {
    /// Where reading goes on, once there is a place.
    ahead: Option<Place>,
    /// Time of the last record read there.
    read_to: Along,
    /// Whether there was nothing more.
    ended: bool,
    /// Where the archive ended when it was asked last.
    end: Option<Place>,
    /// Up to where all records have been looked through for the last values of all instances.
    looked: Along,
    /// Marks in the queue; of those passed, the last.
    marks: VecDeque<Along>,
    /// Values in all queues.
    queued: usize,
    route: Route,
}

/// Where in a record the metrics are that were asked for: in the next one they are there as well, nearly always.
#[derive(Default)]
struct Route {
    /// The layout of the last record, if it is one that is known.
    layout: Option<LayoutId>,
    /// The metrics of its sets, in their order; `None`: nobody asked for them.
    sets: Vec<(Pmid, Option<usize>)>,
    /// The numbers of the sets that somebody asked for, and their metrics.
    wanted: Vec<(usize, usize)>,
}

impl Interpolator {
    /// For an archive that starts then.
    pub(crate) fn new(start: Timestamp, options: RuleOptions) -> Interpolator {
        Interpolator {
            start,
            options,
            ignored: IgnoredMarks::default(),
            direction: Direction::Forward,
            metrics: Vec::new(),
            by_pmid: FxHashMap::default(),
            profile: Profile::default(),
            last: None,
            reading: Reading::new(),
        }
    }

    /// Whether a reading between two is the nearer one; forgets the metrics.
    pub(crate) fn set_nearest(&mut self, nearest: bool) {
        let (options, ignored) = (RuleOptions { nearest, ..self.options }, self.ignored);
        *self = Interpolator { ignored, ..Interpolator::new(self.start, options) };
    }

    /// Which marks are no gaps; forgets the metrics.
    pub(crate) fn set_ignored(&mut self, ignored: IgnoredMarks) {
        *self = Interpolator { ignored, ..Interpolator::new(self.start, self.options) };
    }

    /// Forgets where it is, and the values.
    pub(crate) fn reset(&mut self) {
        self.forget_values();
        self.forget_last();
    }

    /// Forgets what was read.
    fn forget_values(&mut self) {
        self.reading = Reading::new();
        self.metrics.iter_mut().for_each(Metric::forget);
    }

    /// Forgets that there was a fetch: the next one continues nothing.
    fn forget_last(&mut self) {
        self.last = None;
        self.metrics.iter_mut().for_each(|metric| metric.had_values = false);
    }

    /// Reading may go on where it ended: the archive has grown.
    pub(crate) fn grown(&mut self) {
        self.reading.ended = false;
        self.reading.end = None;
        self.reading.looked = Along::MIN;
        let slots = self.metrics.iter_mut().flat_map(|metric| &mut metric.slots);
        // A value that was not found may be there now; those that were found stay the first ones.
        slots
            .filter(|slot| slot.far.as_ref().is_some_and(|far| far.value.is_none()))
            .for_each(|slot| slot.far = None);
    }

    /// Fills in a value set for each metric, as of `time`.
    ///
    /// # Errors
    /// Those of reading on; [`Problem::Record`] for values that are not of their metric's type.
    pub(crate) fn fetch(
        &mut self,
        archive: &mut Archive,
        pmids: &[Pmid],
        profile: &Profile,
        time: Timestamp,
        direction: Direction,
        out: &mut Fetched,
    ) -> Result<(), ArchiveError> {
        if self.direction != direction {
            // Every time that is kept runs the other way now.
            self.reset();
            self.direction = direction;
            self.metrics.iter_mut().for_each(Metric::turn);
        }
        let mut new = self.track(archive, pmids);
        if self.profile != *profile || new {
            self.profile = profile.clone();
            new |= self.apply_profile(archive);
        }
        let now = self.along(time);
        if new || self.last.is_some_and(|last| now < last) {
            // The queues lack the values of what is new, and what lies before the last time has been dropped from
            // them. Another set of metrics at the next time is still the next sample, though.
            self.forget_values();
            if self.last.is_none_or(|last| now <= last) {
                self.forget_last();
            }
        }
        // What the archive does not have is not looked for in its records, which may be damaged.
        if !self.metrics.is_empty() {
            self.metrics.iter_mut().for_each(|metric| metric.go_to(now));
            self.read_ahead(archive, time, now)?;
        }
        trace!(
            target: "pcp::interp",
            "sample of {time}, {direction:?}: {} metrics, {} values queued, {} marks around, {}",
            pmids.len(),
            self.reading.queued,
            self.reading.marks.len(),
            match (self.reading.read_to, self.reading.ended) {
                (_, true) => "read to the end".to_owned(),
                (Along::MIN, false) => "nothing read".to_owned(),
                (at, false) => format!("read to {}", self.time(at)),
            },
        );
        let mut clock = Clock::new(self.start, self.direction, now);
        for pmid in pmids {
            match self.by_pmid.get(pmid) {
                Some(metric) => self.answer(*metric, &mut clock, out),
                // A name that did not resolve.
                None if *pmid == Pmid::NULL => {
                    out.begin_set(*pmid);
                    out.end_set();
                }
                None => out.push_error(*pmid, PmError::PMID_LOG),
            }
        }
        self.last = Some(now);
        Ok(())
    }

    /// Takes up metrics not asked for before. Whether there are any.
    fn track(&mut self, archive: &Archive, pmids: &[Pmid]) -> bool {
        let before = self.metrics.len();
        for pmid in pmids {
            if self.by_pmid.contains_key(pmid) {
                continue;
            }
            // What could not be supported has no values either.
            if let Some(desc) =
                archive.desc(*pmid).ok().filter(|desc| desc.value_type != ValueType::NoSupport)
            {
                self.by_pmid.insert(*pmid, self.metrics.len());
                let mut metric = Metric::new(archive, &desc, self.start, self.options);
                if self.direction == Direction::Backward {
                    metric.turn();
                }
                self.metrics.push(metric);
            }
        }
        self.metrics.len() > before
    }

    /// Which instances are wanted. Whether that has changed.
    fn apply_profile(&mut self, archive: &Archive) -> bool {
        let mut changed = false;
        for metric in &mut self.metrics {
            let indom = archive.desc(metric.pmid).map(|desc| desc.indom);
            for slot in &mut metric.slots {
                let wanted = slot.inst == PM_IN_NULL
                    || indom.is_ok_and(|indom| self.profile.includes(indom, slot.inst));
                changed |= wanted != slot.wanted;
                slot.wanted = wanted;
            }
        }
        changed
    }

    fn along(&self, time: Timestamp) -> Along {
        along(self.start, self.direction, time)
    }

    /// Reads until every wanted instance has what is around `now`, and forgets what lies before that.
    fn read_ahead(&mut self, archive: &mut Archive, time: Timestamp, now: Along) -> Result<(), ArchiveError> {
        let first = self.reading.ahead.is_none();
        let mut at = match self.reading.ahead {
            Some(at) => at,
            None => archive.seek(time, self.direction)?,
        };
        let from = at;
        // Up to `now` everything is read, as counters and marks in between matter.
        while !self.reading.ended && self.reading.read_to <= now {
            self.read_one(archive, &mut at, now, None)?;
        }
        let lacking = self.pass(now);
        // Behind a mark there is nothing that could be interpolated with.
        let mut missing = if self.mark_at_or_behind(now) { 0 } else { lacking };
        let went_on = first || missing > 0;
        // Beyond it only what is missing, and no more of it than fits into memory.
        while !self.reading.ended && missing > 0 && self.reading.queued < QUEUE {
            self.read_one(archive, &mut at, now, Some(&mut missing))?;
        }
        self.reading.ahead = Some(at);
        if missing > 0 && !self.reading.ended {
            self.look_far(archive, at, now)?;
        }
        if first {
            // Reading begins at `now`. Later fetches have passed what is in front of them.
            self.look_back(archive, from, now)?;
        }
        if went_on {
            self.pass(now);
        }
        Ok(())
    }

    /// Reads on by a record or a mark, if there is one. `missing`: how many instances lack a value at or behind `now`, if that matters.
    fn read_one(
        &mut self,
        archive: &mut Archive,
        at: &mut Place,
        now: Along,
        mut missing: Option<&mut usize>,
    ) -> Result<(), ArchiveError> {
        let Some((step, after)) = self.step(archive, *at)? else {
            self.reading.ended = true;
            return Ok(());
        };
        if self.take(archive, step, now, missing.as_deref_mut())?
            && let Some(missing) = missing
        {
            *missing = 0;
        }
        *at = after;
        self.reading.ahead = Some(after);
        Ok(())
    }

    /// The next record or mark that counts.
    fn step(&mut self, archive: &mut Archive, mut at: Place) -> Result<Option<(Step, Place)>, ArchiveError> {
        loop {
            let Some((step, after)) = self.any_step(archive, at)? else { return Ok(None) };
            let (earlier, later) = match self.direction {
                Direction::Forward => (at, after),
                Direction::Backward => (after, at),
            };
            if !self.ignored.covers(archive, &step, earlier, later)? {
                return Ok(Some((step, after)));
            }
            at = after;
        }
    }

    fn any_step(&mut self, archive: &mut Archive, at: Place) -> Result<Option<(Step, Place)>, ArchiveError> {
        let step = match self.direction {
            Direction::Forward => {
                // Behind the last good record there may be something that is not one.
                if self.reading.end.is_none_or(|end| at >= end) {
                    self.reading.end = Some(archive.last()?);
                }
                if self.reading.end.is_some_and(|end| at >= end) { None } else { archive.next(at)? }
            }
            Direction::Backward => archive.previous(at)?,
        };
        Ok(step.map(|step| match step {
            Step::Record(_, after) | Step::Gap(_, after) => (step, after),
        }))
    }

    /// Queues what a record holds. Whether it was a mark at or behind `now`.
    fn take(
        &mut self,
        archive: &mut Archive,
        step: Step,
        now: Along,
        mut missing: Option<&mut usize>,
    ) -> Result<bool, ArchiveError> {
        let place = match step {
            Step::Gap(time, _) => return Ok(self.mark(self.along(time), now)),
            Step::Record(place, _) => place,
        };
        let record = archive.record(place)?;
        let at = along(self.start, self.direction, record.timestamp);
        if record.is_mark() {
            return Ok(self.mark(at, now));
        }
        self.reading.read_to = self.reading.read_to.max(at);
        // A mark at the record's own time was read before it, going either way: it does not hide these values.
        let follows = if self.reading.marks.back() == Some(&at) { Follows::Mark } else { Follows::Other };
        let Interpolator { direction, metrics, by_pmid, reading, .. } = self;
        let Reading { route, queued, looked, .. } = reading;
        for &(number, metric) in route.wanted(&record, by_pmid) {
            let (Some(metric), Some(set)) = (metrics.get_mut(metric), record.set(number)) else { continue };
            let Ok(values) = set.values else { continue };
            let needs_ahead = metric.needs_ahead(*direction);
            metric.each_value(values, |slot, rule, value| {
                if !slot.wanted {
                    return Ok(());
                }
                let value = rule.hold(value).ok_or_else(|| other_type(set.pmid))?;
                if needs_ahead
                    && let Some(missing) = &mut missing
                    && at >= now
                    && slot.lacks_next(now, *looked)
                {
                    **missing = missing.saturating_sub(1);
                }
                *queued += usize::from(slot.read_ahead(QueuedValue { at, follows, value }, now));
                Ok(())
            })?;
        }
        Ok(false)
    }

    /// Queues a mark. Whether it is at or behind `now`.
    fn mark(&mut self, at: Along, now: Along) -> bool {
        self.reading.read_to = self.reading.read_to.max(at);
        if at <= now {
            // Of marks that are passed only the last one hides anything.
            self.reading.marks.clear();
        }
        self.reading.marks.push_back(at);
        at >= now
    }

    fn mark_at_or_behind(&self, now: Along) -> bool {
        self.reading.marks.back().is_some_and(|mark| *mark >= now)
    }

    /// How many instances lack a value at or behind `now`.
    fn missing(&self, now: Along) -> usize {
        let lacks = |slot: &&Slot| slot.lacks_next(now, self.reading.looked);
        self.metrics
            .iter()
            .filter(|metric| metric.needs_ahead(self.direction))
            .map(|metric| metric.current().filter(lacks).count())
            .sum()
    }

    /// Looks for the next values of instances that have none in the queue, without queueing. Who has none up to the end, or to the next mark, has
    /// all records looked through, and so it is known of all others how far they go: instances that end, or never have a value of some metric,
    /// would have it done again and again.
    fn look_far(&mut self, archive: &mut Archive, mut at: Place, now: Along) -> Result<(), ArchiveError> {
        let mut missing = self.missing(now);
        let mut end = Along::MAX;
        while missing > 0 {
            let Some((step, after)) = self.step(archive, at)? else { break };
            at = after;
            let place = match step {
                Step::Gap(time, _) => {
                    end = self.along(time);
                    break;
                }
                Step::Record(place, _) => place,
            };
            let record = archive.record(place)?;
            let found_at = along(self.start, self.direction, record.timestamp);
            if record.is_mark() {
                end = found_at;
                break;
            }
            if found_at < now {
                // A record out of order.
                continue;
            }
            missing = missing.saturating_sub(self.found_far(&record, found_at, now));
        }
        if missing > 0 {
            self.reading.looked = end;
        }
        let (direction, metrics) = (self.direction, self.metrics.iter_mut());
        // So that it is not looked for again at the next fetch.
        for metric in metrics.filter(|metric| metric.needs_ahead(direction)) {
            metric.each_current(|slot| {
                if slot.lacks_next(now, Along::MIN) {
                    slot.far = Some(Far { at: end, value: None });
                }
            });
        }
        Ok(())
    }

    /// Takes the values of a record to who lacks a next one, and notes the time with all others. How many lacked it.
    fn found_far(&mut self, record: &Record<'_>, at: Along, now: Along) -> usize {
        let (direction, looked) = (self.direction, self.reading.looked);
        let mut count = 0;
        self.each_value(record, |slot, rule, value| {
            if (direction == Direction::Backward || rule.needs_next())
                && slot.lacks_next(now, looked)
                && let Some(held) = rule.hold(value)
            {
                slot.far = Some(Far { at, value: Some(held) });
                count += 1;
            }
            slot.last = slot.last.max(at);
        });
        count
    }

    fn each_value(&mut self, record: &Record<'_>, mut each: impl FnMut(&mut Slot, &mut Rule, ValueRef<'_>)) {
        for &(number, metric) in self.reading.route.wanted(record, &self.by_pmid) {
            let (Some(metric), Some(set)) = (self.metrics.get_mut(metric), record.set(number)) else {
                continue;
            };
            let Ok(values) = set.values else { continue };
            let Ok(()) = metric.each_value(values, |slot, rule, value| {
                each(slot, rule, value);
                Ok::<(), Infallible>(())
            });
        }
    }

    /// Looks for the values in front of the place where reading ahead began.
    fn look_back(&mut self, archive: &mut Archive, mut at: Place, now: Along) -> Result<(), ArchiveError> {
        let lacks = |slot: &Slot| {
            slot.wanted && alive(slot.life, now) && slot.queue.front().is_none_or(|value| value.at > now)
        };
        // A mark in front of `now`, or at its time, ends it all.
        if self.reading.marks.front().is_some_and(|mark| *mark <= now) {
            return Ok(());
        }
        let mut missing: usize =
            self.metrics.iter().map(|metric| metric.current().filter(|slot| lacks(slot)).count()).sum();
        while missing > 0 {
            let step = match self.direction {
                Direction::Forward => archive.previous(at)?,
                Direction::Backward => archive.next(at)?,
            };
            if let Some(step @ (Step::Record(_, after) | Step::Gap(_, after))) = &step {
                let (earlier, later) = match self.direction {
                    Direction::Forward => (*after, at),
                    Direction::Backward => (at, *after),
                };
                if self.ignored.covers(archive, step, earlier, later)? {
                    at = *after;
                    continue;
                }
            }
            let place = match step {
                None => return Ok(()),
                Some(Step::Gap(time, _)) => {
                    self.reading.marks.push_front(self.along(time));
                    return Ok(());
                }
                Some(Step::Record(place, after)) => {
                    at = after;
                    place
                }
            };
            let record = archive.record(place)?;
            let found_at = along(self.start, self.direction, record.timestamp);
            if record.is_mark() {
                self.reading.marks.push_front(found_at);
                return Ok(());
            }
            let mut found = 0;
            self.each_value(&record, |slot, rule, value| {
                if found_at <= now
                    && lacks(slot)
                    && let Some(held) = rule.hold(value)
                {
                    // Found going against the direction: it is the last one in front of `now`.
                    slot.queue.push_front(QueuedValue { at: found_at, follows: Follows::Other, value: held });
                    found += 1;
                }
            });
            self.reading.queued += found;
            missing = missing.saturating_sub(found);
        }
        Ok(())
    }

    /// Forgets what lies before the last values not behind `now`. How many instances lack one at or behind it.
    fn pass(&mut self, now: Along) -> usize {
        let (mut passed, mut lacking) = (0, 0);
        let (direction, looked) = (self.direction, self.reading.looked);
        for metric in &mut self.metrics {
            let needs_ahead = metric.needs_ahead(direction);
            metric.each_current(|slot| {
                while slot.queue.second().is_some_and(|value| value.at <= now) {
                    slot.queue.pop_front();
                    passed += 1;
                }
                lacking += usize::from(needs_ahead && slot.lacks_next(now, looked));
            });
            metric.leave_dead(now);
        }
        self.reading.queued = self.reading.queued.saturating_sub(passed);
        while self.reading.marks.get(1).is_some_and(|mark| *mark <= now) {
            self.reading.marks.pop_front();
        }
        lacking
    }

    /// The time of a place along the way.
    fn time(&self, at: Along) -> Timestamp {
        time_of(self.start, self.direction, at)
    }

    fn answer(&mut self, metric: usize, clock: &mut Clock, out: &mut Fetched) {
        let mut shown = Shown::of(self.metrics.get(metric), self.start, self.direction);
        let now = clock.now;
        let passed = self.reading.marks.front().copied().filter(|mark| *mark <= now);
        let next_mark = self.reading.marks.iter().copied().find(|mark| *mark >= now);
        let metric = &mut self.metrics[metric];
        let rule = &metric.rule;
        let behind_mark = match (self.last, passed) {
            (Some(last), Some(mark)) => mark > last && metric.had_values,
            _ => false,
        };
        let mut had_values = false;
        metric.had_values = false;
        out.begin_set(metric.pmid);
        if rule.is_counter() && behind_mark {
            shown.tell(|_| "no value: a counter whose last value was before a mark".to_owned());
            // A client that has a value from before the gap would compute a rate over it.
            return out.end_set();
        }
        for slot in metric.current().filter(|slot| slot.wanted) {
            let around = slot.around(now, passed, next_mark);
            let exact = |side: &Option<(Along, &Held)>| side.is_some_and(|(at, _)| at == now);
            // Gone or not yet there; what was recorded at this very time is believed more than the domain.
            let dead = !alive(slot.life, now) && !exact(&around[0]) && !exact(&around[1]);
            let value = rule.value(&clock.bounds(around));
            shown.tell(|lines| lines.told(slot.inst, rule, around, &value, dead));
            match value {
                Ok(Some(_)) if dead && !rule.needs_both() => {}
                Ok(Some(value)) => had_values |= rule.push(slot.inst, value, out).is_ok(),
                Ok(None) => {}
                Err(error) => return out.fail_set(error),
            }
        }
        metric.had_values = had_values;
        out.end_set();
    }
}

impl Reading {
    fn new() -> Reading {
        Reading {
            ahead: None,
            read_to: Along::MIN,
            ended: false,
            end: None,
            looked: Along::MIN,
            marks: VecDeque::new(),
            queued: 0,
            route: Route::default(),
        }
    }
}

impl Route {
    /// The sets of this record that somebody asked for.
    fn wanted(&mut self, record: &Record<'_>, by_pmid: &FxHashMap<Pmid, usize>) -> &[(usize, usize)] {
        let layout = record.all().layout();
        if layout.is_none() || layout != self.layout {
            self.layout = layout;
            self.wanted.clear();
            for (number, set) in record.sets().enumerate() {
                if let Some(metric) = self.known(number, set.pmid, by_pmid) {
                    self.wanted.push((number, metric));
                }
            }
        }
        &self.wanted
    }

    /// The metric of a record's set, by the number of the set; `None` if nobody asked for it.
    #[inline]
    fn known(&mut self, number: usize, pmid: Pmid, by_pmid: &FxHashMap<Pmid, usize>) -> Option<usize> {
        match self.sets.get(number) {
            Some((same, known)) if *same == pmid => *known,
            _ => {
                // What follows in the layout is likely to have moved, too.
                let known = by_pmid.get(&pmid).copied();
                self.sets.truncate(number);
                self.sets.push((pmid, known));
                known
            }
        }
    }
}

#[cold]
fn other_type(pmid: Pmid) -> ArchiveError {
    let problem = Problem::Record("value of another type than its metric");
    ArchiveError::new(Path::new(&pmid.to_string()), None, problem)
}

/// Turns times in the direction of travel into those that values are computed with. Most instances have their values
/// at the same two times: these are kept.
struct Clock {
    start: Timestamp,
    direction: Direction,
    now: Along,
    at_now: Moment,
    around: [(Along, Moment); 2],
}

impl Clock {
    fn new(start: Timestamp, direction: Direction, now: Along) -> Clock {
        let at_now = moment(start, direction, now);
        Clock { start, direction, now, at_now, around: [(now, at_now); 2] }
    }

    #[inline]
    fn bounds<'a>(&mut self, [before, after]: [Option<(Along, &'a Held)>; 2]) -> Bounds<'a> {
        let (mut before, mut after) = (self.at(0, before), self.at(1, after));
        if self.direction == Direction::Backward {
            std::mem::swap(&mut before, &mut after);
        }
        Bounds { now: self.at_now, before, after }
    }

    #[inline]
    fn at<'a>(&mut self, side: usize, value: Option<(Along, &'a Held)>) -> Option<(Moment, &'a Held)> {
        let (at, held) = value?;
        if self.around[side].0 != at {
            self.around[side] = (at, moment(self.start, self.direction, at));
        }
        Some((self.around[side].1, held))
    }
}

fn moment(start: Timestamp, direction: Direction, at: Along) -> Moment {
    let forward = if direction == Direction::Backward { -at } else { at };
    Moment::new(forward, start.nsec)
}
