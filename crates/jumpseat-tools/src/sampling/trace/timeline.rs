//! Records become slices and instants, in the order of their times.
//!
//! Records come in any order: a span's parent may come seconds after it, as OTLP sends what has ended. So each waits
//! for [`WINDOW`] before it gets its place, or less long if very many are waiting. What comes later than its place
//! could be kept for is put on tracks of its own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use pcp_model::Inst;
use serde_json::{Map, Value as Json, json};

use super::entry::Entry;
use super::file::{Arrows, Details, TraceFile, Track};
use super::index::{Index, Link, links};
use super::lanes::{Group, LaneId, Lanes, Owner};
use super::rates::Rates;

/// How long something waits for what comes before it.
pub(super) const WINDOW: u64 = 10 * SECOND;
/// What may wait, and how many spans may be open beyond that.
const MAX_WAITING: usize = 262_144;
const MAX_HELD: usize = 128 << 20;
const MAX_OPEN: usize = 65_536;
/// Parents that begin at the same time as a span and are looked for.
const MAX_CHAIN: usize = 64;
/// What something takes besides its texts, roughly: what counts is that it grows with what senders send.
const COST: usize = 256;
const SECOND: u64 = 1_000_000_000;

/// A trace that grows.
pub(super) struct Timeline {
    file: TraceFile,
    sources: HashMap<Inst, Source>,
    lanes: Lanes,
    spans: HashMap<u64, Span>,
    /// What waits for its place, by time.
    window: BTreeMap<(u64, u64), Waiting>,
    /// The ends of what has its place, innermost first.
    ends: BTreeMap<(u64, Reverse<u64>), (u64, u64)>,
    /// Spans that have left the window, in the order in which they did, and have not ended.
    open: BTreeMap<u64, u64>,
    /// Spans by their IDs, those whose end has yet to come, and those in the window by the IDs of their parents.
    by_id: Index,
    unended: Index,
    by_parent: Index,
    held: usize,
    /// Spans, places and arrows are numbered.
    next: u64,
    arrows: u64,
    /// The time up to which everything has its place, and that up to which sources are counted, in seconds.
    frontier: u64,
    second: u64,
    /// The time of the sample, and the latest one seen.
    now: u64,
    last: u64,
    pub counts: Counts,
}

/// What is in the trace.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub records: u64,
    pub slices: u64,
    pub unfinished: u64,
    pub instants: u64,
    pub missed: i64,
    pub late: u64,
}

struct Source {
    label: String,
    process: Track,
    rates: Rates,
    /// The time of its latest record.
    last: Option<u64>,
}

struct Span {
    inst: Inst,
    group: Group,
    id: Option<String>,
    trace: Option<String>,
    parent: Option<String>,
    details: Details,
    /// What its end says, if it ended after it got its place.
    end_args: Map<String, Json>,
    start: u64,
    end: Option<u64>,
    /// When it was complete, as far as it is.
    arrival: u64,
    /// An arrow that leads to it.
    arrow: Option<u64>,
    /// Records that were missed meanwhile, if it stands for these.
    missed: i64,
    bytes: usize,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    /// On a lane, with its number in the order of places.
    Placed(LaneId, u64),
    /// Its beginning came too late for its place, and its end has yet to come.
    Late(u64),
}

/// What is in the window.
enum Waiting {
    Span,
    Instant(Instant),
}

struct Instant {
    inst: Inst,
    group: Group,
    /// The IDs of the spans that it may be within.
    within: Vec<Link>,
    details: Details,
    arrival: u64,
    bytes: usize,
}

impl Timeline {
    pub(super) fn new(file: TraceFile) -> Timeline {
        Timeline {
            file,
            sources: HashMap::new(),
            lanes: Lanes::default(),
            spans: HashMap::new(),
            window: BTreeMap::new(),
            ends: BTreeMap::new(),
            open: BTreeMap::new(),
            by_id: Index::default(),
            unended: Index::default(),
            by_parent: Index::default(),
            held: 0,
            next: 0,
            arrows: 0,
            frontier: 0,
            second: 0,
            now: 0,
            last: 0,
            counts: Counts::default(),
        }
    }

    /// Whether this source has had records.
    pub(super) fn knows(&self, inst: Inst) -> bool {
        self.sources.contains_key(&inst)
    }

    /// Adds a source.
    pub(super) fn add_source(&mut self, inst: Inst, label: &str) {
        let process = self.file.process(label);
        let rates = Rates::new(&mut self.file, process);
        self.sources.insert(inst, Source { label: label.to_owned(), process, rates, last: None });
    }

    /// Adds a record.
    pub(super) fn record(&mut self, inst: Inst, entry: Entry) {
        self.counts.records += 1;
        self.last = self.last.max(entry.time);
        if let Some(source) = self.sources.get_mut(&inst) {
            source.last = Some(entry.time);
        }
        match (entry.starts, entry.ends) {
            (true, ends) => self.start(inst, entry, ends),
            (false, true) => self.finish_span(inst, entry),
            (false, false) => self.instant(inst, entry),
        }
    }

    /// Adds a record of missed ones.
    pub(super) fn missed(&mut self, inst: Inst, time: u64, count: i32) {
        self.counts.records += 1;
        self.counts.missed += i64::from(count);
        self.last = self.last.max(time);
        let Some(source) = self.sources.get_mut(&inst) else { return };
        // Since the record before it.
        let from = source.last.replace(time).unwrap_or(time).min(time);
        let args = [("missed".to_owned(), json!(count))].into_iter().collect();
        let name = format!("{count} missed records");
        let details = Details { name, categories: vec!["missed".to_owned()], args };
        let span = Span::new(inst, Group::Missed, details, from, Some(time), self.now);
        self.add_span(Span { missed: count.into(), ..span });
    }

    /// Says when the records that are added next have come.
    pub(super) fn set_now(&mut self, now: u64) {
        self.now = self.now.max(now);
        self.last = self.last.max(now);
    }

    /// Writes what has waited for long enough.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn sampled(&mut self) -> std::io::Result<()> {
        self.release(false);
        self.file.flush()
    }

    /// Writes everything.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn finish(&mut self) -> std::io::Result<()> {
        self.release(true);
        // Innermost first, so that outer ones do not seem to be outlived.
        let last = self.last.max(self.frontier);
        self.advance(last);
        while let Some((_, span)) = self.open.pop_last() {
            self.abandon(span, last);
        }
        self.advance(last.saturating_add(SECOND));
        self.file.flush()
    }

    fn start(&mut self, inst: Inst, entry: Entry, ends: bool) {
        let group = self.lanes.group(inst, entry.thread.as_deref());
        let Entry { time, id, parent, trace, details, .. } = entry;
        let span = Span::new(inst, group, details, time, ends.then_some(time), self.now);
        self.add_span(Span { id, parent, trace, ..span });
    }

    fn add_span(&mut self, mut span: Span) {
        self.next += 1;
        let number = self.next;
        self.held += span.bytes;
        if span.group != Group::Missed {
            self.by_id.add(span.links(), number);
        }
        let is_late = span.start < self.frontier;
        if is_late {
            span.state = State::Late(number);
            self.open.insert(number, number);
        } else {
            self.by_parent.add(span.parent_links(), number);
            self.window.insert((span.start, number), Waiting::Span);
        }
        let complete = span.end.is_some();
        if !complete {
            self.unended.add(links(span.inst, None, span.id.as_ref()), number);
        }
        self.spans.insert(number, span);
        if is_late && complete {
            self.place_late(number);
        }
        self.trim();
    }

    fn finish_span(&mut self, inst: Inst, entry: Entry) {
        // The innermost of those with this ID, as calls of one function within another.
        let own = links(inst, None, entry.id.as_ref());
        let ended = self.unended.latest(&own);
        let found = ended.and_then(|number| Some((number, self.spans.get_mut(&number)?)));
        let Some((number, span)) = found else {
            let details = Details { name: format!("end of {}", entry.details.name), ..entry.details };
            return self.instant(inst, Entry { id: None, details, ..entry });
        };
        self.unended.remove(&own, number);
        // Clocks of two processors, or one that was set back.
        let end = entry.time.max(span.start);
        span.end = Some(end);
        span.arrival = self.now;
        let bytes = cost(&entry.details);
        match span.state {
            State::Waiting | State::Late(_) => {
                self.held += bytes;
                span.bytes += bytes;
                span.details.merge(entry.details);
                // Its start said nothing of a thread.
                if span.group == Group::Source {
                    span.group = self.lanes.group(inst, entry.thread.as_deref());
                }
                if let State::Late(_) = span.state {
                    self.place_late(number);
                }
            }
            State::Placed(_, place) => {
                span.end_args = entry.details.args;
                self.ends.insert((end.max(self.frontier), Reverse(place)), (number, self.now));
            }
        }
    }

    fn instant(&mut self, inst: Inst, entry: Entry) {
        let group = self.lanes.group(inst, entry.thread.as_deref());
        let Entry { time, id, parent, trace, details, .. } = entry;
        let within = id.or(parent).map(|id| links(inst, trace.as_ref(), Some(&id))).unwrap_or_default();
        let bytes = cost(&details);
        let instant = Instant { inst, group, within, details, arrival: self.now, bytes };
        if time < self.frontier {
            self.counts.late += 1;
            return self.write_instant(time, instant);
        }
        self.next += 1;
        self.held += bytes;
        self.window.insert((time, self.next), Waiting::Instant(instant));
        self.trim();
    }

    /// Makes room.
    fn trim(&mut self) {
        while self.window.len() > MAX_WAITING || (self.held > MAX_HELD && !self.window.is_empty()) {
            if let Some((&(time, _), _)) = self.window.first_key_value() {
                self.step(time);
            }
        }
        // The oldest have waited longest, so they are the least likely to end at all.
        while self.open.len() > MAX_OPEN || (self.held > MAX_HELD && !self.open.is_empty()) {
            let Some((_, oldest)) = self.open.pop_first() else { return };
            self.abandon(oldest, self.frontier);
        }
    }

    /// Gives their places to those that have waited for long enough, or to all.
    fn release(&mut self, all: bool) {
        let now = self.now;
        let ripe = |arrival: u64| all || arrival.saturating_add(WINDOW) <= now;
        loop {
            let head = self.window.first_key_value().map(|(&(time, number), waiting)| match waiting {
                Waiting::Span => (time, self.spans.get(&number).is_none_or(|span| ripe(span.arrival))),
                Waiting::Instant(instant) => (time, ripe(instant.arrival)),
            });
            let end = self.ends.first_key_value().map(|(&(time, _), &(_, arrival))| (time, ripe(arrival)));
            match (head, end) {
                (Some((time, true)), _) => self.step(time),
                (Some((head, false)), Some((time, true))) if time < head => self.end_next(),
                (None, Some((_, true))) => self.end_next(),
                _ => return,
            }
        }
    }

    /// Gives what is at a time its place. Nothing before that time waits.
    fn step(&mut self, time: u64) {
        self.end_before(time);
        self.advance(time);
        let (mut spans, mut instants) = (Vec::new(), Vec::new());
        while let Some(first) = self.window.first_entry().filter(|first| first.key().0 == time) {
            let ((_, number), waiting) = first.remove_entry();
            match waiting {
                Waiting::Span => {
                    let end = self.spans.get(&number).and_then(|span| span.end);
                    spans.push((Reverse(end.unwrap_or(u64::MAX)), number));
                }
                Waiting::Instant(instant) => {
                    self.held -= instant.bytes;
                    instants.push(instant);
                }
            }
        }
        // What takes no time is within what ends at its time, too. Of the others longer ones come first, as they may
        // be around shorter ones.
        spans.sort_unstable();
        for (_, number) in spans.iter().filter(|(Reverse(end), _)| *end == time) {
            self.place_after_parents(*number);
        }
        let is_open = |instant: &Instant| self.place_of(&instant.within).is_some();
        let (within, others): (Vec<_>, Vec<_>) = instants.into_iter().partition(is_open);
        within.into_iter().for_each(|instant| self.write_instant(time, instant));
        self.end_before(time.saturating_add(1));
        for (_, number) in spans {
            self.place_after_parents(number);
        }
        others.into_iter().for_each(|instant| self.write_instant(time, instant));
    }

    /// The span with one of these links that has its place, and the place.
    fn place_of(&self, links: &[Link]) -> Option<(u64, LaneId)> {
        let number = self.by_id.latest(links)?;
        match self.spans.get(&number)?.state {
            State::Placed(lane, _) => Some((number, lane)),
            _ => None,
        }
    }

    /// Gives a span its place, and first those around it that begin at the same time.
    fn place_after_parents(&mut self, number: u64) {
        let mut chain = vec![number];
        while chain.len() < MAX_CHAIN
            && let Some(span) = chain.last().and_then(|last| self.spans.get(last))
            && let Some(parent) = self.by_id.latest(&span.parent_links())
            && !chain.contains(&parent)
            && self.spans.get(&parent).is_some_and(|parent| {
                parent.state == State::Waiting && parent.start == span.start && parent.end >= span.end
            })
        {
            chain.push(parent);
        }
        while let Some(number) = chain.pop() {
            self.place(number);
        }
    }

    /// Puts a span on a lane: on that of its parent, if it is within it.
    fn place(&mut self, number: u64) {
        let Some(span) = self.spans.get(&number).filter(|span| span.state == State::Waiting) else { return };
        let parent = self.place_of(&span.parent_links()).filter(|(parent, lane)| {
            let fits = |parent: &Span| {
                // It outlives the parent already if that has ended.
                parent.end.is_none_or(|end| span.end.is_some_and(|own| own <= end))
                    && parent.inst == span.inst
                    && (parent.group == span.group || span.group == Group::Source)
            };
            self.lanes.innermost(*lane) == Some(*parent) && self.spans.get(parent).is_some_and(fits)
        });
        self.by_parent.remove(&span.parent_links(), number);
        let (inst, group) = (span.inst, span.group.clone());
        let lane = match parent {
            Some((_, lane)) => Some(lane),
            None => self.with_owner(inst, |lanes, file, owner| lanes.free(file, owner, &group)).flatten(),
        };
        match lane {
            Some(lane) => self.begin(number, lane, parent.is_some()),
            None => {
                // Far more at a time than anybody could look at.
                if let Some(span) = self.spans.get_mut(&number) {
                    span.state = State::Late(number);
                    self.open.insert(number, number);
                }
                self.place_late(number);
            }
        }
    }

    /// Writes the beginning of a span, with arrows to its children that wait and from its parent.
    fn begin(&mut self, number: u64, lane: LaneId, is_nested: bool) {
        let Some(span) = self.spans.get(&number) else { return };
        let mut arrows = Arrows { from: Vec::new(), to: span.arrow.filter(|_| !is_nested) };
        let own = if span.id.is_some() { span.links() } else { Vec::new() };
        for child in self.by_parent.all(&own) {
            let Some(child) = self.spans.get_mut(&child).filter(|child| child.arrow.is_none()) else {
                continue;
            };
            self.arrows += 1;
            child.arrow = Some(self.arrows);
            arrows.from.push(self.arrows);
        }
        self.next += 1;
        let place = self.next;
        let Some(span) = self.spans.get_mut(&number) else { return };
        span.state = State::Placed(lane, place);
        self.held -= span.bytes;
        span.bytes = 0;
        let name = span.details.name.clone();
        let details = std::mem::replace(&mut span.details, Details { name, ..Details::default() });
        let (start, end, arrival) = (span.start, span.end, span.arrival);
        self.open.insert(place, number);
        if let Some(end) = end {
            self.ends.insert((end, Reverse(place)), (number, arrival));
        }
        self.lanes.open(lane, number);
        self.counts.slices += 1;
        self.count(number);
        self.file.begin(self.lanes.track(lane), start, details, arrows);
    }

    /// Writes a span that is complete and has come too late for its place.
    fn place_late(&mut self, number: u64) {
        let Some(span) = self.spans.get(&number) else { return };
        // Those that never end come here again.
        let Some(end) = span.end else { return };
        let (inst, group, start) = (span.inst, span.group.clone(), span.start);
        self.counts.late += 1;
        self.count(number);
        let track = self.with_owner(inst, |lanes, file, owner| lanes.late(file, owner, &group, (start, end)));
        let Some(mut span) = self.forget(number) else { return };
        match track.flatten() {
            Some(track) => {
                self.counts.slices += 1;
                self.file.begin(track, start, span.details, Arrows::default());
                self.file.end(track, end, Map::new());
                self.count_missed(inst, end, span.missed);
            }
            None => {
                span.details.args.insert("duration (ns)".to_owned(), (end - start).into());
                self.write_plain(inst, &group, start, span.details);
            }
        }
    }

    /// Ends everything that ends before a time.
    fn end_before(&mut self, time: u64) {
        while self.ends.first_key_value().is_some_and(|(&(end, _), _)| end < time) {
            self.end_next();
        }
    }

    fn end_next(&mut self) {
        let Some(((end, _), (number, _))) = self.ends.pop_first() else { return };
        self.advance(end);
        self.close(number, end, Map::new());
    }

    /// Writes the end of a span, and moves those that are within it and have not ended to lanes of their own.
    fn close(&mut self, number: u64, end: u64, more: Map<String, Json>) {
        let Some(mut span) = self.forget(number) else { return };
        let State::Placed(lane, _) = span.state else { return };
        let track = self.lanes.track(lane);
        let within = self.lanes.close(lane, number);
        for _ in &within {
            let args = [("continues".to_owned(), true.into())].into_iter().collect();
            self.file.end(track, end, args);
        }
        span.end_args.extend(more);
        self.file.end(track, end, span.end_args);
        self.count_missed(span.inst, end, span.missed);
        for number in within {
            self.go_on(number, end);
        }
    }

    /// Continues a slice that is cut on its lane on another one.
    fn go_on(&mut self, number: u64, time: u64) {
        let Some(span) = self.spans.get(&number) else { return };
        let (inst, group, name) = (span.inst, span.group.clone(), span.details.name.clone());
        let free = self.with_owner(inst, |lanes, file, owner| lanes.free(file, owner, &group)).flatten();
        let Some((lane, span)) = free.zip(self.spans.get_mut(&number)) else {
            self.forget(number);
            return;
        };
        if let State::Placed(_, place) = span.state {
            span.state = State::Placed(lane, place);
        }
        self.lanes.open(lane, number);
        let args = [("continued".to_owned(), true.into())].into_iter().collect();
        let details = Details { name, categories: vec!["span".to_owned()], args };
        self.file.begin(self.lanes.track(lane), time, details, Arrows::default());
    }

    /// Ends a span whose end never came.
    fn abandon(&mut self, number: u64, time: u64) {
        let Some(span) = self.spans.get_mut(&number) else { return };
        self.counts.unfinished += 1;
        if let State::Placed(..) = span.state {
            return self.close(number, time, unfinished());
        }
        let (inst, group, start) = (span.inst, span.group.clone(), span.start);
        let Some(mut span) = self.forget(number) else { return };
        span.details.args.extend(unfinished());
        self.counts.late += 1;
        self.write_plain(inst, &group, start, span.details);
    }

    fn write_instant(&mut self, time: u64, instant: Instant) {
        if let Some(source) = self.sources.get_mut(&instant.inst) {
            source.rates.record();
        }
        match self.place_of(&instant.within) {
            Some((_, lane)) => {
                self.counts.instants += 1;
                self.file.instant(self.lanes.track(lane), time, instant.details);
            }
            None => self.write_plain(instant.inst, &instant.group, time, instant.details),
        }
    }

    /// Writes an instant that is within nothing.
    fn write_plain(&mut self, inst: Inst, group: &Group, time: u64, details: Details) {
        self.counts.instants += 1;
        let track = self.with_owner(inst, |lanes, file, owner| lanes.first(file, owner, group));
        if let Some(track) = track {
            self.file.instant(track, time, details);
        }
    }

    /// Shows what sources have had in the seconds before a time.
    fn advance(&mut self, time: u64) {
        self.frontier = self.frontier.max(time);
        let second = time / SECOND;
        if second <= self.second {
            return;
        }
        // Those between are without records, which is shown once.
        for ended in (self.second + 1..=second).take(2) {
            for source in self.sources.values_mut() {
                source.rates.show(&mut self.file, ended.saturating_mul(SECOND));
            }
        }
        self.second = second;
    }

    /// Counts a span as a record of its source: its end is none of its own.
    fn count(&mut self, number: u64) {
        let inst = self.spans.get(&number).filter(|span| span.group != Group::Missed).map(|span| span.inst);
        if let Some(source) = inst.and_then(|inst| self.sources.get_mut(&inst)) {
            source.rates.record();
        }
    }

    fn count_missed(&mut self, inst: Inst, time: u64, missed: i64) {
        if missed != 0
            && let Some(source) = self.sources.get_mut(&inst)
        {
            source.rates.miss(&mut self.file, time, missed);
        }
    }

    /// Takes a span out of everything that knows it.
    fn forget(&mut self, number: u64) -> Option<Span> {
        let span = self.spans.remove(&number)?;
        self.held -= span.bytes;
        self.by_id.remove(&span.links(), number);
        self.unended.remove(&links(span.inst, None, span.id.as_ref()), number);
        self.by_parent.remove(&span.parent_links(), number);
        if let State::Placed(_, place) | State::Late(place) = span.state {
            self.open.remove(&place);
        }
        Some(span)
    }

    /// Calls a function with what makes tracks of a source.
    fn with_owner<T>(
        &mut self,
        inst: Inst,
        call: impl FnOnce(&mut Lanes, &mut TraceFile, &Owner<'_>) -> T,
    ) -> Option<T> {
        let source = self.sources.get(&inst)?;
        let owner = Owner { inst, process: source.process, label: &source.label };
        Some(call(&mut self.lanes, &mut self.file, &owner))
    }
}

impl Span {
    fn new(inst: Inst, group: Group, details: Details, start: u64, end: Option<u64>, arrival: u64) -> Span {
        let bytes = cost(&details);
        Span {
            inst,
            group,
            id: None,
            trace: None,
            parent: None,
            details,
            end_args: Map::new(),
            start,
            end,
            arrival,
            arrow: None,
            missed: 0,
            bytes,
            state: State::Waiting,
        }
    }

    fn links(&self) -> Vec<Link> {
        links(self.inst, self.trace.as_ref(), self.id.as_ref())
    }

    fn parent_links(&self) -> Vec<Link> {
        match &self.parent {
            Some(parent) => links(self.inst, self.trace.as_ref(), Some(parent)),
            None => Vec::new(),
        }
    }
}

impl Details {
    /// Adds what the end of a span says; what it says differently is kept next to what its start said.
    fn merge(&mut self, end: Details) {
        for (name, value) in end.args {
            match self.args.get(&name) {
                None => drop(self.args.insert(name, value)),
                Some(old) if *old != value => drop(self.args.insert(format!("{name} (end)"), value)),
                Some(_) => {}
            }
        }
        for category in end.categories {
            if !self.categories.contains(&category) {
                self.categories.push(category);
            }
        }
    }
}

fn unfinished() -> Map<String, Json> {
    [("unfinished".to_owned(), true.into())].into_iter().collect()
}

/// Roughly what it takes in memory.
fn cost(details: &Details) -> usize {
    let args = details.args.iter().map(|(name, value)| name.len() + value.to_string().len());
    COST + details.name.len() + args.sum::<usize>()
}
