//! Objectives: which part of some spans is good, and how fast what may be bad is used up.
//!
//! Spans are counted for ever, by minute over the last six hours, and by a 720th of the objective's window over that. What windows hold is in
//! memory: after a restart they begin anew, and [`Objective::covered`] tells how much of its window an objective knows.
//!
//! **Cost:** of a span that no objective is about a look at an empty list; of another one an addition to two slots.

use std::time::Duration;

use super::namer::{Namer, Ticket};
use super::times::nanos;
use crate::config::ObjectiveConfig;
use pcp_model::Inst;
use pcp_pmda::Instances;

/// Slots of the window.
const SLOTS: u64 = 720;
/// The longest window by minutes.
const MINUTES: u64 = 6 * 60;
const MINUTE: u64 = 60_000_000_000;

/// Good spans, and all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub good: u64,
    pub total: u64,
}

impl Tally {
    /// The part that is not good; `None`: there are no spans.
    pub(crate) fn error_ratio(self) -> Option<f64> {
        (self.total > 0).then(|| (self.total - self.good) as f64 / self.total as f64)
    }

    fn add(&mut self, other: Tally) {
        self.good += other.good;
        self.total += other.total;
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
    since: u64,
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
        }
    }

    /// The part of spans that is not good, over its window.
    pub(crate) fn error_ratio(&self, now: u64) -> Option<f64> {
        self.window.last(SLOTS, now).error_ratio()
    }

    /// How many times as fast as the target allows what may be bad was used up within the last so many minutes.
    pub(crate) fn burn_rate(&self, minutes: u64, now: u64) -> Option<f64> {
        Some(self.minutes.last(minutes, now).error_ratio()? / (1.0 - self.config.target))
    }

    /// The part of what may be bad over the window that is left; below zero: more was bad.
    pub(crate) fn budget(&self, now: u64) -> Option<f64> {
        Some(1.0 - self.error_ratio(now)? / (1.0 - self.config.target))
    }

    /// How much of its window it knows.
    pub(crate) fn covered(&self, now: u64) -> Duration {
        Duration::from_nanos(now.saturating_sub(self.since)).min(self.config.window.0)
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
}

impl Objectives {
    pub(super) fn new(configs: Vec<ObjectiveConfig>) -> Objectives {
        let mut objectives = Objectives {
            instances: Instances::in_memory(),
            gone: 0,
            all: configs.into_iter().map(|config| Objective::new(config, 0)).collect(),
            turn: 0,
            namer: Namer::in_memory(),
        };
        objectives.ask();
        objectives
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

    /// Others. Those that are the same go on; spans are matched anew.
    pub(super) fn set(&mut self, configs: &[ObjectiveConfig], now: u64) {
        let mut before = std::mem::take(&mut self.all);
        for config in configs {
            let same = before.iter().position(|objective| objective.config == *config);
            self.all.push(match same {
                Some(at) => before.swap_remove(at),
                None => Objective::new(config.clone(), now),
            });
        }
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
    pub(super) fn ended(&mut self, objective: u16, took: u64, failed: bool, now: u64) {
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
        let mut objectives = Objectives::new(vec![config("checkout", "shop/*")]);
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
