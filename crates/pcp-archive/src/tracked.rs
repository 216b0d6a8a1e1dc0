//! The metrics that are interpolated: for each instance the values around a time, and those queued ahead of it.
//!
//! Of processes and the like there are thousands of instances in an archive, and some at a time: only those that live, or have values around
//! the time, are looked at.

use rustc_hash::FxHashMap;

use super::interpolated::{Held, Rule, RuleOptions};
use super::queue::Queue;
use super::reader::{Archive, Direction};
use pcp_model::{Desc, InDom, Inst, PM_IN_NULL, Pmid, Timestamp};
use pcp_pdu::{ValueRef, ValuesRef};

/// Nanoseconds since the start of the archive, negated when going backward.
pub(super) type Along = i64;

/// From so many instances on, those that are not in the domain at a time are not looked for.
const LARGE: usize = 16;

/// A metric that has been asked for.
pub(super) struct Metric {
    pub pmid: Pmid,
    pub rule: Rule,
    /// In the order of the result.
    pub slots: Vec<Slot>,
    by_inst: FxHashMap<Inst, usize>,
    /// The slots in the order in which they are born, and how many of them are at the time of the last fetch.
    by_birth: Vec<u32>,
    born: usize,
    /// The slots that live then, or have a value that matters; in their order but for those that came last.
    current: Vec<u32>,
    is_sorted: bool,
    /// The slots of the values in the last record, in their order: the next one's are the same nearly always.
    route: Vec<u32>,
    /// Whether the fetch before had a value of it.
    pub had_values: bool,
}

/// An instance of a metric.
pub(super) struct Slot {
    pub inst: Inst,
    /// Whether the profile has it.
    pub wanted: bool,
    /// Within which times it is looked for.
    pub life: (Along, Along),
    /// One not behind the time of the last fetch, if there is one, and those ahead of it.
    pub queue: Queue<QueuedValue>,
    /// What the first value beyond the queue is.
    pub far: Option<Far>,
    /// The last value up to where all records have been looked through for values, if that is known.
    pub last: Along,
    /// Whether it is among the metric's current ones.
    is_current: bool,
}

/// A value that was read, at or ahead of the time asked for.
pub(super) struct QueuedValue {
    pub at: Along,
    pub follows: Follows,
    pub value: Held,
}

/// What a value comes behind. As wide as what lies beside it: of a narrow one the bytes that make it wide would be copied one by one, with
/// every value.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Follows {
    /// A mark of the same time.
    Mark,
    /// Anything else.
    Other,
}

/// A value or the end, and nothing of the instance between the queue and it.
pub(super) struct Far {
    pub at: Along,
    pub value: Option<Held>,
}

impl Metric {
    pub(crate) fn new(archive: &Archive, desc: &Desc, start: Timestamp, options: RuleOptions) -> Metric {
        let rule = Rule::new(desc, options);
        let mut metric = Metric {
            pmid: desc.pmid,
            rule,
            slots: Vec::new(),
            by_inst: FxHashMap::default(),
            by_birth: Vec::new(),
            born: 0,
            current: Vec::new(),
            is_sorted: true,
            route: Vec::new(),
            had_values: false,
        };
        let slot = |inst, life| Slot {
            inst,
            wanted: true,
            life,
            queue: Queue::new(),
            far: None,
            last: Along::MIN,
            is_current: false,
        };
        if desc.indom == InDom::NULL {
            metric.slots.push(slot(PM_IN_NULL, FOREVER));
        } else if let Some((lives, largest)) = archive.lives(desc.indom) {
            let count = lives.len();
            let mut ordered: Vec<_> = lives.into_iter().enumerate().collect();
            // As the library's hash table gives them back.
            ordered.sort_by_key(|(number, life)| {
                (life.id.unsigned_abs() as usize % count.max(1), std::cmp::Reverse(*number))
            });
            for (_, life) in ordered {
                let since = |time| along(start, Direction::Forward, time);
                let span = match largest >= LARGE {
                    true => (since(life.birth), life.death.map_or(Along::MAX, since)),
                    false => FOREVER,
                };
                metric.slots.push(slot(life.id, span));
            }
        }
        metric.by_inst = metric.slots.iter().enumerate().map(|(number, slot)| (slot.inst, number)).collect();
        metric.order();
        metric
    }

    /// Begins with nobody born.
    fn order(&mut self) {
        self.forget();
        self.by_birth = (0..self.slots.len() as u32).collect();
        let Metric { by_birth, slots, .. } = self;
        by_birth.sort_by_key(|slot| slots[*slot as usize].life.0);
    }
}

impl Metric {
    /// Whether the first value ahead matters, which is the earlier one when going backward.
    pub(crate) fn needs_ahead(&self, direction: Direction) -> bool {
        direction == Direction::Backward || self.rule.needs_next()
    }

    /// Calls `each` for the values whose instances there are, up to the first that it refuses.
    pub(crate) fn each_value<E>(
        &mut self,
        values: ValuesRef<'_>,
        mut each: impl FnMut(&mut Slot, &mut Rule, ValueRef<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        for (at, (inst, value)) in values.iter().enumerate() {
            let Some(number) = self.find(at, inst) else { continue };
            let slot = &mut self.slots[number as usize];
            each(slot, &mut self.rule, value)?;
            if !slot.queue.is_empty() {
                self.take_up(number);
            }
        }
        Ok(())
    }

    /// The slot of the instance at a place among the values of a record. The value of a singular metric has any instance in ancient
    /// archives.
    #[inline(always)]
    fn find(&mut self, at: usize, inst: Inst) -> Option<u32> {
        if let [Slot { inst: PM_IN_NULL, .. }] = &*self.slots {
            return Some(0);
        }
        let known = self.route.get(at).copied();
        let is_there = |number: u32| self.slots.get(number as usize).is_some_and(|slot| slot.inst == inst);
        known.filter(|number| is_there(*number)).or_else(|| self.find_anew(at, inst))
    }

    /// The same for one that has another place than in the record before.
    #[cold]
    fn find_anew(&mut self, at: usize, inst: Inst) -> Option<u32> {
        let number = *self.by_inst.get(&inst)? as u32;
        if at >= self.route.len() {
            self.route.resize(at + 1, number);
        }
        self.route[at] = number;
        Some(number)
    }

    /// Goes on to a time, which is not in front of that of the last fetch: who is born by then is current.
    pub(crate) fn go_to(&mut self, now: Along) {
        while let Some(number) = self.by_birth.get(self.born)
            && self.slots.get(*number as usize).is_some_and(|slot| slot.life.0 <= now)
        {
            self.born += 1;
            self.take_up(*number);
        }
    }

    /// Makes a slot one of the current ones.
    #[inline]
    fn take_up(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        if !std::mem::replace(&mut slot.is_current, true) {
            self.current.push(number);
            self.is_sorted = false;
        }
    }

    /// Leaves those behind that are dead at a time and have no more values.
    pub(crate) fn leave_dead(&mut self, now: Along) {
        let slots = &mut self.slots;
        self.current.retain(|number| {
            let slot = &mut slots[*number as usize];
            slot.is_current = !slot.is_over(now);
            slot.is_current
        });
        if !self.is_sorted {
            self.current.sort_unstable();
            self.is_sorted = true;
        }
    }

    /// The slots that can have a value, or lack one, at the time of the last fetch.
    pub(crate) fn current(&self) -> impl Iterator<Item = &Slot> {
        self.current.iter().filter_map(|number| self.slots.get(*number as usize))
    }

    /// Calls with each of these.
    pub(crate) fn each_current(&mut self, mut each: impl FnMut(&mut Slot)) {
        self.current.iter().for_each(|number| each(&mut self.slots[*number as usize]));
    }

    /// Forgets all values, and the time.
    pub(crate) fn forget(&mut self) {
        for slot in &mut self.slots {
            slot.queue.clear();
            (slot.far, slot.last) = (None, Along::MIN);
            slot.is_current = false;
        }
        self.current.clear();
        (self.born, self.is_sorted) = (0, true);
    }

    /// Turns the times to the other direction.
    pub(crate) fn turn(&mut self) {
        for Slot { life: (birth, death), .. } in &mut self.slots {
            (*birth, *death) = (death.saturating_neg(), birth.saturating_neg());
        }
        self.order();
    }
}

const FOREVER: (Along, Along) = (Along::MIN, Along::MAX);

impl Slot {
    /// Queues a value that was read ahead; at or in front of `now` only the last one counts, so it takes the place of
    /// the one before. Whether the queue is longer by one then.
    #[inline]
    pub(crate) fn read_ahead(&mut self, value: QueuedValue, now: Along) -> bool {
        if let Some(back) = self.queue.back_mut().filter(|_| value.at <= now) {
            *back = value;
            return false;
        }
        // The one before need not wait until all are passed: with it the new one would be the third in the queue, mostly.
        let is_passed = self.queue.second().is_some_and(|second| second.at <= now);
        if is_passed {
            self.queue.pop_front();
        }
        self.queue.push_back(value);
        !is_passed
    }

    /// Whether a value at or behind `now` is wanted and not known, nor known not to be. All records up to `looked` have been looked through.
    pub(crate) fn lacks_next(&self, now: Along, looked: Along) -> bool {
        self.wanted
            && (now > looked || self.last >= now)
            && self.queue.back().is_none_or(|value| value.at < now)
            && self.far.as_ref().is_none_or(|far| far.at < now)
            && alive(self.life, now)
    }

    /// Whether it is dead, and all that is known of it lies in front of `now`: it has no value from then on.
    fn is_over(&self, now: Along) -> bool {
        self.life.1 < now
            && self.queue.back().is_none_or(|value| value.at < now)
            && self.far.as_ref().is_none_or(|far| far.value.is_none() || far.at < now)
    }

    /// The last value not behind `now`, and the first not in front of it, unless a mark is nearer.
    pub(crate) fn around(
        &self,
        now: Along,
        passed: Option<Along>,
        next_mark: Option<Along>,
    ) -> [Option<(Along, &Held)>; 2] {
        fn pair(sample: &QueuedValue) -> (Along, &Held) {
            (sample.at, &sample.value)
        }
        let before = self.queue.front().filter(|value| value.at <= now);
        let before = before.filter(|sample| {
            passed
                .is_none_or(|mark| mark < sample.at || (mark == sample.at && sample.follows == Follows::Mark))
        });
        let queued = self.queue.iter().find(|value| value.at >= now);
        let after = match queued {
            Some(sample) => {
                let free = next_mark.is_none_or(|mark| {
                    mark > sample.at || (mark == sample.at && sample.follows == Follows::Other)
                });
                free.then(|| pair(sample))
            }
            None => match &self.far {
                Some(Far { at, value: Some(value) })
                    if *at >= now && next_mark.is_none_or(|mark| mark > *at) =>
                {
                    Some((*at, value))
                }
                _ => None,
            },
        };
        [before.map(pair), after]
    }
}

/// Whether `now`, in either direction, is within a life.
pub(super) fn alive((birth, death): (Along, Along), now: Along) -> bool {
    birth <= now && now <= death
}

pub(super) fn along(start: Timestamp, direction: Direction, time: Timestamp) -> Along {
    let nanos = time.as_nanos() - start.as_nanos();
    let nanos = nanos.clamp(i128::from(-Along::MAX), i128::from(Along::MAX)) as Along;
    match direction {
        Direction::Forward => nanos,
        Direction::Backward => -nanos,
    }
}
