//! The last value of each instance of each counter, those of all metrics in one row.

use rustc_hash::FxHashMap;

use super::finding::Told;
use pcp_model::Inst;

/// Counters that are followed.
const MAX_COUNTERS: usize = 4 << 20;

/// Those of all metrics.
#[derive(Default)]
pub(super) struct Counters {
    last: Vec<Last>,
    /// Of each, that it went back.
    told: Vec<Told>,
    /// Grows with each mark: what is of another stretch is not compared.
    stretch: u32,
}

/// The last value of a counter.
struct Last {
    value: f64,
    stretch: u32,
    inst: Inst,
}

/// Where a counter is in the row.
pub(super) type Number = u32;

/// Those of one metric, in the order in which their instances came first.
#[derive(Default)]
pub(super) struct OfMetric {
    all: Vec<Number>,
    places: FxHashMap<Inst, Number>,
}

impl OfMetric {
    /// The counter of an instance, which is likely to be at that place.
    #[inline]
    pub(super) fn at(&mut self, place: usize, inst: Inst, counters: &mut Counters) -> Option<Number> {
        match self.all.get(place) {
            Some(&number) if counters.last.get(number as usize).is_some_and(|last| last.inst == inst) => {
                Some(number)
            }
            _ => self.of(inst).or_else(|| {
                let number = counters.new_one(inst)?;
                self.places.insert(inst, number);
                self.all.push(number);
                Some(number)
            }),
        }
    }

    /// The counter of an instance that came before.
    pub(super) fn of(&self, inst: Inst) -> Option<Number> {
        self.places.get(&inst).copied()
    }
}

impl Counters {
    /// What came before has nothing to do with what comes.
    pub(super) fn mark(&mut self) {
        self.stretch = self.stretch.wrapping_add(1);
    }

    fn new_one(&mut self, inst: Inst) -> Option<Number> {
        if self.last.len() >= MAX_COUNTERS {
            return None;
        }
        // Less than nothing is before the first value.
        self.last.push(Last { value: f64::NEG_INFINITY, stretch: self.stretch, inst });
        self.told.push(Told::default());
        Some((self.last.len() - 1) as Number)
    }

    /// Whether a counter with that value now has gone back.
    #[inline(always)]
    pub(super) fn is_back(&self, number: Number, value: f64) -> bool {
        // Both are looked at in any case: nearly always neither is so, and a step less is taken for each value.
        self.last
            .get(number as usize)
            .is_some_and(|last| (last.stretch == self.stretch) & (value < last.value))
    }

    /// Keeps the value of a counter.
    #[inline(always)]
    pub(super) fn keep(&mut self, number: Number, value: f64) {
        if let Some(last) = self.last.get_mut(number as usize) {
            (last.value, last.stretch) = (value, self.stretch);
        }
    }

    /// The value of a counter before, and what was told of it.
    pub(super) fn before(&mut self, number: Number) -> Option<(f64, &mut Told)> {
        let number = number as usize;
        Some((self.last.get(number)?.value, self.told.get_mut(number)?))
    }
}
