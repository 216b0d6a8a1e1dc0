//! Numbers of metrics without instances, of some samples, on their way to their columns.
//!
//! A record has a value for each of thousands of columns; put into them one by one, each is a column that the processor has long
//! forgotten. So records are put down in their order first, and some of them go into a column at once, which the thread does that encodes it.
//!
//! ```text
//! samples      metric 0 | metric 1 | metric 2 ...    written from the left to the right
//!    0             1          7          3
//!    1             2          7          4           read from the top to the bottom
//! ```
//!
//! **Cost:** of a value, a load from its record and a store here, both next to the ones before. Where columns have a value in all samples, and
//! their table rows one after the other, nothing else is looked at when they are taken out.
//!
//! **Bounded:** there are [`STAGES`] at most; who fills them waits for one that all threads have taken their columns' numbers from.

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use pcp_model::{Number, ValueType};

/// Most samples: a number has a bit in a word for each. And most numbers of all of them: more are out of the processor's memory
/// again before they are read.
pub(super) const DEPTH: usize = 64;
const ROOM: usize = 1 << 19;
/// One is filled, and others are read meanwhile.
const STAGES: usize = 3;
/// A table that has no row in a sample.
const NONE: u32 = u32::MAX;
/// Numbers in a line of the processor's memory.
const LINE: usize = 8;

/// The numbers of some samples; the default one has room for none.
#[derive(Default)]
pub(super) struct Stage {
    /// How many metrics it is for.
    width: usize,
    /// From the numbers of a sample to those of the next.
    stride: usize,
    depth: usize,
    /// Samples that there are.
    used: usize,
    /// By sample and metric, the bits of the number.
    bits: Vec<u64>,
    /// By metric, the samples that it has a number in: a bit each.
    has: Vec<u64>,
    /// By table and sample, the row of the numbers in the table.
    rows: Vec<u32>,
}

/// Where numbers of a record are: where in its data, and which metrics they are of.
pub(super) type Places = [(u32, u32)];

impl Stage {
    /// For so many metrics, in so many tables.
    pub(super) fn new(width: usize, tables: usize) -> Stage {
        let lines = width.div_ceil(LINE);
        // An odd number of lines: with others all samples of a metric could be in the same few places of the processor's memory.
        let stride = (lines | 1) * LINE;
        let depth = (ROOM / stride).clamp(1, DEPTH);
        let (bits, has) = (vec![0; stride * depth], vec![0; width]);
        Stage { width, stride, depth, used: 0, bits, has, rows: vec![NONE; tables * DEPTH] }
    }

    /// Begins a sample; `false` if there is no room for one.
    pub(super) fn begin(&mut self) -> bool {
        let has_room = self.used < self.depth;
        self.used += usize::from(has_room);
        has_room
    }

    /// Whether there are no samples.
    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The row that a table has for the numbers of the sample.
    pub(super) fn row(&mut self, table: usize, row: usize) {
        if let Some(place) = self.rows.get_mut(table * DEPTH + self.used.saturating_sub(1)) {
            *place = row as u32;
        }
    }

    /// Puts a number of the sample, whose table has a row.
    pub(super) fn put(&mut self, metric: usize, number: Number) {
        let sample = self.used.saturating_sub(1);
        if let (Some(bits), Some(has)) =
            (self.bits.get_mut(sample * self.stride + metric), self.has.get_mut(metric))
        {
            *bits = bits_of(number);
            *has |= 1 << sample;
        }
    }

    /// Puts the numbers of `N` bytes that are in places of data, most significant byte first. Their tables have rows.
    pub(super) fn put_all<const N: usize>(&mut self, places: &Places, data: &[u8]) {
        let sample = self.used.saturating_sub(1);
        let bits = self.bits.get_mut(sample * self.stride..).and_then(|rest| rest.get_mut(..self.width));
        let Some(bits) = bits else { return };
        let bit = 1 << sample;
        for &(place, metric) in places {
            let bytes = data.get(place as usize..).and_then(|rest| rest.first_chunk::<N>());
            let slots = (bits.get_mut(metric as usize), self.has.get_mut(metric as usize));
            if let (Some(bytes), (Some(bits), Some(has))) = (bytes, slots) {
                *bits = bytes.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
                *has |= bit;
            }
        }
    }

    /// The row of a table's first sample, if it has rows in all samples, one after the other.
    pub(super) fn run(&self, table: usize) -> Option<usize> {
        let rows = self.rows.get(table * DEPTH..)?.get(..self.used)?;
        let first = *rows.first().filter(|first| **first != NONE)?;
        rows.iter().zip(first..).all(|(row, next)| *row == next).then_some(first as usize)
    }

    /// Whether a table has a row in any sample.
    pub(super) fn has_rows(&self, table: usize) -> bool {
        let rows = self.rows.get(table * DEPTH..).and_then(|rows| rows.get(..self.used));
        rows.is_some_and(|rows| rows.iter().any(|row| *row != NONE))
    }

    /// How many samples there are.
    pub(super) fn samples(&self) -> usize {
        self.used
    }

    /// The bits of the numbers of metrics, of each in all samples and then those of the next, if each has a number in all of them.
    pub(super) fn all(&self, metrics: Range<usize>) -> Option<Vec<u64>> {
        let all = u64::MAX.checked_shr((DEPTH - self.used) as u32).unwrap_or(0);
        let are_whole = self.used > 0 && self.has.get(metrics.clone())?.iter().all(|has| *has == all);
        let mut numbers = Vec::with_capacity(metrics.len() * self.used);
        for metric in metrics.filter(|_| are_whole) {
            numbers.extend(self.bits.get(metric..)?.iter().step_by(self.stride).take(self.used));
        }
        are_whole.then_some(numbers)
    }

    /// Calls with the row and the bits of each number of a metric of a table, in the order in which they came.
    #[inline(always)]
    pub(super) fn each(&self, table: usize, metric: usize, mut take: impl FnMut(usize, u64)) {
        let mut left = self.has.get(metric).copied().unwrap_or(0);
        while left != 0 {
            let sample = left.trailing_zeros() as usize;
            left &= left - 1;
            if let (Some(&row), Some(&bits)) =
                (self.rows.get(table * DEPTH + sample), self.bits.get(sample * self.stride + metric))
                && row != NONE
            {
                take(row as usize, bits);
            }
        }
    }

    /// Forgets all.
    fn clear(&mut self) {
        self.has.fill(0);
        self.rows.fill(NONE);
        self.used = 0;
    }
}

/// The stages of an export.
pub(super) struct Stages {
    width: usize,
    tables: usize,
    made: usize,
    back: Arc<Back>,
}

/// Those that came back.
#[derive(Default)]
struct Back {
    stages: Mutex<Vec<Stage>>,
    came: Condvar,
}

/// A stage that is full, until the last one who reads it has.
pub(super) struct Full {
    /// There is one until it goes back.
    stage: Option<Stage>,
    back: Arc<Back>,
}

impl Stages {
    /// For so many metrics, in so many tables.
    pub(super) fn new(width: usize, tables: usize) -> Stages {
        Stages { width, tables, made: 0, back: Arc::default() }
    }

    /// An empty one. Waits for it where there are as many as may be.
    pub(super) fn empty(&mut self) -> Stage {
        if self.made < STAGES {
            self.made += 1;
            return Stage::new(self.width, self.tables);
        }
        let stages = self.back.stages.lock().unwrap_or_else(PoisonError::into_inner);
        let none = |stages: &mut Vec<Stage>| stages.is_empty();
        let waited = self.back.came.wait_while(stages, none);
        let mut stage = waited.unwrap_or_else(PoisonError::into_inner).pop();
        stage.take().unwrap_or_else(|| Stage::new(self.width, self.tables))
    }

    /// One that comes back when all have dropped it.
    pub(super) fn full(&self, stage: Stage) -> Full {
        Full { stage: Some(stage), back: Arc::clone(&self.back) }
    }
}

impl Full {
    /// The numbers.
    pub(super) fn stage(&self) -> Option<&Stage> {
        self.stage.as_ref()
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        let Some(mut stage) = self.stage.take() else { return };
        stage.clear();
        self.back.stages.lock().unwrap_or_else(PoisonError::into_inner).push(stage);
        self.back.came.notify_one();
    }
}

/// Whether numbers of this type can be here.
pub(super) fn takes(value_type: ValueType) -> bool {
    value_type.is_numeric()
}

#[inline(always)]
fn bits_of(number: Number) -> u64 {
    match number {
        Number::I32(number) => u64::from(number.cast_unsigned()),
        Number::U32(number) => number.into(),
        Number::I64(number) => number.cast_unsigned(),
        Number::U64(number) => number,
        Number::Float(number) => number.to_bits().into(),
        Number::Double(number) => number.to_bits(),
    }
}

/// What is a number in a stage.
pub(super) trait OfBits {
    /// The number by its bits.
    fn of_bits(bits: u64) -> Self;
}

macro_rules! of_bits {
    ($($number:ty: $of:expr),*) => {$(
        impl OfBits for $number {
            #[inline(always)]
            fn of_bits(bits: u64) -> $number {
                $of(bits)
            }
        }
    )*};
}
of_bits!(
    i32: |bits| (bits as u32).cast_signed(),
    u32: |bits| bits as u32,
    i64: u64::cast_signed,
    u64: |bits| bits,
    f32: |bits| f32::from_bits(bits as u32),
    f64: f64::from_bits
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_out_by_metric() {
        let mut stage = Stage::new(3, 2);
        assert!(stage.is_empty() && stage.begin() && !stage.is_empty());
        stage.row(0, 3);
        stage.row(1, 7);
        stage.put(0, Number::I32(-1));
        stage.put(1, Number::Double(0.5));
        assert!(stage.begin());
        stage.row(0, 4);
        stage.put(0, Number::Float(1.5));
        let of = |stage: &Stage, table, metric| {
            let mut all = Vec::new();
            stage.each(table, metric, |row, bits| all.push((row, bits)));
            all
        };
        let (minus_one, one_and_a_half) = (u64::from(u32::MAX), 1.5_f32.to_bits().into());
        assert_eq!(of(&stage, 0, 0), [(3, minus_one), (4, one_and_a_half)]);
        assert_eq!(of(&stage, 1, 1), [(7, 0.5_f64.to_bits())]);
        assert!(of(&stage, 1, 2).is_empty());
        assert_eq!((stage.run(0), stage.run(1)), (Some(3), None));
        let all = |stage: &Stage, metric| stage.all(metric..metric + 1);
        assert_eq!(all(&stage, 0), Some(vec![minus_one, one_and_a_half]));
        assert_eq!((all(&stage, 1), all(&stage, 2), stage.samples()), (None, None, 2));
        while stage.begin() {
            stage.row(0, 5);
            stage.put(0, Number::I32(1));
        }
        assert_eq!(
            (stage.run(0), all(&stage, 0).map(|all| all.len())),
            (None, Some(DEPTH)),
            "rows are the same"
        );
        stage.clear();
        assert!(all(&stage, 0).is_none() && stage.run(0).is_none());
        assert!(stage.begin());
        assert!(of(&stage, 0, 0).is_empty() && of(&stage, 1, 1).is_empty() && all(&stage, 0).is_none());
    }

    #[test]
    fn numbers_are_taken_from_their_places() {
        let data = [&[0xff; 3][..], &7_u32.to_be_bytes(), &(1_u64 << 40).to_be_bytes(), &9_u32.to_be_bytes()]
            .concat();
        let mut stage = Stage::new(3, 1);
        assert!(stage.begin());
        stage.row(0, 0);
        stage.put_all::<4>(&[(15, 0), (3, 2)], &data);
        // Neither what is no place of the data nor who is no metric is anything.
        stage.put_all::<8>(&[(7, 1), (12, 0), (7, 3)], &data);
        assert_eq!(stage.all(0..3), Some(vec![9, 1 << 40, 7]));
        assert!(stage.begin());
        stage.row(0, 1);
        stage.put_all::<4>(&[(3, 0), (15, 2)], &data);
        assert_eq!((stage.all(0..1), stage.all(2..3)), (Some(vec![9, 7]), Some(vec![7, 9])));
        assert_eq!((stage.all(0..3), stage.all(2..4)), (None, None), "one is missing, one is no metric");
    }

    #[test]
    fn who_fills_waits_until_all_have_read() {
        let mut stages = Stages::new(3, 1);
        let mut full: Vec<Arc<Full>> = (0..STAGES)
            .map(|_| {
                let mut stage = stages.empty();
                assert!(stage.begin());
                stage.row(0, 1);
                stage.put(2, Number::U32(1));
                Arc::new(stages.full(stage))
            })
            .collect();
        let last = full.pop().expect("there are some");
        let other = Arc::clone(&last);
        let reader = std::thread::spawn(move || {
            let read = other.stage().and_then(|stage| stage.run(0));
            drop(last);
            drop(other);
            read
        });
        let again = stages.empty();
        assert!(again.is_empty() && again.run(0).is_none(), "nothing is left in it");
        assert_eq!(reader.join().expect("no panic"), Some(1));
    }
}
