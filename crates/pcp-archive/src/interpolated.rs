//! One value out of the two around it, by type and semantics (spec `archive.md` 14.3 and 14.4).

use pcp_model::{Desc, Inst, PmError, Semantics, ValueType};
use pcp_pdu::{Fetched, ValueRef};

/// Length and type in front of a block's bytes.
const BLOCK_HEAD: usize = 4;
const TWO_63: f64 = 9_223_372_036_854_775_808.0;

/// How values of a metric are interpolated.
pub(super) struct Rule {
    value_type: ValueType,
    semantics: Semantics,
    /// How FLOAT values are recorded: in place, as ancient loggers did, or in blocks.
    float_in_situ: Option<bool>,
    options: RuleOptions,
}

/// What is the same for all metrics.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuleOptions {
    /// Whether a counter that falls has wrapped (`$PCP_COUNTER_WRAP`).
    pub wrap: bool,
    /// Whether a reading between two is the nearer one; else the earlier.
    pub nearest: bool,
}

/// A recorded value: a number of the metric's type, its bits in the low end, or the block of anything else.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Held {
    Number(u64),
    Block(Box<[u8]>),
}

/// What is known around a time.
pub(super) struct Bounds<'a> {
    pub now: Moment,
    /// The last value not behind it.
    pub before: Option<(Moment, &'a Held)>,
    /// The first value not in front of it.
    pub after: Option<(Moment, &'a Held)>,
}

/// A time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Nanoseconds since the start of the archive.
    pub nanos: i64,
    /// The same in seconds, rounded as the difference of two timestamps is: the library's values show that.
    seconds: f64,
}

impl Moment {
    /// For an archive that starts `nsec` nanoseconds behind a whole second.
    pub(crate) fn new(nanos: i64, nsec: u32) -> Moment {
        const SECOND: i64 = 1_000_000_000;
        let nsec = i64::from(nsec);
        let total = nanos.saturating_add(nsec);
        let (sec, rest) = (total.div_euclid(SECOND), total.rem_euclid(SECOND));
        Moment { nanos, seconds: sec as f64 + (rest - nsec) as f64 / SECOND as f64 }
    }
}

/// The value at a time.
#[derive(Debug, PartialEq)]
pub(super) enum Answer<'a> {
    Number(u64),
    Block(&'a [u8]),
}

impl Rule {
    pub(crate) fn new(desc: &Desc, options: RuleOptions) -> Rule {
        Rule { value_type: desc.value_type, semantics: desc.semantics, float_in_situ: None, options }
    }

    /// Whether the value behind matters.
    pub(crate) fn needs_next(&self) -> bool {
        self.semantics != Semantics::Discrete || (self.options.nearest && self.value_type.is_numeric())
    }

    /// Whether there is no value without the one behind.
    pub(crate) fn needs_both(&self) -> bool {
        self.semantics != Semantics::Discrete
    }

    pub(crate) fn is_counter(&self) -> bool {
        self.semantics == Semantics::Counter
    }

    /// Keeps a recorded value, if it is of the metric's type, recorded as its others are.
    pub(crate) fn hold(&mut self, value: ValueRef<'_>) -> Option<Held> {
        match (self.value_type, value) {
            (ValueType::I32 | ValueType::U32, ValueRef::InSitu(word)) => {
                Some(Held::Number(u32::from_be_bytes(word).into()))
            }
            (ValueType::Float, value) => {
                let (in_situ, word) = match value {
                    ValueRef::InSitu(word) => (true, word),
                    ValueRef::Block(block) => (false, *block.get(4..)?.first_chunk()?),
                };
                // The first value decides: answers have to be in one format.
                let as_before = *self.float_in_situ.get_or_insert(in_situ) == in_situ;
                as_before.then(|| Held::Number(u32::from_be_bytes(word).into()))
            }
            (ValueType::I64 | ValueType::U64 | ValueType::Double, ValueRef::Block(block)) => {
                Some(Held::Number(u64::from_be_bytes(*block.get(4..)?.first_chunk()?)))
            }
            (
                ValueType::String
                | ValueType::Aggregate
                | ValueType::AggregateStatic
                | ValueType::Event
                | ValueType::HighResEvent,
                ValueRef::Block(block),
            ) => Some(Held::Block(block.into())),
            _ => None,
        }
    }

    /// The value, if there is one.
    ///
    /// # Errors
    /// [`PmError::TYPE`] for a counter that is no number.
    pub(crate) fn value<'a>(&self, bounds: &Bounds<'a>) -> Result<Option<Answer<'a>>, PmError> {
        let Some((before_at, before)) = bounds.before else { return Ok(None) };
        let after = match bounds.after {
            Some(after) => Some(after),
            None if self.needs_both() => return Ok(None),
            None => None,
        };
        if !self.value_type.is_numeric() {
            return if self.is_counter() { Err(PmError::TYPE) } else { Ok(Some(before.into())) };
        }
        let now = bounds.now.nanos;
        let Some((after_at, after)) = after.filter(|_| before_at.nanos != now) else {
            return Ok(Some(before.into()));
        };
        if after_at.nanos == now {
            return Ok(Some(after.into()));
        }
        Ok(Some(match (before, after) {
            (Held::Number(before), Held::Number(after)) if self.is_counter() => {
                let times = [bounds.now.seconds, before_at.seconds, after_at.seconds];
                Answer::Number(self.between(times, *before, *after))
            }
            // The nearer one; of two as near, the earlier.
            _ => {
                let far = now.saturating_sub(before_at.nanos) > after_at.nanos.saturating_sub(now);
                (if self.options.nearest && far { after } else { before }).into()
            }
        }))
    }

    /// On the line between two values of a counter. The order of the operations decides how it rounds.
    fn between(&self, [now, begin, end]: [f64; 3], before: u64, after: u64) -> u64 {
        let part = |diff: f64| (now - begin) * diff / (end - begin);
        match self.value_type {
            ValueType::I32 => {
                let (b, a) = (before as i32, after as i32);
                if self.options.wrap && a < b {
                    // The way round the type's range, not the way back.
                    let diff = f64::from((a as u32).wrapping_sub(b as u32));
                    return u64::from((b as u32).wrapping_add((0.5 + part(diff)) as u32));
                }
                let value = 0.5 + f64::from(b) + part(f64::from(a.wrapping_sub(b)));
                // Out of range is what x86 makes of it.
                let fits = value > f64::from(i32::MIN) - 1.0 && value < f64::from(i32::MAX) + 1.0;
                u64::from((if fits { value as i32 } else { i32::MIN }) as u32)
            }
            ValueType::U32 => {
                let (b, a) = (before as u32, after as u32);
                u64::from(if a >= b {
                    (0.5 + f64::from(b) + part(f64::from(a - b))) as u32
                } else if self.options.wrap {
                    b.wrapping_add((0.5 + part(f64::from(a.wrapping_sub(b)))) as u32)
                } else {
                    (0.5 + f64::from(b) - part(f64::from(b - a))) as u32
                })
            }
            ValueType::I64 => {
                let (b, a) = (before as i64, after as i64);
                if self.options.wrap && a < b {
                    return before.wrapping_add((0.5 + part(after.wrapping_sub(before) as f64)) as u64);
                }
                let value = 0.5 + b as f64 + part(a.wrapping_sub(b) as f64);
                (if value < TWO_63 { value as i64 } else { i64::MIN }) as u64
            }
            ValueType::U64 => {
                if self.options.wrap && after < before {
                    return before.wrapping_add((0.5 + part(after.wrapping_sub(before) as f64)) as u64);
                }
                // As signed numbers, which is exact near 2^64 and goes the shorter way, unless that would be another way up, or out
                // of their range.
                let diff = after.wrapping_sub(before) as i64;
                let value = 0.5 + before as i64 as f64 + part(diff as f64);
                if (after < before || diff >= 0) && value >= -TWO_63 {
                    return if value < TWO_63 { value as i64 as u64 } else { value as u64 };
                }
                let unsigned = before as f64 + 0.5;
                match after >= before {
                    true => (unsigned + part((after - before) as f64)) as u64,
                    false => (unsigned - part((before - after) as f64)) as u64,
                }
            }
            ValueType::Float => {
                let (b, a) = (f32::from_bits(before as u32), f32::from_bits(after as u32));
                u64::from(((f64::from(b) + part(f64::from(a - b))) as f32).to_bits())
            }
            _ => {
                let (b, a) = (f64::from_bits(before), f64::from_bits(after));
                (b + part(a - b)).to_bits()
            }
        }
    }

    /// Appends an answer to the set that was begun.
    ///
    /// # Errors
    /// [`PmError::TOOBIG`].
    pub(crate) fn push(&self, inst: Inst, answer: Answer<'_>, out: &mut Fetched) -> Result<(), PmError> {
        let number = match answer {
            Answer::Block(block) => return out.push(inst, ValueRef::Block(block)),
            Answer::Number(number) => number,
        };
        let in_situ = match self.value_type {
            ValueType::Float => self.float_in_situ == Some(true),
            value_type => matches!(value_type, ValueType::I32 | ValueType::U32),
        };
        if in_situ {
            return out.push(inst, ValueRef::InSitu((number as u32).to_be_bytes()));
        }
        let (bytes, low) = (number.to_be_bytes(), (number as u32).to_be_bytes());
        let data = if self.value_type == ValueType::Float { &low[..] } else { &bytes };
        let mut block = [0; 12];
        let len = 4 + data.len();
        block[..4].copy_from_slice(&((self.value_type.code() as u32) << 24 | len as u32).to_be_bytes());
        block[4..len].copy_from_slice(data);
        out.push(inst, ValueRef::Block(&block[..len]))
    }
}

impl Rule {
    /// A value in words.
    pub(crate) fn show(&self, value: &Answer<'_>) -> String {
        let number = match value {
            Answer::Block(block) => return format!("{} bytes", block.len().saturating_sub(BLOCK_HEAD)),
            Answer::Number(number) => *number,
        };
        match self.value_type {
            ValueType::I32 => (number as i32).to_string(),
            ValueType::I64 => (number as i64).to_string(),
            ValueType::Float => f32::from_bits(number as u32).to_string(),
            ValueType::Double => f64::from_bits(number).to_string(),
            _ => number.to_string(),
        }
    }

    /// How a value between two is made, in words.
    pub(crate) fn in_words(&self) -> &'static str {
        match self.semantics {
            Semantics::Counter => "a counter: on the line between the two",
            _ if self.value_type.is_numeric() && self.options.nearest => "the nearer of the two",
            _ => "the one before",
        }
    }
}

impl<'a> From<&'a Held> for Answer<'a> {
    fn from(held: &'a Held) -> Answer<'a> {
        match held {
            Held::Number(number) => Answer::Number(*number),
            Held::Block(block) => Answer::Block(block),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcp_model::{InDom, Pmid, Units};

    fn rule(value_type: ValueType, semantics: Semantics, wrap: bool) -> Rule {
        let desc = Desc {
            pmid: Pmid::new(245, 0, 1),
            value_type,
            indom: InDom::NULL,
            semantics,
            units: Units::NONE,
        };
        Rule::new(&desc, RuleOptions { wrap, nearest: true })
    }

    /// The value at `now` seconds, of two that are 10 seconds apart.
    fn at(rule: &Rule, now: f64, before: u64, after: u64) -> u64 {
        let (before, after) = (Held::Number(before), Held::Number(after));
        let bounds = Bounds {
            now: Moment::new((now * 1e9) as i64, 0),
            before: Some((Moment::new(0, 0), &before)),
            after: Some((Moment::new(10_000_000_000, 0), &after)),
        };
        match rule.value(&bounds).unwrap().unwrap() {
            Answer::Number(number) => number,
            Answer::Block(_) => panic!("a number was expected"),
        }
    }

    #[test]
    fn counters_of_the_specification() {
        let counter = |value_type| rule(value_type, Semantics::Counter, false);
        let u32s = counter(ValueType::U32);
        assert_eq!([2.5, 5.0, 7.5].map(|now| at(&u32s, now, 10, 30)), [15, 20, 25]);
        assert_eq!(at(&u32s, 5.0, 4_294_967_290, 10), 2_147_483_650);
        let i32s = counter(ValueType::I32);
        assert_eq!([2.5, 5.0, 7.5].map(|now| at(&i32s, now, 100, 50)), [88, 75, 63]);
        assert_eq!(at(&i32s, 5.0, 2_147_483_640, (-2_147_483_640_i32) as u32 as u64) as i32, i32::MIN);
        let i64s = counter(ValueType::I64);
        assert_eq!(at(&i64s, 5.0, -5_i64 as u64, 100), 48);
        let doubles = counter(ValueType::Double);
        assert_eq!(f64::from_bits(at(&doubles, 2.5, 1_f64.to_bits(), 4_f64.to_bits())), 1.75);
        assert_eq!(at(&rule(ValueType::U32, Semantics::Counter, true), 5.0, 4_294_967_290, 10), 2);
    }

    #[test]
    fn u64_counters_near_their_ends() {
        let u64s = rule(ValueType::U64, Semantics::Counter, false);
        let between = |before, after| [2.5, 5.0, 7.5].map(|now| at(&u64s, now, before, after));
        // What pmval 6.0.3 and 6.3.8 print: 17 below 2^64, over the wrap, above 2^53, falling.
        assert_eq!(between(u64::MAX - 16, u64::MAX - 8), [u64::MAX - 13, u64::MAX - 11, u64::MAX - 9]);
        assert_eq!(between(u64::MAX - 8, 3), [u64::MAX - 4, u64::MAX - 1, 0]);
        let high = 1_u64 << 53;
        assert_eq!(between(high + 1, high + 4), [high, high + 2, high + 2]);
        let falls = [893_964_526_033_043_456, 598_978_750_440_275_968, 303_992_974_847_508_480];
        assert_eq!(between((1 << 60) + (1 << 55) + 13, high + 1), falls);
        let (half, quarter) = (1_u64 << 63, 1_u64 << 62);
        assert_eq!(between(half - 9, half + 4), [half; 3]);
        assert_eq!(between(half - 6, u64::MAX - 7), [1, 2, 3].map(|part| half + part * (quarter >> 1)));
        // Up by more than 2^63, and down by as much, where they print numbers of another sign, and 2^63.
        assert_eq!(between(4, half + quarter), [1, 2, 3].map(|part| part * (quarter - (quarter >> 2))));
        assert_eq!(between(half + 1001, 1001)[1], quarter);
        let wraps = rule(ValueType::U64, Semantics::Counter, true);
        assert_eq!(at(&wraps, 5.0, u64::MAX - 8, 3), u64::MAX - 2);
    }

    #[test]
    fn readings_take_the_nearest_and_the_earlier_of_two() {
        for semantics in [Semantics::Instant, Semantics::Discrete] {
            let rule = rule(ValueType::U32, semantics, false);
            assert_eq!([0.0, 2.5, 5.0, 7.5, 10.0].map(|now| at(&rule, now, 5, 15)), [5, 5, 5, 15, 15]);
        }
        let text = rule(ValueType::String, Semantics::Counter, false);
        let held = Held::Block(b"x".as_slice().into());
        let [now, before, after] = [5, 0, 9].map(|nanos| Moment::new(nanos, 0));
        let bounds = Bounds { now, before: Some((before, &held)), after: Some((after, &held)) };
        assert_eq!(text.value(&bounds), Err(PmError::TYPE));
    }
}
