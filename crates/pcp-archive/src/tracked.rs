//! The metrics that are interpolated: for each instance the values around a time, and those queued ahead of it.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::interpolated::{Held, Rule, RuleOptions};
use super::reader::{Archive, Direction};
use pcp_model::{Desc, InDom, Inst, PM_IN_NULL, Pmid, Timestamp};

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
    pub by_inst: FxHashMap<Inst, usize>,
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
    pub samples: VecDeque<Sample>,
    /// What the first value beyond the queue is.
    pub far: Option<Far>,
}

pub(super) struct Sample {
    pub at: Along,
    /// Whether a mark of the same time comes before it.
    pub after_mark: bool,
    pub value: Held,
}

/// A value or the end, and nothing of the instance between the queue and it.
pub(super) struct Far {
    pub at: Along,
    pub value: Option<Held>,
}

impl Metric {
    pub fn new(archive: &Archive, desc: &Desc, start: Timestamp, options: RuleOptions) -> Metric {
        let rule = Rule::new(desc, options);
        let mut metric = Metric {
            pmid: desc.pmid,
            rule,
            slots: Vec::new(),
            by_inst: FxHashMap::default(),
            had_values: false,
        };
        let slot = |inst, life| Slot { inst, wanted: true, life, samples: VecDeque::new(), far: None };
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
        metric
    }
}

impl Metric {
    /// Whether the first value ahead matters, which is the earlier one when going backward.
    pub fn needs_ahead(&self, direction: Direction) -> bool {
        direction == Direction::Backward || self.rule.needs_next()
    }

    /// Turns the times to the other direction.
    pub fn turn(&mut self) {
        for Slot { life: (birth, death), .. } in &mut self.slots {
            (*birth, *death) = (death.saturating_neg(), birth.saturating_neg());
        }
    }
}

const FOREVER: (Along, Along) = (Along::MIN, Along::MAX);

impl Slot {
    pub fn lacks_next(&self, now: Along) -> bool {
        self.wanted
            && self.samples.back().is_none_or(|sample| sample.at < now)
            && self.far.as_ref().is_none_or(|far| far.at < now)
            && alive(self.life, now)
    }

    /// The last value not behind `now`, and the first not in front of it, unless a mark is nearer.
    pub fn around(
        &self,
        now: Along,
        passed: Option<Along>,
        next_mark: Option<Along>,
    ) -> [Option<(Along, &Held)>; 2] {
        fn pair(sample: &Sample) -> (Along, &Held) {
            (sample.at, &sample.value)
        }
        let before = self.samples.front().filter(|sample| sample.at <= now);
        let before = before.filter(|sample| {
            passed.is_none_or(|mark| mark < sample.at || (mark == sample.at && sample.after_mark))
        });
        let queued = self.samples.iter().find(|sample| sample.at >= now);
        let after = match queued {
            Some(sample) => {
                let free = next_mark
                    .is_none_or(|mark| mark > sample.at || (mark == sample.at && !sample.after_mark));
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

/// The slot of an instance: records have instances in the same order again and again. The value of a singular
/// metric has any instance in ancient archives.
pub(super) fn find(
    slots: &[Slot],
    by_inst: &FxHashMap<Inst, usize>,
    inst: Inst,
    hint: &mut usize,
) -> Option<usize> {
    let number = match slots {
        [Slot { inst: PM_IN_NULL, .. }] => 0,
        slots if slots.get(*hint).is_some_and(|slot| slot.inst == inst) => *hint,
        _ => *by_inst.get(&inst)?,
    };
    *hint = number + 1;
    Some(number)
}

pub(super) fn along(start: Timestamp, direction: Direction, time: Timestamp) -> Along {
    let nanos = time.as_nanos() - start.as_nanos();
    let nanos = nanos.clamp(i128::from(-Along::MAX), i128::from(Along::MAX)) as Along;
    match direction {
        Direction::Forward => nanos,
        Direction::Backward => -nanos,
    }
}
