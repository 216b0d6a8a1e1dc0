//! Objectives: which part of some spans is good, and how fast what may be bad is used up.
//!
//! Spans are counted since the start, by minute over the last six hours, and by a 720th of the objective's window over that. What windows
//! hold is on file (`kept`, by the thread of `saver`), so that they go on over restarts; [`Objective::covered`] tells how much of its window
//! an objective knows: what the time was while no agent ran is not.
//!
//! Times are nanoseconds since the epoch, of a clock that is looked at once, at the start, so that none of them goes back.
//!
//! **Cost:** of a span that no objective is about a look at an empty list; of another one an addition to two slots.

mod kept;
mod saver;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::namer::{Namer, Ticket};
use super::times::nanos;
use crate::config::ObjectiveConfig;
use pcp_model::Inst;
use pcp_pmda::Instances;

use kept::{Kept, KeptSlot};
use saver::{Place, Saver};

/// Slots of the window.
const SLOTS: u64 = 720;
/// The longest window by minutes.
const MINUTES: u64 = 6 * 60;
const MINUTE: u64 = 60_000_000_000;
/// Stretches of time that are remembered apart; earlier ones are forgotten.
const STRETCHES: usize = 64;

/// Good spans, and all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub good: u64,
    pub total: u64,
}

impl Tally {
    /// The part that is not good; `None`: there are no spans.
    pub(crate) fn error_ratio(self) -> Option<f64> {
        (self.total > 0).then(|| self.bad() as f64 / self.total as f64)
    }

    /// Those that are not good.
    pub(crate) fn bad(self) -> u64 {
        self.total.saturating_sub(self.good)
    }

    fn add(&mut self, other: Tally) {
        // What comes from a file may be anything.
        self.good = self.good.saturating_add(other.good);
        self.total = self.total.saturating_add(other.total);
    }
}

/// Tallies of equal times, the last of which is the current one.
#[derive(Debug)]
struct Ring {
    slots: Box<[Tally]>,
    /// Nanoseconds of a slot.
    length: u64,
    /// The number of the newest slot.
    newest: u64,
}

impl Ring {
    fn new(number: u64, length: u64, now: u64) -> Ring {
        Ring { slots: vec![Tally::default(); number as usize].into(), length, newest: now / length }
    }

    fn at(&self, number: u64) -> usize {
        (number % self.slots.len() as u64) as usize
    }

    #[inline]
    fn add(&mut self, tally: Tally, now: u64) {
        let number = now / self.length;
        if number > self.newest {
            self.turn_to(number);
        }
        let at = self.at(self.newest);
        self.slots[at].add(tally);
    }

    #[cold]
    fn turn_to(&mut self, number: u64) {
        let steps = (number - self.newest).min(self.slots.len() as u64);
        for step in 0..steps {
            let at = self.at(number - step);
            self.slots[at] = Tally::default();
        }
        self.newest = number;
    }

    /// Slots with spans, for a file.
    fn kept(&self) -> Vec<KeptSlot> {
        let oldest = self.newest.saturating_sub(self.slots.len() as u64 - 1);
        let slots = (oldest..=self.newest).map(|slot| (slot, self.slots[self.at(slot)]));
        let slots = slots.filter(|(_, tally)| tally.total > 0);
        slots.map(|(slot, tally)| (slot, tally.good, tally.total)).collect()
    }

    /// Puts them back where they are of its time.
    fn restore(&mut self, kept: &[KeptSlot]) {
        let oldest = self.newest.saturating_sub(self.slots.len() as u64 - 1);
        for &(slot, good, total) in kept {
            if (oldest..=self.newest).contains(&slot) && good <= total {
                let at = self.at(slot);
                self.slots[at] = Tally { good, total };
            }
        }
    }

    /// The sum of the last so many slots, the current one among them.
    fn last(&self, number: u64, now: u64) -> Tally {
        let mut sum = Tally::default();
        let current = now / self.length;
        for back in 0..number.min(self.slots.len() as u64) {
            let Some(slot) = current.checked_sub(back) else { break };
            if slot <= self.newest && self.newest - slot < self.slots.len() as u64 {
                sum.add(self.slots[self.at(slot)]);
            }
        }
        sum
    }
}

/// One objective.
#[derive(Debug)]
pub(crate) struct Objective {
    pub config: ObjectiveConfig,
    /// All spans since the agent's start.
    pub tally: Tally,
    inst: Option<Inst>,
    minutes: Ring,
    window: Ring,
    /// When it began to count.
    since: u64,
    /// From when to when others before this agent have counted for it, in order.
    known: Vec<(u64, u64)>,
}

impl Objective {
    fn new(config: ObjectiveConfig, now: u64) -> Objective {
        let length = (nanos(config.window.0) / SLOTS).max(1);
        Objective {
            config,
            tally: Tally::default(),
            inst: None,
            minutes: Ring::new(MINUTES, MINUTE, now),
            window: Ring::new(SLOTS, length, now),
            since: now,
            known: Vec::new(),
        }
    }

    /// Whether it counts for a table: the part of spans that is to be good may be another one.
    fn counts_for(&self, config: &ObjectiveConfig) -> bool {
        ObjectiveConfig { target: config.target, ..self.config.clone() } == *config
    }

    /// What is to be kept of it at this time.
    fn kept(&self, now: u64) -> Kept {
        let mut known = self.known.clone();
        known.push((self.since, now));
        Kept {
            name: self.config.name.clone(),
            spans: self.config.spans.0.clone(),
            threshold: self.config.threshold.map(|most| nanos(most.0)),
            window: nanos(self.config.window.0),
            known,
            minutes: self.minutes.kept(),
            slots: self.window.kept(),
        }
    }

    /// Takes what was kept of it. False: that is of another one.
    fn restore(&mut self, kept: &Kept, now: u64) -> bool {
        if !kept.is_of(&self.config) {
            return false;
        }
        self.minutes.restore(&kept.minutes);
        self.window.restore(&kept.slots);
        // Where the clock was put back, they end now.
        let stretches = kept.known.iter().map(|(from, to)| (*from, (*to).min(now)));
        self.known = stretches.filter(|(from, to)| from < to).collect();
        self.known.sort_unstable();
        self.tidy(now);
        true
    }

    /// Forgets stretches that are over, and the earliest of too many.
    fn tidy(&mut self, now: u64) {
        let begin = now.saturating_sub(nanos(self.config.window.0));
        self.known.retain(|(_, to)| *to > begin);
        self.known.drain(..self.known.len().saturating_sub(STRETCHES));
    }

    /// Spans over its window.
    pub(crate) fn in_window(&self, now: u64) -> Tally {
        self.window.last(SLOTS, now)
    }

    /// Spans of the last so many minutes.
    pub(crate) fn in_minutes(&self, minutes: u64, now: u64) -> Tally {
        self.minutes.last(minutes, now)
    }

    /// The part of spans that is not good, over its window.
    pub(crate) fn error_ratio(&self, now: u64) -> Option<f64> {
        self.in_window(now).error_ratio()
    }

    /// How many times as fast as the target allows what may be bad was used up within the last so many minutes.
    pub(crate) fn burn_rate(&self, minutes: u64, now: u64) -> Option<f64> {
        Some(self.in_minutes(minutes, now).error_ratio()? / (1.0 - self.config.target))
    }

    /// The part of what may be bad over the window that is left; below zero: more was bad.
    pub(crate) fn budget(&self, now: u64) -> Option<f64> {
        Some(1.0 - self.error_ratio(now)? / (1.0 - self.config.target))
    }

    /// How much of its window it knows.
    pub(crate) fn covered(&self, now: u64) -> Duration {
        let begin = now.saturating_sub(nanos(self.config.window.0));
        let stretches = self.known.iter().copied().chain([(self.since, now)]);
        let (covered, _) = stretches.fold((0_u64, begin), |(covered, at), (from, to)| {
            // They do not overlap, but for a clock that was put back.
            let (from, to) = (from.max(at), to.max(at));
            (covered.saturating_add(to.saturating_sub(from)), to)
        });
        Duration::from_nanos(covered).min(self.config.window.0)
    }
}

/// All objectives, by their number in the configuration.
#[derive(Debug)]
pub(crate) struct Objectives {
    /// The instance domain.
    pub instances: Instances,
    /// Instances that have gone.
    pub gone: u64,
    all: Vec<Objective>,
    turn: u32,
    namer: Namer,
    /// The time of the start, in nanoseconds since the epoch.
    start: u64,
    /// Where they are kept, and who is woken to write them.
    place: Option<Place>,
    saver: Option<Saver>,
    /// Something was counted that is not on file.
    is_changed: bool,
}

impl Objectives {
    pub(super) fn new(configs: Vec<ObjectiveConfig>) -> Objectives {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Objectives::begun(configs, now.map_or(0, nanos))
    }

    /// The same at a time since the epoch.
    fn begun(configs: Vec<ObjectiveConfig>, start: u64) -> Objectives {
        let mut objectives = Objectives {
            instances: Instances::in_memory(),
            gone: 0,
            all: configs.into_iter().map(|config| Objective::new(config, start)).collect(),
            turn: 0,
            namer: Namer::in_memory(),
            start,
            place: None,
            saver: None,
            is_changed: false,
        };
        objectives.ask();
        objectives
    }

    /// The time since the epoch, by that since the start.
    pub(crate) fn time(&self, since_start: u64) -> u64 {
        self.start.saturating_add(since_start)
    }

    /// Goes on where objectives were when the file was written, and keeps them there from now on. Before anything is counted.
    pub(crate) fn keep_in(&mut self, path: &Path, wake: Arc<dyn Fn() + Send + Sync>) {
        let now = self.start;
        for kept in saver::load(path) {
            let _ = self.all.iter_mut().any(|objective| objective.restore(&kept, now));
        }
        self.place = Some(Place { path: path.to_owned(), wake });
        self.start_saver();
    }

    /// Starts the thread that writes, if there is something to write and a place for it.
    fn start_saver(&mut self) {
        if self.all.is_empty() || self.saver.is_some() {
            return;
        }
        let Some(place) = &self.place else { return };
        match Saver::start(place) {
            Ok(saver) => self.saver = Some(saver),
            Err(error) => tracing::warn!("what objectives know is not kept: {error}"),
        }
    }

    /// Has what has changed written, if it is time.
    pub(super) fn save(&mut self, since_start: u64) {
        if !self.saver.as_ref().is_some_and(Saver::is_due) || !self.is_changed {
            return;
        }
        let all = self.kept(since_start);
        self.is_changed = self.saver.as_ref().is_some_and(|saver| !saver.give(all));
    }

    /// Has all written, and waits until it is. At the end only.
    pub(super) fn save_last(&mut self, since_start: u64) {
        if let Some(saver) = self.saver.take() {
            saver.finish(self.kept(since_start));
        }
    }

    fn kept(&self, since_start: u64) -> Vec<Kept> {
        let now = self.time(since_start);
        self.all.iter().map(|objective| objective.kept(now)).collect()
    }

    /// Has names put on file from now on. Before anybody has seen a number.
    pub(crate) fn name_by(&mut self, namer: Namer) {
        self.namer = namer;
        self.instances = Instances::in_memory();
        self.all.iter_mut().for_each(|objective| objective.inst = None);
        self.ask();
    }

    fn ask(&mut self) {
        self.turn += 1;
        for (place, objective) in
            self.all.iter().enumerate().filter(|(_, objective)| objective.inst.is_none())
        {
            let ticket = Ticket { place: place as u32, turn: self.turn };
            self.namer.ask(ticket, objective.config.name.clone());
        }
    }

    /// Others. Those that count the same go on; spans are matched anew.
    pub(super) fn set(&mut self, configs: &[ObjectiveConfig], since_start: u64) {
        let now = self.time(since_start);
        let mut before = std::mem::take(&mut self.all);
        for config in configs {
            let same = before.iter().position(|objective| objective.counts_for(config));
            self.all.push(match same {
                Some(at) => Objective { config: config.clone(), ..before.swap_remove(at) },
                None => Objective::new(config.clone(), now),
            });
        }
        self.is_changed = true;
        self.start_saver();
        for objective in before {
            if let Some(inst) = objective.inst {
                self.instances.forget(inst);
                self.gone += 1;
            }
        }
        self.ask();
    }

    /// Takes in the names that are on file by now.
    pub(crate) fn take_names(&mut self) {
        while let Some(told) = self.namer.told() {
            let objective = self.all.get_mut(told.ticket.place as usize);
            if let (Some(objective), Some(inst)) = (objective, told.inst)
                && objective.config.name == told.name
                && self.instances.add_as(inst, &told.name).is_ok()
            {
                objective.inst = Some(inst);
            }
        }
    }

    /// Those that are about a span.
    pub(super) fn of(&self, span: &str) -> Box<[u16]> {
        let all = self.all.iter().enumerate();
        all.filter(|(_, objective)| objective.config.spans.matches(span)).map(|(at, _)| at as u16).collect()
    }

    /// Counts a span that has ended.
    #[inline]
    pub(super) fn ended(&mut self, objective: u16, took: u64, failed: bool, since_start: u64) {
        let now = self.time(since_start);
        self.is_changed = true;
        let Some(objective) = self.all.get_mut(usize::from(objective)) else { return };
        let is_slow = objective.config.threshold.is_some_and(|most| took > nanos(most.0));
        let tally = Tally { good: u64::from(!failed && !is_slow), total: 1 };
        objective.tally.add(tally);
        objective.minutes.add(tally, now);
        objective.window.add(tally, now);
    }

    /// The objective of an instance.
    pub(crate) fn get(&self, inst: Inst) -> Option<&Objective> {
        self.all.iter().find(|objective| objective.inst == Some(inst))
    }
}

#[cfg(test)]
mod tests {
    use jumpseat_source::Interval;
    use jumpseat_source::rules::Pattern;
    use proptest::prelude::*;

    use super::*;

    fn config(name: &str, spans: &str) -> ObjectiveConfig {
        ObjectiveConfig {
            name: name.to_owned(),
            spans: Pattern(spans.to_owned()),
            threshold: Some(Interval(Duration::from_millis(300))),
            target: 0.99,
            window: Interval(Duration::from_secs(30 * 24 * 3600)),
        }
    }

    #[test]
    fn burn_rates_tell_how_fast_the_budget_goes() {
        let mut objectives = Objectives::begun(vec![config("checkout", "shop/*")], 0);
        objectives.take_names();
        assert_eq!((&*objectives.of("shop/checkout"), &*objectives.of("web/get")), (&[0][..], &[][..]));
        // A hundred spans a minute for ten minutes, of which one is bad, by its time or its failure, then five.
        for minute in 0..10_u64 {
            for n in 0..100_u64 {
                let bad = n < if minute < 5 { 1 } else { 5 };
                let nanos = if bad && minute % 2 == 0 { 300_000_001 } else { 300_000_000 };
                objectives.ended(0, nanos, bad && minute % 2 == 1, minute * MINUTE);
            }
        }
        let objective = objectives.get(0).expect("it has a name");
        let now = 9 * MINUTE;
        assert_eq!(objective.tally, Tally { good: 970, total: 1000 });
        let near = |value: Option<f64>, expected: f64| {
            assert!((value.expect("there are spans") - expected).abs() < 1e-9)
        };
        near(objective.burn_rate(5, now), 5.0);
        near(objective.burn_rate(60, now), 3.0);
        near(objective.error_ratio(now), 0.03);
        near(objective.budget(now), -2.0);
        assert_eq!(objective.covered(now), Duration::from_secs(540));
        assert_eq!(objective.burn_rate(5, now + 7 * 60 * MINUTE), None, "no spans for long");
        near(objective.error_ratio(now + 7 * 60 * MINUTE), 0.03);
        assert_eq!(objective.error_ratio(now + 31 * 24 * 60 * MINUTE), None);
    }

    #[test]
    fn a_reload_keeps_those_that_are_the_same() {
        let mut objectives = Objectives::new(vec![config("a", "*"), config("b", "*")]);
        objectives.take_names();
        objectives.ended(1, 1, false, 0);
        let (a, b) = (objectives.instances.find("a"), objectives.instances.find("b"));
        objectives.set(&[config("b", "*"), config("c", "x/*")], 5);
        objectives.take_names();
        assert_eq!((objectives.instances.find("b"), objectives.instances.find("a").is_err()), (b, true));
        assert_eq!(objectives.get(b.expect("there")).map(|objective| objective.tally.total), Some(1));
        assert_eq!(&*objectives.of("x/y"), [0, 1]);
        objectives.set(&[config("a", "*")], 6);
        objectives.take_names();
        assert_eq!(objectives.instances.find("a"), a, "its number is its own");
    }

    #[test]
    fn the_target_may_change_and_nothing_else() {
        let mut objectives = Objectives::begun(vec![config("a", "*")], 0);
        objectives.take_names();
        objectives.ended(0, 1, true, 0);
        objectives.set(&[ObjectiveConfig { target: 0.5, ..config("a", "*") }], 1);
        let objective = objectives.get(0).expect("it has a name");
        assert_eq!((objective.tally.total, objective.budget(1)), (1, Some(-1.0)));
        objectives.set(&[ObjectiveConfig { threshold: None, ..config("a", "*") }], 2);
        objectives.take_names();
        assert_eq!(objectives.get(0).map(|objective| objective.tally.total), Some(0));
    }

    const DAY: u64 = 24 * 60 * MINUTE;
    /// In 2026.
    const START: u64 = 1_795_000_000_000_000_000;

    #[test]
    fn windows_go_on_over_restarts() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("objectives");
        let begin = |start, configs| {
            let mut objectives = Objectives::begun(configs, start);
            objectives.keep_in(&path, Arc::new(|| ()));
            objectives.take_names();
            objectives
        };
        let of = |objectives: &Objectives, name: &str| {
            let inst = objectives.instances.find(name).expect("it has a name");
            let (objective, now) = (objectives.get(inst).expect("it is there"), objectives.time(0));
            let hours = objective.covered(now).as_secs_f64() / 3600.0;
            (objective.window.last(SLOTS, now), objective.minutes.last(MINUTES, now), hours)
        };
        let both = || vec![config("a", "*"), config("b", "x/*")];
        let mut first = begin(START, both());
        (0..10).for_each(|n| first.ended(0, 1, n == 0, 0));
        (0..20).for_each(|_| first.ended(1, 1, false, DAY));
        first.save_last(DAY);
        // A day later; one of them has another target, the other another threshold.
        let others = vec![
            ObjectiveConfig { target: 0.5, ..config("a", "*") },
            ObjectiveConfig { threshold: None, ..config("b", "x/*") },
        ];
        let tally = |good, total| Tally { good, total };
        let mut second = begin(START + 2 * DAY, others);
        assert_eq!(of(&second, "a"), (tally(9, 10), tally(0, 0), 24.0), "the day between is not known");
        assert_eq!(of(&second, "b"), (tally(0, 0), tally(0, 0), 0.0));
        assert_eq!(second.get(0).map(|objective| objective.tally), Some(tally(0, 0)), "counters begin anew");
        second.ended(0, 1, false, 0);
        second.save_last(60 * MINUTE);
        let third = begin(START + 2 * DAY + 120 * MINUTE, both());
        assert_eq!(of(&third, "a"), (tally(10, 11), tally(1, 1), 25.0));
        drop(third);
        // The clock was put back to before all that is on file; and 29 days later the first day is over.
        assert_eq!(of(&begin(START - DAY, both()), "a"), (tally(0, 0), tally(0, 0), 0.0));
        let last = begin(START + 31 * DAY, both());
        assert_eq!((of(&last, "a").0, of(&last, "a").2), (tally(1, 1), 1.0));
    }

    #[test]
    fn what_is_damaged_costs_what_it_is_of() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("objectives");
        let mut first = Objectives::begun(vec![config("a", "*"), config("b", "*")], START);
        first.keep_in(&path, Arc::new(|| ()));
        (0..2).for_each(|at| first.ended(at, 1, false, 0));
        first.save_last(MINUTE);
        let whole = std::fs::read(&path).expect("it is there");
        let totals = |bytes: &[u8]| -> Vec<u64> {
            std::fs::write(&path, bytes).expect("it takes it");
            let mut objectives =
                Objectives::begun(vec![config("a", "*"), config("b", "*")], START + 2 * MINUTE);
            objectives.keep_in(&path, Arc::new(|| ()));
            let now = objectives.time(0);
            objectives.all.iter().map(|objective| objective.window.last(SLOTS, now).total).collect()
        };
        assert_eq!(totals(&whole), [1, 1]);
        let text = String::from_utf8(whole.clone()).expect("text");
        assert_eq!(totals(text.replacen("\"name\":\"a\"", "\"name\":7", 1).as_bytes()), [0, 1]);
        assert_eq!(totals(text.replacen(":1}", ":2}", 1).as_bytes()), [0, 0], "of a later version");
        assert_eq!(totals(b""), [0, 0]);
        // Cut anywhere, and any byte another one: nothing breaks, and what is read is no more than there was.
        for at in 0..whole.len() {
            assert!(totals(&whole[..at]).iter().all(|total| *total <= 1), "{at}");
        }
        let huge = text.replace(",1,1]]", ",18446744073709551615,18446744073709551615],[1,1,1]]");
        assert_eq!(totals(huge.as_bytes()), [u64::MAX, u64::MAX]);
    }

    proptest! {
        /// Against a list of all that was added.
        #[test]
        fn rings_are_sums_of_their_last_slots(
            steps in prop::collection::vec((0..30_u64, any::<bool>()), 0..100), number in 1..9_u64, look in 1..9_u64,
        ) {
            let mut ring = Ring::new(number, 10, 0);
            let (mut all, mut now) = (Vec::new(), 0);
            for (later, is_good) in steps {
                now += later;
                let tally = Tally { good: u64::from(is_good), total: 1 };
                ring.add(tally, now);
                all.push((now / 10, tally));
                let mut sum = Tally::default();
                let look = look.min(number);
                all.iter().filter(|(slot, _)| now / 10 - slot < look).for_each(|(_, tally)| sum.add(*tally));
                prop_assert_eq!(ring.last(look, now), sum);
            }
        }
    }
}
